//! The program `spoor-lab` as a user runs it.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used)]

mod experiment;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Output, Stdio};

use spoor_lab::zoo;

fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spoor-lab"));
    command.args(arguments);
    command
}

/// The message of a command that must fail.
#[track_caller]
fn refused(command: &mut Command) -> String {
    let Output { status, stderr, .. } = command.output().unwrap();
    assert!(!status.success());
    String::from_utf8(stderr).unwrap()
}

/// A server in a separate process; killed when dropped.
struct Served {
    child: Child,
    line: String,
}

impl Served {
    fn start(arguments: &[&str]) -> Self {
        let mut child = lab(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let out = child.stdout.as_mut().unwrap();
        // Byte by byte, so that the pipe stays open and keeps everything that follows.
        let mut out = BufReader::with_capacity(1, out);
        out.read_line(&mut line).unwrap();
        let line = line.trim().to_owned();
        Self { child, line }
    }

    fn get(&self, host: &str, path: &str) -> String {
        let address: SocketAddr = self.line.rsplit("http://").next().unwrap().parse().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn webs_are_written_and_served() {
    let folder = tempfile::tempdir().unwrap();
    let web = folder.path().join("web");
    let web = web.to_str().unwrap();
    let out = lab(&["demo", web]).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    let served = Served::start(&["serve", web]);
    let answer = served.get("gateway.test", "/");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.to_lowercase().contains("<title>"), "{answer}");
    assert!(
        served
            .get("gateway.test", "/none")
            .starts_with("HTTP/1.1 404")
    );
    let traps = Served::start(&["traps", "--articles", "7"]);
    assert!(
        traps
            .get("archive.test", "/article/7")
            .starts_with("HTTP/1.1 200")
    );
    assert!(
        traps
            .get("archive.test", "/article/8")
            .starts_with("HTTP/1.1 404")
    );
    assert!(traps.get("loop.test", "/a").contains("/b"));
    let public = refused(&mut lab(&["serve", web, "--listen", "0.0.0.0:0"]));
    assert!(public.contains("loopback"), "{public}");
}

#[test]
fn a_cause_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let judged = ["judge", "no-such-job", "--labels", "no.tsv", "--topic", "x"];
    for arguments in [["serve", "no-such-web"].as_slice(), &judged] {
        let said = refused(lab(arguments).current_dir(folder.path()));
        let missing = "No such file or directory";
        assert_eq!(said.matches(missing).count(), 1, "{arguments:?}: {said}");
    }
}

#[test]
fn the_zoo_is_listed_and_served_by_name() {
    let list = lab(&["zoo", "--list"]).output().unwrap().stdout;
    let list = String::from_utf8(list).unwrap();
    assert_eq!(list.lines().count(), zoo::cases().len() + 1);
    assert!(list.contains("\nredirect-file\t"), "{list}");
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    let served = Served::start(&["zoo", "--case", "status-999", "--ca", ca.to_str().unwrap()]);
    let line = &served.line;
    assert!(
        line.starts_with("serving 1 cases on http://127.0.0.1:"),
        "{line}"
    );
    let pem = std::fs::read_to_string(&ca).unwrap();
    assert!(pem.starts_with("-----BEGIN CERTIFICATE-----"), "{pem}");
    let said = refused(&mut lab(&["zoo", "--case", "unicorn"]));
    assert!(said.contains("unicorn"), "{said}");
}

/// `spoor demo` serves this file.
#[test]
fn the_archive_of_the_demo_is_that_of_its_web() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../seeds/demo.warc.zst");
    let stored = zstd::decode_all(std::fs::File::open(file).unwrap()).unwrap();
    let made = spoor_lab::demo::web().warc().unwrap();
    assert!(
        stored == made,
        "seeds/demo.warc.zst is of another web; run `spoor-lab demo DIR --warc seeds/demo.warc.zst`"
    );
}
