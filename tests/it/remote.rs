//! `spoor archive list|get` on a web server is as polite and as guarded as a crawl, whatever the
//! server, an index or a file there says.

use std::io::{BufRead, BufReader, Cursor, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};
use spoor::address::PageUrl;
use spoor::fetch::Options;
use spoor::fetch::parts::{PartError, PartFetcher};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::archive::warc;
use crate::support::{Live, Ran, spoor};

/// What a server sends.
enum Sent {
    /// These bytes, and then it closes the connection.
    Whole(Vec<u8>),
    /// These bytes, and then nothing until the client closes the connection.
    Held(Vec<u8>),
}

/// The requested path and range.
type Asked = (String, Option<(u64, u64)>);

/// A server, and its requests. A request without an answer was a bare connection.
struct Server {
    at: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    fn new(answer: impl Fn(&str, Option<(u64, u64)>) -> Sent + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heard = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let (path, range) = request(&stream);
                heard.lock().unwrap().push((path.clone(), range));
                // The client may have closed the connection.
                drop(match answer(&path, range) {
                    Sent::Whole(bytes) => stream.write_all(&bytes),
                    Sent::Held(bytes) => stream
                        .write_all(&bytes)
                        .and_then(|()| stream.read(&mut [0]).map(drop)),
                });
            }
        });
        Self { at, asked }
    }

    /// A server that must not get requests.
    fn forbidden() -> Self {
        Self::new(|_, _| Sent::Whole(whole("200 OK", "", b"a secret")))
    }

    /// A server with these files and a robots.txt that permits everything.
    fn of_files(files: Vec<(&'static str, Vec<u8>)>) -> Self {
        Self::new(move |path, range| {
            let file = files.iter().find(|(name, _)| *name == path);
            Sent::Whole(match file {
                Some((_, bytes)) => part(bytes, range),
                None => whole("404 Not Found", "", b""),
            })
        })
    }

    fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|(path, _)| path.clone()).collect()
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.at)
    }

    /// The result of `spoor archive list`.
    fn list(&self, path: &str) -> Ran {
        Ran::of(&mut archive(&["list", &self.url(path)]))
    }
}

fn archive(arguments: &[&str]) -> std::process::Command {
    spoor(&[&["archive"], arguments, &["--contact", "me@a.test"]].concat())
}

/// Reads a request.
fn request(stream: &TcpStream) -> Asked {
    let (mut path, mut range) = (String::new(), None);
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let line = line.to_ascii_lowercase();
        if let Some(rest) = line.strip_prefix("get ") {
            path = rest.split(' ').next().unwrap().to_owned();
        } else if let Some(bytes) = line.strip_prefix("range: bytes=") {
            let (from, to) = bytes.split_once('-').unwrap();
            range = Some((from.parse().unwrap(), to.parse().unwrap()));
        } else if line.is_empty() {
            break;
        }
    }
    (path, range)
}

fn whole(status: &str, head: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{head}\r\n");
    [head.as_bytes(), body].concat()
}

/// The requested part of a file.
fn part(bytes: &[u8], range: Option<(u64, u64)>) -> Vec<u8> {
    let Some((from, to)) = range else {
        return whole("200 OK", "", bytes);
    };
    let all = bytes.len() as u64;
    if from >= all {
        return whole(
            "416 Range",
            &format!("Content-Range: bytes */{all}\r\n"),
            b"",
        );
    }
    let to = to.min(all - 1);
    piece(&bytes[from as usize..=to as usize], from, all)
}

