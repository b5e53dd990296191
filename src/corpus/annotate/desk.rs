//! The board and the record behind one lock: what is asked, answered and taken back.
//! Everything here blocks, on the disk for one.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::Serialize;

use super::AnnotateError;
use super::board::{Board, Item, Next, Verdict};
use super::sample::{self, Entry, SampleError};
use super::votes::{Question, Record, TEXT_CLASSES, Vote, VotesError};
use super::words::{self, Words};
use crate::config::{Annotate, Config};
use crate::fs::beneath;
use crate::outputs::{self, SampleLock, Sidecar};
use crate::picture::thumbnail;

/// The longest side of a picture that is judged, in pixels.
const SIDE: u32 = 1280;

/// Keywords by which the topic is described.
const MAX_KEYWORDS: usize = 8;

/// The longest name of an annotator, in characters.
const MAX_NAME: usize = 40;

/// What an annotator is to do; the answer to most requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Turn {
    /// Whether there is a question.
    pub state: State,
    /// The question, where there is one.
    #[serde(flatten)]
    pub ask: Option<Ask>,
    /// How many images they have judged; in the second phase, how many texts.
    pub own: usize,
    /// How much of all votes of this phase is given, in percent.
    pub percent: usize,
    /// Whether there is an answer of theirs to undo.
    pub undo: bool,
}

/// Whether there is a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// There is.
    Ask,
    /// Not now; others have what is left on their screens.
    Wait,
    /// All is done.
    Done,
    /// They missed too many gold questions.
    Retired,
}

/// A question about an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ask {
    /// What is asked.
    pub question: Question,
    /// SHA-256 of the image.
    pub image: String,
    /// Its width in pixels.
    pub width: u32,
    /// Its height in pixels.
    pub height: u32,
    /// What they said of the image, where its words are asked about.
    pub answered: Option<String>,
    /// The words around it; none where the image is judged alone.
    pub words: Vec<Words>,
    /// Where the image came from, likewise.
    pub url: Option<String>,
    /// The page that embeds it, likewise.
    pub page: Option<String>,
}

/// Why a request is not fulfilled.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It makes no sense.
    #[error("{0}")]
    Wrong(String),
    /// The answer is not wanted any more.
    #[error("that question is answered by now, or was yours no longer; here is the next")]
    Late,
    /// The record cannot be written; the vote does not count.
    #[error("the vote was not kept: {0}")]
    Votes(#[from] VotesError),
}

/// Everything that the page asks for. One process at a time has the desk of a job.
pub struct Desk {
    inner: Mutex<Inner>,
    entries: HashMap<String, Entry>,
    folder: PathBuf,
    job: String,
    /// What the topic is about, in its own words, the most telling first.
    topic: Vec<String>,
    section: Annotate,
    /// What is on a screen is not removed.
    _samples: SampleLock,
}

struct Inner {
    board: Board,
    record: Record,
}

