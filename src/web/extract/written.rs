//! The text of a page as its author wrote it: blocks with their case, line ends and indentation,
//! and the elements around each.
//!
//! A block ends where a block-level element begins or ends, and at an empty line. White space is
//! folded, but for preformatted text. Text that is hidden at first, buttons and what is meant for
//! readers without scripts are blocks as well, since tabs, questions and whole threads are written
//! that way; what is to be kept is decided later. Marks that wikis put into sentences (a link to
//! edit, the number of a footnote) are left out at once.

use crate::page::Span;

use super::attributes::ElementAttributes;
use super::containers::{BlockPlace, Container, Containers, Within, is_container};
use super::html::{Unread, is_furniture};
use super::text::{TextRole, WhitespaceFolder};

/// The text of a page, block by block.
#[derive(Debug)]
pub(super) struct Written {
    folder: WhitespaceFolder,
    blocks: Vec<WrittenBlock>,
    /// The block-level elements; none if the markup was too broken to know them.
    containers: Containers,
    /// Parts of the text, in order, that are within links.
    links: Vec<Span>,
    /// Whether the next text begins a block.
    begins: bool,
    /// Line ends since the last word.
    line_ends: u32,
    /// The effect of each open element, outermost first.
    open: Vec<Effect>,
    /// Open elements whose text is left out.
    skipped: u32,
    preformatted: u32,
    /// White space at the beginning of preformatted text.
    indentation: String,
    /// The innermost link: where it begins, and how many are open.
    link: (usize, u32),
}

/// A block of text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct WrittenBlock {
    /// Where its text is.
    text: Span,
    /// The elements it begins in.
    place: BlockPlace,
    /// The number of the block of the page's visible text that it begins in, if it is visible.
    seen: usize,
}

/// What ends with an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Nothing,
    Container,
    Preformatted,
    Skipped,
    Link,
}

impl Default for Written {
    fn default() -> Self {
        Self {
            folder: WhitespaceFolder::new(usize::MAX),
            blocks: Vec::new(),
            containers: Containers::default(),
            links: Vec::new(),
            begins: true,
            line_ends: 0,
            open: Vec::new(),
            skipped: 0,
            preformatted: 0,
            indentation: String::new(),
            link: (0, 0),
        }
    }
}

impl Written {
    /// Handles the start of an element.
    pub(super) fn open(
        &mut self,
        name: &str,
        role: TextRole,
        unread: Option<Unread>,
        attributes: &impl ElementAttributes,
    ) {
        // The model decides about them.
        let role = match name {
            "noscript" | "button" | "label" => TextRole::Block,
            _ => role,
        };
        let is_block = is_container(role);
        let is_left_out = role == TextRole::Aside
            || unread == Some(Unread::Mark)
            || (!is_block && (unread.is_some() || is_furniture(name, attributes)));
        let effect = if is_left_out || self.skipped > 0 {
            self.skipped += 1;
            Effect::Skipped
        } else if is_block {
            self.end_block();
            let blocks = self.blocks.len();
            self.containers
                .open_block(name, unread.is_some(), attributes, blocks);
            if role == TextRole::Preformatted {
                self.preformatted += 1;
                Effect::Preformatted
            } else {
                Effect::Container
            }
        } else {
            match role {
                TextRole::Break => self.end_line(),
                TextRole::Object | TextRole::Void => self.folder.space(),
                _ => {}
            }
            self.containers.open_inline(name, attributes);
            if name == "a" {
                self.open_link();
                Effect::Link
            } else {
                Effect::Nothing
            }
        };
        self.open.push(effect);
    }

    /// Handles the end of the innermost element.
    pub(super) fn close(&mut self) {
        match self.open.pop() {
            None => {}
            Some(Effect::Skipped) => self.skipped -= 1,
            Some(effect @ (Effect::Container | Effect::Preformatted)) => {
                self.end_block();
                self.containers.close_block(self.blocks.len());
                self.preformatted -= u32::from(effect == Effect::Preformatted);
            }
            Some(effect) => {
                self.containers.close_inline();
                if effect == Effect::Link {
                    self.close_link();
                }
            }
        }
    }

    /// Handles text, which is in this block of the page's visible text.
    pub(super) fn text(&mut self, text: &str, seen: usize) {
        if self.skipped > 0 {
            return;
        }
        let before = self.folder.len();
        if self.preformatted == 0 {
            self.folder.push(text);
        } else if self.begins && text.trim().is_empty() {
            // The indentation of the first line, if one follows.
            self.indentation.push_str(text);
        } else {
            self.folder.raw(&std::mem::take(&mut self.indentation));
            self.folder.raw(text);
        }
        let end = self.folder.len();
        if end == before {
            return;
        }
        self.line_ends = 0;
        if self.begins {
            // The separator comes first.
            let start = before + usize::from(before > 0);
            self.blocks.push(WrittenBlock {
                text: start..end,
                place: self.containers.here(),
                seen,
            });
            self.begins = false;
        } else if let Some(block) = self.blocks.last_mut() {
            block.text.end = end;
        }
    }

