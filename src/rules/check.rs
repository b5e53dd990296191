//! Runs the examples of rules, and finds duplicate rules.

use std::fmt;

use scraper::Html;

use super::RuleSet;
use super::rule::{Applied, Css, Example, Page, Rule};
use super::transform::FieldValue;

/// The result of an example.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The rule.
    pub rule: String,
    /// The example.
    pub example: Example,
    /// The differences from the example; empty if there are none.
    pub failures: Vec<Failure>,
    /// Remarks, although the values are right.
    pub notes: Vec<String>,
}

/// A difference from an example.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Failure {
    /// The page cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// Another rule is chosen for the page, or none.
    #[error("{}", chosen.as_ref().map_or_else(
        || "no rule is chosen for this page: see its `urls` and `markup`".to_owned(),
        |name| format!("the rule `{name}` is chosen for this page")
    ))]
    Chosen {
        /// The other one.
        chosen: Option<String>,
    },
    /// A value differs.
    #[error("{field}: expected \"{expected}\", found {}", found.as_ref().map_or_else(
        || "nothing".to_owned(),
        |value| format!("\"{value}\"")
    ))]
    Value {
        /// The field.
        field: String,
        /// The value of the example.
        expected: FieldValue,
        /// The value on the page.
        found: Option<FieldValue>,
    },
}

/// Runs the examples of all rules, or of one. `read` returns the decoded markup of an example's
/// page, and its tree.
pub fn check(
    rules: &RuleSet,
    only: Option<&str>,
    mut read: impl FnMut(&Example) -> Result<(String, Html), String>,
) -> Vec<Checked> {
    let mut all = Vec::new();
    for rule in rules.rules() {
        if only.is_some_and(|only| only != rule.name) {
            continue;
        }
        for example in &rule.examples {
            let mut checked = Checked {
                rule: rule.name.clone(),
                example: example.clone(),
                failures: Vec::new(),
                notes: Vec::new(),
            };
            match read(example) {
                Err(why) => checked.failures.push(Failure::Unreadable(why)),
                Ok((markup, html)) => {
                    let page = Page {
                        url: &example.url,
                        markup: &markup,
                        html: &html,
                        day: None,
                    };
                    compare(rules, rule, &page, &mut checked);
                }
            }
            all.push(checked);
        }
    }
    all
}

fn compare(rules: &RuleSet, rule: &Rule, page: &Page<'_>, checked: &mut Checked) {
    // Without a day, rules of all times apply, and an earlier one may come first. So the rule is
    // tested directly, and then whether another rule of the same time takes the page.
    let day = rule.from.or(rule.until);
    let chosen = rules.choose(&Page { day, ..*page });
    if chosen.is_none_or(|chosen| chosen.name != rule.name) {
        let chosen = chosen.map(|chosen| chosen.name.clone());
        checked.failures.push(Failure::Chosen { chosen });
    }
    let found: Applied = rule.apply(page);
    for field in &found.fields {
        let notes = field.notes.iter();
        checked
            .notes
            .extend(notes.map(|note| format!("{}: {note}", field.name)));
    }
    for (name, expected) in &checked.example.values {
        let value = found.value(name);
        if value != Some(expected) {
            checked.failures.push(Failure::Value {
                field: name.clone(),
                expected: expected.clone(),
                found: value.cloned(),
            });
        }
    }
}

/// Two rules or fields, one of which is useless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Duplicate {
    /// The first one.
    pub first: String,
    /// The second one.
    pub second: String,
    /// Why.
    pub why: &'static str,
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, second, why } = self;
        write!(f, "`{second}` after `{first}` {why}")
    }
}

/// Finds duplicates: a rule that is never chosen because an earlier one takes all its pages, rules
/// with the same fields for different addresses, and fields of a rule that find the same.
pub fn duplicates(rules: &RuleSet) -> Vec<Duplicate> {
    let mut found = Vec::new();
    let all = rules.rules();
    for (at, second) in all.iter().enumerate() {
        for first in all.iter().take(at) {
            let why = if hides(first, second) {
                "is never chosen, because the first one takes all its pages"
            } else if same_fields(first, second) && markup(first) == markup(second) {
                "has the same fields; one rule with both addresses is enough"
            } else {
                continue;
            };
            found.push(Duplicate {
                first: first.name.clone(),
                second: second.name.clone(),
                why,
            });
        }
        for (at, field) in second.fields.iter().enumerate() {
            let same = second
                .fields
                .iter()
                .take(at)
                .find(|other| other.print() == field.print());
            if let Some(other) = same {
                found.push(Duplicate {
                    first: format!("{}.{}", second.name, other.name),
                    second: format!("{}.{}", second.name, field.name),
                    why: "finds the same in the same way",
                });
            }
        }
    }
    found
}

fn markup(rule: &Rule) -> Option<&str> {
    rule.markup.as_ref().map(|Css { text, .. }| text.as_str())
}

/// Whether `first` takes every page that `second` could take.
fn hides(first: &Rule, second: &Rule) -> bool {
    let covered = second.urls.iter().all(|url| first.urls.contains(url));
    let same_markup = first.markup.is_none() || markup(first) == markup(second);
    let begins = match (first.from, second.from) {
        (None, _) => true,
        (Some(a), Some(b)) => a <= b,
        (Some(_), None) => false,
    };
    let ends = match (first.until, second.until) {
        (None, _) => true,
        (Some(a), Some(b)) => a >= b,
        (Some(_), None) => false,
    };
    covered && same_markup && begins && ends
}

fn same_fields(a: &Rule, b: &Rule) -> bool {
    let prints = |rule: &Rule| {
        let mut prints: Vec<String> = rule
            .fields
            .iter()
            .map(|field| format!("{} {}", field.name, field.print()))
            .collect();
        prints.sort();
        prints
    };
    prints(a) == prints(b)
}
