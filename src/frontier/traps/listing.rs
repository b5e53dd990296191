//! Limits of the addresses that a host may list in sitemaps.
//!
//! A sitemap names up to 50,000 addresses and costs its owner nothing, and a host may
//! have any number of them. So the sitemaps of a host may list [`BASE`] addresses at
//! first, and those of a registered domain, which may have any number of hosts,
//! [`DOMAIN_BASE`]. Each fetched page allows [`PER_PAGE`] more. A site whose pages are
//! fetched never runs out, and one that only lists addresses cannot fill the store. Known
//! addresses are not counted. A sitemap that lists more is read again when its host has
//! earned half as much as it has listed, or when its robots.txt is read again. Until then
//! it is dropped as [`Reason::ListBudget`], as are unread sitemaps while the rest of the
//! allowance is too small.
//!
//! The accounts are stored among the budgets of prefixes, under names that no path begins
//! with: `fetched` holds the addresses, `balance` the sitemaps, `fruitful` the skipped
//! addresses.

use std::ops::ControlFlow;

use serde::Serialize;

use crate::added::{NewTask, Origin};
use crate::address::HostKey;
use crate::codec;
use crate::intake::Intake;
use crate::keys;
use crate::outcome::Effects;
use crate::page::TaskKind;
use crate::record::{HostRecord, PrefixRecord, UrlRecord};
use crate::requeue::requeue;
use crate::store::{Store, StoreError};
use crate::transaction::Transaction;

/// Addresses that every host may list.
const BASE: u64 = 10_000;

/// Addresses that all hosts of a registered domain together may list.
const DOMAIN_BASE: u64 = if cfg!(test) { 12_000 } else { 100_000 };

/// Further addresses for each fetched page.
const PER_PAGE: u64 = 50;

/// Sitemaps that a host may name; each of its pages earns one more.
const SITEMAPS: u64 = 1_000;

/// A sitemap is not read for fewer addresses than this.
const WORTH: u64 = 1_000;

/// A sitemap may be read again after each this many pages of a host.
const EVERY: u64 = 20;

/// A listed address counts as one link from the front page.
const HOPS_LISTED: u32 = 1;

/// The addresses listed so far in the sitemaps of a host or of its domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// The host, or `*` and the registered domain.
    pub of: String,
    /// New addresses.
    pub listed: u64,
    /// The current limit for `listed`.
    pub allowed: u64,
    /// Addresses beyond the limit that were skipped, summed over all readings.
    pub passed_over: u64,
}

/// The account of a host or a domain.
struct Account {
    of: String,
    key: Vec<u8>,
    record: PrefixRecord,
    documents: u64,
    base: u64,
}

impl Account {
    fn allowed(&self) -> u64 {
        let earned = self.documents.saturating_mul(PER_PAGE);
        self.base.saturating_add(earned)
    }

    fn left(&self) -> u64 {
        self.allowed().saturating_sub(self.record.fetched)
    }
}

/// The accounts of a host and of its domain; `get` reads the store.
fn accounts(
    store: &dyn Store,
    get: impl Fn(&[u8]) -> Result<Option<Vec<u8>>, StoreError>,
    host: &HostKey,
) -> Result<[Account; 2], StoreError> {
    let domain = host.registered_domain();
    let (own, all) = (keys::host(host), keys::domain(domain));
    let own: Option<HostRecord> = codec::read(store, &own, get(&own)?)?;
    let all: Option<u64> = codec::read(store, &all, get(&all)?)?;
    let account = |of: String, key: Vec<u8>, documents: u64, base: u64| {
        let record: Option<PrefixRecord> = codec::read(store, &key, get(&key)?)?;
        Ok::<_, StoreError>(Account {
            of,
            key,
            record: record.unwrap_or_default(),
            documents,
            base,
        })
    };
    let name = host.as_str().to_owned();
    let documents = own.map_or(0, |own| own.documents);
    let own = account(name, keys::prefix(host, "sitemaps:"), documents, BASE)?;
    let key = keys::prefix(&HostKey::from_stored(domain), "sitemaps:*");
    let all = account(
        format!("*.{domain}"),
        key,
        all.unwrap_or_default(),
        DOMAIN_BASE,
    )?;
    Ok([own, all])
}

