//! What can only be seen from outside: the program as a process, on a web that the test serves on
//! loopback. `support` runs the program and records what the servers see.
//!
//! | module | what it tests |
//! |---|---|
//! | [`agreement`] | the statistics of people's judgements equal those of other programs |
//! | [`annotate`] | people judge images, and no vote is lost |
//! | [`archive`] | WARC and ARC files are read even if they are damaged |
//! | [`archive_find`] | `spoor archive list, get, pack`: captures are found in all archives |
//! | [`archiving`] | a crawl writes its requests and responses as WARC files |
//! | [`batches`] | batches of the store are complete or absent after a SIGKILL |
//! | [`browser`] | the program's pages in a real browser |
//! | [`checkpoints`] | an export of the frontier restores a crawl whose store is gone |
//! | [`clock`] | setting the system clock does no harm |
//! | `cluster` | several machines fetch what one does |
//! | [`commands`] | the output and the exit code of each command |
//! | [`consent`] | terms of use are obeyed and recorded |
//! | [`control`] | questions and commands to a running job |
//! | [`control_api`] | who may use the API, and its routes |
//! | [`control_sample`] | the gain of focusing |
//! | [`corpus`] | `spoor corpus`: clean corpora from crawls and archives |
//! | [`crawl_zoo`] | hostile servers have only the stated effect |
//! | [`damage`] | damage of a store is reported, or harmless |
//! | [`dashboard`] | the page of a crawl, and its metrics for Prometheus |
//! | [`entities`] | names of a list are found in documents |
//! | [`examples`] | everything that the documentation shows works |
//! | [`experiment`] | variants are compared offline, and the same every time |
//! | [`export`] | other programs read the exported images |
//! | [`export_text`] | other programs read the exported texts |
//! | [`faults`] | a full disk and other faults of the machine end a crawl in good order |
//! | [`format`] | today's layout of the store stays readable, and others are refused |
//! | [`fuzz`] | no input can break the program |
//! | [`german`] | a topic in German is followed with little text |
//! | [`grow`] | a model grows from crawled pages |
//! | [`images`] | the best size of an image is fetched, and images get their share |
//! | [`kill`] | nothing is lost or doubled when the process dies |
//! | [`layers`] | the crate map is true |
//! | [`logs`] | the contents of the log |
//! | [`module`] | documents and images are printed, and Python reads them |
//! | [`notices`] | the licence notices match the dependencies |
//! | [`outage`] | a network failure loses nothing |
//! | [`pdf`] | PDF files are read within limits |
//! | [`pictures`] | copies of images, and files that are not what they seem |
//! | [`pipes`] | a pipe in place of a file is reported, and not waited for |
//! | [`politeness`] | which requests hosts get, and when |
//! | [`powercut`] | flushed data survives a power cut |
//! | [`rank`] | the images of a job are ranked |
//! | [`recrawl`] | pages are visited again when they are due |
//! | [`remote`] | archives on web servers are read as politely and safely as in a crawl |
//! | [`replay`] | an archive goes through the steps of a crawl again |
//! | [`report`] | the figures of a report agree with independent counts |
//! | [`robots`] | the meaning of each answer for a robots.txt |
//! | [`rules`] | fields are found, and changes of a site are reported |
//! | [`saved`] | a job whose machine is lost continues elsewhere from its checkpoint |
//! | [`search`] | documents are found by their words |
//! | [`secrets`] | passwords stay where they belong |
//! | [`service`] | systemd accepts the unit file and is notified |
//! | [`sitemaps`] | sitemaps are read within budgets |
//! | [`soak`] | a long crawl takes no more memory than a short one |
//! | [`start`] | a few seeds are enough to begin |
//! | [`takedown`] | samples that are taken down are gone and stay so |
//! | [`tarpits`] | hosts that keep requests open delay no other host |
//! | [`terminal`] | the output of a crawl for people, log files and scripts |
//! | [`texts`] | which part of a page is its text, and in which language |
//! | [`traps`] | endless sites cost little |
//! | [`troubled`] | sites in trouble get the pauses that they are owed |
//! | [`ui`] | all jobs of a folder on one page |
//! | [`upkeep`] | maintenance of a job's frontier |
//!
//! No test sleeps: each waits for an event, with a deadline as a safeguard.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used)]

mod agreement;
mod annotate;
mod archive;
mod archive_find;
mod archiving;
mod batches;
mod browser;
mod cells;
mod checkpoints;
mod clock;
mod cluster;
mod commands;
mod consent;
mod control;
mod control_api;
mod control_sample;
mod corpus;
mod crawl_zoo;
mod damage;
mod dashboard;
mod entities;
mod examples;
mod export;
mod export_text;
mod faults;
mod format;
mod fuzz;
mod gather;
mod german;
mod grow;
mod identity;
mod images;
mod kill;
mod logs;
mod module;
mod notices;
mod outage;
mod pdf;
mod pictures;
mod pipes;
mod politeness;
mod powercut;
mod rank;
mod recrawl;
mod remote;
mod replay;
mod report;
mod robots;
mod robots_sent;
mod rules;
mod saved;
mod search;
mod secrets;
mod service;
mod sitemaps;
mod soak;
mod start;
mod support;
mod takedown;
mod tarpits;
mod terminal;
mod terms_matrix;
mod texts;
mod traps;
mod troubled;
mod ui;
mod upkeep;
