//! The state of the control sample, and what it has found: plain values without a store.
//!
//! [`draws`](super::draws) says what the sample is and how links are drawn. Here are `sample` (its
//! state), `harvest` (what was found by score and by chance) and `headline` (that in words).

mod harvest;
mod headline;
mod sample;

pub use harvest::{Curve, Focus, Tally};
pub use headline::{Doubt, Headline, MIN_PAGES};
pub use sample::{Control, Drawn, Sample};
