//! The rules of a host's `/.well-known/tdmrep.json`, by the TDM Reservation Protocol (W3C
//! Community Group, "TDM File on the Origin Server").
//!
//! Locations are patterns as in robots.txt, which the protocol adopts. It differs in precedence:
//! the first rule of the file that covers an address decides, even if other patterns are longer.
//!
//! The protocol fails open. Here a file that cannot be read reserves everything, and a rule
//! whose value cannot be read reserves what it covers, because a publisher who writes either
//! wants to reserve something.

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::rules::{Rule, comparable};
use crate::address::PageUrl;
use crate::page::Terms;

/// The path of the file on a host.
pub const TDMREP_PATH: &str = "/.well-known/tdmrep.json";

/// The most bytes of it that are read.
pub const MAX_TDMREP_BYTES: usize = 512 * 1024;

/// The most rules that are kept, because they are checked for every address of the host.
const MAX_RULES: usize = 1_000;

/// The longest location or policy address, in bytes; a rule with a longer one is skipped.
const MAX_TEXT: usize = 2_000;

/// One rule of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TdmRule {
    /// The pattern of the paths that it covers.
    pub location: String,
    /// Whether text and data mining is reserved there.
    pub reserved: bool,
    /// Where the terms of such mining are published, as written.
    pub policy: Option<String>,
}

/// Why a `tdmrep.json` cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TdmError {
    /// It is too long, and its end was not read.
    #[error("it is longer than {MAX_TDMREP_BYTES} bytes")]
    TooLong,
    /// It is not JSON, or not a list of rules.
    #[error("it is not a list of rules in JSON: {0}")]
    Json(String),
}

/// Parses a `tdmrep.json` in UTF-8. An empty file has no rules, and neither has a page of HTML:
/// some servers answer every address with one. Entries without a `tdm-reservation` say
/// nothing.
///
/// # Errors
///
/// [`TdmError`] if it cannot be read; then [`reserve_all`] applies.
pub fn parse_tdmrep(bytes: &[u8]) -> Result<Vec<TdmRule>, TdmError> {
    let bytes = bytes.strip_prefix(&[0xEF, 0xBB, 0xBF]).unwrap_or(bytes);
    if let [] | [b'<', ..] = bytes.trim_ascii_start() {
        return Ok(Vec::new());
    }
    // One of exactly this length was truncated by the fetcher.
    if bytes.len() >= MAX_TDMREP_BYTES {
        return Err(TdmError::TooLong);
    }
    let json = |error: serde_json::Error| TdmError::Json(error.to_string());
    let entries = match bytes.trim_ascii_start().first() {
        // The brackets are mandatory, but the meaning is clear without them.
        Some(b'{') => vec![serde_json::from_slice(bytes).map_err(json)?],
        _ => serde_json::from_slice::<Vec<TdmEntry>>(bytes).map_err(json)?,
    };
    let mut rules: Vec<TdmRule> = entries.iter().filter_map(rule).collect();
    if rules.len() > MAX_RULES {
        rules.truncate(MAX_RULES);
        rules.extend(reserve_all());
    }
    Ok(rules)
}

/// The rule that applies while a host's own rules cannot be read.
pub fn reserve_all() -> Vec<TdmRule> {
    vec![TdmRule {
        location: "/".to_owned(),
        reserved: true,
        policy: None,
    }]
}

