//! The words around an image: texts of its enclosing and sibling elements, determined
//! after the walk.
//!
//! This module knows ranges of the page's text and the elements they belong to, but not addresses;
//! `captions` finds the caption among them.

use std::ops::Range;

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64;

use crate::page::{ImageCandidate, Span};

use super::Options;
use super::attributes::ElementAttributes;
use super::captions::{Beside, Captions, MAX_CAPTION, NearPart, Picture};

/// The most characters of an enclosing element's text that are kept.
const MAX_PARENT_CHARS: usize = 2_000;
/// The most characters of a sibling's text, a caption or a heading that are kept.
const MAX_SIBLING_CHARS: usize = 1_000;
/// The most elements of a page that are found by their `id`.
const MAX_IDS: usize = 20_000;

/// The nesting of elements, with the range of the page's text that each covers.
///
/// The text of an element is a range of the page's [`super::text::Flow`], so no text is
/// collected twice, however deep an image is nested, and a gallery of thousands costs a
/// few steps per image.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    slots: Vec<NeighbourSlot>,
    /// The open elements, outermost first.
    open: Vec<OpenElement>,
    /// The last ended heading that has text, and the open one.
    heading: Option<usize>,
    open_heading: Option<usize>,
    /// The element with each `id`, by its hash.
    ids: FxHashMap<u64, usize>,
    images: Vec<ImagePosition>,
}

/// The position of an image candidate.
#[derive(Debug)]
struct ImagePosition {
    slot: usize,
    /// The heading around it, then the one before it.
    headings: [Option<usize>; 2],
    /// The hashes of the `id`s of the elements that describe and that label it.
    described_by: [Option<u64>; 2],
}

/// An element.
#[derive(Debug)]
pub(super) struct NeighbourSlot {
    pub(super) parent: Option<usize>,
    /// Where its text is.
    pub(super) start: usize,
    pub(super) end: usize,
    /// The last element within it, or it itself.
    pub(super) last: usize,
    pub(super) part: NearPart,
    /// Position among the element's siblings.
    place: usize,
    /// The nearest earlier sibling that has text.
    pub(super) previous: Option<usize>,
}

#[derive(Debug)]
struct OpenElement {
    slot: usize,
    children: usize,
    /// The last ended child that has text.
    last_text: Option<usize>,
}

impl NeighbourSlot {
    pub(super) fn has_text(&self) -> bool {
        self.end > self.start
    }

    /// The bytes of its text.
    pub(super) fn len(&self) -> usize {
        self.end.saturating_sub(self.start)
    }
}

impl Neighbours {
    /// Handles the start of an element at this length of the page's text.
    pub(super) fn open(&mut self, name: &str, attributes: &impl ElementAttributes, at: usize) {
        let slot = self.slots.len();
        let (parent, place, previous) = match self.open.last_mut() {
            Some(parent) => {
                parent.children += 1;
                (Some(parent.slot), parent.children, parent.last_text)
            }
            None => (None, 0, None),
        };
        self.slots.push(NeighbourSlot {
            parent,
            start: at,
            end: at,
            last: slot,
            part: NearPart::of(name, attributes),
            place,
            previous,
        });
        self.open.push(OpenElement {
            slot,
            children: 0,
            last_text: None,
        });
        if is_heading(name) {
            self.open_heading = Some(slot);
        }
        if let Some(id) = attributes.get("id")
            && self.ids.len() < MAX_IDS
        {
            self.ids.entry(xxh3_64(id.as_bytes())).or_insert(slot);
        }
    }

    /// The innermost element has this many image candidates.
    pub(super) fn images(&mut self, count: usize, attributes: &impl ElementAttributes) {
        let Some(slot) = self.open.last().map(|open| open.slot) else {
            return;
        };
        for _ in 0..count {
            let id = |name: &str| {
                let first = attributes.get(name)?.split_ascii_whitespace().next()?;
                Some(xxh3_64(first.as_bytes()))
            };
            self.images.push(ImagePosition {
                slot,
                headings: [self.open_heading, self.heading],
                described_by: ["aria-describedby", "aria-labelledby"].map(id),
            });
        }
    }

