//! TLS and HTTP/2, against a certificate authority made for the test.

use axum::http;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

use super::*;

const NAMES: [&str; 2] = ["www.example.org", "127.0.0.1"];

/// An authority's certificate in a file, and a server's TLS under it.
pub(super) struct Authority {
    pub(super) file: tempfile::NamedTempFile,
    pub(super) acceptor: TlsAcceptor,
}

pub(super) fn authority(protocols: &[&str]) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(ca.pem().as_bytes()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(NAMES.map(str::to_owned)).unwrap();
    let certificate = params.signed_by(&key, &ca).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
    Authority {
        file,
        acceptor: TlsAcceptor::from(Arc::new(config)),
    }
}

/// One request as the server saw it.
type Log = Arc<Mutex<Vec<String>>>;

/// Answers one request per connection in the negotiated protocol, and logs `protocol server-name
/// authority`. `refuse` resets HTTP/2 streams instead.
async fn serve(acceptor: TlsAcceptor, refuse: bool) -> (Server, Log) {
    let log = Log::default();
    let kept = log.clone();
    let server = Server::raw(move |stream| {
        let (acceptor, log) = (acceptor.clone(), kept.clone());
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                return;
            };
            let session = stream.get_ref().1;
            let name = session.server_name().unwrap_or("-").to_owned();
            if session.alpn_protocol() == Some(b"h2") {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    let authority = request.uri().authority().unwrap();
                    log.lock().unwrap().push(format!("h2 {name} {authority}"));
                    if refuse {
                        respond.send_reset(h2::Reason::REFUSED_STREAM);
                        continue;
                    }
                    let head = http::Response::new(());
                    let mut body = respond.send_response(head, false).unwrap();
                    body.send_data("h2 body".into(), true).unwrap();
                }
                return;
            }
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            let host = header(&head, "host")[0];
            log.lock().unwrap().push(format!("h1 {name} {host}"));
            stream.write_all(&response("", b"h1 body")).await.unwrap();
            stream.shutdown().await.unwrap();
        }
    })
    .await;
    (server, log)
}

fn fetcher(server: &Server, authority: Option<&Authority>, http2: bool) -> Fetcher {
    lab_with(|o| {
        o.http2 = http2;
        o.extra_ca = authority.map(|a| a.file.path().to_owned());
        o.connect_to = vec![to(server, ":")];
    })
}

async fn fetch(fetcher: &Fetcher, url: &str) -> Result<Answer, FetchError> {
    let url = PageUrl::parse(url).unwrap();
    fetcher.fetch(&url, TaskKind::Page).await
}

#[tokio::test]
pub(super) async fn http2_where_both_offer_it() {
    let authority = authority(&["h2", "http/1.1"]);
    let (server, log) = serve(authority.acceptor.clone(), false).await;
    let url = "https://www.example.org/";

    let fetched = body(fetch(&fetcher(&server, Some(&authority), true), url).await);
    assert_eq!(fetched.body, "h2 body");
    let fetched = body(fetch(&fetcher(&server, Some(&authority), false), url).await);
    assert_eq!(fetched.body, "h1 body");
    // With a port, sent to another one: HTTP/1.1, under the right names.
    let url = "https://www.example.org:8443/";
    let fetched = body(fetch(&fetcher(&server, Some(&authority), true), url).await);
    assert_eq!(fetched.body, "h1 body");
    assert_eq!(
        *log.lock().unwrap(),
        [
            "h2 www.example.org www.example.org",
            "h1 www.example.org www.example.org",
            "h1 www.example.org www.example.org:8443",
        ]
    );
}

/// TLS is used with the address itself, so nothing needs to be replaced.
#[tokio::test]
pub(super) async fn https_to_an_address_follows_a_port() {
    let authority = authority(&["h2", "http/1.1"]);
    let (server, log) = serve(authority.acceptor.clone(), false).await;
    let fetcher = lab_with(|o| {
        o.extra_ca = Some(authority.file.path().to_owned());
        o.connect_to = vec![rule(&format!(":::{}", server.address.port()))];
    });
    for url in ["https://127.0.0.1/", "https://127.0.0.1:99/"] {
        assert_eq!(body(fetch(&fetcher, url).await).body, "h1 body");
    }
    assert_eq!(
        *log.lock().unwrap(),
        ["h1 - 127.0.0.1", "h1 - 127.0.0.1:99"]
    );
}

#[tokio::test]
pub(super) async fn http1_where_the_server_has_no_other() {
    let authority = authority(&["http/1.1"]);
    let (server, _log) = serve(authority.acceptor.clone(), false).await;
    let answer = fetch(
        &fetcher(&server, Some(&authority), true),
        "https://www.example.org/",
    )
    .await;
    assert_eq!(body(answer).body, "h1 body");
}

#[tokio::test]
pub(super) async fn certificates_are_judged() {
    let authority = authority(&["h2", "http/1.1"]);
    let (server, log) = serve(authority.acceptor.clone(), false).await;
    for (trusted, url) in [
        (None, "https://www.example.org/"),
        (Some(&authority), "https://other.example.org/"),
    ] {
        let error = fetch(&fetcher(&server, trusted, true), url)
            .await
            .unwrap_err();
        assert!(matches!(error.kind, FetchFailure::Tls { .. }), "{error:?}");
    }
    assert!(log.lock().unwrap().is_empty(), "no request was sent");
}

#[tokio::test]
pub(super) async fn a_plain_server_speaks_no_tls() {
    let server = Server::raw(|mut stream| async move {
        send(
            &mut stream,
            b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
        )
        .await;
        until_closed(&mut stream).await;
    })
    .await;
    let error = fetch(&fetcher(&server, None, true), "https://www.example.org/")
        .await
        .unwrap_err();
    assert!(matches!(error.kind, FetchFailure::Tls { .. }), "{error:?}");
}

/// The library would resend it by itself; the host's clock forbids that.
#[tokio::test]
pub(super) async fn a_refused_stream_is_not_sent_again() {
    let authority = authority(&["h2"]);
    let (server, log) = serve(authority.acceptor.clone(), true).await;
    let error = fetch(
        &fetcher(&server, Some(&authority), true),
        "https://www.example.org/",
    )
    .await
    .unwrap_err();
    assert!(
        matches!(error.kind, FetchFailure::Connection { .. }),
        "{error:?}"
    );
    assert_eq!(log.lock().unwrap().len(), 1);
}
