//! The effect of a changed scope on stored records.

use super::*;

over_all! {
    a_changed_scope_is_judged_at_opening_and_goes_on_after_a_crash
}

fn scope(section: &str) -> Scope {
    let text = format!("[job]\nname = \"test\"\n[scope]\n{section}");
    Scope::new(Config::parse(&text, "test.toml").unwrap().settings.scope)
}

/// Checks all records again; the store must be consistent after every slice.
fn rescope_all(f: &mut Frontier, now: u64) -> Rescoped {
    loop {
        assert!(f.is_rescoping());
        let done = f.rescope_slice(now).unwrap();
        check(f);
        if let Some(done) = done {
            assert!(!f.is_rescoping());
            assert_eq!(f.rescope_slice(now).unwrap(), None);
            return done;
        }
    }
}

/// A frontier that has fetched one seed with these links.
fn with_links(path: &Path, section: &str, links: Vec<NewTask>) -> (Frontier, u64) {
    let mut f = open_with(path, section, 0);
    let mut now = 0;
    f.add_seeds(&[url("http://s.org/")], 0).unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    done(&mut f, &task, links, now);
    (f, now)
}

fn state(f: &Frontier, address: &str) -> State {
    let known = f.look_up(&url(address), TaskKind::Page).unwrap();
    known.unwrap().state
}

/// All pages to fetch, in order, each finished without links.
fn rest(f: &mut Frontier, now: &mut u64) -> Vec<String> {
    let mut order = Vec::new();
    while let Some(task) = lease(f, now) {
        order.push(task.url.as_str().to_owned());
        done(f, &task, vec![], *now);
    }
    order
}

/// Ten pages on each of two hosts.
fn two_hosts() -> Vec<NewTask> {
    let address = |i: u32| format!("http://{}.org/{i}", if i < 10 { "a" } else { "b" });
    (0..20).map(|i| page(&address(i), f64::from(i))).collect()
}

#[test]
fn a_narrower_scope_drops_and_a_wider_one_brings_back() {
    let folder = tempfile::tempdir().unwrap();
    let (mut f, mut now) = with_links(folder.path(), "", two_hosts());
    assert!(!f.set_scope(scope("")).unwrap(), "the same rules");
    assert!(f.set_scope(scope("reject = ['host:b.org']")).unwrap());
    assert!(!f.is_exhausted());
    // Links are still added while all records are checked.
    assert_eq!(f.rescope_slice(now).unwrap(), None);
    let task = f.lease(now + 100_000).unwrap().unwrap();
    robots(&mut f, &task, RobotsAnswer::Missing, now + 100_000);
    now += 200_000;
    let task = f.lease(now).unwrap().unwrap();
    assert_eq!(task.url.as_str(), "http://a.org/0");
    let new = ["http://b.org/new", "http://a.org/new"];
    done(&mut f, &task, new.map(|a| page(a, 99.0)).to_vec(), now);
    let came = rescope_all(&mut f, now);
    assert_eq!((came.dropped, came.revived), (10, 0));
    assert_eq!(came.seen, 23);
    assert_eq!(f.counts().dropped[&Reason::Scope], 11);
    let order = rest(&mut f, &mut now);
    assert_eq!(order.len(), 10);
    assert!(order.iter().all(|a| a.starts_with("http://a.org/")));
    assert!(f.is_exhausted());

    assert!(f.set_scope(scope("reject = ['regex:/1[5-9]$']")).unwrap());
    let came = rescope_all(&mut f, now);
    assert_eq!((came.seen, came.dropped, came.revived), (23, 0, 6));
    let mut expected: Vec<String> = (10..15).map(|i| format!("http://b.org/{i}")).collect();
    expected.push("http://b.org/new".to_owned());
    assert_eq!(rest(&mut f, &mut now), expected, "best first, as before");
    assert_eq!(f.counts().dropped[&Reason::Scope], 5);
    check(&f);
}

