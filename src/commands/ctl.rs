//! `spoor ctl JOB.toml status|pause|resume|stop|checkpoint|seeds|config|set|log`

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::{Map, Value};
use spoor::config::Config;
use spoor::crawl::figures::Toward;
use spoor::daemon;
use spoor::daemon::control::{
    Change, Changes, Client, Done, Machines, NewSeeds, SeedResult, Status, Token,
};
use spoor::sanitize;
use url::Url;

use super::progress::spoken;
use super::show;
use super::summary::details;

/// Query and control a running crawl.
///
/// In a cluster it talks to the machine on which it runs. `pause`, `resume`, `seeds` and `set`
/// apply to all machines of the cluster, and to those that join later; `stop` and `checkpoint`
/// apply only to this machine.
///
/// The exit code is 0 on success, 1 if the command failed, 2 if the command line is wrong,
/// 3 if no crawl runs, and 5 if the job file is wrong.
#[derive(Debug, Args)]
pub struct Ctl {
    /// The job's TOML file; not needed with --url.
    #[arg(required_unless_present = "url", value_name = "JOB")]
    job: Option<PathBuf>,
    /// Connect over TCP: the address on which the crawl listens, as http://127.0.0.1:8470.
    #[arg(long, value_name = "URL", conflicts_with = "job")]
    url: Option<Url>,
    /// A file with the token for that address; by default SPOOR_CONTROL_TOKEN is used.
    #[arg(long, value_name = "FILE", requires = "url")]
    token_file: Option<PathBuf>,
    /// Print the response as JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show the state of the crawl.
    Status,
    /// Send no more requests until the crawl is resumed, even after a restart.
    Pause,
    /// Continue after a pause.
    Resume,
    /// Stop in good order: requests in flight are finished first.
    Stop,
    /// Return when everything finished would survive a power loss.
    Checkpoint,
    /// Fetch these addresses before all others.
    Seeds {
        /// The addresses.
        #[arg(required = true, value_name = "URL")]
        urls: Vec<String>,
    },
    /// Print the present configuration of the crawl.
    Config,
    /// Change keys while the crawl runs, as limits.documents=500; all of them or none.
    Set {
        /// KEY=VALUE, the value as in a job file; KEY= removes it.
        #[arg(required = true, value_name = "KEY=VALUE")]
        values: Vec<String>,
    },
    /// Print the last rows of the crawl log as JSON lines.
    Log {
        /// How many.
        #[arg(long, value_name = "N", default_value_t = 10)]
        last: usize,
        /// Print further rows as they are written, until the crawl ends.
        #[arg(long)]
        follow: bool,
    },
}

impl Ctl {
    pub fn run(self) -> Result<()> {
        let client = self.client()?;
        daemon::runtime()?.block_on(self.ask(client))
    }

    fn client(&self) -> Result<Client> {
        if let Some(url) = &self.url {
            let section = spoor::settings::Control {
                token_file: self.token_file.clone(),
                ..spoor::settings::Control::default()
            };
            return Ok(Client::at(url.clone(), Token::of(&section)?));
        }
        let job = self.job.as_deref().context("name the job's TOML file")?;
        Ok(Client::new(&Config::load(job)?.job_folder()))
    }

