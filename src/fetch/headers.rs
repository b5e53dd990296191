//! The head of a response: redirect target, delay, version and terms of use; and the
//! headers of a conditional request.

use std::time::{Duration, SystemTime};

use reqwest::header::{
    CONTENT_ENCODING, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    LOCATION, RETRY_AFTER, TRANSFER_ENCODING,
};

use super::error::{FetchError, FetchFailure, Received};
use crate::address::PageUrl;
use crate::coding::Coding;
use crate::page::{TermsHeaders, Validators};

/// Whether a status redirects (RFC 9110 section 15.4). 300 counts if it names a preferred
/// choice; 304, 305 and 306 never do.
pub(super) fn is_redirect(status: u16, headers: &HeaderMap) -> bool {
    match status {
        301 | 302 | 303 | 307 | 308 => true,
        300 => headers.contains_key(LOCATION),
        _ => false,
    }
}

/// The redirect target of a stored answer with this status and these headers, by the rules of a
/// fetch; `None` if it is not a redirect.
///
/// # Errors
///
/// [`FetchFailure::BadRedirect`] if it has no usable target.
pub fn stored_redirect(
    from: &PageUrl,
    status: u16,
    lines: &[(String, Vec<u8>)],
) -> Option<Result<PageUrl, FetchError>> {
    let mut headers = HeaderMap::new();
    for (_, value) in lines
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case(LOCATION.as_str()))
    {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(LOCATION, value);
        }
    }
    is_redirect(status, &headers).then(|| {
        let mut to = redirect_target(from, &headers);
        if to.as_ref() == Ok(from) {
            to = Err("it points at itself".to_owned());
        }
        to.map_err(|why| FetchError {
            kind: FetchFailure::BadRedirect {
                status,
                retry_after: None,
                why,
            },
            seen: Received {
                status: Some(status),
                ..Received::default()
            },
        })
    })
}

/// Whether several targets are named. Browsers take the first.
pub(super) fn has_targets(headers: &HeaderMap) -> bool {
    let mut all = headers.get_all(LOCATION).iter();
    let first = all.next();
    all.any(|other| Some(other) != first)
}

/// The target of a redirect (RFC 9110 section 10.2.2), which may be the same address, or why
/// it is unusable.
pub(super) fn redirect_target(from: &PageUrl, headers: &HeaderMap) -> Result<PageUrl, String> {
    let Some(location) = headers.get(LOCATION) else {
        return Err("it has no Location header".to_owned());
    };
    let location = escaped(location);
    if location.trim().is_empty() {
        return Err("its Location header is empty".to_owned());
    }
    from.join(&location).map_err(|e| e.to_string())
}

/// The delay that the server asks for (RFC 9110 section 10.2.3): seconds or a date; the longest one
/// if there are several. Uncapped. A date in the past means no delay, and invalid values are
/// ignored.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let values = headers.get_all(RETRY_AFTER).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    texts.filter_map(|text| wait(text.trim(), now)).max()
}

/// The delay of one line.
fn wait(text: &str, now: SystemTime) -> Option<Duration> {
    match httpdate::parse_http_date(text) {
        Ok(date) => Some(date.duration_since(now).unwrap_or_default()),
        // A proxy may have joined several lines.
        Err(_) => text.split(',').filter_map(seconds).max(),
    }
}

fn seconds(text: &str) -> Option<Duration> {
    let text = text.trim();
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    // More digits than fit into 64 bits still mean a very long delay.
    is_number.then(|| Duration::from_secs(text.parse().unwrap_or(u64::MAX)))
}

/// The codings of a body in the order in which they were applied, those of the transfer last.
/// The client joins chunks, which are the last one if there are any (RFC 9112 section 6.1).
pub(super) fn codings(headers: &HeaderMap) -> Vec<Coding> {
    let listed = |name: HeaderName| Coding::list(headers.get_all(name).iter().map(text));
    let mut transfer = listed(TRANSFER_ENCODING);
    if transfer.last() == Some(&Coding::Unknown("chunked".to_owned())) {
        transfer.pop();
    }
    let mut all = listed(CONTENT_ENCODING);
    all.append(&mut transfer);
    all
}

/// The headers that state terms of use.
pub(super) fn terms(headers: &HeaderMap) -> TermsHeaders {
    TermsHeaders::of(|name| headers.get_all(name).iter().map(text).collect())
}

/// The server's identifiers for this version of the page (RFC 9110 section 8.8).
pub(super) fn validators(headers: &HeaderMap) -> Validators {
    Validators::of(|name| headers.get(name).map(HeaderValue::as_bytes))
}

/// The condition that asks for any other version (RFC 9110 sections 13.1.2 and 13.1.3). Both
/// headers are sent if both values are known: a server that supports `If-None-Match` must ignore
/// the other one.
pub(super) fn condition(known: &Validators) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        (IF_NONE_MATCH, &known.etag),
        (IF_MODIFIED_SINCE, &known.last_modified),
    ] {
        let bytes = value.iter().flat_map(|text| text.chars());
        let bytes: Result<Vec<u8>, _> = bytes.map(u8::try_from).collect();
        if let (true, Ok(bytes)) = (value.is_some(), bytes)
            && let Ok(value) = HeaderValue::from_bytes(&bytes)
        {
            headers.insert(name, value);
        }
    }
    headers
}

