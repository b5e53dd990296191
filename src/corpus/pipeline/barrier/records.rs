//! Records of a fixed length in several files; one file is in memory at a time.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use super::super::work::Workplace;
use crate::fs::IoError;
use crate::tool_error::ToolError;

/// Files of records of `N` bytes.
pub(super) struct RecordFiles<const N: usize>(Vec<(PathBuf, BufWriter<File>)>);

impl<const N: usize> RecordFiles<N> {
    /// Creates this many files whose names begin with `name`.
    pub(super) fn create(place: &Workplace, name: &str, count: usize) -> Result<Self, ToolError> {
        let files = (0..count).map(|number| {
            let path = place.path(&format!("{name}-{number:03}"));
            let file = File::create(&path).map_err(IoError::at(&path, "creating"))?;
            Ok((path, BufWriter::new(file)))
        });
        Ok(Self(files.collect::<Result<_, ToolError>>()?))
    }

    /// How many files there are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Adds a record to a file.
    pub(super) fn add(&mut self, file: usize, record: [u8; N]) -> Result<(), ToolError> {
        if let Some((path, out)) = self.0.get_mut(file) {
            let written = out.write_all(&record);
            written.map_err(IoError::at(path, "writing"))?;
        }
        Ok(())
    }

    /// The records of each file; the files are removed.
    pub(super) fn finish(
        self,
    ) -> Result<impl Iterator<Item = Result<Vec<[u8; N]>, ToolError>>, ToolError> {
        let mut paths = Vec::new();
        for (path, mut out) in self.0 {
            out.flush().map_err(IoError::at(&path, "writing"))?;
            paths.push(path);
        }
        Ok(paths.into_iter().map(|path| {
            let bytes = crate::fs::read(&path).map_err(IoError::at(&path, "reading"))?;
            std::fs::remove_file(&path).map_err(IoError::at(&path, "removing"))?;
            Ok(bytes.as_chunks::<N>().0.to_vec())
        }))
    }
}
