//! `spoor cluster status`: a table of all machines.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use spoor::daemon;
use spoor::daemon::control::{self, ClusterNow, LimitNow, MachineNow, Stage};
use spoor::fold::fold;
use spoor::sanitize;

use super::{Asked, silence_message};
use crate::commands::print_json;
use crate::commands::progress::spoken;

/// The width of the table.
const WIDTH: usize = 80;
/// The columns for the name of a machine; a longer name gets a line of its own.
const NAME: usize = 16;

/// What is printed as JSON.
#[derive(Serialize)]
struct WithBrokers<'f> {
    #[serde(flatten)]
    found: &'f ClusterNow,
    silent_brokers: Vec<SilentBroker>,
}

/// A broker that does not answer.
#[derive(Serialize)]
struct SilentBroker {
    server: String,
    why: String,
}

pub fn status(asked: &Asked, json: bool) -> Result<()> {
    let seeing = control::see(&*asked.broker, &asked.config, None);
    let found = asked.runtime.block_on(seeing)?;
    let silent = daemon::silent_brokers(&asked.config, asked.runtime.handle());
    if json {
        let silent = silent.into_iter();
        return print_json(&WithBrokers {
            found: &found,
            silent_brokers: silent
                .map(|(server, why)| SilentBroker { server, why })
                .collect(),
        });
    }
    print!("{}", table(&found));
    for silent in &silent {
        for line in fold(&format!("? {}", silence_message(silent)), WIDTH) {
            println!("{line}");
        }
    }
    Ok(())
}

/// The table, and the notes below it.
fn table(found: &ClusterNow) -> String {
    let Some(phase) = &found.phase else {
        return "no machine has begun\n".to_owned();
    };
    let phase = match phase.as_str() {
        "done" => "the job is done",
        _ => "the job goes on",
    };
    let mut text = format!(
        "{phase}; {} cells, {} of them with no machine\n\n",
        found.cells, found.waiting_cells
    );
    text.push_str(&row(
        "machine",
        [
            "cells", "fetched", "pages", "per min", "queued", "hosts", "saved",
        ]
        .map(str::to_owned),
        "state",
    ));
    for machine in &found.sessions {
        text.push_str(&of_machine(machine));
    }
    let sums = &found.sums;
    let cells = usize::from(found.cells) - found.waiting_cells;
    text.push_str(&row(
        "all",
        [
            cells.to_string(),
            short(sums.fetches),
            short(sums.pages),
            rate(sums.pages_a_minute),
            short(sums.queued),
            short(sums.hosts as u64),
            String::new(),
        ],
        &format!("{} live", sums.live),
    ));
    let notes = notes(found);
    if !notes.is_empty() {
        text.push('\n');
        for note in notes {
            for line in fold(&note, WIDTH) {
                text.push_str(&line);
                text.push('\n');
            }
        }
    }
    text
}

/// A line, or two if the name is long.
fn row(name: &str, figures: [String; 7], state: &str) -> String {
    let [cells, fetched, pages, rate, queued, hosts, saved] = figures;
    let (before, name) = if name.len() > NAME {
        (format!("{name}\n"), "")
    } else {
        (String::new(), name)
    };
    let line = format!(
        "{before}{name:<NAME$} {cells:>5} {fetched:>7} {pages:>7} {rate:>7} {queued:>7} {hosts:>6} {saved:>6}  {state}"
    );
    format!("{}\n", line.trim_end())
}

fn of_machine(machine: &MachineNow) -> String {
    let name = format!("{}.{}", machine.machine, machine.session);
    let is_live = ["live", "leaving"].contains(&machine.state.as_str());
    let none = || if is_live { "?" } else { "" }.to_owned();
    let now = machine.now.as_ref();
    let state = match now.map(|now| now.stage) {
        None if is_live => format!("{} ?", machine.state),
        Some(Stage::Paused) => "paused".to_owned(),
        Some(Stage::Outage) => "no net".to_owned(),
        Some(Stage::Starting) => "starting".to_owned(),
        _ if machine.idle && machine.state == "live" => "idle".to_owned(),
        _ => machine.state.clone(),
    };
    let age = now.and_then(|now| now.checkpoint_age_seconds);
    row(
        &name,
        [
            machine.cells.to_string(),
            short(machine.fetches),
            short(machine.pages),
            now.map_or_else(none, |now| rate(now.pages_a_minute)),
            now.map_or_else(none, |now| short(now.queued)),
            now.map_or_else(none, |now| short(now.hosts as u64)),
            now.map_or_else(none, |_| age.map(saved).unwrap_or_default()),
        ],
        &state,
    )
}

