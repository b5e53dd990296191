//! A frontier with a record of every kind, every class of keys and every field, made by two
//! simulated days of crawling.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use spoor::address::PageUrl;
use spoor::config::Config;
use spoor::frontier::store::{Batch, Store, StoreError};
use spoor::frontier::{
    Effects, Frontier, NewImage, NewTask, Policy, Rating, RobotsAnswer, SampleSettings, Written,
};
use spoor::page::{
    AltKind, BlockPrint, Bucket, Clues, Directives, Embedding, Found, ImageContext, ImageScores,
    ImageTexts, LinkParts, Outcome, Prints, Reason, SignalValue, Task, TaskKind, Terms, TextScore,
    Validators, Words,
};
use spoor::topic::strategy::{Score, Strategy};
use spoor::web::scope::Scope;

/// The time at which the fixture's frontier begins, in milliseconds since 1970.
pub const THEN: u64 = 1_767_323_045_000;

/// The tdmrep.json of a host.
const TDMREP: &str = r#"[{"location": "/", "tdm-reservation": 1, "tdm-policy": "/policy"}]"#;

/// Its second day, when robots rules have become too old.
pub const NEXT_DAY: u64 = THEN + 25 * HOUR;

/// An hour in milliseconds.
pub const HOUR: u64 = 3_600_000;

/// The final rules of the scope.
pub const LAST_SCOPE: &str = "reject = [\"org,unwanted\"]";

pub fn url(text: &str) -> PageUrl {
    PageUrl::parse(text).unwrap()
}

/// Opens the fixture's store with these rules of the scope.
pub fn open(store: Box<dyn Store>, scope: &str, now: u64) -> Result<Frontier, StoreError> {
    let text = format!("[job]\nname = \"fixture\"\n[recrawl]\nafter = \"30d\"\n[scope]\n{scope}\n");
    let config = Config::parse(&text, "fixture.toml").unwrap();
    let policy = Policy {
        sitemaps: true,
        tdmrep: true,
        // With this seed a page of the trap is drawn, and a link above the razor.
        control: SampleSettings {
            share: 0.19,
            seed: 36,
        },
        ..Policy::new(&config.politeness, &config.network).with_recrawl(&config.recrawl)
    };
    Frontier::open(store, policy, Scope::new(config.settings.scope), now)
}

/// Crawls both days. Left undone at the end: a request for new robots rules, checks of what the old
/// ones forbade, a new scope, another rating.
pub fn make(mut store: Box<dyn Store>) {
    learned(&mut *store);
    let mut f = open(store, "", THEN).unwrap();
    f.add_active(61_000);
    let seeds = [
        "https://seed.org/",
        "http://seed.org/moved?to=b",
        "http://seed.org/gone",
        "http://busy.org/",
        "http://busier.org/",
        "http://busiest.org/",
        "http://trap.org/",
        "http://copies.org/a",
        "http://copies.org/a?print",
        "http://copies.org/a-again",
        "http://copies.org/c",
    ];
    let watched = [(url("http://watched.org/"), Duration::from_millis(12 * HOUR))];
    f.watch(&watched, THEN).unwrap();
    f.add_seeds(&seeds.map(url), THEN).unwrap();
    // Long enough for everything.
    crawl(&mut f, THEN, THEN + 600_000, |f, task, now| {
        answer(f, task, now);
        true
    });
    let more = ["http://elsewhere.org/", "http://late.org/"];
    f.add_seeds(&more.map(url), NEXT_DAY).unwrap();
    let template = (0..5).map(|n| url(&format!("http://template.org/{n}")));
    f.add_seeds(&template.collect::<Vec<_>>(), NEXT_DAY)
        .unwrap();
    // New rules come last, because the next lease would check what they change. Retries are not
    // waited for.
    let new_rules = |task: &Task| task.url.as_str() == "http://seed.org/robots.txt";
    let until = NEXT_DAY + 20_000;
    crawl(&mut f, NEXT_DAY, until, |f, task, now| {
        if new_rules(task) {
            f.abandon(task, now).unwrap()
        } else {
            answer(f, task, now)
        }
        true
    });
    crawl(&mut f, until, until + 10_000, |f, task, now| {
        if new_rules(task) {
            answer(f, task, now)
        } else {
            f.abandon(task, now).unwrap()
        }
        !new_rules(task)
    });
    let text = format!("[job]\nname = \"fixture\"\n[scope]\n{LAST_SCOPE}\n");
    let scope = Config::parse(&text, "fixture.toml").unwrap().settings.scope;
    assert!(f.set_scope(Scope::new(scope)).unwrap());
    assert!(f.set_rating(Arc::new(Rated)).unwrap());
    assert_eq!(f.leased(), 0);
    f.close().unwrap();
}

