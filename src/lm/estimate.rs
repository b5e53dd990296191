//! Estimation: sentences become an interpolated modified Kneser-Ney model.
//!
//! The formulas are those of Chen & Goodman 1999 (section 3), the details those of
//! KenLM's `lmplz --discount_fallback` (Heafield et al. 2013), so that both give
//! the same model:
//!
//! - an n-gram of the highest order, or one that begins with `<s>`, counts how
//!   often it occurs; any other counts how many different words precede it;
//! - unigrams are interpolated with the uniform distribution over the vocabulary,
//!   `<unk>` and `</s>` included and `<s>` not, which is all that `<unk>` gets;
//! - `<s>` has probability 1, so that it can be scored at no cost.
//!
//! There is no hashing of n-grams. The corpus is one array of word numbers, and
//! its positions are sorted by the words that *end* there, read backwards. In that
//! order every n-gram of every order is one run of positions, named by any position
//! in it, and the n-gram without its first word is the run around it.

use std::cmp::Ordering;
use std::ops::RangeInclusive;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::tokens::Sentence;

/// The orders that can be estimated; KenLM is built to score up to 6.
pub const ORDERS: RangeInclusive<usize> = 2..=6;

/// Why no model can be estimated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EstimateError {
    /// There is not one token.
    #[error("there is no sentence to estimate a language model from; give more text of the topic")]
    EmptyCorpus,
    /// The order lies outside [`ORDERS`].
    #[error("a language model of order {order} cannot be estimated; set an order from 2 to 6")]
    Order {
        /// The order asked for.
        order: usize,
    },
    /// Positions are numbered with 32 bits.
    #[error("the corpus has more than 4,294,967,295 tokens; estimate from a part of it")]
    TooLarge,
}

/// What is taken off the counts of one order, to be given to unseen n-grams.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Discount {
    /// Off a count of 1.
    pub one: f64,
    /// Off a count of 2.
    pub two: f64,
    /// Off a count of 3 or more.
    pub three_plus: f64,
    /// True where the counts were too few for the formula, and [`Discount::FALLBACK`]
    /// stands in.
    pub fallback: bool,
}

impl Discount {
    /// The discounts of an order whose counts of counts do not give usable ones.
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
        // lmplz lets a discount of 0 pass, and then writes a back-off of log 0
        // that KenLM refuses to load.
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
/// It depends on the multiset of the sentences alone, not on their order.
#[derive(Debug, Clone)]
pub struct Estimate {
    corpus: Corpus,
    /// By order less one; in each, n-grams by their words read backwards.
    grams: Vec<Vec<Gram>>,
    discounts: Vec<Discount>,
}

/// One n-gram of an [`Estimate`].
#[derive(Debug, Clone, Copy)]
pub struct Ngram<'a> {
    words: &'a [u32],
    names: &'a [String],
    /// log10 of its probability, at most 0.
    pub log10: f32,
    /// log10 of the weight of the lower order after it; 0 where nothing follows it.
    pub backoff: f32,
}

impl<'a> Ngram<'a> {
    /// Its words, `<s>`, `</s>` and `<unk>` among them.
    pub fn words(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let names = self.names;
        self.words.iter().map(|&word| names[word as usize].as_str())
    }
}

impl Estimate {
    /// The longest n-gram's length.
    pub fn order(&self) -> usize {
        self.grams.len()
    }

    /// How many different n-grams each order has, from 1 up.
    pub fn ngram_counts(&self) -> Vec<usize> {
        self.grams.iter().map(Vec::len).collect()
    }

    /// The discounts of each order, from 1 up.
    pub fn discounts(&self) -> &[Discount] {
        &self.discounts
    }

    /// The orders whose counts were too few, so that fixed discounts stand in: to
    /// be shown as a warning, for the corpus is small or artificial.
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

    /// How many tokens these have, `</s>` not counted.
    pub fn tokens(&self) -> usize {
        self.corpus.words.len() - 1 - 2 * self.corpus.sentences
    }

    /// The n-grams of one order, sorted by their words read from the last to the
    /// first, `<unk>`, `<s>` and `</s>` before all others; none outside 1 to
    /// [`Estimate::order`].
    pub fn ngrams(&self, order: usize) -> impl Iterator<Item = Ngram<'_>> {
        let grams = order.checked_sub(1).and_then(|index| self.grams.get(index));
        grams.into_iter().flatten().map(move |gram| Ngram {
            words: &self.corpus.words[gram.end as usize + 1 - order..=gram.end as usize],
            names: &self.corpus.names,
            log10: gram.log10,
            backoff: gram.backoff,
        })
    }
}