#[test]
fn new_rules_hold_before_anything_is_judged_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (mut f, mut now) = with_links(folder.path(), "", two_hosts());
    f.set_scope(scope("reject = ['host:a.org']")).unwrap();
    for _ in 0..20 {
        // While records are checked there is always work to do at once.
        assert_eq!(f.next_event(), Some(0));
        now += 60_000;
        match f.lease(now).unwrap() {
            Some(task) if task.kind == TaskKind::Robots => {
                assert_eq!(task.host.as_str(), "b.org");
                robots(&mut f, &task, RobotsAnswer::Missing, now);
            }
            Some(task) => {
                assert_eq!(task.host.as_str(), "b.org");
                done(&mut f, &task, vec![], now);
            }
            None => break,
        }
    }
    assert_eq!(f.counts().documents, 11);
    // Not even the robots.txt of a host without any wanted page was requested.
    let host = url("http://a.org/").host_key();
    assert_eq!(f.look_up_host(&host).unwrap(), None);
    let came = rescope_all(&mut f, now);
    assert_eq!(
        came.dropped, 0,
        "all were met when they would have been leased"
    );
    assert_eq!(f.counts().dropped[&Reason::Scope], 10);
}

fn a_changed_scope_is_judged_at_opening_and_goes_on_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let (f, now) = with_links(folder.path(), "", two_hosts());
    f.close().unwrap();
    let narrow = "accept = ['org,b', 'org,s']";
    let mut f = open_with(folder.path(), narrow, now);
    assert_eq!(f.rescope_slice(now).unwrap(), None);
    assert_eq!(f.counts().dropped[&Reason::Scope], 7);
    // A simulated crash: nothing is closed cleanly.
    drop(f);
    let mut f = open_with(folder.path(), narrow, now);
    let came = rescope_all(&mut f, now);
    assert_eq!((came.seen, came.dropped), (21 - 7, 3));
    drop(f);
    let f = open_with(folder.path(), narrow, now);
    assert!(!f.is_rescoping());
    assert_eq!(f.counts().dropped[&Reason::Scope], 10);
    drop(f);
    let mut f = open_with(folder.path(), "", now);
    assert_eq!(rescope_all(&mut f, now).revived, 10);
}

#[test]
fn an_import_goes_on_where_the_export_was() {
    let folder = tempfile::tempdir().unwrap();
    let (mut f, now) = with_links(&folder.path().join("first"), "", two_hosts());
    let narrow = "accept = ['org,b']";
    f.set_scope(scope(narrow)).unwrap();
    assert_eq!(f.rescope_slice(now).unwrap(), None);
    let (lines, _) = exported(f.ledger.store());
    let second = folder.path().join("second");
    drop(imported(&lines, &second));
    let mut f = open_with(&second, narrow, now);
    let came = rescope_all(&mut f, now);
    assert_eq!((came.seen, came.dropped), (21 - 7, 3));
}

#[test]
fn what_comes_back_keeps_its_priority_and_the_razor_goes_first() {
    let folder = tempfile::tempdir().unwrap();
    let links = vec![
        page("http://a.org/high", 10.0),
        page("http://a.org/low", 9_000.0),
        page("http://a.org/none", 90_000.0),
        page("http://b.org/x/x/x/x", 11.0),
        page("http://b.org/", 20_000.0),
    ];
    let (mut f, mut now) = with_links(folder.path(), "max_hops = 0", links);
    assert_eq!(f.counts().dropped[&Reason::Hops], 4);
    assert_eq!(f.counts().dropped[&Reason::Razor], 1);
    f.set_scope(scope("repeated_segments = 3")).unwrap();
    assert_eq!(rescope_all(&mut f, now).revived, 3);
    assert_eq!(
        f.counts().dropped[&Reason::Trap],
        1,
        "for another reason now"
    );
    assert_eq!(f.counts().queued, [0, 1, 0, 0, 2]);
    f.set_scope(scope("repeated_segments = 4")).unwrap();
    assert_eq!(rescope_all(&mut f, now).revived, 1);
    let order = rest(&mut f, &mut now);
    let expected = ["a.org/high", "b.org/x/x/x/x", "a.org/low", "b.org/"];
    assert_eq!(order, expected.map(|a| format!("http://{a}")));
    let reason = Reason::Razor;
    assert_eq!(state(&f, "http://a.org/none"), State::Dropped { reason });
}

