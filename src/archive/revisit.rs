//! Which record has the contents of a revisit (ISO 28500 section 6.7).

use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_128;

use super::gap::Place;
use super::record::{Kind, Record};

/// What is remembered of one record, in bytes, with the table's share.
const ENTRY: usize = 80;

/// The places of the responses seen so far, by payload digest, and by address and date.
#[derive(Debug)]
pub struct Seen {
    files: Vec<Arc<Path>>,
    /// By the hash of what a revisit names.
    places: FxHashMap<u128, (u32, Place)>,
    most: usize,
    left_out: u64,
}

impl Seen {
    /// An index of at most so many bytes. What comes when it is full is left out.
    pub fn within(bytes: usize) -> Self {
        Self {
            files: Vec::new(),
            places: FxHashMap::default(),
            most: bytes / ENTRY,
            left_out: 0,
        }
    }

    /// Remembers a record that was read to its end. The first of each digest counts, and
    /// only responses and resources have contents.
    pub fn add(&mut self, record: &Record, place: Place) {
        if !matches!(record.kind, Kind::Response | Kind::Resource) {
            return;
        }
        let digest = record.header("warc-payload-digest").map(of_digest);
        let dated = match (&record.uri, &record.date) {
            (Some(uri), Some(date)) => Some(of_capture(uri, date)),
            _ => None,
        };
        for key in [digest, dated].into_iter().flatten() {
            if self.places.contains_key(&key) {
                continue;
            }
            if self.places.len() >= self.most {
                self.left_out += 1;
                continue;
            }
            let file = self.file(&record.file);
            self.places.insert(key, (file, place));
        }
    }

    /// The number of a file. Records come file by file.
    fn file(&mut self, file: &Arc<Path>) -> u32 {
        let known = self.files.iter().rposition(|known| known == file);
        let at = known.unwrap_or_else(|| {
            self.files.push(file.clone());
            self.files.len() - 1
        });
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    /// The record that has the contents of a revisit: the one that it names by address and
    /// date, else one with its payload digest.
    pub fn resolve(&self, revisit: &Record) -> Option<(&Path, Place)> {
        let uri = revisit.header("warc-refers-to-target-uri");
        let date = revisit.header("warc-refers-to-date");
        let dated = match (uri, date) {
            (Some(uri), Some(date)) => Some(of_capture(bare(uri), date)),
            _ => None,
        };
        let digest = revisit.header("warc-payload-digest").map(of_digest);
        let mut found = [dated, digest].into_iter().flatten();
        let (file, place) = found.find_map(|key| self.places.get(&key))?;
        let file = self.files.get(usize::try_from(*file).ok()?)?;
        Some((file, *place))
    }

    /// How many names of records did not fit.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

fn bare(uri: &str) -> &str {
    let inner = uri.strip_prefix('<').and_then(|uri| uri.strip_suffix('>'));
    inner.unwrap_or(uri)
}

/// Digests are compared as written, apart from the case of the algorithm.
fn of_digest(digest: &str) -> u128 {
    let (name, value) = digest.split_once(':').unwrap_or(("", digest));
    let name = name.trim().to_ascii_lowercase();
    xxh3_128(format!("d {name}:{}", value.trim()).as_bytes())
}

fn of_capture(uri: &str, date: &str) -> u128 {
    xxh3_128(format!("c {date} {uri}").as_bytes())
}

#[cfg(test)]
mod tests {
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

    fn at(offset: u64) -> Place {
        Place {
            offset,
            ..Place::default()
        }
    }

    #[test]
    fn revisits_are_resolved_by_either_name() {
        let mut seen = Seen::within(1 << 20);
        let digest = [("WARC-Payload-Digest", "sha1:ABC")];
        seen.add(&record("response", &digest), at(7));
        seen.add(&record("response", &digest), at(8));
        seen.add(
            &record("metadata", &[("WARC-Payload-Digest", "sha1:XYZ")]),
            at(9),
        );
        let found = |headers: &[(&str, &str)]| {
            let (file, place) = seen.resolve(&record("revisit", headers))?;
            assert_eq!(file, Path::new("a.warc"));
            Some(place.offset)
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
    }

    #[test]
    fn it_stays_within_its_bytes() {
        let mut seen = Seen::within(10 * ENTRY);
        for n in 0..20 {
            let digest = format!("sha1:{n}");
            seen.add(
                &record("response", &[("WARC-Payload-Digest", &digest)]),
                at(n),
            );
        }
        assert_eq!((seen.places.len(), seen.left_out()), (10, 11));
    }
}