/// Estimates a model of the given order; sentences without tokens are passed over.
///
/// # Errors
/// [`EstimateError`], where there are no tokens or the order is not one of [`ORDERS`].
pub fn estimate<'a>(
    sentences: impl IntoIterator<Item = &'a Sentence>,
    order: usize,
) -> Result<Estimate, EstimateError> {
    if !ORDERS.contains(&order) {
        return Err(EstimateError::Order { order });
    }
    let corpus = Corpus::read(sentences)?;
    let Counted {
        mut grams,
        parents,
        ending,
    } = Counted::of(&corpus, order);

    let mut discounts = Vec::with_capacity(order);
    // Probabilities of the order below, in full precision.
    let mut lower = Vec::new();
    for k in 0..order {
        let (below, this) = grams.split_at_mut(k);
        let grams = &mut this[0];
        let discount = Discount::of(counts_of_counts(grams));
        let context_of = |gram: &Gram| match k {
            0 => 0,
            _ => ending[k - 1][gram.end as usize - 1] as usize,
        };

        let mut contexts = vec![Context::default(); below.last().map_or(1, Vec::len)];
        for gram in grams.iter() {
            contexts[context_of(gram)].add(gram.count);
        }
        if let Some(below) = below.last_mut() {
            for (gram, context) in below.iter_mut().zip(&contexts) {
                gram.backoff = context.backoff(&discount);
            }
        }

        // The vocabulary of the uniform distribution lacks `<s>`.
        let uniform = 1.0 / (corpus.names.len() - 1) as f64;
        let mut probabilities = Vec::with_capacity(grams.len());
        for (index, gram) in grams.iter_mut().enumerate() {
            let shorter = match k {
                0 => uniform,
                _ => lower[parents[k][index] as usize],
            };
            let context = &contexts[context_of(gram)];
            let p = match gram.end {
                BOS_AT if k == 0 => 1.0,
                _ => context.probability(gram.count, &discount, shorter),
            };
            gram.log10 = p.log10().min(0.0) as f32;
            probabilities.push(p);
        }
        lower = probabilities;
        discounts.push(discount);
    }
    Ok(Estimate {
        corpus,
        grams,
        discounts,
    })
}

const UNK: u32 = 0;
const BOS: u32 = 1;
const EOS: u32 = 2;
const SPECIAL: [&str; 3] = ["<unk>", "<s>", "</s>"];

/// Where `<unk>` stands in every [`Corpus`], and nowhere else.
const UNK_AT: u32 = 0;
/// Where the first `<s>` stands.
const BOS_AT: u32 = 1;

/// The sentences as word numbers: `<unk>`, then each between `<s>` and `</s>`.
#[derive(Debug, Clone)]
struct Corpus {
    words: Vec<u32>,
    /// By number; after the special ones they are sorted, so that numbers compare
    /// as words do, whatever sentence came first.
    names: Vec<String>,
    sentences: usize,
}

impl Corpus {
    fn read<'a>(sentences: impl IntoIterator<Item = &'a Sentence>) -> Result<Self, EstimateError> {
        let mut words = vec![UNK];
        let mut numbers: FxHashMap<&str, u32> = FxHashMap::default();
        let mut count = 0;
        for sentence in sentences {
            if sentence.is_empty() {
                continue;
            }
            count += 1;
            words.push(BOS);
            for token in sentence.tokens() {
                let next = (SPECIAL.len() + numbers.len()) as u32;
                words.push(*numbers.entry(token).or_insert(next));
            }
            words.push(EOS);
            if u32::try_from(words.len()).is_err() {
                return Err(EstimateError::TooLarge);
            }
        }
        if count == 0 {
            return Err(EstimateError::EmptyCorpus);
        }

        let mut sorted: Vec<(&str, u32)> = numbers.into_iter().collect();
        sorted.sort_unstable();
        let mut renumbered: Vec<u32> = (0..(SPECIAL.len() + sorted.len()) as u32).collect();
        for (new, (_, old)) in (SPECIAL.len() as u32..).zip(&sorted) {
            renumbered[*old as usize] = new;
        }
        for word in &mut words {
            *word = renumbered[*word as usize];
        }
        let names = SPECIAL
            .into_iter()
            .chain(sorted.into_iter().map(|(name, _)| name))
            .map(str::to_owned)
            .collect();
        Ok(Self {
            words,
            names,
            sentences: count,
        })
    }

    /// Compares the words that end at `a` and at `b`, read backwards: at most
    /// `order` of them, and no further than `<s>`.
    fn compare(&self, a: u32, b: u32, order: usize) -> Ordering {
        for back in 0..order {
            let (x, y) = (self.words[a as usize - back], self.words[b as usize - back]);
            if x != y {
                return x.cmp(&y);
            }
            if x == BOS {
                break;
            }
        }
        Ordering::Equal
    }

    /// How many words end both at `a` and at `b`, counted as [`Corpus::compare`] does.
    fn shared(&self, a: u32, b: u32, order: usize) -> usize {
        for back in 0..order {
            let x = self.words[a as usize - back];
            if x != self.words[b as usize - back] {
                return back;
            }
            if x == BOS {
                return back + 1;
            }
        }
        order
    }
}

