//! The caption of each picture, and who is credited for it: by the elements they share first, then
//! by what classes are called.
//!
//! This module knows elements as ranges of the page's text, with the part that each plays; it is
//! asked once a page, after all of it was read.

use crate::page::Span;

use super::alt_text;
use super::attributes::ElementAttributes;
use super::caption_text::{MAX_CREDIT, credit_in, is_phrase, label_of};
use super::names::NameTable;
use super::neighbours::{NeighbourSlot, is_heading};
use super::scripts::is_unspaced;

/// The longest caption that only the structure shows, in bytes; a longer text is an article.
const MAX_BESIDE: usize = 300;
/// The shortest paragraph by which running text is known, in bytes.
const MIN_PARAGRAPH: usize = 100;
/// The most text that a box may have besides a picture and the caption its class names.
const MAX_OTHER: usize = 100;
/// The longest caption of any kind, in bytes; a longer one is the text of the page.
pub(super) const MAX_CAPTION: usize = 5_000;
/// How many cells of a row are looked through.
const MAX_CELLS: usize = 100;
/// How many elements are looked through between a caption and its picture.
const MAX_LEVELS: usize = 8;
/// Pictures of a side below this are icons, in CSS pixels.
const MIN_SIDE: u32 = 48;

/// What an element is to the pictures near it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum NearPart {
    #[default]
    Other,
    Figure,
    Caption,
    Credit,
    /// The meaning of the signs on a map or a diagram.
    Legend,
    /// What is beside a caption and no part of it: the name of the file, a button, a price.
    Extra,
    Heading,
    Paragraph,
    Table,
    Row,
    Cell,
    /// A link that does not lead to an image.
    Link,
    /// Navigation, and boxes of editors: their pictures are signs.
    Furniture,
    /// What is shown without scripts.
    Noscript,
}

/// Words of class names.
static WORDS: NameTable<NearPart> = NameTable::of_words(
    &[
        (
            NearPart::Caption,
            "caption captions thumbcaption gallerycaption gallerytext captiontext imagecaption \
             imgcaption photocaption figcaption cutline bildtext didascalia",
        ),
        (
            NearPart::Credit,
            "credit credits copyright photocredit imagecredit imgcredit photographer attribution",
        ),
        (NearPart::Legend, "legend"),
        (
            NearPart::Extra,
            "galleryfilename button btn price toggle hide",
        ),
        (
            NearPart::Furniture,
            "ambox mbox tmbox ombox cmbox fmbox navbox sistersitebox portalbox stub",
        ),
    ],
    NearPart::Other,
);

impl NearPart {
    /// That of an element with this name.
    pub(super) fn of(name: &str, attributes: &impl ElementAttributes) -> Self {
        match name {
            "figcaption" => Self::Caption,
            "figure" => Self::Figure,
            "tr" => Self::Row,
            "nav" | "select" => Self::Furniture,
            "noscript" => Self::Noscript,
            _ if is_heading(name) => Self::Heading,
            "a" if attributes.get("class").map(Self::of_class) == Some(Self::Extra) => Self::Extra,
            "a" => {
                let path = attributes
                    .get("href")
                    .unwrap_or_default()
                    .split(['?', '#'])
                    .next();
                if path.is_some_and(alt_text::is_image) {
                    Self::Other
                } else {
                    Self::Link
                }
            }
            "div" | "p" | "span" | "td" | "th" | "table" | "dd" | "dt" | "li" | "small" | "em"
            | "i" | "b" | "strong" | "cite" | "section" | "aside" => {
                let by_class = attributes.get("class").map_or(Self::Other, Self::of_class);
                match (by_class, name) {
                    (Self::Other, "td") => Self::Cell,
                    (Self::Other, "table") => Self::Table,
                    (Self::Other, "p") => Self::Paragraph,
                    _ => by_class,
                }
            }
            _ => Self::Other,
        }
    }

