//! The three passes over the documents that the parent module describes.

use std::path::Path;

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::super::place::Place;
use super::super::{ExportError, MARK};
use super::card::Tally;
use super::columns::{self, Sample};
use super::copies::{Copies, Found};
use super::paragraphs::{Counter, Repeated};
use super::removed::{Left, Measure, Removed, Step};
use super::spool::Spool;
use super::{TextRequest, TextStep, write};
use crate::address::PageUrl;
use crate::fs::IoError;
use crate::language::Language;
use crate::outputs::{self, Document};
use crate::progress::Step as Progress;
use crate::words;

/// Which line is the newest of each address.
pub(super) struct Survey {
    pub(super) read: u64,
    pub(super) damaged: u64,
    /// By the hash of an address, the number of its last line.
    pub(super) newest: FxHashMap<u64, u64>,
}

impl Survey {
    pub(super) fn of(folder: &Path) -> Result<Self, ExportError> {
        let mut found = Self {
            read: 0,
            damaged: 0,
            newest: FxHashMap::default(),
        };
        let mut progress = Progress::begin("counting documents", None);
        for item in outputs::documents(folder)? {
            match item {
                Ok(document) => {
                    found.newest.insert(print(&document), found.read);
                }
                Err(error) => {
                    tracing::warn!("left out: {error}");
                    found.damaged += 1;
                }
            }
            found.read += 1;
            progress.reach(found.read);
        }
        Ok(found)
    }

    /// The documents of the survey with their numbers. Documents that a crawl has added
    /// since are left for the next export.
    fn documents(
        &self,
        folder: &Path,
    ) -> Result<impl Iterator<Item = (u64, Document)> + use<>, ExportError> {
        let items = (0..self.read).zip(outputs::documents(folder)?);
        Ok(items.filter_map(|(number, item)| Some((number, item.ok()?))))
    }
}

fn print(document: &Document) -> u64 {
    xxh3_64(document.url.as_bytes())
}

/// The result of the second pass.
pub(super) struct Chosen {
    /// By the hash of a text, the first document that has it.
    firsts: FxHashMap<(u64, u64), First>,
    urls: Spool,
    counter: Counter,
}

/// The first document with a text: its number, and the position of its address.
#[derive(Clone, Copy)]
struct First {
    number: u64,
    url: Name,
}

/// An address in the spool.
type Name = (u64, u32);

/// An export in progress.
pub(super) struct Work<'a> {
    source: &'a Path,
    request: &'a TextRequest<'a>,
    pub(super) place: Place,
    pub(super) survey: Survey,
    /// Documents left out, by step.
    counts: [u64; Step::ALL.len()],
}

impl<'a> Work<'a> {
    /// For the documents in the folder `source`, to be written to `place`.
    pub(super) fn new(
        source: &'a Path,
        request: &'a TextRequest<'a>,
        place: Place,
        survey: Survey,
    ) -> Self {
        Self {
            source,
            request,
            place,
            survey,
            counts: [0; Step::ALL.len()],
        }
    }

    /// Chooses the newest and wanted documents that are not exact copies.
    pub(super) fn choose(&mut self, removed: &mut Removed) -> Result<Chosen, ExportError> {
        let folder = self.place.path().to_owned();
        let counter = Counter::create(&folder).map_err(IoError::at(&folder, "creating"))?;
        let urls =
            Spool::create(&folder.join(".addresses")).map_err(IoError::at(&folder, "creating"))?;
        let mut chosen = Chosen {
            firsts: FxHashMap::default(),
            urls,
            counter,
        };
        let all = Some(self.survey.read);
        let mut progress = Progress::begin("choosing documents", all);
        for (number, document) in self.survey.documents(self.source)? {
            progress.reach(number + 1);
            if let Some(left) = self.refused(number, &document) {
                self.leave_out(removed, &left.1, left.0)?;
                continue;
            }
            let key = text_key(&document.text);
            if let Some(first) = chosen.firsts.get(&key) {
                let url =
                    name(&mut chosen.urls, first.url).map_err(IoError::at(&folder, "reading"))?;
                let left = Left::new(
                    Step::ExactCopy,
                    &document,
                    Measure::Number(1.0),
                    Measure::None,
                );
                self.leave_out(removed, &left.of(&url), Step::ExactCopy)?;
                continue;
            }
            let written = chosen.urls.append(document.url.as_bytes());
            let at = written.map_err(IoError::at(&folder, "writing"))?;
            let length = u32::try_from(document.url.len()).unwrap_or(u32::MAX);
            let url = (at, length);
            chosen.firsts.insert(key, First { number, url });
            if !self.request.keep_repeated {
                let counted = chosen.counter.add(&host(&document.url), &document.text);
                counted.map_err(IoError::at(&folder, "writing"))?;
            }
        }
        Ok(chosen)
    }

