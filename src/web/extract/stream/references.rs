//! Character references (HTML standard, section 13.2.5.72).

use std::borrow::Cow;

use html5ever::data::{C1_REPLACEMENTS, NAMED_ENTITIES};
use memchr::memchr;

/// The text with its character references decoded, by the rules for attributes or those
/// for text.
pub(in crate::extract) fn decode(text: &str, in_attribute: bool) -> Cow<'_, str> {
    let Some(first) = memchr(b'&', text.as_bytes()) else {
        return Cow::Borrowed(text);
    };
    let (before, mut rest) = text.split_at(first);
    let mut out = String::with_capacity(text.len());
    out.push_str(before);
    while let Some(after) = rest.strip_prefix('&') {
        let taken = match after.as_bytes().first() {
            Some(b'#') => numeric(after, &mut out),
            Some(b) if b.is_ascii_alphanumeric() => named(after, in_attribute, &mut out),
            _ => 0,
        };
        if taken == 0 {
            out.push('&');
        }
        let after = after.get(taken..).unwrap_or_default();
        let next = memchr(b'&', after.as_bytes()).unwrap_or(after.len());
        let (plain, more) = after.split_at(next);
        out.push_str(plain);
        rest = more;
    }
    Cow::Owned(out)
}

/// Decodes the reference that starts with `#` at the start of `text`. Returns the number
/// of bytes read, 0 if it is not one.
fn numeric(text: &str, out: &mut String) -> usize {
    let hex = text.get(1..2).is_some_and(|x| x.eq_ignore_ascii_case("x"));
    let (from, radix) = if hex { (2, 16) } else { (1, 10) };
    let digits = text.get(from..).unwrap_or_default();
    let length = digits
        .find(|c: char| !c.is_digit(radix))
        .unwrap_or(digits.len());
    let (digits, after) = digits.split_at(length);
    if digits.is_empty() {
        return 0;
    }
    // A number of more than eight digits is not a character, apart from leading zeros.
    let number = u32::from_str_radix(digits.trim_start_matches('0'), radix);
    let number = match number {
        Ok(number) => number,
        Err(_) if digits.bytes().all(|b| b == b'0') => 0,
        Err(_) => u32::MAX,
    };
    out.push(character(number));
    from + length + usize::from(after.starts_with(';'))
}

/// The character of a number; those of Windows-1252 replace the control characters of Latin 1.
fn character(number: u32) -> char {
    let replacement = number
        .checked_sub(0x80)
        .and_then(|n| C1_REPLACEMENTS.get(usize::try_from(n).ok()?))
        .and_then(|c| *c);
    match number {
        0 => char::REPLACEMENT_CHARACTER,
        _ => replacement
            .or_else(|| char::from_u32(number))
            .unwrap_or(char::REPLACEMENT_CHARACTER),
    }
}

/// Decodes the longest reference whose name starts `text`. Returns the number of bytes
/// read, 0 if it is not one.
fn named(text: &str, in_attribute: bool, out: &mut String) -> usize {
    let bytes = text.as_bytes();
    let name = bytes.iter().take_while(|b| b.is_ascii_alphanumeric());
    let longest = name.count();
    // Nearly all end with a semicolon.
    let known = |length: usize| {
        let (first, second) = *NAMED_ENTITIES.get(text.get(..length)?)?;
        (first != 0).then_some((first, second))
    };
    let whole = (bytes.get(longest) == Some(&b';'))
        .then(|| known(longest + 1))
        .flatten()
        .map(|found| (longest + 1, found));
    let found = whole.or_else(|| {
        // The names that need no semicolon have at most 6 characters.
        let lengths = (1..=longest.min(6)).rev();
        let (length, found) = lengths
            .filter_map(|length| Some((length, known(length)?)))
            .next()?;
        let next = bytes.get(length);
        let is_parameter = next.is_some_and(|b| *b == b'=' || b.is_ascii_alphanumeric());
        (!in_attribute || !is_parameter).then_some((length, found))
    });
    let Some((length, (first, second))) = found else {
        return 0;
    };
    out.extend(char::from_u32(first));
    out.extend(char::from_u32(second).filter(|c| *c != '\0'));
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_the_standard() {
        for (text, expected) in [
            ("a & b", "a & b"),
            ("&", "&"),
            ("&;&#;&#x;&#xg;", "&;&#;&#x;&#xg;"),
            ("&amp;&lt;&gt;&quot;&nbsp;", "&<>\"\u{a0}"),
            ("&amp &notit; &notin; &ampx", "& ¬it; ∉ &x"),
            ("&nosuch; &NotEqualTilde;", "&nosuch; ≂̸"),
            ("&#65;&#x41;&#X41&#65x", "AAAAx"),
            (
                "&#0;&#xD800;&#x110000;&#99999999999;&#128;&#x81;",
                "\u{fffd}\u{fffd}\u{fffd}\u{fffd}€\u{81}",
            ),
            ("&#0000000000065;&#000;", "A\u{fffd}"),
        ] {
            assert_eq!(decode(text, false), expected, "{text}");
        }
        assert_eq!(
            decode("?a=1&copy=2&lt;&copy;&notx&not", true),
            "?a=1&copy=2<©&notx¬"
        );
    }
}
