//! Parts of speech by an averaged perceptron (Collins 2002) over the features that Honnibal
//! published for TextBlob: the word, its ending, its neighbours, and the tags before it.
//!
//! `model` is the file, `train` makes one. Two are built in: for English, and for German, which
//! `german` combines with the spelling.

mod german;
mod model;
mod train;

use std::path::Path;
use std::sync::{Arc, LazyLock};

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64;

use super::is_noun;
use super::tokens::Token;
use crate::tool_error::ToolError;
pub use train::{Accuracy, train};

/// Placeholders before and after a sentence.
const BEGIN: &str = "<s>";
const END: &str = "</s>";

/// The tag of punctuation and symbols, which taggers do not see.
pub const SIGN: &str = "PUNCT";
/// The tag of words about which nothing is known.
pub const UNKNOWN: &str = "X";

/// The models: see models/README.md.
const ENGLISH: &[u8] = include_bytes!("../../../../models/tagger/en.tagger");
const GERMAN: &[u8] = include_bytes!("../../../../models/tagger/de.tagger");

type BuiltIn = LazyLock<Option<Arc<Tagger>>>;

static BUILT_IN_ENGLISH: BuiltIn = LazyLock::new(|| {
    let tagger = Tagger::of_bytes(ENGLISH, Path::new("built in"));
    tagger.ok().map(Arc::new)
});

static BUILT_IN_GERMAN: BuiltIn = LazyLock::new(|| {
    let tagger = Tagger::of_bytes(GERMAN, Path::new("built in")).ok()?;
    Some(Arc::new(Tagger {
        is_german: true,
        ..tagger
    }))
});

/// Assigns the parts of speech of a language.
#[derive(Debug, Clone, PartialEq)]
pub struct Tagger {
    tags: Vec<String>,
    /// Words that nearly always have one tag.
    fixed: FxHashMap<String, u8>,
    /// The range of the weights of each feature, by the feature's hash.
    features: FxHashMap<u64, (u32, u32)>,
    weights: Vec<(u8, i32)>,
    /// Whether endings of four to six letters are features.
    has_long_endings: bool,
    /// Whether it was trained without capitals, and German spelling is considered as well.
    is_german: bool,
}

/// The features of a word in its sentence. `words` are in lower case.
fn features(
    at: usize,
    word: &str,
    words: &[String],
    (last, before): (&str, &str),
    has_long_endings: bool,
    mut each: impl FnMut(&str),
) {
    let near = |offset: isize| {
        let number = at.checked_add_signed(offset);
        let border = if offset < 0 { BEGIN } else { END };
        number
            .and_then(|n| words.get(n))
            .map_or(border, String::as_str)
    };
    let lower = near(0);
    let ending = |letters: usize| {
        let starts = lower.char_indices().rev().map(|(at, _)| at);
        let from = starts.take(letters).last().unwrap_or(0);
        lower.get(from..).unwrap_or_default()
    };
    let shape = match word.chars().next() {
        Some(c) if c.is_uppercase() => "X",
        _ => "x",
    };
    let digits = if word.chars().any(|c| c.is_numeric()) {
        "d"
    } else {
        ""
    };
    let first = lower.chars().next().map_or_else(String::new, String::from);
    each("bias");
    for (name, value) in [
        ("suf3", ending(3)),
        ("suf2", ending(2)),
        ("suf1", ending(1)),
        ("pre1", first.as_str()),
        ("w", lower),
        ("t-1", last),
        ("t-2", before),
        ("w-1", near(-1)),
        ("w-2", near(-2)),
        ("w+1", near(1)),
        ("w+2", near(2)),
    ] {
        each(&format!("{name} {value}"));
    }
    if has_long_endings {
        for letters in 4..=6 {
            each(&format!("suf{letters} {}", ending(letters)));
        }
    }
    each(&format!("shape {shape}{digits}"));
    each(&format!("t-1t-2 {last} {before}"));
    each(&format!("t-1 w {last} {lower}"));
    let suffix = near(-1)
        .char_indices()
        .rev()
        .map(|(at, _)| at)
        .take(3)
        .last();
    each(&format!(
        "w-1suf3 {}",
        near(-1).get(suffix.unwrap_or(0)..).unwrap_or_default()
    ));
}

