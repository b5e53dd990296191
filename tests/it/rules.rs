//! Rules during a crawl, over its archive and in a corpus; a site whose markup changes is reported
//! by name; an index page leads to its items.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use spoor::outputs::{self, Table};
use spoor_lab::{Behaviour, Fault, Lab};

use super::control_api::{socket, start};
use crate::support::process::GUARD;
use crate::support::texts::{some, topical, tree};
use crate::support::{Job, JobText, Live, Ran, Wire, spoor};

/// The number of pages of the site; the second half has other markup.
const PAGES: usize = 44;

const RULES: &str = r#"
[[rule]]
name = "news"
urls = ["site.test/item/*"]
markup = "article.news"
[[rule.field]]
name = "title"
css = "article.news h1"
required = true
[[rule.field]]
name = "date"
css = "article.news .date"
required = true
transform = ["date"]
"#;

/// A text that was broken into lines, on one line.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn item(n: usize) -> String {
    let text: String = (0..4).fold(String::new(), |mut text, at| {
        write!(text, "<p>{}</p>", some(topical(), n * 131 + at * 17, 2)).unwrap();
        text
    });
    let day = 1 + n % 28;
    if n < PAGES / 2 {
        format!(
            "<title>Item</title><article class=news><h1>Item {n}</h1><p class=date>{day}. Februar \
             2018</p>{text}</article>"
        )
    } else {
        format!("<title>Item</title><main><h2>Item {n}</h2><time>{day}.2.2018</time>{text}</main>")
    }
}

/// An index whose items come in the order of their numbers.
fn site() -> Lab {
    let links: String = (0..PAGES).fold(String::new(), |mut links, n| {
        write!(
            links,
            "<p><a href=\"/item/{n}\">{}</a></p>",
            some(topical(), n, 1)
        )
        .unwrap();
        links
    });
    let mut pages = vec![(
        "site.test/".to_owned(),
        format!("<title>Index</title>{links}"),
    )];
    pages.extend((0..PAGES).map(|n| (format!("site.test/item/{n}"), item(n))));
    let pages: Vec<_> = pages.iter().map(|(a, h)| (a.as_str(), h.clone())).collect();
    Lab::from_memory(tree(&pages))
}

fn job(wire: &Wire, more: &str) -> Job {
    let rest = format!(
        "[strategy]\nkind = \"unfocused\"\n[images]\nenabled = false\n[rules]\nfiles = \
         [\"rules.toml\"]\n[archive]\nenabled = true\n{more}"
    );
    let text = JobText {
        seeds: &["http://site.test/"],
        rest: &rest,
        ..JobText::default()
    };
    let job = Job::new(wire, &text);
    std::fs::write(job.file().with_file_name("rules.toml"), RULES).unwrap();
    job
}

fn shown(arguments: &[&str]) -> String {
    Ran::of(&mut spoor(arguments)).good()
}

/// The only event of a kind in the log of the run.
fn event_of(job: &Job, change: &str) -> String {
    let mut found = Vec::new();
    for path in job.files("logs") {
        let name = path.file_name().unwrap().to_string_lossy();
        if name.starts_with("spoor.") {
            let text = std::fs::read_to_string(job.folder().join("logs").join(&path)).unwrap();
            let events = text
                .lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap());
            found.extend(events.filter(|event| event.to_string().contains(change)));
        }
    }
    assert_eq!(found.len(), 1, "{found:#?}");
    found[0].to_string()
}

