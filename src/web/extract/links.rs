//! Links to other documents.

use crate::address::PageUrl;
use crate::page::{Link, LinkPosition};

use super::attributes::ElementAttributes;
use super::text::{WhitespaceFolder, fold_some};

/// The most characters of an anchor text that are kept.
const MAX_ANCHOR_CHARS: usize = 1_000;

/// The links of one page, in document order.
///
/// `a[href]` and `area[href]`, also with `download`; `iframe[src]` and `frame[src]` with
/// their `title` as anchor; a `meta` refresh without one. Only http and https, and never
/// to the page itself (another fragment of it is the same document). The same address may
/// occur several times, with different anchors.
#[derive(Debug)]
pub(super) struct PageLinks<'a> {
    page: &'a PageUrl,
    max: usize,
    /// Remaining bytes for addresses.
    room: usize,
    links: Vec<Link>,
    /// The `a` elements not yet ended; `None` for those that are not links.
    open: Vec<Option<OpenLink>>,
    /// For each link the length of the page's text at its end, and at the end of the last
    /// heading.
    ends: Vec<(usize, Option<usize>)>,
    /// The path of the next link.
    path: [u32; 3],
    /// The length of the page's text at the end of the last heading.
    heading: Option<usize>,
}

#[derive(Debug)]
struct OpenLink {
    index: usize,
    text: WhitespaceFolder,
    /// Used if there is no text.
    title: Option<String>,
    alt: Option<String>,
}

impl<'a> PageLinks<'a> {
    /// No links yet; at most `max` are kept, with addresses of `room` bytes in total.
    pub(super) fn new(page: &'a PageUrl, max: usize, room: usize) -> Self {
        Self {
            page,
            max,
            room,
            links: Vec::new(),
            open: Vec::new(),
            ends: Vec::new(),
            path: [0; 3],
            heading: None,
        }
    }

    /// Sets the path of the following links.
    pub(super) fn stand(&mut self, path: [u32; 3]) {
        self.path = path;
    }

    /// Handles the end of a heading at this length of the page's text.
    pub(super) fn headed(&mut self, at: usize) {
        self.heading = Some(at);
    }

    /// Handles the start of an `a` element; its text follows.
    pub(super) fn open(&mut self, base: &PageUrl, attributes: &impl ElementAttributes) {
        let link = self.add(base, attributes, "href").map(|index| OpenLink {
            index,
            text: WhitespaceFolder::new(MAX_ANCHOR_CHARS),
            title: label(attributes),
            alt: None,
        });
        self.open.push(link);
    }

    /// Handles the end of the innermost `a` element at this length of the page's text.
    pub(super) fn close(&mut self, at: usize) {
        let Some(Some(open)) = self.open.pop() else {
            return;
        };
        if let Some(end) = self.ends.get_mut(open.index) {
            *end = (at, self.heading);
        }
        if let Some(link) = self.links.get_mut(open.index) {
            link.anchor = if open.text.is_empty() {
                open.title.or(open.alt).unwrap_or_default()
            } else {
                open.text.finish()
            };
        }
    }

    /// Handles text; it belongs to the innermost open link.
    pub(super) fn text(&mut self, text: &str) {
        if let Some(Some(open)) = self.open.last_mut() {
            open.text.push(text);
        }
    }

    /// Handles anything that separates words.
    pub(super) fn space(&mut self) {
        if let Some(Some(open)) = self.open.last_mut() {
            open.text.space();
        }
    }

    /// The target of the innermost open link.
    pub(super) fn target(&self) -> Option<&PageUrl> {
        let open = self.open.last()?.as_ref()?;
        Some(&self.links.get(open.index)?.url)
    }

    /// Handles an image; its `alt` may have to serve as the anchor.
    pub(super) fn image(&mut self, alt: Option<&str>) {
        if let Some(Some(open)) = self.open.last_mut()
            && open.alt.is_none()
        {
            open.alt = alt.and_then(|alt| fold_some(alt, MAX_ANCHOR_CHARS));
        }
    }

    /// Handles an element that is a link by itself: `area`, `iframe`, `frame`. The page's
    /// text has the length `at` there.
    pub(super) fn element(
        &mut self,
        base: &PageUrl,
        attributes: &impl ElementAttributes,
        name: &str,
        at: usize,
    ) {
        if let Some(index) = self.add(base, attributes, name)
            && let Some(link) = self.links.get_mut(index)
        {
            if let Some(end) = self.ends.get_mut(index) {
                *end = (at, self.heading);
            }
            link.anchor = label(attributes)
                .or_else(|| fold_some(attributes.get("alt")?, MAX_ANCHOR_CHARS))
                .unwrap_or_default();
        }
    }

