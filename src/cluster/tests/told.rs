//! An engine in memory that does what a test tells it: it loses, delays and refuses what it
//! is asked, goes away, and forgets. What time does to sessions is drawn in
//! [`super::session`]'s tests, which need no engine; what it does to links, in those of
//! [`super::links`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::alone::{Alone, Keys};
use super::{Change, Engine, EngineError, Entry, Question, Revision};

/// What becomes of a swap, or of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is done, but the answer is lost.
    Lost,
    /// It is done when the test says so, without an answer.
    Late,
    /// It is refused without a reason; a message is not stored.
    Refused,
    /// It is as it should be.
    Done,
}

/// The messages of a cell, or of anything else.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) messages: BTreeMap<u64, Bytes>,
    last: u64,
    /// Those of the last minutes.
    ids: BTreeSet<String>,
    readers: Vec<mpsc::Sender<(u64, Bytes)>>,
}

impl Log {
    /// Stores a message that is none of the last minutes.
    pub(crate) fn store(&mut self, id: &str, message: &Bytes) {
        if !self.ids.insert(id.to_owned()) {
            return;
        }
        self.last += 1;
        self.messages.insert(self.last, message.clone());
        let stored = (self.last, message.clone());
        // Who reads too slowly begins again.
        self.readers
            .retain(|reader| reader.try_send(stored.clone()).is_ok());
    }

    /// The messages behind a number.
    pub(crate) fn behind(&self, after: u64) -> Vec<(u64, Bytes)> {
        let behind = self.messages.range(after + 1..);
        behind.map(|(n, message)| (*n, message.clone())).collect()
    }

    /// Removes the messages up to a number.
    pub(crate) fn cut(&mut self, up_to: u64) {
        self.messages = self.messages.split_off(&(up_to + 1));
    }

    /// The number of the last message that was stored.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Forgets the messages behind a number, as a broker that was set back.
    pub(crate) fn set_back(&mut self, last: u64) {
        self.messages.split_off(&(last + 1));
        self.last = last;
        self.ids.clear();
    }

    /// Lets more time pass than repeated messages are known for.
    pub(crate) fn forget_ids(&mut self) {
        self.ids.clear();
    }
}

#[derive(Default)]
pub(crate) struct Told {
    keys: Alone,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_away: bool,
    /// The fates of the next swaps of keys that begin so.
    fates: Vec<(&'static str, Fate)>,
    late: Vec<(String, Vec<u8>, Option<Revision>)>,
    logs: BTreeMap<String, Log>,
    /// The fates of the next messages.
    sends: VecDeque<Fate>,
    late_sends: Vec<(String, String, Bytes)>,
}

impl Told {
    /// The next swaps of keys that begin so have these fates.
    pub(crate) fn next_swaps(&self, prefix: &'static str, fates: impl IntoIterator<Item = Fate>) {
        let fates = fates.into_iter().map(|fate| (prefix, fate));
        self.told().fates.extend(fates);
    }

    /// Does what came too late, where it still can be done.
    pub(crate) fn deliver(&self) {
        let late = std::mem::take(&mut self.told().late);
        for (key, value, was) in late {
            drop(self.keys.swap_now(&key, value, was));
        }
        let mut told = self.told();
        for (log, id, message) in std::mem::take(&mut told.late_sends) {
            told.logs.entry(log).or_default().store(&id, &message);
        }
    }

    /// The next messages have these fates.
    pub(crate) fn next_sends(&self, fates: impl IntoIterator<Item = Fate>) {
        self.told().sends.extend(fates);
    }

    /// Does something to a log.
    pub(crate) fn with_log<T>(&self, log: &str, act: impl FnOnce(&mut Log) -> T) -> T {
        act(self.told().logs.entry(log.to_owned()).or_default())
    }

    /// Ends the reading of all logs.
    pub(crate) fn end_readers(&self) {
        let mut told = self.told();
        told.logs.values_mut().for_each(|log| log.readers.clear());
    }

