//! What a running or stopped job reports about itself, and how it accepts new rules while it runs.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use spoor_lab::{Behaviour, Lab, MemoryTree};

use crate::support::process::GUARD;
use crate::support::texts::{link, model, other, page, plain, some, topical, tree};
use crate::support::{Job, JobText, Live, Ran, Wire, spoor};

const SEED: &[&str] = &["http://a.test/"];

/// A seed that links to `n` pages on each of two hosts; the last one of a.test answers after ten
/// minutes.
fn fan(n: usize) -> Lab {
    let links: Vec<String> = ["a", "b"]
        .iter()
        .flat_map(|host| (0..n).map(move |i| format!("http://{host}.test/{i}")))
        .collect();
    let links: Vec<&str> = links.iter().map(String::as_str).collect();
    let mut pages: MemoryTree = tree(&[("a.test/", plain(&links, &[]))]);
    for host in ["a.test", "b.test"] {
        for i in 0..n {
            let path = format!("/{i}");
            // A link to itself makes its text differ from the others.
            let html = plain(&[&path], &[]);
            pages.insert_as(host, &path, "text/html", html);
        }
    }
    Lab::from_memory(pages)
}

fn stuck(path: &str) -> Behaviour {
    Behaviour::of("a.test")
        .under(path)
        .latency(Duration::from_secs(600))
}

fn command(job: &Job, name: &str, rest: &[&str]) -> Ran {
    let file = job.file();
    let arguments = [&[name, file.to_str().unwrap()], rest].concat();
    Ran::of(&mut spoor(&arguments))
}

fn explain(job: &Job, url: &str) -> String {
    command(job, "explain", &[url]).good()
}

fn asked(wire: &Wire) -> Vec<String> {
    wire.requests().iter().map(|r| r.address()).collect()
}

