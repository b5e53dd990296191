//! Fetching images: the best size of each, their share of the requests, and kills of the process.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use spoor_lab::gallery::{Gallery, Shape, gallery};

use crate::support::texts::{some, topical};
use crate::support::wire::too_close;
use crate::support::{Job, JobText, Live, Ran, Seen, Wire, spoor};

const PAUSE: Duration = Duration::from_millis(5);

fn web(pages: usize, hosts: usize, cdn: bool) -> Gallery {
    gallery(Shape { pages, hosts, cdn }, |n| some(topical(), n, 2))
}

fn job_of(wire: &Wire, seed: &str, rest: &str) -> Job {
    let politeness = "min_delay = \"5ms\"\ndelay_factor = 0\nretries = 0\nback_off = \"1ms\"";
    Job::new(
        wire,
        &JobText {
            seeds: &[seed],
            politeness,
            rest,
            ..JobText::default()
        },
    )
}

/// The requests other than robots.txt, in order.
fn asked(wire: &Wire) -> Vec<Seen> {
    let mut all = wire.requests();
    all.retain(|seen| seen.path != "/robots.txt");
    all
}

fn is_image(seen: &Seen) -> bool {
    seen.path.ends_with(".png") || seen.path.ends_with(".svg")
}

/// The kept images, with the pages of their words.
fn kept(job: &Job) -> BTreeMap<String, BTreeSet<String>> {
    let mut kept = BTreeMap::new();
    for sidecar in job.sidecars() {
        let url = sidecar["url"].as_str().unwrap().to_owned();
        let contexts = sidecar["contexts"].as_array().unwrap();
        let pages = contexts
            .iter()
            .map(|c| c["page"].as_str().unwrap().to_owned());
        let pages: BTreeSet<String> = pages.collect();
        assert_eq!(
            pages.len(),
            contexts.len(),
            "{url} has words of a page twice"
        );
        assert_eq!(kept.insert(url, pages), None, "two sidecars");
    }
    kept
}

fn times(all: &[Seen], url: &str) -> usize {
    all.iter()
        .filter(|seen| format!("http://{}", seen.address()) == url)
        .count()
}

#[test]
fn the_best_size_is_fetched_and_nothing_in_its_place() {
    let Gallery {
        lab,
        seed,
        kept: expected,
        gone,
        never,
    } = web(8, 2, true);
    let wire = Wire::serve(lab);
    let job = job_of(&wire, &seed, "");
    let out = job.run();
    let all = asked(&wire);
    for url in gone.iter().chain(expected.keys()) {
        assert_eq!(times(&all, url), 1, "{url}");
    }
    for url in &never {
        assert_eq!(times(&all, url), 0, "{url}");
    }
    assert_eq!(kept(&job), expected);
    assert_eq!(too_close(&wire.requests(), |_| PAUSE), Vec::<String>::new());
    let kept = format!("{} kept; 8 SVGs left out", expected.len());
    assert!(out.contains(&kept), "{out}");
    let rows = job.log();
    let row = |url: &str| rows.iter().find(|row| row["url"] == url).unwrap();
    let (missing, deleted) = ("http://cdn.test/l/0.png", "http://cdn.test/q/0.png");
    for (url, status) in [(missing, 404), (deleted, 410)] {
        assert_eq!(
            (&row(url)["reason"], &row(url)["status"]),
            (&"gone".into(), &status.into())
        );
    }
    assert_eq!(row(&seed)["svgs"], 1);
    let file = job.file();
    let explained = Ran::of(&mut spoor(&["explain", file.to_str().unwrap(), missing])).good();
    assert!(
        explained.contains("there is no image at this address (404 or 410)"),
        "{explained}"
    );
    // Nothing is left, and nothing is fetched twice.
    let before = wire.requests().len();
    job.run();
    assert_eq!(wire.requests().len(), before);
}

/// The share of images among the requests before the last page.
fn share_of(all: &[Seen]) -> f64 {
    let last = all.iter().rposition(|seen| !is_image(seen)).unwrap();
    let among = &all[..=last];
    among.iter().filter(|seen| is_image(seen)).count() as f64 / among.len() as f64
}

#[test]
fn stopping_early_leaves_pages_and_images() {
    for (share, low, high) in [("0.33", 0.25, 0.42), ("0", 0.0, 0.12), ("0.6", 0.5, 0.68)] {
        let plan = web(60, 3, false);
        let wire = Wire::serve(plan.lab);
        let rest =
            format!("[limits]\ndocuments = 40\n[images]\nafter_limit = false\nshare = {share}");
        let job = job_of(&wire, &plan.seed, &rest);
        let out = job.run();
        let found = share_of(&asked(&wire));
        assert!((low..=high).contains(&found), "{found} of {share}\n{out}");
        assert!(out.contains("40 done"), "{out}");
        assert!(
            out.contains(" images are still queued on 3 hosts, "),
            "{out}"
        );
        assert!(
            out.contains("images.after_limit = true fetches them"),
            "{out}"
        );
    }
}

#[test]
fn a_crawl_that_is_killed_keeps_its_share_and_brings_all_images() {
    let plan = web(60, 3, false);
    let wire = Wire::serve(plan.lab);
    let job = job_of(&wire, &plan.seed, "");
    let mut kills = 0;
    while kills < 5 {
        let before = wire.notes().events();
        let mut process = Live::start(&mut job.crawl());
        wire.wait(|n| n.events() >= before + 60, || process.has_ended());
        assert!(process.kill(), "it was done before the last kill");
        wire.settle();
        kills += 1;
    }
    job.run();
    let all = asked(&wire);
    let share = share_of(&all);
    assert!((0.22..=0.45).contains(&share), "{share}");
    assert_eq!(kept(&job), plan.kept);
    for url in &plan.never {
        assert_eq!(times(&all, url), 0, "{url}");
    }
    // Only requests that were in flight at a kill are repeated.
    let mut again = 0;
    for url in plan.kept.keys().chain(&plan.gone) {
        again += times(&all, url).checked_sub(1).unwrap();
    }
    assert!(again <= kills * 3, "{again} requests were made again");
    let mut rows = BTreeSet::new();
    for row in job.image_rows() {
        let pair = (row["url"].clone(), row["page"].clone());
        assert!(rows.insert(pair.clone()), "{pair:?} stands there twice");
    }
    let planned = plan.kept.iter();
    let planned: BTreeSet<_> = planned
        .flat_map(|(url, pages)| pages.iter().map(|page| (url.clone(), page.clone())))
        .collect();
    assert_eq!(rows, planned);
}
