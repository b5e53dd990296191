//! The guarantees of the frontier.
//!
//! Most tests use a store in memory, because the frontier needs only what the conformance suite in
//! `store` tests for every backend. Tests that depend on the disk run with both backends: restarts
//! and crashes, damage, exports and one long history.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::keys::Rank;
use super::policy::test_policy;
use super::record::{FORMAT, Meta};
use super::store::tests::Backend;
use super::store::{Store, StoreError};
use super::*;
use crate::address::{HostKey, PageUrl};
use crate::config::Config;
use crate::page::{
    Bucket, ImageContext, ImageScores, ImageTexts, LinkParts, Outcome, Reason, Task, TaskKind,
};
use crate::settings::StoreKind;
use crate::web::robots::Robots;
use crate::web::scope::Scope;

thread_local! {
    /// The backend of the stores that a test opens; each test has its thread.
    static BACKEND: Cell<Backend> = const { Cell::new(Backend::Memory) };
    /// The share of the control sample of the frontiers that it opens.
    static SHARE: Cell<f64> = const { Cell::new(0.0) };
}

/// Runs a check once for each backend on a disk, as two tests.
macro_rules! over_all {
    ($($name:ident)*) => {$(
        mod $name {
            use super::*;
            #[test]
            fn sled() {
                BACKEND.set(Backend::Disk(StoreKind::Sled));
                super::$name();
            }
            #[test]
            fn fjall() {
                BACKEND.set(Backend::Disk(StoreKind::Fjall));
                super::$name();
            }
        }
    )*};
}

mod alts;
mod clock_skew;
mod content_index;
mod control_sample;
mod damage;
mod group_clocks;
mod heads;
mod images;
pub(crate) mod learning;
mod promises;
mod rescope;
mod rescore;
mod robots_recheck;
mod sitemaps;
mod state_machine;
mod takedown;
mod tdmrep;

over_all! {
    retry_after_survives_a_restart
    another_format_is_refused
    an_export_holds_everything
    damage_is_found_and_repaired
}

mod recrawl;

const SECOND: Duration = Duration::from_millis(100);

fn url(text: &str) -> PageUrl {
    PageUrl::parse(text).unwrap()
}

/// The store of the only cell.
fn open_store(path: &Path) -> Result<Box<dyn Store>, StoreError> {
    only(BACKEND.get().open(path)?)
}

fn open_with(path: &Path, scope: &str, now: u64) -> Frontier {
    let text = format!("[job]\nname = \"test\"\n[scope]\n{scope}");
    let scope = Scope::new(Config::parse(&text, "test.toml").unwrap().settings.scope);
    let store = open_store(path).unwrap();
    let (share, seed) = (SHARE.get(), 1);
    let control = SampleSettings { share, seed };
    let policy = Policy {
        control,
        ..test_policy()
    };
    Frontier::open(store, policy, scope, now).unwrap()
}

fn open(path: &Path, now: u64) -> Frontier {
    open_with(path, "", now)
}

fn page(address: &str, score: f64) -> NewTask {
    let bucket = match score {
        s if s <= 600.0 => Some(Bucket::High),
        s if s <= 30_000.0 => Some(Bucket::Low),
        _ => None,
    };
    NewTask {
        url: url(address),
        bucket,
        score,
        parts: None,
        anchor: None,
        clues: None,
    }
}

pub(super) fn image(address: &str, page: &str, score: f64) -> NewImage {
    NewImage {
        url: url(address),
        bucket: (score <= 30_000.0).then_some(Bucket::High),
        score,
        context: ImageContext {
            page: url(page),
            page_title: None,
            page_language: None,
            page_recognised_language: None,
            document_perplexity: score,
            declared_width: None,
            declared_height: None,
            terms: Default::default(),
            embedding: Default::default(),
            texts: ImageTexts::default(),
            scores: ImageScores::default(),
            rank: 1.0,
        },
    }
}

fn finish(f: &mut Frontier, task: &Task, outcome: Outcome, effects: Effects, now: u64) -> Settled {
    let stamp = f.stamp();
    f.finish(task, outcome, effects, SECOND, now, |_| {
        Ok::<_, StoreError>(Written {
            stamp,
            note: Some("here".to_owned()),
            first_of: None,
            body: None,
        })
    })
    .unwrap()
    .settled
}

fn done(f: &mut Frontier, task: &Task, links: Vec<NewTask>, now: u64) {
    let effects = Effects {
        links,
        ..Effects::default()
    };
    finish(f, task, Outcome::Done, effects, now);
}

fn robots(f: &mut Frontier, task: &Task, answer: RobotsAnswer, now: u64) -> Settled {
    assert_eq!(task.kind, TaskKind::Robots);
    let stamp = f.stamp();
    f.finish_robots(task, answer, SECOND, now, |_| Ok::<_, StoreError>(stamp))
        .unwrap()
}

