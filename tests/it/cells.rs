//! A job with several cells: its results, and which commands it refuses.

use std::collections::BTreeSet;
use std::time::Duration;

use spoor_lab::Lab;

use crate::support::texts::{plain, tree};
use crate::support::{Job, JobText, Live, Ran, Wire, small, spoor};

const SEED: &str = "http://h0.test/0";

/// The job file for the small web with this number of cells.
fn text(cells: &str, store: &str, more: &str) -> String {
    format!(
        "[images]\nmin_width = 20\nmin_height = 20\n[frontier]\nstore = \"{store}\"\ncells = \
         {cells}\n{more}"
    )
}

const POLITENESS: &str =
    "min_delay = 0\ndelay_factor = 0\nretries = 0\nback_off = \"1ms\"\naddress_delay = 0";

fn job(wire: &Wire, rest: &str) -> Job {
    Job::new(
        wire,
        &JobText {
            seeds: &[SEED],
            politeness: POLITENESS,
            rest,
            ..JobText::default()
        },
    )
}

/// Pages, pictures with the pages around them, and rows, in no particular order.
fn brought(job: &Job) -> (BTreeSet<String>, BTreeSet<String>, usize) {
    let endings = job.endings().into_iter();
    let pages = endings.filter(|ending| !ending.starts_with("robots"));
    let pictures = job.sidecars().into_iter().map(|sidecar| {
        let contexts = sidecar["contexts"].as_array().unwrap();
        let around: BTreeSet<&str> = contexts
            .iter()
            .map(|c| c["page"].as_str().unwrap())
            .collect();
        assert_eq!(around.len(), contexts.len(), "{sidecar}");
        format!("{} {} {around:?}", sidecar["url"], sidecar["sha256"])
    });
    (pages.collect(), pictures.collect(), job.image_rows().len())
}

#[test]
fn one_cell_and_sixteen_bring_the_same() {
    let [one, sixteen] = ["1", "16"].map(|cells| {
        let wire = Wire::serve(small::lab(Duration::ZERO));
        let job = job(&wire, &text(cells, "fjall", ""));
        let out = job.run();
        assert!(out.contains("nothing is left to fetch"), "{out}");
        let asked = wire.requests().len();
        let brought = brought(&job);
        // Nothing is fetched again.
        job.run();
        assert_eq!(wire.requests().len(), asked);
        (brought, asked)
    });
    assert_eq!(one, sixteen);
    assert!(one.0.1.len() > 200, "{}", one.0.1.len());
}

#[test]
fn a_limit_of_pages_is_that_of_all_cells() {
    let wire = Wire::serve(small::lab(Duration::ZERO));
    for (limit, key) in [(37, "documents"), (61, "fetches")] {
        let more = format!("[limits]\n{key} = {limit}\n");
        let job = job(&wire, &text("16", "fjall", &more));
        job.run();
        let pages = job.log().into_iter().filter(|row| row["kind"] == "page");
        assert_eq!(pages.count(), limit, "{key}");
    }
}

#[test]
fn settings_that_several_cells_cannot_keep_are_named() {
    let wire = Wire::serve(Lab::from_memory(tree(&[])));
    let refused = |politeness: &str, rest: &str| {
        let job = Job::new(
            &wire,
            &JobText {
                seeds: &[SEED],
                politeness,
                rest,
                ..JobText::default()
            },
        );
        let file = job.file();
        Ran::of(&mut spoor(&["crawl", file.to_str().unwrap()])).refused()
    };
    let message = refused(POLITENESS, &text("4", "sled", ""));
    assert!(message.contains("frontier.store = \"fjall\""), "{message}");
    for cells in ["0", "1025"] {
        let message = refused(POLITENESS, &text(cells, "fjall", ""));
        assert!(message.contains("from 1 to 1024"), "{message}");
    }
}

#[test]
fn commands_that_several_cells_cannot_do_are_refused_by_name() {
    let page = plain(&[], &["http://i.test/1.png"]);
    let mut web = tree(&[("h0.test/0", page)]);
    assert!(web.image("http://i.test/1.png", 30, 30));
    let wire = Wire::serve(Lab::from_memory(web));
    let four = text("4", "fjall", "");
    let job = job(&wire, &four);
    job.run();
    let file = job.file();
    let file = file.to_str().unwrap();
    let export = format!("{file}.jsonl.gz");
    let before = brought(&job);
    for arguments in [
        &["frontier", "check", file][..],
        &["frontier", "compact", file],
        &["frontier", "export", file, &export],
        &["frontier", "convert", file, "--to", "sled"],
        &["takedown", file, "--host", "h0.test"],
        &["explain", file, SEED],
    ] {
        let message = Ran::of(&mut spoor(arguments)).refused();
        assert!(
            message.contains("frontier.cells"),
            "{arguments:?}: {message}"
        );
    }
    assert_eq!(brought(&job), before);
    // The number of cells never changes.
    for (cells, store) in [("1", "fjall"), ("5", "fjall")] {
        let rest = text(cells, store, "");
        job.write(
            &wire,
            &JobText {
                seeds: &[SEED],
                politeness: POLITENESS,
                rest: &rest,
                ..JobText::default()
            },
        );
        let message = Ran::of(&mut job.crawl()).refused();
        assert!(message.contains("frontier.cells = 4"), "{message}");
    }
}

#[test]
fn a_running_crawl_over_cells_answers() {
    let wire = Wire::serve(small::lab(Duration::from_millis(20)));
    let job = job(&wire, &text("16", "fjall", ""));
    let mut process = Live::start(&mut job.crawl());
    wire.wait(|n| n.events() >= 60, || process.has_ended());
    let file = job.file();
    let file = file.to_str().unwrap();
    let ctl = |what: &str| Ran::of(&mut spoor(&["ctl", file, what])).good();
    let output = Ran::of(&mut spoor(&["explain", file, SEED])).good();
    assert!(output.contains("done"), "{output}");
    let output = ctl("status");
    assert!(output.contains("fetches"), "{output}");
    ctl("stop");
    process.ended().stopped();
    let out = job.run();
    assert!(out.contains("nothing is left to fetch"), "{out}");
    let pages = job.log().into_iter().filter(|row| row["kind"] == "page");
    assert_eq!(pages.count(), 6 * 40);
}
