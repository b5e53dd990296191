//! The control API over real sockets: every route acts on a running crawl and answers as the guide
//! says, and only authorised clients get in.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use spoor_lab::{Behaviour, Lab};

use crate::support::process::GUARD;
use crate::support::texts::{plain, tree};
use crate::support::{Job, JobText, Live, Ran, Wire, spoor};

pub const TOKEN: &str = "a-token-of-the-tests-0123456789";

/// A host with so many pages that a crawl with pauses of a second outlasts the test; its page `/0`
/// is slow.
fn web() -> Wire {
    let links: Vec<String> = (0..600).map(|i| format!("/{i}")).collect();
    let links: Vec<&str> = links.iter().map(String::as_str).collect();
    let mut pages = tree(&[
        ("a.test/", plain(&links, &[])),
        ("c.test/", plain(&[], &[])),
    ]);
    for path in &links {
        pages.insert_as("a.test", path, "text/html", plain(&[path], &[]));
    }
    let slow = Behaviour::of("a.test").under("/0").times(1);
    Wire::serve(Lab::from_memory(pages).with_behaviour(slow.latency(Duration::from_secs(2))))
}

fn job(wire: &Wire, control: &str) -> Job {
    let rest = format!(
        "[images]\nenabled = false\n[scope]\nreject = [\"host:b.test\"]\n[control]\n{control}\n"
    );
    let text = JobText {
        seeds: &["http://a.test/"],
        politeness: "min_delay = 1\ndelay_factor = 0\nretries = 0",
        rest: &rest,
        ..JobText::default()
    };
    Job::new(wire, &text)
}

/// A running crawl, and its TCP address.
pub fn start(job: &Job) -> (Live, String) {
    let file = job.file();
    let mut live = Live::start(&mut spoor(&["-vv", "crawl", file.to_str().unwrap()]));
    let address = live.says_after("dashboard on http://");
    let address = address.trim_end().trim_end_matches('/').to_owned();
    // The page exists before the crawl starts, and a killed crawl may have left its socket.
    let deadline = Instant::now() + GUARD;
    while !answers(job) {
        assert!(Instant::now() < deadline, "the crawl never began");
    }
    (live, address)
}

fn answers(job: &Job) -> bool {
    match UnixStream::connect(job.folder().join("control.sock")) {
        Ok(stream) => {
            let status = talk(stream, "GET /api/status", "Host: x\r\n", "");
            status.json()["state"] != "starting"
        }
        Err(_) => false,
    }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Asserts that the request was refused with this status; the answer must say what to do.
    pub fn refused(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        let problem = self.json();
        assert!(!problem["advice"].as_str().unwrap().is_empty());
        problem["error"].as_str().unwrap().to_owned()
    }
}

fn talk(mut stream: impl Read + Write, line: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    write!(
        stream,
        "{line} HTTP/1.1\r\n{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_ascii_lowercase(),
        body: body.to_owned(),
    }
}

pub fn socket(job: &Job, line: &str, body: &str) -> Answer {
    let stream = UnixStream::connect(job.folder().join("control.sock")).unwrap();
    talk(stream, line, "Host: x\r\n", body)
}

pub fn tcp(address: &str, line: &str, headers: &str, body: &str) -> Answer {
    let headers = if headers.contains("Host: ") {
        headers.to_owned()
    } else {
        format!("Host: {address}\r\n{headers}")
    };
    talk(TcpStream::connect(address).unwrap(), line, &headers, body)
}

fn ctl(job: &Job, rest: &[&str]) -> Ran {
    let file = job.file();
    Ran::of(&mut spoor(
        &[&["ctl", file.to_str().unwrap()], rest].concat(),
    ))
}

pub fn status(job: &Job) -> Value {
    socket(job, "GET /api/status", "").json()
}

