//! `spoor index` and `spoor search` on documents of a crawl and of a corpus, on the terminal and on
//! a page. Samples taken down are not found, and kills lose nothing.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use spoor::settings::StoreKind;
use spoor_lab::{Lab, picture};
use url::Url;

use crate::annotate::HOSTILE;
use crate::archiving::ARCHIVE;
use crate::browser::{Browser, can_browse};
use crate::support::process::GUARD;
use crate::support::small;
use crate::support::texts::{image, link, page, some, topical, tree};
use crate::support::{Job, JobText, Live, Ran, Wire, spoor};

/// A text that is on one page only.
const MARK: &str = "Quixotic zephyrs waltzed beside the harbour wall at noon.";

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('"', "&quot;")
}

/// A finished crawl of two hosts, with an archive; one page has a hostile title, text and image.
fn crawled() -> Job {
    let text = |n: usize| some(topical(), n * 5, 6);
    let hostile = escaped(&HOSTILE.join(" "));
    let script = "<script>document.title = 'owned'</script>";
    let mut web = tree(&[
        (
            "a.test/",
            page(
                "Lights",
                "",
                &[
                    text(0),
                    link("/more", "More lights"),
                    link("http://b.test/", &some(topical(), 3, 1)),
                ],
            ),
        ),
        ("a.test/more", page("More", "", &[text(1), text(4)])),
        (
            "b.test/",
            page(
                &format!("Zephyr {hostile}"),
                "",
                &[
                    format!("{} {MARK} {hostile} {script}", text(2)),
                    format!("{} {}", image("/one.png", &hostile), text(3)),
                ],
            ),
        ),
    ]);
    let bytes = picture::draw("http://b.test/one.png", 320, 240)
        .unwrap()
        .bytes;
    web.insert("b.test", "/one.png", bytes);
    let wire = Wire::serve(Lab::from_memory(web));
    let text = JobText {
        seeds: &["http://a.test/"],
        rest: ARCHIVE,
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    job.run();
    assert_eq!(job.documents().len(), 3);
    job
}

fn on(path: &Path, command: &str, more: &[&str]) -> Ran {
    let arguments = [&[command, path.to_str().unwrap()], more].concat();
    Ran::of(&mut spoor(&arguments))
}

/// The addresses that a search finds.
fn found(path: &Path, more: &[&str]) -> BTreeSet<String> {
    let out = on(
        path,
        "search",
        &[&["--json", "--limit", "10000"], more].concat(),
    )
    .good();
    let out: Value = serde_json::from_str(&out).unwrap();
    let hits = out["hits"].as_array().unwrap();
    assert_eq!(out["total"], hits.len(), "{out}");
    let urls: BTreeSet<String> = hits
        .iter()
        .map(|hit| hit["url"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(urls.len(), hits.len(), "something was found twice");
    urls
}

#[test]
fn pages_of_a_crawl_are_found_unless_they_were_taken_down() {
    let job = crawled();
    let (file, folder) = (job.file(), job.folder());
    let none = on(&file, "search", &["lamp"]).refused();
    assert!(none.contains("spoor index"), "{none}");
    let out = on(&file, "index", &[]).good();
    assert_eq!(out, "3 documents are indexed, 3 of them now\n");
    // The folder works like the job file.
    assert_eq!(
        on(&folder, "index", &[]).good(),
        "3 documents are indexed, 0 of them now\n"
    );
    let shown = on(&folder, "search", &["quixotic zephyr*"]).good();
    for part in [
        "1 of 3 documents match quixotic zephyr*\n",
        "http://b.test/\n",
        "Quixotic zephyrs waltzed",
        "in documents/00000.jsonl.zst, line ",
        "stored in archive/spoor-",
    ] {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
    assert!(
        shown.lines().all(|line| line.chars().count() <= 80),
        "{shown}"
    );
    let out = on(&file, "search", &["--json", "quixotic"]).good();
    let out: Value = serde_json::from_str(&out).unwrap();
    let hit = &out["hits"][0];
    let title = hit["title"].as_str().unwrap();
    assert!(title.contains("</script>"), "{title}");
    assert!(hit["perplexity"].as_f64().unwrap() > 0.0);
    assert!(
        hit["bucket"].is_string() && hit["capture"]["byte"].is_u64(),
        "{hit}"
    );
    assert_eq!(out["facets"]["host"]["values"][0][0], "b.test");
    // The document is at the stated position.
    let place = spoor::outputs::TextPlace {
        file: "00000.jsonl.zst".to_owned(),
        from: hit["place"]["byte"].as_u64().unwrap(),
        bytes: 1 << 20,
    };
    let document = spoor::outputs::document_at(&folder, &place).unwrap();
    assert_eq!(document.url, "http://b.test/");
    let all: BTreeSet<String> = job.documents().into_iter().map(|d| d.url).collect();
    assert_eq!(found(&file, &[]), all);
    let of = |more: &[&str]| found(&file, more).len();
    assert_eq!(of(&["--host", "a.test"]), 2);
    assert_eq!(of(&["--language", "en", "--from", "2020"]), 3);
    assert_eq!(of(&["--to", "2020"]), 0);
    assert_eq!(of(&["--max-perplexity", "0.5"]), 0);
    assert_eq!(
        of(&["--bucket", hit["bucket"].as_str().unwrap(), "quixotic"]),
        1
    );
    for (wrong, part) in [
        (&["(lamp"][..], "a bracket is not closed"),
        (&["--from", "May", "lamp"], "`May` is not a date"),
    ] {
        let ran = on(&file, "search", wrong);
        assert_eq!(ran.status.code(), Some(2), "{ran:?}");
        assert!(ran.err.contains(part), "{}", ran.err);
    }
    // A takedown also removes everything that a file of the index may still contain.
    let receipt = on(&file, "takedown", &["--url", "http://b.test/"]).good();
    assert!(receipt.contains("search"), "{receipt}");
    assert!(!folder.join("search").exists());
    assert!(
        on(&file, "search", &["lamp"])
            .refused()
            .contains("no index yet")
    );
    on(&file, "index", &[]).good();
    assert!(found(&file, &["quixotic"]).is_empty());
    assert_eq!(found(&file, &[]).len(), 2);
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

/// A request on its own connection.
fn ask(to: SocketAddr, path: &str, host: &str, cookie: &str) -> Answer {
    let mut stream = TcpStream::connect(to).unwrap();
    let text = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_ascii_lowercase(),
        body: body.to_owned(),
    }
}

/// The page of a job: the process, its address, and a cookie for it.
fn serve(path: &Path) -> (Live, SocketAddr, String) {
    let (live, link) = begin(path);
    let (address, token) = link
        .split_once("http://")
        .unwrap()
        .1
        .split_once('/')
        .unwrap();
    let to: SocketAddr = address.parse().unwrap();
    let login = ask(to, &format!("/{token}&q=lamp"), address, "");
    assert_eq!(login.status, 303, "{}", login.head);
    // The token is not in the address, where it would stay in the history.
    assert!(
        login.head.contains("location: /?q=lamp\r\n"),
        "{}",
        login.head
    );
    let cookie = login.head.split("set-cookie: ").nth(1).unwrap();
    assert!(
        cookie.contains("httponly") && cookie.contains("samesite=lax"),
        "{cookie}"
    );
    let cookie = cookie.split(';').next().unwrap().to_owned();
    (live, to, cookie)
}

/// The process, and the line with its link.
fn begin(path: &Path) -> (Live, String) {
    let arguments = [
        "search",
        path.to_str().unwrap(),
        "--serve",
        "--listen",
        "127.0.0.1:0",
    ];
    let mut live = Live::start(&mut spoor(&arguments));
    let line = live.first_line();
    (live, line)
}

/// Repeats a request until the answer is as expected.
fn until(to: SocketAddr, cookie: &str, path: &str, is: impl Fn(&str) -> bool) -> Answer {
    let begun = Instant::now();
    loop {
        let answer = ask(to, path, &to.to_string(), cookie);
        if is(&answer.body) {
            return answer;
        }
        assert!(begun.elapsed() < GUARD, "{}", answer.body);
    }
}

#[test]
fn the_page_shows_hostile_words_as_text_and_only_with_the_link() {
    let job = crawled();
    let (live, to, cookie) = serve(&job.file());
    let host = to.to_string();
    let get = |path: &str| ask(to, path, &host, &cookie);
    until(to, &cookie, "/", |page| page.contains("3 documents"));
    let page = get("/?q=quixotic");
    assert_eq!(page.status, 200, "{}", page.body);
    for part in [
        "<mark>Quixotic</mark>",
        "&lt;script&gt;document.title = 'owned'&lt;/script&gt;",
        "href=\"http://b.test/\"",
        "/image?file=images%2F",
        ">b.test</bdi>",
        "<p class=\"total\">1 document</p>",
    ] {
        assert!(page.body.contains(part), "no {part} in {}", page.body);
    }
    for part in ["<script", "<svg", "<img src=x", "onerror=\"", "onload="] {
        let body = page.body.replace("onload=document", "");
        assert!(!body.contains(part), "{part} in {}", page.body);
    }
    assert!(
        page.head
            .contains("content-security-policy: default-src 'none'; style-src 'self'")
    );
    assert!(!page.head.contains("script-src"), "{}", page.head);
    // The links that follow a mark.
    let after = |mark: &str| {
        let rest = page.body.split(mark).nth(1).unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let key = after("href=\"/document/");
    let document = get(&format!("/document/{key}"));
    assert!(
        document.status == 200 && document.body.contains(MARK),
        "{}",
        document.body
    );
    assert!(!document.body.contains("<script"), "{}", document.body);
    let image = get(&after("<img src=\""));
    assert!(
        image.status == 200 && image.head.contains("image/jpeg"),
        "{}",
        image.head
    );
    let stored = get(&format!("/capture/{key}"));
    assert_eq!(stored.status, 200, "{}", stored.body);
    assert!(
        stored
            .head
            .contains("content-security-policy: sandbox; default-src 'none'")
    );
    assert!(
        stored.head.contains("x-dns-prefetch-control: off"),
        "{}",
        stored.head
    );
    assert!(!stored.body.contains("<script") && stored.body.contains(MARK));
    // Errors are shown on the page, and escaped too.
    let wrong = get("/?q=%22%3Csvg%20onload%3Dx%3E");
    assert_eq!(wrong.status, 400);
    assert!(
        wrong.body.contains("no partner") && !wrong.body.contains("<svg"),
        "{}",
        wrong.body
    );
    for gone in [
        "/document/0000000000000007",
        "/document/x",
        "/capture/0000000000000007",
        "/image?file=..%2Fjob.toml",
        "/image?file=images%2F..%2F..%2Fjob.toml",
        "/image?file=logs%2Fcrawl.jsonl",
        "/nothing",
    ] {
        assert_eq!(get(gone).status, 404, "{gone}");
    }
    // All other clients are refused.
    for path in [
        "/",
        "/?q=quixotic",
        "/search.css",
        &format!("/document/{key}"),
        "/?token=0123",
    ] {
        assert_eq!(ask(to, path, &host, "").status, 401, "{path}");
        assert_eq!(ask(to, path, &host, "spoor-search=x").status, 401, "{path}");
        for other in ["evil.test", "evil.test:80", "127.0.0.1.evil.test"] {
            assert_eq!(ask(to, path, other, &cookie).status, 403, "{path} {other}");
        }
    }
    // The samples are in use while the page is open.
    let refused = on(&job.file(), "takedown", &["--url", "http://b.test/"]).refused();
    assert!(refused.contains("`spoor search`"), "{refused}");
    live.signal(Signal::SIGTERM);
    let ended = live.ended();
    assert!(ended.status.success(), "{ended:?}");
    on(&job.file(), "takedown", &["--url", "http://b.test/"]).good();
}

/// All the ways in which a hostile page can make a browser connect; `%` is an address.
const CONNECTS: [(&str, &str); 17] = [
    ("preconnect", "<link rel=preconnect href=%>"),
    ("prefetch", "<link rel='dns-prefetch prefetch' href=%/x>"),
    ("preload", "<link rel=preload as=image href=%/x>"),
    ("modulepreload", "<link rel=modulepreload href=%/x>"),
    ("prerender", "<link rel='prerender next' href=%/x>"),
    (
        "rules",
        "<script type=speculationrules>{\"prefetch\":[{\"urls\":[\"%/x\"]}]}</script>",
    ),
    ("icon", "<link rel='icon manifest' href=%/x>"),
    ("sheet", "<link rel=stylesheet href=%/x>"),
    (
        "style",
        "<style>@import url(%/x); @font-face { font-family: f; src: url(%/y) } \
              p { font-family: f; background: url(%/z) }</style>",
    ),
    ("image", "<img src=%/x srcset='%/y 2x' attributionsrc=%/z>"),
    ("frame", "<iframe src=%/x></iframe>"),
    (
        "srcdoc",
        "<iframe srcdoc='<link rel=preconnect href=%>'></iframe>",
    ),
    ("object", "<object data=%/x><embed src=%/y></object>"),
    (
        "media",
        "<video src=%/x poster=%/y autoplay><track src=%/z default></video>",
    ),
    (
        "drawing",
        "<svg><image href=%/x /><use href=%/y#a /><rect fill='url(%/z#a)' \
              filter='url(%/f#a)' width=9 height=9 /></svg>",
    ),
    (
        "hidden",
        "<svg><style><a title='</style><link rel=preconnect href=%>'></style></svg>\
              <math><mtext><mglyph><style><!--</style><link rel=preconnect href=%>-->",
    ),
    ("quiet", "<noscript><link rel=preconnect href=%></noscript>"),
];

/// Counts connections, and closes each at once.
struct Counter {
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl Counter {
    fn begin() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        std::thread::spawn(move || {
            for _ in listener.incoming() {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { port, connections }
    }

    fn count(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// A page with all these ways, and the counters of connections for each.
fn connecting() -> (String, Vec<(&'static str, Counter)>) {
    let counters = CONNECTS.iter().map(|(name, _)| (*name, Counter::begin()));
    let counters = Vec::from_iter(counters);
    let parts = CONNECTS
        .iter()
        .zip(&counters)
        .flat_map(|((_, part), (_, counter))| {
            let hosts = ["127.0.0.1", "localhost"];
            hosts.map(|host| part.replace('%', &format!("http://{host}:{}", counter.port)))
        });
    let parts: String = parts.collect();
    let text = format!("{MARK} {}", some(topical(), 9, 6));
    let page = format!("<!DOCTYPE html><title>Connects</title><p id=mark>{text}{parts}");
    (page, counters)
}

/// A server of one page, without a policy.
fn unguarded(page: String) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let _head = lines.find(String::is_empty);
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n{page}",
                page.len()
            );
            // The browser may have closed the connection.
            drop((&stream).write_all(answer.as_bytes()));
        }
    });
    at
}

#[test]
fn a_stored_page_opens_no_connection_in_a_browser() {
    if !can_browse() {
        return;
    }
    let (stored, silent) = connecting();
    let wire = Wire::serve(Lab::from_memory(tree(&[("a.test/", stored)])));
    let text = JobText {
        seeds: &["http://a.test/"],
        rest: ARCHIVE,
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    job.run();
    on(&job.file(), "index", &[]).good();
    let (_live, link) = begin(&job.file());
    let link = &link[link.find("http://").unwrap()..];
    let link = link.split_whitespace().next().unwrap().to_owned();
    // The requests of the crawl do not count here.
    for (_, counter) in &silent {
        counter.connections.store(0, Ordering::Relaxed);
    }
    let (open, heard) = connecting();
    let open = unguarded(open);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let browser = Browser::open().await;
        browser.goto(&format!("{link}&q=quixotic")).await;
        let hit = browser.see("a[href^='/document/']").await;
        let path = hit.attr("href").await.unwrap().unwrap();
        let stored = path.replace("/document/", "/capture/");
        let stored = Url::parse(&link).unwrap().join(&stored).unwrap();
        browser.goto(stored.as_str()).await;
        assert_eq!(
            browser.see("#mark").await.text().await.unwrap().find(MARK),
            Some(0)
        );
        assert_eq!(browser.client.title().await.unwrap(), "Connects");
        // Connections of the stored page would have begun before this. The unguarded page shows
        // that they would be seen.
        browser.goto(&format!("http://{open}/")).await;
        for name in [
            "preconnect",
            "prefetch",
            "frame",
            "srcdoc",
            "style",
            "media",
        ] {
            let (_, counter) = heard.iter().find(|(known, _)| *known == name).unwrap();
            let begun = Instant::now();
            while counter.count() == 0 {
                assert!(
                    begun.elapsed() < GUARD,
                    "{name} connects nowhere in any page"
                );
                tokio::task::yield_now().await;
            }
        }
    });
    let counts = silent
        .iter()
        .map(|(name, counter)| (*name, counter.count()));
    let connected = Vec::from_iter(counts.filter(|(_, count)| *count > 0));
    assert_eq!(connected, []);
}

#[test]
fn the_page_follows_a_crawl() {
    let wire = Wire::serve(small::lab(Duration::from_millis(4)));
    let rest = small::rest(StoreKind::Fjall, "[limits]\ndocuments = 60\n");
    let job = Job::new(&wire, &small::text(&rest));
    let mut crawl = Live::start(&mut job.crawl());
    // Waits until the folder exists.
    crawl.wait_for(|| job.folder().join("logs").is_dir());
    let (live, to, cookie) = serve(&job.file());
    let number = |page: &str| -> Option<u64> {
        let standing = page.split("class=\"standing\">").nth(1)?;
        standing.split(' ').next()?.parse().ok()
    };
    let few = until(to, &cookie, "/", |page| number(page).is_some_and(|n| n > 0));
    crawl.ended().good();
    let all = job.documents().len() as u64;
    assert!(number(&few.body).unwrap() <= all);
    until(to, &cookie, "/", |page| number(page) == Some(all));
    live.signal(Signal::SIGTERM);
    assert!(live.ended().status.success());
    assert_eq!(found(&job.file(), &[]).len() as u64, all);
}

#[test]
fn a_kill_while_indexing_costs_nothing() {
    const PART: usize = 400;
    let folder = tempfile::tempdir().unwrap();
    let documents = folder.path().join("documents");
    std::fs::create_dir(&documents).unwrap();
    let line = |n: usize| {
        let text = some(topical(), n * 7, 40);
        let text = serde_json::to_string(&format!("number{n} {text}")).unwrap();
        format!("{{\"url\":\"http://a.test/{n}\",\"text\":{text}}}\n")
    };
    let mut all = 0;
    for round in 0..6_usize {
        let more: String = (all..all + PART).map(line).collect();
        let name = documents.join(format!("{:05}.jsonl", round / 2));
        let mut file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(name)
            .unwrap();
        file.write_all(more.as_bytes()).unwrap();
        let files = || std::fs::read_dir(folder.path().join("search")).map_or(0, Iterator::count);
        let before = files();
        let mut live = Live::start(&mut spoor(&["index", folder.path().to_str().unwrap()]));
        // Kills when it begins, when it writes its first file, or when it has written some.
        live.wait_for(|| files() >= before + [0, 1, 8][round % 3]);
        live.kill();
        // A search sees committed data only, and all of it.
        if round > 0 {
            let seen = found(folder.path(), &[]).len();
            assert!(seen == all || seen == all + PART, "{seen} of {all}");
        }
        all += PART;
        let out = on(folder.path(), "index", &["--json"]).good();
        let out: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            (&out["documents"], &out["damaged"]),
            (&all.into(), &0.into()),
            "{out}"
        );
        assert_eq!(found(folder.path(), &[]).len(), all);
        assert_eq!(found(folder.path(), &["number7"]).len(), 1);
    }
}
