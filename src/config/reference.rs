//! The walks that write the effective configuration and the reference.

use std::collections::BTreeMap;

use spoor_settings::messages::nearest;
use spoor_settings::{Key, Section, Value, Walker};

use super::{Changed, Config};
use crate::fold::fold;

/// The complete configuration file: every section and key with meaning, kind of value,
/// range and default. It is a valid file; optional keys are commented out with an example,
/// and the required one has an example value.
pub fn reference() -> String {
    let mut walker = Reference(HEAD.to_owned());
    Config::default().walk(&mut walker);
    walker.0
}

/// The full names of all keys, such as `limits.documents`, in alphabetical order.
pub fn keys() -> Vec<String> {
    let mut walker = ShownKeys::default();
    Config::default().walk(&mut walker);
    walker.values.into_keys().collect()
}

/// The known key most similar to the full name `key`.
pub fn nearest_key(key: &str) -> Option<String> {
    let keys = keys();
    let name = key.rsplit_once('.').map_or(key, |(_, name)| name);
    let elsewhere = || {
        keys.iter()
            .find(|known| known.rsplit_once('.').is_some_and(|(_, n)| n == name))
    };
    let near = nearest(key, keys.iter().map(String::as_str));
    near.or_else(|| elsewhere().map(String::as_str))
        .map(str::to_owned)
}

/// The keys in which two configurations differ, with both values.
pub(super) fn changes(a: &Config, b: &Config) -> Vec<Changed> {
    let [a, mut b] = [a, b].map(|config| {
        let mut walker = ShownKeys::default();
        config.walk(&mut walker);
        walker.values
    });
    let pairs = a.into_iter().map(|(key, from)| {
        let to = b.remove(&key).flatten();
        Changed { key, from, to }
    });
    pairs.filter(|changed| changed.from != changed.to).collect()
}

const HEAD: &str = "\
# Every key of a job's configuration, as `spoor config reference` prints it.
#
# The values are the defaults, so a file needs only the keys that it changes. An
# unknown key is an error. Keys without a default are commented out and show an
# example.
#
# A duration is a number of seconds, or a text with a unit: \"500ms\", \"1s\",
# \"10m\", \"6h\", \"1d\". A size is a number of bytes, or a text with a unit:
# \"500 KiB\", \"10 MiB\", \"2 GB\". Paths are relative to the folder of this file.
";

struct Reference(String);

impl Walker for Reference {
    fn section<S: Section>(&mut self, section: &S) -> S {
        self.0.push_str("\n\n");
        comment(&mut self.0, S::MEANING);
        self.0.push_str(&format!("[{}]\n", S::NAME));
        section.walk(self)
    }

    fn key<T: Value>(&mut self, key: Key<T>, value: &T) -> T {
        if key.hidden.is_some() {
            return value.clone();
        }
        let shown = value.show();
        let default = match (&shown, key.required) {
            (_, true) => "Required.".to_owned(),
            // Long lists are shown below in full anyway.
            (Some(shown), false) if shown.len() > 40 => "Default: as below.".to_owned(),
            (Some(shown), false) => format!("Default: {shown}."),
            (None, false) => "Optional.".to_owned(),
        };
        self.0.push('\n');
        comment(&mut self.0, key.meaning);
        comment(&mut self.0, &format!("Type: {}. {default}", kind_of(&key)));
        self.0.push_str(&match shown {
            Some(shown) => format!("{} = {}\n", key.name, wrapped_list(&shown)),
            None => format!("# {} = {}\n", key.name, T::example()),
        });
        value.clone()
    }
}

/// The kind of value with its range. The head of the file explains durations and sizes
/// once.
fn kind_of<T: Value>(key: &Key<T>) -> String {
    let (kind, form) = (T::kind(), T::form());
    let noun = |text: &str| text.strip_prefix("a ").unwrap_or(text).to_owned();
    match &key.bounds {
        Some(bounds) => format!("{}, {}", noun(&kind), bounds.text()),
        None if form.starts_with(&kind) => noun(&form),
        None => format!("{}: {form}", noun(&kind)),
    }
}

/// Every key with its value as text.
#[derive(Default)]
struct ShownKeys {
    section: &'static str,
    values: BTreeMap<String, Option<String>>,
}

impl Walker for ShownKeys {
    fn section<S: Section>(&mut self, section: &S) -> S {
        self.section = S::NAME;
        section.walk(self)
    }

    fn key<T: Value>(&mut self, key: Key<T>, value: &T) -> T {
        let full = format!("{}.{}", self.section, key.name);
        self.values.insert(full, value.show());
        value.clone()
    }
}

const WIDTH: usize = 80;

/// Appends `text` as comment lines.
fn comment(out: &mut String, text: &str) {
    for line in fold(text, WIDTH - 2) {
        out.push_str(&format!("# {line}\n"));
    }
}

/// Breaks a long list into several lines, which TOML allows.
fn wrapped_list(value: &str) -> String {
    match value.strip_prefix('[').and_then(|v| v.strip_suffix(']')) {
        Some(items) if value.len() > WIDTH => {
            let lines = fold(items, WIDTH - 4);
            format!("[\n    {},\n]", lines.join("\n    "))
        }
        _ => value.to_owned(),
    }
}
