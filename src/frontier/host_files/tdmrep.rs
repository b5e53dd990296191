//! `/.well-known/tdmrep.json` in the frontier: when it is requested, and which part of it
//! is stored (TDM Reservation Protocol, W3C Community Group).
//!
//! It is requested before a host's first page or image, separately for each scheme, and
//! again when it has reached the maximum age of robots rules. The host's clock applies to
//! it as to any request, and it is not requested where robots.txt forbids it.
//!
//! | answer | means |
//! |---|---|
//! | 2xx | these are the rules; if they are unreadable, all is reserved |
//! | 3xx to the same host and scheme | it is there; followed five times in a row |
//! | none, or a temporary failure (5xx, 429) | requested again, five times in a row; what was known stays valid, at first all is reserved |
//! | all else | nothing is said |
//!
//! A redirect to another host is not followed: that host has its own file, which covers pages that
//! moved there. Unlike with robots.txt, pages are requested while the file is unavailable, because
//! their links are followed even if all is reserved. If the name of the host could not be resolved,
//! nothing was requested, and the request is still due.

use serde::{Deserialize, Serialize};

use crate::address::HostKey;
use crate::codec;
use crate::keys;
use crate::outcome::Settled;
use crate::page::{Obeyed, Outcome, Reason};
use crate::policy::Policy;
use crate::settings;
use crate::store::{Store, StoreError};
use crate::web::robots::{TDMREP_PATH, TdmRule, parse_tdmrep, reserve_all};

/// Most redirects and retries in a row; the protocol names no number, so it is that of robots.txt.
const MAX_REDIRECTS: u8 = 5;

/// The stored state of a host's file, for one scheme.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TdmRecord {
    /// Time of the request, in milliseconds since 1970.
    pub at: u64,
    /// Where it is still to be requested: the target of a redirect on the same host, or the address
    /// that did not answer.
    pub moved: Option<String>,
    /// Redirects and retries so far.
    pub redirects: u8,
    /// Its rules, in the order of the file.
    pub rules: Vec<TdmRule>,
}

impl Policy {
    /// The same, with the signals that `section` obeys. `keeps` is whether the job keeps
    /// anything that a reservation could apply to.
    pub fn with_consent(self, section: &settings::Consent, keeps: bool) -> Self {
        Self {
            tdmrep: section.tdmrep && keeps,
            obeyed: obeyed(section),
            ..self
        }
    }
}

/// The terms of use that the section obeys.
pub fn obeyed(section: &settings::Consent) -> Obeyed {
    let obeys = |signal| section.obey.contains(&signal);
    Obeyed {
        robots: obeys(settings::Signal::Robots),
        tdm: obeys(settings::Signal::Tdm),
        content_signals: obeys(settings::Signal::ContentSignal),
    }
}

impl TdmRecord {
    /// The stored state of a host's file. Read for every page and image: most hosts have
    /// no file, and their records have a few bytes.
    pub fn of(store: &dyn Store, host: &HostKey, scheme: &str) -> Result<Option<Self>, StoreError> {
        codec::get(store, &keys::tdmrep(host, scheme))
    }

    /// The state after an outcome, and the result of the task. `self` is the previous
    /// state, `asked` the requested address and the number of redirects.
    pub fn after(
        self,
        (host, scheme, redirects): (&HostKey, &str, u8),
        outcome: &Outcome,
        body: &[u8],
        now: u64,
    ) -> (Settled, Self) {
        let known = Self {
            at: now,
            ..Self::default()
        };
        // A server that is down for an hour does not lift a reservation.
        let earlier = if self.at == 0 {
            reserve_all()
        } else {
            self.rules
        };
        let again = |address: String| Self {
            moved: Some(address).filter(|_| redirects < MAX_REDIRECTS),
            redirects: redirects + 1,
            rules: earlier,
            ..known.clone()
        };
        match outcome {
            Outcome::Done => match parse_tdmrep(body) {
                Ok(rules) => (Settled::Done, Self { rules, ..known }),
                Err(error) => {
                    tracing::warn!(
                        "{scheme}://{host}{TDMREP_PATH}: {error}; all its pages count as reserved"
                    );
                    let rules = reserve_all();
                    (dropped(Reason::Protocol), Self { rules, ..known })
                }
            },
            Outcome::Redirect { to } if to.host_key() == *host && to.scheme() == scheme => {
                let known = again(to.as_str().to_owned());
                let settled = match known.moved {
                    Some(_) => Settled::Redirected,
                    None => dropped(Reason::BadRedirect),
                };
                (settled, known)
            }
            Outcome::Redirect { .. } => (dropped(Reason::BadRedirect), known),
            Outcome::Unchanged => (dropped(Reason::Protocol), known),
            Outcome::Retry { reason, .. } => {
                let own = || format!("{scheme}://{host}{TDMREP_PATH}");
                (dropped(*reason), again(self.moved.unwrap_or_else(own)))
            }
            Outcome::Drop { reason } => (dropped(*reason), known),
        }
    }

