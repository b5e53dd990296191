//! The dense segments of a page, and those that share the words of its title.
//!
//! The method is that of qRead, this crawler's predecessor: the text is laid out in lines,
//! three empty lines end a segment, and a segment is kept if it has enough words per line,
//! or if its words are similar enough to those of the title (the cosine of their counts).
//!
//! Without a real layout, it is approximated. A block is a line. Each start and each end
//! of a block-level element between two blocks is a line end, and so is each `br` and each
//! line end of preformatted text; n consecutive line ends make n - 1 empty lines. Two
//! paragraphs are one empty line apart, as browsers show them; a heading in a `div` of its
//! own is two from the paragraph below it; and between the end of a container and the
//! start of the next there are three or more.
//!
//! The time is linear in the text: each block is visited once, and only the words of
//! sparse segments are counted.

use std::collections::HashMap;

use unicode_segmentation::UnicodeSegmentation;

use super::text::BlockLine;

/// The number of empty lines that end a segment.
const GAP: u32 = 3;
/// The words per line at which a segment is dense.
const MIN_DENSITY: f64 = 10.0;
/// The similarity to the title at which a sparse segment is kept.
const MIN_SIMILARITY: f64 = 0.3;

/// Which of the blocks to keep. `lines` and `words` give the position and the number of
/// words of each block.
pub(super) fn dense(
    blocks: &[String],
    lines: &[BlockLine],
    words: &[u32],
    title: Option<&str>,
) -> Vec<bool> {
    let title = counts(title);
    let mut kept = Vec::with_capacity(blocks.len());
    while kept.len() < blocks.len() {
        let start = kept.len();
        let more = lines.iter().skip(start + 1);
        let end = start + 1 + more.take_while(|line| line.above < GAP).count();
        let end = end.min(blocks.len());
        let all = words.iter().take(end).skip(start);
        let all: u64 = all.map(|n| u64::from(*n)).sum();
        let segment = blocks.get(start..end).unwrap_or_default();
        let keep = all as f64 / (end - start) as f64 >= MIN_DENSITY
            || cosine(&title, &counts(segment.iter().map(String::as_str))) >= MIN_SIMILARITY;
        kept.resize(end, keep);
    }
    kept
}

/// The number of occurrences of each word, ignoring case.
fn counts<'a>(texts: impl IntoIterator<Item = &'a str>) -> HashMap<String, f64> {
    let mut counts = HashMap::new();
    for text in texts {
        for word in text.unicode_words() {
            *counts.entry(word.to_lowercase()).or_default() += 1.0;
        }
    }
    counts
}

/// The cosine of the angle between two vectors of counts; 0 if one is empty.
fn cosine(a: &HashMap<String, f64>, b: &HashMap<String, f64>) -> f64 {
    let length = |v: &HashMap<String, f64>| v.values().map(|n| n * n).sum::<f64>().sqrt();
    let shared = a.iter().map(|(word, n)| n * b.get(word).unwrap_or(&0.0));
    let lengths = length(a) * length(b);
    if lengths > 0.0 {
        shared.sum::<f64>() / lengths
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(page: &[(u32, &str)], title: &str) -> Vec<bool> {
        let blocks: Vec<String> = page.iter().map(|(_, text)| (*text).to_owned()).collect();
        let lines: Vec<BlockLine> = page.iter().map(|(above, _)| line(*above)).collect();
        let words = |text: &String| u32::try_from(text.unicode_words().count()).unwrap();
        let words: Vec<u32> = blocks.iter().map(words).collect();
        dense(&blocks, &lines, &words, Some(title))
    }

    fn line(above: u32) -> BlockLine {
        BlockLine { above }
    }

    const LONG: &str = "the keeper of the light climbs up to the lamp every evening at dusk \
                        and stays with it";

    #[test]
    fn three_empty_lines_end_a_segment() {
        // The short line is beside the long one, or alone.
        let page = |above| [(0, LONG), (above, "A short line")];
        assert_eq!(kept(&page(2), ""), [true, true]);
        assert_eq!(kept(&page(3), ""), [true, false]);
    }

    #[test]
    fn a_segment_is_dense_or_like_the_title() {
        assert_eq!(kept(&[(9, "Home"), (9, LONG)], "none"), [false, true]);
        let page = [(9, "Lights of the coast"), (9, "Sign in")];
        assert_eq!(kept(&page, "The lights of the coast"), [true, false]);
        assert_eq!(kept(&[], "x"), [false; 0]);
    }

    #[test]
    fn cosines() {
        let of = |a: &str, b: &str| cosine(&counts([a]), &counts([b]));
        assert!((of("a b", "A b") - 1.0).abs() < 1e-12);
        assert!((of("a b", "a c") - 0.5).abs() < 1e-12);
        assert!((of("a a b", "a") - 2.0 / 5_f64.sqrt()).abs() < 1e-12);
        assert_eq!(of("a", "b"), 0.0);
        assert_eq!(of("", "b"), 0.0);
    }
}
