//! Archives on web servers that mean harm, or that say what a reader must do: commands that
//! read them keep what a crawl promises.

use std::io::{BufRead, BufReader, Cursor, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use flate2::Compression;
use flate2::write::GzEncoder;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::archive::{gzip, warc};
use crate::support::{Live, Ran, spoor};

/// What a server answers to a path and the range that is asked of it, as it is on the wire.
type Answer = dyn FnMut(&str, Option<(u64, u64)>) -> Vec<u8> + Send;

/// A server that counts its requests.
struct Server {
    addr: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Server {
    fn new(answer: impl FnMut(&str, Option<(u64, u64)>) -> Vec<u8> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        let mut answer: Box<Answer> = Box::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
                // The client may have gone.
                serve(stream.unwrap(), &mut answer).ok();
            }
        });
        Self { addr, requests }
    }

    /// One that has these files, and this answer to the question for robots.txt.
    fn with(robots: Vec<u8>, files: Vec<(&'static str, Vec<u8>)>) -> Self {
        Self::new(move |path, range| {
            if path == "/robots.txt" {
                return robots.clone();
            }
            let file = files.iter().find(|(name, _)| path[1..] == **name);
            file.map_or_else(
                || plain("404 Not Found", "", b""),
                |(_, bytes)| part(bytes, range),
            )
        })
    }

    fn asked(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    fn run(&self, command: &str, file: &str, more: &[&str]) -> Ran {
        let far = format!("http://{}/{file}", self.addr);
        let arguments = ["archive", command, &far, "--contact", "me@a.test"];
        Ran::of(&mut spoor(&[&arguments, more].concat()))
    }
}

fn serve(stream: TcpStream, answer: &mut Box<Answer>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut first, mut range) = (String::new(), None);
    stream.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(bytes) = line.strip_prefix("range: bytes=") {
            let (from, to) = bytes.split_once('-').unwrap();
            range = Some((from.parse().unwrap(), to.parse().unwrap()));
        }
    }
    let path = first.split(' ').nth(1).unwrap_or("/");
    stream.get_mut().write_all(&answer(path, range))
}

fn plain(status: &str, head: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nConnection: close\r\n{head}Content-Length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

fn part(bytes: &[u8], range: Option<(u64, u64)>) -> Vec<u8> {
    let all = bytes.len();
    let Some((from, to)) = range else {
        return plain("200 OK", "", bytes);
    };
    if from >= all as u64 {
        return plain(
            "416 Range",
            &format!("Content-Range: bytes */{all}\r\n"),
            b"",
        );
    }
    let (from, to) = (from as usize, (to as usize).min(all - 1));
    let head = format!("Content-Range: bytes {from}-{to}/{all}\r\n");
    plain("206 Part", &head, &bytes[from..=to])
}

/// No robots.txt.
fn open() -> Vec<u8> {
    plain("404 Not Found", "", b"")
}

fn line(file: &str) -> Vec<u8> {
    let length = warc(0).len().to_string();
    let fields = serde_json::json!({
        "url": "http://a.test/0", "status": "200", "mime": "text/html",
        "filename": file, "offset": "0", "length": length
    });
    format!("test,a)/0 20260102030405 {fields}\n").into_bytes()
}

#[test]
fn a_robots_txt_is_obeyed_however_it_is_sent() {
    let text = b"User-agent: spoor\nDisallow: /\n";
    let half = text.len() / 2;
    let members = [gzip(&text[..half]), gzip(&text[half..])].concat();
    let wide: Vec<u8> = "\u{feff}User-agent: *\nDisallow: /\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let coded = |coding: &str, body: &[u8]| {
        plain("200 OK", &format!("Content-Encoding: {coding}\r\n"), body)
    };
    let forbids = "robots.txt of the server forbids it";
    let unread = "robots.txt of the server cannot be read";
    for (answer, says) in [
        (plain("200 OK", "", text), forbids),
        (plain("200 OK", "", &wide), forbids),
        (coded("gzip", &gzip(text)), forbids),
        (coded("GZIP", &gzip(text)), forbids),
        (coded("x-gzip", &members), forbids),
        (coded("gzip, gzip", &gzip(&gzip(text))), forbids),
        (
            coded("zstd", &zstd::bulk::compress(text, 3).unwrap()),
            forbids,
        ),
        (coded("compress", text), unread),
        (coded("gzip", &gzip(text)[..20]), unread),
        (
            plain("206 Part", "Content-Range: bytes 0-9/30\r\n", &text[..10]),
            unread,
        ),
        (plain("500 No", "", b""), unread),
        (plain("304 Same", "", b""), unread),
    ] {
        let shown = String::from_utf8_lossy(&answer).into_owned();
        let server = Server::with(answer, vec![("all.cdxj", line("a.warc"))]);
        let why = server.run("list", "all.cdxj", &[]).refused();
        assert!(why.contains(says), "{shown}: {why}");
        let asked = server.asked();
        assert_eq!(asked, 1, "{shown}");
    }
    let mut hops = 0;
    let server = Server::new(move |_, _| {
        hops += 1;
        plain("302 Found", &format!("Location: /{hops}\r\n"), b"")
    });
    let why = server.run("list", "all.cdxj", &[]).refused();
    assert!(why.contains("redirected more than 5 times"), "{why}");
    assert_eq!(server.asked(), 6);
}

