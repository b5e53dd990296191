//! What is left to do, here and elsewhere: a job is done when, for some time, no session has had
//! anything to do or anything on its way to another.
//!
//! A node that says it is idle has sent all that it found for others, and reads the logs of its
//! cells. So it learns of anything that was sent to it at most a moment later, and says so with its
//! next renewal. The time that all sessions must have been idle is longer than that.
//!
//! What a node has done is in a checkpoint before it says that it is idle, so nothing of it is lost
//! if the node dies. A session that takes a cell is not idle until the node has loaded the cell and
//! says so, and its next renewal tells the others. So the time also starts again when the owner of
//! a cell changes: the cells of a session that is over may have work, although the sessions that
//! take them had nothing to do. It starts again when a session ends, because what that session did
//! after its last checkpoint no longer counts towards a limit. And it starts again when another
//! session, or this one, was away for longer than a term, because a session that comes back must
//! first see what is left.

use std::collections::BTreeSet;

use super::super::record::{JobPhase, Key, SessionId, Value};
use super::{Call, Giving, News, Phase, Purpose, Session};
use crate::frontier::CellId;

/// Which sessions could have something to do, as far as is known. Whenever this changes, the rest
/// starts again.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Scene {
    /// The owner of each cell.
    owners: Vec<Option<SessionId>>,
    /// The other sessions that are alive.
    live: BTreeSet<SessionId>,
}

impl Session {
    /// Says whether the node has nothing to do in its cells and nothing on its way to others;
    /// `None` if it has, or has just taken a cell. This does not count while the session has other
    /// cells than these, because the node does not know of them yet.
    pub fn set_idle(&mut self, idle: Option<&BTreeSet<CellId>>, now: u64) {
        let is_idle = idle.is_some_and(|cells| cells.iter().eq(self.hands.keys()));
        if self.is_idle != is_idle {
            self.is_idle = is_idle;
            self.idle_since = is_idle.then_some(now);
        }
    }

    /// Reads the job's key: if the job is done, the session leaves.
    pub(super) fn see_job(&mut self, now: u64) {
        let is_done = self
            .job
            .as_ref()
            .is_some_and(|(job, _)| job.phase == JobPhase::Done);
        if is_done && !self.is_leaving && self.phase == Phase::Live {
            self.news.push(News::Done);
            self.leave(now);
        }
    }

    /// Marks the job as done when no session has anything to do.
    pub(super) fn end_job(&mut self, now: u64) {
        let Some((job, revision)) = self.job.clone() else {
            return;
        };
        let is_over = self
            .all_idle_since(now)
            .is_some_and(|since| now.saturating_sub(since) >= self.setting.terms.rest);
        if !is_over
            || self.is_leaving
            || job.phase == JobPhase::Done
            || self.is_pending(|purpose| *purpose == Purpose::Done)
        {
            return;
        }
        let mut job = job;
        job.phase = JobPhase::Done;
        let call = Call::Swap(Key::Job, Value::Job(job), Some(revision));
        self.call(now, Purpose::Done, call);
    }

    /// Notes which sessions own the cells and which are alive, as a look has shown it.
    pub(super) fn see_scene(&mut self, now: u64) {
        let owner = |cell| {
            if self.hands.contains_key(&cell) {
                return Some(self.id.clone());
            }
            self.table.get(&cell)?.0.owner.clone()
        };
        let owners = self.setting.cells.all().map(owner).collect();
        let live = self.others.iter().filter(|(_, o)| o.record.state.is_live());
        let live = live.map(|(id, _)| id.clone()).collect();
        let scene = Scene { owners, live };
        if scene != self.scene {
            (self.scene, self.scene_since) = (scene, now);
        }
    }

