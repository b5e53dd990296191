//! Sessions by chance that take permits, use them, commit, die, are ended and begin, before a
//! broker that answers late or never. After every step what committed checkpoints hold together
//! is within the limits; and at the end, where there is enough to fetch, it is the limit.

use proptest::prelude::*;

use super::super::record::{Node, State};
use super::super::versioned::Versioned;
use super::*;

const LIMIT: u64 = 60;

fn ceiling() -> Ceiling {
    Ceiling {
        documents: Some(LIMIT),
        fetches: Some(LIMIT * 3),
        bytes: None,
    }
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Answered,
    /// It is done, and the answer is lost.
    Unheard,
    /// It is done later.
    Late,
    Lost,
}

/// A process of a session, with what its node does.
struct Process {
    account: Account,
    /// The records of the others as it knows them.
    view: BTreeMap<SessionId, SessionRecord>,
    number: u64,
    wanted: u64,
    most: u64,
    open: u64,
}

impl Process {
    fn new() -> Self {
        Self {
            account: Account::default(),
            view: BTreeMap::new(),
            number: 0,
            wanted: 0,
            most: 0,
            open: 0,
        }
    }
}

#[derive(Default)]
struct World {
    keys: Versioned<(), PermitsRecord>,
    records: BTreeMap<SessionId, SessionRecord>,
    /// What each has in its store, committed or not.
    used: BTreeMap<SessionId, Amount>,
    processes: BTreeMap<SessionId, Process>,
    late: Vec<(PermitsRecord, Option<Revision>)>,
    begun: u64,
}

impl World {
    fn begin(&mut self) {
        self.begun += 1;
        let id = SessionId {
            node: Node::new("n").unwrap(),
            number: self.begun,
        };
        self.records
            .insert(id.clone(), SessionRecord::new(State::Live, 0));
        self.used.insert(id.clone(), Amount::default());
        self.processes.insert(id, Process::new());
    }

    /// The process dies and another goes on with its session, or not.
    fn die(&mut self, id: &SessionId, goes_on: bool) {
        self.processes.remove(id);
        let is_live = self.records[id].state.is_live();
        if goes_on && is_live {
            self.processes.insert(id.clone(), Process::new());
        }
    }

    fn commit(&mut self, id: &SessionId) {
        let record = self.records.get_mut(id).unwrap();
        if record.state.is_live() {
            record.checkpoint += 1;
            record.used = self.used[id];
        }
    }

    /// The node asks for so many more than it needs, if its last question was heard.
    fn want(&mut self, id: &SessionId, ahead: u64) {
        let used = self.used[id];
        let grant = self.grant(id);
        let process = self.processes.get_mut(id).unwrap();
        if grant.number != process.number {
            return;
        }
        let wanted = used.documents + process.open + ahead;
        process.most = process.wanted.min(wanted);
        process.wanted = wanted;
        process.number += 1;
        process.account.ask(Ask {
            number: process.number,
            ceiling: ceiling(),
            used,
            wanted: Amount {
                documents: wanted,
                fetches: used.fetches + process.open + ahead,
                bytes: 0,
            },
        });
    }

    fn grant(&self, id: &SessionId) -> Grant {
        let process = &self.processes[id];
        process.account.grant(id, process.view.iter())
    }

    /// Opens a request, if there is a permit.
    fn open(&mut self, id: &SessionId) -> bool {
        let grant = self.grant(id);
        let used = self.used[id];
        let process = self.processes.get_mut(id).unwrap();
        let most = if grant.number == process.number {
            process.wanted
        } else {
            process.most
        };
        let left = grant.hand.documents.min(most);
        let left = left.saturating_sub(used.documents);
        let left = left.min(grant.hand.fetches.saturating_sub(used.fetches));
        let may = left > process.open;
        process.open += u64::from(may);
        may
    }

    /// A request ends, with a document or without.
    fn close(&mut self, id: &SessionId, brings: bool) {
        let process = self.processes.get_mut(id).unwrap();
        if process.open > 0 {
            process.open -= 1;
            let used = self.used.get_mut(id).unwrap();
            used.documents += u64::from(brings);
            used.fetches += 1;
            used.bytes += 7;
        }
    }

