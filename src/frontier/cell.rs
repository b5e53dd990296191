//! Cells: slices of all hosts, each with its own frontier over the same store.
//!
//! A host belongs to the cell given by the hash of its registered domain, so everything that is
//! counted or paced per domain is in one cell. The number of cells is fixed when a store is
//! created: with another number nearly every host would move to another cell.
//!
//! # The keys of a store
//!
//! Every key has a prefix of two bytes: `80 00` to `83 ff` for the cells, `c0 00` for what all
//! cells share. No class of keys ([`keys`](super::keys)) begins with such a first byte, and the
//! marks of the gathering store begin with zero. So checkpoints can store their files under the
//! prefix `ff`.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::address::HostKey;

/// The maximum number of cells in a store.
pub const MOST_CELLS: u16 = 1_024;

/// The number of cells in a store unless another one is configured.
pub const USUAL_CELLS: u16 = 64;

/// The two bytes before every key of a cell.
pub(super) type Space = [u8; 2];

/// The space of what all cells share.
pub(super) const SHARED: Space = [0xc0, 0];

/// The key of the number of cells, in the space that they share.
pub(super) const COUNT: &[u8] = b"\xc0\0cells";

/// The key of the outputs' position, in the same space.
pub(super) const STAMP: &[u8] = b"\xc0\0stamp";

/// The key of what this store has done of the quantities that a job can limit, in the same space. A
/// cell's batch adds its own part ([`super::amount`]).
pub(super) const USED: &[u8] = b"\xc0\0used";

/// The key of the number of batches, in the same space.
pub(super) const BATCHES: &[u8] = b"\xc0\0batches";

/// The key of the last lesson that the store has learned from the cluster, in the same space.
pub(super) const LEARNED_PLACE: &[u8] = b"\xc0\0lessons";

/// A position or another number as stored, 0 if absent; `None` if it is damaged.
pub(super) fn place_of(bytes: Option<&[u8]>) -> Option<u64> {
    match bytes {
        None => Some(0),
        Some(bytes) => bytes.try_into().ok().map(u64::from_be_bytes),
    }
}

/// The prefix for the number of a cell that is being deleted or loaded, in the same space.
pub(super) const LEAVING: &[u8] = b"\xc0\0leaving";

/// The bits of a finished page's number from this one up are its cell.
const CELL_OF_PAGE: u32 = 48;

/// The number of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct CellId(u16);

impl From<CellId> for u16 {
    fn from(cell: CellId) -> Self {
        cell.0
    }
}

impl TryFrom<u16> for CellId {
    type Error = String;

    fn try_from(number: u16) -> Result<Self, String> {
        let most = CellCount(MOST_CELLS).cell(number);
        most.ok_or_else(|| {
            format!(
                "{number} is not a cell: cells count from 0 to {}",
                MOST_CELLS - 1
            )
        })
    }
}

impl std::fmt::Display for CellId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cell {}", self.0)
    }
}

impl CellId {
    /// The number, from 0.
    pub fn number(self) -> u16 {
        self.0
    }

    /// The cell that a key of a store belongs to, if it belongs to one.
    pub fn of_key(key: &[u8]) -> Option<Self> {
        key.first_chunk().copied().and_then(Self::of_space)
    }

    /// Whether some of its keys may begin with two bytes between `first` and `last`.
    pub fn is_between(self, first: u16, last: u16) -> bool {
        (first..=last).contains(&u16::from_be_bytes(self.space()))
    }

    /// Whether these first two bytes are those of a cell, or lower.
    pub fn is_of_cells(space: u16) -> bool {
        space < u16::from_be_bytes(SHARED)
    }

    /// The prefix of its keys.
    pub(super) fn space(self) -> Space {
        (0x8000 | self.0).to_be_bytes()
    }

    /// The cell with this key prefix, if there is one.
    pub(super) fn of_space(space: Space) -> Option<Self> {
        let number = u16::from_be_bytes(space).checked_sub(0x8000)?;
        CellCount(MOST_CELLS).cell(number)
    }

    /// The number before its first finished page: page numbers of different cells never collide.
    pub(super) fn pages_from(self) -> u64 {
        u64::from(self.0) << CELL_OF_PAGE
    }
}

/// How many cells a store has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellCount(u16);

impl CellCount {
    /// For a machine that crawls alone.
    pub const ONE: Self = Self(1);

    /// This many cells; `None` for 0 and for more than [`MOST_CELLS`].
    pub fn new(cells: u16) -> Option<Self> {
        (1..=MOST_CELLS).contains(&cells).then_some(Self(cells))
    }