fn audit(job: &Job) -> Vec<Value> {
    let text = std::fs::read_to_string(job.folder().join("logs/audit.jsonl")).unwrap();
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

#[test]
fn a_crawl_is_paused_given_seeds_changed_and_resumed() {
    let wire = web();
    let job = job(&wire, "listen = \"127.0.0.1:0\"");
    let ran = ctl(&job, &["status"]);
    assert_eq!(ran.status.code(), Some(3), "{ran:?}");
    let (mut live, address) = start(&job);
    wire.wait_for("a.test/0");
    let running = status(&job);
    assert_eq!(
        (&running["state"], &running["job"]),
        (&"running".into(), &"job".into())
    );
    assert_eq!(running["in_flight"], 1);
    assert!(
        running["queued"]["normal"].as_u64().unwrap() > 500
            || running["queued"]["high"].as_u64().unwrap() > 0,
        "{running}"
    );

    // A program pauses the crawl over TCP.
    let paused = tcp(&address, "POST /api/pause", "", "").json();
    assert_eq!(paused["changed"], true);
    assert_eq!(socket(&job, "POST /api/pause", "").json()["changed"], false);
    assert_eq!(status(&job)["state"], "paused");
    let urls = json!({"urls": ["http://c.test/", "http://a.test/", "http://b.test/x", "nonsense"]});
    let seeds = socket(&job, "POST /api/seeds", &urls.to_string()).json();
    let results: Vec<&str> = seeds
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["result"].as_str().unwrap())
        .collect();
    assert_eq!(results, ["added", "known", "refused", "refused"], "{seeds}");
    assert!(
        seeds[2]["reason"].as_str().unwrap().contains("host:b.test"),
        "{seeds}"
    );
    // Each question is a round of the loop, in which the new host could be fetched.
    for _ in 0..5 {
        socket(&job, "POST /api/checkpoint", "").json();
        assert_eq!(status(&job)["queued"]["seed"], 1);
    }
    let asked = |host: &str| wire.requests().iter().filter(|r| r.host == host).count();
    assert_eq!(asked("c.test"), 0);

    // It stays paused after a restart.
    assert!(live.kill());
    let (live, address) = start(&job);
    assert_eq!(status(&job)["state"], "paused");
    assert_eq!(asked("c.test"), 0);
    let out = ctl(&job, &["resume"]).good();
    assert_eq!(out, "running\n");
    wire.wait_for("c.test/");
    assert_eq!(status(&job)["state"], "running");

    // Either all values of a request change or none, and errors are reported.
    let out = ctl(
        &job,
        &["set", "limits.documents=7", "politeness.min_delay=2s"],
    )
    .good();
    assert!(out.contains("limits.documents = 7 (was none)"), "{out}");
    for (body, part) in [
        (
            json!({"limits.documents": 9, "limits.document": 9}),
            "did you mean `limits.documents`",
        ),
        (
            json!({"limits.documents": 9, "network.http2": false}),
            "network.http2 is fixed",
        ),
        (json!({"limits.documents": "9 MB"}), "limits.documents"),
        (json!([]), "invalid type"),
    ] {
        let said = tcp(&address, "PATCH /api/config", "", &body.to_string()).refused(400);
        assert!(said.contains(part), "{body}: {said}");
    }
    let config = socket(&job, "GET /api/config", "").json();
    assert_eq!(config["values"]["limits"], json!({"documents": 7}));
    assert_eq!(status(&job)["limits"], json!({"documents": 7}));
    assert_eq!(config["values"]["politeness"]["min_delay"], "2s");
    let record = std::fs::read_to_string(job.folder().join("job.toml")).unwrap();
    assert!(record.contains("documents = 7"), "{record}");

    // The record says who changed what.
    let rows = audit(&job);
    let changes: Vec<String> = rows
        .iter()
        .filter(|r| r["what"] != "checkpoint")
        .map(|r| format!("{} {} {} {}", r["what"], r["key"], r["from"], r["to"]))
        .collect();
    let expected = [
        r#""pause" null null null"#,
        r#""seed" null null "http://c.test/""#,
        r#""seed" null null "http://a.test/""#,
        r#""resume" null null null"#,
        r#""set" "limits.documents" null "7""#,
        r#""set" "politeness.min_delay" "\"1s\"" "\"2s\"""#,
    ];
    assert_eq!(changes, expected);
    assert!(rows[0]["who"].as_str().unwrap().starts_with("127.0.0.1:"));
    assert!(
        rows[1]["who"]
            .as_str()
            .unwrap()
            .starts_with("socket, user ")
    );
    drop(live);
}

