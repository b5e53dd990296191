//! Extraction: the bytes of a response become an [`Extracted`] page.
//!
//! The path of a response, which is the reading order:
//!
//! 1. `charset` finds the encoding (BOM, HTTP header, `meta`, detection) and decodes; `xhtml`
//!    rewrites what is XML.
//! 2. `stream` reads the markup in one pass without a tree. If the HTML standard moves something
//!    that was already read, it stops with a [`Fallback`](crate::page::Fallback), and the page is
//!    read from a tree: `limits` parses the text once, and stops if hostile markup would make the
//!    tree too deep, too large or too slow.
//! 3. Both ways pass each element and each text to one `walk` and its collector (`html`), which
//!    keeps `text` (blocks), `links`, `images` and `terms` of use (including `directives`). An
//!    image's address comes from one of its `sources` or from `json_ld`, the words around it from
//!    the `neighbours` found by the walk, and `alt_text` determines whether its alt text was
//!    written for it. `path` describes the position of a link on its page, and `fingerprint`
//!    summarises its words for recognising it. `metadata` collects the page's dates, authors and
//!    title.
//! 4. `selection` keeps the blocks chosen by the job's extractor: `main_text` judges each block of
//!    the text as `written`, with the `containers` around it, by a model; `density` judges the
//!    visible text by its position. `document` lays out the chosen blocks by their `structure`.
//! 5. `token_stream` feeds the same collector if the tree's parse was stopped: text, links,
//!    and images without the words around them.
//! 6. `paged` does the same for the text of a PDF, which a separate process has read.
//!
//! Everything is pure: the same bytes give the same page, without network, clock or store, so
//! stored responses can be extracted again. This module must not know what is topical, what may be
//! followed or what is fetched next; it reports nofollow, terms of use and declared sizes, and its
//! callers act on them. [`Options`] bounds memory and time for any input.

mod alt_text;
mod attributes;
mod byline;
mod caption_text;
mod captions;
mod charset;
mod containers;
mod density;
mod directives;
mod document;
mod fingerprint;
mod formula;
mod html;
mod images;
mod json_ld;
mod lenient;
mod limits;
mod links;
mod main_text;
mod metadata;
mod names;
mod neighbours;
mod paged;
mod path;
mod placed;
mod scripts;
mod selection;
mod sources;
mod stream;
mod structure;
mod terms;
mod text;
mod titles;
mod token_stream;
mod walk;
mod written;
mod xhtml;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::address::PageUrl;
use crate::page::{self, Extracted, Extractor, Fetched, Terms, TermsHeaders};

pub use main_text::{SeenBlock, feature_names};
pub use paged::{is_pdf, of_pdf};
pub use text::plain_text;

use text::Layout;
use written::WrittenPage;

/// Limits on the result and the cost of one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How many enclosing elements' texts an image keeps.
    pub parents: usize,
    /// How many sibling elements' texts an image keeps.
    pub siblings: usize,
    /// The most bytes of decoded text; the rest of the page is ignored.
    pub max_text_bytes: usize,
    /// The deepest tree; a deeper page is read as a token stream. Of some 3,700 real pages
    /// the deepest had 90; the tree builder's time per tag grows with the depth, so this
    /// also bounds the time.
    pub max_nesting: usize,
    /// The most nodes (elements, texts, comments) of the tree; a page with more is read as
    /// a token stream. A node takes about 150 bytes while parsing. Of 521 encyclopedia
    /// pages the largest had 21,239.
    pub max_nodes: usize,
    /// The most links; later ones are ignored.
    pub max_links: usize,
    /// The most images; later ones are ignored.
    pub max_images: usize,
    /// The largest wanted width and height of an image, in pixels; if a page offers several sizes,
    /// the largest one within these limits is taken.
    pub max_image: (u32, u32),
    /// The most bytes for the texts of parents and siblings of all images of a page; later
    /// images get none.
    pub max_context_bytes: usize,
    /// The most bytes for the addresses of all links, and likewise of all images: with a
    /// `base` of 8,000 bytes every `?1` takes as much. Later ones are ignored.
    pub max_address_bytes: usize,
    /// The extractor that chooses the text of an HTML page among its blocks; plain text is
    /// taken whole.
    pub extractor: Extractor,
    /// The extractor of the main text to keep as its author wrote it; `None` if it is not
    /// wanted.
    pub documents: Option<Extractor>,
    /// The product token for which directives count besides those for all crawlers.
    pub agent: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            parents: 5,
            siblings: 5,
            max_text_bytes: 2 << 20,
            max_nesting: 256,
            max_nodes: 300_000,
            max_links: 10_000,
            max_images: 5_000,
            max_image: (20_000, 20_000),
            max_context_bytes: 16 << 20,
            max_address_bytes: 4 << 20,
            extractor: Extractor::All,
            documents: None,
            agent: "spoor".to_owned(),
        }
    }
}

