//! The log of orders as a machine reads it: what an operator told one machine holds for all.
//!
//! A [`Reader`] reads the log from its beginning, in order, and has each order applied by an
//! [`Obey`] before it goes on. Nothing is remembered between two processes: what an order
//! changes is there again when all of them have been applied once more, so none can be lost.
//!
//! The node asks nothing before the log was read to its end. It asks for that again whenever its
//! term had lapsed, because others may have been told something meanwhile. Until then no cell is
//! opened, or the course is to rest. A takedown is applied to the frontier when no task is open;
//! then the session says that it was, and no request of this machine can follow.
//!
//! An [`Errand`] is the part of an order that the thread of the frontier does for the applier.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::error::NodeError;
use crate::address::PageUrl;
use crate::crawl::checkpoint::TAKEDOWNS;
use crate::crawl::cluster::orders::{LOG, Order, OrderError, PassedOver};
use crate::crawl::cluster::settings::Settings;
use crate::crawl::cluster::{Engine, EngineError, Order as Told, Survey};
use crate::crawl::frontier::Cells;
use crate::fs::{IoError, atomic};
use crate::web::scope::{self, Scope, Takedowns};

/// How long a message is waited for that is in the log.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many bytes of messages, or as many orders, are applied at once.
const BATCH_BYTES: usize = 8 << 20;
const BATCH: usize = 1_000;
/// How soon the log is tried again after a failure.
const AGAIN: Duration = Duration::from_millis(500);
/// After how many failures in a row an operator is told.
const TOLD: u32 = 6;
/// How often an order is sent again whose answer was lost. It is stored once.
const ATTEMPTS: usize = 3;

/// Applies orders to a crawl.
pub trait Obey: Send + 'static {
    /// Applies orders one after the other; to apply one again is harmless. What cannot be
    /// applied here is told as a warning, and does not hold up the others.
    fn obey(&mut self, orders: Vec<(u64, Order)>) -> impl Future<Output = ()> + Send;
}

/// Appends orders, and sees who has applied them.
pub trait Scribe: Send + Sync + 'static {
    /// The name of this machine.
    fn node(&self) -> &str;

    /// Appends an order to the log; returns when it is stored.
    fn append(&self, order: Order) -> BoxFuture<'_, Result<(), AppendError>>;

    /// How many machines have applied the order with this number, and how many live.
    fn applied(&self, order: u64) -> BoxFuture<'_, Result<(usize, usize), EngineError>>;

    /// Replaces the settings that a machine has to have when it begins.
    fn renew(&self, settings: Settings) -> BoxFuture<'_, Result<(), EngineError>>;
}

/// Why an order was not appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// It is too long.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// The broker did not answer.
    #[error("{0}; whether the other machines get the order is not known, so give it again")]
    Engine(#[from] EngineError),
}

/// Appends an order to a log. Where no answer comes, it is sent again, and stored once.
///
/// # Errors
/// [`AppendError`].
pub async fn append(engine: &impl Engine, order: &Order) -> Result<(), AppendError> {
    let bytes = order.to_bytes()?;
    let mut attempt = 1;
    loop {
        match engine.send(LOG, &order.id, bytes.clone()).await {
            Err(error) if attempt == ATTEMPTS => return Err(error.into()),
            Err(_) => tokio::time::sleep(AGAIN).await,
            Ok(()) => return Ok(()),
        }
        attempt += 1;
    }
}

/// Appends orders by an engine.
struct Pen<E> {
    engine: Arc<E>,
    node: String,
}

impl<E: Engine> Scribe for Pen<E> {
    fn node(&self) -> &str {
        &self.node
    }

    fn append(&self, order: Order) -> BoxFuture<'_, Result<(), AppendError>> {
        Box::pin(async move { append(&*self.engine, &order).await })
    }

    fn applied(&self, order: u64) -> BoxFuture<'_, Result<(usize, usize), EngineError>> {
        Box::pin(async move {
            let survey = Survey::of(&*self.engine).await?;
            let (applied, not) = survey.applied(order);
            Ok((applied.len(), applied.len() + not.len()))
        })
    }

    fn renew(&self, settings: Settings) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async move { settings.renew(&*self.engine).await })
    }
}

/// What the thread of the frontier does for an order.
#[derive(Debug)]
enum Errand {
    /// Begin all cells with these seeds as well.
    Seeds(Vec<PageUrl>),
    /// Ask nothing of these any more.
    Takedown(Vec<scope::Order>),
    /// A pause begins or ends.
    Pause(bool),
}

/// Sends errands to the thread of the frontier. Clones send to the same.
#[derive(Debug, Clone)]
pub struct Errands(mpsc::UnboundedSender<(Errand, oneshot::Sender<()>)>);

impl Errands {
    /// Begins all cells that are opened from now on with these addresses as well.
    pub async fn seeds(&self, urls: Vec<PageUrl>) {
        self.run(Errand::Seeds(urls)).await;
    }

    /// Takes addresses down; returns when nothing more is asked of them.
    pub async fn take_down(&self, orders: Vec<scope::Order>) {
        self.run(Errand::Takedown(orders)).await;
    }

    /// Says that the crawl pauses, or does not any more: one that pauses is never done.
    pub async fn pause(&self, is_paused: bool) {
        self.run(Errand::Pause(is_paused)).await;
    }

    async fn run(&self, errand: Errand) {
        let (done, is_done) = oneshot::channel();
        // A crawl that has ended asks nothing.
        if self.0.send((errand, done)).is_ok() {
            is_done.await.ok();
        }
    }
}

