//! Sitemaps as tasks: their sources, the links that they add, and their limits.

use super::*;

over_all! {
    a_long_sitemap_is_added_in_parts_and_again_after_a_crash
}

fn open_reading(path: &Path, scope: &str, now: u64) -> Frontier {
    let text = format!("[job]\nname = \"test\"\n[scope]\n{scope}");
    let scope = Scope::new(Config::parse(&text, "test.toml").unwrap().settings.scope);
    let store = open_store(path).unwrap();
    let policy = Policy {
        sitemaps: true,
        ..test_policy()
    };
    Frontier::open(store, policy, scope, now).unwrap()
}

/// Leases the next task of any kind.
fn next(f: &mut Frontier, now: &mut u64) -> Option<Task> {
    loop {
        match f.lease(*now).unwrap() {
            Some(task) => return Some(task),
            None => *now = f.next_event().filter(|at| *at > *now)?,
        }
    }
}

/// Answers every robots.txt with `rules` and every page with nothing until a
/// sitemap is leased.
fn next_sitemap(f: &mut Frontier, rules: &'static str, now: &mut u64) -> Option<Task> {
    loop {
        let task = next(f, now)?;
        match task.kind {
            TaskKind::Sitemap => return Some(task),
            TaskKind::Robots => {
                robots(f, &task, RobotsAnswer::Rules(rules.into()), *now);
            }
            _ => done(f, &task, Vec::new(), *now),
        }
    }
}

fn listed(address: &str) -> NewTask {
    NewTask {
        bucket: Some(Bucket::Normal),
        ..page(address, 10_000.0)
    }
}

#[test]
fn robots_txt_names_sitemaps_and_they_list_pages() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open_reading(folder.path(), "", 0);
    let mut now = 0;
    f.add_seeds(&[url("http://a.org/")], now).unwrap();
    let rules = "Sitemap: http://a.org/map.xml\nSitemap: /also.xml\nSitemap: no://address\n";
    let task = next_sitemap(&mut f, rules, &mut now).unwrap();
    assert_eq!(task.url, url("http://a.org/map.xml"));
    assert_eq!(
        (task.hops, task.via.clone(), task.bucket),
        (0, None, Bucket::Normal)
    );
    assert_eq!(f.counts().documents, 1, "the seed goes before");
    check(&f);
    let effects = Effects {
        links: vec![listed("http://a.org/1"), listed("http://a.org/map.xml")],
        bytes: 7,
        ..Effects::default()
    };
    assert_eq!(
        finish(&mut f, &task, Outcome::Done, effects, now),
        Settled::Done
    );
    check(&f);
    assert_eq!(
        (
            f.counts().sitemaps,
            f.counts().documents,
            f.counts().fetches
        ),
        (1, 1, 1)
    );
    let record = f
        .look_up(&url("http://a.org/1"), TaskKind::Page)
        .unwrap()
        .unwrap();
    assert_eq!((record.state, record.hops), (State::Queued, 1));
    // As a page the same address is a separate task, which the scope refuses.
    let as_page = f.look_up(&task.url, TaskKind::Page).unwrap().unwrap();
    assert_eq!(
        as_page.state,
        State::Dropped {
            reason: Reason::Scope
        }
    );
    f.close().unwrap();
    // It is remembered as read, and contained in an export.
    let store = open_store(folder.path()).unwrap();
    let (lines, found) = exported(&*store);
    assert_eq!((found.urls, found.damaged_count), (5, 0));
    drop(store);
    let other = tempfile::tempdir().unwrap();
    let store = imported(&lines, other.path());
    assert!(consistency::check(&*store).unwrap().is_sound());
    assert_eq!(exported(&*store).0[1..], lines[1..]);
    let view = view::View::new(&*store);
    let record = view
        .url(&url("http://a.org/1"), TaskKind::Page)
        .unwrap()
        .unwrap();
    assert_eq!(view.chain(&record).unwrap(), [url("http://a.org/map.xml")]);
    let mut f = open_reading(folder.path(), "", now);
    let again = next_sitemap(&mut f, rules, &mut now).unwrap();
    assert_eq!(again.url, url("http://a.org/also.xml"));
    finish(
        &mut f,
        &again,
        Outcome::Drop {
            reason: Reason::ClientError,
        },
        Effects::default(),
        now,
    );
    assert_eq!(next_sitemap(&mut f, rules, &mut now), None);
    check(&f);
}

