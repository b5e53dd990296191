//! The units that are compared: documents, or their paragraphs, sentences or addresses.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;
use xxhash_rust::xxh3::xxh3_64;

use super::super::document::{Document, TextEdit, millis, range_in};
use super::super::plan::{Copies, Level};
use super::super::steps::{Measured, Value};
use super::DocumentFate;
use crate::address::PageUrl;
use crate::copies::{Alike, Words};

/// The prints of a part of a document.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Print {
    /// The fingerprint that exact copies share.
    pub(super) print: u64,
    /// 0 if there is nothing to compare.
    pub(super) words: u32,
    /// Empty if near copies are not wanted.
    pub(super) bands: Vec<u32>,
}

/// The prints of a document and of its parts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DocumentPrints {
    pub(super) parts: Vec<Print>,
    pub(super) date: Option<i64>,
    /// The perplexity that was measured last.
    pub(super) perplexity: Option<f64>,
}

impl DocumentPrints {
    pub(super) fn of(step: &Copies, alike: &Alike, document: &Document) -> Self {
        let part = |range: Range<usize>| {
            let text = document.text.get(range).unwrap_or_default();
            let words = Words::of(text);
            let is_near = step.least < 1.0;
            let near = || {
                let bands = |words: &Words| words.bands(step.shingle(), step.bands, step.rows);
                if alike.is_empty() {
                    bands(&words)
                } else {
                    bands(&Words::like(text, alike))
                }
            };
            let print = words.print();
            Print {
                print: (print >> 64) as u64 ^ print as u64,
                words: u32::try_from(words.len()).unwrap_or(u32::MAX),
                bands: if is_near { near() } else { Vec::new() },
            }
        };
        let parts = match step.level {
            Level::Url => vec![Print {
                print: xxh3_64(address(&document.url).as_bytes()),
                words: document.words.max(1),
                bands: Vec::new(),
            }],
            level => parts(level, &document.text).into_iter().map(part).collect(),
        };
        Self {
            parts,
            date: document.date.as_deref().and_then(millis),
            perplexity: document.perplexity.or(document.perplexity_neutral),
        }
    }
}

/// The key of an address: without scheme, `www.` and fragment, in the order of SURT.
pub(super) fn address(url: &str) -> String {
    match PageUrl::parse(url) {
        Ok(url) => {
            let surt = url.surt();
            let rest = surt
                .split_once("://")
                .map_or(surt.as_str(), |(_, rest)| rest);
            rest.replacen(",www)", ")", 1)
        }
        Err(_) => url.to_owned(),
    }
}

/// The parts of a text that are compared, as ranges of bytes.
pub(super) fn parts(level: Level, text: &str) -> Vec<Range<usize>> {
    let trimmed = |from: usize, part: &str| {
        let from = from + part.len() - part.trim_start().len();
        from..from + part.trim().len()
    };
    let mut at = 0;
    let paragraphs = text.split("\n\n").map(|paragraph| {
        let from = at;
        at += paragraph.len() + 2;
        trimmed(from, paragraph)
    });
    let all: Vec<Range<usize>> = match level {
        Level::Document | Level::Url => std::iter::once(0..text.len()).collect(),
        Level::Paragraph => paragraphs.collect(),
        Level::Sentence => paragraphs
            .flat_map(|range| {
                let paragraph = text.get(range.clone()).unwrap_or_default();
                let sentences = paragraph.split_sentence_bound_indices();
                sentences.map(move |(from, sentence)| trimmed(range.start + from, sentence))
            })
            .collect(),
    };
    all.into_iter().filter(|range| !range.is_empty()).collect()
}

/// A text without some of its parts. The remaining paragraphs stay separate, and a paragraph
/// without any part left is removed.
pub(super) fn without(text: &str, gone: &[Range<usize>]) -> TextEdit {
    let mut kept: Vec<Range<usize>> = Vec::with_capacity(gone.len() + 1);
    let mut at = 0;
    for range in gone {
        kept.push(at..range.start);
        at = range.end;
    }
    kept.push(at..text.len());
    let left: String = kept
        .iter()
        .filter_map(|range| text.get(range.clone()))
        .collect();
    let mut edit = TextEdit::default();
    // The first kept range that reaches into a paragraph, and where it is in what is left.
    let (mut first, mut base) = (0, 0);
    let paragraphs = left.split("\n\n").map(str::trim);
    for paragraph in paragraphs.filter(|paragraph| !paragraph.is_empty()) {
        if !edit.text.is_empty() {
            edit.add("\n\n");
        }
        let wanted = range_in(&left, paragraph);
        while let Some(range) = kept.get(first) {
            let here = base..base + range.len();
            let part = wanted.start.max(here.start)..wanted.end.min(here.end);
            if !part.is_empty() {
                let old = range.start + part.start - base..range.start + part.end - base;
                edit.keep(old, left.get(part).unwrap_or_default());
            }
            if here.end > wanted.end {
                break;
            }
            first += 1;
            base = here.end;
        }
    }
    edit
}

/// Removes some parts of a document's text; the document goes if nothing is left.
pub(super) fn shorten(
    document: &mut Document,
    gone: &[Range<usize>],
    (rule, bound): (&str, &str),
) -> DocumentFate {
    let count = u32::try_from(gone.len()).unwrap_or(u32::MAX);
    if count == 0 {
        return DocumentFate::Stays;
    }
    document.edit(without(&document.text, gone));
    document.parts_removed = document.parts_removed.saturating_add(count);
    if document.words > 0 {
        return DocumentFate::Marked("shortened");
    }
    let broken = Measured {
        rule: rule.to_owned(),
        value: recorded(f64::from(count)),
        bound: bound.to_owned(),
        stays: false,
    };
    DocumentFate::Goes(broken, None)
}

/// A similarity as recorded.
pub(super) fn recorded(similarity: f64) -> Value {
    Value::number(Some(similarity))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fall_into_parts() {
        let text = "One lamp. Two lamps!\n\n \n\nThree\nlamps.";
        let cut = |level| -> Vec<&str> {
            let all = parts(level, text).into_iter();
            all.map(|range| &text[range]).collect()
        };
        assert_eq!(cut(Level::Document), [text]);
        assert_eq!(
            cut(Level::Paragraph),
            ["One lamp. Two lamps!", "Three\nlamps."]
        );
        assert_eq!(
            cut(Level::Sentence),
            ["One lamp.", "Two lamps!", "Three", "lamps."]
        );
        let sentences = parts(Level::Sentence, text);
        let gone = |all: &[usize]| {
            let gone: Vec<_> = all.iter().map(|n| sentences[*n].clone()).collect();
            without(text, &gone).text
        };
        assert_eq!(gone(&[0]), "Two lamps!\n\nThree\nlamps.");
        assert_eq!(gone(&[0, 1]), "Three\nlamps.");
        assert_eq!(gone(&[0, 1, 2, 3]), "");
        assert_eq!(gone(&[]), "One lamp. Two lamps!\n\nThree\nlamps.");
        assert!(parts(Level::Paragraph, "").is_empty());
    }

    #[test]
    fn an_address_is_the_same_however_it_is_written() {
        let one = address("http://www.a.test/b?x=1");
        assert_eq!(one, address("https://a.test/b?x=1#top"));
        assert_ne!(one, address("https://a.test/b?x=2"));
        assert_ne!(one, address("https://a.test:81/b?x=1"));
        assert_eq!(address("file:a/b.html"), "file:a/b.html");
    }
}
