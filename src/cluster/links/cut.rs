//! Cutting: a log is cut only up to the messages that a committed checkpoint holds.
//!
//! Until then, a machine that takes the cell over from that checkpoint has to read the messages
//! again.

use std::collections::BTreeMap;

use crate::frontier::CellId;

/// Up to where logs may be cut, and up to where they have been.
#[derive(Debug, Default)]
pub struct Cuts {
    held: BTreeMap<CellId, u64>,
    cut: BTreeMap<CellId, u64>,
}

impl Cuts {
    /// A checkpoint that holds these cells was committed, each with the number up to which it had
    /// read its log ([`LogPlace::sequence`](crate::frontier::LogPlace)).
    pub fn committed(&mut self, cells: impl IntoIterator<Item = (CellId, u64)>) {
        for (cell, sequence) in cells {
            let held = self.held.entry(cell).or_default();
            *held = (*held).max(sequence);
        }
    }

    /// The logs to cut now, and up to which number.
    pub fn due(&self) -> Vec<(CellId, u64)> {
        let is_due = |(cell, held): &(&CellId, &u64)| {
            let cut = self.cut.get(cell).copied().unwrap_or_default();
            **held > cut
        };
        let due = self.held.iter().filter(is_due);
        due.map(|(cell, held)| (*cell, *held)).collect()
    }

    /// Notes that a log was cut.
    pub fn done(&mut self, cell: CellId, sequence: u64) {
        let cut = self.cut.entry(cell).or_default();
        *cut = (*cut).max(sequence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontier::CellCount;

    #[test]
    fn only_what_a_checkpoint_holds_is_cut() {
        let cells: Vec<CellId> = CellCount::new(3).unwrap().all().collect();
        let mut cuts = Cuts::default();
        assert_eq!(cuts.due(), []);
        cuts.committed([(cells[0], 5), (cells[1], 0)]);
        assert_eq!(cuts.due(), [(cells[0], 5)]);
        // Asked again until it is done.
        assert_eq!(cuts.due(), [(cells[0], 5)]);
        cuts.committed([(cells[0], 9), (cells[2], 1)]);
        cuts.done(cells[0], 5);
        assert_eq!(cuts.due(), [(cells[0], 9), (cells[2], 1)]);
        cuts.done(cells[0], 9);
        cuts.committed([(cells[0], 4)]);
        assert_eq!(cuts.due(), [(cells[2], 1)]);
    }
}