#[test]
fn a_better_link_to_what_is_kept_out_is_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let out = "reject = ['host:a.org']";
    let links = vec![
        page("http://a.org/", 9_000.0),
        page("http://a.org/none", 90_000.0),
        page("http://b.org/", 1.0),
    ];
    let (mut f, mut now) = with_links(folder.path(), out, links);
    let task = lease(&mut f, &mut now).unwrap();
    let links = vec![page("http://a.org/", 5.0), page("http://a.org/none", 6.0)];
    done(&mut f, &task, links, now);
    check(&f);
    assert_eq!(f.counts().dropped.get(&Reason::Razor), Some(&0));
    f.set_scope(scope("max_hops = 2")).unwrap();
    assert_eq!(rescope_all(&mut f, now).revived, 2);
    let first = f
        .look_up(&url("http://a.org/"), TaskKind::Page)
        .unwrap()
        .unwrap();
    assert_eq!(
        (first.bucket, first.score, first.hops),
        (Bucket::High, 5.0, 1)
    );
    assert_eq!(
        rest(&mut f, &mut now),
        ["http://a.org/", "http://a.org/none"]
    );
}

#[test]
fn a_leased_address_stays_and_is_judged_when_it_would_be_leased_again() {
    let folder = tempfile::tempdir().unwrap();
    let links = vec![page("http://a.org/1", 1.0), page("http://a.org/2", 2.0)];
    let (mut f, mut now) = with_links(folder.path(), "", links);
    let task = lease(&mut f, &mut now).unwrap();
    f.set_scope(scope("reject = ['host:a.org']")).unwrap();
    assert_eq!(rescope_all(&mut f, now).dropped, 1);
    assert_eq!(state(&f, "http://a.org/1"), State::Queued);
    let retry = Outcome::Retry {
        reason: Reason::Timeout,
        retry_after: None,
        host_backs_off: false,
    };
    finish(&mut f, &task, retry, Effects::default(), now);
    assert!(matches!(state(&f, "http://a.org/1"), State::Waiting { .. }));
    assert_eq!(lease(&mut f, &mut now), None);
    let reason = Reason::Scope;
    assert_eq!(state(&f, "http://a.org/1"), State::Dropped { reason });
    check(&f);
}

#[test]
fn what_waits_is_dropped_though_it_was_lifted_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let links = vec![page("http://a.org/1", 50.0), page("http://b.org/", 60.0)];
    let (mut f, mut now) = with_links(folder.path(), "", links);
    let task = lease(&mut f, &mut now).unwrap();
    let retry = Outcome::Retry {
        reason: Reason::Protocol,
        retry_after: None,
        host_backs_off: false,
    };
    finish(&mut f, &task, retry, Effects::default(), now);
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.url.as_str(), "http://b.org/");
    done(&mut f, &task, vec![page("http://a.org/1", 1.0)], now);
    assert_eq!(f.counts().waiting, 1);
    f.set_scope(scope("reject = ['host:a.org']")).unwrap();
    assert_eq!(rescope_all(&mut f, now).dropped, 1);
    assert_eq!(f.counts().waiting, 0);
    f.set_scope(scope("")).unwrap();
    rescope_all(&mut f, now);
    assert_eq!(rest(&mut f, &mut now), ["http://a.org/1"]);
}

#[test]
fn images_come_back_with_their_words_only() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open_with(folder.path(), "reject = ['host:old.net']", 0);
    let mut now = 0;
    f.add_seeds(&[url("http://s.org/"), url("http://s.org/2")], 0)
        .unwrap();
    let give = |f: &mut Frontier, now: &mut u64, names: &[&str]| {
        let task = lease(f, now).unwrap();
        let images = names.iter().map(|name| image(name, task.url.as_str(), 1.0));
        let effects = Effects {
            images: images.collect(),
            ..Effects::default()
        };
        finish(f, &task, Outcome::Done, effects, *now);
    };
    let (old, new) = ("http://old.net/a.gif", "http://new.net/a.gif");
    give(&mut f, &mut now, &[old, new]);
    f.set_scope(scope("reject = ['net']")).unwrap();
    assert_eq!(rescope_all(&mut f, now).dropped, 1);
    assert_eq!(f.counts().queued_images, 0);
    f.set_scope(scope("")).unwrap();
    let came = rescope_all(&mut f, now);
    assert_eq!((came.dropped, came.revived), (0, 1));
    assert_eq!(f.contexts(&url(new)).unwrap().len(), 1);
    let reason = Reason::Scope;
    let of = |f: &Frontier, name: &str| f.look_up(&url(name), TaskKind::Image).unwrap().unwrap();
    assert_eq!(of(&f, old).state, State::Dropped { reason });
    // Found again, it has words.
    give(&mut f, &mut now, &[old]);
    check(&f);
    assert_eq!(of(&f, old).state, State::Queued);
    assert_eq!(f.contexts(&url(old)).unwrap().len(), 1);
    assert_eq!(f.counts().queued_images, 2);
}

