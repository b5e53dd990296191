//! Chooses the client and the form of a request: the `connect_to` rules, and the guard for
//! hosts that are IP addresses.
//!
//! The connector takes host and port from the request's URL; a resolver can replace the host, and
//! the port only if the URL has none. So each rule has its own clients, whose resolver always
//! returns the rule's target, and a URL with a port is sent without it, under a `Host` header that
//! includes it. An IP address that keeps its host has no resolver to set the port; its URL is sent
//! with the rule's port, under its own `Host` header.
//!
//! A proxy resolves names by itself, so the hosts of proxied requests are resolved and
//! checked here first. A request that matches a rule never uses the proxy: the rule
//! determines the connection.

use std::net::IpAddr;

use reqwest::header::HeaderValue;
use url::Url;

use crate::address::PageUrl;
use crate::page::Booking;
use crate::settings::ConnectTo;

use super::address_guard::permitted;
use super::client::{self, Client};
use super::error::{FetchError, FetchFailure};
use super::options::{Options, SetupError};
use super::proxy::Proxies;
use super::resolve::{ConnectTarget, GuardedResolver, NameService};

/// Replaces an IP address in the URL of a redirected request, because the connector never
/// calls the resolver for addresses. The rule's resolver answers it; no name server could
/// (RFC 6761 section 6.4).
const PLACEHOLDER: &str = "mapped.invalid";

/// All clients of a fetcher.
#[derive(Debug)]
pub(super) struct Router {
    /// For requests that match no rule; uses the operator's proxy if there is one.
    direct: Client,
    proxied: bool,
    /// The resolver of `direct`.
    resolver: GuardedResolver,
    rules: Vec<RouteRule>,
    allow_private: bool,
}

#[derive(Debug)]
struct RouteRule {
    rule: ConnectTo,
    client: Client,
    /// For requests whose `Host` header differs from their URL, which HTTP/2 does not
    /// support.
    http1: Client,
}

/// How one request is sent.
#[derive(Debug)]
pub(super) struct Route<'a> {
    pub(super) client: &'a Client,
    pub(super) url: Url,
    pub(super) host_header: Option<HeaderValue>,
    /// Whether the connection goes to an address of the host itself.
    pub(super) direct: bool,
}

impl Router {
    pub(super) fn new(options: &Options, names: &NameService) -> Result<Self, SetupError> {
        let tls = client::tls(options.extra_ca.as_deref())?;
        let proxies = Proxies::of(options.proxy.as_ref())?;
        let resolver = |target: ConnectTarget| GuardedResolver {
            target,
            allow_private: options.allow_private,
            exempt: Vec::new(),
            names: names.within(options.connect_timeout),
        };
        let build =
            |target, http2: bool| client::build(options, &tls, resolver(target), &[], http2);
        let rules = options.connect_to.iter().map(|rule| {
            let target = ConnectTarget::of(rule)?;
            Ok(RouteRule {
                rule: rule.clone(),
                client: build(target.clone(), options.http2)?,
                http1: build(target, false)?,
            })
        });
        let to_proxy = GuardedResolver {
            exempt: proxies.hosts,
            ..resolver(ConnectTarget::Asked(0))
        };
        Ok(Self {
            rules: rules.collect::<Result<_, SetupError>>()?,
            direct: client::build(options, &tls, to_proxy, &proxies.all, options.http2)?,
            proxied: !proxies.all.is_empty(),
            resolver: resolver(ConnectTarget::Asked(0)),
            allow_private: options.allow_private,
        })
    }