    fn of_class(classes: &str) -> Self {
        let words = classes.split(|c: char| c.is_ascii_whitespace() || c == '-' || c == '_');
        let mut part = Self::Other;
        for word in words {
            match WORDS.get(word) {
                // A source is something else where no picture is meant.
                Self::Other if word == "source" && part == Self::Caption => part = Self::Credit,
                // `caption-credit` and `toggle-caption` are no captions.
                found @ (Self::Credit | Self::Extra) => return found,
                found if part == Self::Other => part = found,
                _ => {}
            }
        }
        part
    }
}

/// A picture on the page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Picture {
    pub(super) slot: usize,
    /// The element that the markup names as its description.
    pub(super) described_by: Option<usize>,
    /// Its declared sides, if any.
    pub(super) sides: [Option<u32>; 2],
    /// Whether it is another way to show the one before it, for readers without scripts.
    pub(super) is_again: bool,
}

/// The words that stand with a picture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Beside {
    pub(super) caption: Option<Span>,
    pub(super) credit: Option<Span>,
}

/// The elements of a page and its pictures, both in document order.
pub(super) struct Captions<'p> {
    text: &'p str,
    slots: &'p [NeighbourSlot],
    pictures: &'p [Picture],
    /// The captions by name, without those inside others.
    named: Vec<usize>,
    /// The credits and legends.
    marks: Vec<usize>,
    /// How many different pictures there are before each, and in all.
    counts: Vec<usize>,
}

impl<'p> Captions<'p> {
    pub(super) fn new(text: &'p str, slots: &'p [NeighbourSlot], pictures: &'p [Picture]) -> Self {
        let mut counts = vec![0];
        for picture in pictures {
            let before = counts.last().copied().unwrap_or_default();
            counts.push(before + usize::from(!picture.is_again));
        }
        // The sign of a legend is a colour, without text.
        let is_mark = |slot: &NeighbourSlot| match slot.part {
            NearPart::Legend => true,
            NearPart::Credit | NearPart::Extra => slot.has_text(),
            _ => false,
        };
        let marks = slots.iter().enumerate().filter(|(_, slot)| is_mark(slot));
        let mut captions = Self {
            text,
            slots,
            pictures,
            named: Vec::new(),
            marks: marks.map(|(number, _)| number).collect(),
            counts,
        };
        let mut end = 0;
        for (number, slot) in slots.iter().enumerate() {
            let is_named = slot.part == NearPart::Caption
                && number >= end
                && (1..=MAX_CAPTION).contains(&slot.len());
            // Slides are counted in such elements as well: `1 of 7`.
            let has_words = || {
                let text = text.get(captions.range(number)).unwrap_or_default();
                let mut words = text.split(|c: char| !c.is_alphabetic());
                words.any(|word| word.chars().nth(2).is_some() || word.contains(is_unspaced))
            };
            if is_named
                && captions.pictures_in(number).is_empty()
                && has_words()
                && !captions.is_within_furniture(number)
            {
                captions.named.push(number);
                end = slot.last + 1;
            }
        }
        captions
    }

    /// The words beside each picture.
    pub(super) fn all(&self) -> Vec<Beside> {
        let mut found: Vec<Option<usize>> = vec![None; self.pictures.len()];
        for (picture, caption) in self.pictures.iter().zip(&mut found) {
            *caption = picture.described_by;
        }
        for caption in &self.named {
            self.give(*caption, &mut found);
        }
        // Pictures of one figure share its caption.
        let mut last: Option<(usize, Beside)> = None;
        let pictures = self.pictures.iter().zip(found);
        let beside = pictures.map(|(picture, named)| match named {
            Some(slot) => match &last {
                Some((of, beside)) if *of == slot => beside.clone(),
                _ => {
                    let beside = self.read(self.with_title(slot), Some(slot));
                    last = Some((slot, beside.clone()));
                    beside
                }
            },
            None => match self.by_structure(picture) {
                Some(range) => self.read(range, None),
                None => Beside::default(),
            },
        });
        let mut beside: Vec<Beside> = beside.collect();
        for at in 1..beside.len() {
            if self.pictures[at].is_again && beside[at].caption.is_none() {
                beside[at] = beside[at - 1].clone();
            }
        }
        beside
    }

