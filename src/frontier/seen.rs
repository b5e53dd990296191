//! The seen set in memory, in front of the store.
//!
//! Most links of a page are either new or were found recently. For new ones a Bloom
//! filter over all keys of the seen set reports *certainly absent*; for the others the
//! recent records are cached. Neither decides alone that a key exists: a possible hit of
//! the filter is always looked up in the store, so a false "seen" is impossible. While
//! the filter is still being filled after a restart, its "absent" is looked up as well,
//! so no key is missed.
//!
//! Data that belongs to a key of the seen set has its own key: one byte followed by that key.
//! It is cached as well, and is certainly absent if its owner is.
//!
//! This is a [`Store`] over a store. It knows two key prefixes and nothing about their meaning.
//!
//! If several cells have a frontier each, each has a filter, which starts small, and all share the
//! caches ([`Memory`]). So their number costs almost no memory.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hasher};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fastbloom::BloomFilter;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::cell::{CellCount, CellId, Space};
use super::store::{Batch, Readable, Store, StoreError, Visitor};

/// Keys in the first layer of the filter; each further layer holds four times as many as
/// the previous one, so ten million keys need five layers.
const FIRST_LAYER: usize = 100_000;

/// The minimum size of the first layer of a cell's filter: 1.6 kB.
const LEAST_LAYER: usize = 1_000;

/// Greatest share of absent keys that a full layer reports as present.
const FALSE_POSITIVES: f64 = 0.002;

/// Size of the cache of recent records, in bytes including keys.
const RECENT_BYTES: u64 = 32 * 1024 * 1024;

/// The same for what belongs to those keys.
const OWNED_BYTES: u64 = if cfg!(test) { 200_000 } else { 4 * 1024 * 1024 };

/// Approximate overhead of an entry, in bytes.
const ENTRY_OVERHEAD: u64 = 100;

/// Counts of lookups, by the source of the answer.
#[derive(Debug, Default)]
pub struct Questions {
    asked: AtomicU64,
    stored: AtomicU64,
}

impl Questions {
    /// All lookups since the store was opened, and the number of those that needed the
    /// store itself.
    pub fn asked_and_stored(&self) -> (u64, u64) {
        let asked = self.asked.load(Ordering::Relaxed);
        (asked, self.stored.load(Ordering::Relaxed))
    }
}

/// How much memory the filters and caches of one store may take.
#[derive(Clone)]
pub(super) struct Memory {
    recent: Arc<Recent>,
    recent_owned: Arc<Recent>,
    /// Keys in the first layer of the filter.
    first_layer: usize,
    /// The prefix of a cell's keys in the caches.
    space: Option<Space>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            recent: Arc::new(recent(RECENT_BYTES)),
            recent_owned: Arc::new(recent(OWNED_BYTES)),
            first_layer: FIRST_LAYER,
            space: None,
        }
    }
}

impl Memory {
    /// The share of a cell: the same caches, and a filter that starts smaller.
    pub fn of_cell(&self, cell: CellId, cells: CellCount) -> Self {
        let first_layer = FIRST_LAYER / usize::from(cells.number());
        Self {
            first_layer: first_layer.max(LEAST_LAYER),
            // A single cell needs none.
            space: (cells != CellCount::ONE).then(|| cell.space()),
            ..self.clone()
        }
    }

    /// Whether both use the same caches.
    #[cfg(test)]
    pub fn shares_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.recent, &other.recent)
            && Arc::ptr_eq(&self.recent_owned, &other.recent_owned)
    }

    /// Forgets the records of a cell that leaves.
    pub fn forget(&self, cell: CellId) {
        let space = cell.space();
        for cache in [&self.recent, &self.recent_owned] {
            // The keys of a single cell have no space.
            cache.retain(|key, _| key.first() >= Some(&0x80) && !key.starts_with(&space));
        }
    }

    /// The key in the caches.
    fn cached<'k>(&self, key: &'k [u8]) -> Cow<'k, [u8]> {
        match &self.space {
            None => Cow::Borrowed(key),
            Some(space) => Cow::Owned([space, key].concat()),
        }
    }
}

/// A store with a cache for the keys with one prefix.
pub(super) struct Seen {
    store: Box<dyn Store>,
    prefix: &'static [u8],
    filter: Filter,
    /// Where the reading of earlier keys continues; `None` when all are read.
    unread: Option<Vec<u8>>,
    /// The first byte of keys that belong to keys of the set.
    owned: u8,
    memory: Memory,
    questions: Arc<Questions>,
}

/// Recent pairs.
type Recent = Cache<Box<[u8]>, Box<[u8]>, Bytes>;

