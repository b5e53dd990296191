//! `spoor rules report JOB.toml`, `spoor rules report RULES... --from WARC`

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;
use spoor::config::Config;
use spoor::corpus;
use spoor::crawl::figures::RulesAtWork;
use spoor::fold::{self, fold};
use spoor::rules::{Event, HostStatus, RuleSet, Totals};
use spoor::sanitize;

use super::super::print_json;

/// The most changes that are printed.
const EVENTS: usize = 100;
/// The most hosts whose weeks are printed.
const BY_WEEK: usize = 50;

/// Show how rules have worked on each host, week by week, and what has changed.
#[derive(Debug, Args)]
pub struct Report {
    /// The job's TOML file; with --from rule files, or folders of them.
    #[arg(required = true, value_name = "JOB|RULES")]
    of: Vec<PathBuf>,
    /// WARC or ARC files, or folders of them, instead of the log of a job.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    from: Vec<PathBuf>,
}

impl Report {
    pub fn run(self, as_json: bool) -> Result<()> {
        let (hosts, events) = if self.from.is_empty() {
            let [job] = self.of.as_slice() else {
                bail!("name one job; with --from FILE... rule files");
            };
            let config = Config::load(job)?;
            let rules = RuleSet::read(&config.rules.files)?;
            let at_work = RulesAtWork::of_log(&config.job_folder(), &rules)?;
            (at_work.hosts(usize::MAX), at_work.events)
        } else {
            let rules = RuleSet::read(&self.of)?;
            let (watch, events) = corpus::ruled::watched(&self.from, &rules)?;
            (watch.standings(usize::MAX), events)
        };
        if as_json {
            return print_json(&json!({"hosts": hosts, "events": events}));
        }
        if hosts.is_empty() {
            println!("no page has an address that rules are for");
            return Ok(());
        }
        let mut lines = standing(&hosts);
        lines.extend(by_week(&hosts));
        lines.extend(changes(&events));
        println!("{}", sanitize::shown(&lines.join("\n")));
        Ok(())
    }
}

fn share(n: u64, of: u64) -> String {
    match of {
        0 => "-".to_owned(),
        of => format!("{:.0} % of {of}", 100.0 * n as f64 / of as f64),
    }
}

/// The columns of a terminal.
const WIDTH: usize = 80;
/// The indent of lines that belong to the line above.
const INDENT: &str = "    ";
/// The columns of the names; a longer one gets a separate line.
const NAMES: usize = 36;

/// A row of counts.
fn line(name: &str, totals: &Totals) -> String {
    let counts = format!(
        "{:>16} {:>16} {:>8}",
        share(totals.matched, totals.pages),
        share(totals.filled, totals.required),
        totals.refused,
    );
    row(name, &counts)
}

fn head(name: &str) -> String {
    let (pages, fields) = ("pages matched", "fields filled");
    row(name, &format!("{pages:>16} {fields:>16} {:>8}", "refused"))
}

fn row(name: &str, counts: &str) -> String {
    if name.chars().count() > NAMES {
        return format!("{name}\n{:NAMES$} {counts}", "");
    }
    format!("{name:NAMES$} {counts}")
}

/// The details of a row, in lines below it.
fn below(what: &str, all: &[String]) -> Vec<String> {
    if all.is_empty() {
        return Vec::new();
    }
    let list = all.join(",\n");
    let pieces = std::iter::once(what).chain(list.lines());
    let lines = fold::pieces(pieces, WIDTH - INDENT.len());
    lines.iter().map(|line| format!("{INDENT}{line}")).collect()
}

fn standing(hosts: &[HostStatus]) -> Vec<String> {
    let mut lines = vec![head("host")];
    for host in hosts {
        lines.push(line(&host.host, &host.totals));
        lines.extend(below("fallen:", &host.fallen));
    }
    lines
}

fn by_week(hosts: &[HostStatus]) -> Vec<String> {
    let mut lines = vec![String::new(), head("week of")];
    for host in hosts.iter().take(BY_WEEK) {
        lines.push(host.host.clone());
        for week in &host.weeks {
            let rules = week.rules.iter().map(|rule| match rule.required {
                0 => format!("{} {}", rule.rule, rule.pages),
                of => format!("{} {} ({})", rule.rule, rule.pages, share(rule.filled, of)),
            });
            let rules: Vec<String> = rules.collect();
            lines.push(line(&format!("  {}", week.week), &week.totals));
            lines.extend(below("pages by rule:", &rules));
        }
    }
    if hosts.len() > BY_WEEK {
        lines.push(format!("{} hosts more: see --json", hosts.len() - BY_WEEK));
    }
    lines
}

fn changes(events: &[Event]) -> Vec<String> {
    if events.is_empty() {
        return Vec::new();
    }
    let first = events.len().saturating_sub(EVENTS);
    let shown = events.iter().skip(first);
    let shown = shown.flat_map(|event| {
        let lines = fold(&event.to_string(), WIDTH - INDENT.len());
        let lines = lines.into_iter().map(|line| format!("{INDENT}{line}"));
        std::iter::once(event.time.clone()).chain(lines)
    });
    std::iter::once(String::new()).chain(shown).collect()
}
