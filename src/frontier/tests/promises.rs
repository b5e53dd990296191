//! A host's request for a pause is obeyed, even if other requests were open at that time.

use super::state_machine::{open_by, overloaded};
use super::*;

over_all! {
    a_later_failure_does_not_shorten_the_wait
    a_wish_beside_an_answer_holds_for_the_host_and_outlives_a_crash
}

const MINUTE: u64 = 60_000;

/// Two requests at a host at the same time; its rules and its address hold for 10 s.
fn two_at_once(address_delay: u64) -> Policy {
    Policy {
        connections: 2,
        address_delay,
        robots_max_age: 10_000,
        ..test_policy()
    }
}

/// Leases the first and the second page of a.org.
fn two_pages(f: &mut Frontier, now: &mut u64) -> [Task; 2] {
    let seeds = [1, 2, 3].map(|n| url(&format!("http://a.org/{n}")));
    f.add_seeds(&seeds, *now).unwrap();
    let pages = [lease(f, now).unwrap(), lease(f, now).unwrap()];
    assert!(pages.iter().all(|task| task.kind == TaskKind::Page));
    pages
}

/// Nothing is requested before `until`, and then something is.
fn rests(f: &mut Frontier, now: u64, until: u64) {
    for at in (now..until).step_by(500).chain([until - 1]) {
        assert_eq!(f.lease(at).unwrap(), None, "at {at}, asked to wait");
    }
    assert_eq!(f.next_event(), Some(until));
    assert!(f.lease(until).unwrap().is_some());
    check(f);
}

fn a_later_failure_does_not_shorten_the_wait() {
    for restart in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let mut f = open_by(folder.path(), "", two_at_once(0), 0);
        let mut now = 0;
        let [first, second] = two_pages(&mut f, &mut now);
        finish(&mut f, &first, overloaded(60), Effects::default(), now);
        finish(&mut f, &second, overloaded(2), Effects::default(), now + 9);
        if restart {
            f.close().unwrap();
            f = open_by(folder.path(), "", two_at_once(0), now + 9);
        }
        rests(&mut f, now + 9, now + MINUTE);
    }
}

#[test]
fn a_failed_lookup_does_not_shorten_the_wait() {
    let folder = tempfile::tempdir().unwrap();
    let policy = Policy {
        back_off: 5_000,
        ..two_at_once(500)
    };
    let mut f = open_by(folder.path(), "", policy, 0);
    let seeds = [1, 2].map(|n| url(&format!("http://a.org/{n}")));
    f.add_seeds(&seeds, 0).unwrap();
    let task = f.lease(0).unwrap().unwrap();
    f.located(&task, None, 0).unwrap();
    let page = lease(&mut f, &mut 1_000).unwrap_or_else(|| panic!("no page"));
    // The address is too old by now.
    let lookup = f.lease(11_000).unwrap().unwrap();
    assert!(lookup.locate);
    finish(&mut f, &page, overloaded(60), Effects::default(), 11_500);
    let answer = RobotsAnswer::Unreachable {
        reason: Reason::Dns,
        retry_after: None,
    };
    robots(&mut f, &lookup, answer, 12_000);
    rests(&mut f, 12_000, 11_500 + MINUTE);
}

#[test]
fn rules_that_another_host_withholds_do_not_shorten_the_wait() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open_by(folder.path(), "", two_at_once(0), 0);
    let seeds = [1, 2].map(|n| url(&format!("http://a.org/{n}")));
    f.add_seeds(&seeds, 0).unwrap();
    let page = lease(&mut f, &mut 0).unwrap_or_else(|| panic!("no page"));
    // The rules are too old by now, and have moved.
    let task = f.lease(12_000).unwrap().unwrap();
    let elsewhere = RobotsAnswer::Redirect(url("http://b.org/for-a"));
    robots(&mut f, &task, elsewhere, 12_000);
    let errand = f.lease(12_000).unwrap().unwrap();
    assert_eq!(
        (errand.kind, errand.host.as_str()),
        (TaskKind::Robots, "b.org")
    );
    finish(&mut f, &page, overloaded(60), Effects::default(), 12_500);
    let answer = RobotsAnswer::of(&overloaded(2), None);
    robots(&mut f, &errand, answer, 13_000);
    rests(&mut f, 13_000, 12_500 + MINUTE);
}

