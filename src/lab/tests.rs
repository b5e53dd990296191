//! The lab against real sockets and a real folder.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Status, head in lower case, and body of one answer.
struct Reply {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// Sends `request` unchanged and reads until the server closes.
async fn raw(addr: SocketAddr, request: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    all
}

async fn ask(addr: SocketAddr, method: &str, host: &str, target: &str) -> Reply {
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: probe\r\nConnection: close\r\n\r\n"
    );
    let all = raw(addr, &request).await;
    let end = all.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(all[..end].to_vec()).unwrap();
    Reply {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head,
        body: all[end + 4..].to_vec(),
    }
}

async fn get(addr: SocketAddr, host: &str, target: &str) -> Reply {
    ask(addr, "GET", host, target).await
}

fn put(root: &Path, name: &str, text: &[u8]) {
    let file = root.join(name);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

/// A small tree, with a file beside it that must never be served.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    put(root, "secret.txt", b"secret");
    put(root, "web/top.txt", b"secret");
    put(root, "web/a.test/index.html", b"<p>home of a");
    put(root, "web/a.test/x/index.html", b"<p>x of a");
    put(root, "web/a.test/x/caf\u{e9}.html", b"<p>coffee");
    put(
        root,
        "web/a.test/old.html",
        b"<meta charset=iso-8859-1><p>caf\xe9",
    );
    put(root, "web/a.test/robots.txt", b"User-agent: *\nDisallow:\n");
    put(root, "web/a.test/real.png", b"not really");
    put(root, "web/a.test/data.bin", b"\0\x01");
    put(root, "web/b.test/index.html", b"<p>home of b");
    put(
        root,
        "web/redirects.tsv",
        b"url\tlocation\nhttp://a.test/moved.html\thttp://b.test/\n\
          http://a.test/m?id=7\t/x/\nhttp://c.test/\thttp://a.test/\n",
    );
    put(
        root,
        "web/images.tsv",
        b"url\twidth\theight\tkind\ton_disk\tpages\ttopics\talt\n\
          http://a.test/i/one.png\t40\t30\tgenerated\t0\t1\t-\tA \"quoted\" alt\n\
          http://a.test/i/two.png?9\t40\t30\tgenerated\t0\t1\t-\t\n\
          http://a.test/i/p.jpg\t33\t20\tgenerated\t0\t1\t-\t\n\
          http://a.test/i/p.jpeg\t33\t20\tgenerated\t0\t1\t-\t\n\
          http://a.test/i/s.gif\t1\t1\tgenerated\t0\t1\t-\t\n\
          http://a.test/i/t.gif\t1\t1\tgenerated\t0\t1\t-\t\n\
          http://a.test/i/s.webp\t5\t70\tgenerated\t0\t1\t-\t\n\
          http://a.test/i/s.bmp\t7\t3\tgenerated\t0\t1\t-\t\n\
          http://pix.test/v.svg\t300\t200\tgenerated\t0\t1\t-\t\n\
          http://a.test/i/wide.png\t5000\t0\tgenerated\t0\t1\t-\t\n\
          http://a.test/real.png\t9\t9\treal\t1\t1\t-\t\n",
    );
    dir
}

async fn started(lab: Lab) -> Running {
    spawn(lab, LOOPBACK).await.unwrap()
}

