//! The results of a job at a glance: how much is on topic and the benefit of choosing
//! links, its documents, the pictures with their words, a few passages of its text.
//!
//! Pictures are re-encoded at a small size, and bounded in number and bytes; so are the
//! words.

use std::collections::HashSet;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::Figures;
use crate::frontier::Headline;
use crate::fs::beneath;
use crate::outputs::picture::thumbnail;
use crate::outputs::{self, Document, Sidecar, Table};
use crate::settings::JobSettings;

/// The most pictures that are shown.
const PICTURES: usize = 18;

/// Their longer side in pixels.
const SIDE: u32 = 240;

/// Bytes of all of them together.
const PICTURE_BYTES: usize = 900_000;

/// Bytes of the largest file that is decoded for one.
const MAX_FILE: u64 = 32 << 20;

/// How many of the best rows of `images.tsv` are kept while reading it; some have no
/// picture.
const CANDIDATES: usize = 4 * PICTURES;

/// The most passages that are shown.
const PASSAGES: usize = 3;

/// The most characters of a passage, and of a picture's words.
const MAX_PASSAGE: usize = 420;
const MAX_WORDS: usize = 200;

/// The results of a job.
#[derive(Debug, Clone, Default, Serialize)]
pub struct JobVerdict {
    /// How much is on topic, of the chosen links and of the control sample.
    pub headline: Option<Headline>,
    /// The same in one sentence.
    pub sentence: String,
    /// The documents of the job.
    pub documents: DocumentFigures,
    /// The best pictures by the words around them.
    pub pictures: Vec<Picture>,
    /// A few passages of the text that was kept, from different sites.
    pub passages: Vec<Passage>,
}

/// Lines of `documents/`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DocumentFigures {
    /// How many there are.
    pub count: u64,
    /// Their words.
    pub words: u64,
    /// Bytes of their texts in UTF-8.
    pub bytes: u64,
}

/// An image and what was written about it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Picture {
    /// Its path below the job's folder.
    pub file: String,
    /// The page that embeds it.
    pub page: String,
    /// Its most descriptive text, if there is any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
    /// Its rank score; lower is better.
    pub rank: f64,
    /// The picture as a data URI.
    #[serde(skip)]
    pub(super) data: String,
}

/// A passage of a page's text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Passage {
    /// The page.
    pub url: String,
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The probability that the page is on topic, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_topic: Option<f64>,
    /// Its beginning.
    pub text: String,
}

/// Reads the data for the verdict other than the log, which was read before.
pub(super) fn read(figures: &mut Figures, config: &JobSettings) {
    let folder = config.job_folder();
    let topic = config.job.name.as_str();
    let headline = figures.log.focus.headline(topic);
    figures.verdict.sentence = headline.to_string();
    figures.verdict.headline = Some(headline);
    texts(figures, &folder);
    figures.verdict.pictures = pictures(&folder);
}

/// Counts the documents, and takes passages of the best, each from a different site.
fn texts(figures: &mut Figures, folder: &Path) {
    let documents = match outputs::documents(folder) {
        Ok(documents) => documents,
        Err(error) => return figures.troubles.add(error),
    };
    let mut best: Vec<(f64, String, Passage)> = Vec::new();
    for document in documents {
        let document = match document {
            Ok(document) => document,
            Err(error) => {
                figures.troubles.add(error);
                continue;
            }
        };
        let of = &mut figures.verdict.documents;
        of.count += 1;
        of.words += u64::from(document.words);
        of.bytes += document.text.len() as u64;
        let Some((host, passage)) = passage(&document) else {
            continue;
        };
        // The better one of a site is kept, then the best sites.
        let rate = document.on_topic.unwrap_or_default();
        match best.iter_mut().find(|(_, known, _)| *known == host) {
            Some(known) if known.0 < rate => *known = (rate, host, passage),
            Some(_) => {}
            None => best.push((rate, host, passage)),
        }
        best.sort_by(|a, b| b.0.total_cmp(&a.0));
        best.truncate(PASSAGES);
    }
    figures.verdict.passages = best.into_iter().map(|(.., passage)| passage).collect();
}

/// The first real paragraph of a document, and its host.
fn passage(document: &Document) -> Option<(String, Passage)> {
    const SHORTEST: usize = 160;
    let url = crate::address::PageUrl::parse(&document.url).ok()?;
    let mut paragraphs = document.text.split("\n\n").map(str::trim);
    let text = paragraphs.find(|p| p.chars().count() >= SHORTEST)?;
    let passage = Passage {
        url: document.url.clone(),
        title: document.title.clone(),
        on_topic: document.on_topic,
        text: shortened(text, MAX_PASSAGE),
    };
    Some((url.host().to_owned(), passage))
}

