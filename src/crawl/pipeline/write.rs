//! Writes the product of a finished task to the outputs of the job.

use super::completion::Completion;
use super::documents;
use super::product::Product;
use crate::archive::writer::{Original, Packed};
use crate::clock::{millis, timestamp};
use crate::frontier::{Finished, OutputEdit, Settled};
use crate::outputs::picture::ImageInfo;
use crate::outputs::{ImageEdit, Kept, NewImageFile, OutputError, Outputs, TextPlace};
use crate::page::{ImageContext, TaskKind};

/// The frontier's data about a fetched image.
pub(super) struct KnownImage<'a> {
    /// The words around it on the pages that embed it.
    pub contexts: Vec<ImageContext>,
    /// An earlier file with the same bytes.
    pub earlier: Option<&'a str>,
}

/// The note that sentences of a page were kept, but no document.
const SENTENCES: &str = "sentences";

/// Where the product of a task is in the outputs.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The image, as a path below the folder of the job.
    pub file: Option<String>,
    pub sentences: Option<TextPlace>,
    pub document: Option<TextPlace>,
    /// The records of the exchange.
    pub archive: Option<TextPlace>,
    /// Where its body is stored, if no earlier record has the same.
    pub body: Option<([u8; 20], String)>,
    /// The note for the frontier, which returns it at the next visit.
    pub note: Option<String>,
}

/// Writes the product of a task. Returns where it is, and the digest of an image whose
/// bytes are new.
pub(super) fn write(
    outputs: &mut Outputs,
    completion: &Completion<Product>,
    image: KnownImage<'_>,
    time: &str,
    finished: &Finished,
) -> Result<(Places, Option<String>), OutputError> {
    // The previous visit has written the same text. Alt texts, images and terms of use
    // may have changed all the same.
    let is_written = finished.changed == Some(false);
    for edit in &finished.edits {
        apply(outputs, edit, time)?;
    }
    let mut places = Places::default();
    if finished.settled != Settled::Done {
        return Ok((places, None));
    }
    match &completion.product {
        Some(Product::Page(page)) => {
            // A page whose text was forbidden before has no note of it.
            let noted = finished.earlier.as_deref();
            let may_find = page.unindexed.is_empty();
            let is_known = |note: &str| documents::is_note(note, may_find);
            let has_text = page.kept.is_some() || page.sentences.count() > 0;
            let keeps_note = has_text || page.forbidden.is_empty();
            places.note = finished.earlier.clone().filter(|_| keeps_note);
            if !(is_written && noted.is_some()) {
                places.sentences = outputs.sentences(&page.sentences)?;
                let is_kept = places.sentences.is_some() && finished.comes_again;
                places.note = places.note.or(is_kept.then(|| SENTENCES.to_owned()));
            }
            let is_written = is_written && noted.is_some_and(is_known);
            if let Some(found) = page.kept.as_ref().filter(|_| !is_written) {
                let document = documents::complete(found, &completion.task, time, finished);
                places.document = Some(outputs.document(&document)?);
                places.note = finished.comes_again.then(|| documents::note(&document));
            }
            places.note = places.note.map(|note| documents::marked(note, may_find));
            Ok((places, None))
        }
        Some(Product::Image {
            bytes,
            info,
            content_type,
            terms,
            ..
        }) => {
            let new = NewImageFile {
                url: &completion.task.url,
                bytes,
                info: ImageInfo::clone(info),
                content_type: content_type.as_deref(),
                terms: terms.clone(),
                fetched: time,
                contexts: image.contexts,
            };
            let Kept { file, first } = outputs.image_or_link(new, image.earlier)?;
            places.note = Some(file.clone());
            places.file = Some(file);
            Ok((places, first.then(|| info.sha256.clone())))
        }
        Some(
            Product::Forbidden { .. }
            | Product::Refused { .. }
            | Product::Robots(_)
            | Product::Sitemap(_)
            | Product::TermsFile(_)
            | Product::UnknownRsl { .. }
            | Product::Withdrawn { .. },
        )
        | None => Ok((places, None)),
    }
}

