//! The frontier: which address is requested next, and when.
//!
//! # The life of a URL
//!
//! 1. **Added.** [`Frontier::add_seeds`], or the effects of a finished page or sitemap. The scope
//!    judges it, its score gives the bucket; it is *queued* at its host, or *dropped* with a
//!    reason. For a known URL, only the record is improved.
//! 2. **Leased.** [`Frontier::lease`] considers the hosts whose clock permits a request now, and
//!    takes the one whose head is in the best bucket, then has the best score, then is oldest; `turns`
//!    has the exceptions: exploration, patience, new hosts, and the share of images.
//!    Before a host's first address its robots.txt is leased; before its first page or image also
//!    its tdmrep.json and RSL files, if the job keeps text or images. What the rules forbid is dropped here, and
//!    queued again when newer robots rules allow it. A lease leaves no trace in the store, so tasks
//!    in flight at a crash are simply still queued.
//! 3. **Finished.** [`Frontier::finish`], [`Frontier::finish_robots`] or
//!    [`Frontier::finish_terms_file`] takes the outcome of every lease. The new state, the new links
//!    and contexts, the host's clock, the counters and the position of the outputs become one
//!    batch: either all of it happened or nothing did.
//! 4. **Visited again**, if `[recrawl]` or a schedule for the page says so. A finished record
//!    carries the date of its next visit and is indexed by that date; on that date the address is
//!    queued as it was at first.
//!
//! # Invariants
//!
//! - A URL is in exactly one state ([`State`]), and a `Q` entry exists if and only if that state is
//!   *queued*. A `V` entry exists if and only if the record has the date of a next visit; only a
//!   finished record has one.
//! - A host's clock is in its record, so it survives a restart. After an unclean end no host is
//!   requested earlier than its delay after opening, because a request that left no trace may have
//!   been in flight.
//! - Nothing is added or leased that the current scope does not permit, even while records stored
//!   under another scope are still being checked.
//! - What is added is rated by the current rating, even if another one rated it before. Nothing
//!   above its razor is leased unless it was fetched before, even while the rest is re-rated.
//! - Memory holds the hosts with queued or leased tasks and the first entries of their queues. For
//!   the URLs it holds a filter of about two bytes each and the most recent records.
//!
//! # Map
//!
//! [`Frontier`] consists of parts that each own their state. Read them in the order of this table.
//!
//! | parts | what they are |
//! |---|---|
//! | `control_sample`, `image_ledger`, `block_filter`, `record`, `amount`, `cell`, `keys`, `beside` | what is stored, under which keys, and the best page |
//! | `added`, `outcome`, `referral` | what is added, here or by another cell, and the result of a finished task |
//! | `store`, `codec`, `flush_marker`, `seen`, `heads` | the key-value store, records in it, the filter before it, and the heads of its queues |
//! | `policy`, `politeness`, `schedule`, `leases` | hosts in memory: pauses, shared clocks, the order of requests, open requests |
//! | `transaction`, `clock_skew`, `restored`, `ledger`, `mark` | one atomic change, the only part that commits it, and what a commit records about itself |
//! | `contexts`, `requeue`, `ratings`, `intake` | how a URL is rated and added |
//! | `retries`, `recrawl`, `draws`, `host_files`, `images`, `traps` | the other state: failures, visits, links drawn by chance, robots.txt, tdmrep.json and RSL files, words around images, copies and endless sites |
//! | `view`, `transition`, `rejudge` | reading; the next state of one task; judging stored records again |
//! | `dump`, `consistency` | a whole store: export and import, and a check of its consistency |
//! | `parts` | the frontier: opening, closing, committing |
//! | `turns`, `promise`, `leasing`, `host_file_tasks`, `claim`, `finish`, `background`, `takedown`, `look` | what it does |
//! | `cells` | the frontiers of a store, one per cell, and what they exchange with other machines |
//!
//! The frontier never fetches, sleeps or reads a clock: time is an argument. It knows no HTML, no
//! language model and no output file.

// Tests choose their own file names.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod added;
mod amount;
mod background;
mod beside;
mod block_filter;
mod cell;
mod cells;
mod claim;
mod clock_skew;
mod codec;
pub mod consistency;
mod contexts;
mod control_sample;
mod draws;
pub mod dump;
mod finish;
mod flush_marker;
mod heads;
mod host_file_tasks;
mod host_files;
mod image_ledger;
mod images;
mod intake;
mod keys;
mod leases;
mod leasing;
mod ledger;
mod look;
mod mark;
mod outcome;
mod parts;
mod policy;
mod politeness;
mod promise;
mod ratings;
mod record;
mod recrawl;
mod referral;
mod rejudge;
mod requeue;
mod restored;
mod retries;
mod schedule;
mod seen;
pub mod store;
mod takedown;
#[cfg(any(test, feature = "testing"))]
#[path = "tests/testing/mod.rs"]
pub mod testing;
#[cfg(test)]
mod tests;
mod transaction;
mod transition;
mod traps;
mod turns;
pub mod view;

#[cfg(test)]
use spoor_config as config;
use spoor_values::{address, clock, fs, page, progress, sanitize, tool_error};
use {spoor_settings as settings, spoor_topic as topic, spoor_web as web};

pub use added::{MAX_ANCHOR, NewImage, NewTask};
pub use amount::Amount;
pub use beside::Best;
pub use cell::{CellCount, CellId, MOST_CELLS, USUAL_CELLS};
pub use cells::Offer as CellOffer;
pub use cells::{Amend, Cells, CellsError, LessonId, Load, Outside, is_learned};
pub use cells::{LogPlace, OutboxChange, Rated, Slip, Unsound, Way};
pub use cells::{only, whole};
pub use claim::{Claim, LedTo, Offer};
pub use control_sample::{Curve, Doubt, Focus, Headline, MIN_PAGES, SampleSettings, Tally};
pub use host_files::{RobotsAnswer, TermsFiles, TermsRequest};
pub use image_ledger::{ImageLedger, ImagesLeft};
pub use ledger::check_format;
pub use mark::{CellMark, Mark, MarkReader};
pub use outcome::{Effects, Finished, OutputEdit, Settled, Written};
pub use parts::{Asked, Frontier};
pub use policy::{Policy, Recrawl};
pub use ratings::clues::Example;
pub use ratings::shared::SharedLesson;
pub use ratings::{Rating, Rescored, Verdicts};
pub use record::{Counts, GroupRecord, HostRecord, Located, RobotsState, State, UrlRecord, Visit};
pub use rejudge::Rescoped;
pub use restored::note_restored;
pub use schedule::{AddressClocks, HostStates, HostTurn};
pub use seen::Questions;
pub use takedown::TakenDown;
pub use traps::{Budget, Listing};
