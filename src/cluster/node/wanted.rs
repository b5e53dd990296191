//! How a machine applies the state that an operator wants of all ([`crate::wanted`]).
//!
//! A [`WantedReader`] reads the state and has it applied by an [`Obey`], again whenever it has
//! changed. Nothing is remembered from one process to the next.
//!
//! The node contacts no host before the state was read and applied once. It requires that again
//! whenever its term has lapsed, because the state may have changed in that time. Until then no
//! cell is opened, or the crawl rests. A takedown is applied to the frontier when no task is open,
//! so once the state is reported as applied, this machine sends no request for anything that was
//! taken down.
//!
//! A [`WantedErrand`] is the part of the state that the thread of the frontier applies.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::error::NodeError;
use crate::address::PageUrl;
use crate::crawl::checkpoint::TAKEDOWNS;
use crate::frontier::Cells;
use crate::fs::{IoError, atomic};
use crate::wanted::{self, WantedList, WantedState};
use crate::web::scope::{self, Scope, Takedowns};
use crate::{Change, Engine, EngineError};

/// How often the state is read if no change was seen, and how soon again after a failure.
const EVERY: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(500);
/// After how many failures in a row the operator is warned.
const FAILURES_UNTIL_WARNING: u32 = 6;

/// Applies the state to a crawl.
pub trait Obey: Send + 'static {
    /// Applies this state, with the lists that were not applied before. Applying a list again is
    /// harmless. What cannot be applied here is logged as a warning.
    fn obey(
        &mut self,
        wanted: &WantedState,
        lists: Vec<WantedList>,
    ) -> impl Future<Output = ()> + Send;
}

/// What the thread of the frontier has to do for a state.
#[derive(Debug, Default)]
pub struct WantedErrand {
    /// Seeds to add to every cell when it is opened.
    pub seeds: Vec<PageUrl>,
    /// What must never be requested again.
    pub takedowns: Vec<scope::Order>,
    /// Whether the crawl is paused. A paused crawl is never done.
    pub is_paused: bool,
}

/// Sends errands to the thread of the frontier. Clones share the channel.
#[derive(Debug, Clone)]
pub struct WantedErrands(mpsc::UnboundedSender<(WantedErrand, oneshot::Sender<()>)>);

impl WantedErrands {
    /// For when there is no crawl, or it has ended.
    pub fn to_no_crawl() -> Self {
        Self(mpsc::unbounded_channel().0)
    }

    /// Returns when it is done, so that nothing that was taken down is requested from then on.
    pub async fn run(&self, errand: WantedErrand) {
        let (done, is_done) = oneshot::channel();
        // A crawl that has ended sends no requests.
        if self.0.send((errand, done)).is_ok() {
            is_done.await.ok();
        }
    }
}

/// Reads the state for one machine.
pub struct WantedReader<E> {
    engine: Arc<E>,
    errands: WantedErrands,
    /// The lists and the state that were applied.
    known: BTreeSet<String>,
    applied: Option<WantedState>,
    /// The start of the term for which the state must be read.
    asked: watch::Receiver<u64>,
    /// The start of the term for which it was last read.
    current: watch::Sender<Option<u64>>,
}

/// What the node knows of the state.
pub(super) struct ObeyedState {
    errands: mpsc::UnboundedReceiver<(WantedErrand, oneshot::Sender<()>)>,
    asked: watch::Sender<u64>,
    current: watch::Receiver<Option<u64>>,
    /// Takedowns to apply when no task is open.
    taking_down: Vec<oneshot::Sender<()>>,
    is_paused: bool,
}

/// The two ends: what the node keeps, and the reader.
pub(super) fn of<E: Engine>(engine: Arc<E>) -> (ObeyedState, WantedReader<E>) {
    let (sends, errands) = mpsc::unbounded_channel();
    let (asks, asked) = watch::channel(0);
    let (says, current) = watch::channel(None);
    let reader = WantedReader {
        engine,
        errands: WantedErrands(sends),
        known: BTreeSet::new(),
        applied: None,
        asked,
        current: says,
    };
    let obeyed = ObeyedState {
        errands,
        asked: asks,
        current,
        taking_down: Vec::new(),
        is_paused: false,
    };
    (obeyed, reader)
}

impl<E: Engine> WantedReader<E> {
    /// Where errands are sent.
    pub fn errands(&self) -> WantedErrands {
        self.errands.clone()
    }