/// A host answers 30 pages and refuses the others.
#[test]
fn a_host_that_begins_to_refuse_us_is_reported_by_name() {
    let closed = PAGES - 30;
    let links: Vec<String> = (0..30)
        .map(|n| format!("/item/{n}"))
        .chain((0..closed).map(|n| format!("/item/closed-{n}")))
        .collect();
    let index: Vec<String> = links
        .iter()
        .enumerate()
        .map(|(n, link)| format!("<p><a href=\"{link}\">{}</a></p>", some(topical(), n, 1)))
        .collect();
    let mut pages = vec![("site.test/".to_owned(), index.concat())];
    pages.extend(
        (0..)
            .zip(&links)
            .map(|(n, link)| (format!("site.test{link}"), item(n % 20))),
    );
    let pages: Vec<_> = pages.iter().map(|(a, h)| (a.as_str(), h.clone())).collect();
    let refuse = Behaviour::of("site.test").under("/item/closed-");
    let site = Lab::from_memory(tree(&pages)).with_behaviour(refuse.fault(Fault::Status {
        code: 403,
        retry_after: None,
    }));
    let wire = Wire::serve(site);
    // A watched seed keeps the crawl running until everything was seen.
    let more = "[[seeds.watch]]\nurl = \"http://site.test/\"\nevery = \"30d\"\n[control]\nlisten = \
                \"127.0.0.1:0\"\n";
    let job = job(&wire, more);
    let (live, _) = start(&job);
    let deadline = Instant::now() + GUARD;
    let board = loop {
        let board = socket(&job, "GET /api/board", "").json();
        if board["rule_events"]
            .as_array()
            .is_some_and(|all| !all.is_empty())
        {
            break board;
        }
        assert!(Instant::now() < deadline, "no event came: {board}");
    };
    assert_eq!(board["rule_events"][0]["change"], "refused", "{board}");
    assert_eq!(board["rule_events"][0]["host"], "site.test", "{board}");
    assert_eq!(board["ruled"][0]["fallen"][0], "refused", "{board}");
    let metrics = socket(&job, "GET /metrics", "").body;
    assert!(
        metrics.contains("spoor_rule_events_total{against=\"pages\",change=\"refused\"} 1"),
        "{metrics}"
    );
    live.signal(Signal::SIGINT);
    live.ended().stopped();

    let says = "site.test: refuses us: ";
    let event = event_of(&job, "\"refused\"");
    assert!(event.contains(says), "{event}");
    let file = job.file();
    let file = file.to_str().unwrap();
    let report = shown(&["rules", "report", file]);
    assert!(in_one_line(&report).contains(says), "{report}");
    let is_wide = |line: &str| line.chars().count() > 80;
    assert!(!report.lines().any(is_wide), "{report}");
    let out = job.folder().with_file_name("report");
    shown(&["report", file, "--out", out.to_str().unwrap()]);
    let report = std::fs::read_to_string(out.join("report.html")).unwrap();
    let report = in_one_line(&report);
    assert!(report.contains(says), "{report}");
    // spoor does not try to get around it: each refused page was requested once.
    let mut asked: Vec<String> = wire.requests().iter().map(|r| r.address()).collect();
    asked.retain(|address| address.contains("closed-"));
    let count = asked.len();
    asked.sort();
    asked.dedup();
    assert_eq!(asked.len(), count, "{asked:?}");
}

