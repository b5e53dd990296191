//! The cells of a session: taking, confirming, giving back.

use std::collections::BTreeSet;

use super::super::Revision;
use super::super::record::{Base, CellRecord, Key, Value};
use super::super::shares::heir;
use super::{Call, Giving, Hand, Inherited, News, Purpose, Session};
use crate::frontier::CellId;

/// The most cells that it takes at once.
const TAKEN_AT_ONCE: usize = 8;

/// The most checkpoints that may hold the state of a cell. An older state is used only if this many
/// sessions in a row took the cell and ended before their first checkpoint.
const MOST_BASES: usize = 16;

impl Session {
    /// Asks for the keys of the cells that it kept.
    pub(super) fn reclaim(&mut self, now: u64) {
        let kept = self.kept.keys().copied().collect();
        self.read_cells(now, kept, Purpose::Reclaim);
    }

    /// Asks for the keys of these cells, except those already asked for.
    fn read_cells(&mut self, now: u64, cells: Vec<CellId>, purpose: fn(CellId) -> Purpose) {
        for cell in cells {
            let purpose = purpose(cell);
            if !self.is_pending(|other| *other == purpose) {
                self.call(now, purpose, Call::Get(Key::Cell(cell)));
            }
        }
    }

    /// A cell that it kept is its own if its key has not changed since it was taken.
    pub(super) fn has_reclaimed(
        &mut self,
        now: u64,
        sent: u64,
        cell: CellId,
        found: Option<(Value, Revision)>,
    ) {
        let Some(known) = self.kept.remove(&cell) else {
            return;
        };
        let is_own = |record: &CellRecord| record.owner.as_ref() == Some(&self.id);
        match found {
            Some((Value::Cell(record), revision)) if revision == known && is_own(&record) => {
                let hand = Hand {
                    revision,
                    confirmed: sent,
                    from: now.max(self.from),
                    giving: Giving::No,
                };
                self.hands.insert(cell, hand);
                self.table.remove(&cell);
                self.set_idle(None, now);
                self.news.push(News::Kept(cell));
            }
            _ => {
                // The table may show an earlier value of the key.
                self.doubtful.insert(cell);
                self.news.push(News::Lost(cell));
            }
        }
    }

    /// Asks for the keys of its cells.
    pub(super) fn confirm(&mut self, now: u64) {
        let own = self.hands.keys().copied().collect();
        self.read_cells(now, own, Purpose::Confirm);
    }

    pub(super) fn has_confirmed(
        &mut self,
        now: u64,
        sent: u64,
        cell: CellId,
        found: Option<(Value, Revision)>,
    ) {
        let Some(hand) = self.hands.get_mut(&cell) else {
            return;
        };
        let record = match found {
            Some((Value::Cell(record), revision)) if revision == hand.revision => {
                if record.owner.as_ref() == Some(&self.id) {
                    hand.confirmed = hand.confirmed.max(sent);
                    return;
                }
                Some(record)
            }
            Some((Value::Cell(record), _)) => Some(record),
            _ => None,
        };
        if let (Giving::Stopped(checkpoint), Some(record)) = (hand.giving, record)
            && record.owner.is_none()
            && record
                .bases
                .first()
                .is_some_and(|base| base.session == self.id && base.checkpoint == checkpoint)
        {
            // The answer was lost.
            self.has_given(now, cell);
            return;
        }
        // No other session can own it while this one lives, so the broker has forgotten something.
        self.is_stirred = true;
        if let Some(hand) = self.hands.remove(&cell) {
            self.releases(now, hand.giving);
        }
        self.table.remove(&cell);
        self.news.push(News::Lost(cell));
        if !self.lapsed {
            self.lapse(now);
        }
    }

