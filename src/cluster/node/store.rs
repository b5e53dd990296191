//! Checks that a machine has the store of the others, before it begins.
//!
//! A machine with another store would take over hosts without what was crawled of them, and the
//! others would not find its checkpoints. A machine that begins a job again whose keys are gone
//! would count its sessions from 1 and overwrite those in the store.

use super::error::NodeError;
use crate::Survey;
use crate::crawl::saved::SavedSession;

/// How often keys and store are compared: machines that crawl remove checkpoints at the same time.
const ATTEMPTS: usize = 3;
/// The most sessions that a message names.
const NAMED: usize = 5;

/// Checks that a store has at least one of the checkpoints that the keys name, or is empty if there
/// are no keys. `survey` reads all keys.
///
/// # Errors
/// [`NodeError::JobFile`] if it does not; another error if the keys or the store cannot be read.
pub(super) fn check(
    store: &str,
    mut survey: impl FnMut() -> Result<Survey, NodeError>,
) -> Result<(), NodeError> {
    let mut known = survey()?;
    if known.sessions.is_empty() {
        let free = must_be_unused(store);
        // A machine may have just begun.
        known = survey()?;
        if known.sessions.is_empty() {
            free?;
        }
    }
    let mut wanted = known.checkpoints();
    for _ in 0..ATTEMPTS {
        for (session, number) in &wanted {
            if SavedSession::open(store, &session.to_string())?.has(*number)? {
                return Ok(());
            }
        }
        let again = survey()?.checkpoints();
        // Checkpoints that were replaced since may have been removed before the check found them.
        if again == wanted {
            break;
        }
        wanted = again;
    }
    match wanted.pop_first() {
        Some((session, number)) => Err(NodeError::JobFile(format!(
            "cluster.store is {store}, which has nothing of what the machines of the cluster have \
             saved, as checkpoint {number} of {session}; set it to the store of the other \
             machines, or move what that has to this one first"
        ))),
        None => Ok(()),
    }
}

/// Checks that a store has nothing of an earlier job, if the brokers know of no session.
///
/// # Errors
/// [`NodeError::JobFile`] if it has; another error if the store cannot be read.
pub(super) fn must_be_unused(store: &str) -> Result<(), NodeError> {
    let left = SavedSession::all(store)?;
    if left.is_empty() {
        return Ok(());
    }
    let names = left.keys().take(NAMED).cloned().collect::<Vec<_>>();
    let names = names.join(", ");
    Err(NodeError::JobFile(format!(
        "cluster.store is {store}, which has what a cluster has saved that the brokers know \
         nothing of ({names}), as after `spoor cluster end`; this job would replace it. Set \
         cluster.store to another place, or remove the folder `sessions` there when it is no longer needed"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Node, Revision, SessionId, SessionRecord, State};

    fn survey(sessions: &[(&str, u64)]) -> Survey {
        let mut survey = Survey::default();
        for (node, checkpoint) in sessions {
            let node = Node::new(node).unwrap();
            let record = SessionRecord {
                checkpoint: *checkpoint,
                ..SessionRecord::new(State::Ended, 1)
            };
            let id = SessionId { node, number: 1 };
            survey.sessions.insert(id, (record, Revision(1)));
        }
        survey
    }

    fn checked(folder: &std::path::Path, sessions: &[(&str, u64)]) -> Result<(), NodeError> {
        let store = format!("file://{}", folder.display());
        check(&store, || Ok(survey(sessions)))
    }

    fn has(folder: &std::path::Path, session: &str, number: u64) {
        let manifests = folder.join("sessions").join(session).join("manifests");
        std::fs::create_dir_all(&manifests).unwrap();
        std::fs::write(manifests.join(format!("{number:010}")), b"x").unwrap();
    }

    #[test]
    fn a_store_with_one_of_the_checkpoints_is_that_of_the_others() {
        let folder = tempfile::tempdir().unwrap();
        has(folder.path(), "b.1", 7);
        // The last checkpoint of a machine that is lost may be gone.
        checked(folder.path(), &[("a", 3), ("b", 7)]).unwrap();
        let other = checked(folder.path(), &[("a", 3), ("b", 8)]).unwrap_err();
        let text = other.to_string();
        assert!(matches!(other, NodeError::JobFile(_)), "{text}");
        assert!(
            text.contains("cluster.store") && text.contains("a.1"),
            "{text}"
        );
    }

    #[test]
    fn nothing_is_needed_where_no_machine_has_saved_anything() {
        let folder = tempfile::tempdir().unwrap();
        checked(folder.path(), &[]).unwrap();
        checked(folder.path(), &[("a", 0)]).unwrap();
    }

    #[test]
    fn what_an_ended_job_has_saved_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        has(folder.path(), "a.1", 1);
        let text = checked(folder.path(), &[]).unwrap_err().to_string();
        assert!(
            text.contains("a.1") && text.contains("cluster.store"),
            "{text}"
        );
        // A machine has just begun.
        checked(folder.path(), &[("a", 0)]).unwrap();
    }
}
