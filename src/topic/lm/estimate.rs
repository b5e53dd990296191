//! Estimation: sentences become an interpolated modified Kneser-Ney model.
//!
//! The formulas are from Chen & Goodman 1999 (section 3), the details from KenLM's `lmplz
//! --discount_fallback` (Heafield et al. 2013), so both give the same model:
//!
//! - the count of an n-gram of the highest order, or of one that begins with `<s>`, is its number
//!   of occurrences; for any other n-gram it is the number of different words that precede it;
//! - unigrams are interpolated with the uniform distribution over the vocabulary, with `<unk>` and
//!   `</s>` but without `<s>`, and `<unk>` gets no other probability;
//! - `<s>` has probability 1, so scoring it changes nothing.
//!
//! N-grams are neither hashed nor stored: they are runs of the sorted positions of the
//! corpus, see `runs`. Probabilities are computed order by order on request, because an
//! order needs only the one below it; this saves most of the memory.

use std::borrow::Borrow;
use std::ops::{Range, RangeInclusive};

use serde::{Deserialize, Serialize};

use super::corpus::{BOS, NgramCorpus, WordNames};
use super::error::EstimateError;
use super::runs::{self, NgramRun, NgramRuns, RunMarks};
use crate::words::Sentence;

/// The orders that can be estimated; KenLM is built to score up to 6.
pub const ORDERS: RangeInclusive<usize> = 2..=6;

/// What is subtracted from the counts of one order and given to unseen n-grams.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Discount {
    /// For a count of 1.
    pub one: f64,
    /// For a count of 2.
    pub two: f64,
    /// For a count of 3 or more.
    pub three_plus: f64,
    /// The counts were too few for the formula, so [`Discount::FALLBACK`] is used.
    pub fallback: bool,
}

impl Discount {
    /// The discounts of an order whose counts of counts yield no usable ones.
    pub const FALLBACK: Discount = Discount {
        one: 0.5,
        two: 1.0,
        three_plus: 1.5,
        fallback: true,
    };

    /// Equation 26 of Chen & Goodman; `n[i]` n-grams have the count `i + 1`.
    fn of(n: [u64; 4]) -> Discount {
        if n[..3].contains(&0) {
            return Self::FALLBACK;
        }
        let n = n.map(|count| count as f64);
        let y = n[0] / (n[0] + 2.0 * n[1]);
        let d = [1.0, 2.0, 3.0].map(|j| j - (j + 1.0) * y * n[j as usize] / n[j as usize - 1]);
        // lmplz accepts a discount of 0 and then writes a back-off of log 0, which KenLM
        // refuses to load.
        if !(0.0 < d[0] && d[0] <= 1.0 && 0.0 < d[1] && d[1] <= 2.0 && 0.0 < d[2] && d[2] <= 3.0) {
            return Self::FALLBACK;
        }
        Discount {
            one: d[0],
            two: d[1],
            three_plus: d[2],
            fallback: false,
        }
    }

    fn off(&self, count: u32) -> f64 {
        match count {
            0 => 0.0,
            1 => self.one,
            2 => self.two,
            _ => self.three_plus,
        }
    }
}

/// An estimated model: every n-gram with its probability and back-off.
///
/// It depends only on the multiset of the sentences, not on their order.
#[derive(Debug, Clone)]
pub struct Estimate {
    corpus: NgramCorpus,
    runs: NgramRuns,
    /// By order minus one.
    ngrams: Vec<usize>,
    discounts: Vec<Discount>,
}

/// One n-gram of an [`Estimate`].
#[derive(Debug, Clone, Copy)]
pub struct Ngram<'a> {
    words: [u32; *ORDERS.end()],
    order: usize,
    names: &'a WordNames,
    /// log10 of its probability, at most 0.
    pub log10: f32,
    /// log10 of the weight of the lower order after it; 0 if nothing follows it.
    pub backoff: f32,
}

impl<'a> Ngram<'a> {
    /// Its words, including `<s>`, `</s>` and `<unk>`.
    pub fn words(&self) -> impl Iterator<Item = &'a str> {
        let names = self.names;
        self.numbers().iter().map(|&word| names.get(word))
    }

    /// Its words by their numbers.
    pub(super) fn numbers(&self) -> &[u32] {
        &self.words[..self.order]
    }
}

impl Estimate {
    /// The longest n-gram's length.
    pub fn order(&self) -> usize {
        self.ngrams.len()
    }

    /// How many different n-grams each order has, from 1 up.
    pub fn ngram_counts(&self) -> Vec<usize> {
        self.ngrams.clone()
    }

    /// The discounts of each order, from 1 up.
    pub fn discounts(&self) -> &[Discount] {
        &self.discounts
    }

    /// The orders that use fixed discounts because their counts were too few. Worth a
    /// warning, because the corpus is small or artificial.
    pub fn fallbacks(&self) -> Vec<usize> {
        (1..)
            .zip(&self.discounts)
            .filter(|(_, discount)| discount.fallback)
            .map(|(order, _)| order)
            .collect()
    }

