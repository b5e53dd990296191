//! Ratings that change with every page: what a learning crawl keeps, and when it rates
//! anew.
//!
//! A link is known by its clues ([`Clues`]), which every page that leads to it adds to.
//! When a page is finished, what it turned out to be becomes an example: it teaches the
//! [`Learning`], and lies in the same batch as the page's other effects. Every
//! [`EXAMPLES_KEPT`] examples what was learned is written as a whole and they are
//! forgotten. So whatever kills the process, what was learned is what a crawl without a
//! break would have learned of the same pages.
//!
//! Scores that are stored were right when they were written. Those that became too good
//! are lowered when it is their turn ([`Frontier::lower`]); those that became too bad
//! rise when another page leads there, and when all are rated anew, each time the number
//! of examples has doubled: over a whole crawl that is about one rating more a link.
//!
//! A page that is the topic's leads to pages that are, and a page that only sounds like it
//! does not. So what a page is taken for is corrected by what those of its targets turned
//! out to be that were fetched (relaxation labelling; Chakrabarti, Dom & Indyk 1998).
//!
//! How links are rated is not known here: a [`Learning`] is asked.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::change::{Change, is_judgement};
use super::finish::Effects;
use super::keys::{self, Rank};
use super::record::UrlRecord;
use super::rescore::Scores;
use super::schedule::Head;
use super::store::{Store, StoreError};
use super::{Frontier, NewTask, Rating, State, codec};
use crate::address::HostKey;
use crate::page::{Bucket, Clues, Heard, Outcome, Reason, Task, TaskKind};
use crate::topic::strategy::Score;

/// Examples after which what was learned is written as a whole.
const EXAMPLES_KEPT: u64 = if cfg!(test) { 4 } else { 1_024 };
/// The number of examples at which all links are rated anew for the first time.
const FIRST_RERATING: u64 = 16;
/// How much worse a stored score may have become before it is lowered instead of leased,
/// and how much better before it is lifted: hardly a page fails to change the scores of
/// all its links by a little.
const TOLERANCE: f64 = 1.05;
/// How strongly the targets of a page speak; what share of them on topic says nothing
/// either way, which is more than half as only what seemed likely was fetched; and how many
/// targets of that share are added to those that were, so that a few say little.
const TARGETS_WEIGH: f64 = 1.6;
const TARGETS_EXPECTED: f64 = 0.6;
/// How strongly they speak where pages are counted. Much less: they are judged by the same
/// words as the page, so they err where it errs, and what is added up is not evened out by
/// what is learned later.
const TARGETS_COUNT: f64 = 0.16;
const TARGETS_ADDED: f64 = 3.0;

/// What a page taught.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Example {
    /// What was known of the link.
    pub clues: Clues,
    /// How far on topic it turned out to be, 0 to 1.
    pub reward: f64,
}

impl Frontier {
    /// Teaches what a finished page turned out to be, and tells its links. Where all is to
    /// be rated anew from here on, the state of that, which is in the change as well.
    pub(super) fn learn(
        &self,
        change: &mut Change<'_>,
        task: &Task,
        key: &[u8],
        record: &UrlRecord,
        outcome: &Outcome,
        effects: &mut Effects,
    ) -> Result<Option<Scores>, StoreError> {
        let learning = self.rating.as_ref().and_then(|rating| rating.learning());
        let Some(learning) = learning.filter(|_| task.kind == TaskKind::Page) else {
            return Ok(None);
        };
        let reward = match outcome {
            Outcome::Done => effects.nearness.as_ref().map(|nearness| {
                // A seed whose text was given to the model says nothing more.
                let told = task.bucket == Bucket::Seed && !nearness.is_of_seed();
                if !told
                    && !record.was_fetched()
                    && let Some(Heard { place, state }) = learning.hear(nearness)
                {
                    change.batch.put(keys::judged(place), state);
                }
                learning.judge(nearness)
            }),
            // A fetch that brings no page is a fetch lost.
            Outcome::Redirect { .. } => Some(0.0),
            Outcome::Drop { reason } if is_of_the_page(*reason) => Some(0.0),
            Outcome::Drop { .. } | Outcome::Unchanged | Outcome::Retry { .. } => None,
        };
        let Some(mut reward) = reward else {
            return Ok(None);
        };
        let known = change.clues(key)?;
        if *outcome == Outcome::Done {
            let hindsight = hindsight(change, &effects.links)?;
            reward = corrected(reward, TARGETS_WEIGH * hindsight);
            let likely = effects.on_topic;
            effects.on_topic = likely.map(|p| corrected(p, TARGETS_COUNT * hindsight));
            let before = known.as_ref().map_or(0, |clues| clues.hops);
            let hops = if reward > 0.5 {
                0
            } else {
                before.saturating_add(1)
            };
            for clues in effects.links.iter_mut().filter_map(|l| l.clues.as_mut()) {
                clues.parent = reward as f32;
                clues.hops = hops;
                clues.cite(reward);
            }
            change.write(keys::clues(key), &Clues::fetched(reward))?;
        }
        // What was visited before has taught then; a seed has no clues.
        let clues = known.filter(|clues| clues.reward.is_none() && !record.was_fetched());
        let Some(clues) = clues else {
            return Ok(None);
        };
        if matches!(outcome, Outcome::Drop { .. }) {
            change.batch.delete(keys::clues(key));
        }
        learning.learn(&clues, reward);
        let examples = learning.examples();
        if examples.is_multiple_of(EXAMPLES_KEPT) {
            let snapshot = learning.snapshot();
            change.batch.put(keys::LEARNED.to_vec(), snapshot);
            for number in examples.saturating_sub(EXAMPLES_KEPT)..examples {
                change.batch.delete(keys::example(number));
            }
        } else {
            change.write(keys::example(examples), &Example { clues, reward })?;
        }
        if examples < FIRST_RERATING || !examples.is_power_of_two() {
            return Ok(None);
        }
        let Some(scores) = &self.scores else {
            return Ok(None);
        };
        let scores = scores.restarted();
        change.write(keys::SCORES.to_vec(), &scores)?;
        Ok(Some(scores))
    }

