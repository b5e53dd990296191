//! Links to the cells of other machines.
//!
//! ```text
//!  a page's batch --> outbox in the store --> merge --> sent --> envelope --> log of the cell
//!                         ^ deleted when acknowledged                            |
//!  a batch of the other cell, with the number of the message  <-- apply  <-------+
//! ```
//!
//! Each cell has a log at the broker, which whoever has the cell reads. What holds:
//!
//! - A link is in its target's cell, in the outbox of the cell that found it, or in the log,
//!   whatever is killed (C3): the outbox is part of the page's batch, and is emptied when the
//!   broker has stored the message.
//! - A message is added to a cell once (C4): the number in the log is in the same batch, and
//!   repeated ones are known by the number that the sender gave them.
//! - A log is cut only up to what a committed checkpoint holds (C7).
//!
//! | part | one line |
//! |---|---|
//! | `envelope` | what a message looks like |
//! | `merge` | several offers of one address become one |
//! | `sent` | what was sent before, and need not be sent again |
//! | `publish` | which links go in which message, and when; pure |
//! | `apply` | what becomes of a message; pure |
//! | `open_cells` | which cells are open, and whether to send links and ask hosts; pure |
//! | `promises` | when hosts may be asked again, for whoever has their cell next |
//! | `cut` | up to where logs may be cut; pure |
//! | `drive` | these, an engine and the cells put together |

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

/// The most messages of one cell that are added at a time: the crawl waits for them.
pub(super) const AT_A_TIME: usize = 8;

/// The log of a cell.
pub fn log_of(cell: CellId) -> String {
    format!("links-{}", cell.number())
}
