//! Patterns of addresses.

use regex::Regex;

use crate::address::PageUrl;

/// The maximum size of a compiled regular expression, in bytes. This bounds the memory; matching
/// time is always linear in the text.
pub(super) const REGEX_BYTES: usize = 1 << 20;

/// The longest pattern, in bytes.
const MAX_BYTES: usize = 2_000;

/// The addresses that a rule covers.
///
/// `https://example.org/news/*`: `*` stands for anything. Without a scheme, any scheme matches;
/// without a path, any path. A pattern that begins with `^` is a regular expression over the whole
/// address.
#[derive(Debug, Clone)]
pub struct UrlPattern {
    text: String,
    kind: PatternKind,
}

#[derive(Debug, Clone)]
enum PatternKind {
    Glob {
        scheme: Option<String>,
        rest: String,
    },
    Regex(Regex),
}

impl PartialEq for UrlPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl UrlPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.len() > MAX_BYTES {
            return Err(format!("a pattern has 1 to {MAX_BYTES} bytes"));
        }
        let kind = if text.starts_with('^') {
            PatternKind::Regex(regex(text)?)
        } else {
            let (scheme, rest) = match text.split_once("://") {
                Some((scheme, rest)) => (Some(scheme.to_lowercase()), rest),
                None => (None, text),
            };
            if scheme
                .as_deref()
                .is_some_and(|s| !["http", "https", "*"].contains(&s))
            {
                return Err("a pattern begins with http://, https:// or a host".to_owned());
            }
            let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
            if host.is_empty() || host.contains(char::is_whitespace) {
                return Err("names no host; write `example.org/news/*`, or `*/news/*`".to_owned());
            }
            let path = if path.is_empty() && host != "*" {
                "/*"
            } else {
                path
            };
            PatternKind::Glob {
                scheme: scheme.filter(|scheme| scheme != "*"),
                rest: format!("{}{path}", host.to_lowercase()),
            }
        };
        Ok(Self {
            text: text.to_owned(),
            kind,
        })
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern covers an address.
    pub fn covers(&self, url: &PageUrl) -> bool {
        match &self.kind {
            PatternKind::Regex(regex) => regex.is_match(url.as_str()),
            PatternKind::Glob { scheme, rest } => {
                let address = url.as_str();
                let Some((its, address)) = address.split_once("://") else {
                    return false;
                };
                scheme.as_deref().is_none_or(|scheme| scheme == its) && glob(rest, address)
            }
        }
    }
}

/// A regular expression of bounded size.
pub(super) fn regex(text: &str) -> Result<Regex, String> {
    let built = regex::RegexBuilder::new(text)
        .size_limit(REGEX_BYTES)
        .dfa_size_limit(REGEX_BYTES)
        .nest_limit(50)
        .build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => {
            format!("needs more than {REGEX_BYTES} bytes of memory; use smaller repetitions")
        }
        // The last line of its message is the reason; the lines before it show the expression.
        other => {
            let all = other.to_string();
            let last = all.lines().last().unwrap_or_default();
            let why = last.trim_start_matches("error: ");
            format!("is not a regular expression: {why}")
        }
    })
}

/// Whether `pattern` with its `*` covers all of `text`. Each part takes the first place where it
/// fits, so the time is at most the product of the lengths.
fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_covers_what_it_says() {
        for (pattern, url, expected) in [
            ("example.org", "https://example.org/a/b", true),
            ("example.org", "https://www.example.org/", false),
            (
                "*.example.org/news/*",
                "http://www.example.org/news/1",
                true,
            ),
            (
                "*.example.org/news/*",
                "http://www.example.org/new/1",
                false,
            ),
            (
                "https://example.org/*.html",
                "https://example.org/a/b.html",
                true,
            ),
            (
                "https://example.org/*.html",
                "http://example.org/a/b.html",
                false,
            ),
            (
                "https://example.org/*.html",
                "https://example.org/a.html?x",
                false,
            ),
            ("EXAMPLE.org/a", "https://example.org/a", true),
            ("*", "https://example.org/a", true),
            ("*/news/*", "https://example.org/news/x", true),
            ("example.org:8080/*", "http://example.org:8080/x", true),
            (
                "^https://[a-z]+\\.org/\\d+$",
                "https://example.org/12",
                true,
            ),
            (
                "^https://[a-z]+\\.org/\\d+$",
                "https://example.org/12x",
                false,
            ),
            ("example.org/*a*b*c", "https://example.org/xaxbxc", true),
            ("example.org/*a*b*c", "https://example.org/xbxaxc", false),
        ] {
            let url = PageUrl::parse(url).unwrap();
            let covers = UrlPattern::parse(pattern).unwrap().covers(&url);
            assert_eq!(covers, expected, "{pattern} {url}");
        }
    }

    #[test]
    fn a_bad_pattern_says_why() {
        for (pattern, why) in [
            ("", "a pattern has 1 to 2000 bytes"),
            (
                "ftp://x/",
                "a pattern begins with http://, https:// or a host",
            ),
            (
                "/news/*",
                "names no host; write `example.org/news/*`, or `*/news/*`",
            ),
            ("^(", "is not a regular expression: unclosed group"),
            (
                "^(\\w{500}){500}",
                "needs more than 1048576 bytes of memory; use smaller repetitions",
            ),
        ] {
            assert_eq!(UrlPattern::parse(pattern).unwrap_err(), why, "{pattern}");
        }
    }
}