/// A fully crawled web with an address in every state.
fn with_every_state() -> (Wire, Job) {
    let far = some(other(), 3, 2);
    let anchor = some(topical(), 3, 1);
    let mut paragraphs = vec![some(topical(), 0, 4)];
    for href in [
        "/done",
        "/moved",
        "/private/open/x",
        "/private/x",
        "/l/l/l/l/l",
        "/paper.pdf",
        "/data",
        "http://b.test/far",
        "http://deep.test/1",
    ] {
        paragraphs.push(link(href, &anchor));
    }
    // The razor cuts off the links of a page that is off topic.
    let off = page("Off", "", &[far.clone(), link("/razored", &far)]);
    let rules = "# Ours\nUser-agent: *\nAllow: /private/open/\nDisallow: /private/\n";
    let mut web = tree(&[
        ("a.test/", page("A page", "", &paragraphs)),
        ("a.test/done", plain(&["/off"], &[])),
        ("a.test/off", off),
        ("a.test/private/open/x", plain(&[], &[])),
        ("a.test/new", plain(&[], &[])),
        ("a.test/robots.txt", rules.to_owned()),
        ("deep.test/1", plain(&["/2"], &[])),
        ("deep.test/2", plain(&["/3"], &[])),
    ]);
    web.redirect("http://a.test/moved", "/new");
    web.insert_as("a.test", "/data", "application/json", "{}".to_owned());
    let wire = Wire::serve(Lab::from_memory(web));
    let rest = "[images]\nenabled = false\n\
                [buckets]\nboundaries = \"fixed\"\nhigh = 50.0\nmedium = 100.0\nnormal = 150.0\n\
                razor = 200.0\n\
                [scope]\naccept = [\"host:a.test\", \"regex:^http://[bd]\"]\n\
                reject = [\"host:b.test\"]\nmax_hops = 2\n";
    let text = JobText {
        seeds: SEED,
        rest,
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    job.run();
    (wire, job)
}

#[test]
fn every_state_of_a_stopped_job_is_explained() {
    let (wire, job) = with_every_state();
    let said = |path: &str, parts: &[&str]| {
        let url = if path.starts_with('/') {
            format!("http://a.test{path}")
        } else {
            format!("http://{path}")
        };
        let text = explain(&job, &url);
        for part in parts {
            assert!(text.contains(part), "`{part}` is missing in\n{text}");
        }
        text
    };
    said(
        "/",
        &[
            "canonical  http://a.test/\n",
            "surt       test,a)/\n",
            "page done, number 1\n",
            "bucket seed, 0 hops",
            "via        a seed",
            "scope      within, `host:a.test` of scope.accept",
            "robots     allowed to spoor, no line covers it",
            "host       a.test: ",
            "clock      ready now",
        ],
    );
    let done = said(
        "/done",
        &["page done", "via        http://a.test/\n", "parts      "],
    );
    // The score follows from the parts by the formula.
    let line = |label: &str| {
        let line = done.lines().find_map(|l| l.strip_prefix(label));
        line.unwrap_or_else(|| panic!("no {label} in {done}"))
    };
    let rated: f64 = line("rated      ")
        .split(',')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let (formula, score) = line("score      ").split_once(" = ").unwrap();
    let score = score.trim_start_matches("below 0, so ");
    let score: f64 = score.split(';').next().unwrap().parse().unwrap();
    assert_eq!(rated, score, "{done}");
    assert!(formula.contains(" * (1 - 3 * "), "{done}");

    said("/moved", &["redirected to http://a.test/new"]);
    said(
        "/new",
        &[
            "page done",
            "via        http://a.test/moved\n           http://a.test/\n",
        ],
    );
    said(
        "/private/x",
        &[
            "page dropped: robots\ndecided    line 4: Disallow: /private/\n",
            "robots     forbidden to spoor, line 4: Disallow: /private/\n",
        ],
    );
    said(
        "/private/open/x",
        &[
            "page done",
            "robots     allowed to spoor, line 3: Allow: /private/open/",
        ],
    );
    said(
        "/l/l/l/l/l",
        &["page dropped: trap\ndecided    `l` more than 3 times in the path"],
    );
    said(
        "/paper.pdf",
        &["page dropped: scope\ndecided    `.pdf` is one of scope.reject_files"],
    );
    said("/data", &["page dropped: content_type"]);
    said(
        "/razored",
        &[
            "page dropped: razor\ndecided    its score ",
            "is above the cutoff (razor)",
            "bucket none",
        ],
    );
    said(
        "b.test/far",
        &["page dropped: scope\ndecided    rejected by `host:b.test` of scope.reject"],
    );
    said("deep.test/2", &["page done"]);
    said(
        "deep.test/3",
        &["page dropped: hops\ndecided    3 hops from a seed, scope.max_hops = 2"],
    );
    said(
        "c.test/",
        &[
            "state      unknown",
            "outside: no rule of scope.accept covers it",
        ],
    );

    // The same as data.
    let json = command(&job, "explain", &["http://a.test/private/x", "--json"]).good();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        json["known"][0]["record"]["state"]["Dropped"]["reason"],
        "robots"
    );
    assert_eq!(json["robots"]["allowed"], false);
    assert_eq!(json["running"], false);
    let before = wire.requests().len();
    job.run();
    assert_eq!(wire.requests().len(), before, "looking changes nothing");
}

#[test]
fn a_running_job_answers_and_continues() {
    let lab = fan(6).with_behaviour(stuck("/5").times(1));
    let wire = Wire::serve(lab);
    let text = JobText {
        seeds: SEED,
        rest: "[scope]\nreject = [\"regex:/3$\"]\n[images]\nenabled = false\n",
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    let refusal = command(&job, "reload", &[]);
    assert_eq!(refusal.status.code(), Some(3));
    let refusal = refusal.err;
    assert!(
        refusal.contains("no crawl of this job is running"),
        "{refusal}"
    );
    let mut process = Live::start(&mut job.crawl());
    wire.wait_for("a.test/5");
    let leased = explain(&job, "http://a.test/5");
    for part in [
        "page leased: it is being fetched now",
        "open       1 requests",
    ] {
        assert!(leased.contains(part), "{part} in {leased}");
    }
    assert!(!leased.contains("due "), "{leased}");
    let rejected = explain(&job, "http://b.test/3");
    assert!(rejected.contains("rejected by `regex:/3$`"), "{rejected}");
    assert!(explain(&job, "http://c.test/").contains("state      unknown"));
    let host = command(&job, "host", &["a.test"]).good();
    assert!(host.contains("open       1 requests"), "{host}");
    let json = command(&job, "host", &["a.test", "--json"]).good();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["running"], &json["open"]), (&true.into(), &1.into()));
    let socket = job.folder().join("control.sock");
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    // All other requests get an answer too.
    let raw = |line: &str, body: &str| {
        let mut stream = UnixStream::connect(&socket).unwrap();
        let length = body.len();
        write!(
            stream,
            "{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    for (line, body, status, part) in [
        (
            "GET /api/explain?url=http%3A%2F%2Fa.test%2F5",
            "",
            200,
            "\"leased\":true",
        ),
        (
            "GET /api/explain?url=nonsense",
            "",
            400,
            "is not written in full",
        ),
        ("GET /api/explain", "", 400, "give an address"),
        ("GET /api/host/a%20b", "", 400, "is not a host"),
        ("GET /elsewhere", "", 404, "there is nothing here"),
        ("GET /api/rules", "", 405, "this method is not allowed"),
        (
            "POST /api/rules",
            "[scope]\nmax_hop = 1",
            400,
            "the job file:2:1: scope.max_hop",
        ),
    ] {
        let answer = raw(line, body);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{line}: {answer}"
        );
        assert!(answer.contains(part), "{line}: {answer}");
    }

    // After a kill the socket remains, but no process answers on it; the job counts as stopped.
    assert!(process.kill());
    assert!(socket.exists());
    let queued = explain(&job, "http://a.test/5");
    assert!(queued.contains("page queued"), "{queued}");
    assert!(queued.contains("due        "), "{queued}");
    assert!(queued.contains("at its host\n"), "{queued}");
    let out = job.run();
    assert!(!socket.exists());
    let done = explain(&job, "http://a.test/5");
    assert!(done.contains("page done"), "{out}\n{done}");
}

