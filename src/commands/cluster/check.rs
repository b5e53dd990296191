//! `spoor cluster check`: whether the keys and all checkpoints are as they should be.

use anyhow::{Context as _, Result, bail};
use serde_json::json;
use spoor::crawl::cluster::Survey;
use spoor::crawl::frontier::CellCount;
use spoor::crawl::node::check::{self, Keys, LogEnds, Report};
use spoor::crawl::saved::SaveError;

use super::Asked;
use crate::commands::print_json;

pub fn check(asked: &Asked, quick: bool, json: bool) -> Result<()> {
    let store = asked.config.cluster.store.as_ref();
    let store = store.context("cluster.store is not set")?.as_str();
    let report = check::check(&mut Brokers(asked), store, quick).map_err(|Failed(error)| error)?;
    if json {
        print_json(&json!({
            "cells": report.cells,
            "sessions": report.sessions,
            "checkpoints": report.checkpoints,
            "objects": report.objects,
            "bytes": report.bytes,
            "quick": quick,
            "wrong": report.wrong.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "leftovers": report.leftovers,
        }))?;
    } else {
        print(&report, store, quick);
    }
    match report.wrong.len() {
        0 => Ok(()),
        1 => bail!("something is wrong in the cluster"),
        n => bail!("{n} things are wrong in the cluster"),
    }
}

fn print(report: &Report, store: &str, quick: bool) {
    for wrong in &report.wrong {
        println!("{wrong}");
    }
    for left in &report.leftovers {
        println!(
            "{}/sessions/{}: {} objects, {:.1} MB; no key names this session, so it can be removed if \
             nobody gathers it any more",
            store.trim_end_matches('/'),
            left.session,
            left.objects,
            left.bytes as f64 / 1e6
        );
    }
    let Report {
        cells,
        sessions,
        checkpoints,
        objects,
        bytes,
        ..
    } = report;
    if *cells == 0 {
        println!("no machine has begun");
        return;
    }
    let how = if quick {
        "by their lengths"
    } else {
        "every byte of them"
    };
    let verdict = if report.wrong.is_empty() {
        "all is well"
    } else {
        "not all is well"
    };
    println!(
        "{cells} cells, {sessions} sessions, {checkpoints} checkpoints: {verdict} ({objects} objects \
         with {:.1} MB were checked, {how})",
        *bytes as f64 / 1e6
    );
}

/// What a check asks the brokers.
struct Brokers<'b>(&'b Asked);

struct Failed(anyhow::Error);

impl From<SaveError> for Failed {
    fn from(error: SaveError) -> Self {
        Self(error.into())
    }
}

impl Keys for Brokers<'_> {
    type Error = Failed;

    fn survey(&mut self) -> Result<Survey, Failed> {
        self.0.look_again().map_err(Failed)
    }

    #[cfg(feature = "nats")]
    fn log_ends(&mut self, cells: CellCount) -> Result<LogEnds, Failed> {
        use spoor::crawl::cluster::links::log_of;
        let mut ends = LogEnds::new();
        for cell in cells.all() {
            let log = log_of(cell);
            let found = self.0.runtime.block_on(self.0.broker.log_ends(&log));
            if let Some(found) = found.map_err(|error| Failed(error.into()))? {
                ends.insert(cell, found);
            }
        }
        Ok(ends)
    }

    #[cfg(not(feature = "nats"))]
    fn log_ends(&mut self, _: CellCount) -> Result<LogEnds, Failed> {
        Err(Failed(spoor::crawl::node::NodeError::NoBroker.into()))
    }
}
