//! `spoor checkpoint list|check|save|restore`

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use spoor::clock::now;
use spoor::config::Config;
use spoor::crawl::checkpoint::{self, OpenJob};
use spoor::crawl::saved::{self, CheckpointContent, SaveError, TakeOver};
use spoor::daemon::maintenance;

use super::print_json;

/// Show, check, make or restore the checkpoint that a job keeps in checkpoint.store.
#[derive(Debug, Args)]
pub struct Checkpoint {
    #[command(subcommand)]
    what: CheckpointCommand,
    /// Print the result as JSON.
    #[arg(long, global = true)]
    json: bool,
}

/// The operation.
#[derive(Debug, Subcommand)]
enum CheckpointCommand {
    /// Show the contents of the checkpoint, and its owner.
    List {
        /// The job's TOML file.
        job: PathBuf,
    },
    /// Read all of the checkpoint, and report damage.
    Check {
        /// The job's TOML file.
        job: PathBuf,
    },
    /// Make a checkpoint of a job that is not running.
    Save {
        /// The job's TOML file.
        job: PathBuf,
        /// Write all of it again, even if the checkpoint is ahead of the job's folder.
        #[arg(long)]
        whole: bool,
    },
    /// Restore the job's folder from the checkpoint, without starting a crawl.
    Restore {
        /// The job's TOML file.
        job: PathBuf,
        /// Move an existing folder of the job aside.
        #[arg(long)]
        replace: bool,
        /// Do not wait for signs of life of the process that owns the checkpoint: you know
        /// that it has ended.
        #[arg(long)]
        take_over: bool,
    },
}

impl Checkpoint {
    pub fn run(self) -> Result<()> {
        let json = self.json;
        match self.what {
            CheckpointCommand::List { job } => {
                show(&saved::look(&Config::load(&job)?.settings)?, json)
            }
            CheckpointCommand::Check { job } => {
                let (found, verified) = saved::check(&Config::load(&job)?.settings)?;
                show(&found, json)?;
                if verified.flaws.is_empty() {
                    if !json {
                        println!("no damage");
                    }
                    return Ok(());
                }
                let flaws = verified.flaws.iter().map(ToString::to_string);
                bail!("{}", Vec::from_iter(flaws).join("\n"))
            }
            CheckpointCommand::Save { job, whole } => {
                let config = Config::load(&job)?;
                save(&config, whole)?;
                show(&saved::look(&config)?, json)
            }
            CheckpointCommand::Restore {
                job,
                replace,
                take_over,
            } => restore(&Config::load(&job)?, replace, take_over, json),
        }
    }
}

fn say(text: &str) {
    eprintln!("spoor: {text}");
}

fn save(config: &Config, whole: bool) -> Result<()> {
    let frontier = config.job_folder().join("frontier");
    if !frontier.exists() {
        return Err(maintenance::missing(&frontier).into());
    }
    let session = saved::prepare(config, TakeOver::IfDead, &mut say)?;
    let session = session.ok_or(SaveError::NoStore)?;
    let OpenJob {
        frontier,
        lock: _lock,
        ..
    } = checkpoint::open(config, now())?;
    if !whole {
        session.check(frontier.commits())?;
    }
    session.save_all(frontier.snapshot(), whole)?;
    Ok(frontier.close()?)
}

fn restore(config: &Config, replace: bool, take_over: bool, json: bool) -> Result<()> {
    let found = saved::look(config)?;
    if found.saved.is_none() {
        return Err(SaveError::Nothing(found.store).into());
    }
    let folder = config.job_folder();
    let mut aside = None;
    if folder.join("frontier").exists() && !replace {
        bail!(
            "{}: the job was begun here; `--replace` moves this folder aside and restores the \
             checkpoint in its place",
            folder.display()
        );
    }
    if replace {
        aside = saved::set_aside(config)?;
    }
    let take_over = if take_over {
        TakeOver::AtOnce
    } else {
        TakeOver::IfDead
    };
    let session = match saved::prepare(config, take_over, &mut say) {
        Ok(session) => session.ok_or(SaveError::NoStore)?,
        Err(error) => {
            if let Some(aside) = &aside {
                saved::put_back(config, aside)?;
            }
            return Err(error.into());
        }
    };
    session.end()?;
    if json {
        return print_json(&json!({"restored": found, "aside": aside}));
    }
    println!(
        "restored {}: {} pages, {} images, as of {}",
        folder.display(),
        found.documents,
        found.images,
        found.saved.unwrap_or_default()
    );
    if let Some(aside) = aside {
        println!("the folder that was here is now {}", aside.display());
    }
    Ok(())
}

fn show(found: &CheckpointContent, json: bool) -> Result<()> {
    if json {
        return print_json(found);
    }
    let [base, changes, outputs] = found.bytes.map(|bytes| bytes as f64 / 1e6);
    let [bases, change, parts] = found.objects;
    println!("{}", found.store);
    match &found.saved {
        Some(saved) => println!(
            "saved {saved}: {} pages, {} images, commit {}",
            found.documents, found.images, found.commits
        ),
        None => println!("nothing is saved yet"),
    }
    println!(
        "by {}{}",
        found.owner,
        if found.ended { ", which has ended" } else { "" }
    );
    println!(
        "frontier {base:.1} MB in {bases} objects, changes since {changes:.1} MB in {change}, \
         outputs {outputs:.1} MB in {parts}{}",
        if found.outputs { "" } else { " (not kept)" }
    );
    Ok(())
}
