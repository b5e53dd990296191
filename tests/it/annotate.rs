//! `spoor annotate`: people judge the images of a crawl, over HTTP and in a browser.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use spoor::corpus::annotate::votes::{self, Vote};
use spoor_lab::{Lab, picture};

use crate::support::process::GUARD;
use crate::support::texts::{page, some, topical, tree};
use crate::support::{Job, JobText, Live, Ran, Wire, spoor};

/// What a hostile page may say about its images.
pub const HOSTILE: [&str; 3] = [
    "<script>document.title = 'owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "\"><svg onload=document.title='owned'>javascript:alert(1)",
];

/// A job with `n` images whose words are hostile.
pub fn crawled(n: usize, annotate: &str) -> Job {
    let escaped = |text: &str| {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        text.replace('"', "&quot;")
    };
    let image = |at: usize| {
        let hostile = escaped(HOSTILE[at % HOSTILE.len()]);
        let words = some(topical(), at * 3, 1);
        format!(
            "<div>{hostile} <p><img src=\"/{at}.png\" alt=\"{words} {hostile}\"> {words}</p></div>"
        )
    };
    let mut paragraphs = vec![some(topical(), 0, 6)];
    paragraphs.extend((0..n).map(image));
    let title = format!("Lights {}", escaped(HOSTILE[0]));
    let mut web = tree(&[("a.test/", page(&title, "", &paragraphs))]);
    for at in 0..n {
        let url = format!("http://a.test/{at}.png");
        let bytes = picture::draw(&url, 320, 240).unwrap().bytes;
        web.insert("a.test", &format!("/{at}.png"), bytes);
    }
    let wire = Wire::serve(Lab::from_memory(web));
    let rest = format!("[annotate]\n{annotate}");
    let text = JobText {
        seeds: &["http://a.test/"],
        rest: &rest,
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    job.run();
    assert_eq!(job.sidecars().len(), n);
    job
}

pub fn annotate(job: &Job, more: &[&str]) -> Command {
    let file = job.file();
    spoor(&[&["annotate", file.to_str().unwrap()], more].concat())
}

/// The address of the page, and the secret of its link.
#[derive(Clone, Copy)]
pub struct Door {
    address: SocketAddr,
    token: [u8; 32],
}

impl Door {
    fn token(&self) -> &str {
        std::str::from_utf8(&self.token).unwrap()
    }

    pub fn link(&self) -> String {
        format!("http://{}/?token={}", self.address, self.token())
    }
}

/// Serves a job; returns the process and its address.
pub fn serve(job: &Job, more: &[&str]) -> (Live, Door) {
    let mut live = Live::start(&mut annotate(job, more));
    let line = live.first_line();
    let link = line.split_once("http://").unwrap().1;
    let (address, token) = link.split_once("/?token=").unwrap();
    let door = Door {
        address: address.parse().unwrap(),
        token: token.as_bytes().try_into().unwrap(),
    };
    (live, door)
}

/// The valid votes, including those on gold questions.
pub fn kept(job: &Job) -> Vec<Vote> {
    votes::read(&job.folder()).unwrap()
}

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", String::from_utf8_lossy(&self.body));
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// One request on its own connection; `None` without a complete answer.
fn request(to: SocketAddr, head: &str, body: &str) -> Option<Answer> {
    let mut stream = TcpStream::connect(to).ok()?;
    let length = body.len();
    let text = format!("{head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n")?;
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = bytes[end + 4..].to_vec();
    Some(Answer {
        status,
        head: head.to_ascii_lowercase(),
        body,
    })
}

fn get(to: Door, path: &str) -> Answer {
    let Door { address, .. } = to;
    let token = to.token();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}");
    request(address, &head, "").unwrap()
}

/// A POST request, as the page makes it.
fn post(to: Door, path: &str, body: &Value) -> Option<Answer> {
    let Door { address, .. } = to;
    let token = to.token();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\n\
         Authorization: Bearer {token}"
    );
    request(address, &head, &body.to_string())
}

