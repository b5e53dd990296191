//! The return of finished URLs to their queues: for another visit, because a rule was
//! lifted, or because of a control-sample draw.

use super::keys;
use super::record::{State, UrlRecord, depends_on_path};
use super::store::StoreError;
use super::transaction::Transaction;
use crate::address::HostKey;
use crate::page::{Reason, TaskKind};

/// Puts a finished record back into its queue, with all attempts available again.
pub(super) fn requeue(
    tx: &mut Transaction<'_>,
    key: &[u8],
    kind: TaskKind,
    host: &HostKey,
    mut record: UrlRecord,
) -> Result<(), StoreError> {
    tx.cancel_visit(&mut record);
    if let State::Dropped { reason } = record.state {
        tx.uncount_dropped(reason);
        // A link above the razor was listed when it was found.
        if depends_on_path(reason) && reason != Reason::Razor {
            tx.list(key, kind, Some(record.bucket));
        }
    }
    let id = own_number(tx, key, &record.state)?;
    if let Some(visit) = &mut record.visit {
        visit.id = id.or(visit.id);
    }
    record.attempts = 0;
    record.state = State::Queued;
    tx.enqueue(key, kind, host, &record)
}

/// The number of an address in this state, if it was ever requested. If another page stands for the
/// address, the number is that page's.
pub(super) fn own_number(
    tx: &Transaction<'_>,
    key: &[u8],
    state: &State,
) -> Result<Option<u64>, StoreError> {
    let id = match state {
        State::Done { id } => return Ok(Some(*id)),
        State::Redirected { id, .. } => *id,
        _ => return Ok(None),
    };
    let named = tx.get(&keys::document(id))?;
    let own = keys::url_of_key(key)
        .is_some_and(|(url, _)| named.as_deref() == Some(url.as_str().as_bytes()));
    Ok(own.then_some(id))
}
