//! `spoor licenses`: the licences of this program and its parts.

use std::io::{ErrorKind, Write};

use anyhow::Result;

/// The texts of spoor's own licences, and the notices of everything linked into it.
const TEXTS: [&str; 3] = [
    include_str!("../../LICENSE-MIT"),
    include_str!("../../LICENSE-APACHE"),
    include_str!("../../THIRD-PARTY.md"),
];

/// Prints the licences.
pub fn run() -> Result<()> {
    match print(&mut std::io::stdout().lock()) {
        // The reader has closed the pipe.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => Ok(printed?),
    }
}

fn print(out: &mut impl Write) -> std::io::Result<()> {
    writeln!(
        out,
        "spoor {} is under MIT or Apache-2.0, at your choice.\n",
        env!("CARGO_PKG_VERSION")
    )?;
    for text in TEXTS {
        writeln!(out, "{text}")?;
    }
    out.flush()
}
