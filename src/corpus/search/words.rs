//! Text to words, the same for documents and queries: by Unicode's rules (UAX #29) and at
//! the punctuation within such words; in lower case, without accents. There is no stemming, since one index
//! has documents of many languages.

use tantivy::tokenizer::{
    AsciiFoldingFilter, LowerCaser, RemoveLongFilter, TextAnalyzer, Token, TokenStream, Tokenizer,
};
use unicode_segmentation::{UnicodeSegmentation, UnicodeWordIndices};

/// The name by which the index knows it.
pub(super) const NAME: &str = "words";

/// The longest word, in bytes. Longer ones are data, such as runs of digits.
const LONGEST: usize = 120;

/// What splits a word of Unicode's rules: `example.org` is found by `example`.
const WITHIN: [char; 8] = ['\'', '\u{2019}', '.', ':', ',', ';', '_', '\u{b7}'];

/// The analyzer.
pub(super) fn analyzer() -> TextAnalyzer {
    TextAnalyzer::builder(Words::default())
        .filter(RemoveLongFilter::limit(LONGEST))
        .filter(LowerCaser)
        .filter(AsciiFoldingFilter)
        .build()
}

#[derive(Debug, Clone, Default)]
struct Words {
    token: Token,
}

impl Tokenizer for Words {
    type TokenStream<'a> = Stream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Stream<'a> {
        self.token.reset();
        Stream {
            words: text.unicode_word_indices(),
            rest: (0, ""),
            token: &mut self.token,
        }
    }
}

struct Stream<'a> {
    words: UnicodeWordIndices<'a>,
    /// What is left of the present word, and where it begins.
    rest: (usize, &'a str),
    token: &'a mut Token,
}

impl<'a> Stream<'a> {
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

impl TokenStream for Stream<'_> {
    fn advance(&mut self) -> bool {
        loop {
            if let Some((at, part)) = self.part() {
                let token = &mut *self.token;
                token.text.clear();
                token.text.push_str(part);
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
    fn data_is_no_word() {
        let text = format!("lamp {} light", "7".repeat(3_776));
        let found = words(&text);
        let texts: Vec<&str> = found.iter().map(|(text, ..)| text.as_str()).collect();
        assert_eq!(texts, ["lamp", "light"]);
    }
}
