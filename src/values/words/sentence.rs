//! Sentences: normalised sequences of tokens, and how text is converted to them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use unicode_segmentation::UnicodeSegmentation;

use super::bounds::sentence_bounds;
use super::letters::{CharClass, class, is_mark};

/// The fewest tokens that a sentence needs to serve as training text and count towards a
/// document's perplexity (Remus & Biemann 2016).
pub const MIN_TOKENS: usize = 5;

/// One normalised sequence of tokens, possibly empty.
///
/// A token is one or more lower-case letters with their marks. It is never empty, and
/// contains no white space and none of the special characters of `<s>`, `</s>`, `<unk>`.
///
/// The sentences of one text are slices of one buffer, and their tokens are slices of the
/// sentences; clones share the buffer.
#[derive(Clone, Default)]
pub struct Sentence {
    buffer: Arc<str>,
    /// Its range in the buffer, with one space between two tokens.
    start: usize,
    end: usize,
    tokens: usize,
}

impl Sentence {
    /// The tokens in order.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        // Byte by byte, because a search for each space costs more than such short tokens.
        self.as_str().split_ascii_whitespace()
    }

    /// How many tokens it has.
    pub fn len(&self) -> usize {
        self.tokens
    }

    /// Whether it has no tokens.
    pub fn is_empty(&self) -> bool {
        self.tokens == 0
    }

    /// The tokens as one text, separated by single spaces.
    pub fn as_str(&self) -> &str {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }
}

impl PartialEq for Sentence {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Sentence {}

impl fmt::Debug for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<Sentence> for String {
    fn from(sentence: Sentence) -> String {
        sentence.as_str().to_owned()
    }
}

/// Writes the tokens of sentences one after the other, separated by spaces.
#[derive(Debug, Default)]
pub(super) struct SentenceWriter {
    pub(super) text: String,
    /// Where the current sentence begins.
    start: usize,
    /// Its number of tokens so far.
    tokens: usize,
    /// The position in the text being read.
    at: usize,
    /// Each token of all sentences, if requested.
    pub(super) places: Option<Vec<TokenPlace>>,
}

/// The position of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TokenPlace {
    /// Its first byte in the written text.
    pub(super) written: u32,
    /// Its first byte in the original text.
    pub(super) from: u32,
    /// The end of its last character there.
    pub(super) to: u32,
}

impl SentenceWriter {
    /// Appends the tokens of `text`.
    ///
    /// In ASCII these are the runs of letters and digits, without the digits, wherever UAX
    /// #29 ends its words: every other character separates tokens, and no digit does. A
    /// space before an ASCII character ends a word in any text.
    fn push(&mut self, text: &str) {
        let mut rest = text;
        while let Some(at) = rest.bytes().position(|b| !b.is_ascii()) {
            let before = rest.get(..at.saturating_sub(1)).unwrap_or_default();
            let (ascii, other) = rest.split_at(before.rfind(' ').map_or(0, |space| space + 1));
            let first = at - ascii.len();
            let is_end = |pair: &[u8]| pair.first() == Some(&b' ') && pair.is_ascii();
            let mut ends = other.as_bytes().windows(2).skip(first);
            let end = ends.position(is_end).map_or(other.len(), |n| first + n);
            let (other, after) = other.split_at(end);
            self.push_ascii(ascii);
            for word in other.split_word_bounds() {
                self.push_word(word);
            }
            rest = after;
        }
        self.push_ascii(rest);
    }

