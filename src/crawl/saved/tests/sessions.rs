//! The checkpoints of cluster sessions: each committed one can be read and restores every cell byte
//! for byte, regardless of interruptions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use tempfile::TempDir;

use super::super::cells::SavedCells;
use super::super::numbered::{Committed, Life, Made, manifest_of};
use super::super::session::{Saved, Session};
use super::super::*;
use crate::config::Config;
use crate::frontier::store::changes::{Changes, Logged};
use crate::frontier::store::{self, Readable, StoreError};
use crate::frontier::testing::{count, policy, scope, web::Web};
use crate::frontier::{CellId, Cells, CellsError, LogPlace, Mark};
use crate::objects::Objects;
use crate::objects::simulated::{Fate, Simulated};
use crate::settings::StoreKind;

const CELLS: u16 = 8;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store at a checkpoint: for each complete cell its pairs, and how far its log was read.
type Held = BTreeMap<CellId, (u64, Pairs)>;

fn config(root: &Path) -> Config {
    let text = format!(
        "[job]\nname = \"test\"\nfolder = {root:?}\n[model]\nfolder = {:?}\n\
         [checkpoint]\nstore = \"file:///unused\"\noutputs = false\n",
        root.join("models")
    );
    Config::parse(&text, "test.toml").unwrap()
}

/// The key of a session at a broker, and those keys of cells that name its checkpoints.
#[derive(Default)]
struct Key {
    committed: u64,
    cells: BTreeMap<CellId, u64>,
    named: BTreeSet<u64>,
    is_over: bool,
    /// The store's content when the current checkpoint was begun.
    now: Held,
    /// The store's content at each committed checkpoint.
    held: BTreeMap<u64, Held>,
}

impl Key {
    fn commit(&mut self, made: Made) -> Committed {
        if self.is_over {
            return Committed::Over;
        }
        assert!(made.number > self.committed, "{made:?}");
        let sequences = self.now.iter().map(|(cell, (read, _))| (*cell, *read));
        assert_eq!(made.cells, sequences.collect());
        self.committed = made.number;
        self.cells = made.cells;
        self.held.insert(made.number, self.now.clone());
        Committed::Yes
    }
}

/// A node of a cluster: its store on a disk, and its session.
struct Node {
    root: TempDir,
    config: Config,
    objects: Arc<dyn Objects>,
    key: Arc<Mutex<Key>>,
    made: u64,
    now: u64,
    changes: Option<Arc<Changes>>,
    cells: Option<Cells>,
    session: Option<Session>,
}

impl Node {
    fn new(objects: Arc<dyn Objects>) -> Self {
        let root = tempfile::tempdir().unwrap();
        let config = config(root.path());
        std::fs::create_dir_all(config.job_folder()).unwrap();
        let mut node = Self {
            root,
            config,
            objects,
            key: Arc::default(),
            made: 0,
            now: 1_000,
            changes: None,
            cells: None,
            session: None,
        };
        node.start();
        node
    }

    /// Starts a process, which continues the session.
    fn start(&mut self) {
        self.stop();
        let folder = self.root.path().join("frontier");
        let store = store::open(StoreKind::Fjall, &folder).unwrap();
        let last = Mark::of(&*store).unwrap().map_or(0, |mark| mark.commits);
        let changes = Arc::new(Changes::open(&folder, last).unwrap());
        let store = Logged::over(store, Arc::clone(&changes));
        let cells = Cells::over(Box::new(store), count(CELLS), policy(), scope()).unwrap();
        let [key, other] = [&self.key, &self.key].map(Arc::clone);
        let committed = self.key.lock().unwrap().committed;
        let life = Life {
            store: "unused".to_owned(),
            session: "a.1".to_owned(),
            committed,
            made: self.made,
            commit: Box::new(move |made| key.lock().unwrap().commit(made)),
            named: Box::new(move || Some(other.lock().unwrap().named.clone())),
        };
        let session = Session::numbered(&self.config, Arc::clone(&self.objects), life).unwrap();
        (self.changes, self.cells, self.session) = (Some(changes), Some(cells), Some(session));
    }

