//! From a finished task to its row in the log of the crawl.

use super::completion::Completion;
use super::product::Product;
use super::write::Places;
use crate::address::PageUrl;
use crate::clock::millis;
use crate::frontier::{Finished, Settled};
use crate::language::Language;
use crate::outputs::Row;
use crate::page::{Fallback, Likelihood, Outcome, Reason, media_type};

/// The row of a page, an image or a sitemap.
pub(super) fn of_task<'a>(
    completion: &'a Completion<Product>,
    time: &'a str,
    finished: &'a Finished,
    places: &'a Places,
) -> Row<'a> {
    let mut row = of_host_file(completion, time, &finished.settled);
    row.sentences = places.sentences.as_ref();
    row.documents = places.document.as_ref();
    row.archive = places.archive.as_ref();
    row.id = finished.id;
    row.changed = finished.changed;
    row.error = row.error.or(finished.said.as_deref());
    row.file = places.file.as_deref();
    row.duplicate_of = finished.duplicate_of.as_ref().map(PageUrl::as_str);
    row.near_copy_of = finished.near_copy_of.as_ref().map(PageUrl::as_str);
    if let Some(Product::Page(page)) = &completion.product {
        row.document = Some(page.document);
        let likely = finished.judged.map(|judged| judged.on_topic);
        row.on_topic = likely.map(Likelihood::is_likely);
        row.on_topic_probability = likely;
        row.on_topic_guessed = finished.judged.is_some_and(|judged| judged.guessed);
        row.charset = Some(&page.charset);
        row.fallback = page.fallback.map(Fallback::name);
        row.title = page.title.as_deref();
        row.language = page.language.as_deref();
        row.text = Some(page.text);
        row.recognised = page.recognised.map(Language::code);
        row.foreign = page.foreign;
        row.off_language = page.off_language;
        row.truncated = page.truncated;
        row.forbidden = &page.forbidden;
        row.withdrawn = &page.unindexed;
        row.svgs = page.svgs;
        row.rules = page.rules.as_deref();
    }
    if let Some(Product::Withdrawn { by }) = &completion.product {
        row.withdrawn = by;
    }
    row.terms = match &completion.product {
        Some(Product::Page(page)) => Some(&page.terms),
        Some(Product::Image { terms, .. } | Product::Forbidden { terms, .. }) => Some(terms),
        _ => None,
    };
    row.terms = row.terms.filter(|terms| !terms.is_silent());
    row
}

/// The row of a robots.txt or a tdmrep.json, and what the rows of all tasks share.
pub(super) fn of_host_file<'a>(
    completion: &'a Completion<Product>,
    time: &'a str,
    settled: &Settled,
) -> Row<'a> {
    let task = &completion.task;
    let (outcome, reason) = match settled {
        Settled::Done => ("done", None),
        Settled::Unchanged => ("unchanged", None),
        Settled::Redirected => ("redirected", None),
        Settled::Retrying { reason, .. } => ("retrying", Some(*reason)),
        Settled::Postponed { reason } => ("postponed", Some(*reason)),
        Settled::Dropped { reason } => ("dropped", Some(*reason)),
    };
    Row {
        via: task.via.as_ref().map(|v| v.as_str()),
        hops: task.hops,
        status: completion.status,
        bytes: completion.bytes,
        ms: millis(completion.elapsed),
        asked: completion.asked,
        delay: completion.delay,
        mime: completion.content_type.as_deref().and_then(registered),
        bucket: task.bucket.name(),
        score: task.score,
        control: task.control,
        parts: task.parts,
        redirect: match &completion.outcome {
            Outcome::Redirect { to } => Some(to.as_str()),
            _ => None,
        },
        outcome,
        reason: reason.map(Reason::name),
        error: completion.error.as_deref(),
        ..Row::done(time, task.kind, task.url.as_str(), task.url.id())
    }
}

/// The media type of a `Content-Type`; `None` if it is longer than any registered one.
fn registered(content_type: &str) -> Option<&str> {
    let media = media_type(content_type);
    (1..=127).contains(&media.len()).then_some(media)
}
