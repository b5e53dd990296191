//! Rules in a robots.txt hold, however the file is written and sent.
//!
//! The rules are random, written as text in one of many forms and encodings, and sent in one of
//! many ways. This test has its own matcher by RFC 9309 for the plain text; the crawl must not
//! request what it forbids. If the file can be read, the crawl must request the rest.
//!
//! `cargo test --test it robots_sent -- --ignored --nocapture` makes 20,000 files from
//! `SPOOR_ROBOTS_SEED` (the time by default).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::support::{Job, JobText};

/// Patterns of rules.
const PATTERNS: [&str; 16] = [
    "/",
    "/a",
    "/a/",
    "/a/b$",
    "/*b",
    "*.html$",
    "/c",
    "/c$",
    "/q%2A",
    "/d%24",
    "/d$z",
    "/x%2Fy",
    "/%7Eu",
    "/caf\u{e9}",
    "/caf%C3%A9/x",
    "",
];

/// Paths that are fetched unless a rule forbids it.
const PATHS: [&str; 16] = [
    "/",
    "/a",
    "/a/b",
    "/a/bc",
    "/ab",
    "/c",
    "/c.html",
    "/cc",
    "/q*1",
    "/q%2A1",
    "/qa",
    "/d$z",
    "/x%2Fy",
    "/x/y",
    "/~u",
    "/caf%C3%A9/x",
];

#[derive(Debug, Clone)]
struct Group {
    agents: Vec<&'static str>,
    rules: Vec<(bool, &'static str)>,
}

/// A file, and whether it can be read as it is sent.
struct Sent {
    groups: Vec<Group>,
    /// The beginning of the response with the file.
    how: Vec<u8>,
    /// The bytes of each answer by path.
    answers: BTreeMap<String, Vec<u8>>,
    is_readable: bool,
}

/// The parts of a pattern or a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letter {
    Byte(u8),
    /// An escape that differs from its bare byte.
    Escape(u8),
    Star,
}

fn letters(text: &str, is_pattern: bool) -> (Vec<Letter>, bool) {
    let anchored = is_pattern && text.ends_with('$');
    let bytes = text
        .strip_suffix('$')
        .filter(|_| anchored)
        .unwrap_or(text)
        .as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let (letter, width) = match bytes[at] {
            b'%' => {
                let digits = std::str::from_utf8(&bytes[at + 1..at + 3]).unwrap();
                let byte = u8::from_str_radix(digits, 16).unwrap();
                let is_same = byte.is_ascii_alphanumeric() || b"-._~*$".contains(&byte);
                (
                    if is_same {
                        Letter::Byte(byte)
                    } else {
                        Letter::Escape(byte)
                    },
                    3,
                )
            }
            b'*' if is_pattern => (Letter::Star, 1),
            byte if byte.is_ascii() => (Letter::Byte(byte), 1),
            byte => (Letter::Escape(byte), 1),
        };
        out.push(letter);
        at += width;
    }
    (out, anchored)
}

fn covers(pattern: &[Letter], anchored: bool, path: &[Letter]) -> bool {
    match pattern {
        [] => !anchored || path.is_empty(),
        [Letter::Star, rest @ ..] => {
            (0..=path.len()).any(|from| covers(rest, anchored, &path[from..]))
        }
        [first, rest @ ..] => path.first() == Some(first) && covers(rest, anchored, &path[1..]),
    }
}

/// Whether the rules forbid a path; `None` if that depends on how lengths are counted.
fn forbids(groups: &[Group], path: &str) -> Option<bool> {
    let is_for = |name| move |group: &&Group| group.agents.contains(&name);
    let is_named = groups.iter().any(|group| is_for("spoor")(&group));
    let name = if is_named { "spoor" } else { "*" };
    let own: Vec<&Group> = groups.iter().filter(is_for(name)).collect();
    let rules = own.iter().flat_map(|group| &group.rules);
    let (path, _) = letters(path, false);
    let hits: Vec<(bool, &str)> = rules
        .copied()
        .filter(|(_, pattern)| !pattern.is_empty())
        .filter(|(_, pattern)| {
            let (pattern, anchored) = letters(pattern, true);
            covers(&pattern, anchored, &path)
        })
        .collect();
    // In bytes as written, and in characters.
    let by = |length: fn(&str) -> usize| {
        let longest = hits.iter().map(|(_, pattern)| length(pattern)).max();
        let mut best = hits.iter().filter(|(_, p)| Some(length(p)) == longest);
        longest.is_some() && !best.any(|(allow, _)| *allow)
    };
    let verdicts = [by(str::len), by(|p| letters(p, true).0.len())];
    (verdicts[0] == verdicts[1]).then_some(verdicts[0])
}

