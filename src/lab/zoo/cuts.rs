//! Connections that end, or send, at the wrong moment; and untrusted TLS.

use std::io;

use super::tls::Certificate;
use super::{Case, Connection, Expect, Serve, behaviour};

fn case(name: &'static str, about: &'static str, serve: Serve, expect: Expect) -> Case {
    let path = match expect.kind {
        "robots" => "/robots.txt",
        _ => "/",
    };
    Case {
        name,
        about,
        path,
        serve,
        expect,
    }
}

/// A reset after these bytes.
fn reset_after(bytes: &'static [u8]) -> Serve {
    Serve::raw(move |mut connection: Connection| async move {
        connection.send(bytes).await?;
        connection.reset()
    })
}

fn shown(certificate: Certificate) -> Serve {
    Serve::Tls {
        certificate,
        http2: false,
        // No handshake gets this far.
        behave: behaviour(Connection::close),
    }
}

/// Acts from the beginning of the connection, where TLS may be expected.
fn before<F>(secure: bool, behave: impl Fn(Connection) -> F + Send + Sync + 'static) -> Serve
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    Serve::Early {
        secure,
        behave: behaviour(behave),
    }
}

/// The cases of this group.
pub fn cases() -> Vec<Case> {
    let mut cases = cuts();
    cases.extend(early());
    cases.extend(secure());
    cases
}

fn cuts() -> Vec<Case> {
    let cut = |bytes: u64| Expect::dropped("page", "connection").bytes(bytes);
    const HEAD: &[u8] =
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100\r\n\r\n";
    const BODY: &[u8] =
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100\r\n\r\n<p>cut";
    vec![
        case(
            "cut-before-answer",
            "closes without an answer",
            Serve::bytes(""),
            cut(0),
        ),
        case(
            "cut-in-status",
            "closes within the status line",
            Serve::bytes("HTTP/1.1 20"),
            cut(0),
        ),
        case(
            "cut-after-status",
            "closes after the status line",
            Serve::bytes("HTTP/1.1 200 OK\r\n"),
            cut(0),
        ),
        case(
            "cut-in-headers",
            "closes within a header",
            Serve::bytes("HTTP/1.1 200 OK\r\nContent-Ty"),
            cut(0),
        ),
        case(
            "cut-after-headers",
            "closes after the headers",
            Serve::bytes(HEAD),
            cut(0),
        ),
        case(
            "cut-in-body",
            "closes within the body",
            Serve::bytes(BODY),
            cut(6),
        ),
        case(
            "reset-before-answer",
            "resets the connection without an answer",
            reset_after(b""),
            cut(0),
        ),
        case(
            "reset-in-headers",
            "resets the connection within a header",
            reset_after(b"HTTP/1.1 200 OK\r\nContent-Ty"),
            cut(0),
        ),
        case(
            "reset-in-body",
            "resets the connection within the body",
            reset_after(BODY),
            cut(6),
        ),
        case(
            "second-answer",
            "sends a second answer that nobody asked for, for the next request to take",
            Serve::raw(|mut connection| async move {
                let body = "<!DOCTYPE html><p><a href=/next>next</a>";
                let length = body.len();
                let honest = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n{body}"
                );
                let unasked = "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n";
                connection
                    .send(format!("{honest}{unasked}").as_bytes())
                    .await?;
                connection.wait().await
            }),
            Expect::done("page").at("http://second-answer.zoo.test/next"),
        ),
    ]
}

fn early() -> Vec<Case> {
    let failed = || Expect::retrying("robots", "connection").bytes(0);
    vec![
        case(
            "cut-at-once",
            "closes every connection at once",
            before(false, Connection::close),
            failed(),
        ),
        case(
            "reset-at-once",
            "resets every connection at once",
            before(false, |connection| async { connection.reset() }),
            failed(),
        ),
        case(
            "answers-first",
            "answers before it has heard more than a byte of the question",
            before(false, |mut connection| async move {
                let early = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 24\r\n\r\nUser-agent: *\nDisallow:\n";
                connection.receive(&mut [0]).await?;
                connection.send(early).await?;
                connection.wait().await
            }),
            Expect::done("robots").bytes(24),
        ),
        case(
            "another-protocol",
            "greets as a mail server",
            before(false, |mut connection| async move {
                connection.send(b"220 zoo.test ESMTP\r\n").await?;
                connection.wait().await
            }),
            Expect::retrying("robots", "protocol").bytes(0),
        ),
    ]
}

fn secure() -> Vec<Case> {
    let untrusted = |why| Expect::retrying("robots", "tls").bytes(0).saying(why);
    let answering = |bytes: &'static [u8]| Serve::Tls {
        certificate: Certificate::Good,
        http2: false,
        behave: behaviour(move |mut connection: Connection| async move {
            connection.request().await?;
            connection.send(bytes).await?;
            // The TCP connection ends without a TLS close.
            Ok(())
        }),
    };
    vec![
        case(
            "tls-expired",
            "shows a certificate that has expired",
            shown(Certificate::Expired),
            untrusted("expired"),
        ),
        case(
            "tls-future",
            "shows a certificate that is not valid yet",
            shown(Certificate::NotYetValid),
            untrusted("not valid yet"),
        ),
        case(
            "tls-wrong-name",
            "shows a certificate for another host",
            shown(Certificate::WrongName),
            untrusted("not valid for name"),
        ),
        case(
            "tls-self-signed",
            "shows a certificate that it signed itself",
            shown(Certificate::SelfSigned),
            untrusted("UnknownIssuer"),
        ),
        case(
            "tls-impostor",
            "shows a certificate of an authority with a trusted one's name",
            shown(Certificate::Impostor),
            untrusted("BadSignature"),
        ),
        case(
            "tls-silent",
            "takes the connection and never speaks TLS",
            before(true, Connection::wait),
            Expect::retrying("robots", "timeout")
                .bytes(0)
                .saying("no connection within"),
        ),
        case(
            "tls-plain",
            "answers in plain HTTP where TLS is expected",
            before(true, |mut connection| async move {
                connection.send(b"HTTP/1.1 400 Bad Request\r\n\r\n").await?;
                connection.wait().await
            }),
            Expect::retrying("robots", "tls").bytes(0),
        ),
        case(
            "tls-flood",
            "sends zeros for ever where TLS is expected",
            before(true, |mut connection| async move {
                loop {
                    connection.send(&[0; 16 << 10]).await?;
                }
            }),
            Expect::retrying("robots", "tls").bytes(0),
        ),
        case(
            "tls-cut",
            "closes within the handshake",
            before(true, |mut connection| async move {
                connection.receive(&mut [0; 5]).await?;
                connection.close().await
            }),
            Expect::retrying("robots", "connection").bytes(0),
        ),
        case(
            "tls-cut-head",
            "ends the connection below TLS within the head",
            answering(b"HTTP/1.1 200 OK\r\nConte"),
            Expect::retrying("robots", "connection").bytes(0),
        ),
        case(
            "tls-cut-body",
            "ends the connection below TLS within a body of unknown length",
            answering(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nUser-agent: *\nDis"),
            Expect::retrying("robots", "connection"),
        ),
    ]
}
