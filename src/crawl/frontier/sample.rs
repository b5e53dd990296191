//! The control sample: a small share of the fetches goes to links that are drawn by
//! chance and not by score, so that it can be seen what the score is worth.
//!
//! # What is drawn from
//!
//! All links of pages and sitemaps that are known and not asked yet, also those above
//! the razor, which an unfocused crawl would follow as well; each with the same
//! probability at every draw. Seeds, pages that are visited again, and what rules keep
//! out are not among them. So the control sample tells what the next fetch would find
//! if the strategy were given up now. It is not what another crawl, unfocused from its
//! first page, has found by then: that would know other links. Those that this one
//! knows stand on pages that it chose, and the best of them have been taken.
//!
//! # How
//!
//! Every link that is met is put at the end of a list in the store (`N`), and a draw is
//! a random number below its length. What it hits and is gone for good (done, dropped)
//! gives its place to the last one and another number is taken; what is only out of
//! reach now (leased, waiting, at a host that is given up) keeps it. So a link costs one
//! write, a draw some reads, and both stay the same however many links there are; each
//! number is uniform, and stays so however much was drawn before. Samples by the hash of
//! an address would be smaller, but they wear out: the addresses below their threshold
//! are those that are drawn, until only what was met lately is left among them. And a
//! site cannot make itself addresses that are drawn more often.
//!
//! A link that is drawn stays in its queue by its score, or enters it where it lay above
//! the razor, and is *pending*: it goes before everything else at its host as soon as
//! the host's clock and rules permit, and holds up no other host. Which are pending is
//! committed with the draw. Where a drawn link redirects, what stands at the end of the
//! redirects is pending in its stead.
//!
//! # What is not exact
//!
//! A link that robots rules or failures kept out, and that comes back after a draw hit
//! it, is not listed again; one that the scope lets in again may be listed twice until a
//! draw hits it. Links that were met while the sample was off are not listed at all.
//!
//! This module knows no model: how likely a page is on topic, whoever finishes it says.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::change::Change;
use super::clock::Policy;
use super::finish::Settled;
use super::focus::{Curve, Focus};
use super::keys::{self, Rank, class};
use super::record::{State, UrlRecord};
use super::schedule::{Head, Host};
use super::store::StoreError;
use super::{Frontier, codec, rescope};
use crate::address::PageUrl;
use crate::config;
use crate::page::{Bucket, Judged, Reason, Task, TaskKind};
use crate::topic::strategy;

/// Links that are drawn and not finished at most; no more are drawn until some are.
const MAX_PENDING: usize = 32;

/// Random numbers taken for one draw at most.
const MAX_TRIES: usize = 64;

/// How large the control sample is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Control {
    /// The share of link fetches that go to it, 0 to 0.5; none at 0.
    pub share: f64,
    /// What its random numbers follow from.
    pub seed: u64,
}

impl Policy {
    /// The same, with a control sample. A crawl that prefers no link has none: it would be a
    /// sample of what is fetched anyway.
    pub fn with_control(self, section: &config::ControlSample, kind: config::StrategyKind) -> Self {
        let share = if strategy::prefers(kind) {
            section.share
        } else {
            0.0
        };
        let seed = section.seed;
        let control = Control { share, seed };
        Self { control, ..self }
    }
}

/// A link that was drawn and is not finished.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Drawn {
    pub url: PageUrl,
    /// Its score, where it lay above the razor: it is not followed for that score.
    pub razored: Option<f64>,
}

/// All that is kept of the control sample; a record of its own, beside the counters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sample {
    /// The share in force, see [`Control`].
    pub share: f64,
    /// The seed in force.
    pub seed: u64,
    /// Length of the list.
    pub listed: u64,
    /// Random numbers taken.
    pub taken: u64,
    /// Draws that are due, in parts of one.
    pub owed: f64,
    /// In the order of the draws.
    pub pending: Vec<Drawn>,
    /// What was found.
    pub curve: Curve,
}

impl Sample {
    /// A number below the length of the list; `None` where it is empty.
    fn random(&mut self) -> Option<u64> {
        let number = xxh3_64_with_seed(&self.taken.to_le_bytes(), self.seed);
        self.taken = self.taken.wrapping_add(1);
        // The high half of the product: as uniform as the number, but for 1 in 2^64 of
        // the length.
        let scaled = (u128::from(number) * u128::from(self.listed)) >> 64;
        (self.listed > 0).then_some(scaled as u64)
    }

    pub fn is_pending(&self, url: &PageUrl) -> bool {
        self.pending.iter().any(|drawn| drawn.url == *url)
    }
}

/// What a listed link is to a draw.
enum Hit {
    /// It can be drawn.
    Link(Box<(PageUrl, UrlRecord)>),
    /// It cannot be drawn now.
    Out,
    /// It will never be a link to be drawn again.
    Gone,
}

