//! The words around an image, as shown on the page.

use serde::Serialize;

use crate::page::{AltKind, ImageContext};

/// The most characters of one text that are shown; a parent may be the whole page.
const MAX_CHARS: usize = 700;

/// A nearby text with more characters than this is not a caption but an article.
const MAX_CAPTION_CHARS: usize = 300;

/// One text around an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Words {
    /// Its origin, for people.
    pub label: &'static str,
    /// The text, at most 700 characters of it.
    pub text: String,
    /// Whether the text question is about it.
    pub judged: bool,
}

/// The texts of a context, those to be judged first: the caption, or else the nearest text
/// if it is short, and the alternative text. Without both, the nearest of the others. The
/// longer text around the image, which the default ranking also uses, is mostly about
/// other things, so it comes below.
pub(super) fn of(context: &ImageContext) -> Vec<Words> {
    let texts = &context.texts;
    let nth = |list: &[String], n: usize| list.get(n).cloned();
    // An alternative text that repeats the file's name, or that the site repeats, was not
    // written for the image.
    let (alt, no_alt) = match context.scores.alt {
        Some(_) => (texts.alt.clone(), None),
        None => (None, texts.alt.clone()),
    };
    let no_alt_label = match texts.alt_kind {
        Some(AltKind::Boilerplate) => "Alternative text, boilerplate",
        _ => "Alternative text, a file name",
    };
    let near = [
        ("Caption of the figure", texts.figcaption.clone()),
        ("Caption", texts.caption.clone()),
        ("Nearest text", nth(&texts.parents, 0)),
        ("Text around it", nth(&texts.parents, 1)),
    ];
    // A text equal to the alternative text is not shown again.
    let said = alt.as_deref().map(cut);
    let is_new = |text: &String| !text.trim().is_empty() && Some(cut(text)) != said;
    let captions = texts.figcaption.iter().chain(&texts.caption).count();
    let is_caption = |text: &String| is_new(text) && text.chars().count() <= MAX_CAPTION_CHARS;
    let caption = near
        .iter()
        .find(|(_, text)| match captions {
            0 => text.as_ref().is_some_and(is_caption),
            _ => text.as_ref().is_some_and(is_new),
        })
        .cloned()
        .unwrap_or(("Caption", None));
    let mut siblings = texts.siblings.clone();
    siblings.truncate(2);
    let first = [caption, ("Alternative text", alt)];
    let rest = [
        ("Tooltip", texts.title.clone()),
        ("Label", texts.aria_label.clone()),
        ("Text beside it", nth(&siblings, 0)),
        ("Text beside it", nth(&siblings, 1)),
        ("Heading", texts.heading.clone()),
        ("Title of the page", context.page_title.clone()),
        (no_alt_label, no_alt),
    ];
    let all = first.into_iter().chain(near).chain(rest);
    let mut words: Vec<Words> = Vec::new();
    for (at, (label, text)) in all.enumerate() {
        let Some(text) = text.map(|t| cut(&t)).filter(|t| !t.is_empty()) else {
            continue;
        };
        // Nested elements often have the same text.
        if words.iter().any(|known| known.text == text) {
            continue;
        }
        let judged = at < 2 || words.is_empty();
        words.push(Words {
            label,
            text,
            judged,
        });
    }
    words
}

fn cut(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(MAX_CHARS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default().trim_end()),
        None => text.to_owned(),
    }
}