    /// Appends the tokens of an ASCII text that begins and ends with a word. Words separated by
    /// single spaces are copied unchanged, many at a time.
    fn push_ascii(&mut self, text: &str) {
        self.text.reserve(text.len() + 1);
        let bytes = text.as_bytes();
        let start = self.text.len();
        let is_letter = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_alphabetic);
        let mut next = 0;
        while let Some(n) = bytes.iter().skip(next).position(u8::is_ascii_alphabetic) {
            let first = next + n;
            self.begin_token(self.at + first);
            let written = self.text.len();
            next = first + 1;
            loop {
                next += letters(bytes.get(next..).unwrap_or_default());
                self.extend_token(self.at + next);
                if bytes.get(next) != Some(&b' ') || !is_letter(next + 1) {
                    break;
                }
                next += 1;
                self.another_token(written + next - first, self.at + next);
            }
            self.text
                .push_str(text.get(first..next).unwrap_or_default());
            next = self.push_after_digits(text, next);
        }
        if let Some(written) = self.text.get_mut(start..) {
            written.make_ascii_lowercase();
        }
        self.at += text.len();
    }

    /// Appends the letters of a word that follow digits, which may be at `from`. Returns
    /// where the word ends.
    fn push_after_digits(&mut self, text: &str, from: usize) -> usize {
        let bytes = text.as_bytes();
        let mut next = from;
        loop {
            let digits = run(bytes, next, u8::is_ascii_digit);
            let first = next + digits;
            next = first + letters(bytes.get(first..).unwrap_or_default());
            if digits == 0 || next == first {
                return next;
            }
            self.text
                .push_str(text.get(first..next).unwrap_or_default());
            self.extend_token(self.at + next);
        }
    }

    /// Appends the tokens of one UAX #29 word.
    fn push_word(&mut self, word: &str) {
        let mut start = self.text.len();
        // A mark belongs to the letter before it and is kept or dropped with it.
        let mut after_letter = false;
        for (n, c) in word.char_indices() {
            let (from, to) = (self.at + n, self.at + n + c.len_utf8());
            match class(c) {
                CharClass::Letter if !after_letter && is_mark(c) => {}
                CharClass::Letter => {
                    if self.text.len() == start {
                        self.begin_token(from);
                        start = self.text.len();
                    }
                    if c.is_ascii() {
                        self.text.push(c.to_ascii_lowercase());
                    } else {
                        self.text.extend(c.to_lowercase());
                    }
                    self.extend_token(to);
                    after_letter = true;
                }
                CharClass::Mark if after_letter => {
                    self.text.push(c);
                    self.extend_token(to);
                }
                CharClass::Digit | CharClass::Mark => after_letter = false,
                CharClass::Invisible => {}
                CharClass::Separator => {
                    self.finish_word(start);
                    start = self.text.len();
                    after_letter = false;
                }
            }
        }
        self.finish_word(start);
        self.at += word.len();
    }

    /// Begins another token, at `from` in the text.
    fn begin_token(&mut self, from: usize) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        if self.tokens == 0 {
            self.start = self.text.len();
        }
        self.another_token(self.text.len(), from);
    }

    /// Counts another token, at `written` in the output and at `from` in the text.
    fn another_token(&mut self, written: usize, from: usize) {
        self.tokens += 1;
        if let Some(places) = &mut self.places {
            let (written, from) = (small(written), small(from));
            places.push(TokenPlace {
                written,
                from,
                to: from,
            });
        }
    }

    /// Extends the current token to `to`.
    fn extend_token(&mut self, to: usize) {
        if let Some(last) = self.places.as_mut().and_then(|places| places.last_mut()) {
            last.to = small(to);
        }
    }

    /// Completes the token written since `start`, if there is one.
    fn finish_word(&mut self, start: usize) {
        let token = &self.text[start..];
        // Lower-casing character by character cannot see that a capital sigma ends a word.
        if token.len() > 'σ'.len_utf8() && token.ends_with('σ') {
            self.text.pop();
            self.text.push('ς');
        }
    }

    /// Ends the current sentence; returns its range and number of tokens.
    fn end_sentence(&mut self) -> WrittenSentence {
        let of = WrittenSentence {
            text: self.start..self.text.len(),
            tokens: std::mem::take(&mut self.tokens),
        };
        self.start = self.text.len();
        of
    }
}

/// A sentence in the written text.
pub(super) struct WrittenSentence {
    text: Range<usize>,
    pub(super) tokens: usize,
}

impl WrittenSentence {
    /// The sentence, of this written text.
    pub(super) fn sentence(self, buffer: &Arc<str>) -> Sentence {
        Sentence {
            buffer: buffer.clone(),
            start: self.text.start,
            end: self.text.end,
            tokens: self.tokens,
        }
    }
}

