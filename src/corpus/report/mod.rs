//! The report of one or several jobs: first the results, with pictures and a few passages,
//! then figures, tables and plots.
//!
//! [`report`] reads the files of jobs (the log, the sentences, the votes, a model) and
//! returns plain data; [`Report::write`] turns these into `report.html`, a self-contained
//! file, with its plots beside it. The tables and figures are those of the theses: table 5.1
//! and figures 5.1, 5.2 and 5.5 of Werner 2015, and the errors, hosts, encodings and media
//! types of a crawl.
//!
//! Everything is read line by line, once: memory is bounded by the number of hosts, not of
//! rows. A crawl may be running, so an incomplete last line or gzip member is not damage.
//! Any other damage is named in the report, by file and line, and the rest is counted.
//!
//! The report knows neither the frontier's store nor the network; the figures of the log are
//! those of [`crate::crawl::figures`], and from `frontier` it only uses the arithmetic of the
//! headline. It shows pictures and words from the web, so a takedown removes the report in the
//! job's folder.
//!
//! Reading order: this file, `verdict` (the results), `judged` (classes of images), `text`
//! (sentences and their perplexity), `sections` (figures to tables and plots), `plot`,
//! `html`, `terminal`.

mod html;
mod judged;
pub mod plot;
mod sections;
mod terminal;
#[cfg(test)]
mod tests;
mod text;
mod verdict;

use std::collections::HashMap;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub(crate) use self::sections::Table;
pub(crate) use self::terminal::{on_terminal, shares};
pub use self::text::{ModelUse, Packet, Perplexity};
pub use self::verdict::{DocumentFigures, JobVerdict, Passage, Picture};
pub use crate::crawl::figures::count;
use crate::crawl::figures::{CrawlFigures, LogFigures, LoggedTask};
use crate::fs::{IoError, atomic};
use crate::outputs::{self, MAX_ROW, TableLine};
use crate::progress::Step;
use crate::rules::RuleSet;
use crate::settings::JobSettings;
use crate::tool_error::ToolError;

/// The most problems that are named; further ones are counted.
const MAX_TROUBLES: usize = 20;

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
    pub verdict: JobVerdict,
    /// What its log says.
    #[serde(flatten)]
    pub log: LogFigures,
    /// Sentences in `sentences/*.txt.gz`.
    pub sentences: u64,
    /// Their tokens.
    pub tokens: u64,
    /// The perplexity of the sentences; `None` without a model or sentences.
    pub perplexity: Option<Perplexity>,
    /// Unreadable parts of the job's files, by file and line.
    pub troubles: Troubles,
}

impl Figures {
    /// How long the crawl took, in seconds: from the first request to the last row,
    /// including interruptions.
    pub fn seconds(&self) -> f64 {
        let (Some(begun), Some(ended)) = (self.log.totals.begun, self.log.totals.ended) else {
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
/// [`ToolError`]; damage in a job's files is not an error.
pub fn report(jobs: &[JobSettings], model: Option<&Path>) -> Result<Report, ToolError> {
    let mut models = text::Models::new(model)?;
    let mut read: Vec<Figures> = Vec::new();
    for config in jobs {
        let folder = config.job_folder();
        if !folder.is_dir() {
            let why = "no such folder, so nothing was crawled yet; run `spoor crawl` on the job \
                       first";
            return Err(ToolError::at(&folder, why));
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
        read_log(&mut figures, config);
        verdict::read(&mut figures, config);
        text::read(&mut figures, config, &mut models);
        read.push(figures);
    }
    Ok(Report {
        time: format!("{:.0}", jiff::Timestamp::now()),
        jobs: read,
    })
}

/// Reads the log of a job; a missing one counts as empty.
fn read_log(figures: &mut Figures, config: &JobSettings) {
    let class_of = judged::classes(config).unwrap_or_else(|error| {
        figures.troubles.add(error);
        HashMap::new()
    });
    let may_overlap = config.politeness.connections_per_host > 1;
    // Rules that cannot be read now are left out: what they found is in the log.
    let rules = RuleSet::read(&config.rules.files).unwrap_or_default();
    let mut log = CrawlFigures::for_report(may_overlap, rules, class_of);
    let mut step = Step::begin("reading the log", None);
    let table = outputs::Table::Log;
    let end = outputs::each_line(
        &config.job_folder(),
        table,
        MAX_ROW,
        |line: TableLine<'_>| {
            step.advance(1);
            let read = line.bytes.ok_or_else(|| "too long".to_owned());
            match read.and_then(LoggedTask::read) {
                Ok(task) => log.take(&task),
                Err(why) => figures.troubles.add(format!(
                    "{}:{}: not a row that spoor wrote ({why}); left out",
                    line.path.display(),
                    line.number
                )),
            }
        },
    );
    if let Err(error) = end {
        let trouble = format!("the log was not read to its end: {error}");
        figures.troubles.add(trouble);
    }
    figures.log = log.finish();
}

impl Report {
    /// Writes `report.html` and the plots into `folder`, creating it if necessary, each file
    /// atomically; returns the path of the page.
    ///
    /// # Errors
    ///
    /// [`ToolError`].
    pub fn write(&self, folder: &Path) -> Result<PathBuf, ToolError> {
        std::fs::create_dir_all(folder).map_err(IoError::at(folder, "making the folder"))?;
        let sections = sections::of(self);
        let put = |name: &str, text: &str| {
            let path = folder.join(name);
            let written = atomic::write(&path, |out| out.write_all(text.as_bytes()));
            written.map_err(IoError::at(&path, "writing"))?;
            Ok::<_, ToolError>(path)
        };
        for figure in sections.iter().flat_map(|s| &s.figures) {
            put(&figure.file, &figure.svg)?;
        }
        put("report.html", &html::page(self, &sections))
    }
}
