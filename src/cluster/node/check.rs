//! Checks that all checkpoints of a cluster that count are as they were written.
//!
//! Machines may crawl in the meantime. They replace checkpoints and remove old ones, so a session
//! that seems wrong is checked again if it has moved on.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::crawl::saved::{Flaw, SaveError, SavedSession, Verified};
use crate::frontier::CellId;
use crate::progress::Step;
use crate::{CellRecord, SessionId, Survey};

/// How often a session that moves on is checked.
const ATTEMPTS: usize = 5;

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum ClusterFlaw {
    /// An object of a checkpoint is damaged or missing.
    #[error("{0}; put it back from a copy of cluster.store")]
    Object(Flaw),
    /// No checkpoint that may hold the state of a cell does.
    #[error("{0} has no state: no checkpoint that may hold it does")]
    NoState(CellId),
}

/// A session in the store that no key names, for example from an earlier life of the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Leftover {
    /// Its name.
    pub session: String,
    /// How many objects it has.
    pub objects: u64,
    /// The bytes of its objects.
    pub bytes: u64,
}

/// The result of the check.
#[derive(Debug, Default)]
pub struct ClusterReport {
    /// How many cells the job has; 0 if no machine has begun.
    pub cells: u16,
    /// How many sessions have checkpoints.
    pub sessions: usize,
    /// How many checkpoints count.
    pub checkpoints: usize,
    /// How many objects they name.
    pub objects: u64,
    /// How many bytes those have.
    pub bytes: u64,
    /// What is wrong.
    pub wrong: BTreeSet<ClusterFlaw>,
    /// Sessions that are no longer needed.
    pub leftovers: Vec<Leftover>,
}

/// Checks all checkpoints in a store against the keys that `survey` reads. If `quick`, objects are
/// not read.
///
/// # Errors
/// If the brokers or the store fail. Damage is no error.
pub fn check<E: From<SaveError>>(
    survey: &dyn Fn() -> Result<Survey, E>,
    store: &str,
    quick: bool,
) -> Result<ClusterReport, E> {
    let mut report = ClusterReport::default();
    let before = survey()?;
    report.cells = before.job.as_ref().map_or(0, |job| job.cells);
    let mut verified = BTreeMap::new();
    let mut step = Step::begin("objects checked", None);
    for session in before.sessions.keys() {
        let saved = SavedSession::open(store, &session.to_string())?;
        let mut numbers = numbers(&survey()?, session);
        for _ in 0..ATTEMPTS {
            let found = saved.verify(&numbers, quick, &mut step)?;
            let is_fine = found.flaws.is_empty();
            verified.insert(session.clone(), (numbers.len(), found));
            let again = self::numbers(&survey()?, session);
            if is_fine || numbers == again {
                break;
            }
            numbers = again;
        }
    }
    let after = survey()?;
    for (checkpoints, found) in verified.values().filter(|(count, _)| *count > 0) {
        report.sessions += 1;
        report.checkpoints += checkpoints;
        report.objects += found.objects;
        report.bytes += found.bytes;
        let flaws = found.flaws.iter().cloned();
        report.wrong.extend(flaws.map(ClusterFlaw::Object));
    }
    let verified = verified.into_iter().map(|(id, (_, found))| (id, found));
    report.wrong.extend(
        without_state(&before, &after, &verified.collect())
            .into_iter()
            .map(ClusterFlaw::NoState),
    );
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

/// The cells that have a state which no checkpoint holds: neither the last one of the owner, nor
/// one that the key of the cell names. Cells that have changed owners since, or whose owner has
/// made another checkpoint, are left out, because nothing can be said of them.
fn without_state(
    before: &Survey,
    after: &Survey,
    verified: &BTreeMap<SessionId, Verified>,
) -> Vec<CellId> {
    let last = |survey: &Survey, record: &CellRecord| {
        let owner = survey.sessions.get(record.owner.as_ref()?)?;
        Some(owner.0.checkpoint)
    };
    let holds = |session: &SessionId, number: u64, cell: CellId| {
        let held = verified.get(session).and_then(|v| v.held.get(&number));
        held.is_some_and(|held| held.contains(&cell))
    };
    let is_lost = |(cell, record): &(&CellId, &CellRecord)| {
        let owner = record.owner.as_ref().zip(last(after, record));
        let of_owner = owner.is_some_and(|(owner, last)| holds(owner, last, **cell));
        let mut bases = record.bases.iter();
        let is_same = before.cells.get(*cell) == Some(*record);
        is_same
            && last(before, record) == last(after, record)
            && !record.bases.is_empty()
            && !of_owner
            && !bases.any(|base| holds(&base.session, base.checkpoint, **cell))
    };
    let lost = after.cells.iter().filter(is_lost);
    lost.map(|(cell, _)| *cell).collect()
}

#[cfg(test)]
mod tests;