fn ballot(who: &str, turn: &Value, answer: &str) -> Value {
    json!({
        "annotator": who, "image": turn["image"], "question": turn["question"], "answer": answer
    })
}

fn answer_to(turn: &Value) -> &'static str {
    match turn["question"].as_str() {
        Some("image") => "on topic",
        _ => "fits",
    }
}

#[test]
fn nothing_answered_is_lost_whenever_it_is_killed() {
    let job = crawled(12, "votes = 3");
    let people = ["ann", "bob", "cid"];
    let mut acknowledged: BTreeSet<(String, String, String)> = BTreeSet::new();
    for kill_after in [1, 7, 20] {
        let (mut live, to) = serve(&job, &[]);
        let count = AtomicUsize::new(0);
        let count = &count;
        let heard = std::thread::scope(|scope| {
            let voting = people.map(|who| {
                scope.spawn(move || {
                    let mut heard = Vec::new();
                    let me = json!({"annotator": who});
                    let Some(first) = post(to, "/next", &me) else {
                        return heard;
                    };
                    let mut turn = first.json();
                    while turn["state"] == "ask" {
                        let answer = answer_to(&turn);
                        let Some(next) = post(to, "/vote", &ballot(who, &turn, answer)) else {
                            break;
                        };
                        let part = |key: &str| turn[key].as_str().unwrap().to_owned();
                        heard.push((who.to_owned(), part("image"), part("question")));
                        count.fetch_add(1, Ordering::SeqCst);
                        turn = next.json();
                    }
                    heard
                })
            });
            while count.load(Ordering::SeqCst) < kill_after {
                std::thread::yield_now();
            }
            assert!(live.kill(), "it had ended by itself");
            let heard = voting.map(|thread| thread.join().unwrap());
            heard.into_iter().flatten().collect::<Vec<_>>()
        });
        assert!(heard.len() >= kill_after);
        for vote in heard {
            assert!(acknowledged.insert(vote.clone()), "asked twice: {vote:?}");
        }
        let kept: Vec<_> = kept(&job)
            .into_iter()
            .map(|v| {
                (
                    v.annotator,
                    v.image,
                    format!("{:?}", v.question).to_lowercase(),
                )
            })
            .collect();
        let distinct: BTreeSet<_> = kept.iter().cloned().collect();
        assert_eq!(kept.len(), distinct.len());
        assert!(distinct.is_superset(&acknowledged));
        // Votes that were written but not acknowledged count too, at most one for each person.
        assert!(kept.len() <= acknowledged.len() + people.len());
        acknowledged = distinct;
    }
    // Undoing a vote is as durable, and the command ends in good order.
    let (mut live, to) = serve(&job, &[]);
    let before = kept(&job);
    post(to, "/undo", &json!({"annotator": "ann"}))
        .unwrap()
        .json();
    assert!(live.kill());
    let last = before.iter().rposition(|v| v.annotator == "ann").unwrap();
    let mut expected = before;
    expected.remove(last);
    assert_eq!(kept(&job), expected);
    let (live, to) = serve(&job, &[]);
    // An idle connection does not delay it.
    let _idle = TcpStream::connect(to.address).unwrap();
    assert_eq!(get(to, "/").status, 200);
    live.signal(Signal::SIGTERM);
    live.ended().good();
}

