//! What an earlier crawl kept, beside what a replay of its archive keeps.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::fs::IoError;
use crate::outputs::{OutputError, Row, Table, each_line, lines};
use crate::page::TaskKind;

/// The longest row that is read, in bytes.
const MAX_ROW: usize = 1 << 20;
/// The addresses of each list that are kept.
const LISTED: usize = 1_000;

/// The log of an earlier crawl.
#[derive(Debug, Clone)]
pub enum Log {
    /// The folder of a job.
    Job(PathBuf),
    /// A file like `crawl.jsonl`.
    File(PathBuf),
}

/// Pages and images that were kept, by the hashes of their addresses: 18 bytes each.
#[derive(Debug)]
pub struct Before {
    log: Log,
    pages: FxHashMap<u64, Fate>,
    images: FxHashMap<u64, Fate>,
    compared: Compared,
}

/// What became of an address.
#[derive(Debug, Clone, Copy, Default)]
struct Fate {
    kept: bool,
    on_topic: bool,
    /// The replay has met it.
    met: bool,
}

/// What differs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// Before and now: pages that were read.
    pub pages: (u64, u64),
    /// Pages on topic.
    pub on_topic: (u64, u64),
    /// Pages whose text is kept.
    pub kept: (u64, u64),
    /// Images that are kept.
    pub images: (u64, u64),
    /// Pages whose text was kept before and is not now: their number, and the first of them.
    pub lost: (u64, Vec<String>),
    /// The other way round.
    pub gained: (u64, Vec<String>),
    /// Images that were kept before and are not now.
    pub lost_images: (u64, Vec<String>),
    /// The other way round.
    pub gained_images: (u64, Vec<String>),
}

/// The part of a row that counts here.
#[derive(Deserialize)]
struct Logged {
    kind: String,
    url: String,
    outcome: String,
    on_topic: Option<bool>,
    sentences: Option<serde::de::IgnoredAny>,
    documents: Option<serde::de::IgnoredAny>,
    file: Option<serde::de::IgnoredAny>,
}

impl Logged {
    fn fate(&self) -> Option<Fate> {
        let is_done = self.outcome == "done";
        let kept = match self.kind.as_str() {
            "page" => self.sentences.is_some() || self.documents.is_some(),
            "image" => self.file.is_some(),
            _ => return None,
        };
        is_done.then_some(Fate {
            kept,
            on_topic: self.on_topic == Some(true),
            met: false,
        })
    }
}

impl Before {
    /// Reads the log of an earlier crawl. Lines that are no rows are passed over.
    ///
    /// # Errors
    ///
    /// [`OutputError`] names the file.
    pub fn of(log: Log) -> Result<Self, OutputError> {
        let (mut pages, mut images) = (FxHashMap::default(), FxHashMap::default());
        each_row(&log, |row| {
            let Some(fate) = row.fate() else { return };
            let all = match row.kind.as_str() {
                "page" => &mut pages,
                _ => &mut images,
            };
            all.insert(key(&row.url), fate);
        })?;
        let kept = |all: &FxHashMap<u64, Fate>| all.values().filter(|fate| fate.kept).count();
        let on_topic = pages.values().filter(|fate| fate.on_topic).count();
        let compared = Compared {
            pages: (pages.len() as u64, 0),
            on_topic: (on_topic as u64, 0),
            kept: (kept(&pages) as u64, 0),
            images: (kept(&images) as u64, 0),
            ..Compared::default()
        };
        Ok(Self {
            log,
            pages,
            images,
            compared,
        })
    }

    /// Takes a row of the replay.
    pub fn meet(&mut self, row: &Row<'_>) {
        if row.outcome != "done" {
            return;
        }
        let Compared {
            pages,
            on_topic,
            kept,
            images,
            gained,
            gained_images,
            ..
        } = &mut self.compared;
        let (known, is_kept, gained) = match row.kind {
            TaskKind::Page => {
                let is_kept = row.sentences.is_some() || row.documents.is_some();
                pages.1 += 1;
                on_topic.1 += u64::from(row.on_topic == Some(true));
                kept.1 += u64::from(is_kept);
                (self.pages.get_mut(&key(row.url)), is_kept, gained)
            }
            TaskKind::Image => {
                let is_kept = row.file.is_some();
                images.1 += u64::from(is_kept);
                (self.images.get_mut(&key(row.url)), is_kept, gained_images)
            }
            _ => return,
        };
        let was_kept = known.as_ref().is_some_and(|fate| fate.kept);
        if is_kept && !was_kept {
            note(gained, row.url);
        }
        if let Some(fate) = known {
            fate.met = is_kept;
        }
    }

    /// What differs, at the end of the replay. Reads the log once more for the addresses.
    ///
    /// # Errors
    ///
    /// [`OutputError`] names the file.
    pub fn compared(mut self) -> Result<Compared, OutputError> {
        let mut compared = std::mem::take(&mut self.compared);
        each_row(&self.log, |row| {
            let (all, lost) = match row.kind.as_str() {
                "page" => (&mut self.pages, &mut compared.lost),
                "image" => (&mut self.images, &mut compared.lost_images),
                _ => return,
            };
            if let Some(fate) = all.get_mut(&key(&row.url))
                && fate.kept
                && !std::mem::replace(&mut fate.met, true)
            {
                note(lost, &row.url);
            }
        })?;
        Ok(compared)
    }
}

fn note((number, list): &mut (u64, Vec<String>), url: &str) {
    *number += 1;
    if list.len() < LISTED {
        list.push(url.to_owned());
    }
}

fn key(url: &str) -> u64 {
    xxh3_64(url.as_bytes())
}

fn each_row(log: &Log, mut each: impl FnMut(Logged)) -> Result<(), OutputError> {
    let mut take = |bytes: Option<&[u8]>| {
        if let Some(row) = bytes.and_then(|bytes| serde_json::from_slice(bytes).ok()) {
            each(row);
        }
    };
    match log {
        Log::Job(folder) => each_line(folder, Table::Log, MAX_ROW, |line| take(line.bytes)),
        Log::File(path) => read_file(path, &mut take),
    }
}

fn read_file(path: &Path, take: &mut dyn FnMut(Option<&[u8]>)) -> Result<(), OutputError> {
    let file = crate::fs::open(path).map_err(IoError::at(path, "opening"))?;
    let (_, end) = lines(BufReader::new(file), MAX_ROW, |bytes, _| take(bytes));
    Ok(end.map_err(IoError::at(path, "reading"))?)
}
