//! Budgets of prefixes: a part of a site that brings nothing new is not followed for
//! ever.
//!
//! Every finished page is *fruitful* or *barren* for its [`Prefixes`]. It is fruitful if it has
//! an unknown image, or text blocks that the wide prefix has not shown yet: [`NEW_WORDS`] words in
//! such blocks, or one word in [`NEW_SHARE`]. The language model is not consulted, because a trap
//! may well be on topic. A copy of another page is barren, and so is a redirect from an address
//! with a query to a known one. A missing page (404) is not judged: it has no links and so cannot
//! go on without end, and many links of honest sites are dead.
//!
//! Lists often look the same and say nothing new, but lead to pages that do. So a fruitful page
//! on topic also counts for the narrow prefix of the page that it was found on.
//!
//! A narrow prefix has an allowance of [`ALLOWANCE`] pages, which shrinks with the square of the
//! share of fruitful pages in its wide prefix: where siblings were barren, the next prefix gets
//! less, unless its own share is larger. A barren page costs one, a fruitful one earns [`GAIN`], up
//! to [`MAX_BALANCE`]. So a calendar ends after about fifteen pages, a maze of filters, which has
//! as many prefixes as combinations of filters, after about fifty, and a folder in which every
//! third page brings something new never does. An address whose prefix has nothing left is dropped
//! when it is next in its queue; seeds are not.

use serde::{Deserialize, Serialize};

use crate::address::{HostKey, PageUrl};
use crate::codec;
use crate::keys;
use crate::page::BlockPrint;
use crate::record::{HostRecord, PrefixRecord};
use crate::store::{Store, StoreError};
use crate::transaction::Transaction;
use crate::web::scope::{Prefixes, prefixes};

/// Barren pages that a prefix may have at first.
const ALLOWANCE: f64 = 24.0;
/// Fruitful pages that a wide prefix is credited with in advance.
const PRIOR: f64 = 12.0;
/// Earnings of a fruitful page.
const GAIN: i64 = 2;
/// The highest balance, so that early earnings do not feed a trap for long.
const MAX_BALANCE: i64 = 60;
/// Words in new blocks that make a page fruitful.
const NEW_WORDS: u64 = 20;
/// A page is also fruitful if at least one word in this many is new.
const NEW_SHARE: u64 = 8;
/// Judged pages of a narrow prefix after which its own share of fruitful ones counts.
const KNOWN: u64 = 6;

/// Whether a judged page brought something new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Yield {
    Fruitful,
    Barren,
}

/// The spent and the remaining budget of a prefix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// The prefixes.
    pub prefixes: Prefixes,
    /// Pages judged, in the narrow prefix and in the wide one.
    pub fetched: (u64, u64),
    /// Judged pages that brought something new.
    pub fruitful: (u64, u64),
    /// Barren pages that it may still have; nothing is fetched at 0.
    pub left: u64,
}

/// The budget of the prefixes that `url` belongs to.
pub fn budget(store: &dyn Store, url: &PageUrl) -> Result<Budget, StoreError> {
    let host = url.host_key();
    let prefixes = prefixes(url);
    let get = |prefix: &str| {
        let key = keys::prefix(&host, prefix);
        let record: Option<PrefixRecord> = codec::get(store, &key)?;
        Ok::<_, StoreError>(record.unwrap_or_default())
    };
    let (narrow, wide) = (get(&prefixes.narrow)?, get(&prefixes.wide)?);
    Ok(Budget {
        prefixes,
        fetched: (narrow.fetched, wide.fetched),
        fruitful: (narrow.fruitful, wide.fruitful),
        left: left(&narrow, &wide),
    })
}

/// The number of pages fetched from the registered domain of a host.
pub fn domain_documents(store: &dyn Store, host: &HostKey) -> Result<u64, StoreError> {
    let key = keys::domain(host.registered_domain());
    Ok(codec::get(store, &key)?.unwrap_or_default())
}

fn left(narrow: &PrefixRecord, wide: &PrefixRecord) -> u64 {
    let share = (PRIOR + wide.fruitful as f64) / (PRIOR + wide.fetched as f64);
    let own = narrow.fruitful as f64 / narrow.fetched.max(KNOWN) as f64;
    let share = share.max(if narrow.fetched < KNOWN { 0.0 } else { own });
    let allowance = (ALLOWANCE * share * share) as i64;
    u64::try_from(narrow.balance.saturating_add(allowance)).unwrap_or(0)
}

