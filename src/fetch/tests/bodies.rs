//! Bodies: codings, caps, bombs, and the count of bytes held.

use super::*;

#[tokio::test]
pub(super) async fn a_plain_page() {
    let server = Server::answering(response(
        "Content-Type: text/html; charset=utf-8\r\nX-Robots-Tag: noai\r\nX-Robots-Tag: bot: noindex\r\n",
        b"<p>cats</p>",
    ))
    .await;
    let fetcher = lab();
    let answer = fetcher
        .fetch(&server.url("/a?b"), TaskKind::Page)
        .await
        .unwrap();
    assert_eq!((answer.status(), answer.bytes()), (200, 11));
    let Answer::Body { fetched, held } = answer else {
        panic!("no body")
    };
    assert_eq!(&fetched.body[..], b"<p>cats</p>");
    assert_eq!(
        fetched.content_type.as_deref(),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(fetched.terms.robots_tags, ["noai", "bot: noindex"]);
    assert!(!fetched.truncated);
    assert!(fetched.elapsed > Duration::ZERO);
    assert_eq!((fetcher.bytes_in_flight(), held.bytes()), (11, 11));
    drop(held);
    assert_eq!(fetcher.bytes_in_flight(), 0);
    assert!(server.heads()[0].starts_with("GET /a?b HTTP/1.1\r\n"));
}

/// The smallest valid brotli stream: one uncompressed meta-block (RFC 7932
/// section 9.2), then an empty last one.
fn brotli(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap() - 1;
    let header = (length << 4 | 1 << 20).to_le_bytes();
    [&header[..3], bytes, &[3]].concat()
}

/// The smallest valid zstd frame: one raw block (RFC 8878 section 3.1.1).
fn zstd(bytes: &[u8]) -> Vec<u8> {
    let size = u8::try_from(bytes.len()).unwrap();
    let block = (u32::from(size) << 3 | 1).to_le_bytes();
    let magic = [0x28, 0xb5, 0x2f, 0xfd, 0x20, size];
    [&magic, &block[..3], bytes].concat()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
pub(super) async fn content_codings_are_decoded() {
    let text = b"A cat sat on the mat. A cat sat on the mat.";
    for (coding, bytes) in [
        ("gzip", gzip(text)),
        ("deflate", zlib(text)),
        ("br", brotli(text)),
        ("zstd", zstd(text)),
    ] {
        let head = format!("Content-Encoding: {coding}\r\n");
        let server = Server::answering(response(&head, &bytes)).await;
        let fetched = body(lab().fetch(&server.url("/"), TaskKind::Page).await);
        assert_eq!(&fetched.body[..], text, "{coding}");
        let head = &server.heads()[0];
        let accepted = header(head, "accept-encoding").concat();
        assert!(
            accepted.split(',').any(|c| c.trim() == coding),
            "{accepted}"
        );
    }
}

/// With and without the archive the body is the same, and only the archive keeps it as sent.
#[tokio::test]
pub(super) async fn codings_are_named_in_many_ways() {
    let text = b"User-agent: *\nDisallow: /\n";
    let twice = gzip(&gzip(text));
    let members = [gzip(&text[..9]), gzip(&text[9..])].concat();
    let chunks = |bytes: &[u8]| {
        [
            format!("{:x}\r\n", bytes.len()).as_bytes(),
            bytes,
            b"\r\n0\r\n\r\n",
        ]
        .concat()
    };
    for archive in [false, true] {
        let fetcher = lab_with(|o| o.archive = archive);
        for (head, bytes) in [
            ("Content-Encoding: GZIP", gzip(text)),
            ("Content-Encoding: x-gzip", gzip(text)),
            ("content-encoding: \"gzip\"", gzip(text)),
            ("Content-Encoding: gzip;q=1", gzip(text)),
            ("Content-Encoding: gzip,", gzip(text)),
            ("Content-Encoding: identity, gzip", gzip(text)),
            ("Content-Encoding: gzip, identity", gzip(text)),
            ("Content-Encoding: gzip, gzip", twice.clone()),
            (
                "Content-Encoding: gzip\r\nContent-Encoding: gzip",
                twice.clone(),
            ),
            ("Content-Encoding: gzip, br", brotli(&gzip(text))),
            ("Content-Encoding: gzip", members.clone()),
            ("Content-Encoding: utf-8", text.to_vec()),
            // Without the header, or as a file in that format.
            ("Content-Type: application/gzip", gzip(text)),
            ("Content-Type: text/plain", gzip(text)),
        ] {
            let server = Server::answering(response(&format!("{head}\r\n"), &bytes)).await;
            let exchanged = fetcher
                .fetch_booked(
                    &server.url("/"),
                    TaskKind::Robots,
                    &Validators::default(),
                    &Booking::default(),
                )
                .await;
            let wire = exchanged.wire.map(|wire| wire.body);
            assert_eq!(wire, archive.then(|| bytes.clone().into()), "{head}");
            assert_eq!(&body(exchanged.answer).body[..], text, "{head}");
        }
        for (head, bytes) in [
            ("Transfer-Encoding: gzip, chunked", chunks(&gzip(text))),
            ("Transfer-Encoding: gzip", gzip(text)),
            (
                "Content-Encoding: gzip\r\nTransfer-Encoding: gzip, chunked",
                chunks(&twice),
            ),
        ] {
            let sent = [
                format!("HTTP/1.1 200 OK\r\n{head}\r\nConnection: close\r\n\r\n").as_bytes(),
                &bytes,
            ]
            .concat();
            let server = Server::answering(sent).await;
            let answer = fetcher.fetch(&server.url("/"), TaskKind::Robots).await;
            assert_eq!(&body(answer).body[..], text, "{head}");
        }
    }
}

#[tokio::test]
pub(super) async fn what_cannot_be_decoded_is_a_failure_that_names_the_coding() {
    let text = b"User-agent: *\nDisallow: /\n";
    let cut = gzip(text);
    let with_rest = [&cut[..], b"Disallow: /x\n"].concat();
    for (coding, bytes, named) in [
        ("compress", &text[..], "compress"),
        ("aes128gcm", text, "aes128gcm"),
        ("gzip, zip", &cut, "zip"),
        ("gzip", text, "gzip"),
        ("br", text, "br"),
        ("gzip", &cut[..cut.len() - 4], "gzip"),
        ("gzip", &with_rest, "coded form"),
    ] {
        for archive in [false, true] {
            let head = format!("Content-Encoding: {coding}\r\n");
            let server = Server::answering(response(&head, bytes)).await;
            let fetcher = lab_with(|o| o.archive = archive);
            let answer = fetcher.fetch(&server.url("/"), TaskKind::Robots).await;
            let error = answer.unwrap_err();
            assert!(
                matches!(error.kind, FetchFailure::Decoding { .. }),
                "{error:?}"
            );
            assert!(error.to_string().contains(named), "{error}");
        }
    }
    // An unrequested part is not the file.
    let sent = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-3/9\r\nContent-Length: 4\r\n\r\nUser";
    let server = Server::answering(sent).await;
    let answer = lab().fetch(&server.url("/"), TaskKind::Robots).await;
    assert!(matches!(
        answer.unwrap_err().kind,
        FetchFailure::Status { status: 206, .. }
    ));
}

#[tokio::test]
pub(super) async fn a_coded_form_without_contents_has_an_end() {
    // Empty members, in any number.
    let empty = gzip(b"").repeat(20_000);
    let server = Server::answering(response("Content-Encoding: gzip\r\n", &empty)).await;
    let fetcher = lab_with(|o| o.page_cap = 10_000);
    let answer = fetcher.fetch(&server.url("/"), TaskKind::Page).await;
    assert!(matches!(
        answer.unwrap_err().kind,
        FetchFailure::Decoding { .. }
    ));
    assert_eq!(fetcher.bytes_in_flight(), 0);
}

#[tokio::test]
pub(super) async fn hundreds_of_header_lines_are_read() {
    let line = format!("Link: </{}.css>; rel=preload\r\n", "x".repeat(600));
    let lines = line.repeat(400);
    assert!(lines.len() > 200 << 10, "{}", lines.len());
    let server = Server::answering(response(&lines, b"cats")).await;
    let fetched = body(lab().fetch(&server.url("/"), TaskKind::Page).await);
    assert_eq!(
        (&fetched.body[..], fetched.terms.links.len()),
        (&b"cats"[..], 400)
    );
}

#[tokio::test]
pub(super) async fn a_chunked_body_is_put_together() {
    let server = Server::answering(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
    )
    .await;
    let fetched = body(lab().fetch(&server.url("/"), TaskKind::Page).await);
    assert_eq!(&fetched.body[..], b"abcde");
}

#[tokio::test]
pub(super) async fn no_content_is_an_empty_body() {
    let server = Server::answering("HTTP/1.1 204 No Content\r\n\r\n").await;
    let fetched = body(lab().fetch(&server.url("/"), TaskKind::Page).await);
    assert_eq!((fetched.status, fetched.body.len()), (204, 0));
}

fn bomb() -> Vec<u8> {
    let bytes = gzip(&vec![0; 64 << 20]);
    assert!(bytes.len() < 100_000);
    response("Content-Encoding: gzip\r\n", &bytes)
}

#[tokio::test]
pub(super) async fn a_bomb_stops_at_the_cap() {
    let server = Server::answering(bomb()).await;
    let fetcher = lab_with(|o| {
        o.page_cap = 1 << 20;
        o.image_cap = 1 << 20;
    });
    let answer = fetcher.fetch(&server.url("/"), TaskKind::Page).await;
    assert_eq!(fetcher.bytes_in_flight(), 1 << 20);
    let fetched = body(answer);
    assert!(fetched.truncated);
    assert_eq!(fetched.body.len(), 1 << 20);
    let image = fetcher.fetch(&server.url("/"), TaskKind::Image).await;
    let error = image.unwrap_err();
    assert!(
        matches!(
            error.kind,
            FetchFailure::TooLarge {
                cap: 0x10_0000,
                declared: None,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(error.seen.bytes, 1 << 20);
    assert_eq!(fetcher.bytes_in_flight(), 0);
}

#[tokio::test]
pub(super) async fn a_body_without_end_stops_at_the_cap() {
    let (stopped, mut stops) = tokio::sync::mpsc::unbounded_channel();
    let server = Server::http(move |mut stream, _| {
        let stopped = stopped.clone();
        async move {
            send(&mut stream, b"HTTP/1.1 200 OK\r\n\r\n").await;
            let mut sent = 0usize;
            while send(&mut stream, &[b'a'; 8192]).await {
                sent += 8192;
            }
            stopped.send(sent).unwrap();
        }
    })
    .await;
    let fetcher = lab_with(|o| o.page_cap = 100_000);
    let fetched = body(fetcher.fetch(&server.url("/"), TaskKind::Page).await);
    assert!(fetched.truncated);
    assert_eq!(fetched.body.len(), 100_000);
    // The connection was closed, so that the server could send no more.
    assert!(stops.recv().await.unwrap() >= 100_000 - 8192);
}

#[tokio::test]
pub(super) async fn caps_are_exact_and_by_kind() {
    let fetcher = lab_with(|o| {
        o.page_cap = 10;
        o.image_cap = 20;
        o.robots_cap = 30;
    });
    for (kind, cap) in [
        (TaskKind::Page, 10),
        (TaskKind::Image, 20),
        (TaskKind::Robots, 30),
    ] {
        let server = Server::answering(response("", &vec![b'x'; cap])).await;
        let whole = body(fetcher.fetch(&server.url("/"), kind).await);
        assert_eq!((whole.body.len(), whole.truncated), (cap, false));
        let chunked = format!("{:x}\r\n{}\r\n0\r\n\r\n", cap + 1, "x".repeat(cap + 1));
        let server = Server::answering(format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}"
        ))
        .await;
        match fetcher.fetch(&server.url("/"), kind).await {
            Ok(Answer::Body { fetched, .. }) => {
                assert_ne!(kind, TaskKind::Image);
                assert_eq!((fetched.body.len(), fetched.truncated), (cap, true));
            }
            Err(error) if matches!(error.kind, FetchFailure::TooLarge { declared: None, .. }) => {
                assert_eq!(kind, TaskKind::Image);
            }
            other => panic!("{kind:?}: {other:?}"),
        }
    }
}

#[tokio::test]
pub(super) async fn a_declared_giant_is_refused_unread() {
    let server = Server::http(|mut stream, _| async move {
        send(
            &mut stream,
            b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n",
        )
        .await;
        until_closed(&mut stream).await;
    })
    .await;
    let error = lab()
        .fetch(&server.url("/"), TaskKind::Image)
        .await
        .unwrap_err();
    assert!(
        matches!(
            error.kind,
            FetchFailure::TooLarge {
                declared: Some(1_000_000_000_000),
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!((error.seen.status, error.seen.bytes), (Some(200), 0));
}

#[tokio::test]
pub(super) async fn content_length_too_short_gives_what_it_declares() {
    let server = Server::answering("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdefghij").await;
    let fetched = body(lab().fetch(&server.url("/"), TaskKind::Page).await);
    assert_eq!(&fetched.body[..], b"abc");
}

#[tokio::test]
pub(super) async fn our_own_throttle_is_not_the_servers_slowness() {
    let server = Server::answering(response("", &vec![b'x'; 96_000])).await;
    let fetcher = lab_with(|o| {
        o.bytes_per_second = Some(64_000);
        o.total_timeout = Duration::from_secs(1);
    });
    let start = std::time::Instant::now();
    let fetched = body(fetcher.fetch(&server.url("/"), TaskKind::Page).await);
    let took = start.elapsed();
    assert_eq!(fetched.body.len(), 96_000);
    // A tenth of a second's budget is free.
    assert!(took >= Duration::from_millis(1390), "{took:?}");
    assert!(fetched.elapsed < Duration::from_secs(1));
}

#[tokio::test]
pub(super) async fn a_dropped_fetch_gives_back_what_it_held() {
    let server = Server::http(|mut stream, _| async move {
        send(&mut stream, &response("", &[b'x'; 100])[..80]).await;
        until_closed(&mut stream).await;
    })
    .await;
    let fetcher = lab();
    let url = server.url("/");
    let mut fetch = Box::pin(fetcher.fetch(&url, TaskKind::Page));
    while fetcher.bytes_in_flight() == 0 {
        tokio::select! {
            done = &mut fetch => panic!("{done:?}"),
            () = tokio::task::yield_now() => (),
        }
    }
    drop(fetch);
    assert_eq!(fetcher.bytes_in_flight(), 0);
    fetcher.bytes_below(0).await;
}
