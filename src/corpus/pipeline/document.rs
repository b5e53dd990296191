//! A document of a corpus, and its text.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use unicode_segmentation::UnicodeSegmentation;
use xxhash_rust::xxh3::xxh3_128;

use crate::page::{Span, Terms, TextBlock, block_lists, blocks_of_lists};
use crate::words;

/// A document. Every line of JSON has all keys in this order, so that readers that infer the
/// columns from the first lines find them all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Document {
    /// The same for the same address with the same text in every corpus.
    pub id: String,
    /// Its address; for a file `file:` and the path in its folder.
    pub url: String,
    /// Its day or time: when it was published, else when it was fetched.
    pub date: Option<String>,
    /// When it was fetched.
    pub fetched: Option<String>,
    /// When it was published, as the page states.
    pub published: Option<String>,
    /// When it was changed, as the page states.
    pub modified: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// Its authors, as the page states.
    pub authors: Vec<String>,
    /// The text; an empty line separates two paragraphs.
    pub text: String,
    /// What each part of the text is.
    pub block_kinds: Vec<String>,
    /// Where these are in the text, two numbers each: start and end, in characters.
    pub block_offsets: Vec<u64>,
    /// The addresses of the images in the text, in its order.
    pub image_urls: Vec<String>,
    /// How many parts of the text come before each.
    pub image_blocks: Vec<u64>,
    /// Words of the text, excluding numbers.
    pub words: u32,
    /// Sentences of the text.
    pub sentences: u32,
    /// The recognised language.
    pub language: Option<String>,
    /// How certain that is.
    pub language_certainty: Option<f64>,
    /// The language that the page declares.
    pub declared_language: Option<String>,
    /// The declared character encoding.
    pub charset_declared: Option<String>,
    /// The character encoding with which it was decoded.
    pub charset_used: Option<String>,
    /// The media type.
    pub mime: Option<String>,
    /// The host.
    pub host: String,
    /// The extractor.
    pub extractor: Option<String>,
    /// Perplexity under a topic's model.
    pub perplexity: Option<f64>,
    /// Perplexity by single words of its language.
    pub perplexity_neutral: Option<f64>,
    /// How much its words speak for the topic.
    pub contrast: Option<f64>,
    /// `head`, `middle` or `tail`.
    pub bucket: Option<String>,
    /// The document that it is a copy of.
    pub copy_of: Option<String>,
    /// How similar it is to that document.
    pub similarity: Option<f64>,
    /// The common passages, four numbers each: start and end in this text, start and end
    /// in the other, in bytes.
    pub copy_spans: Vec<u64>,
    /// Parts that were removed as copies.
    pub parts_removed: u32,
    /// Mail addresses, telephone numbers and addresses of machines that were found.
    pub masked: u32,
    /// Control characters that were removed.
    pub controls_removed: u32,
    /// The rule that was chosen for the page.
    pub rule: Option<String>,
    /// What that rule found, as JSON.
    pub fields: Option<String>,
    /// Its required fields that have no value.
    pub fields_missing: Vec<String>,
    /// The tokens that the step `grammar` left.
    pub tokens: Vec<String>,
    /// Their positions in the text, two numbers each: start and end, in characters.
    pub token_offsets: Vec<u64>,
    /// Their stems.
    pub stems: Vec<String>,
    /// Their lemmas.
    pub lemmas: Vec<String>,
    /// The words that represent their synonyms.
    pub synonyms: Vec<String>,
    /// Their parts of speech.
    pub tags: Vec<String>,
    /// The entities that the step of this name found, as JSON.
    pub entities: Option<String>,
    /// Their names, each once.
    pub entity_names: Vec<String>,
    /// Licences that the page or its headers name.
    pub licences: Vec<String>,
    /// The terms of use that were stated.
    pub terms: Option<Terms>,
    /// The job that it comes from.
    pub job: Option<String>,
    /// How probable it is that it is on topic, as the crawl judged it.
    pub on_topic: Option<f64>,
    /// Perplexity under the model of the topic, as the crawl measured it.
    pub crawl_perplexity: Option<f64>,
    /// How much its words speak for the topic, as the crawl measured it.
    pub crawl_contrast: Option<f64>,
    /// Links from the nearest seed.
    pub hops: Option<u32>,
    /// The page on which its address was found.
    pub via: Option<String>,
    /// Whether it was drawn at random for the control sample.
    pub control: Option<bool>,
    /// The canonical address that the page declares.
    pub canonical: Option<String>,
    /// The hash of its text in the job.
    pub hash: Option<String>,
    /// The file that contains it.
    pub archive: Option<String>,
    /// Where in that file: a byte, or the number of a line.
    pub offset: Option<u64>,
    /// The length of the record there.
    pub length: Option<u64>,
    /// The digest that the record states.
    pub digest: Option<String>,
    /// The measures of the quality rules, each with the prefix `quality_`.
    #[serde(flatten)]
    pub quality: BTreeMap<String, Option<f64>>,
}

