//! People judge the images of a job on a page of this machine.
//!
//! [`votes`] is the record of what they said, and whose word counts.

pub mod votes;
