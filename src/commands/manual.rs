//! `spoor completions SHELL`, `spoor man [--out FOLDER]`: shell completions and manual
//! pages, generated from the declaration of the command line.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use super::Arguments;

/// Prints the completions for a shell.
pub fn completions(shell: Shell) {
    let mut command = Arguments::command();
    clap_complete::generate(shell, &mut command, "spoor", &mut std::io::stdout());
}

/// Prints the manual page of the program, or writes one for it and for every command.
pub fn man(out: Option<&Path>) -> Result<()> {
    let command = Arguments::command();
    match out {
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("making {}", folder.display()))?;
            clap_mangen::generate_to(command, folder)
                .with_context(|| format!("writing into {}", folder.display()))
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            Ok(std::io::stdout().write_all(&page)?)
        }
    }
}
