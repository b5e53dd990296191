//! Whole builds in the library: plans, determinism, hostile texts, copies.

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use super::document::Document;
use super::plan::Plan;
use super::*;

/// Sentences that differ in all but a few words.
fn sentence(n: usize) -> String {
    let numbers = [
        "one", "two", "three", "four", "five", "six", "seven", "eight",
    ];
    let (a, b) = (numbers[n % 8], numbers[n / 8 % 8]);
    format!("The keeper{n} of tower{n} had {a} lamps{n} and {b} ropes{n} with oil{n}.")
}

fn text(from: usize, sentences: usize) -> String {
    let all: Vec<String> = (from..from + sentences).map(sentence).collect();
    let paragraphs: Vec<String> = all.chunks(3).map(|part| part.join(" ")).collect();
    paragraphs.join("\n\n")
}

struct Lines {
    folder: tempfile::TempDir,
}

impl Lines {
    fn new(documents: &[(&str, String)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let this = Self { folder };
        this.write("in.jsonl", documents);
        this
    }

    fn write(&self, name: &str, documents: &[(&str, String)]) {
        let lines: String = documents
            .iter()
            .map(|(url, text)| format!("{}\n", serde_json::json!({"url": url, "text": text})))
            .collect();
        std::fs::write(self.folder.path().join(name), lines).unwrap();
    }

    fn plan(&self, rest: &str) -> Plan {
        let text = format!("[source]\njsonl = [\"in.jsonl\"]\n{rest}");
        Plan::parse(&self.folder.path().join("plan.toml"), &text).unwrap()
    }

    fn build(&self, rest: &str) -> (Built, Vec<Document>) {
        let how = How {
            fresh: true,
            date: "2026-01-31".to_owned(),
            ..How::default()
        };
        let built = build(&self.plan(rest), &how).unwrap();
        let folder = built.folder.clone().unwrap();
        (built, read_all(&folder))
    }

    fn removed(&self) -> Vec<Removed> {
        lines_of(&self.folder.path().join("plan").join(REMOVED))
    }

    fn copies(&self) -> Vec<Cluster> {
        lines_of(&self.folder.path().join("plan").join(COPIES))
    }
}

fn read_all(folder: &Path) -> Vec<Document> {
    let mut all = Vec::new();
    each_document(folder, &mut |document| {
        all.push(document);
        Ok(true)
    })
    .unwrap();
    all
}

pub(super) fn lines_of<T: for<'de> serde::Deserialize<'de>>(path: &Path) -> Vec<T> {
    let mut all = Vec::new();
    source::each_line(path, &mut |_, _, line| {
        all.push(serde_json::from_slice(line.unwrap()).unwrap());
        Ok(true)
    })
    .unwrap();
    all
}

fn urls(documents: &[Document]) -> Vec<&str> {
    documents.iter().map(|d| d.url.as_str()).collect()
}

#[test]
fn wrong_plans_are_refused_by_file_and_key() {
    let refused = |text: &str| {
        let error = Plan::parse(Path::new("a/plan.toml"), text).unwrap_err();
        assert!(!error.to_string().contains("reading failed"), "{error}");
        error.to_string()
    };
    let source = "[source]\njobs = [\"x\"]\n";
    for (text, says) in [
        ("", "missing field `source`"),
        ("[source]\n", "source: there is nothing to read"),
        ("[source]\njob = []\n", "unknown field `job`"),
        (&format!("{source}[output]\nformats = [\"xml\"]"), "`xml`"),
        (
            &format!("{source}[[step]]\n"),
            "line 3, [[step]] 1: `kind` is missing",
        ),
        (
            &format!("{source}[[step]]\nkind = \"magic\""),
            "`kind` is `magic`",
        ),
        (
            &format!("{source}[[step]]\nkind = \"mask\"\n[[step]]\nkind = \"extract\""),
            "[[step]] 2 (extract): pages are read first",
        ),
        (
            &format!("{source}[[step]]\nkind = \"copies\"\nleast = 2"),
            "[[step]] 1 (copies): `least` is 2",
        ),
        (
            &format!("{source}[[step]]\nkind = \"copies\"\nwindow = \"3 moons\""),
            "3 moons",
        ),
        (
            &format!("{source}[[step]]\nkind = \"copies\"\nbands = 0"),
            "`bands` is 0",
        ),
        (
            &format!("{source}[[step]]\nkind = \"copies\"\nlevle = \"url\""),
            "unknown field `levle`",
        ),
        (
            &format!("{source}[[step]]\nkind = \"quality\""),
            "name `rules`",
        ),
        (
            &format!("{source}[[step]]\nkind = \"consent\"\nobey = [\"robot\"]"),
            "unknown variant `robot`",
        ),
        (
            &format!("{source}[output]\nstore = \"s3://bucket\""),
            "output.store: `s3://bucket` is not of the form s3://BUCKET/PATH",
        ),
        (
            &format!(
                "{source}[[step]]\nkind = \"quality\"\nbounds = {{ wrods = {{ least = 1 }} }}"
            ),
            "there is no measure `wrods`; give one of words,",
        ),
        (
            &format!(
                "{source}[[step]]\nkind = \"quality\"\nbounds = {{ words = {{ least = 3, most = 1 }} }}"
            ),
            "3 is above 1",
        ),
        (
            &format!("{source}[[step]]\nkind = \"perplexity\""),
            "`model` is missing",
        ),
        (
            &format!(
                "{source}[[step]]\nkind = \"perplexity\"\nmodel = \"neutral\"\nbuckets = [0.6, 0.3]"
            ),
            "0.6 is not below 0.3",
        ),
        (
            &format!("{source}[[step]]\nkind = \"language\"\nlanguages = [\"klingon\"]"),
            "klingon",
        ),
    ] {
        let error = refused(text);
        assert!(
            error.starts_with("a/plan.toml: ") && error.contains(says),
            "{error}"
        );
    }
}

#[test]
fn paths_are_those_of_the_plan() {
    let text = "[source]\njobs = [\"jobs/x\"]\n[[step]]\nkind = \"copies\"\nwindow = \"3d\"\nagainst = [\"e.jsonl\"]\n";
    let plan = Plan::parse(Path::new("a/cats.toml"), text).unwrap();
    assert_eq!(plan.source.jobs, [PathBuf::from("a/jobs/x")]);
    assert_eq!(plan.output.folder, PathBuf::from("a/cats"));
    match &plan.steps[0] {
        Step::Copies(step) => {
            assert_eq!(step.window.unwrap().0, 3 * 86_400_000);
            assert_eq!(step.against, [PathBuf::from("a/e.jsonl")]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn steps_remove_in_their_order_and_say_why() {
    let lines = Lines::new(&[
        ("http://a.test/1", text(0, 12)),
        (
            "http://a.test/short",
            "Only a few words are here.".to_owned(),
        ),
        (
            "http://a.test/mail",
            format!("{} Write to a@b.org now.", text(20, 12)),
        ),
        ("http://a.test/empty", String::new()),
        ("http://a.test/digits", "7".repeat(3_776)),
        ("http://a.test/art", "+--+\n|..|\n+--+\n".repeat(50)),
        ("http://a.test/nul", format!("\0\0{}\u{1}", text(40, 12))),
    ]);
    let (built, documents) = lines.build(
        "[[step]]\nkind = \"quality\"\nrules = [\"gopher\"]\n\
         [[step]]\nkind = \"mask\"\n[output]\nformats = [\"tsv\", \"vertical\", \"text\", \"sentences\"]\n",
    );
    assert_eq!(
        urls(&documents),
        ["http://a.test/1", "http://a.test/mail", "http://a.test/nul"]
    );
    assert!(documents[1].text.ends_with("Write to [mail] now."));
    assert_eq!(
        (
            documents[2].controls_removed,
            documents[2].text.contains('\0')
        ),
        (3, false)
    );
    assert!(documents[0].quality["quality_words"].unwrap() > 100.0);
    let removed: Vec<(String, String, String)> = lines
        .removed()
        .into_iter()
        .map(|r| (r.url, r.step, r.rule))
        .collect();
    let expected = [
        ("short", "quality", "words"),
        ("empty", "extract", "words"),
        ("digits", "extract", "words"),
        ("art", "extract", "words"),
    ];
    let expected = expected.map(|(url, step, rule)| {
        (
            format!("http://a.test/{url}"),
            step.to_owned(),
            rule.to_owned(),
        )
    });
    assert_eq!(removed, expected);
    let figures: Vec<_> = built
        .steps
        .iter()
        .map(|s| (s.step.as_str(), s.read, s.left))
        .collect();
    assert_eq!(
        figures,
        [("extract", 7, 4), ("quality", 4, 3), ("mask", 3, 3)]
    );
    assert_eq!((built.documents, built.files), (3, 5));
    let card = std::fs::read_to_string(lines.folder.path().join("plan/README.md")).unwrap();
    assert!(card.contains("| quality | 4 | 3 | words 1 |"), "{card}");
    let digits = &lines.removed()[2];
    assert_eq!(
        (&digits.value, digits.bound.as_str()),
        (&Value::Number(0.0), "at least one")
    );
}

#[test]
fn a_build_is_the_same_again_and_refuses_another_plan() {
    let documents: Vec<(String, String)> = (0..60)
        .map(|n| (format!("http://a.test/{n}"), text(n % 40 * 20, 9)))
        .collect();
    let documents: Vec<(&str, String)> = documents
        .iter()
        .map(|(url, text)| (url.as_str(), text.clone()))
        .collect();
    let lines = Lines::new(&documents);
    let rest = "[[step]]\nkind = \"copies\"\n[[step]]\nkind = \"perplexity\"\nmodel = \"neutral\"\n\
                buckets = [0.3, 0.6]\n[output]\nshard_bytes = 5000\nformats = [\"tsv\"]\n";
    let (built, first) = lines.build(rest);
    assert_eq!((built.documents, first.len()), (40, 40));
    let bytes = |folder: &str| files(&lines.folder.path().join(folder));
    let before = bytes("plan");
    assert!(before.len() > 6, "{}", before.len());
    lines.build(rest);
    assert_eq!(bytes("plan"), before);
    let how = How::default();
    assert!(build(&lines.plan(rest), &how).unwrap().was_there);
    let changed = build(&lines.plan("[[step]]\nkind = \"mask\"\n"), &how);
    let changed = changed.unwrap_err().to_string();
    assert!(
        changed.contains("it was begun with another plan"),
        "{changed}"
    );
    // Of 40 documents of one language 12 are head and 12 middle, plus those equal to the last.
    let count = |name: &str| {
        let of = first.iter().filter(|d| d.bucket.as_deref() == Some(name));
        of.count()
    };
    let [head, middle, tail] = ["head", "middle", "tail"].map(count);
    assert!(
        (12..15).contains(&head) && (12..15).contains(&middle),
        "{head} {middle}"
    );
    assert_eq!(head + middle + tail, 40);
    let dry = How {
        dry_run: true,
        ..How::default()
    };
    let dry = build(&lines.plan(rest), &dry).unwrap();
    assert_eq!((dry.documents, dry.folder), (40, None));
    let sample = How {
        sample: Some(7),
        ..How::default()
    };
    let sample = build(&lines.plan(rest), &sample).unwrap();
    assert_eq!(sample.steps[0].read, 7);
    assert!(sample.folder.unwrap().ends_with("plan-sample"));
    std::fs::write(lines.folder.path().join("mine"), "x").unwrap();
    let occupied = lines.plan(&format!("{rest}folder = \"mine\"\n"));
    let occupied = build(&occupied, &how).unwrap_err().to_string();
    assert!(occupied.contains("is not a corpus of spoor"), "{occupied}");
}

/// Names and contents of all files below a folder.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((path.clone(), std::fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

const COPIES_STEP: &str = "[[step]]\nkind = \"copies\"\n";

#[test]
fn of_copies_the_one_that_is_asked_for_stays() {
    let long = text(0, 30);
    let near = format!(
        "{}\n\nAnd this is only here.",
        long.replacen("lamps3", "candles", 1)
    );
    let lines = Lines::new(&[
        ("http://a.test/1", long.clone()),
        ("http://a.test/2", text(100, 30)),
        ("http://a.test/3", near.clone()),
        ("http://a.test/4", long.to_uppercase()),
        ("http://a.test/5", text(200, 30)),
    ]);
    for (keep, expected) in [
        ("first", [1, 2, 5].as_slice()),
        ("last", &[2, 4, 5]),
        ("longest", &[2, 3, 5]),
        ("none", &[2, 5]),
        ("all", &[1, 2, 3, 4, 5]),
    ] {
        let (_, documents) = lines.build(&format!("{COPIES_STEP}keep = \"{keep}\"\n"));
        let expected: Vec<String> = expected
            .iter()
            .map(|n| format!("http://a.test/{n}"))
            .collect();
        assert_eq!(urls(&documents), expected, "{keep}");
        if keep == "all" {
            assert_eq!(documents[2].copy_of.as_ref(), Some(&documents[0].id));
            let spans: Vec<usize> = documents[2]
                .copy_spans
                .iter()
                .map(|n| usize::try_from(*n).unwrap())
                .collect();
            let (four, rest) = spans.as_chunks::<4>();
            assert!(rest.is_empty() && four.len() == 2);
            for [a, b, c, d] in four {
                assert_eq!(near[*a..*b], long[*c..*d]);
            }
            assert!(documents[3].similarity == Some(1.0) && documents[1].copy_of.is_none());
        }
    }
    lines.build(COPIES_STEP);
    let removed = lines.removed();
    assert_eq!(removed[0].rule, "near copy");
    assert_eq!(removed[0].copy_of_url.as_deref(), Some("http://a.test/1"));
    assert_eq!(
        (removed[1].rule.as_str(), &removed[1].value),
        ("exact copy", &Value::Number(1.0))
    );
    let copies = lines.copies();
    assert_eq!(
        (
            copies.len(),
            copies[0].kind.as_str(),
            copies[1].kind.as_str()
        ),
        (2, "near", "exact")
    );
    assert_eq!(copies[0].matched[0].text, copies[0].matched[0].other);
}

#[test]
fn copies_in_time_by_address_and_of_earlier_corpora() {
    let lines = Lines::new(&[]);
    let dated: String = [
        ("1", "2024-05-01"),
        ("2", "2024-05-03"),
        ("3", "2024-06-01"),
        ("4", ""),
    ]
    .iter()
    .map(|(n, date)| {
        let url = format!("http://a.test/{n}");
        format!(
            "{}\n",
            serde_json::json!({"url": url, "text": text(0, 9), "date": date})
        )
    })
    .collect();
    std::fs::write(lines.folder.path().join("in.jsonl"), dated).unwrap();
    let (_, documents) = lines.build(&format!("{COPIES_STEP}window = \"3d\"\n"));
    assert_eq!(
        urls(&documents),
        ["http://a.test/1", "http://a.test/3", "http://a.test/4"]
    );
    lines.write(
        "in.jsonl",
        &[
            ("http://www.a.test/x", text(0, 9)),
            ("https://a.test/x#top", text(40, 9)),
            ("https://a.test/y", text(80, 9)),
        ],
    );
    let (_, documents) = lines.build(&format!("{COPIES_STEP}level = \"url\"\nkeep = \"last\"\n"));
    assert_eq!(
        urls(&documents),
        ["https://a.test/x#top", "https://a.test/y"]
    );
    lines.write(
        "e.jsonl",
        &[("http://e.test/", format!("{} More.", text(80, 9)))],
    );
    let (_, documents) = lines.build(&format!("{COPIES_STEP}against = [\"e.jsonl\"]\n"));
    assert_eq!(
        urls(&documents),
        ["http://www.a.test/x", "https://a.test/x#top"]
    );
    let removed = lines.removed();
    assert_eq!(removed[0].copy_of_url.as_deref(), Some("http://e.test/"));
    // The same corpus as Parquet: the whole first corpus is a copy of it.
    {
        lines.build("[output]\nfolder = \"e\"\nformats = [\"parquet\"]\n");
        let against = "against = [\"e/parquet/00000.parquet\"]\n";
        let (_, documents) = lines.build(&format!("{COPIES_STEP}{against}"));
        assert!(documents.is_empty());
        assert_eq!(lines.removed()[0].rule, "exact copy");
    }
}

/// Changed numbers and synonyms hide a copy only if the options for them are off.
#[test]
fn numbers_and_synonyms_hide_no_copies() {
    let number = |n: usize| {
        format!(
            "{} of {} boats came with {} lamps{}",
            n * 7,
            n,
            n + 3,
            n % 9
        )
    };
    let first: Vec<String> = (0..60).map(number).collect();
    let second: Vec<String> = first
        .iter()
        .enumerate()
        .map(|(n, text)| text.replacen(&(n * 7).to_string(), &(n * 9 + 1).to_string(), 1))
        .collect();
    let third = first.join(". ").replace("boats", "vessels");
    let lines = Lines::new(&[
        ("http://a.test/1", first.join(". ")),
        ("http://a.test/2", second.join(". ")),
        ("http://a.test/3", third),
        ("http://a.test/4", text(0, 30)),
    ]);
    let left = |rest: &str| {
        let (_, documents) = lines.build(&format!("{COPIES_STEP}{rest}"));
        let last = |url: &str| url.rsplit('/').next().unwrap().to_owned();
        urls(&documents).into_iter().map(last).collect::<Vec<_>>()
    };
    assert_eq!(left("least = 0.9\n"), ["1", "2", "3", "4"]);
    assert_eq!(
        left("least = 0.9\nignore_numbers = true\n"),
        ["1", "3", "4"]
    );
    let list = lines.folder.path().join("words.txt");
    std::fs::write(&list, "boats vessels\nlamp light\n").unwrap();
    let rest = "least = 0.9\nsynonyms = \"words.txt\"\n";
    assert_eq!(left(rest), ["1", "2", "4"]);
    // They are not exact copies, although every word counts as the same.
    let removed = lines.removed();
    assert_eq!(
        (removed[0].rule.as_str(), &removed[0].value),
        ("near copy", &Value::Number(1.0))
    );
    std::fs::write(&list, [0xFF, 0xFE]).unwrap();
    let how = How {
        fresh: true,
        ..How::default()
    };
    let refused = build(&lines.plan(&format!("{COPIES_STEP}{rest}")), &how);
    assert!(refused.unwrap_err().to_string().contains("words.txt"));
}

/// The publishers' terms recorded in an earlier corpus are obeyed in the next one, and its
/// documents keep their numbers.
#[test]
fn terms_and_numbers_of_an_earlier_corpus_are_known() {
    let lines = Lines::new(&[]);
    let line = |n: usize, rest: Json| {
        let mut line = json!({"url": format!("http://a.test/{n}"), "text": text(n * 20, 9)});
        line.as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        format!("{line}\n")
    };
    let all = [
        line(1, json!({"id": "urn:1"})),
        line(2, json!({"noai": true, "id": "urn:2"})),
        line(3, json!({"tdm_reservation": true})),
        line(4, json!({"content_signals": ["search=yes", "ai-train=no"]})),
    ];
    std::fs::write(lines.folder.path().join("in.jsonl"), all.concat()).unwrap();
    let consent = "[[step]]\nkind = \"consent\"\n";
    let (built, documents) = lines.build(consent);
    assert_eq!(urls(&documents), ["http://a.test/1"]);
    assert_eq!(built.steps[1].why["forbidden"], 3);
    let removed = lines.removed();
    assert_eq!(removed[0].value.to_string(), "noai (robots)");
    let (_, documents) = lines.build(&format!("{consent}obey = [\"robots\"]\n"));
    assert_eq!(documents.len(), 3);
    let (built, all) = lines.build(&format!("{consent}mark = true\n"));
    assert_eq!((all.len(), built.steps[1].marked["forbidden"]), (4, 3));
    // Also through Parquet.
    {
        lines.build("[output]\nfolder = \"p\"\nformats = [\"parquet\"]\n");
        let plan = lines.folder.path().join("again.toml");
        let source = "[source]\njsonl = [\"p/parquet/00000.parquet\"]\n";
        std::fs::write(&plan, format!("{source}{consent}")).unwrap();
        let built = build(&Plan::load(&plan).unwrap(), &How::default()).unwrap();
        assert_eq!((built.documents, built.steps[1].why["forbidden"]), (1, 3));
    }
    std::fs::copy(
        lines.folder.path().join("in.jsonl"),
        lines.folder.path().join("e.jsonl"),
    )
    .unwrap();
    lines.build(&format!("{COPIES_STEP}against = [\"e.jsonl\"]\n"));
    let copies = lines.copies();
    assert_eq!(
        (copies[0].copy_of.as_str(), copies[1].copy_of.as_str()),
        ("urn:1", "urn:2")
    );
    assert_ne!(copies[0].id, "urn:1");
}

#[test]
fn copies_of_paragraphs_and_sentences_go_alone() {
    let notice = "All rights are with the keepers of these towers and their heirs.";
    let page = |n: usize| format!("{}\n\n{notice}", text(n * 20, 3));
    let lines = Lines::new(&[
        ("http://a.test/1", page(1)),
        ("http://a.test/2", page(2)),
        (
            "http://a.test/3",
            format!(
                "{}\n\n{}",
                notice.replacen("heirs", "children", 1),
                text(60, 3)
            ),
        ),
        ("http://a.test/4", notice.to_owned()),
        ("http://a.test/5", format!("{} {}", text(80, 1), notice)),
    ]);
    let (built, documents) = lines.build(&format!("{COPIES_STEP}level = \"paragraph\"\n"));
    let has = |n: usize| documents[n].text.contains("rights");
    assert_eq!(documents.len(), 4);
    assert!(has(0) && !has(1) && has(3));
    assert_eq!(
        (documents[1].parts_removed, documents[1].text.as_str()),
        (1, text(40, 3).as_str())
    );
    assert_eq!(lines.removed()[0].rule, "all parts are copies");
    assert_eq!(
        built.steps[1].marked["shortened"],
        1 + usize::from(!has(2)) as u64
    );
    let (_, documents) = lines.build(&format!("{COPIES_STEP}level = \"sentence\"\n"));
    assert_eq!(documents[3].text, text(80, 1));
}
