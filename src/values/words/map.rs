//! A map from words in which short words are stored as numbers, so that finding one needs no
//! comparison of letters elsewhere in memory.

use std::borrow::Borrow;
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// The longest word that is stored as a number, in bytes.
const SHORT: usize = 15;

/// A map from words to values; `L` are the long words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordMap<L: Eq + Hash, V> {
    short: FxHashMap<u128, V>,
    long: FxHashMap<L, V>,
}

impl<L: Eq + Hash, V> Default for WordMap<L, V> {
    fn default() -> Self {
        Self::with_room(0)
    }
}

impl<L: Eq + Hash + Borrow<str>, V> WordMap<L, V> {
    /// The value of a word.
    pub fn get(&self, word: &str) -> Option<&V> {
        match packed(word) {
            Some(word) => self.short.get(&word),
            None => self.long.get(word),
        }
    }

    /// The value of a word, mutable.
    pub fn get_mut(&mut self, word: &str) -> Option<&mut V> {
        match packed(word) {
            Some(word) => self.short.get_mut(&word),
            None => self.long.get_mut(word),
        }
    }

    /// Sets the value of a word.
    pub fn insert(&mut self, word: L, value: V) {
        match packed(word.borrow()) {
            Some(word) => self.short.insert(word, value),
            None => self.long.insert(word, value),
        };
    }
}

impl<L: Eq + Hash, V> WordMap<L, V> {
    /// An empty map with room for this many short words.
    pub fn with_room(words: usize) -> Self {
        let mut short = FxHashMap::default();
        short.reserve(words);
        Self {
            short,
            long: FxHashMap::default(),
        }
    }
}

impl<L: Eq + Hash + Borrow<str>, V> FromIterator<(L, V)> for WordMap<L, V> {
    fn from_iter<I: IntoIterator<Item = (L, V)>>(words: I) -> Self {
        let words = words.into_iter();
        let mut map = Self::with_room(words.size_hint().0);
        words.for_each(|(word, value)| map.insert(word, value));
        map
    }
}

/// A short word as a number: its first byte is the lowest, and a 1 is above its last. Different
/// words have different numbers, and none is 0. `None` if the word has more than 15 bytes.
pub const fn packed(word: &str) -> Option<u128> {
    let bytes = word.as_bytes();
    let length = bytes.len();
    // Both ends are read at once; if they overlap, the common bits are the same.
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        if length > SHORT {
            return None;
        }
        let (first, last) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
        let above = (last as u128) << (8 * (length - 8));
        return Some(first as u128 | above | 1 << (8 * length));
    }
    let key = if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        first as u64 | (last as u64) << (8 * (length - 4))
    } else if let [first, .., last] = bytes {
        let middle = bytes[length / 2] as u64;
        *first as u64 | middle << (8 * (length / 2)) | (*last as u64) << (8 * (length - 1))
    } else if let [only] = bytes {
        *only as u64
    } else {
        0
    };
    Some((key | 1 << (8 * length)) as u128)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_become_different_numbers() {
        let words = [
            "",
            "\0",
            "a",
            "\0a",
            "aaaaaaa",
            "aaaaaaaa",
            "aaaaaaaaa",
            "\0aaaaaaa",
        ];
        let numbers = words.map(|word| packed(word).unwrap());
        let mut different = numbers.to_vec();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), words.len());
        assert_eq!(packed("ab"), Some(0x1_6261));
        assert_eq!(packed("abcdefghi"), Some(0x1_69_68_67_66_65_64_63_62_61));
        assert_eq!(packed(&"a".repeat(15)).map(u128::leading_zeros), Some(7));
        assert_eq!(packed(&"a".repeat(16)), None);
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn a_word_is_determined_by_its_number(word in "[a-c]{0,20}|\\PC{0,6}") {
            let expected = (word.len() <= SHORT).then(|| {
                word.bytes().rev().fold(1, |key, byte| key << 8 | u128::from(byte))
            });
            prop_assert_eq!(packed(&word), expected);
        }

        #[test]
        fn it_is_a_map(
            words in proptest::collection::vec(("[ab]{0,20}|\\PC{0,6}", any::<u32>()), 0..30),
            others in proptest::collection::vec("[ab]{0,20}", 0..10),
        ) {
            let map: WordMap<&str, u32> = words.iter().map(|(w, n)| (&**w, *n)).collect();
            let expected: HashMap<&str, u32> = words.iter().map(|(w, n)| (&**w, *n)).collect();
            for word in words.iter().map(|(word, _)| word).chain(&others) {
                prop_assert_eq!(map.get(word), expected.get(&**word));
            }
        }
    }
}
