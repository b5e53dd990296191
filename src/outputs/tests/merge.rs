//! Merging the outputs of several machines.

use std::os::unix::fs::MetadataExt;

use tempfile::TempDir;

use super::super::merge::{MachinePart, Merged, merge};
use super::*;
use crate::clock::timestamp;
use crate::page::Wire;
use crate::rules::{Applied, FieldResult};
use spoor_archive::check;
use spoor_archive::writer::{Compression, Packed};

/// 2026-01-02, 12:00.
const BEGUN: u64 = 1_767_355_200_000;

/// A folder of outputs that are being written.
struct Machine {
    name: String,
    folder: TempDir,
    outputs: Option<Outputs>,
}

impl Machine {
    fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut outputs = Outputs::open(folder.path(), &[]).unwrap();
        outputs.shares_files();
        outputs.about(About {
            job: "job".to_owned(),
            fields: Vec::new(),
            compression: Compression::Gzip,
        });
        Self {
            name: name.to_owned(),
            folder,
            outputs: Some(outputs),
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn outputs(&mut self) -> &mut Outputs {
        self.outputs.as_mut().unwrap()
    }

    /// The finished part.
    fn part(&mut self) -> MachinePart {
        if let Some(mut outputs) = self.outputs.take() {
            outputs.fold().unwrap();
            outputs.complete().unwrap();
        }
        MachinePart {
            name: self.name.clone(),
            folder: self.path().to_owned(),
        }
    }

    /// Writes all outputs of a page, at a second.
    fn page(&mut self, n: u64, archived: bool) {
        let time = timestamp(BEGUN + n * 1000);
        let address = format!("http://a{}.org/{n}", n % 3);
        let outputs = self.outputs();
        let words = format!("sentence {n} one\nsentence {n} two\n");
        let sentences = outputs.sentences(&PackedSentences::of(&words)).unwrap();
        let document = Document {
            url: address.clone(),
            fetched: time.clone(),
            text: format!("The text of page {n}."),
            ..Document::default()
        };
        let documents = outputs.document(&document).unwrap();
        let archive = archived.then(|| {
            let records = exchange(&address, n);
            outputs.exchange(&records, BEGUN + n * 1000).unwrap()
        });
        let found = Applied {
            rule: Some("r".to_owned()),
            fields: vec![FieldResult {
                name: "f".to_owned(),
                value: None,
                css_path: None,
                xpath: None,
                regex: Some(n.to_string()),
                url: address.clone(),
                notes: Vec::new(),
            }],
            ..Applied::default()
        };
        outputs
            .log(&Row {
                time: &time,
                sentences: sentences.as_ref(),
                documents: Some(&documents),
                archive: archive.as_ref(),
                rules: Some(&found),
                ..row(&address)
            })
            .unwrap();
    }

    /// Keeps an image at a second.
    fn image(&mut self, address: &str, bytes: &[u8], n: u64, pages: &[&str]) -> String {
        let (url, time) = (url(address), timestamp(BEGUN + n * 1000));
        let contexts = pages.iter().map(|page| context(page, "x")).collect();
        let new = NewImageFile {
            contexts,
            fetched: &time,
            ..NewImageFile::new(&url, bytes, info(bytes), NOON)
        };
        let file = self.outputs().image(new).unwrap();
        let row = Row {
            time: &time,
            kind: TaskKind::Image,
            file: Some(&file),
            ..row(address)
        };
        self.outputs().log(&row).unwrap();
        file
    }

    fn edit(&mut self, n: u64, file: &str, edit: ImageEdit) {
        let time = timestamp(BEGUN + n * 1000);
        self.outputs().edit_image(&time, file, edit).unwrap();
    }
}

fn exchange(address: &str, n: u64) -> Vec<u8> {
    let wire = Wire {
        asked: BEGUN + n * 1000,
        ip: None,
        protocol: "http/1.1",
        status: 200,
        request: b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        response: b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
        body: format!("the body of page {n}").into_bytes().into(),
        truncated: false,
        is_compressed: false,
    };
    Packed::of(address, &wire, &Compression::Gzip).members(None, &[])
}

fn words(page: &str, alt: &str, changed: Option<bool>) -> ImageEdit {
    ImageEdit::Context {
        context: Box::new(context(page, alt)),
        changed,
    }
}

fn merged(machines: &mut [&mut Machine]) -> (TempDir, Merged) {
    let parts: Vec<MachinePart> = machines.iter_mut().map(|machine| machine.part()).collect();
    let into = tempfile::tempdir().unwrap();
    let merged = merge(&parts, into.path()).unwrap();
    (into, merged)
}

/// Checks that every place that a row of the log names has what the row says. Returns the rows.
fn places(folder: &Path) -> Vec<serde_json::Value> {
    let mut rows = Vec::new();
    each_line(folder, Table::Log, usize::MAX, |line| {
        rows.push(serde_json::from_slice(line.bytes.unwrap()).unwrap());
    })
    .unwrap();
    for row in &rows {
        let row: &serde_json::Value = row;
        let place = |key: &str| serde_json::from_value::<TextPlace>(row[key].clone()).ok();
        if let Some(place) = place("documents") {
            let found = document_at(folder, &place).unwrap();
            assert_eq!(
                (&row["url"], &row["time"]),
                (&found.url.into(), &found.fetched.into())
            );
        }
        if let Some(place) = place("sentences") {
            let number = row["url"].as_str().unwrap().rsplit('/').next().unwrap();
            let found = sentences_at(folder, &place).unwrap();
            assert_eq!(found[0], format!("sentence {number} one"));
        }
        if let Some(place) = place("archive") {
            let bytes = std::fs::read(folder.join("archive").join(place.file)).unwrap();
            let of = place.from as usize..(place.from + place.bytes) as usize;
            let mut text = String::new();
            MultiGzDecoder::new(&bytes[of])
                .read_to_string(&mut text)
                .unwrap();
            let uri = format!("WARC-Target-URI: {}\r\n", row["url"].as_str().unwrap());
            assert!(text.contains(&uri), "{text}");
        }
        if let Some(file) = row["file"].as_str() {
            assert_eq!(Sidecar::load(folder, file).unwrap().url(), row["url"]);
        }
    }
    rows
}

fn pages_of(folder: &Path, file: &str) -> Vec<(String, String)> {
    let sidecar = Sidecar::load(folder, file).unwrap();
    let contexts = sidecar.contexts().iter();
    contexts
        .map(|c| {
            let alt = c.texts.alt.clone().unwrap_or_default();
            (c.page.as_str().to_owned(), alt)
        })
        .collect()
}

fn pair(page: &str, alt: &str) -> (String, String) {
    (page.to_owned(), alt.to_owned())
}

#[test]
fn logs_and_texts_are_byte_for_byte_those_of_one_machine() {
    let mut alone = Machine::new("alone");
    let mut parts = ["a", "b", "c"].map(Machine::new);
    for n in 0..60 {
        alone.page(n, false);
        parts[(n * 7 % 11 % 3) as usize].page(n, false);
    }
    let [a, b, c] = &mut parts;
    let (into, found) = merged(&mut [a, b, c]);
    alone.part();
    let [before, after] = [alone.path(), into.path()].map(snapshot);
    assert_eq!(before, after);
    assert!(before.keys().filter(|p| p.starts_with("documents")).count() > 5);
    assert_eq!(found.rows, 60);
    assert_eq!(places(into.path()).len(), 60);
}

#[test]
fn files_of_the_archive_stay_whole_whatever_they_are_called() {
    let mut parts = ["a", "b"].map(Machine::new);
    for n in 0..20 {
        // Both begin in the same second, so their files have the same names.
        let [a, b] = &mut parts;
        a.page(n, true);
        b.page(n, true);
    }
    let [a, b] = &mut parts;
    let (into, found) = merged(&mut [a, b]);
    assert_eq!(places(into.path()).len(), 40);
    let folder = into.path().join("archive");
    let files: Vec<PathBuf> = snapshot(&folder)
        .into_keys()
        .map(|f| folder.join(f))
        .collect();
    let is_index = |path: &&PathBuf| path.extension().is_some_and(|e| e == "cdxj");
    let (indexes, files): (Vec<_>, Vec<_>) = files.iter().partition(is_index);
    assert_eq!(found.rows, 40);
    assert_eq!(files.len(), indexes.len());
    assert!(files.len() > 4);
    let files: Vec<PathBuf> = files.into_iter().cloned().collect();
    assert!(
        check::check_all(&files)
            .unwrap()
            .iter()
            .all(check::Checked::is_sound)
    );
    let captures: usize = indexes
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap().lines().count())
        .sum();
    assert_eq!(captures, 40);
}

