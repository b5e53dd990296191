//! Image files in a crawl: copies, and files whose format is not what it seems.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

use ::image::codecs::gif::GifEncoder;
use ::image::{Delay, Frame};
use serde_json::Value;
use spoor_lab::{Lab, MemoryTree, picture};

use crate::support::texts::{image, page, some, topical, tree};
use crate::support::{Job, JobText, Ran, Wire, spoor};

fn drawn(url: &str, width: u32, height: u32) -> Vec<u8> {
    picture::draw(url, width, height).unwrap().bytes
}

/// A page on topic that embeds these images.
fn gallery(title: &str, images: &[&str]) -> String {
    let mut paragraphs = vec![some(topical(), 0, 4)];
    let alt = |n: usize| some(topical(), n, 1);
    paragraphs.extend(
        images
            .iter()
            .enumerate()
            .map(|(n, src)| image(src, &alt(n))),
    );
    page(title, "", &paragraphs)
}

fn animation() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = GifEncoder::new_with_speed(&mut bytes, 30);
    for n in 0..3 {
        let still = drawn(&format!("http://a.test/{n}.png"), 200, 150);
        let still = ::image::load_from_memory(&still).unwrap().to_rgba8();
        let delay = Delay::from_numer_denom_ms(100, 1);
        encoder
            .encode_frame(Frame::from_parts(still, 0, 0, delay))
            .unwrap();
    }
    drop(encoder);
    bytes
}

/// Sidecars by the path of the image's address.
fn by_path(job: &Job) -> BTreeMap<String, Value> {
    let named = |sidecar: Value| {
        let url = sidecar["url"].as_str().unwrap();
        let host = url.trim_start_matches("http://").to_owned();
        (host, sidecar)
    };
    job.sidecars().into_iter().map(named).collect()
}

fn inode(job: &Job, sidecar: &Value) -> u64 {
    let file = job.folder().join(sidecar["file"].as_str().unwrap());
    std::fs::metadata(file).unwrap().ino()
}

