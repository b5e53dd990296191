//! The requests of a crawl: one after the other, or several at once.
//!
//! With several open requests, a link is chosen before the answers to the others are known, and
//! each seed gives a different order of answers, as with real hosts. With one request at a time, a
//! strategy without randomness gives the same crawl for every seed.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::plan::Plan;
use super::trial::{BEGINNING, Trial, reply};
use super::web::Web;
use super::{ExperimentError, ExperimentRun};
use spoor::crawl::pipeline::{Handler, replay_task};
use spoor::frontier::Cells;
use spoor::page::{Task, TaskKind};

/// How many requests are open at once, and the seed for the order of their answers.
#[derive(Debug, Clone, Copy)]
pub(super) struct AtOnce {
    requests: usize,
    seed: u64,
}

impl AtOnce {
    /// As in the plan. The oracle has one open request, so that it remains the optimum.
    pub fn of(plan: &Plan, run: &ExperimentRun<'_>) -> Self {
        Self {
            requests: run.variant.map_or(1, |_| plan.concurrency),
            seed: run.seed,
        }
    }

    /// Crawls until nothing is left or all fetches are made.
    ///
    /// # Errors
    /// [`ExperimentError::Store`] if the store fails.
    pub fn crawl(
        self,
        frontier: &mut Cells,
        web: &Web,
        trial: &mut Trial<'_>,
    ) -> Result<(), ExperimentError> {
        let mut order = ChaCha8Rng::seed_from_u64(self.seed);
        let processor = trial.processor();
        let answer = &mut |task: &Task| reply(web, task);
        let mut open: Vec<Task> = Vec::new();
        let mut now = BEGINNING;
        loop {
            while frontier.rejudge(now)? {}
            let pages = open.iter().filter(|task| costs_a_fetch(task)).count();
            let is_all = frontier.counts().fetches + pages as u64 >= trial.fetches;
            if open.len() < self.requests
                && !is_all
                && let Some(task) = frontier.lease_best(now)?
            {
                open.push(task);
                continue;
            }
            if open.is_empty() {
                match frontier.next_event() {
                    _ if is_all => return Ok(()),
                    // A task is due: the frontier only paused after dropping many addresses.
                    Some(at) => now = now.max(at),
                    None if frontier.is_exhausted() => return Ok(()),
                    None => now = now.saturating_add(1),
                }
                continue;
            }
            let task = open.swap_remove(order.random_range(..open.len()));
            now = replay_task(frontier, task, answer, trial, &processor, now)?;
        }
    }
}

/// Whether a task counts towards the budget.
fn costs_a_fetch(task: &Task) -> bool {
    task.kind == TaskKind::Page && !task.locate
}
