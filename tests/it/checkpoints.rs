//! The exports that a running crawl leaves, and what one is worth when the store
//! is gone.

use std::path::PathBuf;
use std::time::Duration;

use spoor::config::StoreKind;
use spoor::lab::{Behaviour, Lab};

use crate::support::texts::{plain, tree};
use crate::support::{Job, JobText, Live, Ran, Wire, spoor};

/// Enough hosts, pages and pictures for a crawl of some seconds where each answer
/// takes `slow`.
fn lab(slow: Duration) -> Lab {
    let mut pages = Vec::new();
    for host in 0..6 {
        for n in 0..40 {
            let next = format!("/{}", (n + 1) % 40);
            let across = format!("http://h{}.test/{}", (host + 1) % 6, (n * 7 + 3) % 40);
            let own = format!("http://h{host}.test/{n}.png");
            let shared = format!("http://i.test/{}.png", n % 9);
            let html = plain(&[&next, &across], &[&own, &shared]);
            pages.push((format!("h{host}.test/{n}"), html));
        }
    }
    let pages: Vec<_> = pages.iter().map(|(a, h)| (a.as_str(), h.clone())).collect();
    let mut tree = tree(&pages);
    for host in 0..6 {
        for n in 0..40 {
            assert!(tree.image(&format!("http://h{host}.test/{n}.png"), 30, 30));
        }
    }
    for n in 0..9 {
        assert!(tree.image(&format!("http://i.test/{n}.png"), 31, 30));
    }
    let hosts = (0..6).map(|host| format!("h{host}.test"));
    hosts.fold(Lab::from_memory(tree), |lab, host| {
        lab.with_behaviour(Behaviour::of(&host).latency(slow))
    })
}

fn exports(job: &Job) -> Vec<PathBuf> {
    let folder = job.folder().join("checkpoints");
    let mut found: Vec<_> = job
        .files("checkpoints")
        .iter()
        .map(|f| folder.join(f))
        .collect();
    found.retain(|f| f.file_name().unwrap() != "unfinished.jsonl.gz");
    found.sort();
    found
}

/// The log's tasks with their endings, the rows and contexts of the images, and
/// the sentences, each sorted: all that must be there exactly once.
fn harvest(job: &Job) -> [Vec<String>; 4] {
    let mut endings: Vec<String> = job.endings();
    // A robots.txt may be asked for again after a restart.
    endings.retain(|e| !e.starts_with("robots"));
    let rows = job.image_rows();
    let rows = rows.iter().map(|r| format!("{} {}", r["url"], r["page"]));
    let sidecars = job.sidecars();
    let contexts = sidecars.iter().flat_map(|s| {
        let all = s["contexts"].as_array().unwrap();
        let context = |c: &serde_json::Value| format!("{} {}", s["url"], c["page"]);
        all.iter().map(context).collect::<Vec<_>>()
    });
    let mut all = [endings, rows.collect(), contexts.collect(), job.sentences()];
    all.iter_mut().for_each(|list| list.sort());
    all
}

fn text(rest: &str) -> JobText<'_> {
    JobText {
        seeds: &["http://h0.test/0"],
        rest,
        ..JobText::default()
    }
}

fn a_lost_store_costs_hours(store: StoreKind) {
    let images = "[images]\nmin_width = 20\nmin_height = 20\n";
    let often = format!(
        "{images}[frontier]\nstore = \"{}\"\n[checkpoint]\nexport = \"1s\"\n",
        store.name()
    );
    let undisturbed = {
        let wire = Wire::serve(lab(Duration::ZERO));
        let job = Job::new(&wire, &text(&often));
        job.run();
        harvest(&job)
    };
    assert_eq!(undisturbed[0].len(), 6 * 40 + 6 * 40 + 9);

    let wire = Wire::serve(lab(Duration::from_millis(60)));
    let job = Job::new(&wire, &text(&often));
    let mut process = Live::start(&mut job.crawl());
    assert!(wire.wait(|_| exports(&job).len() == 2, || process.has_ended()));
    let first = exports(&job).remove(0);
    // The third replaces the first; then some more is crawled and lost.
    assert!(wire.wait(|_| !first.exists(), || process.has_ended()));
    assert_eq!(exports(&job).len(), 2);
    let before = wire.requests().len();
    wire.wait(|n| n.requests.len() > before + 20, || process.has_ended());
    assert!(process.kill());
    wire.settle();

    let file = job.file();
    let file = file.to_str().unwrap();
    let command = |arguments: &[&str]| Ran::of(&mut spoor(&[&["store"], arguments].concat()));
    let last = exports(&job).pop().unwrap();
    let folder = job.folder().join("frontier");
    // Its log alone is left: sled and fjall both find nothing to begin with.
    let away = job.folder().join("away");
    std::fs::rename(&folder, &away).unwrap();
    let refusal = {
        std::fs::create_dir(&folder).unwrap();
        let refusal = Ran::of(&mut job.crawl()).refused();
        std::fs::remove_dir_all(&folder).unwrap();
        refusal
    };
    for part in ["it is empty", "spoor store import", last.to_str().unwrap()] {
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
    assert!(sound.contains("everything holds together"), "{sound}");
    let log = job.folder().join("logs/crawl.jsonl");
    let had = std::fs::metadata(&log).unwrap().len();
    let out = job.run();
    assert!(out.contains("nothing is left to fetch"), "{out}");
    assert_eq!(harvest(&job), undisturbed);
    println!(
        "{had} bytes of log before the import, {} at the end",
        std::fs::metadata(&log).unwrap().len()
    );
    assert!(exports(&job).len() <= 2);
    let sound = command(&["check", file]).good();
    assert!(sound.contains("everything holds together"), "{sound}");
}

#[test]
fn a_lost_store_costs_hours_with_sled() {
    a_lost_store_costs_hours(StoreKind::Sled);
}

#[test]
fn a_lost_store_costs_hours_with_fjall() {
    a_lost_store_costs_hours(StoreKind::Fjall);
}
