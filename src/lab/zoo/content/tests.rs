//! Every case without a server: its bytes go straight into the stage that they attack.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::address::PageUrl;
use spoor::outputs::picture::{self, BadImage, ImageInfo};
use spoor::outputs::{NewImageFile, Outputs, Row};
use spoor_testing::worked;
use spoor_values::page::{
    Extracted, Extractor, Fetched, ImageContext, ImageTexts, TaskKind, Terms, TermsHeaders,
    Validators,
};
use spoor_values::sanitize;
use spoor_web::extract::{self, Options};
use spoor_web::robots::{self, Robots};
use spoor_web::sitemap;

/// Maximum processor time of a case, in a debug build: quadratic work on a body of megabytes takes
/// minutes.
const PATIENCE: Duration = Duration::from_secs(20);

/// The result of fetching a case: the `Content-Type`, as much of the body as is read, and whether
/// that is all.
fn fetch(case: &Case, path: &str, cap: usize) -> Fetched {
    let Serve::Web(reply) = &case.serve else {
        panic!("{} is not served as a web", case.name);
    };
    let reply = reply(path);
    let content_type = reply
        .headers
        .iter()
        .find(|(name, _)| name == "Content-Type");
    let mut body = Vec::new();
    for part in reply.body {
        body.extend_from_slice(&part);
        if body.len() > cap {
            break;
        }
    }
    let truncated = body.len() > cap;
    body.truncate(cap);
    Fetched {
        status: reply.status,
        content_type: content_type.map(|(_, value)| value.clone()),
        terms: TermsHeaders::default(),
        validators: Validators::default(),
        body: Bytes::from(body),
        truncated,
        elapsed: Duration::ZERO,
        date: None,
    }
}

fn address(case: &Case) -> PageUrl {
    PageUrl::parse(&case.url()).unwrap()
}

/// Runs `read` over the cases of a kind, each in bounded time, and reports the time.
fn over(kind: &str, cap: usize, mut read: impl FnMut(&Case, Fetched)) {
    let cases: Vec<Case> = cases()
        .into_iter()
        .filter(|c| c.expect.kind == kind)
        .collect();
    assert!(!cases.is_empty());
    for case in cases.iter().filter(|case| case.expect.url.is_none()) {
        let fetched = fetch(case, case.path, cap);
        let bytes = fetched.body.len();
        let before = worked();
        read(case, fetched);
        let took = worked() - before;
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find(|line| line.starts_with("VmHWM"));
        eprintln!(
            "{}: {bytes} bytes, {} ms, {}",
            case.name,
            took.as_millis(),
            peak.unwrap_or("")
        );
        assert!(took < PATIENCE, "{}: {took:?}", case.name);
    }
}

#[test]
fn cases_have_names_of_their_own_and_addresses() {
    let mut names = BTreeSet::new();
    for case in cases() {
        assert!(names.insert(case.name), "{}", case.name);
        assert!(case.name.len() <= 63, "{}", case.name);
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        assert!(case.name.bytes().all(plain), "{}", case.name);
        assert_eq!(PageUrl::parse(&case.url()).unwrap().as_str(), case.url());
        assert_eq!(
            PageUrl::parse(&case.judged()).unwrap().as_str(),
            case.judged()
        );
    }
    assert!(names.len() >= 100, "{}", names.len());
}

/// The size of everything that is kept of a page.
fn kept(page: &Extracted) -> usize {
    let texts = |all: &[String]| all.iter().map(|t| t.len() + 24).sum::<usize>();
    let links = page
        .links
        .iter()
        .map(|l| l.url.as_str().len() + l.anchor.len() + 100);
    let images = page.images.iter().map(|i| {
        let target = i.embedding.link_target.as_ref();
        let (t, own) = (&i.texts, i.url.as_str().len());
        let words = [
            &t.alt,
            &t.title,
            &t.aria_label,
            &t.caption,
            &t.figcaption,
            &t.heading,
        ];
        let words = words
            .iter()
            .filter_map(|w| w.as_deref())
            .map(str::len)
            .sum::<usize>();
        let words = words + t.file_name.as_deref().map_or(0, str::len);
        let around = texts(&t.parents) + texts(&t.siblings) + texts(&i.licences);
        own + target.map_or(0, |t| t.as_str().len()) + words + around + 400
    });
    let main = page.main.as_ref().map_or(0, |main| main.text.len());
    texts(&page.blocks) + main + links.sum::<usize>() + images.sum::<usize>()
}

/// Pages with this many blocks are read again for the extractor that works on blocks: it runs after
/// the parse, and with fewer blocks it takes no time.
const MANY_BLOCKS: usize = 50;

