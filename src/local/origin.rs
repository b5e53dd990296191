//! Determines the origin of a request to a local server: a page of the server itself, a program, or
//! a foreign page open in a browser on this machine. A foreign page can reach a loopback server in
//! two ways, and both are blocked here: DNS rebinding, which points the page's domain name at this
//! machine and shows in `Host`, and cross-site requests, which show in `Origin` and
//! `Sec-Fetch-Site`. Every browser sets these headers, and no page can change them.
//!
//! This module does not know what is served or whether a password is required.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::Response;

/// The headers of every response. A page may load and run only its own parts, and no other
/// origin may load them.
const HEADERS: [(HeaderName, &str); 8] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    // Otherwise browsers resolve the hosts of links before anyone follows them.
    (header::X_DNS_PREFETCH_CONTROL, "off"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (header::CACHE_CONTROL, "no-store"),
];

/// The origin of a request, as its headers state it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// A page of this server.
    Own,
    /// A page of another server.
    Foreign,
    /// A program: browsers always send the headers.
    Unsaid,
}

/// The `Host` of a request if it names this machine; with `remote`, any IP address is
/// accepted.
pub fn own_host(headers: &HeaderMap, remote: bool) -> Option<&str> {
    let host = headers.get(header::HOST)?.to_str().ok()?;
    is_own(host, remote).then_some(host)
}

/// The origin of a request that named `host`.
pub fn sender(headers: &HeaderMap, host: &str) -> Sender {
    let value = |name: &str| headers.get(name).map(HeaderValue::as_bytes);
    let own = |origin: &[u8]| {
        let schemes = ["http://", "https://"];
        schemes
            .iter()
            .any(|scheme| origin == format!("{scheme}{host}").as_bytes())
    };
    let is_own = match (value("origin"), value("sec-fetch-site")) {
        (None, None) => return Sender::Unsaid,
        (Some(origin), site) => own(origin) && site.is_none_or(|s| s == b"same-origin"),
        (None, Some(site)) => site == b"same-origin",
    };
    if is_own { Sender::Own } else { Sender::Foreign }
}

/// Adds the headers that keep a browser from running or showing a response elsewhere.
/// Headers that are already set stay.
pub fn put_headers(response: &mut Response) {
    for (name, value) in HEADERS {
        let header = response.headers_mut().entry(name);
        header.or_insert(HeaderValue::from_static(value));
    }
}

/// Whether a `Host` names this machine, or is any IP address if remote clients are
/// allowed. A web site can point its name here (DNS rebinding), but it cannot own one of
/// these names. Any port is accepted, because it may be that of a tunnel.
fn is_own(host: &str, remote: bool) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|n| n.strip_suffix(']'));
    match bare.unwrap_or(name).parse::<IpAddr>() {
        Ok(address) => remote || address.is_loopback(),
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_a_web_site_could_have_named_are_refused() {
        for host in [
            "127.0.0.1:8080",
            "localhost:1",
            "LOCALHOST",
            "[::1]:80",
            "127.9.9.9",
        ] {
            assert!(is_own(host, false) && is_own(host, true), "{host}");
        }
        for host in ["192.168.0.7:8080", "10.0.0.1", "[fe80::1]:4"] {
            assert!(!is_own(host, false) && is_own(host, true), "{host}");
        }
        for host in [
            "evil.test:8080",
            "127.0.0.1.evil.test",
            "localhost.evil.test",
            "",
            ":80",
            "1",
        ] {
            assert!(!is_own(host, false) && !is_own(host, true), "{host}");
        }
    }

    #[test]
    fn requests_from_another_site_are_distinguished_from_those_of_the_page() {
        let asked = |pairs: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, HeaderValue::from_str(value).unwrap());
            }
            sender(&headers, "127.0.0.1:80")
        };
        let own = ("origin", "http://127.0.0.1:80");
        assert_eq!(asked(&[own]), Sender::Own);
        let same = ("sec-fetch-site", "same-origin");
        assert_eq!(asked(&[own, same]), Sender::Own);
        assert_eq!(asked(&[same]), Sender::Own);
        assert_eq!(asked(&[]), Sender::Unsaid);
        let cross = ("sec-fetch-site", "cross-site");
        assert_eq!(asked(&[own, cross]), Sender::Foreign);
        for origin in [
            "null",
            "http://evil.test",
            "http://127.0.0.1:81",
            "127.0.0.1:80",
        ] {
            assert_eq!(asked(&[("origin", origin)]), Sender::Foreign, "{origin}");
        }
        let near = ("sec-fetch-site", "same-site");
        assert_eq!(asked(&[near]), Sender::Foreign);
    }
}
