//! PDF files: `spoor pdf`, corpora of them, and crawls that find them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use flate2::{Compression, write::ZlibEncoder};
use serde_json::Value;
use spoor::pdf::{Failure, Limits, Offsets, Original, Reader};
use spoor_lab::Lab;

use crate::archiving::ARCHIVE;
use crate::export::shipped_schema;
use crate::support::pdfs::{Made, damaged, file, manual};
use crate::support::texts::{link, page, some, topical, tree};
use crate::support::{Job, JobText, Ran, Wire, spoor};

/// A folder with the file `name`.
fn folder_with(files: &[(&str, Vec<u8>)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    folder
}

fn pdf(folder: &Path, arguments: &[&str]) -> Ran {
    let mut command = spoor(&["pdf"]);
    Ran::of(command.current_dir(folder).args(arguments))
}

fn reader(limits: Limits) -> Reader {
    Reader::new(PathBuf::from(env!("CARGO_BIN_EXE_spoor")), limits)
}

/// A file with one page that has this content, compressed.
fn compressed(content: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).unwrap();
    // As hexadecimal digits, which a text file may contain.
    let packed = encoder.finish().unwrap();
    let packed: String = packed.iter().map(|byte| format!("{byte:02x}")).collect();
    let length = packed.len() + 1;
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R >>".to_owned(),
        format!(
            "<< /Length {length} /Filter [/ASCIIHexDecode /FlateDecode] >>\nstream\n{packed}>\n\
             endstream"
        ),
    ];
    file(&objects, "")
}

/// A file whose page has a drawing that draws another one ten times, and so on.
fn nested() -> Vec<u8> {
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources \
         << /XObject << /X 5 0 R >> >> >>"
            .to_owned(),
        "<< /Length 5 >>\nstream\n/X Do\nendstream".to_owned(),
    ];
    for level in 5..25 {
        let content = "/X Do ".repeat(10);
        objects.push(format!(
            "<< /Type /XObject /Subtype /Form /BBox [0 0 612 792] /Resources << /XObject \
             << /X {} 0 R >> >> /Length {} >>\nstream\n{content}\nendstream",
            level + 1,
            content.len()
        ));
    }
    file(&objects, "")
}

#[test]
fn the_command_prints_text_and_places() {
    let folder = folder_with(&[("lamp.pdf", manual())]);
    let text = pdf(folder.path(), &["lamp.pdf"]).good();
    assert!(
        text.starts_with("This is the first page about a lighthouse and its lamp.")
            || text.starts_with("This is the first page about a lighthouse\n"),
        "{text}"
    );
    assert!(
        text.contains("well-known stones") && text.contains("lights the fire"),
        "{text}"
    );
    assert!(!text.contains("Chapter"), "{text}");
    let raw = pdf(folder.path(), &["--raw", "lamp.pdf"]).good();
    assert!(raw.starts_with("The lamp Chapter 1\nThis is the first page about a light-\nhouse"));

    let json = pdf(folder.path(), &["--json", "lamp.pdf"]).good();
    let value: Value = serde_json::from_str(&json).unwrap();
    shipped_schema("pdf").validate(&value).unwrap();
    assert_eq!(value["title"], "The lamp");
    assert_eq!(value["authors"][0], "Ada Light");
    assert_eq!(value["links"][0]["url"], "http://lamps.test/keeper");
    let original = pdf(folder.path(), &["--raw", "--json", "lamp.pdf"]).good();
    let original: Value = serde_json::from_str(&original).unwrap();
    let characters: Vec<char> = original["text"].as_str().unwrap().chars().collect();
    let offsets: Offsets = serde_json::from_value(value).unwrap();
    for (at, chunk) in &offsets.chunks {
        for (number, c) in (0..).zip(chunk.chars()) {
            let there = characters[offsets.place(*at, number).unwrap() as usize];
            assert!(c == there || there == 'ﬁ', "{c:?} {there:?}");
        }
    }
}

