//! Exports of folders that the outputs wrote, read back with readers of the formats.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Array, RecordBatch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value as Json;

use super::place::MARK;
use super::*;
use crate::address::PageUrl;
use crate::config::Config;
use crate::outputs::picture::{inspect, mislabelled};
use crate::outputs::{NewImageFile, Outputs};
use crate::page::{AltKind, ImageContext, ImageScores, ImageTexts, Terms, TextScore};
use crate::tool_error::ToolError;
use spoor_lab::picture::draw;

/// Text that breaks formats written without a serialiser.
const HOSTILE: &str = "a\u{0}b\n---\r\n```\n# <script>alert(1)</script> | \"x\": \\ {y}, \t=1\u{7f}\u{85}\u{2028}\u{202e}'`` ![i](http://a.test/i) \u{fffe}";

fn context(page: &str, rank: f64) -> ImageContext {
    let score = Some(TextScore {
        perplexity: rank * 2.0,
        keyword: 0.1,
        weighted: rank,
    });
    ImageContext {
        page: PageUrl::parse(page).unwrap(),
        page_title: Some(HOSTILE.to_owned()),
        page_language: Some("de-at".to_owned()),
        page_recognised_language: None,
        document_perplexity: 50.0,
        declared_width: None,
        declared_height: None,
        terms: Terms {
            tdm_policy: Some(HOSTILE.to_owned()),
            licences: vec![HOSTILE.to_owned(), "https://licence.test/by".to_owned()],
            ..Terms::default()
        },
        embedding: Default::default(),
        texts: ImageTexts {
            alt: Some(format!("{rank} {HOSTILE}")),
            alt_kind: Some(AltKind::Written),
            parents: vec![HOSTILE.to_owned(), String::new()],
            ..ImageTexts::default()
        },
        scores: ImageScores {
            alt: score,
            parents: score.into_iter().collect(),
            ..ImageScores::default()
        },
        rank,
    }
}

/// A job of images ranked 1, 2, 3 and so on, of all formats.
struct Job {
    root: tempfile::TempDir,
    config: Config,
    /// The bytes of each, in order.
    images: Vec<Vec<u8>>,
}

const EXTENSIONS: [&str; 5] = ["jpg", "png", "gif", "webp", "bmp"];

impl Job {
    fn of(count: usize) -> Self {
        let root = tempfile::tempdir().unwrap();
        let text = format!("job.name = 'x'\njob.folder = {:?}", root.path());
        let config = Config::parse(&text, "x.toml").unwrap();
        let mut outputs = Outputs::open(&config.job_folder(), &[]).unwrap();
        let mut images = Vec::new();
        for n in 1..=count {
            let extension = EXTENSIONS[n % EXTENSIONS.len()];
            let url = format!("http://a.test/{n}.{extension}");
            let bytes = draw(&url, 120, 80).unwrap().bytes;
            let mut context = context(&format!("http://p.test/{n}"), n as f64);
            if n == 2 {
                context.texts = ImageTexts::default();
                context.page_title = None;
                context.page_language = None;
                context.terms.directives.noai = true;
                context.terms.tdm_reservation = Some(false);
                let signal = (
                    "ai-train".to_owned(),
                    spoor_values::page::SignalValue::Flag(false),
                );
                context.terms.content_signals.extend([signal]);
            }
            let mut info = inspect(&bytes).unwrap();
            if n == 3 {
                (info.animated, info.decoded) = (true, true);
                info.mislabelled = mislabelled(&info.format, Some("image/tiff"), "/3.svg");
            }
            let address = PageUrl::parse(&url).unwrap();
            let new = NewImageFile {
                terms: Terms {
                    licences: vec!["https://licence.test/by".to_owned()],
                    ..Terms::default()
                },
                fetched: "2026-01-02T03:04:05.678Z",
                contexts: vec![context],
                ..NewImageFile::new(&address, &bytes, info, "2026-01-02T12:00:00.000Z")
            };
            outputs.image(new).unwrap();
            images.push(bytes);
        }
        Self {
            root,
            config,
            images,
        }
    }

