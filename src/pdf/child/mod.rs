//! The process that reads one file.
//!
//! The program starts itself again with the command [`WORKER`]. The file is its standard
//! input, the answer (JSON) its standard output. It limits its own memory and processor time
//! before it reads a byte (`worker`); the process that started it ends it when its time is
//! over, and names what went wrong (`reader`).

mod failure;
mod reader;
mod worker;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::original::Original;

pub use failure::Failure;
pub use reader::Reader;
pub use worker::work;

/// The command of the process, which is not listed.
pub const WORKER: &str = "pdf-worker";

/// How much longer than its processor time a file may take, as a factor: a crawl reads files
/// with what its pages leave of the processor.
const PATIENCE: u32 = 4;

/// What one file may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest processor time, in whole seconds; on a busy machine it takes up to
    /// four times as long.
    pub time: Duration,
    /// The most memory in bytes.
    pub memory: u64,
    /// The most pages; those after them are left out.
    pub pages: usize,
    /// The longest text in bytes; the pages after it are left out.
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

/// What the process answers.
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
