//! The paragraphs that a host repeats on many of its pages: menus, cookie lines, footers.
//!
//! Two paragraphs of a host are the same if their words are the same, ignoring case and numbers.
//! If at least [`PLAIN`] words are not next to a number, the words next to numbers are ignored
//! too: "This page was last edited on 5 March 2021" is then the same line on all pages of a wiki.
//!
//! The documents are read twice: to count, and for the line that names each repeated paragraph.
//! It needs 12 bytes per paragraph on the disk; in memory are a part of these and the repeated
//! paragraphs.

use std::collections::BTreeSet;
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};
use unicode_segmentation::UnicodeSegmentation;
use xxhash_rust::xxh3::xxh3_64;

use super::super::document::Document;
use super::super::plan::{Level, Repetition};
use super::super::removed::{LineFile, Removed};
use super::super::steps::Value;
use super::super::store::PhaseStore;
use super::super::work::Workplace;
use super::records::RecordFiles;
use super::units::{parts, shorten};
use super::{Decide, DocumentFate};
use crate::page::{BlockKind, TextBlock};
use crate::tool_error::ToolError;

/// A repeated paragraph is also on one in this many pages of its host.
const ONE_IN: u32 = 5;
/// A paragraph with fewer words is a heading or a button, and must be on half of the host's
/// pages: many pages of a host have their own section "History".
const SHORT: usize = 4;
/// The least number of words not next to numbers for ignoring the words next to them.
const PLAIN: usize = 4;
/// The most characters of a repeated paragraph that are shown.
const SHOWN: usize = 300;
/// The paragraphs are counted in this many parts; one is in memory at a time.
const PARTS: usize = 16;

/// The number of a host, and the fingerprint of a paragraph.
type ParagraphKey = (u32, u64);

/// A key on the disk.
fn record((host, print): ParagraphKey) -> [u8; 12] {
    let [a, b, c, d] = host.to_le_bytes();
    let [e, f, g, h, i, j, k, l] = print.to_le_bytes();
    [a, b, c, d, e, f, g, h, i, j, k, l]
}

fn key([a, b, c, d, e, f, g, h, i, j, k, l]: [u8; 12]) -> ParagraphKey {
    let print = u64::from_le_bytes([e, f, g, h, i, j, k, l]);
    (u32::from_le_bytes([a, b, c, d]), print)
}

/// The repeated paragraphs of all hosts.
pub(super) struct Repeated {
    step: Repetition,
    hosts: FxHashMap<String, u32>,
    /// By host, its pages.
    pages: Vec<u32>,
    /// The number of pages of each paragraph that may be repeated.
    counts: FxHashMap<ParagraphKey, u32>,
}

/// A repeated paragraph of a document.
struct RepeatedParagraph {
    key: ParagraphKey,
    /// The number of pages from which it counts as repeated.
    bound: u32,
    range: Range<usize>,
}

impl Repeated {
    /// Reads all documents, and writes the file of the repeated paragraphs.
    pub(super) fn of(
        step: &Repetition,
        number: usize,
        store: &PhaseStore,
        place: &Workplace,
    ) -> Result<Self, ToolError> {
        let mut all = Self {
            step: step.clone(),
            hosts: FxHashMap::default(),
            pages: Vec::new(),
            counts: FxHashMap::default(),
        };
        let mut keys = RecordFiles::create(place, &format!("paragraphs-{number:03}"), PARTS)?;
        let prints = |document: Document| {
            let text = document.text;
            let all = parts(Level::Paragraph, &text).into_iter();
            let all = all.map(|range| print(text.get(range).unwrap_or_default()));
            (document.host, all.collect::<BTreeSet<u64>>())
        };
        store.over(prints, |(host, prints)| {
            let next = u32::try_from(all.pages.len()).unwrap_or(u32::MAX);
            let host = *all.hosts.entry(host).or_insert(next);
            if host == next {
                all.pages.push(0);
            }
            if let Some(pages) = all.pages.get_mut(host as usize) {
                *pages += 1;
            }
            prints.into_iter().try_for_each(|print| {
                let part = usize::try_from(print % PARTS as u64).unwrap_or_default();
                keys.add(part, record((host, print)))
            })
        })?;
        for part in keys.finish()? {
            let mut counts: FxHashMap<ParagraphKey, u32> = FxHashMap::default();
            for bytes in part? {
                *counts.entry(key(bytes)).or_default() += 1;
            }
            counts.retain(|(host, _), pages| *pages >= all.bound(*host, false));
            all.counts.extend(counts);
        }
        all.write(number, store, place)?;
        Ok(all)
    }

    /// The number of pages from which a paragraph of a host counts as repeated.
    fn bound(&self, host: u32, is_short: bool) -> u32 {
        let of = self.pages.get(host as usize).copied().unwrap_or_default();
        of.div_ceil(if is_short { 2 } else { ONE_IN })
            .max(self.step.pages)
    }

    /// The repeated paragraphs of a document, in order.
    fn met(&self, document: &Document) -> Vec<RepeatedParagraph> {
        let Some(host) = self.hosts.get(&document.host).copied() else {
            return Vec::new();
        };
        let all = parts(Level::Paragraph, &document.text).into_iter();
        let met = all.filter_map(|range| {
            let paragraph = document.text.get(range.clone())?;
            let key = (host, print(paragraph));
            let pages = self.counts.get(&key)?;
            let is_short = paragraph.unicode_words().nth(SHORT - 1).is_none();
            let bound = self.bound(host, is_short);
            (*pages >= bound).then_some(RepeatedParagraph { key, bound, range })
        });
        met.collect()
    }

