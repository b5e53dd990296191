//! One history that combines everything: shared addresses, changing robots rules and
//! scopes, visits, copies, sitemaps, restarts, exports.

use std::net::{IpAddr, Ipv4Addr};

use rand::{RngExt, SeedableRng};

use super::*;
use crate::page::{BlockPrint, Prints, Validators};

over_all! {
    a_long_history_holds_together
}

const HOSTS: usize = 4;
const ADDRESS_DELAY: u64 = 1_700;
const DOMAIN_DELAY: u64 = 1_300;
const ROBOTS_MAX_AGE: u64 = 300_000;
/// The shortest back-off, in seconds.
const BACK_OFF: usize = 5;
/// Calls that may return nothing although a task is reported as ready.
const MAX_SPINS: usize = 100;

const SCOPES: [&str; 6] = [
    "",
    "max_hops = 1",
    "reject = ['http://w1.d1.org/']",
    "accept = ['org,d0', 'org,d2']",
    "host_documents = 2",
    "domain_documents = 3\nreject = ['http://w2.d0.org/3']",
];

const RULES: [&str; 5] = [
    "User-agent: *\nDisallow: /1\n",
    "User-agent: *\nDisallow: /\n",
    "User-agent: *\nDisallow: /i\nDisallow: /2\n",
    "User-agent: *\nAllow: /\nSitemap: /map.xml\nSitemap: http://w0.d0.org/map2.xml\n",
    "User-agent: *\nCrawl-delay: 7\nDisallow: /3\n",
];

fn host(n: usize) -> String {
    format!("w{}.d{}.org", n % HOSTS, n % HOSTS % 3)
}

fn place(n: usize) -> String {
    let session = if n.is_multiple_of(7) {
        "?utm_source=a"
    } else {
        ""
    };
    format!("http://{}/{}{session}", host(n), n / HOSTS)
}

fn rest_of(n: usize) -> usize {
    n.wrapping_mul(2_654_435_761) >> 7
}

/// The events outside of the frontier, for comparison.
struct World {
    folder: tempfile::TempDir,
    /// Stores so far; an import goes into a new one.
    stores: usize,
    f: Option<Frontier>,
    now: u64,
    scope: usize,
    connections: usize,
    recrawl: bool,
    watched: Vec<(PageUrl, Duration)>,
    open: Vec<Task>,
    /// The last time of a request to a host or of its answer.
    asked: BTreeMap<HostKey, u64>,
    addresses: BTreeMap<HostKey, Option<IpAddr>>,
    address_asked: BTreeMap<IpAddr, u64>,
    domain_asked: BTreeMap<String, u64>,
    /// The pauses that hosts asked for explicitly, and the shortest pause after a
    /// failure.
    promised: BTreeMap<HostKey, u64>,
    rules: BTreeMap<HostKey, (Robots, u64)>,
    documents: u64,
}

impl World {
    fn new(connections: usize) -> Self {
        let mut world = Self {
            folder: tempfile::tempdir().unwrap(),
            stores: 0,
            f: None,
            now: 1_000_000,
            scope: 0,
            connections,
            recrawl: true,
            watched: Vec::new(),
            open: Vec::new(),
            asked: BTreeMap::new(),
            addresses: BTreeMap::new(),
            address_asked: BTreeMap::new(),
            domain_asked: BTreeMap::new(),
            promised: BTreeMap::new(),
            rules: BTreeMap::new(),
            documents: 0,
        };
        world.reopen();
        world
    }

    fn f(&mut self) -> &mut Frontier {
        self.f.as_mut().unwrap()
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join(self.stores.to_string())
    }

    fn scope(&self) -> Scope {
        scope_of(SCOPES[self.scope])
    }

    fn reopen(&mut self) {
        self.f = None;
        self.open.clear();
        let recrawl = Recrawl {
            after: 40_000,
            min: 10_000,
            max: 200_000,
        };
        let policy = Policy {
            connections: self.connections,
            address_delay: ADDRESS_DELAY,
            domain_delay: DOMAIN_DELAY,
            delay_factor: 0.0,
            retries: 1,
            back_off: 1_000 * BACK_OFF as u64,
            max_back_off: 40_000,
            robots_max_age: ROBOTS_MAX_AGE,
            sitemaps: true,
            recrawl: self.recrawl.then_some(recrawl),
            ..test_policy()
        };
        let store = open_store(&self.path()).unwrap();
        let mut f = Frontier::open(store, policy, self.scope(), self.now).unwrap();
        f.watch(&self.watched, self.now).unwrap();
        self.f = Some(f);
    }

