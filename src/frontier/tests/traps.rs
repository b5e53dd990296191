//! Copies and budgets: limits for sites that generate addresses without end.

use super::*;
use crate::page::{BlockPrint, Prints};
use crate::traps::Budget;
use crate::view::View;

/// A page of one block, which is the same for the same `text`.
fn prints(text: u32, simhash: Option<u64>) -> Option<Prints> {
    let hash = text.wrapping_mul(0x9e37_79b9);
    let blocks = vec![BlockPrint { hash, words: 50 }];
    Some(Prints { simhash, blocks })
}

fn brings(f: &mut Frontier, task: &Task, effects: Effects, now: u64) -> Finished {
    let stamp = f.stamp();
    f.finish(task, Outcome::Done, effects, SECOND, now, |_| {
        Ok::<_, StoreError>(Written {
            stamp,
            ..Written::default()
        })
    })
    .unwrap()
}

fn state(f: &Frontier, address: &str) -> State {
    let record = f.look_up(&url(address), TaskKind::Page).unwrap();
    record.unwrap().state
}

fn is_dropped(f: &Frontier, address: &str, reason: Reason) {
    assert_eq!(state(f, address), State::Dropped { reason }, "{address}");
}

/// Finishes a first page of `a.org` that links to these paths. It is not a seed.
fn begin(f: &mut Frontier, paths: impl IntoIterator<Item = String>, now: &mut u64) {
    f.add_seeds(&[url("http://a.org/start/here")], *now)
        .unwrap();
    let task = lease(f, now).unwrap();
    let links = paths
        .into_iter()
        .map(|p| page(&format!("http://a.org{p}"), 1.0));
    done(f, &task, links.collect(), *now);
}

/// Leases and finishes everything, with the result of `effects` for each task.
fn drain(
    f: &mut Frontier,
    now: &mut u64,
    mut effects: impl FnMut(&Task) -> Effects,
) -> Vec<String> {
    let mut asked = Vec::new();
    while let Some(task) = lease(f, now) {
        asked.push(task.url.path_and_query().to_owned());
        let effects = effects(&task);
        brings(f, &task, effects, *now);
    }
    check(f);
    asked
}

#[test]
fn a_calendar_ends_and_an_archive_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 1;
    begin(
        &mut f,
        ["/cal/2026-01/".to_owned(), "/wiki/0".to_owned()],
        &mut now,
    );
    let mut n = 0;
    let asked = drain(&mut f, &mut now, |task| {
        n += 1;
        let path = task.url.path();
        let (text, next) = match path.strip_prefix("/wiki/") {
            Some(number) => {
                let next: u32 = number.parse::<u32>().unwrap() + 1;
                (1_000 + next, (next < 300).then(|| format!("/wiki/{next}")))
            }
            None => (7, Some(format!("/cal/{n}-01/"))),
        };
        let links = next.map(|path| page(&format!("http://a.org{path}"), 1.0));
        Effects {
            links: links.into_iter().collect(),
            prints: prints(text, None),
            ..Effects::default()
        }
    });
    let count = |prefix: &str| asked.iter().filter(|p| p.starts_with(prefix)).count();
    assert_eq!(count("/wiki/"), 300);
    assert!((8..=20).contains(&count("/cal/")), "{}", count("/cal/"));
    let last = asked.iter().rposition(|p| p.starts_with("/cal/")).unwrap();
    let trapped = format!("http://a.org/cal/{}-01/", last + 1);
    is_dropped(&f, &trapped, Reason::PrefixBudget);
    let budget = f.budget(&url(&trapped)).unwrap();
    assert_eq!((budget.left, budget.fruitful), (0, (1, 1)));
    assert_eq!(budget.fetched.0, count("/cal/") as u64);
    let wiki = f.budget(&url("http://a.org/wiki/x")).unwrap();
    assert!(wiki.left >= 80, "{wiki:?}");
    // It is spent after a restart, and for read-only access; another host's is not.
    f.close().unwrap();
    let store = open_store(folder.path()).unwrap();
    assert_eq!(View::new(&*store).budget(&url(&trapped)).unwrap(), budget);
    drop(store);
    let mut f = open(folder.path(), now);
    assert_eq!(f.budget(&url("http://b.org/cal/1/")).unwrap().left, 24);
    // The operator's seed takes precedence.
    f.add_seeds(&[url("http://a.org/cal/77/")], now).unwrap();
    assert_eq!(lease(&mut f, &mut now).unwrap().url.path(), "/cal/77/");
}

