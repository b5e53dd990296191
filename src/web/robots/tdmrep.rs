//! The rules of a host's `/.well-known/tdmrep.json`, by the TDM Reservation Protocol (W3C
//! Community Group, "TDM File on the Origin Server").
//!
//! Locations are patterns as in robots.txt, which the protocol adopts. It differs in
//! precedence: the first rule of the file that covers an address decides, even if others
//! are longer. The protocol fails open: an unreadable file reserves nothing.

use serde::{Deserialize, Serialize};
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

/// Parses a `tdmrep.json`. Rules without a location or with a `tdm-reservation` other than
/// 0 and 1 are protocol errors, and skipped.
pub fn parse_tdmrep(bytes: &[u8]) -> Vec<TdmRule> {
    let bytes = bytes.strip_prefix(&[0xEF, 0xBB, 0xBF]).unwrap_or(bytes);
    if bytes.len() > MAX_TDMREP_BYTES {
        return Vec::new();
    }
    let rules = match serde_json::from_slice(bytes) {
        Ok(Value::Array(rules)) => rules,
        // The brackets are mandatory, but the meaning is clear without them.
        Ok(rule @ Value::Object(_)) => vec![rule],
        _ => return Vec::new(),
    };
    rules.iter().filter_map(rule).take(MAX_RULES).collect()
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

fn rule(rule: &Value) -> Option<TdmRule> {
    let text = |key| rule.get(key).and_then(Value::as_str).map(str::trim);
    let reserved = match rule.get("tdm-reservation")? {
        Value::Number(number) => number.as_u64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    let location = text("location").filter(|l| (1..=MAX_TEXT).contains(&l.len()))?;
    let policy = text("tdm-policy").filter(|p| (1..=MAX_TEXT).contains(&p.len()));
    (reserved <= 1).then(|| TdmRule {
        location: location.to_owned(),
        reserved: reserved == 1,
        policy: policy.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn said(file: &str, path: &str) -> (Option<bool>, Option<String>) {
        let url = PageUrl::parse(&format!("https://a.org{path}")).unwrap();
        let terms = tdm_terms(&parse_tdmrep(file.as_bytes()), &url);
        (terms.tdm_reservation, terms.tdm_policy)
    }

    /// The protocol's own example, and an exception in front.
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
    fn what_cannot_be_read_says_nothing() {
        for file in [
            "",
            "[",
            "null",
            "[1, \"x\", [], {}]",
            "<html>not found</html>",
            r#"[{"location": "/", "tdm-reservation": 2}]"#,
            r#"[{"location": "/", "tdm-reservation": -1}]"#,
            r#"[{"location": "/", "tdm-reservation": true}]"#,
            r#"[{"location": "/"}]"#,
            r#"[{"tdm-reservation": 1}]"#,
            r#"[{"location": "", "tdm-reservation": 1}]"#,
            r#"[{"location": 5, "tdm-reservation": 1}]"#,
            r#"[{"location": "x", "tdm-reservation": 1}]"#,
        ] {
            assert_eq!(said(file, "/x"), (None, None), "{file}");
        }
        for file in [
            r#"{"location": "/", "tdm-reservation": 1}"#,
            "\u{feff}[{\"location\": \"*\", \"tdm-reservation\": 1}]",
            r#"[{"location": "/", "tdm-reservation": 9}, {"location": "/", "tdm-reservation": 1}]"#,
        ] {
            assert_eq!(said(file, "/x").0, Some(true), "{file}");
        }
        let long = "x".repeat(MAX_TEXT);
        let file = format!(r#"[{{"location": "/{long}", "tdm-reservation": 1}}]"#);
        assert!(parse_tdmrep(file.as_bytes()).is_empty());
        let many = vec![r#"{"location": "/x", "tdm-reservation": 1}"#; 2 * MAX_RULES].join(",");
        assert_eq!(
            parse_tdmrep(format!("[{many}]").as_bytes()).len(),
            MAX_RULES
        );
        let deep = "[".repeat(MAX_TDMREP_BYTES);
        assert!(parse_tdmrep(deep.as_bytes()).is_empty());
        assert!(parse_tdmrep(&vec![b' '; MAX_TDMREP_BYTES + 1]).is_empty());
    }

    proptest! {
        #![proptest_config(crate::tests::usual())]

        #[test]
        fn no_file_panics(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            location in "\\PC{0,12}", reservation in "-?[0-9]{1,3}|\"\\PC{0,4}\"|null|\\[\\]",
            policy in "[a-z:/ü?#]{0,12}", path in "/[a-z*$%ü]{0,8}",
        ) {
            parse_tdmrep(&bytes);
            let rule = serde_json::json!({"location": location, "tdm-policy": policy});
            let mut rule = rule.to_string();
            rule.pop();
            said(&format!("[{rule},\"tdm-reservation\":{reservation}}}]"), &path);
        }
    }
}