    /// Chooses how to send a request.
    ///
    /// # Errors
    ///
    /// [`FetchFailure::PrivateAddress`] for an IP address that may not be reached,
    /// [`FetchFailure::Unsendable`] for `https` to one that a rule redirects to another
    /// host.
    pub(super) fn route(&self, url: &PageUrl) -> Result<Route<'_>, FetchError> {
        let literal = url.ip();
        let port = url.port();
        let rule = self.rules.iter().find(|r| r.rule.matches(url.host(), port));
        // If a rule replaces the host, its resolver checks the target.
        if let Some(address) = literal
            && rule.is_none_or(RouteRule::keeps_the_host)
        {
            permitted(vec![address], self.allow_private).map_err(|address| {
                FetchFailure::PrivateAddress {
                    host: url.host().to_owned(),
                    address,
                }
            })?;
        }
        match rule {
            Some(rule) => redirected(rule, url, port, literal.is_some()),
            None => Ok(Route {
                client: &self.direct,
                url: parsed(url)?,
                host_header: None,
                direct: !self.proxied,
            }),
        }
    }

    /// Resolves and checks the host of a proxied request.
    ///
    /// # Errors
    ///
    /// As [`Router::locate`].
    pub(super) async fn judge(&self, url: &PageUrl) -> Result<(), FetchError> {
        if self.proxied {
            self.locate(url, &Booking::default()).await.map(|_| ())
        } else {
            Ok(())
        }
    }

    /// Whether any request uses a proxy.
    pub(super) fn proxied(&self) -> bool {
        self.proxied
    }

    /// The address that requests for `url` go to, unless a rule replaces its host. Unknown
    /// behind a proxy that may contact any address. `known` is the previous address.
    ///
    /// # Errors
    ///
    /// As [`Router::route`], and [`FetchFailure::Dns`].
    pub(super) async fn locate(
        &self,
        url: &PageUrl,
        known: &Booking,
    ) -> Result<Option<IpAddr>, FetchError> {
        self.route(url)?;
        let port = url.port();
        let rule = self.rules.iter().find(|r| r.rule.matches(url.host(), port));
        if rule.is_some_and(|rule| !rule.keeps_the_host()) {
            return Ok(None);
        }
        if self.proxied && self.allow_private && rule.is_none() {
            return Ok(None);
        }
        if let Some(address) = url.ip() {
            return Ok(Some(address));
        }
        let host = || url.host().to_owned();
        let found = self.resolver.look_up(url.host()).await;
        let found = found.map_err(|why| FetchFailure::Dns {
            host: host(),
            why: why.to_string(),
        })?;
        let found = permitted(found, self.allow_private);
        let found = found.map_err(|address| FetchFailure::PrivateAddress {
            host: host(),
            address,
        })?;
        Ok(choose(found, known))
    }
}

/// Chooses an address of a name: the previous one if the name still has it and it responded;
/// otherwise the first in a fixed order, because DNS may return them in any order and hosts that
/// share addresses should use the same one.
fn choose(mut found: Vec<IpAddr>, known: &Booking) -> Option<IpAddr> {
    found.sort_unstable();
    let first = found.first().copied();
    let next = |known| found.iter().copied().find(|address| *address > known);
    match known.address {
        Some(known_one) if known.elsewhere => next(known_one).or(first),
        Some(known_one) if found.contains(&known_one) => Some(known_one),
        _ => first,
    }
}

impl RouteRule {
    fn keeps_the_host(&self) -> bool {
        self.rule.to_host.is_empty()
    }
}

fn redirected<'a>(
    rule: &'a RouteRule,
    url: &PageUrl,
    port: u16,
    literal: bool,
) -> Result<Route<'a>, FetchError> {
    let unsendable = |why: &str| FetchFailure::Unsendable {
        url: url.to_string(),
        why: why.to_owned(),
    };
    let asked = parsed(url)?;
    let mut sent = asked.clone();
    if literal && !rule.keeps_the_host() {
        if url.scheme() == "https" {
            return Err(unsendable(
                "a connect_to rule sends it to another host, which https to an IP address cannot follow; name the host, or leave the rule's target host empty",
            ).into());
        }
        sent.set_host(Some(PLACEHOLDER))
            .map_err(|_| unsendable("its host cannot be replaced"))?;
    }
    if let Some(to) = rule.rule.to_port.filter(|to| *to != port) {
        let in_url = (literal && rule.keeps_the_host()).then_some(to);
        sent.set_port(in_url)
            .map_err(|()| unsendable("its port cannot be replaced"))?;
    }
    let direct = rule.keeps_the_host();
    if sent == asked {
        return Ok(Route {
            client: &rule.client,
            url: sent,
            host_header: None,
            direct,
        });
    }
    let header = HeaderValue::from_str(url.authority());
    Ok(Route {
        client: &rule.http1,
        url: sent,
        host_header: Some(header.map_err(|_| unsendable("its host cannot be used in a header"))?),
        direct,
    })
}

