//! The outputs on a real disk: the files, and their state after truncation.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::MultiGzDecoder;
use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::output::SEGMENT_BYTES;
use super::*;
use crate::page::{ImageScores, ImageTexts, TaskKind, TextScore};

pub(super) const NOON: &str = "2026-01-02T12:00:00.000Z";

fn url(text: &str) -> PageUrl {
    PageUrl::parse(text).unwrap()
}

fn context(page: &str, alt: &str) -> ImageContext {
    let score = TextScore {
        perplexity: 123.456,
        keyword: 0.25,
        weighted: 30.864,
    };
    ImageContext {
        page: url(page),
        page_title: Some("A title".to_owned()),
        page_language: None,
        page_recognised_language: None,
        document_perplexity: 500.0,
        declared_width: Some(640),
        declared_height: None,
        terms: Default::default(),
        embedding: Default::default(),
        texts: ImageTexts {
            alt: Some(alt.to_owned()),
            title: None,
            file_name: Some("cat".to_owned()),
            parents: vec!["near".to_owned(), "further".to_owned()],
            siblings: vec![],
            ..ImageTexts::default()
        },
        scores: ImageScores {
            alt: Some(score),
            title: None,
            file_name: Some(score),
            parents: vec![score, score],
            siblings: vec![],
            ..ImageScores::default()
        },
        rank: 61.7,
    }
}

fn keep(outputs: &mut Outputs, address: &str, contexts: Vec<ImageContext>) -> String {
    keep_bytes(outputs, address, b"the bytes", contexts)
}

fn keep_bytes(
    outputs: &mut Outputs,
    address: &str,
    bytes: &[u8],
    contexts: Vec<ImageContext>,
) -> String {
    let url = url(address);
    let new = NewImageFile {
        content_type: Some("image/jpeg"),
        contexts,
        ..NewImageFile::new(&url, bytes, info(bytes), NOON)
    };
    outputs.image(new).unwrap()
}

/// Like those of a photograph, except the digest.
fn info(bytes: &[u8]) -> ImageInfo {
    ImageInfo {
        sha256: base16ct::lower::encode_string(&Sha256::digest(bytes)),
        format: "jpeg".to_owned(),
        extension: "jpg",
        width: 640,
        height: 480,
        decoded: true,
        phash: Some(0x0123_4567_89ab_cdef),
        ..ImageInfo::default()
    }
}

fn row<'a>(address: &'a str) -> Row<'a> {
    Row {
        hops: 1,
        status: Some(200),
        bytes: 10,
        ms: 5,
        bucket: "high",
        score: 12.5,
        ..Row::done(NOON, TaskKind::Page, address, url(address).id())
    }
}

fn lines(texts: &[&str]) -> String {
    texts.iter().map(|text| format!("{text}\n")).collect()
}