    /// Teaches a rating that knows nothing yet what this crawl has learned.
    pub(super) fn restore_learned(&self, rating: &dyn Rating) -> Result<(), StoreError> {
        let Some(learning) = rating.learning().filter(|l| l.examples() == 0) else {
            return Ok(());
        };
        if let Some(snapshot) = self.store.get(keys::LEARNED)?
            && !learning.restore(&snapshot)
        {
            let why = "what was learned is of another version".to_owned();
            return Err(codec::corrupt(&*self.store, keys::LEARNED, why));
        }
        for Example { clues, reward } in examples(&*self.store)? {
            learning.learn(&clues, reward);
        }
        if !learning.restore_judge(judged(&*self.store)?) {
            let why = "what pages are judged by is of another version".to_owned();
            return Err(codec::corrupt(&*self.store, keys::JUDGED, why));
        }
        Ok(())
    }

    /// Whether the next page is one to explore by, with a number drawn for it.
    pub(super) fn explores(&self) -> Option<u64> {
        let learning = self.rating.as_ref()?.learning()?;
        let open = u64::try_from(self.leases.len()).unwrap_or(u64::MAX);
        learning.explores(self.meta.counts.fetches.saturating_add(open))
    }

    /// Whether what stands first at a host is worse than its place by what was learned
    /// since; it is given the place that it is due then.
    pub(super) fn lower(
        &mut self,
        head: &Head,
        host: &HostKey,
        kind: TaskKind,
        record: &UrlRecord,
        now: u64,
    ) -> Result<bool, StoreError> {
        let learns = self.rating.as_ref().filter(|r| r.learning().is_some());
        let Some(rating) = learns.filter(|_| kind == TaskKind::Page) else {
            return Ok(false);
        };
        let score = score_of(&**rating, &*self.store, &head.value, record)?;
        let Some((score, Some(bucket))) = score else {
            return Ok(false);
        };
        let place = Rank::new(bucket, score, record.seq);
        let tolerated = Rank::new(record.bucket, record.score * TOLERANCE, record.seq);
        if !tolerated.is_better_than(&place) {
            return Ok(false);
        }
        let lowered = UrlRecord {
            score,
            bucket,
            ..record.clone()
        };
        let mut change = Change::new(&*self.store, &self.scope, &self.schedule, self.meta.clone());
        change.dequeue(kind, host, record);
        change.enqueue(&head.value, kind, host, &lowered)?;
        let change = change.gathered();
        self.commit_change(change, now)?;
        Ok(true)
    }
}

impl Change<'_> {
    /// What a learning crawl knows of the address of this key.
    pub fn clues(&self, key: &[u8]) -> Result<Option<Clues>, StoreError> {
        self.read(&keys::clues(key))
    }

    /// The same, and forgets it.
    pub fn take_clues(&mut self, key: &[u8]) -> Result<Option<Clues>, StoreError> {
        let clues = self.clues(key)?;
        if clues.is_some() {
            self.batch.delete(keys::clues(key));
        }
        Ok(clues)
    }

    /// A link that is met, as it is rated by all that is known of its address, which is
    /// kept; `None` where nobody learns, and where it was fetched already.
    pub fn meet(
        &mut self,
        key: &[u8],
        kind: TaskKind,
        known: Option<&UrlRecord>,
        new: &NewTask,
    ) -> Result<Option<NewTask>, StoreError> {
        let learning = self.rating.and_then(|rating| rating.learning());
        let (Some(learning), Some(met)) = (learning, &new.clues) else {
            return Ok(None);
        };
        let is_over = known.is_some_and(|known| {
            known.bucket == Bucket::Seed
                || known.was_fetched()
                || match known.state {
                    State::Redirected { .. } => true,
                    // Gone for good, whoever leads there.
                    State::Dropped { reason } => !is_judgement(reason),
                    State::Queued | State::Waiting { .. } | State::Done { .. } => false,
                }
        });
        if kind != TaskKind::Page || is_over {
            return Ok(None);
        }
        let mut task = new.clone();
        // What was never met has none.
        let before = match known {
            Some(_) => self.clues(key)?,
            None => None,
        };
        let clues = match before {
            Some(before) if learning.link_value(&before) > learning.link_value(met) => {
                // The path that is kept is that of the better link.
                task.parts = known.and_then(|known| known.parts).or(task.parts);
                let anchor = known.and_then(|known| known.anchor().map(str::to_owned));
                task.anchor = anchor.or(task.anchor);
                before.with(met)
            }
            Some(before) => met.clone().with(&before),
            None => met.clone(),
        };
        (task.score, task.bucket) = learning.rate(&clues, task.parts.as_ref());
        self.write(keys::clues(key), &clues)?;
        task.clues = Some(clues);
        Ok(Some(task))
    }
}