    /// How many sentences it was estimated from.
    pub fn sentences(&self) -> usize {
        self.corpus.sentences
    }

    /// How many tokens these have, excluding `</s>`.
    pub fn tokens(&self) -> usize {
        self.corpus.words.len() - 1 - 2 * self.corpus.sentences
    }

    pub(super) fn names(&self) -> &WordNames {
        &self.corpus.names
    }

    /// Computes the n-grams of each order, from 1 up, and passes them to `take`. The
    /// probabilities of an order are dropped before those of the next are computed.
    ///
    /// # Errors
    ///
    /// The first error of `take`, which ends the loop.
    pub fn each_section<E>(
        &self,
        mut take: impl FnMut(&Section<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let order = self.order();
        let before = self.runs.before();
        let mut making = Making {
            estimate: self,
            before,
            contexts: Vec::new(),
            probabilities: Vec::new(),
            lower: RunMarks::of(&self.runs, 1),
            marks: RunMarks::of(&self.runs, 1),
        };
        making.contexts = vec![making.whole()];
        for k in 1..=order {
            if k > 1 {
                making.lower = std::mem::replace(&mut making.marks, RunMarks::of(&self.runs, k));
            }
            making.probabilities = making.probabilities(k);
            making.contexts = Vec::new();
            if k < order {
                making.contexts = making.contexts(k);
            } else {
                making.before = Vec::new();
            }
            take(&Section {
                making: &making,
                order: k,
            })?;
        }
        Ok(())
    }
}

/// The n-grams of one order of an [`Estimate`], sorted by their words read from the
/// last to the first, `<unk>`, `<s>` and `</s>` before all others.
#[derive(Debug)]
pub struct Section<'a> {
    making: &'a Making<'a>,
    order: usize,
}

impl<'a> Section<'a> {
    /// Sorted positions per part.
    const PART: usize = 1 << 12;

    /// The length of its n-grams.
    pub fn order(&self) -> usize {
        self.order
    }

    /// The number of parts, which several threads may request separately.
    pub fn parts(&self) -> usize {
        self.making.estimate.runs.len().div_ceil(Self::PART)
    }

    /// The n-grams of one part, counted from 0; empty from [`Section::parts`] on.
    pub fn part(&self, part: usize) -> Vec<Ngram<'a>> {
        let Making {
            estimate,
            contexts,
            probabilities,
            marks,
            ..
        } = self.making;
        let Estimate { corpus, runs, .. } = estimate;
        let order = self.order;
        let begin = part.saturating_mul(Self::PART).min(runs.len());
        let within = begin..begin.saturating_add(Self::PART).min(runs.len());
        // Only memory accesses, so that the processor can overlap several cache misses;
        // the results are used afterwards.
        let ngram = |at| {
            let end = runs.end(at);
            let mut words = [0; *ORDERS.end()];
            words[..order].copy_from_slice(&corpus.words[end + 1 - order..=end]);
            Ngram {
                words,
                order,
                names: &corpus.names,
                log10: 0.0,
                backoff: 0.0,
            }
        };
        let mut ngrams: Vec<_> = runs.begins(order, within).map(ngram).collect();
        let above = estimate.discounts.get(order);
        for (number, ngram) in (marks.before(begin)..).zip(&mut ngrams) {
            ngram.log10 = probabilities[number].log10().min(0.0) as f32;
            ngram.backoff = above.map_or(0.0, |above| contexts[number].backoff(above));
        }
        ngrams
    }

    /// All its n-grams.
    pub fn ngrams(&self) -> impl Iterator<Item = Ngram<'a>> {
        (0..self.parts()).flat_map(|part| self.part(part))
    }
}

/// Estimates a model of the given order, skipping sentences without tokens.
///
/// # Errors
///
/// [`EstimateError`] if there are no tokens or the order is not in [`ORDERS`].
pub fn estimate(
    sentences: impl IntoIterator<Item: Borrow<Sentence>>,
    order: usize,
) -> Result<Estimate, EstimateError> {
    if !ORDERS.contains(&order) {
        return Err(EstimateError::Order { order });
    }
    let corpus = NgramCorpus::read(sentences)?;
    let runs = NgramRuns::of(&corpus, order);
    let mut ngrams = Vec::with_capacity(order);
    let mut discounts = Vec::with_capacity(order);
    for k in 1..=order {
        let mut n = 0;
        let mut counts_of_counts = [0; 4];
        for run in runs.grams(k, 0..runs.len()) {
            n += 1;
            let count = adjusted(&corpus, &runs, k, run);
            if let Some(count) = (count as usize)
                .checked_sub(1)
                .and_then(|i| counts_of_counts.get_mut(i))
            {
                *count += 1;
            }
        }
        ngrams.push(n);
        discounts.push(Discount::of(counts_of_counts));
    }
    Ok(Estimate {
        corpus,
        runs,
        ngrams,
        discounts,
    })
}

