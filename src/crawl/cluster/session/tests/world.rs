//! Nodes, a broker and a web in true time, and what is wrong with what they do.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use super::super::super::record::{Key, Node, SessionId, Value};
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

/// What happens to whom; some end by themselves.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Kill(usize),
    /// The machine is gone, with its disk.
    Lose(usize),
    Start(usize),
    Freeze(usize, u64),
    Cut {
        node: usize,
        out: bool,
        back: bool,
        loss: u64,
    },
    Heal(usize),
    BrokerDown,
    BrokerUp,
    SetBack(u64),
    Leave(usize),
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

    /// Draws the faults of the first two minutes; then all is well.
    fn plan(&mut self) {
        for node in 0..NODES {
            let at = if node == 3 {
                self.dice.within(0, 60_000)
            } else {
                self.dice.within(0, 500)
            };
            self.fault(at, Fault::Start(node));
        }
        for _ in 0..self.dice.within(4, 14) {
            let at = self.dice.within(3_000, 110_000);
            let node = self.dice.within(0, NODES as u64 - 1) as usize;
            let lasts = self.dice.within(200, 25_000);
            match self.dice.within(0, 10) {
                10 => {
                    self.fault(at, Fault::Lose(node));
                    self.fault(at + lasts, Fault::Start(node));
                }
                0 | 1 => {
                    self.fault(at, Fault::Kill(node));
                    self.fault(at + lasts, Fault::Start(node));
                }
                2 | 3 => self.fault(at, Fault::Freeze(node, lasts)),
                4 | 5 => {
                    let (out, back) = (self.dice.percent(60), self.dice.percent(60));
                    let loss = if self.dice.percent(40) { 30 } else { 1 };
                    self.fault(
                        at,
                        Fault::Cut {
                            node,
                            out,
                            back,
                            loss,
                        },
                    );
                    self.fault(at + lasts, Fault::Heal(node));
                }
                6 => {
                    self.fault(at, Fault::BrokerDown);
                    self.fault(at + lasts, Fault::BrokerUp);
                }
                7 => {
                    self.fault(at, Fault::Leave(node));
                    self.fault(at + lasts, Fault::Kill(node));
                    self.fault(at + lasts + 100, Fault::Start(node));
                }
                _ => {
                    let depth = self.dice.within(0, 60_000);
                    let depth = if self.dice.percent(50) {
                        depth / 20
                    } else {
                        depth
                    };
                    if self.dice.percent(50) {
                        self.fault(at, Fault::BrokerDown);
                        self.fault(at + lasts / 10, Fault::BrokerUp);
                    }
                    self.fault(at + lasts / 10 - 1, Fault::SetBack(depth));
                }
            }
        }
        for node in 0..NODES {
            self.fault(120_000, Fault::Heal(node));
            self.fault(120_000 + node as u64, Fault::Start(node));
        }
        self.fault(120_000, Fault::BrokerUp);
    }

    fn fault(&mut self, at: u64, fault: Fault) {
        self.faults.push(Reverse((at, self.planned.len())));
        self.planned.push(fault);
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

    fn happens(&mut self, fault: Fault) {
        match fault {
            Fault::Start(node) if self.machines[node].process.is_none() => {
                self.machines[node].life += 1;
                self.machines[node].frozen = 0;
                self.begin(node);
                self.push(self.now, node, Event::Tick);
            }
            Fault::Start(_) => {}
            Fault::Kill(node) => self.dies(node),
            Fault::Lose(node) => {
                self.dies(node);
                self.machines[node].disk = None;
            }
            Fault::Freeze(node, lasts) => self.machines[node].frozen = self.now + lasts,
            Fault::Cut {
                node,
                out,
                back,
                loss,
            } => {
                let machine = &mut self.machines[node];
                (machine.cut_out, machine.cut_back, machine.loss) = (out, back, loss);
            }
            Fault::Heal(node) => {
                let machine = &mut self.machines[node];
                (machine.cut_out, machine.cut_back, machine.loss) = (false, false, 1);
                // What the client could not send, it sends now.
                for (id, call) in std::mem::take(&mut machine.kept) {
                    let at = self.now + self.dice.within(1, 2_000);
                    self.push(at, node, Event::Arrive(id, call));
                }
            }
            Fault::BrokerDown => self.broker.is_down = true,
            Fault::BrokerUp => self.broker.is_down = false,
            Fault::SetBack(depth) => self.broker.forget(self.now.saturating_sub(depth)),
            Fault::Leave(node) => {
                let local = self.machines[node].local(self.now);
                if let Some(process) = &mut self.machines[node].process {
                    process.session.leave(local);
                }
            }
        }
    }

    /// The process of a machine is gone; what it wrote is on the disk.
    fn dies(&mut self, node: usize) {
        let machine = &mut self.machines[node];
        machine.life += 1;
        machine.kept.clear();
        let Some(process) = machine.process.take() else {
            return;
        };
        let session = process.session.id().clone();
        if session.number > 0 {
            let kept = Kept {
                session: session.clone(),
                secrets: process.secrets,
                made: process.made,
                cells: process.revisions,
            };
            let cells = process.cells;
            machine.disk = Some(Disk { kept, cells });
        }
        self.written.insert(session, process.written);
    }

    fn begin(&mut self, node: usize) {
        let mut terms = Terms::new(Duration::from_millis(TERM), Duration::from_secs(10));
        match self.without {
            Without::QuietTime => terms.quiet = 0,
            Without::EnoughQuietTime => terms.quiet = TERM,
            Without::Patience => terms.patience = 0,
            _ => {}
        }
        let machine = &mut self.machines[node];
        let local = machine.local(self.now);
        let setting = Setting {
            node: machine.name.clone(),
            secret: self.dice.next(),
            weight: 1.0,
            cells: CellCount::new(CELLS).unwrap(),
            terms,
        };
        let mut secrets = BTreeSet::from([setting.secret]);
        let mut process = match machine.disk.take() {
            Some(Disk { kept, mut cells }) => {
                secrets.extend(&kept.secrets);
                for state in cells.values_mut() {
                    state.forget_moments(false);
                }
                let written = self.written.remove(&kept.session);
                Process {
                    cells,
                    written: written.unwrap_or_default(),
                    made: kept.made,
                    revisions: kept.cells.clone(),
                    ..Process::of(Session::resume(setting, kept, local))
                }
            }
            None => Process::of(Session::new(setting, local)),
        };
        process.secrets = secrets;
        process.checkpoint_due = local + 3_000;
        machine.process = Some(process);
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

    /// Sends what the session asks, and does what it says.
    fn drive(&mut self, node: usize, local: u64) {
        let Some(process) = &mut self.machines[node].process else {
            return;
        };
        let calls = process.session.step(local);
        if process.tenure != process.session.tenure() {
            // All that was under way is cut; whoever was asked may be asked again.
            process.tenure = process.session.tenure();
            for (cell, host) in std::mem::take(&mut process.open) {
                if let Some(state) = process.cells.get_mut(&cell) {
                    let host = &mut state.hosts[host];
                    host.next = host.asked + host.delay;
                }
            }
        }
        for news in process.session.news() {
            match news {
                News::Taken {
                    cell,
                    state,
                    revision,
                } => {
                    let own = inherit(&self.checkpoints, cell, &state);
                    process.cells.insert(cell, own);
                    process.revisions.insert(cell, revision);
                }
                News::Kept(_) => self.kept += 1,
                News::Give(cell) => process.giving.push(cell),
                News::Given(cell) | News::Lost(cell) => {
                    self.lost += u64::from(matches!(news, News::Lost(_)));
                    process.cells.remove(&cell);
                    process.revisions.remove(&cell);
                    process.open.retain(|(of, _)| *of != cell);
                    process.giving.retain(|of| *of != cell);
                }
                News::Over(_) => {
                    let id = process.session.id().clone();
                    self.written
                        .insert(id, std::mem::take(&mut process.written));
                    self.over += 1;
                    self.machines[node].process = None;
                    self.machines[node].life += 1;
                    self.fault(self.now + 500, Fault::Start(node));
                    return;
                }
            }
        }
        for (id, call) in calls {
            self.send(node, id, call);
        }
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

    /// The effects of a checkpoint count from here on.
    fn commits(&mut self, session: &SessionId, number: u64) -> Result<(), Wrong> {
        let Some(checkpoint) = self.checkpoints.get(&(session.clone(), number)) else {
            return Ok(());
        };
        let process = self.machines.iter().filter_map(|m| m.process.as_ref());
        let process = process.into_iter().find(|p| p.session.id() == session);
        let written = match process {
            Some(process) => &process.written,
            None => match self.written.get(session) {
                Some(written) => written,
                None => return Ok(()),
            },
        };
        let before = self.committed.entry(session.clone()).or_default();
        for page in written.iter().take(checkpoint.written).skip(*before) {
            let times = self.union.entry(*page).or_default();
            *times += 1;
            if *times > 1 && self.broker.set_back == 0 {
                return Err(format!("C6: page {} of {} is done twice", page.1, page.0));
            }
        }
        *before = (*before).max(checkpoint.written);
        Ok(())
    }

    /// Leases what is due, and makes checkpoints.
    fn crawl(&mut self, node: usize, local: u64) {
        let (now, without) = (self.now, self.without);
        let Some(process) = &mut self.machines[node].process else {
            return;
        };
        let mut leased = Vec::new();
        for (cell, state) in &mut process.cells {
            let may = process.session.may_ask(*cell, local);
            if !may && without != Without::Terms {
                continue;
            }
            let Some(from) = process.session.from(*cell) else {
                continue;
            };
            let most = if state.clean { 0 } else { MOST_DELAY };
            let again = process.session.resumed();
            for (number, host) in state.hosts.iter_mut().enumerate() {
                let first = (from + most.max(host.delay)).max(again + host.delay);
                let first = if without == Without::QuietTime {
                    from
                } else {
                    first
                };
                if local >= host.next && local >= first {
                    host.next = u64::MAX;
                    leased.push((*cell, number));
                }
            }
        }
        process.open.extend(&leased);
        let idle = |cell: &CellId| !process.open.iter().any(|(of, _)| of == cell);
        let stopped: Vec<CellId> = process.giving.iter().copied().filter(idle).collect();
        if local >= process.checkpoint_due || !stopped.is_empty() {
            process.checkpoint_due = local + 3_000;
            process.made += 1;
            let checkpoint = Checkpoint {
                cells: process.cells.clone(),
                written: process.written.len(),
            };
            let key = (process.session.id().clone(), process.made);
            self.checkpoints.insert(key, checkpoint);
            process.session.commit(process.made, local);
            for cell in stopped {
                let last = without == Without::LastCheckpoint;
                let number = process.made - u64::from(last);
                process.session.give(cell, number);
                process.giving.retain(|of| *of != cell);
            }
        }
        let tenure = process.session.tenure();
        for (cell, host) in leased {
            let at = now + self.dice.within(0, 80);
            self.push(at, node, Event::Write(cell, host, tenure));
        }
    }

    fn write(
        &mut self,
        node: usize,
        cell: CellId,
        host: usize,
        tenure: u64,
        local: u64,
    ) -> Result<(), Wrong> {
        let machine = &mut self.machines[node];
        let Some(process) = &mut machine.process else {
            return Ok(());
        };
        let is_open = tenure == process.session.tenure() && local < process.session.until(local);
        let checks = !matches!(self.without, Without::TheGateAtWrites | Without::Terms);
        if (checks && !is_open) || !process.cells.contains_key(&cell) {
            process.open.retain(|open| *open != (cell, host));
            if let Some(state) = process.cells.get_mut(&cell) {
                state.hosts[host].next = local;
            }
            return Ok(());
        }
        let Some(known) = process
            .cells
            .get_mut(&cell)
            .map(|state| &mut state.hosts[host])
        else {
            return Ok(());
        };
        known.asked = local;
        let known = known.delay;
        let (stored, rate) = (process.stored, machine.rate);
        let life = machine.life;
        self.requests += 1;
        self.asked.insert(cell, self.now);
        let longest = stored + TERM * 5 / 4 + 2;
        if self.now > longest {
            return Err(format!(
                "C1: n{node} writes to {cell} {} ms after its last renewal, its clock at {rate}",
                self.now - stored
            ));
        }
        let Some(server) = self
            .hosts
            .get_mut(&cell)
            .and_then(|hosts| hosts.get_mut(host))
        else {
            return Ok(());
        };
        if let Some((last, delay, by, of_life)) = server.last {
            let same = (by, of_life) == (node, life);
            // What was learned of a host and forgotten by the broker is lost.
            let delay = if !same && self.broker.set_back > 0 {
                LEAST_DELAY
            } else {
                delay
            };
            let gap = self.now - last;
            if gap + 2 < delay * 4 / 5 {
                return Err(format!(
                    "C2: host {host} of {cell} is asked by n{by} and {gap} ms later by n{node}, with a delay of {delay} ms"
                ));
            }
        }
        server.last = Some((self.now, known, node, life));
        let at = self.now + self.dice.within(30, 1_200);
        self.push(at, node, Event::Close(cell, host, tenure));
        Ok(())
    }

    fn close(&mut self, node: usize, cell: CellId, host: usize, tenure: u64, local: u64) {
        let Some(process) = &mut self.machines[node].process else {
            return;
        };
        let is_known = process.open.contains(&(cell, host));
        if !is_known || tenure != process.session.tenure() {
            return;
        }
        process.open.retain(|open| *open != (cell, host));
        let Some(state) = process.cells.get_mut(&cell) else {
            return;
        };
        if local >= process.session.until(local) && self.without != Without::Terms {
            // The connection was cut.
            let host = &mut state.hosts[host];
            host.next = host.asked + host.delay;
            return;
        }
        process.written.push((cell, state.done));
        state.done += 1;
        let known = &mut state.hosts[host];
        let server = self
            .hosts
            .get_mut(&cell)
            .and_then(|hosts| hosts.get_mut(host));
        if let Some(server) = server {
            // Some answers ask for a longer delay, some for a shorter one.
            match self.dice.within(0, 19) {
                0 => server.delay = (server.delay * 2).min(MOST_DELAY),
                1 | 2 => server.delay = (server.delay / 2).max(LEAST_DELAY),
                _ => {}
            }
            if let Some(last) = &mut server.last {
                last.1 = server.delay;
            }
            known.delay = server.delay;
        }
        known.next = (known.asked + known.delay).max(local);
    }

    /// What must hold after every step.
    fn check(&self) -> Result<(), Wrong> {
        let mut holders = [None; CELLS as usize];
        for (number, machine) in self.machines.iter().enumerate() {
            let Some(process) = &machine.process else {
                continue;
            };
            let local = machine.local(self.now);
            if local >= process.session.until(local) {
                continue;
            }
            for cell in process.session.cells() {
                if !process.session.may_ask(cell, local) {
                    continue;
                }
                let holder = &mut holders[usize::from(cell.number())];
                if let Some(other) = holder {
                    return Err(format!("C1: n{other} and n{number} both have {cell}"));
                }
                *holder = Some(number);
            }
        }
        Ok(())
    }

    /// After a minute without faults, every cell is crawled again, and nothing is missing.
    fn check_the_end(&self) -> Result<(), Wrong> {
        for cell in self.hosts.keys() {
            let ago = self.now.min(180_000) - self.asked.get(cell).copied().unwrap_or(0);
            if ago > 40_000 {
                return Err(format!("{cell} was not asked for {ago} ms"));
            }
        }
        if self.broker.set_back == 0 {
            let mut last: BTreeMap<CellId, u64> = BTreeMap::new();
            for (cell, page) in self.union.keys() {
                let next = last.entry(*cell).or_default();
                if *page != *next {
                    return Err(format!("C6: page {next} of {cell} is missing"));
                }
                *next += 1;
            }
        }
        let keys = self.hosts.keys().map(|cell| Key::Cell(*cell));
        match keys.into_iter().find(|key| self.broker.get(key).is_none()) {
            Some(key) => Err(format!("{key} has no value")),
            None => Ok(()),
        }
    }
}

/// The state of a cell that was taken.
fn inherit(
    checkpoints: &BTreeMap<(SessionId, u64), Checkpoint>,
    cell: CellId,
    state: &Inherited,
) -> CellState {
    let of = |base: &super::super::super::record::Base| {
        let key = (base.session.clone(), base.checkpoint);
        checkpoints.get(&key)?.cells.get(&cell).cloned()
    };
    let found = state.bases.iter().find_map(of);
    let host = HostState {
        next: 0,
        delay: LEAST_DELAY,
        asked: 0,
    };
    let mut own = found.unwrap_or(CellState {
        hosts: vec![host; HOSTS],
        done: 0,
        clean: true,
    });
    own.forget_moments(state.clean);
    own
}

impl World {
    /// Who has what, for people.
    pub(super) fn show(&self) -> String {
        let mut shown = String::new();
        for machine in &self.machines {
            let local = machine.local(self.now);
            shown += &format!("{} at {} times the speed", machine.name, machine.rate);
            if let Some(Process { session, .. }) = &machine.process {
                let left = session.until(local).saturating_sub(local);
                let cells: Vec<_> = session.cells().map(|cell| cell.number()).collect();
                shown += &format!(": {}, {left} ms left, cells {cells:?}", session.id());
            }
            shown += "\n";
        }
        for cell in self.hosts.keys() {
            shown += &format!("{cell}: {:?}\n", self.broker.get(&Key::Cell(*cell)));
        }
        for fault in &self.planned {
            shown += &format!("{fault:?}\n");
        }
        shown
    }
}