    fn export(&self, request: &Request<'_>) -> Result<Exported, ToolError> {
        export(&self.config, request, |_, _| ())
    }

    /// The names beside the exports of this job.
    fn exports(&self) -> Vec<String> {
        names(&self.config.job_folder().join("exports"))
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn request(format: Format) -> Request<'static> {
    Request {
        format,
        top: None,
        to: None,
        urls_only: false,
        job: "[job]\nname = \"x\" # ````\n```\n---\n",
        date: "2026-02-03",
    }
}

fn lines(path: &Path) -> Vec<Json> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.ends_with('\n'));
    assert!(!text.contains(|c| crate::sanitize::acts(c) && c != '\n'));
    // A line end is the only character that ends a line of JSON lines.
    let lines = text.trim_end_matches('\n').split('\n');
    lines.map(|l| serde_json::from_str(l).unwrap()).collect()
}

/// A sample of a shard: its key, and its files by extension.
type Stored = (String, BTreeMap<String, Vec<u8>>);

/// How many shards there are, and their samples in order.
fn shards(folder: &Path) -> (usize, Vec<Stored>) {
    let mut samples: Vec<Stored> = Vec::new();
    let files: Vec<String> = names(folder)
        .into_iter()
        .filter(|n| n.ends_with(".tar"))
        .collect();
    for file in &files {
        let mut tar = tar::Archive::new(fs::File::open(folder.join(file)).unwrap());
        let mut keys_here = 0;
        for entry in tar.entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().to_str().unwrap().to_owned();
            let (key, extension) = name.split_once('.').unwrap();
            if samples.last().is_none_or(|(last, _)| last != key) {
                samples.push((key.to_owned(), BTreeMap::new()));
                keys_here += 1;
            }
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            let sample = &mut samples.last_mut().unwrap().1;
            let before = sample.insert(extension.to_owned(), bytes);
            assert!(before.is_none(), "{name} twice");
        }
        assert!(keys_here > 0, "{file} is empty");
    }
    (files.len(), samples)
}

fn batches(folder: &Path) -> (usize, Vec<RecordBatch>) {
    let data = folder.join("data");
    let files = names(&data);
    let mut all = Vec::new();
    for file in &files {
        let file = fs::File::open(data.join(file)).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let features = reader.schema().metadata().get("huggingface").cloned();
        if reader.schema().field_with_name("image").is_ok() {
            let features: Json = serde_json::from_str(&features.unwrap()).unwrap();
            assert_eq!(features["info"]["features"]["image"]["_type"], "Image");
        } else {
            assert_eq!(features, None);
        }
        all.extend(reader.build().unwrap().map(Result::unwrap));
    }
    (files.len(), all)
}