/// Leases at `now`; robots.txt tasks on the way answer that there is none.
fn lease(f: &mut Frontier, now: &mut u64) -> Option<Task> {
    loop {
        match f.lease(*now).unwrap() {
            Some(task) if task.kind == TaskKind::Robots => {
                robots(f, &task, RobotsAnswer::Missing, *now);
            }
            Some(task) => return Some(task),
            None => match f.next_event() {
                Some(at) if at > *now => *now = at,
                _ => return None,
            },
        }
    }
}

/// Invariants of the stored state.
fn check(f: &Frontier) {
    let mut states: BTreeMap<Vec<u8>, UrlRecord> = BTreeMap::new();
    let mut queued = BTreeSet::new();
    let mut waiting = BTreeSet::new();
    let each = |prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])| {
        f.ledger
            .store()
            .scan(prefix, &[], &mut |k, v| {
                visit(k, v);
                ControlFlow::Continue(())
            })
            .unwrap();
    };
    each(b"U", &mut |k, v| {
        states.insert(k.to_vec(), postcard::from_bytes(v).unwrap());
    });
    each(b"Q", &mut |k, v| {
        if v.starts_with(b"U") {
            assert!(
                queued.insert(v.to_vec()),
                "queued twice: {}",
                k.escape_ascii()
            );
        }
    });
    each(b"W", &mut |_, v| assert!(waiting.insert(v.to_vec())));
    let mut counts = Counts::default();
    for (key, record) in &states {
        let is_image = url_kind(key) == TaskKind::Image;
        assert_eq!(queued.contains(key), record.state == State::Queued);
        assert_eq!(
            waiting.contains(key),
            matches!(record.state, State::Waiting { .. })
        );
        let visited = record.visit.as_ref();
        counts.watched += u64::from(visited.is_some_and(|v| v.due.is_some()));
        let earlier = visited.is_some_and(|v| v.visits > 0);
        counts.documents += u64::from(earlier && !matches!(record.state, State::Done { .. }));
        match &record.state {
            State::Queued if is_image => counts.queued_images += 1,
            State::Queued => counts.queued[record.bucket as usize] += 1,
            State::Waiting { .. } => counts.waiting += 1,
            State::Done { .. } if is_image => counts.images += 1,
            State::Done { .. } if url_kind(key) == TaskKind::Sitemap => counts.sitemaps += 1,
            State::Done { .. } => counts.documents += 1,
            State::Redirected { .. } => {}
            State::Dropped { reason } => *counts.dropped.entry(*reason).or_default() += 1,
        }
    }
    let audit = consistency::check(f.ledger.store()).unwrap();
    assert!(audit.is_sound(), "{audit:?}");
    assert_eq!(audit.urls, states.len() as u64);
    heads::check_heads(f);
    let mut known = f.counts().clone();
    known.dropped.retain(|_, n| *n > 0);
    (counts.fetches, counts.bytes) = (known.fetches, known.bytes);
    assert_eq!(known, counts);
    assert_eq!(queued.len() + waiting.len(), {
        let open = |r: &&UrlRecord| matches!(r.state, State::Queued | State::Waiting { .. });
        states.values().filter(open).count()
    });
}

/// The lines of an export, except the counters.
fn exported(store: &dyn store::Readable) -> (Vec<String>, dump::Found) {
    let mut out = Vec::new();
    let found = dump::write(store, &mut out, Path::new("test.jsonl")).unwrap();
    let lines = String::from_utf8(out).unwrap();
    (lines.lines().map(str::to_owned).collect(), found)
}

fn imported(lines: &[String], path: &Path) -> Box<dyn Store> {
    let mut store = open_store(path).unwrap();
    let text = lines.join("\n") + "\n";
    let file = Path::new("test.jsonl");
    dump::restore(&mut *store, &mut text.as_bytes(), file).unwrap();
    store
}