    async fn ask(self, client: Client) -> Result<()> {
        let json = self.json;
        match self.what {
            What::Status => show(json, &client.status().await?, print_status),
            What::Pause => {
                let done = client.command("pause").await?;
                show_for_machines(json, &client, &done, print_done)
            }
            What::Resume => {
                let done = client.command("resume").await?;
                show_for_machines(json, &client, &done, print_done)
            }
            What::Stop => show(json, &client.command("stop").await?, print_done),
            What::Checkpoint => show(json, &client.command("checkpoint").await?, print_done),
            What::Seeds { urls } => {
                let seeds = client.add_seeds(&NewSeeds { urls }).await?;
                let refused = seeds.iter().filter(|s| s.result == SeedResult::Refused);
                let refused = refused.count();
                show_for_machines(json, &client, &seeds, |seeds| {
                    for seed in seeds {
                        let what = match seed.result {
                            SeedResult::Added => "added",
                            SeedResult::Known => "known",
                            SeedResult::Refused => "refused",
                        };
                        let url = sanitize::shown(&seed.url);
                        match &seed.reason {
                            Some(reason) => println!("{what:9} {url}: {}", sanitize::shown(reason)),
                            None => println!("{what:9} {url}"),
                        }
                    }
                })?;
                match refused {
                    0 => Ok(()),
                    n => bail!("{n} of {} seeds are refused", seeds.len()),
                }
            }
            What::Config => {
                let config = client.config().await?;
                let text = toml::to_string(&config.values)?;
                show(json, &config, |_| print!("{}", sanitize::shown(&text)))
            }
            What::Set { values } => {
                let changes = client.set(&parse(&values)?).await?;
                show_for_machines(json, &client, &changes, print_changes)
            }
            What::Log { last, follow } => {
                for row in client.log(last).await? {
                    println!("{}", sanitize::json(&row.to_string()));
                }
                if !follow {
                    Ok(())
                } else {
                    Ok(client.follow(|followed| print_row(&followed)).await?)
                }
            }
        }
    }
}

/// False if standard output was closed.
fn print_row(followed: &spoor::daemon::control::Followed) -> bool {
    let data = sanitize::json(&followed.data);
    match followed.event.as_str() {
        "row" => {
            let mut out = std::io::stdout();
            writeln!(out, "{data}").and_then(|()| out.flush()).is_ok()
        }
        event => {
            eprintln!("{event} {data}");
            true
        }
    }
}

/// Prints the result of a command that applies to all machines of a cluster.
pub fn show_for_machines<T: Serialize>(
    json: bool,
    client: &Client,
    value: &T,
    print: impl FnOnce(&T),
) -> Result<()> {
    show(json, value, print)?;
    if !json {
        print_machines(client);
    }
    Ok(())
}

/// Says how many machines of a cluster have applied the command.
fn print_machines(client: &Client) {
    let Some(Machines {
        applied,
        live,
        keep,
    }) = client.machines()
    else {
        return;
    };
    match applied {
        _ if applied >= live => println!("applied by all {live} machines"),
        _ => println!(
            "applied by {applied} of {live} machines; the others apply it before they ask hosts \
             again, or as soon as they hear of it"
        ),
    }
    if keep > 0 {
        println!(
            "{keep} of them keep more polite values of their own job files: `spoor cluster \
             status` names them"
        );
    }
}

fn print_done(done: &Done) {
    if done.changed {
        println!("{}", done.text)
    } else {
        println!("{} (no change)", done.text)
    }
}

/// Prints the changes and their consequences.
pub fn print_changes(changes: &Changes) {
    let Changes {
        changed,
        later,
        rescored,
        rated,
    } = changes;
    for Change { key, from, to } in changed {
        let [from, to] = [from, to].map(|value| value.as_deref().unwrap_or("none"));
        println!("{key} = {to} (was {from})");
    }
    if changed.is_empty() {
        println!("nothing has changed");
    }
    if changed.iter().any(|c| c.key.starts_with("scope.")) {
        println!("the queue is being checked against the changed [scope]");
    }
    if let Some(came) = rescored {
        let so_far = if *rated { "" } else { " so far, in progress" };
        println!(
            "re-rated: {} addresses seen, {} links with another score, {} of them in another \
             class, {} now above the cutoff (razor), {} back from above it{so_far}",
            came.seen, came.rescored, came.moved, came.razored, came.revived
        );
    }
    if !later.is_empty() {
        println!("takes effect at the next start: {}", later.join(", "));
    }
}

