//! A limit of all machines together: what a process asks of its session, as nodes do.

use super::super::super::super::{Ask, Ceiling, Grant};
use super::{Process, World};
use crate::crawl::frontier::Amount;

/// How many permits are taken ahead.
const AHEAD: u64 = 12;

/// What a process may still ask for.
#[derive(Debug, Default)]
pub(super) struct Purse {
    ask: Ask,
    most: u64,
    /// What it may do, as of the last tick.
    grant: Grant,
    /// What was used as of the last checkpoint that was made.
    pub(super) used: Amount,
}

/// So many pages. Only they are limited.
pub(super) fn pages(documents: usize) -> Amount {
    let documents = documents as u64;
    Amount {
        documents,
        fetches: documents + 1,
        bytes: 1_000 * documents,
    }
}

impl Process {
    /// How many pages it may ask for beside those that are under way.
    pub(super) fn may_lease(&mut self, limit: u64) -> u64 {
        let grant = self.session.grant();
        self.purse.grant = grant;
        let is_heard = grant.number == self.purse.ask.number;
        let (used, open) = (self.written.len() as u64, self.open.len() as u64);
        let wanted = self.purse.ask.wanted.documents;
        let most = if is_heard { wanted } else { self.purse.most };
        let left = grant.hand.documents.min(most).saturating_sub(used + open);
        if !is_heard {
            return left;
        }
        let least = used + open;
        let has_use = self.session.cells().next().is_some();
        let ahead = if has_use { AHEAD } else { 0 };
        let is_enough = wanted >= least + ahead / 2 && wanted <= least + 2 * ahead;
        if is_enough && self.purse.ask.ceiling.documents == Some(limit) {
            return left;
        }
        self.purse.most = wanted.min(least + ahead);
        self.purse.ask = Ask {
            number: self.purse.ask.number + 1,
            ceiling: Ceiling {
                documents: Some(limit),
                ..Ceiling::default()
            },
            used: pages(self.written.len()),
            wanted: pages((least + ahead) as usize),
        };
        self.session.ask(self.purse.ask);
        left
    }

    /// Whether it has no permit that it did not use.
    pub(super) fn has_none(&self) -> bool {
        let grant = self.purse.grant;
        let is_heard = grant.number == self.purse.ask.number;
        is_heard && self.open.is_empty() && grant.hand.documents <= self.written.len() as u64
    }

    /// Whether nobody may ask for anything more, and all that this process has done is known to
    /// others.
    pub(super) fn is_spent(&self) -> bool {
        let grant = self.purse.grant;
        let used = self.written.len();
        let is_sent = |state: &super::CellState| state.links.waiting == 0;
        self.has_none()
            && grant.full.documents
            && self.giving.is_empty()
            && self.purse.used == pages(used)
            && self.session.committed() == self.made
            && self.cells.iter().flatten().all(is_sent)
    }
}

impl World {
    /// Whether somebody has said rightly that the job is done.
    pub(super) fn is_over(&self) -> bool {
        self.limit.is_some() && self.broker.is_done()
    }
}
