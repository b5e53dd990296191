//! An annotation session: assignment and record of votes behind one lock. Everything here
//! may block, for example on the disk.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::Serialize;

use super::assignment::{AnswerHandling, Assignment, NextQuestion, OpenImage};
use super::context::{self, Words};
use super::sample::{self, SampleImage};
use super::votes::{Question, TEXT_CLASSES, Vote, VoteRecord};
use crate::fs::beneath;
use crate::outputs::picture::thumbnail;
use crate::outputs::{self, SampleLock, Sidecar};
use crate::settings::Annotate;
use crate::settings::JobSettings;
use crate::tool_error::ToolError;

/// The longest side of a picture that is judged, in pixels.
const SIDE: u32 = 1280;

/// The most keywords that describe the topic.
const MAX_KEYWORDS: usize = 8;

/// The longest name of an annotator, in characters.
const MAX_NAME: usize = 40;

/// What an annotator has to do next; the response to most requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Turn {
    /// Whether there is a question.
    pub state: TurnState,
    /// The question, if there is one.
    #[serde(flatten)]
    pub ask: Option<Ask>,
    /// How many images they have judged; in the second phase, how many texts.
    pub own: usize,
    /// The share of all votes of this phase that are given, in percent.
    pub percent: usize,
    /// Whether they have an answer to undo.
    pub undo: bool,
}

/// Whether there is a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TurnState {
    /// There is a question.
    Ask,
    /// Not now: the remaining questions are on other screens.
    Wait,
    /// Everything is answered.
    Done,
    /// They failed too many gold questions.
    Retired,
}

/// A question about an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ask {
    /// The kind of question.
    pub question: Question,
    /// SHA-256 of the image.
    pub image: String,
    /// Its width in pixels.
    pub width: u32,
    /// Its height in pixels.
    pub height: u32,
    /// Their answer about the image, in a question about its words.
    pub answered: Option<String>,
    /// The words around it; empty if the image is judged alone.
    pub words: Vec<Words>,
    /// The address of the image; absent if it is judged alone.
    pub url: Option<String>,
    /// The page that embeds it; absent if the image is judged alone.
    pub page: Option<String>,
}

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It is invalid.
    #[error("{0}")]
    Wrong(String),
    /// The answer is no longer needed.
    #[error("that question has been answered, or was no longer yours; here is the next")]
    Late,
    /// The record cannot be written; the vote does not count.
    #[error("the vote was not kept: {0}")]
    Votes(#[from] ToolError),
}

/// The state behind the page. Only one process at a time may open the session of a job.
pub struct Session {
    inner: Mutex<SessionInner>,
    entries: HashMap<String, SampleImage>,
    folder: PathBuf,
    job: String,
    /// Keywords of the topic, the most typical first.
    topic: Vec<String>,
    section: Annotate,
    /// Displayed images must not be removed.
    _samples: SampleLock,
}

struct SessionInner {
    assignment: Assignment,
    record: VoteRecord,
}

impl Session {
    /// Opens the record of a job, and creates or continues its sample: the `top` best
    /// images, or all.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the file.
    pub fn open(config: &JobSettings, top: Option<NonZeroUsize>) -> Result<Self, ToolError> {
        let folder = config.job_folder();
        if !folder.join("images").is_dir() {
            return Err(sample::no_images(&folder));
        }
        let samples = outputs::read_samples(&folder)?;
        // It also serves as the lock on the sample.
        let (record, votes) = VoteRecord::open(&folder)?;
        let mut entries = sample::fix(config, top)?;
        sample::add_gold(&mut entries, &folder, &config.annotate)?;
        let items = entries.iter().map(|entry| OpenImage {
            sha256: entry.sha256.clone(),
            gold: entry.gold.clone(),
        });
        let assignment = Assignment::new(&config.annotate, items.collect(), votes);
        Ok(Self {
            inner: Mutex::new(SessionInner { assignment, record }),
            entries: entries
                .into_iter()
                .map(|entry| (entry.sha256.clone(), entry))
                .collect(),
            folder,
            job: config.job.name.as_str().to_owned(),
            topic: Vec::new(),
            section: config.annotate.clone(),
            _samples: samples,
        })
    }

    /// Sets the keywords of the topic, best first.
    #[must_use]
    pub fn about(self, keywords: impl IntoIterator<Item = String>) -> Self {
        let topic = keywords.into_iter().take(MAX_KEYWORDS).collect();
        Self { topic, ..self }
    }

    /// The keywords of the topic.
    pub fn topic(&self) -> &[String] {
        &self.topic
    }

    /// The number of images, including gold questions.
    pub fn images(&self) -> usize {
        self.entries.len()
    }

    /// The name of the job.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// The questions, as configured.
    pub fn section(&self) -> &Annotate {
        &self.section
    }

    /// The next step for `who`.
    ///
    /// # Errors
    ///
    /// [`Refusal::Wrong`] if that is not a valid name.
    pub fn next(&self, who: &str) -> Result<Turn, Refusal> {
        let who = name(who)?;
        Ok(self.turn(&who, self.lock()))
    }

