//! From an empty folder: a job from seeds, its file, its resumption and its refusals.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use spoor_lab::{Lab, MemoryTree};

use crate::support::texts::{self, image, link, page, some, topical};
use crate::support::{Job, JobText, Ran, Wire, spoor};

/// Pages about the topic, each with enough text to learn from and a link to the next.
fn web() -> Wire {
    let mut tree = MemoryTree::default();
    for i in 0..8 {
        let mut paragraphs: Vec<String> = (0..10)
            .map(|n| some(topical(), i * 40 + n * 4, 4))
            .collect();
        paragraphs.push(link(&format!("/{}.html", i + 1), &some(topical(), i, 1)));
        tree.insert(
            "lamps.test",
            &format!("/{i}.html"),
            page("Lamps", "", &paragraphs),
        );
    }
    tree.insert(
        "lamps.test",
        "/short.html",
        page("Short", "", &[some(topical(), 1, 2)]),
    );
    Wire::serve(Lab::from_memory(tree))
}

/// A command in `folder`, with the keys to reach the web of the test.
fn at(folder: &Path, wire: &Wire, arguments: &[&str]) -> Command {
    let connect = format!("network.connect_to=[\"*.test:80:{}\"]", wire.addr);
    let mut all = arguments.to_vec();
    for key in [
        connect.as_str(),
        "network.allow_private=true",
        "politeness.min_delay=0s",
        "politeness.delay_factor=0.0",
        "politeness.retries=0",
        "consent.tdmrep=false",
    ] {
        all.extend(["--set", key]);
    }
    let mut command = spoor(&all);
    command.current_dir(folder);
    command
}

const SEEDS: [&str; 6] = [
    "--seed",
    "http://lamps.test/0.html",
    "--seed",
    "http://lamps.test/1.html",
    "--seed",
    "http://lamps.test/2.html",
];

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn seeds_and_a_contact_are_enough_and_the_same_command_continues() {
    let folder = tempfile::tempdir().unwrap();
    let wire = web();
    let mut arguments = vec!["crawl"];
    arguments.extend(SEEDS);
    arguments.extend(["--contact", "tests@spoor.example", "--name", "lamps"]);
    arguments.extend(["--pages", "4", "--json"]);
    let ran = Ran::of(&mut at(folder.path(), &wire, &arguments));
    assert!(ran.err.contains("lamps.toml is written"), "{ran:#?}");
    assert!(!ran.err.contains("note:"), "{ran:#?}");
    let summary: Value = serde_json::from_str(&ran.good()).unwrap();
    assert_eq!(summary["pages"], 4);
    assert_eq!(names(folder.path()), ["jobs", "lamps.toml", "models"]);
    let text = std::fs::read_to_string(folder.path().join("lamps.toml")).unwrap();
    assert!(
        text.contains("contact = \"mailto:tests@spoor.example\""),
        "{text}"
    );
    let keywords = std::fs::read_to_string(folder.path().join("models/lamps/keywords.tsv"));
    assert!(keywords.unwrap().contains("lighthouse"));

    // The same command resumes; other arguments are refused.
    let again = Ran::of(&mut at(folder.path(), &wire, &arguments));
    assert!(
        again.err.contains("already exists with the same settings"),
        "{again:#?}"
    );
    again.good();
    let place = arguments.iter().position(|a| *a == "4").unwrap();
    arguments[place] = "6";
    let said = Ran::of(&mut at(folder.path(), &wire, &arguments)).refused();
    for part in [
        "limits.documents: the file has 4, but 6",
        "spoor crawl lamps.toml",
        "--name",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(
        std::fs::read_to_string(folder.path().join("lamps.toml")).unwrap(),
        text
    );

    // The job file works from any directory, and its results stay beside it.
    std::fs::write(
        folder.path().join("lamps.toml"),
        text.replace("documents = 4", "documents = 6"),
    )
    .unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let file = folder.path().join("lamps.toml");
    let mut more = spoor(&["crawl", file.to_str().unwrap(), "--json"]);
    let summary = Ran::of(more.current_dir(elsewhere.path())).good();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["pages"], 6);
    assert_eq!(names(elsewhere.path()), Vec::<String>::new());
    let record = std::fs::read_to_string(folder.path().join("jobs/lamps/job.toml")).unwrap();
    let jobs = folder.path().canonicalize().unwrap().join("jobs");
    assert!(record.contains(jobs.to_str().unwrap()), "{record}");
}

