//! `spoor rules report JOB.toml`

use std::path::Path;

use anyhow::Result;
use serde_json::json;
use spoor::config::Config;
use spoor::outputs::ruled;
use spoor::rules::RuleSet;
use spoor::sanitize;

use super::super::print_json;

/// The most changes that are printed.
const EVENTS: usize = 100;

pub fn run(job: &Path, as_json: bool) -> Result<()> {
    let config = Config::load(job)?;
    let rules = RuleSet::read(&config.rules.files)?;
    let mut events = Vec::new();
    let watch = ruled::watched(&config.job_folder(), &rules, |event| events.push(event))?;
    let hosts = watch.standings();
    if as_json {
        return print_json(&json!({"hosts": hosts, "events": events}));
    }
    if hosts.is_empty() {
        println!("no page of the job has an address that rules are for");
        return Ok(());
    }
    let share = |n: u64, of: u64| match of {
        0 => "-".to_owned(),
        of => format!("{:.0} % of {of}", 100.0 * n as f64 / of as f64),
    };
    let mut lines = vec![format!(
        "{:<40} {:>16} {:>16} {:>8}  fallen",
        "host", "pages matched", "fields filled", "refused"
    )];
    for host in &hosts {
        let totals = &host.totals;
        let line = format!(
            "{:<40} {:>16} {:>16} {:>8}  {}",
            host.host,
            share(totals.matched, totals.pages),
            share(totals.filled, totals.required),
            totals.refused,
            host.fallen.join(", ")
        );
        lines.push(line.trim_end().to_owned());
    }
    let first = events.len().saturating_sub(EVENTS);
    for event in events.iter().skip(first) {
        lines.push(format!("{}  {event}", event.time));
    }
    println!("{}", sanitize::shown(&lines.join("\n")));
    Ok(())
}