#[test]
fn a_site_whose_markup_changes_halfway_is_reported_by_name() {
    let wire = Wire::serve(site());
    let job = job(&wire, "");
    job.run();

    // The log and the documents have the fields.
    let rows: Vec<Value> = job.log();
    let ruled: Vec<&Value> = rows.iter().filter(|row| !row["rules"].is_null()).collect();
    assert_eq!(ruled.len(), PAGES);
    let matched = ruled.iter().filter(|row| row["rules"]["rule"] == "news");
    assert_eq!(matched.count(), PAGES / 2);
    let third = ruled
        .iter()
        .find(|row| row["url"] == "http://site.test/item/3");
    let fields = &third.unwrap()["rules"]["fields"];
    assert_eq!(fields[0]["value"], "Item 3");
    assert_eq!(fields[0]["css_path"], "article.news h1");
    assert_eq!(fields[1]["value"], "2018-02-04");
    let documents = job.documents();
    let document = documents
        .iter()
        .find(|d| d.url.ends_with("/item/3"))
        .unwrap();
    assert_eq!(document.rule.as_deref(), Some("news"));
    assert_eq!(
        document.fields[1].value.as_ref().unwrap().to_string(),
        "2018-02-04"
    );

    // The change is in the log of the run, and in the reports.
    let event = event_of(&job, "unmatched");
    assert!(event.contains("site.test: a rule matches "), "{event}");
    let file = job.file();
    let file = file.to_str().unwrap();
    let report = shown(&["rules", "report", file]);
    assert!(report.contains("50 % of 44"), "{report}");
    assert!(report.contains("100 % of 44"), "{report}");
    let changed = "the site has changed; look at http://site.test/item/";
    assert!(in_one_line(&report).contains(changed), "{report}");

    let out = job.folder().with_file_name("report");
    shown(&["report", file, "--out", out.to_str().unwrap()]);
    let report = std::fs::read_to_string(out.join("report.html")).unwrap();
    let report = in_one_line(&report);
    let row = "<th scope=\"row\">site.test</th><td>50 % of 44</td><td>100 % of 44</td><td>0</td><td>unmatched</td>";
    assert!(report.contains(row), "{report}");
    assert!(report.contains("site.test: a rule matches "), "{report}");

    over_the_archive(&job);
}

/// Changes the dates of the rows of a log in place, because a resumed job must find the same number
/// of bytes.
fn dated(job: &Job, date_of: impl Fn(usize) -> Option<String>) {
    let path = job.folder().join("logs/crawl.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut changed = String::new();
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let (url, time) = (row["url"].as_str().unwrap(), row["time"].as_str().unwrap());
        let number = url.rsplit_once("/item/").and_then(|(_, n)| n.parse().ok());
        let line = match number.and_then(&date_of) {
            Some(date) => line.replacen(&time[..10], &date, 1),
            None => line.to_owned(),
        };
        writeln!(changed, "{line}").unwrap();
    }
    assert_eq!(changed.len(), text.len());
    std::fs::write(path, changed).unwrap();
}

/// Two weeks ago and last week every page had its date; this week every sixth page has none. A run
/// that knows those weeks only from the log reports that, and so does the report.
#[test]
fn a_slow_fall_is_reported_against_the_weeks_before() {
    let pages = 180;
    let page = |n: usize| {
        let date = if n >= 100 && n.is_multiple_of(6) {
            ""
        } else {
            "14. Februar 2018"
        };
        let text = some(topical(), n * 131, 4);
        format!("<article class=news><h1>Item {n}</h1><p class=date>{date}</p><p>{text}</article>")
    };
    let links: String = (0..pages).fold(String::new(), |mut links, n| {
        let text = some(topical(), n, 1);
        write!(links, "<p><a href=\"/item/{n}\">{text}</a></p>").unwrap();
        links
    });
    let mut site = vec![("site.test/".to_owned(), links)];
    site.extend((0..pages).map(|n| (format!("site.test/item/{n}"), page(n))));
    let site: Vec<_> = site.iter().map(|(a, h)| (a.as_str(), h.clone())).collect();
    let wire = Wire::serve(Lab::from_memory(tree(&site)));
    let job = job(&wire, "[limits]\ndocuments = 101\n");
    job.run();
    let today = jiff::Timestamp::now()
        .to_zoned(jiff::tz::TimeZone::UTC)
        .date();
    let ago = |days: i64| {
        today
            .checked_sub(jiff::ToSpan::days(days))
            .unwrap()
            .to_string()
    };
    dated(&job, |n| Some(ago(if n < 50 { 14 } else { 7 })));
    let text = std::fs::read_to_string(job.file()).unwrap();
    std::fs::write(
        job.file(),
        text.replace("documents = 101", "documents = 1000"),
    )
    .unwrap();
    job.run();
    let event = event_of(&job, "\"unfilled\"");
    assert!(
        event.contains("100 % on average in the 2 weeks before"),
        "{event}"
    );
    assert!(event.contains("\"against\":\"weeks\""), "{event}");

    let file = job.file();
    let report = shown(&["rules", "report", file.to_str().unwrap()]);
    let output = in_one_line(&report);
    assert!(output.contains("100 % on average in the 2 weeks before"));
    assert!(output.contains("fallen: news.date"), "{report}");
    let weeks = report
        .lines()
        .filter(|line| line.contains("% of ") && line.contains("news 50"));
    assert_eq!(weeks.count(), 2, "{report}");
    let out = job.folder().with_file_name("report");
    shown(&[
        "report",
        file.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
    ]);
    let report = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(report.contains(">week of</th>"), "{report}");

    // Without the earlier weeks nothing has fallen, because the host is new.
    dated(&job, |_| Some(ago(0)));
    let report = shown(&["rules", "report", file.to_str().unwrap()]);
    assert!(!report.contains("news.date\n"), "{report}");
}