#[test]
fn each_failure_has_its_words_and_the_other_files_are_printed() {
    let mut secret = Made::titled("a", "b");
    secret.page().put(72, 700, "secret");
    let mut blank = Made::default();
    blank.page();
    let folder = folder_with(&[
        ("lamp.pdf", manual()),
        ("secret.pdf", secret.encrypted().bytes()),
        ("blank.pdf", blank.bytes()),
        ("broken.pdf", b"%PDF-1.4 and nothing else".to_vec()),
    ]);
    let files = ["secret.pdf", "blank.pdf", "broken.pdf", "lamp.pdf"];
    let ran = pdf(folder.path(), &files);
    assert_eq!(ran.status.code(), Some(1), "{ran:#?}");
    for says in [
        "spoor: secret.pdf: it is encrypted",
        "spoor: blank.pdf: its pages have no text",
        "spoor: broken.pdf: it is damaged, or no PDF",
    ] {
        assert!(ran.err.contains(says), "{}", ran.err);
    }
    assert!(ran.out.contains("==> lamp.pdf <=="), "{}", ran.out);
    let missing = pdf(folder.path(), &["missing.pdf"]).refused();
    assert!(missing.contains("missing.pdf"), "{missing}");
}

#[test]
fn a_file_may_cost_so_much_time_and_memory() {
    // A megabyte of them expands to a gigabyte of spaces.
    let bomb = compressed(&vec![b' '; 400 << 20]);
    let limits = Limits {
        memory: 192 << 20,
        ..Limits::default()
    };
    let failure = reader(limits).read(&bomb).unwrap_err();
    assert!(matches!(failure, Failure::Memory(192)), "{failure:?}");
    let limits = Limits {
        time: std::time::Duration::from_millis(400),
        ..Limits::default()
    };
    let begun = Instant::now();
    let failure = reader(limits).read(&nested()).unwrap_err();
    assert!(matches!(failure, Failure::Timeout(_)), "{failure:?}");
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    // Pages beyond the limit are left out, and this is reported.
    let limits = Limits {
        pages: 2,
        ..Limits::default()
    };
    let original = reader(limits).read(&manual()).unwrap();
    assert!(original.cut && !original.text.contains("third"));
    let gone = Reader::new(PathBuf::from("/no/such/program"), Limits::default());
    assert!(matches!(gone.read(&manual()), Err(Failure::Start(_))));
}

/// Reads damaged files; every failure must have a known reason, and none may take long.
fn survives(files: &[Vec<u8>], seeds: std::ops::Range<u64>) -> (usize, usize) {
    let limits = Limits {
        time: std::time::Duration::from_secs(20),
        memory: 512 << 20,
        ..Limits::default()
    };
    let reader = reader(limits);
    let (mut read, mut refused) = (0, 0);
    for seed in seeds {
        let whole = &files[seed as usize / 10 % files.len()];
        match reader.read(&damaged(whole, seed)) {
            Ok(Original { text, .. }) => {
                assert!(!text.is_empty());
                read += 1;
            }
            Err(Failure::Start(error)) => panic!("{error}"),
            Err(Failure::Timeout(time)) => panic!("seed {seed} took {time:?}"),
            Err(_) => refused += 1,
        }
    }
    (read, refused)
}

#[test]
fn damaged_files_end_the_process_that_reads_them_at_most() {
    let (read, refused) = survives(&[manual()], 0..10);
    assert_eq!(read + refused, 10);
    assert!(read >= 5, "{read}");
}

/// With `SPOOR_PDFS` naming a folder of PDF files, uses these.
#[test]
#[ignore = "the long form: 100 damaged files, or as many of each file in SPOOR_PDFS"]
fn a_hundred_damaged_files_are_bounded() {
    let mut files = vec![manual()];
    if let Some(folder) = std::env::var_os("SPOOR_PDFS") {
        files = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
            .collect();
    }
    let count = (files.len() as u64 * 10).max(100);
    let (read, refused) = survives(&files, 0..count);
    println!("{read} read, {refused} refused");
    assert!(read > refused, "{read} {refused}");
}

