//! Pages that are visited again, over both stores, with time as an argument.

use super::super::transaction::visit_entry;
use super::*;
use crate::page::Validators;

over_all! {
    dates_survive_and_rest_while_recrawl_is_off
}

const HOUR: u64 = 3_600_000;
const RECRAWL: Recrawl = Recrawl {
    after: 8 * HOUR,
    min: HOUR,
    max: 64 * HOUR,
};

fn open_again(path: &Path, scope: &str, recrawl: Option<Recrawl>, now: u64) -> Frontier {
    let text = format!("[job]\nname = \"test\"\n[scope]\n{scope}");
    let scope = Scope::new(Config::parse(&text, "test.toml").unwrap().settings.scope);
    let store = open_store(path).unwrap();
    let policy = Policy {
        recrawl,
        ..test_policy()
    };
    Frontier::open(store, policy, scope, now).unwrap()
}

fn watching(path: &Path, now: u64) -> Frontier {
    open_again(path, "", Some(RECRAWL), now)
}

/// Finishes a page with a text of this digest.
fn text(f: &mut Frontier, task: &Task, digest: u64, now: u64) -> Option<bool> {
    let effects = Effects {
        digest: Some(digest),
        validators: Validators {
            etag: Some(format!("\"{digest}\"")),
            last_modified: None,
        },
        ..Effects::default()
    };
    answer(f, task, Outcome::Done, effects, now).changed
}

fn answer(f: &mut Frontier, task: &Task, outcome: Outcome, effects: Effects, now: u64) -> Finished {
    let written = |_: &Finished| Ok::<_, StoreError>(Written::default());
    f.finish(task, outcome, effects, SECOND, now, written)
        .unwrap()
}

fn end(f: &mut Frontier, task: &Task, outcome: Outcome, now: u64) -> Settled {
    answer(f, task, outcome, Effects::default(), now).settled
}

fn record(f: &Frontier, address: &str) -> UrlRecord {
    f.look_up(&url(address), TaskKind::Page).unwrap().unwrap()
}

fn visit(f: &Frontier, address: &str) -> Visit {
    record(f, address).visit.unwrap()
}

#[test]
fn a_page_that_changes_is_visited_sooner_and_one_that_does_not_later() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = watching(folder.path(), 0);
    let mut now = 0;
    let page = "http://a.org/";
    f.add_seeds(&[url(page)], 0).unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    assert!(task.validators.is_empty());
    assert_eq!(text(&mut f, &task, 1, now), None);
    let first = record(&f, page);
    // The digest at each visit, and the pause after it, in hours.
    for (digest, changed, hours) in [
        (1, false, 12),
        (2, true, 6),
        (3, true, 3),
        (4, true, 1),
        (5, true, 1),
        (5, false, 1),
    ] {
        assert!(!f.is_exhausted());
        let due = visit(&f, page).due.unwrap();
        assert_eq!(f.next_event(), Some(due));
        assert!(f.lease(due - 1).unwrap().is_none());
        now = due;
        // Its robots.txt is requested first when it is a day old.
        let task = lease(&mut f, &mut now).unwrap();
        let known = visit(&f, page);
        assert_eq!(task.validators, known.validators);
        assert_eq!((task.bucket, task.score), (first.bucket, first.score));
        assert_eq!(text(&mut f, &task, digest, now), Some(changed));
        check(&f);
        let interval = visit(&f, page).interval;
        assert_eq!(interval / HOUR, hours, "{digest}");
        assert_eq!(visit(&f, page).due, Some(now + interval));
        assert_eq!(visit(&f, page).last, now);
    }
    // A 304 counts as unchanged, and replaces the validators that it contains.
    now = f.next_event().unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    let before = visit(&f, page);
    let effects = Effects {
        validators: Validators {
            etag: None,
            last_modified: Some("today".to_owned()),
        },
        ..Effects::default()
    };
    let finished = answer(&mut f, &task, Outcome::Unchanged, effects, now);
    assert_eq!(
        (finished.settled, finished.changed),
        (Settled::Unchanged, Some(false))
    );
    let after = visit(&f, page);
    assert!(after.interval > before.interval);
    assert_eq!(after.validators.etag, Some("\"5\"".to_owned()));
    assert_eq!(after.validators.last_modified, Some("today".to_owned()));
    assert_eq!((after.visits, after.changes), (8, 4));
    // One page with its first number, independent of its visits.
    assert_eq!(record(&f, page).state, first.state);
    assert_eq!(finished.id, after.id);
    let counts = f.counts();
    assert_eq!(
        (counts.documents, counts.fetches, counts.watched),
        (1, 8, 1)
    );
    let host = f.look_up_host(&url(page).host_key()).unwrap().unwrap();
    assert_eq!(host.documents, 1);
    check(&f);
}

