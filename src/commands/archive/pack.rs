//! `spoor archive pack FILE... --output WACZ`

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use spoor::archive::files;
use spoor::archive::pack::{About, pack};
use spoor::corpus::stored::page_of;

use crate::commands::print_json;
use crate::commands::screen::counted as count;

/// Pack WARC files with their index and a list of their pages.
#[derive(Debug, Args)]
pub struct Pack {
    /// The files, or folders of them.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The file to write, named *.wacz.
    #[arg(long, short, value_name = "WACZ")]
    output: PathBuf,
    /// Its title.
    #[arg(long)]
    title: Option<String>,
    /// What it is.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The page that a player opens first.
    #[arg(long, value_name = "URL")]
    main: Option<String>,
    /// Store the text of each page, so that a player can search in all of them.
    #[arg(long)]
    text: bool,
}

impl Pack {
    /// Returns the exit code: 1 if files have gaps, as for `check`.
    pub fn run(&self, json: bool) -> Result<u8> {
        let output = &self.output;
        if !output.to_string_lossy().ends_with(".wacz") {
            bail!("{}: name the file to write *.wacz", output.display());
        }
        let files = files::listed(&self.files)?;
        let about = About {
            title: self.title.clone(),
            description: self.description.clone(),
            main: self.main.clone(),
            with_text: self.text,
            software: format!("spoor {}", env!("CARGO_PKG_VERSION")),
        };
        let packed = pack(&files, output, &about, &page_of)?;
        if json {
            print_json(&packed)?;
        } else {
            println!(
                "{} captures and {} pages of {} files, {} bytes in {}",
                count(packed.captures),
                count(packed.pages),
                count(packed.files),
                count(packed.bytes),
                output.display()
            );
            if packed.gaps > 0 {
                println!(
                    "the files have {} gaps; `spoor archive check` lists them",
                    count(packed.gaps)
                );
            }
        }
        Ok(u8::from(packed.gaps > 0))
    }
}
