//! Embedded images and the words around them.

use std::ops::Range;

use crate::address::PageUrl;
use crate::page::{ImageCandidate, ImageTexts};

use super::Options;
use super::html::Attributes;
use super::links::is_other_scheme;
use super::text::fold_some;

/// Characters of an `alt` or `title` attribute that are kept.
const MAX_ATTRIBUTE_CHARS: usize = 1_000;
/// Characters of an enclosing element's text that are kept.
const MAX_PARENT_CHARS: usize = 2_000;
/// Characters of a sibling's text that are kept.
const MAX_SIBLING_CHARS: usize = 1_000;

/// Attributes in which scripts that load images late keep the real address.
const LAZY: [&str; 4] = ["data-src", "data-original", "data-lazy-src", "data-lazy"];
/// Attributes that list addresses for several sizes.
const SETS: [&str; 3] = ["srcset", "data-srcset", "data-lazy-srcset"];

/// The candidate that an `img` element gives, without the words around it.
///
/// Its address is that of a lazy-loading attribute, since `src` holds a stand-in
/// where there is one; else `src`; else the largest of `srcset`. `source` is the
/// `srcset` of the enclosing `picture`, the last resort. `None` where none of
/// these is an http or https address.
pub(super) fn candidate(
    base: &PageUrl,
    attributes: &impl Attributes,
    source: Option<&str>,
) -> Option<ImageCandidate> {
    let resolve = |target: &str| {
        let usable = !target.trim().is_empty() && !is_other_scheme(target);
        usable.then(|| base.join(target).ok()).flatten()
    };
    let url = LAZY
        .iter()
        .chain(&["src"])
        .find_map(|name| resolve(attributes.get(name)?))
        .or_else(|| {
            SETS.iter()
                .find_map(|name| resolve(largest(attributes.get(name)?)?))
        })
        .or_else(|| resolve(largest(source?)?))?;
    let style = attributes.get("style").unwrap_or_default();
    let pixels = |name: &str| {
        attributes
            .get(name)
            .and_then(dimension)
            .or_else(|| style_dimension(style, name))
    };
    let text = |name| fold_some(attributes.get(name)?, MAX_ATTRIBUTE_CHARS);
    Some(ImageCandidate {
        width: pixels("width"),
        height: pixels("height"),
        texts: ImageTexts {
            alt: text("alt"),
            title: text("title"),
            file_name: file_name_words(&url),
            parents: Vec::new(),
            siblings: Vec::new(),
        },
        url,
    })
}

/// The list of addresses that a `source` element of a `picture` names.
pub(super) fn source_set(attributes: &impl Attributes) -> Option<&str> {
    SETS.iter().find_map(|name| attributes.get(name))
}

/// Who encloses whom and which range of the page's text each element has, so
/// that an image's surroundings can be told once the walk is over.
///
/// The text of an element is a range of the page's [`super::text::Flow`], so no
/// text is gathered twice, however deep an image lies, and a gallery of
/// thousands costs a few steps an image.
#[derive(Debug, Default)]
pub(super) struct Outline {
    slots: Vec<Slot>,
    /// The elements that are open, outermost first.
    open: Vec<Open>,
    /// The element of each image candidate.
    images: Vec<usize>,
}

#[derive(Debug)]
struct Slot {
    parent: Option<usize>,
    start: usize,
    end: usize,
    /// Place among the element's sibling elements.
    place: usize,
    /// The nearest earlier sibling that has text.
    previous: Option<usize>,
}

#[derive(Debug)]
struct Open {
    slot: usize,
    children: usize,
    /// The last ended child that has text.
    last_text: Option<usize>,
}

impl Slot {
    fn has_text(&self) -> bool {
        self.end > self.start
    }
}