fn unzipped(path: &Path) -> String {
    let mut text = String::new();
    MultiGzDecoder::new(std::fs::File::open(path).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    text
}

/// Every file below `folder` with its bytes.
fn snapshot(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_owned();
                files.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// The rows of `images.tsv` as a spreadsheet reads them, without the header.
fn table(folder: &Path) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(b'\t')
        .flexible(false)
        .from_path(folder.join("images.tsv"))
        .unwrap();
    reader
        .records()
        .map(|r| r.unwrap().iter().map(str::to_owned).collect())
        .collect()
}

fn sidecar(folder: &Path, file: &str) -> serde_json::Value {
    let bytes = std::fs::read(folder.join(format!("{file}.json"))).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn pages(folder: &Path, file: &str) -> Vec<String> {
    let list = sidecar(folder, file)["contexts"].clone();
    let of = |c: &serde_json::Value| c["page"].as_str().unwrap().to_owned();
    list.as_array().unwrap().iter().map(of).collect()
}

#[test]
fn everything_beyond_the_stamp_is_cut_off() {
    let job = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(job.path(), &[]).unwrap();
    o.log(&row("http://a.org/1")).unwrap();
    o.sentences(&PackedSentences::of(&lines(&["one two"])))
        .unwrap();
    let kept = keep(
        &mut o,
        "http://i.org/1.jpg",
        vec![context("http://a.org/1", "x")],
    );
    let stamp = o.stamp();
    let before = snapshot(job.path());
    o.log(&row("http://a.org/2")).unwrap();
    o.sentences(&PackedSentences::of(&lines(&["three four"])))
        .unwrap();
    let lost = keep(
        &mut o,
        "http://i.org/2.jpg",
        vec![context("http://a.org/2", "y")],
    );
    o.extend_image(&kept, context("http://a.org/2", "z"), VisitKind::Changed)
        .unwrap();
    assert!(job.path().join(&lost).exists());
    let extended = Sidecar::load(job.path(), &kept).unwrap();
    assert_eq!(extended.contexts().len(), 2);
    drop(o);
    let o = Outputs::open(job.path(), &stamp).unwrap();
    assert_eq!(o.stamp(), stamp);
    assert_eq!(
        snapshot(job.path()),
        before,
        "the lost image and context are gone too"
    );
    assert_eq!(
        unzipped(&job.path().join("sentences/00000.txt.gz")),
        "one two\n"
    );
}

#[test]
fn a_new_segment_begins_where_one_is_full_and_is_removed_where_it_is_lost() {
    let job = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(job.path(), &[]).unwrap();
    let noise = |n: u64| -> String {
        let hex = |i: u64| format!("{:016x}\n", (i + n).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        (0..400).map(hex).collect()
    };
    o.sentences(&PackedSentences::of(&noise(0))).unwrap();
    let stamp = o.stamp();
    let before = snapshot(job.path());
    let full = std::fs::metadata(job.path().join("sentences/00000.txt.gz")).unwrap();
    assert!(full.len() >= SEGMENT_BYTES, "{}", full.len());
    o.sentences(&PackedSentences::of(&noise(1_000))).unwrap();
    let later = o.stamp();
    let after = snapshot(job.path());
    assert!(job.path().join("sentences/00001.txt.gz").exists());
    std::fs::write(job.path().join("sentences/2.txt.gz"), "not ours").unwrap();
    drop(o);
    drop(Outputs::open(job.path(), &later).unwrap());
    std::fs::remove_file(job.path().join("sentences/2.txt.gz")).unwrap();
    assert_eq!(snapshot(job.path()), after);
    let mut o = Outputs::open(job.path(), &stamp).unwrap();
    assert_eq!(snapshot(job.path()), before);
    o.sentences(&PackedSentences::of(&noise(1_000))).unwrap();
    assert_eq!(
        snapshot(job.path()),
        after,
        "and written again, it is the same"
    );
}

#[test]
fn a_fresh_frontier_keeps_old_outputs_and_never_cuts_them_later() {
    let job = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(job.path(), &[]).unwrap();
    o.log(&row("http://a.org/old")).unwrap();
    o.sentences(&PackedSentences::of(&lines(&["old words"])))
        .unwrap();
    drop(o);
    // A crash in the middle of a line and of a gzip member.
    let log = job.path().join("logs/crawl.jsonl");
    let mut text = std::fs::read(&log).unwrap();
    text.extend_from_slice(b"{\"time\":");
    std::fs::write(&log, &text).unwrap();
    let old = job.path().join("sentences/00000.txt.gz");
    let whole = std::fs::read(&old).unwrap();

    let stamp = Outputs::open(job.path(), &[]).unwrap().stamp();
    let mut o = Outputs::open(job.path(), &stamp).unwrap();
    o.log(&row("http://a.org/new")).unwrap();
    o.sentences(&PackedSentences::of(&lines(&["new words"])))
        .unwrap();
    assert_eq!(
        std::fs::read(&old).unwrap(),
        whole,
        "old sentences are as they were"
    );
    assert_eq!(
        unzipped(&job.path().join("sentences/00001.txt.gz")),
        "new words\n"
    );
    let text = std::fs::read_to_string(&log).unwrap();
    let of_line = |l: &str| serde_json::from_str::<serde_json::Value>(l).map(|v| v["url"].clone());
    let urls: Vec<_> = text.lines().filter_map(|l| of_line(l).ok()).collect();
    assert_eq!(urls, ["http://a.org/old", "http://a.org/new"]);
}

#[test]
fn a_file_shorter_than_the_stamp_is_an_error_that_names_it() {
    for name in ["logs/crawl.jsonl", "images.tsv", "sentences/00000.txt.gz"] {
        let job = tempfile::tempdir().unwrap();
        let mut o = Outputs::open(job.path(), &[]).unwrap();
        o.log(&row("http://a.org/1")).unwrap();
        o.sentences(&PackedSentences::of(&lines(&["one two"])))
            .unwrap();
        let stamp = o.stamp();
        drop(o);
        let path = job.path().join(name);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let error = Outputs::open(job.path(), &stamp).err().unwrap();
        assert!(matches!(error, OutputError::Short { .. }), "{error}");
        let text = error.to_string();
        let (found, expected) = (bytes.len() - 1, bytes.len());
        assert!(text.contains(name), "{text}");
        assert!(text.contains(&format!("{found} bytes")) && text.contains(&expected.to_string()));
    }
    let job = tempfile::tempdir().unwrap();
    let error = Outputs::open(job.path(), &[0xff; 3]).err().unwrap();
    assert!(matches!(error, OutputError::Stamp { .. }), "{error}");
}

#[test]
fn gzip_members_join_and_equal_lines_give_equal_bytes() {
    let bytes = || {
        let job = tempfile::tempdir().unwrap();
        let mut o = Outputs::open(job.path(), &[]).unwrap();
        o.sentences(&PackedSentences::of(&lines(&["a b c", "d e f"])))
            .unwrap();
        o.sentences(&PackedSentences::of("")).unwrap();
        o.sentences(&PackedSentences::of(&lines(&["g h i"])))
            .unwrap();
        let path = job.path().join("sentences/00000.txt.gz");
        assert_eq!(unzipped(&path), "a b c\nd e f\ng h i\n");
        std::fs::read(path).unwrap()
    };
    let first = bytes();
    assert_eq!(first, bytes());
    let member = [0x1f, 0x8b, 8];
    assert_eq!(first.windows(3).filter(|w| *w == member).count(), 2);
    assert_eq!(first[4..8], [0; 4], "no time");
}

#[test]
fn a_log_line_is_json_without_what_is_absent() {
    let job = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(job.path(), &[]).unwrap();
    let row = Row {
        title: Some("line\nbreak \"quoted\" \u{1}"),
        score: f64::INFINITY,
        ..row("http://a.org/1")
    };
    o.log(&row).unwrap();
    let text = std::fs::read_to_string(job.path().join("logs/crawl.jsonl")).unwrap();
    assert_eq!(text.lines().count(), 1);
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["title"], "line\nbreak \"quoted\" \u{1}");
    assert!(line["score"].is_null());
    for absent in [
        "id",
        "via",
        "parts",
        "truncated",
        "file",
        "error",
        "terms",
        "forbidden",
    ] {
        assert!(line.get(absent).is_none(), "{absent}");
    }
}

#[test]
fn a_sidecar_says_what_the_image_is_and_grows_by_page() {
    let job = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(job.path(), &[]).unwrap();
    let file = keep(
        &mut o,
        "http://i.org/cats/Tom.JPG",
        vec![context("http://a.org/1", "one")],
    );
    assert_eq!(file, "images/2026-01-02/i.org/cats/Tom.JPG");
    assert_eq!(std::fs::read(job.path().join(&file)).unwrap(), b"the bytes");
    let card = sidecar(job.path(), &file);
    for (key, value) in [
        ("version", serde_json::json!(1)),
        ("url", "http://i.org/cats/Tom.JPG".into()),
        ("file", file.as_str().into()),
        // `printf 'the bytes' | sha256sum`
        (
            "sha256",
            "ed589341c9fd5da96aaff4c5efa008226282a716186608d5a032ac75895a9c2f".into(),
        ),
        ("bytes", 9.into()),
        ("format", "jpeg".into()),
        ("width", 640.into()),
        ("height", 480.into()),
        ("content_type", "image/jpeg".into()),
        ("fetched", NOON.into()),
        ("animated", false.into()),
        ("decoded", true.into()),
        ("phash", "0123456789abcdef".into()),
        ("mislabelled", serde_json::Value::Null),
        ("same_as", serde_json::Value::Null),
    ] {
        assert_eq!(card[key], value, "{key}");
    }
    let first = &card["contexts"][0];
    assert_eq!(first["page"], "http://a.org/1");
    assert_eq!(first["alt"], "one");
    assert_eq!(first["parents"][1], "further");
    assert_eq!(first["scores"]["alt"]["perplexity"], 123.456);
    assert!(card.get("extension").is_none());

    o.extend_image(&file, context("http://a.org/2", "two"), VisitKind::Changed)
        .unwrap();
    o.extend_image(
        &file,
        context("http://a.org/1", "again"),
        VisitKind::Changed,
    )
    .unwrap();
    o.fold().unwrap();
    assert_eq!(
        pages(job.path(), &file),
        ["http://a.org/1", "http://a.org/2"]
    );
    assert_eq!(sidecar(job.path(), &file)["contexts"][0]["alt"], "again");
    let loaded = Sidecar::load(job.path(), &file).unwrap();
    assert_eq!(loaded.contexts()[1], context("http://a.org/2", "two"));
    let alts: Vec<String> = table(job.path())
        .into_iter()
        .map(|r| r[10].clone())
        .collect();
    assert_eq!(
        alts,
        ["one", "two", "again"],
        "a row for every page's embedding"
    );
}

#[test]
fn the_same_url_fetched_again_merges_and_adds_rows_for_what_is_new_only() {
    let job = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(job.path(), &[]).unwrap();
    let address = "http://i.org/a.jpg";
    let file = keep(&mut o, address, vec![context("http://a.org/1", "one")]);
    let again = keep_bytes(
        &mut o,
        address,
        b"other",
        vec![context("http://a.org/2", "two")],
    );
    assert_eq!(file, again);
    assert_eq!(std::fs::read(job.path().join(&file)).unwrap(), b"other");
    assert_eq!(sidecar(job.path(), &file)["bytes"], 5);
    assert_eq!(
        pages(job.path(), &file),
        ["http://a.org/1", "http://a.org/2"]
    );
    assert_eq!(table(job.path()).len(), 2);
}

#[test]
fn urls_that_share_a_path_never_overwrite_each_other() {
    let job = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(job.path(), &[]).unwrap();
    let addresses = [
        "http://i.org/a.jpg",
        "https://i.org/a.jpg",
        "http://i.org/a'b.jpg",
        "http://i.org/a%27b.jpg",
        "http://i.org/index",
        "http://i.org/",
        "http://i.org//a.jpg",
        "http://i.org/a.jpg?x=1",
        "http://i.org/a.jpg/a.jpg",
        "http://i.org/A.jpg",
    ];
    let mut files = BTreeMap::new();
    for _ in 0..2 {
        for address in addresses {
            let file = keep_bytes(&mut o, address, address.as_bytes(), vec![]);
            let known = files.insert(address, file.clone());
            assert!(known.is_none_or(|k| k == file), "{address} moved to {file}");
        }
    }
    for (address, file) in &files {
        let bytes = std::fs::read(job.path().join(file)).unwrap();
        assert_eq!(bytes, address.as_bytes(), "{file}");
        assert_eq!(sidecar(job.path(), file)["url"], *address);
    }
}

#[test]
fn rows_have_the_header_s_columns_whatever_the_texts() {
    let job = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(job.path(), &[]).unwrap();
    let nasty = [
        "tab\tin\nlines\r\nand\u{0}\u{2028}more",
        "=HYPERLINK(\"http://x\")",
        "+1",
        "-1",
        "@SUM(A1)",
        "\"begins with a quote",
        "\"\"",
        "",
        "ends with \"",
    ];
    for (i, alt) in nasty.iter().enumerate() {
        keep(
            &mut o,
            &format!("http://i.org/{i}.jpg"),
            vec![context("http://a.org/1", alt)],
        );
    }
    let long = format!("http://i.org/{}.jpg?{}", "p/".repeat(700), "q".repeat(900));
    let file = keep(
        &mut o,
        &long,
        vec![context("http://a.org/1", &"ü".repeat(700))],
    );
    let rows = table(job.path());
    assert_eq!(rows.len(), nasty.len() + 1);
    let alts: Vec<&str> = rows.iter().map(|r| r[10].as_str()).collect();
    assert_eq!(
        alts[..nasty.len()],
        [
            "tab in lines  and  more",
            "'=HYPERLINK(\"http://x\")",
            "'+1",
            "'-1",
            "'@SUM(A1)",
            "\"begins with a quote",
            "\"\"",
            "",
            "ends with \"",
        ]
    );
    let last = rows.last().unwrap();
    assert_eq!(
        (last[0].as_str(), last[1].as_str()),
        (long.as_str(), file.as_str())
    );
    assert!(file.len() > 500, "paths are not shortened");
    assert_eq!(last[10].chars().count(), 500);
    let text = std::fs::read_to_string(job.path().join("images.tsv")).unwrap();
    let columns = log::IMAGES_HEADER.split('\t').count();
    for line in text.lines() {
        assert_eq!(line.split('\t').count(), columns, "{line}");
    }
}

#[test]
fn a_sidecar_takes_a_bounded_number_of_contexts_and_the_table_all() {
    let job = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(job.path(), &[]).unwrap();
    let many = sidecar::MAX_CONTEXTS + 20;
    let of = |i: usize| context(&format!("http://a.org/{i}"), "x");
    let most = sidecar::MAX_CONTEXTS - 20;
    let file = keep(&mut o, "http://i.org/a.jpg", (0..most).map(of).collect());
    for i in most..many {
        o.extend_image(&file, of(i), VisitKind::Changed).unwrap();
    }
    o.extend_image(
        &file,
        context("http://a.org/3", "known"),
        VisitKind::Changed,
    )
    .unwrap();
    o.fold().unwrap();
    assert_eq!(pages(job.path(), &file).len(), sidecar::MAX_CONTEXTS);
    assert_eq!(sidecar(job.path(), &file)["contexts"][3]["alt"], "known");
    assert_eq!(table(job.path()).len(), many + 1);
    // A page without room in the sidecar has its row, and gets no other at a revisit.
    o.extend_image(&file, of(many - 1), VisitKind::Same)
        .unwrap();
    assert_eq!(table(job.path()).len(), many + 1);
    o.extend_image(&file, context("http://a.org/4", "other"), VisitKind::Same)
        .unwrap();
    o.fold().unwrap();
    assert_eq!(sidecar(job.path(), &file)["contexts"][4]["alt"], "other");
    assert_eq!(table(job.path()).len(), many + 2);
}

#[test]
fn a_damaged_sidecar_is_an_error_and_a_missing_one_is_passed_over() {
    let job = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(job.path(), &[]).unwrap();
    let file = keep(
        &mut o,
        "http://i.org/a.jpg",
        vec![context("http://a.org/1", "x")],
    );
    let path = job.path().join(format!("{file}.json"));
    std::fs::write(&path, "{\"version\": 1").unwrap();
    let before = o.stamp();
    let error = o
        .extend_image(&file, context("http://a.org/2", "y"), VisitKind::Changed)
        .unwrap_err();
    assert!(matches!(error, OutputError::Sidecar { .. }));
    assert!(error.to_string().contains("a.jpg.json"), "{error}");
    assert_eq!(o.stamp(), before, "nothing was written");
    std::fs::remove_file(&path).unwrap();
    o.extend_image(&file, context("http://a.org/2", "y"), VisitKind::Changed)
        .unwrap();
    assert!(!path.exists());
    assert_eq!(o.stamp(), before);
}

#[test]
fn an_empty_sidecar_that_a_loss_of_power_left_is_in_nobodys_way() {
    let job = tempfile::tempdir().unwrap();
    let mut o = Outputs::open(job.path(), &[]).unwrap();
    let first = || vec![context("http://a.org/1", "x")];
    let file = keep(&mut o, "http://i.org/a.jpg", first());
    std::fs::write(job.path().join(format!("{file}.json")), "").unwrap();
    std::fs::write(job.path().join(&file), "").unwrap();
    assert_eq!(keep(&mut o, "http://i.org/a.jpg", first()), file);
    assert_eq!(sidecar(job.path(), &file)["contexts"][0]["alt"], "x");
    assert!(std::fs::metadata(job.path().join(&file)).unwrap().len() > 0);
}

#[test]
fn what_an_edited_table_names_outside_of_the_job_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path().join("job");
    let stamp = Outputs::open(&job, &[]).unwrap().stamp();
    let outside = folder.path().join("outside.jpg");
    std::fs::write(&outside, "precious").unwrap();
    let table = job.join("images.tsv");
    let mut text = std::fs::read_to_string(&table).unwrap();
    text.push_str("u\timages/../../outside.jpg\tjpeg\t1\t1\t1\thttp://a.org/\t\n");
    std::fs::write(&table, text).unwrap();
    drop(Outputs::open(&job, &stamp).unwrap());
    assert_eq!(std::fs::read(outside).unwrap(), b"precious");
}

mod archives;
mod copies;
mod edits;
mod merge;
mod pipes;
mod rotation;
mod sightings;

#[derive(Debug, Clone)]
enum Op {
    Log(u8),
    Sentences(u8),
    Image(u8, Vec<u8>),
    Extend(u8, u8),
}

fn ops(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Op>> {
    let pages = proptest::collection::vec(0..6_u8, 1..4);
    let op = prop_oneof![
        any::<u8>().prop_map(Op::Log),
        any::<u8>().prop_map(Op::Sentences),
        (0..6_u8, pages).prop_map(|(i, p)| Op::Image(i, p)),
        (0..6_u8, 0..6_u8).prop_map(|(i, p)| Op::Extend(i, p)),
    ];
    proptest::collection::vec(op, length)
}

/// Applies operations as the frontier permits them: an image is kept once, and a page adds
/// to it once.
fn play(outputs: &mut Outputs, ops: &[Op], kept: &mut BTreeMap<u8, (String, Vec<u8>)>) {
    for op in ops {
        match op {
            Op::Log(n) => outputs.log(&row(&format!("http://a.org/{n}"))).unwrap(),
            Op::Sentences(n) => {
                let line =
                    |i: u64| format!("{:x}\n", (i + u64::from(*n)).wrapping_mul(0x9E37_79B9));
                let lines: String = (0..u64::from(*n)).map(line).collect();
                outputs.sentences(&PackedSentences::of(&lines)).unwrap();
            }
            Op::Image(i, pages) => {
                if kept.contains_key(i) {
                    continue;
                }
                // Half of them share a path with another, by scheme.
                let scheme = if i % 2 == 0 { "http" } else { "https" };
                let address = format!("{scheme}://i.org/{}.jpg", i / 2);
                let mut pages = pages.clone();
                pages.sort_unstable();
                pages.dedup();
                let of = |p: &u8| context(&format!("http://a.org/{p}"), "kept");
                // All have the same bytes, and the frontier knows one of the files.
                let earlier = kept.values().next().map(|(file, _)| file.clone());
                let contexts = pages.iter().map(of).collect();
                let file = copies::link(outputs, &address, earlier.as_deref(), contexts).file;
                kept.insert(*i, (file, pages));
            }
            Op::Extend(i, p) => {
                if let Some((file, pages)) = kept.get_mut(i)
                    && !pages.contains(p)
                {
                    pages.push(*p);
                    let more = context(&format!("http://a.org/{p}"), "added");
                    outputs
                        .extend_image(file, more, VisitKind::Changed)
                        .unwrap();
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(spoor_testing::cases!(64))]

    /// After any writes beyond a stamp, truncation gives the same files as replaying up to the
    /// stamp; and continuing from there gives the same as never stopping.
    #[test]
    fn cutting_back_equals_replaying(first in ops(0..12), lost in ops(0..12), then in ops(0..8)) {
        let job = tempfile::tempdir().unwrap();
        let mut o = Outputs::open(job.path(), &[]).unwrap();
        let mut kept = BTreeMap::new();
        play(&mut o, &first, &mut kept);
        let stamp = o.stamp();
        play(&mut o, &lost, &mut kept.clone());
        drop(o);
        let mut o = Outputs::open(job.path(), &stamp).unwrap();
        prop_assert_eq!(o.stamp(), stamp);

        let other = tempfile::tempdir().unwrap();
        let mut p = Outputs::open(other.path(), &[]).unwrap();
        let mut replayed = BTreeMap::new();
        play(&mut p, &first, &mut replayed);
        p.fold().unwrap();
        prop_assert_eq!(snapshot(job.path()), snapshot(other.path()));

        play(&mut o, &then, &mut kept);
        play(&mut p, &then, &mut replayed);
        o.fold().unwrap();
        p.fold().unwrap();
        let files = snapshot(job.path());
        prop_assert_eq!(&files, &snapshot(other.path()));
        let is_part = |p: &&PathBuf| p.extension().is_some_and(|e| e == "part");
        prop_assert_eq!(files.keys().find(is_part), None);
    }

    /// No URL leaves its folder, however it is written, and no two share a file.
    #[test]
    fn every_url_stays_in_its_folder_and_keeps_its_own_file(
        tails in proptest::collection::vec(
            prop_oneof![
                "(/|%2e|%2E|%00|%2f|\\\\|\\.|~|con|a|%7E|'|%27|\\?|;|ü|json|\\.part){0,12}",
                "/[ -~]{0,300}",
                "(/[a-z%.~]{0,3}){0,60}",
            ],
            1..8,
        )
    ) {
        let job = tempfile::tempdir().unwrap();
        let mut o = Outputs::open(job.path(), &[]).unwrap();
        let mut urls = std::collections::BTreeSet::new();
        for tail in &tails {
            for scheme in ["http", "https"] {
                if let Ok(url) = PageUrl::parse(&format!("{scheme}://i.org/{tail}")) {
                    urls.insert(url);
                }
            }
        }
        let mut files = BTreeMap::new();
        for url in &urls {
            let file = keep_bytes(&mut o, url.as_str(), url.as_str().as_bytes(), vec![]);
            for part in file.split('/') {
                prop_assert!(!matches!(part, "" | "." | "..") && part.len() <= 200, "{}", file);
            }
            prop_assert!(file.starts_with("images/2026-01-02/i.org/"), "{}", file);
            files.insert(file, url.clone());
        }
        prop_assert_eq!(files.len(), urls.len());
        for (file, url) in files {
            let bytes = std::fs::read(job.path().join(&file)).unwrap();
            prop_assert_eq!(bytes, url.as_str().as_bytes());
        }
    }
}
