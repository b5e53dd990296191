//! `spoor cluster status|gather|drain|check|forget|end`

mod check;
mod drain;
mod owner;
mod status;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use spoor::clock::now;
use spoor::cluster::wanted::WantedState;
use spoor::cluster::{Node, SessionId, Survey};
use spoor::config::Config;
use spoor::corpus;
use spoor::crawl::{checkpoint, saved};
use spoor::daemon::{self, Broker};
use spoor::outputs::merge::MachinePart;
use spoor::web::scope::Order;

pub use self::owner::Owner;
use super::print_json;

/// The suffix of the folder in which the outputs of all machines are gathered.
const ALL: &str = "-all";
/// The suffix of the folder for the outputs of each session, which are fetched first.
const PARTS: &str = ".parts";
/// The file that marks the outputs of a session as complete.
const WHOLE: &str = "whole";

/// See what the machines of a cluster do, and gather their outputs.
#[derive(Debug, Args)]
pub struct Cluster {
    #[command(subcommand)]
    what: ClusterCommand,
    /// Print the result as JSON.
    #[arg(long, global = true)]
    json: bool,
}

/// The operation.
#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// Show the machines: what each has done, its share of the hosts, its last checkpoint.
    Status {
        /// The job's TOML file.
        job: PathBuf,
    },
    /// Put the outputs of all machines together into one job's folder, as far as their
    /// checkpoints have them. This works while they crawl.
    Gather {
        /// The job's TOML file.
        job: PathBuf,
        /// The folder to make or replace; by default the job's folder with `-all` after its
        /// name.
        #[arg(long, value_name = "FOLDER")]
        into: Option<PathBuf>,
    },
    /// Have a machine give all its hosts to the others and end.
    Drain {
        /// The job's TOML file.
        job: PathBuf,
        /// The machine's name: what `status` shows without the number of the session at its end.
        node: String,
    },
    /// Check all checkpoints in cluster.store, and report damage.
    Check {
        /// The job's TOML file.
        job: PathBuf,
        /// Look at the lengths of objects only, and read none but manifests and lists.
        #[arg(long)]
        quick: bool,
    },
    /// Have the others take over the hosts of a machine at once, if you know that it is off.
    Forget {
        /// The job's TOML file.
        job: PathBuf,
        /// The machine's name: what `status` shows without the number of the session at its end.
        node: String,
    },
    /// Remove what the brokers have of the job, when all machines have ended. What is in
    /// cluster.store stays.
    End {
        /// The job's TOML file.
        job: PathBuf,
    },
}

impl Cluster {
    pub fn run(self) -> Result<()> {
        let json = self.json;
        match self.what {
            ClusterCommand::Status { job } => status::status(&Asked::of(&job)?, json),
            ClusterCommand::Gather { job, into } => gather(&Asked::of(&job)?, into, json),
            ClusterCommand::Drain { job, node } => {
                drain::drain(&Asked::of(&job)?, &job, &node, json)
            }
            ClusterCommand::Check { job, quick } => check::check(&Asked::of(&job)?, quick, json),
            ClusterCommand::Forget { job, node } => forget(&Asked::of(&job)?, &node, json),
            ClusterCommand::End { job } => end(&Asked::of(&job)?, json),
        }
    }
}

/// The cluster of a job, and its keys.
pub(super) struct Asked {
    pub config: Config,
    pub runtime: tokio::runtime::Runtime,
    broker: Arc<Broker>,
    pub survey: Survey,
}

impl Asked {
    fn of(job: &Path) -> Result<Self> {
        Self::with(job, Config::load(job)?)
    }

    /// Connects to the cluster of a job whose file was read.
    pub fn with(job: &Path, config: Config) -> Result<Self> {
        if !config.cluster.is_there() {
            bail!(
                "{}: the job is crawled by one machine: it has no cluster.brokers",
                job.display()
            );
        }
        let runtime = daemon::runtime()?;
        let found = daemon::connect(&config, runtime.handle()).and_then(|broker| {
            let survey = runtime.block_on(Survey::of(&broker))?;
            Ok((broker, survey))
        });
        let (broker, survey) = found.inspect_err(|_| {
            for silent in daemon::silent_brokers(&config, runtime.handle()) {
                eprintln!("spoor: {}", silence_message(&silent));
            }
        })?;
        Ok(Self {
            config,
            runtime,
            broker: Arc::new(broker),
            survey,
        })
    }

    /// Reads the keys again.
    fn look_again(&self) -> Result<Survey> {
        Ok(self.runtime.block_on(Survey::of(&*self.broker))?)
    }

    /// The names of the live machines, in words.
    fn live_names(&self) -> String {
        let names: Vec<&str> = self.survey.live().map(|(id, _)| id.node.as_str()).collect();
        if names.is_empty() {
            return "no machine is alive".to_owned();
        }
        format!("there are {}", names.join(", "))
    }
}

/// Says that a broker does not answer, and why.
fn silence_message((server, why): &(String, String)) -> String {
    format!("{server} does not answer: {}", spoor::sanitize::shown(why))
}

