//! The tokens of a page, as slices of it (HTML standard, section 13.2.5).
//!
//! Names and values are copied only if they differ from the page: because of upper case, or of
//! character references.

use std::borrow::Cow;

use memchr::{memchr, memchr2, memmem};

use super::references::decode;
use crate::extract::attributes::ElementAttributes;

/// How many attributes a tag may have; the tree keeps as many.
const MAX_ATTRIBUTES: usize = 128;

/// A token; a tag's parts are in the [`HtmlTag`] that the caller provides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HtmlToken<'h> {
    /// A start tag.
    Start,
    /// An end tag.
    End,
    /// Text, with character references as they are.
    Text(&'h str),
    /// A comment, or what counts as one.
    Comment,
    /// The declaration of the document type, from the first letter of `doctype`.
    Doctype(&'h str),
}

/// A tag.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct HtmlTag<'h> {
    /// The name, in lower case.
    pub(super) name: Cow<'h, str>,
    /// The attributes; of several with the same name, the first.
    pub(super) attributes: Vec<(Cow<'h, str>, Cow<'h, str>)>,
    /// Whether it ends with `/>`.
    pub(super) self_closing: bool,
    /// Whether it has more attributes than are kept, counting duplicates.
    pub(super) is_flood: bool,
    count: usize,
    /// Where it starts.
    pub(super) at: usize,
}

impl HtmlTag<'_> {
    /// A tag without attributes that is not on the page.
    pub(super) fn implied() -> Self {
        Self::default()
    }

    /// Keeps only the attributes for the language. Others of `html` and `body` are unused, and each
    /// such tag would add its own to the single element.
    pub(super) fn keep_language(&mut self) {
        self.attributes
            .retain(|(name, _)| matches!(&**name, "lang" | "xml:lang"));
    }
}

impl ElementAttributes for HtmlTag<'_> {
    // Inlined, a constant name is compared without a call.
    #[inline]
    fn get(&self, name: &str) -> Option<&str> {
        let mut attributes = self.attributes.iter();
        attributes.find(|(n, _)| n == name).map(|(_, v)| &**v)
    }

    fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        let attributes = self.attributes.iter();
        attributes.map(|(name, value)| (&**name, &**value))
    }
}

/// Reads a page from its start to its end.
#[derive(Debug)]
pub(super) struct Tokenizer<'h> {
    html: &'h str,
    at: usize,
}

impl<'h> Tokenizer<'h> {
    /// The tokens of `html`, which contains no CR and no NUL.
    pub(super) fn new(html: &'h str) -> Self {
        Self { html, at: 0 }
    }

    /// The next token; `None` at the end, where an unfinished tag is dropped.
    pub(super) fn next(&mut self, tag: &mut HtmlTag<'h>) -> Option<HtmlToken<'h>> {
        // This is not even a comment.
        while self.rest().starts_with("</>") {
            self.at += 3;
        }
        let rest = self.rest();
        let bytes = rest.as_bytes();
        if *bytes.first()? != b'<' {
            return Some(self.text(0));
        }
        match bytes.get(1).copied() {
            Some(b) if b.is_ascii_alphabetic() => self.tag(1, tag).then_some(HtmlToken::Start),
            Some(b'/') => match bytes.get(2).copied() {
                Some(b) if b.is_ascii_alphabetic() => self.tag(2, tag).then_some(HtmlToken::End),
                Some(_) => Some(self.until_bracket(2)),
                None => Some(self.text(1)),
            },
            Some(b'!') if rest.starts_with("<!--") => Some(self.comment()),
            Some(b'!') if starts_with(bytes, 2, b"doctype") => {
                self.until_bracket(2);
                let text = rest.get(2..).unwrap_or_default();
                let end = memchr(b'>', text.as_bytes()).unwrap_or(text.len());
                Some(HtmlToken::Doctype(&text[..end]))
            }
            Some(b'!' | b'?') => Some(self.until_bracket(2)),
            _ => Some(self.text(1)),
        }
    }

    /// The text of a CDATA section of foreign content, if one starts here; of HTML it would be a
    /// comment.
    pub(super) fn cdata(&mut self) -> Option<&'h str> {
        let text = self.rest().strip_prefix("<![CDATA[")?;
        let end = memmem::find(text.as_bytes(), b"]]>");
        self.at = self.html.len() - text.len() + end.map_or(text.len(), |end| end + 3);
        text.get(..end.unwrap_or(text.len()))
    }

