//! Collects as data what is known about an address or a host: why it is in its state, when
//! it is due, and which rule decided.
//!
//! The same data are collected from the store of a stopped job and from the frontier of a
//! running one; both are read through a [`View`], so explaining changes nothing. Nothing
//! is decided here: verdicts come from the scope and the robots rules in their *present*
//! form. This module knows neither the network nor how the data are printed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::address::{HostKey, PageUrl};
use crate::clock;
use crate::frontier::store::StoreError;
use crate::frontier::view::View;
use crate::frontier::{Budget, Example, GroupRecord, HostRecord, RobotsState, State, UrlRecord};
use crate::page::{LinkParts, Reason, Signal, TaskKind, Terms, Use};
use crate::topic::score::topicality::logistic;
use crate::topic::strategy::Strategy;
use crate::web::robots::Rule;
use crate::web::scope::Scope;

/// The parts of a job's configuration that are needed to explain, besides its scope.
#[derive(Clone)]
pub struct ExplainContext {
    /// The product token that robots.txt groups are matched against.
    pub agent: String,
    /// Rates links, by the configuration or as the running crawl does.
    pub strategy: Arc<dyn Strategy>,
}

impl ExplainContext {
    /// How the score of a link with these parts is computed now, with a note if it was
    /// rated differently before.
    fn formula(&self, url: &PageUrl, parts: &LinkParts, score: f64) -> String {
        let (formula, now) = (
            self.strategy.formula(url, parts),
            self.strategy.link(url, parts).0,
        );
        if now == score {
            formula
        } else {
            format!("{formula}; rated {score:.3} by the strategy and weights at that time")
        }
    }
}

/// Everything known about an address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// Its canonical form.
    pub url: PageUrl,
    /// Its SURT form, which scope rules are matched against.
    pub surt: String,
    /// Whether the job was running when this was gathered.
    pub running: bool,
    /// What is known about it as a page and as an image; empty if nothing is.
    pub known: Vec<Known>,
    /// The present verdict of the scope.
    pub scope: RuleVerdict,
    /// The verdict of the host's robots.txt; `allowed` is `None` if the rules are not
    /// known yet.
    pub robots: RuleVerdict,
    /// The terms of use that the files of its host and redirects to it state now, by place.
    #[serde(default)]
    pub stated: Vec<(String, Terms)>,
    /// The results of its prefixes, and their remaining budget.
    pub budget: Budget,
    /// Its host.
    pub host: HostReport,
}

/// What is known about an address in one of its roles.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Known {
    /// A page or an image.
    pub kind: TaskKind,
    /// Its record.
    pub record: UrlRecord,
    /// Whether it is being fetched at this moment.
    pub leased: bool,
    /// Whether it was drawn for the control sample rather than chosen by its score.
    #[serde(default)]
    pub control: bool,
    /// The earliest time for a request, in milliseconds since 1970; `None` if it is
    /// finished, dropped or leased.
    pub due: Option<u64>,
    /// How many of its kind come before it at its host, if it is queued; counted up to
    /// [`MAX_AHEAD`](crate::frontier::view::MAX_AHEAD).
    pub ahead: Option<u64>,
    /// The pages through which it was reached, nearest first, the seed last; empty
    /// for a seed.
    pub via: Vec<PageUrl>,
    /// How its score was computed, with the numbers filled in.
    pub formula: Option<String>,
    /// What a learning crawl knows about it; `None` if the crawl does not learn.
    #[serde(default)]
    pub learned: Option<LearnedLink>,
    /// The rule, limit or robots line that excludes it, if that is why it was dropped.
    pub decided_by: Option<String>,
}

/// What a learning crawl knows about a link, and its rating.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LearnedLink {
    /// How far the page turned out to be on topic, 0 to 1; set once it has been fetched.
    pub reward: Option<f64>,
    /// The probability that the page is on topic, 0 to 1, until it is fetched.
    pub likely: Option<f64>,
    /// The weight of what the crawl has learned in this probability, 0 to 1; the rest is the
    /// formula of the strategy `link`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// The parts of that probability, in order.
    pub parts: Vec<LearnedPart>,
}

/// A part of a learning crawl's rating.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LearnedPart {
    /// The name of the feature.
    pub name: String,
    /// Its value for this link.
    pub value: f64,
    /// What it adds to the log-odds of the page being on topic.
    pub adds: f64,
}

/// The verdict of a set of rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleVerdict {
    /// Whether the address may be fetched.
    pub allowed: Option<bool>,
    /// The deciding rule, in words; empty if there is none to name.
    pub by: String,
}

/// Everything known about a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostReport {
    /// Its key.
    pub host: HostKey,
    /// Whether the job was running when this was gathered.
    pub running: bool,
    /// Its clock, failures and robots state; `None` if it was never contacted.
    pub record: Option<HostRecord>,
    /// The clocks it shares with other hosts, by name; for a stopped job only those that
    /// back off.
    pub groups: Vec<(String, GroupRecord)>,
    /// Requests that are open at this moment.
    pub open: usize,
}