#[test]
fn a_sitemap_is_judged_like_everything_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open_reading(folder.path(), "accept = ['org,a', 'org,b']", 0);
    let mut now = 0;
    f.add_seeds(&[url("http://a.org/")], now).unwrap();
    let rules = "User-agent: *\nDisallow: /no\nSitemap: http://c.org/map.xml\n\
                 Sitemap: http://a.org/no.xml\nSitemap: http://b.org/map.xml.gz\n";
    let task = next_sitemap(&mut f, rules, &mut now).unwrap();
    assert_eq!(task.url, url("http://b.org/map.xml.gz"));
    assert!(
        f.look_up_host(&task.host).unwrap().unwrap().due > now,
        "under its host's clock"
    );
    done(&mut f, &task, Vec::new(), now);
    assert_eq!(next_sitemap(&mut f, rules, &mut now), None);
    for (address, reason) in [
        ("http://c.org/map.xml", Reason::Scope),
        ("http://a.org/no.xml", Reason::Robots),
    ] {
        let record = f
            .look_up(&url(address), TaskKind::Sitemap)
            .unwrap()
            .unwrap();
        assert_eq!(record.state, State::Dropped { reason });
    }
    check(&f);
    // Without the option nothing is added.
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    f.add_seeds(&[url("http://a.org/")], now).unwrap();
    assert_eq!(next_sitemap(&mut f, rules, &mut now), None);
}

#[test]
fn indexes_end_and_redirects_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open_reading(folder.path(), "", 0);
    let mut now = 0;
    f.add_seeds(&[url("http://a.org/")], now).unwrap();
    let rules = "Sitemap: http://a.org/0.xml\n";
    let task = next_sitemap(&mut f, rules, &mut now).unwrap();
    let to = url("http://a.org/moved.xml");
    finish(
        &mut f,
        &task,
        Outcome::Redirect { to },
        Effects::default(),
        now,
    );
    // Every index lists itself and a further one.
    let mut depths = Vec::new();
    while let Some(task) = next_sitemap(&mut f, rules, &mut now) {
        let further = format!("http://a.org/{}.xml", task.hops + 1);
        let effects = Effects {
            sitemaps: vec![task.url.clone(), url(&further)],
            links: vec![listed(&format!("http://a.org/{}", task.hops))],
            ..Effects::default()
        };
        finish(&mut f, &task, Outcome::Done, effects, now);
        depths.push((task.url.path().to_owned(), task.hops));
        check(&f);
    }
    let expected = [("/moved.xml", 0), ("/1.xml", 1), ("/2.xml", 2)];
    assert_eq!(depths, expected.map(|(path, hops)| (path.to_owned(), hops)));
    let record = f
        .look_up(&url("http://a.org/2"), TaskKind::Page)
        .unwrap()
        .unwrap();
    assert_eq!(record.hops, 1);
}

