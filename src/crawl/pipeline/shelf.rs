//! The answers in an archive, as a fetch would have returned them.

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::time::Duration;

use super::replay::{Reply, Stored};
use crate::address::PageUrl;
use crate::archive::captures::{Capture, Captures};
use crate::archive::http::Response;
use crate::coding;
use crate::fetch::{self, FetchError, FetchFailure, Received, stored_redirect};
use crate::page::{Fetched, Outcome, Reason, Task, TaskKind};
use crate::tool_error::ToolError;

/// The longest body of a file with rules that is read, in bytes.
const FILE_CAP: usize = 1 << 20;
/// The longest chain of redirects to such a file.
const MOST_MOVES: usize = 5;

/// The longest bodies that a crawl reads, in bytes; longer ones are cut, and longer images
/// dropped.
#[derive(Debug, Clone, Copy)]
pub struct Caps {
    /// Of a page.
    pub page: usize,
    /// Of an image.
    pub image: usize,
    /// Of a sitemap.
    pub sitemap: usize,
}

impl Caps {
    /// The longest of all.
    pub fn longest(&self) -> usize {
        self.page.max(self.image)
    }

    fn of(&self, kind: TaskKind) -> usize {
        match kind {
            TaskKind::Page => self.page,
            TaskKind::Image => self.image,
            TaskKind::Sitemap => self.sitemap,
            TaskKind::Robots | TaskKind::Tdmrep | TaskKind::Rsl => FILE_CAP,
        }
    }
}

/// An archive that answers requests like the web.
pub struct Shelf<C: Borrow<Captures> = Captures> {
    captures: C,
    caps: Caps,
}

impl<C: Borrow<Captures>> Shelf<C> {
    /// The answers of `captures`.
    pub fn new(captures: C, caps: Caps) -> Self {
        Self { captures, caps }
    }

    /// The archive.
    pub fn captures(&self) -> &Captures {
        self.captures.borrow()
    }

    /// The longest bodies that are read.
    pub fn caps(&self) -> Caps {
        self.caps
    }

    /// The answer to a task: of several captures, the first one that settles it. An error after
    /// which a crawl would retry is skipped. Redirects of a robots.txt are followed here, so that one
    /// answer settles what the host permits.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the file that cannot be read.
    pub fn answer(&self, task: &Task) -> Result<Reply, ToolError> {
        match task.kind {
            TaskKind::Robots => self.robots(&task.url),
            kind => self.first(&task.url, kind),
        }
    }

    /// The answer of an address to a task of this kind, like [`Self::answer`]; but no redirect is
    /// followed.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the file that cannot be read.
    pub fn first(&self, url: &PageUrl, kind: TaskKind) -> Result<Reply, ToolError> {
        let mut other = None;
        for capture in self.captures().at(url, self.caps.of(kind)) {
            let Capture { date, response, .. } = capture?;
            let stored = stored(url, kind, date, response, self.caps);
            let reply = Reply {
                stored,
                dated: date,
            };
            // A page that redirects to itself may have set a cookie, and was then requested again
            // with it.
            let is_to_itself = matches!(
                &reply.stored,
                Stored::Failed(error) if matches!(error.kind, FetchFailure::BadRedirect { .. })
            );
            if is_to_itself {
                other = other.or(Some(reply));
            } else if settles(kind, &reply.stored) {
                return Ok(reply);
            }
        }
        Ok(other.unwrap_or(Reply {
            stored: Stored::Missing,
            dated: None,
        }))
    }

    /// The answers of an address to a task of this kind at different times, each body once and at
    /// most the last `most`.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the file that cannot be read.
    pub fn all(
        &self,
        url: &PageUrl,
        kind: TaskKind,
        most: usize,
    ) -> Result<Vec<Stored>, ToolError> {
        let mut all: VecDeque<Stored> = VecDeque::new();
        for capture in self.captures().at(url, self.caps.of(kind)) {
            let Capture { date, response, .. } = capture?;
            let stored = stored(url, kind, date, response, self.caps);
            let is_known = all.iter().any(|known| known.is_same(&stored));
            if settles(kind, &stored) && !is_known {
                all.push_back(stored);
            }
            if all.len() > most {
                all.pop_front();
            }
        }
        Ok(all.into())
    }

