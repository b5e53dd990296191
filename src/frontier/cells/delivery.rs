//! What cells find for each other.

use std::collections::BTreeSet;

use super::{Cells, LogPlace};
use crate::address::{HostKey, PageUrl};
use crate::cell::CellId;
use crate::codec;
use crate::host_files::{RobotsAnswer, on_way, queue_errand};
use crate::images;
use crate::keys;
use crate::outcome::OutputEdit;
use crate::parts::Frontier;
use crate::record::Promise;
use crate::referral::{Referral, Referred};
use crate::store::StoreError;
use crate::transaction::Transaction;

/// Changes files that were written before, and returns the new position of the outputs.
pub type Amend<'f, E> = dyn FnMut(&[OutputEdit]) -> Result<Vec<u8>, E> + 'f;

/// What is outside of the frontier and must agree with it.
pub trait Outside<E> {
    /// As [`Amend`].
    ///
    /// # Errors
    /// Nothing is added then.
    fn amend(&mut self, edits: &[OutputEdit]) -> Result<Vec<u8>, E>;

    /// Returns when everything written so far is durable. Called before the frontier is flushed,
    /// which must not be ahead.
    ///
    /// # Errors
    /// The frontier is not flushed then.
    fn sync(&mut self) -> Result<(), E>;
}

impl Cells {
    /// Adds what cells have found for other open cells. `amend` changes the outputs before the
    /// batch that records it: if the process dies in between, the outputs are truncated and all of
    /// it is done again.
    ///
    /// # Errors
    /// [`StoreError`] as `E`, or the error of `amend`; what is not added waits.
    pub fn deliver<E: From<StoreError>>(
        &mut self,
        now: u64,
        amend: &mut Amend<'_, E>,
    ) -> Result<(), E> {
        while let Some(from) = self.finders.pop_first() {
            let delivered = self.deliver_from(from, now, Some(&mut *amend));
            if delivered.is_err() {
                self.finders.insert(from);
            }
            delivered?;
        }
        Ok(())
    }

    /// The same without outputs: referrals that would change outputs wait.
    pub(super) fn deliver_but_edits(&mut self, now: u64) -> Result<(), StoreError> {
        let mut left = BTreeSet::new();
        while let Some(from) = self.finders.pop_first() {
            if !self.deliver_from::<StoreError>(from, now, None)? {
                left.insert(from);
            }
        }
        self.finders = left;
        Ok(())
    }

    /// Whether everything that a cell has found for open cells was added.
    fn deliver_from<E: From<StoreError>>(
        &mut self,
        from: CellId,
        now: u64,
        mut amend: Option<&mut Amend<'_, E>>,
    ) -> Result<bool, E> {
        let mut due = Vec::new();
        if let Some(own) = self.open.get(&from) {
            let referring = own.frontier.ledger.referring().iter();
            for (to, commits) in referring.filter(|(to, _)| self.open.contains_key(to)) {
                due.extend(commits.iter().map(|commit| (*to, *commit)));
            }
        }
        let mut all = true;
        for (to, commit) in due {
            let (Some(own), true) = (self.open.get(&from), to != from) else {
                continue;
            };
            let referrals = own.frontier.ledger.referrals(to, commit)?;
            let sent = keys::elsewhere(from, &keys::referrals(to, commit));
            let amend = amend.as_deref_mut();
            let was_found = self.finders.contains(&to);
            let added = self.act(to, |other| other.receive(&referrals, sent, now, amend))?;
            if !added && !was_found {
                // Nothing was changed. Two cells that wait for each other would otherwise be
                // examined for ever.
                self.finders.remove(&to);
            }
            all &= added;
            if let Some(own) = self.open.get_mut(&from).filter(|_| added) {
                own.frontier.ledger.referred(to, commit);
            }
        }
        Ok(all)
    }
}

