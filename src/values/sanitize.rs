//! Makes untrusted text safe to show: characters that would control a terminal or change
//! the reading order of a line are escaped.
//!
//! Data is not changed: JSON keeps its meaning. This module knows characters, not files or
//! streams.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;

/// Whether a character reorders the text around it (Unicode Standard Annex #9, section 2),
/// so that a name with one reads as a different name.
pub fn turns(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a character has an effect but no shape: the controls of C0 and C1, DEL, line
/// and paragraph separators, and all for which [`turns`] is true.
pub fn acts(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || turns(c)
}

/// The text with such characters escaped as in `\u{1b}`; line ends and tabs are kept.
pub fn shown(text: &str) -> Cow<'_, str> {
    let bad = |c: char| acts(c) && !matches!(c, '\n' | '\t');
    rewritten(text, bad, |out, c| write!(out, "{}", c.escape_unicode()))
}

/// JSON with such characters escaped: the same values, safe to print.
pub fn json(text: &str) -> Cow<'_, str> {
    // The JSON writer escapes C0, and most texts contain no other such characters.
    if text.is_ascii() && !text.contains('\u{7f}') {
        return text.into();
    }
    // A line end can only be between values; within strings it is already escaped.
    let bad = |c: char| acts(c) && c != '\n';
    // All of them fit in four digits.
    rewritten(text, bad, |out, c| write!(out, "\\u{:04x}", u32::from(c)))
}

fn rewritten(
    text: &str,
    bad: impl Fn(char) -> bool,
    write: impl Fn(&mut String, char) -> std::fmt::Result,
) -> Cow<'_, str> {
    if !text.contains(&bad) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // Writing to a string does not fail.
        if !bad(c) || write(&mut out, c).is_err() {
            out.push(c);
        }
    }
    out.into()
}

/// A log writer that escapes untrusted text, so that it cannot have an effect or look like a
/// separate line. Each write must be one whole line, as the log's formatter produces it, and
/// without colours, because escape sequences in untrusted text would look the same.
#[derive(Debug)]
pub struct Lines<W>(pub W);

impl<W: io::Write> io::Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let (line, end) = match text.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (&*text, ""),
        };
        let line = rewritten(line, acts, |out, c| write!(out, "{}", c.escape_unicode()));
        self.0.write_all(format!("{line}{end}").as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A writer for a JSON log that escapes untrusted text. Each write must be one whole line.
#[derive(Debug)]
pub struct JsonLines<W>(pub W);

impl<W: io::Write> io::Write for JsonLines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        self.0.write_all(json(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_acts_is_written_out() {
        for (text, expected) in [
            ("plain\tä\n", "plain\tä\n"),
            ("\u{1b}[31mred\u{7}", "\\u{1b}[31mred\\u{7}"),
            ("\u{9b}2J\u{7f}\r", "\\u{9b}2J\\u{7f}\\u{d}"),
            ("gpj.\u{202e}exe", "gpj.\\u{202e}exe"),
            ("می\u{200c}خواهم", "می\u{200c}خواهم"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The log's formatter escapes only messages, not fields that are shown as `%url`.
    #[test]
    fn nothing_acts_in_the_log() {
        let sink = Sink::default();
        let made = sink.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || Lines(made.clone()))
            .with_ansi(false)
            .compact()
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let evil = "a\u{1b}[31m\u{9b}2J\u{7}\u{202e}b\u{2066}\n2026 ERROR forged";
            tracing::warn!(text = evil, shown = %evil, debug = ?evil, "message {evil}");
        });
        let written = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        assert!(written.contains("message"), "{written}");
        assert!(
            !written.trim_end_matches('\n').contains(acts),
            "{written:?}"
        );
        assert_eq!(written.lines().count(), 1, "{written}");
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn json_means_the_same(text in "(\\PC|[\u{0}-\u{20}\u{7f}-\u{9f}\u{2028}-\u{202e}\u{2066}]){0,20}") {
            let plain = serde_json::to_string_pretty(&vec![&text]).unwrap();
            let safe = json(&plain);
            prop_assert!(!safe.contains(|c| acts(c) && c != '\n'));
            prop_assert_eq!(serde_json::from_str::<Vec<String>>(&safe).unwrap(), vec![text.clone()]);
            prop_assert!(!shown(&text).contains(|c| acts(c) && !matches!(c, '\n' | '\t')));
        }
    }
}
