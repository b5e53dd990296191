//! How a machine comes into the state that an operator wants of all
//! ([`crate::wanted`]).
//!
//! A [`WantedReader`] reads the state and has it applied by an [`Obey`], again whenever it has changed.
//! Nothing is remembered between two processes.
//!
//! The node asks nothing before the state was read and applied once. It asks for that again
//! whenever its term had lapsed, because others may have been told something meanwhile. Until then
//! no cell is opened, or the course is to rest. A takedown is applied to the frontier when no task
//! is open, so no request of this machine can follow when the state is said to be applied.
//!
//! An [`WantedErrand`] is the part of the state that the thread of the frontier applies.

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

/// How often the state is read where no change of it was seen, and how soon again after a failure.
const EVERY: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(500);
/// After how many failures in a row an operator is told.
const TOLD: u32 = 6;

/// Applies the state to a crawl.
pub trait Obey: Send + 'static {
    /// Brings the crawl into this state, with the lists that were not applied before; to apply one
    /// again is harmless. What cannot be applied here is told as a warning.
    fn obey(
        &mut self,
        wanted: &WantedState,
        lists: Vec<WantedList>,
    ) -> impl Future<Output = ()> + Send;
}

/// What the thread of the frontier does for a state.
#[derive(Debug, Default)]
pub struct WantedErrand {
    /// Begin all cells with these seeds as well.
    pub seeds: Vec<PageUrl>,
    /// Ask nothing of these any more.
    pub takedowns: Vec<scope::Order>,
    /// Whether the crawl pauses: one that does is never done.
    pub is_paused: bool,
}

/// Sends errands to the thread of the frontier. Clones send to the same.
#[derive(Debug, Clone)]
pub struct WantedErrands(mpsc::UnboundedSender<(WantedErrand, oneshot::Sender<()>)>);

impl WantedErrands {
    /// For a crawl that has ended, or is none.
    pub fn to_no_crawl() -> Self {
        Self(mpsc::unbounded_channel().0)
    }

    /// Returns when it is done: when nothing more is asked of what is taken down.
    pub async fn run(&self, errand: WantedErrand) {
        let (done, is_done) = oneshot::channel();
        // A crawl that has ended asks nothing.
        if self.0.send((errand, done)).is_ok() {
            is_done.await.ok();
        }
    }
}

/// Reads the state for one machine.
pub struct WantedReader<E> {
    engine: Arc<E>,
    errands: WantedErrands,
    /// The lists that are applied, and the state.
    known: BTreeSet<String>,
    applied: Option<WantedState>,
    /// The time for which the state is to be read.
    asked: watch::Receiver<u64>,
    /// The one for which it was.
    current: watch::Sender<Option<u64>>,
}

/// What the node knows of it.
pub(super) struct ObeyedState {
    errands: mpsc::UnboundedReceiver<(WantedErrand, oneshot::Sender<()>)>,
    asked: watch::Sender<u64>,
    current: watch::Receiver<Option<u64>>,
    /// Takedowns that are to be applied when no task is open.
    taking_down: Vec<oneshot::Sender<()>>,
    is_paused: bool,
}

/// The two ends of the state of a machine.
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
    /// What sends errands.
    pub fn errands(&self) -> WantedErrands {
        self.errands.clone()
    }

    /// Has the state applied until the node is dropped: as soon as the broker says that it has
    /// changed, and from time to time, as what it says may be lost.
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
                    if failures == TOLD {
                        tracing::warn!(
                            "what the cluster is told cannot be read: {error}; it is tried again"
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

    /// Reads the state, and has it applied where it is another one.
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

/// Waits for a change; returns whether the watch goes on. Without a watch it waits for ever.
async fn next(changes: &mut Option<mpsc::Receiver<Change>>) -> bool {
    match changes {
        Some(changes) => changes.recv().await.is_some(),
        None => std::future::pending().await,
    }
}

impl ObeyedState {
    /// Does what the state wants of the frontier. `resumed` is when the term began that is running:
    /// whatever was told before has to be known.
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

    /// Whether the state was applied once.
    pub fn has_begun(&self) -> bool {
        self.current.borrow().is_some()
    }

    /// Whether hosts may be asked, in the term that began then.
    pub fn may_ask(&self, resumed: u64) -> bool {
        *self.current.borrow() == Some(resumed) && self.taking_down.is_empty()
    }

    /// Whether nothing is on its way here, and the crawl does not pause.
    pub fn is_quiet(&self) -> bool {
        self.taking_down.is_empty() && !self.is_paused
    }
}

/// Adds to the list of what is never asked, first on the disk.
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