    /// The process dies.
    fn stop(&mut self) {
        (self.session, self.cells, self.changes) = (None, None, None);
    }

    fn cells(&mut self) -> &mut Cells {
        self.cells.as_mut().unwrap()
    }

    fn begin(&mut self, web: &Web) {
        let now = self.now;
        self.cells().open_all(now).unwrap();
        self.cells().add_seeds(&web.seeds(), now).unwrap();
    }

    /// Does some tasks of the open cells.
    fn crawl(&mut self, web: &Web, steps: usize) {
        let open: Vec<CellId> = self.cells().opened().collect();
        for _ in 0..steps {
            let now = self.now;
            match self.cells().lease(&open, now).unwrap() {
                Some((cell, task)) => {
                    let finish = |f: &mut _| web.finish(f, &task, now);
                    self.cells().with(cell, now, finish).unwrap();
                }
                None => match self.cells().next_event() {
                    Some(at) => self.now = at.max(now + 1),
                    None => return,
                },
            }
        }
    }

    /// The store's content, read without a mark.
    fn held(&mut self) -> Held {
        let view = self.cells().snapshot();
        count(CELLS)
            .all()
            .filter_map(|cell| {
                let space = (0x8000 | cell.number()).to_be_bytes();
                let leaving = [&b"\xc0\0leaving"[..], &cell.number().to_be_bytes()].concat();
                let pairs = pairs_of(&*view, cell);
                let is_whole = pairs.contains_key([&space[..], b"M"].concat().as_slice());
                if !is_whole || view.get(&leaving).unwrap().is_some() {
                    return None;
                }
                let log = pairs.get([&space[..], b"l"].concat().as_slice());
                let log = log.map(|log| postcard::from_bytes::<LogPlace>(log).unwrap());
                Some((cell, (log.map_or(0, |log| log.sequence), pairs)))
            })
            .collect()
    }

    fn save(&mut self) -> Result<(), SaveError> {
        self.cells().flush().unwrap();
        let held = self.held();
        self.key.lock().unwrap().now = held;
        let changes = Arc::clone(self.changes.as_ref().unwrap());
        let view = self.cells().snapshot();
        let session = self.session.as_mut().unwrap();
        session.begin()?;
        session.check(changes.last())?;
        if session.save(&changes, changes.flushed())? == Saved::NeedsBase {
            changes.begin()?;
            session.base(view, |commit| assert!(changes.flushed() >= commit))?;
        }
        Ok(changes.forget(session.manifest()?.commits)?)
    }

    /// Each committed or named checkpoint restores the store's content.
    fn check(&self) {
        let key = self.key.lock().unwrap();
        for number in key.named.iter().chain([&key.committed]).filter(|n| **n > 0) {
            let saved = SavedCells::over(Arc::clone(&self.objects), *number).unwrap();
            let held = &key.held[number];
            let recorded: BTreeMap<CellId, u64> = saved.held();
            assert!(
                recorded.iter().eq(held
                    .iter()
                    .map(|(cell, (read, _))| (cell, read))
                    .collect::<Vec<_>>())
            );
            let all: BTreeSet<CellId> = count(CELLS).all().collect();
            assert!(
                read(&saved, &all) == held.iter().map(|(c, (_, p))| (*c, p.clone())).collect(),
                "checkpoint {number}"
            );
        }
    }
}

fn pairs_of(store: &dyn Readable, cell: CellId) -> Pairs {
    let mut found = Pairs::new();
    let space = (0x8000 | cell.number()).to_be_bytes();
    let mut visit = |key: &[u8], value: &[u8]| {
        found.insert(key.to_vec(), value.to_vec());
        std::ops::ControlFlow::Continue(())
    };
    store.scan(&space, &[], &mut visit).unwrap();
    found
}