#[test]
fn an_image_that_an_heir_fetched_again_counts_with_the_words_of_both() {
    let [mut a, mut b] = ["a", "b"].map(Machine::new);
    let address = "http://i.org/a.jpg";
    let file = a.image(address, b"old", 1, &["http://a.org/1", "http://a.org/2"]);
    // Words that the machine a has added since.
    let later = context("http://a.org/3", "late");
    a.outputs()
        .extend_image(&file, later, VisitKind::First)
        .unwrap();
    // Before the new owner fetches it again, it finds a page, and that page has changed.
    b.edit(2, &file, words("http://a.org/1", "between", Some(true)));
    b.edit(2, &file, words("http://a.org/4", "between", None));
    assert_eq!(b.image(address, b"new", 3, &["http://a.org/1"]), file);
    for turned in [false, true] {
        let (into, found) = if turned {
            merged(&mut [&mut b, &mut a])
        } else {
            merged(&mut [&mut a, &mut b])
        };
        assert_eq!((found.images, found.united), (1, 1));
        assert_eq!(std::fs::read(into.path().join(&file)).unwrap(), b"new");
        let expected = [
            pair("http://a.org/2", "x"),
            pair("http://a.org/3", "late"),
            pair("http://a.org/1", "x"),
            pair("http://a.org/4", "between"),
        ];
        assert_eq!(pages_of(into.path(), &file), expected, "{turned}");
        assert_eq!(places(into.path()).len(), 2);
    }
}

