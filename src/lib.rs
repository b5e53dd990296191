//! spoor follows a topic through the web.
//!
//! Given seed URLs and a handful of pages that are about the topic, it trains a 5-gram Kneser-Ney
//! language model and a keyword table. Then it crawls politely, always following the link that is
//! most likely to lead to more of the topic. It collects a parallel corpus: the text, and every
//! topical image with the words around it.
//!
//! # What is stable
//!
//! spoor is a program. Only its command line, its job files and the files that it writes are a
//! stable interface. The library under it has **no stable interface before 1.0**, and any version
//! may change or remove any part of it. Programs that use it anyway should keep to these items:
//!
//! - [`address::PageUrl`], a canonical address;
//! - [`config::Config`], a checked job file;
//! - [`web::robots::Robots`], the rules of a robots.txt;
//! - [`web::extract::extract_text`], the contents of a page;
//! - [`topic::lm::KenLm`], a language model, with [`topic::lm::estimate()`] and [`mod@topic::lm::perplexity`].
//!
//! The [`guide`] describes the program, from the first job to the last export.
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
//! The frontier decides *when* and *which*, fetch only *how*. Every request of a crawl is a
//! leased task of the frontier, for pages, robots.txt and images alike, so that one clock per
//! host covers them all. A redirect is an outcome that re-enters the frontier as a new
//! task. [`crawl::pipeline`] is the one place that sees every stage; fetching, extracting
//! and scoring do not import each other.
//!
//! # Crate map
//!
//! Each folder of `src` with a `Cargo.toml` is a crate, in reading order here; a crate uses
//! only crates above it (its tests also use `lab` and `testing`), and Cargo enforces that. Its
//! `lib.rs` says what it is, what it does not know, and where to begin.
//!
//! | crate | one line |
//! |---|---|
//! | `values` | addresses, tasks and pages, words and languages, files of a job, times |
//! | `settings` | every setting of a job: default, range and meaning, as plain structs |
//! | `config` | a job's TOML file to settings, with all errors at once |
//! | `archive` | WARC, ARC and WACZ files: reading, writing, looking up, indexes |
//! | `pdf` | a PDF file to paragraphs, in a process of its own |
//! | `topic` | language models, keywords, ratings of pages, links and images |
//! | `web` | one document to text, links and images; robots.txt, sitemaps, scope |
//! | `rules` | fields taken from pages by CSS, XPath and regular expressions |
//! | `fetch` | one URL in, one response or one error out |
//! | `outputs` | what a job writes: images with sidecars, documents, sentences, logs |
//! | `frontier` | what is known of addresses and hosts, and which is asked next and when |
//! | `crawl` | the journey of a page: pipeline, checkpoints, training, figures |
//! | `cluster` | several machines that crawl one job: sessions, links, clocks, limits |
//! | `local` | pages for the person in front of this machine |
//! | `daemon` | the process that crawls a job: wiring, running, signals, the API |
//! | `corpus` | work on the results: ranking, data sets, corpora, reports, takedown |
//! | `search` | a full-text index of documents, and a page to search it |
//! | `lab` | webs for tests and experiments; no part of the program |
//! | `testing` | settings that the tests of all crates share |
//!
//! The program is this package: the guide, and under `src/commands` one thin file for each
//! command, with what they print in common.
//!
//! # Invariants
//!
//! - A URL is queued, waiting to retry, done, redirected, or dropped with a reason:
//!   always exactly one. A lease is in memory only.
//! - A host never gets two requests closer together than its delay, even after restarts
//!   and redirects.
//! - A page's effects (its state, new links, contexts, the lengths of the outputs) are one
//!   batch of the store; opening a job truncates outputs to the last batch. If the process
//!   is killed, only what was in flight is lost.
//! - Stages are pure: the same bytes give the same ratings. Time and network are
//!   arguments; no stage accesses them behind the pipeline's back.
//! - No input from the web, a config or the disk panics; errors say what to do.

// Tests name their own files.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod guide;
pub use spoor_values::{
    address, clock, coding, file_errors, fold, fs, language, limit, page, progress, sanitize,
    tool_error, words,
};
pub use {
    spoor_archive as archive, spoor_cluster as cluster, spoor_config as config,
    spoor_corpus as corpus, spoor_crawl as crawl, spoor_daemon as daemon, spoor_fetch as fetch,
    spoor_frontier as frontier, spoor_local as local, spoor_outputs as outputs, spoor_pdf as pdf,
    spoor_rules as rules, spoor_search as search, spoor_settings as settings, spoor_topic as topic,
    spoor_web as web,
};

#[cfg(test)]
mod tests;
