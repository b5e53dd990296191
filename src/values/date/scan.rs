//! Finds a date in a text.

use jiff::civil::{Date, Time};
use jiff::tz::Offset;

use super::{DateError, DateForm, Order, Read, day};

/// A piece of a text.
#[derive(Debug, Clone, PartialEq)]
enum DatePiece {
    /// A number with its digits.
    Number { value: i64, digits: usize },
    /// A word, in lower case.
    Word(String),
    /// Any other character but white space.
    Sign(char),
    /// White space.
    Blank,
}

/// A date, with the given precision.
#[derive(Debug, Clone, Copy, PartialEq)]
enum PartialDate {
    Day(Date),
    Month(i32, i8),
}

/// A date, and the piece after it.
struct DateHit {
    found: PartialDate,
    next: usize,
}

/// Reads the first date in `text`.
pub(super) fn read(form: &DateForm, text: &str) -> Result<Read, DateError> {
    let pieces = pieces(text);
    if let Some((date, time, offset)) = compact(&pieces) {
        let iso = shown(form, date, time, offset);
        return Ok(Read {
            iso,
            has_more: false,
        });
    }
    for at in 0..pieces.len() {
        // An ambiguous or impossible date ends the search: the next one may be something else.
        let Some(hit) = date_at(form, &pieces, at, text)? else {
            continue;
        };
        let iso = match hit.found {
            PartialDate::Month(year, month) => format!("{year:04}-{month:02}"),
            PartialDate::Day(date) => {
                let (time, offset) = time_of(&pieces, hit.next);
                shown(form, date, time, offset)
            }
        };
        let has_more = another(form, &pieces, &hit, text);
        return Ok(Read { iso, has_more });
    }
    Err(nothing(form, &pieces, text))
}

/// Whether the text has a second, different date.
fn another(form: &DateForm, pieces: &[DatePiece], first: &DateHit, text: &str) -> bool {
    (first.next..pieces.len()).any(|at| match date_at(form, pieces, at, text) {
        Ok(Some(hit)) => hit.found != first.found && matches!(hit.found, PartialDate::Day(_)),
        _ => false,
    })
}

/// Why there is no date.
fn nothing(form: &DateForm, pieces: &[DatePiece], text: &str) -> DateError {
    let word = |piece: &DatePiece| match piece {
        DatePiece::Word(word) => Some(word.clone()),
        _ => None,
    };
    let words: Vec<String> = pieces.iter().filter_map(word).collect();
    let is_relative = words.iter().any(|word| RELATIVE.contains(&word.as_str()));
    if is_relative {
        return DateError::Relative(text.to_owned());
    }
    let names_month = words
        .iter()
        .any(|word| month(form, word).is_ok_and(|m| m.is_some()));
    let has_number = pieces.iter().any(|p| matches!(p, DatePiece::Number { .. }));
    if names_month && has_number {
        return DateError::NoYear(text.to_owned());
    }
    DateError::None(text.to_owned())
}

/// Words of dates that depend on the present.
const RELATIVE: &[&str] = &[
    "today",
    "yesterday",
    "tomorrow",
    "ago",
    "heute",
    "gestern",
    "morgen",
    "vor",
    "hier",
    "aujourd",
    "demain",
    "hoy",
    "ayer",
    "hace",
    "oggi",
    "ieri",
    "fa",
    "hoje",
    "ontem",
    "há",
    "vandaag",
    "gisteren",
    "geleden",
    "dziś",
    "dzisiaj",
    "wczoraj",
    "temu",
    "сегодня",
    "вчера",
    "назад",
];

fn pieces(text: &str) -> Vec<DatePiece> {
    let mut pieces = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let piece = if let Some(digit) = c.to_digit(10) {
            let (mut value, mut digits) = (i64::from(digit), 1);
            while let Some(more) = chars.peek().and_then(|c| c.to_digit(10)) {
                chars.next();
                value = value.saturating_mul(10).saturating_add(i64::from(more));
                digits += 1;
            }
            DatePiece::Number { value, digits }
        } else if is_unit(c) {
            DatePiece::Sign(c)
        } else if c.is_alphabetic() {
            let mut word = c.to_lowercase().collect::<String>();
            while let Some(more) = chars.next_if(|c| c.is_alphabetic() && !is_unit(*c)) {
                word.extend(more.to_lowercase());
            }
            DatePiece::Word(word)
        } else if c.is_whitespace() {
            while chars.next_if(|c| c.is_whitespace()).is_some() {}
            DatePiece::Blank
        } else {
            DatePiece::Sign(c)
        };
        pieces.push(piece);
    }
    pieces
}

