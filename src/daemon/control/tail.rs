//! The crawl log as it is written, for clients that follow it, and its last rows.
//!
//! The crawl never waits for a reader: a reader that is slower than the log loses rows, and
//! receives their number.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use super::{AuditLine, ControlError};
use crate::fs::IoError;
use crate::outputs::{self, Part, Row, Table};

/// How many rows a reader may be behind.
const BEHIND: usize = 1024;

/// The most readers at the same time, so that they do not use up all connections.
const MAX_READERS: usize = 8;

/// How many bytes at the end of the file are searched for its last rows.
const MAX_BACK: u64 = 8 << 20;

/// Reports rows that a reader was too slow for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// How many rows.
    pub lost: u64,
}

/// One line for the readers.
#[derive(Debug, Clone)]
pub(super) enum TailLine {
    /// A row of the crawl log.
    Row(std::sync::Arc<str>),
    /// A change of the crawl.
    Change(std::sync::Arc<str>),
}

pub(super) struct Tail {
    folder: PathBuf,
    /// `None` when the crawl has ended.
    sender: Mutex<Option<broadcast::Sender<TailLine>>>,
}

impl Tail {
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            sender: Mutex::new(Some(broadcast::Sender::new(BEHIND))),
        }
    }

    pub fn row(&self, row: &Row<'_>) {
        self.send(|| TailLine::Row(row.to_json().into()));
    }

    pub fn entry(&self, entry: &AuditLine) {
        self.send(|| TailLine::Change(entry.to_json().into()));
    }

    /// Everything written from now on.
    pub fn follow(&self) -> Result<broadcast::Receiver<TailLine>, ControlError> {
        match &*self.sender() {
            None => Err(ControlError::Ended),
            Some(sender) if sender.receiver_count() >= MAX_READERS => {
                Err(ControlError::Readers(MAX_READERS))
            }
            Some(sender) => Ok(sender.subscribe()),
        }
    }

    pub fn end(&self) {
        self.sender().take();
    }

    /// The last `n` rows, as far as they are within the part of the file that is searched.
    pub async fn last(&self, n: usize) -> Result<Vec<serde_json::Value>, ControlError> {
        let folder = self.folder.clone();
        let read = tokio::task::spawn_blocking(move || last_rows(&folder, n));
        // The task only fails when the process ends.
        let read = read.await.map_err(|_| ControlError::Ended)?;
        let path = self.folder.join(Table::Log.name());
        let rows = read.and_then(|lines| {
            let rows = lines.iter().map(|line| serde_json::from_str(line));
            Ok(rows.collect::<Result<_, _>>()?)
        });
        Ok(rows.map_err(IoError::at(&path, "reading"))?)
    }

    fn send(&self, line: impl FnOnce() -> TailLine) {
        if let Some(sender) = &*self.sender()
            && sender.receiver_count() > 0
        {
            // The last reader may just have gone.
            sender.send(line()).ok();
        }
    }

    fn sender(&self) -> std::sync::MutexGuard<'_, Option<broadcast::Sender<TailLine>>> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last `n` rows of the log, oldest first, as far as they are in the last two of its
/// files.
fn last_rows(folder: &Path, n: usize) -> std::io::Result<Vec<String>> {
    let mut parts = outputs::parts(folder, Table::Log).map_err(std::io::Error::other)?;
    let mut rows = match parts
        .pop_if(|part| part.is_live())
        .and_then(Part::into_live)
    {
        Some(file) => last_lines(file, n)?,
        None if parts.is_empty() => return Err(std::io::ErrorKind::NotFound.into()),
        None => Vec::new(),
    };
    let missing = n.saturating_sub(rows.len());
    if missing > 0
        && let Some(part) = parts.pop()
    {
        // Compressed files cannot be read backwards.
        let (_, text) = part.text_from(0).map_err(std::io::Error::other)?;
        let mut before = VecDeque::new();
        for line in text.lines() {
            if before.len() == missing {
                before.pop_front();
            }
            before.push_back(line?);
        }
        rows.splice(0..0, before);
    }
    Ok(rows)
}

