//! Promises to hosts, when the next request may come: sent at once to the log of the host's own
//! cell, which the next owner of the cell reads before it sends requests.
//!
//! They are not in the outbox: after a restart the machine has them in its store, and the next
//! checkpoint has them as well. Promises may come twice and in any order.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinSet;

use super::apply::UNNUMBERED;
use super::envelope::{Envelope, EnvelopeError};
use super::log_of;
use crate::frontier::{CellId, CellOffer, Cells};
use crate::{Engine, EngineError};

/// How long to wait before a message is sent again, in milliseconds.
const PAUSE: u64 = 1_000;
/// The most promises in a message, and the most messages that wait while the broker is away. The
/// oldest are dropped first: the next checkpoint has them.
const MOST_PROMISES: usize = 1_000;
const MOST_WAITING: usize = 1_000;

/// A message on its way.
#[derive(Debug)]
struct Waiting {
    to: CellId,
    message: Bytes,
    /// When to send it; `None` while it is being sent.
    due: Option<u64>,
}

/// The promises of a machine.
#[derive(Debug)]
pub(super) struct Promises {
    /// The process that makes them: a later one counts its messages from the beginning.
    process: u64,
    waiting: BTreeMap<u64, Waiting>,
    next: u64,
    calls: JoinSet<(u64, Result<(), EngineError>)>,
}

impl Promises {
    pub fn new(process: u64, cells: &mut Cells) -> Self {
        cells.tell_promises();
        Self {
            process,
            waiting: BTreeMap::new(),
            next: 0,
            calls: JoinSet::new(),
        }
    }

    /// Sends what is new and what is due again. Returns an error if something was not sent.
    pub fn turn<E: Engine>(
        &mut self,
        cells: &mut Cells,
        engine: &Arc<E>,
        now: u64,
    ) -> Result<Option<EngineError>, EnvelopeError> {
        let mut trouble = None;
        while let Some(done) = self.calls.try_join_next() {
            let Ok((number, sent)) = done else { continue };
            match sent {
                Ok(()) => drop(self.waiting.remove(&number)),
                Err(error) => {
                    trouble = Some(error);
                    if let Some(waiting) = self.waiting.get_mut(&number) {
                        waiting.due = Some(now.saturating_add(PAUSE));
                    }
                }
            }
        }
        let mut new: BTreeMap<CellId, Vec<CellOffer>> = BTreeMap::new();
        for (cell, promise) in cells.promises() {
            new.entry(cell).or_default().push(promise);
        }
        for (to, promises) in new {
            for part in promises.chunks(MOST_PROMISES) {
                self.add(to, part.to_vec(), now)?;
            }
        }
        for (number, waiting) in &mut self.waiting {
            if waiting.due.is_none_or(|due| now < due) {
                continue;
            }
            waiting.due = None;
            let (log, message) = (log_of(waiting.to), waiting.message.clone());
            // The same when it is repeated, so the message is stored once.
            let id = format!("promise.{:x}.{number}", self.process);
            let (engine, number) = (Arc::clone(engine), *number);
            self.calls
                .spawn(async move { (number, engine.send(&log, &id, message).await) });
        }
        Ok(trouble)
    }

    fn add(&mut self, to: CellId, offers: Vec<CellOffer>, now: u64) -> Result<(), EnvelopeError> {
        let envelope = Envelope {
            session: self.process,
            number: UNNUMBERED,
            offers,
        };
        let waiting = Waiting {
            to,
            message: envelope.to_message()?,
            due: Some(now),
        };
        if self.waiting.len() >= MOST_WAITING {
            self.waiting.pop_first();
        }
        self.waiting.insert(self.next, waiting);
        self.next += 1;
        Ok(())
    }
}
