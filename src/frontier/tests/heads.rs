//! The heads of the queues in memory, over histories of a learning crawl.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::{RngExt, SeedableRng};

use super::learning::link;
use super::*;
use crate::heads::tests::entries;
use crate::page::Nearness;
use crate::store::{Batch, Readable, Visitor};
use crate::testing::Taught;

over_all! {
    a_long_learning_history_keeps_its_heads
}

/// Compares the queue heads in memory with scans of the queues.
pub(super) fn check_heads(f: &Frontier) {
    let store = f.ledger.store();
    f.ledger.heads().agree_with(store);
    for host in f.ledger.heads().hosts() {
        assert!(f.schedule.slot(&host).is_some(), "{host} is kept in memory");
    }
    let slots = f.schedule.slots();
    for host in slots.iter().filter_map(|slot| f.schedule.host(*slot)) {
        let first = |class| {
            let all = entries(store, &host.key, class).into_iter();
            let mut free = all.filter(|e| !host.leased.iter().any(|l| **l == *e.value));
            free.next().map(|entry| (entry.rank, entry.value.to_vec()))
        };
        for head in host.head.iter().chain(&host.image) {
            // A drawn link goes first, wherever it is queued.
            if store.get(&keys::drawn(&head.value)).unwrap().is_none() {
                let expected = Some((head.rank, head.value.clone()));
                assert_eq!(first(head.class), expected, "{}", host.key);
            }
        }
    }
}

/// A store that refuses the next batch on request.
struct Fragile {
    store: Box<dyn Store>,
    refuses: Arc<AtomicBool>,
}

impl Readable for Fragile {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(key)
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError> {
        self.store.scan(prefix, from, visit)
    }

    fn path(&self) -> &Path {
        self.store.path()
    }
}

impl Store for Fragile {
    fn apply(&mut self, batch: Batch) -> Result<(), StoreError> {
        if self.refuses.swap(false, Ordering::Relaxed) {
            return Err(StoreError::Io {
                path: self.path().to_owned(),
                why: "no space left".to_owned(),
            });
        }
        self.store.apply(batch)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.store.flush()
    }

    fn size(&self) -> Result<u64, StoreError> {
        self.store.size()
    }

    fn compact(&mut self) -> Result<bool, StoreError> {
        self.store.compact()
    }

    fn snapshot(&self) -> Box<dyn Readable> {
        self.store.snapshot()
    }
}

/// A learning crawl with random events.
struct World {
    folder: tempfile::TempDir,
    f: Option<Frontier>,
    refuses: Arc<AtomicBool>,
    open: Vec<Task>,
    scope: &'static str,
    now: u64,
    /// Changes with each different rating.
    version: u64,
}

const SCOPES: [&str; 3] = ["", "max_hops = 2", "reject = ['http://h1.org/']"];

impl World {
    fn new() -> Self {
        let mut world = Self {
            folder: tempfile::tempdir().unwrap(),
            f: None,
            refuses: Arc::default(),
            open: Vec::new(),
            scope: "",
            now: 1_000_000,
            version: 0,
        };
        world.reopen();
        let seeds = [address(0), address(1)];
        let now = world.now;
        world.f().add_seeds(&seeds, now).unwrap();
        world
    }

    fn f(&mut self) -> &mut Frontier {
        self.f.as_mut().unwrap()
    }

    fn reopen(&mut self) {
        self.f = None;
        self.open.clear();
        self.refuses.store(false, Ordering::Relaxed);
        let store = Fragile {
            store: open_store(self.folder.path()).unwrap(),
            refuses: Arc::clone(&self.refuses),
        };
        let policy = Policy {
            connections: 2,
            delay_factor: 0.0,
            ..test_policy()
        };
        let scope = scope_of(self.scope);
        let f = Frontier::open(Box::new(store), policy, scope, self.now).unwrap();
        self.f = Some(f);
        self.rate().unwrap();
    }

    /// Sets a rating; it differs from the previous one if its version does.
    fn rate(&mut self) -> Result<bool, StoreError> {
        let taught = Taught::of_version(self.version);
        self.f().set_rating(Arc::new(taught))
    }

