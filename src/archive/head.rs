//! The head of a record: the lines of a WARC (ISO 28500 section 4), or the one line of an
//! ARC.

use std::path::Path;
use std::sync::Arc;

use memchr::{memchr, memchr_iter, memmem};

use super::gap::Why;
use super::record::{Kind, Record, Version};

/// The longest head in bytes. Addresses may be long: some are `data:` URIs.
pub(super) const MAX_HEAD: usize = 128 << 10;
/// The most lines of a head.
const MAX_LINES: usize = 512;
/// The longest line of an ARC.
const MAX_LINE: usize = 64 << 10;
/// The fields of an ARC's line after the date: media type and length, or in version 2 media
/// type, result code, checksum, location, offset, file name and length.
const AFTER_DATE: [usize; 2] = [2, 7];

/// The head of a record without its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordHead {
    pub(super) version: Version,
    pub(super) kind: Kind,
    pub(super) uri: Option<String>,
    pub(super) date: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) length: u64,
}

impl RecordHead {
    /// The record, with its place; see [`Record`].
    pub(super) fn at(self, file: Arc<Path>, offset: u64, inside: Option<u64>) -> Record {
        Record {
            version: self.version,
            kind: self.kind,
            uri: self.uri,
            date: self.date,
            headers: self.headers,
            length: self.length,
            file,
            offset,
            inside,
        }
    }
}

/// The kind of bytes at the beginning of a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ParsedHead {
    /// A head, and its length in bytes.
    Head(Box<RecordHead>, usize),
    /// The beginning of a head; more bytes are needed.
    Part,
    /// Not a head.
    Not(Why),
}

/// Which formats to expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Formats {
    /// A WARC was seen, so no line is taken for that of an ARC.
    pub(super) only_warc: bool,
    /// The version of the ARC, when it is known.
    pub(super) arc: Option<Version>,
}

/// Reads the head that `bytes` begin with.
pub(super) fn parse(bytes: &[u8], formats: Formats) -> ParsedHead {
    const MAGIC: &[u8] = b"WARC/";
    if bytes.starts_with(MAGIC) {
        return warc(bytes);
    }
    if MAGIC.starts_with(bytes) {
        return ParsedHead::Part;
    }
    if bytes.starts_with(&[0]) {
        return ParsedHead::Not(Why::Zeros);
    }
    if formats.only_warc || !bytes.first().is_some_and(u8::is_ascii_alphabetic) {
        return ParsedHead::Not(Why::NoRecord);
    }
    let line = bytes.get(..MAX_LINE).unwrap_or(bytes);
    match memchr(b'\n', line) {
        Some(end) => match arc(line.get(..end).unwrap_or_default(), formats.arc) {
            Some(head) => ParsedHead::Head(Box::new(head), end + 1),
            None => ParsedHead::Not(Why::NoRecord),
        },
        None if bytes.len() < MAX_LINE && could_be_url(line) => ParsedHead::Part,
        None => ParsedHead::Not(Why::NoRecord),
    }
}

/// Whether a record plausibly begins with these bytes, which may be too few for a whole head.
pub(super) fn is_plausible(bytes: &[u8], formats: Formats) -> bool {
    // An empty member proves nothing.
    !bytes.is_empty() && !matches!(parse(bytes, formats), ParsedHead::Not(_))
}

/// Whether a line begins with the scheme of an address.
fn could_be_url(line: &[u8]) -> bool {
    let scheme = line.get(..32).unwrap_or(line);
    let end = scheme.iter().position(|byte| !is_of_scheme(*byte));
    end.is_none_or(|end| scheme.get(end) == Some(&b':'))
}

fn is_of_scheme(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)
}

/// The next place at or after `from` where a record may begin, and whether that is a line
/// of an ARC.
pub(super) fn find(bytes: &[u8], from: usize, formats: Formats) -> Option<usize> {
    let rest = bytes.get(from..)?;
    let warc = memmem::find(rest, b"WARC/").map(|at| from + at);
    if formats.only_warc {
        return warc;
    }
    let before = rest.get(..warc.map_or(rest.len(), |at| at - from))?;
    let begins = memchr_iter(b'\n', before).map(|at| from + at + 1);
    let mut begins = begins.filter(|at| {
        let line = bytes.get(*at..).unwrap_or_default();
        line.first().is_some_and(u8::is_ascii_alphabetic) && could_be_url(line)
    });
    begins.next().or(warc)
}

