//! `spoor archive stats FILE... [--json]`

use std::path::PathBuf;

use anyhow::{Context, Result};
use spoor::archive::files;
use spoor::corpus::stored;

use crate::commands::print_json;

pub fn run(paths: &[PathBuf], json: bool) -> Result<u8> {
    let files = files::listed(paths)?;
    let stored = stored::stored(&files).context("the files cannot be read")?;
    if json {
        print_json(&stored)?;
    } else {
        print!("{}", stored.text());
    }
    Ok(u8::from(!stored.failed.is_empty()))
}
