//! What a person, a log file and a script see of a crawl: a terminal emulator that reads what the
//! program writes to a pseudo-terminal, lines without a terminal, and exit codes.

use std::fs::File;
use std::io::Read;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use nix::pty::{Winsize, openpty};
use nix::sys::signal::Signal;
use serde_json::Value;
use spoor_lab::{Behaviour, Lab};

use crate::control_api::socket;
use crate::support::process::GUARD;
use crate::support::texts::{plain, tree};
use crate::support::{Job, JobText, Live, Ran, Wire, spoor};

/// Rows of the emulated terminal: so many that nothing scrolls off.
const ROWS: u16 = 200;

/// A web of one host with this many pages, each of which takes a moment.
fn web(pages: usize) -> Wire {
    slow_web(pages, Duration::from_millis(20))
}

fn slow_web(pages: usize, latency: Duration) -> Wire {
    let links: Vec<String> = (1..pages).map(|i| format!("/{i}")).collect();
    let links: Vec<&str> = links.iter().map(String::as_str).collect();
    let mut all = tree(&[("a.test/", plain(&links, &[]))]);
    for path in &links {
        all.insert_as("a.test", path, "text/html", plain(&[path], &[]));
    }
    let slow = Behaviour::of("a.test").latency(latency);
    Wire::serve(Lab::from_memory(all).with_behaviour(slow))
}

fn job(wire: &Wire, seeds: &[&str], rest: &str) -> Job {
    let text = JobText {
        seeds,
        rest,
        ..JobText::default()
    };
    Job::new(wire, &text)
}

/// The program on a terminal.
struct OnTerminal {
    child: Child,
    bytes: Receiver<Vec<u8>>,
    screen: vt100::Parser,
}

