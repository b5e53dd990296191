//! What an operator sees of a cluster and can do to it: all keys at one moment.

use std::collections::{BTreeMap, BTreeSet};

use super::drive::View;
use super::record::{
    Base, CellRecord, JobRecord, Key, Node, SessionId, SessionRecord, State, Value,
};
use super::wanted::{self, WantedState};
use super::{Engine, EngineError, Revision};
use crate::frontier::{CellCount, CellId};

/// The prefix of the keys in which sessions report their status.
const STATUS: &str = "status.";

/// The key in which a session reports its status: a JSON object, with the `version` of the state in
/// [`wanted`] that it has applied.
pub fn status_key(session: &SessionId) -> String {
    format!("{STATUS}{session}")
}

/// All keys at a moment.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// The job's record; `None` if no machine has begun.
    pub job: Option<JobRecord>,
    /// The records of all sessions that ever began, by node and number.
    pub sessions: BTreeMap<SessionId, (SessionRecord, Revision)>,
    /// The records of the cells that any session has owned.
    pub cells: BTreeMap<CellId, CellRecord>,
    /// The last status that each session reported.
    pub statuses: BTreeMap<SessionId, serde_json::Value>,
    /// What all machines should do.
    pub wanted: WantedState,
}

impl Survey {
    /// Reads all keys of a job.
    ///
    /// # Errors
    /// [`EngineError`] if the broker does not answer, or a value cannot be read.
    pub async fn of(engine: &impl Engine) -> Result<Self, EngineError> {
        let view = View::once(engine).await?;
        // Which cell numbers exist is known only when the job's key has been read.
        let most = CellCount::new(crate::frontier::MOST_CELLS).unwrap_or(CellCount::ONE);
        let mut survey = Self::default();
        for (key, bytes) in view.others() {
            if let Some(id) = key.strip_prefix(STATUS).and_then(SessionId::parse) {
                // A status of another version is shown as empty.
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

    /// The live session that owns a cell.
    pub fn owner_of(&self, cell: CellId) -> Option<&SessionId> {
        let owner = self.cells.get(&cell)?.owner.as_ref()?;
        let (record, _) = self.sessions.get(owner)?;
        record.state.is_live().then_some(owner)
    }

    /// The sessions that are alive, or not known to be dead.
    pub fn live(&self) -> impl Iterator<Item = (&SessionId, &SessionRecord)> {
        let all = self.sessions.iter().map(|(id, (record, _))| (id, record));
        all.filter(|(_, record)| record.state.is_live())
    }

    /// The live sessions that have applied this version of the state, and those that have not said
    /// so.
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

    /// The checkpoints named by cells' keys that another session may need. Cells that the last
    /// checkpoint of their owner has no longer need theirs, which may be gone.
    pub fn bases(&self) -> impl Iterator<Item = &Base> {
        let needed = self.cells.iter().filter(|(cell, record)| {
            let owner = record.owner.as_ref();
            let owner = owner.and_then(|owner| self.sessions.get(owner));
            !owner.is_some_and(|(o, _)| record.is_saved_since(**cell, o.checkpoint, &o.holds))
        });
        needed.flat_map(|(_, record)| &record.bases)
    }

    /// All checkpoints that another session may need: the last one of each session, and those named
    /// by cells' keys.
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

    /// How many cells a session owns.
    pub fn cells_of(&self, session: &SessionId) -> usize {
        let owned = self.cells.values();
        owned.filter(|c| c.owner.as_ref() == Some(session)).count()
    }

    /// The sessions that have checkpoints, each with its last one, in the order in which they
    /// began.
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
    /// Returns how many there were. If a process is alive after all, it sends nothing more once its
    /// next renewal is refused, and within a term in any case; the next owner of a cell is quiet
    /// for longer than that.
    ///
    /// # Errors
    /// [`EngineError`] if the broker does not answer, or the node has just renewed its term.
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
