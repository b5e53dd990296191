//! `spoor takedown JOB.toml --url URL | --host HOST | --sha256 HEX`

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use spoor::address::PageUrl;
use spoor::clock::{now, timestamp};
use spoor::cluster::Survey;
use spoor::cluster::wanted::{WantedBy, WantedList, WantedState};
use spoor::config::Config;
use spoor::corpus::takedown::{Request, take_down};
use spoor::crawl::checkpoint;
use spoor::daemon;
use spoor::web::scope::{HostRange, Order, Sha256Hex, Target};

use super::print_json;

/// The number of terms within which the machines of a cluster must confirm a takedown.
const TERMS: u32 = 6;
/// The interval of checks whether they have confirmed it.
const LOOK: Duration = Duration::from_millis(300);

/// Remove samples from a job, and never fetch them again.
///
/// In a cluster all machines stop requesting them at once, during the crawl; `spoor cluster
/// gather` leaves out what they already have.
#[derive(Debug, Args)]
pub struct Takedown {
    /// The job's TOML file.
    job: PathBuf,
    /// An address, as a page and as an image, with either scheme.
    #[arg(long, value_name = "URL")]
    url: Vec<PageUrl>,
    /// A host at its port, as www.example.org or 127.0.0.1:8080; *.example.org is
    /// that domain and all hosts below it, at any port.
    #[arg(long, value_name = "HOST")]
    host: Vec<HostRange>,
    /// All images with these bytes, at any address.
    #[arg(long, value_name = "HEX")]
    sha256: Vec<Sha256Hex>,
    /// The reason, kept in the list of takedowns and in the receipt.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Only show what would be removed.
    #[arg(long)]
    dry_run: bool,
    /// Print the receipt as JSON.
    #[arg(long)]
    json: bool,
}

impl Takedown {
    pub fn run(self) -> Result<()> {
        let config = Config::load(&self.job)?;
        let is_gathered = checkpoint::of_gathered(&config).is_some();
        if config.cluster.is_there() && !is_gathered {
            return self.order(&config);
        }
        let urls = self.url.into_iter().map(Target::Url);
        let hosts = self.host.into_iter().map(Target::Host);
        let bytes = self.sha256.into_iter().map(Target::Sha256);
        let request = Request {
            targets: urls.chain(hosts).chain(bytes).collect(),
            reason: self.reason,
            dry_run: self.dry_run,
        };
        let (receipt, path) = take_down(&config, &request, now())?;
        if self.json {
            return print_json(&receipt);
        }
        print!("{receipt}");
        if let Some(path) = path {
            println!("receipt: {}", path.display());
        }
        Ok(())
    }

    /// Orders all machines of a cluster to take samples down, and waits until none of them
    /// requests one any more.
    fn order(self, config: &Config) -> Result<()> {
        let Self {
            url, host, sha256, ..
        } = self;
        let urls = url.into_iter().map(Target::Url);
        let hosts = host.into_iter().map(Target::Host);
        let bytes = sha256.into_iter().map(Target::Sha256);
        let targets: Vec<Target> = urls.chain(hosts).chain(bytes).collect();
        if targets.is_empty() {
            bail!("nothing to take down; give --url, --host or --sha256");
        }
        if self.dry_run {
            bail!(
                "{}: several machines crawl this job, so this one cannot show what would be \
                 removed; gather it with `spoor cluster gather`, and name the job file there",
                self.job.display()
            );
        }
        let runtime = daemon::runtime()?;
        let broker = daemon::connect(config, runtime.handle())?;
        let known = runtime.block_on(Survey::of(&broker))?;
        if known.job.is_none() {
            bail!(
                "{}: the brokers know nothing of this job: no machine has begun yet, or it was \
                 ended; name the job file of a gathered folder",
                self.job.display()
            );
        }
        let count = targets.len();
        let (time, reason) = (timestamp(now()), self.reason);
        let takedowns = targets.into_iter().map(|target| Order {
            time: time.clone(),
            target,
            reason: reason.clone(),
        });
        let list = WantedList {
            takedowns: takedowns.collect(),
            said: WantedBy {
                by: "spoor takedown".to_owned(),
                time: time.clone(),
                ..WantedBy::default()
            },
            ..WantedList::default()
        };
        let deadline = Instant::now() + config.cluster.term * TERMS;
        let (version, applied, waiting) = runtime.block_on(async {
            let wanted = WantedState::change(&broker, Some(&list), &|_| {}).await?;
            loop {
                let survey = Survey::of(&broker).await?;
                let (applied, waiting) = survey.applied(wanted.version);
                if waiting.is_empty() || Instant::now() > deadline {
                    let names =
                        |ids: Vec<_>| Vec::from_iter(ids.into_iter().map(|id| format!("{id}")));
                    return anyhow::Ok((wanted.version, names(applied), names(waiting)));
                }
                tokio::time::sleep(LOOK).await;
            }
        })?;
        if self.json {
            let receipt = serde_json::json!({
                "version": version,
                "targets": count,
                "confirmed": applied,
                "not_confirmed": waiting,
            });
            print_json(&receipt)?;
        } else {
            println!("{count} targets are taken down on all machines");
            println!(
                "confirmed by {} live machines: they ask for none of them",
                applied.len()
            );
            println!("`spoor cluster gather` leaves out what was fetched before");
        }
        if !waiting.is_empty() {
            bail!(
                "{} have not confirmed yet: they may be off, or wait for the end of a request. \
                 They apply it before their next request after a restart, or as soon as \
                 they hear of it; `spoor cluster forget` ends the session of one that is off",
                waiting.join(", ")
            );
        }
        Ok(())
    }
}