impl Options {
    /// Whether the text is needed as its author wrote it.
    fn wants_main_text(&self) -> bool {
        self.documents.is_some() || self.extractor == Extractor::Main
    }
}

/// Why a response yields no page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExtractError {
    /// The `Content-Type` is neither HTML nor text.
    #[error("`{0}` is neither HTML nor text, the only types that are read")]
    ContentType(String),
    /// The header promises text or is absent, and the bytes are not text.
    #[error("the body is binary data, not the text that its Content-Type promises")]
    Binary,
}

/// Parses a response.
///
/// HTML and XHTML are parsed, and all other types of `text/` are read as plain text.
/// Without a `Content-Type` the body is HTML if a tag starts in its first 1,024 bytes, and
/// plain text otherwise. Relative links resolve against `url`, the address of the
/// response.
///
/// # Errors
///
/// [`ExtractError`] if the response is not a text document.
pub fn extract(
    url: &PageUrl,
    fetched: &Fetched,
    options: &Options,
) -> Result<Extracted, ExtractError> {
    let DecodedPage {
        text,
        form,
        encoding,
        declared,
    } = decode(url, fetched, options)?;
    let mut page = match form {
        Form::Html => extract_text(url, &text, options),
        Form::Plain => {
            let text = limits::cap(&text, options.max_text_bytes);
            let flow = text::plain_flow(text);
            let mut page = Extracted {
                blocks: flow.blocks(),
                ..Extracted::default()
            };
            let layout = Layout {
                written: options.wants_main_text().then(|| WrittenPage::plain(text)),
                lines: Vec::new(),
            };
            let documents = options.documents.map(|_| Extractor::All);
            selection::text(&mut page, &layout, Extractor::All, documents);
            page
        }
    };
    page.charset = encoding.name().to_owned();
    page.declared_charset = declared.map(|declared| declared.name().to_owned());
    page.mime = fetched.content_type.as_deref().map(media_type);
    if encoding != encoding_rs::UTF_16LE && encoding != encoding_rs::UTF_16BE {
        page.controls = controls(&fetched.body);
    }
    page.terms = terms::of_headers(url, &fetched.terms, &options.agent).then(page.terms);
    Ok(page)
}

/// The media type of a `Content-Type` header in lower case.
pub fn media_type(header: &str) -> String {
    page::media_type(header).to_ascii_lowercase()
}

/// How many control characters except white space a body has.
fn controls(body: &[u8]) -> u32 {
    // Without a branch, and in chunks whose counts fit into a byte, so that the processor counts
    // many bytes at once: one by one this took a fiftieth of the time of a page.
    let is_control =
        |byte: &u8| u8::from((*byte < 9) | ((0x0E..0x20).contains(byte)) | (*byte == 0x7F));
    let pieces = body.chunks(usize::from(u8::MAX));
    let counts = pieces.map(|piece| u32::from(piece.iter().map(is_control).sum::<u8>()));
    counts.fold(0, u32::saturating_add)
}

/// A body as text.
struct DecodedPage<'b> {
    text: Cow<'b, str>,
    form: Form,
    encoding: &'static encoding_rs::Encoding,
    declared: Option<&'static encoding_rs::Encoding>,
}

fn decode<'b>(
    url: &'b PageUrl,
    fetched: &'b Fetched,
    options: &Options,
) -> Result<DecodedPage<'b>, ExtractError> {
    let header = fetched.content_type.as_deref();
    let form = form(header, &fetched.body)?;
    let source = charset::EncodingHints {
        body: &fetched.body,
        content_type: header,
        markup: form == Form::Html,
        host: url.host(),
    };
    let declared = source.declared();
    let encoding = source.encoding(declared);
    if encoding != encoding_rs::UTF_16LE
        && encoding != encoding_rs::UTF_16BE
        && is_binary(&fetched.body)
    {
        return Err(ExtractError::Binary);
    }
    let text = source.decode(encoding, options.max_text_bytes);
    let is_xml = header.is_some_and(|header| media_type(header).ends_with("+xml"));
    let text = match text {
        text if !is_xml => text,
        Cow::Borrowed(text) => xhtml::as_html(text),
        Cow::Owned(text) => Cow::Owned(xhtml::as_html(&text).into_owned()),
    };
    Ok(DecodedPage {
        text,
        form,
        encoding,
        declared,
    })
}

