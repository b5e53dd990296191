//! The control sample: a small share of the fetches goes to links that are drawn by
//! chance and not by score, so that it can be seen what the score is worth.
//!
//! # What is drawn from
//!
//! All links of pages and sitemaps that are known and not asked yet, also those above
//! the razor, which an unfocused crawl would follow as well; each with the same
//! probability at every draw. Seeds, pages that are visited again, and what rules keep
//! out are not among them. So the control sample tells what the next fetch would find
//! if the strategy were given up now. It is not what another crawl, unfocused from its
//! first page, has found by then: that would know other links. Those that this one
//! knows stand on pages that it chose, and the best of them have been taken.
//!
//! # How
//!
//! Every link that is met is put at the end of a list in the store (`N`), and a draw is
//! a random number below its length. What it hits and is gone for good (done, dropped)
//! gives its place to the last one and another number is taken; what is only out of
//! reach now (leased, waiting, at a host that is given up) keeps it. So a link costs one
//! write, a draw some reads, and both stay the same however many links there are; each
//! number is uniform, and stays so however much was drawn before. Samples by the hash of
//! an address would be smaller, but they wear out: the addresses below their threshold
//! are those that are drawn, until only what was met lately is left among them. And a
//! site cannot make itself addresses that are drawn more often.
//!
//! A link that is drawn stays in its queue by its score, or enters it where it lay above
//! the razor, and is *pending*: it goes before everything else at its host as soon as
//! the host's clock and rules permit, and holds up no other host. Which are pending is
//! committed with the draw. Where a drawn link redirects, what stands at the end of the
//! redirects is pending in its stead.
//!
//! # What is not exact
//!
//! A link that robots rules or failures kept out, and that comes back after a draw hit
//! it, is not listed again; one that the scope lets in again may be listed twice until a
//! draw hits it. Links that were met while the sample was off are not listed at all.
//!
//! This module has no model: the caller of `finish` says how likely a page is on topic.

use super::control_sample::Drawn;
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

/// Links that are drawn and not finished at most; no more are drawn until some are.
const MAX_PENDING: usize = 32;

/// Random numbers taken for one draw at most.
const MAX_TRIES: usize = 64;

/// What a listed link is to a draw.
enum Hit {
    /// It can be drawn.
    Link(Box<(PageUrl, UrlRecord)>),
    /// It cannot be drawn now.
    Out,
    /// It will never be a link to be drawn again.
    Gone,
}

/// Whether a draw is due.
pub(super) fn is_due(ledger: &Ledger) -> bool {
    let sample = &ledger.meta().sample;
    sample.share > 0.0 && sample.owed >= 1.0
}

/// Draws one of the links that are due.
pub(super) fn draw(
    tx: &mut Transaction<'_>,
    intake: &Intake<'_>,
    now: u64,
) -> Result<(), StoreError> {
    // A turn without a link is lost: it is not made up for later.
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
        pend(tx, Drawn { url, razored });
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

/// Whether a host is given up for now. Only those with a queue are looked at: of
/// others none is.
fn is_given_up(schedule: &Schedule, url: &PageUrl, now: u64) -> bool {
    let slot = schedule.slot(&url.host_key());
    let host = slot.and_then(|slot| schedule.host(slot));
    host.is_some_and(|host| host.record.parked_until.is_some_and(|until| until > now))
}

/// Forgets the pending links that ended without being asked, and those of hosts that
/// are given up, so that dead hosts do not end the draws; what was above the razor is
/// so again.
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

/// The first pending link of a host that can be asked for.
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
fn pend(tx: &mut Transaction<'_>, drawn: Drawn) {
    let key = keys::url(&drawn.url, TaskKind::Page);
    tx.put(keys::drawn(&key), Vec::new());
    tx.touch(drawn.url.host_key());
    tx.meta.sample.pending.push(drawn);
}

/// Notes of a pending link what another rating makes of it: its score, where that is
/// above the razor. False where the link is not pending.
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

/// Books a page task that was leased and is settled. `first` is true where it was
/// never fetched before, and `judged` what is said of the page, where one came.
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

/// Makes pending where a drawn link redirects to, where that was never asked.
fn pend_target(
    tx: &mut Transaction<'_>,
    intake: &Intake<'_>,
    task: &Task,
    drawn: Option<Drawn>,
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
        State::Queued => pend(tx, Drawn { url, ..drawn }),
        // The razor in force has judged it by the score of the link.
        State::Dropped {
            reason: Reason::Razor,
        } if intake.accepts(&url, record.hops) => {
            let razored = Some(record.score);
            requeue(tx, &key, TaskKind::Page, &url.host_key(), record)?;
            pend(tx, Drawn { url, razored });
        }
        _ => {}
    }
    Ok(())
}