    /// The text of a caption, with the heading of its figure.
    fn with_title(&self, caption: usize) -> Span {
        let slot = &self.slots[caption];
        let range = self.range(caption);
        let title = slot.previous.map(|before| &self.slots[before]);
        let is_in_figure = slot
            .parent
            .is_some_and(|up| self.slots[up].part == NearPart::Figure);
        match title.filter(|title| is_in_figure && title.part == NearPart::Heading) {
            Some(title) => self.trimmed(title.start..range.end),
            None => range,
        }
    }

    /// Gives a caption to the pictures it stands with: those before it in the smallest element
    /// around it that has any, with no text between; else those after it; else the only one in a
    /// small box.
    fn give(&self, caption: usize, found: &mut [Option<usize>]) {
        let Some((around, within)) = self.smallest_with_pictures(caption) else {
            return;
        };
        let is_figure = self.slots[around].part == NearPart::Figure;
        let text = self.range(caption);
        let first_after = within.start
            + self.pictures[within.clone()].partition_point(|picture| picture.slot < caption);
        let slot = |at: usize| &self.slots[self.pictures[at].slot];
        let stands_behind = |at: usize| is_figure || self.is_blank(slot(at).end, text.start);
        let stands_before = |at: usize| is_figure || self.is_blank(text.end, slot(at).start);
        let mut claim = |at: usize, is_next: bool| {
            let is_free = is_next && found[at].is_none();
            if is_free {
                found[at] = Some(caption);
            }
            is_free
        };
        let before = (within.start..first_after).rev();
        let before = before.take_while(|at| claim(*at, stands_behind(*at)));
        if before.count() > 0 {
            return;
        }
        let after = (first_after..within.end).take_while(|at| claim(*at, stands_before(*at)));
        let given = after.count() > 0;
        let other = self.slots[around].len().saturating_sub(text.len());
        if !given && self.count(within.clone()) == 1 && other <= MAX_OTHER {
            for one in &mut found[within] {
                one.get_or_insert(caption);
            }
        }
    }

    /// The smallest element around this one that has pictures, with their numbers.
    fn smallest_with_pictures(&self, slot: usize) -> Option<(usize, Span)> {
        let mut around = self.slots[slot].parent;
        for _ in 0..MAX_LEVELS {
            let within = self.pictures_in(around?);
            if !within.is_empty() {
                return around.zip(Some(within));
            }
            around = self.slots[around?].parent;
        }
        None
    }

    /// The text that stands with a picture alone in a box, or in the cell below.
    fn by_structure(&self, picture: &Picture) -> Option<Span> {
        let is_icon = |side: &Option<u32>| side.is_some_and(|side| side < MIN_SIDE);
        if picture.sides.iter().any(is_icon) {
            return None;
        }
        let mut inside = picture.slot;
        loop {
            let around = self.slots[inside].parent?;
            let slot = &self.slots[around];
            if self.count(self.pictures_in(around)) > 1 {
                return self.cell_below(inside);
            }
            if slot.part == NearPart::Row && slot.len() == self.slots[inside].len() {
                return self.cell_below(inside);
            }
            if slot.len() > self.slots[inside].len() {
                return self.in_box(around, inside);
            }
            inside = around;
        }
    }

