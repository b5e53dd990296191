//! One request and one document, and the rules that apply to them.
//!
//! | module | one line | may import |
//! |---|---|---|
//! | `scope` | which addresses belong to a crawl: accept, reject, hops, file types, traps | nothing |
//! | `robots` | robots.txt, crawl delays, content signals and TDM reservations | nothing |
//! | `sitemap` | sitemaps in XML, text, RSS and Atom to the addresses they list | nothing |
//! | `fetch` | one request to an answer or a typed error: caps, address guard, rates | nothing |
//! | `parts` | parts of files on web servers, politely | fetch, robots |
//! | `extract` | one document to text blocks, links, and images with their context | robots |
//! | `inert` | one document to markup that opens no connection when a browser shows it | nothing |
//!
//! Nothing here knows a topic, a queue or an output: each module turns one input into one
//! result. Which request comes next, and when, is decided in `crawl`.

pub mod extract;
pub mod fetch;
pub mod inert;
pub mod parts;
pub mod robots;
pub mod scope;
pub mod sitemap;
