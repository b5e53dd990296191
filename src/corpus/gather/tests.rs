//! Gathering: new folders, replaced ones, refusals, and kills on the way.

use std::collections::BTreeMap;
use std::fs;

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::*;
use crate::address::PageUrl;
use crate::config::Config;
use crate::outputs::picture::ImageInfo;
use crate::outputs::{
    Document, ImageEdit, NewImageFile, Outputs, PackedSentences, Row, Sidecar, Table, read_samples,
};
use crate::page::{ImageContext, ImageScores, ImageTexts, TaskKind, Terms};
use crate::tool_error::ToolError;

/// 2026-01-02, 12:00.
const NOW: u64 = 1_767_355_200_000;

/// The settings of the machines.
fn settings() -> JobSettings {
    let text = "[job]\nname = \"cats\"\ncontact = \"mailto:a@b.org\"\n[frontier]\n\
        store = \"fjall\"\n[cluster]\nbrokers = [\"nats://127.0.0.1:4222\"]\n\
        store = \"file:///cluster/cats\"\n";
    Config::parse(text, "cats.toml").unwrap().settings
}

fn url(text: &str) -> PageUrl {
    PageUrl::parse(text).unwrap()
}

fn context(page: &str) -> ImageContext {
    ImageContext {
        page: url(page),
        page_title: None,
        page_language: None,
        page_recognised_language: None,
        document_perplexity: 1.0,
        declared_width: None,
        declared_height: None,
        terms: Terms::default(),
        embedding: Default::default(),
        texts: ImageTexts::default(),
        scores: ImageScores::default(),
        rank: 1.0,
    }
}

/// A machine's folder with these pages, each with an image of its own.
fn machine(root: &Path, name: &str, pages: std::ops::Range<u64>) -> MachinePart {
    let folder = root.join(format!("machines/{name}"));
    let mut outputs = Outputs::open(&folder, &[]).unwrap();
    outputs.shares_files();
    for n in pages {
        let (time, address) = (timestamp(NOW + n), format!("http://{name}.org/{n}"));
        let text = PackedSentences::of(&format!("words of {address}\n"));
        let sentences = outputs.sentences(&text).unwrap();
        let documents = outputs
            .document(&Document {
                url: address.clone(),
                fetched: time.clone(),
                text: format!("The text of {address}."),
                ..Document::default()
            })
            .unwrap();
        let page = url(&address);
        outputs
            .log(&Row {
                sentences: sentences.as_ref(),
                documents: Some(&documents),
                ..Row::done(&time, TaskKind::Page, &address, page.id())
            })
            .unwrap();
        let image = url(&format!("http://{name}.org/{n}.png"));
        let bytes = format!("the picture {n}").into_bytes();
        let info = ImageInfo {
            sha256: base16ct::lower::encode_string(&Sha256::digest(&bytes)),
            format: "png".to_owned(),
            extension: "png",
            ..ImageInfo::default()
        };
        let file = outputs
            .image(NewImageFile {
                contexts: vec![context(&address), context("http://all.org/")],
                fetched: &time,
                ..NewImageFile::new(&image, &bytes, info, "2026-01-02T12:00:00.000Z")
            })
            .unwrap();
        outputs
            .log(&Row {
                file: Some(&file),
                ..Row::done(&time, TaskKind::Image, image.as_str(), image.id())
            })
            .unwrap();
    }
    outputs.complete().unwrap();
    MachinePart {
        name: name.to_owned(),
        folder,
    }
}

/// Every file below a folder, without the mark's time.
fn snapshot(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap();
                let bytes = fs::read(&path).unwrap();
                files.insert(name.to_string_lossy().into_owned(), bytes);
            }
        }
    }
    // Made by any process that looks at the folder.
    for name in ["samples.lock", "lock"] {
        files.remove(name);
    }
    files
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let name = |e: std::io::Result<fs::DirEntry>| e.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

fn addresses(folder: &Path) -> Vec<String> {
    let documents = outputs::documents(folder).unwrap();
    documents.map(|document| document.unwrap().url).collect()
}

