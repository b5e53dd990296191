//! The head of a record, as one value for WARC and ARC.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// The format of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// WARC/0.17, a draft.
    Warc017,
    /// WARC/0.18, a draft.
    Warc018,
    /// WARC/1.0 (ISO 28500:2009).
    Warc10,
    /// WARC/1.1 (ISO 28500:2017).
    Warc11,
    /// ARC, version 1: lines of five fields.
    Arc1,
    /// ARC, version 2: lines of ten fields.
    Arc2,
}

impl Version {
    /// Its name, as `WARC/1.0`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Warc017 => "WARC/0.17",
            Self::Warc018 => "WARC/0.18",
            Self::Warc10 => "WARC/1.0",
            Self::Warc11 => "WARC/1.1",
            Self::Arc1 => "ARC/1",
            Self::Arc2 => "ARC/2",
        }
    }

    /// Whether it is one of the two ARC formats.
    pub fn is_arc(self) -> bool {
        matches!(self, Self::Arc1 | Self::Arc2)
    }
}

/// The type of a record (ISO 28500 section 6).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Describes the records that follow.
    Warcinfo,
    /// A whole response of a server. The records of an ARC are responses too.
    Response,
    /// A resource without a protocol's envelope.
    Resource,
    /// The request that led to a response.
    Request,
    /// Says something about another record.
    Metadata,
    /// A response whose contents are in another record.
    Revisit,
    /// A conversion of another record's contents.
    Conversion,
    /// A further part of a record.
    Continuation,
    /// The first record of an ARC, which describes the file.
    Filedesc,
    /// Any other, in lower case.
    Other(String),
}

impl Kind {
    /// Reads a `WARC-Type`, which is case-insensitive.
    pub(super) fn of(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let all = [
            Self::Warcinfo,
            Self::Response,
            Self::Resource,
            Self::Request,
            Self::Metadata,
            Self::Revisit,
            Self::Conversion,
            Self::Continuation,
        ];
        let known = all.into_iter().find(|kind| kind.name() == name);
        known.unwrap_or(Self::Other(name))
    }

    /// Its name, as `response`.
    pub fn name(&self) -> &str {
        match self {
            Self::Warcinfo => "warcinfo",
            Self::Response => "response",
            Self::Resource => "resource",
            Self::Request => "request",
            Self::Metadata => "metadata",
            Self::Revisit => "revisit",
            Self::Conversion => "conversion",
            Self::Continuation => "continuation",
            Self::Filedesc => "filedesc",
            Self::Other(name) => name,
        }
    }
}

/// The head of a record, and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The format.
    pub version: Version,
    /// The type.
    pub kind: Kind,
    /// The address as written, without the angle brackets that some writers put around it.
    /// It may be malformed.
    pub uri: Option<String>,
    /// The date as written: `2012-02-14T05:50:58Z` in a WARC, `20120214055058` in an ARC.
    pub date: Option<String>,
    /// Names and values of the head in the order of the file. Those of an ARC have the names
    /// of its format, as `Archive-date`.
    pub headers: Vec<(String, String)>,
    /// The length of the block in bytes, as the head states it.
    pub length: u64,
    /// The file, as it was named to the reader.
    pub file: Arc<Path>,
    /// Where the record begins in the file; see [`RecordSpan`](super::gap::RecordSpan).
    pub offset: u64,
    /// Where it begins in the decompressed member at `offset`, if it is not the first record
    /// there.
    pub inside: Option<u64>,
}

/// Where a record begins, in one of several files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// The number of the file.
    pub file: u32,
    /// As in [`Record::offset`].
    pub offset: u64,
    /// As in [`Record::inside`], but 0 for `None` to save memory: an index has millions of spots.
    pub inside: u64,
}

/// Packs spots into 8 bytes each; the few that do not fit are in a separate table.
#[derive(Debug, Clone, Default)]
pub(super) struct Spots {
    odd: Vec<Spot>,
}

/// The number of bits of an offset; above them are 16 for the file, and one that marks spots in
/// the table.
const OFFSET_BITS: u32 = 47;
const IS_ODD: u64 = 1 << 63;

impl Spots {
    /// Packs a spot. Packed spots of the same file sort by their offsets.
    pub fn pack(&mut self, spot: Spot) -> u64 {
        let fits = spot.inside == 0 && spot.file < 1 << 16 && spot.offset < 1 << OFFSET_BITS;
        if fits {
            return u64::from(spot.file) << OFFSET_BITS | spot.offset;
        }
        self.odd.push(spot);
        IS_ODD | (self.odd.len() as u64 - 1)
    }

