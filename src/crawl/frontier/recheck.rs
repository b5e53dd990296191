//! Looking again at what former robots rules forbade, when a host's new ones
//! differ.
//!
//! A host may have millions of addresses, so the look goes on in batches, one for
//! each call of [`Frontier::lease`], and where it stands is in the store.

use std::ops::ControlFlow;

use super::change::Change;
use super::store::StoreError;
use super::{Frontier, State, UrlRecord, codec, keys};
use crate::page::{Reason, TaskKind};

/// Records read in one batch.
const MAX_LOOKS: usize = if cfg!(test) { 10 } else { 1_000 };

/// A host that is to be looked at.
pub(super) struct Pending {
    /// The key that says so.
    errand: Vec<u8>,
    /// The `U` key to begin at; empty for the first.
    from: Vec<u8>,
}

impl Frontier {
    /// Does the next batch, if a host's addresses are to be looked at.
    pub(super) fn recheck(&mut self, now: u64) -> Result<(), StoreError> {
        if !self.rechecking {
            return Ok(());
        }
        let Some(Pending { errand, from }) = self.first_recheck()? else {
            self.rechecking = false;
            return Ok(());
        };
        let Some((host, scheme)) = keys::host_and_scheme(&errand) else {
            let why = "names no host".to_owned();
            return Err(codec::corrupt(&*self.store, &errand, why));
        };
        let slot = self.activate(&host)?;
        let rules = self.rules_of(slot, scheme)?;
        let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut next = None;
        self.store
            .scan(&keys::urls_of(&host), &from, &mut |key, value| {
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
        let mut change = Change::new(&*self.store, &self.scope, &self.schedule, self.meta.clone());
        for (key, value) in found {
            let record: UrlRecord = codec::decode(&*self.store, &key, &value)?;
            if record.state != by_robots || keys::scheme_of_key(&key) != scheme {
                continue;
            }
            let Some((url, kind)) = keys::url_of_key(&key) else {
                let why = "names no address".to_owned();
                return Err(codec::corrupt(&*self.store, &key, why));
            };
            if !rules.allows(&url) {
                continue;
            }
            match kind {
                // Its words were forgotten when it was dropped. The next page that
                // embeds it brings it anew, with its words.
                TaskKind::Image => change.forget(key, Reason::Robots),
                _ => change.rouse(&key, kind, &host, record)?,
            }
        }
        match next {
            Some(next) => change.batch.put(errand, next),
            None => change.batch.delete(errand),
        }
        let Change { batch, meta, .. } = change;
        self.commit(batch, meta)?;
        self.rechecking = self.first_recheck()?.is_some();
        self.refresh(slot, now)
    }

    /// The first host to be looked at.
    pub(super) fn first_recheck(&self) -> Result<Option<Pending>, StoreError> {
        let mut found = None;
        self.store.scan(keys::RECHECKS, &[], &mut |key, value| {
            found = Some(Pending {
                errand: key.to_vec(),
                from: value.to_vec(),
            });
            ControlFlow::Break(())
        })?;
        Ok(found)
    }
}
