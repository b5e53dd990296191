//! The log of a crawl as JSON: every line is valid, nothing from a stranger takes effect in it, and
//! lines about an address carry its id.

use serde_json::Value;
use spoor_lab::Lab;

use crate::support::process::Ran;
use crate::support::texts::{page, some, topical, tree};
use crate::support::{Job, JobText, Wire};

fn events(job: &Job) -> Vec<Value> {
    let files = job.files("logs");
    let named = |path: &&std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("spoor.") && name.ends_with(".jsonl")
    };
    let texts = files.iter().filter(named).map(|path| {
        let text = std::fs::read_to_string(job.folder().join("logs").join(path)).unwrap();
        let acts = |c: char| spoor::sanitize::acts(c) && c != '\n';
        assert!(!text.contains(acts), "{text}");
        text
    });
    let all: Vec<String> = texts.collect();
    let lines = all.iter().flat_map(|text| text.lines());
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn lines_about_an_address_carry_its_id() {
    let nested = format!("{}deep{}", "<div>".repeat(5_000), "</div>".repeat(5_000));
    let paragraphs = [some(topical(), 0, 4), nested];
    let pages = [("one.test/\u{202e}", page("Deep", "", &paragraphs))];
    let wire = Wire::serve(Lab::from_memory(tree(&pages)));
    let text = |rest| JobText {
        seeds: &["http://one.test/%E2%80%AE"],
        rest,
        ..JobText::default()
    };
    let job = Job::new(&wire, &text("[logs]\nlevel = \"debug\""));
    job.run();
    let rows = job.log();
    let row = rows.iter().find(|row| row["kind"] == "page").unwrap();
    let events = events(&job);
    let is_fallback = |event: &&Value| event["message"] == "read as a bare token stream";
    let fallbacks: Vec<&Value> = events.iter().filter(is_fallback).collect();
    let [event] = fallbacks[..] else {
        panic!("{events:#?}");
    };
    assert_eq!(event["span"]["id"], row["url_id"], "{event:#}");
    assert_eq!(event["span"]["url"], row["url"], "{event:#}");
    assert_eq!(row["url_id"].as_str().unwrap().len(), 16);
    assert_eq!(event["level"], "DEBUG");
    // By default the file has the events of the crawl as a whole; it can be switched off.
    for (rest, most) in [("", Some("INFO")), ("[logs]\nlevel = \"off\"", None)] {
        let job = Job::new(&wire, &text(rest));
        job.run();
        let levels = levels(&job);
        assert_eq!(levels.is_empty(), most.is_none(), "{levels:?}");
        assert!(!levels.contains(&"DEBUG".to_owned()), "{levels:?}");
    }
}

fn levels(job: &Job) -> Vec<String> {
    let all = events(job);
    let level = |event: &Value| event["level"].as_str().unwrap().to_owned();
    all.iter().map(level).collect()
}

#[test]
fn a_log_that_cannot_be_written_is_reported() {
    let wire = Wire::serve(Lab::from_memory(tree(&[])));
    let text = JobText {
        seeds: &["http://one.test/"],
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    // Today's file, and tomorrow's in case the day ends during the test.
    let now = jiff::Timestamp::now();
    for hours in [0, 24] {
        let day = (now + jiff::SignedDuration::from_hours(hours)).strftime("%Y-%m-%d");
        let file = job.folder().join(format!("logs/spoor.{day}.jsonl"));
        std::fs::create_dir_all(file).unwrap();
    }
    let said = Ran::of(&mut job.crawl()).refused();
    assert!(said.contains("logs.level = \"off\""), "{said}");
    assert!(wire.requests().is_empty());
}
