//! The main text of a page, and how it was chosen.

use serde::{Deserialize, Serialize};

use super::Span;
use crate::address::PageUrl;

/// How the main text of a page is separated from its surroundings. The names are stable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Extractor {
    /// Not at all: all text of the body counts.
    #[default]
    All,
    /// The main text of a page of any kind, chosen block by block by a model.
    #[serde(alias = "article")]
    Main,
    /// The segments that are dense in text or share the title's words.
    Density,
}

impl Extractor {
    /// Its name in job files and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Main => "main",
            Self::Density => "density",
        }
    }
}

/// How much of a page's text was taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextShare {
    /// The extractor that chose it; [`Extractor::All`] if the configured one left too
    /// little.
    pub extractor: Extractor,
    /// Its number of words, excluding numbers.
    pub words: u32,
    /// The number of words of the whole page.
    pub of: u32,
}

/// The main text of a page as its author wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MainText {
    /// The text; paragraphs are separated by an empty line.
    pub text: String,
    /// Its parts in their order, which cover all of it except the white space between them.
    pub blocks: Vec<TextBlock>,
    /// The images that stand in it, in their order.
    pub images: Vec<PlacedImage>,
    /// How much of the page's text it is.
    pub share: TextShare,
}

/// An image in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedImage {
    /// Its address.
    pub url: PageUrl,
    /// How many parts of the text come before it.
    pub blocks_before: usize,
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextBlock {
    /// What it is.
    pub kind: BlockKind,
    /// Where it is in the text, in bytes.
    pub text: Span,
}

/// What a part of a text is for its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockKind {
    /// A paragraph, or anything that is none of the others.
    Paragraph,
    /// A heading of this level, 1 to 6.
    Heading(u8),
    /// An item of a list without numbers, at this depth from 1.
    Item(u8),
    /// An item of a list with numbers, at this depth from 1.
    Numbered(u8),
    /// A term that is defined.
    Term,
    /// What a term means.
    Definition,
    /// A table: a line for each row, a tab between two cells.
    Table,
    /// Text whose white space and line ends count.
    Code,
    /// A quotation.
    Quote,
    /// What stands with a figure or a table.
    Caption,
    /// A formula on its own line.
    Formula,
}

