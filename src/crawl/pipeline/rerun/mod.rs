//! All pages and images of an archive through the steps of a crawl, in the order of the
//! archive.
//!
//! ```text
//!  files --walk--> exchanges --processed ahead, on all cores--> claimed and completed in order
//! ```
//!
//! An answer is processed as soon as it is read. Its task is claimed from the frontier when
//! everything before it is committed, so what is kept is the same on any number of cores.
//! (The links of a page are rated with what a strategy has learned when the page is
//! processed, which may differ by a few pages; no page is chosen by that here.) The claim may
//! bring terms of use that were not known when the processing began; then the answer is
//! processed once more.
//!
//! The place of an exchange is committed in its batch, so a run that was killed resumes after the
//! last one.
//!
//! `ahead` is the processing before the turn, `tally` what is counted and committed.

mod ahead;
mod tally;

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::time::{Duration, Instant};

pub use self::tally::ReplayTally;

use self::ahead::{About, Ahead, Begun, Job};
use self::tally::{AGAIN, ERROR, GAP, LIMIT, NO_IMAGES, NO_LINK, NOT_EMBEDDED, SITEMAP};
use super::crawl::{Crawl, CrawlError};
use super::handler::{Admission, Handler, Processor, complete};
use super::product::Product;
use super::replay::{Reply, Stored, completion};
use super::shelf::{Shelf, settles, stored};
use crate::address::PageUrl;
use crate::archive::captures::Capture;
use crate::archive::http::Response;
use crate::archive::record::Spot;
use crate::archive::walk::{Exchange, Walked, walk};
use crate::frontier::{Cells, Claim, Counts, Frontier, LedTo, Offer, State};
use crate::page::{Bucket, Outcome, Reason, Task, TaskKind, TermsHeaders};
use crate::tool_error::ToolError;

/// Exchanges per core that are processed ahead.
const AHEAD: usize = 8;
/// Nothing more is read ahead while the bodies exceed this many bytes.
const MOST_BYTES: usize = 32 << 20;
/// The maximum number of files of its host that may have to be finished before a page.
const MOST_FIRST: usize = 40;
/// How often the archive is read at most: an image may precede the page that embeds it, and a
/// missing image is replaced by another one.
const MOST_PASSES: u64 = 3;
/// The time between two flushes of the store.
const CHECKPOINT: Duration = Duration::from_secs(60);

/// How far a replay has come.
#[derive(Debug, Clone, Copy)]
pub struct ReplayStatus<'t> {
    /// What was done so far.
    pub tally: &'t ReplayTally,
    /// The counters of the job.
    pub counts: &'t Counts,
}

/// Replays an archive. `report` is called after each exchange.
///
/// # Errors
/// [`CrawlError`]; everything committed before is kept, and the replay can be resumed.
pub fn rerun(
    frontier: &mut Cells,
    shelf: &Shelf,
    handler: &mut Crawl<'_>,
    report: &mut dyn FnMut(ReplayStatus<'_>),
) -> Result<ReplayTally, CrawlError> {
    let tally = ReplayTally::of(handler.marks());
    let mut rerun = Rerun {
        processor: handler.processor(),
        wants_images: handler.reads_images(),
        frontier,
        shelf,
        handler,
        report,
        tally,
        flushed: Instant::now(),
        is_over: false,
    };
    while !rerun.tally.complete && !rerun.is_over {
        rerun.pass()?;
        if !rerun.is_over {
            rerun.tally.end_pass(MOST_PASSES);
        }
        rerun.mark();
        rerun.handler.commit(rerun.frontier)?;
    }
    rerun.handler.end(rerun.frontier)?;
    Ok(rerun.tally)
}

/// A replay and its state.
struct Rerun<'r, 'h> {
    frontier: &'r mut Cells,
    shelf: &'r Shelf,
    handler: &'r mut Crawl<'h>,
    processor: Processor<Product>,
    report: &'r mut dyn FnMut(ReplayStatus<'_>),
    tally: ReplayTally,
    wants_images: bool,
    flushed: Instant,
    /// A limit of the job has ended it.
    is_over: bool,
}

type Next = Result<Walked, ToolError>;