/// Collects what is known about an address.
///
/// # Errors
///
/// [`StoreError`] if the store fails or a record is damaged.
pub fn url(
    view: &View<'_>,
    scope: &Scope,
    terms: &ExplainContext,
    url: &PageUrl,
) -> Result<Explanation, StoreError> {
    // If a site redirects to a session's address, exactly that address is fetched.
    let canonical = match view.url(url, TaskKind::Page)? {
        Some(_) => url.clone(),
        None => scope.canonical(url).into_owned(),
    };
    let url = &canonical;
    let host = host(view, &url.host_key())?;
    let robots = robots(view, terms, url, host.record.as_ref())?;
    let mut known = Vec::new();
    for kind in [TaskKind::Page, TaskKind::Image, TaskKind::Sitemap] {
        if let Some(record) = view.url(url, kind)? {
            let role = Role {
                view,
                scope,
                terms,
                url,
                kind,
            };
            known.push(role.known(record, &robots, host.record.as_ref())?);
        }
    }
    let first = known.first();
    let kind = first.map_or(TaskKind::Page, |known| known.kind);
    let hops = first.map_or(0, |known| known.record.hops);
    Ok(Explanation {
        url: url.clone(),
        surt: url.surt(),
        running: view.is_live(),
        known,
        scope: within(scope, url, kind, hops),
        robots,
        stated: view.stated(url, kind, &terms.agent)?,
        budget: view.budget(url)?,
        host,
    })
}

/// Collects what is known about a host.
///
/// # Errors
///
/// [`StoreError`] if the store fails or the record is damaged.
pub fn host(view: &View<'_>, host: &HostKey) -> Result<HostReport, StoreError> {
    Ok(HostReport {
        host: host.clone(),
        running: view.is_live(),
        record: view.host(host)?,
        groups: view.groups(host)?,
        open: view.open_requests(host),
    })
}

/// An address as a page or as an image, with everything needed to explain it.
struct Role<'a> {
    view: &'a View<'a>,
    scope: &'a Scope,
    terms: &'a ExplainContext,
    url: &'a PageUrl,
    kind: TaskKind,
}