impl Document {
    /// Cleans the text and its metadata, counts words and sentences, and sets the `id`.
    pub(super) fn begin(mut self) -> Self {
        let mut removed = 0;
        let length = self.text.len();
        self.text = clean(std::mem::take(&mut self.text), &mut removed);
        if self.text.len() != length {
            // What spoor extracted is clean.
            self.block_kinds.clear();
            self.block_offsets.clear();
            self.image_urls.clear();
            self.image_blocks.clear();
        }
        self.title = self.title.map(|title| clean(title, &mut removed));
        self.authors = std::mem::take(&mut self.authors)
            .into_iter()
            .map(|author| clean(author, &mut removed))
            .collect();
        self.controls_removed = self.controls_removed.saturating_add(removed);
        self.id = format!(
            "{:032x}",
            xxh3_128(format!("{}\n{}", self.url, self.text).as_bytes())
        );
        self.date = self.published.clone().or_else(|| self.fetched.clone());
        self.count();
        self
    }

    /// Changes the text. Its parts remain those that have text left.
    pub(super) fn edit(&mut self, edit: TextEdit) {
        let mut blocks: Vec<TextBlock> = Vec::new();
        // How many of the first parts are left.
        let mut left: Vec<u64> = vec![0];
        for block in self.blocks() {
            if let Some(text) = edit.place(&block.text) {
                blocks.push(TextBlock { text, ..block });
            }
            left.push(blocks.len() as u64);
        }
        for before in &mut self.image_blocks {
            let at = usize::try_from(*before).unwrap_or(usize::MAX);
            *before = left.get(at).or(left.last()).copied().unwrap_or_default();
        }
        self.text = edit.text;
        (self.block_kinds, self.block_offsets) = block_lists(&self.text, &blocks);
        self.count();
    }

    /// The parts of the text.
    pub(super) fn blocks(&self) -> Vec<TextBlock> {
        blocks_of_lists(&self.text, &self.block_kinds, &self.block_offsets)
    }

    /// Counts words and sentences again, after the text has changed.
    fn count(&mut self) {
        self.words = words::count(&self.text);
        let sentences = paragraphs(&self.text)
            .map(|p| p.unicode_sentences().count())
            .sum::<usize>();
        self.sentences = u32::try_from(sentences).unwrap_or(u32::MAX);
    }
}

/// A changed text, with the parts of the old one that it still has.
#[derive(Debug, Default)]
pub(super) struct TextEdit {
    pub(super) text: String,
    /// Where each part was, and where it is, in their order.
    parts: Vec<(Span, Span)>,
}

impl TextEdit {
    /// Adds what became of a part of the old text.
    pub(super) fn keep(&mut self, old: Span, text: &str) {
        let from = self.text.len();
        self.text.push_str(text);
        self.parts.push((old, from..self.text.len()));
    }

    /// Adds text that was not there.
    pub(super) fn add(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Where a range of the old text is now; `None` if nothing of it is left.
    fn place(&self, old: &Span) -> Option<Span> {
        let first = self
            .parts
            .partition_point(|(from, _)| from.end <= old.start);
        let behind = self.parts.partition_point(|(from, _)| from.start < old.end);
        let parts = self.parts.get(first..behind)?;
        let ((first, now), (last, end)) = (parts.first()?, parts.last()?);
        let inside = |part: &Span, now: &Span, at: usize| {
            let within = at.clamp(part.start, part.end) - part.start;
            // A part of another length was replaced.
            match part.len() == now.len() {
                true => now.start + within,
                false if within == 0 => now.start,
                false => now.end,
            }
        };
        let range = inside(first, now, old.start)..inside(last, end, old.end);
        (!range.is_empty()).then_some(range)
    }
}

/// The range of a part of a text within it.
pub(super) fn range_in(text: &str, part: &str) -> Span {
    let from = part.as_ptr().addr().saturating_sub(text.as_ptr().addr());
    from..from + part.len()
}

/// The paragraphs of a text, which empty lines separate.
pub(super) fn paragraphs(text: &str) -> impl Iterator<Item = &str> + Clone {
    text.split("\n\n").map(str::trim).filter(|p| !p.is_empty())
}

/// A text without NUL and other control characters, except tabs and line ends; all line ends
/// are those of Unix.
fn clean(text: String, removed: &mut u32) -> String {
    let is_bad = |c: char| c.is_control() && !matches!(c, '\n' | '\t') || c == '\u{feff}';
    if !text.contains(is_bad) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\r' if rest.peek() == Some(&'\n') => {}
            '\r' | '\u{85}' => out.push('\n'),
            c if is_bad(c) => *removed = removed.saturating_add(1),
            c => out.push(c),
        }
    }
    out
}

