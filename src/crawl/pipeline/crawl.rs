//! The handler of a real crawl: writes the outputs, lets the frontier commit, and keeps the
//! limits of the job.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::companion::{Allowance, Companion, Course};
use super::completion::Completion;
use super::handler::{Admission, Handler, Processor};
use super::log_row;
use super::options::Limits;
use super::passes::PassGate;
use super::product::Product;
use super::reading::Reading;
use super::refusal::{refuse_bytes, refuse_type, refuse_without_context};
use super::write::{KnownImage, Places, apply, archive, write};
use crate::archive::writer::Compression;
use crate::clock::{millis, now, timestamp};
use crate::frontier::store::StoreError;
use crate::frontier::{
    Cells, Effects, Finished, OutputEdit, Outside, RobotsAnswer, Settled, Written,
};
use crate::metrics::{self, Metrics};
use crate::outputs::{OutputError, Outputs, Row};
use crate::page::{Task, TaskKind, Validators};
use crate::tool_error::ToolError;

/// The maximum number of sitemap addresses added in one round: 50,000 at once stop the whole crawl
/// for seconds on a slow disk.
const MAX_LISTED_AT_ONCE: usize = 2_000;

/// The minimum time that open requests have to finish after `limits.time`.
const LEAST_GRACE: Duration = Duration::from_secs(1);

/// Why a crawl cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum CrawlError {
    /// The frontier's store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An output failed.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The archive that is replayed cannot be read.
    #[error(transparent)]
    Archive(#[from] ToolError),
    /// The companion failed.
    #[error(transparent)]
    Beside(Box<dyn std::error::Error + Send + Sync>),
}

/// Why a crawl ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// A limit of the job, by its key.
    Limit(&'static str),
    /// Nothing is left that may be requested now.
    Exhausted,
    /// It was stopped.
    Stopped,
}

/// Handles the tasks of a crawl.
pub struct Crawl<'a> {
    reading: Reading,
    metrics: Metrics,
    outputs: Outputs,
    limits: Limits,
    reached: Option<&'static str>,
    /// Sitemaps whose addresses are only partly added.
    incomplete: Vec<Completion<Product>>,
    progress: &'a mut dyn FnMut(&Cells, Option<&Row<'_>>),
    companion: Option<&'a mut dyn Companion>,
    /// What the companion said last; without one, this never changes.
    course: Course,
}

