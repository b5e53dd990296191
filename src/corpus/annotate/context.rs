//! The words around an image, as shown on the page.

use serde::Serialize;

use crate::page::{AltKind, ImageContext, WordsFrom};

/// The most characters of one text that are shown; a parent may be the whole page.
const MAX_CHARS: usize = 700;

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

/// The texts of a context, those to be judged first: the words of the image, and the alternative
/// text if it is another one. The longer text around the image is mostly about other things, so it
/// comes below.
pub(super) fn of(context: &ImageContext) -> Vec<Words> {
    let texts = &context.texts;
    let nth = |list: &[String], n: usize| list.get(n).cloned();
    let best = context.words();
    let best = best.map_or(("", None), |words| {
        (label(words.from), Some(words.text.to_owned()))
    });
    // An alternative text that repeats the file's name, or that the site repeats, was not
    // written for the image.
    let alt = texts.written_alt().map(str::to_owned);
    let no_alt = texts.alt.clone().filter(|_| alt.is_none());
    let no_alt_label = match texts.alt_kind {
        Some(AltKind::Boilerplate) => "Alternative text, boilerplate",
        _ => "Alternative text, a file name",
    };
    let all = [
        best,
        (label(WordsFrom::Alt), alt),
        (label(WordsFrom::Caption), texts.figcaption.clone()),
        ("Caption for a script", texts.caption.clone()),
        (label(WordsFrom::Parent), nth(&texts.parents, 0)),
        ("Text around it", nth(&texts.parents, 1)),
        (label(WordsFrom::Title), texts.title.clone()),
        (label(WordsFrom::AriaLabel), texts.aria_label.clone()),
        ("Text beside it", nth(&texts.siblings, 0)),
        ("Text beside it", nth(&texts.siblings, 1)),
        (label(WordsFrom::Heading), texts.heading.clone()),
        (label(WordsFrom::PageTitle), context.page_title.clone()),
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

/// What people are shown as the name of a text.
fn label(from: WordsFrom) -> &'static str {
    match from {
        WordsFrom::Caption => "Caption",
        WordsFrom::Alt => "Alternative text",
        WordsFrom::Title => "Tooltip",
        WordsFrom::AriaLabel => "Label",
        WordsFrom::Parent => "Nearest text",
        WordsFrom::Heading => "Heading",
        WordsFrom::PageTitle => "Title of the page",
        WordsFrom::FileName => "Name of the file",
    }
}

fn cut(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(MAX_CHARS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default().trim_end()),
        None => text.to_owned(),
    }
}
