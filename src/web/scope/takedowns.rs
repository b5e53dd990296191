//! The takedown list: addresses, hosts and bytes that no crawl of the job fetches or keeps
//! again.
//!
//! Addresses are compared by their SURT form, so one order covers both schemes. This is the list
//! and its lookup; it does not know files or what was removed.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::address::{HostKey, PageUrl};

/// Why a text is not a target for a takedown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Not a host name.
    #[error("`{0}` is not a host; write it as www.example.org, 127.0.0.1:8080 or *.example.org")]
    Host(String),
    /// Not a SHA-256.
    #[error("`{0}` is not a SHA-256 of 64 hexadecimal digits")]
    Digest(String),
}

/// What an order takes down.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// One address, with either scheme, as a page and as an image.
    Url(PageUrl),
    /// All addresses of hosts.
    Host(HostRange),
    /// All images with these bytes.
    Sha256(Sha256Hex),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => write!(f, "url {url}"),
            Self::Host(host) => write!(f, "host {host}"),
            Self::Sha256(digest) => write!(f, "sha256 {digest}"),
        }
    }
}

/// One host, or all below a domain.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum HostRange {
    /// This host at this port; the schemes' default ports if it has none.
    Exact(HostKey),
    /// This domain and every host below it, at any port.
    Below(String),
}

impl HostRange {
    /// Whether it covers a host.
    pub fn covers(&self, host: &HostKey) -> bool {
        match self {
            Self::Exact(own) => own == host,
            Self::Below(domain) => {
                let name = host.as_str().rsplit_once(':');
                let name = name.map_or(host.as_str(), |(name, _)| name);
                let rest = name.strip_suffix(domain.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }
        }
    }
}

impl fmt::Display for HostRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => write!(f, "{host}"),
            Self::Below(domain) => write!(f, "*.{domain}"),
        }
    }
}

impl FromStr for HostRange {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let wrong = || TargetError::Host(text.chars().take(200).collect());
        let below = text.strip_prefix("*.");
        let name = below.unwrap_or(text);
        let url = PageUrl::parse(&format!("http://{name}/")).map_err(|_| wrong())?;
        let other = name.is_empty() || name.contains(['/', '@', '?', '#', '*', '\\']);
        let has_port = url.has_port();
        if other || url.path_and_query() != "/" || (below.is_some() && has_port) {
            return Err(wrong());
        }
        Ok(match below {
            Some(_) => Self::Below(url.host().to_owned()),
            None => Self::Exact(url.host_key()),
        })
    }
}

impl TryFrom<String> for HostRange {
    type Error = TargetError;

    fn try_from(text: String) -> Result<Self, TargetError> {
        text.parse()
    }
}

impl From<HostRange> for String {
    fn from(host: HostRange) -> Self {
        host.to_string()
    }
}

/// A SHA-256 as 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256Hex(String);

impl Sha256Hex {
    /// The SHA-256 of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(base16ct::lower::encode_string(&Sha256::digest(bytes)))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Sha256Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Sha256Hex {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let digits = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        if digits {
            Ok(Self(text.to_ascii_lowercase()))
        } else {
            Err(TargetError::Digest(text.chars().take(200).collect()))
        }
    }
}

impl TryFrom<String> for Sha256Hex {
    type Error = TargetError;

    fn try_from(text: String) -> Result<Self, TargetError> {
        text.parse()
    }
}

impl From<Sha256Hex> for String {
    fn from(digest: Sha256Hex) -> Self {
        digest.0
    }
}

/// One line of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// When it was given, RFC 3339 in UTC.
    pub time: String,
    /// What it takes down.
    #[serde(flatten)]
    pub target: Target,
    /// Why, in the operator's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, on {}", self.target, self.time)?;
        match &self.reason {
            Some(reason) => write!(f, " ({reason})"),
            None => Ok(()),
        }
    }
}

/// All orders of a job, each target once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Takedowns {
    orders: Vec<Order>,
    /// Indices of the orders, by the compared form.
    surts: HashMap<String, usize>,
    hosts: HashMap<HostKey, usize>,
    below: Vec<usize>,
    digests: HashMap<String, usize>,
}

