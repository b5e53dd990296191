//! A crawl of a few given pages that follows no link: for training, and for a look at one
//! page.
//!
//! Frontier, robots rules, host clocks, retries, redirects and address guard are those of a
//! real crawl. The operator chose the pages, so no scope rule applies, and they are
//! requested under exactly the given addresses. The frontier is in memory: a crawl that is
//! stopped begins again.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::address::{HostKey, PageUrl};
use crate::clock::now;
use crate::fetch::Fetcher;
use crate::frontier::store::{MemoryStore, StoreError};
use crate::frontier::{Cells, Effects, Policy, RobotsAnswer, Settled, State, Written};
use crate::page::{Fetched, Outcome, Reason, Task, TaskKind};
use crate::pipeline::{
    Admission, Completion, Control, Handler, LoopOptions, Processor, USUAL_WAIT, Work, drive,
};
use crate::settings::{JobSettings, Scope as ScopeSettings};
use crate::web::scope::Scope;

/// More redirects than any chain that the frontier follows, and a bound for cycles.
const MOST_REDIRECTS: usize = 32;

/// The result of reading a body.
pub enum FewProduct<P> {
    /// What is wanted of a page.
    Page(P),
    /// Why it cannot be used.
    Failure(String),
    /// A robots.txt.
    Robots(bytes::Bytes),
}

/// The pages, by the requested address.
#[derive(Debug)]
pub struct FewPages<P> {
    read: HashMap<PageUrl, P>,
    redirects: HashMap<PageUrl, PageUrl>,
    missing: HashMap<PageUrl, String>,
}

impl<P> FewPages<P> {
    /// The page requested as `url`, with its address after redirects, or why it could not be
    /// fetched, in words.
    ///
    /// # Errors
    /// The reason.
    pub fn page(&self, url: &PageUrl) -> Result<(&PageUrl, &P), &str> {
        let mut at = url;
        for _ in 0..MOST_REDIRECTS {
            if let Some(page) = self.read.get_key_value(at) {
                return Ok(page);
            }
            let Some(to) = self.redirects.get(at) else {
                break;
            };
            at = to;
        }
        Err(self
            .missing
            .get(url)
            .map_or("it was not requested", |why| why))
    }
}

/// Fetches all of `urls`, and passes each body to `read`.
///
/// # Errors
/// [`StoreError`] if the frontier fails.
pub fn fetch<P: Send + 'static>(
    config: &JobSettings,
    runtime: &Handle,
    fetcher: &Fetcher,
    urls: &[PageUrl],
    read: impl Fn(&Task, Fetched) -> Work<FewProduct<P>> + Send + Sync + 'static,
) -> Result<FewPages<P>, StoreError> {
    let folder = MarksFolder::create()?;
    let store = Box::new(MemoryStore::new(&folder.0));
    let policy = Policy::new(&config.politeness, &config.network);
    let scope = Scope::new(ScopeSettings {
        drop_parameters: Vec::new(),
        reject_files: Vec::new(),
        ..ScopeSettings::default()
    });
    let mut frontier = Cells::alone(store, policy, scope, now())?;
    frontier.add_seeds(urls, now())?;
    let mut handler = FewHandler {
        read: Arc::new(read),
        pages: FewPages {
            read: HashMap::new(),
            redirects: HashMap::new(),
            missing: HashMap::new(),
        },
        failures: HashMap::new(),
        delays: HashMap::new(),
    };
    let options = LoopOptions {
        concurrency: config.network.concurrency,
        max_bytes: u64::MAX,
        checkpoint: Duration::from_secs(60),
        drain: Duration::from_secs(60),
        longest_wait: USUAL_WAIT,
    };
    let control = Control::default();
    drive(
        runtime,
        &mut frontier,
        fetcher,
        &options,
        control,
        &mut handler,
    )?;
    for url in urls {
        if handler.pages.page(url).is_err() {
            let why = handler.why(&frontier, url)?;
            handler.pages.missing.insert(url.clone(), why);
        }
    }
    Ok(handler.pages)
}

/// A temporary folder for the small files that a frontier keeps beside its store.
struct MarksFolder(PathBuf);

impl MarksFolder {
    fn create() -> Result<Self, StoreError> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("spoor-pages-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Of a process that was killed.
        std::fs::remove_dir_all(&path).ok();
        match std::fs::create_dir(&path) {
            Ok(()) => Ok(Self(path)),
            Err(error) => Err(StoreError::Io {
                path,
                why: error.to_string(),
            }),
        }
    }
}

impl Drop for MarksFolder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

