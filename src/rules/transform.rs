//! Transforms of a found value.

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::address::PageUrl;
use crate::date::{DateError, DateForm};

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum FieldValue {
    /// A text, an address or a date.
    Text(String),
    /// A number.
    Number(f64),
    /// The values of a field that takes several.
    Many(Vec<FieldValue>),
}

impl FieldValue {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        match self {
            FieldValue::Text(text) => text.trim().is_empty(),
            FieldValue::Number(_) => false,
            FieldValue::Many(all) => all.iter().all(FieldValue::is_empty),
        }
    }

    /// The bytes of its texts.
    pub(super) fn bytes(&self) -> usize {
        match self {
            FieldValue::Text(text) => text.len(),
            FieldValue::Number(_) => 0,
            FieldValue::Many(all) => all.iter().map(FieldValue::bytes).sum(),
        }
    }
}

impl std::fmt::Display for FieldValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FieldValue::Text(text) => f.write_str(text),
            FieldValue::Number(number) => write!(f, "{number}"),
            FieldValue::Many(all) => {
                for (nth, value) in all.iter().enumerate() {
                    let sign = if nth == 0 { "" } else { " | " };
                    write!(f, "{sign}{value}")?;
                }
                Ok(())
            }
        }
    }
}

/// One transform.
#[derive(Debug, Clone)]
pub enum Transform {
    /// Removes white space around the text.
    Trim,
    /// Makes each run of white space one blank, and trims.
    Collapse,
    /// Replaces what an expression matches.
    Replace {
        /// The expression.
        pattern: Regex,
        /// The replacement; `$1` is the first group.
        with: String,
    },
    /// Converts to lower case.
    Lower,
    /// A number, with its decimal sign.
    Number {
        /// `.` or `,`.
        decimal: char,
    },
    /// Resolves a relative address.
    Absolute,
    /// A date as ISO 8601.
    Date(Box<DateForm>),
}

/// Why a transform gives no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransformError {
    /// The date cannot be read.
    #[error(transparent)]
    Date(#[from] DateError),
    /// The text is not a number.
    #[error("\"{0}\" is not a number")]
    Number(String),
    /// The text is not an address.
    #[error("\"{0}\" is not an address")]
    Address(String),
    /// The text would exceed the limit of a field.
    #[error("its value would have more than {0} bytes; replace with less")]
    Long(usize),
}

/// The most characters of a value that a message shows.
const SHOWN: usize = 80;

fn shown(text: &str) -> String {
    let mut short: String = text.trim().chars().take(SHOWN).collect();
    if text.trim().chars().nth(SHOWN).is_some() {
        short.push_str("...");
    }
    short
}

/// Applies transforms to a text found on the page at `base`; none makes it longer than `most`
/// bytes, or than its own length if that is more. `notes` receives remarks on it.
pub(super) fn apply(
    transforms: &[Transform],
    text: &str,
    base: &PageUrl,
    most: usize,
    notes: &mut Vec<String>,
) -> Result<FieldValue, TransformError> {
    let most = most.max(text.len());
    let mut value = FieldValue::Text(text.to_owned());
    for transform in transforms {
        // A number stays a number.
        let FieldValue::Text(text) = &value else {
            break;
        };
        let new = one(transform, text, base, most, notes)?;
        if matches!(&new, FieldValue::Text(new) if new.len() > most) {
            return Err(TransformError::Long(most));
        }
        value = new;
    }
    Ok(value)
}

fn one(
    transform: &Transform,
    text: &str,
    base: &PageUrl,
    most: usize,
    notes: &mut Vec<String>,
) -> Result<FieldValue, TransformError> {
    let new = match transform {
        Transform::Trim => text.trim().to_owned(),
        Transform::Collapse => text.split_whitespace().collect::<Vec<_>>().join(" "),
        Transform::Replace { pattern, with } => replaced(pattern, text, with, most)?,
        Transform::Lower => text.to_lowercase(),
        Transform::Number { decimal } => {
            let number = number(text, *decimal);
            let number = number.ok_or_else(|| TransformError::Number(shown(text)))?;
            return Ok(FieldValue::Number(number));
        }
        Transform::Absolute => {
            let base = base.to_url();
            let address = base.and_then(|base| crate::address::resolve(&base, text.trim()));
            let address = address.map_err(|_| TransformError::Address(shown(text)))?;
            address.to_string()
        }
        Transform::Date(form) => {
            let read = form.read(text)?;
            if read.has_more {
                notes.push(format!(
                    "\"{}\" has more than one date; the first was taken",
                    shown(text)
                ));
            }
            read.iso
        }
    };
    Ok(FieldValue::Text(new))
}

