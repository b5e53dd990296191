//! The digests that records carry (`WARC-Block-Digest`, `WARC-Payload-Digest`: ISO 28500
//! sections 5.8 and 5.9), computed as warcio does.
//!
//! The block is everything after the head of the record. The payload of an HTTP message is
//! everything after its head, with the transfer coding that it has in the archive; the payload
//! of any other record is the block.

use std::io::BufRead;

use data_encoding::{BASE32_NOPAD, BASE32_NOPAD_NOCASE, BASE64, BASE64URL, HEXLOWER_PERMISSIVE};
use md5::Md5;
use memchr::memchr_iter;
use serde::Serialize;
use sha1::Sha1;
use sha2::digest::DynDigest;
use sha2::{Digest, Sha256, Sha512};

use super::record::{Kind, Record};

/// The longest head of an HTTP message that is searched for its end.
const MAX_HTTP_HEAD: usize = 1 << 20;

/// Which bytes a digest is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The block.
    Block,
    /// The payload.
    Payload,
}

/// The result of comparing a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DigestMatch {
    /// It matches the bytes.
    Right,
    /// It does not match.
    Wrong,
    /// The algorithm is unknown, or the value malformed.
    Unknown,
}

/// A digest that a record declares, compared with its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// The bytes it covers.
    pub part: Part,
    /// The digest as declared.
    pub declared: String,
    /// The result.
    pub verdict: DigestMatch,
}

/// The algorithm named before the colon, such as `sha1` or `SHA-256`.
fn algorithm(name: &str) -> Option<Box<dyn DynDigest>> {
    let plain: String = name.chars().filter(|c| *c != '-').collect();
    match plain.to_ascii_lowercase().as_str() {
        "sha1" => Some(Box::new(Sha1::default())),
        "sha256" => Some(Box::new(Sha256::default())),
        "sha512" => Some(Box::new(Sha512::default())),
        "md5" => Some(Box::new(Md5::default())),
        _ => None,
    }
}

/// A digest that is being computed, with the one to compare it with.
struct PendingDigest {
    part: Part,
    declared: String,
    /// `None` if nothing can be compared.
    running: Option<(Box<dyn DynDigest>, Vec<u8>)>,
}

impl PendingDigest {
    fn of(part: Part, declared: &str) -> Self {
        let running = declared.split_once(':').and_then(|(name, value)| {
            let running = algorithm(name.trim())?;
            let value = decode(value.trim(), running.output_size())?;
            Some((running, value))
        });
        Self {
            part,
            declared: declared.to_owned(),
            running,
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        if let Some((running, _)) = &mut self.running {
            running.update(bytes);
        }
    }

    fn finish(self) -> Compared {
        let is_right = self
            .running
            .map(|(running, value)| *running.finalize() == *value);
        let verdict = match is_right {
            None => DigestMatch::Unknown,
            Some(true) => DigestMatch::Right,
            Some(false) => DigestMatch::Wrong,
        };
        Compared {
            part: self.part,
            declared: self.declared,
            verdict,
        }
    }
}

/// Compares the digests of a record with its block, which arrives piece by piece.
pub struct Digests {
    block: Option<PendingDigest>,
    payload: Option<PendingDigest>,
    /// The head of an HTTP message, until its end is found.
    head: Option<Vec<u8>>,
}

impl Digests {
    /// For the digests that a record declares. The payload of a revisit is in another record, and
    /// that of a segment in several, so these are not compared.
    pub fn of(record: &Record) -> Self {
        let declared = |part, name| Some(PendingDigest::of(part, record.header(name)?));
        let is_here =
            record.kind != Kind::Revisit && record.header("warc-segment-number").is_none();
        let payload = declared(Part::Payload, "warc-payload-digest").filter(|_| is_here);
        let waits = payload.is_some() && record.is_http();
        Self {
            block: declared(Part::Block, "warc-block-digest"),
            payload,
            head: waits.then(Vec::new),
        }
    }

    /// Whether there is nothing to compare, so that the block need not be read.
    pub fn is_empty(&self) -> bool {
        self.block.is_none() && self.payload.is_none()
    }

    /// Adds the next bytes of the block.
    pub fn update(&mut self, bytes: &[u8]) {
        if let Some(block) = &mut self.block {
            block.update(bytes);
        }
        let Some(payload) = &mut self.payload else {
            return;
        };
        let Some(head) = &mut self.head else {
            return payload.update(bytes);
        };
        // Usually the whole head comes with the first piece, and nothing is copied.
        let joined;
        let all = if head.is_empty() {
            bytes
        } else {
            head.extend_from_slice(bytes);
            joined = std::mem::take(head);
            joined.as_slice()
        };
        if let Some(end) = http_head_end(all) {
            payload.update(all.get(end..).unwrap_or_default());
            self.head = None;
        } else if all.len() <= MAX_HTTP_HEAD {
            *head = all.to_vec();
        } else {
            // There is no head, so there is no payload.
            payload.running = None;
            self.head = None;
        }
    }

