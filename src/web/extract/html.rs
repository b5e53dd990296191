//! The walk over the tree, and the collector of what is found on a page.

use ego_tree::iter::Edge;
use scraper::{Html, Node};

use crate::address::PageUrl;
use crate::page::{Extracted, Found, ImageCandidate, Prints, Terms, TextShare};
use crate::words::Tokens;

use super::Options;
use super::alt_text;
use super::attributes::ElementAttributes;
use super::images;
use super::json_ld;
use super::links::PageLinks;
use super::metadata::{Says, TextMeaning};
use super::names::NameTable;
use super::sources;
use super::terms;
use super::text::{Flow, Layout, TextRole, WhitespaceFolder};
use super::walk::PageWalk;
use super::written::Written;

/// The most characters of the title that are kept.
const MAX_TITLE_CHARS: usize = 1_000;
/// The longest language tag that is accepted (RFC 5646 section 4.4.1 asks for 35).
const MAX_LANGUAGE_BYTES: usize = 35;
/// The longest target of a link that each image inside it keeps.
const MAX_TARGET_BYTES: usize = 2_000;

/// Walks over the tree once and returns the result.
///
/// The parser limits the depth of nodes, and the walk is not recursive anyway.
pub(super) fn walk(page: &PageUrl, html: &Html, options: &Options) -> (Extracted, Layout) {
    let mut walk = PageWalk::new(page, base(page, html), options);
    for edge in html.tree.root().traverse() {
        match edge {
            Edge::Open(node) => match node.value() {
                Node::Text(text) => walk.text(text),
                Node::Element(element) => walk.open(element.name(), element, || {
                    let texts = node.children().filter_map(|n| n.value().as_text());
                    texts.map(|text| &**text).collect::<String>().into()
                }),
                _ => {}
            },
            Edge::Close(node) => {
                if let Node::Element(element) = node.value() {
                    walk.close(element.name());
                }
            }
        }
    }
    walk.finish()
}

/// Collects a page from its elements and texts in document order.
#[derive(Debug)]
pub(super) struct Collector<'a> {
    options: &'a Options,
    page: &'a PageUrl,
    base: PageUrl,
    /// The page's visible text so far.
    pub(super) flow: Flow,
    /// The page's text as its author wrote it, if it is wanted.
    pub(super) written: Option<Written>,
    links: PageLinks<'a>,
    /// Remaining bytes for addresses of images.
    image_room: usize,
    /// The images so far.
    pub(super) images: Vec<ImageCandidate>,
    /// Images that the page names in its metadata.
    declared: Vec<ImageCandidate>,
    /// Remaining bytes for JSON-LD.
    json_room: usize,
    /// Images that were skipped because their names are those of SVGs.
    svgs: u32,
    /// The offer of the `source` elements of the open `picture`.
    source: Option<sources::PictureOffer<'static>>,
    /// The last image file that a link around an image led to.
    larger: Option<PageUrl>,
    /// The caption that a script would show with the image of the open link.
    link_caption: Option<String>,
    /// Number of open `noscript` elements.
    noscripts: usize,
    title: WhitespaceFolder,
    in_title: bool,
    has_title: bool,
    root_language: Option<String>,
    meta_language: Option<String>,
    terms: Terms,
    /// The target of the first `link` that names the canonical address.
    canonical: Option<PageUrl>,
    in_body: bool,
    /// The metadata that the page states about itself.
    says: Says,
    /// Open elements whose text is needed.
    awaited: Vec<Awaited>,
}

/// An open element whose text is metadata.
#[derive(Debug)]
struct Awaited {
    name: String,
    /// Number of open elements of this name within it, including itself.
    depth: usize,
    /// Length of the flow at its start.
    from: usize,
    /// The meaning of its text.
    meaning: TextMeaning,
}

/// The most elements whose text is collected at the same time.
const MAX_AWAITED: usize = 8;
/// The longest text of such an element; a longer one was never closed.
const MAX_AWAITED_BYTES: usize = 300;

