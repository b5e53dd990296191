//! Addresses: the canonical URL, its host key and its SURT form.
//!
//! Everything here is pure. A [`PageUrl`] is canonical from the moment it exists, so
//! comparing two of them *is* the test for "already seen"; no other module compares URLs
//! as raw text. This module does not know DNS, scope or what an address is used for.

mod parts;
mod plain;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::{Host, Url};
use xxhash_rust::xxh3::xxh3_64;

use parts::Parts;

/// The longest URL that is followed, in bytes of its canonical form.
///
/// RFC 9110 section 4.1 recommends that 8,000 octets be supported; pages with
/// longer addresses are, in practice, generated without end.
pub const MAX_URL_BYTES: usize = 8_000;

/// The longest text that is parsed. Text longer than this is refused even if its canonical
/// form would be short enough, for example because it is mostly escapes or a fragment.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// Why a text is not a crawlable address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The text is not a URL by the WHATWG URL standard.
    #[error("`{text}` is not a URL: {why}; write it in full, as in https://example.org/page")]
    Syntax {
        /// The text, shortened to 200 characters, without user name and password.
        text: String,
        /// The parser's error.
        why: String,
    },
    /// The scheme is neither `http` nor `https`.
    #[error("`{scheme}:` addresses are not crawled, only http and https")]
    Scheme {
        /// The scheme, shortened to 200 characters.
        scheme: String,
    },
    /// The URL has no host, or an empty one.
    #[error("`{text}` has no host")]
    NoHost {
        /// The text, shortened to 200 characters, without user name and password.
        text: String,
    },
    /// The host has an empty label, so DNS cannot resolve it.
    #[error(
        "`{host}` is not a valid host: it has an empty label (two adjacent dots or a leading dot); write it as in www.example.org"
    )]
    EmptyLabel {
        /// The host, shortened to 200 characters.
        host: String,
    },
    /// The canonical form is longer than [`MAX_URL_BYTES`].
    #[error("the address is {bytes} bytes long, more than the limit of {MAX_URL_BYTES}")]
    TooLong {
        /// Length of the canonical form in bytes.
        bytes: usize,
    },
}

/// A canonical `http` or `https` URL.
///
/// Canonical means: parsed and serialised by the WHATWG URL standard (lower-case host,
/// punycode, no default port, dot segments resolved), without fragment, user name and
/// password, without an empty query and without a trailing dot of the host;
/// percent-encodings of unreserved characters are decoded and the rest written in upper
/// case (RFC 3986 section 6.2.2). None of this changes which resource is fetched. Parsing
/// the text of a `PageUrl` gives an equal one.
// Clones share the text: a link is handed from stage to stage many times.
#[derive(Clone, Eq, JsonSchema)]
pub struct PageUrl(#[schemars(with = "Url")] Arc<Parts>);

impl PartialEq for PageUrl {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.as_str() == other.as_str()
    }
}

impl Hash for PageUrl {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl PartialOrd for PageUrl {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PageUrl {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

/// XXH3 of an address, shown as 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UrlId(u64);

impl fmt::Display for UrlId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for UrlId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl PageUrl {
    /// Parses an absolute URL.
    ///
    /// ```
    /// use spoor::address::PageUrl;
    ///
    /// let url = PageUrl::parse("HTTP://WWW.Example.org:80/a/../b%7e?#top")?;
    /// assert_eq!(url.as_str(), "http://www.example.org/b~");
    /// assert_eq!(PageUrl::parse(url.as_str())?, url);
    ///
    /// let link = url.join("../c?page=2")?;
    /// assert_eq!(link.as_str(), "http://www.example.org/c?page=2");
    /// assert!(url.join("mailto:me@example.org").is_err());
    /// # Ok::<(), spoor::address::AddressError>(())
    /// ```
    ///
    /// # Errors
    /// [`AddressError`] names what is wrong with `text`.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        Self::from_stored(text)?.with_labels()
    }

