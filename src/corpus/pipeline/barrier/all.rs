//! The units of all documents that are compared, and how they are read again.

use std::ops::Range;

use super::super::document::Document;
use super::super::plan::{Copies, Keep, Level};
use super::super::store::DocumentPlaces;
use super::copies::NONE;
use super::units::parts;
use crate::tool_error::ToolError;

/// The units of all documents, earlier corpora first.
pub(super) struct Units {
    /// By document, the number of its first unit; and the number of all at the end.
    pub(super) firsts: Vec<u32>,
    /// Documents of earlier corpora.
    pub(super) earlier: usize,
    pub(super) prints: Vec<u64>,
    pub(super) words: Vec<u32>,
    /// By document, if the step has a time window.
    pub(super) dates: Vec<Option<i64>>,
    /// By document, if the best copy is kept.
    pub(super) perplexities: Vec<f64>,
}

impl Units {
    pub(super) fn document(&self, unit: u32) -> usize {
        self.firsts
            .partition_point(|first| *first <= unit)
            .saturating_sub(1)
    }

    /// Whether the dates of two units allow that they are copies.
    pub(super) fn in_window(&self, step: &Copies, a: u32, b: u32) -> bool {
        let Some(window) = step.window else {
            return true;
        };
        let date = |unit| self.dates.get(self.document(unit)).copied().flatten();
        let dates = date(a).zip(date(b));
        dates.is_some_and(|(a, b)| a.abs_diff(b) <= window.0.unsigned_abs())
    }

    pub(super) fn has_words(&self, unit: u32) -> bool {
        self.words
            .get(unit as usize)
            .is_some_and(|words| *words > 0)
    }

    /// All units in the order of preference: those of earlier corpora first.
    pub(super) fn order(&self, step: &Copies) -> Vec<u32> {
        let count = u32::try_from(self.prints.len()).unwrap_or(NONE);
        let own = self.firsts.get(self.earlier).copied().unwrap_or(count);
        let mut order: Vec<u32> = (0..count).collect();
        let rest = order.get_mut(own as usize..).unwrap_or_default();
        match step.keep {
            Keep::First | Keep::None | Keep::All => {}
            Keep::Last => rest.reverse(),
            Keep::Longest => rest.sort_by_key(|unit| {
                let words = self.words.get(*unit as usize);
                std::cmp::Reverse(words.copied().unwrap_or_default())
            }),
            Keep::Best => {
                let of = |unit: &u32| self.perplexities.get(self.document(*unit)).copied();
                rest.sort_by(|a, b| {
                    let (a, b) = (of(a).unwrap_or(f64::MAX), of(b).unwrap_or(f64::MAX));
                    a.total_cmp(&b)
                });
            }
        }
        order
    }
}

/// The documents whose units are compared.
pub(super) struct ComparedTexts {
    pub(super) earlier: Option<DocumentPlaces>,
    pub(super) own: DocumentPlaces,
    pub(super) level: Level,
}

impl ComparedTexts {
    pub(super) fn read(&self, document: usize) -> Result<Document, ToolError> {
        match &self.earlier {
            Some(earlier) if document < earlier.len() => earlier.read(document),
            Some(earlier) => self.own.read(document - earlier.len()),
            None => self.own.read(document),
        }
    }

    /// The document of a unit, and where the unit is in its text.
    pub(super) fn unit(
        &self,
        units: &Units,
        unit: u32,
    ) -> Result<(Document, Range<usize>), ToolError> {
        let number = units.document(unit);
        let document = self.read(number)?;
        let first = units.firsts.get(number).copied().unwrap_or_default();
        let range = if self.level.is_part() {
            let all = parts(self.level, &document.text);
            let at = unit.saturating_sub(first) as usize;
            all.get(at).cloned().unwrap_or_default()
        } else {
            0..document.text.len()
        };
        Ok((document, range))
    }
}