fn print_status(status: &Status) {
    let state = serde_json::to_value(status.state).unwrap_or_default();
    let state = state.as_str().unwrap_or_default();
    println!("state     {state} since {}", status.since);
    if let Some(until) = &status.idle_until {
        println!("          until {until} only what failed is left to be tried again");
    }
    if let Some(link) = &status.link {
        println!("dashboard {link}");
    }
    let limits: Vec<String> = status.toward.iter().map(towards).collect();
    if !limits.is_empty() {
        println!("limits    {}", limits.join("; "));
    }
    if let Some(own) = &status.machine {
        println!(
            "machine   {}.{} with {} cells; {} pages of {} fetches are its own",
            own.node, own.session, own.cells, own.pages, own.fetches
        );
        println!("          limits hold for all machines: `spoor cluster status`");
    }
    for kept in &status.kept {
        println!("kept      {}", sanitize::shown(&kept.to_string()));
    }
    let aside = status.images_left.map(|left| {
        let pace = pace(left, status.rates.images);
        format!("; only images are left: {left}{pace}")
    });
    for (name, text) in details(status, &aside.unwrap_or_default()) {
        println!("{name:<9} {text}");
    }
    let rates = &status.rates;
    println!(
        "rates     {:.1} pages, {:.1} images, {:.2} MB a minute",
        rates.pages,
        rates.images,
        rates.bytes / 1e6
    );
    let hosts = &status.hosts;
    println!(
        "hosts     {}: {} ready, {} due later, {} held, {} parked, {} open",
        hosts.active, hosts.ready, hosts.due, hosts.held, hosts.parked, hosts.open
    );
    if let Some(disk) = &status.disk {
        println!("disk      {:.1} GB free", disk.free as f64 / 1e9);
    }
    if let Some(checkpoint) = &status.checkpoint {
        let age = Duration::from_secs_f64(checkpoint.age_seconds.max(0.0));
        let error = checkpoint.error.as_ref();
        let error = error.map_or(String::new(), |error| {
            format!("; the last attempt: {error}")
        });
        println!(
            "checkpoint  {} old in {}{error}",
            spoken(age),
            checkpoint.store
        );
    }
    if let Some(memory) = &status.memory {
        println!("memory    {:.0} MB", memory.resident as f64 / 1e6);
    }
}

/// The time that a number of things takes at a rate per minute, as the rest of a sentence; empty
/// if the rate is 0.
fn pace(left: u64, a_minute: f64) -> String {
    let time = Duration::try_from_secs_f64(left as f64 * 60.0 / a_minute).ok();
    time.map_or_else(String::new, |time| format!(", about {}", spoken(time)))
}

/// How close the crawl is to a limit, as "documents 40 %, 3 min left".
fn towards(limit: &Toward) -> String {
    let key = limit.key.strip_prefix("limits.").unwrap_or(&limit.key);
    let share = format!("{key} {:.0} %", 100.0 * limit.share());
    match limit.seconds_left.map(Duration::try_from_secs_f64) {
        Some(Ok(left)) => format!("{share}, {} left", spoken(left)),
        _ => share,
    }
}

/// Parses KEY=VALUE with a TOML value; anything that is not TOML is a string, so that
/// `politeness.min_delay=2s` needs no quotation marks.
fn parse(values: &[String]) -> Result<Map<String, Value>> {
    let mut map = Map::new();
    for text in values {
        let Some((key, value)) = text.split_once('=') else {
            bail!("`{text}`: write KEY=VALUE, as limits.documents=500");
        };
        let value = value.trim();
        let parsed: Result<toml::Table, _> = toml::from_str(&format!("v = {value}"));
        let value = match (value, parsed.ok().and_then(|mut table| table.remove("v"))) {
            ("", _) => Value::Null,
            (_, Some(parsed)) => serde_json::to_value(parsed)?,
            (text, None) => Value::String(text.to_owned()),
        };
        map.insert(key.trim().to_owned(), value);
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_tell_the_time_left_where_it_is_known() {
        let limit = |seconds_left| Toward {
            key: "limits.documents".to_owned(),
            done: 400.0,
            of: 1_000.0,
            seconds_left,
        };
        assert_eq!(
            towards(&limit(Some(200.0))),
            "documents 40 %, 3 min 20 s left"
        );
        assert_eq!(towards(&limit(None)), "documents 40 %");
        assert_eq!(towards(&limit(Some(f64::INFINITY))), "documents 40 %");
    }
}
