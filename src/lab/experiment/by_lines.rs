//! The benefit of more text about a topic: results by lines of text, as table and plots.

use super::harvest::{GroupMeans, Outcome, mean, percent, size};
use super::plan::ORACLE;
use super::plan::plain;
use super::sizes::MEAN;
use spoor::corpus::report::plot::{Plot, PlotLine, Scale};

impl Outcome {
    /// Whether the plan gives sizes of the texts.
    pub(super) fn has_sizes(&self) -> bool {
        !self.texts.is_empty()
    }

    /// The mean share of the oracle over topics, with a row for each beginning and variant
    /// and a column for each size. Only a header if there are no results.
    pub(super) fn lines_table(&self, rows: &[GroupMeans<'_>]) -> Vec<Vec<String>> {
        let rows = selected(rows, |row| self.has_sizes() && row.share.is_some());
        let sizes = each(&rows, |row| row.group.lines);
        let header = ["begin", "variant"].map(str::to_owned).into_iter();
        let header = header.chain(sizes.iter().map(|lines| size(*lines)));
        let mut table = vec![header.collect()];
        let groups = each(&rows, |row| (row.group.begin, row.group.variant));
        table.extend(groups.into_iter().map(|(begin, variant)| {
            let shares = sizes.iter().map(|lines| {
                let of = rows.iter().filter(|row| {
                    let group = row.group;
                    (group.begin, group.variant, group.lines) == (begin, variant, *lines)
                });
                percent(mean(of.filter_map(|row| row.share)))
            });
            let names = [begin, variant].map(str::to_owned).into_iter();
            names.chain(shares).collect()
        }));
        table
    }

    /// For each topic and beginning, and for each beginning over all topics, the results of each
    /// variant by lines of text; by file name.
    pub(super) fn lines_plots(&self) -> Vec<(String, String)> {
        let rows = self.rows();
        let rows = selected(&rows, |_| self.has_sizes());
        let topics = each(&rows, |row| (Some(row.group.topic), row.group.begin));
        let means = each(&rows, |row| (None, row.group.begin));
        let scenes = topics.into_iter().chain(means);
        let plots = scenes.filter_map(|(topic, begin)| {
            let of_scene = |row: &&GroupMeans<'_>| {
                row.group.begin == begin && topic.is_none_or(|topic| topic == row.group.topic)
            };
            let rows: Vec<&GroupMeans<'_>> = rows.iter().copied().filter(of_scene).collect();
            let name = plain(&format!("{}-{begin}-lines", topic.unwrap_or(MEAN)));
            Some((name, self.lines_plot(topic, begin, &rows).svg()?))
        });
        plots.collect()
    }

    /// The plot of one beginning; of all topics together if none is given.
    fn lines_plot(&self, topic: Option<&str>, begin: &str, rows: &[&GroupMeans<'_>]) -> Plot {
        let has_oracle = rows.iter().any(|row| row.share.is_some());
        let found = |row: &GroupMeans<'_>| {
            if has_oracle {
                row.share.map(|share| share * 100.0)
            } else {
                Some(row.total)
            }
        };
        let all = |row: &GroupMeans<'_>| self.texts.get(row.group.topic).copied();
        let variants = each(rows, |row| row.group.variant).into_iter();
        let lines = variants.map(|variant| {
            let of_variant = rows.iter().filter(|row| row.group.variant == variant);
            let of_variant: Vec<&GroupMeans<'_>> = of_variant.copied().collect();
            let sizes = each(&of_variant, |row| row.group.lines).into_iter();
            let points = sizes.filter_map(|lines| {
                let of_size = of_variant.iter().filter(|row| row.group.lines == lines);
                let at = of_size.clone().filter_map(|row| lines.or_else(|| all(row)));
                Some((
                    mean(at.map(|lines| lines as f64))?,
                    mean(of_size.filter_map(|row| found(row)))?,
                ))
            });
            PlotLine {
                name: variant.to_owned(),
                points: points.collect(),
            }
        });
        Plot {
            x: "Lines of text about the topic, up to all".to_owned(),
            y: match (has_oracle, topic) {
                (true, Some(topic)) => format!("Share of the oracle (%), {topic}, {begin}"),
                (true, None) => format!("Mean share of the oracle (%), {begin}"),
                (false, Some(topic)) => format!("Pages of the topic {topic}, {begin}"),
                (false, None) => format!("Mean pages of a topic, {begin}"),
            },
            scale: Scale::LogarithmicX,
            lines: lines.collect(),
        }
    }
}

/// The rows for which `holds` is true, without the oracle's, which does not depend on the
/// text.
fn selected<'a, 'b>(
    rows: &'b [GroupMeans<'a>],
    holds: impl Fn(&GroupMeans<'a>) -> bool,
) -> Vec<&'b GroupMeans<'a>> {
    let rows = rows.iter().filter(|row| row.group.variant != ORACLE);
    rows.filter(|row| holds(row)).collect()
}

/// The distinct values of a property of the rows, in the order of the plan.
fn each<'a, T: PartialEq>(rows: &[&GroupMeans<'a>], of: impl Fn(&GroupMeans<'a>) -> T) -> Vec<T> {
    let mut each = Vec::new();
    for value in rows.iter().map(|row| of(row)) {
        if !each.contains(&value) {
            each.push(value);
        }
    }
    each
}
