//! Hostile heads: status lines, statuses, headers, and `Retry-After`.

use std::time::Duration;

use super::{Case, Expect, Reply, Serve};

/// The pause between two dripped parts: well below any timeout.
const DRIP: Duration = Duration::from_millis(50);

/// A small page, for heads that are bad but readable.
const PAGE: &str = "<!DOCTYPE html><title>Zoo</title><p>An animal of the zoo.";

fn case(name: &'static str, about: &'static str, serve: Serve, expect: Expect) -> Case {
    Case {
        name,
        about,
        path: "/",
        serve,
        expect,
    }
}

/// An answer with this first line and these header lines, and with [`PAGE`] as its body.
fn head(first: &str, headers: &str) -> Serve {
    let length = PAGE.len();
    Serve::bytes(format!(
        "{first}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n{headers}\r\n{PAGE}"
    ))
}

fn ok(headers: &str) -> Serve {
    head("HTTP/1.1 200 OK", headers)
}

/// A status with `Retry-After`.
fn patience(status: u16, value: &'static str) -> Serve {
    Serve::web(move || {
        Reply::new("text/plain", "later")
            .status(status)
            .header("Retry-After", value)
    })
}

/// The same lines, repeated for ever.
fn flood(first: &'static str, again: &'static [u8], pause: Duration) -> Serve {
    Serve::raw(move |mut connection| async move {
        connection.send(first.as_bytes()).await?;
        loop {
            connection.send(again).await?;
            tokio::time::sleep(pause).await;
        }
    })
}

/// The cases of this group.
pub fn cases() -> Vec<Case> {
    let mut cases = status_lines();
    cases.extend(statuses());
    cases.extend(headers());
    cases.extend(waits());
    cases
}

fn status_lines() -> Vec<Case> {
    let bad = || Expect::dropped("page", "protocol").bytes(0);
    vec![
        case(
            "no-status-line",
            "answers with no status line",
            Serve::bytes("nothing of the kind\r\n\r\n"),
            bad(),
        ),
        case(
            "http-0-9",
            "answers as HTTP/0.9, with a body alone",
            Serve::bytes(PAGE),
            bad(),
        ),
        case(
            "version-3-7",
            "speaks HTTP/3.7",
            head("HTTP/3.7 200 OK", ""),
            bad(),
        ),
        case(
            "status-99",
            "answers with status 99",
            head("HTTP/1.1 99 Low", ""),
            bad(),
        ),
        case(
            "status-999",
            "answers with status 999",
            head("HTTP/1.1 999 High", ""),
            bad(),
        ),
        case(
            "status-4-digits",
            "answers with status 2000",
            head("HTTP/1.1 2000 Much", ""),
            bad(),
        ),
        case(
            "status-reason-long",
            "gives a reason phrase of 1 MB",
            head(&format!("HTTP/1.1 200 {}", "O".repeat(1 << 20)), ""),
            bad().saying("head is too large"),
        ),
        case(
            "status-reason-binary",
            "gives a reason phrase with NUL and escapes",
            head("HTTP/1.1 200 \0\x1b[2J", ""),
            bad(),
        ),
        case(
            "status-blank-lines",
            "sends blank lines for ever instead of a head",
            flood("", &[b'\n'; 64], DRIP),
            Expect::dropped("page", "timeout").bytes(0),
        ),
    ]
}

fn statuses() -> Vec<Case> {
    let bad = || Expect::dropped("page", "protocol").bytes(0);
    vec![
        case(
            "continue-for-ever",
            "says 100 Continue for ever",
            flood("", b"HTTP/1.1 100 Continue\r\n\r\n", DRIP),
            Expect::dropped("page", "timeout").bytes(0),
        ),
        case(
            "hints-flood",
            "sends 100,000 heads of 103 Early Hints, then nothing",
            Serve::raw(|mut connection| async move {
                let hint = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";
                let hints = hint.repeat(1000);
                for _ in 0..100 {
                    connection.send(&hints).await?;
                }
                connection.wait().await
            }),
            Expect::dropped("page", "timeout").bytes(0),
        ),
        case(
            "switching-protocols",
            "switches to another protocol unasked",
            Serve::bytes(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\x01\x02",
            ),
            bad(),
        ),
        case(
            "no-content-with-body",
            "sends a body with status 204",
            head("HTTP/1.1 204 No Content", ""),
            Expect::done("page").bytes(0),
        ),
        case(
            "partial-unasked",
            "sends a part (206) of what was asked for whole",
            head(
                "HTTP/1.1 206 Partial Content",
                "Content-Range: bytes 5-61/99999999999\r\n",
            ),
            Expect::done("page"),
        ),
        case(
            "not-modified-unasked",
            "says 304 to a request without a condition",
            Serve::bytes("HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n"),
            bad(),
        ),
        case(
            "use-proxy",
            "asks to go through a proxy of its own (305)",
            head(
                "HTTP/1.1 305 Use Proxy",
                "Location: http://10.9.9.9:3128/\r\n",
            ),
            Expect::dropped("page", "bad_redirect").bytes(0),
        ),
        case(
            "authenticate",
            "says 407, as if it were a proxy that asks for a password",
            head(
                "HTTP/1.1 407 Proxy Authentication Required",
                "Proxy-Authenticate: Basic\r\nWWW-Authenticate: Negotiate\r\n",
            ),
            Expect::dropped("page", "client_error").bytes(0),
        ),
    ]
}

