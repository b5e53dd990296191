//! The paragraphs of a text, and which of them a host repeats on many of its pages.
//!
//! Paragraphs are separated by blank lines. Two paragraphs of a host are the same if their
//! words are the same, ignoring case and numbers. If at least [`PLAIN`] words are not next
//! to a number, the words next to numbers are ignored too: "This page was last edited on 5
//! March 2021" is then the same line on all pages of a wiki.

use std::collections::HashSet;
use std::io::{self, Read};
use std::path::Path;

use rustc_hash::FxHashMap;
use unicode_segmentation::UnicodeSegmentation;
use xxhash_rust::xxh3::xxh3_64;

use super::spool::Spool;

/// The least number of pages of a host with a paragraph for it to count as repeated.
pub(super) const PAGES: u32 = 5;
/// It must also be on one in this many of the host's exported pages.
pub(super) const ONE_IN: u32 = 5;
/// A paragraph with fewer words is a heading or a button, and must be on half of the
/// host's pages: many pages of a host have their own section "History".
pub(super) const SHORT: usize = 4;
/// The least number of words not next to numbers for ignoring the words next to them.
pub(super) const PLAIN: usize = 4;
/// The most characters of a repeated paragraph that are shown.
const SHOWN: usize = 300;
/// The paragraphs are counted in this many parts, of which only one is in memory.
const PARTS: usize = 16;

/// The paragraphs of a text: the parts between blank lines, as they are.
pub(super) fn of(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut begin = None;
        let mut at = 0;
        for line in rest.split_inclusive('\n') {
            let blank = line.trim().is_empty();
            match begin {
                None if !blank => begin = Some(at),
                Some(begin) if blank => {
                    let found = rest.get(begin..at)?;
                    rest = rest.get(at..)?;
                    return Some(found.trim_end_matches(['\n', '\r']));
                }
                _ => {}
            }
            at += line.len();
        }
        let found = rest.get(begin?..)?;
        rest = "";
        Some(found.trim_end_matches(['\n', '\r']))
    })
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

/// Counts the pages of each host that contain each paragraph.
pub(super) struct Counter {
    hosts: FxHashMap<String, u32>,
    /// By host, its pages.
    pages: Vec<u32>,
    parts: Vec<Spool>,
}

/// A host and a paragraph of it.
type Key = (u32, u64);

/// Bytes of a key in a spool.
const KEY: usize = 12;

impl Counter {
    /// Counts using files in `folder`.
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        let part = |n| Spool::create(&folder.join(format!(".paragraphs-{n}")));
        Ok(Self {
            hosts: FxHashMap::default(),
            pages: Vec::new(),
            parts: (0..PARTS).map(part).collect::<io::Result<_>>()?,
        })
    }

    /// Adds a page of a host.
    pub(super) fn add(&mut self, host: &str, text: &str) -> io::Result<()> {
        let id = match self.hosts.get(host) {
            Some(id) => *id,
            None => {
                let id = u32::try_from(self.pages.len()).map_err(io::Error::other)?;
                self.pages.push(0);
                self.hosts.insert(host.to_owned(), id);
                id
            }
        };
        if let Some(pages) = self.pages.get_mut(id as usize) {
            *pages += 1;
        }
        let prints: HashSet<u64> = of(text).map(print).collect();
        for print in prints {
            // A hash of low quality would be enough to choose a part.
            let part = usize::try_from(print % PARTS as u64).unwrap_or_default();
            let [a, b, c, d] = id.to_le_bytes();
            let [e, f, g, h, i, j, k, l] = print.to_le_bytes();
            if let Some(part) = self.parts.get_mut(part) {
                part.append(&[a, b, c, d, e, f, g, h, i, j, k, l])?;
            }
        }
        Ok(())
    }

    /// The repeated ones.
    pub(super) fn finish(mut self) -> io::Result<Repeated> {
        let mut lines = FxHashMap::default();
        for part in &mut self.parts {
            let mut counts: FxHashMap<Key, u32> = FxHashMap::default();
            let mut from = part.reader()?;
            let mut key = [0; KEY];
            while read_whole(&mut from, &mut key)? {
                let [a, b, c, d, e, f, g, h, i, j, k, l] = key;
                let host = u32::from_le_bytes([a, b, c, d]);
                let print = u64::from_le_bytes([e, f, g, h, i, j, k, l]);
                *counts.entry((host, print)).or_default() += 1;
            }
            for (key, pages) in counts {
                let of = self.pages.get(key.0 as usize).copied().unwrap_or_default();
                if pages >= bound(of, false) {
                    let line = Line {
                        pages,
                        of,
                        bound: 0,
                        removed: 0,
                        text: String::new(),
                    };
                    lines.insert(key, line);
                }
            }
        }
        Ok(Repeated {
            hosts: self.hosts,
            lines,
        })
    }
}

