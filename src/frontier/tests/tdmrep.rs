//! tdmrep.json as a task: when it is requested, and that no host waits for it for ever.

use super::*;
use crate::page::{Signal, SignalValue};

over_all! {
    a_crash_while_it_is_asked_asks_again
}

const DAY: u64 = 86_400_000;
const RESERVED: &str = r#"[{"location": "/", "tdm-reservation": 1, "tdm-policy": "/p"}]"#;

fn open_asking(path: &Path, now: u64) -> Frontier {
    open_obeying(path, Signal::ALL.to_vec(), now)
}

fn open_obeying(path: &Path, obeyed: Vec<Signal>, now: u64) -> Frontier {
    let scope = Scope::new(Config::default().settings.scope);
    let policy = Policy {
        tdmrep: true,
        obeyed,
        ..test_policy()
    };
    let store = open_store(path).unwrap();
    Frontier::open(store, policy, scope, now).unwrap()
}

fn answer(f: &mut Frontier, task: &Task, outcome: Outcome, body: &str, now: u64) -> Settled {
    assert_eq!(task.kind, TaskKind::Tdmrep);
    let stamp = f.stamp();
    let body = (outcome == Outcome::Done).then(|| body.to_owned().into());
    f.finish_terms_file(task, &outcome, body, SECOND, now, |_| {
        Ok::<_, StoreError>(stamp)
    })
    .unwrap()
}

/// A frontier that has the file of a.org leased, and two pages queued there.
fn asked(path: &Path, now: &mut u64) -> (Frontier, Task) {
    let mut f = open_asking(path, *now);
    f.add_seeds(&[url("http://a.org/1"), url("http://a.org/2")], *now)
        .unwrap();
    let task = lease(&mut f, now).unwrap();
    assert_eq!(
        (task.kind, task.url.as_str()),
        (TaskKind::Tdmrep, "http://a.org/.well-known/tdmrep.json")
    );
    (f, task)
}

#[test]
fn it_is_asked_before_the_first_page_and_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut now = 0;
    let (mut f, task) = asked(folder.path(), &mut now);
    // No other request to the host in the meantime, and its clock holds afterwards.
    assert_eq!(f.lease(now + DAY / 2).unwrap(), None);
    assert_eq!(
        answer(&mut f, &task, Outcome::Done, RESERVED, now),
        Settled::Done
    );
    check(&f);
    assert_eq!(f.lease(now).unwrap(), None, "the pause after it");
    for path in ["/1", "/2"] {
        let before = now;
        let task = lease(&mut f, &mut now).unwrap();
        assert!(now >= before + 1_000);
        assert_eq!((task.kind, task.url.path()), (TaskKind::Page, path));
        assert_eq!(task.terms.stated.tdm_reservation, Some(true));
        assert_eq!(
            task.terms.stated.tdm_policy.as_deref(),
            Some("http://a.org/p")
        );
        // Another scheme is another origin, with its own file.
        let links = vec![page("https://a.org/3", 1.0)];
        done(&mut f, &task, links, now);
    }
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.url.as_str(), "https://a.org/.well-known/tdmrep.json");
    answer(&mut f, &task, Outcome::Done, "[]", now);
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(
        (task.kind, task.terms.clone()),
        (TaskKind::Page, Default::default())
    );
    done(&mut f, &task, vec![page("http://a.org/later", 1.0)], now);
    // It is valid for a day, also after a restart, and then requested again.
    f.close().unwrap();
    let mut f = open_asking(folder.path(), now);
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.terms.stated.tdm_reservation, Some(true));
    done(
        &mut f,
        &task,
        vec![page("http://a.org/much-later", 1.0)],
        now,
    );
    now += DAY;
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.kind, TaskKind::Tdmrep);
    answer(&mut f, &task, Outcome::Done, "", now);
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.terms, Default::default());
    done(&mut f, &task, vec![], now);
    assert!(f.is_exhausted());
    check(&f);
}

