//! Compares units with their candidates, in order of preference.

use std::ops::Range;
use std::path::PathBuf;

use super::super::document::Document;
use super::super::ordered::ordered;
use super::super::plan::{Copies, Level};
use super::super::removed::LineFile;
use super::all::{ComparedTexts, Units};
use super::clusters::{Cluster, ComparedParts, compare};
use super::copies::NONE;
use crate::copies::Alike;
use crate::progress::Step as Progress;
use crate::tool_error::ToolError;

/// The most candidates that are compared; those with the most common bands are chosen.
const COMPARED: usize = 16;
/// The number of comparisons in a piece of work.
const PIECE: usize = 64;

/// A unit to compare: its rank, whether its only candidate has the same fingerprint, and the
/// ranks of the candidates.
type UnitTask = (u32, bool, Vec<u32>);

/// The result: the unit, and the candidates that are similar enough, the most similar first.
type Similar = (u32, bool, Vec<(u32, Cluster)>);

/// Compares units with those that are kept, in order of preference.
pub(super) struct UnitSweep<'s> {
    pub(super) step: &'s Copies,
    pub(super) alike: &'s Alike,
    pub(super) number: usize,
    pub(super) units: &'s Units,
    pub(super) texts: &'s ComparedTexts,
    pub(super) order: &'s [u32],
    pub(super) path: PathBuf,
}

impl UnitSweep<'_> {
    pub(super) fn run(&mut self, pairs: Vec<u64>, leaders: &mut [u32]) -> Result<(), ToolError> {
        let mut file = LineFile::create(self.path.clone())?;
        let tasks = self.tasks(&pairs, leaders);
        drop(pairs);
        let mut progress = Progress::begin("candidates compared", Some(tasks.len() as u64));
        let this = &*self;
        let feed = |push: &mut dyn FnMut(Vec<UnitTask>) -> bool| {
            let mut tasks = tasks.into_iter().peekable();
            while tasks.peek().is_some() && push(tasks.by_ref().take(PIECE).collect()) {}
            Ok(())
        };
        let work = |tasks: Vec<UnitTask>| {
            let compared = tasks.into_iter().map(|task| this.similar(task));
            compared.collect::<Result<Vec<_>, _>>()
        };
        ordered(feed, work, |compared| {
            for (unit, is_exact, similar) in compared? {
                progress.advance(1);
                if let Some(copy) = this.settle(unit, is_exact, similar, leaders)? {
                    file.add(&copy)?;
                }
            }
            Ok(())
        })?;
        file.finish()
    }

    fn unit(&self, rank: u32) -> u32 {
        self.order.get(rank as usize).copied().unwrap_or(NONE)
    }

    /// All units to compare, in the order of ranks.
    fn tasks(&self, pairs: &[u64], leaders: &[u32]) -> Vec<UnitTask> {
        let mut tasks: Vec<UnitTask> = Vec::new();
        for group in pairs.chunk_by(|a, b| a >> 32 == b >> 32) {
            let rank = group.first().map_or(NONE, |pair| (pair >> 32) as u32);
            if self.units.document(self.unit(rank)) < self.units.earlier {
                continue;
            }
            let mut others: Vec<(usize, u32)> = group
                .chunk_by(|a, b| a == b)
                .map(|same| (same.len(), same.first().map_or(NONE, |pair| *pair as u32)))
                .collect();
            others.sort_by_key(|(agree, other)| (std::cmp::Reverse(*agree), *other));
            others.truncate(COMPARED);
            tasks.push((
                rank,
                false,
                others.into_iter().map(|(_, other)| other).collect(),
            ));
        }
        for (rank, unit) in (0..).zip(self.order) {
            let leader = leaders.get(*unit as usize).copied().unwrap_or(NONE);
            if leader != NONE {
                // The leader's unit number, because its rank is not needed.
                tasks.push((rank, true, vec![leader]));
            }
        }
        tasks.sort_by_key(|(rank, ..)| *rank);
        tasks
    }

    fn similar(&self, (rank, is_exact, others): UnitTask) -> Result<Similar, ToolError> {
        let unit = self.unit(rank);
        let (document, range) = self.texts.unit(self.units, unit)?;
        let mut similar = Vec::new();
        for other in others {
            let other = if is_exact { other } else { self.unit(other) };
            let (of, of_range) = self.texts.unit(self.units, other)?;
            let compared = self.compared(is_exact, (&document, &range), (&of, &of_range));
            if is_exact || compared.similarity >= self.step.least {
                let step = (self.number, self.step);
                let copy = Cluster::of(step, is_exact, &document, &of, &compared);
                similar.push((other, compared.similarity, copy));
            }
        }
        // The sort is stable, so ties keep the order of preference.
        similar.sort_by(|a, b| b.1.total_cmp(&a.1));
        let similar = similar.into_iter().map(|(other, _, copy)| (other, copy));
        Ok((unit, is_exact, similar.collect()))
    }

    fn compared(
        &self,
        is_exact: bool,
        first: (&Document, &Range<usize>),
        second: (&Document, &Range<usize>),
    ) -> ComparedParts {
        if self.step.level == Level::Url {
            return ComparedParts {
                similarity: 1.0,
                spans: Vec::new(),
            };
        }
        let mut compared = compare((self.step, self.alike), first, second);
        if is_exact {
            compared.similarity = 1.0;
        }
        compared
    }

    /// Decides on a unit after all units before it.
    fn settle(
        &self,
        unit: u32,
        is_exact: bool,
        similar: Vec<(u32, Cluster)>,
        leaders: &mut [u32],
    ) -> Result<Option<Cluster>, ToolError> {
        let leader_of = |unit: u32| leaders.get(unit as usize).copied().unwrap_or(NONE);
        let mut found = None;
        for (other, copy) in similar {
            let leader = leader_of(other);
            if leader == NONE {
                found = Some((other, copy));
                break;
            }
            if is_exact {
                // The equal unit was found to be a near copy itself.
                let (document, range) = self.texts.unit(self.units, unit)?;
                let (of, of_range) = self.texts.unit(self.units, leader)?;
                let compared = self.compared(false, (&document, &range), (&of, &of_range));
                let step = (self.number, self.step);
                found = Some((leader, Cluster::of(step, false, &document, &of, &compared)));
            }
        }
        if let (Some((of, _)), Some(leader)) = (&found, leaders.get_mut(unit as usize)) {
            *leader = *of;
        }
        Ok(found.map(|(_, copy)| copy))
    }
}
