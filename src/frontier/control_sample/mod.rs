//! The state and the results of the control sample: plain values without a store.
//!
//! [`draws`](super::draws) explains the sample and draws the links. Here are `sample`
//! (its state), `harvest` (counts of pages found by score and by chance) and `headline`
//! (those in words).

mod harvest;
mod headline;
mod sample;

pub use harvest::{Curve, Focus, Tally};
pub use headline::{Doubt, Headline, MIN_PAGES};
pub use sample::{DrawnLink, Sample, SampleSettings};
