//! What a machine may still ask for, where limits hold for all machines together.
//!
//! It asks its session for permits ahead of need, about as many as it has used in the last
//! minute, and gives back what it has no use for: when nothing is left to fetch, and when it has
//! asked for no page for some time, because its hosts rest or only images are left. A question
//! is sent when the one before was heard; until then no more is used than either allows.
//!
//! Where an operator changes a limit, each machine first says what it has used, and takes
//! permits under the new limit a moment later.

use std::collections::VecDeque;

use crate::crawl::cluster::{Ask, Ceiling, Full, Grant};
use crate::crawl::frontier::{Amount, Cells};
use crate::crawl::pipeline::{Allowance, Limits};

/// The fewest permits that are asked for at once.
const LEAST: Amount = Amount {
    documents: 10,
    fetches: 10,
    bytes: 4 << 20,
};
/// For how long permits are taken ahead, in milliseconds.
const AHEAD: u64 = 60_000;
/// The time between two notes of what was used.
const NOTE: u64 = 5_000;
/// What can be fetched later than this needs no permit yet, and one that is not used for so long
/// is given back.
const SOON: u64 = 10_000;
/// How long nothing is taken ahead after the limits were changed. Meanwhile all machines hear of
/// it and say what they have used so far: of what was not limited before, nobody else knows.
const SETTLE: u64 = 3_000;

/// The permits of a machine.
#[derive(Debug, Default)]
pub(super) struct Permits {
    /// The last question.
    ask: Ask,
    /// No more is used, whatever is granted.
    most: Amount,
    ceiling: Ceiling,
    /// What had been used at some moments of the last minute.
    used: VecDeque<(u64, Amount)>,
    /// When there was use for permits last.
    needed: u64,
    had_some: bool,
    /// Nothing is asked for before.
    from: u64,
    /// Whether cells were open, so that something may have been used under other limits.
    has_crawled: bool,
    /// Whether the limits were changed since the last turn.
    is_changed: bool,
}

impl Permits {
    /// What may be asked for, by the limits in force and what was granted.
    pub fn allowance(&mut self, limits: &Limits, cells: &Cells, grant: Grant) -> Allowance {
        let ceiling = Ceiling {
            documents: limits.documents,
            fetches: limits.fetches,
            bytes: limits.bytes,
        };
        self.is_changed |= self.has_crawled && ceiling != self.ceiling;
        self.ceiling = ceiling;
        let left = self.left(cells, grant);
        let spent = self.spent(left, grant);
        let reached = if spent.bytes {
            Some("limits.bytes")
        } else if spent.documents {
            Some("limits.documents")
        } else {
            spent.fetches.then_some("limits.fetches")
        };
        Allowance {
            pages: self.pages(left),
            bytes: limits.bytes.map_or(u64::MAX, |_| left.bytes),
            reached,
            ..Allowance::default()
        }
    }

    /// How many pages this machine may still ask for at the most, as far as it knows; `None`
    /// where they are not limited. What others have taken ahead is not counted: a machine with
    /// many permits of its own is not near the end, and one with few should use them well.
    pub fn pages_left(&self, cells: &Cells, grant: Grant) -> Option<u64> {
        let own = self.pages(self.left(cells, grant));
        grant.free.map(|free| free.saturating_add(own))
    }

    /// The pages for which an amount is enough.
    fn pages(&self, left: Amount) -> u64 {
        let of = |limit: Option<u64>, left| limit.map_or(u64::MAX, |_| left);
        let Ceiling {
            documents, fetches, ..
        } = self.ceiling;
        of(documents, left.documents).min(of(fetches, left.fetches))
    }

    /// Of what nothing is left for any machine, and for this one.
    fn spent(&self, left: Amount, grant: Grant) -> Full {
        if !self.is_heard(grant) {
            return Full::default();
        }
        let Full {
            documents,
            fetches,
            bytes,
        } = grant.full;
        Full {
            documents: documents && left.documents == 0,
            fetches: fetches && left.fetches == 0,
            bytes: bytes && left.bytes == 0,
        }
    }

    fn is_heard(&self, grant: Grant) -> bool {
        grant.number == self.ask.number && self.ask.ceiling == self.ceiling
    }

    /// What is in hand and not used.
    fn left(&self, cells: &Cells, grant: Grant) -> Amount {
        let most = if grant.number == self.ask.number {
            self.ask.wanted
        } else {
            self.most
        };
        grant.hand.with(most, u64::min).minus(cells.used())
    }