    fn robots(&self, url: &PageUrl) -> Result<Reply, ToolError> {
        let Reply { stored, dated } = self.first(url, TaskKind::Robots)?;
        let stored = self.followed(stored)?;
        Ok(Reply { stored, dated })
    }

    /// The answer to a robots.txt, at the end of its redirects.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the file that cannot be read.
    pub fn followed(&self, mut stored: Stored) -> Result<Stored, ToolError> {
        for _ in 0..=MOST_MOVES {
            match stored {
                Stored::Redirect { to, .. } => stored = self.first(&to, TaskKind::Robots)?.stored,
                _ => return Ok(stored),
            }
        }
        Ok(Stored::Missing)
    }
}

impl Stored {
    /// Whether both say the same of the rules of a host.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Body(own), Self::Body(other)) => own.body == other.body,
            (Self::Redirect { to: own, .. }, Self::Redirect { to, .. }) => own == to,
            (Self::Failed(_), Self::Failed(_)) | (Self::Missing, Self::Missing) => true,
            _ => false,
        }
    }

    /// The outcome of a task of this kind, with the response if there is one. Nothing is followed.
    pub fn into_outcome(self, kind: TaskKind) -> (Outcome, Option<Box<Fetched>>) {
        match self {
            Self::Body(fetched) => (Outcome::Done, Some(fetched)),
            Self::Failed(error) => (fetch::outcome(kind, &error), None),
            Self::Redirect { to, .. } => (Outcome::Redirect { to }, None),
            Self::Missing => {
                let reason = Reason::NotArchived;
                (Outcome::Drop { reason }, None)
            }
        }
    }
}

/// Whether a crawl would not retry after this answer.
pub(super) fn settles(kind: TaskKind, stored: &Stored) -> bool {
    match stored {
        Stored::Failed(error) => !matches!(fetch::outcome(kind, error), Outcome::Retry { .. }),
        Stored::Body(_) | Stored::Redirect { .. } | Stored::Missing => true,
    }
}

/// A stored response, as a fetch of the same bytes would return it.
pub(super) fn stored(
    url: &PageUrl,
    kind: TaskKind,
    date: Option<u64>,
    response: Result<Response, ToolError>,
    caps: Caps,
) -> Stored {
    let response = match response {
        Ok(response) => response,
        Err(error) => return Stored::Failed(FetchError::undecodable(url.host(), &error)),
    };
    let status = response.status;
    let seen = Received {
        status: Some(status),
        bytes: 0,
        elapsed: Duration::ZERO,
    };
    let failed = |kind| Stored::Failed(FetchError { kind, seen });
    match stored_redirect(url, status, &response.headers) {
        Some(Ok(to)) => {
            let terms = response.terms();
            return Stored::Redirect { status, to, terms };
        }
        Some(Err(error)) => return Stored::Failed(error),
        None => {}
    }
    if status == 402 {
        let price = response.header("crawler-price");
        let price = price.map(|price| String::from_utf8_lossy(price).into_owned());
        return failed(FetchFailure::Payment { price });
    }
    let is_part = status == 206 && kind.is_rules();
    if !(200..=299).contains(&status) || is_part {
        return failed(FetchFailure::Status {
            status,
            retry_after: None,
        });
    }
    let cap = caps.of(kind);
    let mut fetched: Fetched = response.into_fetched();
    fetched.date = date;
    if fetched.body.len() > cap {
        fetched.body.truncate(cap);
        fetched.truncated = true;
    }
    if kind.is_rules() {
        match coding::unpacked(fetched.body, cap) {
            Ok(body) => fetched.body = body,
            Err(error) => return Stored::Failed(FetchError::undecodable(url.host(), &error)),
        }
    }
    if kind == TaskKind::Image && fetched.truncated {
        return failed(FetchFailure::TooLarge {
            cap,
            declared: None,
        });
    }
    Stored::Body(Box::new(fetched))
}
