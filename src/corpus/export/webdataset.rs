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

pub(super) struct Shards {
    folder: PathBuf,
    columns: Vec<DataColumn<ImageSample>>,
    open: Option<TarShard>,
    begun: u32,
}

struct TarShard {
    path: PathBuf,
    tar: tar::Builder<BufWriter<File>>,
    bytes: u64,
}

impl Shards {
    pub(super) fn new(folder: &Path, columns: Vec<DataColumn<ImageSample>>) -> Self {
        Self {
            folder: folder.to_owned(),
            columns,
            open: None,
            begun: 0,
        }
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
        if self.open.as_ref().is_some_and(|s| s.bytes >= SHARD_BYTES) {
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

impl SampleWriter for Shards {
    fn add(&mut self, sample: &ImageSample, bytes: Option<&[u8]>) -> Result<(), ToolError> {
        let json = json(&self.columns, sample);
        let text = sample.text().map_or("", |(_, text)| text);
        let shard = self.shard()?;
        let key = sample.key();
        let image = bytes.map(|bytes| (sample.extension(), bytes));
        let rest = [("json", json.as_bytes()), ("txt", text.as_bytes())];
        for (extension, bytes) in image.into_iter().chain(rest) {
            let mut header = tar::Header::new_ustar();
            header.set_mode(0o644);
            header.set_size(bytes.len() as u64);
            let name = format!("{key}.{extension}");
            let written = shard.tar.append_data(&mut header, name, bytes);
            written.map_err(IoError::at(&shard.path, "writing"))?;
            shard.bytes += bytes.len() as u64;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), ToolError> {
        self.close()
    }
}
