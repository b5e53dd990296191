//! Clocks that hosts share: by IP address, and by registered domain.

use std::net::{IpAddr, Ipv4Addr};

use super::*;

over_all! {
    an_address_is_asked_at_its_own_pace_and_best_first
    two_troubled_hosts_make_the_address_back_off_and_it_lasts
    a_domain_is_asked_at_its_own_pace
    an_address_is_found_out_anew_after_a_day
    an_export_keeps_the_groups
}

const DELAY: u64 = 500;

fn policy(address_delay: u64, domain_delay: u64) -> Policy {
    Policy {
        address_delay,
        domain_delay,
        delay_factor: 0.0,
        ..test_policy()
    }
}

fn open(path: &Path, policy: Policy, now: u64) -> Frontier {
    let config = Config::parse("[job]\nname = \"test\"\n", "test.toml").unwrap();
    let store = store::open(BACKEND.get(), path).unwrap();
    Frontier::open(store, policy, Scope::new(config.scope), now).unwrap()
}

/// The address a host of these tests is at: by the number in its name.
fn address(task: &Task) -> IpAddr {
    let digits = task.host.as_str().bytes().filter(u8::is_ascii_digit);
    let sum: u32 = digits.map(u32::from).sum();
    Ipv4Addr::new(192, 0, 2, (sum % 3) as u8).into()
}

/// The next request that reaches a host; names are looked up on the way.
fn ask(f: &mut Frontier, now: u64) -> Option<Task> {
    loop {
        let task = f.lease(now).unwrap()?;
        if !task.locate {
            return Some(task);
        }
        f.located(&task, Some(address(&task)), now).unwrap();
    }
}

fn answer(f: &mut Frontier, task: &Task, outcome: Outcome, now: u64) {
    if task.kind == TaskKind::Robots {
        let answer = RobotsAnswer::of(&outcome, None);
        robots(f, task, answer, now);
    } else {
        finish(f, task, outcome, Effects::default(), now);
    }
}

fn overloaded(seconds: u64) -> Outcome {
    Outcome::Retry {
        reason: Reason::Overloaded,
        retry_after: Some(Duration::from_secs(seconds)),
        host_backs_off: true,
    }
}

/// Crawls to the end; returns each request with its time.
fn crawl(f: &mut Frontier, mut now: u64) -> Vec<(u64, Task)> {
    let mut asked = Vec::new();
    loop {
        match ask(f, now) {
            Some(task) => {
                answer(f, &task, Outcome::Done, now + 10);
                asked.push((now, task));
            }
            None => match f.next_event() {
                Some(at) => now = at.max(now + 1),
                None => return asked,
            },
        }
    }
}

fn closest<K: Ord>(asked: &[(u64, Task)], key: impl Fn(&Task) -> K) -> u64 {
    let mut last: BTreeMap<K, u64> = BTreeMap::new();
    let pauses = asked.iter().filter_map(|(at, task)| {
        let before = last.insert(key(task), *at)?;
        Some(at - before)
    });
    pauses.min().unwrap()
}

fn an_address_is_asked_at_its_own_pace_and_best_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), policy(DELAY, 0), 0);
    let seeds: Vec<PageUrl> = (0..60)
        .map(|n| url(&format!("http://host-{n}.example/")))
        .collect();
    f.add_seeds(&seeds, 0).unwrap();
    let asked = crawl(&mut f, 10_000);
    assert_eq!(asked.len(), 120, "a robots.txt and a page of each");
    assert!(closest(&asked, address) >= DELAY);
    assert!(closest(&asked, |t| t.host.clone()) >= 1_000);
    // Three addresses side by side: 40 requests each, half a second apart.
    let end = asked.last().unwrap().0;
    assert!(end <= 10_000 + 41 * DELAY, "{end}");
    // Seeds go by age, and each host's robots.txt goes with its first page.
    let first: Vec<u64> = asked
        .iter()
        .filter(|(_, t)| t.kind == TaskKind::Robots && address(t) == IpAddr::from([192, 0, 2, 0]))
        .map(|(at, _)| *at)
        .collect();
    assert!(first.is_sorted());
}

fn two_troubled_hosts_make_the_address_back_off_and_it_lasts() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), policy(DELAY, 0), 0);
    // All at one address.
    let seeds: Vec<PageUrl> = [0, 3, 6, 9]
        .iter()
        .map(|n| url(&format!("http://host-{n}.example/")))
        .collect();
    f.add_seeds(&seeds, 0).unwrap();
    let mut now = 10_000;
    let first = ask(&mut f, now).unwrap();
    answer(&mut f, &first, overloaded(10_000), now);
    // One host's trouble is its own.
    now += DELAY;
    let second = ask(&mut f, now).unwrap();
    assert_ne!(first.host, second.host);
    answer(&mut f, &second, overloaded(7_200), now);
    // Two are the machine's.
    let until = now + 7_200_000;
    let shared = f.view().groups(&second.host).unwrap();
    assert_eq!(shared[0].0, "address 192.0.2.0");
    assert_eq!((shared[0].1.due, shared[0].1.failures), (until, 1));
    assert!(ask(&mut f, now + 60_000).is_none());
    assert_eq!(f.next_event(), Some(until));
    drop(f);
    let store = store::open(BACKEND.get(), folder.path()).unwrap();
    let stored = view::View::new(&*store).groups(&second.host).unwrap();
    assert_eq!(stored, shared);
    drop(store);
    let mut f = open(folder.path(), policy(DELAY, 0), now + 1);
    assert!(ask(&mut f, until - 1).is_none());
    let third = ask(&mut f, until).unwrap();
    answer(&mut f, &third, Outcome::Done, until);
    drop(f);
    // An answer ends it.
    let mut f = open(folder.path(), policy(DELAY, 0), until);
    assert!(ask(&mut f, until + 2_000).is_some());
}

