//! Traps: what a site must not get by making addresses without end.
//!
//! # Budgets of prefixes
//!
//! Every finished page is *fruitful* or *barren* for its [`Prefixes`]. It is
//! fruitful where it brings an image that was not known, or blocks of text that the
//! wide prefix has not shown yet: [`NEW_WORDS`] words of them, or one word in
//! [`NEW_SHARE`]. No language model has a say in this, since a trap may well be on
//! topic. A page that is the copy of another is barren, and so is a redirect from an
//! address with a query to what is known. What is missing (404) is not judged: it leads nowhere, so it cannot go on
//! without end, and much of the honest web is gone.
//!
//! A narrow prefix has an allowance of [`ALLOWANCE`] pages, which shrinks with the
//! square of the share of fruitful pages in its wide prefix: where siblings were
//! barren, there is less patience with the next. A barren page costs one, a
//! fruitful one earns [`GAIN`], up to [`MAX_BALANCE`]. So a calendar ends after some
//! fifteen pages, a maze of filters, which has as many prefixes as combinations of
//! filters, after some fifty, and a folder in which every third page brings
//! something new never does. An address whose prefix has nothing left is dropped
//! when its turn comes; seeds are not.
//!
//! # Copies
//!
//! A page whose simhash differs from that of an earlier page of its host by
//! [`NEAR`] bits at most (Manku, Jain and Das Sarma 2007) feeds no links. Of four
//! bands of 16 bits one must be equal then, which is how the earlier page is found.
//!
//! A canonical address that a page names is believed within its own host, and where
//! nothing speaks against it: the texts of both where both are known, or that a
//! whole site cannot be one page.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::change::Change;
use super::record::{PrefixRecord, State, UrlRecord};
use super::store::{Store, StoreError};
use super::{codec, keys};
use crate::address::{HostKey, PageUrl};
use crate::page::{BlockPrint, Bucket, TaskKind};
use crate::web::scope::{Prefixes, prefixes};

/// Barren pages that a prefix may have at first.
const ALLOWANCE: f64 = 24.0;
/// Fruitful pages that a wide prefix is credited with in advance.
const PRIOR: f64 = 12.0;
/// What a fruitful page earns.
const GAIN: i64 = 2;
/// The highest balance, so that riches of old do not feed a trap for long.
const MAX_BALANCE: i64 = 60;
/// Words in new blocks that make a page fruitful.
const NEW_WORDS: u64 = 20;
/// One word in so many that is new makes it fruitful as well.
const NEW_SHARE: u64 = 8;
/// Bits by which the simhashes of near copies differ at most.
const NEAR: u32 = 3;
/// Bits by which the simhashes of a page and its canonical one differ at most.
const ALIKE: u32 = 12;
/// Simhashes that are compared in one band at most.
const MAX_CANDIDATES: usize = 64;

/// Whether a judged page brought something new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Worth {
    Fruitful,
    Barren,
}

/// What a prefix has spent and what is left to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// The prefixes.
    pub prefixes: Prefixes,
    /// Pages judged, in the narrow prefix and in the wide one.
    pub fetched: (u64, u64),
    /// Those of them that brought something new.
    pub fruitful: (u64, u64),
    /// Barren pages that it may still have; nothing is fetched at 0.
    pub left: u64,
}