    fn close(&mut self) {
        self.f.take().unwrap().close().unwrap();
        self.reopen();
    }

    fn import(&mut self) {
        let (lines, found) = exported(self.f().ledger.store());
        assert!(found.is_whole(), "{found:?}");
        self.f = None;
        self.stores += 1;
        drop(imported(&lines, &self.path()));
        self.reopen();
    }

    /// Leases once; a leased task must be permitted at this time.
    fn lease(&mut self) -> Option<Task> {
        let now = self.now;
        let ended = self.f().is_exhausted() && self.f().hosts().1 == 0;
        let task = self.f().lease(now).unwrap();
        assert!(!(ended && task.is_some()), "leased after the end: {task:?}");
        let task = task?;
        let here = self.open.iter().filter(|t| t.host == task.host).count();
        assert!(here < self.connections, "{}", task.url);
        assert!(
            self.open
                .iter()
                .all(|t| t.url != task.url || t.kind != task.kind),
            "leased twice: {}",
            task.url
        );
        self.open.push(task.clone());
        let scope = self.scope();
        let judged = match task.kind {
            TaskKind::Robots | TaskKind::Tdmrep | TaskKind::Rsl => Ok(()),
            TaskKind::Image => scope.image(&task.url),
            TaskKind::Sitemap => scope.sitemap(&task.url),
            TaskKind::Page => scope.page(&task.url, task.hops),
        };
        assert_eq!(judged, Ok(()), "{}", task.url);
        if task.kind != TaskKind::Robots {
            let (rules, at) = &self.rules[&task.host];
            assert!(rules.allows(&task.url), "{}", task.url);
            assert!(now < at + ROBOTS_MAX_AGE, "by old rules: {}", task.url);
        }
        if task.locate {
            return Some(task);
        }
        if let Some(before) = self.asked.insert(task.host.clone(), now) {
            assert!(now - before >= 1_000, "{} after {}", task.url, now - before);
        }
        let domain = task.host.registered_domain().to_owned();
        if let Some(before) = self.domain_asked.insert(domain, now) {
            assert!(now - before >= DOMAIN_DELAY, "domain: {}", task.url);
        }
        let promised = self.promised.get(&task.host).copied().unwrap_or(0);
        assert!(now >= promised, "{} though asked to wait", task.url);
        let address = self.addresses.get(&task.host);
        if let Some(address) = *address.expect("the address is not known")
            && let Some(before) = self.address_asked.insert(address, now)
        {
            assert!(now - before >= ADDRESS_DELAY, "{address}: {}", task.url);
        }
        Some(task)
    }

    /// Leases until nothing is returned; the frontier must then report when to try again.
    fn lease_all(&mut self) {
        let mut spins = 0;
        loop {
            if self.lease().is_some() {
                continue;
            }
            let (now, f) = (self.now, self.f());
            if f.next_event().is_none_or(|at| at > now) {
                return;
            }
            f.rescope_slice(now).unwrap();
            spins += 1;
            assert!(spins < MAX_SPINS, "ready for ever, and nothing comes");
        }
    }

