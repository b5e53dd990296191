//! What the loop gets back for a leased task.

use std::net::IpAddr;
use std::time::Duration;

use super::workshop::Turn;
use crate::archive::writer::Packed;
use crate::fetch::{self, FetchError, FetchFailure, HeldBytes};
use crate::page::{Outcome, Reason, Task, TermsHeaders, Validators};

/// The result of a leased task, even if its request failed or was never sent.
#[derive(Debug)]
pub struct Completion<P> {
    /// The task that was leased.
    pub task: Task,
    /// How it ended.
    pub outcome: Outcome,
    /// The product of the body; `None` if there was no body.
    pub product: Option<P>,
    /// HTTP status, if one was received.
    pub status: Option<u16>,
    /// The `Content-Type` as sent.
    pub content_type: Option<String>,
    /// Bytes of the decoded body.
    pub bytes: u64,
    /// From sending the request to the last byte.
    pub elapsed: Duration,
    /// When the task was started, in milliseconds since 1970: never after the request was sent.
    pub asked: Option<u64>,
    /// The time that the outputs record, in milliseconds since 1970, if it is not the present: that
    /// of a stored answer.
    pub dated: Option<u64>,
    /// The crawl delay of the host at that time, in milliseconds; set when the task is
    /// completed.
    pub delay: Option<u64>,
    /// The server's validators for this version of the page.
    pub validators: Validators,
    /// The headers of a redirect or of status 304 that state terms of use.
    pub stated: TermsHeaders,
    /// The error in words.
    pub error: Option<String>,
    /// How far the request got.
    pub(super) contact: Contact,
    /// How long the request waited for rate limits that it shares with other hosts.
    pub(super) waited: Duration,
    /// The pause that the host requested, with any kind of answer.
    pub(super) retry_after: Option<Duration>,
    /// What was sent and received, if the job keeps an archive.
    pub(super) exchange: Option<Box<Packed>>,
    /// Releases the memory of the body when the task is completed.
    pub(super) _held: Option<HeldBytes>,
    /// Holds the workshop place of a large product until the task is completed: a compressed body
    /// takes little memory, but its product may take much.
    pub(super) _turn: Option<Turn>,
}

/// How far a request got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contact {
    /// The host was reached, whether it answered or failed.
    Reached,
    /// No connection to the host could be made.
    Unreachable,
    /// No answer came in time. The host may be reachable or not: the connection may have been made
    /// long before.
    Unanswered,
    /// The settings of this machine are wrong, so every other request would fail as well.
    Misconfigured,
    /// This machine may not contact hosts at present; the request may have been sent in part.
    Forbidden,
    /// Nothing was sent, because another machine is, or may be, requesting from the same IP
    /// address.
    Withheld,
    /// No request was due: only the name of the host was resolved, to this address if it has one.
    Resolved(Option<IpAddr>),
}

impl Contact {
    fn of_error(error: &FetchError) -> Self {
        if matches!(error.kind, FetchFailure::Proxy) {
            Self::Misconfigured
        } else if matches!(error.kind, FetchFailure::TermOver { .. }) {
            Self::Forbidden
        } else if error.is_unreached() {
            Self::Unreachable
        } else if error.is_unanswered() {
            Self::Unanswered
        } else {
            Self::Reached
        }
    }
}

impl<P> Completion<P> {
    /// A completion of a task for which no request was made.
    #[cfg(test)]
    pub(super) fn made(task: Task, outcome: Outcome, product: Option<P>) -> Self {
        Self {
            outcome,
            product,
            ..Self::bare(task)
        }
    }

    /// A completion with only its task, for the caller to fill in.
    pub(super) fn bare(task: Task) -> Self {
        Self {
            task,
            outcome: Outcome::Drop {
                reason: Reason::Internal,
            },
            product: None,
            status: None,
            content_type: None,
            bytes: 0,
            elapsed: Duration::ZERO,
            asked: None,
            dated: None,
            delay: None,
            validators: Validators::default(),
            stated: TermsHeaders::default(),
            error: None,
            contact: Contact::Reached,
            waited: Duration::ZERO,
            retry_after: None,
            exchange: None,
            _held: None,
            _turn: None,
        }
    }

    /// A task whose request was not sent or was cut, through no failure of the host.
    pub(super) fn unsent(task: Task, contact: Contact) -> Self {
        Self {
            contact,
            ..Self::bare(task)
        }
    }

    /// A task that failed through a defect in spoor.
    pub(super) fn failed(task: Task, error: &str) -> Self {
        Self {
            error: Some(error.to_owned()),
            ..Self::bare(task)
        }
    }

    /// Marks a completion whose body could not be processed because of a defect in spoor.
    pub(super) fn into_defect(self) -> Self {
        Self {
            outcome: Outcome::Drop {
                reason: Reason::Internal,
            },
            error: Some(
                "the work on this body ended in a defect of spoor; please report the URL"
                    .to_owned(),
            ),
            ..self
        }
    }

    /// A task whose request failed.
    pub(super) fn of_error(task: Task, error: &FetchError) -> Self {
        let seen = error.seen;
        Self {
            outcome: fetch::outcome(task.kind, error),
            status: seen.status,
            bytes: seen.bytes,
            elapsed: seen.elapsed,
            contact: Contact::of_error(error),
            retry_after: error.retry_after(),
            ..Self::failed(task, &error.to_string())
        }
    }

    /// Whether the host is left alone for a while after this failure.
    pub(super) fn host_backs_off(&self) -> bool {
        matches!(
            self.outcome,
            Outcome::Retry {
                host_backs_off: true,
                ..
            }
        )
    }
}