    /// The text of a box besides the child with the picture. Cards of shops, lists of articles and
    /// authors are built the same way, so the box stands between paragraphs, or is a cell that has
    /// its row for itself.
    fn in_box(&self, around: usize, inside: usize) -> Option<Span> {
        let (slot, child) = (&self.slots[around], &self.slots[inside]);
        let after = self.trimmed(child.end..slot.end);
        let before = self.trimmed(slot.start..child.start);
        let range = match (before.is_empty(), after.is_empty()) {
            (true, false) => after,
            (false, true) => before,
            _ => return None,
        };
        let text = self.text.get(range.clone()).unwrap_or_default();
        if range.len() > MAX_BESIDE || text.contains('\n') || !is_phrase(text) {
            return None;
        }
        let is_box = match slot.part {
            NearPart::Cell => self.is_only_cell(around),
            NearPart::Other | NearPart::Figure => self.is_among_paragraphs(around),
            NearPart::Paragraph => {
                range.start >= child.end
                    && range.len() <= MAX_BESIDE / 2
                    && self.is_among_paragraphs(around)
            }
            _ => false,
        };
        if !is_box || self.is_within_furniture(around) {
            return None;
        }
        let mut others = around + 1..=slot.last;
        let is_title = others.any(|number| {
            let inner = &self.slots[number];
            let is_other = !(inside..=child.last).contains(&number);
            let is_all = inner.start <= range.start && inner.end >= range.end;
            is_other
                && (inner.part == NearPart::Heading || (inner.part == NearPart::Link && is_all))
        });
        (!is_title).then_some(range)
    }

    fn is_within_furniture(&self, slot: usize) -> bool {
        let mut above = std::iter::successors(self.slots[slot].parent, |up| self.slots[*up].parent);
        above.any(|up| self.slots[up].part == NearPart::Furniture)
    }

    /// Whether a paragraph of some length stands before or behind an element.
    fn is_among_paragraphs(&self, slot: usize) -> bool {
        let is_prose = |number: usize| {
            let slot = &self.slots[number];
            slot.part == NearPart::Paragraph && slot.len() >= MIN_PARAGRAPH
        };
        let next = self.slots[slot].last + 1;
        let follows = self.slots.get(next);
        let is_sibling = follows.is_some_and(|next| next.parent == self.slots[slot].parent);
        self.slots[slot].previous.is_some_and(is_prose) || (is_sibling && is_prose(next))
    }

    /// Whether a cell has a row for itself, as in the boxes of encyclopedias.
    fn is_only_cell(&self, cell: usize) -> bool {
        let row = self.slots[cell].parent;
        row.is_some_and(|row| {
            let slot = &self.slots[row];
            slot.part == NearPart::Row && slot.last == self.slots[cell].last && cell == row + 1
        })
    }

    /// The text of the cell in the next row that has the place of the cell around a picture.
    fn cell_below(&self, inside: usize) -> Option<Span> {
        let up = std::iter::successors(Some(inside), |up| self.slots[*up].parent);
        let cell = up
            .take(MAX_LEVELS)
            .find(|up| self.slots[*up].part == NearPart::Cell)?;
        let row = self.slots[cell].parent?;
        let is_row = |number: usize| {
            let slot = self.slots.get(number);
            slot.is_some_and(|slot| {
                slot.part == NearPart::Row && slot.parent == self.slots[row].parent
            })
        };
        let below = self.slots[row].last + 1;
        if !is_row(row) || !is_row(below) || self.slots[cell].has_text() {
            return None;
        }
        let cells = |row: usize| -> Vec<usize> {
            let mut cells = Vec::new();
            let mut at = row + 1;
            while at <= self.slots[row].last && cells.len() <= MAX_CELLS {
                cells.push(at);
                at = self.slots[at].last + 1;
            }
            cells
        };
        let (of_row, of_below) = (cells(row), cells(below));
        let place = of_row.iter().position(|number| *number == cell)?;
        let text = *of_below.get(place)?;
        let parent = self.slots[row].parent?;
        let is_last = self.slots[parent].last == self.slots[below].last;
        let is_gallery = of_row.len() == of_below.len() && (of_row.len() > 1 || is_last);
        let is_caption = self.slots[text].part == NearPart::Cell
            && self.slots[text].has_text()
            && self.slots[text].len() <= MAX_BESIDE
            && is_phrase(self.text.get(self.range(text)).unwrap_or_default())
            && self.pictures_in(below).is_empty();
        (is_gallery && is_caption).then(|| self.range(text))
    }

