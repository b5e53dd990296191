//! Extraction: the bytes of a response become an [`Extracted`] page.
//!
//! The journey, and the reading order:
//!
//! 1. `charset` finds the encoding (BOM, HTTP header, `meta`, detection) and
//!    decodes.
//! 2. `guard` parses the text once, and gives up where hostile markup would make
//!    the tree too deep, too large or too slow.
//! 3. `html` walks the tree once and hands each element and each text to one
//!    collector, which keeps
//!    `text` (blocks), `links`, `images` and `terms` of use (`directives` among them). An image's address
//!    comes from one of its `sources` or from `json_ld`, the words around it from
//!    the `outline` of the walk, and `alt` tells whether its alt text was written.
//!    `path` tells in what kind of place of the page a link stands, and
//!    `prints` tells afterwards what its text is known again by.
//!    `metadata` gathers what the page says of itself: its dates, authors and title.
//! 4. `choose` keeps those blocks that the job's extractor chooses: `article` marks
//!    them during the walk, `density` judges them by where they stand. An article costs
//!    3.3 ms on a page whose parse takes 2.4 (a copy of the tree, and Readability's many
//!    walks over it), density a tenth of a millisecond, and the language another tenth.
//!    `main_text` lays out the blocks of the document that is kept; an article is looked
//!    for once, whoever wants it.
//! 5. `soup` feeds the same collector from the bare token stream where the guard
//!    gave up: text, links and images without the words around them.
//!
//! Everything is pure: the same bytes give the same page, with no network, no
//! clock and no store behind it, so stored responses can be extracted again. This
//! module must not know what is topical, what may be followed and what is
//! fetched next; it reports nofollow, terms of use and declared sizes, and others
//! act on them. Memory and time are bounded by [`Options`] whatever the bytes are.

mod alt;
mod article;
mod charset;
mod choose;
mod density;
mod directives;
mod guard;
mod html;
mod images;
mod json_ld;
mod links;
mod main_text;
mod metadata;
mod outline;
mod path;
mod prints;
mod soup;
mod sources;
mod terms;
mod text;

#[cfg(test)]
mod tests;

use crate::address::PageUrl;
use crate::page::{Extracted, Extractor, Fetched, Terms, TermsHeaders};

pub use text::plain_text;

/// Bounds of what one page may give and cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How many enclosing elements' texts an image keeps.
    pub parents: usize,
    /// How many sibling elements' texts an image keeps.
    pub siblings: usize,
    /// Bytes of decoded text that are read; the rest of the page is cut.
    pub max_text_bytes: usize,
    /// Depth of the tree above which a page is read as a bare token stream.
    /// Of some 3,700 real pages the deepest had 90; the tree builder's time per tag
    /// grows with the depth, so this also bounds the time.
    pub max_nesting: usize,
    /// Nodes (elements, texts, comments) of the tree above which a page is read
    /// as a bare token stream; a node takes about 150 bytes while parsed. Of 521
    /// encyclopedia pages the largest had 21,239.
    pub max_nodes: usize,
    /// Links that are kept; later ones are ignored.
    pub max_links: usize,
    /// Images that are kept; later ones are ignored.
    pub max_images: usize,
    /// Greatest width and height in pixels of an image that is wanted; where a page
    /// offers several sizes, the largest within is taken.
    pub max_image: (u32, u32),
    /// Bytes of parents' and siblings' texts that all images of a page keep
    /// together; later images have none.
    pub max_context_bytes: usize,
    /// Bytes of the addresses of all links that are kept, and of all images, each: a
    /// `base` of 8,000 bytes makes as much of every `?1`. Later ones are ignored.
    pub max_address_bytes: usize,
    /// What chooses the text of an HTML page among its blocks; plain text is taken whole.
    pub extractor: Extractor,
    /// What chooses the main text that is kept as its author wrote it; `None` where none
    /// is wanted.
    pub documents: Option<Extractor>,
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
        }
    }
}

/// Why a response gives no page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExtractError {
    /// The `Content-Type` is neither HTML nor text.
    #[error("`{0}` is neither HTML nor text; only such pages are read")]
    ContentType(String),
    /// The header promises text or is absent, and the bytes are no text.
    #[error("the body is binary data, not the text that its Content-Type promises")]
    Binary,
}

/// What one parse of the response gives.
///
/// HTML and XHTML are read, and everything else of `text/` as plain text. Where the `Content-Type` is absent the
/// body is HTML if a tag begins in its first 1,024 bytes, and plain text
/// otherwise. Relative links resolve against `url`, the address that answered.
///
/// # Errors
/// [`ExtractError`] where the response is no text document.
pub fn extract(
    url: &PageUrl,
    fetched: &Fetched,
    options: &Options,
) -> Result<Extracted, ExtractError> {
    let header = fetched.content_type.as_deref();
    let form = form(header, &fetched.body)?;
    let source = charset::Source {
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
    let mut page = match form {
        Form::Html => extract_text(url, &text, options),
        Form::Plain => {
            let flow = text::plain_flow(guard::cap(&text, options.max_text_bytes));
            let mut page = Extracted {
                blocks: flow.blocks(),
                ..Extracted::default()
            };
            let (flow, layout) = flow.into_parts();
            let documents = options.documents.map(|_| Extractor::All);
            choose::text(&mut page, &flow, &layout, Extractor::All, documents);
            page
        }
    };
    page.charset = encoding.name().to_owned();
    page.declared_charset = declared.map(|declared| declared.name().to_owned());
    page.terms = terms::of_headers(url, &fetched.terms).then(page.terms);
    Ok(page)
}

/// What the headers of the answer from `url` say of its use, as for an image that has
/// no markup.
pub fn header_terms(url: &PageUrl, headers: &TermsHeaders) -> Terms {
    terms::of_headers(url, headers)
}

/// What one parse of decoded HTML gives, as for a file on disk; `charset` is
/// `UTF-8`. Relative links resolve against `url`.
pub fn extract_text(url: &PageUrl, html: &str, options: &Options) -> Extracted {
    let html = guard::cap(html, options.max_text_bytes);
    let (mut page, layout) = match guard::parse(html, options) {
        Ok(tree) => {
            let wanted = [Some(options.extractor), options.documents];
            let article = if wanted.contains(&Some(Extractor::Article)) {
                article::texts(&tree)
            } else {
                None
            };
            html::walk(url, &tree, options, article.as_ref())
        }
        Err(excess) => {
            tracing::debug!(%excess, "read as a bare token stream");
            soup::walk(url, html, options)
        }
    };
    page.charset = encoding_rs::UTF_8.name().to_owned();
    let flow = std::mem::take(&mut page.flow);
    choose::text(
        &mut page,
        &flow,
        &layout,
        options.extractor,
        options.documents,
    );
    page.flow = flow;
    page
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Html,
    Plain,
}

fn form(content_type: Option<&str>, body: &[u8]) -> Result<Form, ExtractError> {
    let media = content_type
        .and_then(|header| header.split(';').next())
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    match media.as_str() {
        "text/html" | "application/xhtml+xml" | "application/vnd.wap.xhtml+xml" => Ok(Form::Html),
        // Which of them are wanted is not for this module to say.
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