impl Rerun<'_, '_> {
    /// Reads the archive once, from where the last run stopped.
    fn pass(&mut self) -> Result<(), CrawlError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (sender, exchanges) = sync_channel(cores);
        let (jobs, queue) = channel::<Job>();
        let queue = Mutex::new(queue);
        let (shelf, after) = (self.shelf, self.tally.spot);
        let processor = self.processor.clone();
        std::thread::scope(|scope| {
            scope.spawn(move || read(shelf, after, &sender));
            for _ in 0..cores {
                scope.spawn(|| ahead::process(&queue, &processor));
            }
            // It drops its ends of both channels, also with an error, which ends the threads.
            self.in_order(exchanges, jobs, cores * AHEAD)
        })
    }

    fn in_order(
        &mut self,
        exchanges: Receiver<Next>,
        jobs: Sender<Job>,
        most: usize,
    ) -> Result<(), CrawlError> {
        let mut ahead: VecDeque<Ahead> = VecDeque::new();
        let (mut bytes, mut is_read) = (0_usize, false);
        loop {
            while !is_read && ahead.len() < most && bytes < MOST_BYTES {
                let next = if ahead.is_empty() {
                    exchanges.recv().map_err(|_| TryRecvError::Disconnected)
                } else {
                    exchanges.try_recv()
                };
                match next {
                    Ok(next) => match next? {
                        Walked::Gap(..) if self.tally.passes == 0 => self.tally.leave_out(GAP),
                        Walked::Gap(..) => {}
                        Walked::Exchange(exchange) => {
                            let next = self.begin(*exchange, &jobs)?;
                            bytes += next.bytes();
                            ahead.push_back(next);
                        }
                    },
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => is_read = true,
                }
            }
            let Some(next) = ahead.pop_front() else {
                return Ok(());
            };
            bytes = bytes.saturating_sub(next.bytes());
            self.take(next)?;
            if self.is_over {
                return Ok(());
            }
            let (tally, counts) = (&self.tally, self.frontier.counts());
            (self.report)(ReplayStatus { tally, counts });
            if self.flushed.elapsed() >= CHECKPOINT {
                self.handler.checkpoint(self.frontier)?;
                self.flushed = Instant::now();
            }
        }
    }

    /// Begins to process an exchange with what is known of its task.
    fn begin(&mut self, exchange: Exchange, jobs: &Sender<Job>) -> Result<Ahead, CrawlError> {
        let Exchange {
            spot,
            capture:
                Capture {
                    url,
                    date,
                    response,
                },
            about,
            read,
            ..
        } = exchange;
        let about = About(about);
        let kind = self.kind_of(&url, &about, &response)?;
        let stored = stored(&url, kind, date, response, self.shelf.caps());
        let known = self.frontier.look_up(&url, kind)?;
        let mut ahead = Ahead {
            begun: None,
            left_out: None,
            spot,
            read,
            url,
            kind,
            date,
            about,
            stored,
        };
        if !settles(kind, &ahead.stored) {
            ahead.left_out = Some(ERROR);
        } else if kind == TaskKind::Sitemap {
            ahead.left_out = Some(SITEMAP);
        } else if kind == TaskKind::Image && !self.wants_images {
            ahead.left_out = Some(NO_IMAGES);
        }
        let is_done = known.as_ref().is_some_and(|known| {
            matches!(known.state, State::Done { .. } | State::Redirected { .. })
        });
        // In a later pass only images are taken, which are queued.
        let is_due = self.tally.passes == 0
            || known
                .as_ref()
                .is_some_and(|known| known.state == State::Queued);
        if ahead.left_out.is_some() || is_done || !is_due || !is_taken(kind) {
            return Ok(ahead);
        }
        if let Stored::Body(body) = &ahead.stored {
            let mut task = bare(&ahead.url, kind);
            if let Some(known) = known {
                task.bucket = known.bucket;
            }
            ahead.about.give(&mut task, self.frontier);
            let terms = |cell: &mut Frontier| cell.terms_ahead(&ahead.url, kind, self.tally.clock);
            task.terms = self.frontier.with_only(terms)?;
            ahead.begun = ahead::begin(task, body, jobs);
        }
        Ok(ahead)
    }

    /// What an exchange was for: as its crawler noted, else by its address and its type.
    fn kind_of(
        &self,
        url: &PageUrl,
        about: &About,
        response: &Result<Response, ToolError>,
    ) -> Result<TaskKind, CrawlError> {
        if let Some(kind) = about.kind() {
            return Ok(kind);
        }
        if about.bucket().is_some() {
            return Ok(TaskKind::Page);
        }
        match url.path() {
            "/robots.txt" => return Ok(TaskKind::Robots),
            "/.well-known/tdmrep.json" => return Ok(TaskKind::Tdmrep),
            _ => {}
        }
        let media = response
            .as_ref()
            .ok()
            .and_then(|r| r.header("content-type"));
        let begin = media.and_then(|media| media.get(..6)).unwrap_or_default();
        // A redirect does not give the type of its target.
        let image = self.frontier.look_up(url, TaskKind::Image)?;
        let is_queued = image.is_some_and(|image| image.state == State::Queued);
        Ok(if begin.eq_ignore_ascii_case(b"image/") || is_queued {
            TaskKind::Image
        } else {
            TaskKind::Page
        })
    }

    /// Takes an exchange whose turn has come.
    fn take(&mut self, ahead: Ahead) -> Result<(), CrawlError> {
        self.tally.clock = self.tally.clock.max(ahead.date.unwrap_or_default());
        let now = self.tally.clock;
        while self.frontier.is_rescoping() {
            self.frontier.rescope_slice(now)?;
        }
        while self.frontier.is_rescoring() {
            self.frontier.rescore_slice(now)?;
        }
        if self.handler.admission(self.frontier, now)? == Admission::End {
            self.is_over = true;
            return Ok(());
        }
        let is_first = self.tally.passes == 0;
        let left_out = match (ahead.left_out, ahead.kind) {
            (_, TaskKind::Robots | TaskKind::Tdmrep | TaskKind::Rsl) => None,
            (Some(why), _) => Some(why.to_owned()).filter(|_| is_first),
            (None, TaskKind::Page) if !is_first => None,
            (None, TaskKind::Page) if self.frontier.pages_are_closed() => Some(LIMIT.to_owned()),
            (None, _) => return self.claim(ahead, now),
        };
        self.leave_out(&ahead, left_out.as_deref());
        Ok(())
    }

    /// Claims the task of an exchange and completes it.
    fn claim(&mut self, mut ahead: Ahead, now: u64) -> Result<(), CrawlError> {
        let is_first = self.tally.passes == 0;
        let mut begun = ahead.begun.take();
        if matches!(ahead.stored, Stored::Failed(_)) && self.has_failed(&ahead)? {
            self.leave_out(&ahead, Some(AGAIN).filter(|_| is_first));
            return Ok(());
        }
        let offer = Offer {
            url: &ahead.url,
            kind: ahead.kind,
            hops: ahead.about.hops().unwrap_or_default(),
            bucket: ahead.about.bucket().unwrap_or(Bucket::Normal),
        };
        for _ in 0..MOST_FIRST {
            let claimed = self.frontier.with_only(|cell| cell.claim(&offer, now))?;
            let left_out = match claimed {
                Claim::Task { task, .. } if task.locate => {
                    self.frontier.located(&task, None, now)?;
                    continue;
                }
                Claim::First(task) => {
                    self.finish_first(*task, now)?;
                    continue;
                }
                Claim::Task { task, led_to } => {
                    if self.finish((&ahead, begun.take()), *task, led_to, now)? {
                        return Ok(());
                    }
                    continue;
                }
                Claim::Known => Some(AGAIN).filter(|_| is_first),
                Claim::NotEmbedded => Some(NOT_EMBEDDED),
                Claim::Unwanted(reason) => Some(reason.name()).filter(|_| is_first),
            };
            self.leave_out(&ahead, left_out);
            return Ok(());
        }
        // Too many files of its host had to be finished first.
        self.leave_out(&ahead, Some(ERROR));
        Ok(())
    }

    /// Whether an earlier capture of the address was an error too.
    fn has_failed(&self, ahead: &Ahead) -> Result<bool, CrawlError> {
        let known = self.frontier.look_up(&ahead.url, ahead.kind)?;
        Ok(known.is_some_and(|known| match known.state {
            State::Dropped { reason } => !is_of_the_path(reason),
            _ => false,
        }))
    }

    /// Finishes a robots.txt or a tdmrep.json, as the archive has it.
    fn finish_first(&mut self, task: Task, now: u64) -> Result<(), CrawlError> {
        if task.locate {
            return Ok(self.frontier.located(&task, None, now)?);
        }
        let reply = self.shelf.answer(&task)?;
        let processor = &self.processor;
        let completion = completion(task, reply, Duration::ZERO, |task, body| {
            ahead::processed(processor, task, body)
        });
        complete(self.frontier, self.handler, completion, now)
    }

    /// Finishes the task of an exchange. Returns false if the task comes again after the RSL files
    /// that the page names.
    fn finish(
        &mut self,
        (ahead, begun): (&Ahead, Option<Begun>),
        mut task: Task,
        led_to: LedTo,
        now: u64,
    ) -> Result<bool, CrawlError> {
        ahead.about.give(&mut task, self.frontier);
        let reply = Reply {
            stored: ahead.stored.clone(),
            dated: ahead.about.time().or(ahead.date),
        };
        let processor = &self.processor;
        let completion = completion(task, reply, ahead.about.elapsed(), |task, body| {
            let result = begun.and_then(|begun: Begun| begun.result(task));
            result.unwrap_or_else(|| ahead::processed(processor, task, body))
        });
        if let Outcome::Retry {
            reason: Reason::RslUnknown,
            ..
        } = completion.outcome
        {
            complete(self.frontier, self.handler, completion, now)?;
            return Ok(false);
        }
        let not_led_to = match led_to {
            LedTo::Queued => None,
            LedTo::NotFollowed(reason) => Some(reason.name()).filter(|_| is_of_the_path(reason)),
            LedTo::Never => Some(NO_LINK),
        };
        if let Some(why) = not_led_to {
            let n = self.tally.not_led_to.entry(why.to_owned()).or_default();
            *n += 1;
        }
        self.tally.taken += u64::from(ahead.kind == TaskKind::Image);
        let names_rsl =
            |terms: &TermsHeaders| terms.links.iter().any(|link| link.contains("rsl+xml"));
        if matches!(&ahead.stored, Stored::Redirect { terms, .. } if names_rsl(terms)) {
            complete(self.frontier, self.handler, completion, now)?;
            let known = self.frontier.look_up(&ahead.url, ahead.kind)?;
            if known.is_some_and(|known| known.state == State::Queued) {
                // Its headers name an RSL file.
                return Ok(false);
            }
            self.pass_by(ahead);
        } else {
            self.pass_by(ahead);
            complete(self.frontier, self.handler, completion, now)?;
        }
        Ok(true)
    }

    fn leave_out(&mut self, ahead: &Ahead, why: Option<&str>) {
        if let Some(why) = why {
            self.tally.leave_out(why);
        }
        self.pass_by(ahead);
    }

    /// Notes that an exchange had its turn; the next commit includes it.
    fn pass_by(&mut self, ahead: &Ahead) {
        self.tally.exchanges += u64::from(self.tally.passes == 0);
        (self.tally.spot, self.tally.read) = (Some(ahead.spot), ahead.read);
        self.mark();
    }

    fn mark(&mut self) {
        for (name, number) in self.tally.marks() {
            self.handler.mark(&name, number);
        }
    }
}

/// The thread that reads the files.
fn read(shelf: &Shelf, after: Option<Spot>, to: &SyncSender<Next>) {
    let cap = shelf.caps().longest();
    let mut each = |walked| to.send(Ok(walked)).is_ok();
    if let Err(error) = walk(shelf.captures(), after, cap, &mut each) {
        // The other end may have stopped already.
        to.send(Err(error)).ok();
    }
}

/// Whether this is a reason for not following a link, rather than for not reading its page.
fn is_of_the_path(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Razor | Reason::Hops | Reason::Scope | Reason::Trap
    )
}

/// Whether exchanges of this kind are taken on their own.
fn is_taken(kind: TaskKind) -> bool {
    matches!(kind, TaskKind::Page | TaskKind::Image)
}

/// A task with only its address.
fn bare(url: &PageUrl, kind: TaskKind) -> Task {
    Task {
        lease: 0,
        locate: false,
        kind,
        host: url.host_key(),
        url: url.clone(),
        via: None,
        hops: 0,
        redirects: 0,
        attempts: 0,
        bucket: Bucket::Normal,
        score: 0.0,
        parts: None,
        validators: Default::default(),
        terms: Default::default(),
        booking: Default::default(),
        control: false,
    }
}