    /// Takes cells that no session owns and that should belong to this one.
    pub(super) fn take(&mut self, now: u64) {
        if self.looked.is_none() {
            return;
        }
        let doubtful = self.doubtful.iter().copied().collect();
        self.read_cells(now, doubtful, Purpose::ReadCell);
        let all = self.setting.cells.all();
        let free = all.filter(|cell| self.is_free(*cell, now) && !self.is_in_hand(*cell));
        let free: Vec<_> = free.collect();
        if free.is_empty() {
            return;
        }
        let is_taking = |purpose: &Purpose| matches!(purpose, Purpose::Take { .. });
        let open = self.calls.values();
        let taking = open.filter(|call| is_taking(&call.purpose)).count();
        let own = (&self.setting.node, self.setting.weight);
        let nodes: Vec<_> = self.others.takers(now, 0).chain([own]).collect();
        let should_have = |cell| heir(cell, nodes.iter().copied()) == Some(own.0);
        // No other session can take a cell that belongs to this one by its key, even if it does not
        // hold it.
        let chosen = free
            .into_iter()
            .filter(|cell| self.is_own(*cell) || should_have(*cell))
            .take(TAKEN_AT_ONCE.saturating_sub(taking))
            .map(|cell| (cell, self.inherited(cell)));
        let chosen: Vec<_> = chosen.collect();
        for (cell, state) in chosen {
            let record = self.taken_record(&state);
            let was = self.table.get(&cell).map(|(_, revision)| *revision);
            let call = Call::Swap(Key::Cell(cell), Value::Cell(record), was);
            self.call(now, Purpose::Take { cell, state }, call);
        }
    }

    fn taken_record(&self, state: &Inherited) -> CellRecord {
        CellRecord {
            owner: Some(self.id.clone()),
            after: self.made,
            bases: state.bases.clone(),
        }
    }

    /// Whether it holds a cell, or will soon know or take it.
    fn is_in_hand(&self, cell: CellId) -> bool {
        let takes = |purpose: &Purpose| matches!(purpose, Purpose::Take { cell: other, .. } if *other == cell);
        self.hands.contains_key(&cell)
            || self.kept.contains_key(&cell)
            || self.doubtful.contains(&cell)
            || self.is_pending(takes)
    }

    /// Whether a cell belongs to it according to the key.
    fn is_own(&self, cell: CellId) -> bool {
        let entry = self.table.get(&cell);
        entry.is_some_and(|(record, _)| record.owner.as_ref() == Some(&self.id))
    }

    /// Whether no other session owns a cell.
    fn is_free(&self, cell: CellId, now: u64) -> bool {
        let owner = self.table.get(&cell).map(|(record, _)| &record.owner);
        let Some(Some(owner)) = owner else {
            return true;
        };
        let patience = self.setting.terms.patience;
        *owner == self.id || self.others.is_over(owner, now, patience)
    }

    /// Where the state of a cell comes from that no other session owns.
    fn inherited(&self, cell: CellId) -> Inherited {
        let Some((record, _)) = self.table.get(&cell) else {
            return Inherited {
                clean: true,
                bases: Vec::new(),
            };
        };
        let mut bases = record.bases.clone();
        let Some(owner) = &record.owner else {
            return Inherited { clean: true, bases };
        };
        // If the key names this session but it does not hold the cell, either the answer to its
        // take was lost, or the broker has forgotten that it gave the cell back.
        let last = if *owner == self.id {
            self.committed
        } else {
            let other = self.others.get(owner);
            other.map_or(0, |other| other.record.checkpoint)
        };
        if last > record.after {
            let last = Base {
                session: owner.clone(),
                checkpoint: last,
            };
            bases.insert(0, last);
            bases.truncate(MOST_BASES);
        }
        Inherited {
            clean: false,
            bases,
        }
    }

    pub(super) fn has_taken(
        &mut self,
        now: u64,
        sent: u64,
        cell: CellId,
        state: Inherited,
        revision: Revision,
    ) {
        let hand = Hand {
            revision,
            confirmed: sent,
            from: now + self.setting.terms.quiet,
            giving: Giving::No,
        };
        self.hands.insert(cell, hand);
        self.table.remove(&cell);
        self.set_idle(None, now);
        self.news.push(News::Taken {
            cell,
            state,
            revision,
        });
    }

