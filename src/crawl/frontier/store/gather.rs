//! A store in front of another that gathers batches and applies several as one.
//!
//! sled writes its log twice for each batch, waits for the disk both times, and wakes seven
//! threads for each write: with four or five batches a page that was a tenth of a crawl's
//! CPU time, and 400 KB of writing a page. So batches are gathered for a moment and applied
//! together, all or none. Reads see what is gathered.
//!
//! Each batch is written to a [`Journal`] before. A process that is killed has lost neither
//! what was gathered nor what the backend had not written: both are in the journal, which is
//! emptied only after a flush. At the next opening its batches are applied again, except
//! those that the store has: it keeps the number of its last one.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::journal::Journal;
use super::{Batch, Readable, Store, StoreError, Visitor};

/// How long batches are gathered, where no later one brings them into the store.
const LONGEST: Duration = Duration::from_millis(100);
/// How long batches are gathered, where others follow.
const USUAL: Duration = Duration::from_millis(50);
/// The most writes that are gathered.
const WRITES: usize = if cfg!(test) { 50 } else { 2_000 };
/// The length in bytes at which the journal is emptied by a flush.
const JOURNAL: u64 = if cfg!(test) { 2_000 } else { 16 << 20 };
/// The journal in the folder of the store.
const FILE: &str = "journal";
/// The key of the number of the last batch in the store. No other key begins so.
const NUMBER: &[u8] = b"\0gathered";
/// How many pairs a scan reads at first, and at most, at a time. Most scans want one pair.
const FIRST: usize = 2;
const PIECE: usize = if cfg!(test) { 8 } else { 512 };

/// A store whose batches are gathered.
pub(super) struct Gathered<S: Store + 'static> {
    shared: Arc<Shared<S>>,
    path: PathBuf,
    /// Applies what is gathered where nothing else does.
    thread: Option<JoinHandle<()>>,
}

struct Shared<S> {
    state: Mutex<State<S>>,
    changed: Condvar,
}

struct State<S> {
    store: S,
    /// The gathered writes; `None` removes a key.
    gathered: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    journal: Journal,
    /// The number of the last batch.
    number: u64,
    /// Since when they are gathered.
    since: Option<Instant>,
    /// The error of the thread, for the next caller.
    failed: Option<StoreError>,
    is_closing: bool,
}

impl<S: Store> State<S> {
    /// Applies what is gathered. After an error it stays gathered.
    fn apply(&mut self) -> Result<(), StoreError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.gathered.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::default();
        for (key, value) in &self.gathered {
            match value {
                Some(value) => batch.put(key.clone(), value.clone()),
                None => batch.delete(key.clone()),
            }
        }
        batch.put(NUMBER.to_vec(), self.number.to_be_bytes().to_vec());
        self.store.apply(batch)?;
        self.gathered.clear();
        self.since = None;
        Ok(())
    }

    /// Applies what is gathered, and returns when it is safe on disk.
    fn flush(&mut self) -> Result<(), StoreError> {
        self.apply()?;
        self.store.flush()?;
        self.journal.clear()
    }

    /// How long what is gathered may still wait.
    fn left(&self, longest: Duration) -> Option<Duration> {
        let since = self.since?;
        Some(longest.saturating_sub(since.elapsed()))
    }
}

impl<S> Shared<S> {
    fn state(&self) -> MutexGuard<'_, State<S>> {
        // What is gathered changes in steps that cannot panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Store> Shared<S> {
    /// Applies what is gathered whenever it has waited long enough, until the store closes.
    fn run(&self) {
        let mut state = self.state();
        while !state.is_closing {
            let left = state.left(LONGEST).filter(|_| state.failed.is_none());
            state = match left {
                None => {
                    let woken = self.changed.wait(state);
                    woken.unwrap_or_else(PoisonError::into_inner)
                }
                Some(Duration::ZERO) => {
                    state.failed = state.apply().err();
                    state
                }
                Some(left) => {
                    let woken = self.changed.wait_timeout(state, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

impl<S: Store> Gathered<S> {
    /// Puts it in front of a store, whose journal is in `folder`. What a killed process left
    /// there is applied.
    ///
    /// # Errors
    /// [`StoreError`] where the store or the journal fails.
    pub(super) fn over(store: S, folder: &Path) -> Result<Self, StoreError> {
        let path = store.path().to_owned();
        let (journal, batches) = Journal::open(&folder.join(FILE))?;
        let number = store.get(NUMBER)?;
        let number = number.and_then(|bytes| bytes.try_into().ok());
        let mut number = number.map_or(0, u64::from_be_bytes);
        let mut missing = BTreeMap::new();
        for (own, writes) in batches {
            if own == number + 1 {
                number = own;
                missing.extend(writes);
            }
        }
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                store,
                gathered: missing,
                journal,
                number,
                since: None,
                failed: None,
                is_closing: false,
            }),
            changed: Condvar::new(),
        });
        if shared.state().journal.length() > 0 {
            shared.state().flush()?;
        }
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("store gather".to_owned());
        let thread = thread.spawn(move || own.run());
        Ok(Self {
            shared,
            path,
            thread: thread.ok(),
        })
    }
}

impl<S: Store> Drop for Gathered<S> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.is_closing = true;
        if let Err(error) = state.apply() {
            // The run has ended with this error, or ends with an earlier one.
            tracing::debug!(%error, "the last changes of the frontier were not written");
        }
        drop(state);
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It ends at once; a panic in it was printed.
            thread.join().ok();
        }
    }
}

