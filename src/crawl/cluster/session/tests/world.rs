//! Nodes, a broker and a web in true time, and what is wrong with what they do.

mod checks;
mod faults;
mod process;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use self::faults::Fault;
use super::super::super::record::{Base, Key, Node, SessionId, Value};
use super::super::super::{EngineError, Revision};
use super::super::{Answer, Call, CallId, Inherited, Kept, News, Session, Setting, Terms};
use super::broker::{Broker, Dice};
use crate::crawl::frontier::{CellCount, CellId};

pub(super) const TERM: u64 = 5_000;
const CELLS: u16 = 8;
const HOSTS: usize = 2;
/// Between two requests to a host at least, and at most.
const LEAST_DELAY: u64 = 1_000;
const MOST_DELAY: u64 = 8_000;
const NODES: usize = 4;

/// A rule that is left out, to see that it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Without {
    Nothing,
    /// Requests are checked when they are leased, not when they are written.
    TheGateAtWrites,
    /// The term is never looked at.
    Terms,
    /// What was taken is asked at once.
    QuietTime,
    /// As long as others wait, with clocks that are as different.
    EnoughQuietTime,
    /// Cells are given back with the checkpoint before the last.
    LastCheckpoint,
    /// Others are ended at the first look.
    Patience,
}

#[derive(Debug)]
enum Event {
    Tick,
    Arrive(CallId, Call),
    Reply(CallId, Result<Answer, EngineError>),
    Write(CellId, usize, u64),
    Close(CellId, usize, u64),
}

#[derive(Clone)]
struct HostState {
    next: u64,
    delay: u64,
    asked: u64,
}

#[derive(Clone)]
struct CellState {
    hosts: Vec<HostState>,
    /// How many pages are done.
    done: u64,
    clean: bool,
}

impl CellState {
    /// Nobody knows by this machine's clock when a host was asked last.
    fn forget_moments(&mut self, clean: bool) {
        self.clean = clean;
        for host in &mut self.hosts {
            (host.next, host.asked) = (0, 0);
        }
    }
}

struct Process {
    session: Session,
    tenure: u64,
    cells: BTreeMap<CellId, CellState>,
    /// Requests under way.
    open: Vec<(CellId, usize)>,
    written: Vec<(CellId, u64)>,
    made: u64,
    checkpoint_due: u64,
    giving: Vec<CellId>,
    /// The true moment of the last renewal that the broker stored.
    stored: u64,
    /// The values of the keys of its cells.
    revisions: BTreeMap<CellId, Revision>,
    secrets: BTreeSet<u64>,
}

/// What outlives a process.
struct Disk {
    kept: Kept,
    cells: BTreeMap<CellId, CellState>,
}

impl Process {
    fn of(session: Session) -> Self {
        Self {
            session,
            tenure: 0,
            cells: BTreeMap::new(),
            open: Vec::new(),
            written: Vec::new(),
            made: 0,
            checkpoint_due: 0,
            giving: Vec::new(),
            stored: 0,
            revisions: BTreeMap::new(),
            secrets: BTreeSet::new(),
        }
    }
}

struct Machine {
    name: Node,
    rate: f64,
    offset: u64,
    life: u64,
    process: Option<Process>,
    disk: Option<Disk>,
    frozen: u64,
    cut_out: bool,
    cut_back: bool,
    loss: u64,
    kept: Vec<(CallId, Call)>,
}

impl Machine {
    fn local(&self, now: u64) -> u64 {
        self.offset + (now as f64 * self.rate) as u64
    }
}

#[derive(Clone)]
struct ServerHost {
    last: Option<(u64, u64, usize, u64)>,
    delay: u64,
}

struct Checkpoint {
    cells: BTreeMap<CellId, CellState>,
    written: usize,
}

pub(super) struct World {
    now: u64,
    dice: Dice,
    without: Without,
    events: BinaryHeap<Reverse<Due>>,
    faults: BinaryHeap<Reverse<(u64, usize)>>,
    planned: Vec<Fault>,
    sequence: u64,
    machines: Vec<Machine>,
    broker: Broker,
    hosts: BTreeMap<CellId, Vec<ServerHost>>,
    checkpoints: BTreeMap<(SessionId, u64), Checkpoint>,
    written: BTreeMap<SessionId, Vec<(CellId, u64)>>,
    committed: BTreeMap<SessionId, usize>,
    union: BTreeMap<(CellId, u64), u32>,
    asked: BTreeMap<CellId, u64>,
    pub(super) requests: u64,
    pub(super) over: u64,
    /// Cells that a process kept over the death of another.
    pub(super) kept: u64,
    /// Cells that others had meanwhile.
    pub(super) lost: u64,
    pub(super) steps: u64,
}

/// When something happens, its number, the node, its life, and what it is.
type Due = (u64, u64, usize, u64, EventSlot);

/// An event, compared by nothing.
struct EventSlot(Event);