    /// Handles the end of the innermost element at this length of the page's text.
    pub(super) fn close(&mut self, name: &str, at: usize) {
        let Some(open) = self.open.pop() else { return };
        let last = self.slots.len().saturating_sub(1);
        let Some(slot) = self.slots.get_mut(open.slot) else {
            return;
        };
        (slot.end, slot.last) = (at, last);
        if slot.has_text()
            && let Some(parent) = self.open.last_mut()
        {
            parent.last_text = Some(open.slot);
        }
        if is_heading(name) {
            self.open_heading = None;
            if slot.has_text() {
                self.heading = Some(open.slot);
            }
        }
    }

    /// Fills in the words around the images, which come first in `images` and in document
    /// order; `text` is the page's.
    pub(super) fn surround(self, text: &str, images: &mut [ImageCandidate], options: &Options) {
        if images.is_empty() {
            return;
        }
        let next = self.next_with_text();
        let beside = self.beside(text, images);
        let mut room = options.max_context_bytes;
        for ((image, place), beside) in images.iter_mut().zip(&self.images).zip(beside) {
            let parents = self.parents(place.slot, text, options.parents);
            let siblings = self.siblings(place.slot, &next, text, options.siblings);
            let heading = place.headings.iter().flatten();
            let heading = heading.filter_map(|i| self.span_of(*i, text)).next();
            let heading = heading.map(|span| without_edit(text, span));
            let caption = beside.caption.map(|span| shortened(text, span));
            let credit = beside.credit.map(|span| shortened(text, span));
            let all = parents.iter().chain(&siblings).map(|(_, span)| span);
            let all = all.chain(&heading).chain(&caption).chain(&credit);
            let bytes: usize = all.map(|span| span.len()).sum();
            if bytes > room {
                return;
            }
            room -= bytes;
            let of = |span: &Span| text.get(span.clone()).unwrap_or_default().to_owned();
            let (texts, spans) = (&mut image.texts, &mut image.spans);
            (texts.parent_distances, spans.parents) = parents.into_iter().unzip();
            (texts.sibling_distances, spans.siblings) = siblings.into_iter().unzip();
            (spans.heading, spans.figcaption) = (heading, caption);
            texts.parents = spans.parents.iter().map(of).collect();
            texts.siblings = spans.siblings.iter().map(of).collect();
            texts.heading = spans.heading.as_ref().map(of);
            texts.figcaption = spans.figcaption.as_ref().map(of);
            texts.credit = credit.as_ref().map(of);
        }
    }

    /// The words that stand with each image.
    fn beside(&self, text: &str, images: &[ImageCandidate]) -> Vec<Beside> {
        let mut pictures: Vec<Picture> = Vec::new();
        let mut numbers: Vec<usize> = Vec::new();
        for (image, place) in images.iter().zip(&self.images) {
            let parent = |slot: usize| self.slots.get(slot)?.parent;
            let last = pictures.last();
            if last.is_none_or(|last| last.slot != place.slot) {
                // Where scripts run, the one before the `noscript` is shown.
                let around = parent(place.slot);
                let is_noscript = around.and_then(|up| self.slots.get(up));
                let is_noscript = is_noscript.is_some_and(|up| up.part == NearPart::Noscript);
                let is_again = is_noscript
                    && last.is_some_and(|last| around.and_then(parent) == parent(last.slot));
                let described_by = place.described_by.iter().flatten();
                let described_by = described_by.filter_map(|id| self.ids.get(id).copied());
                let described_by = described_by.into_iter().find(|slot| {
                    let is_around = |of: &NeighbourSlot| (*slot..=of.last).contains(&place.slot);
                    let is_caption = |of: &NeighbourSlot| {
                        (1..=MAX_CAPTION).contains(&of.len()) && !is_around(of)
                    };
                    self.slots.get(*slot).is_some_and(is_caption)
                });
                pictures.push(Picture {
                    slot: place.slot,
                    described_by,
                    sides: [image.width, image.height],
                    is_again,
                });
            }
            numbers.push(pictures.len() - 1);
        }
        let beside = Captions::new(text, &self.slots, &pictures).all();
        let of = |number: usize| beside.get(number).cloned().unwrap_or_default();
        numbers.into_iter().map(of).collect()
    }

