//! What a process of a node does: its session, its requests, its checkpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::faults::Fault;
use super::{
    Base, CELLS, CellCount, CellId, CellState, Cells, Checkpoint, Disk, Event, HOSTS, HostState,
    Inherited, LEAST_DELAY, Life, MOST_DELAY, News, Open, Process, Session, SessionId, Setting,
    TERM, Terms, Without, World, Wrong,
};
use crate::crawl::frontier::Amount;

impl World {
    pub(super) fn begin(&mut self, node: usize) {
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
                for state in cells.iter_mut().flatten() {
                    state.forget_moments(false);
                }
                let life = self.lives.entry(kept.session.clone()).or_default();
                Process {
                    cells,
                    written: life.written.take().unwrap_or_default(),
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
        machine.stirs();
    }

    /// Sends what the session asks, and does what it says.
    pub(super) fn drive(&mut self, node: usize, local: u64) {
        let machine = &mut self.machines[node];
        let Some(process) = &mut machine.process else {
            return;
        };
        let calls = process.session.step(local);
        if process.tenure != process.session.tenure() {
            // All that was under way is cut; whoever was asked may be asked again.
            process.tenure = process.session.tenure();
            for (cell, host) in std::mem::take(&mut process.open) {
                if let Some(state) = &mut process.cells[at(cell)] {
                    let host = &mut state.hosts[host];
                    host.next = host.asked + host.delay;
                }
            }
        }
        let news = process.session.news();
        if !news.is_empty() {
            machine.may_ask = Open::default();
        }
        for news in news {
            match news {
                News::Done => {}
                News::Taken {
                    cell,
                    state,
                    revision,
                } => {
                    process.cells[at(cell)] = Some(inherit(&self.lives, cell, &state));
                    process.revisions.insert(cell, revision);
                }
                News::Kept(_) => self.kept += 1,
                News::Give(cell) => process.giving.push(cell),
                News::Given(cell) | News::Lost(cell) => {
                    self.lost += u64::from(matches!(news, News::Lost(_)));
                    process.cells[at(cell)] = None;
                    process.revisions.remove(&cell);
                    process.open.retain(|(of, _)| *of != cell);
                    process.giving.retain(|of| *of != cell);
                }
                News::Over(_) => {
                    let id = process.session.id().clone();
                    let written = std::mem::take(&mut process.written);
                    self.lives.entry(id).or_default().written = Some(written);
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

    /// Leases what is due, and makes checkpoints.
    pub(super) fn crawl(&mut self, node: usize, local: u64) {
        let (now, without) = (self.now, self.without);
        let open = self.machines[node].may_ask(local);
        let Some(process) = &mut self.machines[node].process else {
            return;
        };
        // There is always something to do in each cell, and nothing without one.
        let is_idle = process.session.cells().next().is_none();
        let idle = is_idle.then(BTreeSet::new);
        process.session.set_idle(idle.as_ref(), local);
        let (session, cells) = (&process.session, &mut process.cells);
        let again = session.resumed();
        let mut leased = Vec::new();
        for cell in session.cells() {
            let may = open.has(cell) || without == Without::Terms;
            let (true, Some(state), Some(from)) = (may, &mut cells[at(cell)], session.from(cell))
            else {
                continue;
            };
            let most = if state.clean { 0 } else { MOST_DELAY };
            for (number, host) in state.hosts.iter_mut().enumerate() {
                let first = (from + most.max(host.delay)).max(again + host.delay);
                let first = if without == Without::QuietTime {
                    from
                } else {
                    first
                };
                if local >= host.next && local >= first {
                    host.next = u64::MAX;
                    leased.push((cell, number));
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
                cells: process.cells,
                written: process.written.len(),
            };
            let life = self.lives.entry(process.session.id().clone()).or_default();
            life.checkpoints.insert(process.made, checkpoint);
            let holds = held(&process.cells);
            process
                .session
                .commit(process.made, Amount::default(), holds, local);
            sweep(process, life, now);
            for cell in stopped {
                let last = without == Without::LastCheckpoint;
                let number = process.made - u64::from(last);
                process.session.give(cell, number);
                process.giving.retain(|of| *of != cell);
            }
        }
        let tenure = process.session.tenure();
        for (cell, host) in leased {
            let then = now + self.dice.within(0, 80);
            self.push(then, node, Event::Write(cell, host, tenure));
        }
    }

    pub(super) fn write(
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
        if (checks && !is_open) || process.cells[at(cell)].is_none() {
            process.open.retain(|open| *open != (cell, host));
            if let Some(state) = &mut process.cells[at(cell)] {
                state.hosts[host].next = local;
            }
            return Ok(());
        }
        let Some(state) = &mut process.cells[at(cell)] else {
            return Ok(());
        };
        let known = &mut state.hosts[host];
        known.asked = local;
        let known = known.delay;
        let (stored, rate) = (process.stored, machine.rate);
        let life = machine.life;
        self.requests += 1;
        self.asked[at(cell)] = self.now;
        let longest = stored + TERM * 5 / 4 + 2;
        if self.now > longest {
            return Err(format!(
                "C1: n{node} writes to {cell} {} ms after its last renewal, its clock at {rate}",
                self.now - stored
            ));
        }
        let server = &mut self.hosts[at(cell)][host];
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
        let end = self.now + self.dice.within(30, 1_200);
        self.push(end, node, Event::Close(cell, host, tenure));
        Ok(())
    }

    pub(super) fn close(
        &mut self,
        node: usize,
        cell: CellId,
        host: usize,
        tenure: u64,
        local: u64,
    ) {
        let Some(process) = &mut self.machines[node].process else {
            return;
        };
        let is_known = process.open.contains(&(cell, host));
        if !is_known || tenure != process.session.tenure() {
            return;
        }
        process.open.retain(|open| *open != (cell, host));
        let Some(state) = &mut process.cells[at(cell)] else {
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
        let server = &mut self.hosts[at(cell)][host];
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
        known.next = (known.asked + known.delay).max(local);
    }
}

/// The place of a cell among all.
fn at(cell: CellId) -> usize {
    usize::from(cell.number())
}

/// The cells that a checkpoint has.
fn held(cells: &Cells) -> Vec<CellId> {
    let all = CellCount::new(CELLS).into_iter().flat_map(CellCount::all);
    all.filter(|cell| cells[at(*cell)].is_some()).collect()
}

/// Removes the checkpoints of a session that nobody needs.
fn sweep(process: &mut Process, life: &mut Life, now: u64) {
    let Some(named) = process.session.named() else {
        return;
    };
    let needed = process.needed.with(&named, now);
    // A cell may just be given back with the one before the last.
    let last = process.session.committed();
    let stays = |number: &u64| *number + 1 >= last || needed.contains(number);
    let before = life.checkpoints.len();
    life.checkpoints.retain(|number, _| stays(number));
    life.swept += before - life.checkpoints.len();
}

/// The state of a cell that was taken.
fn inherit(lives: &BTreeMap<SessionId, Life>, cell: CellId, state: &Inherited) -> CellState {
    let of = |base: &Base| {
        let life = lives.get(&base.session)?;
        life.checkpoints.get(&base.checkpoint)?.cells[at(cell)]
    };
    let found = state.bases.iter().find_map(of);
    let host = HostState {
        next: 0,
        delay: LEAST_DELAY,
        asked: 0,
    };
    let mut own = found.unwrap_or(CellState {
        hosts: [host; HOSTS],
        done: 0,
        clean: true,
    });
    own.forget_moments(state.clean);
    own
}
