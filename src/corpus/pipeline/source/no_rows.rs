//! Replaces Parquet in a build without the feature `parquet`.

use std::path::Path;

use super::super::BuildError;
use super::Push;

/// Prints the rows of a Parquet file, in a build that reads them.
///
/// # Errors
///
/// Always, as this one does not.
pub fn print_rows(_: &Path) -> Result<(), String> {
    Err(BuildError::NoParquet.to_string())
}

pub(super) fn each(_: &Path, _: Option<[u64; 3]>, _: Push<'_>) -> Result<(), BuildError> {
    Err(BuildError::NoParquet)
}
