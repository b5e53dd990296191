//! The document of a page: the results of extraction and rating, in the form that is kept.

use crate::address::PageUrl;
use crate::frontier::Finished;
use crate::outputs::{Document, Replaced};
use crate::page::{DocumentScore, Extracted, Task, block_lists, image_lists};
use crate::rules::Applied;
use crate::words;

/// The document of a page as far as it is known before its task is finished; `None` if the
/// page has no text.
pub(super) fn of_page(
    url: &PageUrl,
    page: &mut Extracted,
    score: &DocumentScore,
    contrast: Option<f64>,
    rules: Option<&Applied>,
) -> Option<Document> {
    let main = page.main.take().filter(|main| !main.text.is_empty())?;
    let meta = std::mem::take(&mut page.metadata);
    let (block_kinds, block_offsets) = block_lists(&main.text, &main.blocks);
    let (image_urls, image_blocks) = image_lists(&main.images);
    Some(Document {
        url: url.as_str().to_owned(),
        canonical: page.canonical.as_ref().map(|c| c.as_str().to_owned()),
        published: meta.published,
        modified: meta.modified,
        title: meta.title,
        authors: meta.authors,
        language: page.guessed.map(|g| g.language.code().to_owned()),
        language_certainty: page.guessed.map(|guess| guess.certainty),
        declared_language: page.language.clone(),
        charset: page.declared_charset.take(),
        charset_used: page.charset.clone(),
        mime: page.mime.take(),
        controls_removed: page.controls,
        extractor: main.share.extractor.name().to_owned(),
        words: words::count(&main.text),
        hash: Document::hash_of(&main.text),
        text: main.text,
        block_kinds,
        block_offsets,
        image_urls,
        image_blocks,
        perplexity: Some(score.perplexity).filter(|p| p.is_finite()),
        contrast: contrast.filter(|contrast| contrast.is_finite()),
        licences: page.terms.licences.clone(),
        terms: Some(page.terms.clone()).filter(|terms| !terms.is_silent()),
        rule: rules.and_then(|applied| applied.rule.clone()),
        fields: rules
            .map(|applied| applied.fields.clone())
            .unwrap_or_default(),
        ..Document::default()
    })
}

/// The document, completed with what is known once its task is finished.
pub(super) fn complete(found: &Document, task: &Task, time: &str, finished: &Finished) -> Document {
    let named = |url: &Option<PageUrl>| url.as_ref().map(|url| url.as_str().to_owned());
    Document {
        fetched: time.to_owned(),
        hops: task.hops,
        via: named(&task.via),
        control: task.control,
        // The same value as in the log.
        on_topic: finished.judged.map(|judged| judged.on_topic.get()),
        replaces: finished.earlier.as_deref().and_then(replaced),
        near_copy_of: named(&finished.near_copy_of),
        ..found.clone()
    }
}

/// The note from which the next visit of the page knows the page's last line.
pub(super) fn note(document: &Document) -> String {
    format!("{} {}", document.hash, document.fetched)
}

/// The end of a note of a document that must not be found by searches.
const UNINDEXED: &str = " unindexed";

/// A note, marked if its document must not be found by searches.
pub(super) fn marked(note: String, may_find: bool) -> String {
    match replaced(&note) {
        Some(_) if !may_find && !note.ends_with(UNINDEXED) => note + UNINDEXED,
        _ => note,
    }
}

/// Whether a note is that of a document. One that may be found from now on has to be written again.
pub(super) fn is_note(note: &str, may_find: bool) -> bool {
    replaced(note).is_some() && !(may_find && note.ends_with(UNINDEXED))
}

fn replaced(note: &str) -> Option<Replaced> {
    let note = note.strip_suffix(UNINDEXED).unwrap_or(note);
    let (hash, fetched) = note.split_once(' ')?;
    Some(Replaced {
        fetched: Some(fetched.to_owned()),
        hash: Some(hash.to_owned()),
    })
}
