//! An exchange as it was on the wire.

use std::net::IpAddr;

use bytes::Bytes;

/// A request and its response as they were sent, for an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wire {
    /// The earliest time at which the request can have been sent, in milliseconds since 1970.
    pub asked: u64,
    /// The address of the server; `None` behind a proxy.
    pub ip: Option<IpAddr>,
    /// The protocol used, as WARC names it: `http/1.1` or `h2`.
    pub protocol: &'static str,
    /// The status.
    pub status: u16,
    /// The head of the request, including the empty line after it.
    pub request: Vec<u8>,
    /// The head of the response, including the empty line after it.
    pub response: Vec<u8>,
    /// The body as received, in its content coding.
    pub body: Bytes,
    /// The rest of the body was not read.
    pub truncated: bool,
    /// The body cannot be compressed much further: it has a coding, or is an image.
    pub is_compressed: bool,
}
