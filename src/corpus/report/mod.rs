//! The report of one or several jobs: first the results, with pictures and a few passages,
//! then figures, tables and plots.
//!
//! [`report`] reads the files of jobs (the log, the sentences, the votes, a model) and
//! returns plain data; [`Report::write`] turns these into `report.html`, a self-contained
//! file, and `report.md` with its plots beside it. The tables and figures are those of the
//! theses: table 5.1 and figures 5.1, 5.2 and 5.5 of Werner 2015, and the errors, hosts,
//! encodings and media types of a crawl.
//!
//! Everything is read line by line, once: memory is bounded by the number of hosts, not of
//! rows. A crawl may be running, so an incomplete last line or gzip member is not damage.
//! Any other damage is named in the report, by file and line, and the rest is counted.
//!
//! The report knows neither the frontier's store nor the network; from `frontier` it only
//! uses the arithmetic of the headline. It shows pictures and words from the web, so a
//! takedown removes the report in the job's folder.
//!
//! Reading order: this file, `verdict` (the results), `tally` (counting in bounded
//! memory), `judged` (classes of images), `politeness`, `rows` (the log), `ruled` (the rules at work), `text`
//! (sentences and their perplexity), `sections` (figures to tables and plots), `plot`,
//! `html`, `markdown`.

mod html;
mod judged;
mod markdown;
pub mod plot;
mod politeness;
mod rows;
mod ruled;
mod sections;
mod tally;
#[cfg(test)]
mod tests;
mod text;
mod verdict;

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub(in crate::corpus) use self::markdown::on_terminal;
pub use self::politeness::Politeness;
pub use self::rows::{BucketFigures, Ending, HostFigures, KindFigures};
pub(in crate::corpus) use self::sections::{Table, count};
pub(in crate::corpus) use self::tally::Tally;
pub use self::tally::{Counted, Series};
pub use self::text::{ModelUse, Packet, Perplexity};
pub use self::verdict::{DocumentFigures, Passage, Picture, Verdict};
use crate::config::Config;
use crate::fs::{IoError, atomic};
use crate::outputs::{self, OutputError};
use crate::rules::{Event, Standing};
use crate::topic::model::FolderError;

/// The most problems that are named; further ones are counted.
const MAX_TROUBLES: usize = 20;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A job has no folder.
    #[error("{}: no such folder, so nothing was crawled yet; run `spoor crawl` on the job first", .0.display())]
    NotBegun(PathBuf),
    /// The samples are being changed.
    #[error(transparent)]
    Outputs(#[from] OutputError),
    /// The requested model cannot be used.
    #[error(transparent)]
    Model(#[from] FolderError),
    /// The operating system reported an error.
    #[error("{0}; free space or correct the permissions")]
    Io(#[from] IoError),
}

/// The figures of the jobs, in the order they were given.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// When the files were read, RFC 3339 in UTC.
    pub time: String,
    /// The jobs.
    pub jobs: Vec<Figures>,
}

/// The figures of one job.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Figures {
    /// Its name; if two are equal, the later one has a number appended.
    pub name: String,
    /// Its `strategy.kind`.
    pub strategy: &'static str,
    /// The results, with which the report begins.
    pub verdict: Verdict,
    /// When the first request was made, in milliseconds since 1970.
    pub begun: Option<u64>,
    /// When the last was finished, in milliseconds since 1970.
    pub ended: Option<u64>,
    /// The longest time without a finished task, in milliseconds.
    pub longest_pause: u64,
    /// The time until the last page was finished, in milliseconds, without the pauses of more
    /// than a minute in which no task was finished.
    pub page_time: u64,
    /// The same up to the last row.
    #[serde(skip)]
    worked: u64,
    /// Rows of the log.
    pub rows: u64,
    /// Sentences in `sentences/*.txt.gz`.
    pub sentences: u64,
    /// Their tokens.
    pub tokens: u64,
    /// Hosts with at least one page.
    pub hosts: u64,
    /// Pages that were fetched and kept, counting each visit.
    pub pages: u64,
    /// Bytes of their decoded bodies.
    pub page_bytes: u64,
    /// Images that were kept.
    pub images: u64,
    /// Requests by kind.
    pub kinds: Vec<KindFigures>,
    /// How the requests ended, the most frequent first.
    pub endings: Vec<Ending>,
    /// HTTP statuses, ascending.
    pub statuses: Vec<(u16, u64)>,
    /// Pages by priority class, best first.
    pub buckets: Vec<BucketFigures>,
    /// The hosts with most pages, most first.
    pub top_hosts: Vec<HostFigures>,
    /// Encodings of the pages kept, the most frequent first.
    pub encodings: Counted,
    /// Media types of all responses with a body, the most frequent first.
    pub media: Counted,
    /// Languages that the pages kept declare, the most frequent first.
    pub languages: Counted,
    /// Whether the delays were kept.
    pub politeness: Politeness,
    /// Images kept so far, over time since `begun`.
    pub images_over_time: Series,
    /// Judged images by class, over time since `begun`.
    pub classes_over_time: Vec<(String, Series)>,
    /// The perplexity of the sentences; `None` without a model or sentences.
    pub perplexity: Option<Perplexity>,
    /// The hosts that rules are for, those with a fall first.
    pub ruled: Vec<Standing>,
    /// What changed on these hosts, the last ones.
    pub rule_events: Vec<Event>,
    /// Unreadable parts of the job's files, by file and line.
    pub troubles: Troubles,
}

