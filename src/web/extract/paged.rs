//! The text of a PDF as a page.

use crate::address::PageUrl;
use crate::page::{Extracted, Extractor, Fetched, Link, LinkPosition, Metadata};
use crate::pdf::{self, Original, WordList};

use super::text::{Flow, Layout, TextRole, fold, fold_some};
use super::{Options, limits, media_type, selection, terms};

/// The longest anchor and title in characters.
const MAX_WORDS: usize = 1_000;

/// Whether a response is a PDF: by its header, or without a header by its first bytes.
pub fn is_pdf(fetched: &Fetched) -> bool {
    match fetched.content_type.as_deref().map(media_type).as_deref() {
        None | Some("") => pdf::begins_as_pdf(&fetched.body),
        Some(media) => media == pdf::MEDIA_TYPE,
    }
}

/// The page of a PDF: its cleaned text with a block for each paragraph, its links, and its
/// metadata. It contains nothing but the text, so no extractor chooses among its blocks. `words`
/// checks whether a language has a word, to recognise hyphenated ones.
pub fn of_pdf(
    url: &PageUrl,
    fetched: &Fetched,
    original: &Original,
    words: Option<WordList<'_>>,
    options: &Options,
) -> Extracted {
    let text = original.clean(words).text();
    let mut flow = Flow::default();
    for paragraph in limits::cap(&text, options.max_text_bytes).split("\n\n") {
        flow.open(TextRole::Block);
        flow.text(paragraph);
        flow.close(TextRole::Block);
    }
    let about = &original.about;
    let mut page = Extracted {
        blocks: flow.blocks(),
        title: about
            .title
            .as_deref()
            .and_then(|title| fold_some(title, MAX_WORDS)),
        language: about.language.as_ref().map(|tag| tag.to_lowercase()),
        charset: encoding_rs::UTF_8.name().to_owned(),
        mime: Some(pdf::MEDIA_TYPE.to_owned()),
        metadata: Metadata {
            published: about.created.clone(),
            modified: about
                .modified
                .clone()
                .filter(|at| Some(at) != about.created.as_ref()),
            title: about.title.clone(),
            authors: about.authors.clone(),
        },
        links: links(url, original, options),
        terms: terms::of_headers(url, &fetched.terms, &options.agent),
        ..Extracted::default()
    };
    let documents = options.documents.map(|_| Extractor::All);
    selection::text(&mut page, &Layout::default(), Extractor::All, documents);
    page.flow = flow.into_parts().0;
    page
}

/// The links with the words under them. A link that continues on the next line is in the file
/// twice.
fn links(url: &PageUrl, original: &Original, options: &Options) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    let mut bytes = 0;
    for link in &original.links {
        let Ok(target) = url.join(&link.url) else {
            continue;
        };
        bytes += target.as_str().len();
        if links.len() >= options.max_links || bytes > options.max_address_bytes {
            break;
        }
        let anchor = fold(&link.text, MAX_WORDS);
        match links.last_mut().filter(|last| last.url == target) {
            Some(last) => {
                last.anchor.push(' ');
                last.anchor.push_str(&anchor);
            }
            None => links.push(Link {
                url: target,
                anchor,
                nofollow: false,
                place: LinkPosition::default(),
            }),
        }
    }
    links
}
