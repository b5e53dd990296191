//! WARC and ARC files.
//!
//! | module | one line | may import |
//! |---|---|---|
//! | `gap` | what could not be read, and why | nothing |
//! | `record` | the head of a record, of either format | nothing |
//! | `window` | the bytes of a stream that are in memory | nothing |
//! | `head` | bytes to heads of records | gap, record |
//! | `gzip` | members of gzip | gap |
//! | `zstd` | frames of zstd, and the dictionary of a WARC | gap, gzip |
//! | `decode` | a file to stretches of decompressed bytes | gap, gzip, head, window, zstd |
//! | `separator` | what stands between records | head, record |
//! | `digest` | digests of blocks and payloads, compared | record |
//! | `body` | stored bodies without their codings | gap, zstd |
//! | `http` | the HTTP response in a record | body, digest, gap, head |
//! | `reader` | the records of a file, and the gaps between them | decode, gap, head, http, record, separator, window |
//! | `pieces` | a list of millions that grows without moving | nothing |
//! | `revisit` | which record has the contents of a revisit | pieces, record |
//! | `files` | which files are archives, by their names, and their parts | nothing |
//! | `short` | deflate for short records | nothing |
//! | `compression` | records to members of gzip or frames of zstd | gzip, short, zstd |
//! | `surt` | the key by which indexes are sorted | nothing |
//! | `cdxj` | a line of an index | gap, surt |
//! | `select` | which captures are wanted | cdxj, surt |
//! | `index` | the captures of files, sorted by address | cdxj, check, digest, gap, gzip, head, http, reader, record |
//! | `lookup` | captures found through an index, and the records at their places | cdxj, files, gap, reader, select |
//! | `find` | captures of any sources | cdxj, gap, index, lookup, reader, revisit, select |
//! | `chosen` | the captures that somebody names | files, find, index, lookup, record, select |
//! | `captures` | the responses of some files by address, read at need | chosen, files, http, pieces, reader, record, revisit |
//! | `walk` | the exchanges of some files one after another, with what the crawler noted | captures, gap, http, reader, record |
//! | `writer` | exchanges to records | compression, digest |
//! | `check` | whole files: what is in them and what is wrong | digest, gap, reader |
//! | `contents` | what captures contain, as files | find, http, lookup, record, select, writer |
//! | `pack` | archives as a WACZ | cdxj, find, http, index, lookup, select |
//!
//! A [`Reader`] hands out one record at a time. The block of each is streamed, never held as
//! a whole. What is damaged becomes a [`Gap`](gap::Gap) with its place and the reason, and
//! reading goes on with the next good record. A record that was cut is never taken for a
//! whole one: its block ends with an error.
//!
//! Nothing here knows a crawl or fetches anything.

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
mod short;
pub mod surt;
#[cfg(test)]
mod tests;
pub mod walk;
mod window;
pub mod writer;
mod zstd;

use spoor_values::{address, clock, coding, fs, page, progress};

pub use reader::Reader;