#[test]
fn two_addresses_that_share_a_path_are_two_images() {
    let [mut a, mut b] = ["a", "b"].map(Machine::new);
    let first = a.image("http://i.org/x.jpg", b"one", 1, &["http://a.org/1"]);
    let second = b.image("http://i.org/x", b"two", 2, &["http://a.org/2"]);
    assert_eq!(first, second);
    b.edit(3, &second, words("http://a.org/2", "again", Some(true)));
    let (into, found) = merged(&mut [&mut a, &mut b]);
    assert_eq!((found.images, found.united, found.edits), (2, 0, 1));
    let rows = places(into.path());
    let marked = rows[1]["file"].as_str().unwrap();
    assert_ne!(marked, first);
    // As a single machine names it.
    let mut alone = Machine::new("alone");
    alone.image("http://i.org/x.jpg", b"one", 1, &[]);
    assert_eq!(alone.image("http://i.org/x", b"two", 2, &[]), marked);
    assert_eq!(pages_of(into.path(), &first), [pair("http://a.org/1", "x")]);
    assert_eq!(
        pages_of(into.path(), marked),
        [pair("http://a.org/2", "again")]
    );
    let files: Vec<String> = table(into.path())
        .into_iter()
        .map(|r| r[1].clone())
        .collect();
    assert_eq!(files, [&first, marked, marked]);
}