/// A part that begins at `from` of a file that claims to have `all` bytes.
fn piece(bytes: &[u8], from: u64, all: u64) -> Vec<u8> {
    let last = from + bytes.len() as u64 - 1;
    let head = format!("Content-Range: bytes {from}-{last}/{all}\r\n");
    whole("206 Part", &head, bytes)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// A line of an index for the capture of `http://a.test/N` in a file.
fn line(n: usize, file: &str) -> String {
    let file = serde_json::to_string(file).unwrap();
    format!(
        "test,a)/{n:04} 20260102030405 {{\"url\":\"http://a.test/{n:04}\",\"mime\":\"text/html\",\
         \"status\":\"200\",\"digest\":\"x\",\"length\":\"100\",\"offset\":\"0\",\"filename\":{file}}}\n"
    )
}

const NO: &[u8] = b"User-agent: *\nDisallow: /\n";

#[test]
fn rules_hold_however_they_are_sent() {
    let (agent, rule) = NO.split_at(14);
    let members = [gzip(agent), gzip(rule)].concat();
    let wide: Vec<u8> = String::from_utf8_lossy(NO)
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    // Brotli with the text in a block that is not compressed.
    let length = u32::try_from(NO.len() - 1).unwrap();
    let br = [&(length << 4 | 1 << 20).to_le_bytes()[..3], NO, &[3]].concat();
    let zstd = zstd::bulk::compress(NO, 1).unwrap();
    let forbidden = "robots.txt of the server forbids it";
    let unread = "nothing is fetched while robots.txt of the server cannot be read";
    let rows: Vec<(&str, &str, Vec<u8>, &str)> = vec![
        ("200 OK", "", NO.to_vec(), forbidden),
        ("200 OK", "Content-Encoding: gzip\r\n", gzip(NO), forbidden),
        ("200 OK", "Content-Encoding: GZIP\r\n", gzip(NO), forbidden),
        (
            "200 OK",
            "Content-Encoding: x-gzip\r\n",
            members.clone(),
            forbidden,
        ),
        ("200 OK", "Content-Encoding: gzip\r\n", members, forbidden),
        ("200 OK", "Content-Encoding: br\r\n", br, forbidden),
        (
            "200 OK",
            "Content-Encoding: gzip, gzip\r\n",
            gzip(&gzip(NO)),
            forbidden,
        ),
        ("200 OK", "Content-Encoding: zstd\r\n", zstd, forbidden),
        ("200 OK", "", gzip(NO), forbidden),
        ("200 OK", "", wide, forbidden),
        (
            "200 OK",
            "Content-Encoding: xz\r\n",
            b"\xfd7zXZ\0".to_vec(),
            unread,
        ),
        (
            "200 OK",
            "Content-Encoding: gzip\r\n",
            gzip(NO)[..20].to_vec(),
            unread,
        ),
        (
            "206 Part",
            "Content-Range: bytes 0-9/26\r\n",
            NO[..10].to_vec(),
            unread,
        ),
        ("304 Not Modified", "", Vec::new(), unread),
        ("429 Too Many", "", Vec::new(), unread),
        ("503 Busy", "", Vec::new(), unread),
        (
            "302 Found",
            "Location: /robots.txt?x\r\n",
            Vec::new(),
            unread,
        ),
    ];
    for (status, head, body, why) in rows {
        let answer = whole(status, head, &body);
        let server = Server::new(move |path, range| match path {
            path if path.starts_with("/robots.txt?") => {
                // Each redirect leads to another one.
                let to = format!("Location: {path}x\r\n");
                Sent::Whole(whole("302 Found", &to, b""))
            }
            "/robots.txt" => Sent::Whole(answer.clone()),
            _ => Sent::Whole(part(line(1, "a.warc").as_bytes(), range)),
        });
        let said = server.list("/all.cdxj").refused();
        assert!(said.contains(why), "{status} {head}: {said}");
        let asked = server.asked();
        let is_rules = |path: &String| path.starts_with("/robots.txt");
        assert!(asked.iter().all(is_rules), "{status} {head}: {asked:?}");
        assert!(asked.len() <= 6, "{asked:?}");
    }
    for status in ["403 Forbidden", "404 Not Found", "410 Gone"] {
        let server = Server::new(move |path, range| {
            Sent::Whole(match path {
                "/robots.txt" => whole(status, "", NO),
                _ => part(line(1, "a.warc").as_bytes(), range),
            })
        });
        let out = server.list("/all.cdxj").good();
        assert!(out.contains("http://a.test/0001"), "{status}: {out}");
    }
}

#[test]
fn any_number_is_a_pause_that_is_kept_or_refused() {
    let server = |delay: &str| {
        let rules = format!("User-agent: *\nCrawl-delay: {delay}\n");
        Server::of_files(vec![
            ("/robots.txt", rules.into_bytes()),
            ("/all.cdxj", line(1, "a.warc").into_bytes()),
        ])
    };
    for delay in [
        "86400",
        "601",
        "1e300",
        "inf",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999999999",
    ] {
        let server = server(delay);
        let said = server.list("/all.cdxj").refused();
        assert!(
            said.contains("pauses of more than 600 s"),
            "{delay}: {said}"
        );
        assert_eq!(server.asked(), ["/robots.txt"], "{delay}");
    }
    for delay in ["0", "-1", "NaN", "soon", "0.01", "1e-300"] {
        let out = server(delay).list("/all.cdxj").good();
        assert!(out.contains("http://a.test/0001"), "{delay}: {out}");
    }
    // A longer pause is announced when it begins, and no requests are sent during it.
    let server = server("500");
    let url = server.url("/all.cdxj");
    let mut waits = Live::start(&mut archive(&["list", &url]));
    let why = format!(
        "request to {}, as its robots.txt asks (Crawl-delay)",
        server.at
    );
    waits.says(&why);
    let said = waits.said();
    assert!(said.contains("waiting 500 s"), "{said}");
    assert_eq!(server.asked(), ["/robots.txt"]);
}

#[test]
fn a_server_that_asks_for_peace_is_left_in_peace() {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = (0..5).map(|n| line(n, "a.warc")).collect();
    let index = folder.path().join("all.cdxj");
    std::fs::write(&index, lines).unwrap();
    for asked in ["601", "86400", "99999999999999999"] {
        let head = format!("Retry-After: {asked}\r\n");
        let server = Server::new(move |path, _| {
            Sent::Whole(match path {
                "/robots.txt" => whole("404 None", "", b""),
                _ => whole("503 Busy", &head, b""),
            })
        });
        let (archives, saved) = (server.url("/"), folder.path().join("saved"));
        let (index, saved) = (index.to_str().unwrap(), saved.to_str().unwrap());
        let get = ["get", index, "--archives", &archives, "--all", saved];
        let ran = Ran::of(&mut archive(&get));
        assert_eq!(ran.status.code(), Some(1), "{ran:#?}");
        let left_out = ran
            .err
            .matches("the server asks to come back after")
            .count();
        assert_eq!(left_out, 5, "{ran:#?}");
        assert_eq!(server.asked(), ["/robots.txt", "/a.warc"], "{asked}");
    }
}

#[test]
fn several_sources_on_a_server_share_its_rules_and_its_clock() {
    let server = Server::of_files(vec![
        ("/a/all.cdxj", line(1, "a.warc").into_bytes()),
        ("/b/all.cdxj", line(2, "b.warc").into_bytes()),
    ]);
    let urls = ["/a/all.cdxj", "/b/all.cdxj"].map(|path| server.url(path));
    let out = Ran::of(&mut archive(&["list", &urls[0], &urls[1]])).good();
    assert_eq!(out.lines().count(), 2, "{out}");
    assert_eq!(
        server.asked(),
        ["/robots.txt", "/a/all.cdxj", "/b/all.cdxj"]
    );
}

/// Names with which an index could lead to other places.
fn leading(other: &str) -> Vec<String> {
    let (_, port) = other.split_once(':').unwrap();
    let mut names: Vec<String> = [
        "http://{}/x",
        "https://{}/x",
        "HTTP://{}/x",
        "//{}/x",
        "///{}/x",
        "/\\{}/x",
        "\\\\{}\\x",
        "http:\\\\{}/x",
        "http:/{}/x",
        "http:{}/x",
        "http:///{}/x",
        "http:/\\{}/x",
        "\thttp://{}/x",
        "ht\ntp://{}/x",
        " http://{}/x",
        "a/http://{}/x",
        "http:%2f%2f{}/x",
        "%2f%2f{}/x",
        "%5c%5c{}/x",
        "@{}/x",
        ":80@{}/x",
        "?@{}/x",
        "#@{}/x",
        "http://user:pw@{}/x",
        "ftp://{}/x",
        "file:///etc/passwd",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "%2e%2e/x",
        "%2E./x",
        ".%2e/x",
        "%252e%252e/x",
        "%25252e%25252e/x",
        "..%2fx",
        "..%5cx",
        "..\\x",
        "..;/x",
        "..;a=b/x",
        ".. /x",
        ".\t./x",
        "a/..",
        "..",
        "",
        "a//x",
        "%c0%ae%c0%ae/x",
    ]
    .iter()
    .map(|name| name.replace("{}", other))
    .collect();
    names.push(format!("http://127.0.0.2:{port}/x"));
    names.push(format!("http://localhost:{port}/x"));
    names.push(format!("http://[::1]:{port}/x"));
    names.push(format!("http://0x7f000001:{port}/x"));
    names
}

#[test]
fn no_name_in_an_index_leads_away() {
    let other = Server::forbidden();
    let names = leading(&other.at);
    let lines = names.iter().enumerate();
    let lines: String = lines.map(|(n, name)| line(n, name)).collect();
    let server = Server::of_files(vec![("/archives/sub/all.cdxj", lines.into_bytes())]);
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("saved");
    let url = server.url("/archives/sub/all.cdxj");
    let ran = Ran::of(&mut archive(&[
        "get",
        &url,
        "--all",
        saved.to_str().unwrap(),
    ]));
    assert_eq!(ran.status.code(), Some(1), "{ran:#?}");
    assert!(ran.out.starts_with("0 captures"), "{ran:#?}");
    // A ZipNum index names files as well.
    for name in &names {
        let small = format!("test,a)/ 2026\t{name}\t0\t100\t1\n");
        let server = Server::of_files(vec![("/archives/sub/all.idx", small.into_bytes())]);
        let said = server.list("/archives/sub/all.idx").refused();
        assert!(said.contains("spoor: "), "{name:?}: {said}");
        stays_in(&server);
    }
    stays_in(&server);
    assert_eq!(other.asked(), [""; 0]);
}

fn stays_in(server: &Server) {
    for path in server.asked() {
        let is_in = path == "/robots.txt" || path.starts_with("/archives/sub/");
        assert!(is_in && !path.contains(".."), "{path}");
    }
}

#[test]
fn usual_names_are_found_in_their_folder() {
    let server = Server::of_files(vec![]);
    for (name, path) in [
        ("a.warc.gz", "/x/a.warc.gz"),
        ("./a.warc.gz", "/x/a.warc.gz"),
        ("crawl data/1/a.warc", "/x/crawl%20data/1/a.warc"),
        ("what?#.warc", "/x/what%3f%23.warc"),
        ("..a/b..warc", "/x/..a/b..warc"),
        ("a%2bb.warc", "/x/a%2bb.warc"),
    ] {
        let lines = line(1, name);
        let index = Server::of_files(vec![("/all.cdxj", lines.into_bytes())]);
        let (url, archives) = (index.url("/all.cdxj"), server.url("/x"));
        let get = ["get", &url, "--archives", &archives];
        Ran::of(&mut archive(&get)).refused();
        assert_eq!(server.asked().last().unwrap(), path, "{name}");
    }
}

#[test]
fn a_robots_txt_redirects_to_no_special_address() {
    let other = Server::forbidden();
    let (_, port) = other.at.split_once(':').unwrap();
    let mut targets: Vec<String> = [
        "127.0.0.1",
        "127.0.0.2",
        "0x7f.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
    ]
    .iter()
    .map(|host| format!("http://{host}:{port}/robots.txt"))
    .collect();
    targets.push(format!("http://localhost:{port}/"));
    targets.push(format!("//127.0.0.1:{port}/"));
    targets.push("http://169.254.169.254/latest/meta-data".to_owned());
    targets.push("http://10.0.0.1/".to_owned());
    targets.push("http://0/".to_owned());
    for target in targets {
        let to = format!("Location: {target}\r\n");
        let server = Server::new(move |path, range| {
            Sent::Whole(match path {
                // A redirect on the same server counts as the same server.
                "/robots.txt" => whole("302 Found", "Location: /rules\r\n", b""),
                "/rules" => whole("301 Moved", &to, b""),
                _ => part(line(1, "a.warc").as_bytes(), range),
            })
        });
        let said = server.list("/all.cdxj").refused();
        assert!(
            said.contains("cannot be read: ") && said.contains("http://127.0.0.1"),
            "{target}: {said}"
        );
        assert_eq!(server.asked(), ["/robots.txt", "/rules"], "{target}");
    }
    assert_eq!(other.asked(), [""; 0]);
}

#[test]
fn a_part_that_moved_is_not_followed() {
    let other = Server::forbidden();
    let to = format!("Location: http://{}/x\r\n", other.at);
    let server = Server::new(move |path, _| {
        Sent::Whole(match path {
            "/robots.txt" => whole("404 None", "", b""),
            _ => whole("302 Found", &to, b""),
        })
    });
    let said = server.list("/all.cdxj").refused();
    assert!(said.contains("has moved to"), "{said}");
    assert_eq!(other.asked(), [""; 0]);
}

#[tokio::test]
async fn a_part_has_a_time_limit_as_a_whole() {
    let head = "HTTP/1.1 206 Part\r\nContent-Range: bytes 0-99/100\r\nContent-Length: 100\r\n\r\na";
    for sent in ["", head] {
        let server = Server::new(move |path, _| match path {
            "/robots.txt" => Sent::Whole(whole("404 None", "", b"")),
            _ => Sent::Held(sent.as_bytes().to_vec()),
        });
        let mut fetcher = PartFetcher::with(Options {
            contact: "me@a.test".to_owned(),
            total_timeout: Duration::from_millis(200),
            // A server that trickles restarts this timeout with each byte.
            read_timeout: Duration::from_secs(3_600),
            ..Options::default()
        })
        .unwrap();
        let url = PageUrl::parse(&server.url("/all.cdxj")).unwrap();
        let begun = Instant::now();
        let error = fetcher.part(&url, 0, 100).await.unwrap_err();
        assert!(matches!(error, PartError::Trickle { .. }), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(60));
        assert_eq!(server.asked(), ["/robots.txt", "/all.cdxj"]);
    }
}

#[test]
fn a_part_that_is_cut_is_no_end_of_a_file() {
    let lines: String = (0..9).map(|n| line(n, "a.warc")).collect();
    let server = Server::new(move |path, _| {
        Sent::Whole(match path {
            "/robots.txt" => whole("404 None", "", b""),
            _ => piece(&lines.as_bytes()[..300], 0, lines.len() as u64),
        })
    });
    let said = server.list("/all.cdxj").refused();
    assert!(
        said.contains("another part than it was asked for"),
        "{said}"
    );
}

/// A server that claims that its files have 2^60 bytes, and sends these bytes again and again.
fn endless(path: &'static str, index: Vec<u8>, bytes: &'static [u8]) -> Server {
    Server::new(move |asked, range| {
        let (from, to) = range.unwrap_or_default();
        Sent::Whole(match asked {
            "/robots.txt" => whole("404 None", "", b""),
            asked if asked == path => {
                let skipped = usize::try_from(from % bytes.len() as u64).unwrap();
                let sent = bytes.iter().cycle().skip(skipped);
                let length = usize::try_from(to.min((1 << 60) - 1) - from + 1).unwrap();
                piece(
                    &sent.take(length).copied().collect::<Vec<u8>>(),
                    from,
                    1 << 60,
                )
            }
            _ => part(&index, range),
        })
    })
}

#[test]
fn a_file_without_end_costs_few_requests() {
    // The end of a ZIP, and of a ZIP64: a list of 2^59 files, an end of 2^59 bytes.
    let mut ends = vec![
        b"PK\x05\x06".repeat(16),
        [b"PK\x05\x06", &[0xFF; 18][..]].concat(),
    ];
    let n = |n: u64| n.to_le_bytes();
    for (record, files, list) in [(44, 1 << 53, 1 << 59), (1 << 59, 1, 46)] {
        let end_64 = [
            b"PK\x06\x06",
            &n(record)[..],
            &[45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &n(files),
            &n(files),
            &n(list),
            &n(1 << 58),
        ]
        .concat();
        let locator = [
            b"PK\x06\x07",
            &[0; 4][..],
            &n((1 << 60) - 98),
            &[1, 0, 0, 0],
        ]
        .concat();
        ends.push(
            [
                &end_64[..],
                &locator,
                b"PK\x05\x06",
                &[0xFF; 16][..],
                &[0, 0],
            ]
            .concat(),
        );
    }
    for end in ends {
        // Makes the file end with it.
        let length = end.len().next_power_of_two();
        let bytes = [vec![0; length - end.len()], end].concat().leak();
        let server = endless("/a.wacz", Vec::new(), bytes);
        let said = server.list("/a.wacz").refused();
        assert!(said.contains("not a WACZ"), "{said}");
        assert!(server.asked().len() <= 6, "{:?}", server.asked());
    }
    let server = endless("/all.cdxj", Vec::new(), b"a");
    let said = server.list("/all.cdxj").refused();
    assert!(said.contains("more than 1 MiB"), "{said}");
    assert!(server.asked().len() < 40, "{}", server.asked().len());
    // No record begins where the index says, and the file has no end.
    for place in [r#""length":"0","#, r#""length":"1152921504606846976","#] {
        let index = line(1, "a.warc").replace(r#""length":"100","#, place);
        let server = endless("/a.warc", index.into_bytes(), &[0; 4]);
        let url = server.url("/all.cdxj");
        let said = Ran::of(&mut archive(&["get", &url])).refused();
        assert!(said.contains("does not begin where it should"), "{said}");
        assert!(server.asked().len() < 16, "{}", server.asked().len());
    }
}

/// A file for a ZIP: its name, its bytes there, its length, and whether it is deflated.
type File<'f> = (String, &'f [u8], u32, bool);

/// A ZIP with these statements about its files.
fn zipped(files: &[File<'_>], crc: u32) -> Vec<u8> {
    let (mut out, mut list) = (Vec::new(), Vec::new());
    let (n2, n4) = (u16::to_le_bytes, u32::to_le_bytes);
    for (name, bytes, length, is_deflated) in files {
        let method = if *is_deflated { 8 } else { 0 };
        let fields = [
            &n2(20)[..],
            &n2(0),
            &n2(method),
            &n4(0),
            &n4(crc),
            &n4(u32::try_from(bytes.len()).unwrap()),
            &n4(*length),
            &n2(u16::try_from(name.len()).unwrap()),
            &n2(0),
        ]
        .concat();
        let begin = n4(u32::try_from(out.len()).unwrap());
        list.extend(
            [
                b"PK\x01\x02",
                &n2(20)[..],
                &fields,
                &[0; 10],
                &begin,
                name.as_bytes(),
            ]
            .concat(),
        );
        out.extend([b"PK\x03\x04", &fields[..], name.as_bytes(), bytes].concat());
    }
    let (begin, length) = (out.len(), list.len());
    let count = n2(u16::try_from(files.len()).unwrap());
    let end = [
        b"PK\x05\x06",
        &[0; 4][..],
        &count,
        &count,
        &n4(u32::try_from(length).unwrap()),
        &n4(u32::try_from(begin).unwrap()),
        &n2(0),
    ];
    [out, list, end.concat()].concat()
}

/// Zeros, deflated.
fn zeros(mib: usize) -> Vec<u8> {
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::fast());
    for _ in 0..mib {
        packed.write_all(&vec![0; 1 << 20]).unwrap();
    }
    packed.finish().unwrap()
}

/// Runs a command with at most this much address space, if the system can limit it.
fn within(mib: u32, command: &std::process::Command) -> Ran {
    let limit = format!("ulimit -v {}; exec \"$0\" \"$@\"", mib << 10);
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", &limit]).arg(command.get_program());
    limited.args(command.get_args());
    Ran::of(&mut limited)
}

#[test]
fn bombs_in_a_wacz_are_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let bomb = zeros(255);
    let index: String = (0..16).map(|n| line(n, &format!("z{n}.bin"))).collect();
    let of = |index: File<'_>, length: u32| {
        let mut files = vec![index];
        files.extend((0..16).map(|n| (format!("archive/z{n}.bin"), &bomb[..], length, true)));
        zipped(&files, 0)
    };
    let stored = (
        "indexes/index.cdxj".to_owned(),
        index.as_bytes(),
        index.len() as u32,
        false,
    );
    // The stated length is true, or too small.
    for (length, why) in [
        (255 << 20, "more than 32 MiB"),
        (1_000, "in a way that cannot be undone"),
    ] {
        let wacz = of(stored.clone(), length);
        let path = folder.path().join("a.wacz");
        std::fs::write(&path, &wacz).unwrap();
        let server = Server::of_files(vec![("/a.wacz", wacz)]);
        for place in [path.to_str().unwrap(), &server.url("/a.wacz")] {
            let listed = within(1_500, &archive(&["list", place])).good();
            assert_eq!(listed.lines().count(), 16, "{listed}");
            let said = within(1_500, &archive(&["get", place])).refused();
            assert!(said.contains(why) && said.contains("archive/z"), "{said}");
        }
    }
    // An index of zeros.
    let packed = ("indexes/index.cdxj".to_owned(), &bomb[..], 255 << 20, true);
    std::fs::write(folder.path().join("b.wacz"), of(packed, 0)).unwrap();
    let path = folder.path().join("b.wacz");
    let said = within(1_500, &archive(&["list", path.to_str().unwrap()])).refused();
    assert!(said.contains("more than 32 MiB"), "{said}");
}

