//! Content signals: statements of a robots.txt about the use of what may be fetched.
//!
//! Two forms are read, both with an optional path pattern in front, as in an `Allow` rule,
//! and both as rules of their group: `Content-Signal: /blog/ search=yes, ai-train=no`
//! (contentsignals.org), and `Content-Usage: train-ai=n` (draft-ietf-aipref-attach,
//! section on robots.txt). Signals keep their written names, because the vocabularies
//! differ.
//!
//! If several lines cover an address, the one with the longest pattern decides, for each
//! signal separately; of equally long ones the most restrictive value counts. All lines are read,
//! because any of them may forbid something; if that takes too long for an address, all is forbidden.

use std::collections::BTreeMap;

use super::MAX_MATCHING;
use super::rules::{Rule, comparable};
use crate::page::{SIGNALS, SignalValue, Terms};

/// A signal of a line that covers an address takes as much time as matching so many bytes.
const PER_SIGNAL: usize = 1_000;

/// The longest name and value of a signal, in bytes; longer ones are skipped.
const MAX_NAME: usize = 40;

/// One line: what it covers, and its signals.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SignalLine {
    covers: Rule,
    signals: Vec<(Box<str>, SignalValue)>,
}

/// The signals of the groups that apply to the crawler, the line with the shortest pattern
/// first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct GroupSignals(Vec<SignalLine>);

impl GroupSignals {
    /// Reads the value of a line; anything that is not a signal is ignored.
    pub fn read(&mut self, number: u32, value: &str) {
        let value = value.trim();
        let (pattern, list) = if value.starts_with('/') {
            value.split_once([' ', '\t']).unwrap_or((value, ""))
        } else {
            ("/", value)
        };
        let mut named = Terms::default();
        signals_of(list).for_each(|(name, value)| named.signal(name, value));
        let signals = named.content_signals.into_iter();
        let signals: Vec<_> = signals.map(|(name, value)| (name.into(), value)).collect();
        // `Disallow`, because an `Allow` may stand for two rules.
        let covers = Rule::of_line(number, false, pattern).pop();
        if let Some(covers) = covers
            && !signals.is_empty()
        {
            self.0.push(SignalLine { covers, signals });
        }
    }

    /// The same in order of evaluation.
    pub fn in_order(mut self) -> Self {
        self.0.sort_by_key(|line| line.covers.pattern().len());
        self.0.shrink_to_fit();
        self
    }

    /// The signals for an address, given its path and query.
    pub fn of(&self, path: &str) -> BTreeMap<String, SignalValue> {
        // The length of the deciding pattern, and the value.
        let mut said: BTreeMap<&str, (usize, SignalValue)> = BTreeMap::new();
        if self.0.is_empty() {
            return BTreeMap::new();
        }
        let path = comparable(path);
        let mut left = MAX_MATCHING;
        for line in &self.0 {
            match left.checked_sub(line.covers.cost(&path)) {
                Some(rest) => left = rest,
                None => return closed(),
            }
            if !line.covers.covers(&path) {
                continue;
            }
            match left.checked_sub(line.signals.len() * PER_SIGNAL) {
                Some(rest) => left = rest,
                None => return closed(),
            }
            let length = line.covers.pattern().len();
            for (name, value) in &line.signals {
                let known = said.remove(&**name).filter(|(known, _)| *known == length);
                let value = match known {
                    Some((_, known)) => known.stricter(value.clone()),
                    None => value.clone(),
                };
                said.insert(name, (length, value));
            }
        }
        let mut terms = Terms::default();
        for (name, (_, value)) in said {
            terms.signal(name.to_owned(), value);
        }
        terms.content_signals
    }

    /// Its approximate memory, in bytes.
    pub fn size(&self) -> usize {
        let of_line = |line: &SignalLine| {
            let names = line.signals.iter();
            let names: usize = names
                .map(|(name, value)| name.len() + value.as_str().len() + 60)
                .sum();
            size_of::<SignalLine>() + line.covers.pattern().len() + names + 32
        };
        self.0.iter().map(of_line).sum()
    }
}

/// The signals of a list such as `search=yes, ai-train=no`, or of a structured dictionary
/// (RFC 9651) such as `train-ai=n`, whose parameters are ignored. Everything else is skipped.
pub fn signals_of(list: &str) -> impl Iterator<Item = (String, SignalValue)> {
    list.split(',').filter_map(signal)
}

