//! The HTTP response in a record.

use std::io::{self, BufRead, Read, Write};
use std::time::Duration;

use bytes::Bytes;
use httparse::{EMPTY_HEADER, ParserConfig, Status};

use super::body;
use super::digest::http_head_end;
use super::gap::Damaged;
use super::head::text;
use crate::coding::Coding;
use crate::page::{Fetched, TermsHeaders, Validators, charset, content_type, media_type};
use crate::tool_error::ToolError;

/// The longest head of a response in bytes.
const MAX_HEAD: usize = 256 << 10;
/// The most lines of it.
const MAX_LINES: usize = 512;

/// The beginning of a status line of any version.
const STATUS_LINE: &[u8] = b"HTTP";

/// Names and values of header lines.
pub type Lines = Vec<(String, Vec<u8>)>;

/// A response as it was stored, its body decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// Names and values in the order of the response. A value has its bytes as received;
    /// the parts of a folded line are joined by spaces.
    pub headers: Lines,
    /// The body without its transfer and content codings, at most the given cap.
    pub body: Bytes,
    /// The body was longer than the cap.
    pub truncated: bool,
    /// The stored body ends before its coding does, because the crawler stored only a part.
    pub cut: bool,
}

/// For `map_err`: the block of a record cannot be read. A damaged or truncated record has its own
/// message; its reader reports the gap.
pub(super) fn unread(error: io::Error) -> ToolError {
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(damaged @ Damaged(_)) => ToolError::new(damaged),
        None => ToolError::new(format_args!("the record cannot be read: {error}")),
    }
}

/// A record does not begin with the head of an HTTP response.
fn no_head(why: &str) -> ToolError {
    ToolError::new(format_args!("the record contains no HTTP response: {why}"))
}

/// The maximum number of bytes that are kept of a body.
#[derive(Debug, Clone, Copy)]
pub struct Cap {
    /// For most bodies.
    pub most: usize,
    /// For bodies of one media type, such as `application/pdf`.
    pub of_type: Option<(&'static str, usize)>,
}

impl From<usize> for Cap {
    fn from(most: usize) -> Self {
        Self {
            most,
            of_type: None,
        }
    }
}

impl Cap {
    fn of(self, response: &Response) -> usize {
        let stated = response.header("content-type").unwrap_or_default();
        let stated = String::from_utf8_lossy(stated);
        let is_of = |media: &str| media_type(&stated).eq_ignore_ascii_case(media);
        match self.of_type {
            Some((media, most)) if is_of(media) => most,
            _ => self.most,
        }
    }
}

/// The block of a record, which is read to its end.
pub trait Block: BufRead {
    /// The headers to use if it has no head of its own; `None` if a head is required.
    fn bare(&self) -> Option<Lines> {
        None
    }
}

impl Block for &[u8] {}

impl Response {
    /// Reads the block of a record, and keeps at most `cap` bytes of the decoded body. The block
    /// is read to its end, so that a truncated record is never taken for a complete one.
    ///
    /// # Errors
    ///
    /// [`ToolError`] says what is wrong with the record.
    pub fn read(block: impl Block, cap: impl Into<Cap>) -> Result<Self, ToolError> {
        let mut body = Vec::new();
        let mut response = Self::copy(block, cap, &mut body)?;
        response.body = body.into();
        Ok(response)
    }

    /// The same, with the body copied to `out` as it is read.
    ///
    /// # Errors
    ///
    /// [`ToolError`]; some of the body may already have been copied.
    pub fn copy(
        mut block: impl Block,
        cap: impl Into<Cap>,
        out: &mut dyn Write,
    ) -> Result<Self, ToolError> {
        let mut begin = Vec::new();
        let bare = match block.bare() {
            Some(headers) if !begins_with_head(&mut block, &mut begin)? => Some(headers),
            _ => None,
        };
        let mut block = begin.as_slice().chain(block);
        let mut response = match bare {
            Some(headers) => Self::of(200, headers),
            None => Self::head(&mut block)?,
        };
        let chunked = response.listed("transfer-encoding");
        let chunked = chunked.iter().any(|coding| coding == "chunked");
        let codings = response.codings();
        let cap = cap.into().of(&response);
        let end = body::copy(&mut block, chunked, &codings, cap as u64, out)?;
        (response.truncated, response.cut) = (end.truncated, end.cut);
        io::copy(&mut block, &mut io::sink()).map_err(unread)?;
        Ok(response)
    }