    /// A caption without legends, and with its credit apart. `slot` is its element, if it has one.
    fn read(&self, range: Span, slot: Option<usize>) -> Beside {
        let mut caption = range;
        let mut credit = None;
        // Elements begin in the order of their numbers.
        let from = self
            .marks
            .partition_point(|mark| self.slots[*mark].start < caption.start);
        let inside = self.marks[from..].iter();
        let inside = inside.take_while(|mark| self.slots[**mark].start < caption.end);
        let marks: Vec<usize> = inside.copied().collect();
        let legend = marks
            .iter()
            .find(|mark| self.slots[**mark].part == NearPart::Legend);
        if let Some(legend) = legend {
            caption.end = self.slots[*legend].start;
        }
        for mark in marks.iter().rev() {
            let part = &self.slots[*mark];
            if part.start < caption.end && self.is_blank(part.end, caption.end) {
                if part.part == NearPart::Credit {
                    credit.get_or_insert(self.range(*mark));
                }
                caption.end = part.start;
            }
        }
        for mark in marks {
            let part = &self.slots[mark];
            if part.end <= caption.end && self.is_blank(caption.start, part.start) {
                if part.part == NearPart::Credit {
                    credit.get_or_insert(self.range(mark));
                }
                caption.start = part.end;
            }
        }
        caption.end = caption.end.max(caption.start);
        let mut caption = self.trimmed(caption);
        caption.start += label_of(&self.text[caption.clone()]);
        if credit.is_none()
            && let Some(at) = credit_in(&self.text[caption.clone()])
        {
            let text = self.text[caption.start + at..caption.end].trim_end_matches([')', ']']);
            credit = Some(self.trimmed(caption.start + at..caption.start + at + text.len()));
            let rest = &self.text[caption.start..caption.start + at];
            let is_joint = |c: char| c.is_whitespace() || "([|/–—-".contains(c);
            caption.end = caption.start + rest.trim_end_matches(is_joint).len();
        }
        credit = credit.or_else(|| self.credit_beside(slot?));
        Beside {
            caption: Some(caption).filter(|caption| !caption.is_empty()),
            credit: credit.filter(|credit| !credit.is_empty()),
        }
    }

    /// The credit that stands in the same box as a caption.
    fn credit_beside(&self, caption: usize) -> Option<Span> {
        let (around, within) = self.smallest_with_pictures(caption)?;
        if self.count(within) > 1
            || self.slots[around].len() > self.slots[caption].len() + MAX_CREDIT + MAX_OTHER
        {
            return None;
        }
        let from = self.marks.partition_point(|mark| *mark <= around);
        let inside = self.marks[from..].iter();
        let mut inside = inside.take_while(|mark| **mark <= self.slots[around].last);
        let mark = inside.find(|mark| {
            let slot = &self.slots[**mark];
            slot.part == NearPart::Credit && slot.len() <= MAX_CREDIT
        })?;
        Some(self.range(*mark))
    }

    /// The numbers of the pictures within an element.
    fn pictures_in(&self, slot: usize) -> Span {
        let last = self.slots[slot].last;
        let from = self.pictures.partition_point(|picture| picture.slot < slot);
        let to = self
            .pictures
            .partition_point(|picture| picture.slot <= last);
        from..to
    }

    /// How many different pictures these are.
    fn count(&self, pictures: Span) -> usize {
        self.counts[pictures.end] - self.counts[pictures.start]
    }

    fn range(&self, slot: usize) -> Span {
        self.trimmed(self.slots[slot].start..self.slots[slot].end)
    }

    fn trimmed(&self, range: Span) -> Span {
        let text = self.text.get(range.clone()).unwrap_or_default();
        let start = range.start + (text.len() - text.trim_start().len());
        start..start + text.trim().len()
    }

    fn is_blank(&self, from: usize, to: usize) -> bool {
        from >= to || self.trimmed(from..to).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Options, extract_text};
    use crate::address::PageUrl;
    use crate::page::ImageTexts;

    /// The texts of each image of a page.
    fn texts(html: &str) -> Vec<ImageTexts> {
        let url = PageUrl::parse("http://a.test/").unwrap();
        let page = extract_text(&url, html, &Options::default());
        page.images.into_iter().map(|image| image.texts).collect()
    }

