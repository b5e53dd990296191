//! Claiming: the task for an answer that is already available, regardless of queue order. The same
//! rules decide as for a lease, except the order, the clocks and the razor.

use super::added::{NewTask, Origin};
use super::intake::verdict;
use super::keys;
use super::leasing::Candidate;
use super::parts::Frontier;
use super::ratings::InForce;
use super::record::{State, UrlRecord};
use super::requeue::requeue;
use super::schedule::Head;
use super::store::StoreError;
use super::transaction::{class_of, rank_of};
use crate::address::PageUrl;
use crate::page::{Bucket, HostTerms, Reason, Task, TaskKind};

/// An answer that is already available.
#[derive(Debug, Clone)]
pub struct Offer<'o> {
    /// Its address.
    pub url: &'o PageUrl,
    /// A page or an image.
    pub kind: TaskKind,
    /// Links from the nearest seed, used if the address is unknown.
    pub hops: u32,
    /// The priority class, used in the same case.
    pub bucket: Bucket,
}

/// The result of an offer.
#[derive(Debug)]
pub enum Claim {
    /// The task, leased.
    Task {
        /// The task.
        task: Box<Task>,
        /// Whether a crawl of this job would have asked for it by now.
        led_to: LedTo,
    },
    /// A file of the host that must be finished first, leased.
    First(Box<Task>),
    /// The address was finished before.
    Known,
    /// An image that no page is known to embed.
    NotEmbedded,
    /// The job does not take it.
    Unwanted(Reason),
}

/// How a page was known before it was claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedTo {
    /// It was queued.
    Queued,
    /// A link led there, but was not to be followed.
    NotFollowed(Reason),
    /// No link led there.
    Never,
}

impl Frontier {
    /// Claims the task for an available answer. Accepts images that a page embeds, and every page
    /// that the scope and the host's rules permit.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails; nothing is leased then.
    pub fn claim(&mut self, offer: &Offer<'_>, now: u64) -> Result<Claim, StoreError> {
        self.process.latest = self.process.latest.max(now);
        let kind = offer.kind;
        let (url, key, known) = self.known_as(offer.url, kind)?;
        let led_to = match known.as_ref().map(|record| &record.state) {
            Some(State::Done { .. } | State::Redirected { .. }) => return Ok(Claim::Known),
            None if kind != TaskKind::Page => return Ok(Claim::NotEmbedded),
            Some(State::Dropped { reason }) if kind != TaskKind::Page => {
                return Ok(Claim::Unwanted(*reason));
            }
            None => LedTo::Never,
            Some(State::Dropped { reason }) => LedTo::NotFollowed(*reason),
            Some(State::Queued | State::Waiting { .. }) => LedTo::Queued,
        };
        let hops = known
            .as_ref()
            .map_or(offer.hops, |r| r.hops.min(offer.hops));
        if let Err(reason) = verdict(&self.scope, &url, kind, hops) {
            return Ok(Claim::Unwanted(reason));
        }
        self.queue_offered(offer, (&url, &key), known, hops, now)?;
        Ok(match self.lease_offered(url, key, kind, now)? {
            Claim::Task { task, .. } => Claim::Task { task, led_to },
            other => other,
        })
    }

    /// The terms of use in the files of a host for an address, as far as they are known.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn terms_ahead(
        &mut self,
        url: &PageUrl,
        kind: TaskKind,
        now: u64,
    ) -> Result<HostTerms, StoreError> {
        let host = url.host_key();
        match self.schedule.slot(&host) {
            Some(slot) => Ok(self.terms_of(slot, &host, url, kind, now)?.0),
            None => Ok(HostTerms::default()),
        }
    }

    /// The address under which it is or would be stored: without the parts that the scope removes.
    fn known_as(
        &self,
        url: &PageUrl,
        kind: TaskKind,
    ) -> Result<(PageUrl, Vec<u8>, Option<UrlRecord>), StoreError> {
        let key = keys::url(url, kind);
        let known = self.ledger.read(&key)?;
        let canonical = self.scope.canonical(url);
        if known.is_some() || kind != TaskKind::Page || *canonical == *url {
            return Ok((url.clone(), key, known));
        }
        let key = keys::url(&canonical, kind);
        let known = self.ledger.read(&key)?;
        Ok((canonical.into_owned(), key, known))
    }

    /// Queues an offered address unless it is queued already.
    fn queue_offered(
        &mut self,
        offer: &Offer<'_>,
        (url, key): (&PageUrl, &[u8]),
        known: Option<UrlRecord>,
        hops: u32,
        now: u64,
    ) -> Result<(), StoreError> {
        let host = url.host_key();
        let mut tx = self.ledger.begin();
        match known.map(|record| UrlRecord { hops, ..record }) {
            None => {
                let new = NewTask::rated(url.clone(), (0.0, Some(offer.bucket)));
                let origin = Origin {
                    hops,
                    ..Origin::default()
                };
                let intake = self.intake(InForce::default());
                intake.add(&mut tx, key, offer.kind, &new, origin)?;
            }
            Some(record) => match record.state {
                State::Queued => tx.put_record(key, &record)?,
                State::Waiting { due } => {
                    tx.leave_waiting(key, due)?;
                    let state = State::Queued;
                    tx.enqueue(key, offer.kind, &host, &UrlRecord { state, ..record })?;
                }
                _ => requeue(&mut tx, key, offer.kind, &host, record)?,
            },
        }
        let prepared = tx.prepare();
        self.commit(prepared, now)
    }

    /// Leases a queued address, under the rules of its host.
    fn lease_offered(
        &mut self,
        url: PageUrl,
        key: Vec<u8>,
        kind: TaskKind,
        now: u64,
    ) -> Result<Claim, StoreError> {
        let host = url.host_key();
        let slot = self.activate(&host)?;
        let Some(record) = self.ledger.read::<UrlRecord>(&key)? else {
            return Ok(Claim::NotEmbedded);
        };
        if let State::Dropped { reason } = record.state {
            return Ok(Claim::Unwanted(reason));
        }
        let (class, rank) = (class_of(kind), rank_of(&record));
        let head = Head {
            rank,
            class,
            queue_key: keys::queue(&host, class, &rank),
            value: key,
        };
        let scheme = keys::scheme_of_key(&head.value);
        if !self.rules_hold(slot, scheme, now) {
            let task = self.lease_robots(slot, &host, &head, scheme, now)?;
            return Ok(first(task));
        }
        let candidate = Candidate {
            slot,
            host,
            head,
            url,
            kind,
            record,
            control: false,
        };
        if let Some(reason) = self.obstacle(&candidate)? {
            self.drop_queued(candidate, reason, now)?;
            return Ok(Claim::Unwanted(reason));
        }
        let (host, head) = (&candidate.host, &candidate.head);
        if let Some(task) = self.lease_terms_file(slot, host, head, kind, now)? {
            return Ok(first(Some(task)));
        }
        let (terms, forbidden) = self.terms_of(slot, host, &candidate.url, kind, now)?;
        if forbidden {
            let reason = Reason::Forbidden;
            self.drop_queued(candidate, reason, now)?;
            return Ok(Claim::Unwanted(reason));
        }
        Ok(Claim::Task {
            task: Box::new(self.lease_url(candidate, terms, now)?),
            led_to: LedTo::Queued,
        })
    }
}

fn first(task: Option<Task>) -> Claim {
    match task {
        Some(task) => Claim::First(Box::new(task)),
        None => Claim::Unwanted(Reason::RobotsUnreachable),
    }
}
