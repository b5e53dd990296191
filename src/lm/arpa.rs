//! ARPA: the text format in which an estimated model is kept.
//!
//! A header with the number of n-grams of each order, then a section an order with
//! a line an n-gram: log10 probability, tab, words, tab, log10 back-off (none in
//! the highest order). Every KenLM tool reads it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::estimate::{Estimate, Ngram};
use crate::atomic;

/// The model could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the language model {path}: {source}; check the folder and the free space", path = path.display())]
pub struct ArpaError {
    /// The file to be written.
    pub path: PathBuf,
    /// What the system says.
    pub source: io::Error,
}

/// Writes the model to `path`, whole or not at all; a file that was there is
/// replaced. Equal sentences give equal bytes, in whatever order they came.
///
/// # Errors
/// [`ArpaError`] with the path and what the system says.
pub fn write(estimate: &Estimate, path: &Path) -> Result<(), ArpaError> {
    atomic::write(path, |out| write_to(estimate, out)).map_err(|source| ArpaError {
        path: path.to_owned(),
        source,
    })
}

/// Writes the model to `out`, in many small pieces.
///
/// # Errors
/// Those of `out`.
pub fn write_to(estimate: &Estimate, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\\data\\")?;
    for (order, count) in (1..).zip(estimate.ngram_counts()) {
        writeln!(out, "ngram {order}={count}")?;
    }
    for order in 1..=estimate.order() {
        writeln!(out, "\n\\{order}-grams:")?;
        for ngram in estimate.ngrams(order) {
            write_line(ngram, order == estimate.order(), out)?;
        }
    }
    writeln!(out, "\n\\end\\")
}

fn write_line(ngram: Ngram<'_>, highest: bool, out: &mut impl Write) -> io::Result<()> {
    // The shortest decimals that read back as the same `f32`, KenLM's own type.
    write!(out, "{}", unsigned_zero(ngram.log10))?;
    let mut separator = '\t';
    for word in ngram.words() {
        write!(out, "{separator}{word}")?;
        separator = ' ';
    }
    if !highest {
        write!(out, "\t{}", unsigned_zero(ngram.backoff))?;
    }
    writeln!(out)
}

fn unsigned_zero(number: f32) -> f32 {
    if number == 0.0 { 0.0 } else { number }
}