#[tokio::test]
async fn hosts_paths_and_types() {
    let dir = folder();
    let lab = started(Lab::open(dir.path().join("web")).unwrap()).await;
    let at = lab.addr;
    for (host, target, kind, body) in [
        ("a.test", "/", "text/html; charset=utf-8", "<p>home of a"),
        (
            "A.Test:8080",
            "/",
            "text/html; charset=utf-8",
            "<p>home of a",
        ),
        (
            "a.test.",
            "/?q=1",
            "text/html; charset=utf-8",
            "<p>home of a",
        ),
        ("b.test", "/", "text/html; charset=utf-8", "<p>home of b"),
        ("a.test", "/x/", "text/html; charset=utf-8", "<p>x of a"),
        (
            "a.test",
            "/x/caf%C3%A9.html?v=2",
            "text/html; charset=utf-8",
            "<p>coffee",
        ),
        (
            "a.test",
            "/robots.txt",
            "text/plain; charset=utf-8",
            "User-agent: *\nDisallow:\n",
        ),
        ("a.test", "/real.png", "image/png", "not really"),
        ("a.test", "/data.bin", "application/octet-stream", "\0\x01"),
    ] {
        let reply = get(at, host, target).await;
        assert_eq!(reply.status, 200, "{host}{target}");
        assert_eq!(reply.header("content-type"), Some(kind), "{host}{target}");
        assert_eq!(reply.body, body.as_bytes(), "{host}{target}");
    }
    let legacy = get(at, "a.test", "/old.html").await;
    assert_eq!(legacy.header("content-type"), Some("text/html"));
    for (host, target) in [
        ("a.test", "/none.html"),
        ("a.test", "/x"),
        ("a.test", "/index.html/"),
        ("unknown.test", "/"),
        ("", "/"),
        ("redirects.tsv", "/"),
    ] {
        let reply = get(at, host, target).await;
        assert_eq!(reply.status, 404, "{host}{target}");
        assert!(String::from_utf8_lossy(&reply.body).contains("<h1>Not Found</h1>"));
    }
    assert_eq!(ask(at, "POST", "a.test", "/").await.status, 405);
    // In the form of a proxy request: the target overrides the header.
    let all = raw(
        at,
        "GET http://b.test/ HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert!(all.ends_with(b"<p>home of b"));
    lab.stop().await.unwrap();
    assert!(TcpStream::connect(at).await.is_err(), "it still listens");
}

#[tokio::test]
async fn head_sends_the_length_and_no_body() {
    let dir = folder();
    let lab = started(Lab::open(dir.path().join("web")).unwrap()).await;
    for target in ["/", "/i/p.jpg", "/none"] {
        let whole = get(lab.addr, "a.test", target).await;
        let head = ask(lab.addr, "HEAD", "a.test", target).await;
        assert_eq!(head.status, whole.status);
        assert!(head.body.is_empty());
        let length = whole.body.len().to_string();
        assert_eq!(head.header("content-length"), Some(length.as_str()));
    }
}

#[tokio::test]
async fn text_is_compressed_for_those_who_accept_it() {
    let dir = folder();
    let lab = Lab::open(dir.path().join("web")).unwrap().compressed();
    let lab = started(lab).await;
    let head = "Host: a.test\r\nConnection: close\r\nAccept-Encoding: br, gzip\r\n\r\n";
    let all = raw(lab.addr, &format!("GET / HTTP/1.1\r\n{head}")).await;
    let end = all.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let mut body = String::new();
    let mut packed = flate2::read::GzDecoder::new(&all[end + 4..]);
    std::io::Read::read_to_string(&mut packed, &mut body).unwrap();
    assert_eq!(body, "<p>home of a");
    assert_eq!(get(lab.addr, "a.test", "/").await.body, b"<p>home of a");
    let all = raw(lab.addr, &format!("GET /data.bin HTTP/1.1\r\n{head}")).await;
    assert!(all.ends_with(b"\r\n\r\n\0\x01"));
    lab.stop().await.unwrap();
}

#[tokio::test]
async fn traversal_is_refused() {
    let dir = folder();
    let root = dir.path().join("web");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("../../secret.txt", root.join("a.test/link.txt")).unwrap();
        std::os::unix::fs::symlink("../b.test", root.join("a.test/sibling")).unwrap();
        std::os::unix::fs::symlink("..", root.join("up.test")).unwrap();
        std::os::unix::fs::symlink(".", root.join("same.test")).unwrap();
    }
    let lab = started(Lab::open(&root).unwrap()).await;
    for (host, target) in [
        ("a.test", "/../top.txt"),
        ("a.test", "/../../secret.txt"),
        ("a.test", "/%2e%2e/top.txt"),
        ("a.test", "/x/%2E%2E/%2e%2e/top.txt"),
        ("a.test", "/..%2ftop.txt"),
        ("a.test", "/%2e%2e%2ftop.txt"),
        ("a.test", "/..%5ctop.txt"),
        ("a.test", "//etc/passwd"),
        ("a.test", "/%2fetc/passwd"),
        ("a.test", "/index.html%00.png"),
        ("a.test", "/link.txt"),
        ("a.test", "/sibling/index.html"),
        ("up.test", "/secret.txt"),
        ("same.test", "/top.txt"),
        ("..", "/secret.txt"),
        (".", "/top.txt"),
    ] {
        let reply = get(lab.addr, host, target).await;
        assert!(
            matches!(reply.status, 400 | 404),
            "{host}{target}: {}",
            reply.status
        );
        assert!(
            !reply.body.windows(6).any(|w| w == b"secret"),
            "{host}{target}"
        );
    }
}

#[tokio::test]
async fn redirects_look_at_the_query_first() {
    let dir = folder();
    let lab = started(Lab::open(dir.path().join("web")).unwrap()).await;
    for (host, target, location) in [
        ("a.test", "/moved.html", Some("http://b.test/")),
        ("a.test", "/moved.html?from=mail", Some("http://b.test/")),
        ("a.test", "/m?id=7", Some("/x/")),
        ("a.test", "/m?id=8", None),
        ("a.test", "/m", None),
        ("c.test", "/", Some("http://a.test/")),
    ] {
        let reply = get(lab.addr, host, target).await;
        assert_eq!(reply.status, if location.is_some() { 301 } else { 404 });
        assert_eq!(reply.header("location"), location, "{host}{target}");
    }
}