impl Outline {
    /// An element begins where the page's text has this length.
    pub(super) fn open(&mut self, at: usize) {
        let slot = self.slots.len();
        let (parent, place, previous) = match self.open.last_mut() {
            Some(parent) => {
                parent.children += 1;
                (Some(parent.slot), parent.children, parent.last_text)
            }
            None => (None, 0, None),
        };
        self.slots.push(Slot {
            parent,
            start: at,
            end: at,
            place,
            previous,
        });
        self.open.push(Open {
            slot,
            children: 0,
            last_text: None,
        });
    }

    /// The innermost element is an image candidate.
    pub(super) fn image(&mut self) {
        if let Some(open) = self.open.last() {
            self.images.push(open.slot);
        }
    }

    /// The innermost element ends where the page's text has this length.
    pub(super) fn close(&mut self, at: usize) {
        let Some(open) = self.open.pop() else { return };
        let Some(slot) = self.slots.get_mut(open.slot) else {
            return;
        };
        slot.end = at;
        if slot.has_text()
            && let Some(parent) = self.open.last_mut()
        {
            parent.last_text = Some(open.slot);
        }
    }

    /// Fills in the parents and siblings of all images; `text` is the page's.
    pub(super) fn surround(self, text: &str, images: &mut [ImageCandidate], options: &Options) {
        if images.is_empty() {
            return;
        }
        let next = self.next_with_text();
        let mut room = options.max_context_bytes;
        for (image, slot) in images.iter_mut().zip(&self.images) {
            let parents = self.parents(*slot, text, options.parents);
            let siblings = self.siblings(*slot, &next, text, options.siblings);
            let bytes: usize = parents.iter().chain(&siblings).map(|t| t.len()).sum();
            if bytes > room {
                return;
            }
            room -= bytes;
            image.texts.parents = parents.into_iter().map(str::to_owned).collect();
            image.texts.siblings = siblings.into_iter().map(str::to_owned).collect();
        }
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

    /// The texts of the enclosing elements, nearest first, blocks separated by
    /// line ends, so that no sentence need run on from one to the next.
    ///
    /// An element that adds nothing to the text of the one inside it is passed
    /// over: it would say the same again. Of a long text the part around the
    /// image is kept, since the beginning of `body` is the page's menu.
    fn parents<'t>(&self, slot: usize, text: &'t str, max: usize) -> Vec<&'t str> {
        let mut texts: Vec<&str> = Vec::new();
        let Some(image) = self.slots.get(slot) else {
            return texts;
        };
        let mut last = Window::default();
        let mut above = image.parent;
        while let Some(parent) = above.and_then(|i| self.slots.get(i)) {
            if texts.len() >= max {
                break;
            }
            above = parent.parent;
            if parent.has_text() && !last.same_in(parent.start, parent.end) {
                last = Window::new(
                    text,
                    parent.start..parent.end,
                    image.start,
                    MAX_PARENT_CHARS,
                );
                texts.push(last.text(text));
            }
        }
        texts
    }

    /// The texts of the sibling elements, nearest first; of two at the same
    /// distance the following one comes first, as captions do.
    fn siblings<'t>(
        &self,
        slot: usize,
        next: &[Option<usize>],
        text: &'t str,
        max: usize,
    ) -> Vec<&'t str> {
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
            texts.push(Window::new(text, range, sibling.start, MAX_SIBLING_CHARS).text(text));
            if i < slot {
                before = sibling.previous;
            } else {
                after = next.get(i).copied().flatten();
            }
        }
        texts
    }
}

/// The part of an element's text that is kept: as much as is allowed, from both
/// sides of a place in it.
#[derive(Debug, Default)]
struct Window {
    /// Range of the whole text.
    whole: Range<usize>,
    /// Range that is kept.
    kept: Range<usize>,
}

impl Window {
    fn new(text: &str, whole: Range<usize>, at: usize, max_chars: usize) -> Self {
        let kept = Self::kept(text, &whole, at, max_chars).unwrap_or_else(|| whole.clone());
        Self { whole, kept }
    }

    /// An element with this range would have the same text kept.
    fn same_in(&self, start: usize, end: usize) -> bool {
        (start == self.whole.start || self.kept.start > self.whole.start)
            && (end == self.whole.end || self.kept.end < self.whole.end)
    }

