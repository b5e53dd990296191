//! One crawl of several sites in trouble and of a healthy one: the log of the requests that their
//! server saw, with the pause that each request kept and the pause that was owed.
//!
//! The test computes the owed pauses from the server's side alone: from its answers, their times,
//! and the job's `[politeness]`. `--nocapture` shows the log.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant, SystemTime};

use spoor_lab::{Behaviour, Fault, Lab};

use crate::support::texts::{plain, tree};
use crate::support::wire::{GRAIN, Seen};
use crate::support::{Job, JobText, Wire};

const MIN_DELAY: Duration = Duration::from_millis(40);
const DELAY_FACTOR: u32 = 5;
const BACK_OFF: Duration = Duration::from_millis(60);
const LATENCY: Duration = Duration::from_millis(60);

const HOSTS: [&str; 5] = [
    "fine.test",
    "slow.test",
    "busy429.test",
    "busy503.test",
    "rules500.test",
];

/// A request and the time before it, since the end of the last answer of the same host.
struct Row<'a> {
    seen: &'a Seen,
    /// Its length, and the required length; `None` for the first request.
    pause: Option<(Duration, Duration)>,
}

/// The end of a `Retry-After` that is a date, as text and by the server's clock.
struct Date {
    text: String,
    instant: Instant,
}

impl Date {
    /// Far enough in the future for the crawl to begin before it. A date has whole seconds.
    fn soon() -> Self {
        let (instant, now) = (Instant::now(), SystemTime::now());
        let text = httpdate::fmt_http_date(now + Duration::from_secs(7));
        let date = httpdate::parse_http_date(&text).unwrap();
        Self {
            instant: instant + date.duration_since(now).unwrap(),
            text,
        }
    }
}

/// Five sites of four pages: each has its own trouble, twice.
fn web(date: &Date) -> Lab {
    let links = ["/1", "/2", "/3"];
    let mut pages = Vec::new();
    for host in HOSTS {
        pages.push((format!("{host}/"), plain(&links, &[])));
        pages.extend(links.map(|path| (format!("{host}{path}"), plain(&[], &[]))));
    }
    let pages: Vec<(&str, String)> = pages.iter().map(|(a, p)| (a.as_str(), p.clone())).collect();
    let fails_once = |host: &str, code, retry_after: Option<&str>| {
        let retry_after = retry_after.map(str::to_owned);
        let fault = Fault::Status { code, retry_after };
        Behaviour::of(host).under("/2").fault(fault).times(1)
    };
    let no_rules = Fault::Status {
        code: 500,
        retry_after: None,
    };
    Lab::from_memory(tree(&pages))
        .with_behaviour(Behaviour::of("slow.test").latency(LATENCY))
        .with_behaviour(fails_once("busy429.test", 429, Some("1")))
        .with_behaviour(fails_once("busy429.test", 429, None))
        .with_behaviour(fails_once("busy503.test", 503, Some(&date.text)))
        .with_behaviour(fails_once("busy503.test", 503, None))
        .with_behaviour(
            Behaviour::of("rules500.test")
                .under("/robots.txt")
                .fault(no_rules)
                .times(2),
        )
}

/// The pause that a host is owed after its last `answers`, the newest last.
fn owed(answers: &[&Seen], date: &Date) -> Duration {
    let last = answers.last().unwrap();
    let ended = last.ended.unwrap();
    // No host has rules in this lab. The 404 for them is an answer, not a failure.
    let is_failure = |seen: &Seen| !matches!(seen.status, Some(200 | 404));
    let in_a_row = answers.iter().rev().take_while(|seen| is_failure(seen));
    let failures = u32::try_from(in_a_row.count()).unwrap();
    let pause = match (last.status, failures) {
        (_, 0) => DELAY_FACTOR * (ended - last.began),
        (Some(429), 1) => Duration::from_secs(1),
        (Some(503), 1) => date.instant.saturating_duration_since(ended),
        (_, failures) => BACK_OFF * 2_u32.pow(failures - 1),
    };
    pause.max(MIN_DELAY)
}