    /// All blocks, with the text in which they are.
    pub(super) fn finish(mut self) -> WrittenPage {
        while !self.open.is_empty() {
            self.close();
        }
        WrittenPage {
            text: self.folder.finish(),
            blocks: self.blocks,
            containers: self.containers.finish(),
            links: self.links,
        }
    }

    fn end_block(&mut self) {
        self.folder.line();
        self.begins = true;
        self.line_ends = 0;
        self.indentation.clear();
    }

    fn end_line(&mut self) {
        if self.preformatted > 0 {
            self.text("\n", 0);
            return;
        }
        self.line_ends += 1;
        self.folder.line();
        self.begins |= self.line_ends > 1;
    }

    fn open_link(&mut self) {
        if self.link.1 == 0 {
            self.link.0 = self.folder.len();
        }
        self.link.1 += 1;
    }

    fn close_link(&mut self) {
        self.link.1 = self.link.1.saturating_sub(1);
        let end = self.folder.len();
        if self.link.1 == 0 && self.link.0 < end {
            self.links.push(self.link.0..end);
        }
    }
}

/// The text of a page, block by block, when all of it was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WrittenPage {
    text: String,
    blocks: Vec<WrittenBlock>,
    pub(super) containers: Vec<Container>,
    /// Parts of the text, in order, that are within links.
    pub(super) links: Vec<Span>,
}

/// What a block of text is for its reader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum BlockSpot {
    /// A paragraph, or anything that is none of the others.
    #[default]
    Paragraph,
    /// A heading of this level, 1 to 6.
    Heading(u8),
    /// An item of a list.
    Item,
    /// A table cell, by the numbers of its row and itself.
    Cell {
        /// Number of the row.
        row: Option<u32>,
        /// Number of the cell.
        cell: Option<u32>,
    },
    /// Text whose white space and line ends count.
    Preformatted,
}

impl WrittenPage {
    /// Plain text, with its line ends.
    pub(super) fn plain(text: &str) -> Self {
        let mut written = Written::default();
        for line in text.lines() {
            written.text(line, 0);
            written.end_line();
        }
        written.finish()
    }

    /// How many blocks it has.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Where the text of a block is, as the links say where theirs is.
    pub(super) fn range(&self, number: usize) -> Span {
        self.blocks
            .get(number)
            .map_or(0..0, |block| block.text.clone())
    }

    /// The text of a block.
    pub(super) fn text_of(&self, number: usize) -> &str {
        self.text.get(self.range(number)).unwrap_or_default()
    }

    /// The elements that a block begins in.
    pub(super) fn place(&self, number: usize) -> BlockPlace {
        self.blocks
            .get(number)
            .map_or_else(BlockPlace::default, |block| block.place)
    }

    /// Whether a reader sees a block at first.
    pub(super) fn is_visible(&self, number: usize) -> bool {
        const UNSEEN: u32 = Within::Hidden as u32 | Within::Noscript as u32 | Within::Button as u32;
        self.within(number) & UNSEEN == 0
    }

    /// The number of a visible block among the page's visible blocks.
    pub(super) fn visible_number(&self, number: usize) -> usize {
        self.blocks.get(number).map_or(0, |block| block.seen)
    }

    /// Whether each of the page's `count` visible blocks is chosen.
    pub(super) fn visible(&self, chosen: &[bool], count: usize) -> Vec<bool> {
        let mut of_visible = vec![false; count];
        for (number, block) in self.blocks.iter().enumerate() {
            if self.is_visible(number)
                && let Some(is_chosen) = of_visible.get_mut(block.seen)
            {
                *is_chosen |= chosen.get(number).copied().unwrap_or(false);
            }
        }
        of_visible
    }

    /// The innermost block-level element around a block.
    fn container_of(&self, number: usize) -> Option<&Container> {
        self.containers.get(self.place(number).container? as usize)
    }

    /// What the elements around a block are: a set of [`Within`].
    pub(super) fn within(&self, number: usize) -> u32 {
        self.container_of(number)
            .map_or(0, |container| container.within)
    }

    /// What a block is for its reader.
    pub(super) fn spot(&self, number: usize) -> BlockSpot {
        let Some(container) = self.container_of(number) else {
            return BlockSpot::Paragraph;
        };
        if container.within & Within::Preformatted as u32 != 0 {
            return BlockSpot::Preformatted;
        }
        match container.name() {
            "h1" => BlockSpot::Heading(1),
            "h2" => BlockSpot::Heading(2),
            "h3" => BlockSpot::Heading(3),
            "h4" => BlockSpot::Heading(4),
            "h5" => BlockSpot::Heading(5),
            "h6" => BlockSpot::Heading(6),
            "li" | "dd" | "dt" => BlockSpot::Item,
            "td" | "th" => BlockSpot::Cell {
                row: container.parent,
                cell: self.place(number).container,
            },
            _ => BlockSpot::Paragraph,
        }
    }
}
