//! `spoor corpus` as a process: jobs and archives, kills, takedowns.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use spoor_lab::Lab;

use crate::archiving::ARCHIVE;
use crate::support::texts::{link, other, page, some, topical, tree};
use crate::support::{Job, JobText, Live, Ran, Wire, spoor};

/// Keys that give the position of a document, not its contents.
const PLACE: [&str; 13] = [
    "archive",
    "canonical",
    "control",
    "crawl_contrast",
    "crawl_perplexity",
    "digest",
    "hash",
    "hops",
    "job",
    "length",
    "offset",
    "on_topic",
    "via",
];

fn build(plan: &Path, more: &[&str]) -> Ran {
    let mut arguments = vec!["corpus", "build", plan.to_str().unwrap()];
    arguments.extend(more);
    Ran::of(&mut spoor(&arguments))
}

fn lines(path: &Path) -> Vec<Value> {
    let bytes = std::fs::read(path).unwrap();
    let text = zstd::decode_all(bytes.as_slice()).unwrap();
    let text = String::from_utf8(text).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn documents(corpus: &Path) -> Vec<Value> {
    lines(&corpus.join("documents/00000.jsonl.zst"))
}

/// The names and contents of all files below a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(open) = folders.pop() {
        for entry in std::fs::read_dir(open).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_owned();
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// A crawled job with an archive: three hosts, a mirror and a near copy.
fn crawled() -> (Job, Wire) {
    let address = |n: usize| format!("http://{}.test/{n}", ["a", "b", "c"][n % 3]);
    let text = |n: usize| [some(other(), n * 9, 9), some(topical(), n * 3, 3)];
    let html = |n: usize, of: usize| {
        let [first, second] = text(of);
        let next = link(&address(n + 1), "a lighthouse");
        page(
            &format!("Light {n}"),
            "",
            // A control character, which is removed and counted.
            &[format!("{first}\u{8} {next}"), second],
        )
    };
    let mut pages: Vec<(String, String)> = (0..9).map(|n| (address(n), html(n, n))).collect();
    pages.push((address(9), html(9, 4)));
    pages.push((address(10), html(10, 5).replacen(" the ", " our ", 1)));
    let pages: Vec<(&str, String)> = pages
        .iter()
        .map(|(url, html)| (url.strip_prefix("http://").unwrap(), html.clone()))
        .collect();
    let wire = Wire::serve(Lab::from_memory(tree(&pages)));
    let job = Job::new(
        &wire,
        &JobText {
            seeds: &["http://a.test/0"],
            rest: ARCHIVE,
            ..JobText::default()
        },
    );
    job.run();
    (job, wire)
}

const STEPS: &str = "[[step]]\nkind = \"language\"\n[[step]]\nkind = \"quality\"\nrules = [\"gopher\"]\n\
    bounds = { words = { least = 20 } }\n[[step]]\nkind = \"copies\"\n[[step]]\nkind = \"mask\"\n";

/// The documents of a job and its pages in an archive give the same corpus; every page is in it or
/// listed with a reason; and a takedown removes pages from it.
#[test]
fn a_job_and_its_archive_give_the_same_corpus() {
    let (job, _wire) = crawled();
    let root = job.folder().parent().unwrap().to_owned();
    let plan = |name: &str, source: &str| {
        let path = root.join(format!("{name}.toml"));
        let formats = "formats = [\"parquet\", \"tsv\", \"vertical\", \"text\", \"sentences\"]";
        std::fs::write(
            &path,
            format!("[source]\n{source}\n{STEPS}[output]\n{formats}\n"),
        )
        .unwrap();
        path
    };
    let of_job = plan("of-job", "jobs = [\"job\"]");
    let of_warc = plan("of-warc", "archives = [\"job/archive\"]");
    let index = std::fs::read_dir(job.folder().join("archive")).unwrap();
    let index = index.map(|entry| entry.unwrap().path());
    let index = index.filter(|path| path.extension().is_some_and(|e| e == "cdxj"));
    let index: Vec<PathBuf> = index.collect();
    let of_index = plan("of-index", &format!("selections = {index:?}"));
    let (archive, wacz) = (job.folder().join("archive"), root.join("job.wacz"));
    let (archive, wacz) = (archive.to_str().unwrap(), wacz.to_str().unwrap());
    Ran::of(&mut spoor(&["archive", "pack", archive, "--output", wacz])).good();
    let of_wacz = plan("of-wacz", "archives = [\"job.wacz\"]");
    let mut all = Vec::new();
    for plan in [&of_job, &of_warc, &of_index, &of_wacz] {
        let out = build(plan, &[]).good();
        assert!(out.contains("\n9 documents, "), "{out}");
        let mut found = documents(&plan.with_extension(""));
        for document in &mut found {
            let map = document.as_object_mut().unwrap();
            PLACE.iter().for_each(|key| drop(map.remove(*key)));
        }
        all.push(found);
    }
    assert_eq!(all[0], all[1]);
    assert_eq!(all[1], all[2]);
    assert!(
        all[0]
            .iter()
            .all(|document| document["controls_removed"] == 1)
    );
    // A WACZ contains the same archive file, so all positions in it are the same.
    assert_eq!(
        documents(&root.join("of-wacz")),
        documents(&root.join("of-warc"))
    );
    let stored = &documents(&root.join("of-warc"))[0];
    assert!(stored["offset"].is_u64() && stored["digest"].as_str().unwrap().starts_with("sha1:"));
    assert_eq!(stored["mime"], "text/html");

    let removed = lines(&root.join("of-job/removed.jsonl.zst"));
    let reported: Vec<(&Value, &Value)> = removed
        .iter()
        .map(|r| (&r["rule"], &r["copy_of_url"]))
        .collect();
    let expected = [
        ("exact copy", "http://b.test/4"),
        ("near copy", "http://c.test/5"),
    ];
    let expected = expected.map(|(rule, of)| (json!(rule), json!(of)));
    let expected: Vec<(&Value, &Value)> = expected.iter().map(|(a, b)| (a, b)).collect();
    assert_eq!(reported, expected);
    let of_job = of_job.to_str().unwrap();
    let corpus =
        |arguments: &[&str]| Ran::of(&mut spoor(&[&["corpus"], arguments].concat())).good();
    let copies = corpus(&["copies", of_job]);
    assert!(copies.contains("http://c.test/5\n  near 0.9"), "{copies}");
    let stays = corpus(&["build", of_job, "--explain", "http://a.test/3"]);
    assert!(
        stays.contains("mean_word_length") && stays.contains("it is in the corpus"),
        "{stays}"
    );
    let goes = corpus(&["build", of_job, "--explain", "http://a.test/9"]);
    assert!(
        goes.contains("removed by copies: exact copy is 1; "),
        "{goes}"
    );
    let stats = corpus(&["stats", of_job]);
    assert!(stats.contains("copies: near copy"), "{stats}");
    let again = build(Path::new(of_job), &["--json"]).good();
    assert_eq!(
        serde_json::from_str::<Value>(&again).unwrap()["was_there"],
        true
    );

    // The index of a corpus is in use while it is searched, and is removed with the corpus.
    let of_warc = root.join("of-warc");
    let on = |command: &str, more: &[&str]| {
        let arguments = [&[command, of_warc.to_str().unwrap()], more].concat();
        Ran::of(&mut spoor(&arguments))
    };
    let indexed = on("index", &[]).good();
    assert!(indexed.starts_with("9 documents are indexed"), "{indexed}");
    let found = on("search", &["--json", "light"]).good();
    assert!(found.contains("http://b.test/4"), "{found}");
    let mut page = Live::start(&mut spoor(&[
        "search",
        of_warc.to_str().unwrap(),
        "--serve",
        "--listen",
        "127.0.0.1:0",
    ]));
    page.first_line();
    let file = job.file();
    let take_down = [
        "takedown",
        file.to_str().unwrap(),
        "--url",
        "http://b.test/4",
    ];
    let refused = Ran::of(&mut spoor(&take_down)).refused();
    assert!(refused.contains("`spoor search` or"), "{refused}");
    page.kill();
    let receipt = Ran::of(&mut spoor(&take_down)).good();
    assert!(
        receipt.contains("1 of ") && receipt.contains("documents of corpora removed"),
        "{receipt}"
    );
    for name in ["of-job", "of-warc", "of-index"] {
        let left = documents(&root.join(name));
        assert_eq!(left.len(), 8, "{name}");
        let all = files(&root.join(name));
        for (path, bytes) in &all {
            let text = zstd::decode_all(bytes.as_slice()).unwrap_or_else(|_| bytes.clone());
            let text = String::from_utf8_lossy(&text);
            assert!(
                !text.contains("http://b.test/4"),
                "{name}: {}",
                path.display()
            );
        }
        assert!(all.keys().any(|path| path.starts_with("parquet")));
    }
    assert!(on("search", &["light"]).refused().contains("no index yet"));
    on("index", &[]).good();
    let found = on("search", &["--json", "light"]).good();
    assert!(!found.contains("http://b.test/4"), "{found}");
    let refused = build(Path::new(of_job), &["--json"]);
    assert!(refused.status.success() || refused.refused().contains("--fresh"));
}

/// Why a test with an S3 server is skipped.
pub const NO_S3: &str = "SKIPPED: no python3 with moto and flask from PyPI; `.ci/run` installs \
    them in target/moto";

/// An S3 server from PyPI with its address, if a Python of this machine has it.
pub fn s3_server() -> Option<(Live, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let own = root.join("target/moto/bin/python");
    let python = if own.is_file() { own } else { "python3".into() };
    Command::new(&python).arg("--version").output().ok()?;
    let mut command = Command::new(python);
    command.arg(root.join("tests/python/s3.py"));
    let mut live = Live::start(command.stdin(Stdio::null()));
    let line = live.first_line();
    line.starts_with("http://").then_some((live, line))
}

/// An object of a server, if it exists.
pub fn object(address: &str, path: &str) -> Option<Vec<u8>> {
    let to = address.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(to).unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\
         Authorization: AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, \
         SignedHeaders=host, Signature=x\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let is_there = answer.starts_with(b"HTTP/1.1 200");
    is_there.then(|| answer.split_off(end + 4))
}

/// Writes a Parquet file with one row: a text, and an author of a megabyte repeated `times` times,
/// which is stored once.
fn parquet_with_authors(path: &Path, times: usize) {
    use parquet::data_type::{ByteArray, ByteArrayType};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    let schema = "message row { required binary text (UTF8); \
        optional group authors (LIST) { repeated group list { optional binary element (UTF8); } } }";
    let schema = parquet::schema::parser::parse_message_type(schema).unwrap();
    let properties = WriterProperties::builder().set_dictionary_page_size_limit(4 << 20);
    let properties = std::sync::Arc::new(properties.build());
    let file = std::fs::File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema.into(), properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let text = ByteArray::from(some(other(), 0, 9).into_bytes());
    let author = ByteArray::from(vec![b'a'; 1 << 20]);
    let mut column = group.next_column().unwrap().unwrap();
    let typed = column.typed::<ByteArrayType>();
    typed.write_batch(&[text], None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let typed = column.typed::<ByteArrayType>();
    let mut repeated = vec![1; times];
    repeated[0] = 0;
    let authors = vec![author; times];
    let defined = vec![3; times];
    typed
        .write_batch(&authors, Some(&defined), Some(&repeated))
        .unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}

/// A Parquet file that expands to gigabytes fails in its own process, and the next build continues
/// without it.
#[test]
fn a_parquet_file_takes_no_more_memory_than_is_stated() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.toml");
    let text = "[source]\njsonl = [\"in.parquet\"]\n[output]\nformats = [\"tsv\"]\n";
    std::fs::write(&plan, text).unwrap();
    let rows = folder.path().join("in.parquet");
    parquet_with_authors(&rows, 8_000);
    let size = rows.metadata().unwrap().len();
    assert!(size < 3 << 20, "{size}");
    let command = &mut spoor(&["corpus", "build", plan.to_str().unwrap()]);
    let (ran, peak) = Live::start(command).ended_with_peak();
    let said = ran.refused();
    assert!(said.contains("in.parquet"), "{said}");
    assert!(said.contains("more than 1024 MiB of memory"), "{said}");
    assert!(peak < 200 << 10, "{peak} KiB");
    parquet_with_authors(&rows, 8);
    build(&plan, &["--fresh"]).good();
    assert_eq!(documents(&folder.path().join("plan")).len(), 1);
}

/// A corpus is uploaded to the store of its plan file by file, also after a second build, and
/// removals reach the store.
#[test]
fn a_store_has_the_same_files() {
    let Some((_server, address)) = s3_server() else {
        eprintln!("{NO_S3}");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let line = |n: usize| {
        let url = format!("http://a.test/{n}");
        format!("{}\n", json!({"url": url, "text": some(other(), n * 3, 9)}))
    };
    let lines: String = (0..40).map(line).collect();
    std::fs::write(folder.path().join("in.jsonl"), lines).unwrap();
    let plan = folder.path().join("plan.toml");
    let text = "[source]\njsonl = [\"in.jsonl\"]\n[output]\nformats = [\"parquet\", \"tsv\"]\n\
        shard_bytes = 4000\n";
    std::fs::write(&plan, text).unwrap();
    let build = |command: &str, more: &[&str]| {
        let arguments = [&["corpus", command, plan.to_str().unwrap()], more].concat();
        let mut command = spoor(&arguments);
        command.env("AWS_ENDPOINT_URL", &address);
        command
            .env("AWS_ACCESS_KEY_ID", "key")
            .env("AWS_SECRET_ACCESS_KEY", "secret");
        Ran::of(&mut command)
    };
    build("build", &[]).good();
    // If the plan names a store later, the existing corpus is uploaded.
    std::fs::write(&plan, format!("{text}store = \"s3://spoor/corpora/one\"\n")).unwrap();
    let out = build("build", &["--json"]).good();
    let out: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(out["was_there"], true);
    let local = files(&folder.path().join("plan"));
    assert_eq!(out["sent"]["files"], local.len());
    let there = |at: &str| object(&address, &format!("/spoor/corpora/one/{at}"));
    let is_same = || {
        let local = files(&folder.path().join("plan"));
        for (path, bytes) in &local {
            let name = path.to_str().unwrap();
            assert!(there(name).as_ref() == Some(bytes), "{name}");
        }
        local
    };
    let first = is_same();
    let again: Value = serde_json::from_str(&build("build", &["--json"]).good()).unwrap();
    assert_eq!(again["sent"]["files"], 0);
    build("remove", &["--url", "http://a.test/7"]).good();
    let second = is_same();
    let gone: Vec<_> = first
        .keys()
        .filter(|path| !second.contains_key(*path))
        .collect();
    assert!(
        gone.iter()
            .all(|path| there(path.to_str().unwrap()).is_none())
    );
    let nowhere = format!("{text}store = \"s3://nowhere/x\"\n");
    std::fs::write(&plan, nowhere).unwrap();
    let refused = build("build", &[]).refused();
    assert!(
        refused.contains("s3://nowhere/x: ") && refused.contains("AWS_"),
        "{refused}"
    );
}

/// A build that is killed at any point ends with the same bytes.
#[test]
fn a_build_that_is_killed_gives_the_same_bytes() {
    kill(4, 4_000);
}

#[test]
#[ignore = "minutes: twenty kills"]
fn a_build_that_is_killed_twenty_times_gives_the_same_bytes() {
    kill(20, 20_000);
}

fn kill(kills: usize, documents: usize) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let lines: String = (0..documents)
        .map(|n| {
            let text = some(other(), n % (documents * 2 / 3) * 3, 3);
            let text = format!("{text} This is number {}.", n % (documents * 2 / 3));
            format!(
                "{}\n",
                json!({"url": format!("http://a.test/{n}"), "text": text})
            )
        })
        .collect();
    std::fs::write(root.join("in.jsonl"), lines).unwrap();
    let plan = |name: &str| {
        let path = root.join(format!("{name}.toml"));
        let text = "[source]\njsonl = [\"in.jsonl\"]\n[[step]]\nkind = \"perplexity\"\n\
            model = \"neutral\"\nbuckets = [0.3, 0.6]\n[[step]]\nkind = \"copies\"\nleast = 1\n\
            [output]\nformats = [\"tsv\"]\nfolder = \"NAME/corpus\"\n";
        std::fs::create_dir(root.join(name)).unwrap();
        std::fs::write(&path, text.replace("NAME", name)).unwrap();
        path
    };
    let calm = plan("calm");
    let table = build(&calm, &[]).good();
    assert!(table.contains("exact copy "), "{table}");
    let killed = plan("killed");
    let work = root.join("killed/.corpus.spoor-build");
    // The build renames and removes files in the meantime: missing files do not count.
    let size = || {
        let entries = std::fs::read_dir(&work).into_iter().flatten().flatten();
        let lengths = entries.filter_map(|entry| Some(entry.metadata().ok()?.len()));
        lengths.fold((0, 0), |(files, bytes), length| (files + 1, bytes + length))
    };
    let mut count = 0;
    while count < kills {
        let mut live = Live::start(&mut spoor(&["corpus", "build", killed.to_str().unwrap()]));
        // Something must have been done since the last kill, or no run would ever end.
        let before = size();
        live.wait_for(|| size() != before);
        if !live.kill() {
            break;
        }
        count += 1;
    }
    assert!(count > 0, "it ended before it could be killed");
    let ended = build(&killed, &[]).good();
    let without_folder = |text: &str| text.replace("calm", "killed");
    assert_eq!(ended.lines().next(), table.lines().next());
    let (mut calm, mut other) = (
        files(&root.join("calm/corpus")),
        files(&root.join("killed/corpus")),
    );
    // These files name the folder.
    for name in [".spoor-corpus", "plan.toml", "README.md"] {
        let calm = calm.remove(Path::new(name)).unwrap();
        let other = other.remove(Path::new(name)).unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (calm, other) = (text(calm), text(other));
        if name != ".spoor-corpus" {
            assert_eq!(without_folder(&calm), other);
        }
    }
    assert_eq!(
        calm.keys().collect::<Vec<_>>(),
        other.keys().collect::<Vec<_>>()
    );
    assert!(calm == other, "contents differ after {count} kills");
    assert!(!work.exists());
}

/// Pages that no corpus keeps, and a page of 40 MB.
#[test]
fn hostile_pages_are_explained_and_harm_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("pages");
    std::fs::create_dir_all(pages.join("deep")).unwrap();
    let paragraph = format!("<p>{}</p>\n", some(topical(), 0, 4));
    let write = |name: &str, html: &str| std::fs::write(pages.join(name), html).unwrap();
    write("a.html", &page("", "", &[some(topical(), 0, 9)]));
    write("digits.html", &page("Pi", "", &["3".repeat(3_776)]));
    write("deep/art.txt", &"/\\_/\\ ( -.- ) > ^ <\n".repeat(200));
    write("empty.html", "");
    write(
        "nul.txt",
        &format!("{}\0\0 {}", some(other(), 0, 5), some(other(), 9, 9)),
    );
    write(
        "large.html",
        &paragraph.repeat((40 << 20) / paragraph.len()),
    );
    write("deep/nested.html", &"<div>".repeat(200_000));
    std::fs::write(pages.join("binary.html"), [0_u8, 1, 2, 255].repeat(9_000)).unwrap();
    let plan = folder.path().join("plan.toml");
    std::fs::write(&plan, "[source]\nfolders = [\"pages\"]\n").unwrap();
    let out = build(&plan, &[]).good();
    let found = documents(&folder.path().join("plan"));
    let urls: Vec<&str> = found.iter().map(|d| d["url"].as_str().unwrap()).collect();
    assert_eq!(
        urls,
        ["file:a.html", "file:large.html", "file:nul.txt"],
        "{out}"
    );
    assert_eq!(
        (&found[2]["controls_removed"], &found[0]["host"]),
        (&json!(2), &json!(""))
    );
    assert!(found[1]["text"].as_str().unwrap().len() <= 2 << 20);
    let removed = lines(&folder.path().join("plan/removed.jsonl.zst"));
    assert_eq!(removed.len(), 5);
    assert!(
        removed
            .iter()
            .all(|line| line["bound"].is_string() && line["step"] == "extract")
    );

    let error = |text: &str| {
        std::fs::write(&plan, text).unwrap();
        build(&plan, &[]).refused()
    };
    let said = error("[source]\nfolders = [\"pages\"]\n[[step]]\nkind = \"mask\"\n");
    assert!(said.contains("--fresh"), "{said}");
    let said = error("[source]\nfolders = [\"gone\"]\n");
    assert!(said.contains("gone"), "{said}");
    let said = error("[source]\njobs = [\"pages\"]\n");
    assert!(said.contains("documents/ or archive/"), "{said}");
}
