//! Writes records of WARC 1.1 (ISO 28500:2017), each compressed separately, so that a file that
//! ends between two records is valid.
//!
//! An exchange with a server becomes a `response` and a `request`. If the archive already has
//! the same body, a `revisit` replaces the response. The crawl's data about the page become a
//! `metadata` record, as in Heritrix.
//!
//! The HTTP client only returns a parsed head. So the names in it are in lower case, the reason
//! is the usual one for the status, and an HTTP/2 response is written as HTTP/1.1;
//! `WARC-Protocol` has the real protocol. Bodies have the bytes that were received, except that
//! a chunked body is joined and its `transfer-encoding` is renamed to
//! `x-orig-transfer-encoding`.

use std::fmt::Write as _;
use std::net::IpAddr;

use sha1::{Digest, Sha1};
use xxhash_rust::xxh3::xxh3_128;

pub use super::compression::{Compression, Dictionary};
use super::digest::base32;
use super::http::Response;
use crate::clock::timestamp;
use crate::page::{TermsHeaders, Wire};

/// The profile of a revisit whose body is stored with another record (section 6.7.2).
const SAME_PAYLOAD: &str = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest";
/// The profile of a revisit that the server answered with 304 (section 6.7.3).
const NOT_MODIFIED: &str = "http://netpreserve.org/warc/1.1/revisit/server-not-modified";

/// An exchange as records, compressed by the thread that fetched it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    uri: String,
    date: String,
    ip: Option<IpAddr>,
    protocol: &'static str,
    status: u16,
    /// The head of the response, for a revisit.
    head: Vec<u8>,
    /// SHA-1 of the body.
    payload: [u8; 20],
    /// Length of the body in bytes.
    length: usize,
    response: Vec<u8>,
    request: Vec<u8>,
    by: Compression,
}

/// The record that first stored a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Original {
    /// Its address.
    pub uri: String,
    /// The `WARC-Date` of its record.
    pub date: String,
}

impl Original {
    /// As one text, to be stored with the digest of the body.
    pub fn to_text(&self) -> String {
        format!("{} {}", self.date, self.uri)
    }

    /// Reads such a text; `None` if it is malformed.
    pub fn of_text(text: &str) -> Option<Self> {
        let (date, uri) = text.split_once(' ')?;
        Some(Self {
            uri: uri.to_owned(),
            date: date.to_owned(),
        })
    }
}

impl Packed {
    /// Packs the exchange with the server of `uri`.
    pub fn of(uri: &str, wire: &Wire, by: &Compression) -> Self {
        let mut packed = Self {
            uri: uri.to_owned(),
            date: seconds(wire.asked),
            ip: wire.ip,
            protocol: wire.protocol,
            status: wire.status,
            head: wire.response.clone(),
            payload: Sha1::digest(&wire.body).into(),
            length: wire.body.len(),
            response: Vec::new(),
            request: Vec::new(),
            by: by.clone(),
        };
        let mut response = packed.begin("response", "application/http; msgtype=response");
        field(&mut response, "WARC-Payload-Digest", &packed.digest());
        if wire.truncated {
            field(&mut response, "WARC-Truncated", "length");
        }
        let block: [&[u8]; 2] = [&wire.response, &wire.body];
        packed.response = packed.record(response, &block, wire.is_compressed);
        let mut request = packed.begin("request", "application/http; msgtype=request");
        packed.concurrent(&mut request);
        packed.request = packed.record(request, &[&wire.request], false);
        packed
    }

    /// The headers of the answer that state terms of use.
    pub fn terms(&self) -> TermsHeaders {
        // The head is one that was received.
        Response::head(self.head.as_slice()).map_or_else(|_| TermsHeaders::default(), |r| r.terms())
    }

    /// The digest of the body, as `sha1:` and base 32.
    pub fn digest(&self) -> String {
        sha1(&self.payload)
    }

    /// The digest to find an equal body; `None` for a body so short that a revisit would not be
    /// shorter.
    pub fn key(&self) -> Option<[u8; 20]> {
        (self.length >= MIN_REVISITED && self.status == 200).then_some(self.payload)
    }

    /// What later records with the same body refer to.
    pub fn original(&self) -> Original {
        Original {
            uri: self.uri.clone(),
            date: self.date.clone(),
        }
    }

