//! The journey of a page, from lease to commit; the one place that sees every
//! stage.
//!
//! ```text
//!  frontier --lease--> fetch --Fetched--> extract --Extracted--> score --Scored--> store --> frontier
//! ```
//!
//! [`Crawl`] is the handler of a real crawl: its `processor` is everything between the
//! bytes and the ratings, its `complete` writes the outputs and lets the frontier
//! commit. The loop itself, [`drive`], is shared with training, which fetches its
//! pages by the same rules.
//!
//! No stage imports another one, and none asks the network or the clock behind
//! the pipeline's back.

mod concurrency;
mod documents;
mod drive;
mod fd_limit;
mod outage;
mod rating;
mod replay;
mod steer;
#[cfg(test)]
mod tests;
mod work;

use std::time::Duration;

use crate::address::PageUrl;
use crate::clock::timestamp;
use crate::crawl::frontier::store::StoreError;
use crate::crawl::frontier::{Effects, Finished, Frontier, RobotsAnswer, Settled, Written};
use crate::language::Language;
use crate::metrics::{self, Metrics};
use crate::outputs::{Kept, NewImageFile, OutputError, Outputs, Row, TextPlace};
use crate::page::{ImageContext, Likelihood, Outcome, Reason, Task, TaskKind};
use crate::picture::ImageInfo;

pub use drive::{Admission, Completion, Handler, LoopOptions, Processor, drive};
pub use fd_limit::fit_open_files;
pub use rating::{Learned, Reading};
pub use replay::{Stored, replay};
pub use steer::{Asker, Control, Phase, Standing, Steering, Stop, Stopper, Watch};
pub use work::{ImageRules, Languages, PageProduct, Product, Reader, SitemapProduct};

/// Addresses of a sitemap that are added before others have their turn: 50,000
/// at once hold up the whole crawl for seconds on a slow disk.
const MAX_LISTED_AT_ONCE: usize = 2_000;

/// Why a crawl cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum CrawlError {
    /// The frontier's store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An output failed.
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// The least time that open requests have to finish when the time of a crawl is up.
const LEAST_GRACE: Duration = Duration::from_secs(1);

/// When a crawl ends by itself; `None` is without end.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// Pages fetched with success, each counted once.
    pub documents: Option<u64>,
    /// Page requests answered, whatever the status.
    pub fetches: Option<u64>,
    /// Bytes of all bodies.
    pub bytes: Option<u64>,
    /// Time spent crawling, over all runs.
    pub time: Option<Duration>,
    /// After the first two limits, images that are queued are still fetched.
    pub finish_images: bool,
}

/// Why a crawl ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// A limit of the job, by its key.
    Limit(&'static str),
    /// Nothing is left that may be asked for now.
    Exhausted,
    /// It was told to stop.
    Stopped,
}

/// The handler of a crawl.
pub struct Crawl<'a> {
    reading: Reading,
    metrics: Metrics,
    outputs: Outputs,
    limits: Limits,
    reached: Option<&'static str>,
    /// Sitemaps of which a part is not added yet.
    incomplete: Vec<Completion<Product>>,
    progress: &'a mut dyn FnMut(&Frontier, Option<&Row<'_>>),
}