/// The end of a head, after its empty line; `None` if more bytes are needed. Every line is
/// examined once, and the first that cannot belong to a head ends it, so that a hostile file
/// cannot make the search for the next record slow.
fn head_end(bytes: &[u8]) -> Result<Option<usize>, Why> {
    let mut begin = 0;
    for (n, end) in memchr_iter(b'\n', bytes).enumerate() {
        let line = bytes.get(begin..end).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        begin = end + 1;
        match (n, line) {
            (0, line) if version(line).is_none() => return Err(Why::Head),
            (0, _) => {}
            (_, []) => return Ok(Some(begin)),
            (MAX_LINES.., _) => return Err(Why::HeadTooLong),
            (2.., [b' ' | b'\t', ..]) => {}
            (_, line) if memchr(b':', line).is_none() => return Err(Why::Head),
            _ => {}
        }
    }
    // No need to wait for more bytes if these cannot become a version.
    if begin == 0 && bytes.len() > 16 {
        return Err(Why::Head);
    }
    Ok(None)
}

fn warc(bytes: &[u8]) -> ParsedHead {
    let within = bytes.get(..MAX_HEAD).unwrap_or(bytes);
    let end = match head_end(within) {
        Ok(Some(end)) => end,
        Ok(None) if bytes.len() < MAX_HEAD => return ParsedHead::Part,
        Ok(None) => return ParsedHead::Not(Why::HeadTooLong),
        Err(why) => return ParsedHead::Not(why),
    };
    match warc_lines(within.get(..end).unwrap_or_default()) {
        Ok(head) => ParsedHead::Head(Box::new(head), end),
        Err(why) => ParsedHead::Not(why),
    }
}

/// The version that a first line names.
fn version(line: &[u8]) -> Option<Version> {
    let known = [
        Version::Warc10,
        Version::Warc11,
        Version::Warc017,
        Version::Warc018,
    ];
    let line = line.trim_ascii_end();
    known.into_iter().find(|v| v.name().as_bytes() == line)
}

/// UTF-8, or else ISO 8859-1, in which every byte is valid.
pub(super) fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => latin1(bytes),
    }
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

fn warc_lines(bytes: &[u8]) -> Result<RecordHead, Why> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let version = version(lines.next().unwrap_or_default()).ok_or(Why::Head)?;
    let mut headers: Vec<(String, String)> = Vec::with_capacity(16);
    for line in lines {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            break;
        }
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            // A folded line belongs to the previous one.
            let (_, value) = headers.last_mut().ok_or(Why::Head)?;
            value.push(' ');
            value.push_str(&text(line.trim_ascii()));
            continue;
        }
        let colon = memchr(b':', line).ok_or(Why::Head)?;
        let (name, value) = line.split_at(colon);
        let name = name.trim_ascii_end();
        let is_token = |byte: &u8| byte.is_ascii_graphic();
        if name.is_empty() || !name.iter().all(is_token) {
            return Err(Why::Head);
        }
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        headers.push((text(name), text(value)));
    }
    let first = |wanted: &str| {
        let mut all = headers.iter();
        let found = all.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.as_str())
    };
    let mut lengths = headers.iter();
    let stated = first("content-length").and_then(length_of);
    let length = stated.ok_or(Why::NoLength)?;
    if lengths.any(|(name, value)| {
        name.eq_ignore_ascii_case("content-length") && length_of(value) != Some(length)
    }) {
        return Err(Why::NoLength);
    }
    let kind = Kind::of(first("warc-type").ok_or(Why::Head)?);
    let bare = |uri: &str| {
        let inner = uri.strip_prefix('<').and_then(|uri| uri.strip_suffix('>'));
        inner.unwrap_or(uri).to_owned()
    };
    Ok(RecordHead {
        version,
        kind,
        uri: first("warc-target-uri").map(bare),
        date: first("warc-date").map(str::to_owned),
        length,
        headers,
    })
}

