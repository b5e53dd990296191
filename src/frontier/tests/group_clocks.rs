//! Clocks that hosts share: by IP address, and by registered domain.

use std::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::record::GroupKey;

over_all! {
    several_troubled_hosts_make_the_address_back_off_and_it_lasts
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
    let store = open_store(path).unwrap();
    Frontier::open(store, policy, Scope::new(config.settings.scope), now).unwrap()
}

/// The IP address of a host in these tests: by the number in its name.
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

#[test]
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

/// Hosts at one address.
fn neighbours(count: usize) -> Vec<PageUrl> {
    // The sum of the digits determines the address.
    let hosts = (0..count).map(|n| url(&format!("http://host-{}.example/", 3 * n)));
    hosts.collect()
}

/// Sends the next request, waiting where necessary.
fn ask_next(f: &mut Frontier, now: &mut u64) -> Task {
    loop {
        match ask(f, *now) {
            Some(task) => return task,
            None => {
                let next = f.next_event().or(f.schedule.next_parked());
                *now = next.unwrap().max(*now + 1);
            }
        }
    }
}

/// All answer that they have no robots.txt, so all have answered once.
fn proven(f: &mut Frontier, now: &mut u64, count: usize) {
    f.add_seeds(&neighbours(count), *now).unwrap();
    // No page is leased before: each would be the next one of its host.
    let mut pages = Vec::new();
    let mut answered = 0;
    while answered < count {
        let task = ask_next(f, now);
        match task.kind {
            TaskKind::Robots => {
                answer(f, &task, Outcome::Done, *now);
                answered += 1;
            }
            _ => pages.push(task),
        }
    }
    for page in pages {
        f.abandon(&page, *now).unwrap();
    }
}

fn shared(f: &Frontier, host: &HostKey) -> GroupRecord {
    // A host without tasks is removed from memory, and with it a clock that has run out.
    let groups = f.view().groups(host).unwrap();
    groups
        .first()
        .map(|(_, group)| group.clone())
        .unwrap_or_default()
}

fn several_troubled_hosts_make_the_address_back_off_and_it_lasts() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), policy(DELAY, 0), 0);
    let mut now = 10_000;
    proven(&mut f, &mut now, 4);
    f.add_seeds(&[url("http://host-9.example/b")], now).unwrap();
    let first = ask_next(&mut f, &mut now);
    answer(&mut f, &first, overloaded(10_000), now);
    // The failure of one host affects only that host.
    let second = ask_next(&mut f, &mut now);
    assert_ne!(first.host, second.host);
    answer(&mut f, &second, overloaded(7_200), now);
    // Two are not enough either, because they may have one owner.
    let another = ask_next(&mut f, &mut now);
    assert!(now < 20_000);
    answer(&mut f, &another, overloaded(7_200), now);
    // Three of four may be the machine's fault, and it rests as long as spoor's own rule
    // says.
    let until = now + 30_000;
    let stored_groups = f.view().groups(&second.host).unwrap();
    assert_eq!(stored_groups[0].0, "address 192.0.2.0");
    let group = shared(&f, &second.host);
    assert_eq!((group.due, group.failures), (until, 1));
    assert!(ask(&mut f, until - 1).is_none());
    assert_eq!(f.next_event(), Some(until));
    drop(f);
    let store = open_store(folder.path()).unwrap();
    let stored = view::View::new(&*store).groups(&second.host).unwrap();
    assert_eq!(stored, stored_groups);
    drop(store);
    let mut f = open(folder.path(), policy(DELAY, 0), now + 1);
    assert!(ask(&mut f, until - 1).is_none());
    let last = ask(&mut f, until).unwrap();
    answer(&mut f, &last, Outcome::Done, until);
    assert_eq!(shared(&f, &last.host).failures, 0);
    // The pause that each asked for applies to itself.
    for (task, seconds) in [(&first, 10_000), (&second, 7_200)] {
        let host = f.look_up_host(&task.host).unwrap().unwrap();
        assert!(host.due >= 10_000 + seconds * 1_000);
    }
    drop(f);
    // An answer ends it.
    let mut f = open(folder.path(), policy(DELAY, 0), until);
    assert!(ask(&mut f, until + 2_000).is_some());
}

