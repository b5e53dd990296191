//! Calibration: derives bucket boundaries, razor, anchor threshold and the probability of
//! being on topic from measurements of a new model.
//!
//! Two kinds of text are measured, each about the topic and about anything else:
//!
//! - **documents**, as crawled pages are rated. Held-out ones are cut into pieces as long
//!   as the median neutral document, because the perplexity of a long text scatters less;
//! - **short texts**, runs of 1 to 5 words of the same sentences, as long as anchors are.
//!
//! The cut between both kinds is where Youden's J, the share of positive texts up to the cut less
//! that of neutral ones, is largest (Youden 1950, "Index for rating diagnostic tests"): it weighs
//! both errors equally, regardless of how many texts of each kind there are. The likelihood is a
//! logistic curve over ln perplexity, fitted to both kinds with equal weight, with Platt's targets
//! and a ridge on the slope against kinds that do not overlap (Platt 1999; Lin, Lin & Weng 2007).

use crate::progress::Step;
use crate::topic::lm::{LanguageModel, Sentence, perplexity};
use crate::topic::score::Boundaries;
use crate::topic::score::calibration::{Calibration, MIN_WIDTH, Measured, Method, OnTopic, Spread};

/// The measurements of a new model, and the values derived from them.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    /// Perplexity over all held-out sentences.
    pub held_out: f64,
    /// Median over the neutral documents.
    pub neutral: Option<f64>,
    pub calibration: Calibration,
}

/// Ratios of the thesis's boundaries, 600 : 2,000 : 10,000 : 30,000, for a model without
/// neutral text to measure the upper end.
const THESIS_STEPS: [f64; 3] = [2_000.0 / 600.0, 10_000.0 / 600.0, 30_000.0 / 600.0];

/// The words of the longest short text; most anchors have no more.
const LONGEST_SHORT: usize = 5;

/// Most short texts of each kind; taken evenly from all of them.
const MAX_SHORT: usize = 10_000;

/// Tokens of a piece if there is no neutral document.
pub(super) const PIECE: usize = 250;

/// The ridge on the slope per unit of ln perplexity, for a log-likelihood that is a mean
/// over texts. It matters only if the kinds do not overlap.
const RIDGE: f64 = 1e-3;

/// Measures a new model with the held-out sentences of each document and with neutral
/// documents, whose perplexities are multiplied by `easier`. With nothing held out, the
/// unit of all values is the perplexity 1.
pub(super) fn calibrate<D: AsRef<[Sentence]>>(
    lm: &dyn LanguageModel,
    held_out: &[Vec<&Sentence>],
    neutral: &[D],
    easier: &[f64],
) -> Outcome {
    let all: Vec<&Sentence> = held_out.iter().flatten().copied().collect();
    let held = perplexity::document(lm, &all).perplexity;
    let mut step = Step::begin("measuring the model", Some(neutral.len() as u64));
    let others = neutral.iter().zip(easier);
    let others = sorted(others.map(|(d, easier)| {
        step.advance(1);
        document(lm, d.as_ref()) * easier
    }));
    drop(step);
    let middle = Spread::of(&others).map(|s| s.p50);
    let length = median_length(neutral).unwrap_or(PIECE);
    let pieces = held_out.iter().flat_map(|d| pieces(d, length));
    let topic = sorted(pieces.map(|piece| document(lm, piece)));
    let documents = measured(&topic, &others);
    let shorts = |sentences: Vec<&Sentence>| {
        let texts = short_texts(&sentences);
        sorted(texts.iter().map(|text| perplexity::text(lm, text)))
    };
    let short_texts = measured(
        &shorts(all),
        &shorts(neutral.iter().flat_map(AsRef::as_ref).collect()),
    );
    let calibration = match (documents, short_texts) {
        (Some(documents), Some(short_texts)) => Calibration {
            method: Method::Measured,
            anchor_threshold: rounded(short_texts.cut),
            boundaries: propose(&documents),
            on_topic: fit(&topic, &others),
            documents: Some(documents),
            short_texts: Some(short_texts),
        },
        _ => Calibration::of_boundaries(Method::TopicAlone, of_topic_alone(held)),
    };
    Outcome {
        held_out: held,
        neutral: middle,
        calibration,
    }
}