fn headers() -> Vec<Case> {
    let bad = || Expect::dropped("page", "protocol").bytes(0);
    let good = || Expect::done("page").bytes(PAGE.len() as u64);
    let many = |count: usize, line: &str| line.repeat(count);
    vec![
        case(
            "headers-10000",
            "sends 10,000 headers",
            ok(&many(10_000, "X-Zoo: 1\r\n")),
            bad().saying("head is too large"),
        ),
        case(
            "headers-endless",
            "sends headers for ever, as fast as they are taken",
            Serve::raw(|mut connection| async move {
                connection.send(b"HTTP/1.1 200 OK\r\n").await?;
                let lines = b"X-Zoo: elephants and other large animals\r\n".repeat(100);
                loop {
                    connection.send(&lines).await?;
                }
            }),
            bad().saying("head is too large"),
        ),
        case(
            "header-1mb",
            "sends one header of 1 MB",
            ok(&format!("X-Zoo: {}\r\n", "a".repeat(1 << 20))),
            bad().saying("head is too large"),
        ),
        case(
            "header-name-1mb",
            "sends one header whose name has 1 MB",
            ok(&format!("X-{}: 1\r\n", "a".repeat(1 << 20))),
            bad().saying("head is too large"),
        ),
        case(
            "header-nul",
            "sends NUL within a header's value",
            ok("X-Zoo: a\0b\r\n"),
            bad(),
        ),
        case(
            "header-nul-name",
            "sends NUL within a header's name",
            ok("X-\0Zoo: ab\r\n"),
            bad(),
        ),
        case(
            "header-escapes",
            "sends ANSI escapes in a header's value",
            ok("X-Zoo: \x1b[2J\x1b]0;owned\x07\r\nServer: \x1b[31m\r\n"),
            good(),
        ),
        case(
            "header-no-colon",
            "sends a header line without a colon",
            ok("this is no header\r\n"),
            good(),
        ),
        case(
            "header-space-colon",
            "sends white space before the colon",
            ok("X-Zoo : 1\r\n"),
            good(),
        ),
        case(
            "header-folded",
            "folds a header over lines (obs-fold)",
            ok("X-Zoo: a\r\n\tb\r\n c\r\n"),
            good(),
        ),
        case(
            "header-bare-lf",
            "ends lines with LF alone",
            Serve::bytes(format!(
                "HTTP/1.1 200 OK\nContent-Type: text/html\nContent-Length: {}\n\n{PAGE}",
                PAGE.len()
            )),
            good(),
        ),
        case(
            "header-bare-cr",
            "has a CR alone within a header's value",
            ok("X-Zoo: a\rSet-Cookie: b\r\n"),
            bad(),
        ),
        case(
            "cookies",
            "sets 90 cookies of 4 KB",
            ok(&many(
                90,
                &format!("Set-Cookie: a={}\r\n", "b".repeat(4000)),
            )),
            good(),
        ),
        case(
            "etag-long",
            "names the version in 300 KB",
            ok(&format!("ETag: \"{}\"\r\n", "e".repeat(300 << 10))),
            good(),
        ),
        case(
            "content-type-long",
            "names a type of 300 KB",
            Serve::bytes(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/{}\r\nContent-Length: 3\r\n\r\nabc",
                "x".repeat(300 << 10)
            )),
            Expect::dropped("page", "content_type").bytes(3),
        ),
        case(
            "links-flood",
            "sends 90 Link headers with 100 links each",
            ok(&many(
                90,
                &format!(
                    "Link: {}\r\n",
                    many(100, "<http://a.zoo.test/>; rel=license, ")
                ),
            )),
            good(),
        ),
    ]
}

fn waits() -> Vec<Case> {
    let busy = || Expect::dropped("page", "overloaded").bytes(0);
    vec![
        case(
            "wait-a-year",
            "asks to wait for a year",
            patience(503, "31536000"),
            busy(),
        ),
        case(
            "wait-9999",
            "asks to wait until the year 9999",
            patience(429, "Fri, 31 Dec 9999 23:59:59 GMT"),
            busy(),
        ),
        case(
            "wait-overflow",
            "asks to wait for more seconds than 64 bits hold",
            patience(429, "99999999999999999999999"),
            busy(),
        ),
        case(
            "wait-negative",
            "asks to wait for -1 seconds",
            patience(429, "-1"),
            busy(),
        ),
        case(
            "wait-not-found",
            "has no such page, and asks to wait for a year",
            patience(404, "31536000"),
            Expect::dropped("page", "client_error").bytes(0),
        ),
        case(
            "wait-elsewhere",
            "redirects, and asks to wait for a year before",
            Serve::web(|| {
                Reply::new("text/plain", "elsewhere")
                    .status(302)
                    .header("Location", "/arrived")
                    .header("Retry-After", "31536000")
            }),
            Expect::redirected("page").bytes(0),
        ),
        case(
            "wait-many",
            "asks to wait for 80 different times",
            Serve::web(|| {
                let reply = Reply::new("text/plain", "later").status(503);
                (0..80_u64).fold(reply, |reply, n| {
                    reply.header("Retry-After", (n * 10_000_000 % 77).to_string())
                })
            }),
            busy(),
        ),
        case(
            "wait-past",
            "asks to wait until 1994",
            patience(503, "Sun, 06 Nov 1994 08:49:37 GMT"),
            busy(),
        ),
        case(
            "wait-garbage",
            "asks to wait for something unreadable",
            patience(503, "\u{fc}bermorgen; DROP TABLE hosts"),
            busy(),
        ),
    ]
}
