//! Updates the ratings of a running crawl from its configuration: another `[strategy]`, other
//! `[buckets]`, and the present keyword table of the model's folder. The rules that extract fields
//! from pages are read again with them.
//!
//! The new ratings are created off the thread that drives the crawl, because this reads
//! files and may fail; then nothing is changed. They are applied on that thread, at once
//! for both the page processor and the frontier.

use std::sync::Arc;

use super::ControlError;
use crate::config::{Changed, Config};
use crate::crawl::pipeline::{Reader, Reading};
use crate::frontier::store::StoreError;
use crate::frontier::{Cells, Rating};
use crate::rules::RuleSet;

/// The most keywords listed in a record of changes.
const MAX_NAMED: usize = 50;

/// Creates the page processor for a configuration; an error describes the problem in
/// words.
pub type MakeReader = Arc<dyn Fn(&Config) -> Result<Reader, String> + Send + Sync>;

/// Replaces the ratings of one crawl. Cheap to clone.
#[derive(Clone)]
pub struct RatingReloader {
    reading: Reading,
    make: MakeReader,
}

/// Another page processor, ready to be used.
pub struct Rerated {
    reading: Reading,
    reader: Arc<Reader>,
    /// What differs besides keys of the job: the keyword table with the words before and now, the
    /// rules with their names.
    pub changed: Vec<Changed>,
    /// Whether ratings differ, and not just extracted fields.
    pub rates: bool,
}

impl RatingReloader {
    /// For a crawl that uses `reading`.
    pub fn new(reading: Reading, make: MakeReader) -> Self {
        Self { reading, make }
    }

    /// The rules by which pages are read now, if there are any.
    pub fn rules(&self) -> Option<Arc<RuleSet>> {
        self.reading.now().rules.clone()
    }

    /// The ratings and rules for `config`; `None` if they are in use already. Reads the
    /// keyword table and the rule files from disk.
    ///
    /// # Errors
    ///
    /// [`ControlError::Ratings`] if the table, the boundaries or a rule are wrong.
    pub fn by(&self, config: &Config) -> Result<Option<Rerated>, ControlError> {
        let old = self.reading.now();
        let new = (self.make)(config).map_err(ControlError::Ratings)?;
        let (before, after) = (old.scorer.keywords(), new.scorer.keywords());
        let keywords = (before != after).then(|| Changed {
            key: "keywords".to_owned(),
            from: Some(named(before.ranked(), after.ranked())),
            to: Some(named(after.ranked(), before.ranked())),
        });
        let rates = old.digest() != new.digest() || Rating::keywords(&*old) != new.keywords();
        let rules = other_rules(old.rules.as_deref(), new.rules.as_deref());
        if !rates && rules.is_none() {
            return Ok(None);
        }
        Ok(Some(Rerated {
            changed: keywords.into_iter().chain(rules).collect(),
            rates,
            reading: self.reading.clone(),
            reader: Arc::new(new),
        }))
    }
}

/// The rules that differ, by their names.
fn other_rules(old: Option<&RuleSet>, new: Option<&RuleSet>) -> Option<Changed> {
    let none = RuleSet::default();
    let (old, new) = (old.unwrap_or(&none), new.unwrap_or(&none));
    let names = |rules: Vec<&str>| (!rules.is_empty()).then(|| rules.join(", "));
    let (from, to) = (names(old.missing_in(new)), names(new.missing_in(old)));
    (from.is_some() || to.is_some()).then(|| Changed {
        key: "rules".to_owned(),
        from,
        to,
    })
}

impl Rerated {
    /// Applies the ratings and rules: from now on they apply to pages and links, and if the ratings
    /// differ, stored links are re-rated in the background. Call this on the thread that owns the
    /// frontier.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store fails; then nothing is changed.
    pub fn put(self, frontier: &mut Cells) -> Result<(), StoreError> {
        if self.rates {
            frontier.set_rating(self.reader.clone())?;
        }
        self.reading.replace(self.reader);
        Ok(())
    }
}

/// The rows of one table that the other lacks, in words.
fn named(rows: &[(String, f64)], other: &[(String, f64)]) -> String {
    let own: Vec<_> = rows.iter().filter(|row| !other.contains(row)).collect();
    let shown = own.iter().take(MAX_NAMED);
    let shown: Vec<String> = shown
        .map(|(word, weight)| format!("{word} {weight}"))
        .collect();
    let mut text = shown.join(", ");
    if own.len() > MAX_NAMED {
        text.push_str(&format!(" and {} more", own.len() - MAX_NAMED));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_between_tables_is_named() {
        let rows = |rows: &[(&str, f64)]| -> Vec<(String, f64)> {
            rows.iter().map(|(w, n)| ((*w).to_owned(), *n)).collect()
        };
        let (a, b) = (
            rows(&[("cat", 3.5), ("purr", 2.0), ("the", 1.0)]),
            rows(&[("cat", 3.5), ("purr", 4.0)]),
        );
        assert_eq!(named(&a, &b), "purr 2, the 1");
        assert_eq!(named(&b, &a), "purr 4");
        let many: Vec<_> = (0..MAX_NAMED + 3).map(|i| (format!("w{i}"), 1.0)).collect();
        assert!(named(&many, &a).ends_with(" and 3 more"));
    }
}
