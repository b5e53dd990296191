//! Training pages from the web: a crawl that follows no link.
//!
//! Frontier, robots rules, host clocks, retries, redirects and address guard are those of
//! a real crawl. The store is in a temporary folder inside the model's and is removed at
//! the end.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::TrainError;
use super::corpus::{Document, of_pdf};
use crate::address::{HostKey, PageUrl};
use crate::clock::now;
use crate::fetch::Fetcher;
use crate::frontier::store::{SledStore, StoreError};
use crate::frontier::{Cells, Effects, Policy, RobotsAnswer, Settled, Written};
use crate::fs::IoError;
use crate::page::{Fetched, Outcome, Reason, Task, TaskKind};
use crate::pdf;
use crate::pipeline::{
    Admission, Completion, Control, Handler, LoopOptions, Processor, USUAL_WAIT, Work, drive,
    pdf_reader,
};
use crate::settings::JobSettings;
use crate::web::extract;
use crate::web::scope::Scope;

/// The fetched documents, by the requested address.
#[derive(Debug, Default)]
pub(super) struct Pages {
    documents: HashMap<PageUrl, Document>,
    redirects: HashMap<PageUrl, PageUrl>,
}

impl Pages {
    /// The document at `url`, after redirects.
    pub fn document(&self, url: &PageUrl) -> Option<Document> {
        let mut url = url;
        // More than any chain that the frontier follows, and a bound for cycles.
        for _ in 0..32 {
            if let Some(document) = self.documents.get(url) {
                return Some(document.clone());
            }
            url = self.redirects.get(url)?;
        }
        None
    }
}

/// Fetches all of `urls`.
///
/// # Errors
/// [`TrainError::Pages`] lists every address that could not be fetched, and why.
pub(super) fn fetch(
    config: &JobSettings,
    runtime: &Handle,
    fetcher: &Fetcher,
    urls: &[PageUrl],
) -> Result<Pages, TrainError> {
    let parent = &config.model.folder;
    std::fs::create_dir_all(parent).map_err(IoError::at(parent, "making the folder"))?;
    let folder = parent.join(format!(".fetching-{}", config.model_name().as_str()));
    let clear = || match std::fs::remove_dir_all(&folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(IoError::at(&folder, "removing")(e))
        }
        _ => Ok(()),
    };
    clear()?;
    let crawl = || -> Result<Pages, TrainError> {
        let store = Box::new(SledStore::open(&folder)?);
        let policy = Policy::new(&config.politeness, &config.network);
        // The operator chose these pages, so no scope rule applies, and they are stored
        // under exactly the given addresses.
        let scope = Scope::new(crate::settings::Scope {
            drop_parameters: Vec::new(),
            reject_files: Vec::new(),
            ..crate::settings::Scope::default()
        });
        let mut frontier = Cells::alone(store, policy, scope, now())?;
        frontier.add_seeds(urls, now())?;
        let mut handler = Fetching {
            options: extract::Options {
                max_text_bytes: config.text.max_bytes.as_len(),
                max_nesting: config.text.max_nesting,
                extractor: config.text.extractor,
                ..extract::Options::default()
            },
            pdf: pdf_reader(config),
            pages: Pages::default(),
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
        handler.checked(&frontier, urls)
    };
    let pages = crawl();
    clear()?;
    pages
}

struct Fetching {
    options: extract::Options,
    /// Whoever names a PDF file wants it read, whether or not the job accepts such pages.
    pdf: pdf::Reader,
    pages: Pages,
    failures: HashMap<PageUrl, String>,
    /// Why a host was to be tried again, the last time.
    delays: HashMap<HostKey, String>,
}

impl Fetching {
    /// Notes a delay, and reports it to the operator, because training waits for its pages.
    fn note(&mut self, task: &Task, settled: &Settled, is_private: bool, error: Option<&str>) {
        let Settled::Retrying { reason, due } = settled else {
            return;
        };
        let error = error.unwrap_or(reason.name());
        let wait = Duration::from_millis(due.saturating_sub(now()));
        // What is not waited for is told at the end.
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

    /// All pages, or the list of what is missing.
    fn checked(self, frontier: &Cells, urls: &[PageUrl]) -> Result<Pages, TrainError> {
        let mut missing = Vec::new();
        for url in urls {
            if self.pages.document(url).is_some() {
                continue;
            }
            let why = match self.failures.get(url) {
                Some(why) => why.clone(),
                None => match frontier.look_up(url, TaskKind::Page)?.map(|r| r.state) {
                    Some(crate::frontier::State::Dropped { reason }) => reason.name().to_owned(),
                    Some(crate::frontier::State::Redirected { to, .. }) => {
                        format!("redirected to {to}, which could not be fetched")
                    }
                    _ => match self.delays.get(&url.host_key()) {
                        Some(why) => format!("its host does not answer: {why}"),
                        None => "its host does not answer".to_owned(),
                    },
                },
            };
            missing.push(format!("{url}: {why}"));
        }
        if missing.is_empty() {
            Ok(self.pages)
        } else {
            Err(TrainError::Pages(missing))
        }
    }
}

/// The text of a PDF file, or why it has none.
fn of_file(pdf: &pdf::Reader, fetched: &Fetched) -> (Outcome, Option<Vec<String>>) {
    match pdf.read(&fetched.body) {
        Ok(original) => (Outcome::Done, Some(of_pdf(&original))),
        Err(failure) => {
            let cut = if fetched.truncated { " (cut)" } else { "" };
            let why = format!("{}{cut}: {failure}", Reason::BadPdf.name());
            let reason = Reason::BadPdf;
            (Outcome::Drop { reason }, Some(vec![why]))
        }
    }
}

impl Handler for Fetching {
    type Product = Vec<String>;
    type Error = StoreError;

    fn processor(&self) -> Processor<Vec<String>> {
        let (options, pdf) = (self.options.clone(), self.pdf.clone());
        Arc::new(move |task: &Task, fetched| {
            if task.kind == TaskKind::Robots {
                let body = String::from_utf8_lossy(&fetched.body).into_owned();
                return Work::Done(Outcome::Done, Some(vec![body]));
            }
            if extract::is_pdf(&fetched) {
                let pdf = pdf.clone();
                return Work::File(Box::new(move || of_file(&pdf, &fetched)));
            }
            match extract::extract(&task.url, &fetched, &options) {
                Ok(page) => Work::Done(Outcome::Done, Some(page.blocks)),
                Err(_) => {
                    let reason = Reason::ContentType;
                    Work::Done(Outcome::Drop { reason }, None)
                }
            }
        })
    }

    fn admission(&mut self, _: &mut Cells, _: u64) -> Result<Admission, StoreError> {
        Ok(Admission::Lease)
    }

    fn complete(
        &mut self,
        frontier: &mut Cells,
        completion: Completion<Vec<String>>,
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
            let body = product.map(|b| b.concat().into_bytes().into());
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
            (Settled::Done, Some(blocks)) => {
                let document = Document::of_blocks(&blocks);
                self.pages.documents.insert(task.url, document);
            }
            (Settled::Dropped { reason }, why) => {
                let why = why.map(|why| why.concat()).or(error);
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
