//! Exports of hand-made documents, read back with readers of the formats.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMillisecondType};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::super::document::paragraphs;
use super::super::tests::lines_of;
use super::super::{MARK, PLAN, REMOVED, is_corpus, of_job, read_mark, remove};
use super::*;
use crate::address::PageUrl;
use crate::config::Config;
use crate::outputs::picture::inspect;
use crate::outputs::{DOCUMENTS, Document, NewImageFile, Outputs};
use crate::page::{BlockKind, ImageContext, Terms, TextBlock, block_lists};
use crate::tool_error::ToolError;
use crate::words;
use spoor_lab::picture::draw;

/// Text that breaks formats written without a serialiser.
const HOSTILE: &str = "ab ``` | \"x\": \\ {y}, \t=1\u{2028}\u{202e}' \u{fffe} \u{1f680}";

/// A paragraph of words that no other paragraph has.
fn prose(seed: usize, words: usize) -> String {
    let words: Vec<String> = (0..words).map(|n| format!("Word{seed}x{n}")).collect();
    format!("{}.", words.join(" "))
}

fn document(url: &str, text: &str) -> Document {
    Document {
        url: format!("http://{url}"),
        fetched: "2026-01-02T03:04:05.678Z".to_owned(),
        title: Some("Pots".to_owned()),
        charset_used: "UTF-8".to_owned(),
        extractor: "main".to_owned(),
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
        // In two files, like those of a resumed crawl.
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

    fn export(&self, request: &TextRequest) -> Result<Built, ToolError> {
        export_text(&self.config, request, "2026-01-31".to_owned())
    }

    fn lines(&self) -> Built {
        self.export(&TextRequest::new(Format::Jsonl)).unwrap()
    }
}

fn folder(built: &Built) -> &Path {
    built.folder.as_deref().unwrap()
}

/// The documents of an export, over all files.
fn exported(built: &Built) -> Vec<Json> {
    let files = files(&folder(built).join("documents"));
    files.keys().flat_map(|file| lines_of(file)).collect()
}

fn removed(built: &Built) -> Vec<Json> {
    lines_of(&folder(built).join(REMOVED))
}

/// A step, the number it left, and why the others were removed.
type Left<'a> = (&'a str, u64, Option<(&'a str, u64)>);

fn left(built: &Built) -> Vec<Left<'_>> {
    let steps = built.steps.iter().map(|step| {
        let why = step.why.iter().next();
        let why = why.map(|(rule, n)| (rule.as_str(), *n));
        (step.step.as_str(), step.left, why)
    });
    steps.collect()
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

const GERMAN: &str = "Der Leuchtturm steht seit vielen Jahren auf einer kleinen Insel vor der \
    Küste, und der Wärter zündet an jedem Abend das Licht an, damit die Schiffe den Weg in den \
    Hafen finden.";
const ENGLISH: &str = "The lighthouse has been standing on a small island off the coast for many \
    years, and every evening the keeper lights the lamp so that the ships find their way home.";

const SHORT: &str = "Every evening the keeper of the lighthouse lights the lamp so that the ships find \
    their way home.";

/// One document that each step removes.
fn one_of_each() -> Vec<Document> {
    let first = format!("{ENGLISH}\n\n{}\n\n{}", prose(1, 9), prose(2, 9));
    let mut older = document("a.test/1", &format!("{ENGLISH} {}", prose(3, 5)));
    older.fetched = "2026-01-01T00:00:00Z".to_owned();
    let english = |url: &str, n: usize| {
        let text = format!(
            "{} {}",
            prose(n, 3),
            ENGLISH.replace(' ', &format!(" x{n} "))
        );
        document(url, &text)
    };
    let mut other = english("b.test/other", 6);
    other.on_topic = Some(0.25);
    let mut untold = english("b.test/untold", 7);
    untold.on_topic = None;
    let near = first.replace("Word1x3 ", "another ");
    vec![
        older,
        document("b.test/de", GERMAN),
        document("a.test/1", &first),
        other,
        untold,
        document("c.test/mirror", &first),
        document("c.test/short", SHORT),
        document("c.test/near", &near),
        english("c.test/2", 8),
    ]
}

#[test]
fn every_step_leaves_out_what_it_says_and_names_it() {
    let job = Job::of(&one_of_each());
    let request = TextRequest {
        min_on_topic: Some(0.5),
        languages: vec![Language::of_code("en").unwrap()],
        min_words: 25,
        ..TextRequest::new(Format::Jsonl)
    };
    let corpus = job.export(&request).unwrap();
    let copy = |rule| Some((rule, 1));
    assert_eq!(
        left(&corpus),
        [
            ("extract", 9, None),
            ("copies", 8, copy("same address")),
            ("language", 7, Some(("language", 1))),
            ("topic", 5, Some(("on_topic", 2))),
            ("copies", 4, copy("exact copy")),
            ("repeated", 4, None),
            ("quality", 3, Some(("words", 1))),
            ("copies", 2, copy("near copy")),
        ]
    );
    let documents = exported(&corpus);
    let urls: Vec<&str> = documents
        .iter()
        .map(|d| d["url"].as_str().unwrap())
        .collect();
    assert_eq!(urls, ["http://a.test/1", "http://c.test/2"]);
    assert_eq!(documents[0]["text"], one_of_each()[2].text);

    let removed = removed(&corpus);
    let mut removed: Vec<Vec<&Json>> = removed
        .iter()
        .map(|row| {
            let keys = ["url", "rule", "value", "bound", "copy_of_url"];
            keys.map(|key| &row[key]).to_vec()
        })
        .collect();
    let near = removed.pop().unwrap();
    assert_eq!(
        near[..2],
        [&json!("http://c.test/near"), &json!("near copy")]
    );
    assert!(near[2].as_f64().unwrap() > 0.9);
    assert_eq!(near[4], "http://a.test/1");
    let line = |url: &str, rule: &str, value: Json, bound: &str, of: Option<&str>| {
        let url = format!("http://{url}");
        [json!(url), json!(rule), value, json!(bound), json!(of)].to_vec()
    };
    let first = Some("http://a.test/1");
    let once = "each address once";
    let half = "at least 0.5";
    assert_eq!(
        removed,
        [
            line("a.test/1", "same address", json!(1.0), once, first),
            line("b.test/de", "language", json!("de"), "en", None),
            line("b.test/other", "on_topic", json!(0.25), half, None),
            line("b.test/untold", "on_topic", Json::Null, half, None),
            line(
                "c.test/mirror",
                "exact copy",
                json!(1.0),
                "less than 1 alike",
                first
            ),
            line("c.test/short", "words", json!(18.0), "at least 25", None),
        ]
        .iter()
        .map(|row| row.iter().collect::<Vec<_>>())
        .collect::<Vec<_>>()
    );
    let card = fs::read_to_string(folder(&corpus).join("README.md")).unwrap();
    for row in [
        "pretty_name: \"x\"",
        "2 documents of ",
        "| topic | 7 | 5 | on_topic 2 |",
        "| 0.9 to 1.0 | 2 |",
        "| `text` | string |",
    ] {
        assert!(card.contains(row), "{row} is not in {card}");
    }
    // With a stricter bound the near copy does not count as one.
    let strict = TextRequest {
        near: 1.0,
        ..TextRequest::new(Format::Jsonl)
    };
    assert_eq!(job.export(&strict).unwrap().documents, 7);
}

const LETTERS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Six pages with a menu and a footer; the last page has nothing else.
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
    let corpus = job.lines();
    let step = corpus.steps.iter().find(|s| s.step == "repeated").unwrap();
    assert_eq!(step.marked["shortened"], 5);
    // The page without text of its own is gone.
    assert_eq!(step.why["all paragraphs are repeated"], 1);
    assert_eq!(corpus.documents, 6);
    let rows = exported(&corpus);
    for (n, row) in rows.iter().take(5).enumerate() {
        let expected = format!("{}\n\nA lone line\nof verse {}", prose(n, 40), LETTERS[n]);
        assert_eq!(row["text"], expected);
        assert_eq!(row["parts_removed"], 2);
        assert_eq!(row["words"], 46);
        assert_eq!(row["hash"], with_menus()[n].hash);
    }
    assert_eq!(rows[5]["text"], with_menus()[6].text);
    let lines = removed(&corpus);
    assert_eq!(lines[0]["rule"], "all paragraphs are repeated");
    let all: Vec<Vec<&Json>> = lines[1..]
        .iter()
        .map(|row| {
            let keys = ["paragraph", "url", "value", "bound"];
            keys.map(|key| &row[key]).to_vec()
        })
        .collect();
    let footer = "Edited on 0 May 2026, at 10:00, by us all.";
    let line = |paragraph: &str| {
        let bound = "on fewer than 5 of 6 pages of its host";
        [
            json!(paragraph),
            json!("http://a.test/0"),
            json!(6.0),
            json!(bound),
        ]
    };
    let expected = [line("Home  | Pots"), line(footer)];
    let expected: Vec<Vec<&Json>> = expected.iter().map(|row| row.iter().collect()).collect();
    assert_eq!(all, expected);
    // They are not documents, so they do not explain any document.
    assert!(lines[1]["id"].is_null());

    let kept = TextRequest {
        keep_repeated: true,
        ..TextRequest::new(Format::Jsonl)
    };
    let corpus = job.export(&kept).unwrap();
    assert_eq!((removed(&corpus).len(), corpus.documents), (0, 7));
    for (row, document) in exported(&corpus).iter().zip(with_menus()) {
        assert_eq!(row["text"], document.text);
    }
}

#[test]
fn mirrors_make_no_paragraph_a_repeated_one() {
    let text = prose(1, 40);
    let pages = (0..9).map(|n| document(&format!("a.test/{n}"), &text));
    let job = Job::of(&pages.collect::<Vec<_>>());
    let corpus = job.lines();
    assert_eq!((corpus.documents, removed(&corpus).len()), (1, 8));
}

/// A document with a value in every column.
fn full() -> Document {
    let mut terms = Terms::default();
    terms.directives.noai = true;
    terms.directives.noimageai = true;
    terms.tdm_reservation = Some(false);
    terms.tdm_policy = Some(HOSTILE.to_owned());
    terms.signal(
        "ai-train".to_owned(),
        spoor_values::page::SignalValue::Flag(false),
    );
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

/// That document, and sixty more.
fn many() -> Job {
    let mut documents = vec![full()];
    documents.extend((0..60).map(|n| document(&format!("b.test/{n}"), &prose(n + 10, 200))));
    Job::of(&documents)
}

#[test]
fn parquet_has_typed_columns() {
    let job = many();
    let corpus = job.export(&TextRequest::new(Format::Parquet)).unwrap();
    let mut rows = 0;
    for bytes in files(&folder(&corpus).join("parquet")).into_values() {
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes)).unwrap();
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
                let contrast = column("crawl_contrast");
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
                assert!(column("noimageai").as_boolean().value(0));
            }
            rows += batch.num_rows();
        }
    }
    assert_eq!(rows, 61);
}

