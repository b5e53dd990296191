//! Fast sentence boundaries by UAX #29.
//!
//! A sentence ends only after a full stop, a question or exclamation mark, or a line end,
//! so everything between two of these is skipped, and the rules are short if the
//! surrounding characters are ASCII. Otherwise, and in scripts with their own terminators,
//! `unicode-segmentation` decides. The tests compare both.

use memchr::{memchr2, memchr3};
use unicode_segmentation::UnicodeSegmentation;

/// The sentences of a text: the same slices as `split_sentence_bounds` gives.
pub(super) fn sentence_bounds(text: &str) -> impl Iterator<Item = &str> {
    let quick = text.is_ascii() || text.chars().all(ends_no_sentence);
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = if quick { first_end(rest) } else { None };
        let end = end.or_else(|| rest.split_sentence_bounds().next().map(str::len));
        let (sentence, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        Some(sentence)
    })
}

/// From this many signs and digits in a row without a letter on, a text is not running text.
const RULE: usize = 1_000;

/// The same for untrusted texts: text that is not running text is split into lines, because looking
/// for sentences in it takes quadratic time.
pub fn bounded_sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut run = 0;
    let is_ruled = text.chars().any(|c| {
        run = if c.is_alphabetic() { 0 } else { run + 1 };
        run > RULE
    });
    let (lines, rest) = if is_ruled { (text, "") } else { ("", text) };
    lines.split_inclusive('\n').chain(sentence_bounds(rest))
}

/// ASCII, and blocks of letters and punctuation in which no character ends a
/// sentence (`Sentence_Break` is neither `STerm`, `ATerm` nor `Sep`).
fn ends_no_sentence(c: char) -> bool {
    c.is_ascii()
        || matches!(c, '\u{A0}'..='\u{24F}' | '\u{386}'..='\u{52F}')
        || matches!(c, '\u{2010}'..='\u{2023}' | '\u{2025}'..='\u{2027}')
}

/// Where the first sentence of a text ends; `None` if that depends on non-ASCII
/// characters.
fn first_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut from = 0;
    loop {
        let stop = |b: &u8| matches!(b, b'.' | b'?' | b'!' | b'\n' | b'\r');
        let Some(at) = first_stop(bytes, from) else {
            return Some(bytes.len());
        };
        let behind = at + 1;
        match bytes.get(at) {
            // SB3, SB4
            Some(b'\r') if bytes.get(behind) == Some(&b'\n') => return Some(behind + 1),
            Some(b'\r' | b'\n') => return Some(behind),
            _ => {}
        }
        let closed = behind + run(bytes, behind, is_close);
        let spaced = closed + run(bytes, closed, is_space);
        let Some(next) = bytes.get(spaced) else {
            return Some(bytes.len());
        };
        if !next.is_ascii() {
            return None;
        }
        let is_full_stop = bytes.get(at) == Some(&b'.');
        let before = at.checked_sub(1).and_then(|i| bytes.get(i));
        let goes_on = match next {
            // SB8a to SB10
            b',' | b'-' | b':' | b';' | b'.' | b'?' | b'!' | b'\n' | b'\r' => true,
            // SB6
            b'0'..=b'9' if is_full_stop && spaced == behind => true,
            // SB7
            b'A'..=b'Z' if is_full_stop && spaced == behind => {
                if before.is_some_and(|b| !b.is_ascii()) {
                    return None;
                }
                before.is_some_and(u8::is_ascii_alphabetic)
            }
            // SB8
            _ if is_full_stop => {
                let decides = |b: &&u8| !b.is_ascii() || b.is_ascii_alphabetic() || stop(b);
                let deciding = bytes.iter().skip(spaced).find(decides);
                if deciding.is_some_and(|b| !b.is_ascii()) {
                    return None;
                }
                deciding.is_some_and(u8::is_ascii_lowercase)
            }
            _ => false,
        };
        if !goes_on {
            return Some(spaced);
        }
        from = spaced;
    }
}

/// Where the first full stop, question or exclamation mark, or line end from `from` on is.
fn first_stop(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    let mark = memchr3(b'.', b'?', b'!', rest);
    // Line ends are rare, because blocks have none.
    let before = rest.get(..mark.unwrap_or(rest.len())).unwrap_or_default();
    let found = memchr2(b'\n', b'\r', before).or(mark);
    found.map(|n| from + n)
}

/// How many consecutive bytes from `from` on match `such`.
fn run(bytes: &[u8], from: usize, such: fn(&u8) -> bool) -> usize {
    bytes.iter().skip(from).take_while(|b| such(b)).count()
}

fn is_close(byte: &u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'(' | b')' | b'[' | b']' | b'{' | b'}')
}

fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | 0x0B | 0x0C)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn same(text: &str) {
        let quick: Vec<&str> = sentence_bounds(text).collect();
        let slow: Vec<&str> = text.split_sentence_bounds().collect();
        assert_eq!(quick, slow, "{text:?}");
    }

    #[test]
    fn what_the_rules_are_about() {
        for text in [
            "",
            ".",
            "One. Two? Three! four",
            "3.4 and etc. is it (Dr.) Who? \"Yes.\" He said.) so",
            "U.S. army U.S. Army A.B c.D .E",
            "a.\r\nb\rc\n\nd \n",
            "Ä. Ö é.É “Yes.” He – no. – So… Well.\u{A0}Oh.\u{AD}a",
            "a. 1) b. (c) d.\t12 E",
            "w. ;x? ;y",
        ] {
            same(text);
        }
    }

    #[test]
    fn no_quick_character_ends_a_sentence() {
        for c in (0x80..=0x2fff)
            .filter_map(char::from_u32)
            .filter(|c| ends_no_sentence(*c))
        {
            let text = format!("a{c} B");
            assert_eq!(text.split_sentence_bounds().count(), 1, "{c:?}");
        }
    }

    proptest! {
        #![proptest_config(spoor_testing::cases!(2_000))]
        #[test]
        fn sentences_end_where_unicode_says(
            text in "[ a-zA-Z0-9.?!,;:()'\"\\-\\[\\]{}\\n\\r\\t_/é“”–…\u{AD}\u{A0}ß]{0,60}|[ -~\\n]{0,60}|\\PC{0,40}|[aA. ?!]{0,30}"
        ) {
            same(&text);
        }
    }
}
