//! What is sent, and where: headers and `connect_to`.

use super::*;

async fn get(fetcher: &Fetcher, url: &str) -> Fetched {
    let url = PageUrl::parse(url).unwrap();
    body(fetcher.fetch(&url, TaskKind::Page).await)
}

#[tokio::test]
pub(super) async fn requests_say_who_asks_and_no_more() {
    let server = Server::answering(response("Set-Cookie: id=1; Path=/\r\n", b"ok")).await;
    let fetcher = lab_with(|o| o.product = "Our-Spoor".into());
    for kind in [TaskKind::Page, TaskKind::Image, TaskKind::Robots] {
        body(fetcher.fetch(&server.url("/"), kind).await);
    }
    let heads = server.heads();
    assert_eq!(heads.len(), 3);
    let version = env!("CARGO_PKG_VERSION");
    let agent = format!("Our-Spoor/{version} (+https://example.org/bot)");
    for (head, accept) in heads
        .iter()
        .zip(["text/html,", "image/jpeg,", "text/plain,"])
    {
        assert_eq!(header(head, "user-agent"), [agent.as_str()]);
        assert_eq!(header(head, "host"), [server.address.to_string()]);
        let accepts = header(head, "accept");
        assert!(accepts.len() == 1 && accepts[0].starts_with(accept));
        for absent in ["cookie", "referer", "accept-language", "authorization"] {
            assert_eq!(header(head, absent), [""; 0], "{absent}");
        }
    }
}

#[tokio::test]
pub(super) async fn a_mapped_host_keeps_its_name() {
    let server = Server::answering(response("", b"ok")).await;
    let fetcher = lab_with(|o| o.connect_to = vec![to(&server, ":")]);
    for (url, host) in [
        ("http://www.example.org/a?b", "www.example.org"),
        ("http://www.example.org:8080/a?b", "www.example.org:8080"),
        ("http://cats.test/a?b", "cats.test"),
        ("http://cats.test:99/a?b", "cats.test:99"),
        ("http://10.1.2.3/a?b", "10.1.2.3"),
        ("http://10.1.2.3:99/a?b", "10.1.2.3:99"),
        ("http://[2001:db8::1]/a?b", "[2001:db8::1]"),
        ("http://[2001:db8::1]:99/a?b", "[2001:db8::1]:99"),
    ] {
        assert_eq!(&get(&fetcher, url).await.body[..], b"ok", "{url}");
        let head = server.heads().pop().unwrap();
        assert_eq!(header(&head, "host"), [host]);
        assert!(head.starts_with("GET /a?b HTTP/1.1\r\n"), "{head}");
    }
    assert_eq!(server.connections(), 8);
}

#[tokio::test]
pub(super) async fn the_first_rule_that_matches_wins() {
    let one = Server::answering(response("", b"one")).await;
    let two = Server::answering(response("", b"two")).await;
    let three = Server::answering(response("", b"three")).await;
    let fetcher = lab_with(|o| {
        o.connect_to = vec![
            to(&one, "a.test:8080"),
            to(&two, "*.test:80"),
            to(&three, "*.test:"),
        ];
    });
    for (url, expected) in [
        ("http://a.test:8080/", "one"),
        ("http://a.test/", "two"),
        ("http://a.test:81/", "three"),
        ("http://b.test:8080/", "three"),
        ("http://b.test/", "two"),
        ("http://x.b.test/", "two"),
        ("http://a.test:8080/", "one"),
    ] {
        assert_eq!(get(&fetcher, url).await.body, expected, "{url}");
    }
    // Requests that match no rule go directly.
    let url = PageUrl::parse("http://test/").unwrap();
    let error = fetcher.fetch(&url, TaskKind::Page).await.unwrap_err();
    assert!(matches!(error.kind, FetchFailure::Dns { .. }), "{error:?}");
}