impl<'a> Crawl<'a> {
    /// Makes the handler; `progress` is told of every finished task and every round.
    pub fn new(
        reading: impl Into<Reading>,
        outputs: Outputs,
        limits: Limits,
        progress: &'a mut dyn FnMut(&Frontier, Option<&Row<'_>>),
    ) -> Self {
        let reading = reading.into();
        Self {
            metrics: reading.now().metrics.clone(),
            reading,
            outputs,
            limits,
            reached: None,
            incomplete: Vec::new(),
            progress,
        }
    }

    /// The limit that ended the crawl, if one did.
    pub fn limit_reached(&self) -> Option<&'static str> {
        self.reached
    }

    fn pages_in_reach(&self, frontier: &Frontier) -> Option<u64> {
        let counts = frontier.counts();
        let documents = self
            .limits
            .documents
            .map(|l| l.saturating_sub(counts.documents));
        let fetches = self
            .limits
            .fetches
            .map(|l| l.saturating_sub(counts.fetches));
        match (documents, fetches) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// A robots.txt or a tdmrep.json.
    fn complete_host_file(
        &mut self,
        frontier: &mut Frontier,
        completion: Completion<Product>,
        now: u64,
    ) -> Result<(), CrawlError> {
        let time = timestamp(now);
        let body = match &completion.product {
            Some(Product::Robots(body) | Product::Tdmrep(body)) => Some(body.clone()),
            _ => None,
        };
        let Self {
            outputs, progress, ..
        } = self;
        let mut shown = None;
        let write = |settled: &Settled| {
            let row = row(&completion, &time, settled);
            outputs.log(&row)?;
            if backs_off(&completion.outcome) {
                outputs.sync()?;
            }
            shown = Some(row);
            Ok::<_, CrawlError>(outputs.stamp())
        };
        let Completion {
            task,
            outcome,
            elapsed,
            ..
        } = &completion;
        if task.kind == TaskKind::Tdmrep {
            frontier.finish_tdmrep(task, outcome, body, *elapsed, now, write)?;
        } else {
            let answer = RobotsAnswer::of(outcome, body);
            frontier.finish_robots(task, answer, *elapsed, now, write)?;
        }
        if let Some(row) = &shown {
            count(&self.metrics, row, *elapsed);
        }
        progress(frontier, shown.as_ref());
        Ok(())
    }

    fn complete_task(
        &mut self,
        frontier: &mut Frontier,
        mut completion: Completion<Product>,
        now: u64,
    ) -> Result<(), CrawlError> {
        if let Some(Product::Sitemap(sitemap)) = &mut completion.product
            && sitemap.pages.len().max(sitemap.sitemaps.len()) > MAX_LISTED_AT_ONCE
        {
            let part = Effects {
                links: take_some(&mut sitemap.pages),
                sitemaps: take_some(&mut sitemap.sitemaps),
                ..Effects::default()
            };
            frontier.add_listed(&completion.task, part, now)?;
            self.incomplete.push(completion);
            return Ok(());
        }
        refuse_type(frontier, &mut completion);
        refuse_bytes(frontier, &mut completion);
        let time = timestamp(now);
        let contexts = match &completion.product {
            Some(Product::Image { .. }) => frontier.contexts(&completion.task.url)?,
            _ => Vec::new(),
        };
        refuse_bare(&mut completion, &contexts);
        let mut effects = Effects {
            bytes: completion.bytes,
            validators: std::mem::take(&mut completion.validators),
            ..Effects::default()
        };
        match &mut completion.product {
            Some(Product::Page(page)) => page.give(&mut effects),
            Some(Product::Sitemap(sitemap)) => {
                effects.links = std::mem::take(&mut sitemap.pages);
                effects.sitemaps = std::mem::take(&mut sitemap.sitemaps);
                completion.error = sitemap.trouble.take();
            }
            Some(Product::Refused { why }) => completion.error = Some(std::mem::take(why)),
            Some(Product::Forbidden { by, .. }) => {
                completion.error = Some(format!("forbidden by {}", by.join(", ")));
            }
            _ => {}
        }
        let earlier = match &completion.product {
            Some(Product::Image { info, .. }) => frontier.kept_file(&info.sha256)?,
            _ => None,
        };
        let instead = match completion.task.kind {
            TaskKind::Image => frontier.instead(&completion.task.url)?.of,
            _ => None,
        };
        let outcome = completion.outcome.clone();
        let Self {
            outputs, progress, ..
        } = self;
        let mut places = Places::default();
        let finished = frontier.finish(
            &completion.task,
            outcome,
            effects,
            completion.elapsed,
            now,
            |finished| {
                let met = Met {
                    contexts,
                    earlier: earlier.as_deref(),
                };
                let first_of;
                (places, first_of) = write(outputs, &completion, met, &time, finished)?;
                let mut row = full_row(&completion, &time, finished, &places);
                row.instead_of = instead.as_ref().map(PageUrl::as_str);
                outputs.log(&row)?;
                if backs_off(&completion.outcome) {
                    outputs.sync()?;
                }
                Ok::<_, CrawlError>(Written {
                    stamp: outputs.stamp(),
                    note: places.note.clone(),
                    first_of,
                })
            },
        )?;
        let row = full_row(&completion, &time, &finished, &places);
        count(&self.metrics, &row, completion.elapsed);
        progress(frontier, Some(&row));
        Ok(())
    }
}

