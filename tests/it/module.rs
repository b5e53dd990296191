//! `spoor print`, and the Python module on it.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use spoor_lab::{Lab, picture};

use crate::export::python;
use crate::support::texts::{image, link, page, some, topical, tree};
use crate::support::{Job, JobText, Ran, Wire, spoor};

/// The pages of the job, each with an image of its own.
const PAGES: usize = 5;

fn crawled() -> (Job, Wire) {
    let about = |n: usize| {
        let links = (0..PAGES).map(|to| link(&format!("/{to}"), &some(topical(), to, 1)));
        let mut paragraphs: Vec<String> = links.collect();
        paragraphs.push(some(topical(), n * 5, 4));
        paragraphs.push(image(&format!("/{n}.png"), &some(topical(), n, 1)));
        page(&format!("Lights {n}"), "", &paragraphs)
    };
    let pages: Vec<(String, String)> = (0..PAGES)
        .map(|n| (format!("a.test/{n}"), about(n)))
        .collect();
    let pages: Vec<_> = pages
        .iter()
        .map(|(at, text)| (at.as_str(), text.clone()))
        .collect();
    let mut web = tree(&pages);
    for n in 0..PAGES {
        let drawn = picture::draw(&format!("http://a.test/{n}.png"), 320, 240);
        web.insert("a.test", &format!("/{n}.png"), drawn.unwrap().bytes);
    }
    let wire = Wire::serve(Lab::from_memory(web));
    let text = JobText {
        seeds: &["http://a.test/0"],
        rest: "[buckets]\nboundaries = \"fixed\"\nrazor = 1e12\n",
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    job.run();
    assert_eq!(
        (job.documents().len(), job.sidecars().len()),
        (PAGES, PAGES)
    );
    (job, wire)
}

fn print(arguments: &[&str]) -> Ran {
    Ran::of(&mut spoor(&[&["print"][..], arguments].concat()))
}

fn urls(out: &str) -> Vec<String> {
    let url = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        value["url"].as_str().unwrap().to_owned()
    };
    out.lines().map(url).collect()
}

#[test]
fn what_was_taken_down_is_not_printed_and_bad_input_is_named() {
    let (job, _wire) = crawled();
    let file = job.file();
    let file = file.to_str().unwrap();
    let folder = job.folder();
    let all = urls(&print(&[file]).good());
    assert_eq!(all.len(), PAGES);
    assert_eq!(urls(&print(&[folder.to_str().unwrap()]).good()), all);
    assert_eq!(urls(&print(&[file, "--limit", "2"]).good()), all[..2]);
    assert_eq!(print(&[file, "--limit", "0"]).good(), "");
    assert_eq!(urls(&print(&[file, "--images"]).good()).len(), PAGES);
    let page = "http://a.test/1";
    Ran::of(&mut spoor(&[
        "takedown", file, "--url", page, "--reason", "a letter",
    ]))
    .good();
    let left = urls(&print(&[file]).good());
    assert_eq!(left.len(), PAGES - 1);
    assert!(!left.contains(&page.to_owned()));
    let bad = folder.join("bad.jsonl");
    std::fs::write(&bad, "{\"url\":\"x\"}\nno JSON\n").unwrap();
    for (arguments, why) in [
        (
            &[bad.to_str().unwrap()][..],
            "bad.jsonl: line 2 is not an object of JSON",
        ),
        (&[bad.to_str().unwrap(), "--images"], "it is a file"),
        (&["no-such-file.jsonl"], "no-such-file.jsonl"),
        (&["/"], "there is no folder `documents` in it"),
    ] {
        let error = print(arguments).refused();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn python_reads_jobs_and_corpora() {
    let Some(python) = python() else {
        eprintln!(
            "SKIPPED: no Python with the packages of tests/python/requirements.txt; \
             `.ci/run` installs one in target/python, SPOOR_PYTHON names another"
        );
        return;
    };
    let (job, _wire) = crawled();
    let plan = job.folder().with_file_name("plan.toml");
    let source = job.folder();
    let text = format!(
        "[source]\njobs = [{source:?}]\n[output]\nfolder = \"corpus\"\nformats = [\"jsonl\"]\n"
    );
    std::fs::write(&plan, text).unwrap();
    Ran::of(&mut spoor(&["corpus", "build", plan.to_str().unwrap()])).good();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let printed = print(&[job.file().to_str().unwrap()]).good();
    std::io::Write::write_all(&mut packed, printed.as_bytes()).unwrap();
    let file = plan.with_file_name("documents.jsonl.gz");
    std::fs::write(&file, packed.finish().unwrap()).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_BIN_EXE_spoor")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let counts = [PAGES.to_string(), PAGES.to_string()];
    let mut reading = Command::new(python);
    reading
        .arg(root.join("tests/python/module.py"))
        .args([&job.file(), &plan, &file])
        .args(counts)
        .env("PYTHONPATH", root.join("src/python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PATH", format!("{}:{path}", program.display()));
    Ran::of(&mut reading).good();
}
