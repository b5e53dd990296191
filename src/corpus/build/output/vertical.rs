//! The vertical of Sketch Engine and of the Corpus Workbench: a token a line, with `<doc>`,
//! `<p>` and `<s>`; `<g/>` stands between tokens without a space.

use std::fmt::Write;

use unicode_segmentation::UnicodeSegmentation;

use super::super::document::{Document, folded, paragraphs};
use crate::sanitize;

/// The longest token in characters: longer runs of digits or signs are no words.
const LONGEST: usize = 100;

/// A document.
pub(super) fn document(document: &Document) -> String {
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
    for paragraph in paragraphs(&document.text) {
        out.push_str("<p>\n");
        for sentence in paragraph.unicode_sentences() {
            out.push_str("<s>\n");
            tokens(sentence, &mut out);
            out.push_str("</s>\n");
        }
        out.push_str("</p>\n");
    }
    out.push_str("</doc>\n");
    out
}

fn tokens(sentence: &str, out: &mut String) {
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
        out.push('\n');
        glued = true;
    }
}

/// A text without what would be markup, or steer a terminal.
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
        assert_eq!(document(&found), expected);
    }
}
