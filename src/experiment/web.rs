//! The stored answers that an experiment crawls.

use std::path::Path;
use std::time::Duration;

use crate::address::PageUrl;
use crate::fetch::{FetchError, Seen};
use crate::lab::{Answer, Lab, LabError};
use crate::page::{Fetched, Task, TermsHeaders, Validators};
use crate::pipeline::Stored;

/// Why a stored web cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The folder is none of the lab's.
    #[error(transparent)]
    Lab(#[from] LabError),
}

/// A web that stands still.
pub struct Web(Lab);

impl Web {
    /// Opens the folder of a lab.
    ///
    /// # Errors
    /// [`WebError`] names the folder or file.
    pub fn open(path: &Path) -> Result<Self, WebError> {
        Ok(Self(Lab::open(path)?))
    }

    /// A web in memory.
    pub fn of(lab: Lab) -> Self {
        Self(lab)
    }

    /// What is stored of the address that a task asks for.
    pub(super) fn answer(&self, task: &Task) -> Stored {
        let url = &task.url;
        // Names that never resolve (RFC 6761 section 6.4).
        if url.host().ends_with(".invalid") {
            return Stored::Failed(FetchError::Dns {
                host: url.host().to_owned(),
                why: "the name is reserved".to_owned(),
                seen: Seen::default(),
            });
        }
        let target = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        match self.0.answer(url.host(), &target) {
            Ok(Answer::File {
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
            })),
            Ok(Answer::Moved { location }) => match url.join(&location) {
                Ok(to) => Stored::Redirect { status: 301, to },
                Err(why) => Stored::Failed(FetchError::BadRedirect {
                    status: 301,
                    why: why.to_string(),
                    seen: Seen::default(),
                }),
            },
            // Pictures are not drawn: an experiment counts those that pages embed.
            Ok(Answer::Missing | Answer::Picture { .. } | Answer::Busy { .. }) => missing(),
            Err(error) => {
                tracing::warn!("{url} counts as missing: its file cannot be read: {error}");
                missing()
            }
        }
    }

    /// Where an address leads, whatever redirects lie between; itself where to none.
    pub(super) fn target(&self, url: &PageUrl) -> PageUrl {
        let mut url = url.clone();
        for _ in 0..10 {
            match self.0.answer(url.host(), url.path()) {
                Ok(Answer::Moved { location }) => match url.join(&location) {
                    Ok(to) => url = to,
                    Err(_) => break,
                },
                _ => break,
            }
        }
        url
    }
}

fn missing() -> Stored {
    Stored::Failed(FetchError::Status {
        status: 404,
        retry_after: None,
        seen: Seen {
            status: Some(404),
            ..Seen::default()
        },
    })
}
