//! The contents of an RSL file: which uses a publisher permits and prohibits (Really Simple
//! Licensing 1.0, rslstandard.org/rsl).
//!
//! A `content` element names addresses by a pattern as in robots.txt; of several that cover an
//! address, those with the longest pattern count. All of their licences count together, so that a
//! use is prohibited if any licence prohibits it.

use serde::{Deserialize, Serialize};

use super::rules::{Rule, comparable};
use crate::address::PageUrl;
use crate::page::RslTerms;

/// The most bytes of a file that are read.
pub const MAX_RSL_BYTES: usize = 512 * 1024;

/// The most `content` elements, which are checked for every address of the host.
const MAX_CONTENTS: usize = 1_000;

/// The most bytes of all their patterns and names, which are read for every address of the host.
const MAX_KEPT: usize = 64 * 1024;

/// The most uses of one `content` element, and the longest name of one in bytes.
const MAX_USES: usize = 40;
const MAX_USE: usize = 40;

/// One `content` element.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RslContent {
    /// The addresses that it covers: a pattern of paths, or of addresses with the host.
    url: String,
    prohibits: Vec<String>,
    permits: Vec<String>,
    payment: Vec<String>,
}

/// Why an RSL file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RslError {
    /// It is longer than the limit, or has too many parts.
    #[error("it is too long")]
    TooLong,
    /// It is not XML.
    #[error("it is not XML: {0}")]
    Xml(String),
    /// It has no `content` element.
    #[error("it is not an RSL file: <rsl> with <content> is missing")]
    Other,
}

/// The root element.
#[derive(Deserialize)]
struct RslRoot {
    #[serde(rename = "content", default)]
    contents: Vec<ContentElement>,
}

#[derive(Deserialize)]
struct ContentElement {
    #[serde(rename = "@url")]
    url: Option<String>,
    #[serde(rename = "license", default)]
    licenses: Vec<LicenseElement>,
}

#[derive(Deserialize)]
struct LicenseElement {
    #[serde(default)]
    permits: Vec<UsesElement>,
    #[serde(default)]
    prohibits: Vec<UsesElement>,
    #[serde(default)]
    payment: Vec<PaymentElement>,
}

/// `permits` or `prohibits`.
#[derive(Deserialize)]
struct UsesElement {
    #[serde(rename = "@type")]
    kind: Option<String>,
    #[serde(rename = "$text", default)]
    uses: String,
}

#[derive(Deserialize)]
struct PaymentElement {
    #[serde(rename = "@type")]
    kind: Option<String>,
}

/// Parses an RSL file in UTF-8.
///
/// # Errors
///
/// [`RslError`] if it cannot be read; then every use counts as prohibited.
pub fn parse_rsl(bytes: &[u8]) -> Result<Vec<RslContent>, RslError> {
    // One of exactly this length was truncated by the fetcher.
    if bytes.len() >= MAX_RSL_BYTES {
        return Err(RslError::TooLong);
    }
    let text = String::from_utf8_lossy(bytes);
    let root: Result<RslRoot, _> = quick_xml::de::from_str(text.trim_start_matches('\u{feff}'));
    let root = root.map_err(|error| RslError::Xml(error.to_string()))?;
    match root.contents.len() {
        0 => return Err(RslError::Other),
        1..=MAX_CONTENTS => {}
        _ => return Err(RslError::TooLong),
    }
    let contents = root.contents.into_iter().map(content);
    let contents: Vec<_> = contents.collect::<Result<_, _>>()?;
    let kept: usize = contents.iter().map(RslContent::bytes).sum();
    if kept > MAX_KEPT {
        return Err(RslError::TooLong);
    }
    Ok(contents)
}

impl RslContent {
    fn bytes(&self) -> usize {
        let names = [&self.prohibits, &self.permits, &self.payment];
        let names = names.into_iter().flatten().map(String::len);
        self.url.len() + names.sum::<usize>()
    }
}

