//! When the next request to an IP address may start, whichever machine makes it: what is known by
//! the machine that answers for the address.
//!
//! An address belongs to a cell (`CellCount::cell_of_address`), and the owner of the cell answers
//! for it, from memory. No machine sends a request to an address without a *pass*. There is one
//! pass for an address at a time, and the next is given when the last has ended and the delay has
//! passed. Only an answer from the owner gives a pass, so a machine that gets no answer sends
//! nothing.
//!
//! This module is pure. `node` connects it to an engine and a clock.
//!
//! # Why it is safe
//!
//! - A pass expires after [`PassTimes::pass`], which the machine counts from the moment before it
//!   asked. Then the request is cut. While the request continues, the machine asks for more time
//!   well before that.
//! - The owner counts [`PassTimes::hold`] from the moment it answered. Clocks run at 0.8 to 1.25
//!   times the true speed, and 1.6 times as long by the fastest clock is still longer than a pass
//!   by the slowest (`session::terms` has the figures). So a lost message makes the address wait
//!   longer, but never lets two machines hold a pass.
//! - A new owner gives no pass before `from`, when the last owner has certainly stopped
//!   ([`Session::from`](super::Session::from)), nor before every pass that the last owner may have
//!   given has expired and the delay has passed. A request that is still under way may have its
//!   pass confirmed in that time.
//!
//! A question that arrives so late that the asking machine has given up may still be given a pass.
//! It expires like one whose end was lost.
//!
//! Times are milliseconds of the owner's clock, which also counts the delay.

use std::collections::HashMap;
use std::net::IpAddr;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::frontier::CellId;

/// The version of questions and answers.
const VERSION: u8 = 1;
/// The longest delay that a question can request.
const LONGEST_DELAY: u64 = 24 * 3_600 * 1_000;
/// How soon to ask again while another machine has the pass. A machine that waits hears of the end
/// before the following delay is over, as long as this is not longer than the delay.
const SOONEST: u64 = 20;
const LATEST: u64 = 1_000;
/// How long an address is reserved for the machine whose turn it is. Otherwise the owner would
/// always be first, because it waits for no message.
const TURN: u64 = 250;
/// How many clocks of a cell there may be before expired ones are removed.
const SWEEP: usize = if cfg!(test) { 4 } else { 1_024 };

/// The subject of questions about the addresses of a cell.
pub fn subject_of(cell: CellId) -> String {
    format!("clock-{}", cell.number())
}

/// One request of one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PassId {
    /// A random number of the machine's process.
    pub machine: u64,
    /// Counts the machine's requests.
    pub number: u64,
}

/// What a question asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wish {
    /// May the request be sent? Asked again with the same number if there was no answer.
    Send,
    /// The request is being sent; may it continue?
    GoOn,
    /// The request has ended.
    End,
}

/// A question about an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query {
    /// What is asked.
    pub wish: Wish,
    /// The address.
    pub address: IpAddr,
    /// The request.
    pub pass: PassId,
    /// The shortest time from the end of a request to the start of the next, in milliseconds.
    pub delay: u64,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Yes: the request has the pass.
    Go,
    /// Not yet: ask again after this many milliseconds.
    Later(u64),
    /// No: the request has no pass, and gets none under this number.
    Gone,
}

impl Query {
    /// The bytes of a question.
    pub fn to_bytes(self) -> Bytes {
        to_bytes(&self)
    }

    /// Reads a question; `None` if it is not of this version.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        of_bytes(bytes)
    }
}

impl Reply {
    /// The bytes of an answer.
    pub fn to_bytes(self) -> Bytes {
        to_bytes(&self)
    }

    /// Reads an answer; `None` if it is not of this version.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        of_bytes(bytes)
    }
}

fn to_bytes(value: &impl Serialize) -> Bytes {
    // Numbers and addresses can always be written. An empty message would be refused.
    postcard::to_extend(value, vec![VERSION])
        .unwrap_or_default()
        .into()
}

fn of_bytes<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Option<T> {
    let (version, rest) = bytes.split_first()?;
    let (value, rest) = postcard::take_from_bytes(rest).ok()?;
    (*version == VERSION && rest.is_empty()).then_some(value)
}

/// How long passes last, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassTimes {
    /// For the machine that has one, by its own clock.
    pub pass: u64,
    /// For the owner of the address, by the owner's clock.
    pub hold: u64,
}

impl PassTimes {
    /// Passes of this length.
    pub fn of(pass: u64) -> Self {
        Self {
            pass,
            hold: (pass.saturating_mul(8)).div_ceil(5),
        }
    }
}

/// The clocks of the addresses that a machine answers for.
#[derive(Debug)]
pub struct PassTable {
    times: PassTimes,
    cells: HashMap<CellId, Cell>,
}

#[derive(Debug, Default)]
struct Cell {
    /// When the last owner has certainly stopped.
    from: u64,
    clocks: HashMap<IpAddr, Clock>,
    /// From how many clocks on it is worth looking for expired ones.
    sweep: usize,
}

