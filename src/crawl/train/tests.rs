//! Training from a real disk and over real sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::runtime::Runtime;

use super::*;
use crate::config::Config;
use crate::fetch::Options;
use crate::settings::{ConnectTo, HostPattern};
use crate::topic::lm::sentences;
use spoor_lab::{Behaviour, Fault, Lab, MemoryTree, Running, spawn};

const ANIMALS: [&str; 6] = ["cat", "kitten", "tom", "lion", "tiger", "lynx"];
const PLACES: [&str; 5] = ["mat", "roof", "sofa", "wall", "bed"];

/// Thirty different sentences about one topic.
fn topic() -> String {
    let mut text = String::new();
    for animal in ANIMALS {
        for place in PLACES {
            text.push_str(&format!(
                "The old {animal} sleeps on the warm {place} all day. "
            ));
        }
    }
    text
}

const OTHER: &str = "The minister opened a new bridge across the wide river today.\n\n\
                     The bank raised its rates for the third time this year.";

struct Desk {
    folder: tempfile::TempDir,
    runtime: Runtime,
}

impl Desk {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            runtime: Runtime::new().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn config(&self, positive: &[&str], neutral: &[&str], more: &str) -> Config {
        let list = |names: &[&str]| -> String {
            let full = |name: &&str| {
                if name.starts_with("http") {
                    format!("{name:?}")
                } else {
                    format!("{:?}", self.path(name).to_str().unwrap())
                }
            };
            names.iter().map(full).collect::<Vec<_>>().join(", ")
        };
        let text = format!(
            "[job]\nname = \"test\"\n[model]\nfolder = {:?}\n\
             [politeness]\nmin_delay = \"0s\"\ndelay_factor = 0\nretries = 0\nback_off = \"1ms\"\n\
             [train]\npositive = [{}]\nneutral = [{}]\norder = 3\nmin_sentences = 1\n{more}",
            self.path("models").to_str().unwrap(),
            list(positive),
            list(neutral),
        );
        Config::parse(&text, "test.toml").unwrap()
    }

    fn train(&self, config: &Config) -> Result<Model, TrainError> {
        let no_fetcher = || -> Result<Fetcher, TrainError> { panic!("nothing is to be fetched") };
        train(config, self.runtime.handle(), no_fetcher, &mut |_| {})
    }

    /// The text that training reads from some sources.
    fn read(&self, names: &[&str], more: &str) -> Result<Vec<Vec<String>>, TrainError> {
        let config = self.config(names, &[], more);
        let no_fetcher = || -> Result<Fetcher, TrainError> { panic!("nothing is to be fetched") };
        let mut gatherer = corpus::Gatherer::new(&config, self.runtime.handle(), no_fetcher);
        let (documents, _) = gatherer.gather(&config.train.positive, &[], &mut |_| {})?;
        let texts = |d: &Document| d.as_ref().iter().map(|s| s.as_str().to_owned()).collect();
        Ok(documents.iter().map(texts).collect())
    }
}