/// Drops a page whose type the scope does not accept. This is judged here and not
/// with the other work on a body because the scope may change while that is done.
fn refuse_type(frontier: &Frontier, completion: &mut Completion<Product>) {
    if completion.task.kind != TaskKind::Page || completion.outcome != Outcome::Done {
        return;
    }
    if let Err(media) = frontier
        .scope()
        .content_type(completion.content_type.as_deref())
    {
        let reason = Reason::ContentType;
        completion.outcome = Outcome::Drop { reason };
        completion.product = None;
        completion.error = Some(format!("`{media}` is none of scope.accept_types"));
    }
}

/// Drops an image whose bytes were taken down, wherever they come from.
fn refuse_bytes(frontier: &Frontier, completion: &mut Completion<Product>) {
    let Some(Product::Image { bytes, .. }) = &completion.product else {
        return;
    };
    if let Some(order) = frontier.scope().takedowns().covering_bytes(bytes) {
        completion.error = Some(format!("its bytes were taken down: {order}"));
        let reason = Reason::Takedown;
        completion.outcome = Outcome::Drop { reason };
        completion.product = None;
    }
}

/// Drops an image that has lost its words since it was leased: every page that embeds
/// it was visited again meanwhile, and does not allow its use any more.
fn refuse_bare(completion: &mut Completion<Product>, contexts: &[ImageContext]) {
    if matches!(completion.product, Some(Product::Image { .. })) && contexts.is_empty() {
        completion.error = Some("no page with it that allows its use is left".to_owned());
        let reason = Reason::Forbidden;
        completion.outcome = Outcome::Drop { reason };
        completion.product = None;
    }
}

impl Handler for Crawl<'_> {
    type Product = Product;
    type Error = CrawlError;

    fn processor(&self) -> Processor<Product> {
        let reading = self.reading.clone();
        std::sync::Arc::new(move |task: &Task, fetched| reading.now().read(task, fetched))
    }

    fn admission(&mut self, frontier: &mut Frontier, now: u64) -> Result<Admission, CrawlError> {
        let counts = frontier.counts();
        let over = |limit: Option<u64>, value: u64| limit.is_some_and(|l| value >= l);
        let time = self
            .limits
            .time
            .map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX));
        let hard = if over(self.limits.bytes, counts.bytes) {
            Some("limits.bytes")
        } else if over(time, frontier.active()) {
            Some("limits.time")
        } else {
            None
        };
        if hard.is_some() {
            self.reached = hard;
            return Ok(Admission::End);
        }
        let left = self.pages_in_reach(frontier).unwrap_or(u64::MAX);
        let documents = counts.documents;
        frontier.hold_pages(false);
        if left > frontier.leased_pages() as u64 {
            // The limit that had closed them may have been raised.
            frontier.open_pages(now)?;
            self.reached = None;
            return Ok(Admission::Lease);
        }
        if left > 0 {
            // What is in flight may fill the budget, so it must settle first.
            frontier.hold_pages(true);
            return Ok(Admission::Images);
        }
        self.reached = Some(if over(self.limits.documents, documents) {
            "limits.documents"
        } else {
            "limits.fetches"
        });
        if !self.limits.finish_images {
            return Ok(Admission::End);
        }
        frontier.close_pages(now)?;
        Ok(Admission::Lease)
    }

    fn complete(
        &mut self,
        frontier: &mut Frontier,
        mut completion: Completion<Product>,
        now: u64,
    ) -> Result<(), CrawlError> {
        // Its own outcome changes the delay of those that follow.
        completion.delay = frontier.delay(&completion.task.host);
        let metrics = self.metrics.clone();
        metrics.store(|| match completion.task.kind {
            TaskKind::Robots | TaskKind::Tdmrep => {
                self.complete_host_file(frontier, completion, now)
            }
            TaskKind::Page | TaskKind::Image | TaskKind::Sitemap => {
                self.complete_task(frontier, completion, now)
            }
        })
    }

    fn checkpoint(&mut self, frontier: &mut Frontier) -> Result<(), CrawlError> {
        if self.outputs.find_again()? {
            frontier.set_stamp(self.outputs.stamp())?;
        }
        // In this order, or the store could know more than the outputs hold.
        self.outputs.sync()?;
        frontier.flush()?;
        let counts = frontier.counts();
        tracing::info!(
            fetches = counts.fetches,
            documents = counts.documents,
            queued = counts.queued_pages(),
            queued_images = counts.queued_images,
            waiting = counts.waiting,
            hosts = frontier.hosts().0,
            "checkpoint"
        );
        Ok(())
    }

    fn sync(&mut self) -> Result<(), CrawlError> {
        Ok(self.outputs.sync()?)
    }

    fn end(&mut self, frontier: &mut Frontier) -> Result<(), CrawlError> {
        self.outputs.fold()?;
        self.checkpoint(frontier)
    }

    fn incomplete(&mut self) -> Option<Completion<Product>> {
        self.incomplete.pop()
    }

    fn round(&mut self, frontier: &Frontier) {
        (self.progress)(frontier, None);
    }

    /// At the end of `limits.time`, open requests have a tenth of that time to finish.
    fn grace(&self, drain: Duration) -> Duration {
        match (self.reached, self.limits.time) {
            (Some("limits.time"), Some(time)) => drain.min((time / 10).max(LEAST_GRACE)),
            _ => drain,
        }
    }

    fn limits(&mut self) -> Option<&mut Limits> {
        Some(&mut self.limits)
    }
}