/// Captures have dates, so archives give the same result, in any order of their records.
#[test]
fn archives_are_watched_week_by_week() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("rules.toml"), RULES).unwrap();
    let mut warc = String::new();
    let weeks = [
        ("2026-03-12", 99),
        ("2026-03-05", 40),
        ("2026-02-26", 99),
        ("2026-03-19", 30),
    ];
    for (date, good) in weeks {
        for n in 0..40 {
            let markup = if n < good {
                item(n % 20)
            } else {
                "<p>Moved".to_owned()
            };
            let (status, markup) = match n {
                39 if date == "2026-03-19" => ("403 Forbidden", String::new()),
                _ => ("200 OK", markup),
            };
            let http = format!("HTTP/1.1 {status}\r\nContent-Type: text/html\r\n\r\n{markup}");
            let length = http.len();
            write!(
                warc,
                "WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: \
                 <urn:uuid:00000000-0000-4000-8000-{n:012}>\r\nWARC-Date: \
                 {date}T10:00:00Z\r\nWARC-Target-URI: http://site.test/item/{n}\r\nContent-Type: \
                 application/http; msgtype=response\r\nContent-Length: \
                 {length}\r\n\r\n{http}\r\n\r\n"
            )
            .unwrap();
        }
    }
    std::fs::write(at("pages.warc"), warc).unwrap();
    let arguments = [
        "rules",
        "report",
        &at("rules.toml"),
        "--from",
        &at("pages.warc"),
    ];
    let report = shown(&arguments);
    let expected = "site.test: a rule matches 77 % of 39 pages in the week of 2026-03-16, 100 % on \
                average in the 3 weeks before: the site has changed; look at \
                http://site.test/item/38";
    assert!(in_one_line(&report).contains(expected), "{report}");
    let json: Value =
        serde_json::from_str(&shown(&[&arguments[..], &["--json"]].concat())).unwrap();
    let host = &json["hosts"][0];
    assert_eq!(host["fallen"][0], "unmatched", "{json}");
    let mondays: Vec<&str> = host["weeks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|week| week["week"].as_str().unwrap())
        .collect();
    assert_eq!(
        mondays,
        ["2026-02-23", "2026-03-02", "2026-03-09", "2026-03-16"]
    );
    assert_eq!(host["weeks"][3]["refused"], 1, "{json}");
    assert_eq!(json["events"].as_array().unwrap().len(), 1, "{json}");
}