impl PartialEq for EventSlot {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for EventSlot {}
impl PartialOrd for EventSlot {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for EventSlot {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

/// What is wrong.
type Wrong = String;

impl World {
    pub(super) fn new(seed: u64, without: Without) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let machines = (0..NODES).map(|n| Machine {
            name: Node::new(&format!("n{n}")).unwrap(),
            rate: match dice.within(0, 2) {
                0 => 0.8,
                1 => 1.25,
                _ => 0.8 + dice.within(0, 450) as f64 / 1_000.0,
            },
            offset: dice.within(0, 1_000_000_000),
            life: 0,
            process: None,
            disk: None,
            frozen: 0,
            cut_out: false,
            cut_back: false,
            loss: 1,
            kept: Vec::new(),
        });
        let server = ServerHost {
            last: None,
            delay: LEAST_DELAY,
        };
        let cells = CellCount::new(CELLS).unwrap();
        let mut world = Self {
            now: 0,
            machines: machines.collect(),
            hosts: cells
                .all()
                .map(|cell| (cell, vec![server.clone(); HOSTS]))
                .collect(),
            dice,
            without,
            events: BinaryHeap::new(),
            faults: BinaryHeap::new(),
            planned: Vec::new(),
            sequence: 0,
            broker: Broker::default(),
            checkpoints: BTreeMap::new(),
            written: BTreeMap::new(),
            committed: BTreeMap::new(),
            union: BTreeMap::new(),
            asked: BTreeMap::new(),
            requests: 0,
            over: 0,
            kept: 0,
            lost: 0,
            steps: 0,
        };
        world.plan();
        world
    }

    fn push(&mut self, at: u64, node: usize, event: Event) {
        self.sequence += 1;
        let life = self.machines[node].life;
        self.events
            .push(Reverse((at, self.sequence, node, life, EventSlot(event))));
    }

    /// Three minutes. The error says what is wrong, and when.
    pub(super) fn run(&mut self) -> Result<(), Wrong> {
        loop {
            let event = self
                .events
                .peek()
                .map_or(u64::MAX, |Reverse(event)| event.0);
            let fault = self
                .faults
                .peek()
                .map_or(u64::MAX, |Reverse(fault)| fault.0);
            self.now = event.min(fault);
            if self.now > 180_000 {
                break;
            }
            let done = if fault <= event {
                let Some(Reverse((_, fault))) = self.faults.pop() else {
                    break;
                };
                self.happens(self.planned[fault]);
                Ok(())
            } else {
                let Some(Reverse((_, _, node, life, event))) = self.events.pop() else {
                    break;
                };
                self.one(node, life, event.0)
            };
            self.steps += 1;
            let checked = done.and_then(|()| self.check());
            checked.map_err(|wrong| format!("at {} ms: {wrong}", self.now))?;
        }
        self.check_the_end()
    }

    fn one(&mut self, node: usize, life: u64, event: Event) -> Result<(), Wrong> {
        if let Event::Arrive(id, call) = event {
            self.arrive(node, life, id, call)?;
            return Ok(());
        }
        let machine = &self.machines[node];
        if machine.life != life || machine.process.is_none() {
            return Ok(());
        }
        if self.now < machine.frozen {
            // Everything happens at once, in any order, when it wakes.
            let at = machine.frozen + self.dice.within(0, 5);
            self.push(at, node, event);
            return Ok(());
        }
        let local = machine.local(self.now);
        match event {
            Event::Tick => {
                let next = self.dice.within(100, 260);
                self.push(self.now + next, node, Event::Tick);
                self.crawl(node, local);
            }
            Event::Reply(id, answer) => {
                if let Some(process) = &mut self.machines[node].process {
                    process.session.answer(local, id, answer);
                }
            }
            Event::Write(cell, host, tenure) => self.write(node, cell, host, tenure, local)?,
            Event::Close(cell, host, tenure) => self.close(node, cell, host, tenure, local),
            Event::Arrive(..) => {}
        }
        self.drive(node, local);
        Ok(())
    }

    fn send(&mut self, node: usize, id: CallId, call: Call) {
        let machine = &mut self.machines[node];
        if machine.cut_out || self.broker.is_down {
            if self.dice.percent(50) && machine.cut_out {
                machine.kept.push((id, call));
            }
            return;
        }
        if self.dice.percent(machine.loss) {
            return;
        }
        let again = self.dice.percent(2).then(|| call.clone());
        let slow = if self.dice.percent(3) { 2_500 } else { 40 };
        let at = self.now + self.dice.within(1, slow);
        self.push(at, node, Event::Arrive(id, call));
        if let Some(call) = again {
            let at = at + self.dice.within(0, 3_000);
            self.push(at, node, Event::Arrive(id, call));
        }
    }

    fn arrive(&mut self, node: usize, life: u64, id: CallId, call: Call) -> Result<(), Wrong> {
        if self.broker.is_down {
            return Ok(());
        }
        let answer = self.broker.answer(self.now, call);
        if let Some((Key::Session(session), Value::Session(record))) = self.broker.changed.take() {
            self.commits(&session, record.checkpoint)?;
            let machine = &mut self.machines[node];
            if let Some(process) = machine.process.as_mut().filter(|_| machine.life == life)
                && session.node == machine.name
                && record.state.is_live()
            {
                process.stored = self.now;
            }
        }
        let machine = &self.machines[node];
        if machine.life != life || machine.cut_back || self.dice.percent(machine.loss) {
            return Ok(());
        }
        let slow = if self.dice.percent(3) { 2_500 } else { 40 };
        let at = self.now + self.dice.within(1, slow);
        if self.dice.percent(2) {
            self.push(at + 7, node, Event::Reply(id, answer.clone()));
        }
        self.push(at, node, Event::Reply(id, answer));
        Ok(())
    }
}