#[test]
fn a_stop_drains_and_the_log_is_followed_to_the_end() {
    let wire = web();
    let job = job(&wire, "");
    let file = job.file();
    let live = Live::start(&mut spoor(&["crawl", file.to_str().unwrap()]));
    wire.wait_for("a.test/robots.txt");
    let mut follower = UnixStream::connect(job.folder().join("control.sock")).unwrap();
    follower
        .write_all(b"GET /api/log/follow HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    let mut lines = BufReader::new(follower).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "content-type: text/event-stream"));
    wire.wait_for("a.test/0");
    let said = socket(&job, "POST /api/stop", "").json();
    assert_eq!(said["changed"], true, "{said}");
    // While the slow page is in flight, the state is `draining`.
    assert_eq!(status(&job)["state"], "draining");
    let rest: Vec<String> = lines.collect();
    let rows: Vec<Value> = rest
        .iter()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    assert!(rows.iter().any(|r| r["what"] == "stop"), "{rest:?}");
    let done = |r: &&Value| r["url"] == "http://a.test/0" && r["outcome"] == "done";
    assert!(rows.iter().any(|r| done(&r)), "{rest:?}");
    let out = live.ended().stopped();
    assert!(out.contains("continues where it stopped"), "{out}");
    assert!(
        job.log().iter().any(|r| done(&r)),
        "what was in flight is finished"
    );
    let asked: BTreeSet<String> = wire.requests().iter().map(|r| r.path.clone()).collect();
    assert_eq!(asked.len(), 3, "and nothing more is asked: {asked:?}");
    assert_eq!(ctl(&job, &["stop"]).status.code(), Some(3));
}

#[test]
fn only_the_token_gets_in_and_no_other_site() {
    let wire = web();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, format!("{TOKEN}\n")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    let control = format!("listen = \"127.0.0.1:0\"\ntoken_file = {path:?}");
    let job = job(&wire, &control);
    let (live, address) = start(&job);
    let get = |headers: &str| tcp(&address, "GET /api/status", headers, "");
    for wrong in ["", "Authorization: Bearer wrong\r\n", "Cookie: spoor=x\r\n"] {
        let answer = get(wrong);
        answer.refused(401);
        assert!(
            answer.head.contains("www-authenticate: bearer"),
            "{answer:?}"
        );
    }
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(get(&bearer).status, 200);
    assert!(get(&bearer).head.contains("content-security-policy"));
    for host in ["evil.test", "127.0.0.1.evil.test", "192.0.2.1"] {
        get(&format!("{bearer}Host: {host}\r\n")).refused(403);
    }
    let post = |headers: &str| {
        tcp(
            &address,
            "POST /api/checkpoint",
            &format!("{bearer}{headers}"),
            "",
        )
    };
    for foreign in [
        "Origin: http://evil.test\r\n",
        "Origin: null\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
    ] {
        post(foreign).refused(403);
    }
    assert_eq!(post("").status, 200);
    assert_eq!(post(&format!("Origin: http://{address}\r\n")).status, 200);

    // A browser logs in.
    let login = |token: &str| {
        tcp(
            &address,
            "POST /login",
            "",
            &json!({"token": token}).to_string(),
        )
    };
    login("wrong").refused(401);
    let answer = login(TOKEN);
    assert_eq!(answer.status, 204, "{answer:?}");
    let cookie = answer
        .head
        .lines()
        .find_map(|l| l.strip_prefix("set-cookie: "))
        .unwrap();
    assert!(
        cookie.contains("httponly") && cookie.contains("samesite=strict"),
        "{cookie}"
    );
    assert!(!cookie.contains(TOKEN));
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    assert_eq!(get(&cookie).status, 200);

    // The command does the same; the socket needs no token.
    let url = format!("http://{address}");
    let file = path.to_str().unwrap();
    let remote = |rest: &[&str]| Ran::of(&mut spoor(&[&["ctl", "--url", &url], rest].concat()));
    let out = remote(&["--token-file", file, "status", "--json"]).good();
    assert_eq!(
        serde_json::from_str::<Value>(&out).unwrap()["state"],
        "running"
    );
    let refused = remote(&["status"]).refused();
    assert!(
        refused.contains("the token is missing or wrong"),
        "{refused}"
    );
    assert_eq!(ctl(&job, &["stop", "--json"]).status.code(), Some(0));
    let ran = live.ended();
    let written = format!("{}{}{:?}", ran.out, ran.err, audit(&job));
    assert!(!written.contains(TOKEN), "the token is in a log");
    assert_eq!(
        remote(&["--token-file", file, "status"]).status.code(),
        Some(3)
    );
    assert_eq!(remote(&["frobnicate"]).status.code(), Some(2));
}

#[test]
fn by_default_only_the_link_that_is_printed_opens_the_page() {
    let wire = web();
    let job = job(&wire, "");
    let file = job.file();
    let mut live = Live::start(&mut spoor(&["-vv", "crawl", file.to_str().unwrap()]));
    let link = live.says_after("dashboard on http://");
    wire.wait_for("a.test/");
    let (address, token) = link.trim_end().split_once("/#token=").unwrap();
    assert!(
        address.starts_with("127.0.0.1:") && token.len() == 32,
        "{link}"
    );
    for line in [
        "GET /api/status",
        "GET /api/log",
        "GET /metrics",
        "POST /api/stop",
    ] {
        tcp(address, line, "", "").refused(401);
    }
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let foreign = format!("{bearer}Origin: http://evil.test\r\n");
    tcp(address, "POST /api/stop", &foreign, "").refused(403);
    let renamed = format!("{bearer}Host: evil.test\r\n");
    tcp(address, "GET /api/status", &renamed, "").refused(403);
    let seen = tcp(address, "GET /api/status", &bearer, "").json();
    assert!(
        seen.get("link").is_none(),
        "a client with the token needs no link: {seen}"
    );
    assert_eq!(
        status(&job)["link"],
        format!("http://{address}/#token={token}")
    );
    let out = ctl(&job, &["status"]).good();
    assert!(out.contains(token), "the owner gets the link again: {out}");

    // A second crawl takes another port, and its own token.
    let other_job = self::job(&wire, "");
    let (_other, other) = start(&other_job);
    assert!(
        !other.starts_with(address) && !other.contains(token),
        "{other}"
    );

    // A client that waits for the end gets the reason and the last figures.
    let mut waiting = TcpStream::connect(address).unwrap();
    let ask = format!("GET /api/end HTTP/1.1\r\nHost: {address}\r\n{bearer}\r\n");
    waiting.write_all(ask.as_bytes()).unwrap();
    let mut lines = BufReader::new(waiting).lines();
    let head = lines.next().unwrap().unwrap();
    assert!(head.contains("200"), "{head}");
    ctl(&job, &["stop"]).good();
    let last = lines.find_map(|line| Some(line.ok()?.strip_prefix("data: ")?.to_owned()));
    let last: Value = serde_json::from_str(&last.unwrap()).unwrap();
    let ended = &last["status"]["ended"];
    assert_eq!(
        (&last["status"]["state"], &ended["why"]),
        (&"ended".into(), &"stopped".into())
    );
    let command = ended["next"][0]["command"].as_str().unwrap();
    assert_eq!(command, format!("spoor report {}", file.display()));
    assert!(last["status"]["pages"].as_u64() > Some(0), "{last}");
    assert!(
        !last["board"]["pages"].as_array().unwrap().is_empty(),
        "{last}"
    );
    live.ended().stopped();
    let written = std::fs::read_dir(job.folder().join("logs")).unwrap();
    for path in written.map(|entry| entry.unwrap().path()) {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(token), "the token is in {}", path.display());
    }
}

