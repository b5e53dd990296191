//! The index of the first file with given bytes.

use super::*;
use crate::{consistency, dump};

over_all! {
    an_export_and_a_copy_hold_the_kept_files
}

const FILE: &str = "images/2026-01-02/i.org/a.jpg";

fn sha256(n: u8) -> String {
    format!("{n:064x}")
}

/// A frontier whose one page has brought an image, which is leased.
fn with_image(path: &Path) -> (Frontier, Task) {
    let mut f = open(path, 0);
    let mut now = 0;
    f.add_seeds(&[url("http://s.org/")], 0).unwrap();
    let page = lease(&mut f, &mut now).unwrap();
    let effects = Effects {
        images: vec![image("http://i.org/a.jpg", "http://s.org/", 100.0)],
        ..Effects::default()
    };
    finish(&mut f, &page, Outcome::Done, effects, now);
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.kind, TaskKind::Image);
    (f, task)
}

fn keep(f: &mut Frontier, task: &Task, first_of: Option<String>) -> Result<Finished, StoreError> {
    let written = Written {
        stamp: vec![1],
        note: Some(FILE.to_owned()),
        first_of,
        body: None,
    };
    let done = Outcome::Done;
    f.finish(task, done, Effects::default(), SECOND, 5_000, |_| {
        Ok(written)
    })
}

#[test]
fn a_kept_file_is_known_by_its_bytes_from_the_commit_on() {
    let folder = tempfile::tempdir().unwrap();
    let (mut f, task) = with_image(folder.path());
    assert_eq!(f.kept_file(&sha256(1)).unwrap(), None);
    let failed: Result<Finished, StoreError> = f.finish(
        &task,
        Outcome::Done,
        Effects::default(),
        SECOND,
        5_000,
        |_| {
            Err(StoreError::Io {
                path: "outputs".into(),
                why: "full".to_owned(),
            })
        },
    );
    assert!(failed.is_err());
    assert_eq!(
        f.kept_file(&sha256(1)).unwrap(),
        None,
        "nothing was committed"
    );
    keep(&mut f, &task, Some(sha256(1))).unwrap();
    assert_eq!(f.kept_file(&sha256(1)).unwrap().as_deref(), Some(FILE));
    assert_eq!(f.kept_file(&sha256(2)).unwrap(), None);
    f.close().unwrap();
    let f = open(folder.path(), 9_000);
    assert_eq!(f.kept_file(&sha256(1)).unwrap().as_deref(), Some(FILE));
    let audit = consistency::check(f.ledger.store()).unwrap();
    assert!(audit.is_sound(), "{audit:?}");
}

#[test]
fn a_kept_file_is_forgotten_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let (mut f, task) = with_image(folder.path());
    keep(&mut f, &task, Some(sha256(1))).unwrap();
    f.forget_files([&*sha256(2)].into_iter()).unwrap();
    assert!(f.kept_file(&sha256(1)).unwrap().is_some());
    f.forget_files([&*sha256(2), &*sha256(1)].into_iter())
        .unwrap();
    assert_eq!(f.kept_file(&sha256(1)).unwrap(), None);
    drop(f);
    assert_eq!(
        open(folder.path(), 9_000).kept_file(&sha256(1)).unwrap(),
        None
    );
}

fn an_export_and_a_copy_hold_the_kept_files() {
    let folder = tempfile::tempdir().unwrap();
    let (mut f, task) = with_image(&folder.path().join("a"));
    keep(&mut f, &task, Some(sha256(7))).unwrap();
    let mut lines = Vec::new();
    assert!(
        dump::write(f.ledger.store(), &mut lines, Path::new("x"))
            .unwrap()
            .is_whole()
    );
    let text = String::from_utf8(lines.clone()).unwrap();
    assert_eq!(text.matches("\"fact\":\"kept\"").count(), 1, "{text}");
    let mut imported = open_store(&folder.path().join("b")).unwrap();
    dump::restore(&mut *imported, &mut lines.as_slice(), Path::new("x")).unwrap();
    drop((f, imported));
    let [old, mut new] = ["b", "c"].map(|name| {
        let store = BACKEND.get().open(&folder.path().join(name));
        store.unwrap()
    });
    dump::copy(&*old, &mut *new).unwrap();
    for (store, name) in [(old, "b"), (new, "c")] {
        let found = only(store).unwrap().get(&keys::kept(&sha256(7))).unwrap();
        assert_eq!(found.as_deref(), Some(FILE.as_bytes()), "{name}");
    }

    // Invalid digests and names are reported as damage.
    let mut f = open(&folder.path().join("c"), 0);
    let mut batch = store::Batch::default();
    batch.put(keys::kept("no digest"), b"x".to_vec());
    batch.put(keys::kept(&sha256(8)), vec![0xff]);
    f.ledger.store_mut().apply(batch).unwrap();
    assert_eq!(consistency::check(f.ledger.store()).unwrap().count, 2);
    let found = dump::write(f.ledger.store(), &mut Vec::new(), Path::new("x")).unwrap();
    assert_eq!(found.damaged_count, 2);
    assert!(f.kept_file(&sha256(8)).is_err());
}