    /// The next request for the file, with the redirects so far; `None` while the stored
    /// state is valid. `known` is the stored state.
    pub fn next_request(
        known: Option<Self>,
        host: &HostKey,
        scheme: &str,
        policy: &Policy,
        now: u64,
    ) -> Option<(String, u8)> {
        match known {
            Some(Self {
                moved: Some(moved),
                redirects,
                ..
            }) => Some((moved, redirects)),
            Some(known) if now < known.at.saturating_add(policy.robots_max_age) => None,
            _ => Some((format!("{scheme}://{host}{TDMREP_PATH}"), 0)),
        }
    }
}

fn dropped(reason: Reason) -> Settled {
    Settled::Dropped { reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::PageUrl;
    use crate::policy::test_policy;

    fn reserved() -> TdmRecord {
        let body = br#"[{"location": "/", "tdm-reservation": 1}]"#;
        let rules = parse_tdmrep(body).unwrap();
        assert!(!rules.is_empty());
        TdmRecord {
            at: 1,
            rules,
            ..TdmRecord::default()
        }
    }

    #[test]
    fn trouble_keeps_what_was_reserved_and_an_answer_replaces_it() {
        let host = PageUrl::parse("http://a.example/").unwrap().host_key();
        let after =
            |outcome: Outcome, body: &[u8]| reserved().after((&host, "http", 0), &outcome, body, 7);
        let (settled, known) = after(Outcome::Done, b"[]");
        assert_eq!((settled, known.rules.len()), (Settled::Done, 0));
        let reason = Reason::Overloaded;
        let down = Outcome::Retry {
            reason,
            retry_after: None,
            host_backs_off: true,
        };
        let (settled, known) = after(down, b"");
        assert_eq!(settled, Settled::Dropped { reason });
        assert_eq!((known.at, known.redirects), (7, 1));
        assert_eq!(known.rules, reserved().rules);
        let own = format!("http://a.example{TDMREP_PATH}");
        assert_eq!(known.moved, Some(own));
        let (settled, known) = after(Outcome::Done, b"[{");
        let reason = Reason::Protocol;
        assert_eq!(settled, Settled::Dropped { reason });
        assert_eq!((known.moved, known.rules), (None, reserve_all()));
        let (_, known) = after(
            Outcome::Drop {
                reason: Reason::Gone,
            },
            b"",
        );
        assert!(known.rules.is_empty(), "a file that is gone says nothing");
    }

    #[test]
    fn redirects_are_followed_on_the_host_and_end() {
        let host = PageUrl::parse("http://a.example/").unwrap().host_key();
        let to = PageUrl::parse("http://a.example/tdm").unwrap();
        let outcome = Outcome::Redirect { to: to.clone() };
        let mut known = reserved();
        for redirects in 0..MAX_REDIRECTS {
            let asked = (&host, "http", redirects);
            let settled;
            (settled, known) = known.after(asked, &outcome, b"", 7);
            assert_eq!(settled, Settled::Redirected);
            let next =
                TdmRecord::next_request(Some(known.clone()), &host, "http", &test_policy(), 7);
            assert_eq!(next, Some((to.as_str().to_owned(), redirects + 1)));
        }
        let asked = (&host, "http", MAX_REDIRECTS);
        let (settled, known) = known.after(asked, &outcome, b"", 7);
        let reason = Reason::BadRedirect;
        assert_eq!(settled, Settled::Dropped { reason });
        assert_eq!(known.moved, None);
        // Requested again at the maximum age of robots rules.
        let policy = test_policy();
        let at = |now| TdmRecord::next_request(Some(known.clone()), &host, "http", &policy, now);
        assert_eq!(at(7), None);
        let own = format!("http://a.example{TDMREP_PATH}");
        assert_eq!(at(7 + policy.robots_max_age), Some((own, 0)));
    }
}