#[test]
fn lines_of_hold_nothing_that_acts_and_mean_the_same() {
    let job = many();
    let corpus = job.lines();
    let path = folder(&corpus).join("documents/00000.jsonl");
    let text = fs::read_to_string(path).unwrap();
    assert!(!text.contains(|c: char| crate::sanitize::acts(c) && c != '\n'));
    let rows = exported(&corpus);
    assert_eq!(rows.len(), 61);
    assert_eq!(rows[0]["text"], full().text);
    assert_eq!(rows[0]["authors"], json!(full().authors));
    assert_eq!(rows[0]["content_signals"], json!(["ai-train=no"]));
    assert_eq!(rows[1]["canonical"], Json::Null);
    let packed = TextRequest {
        gzip: true,
        ..TextRequest::new(Format::Jsonl)
    };
    let packed = job.export(&packed).unwrap();
    assert!(folder(&packed).join("documents/00000.jsonl.gz").is_file());
    assert_eq!(exported(&packed), rows);
}

#[test]
fn plain_text_is_lines_of_paragraphs() {
    let documents = [
        full(),
        document("a.test/2", "First line\nand second.\n\nThen more here."),
    ];
    let job = Job::of(&documents);
    let corpus = job.export(&TextRequest::new(Format::Paragraphs)).unwrap();
    let text = fs::read_to_string(folder(&corpus).join("paragraphs/00000.txt")).unwrap();
    let hostile = "ab ``` | \"x\": \\ {y}, =1 ' \u{fffe} \u{1f680}";
    let expected = format!(
        "{hostile}\n{}\n\nFirst line\nand second.\nThen more here.\n\n",
        prose(1, 30)
    );
    assert_eq!(text, expected);
}

