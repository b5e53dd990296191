//! The meaning of an element's name, found with one or two comparisons of numbers: a `match` on
//! about a hundred texts compares them one after the other, several times for each element of a
//! page.

use crate::words::packed;

/// Slots in a table; more than twice the number of names.
const PLACES: usize = 256;

/// A table from names to values, built by the compiler.
#[derive(Debug)]
pub(super) struct NameTable<T> {
    places: [(u128, T); PLACES],
    other: T,
}

impl<T: Copy> NameTable<T> {
    /// A table of these names, grouped by their values. All other names have the value
    /// `other`.
    pub(super) const fn new(groups: &[(T, &[&str])], other: T) -> Self {
        let mut table = Self {
            places: [(0, other); PLACES],
            other,
        };
        let mut group = 0;
        while group < groups.len() {
            let (value, names) = groups[group];
            let mut at = 0;
            while at < names.len() {
                table.add(names[at], value);
                at += 1;
            }
            group += 1;
        }
        table
    }

    /// The same of names that are separated by spaces.
    pub(super) const fn of_words(groups: &[(T, &str)], other: T) -> Self {
        let mut table = Self::new(&[], other);
        let mut group = 0;
        while group < groups.len() {
            let (value, mut words) = groups[group];
            let mut at = 0;
            while at < words.len() {
                if words.as_bytes()[at] == b' ' {
                    table.add(words.split_at(at).0, value);
                    words = words.split_at(at + 1).1;
                    at = 0;
                } else {
                    at += 1;
                }
            }
            table.add(words, value);
            group += 1;
        }
        table
    }

    const fn add(&mut self, name: &str, value: T) {
        let Some(key) = packed(name) else {
            panic!("the name is too long")
        };
        let mut place = place(key);
        while self.places[place].0 != 0 {
            assert!(self.places[place].0 != key, "the name is there twice");
            place = (place + 1) % PLACES;
        }
        self.places[place] = (key, value);
    }

    /// The value of a name.
    pub(super) fn get(&self, name: &str) -> T {
        packed(name).map_or(self.other, |key| self.get_packed(key))
    }

    /// The value of a name as [`packed`] makes it.
    pub(super) fn get_packed(&self, key: u128) -> T {
        let mut at = place(key);
        while let Some((known, value)) = self.places.get(at) {
            if *known == key {
                return *value;
            }
            if *known == 0 {
                break;
            }
            at = (at + 1) % PLACES;
        }
        self.other
    }
}

const fn place(key: u128) -> usize {
    let folded = (key ^ key >> 64) as u64;
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    static TABLE: NameTable<u8> = NameTable::new(&[(1, &["a", "b"]), (2, &["fifteen letter!"])], 0);

    #[test]
    fn every_name_has_its_value() {
        for (name, value) in [
            ("a", 1),
            ("b", 1),
            ("fifteen letter!", 2),
            ("fifteen letter!?", 0),
            ("!fifteen letter", 0),
            ("", 0),
            ("\0", 0),
            ("\0a", 0),
            ("A", 0),
            ("ab", 0),
        ] {
            assert_eq!(TABLE.get(name), value, "{name:?}");
        }
    }
}
