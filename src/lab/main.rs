//! `spoor-lab serve|demo|traps|endless|tarpits|zoo|judge|experiment`: the lab's webs over
//! HTTP, and crawls of one stored web with different settings, side by side.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use spoor::daemon;
use spoor::outputs;
use spoor::tool_error::with_causes;
use spoor_lab::experiment::{self, Plan};
use spoor_lab::{Labels, demo, endless, tarpits, traps, zoo};

/// The zstd level of the demo's archive, which is part of the program.
const LEVEL: i32 = 19;

#[derive(Debug, Parser)]
#[command(
    name = "spoor-lab",
    version,
    about = "Local test webs for crawling offline"
)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Serve a folder tree DIR/<host>/<path> as a web by Host header.
    Serve {
        /// The folder; redirects.tsv and images.tsv in it are used.
        dir: PathBuf,
        /// Where to listen; port 0 takes a free one.
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
        /// Send text uncompressed even to clients that accept gzip, as few servers still do.
        #[arg(long)]
        uncompressed: bool,
    },
    /// Write the demo web as such a folder tree.
    Demo {
        /// The folder to write.
        dir: PathBuf,
        /// Write it as one WARC file too, as `seeds/demo.warc.zst`.
        #[arg(long)]
        warc: Option<PathBuf>,
    },
    /// Serve a web with traps: a calendar, a maze of filters, session ids, redirect loops,
    /// and an archive with real articles.
    Traps {
        /// How many articles the archive has.
        #[arg(long, default_value_t = 5000)]
        articles: u64,
        /// Where to listen; port 0 takes a free one.
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
    },
    /// Serve an endless web of small pages, each with new content, for crawls of any
    /// length.
    Endless {
        /// Where to listen; port 0 takes a free one.
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
        /// Where to write a job that crawls it.
        #[arg(long)]
        job: Option<PathBuf>,
    },
    /// Serve a web with hosts that keep requests open as long as they can, and print how
    /// many honest pages are requested meanwhile.
    Tarpits {
        /// The behaviour of hostile hosts: silent, drip-head, drip-robots, drip-page,
        /// slow-body, large-body or pdf-bomb.
        #[arg(long, default_value = "silent")]
        kind: String,
        /// Number of hostile hosts.
        #[arg(long, default_value_t = 70)]
        hostile: usize,
        /// Number of honest hosts.
        #[arg(long, default_value_t = 10)]
        honest: usize,
        /// Pages of each honest host.
        #[arg(long, default_value_t = 1_000_000)]
        pages: u64,
        /// Bytes of each honest page.
        #[arg(long, default_value_t = 2_000)]
        bytes: usize,
        /// Where to listen; port 0 takes a free one.
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
        /// Where to write a job that crawls it.
        #[arg(long)]
        job: Option<PathBuf>,
    },
    /// Serve hostile sites, or list them with the expected outcomes.
    Zoo {
        /// Print the table of cases and serve nothing.
        #[arg(long)]
        list: bool,
        /// Only these cases; by default all.
        #[arg(long = "case")]
        cases: Vec<String>,
        /// Where to listen; port 0 takes a free one.
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
        /// Where to write the certificate of the zoo's authority (PEM), which a job needs
        /// for the cases that begin with a valid handshake.
        #[arg(long)]
        ca: Option<PathBuf>,
    },
    /// Count the on-topic pages among the first fetches of jobs.
    Judge {
        /// Job folders, as jobs/lighthouses.
        #[arg(required = true)]
        jobs: Vec<PathBuf>,
        /// The labels, a table of url and topics.
        #[arg(long)]
        labels: PathBuf,
        /// The topic.
        #[arg(long)]
        topic: String,
        /// The number of fetches to count.
        #[arg(long, default_value_t = 500)]
        fetches: usize,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Compare settings by crawling a stored web with each.
    Experiment {
        /// The plan, a TOML file.
        plan: PathBuf,
        /// Where models, table and plots are written; by default as in the plan.
        #[arg(long)]
        out: Option<PathBuf>,
        /// Print the results as JSON.
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    let Err(error) = Arguments::parse().what.run() else {
        return ExitCode::SUCCESS;
    };
    eprintln!("spoor-lab: {}", with_causes(error.as_ref()));
    ExitCode::FAILURE
}

impl What {
    fn run(self) -> Result<()> {
        match self {
            What::Serve {
                dir,
                listen,
                uncompressed,
            } => {
                let mut lab = spoor_lab::Lab::open(&dir)?;
                if !uncompressed {
                    lab = lab.compressed();
                }
                serve(lab, &dir.display().to_string(), listen, |_| Ok(()))
            }
            What::Traps { articles, listen } => {
                let what = traps::HOSTS.join(", ");
                serve(traps::web(articles), &what, listen, |_| Ok(()))
            }
            What::Endless { listen, job } => {
                let what = format!("{} hosts without an end", endless::HOSTS);
                serve(endless::web(), &what, listen, |addr| match &job {
                    Some(path) => std::fs::write(path, endless::job(addr))
                        .with_context(|| format!("writing {}", path.display())),
                    None => Ok(()),
                })
            }
            What::Tarpits {
                kind,
                hostile,
                honest,
                pages,
                bytes,
                listen,
                job,
            } => {
                let known = tarpits::Kind::ALL
                    .into_iter()
                    .find(|(name, _)| *name == kind);
                let Some((_, kind)) = known else {
                    let names = tarpits::Kind::ALL.map(|(name, _)| name).join(", ");
                    bail!("--kind {kind}: unknown kind of host; allowed: {names}");
                };
                let plan = tarpits::Plan {
                    kind,
                    hostile,
                    honest,
                    pages,
                    bytes,
                };
                open_tarpits(plan, listen, job.as_deref())
            }
            What::Zoo {
                list,
                cases,
                listen,
                ca,
            } => {
                let cases = chosen(&cases)?;
                if list {
                    table(&cases)
                } else {
                    open_zoo(cases, listen, ca.as_deref())
                }
            }
            What::Demo { dir, warc } => {
                let web = demo::web();
                web.write_to(&dir)?;
                if let Some(file) = warc {
                    let packed = zstd::encode_all(web.warc()?.as_slice(), LEVEL)?;
                    std::fs::write(&file, packed)
                        .with_context(|| format!("writing {}", file.display()))?;
                }
                println!("{} pages written to {}", web.pages.len(), dir.display());
                Ok(())
            }
            What::Judge {
                jobs,
                labels,
                topic,
                fetches,
                json,
            } => judge(&jobs, &labels, &topic, fetches, json),
            What::Experiment { plan, out, json } => compare(&plan, out, json),
        }
    }
}

fn on_loopback(listen: SocketAddr) -> Result<()> {
    if !listen.ip().is_loopback() {
        bail!("--listen {listen}: a lab web is served on loopback only, as 127.0.0.1:8080");
    }
    Ok(())
}

/// The cases with these names, or all.
fn chosen(names: &[String]) -> Result<Vec<zoo::Case>> {
    let mut cases = zoo::cases();
    for name in names {
        if !cases.iter().any(|case| case.name == name) {
            bail!("--case {name}: the zoo has no such case; `spoor-lab zoo --list` lists all");
        }
    }
    cases.retain(|case| names.is_empty() || names.iter().any(|name| name == case.name));
    Ok(cases)
}

fn table(cases: &[zoo::Case]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "case\twhat it does\texpected outcome")?;
    for case in cases {
        writeln!(out, "{}\t{}\t{}", case.name, case.about, case.expect)?;
    }
    Ok(())
}

