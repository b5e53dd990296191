//! The regions of a page in reading order.
//!
//! A column differs from a table in appearance: it has several lines, which are long and fill its
//! width. So a gutter counts only between two such sides, for as many lines as it continues;
//! anything that crosses it (a title, a wide figure) ends the columns, and others may follow.
//! Columns within columns are found in the same way.

use super::is_rtl;
use super::segments::PlacedRun;

/// A region: the segments of one column, from top to bottom.
pub(super) type Region = Vec<PlacedRun>;

/// The narrowest gutter, relative to the font size.
const GUTTER: f32 = 0.8;
/// The fewest lines of a column.
const LINES: usize = 4;
/// The fewest letters of its lines, on average.
const LETTERS: usize = 11;
/// The share of its width that they fill at least.
const FILLED: f32 = 0.5;
/// The minimum share of one column in the width of all columns.
const WIDTH: f32 = 0.15;
/// A page with more segments is a table or a drawing, and searching it would take long.
const MAX_SEGMENTS: usize = 1_500;
/// The minimum distance of the first and the last row of a page from the rest, relative to the font
/// size, if they are its header or footer.
const APART: f32 = 0.8;

/// The regions of a page.
pub(super) fn ordered(mut segments: Vec<PlacedRun>) -> Vec<Region> {
    segments.retain(|segment| segment.x0.is_finite() && segment.y.is_finite());
    segments.sort_by(|a, b| a.y.total_cmp(&b.y).then(a.x0.total_cmp(&b.x0)));
    let mut regions = Vec::new();
    if segments.len() > MAX_SEGMENTS || !are_beside(&segments) {
        regions.push(segments);
    } else {
        let rtl = is_mostly_rtl(&segments);
        let (head, body, foot) = with_edges(segments);
        regions.extend(head);
        columns(body, rtl, 0, &mut regions);
        regions.extend(foot);
    }
    regions.retain(|region| !region.is_empty());
    regions
}

/// Whether any two segments are side by side.
fn are_beside(segments: &[PlacedRun]) -> bool {
    let mut pairs = segments.windows(2);
    pairs.any(|pair| match pair {
        [a, b] => a.bottom() > b.top() && (a.x1 < b.x0 || b.x1 < a.x0),
        _ => false,
    })
}

fn is_mostly_rtl(segments: &[PlacedRun]) -> bool {
    let (mut right, mut left) = (0_usize, 0_usize);
    let items = segments.iter().flat_map(|segment| &segment.items);
    for c in items.flat_map(|item| item.text.chars()) {
        if is_rtl(c) {
            right += 1;
        } else if c.is_alphabetic() {
            left += 1;
        }
    }
    right > left
}

/// Removes up to two rows at the top and the bottom that are apart from the rest: otherwise the
/// parts of a running header would seem to belong to the columns below.
fn with_edges(mut segments: Vec<PlacedRun>) -> (Vec<Region>, Vec<PlacedRun>, Vec<Region>) {
    let mut head = Vec::new();
    let mut foot = Vec::new();
    for _ in 0..2 {
        let Some(first) = segments.first() else { break };
        let bottom = first.bottom();
        let end = segments.iter().position(|segment| segment.top() >= bottom);
        let Some(end) = end else { break };
        let row = segments.get(..end).unwrap_or_default();
        let deepest = row.iter().map(PlacedRun::bottom).fold(bottom, f32::max);
        let size = row.iter().map(|segment| segment.size).fold(0.0, f32::max);
        let next = segments.get(end..).unwrap_or_default();
        let next = next
            .iter()
            .map(PlacedRun::top)
            .fold(f32::INFINITY, f32::min);
        if next - deepest < APART * size {
            break;
        }
        head.push(segments.drain(..end).collect());
    }
    for _ in 0..2 {
        let Some(last) = segments.last() else { break };
        let top = last.top();
        let before = segments.iter().rposition(|segment| segment.bottom() <= top);
        let Some(before) = before else { break };
        let row = segments.get(before + 1..).unwrap_or_default();
        let highest = row.iter().map(PlacedRun::top).fold(top, f32::min);
        let size = row.iter().map(|segment| segment.size).fold(0.0, f32::max);
        let above = segments.get(..=before).unwrap_or_default();
        let above = above
            .iter()
            .map(PlacedRun::bottom)
            .fold(f32::NEG_INFINITY, f32::max);
        if highest - above < APART * size {
            break;
        }
        foot.insert(0, segments.split_off(before + 1));
    }
    (head, segments, foot)
}

