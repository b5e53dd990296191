//! What happens to a body between its arrival and its commit: extract, score,
//! and the choice of what is followed. Pure: the same bytes give the same result.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::iter::repeat_with;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::address::PageUrl;
use crate::crawl::frontier::{Effects, NewImage, NewTask, Rating};
use crate::language::Language;
use crate::metrics::Metrics;
use crate::page::{
    Bucket, DocumentScore, Extracted, Fetched, ImageCandidate, Nearness, Obeyed, Observed, Outcome,
    Prints, Reason, Scored, Task, TaskKind, Terms, TextShare, Use,
};
use crate::picture::{self, BadImage, ImageInfo};
use crate::topic::score::{Boundaries, Scorer};
use crate::web::extract;

use super::documents;
use super::rating::Learned;
use crate::outputs::Document;
use crate::web::sitemap;

/// Bytes from which on a page is large: its tree takes up to thirty times as much.
const LARGE_PAGE: usize = 256 << 10;

/// Large work is done one after the other, however many threads there are: a few
/// kilobytes may unfold to all that is allowed.
static LARGE: Mutex<()> = Mutex::new(());

/// What the work made of a body.
#[derive(Debug)]
pub enum Product {
    /// A page, rated.
    Page(Box<PageProduct>),
    /// An image of a wanted size.
    Image {
        /// The bytes as served.
        bytes: Bytes,
        /// What it is.
        info: Box<ImageInfo>,
        /// The `Content-Type` as sent.
        content_type: Option<String>,
        /// What its host and the answer say of its use.
        terms: Terms,
    },
    /// Nothing, for a reason that takes words.
    Refused {
        /// The words.
        why: String,
    },
    /// An image that is not kept, for what is said of its use.
    Forbidden {
        /// All that is said.
        terms: Terms,
        /// What of it forbids to keep it.
        by: Vec<&'static str>,
    },
    /// The body of a robots.txt.
    Robots(Bytes),
    /// The body of a tdmrep.json.
    Tdmrep(Bytes),
    /// What a sitemap lists.
    Sitemap(SitemapProduct),
}

/// What a sitemap lists.
#[derive(Debug)]
pub struct SitemapProduct {
    /// Pages, those that changed last first.
    pub pages: Vec<NewTask>,
    /// Further sitemaps, where it is an index.
    pub sitemaps: Vec<PageUrl>,
    /// Why it was not read to its end, if it was not.
    pub trouble: Option<String>,
}

/// What is kept of a page.
#[derive(Debug)]
pub struct PageProduct {
    /// Its own rating.
    pub document: DocumentScore,
    /// How likely it is on topic by its own text, 0 to 1: by the contrast of its words
    /// where the model has one, and otherwise by its perplexity. 0 where it is in a language
    /// that the job does not permit. `None` where the scorer has no judge.
    pub on_topic: Option<f64>,
    /// Whether that is a guess.
    pub guessed: bool,
    /// What its text says for a learning crawl.
    pub nearness: Option<Nearness>,
    /// Its links, each address once, with the best of its scores.
    pub links: Vec<NewTask>,
    /// Its images, each address once.
    pub images: Vec<NewImage>,
    /// Images that were left out because they are SVGs by name.
    pub svgs: u32,
    /// The perplexity of a run of unknown words.
    pub unknown: f64,
    /// Digest of the keyword table that its links are rated by.
    pub keywords: u64,
    /// Its normalised sentences, a line each.
    pub sentences: String,
    /// Its document, as far as it is known before the task is settled; `None` where none
    /// is kept.
    pub kept: Option<Box<Document>>,
    /// Its title.
    pub title: Option<String>,
    /// Which part of its text was rated and kept.
    pub text: TextShare,
    /// The language it declares.
    pub language: Option<String>,
    /// The language its text is in, where that is certain.
    pub recognised: Option<Language>,
    /// That is another one than the model's.
    pub foreign: bool,
    /// That is none of those that the job permits, so nothing of the page is kept.
    pub off_language: bool,
    /// Name of the encoding it was decoded with.
    pub charset: String,
    /// What its host, the answer and the page itself say of its use.
    pub terms: Terms,
    /// What of it forbade to keep something that the job keeps: its text, its images or
    /// both.
    pub forbidden: Vec<&'static str>,
    /// Its images, where it forbids their use.
    pub withheld: Vec<PageUrl>,
    /// True where the body was longer than the cap.
    pub truncated: bool,
    /// Digest of the letters of its text, by which a later visit sees whether the
    /// page has changed.
    pub digest: u64,
    /// The address that it calls its own.
    pub canonical: Option<PageUrl>,
    /// What its text is known again by.
    pub prints: Prints,
}

