//! Merges several offers of one address into one: the better way to it, and what both say about the
//! pages that link there.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use crate::frontier::{CellOffer, Rated};

/// An offer, and how many offers it was merged from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Merged {
    pub rated: Rated,
    pub citations: u32,
}

/// Identifies an address: 8 bytes of a hash of the address and its kind. `None` for offers about
/// something else.
pub(super) fn hash_of(offer: &CellOffer) -> Option<u64> {
    let way = offer.way()?;
    let mut bytes = way.url.as_str().as_bytes().to_vec();
    bytes.push(way.kind as u8);
    Some(xxh3_64(&bytes))
}

/// Offers to one cell, at most one for each address.
#[derive(Debug, Default)]
pub(super) struct Offers {
    /// Keyed by hash, so that the order does not depend on which offer came first.
    ways: BTreeMap<u64, Merged>,
    /// Offers about something else, in the order in which they came.
    others: Vec<Rated>,
}

impl Offers {
    /// Adds one.
    pub fn add(&mut self, rated: Rated) {
        let Some(hash) = hash_of(&rated.offer) else {
            self.others.push(rated);
            return;
        };
        let one = Merged {
            rated,
            citations: 1,
        };
        match self.ways.remove(&hash) {
            None => self.ways.insert(hash, one),
            Some(before) => self.ways.insert(hash, merged(before, one)),
        };
    }

    pub fn len(&self) -> usize {
        self.ways.len() + self.others.len()
    }

    /// Takes everything: ways first, each with its hash.
    pub fn take(&mut self) -> (Vec<(u64, Merged)>, Vec<Rated>) {
        let ways = std::mem::take(&mut self.ways);
        (ways.into_iter().collect(), std::mem::take(&mut self.others))
    }
}

fn merged(one: Merged, other: Merged) -> Merged {
    let citations = one.citations.saturating_add(other.citations);
    let (mut better, worse) = match one.rated.compare(&other.rated) {
        Ordering::Greater => (other.rated, one.rated),
        _ => (one.rated, other.rated),
    };
    better.offer.take_over(&worse.offer);
    Merged {
        rated: better,
        citations,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cited, rated};
    use super::*;
    use crate::page::Bucket;

    #[test]
    fn the_better_way_and_both_clues_remain() {
        let near = rated("http://a.org/", Some(Bucket::Normal), 5.0, 2);
        let good = rated("http://a.org/", Some(Bucket::High), 9.0, 6);
        let other = rated("http://b.org/", None, 1.0, 1);
        let one_after_the_other = |all: &[&Rated]| {
            let mut offers = Offers::default();
            all.iter().for_each(|one| offers.add((*one).clone()));
            offers.take().0
        };
        let all = one_after_the_other(&[&near, &other, &good, &good]);
        assert_eq!(all, one_after_the_other(&[&good, &good, &near, &other]));
        assert_eq!(all.len(), 2);
        let found = all.iter().find(|(_, one)| one.citations == 3);
        let (_, Merged { rated, .. }) = found.unwrap();
        assert_eq!((rated.bucket, rated.score), (Some(Bucket::High), 9.0));
        let way = rated.offer.way().unwrap();
        assert_eq!((way.hops, way.cited), (2, (1.5, 1.5)));
        assert_eq!(cited(&near).0, 0.5);
    }
}