impl Tagger {
    /// The built-in tagger of a language, if there is one.
    pub fn built_in(language: &str) -> Option<Arc<Self>> {
        match language {
            "en" => BUILT_IN_ENGLISH.clone(),
            "de" => BUILT_IN_GERMAN.clone(),
            _ => None,
        }
    }

    /// Its tags, which are numbered in this order.
    pub fn tags(&self) -> &[String] {
        &self.tags
    }

    /// The tags of the words of a sentence, given without punctuation and symbols.
    pub fn tag(&self, sentence: &[&str]) -> Vec<&str> {
        let words: Vec<String> = sentence.iter().map(|word| word.to_lowercase()).collect();
        if self.is_german {
            let lower: Vec<&str> = words.iter().map(String::as_str).collect();
            let tags = self.tags_of(&lower, &words);
            return german::spelled(sentence, tags, |word| self.is_no_noun(word));
        }
        self.tags_of(sentence, &words)
    }

    /// Whether a word is nearly always something other than a noun.
    fn is_no_noun(&self, word: &str) -> bool {
        let tag = self.fixed.get(&word.to_lowercase());
        let tag = tag.and_then(|tag| self.tags.get(usize::from(*tag)));
        tag.is_some_and(|tag| !is_noun(tag))
    }

    /// Tags by the model alone. `words` are those of the sentence in lower case.
    fn tags_of(&self, sentence: &[&str], words: &[String]) -> Vec<&str> {
        let (mut last, mut before) = (BEGIN, BEGIN);
        let mut found = Vec::with_capacity(words.len());
        let mut scores = vec![0_i64; self.tags.len()];
        for (at, word) in sentence.iter().enumerate() {
            let lower = words.get(at).map(String::as_str).unwrap_or_default();
            let tag = match self.fixed.get(lower) {
                Some(tag) => usize::from(*tag),
                None => {
                    scores.fill(0);
                    let long = self.has_long_endings;
                    features(at, word, words, (last, before), long, |feature| {
                        for (tag, weight) in self.weights_of(feature) {
                            if let Some(score) = scores.get_mut(usize::from(*tag)) {
                                *score += i64::from(*weight);
                            }
                        }
                    });
                    // Ties go to the last.
                    let best = scores.iter().enumerate().max_by_key(|(_, score)| **score);
                    best.map_or(0, |(tag, _)| tag)
                }
            };
            let tag = self.tags.get(tag).map_or(UNKNOWN, String::as_str);
            (before, last) = (last, tag);
            found.push(tag);
        }
        found
    }

    fn weights_of(&self, feature: &str) -> &[(u8, i32)] {
        let range = self.features.get(&xxh3_64(feature.as_bytes()));
        let range = range.map_or(0..0, |(from, to)| *from as usize..*to as usize);
        self.weights.get(range).unwrap_or_default()
    }

    /// Reads a model.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the file.
    pub fn load(path: &Path) -> Result<Self, ToolError> {
        let bytes = crate::fs::read(path).map_err(crate::fs::IoError::at(path, "reading"))?;
        Self::of_bytes(&bytes, path)
    }
}