#[test]
fn equal_bytes_become_links_to_the_first_that_was_fetched() {
    let [mut a, mut b] = ["a", "b"].map(Machine::new);
    let late = a.image("http://i.org/a.jpg", b"same", 5, &["http://a.org/1"]);
    let own = a.image("http://i.org/b.jpg", b"same", 6, &["http://a.org/1"]);
    let first = b.image("http://j.org/c.jpg", b"same", 4, &["http://a.org/2"]);
    let other = b.image("http://j.org/d.jpg", b"other", 4, &["http://a.org/2"]);
    let (into, found) = merged(&mut [&mut a, &mut b]);
    assert_eq!((found.images, found.copies), (4, 2));
    let inode = |file: &str| std::fs::metadata(into.path().join(file)).unwrap().ino();
    let of = |file: &str| {
        let sidecar = Sidecar::load(into.path(), file).unwrap();
        sidecar.same_as().map(str::to_owned)
    };
    for copy in [&late, &own] {
        assert_eq!(
            (of(copy), inode(copy)),
            (Some(first.clone()), inode(&first))
        );
    }
    assert_eq!((of(&first), of(&other)), (None, None));
    assert_ne!(inode(&other), inode(&first));
}

#[test]
fn changes_are_made_in_the_order_of_their_times() {
    let [mut a, mut b] = ["a", "b"].map(Machine::new);
    let file = a.image("http://i.org/a.jpg", b"x", 1, &["http://a.org/1"]);
    // The host moves to the machine b, and returns.
    b.edit(2, &file, words("http://a.org/1", "b", Some(true)));
    b.edit(2, &file, words("http://a.org/2", "b", None));
    b.edit(3, &file, words("http://a.org/9", "b", None));
    a.edit(4, &file, words("http://a.org/1", "a again", Some(true)));
    a.edit(4, &file, words("http://a.org/2", "a again", Some(true)));
    let unknown = url("http://a.org/9");
    a.edit(
        5,
        &file,
        ImageEdit::Boilerplate {
            page: unknown,
            unknown: 7.0,
        },
    );
    let terms = Box::new(Terms {
        tdm_policy: Some("http://a.org/tdm".to_owned()),
        ..Terms::default()
    });
    b.edit(
        6,
        &file,
        ImageEdit::Terms {
            page: url("http://a.org/2"),
            terms: terms.clone(),
        },
    );
    b.edit(
        7,
        "images/2026-01-02/i.org/lost.jpg",
        words("http://a.org/1", "b", None),
    );
    b.edit(7, "../../victim", words("http://a.org/1", "b", None));
    let (into, found) = merged(&mut [&mut a, &mut b]);
    let expected = [
        pair("http://a.org/1", "a again"),
        pair("http://a.org/2", "a again"),
        pair("http://a.org/9", "b"),
    ];
    assert_eq!(pages_of(into.path(), &file), expected);
    assert_eq!((found.edits, found.lost_edits), (7, 2));
    let sidecar = Sidecar::load(into.path(), &file).unwrap();
    assert_eq!(sidecar.contexts()[1].terms, *terms);
    assert!(sidecar.contexts()[2].scores.alt.is_none(), "it is marked");
    // Each change has a row, as from a single machine.
    let rows = table(into.path());
    assert!(rows.len() >= 6, "{rows:?}");
    assert!(!into.path().join("logs/edits.jsonl").exists());
    assert!(!into.path().join("sightings").join("x").exists());
}

#[test]
fn the_last_visit_of_a_page_comes_last_whoever_made_it() {
    let [mut a, mut b] = ["a", "b"].map(Machine::new);
    // The new owner is first in the list, as after a restart.
    b.page(0, false);
    a.page(1, false);
    b.page(2, false);
    let (into, _) = merged(&mut [&mut b, &mut a]);
    let urls: Vec<String> = documents(into.path())
        .unwrap()
        .map(|document| document.unwrap().url)
        .collect();
    let expected = [0, 1, 2].map(|n| format!("http://a{}.org/{n}", n % 3));
    assert_eq!(urls, expected);
}

