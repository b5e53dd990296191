//! One walk over the tree, and the collector that both walks feed.

use ego_tree::iter::Edge;
use scraper::node::Element;
use scraper::{Html, Node};

use crate::address::PageUrl;
use crate::page::{Directives, Extracted, ImageCandidate, Prints};

use super::Options;
use super::directives;
use super::images::{self, Outline};
use super::links::Links;
use super::text::{Flow, Folder, Role, role};

/// Characters of the title that are kept.
const MAX_TITLE_CHARS: usize = 1_000;
/// Longest language tag that is believed (RFC 5646 section 4.4.1 asks for 35).
const MAX_LANGUAGE_BYTES: usize = 35;

/// What one walk over the tree gives; the charset is left empty.
///
/// A node's depth is bounded by the guard, and the walk keeps no stack of calls
/// anyway. Elements with the attribute `hidden` or the style `display:none`, and
/// what the text module calls an aside, give no text but do give links and
/// images; `aria-hidden` is ignored, since it hides from readers aloud only.
pub(super) fn walk(page: &PageUrl, html: &Html, options: &Options) -> Extracted {
    let mut collector = Collector::new(page, base(page, html), options);
    let mut outline = Outline::default();
    // Elements within which the text is no prose, and within which nothing counts.
    let mut asides = 0_usize;
    let mut voids = 0_usize;
    for edge in html.tree.root().traverse() {
        match edge {
            Edge::Open(node) => match node.value() {
                Node::Text(text) if voids == 0 => collector.text(text, asides > 0),
                Node::Element(element) => {
                    let role = role(element.name());
                    outline.open(collector.flow.len());
                    if voids == 0 {
                        let images = collector.images.len();
                        collector.open(element.name(), role, element);
                        if collector.images.len() > images {
                            outline.image();
                        }
                        asides += usize::from(is_aside(element, role));
                    }
                    voids += usize::from(role == Role::Void);
                }
                _ => {}
            },
            Edge::Close(node) => {
                if let Node::Element(element) = node.value() {
                    let role = role(element.name());
                    voids -= usize::from(role == Role::Void);
                    if voids == 0 {
                        asides -= usize::from(is_aside(element, role));
                        collector.close(element.name(), role);
                    }
                    outline.close(collector.flow.len());
                }
            }
        }
    }
    let (mut extracted, flow) = collector.finish();
    outline.surround(flow.as_str(), &mut extracted.images, options);
    extracted
}

/// The attributes of an element.
pub(super) trait Attributes {
    /// The value of the attribute, `None` where the element has none.
    fn get(&self, name: &str) -> Option<&str>;
}

impl Attributes for Element {
    fn get(&self, name: &str) -> Option<&str> {
        // `Element::attr` would intern the name each time.
        self.attrs().find(|(n, _)| *n == name).map(|(_, v)| v)
    }
}

/// Gathers a page from its elements and texts in document order.
#[derive(Debug)]
pub(super) struct Collector<'a> {
    options: &'a Options,
    base: PageUrl,
    /// The page's text so far.
    pub(super) flow: Flow,
    links: Links<'a>,
    /// The images so far.
    pub(super) images: Vec<ImageCandidate>,
    /// Addresses of the first `source` of the `picture` that is open.
    source: Option<String>,
    title: Folder,
    in_title: bool,
    has_title: bool,
    root_language: Option<String>,
    meta_language: Option<String>,
    directives: Directives,
    /// Where the first `link` that names the canonical address leads.
    canonical: Option<PageUrl>,
    in_body: bool,
}

impl<'a> Collector<'a> {
    /// Nothing gathered yet. Addresses resolve against `base`.
    pub(super) fn new(page: &'a PageUrl, base: PageUrl, options: &'a Options) -> Self {
        Self {
            options,
            base,
            flow: Flow::default(),
            links: Links::new(page, options.max_links),
            images: Vec::new(),
            source: None,
            title: Folder::new(MAX_TITLE_CHARS),
            in_title: false,
            has_title: false,
            root_language: None,
            meta_language: None,
            directives: Directives::default(),
            canonical: None,
            in_body: false,
        }
    }

    /// An element begins that lies in no [`Role::Void`].
    pub(super) fn open(&mut self, name: &str, role: Role, attributes: &impl Attributes) {
        self.flow.open(role);
        self.in_body |= role == Role::Block && !matches!(name, "html" | "head");
        if role != Role::Inline && role != Role::Aside {
            self.links.space();
        }
        match name {
            "a" => self.links.open(&self.base, attributes),
            "area" => self.links.element(&self.base, attributes, "href"),
            "frame" | "iframe" => self.links.element(&self.base, attributes, "src"),
            "img" | "image" => self.image(attributes),
            "picture" => self.source = None,
            "source" if self.source.is_none() => {
                self.source = images::source_set(attributes).map(str::to_owned);
            }
            "title" => self.in_title = true,
            "html" => {
                self.root_language = self.root_language.take().or_else(|| {
                    language(
                        attributes
                            .get("lang")
                            .or_else(|| attributes.get("xml:lang"))?,
                    )
                });
            }
            "meta" => self.meta(attributes),
            "link" => self.link(attributes),
            _ => {}
        }
    }