    /// Gives back what another node should own, one cell at a time; all of them when it leaves.
    pub(super) fn give_back(&mut self, now: u64) {
        let own = (!self.is_leaving).then_some((&self.setting.node, self.setting.weight));
        let settled = self.others.takers(now, self.setting.terms.settle);
        let nodes: Vec<_> = settled.chain(own).collect();
        let mut is_giving = self.hands.values().any(|hand| hand.giving != Giving::No);
        let mut asked = Vec::new();
        for (cell, hand) in &self.hands {
            let stays = hand.giving != Giving::No || (is_giving && !self.is_leaving);
            let heir = || heir(*cell, nodes.iter().copied());
            if stays || (!self.is_leaving && heir() == Some(&self.setting.node)) {
                continue;
            }
            is_giving = true;
            asked.push(*cell);
        }
        for cell in asked {
            if let Some(hand) = self.hands.get_mut(&cell) {
                hand.giving = Giving::Asked;
                self.news.push(News::Give(cell));
            }
        }
        let mut given = Vec::new();
        for (cell, hand) in &self.hands {
            let Giving::Stopped(checkpoint) = hand.giving else {
                continue;
            };
            // The checkpoint must be committed first: what is not committed counts as not done.
            if self.committed >= checkpoint {
                given.push((*cell, hand.revision, checkpoint));
            }
        }
        for (cell, revision, checkpoint) in given {
            let purpose = Purpose::Give(cell);
            if self.is_pending(|other| *other == purpose) {
                continue;
            }
            let session = self.id.clone();
            let record = CellRecord {
                owner: None,
                after: 0,
                bases: vec![Base {
                    session,
                    checkpoint,
                }],
            };
            let call = Call::Swap(Key::Cell(cell), Value::Cell(record), Some(revision));
            self.call(now, purpose, call);
        }
    }

    /// Whether the next owner of a cell finds its state in the last checkpoint of the current
    /// owner, and needs none of those that its key names.
    fn is_saved_since(&self, cell: CellId, record: &CellRecord) -> bool {
        match &record.owner {
            None => false,
            Some(owner) if *owner == self.id => {
                // `holds` belongs to the last checkpoint that was made.
                self.committed == self.made && record.is_saved_since(cell, self.made, &self.holds)
            }
            Some(owner) => {
                let owner = self.others.get(owner).map(|other| &other.record);
                owner.is_some_and(|o| record.is_saved_since(cell, o.checkpoint, &o.holds))
            }
        }
    }

    /// The numbers of its checkpoints, besides the last, that another session may need: keys of
    /// cells name them and the owners of those cells have no checkpoint of them yet, or keys are
    /// about to name them. `None` while not all keys are known.
    pub fn named(&self) -> Option<BTreeSet<u64>> {
        let mut named = BTreeSet::new();
        for cell in self.setting.cells.all() {
            let (record, _) = self.table.get(&cell)?;
            if self.is_saved_since(cell, record) {
                continue;
            }
            let own = record.bases.iter().filter(|base| base.session == self.id);
            named.extend(own.map(|base| base.checkpoint));
        }
        let stopped = self.hands.values().filter_map(|hand| match hand.giving {
            Giving::Stopped(checkpoint) => Some(checkpoint),
            Giving::No | Giving::Asked => None,
        });
        named.extend(stopped);
        named.extend(self.released.iter().map(|(checkpoint, _)| *checkpoint));
        Some(named)
    }

    /// Remembers the checkpoint of a cell that was given back: a look that was already on its way
    /// shows the earlier value of the key.
    fn releases(&mut self, now: u64, giving: Giving) {
        if let Giving::Stopped(checkpoint) = giving {
            self.released.push((checkpoint, now));
        }
    }

    pub(super) fn has_given(&mut self, now: u64, cell: CellId) {
        if let Some(hand) = self.hands.remove(&cell) {
            self.releases(now, hand.giving);
            self.is_stirred = true;
            self.table.remove(&cell);
            self.news.push(News::Given(cell));
        }
    }
}
