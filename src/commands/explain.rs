//! `spoor explain JOB.toml URL`, `spoor host JOB.toml NAME`

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, bail};
use spoor::address::{HostKey, PageUrl};
use spoor::checkpoint;
use spoor::config::Config;
use spoor::frontier::store;
use spoor::frontier::view::View;
use spoor::frontier::{Budget, HostRecord, RobotsState, State, UrlRecord};
use spoor::page::TaskKind;
use spoor::pipeline::{now, timestamp};
use spoor::scope::Scope;

/// Says what is known of an address: its state, why, and when it is due.
pub fn url(job: &Path, url: &str) -> Result<()> {
    let config = Config::load(job)?;
    let given = PageUrl::parse(url)?;
    let (_lock, view) = open(&config)?;
    // A site that redirects to a session's address is asked at that very address.
    let url = match view.url(&given, TaskKind::Page)? {
        Some(_) => given,
        None => Scope::new(config.scope.clone()).canonical(&given),
    };
    println!("canonical  {url}");
    println!("surt       {}", url.surt());
    let mut found = false;
    for (kind, name) in [(TaskKind::Page, "page"), (TaskKind::Image, "image")] {
        if let Some(record) = view.url(&url, kind)? {
            found = true;
            print_record(&view, name, &record)?;
        }
    }
    if !found {
        println!("state      unknown: no page that was fetched links to it");
    }
    match Scope::new(config.scope.clone()).page(&url, 0) {
        Ok(()) => println!("scope      within"),
        Err(reason) => println!("scope      outside: {}", reason.name()),
    }
    print_budget(&view.budget(&url)?);
    let agent = config.network.user_agent.as_str();
    match view.robots(&url, agent)? {
        Some(rules) if rules.allows(&url) => println!("robots     allowed"),
        Some(_) => println!("robots     forbidden to {agent}"),
        None => println!("robots     not known yet"),
    }
    match view.host(&url.host_key())? {
        Some(host) => print_host(&url.host_key(), &host),
        None => println!("host       {} was never asked", url.host_key()),
    }
    Ok(())
}

/// Says what is known of a host: its clock, its failures, its robots rules.
pub fn host(job: &Path, name: &str) -> Result<()> {
    let config = Config::load(job)?;
    let url = PageUrl::parse(&format!("http://{name}/"))
        .with_context(|| format!("`{name}` is no host; write it as www.example.org"))?;
    let (_lock, view) = open(&config)?;
    match view.host(&url.host_key())? {
        Some(host) => print_host(&url.host_key(), &host),
        None => println!("host       {} was never asked", url.host_key()),
    }
    Ok(())
}

/// The job's frontier, and the lock that keeps a crawl from it meanwhile.
fn open(config: &Config) -> Result<(File, View)> {
    let folder = config.job_folder().join("frontier");
    let Some(kind) = store::backend_in(&folder) else {
        bail!(
            "{}: no frontier lies here; run `spoor crawl` first",
            folder.display()
        );
    };
    let lock = checkpoint::lock(&config.job_folder())?;
    Ok((lock, View::new(store::open(kind, &folder)?)))
}

fn print_record(view: &View, kind: &str, record: &UrlRecord) -> Result<()> {
    let state = match &record.state {
        State::Queued => "queued".to_owned(),
        State::Waiting { due } => format!("waits to be tried again at {}", timestamp(*due)),
        State::Done { id } => format!("done, number {id}"),
        State::Redirected { id, to } => format!("done, number {id}: redirected to {to}"),
        State::Dropped { reason } => format!("dropped: {}", reason.name()),
    };
    println!("state      {kind} {state}");
    let bucket = match record.state {
        State::Dropped { .. } => "none",
        _ => record.bucket.name(),
    };
    println!(
        "rated      {:.3}, bucket {bucket}, {} hops, found as number {}",
        record.score, record.hops, record.seq
    );
    if let Some(parts) = &record.parts {
        println!(
            "parts      document {:.3}, anchor {:.3}, keyword {:.6}",
            parts.document, parts.anchor, parts.keyword
        );
    }
    if record.attempts > 0 {
        println!("failed     {} times", record.attempts);
    }
    if let Some(note) = &record.note {
        println!("kept as    {note}");
    }
    let chain = view.chain(record)?;
    match chain.split_first() {
        None => println!("via        a seed"),
        Some((nearest, further)) => {
            println!("via        {nearest}");
            for url in further {
                println!("           {url}");
            }
        }
    }
    Ok(())
}

fn print_budget(budget: &Budget) {
    let Budget {
        prefixes,
        fetched,
        fruitful,
        left,
    } = budget;
    println!(
        "budget     {}: {} of {} pages brought something new, {} of {} in all of {}; {}",
        prefixes.narrow,
        fruitful.0,
        fetched.0,
        fruitful.1,
        fetched.1,
        prefixes.wide,
        match left {
            0 => "nothing is left".to_owned(),
            n => format!("{n} more may bring nothing"),
        }
    );
}

fn print_host(key: &HostKey, host: &HostRecord) {
    println!("host       {key}: {} pages fetched", host.documents);
    match host.due.saturating_sub(now()) {
        0 => println!("clock      may be asked now"),
        wait => println!(
            "clock      not before {}, in {:.1} s",
            timestamp(host.due),
            wait as f64 / 1000.0
        ),
    }
    println!(
        "delay      {:.3} s between requests",
        host.delay as f64 / 1000.0
    );
    if let Some(delay) = host.crawl_delay {
        println!(
            "           {:.3} s by its robots.txt",
            delay as f64 / 1000.0
        );
    }
    if host.failures > 0 {
        println!("failures   {} in a row", host.failures);
    }
    if let Some(until) = host.parked_until {
        println!("parked     until {}", timestamp(until));
    }
    for (scheme, state) in ["http", "https"].into_iter().zip(&host.robots) {
        let state = match state {
            RobotsState::Unknown => continue,
            RobotsState::Awaiting => "redirected, under way".to_owned(),
            RobotsState::Known { at, missing: true } => format!("none, asked {}", timestamp(*at)),
            RobotsState::Known { at, .. } => format!("known, asked {}", timestamp(*at)),
            RobotsState::Unreachable => "unreachable: all is forbidden".to_owned(),
        };
        println!("robots     {scheme}: {state}");
    }
}
