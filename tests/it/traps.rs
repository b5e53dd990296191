//! Endless sites cost little, and sites that are merely large lose nothing.

use std::collections::{BTreeMap, BTreeSet};

use spoor::address::PageUrl;
use spoor_lab::Lab;
use spoor_lab::traps::{HOSTS, content, web};

use super::support::texts::{link, other, page, some, topical, tree};
use super::support::{Job, JobText, Ran, Wire, spoor};

/// The number of articles in the archive, when all of them are to be fetched.
const ARTICLES: u64 = 1_500;

/// The requests other than robots.txt.
struct Asked {
    all: usize,
    /// Requests that brought nothing new, by host.
    lost: BTreeMap<String, usize>,
    contents: BTreeSet<String>,
    /// Months of the calendar.
    months: BTreeSet<(u32, u32)>,
}

impl Asked {
    fn of(wire: &Wire) -> Self {
        let mut asked = Self {
            all: 0,
            lost: BTreeMap::new(),
            contents: BTreeSet::new(),
            months: BTreeSet::new(),
        };
        for seen in wire.requests() {
            if seen.path == "/robots.txt" {
                continue;
            }
            asked.all += 1;
            if let Some(month) = seen.path.strip_prefix("/events/") {
                let numbers: Vec<u32> = month.split('/').flat_map(str::parse).collect();
                asked.months.insert((numbers[0], numbers[1]));
            }
            let url = PageUrl::parse(&format!("http://{}", seen.address())).unwrap();
            let new = content(&url).is_some_and(|content| asked.contents.insert(content));
            if !new {
                *asked.lost.entry(seen.host).or_default() += 1;
            }
        }
        asked
    }

    fn lost(&self) -> usize {
        self.lost.values().sum()
    }

    fn with(&self, prefix: &str) -> usize {
        self.contents
            .iter()
            .filter(|c| c.starts_with(prefix))
            .count()
    }
}

/// Crawls the web of traps from the front pages of all its sites.
fn crawl(articles: u64, rest: &str) -> (Asked, Job) {
    let wire = Wire::serve(web(articles));
    let seeds: Vec<String> = HOSTS.iter().map(|host| format!("http://{host}/")).collect();
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let text = JobText {
        seeds: &seeds,
        rest,
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    job.run();
    (Asked::of(&wire), job)
}

fn at_most_one_in_twenty_is_lost(strategy: &str) {
    let rest = format!("[strategy]\nkind = \"{strategy}\"\n[limits]\nfetches = 2000\n");
    let (asked, _) = crawl(2_500, &rest);
    println!(
        "{strategy}: {} of {} lost: {:?}",
        asked.lost(),
        asked.all,
        asked.lost
    );
    assert_eq!(asked.all, 2_000);
    assert!(asked.lost() * 20 <= asked.all, "{:?}", asked.lost);
}

#[test]
#[ignore = "long; the default suite has the other strategy"]
fn of_2000_fetches_breadth_first_at_most_100_are_lost() {
    at_most_one_in_twenty_is_lost("unfocused");
}

#[test]
fn of_2000_fetches_by_link_score_at_most_100_are_lost() {
    at_most_one_in_twenty_is_lost("link");
}

#[test]
fn a_web_with_traps_has_an_end_and_nothing_worth_reading_is_missed() {
    let (asked, job) = crawl(ARTICLES, "[strategy]\nkind = \"unfocused\"\n");
    assert_eq!(asked.with("archive.test/article/"), 1_500);
    assert_eq!(asked.with("archive.test/index/"), 30);
    assert_eq!(asked.with("facets.test/light/"), 40);
    assert_eq!(asked.with("session.test/page/"), 20);
    assert!(asked.lost() <= 100, "{:?}", asked.lost);
    let reasons: BTreeSet<String> = job
        .endings()
        .iter()
        .filter_map(|line| line.split(' ').nth(1).map(str::to_owned))
        .collect();
    assert!(reasons.contains("dropped:redirect_limit"), "{reasons:?}");
    // The month after the last requested one was never requested.
    let months = &asked.months;
    let &(year, month) = months.last().unwrap();
    let (year, month) = match month {
        12 => (year + 1, 1),
        _ => (year, month + 1),
    };
    let url = format!("http://calendar.test/events/{year}/{month:02}/?utm_source=test");
    let said = Ran::of(&mut spoor(&["explain", job.file().to_str().unwrap(), &url])).good();
    let (canonical, _) = url.split_once('?').unwrap();
    for line in [
        format!("canonical  {canonical}\n"),
        "state      page dropped: prefix_budget\n".to_owned(),
        "nothing is left\n".to_owned(),
        format!("budget     /events/#/#/: 1 of {} pages", months.len()),
    ] {
        assert!(said.contains(&line), "{line}: {said}");
    }
}

/// A page of an article that names its address and links to more.
fn article(head: &str, at: usize, href: &str) -> String {
    let text = [some(topical(), at, 6), link(href, &some(topical(), 3, 1))];
    page("An article", head, &text)
}

#[test]
fn copies_are_logged_and_lead_nowhere() {
    let canonical = "<link rel=canonical href=/a>";
    let front = ["/a", "/a-printed", "/a-again", "/b-printed", "/b"];
    let front: Vec<String> = front
        .iter()
        .map(|href| link(href, &some(topical(), 9, 1)))
        .collect();
    let pages = tree(&[
        ("copies.test/", page("Articles", "", &front)),
        ("copies.test/a", article("", 20, "/from-a")),
        (
            "copies.test/a-printed",
            article(canonical, 20, "/from-a-printed"),
        ),
        ("copies.test/a-again", article("", 20, "/from-a-again")),
        (
            "copies.test/b-printed",
            article("<link rel=canonical href=/b>", 90, "/from-b"),
        ),
        ("copies.test/b", article("", 90, "/from-the-other-b")),
        ("copies.test/from-a", page("x", "", &[some(other(), 1, 5)])),
        ("copies.test/from-b", page("x", "", &[some(other(), 9, 5)])),
    ]);
    let wire = Wire::serve(Lab::from_memory(pages));
    let text = JobText {
        seeds: &["http://copies.test/"],
        rest: "[strategy]\nkind = \"unfocused\"\n",
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    job.run();
    let asked: BTreeSet<String> = wire.requests().into_iter().map(|seen| seen.path).collect();
    let expected = [
        "/",
        "/a",
        "/a-again",
        "/a-printed",
        "/b-printed",
        "/from-a",
        "/from-b",
        "/robots.txt",
    ];
    assert_eq!(asked, expected.map(str::to_owned).into());
    let log = job.log();
    let row = |path: &str| {
        let url = format!("http://copies.test{path}");
        log.iter().find(|row| row["url"] == url.as_str()).unwrap()
    };
    let printed = row("/a-printed");
    assert_eq!(printed["outcome"], "redirected");
    assert_eq!(printed["duplicate_of"], "http://copies.test/a");
    let again = row("/a-again");
    assert_eq!(again["outcome"], "done");
    assert_eq!(again["near_copy_of"], "http://copies.test/a");
    for path in ["/a", "/b-printed", "/from-a"] {
        assert!(row(path).get("near_copy_of").is_none(), "{path}");
        assert!(row(path).get("duplicate_of").is_none(), "{path}");
    }
}
