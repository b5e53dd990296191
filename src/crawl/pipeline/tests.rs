//! The journey: what is read out of a body, and the loop over real sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use image::{DynamicImage, ImageFormat};
use proptest::prelude::{prop_assert_eq, proptest};
use tokio::runtime::Runtime;

use super::drive::Room;
use super::steer::Signal;
use super::*;
use crate::address::PageUrl;
use crate::config::{Config, StrategySection};
use crate::config::{ConnectTo, HostPattern};
use crate::crawl::frontier::store::{Batch, Readable, SledStore, Store, Visit};
use crate::crawl::frontier::{Learning, Policy, State};
use crate::lab::{Behaviour, Fault, Lab, MemoryTree, Running, spawn};
use crate::page::{Bucket, Clues, Fetched, LinkParts, Obeyed, TermsHeaders};
use crate::topic::keywords::KeywordTable;
use crate::topic::lm::{LanguageModel, Sentence, SentenceScore};
use crate::topic::score::{Boundaries, Scorer, Strategy, Weights};
use crate::web::extract;
use crate::web::fetch::{Answer, Fetcher, Options};
use crate::web::scope::Scope;

// Reading ------------------------------------------------------------------

/// A model that knows the word `cat`: perplexity 10 for cats, 10^6 for the rest.
struct Cats;

impl LanguageModel for Cats {
    fn order(&self) -> u8 {
        5
    }

    fn score(&self, sentence: &Sentence) -> SentenceScore {
        let unknown = sentence.tokens().filter(|t| *t != "cat").count();
        let known = sentence.len() + 1 - unknown;
        SentenceScore {
            log10: -(known as f64) - 6.0 * unknown as f64,
            unknown,
        }
    }

    fn unknown_log10(&self) -> f64 {
        -6.0
    }
}

fn reader(strategy: Strategy) -> Reader {
    let weights = Weights::default();
    Reader {
        extract: extract::Options::default(),
        scorer: Scorer::new(Arc::new(Cats), KeywordTable::default(), weights, strategy),
        boundaries: Boundaries::default(),
        learned: None,
        trained: 0.0,
        images: ImageRules {
            enabled: true,
            min: (64, 64),
            max: (5_000, 5_000),
            max_aspect: 10.0,
            min_bytes: 0,
        },
        sentences: true,
        documents: true,
        languages: Default::default(),
        obeyed: Obeyed::default(),
        metrics: crate::metrics::Metrics::new().unwrap(),
    }
}

fn url(text: &str) -> PageUrl {
    PageUrl::parse(text).unwrap()
}

fn task(address: &str, kind: TaskKind) -> Task {
    let url = url(address);
    Task {
        locate: false,
        lease: 1,
        kind,
        host: url.host_key(),
        url,
        via: None,
        hops: 0,
        redirects: 0,
        attempts: 0,
        bucket: Bucket::Seed,
        score: 0.0,
        parts: None,
        validators: Default::default(),
        terms: Default::default(),
        booking: Default::default(),
        control: false,
    }
}

fn fetched(content_type: &str, tags: &[&str], body: impl Into<Bytes>) -> Fetched {
    Fetched {
        status: 200,
        content_type: Some(content_type.to_owned()),
        terms: TermsHeaders {
            robots_tags: tags.iter().map(|t| (*t).to_owned()).collect(),
            ..TermsHeaders::default()
        },
        validators: Default::default(),
        body: body.into(),
        truncated: false,
        elapsed: Duration::from_millis(5),
    }
}

/// Reads a page of five cats, a link and an image, with `head` and `body` added.
fn read_with(reader: &Reader, tags: &[&str], head: &str, body: &str) -> PageBrought {
    let html = format!(
        "<html lang=en><head><title>Cats</title>{head}</head><body><p>cat cat cat cat cat</p>\
         <p><a href=/plain>cat</a></p><img src=/plain.png alt=cat>{body}</body></html>"
    );
    let page = task("http://a.org/page", TaskKind::Page);
    match reader.read(&page, fetched("text/html", tags, html)) {
        (Outcome::Done, Some(Brought::Page(page))) => *page,
        other => panic!("{other:?}"),
    }
}

fn links(page: &PageBrought) -> Vec<&str> {
    page.links.iter().map(|l| l.url.path()).collect()
}

fn images(page: &PageBrought) -> Vec<&str> {
    page.images.iter().map(|i| i.url.path()).collect()
}

#[test]
fn a_page_gives_text_links_and_images() {
    let page = read_with(&reader(Strategy::Link), &[], "", "");
    assert_eq!(page.document.perplexity, 10.0);
    assert_eq!(page.sentences, "cat cat cat cat cat\n");
    assert_eq!(
        (links(&page), images(&page)),
        (vec!["/plain"], vec!["/plain.png"])
    );
    assert_eq!(page.links[0].bucket, Some(Bucket::High));
    assert_eq!(page.links[0].parts.unwrap().anchor, 10.0);
    let image = &page.images[0];
    assert_eq!((image.bucket, image.score), (Some(Bucket::High), 10.0));
    assert_eq!(image.context.page, url("http://a.org/page"));
    assert_eq!(page.title.as_deref(), Some("Cats"));
}

