//! The names that a formula may use, with their meaning.

use std::str::FromStr;

use crate::messages::{nearest, shown};

/// The most elements counted around an image, the maximum that `[images]` allows.
const MAX_ELEMENTS: usize = 20;

/// The meaning of a name in a formula.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    /// A rating of a text around the image, such as `alt.weighted`.
    Text(ImageText, Measure),
    /// `document_perplexity`: that of the page that embeds the image.
    DocumentPerplexity,
    /// `width` in pixels, of the image itself.
    Width,
    /// `height` in pixels, of the image itself.
    Height,
    /// `bytes` of the file.
    Bytes,
    /// `in_main_text`: 1 where the image stands in the main text of its page or that is not known,
    /// else 0.
    InMainText,
}

/// A text around an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageText {
    /// `words`, the text that describes the image best.
    Words,
    /// `alt`, the attribute.
    Alt,
    /// `title`, the attribute.
    Title,
    /// `aria_label`, the attribute.
    AriaLabel,
    /// `caption` in attributes for a script, or in JSON-LD.
    Caption,
    /// `figcaption`, the caption beside it.
    Figcaption,
    /// `heading`, the nearest one.
    Heading,
    /// `file_name`, the words of the URL's file name.
    FileName,
    /// `parent0` to `parent19`, the enclosing elements with text, nearest first.
    Parent(usize),
    /// `sibling0` to `sibling19`, the sibling elements with text, nearest first.
    Sibling(usize),
}

/// A rating of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// `perplexity` under the model of the topic.
    Perplexity,
    /// `keyword` score.
    Keyword,
    /// `weighted` perplexity.
    Weighted,
}

impl FromStr for Variable {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "document_perplexity" => return Ok(Self::DocumentPerplexity),
            "width" => return Ok(Self::Width),
            "height" => return Ok(Self::Height),
            "bytes" => return Ok(Self::Bytes),
            "in_main_text" => return Ok(Self::InMainText),
            _ => {}
        }
        let (text, measure) = name.split_once('.').unwrap_or((name, ""));
        let number = |digits: &str| digits.parse().ok().filter(|n| *n < MAX_ELEMENTS);
        let numbered = |prefix, kind: fn(usize) -> ImageText| {
            text.strip_prefix(prefix).and_then(number).map(kind)
        };
        let around = match text {
            "words" => Some(ImageText::Words),
            "alt" => Some(ImageText::Alt),
            "title" => Some(ImageText::Title),
            "aria_label" => Some(ImageText::AriaLabel),
            "caption" => Some(ImageText::Caption),
            "figcaption" => Some(ImageText::Figcaption),
            "heading" => Some(ImageText::Heading),
            "file_name" => Some(ImageText::FileName),
            _ => numbered("parent", ImageText::Parent)
                .or_else(|| numbered("sibling", ImageText::Sibling)),
        };
        let measure = match measure {
            "perplexity" => Some(Measure::Perplexity),
            "keyword" => Some(Measure::Keyword),
            "weighted" => Some(Measure::Weighted),
            _ => None,
        };
        match (around, measure) {
            (Some(around), Some(measure)) => Ok(Self::Text(around, measure)),
            (Some(_), None) => Err(format!(
                "`{}` lacks a rating; write {text}.perplexity, {text}.keyword or {text}.weighted",
                shown(name)
            )),
            (None, _) => Err(unknown(name)),
        }
    }
}

fn unknown(name: &str) -> String {
    const WHOLE: [&str; 5] = [
        "document_perplexity",
        "width",
        "height",
        "bytes",
        "in_main_text",
    ];
    const TEXTS: [&str; 10] = [
        "words",
        "alt",
        "title",
        "aria_label",
        "caption",
        "figcaption",
        "heading",
        "file_name",
        "parent1",
        "sibling0",
    ];
    let (text, measure) = name.split_once('.').unwrap_or((name, ""));
    let hint = match nearest(text, TEXTS) {
        Some(text) if !measure.is_empty() => Some(format!("{text}.{measure}")),
        _ => nearest(name, WHOLE).map(str::to_owned),
    };
    let hint = hint
        .map(|h| format!("; did you mean `{}`?", shown(&h)))
        .unwrap_or_default();
    format!("`{}` is not a known name{hint}", shown(name))
}
