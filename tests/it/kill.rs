//! After a kill at any instant, a crawl continues: nothing is lost, damaged or doubled, and no host
//! gets a request too soon.
//!
//! The same web is crawled twice: once undisturbed, which must also match the plan of the web, and
//! once with a SIGKILL now and then. Both results must be equal. A printed seed determines when the
//! kills happen; `SPOOR_KILL_SEED` repeats it, as far as a race can be repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use spoor::address::PageUrl;
use spoor::config::Config;
use spoor::frontier::{CellCount, Cells, Policy, State};
use spoor::page::TaskKind;
use spoor::settings::StoreKind;
use spoor::web::scope::Scope;
use spoor_lab::{Behaviour, Fault, Lab, MemoryTree, picture};

use super::archiving::{ARCHIVE, agrees_with_log};
use crate::support::texts::{image, link, other, page, some, topical};
use crate::support::wire::{GRAIN, too_close};
use crate::support::{Job, JobText, Live, Seen, Wire};

/// The number of SIGKILLs in the suite, and in the long form.
const KILLS: usize = 10;
const MANY_KILLS: usize = 100;

const MIN_DELAY: Duration = Duration::from_millis(20);
const CRAWL_DELAY: Duration = Duration::from_millis(100);
/// The pause in milliseconds after a failure without `Retry-After`.
const BACK_OFF: u64 = 60;

/// A web, and the expected results of a crawl.
pub(super) struct Plan {
    pub lab: Lab,
    /// Pages that must be fetched.
    pub pages: BTreeSet<String>,
    /// Images that must be kept, and the pages that embed them.
    pub images: BTreeMap<String, BTreeSet<String>>,
    /// Every address that anything links to or embeds.
    pub known: BTreeSet<(bool, String)>,
    /// Addresses, or whole hosts, that must never get a request.
    pub forbidden: Vec<String>,
}

