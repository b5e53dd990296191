//! How the ratings of a running crawl follow its configuration: another `[strategy]`,
//! other `[buckets]`, and the keyword table as it lies in the model's folder now.
//!
//! What a configuration asks for is made off the thread that drives the crawl, because
//! it reads a file and may fail; then nothing is changed. It is put in force on that
//! thread, at once for the reader of pages and for the frontier.

use std::sync::Arc;

use super::ControlError;
use crate::config::{Changed, Config};
use crate::crawl::frontier::store::StoreError;
use crate::crawl::frontier::{Frontier, Rating};
use crate::crawl::pipeline::{Reader, Reading};

/// Keywords that are named in a record of what has changed, at most.
const MAX_NAMED: usize = 50;

/// Makes the reader that a configuration asks for; an error says in words what is wrong.
pub type MakeReader = Arc<dyn Fn(&Config) -> Result<Reader, String> + Send + Sync>;

/// What rates the links of one crawl. Cheap to clone.
#[derive(Clone)]
pub struct Ratings {
    reading: Reading,
    make: MakeReader,
}

/// Another reader that is ready to be put in force.
pub struct Rerated {
    reading: Reading,
    reader: Arc<Reader>,
    /// What differs in its keyword table: the words before, and the words now.
    pub keywords: Option<Changed>,
}

impl Ratings {
    /// For a crawl that reads by `reading`.
    pub fn new(reading: Reading, make: MakeReader) -> Self {
        Self { reading, make }
    }

    /// What `config` asks for; `None` where all is rated so already. Reads the keyword
    /// table from disk.
    ///
    /// # Errors
    /// [`ControlError::Ratings`] where the table or the boundaries are wrong.
    pub fn by(&self, config: &Config) -> Result<Option<Rerated>, ControlError> {
        let old = self.reading.now();
        let new = (self.make)(config).map_err(ControlError::Ratings)?;
        let same = old.digest() == new.digest() && Rating::keywords(&*old) == new.keywords();
        if same {
            return Ok(None);
        }
        let (before, after) = (old.scorer.keywords(), new.scorer.keywords());
        Ok(Some(Rerated {
            keywords: (before != after).then(|| Changed {
                key: "keywords".to_owned(),
                from: Some(named(before.ranked(), after.ranked())),
                to: Some(named(after.ranked(), before.ranked())),
            }),
            reading: self.reading.clone(),
            reader: Arc::new(new),
        }))
    }
}

impl Rerated {
    /// Puts it in force: what is read and added from now on is rated by it, and what is
    /// stored is rated anew while the crawl goes on. To be called on the thread that owns
    /// the frontier.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails; all is as before then.
    pub fn put(self, frontier: &mut Frontier) -> Result<(), StoreError> {
        frontier.set_rating(self.reader.clone())?;
        self.reading.replace(self.reader);
        Ok(())
    }
}

/// The rows of one table that are not in another one, in words.
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