/// A header's text, from any bytes.
pub(super) fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// A Location with its non-ASCII bytes percent-encoded. Servers send them raw, mostly as
/// UTF-8; encoded, the server receives the same bytes back.
fn escaped(value: &HeaderValue) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.as_bytes() {
        if byte.is_ascii() {
            out.push(char::from(*byte))
        } else {
            out.push_str(&format!("%{byte:02X}"))
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use reqwest::header::{ETAG, LAST_MODIFIED};

    use super::*;

    /// Maximum length of a stored validator.
    const MAX_VALIDATOR: usize = 1024;

    fn location(bytes: &[u8]) -> Result<String, String> {
        let from = PageUrl::parse("https://example.org/a/b?q").unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, HeaderValue::from_bytes(bytes).unwrap());
        redirect_target(&from, &headers).map(|to| to.to_string())
    }

    #[test]
    fn locations() {
        for (given, expected) in [
            ("http://other.org/x", "http://other.org/x"),
            ("//other.org/x", "https://other.org/x"),
            ("/x", "https://example.org/x"),
            ("c", "https://example.org/a/c"),
            ("?r", "https://example.org/a/b?r"),
            ("/x#part", "https://example.org/x"),
            ("#x", "https://example.org/a/b?q"),
            (" /x ", "https://example.org/x"),
            ("/ü", "https://example.org/%C3%BC"),
            ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ] {
            assert_eq!(location(given.as_bytes()).unwrap(), expected);
        }
        assert_eq!(location(b"/\xfc").unwrap(), "https://example.org/%FC");
        for bad in ["", "  ", "mailto:a@b.org", "javascript:1", "http://"] {
            assert!(location(bad.as_bytes()).is_err(), "{bad:?}");
        }
        let from = PageUrl::parse("https://example.org/").unwrap();
        assert!(redirect_target(&from, &HeaderMap::new()).is_err());
    }

    #[test]
    fn retry_after_forms() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        for (given, expected) in [
            ("0", Some(0)),
            ("120", Some(120)),
            (" 7 ", Some(7)),
            ("31536000000", Some(31_536_000_000)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sunday, 06-Nov-94 08:50:37 GMT", Some(60)),
            ("Sun Nov  6 08:50:37 1994", Some(60)),
            ("Sun, 06 Nov 1994 08:49:36 GMT", Some(0)),
            ("3, 90, 5", Some(90)),
            ("soon, 4", Some(4)),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_str(given).unwrap());
            let expected = expected.map(Duration::from_secs);
            assert_eq!(retry_after(&headers, now), expected, "{given:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
        let mut headers = HeaderMap::new();
        for value in ["5", "soon", "Sun, 06 Nov 1994 08:50:37 GMT", "0"] {
            headers.append(RETRY_AFTER, HeaderValue::from_static(value));
        }
        let longest = Some(Duration::from_secs(60));
        assert_eq!(retry_after(&headers, now), longest, "of several lines");
    }

    #[test]
    fn validators_come_back_as_they_were_received() {
        for etag in [
            &b"\"abc\""[..],
            b"W/\"0815\"",
            b"no-quotes",
            b"\"\xfc\x80\"",
            &[b'x'; MAX_VALIDATOR],
        ] {
            let date = b"Sun, 06 Nov 1994 08:49:37 +0000 or so";
            let mut headers = HeaderMap::new();
            headers.insert(ETAG, HeaderValue::from_bytes(etag).unwrap());
            headers.insert(LAST_MODIFIED, HeaderValue::from_bytes(date).unwrap());
            let sent = condition(&validators(&headers));
            assert_eq!(sent.get(IF_NONE_MATCH).unwrap().as_bytes(), etag);
            assert_eq!(sent.get(IF_MODIFIED_SINCE).unwrap().as_bytes(), date);
        }
        for none in [&[b'x'; MAX_VALIDATOR + 1][..], b""] {
            let mut headers = HeaderMap::new();
            headers.insert(ETAG, HeaderValue::from_bytes(none).unwrap());
            assert!(validators(&headers).is_empty());
        }
        // A value that is not valid in a header is omitted as a whole.
        let odd = Validators {
            etag: Some("\u{416}".to_owned()),
            last_modified: Some("a\nb".to_owned()),
        };
        assert!(condition(&odd).is_empty());
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn no_header_panics(bytes in proptest::collection::vec(32u8..=255, 0..80)) {
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                let mut headers = HeaderMap::new();
                headers.insert(LOCATION, value.clone());
                headers.insert(RETRY_AFTER, value.clone());
                headers.insert(ETAG, value.clone());
                if let Some(sent) = condition(&validators(&headers)).get(IF_NONE_MATCH) {
                    prop_assert_eq!(sent, &value);
                }
                let from = PageUrl::parse("https://example.org/").unwrap();
                redirect_target(&from, &headers).ok();
                retry_after(&headers, SystemTime::now());
                text(&value);
            }
        }
    }
}
