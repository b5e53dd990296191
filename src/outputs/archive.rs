//! The archive: the requests and responses, as WARC files.

use std::io::Write;
use std::path::Path;

use super::OutputError;
use super::output::{Form, Output};
use super::pieces::{Rewritten, Taken, copy_without};
use super::segments::{Label, Naming, OPEN};
use crate::clock::timestamp;
use spoor_archive::index::name_beside;
use spoor_archive::writer::{Compression, beginning};

/// The size in bytes at which a file is complete, as archives commonly use it.
const FILE_BYTES: u64 = if cfg!(test) { 2048 } else { 1_000_000_000 };

/// The suffixes of its files, by their compression.
const GZIP: &str = ".warc.gz";
const ZSTD: &str = ".warc.zst";

/// The records of each task are a piece: its response, its request, its metadata.
pub(super) struct Archive;

impl Output for Archive {
    fn name(&self) -> &'static str {
        "archive"
    }

    fn form(&self) -> Form {
        Form::Pieces {
            folder: "archive",
            naming: Naming::Dated(&[GZIP, ZSTD]),
        }
    }

    fn piece_limit(&self) -> u64 {
        FILE_BYTES
    }

    fn is_optional(&self) -> bool {
        true
    }

    fn index_of(&self, name: &str) -> Option<String> {
        (!name.ends_with(OPEN)).then(|| name_beside(name))
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

/// The description of the crawl in the names and at the beginning of the files.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// The name of the job.
    pub job: String,
    /// Names and values of the `warcinfo` record.
    pub fields: Vec<(&'static str, String)>,
    /// How records are compressed.
    pub compression: Compression,
}

impl About {
    /// The parts of the name of a file that is begun at `now`, in milliseconds since 1970.
    pub(super) fn label(&self, now: u64) -> Label {
        let date: String = timestamp(now)
            .chars()
            .filter(char::is_ascii_digit)
            .collect();
        Label {
            of: self.job.clone(),
            date: date
                .get(..14)
                .and_then(|date| date.parse().ok())
                .unwrap_or_default(),
            suffix: match self.compression {
                Compression::Gzip => GZIP,
                Compression::Zstd { .. } => ZSTD,
            },
        }
    }

    /// The first record of the file with this name.
    pub(super) fn beginning(&self, file: &str, now: u64) -> Vec<u8> {
        beginning(file, now, &self.fields, &self.compression)
    }
}