#[test]
fn lines_and_files_say_what_the_sidecars_say() {
    let job = Job::of(12);
    for (format, file) in [
        (Format::ImageFolder, "metadata.jsonl"),
        (Format::JsonLines, "data.jsonl"),
    ] {
        let mut steps = Vec::new();
        let progress = |done, total| steps.push((done, total));
        let exported = export(&job.config, &request(format), progress).unwrap();
        assert_eq!(steps.last(), Some(&(12, 12)));
        assert_eq!(steps.len(), 12);
        let bytes: usize = job.images.iter().map(Vec::len).sum();
        assert_eq!((exported.samples, exported.bytes), (12, bytes as u64));
        assert_eq!(exported.vanished, 0);
        let rows = lines(&exported.folder.join(file));
        assert_eq!(rows.len(), 12);
        for (n, (row, bytes)) in rows.iter().zip(&job.images).enumerate() {
            assert_eq!(row["rank"], n + 1);
            let path = row["file_name"].as_str().unwrap();
            assert_eq!(&fs::read(exported.folder.join(path)).unwrap(), bytes);
            assert!(row["phash"].as_str().is_some_and(|hash| hash.len() == 16));
            assert_eq!(row["fetched"], "2026-01-02T03:04:05.678Z");
        }
        let (first, second) = (&rows[0], &rows[1]);
        assert_eq!(first["alt"], format!("1 {HOSTILE}"));
        assert_eq!(
            (&first["text"], &first["text_from"]),
            (&first["alt"], &Json::from("alt"))
        );
        assert_eq!(first["parents"], serde_json::json!([HOSTILE, ""]));
        assert_eq!(first["alt_perplexity"], 2.0);
        assert_eq!(first["parents_weighted"], serde_json::json!([1.0]));
        // The image's licence comes first, and no licence occurs twice.
        let licences = serde_json::json!(["https://licence.test/by", HOSTILE]);
        assert_eq!(first["licences"], licences);
        assert_eq!(
            (&first["page_noai"], &first["image_noai"]),
            (&false.into(), &false.into())
        );
        for (row, flags, names) in [
            (first, [false, false], [Json::Null, Json::Null]),
            (&rows[2], [true, true], ["image/tiff".into(), "svg".into()]),
        ] {
            assert_eq!(
                [&row["animated"], &row["decoded"]],
                flags.map(Json::from).each_ref()
            );
            let wrong = [&row["wrong_content_type"], &row["wrong_extension"]];
            assert_eq!(wrong, names.each_ref());
        }
        assert!(second["text"].is_null() && second["alt"].is_null());
        assert!(second["text_from"].is_null() && second["language"].is_null());
        assert_eq!(
            (&second["page_noai"], &second["image_noai"]),
            (&true.into(), &false.into())
        );
        assert_eq!(second["page_tdm_reservation"], false);
        assert!(second["image_tdm_reservation"].is_null());
        assert_eq!(
            second["page_content_signals"],
            serde_json::json!(["ai-train=no"])
        );
    }
    assert_eq!(job.exports(), ["imagefolder", "jsonl"]);
}

#[test]
fn shards_hold_each_sample_whole_and_are_bounded() {
    let job = Job::of(12);
    let exported = job.export(&request(Format::WebDataset)).unwrap();
    let (files, samples) = shards(&exported.folder);
    assert!(files > 2, "{files} shards of {} bytes", exported.bytes);
    assert_eq!(samples.len(), 12);
    for (n, ((key, files), bytes)) in samples.iter().zip(&job.images).enumerate() {
        assert_eq!(key, &format!("{:08}", n + 1));
        assert_eq!(files.len(), 3);
        assert_eq!(&files[EXTENSIONS[(n + 1) % EXTENSIONS.len()]], bytes);
        let json = std::str::from_utf8(&files["json"]).unwrap();
        assert!(!json.contains(crate::sanitize::acts));
        let json: Json = serde_json::from_str(json).unwrap();
        assert_eq!(json["rank"], n + 1);
        let text = std::str::from_utf8(&files["txt"]).unwrap();
        assert_eq!(json["text"].as_str().unwrap_or_default(), text);
        assert!(n == 1 || text.ends_with(HOSTILE));
    }
    let biggest = job.images.iter().map(Vec::len).max().unwrap() as u64;
    for n in 0..files {
        let shard = exported.folder.join(format!("{n:05}.tar"));
        let length = shard.metadata().unwrap().len();
        // The last sample may exceed the limit, and a tar has headers and padding.
        assert!(length < SHARD_BYTES + biggest + 64 * 1024, "{length}");
    }
}

