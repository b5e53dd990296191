//! The leases: what is being requested right now. They exist only in memory, so after a crash
//! everything that was in flight is queued as before.

use std::collections::HashMap;

use super::host_files::TermsRequest;
use super::keys;
use super::record::RobotsErrand;
use super::schedule::{Newcomers, Slot};
use crate::page::{Task, TaskKind};

/// What a lease is for.
#[derive(Debug, Clone)]
pub(super) enum Errand {
    /// A queued page, image or sitemap.
    Url {
        /// Its `U` key.
        key: Vec<u8>,
    },
    /// The robots.txt of the host itself.
    Robots {
        /// For `http` or `https`.
        scheme: &'static str,
    },
    /// Its tdmrep.json, or an RSL file.
    Terms(TermsRequest),
    /// A robots.txt that another host's redirected to.
    Redirected {
        /// The entry in the queue of this host.
        queue_key: Vec<u8>,
        /// The host that it speaks for.
        errand: RobotsErrand,
    },
}

/// An open lease.
#[derive(Debug, Clone)]
pub(super) struct Lease {
    pub slot: Slot,
    /// The queue value that is marked as leased at the host.
    pub value: Vec<u8>,
    pub errand: Errand,
    /// The number among the finished that a sitemap got when the first part of its list was added.
    pub number: Option<u64>,
    /// How many of its addresses were skipped so far, because its site has listed enough.
    pub beyond: u64,
}

impl Lease {
    pub fn new(slot: Slot, value: Vec<u8>, errand: Errand) -> Self {
        Self {
            slot,
            value,
            errand,
            number: None,
            beyond: 0,
        }
    }

    /// Whether it is for an image.
    pub fn is_image(&self) -> bool {
        match &self.errand {
            Errand::Url { key } => keys::kind_of_key(key) == Some(TaskKind::Image),
            _ => false,
        }
    }

    /// Whether it is for a file that speaks for its own host.
    pub fn is_for_host_file(&self) -> bool {
        matches!(self.errand, Errand::Robots { .. } | Errand::Terms(_))
    }
}

/// All open leases.
#[derive(Debug, Default)]
pub(super) struct Leases {
    open: HashMap<u64, Lease>,
    /// The number of leases for images.
    images: usize,
    last: u64,
    /// The leases at hosts that have returned nothing yet, or failed last.
    pub newcomers: Newcomers,
}

impl Leases {
    /// No leases; the next number is after this one.
    pub fn behind(last: u64) -> Self {
        Self {
            last,
            ..Self::default()
        }
    }

    /// The lease of a task, while it is open.
    pub fn of(&self, task: &Task) -> Option<&Lease> {
        self.open.get(&task.lease)
    }

    /// The same, mutable.
    pub fn of_mut(&mut self, task: &Task) -> Option<&mut Lease> {
        self.open.get_mut(&task.lease)
    }

    /// Opens a lease and returns its number. `newcomer` is whether the host is not known to answer.
    pub fn open(&mut self, lease: Lease, newcomer: bool, now: u64) -> u64 {
        self.last += 1;
        if newcomer {
            self.newcomers.asked(self.last, now);
        }
        self.images += usize::from(lease.is_image());
        self.open.insert(self.last, lease);
        self.last
    }

    /// Ends a lease.
    pub fn close(&mut self, number: u64) -> Option<Lease> {
        let ended = self.open.remove(&number);
        if ended.as_ref().is_some_and(Lease::is_image) {
            self.images = self.images.saturating_sub(1);
        }
        ended
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// How many are for images.
    pub fn images(&self) -> usize {
        self.images
    }

    /// How many are not for images.
    pub fn pages(&self) -> usize {
        self.len().saturating_sub(self.images)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::PageUrl;

    fn lease(kind: TaskKind) -> Lease {
        let url = PageUrl::parse("http://a.example/x").unwrap();
        let key = keys::url(&url, kind);
        Lease::new(0, key.clone(), Errand::Url { key })
    }

    #[test]
    fn images_and_pages_are_counted_apart() {
        let mut leases = Leases::default();
        let page = leases.open(lease(TaskKind::Page), false, 0);
        let image = leases.open(lease(TaskKind::Image), false, 0);
        assert_eq!((leases.len(), leases.pages(), leases.images()), (2, 1, 1));
        assert!(leases.close(image).is_some_and(|lease| lease.is_image()));
        assert!(leases.close(image).is_none(), "a lease ends once");
        assert_eq!((leases.len(), leases.pages(), leases.images()), (1, 1, 0));
        assert!(leases.close(page).is_some());
        assert!(leases.is_empty());
    }
}
