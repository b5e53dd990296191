//! The control sample: links drawn by chance.

use super::*;
use crate::control_sample::DrawnLink;
use crate::draws;
use crate::ratings::InForce;
use crate::transaction::Transaction;

over_all! {
    a_draw_outlives_the_process
}

pub(super) fn sampling(path: &Path, share: f64, now: u64) -> Frontier {
    let scope = Scope::new(Config::default().settings.scope);
    let store = open_store(path).unwrap();
    let control = SampleSettings { share, seed: 7 };
    let policy = Policy {
        control,
        ..test_policy()
    };
    Frontier::open(store, policy, scope, now).unwrap()
}

/// This many links on four hosts, from good ones to ones above the razor.
fn links(range: std::ops::Range<usize>) -> Vec<NewTask> {
    let link = |n: usize| {
        page(
            &format!("http://h{}.org/{n}", n % 4),
            (n % 7) as f64 * 6_000.0,
        )
    };
    range.map(link).collect()
}

/// A frontier that knows these links, from a seed that is done.
fn knowing(path: &Path, share: f64, links: Vec<NewTask>) -> (Frontier, u64) {
    let mut f = sampling(path, share, 0);
    let mut now = 0;
    f.add_seeds(&[url("http://seed.org/")], 0).unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    done(&mut f, &task, links, now);
    (f, now)
}

fn rated(f: &mut Frontier, task: &Task, on_topic: bool, now: u64) {
    let effects = Effects {
        on_topic: Some(f64::from(u8::from(on_topic))),
        ..Effects::default()
    };
    finish(f, task, Outcome::Done, effects, now);
}