impl<'a> Crawl<'a> {
    /// Makes the handler. It calls `progress` with the row of every finished task, and after every
    /// round.
    pub fn new(
        reading: impl Into<Reading>,
        outputs: Outputs,
        limits: Limits,
        progress: &'a mut dyn FnMut(&Cells, Option<&Row<'_>>),
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
            companion: None,
            course: Course::Crawl,
        }
    }

    /// Adds a companion, if there is one. Nothing is leased before its first turn.
    pub fn beside(self, companion: Option<&'a mut dyn Companion>) -> Self {
        let course = match companion {
            Some(_) => Course::Rest,
            None => Course::Crawl,
        };
        Self {
            companion,
            course,
            ..self
        }
    }

    /// Gives the companion a turn; may also be called outside a run.
    ///
    /// # Errors
    /// The companion's error.
    pub fn turn(&mut self, frontier: &mut Cells, now: u64) -> Result<(), CrawlError> {
        if let Some(companion) = &mut self.companion {
            self.course = companion.turn(frontier, now, &mut Own(&mut self.outputs, now))?;
        }
        Ok(())
    }

    /// Hands over what other machines can continue, for at most `patience`, and calls `pause`
    /// between two turns. Returns whether the handover is complete; true without a companion.
    ///
    /// # Errors
    /// The error of the companion, the outputs or the store.
    pub fn leave(
        &mut self,
        frontier: &mut Cells,
        patience: Duration,
        pause: &mut dyn FnMut(),
    ) -> Result<bool, CrawlError> {
        let Some(companion) = &mut self.companion else {
            return Ok(true);
        };
        companion.leave();
        let begun = now();
        while now().saturating_sub(begun) < millis(patience) {
            self.deliver(frontier, now())?;
            self.turn(frontier, now())?;
            if self.companion.as_ref().is_none_or(|c| c.has_left()) {
                return Ok(true);
            }
            pause();
        }
        self.checkpoint(frontier)?;
        Ok(false)
    }

    /// The limit that ended the crawl, if one did.
    pub fn limit_reached(&self) -> Option<&'static str> {
        self.reached
    }

    /// A number that is committed with the outputs ([`Outputs::mark`]).
    pub(super) fn mark(&mut self, name: &str, value: u64) {
        self.outputs.mark(name, value);
    }

    /// Whether the job keeps images.
    pub(super) fn reads_images(&self) -> bool {
        self.reading.now().images.enabled
    }

    /// All numbers that are committed with the outputs.
    pub(super) fn marks(&self) -> &BTreeMap<String, u64> {
        self.outputs.marks()
    }

    /// Commits the present lengths and numbers of the outputs without a task.
    pub(super) fn commit(&self, frontier: &mut Cells) -> Result<(), CrawlError> {
        self.outputs.sync()?;
        Ok(frontier.set_stamp(self.outputs.stamp())?)
    }

    /// Adds what pages of one cell found for another cell.
    fn deliver(&mut self, frontier: &mut Cells, now: u64) -> Result<(), CrawlError> {
        let outputs = &mut self.outputs;
        frontier.deliver(now, &mut |edits| amend(outputs, edits, now))
    }

    /// The limit that ends the crawl at once, if one is reached.
    fn hard_limit(
        &self,
        frontier: &Cells,
        shared: Option<&Allowance>,
        now: u64,
    ) -> Option<&'static str> {
        if let Some(shared) = shared {
            let passed = now.saturating_sub(shared.first_begun);
            let is_over = is_reached(self.limits.time.map(millis), passed);
            return (shared.first_begun > 0 && is_over).then_some("limits.time");
        }
        if is_reached(self.limits.bytes, frontier.counts().bytes) {
            Some("limits.bytes")
        } else if is_reached(self.limits.time.map(millis), frontier.active()) {
            Some("limits.time")
        } else {
            None
        }
    }

    /// How many pages may still be requested; `None` means no limit.
    fn pages_left(&self, frontier: &Cells) -> Option<u64> {
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

    /// Finishes a file with the rules of a host.
    fn complete_host_file(
        &mut self,
        frontier: &mut Cells,
        mut completion: Completion<Product>,
        now: u64,
    ) -> Result<(), CrawlError> {
        let time = timestamp(completion.dated.unwrap_or(now));
        let exchange = completion.exchange.take();
        let body = match &completion.product {
            Some(Product::Robots(body) | Product::TermsFile(body)) => Some(body.clone()),
            _ => None,
        };
        let Self {
            outputs, progress, ..
        } = self;
        let mut logged = None;
        let places = OnceCell::new();
        let write = |settled: &Settled| {
            let mut own = Places::default();
            archive(outputs, exchange, &completion, &mut own, None, now)?;
            let mut row = log_row::of_host_file(&completion, &time, settled);
            row.archive = places.get_or_init(|| own).archive.as_ref();
            log(outputs, &row, &completion)?;
            logged = Some(row);
            Ok::<_, CrawlError>(outputs.stamp())
        };
        let Completion {
            task,
            outcome,
            elapsed,
            ..
        } = &completion;
        if task.kind != TaskKind::Robots {
            frontier.of_task(task, |cell| {
                cell.finish_terms_file(task, outcome, body, *elapsed, now, write)
            })?;
        } else {
            let answer = RobotsAnswer::of(outcome, body);
            frontier.of_task(task, |cell| {
                cell.finish_robots(task, answer, *elapsed, now, write)
            })?;
        }
        if let Some(row) = &logged {
            count(&self.metrics, row, *elapsed);
        }
        progress(frontier, logged.as_ref());
        Ok(())
    }

    /// Finishes a page, an image or a sitemap.
    fn complete_task(
        &mut self,
        frontier: &mut Cells,
        mut completion: Completion<Product>,
        now: u64,
    ) -> Result<(), CrawlError> {
        if let Some(part) = part_of_sitemap(&mut completion) {
            let task = &completion.task;
            frontier.of_task(task, |cell| cell.add_listed(task, part, now))?;
            self.incomplete.push(completion);
            return Ok(());
        }
        // It may be refused, which discards the product.
        let page_permits = match &completion.product {
            Some(Product::Page(page)) => page.may_archive,
            _ => true,
        };
        refuse_type(frontier, &mut completion);
        refuse_bytes(frontier, &mut completion);
        let time = timestamp(completion.dated.unwrap_or(now));
        let contexts = match &completion.product {
            Some(Product::Image { .. }) => {
                let url = &completion.task.url;
                frontier.of_host(&url.host_key())?.contexts(url)?
            }
            _ => Vec::new(),
        };
        refuse_without_context(&mut completion, &contexts);
        let (on_way, reread) = self.reading.now().heed(&mut completion);
        let effects = Effects {
            on_way,
            reread,
            ..take_effects(&mut completion)
        };
        let earlier = match &completion.product {
            Some(Product::Image { info, .. }) => frontier.kept_file(&info.sha256)?,
            _ => None,
        };
        let exchange = completion.exchange.take();
        let reader = self.reading.now();
        let exchange =
            exchange.filter(|own| page_permits && reader.may_archive(&completion, &own.terms()));
        let stored = match exchange.as_ref().and_then(|exchange| exchange.key()) {
            Some(digest) => frontier.stored_body(&digest)?,
            None => None,
        };
        let Self {
            outputs, progress, ..
        } = self;
        let mut places = Places::default();
        let task = &completion.task;
        let outcome = completion.outcome.clone();
        let write = |finished: &Finished| {
            let image = KnownImage {
                contexts,
                earlier: earlier.as_deref(),
            };
            let first_of;
            (places, first_of) = write(outputs, &completion, image, &time, finished)?;
            let stored = stored.as_deref();
            archive(outputs, exchange, &completion, &mut places, stored, now)?;
            let row = log_row::of_task(&completion, &time, finished, &places);
            log(outputs, &row, &completion)?;
            Ok::<_, CrawlError>(Written {
                stamp: outputs.stamp(),
                note: places.note.clone(),
                first_of,
                body: places.body.take(),
            })
        };
        let finished = frontier.of_task(task, |cell| {
            cell.finish(task, outcome, effects, completion.elapsed, now, write)
        })?;
        let row = log_row::of_task(&completion, &time, &finished, &places);
        count(&self.metrics, &row, completion.elapsed);
        progress(frontier, Some(&row));
        Ok(())
    }
}