/// `high` is the median of the topic; `medium` the cut between on and off topic; `normal`
/// the median of other text; and the razor is above nearly all text of the language, at
/// least three times `normal`, as in the thesis.
fn propose(documents: &Measured) -> Boundaries {
    let medium = documents.cut.max(1.0);
    let high = documents.positive.p50.clamp(1.0, medium);
    let normal = documents.neutral.p50.max(medium * 1.1);
    let razor = documents.neutral.p95.max(normal * 3.0);
    Boundaries {
        high: rounded(high),
        medium: rounded(medium),
        normal: rounded(normal),
        razor: rounded(razor),
    }
}

fn of_topic_alone(held_out: f64) -> Boundaries {
    let high = held_out.max(1.0);
    let [medium, normal, razor] = THESIS_STEPS.map(|step| rounded(high * step));
    Boundaries {
        high: rounded(high),
        medium,
        normal,
        razor,
    }
}

/// Rounded up to a whole number: more digits would exceed the precision of the
/// measurement.
fn rounded(x: f64) -> f64 {
    x.ceil().clamp(1.0, f64::MAX)
}

/// Both kinds together; `None` if either is missing. Both lists ascend.
fn measured(positive: &[f64], neutral: &[f64]) -> Option<Measured> {
    let (cut, missed, mistaken) = youden(positive, neutral)?;
    Some(Measured {
        cut,
        missed,
        mistaken,
        positive: Spread::of(positive)?,
        neutral: Spread::of(neutral)?,
    })
}

/// The cut with the largest J, the share of positive texts above it, and the share of
/// neutral texts up to it. For an interval of equally good cuts, its geometric middle;
/// for several intervals, the one that excludes most neutral text. Both lists ascend.
fn youden(positive: &[f64], neutral: &[f64]) -> Option<(f64, f64, f64)> {
    if positive.is_empty() || neutral.is_empty() {
        return None;
    }
    let share = |list: &[f64], cut: f64| {
        list.partition_point(|value| *value <= cut) as f64 / list.len() as f64
    };
    let values = sorted(positive.iter().chain(neutral).copied());
    let mut best = (f64::NEG_INFINITY, 0.0, 0.0, 0.0);
    for (at, low) in values.iter().copied().enumerate() {
        let next = values.get(at + 1).copied().unwrap_or(low);
        let (found, mistaken) = (share(positive, low), share(neutral, low));
        if found - mistaken > best.0 {
            // Every cut from `low` up to the next value is as good.
            let middle = (low.sqrt() * next.sqrt()).clamp(low, next);
            best = (found - mistaken, middle, 1.0 - found, mistaken);
        }
    }
    Some((best.1, best.2, best.3))
}

/// The curve by penalised logistic regression: Newton's method on two coefficients,
/// starting at the middle between both kinds and halving each step that does not improve.
fn fit(positive: &[f64], neutral: &[f64]) -> OnTopic {
    let logs = |list: &[f64]| -> Vec<f64> { list.iter().map(|pp| pp.max(1.0).ln()).collect() };
    let (positive, neutral) = (logs(positive), logs(neutral));
    let mean = |list: &[f64]| list.iter().sum::<f64>() / list.len().max(1) as f64;
    let centre = (mean(&positive) + mean(&neutral)) / 2.0;
    // Platt's targets, with the uncertainty of the rarer kind: this number of texts
    // supports the assumption that the next text of a kind is on its side of the cut.
    let rarer = positive.len().min(neutral.len()) as f64;
    let sure = (rarer + 1.0) / (rarer + 2.0);
    let data: Vec<(f64, f64, f64)> = [(&positive, sure), (&neutral, 1.0 - sure)]
        .into_iter()
        .flat_map(|(list, target)| {
            let weight = 0.5 / list.len().max(1) as f64;
            list.iter().map(move |x| (x - centre, target, weight))
        })
        .collect();
    // The likelihood of being on topic is 1 / (1 + e^(a x + b)).
    let loss = |a: f64, b: f64| {
        let of = |&(x, target, weight): &(f64, f64, f64)| {
            let z = a * x + b;
            // ln(1 + e^z) without overflow.
            let softplus = z.max(0.0) + (-z.abs()).exp().ln_1p();
            weight * (softplus - (1.0 - target) * z)
        };
        data.iter().map(of).sum::<f64>() + RIDGE * a * a / 2.0
    };
    let (mut a, mut b) = (1.0, 0.0);
    let mut now = loss(a, b);
    for _ in 0..100 {
        let (mut ga, mut gb) = (RIDGE * a, 0.0);
        let (mut haa, mut hab, mut hbb) = (RIDGE, 0.0, 1e-12);
        for &(x, target, weight) in &data {
            let off = 1.0 / (1.0 + (-(a * x + b)).exp());
            let error = weight * (off - (1.0 - target));
            let slope = weight * off * (1.0 - off);
            ga += error * x;
            gb += error;
            haa += slope * x * x;
            hab += slope * x;
            hbb += slope;
        }
        let determinant = haa * hbb - hab * hab;
        let step_a = (hbb * ga - hab * gb) / determinant;
        let step_b = (haa * gb - hab * ga) / determinant;
        let mut part = 1.0;
        let better = loop {
            let (next_a, next_b) = (a - part * step_a, b - part * step_b);
            let next = loss(next_a, next_b);
            if next < now {
                break Some((next_a, next_b, next));
            }
            part /= 2.0;
            if part < 1e-6 {
                break None;
            }
        };
        match better {
            Some((next_a, next_b, next)) => {
                let gain = now - next;
                (a, b, now) = (next_a, next_b, next);
                if gain < 1e-12 {
                    break;
                }
            }
            None => break,
        }
    }
    // A curve that rises, or hardly falls, would come from a model that cannot separate
    // the kinds; the widest curve around their middle is used then.
    let width = (1.0 / a.max(0.1)).max(MIN_WIDTH);
    let middle = if a > 0.1 { centre - b / a } else { centre };
    OnTopic {
        midpoint: middle.clamp(0.0, 600.0).exp(),
        width,
    }
}