    /// The members of the exchange: its response, or a revisit if `earlier` has the same
    /// body or the server says that nothing has changed; its request; and `metadata`, names
    /// and values, if there are any.
    pub fn members(mut self, earlier: Option<&Original>, metadata: &[(&str, String)]) -> Vec<u8> {
        let mut members = match (earlier, self.status) {
            (Some(_), _) | (None, 304) => self.revisit(earlier),
            (None, _) => std::mem::take(&mut self.response),
        };
        members.extend_from_slice(&self.request);
        if !metadata.is_empty() {
            members.extend(self.metadata(metadata));
        }
        members
    }

    /// The record that replaces the response, because `earlier` has the same body or the server
    /// says that nothing has changed.
    fn revisit(&self, earlier: Option<&Original>) -> Vec<u8> {
        let mut head = self.begin("revisit", "application/http; msgtype=response");
        match earlier {
            Some(earlier) => {
                field(&mut head, "WARC-Profile", SAME_PAYLOAD);
                field(&mut head, "WARC-Refers-To-Target-URI", &earlier.uri);
                field(&mut head, "WARC-Refers-To-Date", &earlier.date);
                field(&mut head, "WARC-Payload-Digest", &self.digest());
            }
            None => {
                field(&mut head, "WARC-Profile", NOT_MODIFIED);
                field(&mut head, "WARC-Refers-To-Target-URI", &self.uri);
            }
        }
        self.record(head, &[&self.head], false)
    }

    fn metadata(&self, fields: &[(&str, String)]) -> Vec<u8> {
        let block = lines(fields);
        let mut head = self.begin("metadata", "application/warc-fields");
        self.concurrent(&mut head);
        self.record(head, &[block.as_bytes()], false)
    }

    /// The head of a record of this kind up to its specific fields.
    fn begin(&self, kind: &str, content_type: &str) -> String {
        let mut head = begin(kind, &self.date, &self.id(kind), content_type);
        field(&mut head, "WARC-Target-URI", &self.uri);
        if kind != "metadata" {
            if let Some(ip) = self.ip {
                field(&mut head, "WARC-IP-Address", &ip.to_string());
            }
            field(&mut head, "WARC-Protocol", self.protocol);
        }
        head
    }

    fn record(&self, head: String, block: &[&[u8]], is_compressed: bool) -> Vec<u8> {
        packed(head, block, &self.by, is_compressed)
    }

    /// Refers to the response, or to the revisit that replaces it and has the same id.
    fn concurrent(&self, head: &mut String) {
        field(head, "WARC-Concurrent-To", &self.id("response"));
    }

    /// The id of its record of this kind. A revisit that replaces a response has the id of the
    /// response.
    fn id(&self, kind: &str) -> String {
        let kind = match kind {
            "revisit" => "response",
            kind => kind,
        };
        id(&[kind, &self.uri, &self.date, &self.digest()])
    }
}

/// The shortest body that a revisit replaces, in bytes.
const MIN_REVISITED: usize = 512;

/// The first record of a file, which describes its origin. `file` is the file's name, `date`
/// in milliseconds since 1970.
pub fn beginning(file: &str, date: u64, fields: &[(&str, String)], by: &Compression) -> Vec<u8> {
    let block = lines(fields);
    let date = seconds(date);
    let id = id(&["warcinfo", file, &date, &block]);
    let mut head = begin("warcinfo", &date, &id, "application/warc-fields");
    field(&mut head, "WARC-Filename", file);
    let mut beginning = by.beginning();
    beginning.extend(packed(head, &[block.as_bytes()], by, false));
    beginning
}

pub(super) fn begin(kind: &str, date: &str, id: &str, content_type: &str) -> String {
    let mut head = "WARC/1.1\r\n".to_owned();
    field(&mut head, "WARC-Type", kind);
    field(&mut head, "WARC-Record-ID", id);
    field(&mut head, "WARC-Date", date);
    field(&mut head, "Content-Type", content_type);
    head
}

/// A block of `application/warc-fields`.
fn lines(fields: &[(&str, String)]) -> String {
    let mut block = String::new();
    for (name, value) in fields {
        field(&mut block, name, value);
    }
    block
}

/// Adds a line to a head. A value must not contain line ends, or it could add lines.
pub(super) fn field(head: &mut String, name: &str, value: &str) {
    head.push_str(name);
    head.push_str(": ");
    head.extend(value.chars().map(|c| if c.is_control() { ' ' } else { c }));
    head.push_str("\r\n");
}