    /// Parses the text of an address that was stored earlier. Accepts empty host labels:
    /// an older store may hold hosts that are refused today.
    ///
    /// # Errors
    ///
    /// As [`PageUrl::parse`], except [`AddressError::EmptyLabel`].
    pub fn from_stored(text: &str) -> Result<Self, AddressError> {
        let short = short_enough(text)?;
        match plain::absolute(short) {
            Some(parts) => Ok(Self(Arc::new(parts))),
            None => Self::parsed(short, text),
        }
    }

    fn parsed(short: &str, text: &str) -> Result<Self, AddressError> {
        Self::canonical(Url::parse(short).map_err(|e| syntax(text, &e))?, text)
    }

    /// Resolves `href`, as found on a page, against this address.
    ///
    /// # Errors
    /// As [`PageUrl::parse`].
    pub fn join(&self, href: &str) -> Result<Self, AddressError> {
        let short = short_enough(href)?;
        // A place on the same page, as most links of a long page are.
        if (short.is_empty() || short.starts_with('#')) && self.0.has_labels {
            return Ok(self.clone());
        }
        match plain::resolved(&self.0, short) {
            Some(parts) => Ok(Self(Arc::new(parts))),
            None => match plain::spelled_out(&self.0, short) {
                Some(full) => Self::parsed(&full, href)?.with_labels(),
                None => self.join_parsed(short, href),
            },
        }
    }

    fn join_parsed(&self, short: &str, href: &str) -> Result<Self, AddressError> {
        let base = Url::parse(self.as_str()).map_err(|e| syntax(self.as_str(), &e))?;
        let url = base.join(short).map_err(|e| syntax(href, &e))?;
        Self::canonical(url, href)?.with_labels()
    }

    /// Refuses a host with an empty label.
    fn with_labels(self) -> Result<Self, AddressError> {
        if self.0.has_labels {
            Ok(self)
        } else {
            Err(AddressError::EmptyLabel {
                host: self.host().chars().take(200).collect(),
            })
        }
    }

    fn canonical(mut url: Url, text: &str) -> Result<Self, AddressError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(AddressError::Scheme {
                scheme: url.scheme().chars().take(200).collect(),
            });
        }
        let no_host = || AddressError::NoHost {
            text: shortened(text),
        };
        let host = url.host_str().unwrap_or_default();
        let trimmed = match url.host() {
            Some(Host::Domain(domain)) => domain.trim_end_matches('.'),
            _ => host,
        };
        if trimmed.is_empty() {
            return Err(no_host());
        }
        if trimmed != host {
            let trimmed = trimmed.to_owned();
            url.set_host(Some(&trimmed)).map_err(|e| syntax(text, &e))?;
        }
        url.set_fragment(None);
        if !url.username().is_empty() || url.password().is_some() {
            url.set_username("").map_err(|()| no_host())?;
            url.set_password(None).map_err(|()| no_host())?;
        }
        if let Some(path) = normal_escapes(url.path()) {
            url.set_path(&path);
        }
        match url.query() {
            Some("") => url.set_query(None),
            Some(query) => {
                if let Some(normal) = normal_escapes(query) {
                    url.set_query(Some(&normal));
                }
            }
            None => {}
        }
        let bytes = url.as_str().len();
        if bytes > MAX_URL_BYTES {
            return Err(AddressError::TooLong { bytes });
        }
        Ok(Self(Arc::new(Parts::of(url))))
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        self.0.text()
    }

