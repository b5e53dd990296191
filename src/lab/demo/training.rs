//! The training texts: prose as a user would collect it from reference works.
//!
//! Each subject has its own file under `training/`, to which the training share of its bank is
//! added. The second topic has none, because a user interested in lighthouses would not think of
//! bees. No sentence occurs twice in the texts, ignoring numbers, because repeated sentences
//! distort a model.

use std::collections::HashSet;

use super::Training;
use super::bank::{BankShare, Dice, Slots, Subject};

/// Sentences in one file.
const FILE: usize = 50;

/// How often a pattern with a slot for a place or a person is filled at most. Few times on the
/// topic, because held-out text should not have a known pattern; the neutral texts only serve for
/// counting words.
const FILLINGS: usize = 2;
const NEUTRAL_FILLINGS: usize = 7;

/// Texts about other subjects: the file's name, its own text, and the bank that is added.
const NEUTRAL: &[(&str, &str, Subject)] = &[
    (
        "general",
        include_str!("training/general.txt"),
        Subject::Plain,
    ),
    (
        "cooking",
        include_str!("training/cooking.txt"),
        Subject::Cooking,
    ),
    (
        "football",
        include_str!("training/football.txt"),
        Subject::Football,
    ),
    (
        "gardening",
        include_str!("training/gardening.txt"),
        Subject::Gardening,
    ),
    (
        "software",
        include_str!("training/software.txt"),
        Subject::Software,
    ),
    (
        "council",
        include_str!("training/council.txt"),
        Subject::Council,
    ),
    ("tax", include_str!("training/tax.txt"), Subject::Tax),
];

/// All training texts.
pub(super) fn texts() -> Training {
    let positive = include_str!("training/lighthouses.txt");
    Training {
        positive: files("lighthouses", positive, Subject::Lighthouses, FILLINGS),
        neutral: NEUTRAL
            .iter()
            .flat_map(|(name, own, subject)| files(name, own, *subject, NEUTRAL_FILLINGS))
            .collect(),
    }
}

/// The sentences of one subject, shuffled and divided into files.
fn files(
    name: &str,
    own: &'static str,
    subject: Subject,
    fillings: usize,
) -> Vec<(String, String)> {
    let mut dice = Dice::new(&format!("training {name}"));
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    let patterns = own.lines().chain(subject.sentences(BankShare::Training));
    for pattern in patterns {
        for _ in 0..fillings {
            let sentence = Slots::draw(&mut dice, BankShare::Training).fill(pattern);
            if seen.insert(without_digits(&sentence)) {
                all.push(sentence);
            }
        }
    }
    let order: Vec<usize> = (0..all.len()).collect();
    let order = dice.some(&order, all.len());
    let mixed: Vec<&str> = order
        .iter()
        .filter_map(|i| all.get(*i).map(String::as_str))
        .collect();
    mixed
        .chunks(FILE)
        .enumerate()
        .map(|(n, part)| (format!("{name}-{:02}.txt", n + 1), part.join("\n") + "\n"))
        .collect()
}

/// A sentence as a model sees it, without digits.
pub(super) fn without_digits(sentence: &str) -> String {
    sentence.chars().filter(|c| !c.is_ascii_digit()).collect()
}