#[test]
fn a_robots_txt_leads_to_no_special_address() {
    let inner = Server::with(plain("200 OK", "", b"User-agent: *\nAllow: /\n"), vec![]);
    for to in [
        format!("http://{}/robots.txt", inner.addr),
        format!("http://localhost:{}/robots.txt", inner.addr.port()),
        format!("http://[::ffff:127.0.0.1]:{}/", inner.addr.port()),
    ] {
        let moved = plain("302 Found", &format!("Location: {to}\r\n"), b"");
        let server = Server::with(moved, vec![("all.cdxj", line("a.warc"))]);
        let why = server.run("list", "all.cdxj", &[]).refused();
        assert!(why.contains("cannot be read"), "{to}: {why}");
        assert_eq!(server.asked(), 1, "{to}");
    }
    assert_eq!(inner.asked(), 0);
}

#[test]
fn any_crawl_delay_is_kept_or_refused() {
    let files = || vec![("all.cdxj", line("a.warc"))];
    let robots = |delay: &str| {
        let text = format!("User-agent: *\nCrawl-delay: {delay}\n");
        plain("200 OK", "", text.as_bytes())
    };
    for delay in [
        "1e300",
        "inf",
        "99999999999999999999999999",
        "18446744073709551615",
        "86400",
    ] {
        let server = Server::with(robots(delay), files());
        let ran = server.run("list", "all.cdxj", &[]);
        // What is no number is no delay.
        if ran.status.success() {
            assert!(ran.out.contains("http://a.test/0"), "{delay}: {ran:?}");
            continue;
        }
        let why = ran.refused();
        assert!(why.contains("asks for a pause of"), "{delay}: {why}");
        assert_eq!(server.asked(), 1, "{delay}");
    }
    let server = Server::with(robots("2"), files());
    let ran = server.run("list", "all.cdxj", &[]);
    let says = "waiting for 2 s, the pause between two requests to 127.0.0.1";
    assert!(ran.err.contains(says), "{}", ran.err);
    assert!(ran.good().contains("http://a.test/0"));
}

#[test]
fn an_index_leads_to_no_other_server() {
    let inner = Server::with(open(), vec![("a.warc", warc(0))]);
    let port = inner.addr.port();
    for name in [
        format!("http://127.0.0.1:{port}/a.warc"),
        format!("//127.0.0.1:{port}/a.warc"),
        format!("\\\\127.0.0.1:{port}\\a.warc"),
        format!("http:\\\\127.0.0.1:{port}\\a.warc"),
        format!("http://user:word@127.0.0.1:{port}/a.warc"),
        "%2e%2e/a.warc".to_owned(),
        "..\\a.warc".to_owned(),
    ] {
        let server = Server::with(open(), vec![("all.cdxj", line(&name))]);
        let ran = server.run("get", "all.cdxj", &["--url", "http://a.test/0"]);
        let why = ran.refused();
        assert!(
            why.contains("is no name of a file beneath"),
            "{name}: {why}"
        );
        let (key, time) = ("test,a)/0", "20260102030405");
        let small = format!("{key} {time}\t{name}\t0\t10\t1\n");
        let server = Server::with(open(), vec![("all.idx", small.into_bytes())]);
        let why = server.run("list", "all.idx", &[]).refused();
        assert!(
            why.contains("is no name of a file beneath"),
            "{name}: {why}"
        );
    }
    assert_eq!(inner.asked(), 0);
}