#[test]
fn a_damaged_document_is_counted_and_the_others_are_exported() {
    let job = Job::of(&[]);
    let good = |n: usize| {
        let document = document(&format!("a.test/{n}"), &prose(n, 40));
        document.to_frame().unwrap()
    };
    let mut bad = good(1);
    let middle = bad.len() / 2;
    bad[middle] ^= 0xFF;
    job.put("00000.jsonl.zst", &[good(0), bad, good(2)].concat());
    let corpus = job.lines();
    assert_eq!((corpus.documents, corpus.steps[0].why["damaged"]), (2, 1));
    let card = fs::read_to_string(folder(&corpus).join("README.md")).unwrap();
    assert!(card.contains("| extract | 3 | 2 | damaged 1 |"), "{card}");
}

#[test]
fn nothing_to_export_leaves_no_folder_and_says_why() {
    let job = Job::of(&[]);
    let exports = |job: &Job| job.config.job_folder().join("exports");
    let error = job.export(&TextRequest::new(Format::Parquet)).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("no documents to export"), "{error}");
    assert!(!exports(&job).exists());
    let job = Job::of(&one_of_each());
    let before = files(folder(&job.lines()));
    let request = TextRequest {
        min_on_topic: Some(0.95),
        ..TextRequest::new(Format::Jsonl)
    };
    let error = job.export(&request).unwrap_err().to_string();
    assert!(error.contains("8 by on_topic"), "{error}");
    assert_eq!(files(&exports(&job)), before);
}