struct FewHandler<P> {
    read: Processor<FewProduct<P>>,
    pages: FewPages<P>,
    failures: HashMap<PageUrl, String>,
    /// Why a host last had to be tried again.
    delays: HashMap<HostKey, String>,
}

impl<P> FewHandler<P> {
    /// Notes a delay, and reports it to the operator, who waits for the pages.
    fn note(&mut self, task: &Task, settled: &Settled, is_private: bool, error: Option<&str>) {
        let Settled::Retrying { reason, due } = settled else {
            return;
        };
        let error = error.unwrap_or(reason.name());
        let wait = Duration::from_millis(due.saturating_sub(now()));
        // A page that is not waited for is reported at the end.
        if wait <= USUAL_WAIT {
            let seconds = wait.as_millis().div_ceil(1000);
            tracing::warn!("{}: {error}; tried again in {seconds} s", task.url);
        }
        let advice = if is_private {
            " (network.allow_private = true permits it)"
        } else {
            ""
        };
        let host = task.url.host_key();
        self.delays.insert(host, format!("{error}{advice}"));
    }

    /// Why a page is missing, in words.
    fn why(&self, frontier: &Cells, url: &PageUrl) -> Result<String, StoreError> {
        let mut at = url;
        for _ in 0..MOST_REDIRECTS {
            let Some(to) = self.pages.redirects.get(at) else {
                break;
            };
            at = to;
        }
        let state = frontier.look_up(at, TaskKind::Page)?.map(|r| r.state);
        let why = match (self.failures.get(at), state) {
            (Some(why), _) => why.clone(),
            (None, Some(State::Dropped { reason })) => reason.name().to_owned(),
            _ => match self.delays.get(&at.host_key()) {
                Some(why) => format!("its host does not answer: {why}"),
                None => "its host does not answer".to_owned(),
            },
        };
        Ok(if at == url {
            why
        } else {
            format!("redirected to {at}, which could not be fetched: {why}")
        })
    }
}

impl<P: Send + 'static> Handler for FewHandler<P> {
    type Product = FewProduct<P>;
    type Error = StoreError;

    fn processor(&self) -> Processor<FewProduct<P>> {
        let read = Arc::clone(&self.read);
        Arc::new(move |task: &Task, fetched| match task.kind {
            TaskKind::Robots => Work::Done(Outcome::Done, Some(FewProduct::Robots(fetched.body))),
            _ => read(task, fetched),
        })
    }

    fn admission(&mut self, _: &mut Cells, _: u64) -> Result<Admission, StoreError> {
        Ok(Admission::Lease)
    }

    fn complete(
        &mut self,
        frontier: &mut Cells,
        completion: Completion<FewProduct<P>>,
        now: u64,
    ) -> Result<(), StoreError> {
        let Completion {
            task,
            outcome,
            product,
            elapsed,
            error,
            ..
        } = completion;
        let reason = Reason::PrivateAddress;
        let is_private = outcome == Outcome::Drop { reason };
        if task.kind == TaskKind::Robots {
            let body = match product {
                Some(FewProduct::Robots(body)) => Some(body),
                _ => None,
            };
            let answer = RobotsAnswer::of(&outcome, body);
            let written = |_: &_| Ok::<_, StoreError>(vec![]);
            let settled = frontier.of_task(&task, |cell| {
                cell.finish_robots(&task, answer, elapsed, now, written)
            })?;
            self.note(&task, &settled, is_private, error.as_deref());
            return Ok(());
        }
        if let Outcome::Redirect { to } = &outcome {
            self.pages.redirects.insert(task.url.clone(), to.clone());
        }
        let effects = Effects::default();
        let written = |_: &_| Ok::<_, StoreError>(Written::default());
        let finished = frontier.of_task(&task, |cell| {
            cell.finish(&task, outcome, effects, elapsed, now, written)
        })?;
        self.note(&task, &finished.settled, is_private, error.as_deref());
        match (finished.settled, product) {
            (Settled::Done, Some(FewProduct::Page(page))) => {
                self.pages.read.insert(task.url, page);
            }
            (Settled::Dropped { reason }, product) => {
                let why = match product {
                    Some(FewProduct::Failure(why)) => Some(why),
                    _ => error,
                };
                let why = why.unwrap_or_else(|| reason.name().to_owned());
                self.failures.insert(task.url, why);
            }
            _ => {}
        }
        Ok(())
    }

    fn round(&mut self, _: &mut Cells, _: u64) -> Result<(), Self::Error> {
        Ok(())
    }
}
