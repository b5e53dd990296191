//! Addresses: the canonical URL, its host key and its SURT form.
//!
//! Everything here is pure. A [`PageUrl`] is canonical from the moment it exists, so
//! comparing two of them *is* the test for "already seen"; no other module compares URLs
//! as raw text. This module does not know DNS, scope or what an address is used for.

mod parts;
mod plain;
#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::{Host, Url};
use xxhash_rust::xxh3::xxh3_64;

use parts::AddressParts;

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
pub struct PageUrl(#[schemars(with = "Url")] Arc<AddressParts>);

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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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
    /// use spoor_values::address::PageUrl;
    ///
    /// let url = PageUrl::parse("HTTP://WWW.Example.org:80/a/../b%7e?#top")?;
    /// assert_eq!(url.as_str(), "http://www.example.org/b~");
    /// assert_eq!(PageUrl::parse(url.as_str())?, url);
    ///
    /// let link = url.join("../c?page=2")?;
    /// assert_eq!(link.as_str(), "http://www.example.org/c?page=2");
    /// assert!(url.join("mailto:me@example.org").is_err());
    /// # Ok::<(), spoor_values::address::AddressError>(())
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
        // A position on the same page, like most links of a long page.
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
        let url = resolve(&base, short).map_err(|e| syntax(href, &e))?;
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
        Ok(Self(Arc::new(AddressParts::of(url))))
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        self.0.text()
    }

    /// The address as a [`Url`], parsed at each call.
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

/// Top-level domains that are never looked up: RFC 6761 (`test`, `invalid`, `localhost`),
/// RFC 7686 (`onion`) and RFC 9476 (`alt`).
const NEVER_LOOKED_UP: [&str; 5] = ["test", "invalid", "localhost", "onion", "alt"];

/// Whether a host, with or without a port, is below a domain that is never looked up.
pub fn is_reserved(name: &str) -> bool {
    let name = name.split(':').next().unwrap_or(name).trim_end_matches('.');
    let top = name.rsplit('.').next().unwrap_or(name);
    NEVER_LOOKED_UP.iter().any(|t| top.eq_ignore_ascii_case(t))
}

/// Resolves a text against an address. More than two slashes before a host count as two (URL
/// standard, "special authority ignore slashes state"), which the parser does only for absolute
/// addresses.
pub fn resolve(base: &Url, text: &str) -> Result<Url, url::ParseError> {
    let mut slashes = 0;
    for (at, c) in text.char_indices() {
        match c {
            '/' | '\\' => slashes += 1,
            // The parser removes these everywhere.
            '\t' | '\n' | '\r' => {}
            _ if slashes > 2 => return base.join(&format!("//{}", &text[at..])),
            _ => break,
        }
    }
    base.join(text)
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
/// different path fetched. `None` if nothing changes.
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
        let since = out.as_bytes().get(open.start..).unwrap_or_default();
        let completes = open.contains(&out.len()) && since.iter().all(u8::is_ascii_hexdigit);
        match byte {
            Some(b)
                if (b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'~'))
                    && !(b.is_ascii_hexdigit() && completes) =>
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