#[test]
fn a_maze_of_filters_ends_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 1;
    begin(&mut f, ["/list".to_owned()], &mut now);
    let asked = drain(&mut f, &mut now, |task| {
        let query = task.url.query().unwrap_or_default().to_owned();
        let more = ["a", "b", "c", "d", "e", "f"].into_iter().flat_map(|name| {
            let query = query.clone();
            (0..5).map(move |value| format!("http://a.org/list?{query}&{name}={value}"))
        });
        Effects {
            links: more.map(|address| page(&address, 1.0)).collect(),
            prints: prints(7, None),
            ..Effects::default()
        }
    });
    assert!(asked.len() <= 60, "{}", asked.len());
    assert!(asked.len() >= 12, "{}", asked.len());
}

#[test]
fn known_targets_cost_images_earn_and_what_is_gone_does_neither() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 1;
    let paths = |folder: &'static str| (0..40).map(move |i| format!("/{folder}{i}"));
    let all = paths("gone/")
        .chain(paths("login?back="))
        .chain(paths("name/"));
    let all = all.chain(paths("gallery/"));
    begin(&mut f, all, &mut now);
    let mut asked = [0; 4];
    while let Some(task) = lease(&mut f, &mut now) {
        let path = task.url.path();
        let reason = Reason::ClientError;
        let (which, outcome) = match path.split('/').nth(1) {
            Some("gone") => (0, Outcome::Drop { reason }),
            Some("login") => {
                let to = url("http://a.org/start/here?utm_source=login");
                (1, Outcome::Redirect { to })
            }
            Some("name") => {
                let to = url("http://a.org/start/here");
                (3, Outcome::Redirect { to })
            }
            _ => (2, Outcome::Done),
        };
        asked[which] += 1;
        // The same few words, and every page of the gallery has another picture.
        let picture = format!("http://a.org/picture{path}.png");
        let effects = Effects {
            images: vec![super::image(&picture, task.url.as_str(), 1e9)],
            prints: prints(9, None),
            ..Effects::default()
        };
        finish(&mut f, &task, outcome, effects, now);
    }
    check(&f);
    assert!(asked[1] <= 15, "{asked:?}");
    assert_eq!((asked[0], asked[2], asked[3]), (40, 40, 40));
}

#[test]
fn near_copies_feed_no_links() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 1;
    let simhash = 0x1234_5678_9abc_def0;
    let pages = [
        ("http://a.org/0", simhash, None),
        ("http://a.org/1", simhash, Some("http://a.org/0")),
        // Three bits in three bands, then four in four.
        (
            "http://a.org/2",
            simhash ^ 0x0001_0001_0001_0000,
            Some("http://a.org/0"),
        ),
        ("http://a.org/3", simhash ^ 0x0001_0001_0001_0001, None),
        ("http://b.org/4", simhash, None),
    ];
    f.add_seeds(&[url("http://a.org/"), url("http://b.org/")], 0)
        .unwrap();
    for links in [vec![0, 1, 2, 3], vec![4]] {
        let task = lease(&mut f, &mut now).unwrap();
        let host = task.url.host().to_owned();
        let links = links
            .iter()
            .map(|i| page(&format!("http://{host}/{i}"), f64::from(*i)));
        done(&mut f, &task, links.collect(), now);
    }
    for _ in 0..5 {
        let task = lease(&mut f, &mut now).unwrap();
        let (address, simhash, original) = *pages
            .iter()
            .find(|(address, ..)| *address == task.url.as_str())
            .unwrap();
        let link = format!("{address}/next");
        let effects = Effects {
            // Above the razor: known, and not queued.
            links: vec![page(&link, 1e9)],
            prints: prints(1, Some(simhash)),
            ..Effects::default()
        };
        let finished = brings(&mut f, &task, effects, now);
        assert_eq!(finished.settled, Settled::Done);
        assert_eq!(finished.near_copy_of, original.map(url), "{address}");
        let followed = f.look_up(&url(&link), TaskKind::Page).unwrap().is_some();
        assert_eq!(followed, original.is_none(), "{address}");
    }
    assert!(lease(&mut f, &mut now).is_none());
    check(&f);
}

/// Finishes `task` as a page that declares `canonical` as its canonical address.
fn claims(f: &mut Frontier, task: &Task, canonical: &str, simhash: Option<u64>) -> Finished {
    let effects = Effects {
        links: vec![page(&format!("{}/next", task.url), 1e9)],
        canonical: Some(url(canonical)),
        prints: prints(1, simhash),
        ..Effects::default()
    };
    brings(f, task, effects, 1)
}

