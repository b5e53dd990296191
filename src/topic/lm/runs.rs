//! Every n-gram of a corpus, of every order, in one sorted array.
//!
//! The positions of the corpus are sorted by the words that *end* there, read backwards: at most as
//! many as the model's order, and not beyond `<s>`. After sorting, every n-gram of every order is
//! one run of positions, identified by its first position, and the n-gram without its first word is
//! the run around it. So n-grams are never stored: two small numbers per position ([`Step`]) mark
//! where the runs of each order begin, and an n-gram's number is the number of runs that begin
//! before it.
//!
//! The n-gram without its *last* word, its context, ends one position earlier in the
//! corpus; [`NgramRuns::before`] gives the sorted place of that position, and [`RunMarks`] the run
//! of an order that contains it.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::corpus::{BOS, NgramCorpus};

/// The number of worker threads, each with its own scratch memory.
pub(super) fn threads() -> usize {
    thread::available_parallelism().map_or(1, |threads| threads.get().min(8))
}

/// Divides the work among threads, each with its own tool.
pub(super) fn share<W: Send, T>(
    work: Vec<W>,
    tool: impl Fn() -> T + Sync,
    task: impl Fn(W, &mut T) + Sync,
) {
    let work = Mutex::new(work.into_iter());
    thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                let mut tool = tool();
                loop {
                    let next = work.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(next) = next else { break };
                    task(next, &mut tool);
                }
            });
        }
    });
}

/// What is recorded at a sorted position about the n-grams that end there.
#[derive(Debug, Clone, Copy, Default)]
struct Step(u8);

impl Step {
    fn new(shared: usize, depth: usize) -> Self {
        Step((depth << 4 | shared) as u8)
    }

    /// How many words match those of the position sorted before.
    fn shared(self) -> usize {
        usize::from(self.0 & 15)
    }

    /// The longest n-gram that ends here: it has the model's order or begins with
    /// `<s>`.
    fn depth(self) -> usize {
        usize::from(self.0 >> 4)
    }

    /// Whether a run of this order begins here.
    fn begins(self, order: usize) -> bool {
        self.shared() < order && order <= self.depth()
    }
}

/// The positions of a corpus in the order of the words that end there.
#[derive(Debug, Clone)]
pub(super) struct NgramRuns {
    order: usize,
    ends: Vec<u32>,
    steps: Vec<Step>,
}

/// One n-gram.
#[derive(Debug, Clone, Copy)]
pub(super) struct NgramRun {
    /// The first of its sorted positions.
    pub(super) at: usize,
    /// Its adjusted count: its number of occurrences if it is of the highest order or
    /// begins with `<s>`, else the number of different words that precede it.
    pub(super) count: u32,
}

impl NgramRuns {
    pub(super) fn of(corpus: &NgramCorpus, order: usize) -> Self {
        let words = &corpus.words;
        let mut starts = vec![0_u32; corpus.names.len() + 1];
        for &word in words {
            starts[word as usize + 1] += 1;
        }
        for word in 1..starts.len() {
            starts[word] += starts[word - 1];
        }
        let mut ends = vec![0; words.len()];
        let mut next = starts.clone();
        for (at, &word) in (0..).zip(words) {
            let next = &mut next[word as usize];
            ends[*next as usize] = at;
            *next += 1;
        }
        drop(next);

        let mut steps = vec![Step::default(); words.len()];
        share(
            shares(&starts, &mut ends, &mut steps),
            Vec::new,
            |share, keys| {
                share.sort(words, order, keys);
            },
        );
        Self { order, ends, steps }
    }

    /// The number of positions.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The position in the corpus that was sorted to `at`.
    pub(super) fn end(&self, at: usize) -> usize {
        self.ends[at] as usize
    }

    /// The n-grams of one order that begin within some sorted positions.
    pub(super) fn grams(
        &self,
        order: usize,
        within: Range<usize>,
    ) -> impl Iterator<Item = NgramRun> {
        let mut at = within.start;
        std::iter::from_fn(move || {
            let begin = at
                + self.steps[at..within.end]
                    .iter()
                    .position(|step| step.begins(order))?;
            let raw = order == self.order || self.steps[begin].depth() == order;
            let mut count = 1;
            at = begin + 1;
            while let Some(step) = self.steps.get(at).filter(|step| step.shared() >= order) {
                count += u32::from(raw || step.shared() == order);
                at += 1;
            }
            at = at.min(within.end);
            Some(NgramRun { at: begin, count })
        })
    }

    /// Where the n-grams of one order begin within some sorted positions.
    pub(super) fn begins(&self, order: usize, within: Range<usize>) -> impl Iterator<Item = usize> {
        within.filter(move |&at| self.steps[at].begins(order))
    }