#[tokio::test]
pub(super) async fn without_a_port_the_urls_port_is_kept() {
    let server = Server::answering(response("", b"ok")).await;
    let port = server.address.port();
    let fetcher = lab_with(|o| {
        o.connect_to = vec![rule("::127.0.0.1:")];
    });
    for host in ["a.test", "10.1.2.3"] {
        let url = format!("http://{host}:{port}/");
        assert_eq!(get(&fetcher, &url).await.body, "ok");
        let head = server.heads().pop().unwrap();
        assert_eq!(header(&head, "host"), [format!("{host}:{port}")]);
    }
}

#[tokio::test]
pub(super) async fn without_a_host_the_urls_host_is_kept() {
    for ip in ["127.0.0.1", "[::1]"] {
        let Ok(listener) = TcpListener::bind((ip.trim_matches(['[', ']']), 0)).await else {
            eprintln!("skipped: {ip} is not an address of this machine");
            continue;
        };
        let server = Server::http_at(listener, |mut stream, _| async move {
            send(&mut stream, &response("", b"ok")).await;
        });
        let port = server.address.port();
        let elsewhere = rule(&format!(":::{port}"));
        let fetcher = lab_with(|o| o.connect_to = vec![elsewhere.clone()]);
        for host in [ip.to_owned(), format!("{ip}:99")] {
            let url = format!("http://{host}/a?b");
            assert_eq!(get(&fetcher, &url).await.body, "ok", "{url}");
            let head = server.heads().pop().unwrap();
            assert_eq!(header(&head, "host"), [host]);
            assert!(head.starts_with("GET /a?b HTTP/1.1\r\n"), "{head}");
        }
        let guarded = lab_with(|o| {
            o.allow_private = false;
            o.connect_to = vec![elsewhere];
        });
        let url = PageUrl::parse(&format!("http://{ip}/")).unwrap();
        let error = guarded.fetch(&url, TaskKind::Page).await.unwrap_err();
        assert!(matches!(error.kind, FetchFailure::PrivateAddress { .. }));
        assert_eq!(server.connections(), 2);
    }
    // The host's own name is looked up as usual, or not at all.
    let fetcher = lab_with(|o| o.connect_to = vec![rule(":::8080")]);
    let url = PageUrl::parse("http://a.test/").unwrap();
    let error = fetcher.fetch(&url, TaskKind::Page).await.unwrap_err();
    assert!(matches!(error.kind, FetchFailure::Dns { .. }), "{error:?}");
}

