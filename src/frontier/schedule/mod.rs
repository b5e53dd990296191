//! The hosts in memory and the order in which they are requested.
//!
//! `head` (the next task of a host), `group_clocks` (clocks that hosts share),
//! `address_clocks` (those that several frontiers share),
//! `lookahead` (hosts in their delay, by their best link), `newcomers` (the limit of open
//! requests to hosts that have returned nothing yet), `order` (all hosts, by the event
//! that they wait for). None of these reads the store.

mod address_clocks;
mod group_clocks;
mod head;
mod lookahead;
mod newcomers;
mod order;

pub use address_clocks::AddressClocks;
pub use group_clocks::{Booked, Failing, News, is_trouble};
pub use head::{Head, Slot};
pub use newcomers::Newcomers;
pub use order::{Host, HostStates, HostTurn, Schedule};
