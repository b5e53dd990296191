//! Exports of the frontier that a running crawl writes to `checkpoints/`.
//!
//! A separate thread reads the export from a snapshot of the store while the crawl goes
//! on. The file therefore shows one moment between two commits: each task in it is either
//! finished with all of its effects or not started, and the stamp records the lengths of
//! the outputs at that moment. Output written later is beyond the stamp. It is cut back
//! when a crawl resumes from the import, so no task is lost or appears twice in the
//! outputs.
//!
//! A file gets its final name only when it and all outputs that it refers to are synced.
//! A store that cannot be read completely produces no file.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Instant, UNIX_EPOCH};

use crate::clock::millis;
use crate::frontier::Frontier;
use crate::frontier::dump::{self, DumpError};
use crate::frontier::store::{Readable, StoreError, Visitor};
use crate::fs::{IoError, atomic};
use crate::outputs::{OutputError, sync_folder};
use crate::settings::JobSettings;

/// Number of exports that are kept.
const KEPT: usize = 2;

/// The name of an export until it is complete.
const UNFINISHED: &str = "unfinished.jsonl.gz";

/// Why no new export was written; the earlier ones are kept.
#[derive(Debug, thiserror::Error)]
enum BackupError {
    #[error(transparent)]
    Archive(#[from] DumpError),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("{damaged} records of the frontier cannot be read{}; stop the crawl and run `spoor frontier check`",
        why.as_ref().map(|w| format!(" ({w})")).unwrap_or_default())]
    Damaged { damaged: u64, why: Option<String> },
    #[error(transparent)]
    Io(#[from] IoError),
    #[error("the crawl ended before it was written")]
    Ended,
}

/// Writes an export at regular intervals. Dropping this abandons an export in progress.
#[derive(Debug)]
pub struct Backups {
    job: PathBuf,
    every: u64,
    due: u64,
    ended: Arc<AtomicBool>,
    running: Option<JoinHandle<()>>,
}

impl Backups {
    /// For an open job; `now` is milliseconds since 1970. The first export is due one
    /// interval after the last one or, if there is none, after that much time spent
    /// crawling over all runs.
    pub fn new(config: &JobSettings, frontier: &Frontier, now: u64) -> Self {
        let job = config.job_folder();
        let every = millis(config.checkpoint.export);
        let written = newest(&job).and_then(|path| {
            let modified = path.metadata().ok()?.modified().ok()?;
            Some(millis(modified.duration_since(UNIX_EPOCH).ok()?))
        });
        let since = written.unwrap_or(now.saturating_sub(frontier.active()));
        Self {
            job,
            every,
            due: since.saturating_add(every),
            ended: Arc::default(),
            running: None,
        }
    }

    /// Starts an export if one is due and none is in progress. A failure is logged as
    /// a warning, because the crawl does not need exports; the next one is tried after
    /// the usual interval.
    pub fn round(&mut self, frontier: &Frontier, now: u64) {
        if now < self.due || self.running.as_ref().is_some_and(|r| !r.is_finished()) {
            return;
        }
        self.due = now.saturating_add(self.every);
        let view = Until {
            view: frontier.snapshot(),
            ended: Arc::clone(&self.ended),
        };
        let job = self.job.clone();
        let work = move || {
            let begun = Instant::now();
            match export(view, &job, now) {
                Ok((path, urls)) => {
                    let seconds = begun.elapsed().as_secs_f64();
                    tracing::info!(path = %path.display(), urls, seconds, "exported the frontier");
                }
                Err(BackupError::Ended) => {}
                Err(error) => {
                    tracing::warn!(%error, "the frontier could not be exported; the next export is tried later")
                }
            }
        };
        let thread = std::thread::Builder::new().name("export".to_owned());
        match thread.spawn(work) {
            Ok(running) => self.running = Some(running),
            Err(error) => {
                tracing::warn!(%error, "no thread could be started to export the frontier")
            }
        }
    }
}

impl Drop for Backups {
    fn drop(&mut self) {
        // The snapshot keeps the store's folder locked until the thread ends.
        self.ended.store(true, Ordering::Relaxed);
        if let Some(running) = self.running.take() {
            // A panic in the thread was printed there and only costs an export.
            running.join().ok();
        }
    }
}

