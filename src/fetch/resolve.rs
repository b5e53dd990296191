//! Resolves names to addresses that the guard permits.
//!
//! The connector connects to exactly what [`GuardedResolver`] returns, so the checked address is
//! the one used: there is no second lookup that an attacker's name server could answer differently
//! (DNS rebinding). A request that was booked for an address goes there, and that address is
//! checked again. The connector does not call it for IP literals; [`super::route::Router`] checks
//! these, and the hosts of proxied requests.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;
use url::Host;

use crate::address;
use crate::settings::ConnectTo;

use super::address_guard::permitted;
use super::options::SetupError;
use super::send_clocks;

/// How many lookups may occupy a blocking thread at once. A dead name server blocks a
/// thread for ten seconds and more, and the runtime has 512 of them, which other work
/// needs as well.
const LOOKUPS_AT_ONCE: usize = 128;

/// Where a client's connections go: the host, and the port for URLs without one; 0 stands for the
/// scheme's default.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ConnectTarget {
    /// To the host of the URL.
    Asked(u16),
    /// To this name, for every URL.
    Name(String, u16),
    /// To this address, for every URL.
    Address(IpAddr, u16),
}

impl ConnectTarget {
    /// The target of a rule.
    ///
    /// # Errors
    ///
    /// [`SetupError::ConnectTo`] if nothing can ever be reached there.
    pub(super) fn of(rule: &ConnectTo) -> Result<Self, SetupError> {
        let wrong = |why: &str| {
            Err(SetupError::ConnectTo {
                rule: rule.to_string(),
                why: why.to_owned(),
            })
        };
        let port = match rule.to_port {
            Some(0) => {
                return wrong("port 0 cannot be connected to; leave it out to keep the URL's");
            }
            to_port => to_port.unwrap_or(0),
        };
        let to_host = rule.to_host.as_str();
        if to_host.is_empty() {
            return Ok(Self::Asked(port));
        }
        // The configuration stores IPv6 addresses without the brackets that a URL's host
        // has.
        if let Ok(address) = to_host.parse() {
            return Ok(Self::Address(address, port));
        }
        match Host::parse(to_host) {
            Ok(Host::Ipv4(address)) => Ok(Self::Address(address.into(), port)),
            Ok(Host::Ipv6(address)) => Ok(Self::Address(address.into(), port)),
            Ok(Host::Domain(name)) if address::is_reserved(&name) => {
                wrong("names under this domain are never looked up; write an IP address")
            }
            Ok(Host::Domain(name)) => Ok(Self::Name(name, port)),
            Err(_) => wrong("its target is neither a host name nor an IP address; correct it"),
        }
    }
}

/// The resolver of one client.
#[derive(Debug, Clone)]
pub(super) struct GuardedResolver {
    pub(super) target: ConnectTarget,
    pub(super) allow_private: bool,
    /// Hosts of the operator's own proxies, lower-case, which may be anywhere. Only set
    /// for the client that uses them.
    pub(super) exempt: Vec<String>,
    pub(super) names: NameService,
}

type Lookup = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// Resolves names. All clients of a fetcher share one instance with one limit on lookups.
#[derive(Clone)]
pub(super) struct NameService {
    lookup: Arc<Lookup>,
    allowance: Arc<Semaphore>,
    /// The time limit of a lookup.
    limit: Duration,
    found: Arc<AtomicU64>,
}

impl NameService {
    /// Uses this machine's hosts file and name servers.
    pub(super) fn system() -> Self {
        Self::answered_by(|name| {
            let found = (name, 0u16).to_socket_addrs()?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }

    /// Uses `lookup`, which may block.
    pub(super) fn answered_by(
        lookup: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            lookup: Arc::new(lookup),
            allowance: Arc::new(Semaphore::new(LOOKUPS_AT_ONCE)),
            limit: Duration::MAX,
            found: Arc::default(),
        }
    }

    /// The same, for connections with this time limit. A lookup gets less, so that a
    /// silent name server is not mistaken for a silent host.
    pub(super) fn within(&self, connecting: Duration) -> Self {
        Self {
            limit: connecting * 9 / 10,
            ..self.clone()
        }
    }

    /// How many lookups have found an address.
    pub(super) fn found(&self) -> u64 {
        self.found.load(Ordering::Relaxed)
    }

    async fn addresses(&self, name: String) -> Result<Vec<IpAddr>, LookupFailed> {
        let found = tokio::time::timeout(self.limit, self.ask(name)).await;
        found.unwrap_or(Err(LookupFailed::Silence))
    }

    async fn ask(&self, name: String) -> Result<Vec<IpAddr>, LookupFailed> {
        let permit = self.allowance.clone().acquire_owned().await;
        let permit = permit.map_err(|_| LookupFailed::Abandoned)?;
        let lookup = self.lookup.clone();
        // The permit moves into the thread: a caller that gives up does not free it.
        let found = tokio::task::spawn_blocking(move || {
            let found = lookup(&name);
            drop(permit);
            found
        });
        let found = found.await.map_err(|_| LookupFailed::Abandoned)?;
        let mut found = found.map_err(LookupFailed::System)?;
        found.dedup();
        if found.is_empty() {
            Err(LookupFailed::NoAddress)
        } else {
            self.found.fetch_add(1, Ordering::Relaxed);
            Ok(found)
        }
    }
}

impl fmt::Debug for NameService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NameService")
    }
}