/// The number of pages from which on a paragraph is repeated, for a host with `of` pages.
fn bound(of: u32, is_short: bool) -> u32 {
    let one_in = if is_short { 2 } else { ONE_IN };
    of.div_ceil(one_in).max(PAGES)
}

/// Reads a whole buffer, or nothing at the end.
fn read_whole(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

/// A paragraph that a host repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Pages that have it.
    pub(super) pages: u32,
    /// Pages of the host.
    pub(super) of: u32,
    /// Pages from which on it is repeated.
    pub(super) bound: u32,
    /// How often it was left out.
    pub(super) removed: u64,
    /// Its first occurrence, shortened.
    pub(super) text: String,
}

/// The paragraphs that hosts repeat.
#[derive(Default)]
pub(super) struct Repeated {
    hosts: FxHashMap<String, u32>,
    lines: FxHashMap<Key, Line>,
}

impl Repeated {
    /// A page's text without the paragraphs that its host repeats, and the number of
    /// these. `None` if there are none and the text is unchanged.
    pub(super) fn without(&mut self, host: &str, text: &str) -> Option<(String, u32)> {
        let host = *self.hosts.get(host)?;
        let mut left = String::with_capacity(text.len());
        let mut removed = 0;
        for paragraph in of(text) {
            let line = self.lines.get_mut(&(host, print(paragraph)));
            let is_short = paragraph.unicode_words().nth(SHORT - 1).is_none();
            if let Some(line) = line.filter(|line| line.pages >= bound(line.of, is_short)) {
                if line.removed == 0 {
                    line.bound = bound(line.of, is_short);
                    line.text = paragraph.chars().take(SHOWN).collect();
                }
                line.removed += 1;
                removed += 1;
                continue;
            }
            if !left.is_empty() {
                left.push_str("\n\n");
            }
            left.push_str(paragraph);
        }
        (removed > 0).then_some((left, removed))
    }

