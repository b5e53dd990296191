//! What the caller sets, and what can be wrong with it.
//!
//! These are fetch's own plain structs, so that the module stands without the
//! job's configuration file; whoever reads that file converts.

use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use crate::page::TaskKind;

use super::resolve::never_looked_up;

/// How requests are sent and what is accepted in answer.
///
/// [`Default`] gives every field a sensible value but `contact`, which only the
/// operator knows and without which [`super::Fetcher::new`] refuses.
#[derive(Debug, Clone)]
pub struct Options {
    /// A URL or e-mail address at which the operator can be reached; it stands
    /// in the user agent. Visible ASCII, not empty.
    pub contact: String,
    /// Offer HTTP/2 on `https` (ALPN, RFC 7301). Plain `http` is always HTTP/1.1.
    pub http2: bool,
    /// Longest time for name lookup, TCP and TLS together.
    pub connect_timeout: Duration,
    /// Longest silence while waiting for the head or the next bytes.
    pub read_timeout: Duration,
    /// Longest time of the whole exchange, our own throttling not counted.
    pub total_timeout: Duration,
    /// How long an unused connection is kept for the host's next request. Short,
    /// because a crawl has many hosts and few descriptors; at most one
    /// connection a host is kept.
    pub pool_idle: Duration,
    /// Most bytes of a page's decoded body; the rest is not read.
    pub page_cap: usize,
    /// Most bytes of an image; a larger one is refused.
    pub image_cap: usize,
    /// Most bytes of a robots.txt; the rest is not read (RFC 9309 section 2.5
    /// asks for 500 KiB at least).
    pub robots_cap: usize,
    /// Requests per second over all hosts, more than 0; `None` is unlimited.
    pub requests_per_second: Option<f64>,
    /// Decoded body bytes per second over all hosts, 64 or more; `None` is
    /// unlimited.
    pub bytes_per_second: Option<u64>,
    /// Permit special-purpose addresses (loopback, private networks, ...). For
    /// labs only: with it a page can make the crawler ask the machines around it.
    pub allow_private: bool,
    /// Where to connect instead of where the URL says; the first match wins.
    pub connect_to: Vec<ConnectTo>,
    /// A PEM file of certificate authorities that are trusted besides Mozilla's.
    pub extra_ca: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            contact: String::new(),
            http2: true,
            connect_timeout: Duration::from_secs(15),
            read_timeout: Duration::from_secs(30),
            total_timeout: Duration::from_secs(120),
            pool_idle: Duration::from_secs(5),
            page_cap: 10 << 20,
            image_cap: 20 << 20,
            robots_cap: 500 << 10,
            requests_per_second: None,
            bytes_per_second: None,
            allow_private: false,
            connect_to: Vec::new(),
            extra_ca: None,
        }
    }
}

impl Options {
    /// The `User-Agent` header, `spoor/<version> (+<contact>)`.
    pub fn user_agent(&self) -> String {
        format!(
            "spoor/{} (+{})",
            env!("CARGO_PKG_VERSION"),
            self.contact.trim()
        )
    }

    /// The byte cap of a kind.
    pub fn cap(&self, kind: TaskKind) -> usize {
        match kind {
            TaskKind::Page => self.page_cap,
            TaskKind::Image => self.image_cap,
            TaskKind::Robots => self.robots_cap,
        }
    }

    /// Everything that can be wrong without touching the disk.
    pub(super) fn check(&self) -> Result<(), SetupError> {
        let contact = self.contact.trim();
        if contact.is_empty() || !contact.bytes().all(|b| matches!(b, b' '..=b'~')) {
            return Err(SetupError::Contact {
                contact: self.contact.clone(),
            });
        }
        for (name, value) in [
            ("connect", self.connect_timeout),
            ("read", self.read_timeout),
            ("total", self.total_timeout),
        ] {
            if value.is_zero() {
                return Err(SetupError::Timeout { name });
            }
        }
        for kind in [TaskKind::Page, TaskKind::Image, TaskKind::Robots] {
            if self.cap(kind) == 0 {
                return Err(SetupError::Cap { kind });
            }
        }
        self.connect_to.iter().try_for_each(ConnectTo::check)
    }
}

/// One rule of where to connect, as curl's `--connect-to`: requests for `host`
/// and `port` are sent to another host and port, while URL, `Host` header and
/// TLS server name stay as they are.
///
/// The target passes the address guard like any other. Two limits: an `https`
/// URL that names a port *and* is sent to another port goes over HTTP/1.1 (in
/// HTTP/2 the authority cannot be set apart from the connection's), and an
/// `https` URL whose host is an IP address cannot be redirected
/// ([`super::FetchError::Unsendable`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectTo {
    /// The hosts it covers.
    pub host: HostPattern,
    /// The URL's port, the scheme's default included; `None` covers all.
    pub port: Option<u16>,
    /// The host to connect to: a name, or an IP address with or without brackets.
    pub to_host: String,
    /// The port to connect to; `None` keeps the URL's.
    pub to_port: Option<u16>,
}

impl ConnectTo {
    /// Whether the rule covers a URL's host and port.
    pub(super) fn covers(&self, host: &str, port: u16) -> bool {
        self.host.covers(host) && self.port.is_none_or(|p| p == port)
    }

    /// The target, where it is an address and not a name.
    pub(super) fn address(&self) -> Option<IpAddr> {
        let text = self.to_host.trim();
        let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
        inner.unwrap_or(text).parse().ok()
    }