/// A record, with the digest and the length of its block.
fn packed(mut head: String, block: &[&[u8]], by: &Compression, is_compressed: bool) -> Vec<u8> {
    let length: usize = block.iter().map(|part| part.len()).sum();
    let mut digest = Sha1::new();
    block.iter().for_each(|part| digest.update(part));
    field(&mut head, "WARC-Block-Digest", &sha1(&digest.finalize()));
    field(&mut head, "Content-Length", &length.to_string());
    head.push_str("\r\n");
    let mut record = vec![head.as_bytes()];
    record.extend(block);
    record.push(b"\r\n\r\n");
    by.packed(&record, is_compressed)
}

/// An id derived from these texts: a UUID of version 8 (RFC 9562 section 5.8).
pub(super) fn id(of: &[&str]) -> String {
    let n = xxh3_128(of.join("\n").as_bytes());
    let n = n & !(0xF << 76) & !(0x3 << 62) | (8 << 76) | (2 << 62);
    let hex = format!("{n:032x}");
    let part = |from, to| hex.get(from..to).unwrap_or_default();
    let mut id = "<urn:uuid:".to_owned();
    // Writing to a string does not fail.
    write!(
        id,
        "{}-{}-{}-{}-{}>",
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32)
    )
    .ok();
    id
}

fn sha1(digest: &[u8]) -> String {
    format!("sha1:{}", base32(digest))
}

/// The second of a time in milliseconds since 1970, as WARC 1.0 writes it and every reader
/// understands.
fn seconds(millis: u64) -> String {
    let precise = timestamp(millis);
    match precise.get(..19) {
        Some(seconds) => format!("{seconds}Z"),
        None => precise,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use bytes::Bytes;
    use flate2::read::MultiGzDecoder;

    use super::*;

    fn wire(body: &[u8], is_compressed: bool) -> Wire {
        Wire {
            asked: 1_767_323_045_678,
            ip: Some([192, 0, 2, 1].into()),
            protocol: "http/1.1",
            status: 200,
            request: b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            response: b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
            body: Bytes::copy_from_slice(body),
            truncated: false,
            is_compressed,
        }
    }

    fn unpacked(members: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        MultiGzDecoder::new(members)
            .read_to_end(&mut plain)
            .unwrap();
        plain
    }

    #[test]
    fn bodies_of_any_length_come_back_however_they_are_packed() {
        for length in [0, 1, 600, 65_000, 65_535, 65_536, 131_070, 300_000] {
            let mut n = 0_u32;
            let body: Vec<u8> = std::iter::repeat_with(|| {
                n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (n >> 24) as u8
            })
            .take(length)
            .collect();
            for is_compressed in [false, true] {
                let packed = Packed::of(
                    "http://a.test/",
                    &wire(&body, is_compressed),
                    &Compression::Gzip,
                );
                let plain = unpacked(&packed.members(None, &[]));
                let at = plain
                    .windows(9)
                    .position(|w| w == b"\r\n\r\nHTTP/")
                    .unwrap();
                let from = at + 4 + wire(&[], false).response.len();
                assert_eq!(&plain[from..from + length], body, "{length}");
            }
        }
    }

    #[test]
    fn a_value_adds_no_lines_of_its_own() {
        let packed = Packed::of("http://a.test/", &wire(b"x", false), &Compression::Gzip);
        let plain = unpacked(&packed.members(None, &[("via", "a\r\nWARC-Type: b".to_owned())]));
        let text = String::from_utf8(plain).unwrap();
        assert!(text.contains("via: a  WARC-Type: b\r\n"), "{text}");
    }

    #[test]
    fn a_known_body_is_referred_to() {
        let packed = Packed::of(
            "http://a.test/two",
            &wire(&[b'x'; 900], false),
            &Compression::Gzip,
        );
        assert!(packed.key().is_some());
        let first = Original {
            uri: "http://a.test/one".to_owned(),
            date: "2026-01-02T03:04:05Z".to_owned(),
        };
        assert_eq!(Original::of_text(&first.to_text()).as_ref(), Some(&first));
        let text = String::from_utf8(unpacked(&packed.members(Some(&first), &[]))).unwrap();
        for line in [
            "WARC-Type: revisit\r\n",
            "WARC-Refers-To-Target-URI: http://a.test/one\r\n",
            "WARC-Refers-To-Date: 2026-01-02T03:04:05Z\r\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("xxxx"));
    }
}
