//! Plots as SVG: lines over linear or logarithmic axes, with a legend above them.
//!
//! The colours are those of Okabe and Ito (2008), which people with any colour vision can
//! distinguish; without colours the marks can be. The legend is above the plot, so that it
//! never covers a line, and has one row per name, because the width of text in the
//! reader's font is unknown.

use std::ops::Range;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::coord::{CoordTranslate, Shift};
use plotters::element::{DynElement, IntoDynElement};
use plotters::prelude::*;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Width in pixels; the height is that of the plot plus a row for each name.
const WIDTH: u32 = 680;
const HEIGHT: u32 = 400;
const ROW: u32 = 24;

/// Marks along a line, so that it can be followed where lines cross.
const MARKS: usize = 12;

/// Those of Okabe and Ito, without yellow, which is too pale on paper.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

/// A named line.
#[derive(Debug, Clone)]
pub struct PlotLine {
    /// The text of the legend.
    pub name: String,
    /// In order.
    pub points: Vec<(f64, f64)>,
}

/// The scales of the axes. Values on a logarithmic one must be above 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Both linear, from 0.
    Linear,
    /// The horizontal one logarithmic, the vertical one linear from 0.
    LogarithmicX,
    /// Both logarithmic.
    Logarithmic,
}

/// A plot.
#[derive(Debug)]
pub struct Plot {
    /// Label of the horizontal axis, with its unit.
    pub x: String,
    /// Label of the vertical axis, with its unit.
    pub y: String,
    /// The scales of the axes.
    pub scale: Scale,
    /// The lines.
    pub lines: Vec<PlotLine>,
}

impl Plot {
    /// The SVG; `None` if there is no point to draw.
    pub fn svg(&self) -> Option<String> {
        let points = || self.lines.iter().flat_map(|l| &l.points);
        let [x, y] = [range(points().map(|p| p.0)), range(points().map(|p| p.1))];
        let (x, y) = (x?, y?);
        let mut svg = String::new();
        let rows = u32::try_from(self.lines.len()).unwrap_or(u32::MAX);
        let top = rows.saturating_mul(ROW);
        let backend = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT.saturating_add(top)));
        let drawn = self.draw(&backend.into_drawing_area(), top, x, y);
        if let Err(error) = drawn {
            tracing::warn!("a plot of {} cannot be drawn: {error}", self.y);
            return None;
        }
        Some(svg)
    }

    fn draw(&self, area: &Area<'_>, top: u32, x: Range<f64>, y: Range<f64>) -> Drawn {
        area.fill(&WHITE)?;
        let (legend, area) = area.split_vertically(top);
        for (n, line) in self.lines.iter().enumerate() {
            let at = i32::try_from(n as u32 * ROW + ROW / 2)?;
            let path = vec![(78, at), (118, at)];
            legend.draw(&PathElement::new(path, colour(n).stroke_width(2)))?;
            legend.draw(&mark(n, (98, at)))?;
            let style = font(18).pos(middle_left());
            legend.draw(&Text::new(line.name.clone(), (128, at), style))?;
        }
        let powers = |range: Range<f64>| {
            let at = ticks(&range);
            range.log_scale().with_key_points(at)
        };
        let from_first = x.start..x.end.max(x.start * 10.0);
        let from_zero = 0.0..(y.end * 1.05).max(1.0);
        match self.scale {
            Scale::Linear => {
                self.lines(&area, 0.0..x.end.max(f64::MIN_POSITIVE), from_zero)?;
            }
            Scale::LogarithmicX => self.lines(&area, powers(from_first), from_zero)?,
            Scale::Logarithmic => {
                let y = y.start / 1.2..(y.end * 1.2).max(y.start * 10.0);
                self.lines(&area, powers(from_first), powers(y))?;
            }
        }
        area.present()?;
        Ok(())
    }

    fn lines<X, Y>(&self, area: &Area<'_>, x: X, y: Y) -> Drawn
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
        Y::CoordDescType: ValueFormatter<f64>,
        Cartesian2d<X::CoordDescType, Y::CoordDescType>: CoordTranslate<From = (f64, f64)>,
    {
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .margin_right(30)
            .set_label_area_size(LabelAreaPosition::Left, 68)
            .set_label_area_size(LabelAreaPosition::Bottom, 52)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(&self.x)
            .y_desc(&self.y)
            .x_labels(8)
            .y_labels(8)
            .x_label_formatter(&|v| short(*v))
            .y_label_formatter(&|v| short(*v))
            .label_style(font(17))
            .axis_desc_style(font(18))
            .bold_line_style(RGBColor(190, 190, 190))
            .light_line_style(RGBColor(228, 228, 228))
            .max_light_lines(4)
            .draw()?;
        for (n, line) in self.lines.iter().enumerate() {
            let style = colour(n).stroke_width(2);
            chart.draw_series(LineSeries::new(line.points.iter().copied(), style))?;
            let step = line.points.len().div_ceil(MARKS).max(1);
            // Starts at different positions, so that the marks of equal lines do not hide
            // each other.
            let marked = line.points.iter().skip(n * step / 7 % step.max(1));
            for point in marked.step_by(step) {
                chart.plotting_area().draw(&mark(n, *point))?;
            }
        }
        Ok(())
    }
}

/// The labels of a logarithmic axis: 1, 2 and 5 times each power of ten, or only the
/// powers if there are many.
fn ticks(range: &Range<f64>) -> Vec<f64> {
    let first = range.start.log10().floor() as i32;
    let last = range.end.log10().ceil() as i32;
    let steps: &[f64] = match last.saturating_sub(first) {
        ..=4 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let all = (first..=last).flat_map(|power| steps.iter().map(move |s| s * 10f64.powi(power)));
    all.filter(|tick| range.contains(tick)).collect()
}

/// A number as an axis label: 1500000 is 1.5M.
fn short(value: f64) -> String {
    let (value, unit) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{unit}")
}

/// The range of all drawable values.
fn range(values: impl Iterator<Item = f64>) -> Option<Range<f64>> {
    values.filter(|v| v.is_finite()).fold(None, |range, value| {
        let range = range.unwrap_or(value..value);
        Some(range.start.min(value)..range.end.max(value))
    })
}

fn colour(n: usize) -> RGBColor {
    *COLOURS.get(n % COLOURS.len()).unwrap_or(&BLACK)
}

fn font(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&BLACK)
}

fn middle_left() -> plotters::style::text_anchor::Pos {
    use plotters::style::text_anchor::{HPos, Pos, VPos};
    Pos::new(HPos::Left, VPos::Center)
}

/// The mark of a line by its number, with its own shape and colour.
fn mark<'a, C: Clone + 'a>(n: usize, at: C) -> DynElement<'a, SVGBackend<'a>, C> {
    const SHAPES: [&[(i32, i32)]; 7] = [
        // Circle, square, triangle, diamond, triangle downwards, bar, upright bar.
        &[
            (-2, -5),
            (2, -5),
            (5, -2),
            (5, 2),
            (2, 5),
            (-2, 5),
            (-5, 2),
            (-5, -2),
        ],
        &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
        &[(0, -6), (6, 5), (-6, 5)],
        &[(0, -6), (6, 0), (0, 6), (-6, 0)],
        &[(0, 6), (6, -5), (-6, -5)],
        &[(-6, -2), (6, -2), (6, 2), (-6, 2)],
        &[(-2, -6), (2, -6), (2, 6), (-2, 6)],
    ];
    let shape = SHAPES.get(n % SHAPES.len()).copied().unwrap_or_default();
    (EmptyElement::at(at) + Polygon::new(shape, colour(n).filled())).into_dyn()
}
