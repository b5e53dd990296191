//! The key by which indexes of archives are sorted, in the form of the Python package `surt`,
//! which pywb, `cdxj-indexer` and Common Crawl use.
//!
//! It is coarser than [`PageUrl::surt`](crate::address::PageUrl::surt), which distinguishes all
//! addresses: here `www.`, the case of the path, the order of the query and session ids make no
//! difference, so that an address is found in any spelling.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;
use url::Host;

/// Session ids in a query, with the text around each.
static IN_QUERY: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    all(&[
        "(?i)^(.*)(?:jsessionid=[0-9a-z]{32})(?:&(.*))?$",
        "(?i)^(.*)(?:phpsessid=[0-9a-z]{32})(?:&(.*))?$",
        "(?i)^(.*)(?:sid=[0-9a-z]{32})(?:&(.*))?$",
        "(?i)^(.*)(?:aspsessionid[a-z]{8}=[a-z]{24})(?:&(.*))?$",
        "(?i)^(.*)(?:cfid=[^&]+&cftoken=[^&]+)(?:&(.*))?$",
    ])
});

/// Session ids in the path of an ASP.NET page, with the text around each.
static IN_PATH: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    all(&[
        r"(?i)^(.*/)(?:\((?:[a-z]\([0-9a-z]{24}\))+\)/)([^?]+\.aspx.*)$",
        r"(?i)^(.*/)(?:\([0-9a-z]{24}\)/)([^?]+\.aspx.*)$",
    ])
});

/// Hosts that resolvers read as an IPv4 address.
static AS_IP: LazyLock<Vec<Regex>> =
    LazyLock::new(|| all(&[r"^[1-9][0-9]*(\.[0-9]+){0,3}$", r"^0[0-7]*(\.[0-7]+){0,3}$"]));

fn all(patterns: &[&str]) -> Vec<Regex> {
    // The patterns are constants, and a test uses each.
    patterns.iter().filter_map(|p| Regex::new(p).ok()).collect()
}

/// The key of an address, as `org,example)/path?query`. Every text has one, and none has
/// white space.
///
/// ```
/// use spoor_archive::surt::key;
///
/// assert_eq!(key("https://WWW.Example.org:443/A/?b=2&a=1#x"), "org,example)/a?a=1&b=2");
/// ```
pub fn key(url: &str) -> String {
    let url = url.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}');
    let url: String = url.chars().filter(|c| !"\n\r\t".contains(*c)).collect();
    if url.is_empty() {
        return "-".to_owned();
    }
    if url.starts_with("filedesc") {
        return escaped(url.as_bytes());
    }
    let url = with_one_scheme(&url);
    key_of(&url).unwrap_or_else(|| escaped(url.as_bytes()))
}

/// Whether the text begins with a scheme.
fn scheme(url: &str) -> Option<&str> {
    let (scheme, _) = url.split_once(':')?;
    let is_first = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_rest = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    (is_first && scheme.chars().all(is_rest)).then_some(scheme)
}

/// The address with a scheme; of several `http://`, one after another, the last.
fn with_one_scheme(url: &str) -> Cow<'_, str> {
    if scheme(url).is_none() {
        return format!("http://{url}").into();
    }
    let mut rest = url;
    loop {
        let begin = ["http://", "https://"]
            .into_iter()
            .find(|b| rest.starts_with(b));
        match begin.and_then(|begin| rest.get(begin.len()..)) {
            Some(inner) if inner.starts_with("http://") || inner.starts_with("https://") => {
                rest = inner;
            }
            _ => return rest.into(),
        }
    }
}

