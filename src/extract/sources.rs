//! Which of the addresses that an element offers is that of the image: lazy
//! attributes, `srcset`, and the background images of CSS.
//!
//! This module chooses among texts; it resolves no address and knows nothing of
//! the words around an image.

use cssparser::{Parser, Token};

use crate::page::Found;

use super::html::Attributes;
use super::links::is_other_scheme;

/// Attributes in which scripts that load images late keep the real address.
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
/// Types of pictures that cannot be decoded, so that another `source` is better.
const UNREADABLE: [&str; 5] = [
    "image/avif",
    "image/heic",
    "image/heif",
    "image/jxl",
    "image/svg+xml",
];

/// An address that is offered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Choice<'a> {
    /// As it stands on the page.
    pub address: &'a str,
    /// Width in pixels or density of pixels, whichever is said; 1 where neither
    /// is. A width is always the greater number.
    pub size: f64,
    /// Where it was found.
    pub found: &'static [Found],
}

/// What an `img` offers: the addresses for a script that loads images late, since
/// there is a stand-in elsewhere where there are any; else the best of `srcset`,
/// where it is larger than `src`; else `src`. `width` is what the element
/// declares.
pub(super) fn of_image<'a>(
    attributes: &'a impl Attributes,
    width: Option<u32>,
    max: (u32, u32),
) -> Option<Choice<'a>> {
    let set = |name: &&str, found| {
        let (address, size) = best(attributes.get(name)?, width, max)?;
        Some(Choice {
            address,
            size,
            found,
        })
    };
    let one = |name: &&str, found| {
        let address = attributes.get(name).filter(|a| usable(a))?;
        Some(Choice {
            address,
            size: 1.0,
            found,
        })
    };
    let lazy_set = || {
        let found: &[Found] = &[Found::Lazy, Found::Srcset];
        LAZY_SETS.iter().find_map(|name| set(name, found))
    };
    let lazy = || LAZY.iter().find_map(|name| one(name, &[Found::Lazy]));
    lazy_set().or_else(lazy).or_else(|| {
        let src = one(&"src", &[Found::Img]);
        let srcset = set(&"srcset", &[Found::Srcset]);
        larger(src, srcset)
    })
}

/// What a `source` of a `picture` offers.
pub(super) fn of_source(attributes: &impl Attributes, max: (u32, u32)) -> Option<Choice<'_>> {
    let media = attributes.get("type").unwrap_or_default().trim();
    if UNREADABLE.iter().any(|t| media.eq_ignore_ascii_case(t)) {
        return None;
    }
    let mut sets = LAZY_SETS.iter().chain(&["srcset"]);
    let (address, size) = sets.find_map(|name| best(attributes.get(name)?, None, max))?;
    Some(Choice {
        address,
        size,
        found: &[Found::Picture],
    })
}

/// The larger of two, the first where they are equal.
pub(super) fn larger<'a>(a: Option<Choice<'a>>, b: Option<Choice<'a>>) -> Option<Choice<'a>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b.size > a.size { b } else { a }),
        (a, b) => a.or(b),
    }
}

/// The background image of an element, and where it was found.
pub(super) fn background(attributes: &impl Attributes) -> Option<(String, &'static [Found])> {
    // Every element is asked, and few have any of them.
    let mut names = attributes.names();
    if !names.any(|name| name == "style" || LAZY_BACKGROUNDS.contains(&name)) {
        return None;
    }
    let lazy = LAZY_BACKGROUNDS.iter().find_map(|name| {
        let value = attributes.get(name)?.trim();
        let address = match value.contains('(') {
            true => css_url(value, false),
            // A path and no colour or switch.
            false => (value.contains('/') || value.contains('.')).then(|| value.to_owned()),
        };
        address.filter(|a| usable(a))
    });
    if let Some(address) = lazy {
        return Some((address, &[Found::Lazy, Found::Background]));
    }
    let address = css_url(attributes.get("style")?, true).filter(|a| usable(a))?;
    Some((address, &[Found::Background]))
}

/// Neither blank nor the data of a stand-in.
pub(super) fn usable(address: &str) -> bool {
    !address.trim().is_empty() && !is_other_scheme(address)
}

/// The first `url()` of CSS (CSS Values and Units, section 4.5); in `declarations`
/// the first of a `background` or `background-image` property.
fn css_url(css: &str, declarations: bool) -> Option<String> {
    // Few elements have one, and most styles are told from it without parsing.
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

/// The candidate of a `srcset` with the largest width or density (HTML standard,
/// parsing a srcset attribute) and that number; one without a descriptor counts as
/// `1x`. Larger ones than `max` are passed over while there is another; `width`
/// is that of `1x`.
fn best(set: &str, width: Option<u32>, max: (u32, u32)) -> Option<(&str, f64)> {
    let mut best: Option<(bool, f64, &str)> = None;
    let mut rest = set;
    loop {
        rest = rest.trim_start_matches(|c: char| c == ',' || c.is_ascii_whitespace());
        if rest.is_empty() {
            return best.map(|(_, size, url)| (url, size));
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
        let better = match best {
            None => true,
            Some((false, most, _)) => fits || size < most,
            Some((true, most, _)) => fits && size > most,
        };
        if better {
            best = Some((fits, size, url));
        }
    }
}

/// The width or density that a descriptor says, and whether the image can be as
/// small as `max`.
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
            let found = best(set, None, NO_LIMIT).map(|(url, _)| url);
            assert_eq!(found, expected, "{set}");
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
            let found = best(set, width, max).map(|(url, _)| url);
            assert_eq!(found, Some(expected), "{set}");
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
        #[test]
        fn arbitrary_text_never_panics(
            text in "\\PC{0,60}",
            css in "[a-z:;(){}'\"\\\\ü/]{0,12}background:url[(\\[]\\PC{0,40}",
        ) {
            let _ = best(&text, Some(7), (100, 100));
            let _ = css_url(&css, true);
            let _ = css_url(&css, false);
        }
    }
}