impl<'a> Collector<'a> {
    /// An empty page. Addresses resolve against `base`.
    pub(super) fn new(page: &'a PageUrl, base: PageUrl, options: &'a Options) -> Self {
        Self {
            options,
            page,
            base,
            flow: Flow::default(),
            written: options.wants_main_text().then(Written::default),
            links: PageLinks::new(page, options.max_links, options.max_address_bytes),
            image_room: options.max_address_bytes,
            images: Vec::new(),
            declared: Vec::new(),
            json_room: json_ld::MAX_BYTES,
            svgs: 0,
            source: None,
            larger: None,
            link_caption: None,
            noscripts: 0,
            title: WhitespaceFolder::new(MAX_TITLE_CHARS),
            in_title: false,
            has_title: false,
            root_language: None,
            meta_language: None,
            terms: Terms::default(),
            canonical: None,
            in_body: false,
            says: Says::default(),
            awaited: Vec::new(),
        }
    }

    /// Sets the path of the next link.
    pub(super) fn stand(&mut self, path: [u32; 3]) {
        self.links.stand(path);
    }

    /// Handles the start of an element outside of any [`TextRole::Void`].
    pub(super) fn open(
        &mut self,
        name: &str,
        role: TextRole,
        unread: Option<Unread>,
        attributes: &impl ElementAttributes,
    ) {
        self.flow.open(role);
        if let Some(written) = &mut self.written {
            written.open(name, role, unread, attributes);
        }
        self.await_text(name, attributes);
        self.in_body |= role == TextRole::Block && !matches!(name, "html" | "head");
        if role != TextRole::Inline && role != TextRole::Aside {
            self.links.space();
        }
        if matches!(name, "a" | "area" | "link")
            && let (Some(rel), Some(href)) = (attributes.get("rel"), attributes.get("href"))
        {
            let media = attributes.get("type").unwrap_or_default();
            terms::of_link(&mut self.terms, &self.base, rel, href, media);
        }
        match name {
            "a" => {
                self.links.open(&self.base, attributes);
                self.link_caption = images::shown_caption(attributes);
            }
            "area" => {
                let at = self.flow.len();
                self.links.element(&self.base, attributes, "href", at);
            }
            "frame" | "iframe" => {
                let at = self.flow.len();
                self.links.element(&self.base, attributes, "src", at);
            }
            "img" | "image" => self.image(attributes),
            "picture" => self.source = None,
            "source" => {
                let offer = sources::of_source(attributes, self.options.max_image);
                let known = self.source.get_or_insert_default();
                known.join(offer.into_owned());
            }
            "noscript" => self.noscripts += 1,
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
        // Elements of the head show nothing.
        let is_shown = !matches!(
            name,
            "base"
                | "basefont"
                | "bgsound"
                | "head"
                | "link"
                | "meta"
                | "noframes"
                | "noscript"
                | "script"
                | "style"
                | "template"
                | "title"
        );
        if is_shown
            && self.takes_images()
            && let Some(image) = images::background(&self.base, attributes)
        {
            self.embed(image);
        }
    }

    /// Handles the end of an element outside of any [`TextRole::Void`].
    pub(super) fn close(&mut self, name: &str, role: TextRole) {
        self.flow.close(role);
        if let Some(written) = &mut self.written {
            written.close();
        }
        if matches!(role, TextRole::Block | TextRole::Preformatted) {
            self.links.space();
        }
        self.close_awaited(name);
        match name {
            "a" => {
                self.links.close(self.flow.len());
                self.link_caption = None;
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.links.headed(self.flow.len()),
            "picture" => self.source = None,
            "noscript" => self.noscripts = self.noscripts.saturating_sub(1),
            "title" => {
                self.in_title = false;
                self.has_title = !self.title.is_empty();
            }
            _ => {}
        }
    }

    /// Records the start of an element whose text is needed.
    fn await_text(&mut self, name: &str, attributes: &impl ElementAttributes) {
        for awaited in &mut self.awaited {
            awaited.depth += usize::from(awaited.name == name);
        }
        if let Some(meaning) = self.says.element(name, attributes)
            && self.awaited.len() < MAX_AWAITED
        {
            self.awaited.push(Awaited {
                name: name.to_owned(),
                depth: 1,
                from: self.flow.len(),
                meaning,
            });
        }
    }

    fn close_awaited(&mut self, name: &str) {
        let Self {
            awaited,
            flow,
            says,
            ..
        } = self;
        awaited.retain_mut(|open| {
            open.depth -= usize::from(open.name == name);
            if open.depth > 0 {
                return true;
            }
            let range = open.from..flow.len();
            if range.len() <= MAX_AWAITED_BYTES {
                says.text(open.meaning, flow.as_str().get(range).unwrap_or_default());
            }
            false
        });
    }

    /// Handles text, of an aside or of the page's prose.
    pub(super) fn text(&mut self, text: &str, aside: bool) {
        if self.in_title {
            // A second title is neither a title nor prose.
            if !self.has_title {
                self.title.push(text);
            }
            return;
        }
        self.links.text(text);
        if let Some(written) = &mut self.written {
            written.text(text, self.flow.number());
        }
        if !aside {
            self.flow.text(text);
        }
    }

    /// Handles a formula.
    pub(super) fn formula(&mut self, text: Option<String>) {
        if let (Some(written), Some(text)) = (&mut self.written, text) {
            written.formula(&text);
        }
    }

    /// Handles a JSON-LD script.
    pub(super) fn json_ld(&mut self, json: &str) {
        if let Some(room) = self.json_room.checked_sub(json.len()) {
            self.json_room = room;
            let room = self.options.max_images.saturating_sub(self.declared.len());
            // Each may be as long as the base to which it is relative.
            let fit = self.image_room / self.base.as_str().len().max(1);
            let read = json_ld::read(&self.base, json, room.min(fit));
            for image in read.images {
                if !self.is_svg(&image) && self.has_room(&image) {
                    self.declared.push(image);
                }
            }
            self.terms.license(read.licences);
            if let Some(article) = read.article {
                self.says.article(&article);
            }
            if let Some(site) = read.site {
                self.says.site(&site);
            }
        }
    }

    /// Whether further images can be kept; resolving their addresses is useless otherwise.
    fn takes_images(&self) -> bool {
        self.images.len() < self.options.max_images && self.image_room > 0
    }

    /// Whether the image's address still fits; if so, it is counted.
    fn has_room(&mut self, image: &ImageCandidate) -> bool {
        let left = self.image_room.checked_sub(image.url.as_str().len());
        self.image_room = left.unwrap_or(0);
        left.is_some()
    }

    /// Whether the image is an SVG by name; if so, it is counted as skipped.
    fn is_svg(&mut self, image: &ImageCandidate) -> bool {
        let is_svg = sources::is_svg(image.url.as_str());
        self.svgs = self.svgs.saturating_add(u32::from(is_svg));
        is_svg
    }

    /// The page, with the positions of its blocks.
    pub(super) fn finish(mut self) -> (Extracted, Layout) {
        images::unite(&mut self.images, self.declared, self.options);
        let blocks = self.flow.blocks();
        let (flow, lines) = self.flow.into_parts();
        let written = self.written.map(Written::finish);
        let layout = Layout { lines, written };
        let title = Some(self.title.finish()).filter(|title| !title.is_empty());
        let extracted = Extracted {
            metadata: self.says.finish(self.page, title.as_deref()),
            title,
            language: self.root_language.or(self.meta_language),
            recognised: None,
            guessed: None,
            charset: String::new(),
            declared_charset: None,
            mime: None,
            controls: 0,
            main: None,
            blocks,
            left_out: Vec::new(),
            tokens: Tokens::default(),
            text: TextShare::default(),
            links: self.links.finish(&flow),
            flow,
            images: self.images,
            svgs: self.svgs,
            terms: self.terms,
            canonical: self.canonical,
            prints: Prints::default(),
            fallback: None,
        };
        (extracted, layout)
    }

    fn image(&mut self, attributes: &impl ElementAttributes) {
        self.links.image(attributes.get("alt"));
        if !self.takes_images() {
            return;
        }
        let picture = self.source.clone();
        let offer = images::offer(attributes, picture, self.options.max_image);
        if offer.is_only_svg() {
            self.svgs = self.svgs.saturating_add(1);
            return;
        }
        let Some(mut image) = images::candidate(&self.base, attributes, offer) else {
            return;
        };
        let caption = images::shown_caption(attributes).or_else(|| self.link_caption.clone());
        image.texts.caption = caption.filter(|text| alt_text::is_written(text, &image.url));
        let larger = self
            .links
            .target()
            .and_then(|to| images::larger(&image, to));
        self.embed(image);
        // A link around many images has one larger version.
        if let Some(larger) = larger
            && self.images.len() < self.options.max_images
            && self.larger.as_ref() != Some(&larger.url)
        {
            self.larger = Some(larger.url.clone());
            self.embed(larger);
        }
    }

    fn embed(&mut self, mut image: ImageCandidate) {
        if self.is_svg(&image) || !self.has_room(&image) {
            return;
        }
        let target = self.links.target();
        let target = target.filter(|to| to.as_str().len() <= MAX_TARGET_BYTES);
        image.embedding.link_target = target.cloned();
        if self.noscripts > 0 {
            image.embedding.found.push(Found::Noscript);
        }
        if let Some(written) = &mut self.written {
            written.image(image.embedding.found.contains(&Found::Link));
        }
        self.images.push(image);
    }

    /// Handles an image named in the metadata.
    fn declare(&mut self, address: &str, found: Found) {
        if self.declared.len() < self.options.max_images && self.image_room > 0 {
            let Some(image) = images::declared(&self.base, address, found) else {
                return;
            };
            // Its properties may follow under either name.
            if let Some(last) = self.declared.last_mut()
                && last.url == image.url
            {
                last.embedding.found.push(found);
            } else if !self.is_svg(&image) && self.has_room(&image) {
                self.declared.push(image);
            }
        }
    }

    /// In the body it may come from visitors.
    fn link(&mut self, attributes: &impl ElementAttributes) {
        let rel = attributes.get("rel").unwrap_or_default();
        let is = |name| {
            let mut tokens = rel.split_ascii_whitespace();
            tokens.any(|token| token.eq_ignore_ascii_case(name))
        };
        if self.canonical.is_none() && !self.in_body && is("canonical") {
            let href = attributes.get("href").filter(|h| !h.trim().is_empty());
            self.canonical = href.and_then(|href| self.base.join(href).ok());
        }
        // The parts of a series, such as the pages of a list (HTML standard, "sequential link
        // types").
        if is("next") || is("prev") {
            self.links.element(&self.base, attributes, "href", 0);
        }
        if is("image_src")
            && let Some(href) = attributes.get("href")
        {
            self.declare(href, Found::ImageSrc);
        }
    }

    /// Open Graph (section "Structured Properties") and Twitter cards: an image,
    /// or a property of the image named last.
    fn image_of_meta(&mut self, key: &str, content: &str) {
        match key {
            "og:image" | "og:image:url" | "og:image:secure_url" => {
                self.declare(content, Found::OpenGraph);
            }
            "twitter:image" | "twitter:image:src" => self.declare(content, Found::Twitter),
            "og:image:alt" | "og:image:width" | "og:image:height" | "twitter:image:alt" => {
                if let Some(last) = self.declared.last_mut()
                    && !last.embedding.found.contains(&Found::JsonLd)
                {
                    images::describe(last, key, content);
                }
            }
            _ => {}
        }
    }

    fn meta(&mut self, attributes: &impl ElementAttributes) {
        let Some(content) = attributes.get("content") else {
            return;
        };
        if let Some(name) = attributes.get("name") {
            let agent = &self.options.agent;
            terms::of_meta(&mut self.terms, &self.base, (name, content), agent);
        }
        // Either attribute is used with either vocabulary.
        for key in ["property", "name"]
            .iter()
            .filter_map(|a| attributes.get(a))
        {
            let key = key.trim().to_ascii_lowercase();
            self.image_of_meta(&key, content);
            self.says.meta(&key, content);
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

/// The base of a page's addresses: the first `base` with a `href`, if that is http or
/// https, and the page's own address otherwise.
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

/// Classes of navigation, remarks and lists of sources.
static FURNITURE: NameTable<bool> = NameTable::of_words(
    &[(
        true,
        "ambox breadcrumb breadcrumbs catlinks dablink hatnote mbox-small mw-jump-link navbar navbox \
         noprint pagination printfooter references reflist seealso sistersitebox skip-link stub toc \
         vertical-navbox",
    )],
    false,
);

/// Whether the markup declares an element as navigation, as a remark of the editors of a wiki or as
/// a list of sources. Names are those of HTML and ARIA, and the class names that wikis and
/// templates share.
pub(super) fn is_furniture(name: &str, attributes: &impl ElementAttributes) -> bool {
    const ROLES: [&str; 3] = ["navigation", "search", "doc-toc"];
    const IDS: [&str; 7] = [
        "catlinks",
        "contentSub",
        "coordinates",
        "jump-to-nav",
        "mw-navigation",
        "siteSub",
        "toc",
    ];
    let any = |attribute: &str, is_one: fn(&str) -> bool| {
        let value = attributes.get(attribute);
        value.is_some_and(|value| value.split_ascii_whitespace().any(is_one))
    };
    let is_class = |class: &str| FURNITURE.get(class) || class == "mw-references-wrap";
    match name {
        "nav" => true,
        "div" | "ul" | "ol" | "table" | "section" | "a" | "aside" | "p" | "h3" | "span" | "sup" => {
            any("class", is_class)
                || any("id", |id| IDS.contains(&id))
                || any("role", |role| ROLES.contains(&role))
        }
        _ => false,
    }
}

/// Why the text of an element is not read with the text around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    /// It is one of the marks that wikis put into headings and sentences: a link to edit a
    /// section, or the number of a footnote.
    Mark,
    /// It is not shown, at least at first.
    Hidden,
}

impl Unread {
    /// Of the element with this name.
    pub(super) fn of(name: &str, attributes: &impl ElementAttributes) -> Option<Self> {
        if is_mark(name, attributes) {
            Some(Self::Mark)
        } else if is_hidden(attributes) {
            Some(Self::Hidden)
        } else {
            None
        }
    }
}

fn is_hidden(attributes: &impl ElementAttributes) -> bool {
    attributes
        .get("hidden")
        .is_some_and(|value| !value.trim().eq_ignore_ascii_case("until-found"))
        || attributes.get("style").is_some_and(hides)
}

fn is_mark(name: &str, attributes: &impl ElementAttributes) -> bool {
    const SHORTEST: usize = "lineno".len();
    let classes = attributes.get("class").unwrap_or_default();
    classes.len() >= SHORTEST
        && classes.split_ascii_whitespace().any(|class| match class {
            "mw-editsection" | "editsection" => true,
            // What scripts show of a formula whose MathML or TeX is there as well.
            "katex-html" | "MathJax_Preview" => true,
            // Numbers of lines, and signs of links to a heading.
            "lineno"
            | "linenos"
            | "linenumber"
            | "line-number"
            | "hljs-ln-numbers"
            | "react-syntax-highlighter-line-number" => true,
            "headerlink" | "doc-anchor" | "hash-link" | "anchorjs-link" => name == "a",
            "header-anchor" => attributes.get("aria-hidden") == Some("true"),
            "reference" => name == "sup",
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
                        .split(|c: char| c.is_whitespace() || c == '!')
                        .find(|word| !word.is_empty())
                        .is_some_and(|v| v.eq_ignore_ascii_case("none"))
            })
    })
}

/// A language tag in lower case with hyphens; `None` if it is not valid.
fn language(tag: &str) -> Option<String> {
    let tag = tag.trim().to_ascii_lowercase().replace('_', "-");
    let is_tag = !tag.is_empty()
        && tag.len() <= MAX_LANGUAGE_BYTES
        && tag.starts_with(|c: char| c.is_ascii_lowercase())
        && tag.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    is_tag.then_some(tag)
}