    /// For each sorted position, the sorted place of the preceding position in the corpus.
    pub(super) fn before(&self) -> Vec<u32> {
        let mut rank = vec![0; self.ends.len()];
        for (at, &end) in (0..).zip(&self.ends) {
            rank[end as usize] = at;
        }
        self.ends
            .iter()
            .map(|&end| rank[end.saturating_sub(1) as usize])
            .collect()
    }
}

/// A group of sorted positions that end with a range of consecutive words.
struct Share<'a> {
    /// Where each word's positions begin, and the end of the last word's.
    starts: &'a [u32],
    ends: &'a mut [u32],
    steps: &'a mut [Step],
}

/// Splits the positions into shares of work, none much larger than its largest word.
fn shares<'a>(
    starts: &'a [u32],
    mut ends: &'a mut [u32],
    mut steps: &'a mut [Step],
) -> Vec<Share<'a>> {
    const ENOUGH: u32 = 1 << 16;
    let mut shares = Vec::new();
    let mut first = 0;
    for last in 1..starts.len() {
        let n = starts[last] - starts[first];
        if n >= ENOUGH || last + 1 == starts.len() {
            let (its_ends, other_ends) = ends.split_at_mut(n as usize);
            let (its_steps, other_steps) = steps.split_at_mut(n as usize);
            shares.push(Share {
                starts: &starts[first..=last],
                ends: its_ends,
                steps: its_steps,
            });
            (ends, steps, first) = (other_ends, other_steps, last);
        }
    }
    shares
}

impl Share<'_> {
    fn sort(self, words: &[u32], order: usize, keys: &mut Vec<ContextKey>) {
        for bucket in self.starts.windows(2) {
            let range =
                (bucket[0] - self.starts[0]) as usize..(bucket[1] - self.starts[0]) as usize;
            let ends = &mut self.ends[range.clone()];
            keys.clear();
            keys.extend(ends.iter().map(|&end| ContextKey::of(words, end, order)));
            keys.sort_unstable();
            let mut last: Option<ContextKey> = None;
            for ((&key, end), step) in keys.iter().zip(ends).zip(&mut self.steps[range]) {
                let depth = key.depth();
                *end = key.end();
                *step = Step::new(last.map_or(0, |last| last.shared(key).min(depth)), depth);
                last = Some(key);
            }
        }
    }
}

/// A position, represented by the words before the one that ends there, the last of them
/// first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ContextKey {
    /// Four words; 0, which is `<unk>`, if there is none.
    four: u128,
    /// A fifth word and the position.
    fifth: u64,
}

impl ContextKey {
    fn of(words: &[u32], end: u32, order: usize) -> Self {
        let mut key = ContextKey {
            four: 0,
            fifth: u64::from(end),
        };
        let end = end as usize;
        if words[end] <= BOS {
            return key;
        }
        for back in 1..order {
            let word = words[end - back];
            match back {
                1..5 => key.four |= u128::from(word) << (128 - 32 * back),
                _ => key.fifth |= u64::from(word) << 32,
            }
            if word == BOS {
                break;
            }
        }
        key
    }

    fn end(self) -> u32 {
        self.fifth as u32
    }

    /// See [`Step::depth`].
    fn depth(self) -> usize {
        match (self.four, self.fifth >> 32) {
            (0, _) => 1,
            (four, 0) => 5 - four.trailing_zeros() as usize / 32,
            _ => 6,
        }
    }

    /// How many words it shares with another key, counting the word that ends there and
    /// those missing in both.
    fn shared(self, other: Self) -> usize {
        match (self.four ^ other.four, (self.fifth ^ other.fifth) >> 32) {
            (0, 0) => 6,
            (0, _) => 5,
            (four, _) => 1 + four.leading_zeros() as usize / 32,
        }
    }
}

/// Where the runs of one order begin, with fast counting up to any place.
#[derive(Debug)]
pub(super) struct RunMarks {
    /// 64 bits, one per position, and the number of bits set before them.
    blocks: Vec<(u64, u32)>,
}

impl RunMarks {
    pub(super) fn of(runs: &NgramRuns, order: usize) -> Self {
        let mut begun = 0;
        let block = |steps: &[Step]| {
            let bits = (0..).zip(steps).fold(0, |bits, (i, step)| {
                bits | u64::from(step.begins(order)) << i
            });
            let before = begun;
            begun += bits.count_ones();
            (bits, before)
        };
        let mut blocks: Vec<(u64, u32)> = runs.steps.chunks(64).map(block).collect();
        blocks.push((0, begun));
        Self { blocks }
    }

    /// The number of runs that begin before the sorted position `at`.
    pub(super) fn before(&self, at: usize) -> usize {
        let (bits, before) = self.blocks[at / 64];
        let earlier = bits & !(u64::MAX << (at % 64));
        before as usize + earlier.count_ones() as usize
    }

    /// The number of the run that contains `at`; there must be one.
    pub(super) fn number(&self, at: usize) -> usize {
        self.before(at + 1) - 1
    }
}
