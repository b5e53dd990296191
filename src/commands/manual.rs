//! `spoor completions SHELL`, `spoor man [--out FOLDER]`: shell completions and manual
//! pages, generated from the declaration of the command line and from the guide.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;
use spoor::guide::TOPICS;

use super::Arguments;

/// Prints the completions for a shell.
pub fn completions(shell: Shell) {
    let mut command = Arguments::command();
    clap_complete::generate(shell, &mut command, "spoor", &mut std::io::stdout());
}

/// Prints the manual page of the program, or writes one for it, for every command and for
/// every topic of the guide.
pub fn man(out: Option<&Path>) -> Result<()> {
    let command = Arguments::command();
    match out {
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("making {}", folder.display()))?;
            clap_mangen::generate_to(command, folder)
                .with_context(|| format!("writing into {}", folder.display()))?;
            for topic in TOPICS {
                let path = folder.join(format!("spoor-{}.7", topic.name));
                std::fs::write(&path, topic.manual())
                    .with_context(|| format!("writing {}", path.display()))?;
            }
            Ok(())
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            Ok(std::io::stdout().write_all(&page)?)
        }
    }
}
