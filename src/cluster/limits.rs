//! The limits of all machines together.
//!
//! Each session publishes in its key what it has done, and a bound that it does not exceed before
//! it publishes another one (its [`LimitClaim`]). At every look it sees the claims of all others,
//! and takes its share of what is left. The crawl ends when the sum of what was done reaches a
//! limit.
//!
//! # Why a limit is exceeded at most by what is in flight
//!
//! The broker puts all changes of keys in one order, and a look shows them up to some point of it.
//! A session uses no more than the bound that it has published, and no more than the bounds of all
//! others leave in a look that shows its own bound. If two sessions raise their bounds at the same
//! time, the one whose change comes later in the order sees that of the other. A bound is lowered
//! here before it is lowered in the key.
//!
//! For a session that is over, what it had used as of its last committed checkpoint counts: its
//! record says that and is final. What it did later is done again by others.

use serde::{Deserialize, Serialize};

use super::Revision;
use super::record::{SessionId, SessionRecord};
use crate::frontier::Amount;

/// The limits of a job that are counted for all machines together; `None` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ceiling {
    /// Pages fetched successfully.
    pub documents: Option<u64>,
    /// Page requests answered.
    pub fetches: Option<u64>,
    /// Bytes of all bodies.
    pub bytes: Option<u64>,
}

impl Ceiling {
    /// How much may be done in all.
    pub fn amount(&self) -> Amount {
        Amount {
            documents: self.documents.unwrap_or(u64::MAX),
            fetches: self.fetches.unwrap_or(u64::MAX),
            bytes: self.bytes.unwrap_or(u64::MAX),
        }
    }

    /// The limit that an amount reaches, by its configuration key.
    pub fn reached(&self, amount: Amount) -> Option<&'static str> {
        let is_reached = |limit: Option<u64>, value| limit.is_some_and(|limit| value >= limit);
        if is_reached(self.bytes, amount.bytes) {
            Some("limits.bytes")
        } else if is_reached(self.documents, amount.documents) {
            Some("limits.documents")
        } else {
            is_reached(self.fetches, amount.fetches).then_some("limits.fetches")
        }
    }
}

/// What a session publishes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitClaim {
    /// What it has done.
    pub done: Amount,
    /// The most that it may have done before it publishes something else.
    pub most: Amount,
    /// Whether it could use more.
    pub wants: bool,
}

/// What a look has shown of the claims.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LimitClaims {
    /// The bound of this session, as published.
    pub own: Amount,
    /// What the others have done.
    pub done: Amount,
    /// The most that the others may have done.
    pub most: Amount,
    /// How many others could use more.
    pub wanting: u64,
    /// How many of those come before this session.
    pub before: u64,
}

impl LimitClaims {
    /// Adds the claim of another session.
    pub(super) fn add(&mut self, own: &SessionId, (id, record): (&SessionId, &SessionRecord)) {
        let LimitClaim { done, most, wants } = record.claim;
        let is_live = record.state.is_live();
        let done = if is_live { done } else { Amount::default() };
        let done = done.with(record.used, u64::max);
        let most = if is_live { most } else { done };
        self.done = self.done.plus(done);
        self.most = self.most.plus(most.with(done, u64::max));
        if is_live && wants {
            self.wanting += 1;
            self.before += u64::from(id < own);
        }
    }

    /// How much this session may have done in all, if that is its bound.
    pub fn hand(&self, ceiling: &Ceiling, bound: Amount) -> Amount {
        let free = ceiling.amount().minus(self.most);
        bound.with(self.own, u64::min).with(free, u64::min)
    }

    /// The share of what is left for a session that has used this much.
    pub fn share(&self, ceiling: &Ceiling, used: Amount) -> Amount {
        let left = ceiling.amount().minus(self.done).minus(used);
        let all = self.wanting + 1;
        left.with(Amount::default(), |left, _| {
            left / all + u64::from(self.before < left % all)
        })
    }
}

/// The bound of a session that its key has or may soon have: the answer to a change may be lost,
/// and the change may take effect later. Of several changes that replace the same value, only one
/// can take effect.
#[derive(Debug, Default)]
pub(super) struct Published {
    replaces: Option<Revision>,
    least: Amount,
}

impl Published {
    /// Notes that the key is to get this bound in place of a value.
    pub(super) fn replace(&mut self, was: Option<Revision>, most: Amount) {
        self.least = match self.replaces {
            replaces if replaces == was => self.least.with(most, u64::min),
            _ => most,
        };
        self.replaces = was;
    }

    /// The bound in force, if a look has shown this one; `None` if the look is older than what is
    /// known.
    pub(super) fn seen(&self, revision: Revision, most: Amount) -> Option<Amount> {
        (Some(revision) >= self.replaces).then(|| self.least.with(most, u64::min))
    }
}

#[cfg(test)]
mod tests;
