//! A paragraph: its sentences, pronouns and nouns.

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use super::find::{Field, Text, Words};
use super::written::{CharPlace, is_boundary};
use super::{Gender, pronouns};
use crate::words::bounded_sentences;

/// A paragraph of a field.
pub(super) struct Paragraph<'p> {
    pub(super) field: Field,
    /// The whole field.
    pub(super) text: Text<'p>,
    pub(super) places: &'p [CharPlace],
    /// The first byte of each sentence in the field, and its number.
    pub(super) sentences: &'p [(usize, u32)],
    /// The end of the last sentence.
    pub(super) end: usize,
    pub(super) number: u32,
    /// The nouns of its sentences, computed when first needed.
    pub(super) nouns: RefCell<FxHashMap<usize, Option<Words>>>,
}

impl Paragraph<'_> {
    /// The pronoun that begins at a place: its last place and its gender.
    pub(super) fn pronoun(&self, from: usize) -> Option<(usize, Gender)> {
        let language = self.text.language?;
        let rest = self.places.get(from..)?;
        let letters = rest.iter().take_while(|place| place.c.is_alphabetic());
        let word: String = letters.take(pronouns::LONGEST + 1).map(|p| p.c).collect();
        let length = word.chars().count();
        let ends = is_boundary(word.chars().next_back(), rest.get(length).map(|p| p.c));
        let gender = pronouns::gender(&word, language).filter(|_| ends)?;
        Some((from + length - 1, gender))
    }

    /// The index in `sentences` of the sentence that contains a place.
    fn sentence_at(&self, place: &CharPlace) -> Option<usize> {
        let at = place.byte as usize;
        let behind = self.sentences.partition_point(|(begin, _)| *begin <= at);
        behind.checked_sub(1)
    }

    /// The number of the sentence that contains a place.
    pub(super) fn sentence(&self, place: &CharPlace) -> u32 {
        let sentence = self.sentence_at(place);
        let sentence = sentence.and_then(|at| self.sentences.get(at));
        sentence.map_or(0, |(_, number)| *number)
    }

    /// Whether a place is at the first word of its sentence.
    fn is_first(&self, from: usize, begin: usize) -> bool {
        let before = self.places.get(..from).unwrap_or_default().iter().rev();
        let mut before = before.take_while(|place| place.byte as usize >= begin);
        !before.any(|place| place.c.is_alphanumeric())
    }

    /// Whether a noun is there, if nouns are known. A capital letter within a sentence marks a
    /// name.
    pub(super) fn is_noun(&self, from: usize, last: usize) -> bool {
        let (Some(nouns), Some(first), Some(last)) = (
            self.text.nouns,
            self.places.get(from),
            self.places.get(last),
        ) else {
            return true;
        };
        let Some(at) = self.sentence_at(first) else {
            return true;
        };
        let begin = self.sentences.get(at).map_or(0, |(begin, _)| *begin);
        if first.c.is_uppercase() && !self.is_first(from, begin) {
            return true;
        }
        let end = self.sentences.get(at + 1).map_or(self.end, |(end, _)| *end);
        let sentence = self.text.text.get(begin..end).unwrap_or_default();
        let mut known = self.nouns.borrow_mut();
        let Some(nouns) = known.entry(at).or_insert_with(|| nouns(sentence)) else {
            return true;
        };
        let before = self.text.text.get(begin..first.byte as usize);
        let before = before.map_or(0, |before| before.chars().count()) as u32;
        let (from, last) = (before, before + last.at - first.at);
        let noun = nouns.partition_point(|(_, to)| *to <= from);
        nouns.get(noun).is_some_and(|(begin, _)| *begin <= last)
    }

    /// Whether a word is part of a longer name, as "Space" in "European Space Agency": next to it
    /// is a capitalised word that is not the first of the sentence.
    pub(super) fn is_in_longer_name(&self, from: usize, last: usize) -> bool {
        let c = |at: usize| self.places.get(at).map(|place| place.c);
        let within = self.places.get(from..=last).unwrap_or_default();
        if within.iter().any(|place| place.c == ' ') {
            return false;
        }
        let follows = c(last + 1) == Some(' ') && c(last + 2).is_some_and(char::is_uppercase);
        if follows {
            return true;
        }
        let Some(space) = from.checked_sub(1).filter(|at| c(*at) == Some(' ')) else {
            return false;
        };
        let before = self.places.get(..space).unwrap_or_default();
        let letters = before
            .iter()
            .rev()
            .take_while(|p| p.c.is_alphanumeric())
            .count();
        let Some(word) = before.get(before.len() - letters) else {
            return false;
        };
        let begin = self.sentence_at(word).and_then(|at| self.sentences.get(at));
        let is_first = begin.is_none_or(|(begin, _)| self.is_first(space - letters, *begin));
        word.c.is_uppercase() && !is_first
    }
}

/// A sentence of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passage {
    /// Its number, as mentions have it.
    pub sentence: u32,
    /// The number of its paragraph.
    pub paragraph: u32,
    /// Its first byte.
    pub from: usize,
    /// The byte after its last one.
    pub to: usize,
}

/// The sentences of a text.
pub fn passages(text: &str) -> Vec<Passage> {
    let mut all = Vec::new();
    let (mut begin, mut sentences, mut paragraphs) = (0, 0, 0);
    for part in text.split("\n\n") {
        if !part.trim().is_empty() {
            let bounds = bounds(part, begin, sentences);
            let ends = bounds.iter().skip(1).map(|(from, _)| *from);
            let ends = ends.chain([begin + part.len()]);
            all.extend(
                bounds
                    .iter()
                    .zip(ends)
                    .map(|((from, sentence), to)| Passage {
                        sentence: *sentence,
                        paragraph: paragraphs,
                        from: *from,
                        to,
                    }),
            );
            sentences = bounds.last().map_or(sentences, |(_, number)| number + 1);
            paragraphs += 1;
        }
        begin += part.len() + 2;
    }
    all
}

/// Where the sentences of a paragraph begin, in bytes of the field, with their numbers. Text
/// without a letter or digit belongs to the sentence before it.
pub(super) fn bounds(part: &str, begin: usize, first: u32) -> Vec<(usize, u32)> {
    let mut all: Vec<(usize, u32)> = Vec::new();
    let mut at = begin;
    for sentence in bounded_sentences(part) {
        if sentence.chars().any(char::is_alphanumeric) {
            let number = all.last().map_or(first, |(_, number)| number + 1);
            all.push((at, number));
        }
        at += sentence.len();
    }
    all
}
