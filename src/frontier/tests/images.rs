//! Other addresses of the same picture, and the share of requests for images.

use super::*;
use crate::Instead;

/// Fetches a seed that embeds these images.
fn begin(f: &mut Frontier, now: &mut u64, images: Vec<NewImage>, links: Vec<NewTask>) {
    f.add_seeds(&[url("http://a.org/")], *now).unwrap();
    let task = lease(f, now).unwrap();
    let effects = Effects {
        images,
        links,
        ..Effects::default()
    };
    finish(f, &task, Outcome::Done, effects, *now);
}

fn sizes(of: &[&str], page: &str) -> NewImage {
    let spares = of.iter().skip(1).map(|a| url(a)).collect();
    NewImage {
        spares,
        ..image(of[0], page, 100.0)
    }
}

fn drop_for(reason: Reason) -> Outcome {
    Outcome::Drop { reason }
}

#[test]
fn words_move_on_to_the_next_size_also_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 0;
    let of = ["http://i.org/3", "http://i.org/2", "http://j.org/1"];
    begin(&mut f, &mut now, vec![sizes(&of, "http://a.org/")], vec![]);
    for (at, next) in [(0, 1), (1, 2)] {
        let task = lease(&mut f, &mut now).unwrap();
        assert_eq!(task.url.as_str(), of[at]);
        finish(
            &mut f,
            &task,
            drop_for(Reason::Gone),
            Effects::default(),
            now,
        );
        assert_eq!(f.contexts(&url(of[at])).unwrap(), []);
        assert_eq!(f.contexts(&url(of[next])).unwrap().len(), 1);
        check(&f);
        // As a kill leaves it.
        drop(f);
        f = open(folder.path(), now);
    }
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.url.as_str(), of[2]);
    finish(&mut f, &task, Outcome::Done, Effects::default(), now);
    let instead = |f: &Frontier, at: usize| f.instead(&url(of[at])).unwrap();
    let named = |of: Option<&str>, by: &[&str]| Instead {
        of: of.map(url),
        by: by.iter().map(|a| url(a)).collect(),
    };
    assert_eq!(instead(&f, 0), named(None, &of[1..2]));
    assert_eq!(instead(&f, 1), named(Some(of[0]), &of[2..]));
    assert_eq!(instead(&f, 2), named(Some(of[1]), &[]));
    assert_eq!((f.images().tried, f.images().stood_in), (2, 1));
    assert!(f.is_exhausted());
    // Another page with the same picture gives its words to the fetched image.
    f.add_seeds(&[url("http://b.org/")], now).unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    let effects = Effects {
        images: vec![sizes(&of, "http://b.org/")],
        ..Effects::default()
    };
    let stamp = f.stamp();
    let written = Written {
        stamp,
        ..Written::default()
    };
    let finished = f.finish(&task, Outcome::Done, effects, SECOND, now, |_| {
        Ok::<_, StoreError>(written)
    });
    let edits = finished.unwrap().edits;
    let [OutputEdit::AddContext { context, .. }] = edits.as_slice() else {
        panic!("{edits:?}");
    };
    assert_eq!(context.page.as_str(), "http://b.org/");
    assert!(f.is_exhausted());
    check(&f);
}

#[test]
fn only_what_is_gone_is_replaced() {
    for reason in [
        Reason::ClientError,
        Reason::BadImage,
        Reason::Forbidden,
        Reason::Takedown,
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut f = open(folder.path(), 0);
        let mut now = 0;
        let of = ["http://i.org/2", "http://i.org/1"];
        begin(&mut f, &mut now, vec![sizes(&of, "http://a.org/")], vec![]);
        let task = lease(&mut f, &mut now).unwrap();
        finish(&mut f, &task, drop_for(reason), Effects::default(), now);
        assert!(f.is_exhausted(), "{reason:?}");
        assert_eq!(f.contexts(&url(of[1])).unwrap(), [], "{reason:?}");
        check(&f);
    }
}

#[test]
fn what_is_kept_out_is_passed_over_while_another_size_is_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let scope = "reject = [\"http://shut.org/\"]";
    let mut f = open_with(folder.path(), scope, 0);
    let mut now = 0;
    let of = ["http://i.org/3", "http://shut.org/2", "http://i.org/1"];
    begin(&mut f, &mut now, vec![sizes(&of, "http://a.org/")], vec![]);
    let task = lease(&mut f, &mut now).unwrap();
    finish(
        &mut f,
        &task,
        drop_for(Reason::Gone),
        Effects::default(),
        now,
    );
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.url.as_str(), of[2]);
    check(&f);
}

