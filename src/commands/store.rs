//! `spoor store convert|compact|check|export|import`

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use spoor::config::{Config, StoreKind};
use spoor::frontier::archive::Found;
use spoor::maintenance::{self, MaintenanceError, Sizes};

use super::print_json;

/// Upkeep of a job's frontier; no crawl may run on it meanwhile.
#[derive(Debug, Args)]
pub struct Upkeep {
    #[command(subcommand)]
    what: Store,
    /// Print what came of it as JSON.
    #[arg(long, global = true)]
    json: bool,
}

/// What to do with it.
#[derive(Debug, Subcommand)]
enum Store {
    /// Rewrite the frontier with another store.
    Convert {
        /// The job's TOML file.
        job: PathBuf,
        /// The store to convert to.
        #[arg(long)]
        to: Kind,
    },
    /// Give back disk space that the frontier no longer needs.
    Compact {
        /// The job's TOML file.
        job: PathBuf,
    },
    /// Read the whole frontier and report what does not hold together.
    Check {
        /// The job's TOML file.
        job: PathBuf,
        /// Rebuild it from everything that can be read.
        #[arg(long)]
        repair: bool,
    },
    /// Write the frontier as compressed lines of JSON.
    Export {
        /// The job's TOML file.
        job: PathBuf,
        /// The file to write, as frontier.jsonl.gz.
        file: PathBuf,
    },
    /// Make the frontier from an export.
    Import {
        /// The job's TOML file.
        job: PathBuf,
        /// The file to read.
        file: PathBuf,
    },
}

/// A store.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Kind {
    /// sled 0.34.
    Sled,
    /// fjall 3.
    Fjall,
}

impl Upkeep {
    pub fn run(self) -> Result<()> {
        let json = self.json;
        match self.what {
            Store::Convert { job, to } => {
                let kind = match to {
                    Kind::Sled => StoreKind::Sled,
                    Kind::Fjall => StoreKind::Fjall,
                };
                let sizes = maintenance::convert(&Config::load(&job)?, kind)?;
                print_sizes(sizes, json)?;
                if !json {
                    println!("set under [frontier]: store = \"{}\"", kind.name());
                }
                Ok(())
            }
            Store::Compact { job } => {
                print_sizes(maintenance::compact(&Config::load(&job)?)?, json)
            }
            Store::Check { job, repair } => check(&Config::load(&job)?, repair, json),
            Store::Export { job, file } => {
                let found = maintenance::export(&Config::load(&job)?, &file)?;
                match json {
                    true => print_json(&found_json(&found))?,
                    false => println!(
                        "{} URLs on {} hosts written to {}",
                        found.urls,
                        found.hosts,
                        file.display()
                    ),
                }
                if found.damaged_count > 0 || found.cut_short.is_some() {
                    bail!("some records could not be read; `spoor store check` names them");
                }
                Ok(())
            }
            Store::Import { job, file } => {
                let found = maintenance::import(&Config::load(&job)?, &file)?;
                if json {
                    return print_json(&found_json(&found));
                }
                println!("{} URLs on {} hosts imported", found.urls, found.hosts);
                Ok(())
            }
        }
    }
}

fn found_json(found: &Found) -> Value {
    json!({
        "urls": found.urls,
        "hosts": found.hosts,
        "damaged": found.damaged_count,
        "cut_short": found.cut_short,
    })
}

fn check(config: &Config, repair: bool, json: bool) -> Result<()> {
    match maintenance::check(config) {
        Ok(audit) => {
            if json {
                print_json(&json!({
                    "urls": audit.urls,
                    "hosts": audit.hosts,
                    "sound": audit.is_sound(),
                    "problems": audit.problems,
                    "count": audit.count,
                }))?;
            } else {
                println!("{} URLs on {} hosts read", audit.urls, audit.hosts);
                for problem in &audit.problems {
                    println!("{problem}");
                }
            }
            if audit.is_sound() {
                if !json {
                    println!("everything holds together");
                }
                return Ok(());
            }
            if !repair {
                bail!(
                    "{} problems; `spoor store check --repair` keeps all it can",
                    audit.count
                );
            }
        }
        // What lies around the damage may still be read.
        Err(MaintenanceError::Store(error)) if repair && !json => println!("{error}"),
        Err(MaintenanceError::Store(_)) if repair => {}
        Err(error) => return Err(error.into()),
    }
    let found = maintenance::repair(config)?;
    if json {
        return print_json(&json!({"repaired": found_json(&found)}));
    }
    println!(
        "rebuilt from {} URLs on {} hosts; {} records were lost; the damaged store is kept as frontier.damaged",
        found.urls, found.hosts, found.damaged_count
    );
    if let Some(why) = found.cut_short {
        println!("a part could not be read: {why}");
    }
    Ok(())
}

fn print_sizes(sizes: Sizes, json: bool) -> Result<()> {
    if json {
        return print_json(&json!({"before": sizes.before, "after": sizes.after}));
    }
    println!(
        "{:.1} MB before, {:.1} MB after",
        sizes.before as f64 / 1e6,
        sizes.after as f64 / 1e6
    );
    Ok(())
}