/// The pairs of cells in a checkpoint.
fn read(saved: &SavedCells, wanted: &BTreeSet<CellId>) -> BTreeMap<CellId, Pairs> {
    let mut found: BTreeMap<CellId, Pairs> = BTreeMap::new();
    let there = saved
        .read(wanted, &mut |key, value| {
            let pairs = found.entry(CellId::of_key(key).unwrap()).or_default();
            match value {
                Some(value) => drop(pairs.insert(key.to_vec(), value.to_vec())),
                None => drop(pairs.remove(key)),
            }
            Ok(())
        })
        .unwrap();
    assert!(there.iter().eq(found.keys()));
    found
}

/// Loads cells from a checkpoint as a node does: on a thread.
fn load(cells: &mut Cells, saved: SavedCells, wanted: &BTreeSet<CellId>) {
    let mut load = cells.begin_load(wanted).unwrap();
    let (load, there) = std::thread::spawn(move || {
        let wanted = load.cells().clone();
        let there = saved.read(&wanted, &mut |key, value| Ok(load.write(key, value)?));
        (load, there)
    })
    .join()
    .unwrap();
    assert_eq!(&there.unwrap(), wanted);
    cells.end_load(load).unwrap();
}

#[derive(Debug, Clone)]
enum Step {
    Crawl(u8),
    /// A checkpoint; after this many writes succeed, the next ones have these fates. The process
    /// may die after it.
    Save(u8, Vec<Fate>, bool),
    /// One more cell's key names a checkpoint other than the last.
    Name,
    /// No cell's key names an older checkpoint any more.
    Unname,
    /// Closes and drops a cell.
    Drop(u16),
    Sweep,
    /// Loads a cell from the last checkpoint that has it, or from none.
    Load(u16),
    Read(u16),
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let fate = prop_oneof![Just(Fate::Failed), Just(Fate::Lost), Just(Fate::Done)];
    let fates = prop::collection::vec(fate, 0..3);
    let cell = || 0..CELLS;
    let step = prop_oneof![
        4 => (1..20_u8).prop_map(Step::Crawl),
        6 => (0..12_u8, fates, any::<bool>()).prop_map(|(n, fates, dies)| Step::Save(n, fates, dies)),
        1 => Just(Step::Name),
        1 => Just(Step::Unname),
        2 => cell().prop_map(Step::Drop),
        2 => Just(Step::Sweep),
        3 => cell().prop_map(Step::Load),
        1 => cell().prop_map(Step::Read),
        1 => Just(Step::Crash),
    ];
    prop::collection::vec(step, 5..30)
}

fn run(seed: u64, steps: Vec<Step>) {
    let web = Web::new(seed);
    let objects = Arc::new(Simulated::default());
    let mut node = Node::new(Arc::clone(&objects) as Arc<dyn Objects>);
    node.begin(&web);
    for step in steps.into_iter().chain([Step::Save(0, Vec::new(), false)]) {
        let cell = |n: u16| count(CELLS).cell(n).unwrap();
        match step {
            Step::Crawl(steps) => node.crawl(&web, steps.into()),
            Step::Save(done, fates, dies) => {
                let mut all = fates;
                let is_sure = all.is_empty();
                all.extend(vec![Fate::Done; done.into()]);
                *objects.fates.lock().unwrap() = all;
                let saved = node.save();
                objects.fates.lock().unwrap().clear();
                assert!(saved.is_ok() || !is_sure, "{saved:?}");
                if dies && saved.is_err() {
                    restart(&mut node);
                }
            }
            Step::Name => {
                let mut key = node.key.lock().unwrap();
                let committed = key.committed;
                key.named.extend((committed > 0).then_some(committed));
            }
            Step::Unname => node.key.lock().unwrap().named.clear(),
            Step::Drop(n) => {
                if node.cells().opened().any(|open| open == cell(n)) {
                    node.cells().drop_cell(cell(n)).unwrap();
                }
            }
            Step::Sweep => drop(node.cells().sweep().unwrap()),
            Step::Load(n) => {
                let from = {
                    let key = node.key.lock().unwrap();
                    let there = key.named.iter().chain([&key.committed]).copied();
                    there
                        .filter(|k| {
                            key.held
                                .get(k)
                                .is_some_and(|held| held.contains_key(&cell(n)))
                        })
                        .max()
                };
                let wanted = BTreeSet::from([cell(n)]);
                if let (Some(from), Ok(unused)) = (from, node.cells().begin_load(&wanted)) {
                    drop(unused);
                    while node.cells().sweep().unwrap() {}
                    let saved = SavedCells::over(Arc::clone(&node.objects), from).unwrap();
                    load(node.cells(), saved, &wanted);
                    let now = node.now;
                    let there = node.held()[&cell(n)].1.clone();
                    assert!(there == node.key.lock().unwrap().held[&from][&cell(n)].1);
                    node.cells().open_cell(cell(n), now).unwrap();
                }
            }
            Step::Read(n) => {
                if node.cells().opened().any(|open| open == cell(n)) {
                    let sequence = node.now;
                    let place = LogPlace {
                        sequence,
                        note: vec![1],
                    };
                    let now = node.now;
                    let none = &mut |_: &_| Ok(Vec::new());
                    node.cells()
                        .receive::<StoreError>(cell(n), &place, &[], now, none)
                        .unwrap();
                }
            }
            Step::Crash => restart(&mut node),
        }
        node.check();
    }
    // Another node takes all cells from the last checkpoint.
    let key = node.key.lock().unwrap();
    let (number, held) = (key.committed, key.held[&key.committed].clone());
    let mut heir = Node::new(Arc::new(Simulated::default()));
    let saved = SavedCells::over(Arc::clone(&node.objects), number).unwrap();
    let wanted = held.keys().copied().collect();
    load(heir.cells(), saved, &wanted);
    assert!(heir.held() == held);
    for cell in wanted {
        heir.cells().open_cell(cell, node.now).unwrap();
    }
    heir.crawl(&web, 10);
    heir.save().unwrap();
    heir.check();
}