/// `None` if the port is not a number.
fn key_of(url: &str) -> Option<String> {
    let scheme = scheme(url)?;
    let rest = url.get(scheme.len() + 1..)?;
    let rest = rest.split('#').next().unwrap_or_default();
    let (before, query) = match rest.split_once('?') {
        Some((before, query)) => (before, Some(query)),
        None => (rest, None),
    };
    let (authority, path) = match before.strip_prefix("//") {
        Some(after) => after.split_at(after.find('/').unwrap_or(after.len())),
        None => ("", before),
    };
    let (mut host, port) = host_and_port(authority.trim_end_matches(':'))?;
    let mut path = path.to_owned();
    if scheme.starts_with("http") && host.is_empty() && !path.is_empty() {
        // As in `http:////www.example.org/`.
        let bare = path.trim_start_matches('/');
        let (first, after) = bare.split_once('/').unwrap_or((bare, ""));
        (host, path) = (first.to_owned(), format!("/{after}"));
    }
    let mut path = unescaped(path.as_bytes());
    let mut out = if host.is_empty() {
        format!("{scheme}:")
    } else {
        path = normal_path(&path);
        let mut out = reversed(&host_key(&host));
        let usual = match scheme.to_ascii_lowercase().as_str() {
            "http" => 80,
            "https" => 443,
            _ => 0,
        };
        if let Some(port) = port.filter(|port| *port != usual) {
            out.push_str(&format!(":{port}"));
        }
        out.push(')');
        out
    };
    let mut path = escaped(&path).to_ascii_lowercase();
    for id in IN_PATH.iter() {
        path = without(id, &path).unwrap_or(path);
    }
    if path.len() > 1 && path.ends_with('/') {
        path.pop();
    }
    let query = query.map(query_key).filter(|query| !query.is_empty());
    if path.is_empty() && query.is_some() {
        path.push('/');
    }
    out.push_str(&path);
    if let Some(query) = query {
        out.push('?');
        out.push_str(&query);
    }
    Some(out)
}

/// The host without user name and password, and the port.
fn host_and_port(authority: &str) -> Option<(String, Option<u32>)> {
    let info = authority.rsplit('@').next().unwrap_or_default();
    let (host, port) = match info.split_once('[') {
        Some((_, inner)) => {
            let (host, after) = inner.split_once(']').unwrap_or((inner, ""));
            (host, after.strip_prefix(':').unwrap_or_default())
        }
        None => info.split_once(':').unwrap_or((info, "")),
    };
    let port = match port {
        "" => None,
        digits if digits.bytes().all(|b| b.is_ascii_digit()) => {
            let port = digits.parse::<u32>().ok().filter(|port| *port <= 65_535)?;
            Some(port).filter(|port| *port > 0)
        }
        _ => return None,
    };
    Some((host.to_lowercase(), port))
}

fn host_key(host: &str) -> String {
    let host = unescaped(host.as_bytes());
    let mut host = match String::from_utf8(host) {
        Ok(host) if host.is_ascii() => host,
        Ok(host) => Host::parse(&host).map_or(host, |host| host.to_string()),
        Err(error) => escaped(error.as_bytes()),
    };
    host = host.replace("..", ".").trim_matches('.').to_lowercase();
    if AS_IP.iter().any(|ip| ip.is_match(&host))
        && let Ok(Host::Ipv4(ip)) = Host::parse(&host)
    {
        host = ip.to_string();
    }
    let host = escaped(host.as_bytes()).to_ascii_lowercase();
    let digits = host.strip_prefix("www");
    let bare = digits.map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    let bare = bare.and_then(|rest| rest.strip_prefix('.'));
    bare.map_or(host.clone(), str::to_owned)
}

fn reversed(host: &str) -> String {
    host.rsplit('.').collect::<Vec<_>>().join(",")
}

/// The path without dot segments and double slashes.
fn normal_path(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/').skip(1) {
        match part {
            b"." => {}
            b".." if !kept.is_empty() => {
                kept.pop();
            }
            part => kept.push(part),
        }
    }
    let last = kept.len().saturating_sub(1);
    let parts = kept.into_iter().enumerate();
    let parts = parts.filter(|(at, part)| *at == last || !part.is_empty());
    let parts: Vec<&[u8]> = parts.map(|(_, part)| part).collect();
    [b"/".as_slice(), &parts.join(&b'/')].concat()
}

