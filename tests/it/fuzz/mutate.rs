//! Makes new inputs from real ones: bits are flipped, and parts removed, doubled, exchanged or
//! spliced with another input; words that have a meaning to the reader are inserted.

use std::ops::Range;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The maximum length of an input.
const LONGEST: usize = 64 << 10;

/// Bytes that often break readers: ends, signs, quotes, escapes, broken UTF-8.
const AWKWARD: [&[u8]; 20] = [
    b"\0",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xe2\x80\xae",
    b"\r\n",
    b"\n",
    b"%",
    b"%00",
    b"\\",
    b"\"",
    b"'",
    b"-1",
    b"99999999999999999999",
    b"1e999",
];

pub(super) struct Mutator(ChaCha8Rng);

impl Mutator {
    pub(super) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// One of the seeds after one to eight changes.
    pub(super) fn next(&mut self, seeds: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
        let mut input = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(8) {
            self.change(&mut input, seeds, words);
        }
        input.truncate(LONGEST);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&str]) {
        let part = self.part(input.len());
        match self.below(9) {
            0 if !input.is_empty() => {
                let at = self.below(input.len());
                input[at] ^= 1 << self.below(8);
            }
            1 if !input.is_empty() => {
                let at = self.below(input.len());
                input[at] = self.0.next_u32() as u8;
            }
            2 => input.truncate(part.start),
            3 => drop(input.drain(part)),
            4 => {
                // Once or many times, for deep nesting or repetition.
                let copy = input[part.clone()].to_vec();
                let times = 1 << self.below(8);
                let room = LONGEST.saturating_sub(input.len());
                let times = times.min(room / copy.len().max(1));
                input.splice(part.end..part.end, copy.repeat(times));
            }
            5 => {
                let other = &seeds[self.below(seeds.len())];
                let from = self.part(other.len());
                input.splice(part, other[from].iter().copied());
            }
            6 => {
                let bytes = AWKWARD[self.below(AWKWARD.len())];
                input.splice(part.start..part.start, bytes.iter().copied());
            }
            7 => input[part].reverse(),
            _ if !words.is_empty() => {
                let word = words[self.below(words.len())].as_bytes();
                let end = match self.below(2) {
                    0 => part.start,
                    _ => part.end,
                };
                input.splice(part.start..end, word.iter().copied());
            }
            _ => {}
        }
    }

    /// A part of something of this length, usually a short one.
    fn part(&mut self, length: usize) -> Range<usize> {
        let start = self.below(length + 1);
        let most = (length - start).min(1 << self.below(12));
        start..start + self.below(most + 1)
    }

    fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }
}
