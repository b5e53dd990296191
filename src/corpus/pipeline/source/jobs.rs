//! The documents of a job, which may be running.

use std::path::Path;

use super::super::document::Document;
use super::{Push, RawItem};
use crate::outputs::{self, Withdrawn};
use crate::page::Use;
use crate::tool_error::ToolError;

pub(super) fn each(
    folder: &Path,
    after: Option<[u64; 3]>,
    push: Push<'_>,
) -> Result<(), ToolError> {
    let name = folder
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let mut documents = outputs::documents(folder)?;
    let withdrawn = Withdrawn::of(folder)?;
    for number in 0.. {
        let Some(item) = documents.next() else { break };
        if after.is_some_and(|[last, ..]| number <= last) {
            continue;
        }
        let place = Document {
            job: Some(name.clone()),
            ..Document::default()
        };
        let raw = match item {
            Ok(found) => match withdrawn.by(&found.url, &found.fetched, Use::Text) {
                Some(by) => {
                    let by = format!("{by}, at a later visit");
                    let found = Box::new(of(found, place));
                    RawItem::Other(found, "forbidden", by, "nothing that forbids it")
                }
                None => RawItem::Text(Box::new(of(found, place))),
            },
            Err(error) => {
                tracing::warn!("left out: {error}");
                RawItem::Other(
                    Box::new(place),
                    "damaged",
                    error.to_string(),
                    "a whole line",
                )
            }
        };
        if !push(raw, [number, 0, 0], documents.read_bytes()) {
            break;
        }
    }
    Ok(())
}

fn of(found: outputs::Document, place: Document) -> Document {
    Document {
        url: found.url,
        fetched: Some(found.fetched),
        published: found.published,
        modified: found.modified,
        title: found.title,
        authors: found.authors,
        text: found.text,
        block_kinds: found.block_kinds,
        block_offsets: found.block_offsets,
        image_urls: found.image_urls,
        image_blocks: found.image_blocks,
        declared_language: found.declared_language,
        charset_declared: found.charset,
        charset_used: Some(found.charset_used),
        extractor: Some(found.extractor),
        controls_removed: found.controls_removed,
        mime: found.mime,
        licences: found.licences,
        terms: found.terms,
        on_topic: found.on_topic,
        crawl_perplexity: found.perplexity,
        crawl_contrast: found.contrast,
        hops: Some(found.hops),
        via: found.via,
        control: Some(found.control),
        canonical: found.canonical,
        hash: Some(found.hash),
        rule: found.rule,
        fields: (!found.fields.is_empty())
            .then(|| serde_json::to_string(&found.fields).ok())
            .flatten(),
        ..place
    }
}
