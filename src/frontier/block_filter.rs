//! The text blocks that the pages of a prefix have shown.

use serde::{Deserialize, Serialize};

use crate::page::BlockPrint;

/// Known text blocks, in two Bloom filters (Bloom 1970) with two bits per block. When the newer
/// filter is full, it becomes the older one, the former older one is dropped, and a larger empty
/// filter takes its place. A small site therefore needs little memory and a large one a bounded
/// amount. The last [`MAX_BYTES`] blocks, roughly, are always remembered; at worst one in twenty
/// new blocks is mistaken for a known one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct BlockFilter {
    older: Vec<u8>,
    newer: Vec<u8>,
    /// Blocks in the newer filter; it is full at one block per byte.
    entries: u64,
}

/// Size of the first filter of a prefix in bytes, a power of two.
const MIN_BYTES: usize = 64;
/// Greatest size of a filter in bytes, a power of two.
const MAX_BYTES: usize = 1_024;

impl BlockFilter {
    /// Adds the blocks of a page. Returns the number of words in new blocks and in all
    /// blocks.
    pub fn take(&mut self, blocks: &[BlockPrint]) -> (u64, u64) {
        let mut new = 0;
        let mut all = 0;
        for block in blocks {
            let words = u64::from(block.words);
            all += words;
            if holds(&self.newer, block.hash) {
                continue;
            }
            if !holds(&self.older, block.hash) {
                new += words;
            }
            if self.entries >= self.newer.len() as u64 {
                let bytes = (self.newer.len() * 2).clamp(MIN_BYTES, MAX_BYTES);
                self.older = std::mem::replace(&mut self.newer, vec![0; bytes]);
                self.entries = 0;
            }
            for (byte, mask) in places(&self.newer, block.hash) {
                if let Some(byte) = self.newer.get_mut(byte) {
                    *byte |= mask;
                }
            }
            self.entries += 1;
        }
        (new, all)
    }
}

fn holds(filter: &[u8], hash: u32) -> bool {
    let set = |(byte, mask)| filter.get(byte).is_some_and(|b: &u8| b & mask != 0);
    places(filter, hash).into_iter().all(set)
}

/// The two positions of a block, each as a byte and a bit mask.
fn places(filter: &[u8], hash: u32) -> [(usize, u8); 2] {
    let bits = (filter.len() * 8).max(1);
    [hash & 0xffff, hash >> 16].map(|half| {
        let place = half as usize % bits;
        (place / 8, 1 << (place % 8))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(range: std::ops::Range<u32>) -> Vec<BlockPrint> {
        let print = |i: u32| BlockPrint {
            hash: (xxhash_rust::xxh3::xxh3_64(&i.to_be_bytes()) >> 32) as u32,
            words: 10,
        };
        range.map(print).collect()
    }

    #[test]
    fn what_was_met_is_not_new() {
        let mut memory = BlockFilter::default();
        assert_eq!(memory.take(&blocks(0..30)), (300, 300));
        assert_eq!(memory.newer.len(), MIN_BYTES);
        assert_eq!(memory.take(&blocks(10..32)), (20, 220));
        assert_eq!(memory.take(&[]), (0, 0));
    }

    #[test]
    fn a_catalogue_is_known_by_heart_and_an_archive_never_ends() {
        let mut memory = BlockFilter::default();
        // Forty out of nine hundred items on each page.
        let page = |i: u32| {
            let drawn = blocks(i * 40..i * 40 + 40);
            let things = drawn.iter().map(|print| print.hash % 900);
            things.flat_map(|t| blocks(t..t + 1)).collect::<Vec<_>>()
        };
        let all: u64 = (0..200).map(|i| memory.take(&page(i)).0).sum();
        let late: u64 = (200..300).map(|i| memory.take(&page(i)).0).sum();
        assert!(all >= 7_500 && late <= 100, "{all} {late}");
        let new: u64 = (0..1_000)
            .map(|i| memory.take(&blocks(10_000 + i * 30..10_030 + i * 30)).0)
            .sum();
        assert!(new >= 270_000, "{new}");
        assert!(memory.newer.len() + memory.older.len() <= 2 * MAX_BYTES);
    }
}