/// The budget of the prefixes that `url` belongs to.
pub(super) fn budget(store: &dyn Store, url: &PageUrl) -> Result<Budget, StoreError> {
    let host = url.host_key();
    let prefixes = prefixes(url);
    let get = |prefix: &str| {
        let key = keys::prefix(&host, prefix);
        let record: Option<PrefixRecord> = codec::read(store, &key, store.get(&key)?)?;
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

/// How many pages the registered domain of a host has given.
pub(super) fn domain_documents(store: &dyn Store, host: &HostKey) -> Result<u64, StoreError> {
    let key = keys::domain(host.registered_domain());
    Ok(codec::read(store, &key, store.get(&key)?)?.unwrap_or_default())
}

fn left(narrow: &PrefixRecord, wide: &PrefixRecord) -> u64 {
    let share = (PRIOR + wide.fruitful as f64) / (PRIOR + wide.fetched as f64);
    let allowance = (ALLOWANCE * share * share) as i64;
    u64::try_from(narrow.balance.saturating_add(allowance)).unwrap_or(0)
}

/// Blocks of text that were met, in two Bloom filters (Bloom 1970) of two bits a
/// block. When the newer one is full, a greater one takes its place and the older
/// one is forgotten; so a small site takes little room and none takes much. Of some
/// [`MAX_BYTES`] blocks none is forgotten, and one in twenty that is new is taken
/// for known at worst.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Memory {
    older: Vec<u8>,
    newer: Vec<u8>,
    /// Blocks in the newer one; it is full at one for each byte.
    entries: u64,
}

/// Bytes of the first filter of a prefix, a power of two.
const MIN_BYTES: usize = 64;
/// Bytes of a filter at most, a power of two.
const MAX_BYTES: usize = 1_024;

impl Memory {
    /// Takes the blocks of a page and returns how many words of it were new, and
    /// how many it has.
    pub fn take(&mut self, blocks: &[BlockPrint]) -> (u64, u64) {
        let mut new = 0;
        let mut all = 0;
        for block in blocks {
            let words = u64::from(block.words);
            all += words;
            if holds(&self.newer, block.hash) {
                continue;
            }
            if !holds(&self.older, block.hash) {
                new += words;
            }
            if self.entries >= self.newer.len() as u64 {
                let bytes = (self.newer.len() * 2).clamp(MIN_BYTES, MAX_BYTES);
                self.older = std::mem::replace(&mut self.newer, vec![0; bytes]);
                self.entries = 0;
            }
            for (byte, mask) in places(&self.newer, block.hash) {
                if let Some(byte) = self.newer.get_mut(byte) {
                    *byte |= mask;
                }
            }
            self.entries += 1;
        }
        (new, all)
    }
}

fn holds(filter: &[u8], hash: u32) -> bool {
    let set = |(byte, mask)| filter.get(byte).is_some_and(|b: &u8| b & mask != 0);
    places(filter, hash).into_iter().all(set)
}

/// The byte and the bit within it of both places of a block.
fn places(filter: &[u8], hash: u32) -> [(usize, u8); 2] {
    let bits = (filter.len() * 8).max(1);
    [hash & 0xffff, hash >> 16].map(|half| {
        let place = half as usize % bits;
        (place / 8, 1 << (place % 8))
    })
}

impl Change<'_> {
    /// Judges the text of a page that brought `more` than text, or whose text is the
    /// `same` as that of another.
    pub fn judge(
        &mut self,
        url: &PageUrl,
        blocks: &[BlockPrint],
        more: bool,
        same: bool,
    ) -> Result<Worth, StoreError> {
        let key = keys::prefix(&url.host_key(), &prefixes(url).wide);
        let mut wide: PrefixRecord = self.read(&key)?.unwrap_or_default();
        let (new, all) = wide.seen.take(blocks);
        self.write(key, &wide)?;
        let new_text = new >= NEW_WORDS || (new > 0 && new * NEW_SHARE >= all);
        let fruitful = more || (new_text && !same);
        Ok(if fruitful {
            Worth::Fruitful
        } else {
            Worth::Barren
        })
    }

    /// Books a judged page with both of its prefixes.
    pub fn book(&mut self, url: &PageUrl, worth: Worth) -> Result<(), StoreError> {
        let host = url.host_key();
        let Prefixes { narrow, wide } = prefixes(url);
        for prefix in [narrow, wide] {
            let key = keys::prefix(&host, &prefix);
            let mut record: PrefixRecord = self.read(&key)?.unwrap_or_default();
            record.fetched += 1;
            match worth {
                Worth::Fruitful => {
                    record.fruitful += 1;
                    record.balance = (record.balance + GAIN).min(MAX_BALANCE);
                }
                Worth::Barren => record.balance = record.balance.saturating_sub(1),
            }
            self.write(key, &record)?;
        }
        Ok(())
    }

    /// Counts a page of a registered domain.
    pub fn count_domain(&mut self, host: &HostKey) -> Result<(), StoreError> {
        let key = keys::domain(host.registered_domain());
        let documents: u64 = self.read(&key)?.unwrap_or_default();
        self.write(key, &(documents + 1))
    }

    /// The earlier page of the same host that `url` is a near copy of, and whether
    /// their simhashes are even the same. Where there is none, `url` is what later ones are compared with, under the number `id`.
    pub fn near_copy(
        &mut self,
        url: &PageUrl,
        simhash: u64,
        id: u64,
    ) -> Result<Option<(PageUrl, bool)>, StoreError> {
        let host = url.host_key();
        for band in 0..4 {
            let mut found = None;
            let mut compared = 0;
            let prefix = keys::simhash_band(&host, band, simhash);
            self.store().scan(&prefix, &[], &mut |key, value| {
                let other = keys::simhash_of_key(key);
                if other.is_some_and(|other| (other ^ simhash).count_ones() <= NEAR) {
                    found = Some((key.to_vec(), value.to_vec()));
                }
                compared += 1;
                if found.is_some() || compared == MAX_CANDIDATES {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })?;
            let Some((key, value)) = found else { continue };
            let number = codec::decode(self.store(), &key, &value)?;
            let text = self.get(&keys::document(number))?.unwrap_or_default();
            let earlier = PageUrl::parse(&String::from_utf8_lossy(&text)).ok();
            // Fetched again, a page is no copy of itself.
            let same = keys::simhash_of_key(&key) == Some(simhash);
            return Ok(earlier
                .filter(|earlier| earlier != url)
                .map(|earlier| (earlier, same)));
        }
        for band in 0..4 {
            self.write(keys::simhash(&host, band, simhash), &id)?;
        }
        Ok(None)
    }

    /// What the address `named` that the fetched page `url` calls its own is to it.
    pub fn claim(
        &self,
        url: &PageUrl,
        named: &PageUrl,
        hops: u32,
        simhash: Option<u64>,
    ) -> Result<Claim, StoreError> {
        let mut named = self.canonical(named);
        let host = url.host_key();
        // Nobody may speak for another host, or for what the job does not want.
        if named == *url || named.host_key() != host || !self.accepts(&named, hops) {
            return Ok(Claim::None);
        }
        let mut key = keys::url(&named, TaskKind::Page);
        let mut known = self.record(&key)?;
        if let Some(State::Redirected { to, .. }) = known.as_ref().map(|r| &r.state) {
            match PageUrl::from_stored(to) {
                Ok(to) if to != *url && to.host_key() == host => named = to,
                _ => return Ok(Claim::None),
            }
            key = keys::url(&named, TaskKind::Page);
            known = self.record(&key)?;
        }
        let gone =
            |state: &State| matches!(state, State::Redirected { .. } | State::Dropped { .. });
        let is_root = named.path_and_query() == "/";
        // Sites that name their front page on every page are common.
        let deep = url.path().split('/').count() > 2 || url.query().is_some();
        Ok(match known {
            // Also where it is queued to be fetched again.
            Some(record) if record.was_fetched() && !gone(&record.state) => {
                match (simhash, record.simhash) {
                    (Some(a), Some(b)) if (a ^ b).count_ones() > ALIKE => Claim::None,
                    (None, _) | (_, None) if is_root => Claim::None,
                    _ => Claim::CopyOf(named),
                }
            }
            _ if is_root && deep => Claim::None,
            None => Claim::StandsFor(key, None),
            Some(record)
                if record.state == State::Queued
                    && record.bucket != Bucket::Seed
                    && record.visit.is_none()
                    && !self.is_leased(&host, &key) =>
            {
                Claim::StandsFor(key, Some(Box::new(record)))
            }
            _ => Claim::None,
        })
    }

    /// Lets the fetched page `url`, whose record is `own`, stand for another
    /// address of its host, which is not fetched then.
    pub fn stand_for(
        &mut self,
        key: &[u8],
        known: Option<Box<UrlRecord>>,
        url: &PageUrl,
        own: &UrlRecord,
        id: u64,
    ) -> Result<(), StoreError> {
        let record = match known {
            Some(record) => {
                self.dequeue(TaskKind::Page, &url.host_key(), &record);
                *record
            }
            None => {
                let seq = self.meta.next_seq;
                self.meta.next_seq += 1;
                UrlRecord {
                    seq,
                    note: None,
                    visit: None,
                    simhash: None,
                    judged: None,
                    attempts: 0,
                    ..own.clone()
                }
            }
        };
        let state = State::Redirected {
            id,
            to: url.as_str().to_owned(),
        };
        self.put_record(key, &UrlRecord { state, ..record })
    }
}

/// What a canonical address is to the page that names it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Claim {
    /// Nothing, or nothing that is believed.
    None,
    /// It was not fetched yet, and need not be: its key, and what is known of it.
    StandsFor(Vec<u8>, Option<Box<UrlRecord>>),
    /// It was fetched, so this page is a copy.
    CopyOf(PageUrl),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(range: std::ops::Range<u32>) -> Vec<BlockPrint> {
        let print = |i: u32| BlockPrint {
            hash: (xxhash_rust::xxh3::xxh3_64(&i.to_be_bytes()) >> 32) as u32,
            words: 10,
        };
        range.map(print).collect()
    }

    #[test]
    fn what_was_met_is_not_new() {
        let mut memory = Memory::default();
        assert_eq!(memory.take(&blocks(0..30)), (300, 300));
        assert_eq!(memory.newer.len(), MIN_BYTES);
        assert_eq!(memory.take(&blocks(10..32)), (20, 220));
        assert_eq!(memory.take(&[]), (0, 0));
    }

    #[test]
    fn a_catalogue_is_known_by_heart_and_an_archive_never_ends() {
        let mut memory = Memory::default();
        // Forty of nine hundred things on each page.
        let page = |i: u32| {
            let drawn = blocks(i * 40..i * 40 + 40);
            let things = drawn.iter().map(|print| print.hash % 900);
            things.flat_map(|t| blocks(t..t + 1)).collect::<Vec<_>>()
        };
        let all: u64 = (0..200).map(|i| memory.take(&page(i)).0).sum();
        let late: u64 = (200..300).map(|i| memory.take(&page(i)).0).sum();
        assert!(all >= 7_500 && late <= 100, "{all} {late}");
        let new: u64 = (0..1_000)
            .map(|i| memory.take(&blocks(10_000 + i * 30..10_030 + i * 30)).0)
            .sum();
        assert!(new >= 270_000, "{new}");
        assert!(memory.newer.len() + memory.older.len() <= 2 * MAX_BYTES);
    }

    #[test]
    fn patience_shrinks_with_the_share_of_fruitful_pages() {
        let record = |fetched, fruitful, balance| PrefixRecord {
            fetched,
            fruitful,
            balance,
            seen: Memory::default(),
        };
        let none = record(0, 0, 0);
        assert_eq!(left(&none, &none), 24);
        assert_eq!(left(&none, &record(12, 0, 0)), 6);
        assert_eq!(left(&none, &record(48, 0, 0)), 0);
        assert_eq!(left(&record(9, 0, -9), &record(9, 0, 0)), 0);
        assert_eq!(left(&none, &record(9_999, 9_999, 0)), 24);
        assert_eq!(left(&record(0, 0, i64::MIN), &none), 0);
        assert_eq!(left(&record(0, 0, 60), &record(u64::MAX, 0, 0)), 60);
    }
}
