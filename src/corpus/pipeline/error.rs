//! Why a corpus cannot be built or read.

use std::path::PathBuf;

use super::plan::PlanError;
use crate::archive::captures::CapturesError;
use crate::archive::chosen::ChosenError;
use crate::archive::reader::ReadError;
use crate::entities::EntityError;
use crate::file_errors::FileErrors;
use crate::fs::IoError;
use crate::grammar::GrammarError;
use crate::outputs::OutputError;
use crate::topic::model::FolderError;

/// Why a corpus cannot be built or read.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The plan is wrong.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A file or folder failed.
    #[error(
        "{0}; correct the path, or free space and correct the permissions, then run this again"
    )]
    Io(#[from] IoError),
    /// A source is not there, or is none.
    #[error("{}: {why}", path.display())]
    Source {
        /// Its path.
        path: PathBuf,
        /// The problem, and what to do.
        why: String,
    },
    /// Archives cannot be named so.
    #[error(transparent)]
    Chosen(#[from] ChosenError),
    /// An archive cannot be read.
    #[error(transparent)]
    Captures(#[from] CapturesError),
    /// The same.
    #[error("{0}; check the disk, or leave the file out")]
    Read(#[from] ReadError),
    /// The documents of a job cannot be read.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The rules cannot be used.
    #[error(transparent)]
    Rules(#[from] FileErrors),
    /// Entities cannot be read.
    #[error(transparent)]
    Entities(#[from] EntityError),
    /// Grammar is not to be had.
    #[error(transparent)]
    Grammar(#[from] GrammarError),
    /// A model cannot be loaded.
    #[error(transparent)]
    Model(#[from] FolderError),
    /// The folder is another's.
    #[error("{}: already exists, and is no corpus of spoor (it has no {mark}); move it away or name another `folder` under [output]", path.display(), mark = super::MARK)]
    Occupied {
        /// The folder.
        path: PathBuf,
    },
    /// Another process builds it.
    #[error("{}: another `spoor corpus build` is writing it; wait for that", .0.display())]
    Busy(PathBuf),
    /// A process reads the corpus that is to be replaced.
    #[error(
        "{}: `spoor search` or `spoor index` is reading it; stop that and run this again: what \
         was done is kept", .0.display()
    )]
    Searched(PathBuf),
    /// What was begun is of another plan.
    #[error("{}: it was begun with {what}; add --fresh to start over", path.display())]
    Changed {
        /// The folder.
        path: PathBuf,
        /// What differs.
        what: &'static str,
    },
    /// A file of the corpus or of the work on it is damaged.
    #[error("{}: {why}; build the corpus again with --fresh", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// An export has no document.
    #[error("no document is left to export ({0}); ask for less")]
    Empty(String),
    /// There is no corpus.
    #[error("{}: no corpus of spoor; build it with `spoor corpus build`", .0.display())]
    Missing(PathBuf),
    /// A store failed.
    #[error(
        "{to}: {what} failed: {why}; correct the plan's `store` or AWS_ACCESS_KEY_ID, \
         AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL, and run this again: what was \
         sent is not sent again"
    )]
    Store {
        /// The address in the plan.
        to: String,
        /// The attempted operation.
        what: &'static str,
        /// The problem.
        why: String,
    },
    /// A thread of the work ended in a defect.
    #[error("the work ended in a defect of spoor; please report it with the plan")]
    Defect,
}