    /// Records an answer, and returns the next step when it is on the disk. The same
    /// answer given twice counts once.
    ///
    /// # Errors
    ///
    /// [`Refusal`]; then the vote does not count.
    pub fn vote(
        &self,
        who: &str,
        image: &str,
        question: Question,
        answer: &str,
    ) -> Result<Turn, Refusal> {
        let who = name(who)?;
        let known = match question {
            Question::Image => self.section.classes.iter().any(|c| c.as_str() == answer),
            Question::Text => TEXT_CLASSES.contains(&answer),
        };
        if !known {
            return Err(Refusal::Wrong(format!(
                "{answer:?} is not an answer to this question"
            )));
        }
        let mut inner = self.lock();
        let SessionInner { assignment, record } = &mut *inner;
        let entry = self.entries.get(image);
        let (Some(entry), Some(item)) = (entry, assignment.find(image)) else {
            return Err(Refusal::Wrong(format!(
                "{image:?} is not an image of the sample"
            )));
        };
        match assignment.judge(&who, item, question, answer, Instant::now()) {
            AnswerHandling::Known => {}
            AnswerHandling::Refuse => return Err(Refusal::Late),
            AnswerHandling::Take => {
                let vote = record.vote(Vote {
                    vote: 0,
                    time: String::new(),
                    annotator: who.clone(),
                    image: image.to_owned(),
                    url: entry.url.clone(),
                    question,
                    answer: answer.to_owned(),
                    gold: assignment.gold(item, question).map(str::to_owned),
                })?;
                assignment.add(vote);
            }
        }
        Ok(self.turn(&who, inner))
    }

    /// Undoes the last answer of `who` and asks again.
    ///
    /// # Errors
    ///
    /// [`Refusal`]; then the answer still counts.
    pub fn undo(&self, who: &str) -> Result<Turn, Refusal> {
        let who = name(who)?;
        let mut inner = self.lock();
        let SessionInner { assignment, record } = &mut *inner;
        let Some(last) = assignment.last_of(&who).cloned() else {
            return Err(Refusal::Wrong("there is nothing to undo".to_owned()));
        };
        record.undo(&last)?;
        assignment.take_back(last.vote, Instant::now());
        Ok(self.turn(&who, inner))
    }

    /// The picture of an image as a JPEG; `None` if it is not in the sample, or cannot be
    /// decoded.
    pub fn picture(&self, sha256: &str) -> Option<Vec<u8>> {
        let entry = self.entries.get(sha256)?;
        thumbnail(&beneath::read(&self.folder, &entry.file).ok()?, SIDE)
    }

    fn turn(&self, who: &str, mut inner: MutexGuard<'_, SessionInner>) -> Turn {
        let assignment = &mut inner.assignment;
        let (state, ask) = loop {
            match assignment.next(who, Instant::now()) {
                NextQuestion::Wait => break (TurnState::Wait, None),
                NextQuestion::Done => break (TurnState::Done, None),
                NextQuestion::Retired => break (TurnState::Retired, None),
                NextQuestion::Ask(item, question) => {
                    match self.ask(assignment, who, item, question) {
                        Some(ask) => break (TurnState::Ask, Some(ask)),
                        // Taken down, or moved away.
                        None => assignment.lose(item),
                    }
                }
            }
        };
        let phase = match &ask {
            Some(ask) if self.section.two_phase => ask.question,
            _ => Question::Image,
        };
        Turn {
            state,
            ask,
            own: assignment.own(who, phase),
            percent: assignment.percent(phase),
            undo: assignment.last_of(who).is_some(),
        }
    }

    /// The question with everything it shows; `None` if the image is gone.
    fn ask(
        &self,
        assignment: &Assignment,
        who: &str,
        at: usize,
        question: Question,
    ) -> Option<Ask> {
        let image = assignment.item(at)?.sha256.clone();
        let entry = self.entries.get(&image)?;
        let sidecar = Sidecar::load(&self.folder, &entry.file).ok()?;
        if sidecar.sha256() != image || !beneath::is_file(&self.folder, &entry.file) {
            return None;
        }
        let alone = self.section.two_phase && question == Question::Image;
        let contexts = sidecar.contexts();
        let context = contexts.iter().find(|c| c.page.as_str() == entry.page);
        let context = context.or(contexts.first()).filter(|_| !alone);
        let answered = assignment.answer_of(who, at, Question::Image);
        Some(Ask {
            question,
            width: sidecar.info().width,
            height: sidecar.info().height,
            answered: answered.map(str::to_owned),
            words: context.map(context::of).unwrap_or_default(),
            url: (!alone).then(|| entry.url.clone()),
            page: context.map(|c| c.page.as_str().to_owned()),
            image,
        })
    }

    fn lock(&self) -> MutexGuard<'_, SessionInner> {
        // A panic leaves the assignment between two votes; the record is on the disk.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A name in the form in which it is recorded.
fn name(text: &str) -> Result<String, Refusal> {
    let text = text.trim();
    let length = text.chars().count();
    if (1..=MAX_NAME).contains(&length) && !text.chars().any(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err(Refusal::Wrong(format!(
            "a name has 1 to {MAX_NAME} characters on one line"
        )))
    }
}
