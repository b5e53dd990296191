//! The list of active formatting elements (HTML standard, section 13.2.4.3): those that are opened
//! again after a block has ended them.

use std::borrow::Cow;

/// An entry of the list.
#[derive(Debug)]
pub(super) enum FormattingEntry<'h> {
    /// The start of a cell, a caption or an object, which formatting does not cross.
    Marker,
    /// A formatting element.
    Element {
        /// Its name.
        name: Cow<'h, str>,
        /// The element that is or was open for it.
        id: u32,
        /// Where its tag starts.
        at: usize,
        /// Whether the element is open.
        is_open: bool,
    },
}

/// The entries, oldest first.
#[derive(Debug, Default)]
pub(super) struct Formatting<'h> {
    entries: Vec<FormattingEntry<'h>>,
}

impl<'h> Formatting<'h> {
    /// Adds an open element whose tag starts at `at`.
    pub(super) fn push(&mut self, name: Cow<'h, str>, id: u32, at: usize) {
        self.entries.push(FormattingEntry::Element {
            name,
            id,
            at,
            is_open: true,
        });
    }

    /// Adds a marker.
    pub(super) fn mark(&mut self) {
        self.entries.push(FormattingEntry::Marker);
    }

    /// Removes all entries after the last marker, and the marker.
    pub(super) fn clear_to_marker(&mut self) {
        while let Some(FormattingEntry::Element { .. }) = self.entries.pop() {}
    }

    /// An element was closed, but is still in the list if it was in it before.
    pub(super) fn closed(&mut self, closed: u32) {
        for entry in self.entries.iter_mut().rev() {
            if let FormattingEntry::Element { id, is_open, .. } = entry
                && *id == closed
            {
                *is_open = false;
                return;
            }
        }
    }

    /// Removes the entry of an element. Returns whether there was one.
    pub(super) fn remove(&mut self, removed: u32) -> bool {
        let place = self.entries.iter().rposition(
            |entry| matches!(entry, FormattingEntry::Element { id, .. } if *id == removed),
        );
        place.map(|place| self.entries.remove(place)).is_some()
    }

    /// Whether an element is in the list.
    pub(super) fn has(&self, wanted: u32) -> bool {
        let mut entries = self.entries.iter().rev();
        entries.any(|entry| matches!(entry, FormattingEntry::Element { id, .. } if *id == wanted))
    }

    /// The elements since the last marker, newest first: their ids, where their tags
    /// start, and whether they are open.
    pub(super) fn since_marker(&self, wanted: &str) -> impl Iterator<Item = (u32, usize, bool)> {
        self.entries
            .iter()
            .rev()
            .map_while(|entry| match entry {
                FormattingEntry::Marker => None,
                FormattingEntry::Element {
                    name,
                    id,
                    at,
                    is_open,
                } => Some((name, *id, *at, *is_open)),
            })
            .filter(move |(name, ..)| ***name == *wanted)
            .map(|(_, id, at, is_open)| (id, at, is_open))
    }

    /// The index of the first of the entries at the end that are to be opened again;
    /// `None` if there are none.
    pub(super) fn first_closed(&self) -> Option<usize> {
        let closed = self
            .entries
            .iter()
            .rev()
            .take_while(|entry| matches!(entry, FormattingEntry::Element { is_open: false, .. }))
            .count();
        (closed > 0).then(|| self.entries.len() - closed)
    }

    /// Where the tag of the entry at `index` starts; `None` after the last.
    pub(super) fn tag_of(&self, index: usize) -> Option<usize> {
        match self.entries.get(index)? {
            FormattingEntry::Element { at, .. } => Some(*at),
            FormattingEntry::Marker => None,
        }
    }

    /// The entry at `index` was opened again as this element.
    pub(super) fn reopened(&mut self, index: usize, new: u32) {
        if let Some(FormattingEntry::Element { id, is_open, .. }) = self.entries.get_mut(index) {
            *id = new;
            *is_open = true;
        }
    }
}