impl OnTerminal {
    fn start(arguments: &[&str], columns: u16) -> Self {
        let size = Winsize {
            ws_row: ROWS,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let ends = openpty(Some(&size), None).unwrap();
        let slave = || Stdio::from(ends.slave.try_clone().unwrap());
        let mut command = spoor(arguments);
        command.env("TERM", "xterm").stdout(slave()).stderr(slave());
        let child = command.spawn().unwrap();
        // Otherwise the other end would never be closed.
        drop((command, ends.slave));
        Self {
            child,
            bytes: pump(ends.master),
            screen: vt100::Parser::new(ROWS, columns, 0),
        }
    }

    /// Waits until the screen satisfies `is_so`.
    fn until(&mut self, what: &str, mut is_so: impl FnMut(&[String]) -> bool) {
        let deadline = Instant::now() + GUARD;
        loop {
            let rows = self.rows();
            if is_so(&rows) {
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.bytes.recv_timeout(left) {
                Ok(bytes) => self.screen.process(&bytes),
                Err(error) => panic!("never {what} ({error}):\n{}", rows.join("\n")),
            }
        }
    }

    fn rows(&self) -> Vec<String> {
        let columns = self.screen.screen().size().1;
        let rows = self.screen.screen().rows(0, columns);
        let mut rows: Vec<String> = rows.map(|row| row.trim_end().to_owned()).collect();
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        rows
    }

    fn signal(&self, signal: Signal) {
        let id = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        nix::sys::signal::kill(id, signal).unwrap();
    }

    /// The final screen, and the exit code.
    fn ended(mut self) -> (Vec<String>, Option<i32>) {
        while let Ok(bytes) = self.bytes.recv_timeout(GUARD) {
            self.screen.process(&bytes);
        }
        let code = self.child.wait().unwrap().code();
        (self.rows(), code)
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        // Both fail if it has already ended.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn pump(from: OwnedFd) -> Receiver<Vec<u8>> {
    let mut from = File::from(from);
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        // The system reports an error when the other end is closed.
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            if sender.send(buffer[..n].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// One line at the bottom with log lines above it, and nothing of it left at the end.
fn one_line_that_fits(columns: u16) {
    // Slow enough for a rate to be shown.
    let wire = slow_web(120, Duration::from_millis(60));
    let job = job(&wire, &["http://a.test/"], "[limits]\ndocuments = 100\n");
    let file = job.file();
    let arguments = ["-v", "crawl", file.to_str().unwrap()];
    let mut terminal = OnTerminal::start(&arguments, columns);
    // At the greatest width: a rate and the time left.
    let wanted = match columns {
        80.. => " left",
        _ => "/100 pages",
    };
    terminal.until("a line of progress", |rows| {
        let lines = rows.iter().filter(|row| row.contains("/100 pages")).count();
        assert!(lines <= 1, "dead lines:\n{}", rows.join("\n"));
        rows.last().is_some_and(|row| row.contains(wanted))
    });
    let cursor = terminal.screen.screen().cursor_position();
    assert!(!terminal.screen.screen().row_wrapped(cursor.0));
    let answer = socket(&job, "POST /api/pause", "");
    assert_eq!(answer.status, 200);
    terminal.until("paused", |rows| {
        rows.last()
            .is_some_and(|row| row.contains("paused") && row.contains("/100 pages"))
    });
    socket(&job, "POST /api/checkpoint", "");
    terminal.until("a log line above", |rows| {
        let log = rows.iter().position(|row| row.contains("checkpoint"));
        log.is_some_and(|at| at + 1 < rows.len())
            && rows.last().is_some_and(|row| row.contains("/100 pages"))
    });
    assert_eq!(socket(&job, "POST /api/resume", "").status, 200);
    terminal.signal(Signal::SIGINT);
    let (rows, code) = terminal.ended();
    assert_eq!(code, Some(130), "{}", rows.join("\n"));
    let all = rows.join("\n");
    assert!(!all.contains("/100 pages"), "{all}");
    let flowing = rows.concat();
    assert!(flowing.contains("Ctrl-C again ends at once"), "{all}");
    assert!(flowing.contains("It ended because of Ctrl-C."), "{all}");
}

#[test]
fn progress_fits_80_columns_and_leaves_nothing() {
    one_line_that_fits(80);
}

#[test]
fn progress_fits_40_columns_and_leaves_nothing() {
    one_line_that_fits(40);
}

#[test]
fn without_a_terminal_there_are_plain_lines() {
    let wire = web(5);
    let job = job(&wire, &["http://a.test/"], "[limits]\ndocuments = 3\n");
    let ran = Ran::of(&mut job.crawl());
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    for part in ["beginning ", " 0/3 pages, 0 images", " 3/3 pages"] {
        assert!(ran.err.contains(part), "{part} in {}", ran.err);
    }
    assert!(!ran.err.contains(['\u{1b}', '\r']), "{:?}", ran.err);
    let first = ran.out.lines().next().unwrap();
    assert!(first.starts_with("3 pages and 0 images in "), "{first}");
    for part in [
        "It ended because limits.documents is reached (3).",
        "spoor report ",
        "after you raise limits.documents",
    ] {
        assert!(ran.out.contains(part), "{part} in {}", ran.out);
    }
    let plain = ran.out.split("Details").next().unwrap();
    for word in ["perplexity", "razor", "bucket"] {
        assert!(!plain.contains(word), "{word} in {plain}");
    }

    // The previous run has done all of it, and this one does not claim that.
    let asked = wire.requests().len();
    let again = Ran::of(job.crawl().arg("--quiet"));
    assert_eq!((again.status.code(), again.err.as_str()), (Some(0), ""));
    let nothing = "There was nothing to do: limits.documents was reached before (3).";
    assert_eq!(again.out.lines().next(), Some(nothing));
    assert_eq!(wire.requests().len(), asked);
    let json = Ran::of(job.crawl().arg("--json")).good();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["nothing_to_do"], true);
    assert_eq!(
        (&json["this_run"]["pages"], &json["pages"]),
        (&0.into(), &3.into())
    );
}

#[test]
fn a_log_of_json_is_all_there_is() {
    let wire = web(5);
    let job = job(&wire, &["http://a.test/"], "");
    let ran = Ran::of(job.crawl().args(["--log-format", "json"]));
    assert_eq!((ran.status.code(), ran.err.as_str()), (Some(0), ""));
    let lines: Vec<Value> = ran
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    assert!(
        lines
            .iter()
            .all(|line| line["timestamp"].is_string() && line["level"].is_string())
    );
    let of = |target: &str| lines.iter().filter(|line| line["target"] == target).count();
    assert!(
        of("spoor::progress") >= 1 && of("spoor::said") >= 1,
        "{}",
        ran.out
    );
    let last = &lines.last().unwrap()["summary"];
    assert_eq!((&last["exit_code"], &last["pages"]), (&0.into(), &5.into()));

    let wrong = job.folder().join("wrong.toml");
    std::fs::write(&wrong, "[job]\nnme = 1\n").unwrap();
    let ran = Ran::of(&mut spoor(&[
        "crawl",
        wrong.to_str().unwrap(),
        "--log-format",
        "json",
    ]));
    let line: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (ran.status.code(), &line["exit_code"]),
        (Some(5), &5.into())
    );
}

#[test]
fn a_crawl_without_a_page_says_why_and_is_an_error() {
    let pages = [
        (
            "a.test/robots.txt",
            "User-agent: *\nDisallow: /private\n".to_owned(),
        ),
        ("a.test/other", plain(&[], &[])),
    ];
    let wire = Wire::serve(Lab::from_memory(tree(&pages)));
    let seeds = [
        "http://a.test/missing",
        "http://a.test/private/x",
        "http://out.example/",
    ];
    let job = job(&wire, &seeds, "[scope]\nreject = [\"host:out.example\"]\n");
    let ran = Ran::of(&mut job.crawl());
    assert_eq!(ran.status.code(), Some(4), "{ran:?}");
    for part in [
        "not a single page was fetched",
        "http://a.test/missing: the server answered with status 404",
        "http://a.test/private/x: robots.txt forbids it (line 2: ",
        "http://out.example/: [scope] keeps it out: ",
    ] {
        assert!(ran.err.contains(part), "{part} in {}", ran.err);
    }
    // The findings of an earlier run are not forgotten.
    let again = Ran::of(job.crawl().arg("--json"));
    assert_eq!(again.status.code(), Some(4), "{again:?}");
    let json: Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!(
        json["nothing_fetched"].as_array().unwrap().len(),
        3,
        "{json}"
    );
    assert_eq!(json["exit_code"], 4);
}

#[test]
fn a_host_that_is_not_there_is_named() {
    let wire = web(1);
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let seed = format!("http://{closed}/");
    let ran = Ran::of(&mut job(&wire, &[&seed], "").crawl());
    assert_eq!(ran.status.code(), Some(4), "{ran:?}");
    let says = format!("{seed}: its robots.txt cannot be fetched: the connection to ");
    assert!(ran.err.contains(&says), "{}", ran.err);
}

#[test]
fn a_second_spoor_on_a_job_names_the_first() {
    let wire = web(100);
    let job = job(&wire, &["http://a.test/"], "");
    let first = Live::start(&mut job.crawl());
    assert!(wire.wait(|n| n.requests.len() > 2, || false));
    let second = Ran::of(&mut job.crawl());
    assert_eq!(second.status.code(), Some(6), "{second:?}");
    for part in [
        format!("(process {})", first.id()),
        "spoor ctl JOB stop".to_owned(),
    ] {
        assert!(second.err.contains(&part), "{part} in {}", second.err);
    }
    first.signal(Signal::SIGTERM);
    let ran = first.ended();
    assert_eq!(ran.status.code(), Some(143), "{ran:?}");
}

#[test]
fn an_address_where_nothing_listens_is_reported() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let url = format!("http://{closed}/");
    let ran = Ran::of(&mut spoor(&["ctl", "--url", &url, "status"]));
    assert_eq!(ran.status.code(), Some(3), "{ran:?}");
    assert!(
        ran.err
            .contains("nothing listens there (Connection refused"),
        "{ran:?}"
    );
}

#[test]
fn converting_a_store_changes_the_job_file_alone_where_it_names_the_store() {
    let wire = web(3);
    let rest = "[frontier] # where addresses lie\nstore = \"sled\" # for now\n";
    let job = job(&wire, &["http://a.test/"], rest);
    job.run();
    let before = std::fs::read_to_string(job.file()).unwrap();
    let file = job.file();
    let file = file.to_str().unwrap();
    let convert = |to: &str, more: &[&str]| {
        let all = [&["store", "convert", file, "--to", to], more].concat();
        Ran::of(&mut spoor(&all)).good()
    };
    let out = convert("fjall", &[]);
    assert!(
        out.contains("now has store = \"fjall\" under [frontier]"),
        "{out}"
    );
    let after = std::fs::read_to_string(job.file()).unwrap();
    let expected = before.replace("store = \"sled\" #", "store = \"fjall\" #");
    assert_eq!(after, expected);
    assert!(job.run().contains("There was nothing to do"));

    let out = convert("sled", &["--keep-job-file"]);
    assert!(out.contains("before the next crawl write into "), "{out}");
    assert_eq!(std::fs::read_to_string(job.file()).unwrap(), expected);
}

#[test]
fn invalid_addresses_hosts_and_keys_are_refused() {
    let wire = web(100);
    let job = job(&wire, &["http://a.test/"], "");
    let live = Live::start(&mut job.crawl());
    assert!(wire.wait(|n| n.requests.len() > 2, || false));
    let too_many: Vec<String> = (0..10_001).map(|i| format!("http://a.test/{i}")).collect();
    let too_many = serde_json::json!({"urls": too_many});
    let encoded = |text: &str| -> String {
        url::form_urlencoded::byte_serialize(text.as_bytes())
            .collect::<String>()
            .replace('+', "%20")
    };
    for text in [
        "",
        "nonsense",
        "ftp://a.test/",
        "http:/a.test",
        "http://",
        " http://a.test/",
    ] {
        let line = format!("GET /api/explain?url={}", encoded(text));
        assert_eq!(socket(&job, &line, "").status, 400, "{text}");
    }
    for text in [
        "a b",
        "a.test?",
        ".a",
        "a.test:123456",
        "ä.test",
        "a@b",
        "[x]",
    ] {
        let line = format!("GET /api/host/{}", encoded(text));
        assert_eq!(socket(&job, &line, "").status, 400, "{text}");
    }
    for n in [1_001, 252_556, -1] {
        assert_eq!(
            socket(&job, &format!("GET /api/log?last={n}"), "").status,
            400,
            "{n}"
        );
    }
    for (method, path, body) in [
        ("patch", "/api/config", serde_json::json!({"": {}})),
        ("patch", "/api/config", serde_json::json!({"limits": 5})),
        (
            "patch",
            "/api/config",
            serde_json::json!({"limits.Documents": 5}),
        ),
        ("patch", "/api/config", serde_json::json!([])),
        ("post", "/api/seeds", serde_json::json!({})),
        (
            "post",
            "/api/seeds",
            serde_json::json!({"urls": "http://a.test/"}),
        ),
        ("post", "/api/seeds", too_many),
    ] {
        let line = format!("{} {path}", method.to_uppercase());
        assert_eq!(socket(&job, &line, &body.to_string()).status, 400, "{path}");
    }
    // Valid addresses are accepted, whether known or not.
    for text in ["http://a.test/", "HTTPS://never.test/x?y"] {
        let line = format!("GET /api/explain?url={}", encoded(text));
        assert_eq!(socket(&job, &line, "").status, 200, "{text}");
    }
    for (text, status) in [
        ("a.test", 200),
        ("[::1]:8080", 200),
        ("1.2.3.4.5", 400),
        ("a.test:99999", 400),
    ] {
        let line = format!("GET /api/host/{}", encoded(text));
        assert_eq!(socket(&job, &line, "").status, status, "{text}");
    }
    let set = serde_json::json!({"limits.documents": 90});
    assert_eq!(
        socket(&job, "PATCH /api/config", &set.to_string()).status,
        200
    );
    live.signal(Signal::SIGTERM);
    live.ended().stopped();
}
