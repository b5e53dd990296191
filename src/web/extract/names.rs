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
        let mut places = [(0, other); PLACES];
        let mut group = 0;
        while group < groups.len() {
            let (value, names) = groups[group];
            let mut at = 0;
            while at < names.len() {
                let Some(key) = packed(names[at]) else {
                    panic!("the name is too long")
                };
                let mut place = place(key);
                while places[place].0 != 0 {
                    assert!(places[place].0 != key, "the name is there twice");
                    place = (place + 1) % PLACES;
                }
                places[place] = (key, value);
                at += 1;
            }
            group += 1;
        }
        Self { places, other }
    }

    /// The value of a name.
    pub(super) fn get(&self, name: &str) -> T {
        let Some(key) = packed(name) else {
            return self.other;
        };
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
