//! The values that travel through all of spoor, and the tools that all of it uses: addresses,
//! tasks and pages, words and languages, files opened beneath a job's folder, times, bodies
//! without their codings, text made safe to print.
//!
//! Nothing here knows a crawl, the network, a config or a store. What a module may know of the
//! others, in reading order:
//!
//! | module | one line |
//! |---|---|
//! | `fs` | the files of a job, opened beneath its folder and written whole or not at all; other files, opened if they are files |
//! | `coding` | bodies without their content codings |
//! | `clock` | the time of this process, and the format of timestamps |
//! | `progress` | progress of long steps |
//! | `sanitize` | untrusted text made safe to print |
//! | `fold` | running text in lines of a width |
//! | `file_errors` | problems in files that people write, by file, line and key |
//! | `address` | canonical URLs, host keys, SURT form |
//! | `language` | language identification |
//! | `limit` | limits of a process that reads a file of others |
//! | `words` | running text to sentences of normalised tokens |
//! | `page` | the values that travel: task, fetched, extracted, scored, outcome |
//!
//! Begin with `page`: its types name what a crawl does.

// Tests name their own files.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod address;
pub mod clock;
pub mod coding;
pub mod file_errors;
pub mod fold;
pub mod fs;
pub mod language;
pub mod limit;
pub mod page;
pub mod progress;
pub mod sanitize;
pub mod words;