#[test]
fn a_greater_host_budget_brings_its_pages_back() {
    let folder = tempfile::tempdir().unwrap();
    let (mut f, mut now) = with_links(folder.path(), "host_documents = 4", two_hosts());
    assert_eq!(rest(&mut f, &mut now).len(), 8);
    assert_eq!(f.counts().dropped[&Reason::HostBudget], 12);
    f.set_scope(scope("host_documents = 4\nreject = ['host:b.org']"))
        .unwrap();
    assert_eq!(rescope_all(&mut f, now).revived, 0);
    assert_eq!(f.counts().dropped[&Reason::Scope], 6);
    f.set_scope(scope("host_documents = 6")).unwrap();
    assert_eq!(rescope_all(&mut f, now).revived, 12);
    assert_eq!(rest(&mut f, &mut now).len(), 4);
    check(&f);
}

const SCOPES: [&str; 4] = [
    "",
    "reject = ['host:h1.org', 'regex:/2[0-9]$']",
    "max_hops = 1",
    "accept = ['org,h0', 'org,h1', 'org,h3']\nhost_documents = 3",
];

proptest! {
    #![proptest_config(spoor_testing::cases!(32))]
    /// For any sequence of scope changes, slices, leases, links and crashes: at the end
    /// nothing is queued that the scope excludes, and nothing is excluded by a scope that
    /// permits it.
    #[test]
    fn at_the_end_all_is_as_the_scope_has_it(
        moves in proptest::collection::vec(
            (0..6_usize, proptest::collection::vec((0..30_usize, 0..40_000_u32), 0..6)), 1..50
        ),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut now = 1_000_000;
        let mut in_force = SCOPES[0];
        let mut f = open_with(folder.path(), in_force, now);
        f.add_seeds(&[address(0), address(1)], now).unwrap();
        for (step, links) in moves {
            now += 40_000;
            match step {
                0 => {
                    in_force = SCOPES[links.len() % SCOPES.len()];
                    f.set_scope(scope(in_force)).unwrap();
                }
                1 => { f.rescope_slice(now).unwrap(); }
                2 if links.len() > 3 => {
                    drop(f);
                    f = open_with(folder.path(), in_force, now);
                }
                _ => if let Some(task) = f.lease(now).unwrap() {
                    let scope_of_lease = scope(in_force);
                    let retry = Outcome::Retry {
                        reason: Reason::Protocol,
                        retry_after: None,
                        host_backs_off: false,
                    };
                    match task.kind {
                        TaskKind::Robots => { robots(&mut f, &task, RobotsAnswer::Missing, now); }
                        _ if links.is_empty() => {
                            finish(&mut f, &task, retry, Effects::default(), now);
                        }
                        _ => {
                            prop_assert_eq!(scope_of_lease.page(&task.url, task.hops), Ok(()));
                            let links = links
                                .into_iter()
                                .map(|(n, score)| page(address(n).as_str(), f64::from(score)))
                                .collect();
                            done(&mut f, &task, links, now);
                        }
                    }
                },
            }
            check(&f);
        }
        while f.is_rescoping() {
            f.rescope_slice(now).unwrap();
            check(&f);
        }
        let rules = scope(in_force);
        let mut wrong = Vec::new();
        f.ledger.store().scan(b"U", &[], &mut |key, value| {
            let record: UrlRecord = postcard::from_bytes(value).unwrap();
            let (url, _) = keys::url_of_key(key).unwrap();
            let verdict = rules.page(&url, record.hops);
            let right = match record.state {
                State::Queued | State::Waiting { .. } => verdict.is_ok(),
                State::Dropped { reason: reason @ (Reason::Scope | Reason::Hops) } => {
                    verdict == Err(reason)
                }
                _ => true,
            };
            if !right {
                wrong.push(format!("{url}: {record:?}, {verdict:?}"));
            }
            ControlFlow::Continue(())
        }).unwrap();
        prop_assert!(wrong.is_empty(), "{:?}", wrong);
    }
}
