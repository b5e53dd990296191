//! A map from words: short ones are numbers in it, so that finding one takes no comparison
//! of letters somewhere else in memory.

use std::borrow::Borrow;
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// The longest word that is a number, in bytes.
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

    /// The value of a word, to change it.
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
    /// An empty map with room for so many short words.
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

/// The bytes of a short word behind a 1, as a number.
fn packed(word: &str) -> Option<u128> {
    let bytes = word.as_bytes();
    if bytes.len() > SHORT {
        return None;
    }
    let mut whole = bytes.chunks_exact(8);
    let first = whole.next().and_then(|eight| eight.try_into().ok());
    let (mut key, rest) = match first {
        Some(eight) => (
            1 << 64 | u128::from(u64::from_be_bytes(eight)),
            whole.remainder(),
        ),
        None => (1, bytes),
    };
    let few = rest.iter().fold(0, |few, byte| few << 8 | u64::from(*byte));
    key = key << (8 * rest.len()) | u128::from(few);
    Some(key)
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
        assert_eq!(packed("ab"), Some(0x1_6162));
        assert_eq!(packed("abcdefghi"), Some(0x1_61_62_63_64_65_66_67_68_69));
        assert_eq!(packed(&"a".repeat(15)).map(u128::leading_zeros), Some(7));
        assert_eq!(packed(&"a".repeat(16)), None);
    }

    proptest! {
        #![proptest_config(crate::tests::usual())]

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
