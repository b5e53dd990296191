//! Compares what an earlier crawl kept with what a replay of its archive keeps.

use std::io::BufReader;
use std::path::PathBuf;

use rustc_hash::FxHashSet;
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

use crate::crawl::figures::{CrawlFigures, CrawlTotals, LoggedTask};
use crate::fs::IoError;
use crate::outputs::{MAX_ROW, OutputError, Table, each_line, lines};
use crate::page::TaskKind;

/// The addresses of each list that are kept.
const LISTED: usize = 1_000;

/// The log of an earlier crawl.
#[derive(Debug, Clone)]
pub enum EarlierLog {
    /// The folder of a job.
    Job(PathBuf),
    /// A file like `crawl.jsonl`.
    File(PathBuf),
}

/// An earlier crawl compared with a replay. The addresses that it kept are stored as hashes.
#[derive(Debug)]
pub struct Before {
    log: EarlierLog,
    /// Pages and images that only the earlier crawl has kept.
    kept: FxHashSet<u64>,
    /// Pages and images that both have kept.
    both: FxHashSet<u64>,
    compared: Compared,
}

/// What differs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// The figures of the earlier crawl.
    pub before: CrawlTotals,
    /// Pages whose text was kept before but not now: their number, and the first of them.
    pub lost: (u64, Vec<String>),
    /// The other way round.
    pub gained: (u64, Vec<String>),
    /// Images that were kept before but not now.
    pub lost_images: (u64, Vec<String>),
    /// The other way round.
    pub gained_images: (u64, Vec<String>),
}

impl Before {
    /// Reads the log of an earlier crawl. Lines that are not rows are skipped.
    ///
    /// # Errors
    ///
    /// [`OutputError`] names the file.
    pub fn of(log: EarlierLog) -> Result<Self, OutputError> {
        let mut figures = CrawlFigures::with_hosts(0);
        let mut kept = FxHashSet::default();
        log.each_task(|task| {
            figures.take(task);
            kept.extend(key_if_kept(task));
        })?;
        let before = figures.totals;
        Ok(Self {
            log,
            kept,
            both: FxHashSet::default(),
            compared: Compared {
                before,
                ..Compared::default()
            },
        })
    }

    /// Records a finished task of the replay.
    pub fn meet(&mut self, task: &LoggedTask<'_>) {
        let Some(key) = key_if_kept(task) else { return };
        if self.kept.remove(&key) {
            self.both.insert(key);
        } else if !self.both.contains(&key) {
            note(
                match task.row.kind {
                    TaskKind::Image => &mut self.compared.gained_images,
                    _ => &mut self.compared.gained,
                },
                &task.row.url,
            );
        }
    }

    /// What differs, at the end of the replay. Reads the log once more for the addresses.
    ///
    /// # Errors
    ///
    /// [`OutputError`] names the file.
    pub fn compared(mut self) -> Result<Compared, OutputError> {
        let mut compared = std::mem::take(&mut self.compared);
        self.log.each_task(|task| {
            if key_if_kept(task).is_some_and(|key| self.kept.remove(&key)) {
                note(
                    match task.row.kind {
                        TaskKind::Image => &mut compared.lost_images,
                        _ => &mut compared.lost,
                    },
                    &task.row.url,
                );
            }
        })?;
        Ok(compared)
    }
}

/// The hash of a page whose text is kept, or of an image that is.
fn key_if_kept(task: &LoggedTask<'_>) -> Option<u64> {
    let is_kept = match task.row.kind {
        TaskKind::Page => task.keeps_text(),
        TaskKind::Image => task.is_kept(),
        _ => false,
    };
    let is_image = u64::from(task.row.kind == TaskKind::Image);
    is_kept.then(|| xxh3_64(task.row.url.as_bytes()) ^ is_image)
}

fn note((number, list): &mut (u64, Vec<String>), url: &str) {
    *number += 1;
    if list.len() < LISTED {
        list.push(url.to_owned());
    }
}

impl EarlierLog {
    fn each_task(&self, mut each: impl FnMut(&LoggedTask<'_>)) -> Result<(), OutputError> {
        let mut take = |bytes: Option<&[u8]>| {
            if let Some(Ok(task)) = bytes.map(LoggedTask::read) {
                each(&task);
            }
        };
        match self {
            Self::Job(folder) => each_line(folder, Table::Log, MAX_ROW, |line| take(line.bytes)),
            Self::File(path) => {
                let file = crate::fs::open(path).map_err(IoError::at(path, "opening"))?;
                let (_, end) = lines(BufReader::new(file), MAX_ROW, |bytes, _, _| take(bytes));
                Ok(end.map_err(IoError::at(path, "reading"))?)
            }
        }
    }
}