/// A second export replaces the first, or one of an older spoor, and nothing else.
#[test]
fn an_export_is_replaced_whole_and_holds_only_what_it_should() {
    let job = Job::of(&one_of_each());
    let first = job.lines();
    fs::write(folder(&first).join("old"), "").unwrap();
    let again = job.lines();
    assert!(is_corpus(folder(&again)) && !again.was_there);
    let names = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let expected = [
        MARK,
        "README.md",
        "copies.jsonl.zst",
        "documents",
        PLAN,
        REMOVED,
    ];
    assert_eq!(names(folder(&again)), expected);
    let to = |name: &str| TextRequest {
        to: Some(job.config.job_folder().join(name)),
        ..TextRequest::new(Format::Jsonl)
    };
    let older = job.config.job_folder().join("older");
    fs::create_dir(&older).unwrap();
    fs::write(older.join(".spoor-export"), "").unwrap();
    job.export(&to("older")).unwrap();
    assert_eq!(names(&older), expected);
    let error = job.export(&to(DOCUMENTS)).unwrap_err();
    assert!(
        error.to_string().contains("is not a corpus of spoor"),
        "{error}"
    );
}

/// Pages are removed from it one by one, even after its job was moved.
#[test]
fn a_takedown_finds_the_exports_of_a_job() {
    let job = Job::of(&with_menus());
    job.export(&TextRequest::new(Format::Paragraphs)).unwrap();
    let moved = tempfile::tempdir().unwrap();
    let moved = moved.path().join("moved");
    fs::rename(job.config.job_folder(), &moved).unwrap();
    let found = of_job(&moved).unwrap();
    assert_eq!(found, [moved.join("exports/text-txt")]);
    let taken = remove(&found[0], &|url: &str| url == "http://a.test/0", false).unwrap();
    assert_eq!((taken.documents, taken.lines), (1, 2));
    for (path, bytes) in files(&found[0]) {
        let text = zstd::decode_all(bytes.as_slice()).unwrap_or(bytes);
        let text = String::from_utf8(text).unwrap();
        assert!(!text.contains("a.test/0"), "{}", path.display());
        assert!(!text.contains("Word0x"), "{}", path.display());
    }
    assert!(found[0].join("paragraphs/00000.txt").is_file());
}

