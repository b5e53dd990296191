//! A list of millions that grows without moving.

/// The number of entries in a piece.
const PIECE: usize = 1 << 16;

/// A list that grows in pieces. A vector doubles its capacity and needs both allocations while
/// it moves, at worst three times its size; this list has at most one piece too much.
#[derive(Debug)]
pub struct Pieces<T> {
    full: Vec<Vec<T>>,
    last: Vec<T>,
}

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Self {
            full: Vec::new(),
            last: Vec::new(),
        }
    }
}

impl<T> Pieces<T> {
    /// Adds an entry at the end.
    pub fn push(&mut self, entry: T) {
        if self.last.len() == PIECE {
            self.full.push(std::mem::take(&mut self.last));
            self.last.reserve_exact(PIECE);
        }
        self.last.push(entry);
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.full.len() * PIECE + self.last.len()
    }
}

impl<T> Extend<T> for Pieces<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, entries: I) {
        entries.into_iter().for_each(|entry| self.push(entry));
    }
}

impl<T> IntoIterator for Pieces<T> {
    type Item = T;
    type IntoIter = std::iter::Flatten<std::vec::IntoIter<Vec<T>>>;

    /// The entries in their order. A piece is freed after its last entry.
    fn into_iter(mut self) -> Self::IntoIter {
        self.full.push(self.last);
        self.full.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_keep_their_order_over_the_ends_of_pieces() {
        let count = 2 * PIECE + 3;
        let mut pieces = Pieces::default();
        assert_eq!(pieces.len(), 0);
        pieces.extend(0..PIECE);
        assert_eq!(pieces.len(), PIECE);
        pieces.extend(PIECE..count);
        assert_eq!(pieces.len(), count);
        assert!(pieces.into_iter().eq(0..count));
    }
}