/// The guard refused every address of a name.
#[derive(Debug, thiserror::Error)]
#[error("{address} is not a public internet address")]
pub(super) struct Refused {
    pub(super) address: IpAddr,
}

/// The name does not resolve.
#[derive(Debug, thiserror::Error)]
pub(super) enum LookupFailed {
    #[error("names under this domain are never looked up")]
    NeverLookedUp,
    #[error("the name has no address")]
    NoAddress,
    #[error("no name server responded")]
    Silence,
    #[error("{0}")]
    System(io::Error),
    #[error("the lookup was abandoned because the process ends")]
    Abandoned,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let own = self.clone();
        let booked = send_clocks::booked_address();
        Box::pin(async move {
            let asked = name.as_str().to_ascii_lowercase();
            if own.exempt.contains(&asked) {
                let found = own.names.addresses(asked).await?;
                let found = found.into_iter().map(|address| SocketAddr::new(address, 0));
                return Ok(Box::new(found) as Addrs);
            }
            let (addresses, port) = match &own.target {
                // A request that was booked for an address goes there.
                ConnectTarget::Asked(port) => match booked {
                    Some(address) => (vec![address], *port),
                    None => (own.look_up(name.as_str()).await?, *port),
                },
                ConnectTarget::Name(to, port) => (own.look_up(to).await?, *port),
                // The operator configured this very address; no page or name server
                // influenced it.
                ConnectTarget::Address(to, port) => {
                    let addresses: Addrs = Box::new(std::iter::once(SocketAddr::new(*to, *port)));
                    return Ok(addresses);
                }
            };
            let addresses =
                permitted(addresses, own.allow_private).map_err(|address| Refused { address })?;
            let addresses: Addrs = Box::new(
                addresses
                    .into_iter()
                    .map(move |address| SocketAddr::new(address, port)),
            );
            Ok(addresses)
        })
    }
}

