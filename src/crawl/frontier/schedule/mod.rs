//! The hosts in memory and the order in which they are asked.
//!
//! `head` (what a host is asked for next), `shared_limits` (clocks that hosts share), `lookahead`
//! (hosts in their delay, by their best link), `newcomers` (how many requests may be open at hosts
//! that have given nothing yet), `order` (all hosts, by what they wait for). None of these reads
//! the store.

mod head;
mod lookahead;
mod newcomers;
mod order;
mod shared_limits;

pub use head::{Head, Slot};
pub use newcomers::Newcomers;
pub use order::{Host, HostStates, HostTurn, Schedule};
pub use shared_limits::{Booked, Failing, News, is_trouble};