    /// The address as `url` has it, parsed at each call.
    ///
    /// # Errors
    /// None for an address that this version made.
    pub fn to_url(&self) -> Result<Url, url::ParseError> {
        Url::parse(self.as_str())
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &str {
        self.0.scheme()
    }

    /// The host without port: a domain, an IPv4 address or a bracketed IPv6 one.
    pub fn host(&self) -> &str {
        self.0.host()
    }

    /// The host, if it is an IP address.
    pub fn ip(&self) -> Option<IpAddr> {
        let host = self.host();
        let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        match inner {
            Some(v6) => v6.parse().ok().map(IpAddr::V6),
            None => host.parse().ok().map(IpAddr::V4),
        }
    }

    /// The port to connect to; the default of the scheme if the URL has none.
    pub fn port(&self) -> u16 {
        let default = if self.scheme() == "https" { 443 } else { 80 };
        self.0.port().unwrap_or(default)
    }

    /// Whether the address names a port, which is never the default of its scheme.
    pub fn has_port(&self) -> bool {
        self.0.port().is_some()
    }

    /// Path and query, as in a request line.
    pub fn path_and_query(&self) -> &str {
        self.0.path_and_query()
    }

    /// The path alone, beginning with `/`.
    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// The query without `?`; never empty.
    pub fn query(&self) -> Option<&str> {
        self.0.query()
    }

    /// The short id of the address in the log. It is the same in every process.
    pub fn id(&self) -> UrlId {
        UrlId(xxh3_64(self.as_str().as_bytes()))
    }

    /// The text of [`PageUrl::host_key`].
    pub fn authority(&self) -> &str {
        self.0.authority()
    }

    /// The politeness unit this address belongs to.
    pub fn host_key(&self) -> HostKey {
        HostKey(self.authority().to_owned())
    }

    /// The address of the robots.txt that governs this address (RFC 9309 section 2.3).
    pub fn robots_url(&self) -> PageUrl {
        let path = "/robots.txt";
        Self(Arc::new(self.0.with_path(&[path], path.len())))
    }

    /// The Sort-friendly URI Reordering Transform, without scheme:
    /// `org,example,www)/path?query`.
    ///
    /// The host's labels are reversed, so that a prefix of the text covers a domain with
    /// its subdomains, and a longer prefix covers a folder. A port other than the scheme's
    /// default is written before the parenthesis, as in `org,example:8080)/`. IP addresses
    /// keep their order.
    pub fn surt(&self) -> String {
        let mut out = String::with_capacity(self.as_str().len());
        if self.ip().is_some() {
            out.push_str(self.host());
        } else {
            for (i, label) in self.host().rsplit('.').enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(label);
            }
        }
        if let Some(port) = self.0.port() {
            out.push(':');
            out.push_str(&port.to_string());
        }
        out.push(')');
        out.push_str(self.path_and_query());
        out
    }
}

impl fmt::Display for PageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for PageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageUrl({})", self.as_str())
    }
}

impl std::str::FromStr for PageUrl {
    type Err = AddressError;
    fn from_str(text: &str) -> Result<Self, AddressError> {
        Self::parse(text)
    }
}

impl Serialize for PageUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for PageUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_stored(&text).map_err(serde::de::Error::custom)
    }
}

/// The unit of politeness: a host, with its port if that is not the default of the scheme.
/// `http://example.org/` and `https://example.org/` share one key, and so one clock;
/// robots rules are kept per scheme.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostKey(String);

impl HostKey {
    /// The key as text, `example.org` or `example.org:8080`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The registered domain of this host by the public suffix list
    /// (<https://publicsuffix.org>), `example.co.uk` for `www.example.co.uk:8080`. The
    /// private part of the list is included, so `a.github.io` and `b.github.io` are two
    /// domains. An IP address or a name that is itself a public suffix is returned as it
    /// is, without port.
    pub fn registered_domain(&self) -> &str {
        let host = match self.0.rsplit_once(':') {
            Some((host, _)) if !self.0.ends_with(']') => host,
            _ => &self.0,
        };
        if host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok() {
            return host;
        }
        psl::domain_str(host).unwrap_or(host)
    }

    /// Takes a key from stored text.
    pub fn from_stored(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostKey({})", self.0)
    }
}

