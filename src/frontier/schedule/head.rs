//! The next task of a host, and the number of a host in memory.

use crate::keys::Rank;

/// The next task of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// Its place among all hosts' heads.
    pub rank: Rank,
    /// Class of its queue.
    pub class: u8,
    /// Key of the queue entry.
    pub queue_key: Vec<u8>,
    /// Value of the queue entry: a `U` key, or a robots errand for class 0.
    pub value: Vec<u8>,
}

/// Index of a host in the schedule.
pub type Slot = usize;
