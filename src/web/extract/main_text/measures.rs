//! What one block of text is like by its own letters.

use crate::page::Span;

/// The first words of a block, on which the shares of words rest.
const FIRST_WORDS: u32 = 60;

/// What one block of text is like.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Measures {
    /// Words; in scripts without spaces between words, two characters count as one.
    pub(super) words: f32,
    /// Words within links.
    pub(super) linked: f32,
    /// Links that begin in it.
    pub(super) links: f32,
    /// Ends of sentences.
    pub(super) sentences: f32,
    /// Share of the first words that begin with a small letter.
    pub(super) small: f32,
    /// Whether it ends as a sentence does.
    pub(super) is_ended: bool,
}

impl Measures {
    /// The measures of the block `text`, which begins at `from` in its page's text; `links` are the
    /// links of the page that reach into it.
    pub(super) fn of(text: &str, from: usize, links: &[Span]) -> Self {
        let mut measures = Self::default();
        let mut ahead = links.iter().peekable();
        let (mut halves, mut linked_halves) = (0_u32, 0_u32);
        let (mut words, mut linked, mut small) = (0_u32, 0_u32, 0_u32);
        let mut is_word = false;
        let mut ended = false;
        let mut last = ' ';
        for (at, c) in text.char_indices() {
            while ahead.peek().is_some_and(|link| link.end <= from + at) {
                ahead.next();
            }
            let in_link = ahead.peek().is_some_and(|link| link.start <= from + at);
            if c.is_alphanumeric() || c == '_' {
                if is_unspaced(c) {
                    halves += 1;
                    linked_halves += u32::from(in_link);
                    is_word = false;
                } else if !is_word {
                    is_word = true;
                    words += 1;
                    linked += u32::from(in_link);
                    small += u32::from(words <= FIRST_WORDS && c.is_lowercase());
                }
                ended = false;
            } else {
                is_word = false;
                if ended && c.is_whitespace() {
                    measures.sentences += 1.0;
                    ended = false;
                }
                match c {
                    '.' | '!' | '?' | '…' => ended = true,
                    '。' | '！' | '？' => measures.sentences += 1.0,
                    _ => {}
                }
            }
            if !c.is_whitespace() {
                last = c;
            }
        }
        measures.sentences += f32::from(u8::from(ended));
        measures.is_ended = matches!(
            last,
            '.' | '!' | '?' | '…' | '。' | '！' | '？' | '"' | '”' | '।'
        );
        let of_words = words.clamp(1, FIRST_WORDS) as f32;
        measures.small = small as f32 / of_words;
        measures.links = links.len() as f32;
        measures.words = words as f32 + halves as f32 / 2.0;
        measures.linked = linked as f32 + linked_halves as f32 / 2.0;
        measures
    }
}

/// Whether it is a letter of a script that writes no spaces between words.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{E00}'..='\u{EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
        | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{3FFFF}')
}