#[test]
fn without_recrawl_a_page_is_fetched_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 0;
    f.add_seeds(&[url("http://a.org/")], 0).unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(text(&mut f, &task, 1, now), None);
    assert_eq!(record(&f, "http://a.org/").visit, None);
    assert!(f.is_exhausted());
    // A 304 does not answer a request without a condition either.
    f.add_seeds(&[url("http://b.org/")], now).unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    let settled = end(&mut f, &task, Outcome::Unchanged, now);
    assert!(matches!(
        settled,
        Settled::Retrying {
            reason: Reason::Protocol,
            ..
        }
    ));
    check(&f);
}

fn retry(host_backs_off: bool) -> Outcome {
    Outcome::Retry {
        reason: Reason::Timeout,
        retry_after: None,
        host_backs_off,
    }
}

#[test]
fn downtime_does_not_cost_a_page_and_its_end_does() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = watching(folder.path(), 0);
    let mut now = 0;
    let page = "http://a.org/";
    f.add_seeds(&[url(page), url("http://b.org/never")], 0)
        .unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    text(&mut f, &task, 1, now);
    // A page that was never fetched is given up as usual.
    let settled = loop {
        let task = lease(&mut f, &mut now).unwrap();
        assert_eq!(task.url.as_str(), "http://b.org/never");
        match end(&mut f, &task, retry(false), now) {
            Settled::Retrying { .. } => check(&f),
            other => break other,
        }
    };
    assert_eq!(
        settled,
        Settled::Dropped {
            reason: Reason::Timeout
        }
    );
    let done = record(&f, page).state;
    for backs_off in [false, true] {
        let before = visit(&f, page).interval;
        let mut attempts = 0;
        let settled = loop {
            let task = lease(&mut f, &mut now).unwrap();
            attempts += 1;
            assert_eq!(u32::from(task.attempts), attempts - 1);
            match end(&mut f, &task, retry(backs_off), now) {
                Settled::Retrying { .. } => check(&f),
                other => break other,
            }
        };
        assert_eq!(
            settled,
            Settled::Postponed {
                reason: Reason::Timeout
            }
        );
        assert_eq!(attempts, 1 + test_policy().retries);
        assert_eq!(record(&f, page).state, done);
        let after = visit(&f, page);
        assert_eq!(
            (after.interval, after.due),
            (before * 3 / 2, Some(now + before * 3 / 2))
        );
        assert_eq!((after.visits, after.digest), (1, Some(1)));
        check(&f);
        // When it backed off the host was parked: that time must pass first.
        now = now.max(after.due.unwrap()) + 25 * HOUR;
    }
    // A page that says it is gone is gone, and still counts as a document.
    let task = lease(&mut f, &mut now).unwrap();
    let reason = Reason::ClientError;
    assert_eq!(
        end(&mut f, &task, Outcome::Drop { reason }, now),
        Settled::Dropped { reason }
    );
    assert_eq!(f.counts().documents, 1);
    assert_eq!(visit(&f, page).due, None);
    assert!(f.is_exhausted());
    check(&f);
}

