//! Links to and from the cells of other machines: what waits for cells that are not open here, and
//! what arrives from other machines.
//!
//! What a page has found for another cell is stored with the other effects of the page, under the
//! number of its commit: a [`Slip`] names it. If the other cell is open in this store, it is added
//! there directly. Otherwise it belongs to the *outbox*: the caller reads it ([`Cells::outbox`],
//! [`Cells::offers`]), sends it, and deletes it once it has arrived ([`Cells::change_outbox`]).
//!
//! The log numbers what arrives from other machines. [`Cells::receive`] adds a message and notes
//! its number in one batch, so each message is added exactly once, even after a kill.
//!
//! This module does not know how links travel. It stores the notes of the sender and the reader
//! without interpreting them.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::{Amend, Cells, CellsError};
use crate::added::{NewTask, Origin};
use crate::address::PageUrl;
use crate::cell::CellId;
use crate::codec;
use crate::contexts;
use crate::keys;
use crate::page::{Bucket, Clues, TaskKind, Terms};
use crate::ratings::Rating;
pub use crate::record::LogPlace;
use crate::referral::{MOST_PASSED, Referral, Referred};
use crate::store::{Batch, Readable, StoreError};

/// The prefix for the number of a cell; the value is the note on what is sent to it.
const NOTES: &[u8] = b"\xc0\0outbox";

/// The most redirects and links on the way to an address that is accepted from another machine.
const MOST_REDIRECTS: u8 = 100;
const MOST_HOPS: u32 = 1_000_000;

/// What one commit of an open cell has found for a cell that is not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slip {
    /// The cell of the page.
    pub from: CellId,
    /// The commit, as that cell counts them.
    pub commit: u64,
}

/// Something that a cell has found for another one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Offer(Referral);

/// Why an offer from another machine is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsound {
    /// An address is not canonical, or not an address.
    #[error("`{0}` is not a canonical address")]
    Address(String),
    /// A number is not finite, or larger than any crawl produces.
    #[error("a number that rates {0} is out of bounds")]
    Number(PageUrl),
    /// No cell refers such a task to another.
    #[error("{0} is not a page or a sitemap")]
    Kind(PageUrl),
    /// Its contents cannot be read.
    #[error("what it carries cannot be read: {0}")]
    Contents(String),
}

/// The way to an address, as an offer describes it.
#[derive(Debug, Clone, Copy)]
pub struct Way<'o> {
    /// The address.
    pub url: &'o PageUrl,
    /// The kind of task.
    pub kind: TaskKind,
    /// Links from the nearest seed.
    pub hops: u32,
    /// The on-topic and the off-topic weight of the pages that link to it, summed up.
    pub cited: (f32, f32),
}

impl Offer {
    /// A page this many links from the nearest seed, for example a seed itself.
    pub fn page(new: NewTask, hops: u32) -> Self {
        let origin = Origin {
            hops,
            ..Origin::default()
        };
        Self(Referral {
            what: Referred::Address {
                kind: TaskKind::Page,
                new,
                origin,
                keywords: None,
            },
            passed: 0,
        })
    }

