//! The caller's settings, and their errors.
//!
//! A plain struct, so that the module does not depend on the job's configuration file. Only the
//! `connect_to` rules come from the configuration.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::page::TaskKind;
use crate::settings::{ConnectTo, Proxy};

use super::identity::Identity;
use super::term::Term;

/// How requests are sent and which responses are accepted.
///
/// [`Default`] gives every field a sensible value except `contact`, which only the operator knows;
/// without it, [`super::Fetcher::new`] fails.
#[derive(Debug, Clone)]
pub struct Options {
    /// The crawler's product token, `spoor` by default. It begins the user agent, and
    /// robots.txt groups are matched against it. ASCII letters, `_` and `-`, at least one
    /// (RFC 9309 section 2.2.1).
    pub product: String,
    /// A URL or e-mail address at which the operator can be reached, sent in the user
    /// agent. Visible ASCII, not empty.
    pub contact: String,
    /// Offer HTTP/2 on `https` (ALPN, RFC 7301). Plain `http` is always HTTP/1.1.
    pub http2: bool,
    /// Time limit for DNS lookup, TCP and TLS together.
    pub connect_timeout: Duration,
    /// Time limit for the head, and for the next bytes of the body.
    pub read_timeout: Duration,
    /// Time limit for the whole exchange, excluding our own throttling.
    pub total_timeout: Duration,
    /// How long an idle connection is kept for the host's next request. Short, because a crawl has
    /// many hosts and few descriptors; at most one connection per host is kept, and none if the
    /// system allows only a few open files.
    pub pool_idle: Duration,
    /// Most bytes of a page's decoded body; the rest is not read.
    pub page_cap: usize,
    /// Most bytes of an image; a larger one is refused.
    pub image_cap: usize,
    /// Most bytes of a robots.txt; the rest is not read (RFC 9309 section 2.5 asks for at
    /// least 500 KiB).
    pub robots_cap: usize,
    /// Most bytes of a sitemap as served, compressed or not; the rest is not read.
    pub sitemap_cap: usize,
    /// Most bytes of a `tdmrep.json` or an RSL file; a longer one is truncated, and therefore
    /// invalid.
    pub terms_cap: usize,
    /// Requests per second over all hosts, more than 0; `None` is unlimited.
    pub requests_per_second: Option<f64>,
    /// Decoded body bytes per second over all hosts, 64 or more; `None` is
    /// unlimited.
    pub bytes_per_second: Option<u64>,
    /// Whether requests are booked ([`super::Fetcher::fetch_booked`]), so that each waits
    /// for its clocks once its connection is open. A name with several addresses that is
    /// not booked then fails if the first address does not respond.
    pub booked: bool,
    /// Permit special-purpose addresses (loopback, private networks, ...). For labs only:
    /// it lets a page make the crawler contact the machines around it.
    pub allow_private: bool,
    /// Redirects connections; the first matching rule is used, and one without a target
    /// exempts its matches from later rules. URL, `Host` header and TLS server name stay
    /// unchanged.
    ///
    /// A target that is an IP address is never refused, because the operator configured
    /// it; one that is a name, or that keeps the URL's host, passes the address guard as
    /// usual. Two limits: an `https` URL that is redirected to another port uses HTTP/1.1
    /// if it names a port or its host is an IP address (in HTTP/2 the authority cannot
    /// differ from the connection's), and an `https` URL whose host is an IP address
    /// cannot be redirected to another host ([`super::FetchFailure::Unsendable`]).
    pub connect_to: Vec<ConnectTo>,
    /// The proxy for all requests, except those that match a `connect_to` rule. Names are
    /// resolved and checked here first, unless `allow_private` is set; if the proxy's own
    /// lookup gives other addresses, the proxy must refuse them.
    pub proxy: Option<Proxy>,
    /// A PEM file of certificate authorities to trust in addition to Mozilla's.
    pub extra_ca: Option<PathBuf>,
    /// Whether the cookies that a redirect sets are sent with the request that follows it at
    /// the same host. No others are ever sent.
    pub cookies: bool,
    /// Whether every answer includes its [`Wire`](crate::page::Wire) for an archive.
    pub archive: bool,
    /// Signs requests and names the operator; `None` sends only the user agent.
    pub identity: Option<Arc<Identity>>,
    /// The time until which anything may be sent; `None` means always. It cannot be combined with a
    /// proxy.
    pub term: Option<Term>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            product: "spoor".to_owned(),
            contact: String::new(),
            http2: true,
            connect_timeout: Duration::from_secs(15),
            read_timeout: Duration::from_secs(30),
            total_timeout: Duration::from_secs(120),
            pool_idle: Duration::from_secs(5),
            page_cap: 10 << 20,
            image_cap: 20 << 20,
            robots_cap: 500 << 10,
            sitemap_cap: 50 << 20,
            terms_cap: 512 << 10,
            requests_per_second: None,
            bytes_per_second: None,
            booked: false,
            allow_private: false,
            connect_to: Vec::new(),
            proxy: None,
            extra_ca: None,
            cookies: false,
            archive: false,
            identity: None,
            term: None,
        }
    }
}

