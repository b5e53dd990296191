//! One line of JSON per image, with the image files.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::SampleWriter;
use super::columns::ImageSample;
use crate::columns::{DataColumn, json};
use crate::fs::IoError;
use crate::tool_error::ToolError;

pub(super) struct LinesWriter {
    folder: PathBuf,
    path: PathBuf,
    lines: BufWriter<File>,
    columns: Vec<DataColumn<ImageSample>>,
}

impl LinesWriter {
    pub(super) fn create(
        folder: &Path,
        name: &str,
        columns: Vec<DataColumn<ImageSample>>,
    ) -> Result<Self, ToolError> {
        let path = folder.join(name);
        let file = File::create(&path).map_err(IoError::at(&path, "creating"))?;
        Ok(Self {
            folder: folder.to_owned(),
            path,
            lines: BufWriter::new(file),
            columns,
        })
    }
}

impl SampleWriter for LinesWriter {
    fn add(&mut self, sample: &ImageSample, bytes: Option<&[u8]>) -> Result<(), ToolError> {
        if let Some(bytes) = bytes {
            let path = self.folder.join(sample.path());
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)
                    .map_err(IoError::at(parent, "making the folder"))?;
            }
            std::fs::write(&path, bytes).map_err(IoError::at(&path, "writing"))?;
        }
        let written = writeln!(self.lines, "{}", json(&self.columns, sample));
        written.map_err(IoError::at(&self.path, "writing"))?;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), ToolError> {
        self.lines
            .flush()
            .map_err(IoError::at(&self.path, "writing"))?;
        Ok(())
    }
}
