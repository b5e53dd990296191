//! The HTTP clients: one that connects to the URL's host, and further ones for each
//! `connect_to` rule.

use std::path::Path;
use std::sync::Arc;

use reqwest::header::{ACCEPT, ACCEPT_ENCODING, HeaderMap, HeaderValue};
use reqwest::{Proxy, Request, Response, redirect, retry};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::page::TaskKind;

use super::error::SendError;
use super::options::{Options, SetupError};
use super::resolve::GuardedResolver;
use super::send_clocks::AfterConnecting;
use super::term_client;

/// The content codings that can be undone.
const CODINGS: HeaderValue = HeaderValue::from_static("gzip, br, zstd, deflate");

/// Maximum number of header lines in a response; hyper's default is 100, but servers send more.
pub(super) const MAX_HEADERS: usize = 500;

/// Maximum size of the headers in HTTP/2, about what hyper accepts in HTTP/1.
pub(super) const MAX_HEAD: u32 = 384 << 10;

/// A client, and whether its connections may always write.
#[derive(Debug)]
pub(super) enum Client {
    Open(reqwest::Client),
    /// Writes only during [`Options::term`].
    Gated(Box<term_client::GatedClient>),
}

impl Client {
    /// Sends a request.
    pub(super) async fn execute(&self, request: Request) -> Result<Response, SendError> {
        match self {
            Self::Open(client) => Ok(client.execute(request).await?),
            Self::Gated(client) => client.execute(request).await,
        }
    }
}

/// Builds a client. Everything is disabled that could send more than one request, or
/// reveal more to a server than necessary.
pub(super) fn build(
    options: &Options,
    tls: &ClientConfig,
    resolver: GuardedResolver,
    proxies: &[Proxy],
    http2: bool,
) -> Result<Client, SetupError> {
    let mut tls = tls.clone();
    tls.alpn_protocols = if http2 {
        vec![b"h2".to_vec(), b"http/1.1".to_vec()]
    } else {
        vec![b"http/1.1".to_vec()]
    };
    if let Some(term) = &options.term {
        if !proxies.is_empty() {
            return Err(SetupError::Proxy {
                place: "network.proxy",
                why: "a machine of a cluster must reach the web without one".to_owned(),
            });
        }
        let client = term_client::GatedClient::new(options, term, tls, resolver, kept())?;
        return Ok(Client::Gated(Box::new(client)));
    }
    let builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .dns_resolver(Arc::new(resolver))
        .user_agent(options.user_agent())
        // The environment's proxies are used only if configured, and are then among
        // `proxies`.
        .no_proxy()
        .referer(false)
        .redirect(redirect::Policy::none())
        // Even a request that the server claims not to have processed is repeated only when the
        // host's clock permits it.
        .retry(retry::never())
        .pool_max_idle_per_host(kept())
        .pool_idle_timeout(options.pool_idle)
        .http1_max_headers(MAX_HEADERS)
        .http2_max_header_list_size(MAX_HEAD)
        // Browsers tolerate such header lines.
        .http1_ignore_invalid_headers_in_responses(true)
        .http1_allow_spaces_after_header_name_in_responses(true)
        .http1_allow_obsolete_multiline_headers_in_responses(true);
    let builder = if options.booked {
        builder.connector_layer(AfterConnecting {
            limit: options.connect_timeout,
        })
    } else {
        builder.connect_timeout(options.connect_timeout)
    };
    let builder = proxies
        .iter()
        .cloned()
        .fold(builder, |b, proxy| b.proxy(proxy));
    let builder = if http2 { builder } else { builder.http1_only() };
    let client = builder.build();
    let client = client.map_err(|e| SetupError::Client(e.to_string()))?;
    Ok(Client::Open(client))
}

/// The minimum limit of open files for keeping connections. Kept connections are limited per host,
/// not in total: at 2,000 requests a second those of the last five seconds are 10,000.
pub const FILES_TO_KEEP: u64 = 16_384;

/// The number of connections kept for each host's next request; none if they could leave too few
/// files for the store and the outputs. An additional handshake costs less.
fn kept() -> usize {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Resource, getrlimit};
        // The limit to which the current one can be raised.
        let files = getrlimit(Resource::Nofile).maximum;
        if files.is_some_and(|files| files < FILES_TO_KEEP) {
            return 0;
        }
    }
    1
}

/// Checks a file of certificate authorities in the way that every client reads it.
///
/// # Errors
///
/// [`SetupError::ExtraCa`] with the file and the problem.
pub fn check_authorities(path: &Path) -> Result<(), SetupError> {
    tls(Some(path)).map(drop)
}

/// The TLS settings of every client: `ring`, Mozilla's roots, and the extra ones.
pub(super) fn tls(extra_ca: Option<&Path>) -> Result<ClientConfig, SetupError> {
    let mut roots = RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    if let Some(path) = extra_ca {
        let wrong = |why: String| SetupError::ExtraCa {
            path: path.to_owned(),
            why,
        };
        let before = roots.len();
        for certificate in CertificateDer::pem_file_iter(path).map_err(|e| wrong(e.to_string()))? {
            let certificate = certificate.map_err(|e| wrong(e.to_string()))?;
            roots.add(certificate).map_err(|e| wrong(e.to_string()))?;
        }
        if roots.len() == before {
            return Err(wrong("it contains no certificate".to_owned()));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| SetupError::Client(e.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// The headers of a request besides the common ones: the types that the kind can use, and the
/// codings that can be undone. `Accept-Language` is omitted, so that a page arrives in its own
/// language.
pub(super) fn headers(kind: TaskKind) -> HeaderMap {
    let accept = match kind {
        TaskKind::Page => {
            "text/html,application/xhtml+xml,application/xml;q=0.9,text/plain;q=0.8,*/*;q=0.1"
        }
        // By name and not as `image/*`: a server that negotiates would send AVIF, which
        // cannot be decoded.
        TaskKind::Image => {
            "image/jpeg,image/png,image/webp,image/gif,image/bmp;q=0.5,image/tiff;q=0.5,*/*;q=0.1"
        }
        TaskKind::Robots => "text/plain,*/*;q=0.1",
        TaskKind::Tdmrep => "application/json,*/*;q=0.1",
        TaskKind::Rsl => "application/rsl+xml,application/xml;q=0.9,*/*;q=0.1",
        TaskKind::Sitemap => "application/xml,text/xml,application/gzip,text/plain,*/*;q=0.1",
    };
    let accept = HeaderValue::from_static(accept);
    HeaderMap::from_iter([(ACCEPT, accept), (ACCEPT_ENCODING, CODINGS)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_ca_files_are_checked() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing.pem");
        let empty = dir.path().join("empty.pem");
        std::fs::write(&empty, "no certificate here\n").unwrap();
        let broken = dir.path().join("broken.pem");
        std::fs::write(
            &broken,
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        )
        .unwrap();
        for path in [missing, empty, broken] {
            let error = tls(Some(&path)).unwrap_err();
            assert!(
                error.to_string().contains(path.to_str().unwrap()),
                "{error}"
            );
        }
        assert!(tls(None).is_ok());
    }
}
