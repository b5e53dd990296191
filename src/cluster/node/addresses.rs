//! The clocks of IP addresses over all machines: asked before a request is sent, and kept for the
//! addresses of this machine's own cells.
//!
//! A machine that owns the cell of an address asks itself, which is a function call. All others ask
//! it through the engine. If there is no answer, nothing is sent: the task is queued again, and the
//! frontier leases no other task for the address before it is worth asking again.
//! [`clocks`](crate::clocks) says who is given a pass, and why that is safe.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::runtime::Handle as Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::clock::{millis, now};
use crate::clocks::{PassId, PassTable, PassTimes, Query, Reply, Wish, subject_of};
use crate::crawl::pipeline::{Entry, Pass, PassGate};
use crate::frontier::{AddressClocks, CellCount, CellId};
use crate::page::Task;
use crate::{Engine, Standing};

/// A task that would wait longer is queued again, so that it takes no place that another host could
/// use.
const LONGEST_WAIT: u64 = 1_000;
/// How long a task waits for its turn in total.
const LONGEST_STAY: u64 = 5_000;
/// How long an address is not asked about after there was no answer.
const NO_ANSWER: u64 = 1_000;
/// A task is not queued again sooner, because it could be leased again at once, over and over.
const SHORTEST_STAY: Duration = Duration::from_millis(100);
/// The fraction of a pass that a call of the engine may take.
const CALL: u64 = 4;
/// A pass is renewed after this fraction of it.
const RENEW: u64 = 3;
/// How often the end of a request is reported while there is no answer.
const END_ATTEMPTS: usize = 3;
/// The pause before subscribing again to a cell's questions after a failure.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);

/// How a machine asks, and which cells it can answer for.
#[derive(Debug, Clone)]
pub struct Setting {
    /// A random number of this process.
    pub machine: u64,
    /// The cells of the cluster.
    pub cells: CellCount,
    /// How long passes last.
    pub times: PassTimes,
}

/// What is known here of the clocks of addresses. Clones share it.
pub(super) struct Addresses<E>(Arc<Shared<E>>);

struct Shared<E> {
    engine: Arc<E>,
    runtime: Runtime,
    standing: watch::Receiver<Standing>,
    setting: Setting,
    /// Counts the requests.
    numbers: AtomicU64,
    table: Mutex<PassTable>,
    /// The clocks of this machine alone, which are checked before a task is leased.
    own: AddressClocks,
    closed: watch::Sender<Closed>,
}

/// Which tasks may not wait here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Closed {
    /// Open tasks should end.
    ends: bool,
    /// The machine leaves the cluster.
    leaves: bool,
    /// These cells are being given to others, and so must become empty.
    giving: BTreeSet<CellId>,
}

