//! Sentences and their pages: the log's row of a page gives the position of the gzip
//! member with its sentences, and this module reads both.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde::{Deserialize, Serialize};

use super::output::{Form, Output};
use super::rows::{self, Table};
use super::segments::Naming;
use super::withdrawn::Withdrawn;
use super::{OutputError, append};
use crate::address::PageUrl;
use crate::fs::IoError;
use crate::fs::beneath;
use crate::page::{DocumentScore, TaskKind, Use};

/// The longest text that is read, in bytes; pages are limited to far less.
const MAX_TEXT: u64 = 64 << 20;

/// The folder of the sentences, in a job's folder.
const FOLDER: &str = "sentences";
const SUFFIX: &str = ".txt.gz";

/// Normalised sentences, one per line; those of each page are a separate gzip member.
pub(super) struct Sentences;

impl Output for Sentences {
    fn name(&self) -> &'static str {
        "sentences"
    }

    fn form(&self) -> Form {
        Form::Pieces {
            folder: FOLDER,
            naming: Naming::Numbered(SUFFIX),
        }
    }
}

/// The sentences of a page in their written form, so that the threads that read pages compress
/// them, and not the single thread that writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackedSentences {
    /// Their gzip member; empty if there are none.
    member: Vec<u8>,
    count: usize,
}

impl PackedSentences {
    /// The sentences, one per line including its end.
    pub fn of(sentences: &str) -> Self {
        if sentences.is_empty() {
            return Self::default();
        }
        Self {
            member: append::gzip(sentences),
            count: sentences.lines().count(),
        }
    }

    /// Their number.
    pub fn count(&self) -> usize {
        self.count
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.member
    }
}

/// The position of a page's text: one gzip member (RFC 1952 section 2.2) of a file below
/// `sentences/`, or one zstd frame of a file below `documents/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextPlace {
    /// The file's name in its folder.
    pub file: String,
    /// The first byte of the page's part.
    pub from: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// A page whose sentences were kept.
#[derive(Debug, Clone, PartialEq)]
pub struct PageText {
    /// Its address.
    pub url: PageUrl,
    /// Its rating by the model that the crawl used then.
    pub document: DocumentScore,
    /// The position of its sentences.
    pub text: TextPlace,
    /// When it was fetched, RFC 3339 in UTC.
    pub fetched: String,
}

/// The pages of a log whose sentences can be found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PageTexts {
    /// In the order they were crawled; for a revisited page the last text that was kept.
    pub pages: Vec<PageText>,
    /// Finished pages whose row gives no position: their terms forbid the use of their
    /// text, they have no text, or they were crawled before positions were recorded.
    pub without: usize,
    /// Near copies of other pages, which are left out.
    pub copies: usize,
    /// Rows that could not be read.
    pub broken: usize,
}

/// The part of a row that is read; older rows lack some of it.
#[derive(Deserialize)]
struct TextsLine {
    #[serde(default)]
    time: String,
    kind: TaskKind,
    url: String,
    outcome: String,
    changed: Option<bool>,
    document: Option<DocumentScore>,
    sentences: Option<TextPlace>,
    near_copy_of: Option<serde::de::IgnoredAny>,
}

/// Reads from `logs/crawl.jsonl` which pages of a job have sentences, and where. The job
/// may be running: a row that is being written is skipped.
///
/// # Errors
///
/// [`OutputError::Io`] names the file.
pub fn page_texts(folder: &Path) -> Result<PageTexts, OutputError> {
    if !Table::Log.is_there(folder) {
        let gone = std::io::Error::from(ErrorKind::NotFound);
        return Err(IoError::at(&folder.join(Table::Log.name()), "opening")(gone).into());
    }
    let mut found = PageTexts::default();
    let mut places = HashMap::new();
    rows::each_line(folder, Table::Log, rows::MAX_ROW, |row| {
        found.take(row.bytes.unwrap_or_default(), &mut places);
    })?;
    let withdrawn = Withdrawn::of(folder)?;
    let before = found.pages.len();
    found.pages.retain(|page| {
        withdrawn
            .by(page.url.as_str(), &page.fetched, Use::Text)
            .is_none()
    });
    found.without += before - found.pages.len();
    Ok(found)
}