/// This number of small hosts, at least fifteen, and a large one; the rows at the end say what is
/// wrong with some of them.
pub(super) fn plan(hosts: usize) -> Plan {
    let mut tree = MemoryTree::default();
    let mut addresses: Vec<(String, String)> = Vec::new();
    let hosts = (0..hosts).map(|h| (format!("h{h:02}.test"), 7));
    for (host, pages) in hosts.chain([("hub.test".to_owned(), 60)]) {
        for n in 0..pages {
            let path = match n {
                0 => "/".to_owned(),
                n => format!("/p{n}"),
            };
            addresses.push((host.clone(), path));
        }
    }
    let url = |i: usize| {
        let (host, path) = &addresses[i % addresses.len()];
        format!("http://{host}{path}")
    };
    let mut dice = ChaCha8Rng::seed_from_u64(20_150_930);
    let mut images: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut known = BTreeSet::new();
    let forbidden_page = "http://h05.test/p2";
    let nonsense = 11 * 7 + 5;
    for (i, (host, path)) in addresses.iter().enumerate() {
        let own = url(i);
        let mut links = vec![url(i + 1), url(i + 2)];
        links.extend((0..3).map(|_| url(dice.random_range(0..addresses.len()))));
        if i % 11 == 0 {
            let moved = format!("http://{host}/moved-{i}");
            tree.redirect(&moved, &url(i * 7 + 3));
            links.push(moved);
        }
        if i % 23 == 0 {
            let [chain, moved] = ["chain", "on"].map(|s| format!("http://{host}/{s}-{i}"));
            tree.redirect(&chain, &moved);
            tree.redirect(&moved, &url(i * 5 + 1));
            known.insert((false, moved));
            links.push(chain);
        }
        if i % 9 == 0 {
            links.push(format!("http://{host}/missing-{i}"));
        }
        if i % 20 == 0 {
            links.push(format!("http://shut.test/{i}"));
        }
        if host == "h03.test" {
            links.push(format!("http://h03.test/private/{i}"));
        }
        let mut embedded = Vec::new();
        let mut kept = |src: String, kept_as: String| {
            let above_the_razor = i == nonsense && kept_as.contains("own-");
            if own != forbidden_page && !above_the_razor {
                images.entry(kept_as).or_default().insert(own.clone());
            }
            embedded.push(src);
        };
        let mut picture = |url: &str, w, h| assert!(tree.image(url, w, h));
        let shared = format!("http://{host}/img/shared.png");
        picture(&shared, 40, 30);
        kept(shared.clone(), shared);
        let elsewhere = format!("http://cdn.test/shared-{}.jpg", i % 6);
        picture(&elsewhere, 50, 30);
        kept(elsewhere.clone(), elsewhere);
        if i % 2 == 0 {
            let single = format!("http://{host}/img/own-{i}.png");
            picture(&single, 30, 30);
            kept(single.clone(), single);
        }
        if i % 12 == 3 {
            let same = format!("http://{host}/img/same.png");
            kept(same.clone(), same);
        }
        let new = format!("http://cdn.test/new-{}.png", i % 3);
        if i % 7 == 0 {
            picture(&new, 33, 30);
            let old = format!("http://{host}/old-{}.png", i % 3);
            kept(old, new);
        } else if i % 13 == 1 {
            kept(new.clone(), new);
        }
        for (every, name) in [(5, "dot"), (17, "gone"), (19, "broken")] {
            if i % every == 0 {
                embedded.push(format!("http://{host}/img/{name}.png"));
            }
        }
        let text = |n: usize| match (i == nonsense, i % 3) {
            (true, _) => "Zqx vrrt plonk wibbet frumious gyre outgrabe mimsy.".repeat(4),
            (false, 0) => some(other(), i * 3 + n, 3),
            (false, _) => some(topical(), i * 3 + n, 3),
        };
        let label = |n: usize| {
            if i == nonsense {
                "Wibbet gyre".to_owned()
            } else {
                some(topical(), i + n, 1)
            }
        };
        if i == nonsense {
            links = vec!["http://beyond.test/".to_owned()];
        }
        known.extend(links.iter().map(|l| (false, l.clone())));
        known.extend(embedded.iter().map(|e| (true, e.clone())));
        let mut paragraphs: Vec<String> = links
            .iter()
            .enumerate()
            .map(|(n, to)| format!("{} {}", text(n), link(to, &label(n))))
            .collect();
        paragraphs.extend(
            embedded
                .iter()
                .enumerate()
                .map(|(n, src)| format!("{}<span>{}</span>", image(src, &label(n)), text(n + 7))),
        );
        let html = page(&format!("Page {i}"), "", &paragraphs);
        tree.insert_as(host, path, "text/html; charset=utf-8", html);
    }
    let same = picture::draw("same.png", 40, 30).unwrap().bytes;
    for (host, _) in addresses.iter().filter(|(_, path)| path == "/") {
        for k in 0..3 {
            let old = format!("http://{host}/old-{k}.png");
            tree.redirect(&old, &format!("http://cdn.test/new-{k}.png"));
        }
        tree.image(&format!("http://{host}/img/dot.png"), 8, 8);
        tree.insert(host, "/img/broken.png", "no picture at all");
        tree.insert(host, "/img/same.png", same.clone());
    }
    known.extend(images.keys().map(|i| (true, i.clone())));
    known.extend((0..addresses.len()).map(|i| (false, url(i))));

    for (host, text) in [
        ("h03.test", "User-agent: *\nDisallow: /private/\n"),
        ("h06.test", "User-agent: *\nCrawl-delay: 0.1\n"),
        ("shut.test", "User-agent: *\nDisallow: /\n"),
        ("h14.test", "User-agent: other\nDisallow: /\n"),
    ] {
        tree.insert(host, "/robots.txt", text);
    }
    tree.redirect("http://h05.test/robots.txt", "http://rules.test/of/h05.txt");
    tree.insert(
        "rules.test",
        "/of/h05.txt",
        "User-agent: spoor\nDisallow: /p2\n",
    );

    let fault = |code, after: Option<&str>| Fault::Status {
        code,
        retry_after: after.map(str::to_owned),
    };
    let busy = || fault(503, Some("1"));
    let lab = Lab::from_memory(tree)
        .with_behaviour(Behaviour::of("h07.test").under("/p").fault(busy()).times(2))
        .with_behaviour(Behaviour::of("h08.test").fault(busy()).times(2))
        .with_behaviour(Behaviour::of("h09.test").fault(Fault::Drop).times(1))
        .with_behaviour(
            Behaviour::of("h10.test")
                .under("/p")
                .fault(Fault::Drop)
                .times(1),
        )
        .with_behaviour(
            Behaviour::of("h12.test")
                .under("/p3")
                .fault(fault(500, None))
                .times(1),
        )
        .with_behaviour(Behaviour::of("h13.test").latency(Duration::from_millis(30)));
    let pages = (0..addresses.len())
        .map(url)
        .filter(|u| u != forbidden_page);
    Plan {
        lab,
        pages: pages.collect(),
        images,
        known,
        forbidden: [
            "h05.test/p2",
            "h03.test/private/",
            "shut.test/",
            "beyond.test/",
        ]
        .map(str::to_owned)
        .to_vec(),
    }
}