    fn check(&self) -> Result<(), SetupError> {
        let wrong = |why: &str| {
            Err(SetupError::ConnectTo {
                to_host: self.to_host.clone(),
                why: why.to_owned(),
            })
        };
        let host = self.to_host.trim();
        if host.is_empty() {
            return wrong("it names no host; write an address such as 127.0.0.1");
        }
        if self.to_port == Some(0) {
            return wrong("0 is not a port one can connect to; leave it out to keep the URL's");
        }
        if self.address().is_none() && never_looked_up(host) {
            return wrong("names under this domain are never looked up; write an IP address");
        }
        Ok(())
    }
}

/// The hosts that a [`ConnectTo`] rule covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPattern {
    /// Every host.
    Any,
    /// This host alone, lower-case; an IPv6 address in brackets, as in a URL.
    Exact(String),
    /// Every host below this domain, lower-case, the domain itself not.
    Suffix(String),
}

impl HostPattern {
    /// Reads a pattern: `*` is any host, `*.example.org` all below a domain,
    /// everything else is one host. Hosts are brought to the form they have in
    /// canonical URLs.
    pub fn new(text: &str) -> Self {
        let text = text.trim().trim_end_matches('.');
        match text.strip_prefix("*.") {
            Some(suffix) => Self::Suffix(canonical_host(suffix)),
            None if text == "*" => Self::Any,
            None => Self::Exact(canonical_host(text)),
        }
    }

    /// Whether the pattern covers `host`, as it stands in a canonical URL.
    pub fn covers(&self, host: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(exact) => host == exact,
            Self::Suffix(suffix) => host
                .strip_suffix(suffix.as_str())
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        }
    }
}

/// What cannot be a host stays as it is, and covers nothing.
fn canonical_host(text: &str) -> String {
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return format!("[{address}]");
    }
    url::Host::parse(text).map_or_else(|_| text.to_owned(), |host| host.to_string())
}

/// Why a [`super::Fetcher`] cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The contact is empty or cannot stand in a header.
    #[error(
        "the contact `{contact}` cannot stand in the user agent; set a URL or an e-mail address in plain ASCII"
    )]
    Contact {
        /// The text as given.
        contact: String,
    },
    /// A timeout of zero.
    #[error("the {name} timeout is zero, so that no request could succeed; set a longer one")]
    Timeout {
        /// Which of the three.
        name: &'static str,
    },
    /// A byte cap of zero.
    #[error("the byte cap of {kind:?} tasks is zero, so that nothing could be read; raise it")]
    Cap {
        /// Which kind.
        kind: TaskKind,
    },
    /// A rate that is no rate.
    #[error("{value} {unit} per second is not a usable rate; set at least {least}, or none at all")]
    Rate {
        /// The value as given.
        value: String,
        /// `requests` or `bytes`.
        unit: &'static str,
        /// The smallest usable value.
        least: &'static str,
    },
    /// A `connect_to` rule with an unusable target.
    #[error("the connect-to target `{to_host}` cannot be used: {why}")]
    ConnectTo {
        /// The target as given.
        to_host: String,
        /// What is wrong with it.
        why: String,
    },
    /// The file of extra certificate authorities cannot be used.
    #[error(
        "{path}: not a readable PEM file of certificates: {why}; check the path, or leave it out"
    )]
    ExtraCa {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The TLS or HTTP library refused its settings; a defect of spoor.
    #[error("the HTTP client cannot be built: {0}")]
    Client(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_patterns() {
        for (pattern, host, expected) in [
            ("*", "example.org", true),
            ("Example.ORG.", "example.org", true),
            ("example.org", "www.example.org", false),
            ("*.example.org", "www.example.org", true),
            ("*.example.org", "a.b.example.org", true),
            ("*.example.org", "example.org", false),
            ("*.example.org", "notexample.org", false),
            ("[::1]", "[::1]", true),
            ("2001:DB8:0::1", "[2001:db8::1]", true),
            ("Bücher.example", "xn--bcher-kva.example", true),
            ("*.bücher.example", "a.xn--bcher-kva.example", true),
            ("not a host", "example.org", false),
            ("", "example.org", false),
        ] {
            assert_eq!(HostPattern::new(pattern).covers(host), expected, "{host}");
        }
    }

    fn with(change: impl FnOnce(&mut Options)) -> Result<(), SetupError> {
        let mut options = Options {
            contact: "https://example.org/bot".into(),
            ..Options::default()
        };
        change(&mut options);
        options.check()
    }

    #[test]
    fn wrong_settings_are_named() {
        assert!(with(|_| ()).is_ok());
        for bad in ["", "  ", "a\r\nX: y", "kätzchen@example.org"] {
            let given = with(|o| o.contact = bad.into());
            assert!(matches!(given, Err(SetupError::Contact { .. })), "{bad:?}");
        }
        assert!(matches!(
            with(|o| o.read_timeout = Duration::ZERO),
            Err(SetupError::Timeout { name: "read" })
        ));
        assert!(matches!(
            with(|o| o.image_cap = 0),
            Err(SetupError::Cap {
                kind: TaskKind::Image
            })
        ));
        for (to_host, to_port) in [("", None), ("localhost", None), ("127.0.0.1", Some(0))] {
            let rule = ConnectTo {
                host: HostPattern::Any,
                port: None,
                to_host: to_host.into(),
                to_port,
            };
            let given = with(|o| o.connect_to = vec![rule]);
            assert!(
                matches!(given, Err(SetupError::ConnectTo { .. })),
                "{to_host}"
            );
        }
    }

    #[test]
    fn user_agent_names_crawler_and_contact() {
        let options = Options {
            contact: " https://example.org/bot ".into(),
            ..Options::default()
        };
        assert_eq!(
            options.user_agent(),
            format!(
                "spoor/{} (+https://example.org/bot)",
                env!("CARGO_PKG_VERSION")
            )
        );
    }
}
