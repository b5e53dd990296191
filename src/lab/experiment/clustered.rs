//! A crawl that several machines share as in a cluster: each has its own store, and links to the
//! cells of others travel in messages, some of which are withheld and all of which are late
//! ([`spoor::cluster::links`]).
//!
//! All machines know what one of them learns, as in a cluster.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::trial::{BEGINNING, Trial, TrialPlace, reply};
use super::web::Web;
use super::{ExperimentError, plan::Division};
use spoor::cluster::links::{Publisher, Reading, Setting, read};
use spoor::crawl::pipeline::{Handler, replay_task};
use spoor::frontier::store::StoreError;
use spoor::frontier::{CellCount, CellId, Cells, CellsError, OutputEdit, Verdicts};
use spoor::page::{Task, TaskKind};

/// How long a machine takes for a page, in milliseconds.
const PAGE: u64 = 1_000;

/// A machine with its own store.
struct Machine {
    own: Vec<CellId>,
    cells: Cells,
    publisher: Publisher,
    /// How often its cells have restarted the rating of all links.
    reratings: u64,
}

/// The position of outputs that do not exist; nothing changes it.
fn no_outputs(_: &[OutputEdit]) -> Result<Vec<u8>, StoreError> {
    Ok(Vec::new())
}

/// The messages of each cell, from number 1 on.
type Logs = BTreeMap<CellId, Vec<Bytes>>;

/// Crawls with links that wait for the time that a machine takes for this many pages.
pub(super) fn crawl(
    place: TrialPlace,
    Division {
        machines, cells, ..
    }: Division,
    linger: u32,
    web: &Web,
    trial: &mut Trial<'_>,
) -> Result<(), ExperimentError> {
    let mut all = Vec::new();
    let verdicts: Arc<Verdicts> = Arc::default();
    for number in 0..machines {
        let is_own = |cell: &CellId| cell.number() % machines == number;
        let own = cells.all().filter(is_own).collect();
        let folder = place.folder.join(number.to_string());
        let setting = Setting {
            linger: u64::from(linger) * PAGE,
            ..Setting::usual(u64::from(number), cells)
        };
        let mut machine = Machine::begin(&place, &folder, own, setting)?;
        machine.cells.share_verdicts(Arc::clone(&verdicts));
        all.push(machine);
    }
    for seed in &place.seeds {
        let cell = cells.cell_of(&place.scope.canonical(seed).host_key());
        if let Some(owner) = all.iter_mut().find(|machine| machine.own.contains(&cell)) {
            owner
                .cells
                .add_seeds(std::slice::from_ref(seed), BEGINNING)?;
        }
    }
    let processor = trial.processor();
    let mut logs = Logs::new();
    let mut now = BEGINNING;
    loop {
        let mut round = now;
        let mut is_idle = true;
        for number in 0..all.len() {
            // Each requests a page, and what a page needs.
            loop {
                let fetches = |machine: &Machine| machine.cells.counts().fetches;
                if all.iter().map(fetches).sum::<u64>() >= trial.fetches {
                    return Ok(());
                }
                let Some(machine) = all.get_mut(number) else {
                    break;
                };
                while machine.cells.rejudge(round)? {}
                let Some((_, task)) = machine.cells.lease(&machine.own, round)? else {
                    break;
                };
                is_idle = false;
                let is_page = task.kind == TaskKind::Page && !task.locate;
                let (cells, answer) = (&mut machine.cells, &mut |task: &Task| reply(web, task));
                round = replay_task(cells, task, answer, trial, &processor, round)?;
                cells.deliver(round, &mut no_outputs)?;
                rerate_others(&mut all, number)?;
                if is_page {
                    break;
                }
            }
        }
        now = round.max(now.saturating_add(PAGE));
        for machine in &mut all {
            machine.publish(&mut logs, now)?;
        }
        for machine in &mut all {
            machine.read(&logs, now)?;
        }
        if is_idle {
            let events = all.iter().flat_map(|machine| {
                let pages = machine.cells.next_event();
                pages.into_iter().chain(machine.publisher.next_event())
            });
            match events.min() {
                Some(at) => now = now.max(at),
                None => return Ok(()),
            }
        }
    }
}

/// What one machine has learned makes all of them rate their links again.
fn rerate_others(all: &mut [Machine], number: usize) -> Result<(), CellsError> {
    let Some(own) = all.get_mut(number) else {
        return Ok(());
    };
    let begun = own.cells.reratings();
    if std::mem::replace(&mut own.reratings, begun) == begun {
        return Ok(());
    }
    let others = all.iter_mut().enumerate().filter(|(n, _)| *n != number);
    for (_, other) in others {
        other.cells.rerate()?;
    }
    Ok(())
}

impl Machine {
    fn begin(
        place: &TrialPlace,
        folder: &Path,
        own: Vec<CellId>,
        setting: Setting,
    ) -> Result<Self, ExperimentError> {
        let cells: CellCount = setting.cells;
        let (policy, scope) = (place.policy.clone(), place.scope.clone());
        let mut cells = Cells::open(place.kind, folder, cells, policy, scope)?;
        own.iter()
            .try_for_each(|cell| cells.open_cell(*cell, BEGINNING))?;
        if let Some(rating) = &place.rating {
            cells.set_rating(Arc::clone(rating))?;
        }
        let notes = match cells.cells() {
            CellCount::ONE => Vec::new(),
            _ => cells.outbox_notes()?,
        };
        Ok(Self {
            own,
            publisher: Publisher::new(setting, &notes)?,
            reratings: cells.reratings(),
            cells,
        })
    }

    /// Sends what has waited long enough.
    fn publish(&mut self, logs: &mut Logs, now: u64) -> Result<(), ExperimentError> {
        let best = self.cells.best_of(&self.own, now)?;
        self.publisher.set_best(best);
        self.publisher.gather(&self.cells, now)?;
        let changes = self.publisher.close(now)?;
        self.cells.change_outbox(&changes)?;
        loop {
            let posts = self.publisher.due(now);
            if posts.is_empty() {
                return Ok(());
            }
            for post in posts {
                logs.entry(post.to).or_default().push(post.message);
                let change = self.publisher.answer(post.to, post.number, true, now)?;
                self.cells.change_outbox(change.as_slice())?;
            }
        }
    }

    /// Adds what has arrived for its cells.
    fn read(&mut self, logs: &Logs, now: u64) -> Result<(), ExperimentError> {
        for cell in &self.own {
            let mut known = self.cells.log_place(*cell)?;
            let messages = logs.get(cell).map(Vec::as_slice).unwrap_or_default();
            for (sequence, message) in (1..).zip(messages) {
                match read(&known, sequence, message)? {
                    Reading::Known => {}
                    Reading::Add { offers, place, .. } => {
                        self.cells
                            .receive(*cell, &place, &offers, now, &mut no_outputs)?;
                        known = place;
                    }
                    Reading::Reject { why, .. } => return Err(why.into()),
                }
            }
        }
        Ok(())
    }
}
