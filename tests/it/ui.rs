//! `spoor ui`: all jobs of a folder on one page, over real sockets and in a real browser.

use std::path::Path;

use serde_json::{Value, json};
use spoor_lab::Lab;

use super::browser::{Browser, can_browse};
use super::control_api::{Answer, tcp};
use crate::support::texts::{page, plain, some, topical, tree};
use crate::support::{Job, JobText, Live, Ran, Wire, spoor};

/// A site whose crawl is finished in a moment, and one whose crawl takes long.
fn web() -> Wire {
    let links: Vec<String> = (0..300).map(|i| format!("/{i}")).collect();
    let links: Vec<&str> = links.iter().map(String::as_str).collect();
    let words = some(topical(), 0, 8);
    let title = "<b>Lights</b> \u{202e}";
    let mut web = tree(&[
        ("short.test/", page(title, "", &[words])),
        ("long.test/", plain(&links, &[])),
    ]);
    for path in &links {
        web.insert_as("long.test", path, "text/html", plain(&[path], &[]));
    }
    Wire::serve(Lab::from_memory(web))
}

fn job(wire: &Wire, seed: &str) -> Job {
    let text = JobText {
        seeds: &[seed],
        politeness: "min_delay = 1\ndelay_factor = 0\nretries = 0",
        rest: "[control]\n",
        ..JobText::default()
    };
    Job::new(wire, &text)
}

/// Serves the jobs of a folder; returns the process, its address and its token.
fn serve(folder: &Path) -> (Live, String, String) {
    let mut live = Live::start(&mut spoor(&["ui", folder.to_str().unwrap()]));
    let link = live.line_with(" on http://");
    let (address, token) = link.split_once("/#token=").unwrap();
    let (address, token) = (address.to_owned(), token.to_owned());
    (live, address, token)
}

struct Page {
    _live: Live,
    address: String,
    token: String,
}

impl Page {
    fn of(folder: &Path) -> Self {
        let (_live, address, token) = serve(folder);
        Self {
            _live,
            address,
            token,
        }
    }

    fn ask(&self, line: &str, more: &str) -> Answer {
        let bearer = format!("Authorization: Bearer {}\r\n{more}", self.token);
        tcp(&self.address, line, &bearer, "")
    }

    fn jobs(&self) -> Vec<Value> {
        let shelf = self.ask("GET /api/jobs", "").json();
        shelf["jobs"].as_array().unwrap().clone()
    }
}

#[test]
fn a_folder_without_jobs_is_shown_as_empty_and_only_the_link_opens_it() {
    let folder = tempfile::tempdir().unwrap();
    let page = Page::of(&folder.path().join("jobs"));
    assert!(page.jobs().is_empty());
    for line in ["GET /api/jobs", "GET /job/x/file", "POST /job/x/report"] {
        tcp(&page.address, line, "", "").refused(401);
        page.ask(line, "Host: evil.test\r\n").refused(403);
    }
    page.ask("POST /job/x/report", "Origin: http://evil.test\r\n")
        .refused(403);
    for line in [
        "GET /job/x/file",
        "GET /job/../file",
        "GET /job/%2e%2e/file",
        "GET /job/..%2fx/report",
        "POST /job/x/report",
    ] {
        page.ask(line, "").refused(404);
    }
    let html = tcp(&page.address, "GET /", "", "");
    assert!(html.status == 200 && html.body.contains("Nothing here yet"));
    let refused = Ran::of(&mut spoor(&["ui", "--listen", "0.0.0.0:0"])).refused();
    assert!(refused.contains("ssh -L"), "{refused}");
}