#[test]
fn tables_are_typed_and_hold_the_bytes() {
    let job = Job::of(12);
    let exported = job.export(&request(Format::Parquet)).unwrap();
    let (files, batches) = batches(&exported.folder);
    assert!(files > 1, "{files} files of {} bytes", exported.bytes);
    let mut n = 0;
    for batch in &batches {
        let image = batch.column_by_name("image").unwrap().as_struct();
        let bytes = image.column_by_name("bytes").unwrap().as_binary::<i32>();
        let paths = image.column_by_name("path").unwrap().as_string::<i32>();
        let column = |name: &str| batch.column_by_name(name).unwrap();
        for row in 0..batch.num_rows() {
            assert_eq!(bytes.value(row), job.images[n]);
            n += 1;
            let extension = EXTENSIONS[n % EXTENSIONS.len()];
            assert_eq!(paths.value(row), format!("{n:08}.{extension}"));
            assert_eq!(
                column("rank").as_primitive::<Int64Type>().value(row),
                n as i64
            );
            let score = column("score").as_primitive::<Float64Type>().value(row);
            assert_eq!(score, n as f64);
            let alt = column("alt").as_string::<i32>();
            let parents = column("parents").as_list::<i32>().value(row);
            let absent = n == 2;
            assert_eq!(alt.is_null(row), absent);
            assert_eq!(parents.len(), if absent { 0 } else { 2 });
            if !absent {
                assert_eq!(alt.value(row), format!("{n} {HOSTILE}"));
                assert_eq!(parents.as_string::<i32>().value(0), HOSTILE);
            }
            assert_eq!(column("page_noai").as_boolean().value(row), absent);
            assert_eq!(column("page_tdm_reservation").is_null(row), !absent);
            let fetched = column("fetched").as_primitive::<TimestampMillisecondType>();
            assert_eq!(fetched.value(row), 1_767_323_045_678);
            let weighted = column("parents_weighted").as_list::<i32>().value(row);
            assert_eq!(weighted.as_primitive::<Float64Type>().value(0), score);
        }
    }
    assert_eq!(n, 12);
}

#[test]
fn addresses_alone_need_no_bytes() {
    let job = Job::of(3);
    let images = job.config.job_folder().join("images/2026-01-02/a.test");
    for format in [Format::JsonLines, Format::WebDataset, Format::Parquet] {
        let request = Request {
            urls_only: true,
            top: NonZeroUsize::new(2),
            ..request(format)
        };
        let exported = job.export(&request).unwrap();
        assert_eq!((exported.samples, exported.bytes), (2, 0));
        match format {
            Format::JsonLines => {
                let rows = lines(&exported.folder.join("data.jsonl"));
                assert_eq!(rows.len(), 2);
                assert!(rows[0].get("file_name").is_none());
                assert_eq!(rows[0]["url"], "http://a.test/1.png");
                assert!(!exported.folder.join("images").exists());
            }
            Format::WebDataset => {
                let (_, samples) = shards(&exported.folder);
                let extensions: Vec<&str> = samples[0].1.keys().map(String::as_str).collect();
                assert_eq!((samples.len(), extensions), (2, vec!["json", "txt"]));
            }
            _ => {
                let (_, batches) = batches(&exported.folder);
                assert!(batches[0].column_by_name("image").is_none());
                let urls = batches[0].column_by_name("url").unwrap();
                assert_eq!(urls.as_string::<i32>().value(1), "http://a.test/2.gif");
            }
        }
    }
    assert_eq!(
        job.exports(),
        ["jsonl-urls", "parquet-urls", "webdataset-urls"]
    );
    assert_eq!(names(&images).len(), 6);
    let images = Request {
        urls_only: true,
        ..request(Format::ImageFolder)
    };
    let error = job.export(&images).unwrap_err().to_string();
    assert!(
        error.starts_with("an imagefolder is made of image files; "),
        "{error}"
    );
}

