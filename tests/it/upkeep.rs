//! Maintenance of a job's frontier, from outside.

use spoor_lab::Lab;

use crate::support::texts::{plain, tree};
use crate::support::{Job, JobText, Ran, Wire, spoor};

#[test]
fn a_frontier_is_converted_checked_exported_and_imported() {
    let pages = [
        ("a.test/", plain(&["/1", "http://b.test/"], &[])),
        ("a.test/1", plain(&[], &[])),
        ("b.test/", plain(&["/2"], &[])),
        ("b.test/2", plain(&[], &[])),
    ];
    let wire = Wire::serve(Lab::from_memory(tree(&pages)));
    let with =
        |store: &str, limit: &str| format!("[frontier]\nstore = \"{store}\"\n[limits]\n{limit}");
    let (first, then) = (
        with("sled", "documents = 2"),
        with("fjall", "documents = 9"),
    );
    let text = |rest| JobText {
        seeds: &["http://a.test/"],
        rest,
        ..JobText::default()
    };
    let job = Job::new(&wire, &text(&first));
    job.run();
    let file = job.file();
    let file = file.to_str().unwrap();
    let store = |arguments: &[&str]| Ran::of(&mut spoor(&[&["store"], arguments].concat()));

    assert!(
        store(&["check", file])
            .good()
            .contains("no inconsistencies")
    );
    let archive = job.folder().join("frontier.jsonl.gz");
    let archive = archive.to_str().unwrap();
    store(&["export", file, archive]).good();
    let refusal = store(&["import", file, archive]).refused();
    assert!(refusal.contains("lies here already"), "{refusal}");
    store(&["convert", file, "--to", "fjall", "--keep-job-file"]).good();
    let refusal = Ran::of(&mut spoor(&["crawl", file])).refused();
    assert!(refusal.contains("it is a fjall store"), "{refusal}");

    job.write(&wire, &text(&then));
    std::fs::remove_dir_all(job.folder().join("frontier")).unwrap();
    store(&["import", file, archive]).good();
    assert!(store(&["compact", file]).good().contains("MB after"));
    let out = job.run();
    assert!(out.contains("pages     4 done"), "{out}");
    let requests = wire.requests();
    let asked = |path: &str| requests.iter().filter(|r| r.path == path).count();
    assert_eq!((asked("/1"), asked("/2")), (1, 1), "nothing is done twice");
    assert!(
        store(&["check", file])
            .good()
            .contains("no inconsistencies")
    );
}

#[test]
fn every_state_of_an_address_is_explained() {
    let links = [
        "/done",
        "/queued",
        "/private/x",
        "/l/l/l/l/l",
        "http://b.test/far",
    ];
    let pages = [
        ("a.test/", plain(&links, &[])),
        ("a.test/done", plain(&[], &[])),
        (
            "a.test/robots.txt",
            "User-agent: *\nDisallow: /private/\n".to_owned(),
        ),
    ];
    let wire = Wire::serve(Lab::from_memory(tree(&pages)));
    let rest = "[limits]\ndocuments = 2\n[scope]\nreject = [\"test,b\"]";
    let text = JobText {
        seeds: &["http://a.test/"],
        rest,
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    job.run();
    let file = job.file();
    let file = file.to_str().unwrap();
    let explain = |url: &str| Ran::of(&mut spoor(&["explain", file, url])).good();

    let seed = explain("HTTP://A.test:80/#top");
    for part in [
        "canonical  http://a.test/\n",
        "page done, number 1",
        "via        a seed",
    ] {
        assert!(seed.contains(part), "{part} in {seed}");
    }
    let all: Vec<String> = ["/done", "/queued", "/private/x"]
        .iter()
        .map(|path| explain(&format!("http://a.test{path}")))
        .collect();
    let with = |word: &str| all.iter().filter(|text| text.contains(word)).count();
    // The crawl chooses which of the equally rated links came first, but a budget of two pages
    // leaves exactly one done besides the seed.
    assert_eq!(with("page done, number 2"), 1, "{all:#?}");
    assert_eq!(
        with("page queued"),
        2 - with("page dropped: robots"),
        "{all:#?}"
    );
    assert_eq!(with("via        http://a.test/\n"), 3, "{all:#?}");
    assert_eq!(with("parts      document"), 3);
    assert!(
        all[2].contains("robots     forbidden to spoor, line 2: Disallow: /private/"),
        "{}",
        all[2]
    );
    assert!(all[0].contains("robots     allowed"), "{}", all[0]);
    assert!(explain("http://a.test/l/l/l/l/l").contains("page dropped: trap"));
    let far = explain("http://b.test/far");
    assert!(
        far.contains("page dropped: scope")
            && far.contains("outside: rejected by `test,b` of scope.reject"),
        "{far}"
    );
    assert!(explain("http://a.test/never").contains("unknown"));

    let host = Ran::of(&mut spoor(&["host", file, "a.test"])).good();
    for part in [
        "a.test: 2 pages fetched",
        "robots     http: known",
        "delay      0.000 s",
    ] {
        assert!(host.contains(part), "{part} in {host}");
    }
    let before = wire.requests().len();
    job.run();
    assert_eq!(wire.requests().len(), before, "looking changes nothing");
}
