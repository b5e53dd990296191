//! A calendar of events, to the millisecond: a ring of moments, because tens of millions of events
//! pass through it, in builds without optimisation.

/// How far ahead events can be planned, in milliseconds.
const SPAN: usize = 1 << 15;
/// No slot.
const NONE: u32 = 0;

/// Events to come. Events for the same moment happen in the order in which they were planned.
pub(super) struct Calendar<T> {
    now: u64,
    /// The first and the last slot of each moment.
    ends: Vec<(u32, u32)>,
    /// A bit for each moment that has a slot.
    marks: Vec<u64>,
    /// Each with the next slot of its moment, or the next free one. The first is never used.
    slots: Vec<(u32, Option<T>)>,
    free: u32,
}

impl<T> Calendar<T> {
    pub(super) fn new() -> Self {
        Self {
            now: 0,
            ends: vec![(NONE, NONE); SPAN],
            marks: vec![0; SPAN / 64],
            slots: vec![(NONE, None)],
            free: NONE,
        }
    }

    pub(super) fn push(&mut self, at: u64, what: T) {
        assert!(at >= self.now && at - self.now < SPAN as u64, "{at} ms");
        let slot = if self.free == NONE {
            self.slots.push((NONE, Some(what)));
            self.slots.len() as u32 - 1
        } else {
            let slot = self.free;
            let free = &mut self.slots[slot as usize];
            self.free = free.0;
            *free = (NONE, Some(what));
            slot
        };
        let moment = at as usize % SPAN;
        let (first, last) = self.ends[moment];
        if first == NONE {
            self.ends[moment] = (slot, slot);
            self.marks[moment / 64] |= 1 << (moment % 64);
        } else {
            self.slots[last as usize].0 = slot;
            self.ends[moment].1 = slot;
        }
    }

    /// When something happens next.
    pub(super) fn next(&self) -> Option<u64> {
        let start = self.now as usize % SPAN;
        let words = self.marks.len();
        let mut word = start / 64;
        let mut marks = self.marks[word] & (u64::MAX << (start % 64));
        let mut turns = 0;
        while marks == 0 {
            if turns == words {
                return None;
            }
            turns += 1;
            word = (word + 1) % words;
            marks = self.marks[word];
        }
        let moment = word * 64 + marks.trailing_zeros() as usize;
        Some(self.now + ((moment + SPAN - start) % SPAN) as u64)
    }

    /// The next event at this moment, which is that of [`Calendar::next`].
    pub(super) fn pop(&mut self, at: u64) -> Option<T> {
        self.now = at;
        let moment = at as usize % SPAN;
        let (first, last) = self.ends[moment];
        let slot = &mut self.slots[first as usize];
        let what = slot.1.take();
        if first == NONE {
            return None;
        }
        let after = slot.0;
        slot.0 = self.free;
        self.free = first;
        if first == last {
            self.ends[moment] = (NONE, NONE);
            self.marks[moment / 64] &= !(1 << (moment % 64));
        } else {
            self.ends[moment].0 = after;
        }
        what
    }
}

#[test]
fn what_is_planned_happens_in_order() {
    let mut dice = super::Dice(1);
    let mut calendar = Calendar::new();
    let (mut planned, mut happened) = (Vec::new(), Vec::new());
    for number in 0..20_000_u64 {
        let ahead = dice.within(0, [3, 3_000, SPAN as u64 - 1][number as usize % 3]);
        let at = calendar.now + ahead;
        calendar.push(at, (at, number));
        planned.push((at, number));
        if dice.percent(60) {
            let at = calendar.next().unwrap();
            happened.push(calendar.pop(at).unwrap());
        }
    }
    while let Some(at) = calendar.next() {
        happened.push(calendar.pop(at).unwrap());
    }
    planned.sort_unstable();
    assert_eq!(happened, planned);
    assert_eq!(calendar.pop(calendar.now), None);
}
