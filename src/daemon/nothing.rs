//! Explains why a crawl has fetched no page at all: the result of each seed, in words.

use std::collections::HashMap;

use crate::address::{HostKey, PageUrl};
use crate::clock::now;
use crate::explain::{self, ExplainContext, Explanation};
use crate::frontier::store::StoreError;
use crate::frontier::{Cells, RobotsState, State};
use crate::outputs::Row;
use crate::page::{Reason, TaskKind};

/// The most failures that are kept; if there are more and still no page, there are enough dead
/// seeds to report.
const MOST_TROUBLES: usize = 1_000;

/// The most seeds that are examined.
const MOST_SEEDS: usize = 1_000;

/// The most redirects that are followed to the address that failed.
const MOST_REDIRECTS: usize = 20;

/// A seed that yielded no page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fruitless {
    /// The seed.
    pub url: PageUrl,
    /// Why, in words.
    pub why: String,
}

/// The failures before the first page.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    /// The last failure of each address.
    urls: HashMap<String, String>,
    /// The last failure of each host's robots.txt.
    robots: HashMap<HostKey, String>,
}

impl Troubles {
    /// Records a failure, as long as no page was fetched.
    pub fn observe(&mut self, frontier: &Cells, row: Option<&Row<'_>>) {
        let Some(row) = row.filter(|_| frontier.counts().documents == 0) else {
            return;
        };
        if self.urls.len() + self.robots.len() >= MOST_TROUBLES || row.reason.is_none() {
            return;
        }
        let why = match (row.error, row.status) {
            (Some(error), _) => error.to_owned(),
            (None, Some(status)) => format!("the server answered with status {status}"),
            (None, None) => return,
        };
        match row.kind {
            TaskKind::Robots => {
                if let Ok(url) = PageUrl::parse(row.url) {
                    self.robots.insert(url.host_key(), why);
                }
            }
            TaskKind::Page => {
                self.urls.insert(row.url.to_owned(), why);
            }
            TaskKind::Tdmrep | TaskKind::Rsl | TaskKind::Image | TaskKind::Sitemap => {}
        }
    }

    /// Why each of these seeds yielded no page.
    pub fn of_seeds(
        &self,
        frontier: &Cells,
        terms: &ExplainContext,
        seeds: &[PageUrl],
    ) -> Result<Vec<Fruitless>, StoreError> {
        let seeds = seeds.iter().take(MOST_SEEDS);
        let fruitless = seeds.map(|url| {
            let why = self.of(frontier, terms, url)?;
            let url = url.clone();
            Ok(Fruitless { url, why })
        });
        fruitless.collect()
    }

    fn of(
        &self,
        frontier: &Cells,
        terms: &ExplainContext,
        url: &PageUrl,
    ) -> Result<String, StoreError> {
        let mut at = url.clone();
        for _ in 0..MOST_REDIRECTS {
            let view = frontier.of_host(&at.host_key())?.view();
            let explanation = explain::url(&view, frontier.scope(), terms, &at)?;
            let page = explanation.known.iter().find(|k| k.kind == TaskKind::Page);
            let Some(page) = page else {
                return Ok("the crawl does not know it".to_owned());
            };
            let why = match &page.record.state {
                State::Redirected { to, .. } => match PageUrl::parse(to) {
                    Ok(next) => {
                        at = next;
                        continue;
                    }
                    Err(_) => format!("it redirects to {to}"),
                },
                State::Done { .. } => "it was fetched, but it is not a page".to_owned(),
                State::Dropped { reason } => {
                    let decided = page.decided_by.clone();
                    self.dropped(&explanation, *reason, decided)
                }
                State::Queued | State::Waiting { .. } => self.unanswered(&explanation, page.due),
            };
            return Ok(if at == *url {
                why
            } else {
                format!("it redirects to {at}: {why}")
            });
        }
        Ok("it redirects too often".to_owned())
    }

    fn dropped(&self, of: &Explanation, reason: Reason, decided: Option<String>) -> String {
        let seen = self.urls.get(of.url.as_str()).cloned();
        let detail = decided.or(seen);
        match (reason, detail) {
            (Reason::Robots, Some(line)) => format!("robots.txt forbids it ({line})"),
            (Reason::Scope | Reason::Hops | Reason::Trap, Some(why)) => {
                format!("[scope] keeps it out: {why}")
            }
            (_, Some(why)) => why,
            (Reason::ClientError, None) => "the server answered that there is no such page, or \
                that it may not be read (status 400 to 499)"
                .to_owned(),
            (reason, None) => format!("it was given up: {}", reason.name().replace('_', " ")),
        }
    }

    /// Why something that may still succeed has not done so yet.
    fn unanswered(&self, of: &Explanation, due: Option<u64>) -> String {
        let host = of.url.host_key();
        let robots = of.host.record.as_ref().map(|h| h.robots(of.url.scheme()));
        let known = self.urls.get(of.url.as_str());
        let mut why = match (known, self.robots.get(&host), robots) {
            (Some(why), ..) => why.clone(),
            (None, Some(why), _) => format!("its robots.txt cannot be fetched: {why}"),
            (None, None, Some(RobotsState::Unreachable)) => {
                "its robots.txt could not be fetched, and nothing else is requested before it is"
                    .to_owned()
            }
            _ => "it was not requested yet".to_owned(),
        };
        let wait = due.map_or(0, |due| due.saturating_sub(now()));
        if wait > 0 {
            why.push_str(&format!(
                "; the next attempt is possible in {}",
                rough(wait)
            ));
        }
        why
    }
}

/// A duration in milliseconds, in rounded words.
fn rough(millis: u64) -> String {
    match millis.div_ceil(1000) {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7_199 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h", seconds.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::rough;

    #[test]
    fn times_are_said_in_the_unit_that_fits() {
        for (millis, expected) in [
            (1, "1 s"),
            (119_000, "119 s"),
            (120_000, "2 min"),
            (7_100_000, "119 min"),
            (86_400_000, "24 h"),
        ] {
            assert_eq!(rough(millis), expected);
        }
    }
}