#[test]
fn a_job_whose_path_is_too_long_for_a_socket_answers_too() {
    let wire = Wire::serve(fan(1).with_behaviour(stuck("/0").times(1)));
    let text = JobText {
        seeds: SEED,
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    let long = job.file().parent().unwrap().join("x".repeat(150));
    let file = std::fs::read_to_string(job.file()).unwrap();
    let file: String = file
        .lines()
        .map(|line| {
            if line.starts_with("folder = ") && !line.contains("models") {
                format!("folder = {long:?}\n")
            } else {
                format!("{line}\n")
            }
        })
        .collect();
    std::fs::write(job.file(), file).unwrap();
    let _process = Live::start(&mut job.crawl());
    wire.wait_for("a.test/0");
    assert!(long.join("job/control.sock").exists());
    assert!(explain(&job, "http://a.test/0").contains("page leased"));
}

#[test]
fn new_rules_are_taken_while_the_job_runs() {
    const PAGES: usize = 30;
    // One page takes so long that the rules change in the middle of the crawl.
    let slow = Behaviour::of("b.test").under("/2").times(1);
    let lab = fan(PAGES)
        .with_behaviour(stuck("/29").times(1))
        .with_behaviour(slow.latency(Duration::from_secs(3)));
    let wire = Wire::serve(lab);
    let with = |rest: &str| format!("[images]\nenabled = false\n[scope]\n{rest}");
    let write = |job: &Job, rest: &str| {
        let rest = with(rest);
        let text = JobText {
            seeds: SEED,
            rest: &rest,
            ..JobText::default()
        };
        job.write(&wire, &text);
    };
    let rest = with("");
    let text = JobText {
        seeds: SEED,
        rest: &rest,
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    let process = Live::start(&mut job.crawl());
    wire.wait_for("b.test/2");

    write(
        &job,
        "reject = [\"host:b.test\"]\n[limits]\ndocuments = 1000\n[text]\nsentences = false",
    );
    let out = command(&job, "reload", &[]).good();
    assert!(out.contains("checked against the changed [scope]"), "{out}");
    assert!(out.contains("limits.documents = 1000 (was none)"), "{out}");
    assert!(out.contains("at the next start: text.sentences"), "{out}");
    let before = asked(&wire);
    let of = |all: &[String], host: &str| all.iter().filter(|a| a.starts_with(host)).count();
    let in_flight = 1;
    assert!(
        of(&before, "b.test/") < PAGES / 2,
        "the crawl was too quick: {before:?}"
    );
    // The other host is fetched completely, except for the slow page.
    wire.wait(
        |n| {
            let paths = n
                .requests
                .iter()
                .filter(|r| r.host == "a.test")
                .map(|r| &r.path);
            paths.collect::<BTreeSet<_>>().len() == PAGES + 2
        },
        || false,
    );
    let after = asked(&wire);
    assert!(
        of(&after, "b.test/") <= of(&before, "b.test/") + in_flight,
        "{before:?}\n{after:?}"
    );
    let missing = (0..PAGES)
        .map(|i| format!("b.test/{i}"))
        .find(|a| !after.contains(a))
        .unwrap();
    let said = explain(&job, &format!("http://{missing}"));
    assert!(
        said.contains("decided    rejected by `host:b.test`"),
        "{said}"
    );
    let record = std::fs::read_to_string(job.folder().join("job.toml")).unwrap();
    assert!(record.contains("reject = [\"host:b.test\"]"), "{record}");
    let same = command(&job, "reload", &[]).good();
    assert!(same.contains("nothing has changed"), "{same}");

    // A wrong file changes nothing, and the error names its line.
    write(&job, "reject = [\"regex:(\"]");
    let error = command(&job, "reload", &[]).refused();
    assert!(
        error.contains("scope.reject") && error.contains("unclosed"),
        "{error}"
    );

    // Wider again, by a signal: dropped addresses come back.
    write(&job, "");
    process.signal(Signal::SIGHUP);
    wire.wait(
        |n| {
            let b = n
                .requests
                .iter()
                .filter(|r| r.host == "b.test")
                .map(|r| &r.path);
            b.collect::<BTreeSet<_>>().len() == PAGES + 1
        },
        || false,
    );
    let requests = asked(&wire);
    let distinct: BTreeSet<&String> = requests.iter().collect();
    assert_eq!(distinct.len(), requests.len(), "nothing is asked twice");
    drop(process);
    let check = Ran::of(&mut spoor(&[
        "store",
        "check",
        job.file().to_str().unwrap(),
    ]))
    .good();
    assert!(check.contains("no inconsistencies"), "{check}");
}

#[test]
fn a_stopped_job_takes_new_rules_at_its_next_start() {
    let wire = Wire::serve(fan(8));
    let with = |documents: u32, scope: &str| {
        format!("[images]\nenabled = false\n[limits]\ndocuments = {documents}\n[scope]\n{scope}")
    };
    let [first, second, third] = [
        with(5, ""),
        with(1000, "reject = [\"host:b.test\"]"),
        with(1000, "accept_types = [\"text/plain\"]"),
    ];
    let text = |rest| JobText {
        seeds: SEED,
        rest,
        ..JobText::default()
    };
    let job = Job::new(&wire, &text(&first));
    job.run();
    let before = asked(&wire);
    job.write(&wire, &text(&second));
    job.run();
    let after = asked(&wire);
    assert!(
        after[before.len()..]
            .iter()
            .all(|a| a.starts_with("a.test/"))
    );
    job.write(&wire, &text(&third));
    job.run();
    let rest: Vec<String> = asked(&wire)[after.len()..].to_vec();
    assert!(
        !rest.is_empty(),
        "{before:?} {after:?} {}",
        explain(&job, "http://b.test/7")
    );
    assert!(rest.iter().all(|a| a.starts_with("b.test/")), "{rest:?}");
    let all: BTreeSet<String> = asked(&wire).into_iter().collect();
    assert_eq!(
        all.len(),
        1 + 2 * 8 + 2,
        "the seed, the pages, two robots.txt"
    );
    // They came back, and their type was refused.
    let said = explain(&job, &format!("http://{}", rest.last().unwrap()));
    assert!(said.contains("page dropped: content_type"), "{said}");
}

#[test]
fn other_boundaries_and_keywords_are_taken_while_the_job_runs() {
    // A page off topic, whose links the razor excludes until it is raised.
    let far = some(other(), 3, 2);
    let mut off = vec![far.clone()];
    off.extend((0..12).map(|i| link(&format!("http://b.test/{i}"), &far)));
    let near = [
        some(topical(), 0, 4),
        link("/off", &some(topical(), 3, 1)),
        link("/9", "on"),
    ];
    let mut pages: MemoryTree = tree(&[
        ("a.test/", page("A page", "", &near)),
        ("a.test/off", page("Off", "", &off)),
        ("a.test/9", plain(&[], &[])),
    ]);
    for i in 0..12 {
        let path = format!("/{i}");
        let html = plain(&[&format!("/{i}/x")], &[]);
        pages.insert_as("b.test", &path, "text/html", html);
    }
    let wire = Wire::serve(Lab::from_memory(pages).with_behaviour(stuck("/9").times(1)));
    let with = |razor: u32| {
        format!(
            "[images]\nenabled = false\n[scope]\nreject_files = [\"x\"]\nmax_hops = 2\n\
             [buckets]\nboundaries = \"fixed\"\nhigh = 50.0\nmedium = 100.0\nnormal = 150.0\n\
             razor = {razor}.0\n"
        )
    };
    let (narrow, wide) = (with(200), with(1_000_000));
    let job = Job::new(&wire, &JobText::default());
    // A separate model, because the test changes its keywords.
    let (models, name) = model();
    let own = job.file().parent().unwrap().join("models");
    std::fs::create_dir_all(own.join(name)).unwrap();
    for file in std::fs::read_dir(models.join(name)).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), own.join(name).join(file.file_name())).unwrap();
    }
    let write = |rest: &str| {
        let text = JobText {
            seeds: SEED,
            rest,
            ..JobText::default()
        };
        job.write(&wire, &text);
        let file = std::fs::read_to_string(job.file()).unwrap();
        let file = file.replace(&format!("{models:?}"), &format!("{own:?}"));
        std::fs::write(job.file(), file).unwrap();
    };
    write(&narrow);
    let process = Live::start(&mut job.crawl());
    wire.wait_for("a.test/9");
    wire.wait_for("a.test/off");
    let settled = || explain(&job, "http://b.test/3").contains("page dropped: razor");
    let deadline = std::time::Instant::now() + GUARD;
    while !settled() {
        assert!(
            std::time::Instant::now() < deadline,
            "the page was not read"
        );
    }
    assert!(!asked(&wire).iter().any(|a| a.starts_with("b.test/")));

    write(&wide);
    let out = command(&job, "reload", &[]).good();
    assert!(
        out.contains("buckets.razor = 1000000.0 (was 200.0)\n"),
        "{out}"
    );
    assert!(out.contains("12 back from above it"), "{out}");
    assert!(!out.contains("next start"), "{out}");
    wire.wait(
        |n| {
            let b = n.requests.iter().filter(|r| r.host == "b.test");
            b.map(|r| &r.path).collect::<BTreeSet<_>>().len() == 12 + 1
        },
        || false,
    );
    let record = std::fs::read_to_string(job.folder().join("job.toml")).unwrap();
    assert!(record.contains("razor = 1000000.0"), "{record}");

    // The operator rewrites the keyword table.
    let table = own.join(name).join("keywords.tsv");
    std::fs::write(&table, "nonsense\tmuch\n").unwrap();
    let error = command(&job, "reload", &[]).refused();
    assert!(
        error.contains("nothing is changed") && error.contains("keywords.tsv, line 1"),
        "{error}"
    );
    std::fs::write(&table, "on\t2\n").unwrap();
    let out = command(&job, "reload", &[]).good();
    assert!(out.contains("keywords = on 2 (was "), "{out}");
    let said = explain(&job, "http://a.test/9");
    assert!(said.contains("anchor     on\n"), "{said}");
    assert!(said.contains("keyword 1"), "{said}");
    assert!(said.contains("below 0, so 1.000"), "{said}");
    let same = command(&job, "reload", &[]).good();
    assert!(same.contains("nothing has changed"), "{same}");

    // Single keys, recorded like every change.
    let set = ["set", "buckets.razor=500", "strategy.gamma_keyword=0.25"];
    let out = command(&job, "ctl", &set).good();
    assert!(
        out.contains("buckets.razor = 500.0 (was 1000000.0)\n"),
        "{out}"
    );
    let wrong = command(&job, "ctl", &["set", "buckets.razor=10"]).refused();
    assert!(wrong.contains("above buckets.normal"), "{wrong}");
    let said = explain(&job, "http://a.test/9");
    assert!(said.contains("0.25"), "{said}");
    let audit = std::fs::read_to_string(job.folder().join("logs/audit.jsonl")).unwrap();
    let rows = audit.lines().map(|l| serde_json::from_str(l).unwrap());
    let changes: Vec<String> = rows
        .map(|r: Value| format!("{} {}", r["key"].as_str().unwrap(), r["to"]))
        .collect();
    let expected = [
        "buckets.razor \"1000000.0\"",
        "keywords \"on 2\"",
        "buckets.razor \"500.0\"",
        "strategy.gamma_keyword \"0.25\"",
    ];
    assert_eq!(changes, expected);
    drop(process);
    let file = job.file();
    let check = Ran::of(&mut spoor(&["frontier", "check", file.to_str().unwrap()])).good();
    assert!(check.contains("no inconsistencies"), "{check}");
}
