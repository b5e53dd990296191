//! What was sent and received, as text, for an archive.

use std::net::IpAddr;

use bytes::Bytes;
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderValue,
    TRANSFER_ENCODING, USER_AGENT,
};
use reqwest::{Request, Response, Version};

use super::headers;
use crate::page::Wire;

/// The content codings that can be removed.
pub(super) const CODINGS: HeaderValue = HeaderValue::from_static("gzip, br, zstd, deflate");

/// The most bytes of the body of an answer that is no document: a redirect, an error.
pub(super) const ASIDE_CAP: usize = 64 << 10;

/// The head of a request. Headers that the client adds itself come first.
pub(super) fn request(request: &Request, user_agent: &str) -> Vec<u8> {
    let url = request.url();
    let mut head = format!("GET {}", url.path()).into_bytes();
    if let Some(query) = url.query() {
        head.push(b'?');
        head.extend_from_slice(query.as_bytes());
    }
    head.extend_from_slice(b" HTTP/1.1\r\n");
    let sent = request.headers();
    if !sent.contains_key(HOST) {
        let port = url.port().map(|port| format!(":{port}"));
        let host = url.host_str().unwrap_or_default();
        let host = format!("{host}{}", port.unwrap_or_default());
        line(&mut head, HOST.as_str(), host.as_bytes());
    }
    if !sent.contains_key(USER_AGENT) {
        line(&mut head, USER_AGENT.as_str(), user_agent.as_bytes());
    }
    lines(&mut head, sent);
    head
}

/// A response as far as its head tells, with no body yet.
pub(super) fn response(
    response: &Response,
    request: Vec<u8>,
    ip: Option<IpAddr>,
    cap: usize,
) -> Wire {
    let status = response.status();
    let reason = status.canonical_reason().unwrap_or_default();
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", status.as_str()).into_bytes();
    lines(&mut head, response.headers());
    let codings = response.headers().get_all(CONTENT_ENCODING);
    let codings = codings.iter().map(headers::text).collect::<Vec<_>>();
    let codings: Vec<String> = codings
        .iter()
        .flat_map(|value| value.split(','))
        .map(|coding| coding.trim().to_ascii_lowercase())
        .filter(|coding| !coding.is_empty() && coding != "identity")
        .collect();
    let content_type = response.headers().get(CONTENT_TYPE);
    let is_image = content_type.is_some_and(|value| value.as_bytes().starts_with(b"image/"));
    Wire {
        asked: crate::clock::now(),
        ip,
        protocol: match response.version() {
            Version::HTTP_2 => "h2",
            Version::HTTP_10 => "http/1.0",
            _ => "http/1.1",
        },
        status: status.as_u16(),
        request,
        response: head,
        body: Bytes::new(),
        truncated: false,
        is_compressed: is_image || !codings.is_empty(),
        codings,
        cap,
    }
}

/// Adds all headers and the empty line behind them.
fn lines(head: &mut Vec<u8>, headers: &HeaderMap) {
    for (name, value) in headers {
        // The chunks were joined by the client.
        let name = match name {
            name if name == TRANSFER_ENCODING => "x-orig-transfer-encoding",
            name => name.as_str(),
        };
        line(head, name, value.as_bytes());
    }
    head.extend_from_slice(b"\r\n");
}

fn line(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    head.extend_from_slice(name.as_bytes());
    head.extend_from_slice(b": ");
    head.extend_from_slice(value);
    head.extend_from_slice(b"\r\n");
}

/// Asks for the content codings that can be removed.
pub(super) fn accept(headers: &mut HeaderMap) {
    headers.insert(ACCEPT_ENCODING, CODINGS);
}
