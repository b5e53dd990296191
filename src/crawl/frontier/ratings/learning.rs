//! Ratings that change with every page: what a learning crawl keeps, and when it re-rates.
//!
//! A link is known by its clues ([`Clues`]), which every page that leads to it adds to.
//! When a page is finished, what it turned out to be becomes an example: it teaches the
//! [`Learning`], and lies in the same batch as the page's other effects. Every
//! [`EXAMPLES_KEPT`] examples what was learned is written as a whole and they are
//! forgotten. So whatever kills the process, what was learned is what a crawl without a
//! break would have learned of the same pages.
//!
//! Scores that are stored were right when they were written. Those that became too good
//! are lowered when it is their turn ([`lowered`](super::clues::lowered)). Those that became too
//! bad rise when another page leads there, and when all are re-rated, each time the number
//! of examples has doubled: over a whole crawl that is about one rating more a link.
//!
//! A page that is the topic's leads to pages that are, and a page that only sounds like it
//! does not. So what a page is taken for is corrected by what those of its targets turned
//! out to be that were fetched (relaxation labelling; Chakrabarti, Dom & Indyk 1998).
//!
//! This module does not know how links are rated: a [`Learning`] does.

use super::clues::Example;
use crate::crawl::frontier::added::NewTask;
use crate::crawl::frontier::codec;
use crate::crawl::frontier::keys;
use crate::crawl::frontier::outcome::Effects;
use crate::crawl::frontier::record::{State, UrlRecord, depends_on_path};
use crate::crawl::frontier::store::{Store, StoreError};
use crate::crawl::frontier::transaction::Transaction;
use crate::page::{Bucket, Clues, Heard, Outcome, Reason, Task, TaskKind};
use crate::topic::strategy::Learning;
use crate::web::scope::Scope;

/// Examples after which what was learned is written as a whole.
const EXAMPLES_KEPT: u64 = if cfg!(test) { 4 } else { 1_024 };
/// The number of examples at which all links are re-rated for the first time.
const FIRST_RERATING: u64 = 16;
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

/// A task that is finished, as a learning crawl learns from it.
pub struct Lesson<'t> {
    pub task: &'t Task,
    /// The `U` key of the task.
    pub key: &'t [u8],
    /// Its record as it was leased.
    pub record: &'t UrlRecord,
    pub outcome: &'t Outcome,
    /// Names the targets of its links.
    pub scope: &'t Scope,
}

impl Lesson<'_> {
    /// Learns from a page, and passes on to its links what it turned out to be. Returns whether
    /// all links are to be re-rated from here on.
    pub fn teach(
        &self,
        learning: &dyn Learning,
        tx: &mut Transaction<'_>,
        effects: &mut Effects,
    ) -> Result<bool, StoreError> {
        let Some(own) = self.reward(learning, tx, effects) else {
            return Ok(false);
        };
        let known = clues_of(tx, self.key)?;
        let reward = match self.outcome {
            Outcome::Done => self.pass_on(tx, effects, own, known.as_ref())?,
            _ => own,
        };
        // What was visited before has taught then; a seed has no clues.
        let clues = known.filter(|c| c.reward.is_none() && !self.record.was_fetched());
        let Some(clues) = clues else {
            return Ok(false);
        };
        if matches!(self.outcome, Outcome::Drop { .. }) {
            tx.delete(keys::clues(self.key));
        }
        learning.learn(&clues, reward);
        let examples = learning.examples();
        remember(tx, learning, Example { clues, reward })?;
        Ok(examples >= FIRST_RERATING && examples.is_power_of_two())
    }

    /// How far on topic the page turned out to be by itself, 0 to 1; `None` where the outcome
    /// says nothing of it.
    fn reward(
        &self,
        learning: &dyn Learning,
        tx: &mut Transaction<'_>,
        effects: &Effects,
    ) -> Option<f64> {
        match self.outcome {
            Outcome::Done => effects.nearness.as_ref().map(|nearness| {
                // A seed whose text was given to the model says nothing more.
                let told = self.task.bucket == Bucket::Seed && !nearness.is_of_seed();
                if !told
                    && !self.record.was_fetched()
                    && let Some(Heard { place, state }) = learning.hear(nearness)
                {
                    tx.put(keys::judged(place), state);
                }
                learning.judge(nearness)
            }),
            // A fetch that brings no page is a fetch lost.
            Outcome::Redirect { .. } => Some(0.0),
            Outcome::Drop { reason } if is_of_the_page(*reason) => Some(0.0),
            Outcome::Drop { .. } | Outcome::Unchanged | Outcome::Retry { .. } => None,
        }
    }

    /// Corrects what a page is taken for by its targets that were fetched, and has its links
    /// carry that. Returns the corrected reward.
    fn pass_on(
        &self,
        tx: &mut Transaction<'_>,
        effects: &mut Effects,
        own: f64,
        known: Option<&Clues>,
    ) -> Result<f64, StoreError> {
        let hindsight = hindsight(tx, self.scope, &effects.links)?;
        let reward = corrected(own, TARGETS_WEIGH * hindsight);
        let likely = effects.on_topic;
        effects.on_topic = likely.map(|p| corrected(p, TARGETS_COUNT * hindsight));
        let before = known.map_or(0, |clues| clues.hops);
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
        tx.write(keys::clues(self.key), &Clues::fetched(reward))?;
        Ok(reward)
    }
}