    /// Unpacks a spot; `None` if no spot was packed into this value.
    pub fn unpack(&self, packed: u64) -> Option<Spot> {
        if packed & IS_ODD != 0 {
            let at = usize::try_from(packed & !IS_ODD).ok()?;
            return self.odd.get(at).copied();
        }
        Some(Spot {
            file: u32::try_from(packed >> OFFSET_BITS).ok()?,
            offset: packed & ((1 << OFFSET_BITS) - 1),
            inside: 0,
        })
    }
}

impl Record {
    /// Where it begins; `file` is the number of its file.
    pub fn spot(&self, file: u32) -> Spot {
        Spot {
            file,
            offset: self.offset,
            inside: self.inside.unwrap_or_default(),
        }
    }

    /// The first value of a name, ignoring case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.iter();
        let found = all.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The media type of the block as stated: `application/http; msgtype=response` of a
    /// WARC's response, that of the contents in an ARC.
    pub fn content_type(&self) -> Option<&str> {
        self.header("content-type")
    }

    /// The moment of the capture. `None` if the date is missing or malformed. A WARC 1.1 may
    /// give only a year or a month (W3C profile of ISO 8601), which counts from its beginning.
    pub fn timestamp(&self) -> Option<Timestamp> {
        let date = self.date.as_deref()?.trim();
        if let Ok(exact) = date.parse() {
            return Some(exact);
        }
        // Missing parts take their minimum: year, month, day, hour, minute, second.
        let mut parts = [0_i16, 1, 1, 0, 0, 0];
        let mut digits = date.bytes().filter(u8::is_ascii_digit);
        for (n, part) in parts.iter_mut().enumerate() {
            let width = if n == 0 { 4 } else { 2 };
            let text: String = digits.by_ref().take(width).map(char::from).collect();
            match (text.len(), n) {
                (0, 1..) => break,
                (length, _) if length < width => return None,
                _ => *part = text.parse().ok()?,
            }
        }
        let [year, month, day, hour, minute, second] = parts;
        let small = |part: i16| i8::try_from(part).ok();
        let (month, day) = (small(month)?, small(day)?);
        let (hour, minute, second) = (small(hour)?, small(minute)?, small(second)?);
        let date = DateTime::new(year, month, day, hour, minute, second, 0).ok()?;
        Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
    }

    /// Whether the block is an HTTP message: of a request, a response or a revisit with an
    /// `http:` or `https:` address.
    pub fn is_http(&self) -> bool {
        let uri = self.uri.as_deref().unwrap_or_default();
        let web = |scheme: &str| {
            let begin = uri.get(..scheme.len());
            begin.is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
        };
        matches!(self.kind, Kind::Response | Kind::Request | Kind::Revisit)
            && (web("http:") || web("https:"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dated(date: &str) -> Option<String> {
        let record = Record {
            version: Version::Warc11,
            kind: Kind::of("Response"),
            uri: Some("HTTP://a.test/".to_owned()),
            date: Some(date.to_owned()),
            headers: vec![("Content-Type".to_owned(), "a/b".to_owned())],
            length: 0,
            file: Path::new("a.warc").into(),
            offset: 0,
            inside: None,
        };
        assert_eq!(record.kind, Kind::Response);
        assert!(record.is_http());
        assert_eq!(record.header("content-TYPE"), record.content_type());
        Some(record.timestamp()?.to_string())
    }

    #[test]
    fn dates_of_both_formats() {
        for (given, expected) in [
            ("2012-02-14T05:50:58Z", "2012-02-14T05:50:58Z"),
            ("2012-02-14T05:50:58.25Z", "2012-02-14T05:50:58.25Z"),
            ("20120214055058", "2012-02-14T05:50:58Z"),
            ("201202140550", "2012-02-14T05:50:00Z"),
            ("2012-02", "2012-02-01T00:00:00Z"),
            ("2012", "2012-01-01T00:00:00Z"),
        ] {
            assert_eq!(dated(given).as_deref(), Some(expected), "{given}");
        }
        for bad in ["", "soon", "20121", "20121340", "20120230", "201"] {
            assert_eq!(dated(bad), None, "{bad}");
        }
    }
}