/// An object of the file with all its members. All members of the same name count.
#[derive(Debug, Default)]
struct TdmEntry(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for TdmEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = TdmEntry;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object with a rule")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TdmEntry, A::Error> {
                let mut entry = TdmEntry::default();
                while let Some(member) = map.next_entry()? {
                    entry.0.push(member);
                }
                Ok(entry)
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl TdmEntry {
    fn all(&self, name: &str) -> impl Iterator<Item = &Value> {
        let named = move |(key, _): &&(String, Value)| key.trim().eq_ignore_ascii_case(name);
        self.0.iter().filter(named).map(|(_, value)| value)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.all(name).find_map(Value::as_str).map(str::trim)
    }
}

/// The terms of the first of `rules` that covers `url`.
pub fn tdm_terms(rules: &[TdmRule], url: &PageUrl) -> Terms {
    if rules.is_empty() {
        return Terms::default();
    }
    let path = comparable(url.path_and_query());
    let covers = |rule: &&TdmRule| {
        let patterns = Rule::of_line(0, false, &rule.location);
        patterns.iter().any(|pattern| pattern.covers(&path))
    };
    rules
        .iter()
        .find(covers)
        .map_or_else(Terms::default, |rule| Terms {
            tdm_reservation: Some(rule.reserved),
            tdm_policy: rule.policy.as_ref().and_then(|policy| {
                let policy = url.join(policy).ok()?;
                Some(policy.to_string())
            }),
            ..Terms::default()
        })
}

/// The rule of an entry. One whose location cannot be read covers everything if it reserves.
fn rule(entry: &TdmEntry) -> Option<TdmRule> {
    let mut values = entry.all("tdm-reservation").filter(|v| !v.is_null());
    let first = is_reserved(values.next()?);
    let reserved = first || values.any(is_reserved);
    let fits = |text: &&str| (1..=MAX_TEXT).contains(&text.len());
    let location = match entry.text("location").filter(fits) {
        Some(location) => location,
        None if reserved => "/",
        None => return None,
    };
    let policy = entry.text("tdm-policy").filter(fits);
    Some(TdmRule {
        location: location.to_owned(),
        reserved,
        policy: policy.map(str::to_owned),
    })
}

fn is_reserved(value: &Value) -> bool {
    match value {
        Value::Bool(reserved) => *reserved,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => reservation(text).unwrap_or(true),
        _ => true,
    }
}

/// Whether a `tdm-reservation` of a header, an element or a file reserves; `None` if it is empty.
/// The protocol defines only 0 and 1. If there are several values, the strictest counts, and an
/// unreadable one reserves.
pub fn reservation(text: &str) -> Option<bool> {
    let values = text.split([',', ';']).flat_map(str::split_whitespace);
    let values = values.map(|value| value.trim_matches(['"', '\'']));
    let said = values.filter(|value| !value.is_empty()).map(|value| {
        let is_no = |no: &&str| value.eq_ignore_ascii_case(no);
        value.parse() != Ok(0.0) && !["?0", "false", "no"].iter().any(is_no)
    });
    said.reduce(|a, b| a || b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn said(file: &str, path: &str) -> (Option<bool>, Option<String>) {
        let url = PageUrl::parse(&format!("https://a.org{path}")).unwrap();
        let terms = tdm_terms(
            &parse_tdmrep(file.as_bytes()).unwrap_or_else(|_| reserve_all()),
            &url,
        );
        (terms.tdm_reservation, terms.tdm_policy)
    }

    /// The protocol's own example, with an exception before it.
    const FILE: &str = r#"[
        {"location": "/a/free/", "tdm-reservation": 0},
        {"location": "/a/", "tdm-reservation": 1},
        {"location": "/a/free/not/", "tdm-reservation": 1},
        {"location": "/b/html/", "tdm-reservation": 1, "tdm-policy": "https://b.org/policy.json"},
        {"location": "/b/images/*.jpg$", "tdm-reservation": "0"},
        {"location": "/b/images/", "tdm-reservation": 1, "tdm-policy": "/terms"}]"#;

    #[test]
    fn the_first_rule_that_covers_an_address_decides() {
        let policy = |text: &str| Some(text.to_owned());
        for (path, expected) in [
            ("/", (None, None)),
            ("/A/", (None, None)),
            ("/a/x", (Some(true), None)),
            ("/a/free/x", (Some(false), None)),
            ("/a/free/not/x", (Some(false), None)),
            (
                "/b/html/x?y",
                (Some(true), policy("https://b.org/policy.json")),
            ),
            ("/b/images/x.jpg", (Some(false), None)),
            (
                "/b/images/x.jpg?y",
                (Some(true), policy("https://a.org/terms")),
            ),
        ] {
            assert_eq!(said(FILE, path), expected, "{path}");
        }
    }

    #[test]
    fn what_cannot_be_read_reserves() {
        let long = "x".repeat(MAX_TEXT);
        let many = vec![r#"{"location": "/y", "tdm-reservation": 0}"#; 2 * MAX_RULES].join(",");
        for file in [
            "[",
            "null",
            "nonsense",
            "[1, \"x\", [], {}]",
            r#"[{"location": "/", "tdm-reservation": 0},]"#,
            r#"[{"location": "/", "tdm-reservation": 2}]"#,
            r#"[{"location": "/", "tdm-reservation": -1}]"#,
            r#"[{"location": "/", "tdm-reservation": true}]"#,
            r#"[{"location": "/", "tdm-reservation": 1.0}]"#,
            r#"[{"location": "/", "tdm-reservation": "1.0"}]"#,
            r#"[{"location": "/", "tdm-reservation": "yes"}]"#,
            r#"[{"location": "/", "tdm-reservation": [0]}]"#,
            r#"[{"location": "/", "TDM-Reservation ": 1}]"#,
            r#"[{"location": "/", "tdm-reservation": 1, "tdm-reservation": 0}]"#,
            r#"[{"tdm-reservation": 1}]"#,
            r#"[{"location": "", "tdm-reservation": 1}]"#,
            r#"[{"location": 5, "tdm-reservation": 1}]"#,
            r#"{"location": "/", "tdm-reservation": 1}"#,
            "\u{feff}[{\"location\": \"*\", \"tdm-reservation\": 1}]",
            &format!(r#"[{{"location": "/{long}", "tdm-reservation": 1}}]"#),
            &format!("[{many}]"),
            &"[".repeat(MAX_TDMREP_BYTES),
            &format!("[{}]", " ".repeat(MAX_TDMREP_BYTES)),
        ] {
            let begin = &file[..file.len().min(80)];
            assert_eq!(said(file, "/x").0, Some(true), "{begin}");
        }
        let rules = parse_tdmrep(format!("[{many}]").as_bytes());
        assert_eq!(rules.map(|rules| rules.len()), Ok(MAX_RULES + 1));
        assert_eq!(said(&format!("[{many}]"), "/y").0, Some(false));
    }

    #[test]
    fn what_is_no_file_of_rules_says_nothing() {
        for file in [
            "",
            " \n",
            "[]",
            "{}",
            "<html>not found</html>",
            "\n<!DOCTYPE html>",
            r#"{"message": "not found"}"#,
            r#"[{"location": "/"}]"#,
            r#"[{"location": "/", "tdm-reservation": null}]"#,
            r#"[{"location": 5, "tdm-reservation": 0}]"#,
            r#"[{"location": "x", "tdm-reservation": 1}]"#,
        ] {
            assert_eq!(said(file, "/x"), (None, None), "{file}");
        }
        for no in ["0", "0.0", "false", "\"0\"", "\"false\"", "\" 0 \""] {
            let file = format!(r#"[{{"location": "/", "tdm-reservation": {no}}}]"#);
            assert_eq!(said(&file, "/x").0, Some(false), "{file}");
        }
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn no_file_panics(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            location in "\\PC{0,12}", reservation in "-?[0-9]{1,3}|\"\\PC{0,4}\"|null|\\[\\]",
            policy in "[a-z:/ü?#]{0,12}", path in "/[a-z*$%ü]{0,8}",
        ) {
            drop(parse_tdmrep(&bytes));
            let rule = serde_json::json!({"location": location, "tdm-policy": policy});
            let mut rule = rule.to_string();
            rule.pop();
            said(&format!("[{rule},\"tdm-reservation\":{reservation}}}]"), &path);
        }
    }
}