impl Desk {
    /// Opens the record of a job, and fixes the sample or goes on with it: the `top`
    /// best images, or all.
    ///
    /// # Errors
    /// [`AnnotateError`] names the file.
    pub fn open(config: &Config, top: Option<NonZeroUsize>) -> Result<Self, AnnotateError> {
        let folder = config.job_folder();
        if !folder.join("images").is_dir() {
            return Err(SampleError::Empty(folder).into());
        }
        let samples = outputs::read_samples(&folder)?;
        // It is the lock on the sample as well.
        let (record, votes) = Record::open(&folder)?;
        let mut entries = sample::fix(config, top)?;
        sample::add_gold(&mut entries, &folder, &config.annotate)?;
        let items = entries.iter().map(|entry| Item {
            sha256: entry.sha256.clone(),
            gold: entry.gold.clone(),
        });
        let board = Board::new(&config.annotate, items.collect(), votes);
        Ok(Self {
            inner: Mutex::new(Inner { board, record }),
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

    /// The same, which says what the topic is about: its keywords, best first.
    #[must_use]
    pub fn about(self, keywords: impl IntoIterator<Item = String>) -> Self {
        let topic = keywords.into_iter().take(MAX_KEYWORDS).collect();
        Self { topic, ..self }
    }

    /// What the topic is about.
    pub fn topic(&self) -> &[String] {
        &self.topic
    }

    /// How many images there are to ask about, gold questions included.
    pub fn images(&self) -> usize {
        self.entries.len()
    }

    /// The name of the job.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// What is asked, as the job says.
    pub fn section(&self) -> &Annotate {
        &self.section
    }

    /// What `who` is to do now.
    ///
    /// # Errors
    /// [`Refusal::Wrong`] where that is no name.
    pub fn next(&self, who: &str) -> Result<Turn, Refusal> {
        let who = name(who)?;
        Ok(self.turn(&who, self.lock()))
    }

    /// Takes an answer, and returns what comes next when it is on the disk. The same
    /// answer given twice counts once.
    ///
    /// # Errors
    /// [`Refusal`]; the vote does not count then.
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
            return Err(Refusal::Wrong(format!("{answer:?} is no answer to this")));
        }
        let mut inner = self.lock();
        let Inner { board, record } = &mut *inner;
        let entry = self.entries.get(image);
        let (Some(entry), Some(item)) = (entry, board.find(image)) else {
            return Err(Refusal::Wrong(format!("{image:?} is no image to judge")));
        };
        match board.judge(&who, item, question, answer, Instant::now()) {
            Verdict::Known => {}
            Verdict::Refuse => return Err(Refusal::Late),
            Verdict::Take => {
                let vote = record.vote(Vote {
                    vote: 0,
                    time: String::new(),
                    annotator: who.clone(),
                    image: image.to_owned(),
                    url: entry.url.clone(),
                    question,
                    answer: answer.to_owned(),
                    gold: board.gold(item, question).map(str::to_owned),
                })?;
                board.add(vote);
            }
        }
        Ok(self.turn(&who, inner))
    }

    /// Takes the last answer of `who` back and asks again.
    ///
    /// # Errors
    /// [`Refusal`]; the answer counts as before then.
    pub fn undo(&self, who: &str) -> Result<Turn, Refusal> {
        let who = name(who)?;
        let mut inner = self.lock();
        let Inner { board, record } = &mut *inner;
        let Some(last) = board.last_of(&who).cloned() else {
            return Err(Refusal::Wrong("there is nothing to undo".to_owned()));
        };
        record.undo(&last)?;
        board.take_back(last.vote, Instant::now());
        Ok(self.turn(&who, inner))
    }

    /// The picture of an image as a JPEG; `None` where it is none to judge, or cannot
    /// be decoded.
    pub fn picture(&self, sha256: &str) -> Option<Vec<u8>> {
        let entry = self.entries.get(sha256)?;
        thumbnail(&beneath::read(&self.folder, &entry.file).ok()?, SIDE)
    }

    fn turn(&self, who: &str, mut inner: MutexGuard<'_, Inner>) -> Turn {
        let board = &mut inner.board;
        let (state, ask) = loop {
            match board.next(who, Instant::now()) {
                Next::Wait => break (State::Wait, None),
                Next::Done => break (State::Done, None),
                Next::Retired => break (State::Retired, None),
                Next::Ask(item, question) => match self.ask(board, who, item, question) {
                    Some(ask) => break (State::Ask, Some(ask)),
                    // Taken down, or moved away.
                    None => board.lose(item),
                },
            }
        };
        let phase = match &ask {
            Some(ask) if self.section.two_phase => ask.question,
            _ => Question::Image,
        };
        Turn {
            state,
            ask,
            own: board.own(who, phase),
            percent: board.percent(phase),
            undo: board.last_of(who).is_some(),
        }
    }

    /// The question with all that it shows; `None` where the image is not there.
    fn ask(&self, board: &Board, who: &str, at: usize, question: Question) -> Option<Ask> {
        let image = board.item(at)?.sha256.clone();
        let entry = self.entries.get(&image)?;
        let sidecar = Sidecar::load(&self.folder, &entry.file).ok()?;
        if sidecar.sha256() != image || !beneath::is_file(&self.folder, &entry.file) {
            return None;
        }
        let alone = self.section.two_phase && question == Question::Image;
        let contexts = sidecar.contexts();
        let context = contexts.iter().find(|c| c.page.as_str() == entry.page);
        let context = context.or(contexts.first()).filter(|_| !alone);
        let answered = board.answer_of(who, at, Question::Image);
        Some(Ask {
            question,
            width: sidecar.info().width,
            height: sidecar.info().height,
            answered: answered.map(str::to_owned),
            words: context.map(words::of).unwrap_or_default(),
            url: (!alone).then(|| entry.url.clone()),
            page: context.map(|c| c.page.as_str().to_owned()),
            image,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // What a panic left is a board between two votes; the record is on the disk.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A name as it is recorded.
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
