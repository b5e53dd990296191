//! A broker and its network in true time: calls and answers come late, twice, in any order, or
//! never. The broker can go away, and come back with an older state.

use std::collections::VecDeque;

use super::super::super::record::{JobPhase, JobRecord, Key, LAYOUT, SessionId, Value};
use super::super::super::{EngineError, Revision};
use super::super::{Answer, Call};
use super::world::CELLS;

type Entry = Option<(Value, Revision)>;

/// The broker.
#[derive(Default)]
pub(super) struct Broker {
    cells: [Entry; CELLS as usize],
    sessions: Vec<(SessionId, Entry)>,
    job: Entry,
    last: u64,
    /// What each key was before each change of the last minutes, with the moment of the change.
    past: VecDeque<(u64, Key, Entry)>,
    pub(super) is_down: bool,
    /// How often it was set back.
    pub(super) set_back: usize,
    /// The last change, and the value before it.
    pub(super) changed: Option<(Key, Entry)>,
}

impl Broker {
    /// A broker with the key of a running job.
    pub(super) fn of_a_job() -> Self {
        let job = JobRecord {
            cells: CELLS,
            phase: JobPhase::Run,
            layout: LAYOUT,
        };
        Self {
            job: Some((Value::Job(job), Revision(0))),
            ..Self::default()
        }
    }

    /// Whether the job was marked as done.
    pub(super) fn is_done(&self) -> bool {
        matches!(&self.job, Some((Value::Job(job), _)) if job.phase == JobPhase::Done)
    }

    /// Answers a call.
    pub(super) fn answer(&mut self, now: u64, call: Call) -> Result<Answer, EngineError> {
        self.changed = None;
        match call {
            Call::Get(key) => Ok(Answer::Got(self.get(&key).cloned())),
            Call::Look => Ok(Answer::Seen(self.all())),
            Call::Swap(key, value, was) => {
                let is = self.get(&key).map(|(_, revision)| *revision);
                if is != was {
                    return Err(EngineError::Stale);
                }
                self.last += 1;
                let revision = Revision(self.last);
                let before = self.put(&key, Some((value, revision)));
                while self.past.front().is_some_and(|(at, ..)| at + 70_000 < now) {
                    self.past.pop_front();
                }
                self.past.push_back((now, key.clone(), before.clone()));
                self.changed = Some((key, before));
                Ok(Answer::Swapped(revision))
            }
        }
    }

    /// Forgets all that was changed after a moment.
    pub(super) fn forget(&mut self, after: u64) {
        self.set_back += 1;
        while self.past.back().is_some_and(|(at, ..)| *at >= after) {
            if let Some((_, key, before)) = self.past.pop_back() {
                self.put(&key, before);
                self.last -= 1;
            }
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<&(Value, Revision)> {
        match key {
            Key::Cell(cell) => self.cells[usize::from(cell.number())].as_ref(),
            Key::Session(id) => {
                let mut sessions = self.sessions.iter();
                sessions.find(|(other, _)| other == id)?.1.as_ref()
            }
            Key::Job => self.job.as_ref(),
        }
    }

    /// Sets a key, and returns what it was.
    fn put(&mut self, key: &Key, entry: Entry) -> Entry {
        let place = match key {
            Key::Cell(cell) => &mut self.cells[usize::from(cell.number())],
            Key::Session(id) => {
                let found = self.sessions.iter().position(|(other, _)| other == id);
                let place = found.unwrap_or_else(|| {
                    self.sessions.push((id.clone(), None));
                    self.sessions.len() - 1
                });
                &mut self.sessions[place].1
            }
            Key::Job => &mut self.job,
        };
        std::mem::replace(place, entry)
    }

    fn all(&self) -> Vec<(Key, Value, Revision)> {
        let count = crate::frontier::CellCount::new(CELLS);
        let mut all = Vec::with_capacity(self.cells.len() + self.sessions.len());
        for (cell, entry) in count.iter().flat_map(|count| count.all()).zip(&self.cells) {
            if let Some((value, revision)) = entry {
                all.push((Key::Cell(cell), value.clone(), *revision));
            }
        }
        for (id, entry) in &self.sessions {
            if let Some((value, revision)) = entry {
                all.push((Key::Session(id.clone()), value.clone(), *revision));
            }
        }
        if let Some((value, revision)) = &self.job {
            all.push((Key::Job, value.clone(), *revision));
        }
        all
    }
}

/// Random numbers from a seed (SplitMix64).
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

    /// True with this probability, in percent.
    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}
