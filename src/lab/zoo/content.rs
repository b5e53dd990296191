//! Hostile contents in valid HTTP: HTML, charsets, images, robots.txt, sitemaps
//! and texts.
//!
//! Bodies are created part by part while they are sent, so that one of 100 MB costs the server
//! nothing. `tests` checks without a server that what each stage keeps of them is bounded.

mod files;
mod html;
mod images;
#[cfg(test)]
mod tests;
mod texts;

use bytes::Bytes;

use super::{Case, Expect, Reply, Serve};

/// The cases of this group.
pub fn cases() -> Vec<Case> {
    [
        html::cases(),
        texts::cases(),
        images::cases(),
        files::cases(),
    ]
    .concat()
}

/// A body in parts.
type Parts = Box<dyn Iterator<Item = Bytes> + Send>;

/// The approximate length of a part.
const PART: usize = 64 << 10;

/// A body in one part.
fn whole(bytes: impl Into<Bytes>) -> Parts {
    Box::new(std::iter::once(bytes.into()))
}

/// A body of this many pieces, created from their numbers.
fn many<T: AsRef<[u8]>>(times: u64, piece: impl Fn(u64) -> T + Send + 'static) -> Parts {
    let mut next = 0;
    Box::new(std::iter::from_fn(move || {
        let mut part = Vec::new();
        while next < times && part.len() < PART {
            part.extend_from_slice(piece(next).as_ref());
            next += 1;
        }
        (!part.is_empty()).then(|| part.into())
    }))
}

/// A body with the same text this many times.
fn repeat(text: &'static str, times: u64) -> Parts {
    many(times, move |_| text)
}

/// One body after another.
fn chain<const N: usize>(bodies: [Parts; N]) -> Parts {
    Box::new(bodies.into_iter().flatten())
}

/// A case that answers every path with the same body.
fn case(
    name: &'static str,
    about: &'static str,
    path: &'static str,
    content_type: &'static str,
    body: fn() -> Parts,
    expect: Expect,
) -> Case {
    Case {
        name,
        about,
        path,
        serve: Serve::web(move || Reply::stream(content_type, body())),
        expect,
    }
}