#[test]
fn what_cannot_be_read_reserves_and_what_is_missing_says_nothing() {
    let retry = |reason, host_backs_off| Outcome::Retry {
        reason,
        retry_after: None,
        host_backs_off,
    };
    let drop = |reason| Outcome::Drop { reason };
    let redirect = |to| Outcome::Redirect { to: url(to) };
    for (outcome, pause, tries, reserved) in [
        (drop(Reason::ClientError), 1_000, 1, None),
        (drop(Reason::TooLarge), 1_000, 1, None),
        (retry(Reason::Protocol, false), 1_000, 6, Some(true)),
        (retry(Reason::Timeout, true), 30_000, 6, Some(true)),
        (retry(Reason::Overloaded, true), 30_000, 6, Some(true)),
        (Outcome::Unchanged, 1_000, 1, None),
        (redirect("http://b.org/x"), 1_000, 1, None),
        (redirect("https://a.org/x"), 1_000, 1, None),
        (Outcome::Done, 1_000, 1, Some(true)),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut now = 1;
        let (mut f, mut task) = asked(folder.path(), &mut now);
        let mut asked = now;
        let mut left = tries;
        let first = loop {
            answer(&mut f, &task, outcome.clone(), "nonsense", now);
            left -= 1;
            let next = lease(&mut f, &mut now);
            if left == 0 || next.is_none() {
                break next;
            }
            task = next.unwrap();
            assert_eq!(task.kind, TaskKind::Tdmrep, "{outcome:?}");
            assert!(now >= asked + pause, "{outcome:?}");
            asked = now;
        };
        // A host that is in trouble is given up before.
        assert_eq!(first.is_none(), pause > 1_000, "{outcome:?}");
        let Some(first) = first else { continue };
        let mut next = Some(first);
        for path in ["/1", "/2"] {
            let task = next.take().or_else(|| lease(&mut f, &mut now)).unwrap();
            assert!(now >= asked + pause, "{outcome:?}");
            assert_eq!((task.kind, task.url.path()), (TaskKind::Page, path));
            assert_eq!(task.terms.stated.tdm_reservation, reserved, "{outcome:?}");
            done(&mut f, &task, vec![], now);
        }
        assert!(f.is_exhausted());
        check(&f);
    }
}

#[test]
fn what_was_reserved_stays_so_while_the_host_is_in_trouble() {
    let trouble = |reason| Outcome::Retry {
        reason,
        retry_after: None,
        host_backs_off: false,
    };
    let moved = Outcome::Redirect {
        to: url("http://a.org/there.json"),
    };
    let gone = Outcome::Drop {
        reason: Reason::ClientError,
    };
    for (answers, reserved) in [
        (vec![trouble(Reason::Timeout)], Some(true)),
        (vec![moved.clone(), trouble(Reason::Overloaded)], Some(true)),
        (vec![gone.clone()], None),
        (vec![moved, gone], None),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut now = 0;
        let (mut f, task) = asked(folder.path(), &mut now);
        answer(&mut f, &task, Outcome::Done, RESERVED, now);
        let page = lease(&mut f, &mut now).unwrap();
        assert_eq!(page.terms.stated.tdm_reservation, Some(true));
        done(&mut f, &page, vec![], now);
        now += 2 * DAY;
        let mut page = lease(&mut f, &mut now).unwrap();
        let mut answers = answers.into_iter().peekable();
        while page.kind == TaskKind::Tdmrep {
            // The last answer is given again as often as it is asked for.
            let outcome = answers.next().unwrap();
            if answers.peek().is_none() {
                answers = vec![outcome.clone()].into_iter().peekable();
            }
            answer(&mut f, &page, outcome, "", now);
            page = lease(&mut f, &mut now).unwrap();
        }
        assert_eq!((page.kind, page.url.path()), (TaskKind::Page, "/2"));
        assert_eq!(page.terms.stated.tdm_reservation, reserved);
        done(&mut f, &page, vec![], now);
        check(&f);
    }
}

#[test]
fn redirects_on_the_host_are_followed_and_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut now = 0;
    let (mut f, mut task) = asked(folder.path(), &mut now);
    let to = |n: u8| Outcome::Redirect {
        to: url(&format!("http://a.org/{n}.json")),
    };
    for n in 1..=5 {
        assert_eq!(answer(&mut f, &task, to(n), "", now), Settled::Redirected);
        // Even if the process ends in between.
        if n == 3 {
            drop(f);
            f = open_asking(folder.path(), now);
        }
        task = lease(&mut f, &mut now).unwrap();
        assert_eq!((task.kind, task.redirects), (TaskKind::Tdmrep, n));
        assert_eq!(task.url.path(), format!("/{n}.json"));
    }
    let reason = Reason::BadRedirect;
    assert_eq!(
        answer(&mut f, &task, to(6), "", now),
        Settled::Dropped { reason }
    );
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.kind, TaskKind::Page);
    assert_eq!(task.terms.stated.tdm_reservation, Some(true));
    check(&f);
}

#[test]
fn robots_rules_govern_the_request_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open_asking(folder.path(), 0);
    f.add_seeds(&[url("http://a.org/1")], 0).unwrap();
    let task = f.lease(0).unwrap().unwrap();
    let rules = "User-agent: *\nDisallow: /.well-known/\nContent-Signal: ai-train=no\n";
    robots(&mut f, &task, RobotsAnswer::Rules(rules.into()), 0);
    let mut now = 0;
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.url.path(), "/1");
    assert_eq!(
        task.terms.stated.content_signals,
        [("ai-train".to_owned(), SignalValue::Flag(false))].into()
    );
    done(&mut f, &task, vec![], now);
    // A host without any permitted page is not contacted either.
    f.add_seeds(&[url("http://b.org/1")], now).unwrap();
    let task = f.lease(now).unwrap().unwrap();
    let rules = "User-agent: *\nDisallow: /1\n";
    robots(&mut f, &task, RobotsAnswer::Rules(rules.into()), now);
    assert_eq!(lease(&mut f, &mut now), None);
    check(&f);
}