fn keys_of(f: &Frontier, prefix: &[u8]) -> usize {
    let mut n = 0;
    f.ledger
        .store()
        .scan(prefix, &[], &mut |_, _| {
            n += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    n
}

/// Chi-square of these counts, in standard deviations above the expectation for uniform
/// draws (Wilson and Hilferty 1931).
fn deviation(counts: &[u64]) -> f64 {
    let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    let chi: f64 = counts
        .iter()
        .map(|n| (*n as f64 - expected).powi(2) / expected)
        .sum();
    let (df, ninth) = (counts.len() as f64 - 1.0, 2.0 / 9.0);
    ((chi / df).cbrt() - (1.0 - ninth / df)) / (ninth / df).sqrt()
}

/// How often each known link is drawn, over this many seeds. Nothing is changed.
fn frequencies(f: &Frontier, draws: u64, now: u64) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for seed in 0..draws {
        let mut meta = f.ledger.meta().clone();
        (meta.sample.seed, meta.sample.taken) = (seed, 0);
        meta.sample.pending.clear();
        let mut tx = Transaction::new(f.ledger.store(), meta);
        draws::draw_one(&mut tx, &f.intake(InForce::default()), now).unwrap();
        let drawn: &DrawnLink = &tx.meta.sample.pending[0];
        *counts.entry(drawn.url.as_str().to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn what_is_drawn_is_asked_first_and_marked() {
    let folder = tempfile::tempdir().unwrap();
    let (mut f, mut now) = knowing(folder.path(), 0.25, links(0..200));
    let before = f.counts().dropped[&Reason::Razor];
    let (mut by_chance, mut razored) = (Vec::new(), 0);
    for _ in 0..80 {
        let task = lease(&mut f, &mut now).unwrap();
        if task.control {
            by_chance.push(task.url.clone());
            razored += usize::from(task.score > 30_000.0);
        } else {
            assert!(task.score <= 30_000.0, "{} is above the razor", task.url);
        }
        rated(&mut f, &task, !task.control, now);
        now += 1_000;
    }
    assert!(
        (19..=20).contains(&by_chance.len()),
        "every fourth: {by_chance:?}"
    );
    assert!(razored > 0, "some of {before} links above the razor");
    let focus = f.focus();
    let drawn = by_chance.len() as u64;
    assert_eq!((focus.control.fetches, focus.control.on_topic), (drawn, 0));
    assert_eq!(
        (focus.focused.fetches, focus.focused.on_topic),
        (80 - drawn, 80 - drawn)
    );
    assert_eq!(f.focus_curve().total(), focus);
    let view = f.view();
    for url in &by_chance {
        assert!(view.is_control(url, TaskKind::Page).unwrap(), "{url}");
    }
    assert_eq!(keys_of(&f, keys::DRAWN), by_chance.len());
    check(&f);
}

#[test]
fn draws_are_uniform_and_stay_so() {
    let folder = tempfile::tempdir().unwrap();
    let (mut f, mut now) = knowing(folder.path(), 0.5, links(0..60));
    // Half of them are fetched, by score and by chance, and others are found in the meantime.
    for n in 0..30 {
        let task = lease(&mut f, &mut now).unwrap();
        let effects = Effects {
            links: links(60 + n..60 + n + 1),
            on_topic: Some(1.0),
            ..Effects::default()
        };
        finish(&mut f, &task, Outcome::Done, effects, now);
    }
    let mut open = 0;
    for n in 0..90 {
        let address = url(&format!("http://h{}.org/{n}", n % 4));
        let record = f.look_up(&address, TaskKind::Page).unwrap().unwrap();
        let razored = State::Dropped {
            reason: Reason::Razor,
        };
        let pending = f.ledger.meta().sample.is_pending(&address);
        open += usize::from(pending || record.state == State::Queued || record.state == razored);
    }
    assert_eq!(open, 60);
    let counts = frequencies(&f, 60_000, now);
    assert_eq!(
        counts.len(),
        open,
        "all of them, also those above the razor"
    );
    let all: Vec<u64> = counts.values().copied().collect();
    assert!(
        deviation(&all).abs() < 3.5,
        "{} of {all:?}",
        deviation(&all)
    );
    // Early and late links, and good and bad ones, are drawn equally often.
    let number = |url: &str| url.rsplit('/').next().unwrap().parse::<usize>().unwrap();
    for half in [
        |n: usize| n < 60,
        |n: usize| n % 7 < 3,
        |n: usize| n % 4 < 2,
    ] {
        let sides = [true, false].map(|side| {
            let of_side = counts.iter().filter(|(url, _)| half(number(url)) == side);
            let (links, draws) = of_side.fold((0, 0), |(l, d), (_, n)| (l + 1, d + n));
            draws as f64 / f64::from(links)
        });
        // 1,000 draws of each link: a standard deviation of some 6 in the mean of 30.
        assert!((sides[0] - sides[1]).abs() < 40.0, "{sides:?}");
    }
    check(&f);
}

fn a_draw_outlives_the_process() {
    let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (mut f, mut now) = knowing(one.path(), 0.1, links(0..100));
    let (mut g, mut g_now) = knowing(other.path(), 0.1, links(0..100));
    let mut fetched = BTreeSet::new();
    for n in 0..80 {
        let (task, same) = (lease(&mut f, &mut now), lease(&mut g, &mut g_now));
        let (task, same) = (task.unwrap(), same.unwrap());
        assert_eq!((&task.url, task.control), (&same.url, same.control), "{n}");
        if n % 3 == 0 {
            // Killed with the lease open; the task is leased again.
            let (drawn, focus) = (f.ledger.meta().sample.clone(), f.focus());
            drop(f);
            f = sampling(one.path(), 0.1, now);
            assert_eq!((&f.ledger.meta().sample, f.focus()), (&drawn, focus));
            let again = lease(&mut f, &mut now).unwrap();
            if task.control {
                assert_eq!((&again.url, again.control), (&task.url, true));
            }
            f.abandon(&again, now).unwrap();
            now += 10_000;
            let again = loop {
                let again = lease(&mut f, &mut now).unwrap();
                if again.url == task.url {
                    break again;
                }
                f.abandon(&again, now).unwrap();
                now += 10_000;
            };
            assert!(fetched.insert(again.url.clone()), "{} twice", again.url);
            rated(&mut f, &again, true, now);
        } else {
            assert!(fetched.insert(task.url.clone()), "{} twice", task.url);
            rated(&mut f, &task, true, now);
        }
        rated(&mut g, &same, true, g_now);
        (now, g_now) = (now + 100_000, g_now + 100_000);
    }
    assert_eq!(f.focus(), g.focus());
    assert!((7..=8).contains(&f.focus().control.fetches));
    check(&f);
}

#[test]
fn a_redirect_is_followed_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let (mut f, mut now) = knowing(folder.path(), 0.5, links(0..20));
    // Others continue while a host is waited for.
    let control = |f: &mut Frontier, now: &mut u64| loop {
        let task = lease(f, now).unwrap();
        if task.control {
            return task;
        }
        rated(f, &task, false, *now);
        f.ledger.meta_mut().sample.owed = 0.0;
    };
    f.ledger.meta_mut().sample.owed = 1.0;
    let task = control(&mut f, &mut now);
    let before = f.focus().control;
    let to = url("http://end.org/");
    finish(
        &mut f,
        &task,
        Outcome::Redirect { to: to.clone() },
        Effects::default(),
        now,
    );
    f.ledger.meta_mut().sample.owed = 0.0;
    assert_eq!(f.focus().control, before, "a redirect is no page yet");
    let next = control(&mut f, &mut now);
    assert_eq!(next.url, to);
    let retry = Outcome::Retry {
        reason: Reason::Timeout,
        retry_after: None,
        host_backs_off: false,
    };
    finish(&mut f, &next, retry, Effects::default(), now);
    f.ledger.meta_mut().sample.owed = 0.0;
    assert_eq!(f.focus().control, before, "nor is an attempt");
    now += 100_000;
    let next = control(&mut f, &mut now);
    assert_eq!(next.url, to);
    rated(&mut f, &next, true, now);
    let after = f.focus().control;
    assert_eq!(after.fetches, before.fetches + 1);
    assert_eq!(after.on_topic, before.on_topic + 1);
    check(&f);
}

#[test]
fn dead_hosts_give_their_draws_back() {
    let folder = tempfile::tempdir().unwrap();
    let dead = (0..50).map(|n| page(&format!("http://dead.org/{n}"), 50_000.0));
    let (mut f, mut now) = knowing(folder.path(), 0.5, dead.collect());
    assert_eq!(f.counts().dropped[&Reason::Razor], 50);
    f.ledger.meta_mut().sample.owed = 1.0;
    let task = f.lease(now).unwrap().unwrap();
    assert_eq!((task.kind, f.control_pending()), (TaskKind::Robots, 1));
    assert_eq!(f.counts().dropped[&Reason::Razor], 49);
    let dead = RobotsAnswer::Unreachable {
        reason: Reason::Timeout,
        retry_after: Some(Duration::from_secs(1_000_000)),
    };
    robots(&mut f, &task, dead, now);
    now += 1;
    f.ledger.meta_mut().sample.owed = 1.0;
    assert_eq!(f.lease(now).unwrap(), None);
    assert_eq!(
        f.control_pending(),
        0,
        "and nothing else of that host is drawn"
    );
    assert_eq!(
        f.counts().dropped[&Reason::Razor],
        50,
        "it is not followed for its score"
    );
    assert_eq!(f.counts().queued_pages(), 0);
    check(&f);
}

#[test]
fn an_export_carries_the_sample() {
    let folder = tempfile::tempdir().unwrap();
    let (mut f, mut now) = knowing(&folder.path().join("a"), 0.5, links(0..40));
    for _ in 0..9 {
        let task = lease(&mut f, &mut now).unwrap();
        rated(&mut f, &task, true, now);
    }
    f.ledger.meta_mut().sample.owed = 1.0;
    f.draw_control(now).unwrap();
    let (lines, found) = exported(f.ledger.store());
    assert!(found.is_whole());
    drop(imported(&lines, &folder.path().join("b")));
    let g = sampling(&folder.path().join("b"), 0.5, now);
    check(&g);
    let mut expected = f.ledger.meta().sample.clone();
    // Finished links are not listed again; pending ones are still listed.
    expected.listed = 31;
    assert_eq!(g.ledger.meta().sample, expected);
    assert_eq!(keys_of(&g, keys::DRAWN), keys_of(&f, keys::DRAWN));
    let [ours, theirs] = [&f, &g].map(|f| frequencies(f, 2_000, now));
    assert!(ours.keys().eq(theirs.keys()), "the same links can be drawn");

    // An inconsistent list is detected.
    let mut batch = store::Batch::default();
    batch.delete(keys::listed(3));
    f.ledger.store_mut().apply(batch).unwrap();
    assert!(!consistency::check(f.ledger.store()).unwrap().is_sound());
}

#[test]
fn nothing_is_written_where_it_is_off() {
    let folder = tempfile::tempdir().unwrap();
    let (mut f, mut now) = knowing(folder.path(), 0.0, links(0..40));
    for _ in 0..20 {
        let task = lease(&mut f, &mut now).unwrap();
        assert!(!task.control);
        rated(&mut f, &task, true, now);
    }
    assert_eq!(
        (keys_of(&f, keys::LISTED), keys_of(&f, keys::DRAWN)),
        (0, 0)
    );
    assert_eq!(
        f.focus().focused.fetches,
        20,
        "what is on topic is counted all the same"
    );
    drop(f);
    // Switched on later, it draws from links found after that.
    let mut f = sampling(folder.path(), 0.5, now);
    now += 10_000;
    let task = lease(&mut f, &mut now).unwrap();
    done(&mut f, &task, links(100..140), now);
    assert_eq!(keys_of(&f, keys::LISTED), 40);
    check(&f);
}
