//! A log of the batches that a store applied, in files beside it, until a checkpoint elsewhere has
//! them.
//!
//! [`Logged`] stands in front of a store. It numbers the batches as the frontier numbers its
//! commits, and appends each to the newest file before the store gets it. So the files show, even
//! after a restart, what has changed since any batch in them, and a reader on another thread needs
//! neither the store nor the crawl. The frames are as in `journal`.
//!
//! Files that cannot be written, or have become too long, are given up: the crawl continues without
//! them, and their reader needs the whole store once. The same applies if they end before the
//! store's last batch, as after a loss of power, and if the store was replaced, because they are in
//! its folder.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use super::journal::WriteRef;
use super::journal::{HEAD, open_frame, seal};
pub use super::journal::{push_write, take_write};
use super::{Batch, Readable, Store, StoreError, Visitor};
use crate::fs::beneath;

/// The prefix of the file names; the number of the first batch follows.
const NAME: &str = "changes.";
/// At this length, in bytes, the next batch begins another file.
const LONG: u64 = if cfg!(test) { 2_000 } else { 8 << 20 };
/// The maximum size of all files, in bytes.
const MOST: u64 = if cfg!(test) { 200_000 } else { 1 << 30 };
/// The largest buffer that is kept for the next frame, in bytes.
const LARGE: usize = 1 << 20;

/// The logged batches, for the store that writes and the thread that reads them.
pub struct Changes {
    folder: PathBuf,
    log: Mutex<Log>,
    changed: Condvar,
}

struct Log {
    /// The files in the order of their batches. The next batch goes to the last one.
    files: VecDeque<LogFile>,
    open: Option<File>,
    frame: Vec<u8>,
    /// The number of the last batch.
    last: u64,
    /// The last batch that the store has flushed.
    flushed: u64,
    /// A promise to a host was flushed since the last query.
    promised: bool,
    /// Why logging has stopped.
    given_up: Option<String>,
}

struct LogFile {
    /// The number of its first batch.
    first: u64,
    path: PathBuf,
    length: u64,
}

impl Changes {
    /// Opens the files in `folder` of a store whose last batch is `last`.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the folder cannot be read.
    pub fn open(folder: &Path, last: u64) -> Result<Self, StoreError> {
        let failed = |error: std::io::Error| StoreError::Io {
            path: folder.to_owned(),
            why: error.to_string(),
        };
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(NAME));
            if let Some(first) = number.and_then(|number| number.parse().ok()) {
                let path = entry.path();
                files.push(LogFile {
                    first,
                    path,
                    length: 0,
                });
            }
        }
        files.sort_by_key(|file| file.first);
        let mut log = Log {
            files: VecDeque::new(),
            open: None,
            frame: Vec::new(),
            last,
            flushed: last,
            promised: false,
            given_up: None,
        };
        let mut next = None;
        let mut files = files.into_iter();
        for mut file in files.by_ref() {
            if *next.get_or_insert(file.first) != file.first {
                remove(&file.path)?;
                continue;
            }
            let bytes = crate::fs::read(&file.path).map_err(failed)?;
            let mut rest = bytes.as_slice();
            while let Some((number, _, after)) = open_frame(rest)
                && Some(number) == next
                && number <= last
            {
                next = Some(number + 1);
                rest = after;
            }
            file.length = (bytes.len() - rest.len()) as u64;
            if !rest.is_empty() {
                // Later batches reuse these numbers.
                let opened = beneath::append_at(&file.path).map_err(failed)?;
                opened.set_len(file.length).map_err(failed)?;
            }
            log.files.push_back(file);
        }
        if next.is_some_and(|next| next != last + 1) {
            log.forget_all()?;
        }
        Ok(Self {
            folder: folder.to_owned(),
            log: Mutex::new(log),
            changed: Condvar::new(),
        })
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        // A panic in between leaves a file longer than noted, and the next frame is then not found:
        // that costs a whole checkpoint.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last batch.
    pub fn last(&self) -> u64 {
        self.log().last
    }

    /// The last batch that the store has flushed.
    pub fn flushed(&self) -> u64 {
        self.log().flushed
    }

    /// Whether all batches after this one are here.
    pub fn reach_back_to(&self, number: u64) -> bool {
        let log = self.log();
        let first = log.files.front().map_or(log.last + 1, |file| file.first);
        log.given_up.is_none() && first <= number + 1 && number <= log.last
    }

    /// Waits until a promise to a host is flushed, at most this long. Returns whether there was one
    /// since the last call that returned true.
    pub fn wait_for_promise(&self, most: Duration) -> bool {
        let log = self.log();
        let waited = self
            .changed
            .wait_timeout_while(log, most, |log| !log.promised);
        let (mut log, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut log.promised)
    }

    /// Ends a wait.
    pub fn wake(&self) {
        self.log().promised = true;
        self.changed.notify_all();
    }

    /// Passes the writes of the batches after `after` up to `until`, in order.
    ///
    /// # Errors
    /// [`StoreError::Io`] if a file cannot be read or one of the batches is not there, and
    /// that of `visit`.
    pub fn read<E: From<StoreError>>(
        &self,
        after: u64,
        until: u64,
        visit: &mut dyn FnMut(WriteRef<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let files: Vec<(u64, PathBuf)> = {
            let log = self.log();
            let all = log.files.iter();
            all.map(|file| (file.first, file.path.clone())).collect()
        };
        let failed = |why: String| StoreError::Io {
            path: self.folder.clone(),
            why,
        };
        let mut next = after + 1;
        let following = files.iter().skip(1).map(|(first, _)| Some(*first));
        for ((first, path), end) in files.iter().zip(following.chain([None])) {
            if end.is_some_and(|end| end <= next) || *first > until {
                continue;
            }
            let bytes = crate::fs::read(path).map_err(|e| failed(e.to_string()))?;
            let mut rest = bytes.as_slice();
            while next <= until
                && let Some((number, mut writes, behind)) = open_frame(rest)
            {
                rest = behind;
                if number != next {
                    continue;
                }
                while !writes.is_empty() {
                    let damaged = || failed(format!("the batch {number} cannot be read"));
                    let (write, left) = take_write(writes).ok_or_else(damaged)?;
                    visit(write)?;
                    writes = left;
                }
                next += 1;
            }
        }
        if next <= until {
            return Err(failed(format!("the batch {next} is not in the files `{NAME}*`")).into());
        }
        Ok(())
    }

    /// Removes files that have no batch after this one.
    ///
    /// # Errors
    /// [`StoreError::Io`] if a file cannot be removed.
    pub fn forget(&self, number: u64) -> Result<(), StoreError> {
        let mut log = self.log();
        if log.last <= number {
            return log.forget_all();
        }
        while log
            .files
            .get(1)
            .is_some_and(|next| next.first <= number + 1)
        {
            if let Some(file) = log.files.pop_front() {
                remove(&file.path)?;
            }
        }
        Ok(())
    }

    /// Starts over after the last batch. To be called between two batches.
    ///
    /// # Errors
    /// [`StoreError::Io`] if a file cannot be removed.
    pub fn begin(&self) -> Result<(), StoreError> {
        let mut log = self.log();
        if log.given_up.take().is_some() {
            log.forget_all()?;
        }
        Ok(())
    }
}