#[tokio::test]
async fn pictures_have_their_size_and_differ_by_address() {
    let dir = folder();
    let lab = started(Lab::open(dir.path().join("web")).unwrap()).await;
    let mut seen = std::collections::HashSet::new();
    for (target, kind, size) in [
        ("/i/one.png", "image/png", (40, 30)),
        ("/i/two.png?9", "image/png", (40, 30)),
        ("/i/p.jpg", "image/jpeg", (33, 20)),
        ("/i/p.jpeg", "image/jpeg", (33, 20)),
        ("/i/s.gif", "image/gif", (1, 1)),
        ("/i/t.gif", "image/gif", (1, 1)),
        ("/i/s.webp", "image/webp", (5, 70)),
        ("/i/s.bmp", "image/bmp", (7, 3)),
        ("/i/wide.png", "image/png", (4096, 1)),
    ] {
        let reply = get(lab.addr, "a.test", target).await;
        assert_eq!(reply.status, 200, "{target}");
        assert_eq!(reply.header("content-type"), Some(kind));
        let format = image::ImageFormat::from_mime_type(kind).unwrap();
        let decoded = image::load_from_memory_with_format(&reply.body, format).unwrap();
        assert_eq!((decoded.width(), decoded.height()), size, "{target}");
        assert_eq!(get(lab.addr, "a.test", target).await.body, reply.body);
        assert!(seen.insert(reply.body), "{target} is like another");
    }
    let svg = get(lab.addr, "pix.test", "/v.svg").await;
    assert_eq!(svg.header("content-type"), Some("image/svg+xml"));
    assert!(
        String::from_utf8(svg.body)
            .unwrap()
            .contains("width=\"300\" height=\"200\"")
    );
    // The query names another picture, which is not in the table.
    assert_eq!(get(lab.addr, "a.test", "/i/two.png").await.status, 404);
}

#[tokio::test]
async fn faults_come_in_their_order_and_are_witnessed() {
    let mut tree = MemoryTree::default();
    tree.insert("m.test", "/", "<p>memory");
    tree.insert("m.test", "/deep/", "<p>deep");
    tree.insert_as("m.test", "/odd.html", "text/x-odd", "odd");
    assert!(tree.redirect("http://m.test/r", "/deep/") && !tree.redirect("nonsense", "/"));
    assert!(tree.image("http://m.test/i.png", 3, 4));
    let log = Arc::new(Mutex::new(Vec::new()));
    let sink = log.clone();
    let lab = Lab::from_memory(tree)
        .with_observer(Arc::new(move |request| sink.lock().unwrap().push(request)))
        .with_behaviour(
            Behaviour::of("M.test")
                .under("/deep")
                .fault(Fault::Status {
                    code: 503,
                    retry_after: Some("7".to_owned()),
                })
                .times(2),
        )
        .with_behaviour(
            Behaviour::of("m.test")
                .under("/deep")
                .fault(Fault::Drop)
                .times(1),
        )
        .with_behaviour(Behaviour::of("m.test").latency(Duration::from_millis(20)));
    let lab = started(lab).await;
    let at = lab.addr;
    for _ in 0..2 {
        let busy = get(at, "m.test", "/deep/?q").await;
        assert_eq!((busy.status, busy.header("retry-after")), (503, Some("7")));
    }
    let nothing = raw(at, "GET /deep/ HTTP/1.1\r\nHost: m.test\r\n\r\n").await;
    assert!(nothing.is_empty(), "a dropped connection sends no byte");
    assert_eq!(get(at, "m.test", "/deep/").await.body, b"<p>deep");
    assert_eq!(get(at, "m.test", "/").await.body, b"<p>memory");
    assert_eq!(
        get(at, "m.test", "/odd.html").await.header("content-type"),
        Some("text/x-odd")
    );
    assert_eq!(get(at, "m.test", "/r").await.status, 301);
    let png = get(at, "m.test", "/i.png").await.body;
    assert_eq!(image::load_from_memory(&png).unwrap().height(), 4);
    lab.stop().await.unwrap();

    let log = log.lock().unwrap();
    let seen: Vec<_> = log.iter().map(|r| (r.path.as_str(), r.status)).collect();
    let expected = [
        ("/deep/?q", Some(503)),
        ("/deep/?q", Some(503)),
        ("/deep/", None),
        ("/deep/", Some(200)),
        ("/", Some(200)),
        ("/odd.html", Some(200)),
        ("/r", Some(301)),
        ("/i.png", Some(200)),
    ];
    assert_eq!(seen, expected);
    assert!(log.iter().all(|r| r.host == "m.test" && r.method == "GET"));
    assert_eq!(log[0].agent, "probe");
    assert!(
        log[3].elapsed >= Duration::from_millis(20),
        "the latency is kept"
    );
    assert!(log.is_sorted_by_key(|r| r.at));
}

