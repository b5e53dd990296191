//! Checks the consistency of the store: every record is readable, queue entries agree
//! with states, and the counters are exact.

use std::ops::ControlFlow;

use super::cell::{BATCHES, place_of};
use super::control_sample::Sample;
use super::dump::{self, tally};
use super::keys::{self, class};
use super::record::{Counts, HostRecord, Meta, RobotsErrand, State, UrlRecord};
use super::store::{Readable, StoreError};
use super::transaction::visit_entry;
use super::transaction::{class_of, rank_of};
use super::{codec, flush_marker};
use crate::progress::Step;

/// Maximum number of problems that are named; the rest are only counted.
const MAX_NAMED: usize = 100;

const NO_NUMBER: &str = "a score is infinite or not a number";

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Consistency {
    /// URLs read.
    pub urls: u64,
    /// Hosts read.
    pub hosts: u64,
    /// The first hundred problems, each with its key.
    pub problems: Vec<String>,
    /// The number of problems.
    pub count: u64,
}

impl Consistency {
    /// True if no problem was found.
    pub fn is_sound(&self) -> bool {
        self.count == 0
    }

    fn add(&mut self, key: &[u8], what: &str) {
        self.count += 1;
        if self.problems.len() < MAX_NAMED {
            self.problems
                .push(format!("{}: {what}", key.escape_ascii()));
        }
    }
}

/// Reads the whole store once. Memory does not grow with the store.
///
/// # Errors
/// [`StoreError`] if the store cannot be read at all; records that cannot be decoded
/// are reported as problems.
pub fn check(store: &dyn Readable) -> Result<Consistency, StoreError> {
    let mut audit = Consistency::default();
    let mut counts = Counts::default();
    let meta: Option<Meta> = match store.get(keys::META)? {
        None => None,
        Some(bytes) => match codec::decode(store, keys::META, &bytes) {
            Ok(meta) => Some(meta),
            Err(_) => {
                audit.add(keys::META, "the counters cannot be read");
                None
            }
        },
    };
    urls(store, &mut audit, &mut counts)?;
    queues(store, &mut audit)?;
    waiting(store, &mut audit)?;
    visits(store, &mut audit)?;
    each(store, keys::HOSTS, |key, value| {
        audit.hosts += 1;
        if codec::decode::<HostRecord>(store, key, value).is_err() {
            audit.add(key, "the host's record cannot be read");
        }
        Ok(())
    })?;
    let audited = [keys::HOSTS, keys::URLS, keys::RECHECKS, keys::QUEUES];
    for prefix in keys::FACTS.into_iter().filter(|f| !audited.contains(f)) {
        each(store, prefix, |key, value| {
            if !dump::is_readable(key, value) {
                audit.add(key, "cannot be read");
            } else if dump::holds_no_number(key, value) {
                audit.add(key, NO_NUMBER);
            }
            Ok(())
        })?;
    }
    each(store, b"F", |key, value| {
        if codec::decode::<u64>(store, key, value).is_err() {
            audit.add(key, "the number of the simhash cannot be read");
        }
        Ok(())
    })?;
    listed(store, &mut audit)?;
    let batches = store.get(&keys::shared(BATCHES))?;
    let batches = place_of(batches.as_deref()).unwrap_or(0);
    if let Err(error) = flush_marker::check(store.path(), batches) {
        audit.add(keys::META, &error.to_string());
    }
    each(store, keys::RECHECKS, |key, value| {
        let within = |host| value.is_empty() || value.starts_with(&keys::urls_of(&host));
        if !keys::host_and_scheme(key).is_some_and(|(host, _)| within(host)) {
            audit.add(key, "new robots rules, but of no host that can be read");
        }
        Ok(())
    })?;
    if let Some(meta) = meta {
        let mut known = meta.counts;
        known.dropped.retain(|_, n| *n > 0);
        (counts.fetches, counts.bytes) = (known.fetches, known.bytes);
        if known != counts {
            audit.add(
                keys::META,
                &format!("the counters say {known:?}, the records {counts:?}"),
            );
        }
    }
    Ok(audit)
}