impl Role<'_> {
    fn known(
        &self,
        record: UrlRecord,
        robots: &RuleVerdict,
        host: Option<&HostRecord>,
    ) -> Result<Known, StoreError> {
        let leased = self.view.is_leased(self.url, self.kind);
        let queued = record.state == State::Queued && !leased;
        let due = match &record.state {
            State::Waiting { due } => Some(*due),
            // The time when the host is ready; nothing is due before that.
            State::Queued if queued => {
                Some(host.map_or(0, |h| h.due.max(h.parked_until.unwrap_or(0))))
            }
            _ => None,
        };
        let ahead = if queued {
            Some(self.view.ahead(self.url, self.kind, &record)?)
        } else {
            None
        };
        let learned = self.learned(record.parts.as_ref())?;
        Ok(Known {
            kind: self.kind,
            leased,
            control: self.view.is_control(self.url, self.kind)?,
            due,
            ahead,
            via: self.view.chain(&record)?,
            formula: match learned {
                // Its parts are listed one by one.
                Some(_) => None,
                None => {
                    let formula = |p| self.terms.formula(self.url, &p, record.score);
                    record.parts.map(formula)
                }
            },
            learned,
            decided_by: self.decided_by(&record, robots, host)?,
            record,
        })
    }

    fn learned(&self, link: Option<&LinkParts>) -> Result<Option<LearnedLink>, StoreError> {
        let Some(clues) = self.view.clues(self.url, self.kind)? else {
            return Ok(None);
        };
        if let Some(reward) = clues.reward {
            return Ok(Some(LearnedLink {
                reward: Some(f64::from(reward)),
                likely: None,
                weight: None,
                parts: Vec::new(),
            }));
        }
        // The job may use another strategy now; what it learned stays in its store.
        let Some(learning) = self.terms.strategy.learning() else {
            return Ok(None);
        };
        if learning.examples() == 0 {
            // The crawl is not running.
            let learned = self.view.learned()?;
            if let Some(snapshot) = learned.snapshot {
                learning.restore(&snapshot);
            }
            for Example { clues, reward } in learned.examples {
                learning.learn(&clues, reward);
            }
        }
        let (weight, parts) = (learning.weight(), learning.parts(&clues, link));
        let odds: f64 = parts.iter().map(|part| part.adds).sum();
        let parts = parts.into_iter().map(|part| LearnedPart {
            name: part.name.to_owned(),
            value: part.value,
            adds: part.adds,
        });
        Ok(Some(LearnedLink {
            reward: None,
            likely: Some(logistic(odds)),
            weight: Some(weight),
            parts: parts.collect(),
        }))
    }

    fn decided_by(
        &self,
        record: &UrlRecord,
        robots: &RuleVerdict,
        host: Option<&HostRecord>,
    ) -> Result<Option<String>, StoreError> {
        let State::Dropped { reason } = record.state else {
            return Ok(None);
        };
        let changed = || {
            let again = "the rules have changed since then, and now permit it";
            Some(again.to_owned())
        };
        Ok(match reason {
            Reason::Razor => Some(format!(
                "its score {:.3} is above the cutoff (razor)",
                record.score
            )),
            Reason::Robots if robots.allowed == Some(false) => Some(robots.by.clone()),
            Reason::Robots => changed(),
            Reason::Scope | Reason::Hops | Reason::Trap => {
                let verdict = within(self.scope, self.url, self.kind, record.hops);
                let image = self.kind == TaskKind::Image;
                match verdict.allowed {
                    Some(false) => Some(verdict.by),
                    _ if image && self.view.contexts(self.url)? == 0 => Some(
                        "the rules have changed since then; it is fetched when a page with it is found"
                            .to_owned(),
                    ),
                    _ => changed(),
                }
            }
            Reason::Takedown => {
                let verdict = within(self.scope, self.url, self.kind, record.hops);
                Some(match verdict.allowed {
                    Some(false) => verdict.by,
                    _ => "its bytes were taken down, or its own order has been removed from \
                          takedown.jsonl; it is not requested again"
                        .to_owned(),
                })
            }
            Reason::HostBudget => self.scope.host_documents().map(|budget| {
                let given = host.map_or(0, |h| h.documents);
                format!("its host gave {given} pages, scope.host_documents = {budget}")
            }),
            Reason::DomainBudget => {
                let host = self.url.host_key();
                let given = self.view.domain_documents(&host)?;
                let domain = host.registered_domain();
                self.scope.domain_documents().map(|budget| {
                    format!("{domain} gave {given} pages, scope.domain_documents = {budget}")
                })
            }
            Reason::PrefixBudget => {
                let prefixes = self.view.budget(self.url)?.prefixes;
                let narrow = prefixes.narrow;
                Some(format!("pages like {narrow} stopped bringing anything new"))
            }
            Reason::ListBudget => {
                let l = self.view.listing(&self.url.host_key())?;
                let (of, listed, allowed) = (l.of, l.listed, l.allowed);
                Some(format!(
                    "the sitemaps of {of} have listed {listed} of {allowed} addresses so far"
                ))
            }
            Reason::Gone => Some("there is no image at this address (404 or 410)".to_owned()),
            // An image that was never requested has no row in the log.
            Reason::Forbidden => {
                let terms = self.view.terms(self.url, &self.terms.agent)?;
                let by = terms.forbids(Use::Images, &Signal::ALL, clock::now());
                (!by.is_empty()).then(|| format!("its host says {}", by.join(", ")))
            }
            _ => None,
        })
    }
}

fn within(scope: &Scope, url: &PageUrl, kind: TaskKind, hops: u32) -> RuleVerdict {
    let verdict = match kind {
        TaskKind::Image => scope.judge_image(url).map(|()| None),
        TaskKind::Sitemap => scope.judge_sitemap(url),
        TaskKind::Page | TaskKind::Robots | TaskKind::Tdmrep | TaskKind::Rsl => {
            scope.judge_page(url, hops)
        }
    };
    match verdict {
        Ok(rule) => RuleVerdict {
            allowed: Some(true),
            by: rule.map_or(String::new(), |rule| format!("`{rule}` of scope.accept")),
        },
        Err(objection) => RuleVerdict {
            allowed: Some(false),
            by: objection.to_string(),
        },
    }
}

fn robots(
    view: &View<'_>,
    terms: &ExplainContext,
    url: &PageUrl,
    host: Option<&HostRecord>,
) -> Result<RuleVerdict, StoreError> {
    let state = host.map(|host| host.robots(url.scheme()));
    let verdict = |allowed, by: String| Ok(RuleVerdict { allowed, by });
    match state {
        None | Some(RobotsState::Unknown) => verdict(None, "not fetched yet".to_owned()),
        Some(RobotsState::Awaiting) => verdict(None, "redirected, under way".to_owned()),
        Some(RobotsState::Unreachable) => {
            let why = "it could not be fetched, so everything is forbidden until it can";
            verdict(Some(false), why.to_owned())
        }
        Some(RobotsState::Known { missing: true, .. }) => {
            verdict(Some(true), "there is none".to_owned())
        }
        Some(RobotsState::Known { .. }) => {
            let rules = view.robots(url, &terms.agent)?;
            let rule = rules.as_ref().and_then(|rules| rules.rule_for(url));
            verdict(
                Some(rule.is_none_or(Rule::allows)),
                match rule {
                    Some(rule) if rule.line() == 0 => {
                        "too many rules with stars for an address of this length".to_owned()
                    }
                    Some(rule) => format!("line {}: {rule}", rule.line()),
                    None => "no line covers it".to_owned(),
                },
            )
        }
    }
}
