//! Ratings: how near a document, a link or an image is to the topic.
//!
//! [`rating`] holds the formulas (Werner 2015, after Remus & Biemann 2016) as pure
//! functions of numbers, [`boundaries`] the step from a score to a priority class,
//! [`calibration`] what the perplexities of one model mean, and [`scorer`] applies them
//! to an extracted page with a language model and a keyword table, the words around images
//! by `around`. [`contrast`] compares the words of a document with the given texts, [`topicality`]
//! makes of that how far it is on topic,
//! [`judge`] what a crawl makes of that with its seeds and what it has met, [`observer`] what
//! a link is known by, and [`learner`] learns from both, while a crawl runs, which links lead
//! there. Perplexities and all scores made of them are better the lower they are;
//! only keyword scores are better the higher they are.
//!
//! A score depends on the page and the model alone: nothing here asks the network,
//! the clock or the frontier, and nothing decides whether a link is followed.
//! `nofollow`, scope and the razor are for the caller to apply.

mod around;
pub mod boundaries;
mod cache;
pub mod calibration;
pub mod contrast;
pub mod judge;
pub mod learner;
pub mod observer;
pub mod rating;
pub mod scorer;
pub mod topicality;

pub use boundaries::{Boundaries, BoundariesError};
pub use calibration::{Calibration, CalibrationError};
pub use contrast::{Contrast, Counts};
pub use judge::Judge;
pub use learner::Learner;
pub use observer::{PageObserver, Verdict};
pub use rating::{Weights, weighted};
pub use scorer::Scorer;
pub use topicality::Topicality;