/// Adds the regions of some segments, which are sorted from top to bottom.
fn columns(segments: Vec<PlacedRun>, rtl: bool, depth: usize, regions: &mut Vec<Region>) {
    let mut single: Region = Vec::new();
    let mut rest = segments;
    while !rest.is_empty() {
        let found = (depth < 4).then(|| band(&rest)).flatten();
        let Some((begin, end, gutter)) = found else {
            single.append(&mut rest);
            break;
        };
        let after = rest.split_off(end);
        let band = rest.split_off(begin);
        single.append(&mut rest);
        if !single.is_empty() {
            regions.push(std::mem::take(&mut single));
        }
        let (left, right): (Vec<_>, Vec<_>) =
            band.into_iter().partition(|segment| segment.x1 <= gutter);
        let (first, second) = if rtl { (right, left) } else { (left, right) };
        columns(first, rtl, depth + 1, regions);
        columns(second, rtl, depth + 1, regions);
        rest = after;
    }
    if !single.is_empty() {
        regions.push(single);
    }
}

/// The first run of segments with a gutter between two columns: its start and end, and the position
/// of the gutter.
fn band(segments: &[PlacedRun]) -> Option<(usize, usize, f32)> {
    let width = GUTTER * middle_size(segments);
    for begin in 0..segments.len() {
        let own = segments.get(begin..)?;
        // Below a wide segment a new run begins.
        let mut free = Free::default();
        let mut had = false;
        let mut length = 0;
        for segment in own {
            let mut next = free.clone();
            next.cover(segment.x0, segment.x1);
            let has = next.gutters(width).next().is_some();
            if had && !has {
                break;
            }
            had |= has;
            free = next;
            length += 1;
        }
        if !had {
            continue;
        }
        let run = own.get(..length)?;
        let mut gutters: Vec<(f32, f32)> = free.gutters(width).collect();
        gutters.sort_by(|a, b| (b.1 - b.0).total_cmp(&(a.1 - a.0)));
        for (from, to) in gutters {
            let gutter = (from + to) / 2.0;
            if are_columns(run, gutter) {
                return Some((begin, begin + length, gutter));
            }
        }
    }
    None
}

fn middle_size(segments: &[PlacedRun]) -> f32 {
    let mut sizes: Vec<f32> = segments.iter().map(|segment| segment.size).collect();
    sizes.sort_by(f32::total_cmp);
    sizes.get(sizes.len() / 2).copied().unwrap_or(10.0)
}

/// The parts of the width of a page that no segment covers.
#[derive(Clone, Default)]
struct Free {
    covered: Vec<(f32, f32)>,
}

impl Free {
    fn cover(&mut self, x0: f32, x1: f32) {
        let (mut x0, mut x1) = (x0, x1);
        self.covered.retain(|(from, to)| {
            let is_apart = *to < x0 || *from > x1;
            if !is_apart {
                x0 = x0.min(*from);
                x1 = x1.max(*to);
            }
            is_apart
        });
        let place = self.covered.partition_point(|(from, _)| *from < x0);
        self.covered.insert(place, (x0, x1));
    }

    /// The wide enough gaps between two covered parts.
    fn gutters(&self, width: f32) -> impl Iterator<Item = (f32, f32)> + '_ {
        let pairs = self.covered.windows(2);
        let gaps = pairs.filter_map(|pair| match pair {
            [(_, from), (to, _)] => Some((*from, *to)),
            _ => None,
        });
        gaps.filter(move |(from, to)| to - from >= width)
    }
}

/// Whether both sides of a gutter look like columns of text.
fn are_columns(run: &[PlacedRun], gutter: f32) -> bool {
    let (left, right): (Vec<&PlacedRun>, Vec<&PlacedRun>) =
        run.iter().partition(|segment| segment.x1 <= gutter);
    let (Some(left), Some(right)) = (Side::of(&left), Side::of(&right)) else {
        return false;
    };
    let all = right.to - left.from;
    [left, right].iter().all(|side| {
        side.lines >= LINES
            && side.letters >= LETTERS * side.lines
            && side.filled >= FILLED * (side.to - side.from) * side.lines as f32
            && side.to - side.from >= WIDTH * all
    })
}

/// One side of a gutter.
struct Side {
    from: f32,
    to: f32,
    lines: usize,
    letters: usize,
    /// The width of all lines together.
    filled: f32,
}

impl Side {
    fn of(segments: &[&PlacedRun]) -> Option<Self> {
        let mut side = Self {
            from: f32::INFINITY,
            to: f32::NEG_INFINITY,
            lines: 0,
            letters: 0,
            filled: 0.0,
        };
        let mut y = f32::NEG_INFINITY;
        for segment in segments {
            side.from = side.from.min(segment.x0);
            side.to = side.to.max(segment.x1);
            side.letters += segment.letters();
            side.filled += segment.width();
            if segment.y - y > 0.5 * segment.size {
                side.lines += 1;
            }
            y = segment.y;
        }
        (side.lines > 0).then_some(side)
    }
}
