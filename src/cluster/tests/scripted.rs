//! An engine in memory that follows a test's script: it loses, delays and refuses calls, goes away,
//! and forgets. What time does to sessions is drawn from seeds in the tests of [`super::session`],
//! which need no engine; what it does to links, in those of [`super::links`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::alone::{Alone, Keys};
use super::{Change, Engine, EngineError, Entry, Question, Revision};

/// What happens to a swap, or to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It takes effect, but the answer is lost.
    Lost,
    /// It takes effect when the test says so, without an answer.
    Late,
    /// It is refused without a reason; a message is not stored.
    Refused,
    /// It succeeds.
    Done,
}

/// The messages of a cell's log, or of any other log.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) messages: BTreeMap<u64, Bytes>,
    last: u64,
    /// The identities of messages from the last minutes.
    ids: BTreeSet<String>,
    readers: Vec<mpsc::Sender<(u64, Bytes)>>,
}

impl Log {
    /// Stores a message, unless its identity was used in the last minutes.
    pub(crate) fn store(&mut self, id: &str, message: &Bytes) {
        if !self.ids.insert(id.to_owned()) {
            return;
        }
        self.last += 1;
        self.messages.insert(self.last, message.clone());
        let stored = (self.last, message.clone());
        // A reader that is too slow starts again.
        self.readers
            .retain(|reader| reader.try_send(stored.clone()).is_ok());
    }

    /// The messages after a number.
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

    /// Forgets the messages after a number, like a broker that was set back.
    pub(crate) fn set_back(&mut self, last: u64) {
        self.messages.split_off(&(last + 1));
        self.last = last;
        self.ids.clear();
    }

    /// Lets enough time pass for the identities of messages to be forgotten.
    pub(crate) fn forget_ids(&mut self) {
        self.ids.clear();
    }
}

#[derive(Default)]
pub(crate) struct Scripted {
    keys: Alone,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_away: bool,
    /// The fates of the next swaps of keys with these prefixes.
    fates: Vec<(&'static str, Fate)>,
    late: Vec<(String, Vec<u8>, Option<Revision>)>,
    logs: BTreeMap<String, Log>,
    /// The fates of the next messages.
    sends: VecDeque<Fate>,
    late_sends: Vec<(String, String, Bytes)>,
}

impl Scripted {
    /// Sets the fates of the next swaps of keys with this prefix.
    pub(crate) fn next_swaps(&self, prefix: &'static str, fates: impl IntoIterator<Item = Fate>) {
        let fates = fates.into_iter().map(|fate| (prefix, fate));
        self.state_now().fates.extend(fates);
    }

    /// Applies late calls, if they still can take effect.
    pub(crate) fn deliver(&self) {
        let late = std::mem::take(&mut self.state_now().late);
        for (key, value, was) in late {
            drop(self.keys.swap_now(&key, value, was));
        }
        let mut state = self.state_now();
        for (log, id, message) in std::mem::take(&mut state.late_sends) {
            state.logs.entry(log).or_default().store(&id, &message);
        }
    }

    /// Sets the fates of the next messages.
    pub(crate) fn next_sends(&self, fates: impl IntoIterator<Item = Fate>) {
        self.state_now().sends.extend(fates);
    }

    /// Acts on a log.
    pub(crate) fn with_log<T>(&self, log: &str, act: impl FnOnce(&mut Log) -> T) -> T {
        act(self.state_now().logs.entry(log.to_owned()).or_default())
    }

    /// Ends all readers of logs.
    pub(crate) fn end_readers(&self) {
        let mut state = self.state_now();
        state.logs.values_mut().for_each(|log| log.readers.clear());
    }

    /// Makes the engine go away or come back.
    pub(crate) fn set_away(&self, is_away: bool) {
        self.state_now().is_away = is_away;
    }

    /// A copy of the keys.
    pub(crate) fn state(&self) -> Keys {
        self.keys.keys().clone()
    }

    /// Restores such a copy, so that later changes are forgotten.
    pub(crate) fn set_back(&self, state: Keys) {
        *self.keys.keys() = state;
    }

    fn state_now(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn is_here(&self) -> Result<(), EngineError> {
        if self.state_now().is_away {
            lost()
        } else {
            Ok(())
        }
    }
}

fn lost<T>() -> Result<T, EngineError> {
    Err(EngineError::Failed {
        to: "scripted".to_owned(),
        what: "asking",
        why: "the test says so".to_owned(),
    })
}

impl Engine for Scripted {
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
            let mut state = self.state_now();
            let next = state
                .fates
                .iter()
                .position(|(prefix, _)| key.starts_with(prefix));
            next.map(|next| state.fates.remove(next).1)
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
                self.state_now().late.push((key.to_owned(), value, was));
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
        let mut state = self.state_now();
        let fate = state.sends.pop_front().unwrap_or(Fate::Done);
        match fate {
            Fate::Done | Fate::Lost => {
                let log = state.logs.entry(log.to_owned()).or_default();
                log.store(id, &message);
            }
            Fate::Late => {
                let late = (log.to_owned(), id.to_owned(), message);
                state.late_sends.push(late);
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
        let mut state = self.state_now();
        let log = state.logs.entry(log.to_owned()).or_default();
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