#[test]
fn a_named_port_is_used_or_refused_and_false_uses_none() {
    let wire = web();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let blocked = job(&wire, &format!("listen = {address:?}"));
    let said = Ran::of(&mut blocked.crawl()).refused();
    assert!(
        said.contains(&address) && said.contains("write \"auto\""),
        "{said}"
    );

    let off = job(&wire, "listen = false");
    let file = off.file();
    let live = Live::start(&mut spoor(&["-v", "crawl", file.to_str().unwrap()]));
    wire.wait_for("a.test/");
    assert!(status(&off).get("link").is_none());
    ctl(&off, &["stop"]).good();
    let ran = live.ended();
    assert!(!ran.err.contains("dashboard on"), "{}", ran.err);
}

#[test]
fn others_are_listened_to_only_with_a_token() {
    let wire = web();
    let job = job(&wire, "listen = \"0.0.0.0:0\"");
    let file = job.file();
    for command in [&["config", "check"][..], &["crawl"]] {
        let said = Ran::of(&mut spoor(&[command, &[file.to_str().unwrap()]].concat())).refused();
        assert!(
            said.contains("0.0.0.0:0") && said.contains("needs a token"),
            "{said}"
        );
    }
    let mut check = spoor(&["config", "check", file.to_str().unwrap()]);
    Ran::of(check.env("SPOOR_CONTROL_TOKEN", TOKEN)).good();
}

