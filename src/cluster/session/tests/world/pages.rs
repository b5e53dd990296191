//! The links of pages: which pages have one, where it leads, and the offer for it.

use std::sync::LazyLock;

use super::CELLS;
use crate::address::PageUrl;
use crate::frontier::{CellOffer, NewTask, Rated};
use crate::page::Bucket;

/// One page in this many of a cell has a link.
const EVERY: u64 = 12;
/// The most links that the pages of a cell have.
pub(super) const MOST_LINKS: u64 = 64;

/// The link of a page, if it has one.
pub(super) fn link_of(page: u64) -> Option<u64> {
    let link = page / EVERY;
    assert!(link < MOST_LINKS, "page {page}");
    page.is_multiple_of(EVERY).then_some(link)
}

/// How many links this many pages have.
pub(super) fn links_of(pages: u64) -> u64 {
    pages.div_ceil(EVERY)
}

/// The cell that a link leads to: never that of its page.
pub(super) fn target(from: usize, link: u64) -> usize {
    let cells = usize::from(CELLS);
    let away = 1 + (link as usize * 5 + from * 3 + link as usize / 7) % (cells - 1);
    (from + away) % cells
}

/// The links of a cell's pages to another cell, as a set of bits.
pub(super) static LINKS: LazyLock<[[u64; CELLS as usize]; CELLS as usize]> = LazyLock::new(|| {
    let mut links = [[0; CELLS as usize]; CELLS as usize];
    for (from, links) in links.iter_mut().enumerate() {
        for link in 0..MOST_LINKS {
            links[target(from, link)] |= 1 << link;
        }
    }
    links
});

/// The offer for each link of each cell.
pub(super) static OFFERS: LazyLock<Vec<Vec<Rated>>> = LazyLock::new(|| {
    let offer = |from: usize, link: u64| {
        let url = format!("http://h{}.org/{from}/{link}", target(from, link));
        let task = NewTask {
            url: PageUrl::parse(&url).unwrap(),
            bucket: Some(Bucket::Normal),
            score: link as f64,
            parts: None,
            anchor: None,
            clues: None,
        };
        Rated {
            offer: CellOffer::page(task, 1),
            bucket: Some(Bucket::Normal),
            score: link as f64,
        }
    };
    let cells = 0..usize::from(CELLS);
    cells
        .map(|from| (0..MOST_LINKS).map(|link| offer(from, link)).collect())
        .collect()
});

/// The link in an offer: the cell of its page, and its number there.
pub(super) fn link_in(offer: &CellOffer) -> Option<(usize, u64)> {
    let path = offer.way()?.url.path().strip_prefix('/')?;
    let (from, link) = path.split_once('/')?;
    Some((from.parse().ok()?, link.parse().ok()?))
}

/// The host to which an offer makes a promise, and until when.
pub(super) fn promise_in(offer: &CellOffer) -> Option<(usize, u64)> {
    let (host, until) = offer.promised()?;
    Some((host.strip_prefix('p')?.parse().ok()?, until))
}