fn document<S: std::borrow::Borrow<Sentence>>(lm: &dyn LanguageModel, sentences: &[S]) -> f64 {
    perplexity::document(lm, sentences).perplexity
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median_length<D: AsRef<[Sentence]>>(documents: &[D]) -> Option<usize> {
    let tokens = |d: &D| d.as_ref().iter().map(Sentence::len).sum();
    let mut lengths: Vec<usize> = documents.iter().map(tokens).collect();
    lengths.sort_unstable();
    lengths.get(lengths.len() / 2).copied()
}

/// A document in pieces of whole sentences, each of at least `length` tokens but the last,
/// which is at least half as long unless it is the only one.
pub(super) fn pieces<'a, 's>(
    document: &'a [&'s Sentence],
    length: usize,
) -> Vec<&'a [&'s Sentence]> {
    let mut pieces = Vec::new();
    let mut rest = document;
    while !rest.is_empty() {
        let mut tokens = 0;
        let within = rest.iter().take_while(|sentence| {
            let short = tokens < length;
            tokens += sentence.len();
            short
        });
        let (piece, behind) = rest.split_at(within.count().max(1));
        let left: usize = behind.iter().map(|s| s.len()).sum();
        if left * 2 < length {
            pieces.push(rest);
            break;
        }
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

/// The words of sentences in runs of 1 to [`LONGEST_SHORT`], equally many of each length;
/// evenly thinned to [`MAX_SHORT`].
fn short_texts(sentences: &[&Sentence]) -> Vec<Sentence> {
    let mut texts = Vec::new();
    for sentence in sentences {
        let words: Vec<&str> = sentence.tokens().collect();
        let mut rest = words.as_slice();
        // Continues with the next length across sentences, so that no length is favoured.
        while let Some((run, behind)) = rest.split_at_checked(texts.len() % LONGEST_SHORT + 1) {
            texts.push(run.join(" "));
            rest = behind;
        }
    }
    let every = texts.len().div_ceil(MAX_SHORT).max(1);
    // A stride that shares no factor with the lengths meets all of them.
    let every = every + usize::from(every % LONGEST_SHORT == 0);
    let thinned = texts.iter().step_by(every);
    thinned
        .map(|text| crate::topic::lm::normalise(text))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::*;
    use crate::topic::lm::normalise;

    #[test]
    fn the_cut_is_where_both_kinds_part() {
        let (cut, missed, mistaken) = youden(&[1.0, 2.0, 4.0], &[9.0, 20.0]).unwrap();
        assert_eq!(
            (cut, missed, mistaken),
            (6.0, 0.0, 0.0),
            "the middle of the gap"
        );
        let (cut, missed, mistaken) =
            youden(&[1.0, 2.0, 3.0, 50.0], &[2.5, 10.0, 20.0, 30.0, 40.0]).unwrap();
        assert!((3.0..10.0).contains(&cut));
        assert_eq!((missed, mistaken), (0.25, 0.2));
        // Nothing to separate: the result is still a number.
        assert!(youden(&[5.0], &[5.0]).is_some());
        assert!(youden(&[9.0], &[5.0]).is_some());
        assert_eq!(youden(&[], &[5.0]), None);
        assert_eq!(youden(&[5.0], &[]), None);
    }

    #[test]
    fn the_curve_follows_the_data_and_never_becomes_a_step() {
        let log = |n: usize, from: f64, to: f64| -> Vec<f64> {
            let at = |i| (from + (to - from) * f64::from(i as u32) / (n - 1) as f64).exp();
            (0..n).map(at).collect()
        };
        // Two kinds that overlap, mirrored around e^6.
        let curve = fit(&log(200, 4.0, 7.0), &log(1000, 5.0, 8.0));
        assert!((curve.midpoint.ln() - 6.0).abs() < 0.02, "{curve:?}");
        assert!((0.3..1.0).contains(&curve.width), "{curve:?}");
        let apart = fit(&log(10, 4.0, 4.1), &log(1000, 8.0, 8.1));
        assert!((apart.midpoint.ln() - 6.05).abs() < 0.1, "{apart:?}");
        assert!(apart.width > 0.3, "{apart:?}");
        for (p, n) in [(8.0, 4.0), (5.0, 5.0)] {
            let none = fit(&log(10, p, p + 0.1), &log(10, n, n + 0.1));
            assert_eq!(none.width, 10.0, "{none:?}");
        }
    }

    #[test]
    fn pieces_are_whole_sentences_and_lose_nothing() {
        let sentences: Vec<Sentence> = (0..11).map(|_| normalise("a b c d e f")).collect();
        let all: Vec<&Sentence> = sentences.iter().collect();
        let lengths: Vec<usize> = pieces(&all, 20).iter().map(|p| p.len()).collect();
        assert_eq!(lengths, [4, 4, 3]);
        assert_eq!(pieces(&all, 1000).len(), 1);
        assert_eq!(pieces(&all, 0).len(), 11);
        assert!(pieces(&[], 20).is_empty());
        let lengths: Vec<usize> = pieces(&all[..9], 20).iter().map(|p| p.len()).collect();
        assert_eq!(lengths, [4, 5], "what is left over joins the last");
    }

    #[test]
    fn short_texts_are_of_every_length() {
        let sentences: Vec<Sentence> = (0..40_000).map(|_| normalise("a b c d e f g")).collect();
        let texts = short_texts(&sentences.iter().collect::<Vec<_>>());
        assert!((5_000..=MAX_SHORT).contains(&texts.len()));
        for length in 1..=LONGEST_SHORT {
            let n = texts.iter().filter(|t| t.len() == length).count();
            assert!(n * 10 > texts.len(), "{length}: {n} of {}", texts.len());
        }
        assert!(short_texts(&[]).is_empty());
    }

    #[test]
    fn without_neutral_text_the_distances_are_those_of_the_thesis() {
        let b = of_topic_alone(600.0);
        assert_eq!(
            (b.high, b.medium, b.normal, b.razor),
            (600.0, 2_000.0, 10_000.0, 30_000.0)
        );
        for held in [0.0, 1.0, f64::MAX, f64::NAN] {
            assert_eq!(of_topic_alone(held).validate(), Ok(()), "{held}");
        }
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn proposals_ascend_whatever_was_measured(
            positive in vec(1.0..1e7_f64, 1..40),
            neutral in vec(1.0..1e7_f64, 1..40),
        ) {
            let (topic, others) = (sorted(positive.into_iter()), sorted(neutral.into_iter()));
            let documents = measured(&topic, &others).unwrap();
            let calibration = Calibration {
                boundaries: propose(&documents),
                on_topic: fit(&topic, &others),
                anchor_threshold: rounded(documents.cut),
                ..Calibration::default()
            };
            prop_assert_eq!(calibration.validate(), Ok(()));
            let at = |cut: f64| {
                let up_to = |list: &[f64]| {
                    list.iter().filter(|pp| **pp <= cut).count() as f64 / list.len() as f64
                };
                up_to(&topic) - up_to(&others)
            };
            let best = topic.iter().chain(&others).map(|cut| at(*cut)).fold(-1.0, f64::max);
            prop_assert!((at(documents.cut) - best).abs() < 1e-9);
            prop_assert!((1.0 - documents.missed - documents.mistaken - best).abs() < 1e-9);
        }
    }
}
