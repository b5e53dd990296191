//! `copies.jsonl.zst`: pairs of documents or parts that are copies, with their common text.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::super::document::Document;
use super::super::plan::{Copies, Measure};
use super::super::steps::rounded;
use crate::copies::{Alike, Words, cosine, of_both, of_shorter, passages};

/// The file's name.
pub const COPIES: &str = "copies.jsonl.zst";

/// The number of passages whose text is written; the longest are chosen.
const SHOWN: usize = 3;
/// The most characters of such a passage.
const CHARACTERS: usize = 300;

/// A copy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// The number of the step in the plan, from 1.
    pub number: usize,
    /// What was compared: `document`, `paragraph`, `sentence` or `url`.
    pub level: String,
    /// `exact` or `near`.
    pub kind: String,
    /// The document.
    pub id: String,
    /// Its address.
    pub url: String,
    /// The document that it is a copy of.
    pub copy_of: String,
    /// The address of that document.
    pub copy_of_url: String,
    /// The similarity.
    pub similarity: f64,
    /// The passages, four numbers each: start and end in this text, start and end in the other,
    /// in bytes of the texts that this step received.
    pub spans: Vec<u64>,
    /// The longest passages.
    pub matched: Vec<Matched>,
}

/// A common passage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matched {
    /// In this document.
    pub text: String,
    /// In the other.
    pub other: String,
}

/// The comparison of two parts.
pub(super) struct ComparedParts {
    pub(super) similarity: f64,
    /// Ranges of bytes of both documents.
    pub(super) spans: Vec<(Range<usize>, Range<usize>)>,
}

/// Compares parts of two documents.
pub(super) fn compare(
    (step, alike): (&Copies, &Alike),
    (first, of_first): (&Document, &Range<usize>),
    (second, of_second): (&Document, &Range<usize>),
) -> ComparedParts {
    let text = |document: &Document, range: &Range<usize>| {
        Words::like(document.text.get(range.clone()).unwrap_or_default(), alike)
    };
    let (a, b) = (text(first, of_first), text(second, of_second));
    let found = passages(&a, &b, step.words);
    let similarity = match step.measure {
        Measure::Both => of_both(&a, &b, &found),
        Measure::Shorter => of_shorter(&a, &b, &found),
        Measure::Cosine => cosine(&a, &b),
    };
    let moved = |range: Range<usize>, by: usize| range.start + by..range.end + by;
    let spans = found.iter().map(|passage| {
        (
            moved(a.bytes(&passage.first), of_first.start),
            moved(b.bytes(&passage.second), of_second.start),
        )
    });
    ComparedParts {
        similarity,
        spans: spans.collect(),
    }
}

/// The numbers of spans.
pub(super) fn numbers(spans: &[(Range<usize>, Range<usize>)]) -> Vec<u64> {
    let all = spans
        .iter()
        .flat_map(|(a, b)| [a.start, a.end, b.start, b.end]);
    all.map(|at| at as u64).collect()
}

impl Cluster {
    /// The line of a copy.
    pub(super) fn of(
        (number, step): (usize, &Copies),
        is_exact: bool,
        document: &Document,
        of: &Document,
        compared: &ComparedParts,
    ) -> Self {
        let mut longest: Vec<&(Range<usize>, Range<usize>)> = compared.spans.iter().collect();
        // The sort is stable: equally long passages keep their order.
        longest.sort_by_key(|(range, _)| std::cmp::Reverse(range.len()));
        let short = |text: &str, range: &Range<usize>| -> String {
            let passage = text.get(range.clone()).unwrap_or_default();
            passage.chars().take(CHARACTERS).collect()
        };
        let matched = longest.iter().take(SHOWN).map(|(a, b)| Matched {
            text: short(&document.text, a),
            other: short(&of.text, b),
        });
        Self {
            number,
            level: step.level.name().to_owned(),
            kind: if is_exact { "exact" } else { "near" }.to_owned(),
            id: document.id.clone(),
            url: document.url.clone(),
            copy_of: of.id.clone(),
            copy_of_url: of.url.clone(),
            similarity: rounded(compared.similarity),
            spans: numbers(&compared.spans),
            matched: matched.collect(),
        }
    }
}