impl Change<'_> {
    /// Puts a link that was met at the end of the list.
    pub(super) fn list(&mut self, key: &[u8], kind: TaskKind, bucket: Option<Bucket>) {
        let sample = &mut self.meta.sample;
        if sample.share > 0.0 && kind == TaskKind::Page && bucket != Some(Bucket::Seed) {
            self.batch.put(keys::listed(sample.listed), key.to_vec());
            sample.listed += 1;
        }
    }

    /// Takes the link at this place off the list; the last one gets its place.
    fn unlist(&mut self, place: u64) -> Result<(), StoreError> {
        let last = self.meta.sample.listed.saturating_sub(1);
        let own = keys::listed(last);
        if place != last
            && let Some(key) = self.get(&own)?
        {
            self.batch.put(keys::listed(place), key);
        }
        self.batch.delete(own);
        self.meta.sample.listed = last;
        Ok(())
    }

    /// Makes a queued link pending.
    fn pend(&mut self, drawn: Drawn) {
        let key = keys::url(&drawn.url, TaskKind::Page);
        self.batch.put(keys::drawn(&key), Vec::new());
        self.touched.insert(drawn.url.host_key());
        self.meta.sample.pending.push(drawn);
    }

    /// Notes of a pending link what another rating makes of it: its score, where that is
    /// above the razor. False where the link is not pending.
    pub(super) fn rerate_drawn(&mut self, key: &[u8], razored: Option<f64>) -> bool {
        let pending = &mut self.meta.sample.pending;
        if pending.is_empty() {
            return false;
        }
        let Some((url, TaskKind::Page)) = keys::url_of_key(key) else {
            return false;
        };
        let Some(drawn) = pending.iter_mut().find(|drawn| drawn.url == url) else {
            return false;
        };
        drawn.razored = razored;
        true
    }

    /// Books a page task that was leased and is settled. `first` is true where it was
    /// never fetched before, and `judged` what is said of the page, where one came.
    pub(super) fn book_fetch(
        &mut self,
        task: &Task,
        first: bool,
        judged: Option<Judged>,
        settled: &Settled,
    ) -> Result<(), StoreError> {
        let is_link = task.kind == TaskKind::Page && task.bucket != Bucket::Seed && first;
        if is_link {
            self.meta.sample.owed += self.meta.sample.share;
        }
        if matches!(
            settled,
            Settled::Retrying { .. } | Settled::Postponed { .. }
        ) {
            return Ok(());
        }
        let pending = &mut self.meta.sample.pending;
        let at = pending.iter().position(|drawn| drawn.url == task.url);
        let drawn = at.filter(|_| task.kind == TaskKind::Page);
        let drawn = drawn.map(|at| pending.remove(at));
        let counted = match settled {
            // A link that led to no page.
            Settled::Dropped { .. } => Some(None),
            _ => judged.map(Some),
        };
        match counted.filter(|_| is_link) {
            Some(page) => self.meta.sample.curve.count(task.control, page),
            None if *settled == Settled::Redirected => self.pend_target(task, drawn)?,
            None => {}
        }
        Ok(())
    }

    /// Makes pending where a drawn link redirects to, where that was never asked.
    fn pend_target(&mut self, task: &Task, drawn: Option<Drawn>) -> Result<(), StoreError> {
        let record = self.record(&keys::url(&task.url, TaskKind::Page))?;
        let (Some(drawn), Some(State::Redirected { to, .. })) = (drawn, record.map(|r| r.state))
        else {
            return Ok(());
        };
        let Ok(url) = PageUrl::parse(&to) else {
            return Ok(());
        };
        let key = keys::url(&url, TaskKind::Page);
        let Some(record) = self.record(&key)? else {
            return Ok(());
        };
        if record.bucket == Bucket::Seed
            || record.was_fetched()
            || self.is_leased(&url.host_key(), &key)
            || self.meta.sample.is_pending(&url)
        {
            return Ok(());
        }
        match record.state {
            State::Queued => self.pend(Drawn { url, ..drawn }),
            // The razor in force has judged it by the score of the link.
            State::Dropped {
                reason: Reason::Razor,
            } if self.accepts(&url, record.hops) => {
                let razored = Some(record.score);
                self.rouse(&key, TaskKind::Page, &url.host_key(), record)?;
                self.pend(Drawn { url, razored });
            }
            _ => {}
        }
        Ok(())
    }
}

impl Frontier {
    /// What was found by score, and what by chance, over all runs.
    pub fn focus(&self) -> Focus {
        self.meta.sample.curve.total()
    }

    /// The same over the course of the crawl.
    pub fn focus_curve(&self) -> &Curve {
        &self.meta.sample.curve
    }

    /// Links of the control sample that wait for their hosts.
    pub fn control_pending(&self) -> usize {
        self.meta.sample.pending.len()
    }

    /// Takes the share and the seed in force into the record.
    pub(super) fn load_sample(&mut self) -> Result<(), StoreError> {
        let stored = self.store.get(keys::SAMPLE)?;
        let known: Option<Sample> = codec::read(&*self.store, keys::SAMPLE, stored)?;
        let Control { share, seed } = self.policy.control;
        self.meta.sample = Sample {
            share,
            seed,
            ..known.unwrap_or_default()
        };
        Ok(())
    }