impl Handler for Crawl<'_> {
    type Product = Product;
    type Error = CrawlError;

    fn processor(&self) -> Processor<Product> {
        let reading = self.reading.clone();
        Arc::new(move |task: &Task, fetched| reading.now().begin(task, fetched))
    }

    fn compression(&self) -> Compression {
        self.outputs.compression()
    }

    fn admission(&mut self, frontier: &mut Cells, now: u64) -> Result<Admission, CrawlError> {
        // A lease that drops an image may move its words to another cell.
        self.deliver(frontier, now)?;
        let companion = self.companion.as_mut();
        let shared = companion.map(|companion| companion.allowance(frontier, &self.limits));
        let shared_reached = shared.and_then(|shared| shared.reached);
        match self.course {
            Course::Crawl => {}
            Course::Rest => return Ok(Admission::Rest),
            Course::End => {
                self.reached = self.reached.or(shared_reached);
                return Ok(Admission::End);
            }
        }
        if let Some(limit) = self.hard_limit(frontier, shared.as_ref(), now) {
            self.reached = Some(limit);
            return Ok(Admission::End);
        }
        if shared.is_some_and(|shared| shared.bytes == 0) {
            self.reached = shared_reached;
            return Ok(Admission::Rest);
        }
        let own = || self.pages_left(frontier).unwrap_or(u64::MAX);
        let left = shared.map_or_else(own, |shared| shared.pages);
        let is_spent = left == 0 && (shared.is_none() || shared_reached.is_some());
        // The leased pages may use up the rest, so they must finish first. In a cluster, other
        // machines may release some of their share.
        frontier.hold_pages(!is_spent && left <= frontier.leased_pages() as u64);
        if left > frontier.leased_pages() as u64 {
            // The limit that had closed them may have been raised.
            frontier.open_pages(now)?;
            self.reached = None;
            return Ok(Admission::Lease);
        }
        if !is_spent {
            return Ok(Admission::Images);
        }
        let documents = frontier.counts().documents;
        let own = if is_reached(self.limits.documents, documents) {
            "limits.documents"
        } else {
            "limits.fetches"
        };
        self.reached = Some(shared_reached.unwrap_or(own));
        if !self.limits.finish_images {
            // All machines end together.
            let waits = shared.is_some();
            return Ok(if waits {
                Admission::Rest
            } else {
                Admission::End
            });
        }
        frontier.close_pages(now)?;
        Ok(Admission::Lease)
    }

    fn complete(
        &mut self,
        frontier: &mut Cells,
        mut completion: Completion<Product>,
        now: u64,
    ) -> Result<(), CrawlError> {
        // Read before the outcome of the task changes it for the tasks that follow.
        let host = &completion.task.host;
        let of_host = frontier.of_host(host).ok();
        completion.delay = of_host.and_then(|cell| cell.delay(host));
        let metrics = self.metrics.clone();
        metrics.store(|| match completion.task.kind {
            TaskKind::Robots | TaskKind::Tdmrep | TaskKind::Rsl => {
                self.complete_host_file(frontier, completion, now)
            }
            TaskKind::Page | TaskKind::Image | TaskKind::Sitemap => {
                self.complete_task(frontier, completion, now)?;
                self.deliver(frontier, now)
            }
        })
    }

    fn checkpoint(&mut self, frontier: &mut Cells) -> Result<(), CrawlError> {
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

    fn end(&mut self, frontier: &mut Cells) -> Result<(), CrawlError> {
        if let Some(pdf) = &self.reading.now().pdf {
            pdf.close();
        }
        self.outputs.fold()?;
        self.checkpoint(frontier)?;
        Ok(self.outputs.complete()?)
    }

    fn incomplete(&mut self) -> Option<Completion<Product>> {
        self.incomplete.pop()
    }

    fn round(&mut self, frontier: &mut Cells, now: u64) -> Result<(), CrawlError> {
        self.turn(frontier, now)?;
        (self.progress)(frontier, None);
        Ok(())
    }

    fn may_grow(&self) -> bool {
        self.companion.is_some()
    }

    fn gate(&self) -> Option<Arc<dyn PassGate>> {
        self.companion.as_ref()?.gate()
    }

    fn forbidden(&mut self) {
        if let Some(companion) = &mut self.companion {
            companion.forbidden();
            self.course = Course::Rest;
        }
    }

    /// After `limits.time`, open requests have a tenth of that time to finish.
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

/// The outputs, as a companion sees them, and the time.
struct Own<'o>(&'o mut Outputs, u64);