    /// Those that were left out, by host, the most frequent first within a host.
    pub(super) fn removed(&self) -> Vec<(&str, &Line)> {
        let mut names = vec![""; self.hosts.len()];
        for (name, id) in &self.hosts {
            if let Some(place) = names.get_mut(*id as usize) {
                *place = name;
            }
        }
        let name = |id: u32| names.get(id as usize).copied().unwrap_or_default();
        let lines = self.lines.iter().filter(|(_, line)| line.removed > 0);
        let mut lines: Vec<(&str, &Line)> =
            lines.map(|((host, _), line)| (name(*host), line)).collect();
        lines.sort_by(|(a, x), (b, y)| {
            let by_count = y.removed.cmp(&x.removed);
            a.cmp(b).then(by_count).then_with(|| x.text.cmp(&y.text))
        });
        lines
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paragraphs_stand_between_blank_lines() {
        for (text, expected) in [
            ("", vec![]),
            (" \n\n", vec![]),
            ("a", vec!["a"]),
            ("\n a\nb \n", vec![" a\nb "]),
            ("a\n\nb\n \n\n\nc\nd", vec!["a", "b", "c\nd"]),
            ("a\r\n\r\nb\r\n", vec!["a", "b"]),
        ] {
            assert_eq!(of(text).collect::<Vec<_>>(), expected, "{text:?}");
        }
    }

    #[test]
    fn the_same_line_with_other_numbers_is_the_same() {
        for (a, b) in [
            (
                "This page was last edited on 5 March 2021, at 10:02.",
                "This page was last edited on 17 December 2019, at 09:41.",
            ),
            ("12 comments", "3 Comments"),
            ("Page 3 of 7", "page 4 of 7"),
        ] {
            assert_eq!(print(a), print(b), "{a}");
        }
        for (a, b) in [
            ("The keeper left in May.", "The keeper left in June."),
            ("5 March 2021", "5 April 2021"),
            ("1 2 3", "1 2 4"),
            ("Pots: 1", "Pots: 1, 2"),
            ("The B52s and the U2 of them", "The B17s and the U8 of them"),
            ("* * *", "---"),
        ] {
            assert_ne!(print(a), print(b), "{a}");
        }
    }

    /// What hosts with these pages repeat, and the pages without it.
    fn cleaned(pages: &[(&str, &str)]) -> (Vec<String>, Vec<(String, u32, u32)>) {
        let folder = tempfile::tempdir().unwrap();
        let mut counter = Counter::create(folder.path()).unwrap();
        for (host, text) in pages {
            counter.add(host, text).unwrap();
        }
        let mut repeated = counter.finish().unwrap();
        let texts = pages.iter().map(|(host, text)| {
            let without = repeated.without(host, text);
            without.map_or((*text).to_owned(), |(text, _)| text)
        });
        let texts = texts.collect();
        let lines = repeated.removed();
        let lines = lines.iter().map(|(_, l)| (l.text.clone(), l.pages, l.of));
        (texts, lines.collect())
    }

    #[test]
    fn a_line_on_a_fifth_and_five_of_the_pages_goes() {
        let menu = "Home\n\n\nOf pots {n}.\n\nEdited on 4 May 2020\n";
        let page = |n: usize| menu.replace("{n}", &"x".repeat(n + 1));
        let four: Vec<String> = (0..4).map(page).collect();
        let pages: Vec<(&str, &str)> = four.iter().map(|t| ("a.test", t.as_str())).collect();
        // Four pages prove nothing, and neither does another host.
        let mut more = pages.clone();
        more.extend([("b.test", "Home"), ("b.test:81", "Home")]);
        let (texts, lines) = cleaned(&more);
        assert_eq!(texts[..4], four);
        assert_eq!(lines, []);
        let fifth = page(4);
        let mut more = pages.clone();
        more.push(("a.test", &fifth));
        let (texts, lines) = cleaned(&more);
        assert_eq!(texts[1], "Of pots xx.");
        let all = |text: &str| (text.to_owned(), 5, 5);
        assert_eq!(lines, [all("Edited on 4 May 2020"), all("Home")]);
        // Of 26 pages 5 are less than a fifth; twice on a page is one page.
        let others: Vec<String> = (10..31).map(|n| "y".repeat(n)).collect();
        more.extend(others.iter().map(|t| ("a.test", t.as_str())));
        more.push(("c.test", "Home\n\nHome\n\nHome\n\nHome\n\nHome"));
        let (_, lines) = cleaned(&more);
        assert_eq!(lines, []);
        let bounds = [1, 25, 26].map(|of| (bound(of, false), bound(of, true)));
        assert_eq!(bounds, [(5, 5), (5, 13), (6, 13)]);
    }

    #[test]
    fn a_heading_goes_only_where_half_of_the_pages_have_it() {
        let page = |n: usize| {
            let history = if n < 5 { "History\n\n" } else { "" };
            let line = if n < 5 {
                "Read more of our pots\n\n"
            } else {
                ""
            };
            format!("{history}{line}See also\n\n{}", "x".repeat(n + 1))
        };
        let all: Vec<String> = (0..12).map(page).collect();
        let pages: Vec<(&str, &str)> = all.iter().map(|t| ("a.test", t.as_str())).collect();
        let (texts, lines) = cleaned(&pages);
        assert_eq!(texts[0], "History\n\nx");
        let line = |text: &str, pages| (text.to_owned(), pages, 12);
        assert_eq!(
            lines,
            [line("See also", 12), line("Read more of our pots", 5)]
        );
    }

    proptest! {
        #![proptest_config(crate::tests::usual())]

        #[test]
        fn paragraphs_that_stay_are_unchanged_and_in_order(
            pages in proptest::collection::vec(
                proptest::collection::vec("[a-c]{1,2}|[a-c 1]{1,6}( \n|\n[ab]{2})?", 0..6), 0..30
            )
        ) {
            let texts: Vec<String> = pages.iter().map(|p| p.join("\n\n")).collect();
            let given: Vec<(&str, &str)> = texts.iter().map(|t| ("a.test", t.as_str())).collect();
            let (after, _) = cleaned(&given);
            for (before, after) in texts.iter().zip(&after) {
                let mut before = of(before);
                for paragraph in of(after) {
                    prop_assert!(before.any(|b| b == paragraph), "{paragraph:?}");
                }
            }
            prop_assert_eq!(cleaned(&given).0, after);
        }
    }
}