/// Reads the log of orders of one machine.
pub struct Reader<E> {
    engine: Arc<E>,
    node: String,
    errands: Errands,
    session: mpsc::UnboundedSender<Told>,
    messages: Option<mpsc::Receiver<(u64, Bytes)>>,
    passed_over: PassedOver,
    /// Up to where all orders are applied.
    applied: u64,
    /// The time for which the log is to be read to its end.
    asked: watch::Receiver<u64>,
    /// The one for which it was.
    current: watch::Sender<Option<u64>>,
}

/// What the node knows of it.
pub(super) struct Orders {
    errands: mpsc::UnboundedReceiver<(Errand, oneshot::Sender<()>)>,
    asked: watch::Sender<u64>,
    current: watch::Receiver<Option<u64>>,
    /// Takedowns that are to be applied when no task is open.
    taking_down: Vec<oneshot::Sender<()>>,
    is_paused: bool,
}

/// The two ends of the orders of a machine.
pub(super) fn of<E: Engine>(
    engine: Arc<E>,
    node: String,
    session: mpsc::UnboundedSender<Told>,
) -> (Orders, Reader<E>) {
    let (sends, errands) = mpsc::unbounded_channel();
    let (asks, asked) = watch::channel(0);
    let (says, current) = watch::channel(None);
    let reader = Reader {
        engine,
        node,
        errands: Errands(sends),
        session,
        messages: None,
        passed_over: PassedOver::default(),
        applied: 0,
        asked,
        current: says,
    };
    let orders = Orders {
        errands,
        asked: asks,
        current,
        taking_down: Vec::new(),
        is_paused: false,
    };
    (orders, reader)
}

impl<E: Engine> Reader<E> {
    /// What appends orders.
    pub fn scribe(&self) -> Arc<dyn Scribe> {
        Arc::new(Pen {
            engine: Arc::clone(&self.engine),
            node: self.node.clone(),
        })
    }

    /// What sends errands.
    pub fn errands(&self) -> Errands {
        self.errands.clone()
    }

    /// Has all orders applied until the node is dropped.
    pub async fn run(mut self, mut obey: impl Obey) {
        let mut failures = 0;
        while !self.current.is_closed() {
            let Err(error) = self.step(&mut obey).await else {
                failures = 0;
                continue;
            };
            // Reading ends whenever a broker does, and usually begins again at once.
            failures += 1;
            if failures == TOLD {
                tracing::warn!(
                    "the orders of the cluster cannot be read: {error}; it is tried again"
                );
            }
            self.messages = None;
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Applies what is in the log where that is asked for, and otherwise what comes next.
    async fn step(&mut self, obey: &mut impl Obey) -> Result<(), EngineError> {
        let asked = *self.asked.borrow_and_update();
        if *self.current.borrow() != Some(asked) {
            let last = self.engine.last(LOG).await?;
            let mut batch = Vec::new();
            let mut bytes = 0;
            let mut read = self.applied;
            while read < last {
                let next = timeout(PATIENCE, self.next(read)).await;
                let (number, order) = next.unwrap_or_else(|_| Err(ended()))?;
                read = number;
                if let Some((length, order)) = order {
                    bytes += length;
                    batch.push((number, order));
                }
                if bytes >= BATCH_BYTES || batch.len() >= BATCH {
                    self.apply(std::mem::take(&mut batch), read, obey).await;
                    bytes = 0;
                }
            }
            self.apply(batch, read, obey).await;
            self.current.send_replace(Some(asked));
            return Ok(());
        }
        let mut changed = self.asked.clone();
        tokio::select! {
            next = self.next(self.applied) => {
                let (number, order) = next?;
                let batch = order.map(|(_, order)| (number, order));
                self.apply(Vec::from_iter(batch), number, obey).await;
            }
            _ = changed.changed() => {}
        }
        Ok(())
    }

    async fn apply(&mut self, batch: Vec<(u64, Order)>, up_to: u64, obey: &mut impl Obey) {
        if up_to <= self.applied {
            return;
        }
        obey.obey(batch).await;
        self.applied = up_to;
        // A session that is over says nothing.
        self.session.send(Told::Applied(up_to)).ok();
    }

    /// The next message behind a number, its length and its order; none where it cannot be read.
    async fn next(&mut self, after: u64) -> Result<(u64, Option<(usize, Order)>), EngineError> {
        let messages = match &mut self.messages {
            Some(messages) => messages,
            None => {
                let opened = self.engine.read(LOG, after).await?;
                self.messages.insert(opened)
            }
        };
        let (number, message) = messages.recv().await.ok_or_else(ended)?;
        match Order::of(&message) {
            Ok(order) => Ok((number, Some((message.len(), order)))),
            Err(error) => {
                self.passed_over.note(number, &error);
                Ok((number, None))
            }
        }
    }
}

fn ended() -> EngineError {
    EngineError::Failed {
        to: "the broker".to_owned(),
        what: "reading the orders",
        why: "it has ended".to_owned(),
    }
}

impl Orders {
    /// Does what orders want of the frontier. `resumed` is when the term began that is running:
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
            match errand {
                Errand::Seeds(more) => {
                    for url in more {
                        if !seeds.contains(&url) {
                            seeds.push(url);
                        }
                    }
                    done.send(()).ok();
                }
                Errand::Pause(is_paused) => {
                    self.is_paused = is_paused;
                    done.send(()).ok();
                }
                Errand::Takedown(orders) => {
                    forbid(folder, cells, orders)?;
                    self.taking_down.push(done);
                }
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

    /// Whether all orders were applied once.
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
