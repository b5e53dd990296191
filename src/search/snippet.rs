//! The context of a hit: the passage of its text with the most searched words.

use std::collections::BTreeMap;

use serde::Serialize;
use tantivy::schema::Field;
use tantivy::snippet::SnippetGenerator;

use super::query::WantedWord;
use super::words;

/// The length of a passage, in bytes.
const WIDTH: usize = 240;

/// A passage of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Snippet {
    /// Its parts, one after another.
    pub parts: Vec<SnippetPart>,
}

/// A part of a passage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SnippetPart {
    /// The text, in one line.
    pub text: String,
    /// Whether it is a searched word.
    #[serde(rename = "match", skip_serializing_if = "std::ops::Not::not")]
    pub is_match: bool,
}

impl Snippet {
    /// The passage of `text` with most of the words.
    pub(super) fn of(text: &str, wanted: &[WantedWord]) -> Self {
        Self::within(text, wanted, WIDTH)
    }

    /// All of a text, such as a title, with the words marked.
    pub(super) fn whole(text: &str, wanted: &[WantedWord]) -> Self {
        Self::within(text, wanted, usize::MAX)
    }

    fn within(text: &str, wanted: &[WantedWord], width: usize) -> Self {
        let met = met(text, wanted);
        // The field is for documents of the index, and this is text.
        let field = Field::from_field_id(0);
        let found = SnippetGenerator::new(met, words::analyzer(), field, width).snippet(text);
        let (from, to) = if found.is_empty() {
            (0, begin(text, width))
        } else {
            let range = found.fragment_range();
            let rest = text.get(range.end..).unwrap_or_default();
            // It ends with a word, including the word's punctuation.
            let signs = rest.find(|c: char| c.is_alphanumeric() || c.is_whitespace());
            (range.start, range.end + signs.unwrap_or(rest.len()))
        };
        let rest = text.get(to..).unwrap_or_default();
        let (to, has_more) = if rest.contains(char::is_alphanumeric) {
            (to, true)
        } else {
            (text.len(), false)
        };
        let mut snippet = Self::default();
        if from > 0 {
            snippet.add("\u{2026} ", false);
        }
        let mut at = from;
        for word in found.highlighted() {
            snippet.add(text.get(at..from + word.start).unwrap_or_default(), false);
            at = from + word.end;
            snippet.add(text.get(from + word.start..at).unwrap_or_default(), true);
        }
        snippet.add(text.get(at..to).unwrap_or_default(), false);
        if has_more {
            snippet.add(" \u{2026}", false);
        }
        snippet
    }

    /// The text of all parts.
    pub fn text(&self) -> String {
        self.parts.iter().map(|part| part.text.as_str()).collect()
    }

    /// Adds text in one line.
    fn add(&mut self, text: &str, is_match: bool) {
        let mut line = String::with_capacity(text.len());
        let mut is_space = self
            .parts
            .last()
            .is_some_and(|part| part.text.ends_with(' '));
        for c in text.chars() {
            let space = c.is_whitespace();
            if !(space && is_space) {
                line.push(if space { ' ' } else { c });
            }
            is_space = space;
        }
        if line.is_empty() {
            return;
        }
        match self.parts.last_mut() {
            Some(last) if last.is_match == is_match => last.text.push_str(&line),
            _ => self.parts.push(SnippetPart {
                text: line,
                is_match,
            }),
        }
    }
}

/// The searched words in a text; rarer ones count more.
fn met(text: &str, wanted: &[WantedWord]) -> BTreeMap<String, f32> {
    let mut met = BTreeMap::new();
    if wanted.is_empty() {
        return met;
    }
    for word in words::of(text) {
        if wanted.iter().any(|wanted| wanted.is(&word)) {
            *met.entry(word).or_insert(0.0) += 1.0;
        }
    }
    met.values_mut().for_each(|count| *count = 1.0 / *count);
    met
}

/// The end of a beginning of a text that fits a width: after a word.
fn begin(text: &str, width: usize) -> usize {
    if text.len() <= width {
        return text.len();
    }
    let near = text
        .get(..text.floor_char_boundary(width))
        .unwrap_or_default();
    near.rfind(char::is_whitespace).unwrap_or(near.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(words: &[&str]) -> Vec<WantedWord> {
        let wanted = |word: &&str| WantedWord {
            word: word.trim_end_matches('*').to_owned(),
            is_prefix: word.ends_with('*'),
        };
        words.iter().map(wanted).collect()
    }

    fn shown(snippet: &Snippet) -> String {
        let marked = |part: &SnippetPart| {
            if part.is_match {
                format!("[{}]", part.text)
            } else {
                part.text.clone()
            }
        };
        snippet.parts.iter().map(marked).collect()
    }

    #[test]
    fn the_passage_with_most_of_the_words_is_shown() {
        let filler = "Nothing of note happens here at all. ".repeat(20);
        let text = format!("A lamp.\n\n{filler}\n\nThe café’s lens and\tthe lamp,\nlit. {filler}");
        let passage = Snippet::of(&text, &wanted(&["lamp", "lens", "caf*"]));
        let passage = shown(&passage);
        assert!(passage.starts_with("\u{2026} "), "{passage}");
        assert!(
            passage.contains(" The [café]’s [lens] and the [lamp], lit. Nothing"),
            "{passage}"
        );
        assert!(
            passage.ends_with(" \u{2026}") && passage.chars().count() < WIDTH + 20,
            "{passage}"
        );
        // Nothing to mark: the beginning.
        let passage = shown(&Snippet::of(&text, &wanted(&["zebra"])));
        assert!(passage.starts_with("A lamp. Nothing"), "{passage}");
        assert_eq!(
            shown(&Snippet::of("One lamp", &wanted(&["lamp"]))),
            "One [lamp]"
        );
        assert_eq!(shown(&Snippet::of("", &wanted(&["lamp"]))), "");
        assert_eq!(
            shown(&Snippet::whole("A\nLAMP here", &wanted(&["lamp"]))),
            "A [LAMP] here"
        );
    }

    proptest::proptest! {
        #![proptest_config(spoor_testing::usual!())]
        #[test]
        fn a_passage_is_a_part_of_the_text(text in "([ab\u{e9}\u{6771}]{1,9}[ \n\u{2003}.]){0,120}") {
            let words = wanted(&["a*", "ab", "e"]);
            let passage = Snippet::of(&text, &words).text();
            let folded = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            let inner = passage.trim_start_matches("\u{2026} ").trim_end_matches(" \u{2026}");
            proptest::prop_assert!(folded(&text).contains(&folded(inner)), "{:?} {:?}", text, passage);
        }
    }
}
