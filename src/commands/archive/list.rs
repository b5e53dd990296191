//! `spoor archive list SOURCE... [--url URL ...]`

use std::io::{self, BufWriter, Write};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use spoor::archive::cdxj::CdxjLine;
use spoor::archive::find::{self, Capture};
use spoor::archive::gap::RecordSpan;
use spoor::sanitize;
use spoor::tool_error::ToolError;

use super::sources::WantedCaptures;
use crate::commands::screen::counted as count;

/// The widest media type that is printed in full.
const MIME: usize = 18;

/// List captures.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    wanted: WantedCaptures,
    /// List at most this many captures.
    #[arg(long, value_name = "NUMBER")]
    limit: Option<u64>,
    /// Print lines of a CDXJ index.
    #[arg(long, conflicts_with = "json")]
    cdxj: bool,
}

/// A capture, for JSON.
#[derive(Serialize)]
struct Listed<'l> {
    url: &'l str,
    time: &'l str,
    status: Option<&'l str>,
    mime: Option<&'l str>,
    digest: Option<&'l str>,
    file: Option<&'l str>,
    #[serde(flatten)]
    place: Option<RecordSpan>,
}

impl List {
    /// Returns the exit code: 1 if nothing was found.
    pub fn run(&self, json: bool) -> Result<u8> {
        let (sources, selection) = (self.wanted.sources()?, self.wanted.selection()?);
        let mut out = BufWriter::new(io::stdout().lock());
        let mut listed = 0_u64;
        let limit = self.limit.unwrap_or(u64::MAX);
        find::each(&sources, &selection, &mut |capture: Capture| {
            if listed >= limit {
                return Ok(false);
            }
            let line = self.line(&capture.line, json).map_err(ToolError::new)?;
            let failed = |error| ToolError::new(format_args!("printing failed: {error}"));
            writeln!(out, "{line}").map_err(failed)?;
            listed += 1;
            Ok(true)
        })?;
        out.flush().context("printing failed")?;
        if listed == 0 {
            eprintln!("no capture fits the selection");
        }
        Ok(u8::from(listed == 0))
    }

    fn line(&self, line: &CdxjLine, json: bool) -> serde_json::Result<String> {
        if self.cdxj {
            return Ok(line.to_text());
        }
        let mime = line.mime.as_deref();
        let status = line.status.as_deref();
        if json {
            let listed = Listed {
                url: &line.url,
                time: &line.time,
                status,
                mime,
                digest: line.digest.as_deref(),
                file: line.filename.as_deref(),
                place: line.place,
            };
            return Ok(sanitize::json(&serde_json::to_string(&listed)?).into_owned());
        }
        let mime: String = mime.unwrap_or("-").chars().take(MIME).collect();
        let text = format!(
            "{:<14} {:>3} {mime:<MIME$} {:>11} {}",
            line.time,
            status.unwrap_or("-"),
            line.place
                .map_or_else(|| "-".to_owned(), |place| count(place.length)),
            line.url
        );
        Ok(sanitize::shown(&text).into_owned())
    }
}