/// Zeros that a ZIP or gzip makes small.
fn zeros(mib: usize) -> Vec<u8> {
    vec![0; mib << 20]
}

fn wacz(members: &[(&str, Vec<u8>, CompressionMethod)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes, method) in members {
        let options = SimpleFileOptions::default().compression_method(*method);
        zip.start_file(*name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Of a WACZ only the index is decompressed, and within a bound; the peak of the whole
/// program stays below what one of the bombs would take.
#[test]
fn a_wacz_of_bombs_is_listed_in_little_memory() {
    let bomb = |name| (name, zeros(100), CompressionMethod::Deflated);
    let index = line("a.bin");
    let stored = ("indexes/index.cdxj", index, CompressionMethod::Stored);
    let bytes = wacz(&[bomb("archive/a.bin"), bomb("archive/b.bin"), stored]);
    let server = Server::with(open(), vec![("all.wacz", bytes)]);
    let far = format!("http://{}/all.wacz", server.addr);
    let contact = ["--contact", "me@a.test"];
    let arguments = [&["archive", "list", &far][..], &contact].concat();
    let (ran, peak) = Live::start(&mut spoor(&arguments)).ended_with_peak();
    assert!(ran.good().contains("http://a.test/0"));
    assert!(peak < 80 << 10, "{peak} KiB");
    let why = server.run("get", "all.wacz", &["--url", "http://a.test/0"]);
    let why = why.refused();
    assert!(
        why.contains("which is more than is read of a WACZ"),
        "{why}"
    );

    let index = (
        "indexes/index.cdxj",
        zeros(100),
        CompressionMethod::Deflated,
    );
    let server = Server::with(open(), vec![("all.wacz", wacz(&[index]))]);
    let why = server.run("list", "all.wacz", &[]).refused();
    assert!(why.contains("more than 48 MiB"), "{why}");
}

#[test]
fn a_block_of_an_index_is_bounded() {
    let long = vec![b'x'; 2 << 20];
    let many = b"test,a)/0 20260102030405 {}\n".repeat(3 << 20);
    for (lines, says) in [
        (long, "a line of more than 1 MiB"),
        (many, "more than 64 MiB"),
    ] {
        let mut block = GzEncoder::new(Vec::new(), Compression::best());
        block.write_all(&lines).unwrap();
        let block = block.finish().unwrap();
        let small = format!("test,a)/ 20260102030405\tall.gz\t0\t{}\t1\n", block.len());
        let files = vec![("all.idx", small.into_bytes()), ("all.gz", block)];
        let server = Server::with(open(), files);
        let url = ["--url", "http://a.test/zzz"];
        let why = server.run("list", "all.idx", &url).refused();
        assert!(why.contains(says), "{why}");
    }
}

/// A file that claims to be endless, and looks like the end of a ZIP everywhere.
#[test]
fn the_search_for_the_list_of_a_wacz_ends() {
    let asked = Arc::new(Mutex::new(0_u64));
    let sum = Arc::clone(&asked);
    let server = Server::new(move |path, range| {
        let Some((from, to)) = range.filter(|_| path != "/robots.txt") else {
            return open();
        };
        let length = (to - from + 1).min(1 << 20) as usize;
        *sum.lock().unwrap() += length as u64;
        let body = b"PK\x05\x06\0\0\0\0".repeat(length / 8 + 1);
        let head = format!("Content-Range: bytes {from}-{to}/{}\r\n", 1_u64 << 60);
        plain("206 Part", &head, &body[..length])
    });
    server.run("list", "all.wacz", &[]).refused();
    assert!(server.asked() < 100, "{}", server.asked());
    assert!(*asked.lock().unwrap() <= 5 << 20);
}

/// What the ZIP compresses is read within the bound.
#[test]
fn a_compressed_index_is_read() {
    let index = (
        "indexes/index.cdxj",
        line("a.warc"),
        CompressionMethod::Deflated,
    );
    let archive = ("archive/a.warc", warc(0), CompressionMethod::Deflated);
    let server = Server::with(open(), vec![("all.wacz", wacz(&[index, archive]))]);
    let listed = server.run("list", "all.wacz", &[]).good();
    assert!(listed.contains("http://a.test/0"), "{listed}");
    let got = server.run("get", "all.wacz", &["--url", "http://a.test/0"]);
    assert!(got.good().contains("Page 0"));
}