/// Everything that a finished crawl left, without what may differ between two crawls: times, dates,
/// order and the page through which an address was found.
#[derive(Debug, PartialEq)]
struct Harvest {
    /// The last line of the log for every task: outcome, reason, status.
    endings: BTreeMap<(String, String), String>,
    /// Every image by address: its digest and its contexts.
    images: BTreeMap<String, (String, BTreeSet<String>)>,
    /// How often each row for an image and a page occurs. An image that was kept before its alt
    /// text was recognised as meaningless has another row with other ratings.
    rows: BTreeMap<(String, String), usize>,
    /// How often each sentence occurs.
    sentences: BTreeMap<String, usize>,
    /// The text of each page's document.
    documents: BTreeMap<String, String>,
    /// The frontier's state of every address.
    states: BTreeMap<(bool, String), String>,
}

impl Harvest {
    fn of(job: &Job, known: &BTreeSet<(bool, String)>) -> Self {
        let mut endings = BTreeMap::new();
        for row in job.log() {
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            let outcome = text("outcome");
            if outcome == "retrying" {
                continue;
            }
            // The rules of h05 are fetched for that host alone, and no other host causes requests
            // there.
            let task = (text("kind"), text("url"));
            let ending = format!(
                "{outcome} {} {} {}",
                text("reason"),
                row["status"],
                text("redirect")
            );
            if let Some(before) = endings.insert(task.clone(), ending) {
                panic!("{task:?} is finished twice, the first time as {before}");
            }
        }
        let mut images = BTreeMap::new();
        for sidecar in job.sidecars() {
            let url = sidecar["url"].as_str().unwrap().to_owned();
            let digest = sidecar["sha256"].as_str().unwrap().to_owned();
            let all = sidecar["contexts"].as_array().unwrap();
            let contexts: BTreeSet<String> = all.iter().map(Value::to_string).collect();
            assert_eq!(contexts.len(), all.len(), "a doubled context of {url}");
            let bytes =
                std::fs::read(job.folder().join(sidecar["file"].as_str().unwrap())).unwrap();
            assert_eq!(
                bytes.len() as u64,
                sidecar["bytes"].as_u64().unwrap(),
                "{url}"
            );
            let before = images.insert(url.clone(), (digest, contexts));
            assert!(before.is_none(), "{url} has two sidecars");
        }
        check_copies(job);
        let mut rows: BTreeMap<_, Vec<BTreeMap<String, String>>> = BTreeMap::new();
        for row in job.image_rows() {
            let key = (row["url"].clone(), row["page"].clone());
            rows.entry(key).or_default().push(row);
        }
        let rows = rows.into_iter().map(|(key, rows)| {
            let distinct: BTreeSet<_> = rows.iter().collect();
            for (column, value) in &rows[0] {
                let is_rating = column == "rank" || column.starts_with("alt_");
                let same = rows.iter().all(|row| row[column] == *value);
                assert!(same || is_rating, "{key:?}: {column} of {rows:?}");
            }
            assert!(distinct.len() <= 2, "{key:?}: {rows:?}");
            (key, rows.len() + 1 - distinct.len())
        });
        let rows = rows.collect();
        let mut sentences: BTreeMap<_, usize> = BTreeMap::new();
        for line in job.sentences() {
            *sentences.entry(line).or_default() += 1;
        }
        let mut documents = BTreeMap::new();
        for document in job.documents() {
            assert_eq!(document.replaces, None);
            let before = documents.insert(document.url.clone(), document.text);
            assert!(before.is_none(), "{} has two documents", document.url);
        }
        for folder in ["images", "sentences", "documents", "logs", ""] {
            let files = job.files(folder);
            let part = files
                .iter()
                .find(|f| f.extension().is_some_and(|e| e == "part"));
            assert_eq!(part, None, "a half file is left");
        }
        Self {
            endings,
            images,
            rows,
            sentences,
            documents,
            states: states(job, known),
        }
    }
}