#[test]
fn a_crawl_that_watches_waits_for_a_parked_host() {
    for recrawl in [None, Some(RECRAWL)] {
        let folder = tempfile::tempdir().unwrap();
        let mut f = open_again(folder.path(), "", recrawl.clone(), 0);
        let mut now = 0;
        f.add_seeds(&[url("http://a.org/")], 0).unwrap();
        let task = lease(&mut f, &mut now).unwrap();
        let outcome = Outcome::Retry {
            reason: Reason::Overloaded,
            retry_after: Some(Duration::from_secs(100 * 3_600)),
            host_backs_off: true,
        };
        end(&mut f, &task, outcome, now);
        let back = recrawl.map(|_| now + 100 * HOUR);
        assert_eq!(f.next_event(), back);
        assert_eq!(f.is_exhausted(), back.is_none());
        if let Some(mut back) = back {
            assert_eq!(f.lease(back - 1).unwrap(), None);
            assert!(lease(&mut f, &mut back).is_some());
        }
    }
}

#[test]
fn rules_that_forbid_a_visit_postpone_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = watching(folder.path(), 0);
    let mut now = 0;
    f.add_seeds(&[url("http://a.org/")], 0).unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    text(&mut f, &task, 1, now);
    now += 25 * HOUR;
    let task = f.lease(now).unwrap().unwrap();
    let closed = RobotsAnswer::Rules("User-agent: *\nDisallow: /\n".into());
    robots(&mut f, &task, closed, now);
    now += 10_000;
    assert_eq!(f.lease(now).unwrap(), None);
    let known = record(&f, "http://a.org/");
    assert!(matches!(known.state, State::Done { .. }));
    assert_eq!(f.next_event(), known.visit.unwrap().due);
    assert_eq!(f.counts().fetches, 1);
    check(&f);
    // Once the rules are lifted it is requested again.
    now += 25 * HOUR;
    assert!(lease(&mut f, &mut now).is_some());
}

#[test]
fn a_schedule_is_kept_for_any_behaviour_of_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = "http://a.org/";
    let mut f = open(folder.path(), 0);
    let mut now = 0;
    let every = Duration::from_secs(7_200);
    f.watch(&[(url(page), every)], 0).unwrap();
    let reason = Reason::ClientError;
    for (round, outcome) in [
        Outcome::Drop { reason },
        Outcome::Done,
        Outcome::Unchanged,
        Outcome::Done,
        Outcome::Drop { reason },
        Outcome::Done,
    ]
    .into_iter()
    .enumerate()
    {
        let task = lease(&mut f, &mut now).unwrap();
        assert_eq!((task.url.as_str(), task.bucket), (page, Bucket::Seed));
        let effects = Effects {
            digest: Some(1),
            ..Effects::default()
        };
        let settled = answer(&mut f, &task, outcome.clone(), effects, now).settled;
        assert_eq!(
            settled,
            match outcome {
                Outcome::Drop { reason } => Settled::Dropped { reason },
                Outcome::Unchanged => Settled::Unchanged,
                _ => Settled::Done,
            }
        );
        assert_eq!(f.next_event(), Some(now + 2 * HOUR), "{round}");
        assert!(visit(&f, page).scheduled);
        check(&f);
    }
    assert_eq!((visit(&f, page).visits, f.counts().documents), (4, 1));
    // Retries come in between, and the schedule after them.
    loop {
        let task = lease(&mut f, &mut now).unwrap();
        if let Settled::Postponed { .. } = end(&mut f, &task, retry(false), now) {
            break;
        }
    }
    assert_eq!(f.next_event(), Some(now + 2 * HOUR));
    check(&f);
}

#[test]
fn a_schedule_goes_where_the_page_points() {
    let folder = tempfile::tempdir().unwrap();
    let (seed, middle, page) = ("http://a.org/", "http://b.org/", "http://c.org/");
    let mut f = open(folder.path(), 0);
    let mut now = 0;
    f.watch(&[(url(seed), Duration::from_secs(3_600))], 0)
        .unwrap();
    let ids = |f: &Frontier| [seed, middle, page].map(|p| visit(f, p).id);
    let mut numbers = None;
    for round in 0..3 {
        for (from, to) in [(seed, middle), (middle, page)] {
            let task = lease(&mut f, &mut now).unwrap();
            assert_eq!(task.url.as_str(), from);
            let to = url(to);
            assert_eq!(
                end(&mut f, &task, Outcome::Redirect { to }, now),
                Settled::Redirected
            );
            check(&f);
        }
        let task = lease(&mut f, &mut now).unwrap();
        assert_eq!((task.url.as_str(), task.redirects), (page, 2));
        let changed = text(&mut f, &task, round, now);
        assert_eq!(changed, (round > 0).then_some(true));
        check(&f);
        // Only the seed has a date, and numbers are given once.
        assert_eq!(f.counts().watched, 1);
        assert!(
            visit(&f, seed)
                .due
                .is_some_and(|due| Some(due) == f.next_event())
        );
        let now_numbered = Some(ids(&f));
        assert_eq!(numbers.get_or_insert(now_numbered), &now_numbered);
    }
    assert_eq!(f.counts().documents, 1);
}

