//! What survives a process: which session it was, and the cells whose states are in the node's own
//! store.
//!
//! The node writes each entry before it relies on it: a secret before it begins or resumes, the
//! number of a checkpoint when the checkpoint is written and before it is committed, a cell when
//! its state is in the store. It removes a cell before it deletes the state. So everything that is
//! named here exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::super::Revision;
use super::super::record::{Node, SessionId};
use crate::frontier::{Amount, CellCount, CellId};
use crate::fs::{IoError, atomic, beneath, if_there};

/// The file in the job's folder.
const NAME: &str = "session.json";

/// What a node keeps of its session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Which session it is.
    pub session: SessionId,
    /// The secrets that its key may hold: that of this process, and those of earlier processes that
    /// may not have been replaced yet.
    pub secrets: BTreeSet<u64>,
    /// The number by which other machines distinguish this session's messages with links: the
    /// secret of its first process. `None` if an earlier version of spoor wrote the file.
    #[serde(default)]
    pub sender: Option<u64>,
    /// The number of the last checkpoint that was written; 0 for none.
    pub made: u64,
    /// What the session had used as of that checkpoint, of what the job may limit.
    #[serde(default)]
    pub used: Amount,
    /// The cells whose states are in the node's store, each with the revision of the key that says
    /// so.
    pub cells: BTreeMap<CellId, Revision>,
}

impl Kept {
    /// What the node of this name kept in a job's folder; `None` if there is nothing, or it is
    /// another node's.
    ///
    /// # Errors
    /// [`IoError`], also if the file is damaged. The node can then remove the file and its store
    /// and begin a new session, which repeats what was done since the last checkpoint.
    pub fn read(folder: &Path, node: &Node, cells: CellCount) -> Result<Option<Self>, IoError> {
        let path = folder.join(NAME);
        let damaged = |why: String| {
            IoError::at(&path, "reading")(std::io::Error::other(format!(
                "{why}; remove it together with the folder `frontier` beside it: the work since \
                 the last checkpoint is then done again"
            )))
        };
        let read = if_there(beneath::read(folder, NAME));
        let Some(bytes) = read.map_err(IoError::at(&path, "reading"))? else {
            return Ok(None);
        };
        let kept: Self =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if kept.session.node != *node {
            return Ok(None);
        }
        let mut strange = kept.cells.keys().map(|cell| cell.number());
        match strange.find(|number| cells.cell(*number).is_none()) {
            Some(number) => Err(damaged(format!(
                "it names cell {number}, and the cluster has {}",
                cells.number()
            ))),
            None => Ok(Some(kept)),
        }
    }

    /// Writes it; it is on disk when this returns.
    ///
    /// # Errors
    /// [`IoError`] if it cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), IoError> {
        let bytes = serde_json::to_vec(self).map_err(std::io::Error::other);
        let stored = bytes.and_then(|bytes| atomic::write_bytes(folder, NAME, &bytes));
        stored.map_err(IoError::at(&folder.join(NAME), "writing"))
    }

    /// Removes it from a job's folder, because the session is over.
    ///
    /// # Errors
    /// [`IoError`] if it cannot be removed.
    pub fn forget(folder: &Path) -> Result<(), IoError> {
        let removed = if_there(beneath::remove_file(folder, NAME));
        let removed = removed.map_err(IoError::at(&folder.join(NAME), "removing"));
        removed.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(cells: CellCount) -> Kept {
        let node = Node::new("n1").unwrap();
        Kept {
            session: SessionId { node, number: 4 },
            secrets: BTreeSet::from([1, u64::MAX]),
            sender: Some(u64::MAX),
            made: 17,
            used: Amount {
                documents: 3,
                fetches: 4,
                bytes: 5,
            },
            cells: [(0, 5), (7, u64::MAX)]
                .map(|(cell, revision)| (cells.cell(cell).unwrap(), Revision(revision)))
                .into(),
        }
    }

    #[test]
    fn it_is_read_as_it_was_written_by_the_node_of_its_name_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (node, other) = (Node::new("n1").unwrap(), Node::new("n2").unwrap());
        let cells = CellCount::new(8).unwrap();
        assert_eq!(Kept::read(folder.path(), &node, cells).unwrap(), None);
        kept(cells).write(folder.path()).unwrap();
        let read = Kept::read(folder.path(), &node, cells).unwrap();
        assert_eq!(read, Some(kept(cells)));
        assert_eq!(Kept::read(folder.path(), &other, cells).unwrap(), None);
    }

    #[test]
    fn a_file_of_an_earlier_version_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let cells = CellCount::new(8).unwrap();
        kept(cells).write(folder.path()).unwrap();
        let path = folder.path().join(NAME);
        let text = std::fs::read_to_string(&path).unwrap();
        let sender = format!("\"sender\":{},", u64::MAX);
        assert!(text.contains(&sender), "{text}");
        std::fs::write(&path, text.replace(&sender, "")).unwrap();
        let read = Kept::read(folder.path(), &Node::new("n1").unwrap(), cells).unwrap();
        let before = Kept {
            sender: None,
            ..kept(cells)
        };
        assert_eq!(read, Some(before));
    }

    #[test]
    fn a_damaged_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let node = Node::new("n1").unwrap();
        let cells = CellCount::new(8).unwrap();
        kept(cells).write(folder.path()).unwrap();
        let whole = std::fs::read(folder.path().join(NAME)).unwrap();
        let fewer = CellCount::new(7).unwrap();
        let few = Kept::read(folder.path(), &node, fewer).unwrap_err();
        assert!(few.to_string().contains("cell 7"), "{few}");
        for end in 0..whole.len() {
            std::fs::write(folder.path().join(NAME), &whole[..end]).unwrap();
            let error = Kept::read(folder.path(), &node, cells).unwrap_err();
            assert!(error.to_string().contains("session.json"), "{error}");
        }
    }
}