#[test]
fn the_card_is_inert_and_counts() {
    let job = Job::of(3);
    let request = Request {
        top: NonZeroUsize::new(2),
        ..request(Format::WebDataset)
    };
    let exported = job.export(&request).unwrap();
    let card = fs::read_to_string(exported.folder.join("README.md")).unwrap();
    let rest = card.strip_prefix("---\n").unwrap();
    let (front, body) = rest.split_once("\n---\n").unwrap();
    for line in [
        "pretty_name: \"x\"",
        "- \"de\"",
        "- n<1K",
        "    - \"*.tar\"",
        "  - name: png",
        "  - name: gif",
        "- image-to-text",
    ] {
        assert!(front.lines().any(|l| l == line), "no {line} in\n{front}");
    }
    assert!(!front.contains("name: jpg"), "none of the best two is one");
    for line in [
        "# `x`",
        "| `p.test` | 2 |",
        "| `de-at` | 1 |",
        "| `not declared` | 1 |",
        "| `https://licence.test/by` | 2 |",
        "| `page_noai` | 1 |",
        "| `image_noai` | 0 |",
        "| `page_tdm_policy` | 2 |",
        "| `page_content_signals` | 1 |",
        "| unique by picture | 3 |",
        "| the best 2 | 2 |",
        "| `none` | 1 |",
    ] {
        assert!(body.lines().any(|l| l == line), "no {line} in\n{body}");
    }
    // The hostile licence is one row of two cells, a code span and a count.
    let mut hostile = body.lines().filter(|line| line.contains("script"));
    let row = hostile.next().unwrap();
    assert!(
        row.starts_with("| `a b --- ") && row.ends_with("` | 2 |"),
        "{row}"
    );
    assert_eq!((row.matches('`').count(), row.matches('|').count()), (2, 3));
    assert_eq!(hostile.next(), None);
    assert!(body.contains("not load_dataset(\"webdataset\", data_dir="));
    assert!(card.chars().all(|c| c == '\n' || !c.is_control()));
    // The job's text is within a fence longer than any in it.
    let job_text = "`````toml\n[job]\nname = \"x\" # ````\n```\n---\n`````\n";
    assert!(body.ends_with(job_text), "{body}");
    for column in columns::columns(Format::WebDataset, false) {
        let row = format!("| `{}` | {} |", column.name, column.kind.name());
        assert!(body.contains(&row), "no {row}");
    }
}

#[test]
fn only_an_export_is_replaced_and_only_by_a_whole_one() {
    let job = Job::of(2);
    let at = |path: &Path| Request {
        to: Some(path.to_owned()),
        ..request(Format::JsonLines)
    };
    let to = job.root.path().join("out");
    // An empty folder counts as none, and an earlier export is replaced.
    fs::create_dir(&to).unwrap();
    job.export(&at(&to)).unwrap();
    assert!(place::has_mark(&to, &[MARK]));
    fs::write(to.join("stale"), "").unwrap();
    job.export(&Request {
        format: Format::Parquet,
        ..at(&to)
    })
    .unwrap();
    assert_eq!(names(&to), [MARK, "README.md", "data"]);

    let own = job.root.path().join("own");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("thesis.txt"), "mine").unwrap();
    let file = own.join("thesis.txt");
    for there in [&own, &file] {
        let error = job.export(&at(there)).unwrap_err();
        assert!(
            error.to_string().contains("is not an export of spoor"),
            "{error}"
        );
        assert!(error.to_string().contains(there.to_str().unwrap()));
    }
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    assert_eq!(names(&own), ["thesis.txt"]);
    let error = job.export(&at(Path::new("/"))).unwrap_err();
    assert!(
        error.to_string().contains("is not an export of spoor"),
        "{error}"
    );
    let error = job
        .export(&at(&job.root.path().join("new/..")))
        .unwrap_err();
    assert!(error.to_string().contains("--to"), "{error}");

    // An export that another process is writing is kept; one of a killed process is not.
    let busy = ExportFolder::prepare(&to).unwrap();
    assert!(job.export(&at(&to)).unwrap_err().is_busy());
    let left = job.root.path().join(".out.spoor-partial");
    assert_eq!(busy.path(), left);
    drop(busy);
    assert!(!left.exists());
    fs::create_dir(&left).unwrap();
    fs::write(left.join("half.parquet"), "PAR1").unwrap();
    job.export(&at(&to)).unwrap();
    assert_eq!(names(&to), [MARK, "README.md", "data.jsonl", "images"]);

    // After a failure the earlier export remains.
    let before = fs::read(to.join("data.jsonl")).unwrap();
    fs::remove_dir_all(job.config.job_folder().join("images")).unwrap();
    let error = job.export(&at(&to)).unwrap_err();
    assert!(error.to_string().contains("no images to rank"), "{error}");
    fs::create_dir(job.config.job_folder().join("images")).unwrap();
    let error = job.export(&at(&to)).unwrap_err();
    assert!(error.to_string().contains("no image to export"), "{error}");
    assert_eq!(fs::read(to.join("data.jsonl")).unwrap(), before);
    assert_eq!(names(job.root.path()), ["out", "own", "x"]);
}

