//! Properties: any damage at any place of any file.

use std::path::Path;

use proptest::prelude::*;

use super::super::check::check;

use super::{FORMS, Form, expected, parts, read, read_by, records};

/// A kind of damage to a file.
#[derive(Debug, Clone)]
enum Harm {
    Flip(usize, u8),
    Zero(usize, usize),
    Cut(usize, usize),
    Insert(usize, Vec<u8>),
    End(usize),
}

fn harm() -> impl Strategy<Value = Harm> {
    let place = 0..1_000_000_usize;
    prop_oneof![
        (place.clone(), 1..=255_u8).prop_map(|(at, by)| Harm::Flip(at, by)),
        (place.clone(), 1..5_000_usize).prop_map(|(at, n)| Harm::Zero(at, n)),
        (place.clone(), 1..5_000_usize).prop_map(|(at, n)| Harm::Cut(at, n)),
        (place.clone(), prop::collection::vec(any::<u8>(), 1..500))
            .prop_map(|(at, bytes)| Harm::Insert(at, bytes)),
        place.prop_map(Harm::End),
    ]
}

impl Harm {
    /// Applies the damage, and returns the touched bytes of the original.
    fn to(&self, file: &mut Vec<u8>) -> std::ops::Range<usize> {
        let length = file.len();
        match self {
            Self::Flip(at, by) => {
                let at = at % length;
                file[at] ^= by;
                at..at + 1
            }
            Self::Zero(at, n) => {
                let at = at % length;
                let end = (at + n).min(length);
                file[at..end].fill(0);
                at..end
            }
            Self::Cut(at, n) => {
                let at = at % length;
                let end = (at + n).min(length);
                file.drain(at..end);
                at..end
            }
            Self::Insert(at, bytes) => {
                let at = at % length;
                file.splice(at..at, bytes.iter().copied());
                at..at + 1
            }
            Self::End(at) => {
                let at = at % length;
                file.truncate(at);
                at..length
            }
        }
    }
}

fn blocks() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let text = "[a-z<>/ \r\n]{0,900}".prop_map(String::into_bytes);
    let any = prop::collection::vec(any::<u8>(), 0..3_000);
    prop::collection::vec(prop_oneof![text, any], 1..12)
}

fn form() -> impl Strategy<Value = Form> {
    prop::sample::select(FORMS.to_vec())
}

/// Small records that all claim to be large are not read again for each of them.
#[test]
fn searches_go_back_only_so_far() {
    let head = "WARC/1.0\r\nWARC-Type: resource\r\nWARC-Block-Digest: sha1:\
        0000000000000000000000000000000000000000\r\nContent-Length: 1000000\r\n\r\n";
    let file = head.repeat(20_000);
    for file in [file.clone().into_bytes(), super::gzip(file.as_bytes())] {
        let begun = spoor_testing::worked();
        let checked = check(&file[..], Path::new("a.warc"), |_| {});
        let took = spoor_testing::worked() - begun;
        assert!(took.as_secs() < 10, "{took:?}");
        assert!(!checked.is_sound() && checked.records == 0);
    }
}

proptest! {
    #![proptest_config(spoor_testing::usual!())]

    #[test]
    fn what_is_written_is_read(blocks in blocks(), form in form(), drop in 1..5_000_usize) {
        let file = parts(&records(&blocks), form).concat();
        let contents = read_by(&file, drop);
        prop_assert_eq!(contents.gaps, []);
        prop_assert_eq!(contents.whole, expected(&blocks));
    }

    #[test]
    fn damage_is_reported_and_costs_what_it_touches(
        blocks in blocks(), form in form(), harm in harm()
    ) {
        let parts = parts(&records(&blocks), form);
        let mut file = parts.concat();
        let touched = harm.to(&mut file);
        let contents = read(&file);
        let expected = expected(&blocks);
        for record in &contents.whole {
            // An uncompressed file has no checksum: only a digest shows a change within a block,
            // and nothing shows a change in a head.
            let is_original = match form {
                Form::Plain => expected.iter().any(|(_, block)| *block == record.1),
                _ => expected.contains(record),
            };
            prop_assert!(
                is_original || !check(&file[..], Path::new("a.warc"), |_| {}).is_sound(),
                "{:?} {:?} {:?} of {}: {:?}", form, harm, touched, file.len(), record.0
            );
        }
        let first = parts.len() - blocks.len().min(parts.len());
        let apart = parts.len() == blocks.len() + first && form != Form::Pieces;
        if apart && form != Form::Plain && touched.start >= parts[..first].concat().len() {
            let mut begin = 0;
            for (n, part) in parts.iter().enumerate() {
                let end = begin + part.len();
                let is_hit = touched.start < end && begin < touched.end;
                // An insertion before a part leaves it whole.
                if n >= first && !is_hit {
                    prop_assert!(
                        contents.whole.contains(&expected[n - first]),
                        "{} of {:?} {:?} touched {:?}: {:?}",
                        n, parts.iter().map(Vec::len).collect::<Vec<_>>(), form, touched,
                        contents.gaps
                    );
                }
                begin = end;
            }
        }
    }

    #[test]
    fn no_bytes_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..2_000), begin in 0..6_usize
    ) {
        let begins: [&[u8]; 6] = [
            b"",
            b"\x1f\x8b\x08\0\0\0\0\0\0\0",
            b"\x28\xb5\x2f\xfd",
            b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 20\r\n\r\n",
            b"filedesc://a 0.0.0.0 20120214055058 text/plain 20\n",
            b"\x5d\x2a\x4d\x18\x10\0\0\0",
        ];
        read(&[begins[begin], &bytes].concat());
    }
}