#[test]
fn a_quick_answer_does_not_shorten_the_wait_of_a_slow_host() {
    let folder = tempfile::tempdir().unwrap();
    let policy = Policy {
        connections: 3,
        robots_max_age: 86_400_000,
        ..two_at_once(0)
    };
    let mut f = open_by(folder.path(), "", policy, 0);
    let mut now = 0;
    let [first, second] = two_pages(&mut f, &mut now);
    let slow = Duration::from_secs(12);
    let written = |_: &Finished| Ok::<_, StoreError>(Written::default());
    let effects = Effects::default();
    f.finish(&first, Outcome::Done, effects, slow, now, written)
        .unwrap();
    // Five times as long as before.
    now += MINUTE;
    let third = f.lease(now).unwrap().unwrap();
    finish(&mut f, &third, overloaded(60), Effects::default(), now);
    // The remaining wait is shorter than the host's pause, which is one second now.
    let later = now + 5_000;
    finish(&mut f, &second, Outcome::Done, Effects::default(), later);
    f.add_seeds(&[url("http://a.org/4")], later).unwrap();
    rests(&mut f, later, now + MINUTE);
}

fn a_wish_beside_an_answer_holds_for_the_host_and_outlives_a_crash() {
    for (seconds, parked) in [(90, false), (31_536_000, true)] {
        let folder = tempfile::tempdir().unwrap();
        let mut f = open_by(folder.path(), "", two_at_once(0), 0);
        let mut now = 0;
        let [first, second] = two_pages(&mut f, &mut now);
        f.rest(&first, Duration::from_secs(seconds), now).unwrap();
        let moved = Outcome::Redirect {
            to: url("http://a.org/4"),
        };
        finish(&mut f, &first, moved, Effects::default(), now);
        finish(&mut f, &second, Outcome::Done, Effects::default(), now + 9);
        let until = now + 1_000 * seconds;
        drop(f);
        let mut f = open_by(folder.path(), "", two_at_once(0), now + 9);
        assert_eq!(f.is_exhausted(), parked, "it is not waited for");
        assert_eq!(f.hosts().1, usize::from(parked));
        assert_eq!(f.lease(until - 1).unwrap(), None);
        assert!(f.lease(until).unwrap().is_some());
        check(&f);
    }
}

#[test]
fn a_host_that_asks_for_endless_pauses_is_parked_until_its_rules_are_read_again() {
    for delay in ["1e30", "70000"] {
        let folder = tempfile::tempdir().unwrap();
        let mut f = open_by(folder.path(), "", test_policy(), 0);
        f.add_seeds(&[url("http://a.org/1")], 0).unwrap();
        let rules = |delay: &str| {
            let text = format!("User-agent: *\nCrawl-delay: {delay}\n");
            RobotsAnswer::Rules(text.into_bytes().into())
        };
        let task = f.lease(0).unwrap().unwrap();
        robots(&mut f, &task, rules(delay), 0);
        assert!(f.is_exhausted(), "it is not waited for");
        let day = test_policy().robots_max_age;
        assert_eq!(f.lease(day - 1).unwrap(), None);
        let task = f.lease(day).unwrap().unwrap();
        assert_eq!(task.kind, TaskKind::Robots, "{delay}");
        robots(&mut f, &task, rules("2"), day);
        // The pause that began under the old rules ends as planned.
        let then = day + test_policy().max_crawl_delay;
        assert_eq!(f.next_event(), Some(then));
        let task = f.lease(then).unwrap().unwrap();
        assert_eq!(task.kind, TaskKind::Page);
        check(&f);
    }
}