fn drawn_groups(rng: &mut ChaCha8Rng) -> Vec<Group> {
    let agents = [
        vec!["*"],
        vec!["spoor"],
        vec!["other"],
        vec!["other", "*"],
        vec!["spoor", "other"],
    ];
    let group = |rng: &mut ChaCha8Rng| Group {
        agents: agents.choose(rng).unwrap().clone(),
        rules: (0..rng.random_range(1..5))
            .map(|_| (rng.random_bool(0.3), *PATTERNS.choose(rng).unwrap()))
            .collect(),
    };
    (0..rng.random_range(1..4)).map(|_| group(rng)).collect()
}

/// The text of the rules, with the liberties that authors take.
fn text(groups: &[Group], rng: &mut ChaCha8Rng) -> String {
    let end = *["\n", "\r\n", "\r"].choose(rng).unwrap();
    let mut out = ["", "\u{feff}", "\u{feff}\u{feff}", "# rules"]
        .choose(rng)
        .unwrap()
        .to_string();
    if out.starts_with('#') {
        out.push_str(end);
    }
    let blanks = |rng: &mut ChaCha8Rng| match rng.random_range(0..40) {
        0 => " ".repeat(9_000),
        1 => "\t".repeat(9_000),
        2..6 => "  \t".to_owned(),
        _ => String::new(),
    };
    let mut line = |rng: &mut ChaCha8Rng, key: &str, value: &str| {
        let key = match rng.random_range(0..4) {
            0 => key.to_lowercase(),
            1 => key.to_uppercase(),
            _ => key.to_owned(),
        };
        let (a, b, c) = (blanks(rng), blanks(rng), blanks(rng));
        let comment = *["", "", " # why"].choose(rng).unwrap();
        out.push_str(&format!("{a}{key}{b}:{c}{value}{comment}{end}"));
        if rng.random_bool(0.1) {
            // As in concatenated files.
            out.push('\u{feff}');
        }
    };
    for group in groups {
        for agent in &group.agents {
            line(rng, "User-agent", agent);
        }
        for (allow, pattern) in &group.rules {
            line(rng, if *allow { "Allow" } else { "Disallow" }, pattern);
        }
    }
    out
}

/// The bytes of a text in an encoding, and the `Content-Type`.
fn encoded(text: &str, rng: &mut ChaCha8Rng) -> (Vec<u8>, &'static str) {
    let mark = if rng.random_bool(0.5) { "\u{feff}" } else { "" };
    let wide = || [mark, text].concat();
    let (bytes, name): (Vec<u8>, _) = match rng.random_range(0..12) {
        0 => (
            wide().encode_utf16().flat_map(u16::to_le_bytes).collect(),
            "utf-16",
        ),
        1 => (
            wide().encode_utf16().flat_map(u16::to_be_bytes).collect(),
            "",
        ),
        2 => (
            wide()
                .chars()
                .flat_map(|c| u32::from(c).to_le_bytes())
                .collect(),
            "",
        ),
        3 => (
            wide()
                .chars()
                .flat_map(|c| u32::from(c).to_be_bytes())
                .collect(),
            "utf-8",
        ),
        4 if !text.contains('\u{feff}') && text.contains('\u{e9}') => (
            text.chars().map(|c| u8::try_from(c).unwrap()).collect(),
            "iso-8859-1",
        ),
        _ => (text.as_bytes().to_vec(), ["", "utf-8"].choose(rng).unwrap()),
    };
    let media = match name {
        "utf-16" => "text/plain; charset=UTF-16",
        "iso-8859-1" => "text/plain; charset=\"ISO-8859-1\"",
        "utf-8" => "text/plain;charset=utf-8",
        _ => *["text/plain", "text/html", "application/octet-stream"]
            .choose(rng)
            .unwrap(),
    };
    (bytes, media)
}

