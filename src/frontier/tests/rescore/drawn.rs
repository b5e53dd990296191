//! The effect of another rating on links that the control sample has drawn.

use super::super::control_sample::sampling;
use super::*;

/// A frontier that is rated by [`FIRST`], knows one link with this score, and has drawn it.
fn with_drawn(path: &Path, score: f64) -> (Frontier, u64) {
    let mut f = sampling(path, 0.5, 0);
    f.set_rating(Arc::new(FIRST)).unwrap();
    f.add_seeds(&[url("http://s.org/")], 0).unwrap();
    let mut now = 0;
    let task = lease(&mut f, &mut now).unwrap();
    let links = vec![link(&FIRST, "http://a.org/", score, "")];
    finish(&mut f, &task, Outcome::Done, effects(&FIRST, links), now);
    f.ledger.meta_mut().sample.owed = 1.0;
    f.draw_control(now).unwrap();
    f.ledger.meta_mut().sample.owed = 0.0;
    assert_eq!(f.control_pending(), 1);
    (f, now)
}

fn razored(f: &Frontier) -> Vec<Option<f64>> {
    let pending = f.ledger.meta().sample.pending.iter();
    pending.map(|drawn| drawn.razored).collect()
}

fn above(f: &Frontier) -> u64 {
    f.counts()
        .dropped
        .get(&Reason::Razor)
        .copied()
        .unwrap_or_default()
}

/// With the razor at 100.
const NARROW: Rated = Rated {
    razor: 100.0,
    ..FIRST
};

#[test]
fn drawn_links_are_requested_despite_the_razor() {
    for rated_before in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (mut f, mut now) = with_drawn(folder.path(), 500.0);
        assert_eq!(razored(&f), [None]);
        f.set_rating(Arc::new(NARROW)).unwrap();
        if rated_before {
            let came = rescore_all(&mut f, now);
            assert_eq!((came.razored, above(&f)), (0, 0));
            assert_eq!(razored(&f), [Some(500.0)]);
        }
        let task = loop {
            // While links are re-rated there is always work to do at once.
            match lease(&mut f, &mut now) {
                Some(task) => break task,
                None => now += 1_000,
            }
        };
        assert!(task.control, "{task:?}");
        // While it is leased, and while it waits, it stays as well.
        let heavy = Rated {
            weight: 2.0,
            ..NARROW
        };
        f.set_rating(Arc::new(heavy)).unwrap();
        rescore_all(&mut f, now);
        assert_eq!(razored(&f), [Some(1_000.0)]);
        let retry = Outcome::Retry {
            reason: Reason::Timeout,
            retry_after: None,
            host_backs_off: false,
        };
        finish(&mut f, &task, retry, Effects::default(), now);
        f.set_rating(Arc::new(NARROW)).unwrap();
        let came = rescore_all(&mut f, now);
        assert_eq!((came.razored, razored(&f)), (0, vec![Some(500.0)]));
        now += 100_000;
        let task = lease(&mut f, &mut now).unwrap();
        assert_eq!((task.url.as_str(), task.control), ("http://a.org/", true));
        done(&mut f, &task, vec![], now);
        assert_eq!(f.control_pending(), 0);
        check(&f);
    }
}

#[test]
fn what_was_drawn_above_the_razor_goes_back_by_the_rating_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let (mut f, mut now) = with_drawn(folder.path(), 5_000.0);
    assert_eq!((razored(&f), above(&f)), (vec![Some(5_000.0)], 0));
    // The head of its host is its robots.txt, which is unavailable for a long time.
    let task = f.lease(now).unwrap().unwrap();
    assert_eq!(task.kind, TaskKind::Robots);
    let dead = RobotsAnswer::Unreachable {
        reason: Reason::Timeout,
        retry_after: Some(Duration::from_secs(1_000_000)),
    };
    robots(&mut f, &task, dead, now);
    let light = Rated {
        weight: 0.5,
        ..FIRST
    };
    f.set_rating(Arc::new(light)).unwrap();
    let came = rescore_all(&mut f, now);
    assert_eq!((came.rescored, came.razored, came.revived), (1, 0, 0));
    assert_eq!(razored(&f), [Some(2_500.0)]);
    now += 1;
    f.ledger.meta_mut().sample.owed = 1.0;
    assert_eq!(f.lease(now).unwrap(), None);
    assert_eq!((f.control_pending(), above(&f)), (0, 1));
    assert_eq!(known(&f, "http://a.org/").state, RAZORED);
    check(&f);

    // If another rating follows the link for its score, it is not withdrawn.
    let folder = tempfile::tempdir().unwrap();
    let (mut f, mut now) = with_drawn(folder.path(), 5_000.0);
    let wide = Rated {
        razor: 10_000.0,
        ..FIRST
    };
    f.set_rating(Arc::new(wide)).unwrap();
    rescore_all(&mut f, now);
    assert_eq!(razored(&f), [None]);
    let task = f.lease(now).unwrap().unwrap();
    let dead = RobotsAnswer::Unreachable {
        reason: Reason::Timeout,
        retry_after: Some(Duration::from_secs(1_000_000)),
    };
    robots(&mut f, &task, dead, now);
    now += 1;
    f.ledger.meta_mut().sample.owed = 1.0;
    assert_eq!(f.lease(now).unwrap(), None);
    assert_eq!((f.control_pending(), above(&f)), (0, 0));
    assert_eq!(known(&f, "http://a.org/").state, State::Queued);
    check(&f);
}

#[test]
fn a_drawn_link_above_the_razor_is_followed_through_its_redirect() {
    let folder = tempfile::tempdir().unwrap();
    let (mut f, mut now) = with_drawn(folder.path(), 5_000.0);
    let task = lease(&mut f, &mut now).unwrap();
    assert!(task.control);
    let to = url("http://end.org/");
    let redirect = Outcome::Redirect { to: to.clone() };
    finish(&mut f, &task, redirect, effects(&FIRST, vec![]), now);
    assert_eq!((razored(&f), above(&f)), (vec![Some(5_000.0)], 0));
    check(&f);
    f.ledger.meta_mut().sample.owed = 0.0;
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!((&task.url, task.control), (&to, true));
    let effects = Effects {
        on_topic: Some(1.0),
        ..Effects::default()
    };
    finish(&mut f, &task, Outcome::Done, effects, now);
    let found = f.focus().control;
    assert_eq!((found.fetches, found.on_topic), (1, 1));
}

#[test]
fn a_strategy_without_a_sample_draws_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let (mut f, mut now) = with_drawn(folder.path(), 500.0);
    f.set_policy(Policy {
        control: SampleSettings {
            share: 0.0,
            seed: 7,
        },
        ..test_policy()
    });
    // Drawn links are finished as they were started.
    let task = lease(&mut f, &mut now).unwrap();
    assert!(task.control);
    let links = (0..9).map(|i| link(&FIRST, &format!("http://a.org/{i}"), 50.0, ""));
    let effects = effects(&FIRST, links.collect());
    finish(&mut f, &task, Outcome::Done, effects, now);
    while let Some(task) = lease(&mut f, &mut now) {
        assert!(!task.control);
        done(&mut f, &task, vec![], now);
    }
    assert_eq!(f.ledger.meta().sample.owed, 0.0);
    check(&f);
}