#[test]
fn only_the_page_itself_is_served() {
    let job = crawled(2, "");
    let (_live, to) = serve(&job, &[]);
    let me = json!({"annotator": "ann"});
    let turn = post(to, "/next", &me).unwrap().json();
    let image = format!("/image/{}", turn["image"].as_str().unwrap());
    for path in [
        "/",
        "/page.css",
        "/page.js",
        "/setup",
        &image,
        "/none",
        "/image/../../job.toml",
    ] {
        let head = get(to, path).head;
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; \
             img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(head.contains(&format!("\r\n{header}")), "{path}: {head}");
        }
    }
    let picture = get(to, &image);
    assert!(picture.head.contains("content-type: image/jpeg"));
    assert_eq!(
        image::guess_format(&picture.body).unwrap(),
        image::ImageFormat::Jpeg
    );
    for path in [
        "/image/00",
        "/image/..%2f..%2fjob.toml",
        "/job.toml",
        "/votes.jsonl",
    ] {
        assert_eq!(get(to, path).status, 404, "{path}");
    }
    // Words are JSON strings, whatever they contain.
    let words = turn["words"].to_string();
    assert!(words.contains("owned"), "{words}");
    let page = String::from_utf8(get(to, "/").body).unwrap();
    assert!(!page.contains("owned") && !page.contains("onclick"));

    let own = to.address.to_string();
    let ours = format!("http://{own}");
    for (host, more, status) in [
        (own.clone(), format!("Origin: {ours}"), 200),
        (
            "localhost:1".to_owned(),
            "Origin: http://localhost:1".to_owned(),
            200,
        ),
        (own.clone(), "Sec-Fetch-Site: same-origin".to_owned(), 200),
        (own.clone(), "X-No: origin".to_owned(), 403),
        (own.clone(), "Origin: http://evil.test".to_owned(), 403),
        (own.clone(), "Origin: null".to_owned(), 403),
        (
            own.clone(),
            format!("Origin: {ours}\r\nSec-Fetch-Site: cross-site"),
            403,
        ),
        (
            "evil.test".to_owned(),
            "Origin: http://evil.test".to_owned(),
            403,
        ),
        (
            "192.168.7.7".to_owned(),
            "Origin: http://192.168.7.7".to_owned(),
            403,
        ),
    ] {
        let head = format!("POST /next HTTP/1.1\r\nHost: {host}\r\n{more}");
        let with = format!("{head}\r\nAuthorization: Bearer {}", to.token());
        let answer = request(to.address, &with, &me.to_string()).unwrap();
        assert_eq!(answer.status, status, "{host} {more}");
        // Without the link it is refused in any case.
        let answer = request(to.address, &head, &me.to_string()).unwrap();
        assert!([401, 403].contains(&answer.status), "{host} {more}");
    }
    for path in ["/", "/page.js", "/setup", &image, "/?token=0", "/?as=ann"] {
        let head = format!("GET {path} HTTP/1.1\r\nHost: {own}");
        assert_eq!(
            request(to.address, &head, "").unwrap().status,
            401,
            "{path}"
        );
    }
    for (path, body, status) in [
        ("/next", json!({}), 400),
        ("/next", json!({"annotator": " "}), 400),
        ("/next", json!({"annotator": "a\nb"}), 400),
        ("/next", json!({"annotator": "a".repeat(41)}), 400),
        ("/next", json!({"annotator": "a".repeat(9000)}), 413),
        ("/undo", me.clone(), 400),
        ("/vote", ballot("ann", &turn, "fits"), 400),
        (
            "/vote",
            json!({"annotator": "ann", "image": "00", "question": "image", "answer": "related"}),
            400,
        ),
    ] {
        assert_eq!(
            post(to, path, &body).unwrap().status,
            status,
            "{path} {body}"
        );
    }
    assert_eq!(kept(&job), []);
    post(to, "/vote", &ballot("ann", &turn, "related"))
        .unwrap()
        .json();
    let other = post(to, "/vote", &ballot("ann", &turn, "on topic")).unwrap();
    assert_eq!(other.status, 409);
    assert_eq!(kept(&job).len(), 1);
}

#[test]
fn the_list_of_images_stays_the_same_and_grows() {
    let job = crawled(6, "");
    let table = job.folder().join("annotations/images.tsv");
    let serves = |more: &[&str], n: usize| {
        let mut live = Live::start(&mut annotate(&job, more));
        let line = live.first_line();
        assert!(line.starts_with(&format!("judging {n} images")), "{line}");
        live.signal(Signal::SIGINT);
        live.ended().good();
        std::fs::read_to_string(&table).unwrap()
    };
    let three = serves(&["--top", "3"], 3);
    assert_eq!(three.lines().count(), 4);
    assert_eq!(serves(&[], 3), three);
    let five = serves(&["--top", "5"], 5);
    assert!(five.starts_with(&three) && five.lines().count() == 6);
    assert_eq!(serves(&["--top", "2"], 2), five);
    let cells = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>();
    let sixth: BTreeSet<String> = serves(&["--top", "99"], 6)
        .lines()
        .map(|l| cells(l)[1].clone())
        .collect();
    assert_eq!(sixth.len(), 7);
    std::fs::write(&table, format!("{five}torn")).unwrap();
    let error = Ran::of(&mut annotate(&job, &[])).refused();
    assert!(error.contains("images.tsv:7: has 1 cells"), "{error}");
}

