//! Durations and sizes: numbers with a unit.

use std::cmp::Ordering;
use std::fmt;
use std::time::Duration;

use super::messages::shown;
use super::raw::{FileValue, Raw};
use super::values::{Value, Wrong, found, keep, mismatch, number, quoted};

/// `count` milliseconds.
pub const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// `count` seconds.
pub const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// `count` minutes.
pub const fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

/// `count` hours.
pub const fn hours(count: u64) -> Duration {
    Duration::from_secs(count * 3_600)
}

/// `count` days.
pub const fn days(count: u64) -> Duration {
    Duration::from_secs(count * 86_400)
}

impl Value for Duration {
    type Unit = Self;

    fn kind() -> String {
        "a duration".to_owned()
    }
    fn form() -> String {
        r#"a number of seconds, or a text with a unit as "500ms", "1s", "10m", "6h" or "1d""#
            .to_owned()
    }
    fn example() -> String {
        quoted("6h")
    }
    fn read(value: &FileValue<'_>, wrong: &mut Wrong) -> Option<Self> {
        let result = match &value.raw {
            Raw::Text(text) => match with_unit(text, DURATION_UNITS) {
                Some((number, unit)) => milliseconds(number, unit as f64, &shown(text)),
                None => Err(mismatch::<Self>(&value.raw)),
            },
            other => match number(other) {
                Some(Ok(seconds)) => milliseconds(seconds, 1000.0, &found(other)),
                Some(Err(why)) => Err(why),
                None => Err(mismatch::<Self>(other)),
            },
        };
        keep(result, value.span(), wrong)
    }
    fn show(&self) -> Option<String> {
        let ms = self.as_millis();
        let (count, unit) = DURATION_UNITS
            .iter()
            .rev()
            .find(|(_, size)| ms != 0 && ms.is_multiple_of(u128::from(*size)))
            .map_or((0, "s"), |(unit, size)| (ms / u128::from(*size), *unit));
        Some(quoted(&format!("{count}{unit}")))
    }
    fn unit(&self) -> Option<&Self> {
        Some(self)
    }
    fn order(a: &Self, b: &Self) -> Ordering {
        a.cmp(b)
    }
}

/// Units of a duration in milliseconds, smallest first.
const DURATION_UNITS: &[(&str, u64)] = &[
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(pub u64);

impl Size {
    /// `count` times 1,024 bytes.
    pub const fn kib(count: u64) -> Self {
        Self(count.saturating_mul(1 << 10))
    }

    /// `count` times 1,024 x 1,024 bytes.
    pub const fn mib(count: u64) -> Self {
        Self(count.saturating_mul(1 << 20))
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The number of bytes as a length in memory, at most `usize::MAX`.
    pub fn as_len(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// Units of a size in bytes; if several divide a size, the largest is used.
const SIZE_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
    ("TB", 1_000_000_000_000),
    ("TiB", 1 << 40),
];

/// Up to this number a float represents every whole number exactly.
const EXACT: f64 = 9e15;

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, unit) = SIZE_UNITS
            .iter()
            .rev()
            .find(|(_, size)| self.0 != 0 && self.0.is_multiple_of(*size))
            .map_or((0, "B"), |(unit, size)| (self.0 / size, *unit));
        write!(f, "{count} {unit}")
    }
}

impl Value for Size {
    type Unit = Self;

    fn kind() -> String {
        "a size".to_owned()
    }
    fn form() -> String {
        r#"a whole number of bytes, or a text with a unit as "500 KiB", "10 MiB" or "2 GB""#
            .to_owned()
    }
    fn example() -> String {
        quoted("2 GB")
    }
    fn read(value: &FileValue<'_>, wrong: &mut Wrong) -> Option<Self> {
        let shown_value = found(&value.raw);
        let out_of_range = || format!("{shown_value} is out of range");
        let result = match &value.raw {
            Raw::Whole { value: number, .. } => number
                .and_then(|n| u64::try_from(n).ok())
                .ok_or_else(out_of_range),
            Raw::Text(text) => match with_unit(text, SIZE_UNITS) {
                Some((number, unit)) => {
                    let exact = number * unit as f64;
                    if !(0.0..=EXACT).contains(&exact) {
                        Err(out_of_range())
                    } else if exact.fract() != 0.0 {
                        Err(format!("{shown_value} is not a whole number of bytes"))
                    } else {
                        Ok(exact as u64)
                    }
                }
                None => Err(mismatch::<Self>(&value.raw)),
            },
            other => Err(mismatch::<Self>(other)),
        };
        keep(result.map(Size), value.span(), wrong)
    }
    fn show(&self) -> Option<String> {
        let text = self.to_string();
        let plain = text.ends_with(" B") || self.0 as f64 > EXACT;
        Some(if plain {
            self.0.to_string()
        } else {
            quoted(&text)
        })
    }
    fn unit(&self) -> Option<&Self> {
        Some(self)
    }
    fn order(a: &Self, b: &Self) -> Ordering {
        a.cmp(b)
    }
}

/// Splits a text such as `10 MiB` into a number and the size of its unit.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<(f64, u64)> {
    let text = text.trim();
    let at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (digits, unit) = text.split_at(at);
    let (_, size) = units.iter().find(|(name, _)| *name == unit)?;
    let digits = digits.trim_end();
    let plain = digits
        .chars()
        .all(|c| c.is_ascii_digit() || c == '.' || c == '-');
    let number: f64 = digits.parse().ok().filter(|_| plain)?;
    Some((number, *size))
}

/// `number` times `unit` milliseconds; an error if that is not a whole number.
fn milliseconds(number: f64, unit: f64, shown: &str) -> Result<Duration, String> {
    /// A century: longer than any wait, and still within the range of clocks.
    const LONGEST: f64 = 100.0 * 366.0 * 86_400_000.0;
    let exact = number * unit;
    let ms = exact.round();
    if !(0.0..=LONGEST).contains(&exact) {
        return Err(format!("{shown} is out of range"));
    }
    // The tolerance covers the rounding of numbers such as "0.3" to binary floats.
    if (exact - ms).abs() > 1e-3 {
        return Err(format!("{shown} is finer than a millisecond"));
    }
    Ok(Duration::from_millis(ms as u64))
}