    /// The way to an address; `None` if the offer is about something else, which is never merged
    /// and always sent.
    pub fn way(&self) -> Option<Way<'_>> {
        let Referred::Address {
            kind, new, origin, ..
        } = &self.0.what
        else {
            return None;
        };
        let cited = new.clues.as_ref().map_or((0.0, 0.0), |c| (c.good, c.bad));
        Some(Way {
            url: &new.url,
            kind: *kind,
            hops: origin.hops,
            cited,
        })
    }

    /// Merges another offer of the same address, except for the way itself: the distance from a
    /// seed, and the pages that link to it.
    pub fn take_over(&mut self, other: &Self) {
        let (
            Referred::Address { new, origin, .. },
            Referred::Address {
                new: other,
                origin: its,
                ..
            },
        ) = (&mut self.0.what, &other.0.what)
        else {
            return;
        };
        origin.hops = origin.hops.min(its.hops);
        if let Some(other) = &other.clues {
            new.clues = Some(match new.clues.take() {
                Some(own) => own.with(other),
                None => other.clone(),
            });
        }
    }

    /// A promise not to ask a host before `due`.
    #[cfg(any(test, feature = "testing"))]
    pub fn promise(host: &crate::address::HostKey, due: u64) -> Self {
        let promise = crate::record::Promise {
            host: host.as_str().to_owned(),
            due,
            failures: 1,
            parked_until: None,
        };
        let what = Referred::Promise(promise);
        Self(Referral { what, passed: 0 })
    }

    /// The host of a promise, and when it may be requested again.
    #[cfg(any(test, feature = "testing"))]
    pub fn promised(&self) -> Option<(&str, u64)> {
        match &self.0.what {
            Referred::Promise(promise) => Some((&promise.host, promise.due)),
            _ => None,
        }
    }

    /// Counts linking pages that were not reported before.
    pub fn cite(&mut self, (good, bad): (f32, f32)) {
        if let Referred::Address { new, .. } = &mut self.0.what
            && let Some(clues) = &mut new.clues
        {
            clues.good += good;
            clues.bad += bad;
        }
    }

    /// Checks an offer from another machine.
    ///
    /// # Errors
    /// [`Unsound`], if no machine would write it.
    pub fn check(&self) -> Result<(), Unsound> {
        let Referral { what, passed } = &self.0;
        match what {
            Referred::Address {
                kind, new, origin, ..
            } => check_address(*kind, new, *origin),
            Referred::Image {
                url,
                words,
                score,
                origin,
                ..
            } => {
                let words = contexts::unpack(words).map_err(Unsound::Contents)?;
                check_urls([url, &words.page])?;
                must(score.is_finite() && is_near(*origin), url)
            }
            Referred::Withheld { image, page, terms } => {
                check_urls([image, page])?;
                let read = serde_json::from_str::<Terms>(terms).map(drop);
                read.map_err(|error| Unsound::Contents(error.to_string()))
            }
            Referred::Bare {
                image,
                page,
                unknown,
            } => {
                check_urls([image, page])?;
                must(unknown.is_finite(), image)
            }
            Referred::Errand(errand) => {
                let url = PageUrl::parse(&errand.url);
                let url = url.map_err(|_| Unsound::Address(errand.url.clone()))?;
                must(errand.redirects <= MOST_REDIRECTS, &url)
            }
            Referred::Rules { url, .. } => check_urls([url]),
            Referred::OnWay { url, terms, .. } => {
                let read = serde_json::from_str::<Terms>(terms).map(drop);
                read.map_err(|error| Unsound::Contents(error.to_string()))?;
                check_urls([url])
            }
            Referred::Promise(_) => Ok(()),
        }?;
        if *passed > MOST_PASSED {
            return Err(Unsound::Contents("it was passed on too often".to_owned()));
        }
        Ok(())
    }
}

fn check_urls<'u>(urls: impl IntoIterator<Item = &'u PageUrl>) -> Result<(), Unsound> {
    for url in urls {
        if PageUrl::parse(url.as_str()).ok().as_ref() != Some(url) {
            return Err(Unsound::Address(url.as_str().to_owned()));
        }
    }
    Ok(())
}

fn is_near(origin: Origin) -> bool {
    origin.hops <= MOST_HOPS && origin.redirects <= MOST_REDIRECTS
}

fn must(is_sound: bool, url: &PageUrl) -> Result<(), Unsound> {
    if is_sound {
        Ok(())
    } else {
        Err(Unsound::Number(url.clone()))
    }
}

fn check_address(kind: TaskKind, new: &NewTask, origin: Origin) -> Result<(), Unsound> {
    let url = &new.url;
    check_urls([url])?;
    if !matches!(kind, TaskKind::Page | TaskKind::Sitemap) {
        return Err(Unsound::Kind(url.clone()));
    }
    let clues = new.clues.as_ref().map(Clues::numbers);
    let parts = new.parts.map(|p| [p.document, p.anchor, p.keyword]);
    let is_finite = new.score.is_finite()
        && parts.into_iter().flatten().all(f64::is_finite)
        && clues.into_iter().flatten().all(f32::is_finite);
    must(is_finite && is_near(origin), url)
}