#[test]
fn gold_questions_reveal_who_does_not_look() {
    let root = tempfile::tempdir().unwrap();
    let gold = root.path().join("gold.tsv");
    let lines: String = (0..4)
        .map(|n| format!("http://a.test/{n}.png\ton topic\n"))
        .collect();
    std::fs::write(&gold, format!("# image\tclass\n\n{lines}")).unwrap();
    let keys = format!("gold = {gold:?}\ngold_every = 2\nqualify_after = 3\nvotes = 1");
    let job = crawled(12, &keys);
    let (live, to) = serve(&job, &[]);
    let mut turn = post(to, "/next", &json!({"annotator": "eve"}))
        .unwrap()
        .json();
    let keys = |turn: &Value| {
        turn.as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<BTreeSet<_>>()
    };
    let first = keys(&turn);
    while turn["state"] == "ask" {
        assert_eq!(keys(&turn), first, "a gold question looks like any other");
        let answer = match answer_to(&turn) {
            "on topic" => "off topic",
            other => other,
        };
        turn = post(to, "/vote", &ballot("eve", &turn, answer))
            .unwrap()
            .json();
    }
    assert_eq!(turn["state"], "retired");
    let all = kept(&job);
    let golden = all.iter().filter(|v| v.gold.as_deref() == Some("on topic"));
    assert_eq!(golden.count(), 3);
    let section = spoor::config::Config::load(&job.file())
        .unwrap()
        .settings
        .annotate;
    assert_eq!(votes::qualified(all, &section), []);
    drop(live);

    for (line, why) in [
        (
            "http://a.test/none.png\ton topic",
            "gold.tsv:1: \"http://a.test/none.png\" is not an image",
        ),
        (
            "http://a.test/1.png\tcat",
            "gold.tsv:1: \"cat\" is not one of annotate.classes",
        ),
        (
            "http://a.test/1.png\trelated\tgood",
            "\"good\" is not one of [\"describes\"",
        ),
        ("http://a.test/1.png", "needs an image and its class"),
    ] {
        std::fs::write(&gold, line).unwrap();
        let error = Ran::of(&mut annotate(&job, &[])).refused();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn it_refuses_what_would_go_wrong() {
    let job = crawled(1, "");
    let error = Ran::of(&mut annotate(&job, &["--listen", "0.0.0.0:0"])).refused();
    assert!(error.contains("--allow-remote"), "{error}");
    let (_live, _) = serve(&job, &[]);
    let error = Ran::of(&mut annotate(&job, &[])).refused();
    assert!(error.contains("another `spoor annotate`"), "{error}");
    drop(_live);
    std::fs::remove_dir_all(job.folder()).unwrap();
    let error = Ran::of(&mut annotate(&job, &[])).refused();
    assert!(error.contains("no ranked images"), "{error}");
    assert!(!Path::new(&job.folder()).exists());
}

#[test]
fn connections_that_say_nothing_are_let_go_for_others() {
    let job = crawled(2, "");
    let (_live, to) = serve(&job, &[]);
    let mut silent: Vec<TcpStream> = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(to.address).unwrap());
    }
    assert_eq!(get(to, "/setup").status, 200);
    // The oldest connections were closed, without any answer.
    for stream in silent.iter_mut().take(20) {
        stream.set_read_timeout(Some(GUARD)).unwrap();
        let ended = stream.read(&mut [0; 1]);
        let reset = |e: &std::io::Error| e.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(
            matches!(&ended, Ok(0)) || ended.as_ref().is_err_and(reset),
            "{ended:?}"
        );
    }
}
