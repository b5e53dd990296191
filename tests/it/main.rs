//! What can only be seen from outside: the program itself, as a process, against
//! a web that this test serves on loopback.
//!
//! [`support`] runs the program and watches the wire. [`layers`] holds the crate
//! map against the source, [`commands`] what each command says and how it ends,
//! [`politeness`] what hosts are asked and when, [`kill`] that nothing is lost or
//! doubled whenever the process dies, [`examples`] that what the documents show
//! can be run, [`traps`] that sites without end cost little, [`upkeep`] the care of a job's frontier.
//!
//! No test sleeps: they wait for events, with a deadline as a guard.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod commands;
mod examples;
mod kill;
mod layers;
mod politeness;
mod support;
mod traps;
mod upkeep;