impl GuardedResolver {
    pub(super) async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, LookupFailed> {
        if address::is_reserved(name) {
            return Err(LookupFailed::NeverLookedUp);
        }
        // A trailing dot disables the search domains of this machine's network (RFC 1034
        // section 3.1), which would otherwise complete `intranet` and misspelt names. A
        // lab may want that, and its hosts file.
        let name = if self.allow_private {
            name.to_owned()
        } else {
            format!("{}.", name.trim_end_matches('.'))
        };
        self.names.addresses(name).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crate::settings::HostPattern;

    use super::*;

    fn resolver(target: ConnectTarget, allow_private: bool) -> GuardedResolver {
        GuardedResolver {
            target,
            allow_private,
            exempt: Vec::new(),
            names: NameService::system(),
        }
    }

    fn rule(to_host: &str, to_port: Option<u16>) -> ConnectTo {
        ConnectTo {
            host: HostPattern::Any,
            port: None,
            to_host: to_host.into(),
            to_port,
        }
    }

    #[test]
    fn targets_of_rules() {
        let v4 = IpAddr::from([127, 0, 0, 1]);
        let v6 = IpAddr::from(std::net::Ipv6Addr::LOCALHOST);
        let name = |text: &str, port| ConnectTarget::Name(text.into(), port);
        for (to_host, to_port, expected) in [
            ("", None, ConnectTarget::Asked(0)),
            ("", Some(8080), ConnectTarget::Asked(8080)),
            ("127.0.0.1", None, ConnectTarget::Address(v4, 0)),
            ("127.0.0.1", Some(8080), ConnectTarget::Address(v4, 8080)),
            ("::1", Some(8080), ConnectTarget::Address(v6, 8080)),
            ("[::1]", None, ConnectTarget::Address(v6, 0)),
            ("example.org", None, name("example.org", 0)),
            ("Bücher.example", Some(1), name("xn--bcher-kva.example", 1)),
        ] {
            let target = ConnectTarget::of(&rule(to_host, to_port)).unwrap();
            assert_eq!(target, expected, "{to_host}");
        }
        for (to_host, to_port, shown) in [
            ("localhost", None, "`::localhost:`"),
            ("a.test", Some(80), "`::a.test:80`"),
            ("a.invalid.", None, "`::a.invalid.:`"),
            ("127.0.0.1", Some(0), "`::127.0.0.1:0`"),
            ("", Some(0), "`:::0`"),
            ("not a host", None, "`::not a host:`"),
            (" ", None, "`:: :`"),
        ] {
            let error = ConnectTarget::of(&rule(to_host, to_port)).unwrap_err();
            assert!(matches!(error, SetupError::ConnectTo { .. }), "{error:?}");
            assert!(error.to_string().contains(shown), "{error}");
        }
    }

    /// The system's lookup answers an address with itself and asks no server.
    #[tokio::test]
    async fn the_name_that_was_asked_is_looked_up_for_another_port() {
        for port in [0, 8080] {
            let resolver = resolver(ConnectTarget::Asked(port), true);
            let found = resolver.resolve("127.0.0.1".parse().unwrap()).await;
            let found: Vec<_> = found.unwrap().collect();
            assert_eq!(found, [SocketAddr::from(([127, 0, 0, 1], port))]);
        }
    }

    #[tokio::test]
    async fn reserved_names_fail_without_a_lookup() {
        let resolver = resolver(ConnectTarget::Asked(8080), true);
        // Without permits a lookup would wait for ever.
        resolver.names.allowance.close();
        for name in ["a.test", "b.invalid", "localhost", "c.onion", "d.alt"] {
            let failed = resolver.resolve(name.parse().unwrap()).await.err().unwrap();
            assert!(matches!(
                failed.downcast_ref::<LookupFailed>(),
                Some(LookupFailed::NeverLookedUp)
            ));
        }
        let other = resolver.resolve("example.org".parse().unwrap()).await;
        let other = other.err().unwrap();
        assert!(matches!(
            other.downcast_ref::<LookupFailed>(),
            Some(LookupFailed::Abandoned)
        ));
    }

    #[tokio::test]
    async fn an_address_that_the_operator_wrote_replaces_the_name() {
        let target = ConnectTarget::Address([127, 0, 0, 1].into(), 8080);
        for allow_private in [true, false] {
            let resolver = resolver(target.clone(), allow_private);
            let found = resolver.resolve("example.org".parse().unwrap()).await;
            let found: Vec<_> = found.unwrap().collect();
            assert_eq!(found, [SocketAddr::from(([127, 0, 0, 1], 8080))]);
        }
    }

    /// An attacker's name server may answer differently each time. The connection goes to the
    /// address that was judged, and the next answer is judged again.
    #[tokio::test]
    async fn a_name_that_is_bound_again_is_judged_again() {
        let public = IpAddr::from([93, 184, 216, 34]);
        let private = IpAddr::from([169, 254, 169, 254]);
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let resolver = GuardedResolver {
            names: NameService::answered_by(move |name| {
                assert_eq!(name, "rebound.example.");
                let nth = count.fetch_add(1, Ordering::SeqCst);
                Ok(vec![if nth == 0 { public } else { private }])
            }),
            ..resolver(ConnectTarget::Asked(0), false)
        };
        let name = || "rebound.example".parse().unwrap();
        let first = resolver.resolve(name()).await.unwrap();
        assert_eq!(first.collect::<Vec<_>>(), [SocketAddr::new(public, 0)]);
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        let second = resolver.resolve(name()).await.err().unwrap();
        assert_eq!(second.downcast_ref::<Refused>().unwrap().address, private);
    }

    #[tokio::test]
    async fn only_the_operators_proxy_may_stand_anywhere() {
        let private = IpAddr::from([10, 0, 0, 9]);
        let resolver = GuardedResolver {
            exempt: vec!["proxy.example".to_owned()],
            names: NameService::answered_by(move |_| Ok(vec![private])),
            ..resolver(ConnectTarget::Asked(0), false)
        };
        let found = resolver.resolve("Proxy.example".parse().unwrap()).await;
        let found: Vec<_> = found.unwrap().collect();
        assert_eq!(found, [SocketAddr::new(private, 0)]);
        let other = resolver.resolve("a.proxy.example".parse().unwrap()).await;
        assert!(other.err().unwrap().downcast_ref::<Refused>().is_some());
    }
}
