//! One request for a part of a file (RFC 9110 section 14). A crawl has no use for it.

use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_RANGE, HOST, HeaderMap, HeaderValue, RANGE};
use reqwest::{Method, Request, Response, StatusCode};
use tokio::time::{Instant, timeout, timeout_at};

use super::error::{FetchError, Phase, Received, classify};
use super::{Fetcher, headers};
use crate::address::PageUrl;

/// The most bytes of one part.
pub const MAX_PART: u64 = 64 << 20;
/// The least rate at which a part must come, in bytes per second.
const LEAST_RATE: u64 = 16 << 10;

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its bytes, fewer than wanted where the file ends.
    pub bytes: Vec<u8>,
    /// The length of the file, if the server says so.
    pub total: Option<u64>,
}

/// Why a request for a part gave none.
#[derive(Debug)]
pub enum PartFailure {
    /// The request failed.
    Fetch(FetchError),
    /// The file is elsewhere.
    Moved(PageUrl),
    /// The server sends whole files only.
    Whole,
    /// The server sent another part.
    Other,
}

impl From<FetchError> for PartFailure {
    fn from(error: FetchError) -> Self {
        Self::Fetch(error)
    }
}

impl Fetcher {
    /// Requests the bytes of a file from `offset` on: `length` of them at most, and never more
    /// than [`MAX_PART`]. Content codings are left. A part has `total_timeout` to come, and the
    /// time that it takes at [`LEAST_RATE`].
    ///
    /// # Errors
    ///
    /// [`PartFailure`].
    pub async fn part(&self, url: &PageUrl, offset: u64, length: u64) -> Result<Part, PartFailure> {
        let host = url.host();
        let length = length.min(MAX_PART);
        let route = self.inner.router.route(url)?;
        let last = offset.saturating_add(length.max(1)) - 1;
        let mut request = Request::new(Method::GET, route.url);
        let headers = request.headers_mut();
        let range = HeaderValue::from_str(&format!("bytes={offset}-{last}"));
        headers.extend(range.map(|range| (RANGE, range)));
        headers.extend(route.host_header.map(|header| (HOST, header)));
        let late = |phase| FetchError::Timeout {
            host: host.to_owned(),
            phase,
            seen: Received::default(),
        };
        let limit = self.inner.options.read_timeout;
        let whole = self.inner.options.total_timeout + Duration::from_secs(length / LEAST_RATE);
        let deadline = Instant::now() + whole;
        let sent = timeout(limit, route.client.execute(request)).await;
        let sent = sent.map_err(|_| late(Phase::Head))?;
        let mut response = sent.map_err(|error| classify(host, &error, Phase::Head))?;
        let total = total(response.headers());
        match response.status() {
            StatusCode::PARTIAL_CONTENT => {}
            // Nothing is behind the end.
            StatusCode::RANGE_NOT_SATISFIABLE => {
                let bytes = Vec::new();
                return Ok(Part { bytes, total });
            }
            StatusCode::OK => return Err(PartFailure::Whole),
            _ => return Err(refused(url, &response)),
        }
        if begin(response.headers()) != Some(offset) {
            return Err(PartFailure::Other);
        }
        let mut bytes = Vec::new();
        loop {
            let until = deadline.min(Instant::now() + limit);
            let chunk = timeout_at(until, response.chunk()).await;
            let chunk = chunk.map_err(|_| late(Phase::Body))?;
            let chunk = chunk.map_err(|error| classify(host, &error, Phase::Body))?;
            let Some(chunk) = chunk else { break };
            bytes.extend_from_slice(&chunk);
            if bytes.len() as u64 > length {
                bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
                break;
            }
        }
        Ok(Part { bytes, total })
    }
}

fn refused(url: &PageUrl, response: &Response) -> PartFailure {
    let (status, head) = (response.status().as_u16(), response.headers());
    if headers::is_redirect(status, head)
        && let Ok(to) = headers::redirect_target(url, head)
    {
        return PartFailure::Moved(to);
    }
    PartFailure::Fetch(FetchError::Status {
        status,
        retry_after: headers::retry_after(head, SystemTime::now()),
        seen: Received::default(),
    })
}

/// What `Content-Range: bytes 0-99/1234` says.
fn range(headers: &HeaderMap) -> Option<(&str, &str)> {
    let value = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    value.strip_prefix("bytes ")?.split_once('/')
}

fn total(headers: &HeaderMap) -> Option<u64> {
    range(headers)?.1.trim().parse().ok()
}

fn begin(headers: &HeaderMap) -> Option<u64> {
    range(headers)?.0.split('-').next()?.trim().parse().ok()
}