    /// The caption and the credit of each image.
    fn beside(html: &str) -> Vec<(Option<String>, Option<String>)> {
        let texts = texts(html).into_iter();
        texts
            .map(|texts| (texts.figcaption, texts.credit))
            .collect()
    }

    fn captions(html: &str) -> Vec<Option<String>> {
        beside(html)
            .into_iter()
            .map(|(caption, _)| caption)
            .collect()
    }

    const PROSE: &str = "<p>The keeper climbed to the lamp each evening, and lit it before the fog came \
                         in from the sea, as the book of the tower says.</p>";

    #[test]
    fn captions_by_the_markup_of_common_systems() {
        for (name, html) in [
            (
                "MediaWiki before 1.40",
                "<div class='thumb tright'><div class=thumbinner><a class=image href=/wiki/File:L.jpg><img \
                 src=l.jpg></a><div class=thumbcaption><div class=magnify><a href=/wiki/File:L.jpg></a></div>The \
                 lamp</div></div></div>",
            ),
            (
                "MediaWiki since",
                "<figure typeof='mw:File/Thumb'><a href=/wiki/File:L.jpg><img src=l.jpg></a>\
                 <figcaption>The lamp</figcaption></figure>",
            ),
            (
                "a gallery of a wiki",
                "<ul><li class=gallerybox><div><div class=thumb><a><img src=l.jpg></a></div><div \
                 class=gallerytext><p><a class=galleryfilename>L.jpg</a> <a href=/lamp>The lamp</a></p>\
                 </div></div></ul>",
            ),
            (
                "an infobox",
                "<table class=infobox><tr><th colspan=2>Tower<tr><td colspan=2><a class=image><img \
                 src=l.jpg></a><br>The lamp<tr><th>Built<td>1811</table>",
            ),
            (
                "WordPress, classic",
                "<div class=wp-caption><a href=l-large.jpg><img src=l.jpg></a><p class=wp-caption-text>The \
                 lamp</p></div>",
            ),
            (
                "WordPress, a gallery of blocks",
                "<figure class=wp-block-gallery><figure class=wp-block-image><img src=l.jpg><figcaption>The \
                 lamp</figcaption></figure></figure>",
            ),
            (
                "Blogger",
                "<table class=tr-caption-container><tr><td><a href=l.jpg><img src=l.jpg></a><tr><td \
                 class=tr-caption>The lamp</table>",
            ),
            (
                "Substack",
                "<div class=captioned-image-container><figure><a href=l.png><div><picture><img src=l.jpg>\
                 </picture></div></a><figcaption class=image-caption>The lamp</figcaption></figure></div>",
            ),
            (
                "Drupal",
                "<div class=media-image><img src=l.jpg><div class='field field--name-field-caption'>The \
                 lamp</div></div>",
            ),
            (
                "a caption above",
                "<div><div class=img-caption>The lamp</div><img src=l.jpg></div>",
            ),
            (
                "a label for readers who do not see it",
                "<figure><img src=l.jpg><figcaption><span>Image caption, </span>The \
                 lamp</figcaption></figure>",
            ),
            (
                "by reference",
                "<img src=l.jpg aria-describedby='d'><p>Other text of the page</p><p id=d>The lamp</p>",
            ),
        ] {
            for (caption, credit) in beside(html) {
                assert_eq!(
                    (caption.as_deref(), credit),
                    (Some("The lamp"), None),
                    "{name}"
                );
            }
        }
        let titled =
            "<figure><h4>The lamp.</h4><img src=l.jpg><figcaption>Lit.</figcaption></figure>";
        assert_eq!(captions(titled), [Some("The lamp.\nLit.".to_owned())]);
    }

