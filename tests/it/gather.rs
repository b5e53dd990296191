//! Several machines crawl a web, each its own hosts. Their results are gathered into one job
//! folder, which looks to every reader like that of a single machine.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use spoor::corpus::gather::gather;
use spoor::outputs::merge::MachinePart;
use spoor::outputs::{TextPlace, document_at, sentences_at};
use spoor::settings::StoreKind;

use crate::archiving::{ARCHIVE, agrees_with_log, records};
use crate::support::small::{self, harvest, lab, rest};
use crate::support::{Job, JobText, Ran, Wire, spoor};

/// The hosts of each machine. The pictures of `i.test` are on the pages of all, so each machine
/// fetches them, as if that host had moved from one to the next.
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
    let rest = rest(
        StoreKind::Fjall,
        &format!("{scope}[control_sample]\nshare = 0.2\n"),
    );
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

/// Gathers the results of the machines into the folder of a job.
fn gather_into(job: &Job, jobs: &[Job]) {
    let names = ["one", "two", "three"];
    let parts = jobs.iter().zip(names).map(|(job, name)| MachinePart {
        name: name.to_owned(),
        folder: job.folder(),
    });
    let parts: Vec<MachinePart> = parts.collect();
    let config = spoor::config::Config::load(&job.file()).unwrap();
    let found = gather(&parts, &job.folder(), &config, spoor::clock::now()).unwrap();
    println!("{found:?}");
}

fn on(job: &Job, command: &str, more: &[&str]) -> String {
    let file = job.file();
    let arguments = [&[command, file.to_str().unwrap()], more].concat();
    Ran::of(&mut spoor(&arguments)).good()
}

fn json(job: &Job, command: &str, more: &[&str]) -> Value {
    let out = on(job, command, &[more, &["--json"]].concat());
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"))
}

/// Reads every position that a row of the log names.
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

/// The images with the digest of each file, and the number of links among them.
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
fn jobs_of_machines_are_gathered_into_one_job() {
    let wire = Wire::serve(lab(Duration::ZERO));
    let alone = crawl(&wire, &MACHINES.concat());
    let parts = MACHINES.map(|hosts| crawl(&wire, hosts));
    let all = Job::new(&wire, &small::text(&rest(StoreKind::Fjall, ARCHIVE)));
    gather_into(&all, &parts);

    // The same rows in order of time, each once; each machine has fetched the pictures of all
    // hosts.
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

    // All commands that read a job can read it.
    let ranked = |job: &Job| json(job, "rank", &[])["written"].clone();
    assert_eq!(ranked(&all), ranked(&alone));
    let exported = |job: &Job| json(job, "export", &["--format", "jsonl"])["images"].clone();
    assert_eq!(exported(&all), exported(&alone));
    let texts = |job: &Job| {
        let out = json(job, "export", &["--text", "--format", "jsonl"]);
        assert_eq!(out["steps"][0]["why"].get("damaged"), None);
        (
            out["steps"][0]["read"].clone(),
            out["documents"].clone(),
            out["words"].clone(),
        )
    };
    assert_eq!(texts(&all), texts(&alone));
    let built = |job: &Job| {
        let plan = job.folder().with_file_name("plan.toml");
        let source = "[source]\njobs = [\"job\"]\n[output]\nformats = [\"text\"]\n";
        std::fs::write(&plan, source).unwrap();
        let out = Ran::of(&mut spoor(&["corpus", "build", plan.to_str().unwrap()])).good();
        let count = out.lines().find(|line| line.contains(" documents, "));
        let count = count.unwrap_or_else(|| panic!("{out}"));
        count.split(", in ").next().unwrap().to_owned()
    };
    assert_eq!(built(&all), built(&alone));
    let found = |job: &Job| {
        on(job, "index", &[]);
        let out = json(job, "search", &["--limit", "10000", "the"]);
        let hits = out["hits"].as_array().unwrap().iter();
        let urls: BTreeSet<String> = hits.map(|hit| hit["url"].to_string()).collect();
        assert!(!urls.is_empty(), "{out}");
        urls
    };
    assert_eq!(found(&all), found(&alone));

    // The figures are the sums over the machines, including the control sample.
    let figures = |job: &Job| json(job, "report", &[])["jobs"][0].clone();
    let reports: Vec<Value> = parts.iter().map(figures).collect();
    let report = figures(&all);
    let keys = [
        "/rows",
        "/pages",
        "/page_bytes",
        "/images",
        "/sentences",
        "/politeness/measured",
        "/verdict/documents/count",
        "/verdict/documents/words",
        "/verdict/headline/pages",
        "/verdict/headline/drawn",
    ];
    for key in keys {
        let number = |report: &Value| report.pointer(key).unwrap().as_u64().unwrap();
        let mut sum: u64 = reports.iter().map(number).sum();
        if key == "/politeness/measured" {
            // All three machines fetched from `i.test`, so the first request of one follows a
            // request of another.
            sum += 2;
        }
        assert_eq!(number(&report), sum, "{key}");
        assert!(sum > 0, "{key}");
    }
    assert_eq!(report["troubles"]["named"], serde_json::json!([]));
    assert_eq!(report["hosts"], figures(&alone)["hosts"]);

    // Nothing can be crawled in this folder.
    let refused = Ran::of(&mut all.crawl());
    assert!(!refused.status.success());
    assert!(
        refused
            .err
            .contains("was gathered from the outputs of several machines"),
        "{refused:?}"
    );
    let file = all.file();
    let asked = ["explain", file.to_str().unwrap(), "http://h0.test/0"];
    let refused = Ran::of(&mut spoor(&asked)).refused();
    assert!(
        refused.contains("was gathered from the outputs"),
        "{refused}"
    );
    assert!(!all.folder().join("frontier").exists());

    // Samples taken down here stay away, although the machines still have them.
    on(&all, "takedown", &["--host", "h5.test"]);
    let gone = |job: &Job| {
        let left = job.documents();
        assert_eq!(left.len(), 200);
        assert!(left.iter().all(|d| !d.url.contains("h5.test")));
        assert!(images(job).0.keys().all(|url| !url.contains("h5.test")));
        check_places(job);
        agrees_with_log(job);
    };
    gone(&all);
    gather_into(&all, &parts);
    gone(&all);
}
