//! Whether a cluster is as it should be: its keys at the brokers, and the checkpoints of all its
//! sessions in the store.
//!
//! Machines may crawl meanwhile. They replace checkpoints and remove old ones, so what seems wrong
//! with a session is looked at again where it has moved on.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::crawl::cluster::{Base, CellRecord, SessionId, Survey};
use crate::crawl::frontier::{CellCount, CellId, misplaced};
use crate::crawl::saved::{Flaw, SaveError, SavedSession, Verified};
use crate::progress::Step;

/// How often a session is looked at that goes on.
const ATTEMPTS: usize = 5;
/// The most addresses in wrong cells that are named.
const MOST_NAMED: usize = 20;

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Wrong {
    /// An object of a checkpoint.
    #[error("{}: {}; put it back from a copy of cluster.store", .0.object, .0.why)]
    Object(Flaw),
    /// A cell's key names an owner that there is not.
    #[error("{cell} is {owner}'s, which the brokers do not know; they have forgotten something")]
    Owner {
        /// The cell.
        cell: CellId,
        /// The session.
        owner: SessionId,
    },
    /// None of the checkpoints that a cell's key names has the cell.
    #[error("{cell} has no state: none of the checkpoints that its key names holds it ({names})")]
    NoState {
        /// The cell.
        cell: CellId,
        /// The checkpoints.
        names: String,
    },
    /// The key of a cell that there is not.
    #[error("there is a key of {cell}, and the job has {cells} cells")]
    NoSuchCell {
        /// The cell.
        cell: CellId,
        /// How many there are.
        cells: u16,
    },
    /// Two sessions of a machine live.
    #[error("two sessions of the machine {node} live: {first} and {second}")]
    Twice {
        /// The machine.
        node: String,
        /// Its session.
        first: u64,
        /// The other one.
        second: u64,
    },
    /// An address is in the cell of another host.
    #[error("{address} is in {there}, and its host belongs into {home}")]
    Misplaced {
        /// The address.
        address: String,
        /// The cell in whose state it is.
        there: CellId,
        /// The cell of its host.
        home: CellId,
    },
    /// More of the same.
    #[error("{0} more addresses are in the cells of other hosts")]
    MoreMisplaced(usize),
    /// Links are gone that no checkpoint holds.
    #[error(
        "the links {from} to {to} for {cell} are gone from the brokers, and no checkpoint holds them; \
         they come back when the pages that have them are visited again"
    )]
    Gap {
        /// The cell.
        cell: CellId,
        /// The first of them.
        from: u64,
        /// The last one.
        to: u64,
    },
    /// The brokers have forgotten links.
    #[error(
        "{cell} has read its links up to number {read}, and the brokers have them up to {last}; they \
         have forgotten some, and those that get the same numbers will not be read"
    )]
    Behind {
        /// The cell.
        cell: CellId,
        /// Up to where it has read.
        read: u64,
        /// The last one at the brokers.
        last: u64,
    },
}

/// A session in the store that no key names: of an earlier life of the job, for example.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Leftover {
    /// Its name.
    pub session: String,
    /// How many objects there are of it.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Report {
    /// How many cells the job has; 0 where no machine has begun.
    pub cells: u16,
    /// How many sessions have checkpoints.
    pub sessions: usize,
    /// How many checkpoints count.
    pub checkpoints: usize,
    /// How many objects these name.
    pub objects: u64,
    /// How many bytes that are.
    pub bytes: u64,
    /// What is wrong.
    pub wrong: BTreeSet<Wrong>,
    /// What nobody needs.
    pub leftovers: Vec<Leftover>,
}

/// The numbers of the first and of the last message of the log of a cell, `None` where it never
/// had any.
pub type LogEnds = BTreeMap<CellId, (u64, u64)>;

/// What a check asks the brokers.
pub trait Keys {
    /// What goes wrong.
    type Error: From<SaveError>;

    /// All keys as they are now.
    ///
    /// # Errors
    /// Where the brokers do not answer.
    fn survey(&mut self) -> Result<Survey, Self::Error>;

    /// What they have of the logs of these cells.
    ///
    /// # Errors
    /// Where the brokers do not answer.
    fn log_ends(&mut self, cells: CellCount) -> Result<LogEnds, Self::Error>;
}