    /// Returns the text up to the end tag of the element `name`, and continues after that tag.
    pub(super) fn raw_text(&mut self, name: &str) -> &'h str {
        let text = self.rest();
        let bytes = text.as_bytes();
        let mut from = 0;
        while let Some(at) = memmem::find(&bytes[from..], b"</").map(|at| from + at) {
            let after = at + 2 + name.len();
            let ends = matches!(
                bytes.get(after),
                Some(b' ' | b'\t' | b'\n' | 0x0C | b'/' | b'>')
            );
            if ends && starts_with(bytes, at + 2, name.as_bytes()) {
                self.at += at;
                self.tag(2, &mut HtmlTag::default());
                return &text[..at];
            }
            from = at + 2;
        }
        self.at = self.html.len();
        text
    }

    /// The text up to the end of the page.
    pub(super) fn remaining(&mut self) -> &'h str {
        let text = self.rest();
        self.at = self.html.len();
        text
    }

    /// Reads the start tag at `at` again.
    pub(super) fn again(&self, at: usize, tag: &mut HtmlTag<'h>) {
        let mut there = Tokenizer { at, ..*self };
        there.tag(1, tag);
    }

    fn rest(&self) -> &'h str {
        self.html.get(self.at..).unwrap_or_default()
    }

    /// The text from here; its first `literal` bytes are text even if one is a `<`.
    fn text(&mut self, literal: usize) -> HtmlToken<'h> {
        let rest = self.rest();
        let after = rest.as_bytes().get(literal..).unwrap_or_default();
        let end = memchr(b'<', after).map_or(rest.len(), |at| at + literal);
        self.at += end;
        HtmlToken::Text(&rest[..end])
    }

    /// Content that counts as a comment and ends at the next `>`, at least `from` bytes further on.
    fn until_bracket(&mut self, from: usize) -> HtmlToken<'h> {
        let rest = self.rest();
        let after = rest.as_bytes().get(from..).unwrap_or_default();
        self.at += memchr(b'>', after).map_or(rest.len(), |at| from + at + 1);
        HtmlToken::Comment
    }

    fn comment(&mut self) -> HtmlToken<'h> {
        let rest = self.rest().as_bytes();
        let after = rest.get(4..).unwrap_or_default();
        self.at += if after.starts_with(b">") {
            5
        } else if after.starts_with(b"->") {
            6
        } else {
            // It ends with `-->` or `--!>`.
            let ends = memmem::find_iter(after, b"--");
            let length = ends
                .filter_map(|at| match after.get(at + 2..)? {
                    [b'>', ..] => Some(at + 3),
                    [b'!', b'>', ..] => Some(at + 4),
                    // If there are more dashes, the last two count.
                    [b'-', rest @ ..] => {
                        let more = rest.iter().take_while(|b| **b == b'-').count();
                        match rest.get(more..)? {
                            [b'>', ..] => Some(at + 4 + more),
                            [b'!', b'>', ..] => Some(at + 5 + more),
                            _ => None,
                        }
                    }
                    _ => None,
                })
                .next();
            length.map_or(rest.len(), |length| 4 + length)
        };
        HtmlToken::Comment
    }

    /// Reads the tag whose name starts `from` bytes further. Returns whether it ends.
    fn tag(&mut self, from: usize, tag: &mut HtmlTag<'h>) -> bool {
        let html = self.html;
        let bytes = html.as_bytes();
        tag.at = self.at;
        tag.attributes.clear();
        tag.self_closing = false;
        tag.is_flood = false;
        tag.count = 0;
        let start = self.at + from;
        let mut at;
        (tag.name, at) = self.name(start, start, SPACE | SLASH | END);
        loop {
            let gap = at;
            at = until(bytes, at, |b| !is_space(b) && b != b'/');
            let slash = at > gap && bytes.get(at - 1) == Some(&b'/');
            match bytes.get(at) {
                Some(b'>') => {
                    tag.self_closing = slash;
                    self.at = at + 1;
                    return true;
                }
                Some(_) => {}
                None => {
                    self.at = html.len();
                    return false;
                }
            }
            // A name may begin with `=`.
            let (name, end) = self.name(at, at + 1, SPACE | SLASH | END | EQUALS);
            at = end;
            let equals = until(bytes, at, |b| !is_space(b));
            let value = if bytes.get(equals) == Some(&b'=') {
                let from = until(bytes, equals + 1, |b| !is_space(b));
                let Some((value, end)) = self.value(from) else {
                    self.at = html.len();
                    return false;
                };
                at = end;
                value
            } else {
                Cow::Borrowed("")
            };
            tag.add(name, value);
        }
    }

    /// The name from `start` to a byte of the class `ends`, but not one before `from`; in
    /// lower case, and where it ends.
    fn name(&self, start: usize, from: usize, ends: u8) -> (Cow<'h, str>, usize) {
        let bytes = self.html.as_bytes().get(start..).unwrap_or_default();
        let (mut classes, mut length) = (0, 0);
        for byte in bytes {
            let class = CLASSES[usize::from(*byte)];
            if class & ends != 0 && start + length >= from {
                break;
            }
            classes |= class;
            length += 1;
        }
        let at = start + length;
        let name = self.html.get(start..at).unwrap_or_default();
        let name = if classes & UPPER == 0 {
            Cow::Borrowed(name)
        } else {
            Cow::Owned(name.to_ascii_lowercase())
        };
        (name, at)
    }

    /// The decoded value of an attribute that starts at `from`, and where it ends, after
    /// its quote; `None` if it has no end.
    fn value(&self, from: usize) -> Option<(Cow<'h, str>, usize)> {
        let html = self.html;
        let bytes = html.as_bytes();
        match *bytes.get(from)? {
            quote @ (b'"' | b'\'') => {
                let start = from + 1;
                // Most values have no reference before their end.
                let stop = start + memchr2(quote, b'&', bytes.get(start..)?)?;
                if bytes.get(stop) == Some(&quote) {
                    return Some((Cow::Borrowed(&html[start..stop]), stop + 1));
                }
                let end = stop + memchr(quote, bytes.get(stop..)?)?;
                Some((decode(&html[start..end], true), end + 1))
            }
            _ => {
                let end = until(bytes, from, |b| b == b'>' || is_space(b));
                Some((decode(&html[from..end], true), end))
            }
        }
    }
}

