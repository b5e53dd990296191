//! What can only be seen from outside: the program as a process, against a web that the test
//! serves on loopback. `support` runs the program and records what the servers see.
//!
//! | module | what it shows |
//! |---|---|
//! | [`agreement`] | the statistics of people's judgements equal those of other programs |
//! | [`annotate`] | people judge images, and no vote is lost |
//! | [`archive`] | WARC and ARC files are read whatever has happened to them |
//! | [`archive_find`] | `spoor archive list, get, pack`: captures are found in every kind of archive |
//! | [`archiving`] | a crawl writes what it sends and receives as WARC files |
//! | [`batches`] | large and many batches of the store are whole or absent after a SIGKILL |
//! | [`browser`] | the pages of the program in a real browser |
//! | [`checkpoints`] | what an export of the frontier is worth when the store is gone |
//! | [`clock`] | a system clock that is set costs nothing |
//! | `cluster` | several machines bring what one does |
//! | [`commands`] | what each command says and how it ends |
//! | [`consent`] | what terms of use forbid |
//! | [`control`] | what a job is asked and told while it runs |
//! | [`control_api`] | who may use the API, and its routes |
//! | [`control_sample`] | what focusing gains |
//! | [`corpus`] | `spoor corpus`: clean corpora from crawls and archives |
//! | [`crawl_zoo`] | hostile servers cost what they state and no more |
//! | [`damage`] | damage of a store is told, or harmless |
//! | [`dashboard`] | what a crawl shows on its page and tells Prometheus |
//! | [`entities`] | names of a list are found in documents |
//! | [`examples`] | what the documentation shows can be run |
//! | [`experiment`] | variants are compared offline, and the same every time |
//! | [`export`] | other programs read the exported images |
//! | [`export_text`] | other programs read the exported texts |
//! | [`faults`] | what this machine refuses ends a crawl in good order |
//! | [`format`] | today's layout of the store stays readable, and others are refused |
//! | [`fuzz`] | nothing that is read can break the program |
//! | [`german`] | a topic in German is followed with little text |
//! | [`grow`] | a model grows by what was crawled |
//! | [`images`] | images come in another size where the best is gone, and have their share of the requests |
//! | [`kill`] | nothing is lost or doubled whenever the process dies |
//! | [`layers`] | the crate map is true |
//! | [`logs`] | what stands in the log |
//! | [`notices`] | the notices of licences are those of what is built in |
//! | [`outage`] | a network that is gone costs nothing |
//! | [`pdf`] | PDF files are read within limits |
//! | [`pictures`] | copies of images, and files that are not what they seem |
//! | [`pipes`] | what is no file is named, and not waited for |
//! | [`politeness`] | what hosts are asked, and when |
//! | [`powercut`] | what was flushed survives a power cut |
//! | [`rank`] | the images of a job are put in order |
//! | [`recrawl`] | pages are visited again when they are due |
//! | [`remote`] | archives on web servers are read as politely as a crawl, and as guarded |
//! | [`replay`] | an archive goes through the steps of a crawl again |
//! | [`report`] | the figures of a report are those that are counted otherwise |
//! | [`robots`] | what each answer for a robots.txt means |
//! | [`rules`] | fields are found, and a site that changes is told |
//! | [`saved`] | a job whose machine is lost goes on elsewhere from its checkpoint |
//! | [`search`] | documents are found by their words |
//! | [`secrets`] | passwords stay where they belong |
//! | [`service`] | what systemd says of the unit file and is told |
//! | [`sitemaps`] | what sites list of themselves |
//! | [`soak`] | a long crawl takes no more memory than a short one |
//! | [`start`] | a few seeds are enough to begin |
//! | [`takedown`] | what was taken down is gone and stays so |
//! | [`tarpits`] | hosts that keep requests open hold up no other host |
//! | [`terminal`] | what people, log files and scripts see of a crawl |
//! | [`texts`] | which part of a page is its text, and in which language |
//! | [`traps`] | sites without end cost little |
//! | [`troubled`] | sites in trouble get the pauses they are owed |
//! | [`ui`] | what all jobs of a folder show on one page |
//! | [`upkeep`] | the care of a job's frontier |
//!
//! No test sleeps: each waits for an event, with a deadline as a guard.

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
mod images;
mod kill;
mod logs;
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
mod texts;
mod traps;
mod troubled;
mod ui;
mod upkeep;
