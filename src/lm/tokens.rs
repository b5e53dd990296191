//! Tokens: running text becomes normalised [`Sentence`]s.
//!
//! Sentences and words are cut by Unicode UAX #29. Of a word only letters and
//! the marks that stand on them are kept, lower-cased:
//!
//! - digits and invisible characters (soft hyphen, joiners, variation selectors)
//!   vanish without a trace: `mp3` is `mp`, `99` is no token at all;
//! - everything else, the apostrophe included, parts two tokens: `don't` is
//!   `don t`, `l'homme` is `l homme`, `cat's` is `cat s` and so holds the keyword
//!   `cat`. KenLM's reference corpora are written in the same manner;
//! - scripts without spaces come as UAX #29 leaves them: a token per Han, Hiragana
//!   or Thai character, runs of Katakana and Hangul whole;
//! - no Unicode normalisation form is applied; pages of the web are in NFC.
//!
//! Training, documents, anchors and alt texts, keyword tables: all go through here.

use std::fmt;
use std::sync::LazyLock;

use regex::Regex;
use unicode_segmentation::UnicodeSegmentation;

use super::bounds::sentence_bounds;

/// The fewest tokens of a sentence that is training text and counts towards a
/// document's perplexity (Remus & Biemann 2016).
pub const MIN_TOKENS: usize = 5;

/// One normalised sequence of tokens, possibly empty.
///
/// A token is one or more lower-case letters with their marks. It is never empty,
/// and holds no white space and none of the characters of `<s>`, `</s>`, `<unk>`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sentence {
    /// The tokens, one space between two.
    text: String,
    tokens: usize,
}

impl Sentence {
    /// The tokens in order.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        // Byte by byte: a search for each space costs more than so short a token.
        self.text.split_ascii_whitespace()
    }

    /// How many tokens it has.
    pub fn len(&self) -> usize {
        self.tokens
    }

    /// True where no token is left of the text.
    pub fn is_empty(&self) -> bool {
        self.tokens == 0
    }

    /// The tokens as one text, a single space between two.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Appends the tokens of `text`.
    ///
    /// In ASCII they are the runs of letters and digits, without the digits, wherever
    /// UAX #29 ends its words: every other character parts two tokens, and no letter is
    /// parted from a digit. A space before an ASCII character ends a word in any text.
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

    /// Appends the tokens of a text that is ASCII and begins and ends with a word.
    fn push_ascii(&mut self, text: &str) {
        self.text.reserve(text.len() + 1);
        let mut within = false;
        for byte in text.bytes() {
            if byte.is_ascii_alphabetic() {
                if !within {
                    within = true;
                    self.tokens += 1;
                    if !self.text.is_empty() {
                        self.text.push(' ');
                    }
                }
                self.text.push(char::from(byte.to_ascii_lowercase()));
            } else if !byte.is_ascii_digit() {
                within = false;
            }
        }
    }

    /// Appends the tokens of one UAX #29 word.
    fn push_word(&mut self, word: &str) {
        let mut start = self.text.len();
        // A mark belongs to the letter before it and shares its fate.
        let mut after_letter = false;
        for c in word.chars() {
            match class(c) {
                Class::Letter if !after_letter && is_mark(c) => {}
                Class::Letter => {
                    if self.text.len() == start && start > 0 {
                        self.text.push(' ');
                        start += 1;
                    }
                    if c.is_ascii() {
                        self.text.push(c.to_ascii_lowercase());
                    } else {
                        self.text.extend(c.to_lowercase());
                    }
                    after_letter = true;
                }
                Class::Mark if after_letter => self.text.push(c),
                Class::Digit | Class::Mark => after_letter = false,
                Class::Invisible => {}
                Class::Separator => {
                    self.finish_token(start);
                    start = self.text.len();
                    after_letter = false;
                }
            }
        }
        self.finish_token(start);
    }

    /// Counts what was written since `start`, if anything was.
    fn finish_token(&mut self, start: usize) {
        let token = &self.text[start..];
        if token.is_empty() {
            return;
        }
        self.tokens += 1;
        // Character-wise lower-casing cannot see that a capital sigma ends a word.
        if token.len() > 'σ'.len_utf8() && token.ends_with('σ') {
            self.text.pop();
            self.text.push('ς');
        }
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Sentence> for String {
    fn from(sentence: Sentence) -> String {
        sentence.text
    }
}

/// Cuts each block into sentences and normalises them, in order; sentences with
/// no token are left out, short ones are not (see [`MIN_TOKENS`]).
///
/// A sentence never crosses a block. Within a block a line break ends a sentence
/// (UAX #29, rule SB4), so blocks come with their white space folded. A row of
/// 32 characters without letter or digit, as in a ruled line, ends one too.
pub fn sentences<'a>(blocks: impl IntoIterator<Item = &'a str>) -> Vec<Sentence> {
    blocks
        .into_iter()
        .flat_map(pieces)
        .flat_map(sentence_bounds)
        .map(normalise)
        .filter(|sentence| !sentence.is_empty())
        .collect()
}

