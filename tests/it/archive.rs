//! `spoor archive` on files of every kind: damaged in known ways, in the old form of Common Crawl,
//! and written by other programs.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use sha1::{Digest, Sha1};
use spoor::address::PageUrl;
use spoor::archive::http::Response;
use spoor::archive::reader::{Item, Reader};
use spoor::archive::record::{Kind, Version};
use spoor::web::extract::{Options, extract};

use super::export::python;
use super::support::{Ran, spoor};

const RECORDS: usize = 100;

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

fn digest(bytes: &[u8]) -> String {
    let mut text = "sha1:".to_owned();
    for byte in Sha1::digest(bytes) {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

pub fn page(n: usize) -> Vec<u8> {
    let line = |m: usize| {
        format!(
            "<p>Page {n}, line {m}: {}.</p>\n",
            (n * 7_919 + m * 104_729) % 9_973
        )
    };
    (0..60 + n % 13).map(line).collect::<String>().into_bytes()
}

fn answer(n: usize) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n";
    [head.as_bytes(), &page(n)].concat()
}

pub fn warc(n: usize) -> Vec<u8> {
    let block = answer(n);
    let head = format!(
        "WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.test/{n}\r\n\
         WARC-Date: 2026-01-02T03:04:05Z\r\nWARC-Record-ID: <urn:uuid:{n}>\r\n\
         WARC-Payload-Digest: {}\r\nWARC-Block-Digest: {}\r\n\
         Content-Type: application/http; msgtype=response\r\nContent-Length: {}\r\n\r\n",
        digest(&page(n)),
        digest(&block),
        block.len()
    );
    [head.as_bytes(), &block, b"\r\n\r\n"].concat()
}

pub fn arc(n: usize, wrong_by: i64) -> Vec<u8> {
    let block = answer(n);
    let length = block.len() as i64 + wrong_by;
    let line = format!("http://a.test/{n} 1.2.3.4 20120214055058 text/html {length}\n");
    [line.as_bytes(), &block, b"\n"].concat()
}

pub fn filedesc() -> Vec<u8> {
    let block = "1 0 Someone\nURL IP-address Archive-date Content-type Archive-length\n";
    let length = block.len();
    let line = "filedesc://a.arc 0.0.0.0 20120214055058 text/plain";
    format!("{line} {length}\n{block}\n").into_bytes()
}

pub fn replaced(record: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(record.to_vec()).unwrap();
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1).into_bytes()
}

/// A file, and the expected result of `check`.
struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    records: usize,
    /// Offset, length and reason.
    gaps: Vec<(usize, usize, &'static str)>,
    wrong: usize,
}

fn damaged() -> Vec<Case> {
    let all: Vec<Vec<u8>> = (0..RECORDS).map(warc).collect();
    let members: Vec<Vec<u8>> = all.iter().map(|record| gzip(record)).collect();
    let file = members.concat();
    let begin = |n: usize| members[..n].iter().map(Vec::len).sum::<usize>();
    let case = |name, bytes, records, gaps, wrong| Case {
        name,
        bytes,
        records,
        gaps,
        wrong,
    };
    let mut cases = vec![case("whole.warc.gz", file.clone(), 100, vec![], 0)];

    // Cuts off the last record and a part of the one before it.
    let end = file.len() - 700;
    let cut = (0..RECORDS).rfind(|n| begin(*n) < end).unwrap();
    let gap = (begin(cut), end - begin(cut), "truncated");
    cases.push(case(
        "tail.warc.gz",
        file[..end].to_vec(),
        cut,
        vec![gap],
        0,
    ));

    let mut flipped = file.clone();
    let at = begin(50) + 200;
    flipped[at..at + 64]
        .iter_mut()
        .for_each(|byte| *byte ^= 0xFF);
    let gap = (begin(50), members[50].len(), "compression");
    cases.push(case("flip.warc.gz", flipped, 99, vec![gap], 0));

    let (one, two) = file.split_at(begin(30));
    let zeros = [one, &[0; 4096], two].concat();
    let gap = (begin(30), 4096, "zeros");
    cases.push(case("zeros.warc.gz", zeros, 100, vec![gap], 0));

    let one = gzip(&all.concat());
    cases.push(case("one-member.warc.gz", one, 100, vec![], 0));

    let plain = |n: usize| all[..n].iter().map(Vec::len).sum::<usize>();
    let length = answer(40).len();
    let (old, new) = (format!("th: {length}\r"), format!("th: {}\r", length + 300));
    let mut longer = all.clone();
    longer[40] = replaced(&all[40], &old, &new);
    let gap = (plain(40), all[40].len(), "length");
    cases.push(case("length.warc", longer.concat(), 99, vec![gap], 0));
    let packed: Vec<Vec<u8>> = longer.iter().map(|record| gzip(record)).collect();
    let gap = (begin(40), packed[40].len(), "length");
    cases.push(case("length.warc.gz", packed.concat(), 99, vec![gap], 0));

    let mut other = all.clone();
    other[40] = replaced(&all[40], &digest(&page(40)), &digest(b""));
    let packed: Vec<Vec<u8>> = other.iter().map(|record| gzip(record)).collect();
    cases.push(case("digest.warc.gz", packed.concat(), 100, vec![], 1));

    for (name, by) in [("longer.arc", 7), ("shorter.arc", -7)] {
        let wrong = |n: usize| if n % 50 == 10 { by } else { 0 };
        let mut all = vec![filedesc()];
        all.extend((0..RECORDS).map(|n| arc(n, wrong(n))));
        let begin = |n: usize| all[..n].iter().map(Vec::len).sum::<usize>();
        let gap = |n: usize| (begin(n + 1), all[n + 1].len(), "length");
        cases.push(case(name, all.concat(), 99, vec![gap(10), gap(60)], 0));
    }
    cases
}