/// What a learning crawl stores. Doing this by crawling would take a thousand pages.
fn learned(store: &mut dyn Store) {
    let clues = Clues {
        parent: 0.75,
        words: Words {
            anchor: 1.5,
            best: 2.0,
            address: -0.5,
            near: 0.25,
            heading: 0.125,
        },
        traits: vec![7, 70_000],
        good: 1.25,
        bad: 0.75,
        hops: 1,
        reward: Some(0.625),
    };
    let example = (clues.clone(), 0.875_f64);
    let mut batch = Batch::default();
    let put = |key: &[u8], value: Result<Vec<u8>, postcard::Error>, batch: &mut Batch| {
        batch.put(key.to_vec(), value.unwrap());
    };
    put(
        b"EUseed.org\0ph/learned",
        postcard::to_stdvec(&clues),
        &mut batch,
    );
    put(b"X", Ok(vec![1, 2, 3]), &mut batch);
    let account = (0.25_f64, 4_u64);
    put(b"Z", postcard::to_stdvec(&account), &mut batch);
    let number = [b"Y".as_slice(), &5_u64.to_be_bytes()].concat();
    put(&number, postcard::to_stdvec(&example), &mut batch);
    // A page by its number and its measure, and the words of a seed.
    let page = postcard::to_stdvec(&(3_u64, 2.5_f64));
    put(&[b'j', 0, 3], page, &mut batch);
    let words = [("cat".to_owned(), 2_u32), ("mice".to_owned(), 1)];
    let seed = postcard::to_stdvec(&BTreeMap::from(words));
    put(&[b'j', 0x80, 0], seed, &mut batch);
    // What a redirect states, and an RSL file.
    let stated = b"{\"noai\":true}".to_vec();
    put(b"OUseed.org\0ph/stated", Ok(stated), &mut batch);
    let uses = |uses: &[&str]| uses.iter().map(|&used| used.to_owned()).collect::<Vec<_>>();
    let content = (
        "/".to_owned(),
        uses(&["ai-train"]),
        uses(&["search"]),
        uses(&["free"]),
    );
    let moved = Some("http://seed.org/moved.xml".to_owned());
    let record = (THEN, moved, 1_u8, Some(vec![content]));
    let files = vec![("http://seed.org/rsl.xml".to_owned(), record)];
    put(b"rseed.org\0h", postcard::to_stdvec(&files), &mut batch);
    store.apply(batch).unwrap();
}

/// A rating that has not rated anything yet.
struct Rated;

impl Strategy for Rated {
    fn link(&self, _: &PageUrl, parts: &LinkParts) -> Score {
        (parts.document, Some(Bucket::Low))
    }

    fn image(&self, document: f64) -> Score {
        (document, Some(Bucket::Low))
    }

    fn listed(&self) -> Score {
        (1.0, Some(Bucket::Normal))
    }

    fn formula(&self, _: &PageUrl, _: &LinkParts) -> String {
        String::new()
    }
}

impl Rating for Rated {
    fn digest(&self) -> u64 {
        0x5ca1e
    }

    fn keywords(&self) -> u64 {
        0xca7
    }

    fn keyword(&self, anchor: &str) -> f64 {
        anchor.len() as f64
    }
}

/// Leases all tasks until `until`, or until `take` returns false.
fn crawl(
    f: &mut Frontier,
    from: u64,
    until: u64,
    mut take: impl FnMut(&mut Frontier, &Task, u64) -> bool,
) {
    let mut now = from;
    while now < until {
        match f.lease(now).unwrap() {
            Some(task) if task.locate => f.located(&task, address(&task), now).unwrap(),
            Some(task) => {
                if !take(f, &task, now) {
                    return;
                }
            }
            None => now = f.next_event().unwrap().max(now + 1),
        }
    }
}

