//! Exports of documents put together by hand, read back with readers of the formats.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMillisecondType};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::outputs::{DOCUMENTS, Document};
use crate::page::Terms;
use crate::words;

/// What breaks formats that are put together by hand.
const HOSTILE: &str =
    "a\u{0}b ``` | \"x\": \\ {y}, \t=1\u{7f}\u{85}\u{2028}\u{202e}' \u{fffe} \u{1f680}";

/// A paragraph of words that no other one has.
fn prose(seed: usize, words: usize) -> String {
    let words: Vec<String> = (0..words).map(|n| format!("Word{seed}x{n}")).collect();
    format!("{}.", words.join(" "))
}

fn document(url: &str, text: &str) -> Document {
    Document {
        url: format!("http://{url}"),
        fetched: "2026-01-02T03:04:05.678Z".to_owned(),
        title: Some("Pots".to_owned()),
        language: Some("en".to_owned()),
        language_certainty: Some(1.0),
        charset_used: "UTF-8".to_owned(),
        extractor: "article".to_owned(),
        words: words::count(text),
        hash: Document::hash_of(text),
        text: text.to_owned(),
        on_topic: Some(0.9),
        ..Document::default()
    }
}

struct Job {
    _root: tempfile::TempDir,
    config: Config,
}

impl Job {
    fn of(documents: &[Document]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let text = format!("job.name = 'x'\njob.folder = {:?}", root.path());
        let job = Self {
            config: Config::parse(&text, "x.toml").unwrap(),
            _root: root,
        };
        let frames = documents.iter().map(|d| d.to_frame().unwrap());
        let frames: Vec<Vec<u8>> = frames.collect();
        // In two files, as of a crawl that was resumed.
        let (first, second) = frames.split_at(frames.len() / 2);
        job.put("00000.jsonl.zst", &first.concat());
        job.put("00001.jsonl.zst", &second.concat());
        job
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let folder = self.config.job_folder().join(DOCUMENTS);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), bytes).unwrap();
    }

    fn export(&self, request: &TextRequest<'_>) -> Result<TextExported, ExportError> {
        export_text(&self.config, request)
    }
}

fn json_lines(path: &Path) -> Vec<Json> {
    let text = fs::read_to_string(path).unwrap();
    // A line end is the only character that ends a line of JSON lines.
    let lines = text.split_terminator('\n');
    lines.map(|l| serde_json::from_str(l).unwrap()).collect()
}

/// The documents of an export as JSON lines, over all files.
fn exported(folder: &Path) -> Vec<Json> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder.join("data"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files.iter().flat_map(|file| json_lines(file)).collect()
}

fn left_out(exported: &TextExported) -> Vec<(&'static str, u64, u64)> {
    let steps = exported.steps.iter();
    steps.map(|s| (s.name, s.removed, s.left)).collect()
}

/// Every file of a folder with its bytes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path))
        } else {
            drop(found.insert(path.clone(), fs::read(&path).unwrap()))
        }
    }
    found
}

/// A document for each step that leaves one out.
fn one_of_each() -> Vec<Document> {
    let first = format!("{}\n\n{}", prose(1, 60), prose(2, 60));
    let mut older = document("a.test/1", &prose(3, 50));
    older.fetched = "2026-01-01T00:00:00Z".to_owned();
    let mut german = document("b.test/de", &prose(4, 50));
    german.language = Some("de".to_owned());
    let mut unknown = document("b.test/unknown", &prose(5, 50));
    unknown.language = None;
    let mut other = document("b.test/other", &prose(6, 50));
    other.on_topic = Some(0.25);
    let mut untold = document("b.test/untold", &prose(7, 50));
    untold.on_topic = None;
    let near = first.replace("Word1x30 ", "another ");
    vec![
        older,
        german,
        unknown,
        document("a.test/1", &first),
        other,
        untold,
        document("c.test/mirror", &first),
        document("c.test/short", "Of six words only is this."),
        document("c.test/near", &near),
        document("c.test/2", &prose(8, 50)),
    ]
}