/// Compressed files in a ZIP are read unless they are bombs.
#[test]
fn a_compressed_index_and_archive_are_read() {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let deflated = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    let record = warc(0);
    let length = format!(r#""length":"{}""#, record.len());
    let index = line(1, "a.warc").replace(r#""length":"100""#, &length);
    let index = index.replace("http://a.test/0001", "http://a.test/0");
    for (name, bytes) in [
        ("indexes/index.cdxj", index.as_bytes()),
        ("archive/a.warc", &record),
    ] {
        zip.start_file(name, deflated).unwrap();
        zip.write_all(bytes).unwrap();
    }
    let server = Server::of_files(vec![("/a.wacz", zip.finish().unwrap().into_inner())]);
    let listed = server.list("/a.wacz").good();
    assert!(listed.contains("http://a.test/0"), "{listed}");
    let url = server.url("/a.wacz");
    let got = Ran::of(&mut archive(&["get", &url])).good();
    assert!(got.contains("Page 0"), "{got}");
}

#[test]
fn all_that_a_wacz_has_compressed_is_bounded_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (part, crc) = (zeros(15), {
        let mut crc = flate2::Crc::new();
        crc.update(&vec![0; 15 << 20]);
        crc.sum()
    });
    let index: String = (0..16).map(|n| line(n, &format!("z{n}.bin"))).collect();
    let mut files = vec![(
        "indexes/index.cdxj".to_owned(),
        index.as_bytes(),
        index.len() as u32,
        false,
    )];
    files.extend((0..16).map(|n| (format!("archive/z{n}.bin"), &part[..], 15 << 20, true)));
    let path = folder.path().join("a.wacz");
    std::fs::write(&path, zipped(&files, crc)).unwrap();
    let saved = folder.path().join("saved");
    let get = [
        "get",
        path.to_str().unwrap(),
        "--all",
        saved.to_str().unwrap(),
    ];
    let ran = Ran::of(&mut archive(&get));
    // Two files of 15 MiB have room; they contain no record.
    let reasons = |word: &str| ran.err.lines().filter(|line| line.contains(word)).count();
    assert_eq!(reasons("more than 32 MiB"), 14, "{ran:#?}");
    assert_eq!(reasons("no record of"), 2, "{ran:#?}");
}

#[test]
fn blocks_of_an_index_are_bounded() {
    let long = gzip(&vec![b'a'; 200 << 20]);
    let many = gzip(&b" \n".repeat(40 << 20));
    let blocks = |bytes: &[u8]| {
        let line = format!("test,a)/ 2026\tcdx.gz\t0\t{}\t1\n", bytes.len());
        vec![("/all.idx", line.into_bytes()), ("/cdx.gz", bytes.to_vec())]
    };
    for bytes in [long, many] {
        let server = Server::of_files(blocks(&bytes));
        let url = server.url("/all.idx");
        let said = within(1_000, &archive(&["list", &url])).refused();
        assert!(said.contains("the block at byte 0 is too large"), "{said}");
    }
    let line = b"test,a)/ 2026\tcdx.gz\t0\t1073741824\t1\n".to_vec();
    let server = Server::of_files(vec![("/all.idx", line)]);
    let said = server.list("/all.idx").refused();
    assert!(said.contains("the block at byte 0 is too large"), "{said}");
    assert!(!server.asked().contains(&"/cdx.gz".to_owned()));
}