    fn text<'t>(&self, text: &'t str) -> &'t str {
        text.get(self.kept.clone()).unwrap_or_default().trim()
    }

    /// `None` where the whole fits.
    fn kept(text: &str, whole: &Range<usize>, at: usize, max: usize) -> Option<Range<usize>> {
        if whole.len() <= max {
            return None;
        }
        let before = text.get(whole.start..at)?;
        let after = text.get(at..whole.end)?;
        let chars_before = before.chars().rev().take(max).count();
        let chars_after = after.chars().take(max).count();
        if before.len() + after.len() <= max || chars_before + chars_after <= max {
            return None;
        }
        let take_before = chars_before.min((max / 2).max(max - chars_after));
        let take_after = chars_after.min(max - take_before);
        let mut kept = whole.clone();
        if let Some((cut, _)) = before.char_indices().rev().nth(take_before) {
            // A word is not cut in two, where there are words.
            let start = cut + before[cut..].chars().next().map_or(0, char::len_utf8);
            let rest = &before[start..];
            kept.start += start
                + rest
                    .find(char::is_whitespace)
                    .filter(|i| *i < 40)
                    .unwrap_or(0);
        }
        if let Some((cut, _)) = after.char_indices().nth(take_after) {
            let rest = &after[..cut];
            let word = rest.rfind(char::is_whitespace).filter(|i| cut - i < 40);
            kept.end = at + word.unwrap_or(cut);
        }
        Some(kept)
    }
}

/// A length attribute: whole or broken number of pixels, with `px` or without a
/// unit; percentages and other units say nothing.
fn dimension(value: &str) -> Option<u32> {
    let value = value.trim();
    let end = value
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(value.len());
    let unit = value[end..].trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let unit = unit.trim();
    if unit.is_empty() || unit.eq_ignore_ascii_case("px") {
        value[..end].parse().ok()
    } else {
        None
    }
}

/// The property `name` of a `style` attribute, in pixels.
fn style_dimension(style: &str, name: &str) -> Option<u32> {
    style.split(';').find_map(|declaration| {
        let (property, value) = declaration.split_once(':')?;
        let value = value.trim();
        let of_name = property.trim().eq_ignore_ascii_case(name);
        // CSS lengths other than 0 have a unit.
        (of_name
            && (value == "0"
                || value.len() > 2
                    && value.is_ascii()
                    && !value.ends_with(|c: char| c.is_ascii_digit())))
        .then(|| dimension(value.strip_suffix("!important").unwrap_or(value)))
        .flatten()
    })
}

/// The candidate of a `srcset` with the largest width or density (HTML standard,
/// parsing a srcset attribute); one without a descriptor counts as `1x`.
fn largest(set: &str) -> Option<&str> {
    let mut best: Option<(f64, &str)> = None;
    let mut rest = set;
    loop {
        rest = rest.trim_start_matches(|c: char| c == ',' || c.is_ascii_whitespace());
        if rest.is_empty() {
            return best.map(|(_, url)| url);
        }
        let end = rest
            .find(|c: char| c.is_ascii_whitespace())
            .unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let url = word.trim_end_matches(',');
        let descriptor = if url.len() < word.len() {
            rest = after;
            ""
        } else {
            let (descriptor, after) = after.split_once(',').unwrap_or((after, ""));
            rest = after;
            descriptor.trim()
        };
        let size = match descriptor.trim_end_matches(['w', 'x']).parse::<f64>() {
            Ok(size) if size.is_finite() => size,
            _ => 1.0,
        };
        if !url.is_empty() && !is_other_scheme(url) && best.is_none_or(|(most, _)| size > most) {
            best = Some((size, url));
        }
    }
}

