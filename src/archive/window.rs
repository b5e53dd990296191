//! The bytes of a stream that are in memory: those not yet read, and some already read ones to
//! which a search for the next good record may return.

/// The most bytes before the read position that are kept.
pub(super) const LOOK_BACK: usize = 4 << 20;
/// The number of bytes from which compacting is worthwhile.
const SMALL: usize = 128 << 10;

/// A window onto a stream. Positions count from the beginning of the stream.
#[derive(Debug, Default)]
pub(super) struct StreamWindow {
    /// Allocated; filled up to `end`.
    bytes: Vec<u8>,
    /// The first unread byte.
    at: usize,
    end: usize,
    /// The position of `bytes[0]`.
    origin: u64,
    /// Nothing before this position is needed any more.
    mark: u64,
}

impl StreamWindow {
    /// The bytes that were filled in and not yet consumed.
    pub(super) fn unread(&self) -> &[u8] {
        self.bytes.get(self.at..self.end).unwrap_or_default()
    }

    /// The position of the first unread byte.
    pub(super) fn position(&self) -> u64 {
        self.origin + self.at as u64
    }

    /// Marks `n` unread bytes as read.
    pub(super) fn consume(&mut self, n: usize) {
        self.at = (self.at + n).min(self.end);
    }

    /// Allows everything before the read position to be dropped.
    pub(super) fn mark(&mut self) {
        self.mark = self.position();
    }

    /// Returns to a position, or as near as the window allows.
    pub(super) fn rewind(&mut self, to: u64) {
        let back = to.saturating_sub(self.origin);
        let back = usize::try_from(back).unwrap_or(usize::MAX);
        self.at = back.min(self.end);
    }

    /// Empties the window for a new stream.
    pub(super) fn restart(&mut self) {
        (self.at, self.end, self.origin, self.mark) = (0, 0, 0, 0);
    }

    /// Space for `length` bytes after the present ones; then call [`Self::filled`] with the number
    /// of bytes written.
    pub(super) fn room(&mut self, length: usize) -> &mut [u8] {
        let reach = self.position().saturating_sub(LOOK_BACK as u64);
        let needed = self.mark.max(reach).saturating_sub(self.origin);
        let dropped = usize::try_from(needed).unwrap_or(self.at).min(self.at);
        let kept = self.end - dropped;
        let is_full = self.bytes.len() - self.end < length;
        // Few bytes are moved for many that are dropped, so that copying stays cheap and the part
        // in use fits into the processor's cache.
        let pays = dropped >= SMALL && kept <= dropped / 3;
        if dropped > 0 && (is_full || pays) {
            self.bytes.copy_within(dropped..self.end, 0);
            self.at -= dropped;
            self.end = kept;
            self.origin += dropped as u64;
        }
        if self.bytes.len() - self.end < length || (is_full && kept > self.bytes.len() / 2) {
            self.bytes.resize(2 * (kept + length), 0);
        }
        let end = self.end;
        self.bytes.get_mut(end..end + length).unwrap_or_default()
    }

    /// Counts `n` bytes of the space as filled.
    pub(super) fn filled(&mut self, n: usize) {
        self.end = (self.end + n).min(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(window: &mut StreamWindow, from: u64, length: usize) {
        let room = window.room(length);
        for (byte, n) in room.iter_mut().zip(from..) {
            *byte = (n % 251) as u8;
        }
        window.filled(length);
    }

    fn first(window: &StreamWindow) -> u64 {
        u64::from(window.unread()[0])
    }

    #[test]
    fn it_returns_to_the_mark_and_stays_small() {
        let mut window = StreamWindow::default();
        let mut filled = 0;
        for _ in 0..1_000 {
            fill(&mut window, filled, 64 << 10);
            filled += 64 << 10;
            window.mark();
            let marked = window.position();
            window.consume(64 << 10);
            assert_eq!((window.position(), window.unread().len()), (filled, 0));
            window.rewind(marked);
            assert_eq!((window.position(), first(&window)), (marked, marked % 251));
            window.consume(64 << 10);
        }
        assert!(window.bytes.len() < 1 << 20, "{}", window.bytes.len());
    }

    #[test]
    fn it_never_keeps_more_than_it_looks_back() {
        let mut window = StreamWindow::default();
        for n in 0..400 {
            fill(&mut window, n * 100_000, 100_000);
            window.consume(100_000);
        }
        assert!(window.bytes.len() < 3 * LOOK_BACK, "{}", window.bytes.len());
        window.rewind(5);
        let back = 40_000_000 - window.position();
        assert!(back >= LOOK_BACK as u64, "{back}");
        assert_eq!(first(&window), window.position() % 251);
    }
}