#[test]
fn every_step_leaves_out_what_it_says_and_names_it() {
    let job = Job::of(&one_of_each());
    let request = TextRequest {
        min_on_topic: Some(0.5),
        languages: vec![Language::of_code("en").unwrap()],
        min_words: 10,
        ..TextRequest::new(TextFormat::JsonLines)
    };
    let told = job.export(&request).unwrap();
    assert_eq!((told.read, told.damaged, told.documents), (10, 0, 2));
    assert_eq!(told.words, 120 + 50);
    assert_eq!(
        left_out(&told),
        [
            ("older visit", 1, 9),
            ("other language", 2, 7),
            ("not on topic", 2, 5),
            ("exact copy", 1, 4),
            ("too short", 1, 3),
            ("near copy", 1, 2),
        ]
    );
    let documents = exported(&told.folder);
    let urls: Vec<&str> = documents
        .iter()
        .map(|d| d["url"].as_str().unwrap())
        .collect();
    assert_eq!(urls, ["http://a.test/1", "http://c.test/2"]);
    assert_eq!(documents[0]["text"], one_of_each()[3].text);

    let line = |step: &str, url: &str, value: Json, bound: Json, copy_of: Json| {
        json!({
            "step": step, "url": format!("http://{url}"), "value": value, "bound": bound,
            "copy_of": copy_of,
            "fetched": match step {
                "older visit" => "2026-01-01T00:00:00Z",
                _ => "2026-01-02T03:04:05.678Z",
            },
        })
    };
    let none = Json::Null;
    let copied = json!("http://a.test/1");
    // A word of 120 is another: 5 of 116 shingles.
    let alike = 0.9174;
    assert_eq!(
        json_lines(&told.folder.join("removed.jsonl")),
        [
            line(
                "older visit",
                "a.test/1",
                none.clone(),
                none.clone(),
                none.clone()
            ),
            line(
                "other language",
                "b.test/de",
                json!("de"),
                json!("en"),
                none.clone()
            ),
            line(
                "other language",
                "b.test/unknown",
                none.clone(),
                json!("en"),
                none.clone()
            ),
            line(
                "not on topic",
                "b.test/other",
                json!(0.25),
                json!(0.5),
                none.clone()
            ),
            line(
                "not on topic",
                "b.test/untold",
                none.clone(),
                json!(0.5),
                none.clone()
            ),
            line(
                "exact copy",
                "c.test/mirror",
                json!(1.0),
                none.clone(),
                copied.clone()
            ),
            line(
                "too short",
                "c.test/short",
                json!(6.0),
                json!(10.0),
                none.clone()
            ),
            line("near copy", "c.test/near", json!(alike), json!(0.8), copied),
        ]
    );
    let card = fs::read_to_string(told.folder.join("README.md")).unwrap();
    for row in [
        "2 documents of 170 words, from 2 hosts.",
        "| other language | en | 2 | 7 |",
        "| near copy | less than 0.8 alike | 1 | 2 |",
        "| 0.9 to 1.0 | 2 |",
        "| `text` | string |",
    ] {
        assert!(card.contains(row), "{row} is not in {card}");
    }
    // Without bounds the steps that were not asked for are not named.
    let told = job.export(&TextRequest::new(TextFormat::Text)).unwrap();
    assert_eq!(
        left_out(&told),
        [
            ("older visit", 1, 9),
            ("exact copy", 1, 8),
            ("too short", 0, 8),
            ("near copy", 1, 7),
        ]
    );
    // A near copy by a stricter bound is none.
    let strict = TextRequest {
        near: 0.95,
        ..TextRequest::new(TextFormat::Text)
    };
    assert_eq!(job.export(&strict).unwrap().documents, 8);
}

const LETTERS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Six pages with a menu and a footer; the last has nothing else.
fn with_menus() -> Vec<Document> {
    let page = |n: usize| {
        let body = match n {
            5 => String::new(),
            _ => format!(
                "{}\n\nA lone line\nof verse {}\n\n",
                prose(n, 40),
                LETTERS[n]
            ),
        };
        let text = format!("Home  | Pots\n\n{body}Edited on {n} May 2026, at 10:0{n}, by us all.");
        document(&format!("a.test/{n}"), &text)
    };
    let mut pages: Vec<Document> = (0..6).map(page).collect();
    // The same line on one page of another host stays.
    pages.push(document(
        "b.test/",
        &format!("Home | Pots\n\n{}", prose(9, 40)),
    ));
    pages
}