fn open_zoo(cases: Vec<zoo::Case>, listen: SocketAddr, ca: Option<&Path>) -> Result<()> {
    on_loopback(listen)?;
    daemon::runtime()?.block_on(async {
        let mut signals = daemon::Signals::listen().context("listening for signals")?;
        let count = cases.len();
        let running = zoo::spawn(cases, listen)
            .await
            .with_context(|| format!("listening on {listen}"))?;
        if let Some(path) = ca {
            std::fs::write(path, &running.authority)
                .with_context(|| format!("writing {}", path.display()))?;
        }
        println!("serving {count} cases on http://{}", running.addr);
        println!("to crawl them, add this to a job:\n\n{}", running.job(ca));
        if ca.is_none() {
            println!("# and under [network] extra_ca, the file that --ca writes");
        }
        // Scripts wait for these lines.
        std::io::stdout().flush().context("printing the address")?;
        signals.next().await;
        Ok(())
    })
}

fn open_tarpits(plan: tarpits::Plan, listen: SocketAddr, job: Option<&Path>) -> Result<()> {
    on_loopback(listen)?;
    daemon::runtime()?.block_on(async {
        let mut signals = daemon::Signals::listen().context("listening for signals")?;
        let running = tarpits::spawn(plan, listen)
            .await
            .with_context(|| format!("listening on {listen}"))?;
        if let Some(path) = job {
            std::fs::write(path, plan.job(running.addr))
                .with_context(|| format!("writing {}", path.display()))?;
        }
        println!("serving tarpits on http://{}", running.addr);
        // Scripts wait for this line.
        std::io::stdout().flush().context("printing the address")?;
        let (asked, held) = (running.asked(), running.held());
        let mut every = tokio::time::interval(Duration::from_secs(10));
        let mut before = 0;
        loop {
            tokio::select! {
                _ = signals.next() => return Ok(()),
                _ = every.tick() => {
                    let (all, held) = (*asked.borrow(), *held.borrow());
                    if all > 0 {
                        println!("{} honest pages in 10 s, {held} requests held", all - before);
                    }
                    before = all;
                }
            }
        }
    })
}