/// Files with equal bytes are one file on the disk, and all names but one refer to that one.
fn check_copies(job: &Job) {
    let mut files: BTreeMap<String, Vec<(String, Value, u64)>> = BTreeMap::new();
    for sidecar in job.sidecars() {
        let text = |key: &str| sidecar[key].as_str().unwrap().to_owned();
        let file = std::fs::metadata(job.folder().join(text("file"))).unwrap();
        let copies = files.entry(text("sha256")).or_default();
        copies.push((text("file"), sidecar["same_as"].clone(), file.ino()));
    }
    assert!(
        files.values().any(|copies| copies.len() > 3),
        "no copies to speak of"
    );
    for copies in files.values() {
        let firsts: Vec<_> = copies
            .iter()
            .filter(|(_, same, _)| same.is_null())
            .collect();
        let [(first, _, inode)] = firsts[..] else {
            panic!("not one first file: {copies:?}");
        };
        for (file, same, own) in copies {
            assert!(
                same.is_null() || same == first,
                "{file} is the same as {same}"
            );
            assert_eq!(own, inode, "{file} is a file of its own");
        }
    }
}

/// The store's state of every known address, image or page.
fn states(job: &Job, known: &BTreeSet<(bool, String)>) -> BTreeMap<(bool, String), String> {
    let config = Config::load(&job.file()).unwrap();
    let count = u16::try_from(config.frontier.cells).unwrap();
    let mut frontier = Cells::open(
        config.frontier.store,
        &job.folder().join("frontier"),
        CellCount::new(count).unwrap(),
        Policy::new(&config.politeness, &config.network),
        Scope::new(config.scope.clone()),
    )
    .unwrap();
    frontier.open_all(spoor::clock::now()).unwrap();
    check_tally(job, &frontier);
    let counts = frontier.counts();
    assert_eq!(
        counts.queued_pages() + counts.queued_images + counts.waiting,
        0
    );
    known
        .iter()
        .map(|(is_image, url)| {
            let kind = if *is_image {
                TaskKind::Image
            } else {
                TaskKind::Page
            };
            let record = frontier
                .look_up(&PageUrl::parse(url).unwrap(), kind)
                .unwrap();
            let state = match record.map(|r| r.state) {
                None => "unknown".to_owned(),
                Some(State::Queued | State::Waiting { .. }) => panic!("{url} is left over"),
                Some(State::Done { .. }) => "done".to_owned(),
                Some(State::Redirected { to, .. }) => format!("redirected to {to}"),
                Some(State::Dropped { reason }) => format!("dropped: {}", reason.name()),
            };
            ((*is_image, url.clone()), state)
        })
        .collect()
}

/// The counters agree with the log, page by page: one judge, and no page twice.
fn check_tally(job: &Job, frontier: &Cells) {
    let focus = frontier.focus();
    let rows = job.log();
    for (control, tally) in [(false, focus.focused), (true, focus.control)] {
        let judged: Vec<&Value> = rows
            .iter()
            .filter(|row| row["kind"] == "page" && row["bucket"] != "seed")
            .filter(|row| (row["control"] == true) == control)
            .filter(|row| !row["on_topic_probability"].is_null())
            .collect();
        let likely = |row: &Value| row["on_topic_probability"].as_f64().unwrap();
        let thousandths = judged.iter().map(|row| (likely(row) * 1e3).round() as u64);
        for row in &judged {
            assert_eq!(row["on_topic"], likely(row) >= 0.5, "{row}");
        }
        let on_topic = judged.iter().filter(|row| row["on_topic"] == true).count();
        assert_eq!(
            (tally.pages, tally.on_topic, tally.thousandths),
            (judged.len() as u64, on_topic as u64, thousandths.sum()),
            "control {control}"
        );
        assert!(control || tally.on_topic > 0, "{tally:?}");
    }
}

pub(super) fn job_text() -> String {
    format!(
        "min_delay = \"{}ms\"\ndelay_factor = 0\nretries = 4\nback_off = \"{BACK_OFF}ms\"\nmax_back_off = \"2s\"",
        MIN_DELAY.as_millis()
    )
}

