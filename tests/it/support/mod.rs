//! What every test needs: the program as a process, a job folder, a trained model, and a web whose
//! connections are observed.

pub mod broker;
pub mod clock;
pub mod demo_job;
pub mod disk;
pub mod job;
pub mod names;
pub mod net;
pub mod pdfs;
pub mod process;
pub mod small;
pub mod soak;
pub mod texts;
pub mod wire;

pub use job::{Job, JobText};
pub use process::{Live, Ran, spoor};
pub use wire::{Seen, Wire};