/// An n-gram; its length is that of the list it is in.
#[derive(Debug, Clone, Copy)]
struct Gram {
    /// A position of the corpus where it ends.
    end: u32,
    /// The adjusted count, 0 for `<unk>` and `<s>`.
    count: u32,
    log10: f32,
    backoff: f32,
}

impl Gram {
    fn ending_at(end: u32) -> Self {
        Gram {
            end,
            count: 0,
            log10: 0.0,
            backoff: 0.0,
        }
    }
}

/// All n-grams with their adjusted counts, by order less one.
struct Counted {
    grams: Vec<Vec<Gram>>,
    /// For an n-gram, the number of the one that lacks its first word.
    parents: Vec<Vec<u32>>,
    /// For a position, the number of the n-gram ending there; not kept for the
    /// highest order, which is no context.
    ending: Vec<Vec<u32>>,
}

impl Counted {
    fn of(corpus: &Corpus, order: usize) -> Self {
        let words = &corpus.words;
        let mut ends: Vec<u32> = (0..words.len() as u32)
            .filter(|&at| words[at as usize] > BOS)
            .collect();
        ends.sort_unstable_by(|&a, &b| corpus.compare(a, b, order));

        let mut grams = vec![Vec::new(); order];
        let mut parents = vec![Vec::new(); order];
        let mut ending = vec![vec![0_u32; words.len()]; order - 1];
        // Neither ends at a position in `ends`; both are in every model.
        grams[0] = vec![Gram::ending_at(UNK_AT), Gram::ending_at(BOS_AT)];
        for (number, &word) in ending[0].iter_mut().zip(words) {
            *number = u32::from(word == BOS);
        }

        // The runs that the last position lies in, one for each order.
        let mut run = vec![0_u32; order];
        let mut last = None;
        for end in ends {
            let shared = last.map_or(0, |last| corpus.shared(last, end, order));
            last = Some(end);
            for k in 0..order {
                let first = words[end as usize - k];
                if k >= shared {
                    run[k] = grams[k].len() as u32;
                    grams[k].push(Gram::ending_at(end));
                    if k > 0 {
                        parents[k].push(run[k - 1]);
                        grams[k - 1][run[k - 1] as usize].count += 1;
                    }
                }
                if first == BOS || k + 1 == order {
                    grams[k][run[k] as usize].count += 1;
                }
                if let Some(ending) = ending.get_mut(k) {
                    ending[end as usize] = run[k];
                }
                if first == BOS {
                    break;
                }
            }
        }
        Self {
            grams,
            parents,
            ending,
        }
    }
}

/// How many n-grams have the counts 1, 2, 3 and 4.
fn counts_of_counts(grams: &[Gram]) -> [u64; 4] {
    let mut n = [0; 4];
    for gram in grams {
        if let Some(n) = (gram.count as usize)
            .checked_sub(1)
            .and_then(|i| n.get_mut(i))
        {
            *n += 1;
        }
    }
    n
}

/// What follows one context, summed up.
#[derive(Debug, Clone, Copy, Default)]
struct Context {
    total: u64,
    /// Followers with the counts 1, 2, and 3 or more.
    followers: [u32; 3],
}

impl Context {
    fn add(&mut self, count: u32) {
        if let Some(class) = count.min(3).checked_sub(1) {
            self.total += u64::from(count);
            self.followers[class as usize] += 1;
        }
    }

    /// The weight of the order below: gamma of Chen & Goodman, what the discounts
    /// take off. Summed from whole numbers, so that no order of addition shows.
    fn lower_weight(&self, discount: &Discount) -> f64 {
        let [one, two, three_plus] = self.followers.map(f64::from);
        (one * discount.one + two * discount.two + three_plus * discount.three_plus)
            / self.total as f64
    }

    fn probability(&self, count: u32, discount: &Discount, shorter: f64) -> f64 {
        (f64::from(count) - discount.off(count)) / self.total as f64
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