/// The keys of an answer.
type Keys = &'static [&'static str];

/// The request for each operation, and the keys of its answer; `stop` comes last.
fn examples() -> Vec<(&'static str, String, Keys)> {
    let seeds = json!({"urls": ["http://c.test/", "x"]}).to_string();
    let set = json!({"limits.fetches": 500}).to_string();
    let login = json!({"token": TOKEN}).to_string();
    let rules = "[job]\nname = \"job\"\n[limits]\nfetches = 400\n".to_owned();
    let none = String::new;
    let done: Keys = &["changed", "text"];
    let changes: Keys = &["changed", "later", "rated"];
    let board: Keys = &[
        "sentence",
        "headline",
        "focus",
        "perplexity",
        "best",
        "hosts",
        "images",
        "pages",
        "ruled",
        "rule_events",
    ];
    vec![
        ("GET /api/status", none(), &["state", "pages", "hosts"][..]),
        ("POST /api/pause", none(), done),
        ("POST /api/resume", none(), done),
        ("POST /api/checkpoint", none(), done),
        ("POST /api/seeds", seeds, &["url", "result"][..]),
        ("GET /api/config", none(), &["values", "live"][..]),
        ("PATCH /api/config", set, changes),
        ("POST /api/rules", rules, changes),
        (
            "GET /api/explain?url=http%3A%2F%2Fa.test%2F",
            none(),
            &["url", "known", "host"][..],
        ),
        ("GET /api/host/a.test", none(), &["host"][..]),
        ("GET /api/log?last=3", none(), &["url", "outcome"][..]),
        ("GET /api/board", none(), board),
        ("POST /login", login, &[][..]),
        ("POST /api/stop", none(), done),
    ]
}

#[test]
fn the_guide_says_what_the_routes_answer() {
    let wire = web();
    let job = job(&wire, "");
    let file = job.file();
    let _live = Live::start(&mut spoor(&["crawl", file.to_str().unwrap()]));
    wire.wait_for("a.test/0");
    let guide = include_str!("../../src/guide/api.md");
    let explained = |word: &str| assert!(guide.contains(word), "the guide has no {word}");
    for (line, body, keys) in examples() {
        let (method, target) = line.split_once(' ').unwrap();
        let path = target.split('?').next().unwrap();
        let path = path.replace("/host/a.test", "/host/{name}");
        explained(&format!("`{method} {path}"));
        // First a wrong body, if there is a body.
        if !body.is_empty() {
            socket(&job, line, "{").refused(400);
        }
        let answer = socket(&job, line, &body);
        if answer.status == 204 {
            assert!(keys.is_empty(), "{line}");
            continue;
        }
        assert_eq!(answer.status, 200, "{line}: {answer:?}");
        let value = answer.json();
        let first = value.get(0).unwrap_or(&value);
        for key in keys {
            assert!(first.get(key).is_some(), "{line}: no {key} in {first}");
        }
        if path == "/api/status" || path == "/api/board" {
            for key in value.as_object().unwrap().keys() {
                explained(&format!("`{key}`"));
            }
        }
    }
    // The page of one machine contains nothing about clusters.
    for (path, bytes) in [
        (
            "/",
            include_str!("../../src/daemon/control/dashboard/page.html"),
        ),
        (
            "/dashboard.css",
            include_str!("../../src/daemon/control/dashboard/page.css"),
        ),
        (
            "/dashboard.js",
            include_str!("../../src/daemon/control/dashboard/page.js"),
        ),
    ] {
        assert_eq!(
            socket(&job, &format!("GET {path}"), "").body,
            bytes,
            "{path}"
        );
    }
    // One machine is no cluster; another test queries a cluster.
    let alone = socket(&job, "GET /api/cluster", "");
    assert!(alone.refused(404).contains("one machine"));
}

