//! Referrals: what a cell has found for another cell.
//!
//! A referral is written with the other effects of the page that it comes from, and deleted by the
//! batch that adds it to the other cell. So each is added exactly once, even if the process dies in
//! between.

use serde::{Deserialize, Serialize};

use super::added::{NewTask, Origin};
use super::record::{Promise, RobotsErrand};
use crate::address::PageUrl;
use crate::page::{Bucket, Reason, TaskKind};

/// How often a referral may be passed on between cells: redirects of images may form a circle.
pub(super) const MOST_PASSED: u8 = 20;

/// Something for another cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Referral {
    pub what: Referred,
    /// How many cells have passed it on.
    pub passed: u8,
}

/// What it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Referred {
    /// A page or a sitemap.
    Address {
        kind: TaskKind,
        new: NewTask,
        origin: Origin,
        /// Digest of the keyword table that it was rated with, if there was one.
        keywords: Option<u64>,
    },
    /// An image with the words around it on a page.
    Image {
        url: PageUrl,
        /// The words as [`contexts::pack`](super::contexts::pack) stores them.
        words: Vec<u8>,
        score: f64,
        bucket: Option<Bucket>,
        origin: Origin,
        keywords: Option<u64>,
    },
    /// A page no longer allows the use of an image.
    Withheld {
        image: PageUrl,
        page: PageUrl,
        /// The page's terms, in JSON.
        terms: String,
    },
    /// The alt text of an image on a page turned out to be boilerplate.
    Bare {
        image: PageUrl,
        page: PageUrl,
        /// The perplexity of a text without meaning.
        unknown: f64,
    },
    /// A robots.txt of another host, to be requested from a host of this cell.
    Errand(RobotsErrand),
    /// The answer to such an errand.
    Rules {
        /// The host that they are for.
        host: String,
        scheme: String,
        /// The address where they were found.
        url: PageUrl,
        answer: RulesAnswer,
    },
    /// When a host of this same cell may be requested again: for the next owner of the cell.
    Promise(Promise),
    /// What redirects to an address state about its use.
    OnWay {
        url: PageUrl,
        kind: TaskKind,
        /// The terms, in JSON.
        terms: String,
    },
}

/// The answer to a request for the robots.txt of a host of another cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum RulesAnswer {
    /// The rules.
    Rules(Vec<u8>),
    /// There is none.
    Missing,
    /// It could not be fetched.
    Unreachable {
        reason: Reason,
        /// The pause that the server asked for, in milliseconds.
        retry_after: Option<u64>,
    },
}