fn packed(bytes: &[u8], coding: &str) -> Vec<u8> {
    let level = Compression::fast();
    let written = match coding {
        "gzip" => {
            let mut to = GzEncoder::new(Vec::new(), level);
            to.write_all(bytes).and_then(|()| to.finish())
        }
        "deflate" => {
            let mut to = ZlibEncoder::new(Vec::new(), level);
            to.write_all(bytes).and_then(|()| to.finish())
        }
        "raw" => {
            let mut to = DeflateEncoder::new(Vec::new(), level);
            to.write_all(bytes).and_then(|()| to.finish())
        }
        "zstd" => zstd::bulk::compress(bytes, 1),
        other => panic!("{other}"),
    };
    written.unwrap()
}

/// The header lines and the body after one or several content codings.
fn coded(bytes: Vec<u8>, rng: &mut ChaCha8Rng) -> (String, Vec<u8>, bool) {
    let middle = bytes.len() / 2;
    let line = |name: &str| format!("Content-Encoding: {name}\r\n");
    let one = |coding: &str| packed(&bytes, coding);
    match rng.random_range(0..24) {
        0 => (line("gzip"), one("gzip"), true),
        1 => (line("GZip"), one("gzip"), true),
        2 => (line("x-gzip"), one("gzip"), true),
        3 => (line("\"gzip\""), one("gzip"), true),
        4 => (line("deflate"), one("deflate"), true),
        5 => (line("Deflate"), one("raw"), true),
        6 => (line("zstd"), one("zstd"), true),
        7 => (line("gzip, zstd"), packed(&one("gzip"), "zstd"), true),
        8 => (
            line("gzip") + &line("gzip"),
            packed(&one("gzip"), "gzip"),
            true,
        ),
        9 => {
            let members = [
                packed(&bytes[..middle], "gzip"),
                packed(&bytes[middle..], "gzip"),
            ];
            (line("gzip"), members.concat(), true)
        }
        10 => (String::new(), one("gzip"), true),
        11 => (line("identity, gzip;q=1,"), one("gzip"), true),
        12 => (line("compress"), bytes, false),
        13 => (
            line("aes128gcm"),
            bytes.iter().rev().copied().collect(),
            false,
        ),
        14 => (line("gzip"), bytes, false),
        15 => {
            let gzip = one("gzip");
            (line("gzip"), gzip[..gzip.len() - 5].to_vec(), false)
        }
        16 => (line("gzip, dcb"), one("gzip"), false),
        _ => (String::new(), bytes, true),
    }
}

/// A response with some framing of its length.
fn framed(status: &str, head: &str, body: &[u8], rng: &mut ChaCha8Rng) -> (Vec<u8>, bool) {
    let begin = format!("HTTP/1.1 {status}\r\nConnection: close\r\n{head}");
    let length = body.len();
    let of = |rest: &str, body: &[u8]| [begin.as_bytes(), rest.as_bytes(), b"\r\n", body].concat();
    let chunked = |bytes: &[u8], size: usize| {
        let mut out = Vec::new();
        for chunk in bytes.chunks(size) {
            out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            out.extend_from_slice(chunk);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"0\r\n\r\n");
        out
    };
    match rng.random_range(0..8) {
        0 => {
            let size = rng.random_range(1..4_000);
            (
                of("Transfer-Encoding: chunked\r\n", &chunked(body, size)),
                true,
            )
        }
        1 => (of("", body), true),
        2 => (
            of(&format!("Content-Length: {}\r\n", length + 9), body),
            false,
        ),
        3 => {
            let coded = chunked(&packed(body, "gzip"), 100);
            (of("Transfer-Encoding: gzip, chunked\r\n", &coded), true)
        }
        4 => (
            of("Transfer-Encoding: gzip\r\n", &packed(body, "gzip")),
            true,
        ),
        5 => (
            of(
                "Transfer-Encoding: chunked\r\n",
                &chunked(body, 5)[..length / 2],
            ),
            false,
        ),
        _ => (of(&format!("Content-Length: {length}\r\n"), body), true),
    }
}

