//! The operator's proxy, from the configuration or, if configured, from the environment.
//!
//! The behaviour of a crawl must not depend on where it is started, so the environment alone
//! changes nothing. But a proxy with a password can only be set there, because the password must
//! not appear in a configuration or a message. This module does not check addresses: a proxy is the
//! operator's own and may be anywhere.

use reqwest::NoProxy;
use url::{Host, Url};

use crate::settings::Proxy;

use super::options::SetupError;

/// The proxies of a client.
#[derive(Debug, Default)]
pub(super) struct Proxies {
    /// In the client's form; empty for direct connections.
    pub(super) all: Vec<reqwest::Proxy>,
    /// Their names, lower-case, excluding IP addresses.
    pub(super) hosts: Vec<String>,
}

impl Proxies {
    /// The operator's choice.
    ///
    /// # Errors
    /// [`SetupError::Proxy`].
    pub(super) fn of(choice: Option<&Proxy>) -> Result<Self, SetupError> {
        let mut own = Self::default();
        match choice {
            None => {}
            Some(Proxy::At(url)) => {
                let url = url.as_str();
                own.add("network.proxy", url, |url| reqwest::Proxy::all(url))?;
            }
            Some(Proxy::Environment) => own.read_environment(|name| std::env::var(name).ok())?,
        }
        Ok(own)
    }

    /// The variables as curl and others read them: each in upper or lower case,
    /// `ALL_PROXY` for a scheme without its own variable, `NO_PROXY` for direct
    /// connections.
    fn read_environment(
        &mut self,
        value: impl Fn(&str) -> Option<String>,
    ) -> Result<(), SetupError> {
        let set = |names: [&'static str; 4]| {
            let found = names.into_iter().map(|name| (name, value(name)));
            let mut found = found.filter_map(|(name, value)| Some((name, value?)));
            found.find(|(_, value)| !value.is_empty())
        };
        let except = || {
            let list = value("NO_PROXY").or_else(|| value("no_proxy"));
            NoProxy::from_string(&list.unwrap_or_default())
        };
        if let Some((name, url)) = set(["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]) {
            self.add(name, &url, |url| {
                Ok(reqwest::Proxy::http(url)?.no_proxy(except()))
            })?;
        }
        if let Some((name, url)) = set(["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]) {
            self.add(name, &url, |url| {
                Ok(reqwest::Proxy::https(url)?.no_proxy(except()))
            })?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        place: &'static str,
        text: &str,
        make: impl FnOnce(&str) -> reqwest::Result<reqwest::Proxy>,
    ) -> Result<(), SetupError> {
        let wrong = |why: &str| SetupError::Proxy {
            place,
            why: why.to_owned(),
        };
        let full = if text.contains("://") {
            text.to_owned()
        } else {
            format!("http://{text}")
        };
        let url = Url::parse(&full).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("only http and https proxies are supported"));
        }
        if let Some(Host::Domain(name)) = url.host() {
            self.hosts.push(name.to_ascii_lowercase());
        }
        let proxy = make(url.as_str()).map_err(|_| wrong("it is not the address of a proxy"))?;
        self.all.push(proxy);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(set: &[(&str, &str)]) -> Result<Proxies, SetupError> {
        let mut proxies = Proxies::default();
        proxies.read_environment(|name| {
            let found = set.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| (*value).to_owned())
        })?;
        Ok(proxies)
    }

    #[test]
    fn variables_of_the_environment() {
        for (set, hosts) in [
            (&[][..], &[][..]),
            (&[("HTTP_PROXY", "")], &[]),
            (&[("http_proxy", "http://A.example:3128")], &["a.example"]),
            (&[("HTTPS_PROXY", "b.example:3128")], &["b.example"]),
            (
                &[("all_proxy", "http://c.example")],
                &["c.example", "c.example"],
            ),
            (
                &[
                    ("HTTP_PROXY", "http://a.example/"),
                    ("ALL_PROXY", "https://c.example"),
                ],
                &["a.example", "c.example"],
            ),
            (
                &[("HTTP_PROXY", "http://u:secret@a.example:1")],
                &["a.example"],
            ),
        ] {
            let proxies = environment(set).unwrap();
            assert_eq!(proxies.hosts, hosts, "{set:?}");
            assert_eq!(proxies.all.len(), hosts.len(), "{set:?}");
        }
    }

    #[test]
    fn wrong_variables_are_named_and_not_repeated() {
        for (name, value) in [
            ("HTTP_PROXY", "http://u:secret@a b/"),
            ("https_proxy", "http://u:secret@[::1/"),
            ("ALL_PROXY", "socks5://u:secret@a.example:1080"),
            ("HTTP_PROXY", "u:secret@a.example:99999"),
        ] {
            let error = environment(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
