//! The system's clock is set back between two runs.

use super::*;

over_all! {
    pauses_follow_a_clock_that_was_set_back
}

const DAY: u64 = 86_400_000;

/// A frontier whose host a.org is parked for 500 s, while the one address of b.org
/// waits for 30 s, closed at this time or dropped.
fn at_rest(folder: &Path, mut now: u64, clean: bool) {
    let mut f = open(folder, now);
    f.add_seeds(&[url("http://a.org/"), url("http://b.org/")], now)
        .unwrap();
    for _ in 0..2 {
        let task = lease(&mut f, &mut now).unwrap();
        let at_a = task.url.host_key().as_str() == "a.org";
        let outcome = Outcome::Retry {
            reason: Reason::Overloaded,
            retry_after: at_a.then_some(Duration::from_secs(500)),
            host_backs_off: at_a,
        };
        finish(&mut f, &task, outcome, Effects::default(), now);
    }
    if clean {
        f.close().unwrap()
    } else {
        f.flush().unwrap()
    }
}

/// The seconds after which the two tasks are leased, by host.
fn given_out(f: &mut Frontier, opened: u64) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for second in 0..600 {
        while let Some(task) = f.lease(opened + second * 1_000).unwrap() {
            found.push((task.host.as_str().to_owned(), second));
        }
    }
    found
}

fn pauses_follow_a_clock_that_was_set_back() {
    for clean in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        at_rest(folder.path(), 10 * DAY, clean);
        let mut f = open(folder.path(), 9 * DAY);
        check(&f);
        let found = given_out(&mut f, 9 * DAY);
        let hosts: Vec<&str> = found.iter().map(|(host, _)| host.as_str()).collect();
        assert_eq!(hosts, ["b.org", "a.org"], "{found:?}");
        let [b, a] = [found[0].1, found[1].1];
        assert!(
            (25..=31).contains(&b) && (495..=501).contains(&a),
            "{found:?}"
        );
        drop(f);
        // Moved once, and not again.
        let mut f = open(folder.path(), 9 * DAY + 600_000);
        check(&f);
        assert_eq!(given_out(&mut f, 9 * DAY + 600_000).len(), 2);
    }
}

#[test]
fn a_slight_step_and_a_clock_set_forward_change_nothing() {
    for later in [10 * DAY + 500, 11 * DAY] {
        let folder = tempfile::tempdir().unwrap();
        at_rest(folder.path(), 10 * DAY, true);
        let host = |f: &Frontier| f.look_up_host(&url("http://a.org/").host_key()).unwrap();
        let f = open(folder.path(), later);
        let parked = host(&f).unwrap().due;
        assert!(parked >= 10 * DAY + 500_000, "{parked}");
    }
}
