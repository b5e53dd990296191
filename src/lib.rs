//! spoor follows a topic through the web.
//!
//! Given seed URLs and a handful of pages that are about the topic, it trains a
//! 5-gram Kneser-Ney language model and a keyword table, then crawls politely,
//! always taking next the link that most probably leads to more of the topic. It
//! brings home a parallel corpus: the text, and every topical image beside the
//! words around it.
//!
//! # What is stable
//!
//! spoor is a program. Its command line, its job files and the files that it writes are what
//! it promises; the library under it has **no stable interface before 1.0**, and any version
//! may change or remove any part of it. A program that uses it all the same, at its own risk,
//! should keep to these few:
//!
//! - [`address::PageUrl`], a canonical address;
//! - [`config::Config`], a checked job file;
//! - [`web::robots::Robots`], the rules of a robots.txt;
//! - [`web::extract::extract_text`], what a page consists of;
//! - [`topic::lm::KenLm`], a language model, with [`topic::lm::estimate()`] and [`mod@topic::lm::perplexity`].
//!
//! What the program does, from the first job to the last export, is in the [`guide`].
//!
//! # How a page travels
//!
//! ```text
//!             +------------------ new tasks, robots rules, host clocks ------------------+
//!             v                                                                          |
//!  seeds -> frontier --lease--> fetch --Fetched--> extract --Extracted--> score --Scored--> store
//!           (sled)             (reqwest)         (html, charset)      (lm, keywords)  (images, sentences, logs)
//! ```
//!
//! The frontier decides *when* and *which*, fetch only *how*. Everything that
//! leaves this machine is a leased task of the frontier: pages, robots.txt and
//! images alike, so that one clock per host covers them all. A redirect is an
//! outcome that re-enters the frontier as a new task. [`crawl::pipeline`] is the one
//! place that sees every stage; stages never import each other.
//!
//! # Crate map
//!
//! In reading order: plain values first, then the wings, each of which may import what stands
//! above it. The `mod.rs` of a wing has the same table of its rooms. A test holds the last
//! columns against the source.
//!
//! | module | one line | may import |
//! |---|---|---|
//! | `fs` | the files of a job: opened beneath its folder, written whole or not at all | nothing |
//! | `clock` | the time of this process, and how a time is written | nothing |
//! | `progress` | how far a long step has come | nothing |
//! | `sanitize` | text of strangers made safe to print | nothing |
//! | `local_origin` | whether a page of another site asks a server on this machine | nothing |
//! | `local_server` | HTTP connections of a server on this machine, within bounds | nothing |
//! | `guide` | the guide for users: Markdown to plain text and manual pages | nothing |
//! | `address` | canonical URLs, host keys, SURT form | nothing |
//! | `language` | which language a text is in | nothing |
//! | `page` | the values that travel: task, fetched, extracted, scored, outcome | address, language |
//! | `config` | raw TOML to a checked config; every error of a file at once; new job files | address, language, page |
//! | `metrics` | what a run counts and times of itself, as Prometheus reads it | nothing |
//! | `picture` | what an image file is and looks like, from its bytes | nothing |
//! | `topic` | how near a text is to the topic: language model, keywords, ratings | values |
//! | `web` | one request, one document, and the rules of the web: scope, robots, sitemap, fetch, extract | values |
//! | `outputs` | append-only outputs: images and sidecars, sentences, documents, logs | values |
//! | `crawl` | the journey: frontier, pipeline, checkpoint, training | values, topic, web, outputs |
//! | `daemon` | one process that crawls a job: wiring, running, signals, the API | values, topic, web, outputs, crawl |
//! | `corpus` | what is made of what a crawl brought home: ranking, data sets, judgements, reports, takedown | values, topic, web, outputs, crawl |
//! | `lab` | webs on this machine, and experiments over them | everything but the commands |
//!
//! The commands are the binary's: one thin file each under `src/commands`.
//!
//! # Invariants
//!
//! - A URL is queued, leased, waiting to retry, done, or dropped with a reason:
//!   always exactly one.
//! - A host never gets two requests closer together than its delay, whatever is
//!   restarted or redirected in between.
//! - A page's effects (its state, new links, contexts, the lengths of the outputs)
//!   are one batch of the store; outputs beyond the last batch are cut back when
//!   a job is opened. Whatever kills the process costs only what was in flight.
//! - Stages are pure: the same bytes give the same ratings. Time and network are
//!   arguments, never asked for behind the pipeline's back.
//! - No input from the web, a config or the disk panics; errors say what to do.

pub mod address;
pub mod clock;
pub mod config;
pub mod corpus;
pub mod crawl;
pub mod daemon;
pub mod fs;
pub mod guide;
pub mod lab;
pub mod language;
pub mod local_origin;
mod local_server;
pub mod metrics;
pub mod outputs;
pub mod page;
pub mod picture;
pub mod progress;
pub mod sanitize;
#[cfg(test)]
mod tests;
pub mod topic;
pub mod web;