    /// The range of the beginning of the element's text; `None` if it has none.
    fn span_of(&self, slot: usize, text: &str) -> Option<Span> {
        let slot = self.slots.get(slot).filter(|slot| slot.has_text())?;
        Some(shortened(text, slot.start..slot.end)).filter(|span| !span.is_empty())
    }

    /// For each element the nearest later sibling that has text.
    fn next_with_text(&self) -> Vec<Option<usize>> {
        let mut next = vec![None; self.slots.len()];
        let mut first_text = vec![None; self.slots.len()];
        for (i, slot) in self.slots.iter().enumerate().rev() {
            if let Some(parent) = slot.parent {
                next[i] = first_text[parent];
                if slot.has_text() {
                    first_text[parent] = Some(i);
                }
            }
        }
        next
    }

    /// The texts of the enclosing elements, nearest first, with blocks separated by line
    /// ends, so that no sentence runs from one into the next.
    ///
    /// An element that adds nothing to the text of the one inside it is skipped, because it would
    /// repeat it. Of a long text only the part around the image is kept, because the beginning of
    /// `body` is the page's menu.
    fn parents(&self, slot: usize, text: &str, max: usize) -> Vec<(u32, Span)> {
        let mut texts = Vec::new();
        let mut steps = 0;
        let Some(image) = self.slots.get(slot) else {
            return texts;
        };
        let mut last = TextWindow::default();
        let mut above = image.parent;
        while let Some(parent) = above.and_then(|i| self.slots.get(i)) {
            if texts.len() >= max {
                break;
            }
            above = parent.parent;
            steps += 1;
            if parent.has_text() && !last.same_in(parent.start, parent.end) {
                last = TextWindow::new(
                    text,
                    parent.start..parent.end,
                    image.start,
                    MAX_PARENT_CHARS,
                );
                texts.push((steps, last.span(text)));
            }
        }
        texts
    }

    /// The texts of the sibling elements, nearest first; of two at the same distance the
    /// following one comes first, as captions do.
    fn siblings(
        &self,
        slot: usize,
        next: &[Option<usize>],
        text: &str,
        max: usize,
    ) -> Vec<(u32, Span)> {
        let mut texts = Vec::new();
        let Some(image) = self.slots.get(slot) else {
            return texts;
        };
        let mut before = image.previous;
        let mut after = next.get(slot).copied().flatten();
        while texts.len() < max {
            let distance = |i: Option<usize>| Some(self.slots.get(i?)?.place.abs_diff(image.place));
            let chosen = match (distance(before), distance(after)) {
                (None, None) => break,
                (Some(b), Some(a)) if b < a => &mut before,
                (Some(_), None) => &mut before,
                (_, Some(_)) => &mut after,
            };
            let Some(i) = *chosen else { break };
            let Some(sibling) = self.slots.get(i) else {
                break;
            };
            let range = sibling.start..sibling.end;
            let steps = u32::try_from(sibling.place.abs_diff(image.place)).unwrap_or(u32::MAX);
            let window = TextWindow::new(text, range, sibling.start, MAX_SIBLING_CHARS);
            texts.push((steps, window.span(text)));
            if i < slot {
                before = sibling.previous;
            } else {
                after = next.get(i).copied().flatten();
            }
        }
        texts
    }
}

/// The beginning of a part of the text.
fn shortened(text: &str, span: Span) -> Span {
    let from = span.start;
    TextWindow::new(text, span, from, MAX_SIBLING_CHARS).span(text)
}