fn a_domain_is_asked_at_its_own_pace() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), policy(0, 2_000), 0);
    let seeds: Vec<PageUrl> = (0..12)
        .map(|n| url(&format!("http://h{n}.site-{}.co.uk/", n % 2)))
        .collect();
    f.add_seeds(&seeds, 0).unwrap();
    let asked = crawl(&mut f, 10_000);
    assert_eq!(asked.len(), 24);
    let domain = |t: &Task| t.host.registered_domain().to_owned();
    assert!(closest(&asked, domain) >= 2_000);
    assert!(asked.last().unwrap().0 <= 10_000 + 13 * 2_000);
}

fn an_address_is_found_out_anew_after_a_day() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), policy(DELAY, 0), 0);
    f.add_seeds(&[url("http://host-1.example/")], 0).unwrap();
    let asked = crawl(&mut f, 10_000);
    let host = &asked[0].1.host;
    let located = f.look_up_host(host).unwrap().unwrap().located.unwrap();
    assert_eq!(located.address, Some(IpAddr::from([192, 0, 2, 1])));
    f.add_seeds(&[url("http://host-1.example/b")], 0).unwrap();
    let soon = f.lease(20_000).unwrap().unwrap();
    assert!(!soon.locate);
    f.abandon(&soon, 20_000).unwrap();
    let tomorrow = 86_400_000 + 20_000;
    let task = f.lease(tomorrow).unwrap().unwrap();
    assert!(task.locate);
    // Where the operator sends it elsewhere, it has no address of its own.
    f.located(&task, None, tomorrow).unwrap();
    assert!(!f.lease(tomorrow).unwrap().unwrap().locate);
}

fn an_export_keeps_the_groups() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), policy(DELAY, 0), 0);
    let seeds = [url("http://host-0.example/"), url("http://host-3.example/")];
    f.add_seeds(&seeds, 0).unwrap();
    for now in [10_000, 11_000] {
        let task = ask(&mut f, now).unwrap();
        answer(&mut f, &task, overloaded(86_400), now);
    }
    drop(f);
    let store = store::open(BACKEND.get(), folder.path()).unwrap();
    let mut lines = Vec::new();
    archive::export(&*store, &mut lines, folder.path()).unwrap();
    assert!(audit::audit(&*store).unwrap().problems.is_empty());
    drop(store);
    let other = tempfile::tempdir().unwrap();
    let mut fresh = store::open(BACKEND.get(), other.path()).unwrap();
    archive::import(&mut *fresh, &mut lines.as_slice(), other.path()).unwrap();
    drop(fresh);
    let mut f = open(other.path(), policy(DELAY, 0), 20_000);
    f.add_seeds(&[url("http://host-6.example/")], 20_000)
        .unwrap();
    assert!(ask(&mut f, 80_000_000).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the hosts, addresses, scores and answers: the clocks hold and
    /// nobody is forgotten at a group.
    #[test]
    fn nobody_is_asked_too_early_or_held_for_ever(
        hosts in proptest::collection::vec((0u8..40, 1.0..900.0f64), 1..40),
        connections in 1usize..3,
        slow in 0u64..3_000,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let policy = Policy { connections, ..policy(DELAY, 700) };
        let mut f = open(folder.path(), policy, 0);
        f.add_seeds(&[url("http://seed-0.example/")], 0).unwrap();
        let mut now = 10_000;
        let mut asked: Vec<(u64, Task)> = Vec::new();
        let mut open_tasks: Vec<(u64, Task)> = Vec::new();
        let mut links = Some(hosts);
        loop {
            while let Some(task) = ask(&mut f, now) {
                asked.push((now, task.clone()));
                open_tasks.push((now + slow, task));
            }
            let next = open_tasks.iter().map(|(at, _)| *at).min();
            let event = f.next_event();
            now = match (next, event) {
                (Some(a), Some(b)) => a.min(b).max(now + 1),
                (Some(a), None) | (None, Some(a)) => a.max(now + 1),
                (None, None) => break,
            };
            for at in (0..open_tasks.len()).rev() {
                if open_tasks[at].0 > now {
                    continue;
                }
                let (_, task) = open_tasks.swap_remove(at);
                if task.kind == TaskKind::Page && let Some(hosts) = links.take() {
                    let links = hosts.iter().enumerate().map(|(i, (n, score))| {
                        page(&format!("http://w{i}.site-{n}.example/{i}"), *score)
                    });
                    done(&mut f, &task, links.collect(), now);
                } else {
                    answer(&mut f, &task, Outcome::Done, now);
                }
            }
        }
        prop_assert_eq!(f.counts().queued_pages(), 0);
        let mut last: BTreeMap<String, u64> = BTreeMap::new();
        for (at, task) in &asked {
            for (group, pause) in [
                (address(task).to_string(), DELAY),
                (task.host.registered_domain().to_owned(), 700),
            ] {
                if let Some(before) = last.insert(group.clone(), *at) {
                    prop_assert!(at - before >= pause, "{} {}", group, at - before);
                }
            }
        }
    }
}
