//! The secret of a local server, sent in a header or a cookie. A browser that opens the printed
//! link gets the cookie; a client with neither gets nothing of the page.
//!
//! `origin` checks whether a request comes from a page of another site.

use std::fmt;
use std::net::SocketAddr;

use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use url::form_urlencoded::{self, Serializer};

/// The parameter of the link.
const TOKEN: &str = "token";

/// The answer to a client without the link.
pub const NO_LINK: &str = "Use the link that spoor printed; it contains the token for this run.";

/// The secret of a server.
#[derive(Clone)]
pub struct Access {
    token: String,
    cookie: String,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Access")
    }
}

impl Access {
    /// A new secret for a page at `address`; `None` if the system provides no random numbers.
    pub fn random(address: SocketAddr) -> Option<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).ok()?;
        Some(Self {
            token: base16ct::lower::encode_string(&bytes),
            cookie: format!("spoor-page-{}", address.port()),
        })
    }

    /// This secret for a server at `address`. Cookies are shared by all ports of a host, so the
    /// port is part of their name.
    pub fn with(token: &str, address: SocketAddr) -> Self {
        Self {
            token: token.to_owned(),
            cookie: format!("spoor-{}", address.port()),
        }
    }

    /// The address of the page at `address` for a browser.
    pub fn link(&self, address: SocketAddr) -> String {
        format!("http://{address}/?{TOKEN}={}", self.token)
    }

    /// Whether the headers carry the secret or the cookie.
    pub fn admits(&self, headers: &HeaderMap) -> bool {
        let all = |name| {
            let all = headers.get_all(name).into_iter();
            all.filter_map(|value| value.to_str().ok())
        };
        let bearer = |value: &str| match value.split_once(' ') {
            Some((scheme, rest)) => scheme.eq_ignore_ascii_case("bearer") && self.is(rest.trim()),
            None => false,
        };
        let session = self.session();
        let cookies = all(header::COOKIE).flat_map(|value| value.split(';'));
        let mut cookies = cookies.filter_map(|cookie| cookie.trim().split_once('='));
        all(header::AUTHORIZATION).any(bearer)
            || cookies.any(|(name, value)| {
                name == self.cookie && bool::from(session.as_bytes().ct_eq(value.as_bytes()))
            })
    }

    /// Sets the cookie for a request with the link, and redirects to the page without the secret,
    /// so that it stays out of the browser's history. `None` if the address has no valid secret.
    pub fn login(&self, uri: &Uri) -> Option<Response> {
        let query = uri.query().unwrap_or_default();
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        if uri.path() != "/" || !pairs.any(|(name, value)| name == TOKEN && self.is(&value)) {
            return None;
        }
        // With `Strict`, browsers would not send it if the link is opened from webmail.
        let cookie = self.set_cookie("Lax");
        let location = without_token(query).unwrap_or_else(|| "/".to_owned());
        let headers = [(header::SET_COOKIE, cookie), (header::LOCATION, location)];
        Some((StatusCode::SEE_OTHER, headers).into_response())
    }

    /// The header that sets the cookie; scripts cannot read it.
    pub fn set_cookie(&self, same_site: &str) -> String {
        let (cookie, session) = (&self.cookie, self.session());
        format!("{cookie}={session}; Path=/; HttpOnly; SameSite={same_site}")
    }

    /// Compares in constant time.
    pub fn is(&self, other: &str) -> bool {
        self.token.as_bytes().ct_eq(other.as_bytes()).into()
    }

    /// The value of the cookie, from which the secret cannot be derived.
    pub fn session(&self) -> String {
        base16ct::lower::encode_string(&Sha256::digest(format!("spoor page\0{}", self.token)))
    }
}

/// The address of the page without the secret, if the query has one, right or wrong.
pub fn without_token(query: &str) -> Option<String> {
    let mut others = Serializer::new(String::new());
    let mut has_token = false;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if name == TOKEN {
            has_token = true;
        } else {
            others.append_pair(&name, &value);
        }
    }
    let others = others.finish();
    has_token.then(|| match others.as_str() {
        "" => "/".to_owned(),
        others => format!("/?{others}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_leads_to_the_page_with_a_cookie_and_without_the_secret() {
        let address = SocketAddr::from(([127, 0, 0, 1], 81));
        let access = Access::random(address).unwrap();
        let uri: Uri = format!("{}&as=bob%20b", access.link(address))
            .parse()
            .unwrap();
        let answer = access.login(&uri).unwrap();
        let header = |name| answer.headers().get(name).unwrap().to_str().unwrap();
        assert_eq!(header(header::LOCATION), "/?as=bob+b");
        let cookie = header(header::SET_COOKIE);
        assert!(!cookie.contains(&access.token), "{cookie}");
        let mut headers = HeaderMap::new();
        assert!(!access.admits(&headers));
        headers.insert(
            header::COOKIE,
            cookie.split(';').next().unwrap().parse().unwrap(),
        );
        assert!(access.admits(&headers));
        assert!(!Access::random(address).unwrap().admits(&headers));
        for other in ["/?token=0", "/?as=bob", "/", "/next?token=0"] {
            assert!(access.login(&other.parse().unwrap()).is_none(), "{other}");
        }
        assert_eq!(without_token("as=bob"), None);
    }
}