/// The decoded markup of a response, at most `max_text_bytes` of it; `None` if it is not HTML.
pub fn markup(url: &PageUrl, fetched: &Fetched, options: &Options) -> Option<String> {
    let decoded = decode(url, fetched, options).ok()?;
    let text = limits::cap(&decoded.text, options.max_text_bytes);
    (decoded.form == Form::Html).then(|| text.to_owned())
}

/// The tree of decoded markup; `None` if it would be too deep, too large or too slow to build, by
/// the same limits as for extraction.
pub fn tree(markup: &str, options: &Options) -> Option<scraper::Html> {
    let markup = limits::cap(markup, options.max_text_bytes);
    limits::parse(markup, options).ok()
}

/// The terms of use in the headers of the response from `url`, for an image, which has no
/// markup.
pub fn header_terms(url: &PageUrl, headers: &TermsHeaders, options: &Options) -> Terms {
    terms::of_headers(url, headers, &options.agent)
}

/// Parses decoded HTML, such as a file on disk; `charset` is `UTF-8`. Relative links
/// resolve against `url`.
pub fn extract_text(url: &PageUrl, html: &str, options: &Options) -> Extracted {
    let html = limits::cap(html, options.max_text_bytes);
    let (mut page, layout) = read(url, html, options);
    page.charset = encoding_rs::UTF_8.name().to_owned();
    if let Some(written) = &layout.written {
        byline::complete(&mut page.metadata, url, written, page.language.as_deref());
    }
    selection::text(&mut page, &layout, options.extractor, options.documents);
    page
}

/// The page read in one pass, or from a tree where that is not possible.
fn read(url: &PageUrl, html: &str, options: &Options) -> (Extracted, Layout) {
    stream::walk(url, html, options).unwrap_or_else(|why| {
        let (mut page, layout) = by_tree(url, html, options);
        page.fallback = Some(why);
        (page, layout)
    })
}

/// What the model of the main text sees of a page, for training it.
pub fn seen_by_model(url: &PageUrl, html: &str) -> Vec<SeenBlock> {
    let options = Options {
        documents: Some(Extractor::Main),
        ..Options::default()
    };
    let (page, layout) = read(url, html, &options);
    let title = page.title.unwrap_or_default();
    let written = layout.written.unwrap_or_default();
    main_text::seen(&written, &title)
}

/// The page read from a tree, or from bare tokens if the tree would be too large.
fn by_tree(url: &PageUrl, html: &str, options: &Options) -> (Extracted, Layout) {
    match limits::parse(html, options) {
        Ok(tree) => html::walk(url, &tree, options),
        Err(excess) => {
            tracing::debug!(%excess, "read as a bare token stream");
            token_stream::walk(url, html, options)
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Html,
    Plain,
}

fn form(content_type: Option<&str>, body: &[u8]) -> Result<Form, ExtractError> {
    let media = media_type(content_type.unwrap_or_default());
    match media.as_str() {
        "text/html" | "application/xhtml+xml" | "application/vnd.wap.xhtml+xml" => Ok(Form::Html),
        // The caller decides which of them are wanted.
        text if text.starts_with("text/") => Ok(Form::Plain),
        "" => Ok(if begins_markup(body) {
            Form::Html
        } else {
            Form::Plain
        }),
        _ => Err(ExtractError::ContentType(media.chars().take(200).collect())),
    }
}

fn begins_markup(body: &[u8]) -> bool {
    head(body)
        .windows(2)
        .any(|pair| pair[0] == b'<' && (pair[1].is_ascii_alphabetic() || b"!?".contains(&pair[1])))
}

/// More than one byte in 32 is a control character that no text contains
/// (the binary data bytes of the MIME Sniffing standard, section 3).
fn is_binary(body: &[u8]) -> bool {
    let head = head(body);
    let control = head
        .iter()
        .filter(|b| matches!(b, 0x00..=0x08 | 0x0B | 0x0E..=0x1A | 0x1C..=0x1F))
        .count();
    control * 32 > head.len()
}

fn head(body: &[u8]) -> &[u8] {
    &body[..body.len().min(1_024)]
}