fn small(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// The number of letters at the start of an ASCII text.
fn letters(ascii: &[u8]) -> usize {
    let mut at = 0;
    while let Some(eight) = ascii.get(at..).and_then(|rest| rest.first_chunk()) {
        // Eight at a time. The additions set the highest bit of each byte from `a` on, and of each
        // byte after `z`; none carries into the next byte.
        let lower = u64::from_le_bytes(*eight) | u64::from_ne_bytes([0x20; 8]);
        let from_a = lower + u64::from_ne_bytes([0x80 - b'a'; 8]);
        let behind_z = lower + u64::from_ne_bytes([0x7F - b'z'; 8]);
        let others = (!from_a | behind_z) & u64::from_ne_bytes([0x80; 8]);
        if others != 0 {
            return at + others.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + run(ascii, at, u8::is_ascii_alphabetic)
}

/// How many consecutive bytes from `from` on match `such`.
fn run(bytes: &[u8], from: usize, such: fn(&u8) -> bool) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    let end = rest.iter().position(|byte| !such(byte));
    end.unwrap_or(rest.len())
}

/// Splits each block into sentences and normalises them, in order. Sentences without tokens are
/// left out; short ones are kept (see [`MIN_TOKENS`]).
///
/// A sentence never crosses a block. Within a block a line break ends a sentence (UAX #29,
/// rule SB4), so blocks must have their white space folded. A run of 32 characters without
/// letter or digit, such as a ruled line, ends one too.
pub fn sentences<'a>(blocks: impl IntoIterator<Item = &'a str>) -> Vec<Sentence> {
    let mut writer = SentenceWriter::default();
    let mut cuts = Vec::new();
    let mut at = 0;
    for block in blocks {
        cut(&mut writer, block, at, &mut cuts, |_| {});
        at += block.len() + 1;
    }
    let buffer: Arc<str> = std::mem::take(&mut writer.text).into();
    let cuts = cuts.into_iter();
    cuts.map(|cut| cut.sentence(&buffer)).collect()
}

/// Writes the sentences of a block that begins `at` this byte of a text; `on_ruled`
/// receives every piece that ends with a ruled line.
pub(super) fn cut(
    writer: &mut SentenceWriter,
    block: &str,
    at: usize,
    cuts: &mut Vec<WrittenSentence>,
    mut on_ruled: impl FnMut(&str),
) {
    let mut rest = block;
    while let Some((piece, after)) = next_piece(rest) {
        if piece.len() < rest.len() {
            on_ruled(piece);
        }
        writer.at = at + block.len() - rest.len();
        for sentence in sentence_bounds(piece) {
            writer.push(sentence);
            let sentence = writer.end_sentence();
            if sentence.tokens > 0 {
                cuts.push(sentence);
            }
        }
        rest = after;
    }
}

/// Normalises a whole text as one sequence, even if it contains several sentences: an
/// anchor, an alt text, a line of a corpus. Normalised text is unchanged.
pub fn normalise(text: &str) -> Sentence {
    let mut writer = SentenceWriter::default();
    writer.push(text);
    let cut = writer.end_sentence();
    cut.sentence(&writer.text.into())
}

/// See [`sentences`].
const RULE: usize = 32;

/// The text before a ruled line, and the text after it. Ruled lines are not text, and they
/// must not reach the segmentation: its look-ahead (rules SB8 to SB11) takes quadratic
/// time for a full stop before a long run of brackets, quotes or spaces.
fn next_piece(block: &str) -> Option<(&str, &str)> {
    if block.is_ascii() {
        let found = ascii_rule(block.as_bytes());
        let (piece, after) = block.split_at(found.unwrap_or(block.len()));
        let after = after.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        return (!block.is_empty()).then_some((piece, after));
    }
    let mut row = 0;
    for (at, c) in block.char_indices() {
        row = if c.is_alphanumeric() { 0 } else { row + 1 };
        if row == RULE {
            let (piece, after) = block.split_at(at + c.len_utf8());
            return Some((
                piece,
                after.trim_start_matches(|c: char| !c.is_alphanumeric()),
            ));
        }
    }
    (!block.is_empty()).then_some((block, ""))
}

/// Where the ruled line of an ASCII text is complete. In most stretches of this length, only the
/// last characters are examined.
fn ascii_rule(bytes: &[u8]) -> Option<usize> {
    let mut start = 0;
    loop {
        let stretch = bytes.get(start..start + RULE)?;
        match stretch.iter().rposition(u8::is_ascii_alphanumeric) {
            Some(last) => start += last + 1,
            None => return Some(start + RULE),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn kept(blocks: &[&str]) -> Vec<String> {
        sentences(blocks.iter().copied())
            .into_iter()
            .filter(|s| s.len() >= MIN_TOKENS)
            .map(String::from)
            .collect()
    }

    #[test]
    fn the_sentence_of_the_thesis() {
        let thesis: serde_json::Value =
            serde_json::from_str(include_str!("../../../tests/fixtures/thesis/thesis.json"))
                .unwrap();
        for case in thesis["sentence_normalisation"].as_array().unwrap() {
            let document = scraper::Html::parse_fragment(case["html"].as_str().unwrap());
            let text: String = document.root_element().text().collect();
            let expected: Vec<&str> = case["kept"]
                .as_array()
                .unwrap()
                .iter()
                .map(|kept| kept.as_str().unwrap())
                .collect();
            assert_eq!(kept(&[&text]), expected);
        }
    }

    #[test]
    fn words_of_many_languages() {
        for (text, tokens) in [
            ("", ""),
            ("99", ""),
            (
                " 3,141.59 :) \u{1F600} 1\u{FE0F}\u{20E3} \u{1F170}\u{FE0F} Ⓐ",
                "",
            ),
            ("<s> </s> <unk>", "s s unk"),
            ("mp3 2nd h2o x\u{B2}", "mp nd ho x"),
            (
                "Don't, don\u{2019}t; l'homme cat's",
                "don t don t l homme cat s",
            ),
            (
                "snake_case www.example.com co-op",
                "snake case www example com co op",
            ),
            ("col\u{B7}lecció", "col lecció"),
            ("Zu\u{AD}cker\u{200D}watte\u{FEFF}n", "zuckerwatten"),
            ("a\u{200B}b", "a b"),
            ("ÄÖÜ Straße ÉTÉ", "äöü straße été"),
            ("e\u{301}te\u{301} 1\u{301}", "e\u{301}te\u{301}"),
            ("ΟΔΟΣ Σ οδος ΣΑΣ'", "οδος σ οδος σας"),
            ("İstanbul IĞDIR", "i\u{307}stanbul iğdir"),
            ("हिन्दी में", "हिन्दी में"),
            ("\u{93F} 0\u{93F}न", "न"),
            ("שָׁלוֹם צה\"ל", "שָׁלוֹם צה ל"),
            ("مَرْحَبًا می\u{200C}خواهم", "مَرْحَبًا میخواهم"),
            ("猫は可愛い", "猫 は 可 愛 い"),
            ("カタカナ 고양이", "カタカナ 고양이"),
            ("ไทย", "ไ ท ย"),
        ] {
            let sentence = normalise(text);
            assert_eq!(sentence.as_str(), tokens, "{text}");
            assert_eq!(sentence.len(), tokens.split_whitespace().count(), "{text}");
            assert!(sentence.tokens().eq(tokens.split_whitespace()), "{text}");
        }
    }

    #[test]
    fn a_block_ends_a_sentence_and_so_does_a_ruled_line() {
        assert_eq!(
            kept(&["one two three four", "five six seven eight nine. Ten"]),
            ["five six seven eight nine"]
        );
        let ruled = format!("a b c d e {} f g h i j", "- ".repeat(20));
        assert_eq!(kept(&[&ruled]), ["a b c d e", "f g h i j"]);
        let short = "a b c d e ... ... f g h i j";
        assert_eq!(kept(&[short]), ["a b c d e f g h i j"]);
    }

    /// Without a guard, each of these takes an hour or more.
    #[test]
    fn no_text_takes_quadratic_time() {
        let before = spoor_testing::worked();
        for unit in [
            ")",
            "\"",
            "\u{A0}",
            ") ",
            "1 ",
            ".) ",
            "\u{301}",
            "a:\u{AD}",
            "\u{1F1E6}",
        ] {
            sentences([format!(". {}", unit.repeat(500_000)).as_str()]);
        }
        let took = spoor_testing::worked() - before;
        assert!(took < Duration::from_secs(60), "{took:?}");
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn tokens_are_clean_and_normalising_again_changes_nothing(text in "\\PC{0,60}|[a-zA-Z0-9'’_. \u{AD}\u{301}Σσカ猫हि\u{200D}ℹ]{0,40}") {
            let sentence = normalise(&text);
            prop_assert_eq!(sentence.tokens().count(), sentence.len());
            for token in sentence.tokens() {
                prop_assert!(!token.is_empty());
                prop_assert!(!token.contains(|c: char| c.is_whitespace() || "<>/".contains(c) || c.is_numeric()));
            }
            prop_assert_eq!(normalise(sentence.as_str()), sentence);
        }

        #[test]
        fn tokens_of_ascii_are_those_of_its_words(text in "[ -~é\u{301}\u{200D}हि\u{A0}]{0,60}|[a-c1 ._'é\u{301}\u{93F}]{0,20}|\\PC{0,40}") {
            let mut by_words = SentenceWriter::default();
            for word in text.split_word_bounds() {
                by_words.push_word(word);
            }
            let tokens = by_words.end_sentence().tokens;
            let sentence = normalise(&text);
            prop_assert_eq!((sentence.as_str(), sentence.len()), (&*by_words.text, tokens));
        }

        #[test]
        fn sentences_lose_no_token(text in "\\PC{0,80}|[a-zA-Z. !?)]{0,80}") {
            let whole = normalise(&text);
            let cut = sentences([text.as_str()]);
            let joined: Vec<&str> = cut.iter().flat_map(Sentence::tokens).collect();
            prop_assert!(whole.tokens().eq(joined));
        }

        #[test]
        fn ruled_lines_of_ascii_are_those_of_any_text(text in "([ -]{20,40}|[a-c1]{1,3}){0,8}") {
            let mut row = 0;
            let slow = text.bytes().position(|b| {
                row = if b.is_ascii_alphanumeric() { 0 } else { row + 1 };
                row == RULE
            });
            prop_assert_eq!(ascii_rule(text.as_bytes()), slow.map(|at| at + 1));
        }
    }
}