/// A frontier with tasks in every state.
fn busy(path: &Path) -> Frontier {
    let mut f = open(path, 0);
    let mut now = 0;
    let seeds = ["http://s.org/1", "http://s.org/2", "http://s.org/3"];
    f.add_seeds(&seeds.map(url), 0).unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    let effects = Effects {
        links: vec![
            page("http://a.org/x", 10.0),
            page("http://a.org/y", 90_000.0),
        ],
        images: vec![image("http://i.org/a.jpg", task.url.as_str(), 10.0)],
        ..Effects::default()
    };
    finish(&mut f, &task, Outcome::Done, effects, now);
    for outcome in [
        Outcome::Redirect {
            to: url("http://b.org/z"),
        },
        Outcome::Retry {
            reason: Reason::Protocol,
            retry_after: None,
            host_backs_off: false,
        },
    ] {
        let task = lease(&mut f, &mut now).unwrap();
        finish(&mut f, &task, outcome, Effects::default(), now);
    }
    f.add_seeds(&[url("http://r.org/")], now).unwrap();
    let task = loop {
        match f.lease(now).unwrap() {
            Some(task) if task.kind == TaskKind::Robots => break task,
            Some(task) => f.abandon(&task, now).unwrap(),
            None => now = f.next_event().unwrap(),
        }
    };
    let to = url("http://elsewhere.org/robots.txt");
    robots(&mut f, &task, RobotsAnswer::Redirect(to), now);
    check(&f);
    f
}

fn an_export_holds_everything() {
    let folder = tempfile::tempdir().unwrap();
    let f = busy(&folder.path().join("first"));
    let (lines, found) = exported(f.ledger.store());
    assert_eq!((found.damaged_count, found.cut_short), (0, None));
    for fact in ["meta", "host", "url", "context", "document", "errand"] {
        let tag = format!("{{\"fact\":\"{fact}\"");
        assert!(lines.iter().any(|l| l.starts_with(&tag)), "no {fact}");
    }
    let store = imported(&lines, &folder.path().join("second"));
    assert!(consistency::check(&*store).unwrap().is_sound());
    assert_eq!(exported(&*store).0[1..], lines[1..]);
    drop(store);
    let second = open(&folder.path().join("second"), 1);
    assert_eq!(second.counts(), f.counts());
    check(&second);
    let broken = [lines[0].clone(), "{\"fact\":\"url\"}".to_owned()].join("\n");
    let mut third = open_store(&folder.path().join("third")).unwrap();
    let file = Path::new("broken.jsonl");
    let error = dump::restore(&mut *third, &mut broken.as_bytes(), file).unwrap_err();
    assert!(error.to_string().starts_with("broken.jsonl:2:"), "{error}");
    // A line without an end is not read completely.
    let endless = std::io::Read::chain(
        std::io::Cursor::new(format!("{}\n\"", lines[0])),
        std::io::repeat(b'x'),
    );
    let mut endless = std::io::BufReader::new(endless);
    let mut fourth = open_store(&folder.path().join("fourth")).unwrap();
    let error = dump::restore(&mut *fourth, &mut endless, file)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("broken.jsonl:2: it is longer than 8388608 bytes"),
        "{error}"
    );
}

fn damage_is_found_and_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = busy(&folder.path().join("first"));
    let key = keys::url(&url("http://a.org/x"), TaskKind::Page);
    let mut batch = store::Batch::default();
    batch.put(key.clone(), vec![0xff; 3]);
    let stray = keys::queue(
        &url("http://q.org/").host_key(),
        1,
        &Rank::new(Bucket::Low, 1.0, 99),
    );
    batch.put(stray, key);
    batch.put(b"M".to_vec(), vec![0xff; 40]);
    f.ledger.store_mut().apply(batch).unwrap();
    let audit = consistency::check(f.ledger.store()).unwrap();
    let named = audit.problems.join("\n");
    for part in [
        "counters cannot be read",
        "x: the record cannot be read",
        "q.org",
    ] {
        assert!(named.contains(part), "{part} in {named}");
    }
    let (lines, found) = exported(f.ledger.store());
    assert_eq!(found.damaged_count, 2, "{found:?}");
    let store = imported(&lines, &folder.path().join("second"));
    assert!(consistency::check(&*store).unwrap().is_sound());
    drop(store);
    let mut mended = open(&folder.path().join("second"), 1);
    check(&mended);
    let record = mended
        .look_up(&url("http://s.org/1"), TaskKind::Page)
        .unwrap();
    assert!(matches!(record.unwrap().state, State::Done { .. }));
    let before = mended.counts().queued_pages();
    mended.add_seeds(&[url("http://new.org/")], 1).unwrap();
    assert_eq!(mended.counts().queued_pages(), before + 1);
    check(&mended);
}

fn url_kind(key: &[u8]) -> TaskKind {
    keys::url_of_key(key).unwrap().1
}