impl PageProduct {
    /// Gives the frontier what it is to know of the page.
    pub fn give(&mut self, effects: &mut Effects) {
        effects.links = std::mem::take(&mut self.links);
        effects.images = std::mem::take(&mut self.images);
        effects.svgs = self.svgs;
        effects.withheld = std::mem::take(&mut self.withheld);
        effects.unknown = self.unknown;
        effects.keywords = Some(self.keywords);
        effects.on_topic = self.on_topic;
        effects.guessed = self.guessed;
        effects.nearness = self.nearness.take();
        effects.digest = Some(self.digest);
        effects.canonical = self.canonical.take();
        effects.prints = Some(std::mem::take(&mut self.prints));
    }
}

/// Which languages are expected, and which are wanted.
#[derive(Debug, Clone, Default)]
pub struct Languages {
    /// That of the model, where it is known.
    pub model: Option<Language>,
    /// Those of the pages that are kept; empty for any.
    pub permitted: Vec<Language>,
    /// Whether the links of other pages are followed.
    pub follow_foreign: bool,
}

impl Languages {
    /// What is not certain is neither foreign nor off.
    fn is_foreign(&self, recognised: Option<Language>) -> bool {
        let known = recognised.zip(self.model);
        known.is_some_and(|(found, model)| found != model)
    }

    fn is_off(&self, recognised: Option<Language>) -> bool {
        !self.permitted.is_empty() && recognised.is_some_and(|l| !self.permitted.contains(&l))
    }
}

/// Which images are wanted.
#[derive(Debug, Clone)]
pub struct ImageRules {
    /// Whether any are.
    pub enabled: bool,
    /// Least width and height in pixels.
    pub min: (u32, u32),
    /// Greatest width and height in pixels.
    pub max: (u32, u32),
    /// How many times as long as the shorter side the longer one may be, 1 or more.
    pub max_aspect: f64,
    /// Size of the smallest file in bytes.
    pub min_bytes: usize,
}

impl ImageRules {
    fn take(&self, width: u32, height: u32) -> bool {
        self.fits(width, height) && self.is_shapely(width, height)
    }

    fn fits(&self, width: u32, height: u32) -> bool {
        width >= self.min.0 && height >= self.min.1 && width <= self.max.0 && height <= self.max.1
    }

    fn is_shapely(&self, width: u32, height: u32) -> bool {
        f64::from(width.max(height)) <= self.max_aspect * f64::from(width.min(height))
    }

    /// Declared sizes are trusted only where they speak against an image.
    fn may_take(&self, image: &ImageCandidate) -> bool {
        let (width, height) = (image.width, image.height);
        let fits = self.fits(
            width.unwrap_or(self.min.0.max(1)),
            height.unwrap_or(self.min.1.max(1)),
        );
        let both = width.zip(height);
        fits && both.is_none_or(|(width, height)| self.is_shapely(width, height))
    }
}

/// Reads bodies. Cheap to clone.
#[derive(Clone)]
pub struct Reader {
    /// How pages are taken apart.
    pub extract: extract::Options,
    /// Rates what they contain.
    pub scorer: Scorer,
    /// From scores to buckets.
    pub boundaries: Boundaries,
    /// What learns which links to follow, where the crawl does.
    pub learned: Option<Learned>,
    /// The perplexity below which the model was trained on a page's very text.
    pub trained: f64,
    /// Which images are wanted.
    pub images: ImageRules,
    /// Whether sentences are kept.
    pub sentences: bool,
    /// Whether documents are kept.
    pub documents: bool,
    /// Which languages are expected and wanted.
    pub languages: Languages,
    /// Which terms of use are obeyed.
    pub obeyed: Obeyed,
    /// Where it is counted how long each step takes.
    pub metrics: Metrics,
}

