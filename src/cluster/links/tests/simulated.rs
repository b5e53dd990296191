//! Random tests of links: three machines, each with a store on disk, and logs that store messages
//! late, twice or never. Machines are killed at the worst moments, and lose their disks.
//!
//! After every step it is checked that
//!
//! - every link of a page that counts as done is in its cell, in the outbox of the machine that
//!   found it, or in the log of its cell (C3);
//! - no message is added to a cell twice, and no link that only one page has, unless a machine lost
//!   its disk or began another session and repeats pages (C4);
//! - no message is cut that the last checkpoint of its cell does not hold (C7);
//!
//! and at the end that every reachable page was requested.
//!
//! A failing seed is printed; `SPOOR_SEED=<seed> cargo test one_seed_of_links -- --ignored` runs it
//! alone.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::super::apply::{self, Reading};
use super::super::cut::Cuts;
use super::super::envelope::Envelope;
use super::super::publish::{Publisher, Setting};
use super::web::{Machine, Web, open};
use crate::address::PageUrl;
use crate::frontier::Amend;
use crate::frontier::store::StoreError;
use crate::frontier::testing::{Pairs, pairs_of, put_in};
use crate::frontier::{CellCount, CellId};
use crate::scripted::Log;

const MACHINES: usize = 3;
const CELLS: u16 = 6;
const STEPS: usize = 250;
const LINGER: u64 = 2_000;

/// Random numbers from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A rule that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    /// Logs are cut up to what was read.
    Checkpoints,
    /// Messages under way are not noted in the store.
    Notes,
    /// Slips are deleted whether or not their messages were stored.
    Acknowledgements,
    /// Messages that were read are not noted by the number of their sender.
    Numbers,
}

/// What a cell must hold according to the messages that were added.
#[derive(Clone, Default)]
struct Model {
    sequence: u64,
    /// Messages by session and number.
    added: BTreeSet<(u64, u64)>,
    /// How often each address came.
    known: BTreeMap<String, u32>,
}

/// What survives the loss of a machine's disk.
#[derive(Clone, Default)]
struct SavedMachine {
    pairs: Vec<(CellId, Pairs)>,
    done: BTreeMap<String, Vec<PageUrl>>,
    models: BTreeMap<CellId, Model>,
}

struct Node {
    /// `None` while it is being opened again.
    machine: Option<Machine>,
    publisher: Publisher,
    session: u64,
    models: BTreeMap<CellId, Model>,
    saved: SavedMachine,
}

impl Node {
    fn machine(&mut self) -> &mut Machine {
        self.machine.as_mut().unwrap()
    }
}

struct World {
    dice: Dice,
    without: Without,
    web: Web,
    folder: tempfile::TempDir,
    cells: CellCount,
    nodes: Vec<Node>,
    logs: BTreeMap<CellId, Log>,
    /// What the logs hold.
    stored: BTreeMap<(CellId, u64), BTreeSet<String>>,
    late: Vec<(CellId, String, Bytes)>,
    cuts: Cuts,
    sessions: u64,
    /// Whether pages may have been done twice.
    again: bool,
    now: u64,
    is_over: bool,
}

type Checked = Result<(), String>;

fn require(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}

