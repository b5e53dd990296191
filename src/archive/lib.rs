//! WARC and ARC files.
//!
//! | module | one line |
//! |---|---|
//! | `gap` | what could not be read, and why |
//! | `record` | the head of a record, of either format |
//! | `window` | the bytes of a stream that are in memory |
//! | `head` | bytes to heads of records |
//! | `gzip` | members of gzip |
//! | `zstd` | frames of zstd, and the dictionary of a WARC |
//! | `decode` | a file to stretches of decompressed bytes |
//! | `separator` | the bytes between records |
//! | `digest` | compares digests of blocks and payloads |
//! | `body` | decodes stored bodies |
//! | `http` | the HTTP response in a record |
//! | `reader` | the records of a file, and the gaps between them |
//! | `pieces` | a list of millions that grows without moving |
//! | `revisit` | which record has the contents of a revisit |
//! | `files` | which files are archives, by their names, and their parts |
//! | `compression` | records to gzip members or zstd frames |
//! | `surt` | the key by which indexes are sorted |
//! | `cdxj` | a line of an index |
//! | `select` | which captures are wanted |
//! | `index` | the captures of files, sorted by address |
//! | `lookup` | captures found through an index, and the records at their places |
//! | `find` | captures of any sources |
//! | `chosen` | the captures that a user names |
//! | `captures` | the responses of some files by address, read at need |
//! | `walk` | the exchanges of some files in order, with the crawler's notes |
//! | `writer` | exchanges to records |
//! | `check` | whole files: what is in them and what is wrong |
//! | `contents` | the contents of captures, as files |
//! | `pack` | archives as a WACZ |
//!
//! A [`Reader`] returns one record at a time. The block of each is streamed, never kept in
//! memory as a whole. Damage becomes a [`Gap`](gap::Gap) with its place and the reason, and
//! reading continues with the next good record. A truncated record is never taken for a
//! complete one: its block ends with an error.
//!
//! Begin with `reader`. Nothing here knows a crawl or fetches anything.

// Tests name their own files.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod body;
pub mod captures;
pub mod cdxj;
pub mod check;
pub mod chosen;
mod compression;
pub mod contents;
mod decode;
pub mod digest;
pub mod files;
pub mod find;
pub mod gap;
mod gzip;
mod head;
pub mod http;
pub mod index;
pub mod lookup;
pub mod pack;
mod pieces;
pub mod reader;
pub mod record;
pub mod revisit;
pub mod select;
mod separator;
pub mod surt;
#[cfg(test)]
mod tests;
pub mod walk;
mod window;
pub mod writer;
mod zstd;

use spoor_values::{address, clock, coding, fs, page, progress, tool_error};

pub use reader::Reader;
