//! The mark of a commit, which can be derived from the writes since an earlier one.

use super::*;
use crate::amount::Amount;
use crate::cell::LEAVING;
use crate::store::changes::{Changes, Logged};
use crate::{Mark, MarkReader, dump};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store whose batches are logged, and the process that uses it.
struct Life {
    folder: tempfile::TempDir,
    store: MemoryStore,
    changes: Arc<Changes>,
    cells: Option<Cells>,
}

impl Life {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = MemoryStore::new(folder.path());
        let changes = Arc::new(Changes::open(folder.path(), 0).unwrap());
        let mut life = Self {
            folder,
            store,
            changes,
            cells: None,
        };
        life.start(Pairs::new());
        life
    }

    /// A process begins with these pairs, and opens the cells that are there.
    fn start(&mut self, pairs: Pairs) {
        self.cells = None;
        // A power cut loses unflushed data, and this test does not track what was flushed.
        std::fs::remove_file(self.folder.path().join("flushed")).ok();
        self.store = MemoryStore::holding(self.folder.path(), pairs);
        let last = Mark::of(&self.store)
            .unwrap()
            .map_or(0, |mark| mark.commits);
        self.changes = Arc::new(Changes::open(self.folder.path(), last).unwrap());
        let store = Logged::over(Box::new(self.store.reopened()), Arc::clone(&self.changes));
        let cells = Cells::over(Box::new(store), count(6), policy(), scope()).unwrap();
        self.cells = Some(cells);
    }

    fn cells(&mut self) -> &mut Cells {
        self.cells.as_mut().unwrap()
    }

    fn pairs_of(&self, cell: CellId) -> Pairs {
        let pairs = self.store.pairs();
        let own = pairs
            .iter()
            .filter(|(key, _)| key.starts_with(&cell.space()));
        own.map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    /// Returns the mark of the last commit; it must match the keys, and the batches since `before`.
    fn check(&mut self, before: &Mark) -> Mark {
        let mark = Mark::of(&self.store).unwrap().unwrap();
        assert_eq!(mark.commits, self.changes.last());
        assert_eq!(mark.commits, self.cells().commits());
        let pairs = self.store.pairs();
        let is_held = |cell: &CellId| {
            let leaving = [LEAVING, &cell.number().to_be_bytes()].concat();
            let meta = [&cell.space(), keys::META].concat();
            pairs.contains_key(&meta) && !pairs.contains_key(&leaving)
        };
        let held: Vec<CellId> = count(6).all().filter(is_held).collect();
        assert!(mark.held().keys().copied().eq(held));
        let mut reader = MarkReader::after(before.clone());
        self.changes
            .read::<StoreError>(before.commits, mark.commits, &mut |(key, value)| {
                reader.see(key, value);
                Ok(())
            })
            .unwrap();
        assert_eq!(reader.mark().unwrap(), mark);
        mark
    }
}