impl Frontier {
    /// Adds what another cell has found, and deletes it there. Returns false and adds nothing if it
    /// would change outputs and there are none.
    fn receive<E: From<StoreError>>(
        &mut self,
        referrals: &[Referral],
        sent: Vec<u8>,
        now: u64,
        amend: Option<&mut Amend<'_, E>>,
    ) -> Result<bool, E> {
        if let [referral] = referrals
            && let Some((owner, answer)) = rules_in(referral)
        {
            self.receive_rules(owner, answer, Some(sent), now)?;
            return Ok(true);
        }
        let mut tx = self.ledger.begin();
        self.add_all(&mut tx, referrals, &sent)?;
        let edits = std::mem::take(&mut tx.edits);
        if !edits.is_empty() {
            let Some(amend) = amend else {
                return Ok(false);
            };
            tx.meta.stamp = amend(&edits)?;
        }
        tx.delete(sent);
        let prepared = tx.prepare();
        self.commit(prepared, now)?;
        Ok(true)
    }

    /// Adds what the cells of other machines have found, and notes the position in the log.
    pub(super) fn read_from_log<E: From<StoreError>>(
        &mut self,
        referrals: &[&Referral],
        place: &LogPlace,
        now: u64,
        amend: &mut Amend<'_, E>,
    ) -> Result<(), E> {
        // Each of these commits its own batch. If the process dies before the last batch, they
        // are repeated, which is harmless.
        for (owner, answer) in referrals.iter().copied().filter_map(rules_in) {
            self.receive_rules(owner, answer, None, now)?;
        }
        for promise in referrals.iter().copied().filter_map(promise_in) {
            self.receive_promise(promise, now)?;
        }
        let mut tx = self.ledger.begin();
        let rest = referrals.iter().copied();
        let rest = rest.filter(|r| rules_in(r).is_none() && promise_in(r).is_none());
        self.add_all(&mut tx, rest, keys::LOG)?;
        let edits = std::mem::take(&mut tx.edits);
        if !edits.is_empty() {
            tx.meta.stamp = amend(&edits)?;
        }
        tx.write(keys::LOG.to_vec(), place)?;
        let prepared = tx.prepare();
        Ok(self.commit(prepared, now)?)
    }

    /// Adds what another cell has found; `key` is its key in the store.
    fn add_all<'r>(
        &self,
        tx: &mut Transaction<'_>,
        referrals: impl IntoIterator<Item = &'r Referral>,
        key: &[u8],
    ) -> Result<(), StoreError> {
        for Referral { what, passed } in referrals {
            tx.passed = *passed;
            match what {
                Referred::Address {
                    kind,
                    new,
                    origin,
                    keywords,
                } => {
                    let intake = self.intake(self.ratings.in_force(*keywords));
                    intake.add(tx, &keys::url(&new.url, *kind), *kind, new, *origin)?;
                }
                Referred::Errand(errand) => {
                    let store = tx.store();
                    let url = PageUrl::from_stored(&errand.url)
                        .map_err(|e| codec::corrupt(store, key, e.to_string()))?;
                    queue_errand(tx, &url, errand)?;
                }
                Referred::Rules { host, .. } => {
                    let why = format!("the rules of {host} are not alone");
                    return Err(codec::corrupt(tx.store(), key, why));
                }
                Referred::Promise(promise) => {
                    let why = format!("the promise to {} is not in a log", promise.host);
                    return Err(codec::corrupt(tx.store(), key, why));
                }
                Referred::Image { keywords, .. } => {
                    let intake = self.intake(self.ratings.in_force(*keywords));
                    images::receive(tx, &intake, what)?;
                }
                Referred::OnWay { url, kind, terms } => {
                    on_way::receive(tx, url, *kind, terms)?;
                }
                Referred::Withheld { .. } | Referred::Bare { .. } => {
                    let intake = self.intake(self.ratings.of_images());
                    images::receive(tx, &intake, what)?;
                }
            }
        }
        Ok(())
    }
}

fn promise_in(referral: &Referral) -> Option<&Promise> {
    match &referral.what {
        Referred::Promise(promise) => Some(promise),
        _ => None,
    }
}

/// The answer to an errand: for which host and scheme, and from which address.
type Answered<'r> = ((HostKey, &'static str), (&'r PageUrl, RobotsAnswer));

fn rules_in(referral: &Referral) -> Option<Answered<'_>> {
    let Referred::Rules {
        host,
        scheme,
        url,
        answer,
    } = &referral.what
    else {
        return None;
    };
    let owner = HostKey::from_stored(host);
    Some(((owner, keys::scheme_name(scheme)), (url, answer.into())))
}