fn list(folder: &Path, target: &str) {
    let order = format!("{{\"time\":\"2026-01-01T00:00:00.000Z\",{target}}}\n");
    fs::write(folder.join(TAKEDOWNS), order).unwrap();
}

struct Jobs {
    root: TempDir,
    parts: Vec<MachinePart>,
}

impl Jobs {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let parts = vec![
            machine(root.path(), "a", 0..3),
            machine(root.path(), "b", 1..4),
        ];
        Self { root, parts }
    }

    fn target(&self) -> PathBuf {
        self.root.path().join("jobs/cats")
    }

    fn gather(&self) -> Result<Gathered, ToolError> {
        gather(&self.parts, &self.target(), &settings(), NOW)
    }

    fn beside(&self) -> Vec<String> {
        names(&self.root.path().join("jobs"))
    }
}

#[test]
fn a_gathered_folder_is_one_of_a_job() {
    let jobs = Jobs::new();
    let found = jobs.gather().unwrap();
    assert_eq!(
        (found.merged.rows, found.merged.images, found.merged.copies),
        (12, 6, 2)
    );
    assert_eq!(jobs.beside(), ["cats"]);
    let into = jobs.target();
    let config = Config::load(&into.join(RECORD)).unwrap();
    assert_eq!(config.job_folder(), into.canonicalize().unwrap());
    assert_eq!(
        (config.job.name.as_str(), config.checkpoint.store.as_ref()),
        ("cats", None)
    );
    assert!(!config.cluster.is_there());
    let mark: serde_json::Value =
        serde_json::from_slice(&fs::read(into.join(GATHERED)).unwrap()).unwrap();
    assert_eq!(mark["parts"], serde_json::json!(["a", "b"]));
    assert_eq!(addresses(&into).len(), 6);
    // No crawl can continue here.
    let error = checkpoint::open(&config, NOW).err().unwrap().to_string();
    assert!(
        error.contains("was gathered from the outputs of several machines"),
        "{error}"
    );
    assert!(!into.join("frontier").exists());
    // A second gather gives the same.
    let before = snapshot(&into);
    let again = jobs.gather().unwrap();
    assert_eq!(snapshot(&into), before);
    // The previous folder was moved aside.
    let aside = again.before.unwrap();
    assert_eq!(snapshot(&aside), before);
    assert_eq!(jobs.beside().len(), 2);
}

#[test]
fn what_people_have_made_goes_along_and_the_rest_is_aside() {
    let jobs = Jobs::new();
    jobs.gather().unwrap();
    let into = jobs.target();
    let along = ["annotations/votes.jsonl", "exports/x/data.jsonl"];
    let aside = ["notes.txt", "ranking.tsv", "report/index.html", "search/x"];
    for name in along.iter().chain(&aside) {
        fs::create_dir_all(into.join(name).parent().unwrap()).unwrap();
        fs::write(into.join(name), name.as_bytes()).unwrap();
    }
    let before = jobs.gather().unwrap().before.unwrap();
    let (after, before) = (snapshot(&into), snapshot(&before));
    for name in along {
        assert_eq!(after[name], name.as_bytes());
        assert_eq!(before[name], name.as_bytes());
    }
    for name in aside {
        assert!(!after.contains_key(name), "{name}");
        assert_eq!(before[name], name.as_bytes());
    }
}