    /// The status and the headers only. The caller reads the rest of the block.
    ///
    /// # Errors
    ///
    /// [`ToolError`] says what is wrong with the head.
    pub fn head(mut block: impl BufRead) -> Result<Self, ToolError> {
        let head = read_head(&mut block)?;
        let (status, headers) = parse_head(&head)?;
        Ok(Self::of(status, headers))
    }

    fn of(status: u16, headers: Lines) -> Self {
        Self {
            status,
            headers,
            body: Bytes::new(),
            truncated: false,
            cut: false,
        }
    }

    /// The first value of a name, ignoring case.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let mut all = self.headers.iter();
        let found = all.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_slice())
    }

    /// All values of a name as text, malformed UTF-8 replaced.
    pub fn all(&self, name: &str) -> Vec<String> {
        let all = self.headers.iter();
        let found = all.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let text = |(_, value): &(_, Vec<u8>)| String::from_utf8_lossy(value).into_owned();
        found.map(text).collect()
    }

    /// The members of a list header, in lower case (RFC 9110 section 5.6.1).
    fn listed(&self, name: &str) -> Vec<String> {
        let values = self.all(name).join(",").to_ascii_lowercase();
        let members = values.split(',').map(|member| member.trim().to_owned());
        members.filter(|member| !member.is_empty()).collect()
    }

    /// The codings of the body except chunks, with the transfer codings last. spoor stores the
    /// header of the latter under another name.
    fn codings(&self) -> Vec<Coding> {
        let mut all = Coding::list(self.all("content-encoding"));
        for name in ["transfer-encoding", "x-orig-transfer-encoding"] {
            all.extend(Coding::list(self.all(name)));
        }
        all.retain(|coding| *coding != Coding::Unknown("chunked".to_owned()));
        all
    }

    /// The character encoding that the response declares in `Content-Type`; else what the
    /// crawler detected and recorded, as Common Crawl's did in `x-commoncrawl-DetectedCharset`.
    pub fn charset(&self) -> Option<String> {
        let media = self.all("content-type");
        let named = media.first().and_then(|media| charset(media));
        let named = named.map(str::to_owned);
        named.or_else(|| {
            let detected = self.all("x-commoncrawl-detectedcharset");
            detected.into_iter().find(|charset| !charset.is_empty())
        })
    }

    /// The headers that state terms of use.
    pub fn terms(&self) -> TermsHeaders {
        TermsHeaders::of(|name| self.all(name))
    }

    /// The response as if the pipeline had fetched the same bytes, in no time.
    pub fn into_fetched(self) -> Fetched {
        Fetched {
            status: self.status,
            content_type: content_type(self.all("content-type"), &self.body),
            terms: self.terms(),
            validators: Validators::of(|name| self.header(name)),
            truncated: self.truncated || self.cut,
            body: self.body,
            elapsed: Duration::ZERO,
            date: None,
        }
    }
}

/// Whether a block begins like a status line. Its first bytes go to `begin`.
fn begins_with_head(block: &mut impl BufRead, begin: &mut Vec<u8>) -> Result<bool, ToolError> {
    while begin.len() < STATUS_LINE.len() {
        let there = block.fill_buf().map_err(unread)?;
        let missing = STATUS_LINE.len() - begin.len();
        let there = there.get(..missing).unwrap_or(there);
        if there.is_empty() {
            break;
        }
        begin.extend_from_slice(there);
        let taken = there.len();
        block.consume(taken);
    }
    let upper = begin.to_ascii_uppercase();
    Ok(upper == STATUS_LINE || upper.starts_with(b"ICY"))
}