#[test]
fn shells_and_man_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let text = Ran::of(&mut spoor(&["completions", shell])).good();
        for word in ["crawl", "ctl", "checkpoint"] {
            assert!(text.contains(word), "{word} for {shell}");
        }
    }
    let page = Ran::of(&mut spoor(&["man"])).good();
    assert!(page.contains(".TH spoor 1"), "{page}");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("man1");
    Ran::of(&mut spoor(&["man", "--out", out.to_str().unwrap()])).good();
    for name in ["spoor.1", "spoor-ctl.1", "spoor-ctl-set.1", "spoor-crawl.1"] {
        let text = std::fs::read_to_string(out.join(name)).unwrap();
        assert!(text.contains(".SH"), "{name}");
    }
}

/// Requests something long again and again without reading any of it, until the server accepts
/// nothing more or closes the connection.
fn never_reads(address: &str, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_write_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").repeat(100);
    while stream.write_all(request.as_bytes()).is_ok() {}
    stream
}

#[test]
fn clients_that_never_read_lock_no_other_client_out() {
    let wire = web();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, TOKEN).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    let job = job(
        &wire,
        &format!("listen = \"127.0.0.1:0\"\ntoken_file = {path:?}"),
    );
    let (_live, address) = start(&job);
    let ask = || {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(GUARD)).unwrap();
        write!(
            stream,
            "GET /api/status HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\n\
             Connection: close\r\n\r\n"
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    };
    ask();
    // Pages that need no token, and more such clients than there are places.
    let held: Vec<TcpStream> = (0..80).map(|_| never_reads(&address, "/")).collect();
    ask();
    let silent: Vec<_> = (0..80)
        .map(|_| TcpStream::connect(&address).unwrap())
        .collect();
    ask();
    drop((held, silent));
}

#[test]
fn only_keys_that_there_are_can_be_set() {
    let wire = web();
    let job = job(&wire, "");
    let file = job.file();
    let _live = Live::start(&mut spoor(&["crawl", file.to_str().unwrap()]));
    wire.wait_for("a.test/0");
    for key in [
        "limits.made_up",
        "made_up.documents",
        "documents",
        "",
        "limits.",
        "limits.documentss",
    ] {
        // Removing a value that is not set changes nothing.
        for value in [json!(1), Value::Null] {
            let body = json!({ key: value });
            let answer = socket(&job, "PATCH /api/config", &body.to_string());
            let said = answer.refused(400);
            assert!(said.contains("is not a key"), "{key}: {said}");
        }
    }
    let said = socket(&job, "PATCH /api/config", "{\"limits.document\": null}").refused(400);
    assert!(said.contains("did you mean `limits.documents`?"), "{said}");
    assert!(
        !job.folder().join("logs/audit.jsonl").exists(),
        "nothing changed"
    );
}

#[test]
fn a_job_file_over_the_api_has_bounds() {
    let wire = web();
    let job = job(&wire, "");
    let file = job.file();
    let _live = Live::start(&mut spoor(&["crawl", file.to_str().unwrap()]));
    wire.wait_for("a.test/0");
    let with = |rules: String| {
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.replace("reject = [", &format!("reject = [{rules}"));
        socket(&job, "POST /api/rules", &text)
    };
    let said = with("\"org,example,\",\n".repeat(80_000)).refused(413);
    assert!(said.contains("larger than 1048576 bytes"), "{said}");
    let said = with("\"regex:x\\\\w{30}\",\n".repeat(1000)).refused(400);
    assert!(said.contains("takes more than 32 MiB"), "{said}");
    let said = with("\"?\",\n".repeat(100_000)).refused(400);
    assert!(said.contains("100 errors in the job file"), "{said}");
    assert!(said.len() < 50_000, "{}", said.len());
    assert_eq!(with("\"org,example,\",\n".repeat(1000)).status, 200);
}
