//! What is known of an address and of a host, gathered as data: why it is in the
//! state it is in, when it is due, and which rule decided.
//!
//! The same questions are answered from the store of a stopped job and from the
//! frontier of a running one; both are read through a [`View`], so looking changes
//! nothing. Nothing is decided here: verdicts are asked of the scope and of the
//! robots rules, which judge by what they say *now*. This module knows neither the
//! network nor how it is printed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::address::{HostKey, PageUrl};
use crate::crawl::frontier::store::StoreError;
use crate::crawl::frontier::view::View;
use crate::crawl::frontier::{
    Budget, Example, GroupRecord, HostRecord, Instead, RobotsState, State, UrlRecord,
};
use crate::page::{LinkParts, Obeyed, Reason, TaskKind, Use};
use crate::topic::score::topicality::logistic;
use crate::topic::strategy::Strategy;
use crate::web::robots::Rule;
use crate::web::scope::Scope;

/// What of a job's configuration is needed to explain, besides its scope.
#[derive(Clone)]
pub struct Terms {
    /// Product token that robots.txt groups are matched against.
    pub agent: String,
    /// Rates links: by the configuration, or as the crawl does that is running.
    pub strategy: Arc<dyn Strategy>,
}

impl Terms {
    /// How the score of a link that is made of these parts comes about now, and how it
    /// came about before where the rating was another one then.
    fn formula(&self, url: &PageUrl, parts: &LinkParts, score: f64) -> String {
        let (formula, now) = (
            self.strategy.formula(url, parts),
            self.strategy.link(url, parts).0,
        );
        if now == score {
            formula
        } else {
            format!("{formula}; rated {score:.3} by the strategy and weights of that time")
        }
    }
}

/// All that is known of an address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// Its canonical form.
    #[schema(value_type = String)]
    pub url: PageUrl,
    /// Its SURT form, which scope rules are matched against.
    pub surt: String,
    /// Whether the job was running when this was gathered.
    pub running: bool,
    /// What is known of it as a page and as an image; empty where nothing is.
    pub known: Vec<Known>,
    /// What the scope says of it now.
    pub scope: Verdict,
    /// What the host's robots.txt says of it; `allowed` is `None` where the rules are
    /// not known yet.
    pub robots: Verdict,
    /// What the prefixes it belongs to have brought and may still cost.
    #[schema(value_type = Object)]
    pub budget: Budget,
    /// Its host.
    pub host: HostReport,
}

/// What is known of an address in one of its roles.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Known {
    /// A page or an image.
    #[schema(value_type = String)]
    pub kind: TaskKind,
    /// Its record.
    #[schema(value_type = Object)]
    pub record: UrlRecord,
    /// Whether it is being asked for at this moment.
    pub leased: bool,
    /// Whether it was drawn for the control sample, and not chosen by its score.
    #[serde(default)]
    pub control: bool,
    /// When it may be asked for at the earliest, in milliseconds since 1970; `None`
    /// for what is finished, dropped or leased.
    pub due: Option<u64>,
    /// How many of its kind stand before it at its host, where it is queued; counted
    /// up to [`MAX_AHEAD`](crate::crawl::frontier::view::MAX_AHEAD).
    pub ahead: Option<u64>,
    /// The pages through which it was reached, nearest first, the seed last; empty
    /// for a seed.
    #[schema(value_type = Vec<String>)]
    pub via: Vec<PageUrl>,
    /// How its score came about, with the numbers filled in.
    pub formula: Option<String>,
    /// What a learning crawl knows of it; `None` where it does not learn.
    #[serde(default)]
    pub learned: Option<LearnedLink>,
    /// Of an image: the address of the same picture where there was none, so that this one
    /// was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub instead_of: Option<PageUrl>,
    /// Of an image: the addresses that were tried in its place, or had come already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub replaced_by: Vec<PageUrl>,
    /// The rule, limit or robots line that keeps it out, where it is dropped for one.
    pub decided_by: Option<String>,
}

/// What a learning crawl knows of a link, and what it makes of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LearnedLink {
    /// How far the page turned out to be on topic, 0 to 1, once it was fetched.
    pub reward: Option<f64>,
    /// How likely the page is on topic, 0 to 1, while it is not fetched.
    pub likely: Option<f64>,
    /// How much what the crawl has learned weighs in that, 0 to 1; all else is the formula
    /// of the strategy `link`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// What that is made of, in order.
    pub parts: Vec<LearnedPart>,
}

/// A part of what a learning crawl makes of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LearnedPart {
    /// What is measured.
    pub name: String,
    /// Its value at this link.
    pub value: f64,
    /// What it adds to the log-odds of the page being on topic.
    pub adds: f64,
}

/// What a set of rules says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Verdict {
    /// Whether the address may be asked for.
    pub allowed: Option<bool>,
    /// What decided, in words; empty where nothing needs to be said.
    pub by: String,
}

/// All that is known of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostReport {
    /// Its key.
    #[schema(value_type = String)]
    pub host: HostKey,
    /// Whether the job was running when this was gathered.
    pub running: bool,
    /// Its clock, failures and robots state; `None` where it was never asked.
    #[schema(value_type = Option<Object>)]
    pub record: Option<HostRecord>,
    /// The clocks it shares with others, by the name of what they have in common;
    /// of a stopped job only those that back off.
    #[schema(value_type = Vec<Vec<Value>>)]
    pub groups: Vec<(String, GroupRecord)>,
    /// Requests that are open at this moment.
    pub open: usize,
}

