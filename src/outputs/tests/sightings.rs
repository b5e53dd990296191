//! Images that many pages embed: the writes for each page, and the state after a kill.

use std::os::unix::fs::MetadataExt;

use super::*;

const ADDRESS: &str = "http://i.org/logo.jpg";

fn page(n: usize) -> String {
    format!("http://a.org/{n}")
}

fn said(n: usize) -> ImageContext {
    context(&page(n), &format!("the logo on page {n}"))
}

/// The pages in the loaded sidecar, in order.
fn seen(job: &Path, file: &str) -> Vec<String> {
    let sidecar = Sidecar::load(job, file).unwrap();
    sidecar
        .contexts()
        .iter()
        .map(|c| c.page.to_string())
        .collect()
}

fn journals(job: &Path) -> usize {
    match std::fs::read_dir(job.join("sightings")) {
        Ok(entries) => entries.count(),
        Err(_) => 0,
    }
}

/// The bytes written for sidecars after this many pages: the whole file whenever the sidecar
/// was replaced, and the additions to journals.
fn written(sightings: usize) -> u64 {
    let job = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(job.path(), &[]).unwrap();
    let file = keep(&mut o, ADDRESS, vec![said(0)]);
    let path = job.path().join(format!("{file}.json"));
    let now = || {
        let found = path.metadata().unwrap();
        ((found.ino(), found.mtime_nsec(), found.len()), found.len())
    };
    let (mut known, mut bytes) = now();
    let line = serde_json::to_vec(&said(sightings)).unwrap().len() as u64;
    for n in 1..sightings {
        o.extend_image(&file, said(n), VisitKind::Changed).unwrap();
        let (next, length) = now();
        if next != known {
            (known, bytes) = (next, bytes + length);
        }
    }
    bytes += (sightings.min(sidecar::MAX_CONTEXTS) as u64) * line;
    drop(o);
    bytes / sightings as u64
}

#[test]
fn what_a_page_writes_of_a_known_image_does_not_grow_with_the_pages() {
    // A context has about 700 bytes in a sidecar.
    for sightings in [100, 1_000, 3_000] {
        let bytes = written(sightings);
        assert!(bytes < 4_000, "{bytes} bytes a page at {sightings}");
    }
}

#[test]
fn every_reader_sees_what_a_killed_crawl_noted_and_opening_folds_it() {
    let job = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(job.path(), &[]).unwrap();
    let file = keep(&mut o, ADDRESS, vec![said(0)]);
    let stamp = |o: &mut Outputs, pages: std::ops::Range<usize>| {
        for n in pages {
            o.extend_image(&file, said(n), VisitKind::Changed).unwrap();
        }
        o.stamp()
    };
    let committed = stamp(&mut o, 1..40);
    stamp(&mut o, 40..45);
    o.extend_image(&file, context(&page(3), "another text"), VisitKind::Changed)
        .unwrap();
    let all: Vec<String> = (0..45).map(page).collect();
    assert_eq!(seen(job.path(), &file), all, "while it runs");
    drop(o);
    // Usually some is not folded yet; that depends on the scheduling of the thread.
    assert_eq!(seen(job.path(), &file), all, "when it was killed");
    let texts = Sidecar::load(job.path(), &file).unwrap().contexts()[3]
        .texts
        .clone();
    assert_eq!(texts.alt.as_deref(), Some("another text"));
    drop(Outputs::open(job.path(), &committed).unwrap());
    assert_eq!(journals(job.path()), 0);
    // Page 3 was lost with its change; it is requested again.
    let kept: Vec<String> = (0..40).map(page).collect();
    assert_eq!(pages(job.path(), &file), kept);
}

#[test]
fn a_fold_that_a_kill_cut_short_at_any_step_costs_nothing() {
    let name = |file: &str| {
        let digest = base16ct::lower::encode_string(&Sha256::digest(file.as_bytes()));
        digest[..32].to_owned()
    };
    for step in 0..4 {
        let job = tempfile::tempdir().unwrap();
        let mut o = Outputs::open(job.path(), &[]).unwrap();
        let file = keep(&mut o, ADDRESS, vec![said(0)]);
        for n in 1..4 {
            o.extend_image(&file, said(n % 3), VisitKind::Changed)
                .unwrap();
            o.extend_image(&file, context(&page(n), "later"), VisitKind::Changed)
                .unwrap();
        }
        let stamp = o.stamp();
        drop(o);
        let of = |ending: &str| {
            job.path()
                .join(format!("sightings/{}{ending}", name(&file)))
        };
        let (new, old) = (of(".jsonl"), of(".folding.jsonl"));
        assert!(new.exists());
        let whole = Sidecar::load(job.path(), &file).unwrap();
        match step {
            0 => {}
            // Renamed, and possibly a new one was begun.
            1 => std::fs::rename(&new, &old).unwrap(),
            // Written, but the journal was not removed.
            2 => {
                std::fs::rename(&new, &old).unwrap();
                whole.save_alone(job.path(), Durability::Whole).unwrap();
            }
            // Cut in the middle of a line, of a page that was not committed.
            _ => {
                let mut text = std::fs::read_to_string(&new).unwrap();
                text.push_str("{\"file\":\"images/");
                std::fs::write(&new, text).unwrap();
            }
        }
        assert_eq!(
            Sidecar::load(job.path(), &file).unwrap(),
            whole,
            "step {step}"
        );
        let mut o = Outputs::open(job.path(), &stamp).unwrap();
        assert_eq!(
            Sidecar::load_alone(job.path(), &file).unwrap(),
            whole,
            "step {step}"
        );
        assert_eq!(journals(job.path()), 0, "step {step}");
        o.extend_image(&file, said(9), VisitKind::Changed).unwrap();
        o.fold().unwrap();
        assert!(pages(job.path(), &file).contains(&page(9)), "step {step}");
    }
}

