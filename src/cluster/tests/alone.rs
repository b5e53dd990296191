//! An engine without a broker or another machine, for tests.
//!
//! Its keys are in memory, so a session lives as usual, and the machine answers its own questions.
//! There is no other machine to send to: a machine that tries to do so owns a cell that is not its
//! own, which is an error.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::versioned::Versioned;
use super::{Change, Engine, EngineError, Entry, Question, Revision};

/// The most questions that wait for an answer.
const QUESTIONS: usize = 1_024;

/// The engine.
#[derive(Debug, Default)]
pub struct Alone(Mutex<Keys>);

#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Keys {
    values: Versioned<String, Vec<u8>>,
    watches: Vec<(Option<String>, mpsc::Sender<Change>)>,
    /// Who answers for which subjects.
    answers: BTreeMap<String, mpsc::Sender<Question>>,
}

impl Alone {
    pub(super) fn keys(&self) -> MutexGuard<'_, Keys> {
        // No code that can panic runs between two writes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// [`Engine::swap`].
    pub(super) fn swap_now(
        &self,
        key: &str,
        value: Vec<u8>,
        was: Option<Revision>,
    ) -> Result<Revision, EngineError> {
        let mut keys = self.keys();
        let swapped = keys.values.swap(key.to_owned(), value.clone(), was);
        let revision = swapped.ok_or(EngineError::Stale)?;
        let change = Change::Set(key.to_owned(), value, revision);
        // A watch that is no longer read, or read too slowly, ends.
        keys.watches.retain(|(of, watcher)| {
            of.as_ref().is_some_and(|of| of != key) || watcher.try_send(change.clone()).is_ok()
        });
        Ok(revision)
    }
}

fn no_other_machine<T>(what: &'static str) -> Result<T, EngineError> {
    Err(EngineError::Failed {
        to: "this machine crawls alone".to_owned(),
        what,
        why: "there is no other machine".to_owned(),
    })
}

impl Engine for Alone {
    async fn get(&self, key: &str) -> Result<Entry, EngineError> {
        Ok(self.keys().values.get(&key.to_owned()).cloned())
    }

    async fn swap(
        &self,
        key: &str,
        value: Vec<u8>,
        was: Option<Revision>,
    ) -> Result<Revision, EngineError> {
        self.swap_now(key, value, was)
    }

    async fn watch(&self, key: Option<&str>) -> Result<mpsc::Receiver<Change>, EngineError> {
        let mut keys = self.keys();
        let found = keys.values.iter();
        let found = found.filter(|(found, _)| key.is_none_or(|key| key == *found));
        let mut changes: Vec<Change> = found
            .map(|(key, (value, revision))| Change::Set(key.clone(), value.clone(), *revision))
            .collect();
        changes.push(Change::Whole);
        let (watcher, watch) = mpsc::channel(changes.len() + 1_024);
        for change in changes {
            // There is room for all of them.
            drop(watcher.try_send(change));
        }
        keys.watches.push((key.map(str::to_owned), watcher));
        Ok(watch)
    }

    async fn send(&self, _: &str, _: &str, _: Bytes) -> Result<(), EngineError> {
        no_other_machine("sending a message")
    }

    async fn read(&self, _: &str, _: u64) -> Result<mpsc::Receiver<(u64, Bytes)>, EngineError> {
        no_other_machine("reading messages")
    }

    async fn last(&self, _: &str) -> Result<u64, EngineError> {
        Ok(0)
    }

    async fn cut(&self, _: &str, _: u64) -> Result<(), EngineError> {
        no_other_machine("removing messages")
    }

    async fn ask(&self, subject: &str, body: Bytes) -> Result<Bytes, EngineError> {
        let asked = self.keys().answers.get(subject).cloned();
        let (question, answer) = Question::new(body);
        let is_asked = asked.is_some_and(|asked| asked.try_send(question).is_ok());
        match answer.await {
            Ok(answer) if is_asked => Ok(answer),
            _ => no_other_machine("asking"),
        }
    }

    async fn answer(&self, subject: &str) -> Result<mpsc::Receiver<Question>, EngineError> {
        let (asked, questions) = mpsc::channel(QUESTIONS);
        self.keys().answers.insert(subject.to_owned(), asked);
        Ok(questions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_answers_its_own_questions() {
        let alone = Alone::default();
        assert!(alone.ask("clock", Bytes::new()).await.is_err());
        let mut questions = alone.answer("clock").await.unwrap();
        let answers = async {
            let question = questions.recv().await.unwrap();
            let twice = question.body.repeat(2);
            question.answer(twice.into());
            drop(questions.recv().await.unwrap());
        };
        let asks = async {
            let answer = alone.ask("clock", "ab".into()).await.unwrap();
            assert_eq!(answer, "abab");
            assert!(alone.ask("clock", "ab".into()).await.is_err());
        };
        tokio::join!(answers, asks);
        drop(questions);
        assert!(alone.ask("clock", "ab".into()).await.is_err());
    }
}