fn a_long_sitemap_is_added_in_parts_and_again_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open_reading(folder.path(), "", 0);
    let mut now = 0;
    f.add_seeds(&[url("http://a.org/")], now).unwrap();
    let rules = "Sitemap: http://a.org/map.xml\n";
    let task = next_sitemap(&mut f, rules, &mut now).unwrap();
    let page = |i: usize| listed(&format!("http://h{}.org/{i}", i % 7));
    let part = |from: usize| Effects {
        links: (from..from + 500).map(page).collect(),
        sitemaps: vec![url("http://a.org/further.xml")],
        ..Effects::default()
    };
    f.add_listed(&task, part(0), now).unwrap();
    check(&f);
    f.flush().unwrap();
    drop(f);
    let mut f = open_reading(folder.path(), "", now);
    assert_eq!(f.counts().queued_pages(), 502);
    let again = next_sitemap(&mut f, rules, &mut now).unwrap();
    assert_eq!(again.url, task.url);
    f.add_listed(&again, part(0), now).unwrap();
    f.add_listed(&again, part(400), now).unwrap();
    finish(&mut f, &again, Outcome::Done, part(800), now);
    check(&f);
    assert_eq!(f.counts().queued_pages() + f.counts().documents, 1_302);
    let further = f.look_up(&url("http://a.org/further.xml"), TaskKind::Sitemap);
    assert_eq!(further.unwrap().unwrap().hops, 1);
    let record = f
        .look_up(&url("http://h3.org/1200"), TaskKind::Page)
        .unwrap()
        .unwrap();
    let sitemap = f.look_up(&task.url, TaskKind::Sitemap).unwrap().unwrap();
    let Some(id) = record.via else {
        panic!("{record:?}")
    };
    assert_eq!(sitemap.state, State::Done { id });
}

#[test]
fn a_host_lists_as_much_as_its_pages_have_earned() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open_reading(folder.path(), "", 0);
    let mut now = 0;
    f.add_seeds(&[url("http://a.org/")], now).unwrap();
    let rules = "Sitemap: http://a.org/map.xml\nSitemap: http://a.org/third.xml\n";
    let task = next_sitemap(&mut f, rules, &mut now).unwrap();
    assert_eq!(task.url, url("http://a.org/map.xml"));
    let part = |host: &str, from: usize, to: usize| Effects {
        links: (from..to)
            .map(|i| listed(&format!("http://{host}/{i}")))
            .collect(),
        ..Effects::default()
    };
    // The seed has earned fifty. Known addresses cost nothing and are not skipped.
    for from in [0, 2_000, 4_000, 6_000, 8_000, 1_000] {
        let part = part("a.org", from, from + 2_000);
        f.add_listed(&task, part, now).unwrap();
    }
    let reason = Reason::ListBudget;
    let dropped = Settled::Dropped { reason };
    let other = url("http://b.a.org/other.xml");
    let last = Effects {
        sitemaps: vec![other.clone()],
        ..part("a.org", 9_900, 10_100)
    };
    assert_eq!(finish(&mut f, &task, Outcome::Done, last, now), dropped);
    check(&f);
    let listing = |f: &Frontier, of: &HostKey| f.view().listing(of).unwrap();
    let expected = |listed, allowed| Listing {
        of: "a.org".to_owned(),
        listed,
        allowed,
        passed_over: 50,
    };
    assert_eq!(listing(&f, &task.host), expected(10_050, 10_050));

    // Another host of the domain has its own account, and shares the domain's.
    let second = next_sitemap(&mut f, rules, &mut now).unwrap();
    assert_eq!(second.url, other);
    let links = part("b.a.org", 0, 3_000);
    assert_eq!(finish(&mut f, &second, Outcome::Done, links, now), dropped);
    let of_domain = listing(&f, &second.host);
    assert_eq!(of_domain.of, "*.a.org");
    assert_eq!(of_domain.listed, of_domain.allowed);
    check(&f);

    // Nothing more is read until half as much is earned again.
    let again = next_sitemap(&mut f, rules, &mut now).unwrap();
    let documents = |f: &Frontier| f.look_up_host(&task.host).unwrap().unwrap().documents;
    assert_eq!((&again.url, documents(&f)), (&task.url, 120));
    let third = url("http://a.org/third.xml");
    let record = f.look_up(&third, TaskKind::Sitemap).unwrap().unwrap();
    assert_eq!(record.state, State::Dropped { reason });
    let links = part("a.org", 9_900, 10_100);
    let settled = finish(&mut f, &again, Outcome::Done, links, now);
    assert_eq!(settled, Settled::Done);
    assert_eq!(listing(&f, &task.host).listed, 10_100);
    let next = next_sitemap(&mut f, rules, &mut now).unwrap();
    assert_eq!((next.url.clone(), documents(&f)), (third, 140));
    finish(&mut f, &next, Outcome::Done, part("a.org", 0, 10), now);
    check(&f);
}
