//! Trains a tagger.

use std::path::Path;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rustc_hash::FxHashMap;

use super::model::{PART, TaggerModel};
use super::{BEGIN, Tagger, features, short};
use crate::grammar::conllu::Sentence;
use crate::grammar::conllu::no_sentence;
use crate::grammar::is_noun;
use crate::progress::Step;
use crate::tool_error::ToolError;

/// A word seen at least this often, and in at least this share of cases with the same tag,
/// always gets that tag.
const FIXED_COUNT: u32 = 20;
const FIXED_SHARE: f64 = 0.97;
/// Weights nearer to 0 are left out: they have little effect and take most of the space.
const LEAST: f64 = 0.1;
/// A fixed seed, so that all runs shuffle the same way.
const SEED: u64 = 7;

/// The accuracy of a tagger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Accuracy {
    /// Words.
    pub words: u64,
    /// Words with the right tag.
    pub right: u64,
    /// Nouns.
    pub nouns: u64,
    /// Words tagged as nouns.
    pub taken: u64,
    /// Nouns tagged as nouns.
    pub found: u64,
}

impl Accuracy {
    /// Measures a tagger on sentences that it was not trained on.
    pub fn of(tagger: &Tagger, sentences: &[Sentence]) -> Self {
        let mut sum = Self::default();
        for sentence in sentences {
            let words: Vec<&str> = sentence.iter().map(|(word, _)| word.as_str()).collect();
            for ((_, tag), found) in sentence.iter().zip(tagger.tag(&words)) {
                sum.words += 1;
                let found = short(found);
                sum.right += u64::from(tag == found);
                sum.nouns += u64::from(is_noun(tag));
                sum.taken += u64::from(is_noun(found));
                sum.found += u64::from(is_noun(tag) && is_noun(found));
            }
        }
        sum
    }
}

/// The weights of a feature: now, their sum over time, and when that was last brought up to
/// date.
#[derive(Debug, Clone, Default)]
struct Weight {
    now: f64,
    sum: f64,
    at: u64,
}

#[derive(Default)]
struct TaggerLearner {
    weights: FxHashMap<String, FxHashMap<u8, Weight>>,
    seen: u64,
}

impl TaggerLearner {
    fn scores(&self, features: &[String], tags: usize) -> usize {
        let mut scores = vec![0.0; tags];
        for of in features
            .iter()
            .filter_map(|feature| self.weights.get(feature))
        {
            for (tag, weight) in of {
                if let Some(score) = scores.get_mut(usize::from(*tag)) {
                    *score += weight.now;
                }
            }
        }
        let best = scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        best.map_or(0, |(tag, _)| tag)
    }

    fn learn(&mut self, features: &[String], right: u8, guess: u8) {
        for feature in features {
            let of = self.weights.entry(feature.clone()).or_default();
            for (tag, change) in [(right, 1.0), (guess, -1.0)] {
                let weight = of.entry(tag).or_default();
                weight.sum += (self.seen - weight.at) as f64 * weight.now;
                weight.at = self.seen;
                weight.now += change;
            }
        }
    }

    /// The averages.
    fn features(self) -> Vec<(String, Vec<(u8, i32)>)> {
        let seen = self.seen.max(1);
        let mut all = Vec::new();
        for (feature, of) in self.weights {
            let mean = |weight: &Weight| {
                (weight.sum + (seen - weight.at) as f64 * weight.now) / seen as f64
            };
            let means = of.iter().map(|(tag, weight)| (*tag, mean(weight)));
            let kept = means.filter(|(_, mean)| mean.abs() >= LEAST);
            let mut kept: Vec<(u8, i32)> = kept
                .map(|(tag, mean)| (tag, (mean * PART).round() as i32))
                .collect();
            kept.sort_unstable();
            if !kept.is_empty() {
                all.push((feature, kept));
            }
        }
        all.sort_unstable();
        all
    }
}