#[test]
fn robots_first_then_the_best_over_all_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    f.add_seeds(&[url("http://seed.org/")], 0).unwrap();
    let task = f.lease(0).unwrap().unwrap();
    assert_eq!(task.kind, TaskKind::Robots);
    assert_eq!(task.url, url("http://seed.org/robots.txt"));
    assert_eq!(f.lease(0).unwrap(), None, "one request a host");
    robots(&mut f, &task, RobotsAnswer::Missing, 10);
    assert_eq!(
        f.lease(500).unwrap(),
        None,
        "the clock holds after robots.txt too"
    );
    assert_eq!(f.next_event(), Some(1_010));
    let task = f.lease(1_010).unwrap().unwrap();
    assert_eq!(
        (task.url.as_str(), task.bucket),
        ("http://seed.org/", Bucket::Seed)
    );
    let links = vec![
        page("http://a.org/low", 20_000.0),
        page("http://b.org/second", 300.0),
        page("http://c.org/first", 200.0),
        page("http://c.org/third", 300.0),
        page("http://d.org/never", 40_000.0),
    ];
    done(&mut f, &task, links, 1_020);
    let mut now = 100_000;
    let mut order = Vec::new();
    while let Some(task) = lease(&mut f, &mut now) {
        assert_eq!(task.via, Some(url("http://seed.org/")));
        assert_eq!(task.hops, 1);
        order.push(task.url.path().to_owned());
        done(&mut f, &task, vec![], now);
        now += 10_000;
    }
    assert_eq!(order, ["/first", "/second", "/third", "/low"]);
    let razored = f
        .look_up(&url("http://d.org/never"), TaskKind::Page)
        .unwrap();
    let reason = Reason::Razor;
    assert_eq!(razored.unwrap().state, State::Dropped { reason });
    assert!(f.is_exhausted());
    check(&f);
}

#[test]
fn a_better_link_lifts_and_a_worse_one_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 0;
    f.add_seeds(&[url("http://s.org/1"), url("http://s.org/2")], 0)
        .unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    let links = vec![
        page("http://a.org/x", 50_000.0),
        page("http://a.org/y", 9_000.0),
    ];
    done(&mut f, &task, links, now);
    let task = lease(&mut f, &mut now).unwrap();
    let links = vec![
        page("http://a.org/x", 100.0),
        page("http://a.org/y", 10_000.0),
        page("http://a.org/x", 200.0),
        page("http://s.org/1", 1.0),
    ];
    done(&mut f, &task, links, now);
    check(&f);
    let x = f
        .look_up(&url("http://a.org/x"), TaskKind::Page)
        .unwrap()
        .unwrap();
    assert_eq!(
        (x.state, x.score, x.bucket),
        (State::Queued, 100.0, Bucket::High)
    );
    let y = f
        .look_up(&url("http://a.org/y"), TaskKind::Page)
        .unwrap()
        .unwrap();
    assert_eq!(y.score, 9_000.0);
    let s = f
        .look_up(&url("http://s.org/1"), TaskKind::Page)
        .unwrap()
        .unwrap();
    assert!(matches!(s.state, State::Done { .. }));
}

#[test]
fn what_robots_forbid_is_dropped_and_unreachable_rules_forbid_all() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    f.add_seeds(
        &[
            url("http://a.org/private/1"),
            url("http://a.org/open"),
            url("http://b.org/"),
        ],
        0,
    )
    .unwrap();
    let first = f.lease(0).unwrap().unwrap();
    let second = f.lease(0).unwrap().unwrap();
    let body = "User-agent: *\nDisallow: /private\nCrawl-delay: 7\n";
    robots(&mut f, &first, RobotsAnswer::Rules(body.into()), 0);
    let unreachable = RobotsAnswer::Unreachable {
        reason: Reason::ServerError,
        retry_after: None,
    };
    let settled = robots(&mut f, &second, unreachable.clone(), 0);
    assert_eq!(
        settled,
        Settled::Retrying {
            reason: Reason::ServerError,
            due: 30_000
        }
    );
    assert_eq!(f.next_event(), Some(7_000));
    assert!(
        !f.is_retry(7_000),
        "that is the pause of a host that answers"
    );
    let task = f.lease(7_000).unwrap().unwrap();
    assert_eq!(task.url.path(), "/open");
    let private = f
        .look_up(&url("http://a.org/private/1"), TaskKind::Page)
        .unwrap();
    let reason = Reason::Robots;
    assert_eq!(private.unwrap().state, State::Dropped { reason });
    done(&mut f, &task, vec![], 7_000);
    assert_eq!(f.next_event(), Some(30_000));
    assert!(f.is_retry(30_000));
    let mut now = 30_000;
    for _ in 0..3 {
        let task = f.lease(now).unwrap().unwrap();
        robots(&mut f, &task, unreachable.clone(), now);
        now = f.next_event().unwrap_or(now);
    }
    assert!(f.is_exhausted(), "a parked host does not hold up the end");
    assert_eq!(f.hosts(), (1, 1));
    assert_eq!(f.counts().queued_pages(), 1, "its page is kept");
    assert!(
        f.lease(now + 90_000_000).unwrap().is_some(),
        "and tried again"
    );
    check(&f);
}