    /// Answers the lookup or the robots.txt of a task; gives it back otherwise.
    fn answer(&mut self, task: Task, r: usize) -> Option<Task> {
        let now = self.now;
        if task.locate && !r.is_multiple_of(16) {
            let address = Ipv4Addr::new(192, 0, 2, (r / 8 % 2) as u8);
            let address = (!r.is_multiple_of(5)).then_some(IpAddr::from(address));
            self.f().located(&task, address, now).unwrap();
            self.addresses.insert(task.host, address);
            return None;
        }
        if !task.locate {
            self.asked.insert(task.host.clone(), now);
        }
        if task.kind != TaskKind::Robots {
            return Some(task);
        }
        let owner = match task.url.path().strip_prefix("/for-") {
            Some(owner) => url(&format!("http://{owner}/")).host_key(),
            None => task.host.clone(),
        };
        let r = r / 80;
        if task.locate {
            self.promise(&task.host, BACK_OFF);
        }
        let answer = match r % 12 {
            _ if task.locate => RobotsAnswer::Unreachable {
                reason: Reason::Connection,
                retry_after: None,
            },
            0..5 => RobotsAnswer::Missing,
            5 => RobotsAnswer::Redirect(url(&format!("http://{}/for-{owner}", host(r / 12)))),
            6 => {
                let wait = r / 12 % 60;
                self.promise(&task.host, wait);
                RobotsAnswer::Unreachable {
                    reason: Reason::Overloaded,
                    retry_after: Some(Duration::from_secs(wait as u64)),
                }
            }
            _ => RobotsAnswer::Rules(RULES[r / 12 % RULES.len()].into()),
        };
        let parsed = match &answer {
            RobotsAnswer::Missing => Some(Robots::allow_all()),
            RobotsAnswer::Rules(body) => Some(Robots::parse("spoor", body)),
            _ => None,
        };
        self.rules.extend(parsed.map(|rules| (owner, (rules, now))));
        robots(self.f(), &task, answer, now);
        None
    }

    fn promise(&mut self, host: &HostKey, seconds: usize) {
        let until = self.now + 1_000 * seconds as u64;
        let promised = self.promised.entry(host.clone()).or_default();
        *promised = until.max(*promised);
    }

    fn settle(&mut self, r: usize) {
        if self.open.is_empty() {
            return;
        }
        let task = self.open.swap_remove(r % self.open.len());
        if r.is_multiple_of(31) {
            let now = self.now;
            return self.f().abandon(&task, now).unwrap();
        }
        let Some(task) = self.answer(task, r / 8) else {
            return;
        };
        let now = self.now;
        let r = rest_of(r);
        if task.locate {
            self.promise(&task.host, BACK_OFF);
            let retry = Outcome::Retry {
                reason: Reason::Connection,
                retry_after: None,
                host_backs_off: true,
            };
            finish(self.f(), &task, retry, Effects::default(), now);
            return;
        }
        let target = match task.kind {
            TaskKind::Image => url(&format!("http://{}/i{}.png", host(r / 16), r / 128 % 4)),
            _ => url(&place(r / 16 % 24)),
        };
        let outcome = match r % 16 {
            0..8 => Outcome::Done,
            8 | 9 => Outcome::Unchanged,
            10 | 11 => Outcome::Redirect { to: target },
            12 => {
                let wait = r / 16 % 60;
                self.promise(&task.host, wait);
                Outcome::Retry {
                    reason: Reason::Overloaded,
                    retry_after: Some(Duration::from_secs(wait as u64)),
                    host_backs_off: true,
                }
            }
            13 => Outcome::Retry {
                reason: Reason::Protocol,
                retry_after: None,
                host_backs_off: false,
            },
            _ => Outcome::Drop {
                reason: Reason::ClientError,
            },
        };
        let effects = match outcome {
            Outcome::Done => brought(&task, rest_of(r)),
            _ => Effects::default(),
        };
        finish(self.f(), &task, outcome, effects, now);
    }

    /// Usually the crawl continues, and waits where necessary.
    fn go_on(&mut self, mut r: usize) {
        for _ in 0..6 {
            r = rest_of(r) ^ r << 13;
            if self.lease().is_some() {
                if !r.is_multiple_of(4) {
                    self.settle(rest_of(r));
                }
            } else if let Some(at) = self.f().next_event() {
                self.now = at.clamp(self.now, self.now + 20_000);
            }
        }
    }

    fn list(&mut self, r: usize) {
        let now = self.now;
        let sitemap = |t: &&Task| t.kind == TaskKind::Sitemap && !t.locate;
        if let Some(task) = self.open.iter().find(sitemap).cloned() {
            self.f().add_listed(&task, brought(&task, r), now).unwrap();
        }
    }