impl Log {
    fn forget_all(&mut self) -> Result<(), StoreError> {
        self.open = None;
        while let Some(file) = self.files.pop_front() {
            remove(&file.path)?;
        }
        Ok(())
    }

    /// Logs the next batch. A failure here must not stop the crawl.
    fn append(&mut self, folder: &Path, batch: &Batch) {
        self.last += 1;
        if self.given_up.is_some() {
            return;
        }
        let total: u64 = self.files.iter().map(|file| file.length).sum();
        let written = if total > MOST {
            Err(std::io::Error::other(format!("they have {total} bytes")))
        } else {
            self.write(folder, batch)
        };
        if let Err(error) = written {
            tracing::warn!(
                "{}: the changes since the last checkpoint cannot be kept ({error}); the next \
                 checkpoint has to send the whole frontier",
                folder.display()
            );
            self.given_up = Some(error.to_string());
            // Remaining files will not reach up to the store's last batch, or will be removed at
            // the next start.
            self.forget_all().ok();
        }
    }

    fn write(&mut self, folder: &Path, batch: &Batch) -> std::io::Result<()> {
        let is_full = self.files.back().is_none_or(|file| file.length >= LONG);
        if is_full {
            let path = folder.join(format!("{NAME}{:020}", self.last));
            self.files.push_back(LogFile {
                first: self.last,
                path,
                length: 0,
            });
            self.open = None;
        }
        let Some(current) = self.files.back_mut() else {
            return Ok(());
        };
        let file = match &mut self.open {
            Some(file) => file,
            none => none.insert(beneath::append_at(&current.path)?),
        };
        let frame = &mut self.frame;
        frame.clear();
        frame.resize(HEAD, 0);
        for (key, value) in batch.writes() {
            push_write(frame, key, value.as_deref());
        }
        seal(frame, self.last);
        file.write_all(frame)?;
        current.length += frame.len() as u64;
        if frame.capacity() > LARGE {
            self.frame = Vec::new();
        }
        Ok(())
    }
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(StoreError::Io {
            path: path.to_owned(),
            why: error.to_string(),
        }),
        _ => Ok(()),
    }
}

/// A store whose batches are logged.
pub struct Logged {
    store: Box<dyn Store>,
    changes: Arc<Changes>,
}

impl Logged {
    /// Puts it in front of a store whose batches are in `changes`.
    pub fn over(store: Box<dyn Store>, changes: Arc<Changes>) -> Self {
        Self { store, changes }
    }
}