#[test]
fn what_can_never_be_asked_is_not_waited_for() {
    for (seed, reason, waits) in [
        ("http://a.org/", Reason::PrivateAddress, false),
        ("http://a.invalid/", Reason::Dns, false),
        ("http://a.org/", Reason::Dns, true),
        ("http://a.org/", Reason::Connection, true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut f = open(folder.path(), 0);
        f.add_seeds(&[url(seed)], 0).unwrap();
        let task = f.lease(0).unwrap().unwrap();
        let answer = RobotsAnswer::Unreachable {
            reason,
            retry_after: None,
        };
        robots(&mut f, &task, answer, 0);
        assert_eq!(!f.is_exhausted(), waits, "{seed} {reason:?}");
    }
}

#[test]
fn a_robots_redirect_is_fetched_at_the_other_host_and_governs_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    f.add_seeds(&[url("http://a.org/x"), url("http://a.org/y")], 0)
        .unwrap();
    let task = f.lease(0).unwrap().unwrap();
    let to = url("https://www.a.org/robots.txt");
    robots(&mut f, &task, RobotsAnswer::Redirect(to.clone()), 0);
    drop(f);
    let mut f = open(folder.path(), 10_000);
    assert_eq!(f.lease(10_000).unwrap(), None, "unclean: distance is kept");
    let task = f.lease(11_000).unwrap().unwrap();
    assert_eq!((&task.url, task.redirects), (&to, 1));
    assert_eq!(f.lease(11_000).unwrap(), None, "a.org waits for its rules");
    let body = "User-agent: spoor\nDisallow: /x\n";
    robots(&mut f, &task, RobotsAnswer::Rules(body.into()), 11_000);
    let mut now = 20_000;
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.url.path(), "/y");
    done(&mut f, &task, vec![], now);
    assert!(f.is_exhausted());
}

#[test]
fn failures_wait_and_are_given_up_in_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 0;
    f.add_seeds(&[url("http://a.org/bad"), url("http://a.org/good")], 0)
        .unwrap();
    let retry = |host_backs_off| Outcome::Retry {
        reason: Reason::Protocol,
        retry_after: None,
        host_backs_off,
    };
    let task = lease(&mut f, &mut now).unwrap();
    let settled = finish(&mut f, &task, retry(false), Effects::default(), now);
    let reason = Reason::Protocol;
    assert_eq!(
        settled,
        Settled::Retrying {
            reason,
            due: now + 30_000
        }
    );
    check(&f);
    assert_eq!(f.counts().waiting, 1);
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.url.path(), "/good", "the others go on meanwhile");
    done(&mut f, &task, vec![], now);
    for attempt in 1..=3 {
        let task = lease(&mut f, &mut now).unwrap();
        assert_eq!((task.url.path(), task.attempts), ("/bad", attempt));
        finish(
            &mut f,
            &task,
            retry(attempt % 2 == 0),
            Effects::default(),
            now,
        );
    }
    let bad = f.look_up(&url("http://a.org/bad"), TaskKind::Page).unwrap();
    assert_eq!(bad.unwrap().state, State::Dropped { reason });
    assert!(f.is_exhausted());
    check(&f);
}

fn retry_after_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 0;
    f.add_seeds(&[url("http://a.org/")], 0).unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    let overloaded = Outcome::Retry {
        reason: Reason::Overloaded,
        retry_after: Some(Duration::from_secs(500)),
        host_backs_off: true,
    };
    finish(&mut f, &task, overloaded, Effects::default(), now);
    drop(f);
    let mut f = open(folder.path(), now + 1);
    assert_eq!(f.lease(now + 499_999).unwrap(), None);
    assert!(f.lease(now + 500_000).unwrap().is_some());
}

#[test]
fn redirects_re_enter_and_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open_with(folder.path(), "reject = ['org,forbidden']", 0);
    let mut now = 0;
    f.add_seeds(&[url("http://a.org/0")], 0).unwrap();
    for i in 1..=6 {
        let task = lease(&mut f, &mut now).unwrap();
        assert_eq!(task.redirects, i - 1);
        let to = url(&format!("http://a.org/{i}"));
        let settled = finish(
            &mut f,
            &task,
            Outcome::Redirect { to },
            Effects::default(),
            now,
        );
        let limit = Settled::Dropped {
            reason: Reason::RedirectLimit,
        };
        assert_eq!(settled == limit, i == 6, "{settled:?}");
    }
    f.add_seeds(&[url("http://b.org/")], now).unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    let to = url("http://forbidden.org/");
    finish(
        &mut f,
        &task,
        Outcome::Redirect { to },
        Effects::default(),
        now,
    );
    assert!(f.is_exhausted(), "the scope judges every hop");
    check(&f);
}