/// The process dies; another one continues with what is in the store.
fn restart(node: &mut Node) {
    node.start();
    let now = node.now;
    for cell in count(CELLS).all() {
        let opened = node.cells().open_cell(cell, now);
        assert!(
            matches!(opened, Ok(()) | Err(CellsError::Leaving(_))),
            "{opened:?}"
        );
    }
}

proptest! {
    #![proptest_config(spoor_testing::cases!(12))]

    #[test]
    fn every_checkpoint_that_counts_gives_back_its_cells(seed: u64, steps in steps()) {
        run(seed, steps);
    }
}

/// The process may die after any write.
#[test]
fn a_kill_at_any_write_leaves_what_counts_as_it_was() {
    let web = Web::new(11);
    let objects = Arc::new(Simulated::default());
    let mut node = Node::new(Arc::clone(&objects) as Arc<dyn Objects>);
    node.begin(&web);
    node.save().unwrap();
    let mut kills = 0;
    let mut bases = 0;
    for write in 0.. {
        node.crawl(&web, 3);
        let last = |node: &Node| node.session.as_ref().unwrap().last.clone();
        let before = last(&node).map(|last| last.base);
        let mut fates = vec![Fate::Failed; 10_000];
        fates.extend(vec![Fate::Done; write % 20]);
        *objects.fates.lock().unwrap() = fates;
        let saved = node.save();
        objects.fates.lock().unwrap().clear();
        bases += usize::from(before != last(&node).map(|last| last.base));
        node.check();
        kills += usize::from(saved.is_err());
        if saved.is_err() {
            restart(&mut node);
        }
        // Covers all writes of changes, and of bases with the sweep after them.
        if write > 100 && kills > 40 && bases > 2 {
            break;
        }
        assert!(write < 400, "{kills} kills, {bases} bases");
    }
    node.save().unwrap();
    node.check();
}

