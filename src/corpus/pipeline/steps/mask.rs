//! Marks or masks mail addresses, telephone numbers and IP addresses.

use std::sync::OnceLock;

use regex::Regex;

use super::super::document::{Document, TextEdit};
use super::super::plan::{Mask, Private};
use super::{DocumentStep, Trace, Value};

/// Digits of a telephone number (ITU-T E.164 section 6: at most 15).
const DIGITS: std::ops::RangeInclusive<usize> = 7..=15;

/// What is masked.
pub(super) struct Masks {
    what: Vec<Private>,
    mark: bool,
}

impl Masks {
    pub(super) fn of(step: &Mask) -> Self {
        // Part of a mail address may look like one of the others, and an IP address like a
        // telephone number.
        let mut what = step.what.clone();
        what.sort_by_key(|what| match what {
            Private::Mail => 0,
            Private::Ip => 1,
            Private::Phone => 2,
        });
        what.dedup();
        Self {
            what,
            mark: step.mark,
        }
    }
}

impl DocumentStep for Masks {
    fn apply(&self, document: &mut Document, trace: &mut Trace) {
        for what in &self.what {
            let (edit, found) = masked(&document.text, *what);
            if found > 0 && !self.mark {
                document.edit(edit);
            }
            if found > 0 {
                trace.marked.push(what.to_string());
            }
            document.masked = document.masked.saturating_add(found);
            let bound = || if self.mark { "counted" } else { "masked" }.to_owned();
            trace.note(
                &what.to_string(),
                Value::Number(f64::from(found)),
                bound,
                true,
            );
        }
    }
}

/// A text with the findings replaced, and their number.
fn masked(text: &str, what: Private) -> (TextEdit, u32) {
    let mut edit = TextEdit::default();
    let mut found = 0_u32;
    let mut at = 0;
    let whole = pattern(what).map(|pattern| pattern.find_iter(text));
    for hit in whole.into_iter().flatten() {
        let whole = hit.as_str();
        let digits = whole.bytes().filter(u8::is_ascii_digit).count();
        let is_it = match what {
            Private::Mail => true,
            Private::Phone => DIGITS.contains(&digits) && !is_date(whole),
            Private::Ip => whole.parse::<std::net::IpAddr>().is_ok(),
        };
        if is_it {
            found = found.saturating_add(1);
            edit.keep(
                at..hit.start(),
                text.get(at..hit.start()).unwrap_or_default(),
            );
            edit.keep(hit.range(), &format!("[{what}]"));
            at = hit.end();
        }
    }
    edit.keep(at..text.len(), text.get(at..).unwrap_or_default());
    (edit, found)
}

/// Whether it has the form of a date, as 2026-01-31 or 31.01.2026.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split(['-', '.', '/']).collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    let only_digits = parts
        .iter()
        .all(|part| part.bytes().all(|b| b.is_ascii_digit()));
    only_digits && matches!(lengths.as_slice(), [4, 1..=2, 1..=2] | [1..=2, 1..=2, 4])
}

fn pattern(what: Private) -> Option<&'static Regex> {
    static MAIL: OnceLock<Option<Regex>> = OnceLock::new();
    static PHONE: OnceLock<Option<Regex>> = OnceLock::new();
    static IP: OnceLock<Option<Regex>> = OnceLock::new();
    // The patterns are constants; a test compiles them.
    let (once, pattern) = match what {
        Private::Mail => (
            &MAIL,
            r"\b[A-Za-z0-9][A-Za-z0-9._%+-]*@[A-Za-z0-9](?:[A-Za-z0-9-]*\.)+[A-Za-z]{2,}\b",
        ),
        // With + or 00 before the country code, 0 before the area code, or as 555-123-4567.
        Private::Phone => (
            &PHONE,
            r"(?:\+|\b00)[1-9][0-9 ()./-]{5,}[0-9]\b|\(?\b0[1-9][0-9]{1,4}\)?[ /-][0-9][0-9 /-]{3,}[0-9]\b|\(?\b[2-9][0-9]{2}\)?[-. ][0-9]{3}[-. ][0-9]{4}\b",
        ),
        Private::Ip => (
            &IP,
            r"\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b|\b(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}\b|\b(?:[0-9A-Fa-f]{1,4}:){1,6}(?::[0-9A-Fa-f]{1,4}){1,6}\b",
        ),
    };
    once.get_or_init(|| Regex::new(pattern).ok()).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_identifies_people_is_masked_and_nothing_else() {
        for (what, text, expected) in [
            (
                Private::Mail,
                "Write to ann.b+c@mail.example.org, not @home or a@b.",
                "Write to [mail], not @home or a@b.",
            ),
            (
                Private::Phone,
                "Call +49 (0)89 1234-567, 089/1234567 or (555) 123-4567; 2026-01-31, 12 of 345, $1,000,000.",
                "Call [phone], [phone] or [phone]; 2026-01-31, 12 of 345, $1,000,000.",
            ),
            (
                Private::Phone,
                "ISBN 978-3-16-148410-0, 1 000 000 000 people",
                "ISBN 978-3-16-148410-0, 1 000 000 000 people",
            ),
            (
                Private::Ip,
                "From 192.168.0.1 and 2001:db8::1, version 1.2.3, 999.1.1.1 at 12:30:45",
                "From [ip] and [ip], version 1.2.3, 999.1.1.1 at 12:30:45",
            ),
        ] {
            assert!(pattern(what).is_some());
            assert_eq!(masked(text, what).0.text, expected);
        }
    }

    #[test]
    fn marks_count_and_leave_the_text() {
        let mut document = Document {
            text: "a@b.org and c@d.org".to_owned(),
            ..Document::default()
        };
        let mut step = Mask {
            mark: true,
            ..Mask::default()
        };
        Masks::of(&step).apply(&mut document, &mut Trace::default());
        assert_eq!(
            (document.masked, document.text.as_str()),
            (2, "a@b.org and c@d.org")
        );
        step.mark = false;
        Masks::of(&step).apply(&mut document, &mut Trace::default());
        assert_eq!(document.text, "[mail] and [mail]");
    }
}
