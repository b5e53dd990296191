//! What must hold, and what a world looks like to people.

use std::collections::BTreeMap;

use super::{CELLS, CellId, Key, Process, SessionId, World, Wrong};

impl World {
    /// The effects of a checkpoint count from here on.
    pub(super) fn commits(&mut self, session: &SessionId, number: u64) -> Result<(), Wrong> {
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

    /// What must hold after every step.
    pub(super) fn check(&self) -> Result<(), Wrong> {
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
    pub(super) fn check_the_end(&self) -> Result<(), Wrong> {
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

impl World {
    /// Who has what, for people.
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
        for cell in self.hosts.keys() {
            shown += &format!("{cell}: {:?}\n", self.broker.get(&Key::Cell(*cell)));
        }
        for fault in &self.planned {
            shown += &format!("{fault:?}\n");
        }
        shown
    }
}