/// What does not fit into the table.
fn notes(found: &ClusterNow) -> Vec<String> {
    let mut notes: Vec<String> = found.limits.iter().map(of_limit).collect();
    if found.sums.unsent > 0 {
        notes.push(format!(
            "links of {} pages are still to be sent to the machines of their hosts",
            found.sums.unsent
        ));
    }
    for machine in &found.sessions {
        if let Some(problem) = &machine.problem {
            notes.push(format!("? {}", sanitize::shown(problem)));
        }
        if let Some(now) = machine
            .now
            .as_ref()
            .filter(|now| now.version < found.version)
        {
            notes.push(format!(
                "{}: has applied version {} of the state for all machines, but not yet {}",
                machine.machine, now.version, found.version
            ));
        }
        for kept in machine.now.iter().flat_map(|now| &now.kept) {
            let kept = kept.to_string();
            notes.push(format!("{}: {}", machine.machine, sanitize::shown(&kept)));
        }
    }
    notes
}

fn of_limit(limit: &LimitNow) -> String {
    let LimitNow { key, of, done } = limit;
    if key == "limits.time" {
        let [done, of] = [done, of].map(|seconds| Duration::from_secs_f64(seconds.max(0.0)));
        return format!("{key}: {} of {}", spoken(done), spoken(of));
    }
    format!("{key}: {done:.0} of {of:.0} done")
}

/// A number in at most seven characters.
fn short(n: u64) -> String {
    match n {
        0..1_000_000 => n.to_string(),
        1_000_000..1_000_000_000 => format!("{:.1}M", n as f64 / 1e6),
        _ => format!("{:.1}G", n as f64 / 1e9),
    }
}

fn rate(n: f64) -> String {
    if n > 0.0 && n < 10.0 {
        format!("{n:.1}")
    } else {
        format!("{n:.0}")
    }
}

/// The age of a checkpoint in at most six characters.
fn saved(seconds: f64) -> String {
    match seconds {
        ..100.0 => format!("{seconds:.0} s"),
        ..5_940.0 => format!("{:.0} min", seconds / 60.0),
        ..356_400.0 => format!("{:.0} h", seconds / 3_600.0),
        _ => format!("{:.0} d", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use spoor::daemon::control::{KeptKey, RunningNow, Sums};

    use super::*;

    fn machine(name: &str, state: &str, now: Option<RunningNow>) -> MachineNow {
        MachineNow {
            machine: name.to_owned(),
            session: 12,
            state: state.to_owned(),
            cells: 1_024,
            fetches: 123_456_789,
            pages: 999_999,
            now,
            ..MachineNow::default()
        }
    }

    #[test]
    fn it_fits_into_a_terminal_and_marks_who_does_not_answer() {
        let now = RunningNow {
            at: 0,
            version: 3,
            stage: Stage::Running,
            pages_a_minute: 12_345.6,
            queued: 98_765_432_109,
            hosts: 123_456,
            checkpoint_age_seconds: Some(5_939.0),
            unsent: 7,
            kept: vec![KeptKey {
                key: "politeness.min_delay".to_owned(),
                value: Some("\"5s\"".to_owned()),
                ordered: Some("\"0s\"".to_owned()),
                version: 3,
                by: "socket, user 0 on c".to_owned(),
            }],
        };
        let long = "crawler-number-17.rack-4.example.org";
        let mut silent = machine("b", "live", None);
        silent.problem = Some("nothing was heard of the machine `b` for 31 s".to_owned());
        let found = ClusterNow {
            version: 1,
            phase: Some("run".to_owned()),
            cells: 1_024,
            waiting_cells: 3,
            sessions: vec![
                machine("a", "leaving", Some(now.clone())),
                machine(long, "live", Some(now)),
                silent,
                machine("c", "lost", None),
            ],
            sums: Sums {
                live: 3,
                unsent: 14,
                ..Sums::default()
            },
            limits: vec![LimitNow {
                key: "limits.documents".to_owned(),
                of: 1_000.0,
                done: 400.0,
            }],
        };
        let text = table(&found);
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "too long: {line}");
        }
        let line = |mark: &str| {
            let found = text.lines().find(|line| line.contains(mark));
            found.unwrap_or_else(|| panic!("{mark} is not in {text}"))
        };
        assert_eq!(line(long), format!("{long}.12"));
        assert!(line("b.12").ends_with("live ?"), "{text}");
        assert!(line("c.12").ends_with("lost"), "{text}");
        assert!(line("limits.").contains("400 of 1000 done"), "{text}");
        assert!(line("? nothing").contains("31 s"), "{text}");
        assert!(line("a: politeness.min_delay").contains("stays"), "{text}");
        assert!(line("all ").ends_with("3 live"), "{text}");
    }
}
