//! Several machines crawl a web, each its own hosts; what they wrote is made into one job
//! folder, which is that of a machine that crawled alone, for everything that reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use spoor::config::StoreKind;
use spoor::corpus::gather::gather;
use spoor::outputs::merge::Part;
use spoor::outputs::{TextPlace, document_at, sentences_at};

use crate::archiving::{ARCHIVE, agrees_with_log, records};
use crate::support::small::{self, harvest, lab, rest};
use crate::support::{Job, JobText, Ran, Wire, spoor};

/// The hosts of each machine. The pictures of `i.test` are on the pages of all, so each
/// fetches them, as where that host has moved from one to the next.
const MACHINES: [&[usize]; 3] = [&[0, 1], &[2, 3], &[4, 5]];

/// A crawl of some hosts of the small web.
fn crawl(wire: &Wire, hosts: &[usize]) -> Job {
    let seeds: Vec<String> = hosts
        .iter()
        .map(|h| format!("http://h{h}.test/0"))
        .collect();
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let accept: Vec<String> = hosts.iter().map(|h| format!("host:h{h}.test")).collect();
    let scope = format!(
        "[scope]\naccept = {:?}\n{ARCHIVE}",
        [&accept[..], &["host:i.test".to_owned()]].concat()
    );
    let rest = rest(StoreKind::Fjall, &scope);
    let job = Job::new(
        wire,
        &JobText {
            seeds: &seeds,
            rest: &rest,
            ..JobText::default()
        },
    );
    job.run();
    job
}

/// A job file on a folder that is gathered.
fn gathered(wire: &Wire, jobs: &[Job]) -> Job {
    let rest = rest(StoreKind::Fjall, ARCHIVE);
    let job = Job::new(wire, &small::text(&rest));
    let names = ["one", "two", "three"];
    let parts = jobs.iter().zip(names).map(|(job, name)| Part {
        name: name.to_owned(),
        folder: job.folder(),
    });
    let parts: Vec<Part> = parts.collect();
    let found = gather(&parts, &job.folder(), spoor::clock::now()).unwrap();
    println!("{found:?}");
    job
}

fn on(job: &Job, command: &str, more: &[&str]) -> String {
    let arguments = [&[command, job.file().to_str().unwrap()], more].concat();
    Ran::of(&mut spoor(&arguments)).good()
}

fn json(job: &Job, command: &str, more: &[&str]) -> Value {
    let out = on(job, command, &[more, &["--json"]].concat());
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"))
}

/// Reads every place that a row of the log names.
fn check_places(job: &Job) {
    let folder = job.folder();
    let mut last = String::new();
    for row in job.log() {
        let time = row["time"].as_str().unwrap().to_owned();
        assert!(last <= time, "{row}");
        last = time;
        let place = |key: &str| serde_json::from_value::<TextPlace>(row[key].clone()).ok();
        if row["kind"] != "page" || row["outcome"] != "done" {
            continue;
        }
        let document = document_at(&folder, &place("documents").unwrap()).unwrap();
        assert_eq!(row["url"], document.url.as_str());
        assert_eq!(row["time"], document.fetched.as_str());
        let sentences = sentences_at(&folder, &place("sentences").unwrap()).unwrap();
        assert!(!sentences.is_empty());
    }
}

/// The images with the digest of each file, and how many are links to others.
fn images(job: &Job) -> (BTreeMap<String, String>, usize) {
    let sidecars = job.sidecars();
    let copies = sidecars.iter().filter(|s| !s["same_as"].is_null()).count();
    let digests = sidecars.iter().map(|sidecar| {
        let text = |key: &str| sidecar[key].as_str().unwrap().to_owned();
        assert!(job.folder().join(text("file")).is_file());
        (text("url"), text("sha256"))
    });
    (digests.collect(), copies)
}

/// The addresses of all captures of pages in the archive.
fn captures(job: &Job) -> BTreeSet<String> {
    let captures = records(job).into_iter().map(|record| record.uri);
    captures
        .filter(|uri| !uri.ends_with("robots.txt"))
        .collect()
}

#[test]
fn what_machines_crawled_is_one_job_as_of_one_machine() {
    let wire = Wire::serve(lab(Duration::ZERO));
    let alone = crawl(&wire, &MACHINES.concat());
    let parts = MACHINES.map(|hosts| crawl(&wire, hosts));
    let all = gathered(&wire, &parts);

    // The same in the order of time, each once; the pictures of all hosts were fetched by
    // each machine.
    let unique = |list: &[String]| list.iter().cloned().collect::<BTreeSet<String>>();
    let (before, after) = (harvest(&alone), harvest(&all));
    let names = [
        "endings",
        "rows of images",
        "contexts",
        "sentences",
        "documents",
    ];
    for ((name, before), after) in names.iter().zip(&before).zip(&after) {
        assert_eq!(unique(before), unique(after), "{name}");
        let of_pages = |list: &[String]| list.iter().filter(|l| !l.contains("i.test")).count();
        assert_eq!(of_pages(before), of_pages(after), "{name}");
    }
    assert_eq!(before[2], after[2], "each context is once");
    assert_eq!(
        before[3..],
        after[3..],
        "each sentence and document is once"
    );
    check_places(&all);
    agrees_with_log(&all);
    assert_eq!(images(&all), images(&alone));
    assert_eq!(captures(&all), captures(&alone));

    // All that reads a job reads it.
    let counts = |job: &Job| {
        let ranked = json(job, "rank", &[]);
        let exported = json(job, "export", &["--format", "jsonl"]);
        let texts = json(job, "export", &["--text"]);
        (
            ranked["images"].clone(),
            exported["samples"].clone(),
            texts["documents"].clone(),
        )
    };
    assert_eq!(counts(&all), counts(&alone));
    for job in [&all, &alone] {
        on(job, "index", &[]);
    }
    let found = |job: &Job| json(job, "search", &["light"])["found"].clone();
    assert_eq!(found(&all), found(&alone));

    // Nothing can be crawled here.
    let refused = Ran::of(&mut all.crawl());
    assert!(!refused.status.success());
    assert!(
        refused
            .err
            .contains("was gathered from the outputs of several machines"),
        "{refused:?}"
    );
    assert!(!all.folder().join("frontier").exists());
    let _: &Path = &all.folder();
}
