//! The division of a corpus into training text and held-out text.

use std::collections::HashSet;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::corpus::Document;
use crate::topic::lm::Sentence;

/// The fewest documents that are held out whole. With fewer, the subject of a single one
/// would decide every boundary.
const MIN_WHOLE: usize = 5;

/// The sentences of a corpus, divided. No sentence is in both parts.
#[derive(Debug, Clone)]
pub(super) struct Split<'a> {
    /// The sentences that the model is estimated from.
    pub training: Vec<&'a Sentence>,
    /// The held-out sentences by document; no document is empty.
    pub held_out: Vec<Vec<&'a Sentence>>,
    /// Whether the held-out documents are whole.
    pub whole: bool,
}

impl<'a> Split<'a> {
    /// Holds out a share of the sentences, the same ones for the same seed, and leaves at
    /// least one to train on.
    ///
    /// Whole documents are held out if there are at least five for that, because a
    /// crawled page is rated without any of its sentences in the training text. With
    /// fewer documents, sentences are held out from each.
    pub fn of(documents: &'a [Document], share: f64, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        documents_held_out(documents, share, &mut rng.clone())
            .unwrap_or_else(|| sentences_held_out(documents, share, &mut rng))
    }

    /// The held-out sentences.
    pub fn held_out(&self) -> impl Iterator<Item = &'a Sentence> {
        self.held_out.iter().flatten().copied()
    }
}

/// Draws documents as long as they fit into the share. A sentence that is also in a
/// training document, such as a menu or a quotation, is not measured.
fn documents_held_out<'a>(
    documents: &'a [Document],
    share: f64,
    rng: &mut ChaCha8Rng,
) -> Option<Split<'a>> {
    let all: usize = documents.iter().map(|d| d.as_ref().len()).sum();
    let mut room = (all as f64 * share) as usize;
    let mut order: Vec<usize> = (0..documents.len()).collect();
    order.shuffle(rng);
    let drawn: HashSet<usize> = order
        .into_iter()
        .filter(|at| {
            let length = documents.get(*at).map_or(0, |d| d.as_ref().len());
            let fits = length > 0 && length <= room;
            room -= if fits { length } else { 0 };
            fits
        })
        .collect();
    let (held, trained): (Vec<_>, Vec<_>) = documents
        .iter()
        .enumerate()
        .partition(|(at, _)| drawn.contains(at));
    let training = trained.into_iter().flat_map(|(_, d)| d.as_ref());
    let training: Vec<&Sentence> = training.collect();
    let seen: HashSet<&str> = training.iter().map(|s| s.as_str()).collect();
    let unseen = |document: &'a Document| -> Vec<&'a Sentence> {
        let sentences = document.as_ref().iter();
        sentences.filter(|s| !seen.contains(s.as_str())).collect()
    };
    let mut held_out: Vec<Vec<&Sentence>> = held.into_iter().map(|(_, d)| unseen(d)).collect();
    held_out.retain(|sentences| !sentences.is_empty());
    (held_out.len() >= MIN_WHOLE).then_some(Split {
        training,
        held_out,
        whole: true,
    })
}

/// Draws sentences. Copies of a sentence stay together, because otherwise it would be
/// trained on and then measured.
fn sentences_held_out<'a>(
    documents: &'a [Document],
    share: f64,
    rng: &mut ChaCha8Rng,
) -> Split<'a> {
    let mut seen = HashSet::new();
    let mut distinct: Vec<&str> = documents
        .iter()
        .flat_map(AsRef::as_ref)
        .map(Sentence::as_str)
        .filter(|text| seen.insert(*text))
        .collect();
    distinct.shuffle(rng);
    // The share is at most 0.9, so the cut is within the list.
    distinct.truncate((distinct.len() as f64 * share) as usize);
    let drawn: HashSet<&str> = distinct.into_iter().collect();
    let mut training = Vec::new();
    let mut held_out = Vec::new();
    for document in documents {
        let (held, trained): (Vec<&Sentence>, Vec<&Sentence>) = document
            .as_ref()
            .iter()
            .partition(|s| drawn.contains(s.as_str()));
        training.extend(trained);
        if !held.is_empty() {
            held_out.push(held);
        }
    }
    Split {
        training,
        held_out,
        whole: false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn text<'a>(sentences: impl IntoIterator<Item = &'a Sentence>) -> Vec<&'a str> {
        sentences.into_iter().map(Sentence::as_str).collect()
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn no_sentence_is_trained_on_and_held_out(
            words in proptest::collection::vec(proptest::collection::vec(0..12_usize, 0..8), 1..30),
            share in 0.0..=0.9_f64,
            seed: u64,
        ) {
            let names = [
                "one", "two", "six", "ten", "red", "blue", "cat", "dog", "sun", "sea", "sky", "ice",
            ];
            let documents: Vec<Document> = words
                .iter()
                .map(|d| {
                    let sentence = |w: &usize| format!("{} words are written here today. ", names[*w]);
                    Document::of_blocks(&[d.iter().map(sentence).collect::<String>()])
                })
                .collect();
            let split = Split::of(&documents, share, seed);
            let (trained, held) = (text(split.training.iter().copied()), text(split.held_out()));
            prop_assert!(held.iter().all(|s| !trained.contains(s)));
            let all: usize = documents.iter().map(|d| d.as_ref().len()).sum();
            prop_assert!(all == 0 || !trained.is_empty());
            prop_assert!(split.held_out.iter().all(|d| !d.is_empty()));
            if split.whole {
                prop_assert!(split.held_out.len() >= MIN_WHOLE);
                prop_assert!(held.len() as f64 <= all as f64 * share);
            } else {
                prop_assert_eq!(trained.len() + held.len(), all, "copies count in both");
                let distinct: BTreeSet<&str> = held.iter().copied().collect();
                let whole: BTreeSet<&str> = trained.iter().chain(&held).copied().collect();
                prop_assert_eq!(distinct.len(), (whole.len() as f64 * share) as usize);
            }
            let again = Split::of(&documents, share, seed);
            prop_assert_eq!((text(again.training.iter().copied()), text(again.held_out())), (trained, held));
        }
    }

    #[test]
    fn documents_are_held_out_whole_where_there_are_enough() {
        let document = |n: usize| {
            let sentence =
                |m: usize| format!("The {} and these other words. ", letters(n * 10 + m));
            Document::of_blocks(&[(0..10).map(sentence).collect::<String>()])
        };
        let documents: Vec<Document> = (0..20).map(document).collect();
        let split = Split::of(&documents, 0.3, 1);
        assert!(split.whole);
        assert_eq!((split.held_out.len(), split.training.len()), (6, 140));
        assert!(split.held_out.iter().all(|d| d.len() == 10));
        let few = Split::of(&documents[..10], 0.3, 1);
        assert!(!few.whole);
        assert_eq!((few.held_out().count(), few.training.len()), (30, 70));
    }

    /// A word for a number; digits are no letters.
    fn letters(n: usize) -> String {
        let letter = |digit: char| char::from(b'a' + digit.to_digit(10).unwrap() as u8);
        format!("x{}", n.to_string().chars().map(letter).collect::<String>())
    }
}