#[test]
fn paragraphs_that_a_host_repeats_are_left_out_and_counted() {
    let job = Job::of(&with_menus());
    let told = job
        .export(&TextRequest::new(TextFormat::JsonLines))
        .unwrap();
    assert_eq!(
        (told.paragraphs, told.different, told.shortened),
        (12, 2, 6)
    );
    // Nothing is left of the page that had nothing of its own.
    assert_eq!(told.documents, 6);
    let rows = exported(&told.folder);
    for (n, row) in rows.iter().take(5).enumerate() {
        let expected = format!("{}\n\nA lone line\nof verse {}", prose(n, 40), LETTERS[n]);
        assert_eq!(row["text"], expected);
        assert_eq!(row["paragraphs_removed"], 2);
        assert_eq!(row["words"], 46);
        assert_eq!(row["hash"], with_menus()[n].hash);
    }
    assert_eq!(rows[5]["text"], with_menus()[6].text);
    let removed = json_lines(&told.folder.join("removed.jsonl"));
    assert_eq!(removed[0]["step"], "too short");
    let line = |paragraph: &str| {
        json!({
            "step": "repeated paragraph", "host": "a.test", "paragraph": paragraph,
            "value": 6, "bound": 5, "pages": 6, "removed": 6,
        })
    };
    let footer = "Edited on 0 May 2026, at 10:00, by us all.";
    assert_eq!(removed[1..], [line(footer), line("Home  | Pots")]);

    let kept = TextRequest {
        keep_repeated: true,
        ..TextRequest::new(TextFormat::JsonLines)
    };
    let told = job.export(&kept).unwrap();
    assert_eq!((told.paragraphs, told.documents), (0, 7));
    for (row, document) in exported(&told.folder).iter().zip(with_menus()) {
        assert_eq!(row["text"], document.text);
    }
}

#[test]
fn mirrors_make_no_paragraph_a_repeated_one() {
    let text = prose(1, 40);
    let pages = (0..9).map(|n| document(&format!("a.test/{n}"), &text));
    let told = Job::of(&pages.collect::<Vec<_>>())
        .export(&TextRequest::new(TextFormat::JsonLines))
        .unwrap();
    assert_eq!((told.documents, told.paragraphs), (1, 0));
}

/// A document in which every column says something.
fn full() -> Document {
    let mut terms = Terms::default();
    terms.directives.noai = true;
    terms.directives.noimageai = true;
    terms.tdm_reservation = Some(false);
    terms.tdm_policy = Some(HOSTILE.to_owned());
    terms.content_signals.insert("ai-train".to_owned(), false);
    Document {
        title: Some(HOSTILE.to_owned()),
        authors: vec!["Ada".to_owned(), HOSTILE.to_owned()],
        published: Some("2024-05".to_owned()),
        licences: vec!["https://licence.test/by".to_owned()],
        perplexity: Some(50.5),
        contrast: Some(-0.25),
        hops: 3,
        via: Some("http://a.test/".to_owned()),
        terms: Some(terms),
        ..document("a.test/full", &format!("{HOSTILE}\n\n{}", prose(1, 30)))
    }
}

#[test]
fn parquet_has_typed_columns_in_files_of_one_size() {
    let mut documents = vec![full()];
    documents.extend((0..60).map(|n| document(&format!("b.test/{n}"), &prose(n + 10, 200))));
    let job = Job::of(&documents);
    let told = job.export(&TextRequest::new(TextFormat::Parquet)).unwrap();
    assert!(told.files > 1, "{told:?}");
    let mut rows = 0;
    for number in 0..told.files {
        let path = told.folder.join(format!("data/{number:05}.parquet"));
        let file = fs::File::open(path).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        for batch in reader.build().unwrap() {
            let batch = batch.unwrap();
            if rows == 0 {
                let column = |name: &str| batch.column_by_name(name).unwrap().clone();
                let text = |name: &str| column(name).as_string::<i32>().value(0).to_owned();
                assert_eq!(text("text"), full().text);
                assert_eq!(text("title"), HOSTILE);
                assert_eq!(text("published"), "2024-05");
                assert_eq!(text("host"), "a.test");
                let fetched = column("fetched");
                let fetched = fetched.as_primitive::<TimestampMillisecondType>();
                assert_eq!(fetched.value(0), 1_767_323_045_678);
                let authors = column("authors");
                let authors = authors.as_list::<i32>().value(0);
                assert_eq!(authors.as_string::<i32>().value(1), HOSTILE);
                let contrast = column("contrast");
                assert_eq!(contrast.as_primitive::<Float64Type>().value(0), -0.25);
                let hops = column("hops");
                assert_eq!(hops.as_primitive::<Int64Type>().value(0), 3);
                assert!(column("noai").as_boolean().value(0));
                assert!(!column("tdm_reservation").as_boolean().value(0));
                let signals = column("content_signals");
                let signals = signals.as_list::<i32>().value(0);
                assert_eq!(signals.as_string::<i32>().value(0), "ai-train=no");
                assert!(column("canonical").is_null(0));
                assert!(column("modified").is_null(0));
                assert!(batch.column_by_name("noimageai").is_none());
            }
            rows += batch.num_rows();
        }
    }
    assert_eq!(rows, 61);
}