proptest! {
    #![proptest_config(spoor_testing::cases!(24))]

    #[test]
    fn a_mark_follows_from_an_earlier_one_and_the_batches_since(
        seed: u64, acts in proptest::collection::vec(any::<u16>(), 10..60)
    ) {
        let web = Web::new(seed);
        let mut life = Life::new();
        let mut now = 1_000;
        life.cells().open_all(now).unwrap();
        life.cells().add_seeds(&web.seeds(), now).unwrap();
        life.cells().set_stamp(vec![1]).unwrap();
        let first = Mark::of(&life.store).unwrap().unwrap();
        let mut last = first.clone();
        let mut away: BTreeMap<CellId, Pairs> = BTreeMap::new();
        let mut older = (*life.store.pairs()).clone();
        // The work done here, in any of the cells; and the same at the earlier moment.
        let (mut used, mut older_used) = (Amount::default(), Amount::default());
        for act in acts {
            let cell = count(6).cell(act / 16 % 6).unwrap();
            let is_open = life.cells().opened().any(|other| other == cell);
            let open: Vec<CellId> = life.cells().opened().collect();
            match act % 10 {
                0 if is_open => {
                    let place = LogPlace { sequence: u64::from(act) + 1, note: vec![7; 3] };
                    life.cells().receive::<StoreError>(cell, &place, &[], now, &mut |_| Ok(Vec::new())).unwrap();
                }
                1 if is_open => life.cells().set_stamp(vec![act as u8; 5]).unwrap(),
                2 if is_open => {
                    life.cells().close_cell(cell).unwrap();
                    away.insert(cell, life.pairs_of(cell));
                    life.cells().drop_cell(cell).unwrap();
                }
                3 => drop(life.cells().sweep().unwrap()),
                4 | 5 if !is_open && life.pairs_of(cell).is_empty() => {
                    let wanted = BTreeSet::from([cell]);
                    if let (Some(pairs), Ok(mut load)) =
                        (away.get(&cell).cloned(), life.cells().begin_load(&wanted))
                    {
                        let most = if act.is_multiple_of(3) { pairs.len() / 2 } else { pairs.len() };
                        for (key, value) in pairs.iter().take(most) {
                            load.write(key, Some(value)).unwrap();
                        }
                        // Half a commit does not count.
                        life.check(&last);
                        if most == pairs.len() {
                            life.cells().end_load(load).unwrap();
                            prop_assert_eq!(life.pairs_of(cell), pairs);
                            life.cells().open_cell(cell, now).unwrap();
                        }
                    }
                }
                6 => {
                    older = (*life.store.pairs()).clone();
                    older_used = used;
                }
                7 => {
                    // The process dies; or the power fails, and the last batches are gone.
                    let pairs = match act / 16 % 2 {
                        0 => (*life.store.pairs()).clone(),
                        _ => {
                            used = older_used;
                            older.clone()
                        }
                    };
                    life.start(pairs);
                    let there = Mark::of(&life.store).unwrap().unwrap();
                    if last.commits > there.commits {
                        last = first.clone();
                    }
                    for cell in count(6).all() {
                        match life.cells().open_cell(cell, now) {
                            Ok(()) | Err(CellsError::Leaving(_)) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                    older = (*life.store.pairs()).clone();
                    older_used = used;
                }
                _ => {
                    for _ in 0..act % 7 {
                        match life.cells().lease(&open, now).unwrap() {
                            Some((cell, task)) => {
                                let before = life.cells().counts().clone();
                                life.cells().with(cell, now, |f| web.finish(f, &task, now)).unwrap();
                                let done = Amount::between(&before, life.cells().counts());
                                used = used.plus(done);
                            }
                            None => match life.cells().next_event() {
                                Some(at) => now = at.max(now + 1),
                                None => break,
                            },
                        }
                    }
                }
            }
            let mark = life.check(&last);
            prop_assert_eq!(mark.used, used);
            prop_assert_eq!(life.cells().used(), used);
            if life.changes.reach_back_to(first.commits) {
                life.check(&first);
            }
            last = mark;
        }
    }
}

#[test]
fn one_cell_has_a_mark_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let store = MemoryStore::new(folder.path());
    assert_eq!(Mark::of(&store).unwrap(), None);
    let mut cells = opened(Box::new(store.reopened()), 1, 1_000);
    cells.set_stamp(vec![4, 2]).unwrap();
    let mark = Mark::of(&store).unwrap().unwrap();
    assert_eq!((mark.commits, &mark.stamp), (cells.commits(), &vec![4, 2]));
    assert!(mark.held().into_keys().eq(CellCount::ONE.all()));
    let mut reader = MarkReader::default();
    for (key, value) in store.pairs().iter() {
        reader.see(key, Some(value));
    }
    assert_eq!(reader.mark(), Ok(mark));
    let meta = [&Home::ONLY.cell.space(), keys::META].concat();
    let mut reader = MarkReader::default();
    reader.see(&meta, Some(b"?"));
    assert_eq!(reader.mark(), Err(meta));
}

/// A job that keeps checkpoints elsewhere continues after its frontier was repaired: a checkpoint
/// that is ahead would be refused.
#[test]
fn an_import_goes_on_with_the_number_of_its_export() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = MemoryStore::new(folder.path());
    let mut cells = opened(Box::new(store.reopened()), 1, 1_000);
    for n in 0..20 {
        cells.set_stamp(vec![n]).unwrap();
    }
    cells.close().unwrap();
    let mut lines = Vec::new();
    dump::write(
        &*whole(Box::new(store.reopened())),
        &mut lines,
        Path::new("x"),
    )
    .unwrap();
    let new = MemoryStore::new(other.path());
    let mut only = only(Box::new(new.reopened())).unwrap();
    dump::restore(&mut *only, &mut lines.as_slice(), Path::new("x")).unwrap();
    let [before, after] = [&store, &new].map(|store| Mark::of(store).unwrap().unwrap());
    assert!(before.commits > 20);
    assert_eq!(after.commits, before.commits + 1);
    assert_eq!(after.stamp, [19]);
}

#[test]
fn damage_and_other_formats_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let store = MemoryStore::new(folder.path());
    drop(opened(Box::new(store.reopened()), 3, 1_000));
    let meta = [&count(3).cell(1).unwrap().space(), keys::META].concat();
    let with = |value: Vec<u8>| {
        let mut pairs = (*store.pairs()).clone();
        pairs.insert(meta.clone(), value);
        Mark::of(&MemoryStore::holding(folder.path(), pairs)).unwrap_err()
    };
    let newer = with(vec![99]);
    assert!(
        matches!(newer, StoreError::Version { found: 99, .. }),
        "{newer}"
    );
    let whole = store.pairs()[&meta].clone();
    let cut = with(whole[..whole.len() / 2].to_vec());
    assert!(matches!(cut, StoreError::Corrupt { .. }), "{cut}");
}