/// A text cut after a word.
fn shortened(text: &str, most: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(most) else {
        return text.to_owned();
    };
    let cut = text.get(..end).unwrap_or_default();
    let cut = cut
        .rsplit_once(char::is_whitespace)
        .map_or(cut, |(before, _)| before);
    format!("{cut} \u{2026}")
}

/// The best pictures, each once.
fn pictures(folder: &Path) -> Vec<Picture> {
    let mut shown = Vec::new();
    let mut digests = HashSet::new();
    let mut bytes = 0;
    for (rank, file) in best_rows(folder) {
        if shown.len() == PICTURES || bytes >= PICTURE_BYTES {
            break;
        }
        let Ok(sidecar) = Sidecar::load(folder, &file) else {
            continue;
        };
        if !digests.insert(sidecar.sha256().to_owned()) {
            continue;
        }
        let small = beneath::length(folder, &file).is_some_and(|length| length <= MAX_FILE);
        let read = small.then(|| beneath::read(folder, &file).ok()).flatten();
        let Some(jpeg) = read.and_then(|bytes| thumbnail(&bytes, SIDE)) else {
            continue;
        };
        let data = format!("data:image/jpeg;base64,{}", STANDARD.encode(jpeg));
        bytes += data.len();
        if bytes > PICTURE_BYTES {
            break;
        }
        let Some(context) = sidecar.best_context() else {
            continue;
        };
        let words = context.words();
        shown.push(Picture {
            file,
            page: context.page.as_str().to_owned(),
            words: words.map(|words| shortened(words.text, MAX_WORDS)),
            rank,
            data,
        });
    }
    shown
}

/// The longest row that is read, in bytes.
const MAX_ROW: usize = 1 << 20;

/// The rows of `images.tsv` with the lowest rank, best first, each file once.
fn best_rows(folder: &Path) -> Vec<(f64, String)> {
    let mut best: Vec<(f64, String)> = Vec::new();
    let mut columns = None;
    // Its readable part is shown.
    let read = outputs::each_line(folder, Table::Images, MAX_ROW, |line| {
        let text = String::from_utf8_lossy(line.bytes.unwrap_or_default());
        if line.number == 1 {
            let column = |name: &str| text.split('\t').position(|cell| cell == name);
            columns = column("file").zip(column("rank"));
            return;
        }
        let Some((at_file, at_rank)) = columns else {
            return;
        };
        let mut cells = text.split('\t');
        let (Some(file), Some(rank)) = (
            cells.clone().nth(at_file),
            cells.nth(at_rank).and_then(|rank| rank.parse::<f64>().ok()),
        ) else {
            return;
        };
        if rank.is_nan() {
            return;
        }
        best.push((rank, file.to_owned()));
        if best.len() >= 2 * CANDIDATES {
            tidy(&mut best);
        }
    });
    if let Err(error) = read {
        tracing::warn!("{error}");
    }
    tidy(&mut best);
    best
}

fn tidy(best: &mut Vec<(f64, String)>) {
    best.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    let mut seen = HashSet::new();
    best.retain(|(_, file)| seen.insert(file.clone()));
    best.truncate(CANDIDATES);
}

impl Figures {
    /// The benefit of choosing links, in a sentence.
    pub(super) fn gain(&self) -> Option<String> {
        let headline = self.verdict.headline.as_ref()?;
        let times = |x: f64| match x {
            x if x >= 10.0 => format!("{x:.0}"),
            x => format!("{x:.1}"),
        };
        let drawn = headline.drawn;
        let pages = if drawn == 1 { "page" } else { "pages" };
        Some(match (headline.gain, headline.gain_interval) {
            (Some(gain), Some((low, high))) => format!(
                "Choosing found {} times as many pages on topic as chance did; 95 % sure: {}.",
                times(gain),
                match high {
                    Some(high) => format!("{} to {} times", times(low), times(high)),
                    None => format!("at least {} times", times(low)),
                }
            ),
            (None, Some((low, _))) => format!(
                "Of {drawn} {pages} drawn by chance none was on topic: choosing found at least {} \
                 times as many, 95 % sure.",
                times(low)
            ),
            // The headline says that it is too early to compare.
            _ => return None,
        })
    }

    /// Whether the pauses were observed, in a sentence.
    pub(super) fn manners(&self) -> Option<String> {
        let politeness = &self.log.politeness;
        let (measured, short) = (politeness.measured, politeness.violations);
        if measured == 0 {
            return None;
        }
        let all = super::count(measured);
        Some(match short {
            0 => format!(
                "It was polite: all of {all} pauses between two requests to a site were observed."
            ),
            1 => {
                format!("Of {all} pauses between two requests to a site one was shorter than due.")
            }
            n => format!(
                "Of {all} pauses between two requests to a site {} were shorter than due.",
                super::count(n)
            ),
        })
    }
}
