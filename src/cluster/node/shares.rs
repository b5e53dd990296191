//! How much more a machine may request, if limits hold for all machines together: its share of what
//! is left, taken anew at every look ([`crate::LimitClaims`]).
//!
//! A machine that cannot use its share, because nothing is left to fetch or its hosts rest, leaves
//! it to the others.

use crate::crawl::pipeline::{Allowance, Limits};
use crate::frontier::{Amount, Cells};
use crate::{Ceiling, LimitClaim, LimitClaims};

/// The shortest time between two claims, in milliseconds.
const EVERY: u64 = 200;
/// A page that can only be fetched later than this needs no share yet. A machine that did not use
/// its share for this long leaves it to the others for as long again.
const SOON: u64 = 10_000;

/// The share of a machine.
#[derive(Debug, Default)]
pub(super) struct OwnShare {
    /// The last claim given to the session.
    claim: LimitClaim,
    ceiling: Ceiling,
    /// When the next claim may be made.
    due: u64,
    /// When a page was last open, or the share was nothing.
    needed: u64,
    /// No share is taken before this time.
    from: u64,
    /// The pages that may be requested, as far as is known.
    pages: u64,
}

impl OwnShare {
    /// What may be requested under the limits in force, according to the last look.
    pub fn allowance(
        &mut self,
        limits: &Limits,
        cells: &Cells,
        claims: Option<&LimitClaims>,
    ) -> Allowance {
        let ceiling = Ceiling {
            documents: limits.documents,
            fetches: limits.fetches,
            bytes: limits.bytes,
        };
        self.ceiling = ceiling;
        let hand = claims.map(|claims| claims.hand(&self.ceiling, self.claim.most));
        let left = hand.unwrap_or_default().minus(cells.used());
        let of = |limit: Option<u64>, left| limit.map_or(u64::MAX, |_| left);
        let done = |claims: &LimitClaims| cells.used().plus(claims.done);
        self.pages = of(limits.documents, left.documents).min(of(limits.fetches, left.fetches));
        Allowance {
            pages: self.pages,
            bytes: of(limits.bytes, left.bytes),
            reached: claims.and_then(|claims| ceiling.reached(done(claims))),
            ..Allowance::default()
        }
    }

    /// What to publish next, if anything has changed.
    pub fn turn(
        &mut self,
        cells: &Cells,
        claims: Option<&LimitClaims>,
        now: u64,
    ) -> Option<LimitClaim> {
        if now < self.due {
            return None;
        }
        let (used, open) = (cells.used(), cells.leased_pages() as u64);
        if open > 0 || self.pages == 0 {
            self.needed = now;
        }
        if now.saturating_sub(self.needed) >= SOON && now >= self.from {
            (self.from, self.needed) = (now.saturating_add(SOON), now);
        }
        let wants = now >= self.from && has_pages(cells, now);
        let share = claims.filter(|_| wants);
        let share = share.map(|claims| claims.share(&self.ceiling, used));
        let least = Amount {
            documents: open,
            fetches: open,
            bytes: 0,
        };
        let most = used.plus(share.unwrap_or_default().with(least, u64::max));
        let claim = LimitClaim {
            done: used,
            most,
            wants,
        };
        if claim == self.claim {
            return None;
        }
        self.due = now.saturating_add(EVERY);
        self.claim = claim;
        Some(claim)
    }
}

/// Whether a page can be fetched soon. While the budget of pages is spent this is unknown, so any
/// page counts.
fn has_pages(cells: &Cells, now: u64) -> bool {
    let is_soon = |due: u64| due <= now.saturating_add(SOON);
    has_any(cells) && (cells.pages_are_closed() || cells.next_of_all().is_some_and(is_soon))
}

/// Whether a page is queued or waits for its time.
pub(super) fn has_any(cells: &Cells) -> bool {
    let counts = cells.counts();
    counts.queued_pages() + counts.waiting + counts.watched > 0
}