/// The archive of the job gives the same fields: to `spoor rules`, to a replay and to a corpus.
fn over_the_archive(job: &Job) {
    let file = job.file();
    let rules = file.with_file_name("rules.toml");
    let (file, rules) = (file.to_str().unwrap(), rules.to_str().unwrap());
    let archive = job.folder().join("archive");
    let archive = archive.to_str().unwrap();
    let tested = shown(&["rules", "test", rules, "--from", archive, "--json"]);
    let lines: Vec<Value> = tested
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(lines.len(), PAGES);
    assert!(lines.iter().all(|line| line["value"].is_string()));

    shown(&["replay", file, "--from", archive]);
    let mut replayed: Vec<Value> = Vec::new();
    let folder = job.folder().with_file_name("job-replay");
    outputs::each_line(&folder, Table::Log, usize::MAX, |line| {
        replayed.push(serde_json::from_slice(line.bytes.unwrap()).unwrap());
    })
    .unwrap();
    let fields = |rows: &mut dyn Iterator<Item = Value>| {
        let mut all: Vec<String> = rows
            .filter(|row| !row["rules"].is_null())
            .map(|row| format!("{} {}", row["url"], row["rules"]))
            .collect();
        all.sort();
        all
    };
    let again = fields(&mut replayed.into_iter());
    assert_eq!(again, fields(&mut job.log().into_iter()));

    // The values that another selector would give, before it is written.
    let other = [
        "rules",
        "update",
        rules,
        "--rule",
        "news",
        "--field",
        "title",
        "--css",
        "article h1, title",
        "--from",
        archive,
    ];
    let before = std::fs::read_to_string(rules).unwrap();
    let output = shown(&other);
    assert!(output.contains("  - Item 3\n  + Item\n"), "{output}");
    assert!(
        output.contains("22 pages: 0 the same, 22 changed, 0 of them lost"),
        "{output}"
    );
    assert_eq!(std::fs::read_to_string(rules).unwrap(), before);
    shown(&[&other[..], &["--write"]].concat());
    let after = std::fs::read_to_string(rules).unwrap();
    assert_eq!(
        after,
        before.replace("article.news h1", "article h1, title")
    );
    std::fs::write(rules, &before).unwrap();

    let plan = job.file().with_file_name("plan.toml");
    std::fs::write(
        &plan,
        format!(
            "[source]\narchives = [{archive:?}]\n[[step]]\nkind = \"rules\"\nfiles = \
             [\"rules.toml\"]\nneed = \"required\"\n[output]\ncompression = \"none\"\n"
        ),
    )
    .unwrap();
    shown(&["corpus", "build", plan.to_str().unwrap()]);
    let lines = job
        .file()
        .with_file_name("plan")
        .join("documents/00000.jsonl");
    let lines = std::fs::read_to_string(lines).unwrap();
    assert_eq!(lines.lines().count(), PAGES / 2);
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(first["rule"], "news");
    let fields: Value = serde_json::from_str(first["fields"].as_str().unwrap()).unwrap();
    assert_eq!(fields[1]["name"], "date");
}

#[test]
fn add_proposes_check_runs_and_remove_removes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for n in [3, 4] {
        std::fs::write(at(&format!("{n}.html")), item(n)).unwrap();
    }
    let (file, a, b) = (at("rules/news.toml"), at("3.html"), at("4.html"));
    std::fs::create_dir(folder.path().join("rules")).unwrap();
    let arguments = [
        "rules",
        "add",
        &file,
        "--name",
        "news",
        "--page",
        &a,
        "--url",
        "http://site.test/item/3",
        "--page",
        &b,
        "--url",
        "http://site.test/item/4",
        "--field",
        "title=Item 3",
        "--field",
        "title=Item 4",
        "--field",
        "date=2018-02-04",
        "--field",
        "date=2018-02-05",
    ];
    let output = shown(&arguments);
    assert!(output.starts_with("title        h1\n"), "{output}");
    assert!(
        output.contains("\ndate         p.date  as a date\n"),
        "{output}"
    );
    let checked = shown(&["rules", "check", &file]);
    assert!(checked.contains("1 rule, 2 examples, 0 wrong"), "{checked}");
    // The page changes, so the example with it is wrong.
    let stored = folder.path().join("rules/pages/news-2.html");
    std::fs::write(stored, item(PAGES)).unwrap();
    let ran = Ran::of(&mut spoor(&["rules", "check", &file]));
    assert!(
        ran.out
            .contains("title: expected \"Item 4\", found nothing"),
        "{ran:?}"
    );
    assert!(ran.out.contains("1 wrong"), "{ran:?}");
    shown(&["rules", "remove", &file, "news"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), "");
}

