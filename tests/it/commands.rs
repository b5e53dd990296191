//! What each command prints, and its exit code.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use spoor_lab::{Behaviour, Lab, MemoryTree};

use crate::support::texts::{self, image, link, page, some, topical};
use crate::support::{Job, JobText, Live, Ran, Wire, spoor};

/// A host of `n` pages, each with its own image and a link to the next.
fn chain(n: usize) -> MemoryTree {
    let mut tree = MemoryTree::default();
    for i in 0..n {
        let anchor = some(topical(), i, 1);
        let paragraphs = [
            some(topical(), i, 4),
            link(&format!("/{}.html", i + 1), &anchor),
            image(&format!("/{i}.png"), &anchor),
        ];
        tree.insert(
            "a.test",
            &format!("/{i}.html"),
            page("A page", "", &paragraphs),
        );
        tree.image(&format!("http://a.test/{i}.png"), 120, 120);
    }
    tree
}

const FIRST: &[&str] = &["http://a.test/0.html"];

fn text(rest: &str) -> JobText<'_> {
    JobText {
        seeds: FIRST,
        rest,
        ..JobText::default()
    }
}

/// The number of rows of one kind in the log; all must have different addresses.
fn finished(job: &Job, kind: &str) -> usize {
    let log = job.log();
    let rows: Vec<&str> = log
        .iter()
        .filter(|row| row["kind"] == kind)
        .map(|row| row["url"].as_str().unwrap())
        .collect();
    let distinct: BTreeSet<&&str> = rows.iter().collect();
    assert_eq!(distinct.len(), rows.len(), "something was fetched twice");
    rows.len()
}

fn package(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn config_check_shows_every_error_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("broken.toml");
    let broken = "[job]\nname = \"x\"\ncontakt = \"mailto:a@b.example\"\n\n\
                  [limits]\ndocuments = 0\n\n[politeness]\nmin_delay = \"soon\"\n";
    std::fs::write(&file, broken).unwrap();
    let file = file.to_str().unwrap();
    let good = folder.path().join("good.toml");
    let cats = std::fs::read_to_string(package("config/cats.toml")).unwrap();
    std::fs::write(&good, cats.replace("# contact = ", "contact = ")).unwrap();
    let error = Ran::of(&mut spoor(&[
        "config",
        "check",
        file,
        good.to_str().unwrap(),
    ]))
    .refused();
    for part in [
        ":3:",
        "job.contakt",
        "contact",
        ":6:",
        "limits.documents",
        ":9:",
        "politeness.min_delay",
        "3 errors",
        "1 file has errors",
    ] {
        assert!(error.contains(part), "`{part}` is missing in\n{error}");
    }
    assert_eq!(error.matches(file).count(), 4, "{error}");
    let out = Ran::of(&mut spoor(&["config", "check", good.to_str().unwrap()])).good();
    assert!(out.contains("good.toml: in order, 5 seeds"), "{out}");
    // This command reports everything that a crawl would refuse, in the same words.
    let cats = package("config/cats.toml");
    let cats = cats.to_str().unwrap();
    let checked = Ran::of(&mut spoor(&["config", "check", cats])).refused();
    let crawled = Ran::of(&mut spoor(&["crawl", cats])).refused();
    let line = |said: &str| {
        let said = said.replace("spoor: ", "");
        said.lines()
            .find(|l| l.contains("job.contact: is not set"))
            .unwrap()
            .to_owned()
    };
    assert_eq!(line(&checked), line(&crawled));
    assert!(
        line(&checked).starts_with(&format!("{cats}:6:")),
        "{checked}"
    );
}

#[test]
fn a_cause_is_printed_once() {
    let folder = tempfile::tempdir().unwrap();
    let missing = "No such file or directory";
    for arguments in [
        ["score", "--model", "no-such-model", "a text"].as_slice(),
        &["crawl", "no-such.toml"],
    ] {
        let said = Ran::of(spoor(arguments).current_dir(folder.path())).refused();
        assert_eq!(said.matches(missing).count(), 1, "{arguments:?}: {said}");
    }
}

#[test]
fn config_reference_is_the_file_that_is_shipped() {
    let out = Ran::of(&mut spoor(&["config", "reference"])).good();
    let file = std::fs::read_to_string(package("config/reference.toml")).unwrap();
    assert_eq!(out, file);
}

