//! The exports that a running crawl writes, and restoring from one when the store is gone.

use std::path::PathBuf;
use std::time::Duration;

use spoor::settings::StoreKind;

use crate::support::{Job, Live, Ran, Wire, small, spoor};

fn exports(job: &Job) -> Vec<PathBuf> {
    let folder = job.folder().join("checkpoints");
    let mut found: Vec<_> = job
        .files("checkpoints")
        .iter()
        .map(|f| folder.join(f))
        .collect();
    // A killed crawl may leave an unfinished export.
    found.retain(|f| {
        f.file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with("frontier-")
    });
    found.sort();
    found
}

fn a_lost_store_costs_hours(store: StoreKind) {
    let often = "[checkpoint]\nexport = \"1s\"\n";
    let often = small::rest(store, often);
    let (undisturbed, _) = small::undisturbed(store);
    let wire = Wire::serve(small::lab(Duration::from_millis(60)));
    let job = Job::new(&wire, &small::text(&often));
    let mut process = Live::start(&mut job.crawl());
    assert!(wire.wait(|_| exports(&job).len() == 2, || process.has_ended()));
    let first = exports(&job).remove(0);
    // The third export replaces the first; then the crawl fetches some more, which is lost.
    assert!(wire.wait(|_| !first.exists(), || process.has_ended()));
    assert_eq!(exports(&job).len(), 2);
    let before = wire.requests().len();
    wire.wait(|n| n.requests.len() > before + 20, || process.has_ended());
    assert!(process.kill());
    wire.settle();

    let file = job.file();
    let file = file.to_str().unwrap();
    let command = |arguments: &[&str]| Ran::of(&mut spoor(&[&["frontier"], arguments].concat()));
    let last = exports(&job).pop().unwrap();
    let folder = job.folder().join("frontier");
    // Only the store's log is left, so sled and fjall both find nothing to begin with.
    let away = job.folder().join("away");
    std::fs::rename(&folder, &away).unwrap();
    let refusal = {
        std::fs::create_dir(&folder).unwrap();
        let refusal = Ran::of(&mut job.crawl()).refused();
        std::fs::remove_dir_all(&folder).unwrap();
        refusal
    };
    for part in [
        "it is empty",
        "spoor frontier import",
        last.to_str().unwrap(),
    ] {
        assert!(refusal.contains(part), "{part} in {refusal}");
    }
    let whole = std::fs::read(&last).unwrap();
    let cut = job.folder().join("cut.jsonl.gz");
    for bytes in [
        &whole[..0],
        &whole[..whole.len() / 2],
        &whole[..whole.len() - 1],
    ] {
        std::fs::write(&cut, bytes).unwrap();
        let refusal = command(&["import", file, cut.to_str().unwrap()]).refused();
        assert!(refusal.contains("cut.jsonl.gz"), "{refusal}");
        assert!(!folder.exists(), "half an import is no frontier");
    }
    command(&["import", file, last.to_str().unwrap()]).good();
    let sound = command(&["check", file]).good();
    assert!(sound.contains("no inconsistencies"), "{sound}");
    // The rest needs no particular timing, so it is served without delay.
    let wire = Wire::serve(small::lab(Duration::ZERO));
    job.write(&wire, &small::text(&often));
    let log = job.folder().join("logs/crawl.jsonl");
    let had = std::fs::metadata(&log).unwrap().len();
    let out = job.run();
    assert!(out.contains("nothing is left to fetch"), "{out}");
    assert_eq!(&small::harvest(&job), undisturbed);
    println!(
        "{had} bytes of log before the import, {} at the end",
        std::fs::metadata(&log).unwrap().len()
    );
    assert!(exports(&job).len() <= 2);
    let sound = command(&["check", file]).good();
    assert!(sound.contains("no inconsistencies"), "{sound}");
}

#[test]
fn a_lost_store_costs_hours_with_sled() {
    a_lost_store_costs_hours(StoreKind::Sled);
}

#[test]
fn a_lost_store_costs_hours_with_fjall() {
    a_lost_store_costs_hours(StoreKind::Fjall);
}