/// Each page is read completely and searched for its article in one extraction, because both share
/// the parse that takes nearly all of the time.
#[test]
#[ignore = "long; the default suite crawls the same pages, in tests/it/crawl_zoo.rs"]
fn pages_and_their_articles_are_read_within_their_bounds() {
    let options = Options {
        documents: Some(Extractor::Main),
        ..Options::default()
    };
    let dense = Options {
        extractor: Extractor::Density,
        ..Options::default()
    };
    let (mut again, mut articles) = (0, 0);
    over("page", CAP as usize, |case, fetched| {
        let read = extract::extract(&address(case), &fetched, &options);
        let page = match (case.expect.outcome, read) {
            ("done", read) => read.unwrap_or_else(|error| panic!("{}: {error}", case.name)),
            (_, Err(_)) => return,
            (_, Ok(page)) => panic!("{}: {:?}", case.name, page.blocks),
        };
        assert_eq!(page.text.extractor, Extractor::All);
        let main = page.main.as_ref().unwrap();
        articles += usize::from(main.share.extractor == Extractor::Main);
        let bytes = kept(&page);
        assert!(bytes <= 40 << 20, "{}: {bytes} bytes are kept", case.name);
        assert!(page.links.len() <= options.max_links, "{}", case.name);
        assert!(page.images.len() <= options.max_images, "{}", case.name);
        let of_links = page
            .links
            .iter()
            .map(|l| l.url.as_str().len())
            .sum::<usize>();
        assert!(
            of_links <= options.max_address_bytes,
            "{}: {of_links}",
            case.name
        );
        // If everything was read, the content after the mess is found.
        let whole = !fetched.truncated && fetched.body.len() < options.max_text_bytes;
        let swallowed = [
            "nested-svg",
            "nested-template",
            "nested-select",
            "charset-header-utf16",
            "charset-hz",
            "plain-blocks",
            "evil-words",
        ];
        if whole && !swallowed.contains(&case.name) {
            let text = page.blocks.concat();
            assert!(text.contains("the end"), "{}: {text:.200}", case.name);
        }
        if page.blocks.len() >= MANY_BLOCKS {
            again += 1;
            let found = extract::extract(&address(case), &fetched, &dense).unwrap();
            assert!(found.blocks.len() <= page.blocks.len(), "{}", case.name);
            assert_eq!(found.links.len(), page.links.len(), "{}", case.name);
        }
    });
    eprintln!("{again} pages of many blocks, {articles} with an article");
    assert!(again > 2 && articles > 2, "{again}, {articles}");
}

const CAP: u64 = super::super::CAP;

#[test]
fn bases_are_taken_only_of_web_addresses_and_lies_give_no_markup() {
    let links = |name: &str| {
        let case = cases().into_iter().find(|c| c.name == name).unwrap();
        let fetched = fetch(&case, case.path, 1 << 20);
        let page = extract::extract(&address(&case), &fetched, &Options::default()).unwrap();
        let links = page.links.iter().map(|l| l.url.to_string());
        (links.collect::<Vec<_>>(), page)
    };
    assert_eq!(
        links("base-schemes").0,
        ["http://base-schemes.zoo.test/x.zip"]
    );
    assert_eq!(links("refresh-self").0, [""; 0]);
    let (_, page) = links("canonical-elsewhere");
    assert_eq!(page.canonical.unwrap().as_str(), "http://127.0.0.1/admin");
    for lie in ["charset-utf7", "charset-overlong", "charset-iso-2022-jp"] {
        let (links, page) = links(lie);
        assert_eq!((links.len(), page.images.len()), (0, 0), "{lie}");
        assert!(page.blocks.concat().contains("the end"), "{lie}");
    }
}

#[test]
fn odd_addresses_are_tame_or_none() {
    let base = PageUrl::parse("http://zoo.test/a/").unwrap();
    let mut good = 0;
    for odd in html::ODD_ADDRESSES {
        let Ok(url) = base.join(odd) else { continue };
        good += 1;
        assert!(matches!(url.scheme(), "http" | "https"), "{odd:?} {url}");
        assert!(
            url.as_str().bytes().all(|b| b.is_ascii_graphic()),
            "{odd:?} {url}"
        );
        assert!(
            !url.as_str().contains('@') && !url.as_str().contains('\\'),
            "{odd:?} {url}"
        );
        assert!(!url.host().is_empty(), "{odd:?} {url}");
        assert_eq!(PageUrl::parse(url.as_str()).unwrap(), url);
    }
    assert!(
        (15..html::ODD_ADDRESSES.len() - 10).contains(&good),
        "{good}"
    );
    for (odd, host) in [
        ("http://0x7f.1/", "127.0.0.1"),
        ("http://2130706433/", "127.0.0.1"),
        ("http://%31%32%37.0.0.1/", "127.0.0.1"),
        ("http://１２７.0.0.1/", "127.0.0.1"),
        ("http://a:b@127.0.0.1@c.test/", "c.test"),
        ("\\\\a.test\\share", "a.test"),
        ("http://раураl.test/", "xn--l-7sba6dbr.test"),
    ] {
        assert_eq!(base.join(odd).unwrap().host(), host, "{odd}");
    }
}

