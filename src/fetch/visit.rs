//! The cookies of one visit (RFC 6265). Some servers set a cookie with a redirect, to the same
//! address or to another one of the host, and show the page only to clients that send it back.
//! Cookies that a redirect sets are sent with the one request that follows it, and then forgotten.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use cookie::Cookie;
use reqwest::header::{HeaderMap, HeaderValue, SET_COOKIE};

use super::headers::text;
use crate::address::PageUrl;

/// Maximum number of visits in progress.
const VISITS: usize = 1_000;
/// Maximum number of cookies of a visit, and their total size in bytes.
const COOKIES: usize = 50;
const BYTES: usize = 8 << 10;

/// Names and values.
pub(super) type Cookies = Vec<(String, String)>;

/// The cookies of the visits in progress, by the next address.
#[derive(Debug, Default)]
pub(super) struct VisitCookies(Mutex<HashMap<PageUrl, Cookies>>);

impl VisitCookies {
    /// The cookies for a request to an address, which are removed here.
    pub fn take(&self, url: &PageUrl) -> Cookies {
        self.lock().remove(url).unwrap_or_default()
    }

    /// Stores cookies for the next request to an address.
    pub fn put(&self, url: PageUrl, cookies: Cookies) {
        let mut all = self.lock();
        if all.len() >= VISITS {
            // Some redirects lead to addresses that are never requested.
            all.clear();
        }
        all.insert(url, cookies);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PageUrl, Cookies>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The cookies of a visit after an answer: the earlier ones, and those that the answer sets for the
/// next address. `None` if it sets none, or none that would be sent there.
pub(super) fn after(
    had: &Cookies,
    url: &PageUrl,
    next: &PageUrl,
    head: &HeaderMap,
) -> Option<Cookies> {
    if url.host() != next.host() {
        return None;
    }
    let mut all = had.clone();
    let mut is_changed = false;
    for line in head.get_all(SET_COOKIE) {
        let line = text(line);
        let Ok(cookie) = Cookie::parse(line.as_str()) else {
            continue;
        };
        if !is_for(&cookie, url, next) {
            continue;
        }
        let pair = (cookie.name().to_owned(), cookie.value().to_owned());
        is_changed |= !all.contains(&pair);
        all.retain(|(name, _)| *name != pair.0);
        if !is_over(&cookie) {
            all.push(pair);
        }
    }
    let bytes: usize = all
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    let fits = all.len() <= COOKIES && bytes <= BYTES;
    (is_changed && fits && !all.is_empty()).then_some(all)
}

/// The header with cookies; `None` without any.
pub(super) fn header(cookies: &Cookies) -> Option<HeaderValue> {
    let pairs = cookies
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    let line = pairs.collect::<Vec<_>>().join("; ");
    let value = HeaderValue::from_str(&line).ok();
    value.filter(|_| !line.is_empty())
}

/// Whether a cookie that `url` sets belongs to a request to `next` (RFC 6265 sections 5.1.3,
/// 5.1.4 and 5.4).
fn is_for(cookie: &Cookie<'_>, url: &PageUrl, next: &PageUrl) -> bool {
    let host = url.host();
    let of_domain = cookie.domain().is_none_or(|domain| {
        let domain = domain.trim_start_matches('.').to_ascii_lowercase();
        host == domain || host.ends_with(&format!(".{domain}"))
    });
    let path = next.path();
    let of_path = cookie
        .path()
        .filter(|of| of.starts_with('/'))
        .is_none_or(|of| {
            let rest = path.strip_prefix(of);
            rest.is_some_and(|rest| rest.is_empty() || of.ends_with('/') || rest.starts_with('/'))
        });
    of_domain && of_path && (next.scheme() == "https" || cookie.secure() != Some(true))
}

/// Whether a cookie removes itself.
fn is_over(cookie: &Cookie<'_>) -> bool {
    if let Some(age) = cookie.max_age() {
        return !age.is_positive();
    }
    let until = cookie.expires_datetime().map(SystemTime::from);
    until.is_some_and(|until| until <= SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(lines: &[&str], url: &str, next: &str) -> Option<String> {
        let mut head = HeaderMap::new();
        for line in lines {
            head.append(SET_COOKIE, HeaderValue::from_str(line).unwrap());
        }
        let [url, next] = [url, next].map(|text| PageUrl::parse(text).unwrap());
        let had = vec![("old".to_owned(), "1".to_owned())];
        let all = after(&had, &url, &next, &head)?;
        Some(header(&all)?.to_str().unwrap().to_owned())
    }

    #[test]
    fn what_an_answer_sets_goes_to_the_next_request_of_the_host() {
        let page = "https://www.a.test/x/y";
        for (lines, next, sent) in [
            (&["a=1; Path=/; HttpOnly"][..], page, Some("old=1; a=1")),
            (&["a=1", "b=2; Secure"], page, Some("old=1; a=1; b=2")),
            (&["a=1; Domain=.A.test"], page, Some("old=1; a=1")),
            (&["old=2"], page, Some("old=2")),
            (&["a=\"q\""], page, Some("old=1; a=\"q\"")),
            (
                &["a=1; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT"],
                page,
                Some("old=1; a=1"),
            ),
            (&["a=1; Path=/x"], page, Some("old=1; a=1")),
            // Nothing new, or nothing for that address.
            (&[], page, None),
            (&["old=1"], page, None),
            (&["a=1; Path=/z"], page, None),
            (&["a=1; Path=/x/"], "https://www.a.test/x", None),
            (&["a=1; Domain=b.test"], page, None),
            (&["a=1; Domain=w.a.test"], page, None),
            (&["a=1; Secure"], "http://www.a.test/x/y", None),
            (&["a=1"], "https://a.test/x/y", None),
            (&["nothing"], page, None),
        ] {
            assert_eq!(set(lines, page, next).as_deref(), sent, "{lines:?} {next}");
        }
        let gone = set(&["old=; Max-Age=0", "a=1"], page, page);
        assert_eq!(gone.as_deref(), Some("a=1"));
        let past = set(
            &["old=; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "a=1"],
            page,
            page,
        );
        assert_eq!(past.as_deref(), Some("a=1"));
        let long = format!("a={}", "x".repeat(BYTES));
        assert_eq!(set(&[&long], page, page), None);
    }

    #[test]
    fn a_visit_has_its_cookies_once() {
        let visits = VisitCookies::default();
        let url = PageUrl::parse("http://a.test/").unwrap();
        let cookies = vec![("a".to_owned(), "1".to_owned())];
        visits.put(url.clone(), cookies.clone());
        assert_eq!(visits.take(&url), cookies);
        assert_eq!(visits.take(&url), Cookies::new());
    }
}
