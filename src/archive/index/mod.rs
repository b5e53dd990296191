//! Indexes of archives: a line for each capture, sorted by address and time, so that any
//! program finds a record without reading the files.
//!
//! | module | one line | may import |
//! |---|---|---|
//! | `lines` | the lines of one file, in the order of the file | nothing |
//! | `sorted` | any number of lines, sorted with bounded memory | nothing |
//! | `build` | the index of many files | lines, sorted |

mod build;
mod lines;
mod sorted;

pub use build::{INDEX, IndexError, Indexed, beside, index};
pub use lines::{FileLines, each_line};