/// What the operator writes is taken literally; nothing else changes.
#[tokio::test]
pub(super) async fn an_address_as_target_needs_no_permission() {
    let server = Server::answering(response("", b"ok")).await;
    let guarded = lab_with(|o| {
        o.allow_private = false;
        o.connect_to = vec![
            to(&server, "mapped.example.org:"),
            to(&server, "93.184.216.34:"),
        ];
    });
    for url in [
        "http://mapped.example.org/",
        "http://mapped.example.org:99/",
        "http://93.184.216.34/",
    ] {
        assert_eq!(get(&guarded, url).await.body, "ok", "{url}");
    }
    let url = server.url("/");
    let error = guarded.fetch(&url, TaskKind::Page).await.unwrap_err();
    assert!(matches!(error.kind, FetchFailure::PrivateAddress { .. }));
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
pub(super) async fn a_rule_without_a_target_exempts() {
    let own = Server::answering(response("", b"own")).await;
    let other = Server::answering(response("", b"other")).await;
    let fetcher = lab_with(|o| {
        o.connect_to = vec![rule(&format!("{}::", own.address)), to(&other, ":")];
    });
    assert_eq!(get(&fetcher, own.url("/").as_str()).await.body, "own");
    assert_eq!(get(&fetcher, "http://127.0.0.1/").await.body, "other");
}

#[tokio::test]
pub(super) async fn rules_that_lead_nowhere_are_refused() {
    for text in ["a.org::b.test:80", "::localhost:", "::x.invalid:8080"] {
        let mut options = lab_options();
        options.connect_to = vec![rule(":::"), rule(text)];
        let error = Fetcher::new(options).unwrap_err();
        assert!(matches!(error, SetupError::ConnectTo { .. }), "{error:?}");
        assert!(error.to_string().contains(text), "{error}");
    }
}

/// Two URLs of one host that are sent to different places never share a connection; those that are
/// sent to the same place may.
#[tokio::test]
pub(super) async fn connections_are_reused_under_the_right_name() {
    let kept_open = || {
        Server::http(|mut stream, mut head| async move {
            loop {
                let host = header(&head, "host")[0].to_owned();
                send(&mut stream, &response("", host.as_bytes())).await;
                match read_head(&mut stream).await {
                    Some(next) => head = next,
                    None => return,
                }
            }
        })
    };
    let (one, two) = (kept_open().await, kept_open().await);
    let fetcher = lab_with(|o| {
        o.connect_to = vec![to(&one, "a.test:8080"), to(&two, "a.test:")];
    });
    for _ in 0..3 {
        assert_eq!(
            get(&fetcher, "http://a.test:8080/").await.body,
            "a.test:8080"
        );
        assert_eq!(get(&fetcher, "http://a.test/").await.body, "a.test");
    }
    assert_eq!((one.connections(), two.connections()), (1, 1));
}

#[tokio::test]
pub(super) async fn https_to_a_mapped_address_is_refused_by_name() {
    let server = Server::answering(response("", b"ok")).await;
    let fetcher = lab_with(|o| o.connect_to = vec![to(&server, ":")]);
    let url = PageUrl::parse("https://10.1.2.3/").unwrap();
    let error = fetcher.fetch(&url, TaskKind::Page).await.unwrap_err();
    assert!(
        matches!(error.kind, FetchFailure::Unsendable { .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("https://10.1.2.3/"), "{error}");
    assert_eq!(server.connections(), 0);
}

/// One lookup per connection: no second one with an answer that was not judged.
#[tokio::test]
pub(super) async fn what_was_looked_up_is_what_is_connected_to() {
    let server = Server::answering(response("", b"here")).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let names = super::super::resolve::NameService::answered_by(move |name| {
        assert_eq!(name, "rebound.example");
        let nth = count.fetch_add(1, Ordering::SeqCst) as u8;
        Ok(vec![[127, 0, 0, 1 + nth].into()])
    });
    let fetcher = Fetcher::asking(lab_options(), &names).unwrap();
    let url = format!("http://rebound.example:{}/", server.address.port());
    assert_eq!(&get(&fetcher, &url).await.body[..], b"here");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

/// A silent name server is not a silent host.
#[tokio::test]
pub(super) async fn a_silent_name_server_is_not_mistaken_for_a_silent_host() {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let ended = std::sync::Mutex::new(ended);
    let names = super::super::resolve::NameService::answered_by(move |name| match name {
        "found.example" => Ok(vec![[127, 0, 0, 1].into()]),
        _ => {
            // Returns when the test is over.
            ended.lock().unwrap().recv().ok();
            Ok(Vec::new())
        }
    });
    let options = Options {
        connect_timeout: Duration::from_millis(200),
        ..lab_options()
    };
    let fetcher = Fetcher::asking(options, &names).unwrap();
    let url = |host: &str| PageUrl::parse(&format!("http://{host}/")).unwrap();
    let lost = url("lost.example");
    let fetched = fetcher.fetch(&lost, TaskKind::Page).await.unwrap_err();
    let located = fetcher.locate(&lost).await.unwrap_err();
    for error in [fetched, located] {
        assert!(matches!(error.kind, FetchFailure::Dns { .. }), "{error:?}");
        assert!(error.to_string().contains("no name server responded"));
    }
    assert_eq!(fetcher.names_found(), 0);
    let found = fetcher.locate(&url("found.example")).await.unwrap();
    assert_eq!(found, Some([127, 0, 0, 1].into()));
    assert_eq!(fetcher.names_found(), 1);
    drop(end);
}