#[test]
fn a_bad_rule_stops_a_crawl_with_file_line_and_key() {
    let wire = Wire::serve(site());
    let job = job(&wire, "");
    let rules = job.file().with_file_name("rules.toml");
    std::fs::write(
        &rules,
        RULES.replace("css = \"article.news h1\"", "css = \"h1[\""),
    )
    .unwrap();
    let message = Ran::of(&mut job.crawl()).refused();
    assert!(
        message.contains("rules.toml:8:7: rule.news.field.title.css: "),
        "{message}"
    );
    let checked = Ran::of(&mut spoor(&[
        "config",
        "check",
        job.file().to_str().unwrap(),
    ]));
    assert!(checked.refused().contains("rule.news.field.title.css"));
}

#[test]
fn rules_may_stand_in_the_job_file() {
    let wire = Wire::serve(site());
    let job = job(&wire, "[limits]\nfetches = 5\n");
    let text = std::fs::read_to_string(job.file()).unwrap();
    let own = text.replace("[rules]\nfiles = [\"rules.toml\"]\n", "") + RULES;
    assert!(!own.contains("rules.toml"));
    let bad = own.replace("css = \"article.news h1\"", "css = \"h1[\"");
    let line = 1 + bad.lines().position(|line| line.contains("h1[")).unwrap();
    std::fs::write(job.file(), bad).unwrap();
    let message = Ran::of(&mut job.crawl()).refused();
    let place = format!(".toml:{line}:7: rule.news.field.title.css: ");
    assert!(message.contains(&place), "{message}");

    std::fs::write(job.file(), own).unwrap();
    job.run();
    let rows: Vec<Value> = job.log();
    assert!(rows.iter().any(|row| row["rules"]["rule"] == "news"));
}

/// The lines of `sentences/fields.jsonl`, by the addresses of their pages.
fn beside_the_sentences(job: &Job) -> BTreeMap<String, Value> {
    let path = job.folder().join("sentences/fields.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        (line["url"].as_str().unwrap().to_owned(), line)
    });
    lines.collect()
}

#[test]
fn fields_lie_beside_the_sentences_and_leave_with_their_page() {
    let wire = Wire::serve(site());
    let job = job(&wire, "");
    job.run();
    let found = beside_the_sentences(&job);
    let log: Vec<Value> = job.log();
    let rows = log.iter().filter(|row| row["rules"]["rule"] == "news");
    let mut pages = 0;
    for row in rows {
        let line = &found[row["url"].as_str().unwrap()];
        assert_eq!(line["fields"], row["rules"]["fields"]);
        assert_eq!(
            (&line["rule"], &line["time"]),
            (&row["rules"]["rule"], &row["time"])
        );
        pages += 1;
    }
    assert_eq!(pages, found.len());
    assert!(pages >= PAGES / 2, "{pages}");

    let url = "http://site.test/item/3";
    let file = job.file();
    shown(&["takedown", file.to_str().unwrap(), "--url", url]);
    let left = beside_the_sentences(&job);
    assert!(!left.contains_key(url));
    assert_eq!(left.len(), pages - 1);

    // A job without rules has no such file.
    let text = std::fs::read_to_string(job.file()).unwrap();
    let other = text.replace("[rules]\nfiles = [\"rules.toml\"]\n", "");
    std::fs::write(job.file(), other).unwrap();
    std::fs::remove_dir_all(job.folder()).unwrap();
    job.run();
    assert!(job.folder().join("sentences").is_dir());
    assert!(!job.folder().join("sentences/fields.jsonl").exists());
}

