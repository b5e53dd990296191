//! Connects a publisher, the readers of logs and an engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::apply::{self, Reading};
use super::cut::Cuts;
use super::envelope::EnvelopeError;
use super::open_cells::OpenCells;
use super::promises::Promises;
use super::publish::{Publisher, SOON, Sending, Setting};
use super::{AT_A_TIME, REJECTED, log_of};
use crate::frontier::store::StoreError;
use crate::frontier::{CellId, Cells, OutputEdit, Outside};
use crate::packed::MessagesError;
use crate::trouble::Trouble;
use crate::{Engine, EngineError};

/// How long to wait before a log is opened or cut again, in milliseconds.
const PAUSE: u64 = 1_000;

/// What has been done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// What was sent.
    pub sending: Sending,
    /// Offers that were added.
    pub received: u64,
    /// Messages that never came. There are none as long as the broker loses nothing.
    pub lost: u64,
    /// Messages that the broker has stored twice.
    pub repeated: u64,
    /// Messages that could not be read.
    pub rejected: u64,
}

/// Exchanges links with other machines, for the cells that are open here.
///
/// Nothing blocks: [`Links::turn`] does what can be done now. The owner of the [`Cells`] must call
/// it at least every few hundred milliseconds, within a tokio runtime.
#[derive(Debug)]
pub struct Links<E> {
    engine: Arc<E>,
    session: u64,
    linger: u64,
    reads: bool,
    publisher: Publisher,
    promises: Promises,
    /// When batches may next be made. The store is flushed before a batch is sent, so they are
    /// spaced out.
    closes: u64,
    /// When to check next what could be requested.
    compares: u64,
    cuts: Cuts,
    /// When logs may be cut next; `None` while one is being cut.
    cutting: Option<u64>,
    opened: OpenCells,
    readers: BTreeMap<CellId, Reader>,
    /// How many readers have been started.
    begun: u64,
    calls: JoinSet<Option<News>>,
    tally: Tally,
    /// How long the links in messages that the broker has stored had waited, see
    /// [`Links::take_lags`].
    lags: Vec<u64>,
    /// Reports when the broker does not answer, from time to time.
    trouble: Trouble,
}

/// What reads a log.
#[derive(Debug)]
enum Reader {
    /// It rests until then.
    Resting(u64),
    /// It is being opened, as the reader with this number.
    Opening(u64),
    Reading(mpsc::Receiver<(u64, Bytes)>),
}

/// A log that is being read, and the number of the last message that it had at the start.
type Opened = (mpsc::Receiver<(u64, Bytes)>, u64);

/// What the broker has answered.
#[derive(Debug)]
enum News {
    /// The cell, the number of the message, when its oldest link was found.
    Sent(CellId, u64, u64, Result<(), EngineError>),
    /// The cell, the number of the reader, and the log with the number of its last message.
    Opened(CellId, u64, Result<Opened, EngineError>),
    Cut(Vec<(CellId, u64)>),
}

impl<E: Engine> Links<E> {
    /// Continues where the last process with this store ended. Nothing is sent before all cells
    /// that it kept are open.
    ///
    /// # Errors
    /// [`MessagesError`] if the store has only one cell, fails, or is damaged.
    pub fn new(
        engine: Arc<E>,
        setting: Setting,
        kept: BTreeSet<CellId>,
        cells: &mut Cells,
    ) -> Result<Self, MessagesError> {
        Ok(Self {
            engine,
            session: setting.session,
            linger: setting.linger,
            reads: true,
            promises: Promises::new(setting.process, cells),
            publisher: Publisher::new(setting, &cells.outbox_notes()?)?,
            closes: 0,
            compares: 0,
            cuts: Cuts::default(),
            cutting: Some(0),
            opened: OpenCells::new(kept),
            readers: BTreeMap::new(),
            begun: 0,
            calls: JoinSet::new(),
            tally: Tally::default(),
            lags: Vec::new(),
            trouble: Trouble::new("links to other machines"),
        })
    }

    /// Does what can be done now. `now` is milliseconds since 1970.
    ///
    /// # Errors
    /// [`MessagesError`] if the store fails. It is no error if the broker does not answer: links
    /// wait in the store.
    pub fn turn<F: From<MessagesError> + From<StoreError>>(
        &mut self,
        cells: &mut Cells,
        now: u64,
        outside: &mut dyn Outside<F>,
    ) -> Result<(), F> {
        self.follow(cells, now)?;
        while let Some(done) = self.calls.try_join_next() {
            if let Ok(Some(news)) = done {
                self.hear(cells, news, now)?;
            }
        }
        if self.reads {
            self.read(cells, now, outside)?;
        }
        self.promise(cells, now).map_err(MessagesError::from)?;
        self.send(cells, now, outside)?;
        self.cut(now);
        Ok(())
    }

    /// A checkpoint with these cells was committed, each with the number up to which it had read
    /// its log. Their logs may be cut.
    pub fn committed(&mut self, cells: impl IntoIterator<Item = (CellId, u64)>) {
        self.cuts.committed(cells);
    }