#[test]
fn images_are_known_refused_or_left_folded() {
    over("image", CAP as usize, |case, fetched| {
        let body = &fetched.body;
        let looked = picture::inspect(body).and_then(|mut info| {
            let big = info.width.max(info.height) > 20_000;
            if !big {
                info.look(body)?;
            }
            Ok((info, big))
        });
        let found = match &looked {
            _ if fetched.truncated => ("dropped", Some("too_large")),
            Ok((_, true)) => ("dropped", Some("image_size")),
            Ok(_) => ("done", None),
            Err(_) => ("dropped", Some("bad_image")),
        };
        let expected = (case.expect.outcome, case.expect.reason);
        assert_eq!(found, expected, "{}: {looked:?}", case.name);
        if let (Err(bad), Some(words)) = (&looked, case.expect.error) {
            assert!(bad.to_string().contains(words), "{}: {bad}", case.name);
            assert!(bad.to_string().len() < 300, "{}: {bad}", case.name);
        }
        if let Ok((info, _)) = &looked {
            let folded = ["png-14000", "webp-16000"].contains(&case.name);
            let dark = case.expect.outcome != "done" || folded;
            assert_eq!(info.decoded, !dark, "{}", case.name);
        }
    });
    let of = |name: &str| {
        let case = cases().into_iter().find(|c| c.name == name).unwrap();
        picture::inspect(&fetch(&case, case.path, CAP as usize).body)
    };
    assert_eq!(of("svg-as-png"), Err(BadImage::Svg));
    assert!(of("apng-lie").unwrap().animated);
    assert_eq!(of("gif-script").unwrap().extension, "gif");
}

#[test]
fn robots_are_read_and_asked_in_bounded_time() {
    let longest = PageUrl::parse(&format!("http://zoo.test/{}", "ab".repeat(3_900))).unwrap();
    over("robots", robots::MAX_ROBOTS_BYTES, |case, fetched| {
        let rules = Robots::parse("spoor", &fetched.body);
        assert!(rules.size() <= 8 << 20, "{}: {}", case.name, rules.size());
        let before = worked();
        rules.allows(&longest);
        rules.content_signals(&longest);
        let took = worked() - before;
        eprintln!(
            "{}: {} us for the longest address",
            case.name,
            took.as_micros()
        );
        assert!(took < Duration::from_secs(2), "{}: {took:?}", case.name);
        let allows = |path: &str| rules.allows(&longest.join(path).unwrap());
        match case.name {
            "robots-huge" => assert!(!allows("/secret/x") && allows("/")),
            "robots-stars" => assert!(!allows("/x123-a-b") && allows("/x")),
            // The rules in a page are meant.
            "robots-html" => assert!(!allows("/")),
            "robots-binary" | "robots-utf16" | "robots-lines" => {
                assert!(allows("/"))
            }
            "robots-delay" => assert_eq!(rules.crawl_delay(), None),
            "robots-delay-huge" | "robots-delay-nines" => {
                assert_eq!(rules.crawl_delay(), Some(Duration::MAX));
            }
            "robots-delay-words" => {
                assert_eq!(rules.crawl_delay(), Some(Duration::from_secs(700)));
            }
            _ => {}
        }
    });
    over("tdmrep", robots::MAX_TDMREP_BYTES, |case, fetched| {
        let read = robots::parse_tdmrep(&fetched.body);
        assert!(read.is_err(), "{}", case.name);
    });
}

#[test]
fn sitemaps_are_read_up_to_their_bounds() {
    over("sitemap", sitemap::MAX_BYTES, |case, fetched| {
        let read = sitemap::read(&address(case), &fetched.body);
        let listed = read.pages.len() + read.sitemaps.len();
        let bytes: usize = read.pages.iter().map(|e| e.url.as_str().len()).sum();
        assert!(
            listed <= sitemap::MAX_ENTRIES && bytes <= 17 << 20,
            "{}: {bytes}",
            case.name
        );
        let trouble = read.trouble.unwrap_or_default();
        assert!(trouble.chars().count() <= 200, "{}", case.name);
        // A sitemap that lists more than it may is read nevertheless.
        let none = case.expect.reason == Some("content_type");
        if none {
            assert!(
                listed == 0 && !trouble.is_empty(),
                "{}: {listed}",
                case.name
            )
        } else {
            assert!(listed > 0, "{}: {trouble}", case.name)
        }
        if !none {
            let said = case.expect.error.unwrap_or_default();
            assert!(trouble.contains(said), "{}: {trouble:?}", case.name);
            assert!(
                !said.is_empty() || trouble.is_empty(),
                "{}: {trouble:?}",
                case.name
            );
        }
        if case.name == "sitemap-laughs" {
            assert!(bytes < 200, "{bytes}");
        }
    });
}

