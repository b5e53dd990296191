//! HTTP/2 frames (RFC 9113) that no honest server sends. All requests share one connection, so the
//! request for the robots.txt meets them.

use std::io;

use super::tls::Certificate;
use super::{Case, Connection, Expect, Serve, behaviour};

// Frame types (RFC 9113 section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_HEADERS: u8 = 4;

/// `:status: 200` of the static table of HPACK (RFC 7541 appendix A).
const STATUS_200: u8 = 0x88;

/// The length of what the client sends before its frames (RFC 9113 section 3.4).
const PREFACE: usize = 24;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    // No frame here is longer than 24 bits can express.
    let length = (payload.len() as u32).to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Reads the client's frames up to its first request.
async fn asked(connection: &mut Connection) -> io::Result<()> {
    connection.send(&frame(SETTINGS, 0, 0, &[])).await?;
    exactly(connection, PREFACE).await?;
    loop {
        let head = exactly(connection, 9).await?;
        let &[a, b, c, kind, ..] = head.as_slice() else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        exactly(connection, u32::from_be_bytes([0, a, b, c]) as usize).await?;
        if kind == HEADERS {
            return Ok(());
        }
    }
}

async fn exactly(connection: &mut Connection, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    let mut read = 0;
    while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match connection.receive(rest).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => read += n,
        }
    }
    Ok(bytes)
}

/// Sends `first` in answer to the first request, and then `again` this many times.
fn case(
    name: &'static str,
    about: &'static str,
    first: Vec<u8>,
    again: (usize, Vec<u8>),
    expect: Expect,
) -> Case {
    let behave = behaviour(move |mut connection: Connection| {
        let (first, (times, again)) = (first.clone(), again.clone());
        async move {
            asked(&mut connection).await?;
            connection.send(&first).await?;
            for _ in 0..times {
                connection.send(&again).await?;
            }
            connection.wait().await
        }
    });
    Case {
        name,
        about,
        path: "/robots.txt",
        serve: Serve::Tls {
            certificate: Certificate::Good,
            http2: true,
            behave,
        },
        expect,
    }
}

/// The cases of this group.
pub fn cases() -> Vec<Case> {
    let failed = |reason| Expect::retrying("robots", reason);
    let none = || (0, Vec::new());
    let ok = || frame(HEADERS, END_HEADERS, 1, &[STATUS_200]);
    // One header of 4,000 bytes that enters the table (RFC 7541 section 6.2.1), and then a
    // reference to it with each further byte.
    let mut bomb = vec![STATUS_200, 0x40, 1, b'x', 0x7f, 0xa1, 0x1e];
    bomb.extend([b'b'; 4000]);
    bomb.extend([0xbe; 12_000]);
    vec![
        case(
            "h2-goaway",
            "ends the connection (GOAWAY) at the first request",
            frame(GOAWAY, 0, 0, &[0; 8]),
            none(),
            failed("connection"),
        ),
        case(
            "h2-reset",
            "resets every request (RST_STREAM)",
            frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]),
            none(),
            failed("connection"),
        ),
        case(
            "h2-refused",
            "refuses every request, which invites to send it again",
            frame(RST_STREAM, 0, 1, &[0, 0, 0, 7]),
            none(),
            failed("connection"),
        ),
        case(
            "h2-silent",
            "answers nothing",
            Vec::new(),
            none(),
            failed("timeout"),
        ),
        case(
            "h2-settings-flood",
            "sends 50,000 SETTINGS, each to be acknowledged",
            Vec::new(),
            (50, frame(SETTINGS, 0, 0, &[]).repeat(1000)),
            failed("timeout"),
        ),
        case(
            "h2-ping-flood",
            "sends 50,000 PING, each to be answered",
            Vec::new(),
            (50, frame(PING, 0, 0, &[0; 8]).repeat(1000)),
            failed("timeout"),
        ),
        case(
            "h2-empty-data",
            "sends 50,000 DATA frames without data",
            ok(),
            (50, frame(DATA, 0, 1, &[]).repeat(1000)),
            failed("protocol"),
        ),
        case(
            "h2-header-bomb",
            "sends 16 KB of headers that are 48 MB unpacked",
            frame(HEADERS, END_HEADERS, 1, &bomb),
            none(),
            failed("protocol"),
        ),
        case(
            "h2-continuation-flood",
            "sends 64 MB of headers that never end (CONTINUATION)",
            frame(HEADERS, 0, 1, &[STATUS_200]),
            (4096, frame(CONTINUATION, 0, 1, &[0; 16 << 10])),
            failed("protocol"),
        ),
        case(
            "h2-push",
            "pushes what was not asked for, though that was refused",
            frame(
                PUSH_PROMISE,
                END_HEADERS,
                1,
                &[0, 0, 0, 2, 0x82, 0x84, 0x87],
            ),
            none(),
            failed("protocol"),
        ),
        case(
            "h2-window-overflow",
            "raises the window beyond 31 bits",
            frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]),
            none(),
            failed("protocol"),
        ),
        case(
            "h2-data-first",
            "sends a body without a head",
            frame(DATA, 1, 1, b"User-agent: *"),
            none(),
            failed("protocol"),
        ),
        case(
            "h2-beyond-window",
            "sends more data than the window permits",
            ok(),
            (1024, frame(DATA, 0, 1, &[b'#'; 16 << 10])),
            failed("protocol"),
        ),
        case(
            "h2-frame-large",
            "sends a frame of 16 MB, a thousand times what was permitted",
            frame(HEADERS, END_HEADERS, 1, &vec![0; (1 << 24) - 1]),
            none(),
            failed("protocol"),
        ),
        case(
            "h2-no-status",
            "answers without a status",
            frame(HEADERS, END_HEADERS, 1, &[]),
            none(),
            failed("protocol"),
        ),
    ]
}
