//! The limits of all machines together: permits.
//!
//! Nobody asks for a page without a permit in hand. How many each session has taken so far
//! stands in one key, which is changed by compare-and-set only. A session takes them in blocks,
//! and gives back what it has no use for. What is granted in all is the sum over all sessions:
//!
//! - of one that lives, or is not known to be over, what it has taken;
//! - of one that is over, what it had used as of its last committed checkpoint. Its record says
//!   that and is final, so what it took and did not use, or used later, can be taken by others.
//!
//! So what committed checkpoints hold together never exceeds a limit: a session that lives has
//! used no more than it has taken, and one that is over can commit nothing more. And it falls
//! short by nothing, because all that nobody holds can be taken. The bytes of a body are known
//! when it has come, so of these as much as was open may be exceeded, as on one machine.
//!
//! Whoever changes the key replaces what sessions that are over had taken by what they had used.
//! So somebody who has seen an older record of such a session counts no less than is right.
//!
//! An [`Account`] is pure, as a [`Session`](super::Session) is. A change whose answer is lost may
//! be made later or not at all. So what is given back is out of hand when that is asked for, and
//! what is taken is in hand when it is answered.

use std::collections::BTreeMap;

use super::Revision;
use super::record::{PermitsRecord, SessionId, SessionRecord};
use crate::crawl::frontier::Amount;

/// The limits of a job that are counted for all machines together; `None` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ceiling {
    /// Pages fetched with success.
    pub documents: Option<u64>,
    /// Page requests answered.
    pub fetches: Option<u64>,
    /// Bytes of all bodies.
    pub bytes: Option<u64>,
}

impl Ceiling {
    /// Whether nothing is limited.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// How much may be done in all.
    fn amount(&self) -> Amount {
        Amount {
            documents: self.documents.unwrap_or(u64::MAX),
            fetches: self.fetches.unwrap_or(u64::MAX),
            bytes: self.bytes.unwrap_or(u64::MAX),
        }
    }

    /// An amount, without what is not limited.
    pub fn limited(&self, amount: Amount) -> Amount {
        let only = |limit: Option<u64>, value| limit.map_or(0, |_| value);
        Amount {
            documents: only(self.documents, amount.documents),
            fetches: only(self.fetches, amount.fetches),
            bytes: only(self.bytes, amount.bytes),
        }
    }

    /// How many pages are left where so much is granted; `None` where they are not limited.
    fn free(&self, granted: Amount) -> Option<u64> {
        let left = |limit: Option<u64>, value| limit.map(|limit| limit.saturating_sub(value));
        let documents = left(self.documents, granted.documents);
        let fetches = left(self.fetches, granted.fetches);
        documents.into_iter().chain(fetches).min()
    }

    /// Of what nothing is left where so much is granted.
    fn full(&self, granted: Amount) -> Full {
        let is_full = |limit: Option<u64>, value| limit.is_some_and(|limit| value >= limit);
        Full {
            documents: is_full(self.documents, granted.documents),
            fetches: is_full(self.fetches, granted.fetches),
            bytes: is_full(self.bytes, granted.bytes),
        }
    }
}

/// The limits of which everything is granted to some session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Full {
    /// That of documents.
    pub documents: bool,
    /// That of fetches.
    pub fetches: bool,
    /// That of bytes.
    pub bytes: bool,
}

/// What a node tells its session of permits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ask {
    /// Grows with every question.
    pub number: u64,
    /// The limits in force.
    pub ceiling: Ceiling,
    /// What the session has used so far.
    pub used: Amount,
    /// What it wants to have taken in all: what it has used, what its open requests may use, and
    /// what it is about to ask for. It uses no more than this before the next question is
    /// answered.
    pub wanted: Amount,
}

/// What a node knows of its permits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Grant {
    /// The question that was heard last.
    pub number: u64,
    /// What the session may have used in all; nothing counts that is not limited.
    pub hand: Amount,
    /// Of what nothing is left for anybody.
    pub full: Full,
    /// How many pages nobody has a permit for; `None` where they are not limited.
    pub free: Option<u64>,
}

/// What to ask of the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// The value of the key.
    Read,
    /// To replace it.
    Swap(PermitsRecord, Option<Revision>),
}

/// The permits of a session.
#[derive(Debug, Default)]
pub(super) struct Account {
    ask: Ask,
    hand: Amount,
    /// The key as far as it is known; its revision is `None` where it is not there.
    known: Option<(PermitsRecord, Option<Revision>)>,
    /// A change without an answer: what it was to replace, and the least that this session has
    /// if it is made.
    unanswered: Option<(Option<Revision>, Amount)>,
    /// Whether this process has changed the key since it was in doubt what was asked before: then
    /// nothing asked earlier, also by a process that died, can be made any more.
    is_certain: bool,
}

impl Account {
    /// Takes note of what the node wants.
    pub(super) fn ask(&mut self, ask: Ask) {
        self.ask = ask;
    }

