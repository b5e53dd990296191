//! Terms of use over real sockets: each signal forbids something; with all signals ignored,
//! everything is kept and all terms are recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use spoor::archive::record::Kind;

use crate::archiving::{ARCHIVE, records};
use crate::support::texts::{image, link, page, some, topical};
use crate::support::{Job, JobText, Ran, spoor};

/// The response of an address: headers, and body.
type Answers = BTreeMap<String, (String, Vec<u8>)>;

/// A server that can send any header, which the lab cannot.
struct Site {
    addr: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Site {
    fn serve(answers: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let site = Self {
            addr: listener.local_addr().unwrap(),
            asked: Arc::default(),
        };
        let (answers, asked) = (Arc::new(answers), Arc::clone(&site.asked));
        // The thread ends with the process of the test.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answers, asked) = (Arc::clone(&answers), Arc::clone(&asked));
                std::thread::spawn(move || answer(stream, &answers, &asked));
            }
        });
        site
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// Answers one request, and closes the connection.
fn answer(mut stream: TcpStream, answers: &Answers, asked: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut line = || lines.next().and_then(Result::ok).unwrap_or_default();
    let first = line();
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut host = String::new();
    loop {
        let header = line();
        if header.is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("host")
        {
            host = value.trim().to_owned();
        }
    }
    let address = format!("{host}{path}");
    asked.lock().unwrap().push(address.clone());
    let (status, headers, body) = match answers.get(&address) {
        Some((headers, body)) => ("200 OK", headers.as_str(), body.as_slice()),
        None => ("404 Not Found", "", &b"none"[..]),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    // The client may have closed the connection.
    stream.write_all(head.as_bytes()).ok();
    stream.write_all(body).ok();
}

/// Pages with different terms; the first word of each text names its page.
const PAGES: [(&str, &str, &str); 12] = [
    ("a.test/", "", ""),
    ("a.test/noindex", "", "<meta name=robots content=noindex>"),
    ("a.test/noml", "", "<meta name=spoor content=noml>"),
    ("a.test/noai", "X-Robots-Tag: noai\r\n", ""),
    (
        "a.test/other",
        "X-Robots-Tag: otherbot: noai\r\n",
        "<meta name=otherbot content=noindex>",
    ),
    ("a.test/noimageai", "X-Robots-Tag: noimageai\r\n", ""),
    (
        "a.test/noimageindex",
        "",
        "<meta name=robots content=noimageindex>",
    ),
    (
        "a.test/header",
        "TDM-Reservation: 1\r\ntdm-policy: /terms.json\r\n",
        "",
    ),
    ("a.test/meta", "", "<meta name=tdm-reservation content=1>"),
    // The page takes precedence over its header.
    (
        "a.test/lifted",
        "tdm-reservation: 1\r\n",
        "<meta name=tdm-reservation content=0>",
    ),
    ("a.test/signal/1", "", ""),
    ("file.test/reserved/1", "", ""),
];

/// The paths of `PAGES` whose sentences and images are kept.
const TEXT: [&str; 5] = [
    "a.test/",
    "a.test/lifted",
    "a.test/noimageai",
    "a.test/noimageindex",
    "a.test/other",
];
const IMAGES: [&str; 3] = ["a.test/", "a.test/lifted", "a.test/other"];

/// Prose with a word that is on no other page.
fn words(n: usize) -> String {
    let text = some(topical(), n * 6 + 1, 6);
    format!(
        "{text} The keeper of {} lit the lamp every evening.",
        marker(n)
    )
}

fn marker(n: usize) -> String {
    format!("marker{}", char::from(b'a' + n as u8))
}

/// The image of each page is beside it.
fn picture_of(address: &str) -> String {
    format!("{address}.png")
}

fn site() -> Site {
    let mut answers = Answers::new();
    let html = "Content-Type: text/html; charset=utf-8\r\n";
    let mut pictures: Vec<(String, &str)> = vec![
        ("a.test/own.png".into(), "X-Robots-Tag: noimageai\r\n"),
        (
            "a.test/reserved.png".into(),
            "tdm-reservation: 1\r\ntdm-policy: https://a.test/p\r\n",
        ),
        ("file.test/reserved/2.png".into(), ""),
        (
            "file.test/free.png".into(),
            "Link: <http://l.test/by>; rel=license\r\n",
        ),
    ];
    for (n, (address, headers, head)) in PAGES.iter().enumerate() {
        let mut paragraphs = vec![
            words(n),
            image(
                &format!("http://{}", picture_of(address)),
                &some(topical(), n, 1),
            ),
        ];
        pictures.push((picture_of(address), ""));
        if n == 0 {
            let links = PAGES.iter().skip(1);
            paragraphs.extend(
                links.map(|(to, ..)| link(&format!("http://{to}"), &some(topical(), 3, 1))),
            );
            for more in [
                "a.test/own.png",
                "a.test/reserved.png",
                "file.test/reserved/2.png",
                "file.test/free.png",
            ] {
                paragraphs.push(image(&format!("http://{more}"), &some(topical(), 5, 1)));
            }
        }
        let licences = match n {
            0 => {
                "<link rel=license href=/licence><script type='application/ld+json'>\
                  {\"@type\":\"ImageObject\",\"contentUrl\":\"http://a.test/.png\",\"license\":\"CC BY 4.0\"}</script>"
            }
            _ => "",
        };
        let text = page(
            &format!("Page {n}"),
            &format!("{head}{licences}"),
            &paragraphs,
        );
        answers.insert(
            (*address).to_owned(),
            (format!("{html}{headers}"), text.into_bytes()),
        );
    }
    for (n, (address, headers)) in pictures.into_iter().enumerate() {
        // Each image has its own size, so that no two have the same bytes.
        let mut bytes = std::io::Cursor::new(Vec::new());
        let drawn = ::image::DynamicImage::new_rgb8(120 + n as u32, 120);
        drawn
            .write_to(&mut bytes, ::image::ImageFormat::Png)
            .unwrap();
        let headers = format!("Content-Type: image/png\r\n{headers}");
        answers.insert(address, (headers, bytes.into_inner()));
    }
    let plain = "Content-Type: text/plain\r\n".to_owned();
    let robots = "User-agent: *\nContent-Signal: /signal/ search=yes, ai-train=no\nAllow: /\n";
    answers.insert("a.test/robots.txt".into(), (plain, robots.into()));
    let json = "Content-Type: application/json\r\n".to_owned();
    let file = r#"[{"location": "/reserved/", "tdm-reservation": 1, "tdm-policy": "http://file.test/policy"}]"#;
    answers.insert(
        "file.test/.well-known/tdmrep.json".into(),
        (json, file.into()),
    );
    Site::serve(answers)
}

fn crawl(consent: &str) -> (Job, Vec<String>) {
    let site = site();
    let rest =
        format!("{ARCHIVE}[consent]\n{consent}\n[buckets]\nboundaries = \"fixed\"\nrazor = 1e12\n");
    let text = JobText {
        seeds: &["http://a.test/"],
        rest: &rest,
        ..JobText::default()
    };
    let job = Job::at(site.addr, &text);
    job.run();
    (job, site.asked())
}

/// The addresses of the pages whose sentences were kept, and of the kept images.
fn kept(job: &Job) -> (BTreeSet<String>, BTreeSet<String>) {
    let sentences = job.sentences();
    let pages = PAGES.iter().enumerate().filter(|(n, _)| {
        let marker = marker(*n);
        sentences
            .iter()
            .any(|s| s.split(' ').any(|word| word == marker))
    });
    let bare = |url: &Value| {
        url.as_str()
            .unwrap()
            .strip_prefix("http://")
            .unwrap()
            .to_owned()
    };
    (
        pages
            .map(|(_, (address, ..))| (*address).to_owned())
            .collect(),
        job.sidecars().iter().map(|s| bare(&s["url"])).collect(),
    )
}

fn all(addresses: &[&str]) -> BTreeSet<String> {
    addresses.iter().map(|a| (*a).to_owned()).collect()
}

fn row<'a>(log: &'a [Value], address: &str) -> &'a Value {
    let url = format!("http://{address}");
    log.iter()
        .find(|row| row["url"] == url)
        .unwrap_or_else(|| panic!("no {url}"))
}

