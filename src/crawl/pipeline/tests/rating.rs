//! How links are rated while a crawl learns.

use super::*;
use crate::config::StrategySection;
use crate::crawl::frontier::Learning;
use crate::page::{Clues, LinkParts};

#[test]
fn a_link_begins_in_the_order_of_the_formula_and_becomes_the_learners() {
    let reader = Reader {
        learned: Some(Learned::new(&StrategySection::default(), None)),
        ..reader(Strategy::Learn)
    };
    let link = LinkParts {
        document: 700.0,
        anchor: 700.0,
        keyword: 0.0,
    };
    let (clues, boundaries) = (Clues::default(), Boundaries::default());
    let odds = |score: f64| (boundaries.medium / score).ln();
    let (before, _) = reader.rate(&clues, Some(&link));
    assert!((before / 700.0 - 1.0).abs() < 0.01, "{before}");
    let parts = Learning::parts(&reader, &clues, Some(&link));
    assert_eq!((parts[0].name, Learning::weight(&reader)), ("formula", 0.0));
    assert!(parts[1..].iter().all(|part| part.adds == 0.0));
    for _ in 0..1_000 {
        Learning::learn(&reader, &clues, 1.0);
    }
    let (after, _) = reader.rate(&clues, Some(&link));
    assert!(after < before && Learning::weight(&reader) > 0.98);
    // What the parts add up to is what the score says.
    let parts = Learning::parts(&reader, &clues, Some(&link));
    let sum: f64 = parts.iter().map(|part| part.adds).sum();
    let one = odds(reader.rate(&clues, Some(&link)).0) / sum;
    let learned_alone = odds(reader.rate(&clues, None).0);
    let of_parts: f64 = parts[1..].iter().map(|part| part.adds).sum();
    let weight = Learning::weight(&reader);
    assert!((one * of_parts / weight / learned_alone - 1.0).abs() < 0.01);
}