/// The signals for an address whose matching would take too long.
fn closed() -> BTreeMap<String, SignalValue> {
    let no = |name: &str| (name.to_owned(), SignalValue::Flag(false));
    SIGNALS.into_iter().map(no).collect()
}

fn signal(text: &str) -> Option<(String, SignalValue)> {
    let (name, value) = text.split_once('=')?;
    let value = value.split(';').next().unwrap_or_default();
    let value = value.trim().trim_matches('"');
    let is_word = |text: &str| {
        (1..=MAX_NAME).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.*".contains(&b))
    };
    let name = name.trim().to_ascii_lowercase();
    (is_word(&name) && is_word(value)).then(|| (name, SignalValue::of(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn said(lines: &[&str], path: &str) -> String {
        let mut signals = GroupSignals::default();
        for line in lines {
            signals.read(1, line);
        }
        let said = signals.in_order().of(path);
        let shown = said.iter().map(|(name, value)| match value.as_str() {
            "yes" => format!("+{name}"),
            "no" => format!("-{name}"),
            other => format!("{name}={other}"),
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn lines() {
        for (lines, path, expected) in [
            (&[] as &[&str], "/", ""),
            (
                &["search=yes, ai-input=no,ai-train=no"],
                "/",
                "-ai-input -ai-train +search",
            ),
            (&["AI-Train = NO"], "/x", "-ai-train"),
            (&["train-ai=n, search=y;q=1"], "/", "+search -train-ai"),
            (
                &["use=reference,ai-train=no"],
                "/",
                "-ai-train use=reference",
            ),
            (&["use=full, use=Immediate"], "/", "use=Immediate"),
            (
                &["train-ai=\"n\", later=maybe"],
                "/",
                "later=maybe -train-ai",
            ),
            (&["/blog/ ai-train=no"], "/blog/post", "-ai-train"),
            (&["/blog/ ai-train=no"], "/about", ""),
            (&["/blog/"], "/blog/", ""),
            (&["/*.jpg$\tai-train=no"], "/a.jpg", "-ai-train"),
            (&["/*.jpg$ ai-train=no"], "/a.jpg?x", ""),
            (&["/ü ai-train=no"], "/%c3%bc", "-ai-train"),
            // The longer pattern takes precedence for the signals that it has.
            (
                &["/ok/ ai-train=yes", "ai-train=no, search=no"],
                "/ok/x",
                "+ai-train -search",
            ),
            (&["ai-train=no", "/ok/ ai-train=yes"], "/x", "-ai-train"),
            (&["ai-train=yes", "ai-train=no"], "/", "-ai-train"),
            (&["ai-train=no", "ai-train=yes"], "/", "-ai-train"),
            (&["ai-train=no, ai-train=yes"], "/", "-ai-train"),
            (
                &[
                    "",
                    "=no",
                    "ai-train",
                    "ai train=no",
                    "ai-train=may be",
                    ",,=",
                ],
                "/",
                "",
            ),
        ] {
            assert_eq!(said(lines, path), expected, "{lines:?} {path}");
        }
    }

    #[test]
    fn what_takes_too_long_to_match_is_forbidden() {
        let mut signals = GroupSignals::default();
        for n in 0..20_000 {
            signals.read(1, &format!("/*a{n}b search=yes"));
        }
        let signals = signals.in_order();
        assert_eq!(signals.of("/x").len(), 0);
        assert_eq!(signals.of(&"/x".repeat(1_000))["search"].as_str(), "no");
        let names: Vec<_> = (0..50_000).map(|n| format!("a{n}=b")).collect();
        let line = format!("{}, ai-train=no", names.join(","));
        let said = said(&[&line], "/");
        assert!(said.contains("-ai-train") && said.len() < 300, "{said}");
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn nothing_panics_and_memory_is_bounded(lines in proptest::collection::vec("(/[a*$%ü]{0,4}[ \t])?\\PC{0,20}[=,;a-z yn]{0,20}", 0..10), path in "/\\PC{0,20}") {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            said(&lines, &path);
            let mut signals = GroupSignals::default();
            for _ in 0..300 {
                for line in &lines {
                    signals.read(1, line);
                }
            }
            let bytes: usize = lines.iter().map(|line| line.len() + 20).sum();
            prop_assert!(signals.size() <= 300 * bytes * 50);
        }
    }
}
