//! The demo web as a WARC file, which `spoor demo` serves. It is not packed here: one zstd frame
//! around all of it is half as long as a gzip member around each record.

use std::io;

use sha2::{Digest, Sha256};

use super::{DemoWeb, training};
use crate::picture;
use crate::tree::LabResponse;

/// The date of every record: the same web gives the same file.
const DATE: &str = "2026-01-01T00:00:00Z";

/// The longest side of a picture in pixels: the file is part of the program.
const LONGEST: u32 = 320;

impl DemoWeb {
    /// The responses of the whole web, and as resources the labels (`file:///labels.tsv`) and
    /// the training texts (`file:///positive/NAME` and `file:///neutral/NAME`).
    ///
    /// # Errors
    /// Why a picture cannot be drawn.
    pub fn warc(&self) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let robots = self.robots.iter();
        let robots = robots.map(|(host, _)| format!("http://{host}/robots.txt"));
        let pages = self.pages.iter().map(|page| page.url.clone());
        let moved = self.redirects.iter().map(|(url, _)| url.clone());
        let images = self.images.iter().map(|image| image.url.clone());
        let lab = self.lab();
        for url in robots.chain(pages).chain(moved).chain(images) {
            let address = spoor_values::address::PageUrl::parse(&url).map_err(io::Error::other)?;
            let (head, body) = match lab.answer(address.host(), address.path_and_query())? {
                LabResponse::File {
                    content_type,
                    bytes,
                } => (
                    format!("200 OK\r\nContent-Type: {content_type}"),
                    bytes.to_vec(),
                ),
                LabResponse::Moved { location } => {
                    let head = format!("301 Moved Permanently\r\nLocation: {location}");
                    (head, Vec::new())
                }
                LabResponse::Picture { url, size } => {
                    let part = f64::from(LONGEST) / f64::from(size.width.max(size.height));
                    let side = |pixels| (f64::from(pixels) * part.min(1.0)).ceil() as u32;
                    let drawn = picture::draw(&url, side(size.width), side(size.height));
                    let drawn = drawn.map_err(io::Error::other)?;
                    let head = format!("200 OK\r\nContent-Type: {}", drawn.content_type);
                    (head, drawn.bytes)
                }
                LabResponse::Busy { .. } | LabResponse::Missing => continue,
            };
            let length = body.len();
            let mut block =
                format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\n\r\n").into_bytes();
            block.extend(body);
            record(
                &mut out,
                "response",
                &url,
                "application/http; msgtype=response",
                &block,
            );
        }
        let mut resource = |name: &str, text: &str| {
            record(
                &mut out,
                "resource",
                &format!("file:///{name}"),
                "text/plain",
                text.as_bytes(),
            );
        };
        resource("labels.tsv", &self.labels);
        let texts = training();
        for (folder, files) in [("positive", texts.positive), ("neutral", texts.neutral)] {
            for (name, text) in files {
                resource(&format!("{folder}/{name}"), &text);
            }
        }
        Ok(out)
    }
}

/// Appends a record.
fn record(out: &mut Vec<u8>, kind: &str, uri: &str, media: &str, block: &[u8]) {
    let hash = Sha256::digest(format!("{kind} {uri}"));
    let id = base16ct::lower::encode_string(&hash);
    let [a, b, c, d, e] = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)]
        .map(|(from, to)| id.get(from..to).unwrap_or_default());
    let head = format!(
        "WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:{a}-{b}-{c}-{d}-{e}>\r\n\
         WARC-Date: {DATE}\r\nWARC-Target-URI: {uri}\r\nContent-Type: {media}\r\n\
         Content-Length: {}\r\n\r\n",
        block.len()
    );
    out.extend(head.as_bytes());
    out.extend(block);
    out.extend(b"\r\n\r\n");
}
