//! The lines of a region, and where its paragraphs begin.

use icu_normalizer::ComposingNormalizerBorrowed;

use super::super::original::Start;
use super::segments::{PlacedGlyph, PlacedRun};
use super::{PlacedLine, direction, is_mark, is_unspaced};

/// The narrowest gap between two words, relative to the font size. TeX shrinks spaces down to 0.22.
const WORD: f32 = 0.14;

/// The minimum number of gaps for recognising spaced letters, and the widest gap between two of
/// them.
const FEWEST: usize = 5;
const WIDEST: f32 = 0.6;
/// The same between characters of scripts without spaces, which are spread to fill lines.
const UNSPACED: f32 = 0.6;
/// How far base lines of one row may differ, relative to the font size.
const SAME: f32 = 0.35;
/// The maximum offset of raised and lowered parts, which are smaller.
const RAISED: f32 = 0.55;
/// The distance of two lines relative to the usual one at which a paragraph begins.
const LEAD: f32 = 1.25;
/// The indent of a paragraph's first line, relative to the font size.
const INDENT: f32 = 0.8;
/// The minimum free share of the width in a last line.
const SHORT: f32 = 0.25;

/// A line of a region.
struct RegionRow {
    text: String,
    x0: f32,
    x1: f32,
    y: f32,
    size: f32,
}

/// Adds the lines of a region.
pub(super) fn lines(region: Vec<PlacedRun>, lines: &mut Vec<PlacedLine>) {
    let rows: Vec<RegionRow> = rows(region)
        .into_iter()
        .map(row)
        .filter(|row| !row.text.is_empty())
        .collect();
    let starts = starts(&rows);
    let placed = rows.into_iter().zip(starts);
    lines.extend(placed.map(|(row, start)| PlacedLine {
        text: row.text,
        start,
        size: row.size,
    }));
}

/// The segments of each row.
fn rows(segments: Vec<PlacedRun>) -> Vec<Vec<PlacedRun>> {
    let mut rows: Vec<Vec<PlacedRun>> = Vec::new();
    // The base line and the size of the largest segment of the last row.
    let (mut y, mut size) = (f32::NEG_INFINITY, 0.0_f32);
    for segment in segments {
        let apart = segment.y - y;
        let larger = size.max(segment.size);
        let is_smaller = size.min(segment.size) < 0.8 * larger;
        let most = if is_smaller { RAISED } else { SAME };
        let same = apart <= most * larger;
        match rows.last_mut() {
            Some(row) if same => {
                if segment.size > size * 1.05 {
                    (y, size) = (segment.y, segment.size);
                }
                row.push(segment);
            }
            _ => {
                (y, size) = (segment.y, segment.size);
                rows.push(vec![segment]);
            }
        }
    }
    rows
}

fn row(segments: Vec<PlacedRun>) -> RegionRow {
    let mut row = RegionRow {
        text: String::new(),
        x0: f32::INFINITY,
        x1: f32::NEG_INFINITY,
        y: 0.0,
        size: 0.0,
    };
    let mut items: Vec<PlacedGlyph> = Vec::new();
    for segment in segments {
        row.x0 = row.x0.min(segment.x0);
        row.x1 = row.x1.max(segment.x1);
        if segment.size > row.size {
            (row.y, row.size) = (segment.y, segment.size);
        }
        items.extend(segment.items);
    }
    items.sort_by(|a, b| a.x0.total_cmp(&b.x0));
    let tracking = tracking(&items);
    let mut parts: Vec<String> = Vec::with_capacity(items.len());
    let mut before: Option<(f32, f32, bool)> = None;
    let mut blank = false;
    for item in items {
        if item.is_blank() {
            blank = true;
            continue;
        }
        let unspaced = item.text.chars().next().is_some_and(is_unspaced);
        if let Some((end, size, was_unspaced)) = before {
            let least = if unspaced && was_unspaced {
                UNSPACED
            } else {
                WORD
            };
            if blank || item.x0 - end > (least + tracking) * size.min(item.size) {
                parts.push(" ".to_owned());
            }
        }
        blank = false;
        let last_unspaced = item.text.chars().next_back().is_some_and(is_unspaced);
        before = Some((item.x1, item.size, last_unspaced));
        parts.push(item.text);
    }
    let text = direction::logical(&parts);
    row.text = if text.chars().any(is_mark) {
        let normaliser = ComposingNormalizerBorrowed::new_nfc();
        normaliser.normalize(text.trim()).into_owned()
    } else {
        text.trim().to_owned()
    };
    row
}

