//! The files of the archive: their names while they grow and later, and after a crash.

use std::io::Read;

use flate2::read::GzDecoder;

use super::*;
use crate::page::Wire;
use spoor_archive::Reader;
use spoor_archive::cdxj::CdxjLine;
use spoor_archive::reader::Item;
use spoor_archive::writer::{Compression, Dictionary, Packed};

/// 2026-01-02, 03:04:05.
const BEGUN: u64 = 1_767_323_045_000;
const NAME: &str = "spoor-cats-20260102030405";

fn about(compression: Compression) -> About {
    About {
        job: "cats".to_owned(),
        fields: vec![("software", "spoor".to_owned())],
        compression,
    }
}

fn open(folder: &Path, stamp: &[u8], compression: Compression) -> Outputs {
    let mut outputs = Outputs::open(folder, stamp).unwrap();
    outputs.about(about(compression));
    outputs
}

fn exchange(n: usize, by: &Compression) -> Vec<u8> {
    let wire = Wire {
        asked: BEGUN,
        ip: None,
        protocol: "http/1.1",
        status: 200,
        request: b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        response: b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
        body: format!("the body of page {n}").into_bytes().into(),
        truncated: false,
        is_compressed: false,
    };
    Packed::of(&format!("http://a.test/{n}"), &wire, by).members(None, &[])
}

fn write(outputs: &mut Outputs, n: usize) -> TextPlace {
    let records = exchange(n, &outputs.compression());
    outputs.exchange(&records, BEGUN).unwrap()
}

/// The files without indexes.
fn names(folder: &Path) -> Vec<String> {
    let mut names = all_names(folder);
    names.retain(|name| !name.contains(".cdxj"));
    names
}

fn all_names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder.join("archive")).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The addresses in the indexes of all complete files, each of which has an index.
fn indexed(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for name in names(folder) {
        let index = folder
            .join("archive")
            .join(spoor_archive::index::name_beside(&name));
        assert_eq!(index.exists(), !name.ends_with(".open"), "{name}");
        let lines = std::fs::read_to_string(index).unwrap_or_default();
        let lines = lines.lines().map(|line| CdxjLine::parse(line).unwrap());
        found.extend(lines.map(|line| line.url));
    }
    found.sort_by_key(|url| url.rsplit('/').next().unwrap().parse::<usize>().unwrap());
    found
}

/// The addresses of the responses in all files, which have no gaps.
fn answers(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for name in names(folder) {
        let mut reader = Reader::open(&folder.join("archive").join(name)).unwrap();
        while let Some(item) = reader.next_item().unwrap() {
            let Item::Record(mut entry) = item else {
                panic!("a gap");
            };
            let mut block = String::new();
            entry.read_to_string(&mut block).unwrap();
            if entry.record.kind.name() == "response" {
                found.push(entry.record.uri.clone().unwrap());
            }
        }
    }
    found
}

fn pages(n: std::ops::Range<usize>) -> Vec<String> {
    n.map(|n| format!("http://a.test/{n}")).collect()
}

#[test]
fn a_file_is_open_while_it_grows() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut outputs = open(folder, &[], Compression::Gzip);
    let place = write(&mut outputs, 0);
    assert_eq!(place.file, format!("{NAME}-00000.warc.gz"));
    assert_eq!(names(folder), [format!("{NAME}-00000.warc.gz.open")]);
    let stamp = outputs.stamp();
    outputs.complete().unwrap();
    assert_eq!(outputs.stamp(), stamp);
    assert_eq!(names(folder), [format!("{NAME}-00000.warc.gz")]);
    // Complete files do not change.
    write(&mut outputs, 1);
    let stamp = outputs.stamp();
    outputs.complete().unwrap();
    drop(outputs);
    write(&mut open(folder, &stamp, Compression::Gzip), 2);
    let expected = [
        format!("{NAME}-00000.warc.gz"),
        format!("{NAME}-00001.warc.gz"),
        format!("{NAME}-00002.warc.gz.open"),
    ];
    assert_eq!(names(folder), expected);
    assert_eq!(answers(folder), pages(0..3));
}

#[test]
fn what_was_not_committed_is_cut_off() {
    for commit_at in 0..12 {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut outputs = open(folder, &[], Compression::Gzip);
        let mut stamp = outputs.stamp();
        for n in 0..12 {
            write(&mut outputs, n);
            if n == commit_at {
                stamp = outputs.stamp();
            }
        }
        assert!(names(folder).len() > 2);
        drop(outputs);
        let outputs = open(folder, &stamp, Compression::Gzip);
        assert_eq!(answers(folder), pages(0..commit_at + 1));
        let is_complete = |name: &String| name.ends_with(".warc.gz");
        assert!(names(folder).iter().all(is_complete));
        drop(outputs);
        assert_eq!(indexed(folder), pages(0..commit_at + 1));
        assert!(!all_names(folder).iter().any(|name| name.contains(".part")));
        let mut outputs = open(folder, &stamp, Compression::Gzip);
        for n in commit_at + 1..12 {
            write(&mut outputs, n);
        }
        outputs.complete().unwrap();
        drop(outputs);
        assert_eq!(answers(folder), pages(0..12));
        assert_eq!(indexed(folder), pages(0..12));
    }
}

#[test]
fn files_may_be_moved_away_and_foreign_ones_stay() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut outputs = open(folder, &[], Compression::Gzip);
    write(&mut outputs, 0);
    let stamp = outputs.stamp();
    outputs.complete().unwrap();
    drop(outputs);
    let archive = folder.join("archive");
    std::fs::remove_file(archive.join(format!("{NAME}-00000.warc.gz"))).unwrap();
    let foreign = "IAH-20260102030405-00007.warc.gz";
    std::fs::write(archive.join(foreign), b"").unwrap();
    let mut outputs = open(folder, &stamp, Compression::Gzip);
    write(&mut outputs, 1);
    let expected = [foreign.to_owned(), format!("{NAME}-00001.warc.gz.open")];
    assert_eq!(names(folder), expected);
}

#[test]
fn zstd_is_read_with_and_without_a_dictionary() {
    let plain = |n| {
        let mut record = Vec::new();
        let members = exchange(n, &Compression::Gzip);
        GzDecoder::new(&*members).read_to_end(&mut record).unwrap();
        record
    };
    let samples: Vec<Vec<u8>> = (0..400).map(plain).collect();
    let trained = zstd::dict::from_samples(&samples, 1_024).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dictionary");
    std::fs::write(&path, trained).unwrap();
    let dictionary = Dictionary::open(&path).unwrap();
    let mut lengths = Vec::new();
    for dictionary in [None, Some(dictionary)] {
        let folder = tempfile::tempdir().unwrap();
        let mut outputs = open(folder.path(), &[], Compression::Zstd(dictionary));
        let place = write(&mut outputs, 0);
        assert!(place.file.ends_with("-00000.warc.zst"));
        lengths.push(place.bytes);
        write(&mut outputs, 1);
        assert_eq!(answers(folder.path()), pages(0..2));
    }
    assert!(lengths[1] < lengths[0], "{lengths:?}");
    std::fs::write(&path, b"no dictionary").unwrap();
    assert!(Dictionary::open(&path).is_err());
}