impl BlockKind {
    /// Those without a number, with their names.
    const PLAIN: [(BlockKind, &'static str); 8] = [
        (Self::Paragraph, "paragraph"),
        (Self::Term, "term"),
        (Self::Definition, "definition"),
        (Self::Table, "table"),
        (Self::Code, "code"),
        (Self::Quote, "quote"),
        (Self::Caption, "caption"),
        (Self::Formula, "formula"),
    ];

    /// Whether it is part of a list, of whatever kind.
    pub fn is_of_list(self) -> bool {
        matches!(
            self,
            Self::Item(_) | Self::Numbered(_) | Self::Term | Self::Definition
        )
    }

    /// Its name in documents, such as `heading2`. The names are stable.
    pub fn name(self) -> String {
        match self {
            Self::Heading(level) => format!("heading{level}"),
            Self::Item(depth) => format!("item{depth}"),
            Self::Numbered(depth) => format!("numbered{depth}"),
            plain => {
                let mut plains = Self::PLAIN.iter();
                let name = plains.find(|(kind, _)| *kind == plain);
                name.map_or("paragraph", |(_, name)| name).to_owned()
            }
        }
    }

    /// The kind with this name; a paragraph if there is none.
    pub fn of_name(name: &str) -> Self {
        let end = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name.get(end.len()..).unwrap_or_default().parse().ok();
        match (end, number) {
            ("heading", Some(level @ 1..=6)) => Self::Heading(level),
            ("item", Some(depth)) => Self::Item(depth),
            ("numbered", Some(depth)) => Self::Numbered(depth),
            _ => {
                let mut plains = Self::PLAIN.iter();
                let kind = plains.find(|(_, plain)| *plain == name);
                kind.map_or(Self::Paragraph, |(kind, _)| *kind)
            }
        }
    }
}

/// The images of a text in flat lists: the address of each, and how many parts come before it.
pub fn image_lists(images: &[PlacedImage]) -> (Vec<String>, Vec<u64>) {
    let list = images.iter().map(|image| {
        let before = u64::try_from(image.blocks_before).unwrap_or(u64::MAX);
        (image.url.as_str().to_owned(), before)
    });
    list.unzip()
}

/// The parts of a text in flat lists, as data sets keep them: the name of each, and two numbers
/// for each, where it begins and where it ends, in characters.
pub fn block_lists(text: &str, blocks: &[TextBlock]) -> (Vec<String>, Vec<u64>) {
    let kinds = blocks.iter().map(|block| block.kind.name()).collect();
    let mut characters = text.char_indices().map(|(byte, _)| byte).peekable();
    let mut passed = 0;
    let mut offsets = Vec::with_capacity(blocks.len() * 2);
    for byte in blocks
        .iter()
        .flat_map(|block| [block.text.start, block.text.end])
    {
        while characters.next_if(|at| *at < byte).is_some() {
            passed += 1;
        }
        offsets.push(passed);
    }
    (kinds, offsets)
}

/// The parts of a text from such lists, as far as they are in order and within the text.
pub fn blocks_of_lists(text: &str, kinds: &[String], offsets: &[u64]) -> Vec<TextBlock> {
    let ends = text
        .char_indices()
        .map(|(byte, _)| byte)
        .chain([text.len()]);
    let mut places = ends.enumerate().peekable();
    let mut byte_of = |character: u64| {
        while places.next_if(|(at, _)| (*at as u64) < character).is_some() {}
        let (at, byte) = places.peek()?;
        (*at as u64 == character).then_some(*byte)
    };
    let mut blocks = Vec::with_capacity(kinds.len());
    for (kind, place) in kinds.iter().zip(offsets.chunks_exact(2)) {
        let (Some(start), Some(end)) = (byte_of(place[0]), byte_of(place[1])) else {
            break;
        };
        blocks.push(TextBlock {
            kind: BlockKind::of_name(kind),
            text: start..end,
        });
    }
    blocks
}

/// The metadata that a page states about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The date of publication in ISO 8601, as precise as the page states it.
    pub published: Option<String>,
    /// The date of the last change, in the same form.
    pub modified: Option<String>,
    /// Its title, without the name of the site if that can be recognised.
    pub title: Option<String>,
    /// Its authors, in the order of the page.
    pub authors: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_names_that_are_read_again() {
        for kind in [
            BlockKind::Paragraph,
            BlockKind::Heading(3),
            BlockKind::Item(2),
            BlockKind::Numbered(1),
            BlockKind::Term,
            BlockKind::Definition,
            BlockKind::Table,
            BlockKind::Code,
            BlockKind::Quote,
            BlockKind::Caption,
            BlockKind::Formula,
        ] {
            assert_eq!(BlockKind::of_name(&kind.name()), kind);
        }
        for odd in ["", "heading", "heading7", "heading99", "item", "7"] {
            assert_eq!(BlockKind::of_name(odd), BlockKind::Paragraph, "{odd}");
        }
    }

    #[test]
    fn lists_give_the_parts_again() {
        let text = "Lämp\n\n灯台 lit";
        let block = |kind, text| TextBlock { kind, text };
        let blocks = [
            block(BlockKind::Heading(1), 0..5),
            block(BlockKind::Paragraph, 7..text.len()),
        ];
        let (kinds, offsets) = block_lists(text, &blocks);
        assert_eq!(kinds, ["heading1", "paragraph"]);
        assert_eq!(offsets, [0, 4, 6, 12]);
        assert_eq!(blocks_of_lists(text, &kinds, &offsets), blocks);
        // Lists of somebody else.
        for odd in [&[0, 99][..], &[5, 2], &[0], &[]] {
            assert!(blocks_of_lists(text, &kinds, odd).is_empty(), "{odd:?}");
        }
    }
}