/// The words of the last path segment, without extension, lower-case, separated
/// by blanks. Everything but letters separates words, and so does a capital in
/// the middle of one.
fn file_name_words(url: &PageUrl) -> Option<String> {
    let segment = url.path().rsplit('/').next()?;
    let stem = match segment.rsplit_once('.') {
        Some((stem, extension))
            if extension.len() <= 5 && extension.bytes().all(|b| b.is_ascii_alphanumeric()) =>
        {
            stem
        }
        _ => segment,
    };
    // Decodes the escapes; what else a form's encoding means by `+`, `&` and `=`
    // is lost, and these separate words anyway.
    let mut words = String::new();
    for (name, value) in url::form_urlencoded::parse(stem.as_bytes()) {
        push_words(&mut words, &name);
        push_words(&mut words, &value);
    }
    (!words.is_empty()).then_some(words)
}

fn push_words(words: &mut String, text: &str) {
    // Sizes as in `330px-Cat.jpg` are numbers, and their unit is no word.
    let text = text
        .replace(|c: char| c.is_ascii_digit(), "0")
        .replace("0px", "0");
    let mut chars = text.chars().peekable();
    let mut last: Option<char> = None;
    while let Some(c) = chars.next() {
        if c.is_alphabetic() {
            let hump = c.is_uppercase()
                && last.is_some_and(|last| {
                    last.is_lowercase()
                        || (last.is_uppercase() && chars.peek().is_some_and(|n| n.is_lowercase()))
                });
            if (last.is_none() || hump) && !words.is_empty() {
                words.push(' ');
            }
            words.extend(c.to_lowercase());
            last = Some(c);
        } else {
            last = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions() {
        for (value, expected) in [
            ("640", Some(640)),
            (" 640px ", Some(640)),
            ("640.75", Some(640)),
            ("640 PX", Some(640)),
            ("0", Some(0)),
            ("50%", None),
            ("10em", None),
            ("", None),
            ("px", None),
            ("-5", None),
            ("99999999999", None),
        ] {
            assert_eq!(dimension(value), expected, "{value}");
        }
        for (style, expected) in [
            ("width: 320px", Some(320)),
            ("max-width:1px;WIDTH:2.5px!important", Some(2)),
            ("width:100%", None),
            ("width:auto;height:3px", None),
            ("width:320", None),
            ("width:0", Some(0)),
            (";;:", None),
        ] {
            assert_eq!(style_dimension(style, "width"), expected, "{style}");
        }
    }

    #[test]
    fn largest_of_a_set() {
        for (set, expected) in [
            ("", None),
            (" , ", None),
            ("a.jpg", Some("a.jpg")),
            ("a.jpg 1x, b.jpg 2x", Some("b.jpg")),
            ("a.jpg 640w,b.jpg 1280w , c.jpg 320w", Some("b.jpg")),
            ("a,b.jpg 1x, c.jpg", Some("a,b.jpg")),
            ("a.jpg, b.jpg 1.5x", Some("b.jpg")),
            ("data:image/png;base64,AA 3x, a.jpg 1x", Some("a.jpg")),
            ("a.jpg NaNx, b.jpg infx, c.jpg 0.5x", Some("a.jpg")),
        ] {
            assert_eq!(largest(set), expected, "{set}");
        }
    }

    #[test]
    fn words_of_file_names() {
        for (path, expected) in [
            ("/", None),
            ("/a/b/IMG_0001.JPG", Some("img")),
            ("/0001.jpg", None),
            ("/330px-Cat_42.jpg", Some("cat")),
            ("/GreyCat-on_theWall2.jpeg", Some("grey cat on the wall")),
            ("/HTMLParserIcon.png", Some("html parser icon")),
            (
                "/K%C3%A4tzchen+und%20Kater.webp",
                Some("kätzchen und kater"),
            ),
            ("/photo.of.cat.v2.final", Some("photo of cat v")),
            ("/wiki/File:%E7%8C%AB.jpg", Some("file 猫")),
            ("/show.php?file=cat.jpg", Some("show")),
            ("/a=b&c", Some("a b c")),
        ] {
            let url = PageUrl::parse(&format!("http://example.org{path}")).unwrap();
            assert_eq!(file_name_words(&url).as_deref(), expected, "{path}");
        }
    }
}