#[test]
fn tables_that_make_no_sense_are_refused_with_their_line() {
    let dir = folder();
    let web = dir.path().join("web");
    put(
        &web,
        "images.tsv",
        b"url\twidth\theight\nhttp://a.test/i\t3\tthree\n",
    );
    let error = Lab::open(&web).err().unwrap().to_string();
    assert!(error.contains("images.tsv, line 2: `three`"), "{error}");
    put(&web, "images.tsv", b"url\twidth\theight\n");
    put(
        &web,
        "redirects.tsv",
        b"url\tlocation\nhttp://a.test/\t/\nbroken\n",
    );
    let error = Lab::open(&web).err().unwrap().to_string();
    assert!(
        error.contains("redirects.tsv, line 3: two columns"),
        "{error}"
    );
    assert!(Lab::open(web.join("absent")).is_err());
    assert!(Lab::open(web.join("top.txt")).is_err());
}

proptest! {
    #![proptest_config(spoor_testing::usual!())]

    #[test]
    fn no_target_leaves_the_host(target in "/([a-z.%/\\\\?]|%2e|%2f|\\.\\./|top\\.txt){0,12}") {
        let dir = folder();
        let lab = Lab::open(dir.path().join("web")).unwrap();
        if let LabResponse::File { bytes, .. } = lab.answer("a.test", &target).unwrap() {
            prop_assert!(!bytes.windows(6).any(|w| w == b"secret"));
        }
    }

    #[test]
    fn any_small_picture_decodes(
        width in 0u32..70,
        height in 0u32..70,
        extension in prop::sample::select(vec!["png", "JPG", "gif", "webp", "bmp", "cgi", ""]),
        name in "[a-z]{1,8}",
    ) {
        let url = format!("http://a.test/{name}.{extension}");
        let drawn = picture::draw(&url, width, height).unwrap();
        let decoded = image::load_from_memory(&drawn.bytes).unwrap();
        prop_assert_eq!((decoded.width(), decoded.height()), (width.max(1), height.max(1)));
        prop_assert_eq!(drawn, picture::draw(&url, width, height).unwrap());
    }
}

const LABELS: &str = "url\ttopics\nhttp://a.test/\tbees:2,tax:1\nhttp://a.test/x\tbees:1 tax:2\n\
                      http://a.test/n\t-\nhttp://a.test/b\tbees:2\n";

#[test]
fn the_judge_counts_pages_on_topic_once() {
    let labels = Labels::parse(LABELS).unwrap();
    assert_eq!(
        (labels.len(), labels.known("bees"), labels.known("tax")),
        (4, 2, 1)
    );
    assert!(labels.on_topic("http://A.test:80/#top", "bees"));
    assert!(
        !labels.on_topic("http://a.test/x", "bees"),
        "related does not count"
    );
    assert!(!labels.on_topic("http://a.test/b", "bee"));
    assert_eq!(
        labels.relevance("http://a.test/x", "bees"),
        judge::Relevance::Related
    );
    let fetched = [
        "http://a.test/",
        "http://a.test/gone",
        "http://a.test/",
        "http://a.test/x",
        "http://a.test/b",
    ];
    assert_eq!(labels.curve("bees", fetched), [1, 1, 1, 1, 2]);
    let verdict = labels.judge("bees", fetched, 4);
    assert_eq!(
        (verdict.fetches, verdict.on_topic, verdict.known),
        (4, 1, 2)
    );
    assert!((verdict.share - 0.25).abs() < 1e-12);
    assert_eq!(labels.judge("bees", fetched, 100).fetches, 5);
    assert_eq!(labels.judge("bees", [""; 0], 10).share, 0.0);
    let error = Labels::parse("url\ttopics\nhttp://a.test/\tbees\n").unwrap_err();
    assert!(error.contains("line 2: `bees`"), "{error}");
    assert!(Labels::read("no/such/labels.tsv").is_err());
}

#[test]
fn the_real_lab_web_is_read_whole() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let web = root.join("../../target/labweb/labweb");
    if !web.is_dir() {
        eprintln!("skipped: target/labweb is absent; unpack ../shared/labweb there to run this");
        return;
    }
    let labels = Labels::read(web.join("labels_public.tsv")).unwrap();
    let known = ["space", "linux", "ai", "proglang"].map(|topic| labels.known(topic));
    assert_eq!(known, [880, 942, 314, 574]);
    let lab = Lab::open(&web).unwrap();
    assert!(matches!(
        lab.answer("astrobook.test", "/").unwrap(),
        LabResponse::File { .. }
    ));
}
