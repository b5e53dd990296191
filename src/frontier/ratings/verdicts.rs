//! The verdicts on pages that other machines have fetched: pages that link to them are judged as if
//! they had been fetched here.
//!
//! They are only in memory, and limited in number. A forgotten verdict, for example after a
//! restart, makes the judgement of some pages less sharp.

use quick_cache::sync::Cache;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// How many pages are remembered: some 10 MB.
const PAGES: usize = 1 << 18;

/// The value of a page, known after its fetch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// A hash of its address.
    page: u64,
    /// From 0 to 1.
    worth: f32,
}

impl Verdict {
    /// The verdict on the page with this `U` key.
    pub fn of(page: &[u8], worth: f64) -> Self {
        Self {
            page: xxh3_64(page),
            worth: worth as f32,
        }
    }

    /// Whether a machine may have written it.
    pub fn is_sound(self) -> bool {
        (0.0..=1.0).contains(&self.worth)
    }
}

/// The last verdicts on pages of all machines.
#[derive(Debug)]
pub struct Verdicts(Cache<u64, f32>);

impl Default for Verdicts {
    fn default() -> Self {
        Self(Cache::new(PAGES))
    }
}

impl Verdicts {
    /// Adds a verdict. The last one on a page counts.
    pub fn add(&self, Verdict { page, worth }: Verdict) {
        self.0.insert(page, worth);
    }

    /// The value of the page with this `U` key, if it is remembered.
    pub fn of(&self, page: &[u8]) -> Option<f32> {
        self.0.get(&xxh3_64(page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_verdicts_are_remembered() {
        let verdicts = Verdicts::default();
        for (page, worth) in [(b"Ua", 0.25), (b"Ub", 0.5), (b"Ua", 1.0)] {
            verdicts.add(Verdict::of(page, worth));
        }
        let of = |page: &[u8; 2]| verdicts.of(page);
        assert_eq!([b"Ua", b"Ub", b"Uc"].map(of), [Some(1.0), Some(0.5), None]);
        for page in 0..3 * PAGES {
            verdicts.add(Verdict::of(&page.to_be_bytes(), 0.5));
        }
        assert!(verdicts.0.len() <= PAGES, "{}", verdicts.0.len());
    }

    #[test]
    fn only_what_machines_write_is_sound() {
        let sound = |worth| Verdict::of(b"Ua", worth).is_sound();
        assert!(sound(0.0) && sound(1.0));
        assert!(!sound(-0.1) && !sound(1.1) && !sound(f64::NAN) && !sound(f64::INFINITY));
    }
}
