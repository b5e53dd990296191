//! The logs at the broker, and what must hold for them.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::pages::{LINKS, MOST_LINKS, link_in, links_of, promise_in};
use super::process::at;
use super::traffic::{cell_ids, place};
use super::{CELLS, CellId, Pause, World, Wrong};
use crate::links::{Envelope, UNNUMBERED};
use crate::scripted::Log;

/// A message that a log has or had.
pub(super) struct Stored {
    at: u64,
    links: Vec<(usize, u64)>,
}

/// The broker's logs of links, and what an observer knows about them.
#[derive(Default)]
pub(super) struct Logs {
    pub(super) logs: [Log; CELLS as usize],
    /// All messages that were ever stored, including those that were cut.
    stored: [BTreeMap<u64, Stored>; CELLS as usize],
    /// A number for each message that was stored, by its cell, its sender and the sender's number.
    pub(super) messages: BTreeMap<(usize, u64, u64), usize>,
    /// The messages in which each link was sent: senders and their numbers.
    sent: BTreeMap<(usize, u64), Vec<(u64, u64)>>,
    /// A link that one session has sent twice.
    pub(super) twice: Option<(usize, u64)>,
}

impl Logs {
    /// Forgets what came after a moment.
    pub(super) fn forget(&mut self, moment: u64) {
        for (log, stored) in self.logs.iter_mut().zip(&mut self.stored) {
            stored.retain(|_, message| message.at < moment);
            log.set_back(stored.last_key_value().map_or(0, |(last, _)| *last));
        }
    }
}

impl World {
    /// A message has arrived at the broker.
    pub(super) fn stores(&mut self, to: CellId, id: &str, message: &Bytes) {
        let logs = &mut self.logs;
        let log = &mut logs.logs[at(to)];
        if self.dice.percent(5) {
            // A repeated message may come too late for the broker to recognise it.
            log.forget_ids();
        }
        let last = log.last();
        log.store(id, message);
        if log.last() == last {
            return;
        }
        let envelope = Envelope::of(message).unwrap();
        let links: Vec<_> = envelope.offers.iter().filter_map(link_in).collect();
        let (sender, number) = (envelope.session, envelope.number);
        if number != UNNUMBERED {
            let known = logs.messages.len();
            logs.messages
                .entry((at(to), sender, number))
                .or_insert(known);
            for link in &links {
                let sent = logs.sent.entry(*link).or_default();
                let is_again = |(other, n): &(u64, u64)| *other == sender && *n != number;
                if sent.iter().any(is_again) {
                    logs.twice = Some(*link);
                }
                sent.push((sender, number));
            }
        }
        let stored = Stored {
            at: self.now,
            links,
        };
        logs.stored[at(to)].insert(last + 1, stored);
        for (host, until) in envelope.offers.iter().filter_map(promise_in) {
            self.is_promised(at(to), host, until);
        }
        self.is_stirred = true;
    }

    /// From now on, others can know of a promise.
    pub(super) fn is_promised(&mut self, cell: usize, host: usize, until: u64) {
        let pause = &mut self.hosts[cell][host].pause;
        if until >= pause.until {
            pause.stored.get_or_insert(self.now);
        }
    }

    /// The broker has to cut a log.
    pub(super) fn cuts(
        &mut self,
        node: usize,
        life: u64,
        cell: CellId,
        sequence: u64,
    ) -> Result<(), Wrong> {
        if self.broker.is_down {
            return Ok(());
        }
        let held = self.committed(cell).map_or(0, place);
        let log = &mut self.logs.logs[at(cell)];
        let is_there = |(number, _): &(&u64, _)| (held + 1..=sequence).contains(number);
        if self.broker.set_back == 0
            && let Some((number, _)) = log.messages.iter().find(is_there)
        {
            return Err(format!(
                "C7: message {number} of {cell} is cut, and its checkpoint holds {held}"
            ));
        }
        log.cut(sequence);
        self.is_stirred = true;
        let machine = &mut self.machines[node];
        if let Some(process) = machine.process.as_mut().filter(|_| machine.life == life) {
            process.links.cuts.done(cell, sequence);
        }
        Ok(())
    }

    /// Every link of a page that a committed checkpoint has is in the committed state of its
    /// target, in the target's log after that state, or in the outbox of the page's cell.
    pub(super) fn check_links(&self) -> Result<(), Wrong> {
        let states = Vec::from_iter(cell_ids().map(|cell| self.committed(cell)));
        for (to, target) in states.iter().enumerate() {
            let mut there = target.map_or([0; CELLS as usize], |state| state.links.known);
            let held = target.map_or(0, place);
            let log = &self.logs.logs[to];
            for (number, stored) in self.logs.stored[to].range(held + 1..) {
                if log.messages.contains_key(number) {
                    for (from, link) in &stored.links {
                        there[*from] |= 1 << link;
                    }
                }
            }
            for (from, state) in states.iter().enumerate() {
                let Some(state) = state else { continue };
                let found = links_of(state.done).min(MOST_LINKS - 1);
                let missing = ((1 << found) - 1) & LINKS[from][to] & !there[from];
                let missing = missing & !state.links.waiting;
                if missing != 0 {
                    let link = missing.trailing_zeros();
                    return Err(format!(
                        "C3: link {link} of cell {from} to cell {to} is lost"
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Pause {
    /// A host asks a session for a pause.
    pub(super) fn until(until: u64, session: u64) -> Self {
        Self {
            until,
            session,
            stored: None,
        }
    }
}