impl Readable for Logged {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(key)
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError> {
        self.store.scan(prefix, from, visit)
    }

    fn path(&self) -> &Path {
        self.store.path()
    }
}

impl Store for Logged {
    fn apply(&mut self, batch: Batch) -> Result<(), StoreError> {
        self.changes.log().append(&self.changes.folder, &batch);
        self.store.apply(batch)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let last = self.changes.log().last;
        self.store.flush()?;
        self.changes.log().flushed = last;
        Ok(())
    }

    fn flush_promise(&mut self) -> Result<(), StoreError> {
        self.flush()?;
        self.changes.wake();
        Ok(())
    }

    fn size(&self) -> Result<u64, StoreError> {
        self.store.size()
    }

    fn compact(&mut self) -> Result<bool, StoreError> {
        self.store.compact()
    }

    fn snapshot(&self) -> Box<dyn Readable> {
        self.store.snapshot()
    }

    fn warm(&mut self, keys: usize) -> Result<(), StoreError> {
        self.store.warm(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::super::MemoryStore;
    use super::*;

    fn store(folder: &Path, last: u64) -> (Logged, Arc<Changes>) {
        let changes = Arc::new(Changes::open(folder, last).unwrap());
        let store = Box::new(MemoryStore::new(folder));
        (Logged::over(store, Arc::clone(&changes)), changes)
    }

    fn batch(n: u8) -> Batch {
        let mut batch = Batch::default();
        batch.put(vec![n], vec![n; 700]);
        batch.delete(vec![n, 1]);
        batch
    }

    fn numbers(changes: &Changes, after: u64, until: u64) -> Result<Vec<u64>, StoreError> {
        let mut found = Vec::new();
        let mut read = Batch::default();
        changes.read::<StoreError>(after, until, &mut |(key, value)| {
            match value {
                Some(value) => read.put(key.to_vec(), value.to_vec()),
                None => read.delete(key.to_vec()),
            }
            if read.writes().count() == 2 {
                let whole = std::mem::take(&mut read);
                let n = whole.writes().next().unwrap().0[0];
                assert!(whole.into_writes().eq(batch(n).into_writes()));
                found.push(n.into());
            }
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn batches_are_read_until_they_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, changes) = store(folder.path(), 0);
        (1..=20).for_each(|n| store.apply(batch(n)).unwrap());
        assert_eq!(changes.flushed(), 0);
        store.flush().unwrap();
        assert_eq!(changes.flushed(), 20);
        assert!(!changes.wait_for_promise(Duration::ZERO));
        store.flush_promise().unwrap();
        assert!(changes.wait_for_promise(Duration::ZERO));
        assert_eq!(
            numbers(&changes, 0, 20).unwrap(),
            (1..=20).collect::<Vec<_>>()
        );
        assert_eq!(numbers(&changes, 7, 9).unwrap(), [8, 9]);
        assert!(numbers(&changes, 7, 21).is_err());
        changes.forget(10).unwrap();
        assert!(changes.reach_back_to(10) && !changes.reach_back_to(0));
        assert_eq!(numbers(&changes, 10, 20).unwrap().len(), 10);
        changes.forget(20).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        store.apply(batch(21)).unwrap();
        assert_eq!(numbers(&changes, 20, 21).unwrap(), [21]);
    }

    #[test]
    fn a_restart_finds_what_the_store_has_and_nothing_else() {
        for last in 0..=12 {
            let folder = tempfile::tempdir().unwrap();
            let (mut before, _) = store(folder.path(), 0);
            (1..=10).for_each(|n| before.apply(batch(n)).unwrap());
            drop(before);
            // The store may lack the last ones, or have some that are not here.
            let (mut after, changes) = store(folder.path(), last);
            assert_eq!(changes.reach_back_to(0), last <= 10, "{last}");
            assert!(changes.reach_back_to(last));
            let n = u8::try_from(last + 1).unwrap();
            after.apply(batch(n)).unwrap();
            assert_eq!(numbers(&changes, last, last + 1).unwrap(), [last + 1]);
            if last <= 10 {
                let all: Vec<u64> = (1..=last + 1).collect();
                assert_eq!(numbers(&changes, 0, last + 1).unwrap(), all);
            }
        }
    }

    #[test]
    fn a_log_that_is_too_long_is_given_up_and_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, changes) = store(folder.path(), 0);
        (0..300_u16).for_each(|n| store.apply(batch((n % 200) as u8)).unwrap());
        assert!(!changes.reach_back_to(299) && !changes.reach_back_to(300));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        changes.begin().unwrap();
        assert!(changes.reach_back_to(300));
        store.apply(batch(0)).unwrap();
        assert_eq!(numbers(&changes, 300, 301).unwrap(), [0]);
    }
}