#[test]
fn jobs_are_distinguished_by_how_they_ended() {
    let wire = web();
    let job = job(&wire, "http://short.test/");
    job.run();
    let root = job.folder();
    let root = root.parent().unwrap();
    let page = Page::of(root);
    let jobs = page.jobs();
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    let card = &jobs[0];
    assert_eq!(
        (&card["name"], &card["state"]),
        (&"job".into(), &"finished".into())
    );
    assert_eq!(card["text"], "nothing is left to fetch");
    assert_eq!(card["pages"], 1);
    assert!(
        card.get("dashboard").is_none() && card.get("report").is_none(),
        "{card}"
    );
    let file = page.ask("GET /job/job/file", "");
    assert!(file.body.contains("[seeds]") && file.body.contains("http://short.test/"));

    // The report is made in the job's folder, by a program or the page itself.
    page.ask("GET /job/job/report", "").refused(404);
    assert_eq!(page.ask("POST /job/job/report", "").status, 200);
    let report = page.ask("GET /job/job/report", "");
    assert!(report.body.contains("Too early to tell"), "{}", report.body);
    assert!(!report.body.contains("<script"));
    let report = job.folder().join("report/report.html");
    assert!(report.is_file());
    // The report of somebody else's job is shown, and opens no connection.
    let made = std::fs::read_to_string(&report).unwrap();
    let link = "<link rel=preconnect href=http://evil.test></head>";
    std::fs::write(&report, made.replacen("</head>", link, 1)).unwrap();
    let shown = page.ask("GET /job/job/report", "").body;
    assert!(
        shown.contains("Too early to tell") && !shown.contains("<link"),
        "{shown}"
    );
    std::fs::write(&report, made).unwrap();
    assert!(page.jobs()[0]["report"].is_string());

    // Incomplete jobs are marked as such.
    std::fs::remove_file(job.folder().join("ended.json")).unwrap();
    assert_eq!(page.jobs()[0]["state"], "interrupted");
    std::fs::write(job.folder().join("job.toml"), "[job]\nnam = \"x\"\n").unwrap();
    let card = &page.jobs()[0];
    assert_eq!(card["state"], "damaged");
    assert!(card["text"].as_str().unwrap().contains("nam"), "{card}");
    assert_eq!(page.ask("POST /job/job/report", "").status, 500);
}

#[test]
fn a_running_crawl_is_reached_from_the_page() {
    let wire = web();
    let job = job(&wire, "http://long.test/");
    let file = job.file();
    let mut live = Live::start(&mut spoor(&["-v", "crawl", file.to_str().unwrap()]));
    let link = live.says_after("dashboard on ");
    wire.wait_for("long.test/0");
    let root = job.folder();
    let page = Page::of(root.parent().unwrap());
    let card = page.jobs().remove(0);
    assert_eq!(
        (&card["state"], &card["text"]),
        (&"running".into(), &"crawling".into())
    );
    assert_eq!(card["dashboard"], link.trim_end());
    if can_browse() {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let browser = Browser::open().await;
            let link = format!("http://{}/#token={}", page.address, page.token);
            browser.goto(&link).await;
            browser.see("#jobs .running").await;
            let url = browser.client.current_url().await.unwrap();
            assert_eq!(url.fragment(), None, "{url}");
            browser.click(".acts button").await;
            browser.see(".acts a[href='/job/job/report']").await;
            browser.click(".acts button:last-child").await;
            browser.see("#file[open]").await;
            let text = "return document.getElementById('file-text').textContent";
            let text = browser.js(text).await;
            assert!(
                text.as_str().unwrap().contains("http://long.test/"),
                "{text}"
            );
            browser.click("#file-close").await;
            browser.be_a_phone().await;
            browser.until("innerWidth === 390").await;
            let beyond = "return [document.documentElement.scrollWidth, \
                 [...document.querySelectorAll('body *')].filter(e => { \
                 const r = e.getBoundingClientRect(); \
                 return r.width && (r.left < 0 || r.right > innerWidth) }).length]";
            assert_eq!(browser.js(beyond).await, json!([390, 0]));
            assert_eq!(browser.complaints().await, [""; 0]);
            Ran::of(&mut spoor(&["ctl", file.to_str().unwrap(), "stop"])).good();
            browser.see("#jobs .stopped").await;
        });
        live.ended().stopped();
    }
}