    /// Applies the state until the node is dropped: as soon as the broker reports a change, and
    /// from time to time, because a report may be lost.
    pub async fn run(mut self, mut obey: impl Obey) {
        let (mut failures, mut changes) = (0, None);
        while !self.current.is_closed() {
            let asked = *self.asked.borrow_and_update();
            if changes.is_none() {
                changes = self.engine.watch(Some(wanted::KEY)).await.ok();
            }
            let pause = match self.step(&mut obey).await {
                Ok(()) => {
                    failures = 0;
                    self.current.send_replace(Some(asked));
                    EVERY
                }
                Err(error) => {
                    failures += 1;
                    if failures == FAILURES_UNTIL_WARNING {
                        tracing::warn!(
                            "the state that all machines should apply cannot be read: {error}; trying again"
                        );
                    }
                    AGAIN
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = self.asked.changed(), if failures == 0 => {}
                is_there = next(&mut changes), if failures == 0 => if !is_there {
                    changes = None;
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    /// Reads the state, and applies it if it differs from the last one.
    async fn step(&mut self, obey: &mut impl Obey) -> Result<(), EngineError> {
        let found = WantedState::read(&*self.engine).await?;
        let wanted = found.map(|(wanted, _)| wanted).unwrap_or_default();
        if self.applied.as_ref() == Some(&wanted) {
            return Ok(());
        }
        let lists = wanted.lists(&*self.engine, &self.known).await?;
        let (names, lists): (Vec<_>, Vec<_>) = lists.into_iter().unzip();
        obey.obey(&wanted, lists).await;
        self.known.extend(names);
        self.applied = Some(wanted);
        Ok(())
    }
}

/// Waits for a change; returns whether the watch continues. Without a watch it waits forever.
async fn next(changes: &mut Option<mpsc::Receiver<Change>>) -> bool {
    match changes {
        Some(changes) => changes.recv().await.is_some(),
        None => std::future::pending().await,
    }
}

impl ObeyedState {
    /// Applies errands to the frontier. `resumed` is when the current term began: the state must be
    /// read after that.
    pub fn turn(
        &mut self,
        (folder, cells): (&Path, &mut Cells),
        seeds: &mut Vec<PageUrl>,
        resumed: u64,
        now: u64,
    ) -> Result<(), NodeError> {
        self.asked
            .send_if_modified(|asked| std::mem::replace(asked, resumed) != resumed);
        while let Ok((errand, done)) = self.errands.try_recv() {
            for url in errand.seeds {
                if !seeds.contains(&url) {
                    seeds.push(url);
                }
            }
            self.is_paused = errand.is_paused;
            if errand.takedowns.is_empty() {
                done.send(()).ok();
            } else {
                forbid(folder, cells, errand.takedowns)?;
                self.taking_down.push(done);
            }
        }
        if !self.taking_down.is_empty() && cells.leased() == 0 {
            cells.take_down(now)?;
            for done in self.taking_down.drain(..) {
                done.send(()).ok();
            }
        }
        Ok(())
    }

    /// Whether the state was applied at least once.
    pub fn has_begun(&self) -> bool {
        self.current.borrow().is_some()
    }

    /// Whether hosts may be contacted in the term that began then.
    pub fn may_ask(&self, resumed: u64) -> bool {
        *self.current.borrow() == Some(resumed) && self.taking_down.is_empty()
    }

    /// Whether no takedown is pending and the crawl is not paused.
    pub fn is_quiet(&self) -> bool {
        self.taking_down.is_empty() && !self.is_paused
    }
}

/// Adds to the list of what is never requested, first on disk.
fn forbid(folder: &Path, cells: &mut Cells, orders: Vec<scope::Order>) -> Result<(), NodeError> {
    let known = cells.scope().takedowns();
    let mut all: Takedowns = known.clone();
    orders.into_iter().for_each(|order| all.add(order));
    if all == *known {
        return Ok(());
    }
    let path = folder.join(TAKEDOWNS);
    atomic::write_bytes(folder, TAKEDOWNS, all.to_lines().as_bytes())
        .map_err(IoError::at(&path, "writing"))?;
    let scope: Scope = cells.scope().clone().with_takedowns(all);
    cells.set_scope(scope)?;
    Ok(())
}

#[cfg(test)]
mod tests;