/// Whether the frontier flushes its store after this outcome, before which the
/// outputs must be on the disk.
fn backs_off(outcome: &Outcome) -> bool {
    let Outcome::Retry { host_backs_off, .. } = outcome else {
        return false;
    };
    *host_backs_off
}

/// The first of a list, as many as are added at once.
fn take_some<T>(list: &mut Vec<T>) -> Vec<T> {
    let n = list.len().min(MAX_LISTED_AT_ONCE);
    list.drain(..n).collect()
}

/// What the frontier knows of an image that has arrived.
struct Met<'a> {
    /// The words around it.
    contexts: Vec<ImageContext>,
    /// A file with the same bytes.
    earlier: Option<&'a str>,
}

/// Where what a task brought lies.
#[derive(Debug, Default)]
struct Places {
    /// The image, as a path below the job's folder.
    file: Option<String>,
    sentences: Option<TextPlace>,
    document: Option<TextPlace>,
    /// What the frontier is to note.
    note: Option<String>,
}

/// Writes what a task brought; returns where it lies, and the digest of an image whose
/// bytes are met for the first time.
fn write(
    outputs: &mut Outputs,
    completion: &Completion<Product>,
    met: Met<'_>,
    time: &str,
    finished: &Finished,
) -> Result<(Places, Option<String>), OutputError> {
    // The text is the same as at the visit before, which wrote it. An alt text, an
    // image or the terms of use may be others all the same.
    let again = finished.changed == Some(false);
    for (file, context) in &finished.extend {
        match finished.changed {
            None => outputs.extend_image_first(file, context.clone())?,
            Some(false) => outputs.extend_image_again(file, context.clone())?,
            Some(true) => outputs.extend_image(file, context.clone())?,
        }
    }
    if let Some(Product::Page(page)) = &completion.product {
        for file in &finished.withheld {
            outputs.restate_terms(file, &completion.task.url, &page.terms)?;
        }
        for (file, on) in &finished.boilerplate {
            outputs.mark_boilerplate(file, on, page.unknown)?;
        }
    }
    let mut places = Places::default();
    if finished.settled != Settled::Done {
        return Ok((places, None));
    }
    match &completion.product {
        Some(Product::Page(page)) => {
            places.note = finished.earlier.clone();
            if !again {
                places.sentences = outputs.sentences(&page.sentences)?;
            }
            if let Some(found) = page.kept.as_ref().filter(|_| !again) {
                let document = documents::settled(found, &completion.task, time, finished);
                places.document = Some(outputs.document(&document)?);
                places.note = finished.comes_again.then(|| documents::note(&document));
            }
            Ok((places, None))
        }
        Some(Product::Image {
            bytes,
            info,
            content_type,
            terms,
        }) => {
            let new = NewImageFile {
                url: &completion.task.url,
                bytes,
                info: ImageInfo::clone(info),
                content_type: content_type.as_deref(),
                terms: terms.clone(),
                fetched: time,
                contexts: met.contexts,
            };
            let Kept { file, first } = outputs.image_or_link(new, met.earlier)?;
            places.note = Some(file.clone());
            places.file = Some(file);
            Ok((places, first.then(|| info.sha256.clone())))
        }
        Some(
            Product::Forbidden { .. }
            | Product::Refused { .. }
            | Product::Robots(_)
            | Product::Sitemap(_)
            | Product::Tdmrep(_),
        )
        | None => Ok((places, None)),
    }
}

