//! Why entities cannot be read or found.

use std::path::PathBuf;

use crate::fs::IoError;

/// Why entities cannot be read or found.
#[derive(Debug, thiserror::Error)]
pub enum EntityError {
    /// A file cannot be read or written.
    #[error("{0}; correct the path, or free space and correct the permissions")]
    Io(#[from] IoError),
    /// A file is no index.
    #[error(
        "{}: is no index of entities; make one of a list with `spoor entities build`", .0.display()
    )]
    NoIndex(PathBuf),
    /// An index is of another version.
    #[error(
        "{}: was made by another version of spoor; make it again with `spoor entities build`",
        .0.display()
    )]
    OtherVersion(PathBuf),
    /// An index is damaged.
    #[error("{}: is damaged; make it again with `spoor entities build`", .0.display())]
    Damaged(PathBuf),
    /// A list has nothing.
    #[error(
        "{}: has no entity; a line has a name, classes, popularity and aliases between tabs, or \
         is an item of Wikidata as JSON", .0.display()
    )]
    Empty(PathBuf),
    /// There is too much.
    #[error("more than four billion entities or bytes of an entity; leave some out")]
    TooMany,
}
