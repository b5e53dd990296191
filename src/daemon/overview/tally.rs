//! The counts of a crawl log, updated by reading the lines added since the last time. A
//! log that has become shorter is read again from its beginning.

use std::collections::VecDeque;
use std::io::BufRead;
use std::path::Path;

use serde::Deserialize;
use xxhash_rust::xxh3::xxh3_64;

use crate::outputs::{self, Part, Table};
use crate::page::TaskKind;

/// How many of the newest images are kept.
const IMAGES: usize = 8;

/// How many bytes are read at once, so that the page does not wait for a log of many
/// gigabytes; the rest is read at the next request.
const AT_ONCE: u64 = 256 << 20;

/// The longest line that is kept in memory.
const MAX_LINE: usize = 16 << 20;

/// Counts of a log.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    /// The generation of the outputs when the log was read.
    generation: u64,
    /// The number of the last file read, and the position in it: complete lines only.
    part: u32,
    read: u64,
    /// Whether there is more to read.
    pub behind: bool,
    pub pages: u64,
    pub judged: u64,
    pub on_topic: u64,
    pub images: u64,
    /// When the last task finished, RFC 3339 in UTC.
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
    /// Reads what has been added to the log of the job in `folder` since the last time.
    pub fn read_on(&mut self, folder: &Path) -> std::io::Result<()> {
        let other = std::io::Error::other;
        let parts = outputs::parts(folder, Table::Log).map_err(other)?;
        let generation = outputs::generation(folder).map_err(other)?;
        // Rows were removed by a takedown or by hand.
        let shorter = |part: &Part| part.length().is_some_and(|length| length < self.read);
        let cut = |part: &Part| part.number == self.part && shorter(part);
        let last = parts.last().map_or(0, |part| part.number);
        if generation != self.generation || last < self.part || parts.iter().any(cut) {
            *self = Self {
                generation,
                ..Self::default()
            };
        }
        let mut left = AT_ONCE;
        self.behind = false;
        for part in parts {
            if part.number < self.part {
                continue;
            }
            if part.number > self.part {
                (self.part, self.read) = (part.number, 0);
            }
            let (_, text) = part.text_from(self.read).map_err(other)?;
            left = self.read_part(text, left)?;
            if left == 0 {
                self.behind = true;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads slightly more than `most` bytes at the most; returns how many of them were
    /// left.
    fn read_part(&mut self, mut from: impl BufRead, most: u64) -> std::io::Result<u64> {
        let mut left = most;
        let mut line = Vec::new();
        while left > 0 {
            line.clear();
            let n = from.read_until(b'\n', &mut line)?;
            if !line.ends_with(b"\n") {
                // The end, or a line that is being written.
                break;
            }
            self.read += n as u64;
            left = left.saturating_sub(n as u64);
            if line.len() <= MAX_LINE
                && let Ok(row) = serde_json::from_slice::<Line>(&line)
            {
                self.take(row);
            }
        }
        Ok(left)
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

/// The id of a file in an address.
pub(super) fn id_of(file: &str) -> String {
    format!("{:016x}", xxh3_64(file.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    #[test]
    fn a_log_is_read_on_and_a_cut_line_waits() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("logs")).unwrap();
        let log = folder.path().join("logs/crawl.jsonl");
        let mut tally = Tally::default();
        tally.read_on(folder.path()).unwrap();
        assert_eq!((tally.pages, tally.last.as_deref()), (0, None));
        let page = r#"{"time":"2026-01-01T00:00:01Z","kind":"page","outcome":"done","document":{},"on_topic":true}"#;
        let image = r#"{"time":"2026-01-01T00:00:02Z","kind":"image","outcome":"done","file":"images/a.png"}"#;
        let mut file = File::create(&log).unwrap();
        write!(file, "{page}\nnoise\n{}", &image[..20]).unwrap();
        tally.read_on(folder.path()).unwrap();
        assert_eq!((tally.pages, tally.on_topic, tally.images), (1, 1, 0));
        writeln!(file, "{}", &image[20..]).unwrap();
        tally.read_on(folder.path()).unwrap();
        assert_eq!((tally.pages, tally.images), (1, 1));
        assert_eq!(tally.last.as_deref(), Some("2026-01-01T00:00:02Z"));
        assert_eq!(tally.file(&id_of("images/a.png")), Some("images/a.png"));
        assert_eq!(tally.file("images/a.png"), None);
        // It is renamed, compressed, and a new one begun.
        drop(file);
        let packed = zstd::encode_all(File::open(&log).unwrap(), 0).unwrap();
        std::fs::write(log.with_file_name("crawl.00001.jsonl.zst"), packed).unwrap();
        std::fs::write(&log, format!("{page}\n")).unwrap();
        tally.read_on(folder.path()).unwrap();
        assert_eq!((tally.pages, tally.images), (2, 1));
        std::fs::write(&log, format!("{page}\n{page}\n")).unwrap();
        tally.read_on(folder.path()).unwrap();
        assert_eq!((tally.pages, tally.images), (3, 1));
        // A takedown has rewritten the old one.
        let packed = zstd::encode_all(&b""[..], 0).unwrap();
        std::fs::write(log.with_file_name("crawl.00001.jsonl.zst"), packed).unwrap();
        std::fs::write(folder.path().join("generation"), "1").unwrap();
        tally.read_on(folder.path()).unwrap();
        assert_eq!((tally.pages, tally.images), (2, 0));
        std::fs::remove_file(log.with_file_name("crawl.00001.jsonl.zst")).unwrap();
        // A takedown has made it shorter.
        std::fs::write(&log, format!("{page}\n")).unwrap();
        tally.read_on(folder.path()).unwrap();
        assert_eq!((tally.pages, tally.images), (1, 0));
    }
}
