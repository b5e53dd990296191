//! spoor follows a topic through the web.
//!
//! Given seed URLs and a handful of pages that are about the topic, it trains a
//! 5-gram Kneser-Ney language model and a keyword table, then crawls politely,
//! always taking next the link that most probably leads to more of the topic. It
//! brings home a parallel corpus: the text, and every topical image beside the
//! words around it.
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
//! outcome that re-enters the frontier as a new task. [`pipeline`] is the one
//! place that sees every stage; stages never import each other.
//!
//! # Crate map
//!
//! In reading order. A test holds the last column against the source.
//!
//! | module | one line | may import |
//! |---|---|---|
//! | `atomic` | a file is written whole or not at all | beneath |
//! | `beneath` | opens the files of a job from its folder downwards, so that no path or link leads out of it | nothing |
//! | `steps` | how far a long step has come, told to whoever listens | nothing |
//! | `inert` | text of strangers made safe to print | nothing |
//! | `address` | canonical URLs, host keys, SURT form | nothing |
//! | `language` | which language a text is in | nothing |
//! | `config` | raw TOML to a checked config; every error of a file at once | address, language, page |
//! | `start` | a job file from what somebody has: seeds, texts, a contact | address, config |
//! | `page` | the value that travels: task, fetched, extracted, scored, outcome | address, language |
//! | `metrics` | what a run counts and times of itself, as Prometheus reads it | nothing |
//! | `picture` | what an image file is and looks like, from its bytes | nothing |
//! | `robots` | pure rules: parse, allows, crawl-delay, sitemaps, content signals, TDM reservations | address, page |
//! | `sitemap` | sitemaps in XML, text, RSS and Atom to the addresses they list | address |
//! | `scope` | pure rules: accept, reject, hops, file types, traps | address, config, page |
//! | `frontier` | add, lease, finish; host clocks, buckets, queues, seen set; the only user of a store crate | address, config, inert, page, robots, scope, steps, beneath |
//! | `fetch` | one task to an answer or a typed error; caps, address guard, rates, the table error to outcome | address, config, page |
//! | `extract` | decode, parse once, text blocks, links, image candidates with context | address, language, page |
//! | `lm` | tokens, Kneser-Ney estimation, ARPA, the KenLM binding (the only FFI), perplexity | atomic, config |
//! | `keywords` | the TF-IDF difference table and the keyword score | atomic, lm |
//! | `neutral` | how frequent words are in a language at large: the built-in tables | language, lm |
//! | `score` | pure ratings of documents, links and images; what a crawl learns of its links | address, atomic, config, lm, keywords, page |
//! | `store` | append-only outputs: images and sidecars, sentences, logs | address, beneath, config, inert, page, picture |
//! | `pipeline` | the journey above, from lease to commit | address, config, frontier, fetch, extract, language, metrics, picture, score, sitemap, store, page |
//! | `checkpoint` | opens a job so that it goes on where the last commit left it | frontier, scope, store, config, beneath |
//! | `maintenance` | converts, compacts, checks, repairs, exports and imports a job's frontier | checkpoint, config, frontier |
//! | `train` | sources, and the best pages of a crawl, to model, keywords, calibration | address, config, fetch, extract, language, lm, keywords, neutral, frontier, page, pipeline, scope, score, store, steps |
//! | `rank` | a job's images in order, each picture once | config, lm, page, picture, store, train, steps, beneath |
//! | `origin` | whether a page of another site asks a server on this machine | nothing |
//! | `door` | HTTP connections of a server on this machine, within bounds | nothing |
//! | `annotate` | people judge a job's images on a page: assignment, votes, the page | atomic, config, origin, page, picture, rank, store, beneath, door, inert |
//! | `export` | a job's best images and their words, or its documents, as a data set that other programs read | address, config, inert, language, page, picture, rank, steps, store, beneath |
//! | `agreement` | how far those who judged a job's images agree | annotate, atomic, config |
//! | `report` | what jobs found and brought home, with pictures, tables and plots, in HTML and Markdown | address, annotate, atomic, config, frontier, inert, lm, page, picture, store, train, steps, beneath |
//! | `takedown` | removes samples from a job for good, and forbids to fetch them again | address, checkpoint, config, frontier, page, pipeline, scope, store, beneath |
//! | `explain` | what is known of an address or a host, and which rule decided, as data | address, frontier, page, robots, scope, score |
//! | `control` | the API by which a running crawl is asked and told: status, pause, seeds, new values, the log | address, checkpoint, config, explain, frontier, inert, metrics, origin, page, picture, pipeline, scope, store, beneath, door |
//! | `ui` | all jobs of a folder on one page: how they stand, what they brought, their reports | config, control, inert, page, picture, report, store, beneath |
//! | `lab` | webs on this machine: serve a folder, draw images, judge a crawl, the demo web | address |
//! | `ready` | what a job must have before it may train or crawl, all that is missing at once | address, config, control, fetch, scope, train |
//! | `daemon` | builds the parts of a job, runs, drains | everything but the commands |
//! | `look` | what a crawl would make of one page, without keeping anything | everything but the commands |
//! | `experiment` | the same crawls with other settings, side by side, over one stored web | everything but the commands |
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
pub mod agreement;
pub mod annotate;
mod atomic;
pub mod beneath;
pub mod checkpoint;
pub mod config;
pub mod control;
pub mod daemon;
mod door;
pub mod experiment;
pub mod explain;
pub mod export;
pub mod extract;
pub mod fetch;
pub mod frontier;
pub mod inert;
pub mod keywords;
pub mod lab;
pub mod language;
pub mod lm;
pub mod look;
pub mod maintenance;
pub mod metrics;
pub mod neutral;
pub mod origin;
pub mod page;
pub mod picture;
pub mod pipeline;
pub mod rank;
pub mod ready;
pub mod report;
pub mod robots;
pub mod scope;
pub mod score;
pub mod sitemap;
pub mod start;
pub mod steps;
pub mod store;
pub mod takedown;
pub mod train;
pub mod ui;
