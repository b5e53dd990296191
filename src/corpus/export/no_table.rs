//! Replaces Parquet in a build without the feature `parquet`: every use is an error with
//! advice.

use std::path::{Path, PathBuf};

use super::columns::{Column, Kind, Sample, Value};
use super::{ExportError, Writer};

/// Has no value and cannot be created.
pub(super) enum Pictures {}

impl Pictures {
    pub(super) fn create(_folder: &Path, _columns: Vec<Column>) -> Result<Self, ExportError> {
        Err(ExportError::NoParquet)
    }
}

impl Writer for Pictures {
    fn add(&mut self, _sample: &Sample<'_>, _bytes: Option<&[u8]>) -> Result<(), ExportError> {
        match *self {}
    }

    fn finish(self: Box<Self>) -> Result<(), ExportError> {
        match *self {}
    }
}

/// Has no value and cannot be created.
pub(in crate::corpus) enum Table {}

impl Table {
    pub(in crate::corpus) fn create<'a>(
        _folder: PathBuf,
        _limit: u64,
        _columns: impl Iterator<Item = (&'a str, Kind)>,
    ) -> Result<Self, ExportError> {
        Err(ExportError::NoParquet)
    }

    pub(in crate::corpus) fn add(
        &mut self,
        _values: impl Iterator<Item = Value>,
        _bytes: Option<&[u8]>,
    ) -> Result<(), ExportError> {
        match *self {}
    }

    pub(in crate::corpus) fn finish(self) -> Result<u32, ExportError> {
        match self {}
    }
}
