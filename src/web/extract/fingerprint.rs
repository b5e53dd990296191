//! Fingerprints, by which the text of a page is recognised.
//!
//! The simhash is that of Charikar (2002) over shingles of three words, as Manku, Jain and
//! Das Sarma (2007) use it for the web. A shingle never crosses a block, so the same
//! blocks in another order have the same simhash.

use std::collections::HashSet;

use unicode_segmentation::UnicodeSegmentation;
use xxhash_rust::xxh3::xxh3_64;

use crate::page::{BlockPrint, Prints};

/// The fewest words of a page for a simhash: of a few words most belong to the site, on
/// every page.
const MIN_WORDS: usize = 40;
/// The number of words of a shingle.
const SHINGLE: usize = 3;
/// The most blocks that are kept.
const MAX_BLOCKS: usize = 1_000;

/// The fingerprints of a page with these blocks of text, and the number of words of each.
pub(super) fn fingerprints(blocks: &[String]) -> (Prints, Vec<u32>) {
    let mut simhash = Simhash::default();
    let mut counts = Vec::with_capacity(blocks.len());
    let mut prints = Vec::new();
    let mut seen = HashSet::new();
    let mut all_words = 0;
    let (mut text, mut starts) = (String::new(), Vec::new());
    for block in blocks {
        normal(block, &mut text, &mut starts);
        let words = starts.len();
        let count = u32::try_from(words).unwrap_or(u32::MAX);
        counts.push(count);
        if words == 0 {
            continue;
        }
        all_words += words;
        simhash.add_block(text.as_bytes(), &starts);
        // Either half would do.
        let hash = (xxh3_64(text.as_bytes()) >> 32) as u32;
        if prints.len() < MAX_BLOCKS && seen.insert(hash) {
            prints.push(BlockPrint { hash, words: count });
        }
    }
    let prints = Prints {
        simhash: (all_words >= MIN_WORDS).then(|| simhash.finish()),
        blocks: prints,
    };
    (prints, counts)
}

/// Sets `text` to the words of a block, each followed by a space, and `starts` to where
/// each begins. Digits are left out, and words that consist of digits with them.
fn normal(block: &str, text: &mut String, starts: &mut Vec<usize>) {
    text.clear();
    starts.clear();
    for word in words(block) {
        let start = text.len();
        if !word.is_ascii() {
            let letters = word.chars().filter(|c| !c.is_numeric());
            text.extend(letters.flat_map(char::to_lowercase));
        } else if word.bytes().any(|b| b.is_ascii_digit()) {
            text.extend(word.split(|c: char| c.is_ascii_digit()));
        } else {
            text.push_str(word);
        }
        if text.len() > start {
            starts.push(start);
            text.push(' ');
        }
    }
    text.make_ascii_lowercase();
}

/// The words of UAX #29. For ASCII the rules are short, and `unicode-segmentation` has a
/// fast path for them; a space before another ASCII character ends a word in any text, so
/// the long rules apply only around other characters.
fn words(block: &str) -> impl Iterator<Item = &str> {
    let mut rest = block;
    let is_end = |pair: &[u8]| matches!(pair, [b' ', next] if next.is_ascii() && *next != b' ');
    let parts = std::iter::from_fn(move || {
        let bytes = rest.as_bytes();
        let other = if bytes.is_ascii() {
            None
        } else {
            bytes.iter().position(|b| !b.is_ascii())
        };
        let end = other.map(|at| {
            let (ascii, other) = bytes.split_at(at);
            let before = ascii.windows(2).rposition(is_end);
            let behind = || other.windows(2).position(is_end).map(|n| at + n);
            before.map(|n| n + 1).or_else(behind)
        });
        let (part, after) = rest.split_at(end.flatten().unwrap_or(rest.len()));
        rest = after;
        Some(part).filter(|part| !part.is_empty())
    });
    parts.flat_map(|part| {
        let is_ascii = part.is_ascii();
        let (ascii, other) = if is_ascii { (part, "") } else { ("", part) };
        AsciiWords { rest: ascii }.chain(other.unicode_words())
    })
}

/// The words of ASCII text: letters, digits and underscores, and signs between them that
/// belong to words such as `can't` and to numbers such as `1,000.5`.
struct AsciiWords<'t> {
    rest: &'t str,
}

impl<'t> Iterator for AsciiWords<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        loop {
            let bytes = self.rest.as_bytes();
            let start = bytes.iter().position(|b| is_word(*b))?;
            let mut at = start + 1;
            let mut has_letter_or_digit = bytes.get(start) != Some(&b'_');
            while let Some(byte) = bytes.get(at) {
                if is_word(*byte) {
                    has_letter_or_digit |= *byte != b'_';
                    at += 1;
                    continue;
                }
                match (bytes.get(at - 1), bytes.get(at + 1)) {
                    (Some(before), Some(after)) if joins(*before, *byte, *after) => at += 2,
                    _ => break,
                }
            }
            let word = self.rest.get(start..at).unwrap_or_default();
            self.rest = self.rest.get(at..).unwrap_or_default();
            if has_letter_or_digit {
                return Some(word);
            }
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a sign belongs to the word around it (rules WB6, WB7, WB11 and WB12).
fn joins(before: u8, sign: u8, after: u8) -> bool {
    let letters = before.is_ascii_alphabetic() && after.is_ascii_alphabetic();
    let digits = before.is_ascii_digit() && after.is_ascii_digit();
    match sign {
        b'.' | b'\'' => letters || digits,
        b':' => letters,
        b',' | b';' => digits,
        _ => false,
    }
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
    fn add_block(&mut self, text: &[u8], starts: &[usize]) {
        let last = starts.len().saturating_sub(SHINGLE);
        let mut eight = [0; 8];
        let mut kept = 0;
        for (i, start) in starts.iter().take(last + 1).enumerate() {
            let end = starts.get(i + SHINGLE).copied().unwrap_or(text.len());
            let hash = xxh3_64(text.get(*start..end).unwrap_or_default());
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

    /// The bits that most features have set.
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
        let (prints, words) = super::fingerprints(blocks);
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
        // They are stored: another value here needs another format of the store.
        let blocks = vec!["The keeper of the light, 1903.".to_owned(), text(50, 3)];
        let prints = prints(&blocks);
        assert_eq!((prints.blocks[0].words, prints.blocks[1].words), (5, 50));
        assert_eq!(prints.blocks[0].hash, 3_333_888_171);
        assert_eq!(prints.simhash, Some(14_553_985_158_882_726_347));
    }

    proptest! {
        #![proptest_config(crate::tests::usual())]

        #[test]
        fn words_are_those_of_unicode(text in "[ -~é\u{301}\u{200D}हि\u{A0}]{0,60}|[a-c1 ._,'é\u{301}\u{93F}]{0,20}|\\PC{0,40}") {
            prop_assert!(words(&text).eq(text.unicode_words()));
        }

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
