//! `spoor archive list|get|pack`: finding captures in archives of every kind, through indexes of
//! every kind, also on a web server.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use flate2::read::MultiGzDecoder;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::archive::{arc, filedesc, gzip, page, warc};
use crate::support::{Ran, spoor};

const EACH: usize = 10;

/// Five files with ten captures each: `http://a.test/0` to `49`. The capture of 7 has a revisit
/// three years later, and 31 also has a request record.
fn archives(folder: &Path) -> PathBuf {
    let folder = folder.join("archives");
    std::fs::create_dir(&folder).unwrap();
    let put = |name: &str, bytes: Vec<u8>| std::fs::write(folder.join(name), bytes).unwrap();
    let records = |from: usize| (from..from + EACH).map(warc).collect::<Vec<_>>();
    let members = |from| {
        records(from)
            .iter()
            .flat_map(|r| gzip(r))
            .collect::<Vec<u8>>()
    };
    let revisit = "WARC/1.1\r\nWARC-Type: revisit\r\nWARC-Target-URI: http://a.test/7\r\n\
        WARC-Date: 2029-01-02T03:04:05Z\r\nWARC-Record-ID: <urn:uuid:again>\r\n\
        WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\n\
        WARC-Refers-To-Target-URI: http://a.test/7\r\n\
        WARC-Refers-To-Date: 2026-01-02T03:04:05Z\r\n\
        Content-Type: application/http; msgtype=response\r\nContent-Length: 19\r\n\r\n\
        HTTP/1.1 200 OK\r\n\r\n\r\n\r\n";
    put(
        "gzip.warc.gz",
        [members(0), gzip(revisit.as_bytes())].concat(),
    );
    put("plain.warc", records(10).concat());
    put("one-member.warc.gz", gzip(&records(20).concat()));
    let request = "WARC/1.1\r\nWARC-Type: request\r\nWARC-Target-URI: http://a.test/31\r\n\
        WARC-Date: 2026-01-02T03:04:05Z\r\nWARC-Record-ID: <urn:uuid:request>\r\n\
        WARC-Concurrent-To: <urn:uuid:31>\r\n\
        Content-Type: application/http; msgtype=request\r\nContent-Length: 20\r\n\r\n\
        GET /31 HTTP/1.1\r\n\r\n\r\n\r\n";
    let mut asked = records(30);
    asked[1].extend(request.as_bytes());
    let packed = asked.iter().enumerate().flat_map(|(n, record)| match n {
        // The request is a separate gzip member.
        1 => [gzip(&warc(31)), gzip(request.as_bytes())].concat(),
        _ => gzip(record),
    });
    put("asked.warc.gz", packed.collect());
    let old: Vec<u8> = (40..50).flat_map(|n| gzip(&arc(n, 0))).collect();
    put("old.arc.gz", [gzip(&filedesc()), old].concat());
    folder
}

fn run(arguments: &[&str]) -> String {
    Ran::of(&mut spoor(&[&["archive"], arguments].concat())).good()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The times and addresses that `list` prints.
fn listed(out: &str) -> BTreeSet<(String, String)> {
    let lines = out.lines().map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words[0].to_owned(), words[words.len() - 1].to_owned())
    });
    let set: BTreeSet<_> = lines.collect();
    assert_eq!(set.len(), out.lines().count(), "a capture is listed twice");
    set
}

/// A file server that supports range requests and counts its requests.
struct Files {
    base: String,
    requests: Arc<AtomicUsize>,
    agents: Arc<Mutex<BTreeSet<String>>>,
}

impl Files {
    fn serve(folder: PathBuf, robots: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let agents = Arc::new(Mutex::new(BTreeSet::new()));
        let (counted, heard) = (requests.clone(), agents.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                counted.fetch_add(1, Ordering::Relaxed);
                heard
                    .lock()
                    .unwrap()
                    .insert(answer(stream.unwrap(), &folder, robots));
            }
        });
        Self {
            base,
            requests,
            agents,
        }
    }
}

