//! What must hold, and how a world is shown to people.

use super::super::super::Giving;
use super::process::at;
use super::traffic::cell_ids;
use super::{CellId, END, Key, LATELY, Machine, Process, SessionId, Value, World, Wrong};

/// The cells that a process may crawl, as a set of bits, and how long that holds by its clock while
/// its session does not change.
#[derive(Default, Clone, Copy)]
pub(super) struct Open {
    cells: u64,
    until: u64,
}

impl Open {
    fn of(process: Option<&Process>, local: u64) -> Self {
        let mut open = Self {
            cells: 0,
            until: u64::MAX,
        };
        let Some(Process { session, .. }) = process else {
            return open;
        };
        let end = session.until(local);
        let mut turns = |at: u64| {
            if at > local {
                open.until = open.until.min(at);
            }
        };
        turns(end);
        turns(session.resumed());
        for (cell, hand) in &session.hands {
            turns(hand.from);
            if local < end && local >= hand.from && hand.giving == Giving::No {
                open.cells |= 1 << cell.number();
            }
        }
        open
    }

    /// Whether it has a cell.
    pub(super) fn has(self, cell: CellId) -> bool {
        self.cells >> cell.number() & 1 == 1
    }
}

impl Machine {
    /// Notes that its session may have changed.
    pub(super) fn stirs(&mut self) {
        self.may_ask = Open::default();
    }

    /// What its process may crawl at a moment of its clock.
    pub(super) fn may_ask(&mut self, local: u64) -> Open {
        if local >= self.may_ask.until {
            self.may_ask = Open::of(self.process.as_ref(), local);
        }
        self.may_ask
    }
}

impl World {
    /// From here on, the effects of a checkpoint count.
    pub(super) fn commits(&mut self, session: &SessionId, number: u64) -> Result<(), Wrong> {
        let Some(life) = self.lives.get_mut(session) else {
            return Ok(());
        };
        let Some(checkpoint) = life.checkpoints.get(&number) else {
            return Ok(());
        };
        let process = self.machines.iter().filter_map(|m| m.process.as_ref());
        let process = process.into_iter().find(|p| p.session.id() == session);
        let written = match (process, &life.written) {
            (Some(process), _) => &process.written,
            (None, Some(written)) => written,
            (None, None) => return Ok(()),
        };
        for (cell, page) in written.iter().take(checkpoint.written).skip(life.committed) {
            let union = &mut self.union[usize::from(cell.number())];
            let page = *page as usize;
            if union.len() <= page {
                union.resize(page + 1, 0);
            }
            union[page] += 1;
            self.total += 1;
            if union[page] > 1 && self.broker.set_back == 0 {
                return Err(format!("C6: page {page} of {cell} is done twice"));
            }
        }
        life.committed = life.committed.max(checkpoint.written);
        let states = checkpoint.cells.iter().enumerate();
        let paused: Vec<_> = states
            .filter_map(|(cell, state)| Some((cell, state.as_ref()?.hosts)))
            .collect();
        for (cell, hosts) in paused {
            for (host, state) in hosts.iter().enumerate() {
                self.is_promised(cell, host, state.paused);
            }
        }
        let too_many = self.limit.filter(|limit| self.total > *limit);
        match too_many.filter(|_| self.broker.set_back == 0) {
            Some(limit) => Err(format!("C9: {} pages of {limit}", self.total)),
            None => Ok(()),
        }
    }

    /// A cell that was given back is in the checkpoint that its key names, in its final state.
    pub(super) fn must_be_given_whole(&self, node: usize, cell: CellId) -> Result<(), Wrong> {
        let Some((Value::Cell(record), _)) = self.broker.get(&Key::Cell(cell)) else {
            return Ok(());
        };
        let (None, Some(base), Some(process)) = (
            &record.owner,
            record.bases.first(),
            &self.machines[node].process,
        ) else {
            return Ok(());
        };
        let Some(is) = &process.cells[at(cell)] else {
            return Ok(());
        };
        let state = self.committed(cell);
        let is_whole = state.is_some_and(|was| was.done == is.done && was.links == is.links);
        if *process.session.id() == base.session && !is_whole {
            return Err(format!(
                "C5: {cell} is given back without what was done last"
            ));
        }
        Ok(())
    }

    /// What must hold after every step.
    pub(super) fn check(&mut self) -> Result<(), Wrong> {
        let mut all = 0;
        for number in 0..self.machines.len() {
            let machine = &mut self.machines[number];
            let Open { cells, .. } = machine.may_ask(machine.local(self.now));
            if all & cells != 0 {
                return Err(self.two_have(number, all & cells));
            }
            all |= cells;
        }
        if std::mem::take(&mut self.is_stirred) && self.broker.set_back == 0 {
            self.check_links()?;
        }
        match self.limit {
            _ if !self.broker.is_done() => Ok(()),
            Some(limit) if self.total == limit || self.broker.set_back > 0 => Ok(()),
            _ => Err(format!(
                "C6: the job is called done after {} pages",
                self.total
            )),
        }
    }

    fn two_have(&self, number: usize, cells: u64) -> Wrong {
        let cell = cells.trailing_zeros();
        let has = |machine: &Machine| machine.may_ask.cells >> cell & 1 == 1;
        let other = self.machines.iter().position(has).unwrap_or_default();
        format!("C1: n{other} and n{number} both have cell {cell}")
    }

    /// Whether a limit is not reached yet, or a cell was not crawled again.
    pub(super) fn has_to_wait(&self) -> bool {
        self.limit.is_some() || self.forgotten().is_some()
    }

    /// A cell that was not crawled for too long.
    fn forgotten(&self) -> Option<usize> {
        let is_early = |asked: &u64| *asked < END - LATELY;
        self.asked.iter().position(is_early)
    }

    /// After a minute without faults, or two, every cell is crawled again, and nothing is missing.
    pub(super) fn check_the_end(&self) -> Result<(), Wrong> {
        if let Some(limit) = self.limit {
            let is_all = self.total == limit || self.broker.set_back > 0;
            return if is_all {
                Ok(())
            } else {
                Err(format!("C9: {} pages of {limit}", self.total))
            };
        }
        if let Some(cell) = self.forgotten() {
            let last = self.asked[cell] / 1_000;
            return Err(format!("cell {cell} was last asked at {last} s"));
        }
        for (cell, union) in self.union.iter().enumerate() {
            let missing = union.iter().position(|times| *times == 0);
            if let Some(page) = missing.filter(|_| self.broker.set_back == 0) {
                return Err(format!("C6: page {page} of cell {cell} is missing"));
            }
        }
        match keys().find(|key| self.broker.get(key).is_none()) {
            Some(key) => Err(format!("{key} has no value")),
            None => Ok(()),
        }
    }
}

/// The keys of all cells.
fn keys() -> impl Iterator<Item = Key> {
    cell_ids().map(Key::Cell)
}

impl World {
    /// The owners of all cells, for people.
    pub(in super::super) fn show(&self) -> String {
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
        shown += &format!("{} of {:?} pages\n", self.total, self.limit);
        for machine in &self.machines {
            if let Some(process) = &machine.process {
                let (used, open) = (process.written.len(), &process.open);
                shown += &format!(
                    "{}: {used} used, open {open:?}, {:?}, behind {:?}\n",
                    machine.name,
                    process.purse,
                    Vec::from_iter(process.links.opened.behind()),
                );
            }
        }
        for key in keys() {
            shown += &format!("{key}: {:?}\n", self.broker.get(&key));
        }
        for fault in &self.planned {
            shown += &format!("{fault:?}\n");
        }
        shown
    }
}