impl<'h> HtmlTag<'h> {
    fn add(&mut self, name: Cow<'h, str>, value: Cow<'h, str>) {
        self.count += 1;
        self.is_flood = self.count > MAX_ATTRIBUTES;
        // Compared by their first bytes, names rarely need a call.
        let is_known =
            |known: &str| known.as_bytes().first() == name.as_bytes().first() && *known == *name;
        if self.is_flood || self.attributes.iter().any(|(known, _)| is_known(known)) {
            return;
        }
        self.attributes.push((name, value));
    }
}

/// The first position from `at` on with a matching byte, or the end.
fn until(bytes: &[u8], at: usize, wanted: impl Fn(u8) -> bool) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().position(|b| wanted(*b)).unwrap_or(rest.len())
}

/// White space between the parts of a tag, and between those of a table.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0C)
}

fn starts_with(bytes: &[u8], at: usize, name: &[u8]) -> bool {
    bytes
        .get(at..at + name.len())
        .is_some_and(|found| found.eq_ignore_ascii_case(name))
}

// The meaning of a byte within a tag.
const SPACE: u8 = 1;
const SLASH: u8 = 2;
const END: u8 = 4;
const EQUALS: u8 = 8;
const UPPER: u8 = 16;

/// The meaning of each byte.
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = b'A';
    while byte <= b'Z' {
        classes[byte as usize] = UPPER;
        byte += 1;
    }
    classes[b' ' as usize] = SPACE;
    classes[b'\t' as usize] = SPACE;
    classes[b'\n' as usize] = SPACE;
    classes[0x0C] = SPACE;
    classes[b'/' as usize] = SLASH;
    classes[b'>' as usize] = END;
    classes[b'=' as usize] = EQUALS;
    classes
};

