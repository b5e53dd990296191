//! Failures: broken connections, silence, nonsense, statuses, redirects, refusals.

use super::*;

/// The failure of one request for `/`.
async fn failure(fetcher: &Fetcher, server: &Server) -> FetchError {
    let answer = fetcher.fetch(&server.url("/"), TaskKind::Page).await;
    answer.map(|a| panic!("{a:?}")).unwrap_err()
}

/// The name of a failure in the tables below.
fn name(error: &FetchError) -> &'static str {
    match error.kind {
        FetchFailure::Dns { .. } => "dns",
        FetchFailure::PrivateAddress { .. } => "private",
        FetchFailure::Connection { .. } => "connection",
        FetchFailure::Tls { .. } => "tls",
        FetchFailure::Timeout { .. } => "timeout",
        FetchFailure::Protocol { .. } => "protocol",
        FetchFailure::Decoding { .. } => "decoding",
        FetchFailure::Status { .. } => "status",
        FetchFailure::BadRedirect { .. } => "redirect",
        FetchFailure::TooLarge { .. } => "large",
        FetchFailure::Unsendable { .. } => "unsendable",
        FetchFailure::Proxy => "proxy",
        FetchFailure::NoRoom { .. } => "no room",
        FetchFailure::Local { .. } => "local",
        FetchFailure::TermOver { .. } => "term",
        FetchFailure::Payment { .. } => "payment",
        FetchFailure::Challenge { .. } => "challenge",
    }
}

#[tokio::test]
pub(super) async fn a_port_without_a_listener_is_a_failure() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = PageUrl::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    drop(listener);
    let error = lab().fetch(&url, TaskKind::Page).await.unwrap_err();
    assert_eq!(name(&error), "connection", "{error}");
    assert_eq!((error.seen.status, error.seen.bytes), (None, 0));
    assert!(error.to_string().contains("127.0.0.1"), "{error}");
}

#[tokio::test]
pub(super) async fn cut_at_every_stage() {
    let server = Server::raw(|stream| async move { drop(stream) }).await;
    assert_eq!(name(&failure(&lab(), &server).await), "connection");

    let text = b"A cat sat on the mat.";
    let packed = gzip(text);
    let coded = response("Content-Encoding: gzip\r\n", &packed);
    for (sent, status, bytes) in [
        (&b""[..], None, 0),
        (b"HTTP/1.", None, 0),
        (b"HTTP/1.1 200 OK\r\nContent-Ty", None, 0),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n",
            Some(200),
            0,
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc",
            Some(200),
            3,
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
            Some(200),
            3,
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
            Some(200),
            3,
        ),
        (&coded[..coded.len() - packed.len() + 4], Some(200), 0),
    ] {
        let server = Server::answering(sent).await;
        let error = failure(&lab(), &server).await;
        let shown = String::from_utf8_lossy(sent);
        assert_eq!(name(&error), "connection", "{shown}: {error}");
        let seen = error.seen;
        assert_eq!((seen.status, seen.bytes), (status, bytes), "{shown}");
        assert!(seen.elapsed > Duration::ZERO);
        assert_eq!(server.connections(), 1, "{shown}");
    }
}

#[tokio::test]
pub(super) async fn nonsense() {
    let packed = gzip(b"A cat sat on the mat.");
    let coding = "Content-Encoding: gzip\r\n";
    for (sent, expected) in [
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n".to_vec(), "protocol"),
        (b"HTTP/1.1 9x9 Eh\r\n\r\n".to_vec(), "protocol"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n".to_vec(),
            "protocol",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc".to_vec(),
            "protocol",
        ),
        (response(coding, b"not compressed at all"), "decoding"),
        (response(coding, &packed[..12]), "decoding"),
    ] {
        let shown = String::from_utf8_lossy(&sent).into_owned();
        let server = Server::answering(sent).await;
        let error = failure(&lab(), &server).await;
        assert_eq!(name(&error), expected, "{shown}: {error:?}");
    }
}

#[tokio::test]
pub(super) async fn header_lines_that_browsers_forgive() {
    let server = Server::answering(
        "HTTP/1.1 200 OK\r\nbad header line\r\nX-Space : a\r\nX-Fold: a\r\n b\r\nContent-Length: 2\r\n\r\nok",
    )
    .await;
    let fetched = body(lab().fetch(&server.url("/"), TaskKind::Page).await);
    assert_eq!(&fetched.body[..], b"ok");
}

