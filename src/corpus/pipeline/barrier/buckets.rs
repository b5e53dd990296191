//! Head, middle and tail of the documents of each language by their perplexity (CCNet,
//! Wenzek et al. 2020).

use std::collections::BTreeMap;

use super::super::document::Document;
use super::super::plan::{Bucket, Perplexity};
use super::super::steps::{Measured, Value, rounded};
use super::super::store::PhaseStore;
use super::{Decide, DocumentFate};
use crate::tool_error::ToolError;

/// The bounds of the languages.
pub(super) struct LanguageBounds {
    step: Perplexity,
    /// By language, the highest perplexities of head and middle.
    bounds: BTreeMap<String, [f64; 2]>,
}

impl LanguageBounds {
    /// Reads all perplexities: eight bytes per document.
    pub(super) fn of(step: &Perplexity, store: &PhaseStore) -> Result<Self, ToolError> {
        let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let work = |document: Document| (language(&document).to_owned(), value(step, &document));
        store.over(work, |(language, value)| {
            if let Some(value) = value {
                values.entry(language).or_default().push(value);
            }
            Ok(())
        })?;
        let shares = step.buckets.unwrap_or_default();
        let bounds = values.into_iter().map(|(language, mut values)| {
            values.sort_by(f64::total_cmp);
            (language, shares.map(|share| quantile(&values, share)))
        });
        Ok(Self {
            step: step.clone(),
            bounds: bounds.collect(),
        })
    }
}

/// The highest of the lowest `share` of sorted values; below all values if there is none.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let count = (share * sorted.len() as f64).round() as usize;
    let at = count.checked_sub(1).and_then(|at| sorted.get(at));
    at.copied().unwrap_or(f64::NEG_INFINITY)
}

fn language(document: &Document) -> &str {
    document.language.as_deref().unwrap_or_default()
}

fn value(step: &Perplexity, document: &Document) -> Option<f64> {
    if step.is_neutral() {
        document.perplexity_neutral
    } else {
        document.perplexity
    }
}

impl Decide for LanguageBounds {
    fn decide(&self, _: usize, document: &mut Document) -> DocumentFate {
        let value = value(&self.step, document);
        let bounds = self.bounds.get(language(document));
        let bucket = value.zip(bounds).map(|(value, [head, middle])| {
            if value <= *head {
                Bucket::Head
            } else if value <= *middle {
                Bucket::Middle
            } else {
                Bucket::Tail
            }
        });
        document.bucket = bucket.map(|bucket| bucket.name().to_owned());
        let keep = &self.step.keep;
        if keep.is_empty() || bucket.is_some_and(|bucket| keep.contains(&bucket)) {
            return match bucket {
                Some(bucket) => DocumentFate::Marked(bucket.name()),
                None => DocumentFate::Stays,
            };
        }
        let names: Vec<&str> = keep.iter().map(|bucket| bucket.name()).collect();
        let at = bounds.map_or_else(String::new, |[head, middle]| {
            format!(
                " (head to {}, middle to {})",
                rounded(*head),
                rounded(*middle)
            )
        });
        let broken = Measured {
            rule: "bucket".to_owned(),
            value: Value::number(value),
            bound: format!("{}{at}", names.join(", ")),
            stays: false,
        };
        DocumentFate::Goes(broken, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_cut_where_they_should() {
        let sorted = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];
        assert_eq!(quantile(&sorted, 0.3), 3.0);
        assert_eq!(quantile(&sorted, 0.6), 6.0);
        assert_eq!(quantile(&sorted, 1.0), 10.0);
        assert_eq!(quantile(&sorted, 0.0), f64::NEG_INFINITY);
        assert_eq!(quantile(&[], 0.3), f64::NEG_INFINITY);
    }
}