    /// Since when all live sessions have had nothing to do, and have owned the same cells, as far
    /// as is known; `None` if one has something to do, or a cell has no owner.
    fn all_idle_since(&self, now: u64) -> Option<u64> {
        let mut since = self.idle_since?.max(self.scene_since);
        let owned = |id: &SessionId| {
            let owners = self.scene.owners.iter().flatten();
            owners.filter(|owner| *owner == id).count()
        };
        for (id, other) in self.others.iter() {
            if other.record.state.is_live() {
                // It may own others, if the broker forgot keys and shows older ones.
                if usize::from(other.record.hands) != owned(id) {
                    return None;
                }
                // What it said before does not count: it may have taken a cell since then.
                if other.renewed <= self.scene_since {
                    return None;
                }
                // It may have been away and come back, and have taken a share since the last look.
                if now.saturating_sub(other.since) >= self.setting.terms.term {
                    return None;
                }
                since = since.max(other.idle?);
            }
        }
        let has_owner = |cell| {
            let own = self.hands.get(&cell);
            let owner = || self.table.get(&cell)?.0.owner.as_ref();
            let is_live = |id| {
                let other = self.others.get(id);
                other.is_some_and(|other| other.record.state.is_live())
            };
            own.is_some_and(|hand| hand.giving == Giving::No) || owner().is_some_and(is_live)
        };
        self.setting.cells.all().all(has_owner).then_some(since)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::record::{CellRecord, Node, SessionRecord, State};
    use super::super::{Setting, Terms};
    use super::*;
    use crate::Revision;
    use crate::frontier::CellCount;

    fn session() -> Session {
        let setting = Setting {
            node: Node::new("a").unwrap(),
            secret: 1,
            weight: 1.0,
            cells: CellCount::ONE,
            terms: Terms::new(Duration::from_secs(5), Duration::ZERO),
        };
        Session::new(setting, 0)
    }

    fn other() -> SessionId {
        let node = Node::new("b").unwrap();
        SessionId { node, number: 1 }
    }

    #[test]
    fn the_end_of_a_session_without_cells_begins_the_rest_again() {
        let mut session = session();
        let other = other();
        let record = SessionRecord::new(State::Live, 2);
        let others = &mut session.others;
        others.see((10, 9, 5_000), other.clone(), record, Revision(1));
        session.see_scene(10);
        session.see_scene(20);
        assert_eq!(session.scene_since, 10);
        // The work that it was to do is free from now on.
        session.others.fenced(&other, Revision(2));
        session.see_scene(30);
        assert_eq!(session.scene_since, 30);
    }

    /// It may have come back and taken a share since the last look.
    #[test]
    fn no_session_rests_beside_a_machine_that_is_silent() {
        let mut session = session();
        session.set_idle(Some(&BTreeSet::new()), 1);
        let (other, cell) = (other(), CellCount::ONE.cell(0).unwrap());
        let has_it = CellRecord {
            owner: Some(other.clone()),
            ..CellRecord::default()
        };
        session.table.insert(cell, (has_it, Revision(9)));
        for (now, beat) in [(10, 1), (20, 2)] {
            let record = SessionRecord {
                idle: true,
                hands: 1,
                beat,
                ..SessionRecord::new(State::Live, 2)
            };
            let others = &mut session.others;
            others.see((now, now, 5_000), other.clone(), record, Revision(beat));
            session.see_scene(now);
        }
        assert_eq!(session.all_idle_since(5_019), Some(10));
        assert_eq!(session.all_idle_since(5_020), None);
    }

    #[test]
    fn a_session_that_was_away_must_see_what_is_left() {
        let mut session = session();
        let others = &mut session.others;
        let other = other();
        let mut beat = |now, revision| {
            let record = SessionRecord {
                idle: true,
                beat: revision,
                ..SessionRecord::new(State::Live, 2)
            };
            others.see((now, now, 5_000), other.clone(), record, Revision(revision));
            others.get(&other).unwrap().idle
        };
        assert_eq!(beat(1_000, 1), Some(1_000));
        assert_eq!(beat(5_000, 2), Some(1_000));
        assert_eq!(beat(10_001, 3), Some(10_001));
        assert_eq!(beat(11_000, 4), Some(10_001));
        // Now it is this session that was away.
        others.excuse(40_000);
        assert_eq!(others.get(&other).unwrap().idle, Some(40_000));
    }
}
