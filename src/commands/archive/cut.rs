//! `spoor archive cut SOURCE... --output FILE`

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use spoor::archive::cut::{Cut as Done, cut};
use spoor::sanitize;

use super::sources::Wanted;
use crate::commands::print_json;
use crate::commands::screen::counted as count;

/// Write an archive of chosen captures.
#[derive(Debug, Args)]
pub struct Cut {
    #[command(flatten)]
    wanted: Wanted,
    /// The archive to write, named *.warc.gz.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

impl Cut {
    /// Returns the exit code: 1 where a capture could not be copied.
    pub fn run(&self, json: bool) -> Result<u8> {
        let output = &self.output;
        if !output.to_string_lossy().ends_with(".warc.gz") {
            bail!("{}: name the new archive *.warc.gz", output.display());
        }
        if output.exists() {
            bail!(
                "{} is there already; name another file, or remove it",
                output.display()
            );
        }
        let about = [
            ("software", format!("spoor/{}", env!("CARGO_PKG_VERSION"))),
            ("format", "WARC File Format 1.1".to_owned()),
            ("description", format!("cut of {}", self.wanted.text())),
        ];
        let (sources, selection) = (self.wanted.sources()?, self.wanted.selection()?);
        let done = cut(&sources, &selection, output, &about)?;
        if json {
            print_json(&done)?;
        } else {
            self.tell(&done);
        }
        Ok(u8::from(done.left_out > 0))
    }

    fn tell(&self, done: &Done) {
        println!(
            "{} captures, {} bytes in {}",
            count(done.captures),
            count(done.bytes),
            self.output.display()
        );
        let rows = [
            (done.accompanying, "requests and metadata came with them"),
            (
                done.originals,
                "of the captures have the contents of revisits",
            ),
            (
                done.unresolved,
                "revisits have their contents in no capture that was found",
            ),
            (done.left_out, "captures could not be copied"),
        ];
        for (number, what) in rows.into_iter().filter(|(number, _)| *number > 0) {
            println!("{:>14} {what}", count(number));
        }
        for why in &done.reasons {
            eprintln!("left out: {}", sanitize::shown(why));
        }
    }
}