#[test]
fn images_gather_contexts_until_and_after_they_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 0;
    let seeds = ["http://s.org/1", "http://s.org/2", "http://s.org/3"];
    f.add_seeds(&seeds.map(url), 0).unwrap();
    let mut embed = |f: &mut Frontier, score| {
        let task = lease(f, &mut now).unwrap();
        assert_eq!(task.kind, TaskKind::Page);
        let effects = Effects {
            images: vec![image("http://i.org/a.jpg", task.url.as_str(), score)],
            ..Effects::default()
        };
        let stamp = Vec::new();
        f.finish(&task, Outcome::Done, effects, SECOND, now, |_| {
            Ok::<_, StoreError>(Written {
                stamp,
                ..Written::default()
            })
        })
        .unwrap()
    };
    let address = url("http://i.org/a.jpg");
    embed(&mut f, 90_000.0);
    assert_eq!(f.counts().queued_images, 0, "razored");
    assert!(embed(&mut f, 100.0).edits.is_empty());
    assert_eq!(
        f.contexts(&address).unwrap().len(),
        2,
        "both are remembered"
    );
    f.close_pages(0).unwrap();
    let mut later = 1_000_000;
    let task = lease(&mut f, &mut later).unwrap();
    assert_eq!((task.kind, &task.url), (TaskKind::Image, &address));
    finish(&mut f, &task, Outcome::Done, Effects::default(), later);
    assert!(
        f.contexts(&address).unwrap().is_empty(),
        "the sidecar has them now"
    );
    assert_eq!(f.lease(later + 99_000).unwrap(), None, "pages are closed");
    f.flags.pages_closed = false;
    f.refresh_hosts([url(seeds[0]).host_key()], later).unwrap();
    let finished = embed(&mut f, 50.0);
    let [OutputEdit::AddContext { note, .. }] = finished.edits.as_slice() else {
        panic!("{finished:?}");
    };
    assert_eq!(note, "here");
    check(&f);
}

#[test]
fn an_image_redirect_takes_its_contexts_along() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 0;
    f.add_seeds(&[url("http://s.org/1"), url("http://s.org/2")], 0)
        .unwrap();
    let embed = |f: &mut Frontier, now: &mut u64| {
        let task = lease(f, now).unwrap();
        let effects = Effects {
            images: vec![image("http://i.org/old.jpg", task.url.as_str(), 10.0)],
            ..Effects::default()
        };
        finish(f, &task, Outcome::Done, effects, *now);
    };
    embed(&mut f, &mut now);
    now += 100_000;
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.url.path(), "/2");
    f.abandon(&task, now).unwrap();
    f.close_pages(now).unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.kind, TaskKind::Image);
    let to = url("http://i.org/new.jpg");
    finish(
        &mut f,
        &task,
        Outcome::Redirect { to: to.clone() },
        Effects::default(),
        now,
    );
    assert_eq!(f.contexts(&to).unwrap().len(), 1);
    f.flags.pages_closed = false;
    f.refresh_hosts([url("http://s.org/").host_key()], now)
        .unwrap();
    let task = loop {
        let task = lease(&mut f, &mut now).unwrap();
        if task.kind == TaskKind::Page {
            break task;
        }
        finish(
            &mut f,
            &task,
            Outcome::Drop {
                reason: Reason::BadImage,
            },
            Effects::default(),
            now,
        );
    };
    let effects = Effects {
        images: vec![image("http://i.org/old.jpg", task.url.as_str(), 10.0)],
        ..Effects::default()
    };
    finish(&mut f, &task, Outcome::Done, effects, now);
    check(&f);
}

#[test]
fn the_host_budget_and_hops_hold() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open_with(folder.path(), "host_documents = 2\nmax_hops = 1", 0);
    let mut now = 0;
    let seeds: Vec<_> = (0..5).map(|i| url(&format!("http://a.org/{i}"))).collect();
    f.add_seeds(&seeds, 0).unwrap();
    for _ in 0..2 {
        let task = lease(&mut f, &mut now).unwrap();
        done(&mut f, &task, vec![page("http://b.org/", 1.0)], now);
    }
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.url.as_str(), "http://b.org/");
    done(&mut f, &task, vec![page("http://c.org/", 1.0)], now);
    assert_eq!(lease(&mut f, &mut now), None);
    assert_eq!(f.counts().dropped[&Reason::HostBudget], 3);
    assert_eq!(f.counts().dropped[&Reason::Hops], 1);
    check(&f);
}

