//! `spoor crawl JOB.toml`

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};
use spoor::config::Config;
use spoor::daemon::{self, Summary};
use spoor::page::Bucket;
use spoor::pipeline::{Control, End};

use super::print_json;
use super::progress::Progress;

pub fn run(job: &Path, json: bool) -> Result<()> {
    let config = Config::load(job)?;
    let runtime = daemon::runtime()?;
    let mut progress = Progress::crawl(&config);
    let control = Control::default();
    let desk = daemon::desk(&config, &control);
    daemon::reload_on_hangup(runtime.handle(), desk.clone(), job);
    let summary = daemon::crawl(&config, runtime.handle(), &mut progress, control, desk)?;
    progress.finish();
    match json {
        true => print_json(&as_json(&summary)),
        false => {
            print(config.job.name.as_str(), &summary);
            Ok(())
        }
    }
}

/// What a run came to, for programs.
fn as_json(summary: &Summary) -> Value {
    let counts = &summary.counts;
    let queued: BTreeMap<&str, u64> = Bucket::ALL
        .iter()
        .zip(counts.queued)
        .map(|(bucket, n)| (bucket.name(), n))
        .collect();
    let dropped = counts.dropped.iter().filter(|(_, n)| **n > 0);
    let dropped: BTreeMap<&str, u64> = dropped.map(|(reason, n)| (reason.name(), *n)).collect();
    json!({
        "ended": match summary.end {
            End::Limit(key) => key,
            End::Exhausted => "exhausted",
            End::Stopped => "stopped",
        },
        "pages": counts.documents,
        "fetches": counts.fetches,
        "images": counts.images,
        "sitemaps": counts.sitemaps,
        "bytes": counts.bytes,
        "seconds": summary.active.as_secs_f64(),
        "queued": queued,
        "queued_images": counts.queued_images,
        "waiting": counts.waiting,
        "watched": counts.watched,
        "dropped": dropped,
        "parked_hosts": summary.hosts.1,
        "focused": summary.focus.focused,
        "control": summary.focus.control,
        "results": summary.folder,
    })
}

/// What a run came to, for people.
fn print(topic: &str, summary: &Summary) {
    let counts = &summary.counts;
    println!("{}", summary.focus.sentence(topic));
    println!("ended     {}", ending(summary.end));
    println!(
        "pages     {} done of {} fetches in {:.1} s",
        counts.documents,
        counts.fetches,
        summary.active.as_secs_f64()
    );
    println!("images    {} kept", counts.images);
    if counts.sitemaps > 0 {
        println!("sitemaps  {} read", counts.sitemaps);
    }
    println!("received  {:.1} MB", counts.bytes as f64 / 1e6);
    let buckets: Vec<String> = Bucket::ALL
        .iter()
        .zip(counts.queued)
        .map(|(bucket, n)| format!("{} {n}", bucket.name()))
        .collect();
    println!(
        "queued    {}, images {}, waiting {}",
        buckets.join(", "),
        counts.queued_images,
        counts.waiting
    );
    if counts.watched > 0 {
        println!("watched   {} pages that are visited again", counts.watched);
    }
    let dropped = counts.dropped.iter().filter(|(_, n)| **n > 0);
    let dropped: Vec<String> = dropped
        .map(|(reason, n)| format!("{} {n}", reason.name()))
        .collect();
    if !dropped.is_empty() {
        println!("dropped   {}", dropped.join(", "));
    }
    if summary.hosts.1 > 0 {
        println!(
            "parked    {} hosts that do not answer; run the job again later to try them",
            summary.hosts.1
        );
    }
    println!("results   {}", summary.folder.display());
}

fn ending(end: End) -> String {
    match end {
        End::Limit(key) => format!("{key} is reached; raise it to go on"),
        End::Exhausted => "nothing is left to fetch".to_owned(),
        End::Stopped => "stopped; run the job again to go on".to_owned(),
    }
}