    #[test]
    fn a_text_alone_with_a_picture_among_paragraphs_is_its_caption() {
        let boxed = |inside: &str| captions(&format!("{PROSE}<div>{inside}</div>{PROSE}"));
        let lamp = [Some("The lamp of Skerry".to_owned())];
        assert_eq!(boxed("<img src=l.jpg><br>The lamp of Skerry"), lamp);
        assert_eq!(
            boxed("<a href=/x><img src=l.jpg></a><em>The lamp of Skerry</em>"),
            lamp
        );
        for other in [
            // An icon, a price, a card, a link, more than a caption.
            "<img src=l.jpg width=16 height=16>The lamp of Skerry",
            "<img src=l.jpg>$ 19.99",
            "<img src=l.jpg><h3>The lamp of Skerry</h3>",
            "<img src=l.jpg><a href=/x>The lamp of Skerry</a>",
            "<img src=l.jpg><div>The lamp of Skerry</div><div>By A. Keeper</div>",
            "The tower <img src=l.jpg> of Skerry",
        ] {
            assert_eq!(boxed(other), [None], "{other}");
        }
        let cards = "<div><img src=a.jpg>The lamp of Skerry</div><div><img src=b.jpg>The bell of Skerry</div>";
        assert_eq!(captions(cards), [None, None]);
    }

    #[test]
    fn a_caption_is_of_the_pictures_it_stands_with() {
        let some = |text: &str| Some(text.to_owned());
        let flat = "<div><img src=a.jpg><p class=caption>First one</p><p>Prose between them.</p><img \
                    src=b.jpg><img src=c.jpg><p class=caption>Both of them</p><p>More.</p><img src=d.jpg></div>";
        assert_eq!(
            captions(flat),
            [
                some("First one"),
                some("Both of them"),
                some("Both of them"),
                None
            ]
        );
        let table = "<table><tr><td><img src=a.jpg><td><img src=b.jpg><tr><td>The red lamp<td>The bell \
                     tower</table>";
        assert_eq!(
            captions(table),
            [some("The red lamp"), some("The bell tower")]
        );
        // What scripts show, and what is shown without them, are one picture.
        let lazy = "<figure><img data-src=a.jpg><noscript><img src=a.jpg></noscript><figcaption>The \
                    lamp</figcaption></figure>";
        assert_eq!(captions(lazy), [some("The lamp"), some("The lamp")]);
        // An element without text, and one around the picture, describe nothing.
        for id in ["empty", "around", "nowhere"] {
            let html = format!(
                "<div id=around><figure><img src=a.jpg aria-describedby={id}><figcaption>The lamp\
                 </figcaption></figure><p id=empty></p></div>"
            );
            assert_eq!(captions(&html), [some("The lamp")], "{id}");
        }
        // The picture before a lazy one is another.
        let hero = format!(
            "<article><figure><img src=hero.jpg><figcaption>The hero</figcaption></figure>{PROSE}\
             <div><img data-src=a.jpg><noscript><img src=a.jpg></noscript></div></article>"
        );
        assert_eq!(captions(&hero), [some("The hero"), None, None]);
        // A picture far above is not that of a caption below.
        let far =
            format!("<img src=a.jpg>{PROSE}<div class=caption>Of something else</div>{PROSE}");
        assert_eq!(captions(&far), [None]);
    }