#[test]
fn what_was_not_committed_is_never_used() {
    let web = Web::new(12);
    let objects = Arc::new(Simulated::default());
    let mut node = Node::new(Arc::clone(&objects) as Arc<dyn Objects>);
    node.begin(&web);
    node.crawl(&web, 10);
    node.save().unwrap();
    assert_eq!(node.key.lock().unwrap().committed, 1);
    // The broker is unreachable, and the session ends meanwhile.
    node.crawl(&web, 10);
    node.key.lock().unwrap().is_over = true;
    let over = node.save().unwrap_err();
    assert!(matches!(over, SaveError::Over { .. }), "{over}");
    let text = over.to_string();
    assert!(text.contains("counts as not done"), "{text}");
    let names = |objects: &Simulated| objects.list("manifests").unwrap();
    assert_eq!(
        names(&objects),
        ["manifests/0000000001", "manifests/0000000002"]
    );
    // In fact, only its process died. The next one has no other way to know of the second manifest.
    node.key.lock().unwrap().is_over = false;
    restart(&mut node);
    let session = node.session.as_mut().unwrap();
    session.begin().unwrap();
    assert_eq!(session.manifest().unwrap().number, 1);
    let unused: BTreeSet<String> = objects.list("changes").unwrap().into_iter().collect();
    node.crawl(&web, 10);
    node.save().unwrap();
    assert_eq!(node.key.lock().unwrap().committed, 3);
    node.check();
    let session = node.session.as_mut().unwrap();
    let last = session.manifest().unwrap();
    let first = manifest_of(&*objects, 1).unwrap();
    let known: BTreeSet<String> = first.names(&*objects).unwrap().into_iter().collect();
    for name in last.names(&*objects).unwrap() {
        assert!(known.contains(&name) || !unused.contains(&name), "{name}");
    }
    // It stays until the next base, and its number is never used again.
    assert_eq!(names(&objects).len(), 3);
    restart(&mut node);
    node.made = 0;
    node.save().unwrap();
    assert!(node.key.lock().unwrap().committed > 3);
    node.check();
}

#[test]
fn what_a_cell_names_stays_and_the_rest_is_swept() {
    let web = Web::new(13);
    let objects = Arc::new(Simulated::default());
    let mut node = Node::new(Arc::clone(&objects) as Arc<dyn Objects>);
    node.begin(&web);
    let mut bases = BTreeSet::new();
    let mut most = 0;
    let step = |node: &mut Node, bases: &mut BTreeSet<String>| {
        node.crawl(&web, 5);
        node.cells().set_stamp(Vec::new()).unwrap();
        node.save().unwrap();
        node.check();
        let last = node.session.as_ref().unwrap().last.clone().unwrap();
        bases.insert(last.base[0].name.clone());
    };
    step(&mut node, &mut bases);
    step(&mut node, &mut bases);
    let named = node.key.lock().unwrap().committed;
    node.key.lock().unwrap().named.insert(named);
    let cell = count(CELLS).cell(2).unwrap();
    node.cells().drop_cell(cell).unwrap();
    while node.cells().sweep().unwrap() {}
    while bases.len() < 5 {
        step(&mut node, &mut bases);
        most = most.max(objects.objects.lock().unwrap().len());
    }
    assert!(most < 300, "{most}");
    let manifests = objects.list("manifests").unwrap();
    assert!(
        manifests.contains(&format!("manifests/{named:010}")),
        "{manifests:?}"
    );
    assert!(
        !manifests.contains(&"manifests/0000000001".to_owned()),
        "{manifests:?}"
    );
    // Only that checkpoint can still restore the dropped cell.
    let saved = SavedCells::over(Arc::clone(&node.objects), named).unwrap();
    let mut heir = Node::new(Arc::new(Simulated::default()));
    let wanted = BTreeSet::from([cell]);
    load(heir.cells(), saved, &wanted);
    assert!(heir.held()[&cell] == node.key.lock().unwrap().held[&named][&cell]);
    let committed = node.key.lock().unwrap().committed;
    let last = SavedCells::over(Arc::clone(&node.objects), committed).unwrap();
    assert!(!last.held().contains_key(&cell));
    let none = last.read(&wanted, &mut |_, _| unreachable!()).unwrap();
    assert!(none.is_empty());
    // Without the name it is removed, and with it everything that only it named.
    node.key.lock().unwrap().named.clear();
    let before = bases.len();
    while bases.len() == before {
        step(&mut node, &mut bases);
    }
    let last = node.session.as_ref().unwrap().last.clone().unwrap();
    let manifests = objects.list("manifests").unwrap();
    assert_eq!(manifests, [format!("manifests/{:010}", last.number)]);
    let named: BTreeSet<String> = last.names(&*objects).unwrap().into_iter().collect();
    let there: BTreeSet<String> = objects.objects.lock().unwrap().keys().cloned().collect();
    let rubbish: Vec<_> = there
        .difference(&named)
        .filter(|name| !name.starts_with("manifests/"))
        .collect();
    assert!(rubbish.is_empty(), "{rubbish:?}");
}

