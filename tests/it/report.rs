//! `spoor report` on crawls of the demo web.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use spoor_lab::demo;

use crate::support::wire::too_close;
use crate::support::{Job, JobText, Ran, Wire, spoor};

/// The demo web crawled by one strategy, 60 pages, and the requests that its server saw.
fn crawled(strategy: &str) -> (Job, Wire) {
    let web = demo::web();
    let wire = Wire::serve(web.lab());
    let seeds: Vec<&str> = web.seeds.iter().map(String::as_str).collect();
    let rest = format!(
        "[strategy]\nkind = \"{strategy}\"\n[limits]\nfetches = 60\n\
         [images]\nmin_width = 60\nmin_height = 60\n"
    );
    let text = JobText {
        seeds: &seeds,
        politeness: "min_delay = \"10ms\"\ndelay_factor = 1.5\nretries = 0",
        rest: &rest,
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    job.run();
    (job, wire)
}

fn report(jobs: &[&Job], more: &[&str]) -> Ran {
    let files: Vec<_> = jobs.iter().map(|job| job.file()).collect();
    let mut arguments = vec!["report"];
    arguments.extend(files.iter().map(|file| file.to_str().unwrap()));
    arguments.extend(more);
    Ran::of(&mut spoor(&arguments))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A number as the report writes it.
fn count(n: usize) -> String {
    assert!(n < 1_000_000);
    match n {
        0..1000 => n.to_string(),
        _ => format!("{},{:03}", n / 1000, n % 1000),
    }
}

#[test]
fn three_strategies_side_by_side_agree_with_independent_counts() {
    // They wait most of the time, each for its own hosts.
    let crawls = std::thread::scope(|scope| {
        let crawls = ["unfocused", "document", "link"];
        let crawls = crawls.map(|strategy| scope.spawn(move || crawled(strategy)));
        crawls.map(|crawl| crawl.join().unwrap())
    });
    let jobs: Vec<&Job> = crawls.iter().map(|(job, _)| job).collect();
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().join("deep/report");
    let place = folder.to_str().unwrap();
    let printed = report(&jobs, &["--out", place, "--json"]).good();
    let json: Value = serde_json::from_str(&printed).unwrap();
    let html = read(&folder.join("report.html"));
    assert_eq!(
        read(&folder.join("perplexity.svg")).matches("<svg").count(),
        1
    );
    assert_eq!(html.matches("<svg").count(), 2, "perplexity and images");
    let mut perplexities = Vec::new();
    for ((job, wire), figures) in crawls.iter().zip(json["jobs"].as_array().unwrap()) {
        let log = job.log();
        let sentences = job.sentences();
        let tokens: usize = sentences.iter().map(|s| s.split(' ').count()).sum();
        let pages: Vec<&Value> = log
            .iter()
            .filter(|r| r["kind"] == "page" && r["outcome"] == "done")
            .collect();
        let bytes: u64 = pages.iter().map(|r| r["bytes"].as_u64().unwrap()).sum();
        let hosts: BTreeSet<&str> = pages
            .iter()
            .filter_map(|r| r["url"].as_str()?.split('/').nth(2))
            .collect();
        let images = job.sidecars().len();
        assert!(pages.len() > 40 && images > 10 && sentences.len() > 200);
        for (key, expected) in [
            ("rows", log.len()),
            ("sentences", sentences.len()),
            ("tokens", tokens),
            ("pages", pages.len()),
            ("hosts", hosts.len()),
            ("images", images),
        ] {
            assert_eq!(figures[key], expected, "{key}");
            if key != "rows" {
                let cell = count(expected);
                assert!(html.contains(&format!("<td>{cell}</td>")), "{key} {cell}");
            }
        }
        assert_eq!(figures["page_bytes"], bytes);
        let mut encodings: BTreeMap<&str, usize> = BTreeMap::new();
        for page in &pages {
            *encodings
                .entry(page["charset"].as_str().unwrap())
                .or_default() += 1;
        }
        let counted = figures["encodings"]["top"].as_array().unwrap().iter();
        let counted: BTreeMap<&str, usize> = counted
            .map(|pair| {
                (
                    pair[0].as_str().unwrap(),
                    pair[1].as_u64().unwrap() as usize,
                )
            })
            .collect();
        assert_eq!(counted, encodings);
        assert!(encodings.contains_key("UTF-8"), "{encodings:?}");

        // The log and the wire agree that every pause was kept.
        let politeness = &figures["politeness"];
        assert_eq!(
            (
                politeness["violations"].as_u64(),
                politeness["unknown"].as_u64()
            ),
            (Some(0), Some(0))
        );
        let all = log
            .iter()
            .filter_map(|r| r["url"].as_str()?.split('/').nth(2));
        let all: BTreeSet<&str> = all.collect();
        assert_eq!(politeness["measured"], log.len() - all.len());
        assert!(politeness["least"][0].as_f64().unwrap() >= 1.0);
        let close = too_close(&wire.requests(), |_| Duration::from_millis(10));
        assert_eq!(close, Vec::<String>::new());

        let perplexity = &figures["perplexity"];
        let packets = perplexity["packets"].as_array().unwrap();
        assert_eq!(packets.len(), sentences.len().div_ceil(25).min(240));
        assert_eq!(packets.last().unwrap()["sentences"], sentences.len());
        perplexities.push(perplexity["all"].as_f64().unwrap());
        let kept = if figures["strategy"] == "unfocused" {
            "rated"
        } else {
            "steered"
        };
        assert_eq!(perplexity["model_use"], kept);
    }
    assert!(
        perplexities[2] < perplexities[0],
        "focus pays: {perplexities:?}"
    );
    let names: Vec<&Value> = json["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|j| &j["name"])
        .collect();
    assert_eq!(names, ["job", "job (2)", "job (3)"]);
    assert!(html.contains("it flatters this crawl"));
}

/// The perplexity of all sentences is that which `spoor score` gives for their text.
#[test]
fn one_job_reports_beside_its_results_while_it_is_half_done() {
    let (job, _wire) = crawled("link");
    let log = job.folder().join("logs/crawl.jsonl");
    let text = read(&log);
    let half = text.len() / 2;
    // Half a line at the end, as if a crawl were just writing it.
    std::fs::write(&log, &text[..half]).unwrap();
    let rows = text[..half].matches('\n').count();
    let printed = report(&[&job], &[]).good();
    // The verdict comes first, then the figures.
    let sentence = [
        "Of 100 pages it chose, ",
        "Too early to tell how many ",
        "Cannot tell how many ",
    ];
    assert!(sentence.iter().any(|s| printed.starts_with(s)), "{printed}");
    assert!(printed.contains("It was polite: all of "), "{printed}");
    assert!(printed.contains("Sentences"), "{printed}");
    let html = read(&job.folder().join("report/report.html"));
    assert!(!html.contains("What could not be read"));
    let first = html.find("class=\"sentence\"").unwrap();
    assert!(first < html.find("Details").unwrap());
    let pictures = html.matches("<img src=\"data:image/jpeg;base64,").count();
    assert!((1..=18).contains(&pictures), "{pictures}");
    assert_eq!(html.matches("src=").count(), pictures, "nothing is loaded");
    assert!(
        !html.contains("(figure 5"),
        "of no thesis that is not named"
    );
    let json: Value = serde_json::from_str(&report(&[&job], &["--json"]).good()).unwrap();
    assert_eq!(json["jobs"][0]["rows"], rows);
    let verdict = &json["jobs"][0]["verdict"];
    assert!(printed.starts_with(verdict["sentence"].as_str().unwrap()));
    assert_eq!(verdict["pictures"].as_array().unwrap().len(), pictures);
    assert!(verdict["pictures"][0].get("data").is_none());
    let lm = spoor::topic::model::Model::load(
        &spoor::config::Config::load(&job.file())
            .unwrap()
            .model_folder(),
    )
    .unwrap()
    .lm;
    let sentences: Vec<_> = job
        .sentences()
        .iter()
        .map(|s| spoor::topic::lm::normalise(s))
        .collect();
    let expected = spoor::topic::lm::perplexity::document(&*lm, &sentences).perplexity;
    let found = json["jobs"][0]["perplexity"]["all"].as_f64().unwrap();
    assert!(
        (found / expected - 1.0).abs() < 1e-9,
        "{found} is not {expected}"
    );
    let error = report(&[&job], &["--model", "no/such"]).refused();
    assert!(error.contains("no/such"), "{error}");
}
