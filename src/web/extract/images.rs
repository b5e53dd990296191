//! Image candidates from one element or from the page's metadata.
//!
//! `sources` chooses among several addresses, and `neighbours` adds the words around an
//! image afterwards.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::address::PageUrl;
use crate::page::{AltKind, Embedding, Found, ImageCandidate, ImageTexts, MAX_LICENCES, Spans};

use super::Options;
use super::alt_text;
use super::attributes::ElementAttributes;
use super::sources::{self, PictureOffer};
use super::text::fold_some;

/// The most characters of an `alt`, `title` or other attribute that are kept.
const MAX_ATTRIBUTE_CHARS: usize = 1_000;

/// The offer of an `img` element, together with that of the enclosing `picture`.
pub(super) fn offer<'a>(
    attributes: &'a impl ElementAttributes,
    picture: Option<PictureOffer<'a>>,
    max: (u32, u32),
) -> PictureOffer<'a> {
    let mut offer = sources::of_image(attributes, pixels(attributes, "width"), max);
    if let Some(picture) = picture {
        offer.join(picture);
    }
    offer
}

/// The candidate of an `img` element, without the words around it: its best address.
/// `None` if no address is http or https.
pub(super) fn candidate(
    base: &PageUrl,
    attributes: &impl ElementAttributes,
    offer: PictureOffer<'_>,
) -> Option<ImageCandidate> {
    let mut choices = offer.best_first().into_iter();
    choices.find_map(|choice| element(base, attributes, &choice.address, choice.found))
}

/// The candidate of an element's background.
pub(super) fn background(
    base: &PageUrl,
    attributes: &impl ElementAttributes,
) -> Option<ImageCandidate> {
    let (address, found) = sources::background(attributes)?;
    element(base, attributes, &address, found)
}

/// The image file that a link around `image` leads to, with the same words; `None` if it
/// does not lead to another image file.
pub(super) fn larger(image: &ImageCandidate, target: &PageUrl) -> Option<ImageCandidate> {
    if !alt_text::is_image(target.path()) || *target == image.url {
        return None;
    }
    let mut texts = image.texts.clone();
    texts.file_name = file_name_words(target);
    if texts.alt_kind == Some(AltKind::Written) {
        texts.alt_kind = alt_text::kind(texts.alt.as_deref().unwrap_or_default(), target);
    }
    Some(ImageCandidate {
        url: target.clone(),
        width: None,
        height: None,
        embedding: Embedding {
            found: vec![Found::Link],
            ..image.embedding.clone()
        },
        licences: Vec::new(),
        texts,
        spans: Spans::default(),
    })
}

/// The candidate for an image given in the metadata by its address alone.
pub(super) fn declared(base: &PageUrl, address: &str, found: Found) -> Option<ImageCandidate> {
    let url = resolve(base, address)?;
    Some(ImageCandidate {
        width: None,
        height: None,
        embedding: Embedding {
            found: vec![found],
            ..Embedding::default()
        },
        licences: Vec::new(),
        texts: ImageTexts {
            file_name: file_name_words(&url),
            ..ImageTexts::default()
        },
        spans: Spans::default(),
        url,
    })
}

/// Sets a property of an image from metadata, chosen by the end of the key.
pub(super) fn describe(image: &mut ImageCandidate, key: &str, content: &str) {
    match key.rsplit(':').next() {
        Some("width") => image.width = dimension(content),
        Some("height") => image.height = dimension(content),
        _ => {
            image.texts.alt = attribute_text(content);
            let alt = image.texts.alt.as_deref();
            image.texts.alt_kind = alt.and_then(|alt| alt_text::kind(alt, &image.url));
        }
    }
}

/// The page's information about one address.
#[derive(Default)]
struct ImageFacts {
    found: Vec<Found>,
    caption: Option<String>,
    licences: Vec<String>,
}

/// Appends the images of the metadata, each address once and only if no element has it, up
/// to the maximum number of images. Adds to every candidate all places where the page
/// names its address, its caption and its licences, while these fit into the budget for
/// addresses.
pub(super) fn unite(
    images: &mut Vec<ImageCandidate>,
    declared: Vec<ImageCandidate>,
    options: &Options,
) {
    let mut seen: HashMap<PageUrl, ImageFacts> = HashMap::new();
    for image in images.iter() {
        let known = seen.entry(image.url.clone()).or_default();
        known.found.extend(&image.embedding.found);
    }
    for mut image in declared {
        let caption = image.texts.caption.take();
        let licences = std::mem::take(&mut image.licences);
        let known = match seen.entry(image.url.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                if images.len() >= options.max_images {
                    continue;
                }
                images.push(image.clone());
                entry.insert(Default::default())
            }
        };
        known.found.extend(image.embedding.found);
        known.caption = known.caption.take().or(caption);
        for licence in licences {
            if known.licences.len() < MAX_LICENCES && !known.licences.contains(&licence) {
                known.licences.push(licence);
            }
        }
    }
    for ImageFacts { found, .. } in seen.values_mut() {
        found.sort_unstable();
        found.dedup();
    }
    let mut room = options.max_address_bytes;
    for image in images {
        let Some(known) = seen.get(&image.url) else {
            continue;
        };
        image.embedding.found.clone_from(&known.found);
        let texts = known.licences.iter().chain(&known.caption);
        if let Some(left) = room.checked_sub(texts.map(String::len).sum()) {
            room = left;
            if image.texts.caption.is_none() {
                image.texts.caption.clone_from(&known.caption);
            }
            image.licences.clone_from(&known.licences);
        }
    }
}

