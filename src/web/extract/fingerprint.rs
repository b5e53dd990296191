//! Fingerprints for recognising the text of a page.
//!
//! The simhash is that of Charikar (2002) over shingles of three words, as Manku, Jain and
//! Das Sarma (2007) use it for the web. A shingle never crosses a block, so the same
//! blocks in another order have the same simhash.

use rustc_hash::FxHashSet;
use xxhash_rust::xxh3::xxh3_64;

use crate::page::{BlockPrint, Prints};
use crate::words::{Block, Tokens};

/// The fewest words of a page for a simhash: if there are only a few, most are on every page of the
/// site.
const MIN_WORDS: usize = 40;
/// The number of words of a shingle.
const SHINGLE: usize = 3;
/// The most blocks that are kept.
const MAX_BLOCKS: usize = 1_000;

/// The fingerprints of a page with these tokens, and the number of words of each block.
pub(super) fn fingerprints(tokens: &Tokens) -> (Prints, Vec<u32>) {
    let mut simhash = Simhash::default();
    let mut counts = Vec::with_capacity(tokens.blocks().len());
    let mut prints = Vec::new();
    let mut seen = FxHashSet::default();
    for block in tokens.blocks() {
        let count = u32::try_from(block.len()).unwrap_or(u32::MAX);
        counts.push(count);
        if block.is_empty() {
            continue;
        }
        simhash.add_block(block);
        // Either half would work.
        let hash = (xxh3_64(block.text().as_bytes()) >> 32) as u32;
        if prints.len() < MAX_BLOCKS && seen.insert(hash) {
            prints.push(BlockPrint { hash, words: count });
        }
    }
    let prints = Prints {
        simhash: (tokens.len() >= MIN_WORDS).then(|| simhash.finish()),
        blocks: prints,
    };
    (prints, counts)
}

/// For each of 64 bits, how many features have it set.
///
/// Features are counted in bit slices: `planes[n]` contains bit n of each of the 64
/// counters since the last carry.
struct Simhash {
    planes: [u64; 8],
    carried: [u32; 64],
    /// How many are in the planes.
    features: u32,
    all: u32,
}

/// The most features that the planes can count.
const UPRIGHT: u32 = (1 << 8) - 1;

impl Default for Simhash {
    fn default() -> Self {
        Self {
            planes: [0; 8],
            carried: [0; 64],
            features: 0,
            all: 0,
        }
    }
}

/// The sum of three bits, for each of 64 places: the upper and the lower bit.
fn sum_of(a: u64, b: u64, c: u64) -> (u64, u64) {
    let either = a ^ b;
    ((a & b) | (either & c), either ^ c)
}

impl Simhash {
    /// Adds the shingles of a block, or the whole block if it is shorter.
    fn add_block(&mut self, block: Block<'_>) {
        let last = block.len().saturating_sub(SHINGLE);
        let mut eight = [0; 8];
        let mut kept = 0;
        for first in 0..=last {
            let hash = xxh3_64(block.run(first, SHINGLE).as_bytes());
            if let Some(slot) = eight.get_mut(kept) {
                *slot = hash;
            }
            kept += 1;
            if kept == eight.len() {
                self.add_eight(eight);
                kept = 0;
            }
        }
        for hash in eight.iter().take(kept) {
            self.add(*hash);
        }
    }

    /// Adds eight hashes by adders of three bits, which takes a third of the steps of
    /// adding each to all planes (Harley and Seal).
    fn add_eight(&mut self, [a, b, c, d, e, f, g, h]: [u64; 8]) {
        if self.features + 8 > UPRIGHT {
            self.carry();
            self.features = 0;
        }
        let [ones, twos, fours, eights @ ..] = &mut self.planes;
        let (two_a, one) = sum_of(*ones, a, b);
        let (two_b, one) = sum_of(one, c, d);
        let (four_a, two) = sum_of(*twos, two_a, two_b);
        let (two_a, one) = sum_of(one, e, f);
        let (two_b, one) = sum_of(one, g, h);
        let (four_b, two) = sum_of(two, two_a, two_b);
        let (mut carry, four) = sum_of(*fours, four_a, four_b);
        (*ones, *twos, *fours) = (one, two, four);
        for plane in eights {
            (*plane, carry) = (*plane ^ carry, *plane & carry);
        }
        self.features += 8;
        self.all += 8;
    }