#[test]
fn a_crawl_without_contact_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.toml");
    let text = format!(
        "[job]\nname = \"x\"\nfolder = {:?}\n[seeds]\nurls = [\"http://a.test/\"]\n",
        folder.path()
    );
    std::fs::write(&file, text).unwrap();
    let error = Ran::of(&mut spoor(&["crawl", file.to_str().unwrap()])).refused();
    assert!(error.contains("job.contact"), "{error}");
    assert!(!folder.path().join("x").exists());
}

#[test]
fn missing_files_of_a_job_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.toml");
    let write = |rest: &str| {
        let text = format!(
            "[job]\nname = \"x\"\ncontact = \"mailto:a@b.example\"\nfolder = {:?}\n\
             [model]\nfolder = {:?}\n{rest}",
            folder.path(),
            folder.path().join("models")
        );
        std::fs::write(&file, text).unwrap();
    };
    let file_name = file.to_str().unwrap();
    let run = |command: &str| Ran::of(&mut spoor(&[command, file_name])).refused();
    write("[seeds]\nfiles = [\"no-such-seeds.txt\"]");
    assert!(run("crawl").contains("no-such-seeds.txt"));
    write("[seeds]\nurls = [\"http://a.test/\"]\n[train]\npositive = [\"no-such-texts\"]");
    assert!(run("crawl").contains("no-such-texts"));
    assert!(run("train").contains("no-such-texts"));
    write("[train]\npositive = []");
    assert!(run("crawl").contains("seeds.urls"));
    assert!(run("train").contains("train.positive"));
    let error = Ran::of(&mut spoor(&["crawl", "no-such-job.toml"])).refused();
    assert!(error.contains("no-such-job.toml"), "{error}");
    assert!(!folder.path().join("models").exists());
}

#[test]
fn warnings_are_plain_words() {
    let folder = tempfile::tempdir().unwrap();
    let text: String = (0..40)
        .map(|n| format!("The keeper lit the lamp of tower number {n} every evening at dusk.\n"))
        .collect();
    std::fs::write(folder.path().join("lamps.txt"), text).unwrap();
    let file = folder.path().join("job.toml");
    let job =
        "[job]\nname = \"x\"\ncontact = \"a@b.example\"\n[train]\npositive = [\"lamps.txt\"]\n";
    std::fs::write(&file, job).unwrap();
    let mut train = spoor(&["train", file.to_str().unwrap()]);
    let ran = Ran::of(train.current_dir(folder.path()));
    let said = ran.err.clone() + &ran.out;
    ran.good();
    assert!(said.contains("discounts of this order"), "{said}");
    assert!(
        said.contains("in 1 document about the topic are too few"),
        "{said}"
    );
    assert!(!said.contains("u{1b}"), "{said}");
}

/// The number after a label.
fn figure(out: &str, label: &str) -> f64 {
    let line = out.lines().find_map(|line| line.strip_prefix(label));
    let line = line.unwrap_or_else(|| panic!("no `{label}` in\n{out}"));
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn score_prints_figures_that_fit_each_other() {
    let (folder, name) = texts::model();
    let model = folder.join(name);
    let score = |more: &[&str]| {
        let mut arguments = vec!["score", "--model", model.to_str().unwrap()];
        arguments.extend(more);
        spoor(&arguments)
    };
    let sentence = &topical()[0];
    let near = Ran::of(&mut score(&[sentence])).good();
    let far = Ran::of(&mut score(&["Zqx vrrt plonk wibbet frumious gyre."])).good();
    let perplexity = figure(&near, "perplexity");
    assert!(perplexity < figure(&far, "perplexity") / 5.0, "{near}{far}");
    let weighted = (perplexity * (1.0 - 3.0 * figure(&near, "keyword score"))).max(1.0);
    assert!(
        (figure(&near, "weighted perplexity") - weighted).abs() < 1e-5 * perplexity,
        "{near}"
    );

    // The formula of the link score, computed from the printed parts, on both sides of its
    // condition.
    let facts = spoor::topic::model::ModelFacts::read(&model).unwrap();
    let threshold = facts.calibration.anchor_threshold;
    for (document, anchor) in [
        ("600", "the lighthouse keeper"),
        ("3", "the lighthouse keeper"),
        ("90000", "zqx vrrt"),
    ] {
        let out = Ran::of(&mut score(&[
            "--link",
            "--document-perplexity",
            document,
            anchor,
        ]))
        .good();
        let d = figure(&out, "document perplexity");
        let a = figure(&out, "anchor perplexity");
        let k = figure(&out, "anchor keyword");
        assert_eq!(d, document.parse::<f64>().unwrap());
        let base = if a <= threshold && a <= d {
            0.7 * d + 0.3 * a
        } else {
            d
        };
        let raw = base * (1.0 - 3.0 * k);
        let expected = if raw < 0.0 { 1.0 } else { raw };
        assert!(
            (figure(&out, "link score") - expected).abs() < 1e-5 * base,
            "{out}"
        );
    }

    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), sentence).unwrap();
    let input = std::fs::File::open(file.path()).unwrap();
    let read = Ran::of(score(&["-"]).stdin(Stdio::from(input))).good();
    assert_eq!(read, near);

    let error = Ran::of(&mut spoor(&["score", "--model", "no-such-model", "x"])).refused();
    assert!(error.contains("no-such-model"), "{error}");
}