fn failure<T, E: std::fmt::Display>(result: Result<T, E>) -> String {
    match result {
        Ok(_) => panic!("this should have failed"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_model_folder_holds_the_model_its_keywords_and_the_facts() {
    let desk = Desk::new();
    desk.put("cats.txt", topic());
    desk.put("other.txt", OTHER);
    let config = desk.config(&["cats.txt"], &["other.txt"], "keywords = 4\n");
    assert!(!Model::exists(&config.model_folder()));
    let model = desk.train(&config).unwrap();
    assert!(Model::exists(&config.model_folder()));
    let names: BTreeSet<String> = std::fs::read_dir(desk.path("models/test"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(
        names.iter().map(String::as_str).collect::<Vec<_>>(),
        [
            "keywords.tsv",
            "lm.arpa",
            "lm.binary",
            "model.toml",
            "passages.tsv",
            "stopwords.tsv",
            "words.tsv"
        ]
    );
    let beside = std::fs::read_dir(desk.path("models")).unwrap().count();
    assert_eq!(beside, 1, "no draft remains");

    let facts = &model.facts;
    assert_eq!((facts.version, facts.order, facts.seed), (1, 3, 1));
    assert_eq!((facts.positive_documents, facts.neutral_documents), (1, 2));
    assert_eq!(
        (facts.training_sentences, facts.held_out_sentences),
        (21, 9)
    );
    assert_eq!(facts.training_tokens, 21 * 10, "ten words a sentence");
    assert_eq!(facts.ngrams.len(), 3);
    assert_eq!((facts.keywords, model.keywords.len()), (4, 4));
    assert_eq!(facts.calibration.validate(), Ok(()));
    let (held, other) = (facts.held_out_perplexity, facts.neutral_perplexity.unwrap());
    assert!(held > 1.0 && held < other, "{held} {other}");
    assert!(facts.calibration.boundaries.high >= held.floor());
    assert_eq!(model.lm.order(), 3);
    let text = std::fs::read_to_string(desk.path("models/test/model.toml")).unwrap();
    assert!(text.starts_with("# Written by"));
    assert_eq!(&toml::from_str::<ModelFacts>(&text).unwrap(), facts);
}

#[test]
fn the_hash_and_the_model_follow_from_corpus_and_seed_alone() {
    let desk = Desk::new();
    desk.put("cats.txt", topic());
    desk.put(
        "more.txt",
        format!("{} The new cat looks out of the window.", topic()),
    );
    desk.put("other.txt", OTHER);
    let of = |positive: &str, neutral: &[&str], more: &str| {
        let model = desk
            .train(&desk.config(&[positive], neutral, more))
            .unwrap();
        let arpa = std::fs::read(desk.path("models/test/lm.arpa")).unwrap();
        (model.facts, arpa)
    };
    let (first, arpa) = of("cats.txt", &["other.txt"], "");
    assert_eq!(
        of("cats.txt", &["other.txt"], ""),
        (first.clone(), arpa.clone())
    );
    let (seeded, other_arpa) = of("cats.txt", &["other.txt"], "seed = 2\n");
    assert_eq!(seeded.corpus_sha256, first.corpus_sha256);
    assert_ne!(other_arpa, arpa, "another draw");
    let hashes = BTreeSet::from([
        first.corpus_sha256,
        of("more.txt", &["other.txt"], "").0.corpus_sha256,
        of("cats.txt", &[], "").0.corpus_sha256,
        of("cats.txt", &["more.txt"], "").0.corpus_sha256,
    ]);
    assert_eq!(hashes.len(), 4);
    assert!(hashes.iter().all(|h| h.len() == 64));
}

#[test]
fn training_again_replaces_the_model_and_a_failure_leaves_it() {
    let desk = Desk::new();
    desk.put("cats.txt", topic());
    desk.put("other.txt", OTHER);
    let before = desk.train(&desk.config(&["cats.txt"], &[], "")).unwrap();
    desk.put("models/.test.part/junk", "of a run that was killed");
    desk.put("models/.test.part.old/junk", "and of another");
    for bad in ["missing.txt", "empty.txt"] {
        desk.put("empty.txt", "Too few words.");
        let text = failure(desk.train(&desk.config(&[bad], &[], "")));
        assert!(text.contains(bad), "{text}");
        let still = Model::load(&desk.path("models/test")).unwrap();
        assert_eq!(still.facts, before.facts);
    }
    let after = desk.train(&desk.config(&["other.txt"], &[], "held_out = 0.0\n"));
    assert_eq!(after.unwrap().facts.training_sentences, 2);
    let left = std::fs::read_dir(desk.path("models")).map_or(0, Iterator::count);
    assert_eq!(left, 1, "drafts of killed runs are cleared away");
}

#[test]
fn sources_that_cannot_be_read_are_named() {
    let desk = Desk::new();
    desk.put("cats.txt", topic());
    desk.put(
        "latin.txt",
        b"Eine K\xe4tzin schl\xe4ft auf dem warmen Dach.",
    );
    desk.put("bin.html", [0_u8; 500]);
    desk.put("empty/notes.odt", "not read");
    for (bad, says) in [
        ("missing.txt", "reading failed"),
        ("latin.txt", "UTF-8"),
        ("bin.html", "HTML"),
    ] {
        for lists in [([bad].as_slice(), [].as_slice()), (&["cats.txt"], &[bad])] {
            let text = failure(desk.train(&desk.config(lists.0, lists.1, "")));
            assert!(text.contains(bad) && text.contains(says), "{text}");
        }
    }
    let text = failure(desk.train(&desk.config(&["empty"], &[], "")));
    assert!(
        text.contains("empty") && text.contains("no sentence of 5 words"),
        "{text}"
    );
    let text = failure(desk.train(&desk.config(&[], &["cats.txt"], "")));
    assert!(text.contains("train.positive"), "{text}");
}

#[test]
fn blank_lines_separate_documents_where_they_are_asked_to() {
    let desk = Desk::new();
    let text = "\u{feff}One two three four five.\r\nSix seven eight nine ten.\r\n  \r\n\r\n\
                Red green blue pink white.\n\t\nshort\n\nSun moon star sea sky.";
    desk.put("a.txt", text);
    let [one, six] = ["one two three four five", "six seven eight nine ten"];
    let [red, sun] = ["red green blue pink white", "sun moon star sea sky"];
    let documents = desk
        .read(&["a.txt"], "documents = \"blank_line\"\n")
        .unwrap();
    assert_eq!(documents, [vec![one, six], vec![red], vec![sun]]);
    let documents = desk.read(&["a.txt"], "documents = \"file\"\n").unwrap();
    assert_eq!(documents, [vec![one, six, red, sun]]);
}

#[test]
fn folders_are_read_in_the_order_of_their_names() {
    let desk = Desk::new();
    let text = |n: &str| format!("Here stands the text number {n}.");
    for name in ["c.txt", "a.md", "b/2.TEXT", "b/10.txt", "B.txt"] {
        desk.put(&format!("all/{name}"), text(&name.replace(['.', '/'], "x")));
    }
    desk.put(
        "all/d.HTM",
        "<head><title>no</title><style>p{}</style></head><p>A page of five words or more.</p>\
         <script>var not = 'a sentence of five words';</script>",
    );
    desk.put("all/skipped.bin", [0xff; 9]);
    desk.put("all/skipped", text("none"));
    let found: Vec<String> = desk.read(&["all"], "").unwrap().concat();
    let last = |s: &String| s.split(' ').next_back().unwrap().to_owned();
    let ends: Vec<String> = found.iter().map(last).collect();
    let of = |n: &str| last(&sentences([text(n).as_str()]).remove(0).as_str().to_owned());
    let expected = ["Bxtxt", "axmd", "bx10xtxt", "bx2xTEXT", "cxtxt"].map(of);
    assert_eq!(ends[..5], expected);
    assert_eq!(found[5..], ["a page of five words or more"]);
}

#[test]
fn a_broken_model_folder_says_what_is_wrong() {
    let desk = Desk::new();
    desk.put("cats.txt", topic());
    let config = desk.config(&["cats.txt"], &[], "");
    let folder = config.model_folder();
    let text = failure(Model::load(&folder));
    assert!(text.contains("model.toml"), "{text}");
    desk.train(&config).unwrap();
    let facts = std::fs::read_to_string(folder.join("model.toml")).unwrap();
    let keywords = std::fs::read(folder.join("keywords.tsv")).unwrap();
    for (from, to, says) in [
        ("version = 1", "version = 9", "version 9"),
        ("order = 3", "order = 4", "order 3, not 4"),
        ("order = 3", "order = 300", "model.toml"),
        ("high = ", "high = 9e99 #", "high"),
        ("razor = ", "razors = ", "model.toml"),
        ("seed = 1", "seed = x", "model.toml"),
    ] {
        assert!(facts.contains(from), "{facts}");
        let changed = facts.replacen(from, to, 1);
        std::fs::write(folder.join("model.toml"), changed).unwrap();
        let text = failure(Model::load(&folder));
        assert!(text.contains(says), "{to}: {text}");
    }
    std::fs::write(folder.join("model.toml"), &facts).unwrap();
    let model = Model::load(&folder).unwrap();
    let uncalibrated: String = facts
        .split_inclusive("\n\n")
        .filter(|part| !part.contains("[calibration"))
        .collect();
    std::fs::write(folder.join("model.toml"), &uncalibrated).unwrap();
    let text = failure(Model::load(&folder));
    assert!(text.contains("calibration"), "{text}");
    std::fs::write(folder.join("model.toml"), &facts).unwrap();
    assert_eq!(Model::load(&folder).unwrap().facts, model.facts);
    for name in ["keywords.tsv", "lm.arpa"] {
        let path = folder.join(name);
        std::fs::remove_file(&path).unwrap();
        let text = failure(Model::load(&folder));
        assert!(text.contains(name), "{text}");
        std::fs::write(&path, "junk\t\tjunk\n").unwrap();
        let text = failure(Model::load(&folder));
        assert!(text.contains(name), "{text}");
        std::fs::write(&path, &keywords).unwrap();
    }
}

// Over the network ---------------------------------------------------------

type Seen = Arc<Mutex<Vec<String>>>;

fn serve(desk: &Desk, tree: MemoryTree, behaviours: Vec<Behaviour>) -> (Running, Seen) {
    let seen: Seen = Arc::default();
    let sink = Arc::clone(&seen);
    let mut lab = Lab::from_memory(tree).with_observer(Arc::new(move |r: spoor_lab::Request| {
        sink.lock().unwrap().push(format!("{}{}", r.host, r.path));
    }));
    for behaviour in behaviours {
        lab = lab.with_behaviour(behaviour);
    }
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    (desk.runtime.block_on(spawn(lab, any)).unwrap(), seen)
}

fn train_over(desk: &Desk, lab: &Running, config: &Config) -> Result<Model, TrainError> {
    let fetcher = || {
        let _entered = desk.runtime.enter();
        Ok(Fetcher::new(Options {
            contact: "https://example.org/bot".to_owned(),
            allow_private: true,
            connect_to: vec![ConnectTo {
                host: HostPattern::Any,
                port: None,
                to_host: lab.addr.ip().to_string(),
                to_port: Some(lab.addr.port()),
            }],
            ..Options::default()
        })?)
    };
    train(config, desk.runtime.handle(), fetcher, &mut |_| {})
}

fn page() -> String {
    format!(
        "<title>Cats</title><p>{}</p><a href=/never>more</a>",
        topic()
    )
}

#[test]
fn pages_are_fetched_by_the_rules_of_a_crawl() {
    let desk = Desk::new();
    let mut tree = MemoryTree::default();
    tree.insert(
        "cats.test",
        "/robots.txt",
        "User-agent: *\nDisallow: /private\n",
    );
    tree.insert("cats.test", "/", page());
    tree.insert("www.cats.test", "/old/new.html", page());
    assert!(tree.redirect("http://cats.test/old", "http://www.cats.test/old"));
    assert!(tree.redirect(
        "http://www.cats.test/old",
        "http://www.cats.test/old/new.html"
    ));
    let (lab, seen) = serve(&desk, tree, vec![]);
    let config = desk.config(&["http://cats.test/", "http://cats.test/old"], &[], "");
    let model = train_over(&desk, &lab, &config).unwrap();
    assert_eq!(model.facts.positive_documents, 2);
    let seen: BTreeMap<String, usize> =
        seen.lock()
            .unwrap()
            .drain(..)
            .fold(BTreeMap::new(), |mut map, address| {
                *map.entry(address).or_default() += 1;
                map
            });
    assert!(seen.contains_key("cats.test/robots.txt"));
    assert!(seen.contains_key("www.cats.test/robots.txt"));
    assert!(!seen.contains_key("cats.test/never"), "no link is followed");
    assert!(seen.values().all(|n| *n == 1), "{seen:?}");
    let left = std::fs::read_dir(desk.path("models")).map_or(0, Iterator::count);
    assert_eq!(left, 1, "the fetching frontier is removed");
}

#[test]
fn every_page_that_could_not_be_had_is_listed() {
    let desk = Desk::new();
    let mut tree = MemoryTree::default();
    tree.insert(
        "cats.test",
        "/robots.txt",
        "User-agent: *\nDisallow: /private\n",
    );
    tree.insert("cats.test", "/", page());
    tree.insert("cats.test", "/private", page());
    tree.insert_as("cats.test", "/data", "application/pdf", "%PDF");
    assert!(tree.redirect("http://cats.test/away", "http://cats.test/gone"));
    let down = Behaviour::of("down.test").fault(Fault::Status {
        code: 503,
        retry_after: None,
    });
    let (lab, _) = serve(&desk, tree, vec![down]);
    let sources = [
        "http://cats.test/",
        "http://cats.test/private",
        "http://cats.test/gone",
        "http://cats.test/away",
        "http://cats.test/data",
        "http://down.test/",
    ];
    let config = desk.config(&sources[..3], &sources[3..], "");
    let text = failure(train_over(&desk, &lab, &config));
    for (address, says) in [
        ("http://cats.test/private: ", "robots"),
        ("http://cats.test/gone: ", "404"),
        (
            "http://cats.test/away: ",
            "redirected to http://cats.test/gone",
        ),
        ("http://cats.test/data: ", "bad_pdf: "),
        ("http://down.test/: ", "does not answer"),
    ] {
        let line = text.lines().find(|l| l.contains(address));
        assert!(
            line.is_some_and(|l| l.contains(says)),
            "{address} in {text}"
        );
    }
    assert!(!text.contains("http://cats.test/: "), "{text}");
    assert!(!Model::exists(&config.model_folder()));
    let left = std::fs::read_dir(desk.path("models")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "nothing remains of the attempt");
}
