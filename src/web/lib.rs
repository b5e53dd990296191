//! What a document says, and what its publisher says about it.
//!
//! | module | one line |
//! |---|---|
//! | `scope` | which addresses belong to a crawl: accept, reject, hops, file types, traps |
//! | `robots` | robots.txt, crawl delays, content signals and TDM reservations |
//! | `sitemap` | sitemaps in XML, text, RSS and Atom to the addresses they list |
//! | `extract` | one document to text blocks, links, and images with their context |
//! | `inert` | one document to markup that opens no connection when a browser shows it |
//!
//! Begin with `extract`. This crate does not know topics, queues or outputs: each module turns one input into one result.
//! Which request comes next, and when, is decided in `frontier`.

// Tests choose their own file names.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod extract;
pub mod inert;
pub mod robots;
pub mod scope;
pub mod sitemap;

use spoor_pdf as pdf;
use spoor_settings as settings;
use spoor_values::{address, date, language, page, words};
