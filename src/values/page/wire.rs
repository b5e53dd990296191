//! An exchange as it was on the wire.

use std::net::IpAddr;

use bytes::Bytes;

/// A request and its response as they were sent, for an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wire {
    /// When the request was sent at the earliest, in milliseconds since 1970.
    pub asked: u64,
    /// The address of the server; `None` behind a proxy.
    pub ip: Option<IpAddr>,
    /// The protocol that was spoken, as WARC names it: `http/1.1` or `h2`.
    pub protocol: &'static str,
    /// The status.
    pub status: u16,
    /// The head of the request, with the empty line behind it.
    pub request: Vec<u8>,
    /// The head of the response, with the empty line behind it.
    pub response: Vec<u8>,
    /// The body as received, in its content coding.
    pub body: Bytes,
    /// The rest of the body was not read.
    pub truncated: bool,
    /// The body cannot be compressed much further: it has a coding, or is an image.
    pub is_compressed: bool,
}
