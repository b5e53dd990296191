//! The faults: what goes wrong, when, and with what effect.

use std::cmp::Reverse;

use super::{Disk, Event, Kept, NODES, SET_BACK, Without, World};

/// A fault and its node; some faults end by themselves.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
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
    /// It cannot read logs for this long.
    Deafen(usize, u64),
    BrokerDown,
    BrokerUp,
    SetBack(u64),
    Leave(usize),
}

impl World {
    /// Draws the faults of the first two minutes; after that there are none.
    pub(super) fn plan(&mut self) {
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
            // In half of the worlds the broker never forgets: there everything is checked.
            let last = if self.forgets { 11 } else { 9 };
            let kind = match self.dice.within(0, last) {
                // The fault that a rule protects against has to occur.
                _ if self.without == Without::CaughtUp && self.dice.percent(50) => 9,
                kind => kind,
            };
            match kind {
                9 => {
                    self.fault(at, Fault::Deafen(node, lasts + 20_000));
                    // It then takes over a cell that it knows nothing about.
                    let other = (node + 1) % NODES;
                    self.fault(at + 500, Fault::Lose(other));
                    self.fault(at + lasts, Fault::Start(other));
                }
                8 => {
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
                    let depth = self.dice.within(0, SET_BACK);
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

    pub(super) fn fault(&mut self, at: u64, fault: Fault) {
        self.faults.push(Reverse((at, self.planned.len())));
        self.planned.push(fault);
    }

    pub(super) fn happens(&mut self, fault: Fault) {
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
            Fault::Deafen(node, lasts) => self.machines[node].deaf = self.now + lasts,
            Fault::Heal(node) => {
                let machine = &mut self.machines[node];
                machine.deaf = 0;
                (machine.cut_out, machine.cut_back, machine.loss) = (false, false, 1);
                // The client now sends what it could not send before.
                for event in std::mem::take(&mut machine.kept) {
                    let at = self.now + self.dice.within(1, 2_000);
                    self.push(at, node, event);
                }
            }
            Fault::BrokerDown => self.broker.is_down = true,
            Fault::BrokerUp => self.broker.is_down = false,
            Fault::SetBack(depth) => {
                let moment = self.now.saturating_sub(depth);
                self.broker.forget(moment);
                self.logs.forget(moment);
            }
            Fault::Leave(node) => {
                let local = self.machines[node].local(self.now);
                self.machines[node].stirs();
                if let Some(process) = &mut self.machines[node].process {
                    process.session.leave(local);
                }
            }
        }
    }

    /// The process of a machine is gone; what it wrote is on disk.
    pub(super) fn dies(&mut self, node: usize) {
        let machine = &mut self.machines[node];
        machine.life += 1;
        machine.kept.clear();
        machine.stirs();
        let Some(process) = machine.process.take() else {
            return;
        };
        let session = process.session.id().clone();
        if session.number > 0 {
            let kept = Kept {
                sender: Some(process.links.sender),
                session: session.clone(),
                secrets: process.secrets,
                made: process.made,
                used: process.purse.used,
                cells: process.revisions,
            };
            let (cells, notes) = (process.cells, process.links.notes);
            machine.disk = Some(Disk { kept, cells, notes });
        }
        self.lives.entry(session).or_default().written = Some(process.written);
    }
}