/// The page with its line ends normalised (section 13.2.3.5); `None` if it contains a NUL.
pub(super) fn normalised(html: &str) -> Option<Cow<'_, str>> {
    let html = html.strip_prefix('\u{feff}').unwrap_or(html);
    match memchr2(b'\r', 0, html.as_bytes()) {
        None => Some(Cow::Borrowed(html)),
        Some(_) if memchr(0, html.as_bytes()).is_some() => None,
        Some(_) => Some(Cow::Owned(html.replace("\r\n", "\n").replace('\r', "\n"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(html: &str) -> Vec<String> {
        let mut tokenizer = Tokenizer::new(html);
        let mut tag = HtmlTag::default();
        let mut all = Vec::new();
        while let Some(token) = tokenizer.next(&mut tag) {
            all.push(match token {
                HtmlToken::Start => {
                    let attributes = tag.attributes.iter();
                    let attributes = attributes.map(|(name, value)| format!(" {name}={value}"));
                    let slash = if tag.self_closing { "/" } else { "" };
                    format!("<{}{}{slash}", tag.name, attributes.collect::<String>())
                }
                HtmlToken::End => format!("</{}", tag.name),
                HtmlToken::Text(text) => text.to_owned(),
                HtmlToken::Comment => "!".to_owned(),
                HtmlToken::Doctype(text) => format!("!{text}"),
            });
        }
        all
    }

    #[test]
    fn tags_and_texts() {
        for (html, expected) in [
            ("a<b>c", &["a", "<b", "c"][..]),
            ("<A Href=X Y=&lt; y=2 z/>", &["<a href=X y=< z=/"]),
            ("<a b='1' c=\"2>\"d=3/>", &["<a b=1 c=2> d=3/"]),
            ("<a / b =\n c =d></a e='>'>f", &["<a b=c =d=", "</a", "f"]),
            ("a < b <3 <", &["a ", "< b ", "<3 ", "<"]),
            ("</>a</ b>c</", &["a", "!", "c", "</"]),
            (
                "<!--a--b-->c<!-->d<!--->e<!----!>f<!--g--->h",
                &["!", "c", "!", "d", "!", "e", "!", "f", "!", "h"],
            ),
            ("<!-- a -- > <b", &["!"]),
            (
                "<!DocType html><?xml ?><![CDATA[a>b",
                &["!DocType html", "!", "!", "b"],
            ),
            ("<a b='c", &[]),
            ("<a b=>c", &["<a b=", "c"]),
        ] {
            assert_eq!(tokens(html), expected, "{html}");
        }
    }

    #[test]
    fn raw_text_ends_at_its_own_tag() {
        let mut tokenizer = Tokenizer::new("a</b></scripts></SCRIPT x='>'>c");
        assert_eq!(tokenizer.raw_text("script"), "a</b></scripts>");
        assert_eq!(tokenizer.rest(), "c");
        assert_eq!(tokenizer.raw_text("script"), "c");
    }

    #[test]
    fn floods_of_attributes_are_seen() {
        let html = format!(
            "<a{}>",
            (0..129).map(|i| format!(" a{i}")).collect::<String>()
        );
        let mut tag = HtmlTag::default();
        Tokenizer::new(&html).next(&mut tag);
        assert!(tag.is_flood && tag.attributes.len() == 128);
    }

    #[test]
    fn line_ends_are_normalised() {
        assert_eq!(normalised("\u{feff}a\r\nb\rc").unwrap(), "a\nb\nc");
        assert!(normalised("a\0").is_none());
    }
}
