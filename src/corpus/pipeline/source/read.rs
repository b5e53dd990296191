//! Turns items of a source into documents: pages are extracted, all texts are cleaned and
//! counted.

use std::sync::Arc;

use super::super::document::{Document, paragraphs};
use super::super::plan::{Plan, Step};
use super::super::steps::{Trace, Value, note_rules, rounded, rules_of};
use super::{RawItem, SourcePage};
use crate::address::PageUrl;
use crate::language;
use crate::page::{Extracted, Extractor, Fetched, block_lists, image_lists};
use crate::pdf::{self, Failure};
use crate::ruled::StoredPage;
use crate::rules::{Applied, RuleSet};
use crate::tool_error::ToolError;
use crate::topic::neutral;
use crate::web::extract::{self, Options, extract};

/// The name of this step in tables.
pub(in crate::pipeline) const READ: &str = "extract";

/// The longest text in bytes; from pages, extraction keeps 2 MiB.
const MAX_TEXT: usize = 16 << 20;

/// The document of an item. A broken rule is recorded.
pub(in crate::pipeline) fn document(
    raw: RawItem,
    reading: &PageReading,
    trace: &mut Trace,
) -> Document {
    let mut found = match raw {
        RawItem::Text(document) => *document,
        RawItem::Other(known, rule, value, bound) => {
            let value = match value.parse() {
                Ok(number) => Value::Number(number),
                Err(_) => Value::Text(value),
            };
            trace.note(rule, value, || bound.to_owned(), false);
            *known
        }
        RawItem::Page(page) => match of_page(*page, reading) {
            Ok(document) => document,
            Err(left) => {
                let Unread {
                    known,
                    rule,
                    value,
                    bound,
                } = *left;
                trace.note(rule, Value::Text(value), || bound.to_owned(), false);
                known
            }
        },
    };
    if found.host.is_empty() {
        let url = PageUrl::parse(&found.url);
        found.host = url.map_or_else(|_| String::new(), |url| url.authority().to_owned());
    }
    if trace.broken().is_some() {
        return found;
    }
    let bytes = found.text.len();
    let bound = || format!("at most {MAX_TEXT} bytes");
    if !trace.note(
        "length",
        Value::Number(bytes as f64),
        bound,
        bytes <= MAX_TEXT,
    ) {
        found.text.clear();
        return found;
    }
    let mut found = found.begin();
    let words = Value::Number(f64::from(found.words));
    trace.note(
        "words",
        words,
        || "at least one".to_owned(),
        found.words > 0,
    );
    if found.words > 0 {
        let guess = language::guess(paragraphs(&found.text));
        found.language = guess.map(|guess| guess.language.code().to_owned());
        found.language_certainty = guess.map(|guess| rounded(guess.certainty));
    }
    found
}

/// How pages are read.
pub(in crate::pipeline) struct PageReading {
    extractor: Extractor,
    pdf: pdf::Reader,
    rules: Option<Arc<RuleSet>>,
}

impl PageReading {
    /// As a plan says.
    pub(in crate::pipeline) fn of(plan: &Plan) -> Result<Self, ToolError> {
        let extractor = plan.steps.iter().find_map(|step| match step {
            Step::Extract(step) => Some(step.extractor),
            _ => None,
        });
        Ok(Self {
            extractor: extractor.unwrap_or(Extractor::Main),
            pdf: pdf::Reader::of_this_program(pdf::Limits::default()),
            rules: rules_of(plan)?,
        })
    }
}

/// Options to extract only the text.
fn options(extractor: Extractor) -> Options {
    Options {
        extractor,
        documents: Some(extractor),
        max_links: 0,
        max_images: 0,
        ..Options::default()
    }
}

/// A page that cannot be read: the rule that it breaks, the value, and the expected value.
struct Unread {
    known: Document,
    rule: &'static str,
    value: String,
    bound: &'static str,
}

fn of_page(page: SourcePage, reading: &PageReading) -> Result<Document, Box<Unread>> {
    let SourcePage {
        url,
        response,
        known,
        of_page,
    } = page;
    let options = options(reading.extractor);
    let fetched = response.into_fetched();
    let read = if extract::is_pdf(&fetched) {
        of_pdf(&url, &fetched, reading, &options).map_err(|failure| {
            let cut = if fetched.truncated { ", cut" } else { "" };
            let value = format!("{}{cut}", failure.name());
            ("pdf", value, "a PDF file that can be read")
        })
    } else {
        extract(&url, &fetched, &options).map_err(|error| {
            let media = fetched.content_type.as_deref().map(extract::media_type);
            let value = media.unwrap_or_else(|| error.to_string());
            ("type", value, "HTML, text or PDF")
        })
    };
    let mut page = match read {
        Ok(page) => page,
        Err((rule, value, bound)) => {
            return Err(Box::new(Unread {
                known,
                rule,
                value,
                bound,
            }));
        }
    };
    let stated = known.terms.clone().unwrap_or_default();
    let terms = if of_page {
        // The page lifts no reservation that the crawl has recorded, such as one of a redirect. The
        // RSL files that it names were read then.
        let mut own = page.terms;
        own.rsl
            .retain(|rsl| stated.rsl.iter().all(|known| known.file != rsl.file));
        stated.at_all_times(own)
    } else {
        stated.then(page.terms)
    };
    let main = page.main.take().unwrap_or_default();
    let meta = std::mem::take(&mut page.metadata);
    let (block_kinds, block_offsets) = block_lists(&main.text, &main.blocks);
    let (image_urls, image_blocks) = image_lists(&main.images);
    let mut document = Document {
        published: meta.published,
        modified: meta.modified,
        title: meta.title,
        authors: meta.authors,
        declared_language: page.language.take(),
        charset_declared: page.declared_charset.take(),
        charset_used: Some(page.charset.clone()),
        controls_removed: page.controls,
        mime: page.mime.take(),
        extractor: Some(main.share.extractor.name().to_owned()),
        text: main.text,
        block_kinds,
        block_offsets,
        image_urls,
        image_blocks,
        licences: terms.licences.clone(),
        terms: Some(terms).filter(|terms| !terms.is_silent()),
        ..known
    };
    if let Some(rules) = &reading.rules
        && let Some(applied) = applied(rules, &url, &fetched, &options, &document)
    {
        note_rules(&mut document, &applied);
    }
    Ok(document)
}

/// The page of a PDF file.
fn of_pdf(
    url: &PageUrl,
    fetched: &Fetched,
    reading: &PageReading,
    options: &Options,
) -> Result<Extracted, Failure> {
    let original = reading.pdf.read(&fetched.body)?;
    let words: pdf::WordList<'_> = &neutral::knows;
    Ok(extract::of_pdf(
        url,
        fetched,
        &original,
        Some(words),
        options,
    ))
}

/// The findings of rules on a page.
fn applied(
    rules: &RuleSet,
    url: &PageUrl,
    fetched: &Fetched,
    options: &Options,
    document: &Document,
) -> Option<Applied> {
    let day = document
        .fetched
        .as_ref()
        .and_then(|time| time.get(..10)?.parse().ok());
    if !rules.is_for(url, day) {
        return None;
    }
    let page = StoredPage::of(url, fetched, options, day)?;
    rules.apply(&page.as_page())
}