fn gather(asked: &Asked, into: Option<PathBuf>, json: bool) -> Result<()> {
    let config = &asked.config;
    let into = into.unwrap_or_else(|| beside(&config.job_folder(), ALL));
    let store = config.cluster.store.as_ref();
    let store = store.context("cluster.store is not set")?.as_str();
    let saved = asked.survey.saved();
    if saved.is_empty() {
        bail!(
            "the brokers know of no checkpoint: either no machine has made one yet, which takes a \
             minute, or the cluster was ended"
        );
    }
    let parts_folder = beside(&into, PARTS);
    let mut parts = Vec::new();
    for (session, number) in &saved {
        let folder = fetch(store, session, *number, &parts_folder)?;
        parts.push(MachinePart {
            name: session.to_string(),
            folder,
        });
    }
    let orders = asked
        .runtime
        .block_on(WantedState::takedowns(&*asked.broker))?;
    take_down(orders, &parts)?;
    let settings = config.settings.absolute()?;
    let gathered = corpus::gather::gather(&parts, &into, &settings, now())?;
    if json {
        let parts = parts.iter().map(|part| part.name.as_str());
        return print_json(&json!({
            "folder": into,
            "sessions": parts.collect::<Vec<_>>(),
            "takedowns": gathered.orders,
            "before": gathered.before,
        }));
    }
    println!(
        "{}: the outputs of {} sessions, as of their last checkpoints",
        into.display(),
        parts.len()
    );
    println!(
        "its job file is {}",
        into.join(checkpoint::RECORD).display()
    );
    if let Some(before) = gathered.before {
        println!(
            "what was gathered before is in {}: take from it what you need, and delete it",
            before.display()
        );
    }
    Ok(())
}

/// Adds takedowns to the list of one of the sessions: they apply to all of them, and all sessions
/// may have ended before the takedowns came.
fn take_down(orders: Vec<Order>, parts: &[MachinePart]) -> Result<()> {
    let Some(part) = parts.first().filter(|_| !orders.is_empty()) else {
        return Ok(());
    };
    let mut all = checkpoint::takedowns(&part.folder)?;
    orders.into_iter().for_each(|order| all.add(order));
    let list = part.folder.join(checkpoint::TAKEDOWNS);
    std::fs::write(&list, all.to_lines()).with_context(|| list.display().to_string())
}

/// Fetches the outputs of a session as of a checkpoint into a folder of their own. What was fetched
/// before is not fetched again.
fn fetch(store: &str, session: &SessionId, number: u64, parts: &Path) -> Result<PathBuf> {
    let name = format!("{session}@{number}");
    let folder = parts.join(&name);
    let whole = parts.join(format!("{name}.{WHOLE}"));
    if whole.exists() && folder.is_dir() {
        return Ok(folder);
    }
    std::fs::create_dir_all(parts).with_context(|| parts.display().to_string())?;
    for entry in std::fs::read_dir(parts).with_context(|| parts.display().to_string())? {
        let entry = entry?;
        // An earlier checkpoint of the session, or one that was only partly fetched.
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with(&format!("{session}@"))
        {
            let path = entry.path();
            let removed = if path.is_dir() {
                std::fs::remove_dir_all(&path)
            } else {
                std::fs::remove_file(&path)
            };
            removed.with_context(|| path.display().to_string())?;
        }
    }
    saved::outputs_of(store, &session.to_string(), number, &folder)?;
    std::fs::write(&whole, "").with_context(|| whole.display().to_string())?;
    Ok(folder)
}

/// A folder beside another, with this suffix.
fn beside(folder: &Path, more: &str) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(more);
    folder.with_file_name(name)
}

fn forget(asked: &Asked, node: &str, json: bool) -> Result<()> {
    let name = Node::new(node)?;
    let Asked {
        runtime,
        broker,
        survey,
        ..
    } = asked;
    let of_node = survey.live().filter(|(id, _)| id.node == name);
    let of_node = Vec::from_iter(of_node.map(|(id, record)| (id, record.beat)));
    if !of_node.is_empty() {
        // A live session renews its term twice in this time.
        std::thread::sleep(asked.config.cluster.term / 3);
        let again = asked.look_again()?;
        for (id, beat) in of_node {
            if again
                .sessions
                .get(id)
                .is_some_and(|(now, _)| now.beat > beat)
            {
                bail!(
                    "{node} has just renewed its term, so it is not off; `spoor cluster drain` has \
                     it give its hosts to the others and end"
                );
            }
        }
    }
    let ended = runtime.block_on(survey.forget(&**broker, &name))?;
    if ended == 0 {
        bail!("no session of `{node}` lives; `spoor cluster status` lists the machines");
    }
    if json {
        return print_json(&json!({"machine": node, "sessions": ended}));
    }
    println!(
        "{node}: the others take over its hosts; what it did since its last checkpoint is done again"
    );
    Ok(())
}

fn end(asked: &Asked, json: bool) -> Result<()> {
    let live: Vec<String> = asked.survey.live().map(|(id, _)| id.to_string()).collect();
    if !live.is_empty() {
        bail!(
            "{} still crawl; stop them first, or `spoor cluster forget` those that are off",
            live.join(", ")
        );
    }
    let removed = remove(asked)?;
    if json {
        return print_json(&json!({"streams": removed}));
    }
    if asked.survey.job.is_none() {
        println!("the brokers knew nothing of the job");
        return Ok(());
    }
    println!("the brokers no longer hold anything of the job ({removed} streams removed)");
    println!("what the machines have crawled stays in cluster.store and in gathered folders;");
    println!("set cluster.store to another place before you crawl the job from the start");
    Ok(())
}

fn remove(asked: &Asked) -> Result<usize> {
    Ok(asked.runtime.block_on(asked.broker.remove_all())?)
}
