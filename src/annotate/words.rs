//! The words around an image as the page shows them.

use serde::Serialize;

use crate::page::{AltKind, ImageContext};

/// Characters of one text that are shown; a parent may be the whole page.
const MAX_CHARS: usize = 700;

/// One text around an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Words {
    /// Where it stands, in words for people.
    pub label: &'static str,
    /// The text, at most 700 characters of it.
    pub text: String,
    /// Whether it is what the text question asks about.
    pub judged: bool,
}

/// The texts of a context, those to be judged first. These are the two that the
/// default ranking stands on, the alternative text and parent 1 (the thesis's pairs);
/// where there is neither, the nearest of the others.
pub(super) fn of(context: &ImageContext) -> Vec<Words> {
    let texts = &context.texts;
    let nth = |list: &[String], n: usize| list.get(n).cloned();
    // An alternative text that repeats the file's name, or that the site repeats, is
    // nobody's words.
    let (alt, no_alt) = match context.scores.alt {
        Some(_) => (texts.alt.clone(), None),
        None => (None, texts.alt.clone()),
    };
    let no_alt_label = match texts.alt_kind {
        Some(AltKind::Boilerplate) => "Alternative text, boilerplate",
        _ => "Alternative text, a file name",
    };
    let mut siblings = texts.siblings.clone();
    siblings.truncate(2);
    let all = [
        ("Alternative text", alt),
        ("Text around it", nth(&texts.parents, 1)),
        ("Caption of the figure", texts.figcaption.clone()),
        ("Caption", texts.caption.clone()),
        ("Tooltip", texts.title.clone()),
        ("Label", texts.aria_label.clone()),
        ("Nearest text", nth(&texts.parents, 0)),
        ("Text beside it", nth(&siblings, 0)),
        ("Text beside it", nth(&siblings, 1)),
        ("Heading", texts.heading.clone()),
        ("Title of the page", context.page_title.clone()),
        (no_alt_label, no_alt),
    ];
    let mut words: Vec<Words> = Vec::new();
    for (at, (label, text)) in all.into_iter().enumerate() {
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