    fn step(&mut self, kind: u8, r: u32) -> Result<(), StoreError> {
        let (now, n) = (self.now, r as usize);
        match kind {
            0..30 => {
                if let Some(task) = self.f().lease(now)? {
                    self.open.push(task);
                }
            }
            30..62 if !self.open.is_empty() => {
                let task = self.open[n % self.open.len()].clone();
                self.settle(&task, n / 8)?;
                self.open.retain(|open| open.lease != task.lease);
            }
            62..72 => self.now += u64::from(r % 3_000),
            72 => self.now += u64::from(r % 200_000),
            73..82 => drop(self.f().rescore_slice(now)?),
            82 => {
                self.scope = SCOPES[n % SCOPES.len()];
                let scope = scope_of(self.scope);
                self.f().set_scope(scope)?;
            }
            83..86 => drop(self.f().rescope_slice(now)?),
            86 => self.f().close_pages(now)?,
            87 | 88 => self.f().open_pages(now)?,
            89 => {
                self.version += 1;
                self.rate()?;
            }
            90 => self.reopen(),
            91 if self.open.is_empty() => {
                let (scope, picture) = (scope_of(self.scope), picture(n));
                self.f().take_down(&scope, &[picture], &[], now, false)?;
            }
            92 => self.f().add_seeds(&[address(n % 60)], now)?,
            _ => {}
        }
        Ok(())
    }

    fn settle(&mut self, task: &Task, n: usize) -> Result<(), StoreError> {
        let now = self.now;
        if task.kind == TaskKind::Robots {
            let answer = match n % 9 {
                0 => RobotsAnswer::Redirect(address(n / 9 % 60)),
                1 => RobotsAnswer::Rules("User-agent: *\nDisallow: /7\n".into()),
                _ => RobotsAnswer::Missing,
            };
            let none = |_: &Settled| Ok::<_, StoreError>(Vec::new());
            self.f().finish_robots(task, answer, SECOND, now, none)?;
            return Ok(());
        }
        let outcome = match n % 12 {
            0 => return self.f().abandon(task, now),
            1 => Outcome::Redirect {
                to: address(n / 12 % 60),
            },
            2 => Outcome::Drop {
                reason: Reason::ClientError,
            },
            3 | 4 => Outcome::Retry {
                reason: Reason::Timeout,
                retry_after: None,
                host_backs_off: n % 12 == 3,
            },
            _ => Outcome::Done,
        };
        let effects = match (&outcome, task.kind) {
            (Outcome::Done, TaskKind::Page) => brought(task, n / 12),
            _ => Effects::default(),
        };
        let none = |_: &Finished| Ok::<_, StoreError>(Written::default());
        self.f().finish(task, outcome, effects, SECOND, now, none)?;
        Ok(())
    }
}

fn scope_of(section: &str) -> Scope {
    let text = format!("[job]\nname = \"test\"\n[scope]\n{section}");
    Scope::new(Config::parse(&text, "test.toml").unwrap().settings.scope)
}

fn picture(n: usize) -> PageUrl {
    url(&format!("http://h{}.org/{}.png", n % 5, n % 20))
}

/// The contents of a page that is on topic by chance.
fn brought(task: &Task, n: usize) -> Effects {
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(n as u64);
    let near = random.random_range(0.0..1.0);
    let links = (0..random.random_range(0..8)).map(|_| {
        let target = address(random.random_range(0..60));
        link(target.as_str(), random.random_range(0..6))
    });
    let links = links.collect();
    let images = (0..random.random_range(0..3)).map(|_| {
        let picture = picture(random.random_range(0..20));
        let score = random.random_range(1.0..900.0);
        image(picture.as_str(), task.url.as_str(), score)
    });
    Effects {
        images: images.collect(),
        links,
        on_topic: Some(near),
        nearness: Some(Nearness::Likely(near)),
        ..Effects::default()
    }
}

fn history(steps: impl Iterator<Item = (u8, u32)>) {
    let mut world = World::new();
    for (kind, r) in steps {
        check(world.f());
        // Now and then the next commit fails.
        let fails = r.is_multiple_of(16);
        world.refuses.store(fails, Ordering::Relaxed);
        let came = world.step(kind % 93, r / 16);
        assert!(came.is_ok() || fails, "{came:?}");
        world.refuses.store(false, Ordering::Relaxed);
    }
    check(world.f());
}

fn a_long_learning_history_keeps_its_heads() {
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(2);
    history((0..800).map(|_| (random.random(), random.random())));
}

proptest! {
    #![proptest_config(spoor_testing::cases!(32))]
    /// For any history of a learning crawl: links that move as their scores change, other
    /// scopes and ratings, takedowns, restarts, and commits that fail.
    #[test]
    fn heads_are_those_of_the_queues(
        steps in proptest::collection::vec((any::<u8>(), any::<u32>()), 1..300)
    ) {
        history(steps.into_iter());
    }
}