/// Checks all keys, and all checkpoints in a store. `quick` is whether objects are not read.
///
/// # Errors
/// Where the brokers or the store fail. What is wrong is no error.
pub fn check<K: Keys>(keys: &mut K, store: &str, quick: bool) -> Result<Report, K::Error> {
    let mut report = Report::default();
    let before = keys.survey()?;
    let cells = before
        .job
        .as_ref()
        .and_then(|job| CellCount::new(job.cells));
    if let Some(cells) = cells {
        report.cells = cells.number();
        // Before the checkpoints: a log is only cut up to what one holds.
        let ends = keys.log_ends(cells)?;
        let verified = sessions(keys, store, (cells, quick), &mut report)?;
        let after = keys.survey()?;
        let again = keys.log_ends(cells)?;
        let mut states = States {
            cells,
            before: &before,
            after: &after,
            verified: &verified,
            wrong: &mut report.wrong,
        };
        states.keys();
        states.states((&ends, &again));
    }
    let after = keys.survey()?;
    let known: BTreeSet<String> = after.sessions.keys().map(ToString::to_string).collect();
    let all = SavedSession::all(store)?;
    let left = all.into_iter().filter(|(name, _)| !known.contains(name));
    report.leftovers = left
        .map(|(session, (objects, bytes))| Leftover {
            session,
            objects,
            bytes,
        })
        .collect();
    Ok(report)
}

/// The numbers of the checkpoints of a session that count.
fn numbers(survey: &Survey, session: &SessionId) -> BTreeSet<u64> {
    let all = survey.checkpoints().into_iter();
    let own = all.filter(|(of, _)| of == session);
    own.map(|(_, number)| number).collect()
}

/// Looks at the checkpoints of all sessions.
fn sessions<K: Keys>(
    keys: &mut K,
    store: &str,
    (cells, quick): (CellCount, bool),
    report: &mut Report,
) -> Result<BTreeMap<SessionId, Verified>, K::Error> {
    let all = keys.survey()?.checkpoints();
    let all: BTreeSet<SessionId> = all.into_iter().map(|(session, _)| session).collect();
    let mut verified = BTreeMap::new();
    let mut step = Step::begin("objects checked", None);
    for session in all {
        let saved = SavedSession::open(store, &session.to_string())?;
        for attempt in 1.. {
            let numbers = self::numbers(&keys.survey()?, &session);
            if numbers.is_empty() {
                break;
            }
            let mut misplaced = Misplaced::new(cells);
            let see = &mut |number: u64, key: &[u8], value: Option<&[u8]>| {
                misplaced.see(number, key, value.is_some());
            };
            let found = saved.verify(&numbers, quick, &mut step, see)?;
            let is_fine = found.flaws.is_empty();
            if !is_fine && attempt < ATTEMPTS && self::numbers(&keys.survey()?, &session) != numbers
            {
                continue;
            }
            report.sessions += 1;
            report.checkpoints += numbers.len();
            report.objects += found.objects;
            report.bytes += found.bytes;
            report
                .wrong
                .extend(found.flaws.iter().cloned().map(Wrong::Object));
            misplaced.tell(&found, &mut report.wrong);
            verified.insert(session.clone(), found);
            break;
        }
    }
    Ok(verified)
}

/// Addresses in the cells of other hosts, by checkpoint and key. The last value of a key counts.
struct Misplaced {
    cells: CellCount,
    found: BTreeMap<(u64, Vec<u8>), (String, CellId)>,
}

impl Misplaced {
    fn new(cells: CellCount) -> Self {
        Self {
            cells,
            found: BTreeMap::new(),
        }
    }

    fn see(&mut self, number: u64, key: &[u8], is_there: bool) {
        if let Some(misplaced) = misplaced(self.cells, key) {
            let place = (number, key.to_vec());
            if is_there {
                self.found.insert(place, misplaced);
            } else {
                self.found.remove(&place);
            }
        }
    }

    /// Tells those in cells that the checkpoints hold.
    fn tell(self, verified: &Verified, wrong: &mut BTreeSet<Wrong>) {
        let mut told = BTreeSet::new();
        for ((number, key), (address, home)) in self.found {
            let held = verified.held.get(&number);
            let there = CellId::of_key(&key);
            let there = there.filter(|there| held.is_some_and(|held| held.contains_key(there)));
            if let Some(there) = there {
                told.insert(Wrong::Misplaced {
                    address,
                    there,
                    home,
                });
            }
        }
        let more = told.len().saturating_sub(MOST_NAMED);
        wrong.extend(told.into_iter().take(MOST_NAMED));
        if more > 0 {
            wrong.insert(Wrong::MoreMisplaced(more));
        }
    }
}

