//! What an operator sees of a cluster, and does to it: all keys at a moment.

use std::collections::{BTreeMap, BTreeSet};

use super::drive::View;
use super::record::{
    Base, CellRecord, JobRecord, Key, Node, SessionId, SessionRecord, State, Value,
};
use super::wanted::{self, WantedState};
use super::{Engine, EngineError, Revision};
use crate::frontier::{CellCount, CellId};

/// What the keys begin with by which sessions say how they are.
const STATUS: &str = "status.";

/// The key by which a session says how it is: an object of JSON, with the `version` of what all
/// are to do that it has applied.
pub fn status_key(session: &SessionId) -> String {
    format!("{STATUS}{session}")
}

/// All keys at a moment.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// The job's; `None` where no machine has begun.
    pub job: Option<JobRecord>,
    /// Those of all sessions that there were, by node and number.
    pub sessions: BTreeMap<SessionId, (SessionRecord, Revision)>,
    /// Those of the cells that some session has had.
    pub cells: BTreeMap<CellId, CellRecord>,
    /// What sessions have said of themselves last.
    pub statuses: BTreeMap<SessionId, serde_json::Value>,
    /// What all machines are to do.
    pub wanted: WantedState,
}

impl Survey {
    /// Reads all keys of a job.
    ///
    /// # Errors
    /// [`EngineError`] where the broker does not answer, or a value cannot be read.
    pub async fn of(engine: &impl Engine) -> Result<Self, EngineError> {
        let view = View::once(engine).await?;
        // Which numbers are cells is known when the job's key is.
        let most = CellCount::new(crate::frontier::MOST_CELLS).unwrap_or(CellCount::ONE);
        let mut survey = Self::default();
        for (key, bytes) in view.others() {
            if let Some(id) = key.strip_prefix(STATUS).and_then(SessionId::parse) {
                // One of another version is shown as none.
                let status = serde_json::from_slice(bytes).unwrap_or_default();
                survey.statuses.insert(id, status);
            } else if key == wanted::KEY {
                survey.wanted = WantedState::of(bytes)?;
            }
        }
        for (key, value, revision) in view.values(most)? {
            match (key, value) {
                (Key::Job, Value::Job(job)) => survey.job = Some(job),
                (Key::Session(id), Value::Session(record)) => {
                    survey.sessions.insert(id, (record, revision));
                }
                (Key::Cell(cell), Value::Cell(record)) => {
                    survey.cells.insert(cell, record);
                }
                _ => {}
            }
        }
        Ok(survey)
    }

    /// The session that has a cell and lives.
    pub fn owner_of(&self, cell: CellId) -> Option<&SessionId> {
        let owner = self.cells.get(&cell)?.owner.as_ref()?;
        let (record, _) = self.sessions.get(owner)?;
        record.state.is_live().then_some(owner)
    }

    /// The sessions that live, or are not known to be dead.
    pub fn live(&self) -> impl Iterator<Item = (&SessionId, &SessionRecord)> {
        let all = self.sessions.iter().map(|(id, (record, _))| (id, record));
        all.filter(|(_, record)| record.state.is_live())
    }

    /// Of the sessions that live: those that have applied this version of what all are to do, and
    /// those that have not said so.
    pub fn applied(&self, version: u64) -> (Vec<&SessionId>, Vec<&SessionId>) {
        let has_applied = |id: &&SessionId| {
            let said = self
                .statuses
                .get(*id)
                .and_then(|status| status.get("version"));
            said.and_then(serde_json::Value::as_u64) >= Some(version)
        };
        self.live().map(|(id, _)| id).partition(has_applied)
    }

    /// The checkpoints that cells' keys name and somebody may need: those of cells that the last
    /// checkpoint of their owner has are needed no longer, and may be gone.
    pub fn bases(&self) -> impl Iterator<Item = &Base> {
        let needed = self.cells.iter().filter(|(cell, record)| {
            let owner = record.owner.as_ref();
            let owner = owner.and_then(|owner| self.sessions.get(owner));
            !owner.is_some_and(|(o, _)| record.is_saved_since(**cell, o.checkpoint, &o.holds))
        });
        needed.flat_map(|(_, record)| &record.bases)
    }

    /// All checkpoints that somebody may need: the last one of each session, and those that
    /// cells' keys name.
    pub fn checkpoints(&self) -> BTreeSet<(SessionId, u64)> {
        let last = self.sessions.iter();
        let last = last.map(|(id, (record, _))| (id.clone(), record.checkpoint));
        let named = self
            .bases()
            .map(|base| (base.session.clone(), base.checkpoint));
        last.chain(named)
            .filter(|(_, number)| *number > 0)
            .collect()
    }

    /// How many cells a session has.
    pub fn cells_of(&self, session: &SessionId) -> usize {
        let owned = self.cells.values();
        owned.filter(|c| c.owner.as_ref() == Some(session)).count()
    }

    /// The sessions with checkpoints, with their last ones, in the order in which they began.
    pub fn saved(&self) -> Vec<(SessionId, u64)> {
        let saved = self.sessions.iter();
        let saved = saved.filter(|(_, (record, _))| record.checkpoint > 0);
        let mut saved: Vec<_> = saved
            .map(|(id, (record, _))| (record.begun, id.clone(), record.checkpoint))
            .collect();
        saved.sort();
        saved.into_iter().map(|(_, id, last)| (id, last)).collect()
    }

    /// Ends all sessions of a node that is known to be off, so that its cells are taken at once.
    /// Returns how many there were. A process that lives nevertheless sends nothing more as
    /// soon as its next renewal is refused, and within a term in any case; whoever takes a
    /// cell is quiet for longer.
    ///
    /// # Errors
    /// [`EngineError`] where the broker does not answer, or the node has just renewed its term.
    pub async fn forget(&self, engine: &impl Engine, node: &Node) -> Result<usize, EngineError> {
        let mut ended = 0;
        for (id, (record, revision)) in &self.sessions {
            if id.node != *node || !record.state.is_live() {
                continue;
            }
            let record = SessionRecord {
                state: State::Fenced,
                ..record.clone()
            };
            let key = Key::Session(id.clone());
            let bytes = Value::Session(record).to_bytes().unwrap_or_default();
            engine
                .swap(&key.to_string(), bytes, Some(*revision))
                .await?;
            ended += 1;
        }
        Ok(ended)
    }
}
