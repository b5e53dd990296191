//! The text of a page as its author wrote it: blocks with their case, line ends and indentation,
//! and the elements around each.
//!
//! A block ends where a block-level element begins or ends, and at an empty line. White space is
//! folded, but for preformatted text. Text that is hidden at first, buttons and what is meant for
//! readers without scripts are blocks as well, since tabs, questions and whole threads are written
//! that way; what is to be kept is decided later. Marks that wikis put into sentences (a link to
//! edit, the number of a footnote) are left out at once. Superscripts, subscripts and formulas keep
//! their meaning.

use rustc_hash::FxHashSet;

use crate::page::Span;

use super::attributes::ElementAttributes;
use super::containers::{AUTHOR, BlockPlace, COMMENT, Container, Containers, Within, is_container};
use super::formula;
use super::html::{Unread, is_furniture};
use super::scripts::{is_unspaced, subscript, superscript};
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
    /// Where the last link to a part of a page begins, as the marks of footnotes are.
    note_link: Option<usize>,
    /// Where an inline element ends at which the last one begins, and whether both are links.
    seam: Option<(usize, bool)>,
    /// Where the last inline element ends, and whether it is a link.
    inline_end: (usize, bool),
    /// The last formula, and where it ends.
    formula: (String, usize),
    /// The open elements that name an author: the number of elements around each, and where its
    /// text begins.
    naming: Vec<(usize, usize)>,
    names: Vec<BlockNote>,
    times: Vec<BlockNote>,
    images: Vec<ImagePlace>,
}

/// Where an image stands among the blocks of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ImagePlace {
    /// How many blocks begin before it.
    pub(super) blocks: usize,
    /// The innermost block-level element around it.
    pub(super) container: Option<u32>,
    /// Whether only a link leads to it.
    pub(super) is_linked: bool,
}

/// What the markup says at a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BlockNote {
    /// The number of the block.
    pub(super) block: usize,
    /// A name, or a time as written for machines.
    pub(super) text: String,
}

/// The longest script that is looked at, in bytes; elements within each other would have the same
/// text read again for each.
const MAX_SCRIPT_BYTES: usize = 300;
/// The most names and times that are kept of a page, and the longest, in bytes.
const MAX_NOTES: usize = 100;
const MAX_NOTE_BYTES: usize = 100;

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
    /// A container between words, after this many blocks: without text, it ends no block.
    Within {
        blocks: usize,
    },
    Preformatted,
    Skipped,
    Link,
    /// Its text is written as a script, from here on.
    Raised(ScriptStart),
    Lowered(ScriptStart),
}

/// Where a superscript or a subscript begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ScriptStart {
    /// Bytes of text before it.
    at: usize,
    /// Blocks that begin before it.
    blocks: usize,
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
            note_link: None,
            seam: None,
            inline_end: (0, false),
            formula: (String::new(), 0),
            naming: Vec::new(),
            names: Vec::new(),
            times: Vec::new(),
            images: Vec::new(),
        }
    }
}