#[test]
fn pages_that_point_at_each_other_come_to_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (url("http://a.org/"), url("http://b.org/"));
    let mut f = open(folder.path(), 0);
    let mut now = 0;
    f.watch(&[(a.clone(), Duration::from_secs(3_600))], 0)
        .unwrap();
    for _ in 0..3 {
        let begin = now;
        let mut requests = 0;
        while let Some(task) = lease(&mut f, &mut now) {
            if requests > 0 && now > begin + HOUR / 2 {
                f.abandon(&task, now).unwrap();
                break;
            }
            requests += 1;
            let to = if task.url == a { b.clone() } else { a.clone() };
            end(&mut f, &task, Outcome::Redirect { to }, now);
            check(&f);
        }
        assert!((2..=8).contains(&requests), "{requests}");
    }
}

#[test]
fn schedules_come_and_go_with_the_list() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (url("http://a.org/"), url("http://b.org/"));
    let mut f = open(folder.path(), 0);
    let mut now = 0;
    // One was fetched before it had a schedule.
    f.add_seeds(std::slice::from_ref(&a), 0).unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    text(&mut f, &task, 1, now);
    let hours = |h: u64| Duration::from_secs(3_600 * h);
    f.watch(&[(a.clone(), hours(2)), (b.clone(), hours(5))], now)
        .unwrap();
    check(&f);
    for _ in 0..2 {
        let task = lease(&mut f, &mut now).unwrap();
        text(&mut f, &task, 2, now);
    }
    assert_eq!((f.counts().documents, f.counts().watched), (2, 2));
    let last = visit(&f, a.as_str()).last;
    assert_eq!(visit(&f, a.as_str()).due, Some(last + 2 * HOUR));
    f.close().unwrap();
    // Another interval counts from the last visit; pages that are no longer listed are not visited.
    let mut f = open(folder.path(), now);
    f.watch(&[(a.clone(), hours(3))], now).unwrap();
    check(&f);
    assert_eq!(visit(&f, a.as_str()).due, Some(last + 3 * HOUR));
    assert_eq!(f.next_event(), Some(last + 3 * HOUR));
    f.watch(&[], now).unwrap();
    assert!(f.is_exhausted());
    assert!(f.lease(now + 100 * HOUR).unwrap().is_none());
    check(&f);
    f.close().unwrap();
    // Under [recrawl] both continue, from their previous dates.
    let mut f = watching(folder.path(), now);
    f.watch(&[], now).unwrap();
    assert_eq!(f.next_event(), Some(last + 3 * HOUR));
    now += 10 * HOUR;
    let task = lease(&mut f, &mut now).unwrap();
    text(&mut f, &task, 2, now);
    assert!(!visit(&f, task.url.as_str()).scheduled);
    check(&f);
}

