//! Failures of a file.

use std::time::Duration;

/// Why a file has no text.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It needs a password, or its encryption is unknown.
    #[error("it is encrypted: its text needs a password; remove it with a program that has it")]
    Encrypted,
    /// It is not a PDF, or so damaged that no page is found.
    #[error("it is damaged, or no PDF: no page was found in it")]
    Damaged,
    /// There is no text on its pages.
    #[error("its pages have no text, only pictures perhaps; text recognition would be needed")]
    NoText,
    /// It took too long.
    #[error("reading it took more than {0:?} of processor time, the limit for one file")]
    Timeout(Duration),
    /// The crawl that needed it has ended.
    #[error("the crawl ended before it was read")]
    Ended,
    /// It needed too much memory.
    #[error("reading it took more than {0} MiB of memory, the limit for one file")]
    Memory(u64),
    /// The process that read it broke down.
    #[error("the process that read it failed: {0}; please report such a file")]
    Crashed(String),
    /// The process could not be started.
    #[error("the process that reads PDF files could not be started: {0}")]
    Start(std::io::Error),
}

impl Failure {
    /// Its name in logs and tables.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Encrypted => "encrypted",
            Self::Damaged => "damaged",
            Self::NoText => "no-text",
            Self::Timeout(_) => "timeout",
            Self::Ended => "ended",
            Self::Memory(_) => "memory",
            Self::Crashed(_) => "crash",
            Self::Start(_) => "start",
        }
    }
}