fn syntax(text: &str, why: &url::ParseError) -> AddressError {
    AddressError::Syntax {
        text: shortened(text),
        why: why.to_string(),
    }
}

fn short_enough(text: &str) -> Result<&str, AddressError> {
    let text = text.trim();
    let bytes = text.len();
    if bytes > MAX_TEXT_BYTES {
        Err(AddressError::TooLong { bytes })
    } else {
        Ok(text)
    }
}

/// Shortens a text for messages, which must not repeat a password. The text may not be a
/// URL, so everything between the slashes after the scheme and an `@` is removed.
fn shortened(text: &str) -> String {
    let short = |text: &str| text.chars().take(200).collect::<String>();
    let authority = text.find(['/', '\\']).map(|at| {
        let rest = text[at..].trim_start_matches(['/', '\\']);
        text.len() - rest.len()
    });
    let begin = authority.unwrap_or(0);
    let end = text[begin..].find(['/', '\\', '?', '#']);
    let end = end.map_or(text.len(), |at| begin + at);
    match text[begin..end].rfind('@') {
        Some(at) => short(&format!("{}...{}", &text[..begin], &text[begin + at..])),
        None => short(text),
    }
}

/// Decodes the escapes of unreserved characters and writes the others in upper case. A `%`
/// that starts no escape is left alone, and no digit after it is decoded if that would
/// complete an escape. `.` stays encoded: a decoded dot segment would be resolved, and a
/// different path fetched. `None` where nothing changes.
fn normal_escapes(text: &str) -> Option<String> {
    if !text.contains('%') {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // Where in `out` the digits after a `%` that starts no escape would be.
    let mut open = 0..0;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let hex = rest.as_bytes().get(at + 1..at + 3);
        let byte = hex
            .and_then(|h| std::str::from_utf8(h).ok())
            .filter(|h| h.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|h| u8::from_str_radix(h, 16).ok());
        match byte {
            Some(b)
                if (b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'~'))
                    && !(b.is_ascii_hexdigit() && open.contains(&out.len())) =>
            {
                out.push(char::from(b));
                rest = &rest[at + 3..];
            }
            Some(b) => {
                out.push_str(&format!("%{b:02X}"));
                rest = &rest[at + 3..];
            }
            None => {
                out.push('%');
                open = out.len()..out.len() + 2;
                rest = &rest[at + 1..];
            }
        }
    }
    out.push_str(rest);
    (out != text).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical(text: &str) -> String {
        PageUrl::parse(text).unwrap().to_string()
    }

    /// Found by fuzzing: a scheme has no length of its own.
    #[test]
    fn a_scheme_without_end_is_not_repeated() {
        let refused = PageUrl::parse(&format!("{}:x", "Ht..".repeat(900))).unwrap_err();
        assert!(matches!(refused, AddressError::Scheme { .. }), "{refused}");
        assert!(refused.to_string().len() < 300, "{refused}");
    }

    #[test]
    fn hosts_with_empty_labels_are_refused() {
        let base = PageUrl::parse("http://example.org/").unwrap();
        for text in [
            "http://.test/",
            "http://a..test/x",
            "https://..a.test:8443/",
            "http://a%2e.test/",
            "http://a\u{3002}.test/",
        ] {
            let refused = PageUrl::parse(text).unwrap_err();
            let empty = matches!(refused, AddressError::EmptyLabel { .. });
            assert!(empty, "{text}: {refused}");
            assert_eq!(base.join(text), Err(refused), "{text}");
            // What is stored is not judged again.
            let stored = PageUrl::from_stored(text).unwrap();
            let json = serde_json::to_string(&stored).unwrap();
            assert_eq!(serde_json::from_str::<PageUrl>(&json).unwrap(), stored);
        }
        let said = PageUrl::parse("http://a..test/").unwrap_err().to_string();
        assert!(said.starts_with("`a..test` is not a valid host"), "{said}");
        assert_eq!(canonical("http://a.test./"), "http://a.test/");
        assert_eq!(canonical("http://[::1]/"), "http://[::1]/");
    }

    #[test]
    fn canonical_form_table() {
        for (given, expected) in [
            ("HTTP://Example.ORG", "http://example.org/"),
            ("http://example.org:80/a#top", "http://example.org/a"),
            ("https://example.org:443/?", "https://example.org/"),
            ("https://example.org:8443/", "https://example.org:8443/"),
            ("http://user:secret@example.org/a", "http://example.org/a"),
            ("http://example.org./a/../b/./c", "http://example.org/b/c"),
            (
                "http://example.org/%7euser/%c3%bc",
                "http://example.org/~user/%C3%BC",
            ),
            (
                "http://example.org/ü?q=ä b",
                "http://example.org/%C3%BC?q=%C3%A4%20b",
            ),
            (
                "http://example.org/a%2fb%2Eb",
                "http://example.org/a%2Fb%2Eb",
            ),
            ("http://example.org/100%", "http://example.org/100%"),
            (
                "http://example.org/?%%30a%4%31",
                "http://example.org/?%%30a%4%31",
            ),
            ("http://example.org/%%7a%2%7a", "http://example.org/%z%2z"),
            ("http://bücher.example/", "http://xn--bcher-kva.example/"),
            ("http://0x7f.1/", "http://127.0.0.1/"),
            (
                " http://example.org/a?b=1&a=2 ",
                "http://example.org/a?b=1&a=2",
            ),
        ] {
            assert_eq!(canonical(given), expected, "{given}");
        }
    }

    #[test]
    fn refusals_name_the_reason() {
        assert!(matches!(
            PageUrl::parse("ftp://a.org/"),
            Err(AddressError::Scheme { .. })
        ));
        assert!(matches!(
            PageUrl::parse("javascript:alert(1)"),
            Err(AddressError::Scheme { .. })
        ));
        assert!(matches!(
            PageUrl::parse("/relative"),
            Err(AddressError::Syntax { .. })
        ));
        assert!(matches!(
            PageUrl::parse("http://./"),
            Err(AddressError::NoHost { .. } | AddressError::Syntax { .. })
        ));
        let long = format!("http://example.org/{}", "a".repeat(MAX_URL_BYTES));
        assert!(matches!(
            PageUrl::parse(&long),
            Err(AddressError::TooLong { .. })
        ));
        // Told by its length alone, though its canonical form would be short.
        let fragment = format!("#{}", "a".repeat(MAX_TEXT_BYTES));
        let base = PageUrl::parse("http://example.org/").unwrap();
        assert!(matches!(
            base.join(&fragment),
            Err(AddressError::TooLong { .. })
        ));
    }

    #[test]
    fn passwords_are_not_repeated() {
        for text in [
            "http://user:secret@a b/",
            "http://user:secret@example.org:99999/",
            "https:\\\\user:secret@[::1/",
            "http:/user:se@cret@a b",
            "//user:secret@example.org/",
            "user:secret@example.org",
            "http://user:secret@/",
        ] {
            let why = PageUrl::parse(text).unwrap_err().to_string();
            assert!(!why.contains("cret"), "{text}: {why}");
        }
        let why = PageUrl::parse("http://a b/c@d").unwrap_err().to_string();
        assert!(why.contains("http://a b/c@d"), "{why}");
    }

    #[test]
    fn keys_surt_and_robots() {
        let url = PageUrl::parse("https://www.example.org/wiki/Cat?x=1").unwrap();
        assert_eq!(url.host_key().as_str(), "www.example.org");
        assert_eq!(url.surt(), "org,example,www)/wiki/Cat?x=1");
        assert_eq!(
            url.robots_url().as_str(),
            "https://www.example.org/robots.txt"
        );
        let port = PageUrl::parse("http://127.0.0.1:8080/a").unwrap();
        assert_eq!(port.host_key().as_str(), "127.0.0.1:8080");
        assert_eq!(port.surt(), "127.0.0.1:8080)/a");
        assert_eq!(
            PageUrl::parse("http://example.org/").unwrap().host_key(),
            PageUrl::parse("https://example.org/").unwrap().host_key()
        );
    }

    #[test]
    fn registered_domains() {
        for (url, expected) in [
            ("http://example.org/", "example.org"),
            ("http://a.b.example.org:8080/", "example.org"),
            ("http://www.example.co.uk/", "example.co.uk"),
            ("http://cat.github.io/", "cat.github.io"),
            ("http://co.uk/", "co.uk"),
            ("http://www.calendar.test/", "calendar.test"),
            ("http://localhost:1/", "localhost"),
            ("http://127.0.0.1:8080/", "127.0.0.1"),
            ("http://[::1]:8080/", "[::1]"),
            ("http://[2001:db8::1]/", "[2001:db8::1]"),
            ("http://www.bücher.example.de/", "example.de"),
        ] {
            let key = PageUrl::parse(url).unwrap().host_key();
            assert_eq!(key.registered_domain(), expected, "{url}");
        }
    }

    #[test]
    fn join_resolves_like_a_browser() {
        let base = PageUrl::parse("http://example.org/a/b.html?q").unwrap();
        for (href, expected) in [
            ("c.html", "http://example.org/a/c.html"),
            ("../d", "http://example.org/d"),
            ("//other.org/x", "http://other.org/x"),
            ("?r=1", "http://example.org/a/b.html?r=1"),
            ("\n https://example.org/ \t", "https://example.org/"),
        ] {
            assert_eq!(base.join(href).unwrap().as_str(), expected);
        }
        assert!(base.join("mailto:a@b.org").is_err());
    }

    proptest! {
        #![proptest_config(crate::tests::usual())]

        #[test]
        fn canonical_is_idempotent(text in "https?://[a-zA-Z0-9.%-]{1,20}(:[0-9]{1,4})?(/([ -~ü]{0,20}|[%0-4a]{0,20}))?") {
            if let Ok(url) = PageUrl::parse(&text) {
                prop_assert_eq!(PageUrl::parse(url.as_str()).unwrap(), url);
            }
        }

        /// What needs no parser is what the parser makes of it.
        #[test]
        fn plain_addresses_are_as_parsed(
            base in "https?://(a.b|www.c-d.org|x--y.z|1.2.3.4|\\[::1\\]|a.b:8080|a..b|ü.de)(/(a/|b%7C/|/|:x/|[.]{1,3}/|x|'|[|])*)([?]q=[%'?]?[37]?)?",
            href in "(https?:)?(//)?(a.b|www.c-d.org|a[.]|xn--p1ai|0x7f.1|9|)(:80|:81)?([.]{0,3}/|[a-z]|:|%[0-9A-Fa-f][0-9A-Fa-f]|%|[ -~]|[\\x00-\\x1F]|ü){0,12}([?#]([ -~]|%[0-9A-F]{2}){0,6}){0,2}",
        ) {
            if let Ok(base) = PageUrl::from_stored(&base) {
                let (short, parts) = (href.trim(), |url: PageUrl| url.0);
                prop_assert_eq!(base.join(&href).map(parts), base.join_parsed(short, &href).map(parts));
                let parsed = PageUrl::parsed(short, &href);
                prop_assert_eq!(PageUrl::from_stored(&href).map(parts), parsed.map(parts));
            }
        }

        #[test]
        fn join_never_panics(href in "\\PC{0,60}") {
            let base = PageUrl::parse("http://example.org/a/b?c").unwrap();
            if let Ok(url) = base.join(&href) {
                prop_assert!(matches!(url.scheme(), "http" | "https"));
                prop_assert!(!url.host().is_empty());
            }
        }
    }
}