    fn step(&mut self, kind: u8, r: usize) {
        let now = self.now;
        match kind {
            0..45 => self.go_on(r),
            45..48 => self.lease_all(),
            48..66 => self.settle(r),
            66..74 => self.now += (r % 5_000) as u64,
            74..82 => self.now += (r % 150_000) as u64,
            82..85 => {
                self.scope = r % SCOPES.len();
                let scope = self.scope();
                self.f().set_scope(scope).unwrap();
            }
            85..89 => {
                self.f().rescope_slice(now).unwrap();
            }
            89 => self.reopen(),
            90 => self.close(),
            91 => self.import(),
            92 | 93 => self.list(r),
            94 => {
                let seconds = 5 + (r / 24 % 100) as u64;
                self.watched.retain(|_| !r.is_multiple_of(3));
                let watched = (url(&place(r % 24)), Duration::from_secs(seconds));
                self.watched.push(watched);
                let list = self.watched.clone();
                self.f().watch(&list, now).unwrap();
            }
            95 => {
                self.recrawl = !self.recrawl;
                self.close();
            }
            _ => self.f().add_seeds(&[url(&place(r % 24))], now).unwrap(),
        }
        self.check();
    }

    fn check(&mut self) {
        let documents = self.f().counts().documents;
        assert!(documents >= self.documents, "documents were lost");
        self.documents = documents;
        check(self.f());
        let f = self.f();
        let mut numbers = BTreeSet::new();
        let mut finished = Vec::new();
        f.ledger
            .store()
            .scan(keys::URLS, &[], &mut |key, value| {
                let record: UrlRecord = postcard::from_bytes(value).unwrap();
                let (url, kind) = keys::url_of_key(key).unwrap();
                match record.state {
                    State::Done { id } => finished.push((url, id)),
                    State::Dropped {
                        reason: reason @ (Reason::Scope | Reason::Hops | Reason::Trap),
                    } if kind == TaskKind::Page && !f.is_rescoping() => {
                        assert_eq!(f.scope.page(&url, record.hops), Err(reason), "{url}");
                    }
                    _ => {}
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        for (url, id) in finished {
            assert!(numbers.insert(id), "{url} shares its number");
            let named = f.ledger.store().get(&keys::document(id)).unwrap();
            assert_eq!(named.as_deref(), Some(url.as_str().as_bytes()));
        }
        if f.leased() == 0 && f.next_event().is_none() {
            let open = f.counts().queued_pages() + f.counts().queued_images + f.counts().waiting;
            assert!(open == 0 || f.hosts().1 > 0, "{open} are left at the end");
        }
    }

    /// Answers everything successfully; all tasks must come to an end.
    fn drain(&mut self) {
        self.recrawl = false;
        self.watched.clear();
        self.close();
        for _ in 0..20_000 {
            self.lease_all();
            let now = self.now;
            while let Some(task) = self.open.pop() {
                if task.locate {
                    self.f().located(&task, None, now).unwrap();
                    self.addresses.insert(task.host, None);
                    continue;
                }
                self.asked.insert(task.host.clone(), now);
                if task.kind == TaskKind::Robots {
                    let owner = task.url.path().strip_prefix("/for-");
                    let owner = owner.map_or(task.host.clone(), |owner| {
                        url(&format!("http://{owner}/")).host_key()
                    });
                    self.rules.insert(owner, (Robots::allow_all(), now));
                    robots(self.f(), &task, RobotsAnswer::Missing, now);
                } else {
                    finish(self.f(), &task, Outcome::Done, Effects::default(), now);
                }
            }
            let f = self.f();
            let parked = f.schedule.next_parked();
            match f.next_event().or(parked) {
                Some(at) => self.now = at.max(now),
                None => {
                    assert!(f.is_exhausted());
                    self.check();
                    let counts = self.f().counts();
                    let open = counts.queued_pages() + counts.queued_images + counts.waiting;
                    assert_eq!((open, self.f().hosts().0), (0, 0));
                    return;
                }
            }
        }
        panic!("it does not come to an end");
    }
}

/// The contents that a page or a sitemap may have.
fn brought(task: &Task, r: usize) -> Effects {
    let mut r = r;
    let mut draw = move |n: usize| {
        r = rest_of(r).wrapping_add(r << 20).wrapping_add(7);
        (r >> 9) % n
    };
    let mut effects = Effects {
        bytes: 100,
        ..Effects::default()
    };
    for _ in 0..draw(5) {
        let score = [10.0, 700.0, 20_000.0, 60_000.0][draw(4)];
        effects.links.push(page(&place(draw(24)), score));
    }
    if task.kind == TaskKind::Sitemap {
        let map = format!("http://{}/map{}.xml", host(draw(HOSTS)), draw(3));
        effects.sitemaps.extend((draw(3) == 0).then(|| url(&map)));
        return effects;
    }
    if task.kind == TaskKind::Image {
        return Effects::default();
    }
    for _ in 0..draw(3) {
        let address = format!("http://{}/i{}.png", host(draw(HOSTS)), draw(4));
        let score = [10.0, 60_000.0][draw(2)];
        let image = image(&address, task.url.as_str(), score);
        effects.images.push(image);
    }
    effects.digest = Some(draw(3) as u64);
    effects.validators = Validators {
        etag: Some(draw(3).to_string()),
        last_modified: None,
    };
    if draw(3) == 0 {
        let named = format!("http://{}/{}", task.host, draw(8));
        effects.canonical = Some(url(&named));
    }
    if draw(2) == 0 {
        let simhash = [0, 1, u64::MAX, 0xffff_0000_ffff_0000][draw(4)];
        let block = |hash: usize| BlockPrint {
            hash: hash as u32,
            words: 30,
        };
        effects.prints = Some(Prints {
            simhash: Some(simhash),
            blocks: vec![block(draw(9)), block(draw(9))],
        });
    }
    effects
}

pub(super) fn open_by(path: &Path, scope: &str, policy: Policy, now: u64) -> Frontier {
    let store = open_store(path).unwrap();
    Frontier::open(store, policy, scope_of(scope), now).unwrap()
}

pub(super) fn overloaded(seconds: u64) -> Outcome {
    Outcome::Retry {
        reason: Reason::Overloaded,
        retry_after: Some(Duration::from_secs(seconds)),
        host_backs_off: true,
    }
}

#[test]
fn to_look_up_a_name_ends_no_back_off() {
    let folder = tempfile::tempdir().unwrap();
    let policy = Policy {
        connections: 2,
        address_delay: 500,
        robots_max_age: 10_000,
        delay_factor: 0.0,
        ..test_policy()
    };
    let mut f = open_by(folder.path(), "", policy, 0);
    let seeds = [1, 2].map(|n| url(&format!("http://a.org/{n}")));
    f.add_seeds(&seeds, 0).unwrap();
    let at = Some(IpAddr::from([192, 0, 2, 1]));
    let task = f.lease(0).unwrap().unwrap();
    f.located(&task, at, 0).unwrap();
    let task = f.lease(1_000).unwrap().unwrap();
    robots(&mut f, &task, RobotsAnswer::Missing, 1_000);
    let page = f.lease(5_000).unwrap().unwrap();
    assert_eq!((page.kind, page.locate), (TaskKind::Page, false));
    // The address is too old by now, and so are the rules.
    let lookup = f.lease(11_000).unwrap().unwrap();
    assert!(lookup.locate);
    finish(&mut f, &page, overloaded(60), Effects::default(), 11_500);
    f.located(&lookup, at, 12_000).unwrap();
    assert_eq!(f.lease(12_000).unwrap(), None);
    assert_eq!(f.next_event(), Some(71_500));
    assert!(f.lease(71_500).unwrap().is_some());
}

#[test]
fn a_group_that_is_given_up_holds_no_host() {
    let folder = tempfile::tempdir().unwrap();
    let policy = Policy {
        address_delay: 500,
        retries: 0,
        back_off: 5_000,
        max_back_off: 100_000,
        ..test_policy()
    };
    let mut f = open_by(folder.path(), "", policy, 0);
    let seeds: Vec<_> = ["a", "b", "c", "d"]
        .map(|n| url(&format!("http://{n}.org/")))
        .into();
    f.add_seeds(&seeds, 0).unwrap();
    let at = Some(IpAddr::from([192, 0, 2, 1]));
    let mut now = 0;
    let mut open = Vec::new();
    let mut answered = 0;
    while open.len() < 3 || answered < 4 {
        match f.lease(now).unwrap() {
            Some(task) if task.locate => f.located(&task, at, now).unwrap(),
            Some(task) if task.kind == TaskKind::Robots => {
                robots(&mut f, &task, RobotsAnswer::Missing, now);
                answered += 1;
            }
            Some(task) => open.push(task),
            None => now = f.next_event().unwrap(),
        }
    }
    // The others are held until they are next.
    assert_eq!(f.lease(now).unwrap(), None);
    for task in open {
        finish(&mut f, &task, overloaded(90), Effects::default(), now);
    }
    let failed = now;
    for _ in 0..10 {
        assert_eq!(f.lease(now).unwrap(), None);
        now = f.next_event().unwrap_or(now);
    }
    assert!(
        now < failed + 5_000 && f.is_exhausted(),
        "waits until {now}"
    );
    let (left, parked) = f.hosts();
    assert!(left > 0 && left == parked, "{parked} of {left}");
    assert!(f.lease(now + 100_000).unwrap().is_some());
}

#[test]
fn a_seed_that_the_scope_drops_keeps_its_schedule() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open_by(folder.path(), "", test_policy(), 0);
    let seed = url("http://a.org/");
    let hour = 3_600_000;
    f.watch(&[(seed.clone(), Duration::from_millis(hour))], 0)
        .unwrap();
    let reject = scope_of("reject = ['http://a.org/']");
    f.set_scope(reject).unwrap();
    assert_eq!(f.rescope_slice(0).unwrap().unwrap().dropped, 1);
    assert!(!f.is_exhausted(), "its next visit has a date");
    assert_eq!(f.next_event(), Some(hour));
    f.set_scope(scope_of("")).unwrap();
    f.rescope_slice(1).unwrap();
    let mut now = 1;
    assert_eq!(lease(&mut f, &mut now).unwrap().url, seed);
    check(&f);
}

fn scope_of(section: &str) -> Scope {
    let text = format!("[job]\nname = \"test\"\n[scope]\n{section}");
    Scope::new(Config::parse(&text, "test.toml").unwrap().settings.scope)
}

#[test]
fn a_schedule_is_for_the_address_without_its_session() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let seed = url("http://a.org/?utm_source=mail");
    f.watch(&[(seed, Duration::from_secs(60))], 0).unwrap();
    let mut now = 0;
    for _ in 0..3 {
        let before = now;
        let task = lease(&mut f, &mut now).expect("a visit");
        assert_eq!(task.url, url("http://a.org/"));
        assert!(before == 0 || now - before >= 60_000);
        done(&mut f, &task, Vec::new(), now);
    }
    check(&f);
}

/// A finished page with links that declares a canonical address.
fn naming(canonical: &str, links: Vec<NewTask>) -> Effects {
    Effects {
        canonical: Some(url(canonical)),
        links,
        ..Effects::default()
    }
}

fn page_of(f: &Frontier, address: &str) -> UrlRecord {
    f.look_up(&url(address), TaskKind::Page).unwrap().unwrap()
}

#[test]
fn what_another_page_stood_for_gets_a_number_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 0;
    f.add_seeds(&[url("http://a.org/x?print")], 0).unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    let effects = naming("http://a.org/x", Vec::new());
    finish(&mut f, &task, Outcome::Done, effects, now);
    let State::Done { id: first } = page_of(&f, "http://a.org/x?print").state else {
        panic!("not done");
    };
    let hour = Duration::from_secs(3_600);
    f.watch(&[(url("http://a.org/x"), hour)], now).unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    done(&mut f, &task, Vec::new(), now);
    let State::Done { id: second } = page_of(&f, "http://a.org/x").state else {
        panic!("not done");
    };
    assert_ne!(first, second);
    check(&f);
}