#[tokio::test]
pub(super) async fn silence_is_a_timeout() {
    let fetcher = lab_with(|o| o.read_timeout = Duration::from_millis(200));
    for (sent, expected, status) in [
        (&b""[..], Phase::Head, None),
        (b"HTTP/1.1 200 OK\r\nContent-", Phase::Head, None),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
            Phase::Body,
            Some(200),
        ),
    ] {
        let server = Server::http(move |mut stream, _| async move {
            send(&mut stream, sent).await;
            until_closed(&mut stream).await;
        })
        .await;
        let error = failure(&fetcher, &server).await;
        assert!(
            matches!(error.kind, FetchFailure::Timeout { phase, .. } if phase == expected),
            "{error:?}"
        );
        assert_eq!(error.seen.status, status);
        assert!(error.seen.elapsed >= Duration::from_millis(200));
    }
    // A handshake without an answer.
    let fetcher = lab_with(|o| o.connect_timeout = Duration::from_millis(200));
    let server = Server::raw(|mut stream| async move { until_closed(&mut stream).await }).await;
    let url = PageUrl::parse(&format!("https://{}/", server.address)).unwrap();
    let error = fetcher.fetch(&url, TaskKind::Page).await.unwrap_err();
    assert!(
        matches!(
            error.kind,
            FetchFailure::Timeout {
                phase: Phase::Connecting,
                ..
            }
        ),
        "{error:?}"
    );
}

#[tokio::test]
pub(super) async fn a_slow_drip_ends_in_time() {
    let server = Server::http(|mut stream, _| async move {
        send(&mut stream, b"HTTP/1.1 200 OK\r\n\r\n").await;
        let mut drip = tokio::time::interval(Duration::from_millis(10));
        while send(&mut stream, b"x").await {
            drip.tick().await;
        }
    })
    .await;
    let fetcher = lab_with(|o| {
        o.read_timeout = Duration::from_secs(20);
        o.total_timeout = Duration::from_millis(300);
    });
    let error = failure(&fetcher, &server).await;
    assert!(
        matches!(
            error.kind,
            FetchFailure::Timeout {
                phase: Phase::Whole,
                ..
            }
        ),
        "{error:?}"
    );
    assert!(error.seen.bytes > 0);
}

#[tokio::test]
pub(super) async fn statuses_keep_their_retry_after() {
    let later = SystemTime::now() + Duration::from_secs(3600);
    let date = httpdate::fmt_http_date(later);
    for (status, header, least, most) in [
        (429, "Retry-After: 90".to_owned(), Some(90), Some(90)),
        (503, format!("Retry-After: {date}"), Some(3500), Some(3600)),
        (
            503,
            "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT".to_owned(),
            Some(0),
            Some(0),
        ),
        (500, "Retry-After: soon".to_owned(), None, None),
        (404, "X-Other: 1".to_owned(), None, None),
        (304, "X-Other: 1".to_owned(), None, None),
        (404, "Retry-After: 90".to_owned(), Some(90), Some(90)),
        (
            403,
            "Retry-After: 5\r\nRetry-After: 90\r\nRetry-After: 7".to_owned(),
            Some(90),
            Some(90),
        ),
    ] {
        let server = Server::answering(format!(
            "HTTP/1.1 {status} Eh\r\n{header}\r\nContent-Length: 0\r\n\r\n"
        ))
        .await;
        let error = failure(&lab(), &server).await;
        let FetchFailure::Status {
            status: got,
            retry_after,
        } = error.kind
        else {
            panic!("{error:?}")
        };
        assert_eq!((got, error.seen.status), (status, Some(status)));
        assert!(retry_after >= least.map(Duration::from_secs), "{header}");
        assert!(retry_after <= most.map(Duration::from_secs), "{header}");
    }
}