/// The caption that a script shows with the image in full size, from the attributes of the image
/// or of the link around it: those of lightGallery, Lightbox, Fancybox and Jetpack.
pub(super) fn shown_caption(attributes: &impl ElementAttributes) -> Option<String> {
    const ATTRIBUTES: [&str; 4] = [
        "data-caption",
        "data-image-caption",
        "data-sub-html",
        "data-lightbox-title",
    ];
    let mut any = false;
    let given = attributes.all().find_map(|(name, value)| {
        let is_data = name.starts_with("data-");
        any |= is_data && ["data-lightbox", "data-fancybox"].contains(&name);
        let is_caption = is_data && ATTRIBUTES.contains(&name) && !value.starts_with(['#', '.']);
        is_caption
            .then(|| attribute_text(&without_tags(value)))
            .flatten()
    });
    given.or_else(|| {
        let is_large = any
            || attributes
                .get("class")
                .is_some_and(|class| class.contains("lightbox"));
        let title = ["data-title", "title"]
            .iter()
            .find_map(|name| attributes.get(name));
        is_large.then(|| attribute_text(title?)).flatten()
    })
}

/// Markup as text, roughly: without its tags.
fn without_tags(markup: &str) -> Cow<'_, str> {
    if !markup.contains('<') {
        return markup.into();
    }
    let mut text = String::with_capacity(markup.len());
    for part in markup.split('<') {
        let after = part.split_once('>').map_or(part, |(_, after)| after);
        text.push(' ');
        text.push_str(after);
    }
    text.into()
}

/// A text of bounded length on one line; `None` if it is blank.
pub(super) fn attribute_text(text: &str) -> Option<String> {
    fold_some(text, MAX_ATTRIBUTE_CHARS)
}

fn element(
    base: &PageUrl,
    attributes: &impl ElementAttributes,
    address: &str,
    found: &[Found],
) -> Option<ImageCandidate> {
    let url = resolve(base, address)?;
    let text = |name| attribute_text(attributes.get(name)?);
    let alt = text("alt");
    Some(ImageCandidate {
        width: pixels(attributes, "width"),
        height: pixels(attributes, "height"),
        embedding: Embedding {
            found: found.to_vec(),
            class: text("class"),
            ..Embedding::default()
        },
        licences: Vec::new(),
        texts: ImageTexts {
            alt_kind: alt.as_deref().and_then(|alt| alt_text::kind(alt, &url)),
            alt,
            title: text("title"),
            aria_label: text("aria-label"),
            file_name: file_name_words(&url),
            ..ImageTexts::default()
        },
        spans: Spans::default(),
        url,
    })
}

fn resolve(base: &PageUrl, address: &str) -> Option<PageUrl> {
    let usable = sources::usable(address);
    usable.then(|| base.join(address).ok()).flatten()
}

/// A size that an element declares, in pixels.
fn pixels(attributes: &impl ElementAttributes, name: &str) -> Option<u32> {
    attributes
        .get(name)
        .and_then(dimension)
        .or_else(|| style_dimension(attributes.get("style")?, name))
}

/// A length attribute: a whole or decimal number of pixels, with `px` or without a unit;
/// percentages and other units are ignored.
pub(super) fn dimension(value: &str) -> Option<u32> {
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

/// The words of the last path segment, without extension, in lower case, separated by blanks. Every
/// character except letters separates words, and so does a capital in the middle of one.
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
    // Decodes the escapes. A form's encoding also changes `+`, `&` and `=`, but these
    // separate words anyway.
    let mut words = String::new();
    for (name, value) in url::form_urlencoded::parse(stem.as_bytes()) {
        push_words(&mut words, &name);
        push_words(&mut words, &value);
    }
    (!words.is_empty()).then_some(words)
}

fn push_words(words: &mut String, text: &str) {
    // Sizes such as in `330px-Cat.jpg` are numbers, and their unit is not a word.
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
