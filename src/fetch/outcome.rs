//! The policy: the consequence of each failure.
//!
//! One table, read from the top; the first row that matches a failure decides. The
//! frontier decides how often to retry and how long to back off.

use crate::page::{Outcome, Reason, TaskKind};

use super::error::{FetchError, FetchFailure};
use FailureClass::*;
use Kinds::*;
use Then::*;

/// What the frontier must do after `error`.
///
/// For a robots.txt a status of 400 to 499 is [`Outcome::Done`]: there are no rules, and
/// everything is allowed (RFC 9309 section 2.3.1.3). All other failures are retried there,
/// and everything is forbidden until one succeeds.
pub fn outcome(kind: TaskKind, error: &FetchError) -> Outcome {
    let retry_after = error.retry_after();
    let row = TABLE
        .iter()
        .find(|row| row.kinds.cover(kind) && row.class.covers(error));
    // A test checks that there is a row for every failure.
    match row.map_or(Retry(Reason::Internal), |row| row.then) {
        Done => Outcome::Done,
        Drop(reason) => Outcome::Drop { reason },
        Retry(reason) => Outcome::Retry {
            reason,
            retry_after,
            host_backs_off: false,
        },
        BackOff(reason) => Outcome::Retry {
            reason,
            retry_after,
            host_backs_off: true,
        },
    }
}

#[rustfmt::skip]
const TABLE: &[OutcomeRow] = &[
    // No response. The host's other addresses would fare no better.
    row(All,    Dns,                        BackOff(Reason::Dns)),
    row(All,    Connection,                 BackOff(Reason::Connection)),
    row(All,    Timeout,                    BackOff(Reason::Timeout)),
    row(All,    Tls,                        BackOff(Reason::Tls)),
    row(All,    PrivateAddress,             Drop(Reason::PrivateAddress)),
    row(All,    Local,                      Retry(Reason::Internal)),
    row(All,    NoRoom,                     Retry(Reason::NoRoom)),
    row(All,    Unsendable,                 Drop(Reason::Protocol)),

    // A response that could not be understood.
    row(All,    Protocol,                   Retry(Reason::Protocol)),
    row(All,    Decoding,                   Retry(Reason::Protocol)),
    row(All,    TooLarge,                   Drop(Reason::TooLarge)),
    row(Robots, BadRedirect,                Retry(Reason::BadRedirect)),
    row(All,    BadRedirect,                Drop(Reason::BadRedirect)),

    // The server asks the client to slow down.
    row(All,    Status(429, 429),           BackOff(Reason::Overloaded)),
    row(All,    Status(503, 503),           BackOff(Reason::Overloaded)),
    row(All,    Status(500, 599),           BackOff(Reason::ServerError)),

    // It waited too long, came too early, or over the wrong connection.
    row(All,    Status(408, 408),           Retry(Reason::Timeout)),
    row(All,    Status(425, 425),           Retry(Reason::ClientError)),
    row(All,    Status(421, 421),           Retry(Reason::ClientError)),

    // Gone, forbidden, or never there.
    row(Robots, Status(400, 499),           Done),
    row(Robots, Payment,                    Done),
    row(All,    Payment,                    Drop(Reason::Payment)),
    row(All,    Challenge(429, 429),        BackOff(Reason::Challenge)),
    row(All,    Challenge(0, u16::MAX),     Retry(Reason::Challenge)),
    row(Image,  Status(404, 404),           Drop(Reason::Gone)),
    row(Image,  Status(410, 410),           Drop(Reason::Gone)),
    row(All,    Status(400, 499),           Drop(Reason::ClientError)),

    // 304 to an unconditional request is the fault of a cache; the other 3xx here (300 without a
    // target, 305, 306) have no target to follow.
    row(All,    Status(304, 304),           Retry(Reason::Protocol)),
    row(Robots, Status(300, 399),           Retry(Reason::BadRedirect)),
    row(All,    Status(300, 399),           Drop(Reason::BadRedirect)),

    // Not a final HTTP status (RFC 9110 section 15).
    row(All,    Status(0, u16::MAX),        Retry(Reason::Protocol)),
];