/// The tags of tokens by the tagger of their language. It does not see the `'s` of a genitive.
pub fn tags(tagger: &Tagger, tokens: &[Token<'_>]) -> Vec<String> {
    let mut all = Vec::with_capacity(tokens.len());
    for sentence in sentences(tokens) {
        let words = sentence.iter().filter(|token| !token.is_symbol());
        let words: Vec<&str> = words.map(|token| without_genitive(token.text)).collect();
        let mut tags = tagger.tag(&words).into_iter();
        all.extend(sentence.iter().map(|token| {
            let tag = if token.is_symbol() { None } else { tags.next() };
            short(tag.unwrap_or(SIGN)).to_owned()
        }));
    }
    all
}

/// A tag without the features after its part of speech, as in `VERB|Fin`.
pub(super) fn short(tag: &str) -> &str {
    tag.split('|').next().unwrap_or(tag)
}

fn sentences<'a, 't>(tokens: &'a [Token<'t>]) -> impl Iterator<Item = &'a [Token<'t>]> {
    tokens.chunk_by(|_, next| !next.begins)
}

fn without_genitive(word: &str) -> &str {
    let bare = word
        .strip_suffix("'s")
        .or_else(|| word.strip_suffix("\u{2019}s"));
    bare.filter(|bare| !bare.is_empty()).unwrap_or(word)
}

/// The positions of the nouns of a text: start and end in characters. The first word of a
/// German sentence may be a name that the tagger does not know, so it counts as a noun unless
/// it is known not to be one; numbers are part of names there.
pub fn nouns(tagger: &Tagger, tokens: &[Token<'_>]) -> Vec<(u32, u32)> {
    let mut first = true;
    let nouns = tokens
        .iter()
        .zip(tags(tagger, tokens))
        .filter(|(token, tag)| {
            first |= token.begins;
            let may_be = first && tag == UNKNOWN && !tagger.is_no_noun(token.text);
            first &= !token.is_word();
            is_noun(tag) || (tagger.is_german && (may_be || tag == "NUM"))
        });
    nouns.map(|(token, _)| (token.from, token.to)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tokens;
    use super::*;

    fn english(text: &str) -> Vec<String> {
        let tagger = Tagger::built_in("en").unwrap();
        let tokens = tokens(text);
        let tags = tags(&tagger, &tokens);
        tokens
            .iter()
            .zip(tags)
            .map(|(token, tag)| format!("{}/{tag}", token.text))
            .collect()
    }

    /// The tags that the study of the semantic search engine prints for a sentence on Apollo 1,
    /// as universal tags. The sentence follows their pattern, because its words are not known.
    #[test]
    fn a_sentence_has_the_tags_of_the_study() {
        let printed =
            "JJ NNS IN DT NN VBD NNP NNP , DT JJ NN VBD IN DT NNP CD NN CC DT JJ NN NN IN DT NNP";
        let text = "Early reports about the fire named Gus Grissom, the whole crew died in the \
            Apollo 1 capsule and the new launch pad at the Cape";
        let universal = printed.split(' ').map(|tag| match tag {
            "JJ" => "ADJ",
            "NN" | "NNS" => "NOUN",
            "NNP" => "PROPN",
            "IN" => "ADP",
            "DT" => "DET",
            "VBD" => "VERB",
            "CD" => "NUM",
            "CC" => "CCONJ",
            _ => SIGN,
        });
        let universal: Vec<&str> = universal.collect();
        let found = english(text);
        let tags: Vec<&str> = found
            .iter()
            .map(|t| t.rsplit('/').next().unwrap())
            .collect();
        let (last, rest) = tags.split_last().unwrap();
        assert_eq!(rest, &universal[..25], "{found:?}");
        // It takes "Cape" alone for a common noun.
        assert_eq!(*last, "NOUN");
        let nouns = |tags: &[&str]| tags.iter().map(|tag| is_noun(tag)).collect::<Vec<_>>();
        assert_eq!(nouns(&tags), nouns(&universal));
    }

    #[test]
    fn signs_and_genitives_are_no_riddles() {
        let found = english("London's \"old\" bridge burned!");
        let expected = [
            "London's/PROPN",
            "\"/PUNCT",
            "old/ADJ",
            "\"/PUNCT",
            "bridge/NOUN",
            "burned/VERB",
            "!/PUNCT",
        ];
        assert_eq!(found, expected);
        assert!(english("").is_empty());
        assert!(Tagger::built_in("sv").is_none());
    }
}