impl Reader {
    /// Everything between the bytes and the commit.
    pub fn read(&self, task: &Task, fetched: Fetched) -> (Outcome, Option<Product>) {
        let large = match task.kind {
            TaskKind::Page => fetched.body.len() > LARGE_PAGE,
            TaskKind::Sitemap => true,
            // Of an image the pixels count, which are not known yet.
            TaskKind::Image | TaskKind::Robots | TaskKind::Tdmrep => false,
        };
        let _turn = turn(large);
        match task.kind {
            TaskKind::Robots => (Outcome::Done, Some(Product::Robots(fetched.body))),
            TaskKind::Tdmrep => (Outcome::Done, Some(Product::Tdmrep(fetched.body))),
            TaskKind::Image => self.picture(task, fetched),
            TaskKind::Page => self.page(task, &fetched),
            TaskKind::Sitemap => self.sitemap(&task.url, &fetched),
        }
    }

    /// Nothing is known of what a sitemap lists but its address: no anchor, and
    /// no page whose topic it might share. So it goes behind every link of the
    /// class `normal` that was rated, and before the class `low`; a link that is
    /// met later and rated better lifts it.
    fn sitemap(&self, url: &PageUrl, fetched: &Fetched) -> (Outcome, Option<Product>) {
        let mut read = sitemap::read(url, &fetched.body);
        if read.pages.is_empty()
            && read.sitemaps.is_empty()
            && let Some(trouble) = read.trouble
        {
            tracing::debug!(trouble, "no sitemap");
            let reason = Reason::ContentType;
            return (Outcome::Drop { reason }, None);
        }
        read.pages.sort_by_key(|entry| Reverse(entry.modified));
        let (score, bucket) = self.listed();
        let pages = read.pages.into_iter().map(|entry| NewTask {
            url: entry.url,
            bucket,
            score,
            parts: None,
            anchor: None,
            clues: None,
        });
        let product = SitemapProduct {
            pages: pages.collect(),
            sitemaps: read.sitemaps.into_iter().map(|entry| entry.url).collect(),
            trouble: read.trouble,
        };
        (Outcome::Done, Some(Product::Sitemap(product)))
    }