#[test]
fn what_changed_since_the_ranking_is_left_out_and_counted() {
    let job = Job::of(5);
    let folder = job.config.job_folder();
    let ranking = rank::rank(&job.config).unwrap();
    let file = |n: usize| folder.join(&ranking.images[n].file);
    fs::remove_file(file(0)).unwrap();
    fs::write(file(1), "another").unwrap();
    let sidecar = |n: usize| format!("{}.json", file(n).display());
    fs::write(sidecar(2), "{}").unwrap();
    let text = fs::read_to_string(sidecar(3)).unwrap();
    fs::write(
        sidecar(3),
        text.replace("http://p.test/4", "http://p.test/x"),
    )
    .unwrap();
    let request = request(Format::WebDataset);
    let place = ExportFolder::prepare(&request.target(&folder)).unwrap();
    let exported = write(&folder, "x", &ranking, &request, place, |_, _| ()).unwrap();
    assert_eq!((exported.samples, exported.vanished), (1, 4));
    let (_, samples) = shards(&exported.folder);
    assert_eq!(samples[0].0, "00000005");
    let card = fs::read_to_string(exported.folder.join("README.md")).unwrap();
    assert!(card.contains("4 more were ranked and left out"), "{card}");
}

#[test]
fn the_text_is_the_first_that_describes() {
    let job = Job::of(1);
    let ranking = rank::rank(&job.config).unwrap();
    let image = &ranking.images[0];
    let sidecar = Sidecar::load(&job.config.job_folder(), &image.file).unwrap();
    let some = |text: &str| Some(text.to_owned());
    let mut context = context(&image.page, 1.0);
    context.page_title = some("page");
    context.texts = ImageTexts {
        alt: some("alt"),
        alt_kind: Some(AltKind::Written),
        title: some("title"),
        aria_label: some("label"),
        caption: some("json-ld"),
        figcaption: some("figure"),
        heading: some("heading"),
        parents: vec!["parent".to_owned()],
        file_name: some("name"),
        ..ImageTexts::default()
    };
    let mut seen = Vec::new();
    for step in 0..10 {
        let mut sample = ImageSample::new(1, image, sidecar.clone()).unwrap();
        sample.context = context.clone();
        let found = sample.context.words();
        seen.push(found.map(|words| format!("{}: {}", words.from.name(), words.text)));
        let texts = &mut context.texts;
        match step {
            0 => texts.figcaption = None,
            1 => {
                texts.caption = some(" \n");
                // As in sidecars from before this was recorded.
                texts.alt_kind = None;
            }
            2 => texts.alt_kind = Some(AltKind::FileName),
            3 => texts.title = None,
            4 => texts.aria_label = None,
            5 => texts.parents.clear(),
            6 => texts.heading = None,
            7 => context.page_title = None,
            _ => texts.file_name = None,
        }
    }
    let seen: Vec<&str> = seen
        .iter()
        .map(|s| s.as_deref().unwrap_or("none"))
        .collect();
    assert_eq!(
        seen,
        [
            "caption: figure",
            "caption: json-ld",
            "alt: alt",
            "title: title",
            "aria_label: label",
            "parent: parent",
            "heading: heading",
            "page_title: page",
            "name_words: name",
            "none",
        ]
    );
}