fn checked(path: &Path) -> (Value, Option<i32>) {
    let ran = Ran::of(&mut spoor(&[
        "archive",
        "check",
        "--json",
        path.to_str().unwrap(),
    ]));
    let value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:#?}"));
    (value, ran.status.code())
}

#[test]
fn damage_is_reported_and_everything_else_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let cases = damaged();
    for case in &cases {
        let path = folder.path().join(case.name);
        std::fs::write(&path, &case.bytes).unwrap();
        let (report, code) = checked(&path);
        let file = &report["files"][0];
        let gaps: Vec<Value> = case
            .gaps
            .iter()
            .map(|(offset, length, why)| json!({ "offset": offset, "length": length, "why": why }))
            .collect();
        assert_eq!(file["gaps"], Value::from(gaps), "{}", case.name);
        assert_eq!(file["records"], case.records, "{}", case.name);
        assert_eq!(file["digests"]["wrong"], case.wrong, "{}", case.name);
        let is_arc = case.name.ends_with("arc") && !case.name.ends_with("warc");
        let right = if is_arc {
            0
        } else {
            2 * case.records - case.wrong
        };
        assert_eq!(file["digests"]["right"], right, "{}", case.name);
        assert_eq!(file["bytes"], case.bytes.len(), "{}", case.name);
        let sound = case.gaps.is_empty() && case.wrong == 0;
        assert_eq!(report["sound"], sound, "{}", case.name);
        assert_eq!(code, Some(i32::from(!sound)), "{}", case.name);
    }
    // Several files at once, in the order of their names, as text for people.
    let ran = Ran::of(&mut spoor(&[
        "archive",
        "check",
        folder.path().to_str().unwrap(),
    ]));
    assert_eq!(ran.status.code(), Some(1));
    for line in ran.out.lines() {
        let is_name = line.starts_with(folder.path().to_str().unwrap());
        assert!(is_name || line.chars().count() <= 80, "{line}");
    }
    let records: usize = cases.iter().map(|case| case.records).sum();
    let gaps: usize = cases.iter().map(|case| case.gaps.len()).sum();
    let sum = format!("{} files, {records} records;", cases.len());
    let last = ran.out.lines().last().unwrap();
    assert!(
        last.starts_with(&sum) && last.ends_with(&format!(" {gaps} gaps")),
        "{last}"
    );
    assert!(
        ran.out.contains("the file ends within a record"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("response http://a.test/40"), "{}", ran.out);
}

#[test]
fn files_other_than_archives_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.warc.gz");
    for (path, words) in [
        (missing.as_path(), "missing.warc.gz"),
        (folder.path(), "no file named"),
    ] {
        for what in ["check", "stats"] {
            let ran = Ran::of(&mut spoor(&["archive", what, path.to_str().unwrap()]));
            let said = ran.refused();
            assert!(said.contains(words), "{said}");
        }
    }
    // Control characters in names do not reach the terminal.
    let path = folder.path().join("hostile.warc");
    let record = replaced(
        &warc(1),
        "WARC-Type: response",
        "WARC-Type: a\u{1b}[2Jb\u{202e}",
    );
    std::fs::write(&path, [&record[..], b"and more"].concat()).unwrap();
    let ran = Ran::of(&mut spoor(&["archive", "check", path.to_str().unwrap()]));
    assert!(!ran.out.contains(['\u{1b}', '\u{202e}']), "{}", ran.out);
    assert_eq!(ran.status.code(), Some(1));
}

