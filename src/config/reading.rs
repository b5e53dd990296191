//! The walk that reads a file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use spoor_settings::messages::{nearest, shown};
use spoor_settings::{FileEntry, FileValue, Key, Raw, Section, Value, Walker, found, plain};

use super::errors::{Findings, MOST_LINES};

/// The blocks of rules in a job file. Their contents are checked where rules are read.
pub(super) const RULES: &str = "rule";

/// Reads the visited keys of `tree`. Keys that are not visited are unknown, which
/// [`Reading::finish`] reports.
pub(super) struct Reading<'a, 'i> {
    tree: &'a DeTable<'i>,
    findings: &'a mut Findings,
    /// Keys of every section visited.
    known: BTreeMap<&'static str, Vec<&'static str>>,
    section: &'static str,
    /// Syntax errors cut the tree short, so a key missing from it may well be in the file.
    partial: bool,
}

impl<'a, 'i> Reading<'a, 'i> {
    pub fn new(tree: &'a DeTable<'i>, partial: bool, findings: &'a mut Findings) -> Self {
        Self {
            tree,
            findings,
            known: BTreeMap::new(),
            section: "",
            partial,
        }
    }

    /// Reports unknown sections and keys.
    pub fn finish(self) {
        for (name, value) in self.tree {
            if name.get_ref() == RULES {
                continue;
            }
            let Some(keys) = self.known.get(name.get_ref().as_ref()) else {
                if self.findings.is_full() {
                    self.findings.pass_over();
                    continue;
                }
                let message = self.unknown_section(name.get_ref(), value.get_ref());
                self.findings
                    .wrong(name.span(), bare(name.get_ref()), message);
                continue;
            };
            for key in value
                .get_ref()
                .as_table()
                .into_iter()
                .flat_map(DeTable::keys)
            {
                if !keys.contains(&key.get_ref().as_ref()) {
                    if self.findings.is_full() {
                        self.findings.pass_over();
                        continue;
                    }
                    let message = self.unknown_key(name.get_ref(), keys, key.get_ref());
                    let full = format!("{name}.{}", bare(key.get_ref()));
                    self.findings.wrong(key.span(), full, message);
                }
            }
        }
    }

    fn unknown_section(&self, name: &str, value: &DeValue<'_>) -> String {
        if !matches!(value, DeValue::Table(_) | DeValue::Array(_)) {
            let hint = self.elsewhere(name, "");
            return match hint {
                Some(full) => format!("is outside any section; did you mean `{full}`?"),
                None => "is outside any section".to_owned(),
            };
        }
        match nearest(name, self.known.keys().copied()) {
            Some(near) => format!("unknown section; did you mean `{near}`?"),
            None => {
                let names: Vec<&str> = self.known.keys().copied().collect();
                format!("unknown section; known are {}", names.join(", "))
            }
        }
    }

    fn unknown_key(&self, section: &str, keys: &[&'static str], key: &str) -> String {
        if let Some(near) = nearest(key, keys.iter().copied()) {
            return format!("unknown key; did you mean `{near}`?");
        }
        match self.elsewhere(key, section) {
            Some(full) => format!("unknown key; did you mean `{full}`?"),
            None => format!("unknown key; known in [{section}] are {}", keys.join(", ")),
        }
    }

    /// The full name of a key of the same name in another section.
    fn elsewhere(&self, key: &str, section: &str) -> Option<String> {
        let mut others = self.known.iter().filter(|(name, _)| **name != section);
        others
            .find(|(_, keys)| keys.contains(&key))
            .map(|(name, _)| format!("{name}.{key}"))
    }

    fn value(&self, key: &str) -> Option<&'a Spanned<DeValue<'i>>> {
        self.tree.get(self.section)?.get_ref().as_table()?.get(key)
    }

    /// The header of the section, or the beginning of the file.
    fn header(&self) -> Range<usize> {
        self.tree
            .get_key_value(self.section)
            .map_or(0..0, |(name, _)| name.span())
    }
}

impl Walker for Reading<'_, '_> {
    fn section<S: Section>(&mut self, section: &S) -> S {
        self.section = S::NAME;
        self.known.insert(S::NAME, Vec::new());
        if let Some((name, value)) = self.tree.get_key_value(S::NAME)
            && !matches!(value.get_ref(), DeValue::Table(_))
        {
            let message = match value.get_ref() {
                DeValue::Array(_) => format!("is a list; write [{}], once", S::NAME),
                other => {
                    let found = found(&raw(other));
                    format!("{found} is not a section; write [{}]", S::NAME)
                }
            };
            self.findings.wrong(name.span(), S::NAME, message);
        }
        if let Some((name, _)) = self.tree.get_key_value(S::NAME) {
            self.findings.given(S::NAME, name.span());
        }
        section.walk(self)
    }

