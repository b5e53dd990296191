//! The sketches of all units on the disk, band by band.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::PathBuf;

use super::super::BuildError;
use super::super::plan::{Copies, Level};
use super::super::work::Workplace;
use crate::fs::IoError;

/// The bands of all units, each in a file of its own.
pub(super) struct Bands {
    pub(super) files: Vec<(PathBuf, BufWriter<File>)>,
}

impl Bands {
    pub(super) fn create(
        step: &Copies,
        number: usize,
        place: &Workplace,
    ) -> Result<Self, BuildError> {
        let is_near = step.least < 1.0 && step.level != Level::Url;
        let count = if is_near { step.bands } else { 0 };
        let files = (0..count).map(|band| {
            let path = place.path(&format!("band-{number:03}-{band:03}"));
            let file = File::create(&path).map_err(IoError::at(&path, "creating"))?;
            Ok((path, BufWriter::new(file)))
        });
        Ok(Self {
            files: files.collect::<Result<_, BuildError>>()?,
        })
    }

    /// Adds a unit; one without words agrees with none, as it is passed over.
    pub(super) fn add(&mut self, bands: &[u32]) -> Result<(), BuildError> {
        let bands = bands.iter().copied().chain(std::iter::repeat(0));
        for ((path, out), band) in self.files.iter_mut().zip(bands) {
            let written = out.write_all(&band.to_le_bytes());
            written.map_err(IoError::at(path, "writing"))?;
        }
        Ok(())
    }

    /// The values of each band by unit; the files are removed.
    pub(super) fn finish(
        self,
    ) -> Result<impl Iterator<Item = Result<Vec<u32>, BuildError>>, BuildError> {
        let mut paths = Vec::new();
        for (path, mut out) in self.files {
            out.flush().map_err(IoError::at(&path, "writing"))?;
            paths.push(path);
        }
        Ok(paths.into_iter().map(|path| {
            let file = crate::fs::open(&path).map_err(IoError::at(&path, "opening"))?;
            let mut bytes = Vec::new();
            let read = BufReader::new(file).read_to_end(&mut bytes);
            read.map_err(IoError::at(&path, "reading"))?;
            let (values, _) = bytes.as_chunks::<4>();
            let values = values
                .iter()
                .map(|value| u32::from_le_bytes(*value))
                .collect();
            std::fs::remove_file(&path).map_err(IoError::at(&path, "removing"))?;
            Ok(values)
        }))
    }
}