fn recent(bytes: u64) -> Recent {
    let items = usize::try_from(bytes / 256).unwrap_or(usize::MAX);
    Cache::with_weighter(items, bytes, Bytes)
}

impl Seen {
    pub fn over(store: Box<dyn Store>, prefix: &'static [u8], owned: u8, memory: Memory) -> Self {
        Self {
            store,
            prefix,
            owned,
            filter: Filter::beginning_with(memory.first_layer),
            unread: Some(prefix.to_vec()),
            memory,
            questions: Arc::default(),
        }
    }

    pub fn questions(&self) -> Arc<Questions> {
        Arc::clone(&self.questions)
    }

    /// Whether a key of the set is certainly not in the store.
    fn is_absent(&self, key: &[u8]) -> bool {
        self.unread.is_none() && !self.filter.may_contain(key)
    }

    /// What belongs to a key of the set.
    fn get_owned(&self, key: &[u8], owner: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let cached = self.memory.cached(key);
        if let Some(value) = self.memory.recent_owned.get(&*cached) {
            return Ok(Some(value.into_vec()));
        }
        if self.is_absent(owner) {
            return Ok(None);
        }
        let value = self.store.get(key)?;
        if let Some(value) = &value {
            let recent = &self.memory.recent_owned;
            recent.insert((&*cached).into(), value.as_slice().into());
        }
        Ok(value)
    }

    /// Puts the writes to keys with this prefix into a cache of recent pairs.
    fn follow(&self, recent: &Recent, batch: &Batch, prefix: &[u8]) {
        for (key, value) in batch.writes_of(prefix) {
            let key = self.memory.cached(key);
            match value {
                Some(value) => recent.insert((&*key).into(), value.into()),
                None => {
                    recent.remove(&*key);
                }
            }
        }
    }
}

impl Readable for Seen {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        if !key.starts_with(self.prefix) {
            return match key.split_first() {
                Some((first, owner)) if *first == self.owned => self.get_owned(key, owner),
                _ => self.store.get(key),
            };
        }
        self.questions.asked.fetch_add(1, Ordering::Relaxed);
        let cached = self.memory.cached(key);
        if let Some(value) = self.memory.recent.get(&*cached) {
            return Ok(Some(value.into_vec()));
        }
        if self.is_absent(key) {
            return Ok(None);
        }
        self.questions.stored.fetch_add(1, Ordering::Relaxed);
        let value = self.store.get(key)?;
        if let Some(value) = &value {
            let recent = &self.memory.recent;
            recent.insert((&*cached).into(), value.as_slice().into());
        }
        Ok(value)
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError> {
        self.store.scan(prefix, from, visit)
    }

    fn path(&self) -> &Path {
        self.store.path()
    }
}

impl Store for Seen {
    fn apply(&mut self, batch: Batch) -> Result<(), StoreError> {
        for (key, _) in batch.writes_of(self.prefix) {
            // Before the write: a key that is only in the filter costs a lookup, but one that is
            // missing from it would be overlooked.
            self.filter.insert(key);
        }
        self.follow(&self.memory.recent, &batch, self.prefix);
        self.follow(&self.memory.recent_owned, &batch, &[self.owned]);
        // After a failed batch the caches may be wrong.
        self.store.apply(batch).inspect_err(|_| {
            self.memory.recent.clear();
            self.memory.recent_owned.clear();
        })
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.store.flush()
    }

    fn flush_promise(&mut self) -> Result<(), StoreError> {
        self.store.flush_promise()
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
        let Some(from) = self.unread.take() else {
            return Ok(());
        };
        let mut left = keys;
        let mut next = None;
        let filter = &mut self.filter;
        let scanned = self.store.scan(self.prefix, &from, &mut |key, _| {
            if left == 0 {
                next = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            left -= 1;
            filter.insert(key);
            ControlFlow::Continue(())
        });
        self.unread = if scanned.is_err() { Some(from) } else { next };
        scanned
    }
}

/// A Bloom filter that grows by layers (Almeida et al. 2007, *Scalable Bloom Filters*):
/// about two bytes per key.
struct Filter {
    layers: Vec<BloomFilter>,
    /// The capacity of the first layer.
    first: usize,
    /// The remaining and the initial room of the last layer, in keys.
    room: usize,
    capacity: usize,
}

impl Filter {
    fn beginning_with(first: usize) -> Self {
        Self {
            layers: Vec::new(),
            first,
            room: 0,
            capacity: 0,
        }
    }