#[test]
fn each_signal_forbids_its_subject_and_the_log_names_it() {
    let (job, asked) = crawl("tdmrep = true");
    let (pages, images) = kept(&job);
    assert_eq!(pages, all(&TEXT));
    let mut expected: BTreeSet<String> = IMAGES.iter().map(|page| picture_of(page)).collect();
    expected.insert("file.test/free.png".to_owned());
    assert_eq!(images, expected);
    let log = job.log();
    for (address, forbidden) in [
        ("a.test/", json!(null)),
        ("a.test/other", json!(null)),
        ("a.test/lifted", json!(null)),
        ("a.test/noindex", json!(["noindex (robots)"])),
        ("a.test/noml", json!(["noml (robots)"])),
        ("a.test/noai", json!(["noai (robots)"])),
        ("a.test/noimageai", json!(["noimageai (robots)"])),
        ("a.test/noimageindex", json!(["noimageindex (robots)"])),
        ("a.test/header", json!(["tdm-reservation: 1"])),
        ("a.test/meta", json!(["tdm-reservation: 1"])),
        ("a.test/signal/1", json!(["Content-Signal: ai-train=no"])),
        ("file.test/reserved/1", json!(["tdm-reservation: 1"])),
    ] {
        let row = row(&log, address);
        assert_eq!(row["outcome"], "done", "{address}");
        assert_eq!(row["forbidden"], forbidden, "{address}");
        assert_eq!(
            row["terms"].is_null(),
            matches!(address, "a.test/other"),
            "{row}"
        );
    }
    for (address, error) in [
        ("a.test/own.png", "forbidden by noimageai (robots)"),
        ("a.test/reserved.png", "forbidden by tdm-reservation: 1"),
    ] {
        let row = row(&log, address);
        assert_eq!(
            (&row["outcome"], &row["reason"]),
            (&json!("dropped"), &json!("forbidden"))
        );
        assert_eq!(row["error"], error);
    }
    assert_eq!(
        row(&log, "a.test/reserved.png")["terms"]["tdm_policy"],
        "https://a.test/p"
    );
    // The archive contains what may be kept, with its terms.
    let stored = records(&job);
    let has = |kind: Kind, address: &str| {
        let url = format!("http://{address}");
        let found = stored.iter().find(|r| r.kind == kind && r.uri == url);
        found.map(|record| String::from_utf8_lossy(&record.block).into_owned())
    };
    for (address, ..) in PAGES {
        let is_kept = TEXT.contains(&address);
        assert_eq!(has(Kind::Response, address).is_some(), is_kept, "{address}");
    }
    for forbidden in ["a.test/own.png", "a.test/reserved.png"] {
        assert_eq!(has(Kind::Response, forbidden), None);
    }
    for (address, terms) in [
        ("a.test/noimageai", "\"noimageai\":true"),
        ("file.test/free.png", "\"licences\":[\"http://l.test/by\"]"),
    ] {
        let about = has(Kind::Metadata, address).unwrap();
        assert!(about.contains(terms), "{about}");
    }
    // Pages that the host's file forbids are not even requested, and neither are the images of
    // pages that forbid it.
    let count = |address: &str| asked.iter().filter(|a| *a == address).count();
    for silent in [
        "file.test/reserved/2.png",
        "a.test/noai.png",
        "a.test/signal/1.png",
    ] {
        assert_eq!(count(silent), 0, "{silent}");
    }
    for host in ["a.test", "file.test"] {
        let of_host: Vec<_> = asked.iter().filter(|a| a.starts_with(host)).collect();
        assert_eq!(*of_host[0], format!("{host}/robots.txt"));
        assert_eq!(*of_host[1], format!("{host}/.well-known/tdmrep.json"));
        assert_eq!(count(of_host[1]), 1);
    }
    let explained = spoor(&[
        "explain",
        job.file().to_str().unwrap(),
        "http://file.test/reserved/2.png",
    ]);
    let explained = Ran::of(&mut { explained }).good();
    let decided = "decided    its host says tdm-reservation: 1";
    assert!(explained.contains(decided), "{explained}");
    for (address, lines) in [
        (
            "file.test/reserved/1",
            &[
                "terms      /.well-known/tdmrep.json: tdm-reservation: 1; tdm-policy: http://file.test/policy",
                "forbids    text by tdm-reservation: 1; images by tdm-reservation: 1; archive by tdm-reservation: 1",
            ][..],
        ),
        (
            "a.test/signal/1",
            &[
                "terms      robots.txt: ai-train=no; search=yes",
                "forbids    text by",
            ],
        ),
        (
            "a.test/noai",
            &[
                "terms      its answer of 20",
                ": noai\n",
                "forbids    text by noai (robots)",
            ],
        ),
        ("a.test/other", &["terms      nothing is stated"]),
    ] {
        let file = job.file();
        let url = format!("http://{address}");
        let arguments = ["explain", file.to_str().unwrap(), &url];
        let explained = Ran::of(&mut spoor(&arguments)).good();
        for line in lines {
            assert!(explained.contains(line), "{address}: {line}\n{explained}");
        }
    }
    let ending = |address: &str| {
        let row = row(&log, address);
        (
            row["kind"].clone(),
            row["outcome"].clone(),
            row["status"].clone(),
        )
    };
    let file = "/.well-known/tdmrep.json";
    assert_eq!(
        ending(&format!("file.test{file}")),
        (json!("tdmrep"), json!("done"), json!(200))
    );
    assert_eq!(
        ending(&format!("a.test{file}")),
        (json!("tdmrep"), json!("dropped"), json!(404))
    );
    // Licences; that of the image comes first.
    let sidecars = job.sidecars();
    let sidecar = |url: &str| sidecars.iter().find(|s| s["url"] == url).unwrap();
    let home = sidecar("http://a.test/.png");
    assert_eq!(
        home["contexts"][0]["terms"]["licences"],
        json!(["CC BY 4.0", "http://a.test/licence"])
    );
    let free = sidecar("http://file.test/free.png");
    assert_eq!(free["terms"]["licences"], json!(["http://l.test/by"]));
    assert_eq!(
        free["contexts"][0]["terms"]["licences"],
        json!(["http://a.test/licence"])
    );
    let lifted = sidecar("http://a.test/lifted.png");
    assert_eq!(lifted["contexts"][0]["terms"]["tdm_reservation"], false);
}