    fn step(&mut self, id: &SessionId, fate: Fate) {
        let Some(process) = self.processes.get_mut(id) else {
            return;
        };
        let step = process.account.step(id, process.view.iter());
        match step {
            None => {}
            Some(_) if fate == Fate::Lost => process.account.doubt(),
            Some(Step::Read) => match self.keys.get(&()) {
                Some((record, revision)) => {
                    let (record, revision) = (record.clone(), *revision);
                    process.account.has_read(id, record, Some(revision));
                }
                None => process.account.has_read(id, PermitsRecord::default(), None),
            },
            Some(Step::Swap(record, was)) => match fate {
                Fate::Late => {
                    self.late.push((record, was));
                    process.account.doubt();
                }
                Fate::Answered => match self.keys.swap((), record.clone(), was) {
                    Some(revision) => process.account.has_swapped(id, record, revision),
                    None => process.account.doubt(),
                },
                Fate::Unheard | Fate::Lost => {
                    self.keys.swap((), record, was);
                    process.account.doubt();
                }
            },
        }
    }

    /// Something late arrives.
    fn arrive(&mut self, which: usize) {
        if !self.late.is_empty() {
            let (record, was) = self.late.swap_remove(which % self.late.len());
            self.keys.swap((), record, was);
        }
    }

    /// A process looks at all keys; the records of sessions may be older than the permits.
    fn look(&mut self, id: &SessionId, at_records: bool) {
        let process = self.processes.get_mut(id).unwrap();
        if at_records {
            process.view = self.records.clone();
            process.view.remove(id);
        }
        if let Some((record, revision)) = self.keys.get(&()) {
            let (record, revision) = (record.clone(), *revision);
            process.account.see(id, record, revision);
        }
    }

    fn committed(&self) -> Amount {
        let used = self.records.values().map(|record| record.used);
        used.fold(Amount::default(), Amount::plus)
    }

    fn check(&self) {
        let committed = self.committed();
        assert!(committed.documents <= LIMIT, "{committed:?}");
        assert!(committed.fetches <= LIMIT * 3, "{committed:?}");
    }

    fn act(&mut self, act: u32) {
        let kind = act % 32;
        if kind == 0 || self.processes.is_empty() {
            self.begin();
            return;
        }
        let which = (act / 32) as usize % self.processes.len();
        let id = self.processes.keys().nth(which).unwrap().clone();
        let more = act / 1_024;
        let fate = match more % 8 {
            0 => Fate::Unheard,
            1 => Fate::Late,
            2 => Fate::Lost,
            _ => Fate::Answered,
        };
        match kind {
            1 => self.die(&id, more.is_multiple_of(2)),
            2 => {
                // Any session may be ended at any time, also one whose process goes on.
                let all = self.records.len();
                let record = self.records.values_mut().nth(more as usize % all).unwrap();
                if record.state.is_live() {
                    record.state = State::Fenced;
                }
            }
            3 if more.is_multiple_of(4) => {
                self.commit(&id);
                self.records.get_mut(&id).unwrap().state = State::Ended;
                self.processes.remove(&id);
            }
            4 => self.processes.get_mut(&id).unwrap().account.lapse(),
            5 | 6 => self.commit(&id),
            7..10 => self.want(&id, u64::from(more % 20)),
            10 | 11 => self.want(&id, 0),
            12 => self.arrive(more as usize),
            13..16 => self.look(&id, more.is_multiple_of(3)),
            16..22 => self.step(&id, fate),
            22..27 => drop(self.open(&id)),
            _ => self.close(&id, !more.is_multiple_of(3)),
        }
    }

    /// Whatever cannot be renewed is ended, and the rest goes on until nothing can be asked for.
    fn finish(&mut self) {
        let dead = |id: &SessionId| !self.processes.contains_key(id);
        let dead = self.records.keys().filter(|id| dead(id));
        for id in Vec::from_iter(dead.cloned()) {
            let record = self.records.get_mut(&id).unwrap();
            if record.state.is_live() {
                record.state = State::Fenced;
            }
        }
        let records = &self.records;
        self.processes.retain(|id, _| records[id].state.is_live());
        self.begin();
        self.begin();
        let mut idle = 0;
        while idle < 10 {
            idle += 1;
            for id in Vec::from_iter(self.processes.keys().cloned()) {
                self.look(&id, true);
                self.step(&id, Fate::Answered);
                self.want(&id, 5);
                self.step(&id, Fate::Answered);
                self.step(&id, Fate::Answered);
                while self.open(&id) {
                    idle = 0;
                }
                while self.processes[&id].open > 0 {
                    self.close(&id, true);
                }
                self.commit(&id);
                self.check();
            }
        }
    }
}