#[test]
fn directives_are_obeyed_where_they_forbid_what_we_do() {
    let r = reader(Strategy::Link);
    for (tag, follows, pictures, text) in [
        ("nofollow", false, true, true),
        ("noindex", true, false, false),
        ("noai", true, false, false),
        ("noml", true, false, false),
        ("noimageai", true, false, true),
        ("noimageindex", true, false, true),
        ("none", false, false, false),
        ("all", true, true, true),
    ] {
        let meta = format!("<meta name=robots content={tag}>");
        for page in [read_with(&r, &[], &meta, ""), read_with(&r, &[tag], "", "")] {
            assert_eq!(!page.links.is_empty(), follows, "{tag}: links");
            assert_eq!(!page.images.is_empty(), pictures, "{tag}: images");
            assert_eq!(page.withheld.is_empty(), pictures, "{tag}: images withheld");
            assert_eq!(!page.sentences.is_empty(), text, "{tag}: sentences");
        }
    }
    let page = read_with(
        &r,
        &[],
        "",
        "<a rel='x NoFollow' href=/no>cat</a><a href=/yes>cat</a>",
    );
    assert_eq!(links(&page), ["/plain", "/yes"]);
    let silent = Reader {
        sentences: false,
        documents: false,
        ..r.clone()
    };
    assert!(read_with(&silent, &[], "", "").sentences.is_empty());
    let blind = Reader {
        images: ImageRules {
            enabled: false,
            ..r.images.clone()
        },
        ..r
    };
    for tags in [&[][..], &["noai"]] {
        let page = read_with(&blind, tags, "", "");
        assert!(page.images.is_empty() && page.withheld.is_empty());
    }
}

#[test]
fn an_address_met_twice_keeps_its_best_rating() {
    let body = "<p>cat cat dog cat cat</p><a href=/x>dog</a><a href=/x>cat</a><a href='/x#part'>bird</a>\
                <img src=/y.png alt=dog><img src=/y.png alt=cat>";
    let page = read_with(&reader(Strategy::Link), &[], "", body);
    assert_eq!(links(&page), ["/plain", "/x"]);
    assert_eq!(page.links[1].parts.unwrap().anchor, 10.0);
    assert_eq!(images(&page), ["/plain.png", "/y.png"]);
    assert_eq!(page.images[1].context.texts.alt.as_deref(), Some("cat"));
}

#[test]
fn above_the_razor_there_is_no_bucket_but_for_breadth_first() {
    let html = "<p>dog dog dog dog dog dog</p><a href=/x>dog</a><img src=/y.png>";
    for (strategy, bucket, score) in [
        (Strategy::Link, None, None),
        (Strategy::Document, None, None),
        (Strategy::Unfocused, Some(Bucket::Normal), Some(0.0)),
    ] {
        let page = task("http://a.org/", TaskKind::Page);
        let read = reader(strategy).read(&page, fetched("text/html", &[], html));
        let (Outcome::Done, Some(Brought::Page(page))) = read else {
            panic!("{read:?}");
        };
        assert!(page.document.perplexity > 100_000.0);
        assert_eq!(
            (page.links[0].bucket, page.images[0].bucket),
            (bucket, bucket)
        );
        if let Some(score) = score {
            assert_eq!((page.links[0].score, page.images[0].score), (score, score));
        }
    }
}

#[test]
fn declared_sizes_speak_against_an_image_only() {
    let body = "<img src=/small.png width=63 height=500><img src=/flat.png height=1>\
                <img src=/huge.png width=5001><img src=/good.png width=64 height=64>\
                <img src=/odd.png width=100% height=auto>";
    let page = read_with(&reader(Strategy::Link), &[], "", body);
    assert_eq!(images(&page), ["/plain.png", "/good.png", "/odd.png"]);
}

#[test]
fn what_is_no_page_is_dropped() {
    let r = reader(Strategy::Link);
    for (content_type, body) in [
        ("application/pdf", &b"%PDF-1.7"[..]),
        ("text/html", &[0_u8; 400][..]),
        ("image/png", b"x"),
    ] {
        let page = task("http://a.org/", TaskKind::Page);
        let (outcome, brought) = r.read(&page, fetched(content_type, &[], body));
        let reason = Reason::ContentType;
        assert_eq!(outcome, Outcome::Drop { reason }, "{content_type}");
        assert!(brought.is_none());
    }
    let robots = task("http://a.org/robots.txt", TaskKind::Robots);
    let read = r.read(&robots, fetched("image/png", &[], &b"User-agent: *"[..]));
    assert!(matches!(read, (Outcome::Done, Some(Brought::Robots(b))) if b == "User-agent: *"));
}

fn encoded(format: ImageFormat, width: u32, height: u32) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    let image = DynamicImage::new_rgb8(width, height);
    image.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

