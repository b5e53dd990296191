//! `spoor index JOB|FOLDER`

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use spoor::config::Config;
use spoor::daemon::wiring;
use spoor::page::Signal;
use spoor::sanitize;
use spoor::search::{Home, Indexer, Updated};

use super::print_json;
use super::screen::counted;

/// Make a full-text index of documents, or add those that are new.
#[derive(Debug, Args)]
pub struct Index {
    /// A job's TOML file or folder, or the folder that `spoor corpus build` wrote.
    #[arg(value_name = "JOB|FOLDER")]
    of: PathBuf,
    /// Find the entities of this list, or of an index of one, in the documents; later runs do
    /// the same.
    #[arg(long, value_name = "LIST|INDEX")]
    entities: Option<PathBuf>,
    /// From now on find only the entities that documents name themselves.
    #[arg(long, conflicts_with = "entities")]
    no_entities: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// The result as JSON.
#[derive(Serialize)]
struct Indexed<'a> {
    documents: u64,
    added: u64,
    reread: u64,
    forbidden: u64,
    damaged: u64,
    damage: &'a [String],
}

impl Index {
    pub fn run(self) -> Result<()> {
        let home = home(&self.of)?;
        let _samples = home.lock()?;
        let mut indexer = Indexer::open(&home, threads())?;
        if let Some(list) = &self.entities {
            for problem in indexer.name(list)? {
                eprintln!("left out: {}", sanitize::shown(&problem));
            }
        } else if self.no_entities {
            indexer.name_none()?;
        }
        let updated = indexer.run(&AtomicBool::new(false))?;
        indexer.close()?;
        let Updated {
            added,
            reread,
            damaged,
            ref damage,
            forbidden,
            documents,
        } = updated;
        if self.json {
            return print_json(&Indexed {
                documents,
                added,
                reread,
                forbidden,
                damaged,
                damage,
            });
        }
        for problem in damage {
            eprintln!("not indexed: {}", sanitize::shown(problem));
        }
        if damaged > damage.len() as u64 {
            eprintln!("not indexed: {} in all", counted(damaged));
        }
        if forbidden > 0 {
            println!(
                "{} left out: their publishers forbid it",
                counted(forbidden)
            );
        }
        println!(
            "{} documents are indexed, {} of them now",
            counted(documents),
            counted(added.min(documents)),
        );
        Ok(())
    }
}

/// The threads for indexing.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The documents that a path leads to: the TOML file or folder of a job, the plan of a
/// corpus, or its folder.
pub fn home(path: &Path) -> Result<Home> {
    if path.is_dir() {
        // The job file of the last run.
        let own = path.join("job.toml");
        let config = own.is_file().then(|| Config::load(&own).ok()).flatten();
        let boundaries = config.as_ref().map(wiring::known_boundaries);
        let all = || Signal::ALL.to_vec();
        let obeyed = config.map_or_else(all, |config| config.settings.consent.obey);
        return Ok(Home::open(path, boundaries, &obeyed)?);
    }
    if let Some(folder) = folder_of_plan(path)? {
        return Ok(Home::open(&folder, None, &Signal::ALL)?);
    }
    let config = Config::load(path)?;
    let boundaries = wiring::known_boundaries(&config);
    let obeyed = &config.settings.consent.obey;
    Ok(Home::open(&config.job_folder(), Some(boundaries), obeyed)?)
}

/// The folder of a corpus whose plan this is; `None` for other files.
fn folder_of_plan(path: &Path) -> Result<Option<PathBuf>> {
    let text = spoor::fs::read_to_string(path)
        .with_context(|| format!("{}: reading failed", path.display()))?;
    let Ok(plan) = text.parse::<toml::Table>() else {
        return Ok(None);
    };
    if !plan.contains_key("source") || plan.contains_key("job") {
        return Ok(None);
    }
    let named = plan
        .get("output")
        .and_then(|output| output.get("folder")?.as_str());
    let beside = path.parent().unwrap_or(Path::new(""));
    Ok(Some(match named {
        Some(folder) => beside.join(folder),
        None => path.with_extension(""),
    }))
}