#[tokio::test]
pub(super) async fn redirects_are_answers() {
    for status in [301, 302, 303, 307, 308, 300] {
        let server = Server::answering(format!(
            "HTTP/1.1 {status} Eh\r\nLocation: ../c?d#e\r\nRetry-After: 9\r\n\
             Content-Length: 5\r\n\r\nmoved"
        ))
        .await;
        let answer = lab()
            .fetch(&server.url("/a/b"), TaskKind::Page)
            .await
            .unwrap();
        assert_eq!((answer.status(), answer.bytes()), (status, 0));
        let Answer::Redirect {
            to,
            elapsed,
            retry_after,
            ..
        } = answer
        else {
            panic!("no redirect")
        };
        assert_eq!(retry_after, Some(Duration::from_secs(9)));
        assert_eq!(to, server.url("/c?d"));
        assert!(elapsed > Duration::ZERO);
        assert_eq!(server.connections(), 1, "it was not followed");
    }
}

#[tokio::test]
pub(super) async fn redirects_to_nowhere() {
    for location in [
        "",
        "Location: \r\n",
        "Location: ftp://example.org/\r\n",
        "Location: http://\r\n",
        "Location: /\r\n",
    ] {
        let server = Server::answering(format!(
            "HTTP/1.1 302 Found\r\n{location}Retry-After: 9\r\nContent-Length: 0\r\n\r\n"
        ))
        .await;
        let error = failure(&lab(), &server).await;
        assert!(
            matches!(error.kind, FetchFailure::BadRedirect { status: 302, .. }),
            "{location}: {error:?}"
        );
        assert_eq!(error.seen.status, Some(302));
        assert_eq!(error.retry_after(), Some(Duration::from_secs(9)));
    }
    let server = Server::answering("HTTP/1.1 300 Choose\r\nContent-Length: 0\r\n\r\n").await;
    assert_eq!(name(&failure(&lab(), &server).await), "status");
}

#[tokio::test]
pub(super) async fn reserved_names_do_not_resolve() {
    for host in ["a.test", "b.invalid", "localhost", "c.localhost", "d.onion"] {
        for fetcher in [lab(), lab_with(|o| o.allow_private = false)] {
            for scheme in ["http", "https"] {
                let url = PageUrl::parse(&format!("{scheme}://{host}/")).unwrap();
                let error = fetcher.fetch(&url, TaskKind::Page).await.unwrap_err();
                assert_eq!(name(&error), "dns", "{url}: {error:?}");
                assert!(error.to_string().contains(host), "{error}");
            }
        }
    }
}

#[tokio::test]
pub(super) async fn private_addresses_are_not_asked() {
    let server = Server::answering(response("", b"secret")).await;
    let port = server.address.port();
    let guarded = lab_with(|o| {
        o.allow_private = false;
    });
    for address in [
        format!("http://127.0.0.1:{port}/"),
        format!("http://0x7f.1:{port}/"),
        format!("http://2130706433:{port}/"),
        format!("http://017700000001:{port}/"),
        format!("http://127.1:{port}/"),
        format!("http://127.0.0.1.:{port}/"),
        format!("http://127.0.0.1..:{port}/"),
        format!("http://%31%32%37.0.0.1:{port}/"),
        format!("http://%30x7f%2e1:{port}/"),
        format!("http://\u{ff11}\u{ff12}\u{ff17}\u{3002}0\u{ff0e}0.1:{port}/"),
        format!("http://\u{2460}\u{2461}\u{2466}.0.0.1:{port}/"),
        format!("http://user:secret@127.0.0.1:{port}/"),
        format!("http://0.0.0.0:{port}/"),
        format!("http://0:{port}/"),
        format!("http://[::127.0.0.1]:{port}/"),
        format!("http://[::1]:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://[::ffff:7f00:1]:{port}/"),
        format!("http://[64:ff9b::7f00:1]:{port}/"),
        format!("https://127.0.0.1:{port}/"),
    ] {
        let url = PageUrl::parse(&address).unwrap();
        let error = guarded.fetch(&url, TaskKind::Page).await.unwrap_err();
        let FetchFailure::PrivateAddress { host, address, .. } = &error.kind else {
            panic!("{url}: {error:?}")
        };
        assert_eq!(host, url.host());
        assert!(address_guard::special_purpose(*address).is_some());
    }
    assert_eq!(server.connections(), 0);
    // The same server answers if that is permitted.
    let fetched = body(lab().fetch(&server.url("/"), TaskKind::Page).await);
    assert_eq!(&fetched.body[..], b"secret");
    assert_eq!(server.connections(), 1);
}