#[test]
fn a_copy_with_a_schedule_is_charged_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    let mut now = 0;
    f.add_seeds(&[url("http://a.org/x")], 0).unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    done(&mut f, &task, Vec::new(), now);
    let copy = url("http://a.org/x?print");
    f.watch(&[(copy.clone(), Duration::from_secs(60))], now)
        .unwrap();
    let mut left = BTreeSet::new();
    for _ in 0..4 {
        let task = lease(&mut f, &mut now).unwrap();
        assert_eq!(task.url, copy);
        let effects = naming("http://a.org/x", Vec::new());
        let settled = finish(&mut f, &task, Outcome::Done, effects, now);
        assert_eq!(settled, Settled::Redirected);
        left.insert(f.budget(&copy).unwrap().fetched);
    }
    assert_eq!(left, BTreeSet::from([(1, 1)]));
    let host = f.look_up_host(&copy.host_key()).unwrap().unwrap();
    assert_eq!((host.documents, f.counts().documents), (2, 1));
    check(&f);
}

#[test]
fn a_page_that_is_to_be_visited_again_is_not_stood_for() {
    let folder = tempfile::tempdir().unwrap();
    let policy = Policy {
        recrawl: Some(Recrawl {
            after: 60_000,
            min: 60_000,
            max: 60_000,
        }),
        ..test_policy()
    };
    let mut f = open_by(folder.path(), "", policy, 0);
    let mut now = 0;
    f.add_seeds(&[url("http://a.org/")], 0).unwrap();
    let links = ["http://a.org/x", "http://a.org/x?print"].map(|a| page(a, 10.0));
    let task = lease(&mut f, &mut now).unwrap();
    done(&mut f, &task, links.to_vec(), now);
    let first = lease(&mut f, &mut now).unwrap();
    done(&mut f, &first, Vec::new(), now);
    let copy = lease(&mut f, &mut now).unwrap();
    assert_eq!(copy.url, url("http://a.org/x?print"));
    // Meanwhile the first one is due again.
    now += 70_000;
    assert_eq!(f.lease(now).unwrap(), None);
    assert_eq!(page_of(&f, "http://a.org/x").state, State::Queued);
    let effects = naming("http://a.org/x", Vec::new());
    let settled = finish(&mut f, &copy, Outcome::Done, effects, now);
    assert_eq!(settled, Settled::Redirected, "it is the copy");
    assert_eq!(page_of(&f, "http://a.org/x").state, State::Queued);
    check(&f);
}

