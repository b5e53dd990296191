//! From the original lines to running text, as pure functions.
//!
//! `furniture` finds the headers and footers, `hyphens` decides about a hyphen at the end of a
//! line. The text stays in [`Piece`]s, each a run of characters as in the original, so that every
//! character can be traced back.

mod furniture;
mod hyphens;
mod words;

use icu_normalizer::ComposingNormalizerBorrowed;
use unicode_segmentation::UnicodeSegmentation;

use super::original::{Original, Start, characters};
use crate::language::{self, Language};

use words::Vocabulary;

/// Whether a language has a word. Words are in lower case.
pub type WordList<'w> = &'w dyn Fn(Option<Language>, &str) -> bool;

/// Running text, in reading order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cleaned {
    /// Its parts.
    pub pieces: Vec<Piece>,
    /// The changes made.
    pub counts: Counts,
}

/// A run of characters of the original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins in the original, in characters.
    pub at: u32,
    /// The characters. They are those of the original, or the expansion of one of them (a
    /// ligature).
    pub text: String,
    /// What separates it from the previous piece.
    pub joint: Joint,
    /// Whether the whole piece stands for one character of the original.
    pub is_ligature: bool,
}

/// What separates a piece from the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joint {
    /// Nothing: the word continues.
    Tight,
    /// The end of a line, which is a space in running text.
    Line,
    /// The end of a paragraph.
    Paragraph,
}

/// What was done to the original.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Counts {
    /// Lines left out as headers or footers.
    pub lines_removed: u32,
    /// Hyphens removed at the ends of lines, so that a divided word is whole.
    pub hyphens_removed: u32,
    /// Hyphens at the ends of lines that belong to their words.
    pub hyphens_kept: u32,
    /// Ligatures and similar characters that were unfolded.
    pub ligatures: u32,
}

impl Piece {
    /// How many characters of the original it covers.
    pub fn takes(&self) -> u32 {
        if self.is_ligature {
            1
        } else {
            characters(&self.text)
        }
    }
}

impl Original {
    /// Cleans the text. `words` tests whether a language has a word, in addition to the words of
    /// the text.
    pub fn clean(&self, words: Option<WordList<'_>>) -> Cleaned {
        let lines = self.parts();
        let pages = self.page_lines();
        let removed = furniture::marked(&lines, &pages);
        let kept: Vec<usize> = (0..lines.len())
            .filter(|number| removed.get(*number) == Some(&false))
            .filter(|number| {
                lines
                    .get(*number)
                    .is_some_and(|line| !line.trim().is_empty())
            })
            .collect();
        let language = guess(&lines, &kept);
        let vocabulary = Vocabulary::of(&lines, &kept);
        let mut cleaned = Cleaned::default();
        let removed = removed.iter().filter(|removed| **removed).count();
        cleaned.counts.lines_removed = u32::try_from(removed).unwrap_or(u32::MAX);
        let known = |word: &str| words.is_some_and(|has| has(language, word));
        let known = hyphens::KnownWords {
            own: &vocabulary,
            listed: &known,
            has_list: words.is_some(),
            soft_divides: !lines.iter().any(|line| has_soft_within(line)),
        };
        let mut before: Option<&str> = None;
        let mut ending = hyphens::LineEnding::None;
        for (place, number) in kept.iter().enumerate() {
            let (Some(line), Some(own)) = (self.lines.get(*number), lines.get(*number)) else {
                continue;
            };
            let next = kept.get(place + 1).and_then(|next| lines.get(*next));
            let joint = joint(before, ending, line.start, own);
            ending = next.map_or(hyphens::LineEnding::None, |next| {
                hyphens::ending(own, next, &known)
            });
            let mut text = *own;
            match ending {
                hyphens::LineEnding::Divided => {
                    cleaned.counts.hyphens_removed += 1;
                    let mut all = text.chars();
                    all.next_back();
                    text = all.as_str();
                }
                hyphens::LineEnding::Compound | hyphens::LineEnding::Suspended => {
                    cleaned.counts.hyphens_kept += 1;
                }
                hyphens::LineEnding::None => {}
            }
            cleaned.add(line.at, text, joint);
            before = Some(own);
        }
        cleaned
    }

    /// The lines of the text, without their ends.
    fn parts(&self) -> Vec<&str> {
        self.text.split_terminator('\n').collect()
    }

    /// The numbers of the lines of each page.
    fn page_lines(&self) -> Vec<std::ops::Range<usize>> {
        let line_at = |at: u32| self.lines.partition_point(|line| line.at < at);
        let starts: Vec<usize> = self.pages.iter().map(|at| line_at(*at)).collect();
        let mut pages = Vec::with_capacity(starts.len());
        for (number, from) in starts.iter().enumerate() {
            let to = starts.get(number + 1).copied().unwrap_or(self.lines.len());
            pages.push(*from..to);
        }
        pages
    }
}

/// How a line follows the previous one.
fn joint(before: Option<&str>, ending: hyphens::LineEnding, start: Start, own: &str) -> Joint {
    use hyphens::LineEnding;
    let Some(before) = before else {
        return Joint::Paragraph;
    };
    match (ending, start) {
        (LineEnding::Divided | LineEnding::Compound, _) => Joint::Tight,
        (LineEnding::Suspended, _) => Joint::Line,
        (LineEnding::None, Start::Paragraph) => Joint::Paragraph,
        (LineEnding::None, Start::Region) if !runs_on(before, own) => Joint::Paragraph,
        (LineEnding::None, _) => {
            let (last, first) = (before.chars().next_back(), own.chars().next());
            if last.is_some_and(is_unspaced) && first.is_some_and(is_unspaced) {
                Joint::Tight
            } else {
                Joint::Line
            }
        }
    }
}