fn rows<'a>(requests: &'a [Seen], date: &Date) -> Vec<Row<'a>> {
    let mut answers: BTreeMap<&str, Vec<&Seen>> = BTreeMap::new();
    let row = |seen: &'a Seen| {
        let answers = answers.entry(&seen.host).or_default();
        let pause = answers.last().map(|last| {
            // A request that began before the last answer has kept no pause at all.
            let kept = seen.began.saturating_duration_since(last.ended.unwrap());
            (kept, owed(answers, date))
        });
        answers.push(seen);
        Row { seen, pause }
    };
    requests.iter().map(row).collect()
}

fn table(rows: &[Row<'_>]) -> String {
    let zero = rows[0].seen.began;
    let mut table = "seconds  host           path         status   pause ms  owed ms\n".to_owned();
    for Row { seen, pause } in rows {
        let at = (seen.began - zero).as_secs_f64();
        let status = seen.status.unwrap_or_default();
        let millis = |pause: Duration| format!("{:.1}", pause.as_secs_f64() * 1_000.0);
        let (kept, owed) = pause.map_or_else(
            || ("-".to_owned(), "-".to_owned()),
            |(kept, owed)| (millis(kept), millis(owed)),
        );
        let (host, path) = (&seen.host, &seen.path);
        writeln!(
            table,
            "{at:7.3}  {host:13}  {path:11}  {status:6}  {kept:>9}  {owed:>7}"
        )
        .unwrap();
    }
    table
}

#[test]
fn sites_in_trouble_get_the_pauses_they_are_owed() {
    let date = Date::soon();
    let wire = Wire::serve(web(&date));
    let seeds = HOSTS.map(|host| format!("http://{host}/"));
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let politeness = format!(
        "min_delay = \"{MIN_DELAY:?}\"\ndelay_factor = {DELAY_FACTOR}.0\n\
         back_off = \"{BACK_OFF:?}\"\nretries = 3"
    );
    let text = JobText {
        seeds: &seeds,
        politeness: &politeness,
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    job.run();
    let requests = wire.requests();
    let rows = rows(&requests, &date);
    let table = table(&rows);
    println!("{table}");

    for row in &rows {
        if let Some((kept, owed)) = row.pause {
            let address = row.seen.address();
            assert!(
                kept + GRAIN >= owed,
                "{address}: {kept:?}, not {owed:?}\n{table}"
            );
        }
    }
    // Every trouble occurred, and its pause was longer than the usual one.
    let owed_after = |host: &str, status: u16| -> Vec<Duration> {
        let own: Vec<&Row<'_>> = rows.iter().filter(|r| r.seen.host == host).collect();
        let pairs = own.windows(2).filter(|w| w[0].seen.status == Some(status));
        pairs.map(|w| w[1].pause.unwrap().1).collect()
    };
    let seconds = Duration::from_secs;
    assert_eq!(owed_after("busy429.test", 429), [seconds(1), 2 * BACK_OFF]);
    let after_503 = owed_after("busy503.test", 503);
    assert!(after_503[0] > 2 * BACK_OFF, "{after_503:?}\n{table}");
    assert_eq!(after_503[1..], [2 * BACK_OFF]);
    let after_500 = owed_after("rules500.test", 500);
    assert_eq!(after_500, [BACK_OFF, 2 * BACK_OFF]);
    let slow = owed_after("slow.test", 200);
    assert!(slow.len() >= 3 && slow.iter().all(|owed| *owed >= DELAY_FACTOR * LATENCY));
    // Only the rules were requested while they were unavailable.
    let rules: Vec<&str> = requests
        .iter()
        .filter(|r| r.host == "rules500.test")
        .map(|r| r.path.as_str())
        .collect();
    assert_eq!(rules[..3], ["/robots.txt"; 3]);
    // Healthy sites did not wait for others' trouble, and nothing was lost to it.
    let last = |host: &str| requests.iter().rfind(|r| r.host == host).unwrap().began;
    assert!(last("fine.test") < last("busy429.test"), "{table}");
    assert!(last("busy429.test") < last("busy503.test"), "{table}");
    let endings = job.endings();
    for host in HOSTS {
        for path in ["/", "/1", "/2", "/3"] {
            let done = format!("page done http://{host}{path}");
            assert!(endings.contains(&done), "{done}: {endings:#?}");
        }
    }
}
