//! The tokens of a document with their stems, lemmas, synonyms and parts of speech.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::document::Document;
use super::super::plan::{Grammar, Layer, Left};
use super::{DocumentStep, Trace, Value};
use crate::copies::Alike;
use crate::fs::IoError;
use crate::grammar::tagger::{self, Tagger};
use crate::grammar::{Lemmas, Stemmer, Stopwords, Token, tokens};
use crate::language::Language;
use crate::tool_error::ToolError;
use crate::topic::neutral::Words;

/// How many of the most frequent words of a language are its stopwords.
const STOPWORDS: usize = 100;

/// The step, prepared.
pub(super) struct Analysis {
    step: Grammar,
    lemmas: BTreeMap<String, Lemmas>,
    synonyms: Alike,
    stopwords: BTreeMap<String, Stopwords>,
    taggers: Taggers,
}

/// Taggers by language: the user's, else the built-in ones.
#[derive(Default)]
pub(crate) struct Taggers(BTreeMap<String, Arc<Tagger>>);

impl Taggers {
    /// Reads the user's taggers.
    pub(crate) fn load(files: &BTreeMap<String, PathBuf>) -> Result<Self, ToolError> {
        let load = |(language, path): (&String, &PathBuf)| {
            Ok::<_, ToolError>((language.clone(), Arc::new(Tagger::load(path)?)))
        };
        Ok(Self(files.iter().map(load).collect::<Result<_, _>>()?))
    }

    /// The tagger of a language.
    pub(crate) fn of(&self, language: &str) -> Option<Arc<Tagger>> {
        let own = self.0.get(language).cloned();
        own.or_else(|| Tagger::built_in(language))
    }

    /// Whether nouns of a language are known.
    pub(crate) fn know(&self, language: &str) -> bool {
        self.of(language).is_some()
    }

    /// The positions of the nouns of a sentence, if known.
    pub(crate) fn nouns(&self, language: &str, text: &str) -> Option<Vec<(u32, u32)>> {
        let tagger = self.of(language)?;
        Some(tagger::nouns(&tagger, &tokens(text)))
    }

    fn tags(&self, language: &str, tokens: &[Token<'_>]) -> Vec<String> {
        match self.of(language) {
            Some(tagger) => tagger::tags(&tagger, tokens),
            None => vec![tagger::UNKNOWN.to_owned(); tokens.len()],
        }
    }
}

fn lists<T>(
    files: &BTreeMap<String, PathBuf>,
    read: impl Fn(&Path) -> Result<T, ToolError>,
) -> Result<BTreeMap<String, T>, ToolError> {
    let all = files
        .iter()
        .map(|(language, path)| Ok::<_, ToolError>((language.clone(), read(path)?)));
    all.collect()
}

impl Analysis {
    pub(super) fn of(step: &Grammar) -> Result<Self, ToolError> {
        let mut synonyms = Alike::default();
        if let Some(path) = &step.synonyms {
            synonyms.add_synonyms(&synonyms_of(path)?);
        }
        let mut stopwords = lists(&step.stopwords, Stopwords::read)?;
        if step.remove.contains(&Left::Stopwords) {
            for language in Language::all() {
                if let Some(words) = Words::of(language) {
                    let words = words.counts().take(STOPWORDS).map(|(word, _)| word);
                    let own = stopwords.entry(language.code().to_owned());
                    own.or_insert_with(|| Stopwords::of(words));
                }
            }
        }
        Ok(Self {
            lemmas: lists(&step.lemmas, Lemmas::read)?,
            synonyms,
            stopwords,
            taggers: Taggers::load(&step.taggers)?,
            step: step.clone(),
        })
    }

    fn stays(&self, token: &Token<'_>, language: &str) -> bool {
        let goes = |left: &Left| match left {
            Left::Symbols => token.is_symbol(),
            Left::Numbers => token.is_number(),
            Left::Stopwords => {
                let words = self.stopwords.get(language);
                words.is_some_and(|words| words.has(token.text))
            }
        };
        !self.step.remove.iter().any(goes)
    }