impl Written {
    /// Reserves memory for this many bytes of text.
    pub(super) fn expect(&mut self, bytes: usize) {
        self.folder.expect(bytes);
    }

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
            "noscript" | "button" => TextRole::Block,
            "label" if !self.containers.is_in_text() => TextRole::Block,
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
            let is_within = !self.begins && matches!(name, "noscript" | "button" | "label");
            self.end_block();
            let blocks = self.blocks.len();
            let groups = self
                .containers
                .open_block(name, unread.is_some(), attributes, blocks);
            self.note(name, groups, attributes);
            if role == TextRole::Preformatted {
                self.preformatted += 1;
                Effect::Preformatted
            } else if is_within {
                Effect::Within { blocks }
            } else {
                Effect::Container
            }
        } else {
            match (role, name) {
                (TextRole::Break, _) => self.end_line(),
                (TextRole::Object, "img") => match formula::of_image(attributes) {
                    Some(formula) => self.formula(&formula),
                    None => self.folder.space(),
                },
                (TextRole::Object | TextRole::Void, _) if name != "math" => self.folder.space(),
                _ => {}
            }
            if self.preformatted > 0 && name == "span" && is_code_line(attributes) {
                self.begin_code_line();
            }
            let (end, was_link) = self.inline_end;
            let is_seam = end == self.folder.len() && !matches!(name, "sup" | "sub");
            self.seam = is_seam.then_some((end, was_link && name == "a"));
            let groups = self.containers.open_inline(name, attributes);
            self.note(name, groups, attributes);
            let start = ScriptStart {
                at: self.folder.len(),
                blocks: self.blocks.len(),
            };
            match name {
                "a" => {
                    self.open_link(attributes);
                    Effect::Link
                }
                "sup" if self.preformatted == 0 => Effect::Raised(start),
                "sub" if self.preformatted == 0 => Effect::Lowered(start),
                _ => Effect::Nothing,
            }
        };
        self.open.push(effect);
    }

    /// Notes that an element names an author or a time.
    fn note(&mut self, name: &str, groups: u32, attributes: &impl ElementAttributes) {
        let is_author =
            groups & AUTHOR != 0 || attributes.get("rel").is_some_and(|rel| rel == "author");
        if is_author && self.names.len() < MAX_NOTES {
            self.naming.push((self.open.len(), self.folder.len()));
        }
        if matches!(name, "time" | "local-time" | "relative-time")
            && let Some(time) = attributes.get("datetime")
            && self.times.len() < MAX_NOTES
            && time.len() <= MAX_NOTE_BYTES
        {
            self.times.push(BlockNote {
                block: self.here(),
                text: time.to_owned(),
            });
        }
    }

    /// Notes that an image stands here.
    pub(super) fn image(&mut self, is_linked: bool) {
        self.images.push(ImagePlace {
            blocks: self.blocks.len(),
            container: self.containers.here().container,
            is_linked,
        });
    }

    /// The number of the block that text would be in.
    fn here(&self) -> usize {
        self.blocks.len() - usize::from(!self.begins && !self.blocks.is_empty())
    }

    /// Handles the end of the innermost element.
    pub(super) fn close(&mut self) {
        let depth = self.open.len().saturating_sub(1);
        if let Some((_, from)) = self.naming.pop_if(|(around, _)| *around == depth)
            && let Some(text) = self.folder.since(from)
            && text.len() <= MAX_NOTE_BYTES
            && !text.is_empty()
        {
            self.names.push(BlockNote {
                block: self.blocks.len().saturating_sub(1),
                text: text.to_owned(),
            });
        }
        match self.open.pop() {
            None => {}
            Some(Effect::Skipped) => self.skipped -= 1,
            Some(effect @ (Effect::Container | Effect::Within { .. } | Effect::Preformatted)) => {
                self.end_block();
                self.containers.close_block(self.blocks.len());
                self.preformatted -= u32::from(effect == Effect::Preformatted);
                if matches!(effect, Effect::Within { blocks } if blocks == self.blocks.len()) {
                    self.begins = false;
                    self.folder.same_line();
                }
            }
            Some(effect) => {
                self.containers.close_inline();
                match effect {
                    Effect::Link => self.close_link(),
                    Effect::Raised(start) => {
                        let is_note = self.note_link.is_some_and(|link| link >= start.at);
                        self.close_script(start, |text| superscript(text, is_note));
                    }
                    Effect::Lowered(start) => self.close_script(start, subscript),
                    _ => {}
                }
                self.inline_end = (self.folder.len(), effect == Effect::Link);
            }
        }
    }

    /// Handles text, which is in this block of the page's visible text.
    pub(super) fn text(&mut self, text: &str, seen: usize) {
        if self.skipped > 0 {
            return;
        }
        if let Some((at, are_links)) = self.seam.take()
            && at == self.folder.len()
            && self.preformatted == 0
            && !self.begins
        {
            self.part_words(text, are_links);
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
            if block.seen == UNSEEN {
                block.seen = seen;
            }
        }
    }

    /// Adds a space between the words of two elements that only their style separates.
    fn part_words(&mut self, after: &str, are_links: bool) {
        let (last, first) = (self.folder.last(), after.chars().next());
        let are_two = last.zip(first).is_some_and(|(last, first)| {
            let is_new = last.is_lowercase() && (first.is_uppercase() || first.is_ascii_digit());
            let is_word = |c: char| c.is_alphanumeric() && !is_unspaced(c);
            is_new || (are_links && is_word(last) && is_word(first))
        });
        if are_two {
            self.folder.space();
        }
    }

    /// Handles a formula as text. The same one twice in a row is a picture of it for readers
    /// without MathML.
    pub(super) fn formula(&mut self, text: &str) {
        let is_again = self.formula.0 == text && self.formula.1 == self.folder.len();
        if !is_again && self.skipped == 0 {
            self.text(text, UNSEEN);
            self.formula = (text.to_owned(), self.folder.len());
        }
    }

    /// All blocks, with the text in which they are.
    pub(super) fn finish(mut self) -> WrittenPage {
        while !self.open.is_empty() {
            self.close();
        }
        let mut page = WrittenPage {
            text: self.folder.finish(),
            blocks: self.blocks,
            containers: self.containers.finish(),
            links: self.links,
            names: self.names,
            times: self.times,
            images: self.images,
            tables: FxHashSet::default(),
        };
        page.tables = page.whole_tables();
        page
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

    /// Ends the line of code before this one, if the markup shows lines as elements.
    fn begin_code_line(&mut self) {
        let is_within = !self.begins && self.folder.last() != Some('\n');
        if is_within && self.skipped == 0 {
            self.text("\n", UNSEEN);
        }
    }

    fn open_link(&mut self, attributes: &impl ElementAttributes) {
        let here = self.folder.len();
        if self.link.1 == 0 {
            self.link.0 = here;
        }
        self.link.1 += 1;
        if attributes
            .get("href")
            .is_some_and(|href| href.trim_start().starts_with('#'))
        {
            self.note_link = Some(here);
        }
    }

    fn close_link(&mut self) {
        self.link.1 = self.link.1.saturating_sub(1);
        let end = self.folder.len();
        if self.link.1 == 0 && self.link.0 < end {
            self.links.push(self.link.0..end);
        }
    }

    /// Writes the text of a script that ends here as `rewrite` does.
    fn close_script(&mut self, start: ScriptStart, rewrite: impl Fn(&str) -> String) {
        let begins_block = match self.blocks.get(start.blocks..) {
            Some([]) => false,
            Some([block]) if block.text.start >= start.at => true,
            // It holds blocks of its own.
            _ => return,
        };
        let is_long = self.folder.len().saturating_sub(start.at) > MAX_SCRIPT_BYTES;
        if self.begins || self.skipped > 0 || is_long {
            return;
        }
        let text = self.folder.cut(start.at);
        let written = rewrite(&text);
        let is_gone = written.is_empty();
        if !is_gone {
            let before = text.len() - text.trim_start().len();
            self.folder.append(text.get(..before).unwrap_or_default());
            self.folder.append(&written);
        }
        let end = self.folder.len();
        if is_gone && text.starts_with('\n') {
            self.folder.line();
        }
        if is_gone && begins_block {
            self.blocks.pop();
            let blocks = self.blocks.len();
            let later = self.images.iter_mut().rev();
            let later = later.take_while(|image| image.blocks > blocks);
            later.for_each(|image| image.blocks = blocks);
            self.folder.line();
            self.begins = true;
        } else if let Some(block) = self.blocks.last_mut() {
            block.text.end = end;
        }
        self.link.0 = self.link.0.min(end);
        while let Some(link) = self.links.pop_if(|link| link.end > end) {
            if link.start < end {
                self.links.push(link.start..end);
            }
        }
    }
}

