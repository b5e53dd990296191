//! When a host's rules change, checks the addresses again that its former rules forbade.
//!
//! A host may have millions of addresses, so the check runs in batches, one for each call of
//! [`Frontier::lease`](crate::Frontier::lease), and its position is in the store.

use std::ops::ControlFlow;

use crate::address::HostKey;
use crate::codec;
use crate::keys;
use crate::page::{Reason, TaskKind};
use crate::record::{State, UrlRecord};
use crate::requeue::requeue;
use crate::store::{Store, StoreError};
use crate::transaction::Transaction;
use crate::web::robots::Robots;

/// Records read in one batch.
const MAX_LOOKS: usize = if cfg!(test) { 10 } else { 1_000 };

/// A host that is to be checked.
pub struct Recheck {
    pub host: HostKey,
    pub scheme: &'static str,
    /// The key of the pending check.
    errand: Vec<u8>,
    /// The `U` key to continue at; empty for the first.
    from: Vec<u8>,
}

impl Recheck {
    /// The first host that is to be checked.
    pub fn first(store: &dyn Store) -> Result<Option<Self>, StoreError> {
        let mut found = None;
        store.scan(keys::RECHECKS, &[], &mut |key, value| {
            found = Some((key.to_vec(), value.to_vec()));
            ControlFlow::Break(())
        })?;
        let Some((errand, from)) = found else {
            return Ok(None);
        };
        let Some((host, scheme)) = keys::host_and_scheme(&errand) else {
            let why = "names no host".to_owned();
            return Err(codec::corrupt(store, &errand, why));
        };
        Ok(Some(Self {
            host,
            scheme,
            errand,
            from,
        }))
    }

    /// Queues the allowed addresses among the next ones.
    pub fn look(self, tx: &mut Transaction<'_>, rules: &Robots) -> Result<(), StoreError> {
        let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut next = None;
        let store = tx.store();
        store.scan(&keys::urls_of(&self.host), &self.from, &mut |key, value| {
            if found.len() == MAX_LOOKS {
                next = Some(key.to_vec());
                return ControlFlow::Break(());
            }
            found.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })?;
        let by_robots = State::Dropped {
            reason: Reason::Robots,
        };
        for (key, value) in found {
            let record: UrlRecord = codec::decode(store, &key, &value)?;
            if record.state != by_robots || keys::scheme_of_key(&key) != self.scheme {
                continue;
            }
            let (url, kind) = codec::address_of(store, &key)?;
            if !rules.allows(&url) {
                continue;
            }
            match kind {
                // Its words were deleted when it was dropped. The next page that embeds
                // it adds it again, with its words.
                TaskKind::Image => tx.forget(key, Reason::Robots),
                _ => requeue(tx, &key, kind, &self.host, record)?,
            }
        }
        match next {
            Some(next) => tx.put(self.errand, next),
            None => tx.delete(self.errand),
        }
        Ok(())
    }
}
