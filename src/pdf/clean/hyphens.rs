//! The meaning of a hyphen at the end of a line: it marks a divided word, or is part of the word.
//!
//! Usually the text itself gives the answer: a divided word occurs elsewhere as a whole, a compound
//! occurs with its hyphen. Next come word lists, and last the halves themselves: in a compound both
//! are words.

use super::words::{Vocabulary, folded, is_hyphen, is_of_word};

/// How a line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineEnding {
    /// Without a hyphen, or with one that is not part of a word.
    None,
    /// In a divided word: the hyphen is removed.
    Divided,
    /// In a compound: the hyphen stays, and the rest of the word follows.
    Compound,
    /// In a word whose second part is left out, as in "Ein- und Ausgabe".
    Suspended,
}

/// The known words.
pub(super) struct KnownWords<'k> {
    pub(super) own: &'k Vocabulary,
    /// Whether a word list contains a word.
    pub(super) listed: &'k dyn Fn(&str) -> bool,
    /// Whether there is a word list at all.
    pub(super) has_list: bool,
    /// Whether a soft hyphen at the end of a line always divides a word. If other lines have soft
    /// hyphens within, the file uses them for all hyphens.
    pub(super) soft_divides: bool,
}

/// Words that follow a suspended hyphen.
const CONJUNCTIONS: [&str; 20] = [
    "und", "oder", "bzw", "sowie", "bis", "als", "and", "or", "to", "et", "ou", "y", "o", "e", "i",
    "en", "of", "och", "og", "eller",
];

/// How `line` ends, given the following one.
pub(super) fn ending(line: &str, next: &str, known: &KnownWords<'_>) -> LineEnding {
    let Some(hyphen) = line.chars().next_back().filter(|c| is_hyphen(*c)) else {
        return LineEnding::None;
    };
    let Some(before) = line.get(..line.len() - hyphen.len_utf8()) else {
        return LineEnding::None;
    };
    let begin = before.rfind(|c| !is_of_word(c));
    let begin = begin.map_or(0, |at| {
        at + before
            .get(at..)
            .and_then(|rest| rest.chars().next())
            .map_or(0, char::len_utf8)
    });
    let left = before.get(begin..).unwrap_or_default();
    let right = next.get(..next.find(|c| !is_of_word(c)).unwrap_or(next.len()));
    let right = right.unwrap_or_default();
    let (Some(last), Some(first)) = (left.chars().next_back(), right.chars().next()) else {
        return LineEnding::None;
    };
    if hyphen == '\u{ad}' && first.is_alphabetic() && known.soft_divides {
        return LineEnding::Divided;
    }
    if !last.is_alphanumeric() || !first.is_alphanumeric() {
        return LineEnding::None;
    }
    let token = before
        .rsplit(char::is_whitespace)
        .next()
        .unwrap_or_default();
    let is_address = token.contains("://") || token.contains('@') || token.starts_with("www.");
    if !last.is_alphabetic() || !first.is_alphabetic() || is_address || left.starts_with('-') {
        return LineEnding::Compound;
    }
    of_words(left, right, known)
}

