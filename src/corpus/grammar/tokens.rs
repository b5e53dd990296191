//! The tokens of a text, as in the vertical format: the words of UAX #29 and single symbols.

use unicode_segmentation::UnicodeSegmentation;

use crate::sanitize;
use crate::words::bounded_sentences;

/// The longest token in characters: longer runs of digits or symbols are not words.
const LONGEST: usize = 100;

/// A token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'t> {
    /// Its text.
    pub text: &'t str,
    /// Its first character, from 0.
    pub from: u32,
    /// The character after its last one.
    pub to: u32,
    /// Whether it is the first one of a sentence.
    pub begins: bool,
}

impl Token<'_> {
    /// Whether it has a letter.
    pub fn is_word(&self) -> bool {
        self.text.chars().any(char::is_alphabetic)
    }

    /// Whether it is a number.
    pub fn is_number(&self) -> bool {
        !self.is_word() && self.text.chars().any(char::is_numeric)
    }

    /// Whether it has neither letter nor digit.
    pub fn is_symbol(&self) -> bool {
        !self.text.chars().any(char::is_alphanumeric)
    }
}

/// The tokens of a text in order.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut all = Vec::new();
    let mut at = 0;
    for part in text.split("\n\n") {
        for sentence in bounded_sentences(part) {
            let mut begins = true;
            for token in sentence.split_word_bounds() {
                let length = token.chars().count();
                let from = at;
                at += length as u32;
                let is_none = length > LONGEST || token.chars().all(sanitize::acts);
                if is_none || token.trim().is_empty() {
                    continue;
                }
                all.push(Token {
                    text: token,
                    from,
                    to: at,
                    begins: std::mem::take(&mut begins),
                });
            }
        }
        at += 2;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_know_where_they_stand() {
        let text = "Ä 3,5 it's <b>.  So.\n\nNow\u{200b}!";
        let all = tokens(text);
        let found: Vec<_> = all.iter().map(|t| (t.text, t.begins)).collect();
        assert_eq!(
            found,
            [
                ("Ä", true),
                ("3,5", false),
                ("it's", false),
                ("<", false),
                ("b", false),
                (">", false),
                (".", false),
                ("So", true),
                (".", false),
                ("Now", true),
                ("\u{200b}", false),
                ("!", false),
            ]
        );
        let chars: Vec<char> = text.chars().collect();
        for token in &all {
            let there: String = chars[token.from as usize..token.to as usize]
                .iter()
                .collect();
            assert_eq!(there, token.text);
        }
        let kinds = |n: usize| (all[n].is_word(), all[n].is_number(), all[n].is_symbol());
        assert_eq!(kinds(0), (true, false, false));
        assert_eq!(kinds(1), (false, true, false));
        assert_eq!(kinds(3), (false, false, true));
        assert!(tokens(&"7".repeat(3_776)).is_empty());
    }
}
