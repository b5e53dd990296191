//! Values of expressions, and their conversions (XPath 1.0, section 4).

use super::super::tree::TreeNode;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum XPathValue {
    Nodes(Vec<TreeNode>),
    Text(String),
    Number(f64),
    Truth(bool),
}

/// A string as a number: digits with an optional sign and fraction, surrounded by optional white
/// space; anything else is not a number.
pub(super) fn to_number(text: &str) -> f64 {
    let text = text.trim_matches([' ', '\t', '\r', '\n']);
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let some = digits.bytes().any(|b| b.is_ascii_digit());
    if plain && some {
        text.parse().unwrap_or(f64::NAN)
    } else {
        f64::NAN
    }
}

/// A number as a string, without an exponent.
pub(super) fn of_number(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
    } else if value == 0.0 {
        "0".to_owned()
    } else {
        value.to_string()
    }
}
