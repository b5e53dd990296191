//! Errors of cells.

use std::path::{Path, PathBuf};

use crate::cell::CellId;
use crate::store::StoreError;

/// Why a cell cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CellsError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store is of a kind that never frees the space of a cell that has left.
    #[error(
        "frontier.store = \"sled\" cannot hold several cells, because its file never shrinks when \
         one leaves; set frontier.store = \"fjall\""
    )]
    Sled,
    /// The store has another number of cells.
    #[error(
        "the frontier in {} was made with {found} cells and not with {asked}; their number never \
         changes: set frontier.cells = {found}, or name another job.folder",
        path.display()
    )]
    Number {
        /// The store's folder.
        path: PathBuf,
        /// Its cells.
        found: u16,
        /// The requested number.
        asked: u16,
    },
    /// The cell belongs to another store.
    #[error("{cell} is none of the {cells} cells of this frontier; they count from 0")]
    Unknown {
        /// The cell.
        cell: CellId,
        /// How many there are.
        cells: u16,
    },
    /// The cell must be open.
    #[error("{0} is not open; open it first")]
    Closed(CellId),
    /// The cell must not be open.
    #[error("{0} is open; close it first")]
    Open(CellId),
    /// The cell's remains are still being deleted, or the cell is being loaded.
    #[error(
        "{0} has left and is still being deleted, or is being loaded; try again when that is done"
    )]
    Leaving(CellId),
    /// The cell is not empty.
    #[error("{0} is not empty; drop it before another one takes its place")]
    Present(CellId),
    /// The loaded data has a key of another cell.
    #[error(
        "the key {key} belongs to none of the cells that are being loaded; its source is damaged"
    )]
    Foreign {
        /// The key, printable.
        key: String,
    },
}

impl CellsError {
    /// The same for a caller that needs the only cell of the store in `folder`.
    pub(super) fn of_only(self, folder: &Path) -> StoreError {
        match self {
            Self::Store(error) => error,
            _ => StoreError::SeveralCells {
                path: folder.to_owned(),
            },
        }
    }
}