/// A few pages of a few hosts whose paragraphs are often the same.
fn webs() -> impl Strategy<Value = Vec<Document>> {
    let paragraph = prop_oneof![
        (0_usize..4, 1_usize..30).prop_map(|(seed, words)| prose(seed, words)),
        Just("Home".to_owned()),
        (1_usize..30).prop_map(|day| format!("This page was edited on {day} May 2026.")),
        "[a-c .\u{202e}é]{1,12}( \n|\n[ab]{2})?",
    ];
    let text = proptest::collection::vec(paragraph, 0..8).prop_map(|all| all.join("\n\n"));
    let page = ("[ab]\\.test/[0-9]", text);
    proptest::collection::vec(page, 1..30).prop_map(|pages| {
        let pages = pages.iter();
        pages.map(|(url, text)| document(url, text)).collect()
    })
}

proptest! {
    #![proptest_config(spoor_testing::cases!(48))]

    #[test]
    fn paragraphs_that_stay_are_unchanged_and_a_second_export_is_equal(documents in webs()) {
        let job = Job::of(&documents);
        let request = TextRequest::new(Format::Jsonl);
        let Ok(corpus) = job.export(&request) else {
            // Only if no text has a word, or hosts repeat them all, is nothing exported.
            let full = documents.iter().filter(|d| words::count(&d.text) > 0);
            let full: BTreeSet<&str> = full.map(|d| d.url.as_str()).collect();
            prop_assert!(full.is_empty() || full.len() >= 5, "{full:?}");
            return Ok(());
        };
        let rows = exported(&corpus);
        prop_assert_eq!(rows.len() as u64, corpus.documents);
        prop_assert_eq!(corpus.steps.last().unwrap().left, corpus.documents);
        let removed = removed(&corpus);
        let gone = removed.iter().filter(|row| row.get("paragraph").is_none()).count();
        prop_assert_eq!(gone + rows.len(), documents.len());
        for row in &rows {
            // The newest text of the address that has a word.
            let mut crawled = documents.iter().rev();
            let crawled = crawled
                .find(|d| d.url == row["url"] && words::count(&d.text) > 0)
                .unwrap();
            let mut before = paragraphs(&crawled.text);
            let mut kept = 0;
            for paragraph in paragraphs(row["text"].as_str().unwrap()) {
                prop_assert!(before.any(|b| b == paragraph), "{:?}", paragraph);
                kept += 1;
            }
            let all = paragraphs(&crawled.text).count() as u64;
            prop_assert_eq!(all - kept, row["parts_removed"].as_u64().unwrap());
        }
        let first = files(folder(&corpus));
        let again = job.export(&request).unwrap();
        prop_assert_eq!(files(folder(&again)), first);
    }
}

