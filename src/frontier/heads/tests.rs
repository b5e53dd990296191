//! The heads in memory compared with scans of the store.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::keys::class;
use crate::page::Bucket;
use crate::settings::StoreKind;
use crate::store::tests::Backend;
use crate::store::{MemoryStore, Store, Visitor};

impl Heads {
    /// Panics if the entries in memory differ from the store.
    pub(crate) fn agree_with(&self, store: &dyn Readable) {
        for (name, fronts) in &self.hosts {
            let host = HostKey::from_stored(std::str::from_utf8(name).unwrap());
            for (class, front) in (0..).zip(fronts) {
                let mut stored = entries(store, &host, class);
                match front.known {
                    Known::Nothing => stored.clear(),
                    Known::UpTo(last) => stored.retain(|entry| entry.rank <= last),
                    Known::All => {}
                }
                assert_eq!(front.entries, stored, "{host} {class} {:?}", front.known);
            }
        }
    }

    /// The hosts that have anything in memory.
    pub(crate) fn hosts(&self) -> BTreeSet<HostKey> {
        let names = self.hosts.keys().map(|name| std::str::from_utf8(name));
        names
            .map(|name| HostKey::from_stored(name.unwrap()))
            .collect()
    }
}

/// All entries of a queue in a store.
pub(crate) fn entries(store: &dyn Readable, host: &HostKey, class: u8) -> Vec<Entry> {
    let mut found = Vec::new();
    let queue = keys::queue_class(host, class);
    let mut visit = |key: &[u8], value: &[u8]| {
        let rank = Rank::of_key(key).unwrap();
        let value = value.into();
        found.push(Entry { rank, value });
        ControlFlow::Continue(())
    };
    store.scan(&queue, &[], &mut visit).unwrap();
    found
}

fn host(n: usize) -> HostKey {
    HostKey::from_stored(["a.example", "aa.example"][n % 2])
}

fn rank(n: usize) -> Rank {
    let bucket = [Bucket::High, Bucket::Low][n / 6 % 2];
    Rank::new(bucket, (n / 2 % 3) as f64, (n % 2) as u64)
}

#[derive(Debug, Clone)]
enum Move {
    /// Writes to queues: host, class, rank and value; no value removes.
    Write(Vec<(usize, u8, usize, Option<u8>)>),
    /// A batch that is reported as failed, and whether it was applied nevertheless.
    Fail(Vec<(usize, u8, usize, Option<u8>)>, bool),
    /// What is leased at a host, if it is.
    Lease(usize, u8),
    Return(usize, u8),
    /// Takes the first entry of a queue, as a finished task does.
    Take(usize, u8),
    Ask(usize, u8),
    Forget(usize),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let write = || (0..2_usize, 0..3_u8, 0..12_usize, any::<Option<u8>>());
    let writes = move || proptest::collection::vec(write(), 1..6);
    let one = prop_oneof![
        8 => writes().prop_map(Move::Write),
        1 => (writes(), any::<bool>()).prop_map(|(w, applied)| Move::Fail(w, applied)),
        3 => (0..2_usize, any::<u8>()).prop_map(|(h, v)| Move::Lease(h, v)),
        2 => (0..2_usize, any::<u8>()).prop_map(|(h, v)| Move::Return(h, v)),
        4 => (0..2_usize, 0..3_u8).prop_map(|(h, c)| Move::Take(h, c)),
        6 => (0..2_usize, 0..3_u8).prop_map(|(h, c)| Move::Ask(h, c)),
        1 => (0..2_usize).prop_map(Move::Forget),
    ];
    proptest::collection::vec(one, 1..80)
}

/// Heads over a store, and what is leased.
struct World {
    store: Box<dyn Store>,
    heads: Heads,
    leased: [Vec<Vec<u8>>; 2],
    /// Whether every queue is looked up after every move, and not only those named.
    asks_all: bool,
}

impl World {
    fn over(store: Box<dyn Store>, asks_all: bool) -> Self {
        Self {
            store,
            heads: Heads::default(),
            leased: Default::default(),
            asks_all,
        }
    }

    fn take(&mut self, one: Move) {
        match one {
            Move::Write(writes) => self.apply(batch(&writes)),
            Move::Fail(writes, applied) => {
                let batch = batch(&writes);
                self.heads.follow(&batch);
                if applied {
                    self.store.apply(batch).unwrap();
                }
                self.heads.clear();
            }
            Move::Lease(h, value) => self.leased[h % 2].push(vec![value % 8]),
            Move::Return(h, value) => self.leased[h % 2].retain(|leased| *leased != [value % 8]),
            Move::Take(h, class) => {
                if let Some(first) = entries(&*self.store, &host(h), class).first() {
                    let mut batch = Batch::default();
                    batch.delete(keys::queue(&host(h), class, &first.rank));
                    self.apply(batch);
                }
            }
            Move::Ask(h, class) => self.ask(h, class),
            Move::Forget(h) => self.heads.forget(&host(h)),
        }
        self.heads.agree_with(&*self.store);
        if self.asks_all {
            for h in 0..2 {
                (0..3).for_each(|class| self.ask(h, class));
            }
            self.heads.agree_with(&*self.store);
        }
    }

    fn apply(&mut self, batch: Batch) {
        self.heads.follow(&batch);
        self.store.apply(batch).unwrap();
    }

    fn ask(&mut self, h: usize, class: u8) {
        let leased = &self.leased[h % 2];
        let all = entries(&*self.store, &host(h), class);
        let free = |entry: &&Entry| !leased.iter().any(|leased| **leased == *entry.value);
        let first = self.heads.first(&*self.store, &host(h), class, leased);
        assert_eq!(first.unwrap(), all.iter().find(free));
    }
}

