//! The process that reads one file.
//!
//! The program starts itself again with the command [`WORKER`]. The file is its standard input, the
//! answer (JSON) its standard output. It limits its own memory and processor time before it reads a
//! byte (`worker`); the process that started it kills it when its time is over, and reports the
//! cause (`reader`).

mod failure;
mod reader;
mod worker;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::original::Original;

pub use failure::Failure;
pub use reader::Reader;
pub use worker::work;

/// The command of the process, which is not listed in the help.
pub const WORKER: &str = "pdf-worker";

/// How much longer than its processor time a file may take, as a factor: a crawl reads files with
/// the processor time that its pages leave.
const PATIENCE: u32 = 4;

/// The limits for one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest processor time, in whole seconds; on a busy machine it takes up to
    /// four times as long.
    pub time: Duration,
    /// The most memory in bytes.
    pub memory: u64,
    /// Maximum number of pages; later ones are left out.
    pub pages: usize,
    /// Maximum length of the text in bytes; later pages are left out.
    pub text: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(30),
            memory: 1 << 30,
            pages: 5_000,
            text: 8 << 20,
        }
    }
}

/// The answer of the process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ChildAnswer {
    Read(Box<Original>),
    Encrypted,
    Damaged,
}

/// Reads a file in this process, without limits.
#[cfg(test)]
pub(super) fn read_here(bytes: Vec<u8>) -> Result<Original, String> {
    match worker::read(bytes, &Limits::default()) {
        ChildAnswer::Read(original) => Ok(*original),
        other => Err(format!("{other:?}")),
    }
}