/// The units of Chinese and Japanese dates, which follow their numbers.
fn is_unit(c: char) -> bool {
    matches!(
        c,
        '年' | '月' | '日' | '號' | '号' | '时' | '時' | '分' | '秒'
    )
}

/// `20120214055058` or `20120214` alone, as web archives write times.
fn compact(pieces: &[DatePiece]) -> Option<(Date, Option<Time>, Option<Offset>)> {
    let [DatePiece::Number { value, digits }] = pieces else {
        return None;
    };
    let part = |power: i64, size: i64| i32::try_from(value / power % size).unwrap_or_default();
    match digits {
        8 => Some((
            day(part(10_000, 10_000), part(100, 100), part(1, 100))?,
            None,
            None,
        )),
        14 => {
            let date = day(
                part(10_000_000_000, 10_000),
                part(100_000_000, 100),
                part(1_000_000, 100),
            )?;
            let small = |number: i32| i8::try_from(number).ok();
            let (hour, minute) = (small(part(10_000, 100))?, small(part(100, 100))?);
            let time = Time::new(hour, minute, small(part(1, 100))?, 0).ok()?;
            // Web archives use UTC.
            Some((date, Some(time), Some(Offset::UTC)))
        }
        _ => None,
    }
}

/// The date that begins at a piece.
fn date_at(
    form: &DateForm,
    pieces: &[DatePiece],
    at: usize,
    text: &str,
) -> Result<Option<DateHit>, DateError> {
    // A number within a longer one, such as `1.234.567`, or after a letter does not count.
    let before = at.checked_sub(1).and_then(|before| pieces.get(before));
    match pieces.get(at) {
        Some(DatePiece::Number { value, digits }) => {
            let two_before = at.checked_sub(2).and_then(|before| pieces.get(before));
            let is_within = matches!(before, Some(DatePiece::Sign('-' | '/' | '.')))
                && matches!(two_before, Some(DatePiece::Number { .. }));
            if is_within || matches!(before, Some(DatePiece::Number { .. })) {
                return Ok(None);
            }
            // Languages that write so have no spaces between words.
            if let Some(hit) = units(pieces, at) {
                return hit.map_or_else(|| Err(DateError::NoDay(text.to_owned())), |h| Ok(Some(h)));
            }
            if matches!(before, Some(DatePiece::Word(_))) {
                return Ok(None);
            }
            if let Some(hit) = in_numbers(form, pieces, at, text)? {
                return Ok(Some(hit));
            }
            with_day_first(form, pieces, at, (*value, *digits), text)
        }
        Some(DatePiece::Word(word)) => {
            let Some(month) = month(form, word).map_err(|months| two_months(word, &months))? else {
                return Ok(None);
            };
            with_month_first(pieces, at, month, text)
        }
        _ => Ok(None),
    }
}

/// 2018年2月14日
fn units(pieces: &[DatePiece], at: usize) -> Option<Option<DateHit>> {
    let number = |at: usize| match pieces.get(at) {
        Some(DatePiece::Number { value, .. }) => i32::try_from(*value).ok(),
        _ => None,
    };
    let skip = |at: usize| at + usize::from(pieces.get(at) == Some(&DatePiece::Blank));
    let is = |at: usize, units: &[char]| matches!(pieces.get(at), Some(DatePiece::Sign(c)) if units.contains(c));
    let year = number(at)?;
    if !is(at + 1, &['年']) {
        return None;
    }
    let at = skip(at + 2);
    let month = number(at)?;
    if !is(at + 1, &['月']) {
        return None;
    }
    let next = at + 2;
    let at = skip(next);
    if let (Some(of_month), true) = (number(at), is(at + 1, &['日', '號', '号'])) {
        let date = day(year, month, of_month);
        return Some(date.map(|date| DateHit {
            found: PartialDate::Day(date),
            next: at + 2,
        }));
    }
    let first = day(year, month, 1);
    Some(first.map(|date| DateHit {
        found: PartialDate::Month(year, date.month()),
        next,
    }))
}

/// Words before numbers that are no date.
const VERSIONS: [&str; 5] = ["version", "ver", "v", "release", "build"];