/// Three hosts share an address, and most hosts have none.
fn address(task: &Task) -> Option<IpAddr> {
    match task.host.as_str() {
        "busy.org" | "busier.org" | "busiest.org" => Some([192, 0, 2, 7].into()),
        "seed.org" => Some([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into()),
        _ => None,
    }
}

/// Answers a task, or gives it back if it is to stay queued.
fn answer(f: &mut Frontier, task: &Task, now: u64) {
    let spent = Duration::from_millis(250);
    if task.kind == TaskKind::Robots {
        match robots(task, now) {
            Some(answer) => {
                let stamp = |_: &_| Ok::<_, StoreError>(vec![4, 5]);
                f.finish_robots(task, answer, spent, now, stamp).unwrap();
            }
            None => f.abandon(task, now).unwrap(),
        }
        return;
    }
    if task.kind == TaskKind::Tdmrep {
        let (outcome, body) = match (task.host.as_str(), task.redirects) {
            ("seed.org", _) => (Outcome::Done, Some(TDMREP.into())),
            ("unwanted.org", 0) => {
                let to = url("http://unwanted.org/tdmrep.json");
                (Outcome::Redirect { to }, None)
            }
            ("unwanted.org", _) => return f.abandon(task, now).unwrap(),
            _ => {
                let reason = Reason::ClientError;
                (Outcome::Drop { reason }, None)
            }
        };
        let stamp = |_: &_| Ok::<_, StoreError>(vec![4, 5]);
        f.finish_terms_file(task, &outcome, body, spent, now, stamp)
            .unwrap();
        return;
    }
    match outcome(task) {
        Some((outcome, effects)) => {
            f.finish(task, outcome, effects, spent, now, |finished| {
                let image = task.kind == TaskKind::Image && finished.id.is_some();
                Ok::<_, StoreError>(Written {
                    stamp: vec![6, 7, 8],
                    note: image.then(|| "images/2026-01-02/i.org/kept.png".to_owned()),
                    first_of: image.then(|| "0123456789abcdef".repeat(4)),
                    body: image.then(|| {
                        (
                            [7; 20],
                            "2026-01-02T03:04:05Z http://i.org/kept.png".to_owned(),
                        )
                    }),
                })
            })
            .unwrap();
        }
        None => f.abandon(task, now).unwrap(),
    }
}

fn robots(task: &Task, now: u64) -> Option<RobotsAnswer> {
    let of_seed = |forbidden: &str| {
        format!(
            "User-agent: *\nDisallow: {forbidden}\nCrawl-delay: 2\n\
             Sitemap: http://seed.org/map.xml\n"
        )
    };
    Some(match (task.host.as_str(), task.url.scheme()) {
        ("seed.org", "http") if now >= NEXT_DAY => RobotsAnswer::Rules(of_seed("/other").into()),
        ("seed.org", _) => RobotsAnswer::Rules(of_seed("/secret").into()),
        ("elsewhere.org", _) => RobotsAnswer::Redirect(url("http://rules.org/robots.txt")),
        ("rules.org", _) => return None,
        ("linked.org", _) => RobotsAnswer::Unreachable {
            reason: Reason::Timeout,
            retry_after: Some(Duration::from_secs(7_200)),
        },
        _ => RobotsAnswer::Missing,
    })
}

/// The outcome and the effects of a page, image or sitemap; `None` if it is not fetched.
fn outcome(task: &Task) -> Option<(Outcome, Effects)> {
    let mut effects = Effects {
        bytes: 1_000,
        on_topic: Some(0.8),
        guessed: true,
        ..Effects::default()
    };
    let overloaded = |seconds| Outcome::Retry {
        reason: Reason::Overloaded,
        retry_after: Some(Duration::from_secs(seconds)),
        host_backs_off: true,
    };
    let address = task.url.as_str();
    let outcome = match address {
        "https://seed.org/" => {
            effects.links = links();
            effects.images = images();
            effects.prints = prints(100..170, None);
            effects.digest = Some(11);
            Outcome::Done
        }
        "http://seed.org/moved?to=b" => Outcome::Redirect {
            to: url("http://target.org/here"),
        },
        "http://seed.org/gone" => Outcome::Drop {
            reason: Reason::ClientError,
        },
        "http://seed.org/map.xml" => {
            effects.links = vec![page(
                "http://seed.org/listed",
                Some(Bucket::Normal),
                10_000.0,
            )];
            effects.sitemaps = vec![url("http://seed.org/map-2.xml")];
            Outcome::Done
        }
        "http://late.org/" => Outcome::Retry {
            reason: Reason::Protocol,
            retry_after: None,
            host_backs_off: false,
        },
        "http://busy.org/" => overloaded(864_000),
        "http://busier.org/" | "http://busiest.org/" => overloaded(432_000),
        "http://watched.org/" => {
            let version = if task.validators.is_empty() { 1 } else { 2 };
            effects.digest = Some(version);
            effects.validators = Validators {
                etag: Some(format!("W/\"{version}\"")),
                last_modified: Some("Thu, 01 Jan 2026 00:00:00 GMT".to_owned()),
            };
            Outcome::Done
        }
        "http://copies.org/a" => {
            effects.prints = prints(1..4, Some(0x0123_4567_89ab_cdef));
            Outcome::Done
        }
        "http://copies.org/a?print" => {
            effects.prints = prints(1..4, Some(0x0123_4567_89ab_cdef));
            effects.canonical = Some(url("http://copies.org/a"));
            Outcome::Done
        }
        "http://copies.org/a-again" => {
            effects.prints = prints(1..4, Some(0x0123_4567_89ab_cdee));
            effects.links = vec![page("http://copies.org/led-to", Some(Bucket::High), 1.0)];
            Outcome::Done
        }
        "http://copies.org/c" => {
            effects.prints = prints(5..9, Some(0xfedc_ba98_7654_3210));
            effects.canonical = Some(url("http://copies.org/d"));
            Outcome::Done
        }
        "http://i.org/kept.png" | "http://target.org/here" => Outcome::Done,
        _ if task.host.as_str() == "template.org" => {
            // As many different images with this text as make it boilerplate.
            let mut image = images().remove(1);
            image.url = url(&format!("http://i.org{}", task.url.path()));
            effects.images = vec![image];
            Outcome::Done
        }
        _ if task.host.as_str() == "trap.org" => {
            // A calendar: every month is like the one before, and links to the next.
            let month: u32 = address
                .split('/')
                .filter_map(|s| s.parse::<u32>().ok())
                .sum();
            let next = format!("http://trap.org/cal/{}/", month + 1);
            effects.links = vec![page(&next, Some(Bucket::High), 300.0)];
            effects.prints = prints(0..1, None);
            Outcome::Done
        }
        _ => return None,
    };
    Some((outcome, effects))
}

fn page(address: &str, bucket: Option<Bucket>, score: f64) -> NewTask {
    NewTask {
        url: url(address),
        bucket,
        score,
        parts: Some(LinkParts {
            document: 123.5,
            anchor: 67.25,
            keyword: 0.125,
        }),
        anchor: None,
        clues: None,
    }
}

fn links() -> Vec<NewTask> {
    vec![
        page("http://linked.org/high", Some(Bucket::High), 80.5),
        page("http://linked.org/medium", Some(Bucket::Medium), 800.0),
        page("http://linked.org/low", Some(Bucket::Low), 29_000.0),
        page("http://linked.org/razor", None, 40_000.0),
        page("http://linked.org/a/a/a/a/a/a", Some(Bucket::Normal), 3e3),
        page("http://seed.org/secret", Some(Bucket::High), 90.0),
        page("http://unwanted.org/", Some(Bucket::High), 95.0),
        page("http://far.org/", None, 50_000.0),
    ]
}

fn images() -> Vec<NewImage> {
    let addresses = ["http://i.org/kept.png", "http://i.org/wanted.png?w=2"];
    let image = |address: &str| NewImage {
        url: url(address),
        bucket: Some(Bucket::Medium),
        score: 700.5,
        context: context(),
    };
    addresses.map(image).into()
}

fn prints(texts: std::ops::Range<u32>, simhash: Option<u64>) -> Option<Prints> {
    let block = |text: u32| BlockPrint {
        hash: text.wrapping_mul(0x9e37_79b9),
        words: 50,
    };
    let blocks = texts.map(block).collect();
    Some(Prints { simhash, blocks })
}

pub fn context() -> ImageContext {
    let score = TextScore {
        perplexity: 99.5,
        keyword: 0.25,
        weighted: 24.875,
    };
    ImageContext {
        page: url("https://seed.org/"),
        page_title: Some("Straße – \"quoted\"".to_owned()),
        page_language: Some("de".to_owned()),
        page_recognised_language: None,
        document_perplexity: 321.0,
        declared_width: Some(640),
        declared_height: Some(480),
        terms: Terms {
            directives: Directives {
                nofollow: true,
                noindex: true,
                noai: true,
                noimageindex: true,
                noimageai: true,
                noml: true,
                ..Directives::default()
            },
            tdm_reservation: Some(true),
            tdm_policy: Some("https://seed.org/policy.json".to_owned()),
            content_signals: [("ai-train".to_owned(), SignalValue::Flag(true))].into(),
            licences: vec!["https://seed.org/licence".to_owned()],
            ..Terms::default()
        },
        embedding: Embedding {
            found: vec![Found::Srcset, Found::OpenGraph],
            class: Some("alignleft".to_owned()),
            link_target: PageUrl::parse("https://seed.org/large").ok(),
            in_main_text: Some(true),
        },
        texts: ImageTexts {
            alt: Some("an alt".to_owned()),
            alt_kind: Some(AltKind::Written),
            aria_label: Some("a label".to_owned()),
            caption: Some("a caption".to_owned()),
            figcaption: Some("a figure's caption".to_owned()),
            credit: Some("a photographer".to_owned()),
            heading: Some("a heading".to_owned()),
            title: Some("a title".to_owned()),
            file_name: Some("kept".to_owned()),
            parents: vec!["near".to_owned(), "far".to_owned()],
            siblings: vec!["beside".to_owned()],
            parent_distances: vec![1, 3],
            sibling_distances: vec![2],
        },
        scores: ImageScores {
            alt: Some(score),
            aria_label: Some(score),
            caption: Some(score),
            figcaption: Some(score),
            heading: Some(score),
            title: Some(score),
            page_title: Some(score),
            file_name: Some(score),
            parents: vec![score, score],
            siblings: vec![score],
        },
        rank: 12.5,
    }
}
