//! The stored responses that an experiment crawls.

use std::path::Path;
use std::time::Duration;

use super::warc::{self, Archive, ArchiveError};
use crate::{Lab, LabError, LabResponse};
use spoor::address::PageUrl;
use spoor::crawl::pipeline::Stored;
use spoor::fetch::{FetchError, FetchFailure, Received};
use spoor::page::{Fetched, Task, TermsHeaders, Validators};

/// Why a stored web cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The folder is not a web of the lab.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A WARC file cannot be read.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// A web that does not change.
pub struct Web(Kind);

enum Kind {
    Lab(Box<Lab>),
    Archive(Box<Archive>),
}

impl Web {
    /// Opens the folder of a lab, a WARC file, or a folder of them.
    ///
    /// # Errors
    /// [`WebError`] names the folder or file.
    pub fn open(path: &Path) -> Result<Self, WebError> {
        let files = warc::files(path)?;
        Ok(Self(if files.is_empty() {
            Kind::Lab(Box::new(Lab::open(path)?))
        } else {
            Kind::Archive(Box::new(Archive::open(files, path)?))
        }))
    }

    /// A web in memory.
    pub fn of(lab: Lab) -> Self {
        Self(Kind::Lab(Box::new(lab)))
    }

    /// The stored response for a task's address.
    pub(super) fn answer(&self, task: &Task) -> Stored {
        let url = &task.url;
        // Names that never resolve (RFC 6761 section 6.4).
        if url.host().ends_with(".invalid") {
            let (host, why) = (url.host().to_owned(), "the name is reserved".to_owned());
            return Stored::Failed(FetchFailure::Dns { host, why }.into());
        }
        let lab = match &self.0 {
            Kind::Lab(lab) => lab,
            Kind::Archive(archive) => return archived(archive.answer(url, task.kind)),
        };
        let target = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        match lab.answer(url.host(), &target) {
            Ok(LabResponse::File {
                content_type,
                bytes,
            }) => Stored::Body(Box::new(Fetched {
                status: 200,
                content_type: Some(content_type),
                terms: TermsHeaders::default(),
                validators: Validators::default(),
                body: bytes,
                truncated: false,
                elapsed: Duration::from_millis(1),
                date: None,
            })),
            Ok(LabResponse::Moved { location }) => match url.join(&location) {
                Ok(to) => Stored::Redirect {
                    status: 301,
                    to,
                    terms: TermsHeaders::default(),
                },
                Err(why) => {
                    let failure = FetchFailure::BadRedirect {
                        status: 301,
                        retry_after: None,
                        why: why.to_string(),
                    };
                    Stored::Failed(failure.into())
                }
            },
            // Pictures are not drawn: an experiment counts those that pages embed.
            Ok(LabResponse::Missing | LabResponse::Picture { .. } | LabResponse::Busy { .. }) => {
                missing()
            }
            Err(error) => {
                tracing::warn!("{url} counts as missing: its file cannot be read: {error}");
                missing()
            }
        }
    }

    /// The final target of an address after redirects; itself without any.
    pub(super) fn target(&self, url: &PageUrl) -> PageUrl {
        let mut url = url.clone();
        for _ in 0..10 {
            match self.moved(&url) {
                Some(to) => url = to,
                None => break,
            }
        }
        url
    }

    /// Where an address redirects to.
    fn moved(&self, url: &PageUrl) -> Option<PageUrl> {
        match &self.0 {
            Kind::Lab(lab) => match lab.answer(url.host(), url.path()) {
                Ok(LabResponse::Moved { location }) => url.join(&location).ok(),
                _ => None,
            },
            Kind::Archive(archive) => archive.moved(url),
        }
    }
}

/// An archived response. A web that does not change has no temporary errors.
fn archived(stored: Stored) -> Stored {
    match stored {
        Stored::Failed(_) | Stored::Missing => missing(),
        stored => stored,
    }
}

fn missing() -> Stored {
    let failure = FetchFailure::Status {
        status: 404,
        retry_after: None,
    };
    let seen = Received {
        status: Some(404),
        ..Received::default()
    };
    Stored::Failed(FetchError::from(failure).with_seen(seen))
}
