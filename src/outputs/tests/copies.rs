//! The same bytes under several addresses, and sidecars that are read meanwhile.

use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// Keeps `the bytes`, which an earlier file may have.
pub(super) fn link(
    outputs: &mut Outputs,
    address: &str,
    earlier: Option<&str>,
    contexts: Vec<ImageContext>,
) -> Kept {
    let bytes = b"the bytes";
    let url = url(address);
    let new = NewImageFile {
        contexts,
        ..NewImageFile::new(&url, bytes, info(bytes), NOON)
    };
    outputs.image_or_link(new, earlier).unwrap()
}

fn on(page: &str) -> Vec<ImageContext> {
    vec![context(page, "x")]
}

fn inode(folder: &Path, file: &str) -> u64 {
    std::fs::metadata(folder.join(file)).unwrap().ino()
}

#[test]
fn the_same_bytes_are_one_file_with_two_names() {
    let job = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(job.path(), &[]).unwrap();
    let first = link(&mut o, "http://i.org/a.jpg", None, on("http://a.org/1"));
    assert!(first.first);
    let stamp = o.stamp();
    let before = snapshot(job.path());
    let file = first.file.as_str();
    let second = link(
        &mut o,
        "http://j.org/b.jpg",
        Some(file),
        on("http://a.org/2"),
    );
    assert!(!second.first);
    assert_eq!(inode(job.path(), &second.file), inode(job.path(), file));
    assert_eq!(sidecar(job.path(), &second.file)["same_as"], file);
    assert_eq!(pages(job.path(), &second.file), ["http://a.org/2"]);
    assert_eq!(pages(job.path(), file), ["http://a.org/1"]);
    let loaded = Sidecar::load(job.path(), &second.file).unwrap();
    assert_eq!(loaded.same_as(), Some(file));

    // Linked again, as after a crash before the commit.
    let again = link(
        &mut o,
        "http://j.org/b.jpg",
        Some(file),
        on("http://a.org/3"),
    );
    assert_eq!(again, second);
    let is_part = |p: &&PathBuf| p.extension().is_some_and(|e| e == "part");
    assert_eq!(snapshot(job.path()).keys().find(is_part), None);
    drop(o);
    drop(Outputs::open(job.path(), &stamp).unwrap());
    assert_eq!(
        snapshot(job.path()),
        before,
        "only the second name is taken back"
    );
}

#[test]
fn what_is_written_under_one_name_does_not_change_the_other() {
    let job = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(job.path(), &[]).unwrap();
    let first = link(&mut o, "http://i.org/a.jpg", None, on("http://a.org/1"));
    let second = link(
        &mut o,
        "http://j.org/b.jpg",
        Some(&first.file),
        on("http://a.org/1"),
    );
    keep_bytes(&mut o, "http://i.org/a.jpg", b"other", on("http://a.org/1"));
    let read = |file: &str| std::fs::read(job.path().join(file)).unwrap();
    assert_eq!(read(&first.file), b"other");
    assert_eq!(read(&second.file), b"the bytes");
    // The file that the frontier knows as the first has other bytes by now.
    let third = link(
        &mut o,
        "http://k.org/c.jpg",
        Some(&first.file),
        on("http://a.org/1"),
    );
    assert!(third.first);
    assert_eq!(
        sidecar(job.path(), &third.file)["same_as"],
        serde_json::Value::Null
    );
}

#[test]
fn an_earlier_file_that_is_none_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path().join("job");
    let mut o = Outputs::open(&job, &[]).unwrap();
    std::fs::write(folder.path().join("outside.jpg"), "the bytes").unwrap();
    std::fs::write(job.join("images/same_length.jpg"), "the_bytes").unwrap();
    std::os::unix::fs::symlink("/etc/hostname", job.join("images/link.jpg")).unwrap();
    let own = "images/2026-01-02/i.org/9.jpg";
    for (n, earlier) in [
        "images/gone.jpg",
        "images/../../outside.jpg",
        "images/same_length.jpg",
        "images/link.jpg",
        "images",
        "",
        own,
    ]
    .into_iter()
    .enumerate()
    {
        let n = if earlier == own { 9 } else { n };
        let kept = link(
            &mut o,
            &format!("http://i.org/{n}.jpg"),
            Some(earlier),
            on("http://a.org/"),
        );
        assert!(kept.first, "{earlier}");
        assert_eq!(std::fs::metadata(job.join(&kept.file)).unwrap().nlink(), 1);
        assert_eq!(std::fs::read(job.join(&kept.file)).unwrap(), b"the bytes");
    }
}

#[test]
fn a_sidecar_of_an_older_spoor_is_read_and_extended() {
    let job = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(job.path(), &[]).unwrap();
    let file = keep(&mut o, "http://i.org/a.jpg", on("http://a.org/1"));
    let mut card = sidecar(job.path(), &file);
    let keys = card.as_object_mut().unwrap();
    for new in ["animated", "decoded", "phash", "mislabelled", "same_as"] {
        assert!(keys.remove(new).is_some(), "{new}");
    }
    let path = job.path().join(format!("{file}.json"));
    std::fs::write(&path, card.to_string()).unwrap();
    let old = Sidecar::load(job.path(), &file).unwrap();
    assert_eq!((old.info().decoded, old.info().phash), (false, None));
    assert_eq!(old.sha256(), card["sha256"]);
    o.extend_image(&file, context("http://a.org/2", "y"), VisitKind::Changed)
        .unwrap();
    o.fold().unwrap();
    assert_eq!(
        pages(job.path(), &file),
        ["http://a.org/1", "http://a.org/2"]
    );
}

#[test]
fn whoever_reads_a_sidecar_while_it_grows_finds_it_whole() {
    let job = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(job.path(), &[]).unwrap();
    let file = keep(&mut o, "http://i.org/a.jpg", on("http://a.org/0"));
    let ended = AtomicBool::new(false);
    let read = || {
        let mut last = 0;
        let mut reads = 0;
        while !ended.load(Ordering::Relaxed) || reads == 0 {
            let sidecar = Sidecar::load(job.path(), &file).unwrap();
            assert!(sidecar.contexts().len() >= last, "a context was lost");
            last = sidecar.contexts().len();
            reads += 1;
        }
        reads
    };
    std::thread::scope(|scope| {
        let reader = scope.spawn(read);
        for n in 1..150 {
            let more = context(&format!("http://a.org/{n}"), "x");
            o.extend_image(&file, more, VisitKind::Changed).unwrap();
        }
        ended.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0);
    });
    o.fold().unwrap();
    assert_eq!(pages(job.path(), &file).len(), 150);
}
