//! The values that are passed through all of spoor, and the tools that all of it uses: addresses,
//! tasks and pages, words and languages, files opened beneath a job's folder, times, bodies without
//! their codings, text made safe to print.
//!
//! This crate does not know a crawl, the network, a config or a store. The modules, in reading
//! order (a module may only know those before it):
//!
//! | module | one line |
//! |---|---|
//! | `fs` | the files of a job, opened beneath its folder and written atomically; other files, opened only if they are regular files |
//! | `coding` | bodies without their content codings |
//! | `clock` | the time of this process, and the format of timestamps |
//! | `parallel` | one kind of work with many items, several at a time |
//! | `progress` | progress of long steps |
//! | `sanitize` | untrusted text made safe to print |
//! | `fold` | running text wrapped to a width |
//! | `file_errors` | problems in files that people write, by file, line and key |
//! | `tool_error` | why a tool on stored files cannot go on |
//! | `address` | canonical URLs, host keys, SURT form |
//! | `language` | language identification |
//! | `date` | dates in human notation |
//! | `limit` | limits of a process that reads untrusted files |
//! | `words` | running text to sentences of normalised tokens |
//! | `page` | the values that are passed on: task, fetched, extracted, scored, outcome |
//!
//! Begin with `page`: its types name the steps of a crawl.

// Tests choose their own file names.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod address;
pub mod clock;
pub mod coding;
pub mod date;
pub mod file_errors;
pub mod fold;
pub mod fs;
pub mod language;
pub mod limit;
pub mod page;
pub mod parallel;
pub mod progress;
pub mod sanitize;
pub mod tool_error;
pub mod words;