/// Three numbers with the same separator.
fn in_numbers(
    form: &DateForm,
    pieces: &[DatePiece],
    at: usize,
    text: &str,
) -> Result<Option<DateHit>, DateError> {
    let Some((numbers, separator, next)) = three(pieces, at) else {
        return Ok(None);
    };
    let [(a, a_digits), (b, b_digits), (c, c_digits)] = numbers;
    let two_before = at.checked_sub(2).and_then(|before| pieces.get(before));
    let is_version =
        matches!(two_before, Some(DatePiece::Word(word)) if VERSIONS.contains(&word.as_str()));
    if b_digits > 2 || (is_version && c_digits <= 2) {
        return Ok(None);
    }
    let hit = |date| {
        Ok(Some(DateHit {
            found: PartialDate::Day(date),
            next,
        }))
    };
    let no_day = || Err(DateError::NoDay(text.to_owned()));
    match (a_digits, c_digits) {
        // A leading year is followed by the month all over the world.
        (4, 1 | 2) => day(a, b, c).map_or_else(no_day, hit),
        (1 | 2, 1 | 2 | 4) => {
            let year = |value: i32, digits: usize| if digits == 4 { value } else { century(value) };
            let mut readings: Vec<Date> = Vec::new();
            for order in form.orders() {
                let date = match order {
                    // A version or the number of a section; no year has one digit.
                    Order::Dmy | Order::Mdy if c_digits == 1 => None,
                    Order::Dmy => day(year(c, c_digits), b, a),
                    Order::Mdy => day(year(c, c_digits), a, b),
                    // With full stops (18.2.14) the year never comes first; a leading year that is
                    // still possible here has two digits.
                    Order::Ymd if c_digits == 4 || a_digits != 2 => None,
                    Order::Ymd if separator == '.' && form.order.is_none() => None,
                    Order::Ymd => day(century(a), b, c),
                };
                readings.extend(date.filter(|date| !readings.contains(date)));
            }
            match readings.as_slice() {
                // One-digit numbers with a sign between them may be something other than a date.
                [] if c_digits == 1 => Ok(None),
                [] => no_day(),
                [date] => hit(*date),
                several => Err(DateError::Ambiguous {
                    text: text.to_owned(),
                    readings: several.iter().map(ToString::to_string).collect(),
                }),
            }
        }
        _ => Ok(None),
    }
}

type Number = (i32, usize);

/// Three numbers with the same separator, which may be followed by a blank.
fn three(pieces: &[DatePiece], at: usize) -> Option<([Number; 3], char, usize)> {
    let number = |at: usize| match pieces.get(at) {
        Some(DatePiece::Number { value, digits }) => Some((i32::try_from(*value).ok()?, *digits)),
        _ => None,
    };
    let separator = |at: usize| match pieces.get(at) {
        Some(DatePiece::Sign(c @ ('.' | '/' | '-' | '\u{2010}' | '\u{2011}' | '\u{2013}'))) => {
            Some(*c)
        }
        _ => None,
    };
    let skip = |at: usize| at + usize::from(pieces.get(at) == Some(&DatePiece::Blank));
    let a = number(at)?;
    let first = separator(skip(at + 1))?;
    let at = skip(skip(at + 1) + 1);
    let b = number(at)?;
    let second = separator(skip(at + 1))?;
    let at = skip(skip(at + 1) + 1);
    let c = number(at)?;
    if first != second {
        return None;
    }
    // A fourth part makes it a version or an address.
    let is_longer = separator(at + 1).is_some() && number(at + 2).is_some();
    (!is_longer).then_some(([a, b, c], first, at + 1))
}

/// 14. Februar 2018, 14 février 2018, 14 de fevereiro de 2018, 14-Feb-18
fn with_day_first(
    form: &DateForm,
    pieces: &[DatePiece],
    at: usize,
    (value, digits): (i64, usize),
    text: &str,
) -> Result<Option<DateHit>, DateError> {
    // The year may come first: 2018 February 14.
    let after = skip_between(pieces, at + 1);
    let Some(DatePiece::Word(word)) = pieces.get(after) else {
        return Ok(None);
    };
    let Some(month) = month(form, word).map_err(|months| two_months(word, &months))? else {
        return Ok(None);
    };
    let then = skip_between(pieces, after + 1);
    let number = match pieces.get(then) {
        Some(DatePiece::Number { value, digits }) => Some((*value, *digits)),
        _ => None,
    };
    let small = |value: i64| i32::try_from(value).unwrap_or(i32::MAX);
    if digits == 4 {
        return Ok(match number {
            Some((of_month, 1 | 2)) => {
                day(small(value), month.into(), small(of_month)).map(|date| DateHit {
                    found: PartialDate::Day(date),
                    next: then + 1,
                })
            }
            _ => None,
        });
    }
    if digits > 2 {
        return Ok(None);
    }
    let year = match number {
        Some((year, 4)) => small(year),
        Some((year, 2)) if !is_time(pieces, then) => century(small(year)),
        _ => return Ok(None),
    };
    match day(year, month.into(), small(value)) {
        Some(date) => Ok(Some(DateHit {
            found: PartialDate::Day(date),
            next: then + 1,
        })),
        None => Err(DateError::NoDay(text.to_owned())),
    }
}

