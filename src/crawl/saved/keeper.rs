//! The thread that keeps the checkpoint of a running crawl up to date.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::SaveError;
use super::session::{Saved, Session};
use crate::clock::now;
use crate::frontier::Cells;
use crate::frontier::store::Readable;
use crate::frontier::store::changes::Changes;
use crate::settings::JobSettings;

/// A promise to a host is sent before the next checkpoint is due, after this fraction of the
/// interval.
const SOON: u32 = 12;
/// The pause between two checks of what the thread needs.
const LOOK: Duration = Duration::from_millis(20);

/// How far the checkpoint of a running crawl is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckpointStatus {
    /// The store.
    pub store: String,
    /// When the last checkpoint of this run was made, in milliseconds since 1970.
    pub saved: Option<u64>,
    /// When this run began.
    pub begun: u64,
    /// The frontier's commit in the last checkpoint, possibly of an earlier run.
    pub commits: u64,
    /// Its number in a session of a cluster; 0 for none.
    pub number: u64,
    /// Checkpoints made in this run.
    pub count: u64,
    /// Bytes that this run has sent.
    pub bytes: u64,
    /// Why the last attempt failed, if it did.
    pub error: Option<String>,
}

impl CheckpointStatus {
    /// The age of the last checkpoint; if there is none, the time since this run began.
    pub fn age(&self, now: u64) -> Duration {
        let since = self.saved.unwrap_or(self.begun);
        Duration::from_millis(now.saturating_sub(since))
    }
}

#[derive(Default)]
struct KeeperState {
    standing: CheckpointStatus,
    /// The thread needs the whole frontier and waits for the crawl to provide it.
    wants_view: bool,
    view: Option<Box<dyn Readable>>,
    /// Someone waits for a checkpoint.
    is_hurried: bool,
    is_ending: bool,
    has_ended: bool,
    /// Why the crawl has to stop.
    overtaken: Option<SaveError>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<KeeperState>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, KeeperState> {
        // Values are replaced as a whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The checkpoint of a running crawl. Dropping it abandons an upload in progress.
pub struct Keeper {
    shared: Arc<Shared>,
    changes: Arc<Changes>,
    thread: Option<JoinHandle<()>>,
    /// How long the last checkpoint may take.
    patience: Duration,
}

impl Keeper {
    /// Starts the thread. `flush` makes the crawl flush its commits, and returns after that. `stop`
    /// is called once: when another process has taken the job over, or when the session is over or
    /// cannot continue in this folder.
    ///
    /// # Errors
    /// [`SaveError::Refused`] if the checkpoint is ahead of the frontier.
    pub fn begin(
        session: Session,
        changes: Arc<Changes>,
        config: &JobSettings,
        flush: impl Fn() + Send + 'static,
        stop: impl Fn() + Send + 'static,
    ) -> Result<Self, SaveError> {
        session.check(changes.last())?;
        let shared = Arc::new(Shared::default());
        let last = session.last.as_ref();
        let saved = last.map(|manifest| manifest.saved);
        shared.state().standing = CheckpointStatus {
            store: session.objects.address().to_owned(),
            saved: saved.filter(|saved| *saved > 0),
            commits: last.map_or(0, |manifest| manifest.commits),
            number: last.map_or(0, |manifest| manifest.number),
            begun: now(),
            ..CheckpointStatus::default()
        };
        let keeping = KeeperThread {
            session,
            changes: Arc::clone(&changes),
            shared: Arc::clone(&shared),
            every: config.checkpoint.every,
            flush: Box::new(flush),
            stop: Box::new(stop),
        };
        let thread = std::thread::Builder::new().name("checkpoint".to_owned());
        let thread = match thread.spawn(move || keeping.run()) {
            Ok(thread) => Some(thread),
            Err(error) => {
                tracing::warn!(%error, "no thread could be started for checkpoints, so none are \
                                        made");
                None
            }
        };
        Ok(Self {
            shared,
            changes,
            thread,
            patience: config.checkpoint.drain,
        })
    }

    /// Call this between two rounds of the crawl: it gives the thread the whole frontier if needed.
    pub fn round(&self, frontier: &Cells) {
        let mut state = self.shared.state();
        if !state.wants_view {
            return;
        }
        state.wants_view = false;
        if let Err(error) = self.changes.begin() {
            tracing::warn!(%error, "the changes since the last checkpoint cannot be kept");
        }
        state.view = Some(frontier.snapshot());
        self.shared.changed.notify_all();
    }

    /// Asks for a checkpoint at once. Returns the number of the last commit: work done so far is in
    /// a checkpoint once [`CheckpointStatus::commits`] has reached it.
    pub fn hurry(&self) -> u64 {
        let last = self.changes.last();
        self.shared.state().is_hurried = true;
        self.changes.wake();
        last
    }

    /// The state of the checkpoint.
    pub fn standing(&self) -> CheckpointStatus {
        self.shared.state().standing.clone()
    }

    /// The last committed checkpoint of a session: its number, and the store's last batch in it.
    pub fn last(&self) -> Option<(u64, u64)> {
        let standing = self.standing();
        (standing.number > 0).then_some((standing.number, standing.commits))
    }

    /// Reads the state, also from other threads.
    pub fn reader(&self) -> impl Fn() -> CheckpointStatus + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.state().standing.clone()
    }

    /// Makes the last checkpoint, and waits for it up to a time limit.
    ///
    /// # Errors
    /// [`SaveError::Overtaken`] if another process has taken the job over, [`SaveError::Over`] if
    /// the session is over or cannot continue in this folder.
    pub fn end(mut self, frontier: &Cells) -> Result<(), SaveError> {
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        self.shared.state().is_ending = true;
        self.changes.wake();
        let begun = Instant::now();
        loop {
            self.round(frontier);
            let state = self.shared.state();
            if state.has_ended || begun.elapsed() >= self.patience {
                break;
            }
            drop(self.shared.changed.wait_timeout(state, LOOK));
        }
        let mut state = self.shared.state();
        if let Some(error) = state.overtaken.take() {
            return Err(error);
        }
        if !state.has_ended || state.standing.error.is_some() {
            let error = state.standing.error.clone();
            tracing::warn!(
                "{}: the last checkpoint could not be made ({}); it is made when the job is run \
                 again, or by `spoor checkpoint save JOB.toml`",
                state.standing.store,
                error.as_deref().unwrap_or("it takes too long")
            );
        }
        let has_ended = state.has_ended;
        state.view = None;
        drop(state);
        if has_ended {
            // A panic in it was already printed.
            thread.join().ok();
        }
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        // A view keeps the store's folder locked.
        state.view = None;
        state.is_ending = true;
        state.has_ended = true;
        drop(state);
        self.changes.wake();
    }
}

/// The state of the thread.
struct KeeperThread {
    session: Session,
    changes: Arc<Changes>,
    shared: Arc<Shared>,
    every: Duration,
    flush: Box<dyn Fn() + Send>,
    stop: Box<dyn Fn() + Send>,
}

impl KeeperThread {
    fn run(mut self) {
        let mut last = Instant::now();
        // The first checkpoint comes early, so that a new store is not empty for a whole interval.
        let soon = self.every / SOON;
        let mut due = soon;
        loop {
            let left = due.saturating_sub(last.elapsed());
            let mut urgent = false;
            if !left.is_zero() {
                urgent = self.changes.wait_for_promise(left);
                let soon = soon.saturating_sub(last.elapsed());
                if urgent && !soon.is_zero() {
                    self.pause(soon);
                }
            }
            let is_hurried = std::mem::take(&mut self.shared.state().is_hurried);
            let is_ending = self.shared.state().is_ending;
            last = Instant::now();
            due = self.every;
            if (!urgent || is_hurried) && !is_ending {
                // Only flushed commits are sent.
                (self.flush)();
            }
            let done = self.attempt(is_ending);
            self.note_last();
            let is_over = done.as_ref().is_err_and(SaveError::is_final);
            if is_ending || is_over {
                return self.finish(done);
            }
            if let Err(error) = done {
                self.failed(&error);
                if is_hurried {
                    // The request still stands.
                    self.shared.state().is_hurried = true;
                    due = soon;
                }
            }
        }
    }