impl Takedowns {
    /// Parses the lines of the list.
    ///
    /// # Errors
    ///
    /// The number of the first invalid line, from 1, and the problem.
    pub fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut all = Self::default();
        for (line, text) in (1..).zip(text.lines()) {
            if !text.trim().is_empty() {
                let order = serde_json::from_str(text).map_err(|e| (line, e.to_string()))?;
                all.add(order);
            }
        }
        Ok(all)
    }

    /// The list as lines of JSON.
    pub fn to_lines(&self) -> String {
        // Strings always serialise.
        let line = |order| serde_json::to_string(order).unwrap_or_default() + "\n";
        self.orders.iter().map(line).collect()
    }

    /// Adds an order, unless its target is already in the list.
    pub fn add(&mut self, order: Order) {
        let place = self.orders.len();
        match &order.target {
            _ if self.orders.iter().any(|o| o.target == order.target) => return,
            Target::Url(url) => drop(self.surts.entry(url.surt()).or_insert(place)),
            Target::Host(HostRange::Exact(host)) => drop(self.hosts.insert(host.clone(), place)),
            Target::Host(HostRange::Below(_)) => self.below.push(place),
            Target::Sha256(digest) => drop(self.digests.insert(digest.0.clone(), place)),
        }
        self.orders.push(order);
    }

    /// All orders, in the order they were added.
    pub fn orders(&self) -> &[Order] {
        &self.orders
    }

    /// The addresses in the list, with their indices.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (usize, &PageUrl)> {
        let orders = self.orders.iter().enumerate();
        orders.filter_map(|(place, order)| match &order.target {
            Target::Url(url) => Some((place, url)),
            Target::Host(_) | Target::Sha256(_) => None,
        })
    }

    /// The order that covers an address with this SURT form.
    pub(super) fn covering(&self, url: &PageUrl, surt: &str) -> Option<&Order> {
        let own = self.surts.get(surt).copied();
        let host = url.host_key();
        let place = own.or_else(|| self.hosts.get(&host).copied());
        let below = || {
            self.below
                .iter()
                .copied()
                .find(|p| self.is_below(*p, &host))
        };
        self.orders.get(place.or_else(below)?)
    }

    /// The order that covers these bytes. They are hashed only if there is an order for
    /// bytes.
    pub fn covering_bytes(&self, bytes: &[u8]) -> Option<&Order> {
        if self.digests.is_empty() {
            None
        } else {
            self.covering_digest(Sha256Hex::of(bytes).as_str())
        }
    }

    /// The order that covers bytes with this SHA-256, in lower-case digits.
    pub fn covering_digest(&self, digest: &str) -> Option<&Order> {
        self.orders.get(*self.digests.get(digest)?)
    }

    fn is_below(&self, place: usize, host: &HostKey) -> bool {
        let order = self.orders.get(place);
        order.is_some_and(|order| match &order.target {
            Target::Host(range) => range.covers(host),
            Target::Url(_) | Target::Sha256(_) => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{Reason, TaskKind};
    use crate::scope::Scope;
    use crate::settings;

    fn order(target: Target) -> Order {
        let time = "2026-01-02T03:04:05.000Z".to_owned();
        let reason = None;
        Order {
            time,
            target,
            reason,
        }
    }

    fn scope(targets: &[Target]) -> Scope {
        let mut all = Takedowns::default();
        targets.iter().cloned().map(order).for_each(|o| all.add(o));
        let read = Takedowns::parse(&all.to_lines()).unwrap();
        assert_eq!(read, all);
        Scope::new(settings::Scope::default()).with_takedowns(read)
    }

    fn url(text: &str) -> PageUrl {
        PageUrl::parse(text).unwrap()
    }

    #[test]
    fn orders_cover_addresses_hosts_and_bytes() {
        let bytes = Sha256Hex::of(b"a picture");
        let s = scope(&[
            Target::Url(url("https://a.org/x.jpg?v=1")),
            Target::Url(url("http://a.org/page?utm_source=mail")),
            Target::Host("b.org".parse().unwrap()),
            Target::Host("*.c.org".parse().unwrap()),
            Target::Sha256(bytes.clone()),
        ]);
        for (address, page, image) in [
            ("http://a.org/x.jpg?v=1", true, true),
            ("https://a.org/x.jpg", false, false),
            ("http://a.org/page", true, false),
            ("http://a.org/page?utm_source=mail", true, true),
            ("https://b.org/any", true, true),
            ("http://b.org:8080/any", false, false),
            ("http://www.b.org/", false, false),
            ("http://c.org:8080/", true, true),
            ("http://x.y.c.org/", true, true),
            ("http://ac.org/", false, false),
        ] {
            let url = url(address);
            let judged = |verdict| verdict == Err(Reason::Takedown);
            assert_eq!(judged(s.page(&url, 99)), page, "{address}");
            assert_eq!(judged(s.sitemap(&url)), page, "{address}");
            assert_eq!(judged(s.image(&url)), image, "{address}");
            let kinds = [TaskKind::Page, TaskKind::Image].map(|k| s.taken_down(&url, k).is_some());
            assert_eq!(kinds, [page, image], "{address}");
        }
        assert!(s.takedowns().covering_bytes(b"a picture").is_some());
        assert!(s.takedowns().covering_bytes(b"another").is_none());
        let said = s
            .judge_image(&url("http://b.org/"))
            .unwrap_err()
            .to_string();
        assert!(
            said.contains("taken down permanently: host b.org, on 2026-01-02"),
            "{said}"
        );
    }

    #[test]
    fn the_digest_depends_on_orders_and_not_on_their_reasons() {
        let none = scope(&[]);
        assert_eq!(
            none.digest(),
            Scope::new(settings::Scope::default()).digest()
        );
        let one = scope(&[Target::Host("b.org".parse().unwrap())]);
        assert_ne!(one.digest(), none.digest());
        let mut twice = one.takedowns().clone();
        twice.add(order(Target::Host("B.org".parse().unwrap())));
        assert_eq!(&twice, one.takedowns());
    }

    #[test]
    fn what_is_no_order_is_refused_with_its_line() {
        for text in [
            "",
            "*.",
            "a/b",
            "*.a.org:80:",
            "*.a.org:8080",
            "a@b",
            "a b",
            "*",
        ] {
            assert!(text.parse::<HostRange>().is_err(), "{text}");
        }
        assert!("12".parse::<Sha256Hex>().is_err());
        let upper = "AB".repeat(32).parse::<Sha256Hex>().unwrap();
        assert_eq!(upper.as_str(), "ab".repeat(32));
        let good = "{\"time\":\"2026\",\"host\":\"a.org\"}\n\n";
        for bad in [
            "{\"time\":\"2026\"}",
            "{\"time\":\"2026\",\"url\":\"x\"}",
            "{",
        ] {
            let (line, why) = Takedowns::parse(&format!("{good}{bad}")).unwrap_err();
            assert_eq!(line, 3, "{bad}: {why}");
        }
    }
}
