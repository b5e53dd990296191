//! ARPA: the text format of an estimated model.
//!
//! A header with the number of n-grams of each order, then one section per order with one
//! line per n-gram: log10 probability, tab, words, tab, log10 back-off (none in the
//! highest order). Every KenLM tool reads it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use super::corpus::WordNames;
use super::estimate::{Estimate, ORDERS, Section};
use super::runs;
use crate::fs::atomic;

/// The model could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the language model {path}: {source}; check the folder and the free space", path = path.display())]
pub struct ArpaError {
    /// The file.
    pub path: PathBuf,
    /// The system's error.
    pub source: io::Error,
}

/// Writes the model to `path` atomically, replacing an existing file. Equal sentences in
/// any order give equal bytes.
///
/// # Errors
///
/// [`ArpaError`] with the path and the system's error.
pub fn write(estimate: &Estimate, path: &Path) -> Result<(), ArpaError> {
    atomic::write(path, |out| write_to(estimate, out)).map_err(|source| ArpaError {
        path: path.to_owned(),
        source,
    })
}

/// Writes the model to `out` in pieces of about a megabyte.
///
/// # Errors
///
/// Those of `out`.
pub fn write_to(estimate: &Estimate, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\\data\\")?;
    for (order, count) in (1..).zip(estimate.ngram_counts()) {
        writeln!(out, "ngram {order}={count}")?;
    }
    let spelt = Spelling::of(estimate.names());
    estimate.each_section(|section| {
        writeln!(out, "\n\\{}-grams:", section.order())?;
        write_section(section, &spelt, section.order() == estimate.order(), out)
    })?;
    writeln!(out, "\n\\end\\")
}

/// Several threads format the lines, each taking every n-th part; this thread writes them
/// in order while the next ones are formatted.
fn write_section(
    section: &Section<'_>,
    spelt: &Spelling<'_>,
    highest: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let threads = runs::threads().min(section.parts());
    thread::scope(|scope| {
        let made: Vec<_> = (0..threads)
            .map(|thread| {
                let (give, take) = mpsc::sync_channel(1);
                let (give_back, empty) = mpsc::channel();
                scope.spawn(move || {
                    for part in (thread..section.parts()).step_by(threads) {
                        let mut lines = empty.try_recv().unwrap_or_default();
                        push_lines(&mut lines, section, part, spelt, highest);
                        // The receiver is gone if writing failed.
                        if give.send(lines).is_err() {
                            break;
                        }
                    }
                });
                (take, give_back)
            })
            .collect();
        for part in 0..section.parts() {
            let (take, give_back) = &made[part % threads];
            // The scope reports a panicked thread.
            let Ok(mut lines) = take.recv() else { break };
            out.write_all(&lines)?;
            lines.clear();
            // The buffers of the last parts are returned to a thread that has ended.
            drop(give_back.send(lines));
        }
        Ok(())
    })
}

fn push_lines(
    lines: &mut Vec<u8>,
    section: &Section<'_>,
    part: usize,
    spelt: &Spelling<'_>,
    highest: bool,
) {
    let ngrams = section.part(part);
    // Most neighbours end with the same words, so these are copied from the previous line.
    // The others are looked up in advance, see [`Section::part`].
    let mut same = Vec::with_capacity(ngrams.len());
    let mut slots = Vec::with_capacity(2 * ngrams.len());
    let mut last: &[u32] = &[];
    for ngram in &ngrams {
        let words = ngram.numbers();
        let both = words.iter().rev().zip(last.iter().rev());
        let shared = both.take_while(|(word, last)| word == last).count();
        slots.extend(
            words[..words.len() - shared]
                .iter()
                .map(|&word| spelt.short[word as usize]),
        );
        same.push(shared);
        last = words;
    }

    let mut digits = zmij::Buffer::new();
    let mut slots = slots.iter();
    // Where the words of the previous line start, and where the last one ends.
    let mut starts = [0; *ORDERS.end()];
    let mut end = 0;
    for (ngram, same) in ngrams.iter().zip(same) {
        push_number(lines, &mut digits, ngram.log10);
        let words = ngram.numbers();
        let new = words.len() - same;
        for ((word, slot), start) in words[..new].iter().zip(&mut slots).zip(&mut starts) {
            *start = lines.len();
            spelt.push(lines, *word, slot);
        }
        if same > 0 {
            let (from, to) = (starts[new], lines.len());
            lines.extend_from_within(from..end);
            for start in &mut starts[new..words.len()] {
                *start = *start - from + to;
            }
        }
        end = lines.len();
        lines[starts[0]] = b'\t';
        if !highest {
            lines.push(b'\t');
            push_number(lines, &mut digits, ngram.backoff);
        }
        lines.push(b'\n');
    }
}

/// The shortest decimals that read back as the same `f32`, KenLM's own type.
fn push_number(line: &mut Vec<u8>, digits: &mut zmij::Buffer, number: f32) {
    // Avoids the sign and the fraction with which zero would be written.
    let text = match number {
        0.0 => "0",
        _ => digits.format_finite(number),
    };
    line.extend_from_slice(text.as_bytes());
}

/// The size of a short word in [`Spelling`].
const SLOT: usize = 16;

/// The spelling of words, each with a leading space. Most are short and are copied as
/// pieces of fixed length, which takes a single memory access.
struct Spelling<'a> {
    names: &'a WordNames,
    short: Vec<[u8; SLOT]>,
}

impl<'a> Spelling<'a> {
    fn of(names: &'a WordNames) -> Self {
        let slot = |name: &str| {
            let mut slot = [0; SLOT];
            // The last byte is the length of the text before it, or 0.
            if name.len() + 2 <= SLOT {
                slot[0] = b' ';
                slot[1..=name.len()].copy_from_slice(name.as_bytes());
                slot[SLOT - 1] = name.len() as u8 + 1;
            }
            slot
        };
        let short = names.iter().map(slot).collect();
        Self { names, short }
    }

    fn push(&self, line: &mut Vec<u8>, word: u32, slot: &[u8; SLOT]) {
        match usize::from(slot[SLOT - 1]) {
            0 => {
                line.push(b' ');
                line.extend_from_slice(self.names.get(word).as_bytes());
            }
            length => {
                let end = line.len() + length;
                line.extend_from_slice(slot);
                line.truncate(end);
            }
        }
    }
}