fn content(element: ContentElement) -> Result<RslContent, RslError> {
    // One that names no addresses covers all that name the file.
    let url = element.url.map(|url| url.trim().to_owned());
    let mut content = RslContent {
        url: url.filter(|url| !url.is_empty()).unwrap_or("/".to_owned()),
        ..RslContent::default()
    };
    for license in element.licenses {
        for (elements, uses) in [
            (&license.prohibits, &mut content.prohibits),
            (&license.permits, &mut content.permits),
        ] {
            for element in elements {
                let kind = element.kind.as_deref().unwrap_or("usage").trim();
                let is_usage = kind.eq_ignore_ascii_case("usage");
                for name in element.uses.split([',', ' ', '\t', '\r', '\n']) {
                    // Users and countries are recorded with their kind: `geo:EU`.
                    let name = name.to_ascii_lowercase();
                    let written = if is_usage {
                        name
                    } else {
                        format!("{kind}:{name}")
                    };
                    add(uses, written)?;
                }
            }
        }
        for payment in &license.payment {
            let kind = payment.kind.as_deref().unwrap_or("purchase").trim();
            add(&mut content.payment, kind.to_ascii_lowercase())?;
        }
    }
    Ok(content)
}

/// Adds a name once. What cannot be kept is an error, because it might be a prohibition.
fn add(names: &mut Vec<String>, name: String) -> Result<(), RslError> {
    if name.is_empty() || name.ends_with(':') || names.contains(&name) {
        return Ok(());
    }
    if name.len() > MAX_USE || names.len() >= MAX_USES {
        return Err(RslError::TooLong);
    }
    names.push(name);
    Ok(())
}

/// What the contents of the RSL file at `file` state about `url`; nothing if they do not cover it.
pub fn rsl_terms(contents: &[RslContent], file: &str, url: &PageUrl) -> RslTerms {
    let path = comparable(url.path_and_query());
    let covering = |content: &RslContent| {
        let pattern = pattern_of(&content.url, url)?;
        let rules = Rule::of_line(0, false, &pattern);
        let covers = rules.iter().any(|rule| rule.covers(&path));
        covers.then_some(pattern.len())
    };
    let lengths: Vec<_> = contents.iter().map(covering).collect();
    let longest = lengths.iter().flatten().max();
    let mut terms = RslTerms {
        file: file.to_owned(),
        read: true,
        ..RslTerms::default()
    };
    let covering = contents.iter().zip(&lengths);
    let covering = covering.filter(|(_, length)| length.is_some() && length.as_ref() == longest);
    for (content, _) in covering {
        for (names, more) in [
            (&mut terms.prohibits, &content.prohibits),
            (&mut terms.permits, &content.permits),
            (&mut terms.payment, &content.payment),
        ] {
            for name in more {
                if !names.contains(name) && names.len() < MAX_USES {
                    names.push(name.clone());
                }
            }
        }
    }
    terms
}