fn read_image(tags: &[&str], body: Vec<u8>) -> Result<crate::picture::ImageInfo, Reason> {
    let task = task("http://a.org/x.png", TaskKind::Image);
    let r = reader(Strategy::Link);
    match r.read(&task, fetched("image/png", tags, body.clone())) {
        (
            Outcome::Done,
            Some(Brought::Image {
                bytes,
                info,
                content_type,
                ..
            }),
        ) => {
            assert_eq!(
                (&bytes[..], content_type.as_deref()),
                (&body[..], Some("image/png"))
            );
            Ok(*info)
        }
        (
            Outcome::Drop { reason },
            None | Some(Brought::Refused { .. } | Brought::Forbidden { .. }),
        ) => Err(reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn images_are_known_by_their_bytes() {
    for (format, name, extension) in [
        (ImageFormat::Png, "png", "png"),
        (ImageFormat::Jpeg, "jpeg", "jpg"),
        (ImageFormat::Gif, "gif", "gif"),
        (ImageFormat::WebP, "webp", "webp"),
        (ImageFormat::Bmp, "bmp", "bmp"),
    ] {
        let whole = encoded(format, 100, 80);
        let info = read_image(&[], whole.clone()).unwrap();
        assert_eq!((info.format.as_str(), info.extension), (name, extension));
        assert_eq!((info.width, info.height), (100, 80));
        assert_eq!(
            read_image(&[], encoded(format, 63, 80)),
            Err(Reason::ImageSize),
            "{name}"
        );
        for cut in 0..12 {
            let cut = whole[..cut].to_vec();
            assert_eq!(read_image(&[], cut), Err(Reason::BadImage), "{name}");
        }
    }
    for junk in [&b"<html>not found</html>"[..], b"<svg/>", b"", &[0; 64]] {
        assert_eq!(read_image(&[], junk.to_vec()), Err(Reason::BadImage));
    }
}

#[test]
fn what_an_image_is_and_why_it_is_none_is_said() {
    let mut r = reader(Strategy::Link);
    let read = |r: &Reader, address: &str, sent: &str, body: Vec<u8>| match r
        .read(&task(address, TaskKind::Image), fetched(sent, &[], body))
    {
        (Outcome::Done, Some(Brought::Image { info, .. })) => Ok(info),
        (Outcome::Drop { reason }, Some(Brought::Refused { why })) => Err((reason, why)),
        other => panic!("{other:?}"),
    };
    let drawn = crate::lab::picture::draw("http://a.org/1.png", 640, 80).unwrap();
    let png = drawn.bytes;
    let info = read(&r, "http://a.org/1.png", "image/png", png.clone()).unwrap();
    assert!(info.decoded && !info.animated && info.mislabelled.is_none());
    assert_eq!(info.phash, crate::picture::hash_file(&png));
    assert!(info.phash.is_some());
    let wrong = read(&r, "http://a.org/1.jpg?v=1", "image/gif", png.clone()).unwrap();
    let wrong = wrong.mislabelled.unwrap();
    assert_eq!(wrong.content_type.as_deref(), Some("image/gif"));
    assert_eq!(wrong.extension.as_deref(), Some("jpg"));

    let cut = png[..png.len() * 2 / 3].to_vec();
    let (reason, why) = read(&r, "http://a.org/1.png", "image/png", cut).unwrap_err();
    assert_eq!(reason, Reason::BadImage);
    assert!(why.starts_with("truncated: "), "{why}");
    let svg = b"<?xml version='1.0'?><svg xmlns='x' onload='evil()'/>".to_vec();
    let (reason, why) = read(&r, "http://a.org/1.png", "image/png", svg).unwrap_err();
    assert_eq!(reason, Reason::BadImage);
    assert!(why.contains("SVG") && why.contains("image/png"), "{why}");

    r.images.max_aspect = 7.9;
    let (reason, why) = read(&r, "http://a.org/1.png", "image/png", png.clone()).unwrap_err();
    assert_eq!(reason, Reason::ImageSize);
    assert!(why.starts_with("640 x 80 pixels"), "{why}");
    r.images.max_aspect = 8.0;
    r.images.min_bytes = png.len();
    assert!(read(&r, "http://a.org/1.png", "image/png", png.clone()).is_ok());
    r.images.min_bytes += 1;
    let (reason, _) = read(&r, "http://a.org/1.png", "image/png", png).unwrap_err();
    assert_eq!(reason, Reason::ImageSize);
}

#[test]
fn a_declared_shape_counts_where_both_sides_are_declared() {
    let r = reader(Strategy::Link);
    let body = "<img src=/banner.png width=1100 height=100><img src=/long.png width=1100>\
                <img src=/fits.png width=1000 height=100><img src=/tall.png width=100 height=1001>";
    let page = read_with(&r, &[], "", body);
    let kept: Vec<&str> = page.images.iter().map(|i| i.url.path()).collect();
    assert_eq!(kept, ["/plain.png", "/long.png", "/fits.png"]);
}

#[test]
fn a_huge_picture_in_a_small_file_costs_nothing() {
    let mut gif = encoded(ImageFormat::Gif, 64, 64);
    gif[6..10].copy_from_slice(&[0xff; 4]);
    assert_eq!(read_image(&[], gif), Err(Reason::ImageSize));
    let mut png = encoded(ImageFormat::Png, 64, 64);
    png[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
    let mut crc = flate2::Crc::new();
    crc.update(&png[12..29]);
    let sum = crc.sum().to_be_bytes();
    png[29..33].copy_from_slice(&sum);
    let refused = read_image(&[], png).unwrap_err();
    assert!(matches!(refused, Reason::ImageSize | Reason::BadImage));
}

#[test]
fn an_image_s_own_headers_may_forbid_it() {
    let whole = || encoded(ImageFormat::Png, 100, 100);
    for tag in ["noindex", "noai", "noimageai", "noimageindex", "none"] {
        assert_eq!(read_image(&[tag], whole()), Err(Reason::Forbidden), "{tag}");
    }
    assert!(read_image(&["nofollow"], whole()).is_ok());
}

// Driving ------------------------------------------------------------------

struct Web {
    runtime: Runtime,
    lab: Running,
    folder: tempfile::TempDir,
}

impl Web {
    fn new(tree: MemoryTree, behaviours: Vec<Behaviour>) -> Self {
        let runtime = Runtime::new().unwrap();
        let mut lab = Lab::from_memory(tree);
        for behaviour in behaviours {
            lab = lab.with_behaviour(behaviour);
        }
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let lab = runtime.block_on(spawn(lab, any)).unwrap();
        Self {
            runtime,
            lab,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn fetcher(&self) -> Fetcher {
        let _entered = self.runtime.enter();
        Fetcher::new(Options {
            contact: "https://example.org/bot".to_owned(),
            allow_private: true,
            connect_to: vec![ConnectTo {
                host: HostPattern::Any,
                port: None,
                to_host: self.lab.addr.ip().to_string(),
                to_port: Some(self.lab.addr.port()),
            }],
            ..Options::default()
        })
        .unwrap()
    }

    fn frontier(&self, seeds: &[PageUrl]) -> Frontier {
        let text = "[job]\nname = \"test\"\n[politeness]\nmin_delay = \"0s\"\ndelay_factor = 0\n\
                    retries = 1\nback_off = \"1ms\"\n";
        let config = Config::parse(text, "test.toml").unwrap();
        let policy = Policy::new(&config.politeness, &config.network);
        let store = Box::new(SledStore::open(&self.folder.path().join("frontier")).unwrap());
        let scope = Scope::new(config.scope);
        let mut frontier = Frontier::open(store, policy, scope, now()).unwrap();
        frontier.add_seeds(seeds, now()).unwrap();
        frontier
    }

    fn drive<C: Crew>(&self, frontier: &mut Frontier, control: Control, crew: &mut C) -> bool
    where
        C::Error: std::fmt::Debug,
    {
        let handle = self.runtime.handle();
        let stop = drive(handle, frontier, &self.fetcher(), &pace(), control, crew).unwrap();
        stop.is_some()
    }

    fn crawl(&self, seeds: &[PageUrl], limits: Limits) -> (Frontier, Option<&'static str>) {
        let mut frontier = self.frontier(seeds);
        let outputs = Outputs::open(self.folder.path(), frontier.stamp()).unwrap();
        let mut progress = |_: &Frontier, _: Option<&Row<'_>>| {};
        let mut crew = Crawl::new(reader(Strategy::Link), outputs, limits, &mut progress);
        assert!(!self.drive(&mut frontier, Control::default(), &mut crew));
        (frontier, crew.limit_reached())
    }

    fn log(&self) -> Vec<serde_json::Value> {
        lines(&self.folder.path().join("logs/crawl.jsonl"))
    }
}

fn pace() -> Pace {
    Pace {
        concurrency: 16,
        max_bytes: 1 << 20,
        checkpoint: Duration::from_secs(60),
        drain: Duration::from_secs(60),
    }
}

fn lines(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let line = |l| serde_json::from_str(l).unwrap();
    text.lines().map(line).collect()
}

/// A web of hosts with a few pages each; every second page of a host is missing.
fn hosts(n: usize, pages: usize) -> (MemoryTree, Vec<PageUrl>) {
    let mut tree = MemoryTree::default();
    let mut seeds = Vec::new();
    for host in 0..n {
        let name = format!("h{host}.test");
        for page in 0..pages {
            if page % 2 == 0 {
                let text = format!("<p>cat cat cat cat cat {host} {page}</p>");
                tree.insert(&name, &format!("/{page}.html"), text);
            }
            seeds.push(url(&format!("http://{name}/{page}.html")));
        }
    }
    (tree, seeds)
}

/// A crew that counts, and whose work is given.
struct Plain<'a> {
    work: Work<()>,
    settled: Vec<(String, Settled, Option<String>)>,
    after_settle: &'a mut dyn FnMut(usize),
}

impl Crew for Plain<'_> {
    type Brought = ();
    type Error = StoreError;

    fn work(&self) -> Work<()> {
        Arc::clone(&self.work)
    }

    fn permit(&mut self, _: &mut Frontier, _: u64) -> Result<Permit, StoreError> {
        Ok(Permit::Lease)
    }

    fn settle(&mut self, f: &mut Frontier, a: Arrival<()>, now: u64) -> Result<(), StoreError> {
        if a.task.kind == TaskKind::Robots {
            let answer = RobotsAnswer::of(&a.outcome, None);
            f.finish_robots(&a.task, answer, a.elapsed, now, |_| {
                Ok::<_, StoreError>(vec![])
            })?;
            return Ok(());
        }
        let finished = f.finish(
            &a.task,
            a.outcome,
            Effects::default(),
            a.elapsed,
            now,
            |_| Ok::<_, StoreError>(Written::default()),
        )?;
        let address = a.task.url.as_str().to_owned();
        self.settled.push((address, finished.settled, a.error));
        (self.after_settle)(self.settled.len());
        Ok(())
    }

    fn round(&mut self, _: &Frontier) {}
}

#[test]
fn a_panic_in_the_work_costs_one_address() {
    let (tree, seeds) = hosts(3, 3);
    let web = Web::new(tree, vec![]);
    let mut frontier = web.frontier(&seeds);
    let mut crew = Plain {
        work: Arc::new(|task: &Task, _| {
            assert!(task.url.path() != "/2.html", "a defect");
            (Outcome::Done, Some(()))
        }),
        settled: Vec::new(),
        after_settle: &mut |_| {},
    };
    assert!(!web.drive(&mut frontier, Control::default(), &mut crew));
    assert_eq!(crew.settled.len(), seeds.len());
    for (address, settled, error) in &crew.settled {
        let reason = match address {
            a if a.ends_with("/2.html") => Reason::Internal,
            a if a.ends_with("/1.html") => Reason::ClientError,
            _ => {
                assert_eq!(settled, &Settled::Done, "{address}");
                continue;
            }
        };
        assert_eq!(settled, &Settled::Dropped { reason }, "{address}");
        if reason == Reason::Internal {
            assert!(error.as_deref().unwrap().contains("report"));
        }
    }
    assert_eq!(frontier.counts().dropped[&Reason::Internal], 3);
    assert_eq!(frontier.counts().documents, 3);
}

#[test]
fn stopping_drains_what_is_in_flight_and_leases_nothing_more() {
    let (tree, seeds) = hosts(4, 10);
    let web = Web::new(tree, vec![]);
    let mut frontier = web.frontier(&seeds);
    let control = Control::default();
    let stopper = control.stopper();
    let started = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&started);
    let mut crew = Plain {
        work: Arc::new(move |_, _| {
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            (Outcome::Done, Some(()))
        }),
        settled: Vec::new(),
        after_settle: &mut |n| {
            if n == 3 {
                stopper.stop(Stop::Told);
            }
        },
    };
    assert!(web.drive(&mut frontier, control, &mut crew));
    assert_eq!(frontier.leased(), 0);
    let queued = usize::try_from(frontier.counts().queued_pages()).unwrap();
    assert_eq!(crew.settled.len() + queued, seeds.len());
    assert!(queued > 0, "40 addresses on 4 hosts, and stopped after 3");
    let done = crew.settled.iter().filter(|s| s.1 == Settled::Done).count();
    assert_eq!(done, started.load(std::sync::atomic::Ordering::SeqCst));
    frontier.close().unwrap();
}

#[test]
fn who_stops_does_not_wait_behind_all_that_arrived() {
    let (tree, seeds) = hosts(4, 10);
    let web = Web::new(tree, vec![]);
    let mut frontier = web.frontier(&seeds);
    let control = Control::default();
    for _ in 0..1_000 {
        control.sender.send(Signal::Arrived).unwrap();
    }
    control.stopper().stop(Stop::Told);
    let mut crew = Plain {
        work: Arc::new(|_, _| (Outcome::Done, Some(()))),
        settled: Vec::new(),
        after_settle: &mut |_| {},
    };
    assert!(web.drive(&mut frontier, control, &mut crew));
    // What the first round leased: one address of each host.
    assert!(crew.settled.len() <= 4, "{} settled", crew.settled.len());
    frontier.close().unwrap();
}

#[test]
fn limits_are_exact_whatever_is_in_flight() {
    for (documents, fetches, reached) in [
        (Some(1), None, "limits.documents"),
        (Some(7), None, "limits.documents"),
        (None, Some(9), "limits.fetches"),
        (Some(5), Some(50), "limits.documents"),
        (Some(50), Some(11), "limits.fetches"),
    ] {
        let (tree, seeds) = hosts(20, 4);
        let web = Web::new(tree, vec![]);
        let limits = Limits {
            documents,
            fetches,
            ..Limits::default()
        };
        let (frontier, limit) = web.crawl(&seeds, limits);
        assert_eq!(limit, Some(reached));
        let counts = frontier.counts();
        match reached {
            "limits.documents" => assert_eq!(Some(counts.documents), documents),
            _ => assert_eq!(Some(counts.fetches), fetches),
        }
        let pages = web.log().into_iter().filter(|l| l["kind"] == "page");
        let outcomes: Vec<_> = pages.map(|l| l["outcome"].clone()).collect();
        assert_eq!(outcomes.len() as u64, counts.fetches);
        let done = outcomes.iter().filter(|o| *o == "done").count();
        assert_eq!(done as u64, counts.documents);
        assert_eq!(frontier.leased(), 0);
    }
}

#[test]
fn nothing_is_leased_while_the_bodies_in_memory_exceed_their_limit() {
    let (tree, seeds) = hosts(3, 1);
    let web = Web::new(tree, vec![]);
    let mut frontier = web.frontier(&seeds);
    let fetcher = web.fetcher();
    let held = web
        .runtime
        .block_on(fetcher.fetch(&seeds[0], TaskKind::Page));
    let Ok(Answer::Body { fetched, held }) = held else {
        panic!("no body");
    };
    assert_eq!(fetcher.bytes_in_flight(), fetched.body.len() as u64);
    let mut crew = Plain {
        work: Arc::new(|_, _| (Outcome::Done, None)),
        settled: Vec::new(),
        after_settle: &mut |_| {},
    };
    let pace = Pace {
        max_bytes: 10,
        ..pace()
    };
    let mut spawned = Vec::new();
    let mut lease = |frontier: &mut Frontier| {
        let mut spawn = |task: Task| spawned.push(task);
        let room = |f: &Frontier| drive::room(f, &fetcher, &pace);
        drive::lease_all(frontier, &mut crew, room, now(), &mut spawn).unwrap()
    };
    assert_eq!(lease(&mut frontier), (Permit::Lease, Room::Full));
    drop(held);
    assert_eq!(lease(&mut frontier), (Permit::Lease, Room::Free));
    assert_eq!(spawned.len(), 3);
}

/// A crew that sees how much is open.
struct Watching<'a> {
    plain: Plain<'a>,
    /// The most that was open after a round by which this many were settled.
    after: usize,
    most: usize,
}

impl Crew for Watching<'_> {
    type Brought = ();
    type Error = StoreError;

    fn work(&self) -> Work<()> {
        self.plain.work()
    }

    fn permit(&mut self, f: &mut Frontier, now: u64) -> Result<Permit, StoreError> {
        self.plain.permit(f, now)
    }

    fn settle(&mut self, f: &mut Frontier, a: Arrival<()>, now: u64) -> Result<(), StoreError> {
        self.plain.settle(f, a, now)
    }

    fn round(&mut self, frontier: &Frontier) {
        if self.plain.settled.len() >= self.after {
            self.most = self.most.max(frontier.leased());
        }
    }
}

#[test]
fn no_more_is_chosen_than_can_be_worked_on() {
    use sha2::{Digest, Sha256};
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (hosts, pages) = (40 * cores, 4);
    let (tree, seeds) = self::hosts(hosts, pages);
    let web = Web::new(tree, vec![]);
    let mut frontier = web.frontier(&seeds);
    let mut crew = Watching {
        plain: Plain {
            // Far more than to fetch it from this machine.
            work: Arc::new(|_, _| {
                std::hint::black_box(Sha256::digest(vec![7; 16 << 20]));
                (Outcome::Done, Some(()))
            }),
            settled: Vec::new(),
            after_settle: &mut |_| {},
        },
        after: hosts * pages / 2,
        most: 0,
    };
    let pace = Pace {
        concurrency: 4_096,
        ..pace()
    };
    let handle = web.runtime.handle();
    let control = Control::default();
    drive(
        handle,
        &mut frontier,
        &web.fetcher(),
        &pace,
        control,
        &mut crew,
    )
    .unwrap();
    assert_eq!(crew.plain.settled.len(), seeds.len());
    // Every host could be asked at once.
    assert!(
        (1..hosts / 2).contains(&crew.most),
        "{} of {hosts} hosts",
        crew.most
    );
    frontier.close().unwrap();
}

#[test]
fn a_host_full_of_forbidden_addresses_does_not_hold_up_the_loop() {
    let mut tree = MemoryTree::default();
    tree.insert("bad.test", "/robots.txt", "User-agent: *\nDisallow: /\n");
    let web = Web::new(tree, vec![]);
    let seeds: Vec<_> = (0..500)
        .map(|i| url(&format!("http://bad.test/{i}")))
        .collect();
    let mut frontier = web.frontier(&seeds);
    let task = frontier.lease(now()).unwrap().unwrap();
    let rules = RobotsAnswer::Rules("User-agent: *\nDisallow: /\n".into());
    let stamp = |_: &Settled| Ok::<_, StoreError>(vec![]);
    let settled = frontier.finish_robots(&task, rules, Duration::ZERO, now(), stamp);
    assert_eq!(settled.unwrap(), Settled::Done);
    let mut rounds = 0;
    while !frontier.is_exhausted() {
        let now = now();
        assert_eq!(frontier.lease(now).unwrap(), None);
        if !frontier.is_exhausted() {
            assert_eq!(drive::wait_for(&frontier, now), Duration::ZERO);
        }
        rounds += 1;
    }
    assert_eq!(rounds, 3, "500 addresses, 200 at a time");
    assert_eq!(frontier.counts().dropped[&Reason::Robots], 500);
}

#[test]
fn a_crawl_brings_home_text_images_and_a_log() {
    let mut tree = MemoryTree::default();
    let page = |more: &str| {
        format!(
            "<title>t</title><p>cat cat cat cat cat</p><img src='http://i.test/c.png' alt=cat>{more}"
        )
    };
    tree.insert(
        "a.test",
        "/",
        page("<a href=/two.html>cat</a><a href=/moved>cat</a>"),
    );
    tree.insert(
        "a.test",
        "/two.html",
        page("<a href=/>cat</a><a href=/flaky.html>cat</a>"),
    );
    tree.insert("a.test", "/flaky.html", "<p>cat</p>");
    assert!(tree.redirect("http://a.test/moved", "http://a.test/two.html"));
    assert!(tree.image("http://i.test/c.png", 200, 100));
    let fault = Fault::Status {
        code: 500,
        retry_after: None,
    };
    let flaky = Behaviour::of("a.test")
        .under("/flaky")
        .fault(fault)
        .times(1);
    let web = Web::new(tree, vec![flaky]);
    let (frontier, limit) = web.crawl(&[url("http://a.test/")], Limits::default());
    assert_eq!(limit, None);
    let counts = frontier.counts();
    assert_eq!((counts.documents, counts.images), (3, 1));
    assert_eq!(
        (counts.queued_pages(), counts.waiting, counts.queued_images),
        (0, 0, 0)
    );
    let log = web.log();
    let moved = log.iter().find(|l| l["outcome"] == "redirected").unwrap();
    assert_eq!(moved["redirect"], "http://a.test/two.html");
    let retried: Vec<_> = log
        .iter()
        .filter(|l| l["url"] == "http://a.test/flaky.html")
        .collect();
    assert_eq!(
        (&retried[0]["outcome"], &retried[1]["outcome"]),
        (&"retrying".into(), &"done".into())
    );
    let ids: BTreeSet<_> = log.iter().filter_map(|l| l["id"].as_u64()).collect();
    assert_eq!(
        ids,
        (1..=5).collect(),
        "three pages, a redirect and an image"
    );
    let image = log.iter().find(|l| l["kind"] == "image").unwrap();
    let file = image["file"].as_str().unwrap();
    let record = frontier.look_up(&url("http://i.test/c.png"), TaskKind::Image);
    let record = record.unwrap().unwrap();
    assert!(matches!(record.state, State::Done { .. }));
    assert_eq!(record.note.as_deref(), Some(file));
    let sidecar = crate::outputs::Sidecar::load(web.folder.path(), file).unwrap();
    assert_eq!(sidecar.contexts().len(), 2, "both pages embed it");
    let rows = std::fs::read_to_string(web.folder.path().join("images.tsv")).unwrap();
    assert_eq!(rows.lines().count(), 3);
    assert!(
        frontier
            .contexts(&url("http://i.test/c.png"))
            .unwrap()
            .is_empty()
    );
}

// Dying --------------------------------------------------------------------

/// A store in memory whose last batches can be lost, as sled's may be at a
/// SIGKILL: never one before the last flush, and never one without all later.
#[derive(Clone)]
struct Lossy(Arc<Mutex<Batches>>, PathBuf);

#[derive(Default)]
struct Batches {
    flushed: BTreeMap<Vec<u8>, Vec<u8>>,
    now: BTreeMap<Vec<u8>, Vec<u8>>,
    pending: Vec<Batch>,
}

fn apply_to(map: &mut BTreeMap<Vec<u8>, Vec<u8>>, batch: Batch) {
    for (key, value) in batch.into_writes() {
        match value {
            Some(value) => map.insert(key, value),
            None => map.remove(&key),
        };
    }
}

impl Lossy {
    /// Loses up to `n` of the last batches.
    fn die(&self, n: usize) {
        let mut b = self.0.lock().unwrap();
        let left = b.pending.len().saturating_sub(n);
        b.now = b.flushed.clone();
        for batch in std::mem::take(&mut b.pending).into_iter().take(left) {
            apply_to(&mut b.now, batch);
        }
        b.flushed = b.now.clone();
    }
}

impl Readable for Lossy {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.lock().unwrap().now.get(key).cloned())
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        let start = prefix.max(from).to_vec();
        for (key, value) in self.0.lock().unwrap().now.range(start..) {
            if !key.starts_with(prefix) || visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn path(&self) -> &Path {
        &self.1
    }
}

impl Store for Lossy {
    fn apply(&mut self, batch: Batch) -> Result<(), StoreError> {
        let mut b = self.0.lock().unwrap();
        apply_to(&mut b.now, batch.clone());
        b.pending.push(batch);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let mut b = self.0.lock().unwrap();
        b.flushed = b.now.clone();
        b.pending.clear();
        Ok(())
    }

    fn size(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    fn compact(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn snapshot(&self) -> Box<dyn Readable> {
        let mut now = Batches::default();
        now.now = self.0.lock().unwrap().now.clone();
        Box::new(Self(Arc::new(Mutex::new(now)), self.1.clone()))
    }
}

/// Page `n` of a small web: it links to four others, and shows three images that
/// other pages show as well.
fn small_web(n: usize) -> String {
    let mut html = format!("<p>cat cat cat cat cat</p><p>cat cat cat cat page{n}</p>");
    for other in [n * 2 + 1, n * 2 + 2, n + 3, n / 2] {
        let other = other % 18;
        html.push_str(&format!(
            "<a href=http://h{}.test/{other}>cat</a>",
            other % 4
        ));
    }
    for i in [n, n + 1, n / 3] {
        let i = i % 7;
        html.push_str(&format!("<img src=http://i{}.test/{i}.png alt=cat>", i % 2));
    }
    html
}

/// Crawls the small web to its end. `deaths` says after how many finished tasks
/// the process dies, and how many batches are lost then.
fn crawl_small_web(deaths: &[(usize, usize)]) -> BTreeMap<String, Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let store = Lossy(Arc::default(), folder.path().to_owned());
    let png = Bytes::from(encoded(ImageFormat::Png, 64, 64));
    let mut deaths = deaths.iter();
    let mut now = 1_767_323_045_000;
    loop {
        let text = "[job]\nname = \"test\"\n[politeness]\nmin_delay = \"1ms\"\n";
        let config = Config::parse(text, "test.toml").unwrap();
        let policy = Policy::new(&config.politeness, &config.network);
        let scope = Scope::new(config.scope);
        let mut frontier = Frontier::open(Box::new(store.clone()), policy, scope, now).unwrap();
        let fresh = frontier.stamp().is_empty();
        let outputs = Outputs::open(folder.path(), frontier.stamp()).unwrap();
        if fresh {
            frontier.set_stamp(outputs.stamp()).unwrap();
        }
        frontier.add_seeds(&[url("http://h0.test/0")], now).unwrap();
        let mut progress = |_: &Frontier, _: Option<&Row<'_>>| {};
        let r = reader(Strategy::Link);
        let mut crew = Crawl::new(r.clone(), outputs, Limits::default(), &mut progress);
        let death = deaths.next();
        let mut steps = 0;
        while death.is_none_or(|(after, _)| steps < *after) {
            let Some(task) = frontier.lease(now).unwrap() else {
                match frontier.next_event() {
                    Some(at) => now = now.max(at),
                    None => break,
                }
                continue;
            };
            let (outcome, brought) = match task.kind {
                TaskKind::Robots | TaskKind::Sitemap | TaskKind::Tdmrep => (Outcome::Done, None),
                TaskKind::Image => r.read(&task, fetched("image/png", &[], png.clone())),
                TaskKind::Page => {
                    let n = task.url.path()[1..].parse().unwrap();
                    r.read(&task, fetched("text/html", &[], small_web(n)))
                }
            };
            let arrival = Arrival::made(task, outcome, brought);
            crew.settle(&mut frontier, arrival, now).unwrap();
            steps += 1;
        }
        let Some((_, lost)) = death else {
            assert!(frontier.is_exhausted());
            break;
        };
        drop(frontier);
        store.die(*lost);
        // The next day, so that what was not taken back would lie beside its like.
        now += 86_400_000;
    }
    summary(folder.path())
}

/// A path or a row without the date in it.
fn undated(text: &str) -> String {
    match text.find("images/2026-") {
        Some(at) => format!(
            "{}images/{}",
            &text[..at],
            &text[at + "images/2026-01-02/".len()..]
        ),
        None => text.to_owned(),
    }
}

/// Everything in the outputs but times and order.
fn summary(folder: &Path) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let rows = std::fs::read_to_string(folder.join("images.tsv")).unwrap();
    let rows: Vec<String> = rows.lines().map(undated).collect();
    let different: BTreeSet<&String> = rows.iter().collect();
    assert_eq!(different.len(), rows.len(), "a row is there twice");
    // Whether an image came before or after its alt text was known for boilerplate is
    // a matter of time, and then it has two rows on that page; the last one counts.
    let cells = |row: &String| {
        let mut cells = row.split('\t').map(str::to_owned);
        (cells.nth(1), cells.nth(4))
    };
    let last: BTreeMap<_, _> = rows.iter().map(|row| (cells(row), row.clone())).collect();
    all.insert("rows".to_owned(), last.into_values().collect());
    let mut folders = vec![folder.join("images")];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
            let entries = all.entry(undated(name)).or_default();
            entries.push("a file".to_owned());
            if let Some(image) = name.strip_suffix(".json") {
                let sidecar = crate::outputs::Sidecar::load(folder, image).unwrap();
                entries.extend(sidecar.contexts().iter().map(|c| c.page.to_string()));
            }
        }
    }
    let done = lines(&folder.join("logs/crawl.jsonl"));
    let done = done.iter().filter(|l| l["kind"] != "robots");
    all.insert(
        "log".to_owned(),
        done.map(|l| format!("{} {}", l["url"], l["outcome"]))
            .collect(),
    );
    let mut sentences = String::new();
    for entry in std::fs::read_dir(folder.join("sentences")).unwrap() {
        let file = std::fs::File::open(entry.unwrap().path()).unwrap();
        let mut reader = flate2::read::MultiGzDecoder::new(file);
        reader.read_to_string(&mut sentences).unwrap();
    }
    all.insert(
        "sentences".to_owned(),
        sentences.lines().map(str::to_owned).collect(),
    );
    for list in all.values_mut() {
        list.sort();
    }
    all
}

