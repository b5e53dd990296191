//! A request for a part of a file (RFC 9110 section 14). A crawl does not use it.

use std::time::{Duration, SystemTime};

use reqwest::header::{ACCEPT_ENCODING, CONTENT_RANGE, HOST, HeaderMap, HeaderValue, RANGE};
use reqwest::{Method, Request, Response, StatusCode};

use super::body::ExchangeWatch;
use super::error::{FetchError, FetchFailure, Phase};
use super::{Fetcher, headers};
use crate::address::PageUrl;

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its bytes, fewer than requested at the end of the file.
    pub bytes: Vec<u8>,
    /// The length of the file, if the server says so.
    pub total: Option<u64>,
}

/// Why a request for a part failed.
#[derive(Debug)]
pub enum PartFailure {
    /// The request failed.
    Fetch(FetchError),
    /// The file is elsewhere.
    Moved(PageUrl),
    /// The server sends whole files only.
    Whole,
    /// The server sent a different part.
    Other,
}

impl From<FetchError> for PartFailure {
    fn from(error: FetchError) -> Self {
        Self::Fetch(error)
    }
}

/// Bytes that may take as long as a whole response in a crawl.
const TIMED: u64 = 1 << 20;

impl Fetcher {
    /// Requests at most `length` bytes of a file from `offset` on, as stored. Each MiB may take
    /// [`Options::total_timeout`](super::Options::total_timeout).
    ///
    /// # Errors
    ///
    /// [`PartFailure`].
    pub async fn part(&self, url: &PageUrl, offset: u64, length: u64) -> Result<Part, PartFailure> {
        let (inner, host) = (&*self.inner, url.host());
        let route = inner.router.route(url)?;
        let last = offset.saturating_add(length.max(1)) - 1;
        let mut request = Request::new(Method::GET, route.url);
        let headers = request.headers_mut();
        let range = HeaderValue::from_str(&format!("bytes={offset}-{last}"));
        headers.extend(range.map(|range| (RANGE, range)));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.extend(route.host_header.map(|header| (HOST, header)));
        let times = u32::try_from(length.div_ceil(TIMED)).unwrap_or(u32::MAX);
        let whole = inner.options.total_timeout.saturating_mul(times.max(1));
        let (open, _underway) = inner.underway.enter(whole);
        let mut watch = ExchangeWatch::start(whole, inner.options.read_timeout, open);
        let sending = route.client.execute(request);
        let mut response = watch.head(host, || Duration::ZERO, sending).await?;
        let total = total(response.headers());
        match response.status() {
            StatusCode::PARTIAL_CONTENT => {}
            // There is nothing after the end.
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
        while let Some(chunk) = watch.within(host, Phase::Body, response.chunk()).await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() as u64 > length {
                bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
                break;
            }
        }
        // A part that is too short would be mistaken for the end of the file.
        let wanted = total.map(|total| length.min(total.saturating_sub(offset)));
        if wanted.is_some_and(|wanted| (bytes.len() as u64) < wanted) {
            return Err(PartFailure::Other);
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
    let retry_after = headers::retry_after(head, SystemTime::now());
    PartFailure::Fetch(
        FetchFailure::Status {
            status,
            retry_after,
        }
        .into(),
    )
}

/// The range and total of `Content-Range: bytes 0-99/1234`.
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
