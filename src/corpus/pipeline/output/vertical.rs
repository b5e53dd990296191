//! The vertical format of Sketch Engine and of the Corpus Workbench: one token per line, with
//! `<doc>`, `<p>` and `<s>`; `<g/>` joins tokens without a space between them.

use std::fmt::Write;

use rustc_hash::FxHashMap;
use unicode_segmentation::UnicodeSegmentation;

use super::super::document::{Document, folded, paragraphs};
use super::super::plan::Layer;
use crate::sanitize;

/// The longest token in characters: longer runs of digits or symbols are not words.
const LONGEST: usize = 100;

/// A document.
pub(super) fn document(document: &Document, layers: &[Layer]) -> String {
    let mut out = String::with_capacity(document.text.len() * 2);
    out.push_str("<doc");
    let attributes = [
        ("id", Some(document.id.as_str())),
        ("url", Some(document.url.as_str())),
        ("title", document.title.as_deref()),
        ("date", document.date.as_deref()),
        ("host", Some(document.host.as_str())),
        ("language", document.language.as_deref()),
        ("bucket", document.bucket.as_deref()),
    ];
    for (name, value) in attributes {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            // Writing to a string does not fail.
            write!(out, " {name}=\"{}\"", escaped(&folded(value), true)).ok();
        }
    }
    out.push_str(">\n");
    let attributes = TokenAttributes::of(document, layers);
    for paragraph in paragraphs(&document.text) {
        out.push_str("<p>\n");
        for sentence in paragraph.unicode_sentences() {
            out.push_str("<s>\n");
            tokens(sentence, &attributes, &mut out);
            out.push_str("</s>\n");
        }
        out.push_str("</p>\n");
    }
    out.push_str("</doc>\n");
    out
}

/// The attributes of the tokens.
struct TokenAttributes<'d> {
    text: &'d str,
    /// The number of a token by the byte at which it begins.
    numbers: FxHashMap<usize, usize>,
    layers: Vec<(Layer, &'d [String])>,
}

impl<'d> TokenAttributes<'d> {
    fn of(document: &'d Document, layers: &[Layer]) -> Self {
        let layers: Vec<(Layer, &[String])> = layers
            .iter()
            .map(|layer| (*layer, of_layer(document, *layer).as_slice()))
            .collect();
        let mut numbers = FxHashMap::default();
        if !layers.is_empty() {
            let starts = document.token_offsets.iter().step_by(2);
            let mut starts = starts.enumerate().peekable();
            for (character, (byte, _)) in document.text.char_indices().enumerate() {
                while let Some((number, _)) = starts.next_if(|(_, at)| **at <= character as u64) {
                    numbers.insert(byte, number);
                }
            }
        }
        Self {
            text: &document.text,
            numbers,
            layers,
        }
    }

    /// Adds the attributes of a token. A token that was left out is its own stem and has no tag.
    fn add(&self, token: &str, out: &mut String) {
        let byte = (token.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        let number = self.numbers.get(&byte);
        for (layer, values) in &self.layers {
            out.push('\t');
            match number.and_then(|number| values.get(*number)) {
                Some(value) => out.push_str(&escaped(value, false)),
                None if *layer == Layer::Tags => out.push('-'),
                None => out.push_str(&escaped(&token.to_lowercase(), false)),
            }
        }
    }
}

/// A column of tokens.
pub(super) fn of_layer(document: &Document, layer: Layer) -> &Vec<String> {
    match layer {
        Layer::Stems => &document.stems,
        Layer::Lemmas => &document.lemmas,
        Layer::Synonyms => &document.synonyms,
        Layer::Tags => &document.tags,
    }
}

fn tokens(sentence: &str, attributes: &TokenAttributes<'_>, out: &mut String) {
    let mut glued = false;
    for token in sentence.split_word_bounds() {
        if token.trim().is_empty() {
            glued = false;
            continue;
        }
        let is_long = token.chars().nth(LONGEST).is_some();
        if is_long || token.chars().all(sanitize::acts) {
            continue;
        }
        if glued {
            out.push_str("<g/>\n");
        }
        out.push_str(&escaped(token, false));
        attributes.add(token, out);
        out.push('\n');
        glued = true;
    }
}

/// A text without markup and without characters that control a terminal.
fn escaped(text: &str, in_quotes: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' if in_quotes => out.push_str("&quot;"),
            c if sanitize::acts(c) => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_a_line() {
        let digits = "7".repeat(3_776);
        let found = Document {
            id: "1".to_owned(),
            url: "http://a.test/?a&b".to_owned(),
            title: Some("\"A\" <lamp>".to_owned()),
            text: format!("It's 3 < 5. Lit\nnow.\n\nPi {digits} &c"),
            ..Document::default()
        };
        let expected = "<doc id=\"1\" url=\"http://a.test/?a&amp;b\" title=\"&quot;A&quot; &lt;lamp&gt;\">\n\
            <p>\n<s>\nIt's\n3\n&lt;\n5\n<g/>\n.\n</s>\n<s>\nLit\n</s>\n<s>\nnow\n<g/>\n.\n</s>\n</p>\n\
            <p>\n<s>\nPi\n&amp;\n<g/>\nc\n</s>\n</p>\n</doc>\n";
        assert_eq!(document(&found, &[]), expected);
    }

    #[test]
    fn attributes_follow_the_word() {
        let found = Document {
            text: "Ä <b> Lamps burn.".to_owned(),
            tokens: ["Ä", "Lamps", "burn"].map(str::to_owned).to_vec(),
            token_offsets: vec![0, 1, 6, 11, 12, 16],
            lemmas: ["ä", "lamp&", "burn"].map(str::to_owned).to_vec(),
            tags: ["X", "NOUN", "VERB"].map(str::to_owned).to_vec(),
            ..Document::default()
        };
        let rows = document(&found, &[Layer::Lemmas, Layer::Tags]);
        let rows: Vec<&str> = rows.lines().filter(|row| row.contains('\t')).collect();
        let expected = [
            "Ä\tä\tX",
            "&lt;\t&lt;\t-",
            "b\tb\t-",
            "&gt;\t&gt;\t-",
            "Lamps\tlamp&amp;\tNOUN",
            "burn\tburn\tVERB",
            ".\t.\t-",
        ];
        assert_eq!(rows, expected);
    }
}