/// The same for two halves of letters.
fn of_words(left: &str, right: &str, known: &KnownWords<'_>) -> LineEnding {
    let is_capital = |c: char| c.is_uppercase();
    // Headings may be entirely in capitals.
    let all_capitals =
        left.ends_with(is_capital) && !right.chars().nth(1).is_some_and(char::is_lowercase);
    let begins_anew = right.starts_with(is_capital) && !all_capitals;
    let (left, right) = (folded(left), folded(right));
    let (own, listed) = (known.own, known.listed);
    let joined = format!("{left}{right}");
    let compound = format!("{left}-{right}");
    let (whole, with_hyphen) = (own.count(&joined), own.count(&compound));
    if whole > 0 || with_hyphen > 0 {
        return if with_hyphen >= whole {
            LineEnding::Compound
        } else {
            LineEnding::Divided
        };
    }
    // No language divides a word before a capital letter.
    if begins_anew {
        return LineEnding::Compound;
    }
    // In a longer compound only the parts at the hyphen matter.
    let last = left.rsplit('-').next().unwrap_or_default();
    let first = right.split('-').next().unwrap_or_default();
    let middle = format!("{last}{first}");
    if CONJUNCTIONS.contains(&right.as_str()) && !listed(&joined) {
        return LineEnding::Suspended;
    }
    if own.count(&middle) > 0 || listed(&middle) || listed(&joined) {
        return LineEnding::Divided;
    }
    let is_word = |part: &str| {
        let count = own.count(part) + own.as_part(part);
        if known.has_list {
            listed(part) || count >= 3
        } else {
            count >= 2
        }
    };
    // Other compounds with one of these parts are evidence for this one: many divided words have
    // halves that are words ("con-currency").
    let in_compounds = own.as_part(last) + own.as_part(first) > 0 || left.contains('-');
    // One letter is never divided from its word: "e-mail", "x-axis".
    if last.chars().count() == 1 {
        return LineEnding::Compound;
    }
    if in_compounds && is_word(last) && is_word(first) {
        return LineEnding::Compound;
    }
    LineEnding::Divided
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, line: &str, next: &str, list: Option<&[&str]>) -> LineEnding {
        let lines = [text];
        let own = Vocabulary::of(&lines, &[0]);
        let listed = |word: &str| list.is_some_and(|list| list.contains(&word));
        let known = KnownWords {
            own: &own,
            listed: &listed,
            has_list: list.is_some(),
            soft_divides: !text.contains('\u{ad}'),
        };
        ending(line, next, &known)
    }

    #[test]
    fn the_text_itself_distinguishes_compounds_from_divided_words() {
        let text = "A lighthouse has a well-known keeper.";
        let ending = |line: &str, next: &str| of(text, line, next, None);
        assert_eq!(ending("the light-", "house on"), LineEnding::Divided);
        assert_eq!(ending("a well-", "known one"), LineEnding::Compound);
        assert_eq!(ending("a Well-", "known,"), LineEnding::Compound);
        // Neither half is known.
        assert_eq!(ending("remem-", "ber"), LineEnding::Divided);
        assert_eq!(ending("soft\u{ad}", "ware"), LineEnding::Divided);
        let all_soft = "a well\u{ad}known light of 1910\u{ad}1935";
        assert_eq!(
            of(all_soft, "well\u{ad}", "known", None),
            LineEnding::Compound
        );
        assert_eq!(
            of(all_soft, "light\u{ad}", "house", None),
            LineEnding::Divided
        );
    }

    #[test]
    fn lists_and_other_compounds_decide_what_the_text_does_not() {
        let list: &[&str] = &[
            "two",
            "digit",
            "con",
            "currency",
            "under",
            "stand",
            "understand",
        ];
        let ending = |text: &str, line: &str, next: &str| of(text, line, next, Some(list));
        assert_eq!(
            ending("two-way", "a two-", "digit year"),
            LineEnding::Compound
        );
        assert_eq!(ending("two-way", "con-", "currency"), LineEnding::Divided);
        assert_eq!(ending("under-age", "under-", "stand"), LineEnding::Divided);
        let art = of("of the", "state-of-", "the-art", Some(&["of", "the"]));
        assert_eq!(art, LineEnding::Compound);
    }

    #[test]
    fn what_no_language_divides_keeps_its_hyphen() {
        let ending = |line: &str, next: &str| of("", line, next, None);
        assert_eq!(
            ending("Frau Meier-", "Schultze-Friese"),
            LineEnding::Compound
        );
        assert_eq!(ending("das GNU-", "Manifest"), LineEnding::Compound);
        assert_eq!(ending("CON-", "TENTS"), LineEnding::Divided);
        assert_eq!(ending("an e-", "mail"), LineEnding::Compound);
        assert_eq!(ending("from 2019-", "2020"), LineEnding::Compound);
        assert_eq!(ending("see http://a.test/a-", "page"), LineEnding::Compound);
        assert_eq!(ending("the option --no-", "wait"), LineEnding::Compound);
        assert_eq!(ending("Ein-", "und Ausgabe"), LineEnding::Suspended);
        for (line, next) in [
            ("a -", "dash"),
            ("the end", "next"),
            ("a-", "(b"),
            ("-", "x"),
            ("", ""),
        ] {
            assert_eq!(ending(line, next), LineEnding::None, "{line:?} {next:?}");
        }
    }
}
