//! An engine in memory that does what a test tells it: it loses, delays and refuses what it
//! is asked, goes away, and forgets. What time does to sessions is drawn in
//! [`super::session`]'s tests, which need no engine.

use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::alone::{Alone, Keys};
use super::{Change, Engine, EngineError, Entry, Question, Revision};

/// What becomes of a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is done, but the answer is lost.
    Lost,
    /// It is done when the test says so, without an answer.
    Late,
    /// It is refused without a reason.
    Refused,
}

#[derive(Default)]
pub(super) struct Told {
    keys: Alone,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_away: bool,
    /// The fates of the next swaps of keys that begin so.
    fates: Vec<(&'static str, Fate)>,
    late: Vec<(String, Vec<u8>, Option<Revision>)>,
}

impl Told {
    /// The next swaps of keys that begin so have these fates.
    pub(super) fn next_swaps(&self, prefix: &'static str, fates: impl IntoIterator<Item = Fate>) {
        let fates = fates.into_iter().map(|fate| (prefix, fate));
        self.told().fates.extend(fates);
    }

    /// Does what came too late, where it still can be done.
    pub(super) fn deliver(&self) {
        let late = std::mem::take(&mut self.told().late);
        for (key, value, was) in late {
            drop(self.keys.swap_now(&key, value, was));
        }
    }

    /// Goes away or comes back.
    pub(super) fn set_away(&self, is_away: bool) {
        self.told().is_away = is_away;
    }

    /// The keys as they are.
    pub(super) fn state(&self) -> Keys {
        self.keys.keys().clone()
    }

    /// Forgets what has changed since.
    pub(super) fn set_back(&self, state: Keys) {
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

    async fn watch(&self, prefix: &str) -> Result<mpsc::Receiver<Change>, EngineError> {
        self.is_here()?;
        self.keys.watch(prefix).await
    }

    async fn send(&self, log: &str, id: &str, message: Bytes) -> Result<(), EngineError> {
        self.keys.send(log, id, message).await
    }

    async fn read(
        &self,
        log: &str,
        after: u64,
    ) -> Result<mpsc::Receiver<(u64, Bytes)>, EngineError> {
        self.keys.read(log, after).await
    }

    async fn cut(&self, log: &str, up_to: u64) -> Result<(), EngineError> {
        self.keys.cut(log, up_to).await
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
