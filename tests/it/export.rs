//! `spoor export` on a crawl, loaded with the Python packages that the formats are for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use spoor_lab::{Lab, picture};

use crate::support::texts::{image, other, page, some, topical, tree};
use crate::support::{Job, JobText, Ran, Wire, spoor};

/// Characters on which hand-written formats break.
pub const HOSTILE: &str = "nul \u{0} line\nend\r\n\u{7} \u{7f} \u{85} \u{2028} \u{202e} \"q\" \\ ``` | <b> {x}: , \t# 2026-01-01 \u{1f680}";

/// The file names of the job's images.
const NAMES: [&str; 6] = ["a.jpg", "b.png", "c.gif", "d.webp", "e.bmp", "f.jpg"];

fn crawled() -> (Job, Wire) {
    let mut paragraphs = vec![some(topical(), 0, 4)];
    for (n, name) in NAMES.iter().enumerate() {
        let alt = some(if n % 2 == 0 { topical() } else { other() }, n, 1);
        paragraphs.push(image(&format!("/{name}"), &alt));
    }
    let mut web = tree(&[("a.test/", page("Lights", "", &paragraphs))]);
    for name in NAMES {
        let bytes = picture::draw(&format!("http://a.test/{name}"), 320, 240)
            .unwrap()
            .bytes;
        web.insert("a.test", &format!("/{name}"), bytes);
    }
    let wire = Wire::serve(Lab::from_memory(web));
    let text = JobText {
        seeds: &["http://a.test/"],
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    job.run();
    assert_eq!(job.sidecars().len(), NAMES.len());
    (job, wire)
}

/// Changes the texts in the sidecar of an image, as an odd page would.
fn alter(job: &Job, name: &str, change: impl FnOnce(&mut Value)) {
    let files = job.files("images");
    let file = files
        .iter()
        .find(|f| f.ends_with(format!("{name}.json")))
        .unwrap();
    let path = job.folder().join("images").join(file);
    let mut sidecar: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut sidecar["contexts"][0]);
    std::fs::write(&path, serde_json::to_vec(&sidecar).unwrap()).unwrap();
}

fn exported(job: &Job, format: &str, more: &[&str]) -> Ran {
    let file = job.file();
    let mut arguments = vec!["export", file.to_str().unwrap(), "--format", format];
    arguments.extend(more);
    Ran::of(&mut spoor(&arguments))
}

/// What a reader must see: the sidecars in the order of `ranking.tsv`.
fn expected(job: &Job, bytes: bool) -> Vec<Value> {
    let file = job.file();
    Ran::of(&mut spoor(&["rank", file.to_str().unwrap()])).good();
    let by_file: BTreeMap<String, Value> = job
        .sidecars()
        .into_iter()
        .map(|s| (s["file"].as_str().unwrap().to_owned(), s))
        .collect();
    let mut ranking = csv::ReaderBuilder::new()
        .delimiter(b'\t')
        .from_path(job.folder().join("ranking.tsv"))
        .unwrap();
    let rows = ranking.records().map(Result::unwrap);
    rows.enumerate()
        .map(|(n, row)| {
            let sidecar = &by_file[&row[2]];
            let context = &sidecar["contexts"][0];
            let written = context["alt_kind"] == "written";
            let alt = written.then(|| context["alt"].clone());
            let caption = &context["figcaption"];
            let text = [
                caption.clone(),
                alt.unwrap_or_default(),
                context["heading"].clone(),
            ];
            let text = text.into_iter().find(|t| !t.is_null());
            let text = text.unwrap_or(context["parents"][0].clone());
            let file = std::fs::read(job.folder().join(&row[2])).unwrap();
            let digest: String = Sha256::digest(&file)
                .iter()
                .map(|b| format!("{b:02x}"))
                .collect();
            json!({
                "rank": n + 1,
                "url": sidecar["url"],
                "text": text,
                "caption": caption,
                "parents": context["parents"],
                "fetched": &sidecar["fetched"].as_str().unwrap()[..19],
                "sha256": bytes.then_some(digest),
                "size": bytes.then_some([&sidecar["width"], &sidecar["height"]]),
            })
        })
        .collect()
}

