//! Parts of messages about a file: quotations from it, suggestions for misspelt words, and
//! positions.

use spoor_values::file_errors::FilePosition;

/// The most errors shown for a file, besides syntax errors. People do not fix more than these at
/// once, and keeping all of them would only cost memory.
pub const MOST_SHOWN: usize = 100;

/// Counts lines and columns in one pass, for ascending positions.
pub struct Cursor<'t> {
    text: &'t str,
    at: usize,
    place: FilePosition,
}

impl<'t> Cursor<'t> {
    /// At the beginning of `text`.
    pub fn new(text: &'t str) -> Self {
        let place = FilePosition { line: 1, column: 1 };
        Self { text, at: 0, place }
    }

    /// The position of byte `at`, which must not be before that of the last call.
    pub fn place(&mut self, at: usize) -> FilePosition {
        let passed = self.text.get(self.at..at).unwrap_or_default();
        for c in passed.chars() {
            match c {
                '\n' => {
                    self.place.line += 1;
                    self.place.column = 1;
                }
                // A byte order mark does not count as a column.
                '\u{feff}' => {}
                _ => self.place.column += 1,
            }
        }
        self.at = at.max(self.at);
        self.place
    }
}

/// The position of byte `at` in a text that is UTF-8 at least up to there.
pub fn place_in_bytes(bytes: &[u8], at: usize) -> FilePosition {
    let before = String::from_utf8_lossy(bytes.get(..at).unwrap_or(bytes));
    Cursor::new(&before).place(before.len())
}

/// The candidate most similar to `word`, if one is close enough: a third of its characters
/// may differ, with swapped neighbours counting once, or it may start with `word`.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase().replace('-', "_");
    // The cost of computing the distance is the product of the lengths, and a key may be as long as
    // a page.
    if word.len() > 64 {
        return None;
    }
    let most = |candidate: &str| (candidate.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&word, candidate), candidate))
        .filter(|(distance, candidate)| {
            let goes_on = word.len() >= 3 && candidate.starts_with(&word);
            *distance <= most(candidate) || goes_on
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `text` on one line, shortened for a message.
pub fn shown(text: &str) -> String {
    shown_up_to(text, 100)
}

/// The same for a whole sentence, whose advice at the end must be kept.
pub fn shown_whole(text: &str) -> String {
    shown_up_to(text, 600)
}

fn shown_up_to(text: &str, longest: usize) -> String {
    let mut out: String = text.chars().take(longest).flat_map(escaped).collect();
    if text.chars().nth(longest).is_some() {
        out.push_str("...");
    }
    out
}

fn escaped(c: char) -> Box<dyn Iterator<Item = char>> {
    // Direction marks and similar characters garble a terminal just like control characters.
    if c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{feff}')
    {
        Box::new(c.escape_unicode())
    } else {
        Box::new(std::iter::once(c))
    }
}