#[test]
fn an_address_is_judged_by_the_best_of_all_paths() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open_with(folder.path(), "max_hops = 2", 0);
    let mut now = 0;
    f.add_seeds(&[url("http://a.org/")], 0).unwrap();
    let task = lease(&mut f, &mut now).unwrap();
    let links = vec![
        page("http://b.org/1", 10.0),
        page("http://x.org/", 90_000.0),
    ];
    done(&mut f, &task, links, now);
    let task = lease(&mut f, &mut now).unwrap();
    done(&mut f, &task, vec![page("http://b.org/2", 10.0)], now);
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.hops, 2);
    // Near by a bad link, and far by a good one.
    let links = vec![page("http://x.org/", 10.0), page("http://y.org/", 10.0)];
    done(&mut f, &task, links, now);
    let found = page_of(&f, "http://x.org/");
    assert_eq!((found.state, found.hops), (State::Queued, 1));
    let (hops, far) = (Reason::Hops, page_of(&f, "http://y.org/"));
    assert_eq!(far.state, State::Dropped { reason: hops });
    // The other way round.
    let task = lease(&mut f, &mut now).unwrap();
    done(&mut f, &task, vec![page("http://y.org/", 90_000.0)], now);
    let found = page_of(&f, "http://y.org/");
    assert_eq!((found.state, found.score), (State::Queued, 10.0));
    check(&f);
}