#[test]
fn sigterm_drains_and_the_next_run_continues() {
    let slow = Behaviour::of("a.test").latency(Duration::from_millis(10));
    let wire = Wire::serve(Lab::from_memory(chain(60)).with_behaviour(slow));
    let job = Job::new(&wire, &text(""));
    let process = Live::start(&mut job.crawl());
    wire.wait(|n| n.requests.len() >= 20, || false);
    process.signal(Signal::SIGTERM);
    let out = process.ended().stopped();
    assert!(out.contains("It ended because of SIGTERM"), "{out}");
    assert!(out.contains("continues where it stopped"), "{out}");
    // Open requests were completed and recorded.
    let asked = wire.requests();
    assert!(asked.iter().all(|r| r.status.is_some()));
    assert!((20..121).contains(&asked.len()));
    assert_eq!(job.log().len(), asked.len());

    let out = job.run();
    assert!(out.contains("nothing is left to fetch"), "{out}");
    assert!(out.contains("pages     60 done of 61 fetches"), "{out}");
    assert!(out.contains("images    60 kept"), "{out}");
    // 60 pages, the missing one at the end, 60 images, and robots.txt, each once.
    assert_eq!(wire.requests().len(), 122);
    assert_eq!((finished(&job, "page"), finished(&job, "image")), (61, 60));
}

#[test]
fn limits_end_a_crawl() {
    let wire = Wire::serve(Lab::from_memory(chain(60)));
    let run = |rest: &str| {
        let job = Job::new(&wire, &text(rest));
        let out = job.run();
        (job, out)
    };
    let (job, out) = run("[limits]\ndocuments = 7");
    assert!(out.contains("limits.documents is reached"), "{out}");
    assert!(out.contains("images    7 kept"), "{out}");
    assert_eq!((finished(&job, "page"), finished(&job, "image")), (7, 7));
    // With a higher limit it continues where it was.
    job.write(
        &wire,
        &text("[limits]\ndocuments = 9\n[images]\nafter_limit = false"),
    );
    job.run();
    assert_eq!(finished(&job, "page"), 9);

    let (job, out) = run("[limits]\nfetches = 5\n[images]\nenabled = false");
    assert!(out.contains("limits.fetches is reached"), "{out}");
    assert_eq!((finished(&job, "page"), finished(&job, "image")), (5, 0));

    // Hard limits: nothing is fetched after them, not even images. Only one request is open at a
    // time here, so the last one crosses the line.
    let (job, out) = run("[limits]\nbytes = 5000");
    assert!(out.contains("limits.bytes is reached"), "{out}");
    let bytes: Vec<u64> = job
        .log()
        .iter()
        .map(|row| row["bytes"].as_u64().unwrap())
        .collect();
    let (last, before) = bytes.split_last().unwrap();
    let before: u64 = before.iter().sum();
    assert!(before < 5000 && before + last >= 5000, "{bytes:?}");

    let slow = Behaviour::of("a.test").latency(Duration::from_millis(40));
    let wire = Wire::serve(Lab::from_memory(chain(60)).with_behaviour(slow));
    let job = Job::new(&wire, &text("[limits]\ntime = 1"));
    let out = job.run();
    assert!(out.contains("limits.time is reached"), "{out}");
    // One request after the other, each at least 40 ms: a busy machine makes fewer within the
    // second, and without the limit it would be 122.
    let asked = wire.requests().len();
    assert!(asked <= 27, "{asked} requests");
    let out = job.run();
    assert!(out.contains("limits.time was reached before"), "{out}");
    assert_eq!(
        wire.requests().len(),
        asked,
        "the time counts over all runs"
    );
}