/// Gathers what is known of an address.
///
/// # Errors
/// [`StoreError`] where the store fails or a record is damaged.
pub fn url(
    view: &View<'_>,
    scope: &Scope,
    terms: &Terms,
    url: &PageUrl,
) -> Result<Explanation, StoreError> {
    // A site that redirects to a session's address is asked at that very address.
    let canonical = match view.url(url, TaskKind::Page)? {
        Some(_) => url.clone(),
        None => scope.canonical(url),
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
        budget: view.budget(url)?,
        host,
    })
}

/// Gathers what is known of a host.
///
/// # Errors
/// [`StoreError`] where the store fails or the record is damaged.
pub fn host(view: &View<'_>, host: &HostKey) -> Result<HostReport, StoreError> {
    Ok(HostReport {
        host: host.clone(),
        running: view.is_live(),
        record: view.host(host)?,
        groups: view.groups(host)?,
        open: view.open_requests(host),
    })
}

/// An address as a page or as an image, with all that is needed to explain it.
struct Role<'a> {
    view: &'a View<'a>,
    scope: &'a Scope,
    terms: &'a Terms,
    url: &'a PageUrl,
    kind: TaskKind,
}

impl Role<'_> {
    fn known(
        &self,
        record: UrlRecord,
        robots: &Verdict,
        host: Option<&HostRecord>,
    ) -> Result<Known, StoreError> {
        let leased = self.view.is_leased(self.url, self.kind);
        let queued = record.state == State::Queued && !leased;
        let due = match &record.state {
            State::Waiting { due } => Some(*due),
            // The time when the host may be asked; nothing is due before it.
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
        let instead = match self.kind {
            TaskKind::Image => self.view.instead(self.url)?,
            _ => Instead::default(),
        };
        Ok(Known {
            instead_of: instead.of,
            replaced_by: instead.by,
            kind: self.kind,
            leased,
            control: self.view.is_control(self.url, self.kind)?,
            due,
            ahead,
            via: self.view.chain(&record)?,
            formula: match learned {
                // Its parts stand there one by one.
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
        // The job may rate otherwise now; what it learned stays in its store.
        let Some(learning) = self.terms.strategy.learning() else {
            return Ok(None);
        };
        if learning.examples() == 0 {
            // The crawl does not run.
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
        robots: &Verdict,
        host: Option<&HostRecord>,
    ) -> Result<Option<String>, StoreError> {
        let State::Dropped { reason } = record.state else {
            return Ok(None);
        };
        let changed = || {
            let again = "the rules have changed since, and permit it";
            Some(again.to_owned())
        };
        Ok(match reason {
            Reason::Razor => Some(format!("its score {:.3} is above the razor", record.score)),
            Reason::Robots if robots.allowed == Some(false) => Some(robots.by.clone()),
            Reason::Robots => changed(),
            Reason::Scope | Reason::Hops | Reason::Trap => {
                let verdict = within(self.scope, self.url, self.kind, record.hops);
                let image = self.kind == TaskKind::Image;
                match verdict.allowed {
                    Some(false) => Some(verdict.by),
                    _ if image && self.view.contexts(self.url)? == 0 => Some(
                        "the rules have changed since; it is fetched when a page with it is met"
                            .to_owned(),
                    ),
                    _ => changed(),
                }
            }
            Reason::Takedown => {
                let verdict = within(self.scope, self.url, self.kind, record.hops);
                Some(match verdict.allowed {
                    Some(false) => verdict.by,
                    _ => "its bytes were taken down, or its own order was since removed from \
                          takedown.jsonl; it is not asked for again"
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
                Some(format!("pages like {narrow} brought nothing new any more"))
            }
            Reason::ListBudget => {
                let l = self.view.listing(&self.url.host_key())?;
                let (of, listed, allowed) = (l.of, l.listed, l.allowed);
                Some(format!(
                    "the sitemaps of {of} have listed {listed} of {allowed} addresses so far"
                ))
            }
            Reason::Gone => Some("there is no image at this address (404 or 410)".to_owned()),
            // An image that is not even asked for has no row in the log.
            Reason::Forbidden => {
                let terms = self.view.terms(self.url, &self.terms.agent)?;
                let by = terms.forbids(Use::Images, &Obeyed::default());
                (!by.is_empty()).then(|| format!("its host says {}", by.join(", ")))
            }
            _ => None,
        })
    }
}

fn within(scope: &Scope, url: &PageUrl, kind: TaskKind, hops: u32) -> Verdict {
    let verdict = match kind {
        TaskKind::Image => scope.judge_image(url).map(|()| None),
        TaskKind::Sitemap => scope.judge_sitemap(url),
        TaskKind::Page | TaskKind::Robots | TaskKind::Tdmrep => scope.judge_page(url, hops),
    };
    match verdict {
        Ok(rule) => Verdict {
            allowed: Some(true),
            by: rule.map_or(String::new(), |rule| format!("`{rule}` of scope.accept")),
        },
        Err(objection) => Verdict {
            allowed: Some(false),
            by: objection.to_string(),
        },
    }
}

fn robots(
    view: &View<'_>,
    terms: &Terms,
    url: &PageUrl,
    host: Option<&HostRecord>,
) -> Result<Verdict, StoreError> {
    let state = host.map(|host| host.robots(url.scheme()));
    let verdict = |allowed, by: String| Ok(Verdict { allowed, by });
    match state {
        None | Some(RobotsState::Unknown) => verdict(None, "not asked yet".to_owned()),
        Some(RobotsState::Awaiting) => verdict(None, "redirected, under way".to_owned()),
        Some(RobotsState::Unreachable) => {
            let why = "it could not be had, so all is forbidden until it answers";
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
                        "too many rules with stars for so long an address".to_owned()
                    }
                    Some(rule) => format!("line {}: {rule}", rule.line()),
                    None => "no line speaks of it".to_owned(),
                },
            )
        }
    }
}