/// The extra gap between all letters of a row, as in titles, relative to the font size; 0 in a
/// usual row, whose letters touch and which has gaps only between words.
fn tracking(items: &[PlacedGlyph]) -> f32 {
    let pairs = items.iter().zip(items.iter().skip(1));
    let is_word = |item: &PlacedGlyph| item.text.chars().all(char::is_alphabetic);
    // Digits with gaps between them may be table cells.
    let pairs = pairs.filter(|(a, b)| is_word(a) && is_word(b));
    let mut gaps: Vec<f32> = pairs
        .map(|(a, b)| (b.x0 - a.x1) / a.size.min(b.size))
        .collect();
    gaps.sort_by(f32::total_cmp);
    let at = |share: usize| gaps.get(gaps.len() / share).copied().unwrap_or_default();
    let (quarter, middle) = (at(4), at(2));
    if gaps.len() >= FEWEST && quarter > WORD && middle <= WIDEST {
        middle
    } else {
        0.0
    }
}

/// How each row follows the previous one.
fn starts(rows: &[RegionRow]) -> Vec<Start> {
    let usual = usual_distance(rows);
    let left = rows.iter().map(|row| row.x0).fold(f32::INFINITY, f32::min);
    let right = rows
        .iter()
        .map(|row| row.x1)
        .fold(f32::NEG_INFINITY, f32::max);
    let mut starts = Vec::with_capacity(rows.len());
    for (number, row) in rows.iter().enumerate() {
        let Some(before) = number.checked_sub(1).and_then(|before| rows.get(before)) else {
            starts.push(Start::Region);
            continue;
        };
        let distance = row.y - before.y;
        let size = row.size.max(before.size);
        let is_far = usual.is_some_and(|usual| distance > LEAD * usual) || distance > 2.2 * size;
        let other_size = (row.size - before.size).abs() > 0.12 * size;
        let is_set_in = |row: &RegionRow| row.x0 > left + INDENT * row.size;
        let begins = is_set_in(row)
            && row.x0 > before.x0 + INDENT * row.size
            && row.x0 < left + (right - left) * 0.3;
        let is_short = before.x1 < right - SHORT * (right - left) && ends_sentence(&before.text);
        let paragraph = is_far || other_size || begins || is_short || is_listed(&row.text);
        starts.push(if paragraph {
            Start::Paragraph
        } else {
            Start::Within
        });
    }
    starts
}

/// The usual distance between two lines: the median.
fn usual_distance(rows: &[RegionRow]) -> Option<f32> {
    let pairs = rows.windows(2);
    let mut all: Vec<f32> = pairs
        .filter_map(|pair| match pair {
            [above, below] => Some(below.y - above.y),
            _ => None,
        })
        .collect();
    all.sort_by(f32::total_cmp);
    // If many paragraphs have a single line each, the smaller distances are those within
    // paragraphs.
    (all.len() >= 3)
        .then(|| all.get(all.len() * 2 / 5).copied())
        .flatten()
}

/// Whether a line ends like a sentence.
pub(super) fn ends_sentence(text: &str) -> bool {
    let text = text.trim_end_matches(['"', '\'', '”', '’', '»', ')', '」', '』']);
    text.ends_with(['.', '!', '?', ':', '…', '。', '！', '？', '؟', '۔'])
}

/// Whether a line begins with the marker of a list item.
fn is_listed(text: &str) -> bool {
    text.starts_with(['•', '▪', '◦', '‣', '●', '∙', '■', '–', '—'])
        && text.chars().nth(1).is_some_and(char::is_whitespace)
}