/// The count of an n-gram; 0 for `<unk>`, which never occurs, and for `<s>`, which is
/// never looked up.
fn adjusted(corpus: &NgramCorpus, runs: &NgramRuns, order: usize, run: NgramRun) -> u32 {
    match order {
        1 if corpus.words[runs.end(run.at)] <= BOS => 0,
        _ => run.count,
    }
}

/// The state from which an order's probabilities are computed, and then those of the next.
#[derive(Debug)]
struct Making<'a> {
    estimate: &'a Estimate,
    /// See [`NgramRuns::before`].
    before: Vec<u32>,
    /// Indexed by the number of the context n-gram.
    contexts: Vec<Context>,
    /// Indexed by the number of the n-gram.
    probabilities: Vec<f64>,
    /// The marks of the order below.
    lower: RunMarks,
    marks: RunMarks,
}

impl Making<'_> {
    /// The followers of the empty context: all unigrams.
    fn whole(&self) -> Context {
        let Estimate { corpus, runs, .. } = self.estimate;
        let mut whole = Context::default();
        for run in runs.grams(1, 0..runs.len()) {
            whole.add(adjusted(corpus, runs, 1, run));
        }
        whole
    }

    /// The followers of each n-gram of an order, while [`Making::marks`] belong to it.
    fn contexts(&self, order: usize) -> Vec<Context> {
        let Estimate { runs, ngrams, .. } = self.estimate;
        let mut contexts = vec![Context::default(); ngrams[order - 1]];
        for run in runs.grams(order + 1, 0..runs.len()) {
            let context = self.marks.number(self.before[run.at] as usize);
            contexts[context].add(run.count);
        }
        contexts
    }

    /// The probabilities of an order, computed from the probabilities and contexts of the
    /// order below.
    fn probabilities(&self, order: usize) -> Vec<f64> {
        let Estimate { runs, ngrams, .. } = self.estimate;
        let mut all = vec![0.0; ngrams[order - 1]];
        // More pieces than threads, because some take longer than others.
        let pieces = 4 * runs::threads();
        let size = runs.len().div_ceil(pieces);
        let mut rest = all.as_mut_slice();
        let mut work = Vec::with_capacity(pieces);
        for piece in 0..pieces {
            let within = (piece * size).min(runs.len())..((piece + 1) * size).min(runs.len());
            let n = self.marks.before(within.end) - self.marks.before(within.start);
            let (these, others) = rest.split_at_mut(n);
            work.push((within, these));
            rest = others;
        }
        runs::share(
            work,
            || (),
            |(within, these), ()| self.fill(order, within, these),
        );
        all
    }

    fn fill(&self, order: usize, within: Range<usize>, probabilities: &mut [f64]) {
        let Estimate {
            corpus,
            runs,
            discounts,
            ..
        } = self.estimate;
        let discount = &discounts[order - 1];
        // The vocabulary of the uniform distribution does not contain `<s>`.
        let uniform = 1.0 / (corpus.names.len() - 1) as f64;
        for (run, p) in runs.grams(order, within).zip(probabilities) {
            *p = match order {
                1 if corpus.words[runs.end(run.at)] == BOS => 1.0,
                1 => {
                    self.contexts[0].probability(adjusted(corpus, runs, 1, run), discount, uniform)
                }
                _ => {
                    let context = self.lower.number(self.before[run.at] as usize);
                    let shorter = self.probabilities[self.lower.number(run.at)];
                    self.contexts[context].probability(run.count, discount, shorter)
                }
            };
        }
    }
}

/// Totals of the words that follow one context.
#[derive(Debug, Clone, Copy, Default)]
struct Context {
    total: u32,
    /// Followers with the counts 1, 2, and 3 or more.
    followers: [u32; 3],
}

impl Context {
    fn add(&mut self, count: u32) {
        if let Some(class) = count.min(3).checked_sub(1) {
            self.total += count;
            self.followers[class as usize] += 1;
        }
    }

    /// The weight of the order below: gamma of Chen & Goodman, which is what the discounts
    /// subtract. Summed from whole numbers, so the order of addition does not matter.
    fn lower_weight(&self, discount: &Discount) -> f64 {
        let [one, two, three_plus] = self.followers.map(f64::from);
        (one * discount.one + two * discount.two + three_plus * discount.three_plus)
            / f64::from(self.total)
    }

    fn probability(&self, count: u32, discount: &Discount, shorter: f64) -> f64 {
        (f64::from(count) - discount.off(count)) / f64::from(self.total)
            + self.lower_weight(discount) * shorter
    }

    fn backoff(&self, discount: &Discount) -> f32 {
        match self.total {
            // Nothing follows: `</s>` and `<unk>`.
            0 => 0.0,
            _ => self.lower_weight(discount).log10() as f32,
        }
    }
}
