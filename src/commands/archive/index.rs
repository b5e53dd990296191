//! `spoor archive index FILE... --output INDEX [--json]`

use std::path::{Path, PathBuf};

use anyhow::Result;
use spoor::archive::files;
use spoor::archive::index;

use crate::commands::print_json;
use crate::commands::screen::counted as count;

/// Returns the exit code: 1 if files have gaps, as for `check`.
pub fn run(paths: &[PathBuf], output: &Path, json: bool) -> Result<u8> {
    let files = files::listed(paths)?;
    let indexed = index::index(&files, output)?;
    if json {
        print_json(&indexed)?;
    } else {
        println!(
            "{} captures of {} in {}",
            count(indexed.lines),
            match indexed.files {
                1 => "1 file".to_owned(),
                files => format!("{} files", count(files)),
            },
            output.display()
        );
        if indexed.gaps > 0 {
            println!(
                "{} gaps are left out; `spoor archive check` lists them",
                count(indexed.gaps)
            );
        }
    }
    Ok(u8::from(indexed.gaps > 0))
}