    /// Sets whether batches are sent at once instead of waiting for more: before a cell is given
    /// back, and at the end.
    pub fn hurry(&mut self, hurries: bool) {
        self.publisher.hurry(hurries);
    }

    /// Stops reading logs: the cells are about to be given back, and their next owner reads on.
    pub fn stop_reading(&mut self) {
        self.reads = false;
    }

    /// Whether nothing is left to send.
    pub fn is_idle(&self, cells: &Cells) -> bool {
        self.publisher.is_idle() && cells.outbox_targets().is_empty()
    }

    /// The same, and the logs of all open cells are being read, so nothing was on its way to them a
    /// moment ago.
    pub fn is_quiet(&self, cells: &Cells) -> bool {
        let is_reading = |cell: CellId| match self.readers.get(&cell) {
            Some(Reader::Reading(messages)) => messages.is_empty() && !messages.is_closed(),
            _ => false,
        };
        self.is_idle(cells) && cells.opened().all(is_reading)
    }

    /// Whether the log of an open cell was read up to where it ended when the cell was opened.
    /// Before that, promises that others made to its hosts may be unknown.
    pub fn has_caught_up(&self, cell: CellId) -> bool {
        self.opened.has_caught_up(cell)
    }

    /// What has been done so far.
    pub fn tally(&self) -> Tally {
        Tally {
            sending: self.publisher.sending(),
            ..self.tally
        }
    }

