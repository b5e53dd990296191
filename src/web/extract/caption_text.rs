//! What the words of a caption say: whether they are one, and where a credit in them begins.

/// The longest credit, in bytes.
pub(super) const MAX_CREDIT: usize = 150;

/// The bytes of the words by which a caption is announced to readers who do not see it.
pub(super) fn label_of(caption: &str) -> usize {
    let labels = [
        "Image caption, ",
        "Image caption\n",
        "Caption\n",
        "Caption: ",
    ];
    let label = labels.iter().find(|label| caption.starts_with(**label));
    label.map_or(0, |label| label.len())
}

/// Whether a text has words, and not only a number, a price or an address.
pub(super) fn is_phrase(text: &str) -> bool {
    let words = text.split_whitespace();
    let words = words.filter(|word| word.chars().filter(|c| c.is_alphabetic()).count() > 1);
    let letters = text
        .chars()
        .filter(|c| c.is_alphabetic() || *c == ' ')
        .count();
    words.count() > 1 && 4 * letters >= 3 * text.chars().count()
}

/// Where the credit at the end of a caption begins, such as `Photo: Jane Doe` or `© Reuters`;
/// it may be the whole.
pub(super) fn credit_in(caption: &str) -> Option<usize> {
    /// Before a colon or a name.
    const OF: [&str; 22] = [
        "photo",
        "photos",
        "photograph",
        "image",
        "images",
        "picture",
        "credit",
        "credits",
        "photo credit",
        "image credit",
        "photo courtesy",
        "image courtesy",
        "source",
        "foto",
        "fotos",
        "bild",
        "quelle",
        "grafik",
        "crédit",
        "crédit photo",
        "fuente",
        "illustration",
    ];
    const BEFORE_NAME: [&str; 8] = [
        "photo by ",
        "photos by ",
        "photograph by ",
        "image by ",
        "picture by ",
        "courtesy of ",
        "photo courtesy of ",
        "image courtesy of ",
    ];
    let begins = |at: usize| {
        let rest = caption.get(at..).unwrap_or_default().trim_start();
        if rest.len() > MAX_CREDIT {
            return false;
        }
        let low = rest.to_lowercase();
        let before_colon = low.split_once(':').map(|(words, _)| words.trim_end());
        low.starts_with(['©', '\u{1f4f7}'])
            || low.starts_with("(c) ")
            || before_colon.is_some_and(|words| OF.contains(&words))
            || BEFORE_NAME.iter().any(|lead| low.starts_with(lead))
    };
    if begins(0) {
        return Some(0);
    }
    let from = caption.floor_char_boundary(caption.len().saturating_sub(MAX_CREDIT + 4));
    let end = caption.get(from..).unwrap_or_default();
    let parts = end.char_indices().map(|(at, c)| (from + at, c));
    let after = parts.filter(|(_, c)| {
        matches!(
            c,
            '.' | '(' | '[' | '|' | '/' | '–' | '—' | '-' | '\n' | '!' | '?' | ' '
        )
    });
    after
        .map(|(at, c)| at + c.len_utf8())
        .find(|at| begins(*at) && is_break(caption, *at))
}

/// Whether a sentence or a parenthesis begins here.
fn is_break(caption: &str, at: usize) -> bool {
    let before = caption.get(..at).unwrap_or_default();
    before
        .trim_end_matches(' ')
        .ends_with(|c: char| "([|/–—-.\n!?\"”)]".contains(c))
        || caption
            .get(at..)
            .is_some_and(|rest| rest.trim_start().starts_with('©'))
}