/// February 14, 2018, or February 2018
fn with_month_first(
    pieces: &[DatePiece],
    at: usize,
    month: i8,
    text: &str,
) -> Result<Option<DateHit>, DateError> {
    let number = |at: usize| match pieces.get(at) {
        Some(DatePiece::Number { value, digits }) => Some((i32::try_from(*value).ok()?, *digits)),
        _ => None,
    };
    let first = skip_between(pieces, at + 1);
    let Some((value, digits)) = number(first) else {
        return Ok(None);
    };
    if digits == 4 {
        let hit = day(value, month.into(), 1).map(|_| DateHit {
            found: PartialDate::Month(value, month),
            next: first + 1,
        });
        return Ok(hit);
    }
    if digits > 2 || is_time(pieces, first) {
        return Ok(None);
    }
    let second = skip_between(pieces, first + 1);
    let year = match number(second) {
        Some((year, 4)) => year,
        // `Feb 14, 18`; after a blank alone it could be anything.
        Some((year, 2)) if pieces.get(first + 1) == Some(&DatePiece::Sign(',')) => {
            if is_time(pieces, second) {
                return Ok(None);
            }
            century(year)
        }
        _ => return Ok(None),
    };
    match day(year, month.into(), value) {
        Some(date) => Ok(Some(DateHit {
            found: PartialDate::Day(date),
            next: second + 1,
        })),
        None => Err(DateError::NoDay(text.to_owned())),
    }
}

/// The position after blanks, signs and small words between the parts of a date.
fn skip_between(pieces: &[DatePiece], mut at: usize) -> usize {
    let small = |word: &str| {
        matches!(
            word,
            "de" | "del" | "of" | "st" | "nd" | "rd" | "th" | "er" | "º" | "ª" | "the" | "le" | "г"
        )
    };
    for _ in 0..6 {
        match pieces.get(at) {
            Some(
                DatePiece::Blank | DatePiece::Sign('.' | ',' | '-' | '/' | '\'' | '’' | '°' | 'º'),
            ) => at += 1,
            Some(DatePiece::Word(word)) if small(word) => at += 1,
            _ => break,
        }
    }
    at
}

/// Whether a number is the hour of a time: `10:15`, `10.15`, `10 am`, `18 Uhr`.
fn is_time(pieces: &[DatePiece], at: usize) -> bool {
    const HOURS: [&str; 10] = [
        "am", "pm", "a", "p", "uhr", "h", "hrs", "uur", "ore", "horas",
    ];
    let next = at + 1 + usize::from(pieces.get(at + 1) == Some(&DatePiece::Blank));
    match (pieces.get(at + 1), pieces.get(at + 2), pieces.get(next)) {
        (Some(DatePiece::Sign(':')), ..)
        | (Some(DatePiece::Sign('.')), Some(DatePiece::Number { digits: 2, .. }), _) => true,
        (.., Some(DatePiece::Word(word))) => HOURS.contains(&word.as_str()),
        _ => false,
    }
}

/// The month that a word names in the languages of the field; an error if they differ.
fn month(form: &DateForm, word: &str) -> Result<Option<i8>, Vec<i8>> {
    let mut months: Vec<i8> = Vec::new();
    for language in form.languages() {
        months.extend(language.month(word).filter(|m| !months.contains(m)));
    }
    match months.as_slice() {
        [] => Ok(None),
        [month] => Ok(Some(*month)),
        _ => Err(months),
    }
}

fn two_months(word: &str, months: &[i8]) -> DateError {
    DateError::Ambiguous {
        text: word.to_owned(),
        readings: months.iter().map(|m| format!("month {m}")).collect(),
    }
}

/// A year of two digits, as POSIX reads it.
fn century(year: i32) -> i32 {
    match year {
        0..=68 => 2000 + year,
        69..=99 => 1900 + year,
        other => other,
    }
}

