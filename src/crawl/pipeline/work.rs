//! The processing of a body between its arrival and its commit: extraction, scoring and
//! the choice of links. Pure: the same bytes give the same result on the same day.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::iter::repeat_with;

use sha2::{Digest, Sha256};

use super::completion::Completion;
use super::documents;
use super::fields;
use super::product::{PageProduct, Product, SitemapProduct};
use super::reader::Reader;
use super::workshop::Work;
use crate::address::PageUrl;
use crate::clock;
use crate::frontier::{NewImage, NewTask, Rating};
use crate::outputs::PackedSentences;
use crate::outputs::picture::{self, BadImage, ImageInfo};
use crate::page::{
    Bucket, Clues, Extracted, Fetched, Nearness, Observed, Outcome, Reason, Scored, ScoredImage,
    ScoredLink, Signal, Task, TaskKind, Terms, TermsHeaders, Use,
};
use crate::pdf;
use crate::topic::neutral;
use crate::topic::strategy::Strategy;
use crate::web::extract::{self, ExtractError};
use crate::web::robots;
use crate::web::sitemap;

/// Size of a large page in bytes: its tree takes up to thirty times as much memory. Of 7,400 pages
/// of a real web one is larger, and 460 have a quarter of it: these are the ones with most links, so
/// a crawl whose workers are busy must not wait long for them.
const LARGE_PAGE: usize = 1 << 20;

impl Reader {
    /// All processing between the bytes and the commit, on this thread.
    pub fn read(&self, task: &Task, fetched: Fetched) -> (Outcome, Option<Product>) {
        self.begin(task, fetched).here()
    }

    /// The processing between the bytes and the commit, except what may take long.
    pub fn begin(&self, task: &Task, fetched: Fetched) -> Work<Product> {
        let is_pdf = task.kind == TaskKind::Page && self.reads_pdf(&fetched);
        let is_large = match task.kind {
            TaskKind::Page => fetched.body.len() > LARGE_PAGE,
            TaskKind::Sitemap => true,
            // Images are bounded by their pixels, whose number is not known yet.
            TaskKind::Image | TaskKind::Robots | TaskKind::Tdmrep | TaskKind::Rsl => false,
        };
        if !is_pdf && !is_large {
            return self.whole(task, fetched);
        }
        let (reader, task) = (self.clone(), task.clone());
        let rest = Box::new(move || reader.whole(&task, fetched).here());
        if is_pdf {
            Work::File(rest)
        } else {
            Work::Large(rest)
        }
    }

    /// The same processing for a body of any size.
    fn whole(&self, task: &Task, fetched: Fetched) -> Work<Product> {
        match task.kind {
            TaskKind::Robots => Work::Done(
                Outcome::Done,
                Some(Product::Robots(robots::in_utf8(&fetched))),
            ),
            TaskKind::Tdmrep | TaskKind::Rsl => Work::Done(
                Outcome::Done,
                Some(Product::TermsFile(robots::in_utf8(&fetched))),
            ),
            TaskKind::Image => self.picture(task, fetched),
            TaskKind::Page => self.page(task, &fetched).into(),
            TaskKind::Sitemap => self.sitemap(&task.url, &fetched).into(),
        }
    }

