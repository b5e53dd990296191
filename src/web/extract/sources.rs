//! The addresses that an element offers for its image, best first: lazy attributes,
//! `srcset`, `src`, and the background images of CSS.
//!
//! This module chooses among texts; it does not resolve addresses and does not know the
//! words around an image.

use std::borrow::Cow;

use cssparser::{Parser, Token};

use crate::page::Found;

use super::attributes::ElementAttributes;
use super::links::is_other_scheme;

/// Attributes in which lazy-loading scripts keep the real address.
const LAZY: [&str; 11] = [
    "data-src",
    "data-original",
    "data-lazy-src",
    "data-lazy",
    "data-original-src",
    "data-actualsrc",
    "data-echo",
    "data-hi-res-src",
    "data-full-src",
    "data-image-src",
    "data-orig-file",
];
/// Attributes in which they keep addresses for several sizes.
const LAZY_SETS: [&str; 3] = ["data-srcset", "data-lazy-srcset", "data-original-set"];
/// Attributes in which they keep the address of a background.
const LAZY_BACKGROUNDS: [&str; 3] = ["data-bg", "data-background", "data-background-image"];
/// The media type of SVG.
const SVG: &str = "image/svg+xml";
/// Image types that cannot be decoded, so that another `source` is better.
const UNREADABLE: [&str; 5] = ["image/avif", "image/heic", "image/heif", "image/jxl", SVG];

/// The most addresses kept for an element, not counting `src`: a `srcset` may have
/// thousands.
const MAX_OFFERED: usize = 8;
/// Names of query parameters that ask a server for a raster version of an SVG.
const RASTER_QUERIES: [&str; 7] = ["format", "fm", "h", "height", "size", "w", "width"];

/// An offered address.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Choice<'a> {
    /// As written on the page.
    pub address: Cow<'a, str>,
    /// Width in pixels or pixel density, whichever is given; 1 if neither is. A width is
    /// always the larger number.
    pub size: f64,
    /// Whether the image may be small enough for the job.
    pub fits: bool,
    /// Where it was found.
    pub found: &'static [Found],
}

impl Choice<'_> {
    /// Whether this one is tried before `other`: the largest that fits, and if none does,
    /// the smallest.
    fn is_better_than(&self, other: &Choice<'_>) -> bool {
        match (self.fits, other.fits) {
            (true, true) => self.size > other.size,
            (false, false) => self.size < other.size,
            (fits, _) => fits,
        }
    }

    fn into_owned(self) -> Choice<'static> {
        Choice {
            address: Cow::Owned(self.address.into_owned()),
            ..self
        }
    }
}

/// The addresses that an element offers for one picture.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct PictureOffer<'a> {
    /// Best first.
    sizes: Vec<Choice<'a>>,
    /// `src`, which comes last unless it is the largest.
    src: Option<Choice<'a>>,
    /// Whether an SVG was left out.
    svg: bool,
}

impl<'a> PictureOffer<'a> {
    /// All of them, the first one to try in front.
    pub(super) fn best_first(self) -> Vec<Choice<'a>> {
        let Self { mut sizes, src, .. } = self;
        if sizes.first().is_some_and(|best| best.fits) {
            sizes.retain(|choice| choice.fits);
        }
        let Some(src) = src else { return sizes };
        let at = match sizes.first() {
            Some(best) if best.size > src.size => sizes.len(),
            _ => 0,
        };
        sizes.insert(at, src);
        sizes
    }

    /// Whether all offered addresses are SVGs.
    pub(super) fn is_only_svg(&self) -> bool {
        self.svg && self.sizes.is_empty() && self.src.is_none()
    }

    /// Adds the offer of another element for the same picture; between equals the present
    /// one goes first.
    pub(super) fn join(&mut self, other: PictureOffer<'a>) {
        for choice in other.sizes {
            self.add(choice);
        }
        self.svg |= other.svg;
    }

    /// The same without borrowing from the page.
    pub(super) fn into_owned(self) -> PictureOffer<'static> {
        PictureOffer {
            sizes: self.sizes.into_iter().map(Choice::into_owned).collect(),
            src: self.src.map(Choice::into_owned),
            svg: self.svg,
        }
    }

    fn add(&mut self, choice: Choice<'a>) {
        if is_svg(&choice.address) {
            self.svg = true;
            return;
        }
        let worse = |known: &Choice<'_>| choice.is_better_than(known);
        let at = self.sizes.iter().position(worse);
        let at = at.unwrap_or(self.sizes.len());
        if at < MAX_OFFERED {
            self.sizes.insert(at, choice);
            self.sizes.truncate(MAX_OFFERED);
        }
    }

    fn is_empty(&self) -> bool {
        self.sizes.is_empty() && !self.svg
    }
}

