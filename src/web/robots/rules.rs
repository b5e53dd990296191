//! A rule of a robots.txt: what it covers, and which of several decides (RFC 9309 sections
//! 2.2.2 and 2.2.3).
//!
//! Matching is implemented here because the `robotstxt` crate gets it wrong beyond the first place
//! where a `*` may end: with it, `/*.html$` does not cover `/a.b.html`. This module knows one path
//! and one pattern, no group and no file.

use std::cmp::Reverse;
use std::fmt;

/// A rule of the groups that apply to the crawler.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Its line.
    line: u32,
    allow: bool,
    /// In the form of [`comparable_pattern`].
    pattern: Box<str>,
}

impl Rule {
    /// The rules of a line, given the parsed value: none if it is empty. As with Google's
    /// parser, allowing `/index.html` of a folder also allows the folder's own address.
    pub(super) fn of_line(line: u32, allow: bool, value: &str) -> Vec<Self> {
        let rule = |pattern: &str| Self {
            line,
            allow,
            pattern: comparable_pattern(pattern).into(),
        };
        let mut rules = Vec::new();
        if !value.is_empty() {
            rules.push(rule(value));
        }
        if allow
            && let Some((folder, name)) = value.rsplit_once('/')
            && name.starts_with("index.htm")
        {
            rules.push(rule(&format!("{folder}/$")));
        }
        rules
    }

    /// The rule without a line that forbids an address whose matching would take too long.
    pub(super) fn of_no_line() -> Self {
        Self {
            line: 0,
            allow: false,
            pattern: "*".into(),
        }
    }

    /// The approximate number of bytes that matching this rule against `path` may read.
    pub(super) fn cost(&self, path: &str) -> usize {
        match self.pattern.split_once('*') {
            Some((first, _)) if path.starts_with(first) => path.len(),
            _ => 0,
        }
    }

    /// Whether the rule allows the addresses it covers.
    pub fn allows(&self) -> bool {
        self.allow
    }

    /// Its line in the file, from 1; 0 for the one that is not in the file (see
    /// [`super::Robots::rule_for`]).
    pub fn line(&self) -> u32 {
        self.line
    }

    /// What it covers, with escapes in the form in which they are compared.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// Whether the rule covers `path`, including its query, in the form of [`comparable`].
    /// A pattern matches prefixes; `*` stands for any text, and `$` at the end for the end
    /// of the address.
    pub(super) fn covers(&self, path: &str) -> bool {
        let (pattern, anchored) = match self.pattern.strip_suffix('$') {
            Some(pattern) => (pattern, true),
            None => (&*self.pattern, false),
        };
        let (first, others) = match pattern.split_once('*') {
            Some((first, others)) => (first, Some(others)),
            None => (pattern, None),
        };
        let Some(mut rest) = path.strip_prefix(first) else {
            return false;
        };
        let Some(others) = others else {
            return !anchored || rest.is_empty();
        };
        let (between, last) = match others.rsplit_once('*') {
            Some((between, last)) => (between, last),
            None => ("", others),
        };
        // The earliest match of each part leaves the most text for the following parts.
        for part in between.split('*') {
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        if anchored {
            rest.ends_with(last)
        } else {
            rest.contains(last)
        }
    }
}

/// Rules are equal if they have the same effect, on any line.
impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        (self.allow, &self.pattern) == (other.allow, &other.pattern)
    }
}

impl Eq for Rule {}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.allow { "Allow" } else { "Disallow" };
        write!(f, "{name}: {}", self.pattern)
    }
}

/// Sorts rules by precedence: the longest in bytes first, and among equally long ones those that
/// allow.
pub(super) fn in_order(mut rules: Vec<Rule>) -> Vec<Rule> {
    let key = |r: &Rule| (Reverse(r.pattern.len()), !r.allow);
    rules.sort_by(|a, b| (key(a), &a.pattern).cmp(&(key(b), &b.pattern)));
    rules.dedup();
    rules.shrink_to_fit();
    rules
}

/// The form in which paths are compared (RFC 9309 section 2.2.2): non-ASCII bytes are
/// escaped, escapes are in upper case, and those equivalent to the bare character are decoded.
/// Besides the unreserved characters of RFC 3986 these are the ones that URL parsers escape by
/// themselves, which authors of rules write bare. A star and a dollar are escaped, because
/// they mean something else in a pattern (section 2.2.3).
pub(super) fn comparable(path: &str) -> String {
    rewrite(path, is_plain, |b| !b"*$".contains(&b))
}

