//! Tar files as `webdataset` reads them: the files of a sample are consecutive and have
//! the same name up to the dot.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use super::columns::ImageSample;
use super::{SHARD_BYTES, SampleWriter};
use crate::columns::{DataColumn, json};
use crate::fs::IoError;
use crate::tool_error::ToolError;

/// The images of an export with their columns.
pub(super) struct Shards {
    columns: Vec<DataColumn<ImageSample>>,
    tars: Tars,
}

impl Shards {
    pub(super) fn new(folder: &Path, columns: Vec<DataColumn<ImageSample>>) -> Self {
        Self {
            columns,
            tars: Tars::within(folder.to_owned(), SHARD_BYTES),
        }
    }
}

impl SampleWriter for Shards {
    fn add(&mut self, sample: &ImageSample, bytes: Option<&[u8]>) -> Result<(), ToolError> {
        let json = json(&self.columns, sample);
        let text = sample.text().unwrap_or_default();
        let image = bytes.map(|bytes| (sample.extension(), bytes));
        let rest = [("json", json.as_bytes()), ("txt", text.as_bytes())];
        let files: Vec<(&str, &[u8])> = image.into_iter().chain(rest).collect();
        self.tars.add(&sample.key(), &files)
    }

    fn finish(self: Box<Self>) -> Result<(), ToolError> {
        self.tars.finish().map(drop)
    }
}

/// Tar files of one size in a folder.
pub(crate) struct Tars {
    folder: PathBuf,
    limit: u64,
    open: Option<TarShard>,
    begun: u32,
}

struct TarShard {
    path: PathBuf,
    tar: tar::Builder<BufWriter<File>>,
    bytes: u64,
}

impl Tars {
    /// Creates the folder. Files are closed at `limit` bytes.
    pub(crate) fn create(folder: PathBuf, limit: u64) -> Result<Self, ToolError> {
        std::fs::create_dir(&folder).map_err(IoError::at(&folder, "making the folder"))?;
        Ok(Self::within(folder, limit))
    }

    /// The same in a folder that exists.
    fn within(folder: PathBuf, limit: u64) -> Self {
        Self {
            folder,
            limit,
            open: None,
            begun: 0,
        }
    }

    /// Adds the files of a sample, by the ends of their names.
    pub(crate) fn add<E: AsRef<str>, B: AsRef<[u8]>>(
        &mut self,
        key: &str,
        files: &[(E, B)],
    ) -> Result<(), ToolError> {
        let shard = self.shard()?;
        for (end, bytes) in files {
            let bytes = bytes.as_ref();
            let mut header = tar::Header::new_ustar();
            header.set_mode(0o644);
            header.set_size(bytes.len() as u64);
            let name = format!("{key}.{}", end.as_ref());
            let written = shard.tar.append_data(&mut header, name, bytes);
            written.map_err(IoError::at(&shard.path, "writing"))?;
            shard.bytes += bytes.len() as u64;
        }
        Ok(())
    }

    /// Ends the last file, and returns the number of files.
    pub(crate) fn finish(mut self) -> Result<u32, ToolError> {
        self.close()?;
        Ok(self.begun)
    }

    fn close(&mut self) -> Result<(), ToolError> {
        let Some(shard) = self.open.take() else {
            return Ok(());
        };
        let written = shard
            .tar
            .into_inner()
            .and_then(|out| out.into_inner().map_err(std::io::Error::from));
        written
            .map(drop)
            .map_err(IoError::at(&shard.path, "writing"))?;
        Ok(())
    }

    /// The shard to write to; a sample is never split.
    fn shard(&mut self) -> Result<&mut TarShard, ToolError> {
        if self.open.as_ref().is_some_and(|s| s.bytes >= self.limit) {
            self.close()?;
        }
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let path = self.folder.join(format!("{:05}.tar", self.begun));
                self.begun = self.begun.saturating_add(1);
                let file = File::create(&path).map_err(IoError::at(&path, "creating"))?;
                TarShard {
                    path,
                    tar: tar::Builder::new(BufWriter::new(file)),
                    bytes: 0,
                }
            }
        };
        Ok(self.open.insert(open))
    }
}
