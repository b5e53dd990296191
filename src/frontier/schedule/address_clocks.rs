//! Clocks of IP addresses that several frontiers share: hosts at one address may be in different
//! cells.
//!
//! Each frontier also has its own clock of an address, and looks here before each request. So among
//! many cells whose hosts share a machine only one requests it at a time, and the others do not
//! lease what would have to wait.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many clocks there may be before expired ones are removed.
const SWEEP: usize = if cfg!(test) { 4 } else { 4_096 };

/// When each address may be requested again, in milliseconds since 1970. Copies share the same
/// clocks.
#[derive(Debug, Clone, Default)]
pub struct AddressClocks(Arc<Mutex<Clocks>>);

#[derive(Debug, Default)]
struct Clocks {
    due: HashMap<IpAddr, u64>,
    /// The number of clocks at which the next removal of expired ones starts.
    sweep: usize,
}

impl AddressClocks {
    fn clocks(&self) -> MutexGuard<'_, Clocks> {
        // No code that can panic runs between two writes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When an address may be requested again; 0 if no frontier has requested it lately.
    pub fn due(&self, address: IpAddr) -> u64 {
        self.clocks().due.get(&address).copied().unwrap_or(0)
    }

    /// Makes all frontiers wait until `due` before they request an address.
    pub fn put_off(&self, address: IpAddr, due: u64, now: u64) {
        let mut clocks = self.clocks();
        let clock = clocks.due.entry(address).or_default();
        *clock = due.max(*clock);
        if clocks.due.len() > clocks.sweep.max(SWEEP) {
            clocks.due.retain(|_, due| *due > now);
            clocks.sweep = 2 * clocks.due.len();
        }
    }

    /// The machine has answered: a back-off ends, and the next request is allowed by `due`.
    pub fn bring_forward(&self, address: IpAddr, due: u64) {
        if let Some(clock) = self.clocks().due.get_mut(&address) {
            *clock = due.min(*clock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_holds_until_the_machine_answers_and_what_ran_out_is_forgotten() {
        let address = |n: u8| IpAddr::from([127, 0, 0, n]);
        let clocks = AddressClocks::default();
        let same = clocks.clone();
        clocks.put_off(address(1), 500, 0);
        same.put_off(address(1), 300, 0);
        assert_eq!(clocks.due(address(1)), 500);
        same.bring_forward(address(1), 400);
        same.bring_forward(address(2), 400);
        assert_eq!((clocks.due(address(1)), clocks.due(address(2))), (400, 0));
        for n in 2..200 {
            clocks.put_off(address(n), 1_000 + u64::from(n), 1_000 + u64::from(n) - 1);
            assert!(clocks.clocks().due.len() <= SWEEP + 1, "{n}");
        }
    }
}
