//! `spoor export --text`, loaded with the programs that the formats are for.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use spoor::outputs::Document;
use spoor::page::Terms;
use spoor_lab::Lab;

use crate::export::{HOSTILE, load, python};
use crate::support::texts::{link, other, page, some, topical, tree};
use crate::support::{Job, JobText, Ran, Wire, spoor};

/// A job that was never crawled, with these documents in its folder.
fn with_documents(documents: &[Document]) -> (Job, Wire) {
    let web = tree(&[("a.test/", page("Lights", "", &[some(topical(), 0, 4)]))]);
    let wire = Wire::serve(Lab::from_memory(web));
    let text = JobText {
        seeds: &["http://a.test/"],
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    if !documents.is_empty() {
        let folder = job.folder().join("documents");
        std::fs::create_dir_all(&folder).unwrap();
        let frames = documents.iter().map(|d| d.to_frame().unwrap());
        let frames: Vec<Vec<u8>> = frames.collect();
        std::fs::write(folder.join("00000.jsonl.zst"), frames.concat()).unwrap();
    }
    (job, wire)
}

fn document(n: usize, text: &str) -> Document {
    Document {
        url: format!("http://a.test/{n}"),
        fetched: "2026-01-02T03:04:05.678Z".to_owned(),
        language: Some("en".to_owned()),
        language_certainty: Some(0.5),
        charset_used: "UTF-8".to_owned(),
        extractor: "main".to_owned(),
        words: u32::try_from(text.split_whitespace().count()).unwrap(),
        hash: Document::hash_of(text),
        text: text.to_owned(),
        ..Document::default()
    }
}

fn exported(job: &Job, more: &[&str]) -> Ran {
    let file = job.file();
    let mut arguments = vec!["export", file.to_str().unwrap(), "--text"];
    arguments.extend(more);
    Ran::of(&mut spoor(&arguments))
}

#[test]
fn a_page_keeps_its_structure_in_documents_and_markdown() {
    let prose = |n| format!("<p>{}</p>", some(topical(), n, 6));
    let code = "def flash(n):\n    for i in range(n):\n        print(i)\n\n    return n";
    let lines: String = code
        .lines()
        .map(|line| {
            format!(
                "<span class=line>{}</span>\n",
                line.replace("print", "<b>print</b>")
            )
        })
        .collect();
    let html = format!(
        "<!DOCTYPE html><html lang=en><head><title>The lights of the coast | a.test</title>\
         <meta property=article:published_time content=2024-05-17></head><body>\
         <nav><a href=/x>Home</a></nav><main><h1>Lights of the coast</h1>\
         <p class=byline>By Ada Reef</p>{}<h2>Steps</h2><ol><li>Climb<ul><li>the tower</ul><li>Light it</ol>\
         {}<h2>Code</h2>{}<pre><code>{lines}</code></pre>{}<h2>Lamps</h2>\
         <table><tr><th>Name<th>Year<tr><td>Skerry<td>1811<tr><td>Bell<td>1812</table>{}\
         <p>It shines 10<sup>-7</sup> as far, by <math><msup><mi>r</mi><mn>2</mn></msup></math>.</p>\
         </main></body></html>",
        prose(0),
        prose(9),
        prose(18),
        prose(27),
        prose(36),
    );
    let wire = Wire::serve(Lab::from_memory(tree(&[("a.test/", html)])));
    let text = JobText {
        seeds: &["http://a.test/"],
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    job.run();
    let documents = job.documents();
    let [document] = documents.as_slice() else {
        panic!("{documents:?}");
    };
    assert_eq!(document.title.as_deref(), Some("Lights of the coast"));
    assert_eq!(document.authors, ["Ada Reef"]);
    let part = |kind: &str| {
        let at = document.block_kinds.iter().position(|name| name == kind);
        let at = 2 * at.unwrap_or_else(|| panic!("{kind}: {document:?}"));
        let [from, to] = document.block_offsets[at..at + 2] else {
            unreachable!()
        };
        let count = usize::try_from(to - from).unwrap();
        let characters = document.text.chars().skip(usize::try_from(from).unwrap());
        characters.take(count).collect::<String>()
    };
    assert_eq!(part("code"), code);
    assert_eq!(part("heading1"), "Lights of the coast");
    assert_eq!(part("table"), "Name\tYear\nSkerry\t1811\nBell\t1812");
    assert_eq!(part("item2"), "the tower");
    let ran = exported(&job, &["--format", "markdown"]);
    assert!(ran.status.success(), "{}", ran.err);
    let file = job.folder().join("exports/text-markdown/markdown/00000.md");
    let markdown = std::fs::read_to_string(&file).unwrap();
    for expected in [
        "<!-- http://a.test/ -->\n\n# Lights of the coast\n\n",
        "\n\n## Steps\n\n1. Climb\n   - the tower\n2. Light it\n\n",
        &format!("\n\n```\n{code}\n```\n\n"),
        "| Name | Year |\n| --- | --- |\n| Skerry | 1811 |\n| Bell | 1812 |\n",
        "It shines 10⁻⁷ as far, by r².",
    ] {
        assert!(markdown.contains(expected), "{expected}\n---\n{markdown}");
    }
    assert!(!markdown.contains("Home"), "{markdown}");
}

#[test]
fn python_and_duckdb_read_exports_of_text_as_written() {
    let Some(python) = python() else {
        eprintln!(
            "SKIPPED: no Python with the packages of tests/python/requirements.txt; \
             `.ci/run` installs one in target/python, SPOOR_PYTHON names another"
        );
        return;
    };
    // The first documents lack fields that later ones have, and some text looks like a number or a
    // date, to detect readers that infer all from the first.
    let mut documents: Vec<Document> = (0..40)
        .map(|n| document(n, &some(other(), n * 7, 3)))
        .collect();
    documents[30].title = Some("2026".to_owned());
    documents[31].published = Some("2024".to_owned());
    documents[32].published = Some("2024-05-17T08:30:00+02:00".to_owned());
    documents[33].title = Some(HOSTILE.to_owned());
    documents[34].authors = vec!["Ada".to_owned(), HOSTILE.to_owned()];
    documents[35].on_topic = Some(0.25);
    documents[36].on_topic = Some(1.0);
    let mut terms = Terms::default();
    terms.directives.noai = true;
    documents[37].terms = Some(terms);
    let hostile = format!("{}\n\n{}", HOSTILE.trim(), some(topical(), 3, 3));
    documents[38] = document(38, &hostile);
    documents[39] = document(
        39,
        &format!("{}\n\n\"Fog,\" she said: 007.", "x".repeat(3 << 20)),
    );
    let (job, _wire) = with_documents(&documents);
    let expected: Vec<Value> = documents
        .iter()
        .map(|d| {
            json!({
                "url": d.url,
                "title": d.title.as_deref().map(cleaned),
                "text": cleaned(&d.text),
                "words": spoor::words::count(&cleaned(&d.text)),
                "authors": d.authors.iter().map(|a| cleaned(a)).collect::<Vec<_>>(),
                "on_topic": d.on_topic,
                "published": d.published,
                "fetched": "2026-01-02T03:04:05",
                "noai": d.terms.as_ref().is_some_and(|t| t.directives.noai),
            })
        })
        .collect();
    let mut made = Vec::new();
    for (name, format, more, ways) in [
        (
            "parquet",
            "parquet",
            &[][..],
            &["datasets", "pandas", "pyarrow", "duckdb"][..],
        ),
        ("jsonl", "jsonl", &[], &["datasets", "pandas", "duckdb"]),
        (
            "gzip",
            "jsonl",
            &["--gzip"],
            &["datasets", "pandas", "duckdb"],
        ),
        ("txt", "txt", &[], &["datasets"]),
    ] {
        // Names that mean a split to `datasets` must have no effect here.
        let to = job.folder().join("test/val").join(name);
        let mut arguments = vec![
            "--format",
            format,
            "--near",
            "1",
            "--to",
            to.to_str().unwrap(),
        ];
        arguments.extend(more);
        let out = exported(&job, &arguments).good();
        assert!(out.contains("\n40 documents, "), "{out}");
        made.push((name, format!("text-{format}"), to, ways));
    }
    let folders = made.iter().map(|m| (m.1.as_str(), m.2.as_path()));
    let seen = load(&python, &folders.collect::<Vec<_>>());
    for ((name, _, _, ways), seen) in made.iter().zip(seen) {
        let names: Vec<&str> = seen.iter().map(|(way, _)| way.as_str()).collect();
        assert_eq!(names, *ways, "{name}");
        for (way, samples) in seen {
            let of = format!("{name} by {way}");
            assert_eq!(samples.len(), expected.len(), "{of}");
            for (seen, expected) in samples.iter().zip(&expected) {
                assert_eq!(seen, expected, "{of}");
            }
        }
    }
}

/// A text without control characters, and with Unix line ends.
fn cleaned(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace(['\r', '\u{85}'], "\n");
    text.replace(
        |c: char| c.is_control() && !matches!(c, '\n' | '\t') || c == '\u{feff}',
        "",
    )
}

/// The message of a command that refuses; exit code 2 means a wrong command line.
fn refusal(ran: Ran) -> String {
    match ran.status.code() {
        Some(2) => ran.err,
        _ => ran.refused(),
    }
}

#[test]
fn the_command_prints_the_steps_and_refuses_options_for_images() {
    let mut documents: Vec<Document> = (0..6)
        .map(|n| document(n, &format!("Home\n\n{}", some(other(), n * 7, 3))))
        .collect();
    documents[4].text = documents[3].text.clone();
    documents[5].text =
        "Home\n\nDer Leuchtturm steht auf einer Insel vor der Küste, und der Wärter zündet \
                         an jedem Abend das Licht an."
            .to_owned();
    documents.push(document(7, &some(topical(), 0, 4)));
    let (job, _wire) = with_documents(&documents);
    let out = exported(&job, &["--language", "eng", "--keep-repeated"]).good();
    let rows: Vec<Vec<&str>> = out
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    let rows: Vec<String> = rows.iter().map(|words| words.join(" ")).collect();
    let folder = job.folder().join("exports/text-parquet");
    for row in [
        "extract 7 7",
        "language 7 6 language 1",
        "copies 6 5 exact copy 1",
        &format!(
            "description: {0}/README.md; removed: {0}/removed.jsonl.zst",
            folder.display()
        ),
    ] {
        assert!(rows.iter().any(|r| r == row), "{row:?} is not in {out}");
    }
    assert!(out.contains("\n5 documents, "), "{out}");
    let out = exported(&job, &["--json", "--format", "jsonl"]).good();
    let out: Value = serde_json::from_str(&out).unwrap();
    let steps = &out["steps"];
    assert_eq!(
        (&out["documents"], &steps[0]["read"]),
        (&json!(6), &json!(7))
    );
    assert_eq!(steps[3]["step"], "repeated");
    assert_eq!(steps[3]["marked"]["shortened"], 5);

    for (arguments, says) in [
        (
            &["--format", "imagefolder"][..],
            "--format parquet, jsonl, txt or markdown",
        ),
        (&["--format", "txt", "--gzip"], "--format jsonl only"),
        (&["--min-on-topic", "50"], "from 0 to 1"),
        (&["--language", "klingon"], "klingon"),
        (&["--top", "3"], "--top"),
        (&["--min-on-topic", "0.5"], "7 by on_topic"),
    ] {
        let error = refusal(exported(&job, arguments));
        assert!(error.contains(says), "{error}");
    }
    let file = job.file();
    let images = |more: &[&str]| {
        let mut arguments = vec!["export", file.to_str().unwrap()];
        arguments.extend(more);
        refusal(Ran::of(&mut spoor(&arguments)))
    };
    assert!(images(&["--format", "txt"]).contains("--text"));
    assert!(images(&["--format", "jsonl", "--keep-repeated"]).contains("--text"));
    assert!(images(&[]).contains("--format"));
    let (empty, _wire) = with_documents(&[]);
    let error = exported(&empty, &[]).refused();
    assert!(error.contains("no documents to export"), "{error}");
}

/// Seven pages of a host that share a line, and on another host a mirror of one page and a near
/// copy of another.
#[test]
fn pages_of_a_crawl_are_exported_as_they_were_written() {
    const LINE: &str = "All lamps of this coast are lit by the society of its keepers.";
    const HOME: &str = "http://a.test/";
    // Each page leads to the next, so that the copies are found last.
    let text = |n: usize| [some(other(), n * 9, 8), some(topical(), n * 3, 2)];
    let html = |n: usize, title: &str| {
        let [first, second] = text(n);
        let (next, last) = match n {
            6 => ("http://b.test/mirror".to_owned(), "http://b.test/near"),
            _ => (format!("http://a.test/{}", n + 1), HOME),
        };
        let paragraphs = [
            format!("{first} {}", link(&next, "a lighthouse")),
            LINE.to_owned(),
            format!("{second} {}", link(last, "a lamp")),
        ];
        page(title, "", &paragraphs)
    };
    let mut pages = vec![("a.test/".to_owned(), html(0, "Lights"))];
    pages.extend((1..7).map(|n| (format!("a.test/{n}"), html(n, &format!("Light {n}")))));
    pages.push(("b.test/mirror".to_owned(), html(2, "Mirror")));
    let near = html(3, "Near").replacen(" the ", " our ", 1);
    assert_ne!(near, html(3, "Near"));
    pages.push(("b.test/near".to_owned(), near));
    let pages: Vec<(&str, String)> = pages.iter().map(|(a, h)| (a.as_str(), h.clone())).collect();
    let wire = Wire::serve(Lab::from_memory(tree(&pages)));
    let job = Job::new(
        &wire,
        &JobText {
            seeds: &[HOME],
            ..JobText::default()
        },
    );
    job.run();
    exported(&job, &["--format", "jsonl"]).good();
    let folder = job.folder().join("exports/text-jsonl");
    let lines = |name: &str| -> Vec<Value> {
        let text = text_of(&folder.join(name));
        text.lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect()
    };
    let rows = lines("documents/00000.jsonl");
    for n in 1..7 {
        let address = format!("{HOME}{n}");
        let row = rows.iter().find(|row| row["url"] == address).unwrap();
        let [first, second] = text(n);
        let written = format!("{first} a lighthouse\n\n{second} a lamp");
        assert_eq!(row["text"], written, "{address}");
        assert_eq!(row["title"], format!("Light {n}"));
        let via = if n == 1 {
            HOME.to_owned()
        } else {
            format!("{HOME}{}", n - 1)
        };
        assert_eq!(row["via"], via);
        assert_eq!(row["parts_removed"], 1);
    }
    assert_eq!(rows.len(), 7);
    let removed = lines("removed.jsonl.zst");
    let copy = |rule: &str| {
        removed
            .iter()
            .find(|row| row["rule"] == rule)
            .unwrap()
            .clone()
    };
    assert_eq!(copy("exact copy")["url"], "http://b.test/mirror");
    assert_eq!(copy("exact copy")["copy_of_url"], "http://a.test/2");
    assert_eq!(copy("near copy")["copy_of_url"], "http://a.test/3");
    assert_eq!(copy("repeated paragraph")["paragraph"], LINE);
    assert_eq!(removed.len(), 3);
}

/// The text of a file, compressed or not.
fn text_of(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap();
    let mut text = Vec::new();
    let unpacked = match path.extension().and_then(|e| e.to_str()) {
        Some("zst") => zstd::decode_all(bytes.as_slice()).unwrap(),
        Some("gz") => {
            let mut from = flate2::read::MultiGzDecoder::new(bytes.as_slice());
            std::io::Read::read_to_end(&mut from, &mut text).unwrap();
            text
        }
        _ => bytes,
    };
    String::from_utf8_lossy(&unpacked).into_owned()
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// The page is removed from every export that contains its text, compressed or not.
#[test]
fn a_takedown_reaches_into_exports_of_text() {
    let pages: Vec<(String, String)> = (0..3)
        .map(|n| {
            let text = [some(other(), n * 7, 4), some(topical(), n * 3, 2)];
            let links = [
                link("http://b.test/1", "a lighthouse"),
                link("http://c.test/2", "a lamp"),
            ];
            let host = ["a.test/", "b.test/1", "c.test/2"][n];
            (
                host.to_owned(),
                page("A light", "", &[text.to_vec(), links.to_vec()].concat()),
            )
        })
        .collect();
    let pages: Vec<(&str, String)> = pages.iter().map(|(a, h)| (a.as_str(), h.clone())).collect();
    let wire = Wire::serve(Lab::from_memory(tree(&pages)));
    let job = Job::new(
        &wire,
        &JobText {
            seeds: &["http://a.test/"],
            ..JobText::default()
        },
    );
    job.run();
    for format in [
        &["jsonl"][..],
        &["jsonl", "--gzip", "--to"],
        &["txt"],
        &["parquet"],
    ] {
        let mut arguments = vec!["--format"];
        arguments.extend(format);
        let gzip = job.folder().join("exports/gzip");
        if format.len() > 1 {
            arguments.push(gzip.to_str().unwrap());
        }
        exported(&job, &arguments).good();
    }
    let exports = job.folder().join("exports");
    let left = || std::fs::read_dir(&exports).unwrap().count();
    assert_eq!(left(), 4);
    let file = job.file();
    let take_down = ["takedown", file.to_str().unwrap(), "--host", "b.test"];
    let receipt = Ran::of(&mut spoor(&take_down)).good();
    assert!(
        receipt.contains("documents of corpora removed"),
        "{receipt}"
    );
    assert_eq!(left(), 4);
    let mut documents = 0;
    for file in files(&exports) {
        let text = text_of(&file);
        assert!(
            !text.contains("\"url\":\"http://b.test"),
            "{}",
            file.display()
        );
        if file.parent().unwrap().ends_with("documents") {
            assert_eq!(text.lines().count(), 2, "{}", file.display());
            documents += 1;
        }
    }
    assert_eq!(documents, 4);
    exported(&job, &["--format", "jsonl"]).good();
    let text = text_of(&exports.join("text-jsonl/documents/00000.jsonl"));
    assert_eq!(text.lines().count(), 2);
}