/// The entry shown in the study of Common Crawl: 24,686 bytes, in ISO 8859-1.
fn common_crawl() -> Vec<u8> {
    let head = "HTTP/1.0 200 OK\r\nDate: Tue, 14 Feb 2012 05:50:58 GMT\r\n\
        Server: Apache-Coyote/1.1\r\nContent-Type: text/html\r\n\
        x-commoncrawl-DetectedCharset: ISO-8859-1\r\n\r\n";
    let begin = "<html><head><title>Spiegel</title></head><body>";
    let german = "<p>Die Gr\u{fc}nen m\u{f6}chten die gr\u{f6}\u{df}ten Z\u{fc}ge der Bahn \
        \u{fc}ber die Stra\u{df}en f\u{fc}hren, sagte eine Sprecherin am Dienstag.</p>\n";
    let mut block: Vec<u8> = [head, begin].concat().into_bytes();
    let latin1 = |text: &str| {
        text.chars()
            .map(|c| u8::try_from(c).unwrap())
            .collect::<Vec<u8>>()
    };
    while block.len() + 200 < 24_686 {
        block.extend(latin1(german));
    }
    block.resize(24_686, b' ');
    let line = "http://www.spiegel.de/ 195.71.11.67 20120214055058 text/html 24686\n";
    let record = [line.as_bytes(), &block, b"\n"].concat();
    [gzip(&filedesc()), gzip(&record)].concat()
}

#[test]
fn an_arc_of_common_crawl_is_read_in_its_encoding() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("1346876860493_1.arc.gz");
    std::fs::write(&path, common_crawl()).unwrap();
    let mut reader = Reader::open(&path).unwrap();
    let Some(Item::Record(first)) = reader.next_item().unwrap() else {
        panic!("no version block");
    };
    assert_eq!(
        (&first.record.kind, first.record.version),
        (&Kind::Filedesc, Version::Arc1)
    );
    let Some(Item::Record(mut entry)) = reader.next_item().unwrap() else {
        panic!("no record");
    };
    assert_eq!(entry.record.length, 24_686);
    assert_eq!(
        entry.record.timestamp().unwrap().to_string(),
        "2012-02-14T05:50:58Z"
    );
    let response = Response::read(&mut entry, 1 << 20).unwrap();
    assert!(entry.finish().unwrap().is_some());
    assert_eq!(response.charset().as_deref(), Some("ISO-8859-1"));
    let url = PageUrl::parse(entry.record.uri.as_deref().unwrap()).unwrap();
    let page = extract(&url, &response.into_fetched(), &Options::default()).unwrap();
    assert!(
        page.flow.contains("Die Gr\u{fc}nen m\u{f6}chten"),
        "{}",
        page.flow
    );
    assert!(reader.next_item().unwrap().is_none());

    let path = path.to_str().unwrap();
    let stats = Ran::of(&mut spoor(&["archive", "stats", "--json", path])).good();
    let stats: Value = serde_json::from_str(&stats).unwrap();
    for (name, value) in [
        ("statuses", "200"),
        ("encodings", "iso-8859-1"),
        ("media", "text/html"),
        ("languages", "de"),
        ("hosts", "www.spiegel.de"),
        ("years", "2012"),
    ] {
        assert_eq!(
            stats[name],
            json!({ "top": [[value, 1]], "others": 0 }),
            "{name}"
        );
    }
    let shown = Ran::of(&mut spoor(&["archive", "stats", path])).good();
    assert!(shown.contains("iso-8859-1       1  1.0000"), "{shown}");
}

/// The Python with the packages of tests/python/requirements.txt, or `None` after printing why.
fn oracle() -> Option<(PathBuf, PathBuf)> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/warc.py");
    let found = python().map(|python| (python, script));
    if found.is_none() {
        eprintln!(
            "SKIPPED: no Python with the packages of tests/python/requirements.txt; \
             `.ci/run` installs one in target/python, SPOOR_PYTHON names another"
        );
    }
    found
}

#[test]
fn archives_of_warcio_and_fastwarc_are_read() {
    let Some((python, script)) = oracle() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(python);
    command.arg(script).arg("write").arg(folder.path());
    Ran::of(&mut command).good();
    for (name, kinds, digests) in [
        ("warcio.warc", 3, 101),
        ("warcio.warc.gz", 3, 101),
        ("fastwarc.warc.gz", 1, 20),
        ("fastwarc.warc.zst", 1, 20),
        ("dictionary.warc.zst", 1, 20),
        ("packed.warc.zst", 1, 20),
    ] {
        let (report, code) = checked(&folder.path().join(name));
        assert_eq!(code, Some(0), "{name}: {report}");
        let file = &report["files"][0];
        let counts = file["kinds"].as_object().unwrap();
        let twenties = counts.values().filter(|n| **n == 20).count();
        assert_eq!(twenties, kinds, "{name}: {file}");
        assert_eq!(
            file["digests"],
            json!({ "right": digests, "wrong": 0, "unknown": 0 }),
            "{name}"
        );
    }
}