impl Outside<CrawlError> for Own<'_> {
    fn amend(&mut self, edits: &[OutputEdit]) -> Result<Vec<u8>, CrawlError> {
        amend(self.0, edits, self.1)
    }

    fn sync(&mut self) -> Result<(), CrawlError> {
        Ok(self.0.sync()?)
    }
}

/// Changes outputs; returns their new stamp.
fn amend(outputs: &mut Outputs, edits: &[OutputEdit], now: u64) -> Result<Vec<u8>, CrawlError> {
    let time = timestamp(now);
    for edit in edits {
        apply(outputs, edit, &time)?;
    }
    Ok(outputs.stamp())
}

fn is_reached(limit: Option<u64>, value: u64) -> bool {
    limit.is_some_and(|limit| value >= limit)
}

/// The next part of a long sitemap; `None` if the rest is short enough to be finished.
fn part_of_sitemap(completion: &mut Completion<Product>) -> Option<Effects> {
    let Some(Product::Sitemap(sitemap)) = &mut completion.product else {
        return None;
    };
    if sitemap.pages.len().max(sitemap.sitemaps.len()) <= MAX_LISTED_AT_ONCE {
        return None;
    }
    Some(Effects {
        links: take_some(&mut sitemap.pages),
        sitemaps: take_some(&mut sitemap.sitemaps),
        ..Effects::default()
    })
}

/// Takes the first entries of a list, as many as are added at once.
fn take_some<T>(list: &mut Vec<T>) -> Vec<T> {
    let n = list.len().min(MAX_LISTED_AT_ONCE);
    list.drain(..n).collect()
}

/// Takes what the frontier stores from a completion, and completes its error message.
fn take_effects(completion: &mut Completion<Product>) -> Effects {
    let mut effects = Effects {
        bytes: completion.bytes,
        validators: std::mem::take(&mut completion.validators),
        ..Effects::default()
    };
    match &mut completion.product {
        Some(Product::Page(page)) => {
            page.give(&mut effects);
            if !page.forbidden.is_empty() || page.lifts {
                // It is read as a whole at the next visit, which may permit more.
                effects.validators = Validators::default();
            }
        }
        Some(Product::Sitemap(sitemap)) => {
            effects.links = std::mem::take(&mut sitemap.pages);
            effects.sitemaps = std::mem::take(&mut sitemap.sitemaps);
            completion.error = sitemap.trouble.take();
        }
        Some(Product::UnknownRsl { files }) => effects.unknown_rsl = std::mem::take(files),
        Some(Product::Refused { why }) => completion.error = Some(std::mem::take(why)),
        Some(Product::Forbidden { by, .. }) => {
            completion.error = Some(format!("forbidden by {}", by.join(", ")));
        }
        _ => {}
    }
    effects
}

/// Writes a row. If the host backs off, the frontier flushes its store, and the outputs must
/// be on the disk before that.
fn log(
    outputs: &mut Outputs,
    row: &Row<'_>,
    completion: &Completion<Product>,
) -> Result<(), OutputError> {
    outputs.log(row)?;
    if completion.host_backs_off() {
        outputs.sync()?;
    }
    Ok(())
}

fn count(metrics: &Metrics, row: &Row<'_>, elapsed: Duration) {
    metrics.finished(metrics::FinishedTask {
        kind: row.kind.name(),
        outcome: row.outcome,
        reason: row.reason.unwrap_or_default(),
        bytes: row.bytes,
        elapsed,
    });
    if row.document.is_some() {
        metrics.page_in(row.recognised);
        metrics.parsed(row.fallback);
    }
}
