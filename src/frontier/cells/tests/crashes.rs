//! After a crash following any batch, the crawl continues as if nothing had happened.

use std::path::PathBuf;
use std::sync::Mutex;

use super::*;
use crate::testing::{pairs_of, put_in};

type Pairs = Arc<BTreeMap<Vec<u8>, Vec<u8>>>;

/// A store that remembers what it held after each batch.
struct Remembering {
    store: MemoryStore,
    states: Arc<Mutex<Vec<Pairs>>>,
}

impl Readable for Remembering {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(key)
    }
    fn scan(
        &self,
        prefix: &[u8],
        from: &[u8],
        visit: store::Visitor<'_>,
    ) -> Result<(), StoreError> {
        self.store.scan(prefix, from, visit)
    }
    fn path(&self) -> &Path {
        self.store.path()
    }
}

impl Store for Remembering {
    fn apply(&mut self, batch: Batch) -> Result<(), StoreError> {
        self.store.apply(batch)?;
        self.states.lock().unwrap().push(self.store.pairs());
        Ok(())
    }
    fn flush(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
    fn size(&self) -> Result<u64, StoreError> {
        self.store.size()
    }
    fn compact(&mut self) -> Result<bool, StoreError> {
        Ok(true)
    }
    fn snapshot(&self) -> Box<dyn Readable> {
        self.store.snapshot()
    }
}

/// A folder for each process, because files beside a store record how far it was.
struct Lives {
    folder: tempfile::TempDir,
    number: usize,
    states: Arc<Mutex<Vec<Pairs>>>,
}

impl Lives {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            number: 0,
            states: Arc::default(),
        }
    }

    fn store(&mut self, pairs: Pairs) -> Box<dyn Store> {
        self.number += 1;
        let folder: PathBuf = self.folder.path().join(self.number.to_string());
        std::fs::create_dir_all(&folder).unwrap();
        *self.states.lock().unwrap() = vec![Arc::clone(&pairs)];
        Box::new(Remembering {
            store: MemoryStore::holding(&folder, (*pairs).clone()),
            states: Arc::clone(&self.states),
        })
    }

    /// What the store held in the end.
    fn last(&self) -> Pairs {
        Arc::clone(self.states.lock().unwrap().last().unwrap())
    }

    /// What the store held after one of its batches, chosen by a number.
    fn after_one(&self, number: usize) -> Pairs {
        let states = self.states.lock().unwrap();
        Arc::clone(&states[number % states.len()])
    }
}

proptest! {
    #![proptest_config(spoor_testing::cases!(24))]

    #[test]
    fn a_crawl_goes_on_after_any_batch(
        seed: u64, cells in 2_u16..20, cuts in proptest::collection::vec(any::<usize>(), 1..4)
    ) {
        let web = Web::new(seed);
        let mut lives = Lives::new();
        let mut now = 1_000;
        let mut whole = opened(lives.store(Arc::default()), cells, now);
        whole.add_seeds(&web.seeds(), now).unwrap();
        let begun = lives.states.lock().unwrap().len();
        crawl(&mut whole, &web, &mut now);
        let expected = (known(&whole), whole.counts().documents);
        drop(whole);
        // The operator's addresses are added again at every start.
        for cut in cuts {
            let length = lives.states.lock().unwrap().len();
            let left = lives.after_one(begun.min(length - 1) + cut % (length - begun.min(length - 1)));
            let mut next = opened(lives.store(left), cells, now);
            next.add_seeds(&web.seeds(), now).unwrap();
            crawl(&mut next, &web, &mut now);
            prop_assert_eq!((known(&next), next.counts().documents), expected.clone());
        }
    }

    /// A cell that was being deleted or read when the process died is deleted, and another one
    /// can take its place.
    #[test]
    fn half_a_cell_is_never_opened(seed: u64, cut: usize, deletes: bool) {
        let web = Web::new(seed);
        let mut lives = Lives::new();
        let mut now = 1_000;
        let mut cells = opened(lives.store(Arc::default()), 4, now);
        cells.add_seeds(&web.seeds(), now).unwrap();
        crawl(&mut cells, &web, &mut now);
        let full = |cells: &Cells, id: &CellId| {
            web::records(cells.open[id].frontier.ledger.store()).len()
        };
        let cell = cells.opened().max_by_key(|id| full(&cells, id)).unwrap();
        cells.close_cell(cell).unwrap();
        let pairs = pairs_of(&cells, cell);
        let complete = lives.last();
        let complete = space(&complete, cell);
        drop(cells);
        let before = lives.last();
        let mut cells = Cells::over(lives.store(before), count(4), policy(), scope()).unwrap();
        cells.drop_cell(cell).unwrap();
        if !deletes {
            while cells.sweep().unwrap() {}
            let swept = lives.states.lock().unwrap().len();
            lives.states.lock().unwrap().drain(..swept - 1);
            put_in(&mut cells, cell, &pairs).unwrap();
        }
        drop(cells);
        let left = lives.after_one(cut);
        let before = space(&left, cell);
        let mut cells = Cells::over(lives.store(left), count(4), policy(), scope()).unwrap();
        match cells.open_cell(cell, now) {
            Err(CellsError::Leaving(which)) => {
                prop_assert_eq!(which, cell);
                while cells.sweep().unwrap() {}
                prop_assert!(space(&lives.last(), cell).is_empty());
                put_in(&mut cells, cell, &pairs).unwrap();
            }
            opened => {
                opened.unwrap();
                // Nothing was begun, or all of it done.
                prop_assert!(before.is_empty() || before == complete);
                return Ok(());
            }
        }
        let states = lives.states.lock().unwrap();
        prop_assert_eq!(space(states.last().unwrap(), cell), complete);
    }
}

/// The pairs in the space of a cell.
fn space(pairs: &Pairs, cell: CellId) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let own = pairs
        .iter()
        .filter(|(key, _)| key.starts_with(&cell.space()));
    own.map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}
