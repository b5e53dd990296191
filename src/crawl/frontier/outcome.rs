//! What the frontier is told of a finished task, and what it answers.

use crate::address::PageUrl;
use crate::page::{ImageContext, Judged, Nearness, Prints, Reason, Validators};

use super::added::{NewImage, NewTask};

/// What a page or a sitemap brought; empty for everything else.
#[derive(Debug, Default)]
pub struct Effects {
    /// Its links.
    pub links: Vec<NewTask>,
    /// Its images.
    pub images: Vec<NewImage>,
    /// Images that were left out because they are SVGs by name.
    pub svgs: u32,
    /// Images that it embeds and does not allow to use.
    pub withheld: Vec<PageUrl>,
    /// The sitemaps that an index of them lists.
    pub sitemaps: Vec<PageUrl>,
    /// The perplexity that stands for an alt text of `images` that turns out to say
    /// nothing.
    pub unknown: f64,
    /// Body bytes received, for the counters.
    pub bytes: u64,
    /// Digest of a page's text: where it is that of the visit before, the page
    /// has not changed.
    pub digest: Option<u64>,
    /// What the server calls this version of the page.
    pub validators: Validators,
    /// The address that it calls its own.
    pub canonical: Option<PageUrl>,
    /// Digest of the keyword table by which the links were rated
    /// ([`Rating::keywords`](super::Rating::keywords)); `None` where there was none.
    pub keywords: Option<u64>,
    /// What its text is known again by; without it no copies are looked for and no
    /// budget is charged.
    pub prints: Option<Prints>,
    /// How likely the page is on topic by its own text, 0 to 1; `None` where no page came.
    pub on_topic: Option<f64>,
    /// Whether that is a guess.
    pub guessed: bool,
    /// What its text says for a learning crawl; `None` where no page came.
    pub nearness: Option<Nearness>,
}

/// What became of a finished task.
#[derive(Debug, Clone, PartialEq)]
pub enum Settled {
    /// Done; asked again only where pages are visited again.
    Done,
    /// Visited again, and the server says that nothing has changed.
    Unchanged,
    /// Done, and its target added.
    Redirected,
    /// To be tried again.
    Retrying {
        /// What went wrong.
        reason: Reason,
        /// Not before this time, in milliseconds since 1970.
        due: u64,
    },
    /// Not to be had at this visit. What is known of the page stays, and it is
    /// asked again at its next one.
    Postponed {
        /// What went wrong.
        reason: Reason,
    },
    /// Not asked again, but for a seed with a schedule of its own.
    Dropped {
        /// Why.
        reason: Reason,
    },
}

/// What the outputs may need to know before they write.
#[derive(Debug)]
pub struct Finished {
    /// What became of the task.
    pub settled: Settled,
    /// Its number among the finished, where it got one.
    pub id: Option<u64>,
    /// Whether the text is another one than at the visit before; `None` where
    /// there was none or no text came.
    pub changed: Option<bool>,
    /// The note that was given with the page at an earlier visit.
    pub earlier: Option<String>,
    /// Whether the page is visited again, so that a note may be wanted then.
    pub comes_again: bool,
    /// What the outputs are to change in files that they wrote before.
    pub edits: Vec<OutputEdit>,
    /// The page that it names as its canonical address and that was fetched before:
    /// nothing of this one was taken.
    pub duplicate_of: Option<PageUrl>,
    /// The page that its text is a near copy of: its links were not taken.
    pub near_copy_of: Option<PageUrl>,
    /// How likely the page is on topic; `None` where no page came.
    pub judged: Option<Judged>,
    /// Why not all of a sitemap was taken.
    pub said: Option<String>,
}

impl Finished {
    /// A finished task with nothing more to tell.
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

/// A change of something that was written before. The frontier names each file by the note
/// that the outputs gave with it.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputEdit {
    /// An image that is kept already was met on another page.
    AddContext {
        /// The note of the image.
        note: String,
        /// What the page says around it.
        context: Box<ImageContext>,
    },
    /// The alt text that an image has on a page turned out to be boilerplate.
    MarkBoilerplate {
        /// The note of the image.
        note: String,
        /// The page.
        page: PageUrl,
    },
    /// The page does not allow the use of an image any more.
    Withhold {
        /// The note of the image.
        note: String,
    },
}

/// What the outputs say when they have written.
#[derive(Debug, Default)]
pub struct Written {
    /// Where they stand now.
    pub stamp: Vec<u8>,
    /// Where they keep what the task brought, if anywhere. Stored if the task is done.
    pub note: Option<String>,
    /// SHA-256 in lower-case hexadecimal, where the note names the first file with
    /// these bytes; later ones find it by [`Frontier::kept_file`](super::Frontier::kept_file).
    pub first_of: Option<String>,
}