/// One row of the table.
struct OutcomeRow {
    kinds: Kinds,
    class: FailureClass,
    then: Then,
}

const fn row(kinds: Kinds, class: FailureClass, then: Then) -> OutcomeRow {
    OutcomeRow { kinds, class, then }
}

/// The tasks a row is for.
enum Kinds {
    All,
    Image,
    Robots,
}

impl Kinds {
    fn cover(&self, kind: TaskKind) -> bool {
        match self {
            All => true,
            Image => kind == TaskKind::Image,
            Robots => kind == TaskKind::Robots,
        }
    }
}

/// The failures a row is for: the variants of [`FetchFailure`], statuses by range.
enum FailureClass {
    Dns,
    PrivateAddress,
    Connection,
    Tls,
    Timeout,
    Protocol,
    Decoding,
    BadRedirect,
    TooLarge,
    Unsendable,
    NoRoom,
    /// Includes a proxy that lets nothing through.
    Local,
    Payment,
    /// A status from the first to the second number.
    Challenge(u16, u16),
    /// A status from the first to the second number.
    Status(u16, u16),
}

impl FailureClass {
    fn covers(&self, error: &FetchError) -> bool {
        match (self, &error.kind) {
            (Status(from, to), FetchFailure::Status { status, .. })
            | (Challenge(from, to), FetchFailure::Challenge { status, .. }) => {
                (from..=to).contains(&status)
            }
            _ => matches!(
                (self, &error.kind),
                (Dns, FetchFailure::Dns { .. })
                    | (PrivateAddress, FetchFailure::PrivateAddress { .. })
                    | (Connection, FetchFailure::Connection { .. })
                    | (Tls, FetchFailure::Tls { .. })
                    | (Timeout, FetchFailure::Timeout { .. })
                    | (Protocol, FetchFailure::Protocol { .. })
                    | (Decoding, FetchFailure::Decoding { .. })
                    | (BadRedirect, FetchFailure::BadRedirect { .. })
                    | (TooLarge, FetchFailure::TooLarge { .. })
                    | (Unsendable, FetchFailure::Unsendable { .. })
                    | (NoRoom, FetchFailure::NoRoom { .. })
                    | (Payment, FetchFailure::Payment { .. })
                    | (
                        Local,
                        FetchFailure::Local { .. }
                            | FetchFailure::Proxy
                            | FetchFailure::TermOver { .. }
                    )
            ),
        }
    }
}

/// What to do.
#[derive(Clone, Copy)]
enum Then {
    /// There is no such file, which is a valid answer.
    Done,
    /// Never again.
    Drop(Reason),
    /// Retry this address alone.
    Retry(Reason),
    /// Retry, and the whole host backs off.
    BackOff(Reason),
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::error::Phase;
    use super::*;

    fn status(status: u16, retry_after: Option<u64>) -> FetchError {
        let retry_after = retry_after.map(Duration::from_secs);
        FetchFailure::Status {
            status,
            retry_after,
        }
        .into()
    }