    #[test]
    fn credits_and_legends_are_no_captions() {
        let some = |text: &str| Some(text.to_owned());
        for (inside, caption, credit) in [
            (
                "The lamp. <span class=credit>Jane Doe</span>",
                some("The lamp."),
                some("Jane Doe"),
            ),
            (
                "<span class=photo-credit>Jane Doe</span> The lamp",
                some("The lamp"),
                some("Jane Doe"),
            ),
            ("Photo: Jane Doe", None, some("Photo: Jane Doe")),
            (
                "The lamp. Photo by Jane Doe",
                some("The lamp."),
                some("Photo by Jane Doe"),
            ),
            (
                "The lamp (© Jane Doe)",
                some("The lamp"),
                some("© Jane Doe"),
            ),
            (
                "Die Lampe – Foto: Jane Doe",
                some("Die Lampe"),
                some("Foto: Jane Doe"),
            ),
            (
                "<div><p>The lamp <b class=credit>Jane Doe</b> <b class=hide-caption>hide caption</b></p></div>\
                 <b class=toggle-caption>toggle caption</b>",
                some("The lamp"),
                some("Jane Doe"),
            ),
            (
                "<span class=caption__text>The lamp.</span><span class=caption__source>Jane Doe</span>",
                some("The lamp."),
                some("Jane Doe"),
            ),
            ("A photo by the sea", some("A photo by the sea"), None),
            (
                "Path of the ship<br><span><span class=legend-text>&nbsp;</span>&nbsp;Ship</span> · Buoy",
                some("Path of the ship"),
                None,
            ),
        ] {
            let html = format!("<figure><img src=l.jpg><figcaption>{inside}</figcaption></figure>");
            assert_eq!(beside(&html), [(caption, credit)], "{inside}");
        }
        let apart = "<div class=image><img src=l.jpg><div class=caption>The lamp</div><div class=credit>Jane \
                     Doe</div></div>";
        assert_eq!(beside(apart), [(some("The lamp"), some("Jane Doe"))]);
    }

    #[test]
    fn captions_that_scripts_show() {
        for html in [
            "<a href=x.jpg data-lightbox=g data-title='The lamp'><img src=l.jpg></a>",
            "<a href=x.jpg data-caption='The &lt;b&gt;lamp&lt;/b&gt;'><img src=l.jpg></a>",
            "<img src=l.jpg data-image-caption='&lt;p&gt;The lamp&lt;/p&gt;'>",
            "<a class=lightbox href=x.jpg title='The lamp'><img src=l.jpg></a>",
        ] {
            for texts in texts(html) {
                assert_eq!(texts.caption.as_deref(), Some("The lamp"), "{html}");
            }
        }
        for html in [
            "<a class=lightbox href=x.jpg title='IMG_1234'><img src=l.jpg></a>",
            "<a href=x.jpg data-sub-html='#c'><img src=l.jpg></a>",
            "<a href=x.jpg title='The lamp'>one</a><img src=l.jpg>",
        ] {
            assert_eq!(texts(html)[0].caption, None, "{html}");
        }
    }

    /// Pieces of markup around pictures, in any order.
    const PIECES: [&str; 18] = [
        "<div>",
        "</div>",
        "<figure>",
        "</figure>",
        "<figcaption>",
        "</figcaption>",
        "<img src=a.jpg>",
        "<p class=caption>",
        "</p>",
        "<table>",
        "<tr>",
        "<td>",
        "</table>",
        "<span class=credit>",
        "</span>",
        "<i class=legend>",
        "words of it. ",
        "Photo: Doe ",
    ];

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn captions_are_parts_of_the_text(pieces in prop::collection::vec(0..PIECES.len(), 0..60)) {
            let html: String = pieces.iter().map(|piece| PIECES[*piece]).collect();
            let url = PageUrl::parse("http://a.test/").unwrap();
            let page = extract_text(&url, &html, &Options::default());
            for image in &page.images {
                let texts = &image.texts;
                for text in texts.figcaption.iter().chain(&texts.credit) {
                    prop_assert!(page.flow.contains(text.as_str()) && text.trim() == text);
                    prop_assert!(!text.is_empty());
                }
                let span = image.spans.figcaption.clone();
                let part = span.map(|span| page.flow[span].to_owned());
                prop_assert_eq!(part, texts.figcaption.clone());
            }
        }
    }

    #[test]
    fn many_pictures_and_captions_take_little_time() {
        let before = spoor_testing::worked();
        let deep = "<div>".repeat(200);
        let cells = "<figure><img src=a.jpg><noscript><img src=a.jpg></noscript>".repeat(5_000);
        let named = "<p class=caption>x y z</p>".repeat(20_000);
        for html in [
            format!("{deep}{cells}{named}"),
            format!("{deep}{named}{cells}"),
            cells,
        ] {
            texts(&html);
        }
        let seconds = (spoor_testing::worked() - before).as_secs();
        assert!(seconds < 20, "{seconds} s");
    }
}