/// Judges the text of a page that brought `more` than text, or whose text is the `same`
/// as that of another page.
pub fn judge(
    tx: &mut Transaction<'_>,
    url: &PageUrl,
    blocks: &[BlockPrint],
    more: bool,
    same: bool,
) -> Result<Yield, StoreError> {
    let key = keys::prefix(&url.host_key(), &prefixes(url).wide);
    let mut wide: PrefixRecord = tx.read(&key)?.unwrap_or_default();
    let (new, all) = wide.seen.take(blocks);
    tx.write(key, &wide)?;
    let new_text = new >= NEW_WORDS || (new > 0 && new * NEW_SHARE >= all);
    let fruitful = more || (new_text && !same);
    Ok(if fruitful {
        Yield::Fruitful
    } else {
        Yield::Barren
    })
}

/// Books a judged page with both of its prefixes.
fn book(tx: &mut Transaction<'_>, url: &PageUrl, worth: Yield) -> Result<(), StoreError> {
    let host = url.host_key();
    let Prefixes { narrow, wide } = prefixes(url);
    for prefix in [narrow, wide] {
        let key = keys::prefix(&host, &prefix);
        let mut record: PrefixRecord = tx.read(&key)?.unwrap_or_default();
        record.fetched += 1;
        match worth {
            Yield::Fruitful => {
                record.fruitful += 1;
                record.balance = (record.balance + GAIN).min(MAX_BALANCE);
            }
            Yield::Barren => record.balance = record.balance.saturating_sub(1),
        }
        tx.write(key, &record)?;
    }
    Ok(())
}

/// Credits the narrow prefix of the page `via` with a fruitful page that it led to, unless that
/// page lies there itself.
pub fn credit(tx: &mut Transaction<'_>, via: &PageUrl, led_to: &PageUrl) -> Result<(), StoreError> {
    let narrow = prefixes(via).narrow;
    if narrow == prefixes(led_to).narrow {
        return Ok(());
    }
    let key = keys::prefix(&via.host_key(), &narrow);
    let record = tx.read::<PrefixRecord>(&key)?;
    let Some(mut record) = record.filter(|record| record.fetched > 0) else {
        return Ok(());
    };
    record.fruitful = (record.fruitful + 1).min(record.fetched);
    // It repays what barren pages cost, but earns nothing in advance.
    record.balance = record.balance.max((record.balance + GAIN).min(0));
    tx.write(key, &record)
}

/// Counts a page of a registered domain.
pub fn count_domain(tx: &mut Transaction<'_>, host: &HostKey) -> Result<(), StoreError> {
    let key = keys::domain(host.registered_domain());
    let documents: u64 = tx.read(&key)?.unwrap_or_default();
    tx.write(key, &(documents + 1))
}

/// Charges the budgets of a page's prefixes, and counts a barren page at its host. No
/// budget is looked up before a host has a barren page.
pub fn charge(
    tx: &mut Transaction<'_>,
    url: &PageUrl,
    worth: Yield,
    host: &mut HostRecord,
) -> Result<(), StoreError> {
    host.barren += u64::from(worth == Yield::Barren);
    book(tx, url, worth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_filter::BlockFilter;

    #[test]
    fn patience_shrinks_with_the_share_of_fruitful_pages() {
        let record = |fetched, fruitful, balance| PrefixRecord {
            fetched,
            fruitful,
            balance,
            seen: BlockFilter::default(),
        };
        let none = record(0, 0, 0);
        assert_eq!(left(&none, &none), 24);
        assert_eq!(left(&none, &record(12, 0, 0)), 6);
        assert_eq!(left(&none, &record(48, 0, 0)), 0);
        assert_eq!(left(&record(9, 0, -9), &record(9, 0, 0)), 0);
        assert_eq!(left(&none, &record(9_999, 9_999, 0)), 24);
        assert_eq!(left(&record(0, 0, i64::MIN), &none), 0);
        // A prefix that leads to new pages, among others that do not.
        let others = record(99, 9, 0);
        assert_eq!(left(&record(60, 60, 0), &others), 24);
        assert_eq!(left(&record(60, 30, 0), &others), 6);
        assert_eq!(left(&record(3, 3, 0), &others), 0);
        assert_eq!(left(&record(0, 0, 60), &record(u64::MAX, 0, 0)), 60);
    }
}
