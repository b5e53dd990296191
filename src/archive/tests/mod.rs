//! Files from a small test writer, in every form and with every kind of damage.

use std::io::{Read, Write};
use std::path::Path;

use sha1::{Digest, Sha1};

use flate2::{Compression, write::GzEncoder};
mod harm;

use super::gap::{Gap, Why};
use super::reader::{Item, Reader};
use super::record::{Kind, Version};

/// How records are stored in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    Members,
    OneMember,
    /// Members that begin anywhere, as bgzip makes them.
    Pieces,
    Frames,
    OneFrame,
    Dictionary,
    PackedDictionary,
}

const FORMS: [Form; 8] = [
    Form::Plain,
    Form::Members,
    Form::OneMember,
    Form::Pieces,
    Form::Frames,
    Form::OneFrame,
    Form::Dictionary,
    Form::PackedDictionary,
];

fn warc(n: usize, block: &[u8]) -> Vec<u8> {
    let length = block.len();
    let digest = base16ct::lower::encode_string(&Sha1::digest(block));
    let head = format!(
        "WARC/1.1\r\nWARC-Type: resource\r\nWARC-Target-URI: http://a.test/{n}\r\n\
         WARC-Block-Digest: sha1:{digest}\r\n\
         WARC-Date: 2026-01-02T03:04:05Z\r\nWARC-Record-ID: <urn:uuid:{n}>\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), block, b"\r\n\r\n"].concat()
}

fn arc(n: usize, block: &[u8]) -> Vec<u8> {
    let length = block.len();
    let line = format!("http://a.test/{n} 1.2.3.4 20120214055058 text/html {length}\n");
    [line.as_bytes(), block, b"\n"].concat()
}

fn filedesc(version: u8) -> Vec<u8> {
    let names = "URL IP-address Archive-date Content-type Archive-length";
    let block = format!("{version} 0 Someone\n{names}\n");
    let line = "filedesc://a.arc 0.0.0.0 20120214055058 text/plain";
    format!("{line} {}\n{block}\n", block.len()).into_bytes()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

fn zstd_frame(bytes: &[u8], dictionary: &[u8]) -> Vec<u8> {
    let mut packed = zstd::stream::Encoder::with_dictionary(Vec::new(), 3, dictionary).unwrap();
    packed.include_checksum(true).unwrap();
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

fn skippable(magic: u32, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap();
    [&magic.to_le_bytes()[..], &length.to_le_bytes(), bytes].concat()
}

/// The parts of the file: one per record if the form separates records.
fn parts(records: &[Vec<u8>], form: Form) -> Vec<Vec<u8>> {
    let dictionary = b"WARC/1.1\r\nWARC-Type: resource\r\nWARC-Target-URI: http://a.test/";
    let with = |frame: Vec<u8>| {
        let frames = records.iter().map(|record| zstd_frame(record, dictionary));
        std::iter::once(frame).chain(frames).collect()
    };
    match form {
        Form::Plain => records.to_vec(),
        Form::Members => records.iter().map(|record| gzip(record)).collect(),
        Form::OneMember => vec![gzip(&records.concat())],
        Form::Pieces => records.concat().chunks(777).map(gzip).collect(),
        Form::Frames => records.iter().map(|r| zstd_frame(r, &[])).collect(),
        Form::OneFrame => vec![zstd_frame(&records.concat(), &[])],
        Form::Dictionary => with(skippable(0x184D_2A5D, dictionary)),
        Form::PackedDictionary => {
            let frame = skippable(0x184D_2A5D, &zstd_frame(dictionary, &[]));
            with([frame, skippable(0x184D_2A51, b"to skip")].concat())
        }
    }
}

/// What a file contained.
#[derive(Debug, Default, PartialEq)]
struct Contents {
    /// The addresses and blocks of whole records.
    whole: Vec<(String, Vec<u8>)>,
    gaps: Vec<Gap>,
}

impl Contents {
    fn whys(&self) -> Vec<Why> {
        self.gaps.iter().map(|gap| gap.why).collect()
    }
}

/// Returns a few bytes at a time.
struct Drops<'a>(&'a [u8], usize);

impl Read for Drops<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.1.min(buffer.len());
        self.0.read(&mut buffer[..n])
    }
}