fn dates_survive_and_rest_while_recrawl_is_off() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = watching(folder.path(), 0);
    let mut now = 0;
    f.add_seeds(&[url("http://a.org/"), url("http://b.org/")], 0)
        .unwrap();
    for _ in 0..2 {
        let task = lease(&mut f, &mut now).unwrap();
        text(&mut f, &task, 1, now);
    }
    let due = f.next_event().unwrap();
    drop(f);
    let f = watching(folder.path(), now);
    assert_eq!(f.next_event(), Some(due));
    drop(f);
    let mut f = open(folder.path(), due);
    assert!(f.is_exhausted());
    assert_eq!(f.lease(due + HOUR).unwrap(), None);
    check(&f);
    drop(f);
    // One is in progress when visits are switched off: it returns to rest.
    now = due + HOUR;
    let mut f = watching(folder.path(), now);
    let task = lease(&mut f, &mut now).unwrap();
    drop(f);
    let mut f = open(folder.path(), now);
    let again = lease(&mut f, &mut now).unwrap();
    assert_eq!(again.url, task.url);
    text(&mut f, &again, 1, now);
    lease(&mut f, &mut now).iter().for_each(|t| {
        text(&mut f, t, 1, now);
    });
    assert!(f.is_exhausted());
    assert_eq!(f.counts().watched, 2);
    check(&f);
    drop(f);
    assert!(watching(folder.path(), now).next_event().is_some());
}

#[test]
fn what_is_due_after_weeks_comes_at_the_pace_of_its_host() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = watching(folder.path(), 0);
    let mut now = 0;
    let pages: Vec<_> = (0..600)
        .map(|i| url(&format!("http://h{}.org/{i}", i % 3)))
        .collect();
    f.add_seeds(&pages, 0).unwrap();
    for _ in 0..pages.len() {
        let task = lease(&mut f, &mut now).unwrap();
        text(&mut f, &task, 1, now);
    }
    assert_eq!((f.counts().watched, f.counts().queued_pages()), (600, 0));
    f.close().unwrap();
    now += 1_000 * HOUR;
    let mut f = watching(folder.path(), now);
    let begin = now;
    let mut last = BTreeMap::new();
    let mut asked = BTreeSet::new();
    let mut woken = Vec::new();
    while asked.len() < pages.len() {
        if let Some(task) = f.lease(now).unwrap() {
            if let Some(before) = last.insert(task.host.clone(), now) {
                assert!(now - before >= 1_000);
            }
            match task.kind {
                TaskKind::Robots => {
                    robots(&mut f, &task, RobotsAnswer::Missing, now);
                }
                _ => {
                    asked.insert(task.url.clone());
                    text(&mut f, &task, 1, now);
                }
            }
            woken.push(f.counts().queued_pages());
        } else {
            now = f.next_event().unwrap().max(now);
        }
    }
    assert!(now - begin >= 200 * 1_000, "{}", now - begin);
    // No single call of `lease` queued them all.
    assert_eq!(woken[..3], [200, 400, 600]);
    check(&f);
}

#[test]
fn a_budget_of_pages_counts_no_visits_and_ends_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open_again(folder.path(), "host_documents = 1", Some(RECRAWL), 0);
    let mut now = 0;
    let pages = [url("http://a.org/1"), url("http://a.org/2")];
    f.add_seeds(&pages, 0).unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    text(&mut f, &task, 1, now);
    // The other one is refused, the first one visited again.
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.url, pages[0]);
    assert_eq!(text(&mut f, &task, 1, now), Some(false));
    let reason = Reason::HostBudget;
    assert_eq!(
        record(&f, pages[1].as_str()).state,
        State::Dropped { reason }
    );
    assert!(!f.is_exhausted());
    f.close_pages(now).unwrap();
    assert!(f.is_exhausted());
    assert_eq!(f.lease(now + 100 * HOUR).unwrap(), None);
    check(&f);
}

