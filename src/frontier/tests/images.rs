//! The share of requests for images.

use super::*;

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
    // All images on one host, and pages on many: its clock decides, and pages continue.
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
    // No robots.txt has arrived yet, so only those requests were made.
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
fn what_is_left_is_reported_with_the_time_it_takes() {
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