/// What is stored of the address of this key.
pub(super) fn stored(store: &dyn Store, key: &[u8]) -> Result<Option<Clues>, StoreError> {
    let key = keys::clues(key);
    codec::read(store, &key, store.get(&key)?)
}

/// The examples since the last snapshot, in order.
pub(super) fn examples(store: &dyn Store) -> Result<Vec<Example>, StoreError> {
    let mut examples = Ok(Vec::new());
    store.scan(keys::EXAMPLES, &[], &mut |key, value| {
        let example = codec::decode(store, key, value);
        match (&mut examples, example) {
            (Ok(examples), Ok(example)) => {
                examples.push(example);
                ControlFlow::Continue(())
            }
            (all, Err(broken)) => {
                *all = Err(broken);
                ControlFlow::Break(())
            }
            (Err(_), Ok(_)) => ControlFlow::Break(()),
        }
    })?;
    examples
}

/// All that the judge of pages has kept.
pub(super) fn judged(store: &dyn Store) -> Result<Vec<Heard>, StoreError> {
    let mut kept = Vec::new();
    let mut broken = None;
    store.scan(keys::JUDGED, &[], &mut |key, value| {
        let place = key.get(1..).and_then(|place| place.try_into().ok());
        let Some(place) = place.map(u16::from_be_bytes) else {
            let why = "what pages are judged by has no place".to_owned();
            broken = Some(codec::corrupt(store, key, why));
            return ControlFlow::Break(());
        };
        let state = value.to_vec();
        kept.push(Heard { place, state });
        ControlFlow::Continue(())
    })?;
    broken.map_or(Ok(kept), Err)
}

/// Whether a link that is met again goes so far before its place that it is given another.
pub(super) fn is_lifted(known: &UrlRecord, bucket: Bucket, score: f64) -> bool {
    let place = Rank::new(bucket, score, known.seq);
    place.is_better_than(&Rank::new(known.bucket, known.score / TOLERANCE, known.seq))
}

/// The score by what was learned of a link that waits to be fetched; `None` where nobody
/// learns or nothing is known of it, and for seeds.
pub(super) fn score_of(
    rating: &dyn Rating,
    store: &dyn Store,
    key: &[u8],
    record: &UrlRecord,
) -> Result<Option<Score>, StoreError> {
    let Some(learning) = rating.learning().filter(|_| record.bucket != Bucket::Seed) else {
        return Ok(None);
    };
    let clues = stored(store, key)?.filter(|clues| clues.reward.is_none());
    Ok(clues.map(|clues| learning.rate(&clues, record.parts.as_ref())))
}

/// Whether a failure says something of the page, and not of the network, the host or the
/// operator's rules.
fn is_of_the_page(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::ClientError
            | Reason::ServerError
            | Reason::BadRedirect
            | Reason::RedirectLimit
            | Reason::TooLarge
            | Reason::ContentType
            | Reason::Dns
    )
}

/// What those targets of a page say of it that were fetched, as log-odds; 0 where none was.
fn hindsight(change: &Change<'_>, links: &[NewTask]) -> Result<f64, StoreError> {
    let (mut good, mut count) = (0.0, 0.0);
    for link in links {
        let key = keys::url(&change.canonical(&link.url), TaskKind::Page);
        if let Some(reward) = change.clues(&key)?.and_then(|clues| clues.reward) {
            good += f64::from(reward);
            count += 1.0;
        }
    }
    if count == 0.0 {
        return Ok(0.0);
    }
    let share = (good + TARGETS_ADDED * TARGETS_EXPECTED) / (count + TARGETS_ADDED);
    Ok(log_odds(share) - log_odds(TARGETS_EXPECTED))
}

/// A probability whose log-odds are raised by this; as it is where nothing is known.
fn corrected(probability: f64, by: f64) -> f64 {
    if by == 0.0 {
        probability
    } else {
        1.0 / (1.0 + (-log_odds(probability) - by).exp())
    }
}

/// `ln(p / (1 - p))` of a probability, which is taken for neither 0 nor 1.
fn log_odds(probability: f64) -> f64 {
    let p = probability.clamp(1e-4, 1.0 - 1e-4);
    (p / (1.0 - p)).ln()
}