#[test]
fn a_kill_at_any_step_leaves_the_old_folder_or_the_new_one() {
    let steps = |jobs: &Jobs| {
        let mut steps = Vec::new();
        let place = GatherFolder::of(&jobs.target()).unwrap();
        let lock = place.lock().unwrap();
        gather_with(&jobs.parts, &place, (&settings(), NOW), &mut |step| {
            steps.push(step);
            Ok(())
        })
        .unwrap();
        drop(lock);
        steps
    };
    let mut jobs = Jobs::new();
    let all = steps(&jobs);
    assert_eq!(all.len(), 7, "{all:?}");
    let old = snapshot(&jobs.target());
    let more = machine(jobs.root.path(), "c", 5..7);
    jobs.parts.push(more);
    for has_old in [true, false] {
        for kill in &all {
            let into = jobs.target();
            fs::remove_dir_all(into.parent().unwrap()).unwrap();
            if has_old {
                gather(&jobs.parts[..2], &into, &settings(), NOW).unwrap();
                fs::write(into.join("notes.txt"), "mine").unwrap();
            }
            let place = GatherFolder::of(&into).unwrap();
            let lock = place.lock().unwrap();
            let killed = gather_with(&jobs.parts, &place, (&settings(), NOW), &mut |step| {
                if step == *kill {
                    return Err(ToolError::new("killed"));
                }
                Ok(())
            });
            assert!(killed.is_err(), "{kill}");
            drop(lock);
            if into.exists() {
                let found = snapshot(&into);
                let is_new = found.contains_key("images/2026-01-02/c.org/5.png");
                assert_eq!(is_new, *kill == "in place", "{kill}");
                if !is_new {
                    let mut expected = old.clone();
                    expected.insert("notes.txt".to_owned(), b"mine".to_vec());
                    assert_eq!(found, expected, "{kill}");
                }
            } else {
                assert!(!has_old || *kill == "moved aside", "{kill}");
            }
            // A gather that fails early still completes one that was almost done.
            let lost = [MachinePart {
                name: "lost".to_owned(),
                folder: "nowhere".into(),
            }];
            gather(&lost, &into, &settings(), NOW).unwrap_err();
            assert!(into.exists() || !has_old, "{kill}");
            gather(&jobs.parts, &into, &settings(), NOW + 1).unwrap();
            let left = jobs.beside();
            assert!(
                left.iter().all(|name| !name.contains(BESIDE)),
                "{kill}: {left:?}"
            );
            assert_eq!(addresses(&into).len(), 8);
            let notes = left
                .iter()
                .filter(|name| into.with_file_name(name).join("notes.txt").exists());
            assert_eq!(notes.count(), usize::from(has_old), "{kill}: {left:?}");
        }
    }
}

#[test]
fn damage_leaves_the_folder_as_it_was() {
    let jobs = Jobs::new();
    jobs.gather().unwrap();
    let before = snapshot(&jobs.target());
    fs::write(jobs.parts[1].folder.join("logs/crawl.jsonl"), "junk\n").unwrap();
    let error = jobs.gather().unwrap_err().to_string();
    assert!(error.starts_with("the part b: "), "{error}");
    assert!(error.contains("logs/crawl.jsonl: line 1"), "{error}");
    assert_eq!(snapshot(&jobs.target()), before);
    assert_eq!(jobs.beside(), ["cats"]);
}

#[test]
fn no_other_folder_is_replaced() {
    let jobs = Jobs::new();
    let into = jobs.target();
    fs::create_dir_all(into.join("images")).unwrap();
    let error = jobs.gather().unwrap_err();
    assert!(
        error.to_string().contains("not made by gathering"),
        "{error}"
    );
    // An empty folder counts as none.
    fs::remove_dir(into.join("images")).unwrap();
    jobs.gather().unwrap();
    let name = |name: &str| {
        gather(&jobs.parts, &jobs.root.path().join(name), &settings(), NOW).unwrap_err()
    };
    assert!(
        name("Big Cats")
            .to_string()
            .contains("cannot be that of a job")
    );
}

#[test]
fn who_reads_or_gathers_keeps_others_away() {
    let jobs = Jobs::new();
    jobs.gather().unwrap();
    let reading = read_samples(&jobs.target()).unwrap();
    let busy = jobs.gather().unwrap_err();
    assert!(
        busy.to_string().contains("uses the samples of this job"),
        "{busy}"
    );
    drop(reading);
    let gathering = GatherFolder::of(&jobs.target()).unwrap().lock().unwrap();
    let busy = jobs.gather().unwrap_err();
    assert!(busy.is_busy(), "{busy}");
    drop(gathering);
    jobs.gather().unwrap();
}

