//! Lessons: what pages taught goes to all machines by one log, and each learns it in log order.
//!
//! ```text
//!  a page's batch --> waits in the store --> a message --> the log `lessons` --> learned
//!                         ^ deleted when acknowledged                     (by all machines)
//! ```
//!
//! The number of the last message is in the same batch as what was learned from it. So machines
//! that have read equally far rate links alike, and as one machine would that had met the pages in
//! this order. A machine that joins starts with what the last checkpoint of another has learned,
//! and reads on from there. The log is cut up to the last checkpoint but one.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use xxhash_rust::xxh3::xxh3_128;

use super::packed::{self, EnvelopeError, MessagesError};
use super::trouble::Trouble;
use super::{Engine, EngineError};
use crate::frontier::{Cells, LessonId, SharedLesson};

/// The name of the log.
const LOG: &str = "lessons";
/// The version of a message. Examples that were learned are stored in the same layout, so a change
/// of the layout needs another version.
const VERSION: u8 = 2;
/// The most lessons of a message, and the bytes above which no more are added.
const MOST_LESSONS: usize = 256;
const ENOUGH_BYTES: usize = 256 << 10;
/// The most messages that are learned at once: the crawl waits in the meantime.
const AT_A_TIME: usize = 32;
/// How long to wait before trying again after a failure, in milliseconds.
const PAUSE: u64 = 1_000;

/// The state of reading the log.
#[derive(Debug)]
enum Reader {
    /// It rests until then.
    Resting(u64),
    Opening,
    Reading(mpsc::Receiver<(u64, Bytes)>),
}

/// What the broker has answered.
#[derive(Debug)]
enum News {
    Sent(Result<(), EngineError>),
    Opened(Result<mpsc::Receiver<(u64, Bytes)>, EngineError>),
}

/// A message on its way.
#[derive(Debug)]
struct Sending {
    lessons: Vec<LessonId>,
    message: Bytes,
    /// When to send it again; `None` while it is being sent.
    again: Option<u64>,
}

/// Exchanges lessons with other machines.
///
/// Nothing blocks: [`Lessons::turn`] does what can be done now. The owner of the [`Cells`] must
/// call it again and again, within a tokio runtime.
#[derive(Debug)]
pub struct Lessons<E> {
    engine: Arc<E>,
    /// One message at a time, so that the lessons of a machine stay in order.
    sending: Option<Sending>,
    reader: Reader,
    /// How far the last two checkpoints had learned.
    committed: VecDeque<u64>,
    calls: JoinSet<Option<News>>,
    /// Reports when the broker does not answer, from time to time.
    trouble: Trouble,
}

impl<E: Engine> Lessons<E> {
    /// Makes the machine with these cells learn together with the others.
    ///
    /// # Errors
    /// [`MessagesError::Cells`] if the store fails.
    pub fn new(engine: Arc<E>, cells: &mut Cells) -> Result<Self, MessagesError> {
        cells.share_lessons()?;
        Ok(Self {
            engine,
            sending: None,
            reader: Reader::Resting(0),
            committed: VecDeque::new(),
            calls: JoinSet::new(),
            trouble: Trouble::new("lessons for other machines"),
        })
    }

    /// Does what can be done now. `now` is milliseconds since 1970.
    ///
    /// # Errors
    /// [`MessagesError`] if the store fails. It is no error if the broker does not answer: lessons
    /// wait in the store.
    pub fn turn(&mut self, cells: &mut Cells, now: u64) -> Result<(), MessagesError> {
        while let Some(done) = self.calls.try_join_next() {
            if let Ok(Some(news)) = done {
                self.hear(cells, news, now)?;
            }
        }
        self.read(cells, now)?;
        self.cut();
        self.send(cells, now)
    }

    /// A checkpoint was committed that has learned up to this message. The log is cut up to the
    /// checkpoint before it, so that a machine that has just read that one finds the messages that
    /// follow.
    pub fn committed(&mut self, learned: u64) {
        self.committed.push_back(learned);
    }

    fn cut(&mut self) {
        while self.committed.len() > 2 {
            let Some(up_to) = self.committed.pop_front().filter(|up_to| *up_to > 0) else {
                continue;
            };
            let engine = Arc::clone(&self.engine);
            self.calls.spawn(async move {
                // The next checkpoint cuts the log again.
                if let Err(error) = engine.cut(LOG, up_to).await {
                    tracing::debug!(%error, "the log of lessons is not cut");
                }
                None
            });
        }
    }

    /// Whether nothing is left to send.
    #[cfg(test)]
    fn is_idle(&self, cells: &mut Cells) -> Result<bool, MessagesError> {
        Ok(self.sending.is_none() && cells.lessons(1)?.is_empty())
    }