/// The Python with the packages, if there is one.
pub fn python() -> Option<PathBuf> {
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python/bin/python");
    match std::env::var_os("SPOOR_PYTHON") {
        // If the user names a Python, the test must run.
        Some(named) => Some(named.into()),
        None => usual.is_file().then_some(usual),
    }
}

#[test]
fn python_reads_exports_as_written() {
    let Some(python) = python() else {
        eprintln!(
            "SKIPPED: no Python with the packages of tests/python/requirements.txt; \
             `.ci/run` installs one in target/python, SPOOR_PYTHON names another"
        );
        return;
    };
    let (job, _wire) = crawled();
    // The first samples differ in shape from the others, to detect readers that infer all from the
    // first.
    alter(&job, "d.webp", |context| {
        context["figcaption"] = json!(HOSTILE)
    });
    alter(&job, "c.gif", |context| {
        context["alt"] = Value::Null;
        context["alt_kind"] = Value::Null;
        context["heading"] = json!(HOSTILE);
        context["parents"] = json!([]);
    });
    alter(&job, "f.jpg", |context| {
        context["alt"] = json!("2026");
        context["parents"] = json!([HOSTILE, "2"]);
        context["page_title"] = json!("x".repeat(3 << 20));
    });
    let with_bytes = expected(&job, true);
    let without = expected(&job, false);
    assert_eq!(with_bytes.len(), NAMES.len());
    let mut made = Vec::new();
    for (format, ways) in [
        ("imagefolder", &["datasets", "imagefolder"][..]),
        ("webdataset", &["datasets", "webdataset"]),
        ("parquet", &["datasets", "pandas", "pyarrow", "parquet"]),
        ("jsonl", &["datasets", "pandas"]),
    ] {
        // Names that mean a split to `datasets` must have no effect here.
        let to = job.folder().join("test/val").join(format);
        let out = exported(&job, format, &["--to", to.to_str().unwrap()]).good();
        assert!(out.starts_with("6 images, "), "{out}");
        made.push((format, to, ways, false));
        if format != "imagefolder" {
            exported(&job, format, &["--urls-only", "--top", "4"]).good();
            let folder = job.folder().join(format!("exports/{format}-urls"));
            made.push((format, folder, ways, true));
        }
    }
    let folders: Vec<(&str, &Path)> = made.iter().map(|m| (m.0, m.1.as_path())).collect();
    for ((format, folder, ways, urls_only), seen) in made.iter().zip(load(&python, &folders)) {
        let of = |way: &str| format!("{} by {way}", folder.display());
        let names: Vec<&str> = seen.iter().map(|(way, _)| way.as_str()).collect();
        assert_eq!(names, *ways, "{}", folder.display());
        for (way, samples) in &seen {
            let expected = match (*urls_only, *format, way.as_str()) {
                (true, ..) => &without[..4],
                (false, "jsonl", "datasets") => &without,
                _ => &with_bytes,
            };
            assert_same(samples, expected, &of(way));
        }
    }
}

/// What Python sees in each export of a format in a folder: the ways of loading it, each with the
/// samples. One process loads all, because it takes seconds to start.
pub fn load(python: &Path, exports: &[(&str, &Path)]) -> Vec<Vec<(String, Vec<Value>)>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/load.py");
    let mut command = Command::new(python);
    command.arg(script);
    for (format, folder) in exports {
        command.arg(format).arg(folder);
    }
    let out = Ran::of(&mut command).good();
    let mut seen = vec![Vec::new(); exports.len()];
    for line in out.lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let number = usize::try_from(line["export"].as_u64().unwrap()).unwrap();
        let way = line["way"].as_str().unwrap().to_owned();
        let Value::Array(samples) = line["samples"].take() else {
            panic!("no samples by {way}");
        };
        seen[number].push((way, samples));
    }
    seen
}

