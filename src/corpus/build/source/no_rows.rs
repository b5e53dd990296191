//! Replaces Parquet in a build without the feature `parquet`.

use std::path::Path;

use super::super::BuildError;
use super::Push;

pub(super) fn each(_: &Path, _: Option<[u64; 3]>, _: Push<'_>) -> Result<(), BuildError> {
    Err(BuildError::NoParquet)
}