#[test]
fn a_second_process_on_the_same_job_is_refused() {
    let slow = Behaviour::of("a.test")
        .under("/0")
        .latency(Duration::from_secs(600));
    let wire = Wire::serve(Lab::from_memory(chain(2)).with_behaviour(slow));
    let job = Job::new(&wire, &text(""));
    let mut first = Live::start(&mut job.crawl());
    wire.wait_for("a.test/0.html");
    let error = Ran::of(&mut job.crawl()).refused();
    assert!(error.contains("another spoor works on this job"), "{error}");
    assert!(error.contains(job.folder().to_str().unwrap()), "{error}");
    assert_eq!(wire.requests().len(), 2);
    assert!(first.kill());
}

#[test]
fn a_damaged_store_is_reported_and_nothing_is_fetched() {
    let wire = Wire::serve(Lab::from_memory(chain(40)));
    let job = Job::new(&wire, &text(""));
    job.run();
    let before = wire.requests().len();
    let images = job.files("images");
    let store = job.folder().join("frontier");
    let file = store.join("db");
    let mut bytes = std::fs::read(&file).unwrap();
    for at in (0..bytes.len()).step_by(61) {
        bytes[at] ^= 0x5a;
    }
    std::fs::write(&file, bytes).unwrap();
    let error = Ran::of(&mut job.crawl()).refused();
    assert!(error.contains(store.to_str().unwrap()), "{error}");
    assert!(error.contains("move that folder away"), "{error}");
    assert_eq!(wire.requests().len(), before);

    // The advice works: saved results are kept, and the crawl begins again.
    std::fs::rename(&store, job.folder().join("away")).unwrap();
    let out = job.run();
    assert!(out.contains("images    40 kept"), "{out}");
    assert_eq!(job.files("images"), images);
}

#[test]
fn the_demo_speaks_plainly_in_a_pipe_and_finds_more_by_learning() {
    let folder = tempfile::tempdir().unwrap();
    let ran = Ran::of(spoor(&["demo"]).current_dir(folder.path()));
    let all = format!("{}{}", ran.out, ran.err);
    let control = all.chars().find(|c| c.is_control() && *c != '\n');
    assert_eq!(control, None, "{all:?}");
    let out = ran.good();
    let found = |strategy: &str| -> Vec<f64> {
        let line = out.lines().find_map(|line| line.strip_prefix(strategy));
        let cells = line
            .unwrap_or_else(|| panic!("no {strategy} in\n{out}"))
            .split_whitespace();
        cells
            .map(|c| c.trim_end_matches('%').parse().unwrap())
            .collect()
    };
    let (learn, plain) = (found("learn "), found("unfocused "));
    assert_eq!(learn[0], plain[0], "the same budget\n{out}");
    assert!(learn[1] > 1.5 * plain[1], "{out}");
    assert!(learn[3] > 0.0 && plain[3] > 0.0, "{out}");
    // The sentence counts pages, but the table counts fetches. The sentence also excludes the
    // seeds.
    let sentence = out.lines().find(|line| line.starts_with("Of 100 pages"));
    let sentence = sentence.unwrap_or_else(|| panic!("no headline in\n{out}"));
    let claimed = sentence
        .split([' ', ','])
        .filter_map(|word| word.parse::<f64>().ok());
    let claimed = claimed.take(2).last().unwrap();
    assert!((claimed - learn[2]).abs() <= 10.0, "{out}");
    for line in out
        .lines()
        .filter(|line| line.contains("  jobs/") || line.contains("  models/"))
    {
        let path = line.split_whitespace().last().unwrap();
        assert!(folder.path().join(path).exists(), "{path}");
    }
    assert!(!all.contains(" WARN "), "{all}");
    let report = out.lines().find_map(|line| line.split_once("file://"));
    let report = std::fs::read_to_string(report.unwrap().1).unwrap();
    assert!(report.contains("<html"), "{report}");
    let next: Vec<&str> = out.lines().filter(|l| l.starts_with("  spoor ")).collect();
    assert_eq!(next.len(), 3, "{out}");
    for command in next.iter().filter(|command| command.contains("job.toml")) {
        let arguments: Vec<&str> = command.split_whitespace().skip(1).collect();
        Ran::of(spoor(&arguments).current_dir(folder.path())).good();
    }

    // Both jobs have reached their limits, so another run fetches nothing.
    let again = Ran::of(spoor(&["demo"]).current_dir(folder.path())).good();
    let fetches = |out: &str| {
        out.lines()
            .find(|l| l.starts_with("learn "))
            .unwrap()
            .split_whitespace()
            .nth(1)
            .map(str::to_owned)
    };
    assert_eq!(fetches(&again), fetches(&out));
}

