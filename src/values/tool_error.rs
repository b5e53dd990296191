//! The error of tools that work on stored files: one text for people, and the little that
//! callers distinguish.

use std::error::Error;
use std::fmt::Display;
use std::fs::{File, TryLockError};
use std::path::Path;

use crate::file_errors::FileErrors;
use crate::fs::IoError;

/// Why a tool cannot go on. Its text names the file, the key or the address, and says what to
/// do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    fault: ToolFault,
    message: String,
}

/// What callers distinguish in a [`ToolError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolFault {
    /// Another process uses the place.
    Busy,
    /// What was asked for makes no sense, whatever the files contain.
    Usage,
    /// The wanted thing is not there.
    Missing,
    /// Another problem.
    Other,
}

/// An error of another kind that ends the work of a tool.
pub trait ToolCause: Error {
    /// What to do, unless the text of the error says it.
    fn advice(&self) -> &'static str {
        ""
    }

    /// What callers distinguish.
    fn fault(&self) -> ToolFault {
        ToolFault::Other
    }
}

impl ToolCause for IoError {
    fn advice(&self) -> &'static str {
        "correct the path, or free space and correct the permissions"
    }
}

impl ToolCause for FileErrors {}

impl<E: ToolCause> From<E> for ToolError {
    fn from(error: E) -> Self {
        let message = match error.advice() {
            "" => with_causes(&error),
            advice => format!("{}; {advice}", with_causes(&error)),
        };
        let fault = error.fault();
        Self { fault, message }
    }
}

impl ToolError {
    /// An error with its whole text.
    pub fn new(message: impl Display) -> Self {
        Self {
            fault: ToolFault::Other,
            message: message.to_string(),
        }
    }

    /// What is wrong at a path, and what to do.
    pub fn at(path: &Path, why: impl Display) -> Self {
        Self::new(format_args!("{}: {why}", path.display()))
    }

    /// What is wrong in a line of a file, the first is 1, and what to do.
    pub fn in_line(path: &Path, line: usize, why: impl Display) -> Self {
        Self::new(format_args!("{}:{line}: {why}", path.display()))
    }

    /// Another process uses a path: which one, and what to do.
    pub fn busy(path: &Path, why: impl Display) -> Self {
        Self::at(path, why).as_fault(ToolFault::Busy)
    }

    /// What was asked for makes no sense: why, and what to do.
    pub fn usage(why: impl Display) -> Self {
        Self::new(why).as_fault(ToolFault::Usage)
    }

    /// The same problem as a fault that callers distinguish.
    #[must_use]
    pub fn as_fault(self, fault: ToolFault) -> Self {
        Self { fault, ..self }
    }

    /// The same with more to do.
    #[must_use]
    pub fn and(self, advice: &str) -> Self {
        let message = format!("{}; {advice}", self.message);
        Self { message, ..self }
    }

    /// For `map_err`: any error, with what to do.
    pub fn advising<E: Error>(advice: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::new(format_args!("{}; {advice}", with_causes(&error)))
    }

    /// What callers distinguish.
    pub fn fault(&self) -> ToolFault {
        self.fault
    }

    /// Whether another process uses the place.
    pub fn is_busy(&self) -> bool {
        self.fault == ToolFault::Busy
    }
}

/// Locks a file for this process alone; `busy` is the error where another one has it.
///
/// # Errors
///
/// `busy`, or what the operating system reports.
pub fn lock(file: &File, path: &Path, busy: impl FnOnce() -> ToolError) -> Result<(), ToolError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(busy()),
        Err(TryLockError::Error(error)) => Err(IoError::at(path, "locking")(error).into()),
    }
}

/// The text of an error with its causes, each once: many of our errors include their cause,
/// which the chain would repeat.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = cause.source();
    }
    text
}