#[test]
fn a_folder_of_files_becomes_a_corpus() {
    let folder = folder_with(&[]);
    let texts = folder.path().join("texts");
    std::fs::create_dir(&texts).unwrap();
    std::fs::write(texts.join("lamp.pdf"), manual()).unwrap();
    std::fs::write(texts.join("broken.pdf"), b"%PDF-1.4").unwrap();
    let plan = folder.path().join("plan.toml");
    std::fs::write(&plan, "[source]\nfolders = [\"texts\"]\n").unwrap();
    Ran::of(&mut spoor(&["corpus", "build", plan.to_str().unwrap()])).good();
    let lines = |name: &str| -> Vec<Value> {
        let bytes = std::fs::read(folder.path().join("plan").join(name)).unwrap();
        let text = String::from_utf8(zstd::decode_all(&*bytes).unwrap()).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let documents = lines("documents/00000.jsonl.zst");
    let [document] = &documents[..] else {
        panic!("{documents:#?}");
    };
    assert_eq!(document["url"], "file:lamp.pdf");
    assert_eq!(document["title"], "The lamp");
    assert_eq!(document["authors"][0], "Ada Light");
    assert_eq!(document["published"], "2024-02-29T12:30:05+01:00");
    assert_eq!(document["mime"], "application/pdf");
    let text = document["text"].as_str().unwrap();
    assert!(
        text.starts_with("This is the first page about a lighthouse and its lamp."),
        "{text}"
    );
    assert_eq!(text.split("\n\n").count(), 6, "{text}");
    let removed = lines("removed.jsonl.zst");
    assert_eq!(removed[0]["url"], "file:broken.pdf");
    assert_eq!(
        (&removed[0]["rule"], &removed[0]["value"]),
        (&"pdf".into(), &"damaged".into())
    );
}

/// A model is trained on a folder of files, one of which is broken, and rates a file.
#[test]
fn files_are_texts_to_train_on_and_to_rate() {
    let mut made = Made::titled("Lights of the coast", "Ada Light");
    for part in topical().chunks(20).take(10) {
        made.page();
        for (number, sentence) in (0..).zip(part) {
            let line: String = sentence.chars().filter(char::is_ascii).take(90).collect();
            made.put(72, 700 - 12 * number, &line);
        }
    }
    let folder = folder_with(&[("broken.pdf", b"%PDF-1.4".to_vec())]);
    let texts = folder.path().join("texts");
    std::fs::create_dir(&texts).unwrap();
    std::fs::write(texts.join("lights.pdf"), made.bytes()).unwrap();
    std::fs::write(texts.join("broken.pdf"), b"%PDF-1.4").unwrap();
    let job = folder.path().join("job.toml");
    let text = |positive: &str| {
        format!("[job]\nname = \"job\"\n[train]\npositive = [{positive:?}]\norder = 3\n")
    };
    let run = |arguments: &[&str]| {
        let mut command = spoor(arguments);
        Ran::of(command.current_dir(folder.path()))
    };
    std::fs::write(&job, text("broken.pdf")).unwrap();
    let message = run(&["train", "job.toml", "--force"]).refused();
    assert!(message.contains("broken.pdf: it is damaged"), "{message}");
    std::fs::write(&job, text("texts")).unwrap();
    run(&["train", "job.toml", "--force"]).good();

    let file = texts.join("lights.pdf");
    let file = file.to_str().unwrap();
    let looked = run(&["score", "job.toml", "--file", file, "--json"]).good();
    let looked: Value = serde_json::from_str(&looked).unwrap();
    assert_eq!(looked["title"], "Lights of the coast");
    let message = run(&["score", "models/job", "--file", "broken.pdf"]).refused();
    assert!(message.contains("broken.pdf: it is damaged"), "{message}");
}

/// The address of a PDF file can be a training text, and one that cannot be read is reported.
#[test]
fn addresses_of_files_are_texts_to_train_on() {
    let wire = web();
    let text = JobText {
        seeds: &["http://one.test/"],
        rest: "",
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    let whole = std::fs::read_to_string(job.file()).unwrap();
    // A separate model, not the one that all tests share.
    let models = job.file().with_file_name("models");
    let whole: String = whole
        .lines()
        .map(|line| {
            if line.starts_with("folder = ") && line.contains("models") {
                format!("folder = {models:?}\n")
            } else {
                format!("{line}\n")
            }
        })
        .collect();
    let train = |positive: &str| {
        let text = format!("{whole}[train]\npositive = [{positive:?}]\n");
        std::fs::write(job.file(), text).unwrap();
        let file = job.file();
        Ran::of(&mut spoor(&["train", file.to_str().unwrap(), "--force"]))
    };
    train("http://one.test/paper.pdf").good();
    let message = train("http://one.test/broken.pdf").refused();
    assert!(
        message.contains("one.test/broken.pdf: bad_pdf: "),
        "{message}"
    );
}

/// A page that links to a PDF about its topic, which links to another page.
fn web() -> Wire {
    let mut made = Made::titled("Lights of the coast", "Ada Light");
    made.page();
    for (number, sentence) in (0..).zip(topical().iter().take(20)) {
        let line: String = sentence.chars().filter(char::is_ascii).take(90).collect();
        made.put(72, 700 - 12 * number, &line);
    }
    made.put(72, 400, "more of the lighthouse");
    made.link((72, 396, 200, 412), "http://one.test/more");
    let start = page(
        "A lighthouse",
        "",
        &[
            some(topical(), 0, 5),
            link("/paper.pdf", "the lighthouse in print"),
            link("/broken.pdf", "the lighthouse, broken"),
        ],
    );
    let more = page("More", "", &[some(topical(), 20, 5)]);
    let mut tree = tree(&[("one.test/", start), ("one.test/more", more)]);
    tree.insert_as("one.test", "/paper.pdf", "application/pdf", made.bytes());
    tree.insert_as(
        "one.test",
        "/broken.pdf",
        "application/pdf",
        &b"%PDF-1.5"[..],
    );
    Wire::serve(Lab::from_memory(tree))
}

#[test]
fn a_crawl_reads_files_and_follows_their_links_where_the_job_says_so() {
    let wire = web();
    let rest = format!("{ARCHIVE}\n[scope]\naccept_types = [\"text/html\", \"application/pdf\"]");
    let seeds = &["http://one.test/"];
    let job = Job::new(
        &wire,
        &JobText {
            seeds,
            rest: &rest,
            ..JobText::default()
        },
    );
    job.run();
    let check = |log: &[Value], documents: Vec<spoor::outputs::Document>| {
        let of = |path: &str| {
            let url = format!("http://one.test/{path}");
            log.iter().find(|row| row["url"] == url).unwrap()
        };
        assert_eq!(of("paper.pdf")["outcome"], "done", "{}", of("paper.pdf"));
        assert!(of("paper.pdf")["document"]["tokens"].as_u64().unwrap() > 100);
        assert_eq!(of("more")["via"], "http://one.test/paper.pdf");
        assert_eq!(of("broken.pdf")["reason"], "bad_pdf");
        let why = of("broken.pdf")["error"].as_str().unwrap();
        assert!(why.starts_with("damaged: it is damaged"), "{why}");
        let paper = documents
            .iter()
            .find(|d| d.url.ends_with("paper.pdf"))
            .unwrap();
        assert_eq!(paper.title.as_deref(), Some("Lights of the coast"));
        assert_eq!(paper.authors, ["Ada Light"]);
        assert_eq!(
            paper.published.as_deref(),
            Some("2024-02-29T12:30:05+01:00")
        );
        assert_eq!(paper.mime.as_deref(), Some("application/pdf"));
        assert!(
            paper.text.ends_with("more of the lighthouse"),
            "{}",
            paper.text
        );
    };
    check(&job.log(), job.documents());
    assert!(job.files("images").is_empty());

    // The same results from the archive, by replay and as a corpus.
    let file = job.file();
    let archive = job.folder().join("archive");
    let archive = archive.to_str().unwrap();
    let replay = ["replay", file.to_str().unwrap(), "--from", archive];
    Ran::of(&mut spoor(&replay)).good();
    let plan = file.with_file_name("plan.toml");
    std::fs::write(&plan, format!("[source]\narchives = [{archive:?}]\n")).unwrap();
    Ran::of(&mut spoor(&["corpus", "build", plan.to_str().unwrap()])).good();
    let bytes = std::fs::read(plan.with_file_name("plan/documents/00000.jsonl.zst")).unwrap();
    let text = String::from_utf8(zstd::decode_all(&*bytes).unwrap()).unwrap();
    assert!(text.contains("\"mime\":\"application/pdf\""), "{text}");
}

#[test]
fn without_the_type_no_file_is_fetched() {
    let wire = web();
    let job = Job::new(
        &wire,
        &JobText {
            seeds: &["http://one.test/"],
            ..JobText::default()
        },
    );
    job.run();
    let asked = wire
        .requests()
        .iter()
        .any(|seen| seen.path.ends_with(".pdf"));
    assert!(!asked);
}
