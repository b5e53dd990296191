//! What can only be seen from outside: the program itself, as a process, against
//! a web that this test serves on loopback.
//!
//! [`support`] runs the program and watches the wire. [`layers`] holds the crate
//! map against the source, [`commands`] what each command says and how it ends,
//! [`start`] that a few seeds are enough to begin,
//! [`politeness`] what hosts are asked and when, [`robots`] what each answer for a
//! robots.txt means, [`kill`] that nothing is lost or
//! doubled whenever the process dies, [`examples`] that what the documents show
//! can be run, [`recrawl`] that pages are visited again when they are due,
//! [`sitemaps`] what sites list of themselves, [`traps`] that sites without end cost
//! little, [`troubled`] that sites in trouble get the pauses they are owed, [`outage`]
//! that a network that is gone costs nothing, [`clock`] that one that is set does not,
//! [`faults`] that what this machine refuses ends a crawl in good order,
//! [`rank`] the images of a job in order, [`export`] that other programs read them,
//! [`consent`] what terms of use forbid, [`texts`] which part of a page is its text and in
//! which language, [`annotate`] that people can judge the images
//! and no vote is lost, [`browser`] the same in a real one, [`agreement`] how far they
//! agree, [`takedown`] that what was taken down is gone and stays so, [`search`] that documents are found
//! by their words, [`entities`] that names of a list are, [`fuzz`] that
//! nothing which is read can break it, [`secrets`] that passwords stay where they
//! belong, [`service`] what systemd says of the unit file
//! and is told, [`logs`] what stands in the log, [`upkeep`] the care of a
//! job's frontier, [`control`] what a job is asked and told while it runs,
//! [`control_api`] who may and by which routes, [`control_sample`] what focusing gains,
//! [`grow`] that a model grows by what was crawled, [`images`] that images come in another size
//! where the best is gone and have their share of the requests, [`experiment`] that variants are
//! compared offline, [`german`] that a topic in another language than English is found by little
//! text,
//! [`dashboard`] what it shows on a page and tells Prometheus, [`ui`] what all jobs of a
//! folder show on one,
//! [`report`] that its figures are those that are counted otherwise, [`archive`] that WARC and ARC
//! files are read whatever has happened to them, [`zoo`] that
//! hostile servers cost what they state and no more, [`tarpits`] that hosts which keep
//! requests open hold up no other host, [`soak`] that a long crawl takes
//! no more memory than a short one, [`terminal`] what people, log files and scripts see of
//! a crawl, [`rules`] that fields are found and a site that changes is told, [`pdf`] that PDF
//! files are read within limits.
//!
//! No test sleeps: they wait for events, with a deadline as a guard.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod agreement;
mod annotate;
mod archive;
mod archive_find;
mod archiving;
mod batches;
mod browser;
mod checkpoints;
mod clock;
mod commands;
mod consent;
mod control;
mod control_api;
mod control_sample;
mod corpus;
mod damage;
mod dashboard;
mod entities;
mod examples;
mod experiment;
mod export;
mod export_text;
mod faults;
mod format;
mod fuzz;
mod german;
mod grow;
mod images;
mod kill;
mod layers;
mod logs;
mod notices;
mod outage;
mod pdf;
mod pictures;
mod politeness;
mod powercut;
mod rank;
mod recrawl;
mod replay;
mod report;
mod robots;
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
mod zoo;