/// Trains a tagger on sentences, and writes it to a file. The same sentences give the same
/// bytes. Returns it with its size. Long endings help to identify the compound words of a
/// language such as German.
///
/// # Errors
///
/// [`ToolError`].
pub fn train(
    sentences: &[Sentence],
    rounds: u32,
    has_long_endings: bool,
    path: &Path,
) -> Result<(Tagger, u64), ToolError> {
    let mut tags: Vec<String> = sentences
        .iter()
        .flatten()
        .map(|(_, tag)| tag.clone())
        .collect();
    tags.sort_unstable();
    tags.dedup();
    if tags.len() > 250 {
        return Err(ToolError::new(
            "more than 250 tags; name the column with fewer: --column upos",
        ));
    }
    let number = |tag: &str| tags.binary_search_by(|t| t.as_str().cmp(tag)).unwrap_or(0) as u8;
    let fixed = fixed(sentences, number);
    let known: FxHashMap<&str, u8> = fixed.iter().map(|(w, t)| (w.as_str(), *t)).collect();
    let mut learner = TaggerLearner::default();
    let mut order: Vec<&Sentence> = sentences.iter().collect();
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let all = sentences.len() as u64 * u64::from(rounds);
    let mut step = Step::begin("sentences learned", Some(all));
    for _ in 0..rounds {
        order.shuffle(&mut random);
        for sentence in &order {
            let words: Vec<String> = sentence
                .iter()
                .map(|(word, _)| word.to_lowercase())
                .collect();
            let (mut last, mut before) = (BEGIN, BEGIN);
            for (at, (word, tag)) in sentence.iter().enumerate() {
                let lower = words.get(at).map(String::as_str).unwrap_or_default();
                let guess = known.get(lower).copied().unwrap_or_else(|| {
                    let mut of = Vec::with_capacity(21);
                    let tags_before = (last, before);
                    features(at, word, &words, tags_before, has_long_endings, |f| {
                        of.push(f.to_owned());
                    });
                    learner.seen += 1;
                    let guess = learner.scores(&of, tags.len()) as u8;
                    if guess != number(tag) {
                        learner.learn(&of, number(tag), guess);
                    }
                    guess
                });
                let guess = tags.get(usize::from(guess)).map_or(BEGIN, String::as_str);
                (before, last) = (last, guess);
            }
            step.advance(1);
        }
    }
    let model = TaggerModel {
        fixed,
        features: learner.features(),
        tags,
    };
    let size = model.write(path)?;
    let tagger = model.tagger();
    tagger.map(|t| (t, size)).ok_or_else(|| no_sentence(path))
}

/// Words that nearly always have one tag, in order.
fn fixed(sentences: &[Sentence], number: impl Fn(&str) -> u8) -> Vec<(String, u8)> {
    let mut counts: FxHashMap<String, FxHashMap<u8, u32>> = FxHashMap::default();
    for (word, tag) in sentences.iter().flatten() {
        let of = counts.entry(word.to_lowercase()).or_default();
        *of.entry(number(tag)).or_default() += 1;
    }
    let mut fixed = Vec::new();
    for (word, of) in counts {
        let all: u32 = of.values().sum();
        let best = of.into_iter().max_by_key(|(tag, count)| (*count, *tag));
        if let Some((tag, count)) = best
            && all >= FIXED_COUNT
            && f64::from(count) >= FIXED_SHARE * f64::from(all)
        {
            fixed.push((word, tag));
        }
    }
    fixed.sort_unstable();
    fixed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(text: &str) -> Sentence {
        let pairs = text.split(' ').filter_map(|pair| pair.split_once('/'));
        pairs.map(|(w, t)| (w.to_owned(), t.to_owned())).collect()
    }

    #[test]
    fn what_was_learned_is_known_and_the_bytes_are_the_same() {
        let texts = [
            "the/DET walk/NOUN ended/VERB",
            "they/PRON walk/VERB home/ADV",
            "a/DET lamp/NOUN burned/VERB",
            "we/PRON burn/VERB lamps/NOUN",
            "the/DET ship/NOUN turned/VERB",
            "you/PRON ship/VERB lamps/NOUN",
        ];
        let sentences: Vec<Sentence> = texts.iter().map(|text| sentence(text)).collect();
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| folder.path().join(name));
        for path in &paths {
            let (tagger, size) = train(&sentences, 30, path == &paths[1], path).unwrap();
            assert_eq!(size, path.metadata().unwrap().len());
            assert_eq!(Tagger::load(path).unwrap(), tagger);
            // The previous word distinguishes noun from verb, even for an unknown word.
            assert_eq!(tagger.tag(&["the", "walk"]), ["DET", "NOUN"]);
            assert_eq!(
                tagger.tag(&["they", "walk", "home"]),
                ["PRON", "VERB", "ADV"]
            );
            let accuracy = Accuracy::of(&tagger, &sentences);
            assert_eq!((accuracy.words, accuracy.right), (18, 18));
            assert_eq!((accuracy.nouns, accuracy.taken, accuracy.found), (5, 5, 5));
        }
        let [a, b] = paths.map(|path| std::fs::read(path).unwrap());
        assert_ne!(a, b);
        let again = folder.path().join("c");
        train(&sentences, 30, false, &again).unwrap();
        assert_eq!(a, std::fs::read(again).unwrap());
        let path = Path::new("a tagger");
        for at in 0..20 {
            assert!(Tagger::of_bytes(&a[..at], path).is_err());
        }
        let said = Tagger::of_bytes(b"text", path).unwrap_err().to_string();
        assert!(said.contains("spoor tagger train"), "{said}");
    }
}
