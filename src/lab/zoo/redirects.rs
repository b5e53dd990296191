//! Redirects: endless, to nowhere, and to forbidden places.

use bytes::Bytes;

use super::{Case, Expect, Reply, Serve};

fn case(name: &'static str, about: &'static str, serve: Serve, expect: Expect) -> Case {
    // The row of another address does not show what led there.
    let path = match (name.contains("robots"), name.contains("image")) {
        (true, _) => "/robots.txt",
        (_, true) => "/a.png",
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

fn moved(to: &str) -> Reply {
    Reply::new("text/plain", "elsewhere")
        .status(302)
        .header("Location", to)
}

/// The case's path redirects there; every other path is honest.
fn to(location: &'static str) -> Serve {
    Serve::paths(move |path| match path {
        "/" | "/a.png" | "/robots.txt" => moved(location),
        _ => Reply::new("text/html", "<p>arrived"),
    })
}

/// The cases of this group.
pub fn cases() -> Vec<Case> {
    let mut cases = endless();
    cases.extend(nowhere());
    cases.extend(inwards());
    cases
}

fn endless() -> Vec<Case> {
    vec![
        case(
            "redirect-chain",
            "redirects 100 times in a row",
            Serve::paths(
                |path| match path.trim_start_matches('/').parse().unwrap_or(0) {
                    100 => Reply::new("text/html", "<p>arrived"),
                    hop => moved(&format!("/{}", hop + 1)),
                },
            ),
            Expect::dropped("page", "redirect_limit").at("http://redirect-chain.zoo.test/5"),
        ),
        case(
            "redirect-self",
            "redirects to itself",
            to("/"),
            Expect::dropped("page", "bad_redirect").saying("points at itself"),
        ),
        case(
            "redirect-pair",
            "redirects to an address that redirects back",
            Serve::paths(|path| moved(if path == "/" { "/back" } else { "/" })),
            Expect::redirected("page").at("http://redirect-pair.zoo.test/back"),
        ),
        case(
            "redirect-fresh",
            "redirects to an address that is new each time",
            Serve::paths(|path| moved(&format!("{}x", path.trim_end_matches('/')))),
            Expect::redirected("page"),
        ),
        case(
            "redirect-robots",
            "redirects its robots.txt without end",
            Serve::paths(|path| moved(&format!("{path}x"))),
            Expect::retrying("robots", "redirect_limit")
                .at("http://redirect-robots.zoo.test/robots.txtxxxxx"),
        ),
        case(
            "redirect-body",
            "redirects with a body without end",
            Serve::web(|| {
                let mut reply = moved("/arrived");
                reply.body = Box::new(std::iter::repeat(Bytes::from_static(&[b'z'; 16384])));
                reply
            }),
            Expect::redirected("page").bytes(0),
        ),
    ]
}

fn nowhere() -> Vec<Case> {
    let bad = || Expect::dropped("page", "bad_redirect").bytes(0);
    let raw = |location: &str| {
        Serve::bytes(format!(
            "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n{location}\r\n"
        ))
    };
    vec![
        case(
            "redirect-file",
            "redirects to a file of the machine",
            to("file:///etc/passwd"),
            bad().saying("`file:` addresses are not crawled"),
        ),
        case(
            "redirect-data",
            "redirects to a data: URL",
            to("data:text/html,<p>here"),
            bad().saying("`data:` addresses are not crawled"),
        ),
        case(
            "redirect-javascript",
            "redirects to a javascript: URL",
            to("javascript:alert(1)"),
            bad().saying("`javascript:` addresses are not crawled"),
        ),
        case(
            "redirect-ftp",
            "redirects to an FTP server",
            to("ftp://10.0.0.1/pub"),
            bad().saying("`ftp:` addresses are not crawled"),
        ),
        case(
            "redirect-empty",
            "redirects to an empty Location",
            raw("Location: \r\n"),
            bad().saying("Location header is empty"),
        ),
        case(
            "redirect-missing",
            "redirects without a Location",
            raw(""),
            bad().saying("no Location header"),
        ),
        case(
            "redirect-nul",
            "redirects to an address with NUL",
            raw("Location: /a\0b\r\n"),
            Expect::dropped("page", "protocol").bytes(0),
        ),
        case(
            "redirect-choices",
            "offers several choices (300) and names none",
            Serve::bytes("HTTP/1.1 300 Multiple Choices\r\nContent-Length: 0\r\n\r\n"),
            bad(),
        ),
        case(
            "redirect-long",
            "redirects to an address of 100 KB",
            Serve::paths(|_| moved(&format!("/{}", "a".repeat(100 << 10)))),
            bad().saying("bytes long"),
        ),
        case(
            "redirect-crlf",
            "redirects to an address with an escaped line end and header",
            to("/a%0d%0aSet-Cookie:%20b=c"),
            Expect::done("page").at("http://redirect-crlf.zoo.test/a%0D%0ASet-Cookie:%20b=c"),
        ),
        case(
            "redirect-two",
            "redirects with two Locations that differ",
            Serve::paths(|path| match path {
                "/" => moved("/first").header("Location", "http://10.0.0.9/"),
                _ => Reply::new("text/html", "<p>arrived"),
            }),
            Expect::done("page").at("http://redirect-two.zoo.test/first"),
        ),
    ]
}

/// Addresses that only this network can reach. Each case leads to a different address, so that each
/// has its own row.
fn inwards() -> Vec<Case> {
    let refused = |url| {
        Expect::retrying("robots", "private_address")
            .at(url)
            .bytes(0)
            .within(1_000)
            .saying("not a public internet address")
    };
    vec![
        case(
            "redirect-private",
            "redirects to a private address",
            to("http://10.0.0.1/"),
            refused("http://10.0.0.1/robots.txt"),
        ),
        case(
            "redirect-port",
            "redirects to a port of this machine",
            to("http://127.0.0.1:22/"),
            refused("http://127.0.0.1:22/robots.txt"),
        ),
        case(
            "redirect-userinfo",
            "redirects to the cloud's metadata behind a user name that looks like a host",
            to("http://zoo.test:80@169.254.169.254/latest/meta-data/"),
            refused("http://169.254.169.254/robots.txt"),
        ),
        case(
            "redirect-mapped",
            "redirects to a private address in IPv6 (IPv4-mapped)",
            to("http://[::ffff:10.0.0.2]/"),
            refused("http://[::ffff:a00:2]/robots.txt"),
        ),
        case(
            "redirect-nat64",
            "redirects to a private address in IPv6 (NAT64)",
            to("http://[64:ff9b::10.0.0.3]/"),
            refused("http://[64:ff9b::a00:3]/robots.txt"),
        ),
        case(
            "redirect-loopback-v6",
            "redirects to this machine in IPv6",
            to("http://[::1]/"),
            refused("http://[::1]/robots.txt"),
        ),
        case(
            "redirect-decimal",
            "redirects to this machine in one decimal number",
            to("http://2130706433/"),
            refused("http://127.0.0.1/robots.txt"),
        ),
        case(
            "redirect-hexadecimal",
            "redirects to a private address in hexadecimal",
            to("http://0x0a000004/"),
            refused("http://10.0.0.4/robots.txt"),
        ),
        case(
            "redirect-octal",
            "redirects to a private address in octal, with parts left out",
            to("http://012.5/"),
            refused("http://10.0.0.5/robots.txt"),
        ),
        case(
            "redirect-localhost",
            "redirects to localhost",
            to("http://localhost/"),
            Expect::retrying("robots", "dns")
                .at("http://localhost/robots.txt")
                .bytes(0)
                .within(1_000),
        ),
        case(
            "redirect-image",
            "redirects an image to a private address",
            to("http://10.0.0.6/a.png"),
            refused("http://10.0.0.6/robots.txt"),
        ),
        case(
            "redirect-robots-private",
            "redirects its robots.txt to a private address",
            to("http://10.0.0.7/robots.txt"),
            refused("http://10.0.0.7/robots.txt"),
        ),
    ]
}
