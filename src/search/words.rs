//! Splits text into words, in the same way for documents and queries: by Unicode's rules
//! (UAX #29) and at punctuation within such words. Case, accents and variants of a letter are
//! ignored in all scripts. There is no stemming, because an index has documents in many
//! languages.

use icu_normalizer::properties::CanonicalCombiningClassMapBorrowed;
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use tantivy::tokenizer::{
    AsciiFoldingFilter, RemoveLongFilter, TextAnalyzer, Token, TokenStream, Tokenizer,
};
use unicode_segmentation::{UnicodeSegmentation, UnicodeWordIndices};

/// The name of the analyzer in the index.
pub(super) const NAME: &str = "words";

/// The longest word, in bytes. Longer ones are data, such as runs of digits.
const LONGEST: usize = 120;

/// The characters that split a Unicode word, so that `example` finds `example.org`.
const WITHIN: [char; 8] = ['\'', '\u{2019}', '.', ':', ',', ';', '_', '\u{b7}'];

/// The analyzer.
pub(super) fn analyzer() -> TextAnalyzer {
    TextAnalyzer::builder(WordTokenizer::default())
        .filter(RemoveLongFilter::limit(LONGEST))
        .filter(AsciiFoldingFilter)
        .build()
}

/// The words of a text, in their order.
pub(super) fn of(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut analyzer = analyzer();
    let mut stream = analyzer.token_stream(text);
    stream.process(&mut |token| words.push(token.text.clone()));
    words
}

/// Normalises a word for comparison: decomposed (NFKD), without accents, in one case, and
/// composed again (NFC), because the parts of Hangul are letters.
fn fold(word: &str, out: &mut String) {
    if word.is_ascii() {
        out.push_str(word);
        out.make_ascii_lowercase();
        return;
    }
    let classes = CanonicalCombiningClassMapBorrowed::new();
    let is_kept = |c: &char| *c != TATWEEL && !is_accent(classes.get_u8(*c));
    let whole = DecomposingNormalizerBorrowed::new_nfkd();
    // Upper case first, because some letters with several small forms share a capital.
    let plain = whole.normalize_iter(word.chars()).filter(is_kept);
    let folded = plain
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase);
    out.extend(ComposingNormalizerBorrowed::new_nfc().normalize_iter(folded));
}

/// The tatweel, which lengthens Arabic words and is not a letter.
const TATWEEL: char = '\u{640}';

/// Whether marks of this combining class (Unicode, section 4.3) are accents, or points of Hebrew
/// and Arabic. Marks of other classes are as significant as letters: the voicing of kana, and
/// vowels of Indic scripts, Thai and Tibetan.
fn is_accent(class: u8) -> bool {
    matches!(class, 1 | 10..=36 | 200..)
}

#[derive(Debug, Clone, Default)]
struct WordTokenizer {
    token: Token,
}

impl Tokenizer for WordTokenizer {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        self.token.reset();
        WordStream {
            words: text.unicode_word_indices(),
            rest: (0, ""),
            token: &mut self.token,
        }
    }
}

struct WordStream<'a> {
    words: UnicodeWordIndices<'a>,
    /// The rest of the present word, and its position.
    rest: (usize, &'a str),
    token: &'a mut Token,
}

impl<'a> WordStream<'a> {
    /// The next part of the present word.
    fn part(&mut self) -> Option<(usize, &'a str)> {
        let (at, rest) = self.rest;
        let begin = rest.find(|c| !WITHIN.contains(&c))?;
        let rest = rest.get(begin..)?;
        let (part, left) = match rest.find(WITHIN) {
            Some(end) => rest.split_at(end),
            None => (rest, ""),
        };
        self.rest = (at + begin + part.len(), left);
        Some((at + begin, part))
    }
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        loop {
            if let Some((at, part)) = self.part() {
                let token = &mut *self.token;
                token.text.clear();
                fold(part, &mut token.text);
                token.offset_from = at;
                token.offset_to = at + part.len();
                token.position = token.position.wrapping_add(1);
                return true;
            }
            match self.words.next() {
                Some(word) => self.rest = word,
                None => return false,
            }
        }
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<(String, usize, usize)> {
        let mut analyzer = analyzer();
        let mut stream = analyzer.token_stream(text);
        let mut words = Vec::new();
        while let Some(token) = stream.next() {
            assert!(text.get(token.offset_from..token.offset_to).is_some());
            words.push((token.text.clone(), token.offset_from, token.position));
        }
        words
    }

    #[test]
    fn words_are_lower_case_without_accents_and_split_at_punctuation() {
        let found = words("The Café’s lamp: example.org, 3,776 Straße!");
        let texts: Vec<&str> = found.iter().map(|(text, ..)| text.as_str()).collect();
        let expected = [
            "the", "cafe", "s", "lamp", "example", "org", "3", "776", "strasse",
        ];
        assert_eq!(texts, expected);
        assert_eq!(found[3], ("lamp".to_owned(), 14, 3));
        assert_eq!(found[8].2, 8);
        // Scripts without spaces.
        let found = words("東京タワー");
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(words(""), []);
        assert_eq!(words("... ' _ --"), []);
    }

    #[test]
    fn case_and_accents_do_not_count_in_any_script() {
        for (one, other) in [
            ("Cafe\u{301}", "CAFÉ"),
            ("\u{fb01}sh Ｆｕｌｌ \u{212b}ngström", "fish full angstrom"),
            ("İstanbul ISPARTA ışık", "istanbul ısparta IŞIK"),
            ("Φάρος ΦΆΡΟΣ", "φαροσ φαρος"),
            ("Ёлка Йод", "елка ИОД"),
            ("مَنَارَة أضواء", "منارة اضواء"),
            ("مـنـارة", "منارة"),
            ("מִגְדַּלּוֹר", "מגדלור"),
            ("Großmast ẞ Łódź Ærø", "GROSSMAST ss lodz aero"),
            ("\u{1112}\u{1161}\u{11ab}", "한"),
            ("ﾊﾞｽ", "バス"),
            ("Việt Nam", "viet nam"),
        ] {
            let texts = |text| words(text).into_iter().map(|(text, ..)| text);
            assert!(
                texts(one).eq(texts(other)),
                "{:?} {:?}",
                words(one),
                words(other)
            );
        }
        // Marks that change the letter or word.
        for (one, other) in [("が", "か"), ("कि", "की"), ("มา", "ม้า"), ("ਸਿ", "ਸੀ")]
        {
            assert_ne!(words(one), words(other));
        }
    }

    #[test]
    fn data_is_no_word() {
        let text = format!("lamp {} light", "7".repeat(3_776));
        let found = words(&text);
        let texts: Vec<&str> = found.iter().map(|(text, ..)| text.as_str()).collect();
        assert_eq!(texts, ["lamp", "light"]);
    }
}
