//! The value of a `Crawl-delay` line, which no standard defines: sites write `10`, `10s`,
//! `10,5`, `1e30` and `inf`.
//!
//! A site that writes the line wants slow requests, so every value that begins with a number
//! counts, and a number beyond the range of clocks counts as the longest delay. The upper limit of
//! a crawl's delay is set elsewhere.

use std::time::Duration;

/// The most characters of a number that is followed by other text. Without a limit, a line
/// of thousands of signs would be parsed thousands of times.
const MAX_NUMBER: usize = 64;

/// The delay of a value; `None` if it does not begin with a number, is negative or `NaN`.
/// The number is in seconds, with a point or a comma before the fraction; text after it is
/// ignored.
pub(super) fn delay(value: &str) -> Option<Duration> {
    let value = value.trim();
    let seconds = match value.parse::<f64>() {
        Ok(seconds) => seconds,
        Err(_) => leading_number(value)?,
    };
    if seconds.is_nan() || seconds < 0.0 {
        None
    } else {
        Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }
}

/// The longest number at the beginning of a text.
fn leading_number(text: &str) -> Option<f64> {
    let of_number = |c: &char| c.is_ascii_digit() || matches!(c, '.' | ',' | 'e' | 'E' | '+' | '-');
    let number = text.chars().take_while(of_number).take(MAX_NUMBER);
    let mut number: String = number.map(|c| if c == ',' { '.' } else { c }).collect();
    while !number.is_empty() {
        if let Ok(seconds) = number.parse() {
            return Some(seconds);
        }
        number.pop();
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_begins_with_a_number_is_read() {
        let nines = "9".repeat(40);
        let many = "9".repeat(1_000) + "s";
        for (value, seconds) in [
            ("10", 10.0),
            (" 2.5 ", 2.5),
            (".5", 0.5),
            ("5.", 5.0),
            ("+3", 3.0),
            ("0", 0.0),
            ("10s", 10.0),
            ("10 seconds", 10.0),
            ("10,5", 10.5),
            ("10,5 s", 10.5),
            ("10;", 10.0),
            ("1.2.3", 1.2),
            ("7e", 7.0),
            ("7 and no e3", 7.0),
            ("2e1s", 20.0),
            ("30-60", 30.0),
        ] {
            let expected = Some(Duration::from_secs_f64(seconds));
            assert_eq!(delay(value), expected, "{value:?}");
        }
        for value in ["1e30", "1e400", "inf", "infinity", &nines, &many, "1e30 s"] {
            assert_eq!(delay(value), Some(Duration::MAX), "{value:?}");
        }
        for value in [
            "", "-1", "-1 s", "-inf", "NaN", "soon", "s10", "e5", "-", ",", "ten 10",
        ] {
            assert_eq!(delay(value), None, "{value:?}");
        }
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn a_suffix_changes_no_number(seconds in 0u32..1_000_000, suffix in "[ a-df-zA-DF-Z_/;:].{0,20}") {
            let expected = Some(Duration::from_secs(seconds.into()));
            prop_assert_eq!(delay(&format!("{seconds}{suffix}")), expected);
        }

        #[test]
        fn no_value_panics(value in ".{0,80}") {
            delay(&value);
        }
    }
}
