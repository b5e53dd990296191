//! `spoor cluster check`: whether all checkpoints are as they were written.

use anyhow::{Context as _, Result, bail};
use serde_json::json;
use spoor::cluster::node::check::{self, ClusterReport};

use super::Asked;
use crate::commands::print_json;

pub fn check(asked: &Asked, quick: bool, json: bool) -> Result<()> {
    let store = asked.config.cluster.store.as_ref();
    let store = store.context("cluster.store is not set")?.as_str();
    let report = check::check(&|| asked.look_again(), store, quick)?;
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

fn print(report: &ClusterReport, store: &str, quick: bool) {
    for wrong in &report.wrong {
        println!("{wrong}");
    }
    for left in &report.leftovers {
        println!(
            "{}/sessions/{}: {} objects, {:.1} MB; no key names this session, so it can be removed if \
             you do not want to gather it any more",
            store.trim_end_matches('/'),
            left.session,
            left.objects,
            left.bytes as f64 / 1e6
        );
    }
    let ClusterReport {
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