#[test]
fn a_new_job_is_written_and_not_begun() {
    let folder = tempfile::tempdir().unwrap();
    let wire = web();
    let arguments = [
        "init",
        "--seed",
        "http://lamps.test/0.html",
        "--contact",
        "https://a.example/",
    ];
    let ran = Ran::of(&mut at(folder.path(), &wire, &arguments));
    assert!(ran.err.contains("note: one page says little"), "{ran:#?}");
    assert_eq!(ran.good(), "spoor crawl lamps-test.toml\n");
    assert_eq!(names(folder.path()), ["lamps-test.toml"]);
    assert_eq!(wire.requests().len(), 0);
    let mut check = spoor(&["config", "check", "lamps-test.toml"]);
    let said = Ran::of(check.current_dir(folder.path())).good();
    assert!(said.contains("in order, 1 seed\n"), "{said}");
    // Without a terminal there are no questions.
    let said = Ran::of(spoor(&["init"]).current_dir(folder.path())).refused();
    assert!(said.contains("--seed"), "{said}");
}

#[test]
fn errors_are_reported_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let refused =
        |arguments: &[&str]| Ran::of(spoor(arguments).current_dir(folder.path())).refused();
    let said = refused(&["crawl", "--seed", "http://a.test/"]);
    assert!(said.contains("--contact is missing"), "{said}");
    let said = refused(&[
        "crawl",
        "--seed",
        "lamps",
        "--contact",
        "me",
        "--text",
        "no.txt",
    ]);
    for part in [
        "--seed: `lamps` is not a URL",
        "--text no.txt: No such file",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let said = refused(&["crawl", "--seed", "http://a.test/x", "--contact", "me"]);
    assert!(said.contains("job.contact: "), "{said}");
    assert_eq!(names(folder.path()), Vec::<String>::new());
    let usage = Ran::of(
        spoor(&["crawl", "job.toml", "--seed", "http://a.test/"]).current_dir(folder.path()),
    );
    assert_eq!(usage.status.code(), Some(2), "{usage:#?}");
    let usage = Ran::of(spoor(&["crawl"]).current_dir(folder.path()));
    assert_eq!(usage.status.code(), Some(2), "{usage:#?}");
}

#[test]
fn too_little_text_is_refused_by_number() {
    let folder = tempfile::tempdir().unwrap();
    let wire = web();
    let seed = [
        "--seed",
        "http://lamps.test/short.html",
        "--contact",
        "tests@spoor.example",
    ];
    let mut arguments = vec!["crawl", "--pages", "2"];
    arguments.extend(seed);
    let said = Ran::of(&mut at(folder.path(), &wire, &arguments)).refused();
    assert!(said.contains("hold 2 sentences"), "{said}");
    assert!(
        said.contains("needs 30") && said.contains("--force"),
        "{said}"
    );
    assert!(!folder.path().join("models/short").exists());
    arguments.push("--force");
    Ran::of(&mut at(folder.path(), &wire, &arguments)).good();
    let mut train = spoor(&["train", "short.toml"]);
    let said = Ran::of(train.current_dir(folder.path())).refused();
    assert!(said.contains("hold 2 sentences"), "{said}");
}

#[test]
fn a_short_text_is_too_short_to_judge() {
    let (models, model) = texts::model();
    let model = models.join(model);
    let score = |arguments: &[&str], text: &str| {
        let mut all = vec!["score", "--model", model.to_str().unwrap()];
        all.extend(arguments);
        all.push(text);
        Ran::of(&mut spoor(&all))
    };
    let said = score(&[], "The keeper lights the great lamp.").good();
    assert!(said.contains("too short to tell: 6 words"), "{said}");
    assert!(!said.contains("bucket"), "{said}");
    let said = score(&["--json"], "The keeper lights the great lamp.").good();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["too_short"], true);
    assert_eq!(said["on_topic"], Value::Null);
    assert_eq!(said["bucket"], Value::Null);
    let long = some(topical(), 0, 20);
    let said: Value = serde_json::from_str(&score(&["--json"], &long).good()).unwrap();
    assert!(said["on_topic"].as_f64().unwrap() > 0.5, "{said}");
    for empty in ["", " 12 . "] {
        let said = score(&[], empty).refused();
        assert!(said.contains("no word to rate"), "{said}");
    }
}