    /// Why a document is not wanted, independent of others.
    fn refused<'d>(&self, number: u64, document: &'d Document) -> Option<(Step, Left<'d>)> {
        let left = |step, value, bound| Some((step, Left::new(step, document, value, bound)));
        if self.survey.newest.get(&print(document)) != Some(&number) {
            return left(Step::OlderVisit, Measure::None, Measure::None);
        }
        let languages = &self.request.languages;
        let language = document.language.as_deref();
        if !languages.is_empty() && !languages.iter().any(|l| Some(l.code()) == language) {
            let value = language.map_or(Measure::None, |l| Measure::Text(l.to_owned()));
            return left(Step::Language, value, Measure::Text(codes(languages)));
        }
        if let Some(least) = self.request.min_on_topic
            && document.on_topic.is_none_or(|on_topic| on_topic < least)
        {
            let value = document.on_topic.map_or(Measure::None, Measure::Number);
            return left(Step::OnTopic, value, Measure::Number(least));
        }
        None
    }

    /// Removes repeated paragraphs, leaves out short documents and near copies, and writes
    /// the rest.
    pub(super) fn write(
        &mut self,
        chosen: Chosen,
        removed: &mut Removed,
    ) -> Result<(Tally, u32, Repeated), ExportError> {
        let folder = self.place.path().to_owned();
        let Chosen {
            firsts,
            mut urls,
            counter,
        } = chosen;
        let mut repeated = counter.finish().map_err(IoError::at(&folder, "reading"))?;
        let made = Copies::create(&folder.join(".shingles"), self.request.near);
        let mut copies = made.map_err(IoError::at(&folder, "creating"))?;
        // By their numbers in `copies`.
        let mut names: Vec<Name> = Vec::new();
        let columns = columns::columns();
        let mut writer = write::writer(self.request, &folder, &columns)?;
        let mut tally = Tally::default();
        let all = Some(self.survey.read);
        let mut progress = Progress::begin("writing documents", all);
        for (number, document) in self.survey.documents(self.source)? {
            progress.reach(number + 1);
            let first = firsts.get(&text_key(&document.text));
            let Some(first) = first.filter(|first| first.number == number) else {
                continue;
            };
            let host = host(&document.url);
            let shorter = repeated.without(&host, &document.text);
            let (text, words, lost) = match &shorter {
                Some((text, lost)) => (text.as_str(), words::count(text), *lost),
                None => (document.text.as_str(), document.words, 0),
            };
            tally.shortened += u64::from(lost > 0);
            let least = self.request.min_words.max(1);
            if words < least {
                let (value, bound) = (f64::from(words), f64::from(least));
                let (value, bound) = (Measure::Number(value), Measure::Number(bound));
                let left = Left::new(Step::Short, &document, value, bound);
                self.leave_out(removed, &left, Step::Short)?;
                continue;
            }
            match copies
                .add(text)
                .map_err(IoError::at(&folder, "comparing"))?
            {
                Found::Copy(of, similarity) => {
                    let of = names.get(of as usize).copied().unwrap_or_default();
                    let url = name(&mut urls, of).map_err(IoError::at(&folder, "reading"))?;
                    let bound = Measure::Number(self.request.near);
                    let value = Measure::Number(rounded(similarity));
                    let left = Left::new(Step::NearCopy, &document, value, bound);
                    self.leave_out(removed, &left.of(&url), Step::NearCopy)?;
                    continue;
                }
                Found::New(_) => names.push(first.url),
            }
            let sample = Sample {
                document: &document,
                host: &host,
                text,
                words,
                removed: lost,
            };
            writer.add(&sample)?;
            tally.add(&sample, &columns);
        }
        Ok((tally, writer.finish()?, repeated))
    }

    fn leave_out(
        &mut self,
        removed: &mut Removed,
        left: &Left<'_>,
        step: Step,
    ) -> Result<(), ExportError> {
        let at = Step::ALL.iter().position(|other| *other == step);
        if let Some(count) = at.and_then(|at| self.counts.get_mut(at)) {
            *count += 1;
        }
        removed.document(left)
    }

    /// The steps that were applied, in order.
    pub(super) fn steps(&self) -> Vec<TextStep> {
        let mut left = self.survey.read - self.survey.damaged;
        let mut steps = Vec::new();
        for (step, removed) in Step::ALL.into_iter().zip(self.counts) {
            left = left.saturating_sub(removed);
            if let Some(bound) = self.bound(step) {
                steps.push(TextStep {
                    name: step.name(),
                    bound,
                    removed,
                    left,
                });
            }
        }
        steps
    }

    /// The condition of a step, in words; `None` for one that was not requested.
    fn bound(&self, step: Step) -> Option<String> {
        let request = self.request;
        Some(match step {
            Step::OlderVisit => "the newest text of each address".to_owned(),
            Step::Language if request.languages.is_empty() => return None,
            Step::Language => codes(&request.languages),
            Step::OnTopic => format!("on topic with at least {}", request.min_on_topic?),
            Step::ExactCopy => "the first with a text".to_owned(),
            Step::Short => match request.min_words {
                0 | 1 => "at least a word".to_owned(),
                least => format!("at least {least} words"),
            },
            Step::NearCopy => format!("less than {} alike", request.near),
        })
    }

    /// Removes the lookup files.
    pub(super) fn remove_spools(&self) -> Result<(), ExportError> {
        let folder = self.place.path();
        for entry in std::fs::read_dir(folder).map_err(IoError::at(folder, "listing"))? {
            let path = entry.map_err(IoError::at(folder, "listing"))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with('.') && name != MARK {
                std::fs::remove_file(&path).map_err(IoError::at(&path, "removing"))?;
            }
        }
        Ok(())
    }
}

/// The key that exact copies share.
fn text_key(text: &str) -> (u64, u64) {
    let hash = xxh3_128(text.as_bytes());
    ((hash >> 64) as u64, hash as u64)
}

fn name(urls: &mut Spool, (at, length): Name) -> std::io::Result<String> {
    let bytes = urls.read(at, length as usize)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Host and port of an address; all addresses without a host share one.
fn host(url: &str) -> String {
    let url = PageUrl::parse(url);
    url.map_or_else(|_| String::new(), |url| url.authority().to_owned())
}

/// Rounds to four decimals, which are enough.
fn rounded(number: f64) -> f64 {
    (number * 10_000.0).round() / 10_000.0
}

fn codes(languages: &[Language]) -> String {
    let codes: Vec<&str> = languages.iter().map(|l| l.code()).collect();
    codes.join(", ")
}