#[test]
fn the_crawl_delay_of_either_scheme_holds_for_both() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    f.add_seeds(&[url("http://a.org/"), url("https://a.org/")], 0)
        .unwrap();
    let task = f.lease(0).unwrap().unwrap();
    assert_eq!(task.url, url("http://a.org/robots.txt"));
    let slow = RobotsAnswer::Rules("User-agent: *\nCrawl-delay: 50\n".into());
    robots(&mut f, &task, slow, 0);
    let mut now = 50_000;
    let task = f.lease(now).unwrap().unwrap();
    assert_eq!(task.url, url("http://a.org/"));
    done(&mut f, &task, vec![], now);
    now += 50_000;
    let task = f.lease(now).unwrap().unwrap();
    assert_eq!(task.url, url("https://a.org/robots.txt"));
    robots(&mut f, &task, RobotsAnswer::Missing, now);
    assert_eq!(f.next_event(), Some(now + 50_000), "http still asks for it");
    let host = f.look_up_host(&task.host).unwrap().unwrap();
    assert_eq!(host.crawl_delay, Some(50_000));
}

#[test]
fn rules_are_asked_for_once_however_many_connections_a_host_has() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    f.policy.connections = 4;
    f.add_seeds(&[1, 2, 3, 4].map(|i| url(&format!("http://a.org/{i}"))), 0)
        .unwrap();
    let task = f.lease(0).unwrap().unwrap();
    assert_eq!(task.kind, TaskKind::Robots);
    assert_eq!(f.lease(5_000).unwrap(), None, "nothing before the rules");
    robots(&mut f, &task, RobotsAnswer::Missing, 5_000);
    for i in 1..=4 {
        let task = f.lease(5_000 + i * 1_000).unwrap().unwrap();
        assert_eq!(task.kind, TaskKind::Page);
    }
    assert_eq!(f.lease(100_000).unwrap(), None);
}

#[test]
fn a_host_that_wants_a_year_of_peace_does_not_hold_up_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 0;
    f.add_seeds(&[url("http://a.org/")], 0).unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    let year = 365 * 86_400_000;
    let overloaded = Outcome::Retry {
        reason: Reason::Overloaded,
        retry_after: Some(Duration::from_millis(year)),
        host_backs_off: true,
    };
    finish(&mut f, &task, overloaded, Effects::default(), now);
    assert!(f.is_exhausted());
    assert_eq!(f.hosts(), (1, 1));
    assert_eq!(f.lease(now + year - 1).unwrap(), None);
    assert!(f.lease(now + year).unwrap().is_some(), "but it is obeyed");
}

#[test]
fn images_that_are_refused_leave_no_words_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open_with(folder.path(), "reject = ['net,ads']", 0);
    let mut now = 0;
    f.add_seeds(&[url("http://s.org/")], 0).unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    let effects = Effects {
        images: vec![
            image("http://ads.net/a.gif", "http://s.org/", 1.0),
            image("http://i.org/private.gif", "http://s.org/", 1.0),
        ],
        ..Effects::default()
    };
    finish(&mut f, &task, Outcome::Done, effects, now);
    assert_eq!(f.contexts(&url("http://ads.net/a.gif")).unwrap(), []);
    let private = url("http://i.org/private.gif");
    assert_eq!(f.contexts(&private).unwrap().len(), 1);
    let task = f.lease(now).unwrap().unwrap();
    let rules = RobotsAnswer::Rules("User-agent: *\nDisallow: /private\n".into());
    robots(&mut f, &task, rules, now);
    assert_eq!(f.lease(now + 100_000).unwrap(), None);
    assert_eq!(f.contexts(&private).unwrap(), []);
    assert_eq!(f.counts().dropped[&Reason::Robots], 1);
    check(&f);
}

#[test]
fn cached_rules_are_bounded_in_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let seeds: Vec<_> = (0..20).map(|i| url(&format!("http://h{i}.org/"))).collect();
    f.add_seeds(&seeds, 0).unwrap();
    let long: String = (0..20)
        .map(|i| format!("Disallow: /{i}{}\n", "x".repeat(5_000)))
        .collect();
    let long = format!("User-agent: *\n{long}");
    while let Some(task) = f.lease(0).unwrap() {
        robots(&mut f, &task, RobotsAnswer::Rules(long.clone().into()), 0);
        assert!(f.files.is_within_bound());
    }
}