#[test]
fn an_image_that_is_fetched_again_keeps_what_was_noted_of_it() {
    let job = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(job.path(), &[]).unwrap();
    let file = keep(&mut o, ADDRESS, vec![said(0)]);
    for n in 1..30 {
        o.extend_image(&file, said(n), VisitKind::Changed).unwrap();
    }
    let other = context(&page(5), "new words");
    assert_eq!(
        keep_bytes(&mut o, ADDRESS, b"other", vec![other.clone()]),
        file
    );
    o.fold().unwrap();
    let sidecar = Sidecar::load(job.path(), &file).unwrap();
    assert_eq!((sidecar.contexts().len(), sidecar.bytes()), (30, 5));
    assert_eq!(sidecar.contexts()[5], other);
}

#[test]
fn a_sidecar_is_bounded_by_bytes_as_well() {
    let job = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(job.path(), &[]).unwrap();
    let long = |n: usize| context(&page(n), &"long ".repeat(100_000));
    let file = keep(&mut o, ADDRESS, (0..6).map(long).collect());
    for n in 6..20 {
        o.extend_image(&file, long(n), VisitKind::Changed).unwrap();
    }
    // There is still room for a short one, and a page may have fewer words than before.
    o.extend_image(&file, said(30), VisitKind::Changed).unwrap();
    o.extend_image(&file, said(2), VisitKind::Changed).unwrap();
    o.fold().unwrap();
    let sidecar = Sidecar::load(job.path(), &file).unwrap();
    assert_eq!(sidecar.contexts().len(), 8 + 1);
    assert_eq!(sidecar.contexts()[2], said(2));
    assert_eq!(table(job.path()).len(), 22, "a row for each all the same");
}

#[test]
fn a_damaged_journal_is_named_and_stops_neither_opening_nor_other_images() {
    let job = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(job.path(), &[]).unwrap();
    let file = keep(&mut o, ADDRESS, vec![said(0)]);
    let other = keep(&mut o, "http://i.org/b.jpg", vec![said(0)]);
    for file in [&file, &other] {
        o.extend_image(file, said(1), VisitKind::Changed).unwrap();
    }
    drop(o);
    for entry in std::fs::read_dir(job.path().join("sightings")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        if text.contains("logo.jpg") {
            std::fs::write(&path, format!("noise\n{text}")).unwrap();
        }
    }
    let mut o = Outputs::open(job.path(), &[]).unwrap();
    assert_eq!(pages(job.path(), &other).len(), 2);
    let error = o
        .extend_image(&file, said(2), VisitKind::Changed)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("sightings/") && error.contains(":1:"),
        "{error}"
    );
    assert!(Sidecar::load(job.path(), &file).is_err());
    remove_image(job.path(), &file).unwrap();
    assert_eq!(journals(job.path()), 0, "it goes with its image");
}

#[test]
fn a_first_visit_has_its_row_though_the_sidecar_has_its_words() {
    let job = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(job.path(), &[]).unwrap();
    let file = keep(
        &mut o,
        "http://i.org/a.jpg",
        vec![context("http://a.org/1", "x")],
    );
    let said = context("http://a.org/2", "y");
    let rows = || {
        let table = std::fs::read_to_string(job.path().join("images.tsv")).unwrap();
        table.matches("http://a.org/2").count()
    };
    o.extend_image(&file, said.clone(), VisitKind::First)
        .unwrap();
    assert_eq!(rows(), 1);
    o.extend_image(&file, said.clone(), VisitKind::Changed)
        .unwrap();
    o.extend_image(&file, said.clone(), VisitKind::Same)
        .unwrap();
    assert_eq!(rows(), 1, "it says the same");
    // As after a power failure that lost the row but left the journal.
    o.extend_image(&file, said, VisitKind::First).unwrap();
    assert_eq!(rows(), 2);
    let sidecar = Sidecar::load(job.path(), &file).unwrap();
    assert_eq!(sidecar.contexts().len(), 2);
}