/// Output with hostile words keeps their meaning, and has no effect.
#[test]
fn what_is_written_of_hostile_words_is_inert() {
    let case = cases()
        .into_iter()
        .find(|c| c.name == "evil-words")
        .unwrap();
    let fetched = fetch(&case, case.path, 1 << 20);
    let page = extract::extract(&address(&case), &fetched, &Options::default()).unwrap();
    let title = page.title.as_ref().map_or(0, |t| t.chars().count());
    assert!((900..=1_000).contains(&title), "{title}");
    assert_eq!(page.images.len(), texts::EVIL.len() + 1);
    let folder = tempfile::tempdir().unwrap();
    let mut outputs = Outputs::open(folder.path(), &[]).unwrap();
    for evil in texts::EVIL {
        let row = row(evil);
        outputs.log(&row).unwrap();
    }
    for image in &page.images {
        assert!(
            image
                .texts
                .alt
                .as_ref()
                .is_none_or(|alt| alt.chars().count() <= 1_000)
        );
        let bytes = fetch(&case, image.url.path(), 1 << 20).body;
        let mut info = picture::inspect(&bytes).unwrap();
        info.look(&bytes).unwrap();
        let file = keep(
            &mut outputs,
            image.url.clone(),
            &bytes,
            info,
            &page,
            image.texts.clone(),
        );
        let path = folder.path().join(&file).canonicalize().unwrap();
        assert!(
            path.starts_with(folder.path().canonicalize().unwrap()),
            "{file}"
        );
        let plain = |c: char| c.is_ascii_graphic() && !"<>:\"\\|?*".contains(c);
        assert!(file.chars().all(plain) && file.ends_with(".png"), "{file}");
        let sidecar = std::fs::read_to_string(path.with_added_extension("json")).unwrap();
        assert!(
            !sidecar.contains(|c| sanitize::acts(c) && c != '\n'),
            "{sidecar}"
        );
        assert!(serde_json::from_str::<serde_json::Value>(&sidecar).is_ok());
    }
    let log = std::fs::read_to_string(folder.path().join("logs/crawl.jsonl")).unwrap();
    assert!(!log.contains(|c| sanitize::acts(c) && c != '\n'));
    for (line, evil) in log.lines().zip(texts::EVIL) {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["title"], *evil);
    }
    let table = std::fs::read_to_string(folder.path().join("images.tsv")).unwrap();
    assert!(!table.contains(|c| sanitize::acts(c) && !matches!(c, '\n' | '\t')));
    let columns = table.lines().next().unwrap().split('\t').count();
    assert_eq!(table.lines().count(), texts::EVIL.len() + 2);
    for line in table.lines() {
        assert_eq!(line.split('\t').count(), columns, "{line}");
        for cell in line.split('\t') {
            let formula = ['=', '+', '@', '\u{ff1d}'];
            assert!(!cell.trim_start().starts_with(formula), "{cell}");
        }
    }
}

fn row(title: &str) -> Row<'_> {
    Row {
        status: Some(200),
        bucket: "seed",
        score: 0.0,
        title: Some(title),
        error: Some(title),
        ..Row::done(
            "2026-01-02T03:04:05.678Z",
            TaskKind::Page,
            "http://zoo.test/",
            PageUrl::parse("http://zoo.test/").unwrap().id(),
        )
    }
}

fn keep(
    outputs: &mut Outputs,
    url: PageUrl,
    bytes: &[u8],
    info: ImageInfo,
    page: &Extracted,
    texts: ImageTexts,
) -> String {
    let context = ImageContext {
        page: PageUrl::parse("http://zoo.test/").unwrap(),
        page_title: page.title.clone(),
        page_language: None,
        page_recognised_language: None,
        document_perplexity: 1.0,
        declared_width: None,
        declared_height: None,
        terms: Default::default(),
        embedding: Default::default(),
        texts,
        scores: Default::default(),
        rank: 1.0,
    };
    outputs
        .image(NewImageFile {
            content_type: Some("image/\u{9b}png"),
            contexts: vec![context],
            url: &url,
            bytes,
            info,
            terms: Terms::default(),
            fetched: "2026-01-01T12:00:00.000Z",
        })
        .unwrap()
}