    /// Records the last committed checkpoint, even if something failed after it.
    fn note_last(&self) {
        if let Some(last) = &self.session.last {
            let mut state = self.shared.state();
            state.standing.commits = last.commits;
            state.standing.number = last.number;
        }
    }

    /// Whether anyone waits for the next checkpoint.
    fn is_awaited(&self) -> bool {
        let state = self.shared.state();
        state.is_ending || state.is_hurried
    }

    /// Waits, unless anyone waits for the checkpoint.
    fn pause(&self, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time && !self.is_awaited() {
            std::thread::sleep(LOOK.min(time.saturating_sub(begun.elapsed())));
        }
    }

    fn attempt(&mut self, is_ending: bool) -> Result<(), SaveError> {
        let begun = now();
        self.session.begin()?;
        self.session.check(self.changes.last())?;
        let until = self.changes.flushed();
        if self.session.save(&self.changes, until)? == Saved::NeedsBase {
            let Some(view) = self.view() else {
                return Ok(());
            };
            let (changes, flush) = (&self.changes, &self.flush);
            self.session.base(view, |commit| {
                if changes.flushed() < commit {
                    flush();
                }
            })?;
        }
        if is_ending {
            self.session.beat(true)?;
        }
        let manifest = self.session.manifest()?;
        self.changes.forget(manifest.commits)?;
        let mut state = self.shared.state();
        let standing = &mut state.standing;
        if standing.error.take().is_some() {
            tracing::info!("{}: checkpoints are made again", standing.store);
        }
        // The time at which nothing was missing, not the time at which it was sent.
        standing.saved = Some(begun);
        standing.count += 1;
        standing.bytes = self.session.sent;
        Ok(())
    }

    /// The whole frontier, as soon as the crawl provides it; `None` if the crawl ends first.
    fn view(&self) -> Option<Box<dyn Readable>> {
        let mut state = self.shared.state();
        state.wants_view = true;
        while state.view.is_none() {
            if state.has_ended {
                return None;
            }
            let waited = self.shared.changed.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.view.take()
    }

    fn failed(&self, error: &SaveError) {
        let text = error.to_string();
        let mut state = self.shared.state();
        if state.standing.error.as_ref() != Some(&text) {
            tracing::warn!("no checkpoint: {text}; the crawl continues and tries again");
        }
        state.standing.error = Some(text);
    }

    fn finish(self, done: Result<(), SaveError>) {
        let mut state = self.shared.state();
        match done {
            Err(error) if error.is_final() => {
                tracing::error!("{error}");
                state.overtaken = Some(error);
                (self.stop)();
            }
            Err(error) => state.standing.error = Some(error.to_string()),
            Ok(()) => {
                let CheckpointStatus { count, bytes, .. } = state.standing;
                tracing::info!(count, bytes, "the last checkpoint is made");
            }
        }
        state.has_ended = true;
        self.shared.changed.notify_all();
    }
}
