//! Indexes of archives: a line for each capture, sorted by address and time, so that any
//! program finds a record without reading the files.
//!
//! | module | one line |
//! |---|---|
//! | `lines` | the lines of one file, in the order of the file |
//! | `stated` | the same for a file whose members state their lengths, without reading it all |
//! | `sorted` | any number of lines, sorted with bounded memory |
//! | `blocks` | an index as compressed blocks |
//! | `build` | the index of many files |

mod blocks;
mod build;
mod lines;
mod sorted;
mod stated;

pub use blocks::small_index_of;
pub(super) use blocks::{hex, in_blocks};
pub use build::{INDEX, Indexed, Reads, beside, index, is_unfinished, name_beside};
pub use lines::{FileLines, each_line};
pub(super) use sorted::{Runs, merge};
