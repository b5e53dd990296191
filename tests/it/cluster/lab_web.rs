//! Real pages, while four machines are killed one after the other: together they fetch from the
//! whole lab web what one machine fetches, document for document, and with a limit exactly as many
//! documents as the limit says.

use super::*;
use spoor::outputs::Document;

/// The sections of a job that follows every link and keeps every page.
const ALL: &str = "[strategy]\nkind = \"unfocused\"\n";

/// Some links lead to names that do not exist: their hosts are parked until the end.
const POLITENESS: &str =
    "min_delay = \"20ms\"\ndelay_factor = 0\nback_off = \"20ms\"\nmax_back_off = \"1h\"";

const NO_IMAGES: &str = "[images]\nenabled = false\n";

/// The lab web, and the addresses from which a crawl reaches all of it.
fn lab_web() -> Option<(Lab, Vec<String>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let web = root.join("target/labweb/labweb");
    if !web.is_dir() {
        eprintln!("SKIPPED: target/labweb is absent; unpack ../shared/labweb there to run this");
        return None;
    }
    let seeds = ["space", "linux", "ai", "proglang", "cold"].map(|topic| {
        let file = web.join(format!("seeds/{topic}.txt"));
        std::fs::read_to_string(file).unwrap()
    });
    let seeds = seeds.concat();
    let is_seed = |line: &&str| line.starts_with("http");
    let seeds = seeds.lines().filter(is_seed).map(str::to_owned).collect();
    Some((Lab::open(&web).unwrap(), seeds))
}

/// Four machines and three brokers, on the lab web.
fn four_machines(more: &'static str) -> Option<Cluster> {
    let (Some(brokers), Some((lab, seeds))) = (Brokers::start(3), lab_web()) else {
        return None;
    };
    let text = (seeds, POLITENESS.to_owned());
    let cluster = Cluster::of(brokers, Wire::serve(lab), 4, more, text);
    for machine in &cluster.machines {
        let text = std::fs::read_to_string(machine.file()).unwrap();
        std::fs::write(machine.file(), text.replacen("[images]\n", NO_IMAGES, 1)).unwrap();
    }
    Some(cluster)
}

/// The interval between kills.
#[derive(Clone, Copy)]
enum Between {
    Time(Duration),
    Requests(usize),
}

/// Lets all machines crawl to the end, and kills one after the other. Returns the number of kills.
fn crawl(cluster: &Cluster, between: Between) -> usize {
    let begun = Instant::now();
    let machines = cluster.machines.len();
    let mut running: Vec<Live> = (0..machines).map(|number| cluster.start(number)).collect();
    let (mut kills, mut events) = (0, 0);
    'crawl: loop {
        let begins = Instant::now();
        let asked = cluster.wire.notes().requests.len();
        let is_due = |notes: &Notes| match between {
            Between::Time(time) => begins.elapsed() >= time,
            Between::Requests(requests) => notes.requests.len() >= asked + requests,
        };
        let mut has_ended = || running.iter_mut().any(Live::has_ended);
        cluster.wire.wait(is_due, &mut has_ended);
        for (number, live) in running.iter_mut().enumerate() {
            if !live.has_ended() {
                continue;
            }
            let ran = std::mem::replace(live, cluster.start(number)).ended();
            if ran.status.success() {
                break 'crawl;
            }
            must_begin_anew(&ran);
        }
        // The machines end only when none has had anything to do for some seconds.
        let before = std::mem::replace(&mut events, cluster.wire.notes().events());
        if events == before {
            break;
        }
        let number = kills % machines;
        if running[number].kill() {
            kills += 1;
            running[number] = cluster.start(number);
        }
    }
    for (number, live) in running.into_iter().enumerate() {
        come_to_an_end(live, || cluster.start(number));
    }
    let requests = cluster.wire.requests();
    let seconds = begun.elapsed().as_secs();
    println!("{kills} kills in {seconds} s, {} requests", requests.len());
    assert_eq!(too_close(&requests, |_| Duration::from_millis(20)), [""; 0]);
    kills
}

/// The parts of a document that do not depend on when a page is fetched or which links led to it.
fn same(mut document: Document) -> (String, Document) {
    document.fetched = String::new();
    (document.via, document.hops, document.near_copy_of) = (None, 0, None);
    (document.url.clone(), document)
}

fn documents(job: &Job) -> BTreeMap<String, Document> {
    let all = job.documents();
    let count = all.len();
    let by_url: BTreeMap<_, _> = all.into_iter().map(same).collect();
    assert_eq!(by_url.len(), count, "a page has two documents");
    by_url
}

#[test]
#[ignore = "long: a quarter of an hour, much less with optimisation"]
fn four_machines_that_are_killed_bring_the_lab_web_as_one_does() {
    let (Some(cluster), Some((lab, seeds))) = (four_machines(ALL), lab_web()) else {
        return;
    };
    let begins: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let whole = {
        let wire = Wire::serve(lab);
        let rest = format!("{ALL}{NO_IMAGES}[frontier]\nstore = \"fjall\"\n");
        let text = JobText {
            seeds: &begins,
            politeness: POLITENESS,
            rest: &rest,
            ..JobText::default()
        };
        let job = Job::new(&wire, &text);
        let out = job.run();
        assert!(out.contains("nothing is left to fetch"), "{out}");
        documents(&job)
    };
    crawl(&cluster, Between::Time(Duration::from_secs(10)));
    let gathered = documents(&cluster.gathered());
    println!(
        "{} documents of one, {} of four",
        whole.len(),
        gathered.len()
    );
    for (url, document) in &whole {
        assert_eq!(gathered.get(url), Some(document), "{url}");
    }
    let more = gathered.keys().filter(|url| !whole.contains_key(*url));
    assert_eq!(Vec::from_iter(more), [""; 0]);
}

#[test]
#[ignore = "long: some minutes, less with optimisation"]
fn four_machines_that_are_killed_keep_exactly_to_the_limit() {
    let more = "[strategy]\nkind = \"unfocused\"\n[limits]\ndocuments = 1000\n";
    let Some(cluster) = four_machines(more) else {
        return;
    };
    let kills = crawl(&cluster, Between::Requests(200));
    assert!(kills > 2, "{kills}");
    let gathered = cluster.gathered();
    let (documents, pages) = (documents(&gathered), done(&gathered, "page"));
    assert_eq!(documents.len(), 1000);
    assert!(documents.keys().eq(pages.iter()), "the log has other pages");
}
