//! The steps `grammar` and `entities`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

/// `kind = "grammar"`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Grammar {
    /// What is added.
    pub columns: Vec<Layer>,
    /// The tokens that are left out.
    pub remove: Vec<Left>,
    /// Lists of words and their lemmas, by language.
    pub lemmas: BTreeMap<String, PathBuf>,
    /// A list of synonyms.
    pub synonyms: Option<PathBuf>,
    /// Lists of stopwords, by language; other languages use their most frequent words.
    pub stopwords: BTreeMap<String, PathBuf>,
    /// Taggers, by language; those of English and German are built in.
    pub taggers: BTreeMap<String, PathBuf>,
}

impl Default for Grammar {
    fn default() -> Self {
        Self {
            columns: vec![Layer::Stems],
            remove: Vec::new(),
            lemmas: BTreeMap::new(),
            synonyms: None,
            stopwords: BTreeMap::new(),
            taggers: BTreeMap::new(),
        }
    }
}

impl Grammar {
    /// The files that it names.
    pub fn files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let lists = self.lemmas.values_mut().chain(self.stopwords.values_mut());
        lists
            .chain(self.taggers.values_mut())
            .chain(&mut self.synonyms)
    }

    /// What is wrong with it.
    pub(super) fn check(&self) -> Result<(), String> {
        let has = |layer| self.columns.contains(&layer);
        if self.columns.is_empty() {
            return Err("`columns` is empty; name stems, lemmas, synonyms or tags".to_owned());
        }
        if has(Layer::Lemmas) == self.lemmas.is_empty() {
            return Err(
                "the column `lemmas` needs lists, as lemmas = { en = \"lemmas.tsv\" }, \
                and lists need the column"
                    .to_owned(),
            );
        }
        if has(Layer::Synonyms) != self.synonyms.is_some() {
            return Err(
                "the column `synonyms` needs a list, as synonyms = \"synonyms.txt\", and \
                a list needs the column"
                    .to_owned(),
            );
        }
        if !self.stopwords.is_empty() && !self.remove.contains(&Left::Stopwords) {
            return Err("`stopwords` are given, but `remove` does not name them".to_owned());
        }
        if !self.taggers.is_empty() && !has(Layer::Tags) {
            return Err("`taggers` are given, but `columns` does not name tags".to_owned());
        }
        Ok(())
    }
}

/// A column of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// Snowball stems.
    Stems,
    /// Lemmas from the user's lists.
    Lemmas,
    /// The word that represents its synonyms.
    Synonyms,
    /// Parts of speech.
    Tags,
}

impl Layer {
    /// Its name, which is that of its column.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stems => "stems",
            Self::Lemmas => "lemmas",
            Self::Synonyms => "synonyms",
            Self::Tags => "tags",
        }
    }
}

/// Tokens that are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Left {
    /// Stopwords.
    Stopwords,
    /// Numbers.
    Numbers,
    /// Tokens with neither letter nor digit.
    Symbols,
}

/// `kind = "entities"`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Entities {
    /// A list of entities, or an index of them.
    pub list: PathBuf,
    /// Whether pronouns mean the last person.
    pub pronouns: bool,
    /// Whether only nouns match, in languages with a tagger.
    pub nouns: bool,
    /// Whether single words that are part of a longer name are left out.
    pub whole_names: bool,
    /// Taggers, by language; those of English and German are built in.
    pub taggers: BTreeMap<String, PathBuf>,
    /// The fewest mentions of a document that stays.
    pub least: u32,
}

impl Default for Entities {
    fn default() -> Self {
        Self {
            list: PathBuf::new(),
            pronouns: true,
            nouns: true,
            whole_names: false,
            taggers: BTreeMap::new(),
            least: 0,
        }
    }
}

impl Entities {
    /// The files that it names.
    pub fn files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        std::iter::once(&mut self.list).chain(self.taggers.values_mut())
    }

    /// What is wrong with it.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.list.as_os_str().is_empty() {
            return Err("`list` is missing; give a list of entities, or an index".to_owned());
        }
        Ok(())
    }
}