fn urls(
    store: &dyn Readable,
    audit: &mut Consistency,
    counts: &mut Counts,
) -> Result<(), StoreError> {
    let mut step = Step::begin("checking addresses", None);
    each(store, b"U", |key, value| {
        audit.urls += 1;
        step.advance(1);
        let (Some((url, kind)), Ok(record)) = (
            keys::url_of_key(key),
            codec::decode::<UrlRecord>(store, key, value),
        ) else {
            audit.add(key, "the record cannot be read");
            return Ok(());
        };
        tally(counts, &record, kind);
        if !dump::has_finite_scores(&record) {
            audit.add(key, NO_NUMBER);
        }
        if let Some(entry) = visit_entry(&record) {
            if matches!(record.state, State::Queued | State::Waiting { .. }) {
                audit.add(key, "is to be fetched and to be visited again at once");
            }
            if store.get(&entry)?.as_deref() != Some(key) {
                audit.add(key, "is to be visited again, but no list has it");
            }
        }
        let rank = rank_of(&record);
        let entry = match record.state {
            State::Queued => keys::queue(&url.host_key(), class_of(kind), &rank),
            // The records below are compared with their waiting entries, and the counters with the
            // number of entries.
            _ => return Ok(()),
        };
        if store.get(&entry)?.as_deref() != Some(key) {
            audit.add(key, "is queued, but no queue has it");
        }
        Ok(())
    })
}

/// The length of the list that the control sample draws from must match its entries.
fn listed(store: &dyn Readable, audit: &mut Consistency) -> Result<(), StoreError> {
    let mut places = 0;
    each(store, keys::LISTED, |key, value| {
        if *key != keys::listed(places) || keys::url_of_key(value).is_none() {
            audit.add(key, "is not a place in the list of links to draw from");
        }
        places += 1;
        Ok(())
    })?;
    let sample = store.get(keys::SAMPLE)?;
    let sample = sample.and_then(|bytes| codec::decode(store, keys::SAMPLE, &bytes).ok());
    let known = sample.map_or(0, |sample: Sample| sample.listed);
    if known != places {
        audit.add(
            keys::SAMPLE,
            &format!("{known} links to draw from, but {places} are listed"),
        );
    }
    Ok(())
}

fn queues(store: &dyn Readable, audit: &mut Consistency) -> Result<(), StoreError> {
    each(store, keys::QUEUES, |key, value| {
        let Some(host) = keys::host_of_queue_key(key) else {
            audit.add(key, "the queue entry cannot be read");
            return Ok(());
        };
        if key.starts_with(&keys::queue_class(&host, class::ROBOTS)) {
            if codec::decode::<RobotsErrand>(store, key, value).is_err() {
                audit.add(key, "the robots errand cannot be read");
            }
            return Ok(());
        }
        let record: Option<UrlRecord> = match store.get(value)? {
            Some(bytes) => codec::decode(store, value, &bytes).ok(),
            None => None,
        };
        if record.is_none_or(|r| r.state != State::Queued) {
            audit.add(key, "is in a queue, but its record does not say so");
        }
        Ok(())
    })
}

fn waiting(store: &dyn Readable, audit: &mut Consistency) -> Result<(), StoreError> {
    each(store, keys::WAITING, |key, value| {
        let record: Option<UrlRecord> = match store.get(value)? {
            Some(bytes) => codec::decode(store, value, &bytes).ok(),
            None => None,
        };
        let due = keys::due_of_waiting_key(key);
        let agrees = |r: &UrlRecord| matches!(r.state, State::Waiting { due: d } if Some(d) == due);
        if !record.as_ref().is_some_and(agrees) {
            audit.add(key, "waits, but its record does not say so");
        }
        Ok(())
    })
}

fn visits(store: &dyn Readable, audit: &mut Consistency) -> Result<(), StoreError> {
    each(store, keys::VISITS, |key, value| {
        let record: Option<UrlRecord> = match store.get(value)? {
            Some(bytes) => codec::decode(store, value, &bytes).ok(),
            None => None,
        };
        if record.as_ref().and_then(visit_entry).as_deref() != Some(key) {
            audit.add(
                key,
                "is to be visited again, but its record does not say so",
            );
        }
        Ok(())
    })
}

/// Visits all pairs under a prefix; an error ends it.
fn each(
    store: &dyn Readable,
    prefix: &[u8],
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut failed = None;
    store.scan(prefix, &[], &mut |key, value| match visit(key, value) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    failed.map_or(Ok(()), Err)
}