/// A heading without the link that edits its section, recognised by its words alone.
fn without_edit(text: &str, span: Span) -> Span {
    let heading = text.get(span.clone()).unwrap_or_default();
    let Some(rest) = heading.strip_suffix("[edit]") else {
        return span;
    };
    span.start..span.start + rest.trim_end().len()
}

pub(super) fn is_heading(name: &str) -> bool {
    matches!(name, "h1" | "h2" | "h3" | "h4" | "h5" | "h6")
}

/// The number of characters at the start of the text, at most `max`.
fn chars_at_start(text: &str, max: usize) -> usize {
    match text.as_bytes().get(..max.min(text.len())) {
        Some(bytes) if bytes.is_ascii() => bytes.len(),
        _ => text.chars().take(max).count(),
    }
}

/// The number of characters at the end of the text, at most `max`.
fn chars_at_end(text: &str, max: usize) -> usize {
    match text.as_bytes().get(text.len().saturating_sub(max)..) {
        Some(bytes) if bytes.is_ascii() => bytes.len(),
        _ => text.chars().rev().take(max).count(),
    }
}

/// Where the character with `n` characters before it starts.
fn nth_from_start(text: &str, n: usize) -> Option<usize> {
    match text.as_bytes().get(..=n) {
        Some(bytes) if bytes.is_ascii() => Some(n),
        _ => text.char_indices().nth(n).map(|(at, _)| at),
    }
}

/// Where the character that is followed by `n` characters starts.
fn nth_from_end(text: &str, n: usize) -> Option<usize> {
    let at = text.len().checked_sub(n + 1)?;
    match text.as_bytes().get(at..) {
        Some(bytes) if bytes.is_ascii() => Some(at),
        _ => text.char_indices().rev().nth(n).map(|(at, _)| at),
    }
}

/// The part of an element's text that is kept: as much as allowed, from both sides of a
/// position in it.
#[derive(Debug, Default)]
struct TextWindow {
    /// The whole range.
    whole: Range<usize>,
    /// The range that is kept.
    kept: Range<usize>,
}

impl TextWindow {
    fn new(text: &str, whole: Range<usize>, at: usize, max_chars: usize) -> Self {
        let kept = Self::kept(text, &whole, at, max_chars).unwrap_or_else(|| whole.clone());
        Self { whole, kept }
    }

    /// Whether the same part would be kept for an element with this range.
    fn same_in(&self, start: usize, end: usize) -> bool {
        (start == self.whole.start || self.kept.start > self.whole.start)
            && (end == self.whole.end || self.kept.end < self.whole.end)
    }

    /// The kept part, without surrounding white space.
    fn span(&self, text: &str) -> Span {
        let kept = text.get(self.kept.clone()).unwrap_or_default();
        let start = self.kept.start + (kept.len() - kept.trim_start().len());
        start..start + kept.trim().len()
    }

    /// `None` if all of it fits.
    fn kept(text: &str, whole: &Range<usize>, at: usize, max: usize) -> Option<Range<usize>> {
        if whole.len() <= max {
            return None;
        }
        let before = text.get(whole.start..at)?;
        let after = text.get(at..whole.end)?;
        let chars_before = chars_at_end(before, max);
        let chars_after = chars_at_start(after, max);
        if before.len() + after.len() <= max || chars_before + chars_after <= max {
            return None;
        }
        let take_before = chars_before.min((max / 2).max(max - chars_after));
        let take_after = chars_after.min(max - take_before);
        let mut kept = whole.clone();
        if let Some(cut) = nth_from_end(before, take_before) {
            // Avoids cutting a word in two, in scripts that separate words.
            let start = cut + before[cut..].chars().next().map_or(0, char::len_utf8);
            let rest = &before[start..];
            kept.start += start
                + rest
                    .find(char::is_whitespace)
                    .filter(|i| *i < 40)
                    .unwrap_or(0);
        }
        if let Some(cut) = nth_from_start(after, take_after) {
            let rest = &after[..cut];
            let word = rest.rfind(char::is_whitespace).filter(|i| cut - i < 40);
            kept.end = at + word.unwrap_or(cut);
        }
        Some(kept)
    }
}
