//! Indexes of archives: a line for each capture, sorted by address and time, so that any
//! program finds a record without reading the files.
//!
//! | module | one line | may import |
//! |---|---|---|
//! | `lines` | the lines of one file, in the order of the file | nothing |
//! | `stated` | the same for a file whose members state their lengths, without reading it all | lines |
//! | `sorted` | any number of lines, sorted with bounded memory | nothing |
//! | `blocks` | an index as compressed blocks | nothing |
//! | `build` | the index of many files | blocks, lines, sorted, stated |

mod blocks;
mod build;
mod lines;
mod sorted;
mod stated;

pub use blocks::small_index_of;
pub(super) use blocks::{hex, in_blocks};
pub use build::{INDEX, IndexError, Indexed, Reads, beside, index, is_unfinished, name_beside};
pub use lines::{FileLines, each_line};
pub(super) use sorted::{Runs, merge};