    /// Whether there is any limit.
    pub fn are_limited(&self) -> bool {
        !self.ceiling.is_none()
    }

    /// Whether there is a permit in hand, or a question is not heard.
    pub fn are_open(&self, cells: &Cells, grant: Grant) -> bool {
        let left = self.ceiling.limited(self.left(cells, grant));
        !self.is_heard(grant) || !left.is_zero()
    }

    /// The next question, if there is one.
    pub fn turn(&mut self, cells: &Cells, grant: Grant, now: u64) -> Option<Ask> {
        self.has_crawled |= cells.opened().next().is_some();
        if std::mem::take(&mut self.is_changed) {
            self.from = now.saturating_add(SETTLE);
        }
        if grant.number != self.ask.number {
            return None;
        }
        self.most = self.ask.wanted;
        if self.ceiling.is_none() && self.ask.ceiling.is_none() {
            return None;
        }
        let used = cells.used();
        let open = cells.leased_pages() as u64;
        let left = self.ceiling.limited(self.left(cells, grant));
        let block = self.block(used, now);
        self.note_need(left, open, now);
        let least = used.plus(Amount {
            documents: open,
            fetches: open,
            bytes: 0,
        });
        // Who lacks one thing has no use for another.
        let spent = self.spent(left, grant);
        let has_use = now >= self.from && has_pages(cells, now);
        let ahead = |block: u64, lacks: bool| if has_use && !lacks { block } else { 0 };
        let wanted = least.plus(Amount {
            documents: ahead(block.documents, spent.fetches || spent.bytes),
            fetches: ahead(block.fetches, spent.documents || spent.bytes),
            bytes: ahead(block.bytes, spent.documents || spent.fetches),
        });
        let wanted = self.ceiling.limited(wanted);
        let before = self.ask.wanted;
        let is_enough = |before: u64, least: u64, wanted: u64| {
            let ahead = wanted.saturating_sub(least);
            let most = wanted.saturating_add(ahead);
            // A few are given back together, when their requests have ended.
            before >= least.saturating_add(ahead / 2)
                && (before <= most || (ahead == 0 && open > 0))
        };
        let least = self.ceiling.limited(least);
        let stays = self.ask.ceiling == self.ceiling
            && is_enough(before.documents, least.documents, wanted.documents)
            && is_enough(before.fetches, least.fetches, wanted.fetches)
            && is_enough(before.bytes, least.bytes, wanted.bytes);
        if stays {
            return None;
        }
        self.most = before.with(wanted, u64::min);
        self.ask = Ask {
            number: self.ask.number + 1,
            ceiling: self.ceiling,
            used: self.ceiling.limited(used),
            wanted,
        };
        Some(self.ask)
    }

    /// As much as was used in the last minute.
    fn block(&mut self, used: Amount, now: u64) -> Amount {
        let is_due = |(at, _): &(u64, Amount)| now.saturating_sub(*at) >= NOTE;
        if self.used.back().is_none_or(is_due) {
            self.used.push_back((now, used));
        }
        let is_old = |(at, _): &(u64, Amount)| now.saturating_sub(*at) > AHEAD;
        while self.used.front().is_some_and(is_old) {
            self.used.pop_front();
        }
        let before = self.used.front().map_or(used, |(_, before)| *before);
        used.minus(before).with(LEAST, u64::max)
    }

    /// Gives back what there was no use for.
    fn note_need(&mut self, left: Amount, open: u64, now: u64) {
        let has_some = !left.is_zero();
        if open > 0 || has_some != self.had_some {
            self.needed = now;
        }
        self.had_some = has_some;
        if has_some && now.saturating_sub(self.needed) >= SOON && now >= self.from {
            self.from = now.saturating_add(SOON);
            self.needed = now;
        }
    }
}

/// Whether a page can be fetched soon. While the budget of pages is spent that is not known:
/// any page will do.
fn has_pages(cells: &Cells, now: u64) -> bool {
    let is_soon = |due: u64| due <= now.saturating_add(SOON);
    has_any(cells) && (cells.pages_are_closed() || cells.next_of_all().is_some_and(is_soon))
}

/// Whether a page is queued, or waits for its time.
pub(super) fn has_any(cells: &Cells) -> bool {
    let counts = cells.counts();
    counts.queued_pages() + counts.waiting + counts.watched > 0
}