#[test]
fn visits_are_exported_audited_and_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = watching(&folder.path().join("a"), 0);
    let mut now = 0;
    f.add_seeds(&[url("http://a.org/"), url("http://b.org/")], 0)
        .unwrap();
    f.watch(&[(url("http://c.org/"), Duration::from_secs(60))], 0)
        .unwrap();
    for _ in 0..3 {
        let task = lease(&mut f, &mut now).unwrap();
        text(&mut f, &task, u64::MAX, now);
    }
    // One of them is queued again.
    f.lease(f.next_event().unwrap()).unwrap().unwrap();
    let counts = f.counts().clone();
    let entry = visit_entry(&record(&f, "http://a.org/")).unwrap();
    let Frontier { mut ledger, .. } = f;
    let store = ledger.store_mut();
    let (lines, found) = exported(store);
    assert_eq!((found.urls, found.damaged_count), (3, 0));
    let other = imported(&lines, &folder.path().join("b"));
    assert_eq!(exported(&*other).0[1..], lines[1..]);
    assert_eq!(other.get(&entry).unwrap(), store.get(&entry).unwrap());
    assert!(consistency::check(&*other).unwrap().is_sound());
    drop(other);
    let again = watching(&folder.path().join("b"), now);
    assert_eq!(again.counts(), &counts);
    check(&again);
    // A date without its record, and a record without its date.
    let mut batch = store::Batch::default();
    batch.delete(entry.clone());
    batch.put(keys::visit(false, 1, 99), b"Unowhere".to_vec());
    store.apply(batch).unwrap();
    let audit = consistency::check(&*store).unwrap();
    assert_eq!(audit.count, 2, "{audit:?}");
    let (lines, _) = exported(store);
    let repaired = imported(&lines, &folder.path().join("c"));
    assert!(consistency::check(&*repaired).unwrap().is_sound());
    assert!(repaired.get(&entry).unwrap().is_some());
}

#[derive(Debug, Clone)]
enum Move {
    Lease,
    /// An answer to an open lease: a text, unchanged, a redirect, a temporary failure, a
    /// permanent one.
    Answer(usize, u8),
    Pass(u64),
    Reopen {
        recrawl: bool,
        watch: usize,
    },
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        6 => Just(Move::Lease),
        6 => (any::<usize>(), any::<u8>()).prop_map(|(i, a)| Move::Answer(i, a)),
        4 => (1..12 * HOUR).prop_map(Move::Pass),
        1 => (any::<bool>(), 0..3_usize).prop_map(|(recrawl, watch)| Move::Reopen { recrawl, watch }),
    ];
    proptest::collection::vec(one, 1..80)
}

proptest! {
    #![proptest_config(spoor_testing::cases!(48))]
    /// For any behaviour of pages and any settings of the job: pauses are within their
    /// bounds, the index has an entry exactly where a record has a date (checked by
    /// `check`), the number of documents never falls, and no host is requested too early.
    #[test]
    fn visits_keep_their_bounds_and_their_index(moves in moves()) {
        let folder = tempfile::tempdir().unwrap();
        let mut now = 1_000_000;
        let every = Duration::from_secs(1_800);
        let mut f = watching(folder.path(), now);
        f.add_seeds(&(0..4).map(address).collect::<Vec<_>>(), now).unwrap();
        let mut leases: Vec<Task> = Vec::new();
        let mut last: BTreeMap<HostKey, u64> = BTreeMap::new();
        let mut documents = 0;
        for step in moves {
            match step {
                Move::Pass(ms) => now += ms,
                Move::Reopen { recrawl, watch } => {
                    leases.clear();
                    drop(f);
                    f = open_again(folder.path(), "", recrawl.then_some(RECRAWL), now);
                    let list: Vec<_> = (0..watch).map(|n| (address(n), every)).collect();
                    f.watch(&list, now).unwrap();
                }
                Move::Lease => if let Some(task) = f.lease(now).unwrap() {
                    if let Some(before) = last.insert(task.host.clone(), now) {
                        prop_assert!(now - before >= 1_000);
                    }
                    leases.push(task);
                },
                Move::Answer(i, what) => if !leases.is_empty() {
                    let task = leases.remove(i % leases.len());
                    last.insert(task.host.clone(), now);
                    if task.kind == TaskKind::Robots {
                        robots(&mut f, &task, RobotsAnswer::Missing, now);
                    } else {
                        let reason = Reason::ClientError;
                        let outcome = match what % 8 {
                            0 => Outcome::Unchanged,
                            1 => Outcome::Redirect { to: address(usize::from(what / 8) % 5) },
                            2 => retry(true),
                            3 | 4 => retry(false),
                            5 => Outcome::Drop { reason },
                            _ => Outcome::Done,
                        };
                        let effects = Effects {
                            digest: Some(u64::from(what / 100)),
                            ..Effects::default()
                        };
                        answer(&mut f, &task, outcome, effects, now);
                    }
                },
            }
            check(&f);
            prop_assert!(f.counts().documents >= documents);
            documents = f.counts().documents;
            for n in 0..5 {
                let known = f.look_up(&address(n), TaskKind::Page).unwrap();
                if let Some(visit) = known.and_then(|r| r.visit) && visit.due.is_some() {
                    let bounds = if visit.scheduled { HOUR / 2..=HOUR / 2 } else { HOUR / 2..=RECRAWL.max };
                    prop_assert!(bounds.contains(&visit.interval), "{visit:?}");
                }
            }
        }
    }
}

