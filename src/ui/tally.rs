//! What the log of a crawl says, read on from where it was left. A log that has become
//! shorter is read again from its beginning.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

use serde::Deserialize;
use xxhash_rust::xxh3::xxh3_64;

use crate::page::TaskKind;

/// Newest images that are remembered.
const IMAGES: usize = 8;

/// Bytes that are read at once, so that the page does not wait for a log of many
/// gigabytes; the rest is read when it is asked again.
const AT_ONCE: u64 = 256 << 20;

/// The longest line that is kept in memory.
const MAX_LINE: usize = 16 << 20;

/// Counts of a log.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    /// How far it was read: whole lines alone.
    read: u64,
    /// Whether there is more than was read.
    pub behind: bool,
    pub pages: u64,
    pub judged: u64,
    pub on_topic: u64,
    pub images: u64,
    /// When the last task was finished, RFC 3339 in UTC.
    pub last: Option<String>,
    /// Files of the newest images, the newest first.
    pub newest: VecDeque<String>,
}

#[derive(Deserialize)]
struct Line {
    time: String,
    kind: TaskKind,
    outcome: String,
    on_topic: Option<bool>,
    document: Option<serde::de::IgnoredAny>,
    file: Option<String>,
}

impl Tally {
    /// Reads what has been added to the log since.
    pub fn read_on(&mut self, log: &Path) -> std::io::Result<()> {
        let mut file = match File::open(log) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                *self = Self::default();
                return Ok(());
            }
            file => file?,
        };
        let length = file.metadata()?.len();
        if length < self.read {
            *self = Self::default();
        }
        file.seek(SeekFrom::Start(self.read))?;
        let mut from = BufReader::with_capacity(1 << 16, file);
        let end = self.read.saturating_add(AT_ONCE);
        let mut line = Vec::new();
        while self.read < end {
            line.clear();
            let n = from.read_until(b'\n', &mut line)?;
            if !line.ends_with(b"\n") {
                // Nothing more, or a line that is being written.
                break;
            }
            self.read += n as u64;
            if line.len() <= MAX_LINE
                && let Ok(row) = serde_json::from_slice::<Line>(&line)
            {
                self.take(row);
            }
        }
        self.behind = self.read >= end && self.read < length;
        Ok(())
    }

    fn take(&mut self, row: Line) {
        self.last = Some(row.time);
        if row.outcome != "done" {
            return;
        }
        match (row.kind, row.file) {
            (TaskKind::Page, _) => {
                self.pages += 1;
                self.judged += u64::from(row.document.is_some());
                self.on_topic += u64::from(row.on_topic == Some(true));
            }
            (TaskKind::Image, Some(file)) => {
                self.images += 1;
                self.newest.truncate(IMAGES - 1);
                self.newest.push_front(file);
            }
            _ => {}
        }
    }

    /// The file of one of the newest images by its id.
    pub fn file(&self, id: &str) -> Option<&str> {
        let mut newest = self.newest.iter();
        newest.find(|file| id_of(file) == id).map(String::as_str)
    }
}

/// What stands for a file in an address.
pub(super) fn id_of(file: &str) -> String {
    format!("{:016x}", xxh3_64(file.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_log_is_read_on_and_a_cut_line_waits() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("crawl.jsonl");
        let mut tally = Tally::default();
        tally.read_on(&log).unwrap();
        assert_eq!((tally.pages, tally.last.as_deref()), (0, None));
        let page = r#"{"time":"2026-01-01T00:00:01Z","kind":"page","outcome":"done","document":{},"on_topic":true}"#;
        let image = r#"{"time":"2026-01-01T00:00:02Z","kind":"image","outcome":"done","file":"images/a.png"}"#;
        let mut file = File::create(&log).unwrap();
        write!(file, "{page}\nnoise\n{}", &image[..20]).unwrap();
        tally.read_on(&log).unwrap();
        assert_eq!((tally.pages, tally.on_topic, tally.images), (1, 1, 0));
        writeln!(file, "{}", &image[20..]).unwrap();
        tally.read_on(&log).unwrap();
        assert_eq!((tally.pages, tally.images), (1, 1));
        assert_eq!(tally.last.as_deref(), Some("2026-01-01T00:00:02Z"));
        assert_eq!(tally.file(&id_of("images/a.png")), Some("images/a.png"));
        assert_eq!(tally.file("images/a.png"), None);
        // A takedown has made it shorter.
        std::fs::write(&log, format!("{page}\n")).unwrap();
        tally.read_on(&log).unwrap();
        assert_eq!((tally.pages, tally.images), (1, 0));
    }
}
