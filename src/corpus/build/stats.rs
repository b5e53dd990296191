//! A corpus in figures.

use std::path::Path;

use serde::Serialize;
use unicode_segmentation::UnicodeSegmentation;

use super::document::{Document, paragraphs};
use super::{BuildError, each_document, each_removed};
use crate::corpus::report::{Counted, Table, Tally, count, on_terminal};
use crate::progress::Step as Progress;

/// Rows of a table.
const TOP: usize = 20;
/// Words of documents, by which they are sorted.
const SIZES: [u32; 8] = [50, 100, 200, 500, 1_000, 2_000, 5_000, u32::MAX];
/// Word lengths in characters that are counted one by one; longer ones together.
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
    /// Documents by the character encoding by which they were read.
    pub encodings: Counted,
    /// Documents by media type.
    pub types: Counted,
    /// Documents by bucket.
    pub buckets: Counted,
    /// Documents by their number of words: the most words, and how many.
    pub sizes: Vec<(u32, u64)>,
    /// Words by their length in characters, from 1; the last one counts all longer ones.
    pub lengths: Vec<u64>,
    /// Runs without a letter by their length, as digits, in the same way.
    pub numbers: Vec<u64>,
    /// What was removed, by step and rule.
    pub removed: Counted,
}

/// Counts a corpus.
///
/// # Errors
///
/// [`BuildError`] names what is damaged.
pub fn stats(folder: &Path) -> Result<Stats, BuildError> {
    let mut counting = Counting::default();
    counting.stats.sizes = SIZES.iter().map(|most| (*most, 0)).collect();
    counting.stats.lengths = vec![0; LENGTHS + 1];
    counting.stats.numbers = vec![0; LENGTHS + 1];
    let mut progress = Progress::begin("documents counted", None);
    each_document(folder, &mut |document| {
        counting.add(&document);
        progress.advance(1);
        Ok(true)
    })?;
    let mut removed = Tally::default();
    each_removed(folder, &mut |gone| {
        removed.add(&format!("{}: {}", gone.step, gone.rule));
        Ok(true)
    })?;
    let Counting {
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
struct Counting {
    stats: Stats,
    languages: Tally,
    hosts: Tally,
    years: Tally,
    encodings: Tally,
    types: Tally,
    buckets: Tally,
}

impl Counting {
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

/// A share with four digits, as the study of the Common Crawl gives them.
fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "0.0000".to_owned(),
        whole => format!("{:.4}", part as f64 / whole as f64),
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
            let all = counted.top.iter().map(|(_, n)| n).sum::<u64>() + counted.others;
            if all == 0 {
                continue;
            }
            let share = |n: u64| share(n, all);
            let row = |name: &str, n: u64| {
                let name: String = name.chars().take(50).collect();
                vec![name, count(n), share(n)]
            };
            let mut rows: Vec<_> = counted.top.iter().map(|(name, n)| row(name, *n)).collect();
            if counted.others > 0 {
                rows.push(row("others", counted.others));
            }
            out.push('\n');
            out.push_str(&table(&[name, "number", "share"], rows));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The published shares of the study of the Common Crawl of 2012. Its rows of encodings
    /// add up to 3,827,166,288, but its shares are of a total of about 3.829 thousand
    /// millions, which is used here.
    #[test]
    fn published_shares_follow_from_published_counts() {
        const ALL: u64 = 3_829_000_000;
        let encodings = [
            ("utf-8", 1_866_333_314, "0.4874"),
            ("unknown", 1_647_477_248, "0.4303"),
            ("iso-8859-1", 229_671_038, "0.0600"),
            ("windows-1251", 26_798_707, "0.0070"),
            ("iso-8859-2", 10_088_397, "0.0026"),
            ("iso-8859-15", 8_605_343, "0.0022"),
            ("windows-1256", 5_454_253, "0.0014"),
            ("shift-jis", 5_289_261, "0.0014"),
            ("windows-1252", 5_173_227, "0.0014"),
            ("euc-jp", 4_201_400, "0.0011"),
            ("others", 18_074_100, "0.0047"),
        ];
        let types = [
            ("text/html", 3_532_930_141, "0.9227"),
            ("application/pdf", 92_710_175, "0.0242"),
            ("text/xml", 80_184_383, "0.0209"),
            ("text/css", 22_872_511, "0.0060"),
            ("application/x-javascript", 21_198_040, "0.0055"),
            ("image/jpeg", 14_116_839, "0.0037"),
            ("application/javascript", 11_548_630, "0.0030"),
            ("text/plain", 10_713_438, "0.0028"),
            ("application/msword", 6_648_861, "0.0017"),
            ("application/xml", 4_999_123, "0.0013"),
            ("application/rss+xml", 4_200_583, "0.0011"),
        ];
        for (name, count, expected) in encodings.into_iter().chain(types) {
            assert_eq!(share(count, ALL), expected, "{name}");
        }
        let sum: u64 = encodings.iter().map(|(_, count, _)| count).sum();
        assert_eq!(sum, 3_827_166_288);
        assert_eq!(share(1_866_333_314, sum), "0.4877");
        // PDF among the pages of universities, and among the news.
        assert_eq!(share(577_660, 3_838_819), "0.1505");
        assert_eq!(share(986, 578_482), "0.0017");
        assert_eq!(share(0, 0), "0.0000");
    }
}
