//! Nodes, a broker and a web in true time, and the checks on what they do.

mod calendar;
mod checks;
mod faults;
mod logs;
mod pages;
mod process;
mod spending;
mod traffic;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use bytes::Bytes;

use self::calendar::Calendar;
use self::checks::Open;
use self::faults::Fault;
use self::logs::Logs;
use self::spending::Purse;
use self::traffic::{CellLinks, Links, Receipt};
use super::super::super::record::{Base, Key, Node, SessionId, Value};
use super::super::super::{EngineError, Revision};
use super::super::{Answer, Call, CallId, Inherited, Kept, Needed, News, Session, Setting, Terms};
use super::broker::{Broker, Dice};
use crate::frontier::{CellCount, CellId};

pub(super) const TERM: u64 = 5_000;
pub(super) const CELLS: u16 = 8;
const HOSTS: usize = 2;
/// The shortest and the longest delay between two requests to a host.
const LEAST_DELAY: u64 = 1_300;
const MOST_DELAY: u64 = 8_000;
const NODES: usize = 4;

/// A rule that is left out, to show that it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Without {
    Nothing,
    /// Requests are checked when they are leased, not when they are written.
    TheGateAtWrites,
    /// The term is never looked at.
    Terms,
    /// Cells that were taken are crawled at once.
    QuietTime,
    /// Others are ended early, and their cells are crawled one term later: too soon if clocks run
    /// at different speeds.
    EnoughQuietTime,
    /// Cells are given back with the checkpoint before the last.
    LastCheckpoint,
    /// Links leave the outbox when they are sent.
    Acknowledgements,
    /// Messages that were read are not recognised by the numbers of their senders.
    Numbers,
    /// Logs are cut up to what was read.
    HeldMessages,
    /// Hosts are contacted before the log of their cell was read.
    CaughtUp,
    /// Links are sent before all cells are open that the last process kept.
    Awaited,
    /// Pages are requested beyond the share.
    Shares,
    /// Others are ended at the first look.
    Patience,
}

#[derive(Debug, Clone)]
enum Event {
    Tick,
    Arrive(CallId, Call),
    Reply(CallId, Result<Answer, EngineError>),
    /// A message for the log of a cell arrives at the broker.
    Message(CellId, String, Bytes, Receipt),
    /// The broker has stored it, or there was no answer for too long.
    Heard(CellId, Receipt, bool),
    /// The broker is to cut a log.
    Cut(CellId, u64),
    Write(CellId, usize, u64),
    Close(CellId, usize, u64),
}

#[derive(Clone, Copy)]
struct HostState {
    next: u64,
    delay: u64,
    asked: u64,
    /// Not before this true moment, as the host requested.
    paused: u64,
}

#[derive(Clone)]
struct CellState {
    hosts: [HostState; HOSTS],
    /// How many pages are done.
    done: u64,
    clean: bool,
    links: CellLinks,
}

/// By cell number.
type Cells = [Option<CellState>; CELLS as usize];

impl CellState {
    /// When a host was last contacted is not known by this machine's clock.
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
    cells: Cells,
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
    needed: Needed,
    links: Links,
    purse: Purse,
}

/// What survives a process.
struct Disk {
    kept: Kept,
    cells: Cells,
    /// What is noted of messages that are sent.
    notes: BTreeMap<CellId, Vec<u8>>,
}

