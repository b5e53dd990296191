//! The input and the result of finishing a task.

use crate::address::PageUrl;
use crate::page::{ImageContext, Judged, Nearness, Prints, Reason, Terms, Validators};

use super::added::{NewImage, NewTask};

/// The contents of a page or a sitemap; empty for everything else.
#[derive(Debug, Default)]
pub struct Effects {
    /// Its links.
    pub links: Vec<NewTask>,
    /// Its images.
    pub images: Vec<NewImage>,
    /// Images left out because their names say SVG.
    pub svgs: u32,
    /// Images that the page embeds but does not allow to use.
    pub withheld: Vec<PageUrl>,
    /// The terms that say so.
    pub terms: Terms,
    /// What a redirect states about the use of its target.
    pub on_way: Terms,
    /// Whether the server has stated terms with an unchanged page that forbid a use of it, so that
    /// the page has to be read again.
    pub reread: bool,
    /// RSL files of the host that have to be read before the page or image is requested again.
    pub unknown_rsl: Vec<String>,
    /// The sitemaps that a sitemap index lists.
    pub sitemaps: Vec<PageUrl>,
    /// The perplexity of an alt text of `images` that turns out to be meaningless.
    pub unknown: f64,
    /// Body bytes received, for the counters.
    pub bytes: u64,
    /// Digest of a page's text: equal to that of the previous visit if the page has not
    /// changed.
    pub digest: Option<u64>,
    /// The server's validators for this version of the page.
    pub validators: Validators,
    /// The canonical address that it declares.
    pub canonical: Option<PageUrl>,
    /// Digest of the keyword table that the links were rated with
    /// ([`Rating::keywords`](super::Rating::keywords)); `None` if there was none.
    pub keywords: Option<u64>,
    /// Fingerprints of its text; without them copies are not detected and no budget is
    /// charged.
    pub prints: Option<Prints>,
    /// The probability that the page is on topic by its own text, 0 to 1; `None` if no
    /// page came.
    pub on_topic: Option<f64>,
    /// Whether that probability is a guess.
    pub guessed: bool,
    /// The judgement of its text for a learning crawl; `None` if no page came.
    pub nearness: Option<Nearness>,
}

/// The result of a finished task.
#[derive(Debug, Clone, PartialEq)]
pub enum Settled {
    /// Done; requested again only if pages are visited again.
    Done,
    /// A repeated visit, and the server says that nothing has changed.
    Unchanged,
    /// Done, and its target added.
    Redirected,
    /// To be tried again.
    Retrying {
        /// The failure.
        reason: Reason,
        /// Not before this time, in milliseconds since 1970.
        due: u64,
    },
    /// Not available at this visit. The record of the page stays, and it is requested
    /// again at its next visit.
    Postponed {
        /// The failure.
        reason: Reason,
    },
    /// Not requested again, except for a seed with its own schedule.
    Dropped {
        /// Why.
        reason: Reason,
    },
}

/// The result that the outputs may need before they write.
#[derive(Debug)]
pub struct Finished {
    /// The result of the task.
    pub settled: Settled,
    /// Its number among the finished pages, if it has one.
    pub id: Option<u64>,
    /// Whether the text differs from that of the previous visit; `None` if there was
    /// no previous visit or no text came.
    pub changed: Option<bool>,
    /// The note that the outputs gave with the page at an earlier visit.
    pub earlier: Option<String>,
    /// Whether the page will be visited again, so that a note may be needed then.
    pub comes_again: bool,
    /// Changes that the outputs must make in files that they wrote before.
    pub edits: Vec<OutputEdit>,
    /// The canonical page that was fetched before: nothing of this page was taken.
    pub duplicate_of: Option<PageUrl>,
    /// The page that has nearly the same text: the links of this page were not taken.
    pub near_copy_of: Option<PageUrl>,
    /// The judgement of the page; `None` if no page came.
    pub judged: Option<Judged>,
    /// Why a sitemap was not taken completely.
    pub said: Option<String>,
}

impl Finished {
    /// A finished task without further results.
    pub(super) fn of(settled: Settled, id: Option<u64>) -> Self {
        Self {
            settled,
            id,
            changed: None,
            earlier: None,
            comes_again: false,
            edits: Vec::new(),
            duplicate_of: None,
            near_copy_of: None,
            judged: None,
            said: None,
        }
    }
}

/// A change of a file that was written before. The frontier names each file by the note
/// that the outputs gave with it.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputEdit {
    /// A kept image was found on another page.
    AddContext {
        /// The note of the image.
        note: String,
        /// The words around it on that page.
        context: Box<ImageContext>,
        /// Whether the text of that page has changed since the last visit; `None` at a first
        /// visit.
        changed: Option<bool>,
    },
    /// The alt text of an image on a page turned out to be boilerplate.
    MarkBoilerplate {
        /// The note of the image.
        note: String,
        /// The page.
        page: PageUrl,
        /// The perplexity of a text without meaning.
        unknown: f64,
    },
    /// A page no longer allows the use of an image.
    Withhold {
        /// The note of the image.
        note: String,
        /// The page.
        page: PageUrl,
        /// Its terms.
        terms: Box<Terms>,
    },
}

/// The result of writing the outputs.
#[derive(Debug, Default)]
pub struct Written {
    /// The lengths of the outputs now.
    pub stamp: Vec<u8>,
    /// The place of the task's output, if any. Stored if the task is done.
    pub note: Option<String>,
    /// SHA-256 in lower-case hexadecimal, if the note names the first file with these
    /// bytes; later ones find it by [`Frontier::kept_file`](super::Frontier::kept_file).
    pub first_of: Option<String>,
    /// SHA-1 of a body in the archive, and where it is; later ones find it by
    /// [`Frontier::stored_body`](super::Frontier::stored_body).
    pub body: Option<([u8; 20], String)>,
}
