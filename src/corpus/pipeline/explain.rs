//! Explains why a document is in a corpus or not: every step's value and bound.

use serde::Serialize;

use super::document::Document;
use super::plan::Plan;
use super::source::{self, CorpusSources, PageReading, READ, SourceCursor};
use super::steps::{self, Measured, Trace, Value};
use super::{Cluster, Removed, each_copy, each_document, each_removed, is_corpus};
use crate::tool_error::ToolError;

/// The most captures of an address that are explained.
const MOST: usize = 16;

/// The result for one capture of an address.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Explained {
    /// The number of the document; `None` if there was no text.
    pub id: Option<String>,
    /// When it was fetched.
    pub fetched: Option<String>,
    /// The file that contains it.
    pub archive: Option<String>,
    /// Where in that file.
    pub offset: Option<u64>,
    /// The steps in order.
    pub steps: Vec<Explanation>,
    /// Whether it is in the corpus; `None` if the corpus was not built.
    pub is_in: Option<bool>,
    /// How it was removed from the built corpus.
    pub removed: Option<Removed>,
    /// The documents that it is a copy of, or that are copies of it.
    pub copies: Vec<Cluster>,
}

/// The values that a step measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Explanation {
    /// The kind of the step.
    pub step: String,
    /// Its rules.
    pub rules: Vec<Measured>,
    /// A step that compares documents. Its result is only known from the corpus.
    pub compares: bool,
}

/// Explains all captures of an address. Each step measures again; the decisions of the steps
/// that compare documents are read from the corpus, if it was built.
///
/// # Errors
///
/// [`ToolError`], as of a build.
pub fn explain(plan: &Plan, url: &str) -> Result<Vec<Explained>, ToolError> {
    let mut sources = CorpusSources::of(&plan.source)?;
    sources.index()?;
    let wanted = crate::address::PageUrl::parse(url).map(|url| url.as_str().to_owned());
    let wanted = wanted.unwrap_or_else(|_| url.to_owned());
    let mut raws = Vec::new();
    sources.each(SourceCursor::default(), None, &mut |batch| {
        let met = batch
            .items
            .into_iter()
            .filter(|raw| raw.url() == wanted || raw.url() == url);
        raws.extend(met);
        raws.len() < MOST
    })?;
    raws.truncate(MOST);
    let reading = PageReading::of(plan)?;
    let mut all = Vec::new();
    for raw in raws {
        let mut trace = Trace::whole();
        let document = source::document(raw, &reading, &mut trace);
        all.push(through(plan, document, trace)?);
    }
    if is_corpus(&plan.output.folder) {
        look_up(plan, &mut all)?;
    }
    Ok(all)
}

/// Applies the steps that judge a document by itself.
fn through(plan: &Plan, document: Document, read: Trace) -> Result<Explained, ToolError> {
    let has_text = read.broken().is_none();
    let mut explained = Explained {
        id: Some(document.id.clone()).filter(|id| !id.is_empty()),
        fetched: document.fetched.clone(),
        archive: document.archive.clone(),
        offset: document.offset,
        steps: vec![Explanation {
            step: READ.to_owned(),
            rules: read.measured,
            compares: false,
        }],
        ..Explained::default()
    };
    let mut document = document;
    for step in plan.steps.iter().filter(|_| has_text) {
        let mut rules = Vec::new();
        if let Some(local) = steps::local(step)? {
            let mut trace = Trace::whole();
            local.apply(&mut document, &mut trace);
            rules = trace.measured;
            // A step that marks removes nothing.
            if local.marks() {
                rules.iter_mut().for_each(|rule| rule.stays = true);
            }
        }
        let compares = super::barrier::Barrier::of(step).is_some();
        if rules.is_empty() && !compares {
            continue;
        }
        explained.steps.push(Explanation {
            step: step.kind().to_owned(),
            rules,
            compares,
        });
    }
    Ok(explained)
}

/// Adds what the corpus records.
fn look_up(plan: &Plan, all: &mut [Explained]) -> Result<(), ToolError> {
    let folder = &plan.output.folder;
    each_removed(folder, &mut |removed| {
        let is_it = |one: &&mut Explained| {
            removed.paragraph.is_none()
                && one.id == removed.id
                && one.archive == removed.archive
                && one.offset == removed.offset
        };
        if let Some(one) = all.iter_mut().find(is_it) {
            one.is_in = Some(false);
            one.removed = Some(removed);
        }
        Ok(true)
    })?;
    each_document(folder, &mut |document| {
        let id = Some(&document.id);
        let place =
            |one: &Explained| one.archive == document.archive && one.offset == document.offset;
        let is_it = |one: &&mut Explained| one.id.as_ref() == id && place(one);
        if let Some(one) = all.iter_mut().find(is_it) {
            one.is_in = Some(true);
            if let (Some(bucket), Some(step)) = (
                &document.bucket,
                one.steps
                    .iter_mut()
                    .find(|step| step.step == "perplexity" && step.compares),
            ) {
                step.rules.push(Measured {
                    rule: "bucket".to_owned(),
                    value: Value::Text(bucket.clone()),
                    bound: "by the documents of its language".to_owned(),
                    stays: true,
                });
            }
        }
        Ok(true)
    })?;
    each_copy(folder, &mut |copy| {
        for one in all.iter_mut() {
            let is_of = one.id.as_ref() == Some(&copy.id) || one.id.as_ref() == Some(&copy.copy_of);
            if is_of && one.copies.len() < MOST {
                one.copies.push(copy.clone());
            }
        }
        Ok(true)
    })
}