/// A job with a document of three parts, and images between them: two that were kept, one that was
/// not, and one that the log says was dropped.
fn with_images() -> Job {
    let text = format!("{}\n\n{}\n\n{}", prose(1, 12), prose(2, 12), prose(3, 12));
    let blocks = text.split("\n\n").map(|part| {
        let from = part.as_ptr().addr() - text.as_ptr().addr();
        TextBlock {
            kind: BlockKind::Paragraph,
            text: from..from + part.len(),
        }
    });
    let blocks: Vec<TextBlock> = blocks.collect();
    let (block_kinds, block_offsets) = block_lists(&text, &blocks);
    let images = ["a.png", "b.png", "never.png", "gone.png"];
    let page = Document {
        block_kinds,
        block_offsets,
        image_urls: images.map(|name| format!("http://i.test/{name}")).to_vec(),
        image_blocks: vec![1, 1, 2, 3],
        ..document("p.test/1", &text)
    };
    let bare = document("p.test/2", &prose(9, 20));
    let job = Job::of(&[page, bare]);
    let mut outputs = Outputs::open(&job.config.job_folder(), &[]).unwrap();
    for (name, side) in [("a.png", 120), ("b.png", 40)] {
        let url = format!("http://i.test/{name}");
        let bytes = draw(&url, side, side).unwrap().bytes;
        let mut context = image_context("http://p.test/1");
        if name == "a.png" {
            context.texts.figcaption = Some("A pot".to_owned());
        }
        let address = PageUrl::parse(&url).unwrap();
        let new = NewImageFile {
            contexts: vec![context],
            terms: Terms {
                licences: vec![format!("https://licence.test/{name}")],
                ..Terms::default()
            },
            ..NewImageFile::new(
                &address,
                &bytes,
                inspect(&bytes).unwrap(),
                "2026-01-02T12:00:00.000Z",
            )
        };
        outputs.image(new).unwrap();
    }
    drop(outputs);
    let log = job.config.job_folder().join("logs");
    fs::create_dir_all(&log).unwrap();
    let row =
        r#"{"kind":"image","url":"http://i.test/gone.png","outcome":"dropped","reason":"gone"}"#;
    fs::write(log.join("crawl.jsonl"), format!("{row}\n")).unwrap();
    job
}

fn image_context(page: &str) -> ImageContext {
    serde_json::from_value(json!({
        "page": page, "page_title": "Pots", "page_language": "en", "document_perplexity": 5.0,
        "declared_width": null, "declared_height": null, "alt": null, "title": null,
        "file_name": "a", "parents": [], "siblings": [], "rank": 3.0,
        "scores": {"alt": null, "title": null, "file_name": null, "parents": [], "siblings": []},
    }))
    .unwrap()
}

/// The lists of the first sample in Parquet: whether each item is a text, and what is said of it.
fn lists(built: &Built) -> (Vec<bool>, Vec<Json>, Json) {
    let path = folder(built).join("interleaved/00000.parquet");
    let file = fs::File::open(path).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let batch = reader.build().unwrap().next().unwrap().unwrap();
    assert_eq!(
        batch.num_rows(),
        1,
        "the document without images is left out"
    );
    let list = |name: &str| {
        batch
            .column_by_name(name)
            .unwrap()
            .as_list::<i32>()
            .value(0)
    };
    let text = |name: &str| {
        let column = batch.column_by_name(name).unwrap();
        serde_json::from_str::<Json>(column.as_string::<i32>().value(0)).unwrap()
    };
    let (texts, images) = (list("texts"), list("images"));
    let are_texts: Vec<bool> = (0..texts.len()).map(|at| texts.is_valid(at)).collect();
    for (at, is_text) in are_texts.iter().enumerate() {
        assert_eq!(
            images.is_valid(at),
            !is_text,
            "one of the lists has the item"
        );
    }
    let metadata = text("metadata").as_array().unwrap().clone();
    assert_eq!(metadata.len(), are_texts.len());
    (are_texts, metadata, text("general_metadata"))
}

