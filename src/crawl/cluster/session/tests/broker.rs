//! A broker and its network in true time: what is asked comes late, twice, in any order, or
//! never; so does what is answered. It can go away, and come back older than it was.

use std::collections::VecDeque;

use super::super::super::record::{Key, Value};
use super::super::super::versioned::Versioned;
use super::super::super::{EngineError, Revision};
use super::super::{Answer, Call};

type Keys = Versioned<Key, Value>;

/// The broker.
#[derive(Default)]
pub(super) struct Broker {
    keys: Keys,
    /// What the keys were before each change of the last minutes, with the moment.
    past: VecDeque<(u64, Keys)>,
    pub(super) is_down: bool,
    /// How often it was set back.
    pub(super) set_back: usize,
    /// The last change.
    pub(super) changed: Option<(Key, Value)>,
}

impl Broker {
    /// Does what is asked.
    pub(super) fn answer(&mut self, now: u64, call: Call) -> Result<Answer, EngineError> {
        self.changed = None;
        match call {
            Call::Get(key) => Ok(Answer::Got(self.keys.get(&key).cloned())),
            Call::Look => {
                let all = self.keys.iter();
                let all =
                    all.map(|(key, (value, revision))| (key.clone(), value.clone(), *revision));
                Ok(Answer::Seen(all.collect()))
            }
            Call::Swap(key, value, was) => {
                let is = self.keys.get(&key).map(|(_, revision)| *revision);
                if is != was {
                    return Err(EngineError::Stale);
                }
                self.past.push_back((now, self.keys.clone()));
                while self.past.front().is_some_and(|(at, _)| at + 70_000 < now) {
                    self.past.pop_front();
                }
                let swapped = self.keys.swap(key.clone(), value.clone(), was);
                self.changed = Some((key, value));
                swapped.map(Answer::Swapped).ok_or(EngineError::Stale)
            }
        }
    }

    /// Forgets all that was changed after a moment.
    pub(super) fn forget(&mut self, after: u64) {
        self.set_back += 1;
        while let Some((at, before)) = self.past.pop_back() {
            if at < after {
                self.past.push_back((at, before));
                return;
            }
            self.keys = before;
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<&(Value, Revision)> {
        self.keys.get(key)
    }
}

/// Numbers by chance, from a seed (SplitMix64).
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `from` to `to`.
    pub(super) fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from + 1)
    }

    /// True so many times in a hundred.
    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}