#[test]
fn json_lines_hold_nothing_that_acts_and_mean_the_same() {
    let mut documents = vec![full()];
    documents.extend((0..60).map(|n| document(&format!("b.test/{n}"), &prose(n + 10, 200))));
    let job = Job::of(&documents);
    let told = job
        .export(&TextRequest::new(TextFormat::JsonLines))
        .unwrap();
    assert!(told.files > 1);
    for (path, bytes) in files(&told.folder) {
        if path.extension().is_some_and(|e| e == "jsonl") {
            let text = String::from_utf8(bytes).unwrap();
            let acts = |c: char| crate::sanitize::acts(c) && c != '\n';
            assert!(!text.contains(acts), "{}", path.display());
        }
    }
    let rows = exported(&told.folder);
    assert_eq!(rows.len(), 61);
    assert_eq!(rows[0]["text"], full().text);
    assert_eq!(rows[0]["authors"], json!(full().authors));
    assert_eq!(rows[0]["content_signals"], json!(["ai-train=no"]));
    assert_eq!(rows[1]["canonical"], Json::Null);

    let packed = TextRequest {
        gzip: true,
        ..TextRequest::new(TextFormat::JsonLines)
    };
    let packed = job.export(&packed).unwrap();
    let file = fs::File::open(packed.folder.join("data/00000.jsonl.gz")).unwrap();
    let mut text = String::new();
    let mut file = flate2::read::GzDecoder::new(file);
    std::io::Read::read_to_string(&mut file, &mut text).unwrap();
    let first: Json = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first, rows[0]);
}

#[test]
fn plain_text_is_lines_of_paragraphs_with_an_index() {
    let mut documents = vec![
        full(),
        document("a.test/2", "First line\nand second.\n\nThen more here."),
    ];
    documents.extend((0..60).map(|n| document(&format!("b.test/{n}"), &prose(n + 10, 200))));
    let job = Job::of(&documents);
    let told = job.export(&TextRequest::new(TextFormat::Text)).unwrap();
    assert!(told.files > 1);
    let index = json_lines(&told.folder.join("documents.jsonl"));
    assert_eq!(index.len(), documents.len());
    for (row, document) in index.iter().zip(&documents) {
        assert_eq!(row["url"], document.url);
        assert_eq!(row.get("text"), None);
        let bytes = fs::read(told.folder.join(row["file"].as_str().unwrap())).unwrap();
        let from = row["from"].as_u64().unwrap() as usize;
        let length = row["bytes"].as_u64().unwrap() as usize;
        let text = std::str::from_utf8(&bytes[from..from + length]).unwrap();
        if document.url == "http://a.test/2" {
            assert_eq!(text, "First line\nand second.\nThen more here.\n");
        } else if document.url.ends_with("/full") {
            let hostile = "ab ``` | \"x\": \\ {y},  =1  ' \u{fffe} \u{1f680}";
            assert_eq!(text, format!("{hostile}\n{}\n", prose(1, 30)));
        } else {
            assert_eq!(text, format!("{}\n", document.text));
        }
    }
    // As many blocks between empty lines as documents.
    let mut blocks = 0;
    for (path, bytes) in files(&told.folder.join("data")) {
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.ends_with('\n') && !text.contains("\n\n\n"), "{path:?}");
        blocks += text.split("\n\n").count();
    }
    assert_eq!(blocks, documents.len());
}

#[test]
fn a_damaged_document_is_counted_and_the_others_are_exported() {
    let job = Job::of(&[]);
    let good = |n: usize| {
        document(&format!("a.test/{n}"), &prose(n, 40))
            .to_frame()
            .unwrap()
    };
    let mut bad = good(1);
    let middle = bad.len() / 2;
    bad[middle] ^= 0xFF;
    job.put("00000.jsonl.zst", &[good(0), bad, good(2)].concat());
    let told = job
        .export(&TextRequest::new(TextFormat::JsonLines))
        .unwrap();
    assert_eq!((told.documents, told.damaged), (2, 1));
    assert_eq!(told.steps[0].left, 2);
    let card = fs::read_to_string(told.folder.join("README.md")).unwrap();
    assert!(card.contains("1 more were damaged"), "{card}");
}

