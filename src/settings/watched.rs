//! Seeds with their own schedule.

use std::time::Duration;

use super::messages::shown;
use super::raw::{FileEntry, FileValue, Raw};
use super::values::{Value, Wrong, mismatch};
use crate::address::PageUrl;

/// A seed that is visited repeatedly: `{ url = "...", every = "6h" }`, and with `depth` the pages
/// that it links to, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedSeed {
    /// Its address.
    pub url: PageUrl,
    /// The pause between two visits, a millisecond or more.
    pub every: Duration,
    /// Pages up to this many links away from it are fetched regardless of their rating; at most
    /// `MAX_DEPTH`.
    pub depth: u8,
}

/// The greatest depth of a watched seed.
pub const MAX_DEPTH: u8 = 2;

impl Value for WatchedSeed {
    type Unit = Self;

    fn kind() -> String {
        "a watched seed".to_owned()
    }
    fn form() -> String {
        format!("a table as {}", Self::example())
    }
    fn example() -> String {
        r#"{ url = "https://example.org/news", every = "6h" }"#.to_owned()
    }
    fn read(value: &FileValue<'_>, wrong: &mut Wrong) -> Option<Self> {
        let Raw::Table(table) = &value.raw else {
            wrong.push((value.span(), mismatch::<Self>(&value.raw)));
            return None;
        };
        for FileEntry { key, span, .. } in table {
            if !["url", "every", "depth"].contains(&key.as_ref()) {
                let why = format!("\"{}\" is not a key of it", shown(key));
                wrong.push((span.clone(), why));
            }
        }
        // Both are read before either is used, so that all errors are reported at once.
        let url: Option<PageUrl> = part(value, table, "url", wrong);
        let every: Option<Duration> = part(value, table, "every", wrong);
        if let (Some(Duration::ZERO), Some(given)) = (every, of_key(table, "every")) {
            wrong.push((given.span(), "a schedule needs a pause above 0s".to_owned()));
            return None;
        }
        let depth = match of_key(table, "depth") {
            Some(given) => u8::read(given, wrong).filter(|depth| {
                let fits = *depth <= MAX_DEPTH;
                if !fits {
                    let why = format!("a depth is 0 to {MAX_DEPTH}");
                    wrong.push((given.span(), why));
                }
                fits
            }),
            None => Some(0),
        };
        Some(Self {
            url: url?,
            every: every?,
            depth: depth?,
        })
    }
    fn show(&self) -> Option<String> {
        let (url, every) = (self.url.show()?, self.every.show()?);
        let depth = match self.depth {
            0 => String::new(),
            depth => format!(", depth = {depth}"),
        };
        Some(format!("{{ url = {url}, every = {every}{depth} }}"))
    }
    fn unit(&self) -> Option<&Self> {
        Some(self)
    }
}

fn part<T: Value>(
    whole: &FileValue<'_>,
    table: &[FileEntry<'_>],
    key: &str,
    wrong: &mut Wrong,
) -> Option<T> {
    match of_key(table, key) {
        Some(value) => T::read(value, wrong),
        None => {
            wrong.push((whole.span(), format!("`{key}` is missing")));
            None
        }
    }
}

fn of_key<'a, 't>(table: &'a [FileEntry<'t>], key: &str) -> Option<&'a FileValue<'t>> {
    let mut entries = table.iter();
    Some(&entries.find(|entry| entry.key == key)?.value)
}