/// Ends a task of the runtime when dropped.
pub(super) struct Running(JoinHandle<()>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<E> Clone for Addresses<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E: Engine> Addresses<E> {
    pub fn new(
        (engine, runtime): (Arc<E>, Runtime),
        standing: watch::Receiver<Standing>,
        setting: Setting,
        own: AddressClocks,
    ) -> Self {
        Self(Arc::new(Shared {
            engine,
            runtime,
            standing,
            numbers: AtomicU64::new(0),
            table: Mutex::new(PassTable::new(setting.times)),
            setting,
            own,
            closed: watch::Sender::default(),
        }))
    }

    /// Answers the questions of other machines until the result is dropped.
    pub fn serve(&self) -> Running {
        let own = self.clone();
        Running(self.0.runtime.spawn(async move { own.listen().await }))
    }

    /// Lets no task of these cells wait here; none at all if the machine leaves.
    pub fn release(&self, leaves: bool, giving: impl Iterator<Item = CellId>) {
        let giving: BTreeSet<CellId> = giving.collect();
        self.0.closed.send_if_modified(|closed| {
            let is_other = closed.leaves != leaves || closed.giving != giving;
            (closed.leaves, closed.giving) = (leaves, giving);
            is_other
        });
    }

    /// Subscribes to the questions about each cell that this machine owns.
    async fn listen(self) {
        let mut standing = self.0.standing.clone();
        let mut heard: BTreeMap<CellId, Running> = BTreeMap::new();
        loop {
            let cells = standing.borrow_and_update().cells.clone();
            heard.retain(|cell, task| cells.contains_key(cell) && !task.0.is_finished());
            self.0.table().keep(|cell| cells.contains_key(&cell));
            for cell in cells.into_keys() {
                let hear = || self.0.runtime.spawn(self.clone().hear(cell));
                heard.entry(cell).or_insert_with(|| Running(hear()));
            }
            tokio::select! {
                changed = standing.changed() => if changed.is_err() { return },
                () = sleep(LISTEN_AGAIN) => {}
            }
        }
    }

    async fn hear(self, cell: CellId) {
        let Ok(mut questions) = self.0.engine.answer(&subject_of(cell)).await else {
            return;
        };
        while let Some(question) = questions.recv().await {
            // If this machine no longer owns the cell, another one answers.
            let reply = Query::of(&question.body)
                .filter(|query| self.0.setting.cells.cell_of_address(query.address) == cell)
                .and_then(|query| self.0.own_reply(cell, query, now()));
            if let Some(reply) = reply {
                question.answer(reply.to_bytes());
            }
        }
    }

    /// Waits for the pass of a request.
    async fn wait(&self, task: &Task, address: IpAddr, delay: u64) -> Entry {
        let shared = &*self.0;
        let pass = PassId {
            machine: shared.setting.machine,
            number: shared.numbers.fetch_add(1, Ordering::Relaxed),
        };
        let query = Query {
            wish: Wish::Send,
            address,
            pass,
            delay,
        };
        let mut held = Held {
            addresses: self.clone(),
            query,
            asked: 0,
            reports_end: false,
        };
        let home = shared.setting.cells.cell_of(&task.host);
        let asked = tokio::select! {
            biased;
            () = shared.closed_for(home) => None,
            () = shared.term_over() => None,
            asked = shared.turn(query, &mut held.reports_end) => asked,
        };
        match asked {
            Some(asked) => {
                held.asked = asked;
                Entry::With(Box::new(held))
            }
            None => Entry::Refused,
        }
    }
}

impl<E: Engine> PassGate for Addresses<E> {
    fn enter<'a>(&'a self, task: &'a Task) -> BoxFuture<'a, Entry> {
        let delay = millis(task.booking.address_delay);
        match task.booking.address.filter(|_| delay > 0) {
            Some(address) => self.wait(task, address.to_canonical(), delay).boxed(),
            None => std::future::ready(Entry::Free).boxed(),
        }
    }

    fn close(&self, is_closed: bool) {
        self.0
            .closed
            .send_if_modified(|closed| std::mem::replace(&mut closed.ends, is_closed) != is_closed);
    }
}

impl<E: Engine> Shared<E> {
    fn table(&self) -> std::sync::MutexGuard<'_, PassTable> {
        // No code that can panic runs while the table is half changed.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This machine's answer, if it owns the cell. Both are decided by one reading of the clock,
    /// because the process may be stopped in between.
    fn own_reply(&self, cell: CellId, query: Query, now: u64) -> Option<Reply> {
        let from = {
            let standing = self.standing.borrow();
            let from = standing.cells.get(&cell).copied();
            from.filter(|_| now < standing.until)?
        };
        Some(self.table().answer(cell, from, query, now))
    }

    /// Asks the machine that answers for an address; `None` if there is no answer.
    async fn ask(&self, query: Query, now: u64) -> Option<Reply> {
        let cell = self.setting.cells.cell_of_address(query.address);
        if let Some(reply) = self.own_reply(cell, query, now) {
            return Some(reply);
        }
        let subject = subject_of(cell);
        let asked = self.engine.ask(&subject, query.to_bytes());
        let limit = Duration::from_millis(self.setting.times.pass / CALL);
        Reply::of(&timeout(limit, asked).await.ok()?.ok()?)
    }

    /// Waits for the turn of a request, and returns when the pass was asked for; `None` if it is
    /// not worth waiting. `is_given` says whether the pass may have been given.
    async fn turn(&self, query: Query, is_given: &mut bool) -> Option<u64> {
        let begun = now();
        loop {
            let asked = now();
            *is_given = true;
            let reply = self.ask(query, asked).await;
            *is_given = !matches!(reply, Some(Reply::Later(_) | Reply::Gone));
            let wait = match reply {
                Some(Reply::Go) => return Some(asked),
                Some(Reply::Later(wait)) => wait,
                Some(Reply::Gone) => return None,
                None => NO_ANSWER,
            };
            let now = now();
            // So that the frontier does not lease a task that would have to wait as well.
            let again = now.saturating_add(wait);
            self.own.put_off(query.address, again, now);
            if wait >= LONGEST_WAIT || now.saturating_sub(begun) > LONGEST_STAY {
                sleep(SHORTEST_STAY).await;
                return None;
            }
            sleep(Duration::from_millis(wait)).await;
        }
    }

    /// Returns as soon as tasks of this cell may no longer wait.
    async fn closed_for(&self, home: CellId) {
        let mut closed = self.closed.subscribe();
        let is_closed = |c: &Closed| c.ends || c.leaves || c.giving.contains(&home);
        // The sender lives as long as this.
        closed.wait_for(is_closed).await.ok();
    }

    /// Returns as soon as the term is over.
    async fn term_over(&self) {
        let mut standing = self.standing.clone();
        loop {
            let until = standing.borrow_and_update().until;
            let left = until.saturating_sub(now());
            if left == 0 {
                return;
            }
            tokio::select! {
                changed = standing.changed() => if changed.is_err() { return },
                () = sleep(Duration::from_millis(left)) => {}
            }
        }
    }

    /// Reports the end of a request to the owner.
    async fn end(&self, query: Query) {
        for _ in 0..END_ATTEMPTS {
            if self.ask(query, now()).await.is_some() {
                return;
            }
            sleep(Duration::from_millis(self.setting.times.pass / CALL)).await;
        }
    }
}

/// A pass that was asked for.
struct Held<E: Engine> {
    addresses: Addresses<E>,
    query: Query,
    /// When it was last asked for.
    asked: u64,
    /// Whether the owner is informed when this is dropped.
    reports_end: bool,
}

impl<E: Engine> Held<E> {
    async fn renew(&mut self) {
        let shared = &*self.addresses.0;
        let length = shared.setting.times.pass;
        let query = Query {
            wish: Wish::GoOn,
            ..self.query
        };
        loop {
            let until = self.asked.saturating_add(length);
            let due = self.asked.saturating_add(length / RENEW);
            sleep(Duration::from_millis(due.saturating_sub(now()))).await;
            loop {
                let asked = now();
                if asked >= until {
                    return;
                }
                let left = Duration::from_millis(until - asked);
                match timeout(left, shared.ask(query, asked)).await {
                    Ok(Some(Reply::Go)) => {
                        self.asked = asked;
                        break;
                    }
                    Ok(Some(Reply::Gone)) | Err(_) => return,
                    Ok(Some(Reply::Later(_)) | None) => {
                        let pause = Duration::from_millis(length / (4 * CALL));
                        sleep(pause.min(left)).await;
                    }
                }
            }
        }
    }
}

impl<E: Engine> Pass for Held<E> {
    fn lost(&mut self) -> BoxFuture<'_, ()> {
        async {
            self.renew().await;
            // The connection is cut, but it is not known how much of the request the host has
            // received. The owner waits until the pass has expired.
            self.reports_end = false;
            let address = self.query.address;
            tracing::debug!(%address, "the pass of an address was lost");
        }
        .boxed()
    }
}

impl<E: Engine> Drop for Held<E> {
    fn drop(&mut self) {
        if !self.reports_end {
            return;
        }
        let query = Query {
            wish: Wish::End,
            ..self.query
        };
        let shared = Arc::clone(&self.addresses.0);
        let cell = shared.setting.cells.cell_of_address(query.address);
        let now = now();
        let due = now.saturating_add(query.delay);
        shared.own.put_off(query.address, due, now);
        if shared.own_reply(cell, query, now).is_none() {
            let runtime = shared.runtime.clone();
            runtime.spawn(async move { shared.end(query).await });
        }
    }
}

#[cfg(test)]
mod tests;
