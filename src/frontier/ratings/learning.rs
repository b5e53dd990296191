//! Ratings that change with every page: the stored state of a learning crawl, and when it
//! re-rates.
//!
//! A link has features ([`Clues`]), and every page with a link to it adds to them. The
//! result of a finished page becomes an example: it trains the [`Learning`], and is in
//! the same batch as the page's other effects. Every [`EXAMPLES_KEPT`] examples the whole
//! learned state is written and the examples are deleted. So after a crash the learned
//! state is the same as that of an uninterrupted crawl of the same pages.
//!
//! Stored scores were right when they were written. Scores that are now too good are lowered when
//! the link reaches the head ([`lowered`](super::clues::lowered)). Scores that are now too bad rise
//! when another page links there, and when all links are re-rated. That happens each time the
//! number of examples has doubled: over a whole crawl, about one more rating per link.
//!
//! A page on the topic links to other pages on the topic; a page with merely similar
//! words does not. So the judgement of a page is corrected by the results of its fetched
//! targets (relaxation labelling; Chakrabarti, Dom & Indyk 1998).
//!
//! This module does not know how links are rated: a [`Learning`] does.

use super::clues::Example;
use super::shared::SharedLesson;
use super::verdicts::{Verdict, Verdicts};
use crate::added::NewTask;
use crate::cell::Home;
use crate::codec;
use crate::keys;
use crate::outcome::Effects;
use crate::page::{Bucket, Clues, Heard, Nearness, Outcome, Reason, Task, TaskKind};
use crate::record::{State, UrlRecord, depends_on_path};
use crate::store::{Store, StoreError};
use crate::topic::strategy::Learning;
use crate::transaction::Transaction;
use crate::web::scope::Scope;

/// Examples after which the whole learned state is written.
const EXAMPLES_KEPT: u64 = if cfg!(test) { 4 } else { 1_024 };
/// The number of examples at which all links are re-rated for the first time.
const FIRST_RERATING: u64 = 16;
/// The weight of a page's targets; the neutral share of on-topic targets, which is more
/// than half because only promising links were fetched; and the number of targets with
/// that share that are added as a prior, so that few targets have little effect.
const TARGETS_WEIGH: f64 = 1.6;
const TARGETS_EXPECTED: f64 = 0.6;
/// Their weight when pages are counted. Much less: targets are judged by the same words
/// as the page, so the errors are correlated, and later learning does not correct a
/// count.
const TARGETS_COUNT: f64 = 0.16;
const TARGETS_ADDED: f64 = 3.0;

/// A finished task, as input for learning.
pub struct Lesson<'t> {
    pub task: &'t Task,
    /// The `U` key of the task.
    pub key: &'t [u8],
    /// Its record as it was leased.
    pub record: &'t UrlRecord,
    pub outcome: &'t Outcome,
    /// Gives the canonical addresses of the targets of its links.
    pub scope: &'t Scope,
    /// The cell of the task.
    pub home: Home,
    /// Whether machines learn together; the lesson is then only recorded for sending.
    pub is_shared: bool,
    /// The verdicts on pages of other machines, if there are any.
    pub verdicts: Option<&'t Verdicts>,
}

