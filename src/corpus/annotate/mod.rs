//! Lets people judge the images of a job on a local page (as in the thesis, Werner 2015,
//! section 4.3, with the two phases and the gold questions that its outlook asks for).
//!
//! The sample is fixed in `annotations/images.tsv` when it is first served, so that a
//! running crawl or a new ranking does not change it; votes are appended to
//! `annotations/votes.jsonl`. A crawl may be running meanwhile.
//!
//! Reading order: [`votes`] (the record of votes, and which of them count), `assignment`
//! (the next question for each annotator), `sample` (the images), `context` (the words
//! around them), `session` (all of this behind one lock), and `server` (the page and its
//! interface).
//!
//! # The interface
//!
//! | request | answer |
//! |---|---|
//! | `GET /` | the page; its parts are `/page.css` and `/page.js` |
//! | `GET /favicon.ico`, `/icon.svg` | the icon of the page |
//! | `GET /setup` | `{"job", "topic", "classes", "text_classes", "two_phase"}` |
//! | `POST /next` `{"annotator"}` | a [`Turn`] |
//! | `POST /vote` `{"annotator", "image", "question", "answer"}` | the [`Turn`] after it; the vote is on the disk |
//! | `POST /undo` `{"annotator"}` | a [`Turn`]: the question that was answered last |
//! | `GET /image/SHA256` | the picture as a JPEG of at most 1,280 pixels a side |
//!
//! An error has a status of 400 or above with a plain-text message; 409 means that the
//! answer is no longer needed, and `/next` gives the current question.
//!
//! # Data from the crawled web is inert
//!
//! Texts go to the page as JSON and into it as text nodes; pictures are decoded and
//! re-encoded here, so no byte of a file is passed on; addresses are not links. The
//! content security policy allows only the page's own parts to be loaded or run. The host
//! of a request must be this machine or an IP address, so that no web site can reach the
//! page through DNS rebinding, and requests that change something must come from the page
//! itself.
//!
//! This module must not know how a ranking is made or how votes are used.

mod assignment;
mod context;
mod sample;
mod server;
mod session;
#[cfg(test)]
mod tests;
pub mod votes;

pub use context::Words;
pub use server::serve;
pub use session::{Ask, Refusal, Session, Turn, TurnState};
