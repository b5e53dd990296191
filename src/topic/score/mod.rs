//! Ratings: how near a document, a link or an image is to the topic.
//!
//! [`rating`] has the formulas (Werner 2015, after Remus & Biemann 2016) as pure functions of
//! numbers, [`boundaries`] maps scores to priority classes, [`calibration`] interprets the
//! perplexities of one model, and [`scorer`] applies them to an extracted page with a language
//! model and a keyword table, using `page_words` for the words of the page and `image_texts` for
//! those around images. [`contrast`] compares the words of a document with the given texts,
//! [`passages`] with their nearest parts, [`topicality`] turns that into a probability of being on
//! topic, [`judge`] adapts it to the seeds and the pages of a crawl, [`observer`] extracts the
//! features of links, and [`learner`] learns from both, while a crawl runs, which links lead to the
//! topic. Lower perplexities and scores are better; only keyword scores are better when higher.
//!
//! A score depends only on the page and the model: nothing here uses the network, the
//! clock or the frontier, and nothing decides whether a link is followed. The caller
//! applies `nofollow`, scope and the cutoff (`razor`).

pub mod boundaries;
mod cache;
pub mod calibration;
pub mod contrast;
mod image_texts;
pub mod judge;
pub mod learner;
mod log_counts;
mod measured;
pub mod observer;
mod page_words;
pub mod passages;
pub mod rating;
pub mod scorer;
pub mod topicality;

pub use boundaries::{Boundaries, BoundariesError};
pub use calibration::{Calibration, CalibrationError};
pub use contrast::{Adopted, Contrast, CountTable};
pub use judge::Judge;
pub use learner::Learner;
pub use observer::{PageObserver, PageVerdict};
pub use passages::{PassageTable, Passages};
pub use rating::{Weights, weighted};
pub use scorer::Scorer;
pub use topicality::Topicality;