/// Whether the first line of a page or column continues the last line before it.
fn runs_on(before: &str, own: &str) -> bool {
    let ends = before.trim_end_matches(['"', '\'', '”', '’', '»', ')', '」', '』']);
    let ends = ends.ends_with(['.', '!', '?', ':', '…', '。', '！', '？', '؟', '۔']);
    // A heading is short, and the text after it mostly begins with a capital.
    let first = own.chars().next();
    !ends && first.is_some_and(|c| c.is_lowercase() || is_unspaced(c))
}

/// Whether a character belongs to a script without spaces between words.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{2e80}'..='\u{30ff}' | '\u{31f0}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ff60}' | '\u{20000}'..='\u{3ffff}')
}

/// The language of some lines.
fn guess(lines: &[&str], kept: &[usize]) -> Option<Language> {
    let texts = kept.iter().filter_map(|number| lines.get(*number).copied());
    let texts: Vec<&str> = texts.take(2_000).collect();
    let blocks: Vec<String> = texts.chunks(8).map(|lines| lines.join(" ")).collect();
    language::recognise(blocks.iter().map(String::as_str))
}

/// Whether a line has a soft hyphen anywhere except at its end.
fn has_soft_within(line: &str) -> bool {
    line.trim_end_matches('\u{ad}').contains('\u{ad}')
}

/// The expansion of a character, if it is a ligature or a positional form of a letter.
fn unfolded(c: char) -> Option<String> {
    let folded = matches!(c, '\u{fb00}'..='\u{fb06}' | '\u{fb13}'..='\u{fb17}' | '\u{132}'
        | '\u{133}' | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}' | '\u{2f00}'..='\u{2fd5}');
    if !folded {
        return None;
    }
    let mut bytes = [0; 4];
    let normaliser = ComposingNormalizerBorrowed::new_nfkc();
    let text = normaliser.normalize(c.encode_utf8(&mut bytes)).into_owned();
    (text.chars().ne([c])).then_some(text)
}

impl Cleaned {
    /// Adds a line, or the part of it that is kept.
    fn add(&mut self, at: u32, text: &str, joint: Joint) {
        let mut joint = joint;
        let mut open = String::new();
        let mut begin = at;
        let mut place = at;
        for c in text.chars() {
            let unfolded = unfolded(c);
            // Within a line they are painted like other hyphens: some programs use them for all
            // hyphens.
            let hyphen = (c == '\u{ad}').then(|| "-".to_owned());
            self.counts.ligatures += u32::from(unfolded.is_some());
            if let Some(text) = unfolded.or(hyphen) {
                self.push(begin, &mut open, &mut joint);
                self.pieces.push(Piece {
                    at: place,
                    text,
                    joint,
                    is_ligature: true,
                });
                joint = Joint::Tight;
                begin = place.saturating_add(1);
            } else {
                open.push(c);
            }
            place = place.saturating_add(1);
        }
        self.push(begin, &mut open, &mut joint);
    }

    fn push(&mut self, at: u32, open: &mut String, joint: &mut Joint) {
        if open.is_empty() {
            return;
        }
        self.pieces.push(Piece {
            at,
            is_ligature: false,
            text: std::mem::take(open),
            joint: *joint,
        });
        *joint = Joint::Tight;
    }

    /// The text with the lines of the original; an empty line separates two paragraphs.
    pub fn lines(&self) -> String {
        self.joined("\n").0
    }

    /// The running text: lines of a paragraph are joined by spaces, paragraphs by empty lines.
    pub fn text(&self) -> String {
        self.joined(" ").0
    }

    /// The running text, with the position in the original for each of its characters. Separators
    /// of lines and paragraphs map to the end of a line there.
    pub fn text_with_places(&self) -> (String, Vec<u32>) {
        self.joined(" ")
    }

    fn joined(&self, line: &str) -> (String, Vec<u32>) {
        let mut text = String::new();
        let mut places = Vec::new();
        for (number, piece) in self.pieces.iter().enumerate() {
            let separator = match piece.joint {
                _ if number == 0 => "",
                Joint::Tight => "",
                Joint::Line => line,
                Joint::Paragraph => "\n\n",
            };
            text.push_str(separator);
            let end = piece.at.saturating_sub(1);
            places.extend(separator.chars().map(|_| end));
            text.push_str(&piece.text);
            let last = if piece.is_ligature { 0 } else { u32::MAX };
            places.extend(
                piece
                    .text
                    .chars()
                    .zip(0..)
                    .map(|(_, n)| piece.at + last.min(n)),
            );
        }
        (text, places)
    }

    /// Where the sentences of the running text begin in the original.
    pub fn sentences(&self) -> Vec<u32> {
        let (text, places) = self.text_with_places();
        let mut starts = Vec::new();
        let mut at = 0;
        for paragraph in text.split("\n\n") {
            for sentence in paragraph.split_sentence_bounds() {
                let blank = sentence.chars().take_while(|c| c.is_whitespace()).count();
                if !sentence.trim().is_empty() {
                    starts.extend(places.get(at + blank).copied());
                }
                at += sentence.chars().count();
            }
            at += 2;
        }
        starts
    }

    /// Whether there is anything to read.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}