#[test]
fn other_sizes_survive_an_export() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(&folder.path().join("one"), 0);
    let mut now = 0;
    let of = ["http://i.org/3", "http://i.org/2", "http://i.org/1"];
    begin(&mut f, &mut now, vec![sizes(&of, "http://a.org/")], vec![]);
    let task = lease(&mut f, &mut now).unwrap();
    finish(
        &mut f,
        &task,
        drop_for(Reason::Gone),
        Effects::default(),
        now,
    );
    let ledger = f.images().clone();
    let file = folder.path().join("frontier.jsonl.gz");
    assert!(dump::write_file(&*f.snapshot(), &file).unwrap().is_whole());
    let mut other = open_store(&folder.path().join("two")).unwrap();
    dump::read_file(&mut *other, &file).unwrap();
    drop(other);
    let mut f = open(&folder.path().join("two"), now);
    assert_eq!(*f.images(), ledger);
    now += 10_000;
    for at in [1, 2] {
        let task = lease(&mut f, &mut now).unwrap();
        assert_eq!(task.url.as_str(), of[at]);
        finish(
            &mut f,
            &task,
            drop_for(Reason::Gone),
            Effects::default(),
            now,
        );
    }
    assert_eq!(f.instead(&url(of[2])).unwrap().of, Some(url(of[1])));
    check(&f);
}

/// The leased tasks of this many hosts with pages and images, one task at a time.
fn kinds(f: &mut Frontier, now: &mut u64, leases: usize) -> Vec<TaskKind> {
    let next = |_| {
        let task = lease(f, now).unwrap();
        let kind = task.kind;
        finish(f, &task, Outcome::Done, Effects::default(), *now);
        kind
    };
    (0..leases).map(next).collect()
}

fn images_in(kinds: &[TaskKind]) -> usize {
    kinds
        .iter()
        .filter(|kind| **kind == TaskKind::Image)
        .count()
}

/// Images whose pages are far better than the page, and pages.
fn both(pages: &[String], images: &[String]) -> (Vec<NewImage>, Vec<NewTask>) {
    let images = images.iter().map(|a| image(a, "http://a.org/", 500.0));
    let pages = pages.iter().map(|a| page(a, 10.0));
    (images.collect(), pages.collect())
}

#[test]
fn images_have_their_share_of_many_hosts_and_of_one() {
    let many = |n: usize| format!("http://h{n}.org/{n}");
    let one = |n: usize| format!("http://one.org/{n}");
    let elsewhere = |n: usize| format!("http://i{n}.org/{n}");
    let all = |make: &dyn Fn(usize) -> String| (0..90).map(make).collect::<Vec<_>>();
    for (pages, images) in [
        (all(&many), all(&elsewhere)),
        (all(&one), all(&one)),
        (all(&many), all(&many)),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut f = open(folder.path(), 0);
        let mut now = 0;
        let (images, pages) = both(&pages, &images);
        begin(&mut f, &mut now, images, pages);
        let first = kinds(&mut f, &mut now, 45);
        // The account survives a kill.
        drop(f);
        let mut f = open(folder.path(), now);
        let then = kinds(&mut f, &mut now, 45);
        let found = (images_in(&first), images_in(&then));
        assert!(
            (13..=17).contains(&found.0) && (13..=17).contains(&found.1),
            "{found:?}"
        );
        check(&f);
    }
}

#[test]
fn neither_waits_for_the_other() {
    // All images on one host, and pages on many: its clock decides, and pages go on.
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 0;
    let pages: Vec<String> = (0..40).map(|n| format!("http://h{n}.org/")).collect();
    let images: Vec<String> = (0..40).map(|n| format!("http://cdn.org/{n}")).collect();
    let (images, pages) = both(&pages, &images);
    begin(&mut f, &mut now, images, pages);
    let begun = now;
    let mut open_tasks = Vec::new();
    while let Some(task) = f.lease(now).unwrap() {
        match task.kind {
            TaskKind::Robots => drop(robots(&mut f, &task, RobotsAnswer::Missing, now)),
            _ => open_tasks.push(task),
        }
    }
    assert_eq!(now, begun);
    // No robots.txt was waited for yet, so only those requests were made.
    now += 60_000;
    while let Some(task) = f.lease(now).unwrap() {
        open_tasks.push(task);
    }
    let images = open_tasks
        .iter()
        .filter(|t| t.kind == TaskKind::Image)
        .count();
    assert_eq!((open_tasks.len(), images), (41, 1));
}

#[test]
fn while_pages_are_held_images_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 0;
    let pages: Vec<String> = (0..5).map(|n| format!("http://h{n}.org/")).collect();
    let images: Vec<String> = (0..5).map(|n| format!("http://i{n}.org/{n}")).collect();
    let (images, pages) = both(&pages, &images);
    begin(&mut f, &mut now, images, pages);
    f.hold_pages(true);
    assert_eq!(images_in(&kinds(&mut f, &mut now, 5)), 5);
    assert!(lease(&mut f, &mut now).is_none());
    assert!(!f.is_exhausted() || f.next_event().is_none());
    f.hold_pages(false);
    assert_eq!(images_in(&kinds(&mut f, &mut now, 5)), 0);
}

#[test]
fn what_is_left_is_told_with_the_time_it_takes() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 0;
    let mut images: Vec<String> = (0..7).map(|n| format!("http://i.org/{n}")).collect();
    images.extend((0..3).map(|n| format!("http://j.org/{n}")));
    let (images, _) = both(&[], &images);
    begin(&mut f, &mut now, images, vec![]);
    let left = f.images_left().unwrap();
    assert_eq!(
        (left.images, left.hosts, left.parked, left.millis),
        (10, 2, 0, 7_000)
    );
}
