//! Errors that several parts of this module report.

use std::fmt::Display;
use std::path::Path;

use super::MARK;
use crate::tool_error::ToolError;

/// The folder does not belong to a corpus.
pub(super) fn occupied(folder: &Path) -> ToolError {
    let why = format_args!(
        "already exists, and is not a corpus of spoor (it has no {MARK}); move it away or name \
         another `folder` under [output]"
    );
    ToolError::at(folder, why)
}

/// Another process builds it.
pub(super) fn busy(folder: &Path) -> ToolError {
    let why = "another `spoor corpus build` is writing it; wait for that";
    ToolError::busy(folder, why)
}

/// The unfinished build is of another plan.
pub(super) fn changed(folder: &Path) -> ToolError {
    let why = "it was begun with another plan or other sources; add --fresh to start over";
    ToolError::at(folder, why)
}

/// A file of the corpus or of an unfinished build is damaged.
pub(super) fn damaged(path: &Path, why: impl Display) -> ToolError {
    ToolError::at(path, why).and("build the corpus again with --fresh")
}

/// There is no corpus.
pub(super) fn missing(folder: &Path) -> ToolError {
    let why = "no corpus of spoor; build it with `spoor corpus build`";
    ToolError::at(folder, why)
}

/// A worker thread panicked.
pub(super) fn defect() -> ToolError {
    ToolError::new("the work ended in a defect of spoor; please report it with the plan")
}