    fn hear(&mut self, cells: &mut Cells, news: News, now: u64) -> Result<(), MessagesError> {
        let error = match news {
            News::Sent(Ok(())) => {
                if let Some(sent) = self.sending.take() {
                    cells.forget_lessons(&sent.lessons)?;
                }
                return Ok(());
            }
            News::Opened(Ok(messages)) => {
                self.reader = Reader::Reading(messages);
                return Ok(());
            }
            News::Sent(Err(error)) => {
                if let Some(sending) = &mut self.sending {
                    sending.again = Some(now.saturating_add(PAUSE));
                }
                error
            }
            News::Opened(Err(error)) => {
                self.reader = Reader::Resting(now.saturating_add(PAUSE));
                error
            }
        };
        self.trouble.report(&error, now);
        Ok(())
    }

    /// Learns from the messages that have come.
    fn read(&mut self, cells: &mut Cells, now: u64) -> Result<(), MessagesError> {
        for _ in 0..AT_A_TIME {
            let Reader::Reading(messages) = &mut self.reader else {
                break;
            };
            match messages.try_recv() {
                Ok((place, message)) => {
                    let known = cells.learned_place()?;
                    let lost = place.saturating_sub(known.saturating_add(1));
                    if lost > 0 {
                        tracing::warn!(place, lost, "messages with lessons never came");
                    }
                    let lessons = of_message(&message).unwrap_or_else(|why| {
                        tracing::warn!(place, %why, "a message with lessons is skipped");
                        Vec::new()
                    });
                    cells.learn(place, lessons)?;
                }
                Err(mpsc::error::TryRecvError::Empty) => break,
                Err(mpsc::error::TryRecvError::Disconnected) => {
                    self.reader = Reader::Resting(now.saturating_add(PAUSE));
                }
            }
        }
        if let Reader::Resting(until) = self.reader
            && until <= now
        {
            self.reader = Reader::Opening;
            let after = cells.learned_place()?;
            let engine = Arc::clone(&self.engine);
            self.calls
                .spawn(async move { Some(News::Opened(engine.read(LOG, after).await)) });
        }
        Ok(())
    }

    /// Sends the lessons that wait.
    fn send(&mut self, cells: &mut Cells, now: u64) -> Result<(), MessagesError> {
        if self.sending.is_none() {
            let (lessons, message) = to_message(cells.lessons(MOST_LESSONS)?)?;
            self.sending = (!lessons.is_empty()).then_some(Sending {
                lessons,
                message,
                again: Some(now),
            });
        }
        let Some(sending) = &mut self.sending else {
            return Ok(());
        };
        if sending.again.is_none_or(|again| now < again) {
            return Ok(());
        }
        sending.again = None;
        let message = sending.message.clone();
        // The same lessons get the same identity, so a repeated message is stored once.
        let id = format!("{:032x}", xxh3_128(&message));
        let engine = Arc::clone(&self.engine);
        self.calls
            .spawn(async move { Some(News::Sent(engine.send(LOG, &id, message).await)) });
        Ok(())
    }
}

/// A message, and which lessons are in it: only the first ones if they are long.
fn to_message(
    lessons: Vec<(LessonId, SharedLesson)>,
) -> Result<(Vec<LessonId>, Bytes), EnvelopeError> {
    let unwritten = |why: postcard::Error| EnvelopeError::Unwritten(why.to_string());
    let mut raw = Vec::new();
    let mut ids = Vec::new();
    for (id, lesson) in lessons {
        raw = postcard::to_extend(&lesson, raw).map_err(unwritten)?;
        ids.push(id);
        if raw.len() >= ENOUGH_BYTES {
            break;
        }
    }
    Ok((ids, packed::pack(VERSION, &raw)?))
}

fn of_message(message: &[u8]) -> Result<Vec<SharedLesson>, EnvelopeError> {
    let raw = packed::unpack(VERSION, message)?;
    let mut rest = raw.as_slice();
    let mut lessons = Vec::new();
    while !rest.is_empty() {
        let (lesson, behind): (SharedLesson, _) = postcard::take_from_bytes(rest)
            .map_err(|why| EnvelopeError::Damaged(why.to_string()))?;
        if lessons.len() >= MOST_LESSONS || !lesson.is_sound() {
            let why = "a lesson has contents that no machine sends";
            return Err(EnvelopeError::Damaged(why.to_owned()));
        }
        lessons.push(lesson);
        rest = behind;
    }
    Ok(lessons)
}

#[cfg(test)]
mod tests;