fn read_by(bytes: &[u8], drop: usize) -> Contents {
    let mut contents = Contents::default();
    let mut reader = Reader::new(Drops(bytes, drop), Path::new("a.warc"));
    let mut end = 0;
    while let Some(item) = reader.next_item().unwrap() {
        let place = match item {
            Item::Gap(gap) => {
                contents.gaps.push(gap);
                gap.place
            }
            Item::Record(mut entry) => {
                let (offset, inside) = (entry.record.offset, entry.record.inside);
                let mut block = Vec::new();
                if entry.read_to_end(&mut block).is_err() {
                    assert_eq!(entry.finish().unwrap(), None);
                    continue;
                }
                let place = entry.finish().unwrap().unwrap();
                assert_eq!(place.offset, offset);
                assert_eq!(place.inside.unwrap_or_default(), inside.unwrap_or_default());
                let uri = entry.record.uri.clone().unwrap_or_default();
                contents.whole.push((uri, block));
                place
            }
        };
        // In order and without overlaps.
        if place.inside.is_none() {
            assert!(
                place.offset >= end,
                "{place:?} begins before {end}: {:?}",
                contents.gaps
            );
            end = place.offset + place.length;
            assert!(end <= bytes.len() as u64, "{place:?} of {}", bytes.len());
        }
    }
    contents
}

fn read(bytes: &[u8]) -> Contents {
    read_by(bytes, usize::MAX)
}

fn records(blocks: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut numbered = blocks.iter().enumerate();
    let records = numbered.by_ref().map(|(n, block)| warc(n, block));
    records.collect()
}

fn expected(blocks: &[Vec<u8>]) -> Vec<(String, Vec<u8>)> {
    let numbered = blocks.iter().enumerate();
    let pairs = numbered.map(|(n, block)| (format!("http://a.test/{n}"), block.clone()));
    pairs.collect()
}

/// Texts that compress as pages do.
fn pages(count: usize) -> Vec<Vec<u8>> {
    let page = |n: usize| {
        let lines = (0..40 + n % 7).map(|m| format!("<p>Page {n} has line {m}.</p>\n"));
        lines.collect::<String>().into_bytes()
    };
    (0..count).map(page).collect()
}

#[test]
fn every_form_is_read_alike() {
    let blocks = pages(12);
    for form in FORMS {
        let file = parts(&records(&blocks), form).concat();
        for drop in [usize::MAX, 1_000, 1] {
            let contents = read_by(&file, drop);
            assert_eq!(contents.gaps, [], "{form:?} by {drop}");
            assert_eq!(contents.whole, expected(&blocks), "{form:?} by {drop}");
        }
    }
}

#[test]
fn places_lead_back_to_the_records() {
    let blocks = pages(5);
    for form in [Form::Plain, Form::Members, Form::Frames] {
        let file = parts(&records(&blocks), form).concat();
        let mut reader = Reader::new(file.as_slice(), Path::new("a.warc"));
        let mut places = Vec::new();
        while let Some(Item::Record(mut entry)) = reader.next_item().unwrap() {
            places.push(entry.finish().unwrap().unwrap());
        }
        for (n, place) in places.iter().enumerate() {
            assert_eq!(place.inside, None, "{form:?}");
            let begin = usize::try_from(place.offset).unwrap();
            let length = usize::try_from(place.length).unwrap();
            let alone = read(&file[begin..begin + length]);
            assert_eq!(alone.gaps, []);
            assert_eq!(alone.whole, expected(&blocks)[n..=n], "{form:?}");
        }
    }
    // Within one member, the places count decompressed bytes.
    let all = records(&blocks);
    let file = parts(&all, Form::OneMember).concat();
    let mut reader = Reader::new(file.as_slice(), Path::new("a.warc"));
    let mut begin = 0;
    for record in &all {
        let Some(Item::Record(mut entry)) = reader.next_item().unwrap() else {
            panic!("too few records");
        };
        let place = entry.finish().unwrap().unwrap();
        assert_eq!((place.offset, place.inside), (0, Some(begin)));
        assert_eq!(place.length, record.len() as u64);
        begin += place.length;
    }
}

#[test]
fn unread_blocks_are_skipped_and_empty_ones_are_whole() {
    let blocks = vec![b"a".to_vec(), Vec::new(), b"c".repeat(300_000)];
    for form in FORMS {
        let file = parts(&records(&blocks), form).concat();
        let mut reader = Reader::new(file.as_slice(), Path::new("a.warc"));
        let mut seen = 0;
        while let Some(item) = reader.next_item().unwrap() {
            let Item::Record(entry) = item else {
                panic!("{form:?}")
            };
            assert_eq!(entry.record.length, blocks[seen].len() as u64);
            seen += 1;
        }
        assert_eq!(
            (seen, reader.position()),
            (3, file.len() as u64),
            "{form:?}"
        );
    }
    for nothing in [&b""[..], &gzip(b""), b"\r\n\r\n"] {
        assert_eq!(read(nothing).whole, []);
    }
}