/// The time after a date, within a few words, and its offset.
fn time_of(pieces: &[DatePiece], from: usize) -> (Option<Time>, Option<Offset>) {
    for at in from..pieces.len().min(from + 12) {
        let number = |at: usize| match pieces.get(at) {
            Some(DatePiece::Number { value, digits }) if *digits <= 2 => i8::try_from(*value).ok(),
            _ => None,
        };
        let colon = |at: usize| matches!(pieces.get(at), Some(DatePiece::Sign(':')));
        let (Some(hour), true, Some(minute)) = (number(at), colon(at + 1), number(at + 2)) else {
            continue;
        };
        let mut next = at + 3;
        let mut second = 0;
        if let (true, Some(given)) = (colon(next), number(next + 1)) {
            second = given;
            next += 2;
            // A fraction of a second is left out.
            let fraction = matches!(pieces.get(next), Some(DatePiece::Sign('.' | ',')));
            if fraction && matches!(pieces.get(next + 1), Some(DatePiece::Number { .. })) {
                next += 2;
            }
        }
        let (hour, next) = half_of_day(pieces, hour, next);
        let time = Time::new(hour, minute, second, 0).ok();
        return (time, offset_at(pieces, next));
    }
    (None, None)
}

/// The hour on a 24-hour clock, and the position after `am` or `pm`.
fn half_of_day(pieces: &[DatePiece], hour: i8, at: usize) -> (i8, usize) {
    let skip = |at: usize| at + usize::from(pieces.get(at) == Some(&DatePiece::Blank));
    let word_at = skip(at);
    let Some(DatePiece::Word(word)) = pieces.get(word_at) else {
        return (hour, at);
    };
    let dotted = |second: &str| {
        pieces.get(word_at + 1) == Some(&DatePiece::Sign('.'))
            && pieces.get(word_at + 2) == Some(&DatePiece::Word(second.to_owned()))
    };
    let (half, next) = match word.as_str() {
        half @ ("am" | "pm") => (half, word_at + 1),
        "a" if dotted("m") => ("am", word_at + 4),
        "p" if dotted("m") => ("pm", word_at + 4),
        _ => return (hour, at),
    };
    let hour = match (half, hour) {
        ("am", 12) => 0,
        ("pm", 1..=11) => hour + 12,
        _ => hour,
    };
    (hour, next)
}

fn offset_at(pieces: &[DatePiece], at: usize) -> Option<Offset> {
    let at = at + usize::from(pieces.get(at) == Some(&DatePiece::Blank));
    match pieces.get(at)? {
        DatePiece::Word(word) if matches!(word.as_str(), "z" | "utc" | "gmt") => {
            match pieces.get(at + 1) {
                Some(DatePiece::Sign('+' | '-')) => offset_at(pieces, at + 1),
                _ => Some(Offset::UTC),
            }
        }
        DatePiece::Sign(sign @ ('+' | '-' | '\u{2212}')) => {
            let Some(DatePiece::Number { value, digits }) = pieces.get(at + 1) else {
                return None;
            };
            let value = i32::try_from(*value).ok()?;
            let (hours, minutes) = match (digits, pieces.get(at + 2), pieces.get(at + 3)) {
                (
                    1 | 2,
                    Some(DatePiece::Sign(':')),
                    Some(DatePiece::Number { value: minutes, .. }),
                ) => (value, i32::try_from(*minutes).ok().filter(|m| *m < 60)?),
                (1 | 2, _, _) => (value, 0),
                (4, _, _) => (value / 100, value % 100),
                _ => return None,
            };
            let seconds = hours * 3_600 + minutes * 60;
            let seconds = if *sign == '+' { seconds } else { -seconds };
            Offset::from_seconds(seconds).ok()
        }
        _ => None,
    }
}

/// A date and its time as ISO 8601.
fn shown(form: &DateForm, date: Date, time: Option<Time>, offset: Option<Offset>) -> String {
    let Some(time) = time else {
        return date.to_string();
    };
    let local = date.to_datetime(time);
    let offset = offset.or_else(|| {
        let zone = form.timezone.as_ref()?;
        local
            .to_zoned(zone.clone())
            .ok()
            .map(|zoned| zoned.offset())
    });
    let second = time.second();
    let clock = format!("{date}T{:02}:{:02}:{second:02}", time.hour(), time.minute());
    match offset {
        None => clock,
        Some(offset) if offset.seconds() == 0 => format!("{clock}Z"),
        Some(offset) => {
            let seconds = offset.seconds();
            let sign = if seconds < 0 { '-' } else { '+' };
            let minutes = seconds.abs() / 60;
            format!("{clock}{sign}{:02}:{:02}", minutes / 60, minutes % 60)
        }
    }
}
