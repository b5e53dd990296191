//! A small web that is fully determined by a number, and machines that crawl it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use crate::address::PageUrl;
use crate::config::Config;
use crate::crawl::checkpoint;
use crate::frontier::store::StoreError;
use crate::frontier::{
    CellCount, CellId, Cells, Effects, Frontier, NewTask, Policy, RobotsAnswer, Written,
};
use crate::page::{Bucket, Outcome, Reason, TaskKind};
use crate::settings::StoreKind;
use crate::web::scope::Scope;

const JOB: &str = "[job]\nname = \"test\"\ncontact = \"mailto:nobody@localhost\"\n\
    [politeness]\nmin_delay = \"0s\"\ndelay_factor = 0.0\naddress_delay = \"0s\"\n\
    [consent]\ntdmrep = false\n[control_sample]\nshare = 0.0\n";

/// The number of hosts, of pages on each, and of links on each page.
const HOSTS: u64 = 8;
const PAGES: u64 = 3;
const LINKS: u64 = 4;

/// A web.
pub struct Web(pub u64);

impl Web {
    fn page(&self, number: u64) -> PageUrl {
        let (host, page) = (number % HOSTS, number / HOSTS % PAGES);
        PageUrl::parse(&format!("http://h{host}.org/{page}")).unwrap()
    }

    pub fn seed(&self) -> PageUrl {
        self.page(self.0)
    }

    /// The links of a page: some to other pages, and one that only this page has, to a page without
    /// links.
    pub fn links(&self, url: &PageUrl) -> Vec<NewTask> {
        if url.path().starts_with("/leaf") {
            return Vec::new();
        }
        let number = |n: u64| xxh3_64(format!("{} {url} {n}", self.0).as_bytes());
        let mut links: Vec<PageUrl> = (0..LINKS).map(|n| self.page(number(n))).collect();
        let leaf = format!("http://h{}.org/leaf/{:x}", number(9) % HOSTS, number(10));
        links.push(PageUrl::parse(&leaf).unwrap());
        let task = |url: PageUrl| NewTask {
            bucket: Some(Bucket::Normal),
            score: (xxh3_64(url.as_str().as_bytes()) % 1_000) as f64,
            parts: None,
            anchor: None,
            clues: None,
            url,
        };
        links.into_iter().map(task).collect()
    }

    /// All reachable pages.
    pub fn all(&self) -> BTreeSet<String> {
        let mut left = vec![self.seed()];
        let mut all = BTreeSet::new();
        while let Some(url) = left.pop() {
            if all.insert(url.as_str().to_owned()) {
                left.extend(self.links(&url).into_iter().map(|link| link.url));
            }
        }
        all
    }
}

/// The frontiers of one machine.
pub struct Machine {
    pub folder: PathBuf,
    pub own: Vec<CellId>,
    pub cells: Cells,
    /// The pages that it has done.
    pub done: BTreeMap<String, Vec<PageUrl>>,
}

/// Opens the store in a folder.
pub fn open(folder: &Path, cells: CellCount) -> Cells {
    let config = Config::parse(JOB, "test.toml").unwrap();
    let policy: Policy = checkpoint::policy(&config);
    let scope = Scope::new(config.scope.clone());
    Cells::open(StoreKind::Fjall, folder, cells, policy, scope).unwrap()
}

impl Machine {
    /// Begins with empty cells.
    pub fn new(folder: PathBuf, own: Vec<CellId>, cells: CellCount, now: u64) -> Self {
        let mut cells = open(&folder, cells);
        own.iter().for_each(|c| cells.open_cell(*c, now).unwrap());
        let done = BTreeMap::new();
        Self {
            folder,
            own,
            cells,
            done,
        }
    }

    /// Continues after the process was killed.
    pub fn killed(self, now: u64) -> Self {
        let Self {
            folder,
            own,
            cells,
            done,
        } = self;
        let count = cells.cells();
        drop(cells);
        let again = Self::new(folder, own, count, now);
        Self { done, ..again }
    }

    /// Makes the host of the next requested page answer that it is overloaded. Returns the cell of
    /// the host.
    pub fn overload(&mut self, mut now: u64) -> CellId {
        loop {
            let Some((cell, task)) = self.cells.lease(&self.own, now).unwrap() else {
                now = self.cells.next_event().unwrap().max(now + 1);
                continue;
            };
            let elapsed = Duration::from_millis(10);
            if task.kind == TaskKind::Robots {
                let write = |_: &_| Ok::<_, StoreError>(Vec::new());
                let missing = RobotsAnswer::Missing;
                let finish =
                    |f: &mut Frontier| f.finish_robots(&task, missing, elapsed, now, write);
                self.cells.with(cell, now, finish).unwrap();
                continue;
            }
            let outcome = Outcome::Retry {
                reason: Reason::Overloaded,
                retry_after: Some(Duration::from_secs(60)),
                host_backs_off: true,
            };
            let written = |_: &_| Ok::<_, StoreError>(Written::default());
            let finish = |f: &mut Frontier| {
                f.finish(&task, outcome, Effects::default(), elapsed, now, written)
            };
            self.cells.with(cell, now, finish).unwrap();
            return cell;
        }
    }

    /// Answers one task; false if there is none.
    pub fn crawl(&mut self, web: &Web, now: u64) -> bool {
        let Some((cell, task)) = self.cells.lease(&self.own, now).unwrap() else {
            return false;
        };
        let elapsed = Duration::from_millis(10);
        if task.kind == TaskKind::Robots {
            let write = |_: &_| Ok::<_, StoreError>(Vec::new());
            let answer = RobotsAnswer::Missing;
            self.cells
                .with(cell, now, |f| {
                    f.finish_robots(&task, answer, elapsed, now, write)
                })
                .unwrap();
            return true;
        }
        let links = web.links(&task.url);
        let found = links.iter().map(|link| link.url.clone()).collect();
        let effects = Effects {
            links,
            ..Effects::default()
        };
        self.cells
            .with(cell, now, |f| {
                f.finish(&task, Outcome::Done, effects, elapsed, now, |_| {
                    Ok::<_, StoreError>(Written::default())
                })
            })
            .unwrap();
        self.done.insert(task.url.as_str().to_owned(), found);
        true
    }
}
