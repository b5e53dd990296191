//! Changes of images that another machine has kept.

use super::super::edits::{EditLine, TABLE};
use super::*;
use crate::growth;

/// A path without an image here.
const THERE: &str = "images/2026-01-01/b.org/there.jpg";

fn words(page: &str, alt: &str, changed: Option<bool>) -> ImageEdit {
    ImageEdit::Context {
        context: Box::new(context(page, alt)),
        changed,
    }
}

fn mark(page: &str) -> ImageEdit {
    ImageEdit::Boilerplate {
        page: url(page),
        unknown: 9.0,
    }
}

fn terms(page: &str) -> ImageEdit {
    let terms = Terms {
        tdm_policy: Some("http://a.org/tdm".to_owned()),
        ..Terms::default()
    };
    ImageEdit::Terms {
        page: url(page),
        terms: Box::new(terms),
    }
}

fn edits(folder: &Path) -> Vec<EditLine> {
    let text = std::fs::read_to_string(folder.join(TABLE)).unwrap_or_default();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Changes of an image that exists here and of one that does not.
fn work(outputs: &mut Outputs) {
    let own = keep(
        outputs,
        "http://a.org/a.jpg",
        vec![context("http://a.org/1", "x")],
    );
    for file in [own.as_str(), THERE] {
        for edit in [
            words("http://a.org/2", "two", None),
            words("http://a.org/1", "one", Some(true)),
            words("http://a.org/1", "one", Some(true)),
            mark("http://a.org/2"),
            mark("http://a.org/3"),
            terms("http://a.org/2"),
            terms("http://a.org/3"),
        ] {
            outputs.edit_image(NOON, file, edit).unwrap();
        }
    }
}

#[test]
fn a_job_of_one_machine_is_as_ever() {
    let [alone, shared] = [false, true].map(|shares| {
        let folder = tempfile::tempdir().unwrap();
        let mut o = Outputs::open(folder.path(), &[]).unwrap();
        if shares {
            o.shares_files();
        }
        let empty = o.stamp();
        work(&mut o);
        let stamp = o.stamp();
        drop(o);
        (folder, empty, stamp)
    });
    assert_eq!(alone.1, shared.1, "nothing was written yet");
    let named = |stamp: &[u8]| {
        let stamp = output::Stamp::read(stamp).unwrap();
        stamp.outputs.into_keys().any(|name| name == "edits")
    };
    assert!(!named(&alone.2) && named(&shared.2));
    let (before, mut after) = (snapshot(alone.0.path()), snapshot(shared.0.path()));
    assert!(after.remove(Path::new(TABLE)).is_some());
    assert_eq!(before, after, "no other file differs");
}

#[test]
fn changes_of_images_elsewhere_are_told_and_those_that_replace_something() {
    let folder = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(folder.path(), &[]).unwrap();
    o.shares_files();
    work(&mut o);
    let own = "images/2026-01-02/a.org/a.jpg";
    let expected = [
        // The first words of a page need not be recorded, nor those that were there before.
        EditLine::new(NOON, own, words("http://a.org/1", "one", Some(true))),
        EditLine::new(NOON, own, mark("http://a.org/2")),
        EditLine::new(NOON, own, mark("http://a.org/3")),
        EditLine::new(NOON, own, terms("http://a.org/2")),
        EditLine::new(NOON, own, terms("http://a.org/3")),
        EditLine::new(NOON, THERE, words("http://a.org/2", "two", None)),
        EditLine::new(NOON, THERE, words("http://a.org/1", "one", Some(true))),
        EditLine::new(NOON, THERE, words("http://a.org/1", "one", Some(true))),
        EditLine::new(NOON, THERE, mark("http://a.org/2")),
        EditLine::new(NOON, THERE, mark("http://a.org/3")),
        EditLine::new(NOON, THERE, terms("http://a.org/2")),
        EditLine::new(NOON, THERE, terms("http://a.org/3")),
    ];
    assert_eq!(edits(folder.path()), expected);
    // A takedown finds the page by the same keys as in the log.
    let line: serde_json::Value = serde_json::from_str(&expected[0].to_line()).unwrap();
    assert_eq!(
        (&line["kind"], &line["url"]),
        (&"page".into(), &"http://a.org/1".into())
    );
}

#[test]
fn what_was_not_committed_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let open = |stamp: &[u8]| {
        let mut o = Outputs::open(folder.path(), stamp).unwrap();
        o.shares_files();
        o
    };
    let mut o = open(&[]);
    let mut stamps = vec![o.stamp()];
    for n in 0..4 {
        let page = format!("http://a.org/{n}");
        o.edit_image(NOON, THERE, words(&page, "x", None)).unwrap();
        stamps.push(o.stamp());
    }
    drop(o);
    let whole = std::fs::read(folder.path().join(TABLE)).unwrap();
    // The ranges that a checkpoint sends from stamp to stamp make up the file.
    let mut sent = Vec::new();
    for pair in stamps.windows(2) {
        for grown in growth::growth(folder.path(), &pair[0], &pair[1]).unwrap() {
            let place = growth::place_of(&pair[1], grown.output, grown.number, None).unwrap();
            assert_eq!(place.as_deref(), Some(TABLE));
            growth::bytes_of(folder.path(), &grown)
                .unwrap()
                .read_to_end(&mut sent)
                .unwrap();
        }
    }
    assert_eq!(sent, whole);
    for (count, stamp) in stamps.iter().enumerate().rev() {
        // Half a line, as after a full disk.
        let mut bytes = std::fs::read(folder.path().join(TABLE)).unwrap();
        bytes.extend_from_slice(b"{\"time\":");
        std::fs::write(folder.path().join(TABLE), bytes).unwrap();
        let o = open(stamp);
        assert_eq!(o.stamp(), *stamp);
        assert_eq!(edits(folder.path()).len(), count);
    }
}

#[test]
fn a_long_list_of_changes_becomes_several_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(folder.path(), &[]).unwrap();
    o.shares_files();
    o.rotate_at(2_000);
    for n in 0..20 {
        let page = format!("http://a.org/{n}");
        o.edit_image(NOON, THERE, words(&page, "x", None)).unwrap();
    }
    let stamp = o.stamp();
    drop(o);
    let logs = names_in(&folder.path().join("logs"));
    assert!(
        logs.contains(&"edits.00001.jsonl.zst".to_owned()),
        "{logs:?}"
    );
    let o = Outputs::open(folder.path(), &stamp).unwrap();
    assert_eq!(o.stamp(), stamp);
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
    let names = entries.map(|entry| name(entry).to_string_lossy().into_owned());
    names.collect()
}