    fn page(&self, task: &Task, fetched: &Fetched) -> (Outcome, Option<Product>) {
        let url = &task.url;
        let mut extracted = match self
            .metrics
            .extract(|| extract::extract(url, fetched, &self.extract))
        {
            Ok(extracted) => extracted,
            Err(error) => {
                tracing::debug!(%error, "no page");
                let reason = Reason::ContentType;
                return (Outcome::Drop { reason }, None);
            }
        };
        let digest = digest(&extracted.blocks);
        extracted.terms = task.terms.clone().then(extracted.terms);
        let (keeps_text, forbidden, withheld) = self.obey(&mut extracted);
        let off_language = self.languages.is_off(extracted.recognised);
        if off_language {
            extracted.images.clear();
            if !self.languages.follow_foreign {
                extracted.links.clear();
            }
        }
        let Scored {
            document,
            links,
            images,
            observed,
            sentences,
        } = self.metrics.score(|| self.scorer.score(url, &extracted));
        self.metrics.rated(self.scorer.take_cache_counts());
        let guessed = observed.as_ref().is_some_and(|observed| observed.guessed);
        let contrast = observed.as_ref().and_then(|observed| observed.contrast);
        let (on_topic, nearness, clues) = match observed {
            // Words of another language are unknown, and unknown words say nothing.
            Some(observed) if off_language => {
                (Some(0.0), Some(Nearness::Likely(0.0)), observed.clues)
            }
            Some(Observed {
                on_topic,
                nearness,
                clues,
                ..
            }) => {
                let is_new =
                    task.bucket == Bucket::Seed && !self.was_trained_on(document.perplexity);
                let nearness = match is_new {
                    true => nearness.of_seed(&sentences),
                    false => nearness,
                };
                (Some(on_topic), Some(nearness), clues)
            }
            None => (None, None, Vec::new()),
        };
        let clues = clues.into_iter().map(Some).chain(repeat_with(|| None));
        let links = links.into_iter().zip(&extracted.links).zip(clues);
        let links = links.map(|((mut link, found), clues)| {
            if off_language {
                // Names and numbers are alike in every language, and say nothing there.
                link.parts.document = link.parts.document.max(self.scorer.unknown());
            }
            let (score, bucket) = match (&clues, self.learning()) {
                (Some(clues), Some(learning)) => learning.rate(clues, Some(&link.parts)),
                _ => self.link(&link.parts),
            };
            NewTask {
                clues,
                bucket,
                url: link.url,
                score,
                parts: Some(link.parts),
                anchor: self.scorer.anchor_words(&found.anchor),
            }
        });
        let (score, bucket) = Rating::image(self, document.perplexity);
        let images = images.into_iter().map(|image| NewImage {
            url: image.url,
            spares: image.spares,
            bucket,
            score,
            context: image.context,
        });
        let links = best_of_each(links, |l| &l.url, |a, b| a.score < b.score);
        let may_keep = keeps_text && !off_language;
        let kept = match may_keep && self.documents {
            true => documents::of_page(url, &mut extracted, &document, contrast),
            false => None,
        };
        let page = PageProduct {
            document,
            kept: kept.map(Box::new),
            on_topic,
            guessed,
            nearness,
            links,
            images: best_of_each(images, |i| &i.url, |a, b| a.context.rank < b.context.rank),
            svgs: match self.images.enabled {
                true => extracted.svgs,
                false => 0,
            },
            unknown: self.scorer.unknown(),
            keywords: self.keywords(),
            sentences: match may_keep && self.sentences {
                true => sentences,
                false => String::new(),
            },
            title: extracted.title,
            text: extracted.text,
            language: extracted.language,
            foreign: self.languages.is_foreign(extracted.recognised),
            recognised: extracted.recognised,
            off_language,
            charset: extracted.charset,
            terms: extracted.terms,
            forbidden,
            withheld,
            truncated: fetched.truncated,
            digest,
            canonical: extracted.canonical,
            prints: extracted.prints,
        };
        (Outcome::Done, Some(Product::Page(Box::new(page))))
    }

    fn was_trained_on(&self, perplexity: f64) -> bool {
        perplexity < self.trained
    }

    /// Leaves out what the page forbids and what is not wanted, before anything
    /// is rated; returns whether its text may be kept, what forbade anything, and
    /// the images that it forbade to use.
    fn obey(&self, page: &mut Extracted) -> (bool, Vec<&'static str>, Vec<PageUrl>) {
        if page.terms.directives.nofollow {
            page.links.clear();
        }
        page.links.retain(|link| !link.nofollow);
        page.images.retain(|image| self.images.may_take(image));
        let mut forbidden = Vec::new();
        let mut keeps = |wanted: bool, what: Use| {
            let by = page.terms.forbids(what, &self.obeyed);
            let keeps = wanted && by.is_empty();
            for words in by.into_iter().filter(|_| wanted) {
                if !forbidden.contains(&words) {
                    forbidden.push(words);
                }
            }
            keeps
        };
        let text = keeps(self.sentences || self.documents, Use::Text);
        let mut withheld = Vec::new();
        if !keeps(self.images.enabled, Use::Images) {
            // Its words may have moved on to another address.
            let left_out = page.images.drain(..);
            let left_out = left_out.flat_map(|i| std::iter::once(i.url).chain(i.spares));
            // Where none are wanted nobody has forbidden any.
            withheld.extend(left_out.filter(|_| self.images.enabled));
        }
        (text, forbidden, withheld)
    }

