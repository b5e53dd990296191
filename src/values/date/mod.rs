//! Dates in human notation, converted to ISO 8601.
//!
//! A date is read from a short text: by the name of its month, or from three numbers. Missing
//! information is not guessed. A date without a day has the precision it has (`2018-02`). A date
//! without a year is refused, and so is a numeric date that can be read in two ways; the error
//! names both. The order of a numeric date comes from the field's `order`, or from its languages:
//! all known ones except English have a single order. A year of two digits is from 1969 to 2068, as
//! in POSIX.

mod names;
mod scan;

use jiff::civil::Date;
use jiff::tz::TimeZone;

pub use names::Language;

/// The order of day, month and year in numeric dates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Day, month, year
    Dmy,
    /// Month, day, year
    Mdy,
    /// Year, month, day
    Ymd,
}

impl Order {
    /// The order named `dmy`, `mdy` or `ymd`.
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "dmy" => Some(Order::Dmy),
            "mdy" => Some(Order::Mdy),
            "ymd" => Some(Order::Ymd),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Order::Dmy => "dmy",
            Order::Mdy => "mdy",
            Order::Ymd => "ymd",
        }
    }
}

/// How the dates of a field are read.
#[derive(Debug, Clone, Default)]
pub struct DateForm {
    /// The order of numeric dates; without it, that of the languages.
    pub order: Option<Order>,
    /// The languages of month names; empty for all.
    pub languages: Vec<Language>,
    /// The time zone of times that state none.
    pub timezone: Option<TimeZone>,
}

/// Why a text is not a date.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DateError {
    /// No date was found.
    #[error("\"{0}\" has no date that is understood")]
    None(String),
    /// It can be read in two ways.
    #[error("\"{text}\" may be {}: set `order` or `languages`", readings.join(" or "))]
    Ambiguous {
        /// The text.
        text: String,
        /// The possible dates.
        readings: Vec<String>,
    },
    /// The year is missing.
    #[error("\"{0}\" has no year, and none is guessed")]
    NoYear(String),
    /// It is relative to a time that the text does not name.
    #[error("\"{0}\" depends on when it is read, and is not guessed")]
    Relative(String),
    /// There is no such day.
    #[error("\"{0}\" is not a day of the calendar")]
    NoDay(String),
}

/// A date that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// ISO 8601.
    pub iso: String,
    /// Whether the text contains another date as well.
    pub has_more: bool,
}

/// The most characters of a text that are searched for a date.
const MAX_CHARS: usize = 300;

impl DateForm {
    /// Reads the first date in `text`.
    ///
    /// # Errors
    ///
    /// [`DateError`] says why there is none.
    pub fn read(&self, text: &str) -> Result<Read, DateError> {
        let short: String = text.trim().chars().take(MAX_CHARS).collect();
        scan::read(self, &short)
    }

    fn languages(&self) -> &[Language] {
        if self.languages.is_empty() {
            &Language::ALL
        } else {
            &self.languages
        }
    }

    /// The orders in which three numbers can be a date.
    fn orders(&self) -> Vec<Order> {
        if let Some(order) = self.order {
            return vec![order];
        }
        let mut orders = Vec::new();
        for language in &self.languages {
            let one = language.order();
            let these = one.map_or(vec![Order::Dmy, Order::Mdy], |order| vec![order]);
            for order in these {
                if !orders.contains(&order) {
                    orders.push(order);
                }
            }
        }
        if orders.is_empty() {
            orders = vec![Order::Dmy, Order::Mdy, Order::Ymd];
        }
        orders
    }
}

/// The date of three numbers, if such a day exists.
fn day(year: i32, month: i32, day: i32) -> Option<Date> {
    let year = i16::try_from(year).ok().filter(|year| *year >= 1)?;
    Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

#[cfg(test)]
mod tests;
