//! `spoor frontier convert|compact|check|export|import`

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use spoor::config::Config;
use spoor::daemon::DaemonError;
use spoor::daemon::maintenance::{self, Sizes};
use spoor::frontier::dump::Found;
use spoor::settings::StoreKind;
use toml_edit::{DocumentMut, Item, Table};

use super::print_json;

/// Maintain a job's frontier; no crawl may use it meanwhile.
#[derive(Debug, Args)]
pub struct Upkeep {
    #[command(subcommand)]
    what: FrontierCommand,
    /// Print the result as JSON.
    #[arg(long, global = true)]
    json: bool,
}

/// The operation.
#[derive(Debug, Subcommand)]
enum FrontierCommand {
    /// Rewrite the frontier with another store.
    Convert {
        /// The job's TOML file.
        job: PathBuf,
        /// The store to convert to.
        #[arg(long, value_parser = store())]
        to: StoreKind,
        /// Leave the job file as it is; then change `frontier.store` in it by hand.
        #[arg(long)]
        keep_job_file: bool,
    },
    /// Release disk space that the frontier no longer needs.
    Compact {
        /// The job's TOML file.
        job: PathBuf,
    },
    /// Read the whole frontier and report inconsistencies.
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
    /// Create the frontier from an export.
    Import {
        /// The job's TOML file.
        job: PathBuf,
        /// The file to read.
        file: PathBuf,
    },
}

/// Reads the name of a store.
fn store() -> impl TypedValueParser<Value = StoreKind> {
    let names = StoreKind::ALL.iter().map(|kind| kind.name());
    PossibleValuesParser::new(names).try_map(|name| {
        let found = StoreKind::ALL.iter().find(|kind| kind.name() == name);
        found.copied().ok_or("no such store")
    })
}

impl Upkeep {
    pub fn run(self) -> Result<()> {
        let json = self.json;
        match self.what {
            FrontierCommand::Convert {
                job,
                to,
                keep_job_file,
            } => {
                let config = Config::load(&job)?;
                let sizes = maintenance::convert(&config, to)?;
                print_sizes(sizes, json)?;
                let name = to.name();
                let says_so = config.frontier.store == to;
                if !says_so && !keep_job_file {
                    name_store(&job, name)?;
                }
                match (json, says_so, keep_job_file) {
                    (true, ..) | (_, true, _) => {}
                    (.., false) => println!(
                        "{}: now has store = \"{name}\" under [frontier]",
                        job.display()
                    ),
                    (.., true) => println!(
                        "before the next crawl write into {}, under [frontier]: store = \"{name}\"",
                        job.display()
                    ),
                }
                Ok(())
            }
            FrontierCommand::Compact { job } => {
                print_sizes(maintenance::compact(&Config::load(&job)?)?, json)
            }
            FrontierCommand::Check { job, repair } => check(&Config::load(&job)?, repair, json),
            FrontierCommand::Export { job, file } => {
                let found = maintenance::export(&Config::load(&job)?, &file)?;
                if json {
                    print_json(&found_json(&found))?
                } else {
                    println!(
                        "{} URLs on {} hosts written to {}",
                        found.urls,
                        found.hosts,
                        file.display()
                    )
                }
                if found.damaged_count > 0 || found.cut_short.is_some() {
                    bail!("some records could not be read; `spoor frontier check` names them");
                }
                Ok(())
            }
            FrontierCommand::Import { job, file } => {
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

/// Writes the store's name into the job file, which otherwise keeps its text and comments.
fn name_store(job: &Path, name: &str) -> Result<()> {
    let by_hand = || {
        format!(
            "{}: the frontier is converted, but the file could not be changed; write store = \
             \"{name}\" under [frontier]",
            job.display()
        )
    };
    let text = spoor::fs::read_to_string(job).with_context(by_hand)?;
    let mut document: DocumentMut = text.parse().with_context(by_hand)?;
    let frontier = document
        .entry("frontier")
        .or_insert_with(|| Item::Table(Table::new()))
        .as_table_like_mut()
        .with_context(by_hand)?;
    match frontier.get_mut("store").and_then(Item::as_value_mut) {
        Some(value) => {
            // A comment on the same line is kept.
            let decor = value.decor().clone();
            *value = name.into();
            *value.decor_mut() = decor;
        }
        None => drop(frontier.insert("store", toml_edit::value(name))),
    }
    std::fs::write(job, document.to_string()).with_context(by_hand)
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
                    println!("no inconsistencies");
                }
                return Ok(());
            }
            if !repair {
                bail!(
                    "{} problems; `spoor frontier check --repair` keeps all it can",
                    audit.count
                );
            }
        }
        // The data around the damage may still be readable.
        Err(DaemonError::Store(error)) if repair && !json => println!("{error}"),
        Err(DaemonError::Store(_)) if repair => {}
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
        println!("unreadable part: {why}");
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