fn query_key(query: &str) -> String {
    let mut query = escaped(&unescaped(query.as_bytes()));
    for id in IN_QUERY.iter() {
        query = without(id, &query).unwrap_or(query);
    }
    let query = query.to_ascii_lowercase();
    let mut pairs: Vec<Vec<&str>> = query
        .split('&')
        .map(|pair| pair.splitn(2, '=').collect())
        .collect();
    pairs.sort();
    let pairs: Vec<String> = pairs.into_iter().map(|pair| pair.join("=")).collect();
    pairs.join("&")
}

/// The text without the match between the two groups of a pattern.
fn without(pattern: &Regex, text: &str) -> Option<String> {
    let found = pattern.captures(text)?;
    let group = |n| found.get(n).map_or("", |group| group.as_str());
    Some(format!("{}{}", group(1), group(2)))
}

/// Decodes escapes until none is left.
fn unescaped(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    while memchr::memchr(b'%', &bytes).is_some() {
        let decoded: Vec<u8> = percent_encoding::percent_decode(&bytes).collect();
        if decoded.len() == bytes.len() {
            break;
        }
        bytes = decoded;
    }
    bytes
}

/// Escapes everything but printable ASCII, and also `#` and `%`.
fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'#' | b'%' => out.push_str(&format!("%{byte:02X}")),
            byte if byte.is_ascii_graphic() => out.push(char::from(*byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The results of the Python package surt 0.3.1.
    #[test]
    fn keys_are_those_of_other_programs() {
        let id = "0123456789abcdef0123456789ABCDEF";
        let asp = "abcdefghijklmnopqrstuvwx";
        for (url, expected) in [
            ("http://www.example.org/", "org,example)/"),
            ("http://www2.Example.org:80", "org,example)/"),
            ("https://example.org:8443/", "org,example:8443)/"),
            ("http://example.org/A/B/", "org,example)/a/b"),
            ("http://example.org/a//b/../c/./d", "org,example)/a/c/d"),
            (
                "http://example.org/?b&a=2&a=1&b=",
                "org,example)/?a=1&a=2&b&b=",
            ),
            ("http://example.org/%7euser/%2525", "org,example)/~user/%25"),
            ("http://example.org?x=1#y", "org,example)/?x=1"),
            ("http://example.org/?", "org,example)/"),
            ("http://user:secret@example.org/", "org,example)/"),
            ("http://127.0.0.1:8000/a", "1,0,0,127:8000)/a"),
            ("http://[::1]:80/", "::1)/"),
            (
                "http://b\u{fc}cher.example/\u{fc}",
                "example,xn--bcher-kva)/%c3%bc",
            ),
            ("http://http://example.org/", "org,example)/"),
            ("example.org/a b", "org,example)/a%20b"),
            ("dns:www.example.org", "dns:www.example.org"),
            ("urn:some:ID", "urn:some:id"),
            ("", "-"),
        ] {
            assert_eq!(key(url), expected, "{url}");
        }
        for (path, expected) in [
            (format!("?a=1&sid={id}&b=2"), "?a=1&b=2"),
            (format!("?PHPSESSID={id}"), ""),
            (format!("?x&jsessionid={id}"), "?&x"),
            (format!("?ASPSESSIONIDabcdefgh={asp}&q=1"), "?q=1"),
            ("?cfid=1&cftoken=2&q=1".to_owned(), "?q=1"),
            (format!("(a({asp}))/p.aspx"), "p.aspx"),
            (format!("({asp})/p.aspx?x"), "p.aspx?x"),
        ] {
            let url = format!("http://example.org/{path}");
            assert_eq!(key(&url), format!("org,example)/{expected}"), "{url}");
        }
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn every_text_has_a_key_without_spaces(text in "(http://|[a-z]:)?(\\PC|[\u{0}-\u{20}%]){0,30}") {
            let key = key(&text);
            prop_assert!(!key.is_empty());
            prop_assert!(key.bytes().all(|b| b.is_ascii_graphic()), "{key:?}");
        }
    }
}
