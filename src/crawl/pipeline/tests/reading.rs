//! The processing of bodies.

use super::*;
use crate::outputs::PackedSentences;
use crate::page::{Outcome, Reason};

/// Reads a page of five cats, a link and an image, with `head` and `body` added.
fn read_with(reader: &Reader, tags: &[&str], head: &str, body: &str) -> PageProduct {
    let html = format!(
        "<html lang=en><head><title>Cats</title>{head}</head><body><p>cat cat cat cat cat</p>\
         <p><a href=/plain>cat</a></p><img src=/plain.png alt=cat>{body}</body></html>"
    );
    let page = task("http://a.org/page", TaskKind::Page);
    match reader.read(&page, fetched("text/html", tags, html)) {
        (Outcome::Done, Some(Product::Page(page))) => *page,
        other => panic!("{other:?}"),
    }
}

fn links(page: &PageProduct) -> Vec<&str> {
    page.links.iter().map(|l| l.url.path()).collect()
}

fn images(page: &PageProduct) -> Vec<&str> {
    page.images.iter().map(|i| i.url.path()).collect()
}

#[test]
fn a_page_gives_text_links_and_images() {
    let page = read_with(&reader(StrategyKind::Link), &[], "", "");
    assert_eq!(page.document.perplexity, 10.0);
    assert_eq!(page.sentences, PackedSentences::of("cat cat cat cat cat\n"));
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

/// A page of this size is mostly links. While it waited for the one place of large files, a busy
/// crawl that chose from what it knew then found a tenth fewer pages on topic.
#[test]
fn a_page_with_many_links_waits_for_no_place_of_large_files() {
    let page = task("http://a.org/page", TaskKind::Page);
    let links = "<p><a href=/plain>cat</a></p>";
    for (bytes, is_large) in [(1 << 19, false), (3 << 20, true)] {
        let html = links.repeat(bytes / links.len());
        let work = reader(StrategyKind::Link).begin(&page, fetched("text/html", &[], html));
        assert_eq!(matches!(work, Work::Large(_)), is_large, "{bytes} bytes");
    }
}

#[test]
fn directives_are_obeyed_where_they_forbid_what_we_do() {
    let r = reader(StrategyKind::Link);
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
            assert_eq!(page.sentences.count() > 0, text, "{tag}: sentences");
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
    assert!(read_with(&silent, &[], "", "").sentences.count() == 0);
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
    let page = read_with(&reader(StrategyKind::Link), &[], "", body);
    assert_eq!(links(&page), ["/plain", "/x"]);
    assert_eq!(page.links[1].parts.unwrap().anchor, 10.0);
    assert_eq!(images(&page), ["/plain.png", "/y.png"]);
    assert_eq!(page.images[1].context.texts.alt.as_deref(), Some("cat"));
}

#[test]
fn above_the_razor_there_is_no_bucket_but_for_breadth_first() {
    let html = "<p>dog dog dog dog dog dog</p><a href=/x>dog</a><img src=/y.png>";
    for (strategy, bucket, score) in [
        (StrategyKind::Link, None, None),
        (StrategyKind::Document, None, None),
        (StrategyKind::Unfocused, Some(Bucket::Normal), Some(0.0)),
    ] {
        let page = task("http://a.org/", TaskKind::Page);
        let read = reader(strategy).read(&page, fetched("text/html", &[], html));
        let (Outcome::Done, Some(Product::Page(page))) = read else {
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
    let page = read_with(&reader(StrategyKind::Link), &[], "", body);
    assert_eq!(images(&page), ["/plain.png", "/good.png", "/odd.png"]);
}

#[test]
fn what_is_no_page_is_dropped() {
    let r = reader(StrategyKind::Link);
    for (content_type, body) in [
        ("application/pdf", &b"%PDF-1.7"[..]),
        ("text/html", &[0_u8; 400][..]),
        ("image/png", b"x"),
    ] {
        let page = task("http://a.org/", TaskKind::Page);
        let (outcome, product) = r.read(&page, fetched(content_type, &[], body));
        let reason = Reason::ContentType;
        assert_eq!(outcome, Outcome::Drop { reason }, "{content_type}");
        assert!(product.is_none());
    }
    let robots = task("http://a.org/robots.txt", TaskKind::Robots);
    let read = r.read(&robots, fetched("image/png", &[], &b"User-agent: *"[..]));
    assert!(matches!(read, (Outcome::Done, Some(Product::Robots(b))) if b == "User-agent: *"));
}

fn read_image(tags: &[&str], body: Vec<u8>) -> Result<crate::outputs::picture::ImageInfo, Reason> {
    let task = task("http://a.org/x.png", TaskKind::Image);
    let r = reader(StrategyKind::Link);
    match r.read(&task, fetched("image/png", tags, body.clone())) {
        (
            Outcome::Done,
            Some(Product::Image {
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
            None | Some(Product::Refused { .. } | Product::Forbidden { .. }),
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
    let mut r = reader(StrategyKind::Link);
    let read = |r: &Reader, address: &str, sent: &str, body: Vec<u8>| match r
        .read(&task(address, TaskKind::Image), fetched(sent, &[], body))
    {
        (Outcome::Done, Some(Product::Image { info, .. })) => Ok(info),
        (Outcome::Drop { reason }, Some(Product::Refused { why })) => Err((reason, why)),
        other => panic!("{other:?}"),
    };
    let drawn = spoor_lab::picture::draw("http://a.org/1.png", 640, 80).unwrap();
    let png = drawn.bytes;
    let info = read(&r, "http://a.org/1.png", "image/png", png.clone()).unwrap();
    assert!(info.decoded && !info.animated && info.mislabelled.is_none());
    assert_eq!(info.phash, crate::outputs::picture::hash_file(&png));
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
    let r = reader(StrategyKind::Link);
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
