//! Revisits: which pages, how often, and under what conditions, as seen by a server that knows
//! versions.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::support::process::GUARD;
use crate::support::texts::{image, page, plain, some, topical};
use crate::support::{Job, JobText, Live, Ran, spoor};

/// How a page answers its n-th request, from 0.
type Page = fn(n: usize, headers: &HeaderMap) -> Response;

/// A request that was answered.
#[derive(Debug, Clone)]
struct Asked {
    address: String,
    condition: String,
    status: u16,
}

struct Shared {
    pages: BTreeMap<&'static str, Page>,
    asked: Mutex<Vec<Asked>>,
    more: Condvar,
}

/// A web whose pages have versions; it answers 404 for all other addresses.
struct Versions {
    addr: SocketAddr,
    shared: Arc<Shared>,
    _runtime: Runtime,
}

impl Versions {
    fn serve(pages: &[(&'static str, Page)]) -> Self {
        let shared = Arc::new(Shared {
            pages: pages.iter().copied().collect(),
            asked: Mutex::default(),
            more: Condvar::new(),
        });
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
        let listener = listener.unwrap();
        let addr = listener.local_addr().unwrap();
        let app = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&shared));
        runtime.spawn(async move { axum::serve(listener, app).await });
        Self {
            addr,
            shared,
            _runtime: runtime,
        }
    }

    fn asked(&self) -> MutexGuard<'_, Vec<Asked>> {
        self.shared.asked.lock().unwrap()
    }

    /// The requests for one address.
    fn of(&self, address: &str) -> Vec<Asked> {
        let all = self.asked();
        all.iter()
            .filter(|a| a.address == address)
            .cloned()
            .collect()
    }

    /// Waits until this address was answered `n` times.
    fn wait_for(&self, address: &str, n: usize) {
        let deadline = Instant::now() + GUARD;
        let mut asked = self.asked();
        while asked.iter().filter(|a| a.address == address).count() < n {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "not asked for {address} {n} times: {asked:#?}"
            );
            (asked, _) = self.shared.more.wait_timeout(asked, left).unwrap();
        }
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let headers = request.headers();
    let text = |name| {
        headers
            .get(name)
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default()
    };
    let address = format!("{}{}", text(header::HOST), request.uri());
    let condition = [text(header::IF_NONE_MATCH), text(header::IF_MODIFIED_SINCE)].join("|");
    let page = shared.pages.get(address.as_str()).copied();
    let earlier = shared.asked.lock().unwrap();
    let n = earlier.iter().filter(|a| a.address == address).count();
    drop(earlier);
    let response = match page {
        Some(page) => page(n, headers),
        None => StatusCode::NOT_FOUND.into_response(),
    };
    shared.asked.lock().unwrap().push(Asked {
        address,
        condition,
        status: response.status().as_u16(),
    });
    shared.more.notify_all();
    response
}

fn html(text: String) -> Response {
    ([(header::CONTENT_TYPE, "text/html")], text).into_response()
}

/// Always the same, with both validators.
fn same(_: usize, headers: &HeaderMap) -> Response {
    let known = headers.get(header::IF_NONE_MATCH);
    let version = [(header::ETAG, "W/\"v 1\""), (header::LAST_MODIFIED, DATE)];
    if known.is_some_and(|v| v == "W/\"v 1\"") {
        (StatusCode::NOT_MODIFIED, version).into_response()
    } else {
        (version, html(plain(&[], &[]))).into_response()
    }
}

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// The sentence on the changing page at its n-th visit.
fn news(n: usize) -> String {
    let word = "abcdefghijklmnopqrstuvwxyz"[n % 26..=n % 26].repeat(n / 26 + 4);
    format!("The {word} keeper of the lighthouse wrote {word} into the log book.")
}

/// Another text at each visit, with an image whose words do not change.
fn changing(n: usize, _: &HeaderMap) -> Response {
    let picture = image("/gone.png", &some(topical(), 2, 1));
    html(page("News", "", &[some(topical(), 0, 3), news(n), picture]))
}

const CLOCK: &str = "The clock on the wall of the lighthouse is wound every evening.";

/// The same text at each visit, with other markup and without a version.
fn ticking(n: usize, _: &HeaderMap) -> Response {
    let clock = format!("<!-- {n} --><b id=\"t{n}\">{n}:{n:02}</b>");
    html(page("Clock", "", &[CLOCK.to_owned(), clock]))
}

const LENS: &str = "The lens of the old lighthouse is polished every morning.";