/// The same form of a pattern, in which a star and a dollar at the end stay.
fn comparable_pattern(pattern: &str) -> String {
    let pattern = rewrite(pattern, is_plain, |_| true);
    match pattern.strip_suffix('$') {
        Some(before) if before.contains('$') => before.replace('$', "%24") + "$",
        None if pattern.contains('$') => pattern.replace('$', "%24"),
        _ => pattern,
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~ \"'<>^`{|}".contains(&byte)
}

/// The same text with non-ASCII bytes escaped and escapes in upper case.
pub(super) fn escaped(text: &str) -> String {
    rewrite(text, |_| false, |_| true)
}

/// `decode`: which escaped bytes become bare; `keep`: which bare ASCII bytes stay so.
fn rewrite(text: &str, decode: impl Fn(u8) -> bool, keep: impl Fn(u8) -> bool) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escape = match byte {
            b'%' => bytes.get(at + 1..at + 3).and_then(hex),
            _ => None,
        };
        at += if escape.is_some() { 3 } else { 1 };
        let bare = escape.map_or(byte.is_ascii() && keep(byte), &decode);
        let byte = escape.unwrap_or(byte);
        if bare {
            out.push(char::from(byte))
        } else {
            out.push_str(&format!("%{byte:02X}"))
        }
    }
    out
}

fn hex(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits).ok()?;
    let only_digits = digits.bytes().all(|b| b.is_ascii_hexdigit());
    u8::from_str_radix(digits, 16).ok().filter(|_| only_digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(pattern: &str) -> Rule {
        Rule {
            line: 1,
            allow: false,
            pattern: comparable_pattern(pattern).into(),
        }
    }

    #[test]
    fn stars_and_dollars() {
        for (pattern, path, expected) in [
            ("/", "/", true),
            ("/a", "/abc", true),
            ("/a$", "/abc", false),
            ("/a$", "/a", true),
            ("/a$b", "/a$bc", true),
            ("/a%24", "/a$bc", true),
            ("/a%24", "/a", false),
            ("/q%2A", "/q*1", true),
            ("/q%2a$", "/q%2A", true),
            ("/q%2A", "/qa", false),
            ("*", "/", true),
            ("$", "/", false),
            ("*$", "/x", true),
            ("/*/*/c", "/a/b/c", true),
            ("/*/*/c$", "/a/b/c/d", false),
            ("/*.html$", "/a.b.html", true),
            ("/a*b*b$", "/ab", false),
            ("/a*b*b$", "/abb", true),
            ("/a*ab$", "/ab", false),
            ("/a**b", "/a/b", true),
            ("a", "/a", false),
        ] {
            let path = comparable(path);
            assert_eq!(rule(pattern).covers(&path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn comparable_forms() {
        for (given, expected) in [
            ("/%7euser/%C3%bc", "/~user/%C3%BC"),
            ("/ü", "/%C3%BC"),
            ("/a%2fb%2Eb%20c", "/a%2Fb.b c"),
            ("/100%/%+1/%4", "/100%/%+1/%4"),
            ("/%25%2A%24", "/%25%2A%24"),
            ("/*$", "/%2A%24"),
        ] {
            assert_eq!(comparable(given), expected);
        }
        for (given, expected) in [
            ("/*%2a$", "/*%2A$"),
            ("/a$b", "/a%24b"),
            ("/$%24$", "/%24%24$"),
            ("$", "$"),
        ] {
            assert_eq!(comparable_pattern(given), expected);
        }
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn covers_as_a_regular_expression_would(pattern in "/?[ab*/]{0,8}[$]?", path in "/[ab/]{0,10}") {
            let parts = pattern.strip_suffix('$').unwrap_or(&pattern).split('*');
            let parts: Vec<String> = parts.map(regex::escape).collect();
            let end = if pattern.ends_with('$') { "$" } else { "" };
            let regex = regex::Regex::new(&format!("^{}{end}", parts.join(".*"))).unwrap();
            prop_assert_eq!(rule(&pattern).covers(&path), regex.is_match(&path));
        }
    }
}
