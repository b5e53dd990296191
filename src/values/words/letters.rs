//! The role of a character in a token.

use std::sync::LazyLock;

use regex::Regex;

/// The kinds of characters.
pub(super) enum CharClass {
    Letter,
    Mark,
    Digit,
    Invisible,
    Separator,
}

/// The kind of a character.
pub(super) fn class(c: char) -> CharClass {
    if c.is_ascii() {
        return match c {
            'a'..='z' | 'A'..='Z' => CharClass::Letter,
            '0'..='9' => CharClass::Digit,
            _ => CharClass::Separator,
        };
    }
    if c.is_numeric() {
        CharClass::Digit
    } else if c.is_alphabetic() {
        match c {
            // Symbols that are Alphabetic: letters in circles and squares, the info sign.
            'ℹ' | 'Ⓐ'..='ⓩ' | '\u{1F130}'..='\u{1F189}' => CharClass::Separator,
            _ => CharClass::Letter,
        }
    } else if matches(&INVISIBLE, c) {
        CharClass::Invisible
    } else if is_mark(c) {
        CharClass::Mark
    } else {
        CharClass::Separator
    }
}

/// Vowel signs are Alphabetic marks, so [`class`] treats them as letters; viramas and
/// accents are not Alphabetic.
pub(super) fn is_mark(c: char) -> bool {
    !c.is_ascii() && matches(&MARK, c)
}

#[expect(
    clippy::expect_used,
    reason = "a constant pattern, checked by the tests"
)]
static MARK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[\p{Mn}\p{Mc}]$").expect("the pattern is valid"));

#[expect(
    clippy::expect_used,
    reason = "a constant pattern, checked by the tests"
)]
static INVISIBLE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\p{Default_Ignorable_Code_Point}$").expect("the pattern is valid")
});

fn matches(pattern: &Regex, c: char) -> bool {
    pattern.is_match(c.encode_utf8(&mut [0; 4]))
}
