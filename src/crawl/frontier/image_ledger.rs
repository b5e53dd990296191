//! What share of the requests goes to images, and what is still to be had of them.
//!
//! Images share the crawl with the pages from its beginning, as who stops early wants
//! both. While pages and images wait, `[images] share` of the requests go to images. This
//! is an account: a page that is fetched while images wait puts the share into it, an
//! image that is fetched while pages wait takes the rest of one out of it, and it is the
//! turn of an image when there is enough. What is open counts as if it were done, so the
//! share holds among a hundred open requests as well. The account is committed with every
//! task, so it survives any end; it never grows beyond a few requests, so images that
//! could not be asked for do not hold up the pages afterwards.
//!
//! Nobody waits for a turn: where no image may be asked for now, pages go on, and the
//! other way round. So images of hosts of their own come as fast as these hosts permit,
//! and the share decides where both want the same: the room for open requests, and the
//! clock of a host that has both. A host that is the best for pages has an account of its
//! own in memory, or its images would take all its requests.

use serde::{Deserialize, Serialize};

use crate::page::TaskKind;

/// What an account holds at most, in requests, either way.
const MAX_OWED: f64 = 3.0;

/// Sums of shares are not exact.
const TINY: f64 = 1e-9;

/// The account of the images; a record of its own, beside the counters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ImageLedger {
    /// Requests that images are owed; less than 0 where they had more than their share.
    pub owed: f64,
    /// Addresses that were tried because there was no image at another of the same picture.
    pub tried: u64,
    /// Images that were kept from such an address.
    pub stood_in: u64,
    /// Images that were left out because they are SVGs by name.
    pub svgs: u64,
}

/// What of the images is still to be had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImagesLeft {
    /// Images that are queued.
    pub images: u64,
    /// Hosts that they are to be had from.
    pub hosts: u64,
    /// Those of the images whose hosts are given up for now.
    pub parked: u64,
    /// About how long the others take at the present pauses, in milliseconds: as long as
    /// the host that takes longest.
    pub millis: u64,
}

/// What is owed after a request for a page or an image.
pub(super) fn booked(owed: f64, share: f64, is_image: bool) -> f64 {
    let owed = if is_image {
        owed - (1.0 - share)
    } else {
        owed + share
    };
    owed.clamp(-MAX_OWED, MAX_OWED)
}

/// Whether so much is owed that an image is due.
pub(super) fn is_due(owed: f64, share: f64) -> bool {
    share > 0.0 && owed >= 1.0 - share - TINY
}

impl ImageLedger {
    /// Books a request that is settled, while so many pages and images are queued that may be
    /// asked for. Images have `share` of the requests.
    pub(super) fn book(&mut self, kind: TaskKind, pages: u64, images: u64, share: f64) {
        let (is_image, others) = match kind {
            TaskKind::Image => (true, pages),
            TaskKind::Page => (false, images),
            TaskKind::Sitemap | TaskKind::Robots | TaskKind::Tdmrep => return,
        };
        if others > 0 {
            self.owed = booked(self.owed, share, is_image);
        }
    }

    /// Whether the next request should be for an image, while so many are open.
    pub(super) fn is_image_turn(&self, pages: usize, images: usize, share: f64) -> bool {
        let open = share * pages as f64 - (1.0 - share) * images as f64;
        is_due(self.owed + open, share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What `turns` requests go to while both wait.
    fn images_of(share: f64, turns: usize) -> usize {
        let mut owed = 0.0;
        let is_image = |_| {
            let due = is_due(owed, share);
            owed = booked(owed, share, due);
            due
        };
        (0..turns).map(is_image).filter(|due| *due).count()
    }

    #[test]
    fn the_share_is_kept() {
        for (share, expected) in [
            (0.0, 0),
            (1.0 / 3.0, 100),
            (0.5, 150),
            (0.9, 270),
            (1.0, 300),
        ] {
            assert_eq!(images_of(share, 300), expected, "{share}");
        }
    }

    #[test]
    fn only_what_others_wait_for_is_booked() {
        let mut ledger = ImageLedger::default();
        ledger.book(TaskKind::Page, 5, 0, 0.5);
        ledger.book(TaskKind::Image, 0, 5, 0.5);
        ledger.book(TaskKind::Sitemap, 5, 5, 0.5);
        assert_eq!(ledger.owed, 0.0);
        ledger.book(TaskKind::Page, 5, 5, 0.5);
        assert_eq!(ledger.owed, 0.5);
        // What is open counts as if it were done.
        assert!(ledger.is_image_turn(0, 0, 0.5));
        assert!(!ledger.is_image_turn(0, 1, 0.5));
        assert!(ledger.is_image_turn(1, 1, 0.5));
    }

    proptest! {
        #![proptest_config(crate::tests::usual())]

        #[test]
        fn any_share_is_kept(share in 0.0..1.0_f64, turns in 0_usize..500) {
            let images = images_of(share, turns) as f64;
            prop_assert!((images - share * turns as f64).abs() <= 1.0);
        }
    }
}