#[test]
fn a_page_is_looked_at_as_a_crawl_would() {
    let (models, model) = texts::model();
    let mut tree = MemoryTree::default();
    let body = page(
        "A lamp",
        "",
        &[
            some(topical(), 0, 20),
            link("/next.html", &some(topical(), 3, 1)),
            link("http://else.test/x.html", &some(topical(), 4, 1)),
            image("/lamp.png", &some(topical(), 5, 1)),
        ],
    );
    tree.insert("lamps.test", "/open.html", body.clone());
    tree.insert("lamps.test", "/shut/page.html", body.clone());
    tree.insert(
        "lamps.test",
        "/robots.txt",
        "User-agent: *\nDisallow: /shut/\n",
    );
    tree.redirect("http://lamps.test/old.html", "http://lamps.test/open.html");
    let wire = Wire::serve(Lab::from_memory(tree));
    let job = Job::new(
        &wire,
        &JobText {
            rest: "[scope]\naccept = [\"host:lamps.test\"]\n",
            ..JobText::default()
        },
    );
    let file = job.file();
    let look = |url: &str| {
        Ran::of(&mut spoor(&[
            "score",
            file.to_str().unwrap(),
            "--url",
            url,
            "--json",
        ]))
    };
    let seen: Value = serde_json::from_str(&look("http://lamps.test/old.html").good()).unwrap();
    assert_eq!(seen["url"], "http://lamps.test/open.html");
    assert_eq!(seen["title"], "A lamp");
    assert!(seen["on_topic"].as_f64().unwrap() > 0.5, "{seen:#}");
    assert!(seen["sentences"].as_u64().unwrap() >= 15, "{seen:#}");
    let links = seen["links"].as_array().unwrap();
    let followed = |at: usize| {
        (
            links[at]["url"].as_str().unwrap(),
            links[at]["followed"].as_bool(),
        )
    };
    assert_eq!(followed(0), ("http://lamps.test/next.html", Some(true)));
    assert_eq!(followed(1), ("http://else.test/x.html", Some(false)));
    assert!(
        links[1]["why"].as_str().unwrap().contains("scope.accept"),
        "{seen:#}"
    );
    assert_eq!(seen["images"][0]["url"], "http://lamps.test/lamp.png");
    // Only robots.txt and the page were requested, and nothing was kept.
    let asked: Vec<String> = wire.requests().iter().map(|seen| seen.address()).collect();
    assert_eq!(
        asked,
        [
            "lamps.test/robots.txt",
            "lamps.test/old.html",
            "lamps.test/open.html"
        ]
    );
    assert!(!job.folder().exists());

    let said = look("http://lamps.test/shut/page.html").refused();
    assert!(said.contains("was not fetched: robots"), "{said}");

    let saved = tempfile::tempdir().unwrap();
    let saved_page = saved.path().join("page.html");
    std::fs::write(&saved_page, body).unwrap();
    let model = models.join(model);
    let arguments = [
        "score",
        model.to_str().unwrap(),
        "--file",
        saved_page.to_str().unwrap(),
    ];
    let said = Ran::of(&mut spoor(&arguments)).good();
    for part in [
        "title      A lamp",
        "links      2 of 2 would be followed",
        "follow",
        "lamp.png",
    ] {
        assert!(said.contains(part), "`{part}` is missing in\n{said}");
    }
    let arguments = [
        "score",
        model.to_str().unwrap(),
        "--url",
        "http://lamps.test/open.html",
    ];
    let said = Ran::of(&mut spoor(&arguments)).refused();
    assert!(said.contains("name the job"), "{said}");
}