    /// A `meta` refresh with this `content`.
    pub(super) fn refresh(&mut self, base: &PageUrl, content: &str) {
        if let Some(target) = refresh_target(content) {
            self.push(base, target, false);
        }
    }

    /// All links of a page with this text, one block per line; elements still open end
    /// here.
    pub(super) fn finish(mut self, text: &str) -> Vec<Link> {
        while !self.open.is_empty() {
            self.close(text.len());
        }
        let ends: Vec<usize> = memchr::memchr_iter(b'\n', text.as_bytes()).collect();
        let block = |at: usize| {
            let before = ends.partition_point(|end| *end < at);
            u32::try_from(before).ok().filter(|_| at > 0)
        };
        for (link, (end, heading)) in self.links.iter_mut().zip(&self.ends) {
            link.place.block = block(*end);
            link.place.heading = heading.and_then(block);
        }
        self.links
    }

    fn add(
        &mut self,
        base: &PageUrl,
        attributes: &impl ElementAttributes,
        name: &str,
    ) -> Option<usize> {
        let nofollow = attributes.get("rel").is_some_and(|rel| {
            rel.split_ascii_whitespace().any(|token| {
                ["nofollow", "ugc", "sponsored"]
                    .iter()
                    .any(|t| token.eq_ignore_ascii_case(t))
            })
        });
        self.push(base, attributes.get(name)?, nofollow)
    }

    fn push(&mut self, base: &PageUrl, target: &str, nofollow: bool) -> Option<usize> {
        // Avoids useless work: a long base makes resolving each address costly.
        if self.links.len() >= self.max || self.room == 0 || is_other_scheme(target) {
            return None;
        }
        let url = base.join(target).ok().filter(|url| url != self.page)?;
        let left = self.room.checked_sub(url.as_str().len());
        self.room = left.unwrap_or(0);
        left?;
        self.links.push(Link {
            url,
            anchor: String::new(),
            nofollow,
            place: LinkPosition {
                path: self.path,
                ..LinkPosition::default()
            },
        });
        self.ends.push((0, None));
        Some(self.links.len() - 1)
    }
}

/// Whether the target has one of the common schemes that lead to no document; checked
/// without parsing what may be megabytes of data.
pub(super) fn is_other_scheme(target: &str) -> bool {
    let target = target.trim_start().as_bytes();
    ["data:", "javascript:", "mailto:", "tel:", "blob:", "about:"]
        .iter()
        .any(|scheme| {
            target
                .get(..scheme.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(scheme.as_bytes()))
        })
}

fn label(attributes: &impl ElementAttributes) -> Option<String> {
    ["title", "aria-label"]
        .iter()
        .find_map(|name| fold_some(attributes.get(name)?, MAX_ANCHOR_CHARS))
}

/// The address in the `content` of a refresh, as in `5; url='next.html'` (HTML
/// standard, shared declarative refresh steps).
fn refresh_target(content: &str) -> Option<&str> {
    let content = content.trim_start();
    let rest = content.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    if rest.len() == content.len() {
        return None;
    }
    let rest = rest
        .trim_start()
        .trim_start_matches([';', ','])
        .trim_start();
    let target = match rest.get(..3) {
        Some(url) if url.eq_ignore_ascii_case("url") => rest[3..]
            .trim_start()
            .strip_prefix('=')
            .map_or(rest, str::trim_start),
        _ => rest,
    };
    let target = match target.chars().next()? {
        quote @ ('"' | '\'') => target[1..].split(quote).next()?,
        _ => target,
    };
    Some(target.trim()).filter(|target| !target.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refresh_contents() {
        for (content, expected) in [
            ("5", None),
            ("5;", None),
            ("", None),
            ("url=/a", None),
            ("0; url=/a", Some("/a")),
            ("0;URL='/a b'", Some("/a b")),
            (" 3.5 , Url = \"/a\" trailing", Some("/a")),
            ("1; /a", Some("/a")),
            ("1; urls/a", Some("urls/a")),
            ("1 ; ü", Some("ü")),
        ] {
            assert_eq!(refresh_target(content), expected, "{content}");
        }
    }

    #[test]
    fn other_schemes() {
        for target in [" JavaScript:void(0)", "mailto:a@b.c", "data:,x", "TEL:1"] {
            assert!(is_other_scheme(target), "{target}");
        }
        for target in ["", "d", "ü", "/data:", "dat", "telephone"] {
            assert!(!is_other_scheme(target), "{target}");
        }
    }
}