/// The offer of an `img`: the addresses for a lazy-loading script if there are any,
/// because then the others are placeholders; else those of `srcset`, and `src`. `width` is
/// the element's declared width.
pub(super) fn of_image<'a>(
    attributes: &'a impl ElementAttributes,
    width: Option<u32>,
    max: (u32, u32),
) -> PictureOffer<'a> {
    let one = |name: &&str, found| {
        let address = attributes.get(name).filter(|a| usable(a))?;
        Some(Choice {
            address: Cow::Borrowed(address),
            size: 1.0,
            fits: true,
            found,
        })
    };
    let mut offer = PictureOffer::default();
    for name in LAZY_SETS {
        if offer.is_empty()
            && let Some(set) = attributes.get(name)
        {
            add_set(&mut offer, set, width, max, &[Found::Lazy, Found::Srcset]);
        }
    }
    let lazy = LAZY.iter().find_map(|name| one(name, &[Found::Lazy]));
    if lazy.is_some() || !offer.is_empty() {
        // After all sizes, like `src`.
        match lazy {
            Some(lazy) if is_svg(&lazy.address) => offer.svg = true,
            lazy => offer.src = lazy,
        }
        if offer.sizes.first().is_some_and(|best| best.size <= 1.0) {
            offer.sizes.extend(offer.src.take());
        }
        return offer;
    }
    if let Some(set) = attributes.get("srcset") {
        add_set(&mut offer, set, width, max, &[Found::Srcset]);
    }
    match one(&"src", &[Found::Img]) {
        Some(src) if is_svg(&src.address) => offer.svg = true,
        src => offer.src = src,
    }
    offer
}

/// The offer of a `source` of a `picture`.
pub(super) fn of_source(attributes: &impl ElementAttributes, max: (u32, u32)) -> PictureOffer<'_> {
    let mut offer = PictureOffer::default();
    let media = attributes.get("type").unwrap_or_default().trim();
    if UNREADABLE.iter().any(|t| media.eq_ignore_ascii_case(t)) {
        offer.svg = media.eq_ignore_ascii_case(SVG);
        return offer;
    }
    for name in LAZY_SETS.iter().chain(&["srcset"]) {
        if offer.is_empty()
            && let Some(set) = attributes.get(name)
        {
            add_set(&mut offer, set, None, max, &[Found::Picture]);
        }
    }
    offer
}

/// Whether an address has the name of an SVG, which is not fetched because it cannot be
/// decoded.
pub(super) fn is_svg(address: &str) -> bool {
    let address = address.trim().split('#').next().unwrap_or_default();
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let Some((_, extension)) = path.rsplit_once('.') else {
        return false;
    };
    // Some servers render an SVG in the requested size.
    let is_raster = |part: &str| {
        let name = part.split('=').next().unwrap_or_default();
        RASTER_QUERIES.iter().any(|q| name.eq_ignore_ascii_case(q))
    };
    ["svg", "svgz"]
        .iter()
        .any(|e| extension.eq_ignore_ascii_case(e))
        && !query.split('&').any(is_raster)
}

/// The background image of an element, and where it was found.
pub(super) fn background(
    attributes: &impl ElementAttributes,
) -> Option<(String, &'static [Found])> {
    // This runs for every element, and few have any of them.
    let mut names = attributes.all().map(|(name, _)| name);
    if !names.any(|name| name == "style" || LAZY_BACKGROUNDS.contains(&name)) {
        return None;
    }
    let lazy = LAZY_BACKGROUNDS.iter().find_map(|name| {
        let value = attributes.get(name)?.trim();
        let address = if value.contains('(') {
            css_url(value, false)
        } else {
            (value.contains('/') || value.contains('.')).then(|| value.to_owned())
        };
        address.filter(|a| usable(a))
    });
    if let Some(address) = lazy {
        return Some((address, &[Found::Lazy, Found::Background]));
    }
    let address = css_url(attributes.get("style")?, true).filter(|a| usable(a))?;
    Some((address, &[Found::Background]))
}

