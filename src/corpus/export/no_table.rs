//! Replaces Parquet in a build without the feature `parquet`: every use is an error with
//! advice.

use std::path::{Path, PathBuf};

use super::columns::ImageSample;
use super::{ExportError, Writer};
use crate::corpus::columns::{ColumnValue, DataColumn};

/// Has no value and cannot be created.
pub(super) enum Pictures {}

impl Pictures {
    pub(super) fn create(
        _folder: &Path,
        _columns: Vec<DataColumn<ImageSample>>,
    ) -> Result<Self, ExportError> {
        Err(ExportError::NoParquet)
    }
}

impl Writer for Pictures {
    fn add(&mut self, _sample: &ImageSample, _bytes: Option<&[u8]>) -> Result<(), ExportError> {
        match *self {}
    }

    fn finish(self: Box<Self>) -> Result<(), ExportError> {
        match *self {}
    }
}

/// Has no value and cannot be created.
pub(in crate::corpus) enum Table {}

impl Table {
    pub(in crate::corpus) fn create<S>(
        _folder: PathBuf,
        _limit: u64,
        _columns: &[DataColumn<S>],
    ) -> Result<Self, ExportError> {
        Err(ExportError::NoParquet)
    }

    pub(in crate::corpus) fn add(
        &mut self,
        _values: impl Iterator<Item = ColumnValue>,
        _bytes: Option<&[u8]>,
    ) -> Result<(), ExportError> {
        match *self {}
    }

    pub(in crate::corpus) fn finish(self) -> Result<u32, ExportError> {
        match self {}
    }
}