#[test]
fn a_few_hosts_silence_no_neighbours() {
    let year = 31_536_000;
    let refused = Outcome::Retry {
        reason: Reason::Connection,
        retry_after: None,
        host_backs_off: true,
    };
    // Two of 33 that answered once, and six names that never did.
    for (wish, hostile) in [(overloaded(year), 2), (overloaded(year), 6), (refused, 6)] {
        for first in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let mut f = open(folder.path(), policy(DELAY, 0), 0);
            let mut now = 10_000;
            let count = neighbours(34).len();
            if !first && hostile == 2 {
                proven(&mut f, &mut now, 34);
            } else {
                f.add_seeds(&neighbours(34), now).unwrap();
            }
            let begun = now;
            let mut asked = Vec::new();
            let mut answered = 0;
            while let Some(task) = ask(&mut f, now).or_else(|| {
                now = f.next_event().filter(|_| !f.is_exhausted())?.max(now + 1);
                ask(&mut f, now)
            }) {
                asked.push(now);
                let at = neighbours(hostile)
                    .iter()
                    .any(|u| u.host_key() == task.host);
                if at {
                    answer(&mut f, &task, wish.clone(), now);
                } else {
                    answered += usize::from(task.kind == TaskKind::Page);
                    answer(&mut f, &task, Outcome::Done, now);
                }
                if answered == count - hostile {
                    break;
                }
            }
            assert_eq!(answered, count - hostile, "{wish:?}");
            let least = DELAY * asked.len() as u64;
            // No pause other than the delay between all requests to the address.
            assert!(
                now - begun <= least + 3_000,
                "{} ms of {least}",
                now - begun
            );
        }
    }
}

#[test]
fn an_address_whose_hosts_all_fail_rests_longer_and_longer() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), policy(DELAY, 0), 0);
    let mut now = 10_000;
    let count = neighbours(34).len();
    proven(&mut f, &mut now, 34);
    let begun = now;
    let mut pauses = Vec::new();
    let mut failed = 0;
    while pauses.len() < 6 {
        let task = ask_next(&mut f, &mut now);
        answer(&mut f, &task, overloaded(100_000), now);
        failed += 1;
        let due = shared(&f, &task.host).due;
        if due > now + 2 * DELAY {
            pauses.push(due - now);
        }
        assert!(due <= now + policy(DELAY, 0).longest_group_pause());
    }
    assert_eq!(pauses, [30_000, 60_000, 120_000, 240_000, 480_000, 600_000]);
    // A quarter of them failed before the first.
    assert_eq!(failed, count.div_ceil(4) - 1 + pauses.len());
    assert!(now > begun);
    // The first good answer ends the back-off, and releases the hosts that were given up.
    now = shared(&f, &neighbours(1)[0].host_key()).due;
    let task = ask_next(&mut f, &mut now);
    answer(&mut f, &task, Outcome::Done, now);
    let group = shared(&f, &task.host);
    assert_eq!((group.failures, group.parked), (0, false));
    let next = now;
    ask_next(&mut f, &mut now);
    assert!(now <= next + 2_000, "{}", now - next);
}

#[test]
fn an_answer_that_was_under_way_ends_the_pause() {
    for retries in [0, 3] {
        let folder = tempfile::tempdir().unwrap();
        let policy = Policy {
            retries,
            ..policy(DELAY, 0)
        };
        let mut f = open(folder.path(), policy, 0);
        let mut now = 10_000;
        proven(&mut f, &mut now, 5);
        let tasks: Vec<Task> = (0..4).map(|_| ask_next(&mut f, &mut now)).collect();
        for task in &tasks[..3] {
            answer(&mut f, task, overloaded(60), now);
        }
        let group = shared(&f, &tasks[0].host);
        assert_eq!((group.due, group.parked), (now + 30_000, retries == 0));
        assert!(ask(&mut f, now + 10_000).is_none());
        answer(&mut f, &tasks[3], Outcome::Done, now + 10_000);
        assert!(!f.is_exhausted());
        assert!(ask(&mut f, now + 10_000 + 2 * DELAY).is_some());
    }
}

