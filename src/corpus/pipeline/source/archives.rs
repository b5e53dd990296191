//! The pages of WARC and ARC files, and the texts of WET files.

use std::io::Read;
use std::path::Path;

use super::super::document::Document;
use super::host_words::HostWords;
use super::{MAX_BODY, MAX_PDF_BODY, Push, RawItem, SourcePage};
use crate::archive::captures::{Capture, Captures};
use crate::archive::http::Cap;
use crate::archive::reader::{Item, Reader};
use crate::archive::record::{Kind, Record, Spot};
use crate::archive::walk::{Exchange, Walked, walk};
use crate::clock::{of_timestamp, timestamp};
use crate::pdf;
use crate::tool_error::ToolError;

/// The pages of archives after a place.
pub(super) fn each(
    captures: &Captures,
    after: Option<[u64; 3]>,
    push: Push<'_>,
) -> Result<(), ToolError> {
    let after = after.map(|[file, offset, inside]| Spot {
        file: u32::try_from(file).unwrap_or(u32::MAX),
        offset,
        inside,
    });
    let cap = Cap {
        most: MAX_BODY,
        of_type: Some((pdf::MEDIA_TYPE, MAX_PDF_BODY)),
    };
    let mut words = HostWords::of(captures);
    let mut failure = None;
    walk(captures, after, cap, &mut |walked| match walked {
        Walked::Gap(number, gap) => {
            let file = usize::try_from(number).unwrap_or(usize::MAX);
            let file = captures.files().get(file);
            let file = file.map(|file| file.name().display().to_string());
            tracing::warn!("{}", gap.describe(file.unwrap_or_default()));
            true
        }
        Walked::Exchange(exchange) => {
            let spot = exchange.spot;
            let place = [u64::from(spot.file), spot.offset, spot.inside];
            let read = exchange.read;
            match raw(captures, &mut words, *exchange) {
                Ok(raw) => push(raw, place, read),
                Err(error) => {
                    failure = Some(error);
                    false
                }
            }
        }
    })?;
    failure.map_or(Ok(()), Err)
}

fn raw(
    captures: &Captures,
    words: &mut HostWords<'_>,
    exchange: Exchange,
) -> Result<RawItem, ToolError> {
    let Exchange {
        spot,
        capture,
        about,
        length,
        digest,
        ..
    } = exchange;
    let Capture {
        url,
        date,
        response,
    } = capture;
    let at = usize::try_from(spot.file).unwrap_or(usize::MAX);
    let time = about.get("spoor-time");
    let time = time.and_then(|time| of_timestamp(time));
    let mut known = Document {
        url: url.as_str().to_owned(),
        // The records are dated by when the exchange began.
        fetched: time.or(date).map(timestamp),
        archive: captures.files().get(at).map(|file| name(file.name())),
        offset: Some(spot.offset),
        length: Some(length),
        digest,
        ..Document::default()
    };
    // Crawls of spoor record the purpose of each request.
    let kind = about.get("spoor-kind").map(String::as_str);
    if let Some(kind) = kind.filter(|kind| *kind != "page") {
        let kind = kind.to_owned();
        return Ok(RawItem::Other(Box::new(known), "kind", kind, "a page"));
    }
    if url.path() == "/robots.txt" {
        let kind = "robots".to_owned();
        return Ok(RawItem::Other(Box::new(known), "kind", kind, "a page"));
    }
    // A crawl of spoor records them, including those of the host and of redirects.
    let recorded = about.get("spoor-terms");
    known.terms = recorded.and_then(|terms| serde_json::from_str(terms).ok());
    let of_page = known.terms.is_some();
    if let (None, Ok(response)) = (&known.terms, &response) {
        known.terms = Some(words.terms(&url, response)?);
    }
    Ok(match response {
        Err(error) => RawItem::Other(
            Box::new(known),
            "response",
            error.to_string(),
            "a whole one",
        ),
        Ok(response) if !(200..300).contains(&response.status) => {
            let status = response.status.to_string();
            RawItem::Other(Box::new(known), "status", status, "200 to 299")
        }
        Ok(response) => RawItem::Page(Box::new(SourcePage {
            url,
            response,
            known,
            of_page,
        })),
    })
}

/// The name of a file without its folder, so that a corpus does not depend on its place.
fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// The texts in a file of conversions after a place.
pub(super) fn conversions(
    path: &Path,
    after: Option<[u64; 3]>,
    push: Push<'_>,
) -> Result<(), ToolError> {
    let after = after.map(|[_, offset, inside]| (offset, inside));
    let mut reader = Reader::open(path)?;
    loop {
        let read = reader.position();
        let mut entry = match reader.next_item()? {
            None => return Ok(()),
            Some(Item::Gap(gap)) => {
                tracing::warn!("{}", gap.describe(path.display()));
                continue;
            }
            Some(Item::Record(entry)) => entry,
        };
        let here = (entry.record.offset, entry.record.inside.unwrap_or_default());
        if after.is_some_and(|after| here <= after) || entry.record.kind != Kind::Conversion {
            continue;
        }
        let mut bytes = Vec::new();
        let most = u64::try_from(MAX_BODY).unwrap_or(u64::MAX);
        // After damage `finish` reports that the record is incomplete.
        entry.by_ref().take(most).read_to_end(&mut bytes).ok();
        if entry.finish()?.is_none() {
            continue;
        }
        let document = Document {
            text: String::from_utf8_lossy(&bytes).into_owned(),
            ..of_record(&entry.record, path)
        };
        if !push(RawItem::Text(Box::new(document)), [0, here.0, here.1], read) {
            return Ok(());
        }
    }
}

fn of_record(record: &Record, path: &Path) -> Document {
    Document {
        url: record.uri.clone().unwrap_or_default(),
        fetched: record
            .timestamp()
            .map(|time| timestamp(u64::try_from(time.as_millisecond()).unwrap_or_default())),
        mime: record.content_type().map(str::to_owned),
        charset_used: Some("UTF-8".to_owned()),
        archive: Some(name(path)),
        offset: Some(record.offset),
        length: Some(record.length),
        digest: record.header("warc-block-digest").map(str::to_owned),
        ..Document::default()
    }
}