    /// The messages that the broker has stored since the last call: for each, how long its oldest
    /// link had waited, in milliseconds.
    pub fn take_lags(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.lags)
    }

    /// Notes which cells were opened or closed.
    fn follow(&mut self, cells: &mut Cells, now: u64) -> Result<(), MessagesError> {
        let Some(changed) = self.opened.follow(cells.opened()) else {
            return Ok(());
        };
        for closed in changed.closed {
            self.publisher.forget_sender(closed);
            self.readers.remove(&closed);
        }
        let mut changes = Vec::new();
        for new in changed.opened {
            changes.extend(self.publisher.forget_target(new)?);
            self.readers.insert(new, Reader::Resting(now));
        }
        Ok(cells.change_outbox(&changes)?)
    }

    fn hear(&mut self, cells: &mut Cells, news: News, now: u64) -> Result<(), MessagesError> {
        match news {
            News::Sent(to, number, since, sent) => {
                match &sent {
                    Ok(()) => self.lags.push(now.saturating_sub(since)),
                    Err(error) => drop(self.trouble.report(error, now)),
                }
                let change = self.publisher.answer(to, number, sent.is_ok(), now)?;
                cells.change_outbox(change.as_slice())?;
            }
            News::Opened(cell, number, messages) => {
                if let Err(error) = &messages {
                    self.trouble.report(error, now);
                }
                // A cell that was closed since then has another reader, or none.
                let is_opening = |r: &&mut Reader| matches!(r, Reader::Opening(n) if *n == number);
                if let Some(reader) = self.readers.get_mut(&cell).filter(is_opening) {
                    *reader = match messages {
                        Ok((messages, last)) => {
                            self.opened.has_heard(cell, last, now);
                            Reader::Reading(messages)
                        }
                        Err(_) => Reader::Resting(now.saturating_add(PAUSE)),
                    };
                }
            }
            News::Cut(done) => {
                self.cutting = Some(now.saturating_add(PAUSE));
                done.into_iter()
                    .for_each(|(cell, sequence)| self.cuts.done(cell, sequence));
            }
        }
        Ok(())
    }

    /// Adds what has come, and opens logs that are not being read.
    fn read<F: From<MessagesError> + From<StoreError>>(
        &mut self,
        cells: &mut Cells,
        now: u64,
        outside: &mut dyn Outside<F>,
    ) -> Result<(), F> {
        let readers: Vec<CellId> = self.readers.keys().copied().collect();
        for cell in readers {
            for _ in 0..AT_A_TIME {
                let Some(Reader::Reading(messages)) = self.readers.get_mut(&cell) else {
                    break;
                };
                match messages.try_recv() {
                    Ok((sequence, message)) => {
                        self.add(cells, cell, (sequence, message), now, outside)?;
                    }
                    Err(mpsc::error::TryRecvError::Empty) => break,
                    Err(mpsc::error::TryRecvError::Disconnected) => {
                        self.readers
                            .insert(cell, Reader::Resting(now.saturating_add(PAUSE)));
                    }
                }
            }
            if let Some(Reader::Resting(until)) = self.readers.get(&cell)
                && *until <= now
            {
                self.begun += 1;
                let number = self.begun;
                self.readers.insert(cell, Reader::Opening(number));
                let after = cells.log_place(cell).map_err(MessagesError::from)?.sequence;
                let engine = Arc::clone(&self.engine);
                self.calls.spawn(async move {
                    let log = log_of(cell);
                    let opened = match engine.last(&log).await {
                        Ok(last) => engine.read(&log, after).await.map(|read| (read, last)),
                        Err(error) => Err(error),
                    };
                    // The receiver is gone at shutdown.
                    Some(News::Opened(cell, number, opened))
                });
            }
        }
        self.catch_up(cells, now)
    }

    /// Notes which logs were read far enough.
    fn catch_up<F: From<MessagesError>>(&mut self, cells: &Cells, now: u64) -> Result<(), F> {
        for cell in Vec::from_iter(self.opened.behind()) {
            if let Some(Reader::Reading(messages)) = self.readers.get(&cell) {
                let place = cells.log_place(cell).map_err(MessagesError::from)?;
                let is_all = messages.is_empty();
                self.opened.has_read(cell, place.sequence, is_all, now);
            }
        }
        Ok(())
    }

    fn add<F: From<MessagesError> + From<StoreError>>(
        &mut self,
        cells: &mut Cells,
        cell: CellId,
        (sequence, message): (u64, Bytes),
        now: u64,
        outside: &mut dyn Outside<F>,
    ) -> Result<(), F> {
        let place = cells.log_place(cell).map_err(MessagesError::from)?;
        match apply::read(&place, sequence, &message).map_err(MessagesError::from)? {
            Reading::Known => {}
            Reading::Add {
                offers,
                place,
                lost,
                is_repeated,
                from: (session, number),
            } => {
                tracing::debug!(%cell, session, number, now, "links are added");
                let amend = &mut |edits: &[OutputEdit]| outside.amend(edits);
                cells.receive(cell, &place, &offers, now, amend)?;
                self.tally.received += offers.len() as u64;
                self.tally.repeated += u64::from(is_repeated);
                self.tally.lost += lost;
                if lost > 0 {
                    tracing::warn!(%cell, sequence, lost, "messages with links never came");
                }
            }
            Reading::Reject { place, why } => {
                tracing::warn!(%cell, sequence, %why, "a message with links is put aside");
                self.tally.rejected += 1;
                let id = format!("{}.{sequence}", log_of(cell));
                let engine = Arc::clone(&self.engine);
                self.calls.spawn(async move {
                    if let Err(error) = engine.send(REJECTED, &id, message).await {
                        tracing::warn!(
                            id,
                            %error,
                            "an unreadable message could not be put aside and is lost"
                        );
                    }
                    None
                });
                let amend = &mut |edits: &[OutputEdit]| outside.amend(edits);
                cells.receive(cell, &place, &[], now, amend)?;
            }
        }
        Ok(())
    }

    /// Sends promises: the next owners of cells learn when their hosts may be contacted.
    fn promise(&mut self, cells: &mut Cells, now: u64) -> Result<(), EnvelopeError> {
        let trouble = self.promises.turn(cells, &self.engine, now)?;
        if let Some(error) = trouble {
            self.trouble.report(&error, now);
        }
        Ok(())
    }

    fn send<F: From<MessagesError>>(
        &mut self,
        cells: &mut Cells,
        now: u64,
        outside: &mut dyn Outside<F>,
    ) -> Result<(), F> {
        if !self.opened.may_send() {
            return Ok(());
        }
        if now >= self.compares {
            self.compares = now.saturating_add(self.linger / SOON);
            let leasing = Vec::from_iter(cells.leasing_cells());
            let best = cells.best_of(&leasing, now).map_err(MessagesError::from)?;
            self.publisher.set_best(best);
        }
        self.publisher
            .gather(cells, now)
            .map_err(MessagesError::from)?;
        if now >= self.closes {
            let changes = self.publisher.close(now).map_err(MessagesError::from)?;
            if !changes.is_empty() {
                self.closes = now.saturating_add(self.linger / SOON);
                cells.change_outbox(&changes).map_err(MessagesError::from)?;
                outside.sync()?;
                cells.flush_outbox().map_err(MessagesError::from)?;
            }
        }
        for post in self.publisher.due(now) {
            let (cell, number, since) = (post.to, post.number, post.since);
            tracing::debug!(%cell, session = self.session, number, since, "links are sent");
            let engine = Arc::clone(&self.engine);
            self.calls.spawn(async move {
                let sent = engine.send(&log_of(post.to), &post.id, post.message).await;
                Some(News::Sent(post.to, post.number, since, sent))
            });
        }
        Ok(())
    }

    fn cut(&mut self, now: u64) {
        let due = self.cuts.due();
        if due.is_empty() || self.cutting.is_none_or(|from| now < from) {
            return;
        }
        self.cutting = None;
        let engine = Arc::clone(&self.engine);
        self.calls.spawn(async move {
            let mut done = Vec::new();
            for (cell, sequence) in due {
                match engine.cut(&log_of(cell), sequence).await {
                    Ok(()) => done.push((cell, sequence)),
                    Err(error) => {
                        tracing::debug!(%cell, sequence, %error, "the log is cut later");
                        break;
                    }
                }
            }
            Some(News::Cut(done))
        });
    }
}
