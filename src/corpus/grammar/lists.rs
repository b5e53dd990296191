//! Lists of words: lemmas that the user gives, and stopwords.

use std::path::Path;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::fs::IoError;
use crate::tool_error::ToolError;

/// Words with their lemmas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lemmas(FxHashMap<String, String>);

/// What is wrong in a line of a list or of a parse.
pub(super) fn in_line(path: &Path, line: usize, why: &str) -> ToolError {
    ToolError::new(format_args!("{}, line {line}: {why}", path.display()))
}

fn read(path: &Path) -> Result<String, ToolError> {
    let bytes = crate::fs::read(path).map_err(IoError::at(path, "reading"))?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.as_bytes().get(..error.utf8_error().valid_up_to());
        let lines = valid.unwrap_or_default().split(|byte| *byte == b'\n');
        in_line(
            path,
            lines.count(),
            "is not text in UTF-8; convert the file",
        )
    })
}

impl Lemmas {
    /// Reads a list: a word and its lemma in each line, separated by a tab.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the file and the line.
    pub fn read(path: &Path) -> Result<Self, ToolError> {
        let mut lemmas = FxHashMap::default();
        for (line, text) in (1..).zip(read(path)?.lines()) {
            if text.trim().is_empty() {
                continue;
            }
            let pair = text.split_once('\t').map(|(w, l)| (w.trim(), l.trim()));
            let Some((word, lemma)) = pair.filter(|(w, l)| !w.is_empty() && !l.is_empty()) else {
                let why = "write a word, a tab and its lemma";
                return Err(in_line(path, line, why));
            };
            // The first lemma of a word wins.
            lemmas
                .entry(word.to_owned())
                .or_insert_with(|| lemma.to_owned());
        }
        Ok(Self(lemmas))
    }

    /// The lemma of a word as written, else of the word in lower case.
    pub fn of(&self, word: &str) -> Option<&str> {
        let found = self.0.get(word);
        let found = found.or_else(|| self.0.get(&word.to_lowercase()));
        found.map(String::as_str)
    }
}

/// Words that are left out, in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stopwords(FxHashSet<String>);

impl Stopwords {
    /// Reads a list with one word per line.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the file.
    pub fn read(path: &Path) -> Result<Self, ToolError> {
        Ok(Self::of(read(path)?.lines().map(str::trim)))
    }

    /// These words.
    pub fn of<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let words = words.filter(|word| !word.is_empty());
        Self(words.map(str::to_lowercase).collect())
    }

    /// Whether a word is in the list. Of a word with an apostrophe, such as "don't", all parts must
    /// be.
    pub fn has(&self, word: &str) -> bool {
        let lower = word.to_lowercase();
        let is_one = |part: &str| self.0.contains(part);
        is_one(&lower)
            || lower.contains(['\'', '\u{2019}']) && {
                let mut parts = lower.split(['\'', '\u{2019}']);
                parts.all(|part| part.is_empty() || is_one(part))
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        std::fs::write(&path, "went\tgo\nWent\tWent\n\nwent\tx\n").unwrap();
        let lemmas = Lemmas::read(&path).unwrap();
        assert_eq!(lemmas.of("WENT"), Some("go"));
        assert_eq!(lemmas.of("Went"), Some("Went"));
        assert_eq!(lemmas.of("gone"), None);
        std::fs::write(&path, "a\tb\nc").unwrap();
        let said = Lemmas::read(&path).unwrap_err().to_string();
        assert!(said.contains("line 2: write a word"), "{said}");
        std::fs::write(&path, b"a\tb\nc\t\xff").unwrap();
        let said = Lemmas::read(&path).unwrap_err().to_string();
        assert!(said.contains("line 2: is not text"), "{said}");
        std::fs::write(&path, "The\ndon\n t \n\n").unwrap();
        let words = Stopwords::read(&path).unwrap();
        assert!(words.has("the") && words.has("Don\u{2019}t") && !words.has("lamp"));
        assert!(!words.has("lamp's") && !words.has(""));
    }
}