#[test]
fn parts_may_be_empty_and_there_may_be_none() {
    let [mut a, mut b] = ["a", "b"].map(Machine::new);
    a.page(0, true);
    // A machine that ended before its first page.
    let bare = tempfile::tempdir().unwrap();
    let nothing = MachinePart {
        name: "nothing".to_owned(),
        folder: bare.path().to_owned(),
    };
    let into = tempfile::tempdir().unwrap();
    let parts = [b.part(), a.part(), nothing];
    assert_eq!(merge(&parts, into.path()).unwrap().rows, 1);
    let into = tempfile::tempdir().unwrap();
    assert_eq!(merge(&[], into.path()).unwrap(), Merged::default());
    let empty = tempfile::tempdir().unwrap();
    drop(Outputs::open(empty.path(), &[]).unwrap());
    assert_eq!(snapshot(into.path()), snapshot(empty.path()));
}

/// Damages a part, and returns the message.
fn refusal(damage: impl Fn(&Path)) -> String {
    let [mut a, mut b] = ["a", "b"].map(Machine::new);
    a.page(0, true);
    for n in 1..4 {
        b.page(n, true);
    }
    b.image("http://i.org/a.jpg", b"the bytes", 5, &["http://a.org/1"]);
    let parts = [a.part(), b.part()];
    let before = snapshot(a.path());
    damage(b.path());
    let into = tempfile::tempdir().unwrap();
    let error = merge(&parts, into.path()).unwrap_err();
    assert_eq!(snapshot(a.path()), before, "parts are only read");
    assert!(error.to_string().starts_with("the part b: "), "{error:?}");
    error
        .to_string()
        .replace(&b.path().display().to_string(), "B")
}

#[test]
fn damage_is_told_with_its_part_and_file() {
    let file_of = |folder: &Path, below: &str| {
        let names = snapshot(&folder.join(below)).into_keys();
        let name = names
            .filter(|name| !name.to_string_lossy().contains("cdxj"))
            .min();
        folder.join(below).join(name.unwrap())
    };
    let cut = |path: &Path, by: u64| {
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(file.metadata().unwrap().len() - by).unwrap();
    };
    let image = "images/2026-01-02/i.org/a.jpg";
    let messages = [
        refusal(|b| cut(&b.join("logs/crawl.jsonl"), 9)),
        refusal(|b| std::fs::write(b.join("logs/crawl.jsonl"), "junk\n").unwrap()),
        refusal(|b| cut(&file_of(b, "documents"), 1)),
        refusal(|b| std::fs::remove_file(file_of(b, "sentences")).unwrap()),
        refusal(|b| cut(&file_of(b, "archive"), 5)),
        refusal(|b| std::fs::remove_dir_all(b.join("archive")).unwrap()),
        refusal(|b| std::fs::write(b.join(image), "other").unwrap()),
        refusal(|b| std::fs::remove_file(b.join(image)).unwrap()),
        refusal(|b| std::fs::write(b.join(format!("{image}.json")), "{").unwrap()),
        refusal(|b| cut(&b.join("images.tsv"), 1)),
        refusal(|b| std::fs::write(b.join("rewriting.json"), "{}").unwrap()),
        refusal(|b| std::fs::remove_dir_all(b).unwrap()),
    ];
    let expected = [
        "B/logs/crawl.jsonl: line 4: it is cut off",
        "B/logs/crawl.jsonl: line 1: expected",
        "B/documents/00000.jsonl.zst: it ends before the",
        "B/sentences/00000.txt.gz: it is missing",
        "behind its end at byte",
        "B/logs/crawl.jsonl: line 1: it names archive/spoor-job-",
        "B/images/2026-01-02/i.org/a.jpg: 5 bytes long, but its sidecar says 9",
        "B/images/2026-01-02/i.org/a.jpg: it is missing",
        "B/images/2026-01-02/i.org/a.jpg.json: EOF",
        "B/images.tsv: line 2: it is cut off",
        "B/rewriting.json: a takedown was interrupted here",
        "there is no such folder",
    ];
    for (message, expected) in messages.iter().zip(expected) {
        assert!(message.starts_with("the part b: B"), "{message}");
        assert!(message.contains(expected), "{message}\nand not: {expected}");
        assert!(message.contains("leave this part out"), "{message}");
    }
}