/// Some 600 steps, including twenty restarts, closings, exports and imports, on a real disk: the
/// same as the property below checks over a store in memory.
fn a_long_history_holds_together() {
    let mut world = World::new(2);
    let seeds = [0, 1, 2].map(|n| url(&place(n)));
    let now = world.now;
    world.f().add_seeds(&seeds, now).unwrap();
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    for _ in 0..600 {
        world.step(random.random_range(0..100), random.random::<u32>() as usize);
    }
    world.drain();
}

fn steps() -> impl Strategy<Value = Vec<(u8, u32)>> {
    proptest::collection::vec((0..100_u8, any::<u32>()), 1..200)
}

proptest! {
    #![proptest_config(spoor_testing::cases!(32))]
    /// For any history: every URL in one state, all counters exact, no number given
    /// twice, all clocks kept, nothing against scope or rules, and an end.
    #[test]
    fn everything_at_once_holds_together(steps in steps(), _between: bool, two: bool) {
        // There is one draw in between, as it did when the stored seeds were found.
        let mut world = World::new(1 + usize::from(two));
        let seeds = [0, 1, 2].map(|n| url(&place(n)));
        let now = world.now;
        world.f().add_seeds(&seeds, now).unwrap();
        for (kind, r) in steps {
            world.step(kind, r as usize);
        }
        world.drain();
    }
}