#[test]
fn damage_costs_the_damaged_record_only() {
    let blocks = pages(20);
    for form in [Form::Members, Form::Frames, Form::Dictionary] {
        let parts = parts(&records(&blocks), form);
        let first = parts.len() - blocks.len();
        let begin = |n: usize| parts[..n].iter().map(Vec::len).sum::<usize>();
        let file = parts.concat();
        let without = |n: usize| {
            let mut rest = expected(&blocks);
            rest.remove(n - first);
            rest
        };

        // Flipped.
        let n = first + 9;
        let mut flipped = file.clone();
        for byte in &mut flipped[begin(n) + 60..begin(n) + 64] {
            *byte ^= 0xFF;
        }
        let contents = read(&flipped);
        assert_eq!(contents.whole, without(n), "{form:?}");
        let [gap] = contents.gaps[..] else {
            panic!("{form:?}: {:?}", contents.gaps)
        };
        let length = parts[n].len() as u64;
        assert_eq!(
            (gap.place.offset, gap.place.length),
            (begin(n) as u64, length)
        );
        assert!(matches!(gap.why, Why::Compression | Why::Checksum));

        // The magic is gone.
        let mut headless = file.clone();
        headless[begin(n)] = b'x';
        let contents = read(&headless);
        assert_eq!(contents.whole, without(n), "{form:?}");
        assert_eq!(contents.whys(), [Why::NoRecord]);
        assert_eq!(contents.gaps[0].place.length, length);

        // Cut off.
        let contents = read(&file[..file.len() - 30]);
        assert_eq!(contents.whole, expected(&blocks)[..19], "{form:?}");
        assert_eq!(contents.whys(), [Why::Truncated]);
        assert_eq!(contents.gaps[0].place.offset, begin(first + 19) as u64);

        // Something between.
        for (between, why) in [(vec![0; 4096], Why::Zeros), (vec![b'x'; 50], Why::NoRecord)] {
            let (one, two) = file.split_at(begin(n));
            let contents = read(&[one, &between, two].concat());
            assert_eq!(contents.whole, expected(&blocks), "{form:?}");
            assert_eq!(contents.whys(), [why]);
            assert_eq!(contents.gaps[0].place.length, between.len() as u64);
        }

        // A piece is missing.
        let (one, two) = file.split_at(begin(n) + 70);
        let contents = read(&[one, &two[20..]].concat());
        assert_eq!(contents.whole, without(n), "{form:?}");
        assert_eq!(contents.gaps.len(), 1);
    }
}

/// Record `n` with another length in its head.
fn misled(blocks: &[Vec<u8>], n: usize, by: i64) -> Vec<Vec<u8>> {
    let mut all = records(blocks);
    let length = blocks[n].len();
    let wrong = length as i64 + by;
    let text = String::from_utf8(all[n].clone()).unwrap();
    let (old, new) = (format!("Length: {length}\r"), format!("Length: {wrong}\r"));
    all[n] = text.replacen(&old, &new, 1).into_bytes();
    all
}

#[test]
fn wrong_lengths_cost_their_record_only() {
    let blocks = pages(20);
    let mut rest = expected(&blocks);
    rest.remove(9);
    for form in FORMS {
        // Too long: into the separator, into the next record, beyond the end.
        for by in [-400, -1, 1, 3, 100, 5_000, 10_000_000] {
            let file = parts(&misled(&blocks, 9, by), form).concat();
            let contents = read(&file);
            assert_eq!(contents.whole, rest, "{form:?} {by}");
            assert_eq!(contents.whys(), [Why::Length], "{form:?} {by}");
        }
        let file = parts(&misled(&blocks, 19, 1_000), form).concat();
        let contents = read(&file);
        assert_eq!(contents.whole, expected(&blocks)[..19], "{form:?}");
        assert_eq!(contents.gaps.len(), 1, "{form:?} {contents:?}");
    }
}

#[test]
fn other_separators_are_reported_and_nothing_is_lost() {
    let blocks = pages(3);
    for (separator, gaps) in [
        ("\r\n\r\n", 0),
        ("\n\n", 0),
        ("\r\n", 1),
        ("", 1),
        ("\n", 1),
    ] {
        let mut all = records(&blocks);
        for record in &mut all {
            record.truncate(record.len() - 4);
            record.extend_from_slice(separator.as_bytes());
        }
        for form in [Form::Plain, Form::Members, Form::OneMember] {
            let contents = read(&parts(&all, form).concat());
            assert_eq!(contents.whole, expected(&blocks), "{form:?} {separator:?}");
            assert_eq!(
                contents.whys(),
                vec![Why::Separator; gaps],
                "{form:?} {separator:?}"
            );
        }
    }
}