/// Compares one by one, so that a failure shows only what differs.
fn assert_same(seen: &[Value], expected: &[Value], of: &str) {
    assert_eq!(seen.len(), expected.len(), "{of}");
    for (seen, expected) in seen.iter().zip(expected) {
        assert_eq!(seen, expected, "{of}");
    }
}

#[test]
fn an_export_is_whole_and_its_folder_safe() {
    let (job, _wire) = crawled();
    let folder = |name: &str| job.folder().join("exports").join(name);
    let out = exported(&job, "parquet", &["--top", "2"]).good();
    let place = folder("parquet").display().to_string();
    let said = format!("written to {place}\n");
    assert!(
        out.starts_with("2 images, ") && out.contains(&said),
        "{out}"
    );
    let loads = format!("load_dataset(\"{place}\", split=\"train\")\n");
    assert!(out.ends_with(&loads), "{out}");
    let file = std::fs::File::open(folder("parquet").join("data/00000.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    assert_eq!(reader.metadata().file_metadata().num_rows(), 2);
    exported(&job, "webdataset", &[]).good();
    let tar = std::fs::File::open(folder("webdataset").join("00000.tar")).unwrap();
    let mut tar = tar::Archive::new(tar);
    assert_eq!(tar.entries().unwrap().count(), 3 * NAMES.len());

    // The card contains the job file unchanged.
    let card = std::fs::read_to_string(folder("webdataset").join("README.md")).unwrap();
    let text = std::fs::read_to_string(job.file()).unwrap();
    assert!(card.contains(text.trim_end()), "{card}");

    // Only an export is ever replaced.
    let own = job.folder().join("images");
    let before = job.files("images");
    let error = exported(&job, "jsonl", &["--to", own.to_str().unwrap()]).refused();
    assert!(
        error.contains("not an export of spoor") && error.contains("--to"),
        "{error}"
    );
    assert_eq!(job.files("images"), before);
    let error = exported(&job, "imagefolder", &["--urls-only"]).refused();
    assert!(error.contains("--format jsonl"), "{error}");
    exported(&job, "parquet", &[]).good();
    let mut names: Vec<_> = std::fs::read_dir(job.folder().join("exports"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["parquet", "webdataset"]);

    // The ranking already skips a picture whose file is gone.
    let gone = before.iter().find(|f| f.ends_with("b.png")).unwrap();
    std::fs::remove_file(own.join(gone)).unwrap();
    let out = exported(&job, "imagefolder", &[]).good();
    assert!(out.starts_with("5 images, "), "{out}");
    let lines = std::fs::read_to_string(folder("imagefolder").join("metadata.jsonl")).unwrap();
    for line in lines.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let file = folder("imagefolder").join(row["file_name"].as_str().unwrap());
        assert_eq!(file.metadata().unwrap().len(), row["bytes"]);
    }
    assert_eq!(lines.lines().count(), 5);
}

/// The schema that is printed and shipped, as a validator.
pub fn shipped_schema(name: &str) -> jsonschema::Validator {
    let out = Ran::of(&mut spoor(&["schema", name])).good();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("config/{name}.schema.json"));
    let shipped = std::fs::read_to_string(shipped).unwrap();
    assert_eq!(
        out, shipped,
        "write what `spoor schema {name}` prints to config/{name}.schema.json"
    );
    let schema: Value = serde_json::from_str(&shipped).unwrap();
    jsonschema::draft202012::options()
        .should_validate_formats(true)
        .build(&schema)
        .unwrap()
}

#[test]
fn the_schemas_are_those_that_are_shipped_and_sidecars_conform() {
    shipped_schema("document");
    let validator = shipped_schema("sidecar");
    let (job, _wire) = crawled();
    for sidecar in job.sidecars() {
        let errors: Vec<String> = validator
            .iter_errors(&sidecar)
            .map(|e| e.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:?} in {sidecar:#}");
        let mut broken = sidecar.clone();
        broken["contexts"][0]["page"] = Value::Null;
        assert!(!validator.is_valid(&broken));
    }
}
