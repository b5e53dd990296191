//! Sources to documents: pages of the web, files, folders of files.

use std::path::{Path, PathBuf};

use tokio::runtime::Handle;

use super::{TrainError, pages};
use crate::address::PageUrl;
use crate::fetch::Fetcher;
use crate::fs::IoError;
use crate::pdf;
use crate::pipeline::pdf_reader;
use crate::settings::JobSettings;
use crate::settings::{Documents, Source};
use crate::topic::lm::{MIN_TOKENS, Sentence, sentences};
use crate::topic::neutral;
use crate::web::extract;

/// The sentences of one page or text that are long enough to train on.
#[derive(Debug, Clone, Default)]
pub struct Document(Vec<Sentence>);

impl AsRef<[Sentence]> for Document {
    fn as_ref(&self) -> &[Sentence] {
        &self.0
    }
}

impl Document {
    pub(super) fn of_sentences(sentences: Vec<Sentence>) -> Self {
        Self(sentences)
    }

    pub(super) fn of_blocks<B: AsRef<str>>(blocks: &[B]) -> Self {
        let mut all = sentences(blocks.iter().map(AsRef::as_ref));
        all.retain(|s| s.len() >= MIN_TOKENS);
        Self(all)
    }
}

/// Reads training sources.
pub(super) struct Gatherer<'a, F> {
    config: &'a JobSettings,
    runtime: &'a Handle,
    fetcher: Option<F>,
}

impl<'a, F: FnOnce() -> Result<Fetcher, TrainError>> Gatherer<'a, F> {
    pub fn new(config: &'a JobSettings, runtime: &'a Handle, fetcher: F) -> Self {
        Self {
            config,
            runtime,
            fetcher: Some(fetcher),
        }
    }

    /// Reads both lists; documents come in the order of their sources.
    pub fn gather(
        &mut self,
        positive: &[Source],
        neutral: &[Source],
        say: &mut dyn FnMut(&str),
    ) -> Result<(Vec<Document>, Vec<Document>), TrainError> {
        let urls: Vec<PageUrl> = positive
            .iter()
            .chain(neutral)
            .filter_map(|source| match source {
                Source::Url(url) => Some(url.clone()),
                Source::Path(_) => None,
            })
            .collect();
        let fetched = match self.fetcher.take() {
            Some(fetcher) if !urls.is_empty() => {
                say(&format!("fetching {} training pages", urls.len()));
                let fetcher = fetcher()?;
                Some(pages::fetch(self.config, self.runtime, &fetcher, &urls)?)
            }
            _ => None,
        };
        let mut read = |sources: &[Source]| -> Result<Vec<Document>, TrainError> {
            let mut documents = Vec::new();
            for source in sources {
                match source {
                    Source::Url(url) => {
                        let page = fetched.as_ref().and_then(|pages| pages.page(url).ok());
                        documents.extend(page.map(|(_, document)| document.clone()));
                    }
                    Source::Path(path) => self.read_path(path, &mut documents, say)?,
                }
            }
            documents.retain(|d: &Document| !d.0.is_empty());
            Ok(documents)
        };
        Ok((read(positive)?, read(neutral)?))
    }

    fn read_path(
        &self,
        path: &Path,
        documents: &mut Vec<Document>,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), TrainError> {
        if !path.is_dir() {
            return self.read_file(path, documents);
        }
        let entries = std::fs::read_dir(path).map_err(IoError::at(path, "listing"))?;
        let mut paths = entries
            .map(|entry| entry.map(|e| e.path()))
            .collect::<Result<Vec<PathBuf>, _>>()
            .map_err(IoError::at(path, "listing"))?;
        // The order of a listing differs from system to system.
        paths.sort();
        for path in paths {
            if path.is_dir() || is_html(&path) || has_extension(&path, &["txt", "text", "md"]) {
                self.read_path(&path, documents, say)?;
            } else if is_pdf(&path) {
                // Folders of PDF files nearly always have a scan without text among them.
                match self.read_pdf(&path) {
                    Ok(document) => documents.push(document),
                    Err(TrainError::Pdf { path, failure }) => {
                        say(&format!("left out {}: {failure}", path.display()));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn read_pdf(&self, path: &Path) -> Result<Document, TrainError> {
        let bytes = crate::fs::read(path).map_err(IoError::at(path, "reading"))?;
        let original = pdf_reader(self.config).read(&bytes);
        let original = original.map_err(|failure| TrainError::Pdf {
            path: path.to_owned(),
            failure,
        })?;
        Ok(Document::of_blocks(&of_pdf(&original)))
    }

    fn read_file(&self, path: &Path, documents: &mut Vec<Document>) -> Result<(), TrainError> {
        if is_pdf(path) {
            documents.push(self.read_pdf(path)?);
            return Ok(());
        }
        let bytes = crate::fs::read(path).map_err(IoError::at(path, "reading"))?;
        if is_html(path) {
            documents.push(Document::of_blocks(&self.html_blocks(path, bytes)?));
            return Ok(());
        }
        let text = String::from_utf8(bytes).map_err(|e| {
            IoError::at(path, "reading as UTF-8")(std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                e.to_string(),
            ))
        })?;
        // A line end ends a sentence (UAX #29, rule SB4), so the text can stay
        // as it is.
        let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
        match self.config.train.documents {
            Documents::File => documents.push(Document::of_blocks(&[text])),
            Documents::BlankLine => {
                let lines: Vec<&str> = text.lines().collect();
                for part in lines.split(|line| line.trim().is_empty()) {
                    documents.push(Document::of_blocks(&[part.join("\n")]));
                }
            }
        }
        Ok(())
    }

    /// A saved page goes through the same extraction as a fetched one, including charset
    /// detection and the extractor.
    fn html_blocks(&self, path: &Path, bytes: Vec<u8>) -> Result<Vec<String>, TrainError> {
        let invalid = |why: String| {
            IoError::at(path, "reading as HTML")(std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                why,
            ))
        };
        let url = PageUrl::parse("http://localhost/").map_err(|e| invalid(e.to_string()))?;
        let fetched = crate::page::Fetched {
            status: 200,
            content_type: Some("text/html".to_owned()),
            terms: Default::default(),
            validators: Default::default(),
            body: bytes.into(),
            truncated: false,
            elapsed: std::time::Duration::ZERO,
            date: None,
        };
        let options = extract::Options {
            extractor: self.config.text.extractor,
            ..extract::Options::default()
        };
        extract::extract(&url, &fetched, &options)
            .map(|page| page.blocks)
            .map_err(|e| invalid(e.to_string()).into())
    }
}

fn is_html(path: &Path) -> bool {
    has_extension(path, &["html", "htm", "xhtml"])
}

/// A paragraph of a PDF file is a block, as when a crawl reads the file.
pub(super) fn of_pdf(original: &pdf::Original) -> Vec<String> {
    let text = original.clean(Some(&neutral::knows)).text();
    text.split("\n\n").map(str::to_owned).collect()
}

fn is_pdf(path: &Path) -> bool {
    has_extension(path, &["pdf"])
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension()
        .and_then(|e| e.to_str())
        .is_some_and(|e| extensions.iter().any(|x| x.eq_ignore_ascii_case(e)))
}