/// The page of the lens with a header.
fn lens(name: &'static str, value: &'static str, head: &str) -> Response {
    let text = page("Lens", head, &[LENS.to_owned()]);
    ([(name, value)], html(text)).into_response()
}

/// The same text at each visit; its use is forbidden at the second one.
fn forbidden_once(n: usize, _: &HeaderMap) -> Response {
    lens("x-robots-tag", if n == 1 { "noai" } else { "all" }, "")
}

/// The same text; at the second visit no search may find it.
fn unindexed_once(n: usize, _: &HeaderMap) -> Response {
    let search = if n == 1 { "search=no" } else { "search=yes" };
    lens("content-signal", search, "")
}

/// The same text, but for a redirect at the second visit.
fn away_once(n: usize, _: &HeaderMap) -> Response {
    if n == 1 {
        return (StatusCode::FOUND, [(header::LOCATION, "/elsewhere")]).into_response();
    }
    lens("x-robots-tag", "all", "")
}

/// The same text; the answer reserves what the page itself permits.
fn lifting(_: usize, headers: &HeaderMap) -> Response {
    let reserved = ("tdm-reservation", "1");
    if headers.contains_key(header::IF_NONE_MATCH) {
        return (StatusCode::NOT_MODIFIED, [reserved]).into_response();
    }
    let meta = "<meta name=tdm-reservation content=0>";
    (
        [(header::ETAG, "\"1\"")],
        lens(reserved.0, reserved.1, meta),
    )
        .into_response()
}

/// The same text; the first status 304 forbids its use, and what follows does not.
fn forbidden_by_304(n: usize, headers: &HeaderMap) -> Response {
    let tag = [(header::ETAG, "\"1\"")];
    if headers.contains_key(header::IF_NONE_MATCH) {
        let stated = if n == 1 { "noai" } else { "all" };
        return (StatusCode::NOT_MODIFIED, tag, [("x-robots-tag", stated)]).into_response();
    }
    (tag, lens("x-robots-tag", "all", "")).into_response()
}