/// The address as the client wants it.
fn parsed(url: &PageUrl) -> Result<Url, FetchError> {
    let parsed = url.to_url().map_err(|why| FetchFailure::Unsendable {
        url: url.to_string(),
        why: why.to_string(),
    })?;
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use crate::settings::TextValue;

    use super::*;

    /// Rules and URL, and the URL and `Host` header that are sent.
    #[test]
    fn urls_and_headers_that_are_sent() {
        let all = ":::8080";
        for (rule, url, sent, header) in [
            // The resolver sets the port, so the URL must not have one.
            (all, "http://a.org/", "http://a.org/", None),
            (all, "https://a.org/x?y", "https://a.org/x?y", None),
            (all, "http://a.org:99/", "http://a.org/", Some("a.org:99")),
            (all, "http://a.org:8080/", "http://a.org:8080/", None),
            // No resolver is used, so the URL must have the port.
            (
                all,
                "http://1.2.3.4/",
                "http://1.2.3.4:8080/",
                Some("1.2.3.4"),
            ),
            (
                all,
                "http://1.2.3.4:99/",
                "http://1.2.3.4:8080/",
                Some("1.2.3.4:99"),
            ),
            (all, "http://1.2.3.4:8080/", "http://1.2.3.4:8080/", None),
            (
                ":::80",
                "http://1.2.3.4:99/",
                "http://1.2.3.4/",
                Some("1.2.3.4:99"),
            ),
            (
                all,
                "https://1.2.3.4/",
                "https://1.2.3.4:8080/",
                Some("1.2.3.4"),
            ),
            (
                all,
                "http://[2606::1]/",
                "http://[2606::1]:8080/",
                Some("[2606::1]"),
            ),
            (
                "[2606::1]:99::8080",
                "http://[2606::1]:99/",
                "http://[2606::1]:8080/",
                Some("[2606::1]:99"),
            ),
            (
                "[2606::1]:80::8080",
                "http://[2606::1]:99/",
                "http://[2606::1]:99/",
                None,
            ),
            (
                "*.Bücher.example:99::8080",
                "http://a.bücher.example:99/",
                "http://a.xn--bcher-kva.example/",
                Some("a.xn--bcher-kva.example:99"),
            ),
            (
                "*.bücher.example:99::8080",
                "http://bücher.example:99/",
                "http://xn--bcher-kva.example:99/",
                None,
            ),
            // Nothing changes.
            (":::", "http://a.org:99/", "http://a.org:99/", None),
            (":::", "https://1.2.3.4:99/", "https://1.2.3.4:99/", None),
            // Another host.
            ("::9.9.9.9:", "http://a.org:99/", "http://a.org:99/", None),
            (
                "::9.9.9.9:",
                "http://1.2.3.4:99/",
                "http://mapped.invalid:99/",
                Some("1.2.3.4:99"),
            ),
            (
                "::[2606::9]:8080",
                "http://[2606::1]:99/",
                "http://mapped.invalid/",
                Some("[2606::1]:99"),
            ),
        ] {
            let router = router(rule);
            let url = PageUrl::parse(url).unwrap();
            let route = router.route(&url).unwrap();
            assert_eq!(route.url.as_str(), sent, "{rule} {url}");
            let shown = route.host_header.as_ref().map(|h| h.to_str().unwrap());
            assert_eq!(shown, header, "{rule} {url}");
        }
    }

    #[test]
    fn the_address_stays_as_long_as_somebody_answers_there() {
        let of = |text: &str| -> IpAddr { text.parse().unwrap() };
        for (found, known, elsewhere, chosen) in [
            (&["9.9.9.9", "1.1.1.1"][..], None, false, "1.1.1.1"),
            (&["2606::1", "9.9.9.9"], None, true, "9.9.9.9"),
            (&["9.9.9.9", "1.1.1.1"], Some("9.9.9.9"), false, "9.9.9.9"),
            (&["9.9.9.9", "1.1.1.1"], Some("5.5.5.5"), false, "1.1.1.1"),
            (&["9.9.9.9", "1.1.1.1"], Some("1.1.1.1"), true, "9.9.9.9"),
            (&["9.9.9.9", "1.1.1.1"], Some("9.9.9.9"), true, "1.1.1.1"),
            (&["1.1.1.1"], Some("1.1.1.1"), true, "1.1.1.1"),
        ] {
            let known = Booking {
                address: known.map(of),
                elsewhere,
                ..Booking::default()
            };
            let found = found.iter().map(|text| of(text)).collect();
            assert_eq!(choose(found, &known), Some(of(chosen)), "{known:?}");
        }
        assert_eq!(choose(Vec::new(), &Booking::default()), None);
    }

    #[test]
    fn a_host_that_stays_is_judged() {
        for rule in [":::", ":::8080", "[::1]:::8080"] {
            let url = PageUrl::parse("http://[::1]:99/").unwrap();
            let refused = router(rule).route(&url).unwrap_err();
            assert!(
                matches!(refused.kind, FetchFailure::PrivateAddress { .. }),
                "{refused:?}"
            );
        }
    }

    fn router(rule: &str) -> Router {
        Router::new(
            &Options {
                connect_to: vec![ConnectTo::from_text(rule).unwrap()],
                ..Options::default()
            },
            &NameService::system(),
        )
        .unwrap()
    }
}