proptest! {
    #![proptest_config(crate::tests::cases(64))]

    /// However often the process dies, and however many of its last commits are
    /// lost, the outputs end up as those of a crawl that never died: nothing
    /// missing, nothing twice.
    #[test]
    fn a_crawl_that_dies_brings_home_what_one_that_lives_does(
        deaths in proptest::collection::vec((0..25_usize, 0..12_usize), 0..6)
    ) {
        // Of one that lives there is one.
        static WHOLE: OnceLock<BTreeMap<String, Vec<String>>> = OnceLock::new();
        let whole = WHOLE.get_or_init(|| crawl_small_web(&[]));
        prop_assert_eq!(whole["log"].len(), 25, "eighteen pages and seven images");
        prop_assert_eq!(&crawl_small_web(&deaths), whole);
    }
}

#[test]
fn times_are_written_in_utc() {
    assert_eq!(timestamp(0), "1970-01-01T00:00:00.000Z");
    assert_eq!(timestamp(1_767_323_045_678), "2026-01-02T03:04:05.678Z");
    assert_eq!(timestamp(u64::MAX), "9999-12-31T23:59:59.999Z");
}

#[test]
fn a_link_begins_in_the_order_of_the_formula_and_becomes_the_learners() {
    let reader = Reader {
        learned: Some(Learned::new(&StrategySection::default(), None)),
        ..reader(Strategy::Learn)
    };
    let link = LinkParts {
        document: 700.0,
        anchor: 700.0,
        keyword: 0.0,
    };
    let (clues, boundaries) = (Clues::default(), Boundaries::default());
    let odds = |score: f64| (boundaries.medium / score).ln();
    let (before, _) = reader.rate(&clues, Some(&link));
    assert!((before / 700.0 - 1.0).abs() < 0.01, "{before}");
    let parts = Learning::parts(&reader, &clues, Some(&link));
    assert_eq!((parts[0].name, Learning::weight(&reader)), ("formula", 0.0));
    assert!(parts[1..].iter().all(|part| part.adds == 0.0));
    for _ in 0..1_000 {
        Learning::learn(&reader, &clues, 1.0);
    }
    let (after, _) = reader.rate(&clues, Some(&link));
    assert!(after < before && Learning::weight(&reader) > 0.98);
    // What the parts add up to is what the score says.
    let parts = Learning::parts(&reader, &clues, Some(&link));
    let sum: f64 = parts.iter().map(|part| part.adds).sum();
    let one = odds(reader.rate(&clues, Some(&link)).0) / sum;
    let learned_alone = odds(reader.rate(&clues, None).0);
    let of_parts: f64 = parts[1..].iter().map(|part| part.adds).sum();
    let weight = Learning::weight(&reader);
    assert!((one * of_parts / weight / learned_alone - 1.0).abs() < 0.01);
}