/// The newest export in a job's folder.
pub(super) fn newest(job: &Path) -> Option<PathBuf> {
    exports(&job.join("checkpoints")).ok()?.pop()
}

/// The exports in a job's folder, as paths below it, oldest first, followed by the
/// remains of an interrupted one.
pub fn within(job: &Path) -> Vec<String> {
    let folder = job.join("checkpoints");
    let mut found = exports(&folder).unwrap_or_default();
    let unfinished = [UNFINISHED.to_owned(), format!("{UNFINISHED}.part")];
    found.extend(unfinished.map(|name| folder.join(name)));
    let names = found.iter().filter(|path| path.is_file());
    names
        .filter_map(|path| Some(format!("checkpoints/{}", path.file_name()?.to_str()?)))
        .collect()
}

/// Replaces all exports in a job's folder by one of the current frontier. Does nothing
/// if there are none.
///
/// # Errors
/// [`DumpError`]. The earlier exports are removed only after the new one is written.
pub fn renew(job: &Path, frontier: &Frontier, now: u64) -> Result<(), DumpError> {
    let earlier = within(job);
    if earlier.is_empty() {
        return Ok(());
    }
    let path = job.join("checkpoints").join(name(now));
    dump::write_file(&*frontier.snapshot(), &path)?;
    for old in earlier.iter().map(|old| job.join(old)) {
        if old != path {
            std::fs::remove_file(&old).map_err(|source| DumpError::Io {
                path: old.clone(),
                source,
            })?;
        }
    }
    Ok(())
}

fn export(view: Until, job: &Path, now: u64) -> Result<(PathBuf, u64), BackupError> {
    let folder = job.join("checkpoints");
    std::fs::create_dir_all(&folder).map_err(IoError::at(&folder, "making the folder"))?;
    let unfinished = folder.join(UNFINISHED);
    let found = dump::write_file(&view, &unfinished)?;
    let ended = view.ended.load(Ordering::Relaxed);
    // An open snapshot has a cost, and this one is no longer needed.
    drop(view);
    if ended || !found.is_whole() {
        std::fs::remove_file(&unfinished).map_err(IoError::at(&unfinished, "removing"))?;
        return Err(if ended {
            BackupError::Ended
        } else {
            BackupError::Damaged {
                damaged: found.damaged_count,
                why: found.cut_short,
            }
        });
    }
    // The outputs had reached the stamp before the snapshot was taken.
    sync_folder(job)?;
    let path = folder.join(name(now));
    atomic::rename_durably(&unfinished, &path)?;
    let all = exports(&folder).map_err(IoError::at(&folder, "listing"))?;
    for old in all.iter().rev().skip(KEPT) {
        std::fs::remove_file(old).map_err(IoError::at(old, "removing"))?;
    }
    Ok((path, found.urls))
}

/// The exports in a folder, oldest first.
fn exports(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("frontier-") && name.ends_with("Z.jsonl.gz") {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Names sort by time and are valid on every file system.
fn name(now: u64) -> String {
    let time = jiff::Timestamp::from_millisecond(i64::try_from(now).unwrap_or(i64::MAX));
    let time = time.unwrap_or(jiff::Timestamp::MAX);
    format!("frontier-{}.jsonl.gz", time.strftime("%Y%m%dT%H%M%SZ"))
}

/// A view that reports its end when the crawl ends.
struct Until {
    view: Box<dyn Readable>,
    ended: Arc<AtomicBool>,
}

impl Readable for Until {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.view.get(key)
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError> {
        self.view.scan(prefix, from, &mut |key, value| {
            if self.ended.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                visit(key, value)
            }
        })
    }

    fn path(&self) -> &Path {
        self.view.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_time() {
        let mut last = name(0);
        assert_eq!(last, "frontier-19700101T000000Z.jsonl.gz");
        for now in [1_000, 86_400_000, 1_800_000_000_000, u64::MAX] {
            let next = name(now);
            assert!(next > last, "{next} > {last}");
            last = next;
        }
    }
}