#[test]
fn texts_and_images_stand_in_the_order_of_the_page() {
    let job = with_images();
    let built = job.export(&TextRequest::new(Format::Interleaved)).unwrap();
    let (are_texts, metadata, general) = lists(&built);
    assert_eq!(are_texts, [true, false, false, true]);
    assert_eq!(metadata[1]["caption"], "A pot");
    assert_eq!(metadata[1]["words_from"], "caption");
    assert_eq!(
        (&metadata[2]["width"], &metadata[0]),
        (&40.into(), &Json::Null)
    );
    let missing = general["missing_images"].as_array().unwrap();
    let why: Vec<&Json> = missing.iter().map(|image| &image["why"]).collect();
    assert_eq!(why, ["not fetched", "gone"]);
    let figures = built.interleaved.as_ref().unwrap();
    assert_eq!(
        (figures.documents, figures.images, figures.with_words),
        (1, 2, 1)
    );
    let card = fs::read_to_string(folder(&built).join("README.md")).unwrap();
    assert!(
        card.contains("1 documents with 2 images, 1 of them with words"),
        "{card}"
    );
    assert!(card.contains("interleaved/*.parquet") && card.contains("| not fetched | 1 |"));
    // Nothing of an image changes the documents themselves.
    assert_eq!(built.documents, 2);

    let of = |images: ImageFilter| TextRequest {
        images,
        ..TextRequest::new(Format::Interleaved)
    };
    let wide = ImageFilter {
        min_width: 100,
        ..ImageFilter::default()
    };
    let (are_texts, ..) = lists(&job.export(&of(wide)).unwrap());
    assert_eq!(are_texts, [true, false, true]);
    let described = ImageFilter {
        words: 0.6,
        ..ImageFilter::default()
    };
    let built = job.export(&of(described)).unwrap();
    assert_eq!(built.interleaved.unwrap().documents, 0);
    let addresses = ImageFilter {
        addresses: true,
        ..ImageFilter::default()
    };
    let (are_texts, metadata, _) = lists(&job.export(&of(addresses)).unwrap());
    assert_eq!(are_texts, [true, false, false, true, false, true, false]);
    assert_eq!(metadata[4]["url"], "http://i.test/never.png");
}

#[test]
fn images_are_found_where_they_redirect_to_and_not_where_their_page_forbids_it() {
    let job = with_images();
    let log = job.config.job_folder().join("logs/crawl.jsonl");
    let row = json!({
        "kind": "image", "url": "http://i.test/never.png", "outcome": "redirected",
        "redirect": "http://i.test/b.png",
    });
    fs::write(&log, format!("{row}\n")).unwrap();
    let built = job.export(&TextRequest::new(Format::Interleaved)).unwrap();
    let (are_texts, metadata, _) = lists(&built);
    assert_eq!(are_texts, [true, false, false, true, false, true]);
    assert_eq!(metadata[4]["words_from"], "page_title");

    let mut page = outputs::documents(&job.config.job_folder())
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let mut terms = Terms::default();
    terms.directives.noimageai = true;
    page.terms = Some(terms);
    job.put("00000.jsonl.zst", &page.to_frame().unwrap());
    for addresses in [false, true] {
        let request = TextRequest {
            images: ImageFilter {
                addresses,
                ..ImageFilter::default()
            },
            ..TextRequest::new(Format::Interleaved)
        };
        let figures = job.export(&request).unwrap().interleaved.unwrap();
        assert_eq!((figures.documents, figures.images), (0, 0));
    }
}

#[test]
fn more_images_than_memory_are_left_out() {
    let job = with_images();
    // A hundred addresses with the same file.
    let mut page = outputs::documents(&job.config.job_folder())
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let names: Vec<String> = (0..500).map(|n| format!("http://i.test/{n}.png")).collect();
    let rows = names.iter().map(|url| {
        let row = json!({"kind": "image", "url": url, "redirect": "http://i.test/a.png"});
        format!("{row}\n")
    });
    fs::write(
        job.config.job_folder().join("logs/crawl.jsonl"),
        rows.collect::<String>(),
    )
    .unwrap();
    page.image_blocks = vec![1; names.len()];
    page.image_urls = names;
    job.put("00000.jsonl.zst", &page.to_frame().unwrap());
    let built = job.export(&TextRequest::new(Format::Interleaved)).unwrap();
    let figures = built.interleaved.unwrap();
    assert!(figures.images > 0 && figures.images < 500, "{figures:?}");
    let left = figures.missing.get("too much for one document");
    assert_eq!(left.copied(), Some(500 - figures.images));
}

