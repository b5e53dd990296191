//! The process of a node: its session, its requests, its checkpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::faults::Fault;
use super::spending::pages;
use super::traffic::cell_ids;
use super::{
    Base, CELLS, CellCount, CellId, CellLinks, CellState, Cells, Checkpoint, Disk, Event, HOSTS,
    HostState, Inherited, Key, LEAST_DELAY, Life, Links, MOST_DELAY, News, Open, Pause, Process,
    Session, SessionId, Setting, TERM, Terms, Value, Without, World, Wrong,
};

impl World {
    pub(super) fn begin(&mut self, node: usize) {
        let mut terms = Terms::new(Duration::from_millis(TERM), Duration::from_secs(10));
        match self.without {
            Without::QuietTime => terms.quiet = 0,
            Without::EnoughQuietTime => (terms.quiet, terms.patience) = (TERM, TERM / 4),
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
            Some(Disk {
                kept,
                mut cells,
                notes,
            }) => {
                secrets.extend(&kept.secrets);
                let own = match self.without {
                    Without::Awaited => BTreeSet::new(),
                    _ => kept.cells.keys().copied().collect(),
                };
                let links = Links::new(kept.sender.unwrap(), setting.secret, notes, own);
                for state in cells.iter_mut().flatten() {
                    state.forget_moments(false);
                }
                let life = self.lives.entry(kept.session.clone()).or_default();
                let (made, used) = (kept.made, kept.used);
                let mut process = Process {
                    cells,
                    written: life.written.take().unwrap_or_default(),
                    made,
                    revisions: kept.cells.clone(),
                    ..Process::of(Session::resume(setting, kept, local), links)
                };
                process.purse.used = used;
                process
            }
            None => {
                let links = Links::new(
                    setting.secret,
                    setting.secret,
                    BTreeMap::new(),
                    BTreeSet::new(),
                );
                Process::of(Session::new(setting, local), links)
            }
        };
        process.secrets = secrets;
        process.checkpoint_due = local + 3_000;
        machine.process = Some(process);
        machine.stirs();
    }

