//! The images that jobs kept, found by their addresses.

use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use serde::Deserialize;
use xxhash_rust::xxh3::xxh3_128;

use crate::fs::beneath;
use crate::outputs::{self, Sidecar, Table, TextPlace, image_row_names};
use crate::page::TaskKind;
use crate::tool_error::ToolError;

/// The longest row that is read, in bytes.
const MAX_ROW: usize = 1 << 20;
/// How many redirects of an image are followed.
const MAX_REDIRECTS: usize = 20;
/// Why there is no file of an address that the log does not name.
const NOT_FETCHED: &str = "not fetched";

/// The kept images of some jobs.
#[derive(Default)]
pub(super) struct KeptImages {
    jobs: Vec<KeptJob>,
}

/// The tables of a job, by the hashes of addresses.
struct KeptJob {
    folder: PathBuf,
    /// The file of each image.
    files: FxHashMap<u128, Box<str>>,
    /// Why there is no file, as a number of `names`.
    reasons: FxHashMap<u128, u32>,
    /// Where images redirect to.
    redirects: FxHashMap<u128, u128>,
    /// The last record of each page in the archives of the job: a number of `names`, and the first
    /// byte.
    records: FxHashMap<u128, (u32, u64)>,
    names: Vec<String>,
}

/// A kept image.
pub(super) struct KeptImage<'k> {
    pub(super) folder: &'k Path,
    pub(super) sidecar: Sidecar,
}

/// The part of a row of the log that is needed.
#[derive(Deserialize)]
struct FetchRow {
    kind: TaskKind,
    url: String,
    reason: Option<String>,
    redirect: Option<String>,
    archive: Option<TextPlace>,
}

impl KeptImages {
    /// Reads the tables of the jobs in these folders. With `all`, a folder without a job is an
    /// error; otherwise its images are missing.
    ///
    /// # Errors
    ///
    /// A folder is not that of a job, or cannot be read.
    pub(super) fn of(folders: &[PathBuf], all: bool) -> Result<Self, ToolError> {
        let mut jobs = Vec::new();
        for folder in folders {
            if beneath::is_dir(folder, "logs") {
                jobs.push(KeptJob::of(folder)?);
                continue;
            }
            let why = "not the folder of a job that has crawled, so its images cannot be joined; \
                       name its new place in the plan";
            if all {
                return Err(ToolError::at(folder, why));
            }
            tracing::warn!("{}: {why}, and build the corpus again", folder.display());
        }
        Ok(Self { jobs })
    }

    /// The image of an address, first in the job of this name; else why there is none.
    pub(super) fn find<'k>(
        &'k self,
        job: Option<&str>,
        url: &str,
    ) -> Result<KeptImage<'k>, &'k str> {
        let key = xxh3_128(url.as_bytes());
        let mut why = None;
        for of_job in self.by_name(job) {
            match of_job.find(key) {
                Ok(kept) => return Ok(kept),
                Err(reason) => why = why.or(reason),
            }
        }
        Err(why.unwrap_or(NOT_FETCHED))
    }

    /// The record of a page in the archives of its job: the file and the first byte.
    pub(super) fn record<'k>(&'k self, job: Option<&str>, url: &str) -> Option<(&'k str, u64)> {
        let key = xxh3_128(url.as_bytes());
        self.by_name(job).find_map(|job| {
            let (name, from) = job.records.get(&key)?;
            Some((job.names.get(*name as usize)?.as_str(), *from))
        })
    }

    /// All jobs, those with this name first.
    fn by_name<'k>(&'k self, name: Option<&str>) -> impl Iterator<Item = &'k KeptJob> {
        let is_named = move |job: &&KeptJob| {
            let folder = job.folder.file_name();
            name.is_some_and(|name| folder.is_some_and(|folder| folder == name))
        };
        let rest = self.jobs.iter().filter(move |job| !is_named(job));
        self.jobs.iter().filter(is_named).chain(rest)
    }
}

impl KeptJob {
    fn of(folder: &Path) -> Result<Self, ToolError> {
        let mut job = Self {
            folder: folder.to_owned(),
            files: FxHashMap::default(),
            reasons: FxHashMap::default(),
            redirects: FxHashMap::default(),
            records: FxHashMap::default(),
            names: Vec::new(),
        };
        outputs::each_line(folder, Table::Images, MAX_ROW, |line| {
            let row = String::from_utf8_lossy(line.bytes.unwrap_or_default());
            if let Some((file, url, _)) = image_row_names(&row) {
                job.files.insert(xxh3_128(url.as_bytes()), file.into());
            }
        })?;
        let mut numbers: FxHashMap<String, u32> = FxHashMap::default();
        outputs::each_line(folder, Table::Log, MAX_ROW, |line| {
            let row = serde_json::from_slice::<FetchRow>(line.bytes.unwrap_or_default());
            if let Ok(row) = row {
                job.note(row, &mut numbers);
            }
        })?;
        Ok(job)
    }

    fn note(&mut self, row: FetchRow, numbers: &mut FxHashMap<String, u32>) {
        let names = &mut self.names;
        let mut number = |name: String| {
            *numbers.entry(name).or_insert_with_key(|name| {
                names.push(name.clone());
                u32::try_from(names.len() - 1).unwrap_or(u32::MAX)
            })
        };
        let key = xxh3_128(row.url.as_bytes());
        match row.kind {
            TaskKind::Image => {
                if let Some(to) = row.redirect {
                    self.redirects.insert(key, xxh3_128(to.as_bytes()));
                }
                // The names of reasons are words; a log that was edited may have anything.
                let is_word =
                    |name: &String| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
                if let Some(reason) = row.reason.filter(is_word) {
                    self.reasons.insert(key, number(reason));
                }
            }
            TaskKind::Page => {
                if let Some(place) = row.archive {
                    self.records.insert(key, (number(place.file), place.from));
                }
            }
            _ => {}
        }
    }

    /// The image of an address; else why there is none, if that is known.
    fn find(&self, mut key: u128) -> Result<KeptImage<'_>, Option<&str>> {
        for _ in 0..MAX_REDIRECTS {
            if let Some(file) = self.files.get(&key) {
                let is_there = beneath::is_file(&self.folder, &**file);
                let sidecar = is_there.then(|| Sidecar::load(&self.folder, file));
                let Some(Ok(sidecar)) = sidecar else {
                    return Err(Some("its file is missing"));
                };
                return Ok(KeptImage {
                    folder: &self.folder,
                    sidecar,
                });
            }
            match self.redirects.get(&key) {
                Some(to) => key = *to,
                None => break,
            }
        }
        let reason = self.reasons.get(&key);
        Err(reason.and_then(|reason| Some(self.names.get(*reason as usize)?.as_str())))
    }
}
