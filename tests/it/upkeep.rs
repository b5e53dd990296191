//! Upkeep of a job's frontier, from outside.

use spoor::lab::Lab;

use crate::support::texts::{plain, tree};
use crate::support::{Job, JobText, Ran, Wire, spoor};

#[test]
fn a_frontier_is_converted_checked_exported_and_imported() {
    let pages = [
        ("a.test/", plain(&["/1", "http://b.test/"], &[])),
        ("a.test/1", plain(&[], &[])),
        ("b.test/", plain(&["/2"], &[])),
        ("b.test/2", plain(&[], &[])),
    ];
    let wire = Wire::serve(Lab::from_memory(tree(&pages)));
    let with =
        |store: &str, limit: &str| format!("[frontier]\nstore = \"{store}\"\n[limits]\n{limit}");
    let (first, then) = (
        with("sled", "documents = 2"),
        with("fjall", "documents = 9"),
    );
    let text = |rest| JobText {
        seeds: &["http://a.test/"],
        rest,
        ..JobText::default()
    };
    let job = Job::new(&wire, &text(&first));
    job.run();
    let file = job.file();
    let file = file.to_str().unwrap();
    let store = |arguments: &[&str]| Ran::of(&mut spoor(&[&["store"], arguments].concat()));

    assert!(
        store(&["check", file])
            .good()
            .contains("everything holds together")
    );
    let archive = job.folder().join("frontier.jsonl.gz");
    let archive = archive.to_str().unwrap();
    store(&["export", file, archive]).good();
    let refusal = store(&["import", file, archive]).refused();
    assert!(refusal.contains("lies here already"), "{refusal}");
    store(&["convert", file, "--to", "fjall"]).good();
    let refusal = Ran::of(&mut spoor(&["crawl", file])).refused();
    assert!(refusal.contains("it is a fjall store"), "{refusal}");

    job.write(&wire, &text(&then));
    std::fs::remove_dir_all(job.folder().join("frontier")).unwrap();
    store(&["import", file, archive]).good();
    assert!(store(&["compact", file]).good().contains("MB after"));
    let out = job.run();
    assert!(out.contains("pages     4 done"), "{out}");
    let requests = wire.requests();
    let asked = |path: &str| requests.iter().filter(|r| r.path == path).count();
    assert_eq!((asked("/1"), asked("/2")), (1, 1), "nothing is done twice");
    assert!(
        store(&["check", file])
            .good()
            .contains("everything holds together")
    );
}
