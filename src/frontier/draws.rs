//! The control sample: a small share of the fetches goes to links drawn by chance instead
//! of by score, to measure the value of the score.
//!
//! # The population
//!
//! All links from pages and sitemaps that are known and not requested yet, including
//! those above the razor, which an unfocused crawl would follow as well. Each has the
//! same probability at every draw. Seeds, revisited pages and links that rules keep out
//! are excluded. The control sample thus estimates the result of the next fetch if the
//! strategy were dropped now. It does not estimate the result of a crawl that was
//! unfocused from its first page, which would know other links: the links known here are
//! on pages that this crawl chose, and the best of them have been taken.
//!
//! # The method
//!
//! Every new link is appended to a list in the store (`N`), and a draw is a random number below its
//! length. If the entry is gone for good (done, dropped), the last entry takes its place and
//! another number is drawn. An entry that is only out of reach now (leased, waiting, at a host that
//! is given up) stays. A link costs one write and a draw some reads, independent of the number of
//! links, and every draw is uniform, regardless of earlier draws. A sample by hashes of addresses
//! would be smaller but would wear out: the addresses below its threshold are drawn until only
//! recent ones are left. A site cannot make addresses that are drawn more often.
//!
//! A drawn link stays in its queue by its score, or enters the queue if it was above
//! the razor, and is *pending*: it goes before everything else at its host as soon as the
//! host's clock and rules permit, and delays no other host. The set of pending links is
//! committed with the draw. If a drawn link redirects, the final target becomes pending
//! in its place.
//!
//! # Known inaccuracies
//!
//! A link that robots rules or failures kept out, and that returns after a draw hit it, is not
//! listed again. A link that the scope lets in again may be listed twice until a draw hits it.
//! Links found while the sample was off are not listed at all.
//!
//! This module has no model: the caller of `finish` says how likely a page is on topic.

use super::control_sample::DrawnLink;
use super::intake::{Intake, verdict};
use super::keys::{self, Rank, class};
use super::ledger::Ledger;
use super::outcome::Settled;
use super::record::{State, UrlRecord};
use super::requeue::requeue;
use super::schedule::{Head, Host, Schedule};
use super::store::StoreError;
use super::transaction::{Transaction, rank_of};
use crate::address::PageUrl;
use crate::page::{Bucket, Judged, Reason, Task, TaskKind};

/// Most pending links; no more are drawn until some are finished.
const MAX_PENDING: usize = 32;

/// Most random numbers taken for one draw.
const MAX_TRIES: usize = 64;

/// Whether a listed link can be drawn.
enum Hit {
    /// It can be drawn.
    Link(Box<(PageUrl, UrlRecord)>),
    /// It cannot be drawn now.
    Out,
    /// It can never be drawn again.
    Gone,
}

/// Whether a draw is due.
pub(super) fn is_due(ledger: &Ledger) -> bool {
    let sample = &ledger.meta().sample;
    sample.share > 0.0 && sample.owed >= 1.0
}

/// Draws one due link.
pub(super) fn draw(
    tx: &mut Transaction<'_>,
    intake: &Intake<'_>,
    now: u64,
) -> Result<(), StoreError> {
    // A draw that finds no link is lost and not repeated later.
    tx.meta.sample.owed -= 1.0;
    tidy_pending(tx, intake, now)?;
    if tx.meta.sample.pending.len() < MAX_PENDING {
        draw_one(tx, intake, now)?;
    }
    Ok(())
}

pub(super) fn draw_one(
    tx: &mut Transaction<'_>,
    intake: &Intake<'_>,
    now: u64,
) -> Result<(), StoreError> {
    for _ in 0..MAX_TRIES {
        let Some(place) = tx.meta.sample.random() else {
            return Ok(());
        };
        let key = tx.get(&keys::listed(place))?.unwrap_or_default();
        let (url, record) = match hit(tx, intake, &key, now)? {
            Hit::Link(link) => *link,
            Hit::Out => continue,
            Hit::Gone => {
                tx.unlist(place)?;
                continue;
            }
        };
        let razored = matches!(record.state, State::Dropped { .. }).then_some(record.score);
        if razored.is_some() {
            requeue(tx, &key, TaskKind::Page, &url.host_key(), record)?;
        }
        pend(tx, DrawnLink { url, razored });
        return Ok(());
    }
    Ok(())
}

fn hit(tx: &Transaction<'_>, intake: &Intake<'_>, key: &[u8], now: u64) -> Result<Hit, StoreError> {
    let (Some(record), Some((url, kind))) = (tx.record(key)?, keys::url_of_key(key)) else {
        return Ok(Hit::Gone);
    };
    let host = url.host_key();
    match record.state {
        _ if record.was_fetched() => return Ok(Hit::Gone),
        State::Queued if !intake.is_leased(&host, key) => {}
        State::Dropped {
            reason: Reason::Razor,
        } => {}
        State::Queued | State::Waiting { .. } => return Ok(Hit::Out),
        _ => return Ok(Hit::Gone),
    }
    let out = record.bucket == Bucket::Seed
        || is_given_up(intake.schedule, &url, now)
        || tx.meta.sample.is_pending(&url)
        || verdict(intake.scope, &url, kind, record.hops).is_err();
    Ok(if out {
        Hit::Out
    } else {
        Hit::Link(Box::new((url, record)))
    })
}

/// Whether a host is given up for now. Only hosts with a queue are examined: no other host is given
/// up.
fn is_given_up(schedule: &Schedule, url: &PageUrl, now: u64) -> bool {
    let slot = schedule.slot(&url.host_key());
    let host = slot.and_then(|slot| schedule.host(slot));
    host.is_some_and(|host| host.record.parked_until.is_some_and(|until| until > now))
}

