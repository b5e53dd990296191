//! Finds the record with the contents of a revisit (ISO 28500 section 6.7).

use rustc_hash::FxHashSet;
use xxhash_rust::xxh3::xxh3_64;

use super::pieces::Pieces;
use super::record::{Kind, Record, Spot, Spots};

/// The places of the responses seen so far, by payload digest, and by address and date. While
/// they are collected, all are kept, 32 bytes each; afterwards only those that revisits name.
#[derive(Debug, Default)]
pub struct Seen {
    spots: Spots,
    /// By the hash of a name that a revisit may use, not sorted yet. Two of a million names share
    /// a hash with a probability of 1 in 30 million.
    collected: Pieces<(u64, u64)>,
    /// The hashes of the names in the revisits.
    named: FxHashSet<u64>,
    /// The entries that revisits name, sorted.
    sorted: Vec<(u64, u64)>,
}

impl Seen {
    /// Remembers a record that was read to its end. Only responses and resources have
    /// contents.
    pub fn add(&mut self, record: &Record, spot: Spot) {
        if record.kind == Kind::Revisit {
            self.named.extend(names_of(record));
        }
        if !matches!(record.kind, Kind::Response | Kind::Resource) {
            return;
        }
        let digest = record.header("warc-payload-digest").map(of_digest);
        let dated = match (&record.uri, &record.date) {
            (Some(uri), Some(date)) => Some(of_capture(uri, date)),
            _ => None,
        };
        let packed = self.spots.pack(spot);
        let names = [digest, dated].into_iter().flatten();
        self.collected.extend(names.map(|name| (name, packed)));
    }

    /// Adds the records seen elsewhere.
    pub fn append(&mut self, other: Self) {
        self.named.extend(other.named);
        for (name, packed) in other.sorted.into_iter().chain(other.collected) {
            if let Some(spot) = other.spots.unpack(packed) {
                let packed = self.spots.pack(spot);
                self.collected.push((name, packed));
            }
        }
    }

    /// Sorts all entries, and drops those that no revisit names. Entries added later are not found
    /// before the next call. The first record of each name counts.
    pub fn sort(&mut self) {
        let Self { sorted, named, .. } = self;
        let collected = std::mem::take(&mut self.collected);
        sorted.extend(
            collected
                .into_iter()
                .filter(|(name, _)| named.contains(name)),
        );
        sorted.sort_unstable();
        sorted.dedup_by_key(|(name, _)| *name);
        sorted.shrink_to_fit();
    }

    /// The record with the contents of a revisit: the one that it names by address and date, else
    /// one with its payload digest.
    pub fn resolve(&self, revisit: &Record) -> Option<Spot> {
        names_of(revisit).find_map(|name| self.spot(name))
    }

    fn spot(&self, name: u64) -> Option<Spot> {
        let sorted = &self.sorted;
        let at = sorted.binary_search_by_key(&name, |(name, _)| *name).ok()?;
        self.spots.unpack(sorted.get(at)?.1)
    }
}

/// The digests of no bytes (SHA-1 in base 32 and 16, SHA-256 in base 16, MD5).
const OF_NOTHING: [&str; 4] = [
    "3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",
    "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "d41d8cd98f00b204e9800998ecf8427e",
];

/// Whether a digest is that of an empty body, which cannot identify the contents.
pub fn is_of_nothing(digest: &str) -> bool {
    let bare = digest.rsplit(':').next().unwrap_or(digest).trim();
    OF_NOTHING
        .iter()
        .any(|known| bare.eq_ignore_ascii_case(known))
}

/// The capture that a revisit names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Original {
    /// Its address.
    pub uri: Option<String>,
    /// Its date as written.
    pub date: Option<String>,
    /// Whether the server had answered that nothing has changed (ISO 28500 section 6.7.3). The
    /// contents are then those of the previous capture of the address.
    pub is_unmodified: bool,
}

/// Whether a revisit that names no other capture has the contents of the previous capture of
/// its address: the server said so, or there is no other way to find them.
pub fn is_unmodified(revisit: &Record) -> bool {
    original(revisit).is_unmodified || names_of(revisit).next().is_none()
}

/// The address and date that a revisit names.
pub fn original(revisit: &Record) -> Original {
    let uri = revisit.header("warc-refers-to-target-uri");
    let profile = revisit.header("warc-profile").unwrap_or_default();
    Original {
        uri: uri.map(|uri| bare(uri).to_owned()),
        date: revisit.header("warc-refers-to-date").map(str::to_owned),
        is_unmodified: profile.contains("server-not-modified"),
    }
}