/// The results of other readers on the same files: they stop at damage, or take a truncated record
/// for a complete one.
#[test]
fn other_readers_agree_on_intact_records() {
    let Some((python, script)) = oracle() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(python);
    command.arg(script).arg("read");
    let cases = damaged();
    for case in &cases {
        let path = folder.path().join(case.name);
        std::fs::write(&path, &case.bytes).unwrap();
        command.arg(path);
    }
    let out = Ran::of(&mut command).good();
    for (case, line) in cases.iter().zip(out.lines()) {
        eprintln!(
            "{:<20} {:>3} records, {} gaps; {line}",
            case.name,
            case.records,
            case.gaps.len()
        );
        let others: Value = serde_json::from_str(line).unwrap();
        if ["whole.warc.gz", "digest.warc.gz"].contains(&case.name) {
            assert_eq!(others["warcio"]["records"], 100, "{line}");
            assert_eq!(others["fastwarc"]["records"], 100, "{line}");
            assert_eq!(others["warcio"]["wrong"], case.wrong, "{line}");
        }
        if case.name == "flip.warc.gz" {
            assert_eq!(
                others["warcio"],
                json!({ "records": 50, "wrong": 0, "stopped": true })
            );
        }
    }
    assert_eq!(out.lines().count(), cases.len());
}

/// Answers several requests, each on its own connection.
fn serve(listener: TcpListener, requests: usize) {
    for _ in 0..requests {
        let (stream, _) = listener.accept().unwrap();
        let mut stream = BufReader::new(stream);
        let mut first = String::new();
        stream.read_line(&mut first).unwrap();
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line).unwrap();
        }
        let answer = match first.split(' ').nth(1).unwrap() {
            "/chunked" => b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\
                Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
                7\r\n<p>one \r\n3\r\ntwo\r\n0\r\n\r\n"
                .to_vec(),
            "/missing" => b"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n".to_vec(),
            _ => answer(7),
        };
        stream.get_mut().write_all(&answer).unwrap();
    }
}

#[test]
fn archives_of_wget_are_read() {
    let found = Command::new("wget").arg("--version").output();
    if !found.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains("+ssl")) {
        eprintln!("SKIPPED: no GNU wget; `.ci/run` installs it where it can");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || serve(listener, 3));
    let mut command = Command::new("wget");
    command.args([
        "--no-proxy",
        "--tries=1",
        "--no-config",
        "-q",
        "-O",
        "/dev/null",
    ]);
    command.arg("--warc-file").arg(folder.path().join("wget"));
    for path in ["/page", "/chunked", "/missing"] {
        command.arg(format!("{base}{path}"));
    }
    // One of the answers is an error, which wget reports by its exit code.
    assert_eq!(Ran::of(&mut command).status.code(), Some(8));
    server.join().unwrap();
    let path = folder.path().join("wget.warc.gz");
    let (report, code) = checked(&path);
    assert_eq!(code, Some(0), "{report}");
    let kinds = &report["files"][0]["kinds"];
    assert_eq!(
        (&kinds["request"], &kinds["response"]),
        (&json!(3), &json!(3)),
        "{report}"
    );
    let mut reader = Reader::open(&path).unwrap();
    let mut bodies = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        let Item::Record(mut entry) = item else {
            panic!("a gap")
        };
        if entry.record.kind == Kind::Response {
            assert!(entry.record.uri.as_deref().unwrap().starts_with(&base));
            let response = Response::read(&mut entry, 1 << 20).unwrap();
            bodies.push((response.status, response.body.to_vec()));
        }
    }
    let expected = [
        (200, page(7)),
        (200, b"<p>one two".to_vec()),
        (404, Vec::new()),
    ];
    assert_eq!(bodies, expected);
}

#[test]
fn memory_is_bounded_whatever_a_record_holds() {
    // A compression bomb: a gigabyte of zeros in a record of a megabyte.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bomb.warc.gz");
    let length = 1_u64 << 30;
    let head = format!("WARC/1.0\r\nWARC-Type: resource\r\nContent-Length: {length}\r\n\r\n");
    let mut packed = GzEncoder::new(std::fs::File::create(&path).unwrap(), Compression::fast());
    packed.write_all(head.as_bytes()).unwrap();
    std::io::copy(&mut std::io::repeat(0).take(length), &mut packed).unwrap();
    packed.write_all(b"\r\n\r\n").unwrap();
    packed.finish().unwrap();
    let mut command = spoor(&["archive", "check", path.to_str().unwrap()]);
    let (ran, peak) = super::support::Live::start(&mut command).ended_with_peak();
    let out = ran.good();
    assert!(
        out.contains("resource                               1"),
        "{out}"
    );
    assert!(peak < 70 << 10, "{peak} KiB");
}
