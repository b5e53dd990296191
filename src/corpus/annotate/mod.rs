//! People judge the images of a job on a page that this machine serves (as in the
//! thesis, Werner 2015, section 4.3, with the two phases and the gold questions that
//! its outlook asks for).
//!
//! The sample is fixed in `annotations/images.tsv` when it is first served, so that
//! a crawl or a ranking that goes on changes nothing under the judges' hands; votes
//! are appended to `annotations/votes.jsonl`. A crawl may be running meanwhile.
//!
//! Reading order: [`votes`] (the record of what was said, and whose word counts),
//! `board` (who is asked what next), `sample` (which images), `words` (what stands
//! around them), `desk` (all of it behind one lock), and
//! `server` (the page and its interface).
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
//! An error has a status of 400 or above and says as plain text what is wrong; 409
//! means that the answer is not wanted any more, and `/next` says what is.
//!
//! # What comes from the crawled web is inert
//!
//! Texts go to the page as JSON and into it as text nodes; pictures are decoded here
//! and encoded anew, so no byte of a file is passed on; addresses are no links. The
//! content security policy lets nothing be loaded or run but the page's own parts.
//! Requests must name this machine or an address as their host, so that no web site can reach
//! the page by a name that it lets point here, and what changes something must come
//! from the page itself.
//!
//! This must not know how a ranking is made or what a vote is good for.

mod board;
mod desk;
mod sample;
mod server;
#[cfg(test)]
mod tests;
pub mod votes;
mod words;

pub use desk::{Ask, Desk, Refusal, State, Turn};
pub use sample::SampleError;
pub use server::serve;
pub use votes::VotesError;
pub use words::Words;

/// Why a job's images cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum AnnotateError {
    /// There is no sample.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// Samples are being removed from the job.
    #[error(transparent)]
    Output(#[from] crate::outputs::OutputError),
    /// The record of the votes cannot be opened.
    #[error(transparent)]
    Votes(#[from] VotesError),
}