    /// What the node may do.
    pub(super) fn grant<'o>(
        &self,
        own: &SessionId,
        others: impl Iterator<Item = (&'o SessionId, &'o SessionRecord)>,
    ) -> Grant {
        let known = self.known.as_ref();
        let granted = known.map(|(record, _)| {
            let sum = settled(record, own, others).into_values();
            sum.fold(Amount::default(), Amount::plus)
        });
        Grant {
            number: self.ask.number,
            hand: self.hand,
            full: granted.map_or_else(Full::default, |granted| self.ask.ceiling.full(granted)),
            free: granted.and_then(|granted| self.ask.ceiling.free(granted)),
        }
    }

    /// What to ask of the broker now; nothing may be asked that is not answered or given up.
    pub(super) fn step<'o>(
        &mut self,
        own: &SessionId,
        others: impl Iterator<Item = (&'o SessionId, &'o SessionRecord)>,
    ) -> Option<Step> {
        let Ask {
            ceiling,
            used,
            wanted,
            ..
        } = self.ask;
        if ceiling.is_none() {
            return None;
        }
        let Some((record, revision)) = &self.known else {
            return Some(Step::Read);
        };
        let mut taken = settled(record, own, others);
        let name = own.to_string();
        let before = taken.remove(&name).unwrap_or_default();
        let elsewhere = taken
            .values()
            .copied()
            .fold(Amount::default(), Amount::plus);
        let free = ceiling.amount().minus(elsewhere);
        // What was used is never given back, whatever the limit is now.
        let after = wanted.with(free, u64::min).with(used, u64::max);
        let after = ceiling.limited(after);
        // What is not limited others set to what was used, and nobody has to set back.
        let is_same = after == ceiling.limited(before);
        if is_same && self.is_certain && self.unanswered.is_none() {
            return None;
        }
        taken.insert(name, after);
        self.hand = self.hand.with(after, u64::min);
        let least = match self.unanswered {
            Some((was, least)) if was == *revision => least.with(after, u64::min),
            _ => after,
        };
        self.unanswered = Some((*revision, least));
        Some(Step::Swap(PermitsRecord { taken }, *revision))
    }

    /// Takes note that a change was made.
    pub(super) fn has_swapped(
        &mut self,
        own: &SessionId,
        record: PermitsRecord,
        revision: Revision,
    ) {
        self.unanswered = None;
        self.is_certain = true;
        self.hand = of(&record, own);
        self.known = Some((record, Some(revision)));
    }

    /// Takes note of the key as it was read.
    pub(super) fn has_read(
        &mut self,
        own: &SessionId,
        record: PermitsRecord,
        revision: Option<Revision>,
    ) {
        let has = of(&record, own);
        match self.unanswered {
            // It may still be made.
            Some((was, least)) if was == revision => self.hand = has.with(least, u64::min),
            _ => {
                self.unanswered = None;
                self.hand = has;
            }
        }
        if !self.is_certain {
            self.hand = Amount::default();
        }
        self.known = Some((record, revision));
    }

    /// Takes note of the key as a look showed it, which may be older than what is known.
    pub(super) fn see(&mut self, own: &SessionId, record: PermitsRecord, revision: Revision) {
        let is_newer = |(_, known): &(_, Option<Revision>)| *known < Some(revision);
        if self.known.as_ref().is_some_and(is_newer) {
            self.has_read(own, record, Some(revision));
        }
    }

    /// What each session has taken of what is limited.
    pub(super) fn limited(&self, record: &PermitsRecord) -> BTreeMap<String, Amount> {
        let all = record.taken.iter();
        all.map(|(name, taken)| (name.clone(), self.ask.ceiling.limited(*taken)))
            .collect()
    }

    /// Takes note that the key is not what it was taken for.
    pub(super) fn doubt(&mut self) {
        self.known = None;
    }

    /// Takes note that the broker may have forgotten something.
    pub(super) fn lapse(&mut self) {
        *self = Self {
            ask: self.ask,
            ..Self::default()
        };
    }
}

/// What a session has by the key.
fn of(record: &PermitsRecord, session: &SessionId) -> Amount {
    let taken = record.taken.get(&session.to_string());
    taken.copied().unwrap_or_default()
}

/// What each session has, where those that are over have what they had used.
fn settled<'o>(
    record: &PermitsRecord,
    own: &SessionId,
    others: impl Iterator<Item = (&'o SessionId, &'o SessionRecord)>,
) -> BTreeMap<String, Amount> {
    let mut taken = record.taken.clone();
    for (id, other) in others.filter(|(id, _)| *id != own) {
        let known = taken.get(&id.to_string()).copied();
        let has = match known.filter(|_| other.state.is_live()) {
            Some(known) => known.with(other.used, u64::max),
            None => other.used,
        };
        if known.is_some() || !has.is_zero() {
            taken.insert(id.to_string(), has);
        }
    }
    taken
}

#[cfg(test)]
mod tests;
