//! A full-text index of the documents of a job or corpus, and searches in it from the command
//! line and on a local page.
//!
//! # What the index promises
//!
//! - **It is incremental.** Each run reads only new data. Each commit contains the positions up
//!   to which files were read, so a kill costs only uncommitted work. A file whose indexed part
//!   was changed is read again, and the documents of a deleted file are removed.
//! - **It forgets removed text.** A takedown removes the index of a job with the samples, and
//!   that of a corpus with the old files; the next run makes it again. If documents of another
//!   program were removed, their text is gone from the files of the index when the run ends.
//! - A page that was visited again occurs once, in its latest version.
//! - A crawl, a build and searches may run at the same time.
//!
//! Reading order: `schema` (the fields), `words` (text to words), `read` (lines of files),
//! `entry` (a line to an entry), `named` (its entities), `state` (the positions in files),
//! `update` (indexing), `rows` (images, and places in the archive), `query` (search queries),
//! `find` (searching), `occur` (words with entities), `snippet` (the context of a hit), `capture`
//! (a stored page), `asked`, `page` and `server` (the page), `terminal` (results as text).
//!
//! Nothing here fetches anything, and only the index is written.

// Tests name their own files.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod asked;
mod capture;
mod entry;
mod find;
mod named;
mod occur;
mod page;
mod query;
mod read;
mod rows;
mod schema;
mod server;
mod snippet;
mod state;
mod terminal;
#[cfg(test)]
mod tests;
mod update;
mod words;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use crate::corpus::pipeline::MARK;
use crate::fs::IoError;
use crate::fs::beneath;
use crate::outputs::{DOCUMENTS, SampleLock};
use crate::tool_error::ToolError;
use crate::topic::score::Boundaries;
use spoor_values::page::Signal;

use spoor_outputs as outputs;
use spoor_values::{address, clock, fold, fs, language, progress, sanitize, tool_error};
use {
    spoor_archive as archive, spoor_corpus as corpus, spoor_local as local, spoor_topic as topic,
    spoor_web as web,
};

pub use find::{Facet, Facets, Hit, Search, SearchResult};
pub use occur::Occurring;
pub use query::{Filters, Request, Within};
pub use schema::{About, DocumentPlace, Picture, Stored};
pub use server::serve;
pub use snippet::Snippet;
pub use terminal::{Style, text};
pub use update::{Indexer, Updated};

/// The folder of the index, in the folder of the job or corpus.
pub use spoor_corpus::takedown::INDEX as FOLDER;

/// The locks that are held while documents are read.
#[derive(Debug)]
pub enum Lock {
    /// The lock on a job's samples.
    Job(SampleLock),
    /// The lock on the mark of a corpus.
    Corpus(Option<File>),
}

/// The folder of a job or of a corpus.
#[derive(Debug, Clone)]
pub struct Home {
    folder: PathBuf,
    is_job: bool,
    boundaries: Option<Boundaries>,
    obeyed: Vec<Signal>,
}

impl Home {
    /// A folder with documents. `boundaries` give a class to the perplexity of documents without
    /// one. Documents are left out if a signal of `obeyed` forbids searches in them.
    ///
    /// # Errors
    ///
    /// [`ToolError`].
    pub fn open(
        folder: &Path,
        boundaries: Option<Boundaries>,
        obeyed: &[Signal],
    ) -> Result<Self, ToolError> {
        let is_job = beneath::is_dir(folder, "logs") || beneath::is_dir(folder, "images");
        if !is_job && !beneath::is_dir(folder, DOCUMENTS) {
            let why = "there is no folder `documents` in it; give a job's TOML file or folder, or \
                       the folder that `spoor corpus build` wrote";
            return Err(ToolError::at(folder, why));
        }
        Ok(Self {
            folder: folder.to_owned(),
            is_job,
            boundaries,
            obeyed: obeyed.to_vec(),
        })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether it is the folder of a job.
    pub fn is_job(&self) -> bool {
        self.is_job
    }

    /// Prevents takedowns of samples and the replacement of a corpus while they are read.
    ///
    /// # Errors
    ///
    /// [`ToolError`].
    pub fn lock(&self) -> Result<Lock, ToolError> {
        if self.is_job {
            return Ok(Lock::Job(outputs::read_samples(&self.folder)?));
        }
        let path = self.folder.join(MARK);
        // Documents of another program have no mark, and takedowns do not affect them.
        let Ok(mark) = crate::fs::open(&path) else {
            return Ok(Lock::Corpus(None));
        };
        match mark.try_lock_shared() {
            Ok(()) => Ok(Lock::Corpus(Some(mark))),
            Err(TryLockError::WouldBlock) => {
                let why = "the corpus is being replaced; run this again";
                Err(ToolError::at(&self.folder, why))
            }
            Err(TryLockError::Error(error)) => Err(IoError::at(&path, "locking")(error).into()),
        }
    }

    fn index(&self) -> PathBuf {
        self.folder.join(FOLDER)
    }

    /// An error of the index.
    fn failed(&self) -> impl Fn(tantivy::TantivyError) -> ToolError + '_ {
        |error| {
            let advice = "free space or correct the permissions; if it is damaged, remove this \
                          folder and index again";
            ToolError::at(&self.index(), error).and(advice)
        }
    }
}