    fn add(&mut self, hash: u64) {
        let mut carry = hash;
        for plane in &mut self.planes {
            (*plane, carry) = (*plane ^ carry, *plane & carry);
        }
        self.features += 1;
        self.all += 1;
        if self.features == UPRIGHT {
            self.carry();
            self.features = 0;
        }
    }

    fn carry(&mut self) {
        for (weight, plane) in self.planes.iter_mut().enumerate() {
            for (bit, sum) in self.carried.iter_mut().enumerate() {
                *sum += ((*plane >> bit & 1) as u32) << weight;
            }
            *plane = 0;
        }
    }

    /// The bits that are set in most features.
    fn finish(mut self) -> u64 {
        self.carry();
        let ones = self.carried.iter().enumerate();
        let ones = ones.filter(|(_, sum)| **sum * 2 > self.all);
        ones.fold(0, |hash, (bit, _)| hash | 1 << bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prints(blocks: &[String]) -> Prints {
        let tokens = Tokens::of(blocks.iter().map(String::as_str));
        let (prints, words) = super::fingerprints(&tokens);
        assert_eq!(words.len(), blocks.len());
        prints
    }

    fn text(words: usize, seed: usize) -> String {
        let word = |i: usize| format!("w{} ", "abcdefghij".repeat(1 + (i * 31 + seed * 7) % 5));
        let letter = |i: usize| char::from(b'a' + ((i * i + i * seed + seed) % 26) as u8);
        (0..words)
            .map(|i| format!("{}{}", letter(i), word(i)))
            .collect()
    }

    fn distance(a: &[String], b: &[String]) -> u32 {
        (prints(a).simhash.unwrap() ^ prints(b).simhash.unwrap()).count_ones()
    }

    #[test]
    fn few_words_have_no_simhash() {
        assert_eq!(prints(&[text(MIN_WORDS - 1, 1)]).simhash, None);
        assert!(prints(&[text(MIN_WORDS, 1)]).simhash.is_some());
        assert_eq!(prints(&["1 2 3".repeat(100)]), Prints::default());
    }

    #[test]
    fn alike_texts_have_alike_simhashes() {
        let page: Vec<String> = (0..20).map(|i| text(40, i)).collect();
        let mut changed = page.clone();
        changed[7].push_str(" and a word");
        assert!(distance(&page, &changed) <= 3);
        let other: Vec<String> = (20..40).map(|i| text(40, i)).collect();
        assert!(distance(&page, &other) > 10);
        let mut turned = page.clone();
        turned.reverse();
        assert_eq!(distance(&page, &turned), 0);
    }

    #[test]
    fn digits_and_case_make_nothing_new() {
        let page = |day: &str| vec![format!("{day} March: No events."), text(60, 1)];
        assert_eq!(prints(&page("3")), prints(&page("31")));
        let loud: Vec<String> = page("3").iter().map(|b| b.to_uppercase()).collect();
        assert_eq!(prints(&page("3")), prints(&loud));
        assert_ne!(prints(&page("x")), prints(&page("y")));
    }

    #[test]
    fn prints_never_change() {
        // Simhashes are stored: another value here requires another format of the store.
        let blocks = vec!["The keeper of the light, 1903.".to_owned(), text(50, 3)];
        let prints = prints(&blocks);
        assert_eq!((prints.blocks[0].words, prints.blocks[1].words), (5, 50));
        assert_eq!(prints.blocks[0].hash, 3_333_888_171);
        assert_eq!(prints.simhash, Some(14_553_985_158_882_726_347));
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn a_simhash_is_what_most_features_have(seed: u64, count in 0_u64..1_000) {
            let features = || (0..count).map(|n| xxh3_64(&(seed ^ n).to_le_bytes()));
            let mut simhash = Simhash::default();
            let all: Vec<u64> = features().collect();
            let (eights, rest) = all.as_chunks::<8>();
            eights.iter().for_each(|eight| simhash.add_eight(*eight));
            rest.iter().for_each(|feature| simhash.add(*feature));
            let most = |bit: u64| {
                let have = features().filter(|feature| feature >> bit & 1 == 1).count() as u64;
                u64::from(have * 2 > count) << bit
            };
            prop_assert_eq!(simhash.finish(), (0..64).map(most).sum::<u64>());
        }

        #[test]
        fn prints_of_anything(blocks in proptest::collection::vec("\\PC{0,80}", 0..8)) {
            let found = prints(&blocks);
            prop_assert!(found.blocks.len() <= blocks.len());
            prop_assert!(found.blocks.iter().all(|b| b.words > 0));
        }
    }
}