/// An offer with its rating.
#[derive(Debug, Clone, PartialEq)]
pub struct Rated {
    /// The offer.
    pub offer: Offer,
    /// The priority class; `None` if it is above the cutoff.
    pub bucket: Option<Bucket>,
    /// The score, lower is better.
    pub score: f64,
}

impl Rated {
    fn by(rating: Option<&dyn Rating>, mut referral: Referral) -> Self {
        let Referred::Address { new, .. } = &mut referral.what else {
            return Self {
                offer: Offer(referral),
                bucket: None,
                score: 0.0,
            };
        };
        // No machine keeps longer ones.
        new.anchor = new.kept_anchor();
        let learning = rating.and_then(|rating| rating.learning());
        let (score, bucket) = match (&new.clues, learning) {
            (Some(clues), Some(learning)) => learning.rate(clues, new.parts.as_ref()),
            _ => (new.score, new.bucket),
        };
        Self {
            offer: Offer(referral),
            bucket,
            score,
        }
    }

    /// Whether this offer (`Less`) or the other is better.
    pub fn compare(&self, other: &Self) -> Ordering {
        let class = |rated: &Self| rated.bucket.map_or(u8::MAX, |bucket| bucket as u8);
        class(self)
            .cmp(&class(other))
            .then(self.score.total_cmp(&other.score))
    }
}

/// A change of the outbox for one cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxChange {
    /// The cell.
    pub to: CellId,
    /// The new note.
    pub note: Vec<u8>,
    /// The slips that have arrived.
    pub gone: Vec<Slip>,
}

impl Cells {
    /// The cells that are not open here and for which open cells have found something.
    pub fn outbox_targets(&self) -> BTreeSet<CellId> {
        let open = self.open.values();
        let all = open.flat_map(|cell| cell.frontier.ledger.referring().keys());
        all.copied()
            .filter(|to| !self.open.contains_key(to))
            .collect()
    }

    /// What open cells have found for a cell: by finding cell, in the order of discovery.
    pub fn outbox(&self, to: CellId) -> impl Iterator<Item = Slip> {
        self.open.iter().flat_map(move |(from, cell)| {
            let commits = cell.frontier.ledger.referring().get(&to);
            commits.into_iter().flatten().map(|commit| Slip {
                from: *from,
                commit: *commit,
            })
        })
    }

    /// The contents of a slip for a cell, rated by the current rating. Empty if it is gone.
    ///
    /// # Errors
    /// [`CellsError::Closed`] if the cell that has found it is not open, and
    /// [`CellsError::Store`] if the store fails.
    pub fn offers(&self, to: CellId, slip: Slip) -> Result<Vec<Rated>, CellsError> {
        let Slip { from, commit } = slip;
        let own = self.open.get(&from).ok_or(CellsError::Closed(from))?;
        let referrals = own.frontier.ledger.referrals(to, commit)?;
        let rated = |referral| Rated::by(self.rating.as_deref(), referral);
        Ok(referrals.into_iter().map(rated).collect())
    }

    /// Deletes what has arrived and writes the notes on the rest, in one batch. Slips that were
    /// already deleted, or are in a cell that is no longer open, are ignored.
    ///
    /// # Errors
    /// [`CellsError::Store`] if the store fails.
    pub fn change_outbox(&mut self, changes: &[OutboxChange]) -> Result<(), CellsError> {
        if changes.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::default();
        let mut gone = Vec::new();
        for OutboxChange {
            to,
            note,
            gone: all,
        } in changes
        {
            batch.put(note_key(*to), note.clone());
            for Slip { from, commit } in all {
                let own = self.open.get(from);
                let commits = own.and_then(|own| own.frontier.ledger.referring().get(to));
                if commits.is_some_and(|commits| commits.contains(commit)) {
                    let key = keys::referrals(*to, *commit);
                    batch.delete([from.space().as_slice(), &key].concat());
                    gone.push((*from, *to, *commit));
                }
            }
        }
        self.shared.apply(batch)?;
        for (from, to, commit) in gone {
            if let Some(own) = self.open.get_mut(&from) {
                own.frontier.ledger.referred(to, commit);
            }
        }
        Ok(())
    }

