//! The entities of a document as entries of the index: their names with the document, and with
//! each of its sentences and paragraphs that mentions one.

use std::cmp::Ordering;

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use tantivy::TantivyDocument;

use super::schema::{IndexFields, PARAGRAPH, SENTENCE};
use crate::corpus::entities::{Field, Mention, passages};

/// The separator between a class and an entity of it.
pub(super) const OF: char = '\u{1f}';

/// The place of a passage in its document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PassageSpan {
    /// Whether it is in the title.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub title: bool,
    /// Its first byte.
    pub from: usize,
    /// The byte after its last one.
    pub to: usize,
}

/// A name in the form used for lookups: case is ignored, unless the names of two entities differ
/// only in case.
pub(super) fn key(name: &str) -> String {
    name.trim().to_lowercase()
}

/// Adds the names of entities, their identifiers and their classes, each once.
fn add_names(entry: &mut TantivyDocument, mentions: &[&Mention], fields: &IndexFields) {
    let (mut ids, mut classes) = (FxHashSet::default(), FxHashSet::default());
    for mention in mentions {
        if !ids.insert(mention.id.as_str()) {
            continue;
        }
        entry.add_text(fields.entity, &mention.entity);
        entry.add_text(fields.entity_key, key(&mention.entity));
        if mention.id != mention.entity {
            entry.add_text(fields.entity_key, key(&mention.id));
        }
        for class in &mention.classes {
            entry.add_text(fields.pair, format!("{class}{OF}{}", mention.entity));
            if classes.insert(class.as_str()) {
                entry.add_text(fields.class, class);
            }
        }
    }
}

/// Groups of consecutive mentions that a comparison finds equal.
fn run<'a, 'm>(
    all: &'a [&'m Mention],
    compare: impl Fn(&Mention) -> Ordering,
) -> &'a [&'m Mention] {
    let from = all.partition_point(|mention| compare(mention) == Ordering::Less);
    let to = all.partition_point(|mention| compare(mention) != Ordering::Greater);
    all.get(from..to).unwrap_or_default()
}

/// Adds a document's entities to its entry, and returns the entries of its passages. `common`
/// has the fields that these share with it.
pub(super) fn add(
    entry: &mut TantivyDocument,
    (title, text): (&str, &str),
    mentions: &[Mention],
    common: &TantivyDocument,
    fields: &IndexFields,
) -> Vec<TantivyDocument> {
    let all: Vec<&Mention> = mentions.iter().collect();
    add_names(entry, &all, fields);
    let mut entries = Vec::new();
    let mut of = |kind: &str, said: &str, span: PassageSpan, within: &[&Mention]| {
        if within.is_empty() {
            return;
        }
        let mut passage = common.clone();
        passage.add_text(fields.kind, kind);
        passage.add_text(fields.said, said);
        add_names(&mut passage, within, fields);
        // Numbers always serialise.
        let span = serde_json::to_string(&span).unwrap_or_default();
        passage.add_text(fields.about, span);
        entries.push(passage);
    };
    let in_title: Vec<&Mention> = all
        .iter()
        .copied()
        .filter(|m| m.field == Field::Title)
        .collect();
    let whole = PassageSpan {
        title: true,
        from: 0,
        to: title.len(),
    };
    of(SENTENCE, title, whole, &in_title);
    of(PARAGRAPH, title, whole, &in_title);
    if mentions.is_empty() {
        return entries;
    }
    let in_text: Vec<&Mention> = all.into_iter().filter(|m| m.field == Field::Text).collect();
    let sentences = passages(text);
    let span = |from: usize, to: usize| PassageSpan {
        title: false,
        from,
        to,
    };
    for sentence in &sentences {
        let within = run(&in_text, |m| m.sentence.cmp(&sentence.sentence));
        let said = text.get(sentence.from..sentence.to).unwrap_or_default();
        of(SENTENCE, said, span(sentence.from, sentence.to), within);
    }
    for paragraph in sentences.chunk_by(|a, b| a.paragraph == b.paragraph) {
        let (Some(first), Some(last)) = (paragraph.first(), paragraph.last()) else {
            continue;
        };
        let within = run(&in_text, |m| m.paragraph.cmp(&first.paragraph));
        let said = text.get(first.from..last.to).unwrap_or_default();
        of(PARAGRAPH, said, span(first.from, last.to), within);
    }
    entries
}
