//! The lines that C4 keeps (Raffel et al. 2020, section 2.2, and the code in TensorFlow
//! Datasets): those that end like a sentence and have at least three words, no word of more
//! than 1,000 characters, no JavaScript, and no notice of cookies or terms.

use std::sync::OnceLock;

use regex::Regex;

use super::super::document::{TextEdit, paragraphs, range_in};

/// The fewest words of a line.
const WORDS: usize = 3;
/// The longest word, in characters.
const WORD: usize = 1_000;
/// Typical words of notices.
const NOTICES: [&str; 6] = [
    "terms of use",
    "privacy policy",
    "cookie policy",
    "uses cookies",
    "use of cookies",
    "use cookies",
];

/// The rest of a text.
#[derive(Debug, Default)]
pub(super) struct KeptLines {
    pub(super) edit: TextEdit,
    pub(super) removed: u32,
    /// Lines with dummy text, among those that are long enough and end like a sentence.
    pub(super) lorem: u32,
    /// Lines with a curly bracket among them.
    pub(super) curly: u32,
}

/// Filters the lines of a text. Paragraphs stay separate.
pub(super) fn lines(text: &str) -> KeptLines {
    let mut kept = KeptLines::default();
    for paragraph in paragraphs(text) {
        let mut is_first = true;
        for line in paragraph
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            let place = range_in(text, line);
            let Some(line) = kept.line(line) else {
                kept.removed = kept.removed.saturating_add(1);
                continue;
            };
            if !kept.edit.text.is_empty() {
                kept.edit.add(if is_first { "\n\n" } else { "\n" });
            }
            kept.edit.keep(place, &line);
            is_first = false;
        }
    }
    kept
}

impl KeptLines {
    /// The line without citations; `None` if it is removed.
    fn line(&mut self, line: &str) -> Option<String> {
        static CITATION: OnceLock<Option<Regex>> = OnceLock::new();
        let citation = CITATION
            .get_or_init(|| Regex::new(r"\[\d*\]|\[edit\]|\[citation needed\]").ok())
            .as_ref()?;
        let is_long = line
            .split_whitespace()
            .any(|word| word.chars().nth(WORD).is_some());
        let words = line.split_whitespace().count();
        let line = citation.replace_all(line, "");
        let ends = line.ends_with(['.', '?', '!', '"', '\'']) && !line.ends_with("...");
        if is_long || !ends || words < WORDS {
            return None;
        }
        let lower = line.to_lowercase();
        if lower.contains("lorem ipsum") {
            self.lorem = self.lorem.saturating_add(1);
        }
        if lower.contains("javascript") {
            return None;
        }
        if line.contains('{') {
            self.curly = self.curly.saturating_add(1);
        }
        if NOTICES.iter().any(|notice| lower.contains(notice)) {
            return None;
        }
        Some(line.into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_or_stay_as_published() {
        let text = "A lamp burns here.[12]\nHome\nAll the news...\nTwo words.\n\
                    Please enable JavaScript to see this.\nThis site uses cookies and more.\n\n\
                    Is it lit?\n\"It is not lit\"";
        let kept = lines(text);
        assert_eq!(
            kept.edit.text,
            "A lamp burns here.\n\nIs it lit?\n\"It is not lit\""
        );
        assert_eq!(kept.removed, 5);
        let long = format!("{} is a word.", "x".repeat(1_001));
        assert_eq!(lines(&long).removed, 1);
        let most = format!("{} is a word.", "x".repeat(1_000));
        assert_eq!(lines(&most).removed, 0);
    }
}