    /// Goes away or comes back.
    pub(crate) fn set_away(&self, is_away: bool) {
        self.told().is_away = is_away;
    }

    /// The keys as they are.
    pub(crate) fn state(&self) -> Keys {
        self.keys.keys().clone()
    }

    /// Forgets what has changed since.
    pub(crate) fn set_back(&self, state: Keys) {
        *self.keys.keys() = state;
    }

    fn told(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn is_here(&self) -> Result<(), EngineError> {
        if self.told().is_away { lost() } else { Ok(()) }
    }
}

fn lost<T>() -> Result<T, EngineError> {
    Err(EngineError::Failed {
        to: "told".to_owned(),
        what: "asking",
        why: "it was told so".to_owned(),
    })
}

impl Engine for Told {
    async fn get(&self, key: &str) -> Result<Entry, EngineError> {
        self.is_here()?;
        self.keys.get(key).await
    }

    async fn swap(
        &self,
        key: &str,
        value: Vec<u8>,
        was: Option<Revision>,
    ) -> Result<Revision, EngineError> {
        self.is_here()?;
        let fate = {
            let mut told = self.told();
            let next = told
                .fates
                .iter()
                .position(|(prefix, _)| key.starts_with(prefix));
            next.map(|next| told.fates.remove(next).1)
        };
        match fate {
            None => self.keys.swap_now(key, value, was),
            Some(Fate::Done) => self.keys.swap_now(key, value, was),
            Some(Fate::Refused) => Err(EngineError::Stale),
            Some(Fate::Lost) => {
                drop(self.keys.swap_now(key, value, was));
                lost()
            }
            Some(Fate::Late) => {
                self.told().late.push((key.to_owned(), value, was));
                lost()
            }
        }
    }

    async fn watch(&self, key: Option<&str>) -> Result<mpsc::Receiver<Change>, EngineError> {
        self.is_here()?;
        self.keys.watch(key).await
    }

    async fn send(&self, log: &str, id: &str, message: Bytes) -> Result<(), EngineError> {
        self.is_here()?;
        let mut told = self.told();
        let fate = told.sends.pop_front().unwrap_or(Fate::Done);
        match fate {
            Fate::Done | Fate::Lost => {
                let log = told.logs.entry(log.to_owned()).or_default();
                log.store(id, &message);
            }
            Fate::Late => {
                let late = (log.to_owned(), id.to_owned(), message);
                told.late_sends.push(late);
            }
            Fate::Refused => {}
        }
        if fate == Fate::Done { Ok(()) } else { lost() }
    }

    async fn read(
        &self,
        log: &str,
        after: u64,
    ) -> Result<mpsc::Receiver<(u64, Bytes)>, EngineError> {
        self.is_here()?;
        let mut told = self.told();
        let log = told.logs.entry(log.to_owned()).or_default();
        let behind = log.behind(after);
        let (sender, receiver) = mpsc::channel(behind.len() + 1_024);
        for message in behind {
            // There is room for all of them.
            drop(sender.try_send(message));
        }
        log.readers.push(sender);
        Ok(receiver)
    }

    async fn last(&self, log: &str) -> Result<u64, EngineError> {
        self.is_here()?;
        Ok(self.with_log(log, |log| log.last))
    }

    async fn cut(&self, log: &str, up_to: u64) -> Result<(), EngineError> {
        self.is_here()?;
        self.with_log(log, |log| log.cut(up_to));
        Ok(())
    }

    async fn ask(&self, subject: &str, body: Bytes) -> Result<Bytes, EngineError> {
        self.is_here()?;
        self.keys.ask(subject, body).await
    }

    async fn answer(&self, subject: &str) -> Result<mpsc::Receiver<Question>, EngineError> {
        self.is_here()?;
        self.keys.answer(subject).await
    }
}
