//! What one block of text is like by its own letters.

use crate::extract::scripts::is_unspaced;
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
        if text.is_ascii() {
            Self::of_chars(text.bytes().map(char::from).enumerate(), from, links)
        } else {
            Self::of_chars(text.char_indices(), from, links)
        }
    }

    fn of_chars(chars: impl Iterator<Item = (usize, char)>, from: usize, links: &[Span]) -> Self {
        let mut measures = Self::default();
        let mut ahead = links;
        let mut is_linked = |place: usize| {
            while let Some((_, rest)) = ahead.split_first().filter(|(link, _)| link.end <= place) {
                ahead = rest;
            }
            u32::from(ahead.first().is_some_and(|link| link.start <= place))
        };
        let (mut halves, mut linked_halves) = (0_u32, 0_u32);
        let (mut words, mut linked, mut small, mut sentences) = (0_u32, 0_u32, 0_u32, 0_u32);
        let mut is_word = false;
        let mut ended = false;
        let mut last = ' ';
        for (at, c) in chars {
            match CharKind::of(c) {
                CharKind::Letter if !is_word => {
                    is_word = true;
                    words += 1;
                    linked += is_linked(from + at);
                    small += u32::from(words <= FIRST_WORDS && c.is_lowercase());
                    ended = false;
                }
                CharKind::Letter => {}
                CharKind::Unspaced => {
                    halves += 1;
                    linked_halves += is_linked(from + at);
                    is_word = false;
                    ended = false;
                }
                CharKind::Space => {
                    is_word = false;
                    sentences += u32::from(ended);
                    ended = false;
                    continue;
                }
                CharKind::End => {
                    is_word = false;
                    ended = true;
                }
                CharKind::FullEnd => {
                    is_word = false;
                    sentences += 1;
                }
                CharKind::Other => is_word = false,
            }
            last = c;
        }
        measures.sentences = (sentences + u32::from(ended)) as f32;
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

/// What a character is within a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CharKind {
    /// Of a word.
    Letter,
    /// Of a word, in a script that writes no spaces between words.
    Unspaced,
    Space,
    /// The end of a sentence, if a space follows.
    End,
    /// The end of a sentence.
    FullEnd,
    Other,
}

impl CharKind {
    /// Of the characters of ASCII, which most texts consist of.
    const ASCII: [Self; 128] = {
        let mut kinds = [Self::Other; 128];
        let mut at = 0;
        while at < kinds.len() {
            kinds[at] = match at as u8 {
                b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' => Self::Letter,
                b' ' | 0x09..=0x0D => Self::Space,
                b'.' | b'!' | b'?' => Self::End,
                _ => Self::Other,
            };
            at += 1;
        }
        kinds
    };

    #[inline]
    fn of(c: char) -> Self {
        match Self::ASCII.get(c as usize) {
            Some(kind) => *kind,
            None if c.is_alphanumeric() && is_unspaced(c) => Self::Unspaced,
            None if c.is_alphanumeric() => Self::Letter,
            None if c.is_whitespace() => Self::Space,
            None => match c {
                '…' => Self::End,
                '。' | '！' | '？' => Self::FullEnd,
                _ => Self::Other,
            },
        }
    }
}