/// Serves until a signal. `ready` receives the address before it is printed.
fn serve(
    lab: spoor_lab::Lab,
    what: &str,
    listen: SocketAddr,
    ready: impl FnOnce(SocketAddr) -> Result<()>,
) -> Result<()> {
    on_loopback(listen)?;
    daemon::runtime()?.block_on(async {
        // Before the address is printed, because its reader may stop the server.
        let mut signals = daemon::Signals::listen().context("listening for signals")?;
        let running = spoor_lab::spawn(lab, listen)
            .await
            .with_context(|| format!("listening on {listen}"))?;
        ready(running.addr)?;
        println!("serving {what} on http://{}", running.addr);
        println!(
            "to crawl it, under [network]: allow_private = true and connect_to = [\"::{}\"]",
            running.addr
        );
        // Scripts wait for the first line.
        std::io::stdout().flush().context("printing the address")?;
        signals.next().await;
        running.stop().await.context("stopping the server")
    })
}

fn judge(jobs: &[PathBuf], labels: &Path, topic: &str, fetches: usize, json: bool) -> Result<()> {
    let labels = Labels::read(labels)?;
    if json {
        let mut verdicts = Vec::new();
        for job in jobs {
            let verdict = labels.judge(topic, &outputs::fetched_pages(job)?, fetches);
            verdicts.push(serde_json::json!({
                "job": job,
                "fetches": verdict.fetches,
                "on_topic": verdict.on_topic,
                "share": verdict.share,
                "known": verdict.known,
            }));
        }
        println!("{}", serde_json::to_string_pretty(&verdicts)?);
        return Ok(());
    }
    println!("job\tfetches\ton topic\tshare\tknown");
    for job in jobs {
        let verdict = labels.judge(topic, &outputs::fetched_pages(job)?, fetches);
        println!(
            "{}\t{}\t{}\t{:.3}\t{}",
            job.display(),
            verdict.fetches,
            verdict.on_topic,
            verdict.share,
            verdict.known
        );
    }
    Ok(())
}

fn compare(plan: &Path, out: Option<PathBuf>, json: bool) -> Result<()> {
    let mut plan = Plan::read(plan)?;
    if let Some(out) = out {
        plan.out = out;
    }
    let runtime = daemon::runtime()?;
    let outcome = experiment::run(&plan, runtime.handle(), &|line: &str| eprintln!("{line}"))?;
    if json {
        print!("{}", outcome.json());
    } else {
        println!("{}", outcome.markdown());
        println!("table and plots in {}", plan.out.display());
    }
    Ok(())
}
