//! `spoor cluster drain`: a machine gives its hosts to the others and ends.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::json;
use spoor::cluster::wanted::{WantedEdit, WantedState};
use spoor::cluster::{Node, SessionId, SessionRecord, State, Survey};
use spoor::daemon::control::{self, MachineNow};

use super::Asked;
use crate::commands::print_json;

/// The time between two looks at the keys.
const LOOK: Duration = Duration::from_millis(300);
/// How many terms it may take in all, in addition to the time that open requests get.
const TERMS: u32 = 12;

pub fn drain(asked: &Asked, job: &Path, node: &str, json: bool) -> Result<()> {
    let name = Node::new(node)?;
    let live = asked.survey.live().filter(|(id, _)| id.node == name);
    let Some((session, record)) = live.last().map(|(id, record)| (id.clone(), record)) else {
        let known = asked.survey.sessions.keys().any(|id| id.node == name);
        let what = if known { "has ended" } else { "is no machine" };
        bail!("`{node}` {what}; {}", asked.live_names());
    };
    let stays = |(id, record): (&SessionId, &SessionRecord)| {
        *id != session && record.state != State::Leaving
    };
    let is_last = !asked.survey.live().any(stays);
    if is_last {
        eprintln!("{node} is the last machine: the job is not crawled until one is started again");
    }
    if record.state != State::Leaving {
        ask(asked, job, &session)?;
    }
    let had = asked.survey.cells_of(&session);
    wait(asked, job, &session, had)?;
    if json {
        return print_json(&json!({"machine": node, "cells": had, "last": is_last}));
    }
    let hosts = if is_last {
        "its hosts wait for a machine"
    } else {
        "the others have its hosts, or take them now"
    };
    println!("{node} has ended in good order; {hosts}");
    Ok(())
}

/// Asks the machine to end, through the state that all machines apply.
fn ask(asked: &Asked, job: &Path, session: &SessionId) -> Result<()> {
    let node = &session.node;
    let seen = control::see(&*asked.broker, &asked.config, None);
    let seen = asked.runtime.block_on(seen)?;
    let own = |machine: &&MachineNow| {
        machine.machine == node.as_str() && machine.session == session.number
    };
    if let Some(problem) = seen
        .sessions
        .iter()
        .find(own)
        .and_then(|m| m.problem.as_ref())
    {
        bail!(
            "{problem}. If {node} is off, `spoor cluster forget {} {node}` gives its hosts to the \
             others at once; if it is not, stop it there with Ctrl-C or SIGTERM",
            job.display()
        );
    }
    let leave: &WantedEdit<'_> = &|wanted| {
        // Sessions that have ended no longer matter.
        let sessions = &asked.survey.sessions;
        let lives = |id: &SessionId| sessions.get(id).is_some_and(|(r, _)| r.state.is_live());
        wanted.leaving.retain(lives);
        wanted.leaving.insert(session.clone());
    };
    asked
        .runtime
        .block_on(WantedState::change(&*asked.broker, None, leave))?;
    Ok(())
}

/// Waits until the session has ended and owns no cells, and reports the progress.
fn wait(asked: &Asked, job: &Path, session: &SessionId, had: usize) -> Result<()> {
    let node = &session.node;
    let config = &asked.config;
    let patience = config.cluster.term * TERMS + config.checkpoint.drain;
    let begun = Instant::now();
    let mut said = None;
    loop {
        let survey = asked.look_again()?;
        let left = survey.cells_of(session);
        match state_of(&survey, session) {
            Some(State::Ended) if left == 0 => return Ok(()),
            Some(State::Fenced) => bail!(
                "nothing was heard of {node} for too long, so the others take its hosts over; what \
                 it did since its last checkpoint is done again"
            ),
            None => bail!("the brokers no longer know {node}; was the job ended?"),
            Some(_) => {}
        }
        if said != Some(left) {
            said = Some(left);
            match had.saturating_sub(left) {
                0 => eprintln!("{node} ends: open requests are finished first"),
                given => eprintln!("{node} has given back {given} of {had} parts of its hosts"),
            }
        }
        if begun.elapsed() > patience {
            let waits = if left > 0 {
                format!(
                    "it still has {left} of {had} parts of its hosts, which wait for their checkpoint in cluster.store"
                )
            } else {
                "it has given all its hosts back, but its process has not ended".to_owned()
            };
            bail!(
                "{node} has not ended after {} s: {waits}. It goes on with that; `spoor cluster \
                 status {}` shows how far it is, and its own log says why",
                patience.as_secs(),
                job.display()
            );
        }
        std::thread::sleep(LOOK);
    }
}

fn state_of(survey: &Survey, session: &SessionId) -> Option<State> {
    let (record, _) = survey.sessions.get(session)?;
    Some(record.state)
}