    /// Draws the links that are due.
    pub(super) fn draw_control(&mut self, now: u64) -> Result<(), StoreError> {
        while !self.pages_closed && self.meta.sample.share > 0.0 && self.meta.sample.owed >= 1.0 {
            let meta = self.meta.clone();
            let mut change = Change::new(&*self.store, &self.scope, &self.schedule, meta);
            // A turn without a link is lost: it is not made up for later.
            change.meta.sample.owed -= 1.0;
            self.tidy_pending(&mut change, now)?;
            if change.meta.sample.pending.len() < MAX_PENDING {
                self.draw_one(&mut change, now)?;
            }
            let change = change.gathered();
            self.commit_change(change, now)?;
        }
        Ok(())
    }

    pub(super) fn draw_one(&self, change: &mut Change<'_>, now: u64) -> Result<(), StoreError> {
        for _ in 0..MAX_TRIES {
            let Some(place) = change.meta.sample.random() else {
                return Ok(());
            };
            let key = change.get(&keys::listed(place))?.unwrap_or_default();
            let (url, record) = match self.hit(change, &key, now)? {
                Hit::Link(link) => *link,
                Hit::Out => continue,
                Hit::Gone => {
                    change.unlist(place)?;
                    continue;
                }
            };
            let razored = matches!(record.state, State::Dropped { .. }).then_some(record.score);
            if razored.is_some() {
                change.rouse(&key, TaskKind::Page, &url.host_key(), record)?;
            }
            change.pend(Drawn { url, razored });
            return Ok(());
        }
        Ok(())
    }

    fn hit(&self, change: &Change<'_>, key: &[u8], now: u64) -> Result<Hit, StoreError> {
        let (Some(record), Some((url, kind))) = (change.record(key)?, keys::url_of_key(key)) else {
            return Ok(Hit::Gone);
        };
        let host = url.host_key();
        match record.state {
            _ if record.was_fetched() => return Ok(Hit::Gone),
            State::Queued if !self.schedule.is_leased(&host, key) => {}
            State::Dropped {
                reason: Reason::Razor,
            } => {}
            State::Queued | State::Waiting { .. } => return Ok(Hit::Out),
            _ => return Ok(Hit::Gone),
        }
        let out = record.bucket == Bucket::Seed
            || self.is_given_up(&url, now)
            || change.meta.sample.is_pending(&url)
            || rescope::judge(&self.scope, &url, kind, record.hops).is_err();
        Ok(if out {
            Hit::Out
        } else {
            Hit::Link(Box::new((url, record)))
        })
    }

    /// Whether a host is given up for now. Only those with a queue are looked at: of
    /// others none is.
    fn is_given_up(&self, url: &PageUrl, now: u64) -> bool {
        let slot = self.schedule.slot(&url.host_key());
        let host = slot.and_then(|slot| self.schedule.host(slot));
        host.is_some_and(|host| host.record.parked_until.is_some_and(|until| until > now))
    }

    /// Forgets the pending links that ended without being asked, and those of hosts that
    /// are given up, so that dead hosts do not end the draws; what was above the razor is
    /// so again.
    fn tidy_pending(&self, change: &mut Change<'_>, now: u64) -> Result<(), StoreError> {
        for drawn in std::mem::take(&mut change.meta.sample.pending) {
            let key = keys::url(&drawn.url, TaskKind::Page);
            let host = drawn.url.host_key();
            let Some(record) = change.record(&key)? else {
                continue;
            };
            let stays = matches!(record.state, State::Queued | State::Waiting { .. });
            let given_up = self.is_given_up(&drawn.url, now);
            if stays && (!given_up || self.schedule.is_leased(&host, &key)) {
                change.meta.sample.pending.push(drawn);
            } else if record.state == State::Queued && drawn.razored == Some(record.score) {
                change.dequeue(TaskKind::Page, &host, &record);
                change.drop_record(&key, record, Reason::Razor)?;
            }
        }
        Ok(())
    }

    /// The first pending link of a host that can be asked for.
    pub(super) fn control_head(&self, host: &Host) -> Result<Option<Head>, StoreError> {
        for drawn in &self.meta.sample.pending {
            if drawn.url.host_key() != host.key {
                continue;
            }
            let key = keys::url(&drawn.url, TaskKind::Page);
            let stored = self.store.get(&key)?;
            let record: Option<UrlRecord> = codec::read(&*self.store, &key, stored)?;
            if let Some(record) = record
                && record.state == State::Queued
                && !host.leased.contains(&key)
            {
                let own = super::change::rank_of(&record);
                return Ok(Some(Head {
                    rank: Rank::new(Bucket::Seed, 0.0, record.seq),
                    class: class::PAGE,
                    queue_key: keys::queue(&host.key, class::PAGE, &own),
                    value: key,
                }));
            }
        }
        Ok(None)
    }
}