#[test]
fn what_a_host_answered_elsewhere_proves_nothing_here() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), policy(DELAY, 0), 0);
    let mut now = 10_000;
    proven(&mut f, &mut now, 4);
    // A day later their names point at a machine of another owner.
    now += 86_400_000;

    let victim = Some(IpAddr::from([192, 0, 2, 77]));
    let mut failed = 0;
    while failed < 4 {
        match f.lease(now).unwrap() {
            Some(task) if task.locate => f.located(&task, victim, now).unwrap(),
            Some(task) => {
                answer(&mut f, &task, overloaded(9_000), now);
                failed += 1;
                assert_eq!(shared(&f, &task.host).failures, 0);
            }
            None => now = f.next_event().unwrap().max(now + 1),
        }
    }
}

#[test]
fn a_year_that_an_older_store_holds_is_healed() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), policy(DELAY, 0), 0);
    let mut now = 10_000;
    proven(&mut f, &mut now, 3);
    let host = neighbours(1)[0].host_key();
    drop(f);
    let mut store = open_store(folder.path()).unwrap();
    let key = keys::group(&GroupKey::Address([192, 0, 2, 0].into()));
    let record = GroupRecord {
        due: now + 31_536_000_000,
        delay: DELAY,
        troubled: Some(host.clone()),
        failures: 1,
        parked: true,
    };
    let mut batch = store::Batch::default();
    batch.put(key.clone(), postcard::to_stdvec(&record).unwrap());
    store.apply(batch).unwrap();
    drop(store);
    let mut f = open(folder.path(), policy(DELAY, 0), now);
    assert!(!f.is_exhausted());
    assert!(ask(&mut f, now + 2_000).is_some());
    assert_eq!(f.ledger.store().get(&key).unwrap(), None);
}

#[test]
fn a_request_is_booked_for_an_address_that_is_looked_up_again_where_no_host_answers() {
    let folder = tempfile::tempdir().unwrap();
    let policy = Policy {
        connections: 2,
        ..policy(DELAY, 700)
    };
    let mut f = open(folder.path(), policy, 0);
    f.add_seeds(&[url("http://a.site-1.example/")], 0).unwrap();
    let mut now = 10_000_000;
    let lookup = f.lease(now).unwrap().unwrap();
    assert!(lookup.locate);
    assert_eq!(
        (lookup.booking.address, lookup.booking.elsewhere),
        (None, false)
    );
    let at = IpAddr::from([192, 0, 2, 9]);
    f.located(&lookup, Some(at), now).unwrap();
    let task = ask(&mut f, now).unwrap();
    assert_eq!(task.booking.address, Some(at));
    let clocks = task.booking.clocks.iter();
    let clocks: Vec<_> = clocks
        .map(|(name, pause)| (name.as_str(), pause.as_millis()))
        .collect();
    let expected = [
        ("address 192.0.2.9", DELAY.into()),
        ("domain site-1.example", 700),
        ("host a.site-1.example", 1_000),
    ];
    assert_eq!(clocks, expected);
    let refused = Outcome::Retry {
        reason: Reason::Connection,
        retry_after: None,
        host_backs_off: true,
    };
    answer(&mut f, &task, refused, now);
    now += 30_000;
    let lookup = f.lease(now).unwrap().unwrap();
    assert!(lookup.locate, "the host may have moved");
    assert_eq!(
        (lookup.booking.address, lookup.booking.elsewhere),
        (Some(at), true)
    );
    let other = IpAddr::from([192, 0, 2, 10]);
    f.located(&lookup, Some(other), now).unwrap();
    let task = ask(&mut f, now + 1_000).unwrap();
    assert_eq!(task.booking.address, Some(other));
}

#[test]
fn requests_that_had_to_wait_put_off_those_after_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), policy(DELAY, 0), 0);
    let mut now = 10_000;
    f.add_seeds(&neighbours(4), now).unwrap();
    let task = ask_next(&mut f, &mut now);
    f.waited(&task, Duration::from_secs(7), now);
    answer(&mut f, &task, Outcome::Done, now);
    let begun = now;
    ask_next(&mut f, &mut now);
    assert_eq!(now, begun + 7_000);
    // No group rests for longer than its bound.
    let task = ask_next(&mut f, &mut now);
    f.waited(&task, Duration::MAX, now);
    let longest = policy(DELAY, 0).longest_group_pause();
    assert_eq!(shared(&f, &task.host).due, now + longest);
}

#[test]
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