/// Replaces all matches; an error if the text could exceed `most` bytes.
fn replaced(
    pattern: &Regex,
    text: &str,
    with: &str,
    most: usize,
) -> Result<String, TransformError> {
    let mut out = String::new();
    let mut from = 0;
    let groups = with.matches('$').count();
    for captures in pattern.captures_iter(text) {
        let Some(whole) = captures.get(0) else {
            continue;
        };
        out.push_str(text.get(from..whole.start()).unwrap_or_default());
        from = whole.end();
        // Checked before it is built: many `$0` would take much memory at once.
        let longest = captures.iter().flatten().map(|group| group.len()).max();
        let added = longest
            .unwrap_or(0)
            .saturating_mul(groups)
            .saturating_add(with.len());
        if out.len().saturating_add(added) > most {
            return Err(TransformError::Long(most));
        }
        captures.expand(with, &mut out);
    }
    out.push_str(text.get(from..).unwrap_or_default());
    Ok(out)
}

/// The first number in a text.
fn number(text: &str, decimal: char) -> Option<f64> {
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let before = text.get(..start)?.trim_end();
    let is_negative = before.ends_with(['-', '\u{2212}']);
    let group = if decimal == ',' { '.' } else { ',' };
    let mut digits = String::new();
    let mut chars = text.get(start..)?.chars().peekable();
    while let Some(c) = chars.next() {
        let next_is_digit = chars.peek().is_some_and(char::is_ascii_digit);
        match c {
            '0'..='9' => digits.push(c),
            c if c == decimal && next_is_digit && !digits.contains('.') => digits.push('.'),
            c if next_is_digit
                && (c == group || matches!(c, '\'' | '\u{a0}' | '\u{202f}' | '’')) => {}
            _ => break,
        }
    }
    let number: f64 = digits.parse().ok()?;
    let number = if is_negative { -number } else { number };
    number.is_finite().then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(transforms: &[Transform], text: &str) -> Result<FieldValue, TransformError> {
        let base = PageUrl::parse("https://example.org/news/a").unwrap();
        apply(transforms, text, &base, 100, &mut Vec::new())
    }

    #[test]
    fn each_transform_does_what_its_name_says() {
        let text = |value: &str| Ok(FieldValue::Text(value.to_owned()));
        let number = |decimal| Transform::Number { decimal };
        assert_eq!(with(&[Transform::Trim], " a  b\n"), text("a  b"));
        assert_eq!(with(&[Transform::Collapse], " a \n b\n"), text("a b"));
        assert_eq!(with(&[Transform::Lower], "ÄB"), text("äb"));
        assert_eq!(
            with(&[Transform::Absolute], " ../x?y "),
            text("https://example.org/x?y")
        );
        let replace = Transform::Replace {
            pattern: Regex::new("(?i)by (\\w+)").unwrap(),
            with: "$1".to_owned(),
        };
        assert_eq!(with(&[replace], "By Ada and by Bob"), text("Ada and Bob"));
        let doubled = |times: usize| {
            let pattern = Regex::new("(?s).*").unwrap();
            let with = "$0$0".to_owned();
            vec![Transform::Replace { pattern, with }; times]
        };
        assert_eq!(with(&doubled(3), "abcd"), text(&"abcd".repeat(8)));
        assert_eq!(with(&doubled(40), "abcd"), Err(TransformError::Long(100)));
        let many = Transform::Replace {
            pattern: Regex::new("b").unwrap(),
            with: "$0".repeat(60),
        };
        assert_eq!(with(&[many], "b"), Err(TransformError::Long(100)));
        for (decimal, given, expected) in [
            ('.', "1,234.5 km", 1_234.5),
            (',', "1.234,5 km", 1_234.5),
            (',', "- 3,50 €", -3.5),
            ('.', "7.", 7.0),
            ('.', "12 345", 12.0),
            ('.', "12\u{a0}345", 12_345.0),
        ] {
            let value = with(&[number(decimal)], given);
            assert_eq!(value, Ok(FieldValue::Number(expected)), "{given}");
        }
        let error = with(&[number('.')], "none").unwrap_err();
        assert_eq!(error.to_string(), "\"none\" is not a number");
    }
}