impl Lesson<'_> {
    /// Learns from a page, and updates the features of its links with the result. Returns
    /// whether all links are to be re-rated now.
    pub fn teach(
        &self,
        learning: &dyn Learning,
        tx: &mut Transaction<'_>,
        effects: &mut Effects,
    ) -> Result<bool, StoreError> {
        let heard = self.heard(effects);
        if !self.is_shared
            && let Some(Heard { place, state }) = heard.and_then(|new| learning.hear(new))
        {
            tx.put(keys::judged(place), state);
        }
        let heard = heard.filter(|_| self.is_shared).cloned();
        let Some(own) = self.reward(learning, effects) else {
            return Ok(false);
        };
        let known = clues_of(tx, self.key)?;
        let reward = match self.outcome {
            Outcome::Done => self.pass_on(tx, effects, own, known.as_ref())?,
            _ => own,
        };
        // A page that was visited before is already an example; a seed has no features.
        let clues = known.filter(|c| c.reward.is_none() && !self.record.was_fetched());
        if clues.is_some() && matches!(self.outcome, Outcome::Drop { .. }) {
            tx.delete(keys::clues(self.key));
        }
        let example = clues.map(|clues| Example { clues, reward });
        if self.is_shared {
            let is_fetched = matches!(self.outcome, Outcome::Done);
            let verdict = is_fetched.then(|| Verdict::of(self.key, reward));
            let lesson = SharedLesson {
                heard,
                example,
                verdict,
            };
            return self.write_lesson(tx, lesson);
        }
        match example {
            Some(example) => take_in(tx, learning, example),
            None => Ok(false),
        }
    }

    /// Writes the lesson for all machines. Nothing is learned before it comes back.
    fn write_lesson(
        &self,
        tx: &mut Transaction<'_>,
        lesson: SharedLesson,
    ) -> Result<bool, StoreError> {
        if !lesson.is_empty() {
            // The number of the commit that will contain this.
            let commit = tx.meta.commits.saturating_add(1);
            tx.write(keys::lesson(self.home.cell, commit), &lesson)?;
        }
        Ok(false)
    }

    /// What the judge learns from the page.
    fn heard<'e>(&self, effects: &'e Effects) -> Option<&'e Nearness> {
        let nearness = match self.outcome {
            Outcome::Done => effects.nearness.as_ref()?,
            _ => return None,
        };
        // A seed whose text the model was trained on gives no new information.
        let is_known = self.task.bucket == Bucket::Seed && !nearness.is_of_seed();
        (!is_known && !self.record.was_fetched()).then_some(nearness)
    }

    /// How far the page itself turned out to be on topic, 0 to 1; `None` if the outcome does not
    /// show it.
    fn reward(&self, learning: &dyn Learning, effects: &Effects) -> Option<f64> {
        match self.outcome {
            Outcome::Done => {
                let nearness = effects.nearness.as_ref();
                nearness.map(|nearness| learning.judge(nearness))
            }
            // A fetch that returns no page is wasted.
            Outcome::Redirect { .. } => Some(0.0),
            Outcome::Drop { reason } if is_of_the_page(*reason) => Some(0.0),
            Outcome::Drop { .. } | Outcome::Unchanged | Outcome::Retry { .. } => None,
        }
    }

    /// Corrects the judgement of a page by its fetched targets, and updates the features
    /// of its links. Returns the corrected reward.
    fn pass_on(
        &self,
        tx: &mut Transaction<'_>,
        effects: &mut Effects,
        own: f64,
        known: Option<&Clues>,
    ) -> Result<f64, StoreError> {
        let hindsight = self.hindsight(tx, &effects.links)?;
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
        if let Some(verdicts) = self.verdicts {
            verdicts.add(Verdict::of(self.key, reward));
        }
        Ok(reward)
    }

    /// The evidence from a page's fetched targets about the page, as log-odds; 0 if none was
    /// fetched. Targets in another cell of this store are looked up there, and targets that other
    /// machines have fetched are looked up in their verdicts.
    fn hindsight(&self, tx: &Transaction<'_>, links: &[NewTask]) -> Result<f64, StoreError> {
        let (mut good, mut count) = (0.0, 0.0);
        for link in links {
            let url = self.scope.canonical(&link.url);
            let page = keys::url(&url, TaskKind::Page);
            let key = keys::clues(&page);
            let other = self.home.elsewhere(&url.host_key());
            let clues: Option<Clues> = match other {
                Some(cell) => tx.read(&keys::elsewhere(cell, &key))?,
                None => tx.read(&key)?,
            };
            let own = clues.and_then(|clues| clues.reward);
            let elsewhere = || self.verdicts?.of(&page);
            if let Some(reward) = own.or_else(elsewhere) {
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
}

/// Learns from an example. Returns whether all links are to be re-rated now.
pub fn take_in(
    tx: &mut Transaction<'_>,
    learning: &dyn Learning,
    example: Example,
) -> Result<bool, StoreError> {
    learning.learn(&example.clues, example.reward);
    let examples = learning.examples();
    remember(tx, learning, example)?;
    Ok(examples >= FIRST_RERATING && examples.is_power_of_two())
}

/// Stores an example, or the whole learned state in place of the examples.
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

/// Restores the learned state of this crawl into a new rating.
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

/// The features of the address with this key, including pending changes.
fn clues_of(tx: &Transaction<'_>, key: &[u8]) -> Result<Option<Clues>, StoreError> {
    tx.read(&keys::clues(key))
}

/// The same, and deletes them.
pub fn take_clues(tx: &mut Transaction<'_>, key: &[u8]) -> Result<Option<Clues>, StoreError> {
    let clues = clues_of(tx, key)?;
    if clues.is_some() {
        tx.delete(keys::clues(key));
    }
    Ok(clues)
}

/// The rating of a found link by all known features of its address, which are stored
/// where they change. `None` if the rating does not learn, and if the address was fetched already.
pub fn meet(
    learning: &dyn Learning,
    tx: &mut Transaction<'_>,
    key: &[u8],
    known: Option<&UrlRecord>,
    new: &NewTask,
) -> Result<Option<NewTask>, StoreError> {
    if new.clues.is_none() || known.is_some_and(is_over) {
        return Ok(None);
    }
    let mut task = new.clone();
    let Some(met) = task.clues.take() else {
        return Ok(None);
    };
    let place = keys::clues(key);
    // A new address has no features.
    let stored = match known {
        Some(_) => tx.get(&place)?,
        None => None,
    };
    let before = stored.as_deref();
    let before = before.map(|bytes| codec::decode::<Clues>(tx.store(), &place, bytes));
    let before = before.transpose()?;
    let parts = known.and_then(|known| known.parts);
    let value = |clues, parts: &Option<_>| learning.link_value(clues, parts.as_ref());
    let clues = match before {
        Some(before) if value(&before, &parts) > value(&met, &new.parts) => {
            // The stored path is that of the better link.
            task.parts = parts.or(task.parts);
            let anchor = known.and_then(|known| known.anchor().map(str::to_owned));
            task.anchor = anchor.or(task.anchor);
            before.with(&met)
        }
        Some(before) => met.with(&before),
        None => met,
    };
    (task.score, task.bucket) = learning.rate(&clues, task.parts.as_ref());
    let bytes = codec::encode(tx.store(), &clues)?;
    if stored.as_deref() != Some(bytes.as_slice()) {
        tx.put(place, bytes);
    }
    task.clues = Some(clues);
    Ok(Some(task))
}

/// Whether further links cannot change the state of an address.
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

/// Whether a failure is evidence about the page, and not about the network, the host or
/// the operator's rules.
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

/// A probability with its log-odds raised by `by`; unchanged where `by` is 0.
fn corrected(probability: f64, by: f64) -> f64 {
    if by == 0.0 {
        probability
    } else {
        1.0 / (1.0 + (-log_odds(probability) - by).exp())
    }
}

/// `ln(p / (1 - p))` of a probability, clamped away from 0 and 1.
fn log_odds(probability: f64) -> f64 {
    let p = probability.clamp(1e-4, 1.0 - 1e-4);
    (p / (1.0 - p)).ln()
}