/// If the names in cells' keys are unknown, nothing is removed.
#[test]
fn nothing_is_swept_while_the_names_are_not_known() {
    let web = Web::new(14);
    let objects = Arc::new(Simulated::default());
    let mut node = Node::new(Arc::clone(&objects) as Arc<dyn Objects>);
    let key = Arc::clone(&node.key);
    let life = Life {
        store: "unused".to_owned(),
        session: "a.1".to_owned(),
        committed: 0,
        made: 0,
        commit: Box::new(move |made| key.lock().unwrap().commit(made)),
        named: Box::new(|| None),
    };
    let shared = Arc::clone(&node.objects);
    node.session = Some(Session::numbered(&node.config, shared, life).unwrap());
    node.begin(&web);
    let mut bases = BTreeSet::new();
    while bases.len() < 3 {
        node.crawl(&web, 5);
        node.save().unwrap();
        let last = node.session.as_ref().unwrap().last.clone().unwrap();
        bases.insert(last.base[0].name.clone());
    }
    let made = node.key.lock().unwrap().committed;
    assert_eq!(objects.list("manifests").unwrap().len() as u64, made);
}

#[test]
fn what_is_missing_or_damaged_is_named() {
    let web = Web::new(15);
    let root = tempfile::tempdir().unwrap();
    let store = format!("file://{}", root.path().display());
    let mut node = Node::new(Arc::new(Simulated::default()));
    let [key, other] = [&node.key, &node.key].map(Arc::clone);
    let life = Life {
        store: format!("{store}/"),
        session: "a.1".to_owned(),
        committed: 0,
        made: 0,
        commit: Box::new(move |made| key.lock().unwrap().commit(made)),
        named: Box::new(move || Some(other.lock().unwrap().named.clone())),
    };
    node.session = Some(Session::of_cluster(&node.config, life).unwrap());
    node.begin(&web);
    for _ in 0..3 {
        node.crawl(&web, 5);
        node.save().unwrap();
    }
    let all: BTreeSet<CellId> = count(CELLS).all().collect();
    let read = |number| {
        let saved = SavedCells::open(&store, "a.1", number)?;
        saved
            .read(&all, &mut |_, _| Ok(()))
            .map(|_| saved.commits())
    };
    assert_eq!(read(3).unwrap(), node.changes.as_ref().unwrap().last());
    let refused = |number, name: &str| {
        let error: SaveError = read(number).unwrap_err();
        assert!(matches!(error, SaveError::Unreadable { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains(name) && text.contains("/sessions/a.1/"),
            "{text}"
        );
    };
    refused(4, "manifests/0000000004: it is missing");
    let folder = root.path().join("sessions/a.1");
    let last = node.session.as_ref().unwrap().last.clone().unwrap();
    let pieces = last.base.iter().chain(&last.changes);
    let names = pieces.map(|piece| piece.name.clone());
    for name in names.chain(["manifests/0000000003".to_owned()]) {
        let path = folder.join(&name);
        let whole = std::fs::read(&path).unwrap();
        let mut wrong = whole.clone();
        wrong[whole.len() / 2] = 0xff;
        std::fs::write(&path, &wrong).unwrap();
        refused(3, &name);
        std::fs::remove_file(&path).unwrap();
        refused(3, &format!("{name}: it is missing"));
        std::fs::write(&path, &whole).unwrap();
    }
    read(3).unwrap();
}

/// The crawl asks for a checkpoint when it gives a cell back, and learns which one includes the end
/// of it. When the session is over, the keeper stops.
#[test]
fn a_crawl_gets_the_checkpoint_that_it_asks_for() {
    let web = Web::new(16);
    let mut node = Node::new(Arc::new(Simulated::default()));
    node.config.checkpoint.every = Duration::from_secs(36_000);
    node.begin(&web);
    let session = node.session.take().unwrap();
    let changes = Arc::clone(node.changes.as_ref().unwrap());
    // Like the loop of a crawl, it flushes when the keeper asks.
    let (ask, asked) = std::sync::mpsc::channel::<std::sync::mpsc::Sender<()>>();
    let flush = move || {
        let (answer, answered) = std::sync::mpsc::channel();
        if ask.send(answer).is_ok() {
            // An error means that the crawl has ended.
            answered.recv().ok();
        }
    };
    let (stop, stopped) = std::sync::mpsc::channel();
    let stop = move || stop.send(()).unwrap();
    let keeper = Keeper::begin(session, Arc::clone(&changes), &node.config, flush, stop).unwrap();
    assert_eq!(
        (keeper.standing().number, keeper.standing().commits),
        (0, 0)
    );
    let wait = |node: &mut Node, is_done: &dyn Fn() -> bool| {
        while !is_done() {
            if let Ok(answer) = asked.try_recv() {
                node.cells().flush().unwrap();
                let held = node.held();
                node.key.lock().unwrap().now = held;
                answer.send(()).unwrap();
            }
            keeper.round(node.cells());
            std::thread::yield_now();
        }
    };
    for number in 1..=3 {
        node.crawl(&web, 6);
        let last = keeper.hurry();
        assert_eq!(last, node.cells().commits());
        wait(&mut node, &|| keeper.standing().commits >= last);
        let standing = keeper.standing();
        assert_eq!(standing.number, number);
        assert_eq!(node.key.lock().unwrap().committed, number);
        assert_eq!(standing.error, None);
        node.check();
    }
    node.crawl(&web, 6);
    node.key.lock().unwrap().is_over = true;
    keeper.hurry();
    wait(&mut node, &|| stopped.try_recv().is_ok());
    let over = keeper.end(node.cells()).unwrap_err();
    assert!(matches!(over, SaveError::Over { .. }), "{over}");
}

/// A folder that lost something that a checkpoint has cannot continue the session.
#[test]
fn an_older_copy_of_the_store_is_refused() {
    let web = Web::new(17);
    let objects = Arc::new(Simulated::default());
    let mut node = Node::new(Arc::clone(&objects) as Arc<dyn Objects>);
    node.begin(&web);
    node.crawl(&web, 20);
    node.save().unwrap();
    node.stop();
    std::fs::remove_dir_all(node.root.path().join("frontier")).unwrap();
    node.start();
    let behind = node.save().unwrap_err();
    assert!(behind.is_final(), "{behind}");
    let text = behind.to_string();
    assert!(text.contains("Begin a new session"), "{text}");
    node.check();
}

/// Reading one cell fetches no objects without any of its pairs.
#[test]
fn only_what_has_a_cell_is_read_for_it() {
    let web = Web::new(18);
    let objects = Arc::new(Simulated::default());
    let mut node = Node::new(Arc::clone(&objects) as Arc<dyn Objects>);
    node.begin(&web);
    node.crawl(&web, 100);
    node.save().unwrap();
    let last = node.session.as_ref().unwrap().last.clone().unwrap();
    assert!(last.base.len() > 1, "{}", last.base.len());
    let mut left_out = 0;
    for cell in count(CELLS).all() {
        let whole = objects.objects.lock().unwrap().clone();
        let others = last.base.iter().filter(|piece| {
            let (from, to) = piece.span.unwrap();
            !cell.is_between(from, to)
        });
        for piece in others {
            objects.objects.lock().unwrap().remove(&piece.name);
            left_out += 1;
        }
        let saved = SavedCells::over(Arc::clone(&node.objects), last.number).unwrap();
        let found = read(&saved, &BTreeSet::from([cell]));
        assert!(found[&cell] == node.key.lock().unwrap().held[&last.number][&cell].1);
        *objects.objects.lock().unwrap() = whole;
    }
    assert!(left_out > 0);
}