/// Writes the records of the exchange, if there are any, to the archive. `stored` is where the same
/// body was stored before.
pub(super) fn archive(
    outputs: &mut Outputs,
    exchange: Option<Box<Packed>>,
    completion: &Completion<Product>,
    places: &mut Places,
    stored: Option<&str>,
    now: u64,
) -> Result<(), OutputError> {
    let Some(exchange) = exchange else {
        return Ok(());
    };
    let earlier = stored.and_then(Original::of_text);
    let body = match &earlier {
        None => exchange
            .key()
            .map(|digest| (digest, exchange.original().to_text())),
        Some(_) => None,
    };
    let records = exchange.members(earlier.as_ref(), &metadata(completion, now));
    places.archive = Some(outputs.exchange(&records, now)?);
    places.body = body;
    Ok(())
}

/// What the crawl knows of an exchange, for its `metadata` record; `via` and `hopsFromSeed`
/// are names that Heritrix uses.
fn metadata(completion: &Completion<Product>, now: u64) -> Vec<(&'static str, String)> {
    let task = &completion.task;
    // `WARC-Date` is the time of the request; the log and the sidecars have this time.
    let mut fields = vec![("spoor-time", timestamp(now))];
    if let Some(via) = &task.via {
        fields.push(("via", via.to_string()));
    }
    fields.push(("hopsFromSeed", task.hops.to_string()));
    // A page and an image may have the same address, and a redirect has no media type.
    fields.push(("spoor-kind", task.kind.name().to_owned()));
    if task.control {
        fields.push(("spoor-control", "true".to_owned()));
    }
    fields.push(("fetchTimeMs", millis(completion.elapsed).to_string()));
    if matches!(task.kind, TaskKind::Page | TaskKind::Image) {
        fields.push(("spoor-bucket", task.bucket.name().to_owned()));
        fields.push(("spoor-score", task.score.to_string()));
        if let Some(parts) = &task.parts {
            fields.push(("spoor-via-perplexity", parts.document.to_string()));
            fields.push(("spoor-anchor-perplexity", parts.anchor.to_string()));
            fields.push(("spoor-anchor-keyword", parts.keyword.to_string()));
        }
    }
    if let Some(Product::Page(page)) = &completion.product {
        let document = &page.document;
        fields.push(("spoor-perplexity", document.perplexity.to_string()));
        fields.push(("spoor-keyword", document.keyword.to_string()));
        if let Some(likely) = page.on_topic {
            fields.push(("spoor-on-topic", likely.to_string()));
        }
        if let Some(language) = page.recognised {
            fields.push(("spoor-language", language.code().to_owned()));
        }
        fields.push(("spoor-charset", page.charset.clone()));
        fields.push(("spoor-extractor", page.text.extractor.name().to_owned()));
        fields.push(("spoor-words", page.text.words.to_string()));
    }
    let terms = match &completion.product {
        Some(Product::Page(page)) => Some(&page.terms),
        Some(Product::Image { terms, .. }) => Some(terms),
        _ => None,
    };
    if let Some(terms) = terms.filter(|terms| !terms.is_silent()) {
        // As a sidecar has them; strings and flags always become JSON.
        fields.extend(serde_json::to_string(terms).map(|json| ("spoor-terms", json)));
    }
    if let Some(error) = &completion.error {
        fields.push(("spoor-error", error.clone()));
    }
    fields
}

/// Changes what was written before, at `time`, RFC 3339 in UTC.
pub(super) fn apply(
    outputs: &mut Outputs,
    edit: &OutputEdit,
    time: &str,
) -> Result<(), OutputError> {
    let (note, edit) = match edit.clone() {
        OutputEdit::AddContext {
            note,
            context,
            changed,
        } => (note, ImageEdit::Context { context, changed }),
        OutputEdit::MarkBoilerplate {
            note,
            page,
            unknown,
        } => (note, ImageEdit::Boilerplate { page, unknown }),
        OutputEdit::Withhold { note, page, terms } => (note, ImageEdit::Terms { page, terms }),
    };
    outputs.edit_image(time, &note, edit)
}