    /// Only the addresses in a sitemap are known: there is no anchor, and no page that
    /// might share their topic. So they rank behind every rated link of the class
    /// `normal`, and before the class `low`. A better link to one of them, found later,
    /// lifts it.
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
        let mut extracted = match self.metrics.extract(|| self.extracted(url, fetched)) {
            Ok(extracted) => extracted,
            Err(NoPage { reason, why }) => {
                let product = why.map(|why| Product::Refused { why });
                return (Outcome::Drop { reason }, product);
            }
        };
        if let Some(unknown) = self.unknown_rsl(task, &extracted.terms) {
            return unknown;
        }
        let digest = digest(&extracted.blocks);
        let of_answer = extract::header_terms(url, &fetched.terms, &self.extract);
        let outside = task.terms.then(of_answer).tdm_reservation;
        extracted.terms = task.terms.then(extracted.terms);
        let lifts = outside == Some(true) && extracted.terms.tdm_reservation != outside;
        let wanted = self.sort_out(&mut extracted);
        let Scored {
            document,
            links,
            images,
            observed,
            sentences,
        } = self.metrics.score(|| self.scorer.score(url, &extracted));
        self.metrics.rated(self.scorer.take_cache_counts());
        let is_new_seed = task.bucket == Bucket::Seed && !self.was_trained_on(document.perplexity);
        let judged = Judged::of(observed, &wanted, is_new_seed.then_some(&*sentences));
        let mut links = self.tasks(links, &extracted, judged.clues, wanted.off_language);
        if self.leads_to_items(task) {
            links.iter_mut().for_each(as_item);
        }
        let images = self.images(images, document.perplexity);
        let may_keep = wanted.keeps_text && !wanted.off_language;
        let rules = self.rules.as_ref().and_then(|rules| {
            let may_keep = wanted.may_keep && !wanted.off_language;
            fields::of_page(rules, url, fetched, &self.extract, may_keep)
        });
        let kept = if may_keep && self.documents {
            documents::of_page(
                url,
                &mut extracted,
                &document,
                judged.contrast,
                rules.as_ref(),
            )
        } else {
            None
        };
        let page = PageProduct {
            document,
            kept: kept.map(Box::new),
            on_topic: judged.on_topic,
            guessed: judged.guessed,
            nearness: judged.nearness,
            links,
            images,
            svgs: if self.images.enabled {
                extracted.svgs
            } else {
                0
            },
            unknown: self.scorer.unknown(),
            keywords: self.keywords(),
            sentences: if may_keep && self.sentences {
                PackedSentences::of(&sentences)
            } else {
                PackedSentences::default()
            },
            title: extracted.title,
            text: extracted.text,
            language: extracted.language,
            foreign: self.languages.is_foreign(extracted.recognised),
            recognised: extracted.recognised,
            off_language: wanted.off_language,
            charset: extracted.charset,
            fallback: extracted.fallback,
            terms: extracted.terms,
            may_archive: wanted.may_archive,
            lifts,
            forbidden: wanted.forbidden,
            unindexed: wanted.unindexed,
            withheld: wanted.withheld,
            truncated: fetched.truncated,
            digest,
            canonical: extracted.canonical,
            prints: extracted.prints,
            rules: rules.map(Box::new),
        };
        (Outcome::Done, Some(Product::Page(Box::new(page))))
    }

    /// Applies what the headers of a redirect state about its target, or those of an unchanged page
    /// about that page: the terms for the target, and whether the page has to be read again.
    pub fn heed(&self, completion: &mut Completion<Product>) -> (Terms, bool) {
        let task = &completion.task;
        let is_redirect = matches!(completion.outcome, Outcome::Redirect { .. });
        let has_page = matches!(task.kind, TaskKind::Page | TaskKind::Image);
        if !has_page || !is_redirect && completion.outcome != Outcome::Unchanged {
            return (Terms::default(), false);
        }
        let stated = extract::header_terms(&task.url, &completion.stated, &self.extract);
        if let Some((outcome, product)) = self.unknown_rsl(task, &stated) {
            (completion.outcome, completion.product) = (outcome, product);
            return (Terms::default(), false);
        }
        if is_redirect {
            return (task.terms.of_redirect(stated), false);
        }
        let terms = task.terms.then(stated);
        let [text, images, index] =
            [Use::Text, Use::Images, Use::Index].map(|what| self.forbids(&terms, what));
        let keeps_text = self.sentences || self.documents;
        let reread = keeps_text && !text.is_empty() || self.images.enabled && !images.is_empty();
        // The page may be gone when it is read again.
        let by = each_once([text, images, index]);
        if !by.is_empty() {
            completion.product = Some(Product::Withdrawn { by });
        }
        (Terms::default(), reread)
    }

    /// The obeyed terms that forbid a use today. The day of a stored answer does not matter: what a
    /// publisher wants removed from some day on is not kept after it.
    fn forbids(&self, terms: &Terms, what: Use) -> Vec<&'static str> {
        terms.forbids(what, &self.obeyed, clock::now())
    }

    /// Whether the exchange of a page, an image or a sitemap may be archived, given the headers of
    /// the answer. Files with rules are always archived, as evidence.
    pub fn may_archive(&self, completion: &Completion<Product>, stated: &TermsHeaders) -> bool {
        let task = &completion.task;
        match &completion.product {
            Some(Product::Page(page)) => page.may_archive,
            Some(Product::UnknownRsl { .. }) => false,
            _ => {
                let mut stated = extract::header_terms(&task.url, stated, &self.extract);
                if task.kind == TaskKind::Sitemap {
                    // It does not wait for the files that it names.
                    stated.rsl.clear();
                }
                let terms = task.terms.then(stated);
                // The bytes of an image have no other use than as an image.
                let may_use =
                    task.kind != TaskKind::Image || self.forbids(&terms, Use::Images).is_empty();
                may_use && self.forbids(&terms, Use::Archive).is_empty()
            }
        }
    }

    /// The outcome of a page or image that names RSL files that have to be read first.
    fn unknown_rsl(&self, task: &Task, terms: &Terms) -> Option<(Outcome, Option<Product>)> {
        let files = task.terms.unknown(terms, &task.url);
        if files.is_empty() || !self.keeps || !self.obeyed.contains(&Signal::Rsl) {
            return None;
        }
        let outcome = Outcome::Retry {
            reason: Reason::RslUnknown,
            retry_after: None,
            host_backs_off: false,
        };
        Some((outcome, Some(Product::UnknownRsl { files })))
    }

    /// Whether a body is read as a PDF file.
    fn reads_pdf(&self, fetched: &Fetched) -> bool {
        self.pdf.is_some() && extract::is_pdf(fetched)
    }

    /// The contents of a page: a web page, a text, or a PDF file if these are read.
    ///
    /// # Errors
    ///
    /// [`NoContents`] says why there are none.
    pub fn contents(&self, url: &PageUrl, fetched: &Fetched) -> Result<Extracted, NoContents> {
        let Some(pdf) = self.pdf.as_ref().filter(|_| self.reads_pdf(fetched)) else {
            return Ok(extract::extract(url, fetched, &self.extract)?);
        };
        let original = pdf.read(&fetched.body)?;
        let words: pdf::WordList<'_> = &neutral::knows;
        let options = &self.extract;
        Ok(extract::of_pdf(
            url,
            fetched,
            &original,
            Some(words),
            options,
        ))
    }

    /// The contents of a page, or the reason for the log why it is not a page.
    fn extracted(&self, url: &PageUrl, fetched: &Fetched) -> Result<Extracted, NoPage> {
        self.contents(url, fetched).map_err(|error| match error {
            NoContents::Pdf(failure) => {
                let cut = if fetched.truncated { " (cut)" } else { "" };
                NoPage {
                    reason: Reason::BadPdf,
                    why: Some(format!("{}{cut}: {failure}", failure.name())),
                }
            }
            NoContents::Extract(error) => {
                tracing::debug!(%error, "no page");
                NoPage {
                    reason: Reason::ContentType,
                    why: None,
                }
            }
        })
    }

    /// Whether every page that this one links to is to be fetched: it is an index page, or
    /// within the depth of one.
    fn leads_to_items(&self, task: &Task) -> bool {
        let depth = |url: &PageUrl| self.indexes.get(url).copied().unwrap_or_default();
        let above = task.via.as_ref().map_or(0, depth);
        depth(&task.url) >= 1 || above >= 2
    }

    /// The links of a page as tasks, each address once. `clues` are the features of the
    /// first links.
    fn tasks(
        &self,
        links: Vec<ScoredLink>,
        extracted: &Extracted,
        clues: Vec<Clues>,
        off_language: bool,
    ) -> Vec<NewTask> {
        let clues = clues.into_iter().map(Some).chain(repeat_with(|| None));
        let links = links.into_iter().zip(&extracted.links).zip(clues);
        let tasks = links.map(|((mut link, found), clues)| {
            if off_language {
                // Names and numbers look the same in every language, so they are no evidence of the
                // topic there.
                link.parts.document = link.parts.document.max(self.scorer.unknown());
            }
            let (score, bucket) = match (&clues, self.learning()) {
                (Some(clues), Some(learning)) => learning.rate(clues, Some(&link.parts)),
                _ => self.link(&link.url, &link.parts),
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
        best_of_each(tasks, |l| &l.url, |a, b| a.score < b.score)
    }

    /// The images of a page of this perplexity, each address once.
    fn images(&self, images: Vec<ScoredImage>, document: f64) -> Vec<NewImage> {
        let images = images.into_iter().map(|image| {
            // Those of navigation and advertisements come later.
            let is_outside = image.context.embedding.in_main_text == Some(false);
            let (score, bucket) = self.image(if is_outside { 2.0 * document } else { document });
            NewImage {
                url: image.url,
                bucket,
                score,
                context: image.context,
            }
        });
        best_of_each(images, |i| &i.url, |a, b| a.context.rank < b.context.rank)
    }

    fn was_trained_on(&self, perplexity: f64) -> bool {
        perplexity < self.trained
    }

    /// Removes forbidden and unwanted content, before anything is rated.
    fn sort_out(&self, page: &mut Extracted) -> Wanted {
        if page.terms.directives.nofollow {
            page.links.clear();
        }
        page.links.retain(|link| !link.nofollow);
        page.images.retain(|image| self.images.may_take(image));
        let by = |what| self.forbids(&page.terms, what);
        let (text, images) = (by(Use::Text), by(Use::Images));
        let may_keep = text.is_empty();
        let keeps_text = may_keep && (self.sentences || self.documents);
        let keeps_images = images.is_empty() && self.images.enabled;
        let may_archive = by(Use::Archive).is_empty();
        let unindexed = by(Use::Index);
        let wants_text = self.sentences || self.documents;
        let wanted = [(text, wants_text), (images, self.images.enabled)];
        let wanted = wanted.into_iter().filter(|(_, is_wanted)| *is_wanted);
        let forbidden = each_once(wanted.map(|(by, _)| by));
        let mut withheld = Vec::new();
        if !keeps_images {
            if self.images.enabled
                && let Some(main) = &mut page.main
            {
                main.images.clear();
            }
            let left_out = page.images.drain(..).map(|image| image.url);
            // If no images are wanted, none were forbidden.
            withheld.extend(left_out.filter(|_| self.images.enabled));
        }
        let off_language = self.languages.is_off(page.recognised);
        if off_language {
            page.images.clear();
            if !self.languages.follow_foreign {
                page.links.clear();
            }
        }
        Wanted {
            keeps_text,
            may_keep,
            may_archive,
            forbidden,
            unindexed,
            withheld,
            off_language,
        }
    }

    /// Unwanted images are rejected before their pixels are decoded.
    fn picture(&self, task: &Task, fetched: Fetched) -> Work<Product> {
        let of_answer = extract::header_terms(&task.url, &fetched.terms, &self.extract);
        if let Some(unknown) = self.unknown_rsl(task, &of_answer) {
            return unknown.into();
        }
        let terms = task.terms.then(of_answer);
        let by = self.forbids(&terms, Use::Images);
        if !by.is_empty() {
            let reason = Reason::Forbidden;
            let product = Product::Forbidden { terms, by };
            return Work::Done(Outcome::Drop { reason }, Some(product));
        }
        let body = &fetched.body;
        let info = match picture::inspect(body) {
            Ok(info) => info,
            Err(bad) => return bad_image(&bad, fetched.content_type.as_deref()).into(),
        };
        if !self.images.take(info.width, info.height) || body.len() < self.images.min_bytes {
            let (width, height, bytes) = (info.width, info.height, body.len());
            let why = format!("{width} x {height} pixels in {bytes} bytes");
            return refused(Reason::ImageSize, why).into();
        }
        if info.is_large() {
            let url = task.url.clone();
            Work::Large(Box::new(move || looked_at(&url, fetched, info, terms)))
        } else {
            looked_at(&task.url, fetched, info, terms).into()
        }
    }
}

/// All words of several lists, each once.
fn each_once(lists: impl IntoIterator<Item = Vec<&'static str>>) -> Vec<&'static str> {
    let mut all = Vec::new();
    for words in lists.into_iter().flatten() {
        if !all.contains(&words) {
            all.push(words);
        }
    }
    all
}

/// Decodes the pixels of an image.
fn looked_at(
    url: &PageUrl,
    fetched: Fetched,
    mut info: ImageInfo,
    terms: Terms,
) -> (Outcome, Option<Product>) {
    let content_type = fetched.content_type.as_deref();
    if let Err(bad) = info.look(&fetched.body) {
        return bad_image(&bad, content_type);
    }
    info.mislabelled = picture::mislabelled(&info.format, content_type, url.path());
    let image = Product::Image {
        bytes: fetched.body,
        info: Box::new(info),
        content_type: fetched.content_type,
        terms,
    };
    (Outcome::Done, Some(image))
}

/// Makes sure that a link is fetched, regardless of its rating. Without the parts of its score it
/// is not rated again.
fn as_item(link: &mut NewTask) {
    link.bucket = Some(Bucket::High);
    link.score = 0.0;
    link.parts = None;
    link.clues = None;
}

/// Why a body has no contents.
#[derive(Debug, thiserror::Error)]
pub enum NoContents {
    /// The PDF file cannot be read.
    #[error(transparent)]
    Pdf(#[from] pdf::Failure),
    /// It is not a page.
    #[error(transparent)]
    Extract(#[from] ExtractError),
}

/// Why a body is not a page.
struct NoPage {
    reason: Reason,
    /// The reason in words, for the log.
    why: Option<String>,
}

/// The wanted part of a page.
struct Wanted {
    /// Whether its text may be kept.
    keeps_text: bool,
    /// Whether its terms allow keeping its text, wanted or not.
    may_keep: bool,
    /// Whether its terms allow keeping the exchange in an archive.
    may_archive: bool,
    /// The terms that forbade anything.
    forbidden: Vec<&'static str>,
    /// The terms that forbid searches in its text.
    unindexed: Vec<&'static str>,
    /// The images whose use the page forbids.
    withheld: Vec<PageUrl>,
    /// Whether it is in a language whose pages are not kept.
    off_language: bool,
}

/// How far a page is on topic.
#[derive(Default)]
struct Judged {
    on_topic: Option<f64>,
    guessed: bool,
    contrast: Option<f64>,
    nearness: Option<Nearness>,
    clues: Vec<Clues>,
}

impl Judged {
    /// `seed` is the text of a seed that the model was not trained on.
    fn of(observed: Option<Observed>, wanted: &Wanted, seed: Option<&str>) -> Self {
        let Some(observed) = observed else {
            return Self::default();
        };
        let (on_topic, nearness) = if wanted.off_language {
            // Words of another language are unknown, and unknown words are no evidence.
            (0.0, Nearness::Likely(0.0))
        } else {
            let nearness = match seed {
                Some(sentences) => observed.nearness.of_seed(sentences),
                None => observed.nearness,
            };
            (observed.on_topic, nearness)
        };
        Self {
            on_topic: Some(on_topic),
            guessed: observed.guessed,
            contrast: observed.contrast,
            nearness: Some(nearness),
            clues: observed.clues,
        }
    }
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

/// The part of a text that identifies it: its letters. Clocks and counters change with
/// every request, white space and block structure with the site's template, and none of
/// these are words of the corpus.
fn digest(blocks: &[String]) -> u64 {
    let mut sha = Sha256::new();
    let mut letters: Vec<u8> = Vec::new();
    for block in blocks {
        letters.clear();
        let mut rest = block.as_str();
        // Most blocks are ASCII, and this looks at many bytes at once.
        while !rest.is_ascii() {
            let at = rest.bytes().position(|byte| !byte.is_ascii());
            let (ascii, other) = rest.split_at(at.unwrap_or(rest.len()));
            push_letters(ascii.as_bytes(), &mut letters);
            let end = other.find(|c: char| c.is_ascii()).unwrap_or(other.len());
            let (other, after) = other.split_at(end);
            for part in other.split(|c: char| !c.is_alphabetic()) {
                letters.extend_from_slice(part.as_bytes());
            }
            rest = after;
        }
        push_letters(rest.as_bytes(), &mut letters);
        sha.update(&letters);
    }
    let digest = sha.finalize();
    // The digest is stored, so the hash must not change between versions of this crate.
    let first: [u8; 8] = std::array::from_fn(|i| digest.get(i).copied().unwrap_or_default());
    u64::from_be_bytes(first)
}

/// Adds the ASCII letters of a text.
fn push_letters(text: &[u8], letters: &mut Vec<u8>) {
    let (chunks, rest) = text.as_chunks();
    for chunk in chunks {
        push_letters_of(chunk, letters);
    }
    if !rest.is_empty() {
        let mut chunk = [0; CHUNK];
        for (to, from) in chunk.iter_mut().zip(rest) {
            *to = *from;
        }
        push_letters_of(&chunk, letters);
    }
}

/// How many bytes of a text are filtered for letters at once.
const CHUNK: usize = 64;

/// Adds the ASCII letters of a piece. Each byte is written where the next letter belongs, and stays
/// there if it is one: this needs no branch for each byte, which no processor could predict.
fn push_letters_of(chunk: &[u8; CHUNK], letters: &mut Vec<u8>) {
    let are_letters = chunk.map(|byte| u8::from(byte.is_ascii_alphabetic()));
    let (mut found, mut count) = ([0; CHUNK], 0_usize);
    for (byte, is_letter) in chunk.iter().zip(are_letters) {
        // At most as many letters came before as there are bytes in a piece, less one.
        found[count % CHUNK] = *byte;
        count += usize::from(is_letter);
    }
    letters.extend_from_slice(found.get(..count).unwrap_or_default());
}

/// Keeps each address once, at its first position, with the better of its entries.
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
        // The digest is stored: a later version must compute the same.
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

    proptest::proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn a_digest_is_that_of_the_letters(
            blocks in proptest::collection::vec(
                "[a-zA-Z0-9 .@`\\[{]{0,200}|\\PC{0,80}|[aZ é猫\u{301}]{0,150}", 0..4),
        ) {
            let letters = blocks.iter().flat_map(|block| block.chars());
            let letters: String = letters.filter(|c| c.is_alphabetic()).collect();
            let sha = Sha256::digest(letters.as_bytes());
            let first = sha.iter().take(8);
            let expected = first.fold(0, |all, byte| all << 8 | u64::from(*byte));
            proptest::prop_assert_eq!(digest(&blocks), expected);
        }
    }
}