/// Reads up to the empty line after the head.
fn read_head(block: &mut impl BufRead) -> Result<Vec<u8>, ToolError> {
    let mut head = Vec::new();
    loop {
        let there = block.fill_buf().map_err(unread)?;
        if there.is_empty() {
            // Some responses consist only of a head without its end.
            return Ok(head);
        }
        let before = head.len();
        let piece = there.get(..MAX_HEAD).unwrap_or(there);
        head.extend_from_slice(piece);
        let taken = piece.len();
        if let Some(end) = http_head_end(&head) {
            head.truncate(end);
            block.consume(end - before);
            return Ok(head);
        }
        block.consume(taken);
        if head.len() >= MAX_HEAD {
            return Err(no_head("its head has no end"));
        }
    }
}

/// Reads a head like browsers do: an unknown version, a missing reason, bare line feeds,
/// folded lines and lines that are not headers are all tolerated.
fn parse_head(head: &[u8]) -> Result<(u16, Lines), ToolError> {
    let end = memchr::memchr(b'\n', head).map_or(head.len(), |end| end + 1);
    let (first, rest) = head.split_at(end);
    let status = status_of(first).ok_or_else(|| no_head("its status line is malformed"))?;
    // The parser may refuse the status line.
    let mut whole = b"HTTP/1.1 200 OK\r\n".to_vec();
    whole.extend_from_slice(rest);
    if http_head_end(&whole).is_none() {
        whole.extend_from_slice(b"\r\n\r\n");
    }
    let mut lines = vec![EMPTY_HEADER; MAX_LINES];
    let mut response = httparse::Response::new(&mut lines);
    let mut config = ParserConfig::default();
    config
        .allow_spaces_after_header_name_in_responses(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        .allow_space_before_first_header_name(true)
        .ignore_invalid_headers_in_responses(true);
    match config.parse_response(&mut response, &whole) {
        Ok(Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return Err(no_head("its head has too many lines")),
        _ => return Err(no_head("its head is malformed")),
    }
    let lines = response.headers.iter();
    let lines = lines.map(|line| (line.name.to_owned(), unfolded(line.value)));
    Ok((status, lines.collect()))
}

/// The status of `HTTP/1.1 200 OK`: the first number of three digits after the version.
fn status_of(line: &[u8]) -> Option<u16> {
    let line = text(line.get(..64).unwrap_or(line));
    let mut words = line.split_ascii_whitespace();
    let version = words.next()?.to_ascii_uppercase();
    let digits = words.next()?.get(..3)?;
    let is_known = version.starts_with("HTTP/") || version == "HTTP" || version == "ICY";
    let status = digits
        .parse()
        .ok()
        .filter(|status| (100..1000).contains(status));
    status.filter(|_| is_known)
}

/// A value whose lines are joined by single spaces (RFC 9112 section 5.2).
fn unfolded(value: &[u8]) -> Vec<u8> {
    if memchr::memchr(b'\n', value).is_none() {
        return value.to_vec();
    }
    let lines = value.split(|byte| *byte == b'\n');
    let lines: Vec<&[u8]> = lines.map(<[u8]>::trim_ascii).collect();
    lines.join(&b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stored: &[u8]) -> Result<Response, String> {
        Response::read(stored, 1_000).map_err(|error| error.to_string())
    }

    #[test]
    fn a_type_may_have_a_cap_of_its_own() {
        let cap = Cap {
            most: 2,
            of_type: Some(("application/pdf", 4)),
        };
        for (media, kept) in [
            ("application/pdf", 4),
            (" Application/PDF; x=y", 4),
            ("application/pdf ;x=y", 4),
            ("application/pdfx", 2),
            ("text/html", 2),
            ("", 2),
        ] {
            let stored = format!("HTTP/1.1 200 OK\r\nContent-Type: {media}\r\n\r\n12345");
            let response = Response::read(stored.as_bytes(), cap).unwrap();
            assert_eq!(
                (response.body.len(), response.truncated),
                (kept, true),
                "{media}"
            );
        }
    }

    #[test]
    fn heads_of_every_form() {
        for (head, status) in [
            ("HTTP/1.1 200 OK\r\nA: b\r\n\r\n", 200),
            ("HTTP/1.0 404\r\nA: b\r\n\r\n", 404),
            ("HTTP/2 301 \r\nA: b\r\n\r\n", 301),
            ("HTTP/1.1  200OK\nA: b\n\n", 200),
            ("HTTP/1.1 200 \u{dc}bel\r\nA : b\r\nno header\r\n\r\n", 200),
            ("ICY 200 OK\r\na:b\r\n\r\n", 200),
            ("http/1.1 999 Odd\r\nA:\r\n b\r\n\r\n", 999),
        ] {
            let response = read([head, "body"].concat().as_bytes()).unwrap();
            assert_eq!(response.status, status, "{head}");
            assert_eq!(response.header("a"), Some(&b"b"[..]), "{head}");
            assert_eq!(response.body, "body", "{head}");
        }
        let folded = b"HTTP/1.1 200 OK\r\nA: one\r\n\ttwo\r\nB: \xfc\xff\r\n\r\n";
        let response = read(folded).unwrap();
        assert_eq!(response.header("A"), Some(&b"one two"[..]));
        assert_eq!(response.header("B"), Some(&b"\xfc\xff"[..]));
        assert_eq!(
            read(b"HTTP/1.1 204 No Content\r\nA: b").unwrap().status,
            204
        );
        for bad in [
            "",
            "<html>",
            "HTTP/1.1 OK\r\n\r\n",
            "HTTP/1.1 20\r\n\r\n",
            "GET / HTTP/1.1",
        ] {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
        let long = [b"HTTP/1.1 200 OK\r\n".as_slice(), &[b'a'; MAX_HEAD]].concat();
        assert!(read(&long).unwrap_err().contains("no end"));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(600));
        assert!(read(many.as_bytes()).unwrap_err().contains("too many"));
    }

    #[test]
    fn it_becomes_what_a_fetch_gives() {
        let stored = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\
            ETag: \"a\xfc\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
            X-Robots-Tag: noai\r\nX-Robots-Tag: noindex\r\nTDM-Reservation: 1\r\n\
            Link: </a>; rel=b\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ntext\r\n0\r\n\r\n";
        let response = read(stored).unwrap();
        assert_eq!(response.charset().as_deref(), Some("utf-8"));
        let fetched = response.into_fetched();
        assert_eq!((fetched.status, fetched.body.as_ref()), (200, &b"text"[..]));
        let media = fetched.content_type.as_deref();
        assert_eq!(media, Some("text/html; charset=utf-8"));
        assert_eq!(fetched.terms.robots_tags, ["noai", "noindex"]);
        assert_eq!(fetched.terms.tdm_reservation, ["1"]);
        assert_eq!(fetched.terms.links, ["</a>; rel=b"]);
        assert_eq!(fetched.validators.etag.as_deref(), Some("\"a\u{fc}\""));
        assert!(fetched.validators.last_modified.is_some() && !fetched.truncated);
        let cut = read(&stored[..stored.len() - 8]).unwrap();
        assert!(cut.cut && cut.into_fetched().truncated);
    }

    #[test]
    fn charsets_of_common_crawl() {
        let stored = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\
            x-commoncrawl-DetectedCharset: ISO-8859-1\r\n\r\n";
        let response = read(stored).unwrap();
        assert_eq!(response.charset().as_deref(), Some("ISO-8859-1"));
        let quoted = b"HTTP/1.1 200 OK\r\nContent-Type: a/b; x=y; Charset=\"Big5\"\r\n\r\n";
        assert_eq!(read(quoted).unwrap().charset().as_deref(), Some("Big5"));
    }

    proptest::proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn no_response_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
            drop(read(&bytes));
            drop(read(&[b"HTTP/1.1 200 OK\r\n", bytes.as_slice()].concat()));
        }
    }
}