proptest! {
    #![proptest_config(crate::tests::cases(256))]

    #[test]
    fn what_is_committed_never_exceeds_a_limit_and_reaches_it(
        acts in proptest::collection::vec(any::<u32>(), 10..600)
    ) {
        let mut world = World::default();
        for act in acts {
            world.act(act);
            world.check();
        }
        world.finish();
        let committed = world.committed();
        let reached = committed.documents == LIMIT || committed.fetches == LIMIT * 3;
        prop_assert!(reached, "{committed:?}");
        let id = world.processes.keys().next_back().unwrap().clone();
        world.look(&id, true);
        let full = world.grant(&id).full;
        prop_assert!(full.documents || full.fetches);
    }
}

/// One that has nothing to fetch gives back what it has, and another takes it.
#[test]
fn what_is_given_back_can_be_taken() {
    let mut world = World::default();
    world.begin();
    world.begin();
    let ids = Vec::from_iter(world.processes.keys().cloned());
    let [first, second] = [&ids[0], &ids[1]];
    let settle = |world: &mut World, id: &SessionId| {
        for _ in 0..4 {
            world.look(id, true);
            world.step(id, Fate::Answered);
        }
    };
    world.want(first, LIMIT);
    settle(&mut world, first);
    world.want(second, 3);
    settle(&mut world, second);
    assert_eq!(world.grant(second).hand.documents, 0);
    assert!(world.grant(second).full.documents);
    assert!(world.open(first));
    world.want(first, 0);
    settle(&mut world, first);
    settle(&mut world, second);
    assert_eq!(world.grant(first).hand.documents, 1);
    assert_eq!(world.grant(second).hand.documents, 3);
    assert!(!world.grant(second).full.documents);
}

/// Until a process has changed the key, what another one asked before it may still be done.
#[test]
fn a_process_waits_until_nothing_asked_before_can_be_done() {
    let mut world = World::default();
    world.begin();
    let id = world.processes.keys().next().unwrap().clone();
    world.want(&id, 20);
    for _ in 0..3 {
        world.step(&id, Fate::Answered);
    }
    world.want(&id, 5);
    world.step(&id, Fate::Late);
    world.die(&id, true);
    world.want(&id, 20);
    world.step(&id, Fate::Answered);
    assert_eq!(world.grant(&id).hand.documents, 0);
    world.step(&id, Fate::Answered);
    assert_eq!(world.grant(&id).hand.documents, 20);
    world.arrive(0);
    world.look(&id, true);
    assert_eq!(world.grant(&id).hand.documents, 20);
}

/// A limit that is lowered below what was used is kept from then on.
#[test]
fn what_was_used_stays_taken() {
    let mut world = World::default();
    world.begin();
    let id = world.processes.keys().next().unwrap().clone();
    let used = Amount {
        documents: LIMIT + 5,
        ..Amount::default()
    };
    world.used.insert(id.clone(), used);
    world.want(&id, 3);
    for _ in 0..3 {
        world.step(&id, Fate::Answered);
    }
    assert_eq!(world.grant(&id).hand.documents, LIMIT + 5);
    assert!(!world.open(&id));
}

/// What is not limited is written by whoever changes the key, as its session has used it. The
/// session itself, which takes nothing of it, must not set it back: two would never come to rest.
#[test]
fn what_is_not_limited_is_no_reason_to_write() {
    let node = Node::new("a").unwrap();
    let own = SessionId { node, number: 1 };
    let used = Amount {
        documents: 53,
        fetches: 66,
        bytes: 229_023,
    };
    let mut account = Account::default();
    account.ask(Ask {
        number: 1,
        ceiling: Ceiling {
            documents: Some(90),
            ..Ceiling::default()
        },
        used,
        wanted: used,
    });
    assert_eq!(account.step(&own, [].into_iter()), Some(Step::Read));
    account.has_read(&own, PermitsRecord::default(), None);
    let Some(Step::Swap(mut record, None)) = account.step(&own, [].into_iter()) else {
        panic!("it takes what it has used");
    };
    let taken = record.taken.get_mut("a.1").unwrap();
    assert_eq!((taken.documents, taken.fetches), (53, 0));
    account.has_swapped(&own, record.clone(), Revision(1));
    assert_eq!(account.step(&own, [].into_iter()), None);
    record.taken.insert("a.1".to_owned(), used);
    account.see(&own, record, Revision(2));
    assert_eq!(account.step(&own, [].into_iter()), None);
}
