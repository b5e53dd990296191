//! The cleaned text with the positions of its characters in the original, as JSON.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::clean::{Cleaned, Joint};
use super::original::{Original, characters};

/// The cleaned text of a PDF with positions.
///
/// All numbers are positions in the original text, in characters; the end of a line counts as one.
/// A chunk consists of the characters at its position in the original, one after the other. But if
/// its position is in `ligatures`, the whole chunk stands for the single character there.
///
/// The running text consists of all chunks in order of position, each with a space before it, but
/// with nothing if its position is in `joined`, and with an empty line if it is in `paragraphs`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Offsets {
    /// The parts of the cleaned text by their places in the original.
    pub chunks: BTreeMap<u32, String>,
    /// Where each page begins.
    pub pages: Vec<u32>,
    /// Where each sentence begins.
    pub sentences: Vec<u32>,
    /// Where each line begins, without those removed as headers or footers.
    pub lines: Vec<u32>,
    /// The chunks that begin a paragraph.
    #[serde(default)]
    pub paragraphs: Vec<u32>,
    /// The chunks that continue a word of the chunk before: a divided word, a ligature.
    #[serde(default)]
    pub joined: Vec<u32>,
    /// The chunks that stand for one character of the original.
    #[serde(default)]
    pub ligatures: Vec<u32>,
}

impl Offsets {
    /// The form with positions of a cleaned text.
    pub fn of(original: &Original, cleaned: &Cleaned) -> Self {
        let mut offsets = Self {
            pages: original.pages.clone(),
            sentences: cleaned.sentences(),
            ..Self::default()
        };
        for piece in &cleaned.pieces {
            offsets.chunks.insert(piece.at, piece.text.clone());
            if piece.is_ligature {
                offsets.ligatures.push(piece.at);
            }
            match piece.joint {
                Joint::Tight => offsets.joined.push(piece.at),
                Joint::Line => {}
                Joint::Paragraph => offsets.paragraphs.push(piece.at),
            }
        }
        let lines = original.lines.iter().map(|line| line.at);
        let is_kept = |at: &u32| {
            let next = offsets.chunks.range(at..).next();
            // A line may begin with a character that was left out.
            next.is_some_and(|(place, _)| *place <= at.saturating_add(1))
        };
        offsets.lines = lines.filter(is_kept).collect();
        offsets
    }

    /// The running text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (at, chunk) in &self.chunks {
            let is_first = text.is_empty();
            if !is_first && self.paragraphs.binary_search(at).is_ok() {
                text.push_str("\n\n");
            } else if !is_first && self.joined.binary_search(at).is_err() {
                text.push(' ');
            }
            text.push_str(chunk);
        }
        text
    }

    /// The position in the original of a character of a chunk.
    pub fn place(&self, chunk: u32, character: u32) -> Option<u32> {
        let text = self.chunks.get(&chunk)?;
        if character >= characters(text) {
            return None;
        }
        if self.ligatures.binary_search(&chunk).is_ok() {
            return Some(chunk);
        }
        chunk.checked_add(character)
    }
}