/// Answers one request; returns its user agent.
fn answer(stream: TcpStream, folder: &Path, robots: &str) -> String {
    let mut stream = BufReader::new(stream);
    let (mut first, mut agent, mut range) = (String::new(), String::new(), None);
    stream.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "user-agent" => agent = value.to_owned(),
            "range" => {
                let (from, to) = value
                    .strip_prefix("bytes=")
                    .unwrap()
                    .split_once('-')
                    .unwrap();
                range = Some((from.parse::<usize>().unwrap(), to.parse::<usize>().unwrap()));
            }
            _ => {}
        }
    }
    let path = first.split(' ').nth(1).unwrap().trim_start_matches('/');
    let stream = stream.get_mut();
    let send = |stream: &mut TcpStream, head: String, body: &[u8]| {
        let head = format!(
            "HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    };
    let file = std::fs::read(folder.join(path));
    match (path, file, range) {
        ("robots.txt", ..) => send(stream, "200 OK".to_owned(), robots.as_bytes()),
        (_, Err(_), _) => send(stream, "404 Not Found".to_owned(), b""),
        (_, Ok(bytes), Some((from, _))) if from >= bytes.len() => {
            let head = format!("416 Range\r\nContent-Range: bytes */{}", bytes.len());
            send(stream, head, b"");
        }
        (_, Ok(bytes), Some((from, to))) => {
            let to = to.min(bytes.len() - 1);
            let head = format!(
                "206 Part\r\nContent-Range: bytes {from}-{to}/{}",
                bytes.len()
            );
            send(stream, head, &bytes[from..=to]);
        }
        (_, Ok(bytes), None) => send(stream, "200 OK".to_owned(), &bytes),
    }
    agent
}

#[test]
fn captures_are_found_alike_in_files_and_through_every_index() {
    let folder = tempfile::tempdir().unwrap();
    let archives = archives(folder.path());
    let index = archives.join("all.cdxj");
    let blocks = archives.join("blocks.cdxj.gz");
    for index in [&index, &blocks] {
        let said = run(&["index", text(&archives), "--output", text(index)]);
        assert!(said.starts_with("51 captures of 5 files"), "{said}");
    }
    let server = Files::serve(archives.clone(), "User-agent: *\nAllow: /\n");
    let far = format!("{}/all.cdxj", server.base);
    let small = format!("{}/blocks.idx", server.base);
    for (selection, number) in [
        (vec![], 51),
        (vec!["--url", "http://www.a.test/7"], 2),
        (
            vec!["--url", "http://a.test/7", "--url", "http://a.test/42"],
            3,
        ),
        (vec!["--prefix", "http://a.test/4"], 11),
        (vec!["--prefix", "test,a)/4", "--to", "2012"], 10),
        (vec!["--domain", "test", "--from", "2027"], 1),
        (
            vec!["--host", "a.test", "--mime", "text/*", "--status", "2xx"],
            50,
        ),
        (vec!["--mime", "image/*"], 0),
    ] {
        let list = |source: &[&str]| {
            let arguments = [&["archive", "list"], source, &selection].concat();
            let ran = Ran::of(&mut spoor(&arguments));
            let code = i32::from(number == 0);
            assert_eq!(ran.status.code(), Some(code), "{}", ran.err);
            listed(&ran.out)
        };
        let expected = list(&[text(&archives)]);
        assert_eq!(expected.len(), number, "{selection:?}");
        for source in [&index, &blocks] {
            assert_eq!(list(&[text(source)]), expected, "{source:?} {selection:?}");
        }
        // spoor sends a server at most one request a second, so only a few of the questions go
        // there.
        if number == 11 {
            for source in [&far, &small] {
                let source = [source.as_str(), "--contact", "me@a.test"];
                assert_eq!(list(&source), expected, "{source:?} {selection:?}");
            }
        }
    }
    let agents = server.agents.lock().unwrap().clone();
    assert_eq!(agents.len(), 1, "{agents:?}");
    assert!(
        agents
            .iter()
            .all(|a| a.starts_with("spoor/") && a.ends_with("(+me@a.test)"))
    );
}

#[test]
fn a_capture_is_read_wherever_it_lies() {
    let folder = tempfile::tempdir().unwrap();
    let archives = archives(folder.path());
    let index = archives.join("all.cdxj");
    run(&["index", text(&archives), "--output", text(&index)]);
    let server = Files::serve(archives.clone(), "");
    let far = format!("{}/all.cdxj", server.base);
    for n in [0, 7, 12, 23, 31, 45, 49] {
        let url = format!("http://a.test/{n}");
        for source in [&archives, &index] {
            let out = run(&["get", text(source), "--url", &url]);
            assert_eq!(out.as_bytes(), page(n), "{source:?} {url}");
        }
        if n == 23 {
            let out = run(&["get", &far, "--contact", "me@a.test", "--url", &url]);
            assert_eq!(out.as_bytes(), page(n), "{far} {url}");
        }
    }
    // For 7 the latest capture is the revisit; the first one is found by its date.
    let get =
        |more: &[&str]| run(&[&["get", text(&index), "--url", "http://a.test/7"], more].concat());
    let record = get(&["--record"]);
    assert!(record.contains("WARC-Type: revisit\r\n"), "{record}");
    let record = get(&["--record", "--at", "2026"]);
    assert!(record.contains("WARC-Type: response\r\n"), "{record}");
    let file = folder.path().join("seven.html");
    get(&["--output", text(&file)]);
    assert_eq!(std::fs::read(file).unwrap(), page(7));
    saved(&index, &folder.path().join("all"));
}

/// Saves all 51 captures as files and compares them.
fn saved(source: &Path, all: &Path) {
    let said = run(&["get", text(source), "--all", text(all)]);
    assert!(said.starts_with("51 captures"), "{said}");
    let list = std::fs::read_to_string(all.join("captures.jsonl")).unwrap();
    for line in list.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let n: usize = line["url"].as_str().unwrap()["http://a.test/".len()..]
            .parse()
            .unwrap();
        let name = line["name"].as_str().unwrap();
        assert!(name.ends_with(".html"), "{name}");
        assert_eq!(std::fs::read(all.join(name)).unwrap(), page(n), "{name}");
    }
    assert_eq!(list.lines().count(), 51);
}