#[test]
fn files_that_are_not_what_they_seem_are_kept_marked_or_dropped_with_the_reason() {
    let names = [
        "/good.png",
        "/moves.gif",
        "/cut.jpg",
        "/drawing.svg",
        "/hidden.png",
        "/bomb.png",
        "/wrong.jpg",
        "/banner.png",
        "/text.png",
    ];
    let mut web = tree(&[("a.test/", gallery("Lights", &names))]);
    web.insert("a.test", "/good.png", drawn("good.png", 300, 200));
    web.insert("a.test", "/moves.gif", animation());
    let jpeg = drawn("cut.jpg", 300, 200);
    web.insert("a.test", "/cut.jpg", jpeg[..jpeg.len() / 2].to_vec());
    let svg = "<svg xmlns='http://www.w3.org/2000/svg' width='300' height='200'><script>evil()</script></svg>";
    web.insert("a.test", "/drawing.svg", svg);
    web.insert_as("a.test", "/hidden.png", "image/png", svg);
    let mut bomb = drawn("bomb.png", 300, 200);
    bomb[16..24].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
    let mut crc = flate2::Crc::new();
    crc.update(&bomb[12..29]);
    bomb[29..33].copy_from_slice(&crc.sum().to_be_bytes());
    web.insert("a.test", "/bomb.png", bomb);
    web.insert_as(
        "a.test",
        "/wrong.jpg",
        "image/gif",
        drawn("wrong.webp", 300, 200),
    );
    web.insert("a.test", "/banner.png", drawn("banner.png", 1_200, 100));
    web.insert_as("a.test", "/text.png", "image/avif", "no picture at all");
    let wire = Wire::serve(Lab::from_memory(web));
    let text = JobText {
        seeds: &["http://a.test/"],
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    job.run();

    let mut outcomes = BTreeMap::new();
    for row in job.log() {
        if row["kind"] == "image" {
            let word = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            let path = word("url").trim_start_matches("http://a.test").to_owned();
            outcomes.insert(path, (word("outcome"), word("reason"), word("error")));
        }
    }
    for (path, reason, words) in [
        (
            "/cut.jpg",
            "bad_image",
            "truncated: the file ends before the jpeg image does",
        ),
        (
            "/hidden.png",
            "bad_image",
            "an SVG document, which is never rendered; sent as \"image/png\"",
        ),
        ("/bomb.png", "image_size", "60000 x 60000 pixels in "),
        ("/banner.png", "image_size", "1200 x 100 pixels in "),
        (
            "/text.png",
            "bad_image",
            "not an image of a supported format; sent as \"image/avif\"",
        ),
    ] {
        let (outcome, why, error) = &outcomes[path];
        assert_eq!(
            (outcome.as_str(), why.as_str()),
            ("dropped", reason),
            "{path}"
        );
        assert!(error.starts_with(words), "{path}: {error}");
    }
    // An image with the extension of an SVG is not even requested.
    assert!(!outcomes.contains_key("/drawing.svg"));
    let kept = by_path(&job);
    let paths: Vec<&str> = kept.keys().map(String::as_str).collect();
    assert_eq!(
        paths,
        ["a.test/good.png", "a.test/moves.gif", "a.test/wrong.jpg"]
    );
    for (path, sidecar) in &kept {
        assert_eq!(sidecar["animated"], path.ends_with("moves.gif"), "{path}");
        assert_eq!(sidecar["decoded"], true);
        let hash = sidecar["phash"].as_str().unwrap();
        let bytes = std::fs::read(job.folder().join(sidecar["file"].as_str().unwrap())).unwrap();
        let own = spoor::outputs::picture::hash_file(&bytes).unwrap();
        assert_eq!(hash, format!("{own:016x}"), "{path}");
    }
    let wrong = &kept["a.test/wrong.jpg"];
    assert_eq!(wrong["format"], "webp");
    let labels = serde_json::json!({"content_type": "image/gif", "extension": "jpg"});
    assert_eq!(wrong["mislabelled"], labels);
    assert_eq!(kept["a.test/good.png"]["mislabelled"], Value::Null);
}

/// Two hosts with the same picture, and a third page that shows another copy.
fn copies() -> MemoryTree {
    let mut web = tree(&[
        (
            "a.test/",
            gallery("Lights", &["/lamp.png", "http://b.test/img/copy.png"]),
        ),
        ("c.test/", gallery("More lights", &["/later.png"])),
    ]);
    let lamp = drawn("lamp.png", 320, 240);
    web.insert("a.test", "/lamp.png", lamp.clone());
    web.insert("b.test", "/img/copy.png", lamp.clone());
    web.insert("c.test", "/later.png", lamp);
    web
}

#[test]
fn the_same_bytes_under_other_addresses_are_one_file_also_after_a_change_of_store() {
    let wire = Wire::serve(Lab::from_memory(copies()));
    let mut text = JobText {
        seeds: &["http://a.test/"],
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    job.run();
    let kept = by_path(&job);
    assert_eq!(kept.len(), 2);
    let (lamp, copy) = (&kept["a.test/lamp.png"], &kept["b.test/img/copy.png"]);
    assert_ne!(lamp["file"], copy["file"]);
    assert_eq!(lamp["sha256"], copy["sha256"]);
    assert_eq!(inode(&job, lamp), inode(&job, copy), "one file on the disk");
    let (first, second) = if lamp["same_as"].is_null() {
        (lamp, copy)
    } else {
        (copy, lamp)
    };
    assert_eq!(first["same_as"], Value::Null);
    assert_eq!(second["same_as"], first["file"]);

    // The facts about the first file survive the conversion.
    let file = job.file();
    let file = file.to_str().unwrap();
    Ran::of(&mut spoor(&["store", "convert", file, "--to", "fjall"])).good();
    text.seeds = &["http://a.test/", "http://c.test/"];
    text.rest = "[frontier]\nstore = \"fjall\"";
    job.write(&wire, &text);
    job.run();
    let kept = by_path(&job);
    let later = &kept["c.test/later.png"];
    assert_eq!(later["same_as"], first["file"]);
    assert_eq!(inode(&job, later), inode(&job, first));
    let out = Ran::of(&mut spoor(&["store", "check", file])).good();
    assert!(out.contains("no inconsistencies"), "{out}");
}