#[test]
fn a_canonical_address_that_was_not_fetched_is_not_fetched() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 1;
    let paths = ["/p?view=print", "/q", "/q?view=print", "/r"];
    begin(&mut f, paths.map(str::to_owned), &mut now);
    let print = lease(&mut f, &mut now).unwrap();
    // Unknown so far.
    let finished = claims(&mut f, &print, "http://a.org/p?utm_source=x", None);
    assert_eq!(
        (finished.settled, finished.duplicate_of),
        (Settled::Done, None)
    );
    let stands = |id, to: &str| State::Redirected {
        id,
        to: to.to_owned(),
    };
    let id = finished.id.unwrap();
    assert_eq!(
        state(&f, "http://a.org/p"),
        stands(id, "http://a.org/p?view=print")
    );
    check(&f);
    // Queued.
    assert_eq!(state(&f, "http://a.org/q?view=print"), State::Queued);
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.url.as_str(), "http://a.org/q");
    let id = claims(&mut f, &task, "http://a.org/q?view=print", None)
        .id
        .unwrap();
    assert_eq!(
        state(&f, "http://a.org/q?view=print"),
        stands(id, "http://a.org/q")
    );
    check(&f);
    // A link to either changes nothing, and both are in the chain of later pages.
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.url.as_str(), "http://a.org/r");
    let links = ["http://a.org/p", "http://a.org/q?view=print"].map(|a| page(a, 0.0));
    done(&mut f, &task, links.to_vec(), now);
    assert!(lease(&mut f, &mut now).is_none());
    check(&f);
}

#[test]
fn the_copy_of_a_fetched_page_brings_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 1;
    let paths = ["/p?view=print", "/p?view=small", "/q", "/q?view=print"];
    begin(&mut f, paths.map(str::to_owned), &mut now);
    let before = f.counts().documents;
    // The second declares the address that the first one stands for.
    let first = lease(&mut f, &mut now).unwrap();
    claims(&mut f, &first, "http://a.org/p", Some(77));
    let second = lease(&mut f, &mut now).unwrap();
    let finished = claims(&mut f, &second, "http://a.org/p", Some(76));
    assert_eq!(finished.settled, Settled::Redirected);
    assert_eq!(finished.duplicate_of.as_ref(), Some(&first.url));
    assert!(matches!(
        state(&f, second.url.as_str()),
        State::Redirected { to, .. } if to == first.url.as_str()
    ));
    let task = lease(&mut f, &mut now).unwrap();
    claims(&mut f, &task, "http://a.org/q", Some(1 << 40));
    let copy = lease(&mut f, &mut now).unwrap();
    let finished = claims(&mut f, &copy, "http://a.org/q", Some(1 << 40));
    assert_eq!(finished.duplicate_of, Some(task.url));
    assert_eq!(f.counts().documents, before + 2);
    for copy in [second, copy] {
        let link = url(&format!("{}/next", copy.url));
        assert!(f.look_up(&link, TaskKind::Page).unwrap().is_none());
    }
    check(&f);
}

#[test]
fn claims_that_are_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open_with(folder.path(), "reject = ['org,a)/private']", 0);
    let mut now = 1;
    let seeds = [
        "http://a.org/start/here",
        "http://a.org/seed",
        "http://b.org/x",
    ];
    f.add_seeds(&seeds.map(url), 0).unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    let paths = ["/list", "/list?page=2", "/deep/a/b", "/c", "/d"];
    let links = paths.map(|p| page(&format!("http://a.org{p}"), 1.0));
    done(&mut f, &task, links.to_vec(), now);
    let claimed = [
        ("http://a.org/seed", "http://b.org/y", 0xaaaa_5555_0f0f_3333),
        ("http://b.org/x", "http://b.org/x", 0),
        ("http://a.org/list", "http://a.org/list", 0),
        // Another text than the declared page, as with lists on many pages.
        ("http://a.org/list?page=2", "http://a.org/list", u64::MAX),
        ("http://a.org/deep/a/b", "http://a.org/", 0xffff_0000),
        ("http://a.org/c", "http://b.org/x", 0x1234_5678),
        ("http://a.org/d", "http://a.org/private", 0x1111_2222),
    ];
    for _ in 0..claimed.len() {
        let task = lease(&mut f, &mut now).unwrap();
        let (_, canonical, simhash) = claimed
            .iter()
            .find(|(address, ..)| *address == task.url.as_str())
            .unwrap();
        let finished = claims(&mut f, &task, canonical, Some(*simhash));
        assert_eq!(
            (
                finished.settled,
                finished.duplicate_of,
                finished.near_copy_of
            ),
            (Settled::Done, None, None),
            "{}",
            task.url
        );
        let link = url(&format!("{}/next", task.url));
        let followed = f.look_up(&link, TaskKind::Page).unwrap().is_some();
        assert!(followed, "{}", task.url);
    }
    assert!(lease(&mut f, &mut now).is_none());
    for address in ["http://b.org/y", "http://a.org/", "http://a.org/private"] {
        assert_eq!(
            f.look_up(&url(address), TaskKind::Page).unwrap(),
            None,
            "{address}"
        );
    }
    check(&f);
}