    /// What is not wanted is found out before the pixels are decoded.
    fn picture(&self, task: &Task, fetched: Fetched) -> (Outcome, Option<Product>) {
        let of_answer = extract::header_terms(&task.url, &fetched.terms);
        let terms = task.terms.clone().then(of_answer);
        let by = terms.forbids(Use::Images, &self.obeyed);
        if !by.is_empty() {
            let reason = Reason::Forbidden;
            return (
                Outcome::Drop { reason },
                Some(Product::Forbidden { terms, by }),
            );
        }
        let body = &fetched.body;
        let content_type = fetched.content_type.as_deref();
        let mut info = match picture::inspect(body) {
            Ok(info) => info,
            Err(bad) => return bad_image(&bad, content_type),
        };
        if !self.images.take(info.width, info.height) || body.len() < self.images.min_bytes {
            let (width, height, bytes) = (info.width, info.height, body.len());
            let why = format!("{width} x {height} pixels in {bytes} bytes");
            return refused(Reason::ImageSize, why);
        }
        let turn = turn(info.is_large());
        let looked = info.look(body);
        drop(turn);
        if let Err(bad) = looked {
            return bad_image(&bad, content_type);
        }
        info.mislabelled = picture::mislabelled(&info.format, content_type, task.url.path());
        let image = Product::Image {
            bytes: fetched.body,
            info: Box::new(info),
            content_type: fetched.content_type,
            terms,
        };
        (Outcome::Done, Some(image))
    }
}

/// The turn of large work. Nothing lies behind the lock that a panic could leave half
/// done.
fn turn(large: bool) -> Option<MutexGuard<'static, ()>> {
    large.then(|| LARGE.lock().unwrap_or_else(PoisonError::into_inner))
}

fn bad_image(bad: &BadImage, content_type: Option<&str>) -> (Outcome, Option<Product>) {
    let sent: String = content_type
        .unwrap_or("nothing")
        .chars()
        .take(200)
        .collect();
    refused(Reason::BadImage, format!("{bad}; sent as {sent:?}"))
}

fn refused(reason: Reason, why: String) -> (Outcome, Option<Product>) {
    (Outcome::Drop { reason }, Some(Product::Refused { why }))
}

/// What of a text must stay for it to count as the same: its letters. Clocks and
/// counters change with every request, white space and block structure with the
/// site's template, and none of them are words of the corpus.
fn digest(blocks: &[String]) -> u64 {
    let mut sha = Sha256::new();
    let mut letters = String::new();
    for block in blocks {
        letters.clear();
        match block.is_ascii() {
            true => {
                let bytes = block.bytes().filter(u8::is_ascii_alphabetic);
                letters.extend(bytes.map(char::from));
            }
            false => letters.extend(block.chars().filter(|c| c.is_alphabetic())),
        }
        sha.update(&letters);
    }
    let digest = sha.finalize();
    // A hash of this crate's own would have to stay the same over its versions.
    let first: [u8; 8] = std::array::from_fn(|i| digest.get(i).copied().unwrap_or_default());
    u64::from_be_bytes(first)
}

/// Keeps each address once, where it was first, with the better of its entries.
fn best_of_each<T>(
    items: impl Iterator<Item = T>,
    url: impl Fn(&T) -> &PageUrl,
    better: impl Fn(&T, &T) -> bool,
) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    let mut places: HashMap<PageUrl, usize> = HashMap::new();
    for item in items {
        match places.entry(url(&item).clone()) {
            Entry::Vacant(entry) => {
                entry.insert(kept.len());
                kept.push(item);
            }
            Entry::Occupied(entry) => {
                if let Some(known) = kept.get_mut(*entry.get())
                    && better(&item, known)
                {
                    *known = item;
                }
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_the_same_where_its_letters_are() {
        let of = |blocks: &[&str]| {
            let blocks: Vec<String> = blocks.iter().map(|b| (*b).to_owned()).collect();
            digest(&blocks)
        };
        let text = of(&["The lamp burns.", "Straße 7, 12:03"]);
        // Kept in the store: a later version must find the same.
        assert_eq!(text, 3_322_891_365_021_491_860);
        assert_eq!(text, of(&["The lamp", "burns", "Straße 8", "23:59"]));
        for other in [
            &["The lamp burned.", "Straße 7"][..],
            &["The lamp burns."],
            &[],
        ] {
            assert_ne!(text, of(other));
        }
    }
}