    fn lemma(&self, word: &str, language: &str) -> String {
        let lemma = self.lemmas.get(language).and_then(|list| list.of(word));
        lemma.map_or_else(|| word.to_lowercase(), str::to_owned)
    }
}

/// A list of synonyms.
pub(in crate::pipeline) fn synonyms_of(path: &Path) -> Result<String, ToolError> {
    let list = crate::fs::read(path).map_err(IoError::at(path, "reading"))?;
    String::from_utf8(list).map_err(|_| {
        let why = "not a text in UTF-8; write words that mean the same in a line";
        ToolError::at(path, why)
    })
}

impl DocumentStep for Analysis {
    fn apply(&self, document: &mut Document, trace: &mut Trace) {
        let language = document.language.as_deref().unwrap_or_default();
        let all = tokens(&document.text);
        let has = |layer| self.step.columns.contains(&layer);
        let tags = if has(Layer::Tags) {
            self.taggers.tags(language, &all)
        } else {
            Vec::new()
        };
        let stays: Vec<bool> = all
            .iter()
            .map(|token| self.stays(token, language))
            .collect();
        let kept: Vec<&Token<'_>> = all
            .iter()
            .zip(&stays)
            .filter(|(_, stays)| **stays)
            .map(|(token, _)| token)
            .collect();
        let words = || kept.iter().map(|token| token.text);
        let stemmer = Stemmer::of(language);
        let stem = |word: &str| match stemmer {
            Some(stemmer) => stemmer.stem(word),
            None => word.to_lowercase(),
        };
        let synonym = |word: &str| {
            let lemma = self.lemma(word, language);
            self.synonyms
                .synonym(&lemma)
                .map_or(lemma.clone(), str::to_owned)
        };
        let stems = if has(Layer::Stems) {
            words().map(stem).collect()
        } else {
            Vec::new()
        };
        let lemmas = if has(Layer::Lemmas) {
            words().map(|word| self.lemma(word, language)).collect()
        } else {
            Vec::new()
        };
        let synonyms = if has(Layer::Synonyms) {
            words().map(synonym).collect()
        } else {
            Vec::new()
        };
        let left = tags.into_iter().zip(&stays).filter(|(_, stays)| **stays);
        let tags = left.map(|(tag, _)| tag).collect();
        let offsets = kept
            .iter()
            .flat_map(|token| [u64::from(token.from), u64::from(token.to)]);
        let offsets = offsets.collect();
        let tokens: Vec<String> = words().map(str::to_owned).collect();
        let count = Value::Number(tokens.len() as f64);
        trace.note("tokens", count, || "any number".to_owned(), true);
        document.token_offsets = offsets;
        document.tokens = tokens;
        (document.stems, document.lemmas) = (stems, lemmas);
        (document.synonyms, document.tags) = (synonyms, tags);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(step: &str, language: &str, text: &str) -> Document {
        let step: Grammar = toml::from_str(step).unwrap();
        let mut document = Document {
            text: text.to_owned(),
            language: Some(language.to_owned()),
            ..Document::default()
        };
        let analysis = Analysis::of(&step).unwrap();
        analysis.apply(&mut document, &mut Trace::default());
        document
    }

    #[test]
    fn columns_are_side_by_side_with_their_places() {
        let folder = tempfile::tempdir().unwrap();
        let list = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let lemmas = list("lemmas.tsv", "burned\tburn\nboats\tboat\n");
        let synonyms = list("synonyms.txt", "ship, boat vessel\n");
        let step = format!(
            "columns = [\"stems\", \"lemmas\", \"synonyms\", \"tags\"]\n\
             remove = [\"stopwords\", \"numbers\", \"symbols\"]\n\
             lemmas = {{ en = '{lemmas}' }}\nsynonyms = '{synonyms}'\n"
        );
        let text = "Ä: the 3 old boats burned.\n\nThey don't!";
        let document = applied(&step, "en", text);
        assert_eq!(document.tokens, ["Ä", "old", "boats", "burned"]);
        assert_eq!(document.token_offsets, [0, 1, 9, 12, 13, 18, 19, 25]);
        assert_eq!(document.stems, ["ä", "old", "boat", "burn"]);
        assert_eq!(document.lemmas, ["ä", "old", "boat", "burn"]);
        assert_eq!(document.synonyms, ["ä", "old", "ship", "burn"]);
        assert_eq!(document.tags[1..], ["ADJ", "NOUN", "VERB"]);
        // Nothing is left out, so everything remains.
        let whole = applied("columns = [\"tags\"]", "en", text);
        assert_eq!(whole.tokens.len(), 11);
        assert_eq!(whole.token_offsets.len(), 22);
        assert!(whole.stems.is_empty() && whole.tags.len() == 11);
    }

    #[test]
    fn other_languages_have_what_is_known_of_them() {
        let step = "columns = [\"stems\", \"tags\"]\nremove = [\"stopwords\", \"symbols\"]";
        let german = applied(step, "de", "Die alten Häuser in der Straße.");
        assert_eq!(german.stems, ["alt", "haus", "strass"]);
        assert_eq!(german.tags, ["X", "NOUN", "NOUN"]);
        let chinese = applied(step, "zh", "Lamps 灯.");
        assert_eq!(chinese.stems, ["lamps", "灯"]);
        assert_eq!(chinese.tags, ["X", "X"]);
    }
}