    /// An element ends that lies in no [`Role::Void`].
    pub(super) fn close(&mut self, name: &str, role: Role) {
        self.flow.close(role);
        if matches!(role, Role::Block | Role::Preformatted) {
            self.links.space();
        }
        match name {
            "a" => self.links.close(),
            "picture" => self.source = None,
            "title" => {
                self.in_title = false;
                self.has_title = !self.title.is_empty();
            }
            _ => {}
        }
    }

    /// Text stands here, of an aside or of the page's prose.
    pub(super) fn text(&mut self, text: &str, aside: bool) {
        if self.in_title {
            // A second title is neither title nor prose.
            if !self.has_title {
                self.title.push(text);
            }
            return;
        }
        self.links.text(text);
        if !aside {
            self.flow.text(text);
        }
    }

    /// The page, and the flow its blocks were cut from.
    pub(super) fn finish(self) -> (Extracted, Flow) {
        let extracted = Extracted {
            title: Some(self.title.finish()).filter(|title| !title.is_empty()),
            language: self.root_language.or(self.meta_language),
            charset: String::new(),
            blocks: self.flow.blocks(),
            links: self.links.finish(),
            images: self.images,
            directives: self.directives,
            canonical: self.canonical,
            prints: Prints::default(),
        };
        (extracted, self.flow)
    }

    fn image(&mut self, attributes: &impl Attributes) {
        self.links.image(attributes.get("alt"));
        if self.images.len() < self.options.max_images {
            let source = self.source.as_deref();
            self.images
                .extend(images::candidate(&self.base, attributes, source));
        }
    }

    /// In the body anybody may have written it.
    fn link(&mut self, attributes: &impl Attributes) {
        let is_canonical = |rel: &str| {
            let mut tokens = rel.split_ascii_whitespace();
            tokens.any(|token| token.eq_ignore_ascii_case("canonical"))
        };
        if self.canonical.is_none()
            && !self.in_body
            && attributes.get("rel").is_some_and(is_canonical)
        {
            let href = attributes.get("href").filter(|h| !h.trim().is_empty());
            self.canonical = href.and_then(|href| self.base.join(href).ok());
        }
    }

    fn meta(&mut self, attributes: &impl Attributes) {
        let Some(content) = attributes.get("content") else {
            return;
        };
        if let Some(name) = attributes.get("name") {
            directives::of_meta(&mut self.directives, name, content);
        }
        match attributes.get("http-equiv").map(str::trim) {
            Some(name) if name.eq_ignore_ascii_case("refresh") => {
                self.links.refresh(&self.base, content);
            }
            Some(name) if name.eq_ignore_ascii_case("content-language") => {
                self.meta_language = self
                    .meta_language
                    .take()
                    .or_else(|| language(content.split(',').next()?));
            }
            _ => {}
        }
    }
}

/// What the addresses of a page resolve against: the first `base` that has a
/// `href`, where that is http or https, and the page's own address otherwise.
pub(super) fn base_of(page: &PageUrl, href: &str) -> PageUrl {
    page.join(href).unwrap_or_else(|_| page.clone())
}

fn base(page: &PageUrl, html: &Html) -> PageUrl {
    html.tree
        .nodes()
        .filter_map(|node| node.value().as_element())
        .filter(|element| element.name() == "base")
        .find_map(|element| element.get("href"))
        .map_or_else(|| page.clone(), |href| base_of(page, href))
}

fn is_aside(element: &Element, role: Role) -> bool {
    role == Role::Aside
        || element.attrs().any(|(name, value)| match name {
            "hidden" => !value.trim().eq_ignore_ascii_case("until-found"),
            "style" => hides(value),
            _ => false,
        })
}

fn hides(style: &str) -> bool {
    style.split(';').any(|declaration| {
        declaration
            .split_once(':')
            .is_some_and(|(property, value)| {
                property.trim().eq_ignore_ascii_case("display")
                    && value
                        .split_whitespace()
                        .next()
                        .is_some_and(|v| v.eq_ignore_ascii_case("none"))
            })
    })
}

/// A language tag in lower case with hyphens, `None` where it is none.
fn language(tag: &str) -> Option<String> {
    let tag = tag.trim().to_ascii_lowercase().replace('_', "-");
    let is_tag = !tag.is_empty()
        && tag.len() <= MAX_LANGUAGE_BYTES
        && tag.starts_with(|c: char| c.is_ascii_lowercase())
        && tag.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    is_tag.then_some(tag)
}