impl Options {
    /// The `User-Agent` header, `<product>/<version> (+<contact>)`; the version
    /// is this crate's.
    pub fn user_agent(&self) -> String {
        format!(
            "{}/{} (+{})",
            self.product,
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
            TaskKind::Sitemap => self.sitemap_cap,
            TaskKind::Tdmrep | TaskKind::Rsl => self.terms_cap,
        }
    }

    /// Checks single values. The rules, the rates and the file of certificates are checked
    /// where they are used.
    pub(super) fn check(&self) -> Result<(), SetupError> {
        let of_token = |b: u8| b.is_ascii_alphabetic() || matches!(b, b'_' | b'-');
        if self.product.is_empty() || !self.product.bytes().all(of_token) {
            return Err(SetupError::Product {
                product: self.product.clone(),
            });
        }
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
        for kind in [
            TaskKind::Page,
            TaskKind::Image,
            TaskKind::Robots,
            TaskKind::Sitemap,
            TaskKind::Tdmrep,
            TaskKind::Rsl,
        ] {
            if self.cap(kind) == 0 {
                return Err(SetupError::Cap { kind });
            }
        }
        Ok(())
    }
}

/// Why a [`super::Fetcher`] cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The key of the crawler's identity cannot be used.
    #[error(transparent)]
    Key(#[from] super::identity::KeyError),
    /// The product is not a product token.
    #[error(
        "the product token `{product}` cannot begin the user agent; use letters a-z and A-Z, `_` and `-` only, and at least one"
    )]
    Product {
        /// The text as given.
        product: String,
    },
    /// The contact is empty or not allowed in a header.
    #[error(
        "the contact `{contact}` cannot be used in the user agent; set a URL or an e-mail address in plain ASCII"
    )]
    Contact {
        /// The text as given.
        contact: String,
    },
    /// A timeout of zero.
    #[error("the {name} timeout is zero, so no request could succeed; set a longer one")]
    Timeout {
        /// Which of the three.
        name: &'static str,
    },
    /// A byte cap of zero.
    #[error("the byte cap of {kind:?} tasks is zero, so nothing could be read; raise it")]
    Cap {
        /// Which kind.
        kind: TaskKind,
    },
    /// A rate that is too small or not a number.
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
    #[error("the connect_to rule `{rule}` cannot be used: {why}")]
    ConnectTo {
        /// The rule as written in a configuration file.
        rule: String,
        /// What is wrong with its target.
        why: String,
    },
    /// An unusable proxy. Its address is not repeated, because it may contain a password.
    #[error("the proxy in {place} cannot be used: {why}")]
    Proxy {
        /// The configuration's key or the environment's variable.
        place: &'static str,
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
    /// The TLS or HTTP library refused its settings: a bug in spoor.
    #[error("the HTTP client cannot be built: {0}")]
    Client(String),
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for bad in ["", " spoor", "spoor/1", "spoor2", "spur\u{f6}r", "a\r\nX"] {
            let given = with(|o| o.product = bad.into());
            assert!(matches!(given, Err(SetupError::Product { .. })), "{bad:?}");
        }
        assert!(with(|o| o.product = "Our_Spoor-Lab".into()).is_ok());
    }

    #[test]
    fn user_agent_names_crawler_and_contact() {
        let options = Options {
            contact: " https://example.org/bot ".into(),
            ..Options::default()
        };
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            options.user_agent(),
            format!("spoor/{version} (+https://example.org/bot)")
        );
        let options = Options {
            product: "Our-Spoor".into(),
            ..options
        };
        assert_eq!(
            options.user_agent(),
            format!("Our-Spoor/{version} (+https://example.org/bot)")
        );
    }
}
