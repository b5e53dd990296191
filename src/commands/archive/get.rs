//! `spoor archive get SOURCE... --url URL`

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use spoor::archive::contents::{self, Contents};
use spoor::archive::find::{self, Capture, Source};
use spoor::archive::select::seconds;
use spoor::sanitize;

use super::sources::WantedCaptures;
use crate::commands::screen::counted as count;

/// Print or save what captures contain.
#[derive(Debug, Args)]
pub struct Get {
    #[command(flatten)]
    wanted: WantedCaptures,
    /// Of several captures, the one nearest to this date; by default the latest.
    #[arg(long, value_name = "DATE", conflicts_with = "all")]
    at: Option<String>,
    /// Write to this file instead of standard output.
    #[arg(long, short, value_name = "FILE", conflicts_with = "all")]
    output: Option<PathBuf>,
    /// Print the record with its head, as it is in the archive, decompressed.
    #[arg(long, conflicts_with = "all")]
    record: bool,
    /// Write all captures to files in this folder, with a list of them, captures.jsonl.
    #[arg(long, value_name = "FOLDER")]
    all: Option<PathBuf>,
}

impl Get {
    /// Returns the exit code: 1 if a capture could not be read.
    pub fn run(&self) -> Result<u8> {
        let (sources, selection) = (self.wanted.sources()?, self.wanted.selection()?);
        if let Some(folder) = &self.all {
            let saved = contents::save_all(&sources, &selection, folder)?;
            println!("{} captures in {}", count(saved.files), folder.display());
            for why in &saved.reasons {
                eprintln!("left out: {}", sanitize::shown(why));
            }
            return Ok(u8::from(saved.left_out > 0));
        }
        let at = match &self.at {
            None => i64::MAX,
            Some(date) => seconds(date)?,
        };
        let mut best: Option<(u64, Capture)> = None;
        let mut found = 0_u64;
        find::each(&sources, &selection, &mut |capture: Capture| {
            found += 1;
            let time = seconds(&capture.line.time).unwrap_or(0);
            let far = time.abs_diff(at);
            if best.as_ref().is_none_or(|(known, _)| far < *known) {
                best = Some((far, capture));
            }
            Ok(true)
        })?;
        let Some((_, capture)) = best else {
            bail!("no capture fits the selection; `spoor archive list` shows what is there");
        };
        if found > 1 {
            eprintln!(
                "{} captures fit; this one is of {} and {}",
                count(found),
                capture.line.time,
                sanitize::shown(&capture.line.url)
            );
        }
        self.write(&sources, &capture)?;
        Ok(0)
    }

    fn write(&self, sources: &[Source], capture: &Capture) -> Result<()> {
        match &self.output {
            None => {
                let mut out = BufWriter::new(io::stdout().lock());
                self.write_to(sources, capture, &mut out)?;
                out.flush().context("printing failed")
            }
            Some(path) => {
                let named = || path.display().to_string();
                let mut part = path.as_os_str().to_owned();
                part.push(".part");
                let part = Path::new(&part);
                let file = File::create(part).with_context(named)?;
                let mut out = BufWriter::new(file);
                self.write_to(sources, capture, &mut out)?;
                out.flush().with_context(named)?;
                std::fs::rename(part, path).with_context(named)
            }
        }
    }

    fn write_to(&self, sources: &[Source], capture: &Capture, out: &mut dyn Write) -> Result<()> {
        if self.record {
            return Ok(contents::write_record(capture, out)?);
        }
        let Contents { is_cut, .. } = contents::write(sources, capture, out)?;
        if is_cut {
            eprintln!(
                "this is a part of the contents: no more is stored, or it is longer than 1 GiB"
            );
        }
        Ok(())
    }
}