#[test]
fn a_domain_has_one_budget() {
    let folder = tempfile::tempdir().unwrap();
    let scope = "domain_documents = 3";
    let mut f = open_with(folder.path(), scope, 0);
    let mut now = 1;
    let addresses = |i: u32| url(&format!("http://w{i}.a.co.uk/"));
    f.add_seeds(&(0..6).map(addresses).collect::<Vec<_>>(), 0)
        .unwrap();
    f.add_seeds(&[url("http://b.co.uk/")], 0).unwrap();
    for _ in 0..2 {
        let task = lease(&mut f, &mut now).unwrap();
        done(&mut f, &task, vec![], now);
    }
    f.close().unwrap();
    let mut f = open_with(folder.path(), scope, now);
    let asked = drain(&mut f, &mut now, |_| Effects::default());
    assert_eq!(asked.len(), 2, "one of the first domain, one of the other");
    is_dropped(&f, "http://w5.a.co.uk/", Reason::DomainBudget);
    assert!(matches!(state(&f, "http://b.co.uk/"), State::Done { .. }));
    drop(f);
    let store = open_store(folder.path()).unwrap();
    let view = View::new(&*store);
    let key = url("http://any.a.co.uk/").host_key();
    assert_eq!(view.domain_documents(&key).unwrap(), 3);
}

#[test]
fn sessions_are_known_by_one_address() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 1;
    let links = [
        "/a;jsessionid=1?b=2",
        "/a?b=2&PHPSESSID=3",
        "/a?utm_source=4&b=2",
    ];
    begin(&mut f, links.map(str::to_owned), &mut now);
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.url.as_str(), "http://a.org/a?b=2");
    // A site that insists on its session gets it, once.
    let to = url("http://a.org/a?b=2&PHPSESSID=9");
    let outcome = Outcome::Redirect { to: to.clone() };
    finish(&mut f, &task, outcome, Effects::default(), now);
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.url, to);
    let links = vec![page("http://a.org/a?b=2&PHPSESSID=10", 1.0)];
    done(&mut f, &task, links, now);
    assert!(lease(&mut f, &mut now).is_none());
    check(&f);
}

#[test]
fn a_circle_of_redirects_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 1;
    begin(&mut f, ["/a".to_owned(), "/self".to_owned()], &mut now);
    let mut asked = 0;
    while let Some(task) = lease(&mut f, &mut now) {
        let to = match task.url.path() {
            "/a" => url("http://a.org/b"),
            "/b" => url("http://a.org/a"),
            _ => task.url.clone(),
        };
        finish(
            &mut f,
            &task,
            Outcome::Redirect { to },
            Effects::default(),
            now,
        );
        asked += 1;
    }
    // One that leads to itself has set a cookie, as far as is known here.
    assert_eq!(asked, 3 + u32::from(test_policy().max_redirects));
    check(&f);
}

#[test]
fn an_export_holds_budgets_and_simhashes() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(&folder.path().join("first"), 0);
    let mut now = 1;
    begin(&mut f, (0..5).map(|i| format!("/{i}")), &mut now);
    drain(&mut f, &mut now, |task| Effects {
        prints: prints(1, Some(task.lease << 30)),
        ..Effects::default()
    });
    let (lines, found) = exported(f.ledger.store());
    assert_eq!(found.damaged_count, 0);
    for fact in ["prefix", "domain"] {
        let tag = format!("{{\"fact\":\"{fact}\"");
        assert!(lines.iter().any(|l| l.starts_with(&tag)), "no {fact}");
    }
    let store = imported(&lines, &folder.path().join("second"));
    let pairs = |store: &dyn Store, class: &[u8]| {
        let mut pairs = Vec::new();
        store
            .scan(class, &[], &mut |key, value| {
                pairs.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            })
            .unwrap();
        pairs
    };
    assert_eq!(exported(&*store).0[1..], lines[1..]);
    for class in [b"P", b"G"] {
        assert_eq!(pairs(&*store, class), pairs(f.ledger.store(), class));
    }
    // Pages compared before are compared after.
    let after = pairs(&*store, b"F");
    let before = pairs(f.ledger.store(), b"F");
    assert!(!before.is_empty() && before.iter().all(|pair| after.contains(pair)));
    assert!(consistency::check(&*store).unwrap().is_sound());
    let mut batch = store::Batch::default();
    batch.put(b"Pa.org\0/x/".to_vec(), vec![0xff]);
    batch.put(b"Gorg".to_vec(), vec![0xff]);
    batch.put(b"Fa.org\0".to_vec(), vec![]);
    f.ledger.store_mut().apply(batch).unwrap();
    assert_eq!(consistency::check(f.ledger.store()).unwrap().count, 3);
    let unknown: Budget = f.budget(&url("http://q.org/")).unwrap();
    assert_eq!((unknown.left, unknown.fetched), (24, (0, 0)));
}
