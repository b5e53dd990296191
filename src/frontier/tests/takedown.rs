//! The remains of addresses in every state after a takedown.

use super::*;
use crate::web::scope::{Order, Takedowns, Target};

over_all! {
    records_leave_every_list_and_never_come_back
}

fn scope(targets: &[Target]) -> Scope {
    let mut all = Takedowns::default();
    for target in targets.iter().cloned() {
        let (time, reason) = (String::new(), None);
        all.add(Order {
            time,
            target,
            reason,
        });
    }
    let config = Config::parse("[job]\nname = \"test\"", "test.toml").unwrap();
    Scope::new(config.settings.scope).with_takedowns(all)
}

/// Excludes the addresses, as a crawl does that opens the job afterwards.
fn forbid(f: &mut Frontier, scope: &Scope, now: u64) {
    f.set_scope(scope.clone()).unwrap();
    while f.is_rescoping() {
        f.rescope_slice(now).unwrap();
    }
}

fn host(name: &str) -> Target {
    Target::Host(name.parse().unwrap())
}

fn state(f: &Frontier, address: &str, kind: TaskKind) -> Option<State> {
    let known = f.look_up(&url(address), kind).unwrap();
    known.map(|record| record.state)
}

const TAKEN: State = State::Dropped {
    reason: Reason::Takedown,
};

fn records_leave_every_list_and_never_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 0;
    f.add_seeds(&[url("http://s.org/")], now).unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    let all = ["done", "waiting", "queued", "moved", "x", "y", "z"];
    let links = (0..).zip(all).map(|(n, name)| {
        let score = f64::from(n) + 1.0;
        page(&format!("http://a.org/{name}"), score)
    });
    let links = links.chain([
        page("http://sub.b.org/1", 50.0),
        page("http://c.org/1", 60.0),
    ]);
    let effects = Effects {
        links: links.collect(),
        images: vec![image("http://i.org/1.png", "http://s.org/", 70.0)],
        ..Effects::default()
    };
    finish(&mut f, &task, Outcome::Done, effects, now);
    let mut others = Vec::new();
    for outcome in [
        Outcome::Done,
        Outcome::Retry {
            reason: Reason::Timeout,
            retry_after: None,
            host_backs_off: false,
        },
    ] {
        let task = loop {
            let task = lease(&mut f, &mut now).unwrap();
            match task.host.as_str() {
                "a.org" => break task,
                _ => others.push(task),
            }
        };
        finish(&mut f, &task, outcome, Effects::default(), now);
    }
    for task in others {
        f.abandon(&task, now).unwrap();
    }
    let orders = [
        host("a.org"),
        host("*.b.org"),
        Target::Url(url("https://i.org/1.png")),
        Target::Url(url("http://nobody.org/")),
    ];
    let scope = scope(&orders);
    let before = f.counts().clone();
    let planned = f.take_down(&scope, &[], &[], now, true).unwrap();
    assert_eq!(f.counts(), &before, "only counted");
    f.set_scope(scope.clone()).unwrap();
    let done = f.take_down(&scope, &[], &[], now, false).unwrap();
    assert_eq!(done, planned);
    assert_eq!((done.addresses, done.contexts, done.forgotten), (9, 1, 0));
    check(&f);
    for name in all {
        let address = format!("http://a.org/{name}");
        assert_eq!(state(&f, &address, TaskKind::Page), Some(TAKEN), "{name}");
    }
    assert_eq!(state(&f, "http://nobody.org/", TaskKind::Page), None);
    assert_eq!(f.counts().documents, before.documents - 1);
    let twice = f.take_down(&scope, &[], &[], now, false).unwrap();
    assert_eq!(twice, Default::default());
    // Found again in every way, also as a seed: only the free host is requested.
    f.add_seeds(&[url("http://a.org/x"), url("http://a.org/new")], now)
        .unwrap();
    while f.is_rescoping() {
        f.rescope_slice(now).unwrap();
    }
    let mut asked = Vec::new();
    while let Some(task) = lease(&mut f, &mut now) {
        asked.push(task.url.as_str().to_owned());
        let to = url("http://a.org/target");
        finish(
            &mut f,
            &task,
            Outcome::Redirect { to },
            Effects::default(),
            now,
        );
    }
    assert_eq!(asked, ["http://c.org/1"]);
    for name in ["target", "new"] {
        let address = format!("http://a.org/{name}");
        assert_eq!(state(&f, &address, TaskKind::Page), Some(TAKEN), "{name}");
    }
    check(&f);
    // The scope comes from a config without the takedown, as if the list were lost.
    drop(f);
    let mut f = open(folder.path(), now);
    while f.is_rescoping() {
        f.rescope_slice(now).unwrap();
    }
    assert_eq!(state(&f, "http://a.org/x", TaskKind::Page), Some(TAKEN));
    assert_eq!(lease(&mut f, &mut now).map(|t| t.url), None);
}