#[test]
fn what_one_machine_was_told_to_remove_is_removed_of_all() {
    let mut jobs = Jobs::new();
    let more = machine(jobs.root.path(), "c", 5..7);
    jobs.parts.push(more);
    // The machine c had ended before.
    list(&jobs.parts[0].folder, "\"host\":\"c.org\"");
    let receipts = jobs.parts[0].folder.join(RECEIPTS);
    fs::create_dir_all(&receipts).unwrap();
    fs::write(receipts.join("1.json"), "{\"of\":\"a\"}").unwrap();
    let receipts = jobs.parts[1].folder.join(RECEIPTS);
    fs::create_dir_all(&receipts).unwrap();
    fs::write(receipts.join("1.json"), "{\"of\":\"b\"}").unwrap();
    fs::write(receipts.join("unfinished.json"), "{}").unwrap();
    list(&jobs.parts[1].folder, "\"url\":\"http://all.org/\"");
    let found = jobs.gather().unwrap();
    assert_eq!(found.orders, 2);
    let into = jobs.target();
    let all = |into: &Path| {
        let mut addresses = addresses(into);
        addresses.sort();
        addresses
    };
    let expected: Vec<String> = [("a", 0..3), ("b", 1..4)]
        .into_iter()
        .flat_map(|(name, pages)| pages.map(move |n| format!("http://{name}.org/{n}")))
        .collect();
    assert_eq!(all(&into), expected);
    let files = outputs::image_files(&into).unwrap();
    assert_eq!(files.len(), 6);
    for file in files {
        let sidecar = Sidecar::load(&into, &file).unwrap();
        let pages: Vec<&str> = sidecar.contexts().iter().map(|c| c.page.as_str()).collect();
        assert_eq!(pages.len(), 1, "{pages:?}");
    }
    let left = names(&into.join(RECEIPTS));
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(left.contains(&"1.json".to_owned()) && left.contains(&"1-part-2.json".to_owned()));
    assert!(!into.join("frontier").exists() && !into.join("lock").exists());
    let orders = checkpoint::takedowns(&into).unwrap();
    assert_eq!(orders.orders().len(), 2);

    // A takedown in the gathered folder itself also applies to the next.
    let config = Config::load(&into.join(RECORD)).unwrap();
    let target = orders.orders()[0].target.clone();
    let target = match target {
        crate::web::scope::Target::Host(_) => crate::web::scope::Target::Url(url("http://a.org/1")),
        other => other,
    };
    let request = Request {
        targets: vec![target],
        reason: None,
        dry_run: false,
    };
    // Also with the job file that the machines crawl.
    let mut of_machines = settings();
    assert!(of_machines.cluster.is_there());
    of_machines.job.folder = into.parent().unwrap().to_owned();
    for dry_run in [true, false] {
        let request = Request {
            dry_run,
            ..request.clone()
        };
        takedown::take_down(&of_machines, &request, NOW + 1).unwrap();
    }
    assert_eq!(all(&into).len(), 5);
    let error = checkpoint::open(&config, NOW).err().unwrap();
    assert!(
        matches!(error, checkpoint::OpenError::Gathered(_)),
        "{error}"
    );
    let found = jobs.gather().unwrap();
    assert_eq!(found.orders, 3);
    assert_eq!(all(&into).len(), 5);
    // The receipts of all three, and of the two gathers that found something.
    let left = names(&into.join(RECEIPTS));
    assert_eq!(left.len(), 5, "{left:?}");
}

#[test]
fn a_change_that_another_machine_had_for_an_image_is_in_its_sidecar() {
    let jobs = Jobs::new();
    let own = "images/2026-01-02/a.org/1.png";
    let mut outputs = Outputs::open(&jobs.parts[1].folder, &[]).unwrap();
    outputs.shares_files();
    let edit = ImageEdit::Context {
        context: Box::new(context("http://b.org/new")),
        changed: None,
    };
    outputs.edit_image(&timestamp(NOW + 9), own, edit).unwrap();
    drop(outputs);
    assert_eq!(jobs.gather().unwrap().merged.edits, 1);
    let sidecar = Sidecar::load(&jobs.target(), own).unwrap();
    assert!(
        sidecar
            .contexts()
            .iter()
            .any(|c| c.page.as_str() == "http://b.org/new")
    );
    let mut rows = 0;
    outputs::each_line(&jobs.target(), Table::Images, usize::MAX, |_| rows += 1).unwrap();
    assert_eq!(rows, 1 + 12 + 1);
}
