//! The system's clock is set by a day while a crawl runs, and between two runs: no
//! pause becomes shorter or longer, and nothing is lost.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use spoor::settings::StoreKind;

use crate::support::clock::Clock;
use crate::support::wire::too_close;
use crate::support::{Job, JobText, Live, Ran, Wire, small};

const DAY: i64 = 86_400;

/// The pause of each host.
const PAUSE: Duration = Duration::from_millis(25);

/// Crawls for this many more requests, sets the clock, waits for as many again, and stops.
fn set_while_it_runs(job: &Job, wire: &Wire, clock: &Clock, to: i64) -> Ran {
    const REQUESTS: usize = 60;
    let mut command = job.crawl();
    command.arg("-v");
    clock.shown_to(&mut command);
    let mut crawl = Live::start(&mut command);
    let more = |crawl: &mut Live| {
        let seen = wire.requests().len();
        assert!(wire.wait(
            |n| n.requests.len() >= seen + REQUESTS,
            || crawl.has_ended()
        ));
    };
    more(&mut crawl);
    clock.set(to);
    more(&mut crawl);
    crawl.signal(Signal::SIGTERM);
    crawl.ended()
}

/// The date of the log line that contains `words`.
fn day_of(ran: &Ran, words: &str) -> String {
    let line = ran.err.lines().find(|l| l.contains(words));
    let line = line.unwrap_or_else(|| panic!("{words:?} in {}", ran.err));
    line.split('T').next().unwrap().to_owned()
}

fn warnings(ran: &Ran) -> Vec<&str> {
    ran.err.lines().filter(|l| l.contains("WARN")).collect()
}

fn a_clock_that_is_set_by_a_day_changes_no_pause(store: StoreKind) {
    let wire = Wire::serve(small::lab(Duration::ZERO));
    let rest = small::rest(store, "");
    let text = JobText {
        politeness: "min_delay = \"25ms\"\ndelay_factor = 0\nretries = 0\nback_off = \"1ms\"",
        ..small::text(&rest)
    };
    let job = Job::new(&wire, &text);
    let folder = tempfile::tempdir().unwrap();
    let Some(clock) = Clock::right(folder.path()) else {
        return;
    };
    let begun = Instant::now();
    let ahead = set_while_it_runs(&job, &wire, &clock, DAY);
    let lines = [job.log().len(), 0];
    let back = set_while_it_runs(&job, &wire, &clock, 0);
    let lines = [lines[0], job.log().len()];
    // The last run began a day later, so its times lie in the future.
    let mut command = job.crawl();
    clock.shown_to(&mut command);
    let last = Ran::of(&mut command);
    let took = begun.elapsed();

    // The process saw the clock change, and did not report it.
    let today = day_of(&back, "stopping:");
    let tomorrow = day_of(&ahead, "stopping:");
    assert!(today < tomorrow, "{today} {tomorrow}");
    assert_eq!(warnings(&ahead), [""; 0]);
    assert_eq!(warnings(&back), [""; 0]);
    let words = "the system's clock was set back by 86";
    assert!(
        matches!(warnings(&last)[..], [line] if line.contains(words)),
        "{last:?}"
    );
    for ran in [ahead, back] {
        ran.stopped();
    }
    last.good();

    assert_eq!(too_close(&wire.requests(), |_| PAUSE), [""; 0]);
    // A crawl that trusted the clock would wait for most of a day.
    assert!(took < Duration::from_secs(3_600), "{took:?}");
    // Each run uses the time at which it began, and the rows are in order.
    let log = job.log();
    let times: Vec<&str> = log
        .iter()
        .map(|row| row["time"].as_str().unwrap())
        .collect();
    for (run, day) in [
        (&times[..lines[0]], &today),
        (&times[lines[0]..lines[1]], &tomorrow),
        (&times[lines[1]..], &today),
    ] {
        assert!(run.is_sorted(), "{run:?}");
        assert!(
            run.iter().all(|time| time.starts_with(day.as_str())),
            "{day}: {run:?}"
        );
    }
    assert_eq!(&small::harvest(&job), &small::undisturbed(store).0);
}

#[test]
fn a_clock_that_is_set_with_sled() {
    a_clock_that_is_set_by_a_day_changes_no_pause(StoreKind::Sled);
}

#[test]
fn a_clock_that_is_set_with_fjall() {
    a_clock_that_is_set_by_a_day_changes_no_pause(StoreKind::Fjall);
}