/// Keeps an example, or all that was learned in place of the examples.
fn remember(
    tx: &mut Transaction<'_>,
    learning: &dyn Learning,
    example: Example,
) -> Result<(), StoreError> {
    let examples = learning.examples();
    if !examples.is_multiple_of(EXAMPLES_KEPT) {
        return tx.write(keys::example(examples), &example);
    }
    tx.put(keys::LEARNED.to_vec(), learning.snapshot());
    for number in examples.saturating_sub(EXAMPLES_KEPT)..examples {
        tx.delete(keys::example(number));
    }
    Ok(())
}

/// Teaches a rating that knows nothing yet what this crawl has learned.
pub fn restore(learning: &dyn Learning, store: &dyn Store) -> Result<(), StoreError> {
    if learning.examples() > 0 {
        return Ok(());
    }
    if let Some(snapshot) = store.get(keys::LEARNED)?
        && !learning.restore(&snapshot)
    {
        let why = "what was learned is of another version".to_owned();
        return Err(codec::corrupt(store, keys::LEARNED, why));
    }
    for Example { clues, reward } in super::clues::examples(store)? {
        learning.learn(&clues, reward);
    }
    if !learning.restore_judge(super::clues::judged(store)?) {
        let why = "what pages are judged by is of another version".to_owned();
        return Err(codec::corrupt(store, keys::JUDGED, why));
    }
    Ok(())
}

/// What a learning crawl knows of the address of this key, what is pending included.
fn clues_of(tx: &Transaction<'_>, key: &[u8]) -> Result<Option<Clues>, StoreError> {
    tx.read(&keys::clues(key))
}

/// The same, and forgets it.
pub fn take_clues(tx: &mut Transaction<'_>, key: &[u8]) -> Result<Option<Clues>, StoreError> {
    let clues = clues_of(tx, key)?;
    if clues.is_some() {
        tx.delete(keys::clues(key));
    }
    Ok(clues)
}

/// A link that is met, as it is rated by all that is known of its address, which is
/// kept. `None` where the rating does not learn, and where the address was fetched already.
pub fn meet(
    learning: &dyn Learning,
    tx: &mut Transaction<'_>,
    key: &[u8],
    known: Option<&UrlRecord>,
    new: &NewTask,
) -> Result<Option<NewTask>, StoreError> {
    let Some(met) = &new.clues else {
        return Ok(None);
    };
    if known.is_some_and(is_over) {
        return Ok(None);
    }
    let mut task = new.clone();
    // What was never met has none.
    let before = match known {
        Some(_) => clues_of(tx, key)?,
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
    tx.write(keys::clues(key), &clues)?;
    task.clues = Some(clues);
    Ok(Some(task))
}

/// Whether no link changes any more what becomes of an address.
fn is_over(known: &UrlRecord) -> bool {
    known.bucket == Bucket::Seed
        || known.was_fetched()
        || match known.state {
            State::Redirected { .. } => true,
            // Dropped for good, on every path.
            State::Dropped { reason } => !depends_on_path(reason),
            State::Queued | State::Waiting { .. } | State::Done { .. } => false,
        }
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
fn hindsight(tx: &Transaction<'_>, scope: &Scope, links: &[NewTask]) -> Result<f64, StoreError> {
    let (mut good, mut count) = (0.0, 0.0);
    for link in links {
        let key = keys::url(&scope.canonical(&link.url), TaskKind::Page);
        if let Some(reward) = clues_of(tx, &key)?.and_then(|clues| clues.reward) {
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