    fn may_contain(&self, key: &[u8]) -> bool {
        let hash = hash(key);
        self.layers.iter().any(|layer| layer.contains_hash(hash))
    }

    fn insert(&mut self, key: &[u8]) {
        let hash = hash(key);
        if self.layers.iter().any(|layer| layer.contains_hash(hash)) {
            return;
        }
        if self.room == 0 {
            self.capacity = match self.capacity {
                0 => self.first,
                last => last.saturating_mul(4),
            };
            self.room = self.capacity;
            let layer = BloomFilter::with_false_pos(FALSE_POSITIVES);
            self.layers.push(layer.expected_items(self.capacity));
        }
        self.room -= 1;
        if let Some(layer) = self.layers.last_mut() {
            layer.insert_hash(hash);
        }
    }
}

fn hash(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    hasher.finish()
}

/// The weight of a cache entry: its size in memory.
#[derive(Clone)]
struct Bytes;

impl Weighter<Box<[u8]>, Box<[u8]>> for Bytes {
    fn weight(&self, key: &Box<[u8]>, value: &Box<[u8]>) -> u64 {
        (key.len() + value.len()) as u64 + ENTRY_OVERHEAD
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use super::*;

    /// A store in memory that counts its lookups.
    #[derive(Default)]
    struct Counting {
        pairs: BTreeMap<Vec<u8>, Vec<u8>>,
        full: bool,
        asked: Arc<Mutex<Vec<Vec<u8>>>>,
    }

    impl Readable for Counting {
        fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            self.asked.lock().unwrap().push(key.to_vec());
            Ok(self.pairs.get(key).cloned())
        }
        fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError> {
            let start = prefix.max(from).to_vec();
            for (key, value) in self.pairs.range(start..) {
                if !key.starts_with(prefix) || visit(key, value).is_break() {
                    break;
                }
            }
            Ok(())
        }
        fn path(&self) -> &Path {
            Path::new("")
        }
    }

    impl Store for Counting {
        fn apply(&mut self, batch: Batch) -> Result<(), StoreError> {
            if self.full {
                return Err(StoreError::Io {
                    path: "".into(),
                    why: "no space left".to_owned(),
                });
            }
            for (key, value) in batch.into_writes() {
                match value {
                    Some(value) => self.pairs.insert(key, value),
                    None => self.pairs.remove(&key),
                };
            }
            Ok(())
        }
        fn flush(&mut self) -> Result<(), StoreError> {
            Ok(())
        }
        fn size(&self) -> Result<u64, StoreError> {
            Ok(0)
        }
        fn compact(&mut self) -> Result<bool, StoreError> {
            Ok(true)
        }
        fn snapshot(&self) -> Box<dyn Readable> {
            Box::new(Self {
                pairs: self.pairs.clone(),
                full: self.full,
                asked: Arc::default(),
            })
        }
    }

    fn over(store: Counting) -> Seen {
        Seen::over(Box::new(store), b"U", b'E', Memory::default())
    }

    fn key(n: usize) -> Vec<u8> {
        format!("Uhost-{n}.example\0phs/page").into_bytes()
    }

    fn write(seen: &mut Seen, n: usize, value: &[u8]) {
        let mut batch = Batch::default();
        batch.put(key(n), value.to_vec());
        seen.apply(batch).unwrap();
    }

    #[test]
    fn what_is_there_is_always_found_and_what_is_not_is_not() {
        let mut before = Counting::default();
        for n in 0..1_000 {
            before.pairs.insert(key(n), vec![1]);
        }
        let mut seen = over(before);
        for n in 1_000..1_500 {
            write(&mut seen, n, &[2]);
        }
        // During and after the reading of earlier keys.
        for slice in 0..25 {
            for n in (0..1_000).step_by(37) {
                assert_eq!(seen.get(&key(n)).unwrap(), Some(vec![1]), "{slice} {n}");
            }
            assert_eq!(seen.get(&key(1_400)).unwrap(), Some(vec![2]));
            assert_eq!(seen.get(&key(9_999)).unwrap(), None);
            seen.warm(100).unwrap();
        }
        assert_eq!(seen.unread, None);
        write(&mut seen, 3, &[3]);
        assert_eq!(seen.get(&key(3)).unwrap(), Some(vec![3]));
        let mut batch = Batch::default();
        batch.delete(key(3));
        seen.apply(batch).unwrap();
        assert_eq!(seen.get(&key(3)).unwrap(), None);
    }