impl World {
    fn new(seed: u64, without: Without) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cells = CellCount::new(CELLS).unwrap();
        let mut world = Self {
            dice: Dice(seed),
            without,
            web: Web(seed),
            cells,
            nodes: Vec::new(),
            logs: cells.all().map(|cell| (cell, Log::default())).collect(),
            stored: BTreeMap::new(),
            late: Vec::new(),
            cuts: Cuts::default(),
            sessions: 0,
            again: false,
            now: 1_000_000,
            is_over: false,
            folder,
        };
        for node in 0..MACHINES {
            let is_own = |cell: &CellId| usize::from(cell.number()) % MACHINES == node;
            let own: Vec<CellId> = cells.all().filter(is_own).collect();
            let path = world.folder.path().join(format!("{node}"));
            let machine = Machine::new(path, own.clone(), cells, world.now);
            let session = world.session();
            let models = own.iter().map(|cell| (*cell, Model::default()));
            world.nodes.push(Node {
                publisher: Publisher::new(world.setting(session), &[]).unwrap(),
                machine: Some(machine),
                session,
                models: models.collect(),
                saved: SavedMachine::default(),
            });
        }
        let seed = world.web.seed();
        let owner = world.owner(&seed);
        world.add_seed(owner);
        // A checkpoint that holds only the seed would lose it.
        for node in 0..MACHINES {
            world.checkpoint(node);
        }
        world
    }

    fn session(&mut self) -> u64 {
        self.sessions += 1;
        self.sessions
    }

    fn setting(&self, session: u64) -> Setting {
        Setting {
            linger: LINGER,
            links: 3,
            filter: 100_000,
            ..Setting::usual(session, self.cells)
        }
    }

    fn owner(&self, url: &PageUrl) -> usize {
        usize::from(self.cells.cell_of(&url.host_key()).number()) % MACHINES
    }

    fn add_seed(&mut self, node: usize) {
        let (seed, now) = (self.web.seed(), self.now);
        if self.owner(&seed) == node {
            let cells = &mut self.nodes[node].machine().cells;
            cells.add_seeds(&[seed], now).unwrap();
        }
    }

    fn run(&mut self) -> Checked {
        for _ in 0..STEPS {
            self.step()?;
            self.check()?;
        }
        self.is_over = true;
        for _ in 0..2_000 {
            let mut done = 0;
            for node in 0..MACHINES {
                self.now += 1_000;
                let now = self.now;
                while self.nodes[node]
                    .machine
                    .as_mut()
                    .unwrap()
                    .crawl(&self.web, now)
                {
                    done += 1;
                }
                done += self.publish(node)?;
                done += self.send(node)?;
                done += self.read(node, usize::MAX)?;
            }
            let is_idle = |node: &Node| node.publisher.is_idle();
            if done == 0 && self.nodes.iter().all(is_idle) {
                break;
            }
        }
        self.check()?;
        self.check_stores()?;
        let done = self.nodes.iter().flat_map(|n| {
            let machine = n.machine.as_ref().unwrap();
            machine.done.keys().cloned()
        });
        let done: BTreeSet<String> = done.collect();
        let missing: Vec<String> = self.web.all().difference(&done).cloned().collect();
        require(missing.is_empty(), || {
            format!("never asked for: {missing:?}")
        })
    }

    fn step(&mut self) -> Checked {
        self.now += 100 + self.dice.below(400);
        let node = self.dice.below(MACHINES as u64) as usize;
        match self.dice.below(1_000) {
            0..450 => {
                let now = self.now;
                self.nodes[node]
                    .machine
                    .as_mut()
                    .unwrap()
                    .crawl(&self.web, now);
            }
            450..600 => drop(self.publish(node)?),
            600..750 => drop(self.send(node)?),
            750..930 => {
                let most = self.dice.below(4) as usize;
                self.read(node, most)?;
            }
            930..960 => {
                // A late message arrives, when the broker may have forgotten the identities of
                // repeated ones.
                for log in self.logs.values_mut() {
                    log.forget_ids();
                }
                if let Some((to, id, message)) = self.late.pop() {
                    self.store(to, &id, &message);
                }
            }
            960..975 => self.checkpoint(node),
            975..990 => self.kill(node)?,
            _ => {
                if self.dice.percent(50) {
                    self.lose_disk(node)?;
                }
            }
        }
        Ok(())
    }

    /// Gathers what is in the outbox, and notes what will be sent.
    fn publish(&mut self, node: usize) -> Result<usize, String> {
        let (now, is_over) = (self.now, self.is_over);
        let Node {
            machine, publisher, ..
        } = &mut self.nodes[node];
        let cells = &mut machine.as_mut().unwrap().cells;
        publisher.hurry(is_over);
        let waiting = cells.outbox_targets().len();
        publisher.gather(cells, now).unwrap();
        let changes = publisher.close(now).unwrap();
        if !is_over && self.dice.percent(5) {
            self.kill(node)?;
            return Ok(1);
        }
        let cells = &mut self.nodes[node].machine().cells;
        cells.change_outbox(&changes).unwrap();
        Ok(waiting + changes.len())
    }

    fn send(&mut self, node: usize) -> Result<usize, String> {
        let posts = self.nodes[node].publisher.due(self.now);
        let sent = posts.len();
        for post in posts {
            let fate = if self.is_over {
                0
            } else {
                self.dice.below(100)
            };
            match fate {
                0..75 => self.store(post.to, &post.id, &post.message),
                75..85 => self
                    .late
                    .push((post.to, post.id.clone(), post.message.clone())),
                _ => {}
            }
            // An acknowledgement may be lost.
            let is_stored = fate < 60 || self.without == Without::Acknowledgements;
            let publisher = &mut self.nodes[node].publisher;
            let change = publisher.answer(post.to, post.number, is_stored, self.now);
            if !self.is_over && self.dice.percent(4) {
                self.kill(node)?;
                return Ok(sent);
            }
            let cells = &mut self.nodes[node].machine().cells;
            cells.change_outbox(change.unwrap().as_slice()).unwrap();
        }
        Ok(sent)
    }

    fn store(&mut self, to: CellId, id: &str, message: &Bytes) {
        let log = self.logs.get_mut(&to).unwrap();
        log.store(id, message);
        // A repeated message is not stored.
        let Some((number, last)) = log.messages.last_key_value() else {
            return;
        };
        let envelope = Envelope::of(last).unwrap();
        let ways = envelope.offers.iter().map(|offer| offer.way().unwrap());
        let addresses = ways.map(|way| way.url.as_str().to_owned()).collect();
        self.stored.insert((to, *number), addresses);
    }

    /// Reads the logs of a machine's cells, sometimes starting a few messages early.
    fn read(&mut self, node: usize, most: usize) -> Result<usize, String> {
        let mut read = 0;
        let own = self.nodes[node].machine().own.clone();
        for cell in own {
            let place = self.nodes[node].machine().cells.log_place(cell).unwrap();
            let back = self.dice.below(3);
            let behind = self.logs[&cell].behind(place.sequence.saturating_sub(back));
            for (sequence, message) in behind.into_iter().take(most) {
                read += usize::from(self.add(node, cell, sequence, &message)?);
                if self.without == Without::Checkpoints {
                    self.logs.get_mut(&cell).unwrap().cut(sequence);
                }
            }
        }
        Ok(read)
    }

    fn add(
        &mut self,
        node: usize,
        cell: CellId,
        sequence: u64,
        message: &Bytes,
    ) -> Result<bool, String> {
        let (now, again) = (self.now, self.again);
        let Node {
            machine, models, ..
        } = &mut self.nodes[node];
        let cells = &mut machine.as_mut().unwrap().cells;
        let mut before = cells.log_place(cell).unwrap();
        if self.without == Without::Numbers {
            before.note.clear();
        }
        let (offers, place, is_repeated, lost) =
            match apply::read(&before, sequence, message).map_err(|e| e.to_string())? {
                Reading::Known => return Ok(false),
                Reading::Reject { why, .. } => return Err(why.to_string()),
                Reading::Add {
                    offers,
                    place,
                    lost,
                    is_repeated,
                    ..
                } => (offers, place, is_repeated, lost),
            };
        let model = models.get_mut(&cell).unwrap();
        let amend: &mut Amend<'_, StoreError> = &mut |_| Ok(Vec::new());
        let is_new = cells.receive(cell, &place, &offers, now, amend).unwrap();
        require(is_new && sequence > model.sequence, || {
            format!("C4: {cell} has added message {sequence} twice")
        })?;
        let is_counted = again || self.without == Without::Numbers;
        require(lost == 0 || is_counted, || {
            format!("{cell} misses {lost} messages before {sequence}")
        })?;
        model.sequence = sequence;
        let envelope = Envelope::of(message).unwrap();
        let was_new = model.added.insert((envelope.session, envelope.number));
        require(was_new != is_repeated, || {
            format!("C4: {cell} takes message {sequence} for what it is not")
        })?;
        for offer in &offers {
            let url = offer.way().unwrap().url.as_str().to_owned();
            let times = model.known.entry(url.clone()).or_default();
            *times += 1;
            let is_once = *times == 1 || again || !url.contains("leaf");
            require(is_once, || format!("C4: {url} has come twice"))?;
        }
        Ok(true)
    }

    /// Kills the process, and starts another one.
    fn kill(&mut self, node: usize) -> Checked {
        let session = if self.dice.percent(75) {
            self.nodes[node].session
        } else {
            self.again = true;
            self.session()
        };
        let setting = self.setting(session);
        let now = self.now;
        let node = &mut self.nodes[node];
        let machine = node.machine.take().unwrap().killed(now);
        let notes = match self.without {
            Without::Notes => Vec::new(),
            _ => machine.cells.outbox_notes().unwrap(),
        };
        node.publisher = Publisher::new(setting, &notes).unwrap();
        node.session = session;
        for (cell, model) in &node.models {
            let place = machine.cells.log_place(*cell).unwrap();
            require(place.sequence == model.sequence, || {
                format!(
                    "C4: {cell} stands at {} and not at {}",
                    place.sequence, model.sequence
                )
            })?;
        }
        node.machine = Some(machine);
        Ok(())
    }

    /// Saves all cells of a machine, and cuts their logs.
    fn checkpoint(&mut self, node: usize) {
        let own = self.nodes[node].machine().own.clone();
        let cells = &self.nodes[node].machine().cells;
        let pairs = own.iter().map(|cell| (*cell, pairs_of(cells, *cell)));
        let pairs = Vec::from_iter(pairs);
        let Node {
            machine,
            models,
            saved,
            ..
        } = &mut self.nodes[node];
        let machine = machine.as_ref().unwrap();
        *saved = SavedMachine {
            pairs,
            done: machine.done.clone(),
            models: models.clone(),
        };
        let places = own.iter().map(|cell| {
            let place = machine.cells.log_place(*cell).unwrap();
            (*cell, place.sequence)
        });
        self.cuts.committed(places);
        for (cell, sequence) in self.cuts.due() {
            self.logs.get_mut(&cell).unwrap().cut(sequence);
            self.cuts.done(cell, sequence);
        }
    }

    /// Another machine continues from the last checkpoint.
    fn lose_disk(&mut self, node: usize) -> Checked {
        self.again = true;
        let session = self.session();
        let (setting, now) = (self.setting(session), self.now);
        let Machine { own, cells, .. } = self.nodes[node].machine.take().unwrap();
        drop(cells);
        let saved = self.nodes[node].saved.clone();
        let folder = self.folder.path().join(format!("heir-{session}"));
        let mut cells = open(&folder, self.cells);
        for (cell, pairs) in &saved.pairs {
            put_in(&mut cells, *cell, pairs).unwrap();
            cells.open_cell(*cell, now).unwrap();
        }
        let SavedMachine { done, models, .. } = saved;
        let heir = &mut self.nodes[node];
        heir.publisher = Publisher::new(setting, &cells.outbox_notes().unwrap()).unwrap();
        heir.session = session;
        heir.models = models;
        heir.machine = Some(Machine {
            folder,
            own,
            cells,
            done,
        });
        self.add_seed(node);
        self.check_stores()
    }

    fn check(&self) -> Checked {
        for (cell, log) in &self.logs {
            // C7: messages after the last checkpoint of its cell are still there.
            let owner = usize::from(cell.number()) % MACHINES;
            let saved = self.nodes[owner].saved.models.get(cell);
            let held = saved.map_or(0, |model| model.sequence);
            for (_, sequence) in self.stored.keys().filter(|(to, _)| to == cell) {
                require(
                    *sequence <= held || log.messages.contains_key(sequence),
                    || format!("C7: message {sequence} of {cell} is cut, {held} is held"),
                )?;
            }
        }
        for (number, node) in self.nodes.iter().enumerate() {
            let machine = node.machine.as_ref().unwrap();
            let mut outbox = BTreeSet::new();
            let targets = machine.cells.outbox_targets();
            let slips = |to: CellId| machine.cells.outbox(to).map(move |slip| (to, slip));
            for (to, slip) in targets.into_iter().flat_map(slips) {
                let offers = machine.cells.offers(to, slip).unwrap();
                let urls = offers.iter().map(|o| o.offer.way().unwrap().url.clone());
                outbox.extend(urls);
            }
            let links = machine.done.values().flatten();
            for url in links.filter(|url| self.owner(url) != number) {
                let cell = self.cells.cell_of(&url.host_key());
                let model = &self.nodes[self.owner(url)].models[&cell];
                let behind = (cell, model.sequence + 1)..=(cell, u64::MAX);
                let is_there = model.known.contains_key(url.as_str())
                    || outbox.contains(url)
                    || self
                        .stored
                        .range(behind)
                        .any(|(_, urls)| urls.contains(url.as_str()));
                require(is_there, || format!("C3: {url} is lost"))?;
            }
        }
        Ok(())
    }

    /// Whether stores hold what they must.
    fn check_stores(&mut self) -> Checked {
        let now = self.now;
        for node in &mut self.nodes {
            let cells = &mut node.machine.as_mut().unwrap().cells;
            for (cell, model) in &node.models {
                for url in model.known.keys() {
                    let url = PageUrl::parse(url).unwrap();
                    let kind = crate::page::TaskKind::Page;
                    let known = cells.with(*cell, now, |f| f.look_up(&url, kind)).unwrap();
                    require(known.is_some(), || format!("C4: {url} is not in {cell}"))?;
                }
            }
        }
        Ok(())
    }
}