fn count(metrics: &Metrics, row: &Row<'_>, elapsed: Duration) {
    metrics.finished(metrics::Finished {
        kind: row.kind.name(),
        outcome: row.outcome,
        reason: row.reason.unwrap_or_default(),
        bytes: row.bytes,
        elapsed,
    });
    if row.document.is_some() {
        metrics.page_in(row.recognised);
    }
}

fn full_row<'a>(
    completion: &'a Completion<Product>,
    time: &'a str,
    finished: &'a Finished,
    places: &'a Places,
) -> Row<'a> {
    let mut row = row(completion, time, &finished.settled);
    row.sentences = places.sentences.as_ref();
    row.documents = places.document.as_ref();
    row.id = finished.id;
    row.changed = finished.changed;
    row.error = row.error.or(finished.said.as_deref());
    row.file = places.file.as_deref();
    row.duplicate_of = finished.duplicate_of.as_ref().map(PageUrl::as_str);
    row.near_copy_of = finished.near_copy_of.as_ref().map(PageUrl::as_str);
    if let Some(Product::Page(page)) = &completion.product {
        row.document = Some(page.document);
        let likely = finished.judged.map(|judged| judged.on_topic);
        row.on_topic = likely.map(Likelihood::is_likely);
        row.on_topic_probability = likely;
        row.on_topic_guessed = finished.judged.is_some_and(|judged| judged.guessed);
        row.charset = Some(&page.charset);
        row.title = page.title.as_deref();
        row.language = page.language.as_deref();
        row.text = Some(page.text);
        row.recognised = page.recognised.map(Language::code);
        row.foreign = page.foreign;
        row.off_language = page.off_language;
        row.truncated = page.truncated;
        row.forbidden = &page.forbidden;
        row.svgs = page.svgs;
    }
    row.terms = match &completion.product {
        Some(Product::Page(page)) => Some(&page.terms),
        Some(Product::Image { terms, .. } | Product::Forbidden { terms, .. }) => Some(terms),
        _ => None,
    };
    row.terms = row.terms.filter(|terms| !terms.is_silent());
    row
}

fn row<'a>(completion: &'a Completion<Product>, time: &'a str, settled: &Settled) -> Row<'a> {
    let task = &completion.task;
    let (outcome, reason) = match settled {
        Settled::Done => ("done", None),
        Settled::Unchanged => ("unchanged", None),
        Settled::Redirected => ("redirected", None),
        Settled::Retrying { reason, .. } => ("retrying", Some(*reason)),
        Settled::Postponed { reason } => ("postponed", Some(*reason)),
        Settled::Dropped { reason } => ("dropped", Some(*reason)),
    };
    Row {
        time,
        id: None,
        kind: task.kind,
        url: task.url.as_str(),
        url_id: task.url.id(),
        via: task.via.as_ref().map(|v| v.as_str()),
        hops: task.hops,
        status: completion.status,
        bytes: completion.bytes,
        ms: u64::try_from(completion.elapsed.as_millis()).unwrap_or(u64::MAX),
        asked: completion.asked,
        delay: completion.delay,
        mime: completion.content_type.as_deref().and_then(media_type),
        charset: None,
        bucket: task.bucket.name(),
        score: task.score,
        control: task.control,
        parts: task.parts,
        document: None,
        on_topic: None,
        on_topic_probability: None,
        on_topic_guessed: false,
        title: None,
        language: None,
        text: None,
        recognised: None,
        foreign: false,
        off_language: false,
        terms: None,
        forbidden: &[],
        truncated: false,
        file: None,
        sentences: None,
        documents: None,
        redirect: match &completion.outcome {
            Outcome::Redirect { to } => Some(to.as_str()),
            _ => None,
        },
        instead_of: None,
        svgs: 0,
        duplicate_of: None,
        near_copy_of: None,
        outcome,
        changed: None,
        reason: reason.map(Reason::name),
        error: completion.error.as_deref(),
    }
}

/// The media type of a `Content-Type` without its parameters; none where that is
/// longer than any that is registered.
fn media_type(content_type: &str) -> Option<&str> {
    let media = content_type.split(';').next()?.trim();
    (1..=127).contains(&media.len()).then_some(media)
}