/// Removes pending links that ended without a request, and those of hosts that are given
/// up, so that dead hosts do not end the draws. Links above the razor are dropped again.
fn tidy_pending(tx: &mut Transaction<'_>, intake: &Intake<'_>, now: u64) -> Result<(), StoreError> {
    for drawn in std::mem::take(&mut tx.meta.sample.pending) {
        let key = keys::url(&drawn.url, TaskKind::Page);
        let host = drawn.url.host_key();
        let Some(record) = tx.record(&key)? else {
            continue;
        };
        let stays = matches!(record.state, State::Queued | State::Waiting { .. });
        let given_up = is_given_up(intake.schedule, &drawn.url, now);
        if stays && (!given_up || intake.is_leased(&host, &key)) {
            tx.meta.sample.pending.push(drawn);
        } else if record.state == State::Queued && drawn.razored == Some(record.score) {
            tx.dequeue(TaskKind::Page, &host, &record);
            tx.drop_record(&key, record, Reason::Razor)?;
        }
    }
    Ok(())
}

/// The first pending link of a host that can be requested.
pub(super) fn head_of(ledger: &Ledger, host: &Host) -> Result<Option<Head>, StoreError> {
    for drawn in &ledger.meta().sample.pending {
        if drawn.url.host_key() != host.key {
            continue;
        }
        let key = keys::url(&drawn.url, TaskKind::Page);
        let record: Option<UrlRecord> = ledger.read(&key)?;
        if let Some(record) = record
            && record.state == State::Queued
            && !host.leased.contains(&key)
        {
            let own = rank_of(&record);
            return Ok(Some(Head {
                rank: Rank::new(Bucket::Seed, 0.0, record.seq),
                class: class::PAGE,
                queue_key: keys::queue(&host.key, class::PAGE, &own),
                value: key,
            }));
        }
    }
    Ok(None)
}

/// Makes a queued link pending.
fn pend(tx: &mut Transaction<'_>, drawn: DrawnLink) {
    let key = keys::url(&drawn.url, TaskKind::Page);
    tx.put(keys::drawn(&key), Vec::new());
    tx.touch(drawn.url.host_key());
    tx.meta.sample.pending.push(drawn);
}

/// Stores the result of another rating for a pending link: its score, if that is above
/// the razor. False if the link is not pending.
pub(super) fn rerate_drawn(tx: &mut Transaction<'_>, key: &[u8], razored: Option<f64>) -> bool {
    let pending = &mut tx.meta.sample.pending;
    if pending.is_empty() {
        return false;
    }
    let Some((url, TaskKind::Page)) = keys::url_of_key(key) else {
        return false;
    };
    let Some(drawn) = pending.iter_mut().find(|drawn| drawn.url == url) else {
        return false;
    };
    drawn.razored = razored;
    true
}

/// Books a leased page task that is settled. `first` is true if the page was never
/// fetched before; `judged` is the judgement of the page, if one came.
pub(super) fn book_fetch(
    tx: &mut Transaction<'_>,
    intake: &Intake<'_>,
    task: &Task,
    first: bool,
    judged: Option<Judged>,
    settled: &Settled,
) -> Result<(), StoreError> {
    let is_link = task.kind == TaskKind::Page && task.bucket != Bucket::Seed && first;
    if is_link {
        tx.meta.sample.owed += tx.meta.sample.share;
    }
    if matches!(
        settled,
        Settled::Retrying { .. } | Settled::Postponed { .. }
    ) {
        return Ok(());
    }
    let pending = &mut tx.meta.sample.pending;
    let at = pending.iter().position(|drawn| drawn.url == task.url);
    let drawn = at.filter(|_| task.kind == TaskKind::Page);
    let drawn = drawn.map(|at| pending.remove(at));
    let counted = match settled {
        // A link that led to no page.
        Settled::Dropped { .. } => Some(None),
        _ => judged.map(Some),
    };
    match counted.filter(|_| is_link) {
        Some(page) => tx.meta.sample.curve.count(task.control, page),
        None if *settled == Settled::Redirected => pend_target(tx, intake, task, drawn)?,
        None => {}
    }
    Ok(())
}

/// Makes the target of a drawn link's redirect pending, if it was never requested.
fn pend_target(
    tx: &mut Transaction<'_>,
    intake: &Intake<'_>,
    task: &Task,
    drawn: Option<DrawnLink>,
) -> Result<(), StoreError> {
    let record = tx.record(&keys::url(&task.url, TaskKind::Page))?;
    let (Some(drawn), Some(State::Redirected { to, .. })) = (drawn, record.map(|r| r.state)) else {
        return Ok(());
    };
    let Ok(url) = PageUrl::parse(&to) else {
        return Ok(());
    };
    let key = keys::url(&url, TaskKind::Page);
    let Some(record) = tx.record(&key)? else {
        return Ok(());
    };
    if record.bucket == Bucket::Seed
        || record.was_fetched()
        || intake.is_leased(&url.host_key(), &key)
        || tx.meta.sample.is_pending(&url)
    {
        return Ok(());
    }
    match record.state {
        State::Queued => pend(tx, DrawnLink { url, ..drawn }),
        // The target was judged against the current razor with the link's score.
        State::Dropped {
            reason: Reason::Razor,
        } if intake.accepts(&url, record.hops) => {
            let razored = Some(record.score);
            requeue(tx, &key, TaskKind::Page, &url.host_key(), record)?;
            pend(tx, DrawnLink { url, razored });
        }
        _ => {}
    }
    Ok(())
}