impl<S: Store> Readable for Gathered<S> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let state = self.shared.state();
        match state.gathered.get(key) {
            Some(value) => Ok(value.clone()),
            None => state.store.get(key),
        }
    }

    /// Piece by piece, so that the visitor may read the store itself.
    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError> {
        let mut from = if from > prefix { from } else { prefix }.to_vec();
        let mut most = FIRST;
        loop {
            let mut pairs = BTreeMap::new();
            let state = self.shared.state();
            state.store.scan(prefix, &from, &mut |key, value| {
                if key != NUMBER {
                    pairs.insert(key.to_vec(), Some(value.to_vec()));
                }
                if pairs.len() < most {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
            // Up to the last key of a full piece; to the end after the last piece.
            let last = pairs.last_key_value().map(|(key, _)| key.clone());
            let until = last.filter(|_| pairs.len() == most);
            let upper = until.as_ref().map_or(Bound::Unbounded, Bound::Included);
            let gathered = state
                .gathered
                .range::<Vec<u8>, _>((Bound::Included(&from), upper));
            for (key, value) in gathered.take_while(|(key, _)| key.starts_with(prefix)) {
                pairs.insert(key.clone(), value.clone());
            }
            drop(state);
            for (key, value) in &pairs {
                if let Some(value) = value
                    && visit(key, value).is_break()
                {
                    return Ok(());
                }
            }
            let Some(mut next) = until else {
                return Ok(());
            };
            next.push(0);
            from = next;
            most = (most * 8).min(PIECE);
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl<S: Store> Store for Gathered<S> {
    fn apply(&mut self, batch: Batch) -> Result<(), StoreError> {
        let mut state = self.shared.state();
        let is_due = state.left(USUAL).is_some_and(|left| left.is_zero());
        // Before this batch is added, so that an error is never about a batch that is
        // gathered nevertheless.
        let is_full = state.gathered.len() >= WRITES;
        if is_due || is_full || state.failed.is_some() {
            state.apply()?;
        }
        if state.journal.length() >= JOURNAL {
            state.flush()?;
        }
        let number = state.number + 1;
        state.journal.append(number, batch.writes())?;
        state.number = number;
        state.gathered.extend(batch.into_writes());
        if state.since.is_none() {
            state.since = Some(Instant::now());
            drop(state);
            self.shared.changed.notify_all();
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.shared.state().flush()
    }

    fn size(&self) -> Result<u64, StoreError> {
        self.shared.state().store.size()
    }

    fn compact(&mut self) -> Result<bool, StoreError> {
        let mut state = self.shared.state();
        state.apply()?;
        state.store.compact()
    }

    fn snapshot(&self) -> Box<dyn Readable> {
        let mut state = self.shared.state();
        if let Err(error) = state.apply() {
            state.failed = Some(error);
        }
        Box::new(Snapshot(state.store.snapshot()))
    }

    fn warm(&mut self, keys: usize) -> Result<(), StoreError> {
        self.shared.state().store.warm(keys)
    }
}

/// A snapshot of the store behind, without the number of the last batch.
struct Snapshot(Box<dyn Readable>);

impl Readable for Snapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.get(key)
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError> {
        self.0.scan(prefix, from, &mut |key, value| match key {
            NUMBER => ControlFlow::Continue(()),
            key => visit(key, value),
        })
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::super::MemoryStore;
    use super::*;

    /// A store that says how many writes each batch has, and fails where it is told to.
    struct Told {
        store: MemoryStore,
        batches: Sender<usize>,
        fails: Arc<Mutex<bool>>,
    }

    impl Readable for Told {
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

    impl Store for Told {
        fn apply(&mut self, batch: Batch) -> Result<(), StoreError> {
            if *self.fails.lock().unwrap() {
                let why = "no space left".to_owned();
                let path = self.path().to_owned();
                return Err(StoreError::Io { path, why });
            }
            self.batches.send(batch.writes_of(b"").count()).unwrap();
            self.store.apply(batch)
        }

        fn flush(&mut self) -> Result<(), StoreError> {
            self.store.flush()
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
    }

    struct Fixture {
        store: Gathered<Told>,
        batches: Receiver<usize>,
        fails: Arc<Mutex<bool>>,
        _folder: tempfile::TempDir,
    }

    fn fixture() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let (sender, batches) = channel();
        let fails = Arc::new(Mutex::new(false));
        let told = Told {
            store: MemoryStore::default(),
            batches: sender,
            fails: Arc::clone(&fails),
        };
        Fixture {
            store: Gathered::over(told, folder.path()).unwrap(),
            batches,
            fails,
            _folder: folder,
        }
    }

    fn batch(keys: &[&str]) -> Batch {
        let mut batch = Batch::default();
        for key in keys {
            batch.put(key.as_bytes().to_vec(), b"x".to_vec());
        }
        batch
    }

    #[test]
    fn what_is_gathered_is_written_after_a_moment_though_nothing_follows() {
        let Fixture {
            mut store,
            batches,
            _folder,
            ..
        } = fixture();
        store.apply(batch(&["a", "b"])).unwrap();
        assert_eq!(store.get(b"a").unwrap().as_deref(), Some(&b"x"[..]));
        let written = batches.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(written, 3);
    }

    #[test]
    fn a_flush_writes_what_is_gathered() {
        let Fixture {
            mut store,
            batches,
            _folder,
            ..
        } = fixture();
        store.apply(batch(&["a"])).unwrap();
        store.flush().unwrap();
        assert_eq!(batches.try_iter().sum::<usize>(), 2);
    }

    #[test]
    fn what_is_gathered_is_written_when_the_store_closes() {
        let Fixture {
            mut store,
            batches,
            _folder,
            ..
        } = fixture();
        store.apply(batch(&["a"])).unwrap();
        drop(store);
        assert_eq!(batches.iter().sum::<usize>(), 2);
    }

    /// The files of an open store are what a killed process leaves.
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let (path, name) = entry.map(|e| (e.path(), e.file_name())).unwrap();
            if path.is_dir() {
                copy(&path, &to.join(name));
            } else {
                std::fs::copy(path, to.join(name)).unwrap();
            }
        }
    }

    #[test]
    fn a_killed_process_has_lost_no_batch() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let open = |path: &Path| {
            Gathered::over(super::super::SledStore::open(path).unwrap(), path).unwrap()
        };
        let mut store = open(&path);
        for n in 0..100_u8 {
            let mut batch = Batch::default();
            batch.put(b"last".to_vec(), vec![n]);
            batch.put(vec![1, n], vec![n; 40]);
            if n > 2 {
                batch.delete(vec![1, n - 3]);
            }
            store.apply(batch).unwrap();
            if n % 10 == 7 {
                let left = folder.path().join(n.to_string());
                copy(&path, &left);
                let killed = open(&left);
                assert_eq!(killed.get(b"last").unwrap(), Some(vec![n]));
                let mut keys = Vec::new();
                let each = &mut |key: &[u8], _: &[u8]| {
                    keys.push(key.to_vec());
                    ControlFlow::Continue(())
                };
                killed.scan(&[1], &[], each).unwrap();
                assert_eq!(keys, [vec![1, n - 2], vec![1, n - 1], vec![1, n]]);
            }
        }
    }

    #[test]
    fn a_failure_is_told_and_nothing_is_lost_when_it_ends() {
        let Fixture {
            mut store,
            batches,
            fails,
            _folder,
        } = fixture();
        *fails.lock().unwrap() = true;
        store.apply(batch(&["a"])).unwrap();
        assert!(store.flush().is_err());
        // The thread may have met it too; each error is told once.
        *fails.lock().unwrap() = false;
        while store.flush().is_err() {}
        assert_eq!(store.get(b"a").unwrap().as_deref(), Some(&b"x"[..]));
        assert_eq!(batches.try_iter().sum::<usize>(), 2);
    }
}
