//! Shared helpers for tests of links, and links in simulated clusters.

mod cluster;
mod publisher;
mod simulated;
pub(crate) mod web;

use crate::address::PageUrl;
use crate::frontier::{CellOffer, NewTask, Rated};
use crate::page::{Bucket, Clues, LinkParts};

fn new(address: &str, bucket: Option<Bucket>, score: f64) -> NewTask {
    NewTask {
        url: PageUrl::parse(address).unwrap(),
        bucket,
        score,
        parts: Some(LinkParts {
            document: 1.5,
            anchor: 2.5,
            keyword: 0.25,
        }),
        anchor: Some("a word".to_owned()),
        clues: Some(Clues {
            parent: 0.5,
            traits: vec![7, 0x0fff_0000],
            good: 0.5,
            bad: 0.5,
            hops: 3,
            ..Clues::default()
        }),
    }
}

/// A link supported by half of the page's text.
pub(super) fn link(address: &str, score: f64) -> CellOffer {
    CellOffer::page(new(address, Some(Bucket::Normal), score), 4)
}

/// This many different links.
pub(super) fn links(count: usize) -> Vec<CellOffer> {
    let link = |n| link(&format!("http://h{n}.org/page/{n}"), n as f64);
    (0..count).map(link).collect()
}

/// A link with its value.
pub(super) fn rated(address: &str, bucket: Option<Bucket>, score: f64, hops: u32) -> Rated {
    Rated {
        offer: CellOffer::page(new(address, bucket, score), hops),
        bucket,
        score,
    }
}

/// A link with these traits.
pub(super) fn large(address: &str, traits: Vec<u32>) -> Rated {
    let mut task = new(address, Some(Bucket::Normal), 5.0);
    task.clues = task.clues.map(|clues| Clues { traits, ..clues });
    Rated {
        offer: CellOffer::page(task, 1),
        bucket: Some(Bucket::Normal),
        score: 5.0,
    }
}

/// What an offer says about the pages that link there.
pub(super) fn cited(rated: &Rated) -> (f32, f32) {
    rated.offer.way().unwrap().cited
}