#[track_caller]
fn must_hold(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        if let Err(wrong) = World::new(seed, Without::Nothing).run() {
            panic!("seed {seed}: {wrong}");
        }
    }
}

#[test]
fn no_link_is_lost_or_added_twice() {
    must_hold(0..2);
}

/// Shows that each rule is needed.
#[test]
fn without_a_rule_a_promise_is_broken() {
    for (without, broken) in [
        (Without::Checkpoints, "C7"),
        (Without::Notes, "C"),
        (Without::Acknowledgements, "C3"),
        (Without::Numbers, "C4"),
    ] {
        let wrong = (0..20).find_map(|seed| World::new(seed, without).run().err());
        let wrong = wrong.unwrap_or_default();
        assert!(wrong.starts_with(broken), "without {without:?}: {wrong:?}");
    }
}

#[test]
#[ignore = "the long form: 300 seeds"]
fn no_link_is_lost_or_added_twice_in_many_clusters() {
    must_hold(0..300);
}

#[test]
#[ignore = "runs the seed of SPOOR_SEED alone"]
fn one_seed_of_links() {
    let seed = std::env::var("SPOOR_SEED").unwrap_or_default();
    let seed: u64 = seed.parse().expect("SPOOR_SEED is a number");
    must_hold(seed..seed + 1);
}
