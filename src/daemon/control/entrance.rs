//! The TCP address of the API. It is bound before anything else, because its link is the first
//! thing that a crawl prints.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use super::auth::{AccessError, Token};
use crate::settings;
use crate::settings::Listen;

/// The port that is tried first if the operator chose none.
pub const PORT: u16 = 8470;

/// How many ports are tried.
const TRIES: u16 = 100;

/// A listening address with its access rules.
#[derive(Debug)]
pub struct Entrance {
    pub(super) listener: TcpListener,
    pub(super) token: Option<Token>,
    /// Its address.
    pub address: SocketAddr,
    /// The link for a browser.
    pub link: String,
}

impl Entrance {
    /// Listens as `section` says; `None` if it disables the API, or if the operator chose no
    /// address and no port is free. Requests wait until the server runs.
    ///
    /// # Errors
    ///
    /// [`AccessError`] if the operator chose an unusable address or token.
    pub fn open(section: &settings::Control) -> Result<Option<Self>, AccessError> {
        Self::open_from(section, PORT)
    }

    /// The same, with another port to try first if none is chosen.
    ///
    /// # Errors
    ///
    /// As [`Entrance::open`].
    pub fn open_from(section: &settings::Control, port: u16) -> Result<Option<Self>, AccessError> {
        let token = Token::of(section)?;
        match section.listen {
            Listen::Off => Ok(None),
            Listen::At(wanted) => {
                let taken = |error: std::io::Error| {
                    AccessError(format!(
                        "control.listen = \"{wanted}\" is not available: {error}; stop the \
                         program that listens there, name another address, or write \"auto\" for \
                         the next free port"
                    ))
                };
                let listener = TcpListener::bind(wanted).map_err(taken)?;
                let address = listener.local_addr().map_err(taken)?;
                Ok(Some(Self {
                    listener,
                    token,
                    address,
                    link: format!("http://{address}/"),
                }))
            }
            Listen::Auto => {
                let listener = match free(port) {
                    Ok(listener) => listener,
                    Err(error) => return Ok(without(&error.to_string())),
                };
                let Ok(address) = listener.local_addr() else {
                    return Ok(without("the system does not report the port"));
                };
                // The operator's own secret must not be in a link. Without any secret, everyone on
                // this machine could control the crawl.
                let (token, link) = match (token, Token::random()) {
                    (Some(own), _) => (own, format!("http://{address}/")),
                    (None, Some(made)) => {
                        let link = made.link(address);
                        (made, link)
                    }
                    (None, None) => return Ok(without("the system provides no random numbers")),
                };
                Ok(Some(Self {
                    listener,
                    token: Some(token),
                    address,
                    link,
                }))
            }
        }
    }
}

/// Reports that the crawl continues without a dashboard.
fn without(why: &str) -> Option<Entrance> {
    tracing::warn!("no dashboard: {why}; `spoor ctl` still reaches the crawl");
    None
}

/// Listens on the first free port from `first` on, or else on any free port.
fn free(first: u16) -> std::io::Result<TcpListener> {
    let mut last = std::io::Error::other("no port was tried");
    for port in (first..first.saturating_add(TRIES)).chain([0]) {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(listen: Listen) -> settings::Control {
        settings::Control {
            listen,
            token_file: None,
        }
    }

    #[test]
    fn a_taken_port_is_passed_over_unless_it_was_named() {
        let first = Entrance::open(&section(Listen::Auto)).unwrap().unwrap();
        let second = Entrance::open(&section(Listen::Auto)).unwrap().unwrap();
        assert_ne!(first.address, second.address);
        for entrance in [&first, &second] {
            assert!(entrance.address.ip().is_loopback());
            let start = format!("http://{}/#token=", entrance.address);
            let token = entrance.link.strip_prefix(&start).unwrap();
            assert_eq!(token.len(), 32);
            assert!(!format!("{:?}", entrance.token).contains(token));
        }
        assert_ne!(first.link, second.link);
        let error = Entrance::open(&section(Listen::At(first.address))).unwrap_err();
        let said = error.to_string();
        assert!(said.contains(&first.address.to_string()), "{said}");
        assert!(said.contains("write \"auto\""), "{said}");
        assert!(Entrance::open(&section(Listen::Off)).unwrap().is_none());
    }
}