impl Process {
    fn of(session: Session, links: Links) -> Self {
        Self {
            session,
            tenure: 0,
            cells: Cells::default(),
            open: Vec::new(),
            written: Vec::new(),
            made: 0,
            checkpoint_due: 0,
            giving: Vec::new(),
            stored: 0,
            revisions: BTreeMap::new(),
            secrets: BTreeSet::new(),
            needed: Needed::new(SET_BACK + 1_000),
            links,
            purse: Purse::default(),
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
    /// Until when it cannot read logs.
    deaf: u64,
    kept: Vec<Event>,
    /// What its process may request.
    may_ask: Open,
}

impl Machine {
    fn local(&self, now: u64) -> u64 {
        self.offset + (now as f64 * self.rate) as u64
    }
}

#[derive(Clone, Copy)]
struct ServerHost {
    last: Option<(u64, u64, usize, u64)>,
    delay: u64,
    pause: Pause,
}

/// A pause that a host has requested.
#[derive(Clone, Copy, Default)]
struct Pause {
    until: u64,
    /// The session to which the host said so.
    session: u64,
    /// Since when others can know of it.
    stored: Option<u64>,
}

struct Checkpoint {
    cells: Cells,
    written: usize,
}

/// The history of a session.
#[derive(Default)]
struct Life {
    /// By number.
    checkpoints: BTreeMap<u64, Checkpoint>,
    /// What it wrote, when its process is gone.
    written: Option<Vec<(CellId, u64)>>,
    /// How much of that committed checkpoints hold.
    committed: usize,
    /// Checkpoints that were removed because they were no longer needed.
    swept: usize,
}

/// How many milliseconds a world lasts.
const END: u64 = 180_000;
/// By when it must have ended: a machine with one slow cell may have the last share, and a cell
/// that is taken several times waits each time.
const LAST: u64 = 240_000;
/// How long before the end every cell must have been crawled.
const LATELY: u64 = 40_000;

/// How many milliseconds a broker may forget.
const SET_BACK: u64 = 60_000;

pub(super) struct World {
    now: u64,
    dice: Dice,
    without: Without,
    events: Calendar<Due>,
    faults: BinaryHeap<Reverse<(u64, usize)>>,
    planned: Vec<Fault>,
    machines: Vec<Machine>,
    broker: Broker,
    logs: Logs,
    /// The most pages of all machines together, in some worlds.
    limit: Option<u64>,
    /// Whether the broker may be set back.
    forgets: bool,
    /// How many pages committed checkpoints have together.
    total: u64,
    /// Whether keys, checkpoints or logs have changed since the last step.
    is_stirred: bool,
    /// By cell number.
    hosts: [[ServerHost; HOSTS]; CELLS as usize],
    lives: BTreeMap<SessionId, Life>,
    /// How many committed checkpoints have each page of each cell.
    union: [Vec<u32>; CELLS as usize],
    /// When each cell's key last changed.
    taken: [u64; CELLS as usize],
    /// When each cell was last crawled.
    asked: [u64; CELLS as usize],
    pub(super) requests: u64,
    pub(super) over: u64,
    /// Cells that survived the death of a process.
    pub(super) kept: u64,
    /// Cells that others had taken in the meantime.
    pub(super) lost: u64,
    pub(super) steps: u64,
}

/// A node, its life, and an event for it.
type Due = (usize, u64, Event);

/// A description of the failure.
type Wrong = String;

impl World {
    pub(super) fn new(seed: u64, without: Without) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let machines = Vec::from_iter((0..NODES).map(|n| Machine {
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
            deaf: 0,
            kept: Vec::new(),
            may_ask: Open::default(),
        }));
        let server = ServerHost {
            last: None,
            delay: LEAST_DELAY,
            pause: Pause::default(),
        };
        let limit = seed.is_multiple_of(3).then(|| dice.within(100, 300));
        let mut world = Self {
            now: 0,
            machines,
            hosts: [[server; HOSTS]; CELLS as usize],
            dice,
            without,
            events: Calendar::new(),
            faults: BinaryHeap::new(),
            planned: Vec::new(),
            broker: Broker::of_a_job(),
            logs: Logs::default(),
            limit,
            forgets: seed.is_multiple_of(2),
            total: 0,
            is_stirred: false,
            lives: BTreeMap::new(),
            union: Default::default(),
            taken: Default::default(),
            asked: Default::default(),
            requests: 0,
            over: 0,
            kept: 0,
            lost: 0,
            steps: 0,
        };
        world.plan();
        world
    }

    /// How many checkpoints of all sessions were removed, and how many are left.
    pub(super) fn swept(&self) -> (usize, usize) {
        let lives = self.lives.values();
        lives.fold((0, 0), |(swept, left), life| {
            (swept + life.swept, left + life.checkpoints.len())
        })
    }

    fn push(&mut self, at: u64, node: usize, event: Event) {
        let life = self.machines[node].life;
        self.events.push(at, (node, life, event));
    }

    /// Runs for three minutes, and at most one more. The error says what failed, and when.
    pub(super) fn run(&mut self) -> Result<(), Wrong> {
        loop {
            let event = self.events.next().unwrap_or(u64::MAX);
            let fault = self
                .faults
                .peek()
                .map_or(u64::MAX, |Reverse(fault)| fault.0);
            self.now = event.min(fault);
            if self.now > LAST || self.is_over() || (self.now > END && !self.has_to_wait()) {
                break;
            }
            let done = if fault <= event {
                let Some(Reverse((_, fault))) = self.faults.pop() else {
                    break;
                };
                self.happens(self.planned[fault]);
                Ok(())
            } else {
                let Some((node, life, event)) = self.events.pop(event) else {
                    break;
                };
                self.one(node, life, event)
            };
            self.steps += 1;
            let checked = done.and_then(|()| self.check());
            checked.map_err(|wrong| format!("at {} ms: {wrong}", self.now))?;
        }
        self.check_the_end()
    }

    fn one(&mut self, node: usize, life: u64, event: Event) -> Result<(), Wrong> {
        let event = match event {
            Event::Arrive(id, call) => return self.arrive(node, life, id, call),
            Event::Message(to, id, message, receipt) => {
                if !self.broker.is_down {
                    self.stores(to, &id, &message);
                    self.reply(node, life, Event::Heard(to, receipt, true));
                }
                return Ok(());
            }
            Event::Cut(cell, sequence) => return self.cuts(node, life, cell, sequence),
            event => event,
        };
        let machine = &self.machines[node];
        if machine.life != life || machine.process.is_none() {
            return Ok(());
        }
        if self.now < machine.frozen {
            // When it wakes, all its events happen at once, in any order.
            let at = machine.frozen + self.dice.within(0, 5);
            self.push(at, node, event);
            return Ok(());
        }
        let local = machine.local(self.now);
        match event {
            Event::Tick => {
                let next = self.dice.within(200, 350);
                self.push(self.now + next, node, Event::Tick);
                self.exchange(node, local)?;
                self.crawl(node, local);
            }
            Event::Reply(id, answer) => {
                let machine = &mut self.machines[node];
                machine.stirs();
                if let Some(process) = &mut machine.process {
                    process.session.answer(local, id, answer);
                }
            }
            Event::Heard(to, receipt, is_stored) => {
                self.hears(node, local, to, receipt, is_stored);
                return Ok(());
            }
            Event::Write(cell, host, tenure) => {
                return self.write(node, cell, host, tenure, local);
            }
            Event::Close(cell, host, tenure) => {
                self.close(node, cell, host, tenure, local);
                return Ok(());
            }
            Event::Arrive(..) | Event::Message(..) | Event::Cut(..) => {}
        }
        self.drive(node, local);
        Ok(())
    }

    /// Sends something to the broker.
    fn send(&mut self, node: usize, event: Event) {
        let machine = &mut self.machines[node];
        if machine.cut_out || self.broker.is_down {
            if self.dice.percent(50) && machine.cut_out {
                machine.kept.push(event);
            }
            return;
        }
        if self.dice.percent(machine.loss) {
            return;
        }
        let again = self.dice.percent(2).then(|| event.clone());
        let slow = if self.dice.percent(3) { 2_500 } else { 40 };
        let at = self.now + self.dice.within(1, slow);
        self.push(at, node, event);
        if let Some(event) = again {
            let at = at + self.dice.within(0, 3_000);
            self.push(at, node, event);
        }
    }

    fn arrive(&mut self, node: usize, life: u64, id: CallId, call: Call) -> Result<(), Wrong> {
        if self.broker.is_down {
            return Ok(());
        }
        let answer = self.broker.answer(self.now, call);
        if let Some((key, before)) = self.broker.changed.take() {
            self.is_stirred = true;
            match key {
                Key::Session(session) => {
                    self.has_changed(node, life, &session, before.as_ref())?;
                }
                Key::Cell(cell) => {
                    self.taken[usize::from(cell.number())] = self.now;
                    self.must_be_given_whole(node, cell)?;
                }
                Key::Job => {}
            }
        }
        self.reply(node, life, Event::Reply(id, answer));
        Ok(())
    }

    /// Sends an answer of the broker.
    fn reply(&mut self, node: usize, life: u64, event: Event) {
        let machine = &self.machines[node];
        if machine.life != life || machine.cut_back || self.dice.percent(machine.loss) {
            return;
        }
        let slow = if self.dice.percent(3) { 2_500 } else { 40 };
        let at = self.now + self.dice.within(1, slow);
        if self.dice.percent(2) {
            self.push(at + 7, node, event.clone());
        }
        self.push(at, node, event);
    }

    /// A node has changed the key of a session.
    fn has_changed(
        &mut self,
        node: usize,
        life: u64,
        session: &SessionId,
        before: Option<&(Value, Revision)>,
    ) -> Result<(), Wrong> {
        let key = Key::Session(session.clone());
        let Some((Value::Session(record), _)) = self.broker.get(&key) else {
            return Ok(());
        };
        let (checkpoint, is_live) = (record.checkpoint, record.state.is_live());
        let is_known = |value: &(Value, Revision)| matches!(&value.0, Value::Session(record) if record.checkpoint == checkpoint);
        if !before.is_some_and(is_known) {
            self.commits(session, checkpoint)?;
        }
        let machine = &mut self.machines[node];
        if let Some(process) = machine.process.as_mut().filter(|_| machine.life == life)
            && session.node == machine.name
            && is_live
        {
            process.stored = self.now;
        }
        Ok(())
    }
}
