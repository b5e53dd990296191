//! The archive: what was sent and received, as WARC files.

use std::io::Write;
use std::path::Path;

use super::OutputError;
use super::output::{Form, Output};
use super::pieces::{Rewritten, Taken, copy_without};
use crate::archive::writer::warcinfo;

/// The size in bytes at which a file is complete, as archives commonly use it.
const FILE_BYTES: u64 = if cfg!(test) { 2048 } else { 1_000_000_000 };

/// The records of each task are a piece: its response, its request, its metadata.
pub(super) struct Archive;

impl Output for Archive {
    fn name(&self) -> &'static str {
        "archive"
    }

    fn form(&self) -> Form {
        Form::Pieces {
            folder: "archive",
            suffix: ".warc.gz",
        }
    }

    fn piece_limit(&self) -> u64 {
        FILE_BYTES
    }

    fn is_optional(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        path: &Path,
        taken: &Taken<'_>,
        out: &mut dyn Write,
    ) -> Result<Rewritten, OutputError> {
        let mut done = copy_without(path, taken, out)?;
        // The log does not name the first record of a file, which belongs to no page.
        done.unreadable = 0;
        Ok(done)
    }
}

/// What is said of the crawl at the beginning of each file.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// Names and values of the `warcinfo` record.
    pub fields: Vec<(&'static str, String)>,
}

impl About {
    /// The record that begins the file of this name.
    pub(super) fn record(&self, file: &str, now: u64) -> Vec<u8> {
        warcinfo(file, now, &self.fields)
    }
}
