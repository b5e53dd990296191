//! Through a real proxy on loopback: which requests it gets, and which never.

use std::net::Ipv4Addr;

use crate::settings::Proxy;

use super::super::resolve::NameService;
use super::*;

/// A proxy that answers requests itself and refuses tunnels, and a fetcher behind it that may only
/// reach the public internet, with a table as name service.
async fn behind(answer: &'static str) -> (Server, Fetcher) {
    behind_both(
        answer,
        "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
    )
    .await
}

async fn behind_both(answer: &'static str, tunnel: &'static str) -> (Server, Fetcher) {
    let proxy = Server::http(move |mut stream, head| async move {
        let answer = match head.starts_with("CONNECT ") {
            true => tunnel,
            false if head.contains(" http://public.example/open") => OK,
            false => answer,
        };
        send(&mut stream, answer.as_bytes()).await;
    })
    .await;
    let at = format!("http://{}", proxy.address).parse().unwrap();
    let fetcher = through(Proxy::At(at), false);
    (proxy, fetcher)
}

fn through(proxy: Proxy, allow_private: bool) -> Fetcher {
    let options = Options {
        allow_private,
        proxy: Some(proxy),
        ..lab_options()
    };
    let asked = AtomicUsize::new(0);
    let names = NameService::answered_by(move |name| {
        let private = IpAddr::from([10, 0, 0, 1]);
        let public = IpAddr::from([93, 184, 216, 34]);
        match name.trim_end_matches('.') {
            "public.example" => Ok(vec![public]),
            "mixed.example" => Ok(vec![private, public]),
            "private.example" => Ok(vec![private]),
            "rebound.example" if asked.fetch_add(1, Ordering::SeqCst) == 0 => Ok(vec![public]),
            "rebound.example" => Ok(vec![private]),
            "proxy.example" => Ok(vec![Ipv4Addr::LOCALHOST.into()]),
            _ => Err(std::io::Error::other("no such name")),
        }
    });
    Fetcher::asking(options, &names).unwrap()
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

async fn ask(fetcher: &Fetcher, url: &str) -> Result<Answer, FetchError> {
    let url = PageUrl::parse(url).unwrap();
    fetcher.fetch(&url, TaskKind::Page).await
}

#[tokio::test]
async fn what_is_public_goes_through_the_proxy() {
    let (proxy, fetcher) = behind(OK).await;
    for url in [
        "http://public.example/a?b",
        "http://mixed.example/",
        "http://93.184.216.34/",
    ] {
        assert_eq!(&body(ask(&fetcher, url).await).body[..], b"ok");
    }
    let failed = ask(&fetcher, "https://public.example/").await.unwrap_err();
    assert!(
        matches!(failed.kind, FetchFailure::Connection { .. }),
        "{failed:?}"
    );
    let heads = proxy.heads();
    let lines: Vec<_> = heads.iter().map(|h| h.lines().next().unwrap()).collect();
    assert_eq!(
        lines,
        [
            "GET http://public.example/a?b HTTP/1.1",
            "GET http://mixed.example/ HTTP/1.1",
            "GET http://93.184.216.34/ HTTP/1.1",
            "CONNECT public.example:443 HTTP/1.1",
        ]
    );
    assert_eq!(header(&heads[0], "host"), ["public.example"]);
}

#[tokio::test]
async fn what_is_private_is_never_asked_of_the_proxy() {
    let (proxy, fetcher) = behind(OK).await;
    for url in [
        "http://private.example/",
        "https://private.example/",
        "http://127.0.0.1/",
        "http://[::ffff:10.0.0.1]/",
        "https://169.254.169.254/",
        "http://proxy.example/",
    ] {
        for kind in [
            TaskKind::Page,
            TaskKind::Image,
            TaskKind::Robots,
            TaskKind::Sitemap,
        ] {
            let url = PageUrl::parse(url).unwrap();
            let refused = fetcher.fetch(&url, kind).await.unwrap_err();
            assert!(
                matches!(refused.kind, FetchFailure::PrivateAddress { .. }),
                "{url}: {refused:?}"
            );
        }
    }
    for url in [
        "http://unknown.example/",
        "http://localhost/",
        "http://a.onion/",
    ] {
        let refused = ask(&fetcher, url).await.unwrap_err();
        assert!(
            matches!(refused.kind, FetchFailure::Dns { .. }),
            "{url}: {refused:?}"
        );
    }
    assert_eq!(proxy.connections(), 0);
}

#[tokio::test]
async fn a_name_is_judged_before_every_request() {
    let (proxy, fetcher) = behind(OK).await;
    body(ask(&fetcher, "http://rebound.example/").await);
    let refused = ask(&fetcher, "http://rebound.example/").await.unwrap_err();
    assert!(
        matches!(refused.kind, FetchFailure::PrivateAddress { .. }),
        "{refused:?}"
    );
    assert_eq!(proxy.connections(), 1);
}

#[tokio::test]
async fn a_proxy_that_wants_a_password_is_not_taken_for_the_server() {
    let refusal = "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n";
    let (_proxy, fetcher) = behind_both(refusal, refusal).await;
    for url in ["http://public.example/", "https://public.example/"] {
        let failed = ask(&fetcher, url).await.unwrap_err();
        let is_proxy = matches!(failed.kind, FetchFailure::Proxy);
        assert!(is_proxy, "{url}: {failed:?}");
        assert!(failed.to_string().contains("password"), "{failed}");
    }
    // Once it has let something through, this may come from the server.
    body(ask(&fetcher, "http://public.example/open").await);
    let failed = ask(&fetcher, "http://public.example/").await.unwrap_err();
    let of_host = matches!(failed.kind, FetchFailure::Connection { .. });
    assert!(of_host, "{failed:?}");
    let failed = ask(&fetcher, "https://public.example/").await.unwrap_err();
    assert!(matches!(failed.kind, FetchFailure::Proxy), "{failed:?}");
}

/// A proxy may have a private address, also by name; and a request that matches a rule bypasses it.
#[tokio::test]
async fn the_proxy_itself_is_not_judged() {
    let proxy = Server::answering(OK).await;
    let at = format!("http://proxy.example:{}", proxy.address.port());
    let fetcher = through(Proxy::At(at.parse().unwrap()), false);
    body(ask(&fetcher, "http://public.example/").await);
    assert_eq!(proxy.connections(), 1);

    let direct = Server::answering(response("", b"direct")).await;
    let fetcher = lab_with(|o| {
        o.proxy = Some(Proxy::At(at.parse().unwrap()));
        o.connect_to = vec![to(&direct, "mapped.example:")];
    });
    let fetched = body(ask(&fetcher, "http://mapped.example/").await);
    assert_eq!(&fetched.body[..], b"direct");
    assert_eq!(proxy.connections(), 1);
}

/// If private addresses are permitted, only the proxy needs to know the names.
#[tokio::test]
async fn in_a_lab_the_proxy_knows_the_names() {
    let proxy = Server::answering(OK).await;
    let at = format!("http://{}", proxy.address);
    let fetcher = through(Proxy::At(at.parse().unwrap()), true);
    let url = PageUrl::parse("http://unknown.example/").unwrap();
    assert_eq!(fetcher.locate(&url).await, Ok(None));
    body(fetcher.fetch(&url, TaskKind::Page).await);
    assert_eq!(proxy.connections(), 1);
}

/// Setting the environment of a running process is unsafe, so this asks the client what it would
/// use: it shows its proxies if there are any, including those of the environment.
#[test]
fn the_environments_proxy_is_not_heeded_by_itself() {
    let shown = format!("{:?}", lab().inner.router);
    assert!(shown.contains("default_headers"), "{shown}");
    assert!(!shown.contains("proxies"), "{shown}");
    assert!(!lab().inner.router.proxied());
}
