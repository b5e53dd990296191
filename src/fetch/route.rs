//! Which client sends a request, and in what form: the `connect_to` rules, and
//! the guard for hosts that are IP addresses.
//!
//! The connector takes host and port from the request's URL; a resolver can
//! replace the host, and the port only where the URL names none. So each rule
//! has clients of its own, whose resolver knows the rule's target whatever it
//! is asked, and a URL that names a port is sent without it, under a `Host`
//! header that has it.

use std::net::IpAddr;

use reqwest::Client;
use reqwest::header::HeaderValue;
use url::{Host, Url};

use crate::address::PageUrl;

use super::client;
use super::error::{FetchError, Seen};
use super::guard::permitted;
use super::options::{ConnectTo, Options, SetupError};
use super::resolve::{GuardedResolver, Target, lookups};

/// Stands for an IP address in the URL of a redirected request, because the
/// connector never asks the resolver about addresses. The rule's resolver
/// answers it; no name server could (RFC 6761 section 6.4).
const PLACEHOLDER: &str = "mapped.invalid";

/// All clients of a fetcher.
#[derive(Debug)]
pub(super) struct Router {
    direct: Client,
    rules: Vec<Rule>,
    allow_private: bool,
}

#[derive(Debug)]
struct Rule {
    rule: ConnectTo,
    client: Client,
    /// For requests whose `Host` header differs from their URL, which HTTP/2
    /// has no place for.
    http1: Client,
}

/// How one request is sent.
#[derive(Debug)]
pub(super) struct Route<'a> {
    pub(super) client: &'a Client,
    pub(super) url: Url,
    pub(super) host_header: Option<HeaderValue>,
}

impl Router {
    pub(super) fn new(options: &Options) -> Result<Self, SetupError> {
        let tls = client::tls(options.extra_ca.as_deref())?;
        let lookups = lookups();
        let build = |target: Target, http2: bool| {
            let resolver = GuardedResolver {
                target,
                allow_private: options.allow_private,
                lookups: lookups.clone(),
            };
            client::build(options, &tls, resolver, http2)
        };
        let rules = options.connect_to.iter().map(|rule| {
            let port = rule.to_port.unwrap_or(0);
            let target = match rule.address() {
                Some(address) => Target::Address(address, port),
                None => Target::Name(rule.to_host.trim().to_owned(), port),
            };
            Ok(Rule {
                rule: rule.clone(),
                client: build(target.clone(), options.http2)?,
                http1: build(target, false)?,
            })
        });
        Ok(Self {
            rules: rules.collect::<Result<_, SetupError>>()?,
            direct: build(Target::Asked, options.http2)?,
            allow_private: options.allow_private,
        })
    }

    /// Chooses how to send a request.
    ///
    /// # Errors
    /// [`FetchError::PrivateAddress`] for an IP address that may not be
    /// reached, [`FetchError::Unsendable`] for `https` to a redirected one.
    pub(super) fn route(&self, url: &PageUrl) -> Result<Route<'_>, FetchError> {
        let literal = literal(url.url());
        let port = url.url().port_or_known_default().unwrap_or(0);
        let rule = self.rules.iter().find(|r| r.rule.covers(url.host(), port));
        match rule {
            Some(rule) => redirected(rule, url, port, literal.is_some()),
            None => {
                if let Some(address) = literal {
                    permitted(vec![address], self.allow_private).map_err(|address| {
                        FetchError::PrivateAddress {
                            host: url.host().to_owned(),
                            address,
                            seen: Seen::default(),
                        }
                    })?;
                }
                Ok(Route {
                    client: &self.direct,
                    url: url.url().clone(),
                    host_header: None,
                })
            }
        }
    }
}

fn redirected<'a>(
    rule: &'a Rule,
    url: &PageUrl,
    port: u16,
    literal: bool,
) -> Result<Route<'a>, FetchError> {
    let unsendable = |why: &str| FetchError::Unsendable {
        url: url.to_string(),
        why: why.to_owned(),
        seen: Seen::default(),
    };
    let mut sent = url.url().clone();
    if literal {
        if url.scheme() == "https" {
            return Err(unsendable(
                "a connect-to rule covers it, which https to an IP address cannot follow; name the host",
            ));
        }
        sent.set_host(Some(PLACEHOLDER))
            .map_err(|_| unsendable("its host cannot be replaced"))?;
    }
    if rule.rule.to_port.is_some_and(|to| to != port) {
        sent.set_port(None)
            .map_err(|()| unsendable("its port cannot be replaced"))?;
    }
    if sent == *url.url() {
        return Ok(Route {
            client: &rule.client,
            url: sent,
            host_header: None,
        });
    }
    let authority = match url.url().port() {
        Some(port) => format!("{}:{port}", url.host()),
        None => url.host().to_owned(),
    };
    let header = HeaderValue::from_str(&authority);
    Ok(Route {
        client: &rule.http1,
        url: sent,
        host_header: Some(header.map_err(|_| unsendable("its host cannot stand in a header"))?),
    })
}

/// The host, where it is an address and not a name.
fn literal(url: &Url) -> Option<IpAddr> {
    match url.host() {
        Some(Host::Ipv4(address)) => Some(address.into()),
        Some(Host::Ipv6(address)) => Some(address.into()),
        _ => None,
    }
}
