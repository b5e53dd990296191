//! Normalises aliases and texts for comparison: a run of white space becomes one space, all
//! apostrophes and hyphens become the usual ones, soft hyphens are dropped. Case counts,
//! because it distinguishes names from words.

/// A character as it is compared; `None` if it is left out.
pub(super) fn compared(c: char) -> Option<char> {
    Some(match c {
        '\u{ad}' | '\u{feff}' | '\u{200b}' => return None,
        '\u{2018}' | '\u{2019}' | '\u{2bc}' | '\u{ff07}' => '\'',
        '\u{2010}' | '\u{2011}' => '-',
        // A name does not span two lines.
        '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}' => '\n',
        c if c.is_whitespace() => ' ',
        c => c,
    })
}

/// An alias as it is compared.
pub(super) fn alias(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars().filter_map(compared) {
        let c = if c == '\n' { ' ' } else { c };
        if c != ' ' || !(out.is_empty() || out.ends_with(' ')) {
            out.push(c);
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// Whether a text can be a name: it has a letter, and more than one character unless its script
/// has no spaces.
pub(super) fn is_name(alias: &str) -> bool {
    let mut letters = alias.chars().filter(|c| c.is_alphabetic());
    let first = letters.next();
    first.is_some_and(|c| joins_words(c) || alias.chars().nth(1).is_some())
}

/// Whether letters of this kind are written without spaces between words, so that a word may
/// begin or end anywhere.
pub(super) fn joins_words(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{eff}' // Thai, Lao
        | '\u{1000}'..='\u{109f}' // Burmese
        | '\u{1780}'..='\u{17ff}' // Khmer
        | '\u{3040}'..='\u{30ff}' // kana
        | '\u{3400}'..='\u{9fff}' // Han
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

/// Whether a word may end between two characters.
pub(super) fn is_boundary(before: Option<char>, after: Option<char>) -> bool {
    let (Some(before), Some(after)) = (before, after) else {
        return true;
    };
    let in_word = |c: char| c.is_alphanumeric() || c == '_' || is_mark(c);
    !(in_word(before) && in_word(after)) || joins_words(before) || joins_words(after)
}

/// Accents that follow their letter.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{20d0}'..='\u{20ff}')
}

/// A character of a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct CharPlace {
    /// Its normalised form.
    pub(super) c: char,
    /// Its number in the text, in characters.
    pub(super) at: u32,
    /// Its first byte in the text.
    pub(super) byte: u32,
}

/// The characters of a part of a text that begins at a byte and a character.
pub(super) fn places(part: &str, (byte, at): (usize, usize), into: &mut Vec<CharPlace>) {
    into.clear();
    for (number, (offset, c)) in part.char_indices().enumerate() {
        let Some(c) = compared(c) else { continue };
        if c == ' ' && into.last().is_some_and(|last| last.c == ' ') {
            continue;
        }
        into.push(CharPlace {
            c,
            at: (at + number) as u32,
            byte: (byte + offset) as u32,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_are_written_one_way() {
        assert_eq!(alias(" New\u{a0}\n York "), "New York");
        assert_eq!(alias("Côte d\u{2019}Ivoire"), "Côte d'Ivoire");
        assert_eq!(alias("Baden\u{2011}Würt\u{ad}temberg"), "Baden-Württemberg");
        assert_eq!(alias(" \u{ad}"), "");
    }

    #[test]
    fn what_is_no_name() {
        for (alias, expected) in [
            ("", false),
            ("A", false),
            ("1984", false),
            ("--", false),
            ("U2", true),
            ("京", true),
            ("Li", true),
        ] {
            assert_eq!(is_name(alias), expected, "{alias}");
        }
    }

    #[test]
    fn words_end_where_letters_do() {
        for (before, after, expected) in [
            ('s', 'h', false),
            ('s', '\'', true),
            ('s', '-', true),
            ('e', '\u{301}', false),
            ('2', 'b', false),
            ('京', 'タ', true),
            ('.', 'S', true),
        ] {
            assert_eq!(
                is_boundary(Some(before), Some(after)),
                expected,
                "{before}{after}"
            );
        }
    }
}
