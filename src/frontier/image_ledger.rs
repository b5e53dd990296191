//! The share of requests for images, and the estimate of the images still to fetch.
//!
//! Images are fetched along with pages from the start, so that a crawl that is stopped early has
//! both. While pages and images wait, `[images] share` of the requests go to images. An account
//! keeps this share: a page fetched while images wait adds the share, an image fetched while pages
//! wait subtracts one minus the share, and an image is next when the balance is high enough. Open
//! requests count as if they were done, so the share also holds among a hundred open requests. The
//! account is committed with every task, so it survives a crash. It is limited to a few requests,
//! so a period without available images does not delay the pages afterwards.
//!
//! Turns never block: if no image may be requested now, pages continue, and vice versa. Images on
//! separate hosts thus arrive as fast as these hosts permit. The share decides when both compete:
//! for open requests, and for the clock of a host that has both. The best host for pages has a
//! separate account in memory, because otherwise its images would take all its requests.

use serde::{Deserialize, Serialize};

use crate::page::TaskKind;

/// Greatest balance of an account, in requests, in either direction.
const MAX_OWED: f64 = 3.0;

/// Tolerance: sums of shares are not exact.
const TINY: f64 = 1e-9;

/// The account of the images; a separate record beside the counters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ImageLedger {
    /// Requests owed to images; below 0 if they had more than their share.
    pub owed: f64,
    /// Images left out because their names say SVG.
    pub svgs: u64,
}

/// The images still to fetch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImagesLeft {
    /// Queued images.
    pub images: u64,
    /// Hosts of the queued images.
    pub hosts: u64,
    /// Queued images whose hosts are given up for now.
    pub parked: u64,
    /// Estimated time for the other images at the present pauses, in milliseconds: that
    /// of the slowest host.
    pub millis: u64,
}

/// The balance after a request for a page or an image.
pub(super) fn booked(owed: f64, share: f64, is_image: bool) -> f64 {
    let owed = if is_image {
        owed - (1.0 - share)
    } else {
        owed + share
    };
    owed.clamp(-MAX_OWED, MAX_OWED)
}

/// Whether the balance makes an image due.
pub(super) fn is_due(owed: f64, share: f64) -> bool {
    share > 0.0 && owed >= 1.0 - share - TINY
}

impl ImageLedger {
    /// Books a settled request, given the numbers of queued pages and images that may be requested.
    /// `share` is the share of the requests that images get.
    pub(super) fn book(&mut self, kind: TaskKind, pages: u64, images: u64, share: f64) {
        let (is_image, others) = match kind {
            TaskKind::Image => (true, pages),
            TaskKind::Page => (false, images),
            TaskKind::Sitemap | TaskKind::Robots | TaskKind::Tdmrep | TaskKind::Rsl => return,
        };
        if others > 0 {
            self.owed = booked(self.owed, share, is_image);
        }
    }

    /// Whether the next request should be for an image, given the numbers of open
    /// requests.
    pub(super) fn is_image_turn(&self, pages: usize, images: usize, share: f64) -> bool {
        let open = share * pages as f64 - (1.0 - share) * images as f64;
        is_due(self.owed + open, share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The number of images among `turns` requests while both wait.
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
        // Open requests count as if they were done.
        assert!(ledger.is_image_turn(0, 0, 0.5));
        assert!(!ledger.is_image_turn(0, 1, 0.5));
        assert!(ledger.is_image_turn(1, 1, 0.5));
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn any_share_is_kept(share in 0.0..1.0_f64, turns in 0_usize..500) {
            let images = images_of(share, turns) as f64;
            prop_assert!((images - share * turns as f64).abs() <= 1.0);
        }
    }
}