fn word(row: &Value, key: &str) -> String {
    match &row[key] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The rows of the log for one address, as `outcome changed status`.
fn endings(job: &Job, url: &str) -> Vec<String> {
    let log = job.log();
    let rows = log.iter().filter(|row| row["url"] == url);
    rows.map(|row| {
        ["outcome", "changed", "status"]
            .map(|key| word(row, key))
            .join(" ")
    })
    .collect()
}

fn stop(live: Live) -> String {
    live.signal(Signal::SIGTERM);
    live.ended().stopped()
}

const QUICK: &str = "[recrawl]\nafter = \"60ms\"\nmin = \"30ms\"\nmax = \"240ms\"\n";

#[test]
fn a_text_that_is_permitted_again_is_kept_again_and_no_other_twice() {
    let pages: [(&str, Page, usize); 5] = [
        ("a.test/lens", forbidden_once, 2),
        ("b.test/lens", away_once, 1),
        ("c.test/lens", lifting, 1),
        ("d.test/lens", forbidden_by_304, 2),
        ("e.test/lens", unindexed_once, 1),
    ];
    let web = Versions::serve(&pages.map(|(address, page, _)| (address, page)));
    let seeds = pages.map(|(address, ..)| format!("http://{address}"));
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    for texts in [
        "[text]\nsentences = true\ndocuments = false\n",
        "[text]\nsentences = true\ndocuments = true\n",
    ] {
        web.asked().clear();
        let watched = "[[seeds.watch]]\nurl = \"http://b.test/lens\"\nevery = \"50ms\"\n";
        let text = JobText {
            seeds: &seeds,
            rest: &format!("{texts}{QUICK}{watched}"),
            ..JobText::default()
        };
        let job = Job::at(web.addr, &text);
        let live = Live::start(&mut job.crawl());
        for (address, ..) in pages {
            web.wait_for(address, 5);
        }
        stop(live);
        let found = spoor::outputs::page_texts(&job.folder()).unwrap();
        let found = found.pages.iter().map(|page| page.url.to_string());
        let mut found: Vec<_> = found.collect();
        found.sort();
        assert_eq!(found, seeds);
        // A text that was withdrawn is not used, so it is written again.
        let line = LENS.to_lowercase().replace('.', "");
        let written = job.sentences().iter().filter(|s| **s == line).count();
        assert_eq!(
            written,
            pages.iter().map(|(.., times)| times).sum::<usize>()
        );
        if texts.contains("documents = false") {
            continue;
        }
        let documents = job.documents();
        for ((_, _, times), seed) in pages.iter().zip(&seeds) {
            let of_page = documents.iter().filter(|d| d.url == *seed).count();
            // The document is what an index reads.
            let times = times + usize::from(seed.contains("e.test"));
            assert_eq!(of_page, times, "{seed}");
        }
        let file = job.file();
        let file = file.to_str().unwrap();
        // Each page once, as it was last.
        let printed = Ran::of(&mut spoor(&["print", file])).good();
        assert_eq!(printed.lines().count(), seeds.len());
        Ran::of(&mut spoor(&["index", file])).good();
        let found = Ran::of(&mut spoor(&["search", file, "--json", "polished"])).good();
        let found = seeds.iter().filter(|seed| found.contains(**seed));
        assert_eq!(found.count(), seeds.len());
    }
}

#[test]
fn pages_are_visited_by_how_often_they_change() {
    let web = Versions::serve(&[
        ("a.test/same", same),
        ("a.test/news", changing),
        ("a.test/clock", ticking),
    ]);
    let text = JobText {
        seeds: &[
            "http://a.test/same",
            "http://a.test/news",
            "http://a.test/clock",
        ],
        rest: QUICK,
        ..JobText::default()
    };
    let job = Job::at(web.addr, &text);
    let live = Live::start(&mut job.crawl());
    web.wait_for("a.test/news", 30);
    web.wait_for("a.test/same", 6);
    web.wait_for("a.test/clock", 6);
    let out = stop(live);
    assert!(out.contains("pages     3 done of "), "{out}");
    assert!(out.contains("watched   "), "{out}");

    // The first request has no condition, every later one both, as received.
    let seen = web.of("a.test/same");
    let conditions: Vec<&str> = seen.iter().map(|a| a.condition.as_str()).collect();
    let known = format!("W/\"v 1\"|{DATE}");
    assert_eq!(conditions[0], "|");
    assert!(
        conditions[1..].iter().all(|c| *c == known),
        "{conditions:?}"
    );
    assert!(seen[1..].iter().all(|a| a.status == 304));
    let rows = endings(&job, "http://a.test/same");
    assert_eq!(rows[0], "done null 200");
    assert!(
        rows[1..].iter().all(|r| r == "unchanged false 304"),
        "{rows:?}"
    );

    // A changed clock or markup is not a change, and a page that changes each time is visited more
    // often than one that never does.
    let rows = endings(&job, "http://a.test/clock");
    assert_eq!(rows[0], "done null 200");
    assert!(rows[1..].iter().all(|r| r == "done false 200"), "{rows:?}");
    let rows = endings(&job, "http://a.test/news");
    assert!(rows[1..].iter().all(|r| r == "done true 200"), "{rows:?}");
    assert!(web.of("a.test/news").iter().all(|a| a.condition == "|"));
    assert!(rows.len() > endings(&job, "http://a.test/clock").len());

    // Sentences once for every text, and the tasks of links and images once in total.
    let sentences = job.sentences();
    for n in 0..rows.len() {
        let line = news(n).to_lowercase().replace('.', "");
        let times = sentences.iter().filter(|s| **s == line).count();
        assert_eq!(times, 1, "{line}");
    }
    let line = CLOCK.to_lowercase().replace('.', "");
    assert_eq!(sentences.iter().filter(|s| **s == line).count(), 1);
    assert_eq!(web.of("a.test/gone.png").len(), 1);

    // Every row of a page has the number of its first visit.
    let log = job.log();
    let ids = log.iter().filter(|r| r["url"] == "http://a.test/news");
    let ids: std::collections::BTreeSet<String> = ids.map(|r| word(r, "id")).collect();
    assert_eq!(ids.len(), 1);

    let explained = spoor(&[
        "explain",
        job.file().to_str().unwrap(),
        "http://a.test/same",
    ]);
    let explained = Live::start(&mut { explained }).ended().good();
    let visits = format!(
        "visited    {} times, changed 0 times, last 20",
        rows_of(&job)
    );
    assert!(explained.contains(&visits), "{explained}");
    assert!(
        explained.contains("after the last, by [recrawl]"),
        "{explained}"
    );
    assert!(
        explained.contains("state      page done, number "),
        "{explained}"
    );
}

fn rows_of(job: &Job) -> usize {
    endings(job, "http://a.test/same").len()
}

#[test]
fn a_schedule_is_kept_and_the_rest_is_fetched_once() {
    fn links(n: usize, headers: &HeaderMap) -> Response {
        match n {
            // One visit fails, but the page is not lost.
            2 => StatusCode::GONE.into_response(),
            _ => changing(n, headers),
        }
    }
    fn moved(_: usize, _: &HeaderMap) -> Response {
        (StatusCode::FOUND, [(header::LOCATION, "/new")]).into_response()
    }
    fn once(_: usize, _: &HeaderMap) -> Response {
        html(plain(&[], &[]))
    }
    let web = Versions::serve(&[
        ("a.test/hourly", links),
        ("a.test/once", once),
        ("b.test/old", moved),
        ("b.test/new", same),
    ]);
    let text = JobText {
        seeds: &["http://a.test/once"],
        rest: "[[seeds.watch]]\nurl = \"http://a.test/hourly\"\nevery = \"50ms\"\n\
               [[seeds.watch]]\nurl = \"http://b.test/old\"\nevery = \"70ms\"\n",
        ..JobText::default()
    };
    let job = Job::at(web.addr, &text);
    let live = Live::start(&mut job.crawl());
    web.wait_for("a.test/hourly", 6);
    web.wait_for("b.test/new", 4);
    stop(live);
    assert_eq!(web.of("a.test/once").len(), 1);
    let statuses: Vec<u16> = web.of("a.test/hourly").iter().map(|a| a.status).collect();
    assert_eq!(statuses[..6], [200, 200, 410, 200, 200, 200]);
    // The target of the redirect is visited with it, under its own version.
    let statuses: Vec<u16> = web.of("b.test/new").iter().map(|a| a.status).collect();
    assert_eq!(statuses[..4], [200, 304, 304, 304]);

    // Without the schedules nothing is left to do, and the job ends by itself.
    let before = web.asked().len();
    job.write_at(web.addr, &JobText { rest: "", ..text });
    let out = job.run();
    assert!(out.contains("nothing is left to fetch"), "{out}");
    let after = web.asked().len();
    // At most the requests in flight when it was stopped, and the rules before them.
    assert!(after - before <= 4, "{before} {after}");
}

#[test]
fn dates_survive_a_kill_and_time_off() {
    let web = Versions::serve(&[("a.test/same", same), ("a.test/news", changing)]);
    let text = JobText {
        seeds: &["http://a.test/same", "http://a.test/news"],
        politeness: "min_delay = \"20ms\"\ndelay_factor = 0\nretries = 0\nback_off = \"1ms\"",
        // The store that loses nothing in a kill.
        rest: &format!("{QUICK}[frontier]\nstore = \"fjall\"\n"),
        ..JobText::default()
    };
    let job = Job::at(web.addr, &text);
    for round in 1..=3 {
        let mut live = Live::start(&mut job.crawl());
        web.wait_for("a.test/news", 8 * round);
        web.wait_for("a.test/same", 3 * round);
        assert!(live.kill());
    }
    let live = Live::start(&mut job.crawl());
    let before = web.of("a.test/news").len();
    web.wait_for("a.test/news", before + 5);
    let out = stop(live);
    assert!(out.contains("pages     2 done of "), "{out}");
    // A kill does not lose a version.
    let unconditional = web
        .of("a.test/same")
        .iter()
        .filter(|a| a.condition == "|")
        .count();
    assert_eq!(unconditional, 1);
    let check = spoor(&["store", "check", job.file().to_str().unwrap()]);
    Live::start(&mut { check }).ended().good();
    // Each text that the log calls new was written, exactly as often as the log says.
    let log = job.log();
    let news_rows = log.iter().filter(|r| r["url"] == "http://a.test/news");
    let written = news_rows
        .filter(|r| r["outcome"] == "done" && r["changed"] != false)
        .count();
    let lines = job.sentences();
    let kept = lines
        .iter()
        .filter(|s| s.contains("keeper of the lighthouse wrote"))
        .count();
    assert_eq!(kept, written);
}

#[test]
fn a_page_outlives_an_hour_of_downtime() {
    fn shaky(n: usize, headers: &HeaderMap) -> Response {
        match n {
            1..=4 => (
                StatusCode::SERVICE_UNAVAILABLE,
                [(header::RETRY_AFTER, "0")],
            )
                .into_response(),
            _ => same(n, headers),
        }
    }
    fn gone(n: usize, headers: &HeaderMap) -> Response {
        match n {
            0 | 1 => changing(n, headers),
            _ => StatusCode::NOT_FOUND.into_response(),
        }
    }
    let web = Versions::serve(&[("a.test/shaky", shaky), ("b.test/gone", gone)]);
    let text = JobText {
        seeds: &["http://a.test/shaky", "http://b.test/gone"],
        politeness: "min_delay = 0\ndelay_factor = 0\nretries = 1\nback_off = \"1ms\"\nmax_back_off = \"5ms\"",
        rest: QUICK,
        ..JobText::default()
    };
    let job = Job::at(web.addr, &text);
    let live = Live::start(&mut job.crawl());
    web.wait_for("a.test/shaky", 8);
    web.wait_for("b.test/gone", 3);
    let out = stop(live);
    assert!(out.contains("dropped   client_error 1, gone 1"), "{out}");
    assert!(out.contains("pages     2 done of "), "{out}");
    let rows = endings(&job, "http://a.test/shaky");
    let expected = [
        "done null 200",
        "retrying null 503",
        "postponed null 503",
        "retrying null 503",
        "postponed null 503",
        "unchanged false 304",
        "unchanged false 304",
    ];
    assert_eq!(rows[..7], expected);
    let rows = endings(&job, "http://b.test/gone");
    assert_eq!(rows, ["done null 200", "done true 200", "dropped null 404"]);
    assert_eq!(web.of("b.test/gone").len(), 3, "gone is gone");
}

#[test]
fn limits_end_a_crawl_that_would_continue() {
    let web = Versions::serve(&[("a.test/same", same)]);
    let text = JobText {
        seeds: &["http://a.test/same"],
        rest: "[recrawl]\nafter = \"10ms\"\nmin = \"10ms\"\nmax = \"20ms\"\n[limits]\nfetches = 5\n",
        ..JobText::default()
    };
    let job = Job::at(web.addr, &text);
    let out = job.run();
    assert!(out.contains("limits.fetches is reached"), "{out}");
    assert_eq!(web.of("a.test/same").len(), 5);
    // One page is one document: the limit is reached before any revisit, and the crawl does not
    // wait for one.
    let other = Job::at(
        web.addr,
        &JobText {
            rest: "[recrawl]\nafter = \"10h\"\n[limits]\ndocuments = 1\n",
            ..text
        },
    );
    let out = other.run();
    assert!(out.contains("limits.documents is reached"), "{out}");
    assert_eq!(web.of("a.test/same").len(), 6);
}

/// The same words at each visit, which may not be used from the third on. The image `new.png` is
/// there from the second on.
fn souring(n: usize, _: &HeaderMap) -> Response {
    let mut body = vec![
        some(topical(), 0, 3),
        image("/kept.png", &some(topical(), 2, 1)),
    ];
    if n > 0 {
        body.push(image("/new.png", &some(topical(), 4, 1)));
    }
    let mut answer = html(page("Terms", "", &body));
    if n > 1 {
        let tag = header::HeaderValue::from_static("noai");
        answer.headers_mut().insert("x-robots-tag", tag);
    }
    answer
}

fn picture(_: usize, _: &HeaderMap) -> Response {
    let drawn = spoor_lab::picture::draw("kept.png", 200, 200).unwrap();
    ([(header::CONTENT_TYPE, "image/png")], drawn.bytes).into_response()
}

#[test]
fn changed_terms_reach_kept_samples() {
    let web = Versions::serve(&[("a.test/", souring), ("a.test/kept.png", picture)]);
    for (obey, rest) in [(true, ""), (false, "obey = []\n")] {
        let rest = format!("{QUICK}[consent]\ntdmrep = false\n{rest}");
        let text = JobText {
            seeds: &["http://a.test/"],
            rest: &rest,
            ..JobText::default()
        };
        let job = Job::at(web.addr, &text);
        web.asked().clear();
        let live = Live::start(&mut job.crawl());
        web.wait_for("a.test/kept.png", 1);
        // The request for the fifth visit begins when the fourth is settled.
        web.wait_for("a.test/", 5);
        stop(live);
        let rows = endings(&job, "http://a.test/");
        assert!(rows[1..].iter().all(|r| r == "done false 200"), "{rows:?}");
        let [sidecar] = &job.sidecars()[..] else {
            panic!("one image is there: {:?}", job.endings());
        };
        let contexts = sidecar["contexts"].as_array().unwrap();
        assert_eq!(contexts.len(), 1, "{contexts:?}");
        assert_eq!(contexts[0]["terms"]["noai"], true, "obeyed: {obey}");
        let lines = job.sentences();
        let distinct: std::collections::BTreeSet<_> = lines.iter().collect();
        assert_eq!(lines.len(), distinct.len(), "kept twice");
    }
}