fn a_crash_while_it_is_asked_asks_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut now = 0;
    let (f, _) = asked(folder.path(), &mut now);
    drop(f);
    let (mut f, task) = asked(folder.path(), &mut now);
    f.abandon(&task, now).unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.kind, TaskKind::Tdmrep);
    answer(&mut f, &task, Outcome::Done, RESERVED, now);
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.terms.stated.tdm_reservation, Some(true));
    check(&f);
}

#[test]
fn images_are_dropped_where_their_host_forbids_them() {
    for (obeyed, fetched) in [
        (Signal::ALL.to_vec(), vec!["http://i.org/free/x.png"]),
        (
            vec![Signal::Robots, Signal::ContentSignal],
            vec!["http://i.org/free/x.png", "http://i.org/y.png"],
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut f = open_obeying(folder.path(), obeyed, 0);
        f.add_seeds(&[url("http://a.org/")], 0).unwrap();
        let mut now = 0;
        let mut images = Vec::new();
        while let Some(task) = lease(&mut f, &mut now) {
            match task.kind {
                TaskKind::Tdmrep if task.host.as_str() == "i.org" => {
                    let file = r#"[{"location": "/free/", "tdm-reservation": 0},
                                   {"location": "*", "tdm-reservation": 1}]"#;
                    answer(&mut f, &task, Outcome::Done, file, now);
                }
                TaskKind::Tdmrep => {
                    answer(&mut f, &task, Outcome::Done, "", now);
                }
                TaskKind::Page => {
                    let image = |address| image(address, "http://a.org/", 1.0);
                    let effects = Effects {
                        images: ["http://i.org/free/x.png", "http://i.org/y.png"]
                            .map(image)
                            .into(),
                        ..Effects::default()
                    };
                    finish(&mut f, &task, Outcome::Done, effects, now);
                }
                _ => {
                    images.push(task.url.to_string());
                    finish(&mut f, &task, Outcome::Done, Effects::default(), now);
                }
            }
        }
        assert_eq!(images, fetched);
        let forbidden = 2 - fetched.len() as u64;
        let dropped = f.counts().dropped.get(&Reason::Forbidden);
        assert_eq!(dropped.copied().unwrap_or_default(), forbidden);
        assert!(f.contexts(&url("http://i.org/y.png")).unwrap().is_empty());
        check(&f);
    }
}

#[test]
fn an_address_that_cannot_be_found_asks_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut now = 0;
    let (mut f, task) = asked(folder.path(), &mut now);
    let task = Task {
        locate: true,
        ..task
    };
    let outcome = Outcome::Retry {
        reason: Reason::Dns,
        retry_after: None,
        host_backs_off: true,
    };
    answer(&mut f, &task, outcome, "", now);
    let before = now;
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.kind, TaskKind::Tdmrep);
    assert!(now >= before + 30_000);
    // Given up in the end, like every task of a host that cannot be resolved.
    let mut task = Some(task);
    let mut times = 0;
    while let Some(next) = task {
        let outcome = Outcome::Drop {
            reason: Reason::PrivateAddress,
        };
        let next = Task {
            locate: true,
            ..next
        };
        answer(&mut f, &next, outcome, "", now);
        times += 1;
        task = lease(&mut f, &mut now);
    }
    assert_eq!((times, f.hosts()), (3, (1, 1)));
    check(&f);
}

#[test]
fn an_export_carries_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut now = 0;
    let (mut f, task) = asked(folder.path(), &mut now);
    answer(&mut f, &task, Outcome::Done, RESERVED, now);
    f.close().unwrap();
    let store = open_store(folder.path()).unwrap();
    assert!(consistency::check(&*store).unwrap().is_sound());
    let (lines, _) = exported(&*store);
    let found = lines
        .iter()
        .filter(|line| line.contains("\"tdmrep\""))
        .count();
    assert_eq!(found, 1, "{lines:?}");
    let other = tempfile::tempdir().unwrap();
    let mut store = imported(&lines, other.path());
    assert!(consistency::check(&*store).unwrap().is_sound());
    let host = HostKey::from_stored("a.org");
    let mut batch = store::Batch::default();
    batch.put(keys::tdmrep(&host, "https"), vec![0xFF]);
    store.apply(batch).unwrap();
    assert_eq!(consistency::check(&*store).unwrap().count, 1);
    drop(store);
    let mut f = open_asking(other.path(), now);
    now += 10_000;
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.terms.stated.tdm_reservation, Some(true));
}
