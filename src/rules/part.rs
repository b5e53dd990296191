//! Values that are part of a text, found by the words around them.

use regex::Regex;

/// The most words before and after a value that are taken from a single page.
const BEFORE: usize = 3;
const BEHIND: usize = 1;

/// A text with its white space collapsed, and the value that is part of it.
pub(super) type Text<'t> = (&'t str, &'t str);

/// Whether the value is part of the text, but not of one of its words.
pub(super) fn has(text: &str, value: &str) -> bool {
    split(text, value).is_some()
}

/// A regular expression whose first group is the value in each text; in any other text it matches
/// with an empty group. `None` if the texts have no words around the value in common.
pub(super) fn pattern(texts: &[Text<'_>]) -> Option<String> {
    let parts: Vec<(&str, &str)> = texts
        .iter()
        .map(|(text, value)| split(text, value))
        .collect::<Option<_>>()?;
    let before: Vec<&str> = parts.iter().map(|(before, _)| *before).collect();
    let behind: Vec<&str> = parts.iter().map(|(_, behind)| *behind).collect();
    let (first, last) = (before.first()?, behind.first()?);
    let ends: Vec<_> = boundaries(first)
        .iter()
        .rev()
        .map(|(at, _)| first.get(*at..))
        .collect();
    let begins: Vec<_> = boundaries(last)
        .iter()
        .map(|(_, end)| last.get(..*end))
        .collect();
    let begin = edge(&before, &ends, BEFORE, |text, words| text.ends_with(words))?;
    let end = edge(&behind, &begins, BEHIND, |text, words| {
        text.starts_with(words)
    })?;
    let begin = if begin.is_empty() {
        begin
    } else {
        format!(".*?{begin}")
    };
    let end = if end.is_empty() {
        end
    } else {
        format!("{end}.*")
    };
    let pattern = format!("(?s)^{begin}(.*?){end}$|^.*$");
    let made = Regex::new(&pattern).ok()?;
    let is_right = |(text, value): &Text<'_>| {
        let found = made.captures(text).and_then(|captures| captures.get(1));
        found.is_some_and(|found| found.as_str() == *value)
    };
    texts.iter().all(is_right).then_some(pattern)
}

/// The text before and after a value.
fn split<'t>(text: &'t str, value: &str) -> Option<(&'t str, &'t str)> {
    let is_free = |before: &str, behind: &str| {
        let in_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let goes_on_before =
            value.starts_with(char::is_alphanumeric) && in_word(before.chars().next_back());
        let goes_on_behind =
            value.ends_with(char::is_alphanumeric) && in_word(behind.chars().next());
        !goes_on_before && !goes_on_behind
    };
    let mut all = text.match_indices(value).filter(|_| !value.is_empty());
    all.find_map(|(at, _)| {
        let (before, rest) = text.split_at_checked(at)?;
        let behind = rest.get(value.len()..)?;
        (text != value && is_free(before, behind)).then_some((before, behind))
    })
}

/// The words at the edge of a value, escaped for a regular expression. `growing` has parts of the
/// first text, shortest first; this takes the longest one that all other texts have at the same
/// edge. From a single text only a few words are taken, and no number, because numbers differ
/// between pages. Empty if the value is at the edge of all texts; `None` if there is no such mark.
fn edge(
    texts: &[&str],
    growing: &[Option<&str>],
    most: usize,
    has: fn(&str, &str) -> bool,
) -> Option<String> {
    if texts.iter().all(|text| text.is_empty()) {
        return Some(String::new());
    }
    let rest = texts.get(1..)?;
    let mut taken = "";
    for (nth, words) in growing.iter().flatten().enumerate() {
        let is_of_all = match rest {
            [] => nth < most && !words.contains(|c: char| c.is_ascii_digit()),
            rest => rest.iter().all(|text| has(text, words)),
        };
        if !is_of_all {
            break;
        }
        taken = words;
    }
    (!taken.trim().is_empty()).then(|| regex::escape(taken))
}

/// Where the words and signs of a text begin and end; blanks belong to the word before them,
/// leading blanks to the first word.
fn boundaries(text: &str) -> Vec<(usize, usize)> {
    let mut all: Vec<(usize, usize)> = Vec::new();
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        let goes_on = c.is_whitespace() || (c.is_alphanumeric() && before.is_alphanumeric());
        match all.last_mut() {
            Some((_, last)) if goes_on || before.is_whitespace() && all_blank(text, at) => {
                *last = end;
            }
            _ => all.push((at, end)),
        }
        before = c;
    }
    all
}

/// Whether only blanks precede this position in a text.
fn all_blank(text: &str, at: usize) -> bool {
    text.get(..at)
        .is_some_and(|before| before.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDITED: &str = "This page was last edited on 17 February 2019, at 14:04 (UTC).";

    fn found(texts: &[Text<'_>], other: &str) -> Option<String> {
        let made = Regex::new(&pattern(texts)?).unwrap();
        let group = made.captures(other)?.get(1).map(|group| group.as_str());
        Some(group.unwrap_or_default().to_owned())
    }

    #[test]
    fn the_words_around_a_value_find_it_on_other_pages() {
        let day = (EDITED, "17 February 2019");
        let other = "This page was last edited on 2 May 2020, at 09:30 (UTC).";
        assert_eq!(found(&[day], other).unwrap(), "2 May 2020");
        let both = [day, (other, "2 May 2020")];
        assert_eq!(found(&both, EDITED).unwrap(), "17 February 2019");
        assert_eq!(found(&both, "Nothing of that").unwrap(), "");
        let price = ("Price: 12.50 EUR incl. tax", "12.50");
        assert_eq!(found(&[price], "Price: 9 EUR incl. tax").unwrap(), "9");
        let by = ("By Ada Lovelace", "Ada Lovelace");
        assert_eq!(found(&[by], "By Grace Hopper").unwrap(), "Grace Hopper");
        let first = ("Ada Lovelace, London", "Ada Lovelace");
        assert_eq!(
            found(&[first], "Grace Hopper, New York").unwrap(),
            "Grace Hopper"
        );
    }

    #[test]
    fn a_value_is_no_part_of_a_word_and_needs_a_mark() {
        assert!(!has(EDITED, "edit") && !has(EDITED, EDITED) && !has(EDITED, ""));
        assert!(has(EDITED, "14:04") && has("a (b)", "(b)"));
        // The text before it differs from page to page.
        assert_eq!(pattern(&[("one 5 x", "5"), ("two 6 x", "6")]), None);
        assert_eq!(pattern(&[("7 12.50", "12.50")]), None);
    }
}