#[test]
fn a_moved_job_keeps_its_images_when_something_is_taken_down() {
    let job = with_images();
    let built = job.export(&TextRequest::new(Format::Interleaved)).unwrap();
    let (old, new) = (
        job.config.job_folder(),
        job.config.job_folder().with_file_name("moved"),
    );
    let export = new.join(folder(&built).strip_prefix(&old).unwrap());
    fs::rename(&old, &new).unwrap();
    remove(&export, &|url| url == "http://i.test/a.png", false).unwrap();
    let figures = read_mark(&export).unwrap().interleaved.unwrap();
    assert_eq!((figures.documents, figures.images), (1, 1));
    fs::rename(&new, &old).unwrap();
}

#[test]
fn a_tar_file_has_a_sample_for_each_document() {
    let job = with_images();
    let built = job
        .export(&TextRequest::new(Format::InterleavedTar))
        .unwrap();
    let path = folder(&built).join("interleaved-webdataset/00000.tar");
    let mut archive = tar::Archive::new(fs::File::open(path).unwrap());
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_string_lossy().into_owned();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
        files.insert(name, bytes);
    }
    let (name, json) = files
        .iter()
        .find(|(name, _)| name.ends_with(".json"))
        .unwrap();
    let key = name.strip_suffix(".json").unwrap();
    let sample: Json = serde_json::from_slice(json).unwrap();
    let expected = json!([null, format!("{key}.1.png"), format!("{key}.2.png"), null]);
    assert_eq!(sample["images"], expected);
    assert_eq!(sample["texts"][1], Json::Null);
    assert!(sample["texts"][3].as_str().unwrap().contains("Word3x0"));
    assert_eq!(sample["image_metadata"].as_array().unwrap().len(), 2);
    assert_eq!(
        files[&format!("{key}.1.png")],
        draw("http://i.test/a.png", 120, 120).unwrap().bytes
    );
    assert_eq!(files.len(), 3);
}

#[test]
fn an_image_that_is_taken_down_leaves_the_samples() {
    let job = with_images();
    let built = job.export(&TextRequest::new(Format::Interleaved)).unwrap();
    let is_gone = |url: &str| url == "http://i.test/a.png";
    // As a takedown does before.
    let files = crate::outputs::image_files(&job.config.job_folder()).unwrap();
    for file in files.iter().filter(|file| file.contains("/a")) {
        crate::outputs::remove_image(&job.config.job_folder(), file).unwrap();
    }
    remove(folder(&built), &is_gone, false).unwrap();
    let (are_texts, metadata, general) = lists(&built);
    assert_eq!(are_texts, [true, false, true]);
    assert_eq!(metadata[1]["url"], "http://i.test/b.png");
    assert!(!general.to_string().contains("a.png"), "{general}");
    let all = files_text(folder(&built));
    assert!(!all.contains("i.test/a.png"));
    let figures = read_mark(folder(&built)).unwrap().interleaved.unwrap();
    assert_eq!(figures.images, 1);
}

/// Everything in the text files of a folder.
fn files_text(folder: &Path) -> String {
    let lines = exported_lines(folder);
    let card = fs::read_to_string(folder.join("README.md")).unwrap();
    lines + &card
}

fn exported_lines(folder: &Path) -> String {
    let files = files(&folder.join("documents"));
    let lines = files.keys().flat_map(|file| lines_of(file));
    lines.map(|line: Json| line.to_string()).collect()
}

#[test]
fn images_keep_their_place_when_paragraphs_are_removed() {
    let mut page = with_images_document();
    let kept = page.text.find("\n\n").unwrap() + 2..page.text.len();
    let mut edit = super::super::document::TextEdit::default();
    let text = page.text.clone();
    edit.keep(kept.clone(), &text[kept]);
    page.edit(edit);
    assert_eq!(page.image_blocks, [0, 1, 2]);
}

/// A document of three parts with an image behind each.
fn with_images_document() -> super::super::Document {
    let text = "One pot.\n\nTwo pots.\n\nThree pots.";
    super::super::Document {
        text: text.to_owned(),
        block_kinds: vec!["paragraph".to_owned(); 3],
        block_offsets: vec![0, 8, 10, 19, 21, 32],
        image_urls: ["a", "b", "c"].map(str::to_owned).to_vec(),
        image_blocks: vec![1, 2, 3],
        ..super::super::Document::default()
    }
}
