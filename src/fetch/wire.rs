//! What was sent and received, as text, for an archive.

use std::net::IpAddr;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HOST, HeaderMap, TRANSFER_ENCODING, USER_AGENT};
use reqwest::{Request, Response, Version};

use super::identity::SIGNATURE_HEADERS;
use crate::page::Wire;

/// Maximum size of the body of a non-document answer: a redirect or an error.
pub(super) const ASIDE_CAP: usize = 64 << 10;

/// The head of a request. Headers that the client adds by itself come first.
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
    // A signature is a credential for as long as it is valid.
    let mut sent = sent.clone();
    for name in SIGNATURE_HEADERS {
        sent.remove(name);
    }
    lines(&mut head, &sent);
    head
}

/// A response from its head, without a body yet.
pub(super) fn response(
    response: &Response,
    request: Vec<u8>,
    ip: Option<IpAddr>,
    is_coded: bool,
) -> Wire {
    let status = response.status();
    let reason = status.canonical_reason().unwrap_or_default();
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", status.as_str()).into_bytes();
    lines(&mut head, response.headers());
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
        is_compressed: is_image || is_coded,
    }
}

/// Appends all headers and the following empty line.
fn lines(head: &mut Vec<u8>, headers: &HeaderMap) {
    for (name, value) in headers {
        // The client has joined the chunks.
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