/// Whether an element within code is a line of it, by the class names of common highlighters.
fn is_code_line(attributes: &impl ElementAttributes) -> bool {
    const LINES: [&str; 5] = [
        "line",
        "code-line",
        "token-line",
        "view-line",
        "react-code-line",
    ];
    let classes = attributes.get("class").unwrap_or_default();
    classes
        .split_ascii_whitespace()
        .any(|class| LINES.contains(&class) || class.ends_with("-code-line"))
}

/// The number of the visible block of a text that is not among the page's visible text.
const UNSEEN: usize = usize::MAX;

/// The text of a page, block by block, when all of it was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WrittenPage {
    text: String,
    blocks: Vec<WrittenBlock>,
    pub(super) containers: Vec<Container>,
    /// Parts of the text, in order, that are within links.
    pub(super) links: Vec<Span>,
    /// The texts of elements that name an author.
    pub(super) names: Vec<BlockNote>,
    /// Times as written for machines.
    pub(super) times: Vec<BlockNote>,
    /// The images of elements, in their order.
    pub(super) images: Vec<ImagePlace>,
    /// The tables that are one part of the text.
    pub(super) tables: FxHashSet<u32>,
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
    pub(super) fn container_of(&self, number: usize) -> Option<&Container> {
        self.containers.get(self.place(number).container? as usize)
    }

    /// Whether a block is within the comments of readers, by the names of classes.
    pub(super) fn is_comment(&self, number: usize) -> bool {
        let mut around = self.around(number);
        around.any(|(_, container)| container.groups & COMMENT != 0)
    }

    /// What the elements around a block are: a set of [`Within`].
    pub(super) fn within(&self, number: usize) -> u32 {
        self.container_of(number)
            .map_or(0, |container| container.within)
    }

    /// Whether the markup declares a block as navigation or as part of a list of sources.
    pub(super) fn is_furniture(&self, number: usize) -> bool {
        self.within(number) & Within::Furniture as u32 != 0
    }

    /// The block-level elements around a block, the innermost first, with their numbers.
    pub(super) fn around(&self, number: usize) -> impl Iterator<Item = (u32, &Container)> {
        let mut next = self.place(number).container;
        std::iter::from_fn(move || {
            let number = next?;
            let container = self.containers.get(number as usize)?;
            next = container.parent;
            Some((number, container))
        })
    }
}