/// A rule file that is changed while the job runs applies from the next page on.
#[test]
fn changed_rules_are_taken_while_the_job_runs() {
    // One page takes so long that the rules change in the middle of the crawl.
    let slow = Behaviour::of("site.test").under("/item/7").times(1);
    let wire = Wire::serve(site().with_behaviour(slow.latency(Duration::from_secs(3))));
    let job = job(&wire, "");
    let process = Live::start(&mut job.crawl());
    wire.wait_for("site.test/item/7");
    let rules = job.file().with_file_name("rules.toml");
    let file = job.file();
    let file = file.to_str().unwrap();
    std::fs::write(&rules, RULES.replace("\"title\"", "\"\"")).unwrap();
    let refused = Ran::of(&mut spoor(&["reload", file])).refused();
    assert!(refused.contains("rules.toml:7:"), "{refused}");
    std::fs::write(&rules, RULES.replace("\"news\"", "\"items\"")).unwrap();
    let output = shown(&["reload", file]);
    assert!(output.contains("rules = items (was news)"), "{output}");
    assert!(shown(&["reload", file]).contains("nothing has changed"));
    process.ended().good();
    let rows: Vec<Value> = job.log();
    for name in ["news", "items"] {
        assert!(rows.iter().any(|row| row["rules"]["rule"] == name));
    }
}

/// An index page is visited on its schedule, and the pages that it links to once, although no link
/// is good enough by its score.
#[test]
fn the_items_of_an_index_come_once() {
    let wire = Wire::serve(site());
    let more = "[[seeds.watch]]\nurl = \"http://site.test/\"\nevery = \"1ms\"\ndepth = 1\n\
                [limits]\ndocuments = 45\n";
    let job = job(&wire, more);
    let text = std::fs::read_to_string(job.file()).unwrap();
    let text = text.replace("kind = \"unfocused\"", "kind = \"link\"");
    let text = text.replace(
        "[limits]",
        "[buckets]\nboundaries = \"fixed\"\nhigh = 1e-9\nmedium = \
                             2e-9\nnormal = 3e-9\nrazor = 4e-9\n[limits]",
    );
    std::fs::write(job.file(), text).unwrap();
    job.run();
    let log = job.log();
    let pages: Vec<&str> = log
        .iter()
        .filter(|row| row["kind"] == "page")
        .map(|row| row["url"].as_str().unwrap())
        .collect();
    let items = pages.iter().filter(|url| url.contains("/item/"));
    assert_eq!(items.count(), PAGES);
    assert!(
        pages
            .iter()
            .filter(|url| **url == "http://site.test/")
            .count()
            >= 2
    );
}

/// Two rule files in a folder keep their examples apart, and a value that is part of an element is
/// found on other pages.
#[test]
fn a_part_of_an_element_is_found_and_no_other_example_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let page = |title: &str, day: &str| {
        format!(
            "<title>{title}</title><h1>{title}</h1>\
            <ul><li id=edited>This page was last edited on {day}, at 14:04 (UTC).</li></ul>"
        )
    };
    let pages = [("One", "17 February 2019"), ("Two", "2 May 2020")];
    for (title, day) in pages {
        let (file, rules) = (
            path(&format!("{title}.html")),
            path(&format!("{title}.toml")),
        );
        std::fs::write(&file, page(title, day)).unwrap();
        let (title, edited) = (format!("title={title}"), format!("edited={day}"));
        let url = format!("https://example.org/{day}");
        let common = ["rules", "add", &rules, "--name", "wiki", "--page", &file];
        let more = ["--url", &url, "--field", &title, "--field", &edited];
        let said = shown(&[&common[..], &more].concat());
        assert!(said.contains("edited       #edited  the part "), "{said}");
    }
    for (title, _) in pages {
        shown(&["rules", "check", &path(&format!("{title}.toml"))]);
    }
    let (rules, other) = (path("One.toml"), path("Two.html"));
    let on_other = [
        "rules",
        "test",
        &rules,
        "--file",
        &other,
        "--url",
        "https://example.org/x",
        "--json",
    ];
    let found = shown(&on_other);
    assert!(found.contains("2 May 2020"), "{found}");
}