#[test]
fn a_server_is_asked_as_it_permits() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("all.cdxj"), "").unwrap();
    let list = |server: &Files, more: &[&str]| {
        let far = format!("{}/all.cdxj", server.base);
        Ran::of(&mut spoor(&[&["archive", "list", &far], more].concat())).refused()
    };
    let open = Files::serve(folder.path().to_owned(), "");
    let why = list(&open, &[]);
    assert!(why.contains("--contact"), "{why}");
    assert_eq!(open.requests.load(Ordering::Relaxed), 0);
    let closed = Files::serve(folder.path().to_owned(), "User-agent: spoor\nDisallow: /\n");
    let why = list(&closed, &["--contact", "me@a.test"]);
    assert!(why.contains("robots.txt of the server forbids it"), "{why}");
    assert_eq!(closed.requests.load(Ordering::Relaxed), 1);
}

#[test]
fn a_wacz_has_archives_index_and_pages_with_right_digests() {
    let folder = tempfile::tempdir().unwrap();
    let archives = archives(folder.path());
    let wacz = folder.path().join("all.wacz");
    let refused = ["archive", "pack", text(&archives), "--output", text(&wacz)];
    let why = Ran::of(&mut spoor(&refused)).refused();
    assert!(
        why.contains("old.arc.gz: a WACZ takes files named"),
        "{why}"
    );
    std::fs::remove_file(archives.join("old.arc.gz")).unwrap();
    let main = "http://a.test/12";
    let said = run(&[
        "pack",
        text(&archives),
        "-o",
        text(&wacz),
        "--main",
        main,
        "--text",
    ]);
    assert!(
        said.starts_with("41 captures and 40 pages of 4 files"),
        "{said}"
    );
    let mut zip = zip::ZipArchive::new(std::fs::File::open(&wacz).unwrap()).unwrap();
    let mut member = |name: &str| {
        let mut file = zip.by_name(name).unwrap();
        assert_eq!(file.compression(), zip::CompressionMethod::Stored, "{name}");
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    };
    let sha = |bytes: &[u8]| {
        let digits = Sha256::digest(bytes)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect::<String>();
        format!("sha256:{digits}")
    };
    let package = member("datapackage.json");
    let digest: Value = serde_json::from_slice(&member("datapackage-digest.json")).unwrap();
    assert_eq!(digest["hash"], sha(&package));
    let package: Value = serde_json::from_slice(&package).unwrap();
    assert_eq!(package["wacz_version"], "1.1.1");
    assert_eq!(package["mainPageUrl"], main);
    let resources = package["resources"].as_array().unwrap();
    for resource in resources {
        let path = resource["path"].as_str().unwrap();
        let bytes = member(path);
        assert_eq!(resource["hash"], sha(&bytes), "{path}");
        assert_eq!(resource["bytes"], bytes.len(), "{path}");
        if let Some(name) = path.strip_prefix("archive/") {
            assert_eq!(bytes, std::fs::read(archives.join(name)).unwrap(), "{path}");
        }
    }
    assert_eq!(resources.len(), 7);
    let blocks = member("indexes/index.cdx.gz");
    let mut lines = String::new();
    MultiGzDecoder::new(blocks.as_slice())
        .read_to_string(&mut lines)
        .unwrap();
    assert_eq!(lines.lines().count(), 41);
    assert!(lines.lines().is_sorted());
    let small = String::from_utf8(member("indexes/index.idx")).unwrap();
    let (meta, block) = small.split_once('\n').unwrap();
    assert_eq!(
        meta,
        r#"!meta 0 {"filename":"index.cdx.gz","format":"cdxj-gzip-1.0"}"#
    );
    let block: Value = serde_json::from_str(&block[block.find('{').unwrap()..]).unwrap();
    assert_eq!(block["digest"], sha(&blocks));
    let pages = String::from_utf8(member("pages/pages.jsonl")).unwrap();
    let pages: Vec<Value> = pages
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(pages[0]["format"], "json-pages-1.0");
    assert_eq!(pages.len(), 41);
    for page in &pages[1..] {
        assert_eq!(page["ts"], "2026-01-02T03:04:05Z");
        assert!(page["text"].as_str().unwrap().contains("Page "), "{page}");
    }
    let why = [
        "archive",
        "pack",
        text(&archives),
        "-o",
        text(&wacz),
        "--main",
        "http://b.test/",
    ];
    let why = Ran::of(&mut spoor(&why)).refused();
    assert!(why.contains("no page http://b.test/"), "{why}");
}