/// The hashes of the names in a revisit, in the order in which they are looked up.
fn names_of(revisit: &Record) -> impl Iterator<Item = u64> {
    let Original { uri, date, .. } = original(revisit);
    let dated = match (uri, date) {
        (Some(uri), Some(date)) => Some(of_capture(&uri, &date)),
        _ => None,
    };
    let digest = revisit.header("warc-payload-digest");
    let digest = digest.filter(|digest| !is_of_nothing(digest));
    let digest = digest.map(of_digest);
    [dated, digest].into_iter().flatten()
}

fn bare(uri: &str) -> &str {
    let inner = uri.strip_prefix('<').and_then(|uri| uri.strip_suffix('>'));
    inner.unwrap_or(uri)
}

/// Digests are compared as written, apart from the case of the algorithm.
fn of_digest(digest: &str) -> u64 {
    let (name, value) = digest.split_once(':').unwrap_or(("", digest));
    let name = name.trim().to_ascii_lowercase();
    xxh3_64(format!("d {name}:{}", value.trim()).as_bytes())
}

fn of_capture(uri: &str, date: &str) -> u64 {
    xxh3_64(format!("c {date} {uri}").as_bytes())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::record::Version;
    use super::*;

    fn record(kind: &str, headers: &[(&str, &str)]) -> Record {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Record {
            version: Version::Warc11,
            kind: Kind::of(kind),
            uri: Some("http://a.test/".to_owned()),
            date: Some("2026-01-02T03:04:05Z".to_owned()),
            headers: headers.iter().map(owned).collect(),
            length: 0,
            file: Path::new("a.warc").into(),
            offset: 0,
            inside: None,
        }
    }

    fn at(offset: u64) -> Spot {
        Spot {
            file: 3,
            offset,
            inside: 0,
        }
    }

    #[test]
    fn revisits_are_resolved_by_either_name() {
        let mut seen = Seen::default();
        let digest = [("WARC-Payload-Digest", "sha1:ABC")];
        let mut later = Seen::default();
        later.add(&record("response", &digest), at(8));
        seen.add(&record("response", &digest), at(7));
        seen.append(later);
        seen.add(
            &record("metadata", &[("WARC-Payload-Digest", "sha1:XYZ")]),
            at(9),
        );
        let all = [
            record("revisit", &digest),
            record(
                "revisit",
                &[
                    ("WARC-Refers-To-Target-URI", "http://a.test/"),
                    ("WARC-Refers-To-Date", "2026-01-02T03:04:05Z"),
                ],
            ),
        ];
        all.iter().for_each(|revisit| seen.add(revisit, at(0)));
        seen.add(
            &record("response", &[("WARC-Payload-Digest", "sha1:UNNAMED")]),
            at(11),
        );
        seen.sort();
        assert_eq!(seen.sorted.len(), 2, "what no revisit names is forgotten");
        let found = |headers: &[(&str, &str)]| {
            let spot = seen.resolve(&record("revisit", headers))?;
            assert_eq!(spot.file, 3);
            Some(spot.offset)
        };
        assert_eq!(found(&[("WARC-Payload-Digest", "SHA1:ABC")]), Some(7));
        let refers = ("WARC-Refers-To-Target-URI", "<http://a.test/>");
        let dated = ("WARC-Refers-To-Date", "2026-01-02T03:04:05Z");
        assert_eq!(found(&[refers, dated]), Some(7));
        let later = ("WARC-Refers-To-Date", "2026-01-02T03:04:06Z");
        assert_eq!(found(&[refers, later]), None);
        assert_eq!(found(&[refers, later, digest[0]]), Some(7));
        assert_eq!(found(&[("WARC-Payload-Digest", "sha1:XYZ")]), None);
        assert_eq!(found(&[]), None);
        let nothing = (
            "WARC-Payload-Digest",
            "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",
        );
        let profile = "http://netpreserve.org/warc/1.0/revisit/server-not-modified";
        for (headers, expected) in [
            (&[nothing][..], true),
            (&[], true),
            (&digest, false),
            (&[("WARC-Profile", profile), digest[0]], true),
            (&[refers, dated], false),
        ] {
            assert_eq!(
                is_unmodified(&record("revisit", headers)),
                expected,
                "{headers:?}"
            );
        }
    }
}