/// Whether it is neither blank nor the data of a placeholder.
pub(super) fn usable(address: &str) -> bool {
    !address.trim().is_empty() && !is_other_scheme(address)
}

/// The first `url()` of CSS (CSS Values and Units, section 4.5); in `declarations`
/// the first of a `background` or `background-image` property.
fn css_url(css: &str, declarations: bool) -> Option<String> {
    // Few elements have one, and most styles can be excluded without parsing.
    let has = |part: &[u8]| {
        let mut windows = css.as_bytes().windows(part.len());
        windows.any(|window| window.eq_ignore_ascii_case(part))
    };
    if !has(b"url(") || (declarations && !has(b"background")) {
        return None;
    }
    let mut parser = Parser::new(css);
    let mut begins = declarations;
    let mut wanted = !declarations;
    while let Ok(token) = parser.next() {
        let is_url = match token {
            Token::Semicolon => {
                begins = declarations;
                wanted = !declarations;
                false
            }
            Token::Ident(name) if begins => {
                begins = false;
                wanted = name.eq_ignore_ascii_case("background")
                    || name.eq_ignore_ascii_case("background-image");
                false
            }
            Token::UnquotedUrl(url) if wanted && usable(url) => return Some(url.to_string()),
            Token::Function(name) => wanted && name.eq_ignore_ascii_case("url"),
            _ => false,
        };
        if is_url {
            let url = parser.parse_nested_block(|inner| {
                let url = inner.expect_string().map(|url| url.to_string());
                url.map_err(cssparser::ParseError::<()>::from)
            });
            if let Ok(url) = url
                && usable(&url)
            {
                return Some(url);
            }
        }
    }
    None
}

/// Adds the candidates of a `srcset` (HTML standard, parsing a srcset attribute); one
/// without a descriptor counts as `1x`, and `width` is that of `1x`.
fn add_set<'a>(
    offer: &mut PictureOffer<'a>,
    set: &'a str,
    width: Option<u32>,
    max: (u32, u32),
    found: &'static [Found],
) {
    let mut rest = set;
    loop {
        rest = rest.trim_start_matches(|c: char| c == ',' || c.is_ascii_whitespace());
        if rest.is_empty() {
            return;
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
            descriptor
        };
        if !usable(url) {
            continue;
        }
        let (size, fits) = measure(descriptor, width, max);
        offer.add(Choice {
            address: Cow::Borrowed(url),
            size,
            fits,
            found,
        });
    }
}