fn batch(writes: &[(usize, u8, usize, Option<u8>)]) -> Batch {
    let mut batch = Batch::default();
    // Other keys are ignored.
    batch.put(b"Ua.example\0phs/".to_vec(), Vec::new());
    for (h, class, r, value) in writes {
        let key = keys::queue(&host(*h), *class, &rank(*r));
        match value {
            Some(value) => batch.put(key, vec![value % 8]),
            None => batch.delete(key),
        }
    }
    batch
}

proptest! {
    #![proptest_config(spoor_testing::cases!(256))]
    /// After any history memory agrees with a scan of the store.
    #[test]
    fn heads_are_what_a_scan_finds(moves in moves(), asks_all: bool) {
        let store = MemoryStore::new(Path::new("memory"));
        let mut world = World::over(Box::new(store), asks_all);
        moves.into_iter().for_each(|one| world.take(one));
    }
}

/// One long history on a real disk.
fn heads_on_a_disk(kind: StoreKind) {
    let folder = tempfile::tempdir().unwrap();
    let store = Backend::Disk(kind).open(folder.path()).unwrap();
    let mut world = World::over(store, false);
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    for _ in 0..4_000 {
        let (h, class) = (random.random_range(0..2), random.random_range(0..3));
        world.take(match random.random_range(0..100) {
            0..40 => {
                let value = random.random_bool(0.6).then(|| random.random());
                Move::Write(vec![(h, class, random.random_range(0..12), value)])
            }
            40..42 => Move::Fail(vec![(h, class, 3, Some(1))], random.random()),
            42..52 => Move::Lease(h, random.random()),
            52..60 => Move::Return(h, random.random()),
            60..75 => Move::Take(h, class),
            75..98 => Move::Ask(h, class),
            _ => Move::Forget(h),
        });
    }
}

#[test]
fn heads_are_what_a_scan_finds_in_sled() {
    heads_on_a_disk(StoreKind::Sled);
}

#[test]
fn heads_are_what_a_scan_finds_in_fjall() {
    heads_on_a_disk(StoreKind::Fjall);
}

/// A store that notes where its scans begin.
struct Noting {
    store: MemoryStore,
    scans: Mutex<Vec<Vec<u8>>>,
}

impl Readable for Noting {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(key)
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError> {
        self.scans.lock().unwrap().push(from.to_vec());
        self.store.scan(prefix, from, visit)
    }

    fn path(&self) -> &Path {
        self.store.path()
    }
}

#[test]
fn only_the_removal_of_the_head_scans_and_from_its_own_key_on() {
    let mut noting = Noting {
        store: MemoryStore::new(Path::new("memory")),
        scans: Mutex::default(),
    };
    let mut heads = Heads::default();
    let host = host(0);
    let key = |n| keys::queue(&host, class::PAGE, &rank(n));
    let mut step = |writes: &[(usize, bool)], expected: Option<usize>| {
        let mut batch = Batch::default();
        for (n, put) in writes {
            match put {
                true => batch.put(key(*n), vec![*n as u8]),
                false => batch.delete(key(*n)),
            }
        }
        heads.follow(&batch);
        noting.store.apply(batch).unwrap();
        let first = heads.first(&noting, &host, class::PAGE, &[]).unwrap();
        assert_eq!(first.map(|entry| entry.rank), expected.map(rank));
        std::mem::take(&mut *noting.scans.lock().unwrap())
    };
    let nowhere: [&[u8]; 0] = [];
    assert_eq!(step(&[(5, true), (9, true)], Some(5)), [b""]);
    // A worse one changes nothing, a better one becomes the head.
    assert_eq!(step(&[(7, true)], Some(5)), nowhere);
    assert_eq!(step(&[(2, true)], Some(2)), nowhere);
    // Without it the former head is first again.
    assert_eq!(step(&[(2, false)], Some(5)), nowhere);
    assert_eq!(step(&[(9, false)], Some(5)), nowhere);
    let after = keys::after_in_queue(&keys::queue_class(&host, class::PAGE), &rank(5));
    assert_eq!(step(&[(5, false)], Some(7)), [after]);
    // It moves after another one, and the queue ends.
    let after = keys::after_in_queue(&keys::queue_class(&host, class::PAGE), &rank(7));
    let moved = [(7, false), (10, true)];
    assert_eq!(step(&moved, Some(10)), [after]);
    let after = keys::after_in_queue(&keys::queue_class(&host, class::PAGE), &rank(10));
    assert_eq!(step(&[(10, false)], None), [after]);
    // The end is known from then on.
    assert_eq!(step(&[], None), nowhere);
    assert_eq!(step(&[(11, true)], Some(11)), nowhere);
}

#[test]
fn memory_is_bounded_for_any_queue_before_the_head() {
    let mut world = World::over(Box::new(MemoryStore::new(Path::new("memory"))), false);
    world.ask(0, class::PAGE);
    for n in (0..12).rev() {
        world.take(Move::Write(vec![(0, class::PAGE, n, Some(n as u8))]));
        world.ask(0, class::PAGE);
        let front = &world.heads.hosts[host(0).as_str().as_bytes()][1];
        assert!(front.entries.len() <= KEPT);
    }
    world.take(Move::Forget(0));
    assert!(world.heads.hosts().is_empty());
}

#[test]
fn a_key_without_a_rank_is_reported() {
    let mut store = MemoryStore::new(Path::new("memory"));
    let mut batch = Batch::default();
    let mut key = keys::queue(&host(0), class::PAGE, &rank(1));
    key.pop();
    batch.put(key, vec![1]);
    store.apply(batch).unwrap();
    let mut heads = Heads::default();
    for _ in 0..2 {
        let asked = heads.first(&store, &host(0), class::PAGE, &[]);
        assert!(matches!(asked, Err(StoreError::Corrupt { .. })));
    }
}