    /// One of every variant. The match below does not compile when a variant is added to
    /// `FetchFailure`, as a reminder to add it here.
    fn every_failure() -> Vec<FetchError> {
        let (host, why) = (|| String::from("example.org"), String::new);
        let all = [
            FetchFailure::Dns {
                host: host(),
                why: why(),
            },
            FetchFailure::PrivateAddress {
                host: host(),
                address: [10, 0, 0, 1].into(),
            },
            FetchFailure::Connection {
                host: host(),
                why: why(),
                unreached: false,
            },
            FetchFailure::Tls {
                host: host(),
                why: why(),
            },
            FetchFailure::Timeout {
                host: host(),
                phase: Phase::Head,
            },
            FetchFailure::Protocol {
                host: host(),
                why: why(),
            },
            FetchFailure::Decoding {
                host: host(),
                why: why(),
            },
            FetchFailure::BadRedirect {
                status: 302,
                retry_after: None,
                why: why(),
            },
            FetchFailure::TooLarge {
                cap: 1,
                declared: None,
            },
            FetchFailure::Unsendable {
                url: host(),
                why: why(),
            },
            FetchFailure::Local { why: why() },
            FetchFailure::TermOver { host: host() },
            FetchFailure::Proxy,
            FetchFailure::NoRoom { host: host() },
            FetchFailure::Payment { price: None },
            FetchFailure::Challenge {
                status: 403,
                retry_after: None,
            },
            FetchFailure::Challenge {
                status: 429,
                retry_after: None,
            },
            FetchFailure::Status {
                status: 404,
                retry_after: None,
            },
        ];
        let all = all.map(FetchError::from).to_vec();
        let mut kinds: Vec<usize> = all
            .iter()
            .map(|e| match e.kind {
                FetchFailure::Dns { .. } => 0,
                FetchFailure::PrivateAddress { .. } => 1,
                FetchFailure::Connection { .. } => 2,
                FetchFailure::Tls { .. } => 3,
                FetchFailure::Timeout { .. } => 4,
                FetchFailure::Protocol { .. } => 5,
                FetchFailure::Decoding { .. } => 6,
                FetchFailure::BadRedirect { .. } => 7,
                FetchFailure::TooLarge { .. } => 8,
                FetchFailure::Unsendable { .. } => 9,
                FetchFailure::Local { .. } => 10,
                FetchFailure::Status { .. } => 11,
                FetchFailure::Proxy => 12,
                FetchFailure::NoRoom { .. } => 13,
                FetchFailure::TermOver { .. } => 14,
                FetchFailure::Payment { .. } => 15,
                FetchFailure::Challenge { .. } => 16,
            })
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds, (0..17).collect::<Vec<_>>());
        all
    }

    #[test]
    fn every_failure_has_a_row() {
        let mut all = every_failure();
        all.extend((100..1000).map(|s| status(s, None)));
        all.extend((100..1000).map(|s| status(s, Some(1))));
        for kind in [TaskKind::Robots, TaskKind::Page, TaskKind::Image] {
            for error in &all {
                let rows = TABLE
                    .iter()
                    .filter(|r| r.kinds.cover(kind) && r.class.covers(error));
                assert!(rows.count() > 0, "{kind:?} {error}");
            }
        }
    }

    #[test]
    fn every_row_decides_something() {
        let mut all = every_failure();
        all.extend((100..1000).map(|s| status(s, None)));
        all.extend((100..1000).map(|s| status(s, Some(1))));
        let mut reached = vec![false; TABLE.len()];
        for kind in [TaskKind::Robots, TaskKind::Page, TaskKind::Image] {
            for error in &all {
                let first = TABLE
                    .iter()
                    .position(|r| r.kinds.cover(kind) && r.class.covers(error));
                reached[first.unwrap()] = true;
            }
        }
        let unreached = reached.iter().position(|r| !r);
        assert_eq!(unreached, None, "the row of this index decides nothing");
    }

    /// The guide's table, made from the one above.
    fn readable() -> String {
        let line = |row: &OutcomeRow| {
            let what = match row.class {
                Dns => "the name does not resolve".to_owned(),
                PrivateAddress => "its address is not a public internet address".to_owned(),
                Connection => "no connection, or cut".to_owned(),
                Tls => "no secure connection".to_owned(),
                Timeout => "too slow".to_owned(),
                Protocol => "invalid HTTP".to_owned(),
                Decoding => "the body cannot be decoded".to_owned(),
                BadRedirect => "a redirect without a usable target".to_owned(),
                TooLarge => "larger than the cap".to_owned(),
                Unsendable => "cannot be requested".to_owned(),
                NoRoom => "other bodies use the memory that it needs".to_owned(),
                Local => "local resource limit (ports, file descriptors)".to_owned(),
                Payment => "status 402: payment is asked for".to_owned(),
                Challenge(429, _) => "a signature is asked for, with status 429".to_owned(),
                Challenge(..) => "a signature is asked for".to_owned(),
                Status(0, u16::MAX) => "any other status".to_owned(),
                Status(from, to) if from == to => format!("status {from}"),
                Status(from, to) => format!("status {from} to {to}"),
            };
            let kind = match row.kinds {
                All => "",
                Image => ", of an image",
                Robots => ", of a robots.txt",
            };
            let (then, reason) = match row.then {
                Done => ("there are no rules", ""),
                Drop(reason) => ("drop", reason.name()),
                Retry(reason) => ("retry", reason.name()),
                BackOff(reason) => ("host waits, retry", reason.name()),
            };
            format!("| {what}{kind} | {then} | {reason} |\n")
        };
        let rows: String = TABLE.iter().map(line).collect();
        format!("| what happened | what follows | reason in the log |\n|---|---|---|\n{rows}")
    }

    #[test]
    fn the_guide_has_the_table() {
        let guide = include_str!("../guide/failures.md");
        assert!(guide.contains(&readable()), "it should be:\n{}", readable());
    }

    #[test]
    fn statuses() {
        let page = |s, after| outcome(TaskKind::Page, &status(s, after));
        let retry = |reason, after: Option<u64>, host_backs_off| Outcome::Retry {
            reason,
            retry_after: after.map(Duration::from_secs),
            host_backs_off,
        };
        let drop = |reason| Outcome::Drop { reason };
        for (s, after, expected) in [
            (404, None, drop(Reason::ClientError)),
            (410, Some(5), drop(Reason::ClientError)),
            (451, None, drop(Reason::ClientError)),
            (408, None, retry(Reason::Timeout, None, false)),
            (425, None, retry(Reason::ClientError, None, false)),
            (429, None, retry(Reason::Overloaded, None, true)),
            (
                429,
                Some(1_000_000),
                retry(Reason::Overloaded, Some(1_000_000), true),
            ),
            (503, None, retry(Reason::Overloaded, None, true)),
            (503, Some(0), retry(Reason::Overloaded, Some(0), true)),
            (500, Some(7), retry(Reason::ServerError, Some(7), true)),
            (304, None, retry(Reason::Protocol, None, false)),
            (305, None, drop(Reason::BadRedirect)),
            (999, None, retry(Reason::Protocol, None, false)),
        ] {
            assert_eq!(page(s, after), expected, "{s} {after:?}");
        }
    }

    /// Only an address that is never requested ends a robots.txt for good: otherwise a host without
    /// rules would stay closed, or open, for ever.
    #[test]
    fn robots_are_answered_or_asked_again() {
        let robots = |e: &FetchError| outcome(TaskKind::Robots, e);
        assert_eq!(robots(&status(404, None)), Outcome::Done);
        assert_eq!(robots(&status(403, None)), Outcome::Done);
        for error in every_failure() {
            match (&error.kind, robots(&error)) {
                (FetchFailure::Status { .. } | FetchFailure::Payment { .. }, Outcome::Done) => (),
                (
                    FetchFailure::PrivateAddress { .. }
                    | FetchFailure::Unsendable { .. }
                    | FetchFailure::TooLarge { .. },
                    Outcome::Drop { .. },
                ) => (),
                (_, Outcome::Retry { .. }) => (),
                (error, other) => panic!("{error}: {other:?}"),
            }
        }
        for s in [429, 500, 503, 304, 300] {
            assert!(matches!(robots(&status(s, None)), Outcome::Retry { .. }));
        }
    }
}
