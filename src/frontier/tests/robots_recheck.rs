//! The effect of changed robots rules on formerly forbidden addresses, and of each answer
//! for a robots.txt on its host.

use super::*;

over_all! {
    a_look_that_was_broken_off_goes_on
}

const DAY: u64 = 86_400_000;

/// Answers the next robots.txt with `rules`; other tasks leased before it are finished.
/// Returns the paths of the pages.
fn until_asked_again(f: &mut Frontier, rules: &'static str, now: &mut u64) -> Vec<String> {
    let mut paths = Vec::new();
    loop {
        match f.lease(*now).unwrap() {
            Some(task) if task.kind == TaskKind::Robots => {
                robots(f, &task, RobotsAnswer::Rules(rules.into()), *now);
                return paths;
            }
            Some(task) => {
                paths.push(task.url.path().to_owned());
                done(f, &task, Vec::new(), *now);
            }
            None => *now = f.next_event().unwrap().max(*now),
        }
    }
}

/// The pages that are leased until nothing is left.
fn rest(f: &mut Frontier, now: &mut u64) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    loop {
        while let Some(task) = f.lease(*now).unwrap() {
            assert_ne!(task.kind, TaskKind::Robots);
            paths.insert(task.url.path().to_owned());
            done(f, &task, Vec::new(), *now);
        }
        match f.next_event() {
            Some(at) => *now = at.max(*now),
            None => return paths,
        }
    }
}

/// A frontier whose host forbids 40 pages and an image by the rules of its first
/// day, and has one allowed page queued on the second.
fn forbidding(path: &Path, now: &mut u64) -> Frontier {
    let mut f = open(path, *now);
    let pages: Vec<_> = (0..40)
        .map(|i| url(&format!("http://a.org/{}/{i}", ["x", "y"][i % 2])))
        .collect();
    f.add_seeds(&pages, *now).unwrap();
    f.add_seeds(&[url("http://a.org/page")], *now).unwrap();
    until_asked_again(
        &mut f,
        "user-agent: *\ndisallow: /x\ndisallow: /y\ndisallow: /i\n",
        now,
    );
    let task = lease(&mut f, now).unwrap();
    let effects = Effects {
        images: vec![image("http://a.org/i/a.png", task.url.as_str(), 10.0)],
        ..Effects::default()
    };
    finish(&mut f, &task, Outcome::Done, effects, *now);
    assert!(rest(&mut f, now).is_empty());
    assert_eq!(f.counts().dropped[&Reason::Robots], 41);
    check(&f);
    *now += DAY;
    f.add_seeds(&[url("http://a.org/later")], *now).unwrap();
    f
}

#[test]
fn new_rules_bring_back_what_they_allow() {
    let folder = tempfile::tempdir().unwrap();
    let mut now = 0;
    let mut f = forbidding(folder.path(), &mut now);
    until_asked_again(&mut f, "user-agent: *\ndisallow: /x\n", &mut now);
    assert_eq!(f.next_event(), Some(0), "there is something to do");
    let expected = (0..40).filter(|i| i % 2 == 1).map(|i| format!("/y/{i}"));
    let expected: BTreeSet<String> = expected.chain(["/later".to_owned()]).collect();
    assert_eq!(rest(&mut f, &mut now), expected);
    check(&f);
    assert_eq!(f.counts().dropped[&Reason::Robots], 20);
    // The image's words are deleted, and so is the image, until a page embeds it again.
    let picture = url("http://a.org/i/a.png");
    assert_eq!(f.look_up(&picture, TaskKind::Image).unwrap(), None);
    // The same rules in another form change nothing.
    now += DAY;
    f.add_seeds(&[url("http://a.org/much-later")], now).unwrap();
    until_asked_again(
        &mut f,
        "# new\nUser-agent: *\nDisallow: /x\nSitemap: /a\n",
        &mut now,
    );
    assert!(!f.files.is_rechecking());
    // An empty file allows everything.
    now += DAY;
    f.add_seeds(&[url("http://a.org/latest")], now).unwrap();
    while f.counts().dropped[&Reason::Robots] > 0 {
        match lease(&mut f, &mut now) {
            Some(task) => done(&mut f, &task, Vec::new(), now),
            None => assert!(f.files.is_rechecking()),
        }
        check(&f);
    }
}