fn make_job(wire: &Wire, store: StoreKind, cells: u16) -> Job {
    let rest = format!(
        "[images]\nmin_width = 20\nmin_height = 20\n\
         [buckets]\nboundaries = \"fixed\"\n\
         high = 140\nmedium = 200\nnormal = 300\nrazor = 550\n\
         [consent]\ntdmrep = true\n\
         [logs]\nrotate = \"8KiB\"\n\
         [frontier]\nstore = \"{}\"\ncells = {cells}\n{ARCHIVE}",
        store.name()
    );
    Job::new(
        wire,
        &JobText {
            seeds: &["http://hub.test/", "http://h00.test/"],
            politeness: &job_text(),
            rest: &rest,
            ..JobText::default()
        },
    )
}

pub(super) fn check_wire(wire: &Wire, forbidden: &[String], killed: &[Instant]) {
    let requests = wire.requests();
    let delay = |host: &str| match host {
        "h06.test" => CRAWL_DELAY,
        _ => MIN_DELAY,
    };
    // The rules of h06 are unknown until they are read.
    let (rules, rest): (Vec<Seen>, Vec<Seen>) = requests
        .into_iter()
        .partition(|r| r.address() == "h06.test/robots.txt");
    let mut wrong = too_close(&rest, delay);
    let mut all = rest;
    all.extend(rules);
    all.sort_by_key(|r| r.began);
    let mut known = BTreeSet::new();
    for seen in &all {
        // The rules of another host redirect to those of this one.
        let are_rules = seen.path == "/robots.txt" || seen.host == "rules.test";
        if known.insert(&seen.host) && !are_rules {
            wrong.push(format!("{} was asked before the rules", seen.address()));
        }
    }
    assert!(!known.is_empty());
    wrong.extend(too_close(&all, |_| MIN_DELAY));
    wrong.extend(impatience(&all, killed));
    for seen in &all {
        if forbidden.iter().any(|f| seen.address().starts_with(f)) && seen.path != "/robots.txt" {
            wrong.push(format!("{} was asked", seen.address()));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// Requests to a host within the second that it asked for with `Retry-After`, unless the process
/// was killed in between: it may have died before it could store the answer.
fn impatience(all: &[Seen], killed: &[Instant]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (at, busy) in all
        .iter()
        .enumerate()
        .filter(|(_, r)| r.status == Some(503))
    {
        let Some(next) = all[at + 1..].iter().find(|r| r.host == busy.host) else {
            continue;
        };
        let answered = busy.ended.unwrap();
        let waited = next.began.saturating_duration_since(answered);
        let died = killed.iter().any(|k| (answered..next.began).contains(k));
        if waited + GRAIN < Duration::from_secs(1) && !died {
            wrong.push(format!("{}: asked again after {waited:?}", busy.address()));
        }
    }
    wrong
}

#[test]
fn a_crawl_that_is_killed_brings_what_an_undisturbed_one_does() {
    kill_and_compare((StoreKind::Sled, 1), KILLS, 20);
}

#[test]
fn a_crawl_that_is_killed_brings_the_same_with_the_other_store() {
    kill_and_compare((StoreKind::Fjall, 1), KILLS / 2, 10);
}

#[test]
#[ignore = "long"]
fn a_crawl_that_is_killed_a_hundred_times_brings_the_same() {
    kill_and_compare((StoreKind::Sled, 1), MANY_KILLS, 60);
}

#[test]
#[ignore = "long"]
fn a_crawl_that_is_killed_a_hundred_times_brings_the_same_with_the_other_store() {
    kill_and_compare((StoreKind::Fjall, 1), MANY_KILLS, 60);
}

/// The undisturbed crawl has one cell. The pauses of each host are checked on the wire, in
/// whichever cell it is.
#[test]
fn a_crawl_over_several_cells_that_is_killed_brings_the_same() {
    kill_and_compare((StoreKind::Fjall, 16), KILLS / 2, 10);
}

#[test]
#[ignore = "long"]
fn a_crawl_over_several_cells_that_is_killed_a_hundred_times_brings_the_same() {
    kill_and_compare((StoreKind::Fjall, 64), MANY_KILLS, 60);
}

fn kill_and_compare((store, cells): (StoreKind, u16), kills: usize, hosts: usize) {
    let seed = match std::env::var("SPOOR_KILL_SEED") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => spoor::clock::now(),
    };
    println!(
        "SPOOR_KILL_SEED={seed} with {} and {cells} cells",
        store.name()
    );
    let mut dice = ChaCha8Rng::seed_from_u64(seed);

    let whole = plan(hosts);
    let (pages, images, known) = (whole.pages, whole.images, whole.known);
    let wire = Wire::serve(whole.lab);
    let job = make_job(&wire, store, 1);
    let begun = Instant::now();
    let out = job.run();
    assert!(out.contains("nothing is left to fetch"), "{out}");
    println!(
        "undisturbed: {} requests in {:.1?}\n{out}",
        wire.requests().len(),
        begun.elapsed()
    );
    check_wire(&wire, &whole.forbidden, &[]);
    let reference = Harvest::of(&job, &known);
    let done = |kind: &str| -> BTreeSet<String> {
        let all = reference.endings.iter();
        let done = all.filter(|((k, _), e)| k == kind && e.starts_with("done"));
        done.map(|((_, url), _)| url.clone()).collect()
    };
    assert_eq!(done("page"), pages);
    let documents: BTreeSet<String> = reference.documents.keys().cloned().collect();
    assert_eq!(documents, pages, "each page done has a document");
    assert_eq!(done("image"), images.keys().cloned().collect());
    let rows: BTreeSet<_> = reference.rows.keys().cloned().collect();
    let planned = images
        .iter()
        .flat_map(|(i, on)| on.iter().map(|p| (i.clone(), p.clone())));
    assert_eq!(rows, planned.collect());
    assert!(reference.rows.values().all(|n| *n == 1));
    let undisturbed = wire.requests().len();

    let whole_events = wire.notes().events();

    let again = plan(hosts);
    let wire = Wire::serve(again.lab);
    let job = make_job(&wire, store, cells);
    let begun = Instant::now();
    let mut killed = Vec::new();
    while killed.len() < kills {
        let few = whole_events / (kills + kills / 2);
        let events = match killed.len() % 4 {
            // During the opening of the store, or at the first requests.
            0 => dice.random_range(0..6),
            // Long enough for the store to have written by itself.
            1 => dice.random_range(few..5 * few),
            _ => dice.random_range(6..few),
        };
        let before = wire.notes().events();
        // Leaves events for the kills that follow, whatever the dice say.
        let share = whole_events * (killed.len() + 1) / (kills + 2);
        let events = events.min(share.saturating_sub(before));
        let mut process = Live::start(&mut job.crawl());
        wire.wait(|n| n.events() >= before + events, || process.has_ended());
        if !process.kill() {
            let ran = process.ended();
            assert!(ran.status.success(), "{ran:#?}");
            break;
        }
        wire.settle();
        killed.push(Instant::now());
    }
    let out = job.run();
    assert!(out.contains("nothing is left to fetch"), "{out}");
    let requests = wire.requests().len();
    println!(
        "{} kills: {requests} requests, {} more than undisturbed, in {:.1?}\n{out}",
        killed.len(),
        requests - undisturbed,
        begun.elapsed()
    );
    assert_eq!(killed.len(), kills, "it was done before the last kill");
    check_wire(&wire, &again.forbidden, &killed);
    let harvest = Harvest::of(&job, &known);
    compare(&reference, &harvest);
    agrees_with_log(&job);

    let out = job.run();
    assert!(out.contains("nothing is left to fetch"), "{out}");
    assert_eq!(wire.requests().len(), requests, "something was asked again");
    compare(&reference, &Harvest::of(&job, &known));
}

/// Compares part by part, because the whole would fill screens.
fn compare(reference: &Harvest, harvest: &Harvest) {
    difference("log", &reference.endings, &harvest.endings);
    difference("images", &reference.images, &harvest.images);
    difference("images.tsv", &reference.rows, &harvest.rows);
    difference("sentences", &reference.sentences, &harvest.sentences);
    difference("documents", &reference.documents, &harvest.documents);
    difference("frontier", &reference.states, &harvest.states);
}

fn difference<K: Ord + std::fmt::Debug, V: PartialEq + std::fmt::Debug>(
    what: &str,
    reference: &BTreeMap<K, V>,
    other: &BTreeMap<K, V>,
) {
    let keys: BTreeSet<&K> = reference.keys().chain(other.keys()).collect();
    let wrong: Vec<String> = keys
        .into_iter()
        .filter(|key| reference.get(key) != other.get(key))
        .map(|key| {
            format!(
                "{key:?}: {:?} undisturbed, {:?} killed",
                reference.get(key),
                other.get(key)
            )
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "{what}: {} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