#[test]
fn with_nothing_obeyed_all_is_kept_and_recorded() {
    let (job, _) = crawl("obey = []\ntdmrep = true");
    let (pages, images) = kept(&job);
    assert_eq!(pages, all(&PAGES.map(|(address, ..)| address)));
    let mut expected: BTreeSet<String> = PAGES.iter().map(|(page, ..)| picture_of(page)).collect();
    expected.extend(all(&[
        "a.test/own.png",
        "a.test/reserved.png",
        "file.test/reserved/2.png",
        "file.test/free.png",
    ]));
    assert_eq!(images, expected);
    let sidecars = job.sidecars();
    let sidecar = |address: &str| {
        let url = format!("http://{address}");
        sidecars.iter().find(|s| s["url"] == url).unwrap()
    };
    for (page, key, value) in [
        ("a.test/noindex", "noindex", json!(true)),
        ("a.test/noml", "noml", json!(true)),
        ("a.test/noai", "noai", json!(true)),
        ("a.test/other", "noai", json!(false)),
        ("a.test/noimageai", "noimageai", json!(true)),
        ("a.test/noimageindex", "noimageindex", json!(true)),
        (
            "a.test/header",
            "tdm_policy",
            json!("http://a.test/terms.json"),
        ),
        ("a.test/meta", "tdm_reservation", json!(true)),
        (
            "a.test/signal/1",
            "content_signals",
            json!({"search": true, "ai-train": false}),
        ),
        (
            "file.test/reserved/1",
            "tdm_policy",
            json!("http://file.test/policy"),
        ),
    ] {
        let context = &sidecar(&picture_of(page))["contexts"][0];
        assert_eq!(context["terms"][key], value, "{page}");
    }
    for (image, key, value) in [
        ("a.test/own.png", "noimageai", json!(true)),
        ("a.test/reserved.png", "tdm_reservation", json!(true)),
        (
            "file.test/reserved/2.png",
            "tdm_policy",
            json!("http://file.test/policy"),
        ),
        (
            "a.test/signal/1.png",
            "content_signals",
            json!({"search": true, "ai-train": false}),
        ),
    ] {
        assert_eq!(sidecar(image)["terms"][key], value, "{image}");
    }
    // A data set contains all terms of each sample.
    let export = ["export", job.file().to_str().unwrap(), "--format", "jsonl"].map(str::to_owned);
    let export = export.each_ref().map(String::as_str);
    Ran::of(&mut spoor(&export)).good();
    let lines = std::fs::read_to_string(job.folder().join("exports/jsonl/data.jsonl")).unwrap();
    let rows: Vec<Value> = lines
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(rows.len(), sidecars.len());
    for (image, column, value) in [
        ("a.test/noindex.png", "page_noindex", json!(true)),
        ("a.test/noai.png", "page_noai", json!(true)),
        ("a.test/noai.png", "image_noai", json!(false)),
        ("a.test/own.png", "image_noimageai", json!(true)),
        ("a.test/own.png", "page_noimageai", json!(false)),
        ("a.test/meta.png", "page_tdm_reservation", json!(true)),
        ("a.test/reserved.png", "image_tdm_reservation", json!(true)),
        (
            "a.test/reserved.png",
            "image_tdm_policy",
            json!("https://a.test/p"),
        ),
        (
            "a.test/signal/1.png",
            "page_content_signals",
            json!(["ai-train=no", "search=yes"]),
        ),
        ("a.test/.png", "page_noai", json!(false)),
        ("a.test/.png", "page_tdm_reservation", json!(null)),
    ] {
        let url = format!("http://{image}");
        let row = rows.iter().find(|row| row["url"] == url).unwrap();
        assert_eq!(row[column], value, "{image} {column}");
    }
    let log = job.log();
    assert!(
        log.iter()
            .all(|row| row["forbidden"].is_null() && row["reason"] != "forbidden")
    );
    assert_eq!(row(&log, "a.test/noai")["terms"]["noai"], true);
}

#[test]
fn one_signal_may_be_obeyed_alone_without_fetching_the_file() {
    let (job, asked) = crawl("obey = [\"content-signal\"]\ntdmrep = false");
    let (pages, images) = kept(&job);
    let mut expected = all(&PAGES.map(|(address, ..)| address));
    expected.remove("a.test/signal/1");
    assert_eq!(pages, expected);
    assert!(images.contains("file.test/reserved/2.png") && images.contains("a.test/own.png"));
    assert!(!images.contains("a.test/signal/1.png"));
    assert!(!asked.iter().any(|address| address.contains("tdmrep")));
}
