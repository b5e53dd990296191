//! A small web, and everything that a crawl of it leaves, for tests that must end like an
//! undisturbed crawl.

use std::sync::OnceLock;
use std::time::Duration;

use spoor::settings::StoreKind;
use spoor_lab::{Behaviour, Lab};

use super::disk::used;
use super::texts::{plain, tree};
use super::{Job, JobText, Wire};

const HOSTS: usize = 6;
/// Pages of each host, and images that are on only one of its pages.
const PAGES: usize = 40;
/// Images on pages of all hosts.
const SHARED: usize = 9;

/// The total number of pages and images.
pub const TASKS: usize = HOSTS * PAGES * 2 + SHARED;

/// Enough hosts, pages and pictures for a crawl of some seconds if each answer takes `slow`.
pub fn lab(slow: Duration) -> Lab {
    let mut pages = Vec::new();
    for host in 0..HOSTS {
        for n in 0..PAGES {
            let next = format!("/{}", (n + 1) % PAGES);
            let across = format!(
                "http://h{}.test/{}",
                (host + 1) % HOSTS,
                (n * 7 + 3) % PAGES
            );
            let own = format!("http://h{host}.test/{n}.png");
            let shared = format!("http://i.test/{}.png", n % SHARED);
            let html = plain(&[&next, &across], &[&own, &shared]);
            pages.push((format!("h{host}.test/{n}"), html));
        }
    }
    let pages: Vec<_> = pages.iter().map(|(a, h)| (a.as_str(), h.clone())).collect();
    let mut tree = tree(&pages);
    for host in 0..HOSTS {
        for n in 0..PAGES {
            assert!(tree.image(&format!("http://h{host}.test/{n}.png"), 30, 30));
        }
    }
    for n in 0..SHARED {
        assert!(tree.image(&format!("http://i.test/{n}.png"), 31, 30));
    }
    let hosts = (0..HOSTS).map(|host| format!("h{host}.test"));
    hosts.fold(Lab::from_memory(tree), |lab, host| {
        lab.with_behaviour(Behaviour::of(&host).latency(slow))
    })
}

/// The sections of a job on this web: the store, the images, and more.
pub fn rest(store: StoreKind, more: &str) -> String {
    format!(
        "[images]\nmin_width = 20\nmin_height = 20\n[frontier]\nstore = \"{}\"\n{more}",
        store.name()
    )
}

/// A job on this web, with the sections of [`rest`].
pub fn text(rest: &str) -> JobText<'_> {
    JobText {
        seeds: &["http://h0.test/0"],
        rest,
        ..JobText::default()
    }
}

/// The result of [`harvest`].
pub type Harvest = [Vec<String>; 5];

/// What an undisturbed crawl leaves, and the bytes it takes on the disk; crawled once for all
/// tests.
pub fn undisturbed(store: StoreKind) -> &'static (Harvest, u64) {
    static SLED: OnceLock<(Harvest, u64)> = OnceLock::new();
    static FJALL: OnceLock<(Harvest, u64)> = OnceLock::new();
    let known = match store {
        StoreKind::Sled => &SLED,
        StoreKind::Fjall => &FJALL,
    };
    known.get_or_init(|| {
        let wire = Wire::serve(lab(Duration::ZERO));
        let job = Job::new(&wire, &text(&rest(store, "")));
        job.run();
        let harvest = harvest(&job);
        assert_eq!(harvest[0].len(), TASKS);
        (harvest, used(&job.folder()))
    })
}

/// The log's tasks with their endings, the rows and contexts of the images, and the sentences and
/// documents, each sorted: everything that must be there exactly once.
pub fn harvest(job: &Job) -> Harvest {
    let mut endings: Vec<String> = job.endings();
    // A robots.txt may be fetched again after a restart.
    endings.retain(|e| !e.starts_with("robots"));
    let rows = job.image_rows();
    let rows = rows.iter().map(|r| format!("{} {}", r["url"], r["page"]));
    let sidecars = job.sidecars();
    let contexts = sidecars.iter().flat_map(|s| {
        let all = s["contexts"].as_array().unwrap();
        let context = |c: &serde_json::Value| format!("{} {}", s["url"], c["page"]);
        all.iter().map(context).collect::<Vec<_>>()
    });
    let documents = job.documents().into_iter();
    let documents = documents.map(|d| format!("{} {}", d.url, d.hash));
    let mut all = [
        endings,
        rows.collect(),
        contexts.collect(),
        job.sentences(),
        documents.collect(),
    ];
    all.iter_mut().for_each(|list| list.sort());
    all
}