    /// The results, after the last byte of the block.
    pub fn finish(self) -> Vec<Compared> {
        let all = [self.block, self.payload].into_iter().flatten();
        all.map(PendingDigest::finish).collect()
    }
}

/// The end of the head of an HTTP message: after its empty line, which may end with a bare
/// line feed.
pub(super) fn http_head_end(bytes: &[u8]) -> Option<usize> {
    memchr_iter(b'\n', bytes).find_map(|end| match bytes.get(end + 1..)? {
        [b'\n', ..] => Some(end + 2),
        [b'\r', b'\n', ..] => Some(end + 3),
        _ => None,
    })
}

/// The bytes of a digest of `length` bytes, in base 32 as usual, in base 16, or in base 64
/// with either alphabet (RFC 4648).
fn decode(text: &str, length: usize) -> Option<Vec<u8>> {
    let bare = text.trim_end_matches('=');
    let bytes = if bare.len() == 2 * length {
        HEXLOWER_PERMISSIVE.decode(bare.as_bytes())
    } else if bare.len() == (8 * length).div_ceil(5) {
        BASE32_NOPAD_NOCASE.decode(bare.as_bytes())
    } else if text.contains(['-', '_']) {
        BASE64URL.decode(text.as_bytes())
    } else {
        BASE64.decode(text.as_bytes())
    };
    bytes.ok().filter(|bytes| bytes.len() == length)
}

/// The digest of the rest of a block, as in indexes: SHA-1 in base 32. `None` if the block is
/// damaged, which its reader reports.
pub(super) fn of_payload(rest: &mut impl BufRead) -> Option<String> {
    let mut running = Sha1::new();
    loop {
        let there = rest.fill_buf().ok()?;
        if there.is_empty() {
            return Some(format!("sha1:{}", base32(&Digest::finalize(running))));
        }
        Digest::update(&mut running, there);
        let read = there.len();
        rest.consume(read);
    }
}

/// Bytes in base 32 (RFC 4648 section 6), without padding.
pub(super) fn base32(bytes: &[u8]) -> String {
    BASE32_NOPAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::record::Version;
    use super::*;

    fn record(kind: &str, digests: &[(&str, &str)]) -> Record {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Record {
            version: Version::Warc10,
            kind: Kind::of(kind),
            uri: Some("http://a.test/".to_owned()),
            date: None,
            headers: digests.iter().map(owned).collect(),
            length: 0,
            file: Path::new("a.warc").into(),
            offset: 0,
            inside: None,
        }
    }

    fn verdicts(record: &Record, block: &[u8]) -> Vec<(Part, DigestMatch)> {
        let mut found = Vec::new();
        for size in [1, 2, 7, 1 << 20] {
            let mut digests = Digests::of(record);
            block.chunks(size).for_each(|piece| digests.update(piece));
            let all = digests.finish().into_iter();
            found.push(all.map(|c| (c.part, c.verdict)).collect());
        }
        assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "{found:?}");
        found.pop().unwrap()
    }

    #[test]
    fn every_writing_of_a_digest() {
        // Of the word "word1".
        for right in [
            "sha1:VJWPRMZA5SPHZAJ74NIHVJZTI376IJH6",
            "SHA-1:vjwprmza5sphzaj74nihvjzti376ijh6",
            "sha1:AA6CF8B320EC9E7C813FE3507AA73346FFE424FE",
            "sha1:qmz4syDsnnyBP+NQeqczRv/kJP4=",
            "sha1:qmz4syDsnnyBP-NQeqczRv_kJP4=",
            "md5:7220293ac62f90c5c2fa5af3ad6794cd",
            "sha256:8b10450019daaf7c2812e14cf6edeb2263e2b45f3a2ef4342a8a3cde8ff7df5f",
        ] {
            let record = record("resource", &[("WARC-Block-Digest", right)]);
            assert_eq!(
                verdicts(&record, b"word1"),
                [(Part::Block, DigestMatch::Right)],
                "{right}"
            );
            assert_eq!(
                verdicts(&record, b"test"),
                [(Part::Block, DigestMatch::Wrong)],
                "{right}"
            );
        }
        for unknown in [
            "blake3:ABC",
            "sha1",
            "sha1:",
            "sha1:abc",
            "md5:zz",
            "sha1:\u{fc}",
        ] {
            let record = record("resource", &[("WARC-Block-Digest", unknown)]);
            assert_eq!(
                verdicts(&record, b"word1"),
                [(Part::Block, DigestMatch::Unknown)]
            );
        }
    }

    #[test]
    fn the_payload_begins_behind_the_head() {
        let declared = [
            (
                "WARC-Payload-Digest",
                "sha1:VJWPRMZA5SPHZAJ74NIHVJZTI376IJH6",
            ),
            ("warc-block-digest", "sha1:VJWPRMZA5SPHZAJ74NIHVJZTI376IJH6"),
        ];
        let payload = |verdict| [(Part::Block, DigestMatch::Wrong), (Part::Payload, verdict)];
        let response = record("response", &declared);
        for head in ["HTTP/1.1 200 OK\r\nA: b\r\n\r\n", "HTTP/1.0 200\nA: b\n\n"] {
            let block = [head, "word1"].concat();
            assert_eq!(
                verdicts(&response, block.as_bytes()),
                payload(DigestMatch::Right)
            );
        }
        assert_eq!(verdicts(&response, b"no head"), payload(DigestMatch::Wrong));
        let resource = record("resource", &declared);
        let both = [
            (Part::Block, DigestMatch::Right),
            (Part::Payload, DigestMatch::Right),
        ];
        assert_eq!(verdicts(&resource, b"word1"), both);
        let revisit = record("revisit", &declared);
        assert_eq!(
            verdicts(&revisit, b"word1"),
            [(Part::Block, DigestMatch::Right)]
        );
        assert!(Digests::of(&record("response", &[])).is_empty());
    }
}