    /// Sends what the session asks, and acts on its news.
    pub(super) fn drive(&mut self, node: usize, local: u64) {
        let machine = &mut self.machines[node];
        let Some(process) = &mut machine.process else {
            return;
        };
        let calls = process.session.step(local);
        if process.tenure != process.session.tenure() {
            // All requests under way are cut; their hosts may have received them.
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
        let is_over = news.iter().any(|news| matches!(news, News::Over(_)));
        let has_lost = news.iter().any(|news| matches!(news, News::Lost(_)));
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
                    process.links.closed.remove(&cell);
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
        if has_lost && !is_over {
            // What it did there cannot count, so the node begins another session.
            self.dies(node);
            self.machines[node].disk = None;
            self.fault(self.now + 500, Fault::Start(node));
            return;
        }
        for (id, call) in calls {
            self.send(node, Event::Arrive(id, call));
        }
    }

    /// Leases what is due, and makes checkpoints.
    pub(super) fn crawl(&mut self, node: usize, local: u64) {
        let (now, without) = (self.now, self.without);
        let open = self.machines[node].may_ask(local);
        let Some(process) = &mut self.machines[node].process else {
            return;
        };
        let mut left = match self.limit {
            Some(limit) => process.may_lease(limit),
            None => u64::MAX,
        };
        if without == Without::Shares {
            left = u64::MAX;
        }
        // There is always something to do in each cell, except under a limit.
        let has_cells = process.session.cells().next().is_some();
        let is_idle = match self.limit {
            Some(limit) if has_cells => process.is_spent(limit),
            Some(_) => process.open.is_empty(),
            None => !has_cells,
        };
        let idle: Option<BTreeSet<CellId>> = is_idle.then(|| process.session.cells().collect());
        process.session.set_idle(idle.as_ref(), local);
        let links = &process.links;
        let (session, cells) = (&process.session, &mut process.cells);
        let again = session.resumed();
        let mut leased = Vec::new();
        for cell in session.cells() {
            let may = open.has(cell) || without == Without::Terms;
            let may = may && (links.opened.has_caught_up(cell) || without == Without::CaughtUp);
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
                if local >= host.next && local >= first && now >= host.paused && left > 0 {
                    left -= 1;
                    host.next = u64::MAX;
                    leased.push((cell, number));
                }
            }
        }
        process.open.extend(&leased);
        let is_empty = |cell: &CellId| {
            let waits = |state: &CellState| state.links.waiting != 0;
            let has_unsent = process.cells[at(*cell)].as_ref().is_some_and(waits);
            !has_unsent && !process.open.iter().any(|(of, _)| of == cell)
        };
        let stopped: Vec<CellId> = process.giving.iter().copied().filter(is_empty).collect();
        process.links.closed.extend(&stopped);
        if local >= process.checkpoint_due || !stopped.is_empty() {
            process.checkpoint_due = local + 3_000;
            process.made += 1;
            let checkpoint = Checkpoint {
                cells: process.cells.clone(),
                written: process.written.len(),
            };
            let life = self.lives.entry(process.session.id().clone()).or_default();
            life.checkpoints.insert(process.made, checkpoint);
            let holds = held(&process.cells);
            process.purse.used = pages(process.written.len());
            process.links.has_saved(process.made, &process.cells);
            process
                .session
                .commit(process.made, process.purse.used, holds, local);
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
        let sender = process.links.sender;
        let server = &mut self.hosts[at(cell)][host];
        let pause = server.pause;
        // What was stored later may come too late.
        let taken = self.taken[at(cell)];
        let is_known =
            pause.session == sender || pause.stored.is_some_and(|stored| stored <= taken);
        if is_known && self.now < pause.until && self.broker.set_back == 0 {
            return Err(format!(
                "C8: n{node} asks host {host} of {cell} {} ms before the end of its pause",
                pause.until - self.now
            ));
        }
        if let Some((last, delay, by, of_life)) = server.last {
            let same = (by, of_life) == (node, life);
            // What was learned about a host is lost if the broker forgot it.
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
        let page = state.done;
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
        if self.dice.percent(5) {
            let longest = if self.now < 100_000 { 60_000 } else { 6_000 };
            let until = self.now + self.dice.within(3_000, longest);
            known.paused = known.paused.max(until);
            server.pause = Pause::until(known.paused, process.links.sender);
            process.links.promise(cell, host, known.paused);
        }
        process.written.push((cell, page));
        World::finds(process, cell, page);
    }
}

/// The index of a cell.
pub(super) fn at(cell: CellId) -> usize {
    usize::from(cell.number())
}

/// The cells in a checkpoint.
fn held(cells: &Cells) -> Vec<CellId> {
    cell_ids()
        .filter(|cell| cells[at(*cell)].is_some())
        .collect()
}

/// Removes the checkpoints of a session that are no longer needed.
fn sweep(process: &mut Process, life: &mut Life, now: u64) {
    let Some(named) = process.session.named() else {
        return;
    };
    let needed = process.needed.with(&named, now);
    // A cell may be about to be given back with the one before the last.
    let last = process.session.committed();
    let stays = |number: &u64| *number + 1 >= last || needed.contains(number);
    let before = life.checkpoints.len();
    life.checkpoints.retain(|number, _| stays(number));
    life.swept += before - life.checkpoints.len();
}

/// The state of a cell in these checkpoints.
fn found<'l>(
    lives: &'l BTreeMap<SessionId, Life>,
    cell: CellId,
    bases: &[Base],
) -> Option<&'l CellState> {
    let of = |base: &Base| {
        let life = lives.get(&base.session)?;
        life.checkpoints.get(&base.checkpoint)?.cells[at(cell)].as_ref()
    };
    bases.iter().find_map(of)
}

/// The state of a cell that was taken.
fn inherit(lives: &BTreeMap<SessionId, Life>, cell: CellId, state: &Inherited) -> CellState {
    let host = HostState {
        next: 0,
        delay: LEAST_DELAY,
        asked: 0,
        paused: 0,
    };
    let mut own = found(lives, cell, &state.bases)
        .cloned()
        .unwrap_or(CellState {
            hosts: [host; HOSTS],
            done: 0,
            clean: true,
            links: CellLinks::default(),
        });
    own.forget_moments(state.clean);
    own
}

impl World {
    /// The state of a cell that counts: its next owner would continue from there.
    pub(super) fn committed(&self, cell: CellId) -> Option<&CellState> {
        let Some((Value::Cell(record), _)) = self.broker.get(&Key::Cell(cell)) else {
            return None;
        };
        let mut bases = record.bases.clone();
        if let Some(owner) = &record.owner
            && let Some((Value::Session(session), _)) =
                self.broker.get(&Key::Session(owner.clone()))
            && session.checkpoint > record.after
        {
            let session = Base {
                session: owner.clone(),
                checkpoint: session.checkpoint,
            };
            bases.insert(0, session);
        }
        found(&self.lives, cell, &bases)
    }
}
