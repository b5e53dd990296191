//! Links to the cells of other machines.
//!
//! ```text
//!  a page's batch --> outbox in the store --> merge --> sent --> envelope --> log of the cell
//!                         ^ deleted when acknowledged                            |
//!  a batch of the other cell, with the number of the message  <-- apply  <-------+
//! ```
//!
//! Each cell has a log at the broker, which the owner of the cell reads. These hold:
//!
//! - A link is in its target's cell, in the outbox of the cell that found it, or in the log,
//!   whichever process is killed (C3): the outbox is part of the page's batch, and is emptied only
//!   when the broker has stored the message.
//! - A message is added to a cell once (C4): the same batch stores its number in the log, and
//!   repeated messages are recognised by the number that the sender gave them.
//! - A log is cut only up to what a committed checkpoint holds (C7).
//!
//! | part | one line |
//! |---|---|
//! | `envelope` | the layout of a message |
//! | `merge` | merges several offers of one address |
//! | `sent` | what was sent before and need not be sent again |
//! | `publish` | which links go in which message, and when; pure |
//! | `apply` | what becomes of a message; pure |
//! | `open_cells` | which cells are open, and whether links may be sent and hosts contacted; pure |
//! | `promises` | when hosts may next be contacted, for the next owner of their cell |
//! | `cut` | up to where logs may be cut; pure |
//! | `drive` | connects these, an engine and the cells |

mod apply;
mod cut;
mod drive;
mod envelope;
mod merge;
mod open_cells;
mod promises;
mod publish;
mod sent;
#[cfg(test)]
pub(super) mod tests;

#[cfg(test)]
pub(crate) use self::apply::UNNUMBERED;
pub use self::apply::{Reading, read};
pub use self::cut::Cuts;
pub use self::drive::{Links, Tally};
pub use self::envelope::{Envelope, EnvelopeError};
pub use self::open_cells::OpenCells;
pub use self::publish::{Post, Publisher, Sending, Setting};
use crate::frontier::CellId;
pub use crate::packed::MessagesError;

/// The log of messages that could not be read.
pub const REJECTED: &str = "rejected";

/// The most messages of one cell that are added at once: the crawl waits in the meantime.
pub(super) const AT_A_TIME: usize = 8;

/// The log of a cell.
pub fn log_of(cell: CellId) -> String {
    format!("links-{}", cell.number())
}
