//! The figures of a corpus.

use std::path::Path;

use serde::Serialize;
use unicode_segmentation::UnicodeSegmentation;

use super::document::{Document, paragraphs};
use super::{each_document, each_removed};
use crate::crawl::figures::{Counted, NameTally};
use crate::progress::Step as Progress;
use crate::report::{Table, count, on_terminal, shares};
use crate::tool_error::ToolError;

/// The most rows of a table.
const TOP: usize = 20;
/// Upper bounds of the classes of document lengths, in words.
const SIZES: [u32; 8] = [50, 100, 200, 500, 1_000, 2_000, 5_000, u32::MAX];
/// Word lengths up to this number of characters are counted one by one, longer ones together.
const LENGTHS: usize = 30;

/// The figures of a corpus.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Stats {
    /// Documents.
    pub documents: u64,
    /// Their words, excluding numbers.
    pub words: u64,
    /// Their sentences.
    pub sentences: u64,
    /// Their paragraphs.
    pub paragraphs: u64,
    /// Bytes of their texts.
    pub bytes: u64,
    /// Documents without a title, and those whose title is empty.
    pub titles: (u64, u64),
    /// Control characters that were removed, and from how many documents.
    pub controls: (u64, u64),
    /// Documents by language.
    pub languages: Counted,
    /// Documents by host.
    pub hosts: Counted,
    /// Documents by year.
    pub years: Counted,
    /// Documents by the character encoding with which they were decoded.
    pub encodings: Counted,
    /// Documents by media type.
    pub types: Counted,
    /// Documents by bucket.
    pub buckets: Counted,
    /// Documents by their number of words: the most words, and how many.
    pub sizes: Vec<(u32, u64)>,
    /// Words by their length in characters, from 1; the last one counts all longer ones.
    pub lengths: Vec<u64>,
    /// Runs without a letter, such as digits, by their length in the same way.
    pub numbers: Vec<u64>,
    /// Removed documents, by step and rule.
    pub removed: Counted,
}

/// Counts a corpus.
///
/// # Errors
///
/// [`ToolError`] names what is damaged.
pub fn stats(folder: &Path) -> Result<Stats, ToolError> {
    let mut counting = StatsCounter::default();
    counting.stats.sizes = SIZES.iter().map(|most| (*most, 0)).collect();
    counting.stats.lengths = vec![0; LENGTHS + 1];
    counting.stats.numbers = vec![0; LENGTHS + 1];
    let mut progress = Progress::begin("documents counted", None);
    each_document(folder, &mut |document| {
        counting.add(&document);
        progress.advance(1);
        Ok(true)
    })?;
    let mut removed = NameTally::default();
    each_removed(folder, &mut |gone| {
        removed.add(&format!("{}: {}", gone.step, gone.rule));
        Ok(true)
    })?;
    let StatsCounter {
        stats,
        languages,
        hosts,
        years,
        encodings,
        types,
        buckets,
    } = counting;
    Ok(Stats {
        languages: languages.finish(TOP),
        hosts: hosts.finish(TOP),
        years: years.finish(TOP),
        encodings: encodings.finish(TOP),
        types: types.finish(TOP),
        buckets: buckets.finish(TOP),
        removed: removed.finish(TOP),
        ..stats
    })
}

#[derive(Default)]
struct StatsCounter {
    stats: Stats,
    languages: NameTally,
    hosts: NameTally,
    years: NameTally,
    encodings: NameTally,
    types: NameTally,
    buckets: NameTally,
}

impl StatsCounter {
    fn add(&mut self, document: &Document) {
        let stats = &mut self.stats;
        stats.documents += 1;
        stats.words += u64::from(document.words);
        stats.sentences += u64::from(document.sentences);
        stats.paragraphs += paragraphs(&document.text).count() as u64;
        stats.bytes += document.text.len() as u64;
        match &document.title {
            None => stats.titles.0 += 1,
            Some(title) if title.trim().is_empty() => stats.titles.1 += 1,
            Some(_) => {}
        }
        stats.controls.0 += u64::from(document.controls_removed);
        stats.controls.1 += u64::from(document.controls_removed > 0);
        let size = stats
            .sizes
            .iter_mut()
            .find(|(most, _)| document.words <= *most);
        if let Some((_, n)) = size {
            *n += 1;
        }
        for word in document.text.unicode_words() {
            let is_word = word.chars().any(char::is_alphabetic);
            let lengths = if is_word {
                &mut stats.lengths
            } else {
                &mut stats.numbers
            };
            let at = word.chars().count().saturating_sub(1).min(LENGTHS);
            if let Some(n) = lengths.get_mut(at) {
                *n += 1;
            }
        }
        let name = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
        self.languages.add(&name(&document.language));
        self.hosts.add(&document.host);
        let year = document.date.as_deref().and_then(|date| date.get(..4));
        self.years.add(year.unwrap_or("none"));
        self.encodings.add(&name(&document.charset_used));
        self.types.add(&name(&document.mime));
        if let Some(bucket) = &document.bucket {
            self.buckets.add(bucket);
        }
    }
}

fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let head = head.iter().map(|name| (*name).to_owned()).collect();
    on_terminal(&Table { head, rows })
}

impl Stats {
    /// The tables, for a terminal.
    pub fn text(&self) -> String {
        let row = |name: &str, n: u64| vec![name.to_owned(), count(n)];
        let mut out = table(
            &["corpus", ""],
            vec![
                row("documents", self.documents),
                row("words", self.words),
                row("sentences", self.sentences),
                row("paragraphs", self.paragraphs),
                row("bytes of text", self.bytes),
                row("without a title", self.titles.0),
                row("with an empty title", self.titles.1),
                row("controls removed", self.controls.0),
                row("  of documents", self.controls.1),
            ],
        );
        for (name, counted) in [
            ("language", &self.languages),
            ("host", &self.hosts),
            ("year", &self.years),
            ("encoding", &self.encodings),
            ("type", &self.types),
            ("bucket", &self.buckets),
            ("removed", &self.removed),
        ] {
            let table = shares(counted, name);
            if !table.is_empty() {
                out.push('\n');
                out.push_str(&table);
            }
        }
        out.push('\n');
        let sizes = self
            .sizes
            .iter()
            .filter(|(_, n)| *n > 0)
            .map(|(most, n)| match *most {
                u32::MAX => row("more", *n),
                most => row(&format!("up to {}", count(most.into())), *n),
            });
        out.push_str(&table(
            &["words of a document", "documents"],
            sizes.collect(),
        ));
        out.push('\n');
        let lengths = self.lengths.iter().zip(&self.numbers).enumerate();
        let lengths = lengths.filter(|(_, (words, numbers))| **words + **numbers > 0);
        let rows = lengths.map(|(at, (words, numbers))| {
            let name = if at < LENGTHS {
                (at + 1).to_string()
            } else {
                "longer".to_owned()
            };
            vec![name, count(*words), count(*numbers)]
        });
        out.push_str(&table(&["characters", "words", "numbers"], rows.collect()));
        out
    }
}