impl PageTexts {
    /// Adds a row of the log; `places` maps addresses to indices of `pages`.
    fn take(&mut self, row: &[u8], places: &mut HashMap<PageUrl, usize>) {
        let parsed = serde_json::from_slice::<TextsLine>(row)
            .ok()
            .and_then(|line| {
                let url = PageUrl::parse(&line.url).ok()?;
                Some((line, url))
            });
        let Some((line, url)) = parsed else {
            self.broken += 1;
            return;
        };
        // Text that had not changed since the last visit was not written again, unless its publisher
        // had forbidden it at that visit.
        let again = line.changed == Some(false) && line.sentences.is_none();
        if line.kind != TaskKind::Page || line.outcome != "done" || again {
            return;
        }
        if line.near_copy_of.is_some() {
            self.copies += 1;
            return;
        }
        let (Some(document), Some(text)) = (line.document, line.sentences) else {
            self.without += 1;
            return;
        };
        let page = PageText {
            url: url.clone(),
            document,
            text,
            fetched: line.time,
        };
        match places
            .get(&url)
            .and_then(|at: &usize| self.pages.get_mut(*at))
        {
            Some(earlier) => *earlier = page,
            None => {
                places.insert(url, self.pages.len());
                self.pages.push(page);
            }
        }
    }
}

/// The normalised sentences at a position.
///
/// # Errors
///
/// [`OutputError::Io`] names the file, also if it is too short or has no gzip member of
/// text at that position.
pub fn sentences_at(folder: &Path, place: &TextPlace) -> Result<Vec<String>, OutputError> {
    let path = path_of(folder, &place.file)?;
    let mut file = beneath::open_at(&path).map_err(IoError::at(&path, "opening"))?;
    file.seek(SeekFrom::Start(place.from))
        .map_err(IoError::at(&path, "reading"))?;
    let member = GzDecoder::new(file.take(place.bytes));
    let mut text = String::new();
    member
        .take(MAX_TEXT)
        .read_to_string(&mut text)
        .map_err(IoError::at(&path, "reading the sentences of a page"))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// The log may have been tampered with, and must not lead out of the folder.
fn path_of(folder: &Path, name: &str) -> Result<PathBuf, OutputError> {
    let path = folder.join(FOLDER).join(name);
    match Naming::Numbered(SUFFIX).parse(name) {
        Some(_) => Ok(path),
        None => Err(IoError::at(&path, "reading")(std::io::Error::new(
            ErrorKind::InvalidData,
            "not the name of a file of sentences",
        ))
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_finds_its_own_sentences() {
        let folder = tempfile::tempdir().unwrap();
        let mut outputs = super::super::Outputs::open(folder.path(), &[]).unwrap();
        let mut rows = String::new();
        let mut row = |url: &str, more: &str| {
            rows.push_str(&format!(
                "{{\"kind\":\"page\",\"url\":\"http://a.org/{url}\",\"outcome\":\"done\",\
                 \"document\":{{\"perplexity\":9.5,\"keyword\":0.0,\"sentences\":1,\"tokens\":2}}{more}}}\n"
            ));
        };
        let mut place = |text: &str| {
            let place = outputs
                .sentences(&PackedSentences::of(&format!("{text}\n")))
                .unwrap()
                .unwrap();
            format!(",\"sentences\":{}", serde_json::to_string(&place).unwrap())
        };
        row("1", &place("one two"));
        row("2", &place("three four"));
        row("none", "");
        row(
            "copy",
            &format!("{},\"near_copy_of\":\"http://a.org/1\"", place("five")),
        );
        row("1", &format!("{},\"changed\":true", place("six seven")));
        row("2", ",\"changed\":false");
        rows.push_str("junk\n{\"kind\":\"image\"}\n{\"torn");
        std::fs::write(folder.path().join("logs/crawl.jsonl"), rows).unwrap();
        let found = page_texts(folder.path()).unwrap();
        assert_eq!((found.without, found.copies, found.broken), (1, 1, 2));
        let texts: Vec<(String, Vec<String>)> = found
            .pages
            .iter()
            .map(|p| {
                assert_eq!(p.document.perplexity, 9.5);
                let text = sentences_at(folder.path(), &p.text).unwrap();
                (p.url.path().to_owned(), text)
            })
            .collect();
        let expected = [("/1", "six seven"), ("/2", "three four")];
        let expected = expected.map(|(u, t)| (u.to_owned(), vec![t.to_owned()]));
        assert_eq!(texts, expected);
        for file in ["../../etc/passwd", "00009.txt.gz"] {
            let place = TextPlace {
                file: file.to_owned(),
                from: 0,
                bytes: 10,
            };
            assert!(sentences_at(folder.path(), &place).is_err(), "{file}");
        }
    }
}