#[test]
fn one_member_is_read_up_to_its_damage() {
    let blocks = pages(200);
    let file = parts(&records(&blocks), Form::OneMember).concat();
    let at = file.len() / 2;
    let mut flipped = file.clone();
    flipped[at..at + 64]
        .iter_mut()
        .for_each(|byte| *byte ^= 0xFF);
    let contents = read(&flipped);
    assert!(contents.whole.len() > 20, "{}", contents.whole.len());
    assert_eq!(contents.whole, expected(&blocks)[..contents.whole.len()]);
    let [gap] = contents.gaps[..] else {
        panic!("{:?}", contents.gaps)
    };
    assert_eq!(gap.place.offset + gap.place.length, file.len() as u64);
    // The next member is found again.
    let again = parts(&records(&blocks), Form::Members).concat();
    let more = read(&[flipped, again].concat());
    assert_eq!(more.whole.len(), contents.whole.len() + 200);
    assert_eq!(more.gaps.len(), 1);
}

#[test]
fn garbage_before_the_first_record() {
    let blocks = pages(3);
    for form in [Form::Plain, Form::Members, Form::Frames] {
        let file = parts(&records(&blocks), form).concat();
        for garbage in [
            &b"garbage"[..],
            &[0; 5_000],
            b"<p>\nnote: no record\n",
            b"\x1f\x8b",
        ] {
            let contents = read(&[garbage, &file].concat());
            assert_eq!(contents.whole, expected(&blocks), "{form:?}");
            assert_eq!(contents.gaps.len(), 1, "{form:?} {garbage:?}");
            let length = contents.gaps[0].place.length;
            assert_eq!(length, garbage.len() as u64, "{form:?} {garbage:?}");
        }
    }
    assert_eq!(read(&[7; 100_000]).whys(), [Why::NoRecord]);
}

#[test]
fn arcs_of_both_versions() {
    let blocks = pages(6);
    for version in [b'1', b'2'] {
        let mut all = vec![filedesc(version - b'0')];
        all.extend(blocks.iter().enumerate().map(|(n, block)| arc(n, block)));
        for form in [Form::Plain, Form::Members, Form::OneMember] {
            let file = parts(&all, form).concat();
            let mut reader = Reader::new(file.as_slice(), Path::new("a.arc"));
            let Some(Item::Record(entry)) = reader.next_item().unwrap() else {
                panic!("no record");
            };
            assert_eq!(entry.record.kind, Kind::Filedesc);
            let named = [Version::Arc1, Version::Arc2][usize::from(version - b'1')];
            assert_eq!(entry.record.version, named);
            let contents = read(&file);
            assert_eq!(contents.gaps, []);
            assert_eq!(contents.whole[1..], expected(&blocks), "{form:?}");
        }
    }
    // Too long and too short.
    for wrong in [7_i64, -7] {
        let mut all = vec![filedesc(1)];
        all.extend(blocks.iter().enumerate().map(|(n, block)| arc(n, block)));
        let length = blocks[2].len();
        let text = String::from_utf8(all[3].clone()).unwrap();
        let new = format!("html {}\n", length as i64 + wrong);
        all[3] = text
            .replacen(&format!("html {length}\n"), &new, 1)
            .into_bytes();
        for form in [Form::Plain, Form::Members, Form::OneMember] {
            let contents = read(&parts(&all, form).concat());
            let mut rest = expected(&blocks);
            rest.remove(2);
            assert_eq!(contents.whole[1..], rest, "{form:?} {wrong}");
            assert_eq!(contents.whys(), [Why::Length], "{form:?} {wrong}");
        }
    }
}

#[test]
fn a_damaged_dictionary_is_reported() {
    let blocks = pages(3);
    let all = parts(&records(&blocks), Form::PackedDictionary);
    let mut bad = all.clone();
    bad[0][14] ^= 0xFF;
    let contents = read(&bad.concat());
    assert_eq!(contents.whole, []);
    assert!(!contents.gaps.is_empty());
    let huge = skippable(0x184D_2A5D, &[]);
    let huge = [&huge[..4], &u32::MAX.to_le_bytes(), b"abc"].concat();
    assert_eq!(read(&huge).whys(), [Why::Dictionary]);
}