#[test]
fn a_closed_pipe_ends_the_command() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut child = spoor(&["config", "reference"]);
    let out = child.stdout(writer).output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(!out.status.success());
    assert_eq!(said, "");
}

/// Output for programs; each of these commands also has an output for people.
#[test]
fn output_for_programs_is_json() {
    let wire = Wire::serve(Lab::from_memory(chain(1)));
    let job = Job::new(&wire, &text(""));
    let (models, model) = texts::model();
    let (file, model) = (job.file(), models.join(model));
    let (file, model) = (file.to_str().unwrap(), model.to_str().unwrap());
    let said = |arguments: &[&str]| -> serde_json::Value {
        let out = Ran::of(&mut spoor(arguments)).good();
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{arguments:?}: {e}: {out}"))
    };
    let crawled = said(&["crawl", file, "--json"]);
    assert_eq!(
        (&crawled["pages"], &crawled["images"]),
        (&1.into(), &1.into())
    );
    assert_eq!(crawled["ended"], "exhausted");
    let ranked = said(&["rank", file, "--json"]);
    assert_eq!(
        (&ranked["initial"], &ranked["written"]),
        (&1.into(), &1.into())
    );
    let exported = said(&["export", file, "--format", "jsonl", "--json"]);
    assert_eq!(exported["images"], 1);
    let checked = said(&["frontier", "check", file, "--json"]);
    assert_eq!(checked["sound"], true);
    let compacted = said(&["frontier", "--json", "compact", file]);
    assert!(compacted["after"].as_u64().unwrap() > 0);
    let rated = said(&["score", "--json", "--model", model, "a text"]);
    assert!(rated["text"]["perplexity"].as_f64().unwrap() > 1.0);
    let link = [
        "score",
        "--json",
        "--link",
        "--document-perplexity",
        "9",
        "--model",
        model,
        "x",
    ];
    assert_eq!(said(&link)["parts"]["document"], 9.0);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_under_the_output_is_an_error_like_any_other() {
    for arguments in [
        &["config", "reference"][..],
        &["help", "images"],
        &["schema", "pdf"],
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let mut command = spoor(arguments);
        command.stdout(full.unwrap()).stderr(Stdio::piped());
        let ended = command.spawn().unwrap().wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("standard output cannot be written"), "{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn the_doctor_says_what_is_odd_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let file = folder.path().join("job.toml");
    let write = |listen: &str| {
        let job = format!(
            "[job]\nname = \"x\"\ncontact = \"a@b.example\"\n[seeds]\nurls = [\"http://127.0.0.1/\"]\n\
             [control]\nlisten = {listen}\n"
        );
        std::fs::write(&file, job).unwrap();
    };
    let examined = |limit: u32| {
        let mut shell = std::process::Command::new("sh");
        let program = env!("CARGO_BIN_EXE_spoor");
        let command = format!("ulimit -n {limit}; exec '{program}' doctor job.toml --json");
        Ran::of(shell.args(["-c", &command]).current_dir(folder.path()))
    };
    let odd = |ran: &Ran| {
        let findings: Vec<serde_json::Value> = serde_json::from_str(&ran.out).unwrap();
        let odd = findings.iter().filter(|found| !found["advice"].is_null());
        odd.map(|found| found["subject"].as_str().unwrap().to_owned())
            .filter(|subject| !["disk", "memory"].contains(&subject.as_str()))
            .collect::<Vec<_>>()
    };
    write("false");
    // Fewer files than are needed to keep connections.
    let ran = examined(1_000);
    assert_eq!(odd(&ran), ["open files"]);
    assert!(ran.out.contains("connections are not kept"), "{}", ran.out);
    write(&format!("\"{address}\""));
    let ran = examined(150);
    assert_eq!(odd(&ran), ["open files", "dashboard"]);
    assert!(ran.out.contains("need 192"), "{}", ran.out);
    ran.refused();
}