    /// Makes changes of the outbox, and everything written before, durable.
    ///
    /// # Errors
    /// [`CellsError::Store`] if the store fails.
    pub fn flush_outbox(&self) -> Result<(), CellsError> {
        Ok(self.shared.flush()?)
    }

    /// The notes on what is sent, by cell.
    ///
    /// # Errors
    /// [`CellsError::Store`] if the store fails.
    pub fn outbox_notes(&self) -> Result<Vec<(CellId, Vec<u8>)>, CellsError> {
        let shared = &self.shared;
        let mut notes = Vec::new();
        let mut odd = None;
        shared.scan(NOTES, &[], &mut |key, note| {
            let number = key.get(NOTES.len()..).and_then(|n| n.try_into().ok());
            match number.and_then(|n| self.cells.cell(u16::from_be_bytes(n))) {
                Some(cell) => notes.push((cell, note.to_vec())),
                None => odd = Some(key.to_vec()),
            }
            ControlFlow::Continue(())
        })?;
        match odd {
            None => Ok(notes),
            Some(key) => {
                let why = "names no cell of this store".to_owned();
                Err(codec::corrupt(shared, &key, why).into())
            }
        }
    }

    /// The position up to which a cell has read its log.
    ///
    /// # Errors
    /// [`CellsError::Closed`] if it is not open.
    pub fn log_place(&self, cell: CellId) -> Result<LogPlace, CellsError> {
        let own = self.open.get(&cell).ok_or(CellsError::Closed(cell))?;
        let place = own.frontier.ledger.read(keys::LOG)?;
        Ok(place.unwrap_or_default())
    }

    /// Adds the offers of a message in a cell's log and notes its number, in one batch. Returns
    /// false and does nothing if the number is not above that of [`Cells::log_place`]. `amend` as
    /// in [`Cells::deliver`].
    ///
    /// # Errors
    /// [`StoreError`] as `E`, also if the cell is not open, or the error of `amend`.
    pub fn receive<E: From<StoreError>>(
        &mut self,
        cell: CellId,
        place: &LogPlace,
        offers: &[Offer],
        now: u64,
        amend: &mut Amend<'_, E>,
    ) -> Result<bool, E> {
        let own = self.open.get(&cell).ok_or_else(|| self.closed(cell))?;
        let known: Option<LogPlace> = own.frontier.ledger.read(keys::LOG)?;
        if known.is_some_and(|known| place.sequence <= known.sequence) {
            return Ok(false);
        }
        let referrals: Vec<&Referral> = offers.iter().map(|Offer(referral)| referral).collect();
        self.act(cell, |frontier| {
            frontier.read_from_log(&referrals, place, now, amend)
        })?;
        self.deliver_but_edits(now)?;
        Ok(true)
    }

    /// From now on, collects the promises to hosts, to be sent to other machines.
    pub fn tell_promises(&mut self) {
        self.promised = Some(Vec::new());
    }

    /// The promises to hosts since the last call, each for the log of its own cell.
    pub fn promises(&mut self) -> Vec<(CellId, Offer)> {
        let promised = self.promised.as_mut().map(std::mem::take);
        let offer = |(cell, promise)| {
            let what = Referred::Promise(promise);
            (cell, Offer(Referral { what, passed: 0 }))
        };
        promised.into_iter().flatten().map(offer).collect()
    }

    /// How often learning in these cells has restarted the rating of all links. If machines learn
    /// together, the cells of the others must follow ([`Cells::rerate`]).
    pub fn reratings(&self) -> u64 {
        let begun = |cell: &super::OpenCell| cell.frontier.ratings.begun();
        self.open.values().map(begun).sum()
    }

    /// Makes all cells rate their links again.
    ///
    /// # Errors
    /// [`CellsError::Store`] if the store fails.
    pub fn rerate(&mut self) -> Result<(), CellsError> {
        for cell in self.open.values_mut() {
            let frontier = &mut cell.frontier;
            frontier.ratings.begin_again(&mut frontier.ledger)?;
            cell.standing = None;
        }
        Ok(())
    }
}

fn note_key(to: CellId) -> Vec<u8> {
    [NOTES, &to.number().to_be_bytes()].concat()
}
