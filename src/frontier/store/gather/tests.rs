//! The gathering store: when it writes, and what a killed process loses.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use super::super::MemoryStore;
use super::*;

/// A store that counts the writes of each batch, and fails on request.
struct Counting {
    store: MemoryStore,
    batches: Sender<usize>,
    /// How many batches it takes before it fails.
    left: Arc<Mutex<usize>>,
    /// How many writes it takes of the batch at which it fails.
    part: Arc<Mutex<usize>>,
}

impl Readable for Counting {
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

impl Store for Counting {
    fn apply(&mut self, batch: Batch) -> Result<(), StoreError> {
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

impl Backend for Counting {
    type Reader = MemoryStore;

    fn reader(&self) -> MemoryStore {
        self.store.reopened()
    }

    fn apply_all(&mut self, all: &[Borrowed<'_>]) -> Result<(), StoreError> {
        let mut left = self.left.lock().unwrap();
        let fails = *left == 0;
        let taken = if fails {
            *self.part.lock().unwrap()
        } else {
            *left -= 1;
            self.batches.send(all.len()).unwrap();
            all.len()
        };
        let mut batch = Batch::default();
        for (key, value) in &all[..taken] {
            match value {
                Some(value) => batch.put(key.to_vec(), value.to_vec()),
                None => batch.delete(key.to_vec()),
            }
        }
        self.store.apply(batch)?;
        if fails {
            return Err(StoreError::Io {
                path: self.path().to_owned(),
                why: "no space left".to_owned(),
            });
        }
        Ok(())
    }
}

const ALWAYS: usize = usize::MAX;

struct Fixture {
    store: Gathered<Counting>,
    batches: Receiver<usize>,
    left: Arc<Mutex<usize>>,
    part: Arc<Mutex<usize>>,
    pairs: MemoryStore,
    folder: tempfile::TempDir,
}

fn fixture() -> Fixture {
    over(MemoryStore::default(), tempfile::tempdir().unwrap())
}

fn over(pairs: MemoryStore, folder: tempfile::TempDir) -> Fixture {
    opened(pairs, folder).unwrap()
}

fn opened(pairs: MemoryStore, folder: tempfile::TempDir) -> Result<Fixture, StoreError> {
    let (sender, batches) = channel();
    let (left, part) = (Arc::new(Mutex::new(ALWAYS)), Arc::default());
    let counting = Counting {
        store: pairs.reopened(),
        batches: sender,
        left: Arc::clone(&left),
        part: Arc::clone(&part),
    };
    Ok(Fixture {
        store: Gathered::over(counting, folder.path(), Parts::Refused)?,
        batches,
        left,
        part,
        pairs,
        folder,
    })
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
    let mut test = fixture();
    test.store.apply(batch(&["a", "b"])).unwrap();
    assert_eq!(test.store.get(b"a").unwrap().as_deref(), Some(&b"x"[..]));
    let written = test.batches.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(written, 4);
}

#[test]
fn what_is_gathered_is_written_when_the_store_closes() {
    let mut test = fixture();
    let all: Vec<String> = (10..27).map(|n| n.to_string()).collect();
    let keys: Vec<&str> = all.iter().map(String::as_str).collect();
    test.store.apply(batch(&keys)).unwrap();
    assert!(
        std::fs::metadata(test.folder.path().join("journal"))
            .unwrap()
            .len()
            > 0
    );
    drop(test.store);
    assert_eq!(test.batches.iter().sum::<usize>(), 19);
    assert_eq!(
        std::fs::metadata(test.folder.path().join("journal"))
            .unwrap()
            .len(),
        0
    );
}

#[test]
fn reads_see_what_is_gathered_and_what_is_frozen() {
    let mut test = fixture();
    // While it is held, the thread applies nothing, however long this test is interrupted.
    let shared = Arc::clone(&test.store.shared);
    let _writer = shared.writer();
    for keys in [&["a1", "a3", "a5"][..], &["a2", "a3"], &["b1"]] {
        test.store.apply(batch(keys)).unwrap();
        // As the driver does after enough writes.
        test.store.shared.layers().freeze(false);
    }
    let mut without = Batch::default();
    without.delete(b"a1".to_vec());
    test.store.apply(without).unwrap();
    let mut keys = Vec::new();
    let each = &mut |key: &[u8], _: &[u8]| {
        keys.push(String::from_utf8(key.to_vec()).unwrap());
        ControlFlow::Continue(())
    };
    test.store.scan(b"a", b"", each).unwrap();
    assert_eq!(keys, ["a2", "a3", "a5"]);
    assert_eq!(test.store.get(b"a1").unwrap(), None);
    assert!(test.store.get(b"b1").unwrap().is_some());
}

#[test]
fn many_writes_do_not_wait_for_the_moment() {
    let mut test = fixture();
    for n in 0..2_000_u32 {
        test.store.apply(batch(&[&n.to_string()])).unwrap();
    }
    // The files of the journal are emptied in turns.
    let lengths = ["journal", "journal.2"].map(|name| {
        let path = test.folder.path().join(name);
        std::fs::metadata(path).unwrap().len()
    });
    assert!(lengths.iter().sum::<u64>() < 10_000, "{lengths:?}");
    drop(test.store);
    assert_eq!(test.pairs.pairs().len(), 2_002);
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
        let store = super::super::SledStore::open(path).unwrap();
        Gathered::over(store, path, Parts::Refused).unwrap()
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
fn a_failure_is_reported_and_nothing_is_lost_when_it_ends() {
    let mut test = fixture();
    *test.left.lock().unwrap() = 0;
    test.store.apply(batch(&["a"])).unwrap();
    // The thread meets it after a moment.
    while test.store.flush().is_ok() {
        std::thread::yield_now();
    }
    assert_eq!(test.store.get(b"a").unwrap().as_deref(), Some(&b"x"[..]));
    *test.left.lock().unwrap() = ALWAYS;
    // The thread may have met it again before; it is reported once each time.
    let written = loop {
        test.store.flush().ok();
        if let Ok(written) = test.batches.try_recv() {
            break written;
        }
    };
    assert_eq!(written, 3);
}

#[test]
fn what_a_failing_store_has_not_taken_is_in_the_journal() {
    let mut test = fixture();
    test.store.apply(batch(&["a", "b"])).unwrap();
    drop(test.store);
    let mut test = over(test.pairs, test.folder);
    *test.left.lock().unwrap() = 0;
    let mut second = batch(&["c"]);
    second.delete(b"a".to_vec());
    test.store.apply(second).unwrap();
    drop(test.store);
    assert!(test.pairs.pairs().contains_key(&b"a"[..]));

    let again = over(test.pairs, test.folder);
    let pairs = again.pairs.pairs();
    let keys: Vec<&[u8]> = pairs.keys().map(Vec::as_slice).collect();
    assert_eq!(keys, [BEGUN, NUMBER, b"b", b"c"]);
    assert_eq!(pairs.get(NUMBER), Some(&2_u64.to_be_bytes().to_vec()));
}

/// A store that took this many writes of its second batch, which removes a key and sets two, when
/// its process died.
fn with_a_part(of_second: usize) -> (MemoryStore, tempfile::TempDir) {
    let mut test = fixture();
    test.store.apply(batch(&["a", "b"])).unwrap();
    drop(test.store);
    let mut test = over(test.pairs, test.folder);
    *test.part.lock().unwrap() = of_second;
    *test.left.lock().unwrap() = 0;
    let mut second = batch(&["c", "d"]);
    second.delete(b"a".to_vec());
    test.store.apply(second).unwrap();
    drop(test.store);
    (test.pairs, test.folder)
}

#[test]
fn what_a_store_has_in_part_is_completed_from_the_journal() {
    for part in 0..=5 {
        let (pairs, folder) = with_a_part(part);
        let has = |key: &[u8]| pairs.pairs().contains_key(key);
        assert_eq!((has(b"a"), has(b"d")), (part < 2, part >= 4), "{part}");
        let again = over(pairs, folder);
        let pairs = again.pairs.pairs();
        let keys: Vec<&[u8]> = pairs.keys().map(Vec::as_slice).collect();
        assert_eq!(keys, [BEGUN, NUMBER, b"b", b"c", b"d"], "{part}");
    }
}

#[test]
fn a_part_whose_journal_is_gone_is_damage() {
    for part in 0..=5 {
        let (pairs, folder) = with_a_part(part);
        // As after a loss of power: the journal was not synced.
        for name in ["journal", "journal.2"] {
            std::fs::write(folder.path().join(name), b"").unwrap();
        }
        let counting = Counting {
            store: pairs.reopened(),
            batches: channel().0,
            left: Arc::new(Mutex::new(ALWAYS)),
            part: Arc::default(),
        };
        // A repair reads what is left.
        let left = Gathered::over(counting, folder.path(), Parts::Taken).unwrap();
        assert!(left.get(b"b").unwrap().is_some());
        assert_eq!(left.get(b"c").unwrap().is_some(), part >= 3, "{part}");
        drop(left);
        match (part, opened(pairs, folder)) {
            // Either nothing of it is there, or everything.
            (0 | 5, Ok(_)) => {}
            (1..5, Err(StoreError::Damaged { why, .. })) => {
                assert!(why.contains("a part of batch 2"), "{why}");
                assert!(why.contains("ends at batch 1"), "{why}");
            }
            (part, other) => panic!("{part}: {:?}", other.err()),
        }
    }
}
