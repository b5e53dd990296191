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
            error,
            FetchError::TooLarge {
                cap: 0x10_0000,
                declared: None,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(error.seen().bytes, 1 << 20);
    assert_eq!(fetcher.bytes_in_flight(), 0);
}

/// What bounds memory to the cap and a little: however much a compressed chunk
/// stands for, the decoder gives it out in small pieces.
#[tokio::test]
pub(super) async fn the_decoder_gives_small_chunks() {
    let server = Server::answering(bomb()).await;
    let fetcher = lab();
    let url = server.url("/");
    let route = fetcher.inner.router.route(&url).unwrap();
    let request = Request::new(Method::GET, route.url);
    let mut response = route.client.execute(request).await.unwrap();
    let (mut all, mut largest) = (0, 0);
    while let Some(chunk) = response.chunk().await.unwrap() {
        all += chunk.len();
        largest = largest.max(chunk.len());
    }
    assert_eq!(all, 64 << 20);
    assert!(largest <= 64 << 10, "{largest}");
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
            Err(FetchError::TooLarge { declared: None, .. }) => assert_eq!(kind, TaskKind::Image),
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
            error,
            FetchError::TooLarge {
                declared: Some(1_000_000_000_000),
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!((error.seen().status, error.seen().bytes), (Some(200), 0));
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