    #[test]
    fn new_and_recent_keys_do_not_touch_the_store() {
        let store = Counting::default();
        let asked = Arc::clone(&store.asked);
        let mut seen = over(store);
        seen.warm(1).unwrap();
        for n in 0..20_000 {
            assert_eq!(seen.get(&key(n)).unwrap(), None);
            write(&mut seen, n, &[7]);
        }
        for n in 19_000..20_000 {
            assert_eq!(seen.get(&key(n)).unwrap(), Some(vec![7]));
        }
        let touched = asked.lock().unwrap().len();
        assert!(touched < 20_000 / 100, "{touched} of 21,000");
        let (all, stored) = seen.questions().asked_and_stored();
        assert_eq!((all, stored), (21_000, touched as u64));
        // Other keys are not cached.
        seen.get(b"Hhost").unwrap();
        assert_eq!(asked.lock().unwrap().len(), touched + 1);
    }

    /// The key of what belongs to a key.
    fn owned(n: usize) -> Vec<u8> {
        [b"E", key(n).as_slice()].concat()
    }

    #[test]
    fn what_belongs_to_a_key_is_found_without_the_store_where_it_is_recent() {
        let mut before = Counting::default();
        before.pairs.insert(key(1), vec![1]);
        before.pairs.insert(owned(1), vec![2]);
        let asked = Arc::clone(&before.asked);
        let mut seen = over(before);
        let asked = || std::mem::take(&mut *asked.lock().unwrap());
        // Before the earlier keys are read, nothing is absent for certain.
        assert_eq!(seen.get(&owned(2)).unwrap(), None);
        assert_eq!(asked(), [owned(2)]);
        seen.warm(10).unwrap();
        for _ in 0..3 {
            assert_eq!(seen.get(&owned(2)).unwrap(), None);
            assert_eq!(seen.get(&owned(1)).unwrap(), Some(vec![2]));
        }
        assert_eq!(asked(), [owned(1)]);
        for (value, found) in [(Some(vec![3]), 0), (None, 1)] {
            let mut batch = Batch::default();
            match value.clone() {
                Some(value) => batch.put(owned(1), value),
                None => batch.delete(owned(1)),
            }
            seen.apply(batch).unwrap();
            assert_eq!(seen.get(&owned(1)).unwrap(), value);
            assert_eq!(asked().len(), found);
        }
        // The memory is bounded, and what is forgotten is read again.
        for n in 0..10_000 {
            let mut batch = Batch::default();
            batch.put(key(n), vec![0]);
            batch.put(owned(n), n.to_be_bytes().to_vec());
            seen.apply(batch).unwrap();
        }
        assert!(seen.memory.recent_owned.weight() <= OWNED_BYTES);
        for n in 0..10_000_usize {
            let expected = Some(n.to_be_bytes().to_vec());
            assert_eq!(seen.get(&owned(n)).unwrap(), expected);
        }
        assert!(asked().len() > 1_000);
    }

    #[test]
    fn what_could_not_be_written_is_not_remembered() {
        let mut store = Counting::default();
        store.pairs.insert(key(1), vec![1]);
        store.full = true;
        let mut seen = over(store);
        seen.warm(10).unwrap();
        let mut batch = Batch::default();
        batch.put(key(1), vec![2]);
        batch.put(key(2), vec![2]);
        batch.put(owned(1), vec![2]);
        seen.apply(batch).unwrap_err();
        assert_eq!(seen.get(&key(1)).unwrap(), Some(vec![1]));
        assert_eq!(seen.get(&key(2)).unwrap(), None);
        assert_eq!(seen.get(&owned(1)).unwrap(), None);
    }

    #[test]
    fn the_filter_grows_and_stays_sharp() {
        let mut filter = Filter::beginning_with(FIRST_LAYER);
        for n in 0..600_000 {
            filter.insert(&key(n));
        }
        assert_eq!(filter.layers.len(), 3);
        assert!((0..600_000).all(|n| filter.may_contain(&key(n))));
        let false_positives = (600_000..700_000)
            .filter(|n| filter.may_contain(&key(*n)))
            .count();
        assert!(false_positives < 1_000, "{false_positives} of 100,000");
        let bits: usize = filter.layers.iter().map(BloomFilter::num_bits).sum();
        assert!(bits / 8 < 600_000 * 6, "{} bytes", bits / 8);
    }

    #[test]
    fn the_recent_records_are_bounded_in_bytes() {
        let mut seen = over(Counting::default());
        for n in 0..1_000 {
            write(&mut seen, n, &vec![0; 100_000]);
        }
        assert!(seen.memory.recent.weight() <= RECENT_BYTES);
        assert_eq!(seen.get(&key(0)).unwrap(), Some(vec![0; 100_000]));
    }
}