#[derive(Debug, Default)]
struct Clock {
    held: Option<Held>,
    /// No pass is given before this time.
    due: u64,
    /// The first machine that was asked to come again.
    next: Option<u64>,
    /// The last pass that has ended.
    ended: Option<PassId>,
}

#[derive(Debug)]
struct Held {
    pass: PassId,
    until: u64,
    delay: u64,
}

impl PassTable {
    /// A table of a machine that does not answer for any address yet.
    pub fn new(times: PassTimes) -> Self {
        Self {
            times,
            cells: HashMap::new(),
        }
    }

    /// Forgets the cells that the machine no longer has.
    pub fn keep(&mut self, has: impl Fn(CellId) -> bool) {
        self.cells.retain(|cell, _| has(*cell));
    }

    /// Answers a question about an address of a cell that this machine owns, and whose last owner
    /// has stopped by `from`. The caller has checked that it still owns the cell.
    pub fn answer(&mut self, cell: CellId, from: u64, query: Query, now: u64) -> Reply {
        let owned = self.cells.entry(cell).or_default();
        if owned.from != from {
            // The cell has changed owners since then.
            *owned = Cell {
                from,
                ..Cell::default()
            };
        }
        owned.sweep(now);
        // No pass of the last owner lasts longer than this.
        let others_until = from.saturating_add(self.times.hold);
        let until = now.saturating_add(self.times.hold);
        let query = Query {
            delay: query.delay.min(LONGEST_DELAY),
            ..query
        };
        match query.wish {
            Wish::Send => owned.send(query, others_until, until, now),
            Wish::GoOn => owned.go_on(query, others_until, until, now),
            Wish::End => {
                owned.end(query, now);
                Reply::Go
            }
        }
    }

    #[cfg(test)]
    fn clocks(&self) -> usize {
        self.cells.values().map(|cell| cell.clocks.len()).sum()
    }
}

impl Cell {
    fn send(&mut self, query: Query, others_until: u64, until: u64, now: u64) -> Reply {
        let Query { pass, delay, .. } = query;
        let quiet = others_until.saturating_add(delay);
        if now < quiet {
            return Reply::Later(quiet - now);
        }
        let clock = self.clocks.entry(query.address).or_default();
        clock.run_out(now);
        if let Some(held) = &mut clock.held {
            if held.pass == pass {
                // The answer was lost.
                held.until = until;
                return Reply::Go;
            }
            clock.next.get_or_insert(pass.machine);
            return Reply::Later(delay.clamp(SOONEST, LATEST));
        }
        if clock.ended == Some(pass) {
            return Reply::Gone;
        }
        if now < clock.due {
            clock.next.get_or_insert(pass.machine);
            return Reply::Later(clock.due - now);
        }
        let turn = clock.due.saturating_add(TURN);
        if clock.next.is_some_and(|next| next != pass.machine) && now < turn {
            return Reply::Later(turn - now);
        }
        clock.next = None;
        clock.held = Some(Held { pass, until, delay });
        Reply::Go
    }

    fn go_on(&mut self, query: Query, others_until: u64, until: u64, now: u64) -> Reply {
        let Query { pass, delay, .. } = query;
        if let Some(clock) = self.clocks.get_mut(&query.address) {
            clock.run_out(now);
            match &mut clock.held {
                Some(held) if held.pass == pass => {
                    held.until = until;
                    return Reply::Go;
                }
                Some(_) => return Reply::Gone,
                None if clock.ended == Some(pass) => return Reply::Gone,
                None => {}
            }
        }
        if now >= others_until {
            return Reply::Gone;
        }
        // The last owner gave the pass, and this one has given none yet.
        let clock = self.clocks.entry(query.address).or_default();
        clock.held = Some(Held { pass, until, delay });
        Reply::Go
    }

    fn end(&mut self, query: Query, now: u64) {
        let Query { pass, delay, .. } = query;
        let due = now.saturating_add(delay);
        let clock = self.clocks.entry(query.address).or_insert_with(|| Clock {
            // The last owner may have given the pass.
            due,
            ..Clock::default()
        });
        clock.run_out(now);
        if clock.held.take_if(|held| held.pass == pass).is_some() {
            clock.due = clock.due.max(due);
        }
        clock.ended = Some(pass);
    }

    /// From time to time removes clocks that no longer have any effect.
    fn sweep(&mut self, now: u64) {
        if self.clocks.len() >= self.sweep.max(SWEEP) {
            self.clocks.retain(|_, clock| {
                clock.run_out(now);
                clock.held.is_some() || now < clock.due.saturating_add(TURN)
            });
            self.sweep = 2 * self.clocks.len();
        }
    }
}

impl Clock {
    /// Ends a pass whose end was not reported in time.
    fn run_out(&mut self, now: u64) {
        if let Some(held) = self.held.take_if(|held| held.until <= now) {
            self.due = self.due.max(held.until.saturating_add(held.delay));
        }
    }
}

#[cfg(test)]
mod tests;
