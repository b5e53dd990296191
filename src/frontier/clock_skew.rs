//! Corrects stored times after the system clock was set back between two runs.
//!
//! Stored times are wall-clock times, because they must survive a restart. If the clock
//! was ahead and has been corrected since, every host would wait for the difference. So
//! each flush notes the time in the store. If opening finds that time in the future, all
//! running pauses move back by the difference. The date of a page's
//! next visit is not a pause and stays.
//!
//! A clock that was set forward cannot be distinguished from time that has passed.

use std::ops::ControlFlow;

use super::record::{GroupRecord, HostRecord, State, UrlRecord};
use super::store::{Store, StoreError};
use super::transaction::Transaction;
use super::{codec, keys};

/// Smaller differences are normal clock adjustment, in milliseconds.
const SLIGHT: u64 = 1_000;

/// A key and its value.
type Pair = (Vec<u8>, Vec<u8>);

/// Moves due times later than `now` back by as much as the clock was set back since the `last`
/// flush. Returns false if the clock was not set back.
pub(super) fn follow(
    tx: &mut Transaction<'_>,
    last: Option<u64>,
    now: u64,
) -> Result<bool, StoreError> {
    let store = tx.store();
    let back = last.map_or(0, |last| last.saturating_sub(now));
    if back < SLIGHT {
        return Ok(false);
    }
    tracing::warn!(
        "the system's clock was set back by {} s since the last run; the pauses of hosts \
         go on from the new time",
        back / 1_000
    );
    let moved = |due: u64| {
        if due > now {
            due.saturating_sub(back).max(now)
        } else {
            due
        }
    };
    for (key, value) in all(store, keys::HOSTS)? {
        let old: HostRecord = codec::decode(store, &key, &value)?;
        let new = HostRecord {
            due: moved(old.due),
            parked_until: old.parked_until.map(moved),
            ..old.clone()
        };
        if new != old {
            tx.write(key, &new)?;
        }
    }
    for (key, value) in all(store, keys::GROUPS)? {
        let old: GroupRecord = codec::decode(store, &key, &value)?;
        let due = moved(old.due);
        tx.write(key, &GroupRecord { due, ..old })?;
    }
    for (waiting, key) in all(store, keys::WAITING)? {
        let Some(record) = tx.record(&key)? else {
            continue;
        };
        let State::Waiting { due } = record.state else {
            continue;
        };
        let due = moved(due);
        let rank = waiting.get(keys::waiting_until(0).len()..);
        let again = [&keys::waiting_until(due), rank.unwrap_or_default()].concat();
        let state = State::Waiting { due };
        tx.delete(waiting);
        tx.put(again, key.clone());
        let record = UrlRecord { state, ..record };
        tx.put_record(&key, &record)?;
    }
    Ok(true)
}

/// All pairs below a prefix, in memory: clock corrections are rare.
fn all(store: &dyn Store, prefix: &[u8]) -> Result<Vec<Pair>, StoreError> {
    let mut found = Vec::new();
    store.scan(prefix, &[], &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    })?;
    Ok(found)
}