fn another_format_is_refused() {
    for other in [FORMAT - 1, FORMAT + 1] {
        let folder = tempfile::tempdir().unwrap();
        {
            let mut store = open_store(folder.path()).unwrap();
            let mut batch = store::Batch::default();
            let meta = Meta {
                format: other,
                ..Meta::default()
            };
            batch.put(keys::META.to_vec(), postcard::to_stdvec(&meta).unwrap());
            store.apply(batch).unwrap();
            store.flush().unwrap();
        }
        let store = open_store(folder.path()).unwrap();
        let text = "[job]\nname = \"test\"\n";
        let scope = Scope::new(Config::parse(text, "test.toml").unwrap().settings.scope);
        let error = Frontier::open(store, test_policy(), scope, 0)
            .err()
            .unwrap();
        let StoreError::Version {
            found, expected, ..
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!((found, expected), (other, FORMAT));
    }
}

#[derive(Debug, Clone)]
enum Move {
    Lease,
    Done(usize, Vec<(usize, u32)>),
    Redirect(usize, usize),
    Retry(usize, bool),
    Drop(usize),
    Pass(u64),
    Reopen,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let links = || proptest::collection::vec((0..30_usize, 0..60_000_u32), 0..6);
    let one = prop_oneof![
        6 => Just(Move::Lease),
        4 => (any::<usize>(), links()).prop_map(|(i, l)| Move::Done(i, l)),
        1 => (any::<usize>(), 0..30_usize).prop_map(|(i, t)| Move::Redirect(i, t)),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(i, b)| Move::Retry(i, b)),
        1 => any::<usize>().prop_map(Move::Drop),
        4 => (1..100_000_u64).prop_map(Move::Pass),
        1 => Just(Move::Reopen),
    ];
    proptest::collection::vec(one, 1..60)
}

fn address(n: usize) -> PageUrl {
    url(&format!("http://h{}.org/{n}", n % 5))
}

proptest! {
    #![proptest_config(spoor_testing::cases!(48))]
    /// Any sequence of events leaves every URL in one state, the counters exact, one
    /// request per host, and the hosts' delays kept, also over restarts.
    #[test]
    fn every_history_keeps_the_promises(moves in moves(), control: bool) {
        SHARE.set(if control { 0.5 } else { 0.0 });
        let folder = tempfile::tempdir().unwrap();
        let mut now = 1_000_000;
        let mut f = open(folder.path(), now);
        f.add_seeds(&[address(0), address(1)], now).unwrap();
        let mut open_leases: Vec<Task> = Vec::new();
        let mut last: BTreeMap<HostKey, u64> = BTreeMap::new();
        for step in moves {
            let pick = |i: usize, n: usize| if n == 0 { None } else { Some(i % n) };
            match step {
                Move::Pass(ms) => now += ms,
                Move::Reopen => {
                    open_leases.clear();
                    drop(f);
                    f = open(folder.path(), now);
                }
                Move::Lease => {
                    if let Some(task) = f.lease(now).unwrap() {
                        prop_assert!(open_leases.iter().all(|t| t.host != task.host));
                        if let Some(before) = last.insert(task.host.clone(), now) {
                            prop_assert!(now - before >= 1_000, "{} after {}", task.url, now - before);
                        }
                        open_leases.push(task);
                    }
                }
                Move::Done(i, links) => if let Some(i) = pick(i, open_leases.len()) {
                    let task = open_leases.remove(i);
                    last.insert(task.host.clone(), now);
                    if task.kind == TaskKind::Robots {
                        robots(&mut f, &task, RobotsAnswer::Missing, now);
                    } else {
                        let links = links
                            .into_iter()
                            .map(|(n, score)| page(address(n).as_str(), f64::from(score)))
                            .collect();
                        done(&mut f, &task, links, now);
                    }
                },
                Move::Redirect(i, to) => if let Some(i) = pick(i, open_leases.len()) {
                    let task = open_leases.remove(i);
                    last.insert(task.host.clone(), now);
                    if task.kind == TaskKind::Robots {
                        robots(&mut f, &task, RobotsAnswer::Redirect(address(to)), now);
                    } else {
                        let to = address(to);
                        finish(&mut f, &task, Outcome::Redirect { to }, Effects::default(), now);
                    }
                },
                Move::Retry(i, host_backs_off) => if let Some(i) = pick(i, open_leases.len()) {
                    let task = open_leases.remove(i);
                    let reason = Reason::Timeout;
                    if task.kind == TaskKind::Robots {
                        let answer = RobotsAnswer::Unreachable { reason, retry_after: None };
                        robots(&mut f, &task, answer, now);
                    } else {
                        let retry = Outcome::Retry { reason, retry_after: None, host_backs_off };
                        finish(&mut f, &task, retry, Effects::default(), now);
                    }
                },
                Move::Drop(i) => if let Some(i) = pick(i, open_leases.len()) {
                    let task = open_leases.remove(i);
                    if task.kind == TaskKind::Robots {
                        robots(&mut f, &task, RobotsAnswer::Missing, now);
                    } else {
                        let reason = Reason::ClientError;
                        finish(&mut f, &task, Outcome::Drop { reason }, Effects::default(), now);
                    }
                },
            }
            check(&f);
        }
        drop(f);
        check(&open(folder.path(), now));
    }
}

mod traps;