#[test]
fn a_page_that_was_taken_down_is_never_named_again() {
    for taken in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let mut f = open(folder.path(), 0);
        let mut now = 0;
        f.add_seeds(&[url("http://gone.org/p")], now).unwrap();
        let task = lease(&mut f, &mut now).unwrap();
        let effects = Effects {
            links: vec![page("http://stays.org/", 5.0)],
            images: vec![image("http://i.org/1.png", "http://gone.org/p", 5.0)],
            ..Effects::default()
        };
        finish(&mut f, &task, Outcome::Done, effects, now);
        let scope = scope(&[host("gone.org")]);
        if taken {
            f.take_down(&scope, &[], &[], now, false).unwrap();
            forbid(&mut f, &scope, now);
        }
        let mut named = 0;
        while let Some(task) = lease(&mut f, &mut now) {
            named += usize::from(task.via.is_some());
            assert!(!taken || task.via.is_none(), "{task:?}");
            finish(&mut f, &task, Outcome::Done, Effects::default(), now);
        }
        assert_eq!(named > 0, !taken);
        assert!(state(&f, "http://stays.org/", TaskKind::Page).is_some());
    }
}

#[test]
fn words_of_a_page_leave_the_images_that_wait() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 0;
    f.add_seeds(&[url("http://p.org/1"), url("http://q.org/1")], now)
        .unwrap();
    for _ in 0..2 {
        let task = lease(&mut f, &mut now).unwrap();
        let from = task.url.as_str().to_owned();
        let own = format!("http://i.org/of-{}.png", task.host);
        let images = ["http://i.org/both.png", &own].map(|i| image(i, &from, 5.0));
        let effects = Effects {
            images: images.into(),
            ..Effects::default()
        };
        finish(&mut f, &task, Outcome::Done, effects, now);
    }
    let scope = scope(&[Target::Url(url("http://p.org/1"))]);
    let done = f.take_down(&scope, &[], &[], now, false).unwrap();
    forbid(&mut f, &scope, now);
    assert_eq!((done.addresses, done.contexts, done.forgotten), (1, 2, 1));
    check(&f);
    let both = f.contexts(&url("http://i.org/both.png")).unwrap();
    let pages: Vec<&str> = both.iter().map(|c| c.page.as_str()).collect();
    assert_eq!(pages, ["http://q.org/1"]);
    assert_eq!(
        state(&f, "http://i.org/of-p.org.png", TaskKind::Image),
        None
    );
    // Kept images: one by its bytes, one that has no words left.
    let kept = ["http://i.org/both.png", "http://i.org/of-q.org.png"].map(url);
    while let Some(task) = lease(&mut f, &mut now) {
        finish(&mut f, &task, Outcome::Done, Effects::default(), now);
    }
    assert_eq!(f.counts().images, 2);
    let [bytes, bare] = &kept;
    let (bytes, bare) = (std::slice::from_ref(bytes), std::slice::from_ref(bare));
    f.take_down(&scope, bytes, bare, now, false).unwrap();
    check(&f);
    assert_eq!(f.counts().images, 0);
    assert_eq!(state(&f, kept[0].as_str(), TaskKind::Image), Some(TAKEN));
    assert_eq!(state(&f, kept[1].as_str(), TaskKind::Image), None);
}

#[test]
fn a_copy_is_not_measured_against_what_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 0;
    let fetch = |f: &mut Frontier, address: &str, now: &mut u64| {
        f.add_seeds(&[url(address)], *now).unwrap();
        let task = lease(f, now).unwrap();
        let prints = crate::page::Prints {
            simhash: Some(0x1234_5678_9abc_def0),
            ..Default::default()
        };
        let effects = Effects {
            prints: Some(prints),
            ..Effects::default()
        };
        let stamp = f.stamp();
        let note = None;
        let finished = f.finish(&task, Outcome::Done, effects, SECOND, *now, |_| {
            Ok::<_, StoreError>(Written {
                stamp,
                note,
                ..Written::default()
            })
        });
        finished.unwrap().near_copy_of
    };
    assert_eq!(fetch(&mut f, "http://a.org/1", &mut now), None);
    let first = Some(url("http://a.org/1"));
    assert_eq!(fetch(&mut f, "http://a.org/2", &mut now), first);
    let scope = scope(&[Target::Url(url("http://a.org/1"))]);
    f.take_down(&scope, &[], &[], now, false).unwrap();
    forbid(&mut f, &scope, now);
    check(&f);
    assert_eq!(fetch(&mut f, "http://a.org/3", &mut now), None);
}