/// The pattern of paths of a `content`; `None` if it is for another host than that of `url`. One that
/// is neither a path nor an address covers everything, because something is meant.
fn pattern_of(written: &str, url: &PageUrl) -> Option<String> {
    let rest = match written.split_once("://") {
        Some((_, rest)) => rest,
        None => match written.strip_prefix("//") {
            Some(rest) => rest,
            None if written.starts_with(['/', '*']) => return Some(written.to_owned()),
            None => return Some("/".to_owned()),
        },
    };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let named = host.rsplit('@').next().unwrap_or(host);
    let named = named.split(':').next().unwrap_or(named);
    let is_own = named == "*" || named.eq_ignore_ascii_case(url.host());
    is_own.then(|| if path.is_empty() { "/" } else { path }.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What `file` says about a path: prohibited and permitted uses, and payment.
    fn said(file: &str, path: &str) -> String {
        let url = PageUrl::parse(&format!("https://a.org{path}")).unwrap();
        match parse_rsl(file.as_bytes()) {
            Err(error) => format!("{error:?}").chars().take(7).collect(),
            Ok(contents) => {
                let terms = rsl_terms(&contents, "f", &url);
                let parts = [terms.prohibits, terms.permits, terms.payment];
                parts.map(|part| part.join(" ")).join("|")
            }
        }
    }

    const FILE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
        <!-- The terms of a. -->
        <rsl xmlns="https://rslstandard.org/rsl">
          <content url="/">
            <license>
              <permits type="usage">search ai-index</permits>
              <prohibits type="usage">ai-train</prohibits>
              <prohibits type="geo">US</prohibits>
              <payment type="attribution"/>
            </license>
            <license>
              <permits type="usage">ai-train</permits>
              <payment type="training"><amount currency="USD">9.99</amount></payment>
              <permits type="usage">ai-input</permits>
            </license>
            <copyright type="organization">A &amp; B</copyright>
          </content>
          <content url="/open/*.html$" server="https://l.org/"><license/></content>
          <content url="https://a.org/shop/"><license><prohibits>ALL</prohibits></license></content>
        </rsl>"#;

    #[test]
    fn the_longest_pattern_counts_with_all_its_licences() {
        let all = "ai-train geo:us|search ai-index ai-train ai-input|attribution training";
        for (path, expected) in [
            ("/", all),
            ("/open/x", all),
            ("/open/x.html", "||"),
            ("/shop", all),
            ("/shop/x", "all||"),
        ] {
            assert_eq!(said(FILE, path), expected, "{path}");
        }
        let one = |url: &str| {
            let license = "<license><prohibits>search</prohibits></license>";
            format!("<r:rsl xmlns:r='x'><r:content{url}>{license}</r:content></r:rsl>")
        };
        for (url, path, expected) in [
            ("", "/x", "search||"),
            (" url=''", "/x", "search||"),
            (" url='/y'", "/x", "||"),
            (" url='https://a.org'", "/x", "search||"),
            (" url='http://A.org:443/'", "/x", "search||"),
            (" url='//a.org/y'", "/x", "||"),
            (" url='blog/'", "/x", "search||"),
            (" url='https://b.org/'", "/x", "||"),
            (" url='*.jpg$'", "/x.jpg", "search||"),
        ] {
            assert_eq!(said(&one(url), path), expected, "{url}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let many = "<content url='/'/>".repeat(MAX_CONTENTS + 1);
        let long = format!("<prohibits>{}</prohibits>", "x".repeat(MAX_USE + 1));
        for (file, error) in [
            ("", "Xml"),
            ("ai-train=no", "Xml"),
            ("<rsl/>", "Other"),
            ("<html><body>not found</body></html>", "Other"),
            ("<rsl><content url='/'><license>", "Xml"),
            ("<rsl><content url='/'></rsl>", "Xml"),
            (&format!("<rsl>{many}</rsl>"), "TooLong"),
            (
                &format!("<rsl><content><license>{long}</license></content></rsl>"),
                "TooLong",
            ),
            (&" ".repeat(MAX_RSL_BYTES), "TooLong"),
        ] {
            let begin = &file[..file.len().min(60)];
            assert!(
                said(file, "/").starts_with(error),
                "{begin}: {}",
                said(file, "/")
            );
        }
        let deep = format!("<rsl><content>{}", "<a>".repeat(100_000));
        assert!(parse_rsl(deep.as_bytes()).is_err());
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn no_file_panics(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            url in "[a-z:/*$ü?#.]{0,12}", uses in "\\PC{0,20}", path in "/[a-z*$%ü]{0,8}",
        ) {
            drop(parse_rsl(&bytes));
            said(&format!("<rsl><content url='{url}'><license><prohibits>{uses}</prohibits></license></content></rsl>"), &path);
            said(&format!("<rsl><content url='{url}'><license><permits type='{url}'/></license></content></rsl>"), &path);
        }
    }
}