    fn key<T: Value>(&mut self, key: Key<T>, value: &T) -> T {
        let full = format!("{}.{}", self.section, key.name);
        if let Some(keys) = self.known.get_mut(self.section) {
            keys.push(key.name);
        }
        let Some(given) = self.value(key.name) else {
            // A section that is not a table has already been reported.
            if key.required && !self.partial && !self.findings.is_broken(self.section) {
                let message = format!("is required; allowed: {}", key.allowed());
                self.findings.wrong(self.header(), full, message);
            }
            return value.clone();
        };
        self.findings.given(&full, given.span());

        let mut wrong = Vec::new();
        let read = T::read(&file_value(given), &mut wrong);
        if let (Some(unit), Some(bounds)) = (read.as_ref().and_then(T::unit), &key.bounds)
            && !bounds.hold(unit)
        {
            wrong.push((given.span(), format!("{} is out of range", plain(unit))));
        }
        let fine = wrong.is_empty();
        for (span, why) in wrong {
            let message = format!("{why}; allowed: {}", key.allowed());
            self.findings.wrong(span, full.as_str(), message);
        }
        read.filter(|_| fine).unwrap_or_else(|| value.clone())
    }
}

/// A value of the file in the form that settings read.
fn file_value<'a>(given: &'a Spanned<DeValue<'_>>) -> FileValue<'a> {
    FileValue {
        raw: raw(given.get_ref()),
        span: given.span(),
    }
}

fn raw<'a>(value: &'a DeValue<'_>) -> Raw<'a> {
    match value {
        DeValue::String(text) => Raw::Text(text.as_ref().into()),
        DeValue::Integer(number) => Raw::Whole {
            value: i128::from_str_radix(number.as_str(), number.radix()).ok(),
            written: number.to_string(),
        },
        DeValue::Float(number) => Raw::Number {
            value: number.as_str().parse().ok(),
            written: number.as_str().to_owned(),
        },
        DeValue::Boolean(truth) => Raw::Truth(*truth),
        DeValue::Datetime(date) => Raw::Date(date.to_string()),
        DeValue::Array(items) => Raw::List(items.iter().map(file_value).collect()),
        DeValue::Table(table) => Raw::Table(
            table
                .iter()
                .map(|(key, value)| FileEntry {
                    key: key.get_ref().as_ref().into(),
                    span: key.span(),
                    value: file_value(value),
                })
                .collect(),
        ),
    }
}

/// Adds the parser's errors to the others. For each line only the first one is reported, and no
/// other problem, because the others follow from it.
pub(super) fn syntax_errors(text: &str, errors: &[toml::de::Error], findings: &mut Findings) {
    let mut lines = BTreeSet::new();
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        let line = line_of(text, span.start);
        if !lines.insert(line.start) {
            continue;
        }
        if lines.len() > MOST_LINES {
            break;
        }
        if error.message() == "duplicate key" {
            let (key, what) = duplicate(text, &span);
            findings.unreadable(span, key, format!("{what} given twice"));
        } else {
            findings.forget(&line, span.start);
            let message = format!("not valid TOML: {}", shown(error.message()));
            findings.unreadable(span, String::new(), message);
        }
    }
}

/// The full name of the key or section that `span` repeats. It is read from the text,
/// because the tree has only one of the two.
fn duplicate(text: &str, span: &Range<usize>) -> (String, &'static str) {
    let line = line_of(text, span.start);
    let before = |end: usize| text.get(line.start..end).unwrap_or_default().trim_start();
    let written = before(span.end);
    if let Some(header) = written.strip_prefix('[') {
        return (shown(header.trim_start_matches('[').trim()), "section");
    }
    let mut above = text.get(..line.start).unwrap_or_default().lines().rev();
    let section = above.find_map(|line| {
        let name = line
            .trim_start()
            .strip_prefix('[')?
            .split_once(']')?
            .0
            .trim();
        (name == bare(name)).then(|| format!("{name}."))
    });
    (section.unwrap_or_default() + &shown(written), "key")
}

/// The bytes of the line that contains byte `at`.
pub(super) fn line_of(text: &str, at: usize) -> Range<usize> {
    let bytes = text.as_bytes();
    let at = at.min(bytes.len());
    let is_end = |&byte: &u8| byte == b'\n';
    let start = bytes[..at]
        .iter()
        .rposition(is_end)
        .map_or(0, |newline| newline + 1);
    let end = bytes[at..]
        .iter()
        .position(is_end)
        .map_or(bytes.len(), |length| at + length);
    start..end
}

/// A key as written in TOML: in quotation marks if necessary.
fn bare(key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !key.is_empty() && key.chars().all(is_bare) {
        shown(key)
    } else {
        format!("\"{}\"", shown(key))
    }
}