/// The account of a host, or of its domain if that has less left.
pub fn of(store: &dyn Store, host: &HostKey) -> Result<Listing, StoreError> {
    let [own, all] = accounts(store, |key| store.get(key), host)?;
    let account = if all.left() < own.left() { all } else { own };
    Ok(Listing {
        allowed: account.allowed(),
        of: account.of,
        listed: account.record.fetched,
        passed_over: account.record.fruitful,
    })
}

/// Whether so little is left for a host that none of its sitemaps is read now.
pub fn is_spent(store: &dyn Store, host: &HostKey) -> Result<bool, StoreError> {
    let Listing {
        listed, allowed, ..
    } = of(store, host)?;
    Ok(listed.saturating_add(WORTH) > allowed)
}

/// Adds the addresses that a sitemap of `host` lists, up to the limit. Returns the number
/// of skipped ones. `depth` is the number of index files above the sitemap, and `id` its
/// number among the finished.
pub fn add(
    tx: &mut Transaction<'_>,
    intake: &Intake<'_>,
    host: &HostKey,
    listing: Effects,
    id: u64,
    depth: u32,
) -> Result<u64, StoreError> {
    let origin = |hops| Origin {
        via: Some(id),
        hops,
        ..Origin::default()
    };
    let mut accounts = accounts_of(tx, host)?;
    let [own, all] = &mut accounts;
    let most = SITEMAPS.saturating_add(own.documents);
    let mut sitemaps = u64::try_from(own.record.balance).unwrap_or_default();
    let mut beyond = 0;
    for url in listing.sitemaps {
        let key = keys::url(&url, TaskKind::Sitemap);
        if sitemaps >= most && tx.record(&key)?.is_none() {
            beyond += 1;
            continue;
        }
        let before = tx.added();
        intake.add_sitemap(tx, url, origin(depth.saturating_add(1)))?;
        sitemaps += tx.added() - before;
    }
    own.record.balance = i64::try_from(sitemaps).unwrap_or(i64::MAX);
    for page in &listing.links {
        if own.left().min(all.left()) == 0 && !is_known(tx, intake, page)? {
            beyond += 1;
            continue;
        }
        let before = tx.added();
        intake.add_page(tx, page, origin(HOPS_LISTED))?;
        let new = tx.added() - before;
        own.record.fetched += new;
        all.record.fetched += new;
    }
    for Account {
        key, mut record, ..
    } in accounts
    {
        record.fruitful = record.fruitful.saturating_add(beyond);
        tx.write(key, &record)?;
    }
    Ok(beyond)
}

/// Called after a page of `host`: queues a sitemap again that was not read completely,
/// if the limit now leaves much more. `documents` is the number of the host's pages,
/// including this one.
pub fn grow(tx: &mut Transaction<'_>, host: &HostKey, documents: u64) -> Result<(), StoreError> {
    if !documents.is_multiple_of(EVERY) {
        return Ok(());
    }
    let [mut own, all] = accounts_of(tx, host)?;
    own.documents = documents;
    let listed = own.record.fetched;
    if listed < BASE || own.left().min(all.left()) < listed / 2 {
        return Ok(());
    }
    let store = tx.store();
    let mut found = None;
    let mut broken = None;
    store.scan(&keys::sitemaps_of(host), &[], &mut |key, value| {
        match codec::decode::<UrlRecord>(store, key, value) {
            Ok(record) if record.state.is_put_off() => found = Some((key.to_vec(), record)),
            Ok(_) => return ControlFlow::Continue(()),
            Err(error) => broken = Some(error),
        }
        ControlFlow::Break(())
    })?;
    if let Some(error) = broken {
        return Err(error);
    }
    match found {
        Some((key, record)) => requeue(tx, &key, TaskKind::Sitemap, host, record),
        None => Ok(()),
    }
}

fn accounts_of(tx: &Transaction<'_>, host: &HostKey) -> Result<[Account; 2], StoreError> {
    accounts(tx.store(), |key| tx.get(key), host)
}

fn is_known(tx: &Transaction<'_>, intake: &Intake<'_>, page: &NewTask) -> Result<bool, StoreError> {
    let url = intake.canonical(&page.url);
    Ok(tx.record(&keys::url(&url, TaskKind::Page))?.is_some())
}

/// The log text for a sitemap with skipped addresses.
pub fn message(listing: &Listing, beyond: u64) -> String {
    let Listing { of, allowed, .. } = listing;
    format!(
        "{beyond} of its addresses were passed over: the sitemaps of {of} may list {allowed} so \
         far, and {PER_PAGE} more for each page that is fetched there"
    )
}