/// A length in decimal digits.
fn length_of(text: &str) -> Option<u64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Reads a line of an ARC: `URL IP-address Archive-date Content-type Archive-length`, in
/// version 2 with five more fields before the length. Addresses and media types may contain
/// spaces, so the date is searched for.
fn arc(line: &[u8], known: Option<Version>) -> Option<RecordHead> {
    const NAMES: [&str; 10] = [
        "URL",
        "IP-address",
        "Archive-date",
        "Content-type",
        "Result-code",
        "Checksum",
        "Location",
        "Offset",
        "Filename",
        "Archive-length",
    ];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let length = length_of(std::str::from_utf8(fields.last()?).ok()?)?;
    fields.last().filter(|digits| !digits.is_empty())?;
    let is_date =
        |field: &&[u8]| (12..=17).contains(&field.len()) && field.iter().all(u8::is_ascii_digit);
    let date = (2..fields.len().checked_sub(2)?).rev();
    let date = date
        .into_iter()
        .find(|at| fields.get(*at).is_some_and(&is_date))?;
    let url = fields.get(..date - 1)?.join(&b' ');
    let colon = memchr(b':', &url)?;
    let scheme = url.get(..colon).filter(|scheme| !scheme.is_empty())?;
    if !scheme.iter().all(|byte| is_of_scheme(*byte)) {
        return None;
    }
    let after = fields.len() - date - 1;
    let [one, two] = AFTER_DATE;
    let is_code = |field: &&[u8]| field.len() == 3 && field.iter().all(u8::is_ascii_digit);
    let code = fields.len().checked_sub(two - 1);
    let code = code.filter(|_| after >= two).and_then(|at| fields.get(at));
    let version = match known {
        Some(version) => version,
        None if code.is_some_and(is_code) => Version::Arc2,
        None => Version::Arc1,
    };
    // Some files state one version but have lines of the other.
    let tail = match version {
        Version::Arc2 if after >= two => two - 1,
        _ => one - 1,
    };
    let media = fields.get(date + 1..fields.len() - tail)?.join(&b' ');
    let begin = [
        url.as_slice(),
        fields.get(date - 1)?,
        fields.get(date)?,
        &media,
    ];
    let end = fields.get(fields.len() - tail..)?;
    let values: Vec<String> = begin.iter().chain(end).map(|f| latin1(f)).collect();
    let names: Vec<&str> = if tail == one - 1 {
        NAMES.iter().take(4).chain(NAMES.last()).copied().collect()
    } else {
        NAMES.to_vec()
    };
    let uri = values.first().cloned();
    let is_web = |uri: &String| uri.starts_with("http:") || uri.starts_with("https:");
    let kind = match &uri {
        Some(uri) if uri.starts_with("filedesc:") => Kind::Filedesc,
        Some(uri) if is_web(uri) => Kind::Response,
        _ => Kind::Resource,
    };
    let date = values.get(2).cloned();
    let names = names.into_iter().map(str::to_owned);
    Some(RecordHead {
        version,
        kind,
        uri,
        date,
        headers: names.zip(values).collect(),
        length,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Formats = Formats {
        only_warc: false,
        arc: None,
    };

    fn head(text: &[u8]) -> (RecordHead, usize) {
        match parse(text, BOTH) {
            ParsedHead::Head(head, length) => (*head, length),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn warc_heads() {
        let text = b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: <http://a.test/\xfc>\r\n\
            X-Long: a\r\n  b\r\ncontent-length :  12 \r\n\r\nHTTP/1.1";
        let (found, length) = head(text);
        assert_eq!(length, text.len() - 8);
        assert_eq!((found.version, found.length), (Version::Warc10, 12));
        assert_eq!(found.kind, Kind::Response);
        assert_eq!(found.uri.as_deref(), Some("http://a.test/\u{fc}"));
        assert_eq!(found.headers[2], ("X-Long".to_owned(), "a b".to_owned()));
        // Every prefix of it asks for more.
        for n in 0..length {
            assert_eq!(parse(&text[..n], BOTH), ParsedHead::Part, "{n}");
        }
        let bare = b"WARC/0.18\nWARC-Type: x-own\nContent-Length: 0\n\n";
        let (found, length) = head(bare);
        assert_eq!((found.version, length), (Version::Warc018, bare.len()));
        assert_eq!(found.kind, Kind::Other("x-own".to_owned()));
    }

    #[test]
    fn what_is_no_warc_head() {
        let long = format!("WARC/1.0\r\nA: {}", "a".repeat(MAX_HEAD));
        let lines = format!("WARC/1.0\r\n{}\r\n", "a: b\r\n".repeat(MAX_LINES + 1));
        for (text, why) in [
            ("WARC/2.0\r\nWARC-Type: response\r\n", Why::Head),
            ("WARC/1.0, the format, is", Why::Head),
            ("WARC/1.0\r\nno colon\r\n\r\n", Why::Head),
            ("WARC/1.0\r\n folded\r\n\r\n", Why::Head),
            ("WARC/1.0\r\nContent-Length: 1\r\n\r\n", Why::Head),
            ("WARC/1.0\r\nWARC-Type: response\r\n\r\n", Why::NoLength),
            ("WARC/1.0\r\nContent-Length: -1\r\n\r\n", Why::NoLength),
            ("WARC/1.0\r\nContent-Length: \r\n\r\n", Why::NoLength),
            (
                "WARC/1.0\r\nContent-Length: 99999999999999999999\r\n\r\n",
                Why::NoLength,
            ),
            (
                "WARC/1.0\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                Why::NoLength,
            ),
            (&long, Why::HeadTooLong),
            (&lines, Why::HeadTooLong),
            ("\0\0\0", Why::Zeros),
            ("<html>", Why::NoRecord),
            ("a line of text\n", Why::NoRecord),
        ] {
            let begin = &text[..text.len().min(60)];
            assert_eq!(
                parse(text.as_bytes(), BOTH),
                ParsedHead::Not(why),
                "{begin}"
            );
        }
    }

    #[test]
    fn arc_lines() {
        let one = b"http://www.spiegel.de/a b 195.71.11.67 20120214055058 text/html; x=y 24686\nH";
        let (found, length) = head(one);
        assert_eq!(length, one.len() - 1);
        assert_eq!(found.version, Version::Arc1);
        assert_eq!(found.uri.as_deref(), Some("http://www.spiegel.de/a b"));
        assert_eq!(found.date.as_deref(), Some("20120214055058"));
        assert_eq!(found.length, 24_686);
        let value = |name: &str| {
            let mut all = found.headers.iter();
            all.find(|(n, _)| n == name).map(|(_, value)| value.clone())
        };
        assert_eq!(value("IP-address").as_deref(), Some("195.71.11.67"));
        assert_eq!(value("Content-type").as_deref(), Some("text/html; x=y"));

        let two = b"http://a.test/\xfc 1.2.3.4 20120214055058 text/html 200 - - 1234 a.arc 56\r\n";
        let (found, _) = head(two);
        assert_eq!((found.version, found.length), (Version::Arc2, 56));
        assert_eq!(found.headers[4].1, "200");
        assert_eq!(
            found.headers[8],
            ("Filename".to_owned(), "a.arc".to_owned())
        );
        assert_eq!(found.uri.as_deref(), Some("http://a.test/\u{fc}"));

        let desc = b"filedesc://a.arc 0.0.0.0 20120214055058 text/plain 76\n1 0 X\n";
        assert_eq!(head(desc).0.kind, Kind::Filedesc);
        let dns = b"dns:a.test 1.2.3.4 20120214055058 text/dns 30\n";
        assert_eq!(head(dns).0.kind, Kind::Resource);
        for bad in [
            "http://a.test/ 1.2.3.4 20120214055058 text/html many\n",
            "http://a.test/ 1.2.3.4 20120214055058 text/html \n",
            "http://a.test/ 1.2.3.4 yesterday text/html 12\n",
            "one two 20120214055058 text/html 12\n",
            "20120214055058 text/html 12\n",
            "12\n",
        ] {
            assert_eq!(
                parse(bad.as_bytes(), BOTH),
                ParsedHead::Not(Why::NoRecord),
                "{bad}"
            );
        }
    }

    #[test]
    fn records_are_found() {
        let text = b"garbage\nmore: of it\nWARC/1.0\r\n";
        assert_eq!(find(text, 0, BOTH), Some(8));
        assert_eq!(find(text, 9, BOTH), Some(20));
        let warc = Formats {
            only_warc: true,
            ..BOTH
        };
        assert_eq!(find(text, 0, warc), Some(20));
        assert_eq!(find(text, 21, warc), None);
        assert!(is_plausible(b"WAR", warc) && !is_plausible(b"", warc));
    }

    proptest::proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn no_head_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
            drop(parse(&bytes, BOTH));
            drop(parse(&[b"WARC/1.0\n", bytes.as_slice()].concat(), BOTH));
            let line = [b"http://a.test/ 1 20120214055058 ", bytes.as_slice(), b" 1\n"].concat();
            drop(parse(&line, BOTH));
            find(&bytes, 3, BOTH);
        }
    }
}