    /// The number.
    pub fn number(self) -> u16 {
        self.0
    }

    /// All cells.
    pub fn all(self) -> impl Iterator<Item = CellId> {
        (0..self.0).map(CellId)
    }

    /// The cell with this number; `None` if there is none.
    pub fn cell(self, number: u16) -> Option<CellId> {
        (number < self.0).then_some(CellId(number))
    }

    /// The cell of a host.
    pub fn cell_of(self, host: &HostKey) -> CellId {
        if self == Self::ONE {
            return CellId(0);
        }
        self.of_hash(xxh3_64(host.registered_domain().as_bytes()))
    }

    /// The cell whose owner keeps the clock of an IP address. The hosts at that address may be in
    /// any cell.
    pub fn cell_of_address(self, address: IpAddr) -> CellId {
        // The same machine, whichever way the address is written.
        self.of_hash(match address.to_canonical() {
            IpAddr::V4(address) => xxh3_64(&address.octets()),
            IpAddr::V6(address) => xxh3_64(&address.octets()),
        })
    }

    fn of_hash(self, hash: u64) -> CellId {
        // The remainder is less than the number of cells.
        CellId((hash % u64::from(self.0)) as u16)
    }

    /// The cell that gave a finished page its number.
    pub(super) fn cell_of_page(self, id: u64) -> Option<CellId> {
        let number = u16::try_from(id >> CELL_OF_PAGE).ok()?;
        self.cell(number)
    }
}

/// Which cell a frontier is, and of how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Home {
    pub cell: CellId,
    pub cells: CellCount,
}

impl Home {
    /// The only cell.
    pub const ONLY: Self = Self {
        cell: CellId(0),
        cells: CellCount::ONE,
    };

    /// The cell of a host, if it is not this one.
    pub fn elsewhere(self, host: &HostKey) -> Option<CellId> {
        let cell = self.cells.cell_of(host);
        (cell != self.cell).then_some(cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::PageUrl;

    fn host(url: &str) -> HostKey {
        PageUrl::parse(url).unwrap().host_key()
    }

    #[test]
    fn a_domain_is_in_one_cell_and_always_in_the_same() {
        let cells = CellCount::new(64).unwrap();
        let of = |url| cells.cell_of(&host(url)).number();
        for other in ["https://a.example.org:8080/x", "http://example.org/"] {
            assert_eq!(of(other), of("http://www.example.org/"), "{other}");
        }
        // These values are stored: another function would move every host to another cell.
        let known = [
            "http://example.org/",
            "http://a.github.io/",
            "http://192.0.2.1/",
        ];
        assert_eq!(known.map(of), KNOWN);
        assert_eq!(
            CellCount::ONE
                .cell_of(&host("http://example.org/"))
                .number(),
            0
        );
    }

    /// As another implementation of xxh3 computes them.
    const KNOWN: [u16; 3] = [5, 18, 16];

    #[test]
    fn hosts_are_spread_evenly() {
        let cells = CellCount::new(64).unwrap();
        let mut hosts = [0_u32; 64];
        for n in 0..64_000 {
            let cell = cells.cell_of(&host(&format!("http://host-{n}.example-{n}.org/")));
            hosts[usize::from(cell.number())] += 1;
        }
        assert!(hosts.iter().all(|n| (850..1_150).contains(n)), "{hosts:?}");
    }

    #[test]
    fn numbers_are_checked_and_spaces_differ() {
        assert_eq!(CellCount::new(0), None);
        assert_eq!(CellCount::new(MOST_CELLS + 1), None);
        let cells = CellCount::new(MOST_CELLS).unwrap();
        let spaces: Vec<Space> = cells.all().map(CellId::space).collect();
        assert!(spaces.is_sorted() && spaces.len() == usize::from(MOST_CELLS));
        // Used by no class of keys, and below the shared space.
        assert!(spaces.iter().all(|s| s[0] >= 0x80 && *s < SHARED));
        for cell in cells.all() {
            assert_eq!(CellId::of_space(cell.space()), Some(cell));
            let space = u16::from_be_bytes(cell.space());
            assert!(cell.is_between(0, space) && !cell.is_between(space + 1, u16::MAX));
            assert_eq!(cells.cell_of_page(cell.pages_from() + 7), Some(cell));
        }
        assert_eq!(CellId::of_space(SHARED), None);
        assert_eq!(CellId::of_space(*b"Uh"), None);
        assert_eq!(cells.cell_of_page(u64::MAX), None);
        assert_eq!(CellCount::ONE.cell_of_page(1 << CELL_OF_PAGE), None);
    }
}