fn drawn(rng: &mut ChaCha8Rng) -> Sent {
    let groups = drawn_groups(rng);
    let (bytes, media) = encoded(&text(&groups, rng), rng);
    let (codings, body, is_decodable) = coded(bytes, rng);
    let head = format!("Content-Type: {media}\r\n{codings}");
    let mut answers = BTreeMap::new();
    let (mut status, mut is_rules) = ("200 OK", true);
    let mut path = "/robots.txt";
    match rng.random_range(0..16) {
        0 => status = "203 Non-Authoritative Information",
        1 => (status, is_rules) = ("206 Partial Content", false),
        2 => (status, is_rules) = ("500 Oops", false),
        3 => (status, is_rules) = ("503 Later", false),
        4 => {
            path = "/rules/there.txt";
            let to = b"HTTP/1.1 301 Moved\r\nLocation: /rules/there.txt\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
            answers.insert("/robots.txt".to_owned(), to.to_vec());
        }
        _ => {}
    }
    let (answer, is_whole) = framed(status, &head, &body, rng);
    let how = answer[..answer.len().min(300)].to_vec();
    answers.insert(path.to_owned(), answer);
    Sent {
        groups,
        how,
        answers,
        is_readable: is_decodable && is_whole && is_rules,
    }
}

/// The requested addresses.
type Asked = Arc<Mutex<BTreeSet<String>>>;

/// Serves every host until the process of the test ends. Returns the requests.
fn serve(hosts: Vec<Sent>) -> (SocketAddr, Arc<Vec<Sent>>, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let (hosts, asked) = (Arc::new(hosts), Asked::default());
    let shared = (Arc::clone(&hosts), Arc::clone(&asked));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (hosts, asked) = shared.clone();
            std::thread::spawn(move || answer(stream, &hosts, &asked));
        }
    });
    (addr, hosts, asked)
}

fn answer(mut stream: TcpStream, hosts: &[Sent], asked: &Mutex<BTreeSet<String>>) -> Option<()> {
    let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
    while !head.ends_with(b"\r\n\r\n") {
        let n = stream.read(&mut buffer).ok().filter(|n| *n > 0)?;
        head.extend_from_slice(&buffer[..n]);
    }
    let head = String::from_utf8(head).ok()?;
    let path = head.split(' ').nth(1)?.to_owned();
    let host = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("host").then(|| value.to_owned())
    })?;
    let number: usize = host
        .strip_prefix('h')?
        .strip_suffix(".test")?
        .parse()
        .ok()?;
    asked.lock().unwrap().insert(format!("{host}{path}"));
    let own = hosts.get(number)?.answers.get(&path);
    let page = format!("<title>{host}</title><p>The page {path} of {host}.");
    let page = format!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{page}",
        page.len()
    );
    stream
        .write_all(own.map_or(page.as_bytes(), Vec::as_slice))
        .ok()
}

fn check(seed: u64, files: usize) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let hosts: Vec<Sent> = (0..files).map(|_| drawn(&mut rng)).collect();
    let mut urls = Vec::new();
    let mut wanted: Vec<(usize, &str)> = Vec::new();
    for number in 0..files {
        for path in PATHS.sample(&mut rng, 4) {
            urls.push(format!("http://h{number}.test{path}"));
            wanted.push((number, path));
        }
    }
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let (addr, hosts, asked) = serve(hosts);
    let text = JobText {
        seeds: &urls,
        network: "allow_private = true\nread_timeout = \"20s\"",
        ..JobText::default()
    };
    Job::at(addr, &text).run();
    let asked = asked.lock().unwrap();
    let (mut forbidden, mut allowed) = (0, 0);
    for (number, path) in wanted {
        let host = &hosts[number];
        let is_asked = asked.contains(&format!("h{number}.test{path}"));
        let expected = match (forbids(&host.groups, path), host.is_readable) {
            (Some(true), _) | (_, false) => false,
            (Some(false), true) => true,
            (None, true) => continue,
        };
        forbidden += usize::from(!expected);
        allowed += usize::from(expected);
        let (groups, how) = (&host.groups, host.how.escape_ascii());
        assert_eq!(is_asked, expected, "seed {seed}: {path} {groups:#?}\n{how}");
    }
    println!("{files} files: {forbidden} addresses forbidden, {allowed} allowed and asked");
    assert!(forbidden > files / 2 && allowed > files / 2);
}

#[test]
fn paths_that_the_plain_text_forbids_are_never_fetched() {
    check(1, 250);
}

#[test]
#[ignore = "a long form: some minutes"]
fn paths_that_20_000_plain_texts_forbid_are_never_fetched() {
    let time = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs()
    };
    let seed = std::env::var("SPOOR_ROBOTS_SEED").ok();
    let seed = seed.map_or_else(time, |seed| seed.parse().unwrap());
    println!("SPOOR_ROBOTS_SEED={seed}");
    for part in 0..10 {
        check(seed.wrapping_add(part), 2_000);
    }
}