impl Figures {
    /// How long the crawl took, in seconds: from the first request to the last row,
    /// including interruptions.
    pub fn seconds(&self) -> f64 {
        let (Some(begun), Some(ended)) = (self.begun, self.ended) else {
            return 0.0;
        };
        ended.saturating_sub(begun) as f64 / 1000.0
    }
}

/// Problems in reading files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Troubles {
    /// The first of them, in words.
    pub named: Vec<String>,
    /// How many more there are.
    pub more: u64,
}

impl Troubles {
    /// Adds a problem.
    fn add(&mut self, trouble: impl fmt::Display) {
        if self.named.len() < MAX_TROUBLES {
            self.named.push(trouble.to_string())
        } else {
            self.more += 1
        }
    }
}

/// Reads the outputs of the jobs. Perplexities are those of the model in the folder
/// `model`, by default of each job's own.
///
/// # Errors
///
/// [`ReportError`]; damage in a job's files is not an error.
pub fn report(jobs: &[Config], model: Option<&Path>) -> Result<Report, ReportError> {
    let mut models = text::Models::new(model)?;
    let mut read: Vec<Figures> = Vec::new();
    for config in jobs {
        let folder = config.job_folder();
        if !folder.is_dir() {
            return Err(ReportError::NotBegun(folder));
        }
        let _samples = outputs::read_samples(&folder)?;
        let mut figures = Figures {
            name: config.job.name.as_str().to_owned(),
            strategy: config.strategy.kind.name(),
            ..Figures::default()
        };
        let taken = |name: &String| read.iter().any(|f| f.name == *name);
        let numbered = (2..).map(|n| format!("{} ({n})", config.job.name.as_str()));
        if taken(&figures.name)
            && let Some(free) = numbered.into_iter().find(|name| !taken(name))
        {
            figures.name = free;
        }
        let focus = rows::read(&mut figures, config);
        verdict::read(&mut figures, config, &focus);
        text::read(&mut figures, config, &mut models);
        read.push(figures);
    }
    Ok(Report {
        time: format!("{:.0}", jiff::Timestamp::now()),
        jobs: read,
    })
}

impl Report {
    /// Writes `report.html`, `report.md` and the plots into `folder`, creating it if
    /// necessary, each file atomically; returns the first two paths.
    ///
    /// # Errors
    ///
    /// [`ReportError::Io`].
    pub fn write(&self, folder: &Path) -> Result<[PathBuf; 2], ReportError> {
        std::fs::create_dir_all(folder).map_err(IoError::at(folder, "making the folder"))?;
        let sections = sections::of(self);
        let put = |name: &str, text: &str| {
            let path = folder.join(name);
            let written = atomic::write(&path, |out| out.write_all(text.as_bytes()));
            written.map_err(IoError::at(&path, "writing"))?;
            Ok::<_, ReportError>(path)
        };
        for figure in sections.iter().flat_map(|s| &s.figures) {
            put(&figure.file, &figure.svg)?;
        }
        Ok([
            put("report.html", &html::page(self, &sections))?,
            put("report.md", &markdown::page(self, &sections))?,
        ])
    }
}