/// The last `n` whole lines of a file, oldest first.
fn last_lines(mut file: File, n: usize) -> std::io::Result<Vec<String>> {
    let length = file.metadata()?.len();
    let mut bytes = Vec::new();
    let mut back = length.min(64 << 10);
    loop {
        file.seek(SeekFrom::Start(length - back))?;
        bytes.clear();
        file.by_ref().take(back).read_to_end(&mut bytes)?;
        let ends = bytes.iter().filter(|b| **b == b'\n').count();
        if ends > n || back == length || back >= MAX_BACK {
            break;
        }
        back = (back * 4).min(length).min(MAX_BACK);
    }
    // Only the crawl's own thread writes, a whole line at once; text after the last line
    // end is still being written, and text before the first may be half a line.
    let whole = bytes
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |at| at + 1);
    let text = String::from_utf8_lossy(bytes.get(..whole).unwrap_or_default());
    let mut lines: Vec<&str> = text.lines().collect();
    if back < length && !lines.is_empty() {
        lines.remove(0);
    }
    let from = lines.len().saturating_sub(n);
    Ok(lines.drain(from..).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_reader_loses_lines_and_receives_their_number() {
        let tail = Tail::new(Path::new("nowhere"));
        let entry = AuditLine::of(&super::super::Who("test".to_owned()), "set");
        let mut slow = tail.follow().unwrap();
        for _ in 0..BEHIND + 7 {
            tail.entry(&entry);
        }
        use broadcast::error::TryRecvError;
        assert!(matches!(slow.try_recv(), Err(TryRecvError::Lagged(7))));
        assert!(matches!(slow.try_recv(), Ok(TailLine::Change(_))));
        let others: Vec<_> = (1..MAX_READERS).map(|_| tail.follow().unwrap()).collect();
        assert!(matches!(tail.follow(), Err(ControlError::Readers(_))));
        drop(others);
        tail.end();
        assert!(matches!(tail.follow(), Err(ControlError::Ended)));
        let left = std::iter::from_fn(|| slow.try_recv().ok()).count();
        assert_eq!(left, BEHIND - 1, "what was sent before arrives");
        assert!(matches!(slow.try_recv(), Err(TryRecvError::Closed)));
    }

    #[test]
    fn the_last_rows_may_stand_in_the_file_before() {
        let folder = tempfile::tempdir().unwrap();
        let none = last_rows(folder.path(), 3).unwrap_err();
        assert_eq!(none.kind(), std::io::ErrorKind::NotFound);
        let logs = folder.path().join("logs");
        std::fs::create_dir(&logs).unwrap();
        let text = |rows: std::ops::Range<u32>| -> String {
            rows.map(|n| format!("{{\"row\":{n}}}\n")).collect()
        };
        let packed = |rows| zstd::encode_all(text(rows).as_bytes(), 0).unwrap();
        std::fs::write(logs.join("crawl.00001.jsonl.zst"), packed(0..10)).unwrap();
        std::fs::write(logs.join("crawl.00002.jsonl.zst"), packed(10..20)).unwrap();
        std::fs::write(logs.join("crawl.jsonl"), text(20..23)).unwrap();
        for (n, first) in [(0, 23), (2, 21), (3, 20), (5, 18), (13, 10), (99, 10)] {
            let expected = text(first..23);
            let expected: Vec<&str> = expected.lines().collect();
            assert_eq!(last_rows(folder.path(), n).unwrap(), expected, "{n}");
        }
    }

    #[test]
    fn the_last_lines_are_whole_however_long_the_file_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        for lines in [0, 1, 3, 5_000] {
            let all: Vec<String> = (0..lines).map(|i| format!("{{\"row\":{i:050}}}")).collect();
            let mut text: String = all.iter().map(|line| format!("{line}\n")).collect();
            text.push_str("{\"row\":");
            std::fs::write(&path, text).unwrap();
            for n in [0, 1, 3, 2_000, 10_000] {
                let from = all.len().saturating_sub(n);
                let file = File::open(&path).unwrap();
                assert_eq!(last_lines(file, n).unwrap(), all[from..], "{n} of {lines}");
            }
        }
    }
}
