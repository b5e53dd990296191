//! Files of text of one size, compressed. A document is never split.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;

use super::super::BuildError;
use super::super::plan::{Compression, Output};
use crate::fs::IoError;

/// The files of a format.
pub(super) struct Shards {
    folder: PathBuf,
    ending: &'static str,
    compression: Compression,
    limit: u64,
    open: Option<(PathBuf, Out)>,
    begun: u32,
    /// Bytes of the open file, before they are compressed.
    bytes: u64,
}

enum Out {
    Plain(BufWriter<File>),
    Gzip(Box<GzEncoder<BufWriter<File>>>),
    Zstd(zstd::Encoder<'static, BufWriter<File>>),
}

impl Shards {
    /// In a folder, which is made.
    pub(super) fn create(
        folder: PathBuf,
        ending: &'static str,
        output: &Output,
    ) -> Result<Self, BuildError> {
        std::fs::create_dir(&folder).map_err(IoError::at(&folder, "making the folder"))?;
        Ok(Self {
            folder,
            ending,
            compression: output.compression,
            limit: output.shard_bytes,
            open: None,
            begun: 0,
            bytes: 0,
        })
    }

    /// Adds a document.
    pub(super) fn add(&mut self, text: &str) -> Result<(), BuildError> {
        if self.bytes >= self.limit {
            self.close()?;
        }
        let (path, mut out) = match self.open.take() {
            Some(open) => open,
            None => self.begin()?,
        };
        let written = match &mut out {
            Out::Plain(out) => out.write_all(text.as_bytes()),
            Out::Gzip(out) => out.write_all(text.as_bytes()),
            Out::Zstd(out) => out.write_all(text.as_bytes()),
        };
        written.map_err(IoError::at(&path, "writing"))?;
        self.bytes += text.len() as u64;
        self.open = Some((path, out));
        Ok(())
    }

    fn begin(&mut self) -> Result<(PathBuf, Out), BuildError> {
        let packed = match self.compression {
            Compression::None => "",
            Compression::Gzip => ".gz",
            Compression::Zstd => ".zst",
        };
        let name = format!("{:05}.{}{packed}", self.begun, self.ending);
        let path = self.folder.join(name);
        let file = File::create(&path).map_err(IoError::at(&path, "creating"))?;
        let file = BufWriter::new(file);
        let out = match self.compression {
            Compression::None => Out::Plain(file),
            Compression::Gzip => Out::Gzip(Box::new(GzEncoder::new(
                file,
                flate2::Compression::default(),
            ))),
            Compression::Zstd => {
                let level = zstd::DEFAULT_COMPRESSION_LEVEL;
                let encoder = zstd::Encoder::new(file, level);
                Out::Zstd(encoder.map_err(IoError::at(&path, "compressing"))?)
            }
        };
        self.begun += 1;
        self.bytes = 0;
        Ok((path, out))
    }

    fn close(&mut self) -> Result<(), BuildError> {
        let Some((path, out)) = self.open.take() else {
            return Ok(());
        };
        self.bytes = 0;
        let written = match out {
            Out::Plain(mut out) => out.flush(),
            Out::Gzip(out) => out.finish().and_then(|mut out| out.flush()),
            Out::Zstd(out) => out.finish().and_then(|mut out| out.flush()),
        };
        written.map_err(IoError::at(&path, "writing"))?;
        Ok(())
    }

    /// Closes the last file, and returns the number of files.
    pub(super) fn finish(mut self) -> Result<u32, BuildError> {
        self.close()?;
        Ok(self.begun)
    }
}

/// The files in a folder, in the order of their names.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let mut files = Vec::new();
    for entry in folder.read_dir().map_err(IoError::at(folder, "listing"))? {
        files.push(entry.map_err(IoError::at(folder, "listing"))?.path());
    }
    files.sort();
    Ok(files)
}