/// A text in one line: every run of white space becomes one space.
pub(super) fn folded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// The time of a date with the precision that pages state, in milliseconds since 1970; an
/// imprecise date means the beginning of its year, month or day.
pub(super) fn millis(date: &str) -> Option<i64> {
    if let Ok(time) = date.parse::<jiff::Timestamp>() {
        return Some(time.as_millisecond());
    }
    let whole = match date.len() {
        4 => format!("{date}-01-01"),
        7 => format!("{date}-01"),
        _ => date.get(..10)?.to_owned(),
    };
    let day: jiff::civil::Date = whole.parse().ok()?;
    let zoned = day.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(zoned.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_where_their_text_is() {
        let text = "Títle\n\nOne two three.\n\nGone\n\nLast";
        let mut document = Document {
            text: text.to_owned(),
            block_kinds: ["heading1", "paragraph", "quote", "code"]
                .map(str::to_owned)
                .into(),
            block_offsets: vec![0, 5, 7, 21, 23, 27, 29, 33],
            ..Document::default()
        };
        let at = |part: &str| range_in(text, &text[text.find(part).unwrap()..][..part.len()]);
        let mut edit = TextEdit::default();
        edit.keep(at("Títle"), "Títle");
        edit.add("\n\n");
        edit.keep(at("One "), "One ");
        edit.keep(at("two"), "[number]");
        edit.keep(at(" three."), " three.");
        edit.add("\n\n");
        edit.keep(at("Last"), "Last");
        document.edit(edit);
        let parts = blocks_of_lists(
            &document.text,
            &document.block_kinds,
            &document.block_offsets,
        );
        let parts: Vec<_> = parts
            .iter()
            .map(|block| (block.kind.name(), &document.text[block.text.clone()]))
            .collect();
        let part = |kind: &str, text| (kind.to_owned(), text);
        assert_eq!(
            parts,
            [
                part("heading1", "Títle"),
                part("paragraph", "One [number] three."),
                part("code", "Last"),
            ]
        );
    }

    #[test]
    fn controls_go_and_are_counted() {
        let document = Document {
            url: "http://a.test/".to_owned(),
            text: "one\0 two\u{1b}[31m\r\nthree\u{feff}\tfour\u{9f}".to_owned(),
            title: Some("\u{7}".to_owned()),
            ..Document::default()
        };
        let document = document.begin();
        assert_eq!(document.text, "one two[31m\nthree\tfour");
        assert_eq!(document.title.as_deref(), Some(""));
        assert_eq!((document.controls_removed, document.words), (5, 5));
    }

    #[test]
    fn runs_of_digits_and_drawings_are_no_words() {
        let digits = "7".repeat(3_776);
        assert_eq!(words::count(&format!("Pi is {digits} here")), 3);
        assert_eq!(words::count("+--+\n|  | /\\_/\\ ( o.o ) > ^ <\n+--+"), 1);
        assert_eq!(words::count(""), 0);
    }

    #[test]
    fn white_space_is_folded() {
        // The six characters from the Common Crawl study, in any run.
        assert_eq!(folded(" a \t\n\u{b}\u{c}\r b\n\nc "), "a b c");
        assert_eq!(folded("\n"), "");
    }

    #[test]
    fn dates_are_as_precise_as_they_are() {
        for (text, expected) in [
            ("1970", Some(0)),
            ("1970-02", Some(31 * 86_400_000)),
            ("1970-01-02", Some(86_400_000)),
            ("1970-01-01T02:00:00+02:00", Some(0)),
            ("1970-01-02T05:00", Some(86_400_000)),
            ("then", None),
            ("", None),
        ] {
            assert_eq!(millis(text), expected, "{text}");
        }
    }

    #[test]
    fn a_line_has_all_keys_and_is_read_back() {
        let mut document = Document {
            url: "http://a.test/".to_owned(),
            text: "One.\n\nTwo.".to_owned(),
            ..Document::default()
        }
        .begin();
        document
            .quality
            .insert("quality_words".to_owned(), Some(2.0));
        let line = serde_json::to_string(&document).unwrap();
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["quality_words"], 2.0);
        assert!(value.as_object().unwrap().contains_key("perplexity"));
        assert_eq!(serde_json::from_str::<Document>(&line).unwrap(), document);
        assert_eq!(document.sentences, 2);
    }
}
