//! Breadth first: all links are equal, and the oldest is fetched next.

use super::{Score, Strategy};
use crate::address::PageUrl;
use crate::page::{Bucket, LinkParts};

pub(super) struct Unfocused;

/// The priority of every link. No cutoff applies.
const EQUAL: Score = (0.0, Some(Bucket::Normal));

impl Strategy for Unfocused {
    fn link(&self, _: &PageUrl, _: &LinkParts) -> Score {
        EQUAL
    }

    fn formula(&self, _: &PageUrl, _: &LinkParts) -> String {
        "0 for every link of an unfocused crawl".to_owned()
    }

    fn image(&self, _: f64) -> Score {
        EQUAL
    }

    fn listed(&self) -> Score {
        EQUAL
    }

    fn prefers(&self) -> bool {
        false
    }
}