    /// Writes a line for each repeated paragraph, with the first page that has it.
    fn write(&self, number: usize, store: &PhaseStore, place: &Workplace) -> Result<(), ToolError> {
        let lines = |document: Document| -> Vec<(ParagraphKey, Removed)> {
            let all = self.met(&document).into_iter();
            let all = all.map(|met| {
                let text = document.text.get(met.range).unwrap_or_default();
                let pages = self.counts.get(&met.key).copied().unwrap_or_default();
                let of = self
                    .pages
                    .get(met.key.0 as usize)
                    .copied()
                    .unwrap_or_default();
                let line = Removed {
                    url: document.url.clone(),
                    step: "repeated".to_owned(),
                    number,
                    rule: "repeated paragraph".to_owned(),
                    value: Value::Number(f64::from(pages)),
                    bound: format!("on fewer than {} of {of} pages of its host", met.bound),
                    job: document.job.clone(),
                    paragraph: Some(text.chars().take(SHOWN).collect()),
                    ..Removed::default()
                };
                (met.key, line)
            });
            all.collect()
        };
        let mut known: FxHashSet<ParagraphKey> = FxHashSet::default();
        let mut file = LineFile::create(place.repeated(number))?;
        store.over(lines, |lines| {
            for (key, line) in lines {
                if known.insert(key) {
                    file.add(&line)?;
                }
            }
            Ok(())
        })?;
        file.finish()
    }
}

impl Decide for Repeated {
    fn decide(&self, _: usize, document: &mut Document) -> DocumentFate {
        let met = self.met(document).into_iter();
        let mut gone: Vec<Range<usize>> = met.map(|met| met.range).collect();
        keep_headings(&document.blocks(), &mut gone);
        let rule = (
            "all paragraphs are repeated",
            "at least one paragraph of its own",
        );
        shorten(document, &gone, rule)
    }
}

/// A heading stays with its section: it goes only if all of that does.
fn keep_headings(blocks: &[TextBlock], gone: &mut Vec<Range<usize>>) {
    let mut going: Vec<bool> = Vec::with_capacity(blocks.len());
    for block in blocks {
        let at = gone.partition_point(|range| range.end < block.text.end);
        let covers = |range: &Range<usize>| range.start <= block.text.start;
        going.push(gone.get(at).is_some_and(covers));
    }
    for number in (0..blocks.len()).rev() {
        let Some(BlockKind::Heading(level)) = blocks.get(number).map(|block| block.kind) else {
            continue;
        };
        let after = blocks.iter().zip(&going).skip(number + 1);
        let ends = |kind| matches!(kind, BlockKind::Heading(other) if other <= level);
        let mut section = after.take_while(|(block, _)| !ends(block.kind));
        let has_text = section.any(|(_, is_going)| !is_going);
        if let Some(is_going) = going.get_mut(number) {
            *is_going &= !has_text;
        }
    }
    let stays = |range: &Range<usize>| {
        let at = blocks.partition_point(|block| block.text.start < range.start);
        let is_block = blocks.get(at).is_some_and(|block| block.text == *range);
        is_block && going.get(at) == Some(&false)
    };
    gone.retain(|range| !stays(range));
}

/// The fingerprint of a paragraph.
fn print(paragraph: &str) -> u64 {
    let words: Vec<&str> = paragraph.unicode_words().collect();
    let is_number = |word: &&str| word.starts_with(char::is_numeric);
    let number = |at: usize| words.get(at).is_some_and(is_number);
    let beside = |at: usize| number(at) || number(at + 1) || at > 0 && number(at - 1);
    let plain = (0..words.len()).filter(|at| !beside(*at)).count();
    // Without other words, numbers are all there is to compare.
    let numbers_only = words.iter().all(is_number);
    let mut normal = String::with_capacity(paragraph.len());
    for (at, word) in words.iter().enumerate() {
        let left_out = if plain >= PLAIN {
            beside(at)
        } else {
            number(at) && !numbers_only
        };
        if !left_out {
            normal.extend(word.chars().flat_map(char::to_lowercase));
            normal.push(' ');
        } else if plain < PLAIN || !normal.ends_with('#') {
            normal.push('#');
        }
    }
    if words.is_empty() {
        normal.extend(paragraph.split_whitespace());
    }
    xxh3_64(normal.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_stays_with_its_section() {
        let block = |kind, text| TextBlock { kind, text };
        let blocks = [
            block(BlockKind::Heading(2), 0..5),
            block(BlockKind::Item(1), 10..20),
            block(BlockKind::Heading(2), 30..35),
            block(BlockKind::Heading(3), 40..45),
            block(BlockKind::Paragraph, 50..60),
            block(BlockKind::Heading(2), 70..75),
        ];
        let mut gone = vec![0..5, 30..35, 40..45, 50..60, 70..75];
        keep_headings(&blocks, &mut gone);
        assert_eq!(gone, [30..35, 40..45, 50..60, 70..75]);
        let mut gone = vec![30..35, 40..45];
        keep_headings(&blocks, &mut gone);
        assert!(gone.is_empty());
        // Without known parts.
        let mut gone = vec![0..5, 7..9];
        keep_headings(&[], &mut gone);
        assert_eq!(gone, [0..5, 7..9]);
    }

    #[test]
    fn numbers_and_the_words_beside_them_make_no_difference() {
        let same = |a: &str, b: &str| print(a) == print(b);
        assert!(same(
            "This page was last edited on 5 March 2021.",
            "This page was last edited on 17 June 2019."
        ));
        assert!(same("HOME | Pots", "Home Pots"));
        assert!(!same("Page 5", "Chapter 5"));
        assert!(same("Page 5", "Page 6"));
        assert!(!same("2019", "2020"));
        assert!(!same("***", "---"));
    }
}