/// Normalises a whole text as one sequence, whatever sentences it may hold: an
/// anchor, an alt text, a line of a corpus. Normalised text stays as it is.
pub fn normalise(text: &str) -> Sentence {
    let mut sentence = Sentence {
        text: String::with_capacity(text.len()),
        tokens: 0,
    };
    sentence.push(text);
    sentence
}

/// See [`sentences`].
const RULE: usize = 32;

/// Cuts a block at its ruled lines. Besides being no text, these must not reach
/// the segmentation: its look-ahead (rules SB8 to SB11) takes quadratic time on
/// a full stop before a long row of brackets, quotes or spaces.
fn pieces(block: &str) -> impl Iterator<Item = &str> {
    let mut rest = block;
    std::iter::from_fn(move || {
        let mut row = 0;
        for (at, c) in rest.char_indices() {
            row = if c.is_alphanumeric() { 0 } else { row + 1 };
            if row == RULE {
                let (piece, after) = rest.split_at(at + c.len_utf8());
                rest = after.trim_start_matches(|c: char| !c.is_alphanumeric());
                return Some(piece);
            }
        }
        Some(std::mem::take(&mut rest)).filter(|piece| !piece.is_empty())
    })
}

enum Class {
    Letter,
    Mark,
    Digit,
    Invisible,
    Separator,
}

fn class(c: char) -> Class {
    if c.is_ascii() {
        return match c {
            'a'..='z' | 'A'..='Z' => Class::Letter,
            '0'..='9' => Class::Digit,
            _ => Class::Separator,
        };
    }
    if c.is_numeric() {
        Class::Digit
    } else if c.is_alphabetic() {
        match c {
            // Alphabetic, but signs: letters in circles and squares, the info sign.
            'ℹ' | 'Ⓐ'..='ⓩ' | '\u{1F130}'..='\u{1F189}' => Class::Separator,
            _ => Class::Letter,
        }
    } else if matches(&INVISIBLE, c) {
        Class::Invisible
    } else if is_mark(c) {
        Class::Mark
    } else {
        Class::Separator
    }
}

/// Vowel signs are marks that are Alphabetic, so [`class`] takes them for letters;
/// viramas and accents are not.
fn is_mark(c: char) -> bool {
    !c.is_ascii() && matches(&MARK, c)
}

#[expect(clippy::expect_used, reason = "a constant pattern, held by the tests")]
static MARK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[\p{Mn}\p{Mc}]$").expect("the pattern is valid"));

#[expect(clippy::expect_used, reason = "a constant pattern, held by the tests")]
static INVISIBLE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\p{Default_Ignorable_Code_Point}$").expect("the pattern is valid")
});

fn matches(pattern: &Regex, c: char) -> bool {
    pattern.is_match(c.encode_utf8(&mut [0; 4]))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

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
            serde_json::from_str(include_str!("../../tests/fixtures/thesis/thesis.json")).unwrap();
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

    /// Unguarded, each of these takes an hour or more.
    #[test]
    fn no_text_takes_quadratic_time() {
        let start = Instant::now();
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
        assert!(start.elapsed() < Duration::from_secs(60));
    }

    proptest! {
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
            let mut by_words = Sentence::default();
            for word in text.split_word_bounds() {
                by_words.push_word(word);
            }
            prop_assert_eq!(normalise(&text), by_words);
        }

        #[test]
        fn sentences_lose_no_token(text in "\\PC{0,80}|[a-zA-Z. !?)]{0,80}") {
            let whole = normalise(&text);
            let cut = sentences([text.as_str()]);
            let joined: Vec<&str> = cut.iter().flat_map(Sentence::tokens).collect();
            prop_assert!(whole.tokens().eq(joined));
        }
    }
}