/// The cells' keys against what the checkpoints hold.
struct States<'s> {
    cells: CellCount,
    before: &'s Survey,
    after: &'s Survey,
    verified: &'s BTreeMap<SessionId, Verified>,
    wrong: &'s mut BTreeSet<Wrong>,
}

impl States<'_> {
    /// What the keys say by themselves.
    fn keys(&mut self) {
        let live: Vec<&SessionId> = self.after.live().map(|(id, _)| id).collect();
        for pair in live.windows(2) {
            let [first, second] = pair else { continue };
            // A new session ends the one before as soon as it has its key.
            let were_both = [first, second].map(|id| self.before.sessions.contains_key(*id));
            if first.node == second.node && were_both == [true, true] {
                self.wrong.insert(Wrong::Twice {
                    node: first.node.to_string(),
                    first: first.number,
                    second: second.number,
                });
            }
        }
        for (cell, record) in &self.after.cells {
            if self.cells.cell(cell.number()).is_none() {
                self.wrong.insert(Wrong::NoSuchCell {
                    cell: *cell,
                    cells: self.cells.number(),
                });
            }
            let owner = record.owner.as_ref();
            if let Some(owner) = owner.filter(|owner| !self.after.sessions.contains_key(*owner)) {
                self.wrong.insert(Wrong::Owner {
                    cell: *cell,
                    owner: owner.clone(),
                });
            }
        }
    }

    /// Whether each cell has a state, and all links that are not in it.
    fn states(&mut self, (before, again): (&LogEnds, &LogEnds)) {
        for (cell, record) in &self.after.cells {
            // One that has changed hands meanwhile may have its state elsewhere by now.
            if self.before.cells.get(cell) != Some(record) {
                continue;
            }
            let held = self.held(*cell, record);
            if held.is_none() && !record.bases.is_empty() && self.is_still(record) {
                let names = record.bases.iter().map(name_of);
                self.wrong.insert(Wrong::NoState {
                    cell: *cell,
                    names: Vec::from_iter(names).join(", "),
                });
            }
            // A new cell has read nothing.
            let read = held.unwrap_or(0);
            if held.is_none() && !record.bases.is_empty() {
                continue;
            }
            if let Some((first, _)) = before.get(cell)
                && *first > read.saturating_add(1)
            {
                self.wrong.insert(Wrong::Gap {
                    cell: *cell,
                    from: read + 1,
                    to: first - 1,
                });
            }
            let last = again.get(cell).map_or(0, |(_, last)| *last);
            if last < read {
                self.wrong.insert(Wrong::Behind {
                    cell: *cell,
                    read,
                    last,
                });
            }
        }
    }

    /// Up to where the cell had read its log in the state that counts: of the owner's last
    /// checkpoint, if that was begun when it had the cell, or else of the first base that has it.
    fn held(&self, cell: CellId, record: &CellRecord) -> Option<u64> {
        let of = |session: &SessionId, number: Option<u64>| {
            let held = &self.verified.get(session)?.held;
            let held = match number {
                Some(number) => held.get(&number)?,
                None => held.last_key_value()?.1,
            };
            held.get(&cell).copied()
        };
        let own = record.owner.as_ref().filter(|owner| {
            let verified = self.verified.get(*owner);
            let last = verified.and_then(|v| v.held.last_key_value());
            last.is_some_and(|(number, _)| *number > record.after)
        });
        let own = own.and_then(|owner| of(owner, None));
        let bases = record.bases.iter();
        own.or_else(|| {
            bases
                .map(|base| of(&base.session, Some(base.checkpoint)))
                .find_map(|h| h)
        })
    }

    /// Whether the owner has made no checkpoint since its own were looked at.
    fn is_still(&self, record: &CellRecord) -> bool {
        let Some(owner) = &record.owner else {
            return true;
        };
        let last = self
            .after
            .sessions
            .get(owner)
            .map_or(0, |(r, _)| r.checkpoint);
        let seen = self
            .verified
            .get(owner)
            .and_then(|v| v.held.last_key_value());
        seen.map_or(0, |(number, _)| *number) == last
    }
}

fn name_of(base: &Base) -> String {
    format!("{} of {}", base.checkpoint, base.session)
}

#[cfg(test)]
mod tests;