#[test]
fn words_are_taken_back_from_images_of_a_page_that_forbids_them_later() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = watching(folder.path(), 0);
    let mut now = 0;
    let [one, two] = ["http://a.org/1", "http://b.org/2"];
    f.add_seeds(&[url(one), url(two)], 0).unwrap();
    let of = |name: &str| url(&format!("http://{name}.org/x.png"));
    let all = ["kept", "shared", "own", "waiting", "leased"];
    for _ in 0..2 {
        let task = lease(&mut f, &mut now).unwrap();
        let names: &[&str] = if task.url.as_str() == one {
            &all
        } else {
            &["shared"]
        };
        let images = names.iter().map(|name| {
            let address = of(name);
            image(address.as_str(), task.url.as_str(), 1.0)
        });
        let effects = Effects {
            images: images.collect(),
            digest: Some(1),
            ..Effects::default()
        };
        answer(&mut f, &task, Outcome::Done, effects, now);
    }
    let mut tasks = BTreeMap::new();
    for _ in all {
        let task = lease(&mut f, &mut now).unwrap();
        assert_eq!(task.kind, TaskKind::Image);
        tasks.insert(task.url.clone(), task);
    }
    finish(
        &mut f,
        &tasks[&of("kept")],
        Outcome::Done,
        Effects::default(),
        now,
    );
    now += 9 * HOUR;
    let pages = [(); 2].map(|()| lease(&mut f, &mut now).unwrap());
    for name in ["shared", "own"] {
        f.abandon(&tasks[&of(name)], now).unwrap();
    }
    let later = Outcome::Retry {
        reason: Reason::Timeout,
        retry_after: None,
        host_backs_off: false,
    };
    let retrying = end(&mut f, &tasks[&of("waiting")], later, now);
    assert!(matches!(retrying, Settled::Retrying { .. }));
    for page in &pages {
        let forbids = page.url.as_str() == one;
        let effects = Effects {
            withheld: all.iter().filter(|_| forbids).map(|n| of(n)).collect(),
            digest: Some(1),
            ..Effects::default()
        };
        let finished = answer(&mut f, page, Outcome::Done, effects, now);
        assert_eq!(finished.changed, Some(false));
        let note = "here".to_owned();
        let withheld = forbids.then(|| OutputEdit::Withhold {
            note,
            page: page.url.clone(),
            terms: Box::default(),
        });
        assert_eq!(finished.edits, Vec::from_iter(withheld));
        check(&f);
    }
    let state = |f: &Frontier, name| {
        f.look_up(&of(name), TaskKind::Image)
            .unwrap()
            .map(|r| r.state)
    };
    let pages = |f: &Frontier, name| -> Vec<String> {
        let contexts = f.contexts(&of(name)).unwrap();
        contexts.iter().map(|c| c.page.to_string()).collect()
    };
    assert_eq!(state(&f, "own"), None);
    assert_eq!(state(&f, "waiting"), None);
    assert_eq!(state(&f, "shared"), Some(State::Queued));
    assert_eq!(pages(&f, "shared"), [two]);
    assert!(matches!(state(&f, "kept"), Some(State::Done { .. })));
    // Its words are gone when the image arrives.
    assert_eq!(state(&f, "leased"), Some(State::Queued));
    assert_eq!(pages(&f, "leased"), [""; 0]);
    let reason = Reason::Forbidden;
    end(&mut f, &tasks[&of("leased")], Outcome::Drop { reason }, now);
    let rest = lease(&mut f, &mut now).unwrap();
    assert_eq!(rest.url, of("shared"));
    end(&mut f, &rest, Outcome::Done, now);
    check(&f);
}
