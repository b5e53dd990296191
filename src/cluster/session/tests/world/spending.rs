//! A limit of all machines together: what a process claims through its session, as nodes do.

use super::super::super::super::{Ceiling, LimitClaim, LimitClaims};
use super::{Process, World};
use crate::frontier::Amount;

/// How much more a process may request.
#[derive(Debug, Default)]
pub(super) struct Purse {
    claim: LimitClaim,
    /// As of the last tick.
    claims: Option<LimitClaims>,
    /// What was used as of the last checkpoint that was made.
    pub(super) used: Amount,
}

/// An amount of this many pages. Only pages are limited.
pub(super) fn pages(documents: usize) -> Amount {
    let documents = documents as u64;
    Amount {
        documents,
        fetches: documents + 1,
        bytes: 1_000 * documents,
    }
}

fn ceiling(limit: u64) -> Ceiling {
    Ceiling {
        documents: Some(limit),
        ..Ceiling::default()
    }
}

impl Process {
    /// How many pages it may request besides those that are under way.
    pub(super) fn may_lease(&mut self, limit: u64) -> u64 {
        let claims = self.session.claims();
        let (used, open) = (self.written.len(), self.open.len());
        let wants = self.session.cells().next().is_some();
        let share = claims.filter(|_| wants);
        let share = share.map(|claims| claims.share(&ceiling(limit), pages(used)));
        let share = share.unwrap_or_default().documents as usize;
        let claim = LimitClaim {
            done: pages(used),
            most: pages(used + share.max(open)),
            wants,
        };
        self.session.set_claim(claim);
        (self.purse.claim, self.purse.claims) = (claim, claims);
        let hand = claims.map(|claims| claims.hand(&ceiling(limit), claim.most));
        let hand = hand.unwrap_or_default().documents;
        hand.saturating_sub((used + open) as u64)
    }

    /// Whether no session may request anything more, and all that this process has done is known to
    /// others.
    pub(super) fn is_spent(&self, limit: u64) -> bool {
        let used = pages(self.written.len());
        let is_sent = |state: &super::CellState| state.links.waiting == 0;
        let done = |claims: LimitClaims| ceiling(limit).reached(claims.done.plus(used));
        self.open.is_empty()
            && self.purse.claims.and_then(done).is_some()
            && self.giving.is_empty()
            && self.purse.used == used
            && self.session.committed() == self.made
            && self.cells.iter().flatten().all(is_sent)
    }
}

impl World {
    /// Whether the job was rightly marked as done.
    pub(super) fn is_over(&self) -> bool {
        self.limit.is_some() && self.broker.is_done()
    }
}