#[test]
fn nothing_to_export_leaves_no_folder_and_says_why() {
    let job = Job::of(&[]);
    let exports = job.config.job_folder().join("exports");
    let error = job
        .export(&TextRequest::new(TextFormat::Parquet))
        .unwrap_err();
    assert!(
        error.to_string().contains("no documents to export"),
        "{error}"
    );
    assert!(!exports.exists(), "what was made for it is gone");
    let job = Job::of(&one_of_each());
    let request = TextRequest {
        min_on_topic: Some(0.95),
        ..TextRequest::new(TextFormat::Parquet)
    };
    let error = job.export(&request).unwrap_err().to_string();
    assert!(error.contains("1 older visit, 9 not on topic"), "{error}");
    for exports in [exports, job.config.job_folder().join("exports")] {
        let left = fs::read_dir(&exports).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{}", exports.display());
    }
}

#[test]
fn an_export_is_replaced_whole_and_holds_only_what_it_should() {
    let job = Job::of(&one_of_each());
    let first = job
        .export(&TextRequest::new(TextFormat::JsonLines))
        .unwrap();
    fs::write(first.folder.join("old"), "").unwrap();
    let again = job
        .export(&TextRequest::new(TextFormat::JsonLines))
        .unwrap();
    assert!(super::super::is_export(&again.folder));
    let mut names: Vec<String> = fs::read_dir(&again.folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [".spoor-export", "README.md", "data", "removed.jsonl"]
    );
    let own = TextRequest {
        to: Some(job.config.job_folder().join(DOCUMENTS)),
        ..TextRequest::new(TextFormat::JsonLines)
    };
    let error = job.export(&own).unwrap_err();
    assert!(matches!(error, ExportError::Occupied(_)), "{error}");
}

/// A few pages of a few hosts whose paragraphs are often the same.
fn webs() -> impl Strategy<Value = Vec<Document>> {
    let paragraph = prop_oneof![
        (0_usize..4, 1_usize..30).prop_map(|(seed, words)| prose(seed, words)),
        Just("Home".to_owned()),
        (1_usize..30).prop_map(|day| format!("This page was edited on {day} May 2026.")),
        "[a-c .\u{202e}\u{0}é]{1,12}( \n|\n[ab]{2})?",
    ];
    let text = proptest::collection::vec(paragraph, 0..8).prop_map(|all| all.join("\n\n"));
    let page = ("[ab]\\.test/[0-9]", text);
    proptest::collection::vec(page, 1..30).prop_map(|pages| {
        let pages = pages.iter();
        pages.map(|(url, text)| document(url, text)).collect()
    })
}

proptest! {
    #![proptest_config(crate::tests::cases(48))]

    #[test]
    fn paragraphs_that_stay_are_unchanged_and_a_second_export_is_equal(documents in webs()) {
        let job = Job::of(&documents);
        let request = TextRequest::new(TextFormat::JsonLines);
        let Ok(told) = job.export(&request) else {
            // Nothing is exported only where no newest text has a word.
            let newest: BTreeMap<&str, &str> =
                documents.iter().map(|d| (d.url.as_str(), d.text.as_str())).collect();
            let full = newest.values().filter(|text| words::count(text) > 0).count();
            prop_assert!(full == 0 || full >= paragraphs::PAGES as usize, "{full}");
            return Ok(());
        };
        let rows = exported(&told.folder);
        prop_assert_eq!(rows.len() as u64, told.documents);
        let last = told.steps.last().unwrap();
        prop_assert_eq!(last.left, told.documents);
        let removed = json_lines(&told.folder.join("removed.jsonl"));
        let left_out = removed.iter().filter(|row| row.get("url").is_some()).count();
        prop_assert_eq!(left_out + rows.len(), documents.len());
        for row in &rows {
            // The newest text of the address.
            let crawled = documents.iter().rev().find(|d| d.url == row["url"]).unwrap();
            let mut before = paragraphs::of(&crawled.text);
            let mut kept = 0;
            for paragraph in paragraphs::of(row["text"].as_str().unwrap()) {
                prop_assert!(before.any(|b| b == paragraph), "{:?}", paragraph);
                kept += 1;
            }
            let all = paragraphs::of(&crawled.text).count() as u64;
            prop_assert_eq!(all - kept, row["paragraphs_removed"].as_u64().unwrap());
        }
        let first = files(&told.folder);
        let again = job.export(&request).unwrap();
        prop_assert_eq!(files(&again.folder), first);
    }
}