/// The width or density of a descriptor, and whether the image may be as small as `max`.
fn measure(descriptor: &str, width: Option<u32>, max: (u32, u32)) -> (f64, bool) {
    let mut size = 1.0;
    let mut fits = true;
    for part in descriptor.split_ascii_whitespace() {
        let number = part.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let number = match number.parse::<f64>() {
            Ok(number) if number.is_finite() && number > 0.0 => number,
            _ => continue,
        };
        match part.as_bytes().last() {
            Some(b'w') => {
                size = number;
                fits &= number <= f64::from(max.0);
            }
            Some(b'h') => fits &= number <= f64::from(max.1),
            _ => {
                size = number;
                fits &= width.is_none_or(|w| f64::from(w) * number <= f64::from(max.0));
            }
        }
    }
    (size, fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_LIMIT: (u32, u32) = (20_000, 20_000);

    /// The addresses of a set in the order in which they are requested.
    fn ranked(set: &str, width: Option<u32>, max: (u32, u32)) -> Vec<String> {
        let mut offer = PictureOffer::default();
        add_set(&mut offer, set, width, max, &[Found::Srcset]);
        let best_first = offer.best_first().into_iter();
        best_first.map(|c| c.address.into_owned()).collect()
    }

    #[test]
    fn the_order_of_a_set() {
        for (set, expected) in [
            ("a 1x, b 2x, c 1.5x", "b c a"),
            ("a 1x, b 2x, c 2x", "b c a"),
            ("a.svg 3x, b.svg.png 2x, c 1x", "b.svg.png c"),
            ("a 300w, b 900w, c 30000w", "b a"),
            ("a 40000w, b 30000w", "b a"),
        ] {
            assert_eq!(ranked(set, None, NO_LIMIT).join(" "), expected, "{set}");
        }
        let many: Vec<String> = (1..100).map(|n| format!("i{n} {n}w")).collect();
        let kept = ranked(&many.join(", "), None, NO_LIMIT);
        assert_eq!(
            kept,
            ["i99", "i98", "i97", "i96", "i95", "i94", "i93", "i92"]
        );
    }

    #[test]
    fn svgs_are_known_by_their_names() {
        for (address, expected) in [
            ("a.svg", true),
            ("http://example.org/x/Logo.SVG?v=3#top", true),
            ("a.svgz", true),
            ("a.svg.png", false),
            ("/svg/a", false),
            ("/a.svg/120px-a.svg.png", false),
            ("a.svg?width=300", false),
            ("a.png?from=b.svg", false),
            ("svg", false),
            ("", false),
        ] {
            assert_eq!(is_svg(address), expected, "{address}");
        }
    }

    #[test]
    fn the_best_of_a_set() {
        for (set, expected) in [
            ("", None),
            (" , ", None),
            ("a.jpg", Some("a.jpg")),
            ("a.jpg 1x, b.jpg 2x", Some("b.jpg")),
            ("a.jpg 640w,b.jpg 1280w , c.jpg 320w", Some("b.jpg")),
            ("a.jpg 640w 480h, b.jpg 1280w 960h", Some("b.jpg")),
            ("a,b.jpg 1x, c.jpg", Some("a,b.jpg")),
            ("a.jpg, b.jpg 1.5x", Some("b.jpg")),
            ("data:image/png;base64,AA 3x, a.jpg 1x", Some("a.jpg")),
            ("a.jpg NaNx, b.jpg infx, c.jpg 0.5x", Some("a.jpg")),
            ("a.jpg -5w, b.jpg ü, c.jpg w", Some("a.jpg")),
        ] {
            let found = ranked(set, None, NO_LIMIT);
            assert_eq!(found.first().map(String::as_str), expected, "{set}");
        }
    }

    #[test]
    fn sizes_that_are_not_wanted_are_passed_over() {
        let max = (1_000, 800);
        for (set, width, expected) in [
            ("a 500w, b 1000w, c 1001w", None, "b"),
            ("a 4000w, b 2000w, c 3000w", None, "b"),
            ("a 500w 400h, b 900w 900h", None, "a"),
            ("a 1x, b 2x, c 3x", Some(400), "b"),
            ("a 1x, b 2x, c 3x", None, "c"),
        ] {
            let found = ranked(set, width, max);
            assert_eq!(found.first().map(String::as_str), Some(expected), "{set}");
        }
    }

    #[test]
    fn urls_of_styles() {
        for (style, expected) in [
            ("background-image: url(a.jpg)", Some("a.jpg")),
            (
                "color:red;BACKGROUND:#fff URL( 'a b.jpg' ) no-repeat",
                Some("a b.jpg"),
            ),
            (
                "background-image:url(\"a;b.jpg\");width:3px",
                Some("a;b.jpg"),
            ),
            (
                "background:linear-gradient(red, blue), url(a.jpg)",
                Some("a.jpg"),
            ),
            (
                "background:url(data:image/gif;base64,AA==),url(b.jpg)",
                Some("b.jpg"),
            ),
            ("background-image:url(\\61.jpg)", Some("a.jpg")),
            ("list-style:url(a.jpg);background:red", None),
            ("--background: url(a.jpg)", None),
            ("background-image: url(", None),
            ("background-image: url(a b)", None),
            ("background: none", None),
            ("};;)background:url('ä.jpg')", Some("ä.jpg")),
            ("", None),
        ] {
            assert_eq!(css_url(style, true).as_deref(), expected, "{style}");
        }
        assert_eq!(css_url("url(a.jpg)", false).as_deref(), Some("a.jpg"));
    }

    proptest::proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn arbitrary_text_never_panics(
            text in "\\PC{0,60}",
            css in "[a-z:;(){}'\"\\\\ü/]{0,12}background:url[(\\[]\\PC{0,40}",
        ) {
            let _ = ranked(&text, Some(7), (100, 100));
            let _ = is_svg(&text);
            let _ = css_url(&css, true);
            let _ = css_url(&css, false);
        }
    }
}