fn a_look_that_was_broken_off_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut now = 0;
    let mut f = forbidding(folder.path(), &mut now);
    until_asked_again(&mut f, "user-agent: *\ndisallow: /x\n", &mut now);
    // One batch of several.
    let begun = f.lease(now).unwrap();
    assert!(begun.is_none(), "not due yet");
    let left = f.counts().dropped[&Reason::Robots];
    assert!((21..41).contains(&left), "{left}");
    check(&f);
    f.close().unwrap();
    let store = open_store(folder.path()).unwrap();
    let (lines, found) = exported(&*store);
    assert_eq!(found.damaged_count, 0);
    drop(store);
    let other = tempfile::tempdir().unwrap();
    drop(imported(&lines, other.path()));
    for path in [folder.path(), other.path()] {
        let mut now = now;
        let mut f = open(path, now);
        assert_eq!(rest(&mut f, &mut now).len(), 21);
        check(&f);
        assert!(!f.files.is_rechecking());
    }
}

#[test]
fn every_answer_means_what_the_table_says() {
    let unreachable = |seconds: Option<u64>| RobotsAnswer::Unreachable {
        reason: Reason::Overloaded,
        retry_after: seconds.map(Duration::from_secs),
    };
    let rules = |text: &'static str| RobotsAnswer::Rules(text.into());
    // The answer, whether a page is requested then, and the pause before the next
    // request, in milliseconds.
    for (answer, asked, pause) in [
        (rules("user-agent: *\ndisallow: /no\n"), true, 1_000),
        (rules("user-agent: *\ncrawl-delay: 3\n"), true, 3_000),
        (rules("user-agent: *\ndisallow: /\n"), false, 0),
        (rules("<html>no rules at all</html>"), true, 1_000),
        (RobotsAnswer::Missing, true, 1_000),
        (unreachable(None), false, 30_000),
        (unreachable(Some(7)), false, 7_000),
        (
            RobotsAnswer::Redirect(url("http://b.org/robots.txt")),
            false,
            0,
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut f = open(folder.path(), 0);
        f.add_seeds(&[url("http://a.org/page")], 0).unwrap();
        let task = f.lease(0).unwrap().unwrap();
        robots(&mut f, &task, answer.clone(), 0);
        if let Some(next) = f.lease(0).unwrap() {
            assert_eq!(
                (next.kind, next.url),
                (TaskKind::Robots, url("http://b.org/robots.txt"))
            );
            continue;
        }
        let Some(at) = f.next_event().filter(|at| *at > 0) else {
            assert!(!asked, "{answer:?}");
            continue;
        };
        if pause > 0 {
            assert_eq!(at, pause, "{answer:?}");
        }
        let next = f.lease(at).unwrap();
        let is_page = next.as_ref().is_some_and(|t| t.kind == TaskKind::Page);
        assert_eq!(is_page, asked, "{answer:?}: {next:?}");
        check(&f);
    }
    // Rules are not used beyond their day, even if no new ones are available.
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    f.add_seeds(&[url("http://a.org/1"), url("http://a.org/2")], 0)
        .unwrap();
    let mut now = 0;
    let task = lease(&mut f, &mut now).unwrap();
    done(&mut f, &task, Vec::new(), now);
    now = DAY + 1_000;
    let mut pauses = Vec::new();
    for _ in 0..5 {
        let task = f.lease(now).unwrap().unwrap();
        assert_eq!(task.kind, TaskKind::Robots);
        robots(&mut f, &task, unreachable(None), now);
        let host = f.look_up_host(&task.host).unwrap().unwrap();
        let next = host.parked_until.unwrap_or(host.due);
        pauses.push((next - now) / 1_000);
        now = next;
    }
    assert_eq!(pauses, [30, 60, 120, 86_400, 86_400]);
}