#[test]
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
    // If the operator redirects its requests (`connect_to`), it has no address of its own.
    f.located(&task, None, tomorrow).unwrap();
    assert!(!f.lease(tomorrow).unwrap().unwrap().locate);
}

#[test]
fn an_export_keeps_the_groups() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), policy(DELAY, 0), 0);
    let mut now = 10_000;
    proven(&mut f, &mut now, 4);
    for _ in 0..3 {
        let task = ask_next(&mut f, &mut now);
        answer(&mut f, &task, overloaded(86_400), now);
    }
    let due = shared(&f, &neighbours(1)[0].host_key()).due;
    assert_eq!(due, now + 30_000);
    drop(f);
    let store = open_store(folder.path()).unwrap();
    let mut lines = Vec::new();
    dump::write(&*store, &mut lines, folder.path()).unwrap();
    assert!(consistency::check(&*store).unwrap().problems.is_empty());
    drop(store);
    let other = tempfile::tempdir().unwrap();
    let mut fresh = open_store(other.path()).unwrap();
    dump::restore(&mut *fresh, &mut lines.as_slice(), other.path()).unwrap();
    drop(fresh);
    let mut f = open(other.path(), policy(DELAY, 0), now);
    assert!(ask(&mut f, due - 1).is_none());
    assert!(ask(&mut f, due).is_some());
}

proptest! {
    #![proptest_config(spoor_testing::cases!(24))]

    /// For any hosts, addresses, scores and answers: the clocks hold and no host remains
    /// held at a group.
    #[test]
    fn no_host_is_asked_too_early_or_held_for_ever(
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

    /// For any answers and wishes of a group's hosts: the group rests no longer than
    /// spoor's own bound, and the pause that a host asked for is kept.
    #[test]
    fn a_host_binds_itself_and_no_group_rests_beyond_the_bound(
        steps in proptest::collection::vec((0usize..8, 0u64..100_000, 0u8..4), 1..120),
        retries in 0u32..4,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let policy = Policy { retries, max_delay: 5_000, delay_factor: 5.0, ..policy(DELAY, 700) };
        let bound = policy.longest_group_pause();
        prop_assert!(bound <= 600_000);
        let mut f = open(folder.path(), policy, 0);
        let mut now = 10_000;
        for n in 0..12 {
            let host = format!("http://host-{}.site-{}.example", 3 * n, n % 2);
            f.add_seeds(&[1, 2, 3, 4].map(|p| url(&format!("{host}/{p}"))), now).unwrap();
        }
        let mut promised: BTreeMap<HostKey, u64> = BTreeMap::new();
        for (what, amount, restart) in steps {
            let Some(task) = ask(&mut f, now) else {
                let next = f.next_event().or(f.schedule.next_parked());
                now = next.map_or(now, |at| at.clamp(now, now + bound)) + amount % 100;
                continue;
            };
            let wish = promised.get(&task.host).copied().unwrap_or(0);
            prop_assert!(now >= wish, "{} though asked to wait until {wish}", task.url);
            let failed = |reason, seconds: Option<u64>| Outcome::Retry {
                reason,
                retry_after: seconds.map(Duration::from_secs),
                host_backs_off: true,
            };
            let mut wish = None;
            let outcome = match what {
                0 | 1 => {
                    wish = Some(amount * amount % 100_000_000);
                    failed(Reason::Overloaded, wish)
                }
                2 => failed(Reason::Connection, None),
                3 => failed(Reason::Timeout, None),
                4 => {
                    wish = Some(amount);
                    f.rest(&task, Duration::from_secs(amount), now).unwrap();
                    Outcome::Redirect { to: url("http://host-0.site-0.example/moved") }
                }
                _ => Outcome::Done,
            };
            if let Some(wish) = wish {
                promised.insert(task.host.clone(), now + 1_000 * wish);
            }
            answer(&mut f, &task, outcome, now);
            for (name, group) in f.view().groups(&task.host).unwrap() {
                prop_assert!(group.due <= now + bound, "{name} rests {}", group.due - now);
            }
            if restart == 0 {
                drop(f);
                let policy = Policy { retries, max_delay: 5_000, ..super::group_clocks::policy(DELAY, 700) };
                f = open(folder.path(), policy, now);
            }
            now += amount % 700;
        }
    }
}
