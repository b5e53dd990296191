//! Builds a corpus from a plan: jobs, archives, folders and JSON lines become documents,
//! which pass the steps and are written in formats that other programs read.
//!
//! ```text
//!  sources --batches--> read on all cores --in order--> files of phase 0
//!                       (extract, language, quality, perplexity, mask)
//!  files --compared (copies, buckets)--> decided on all cores --in order--> files of phase 1
//!  ...
//!  files of the last phase --rendered on all cores--> documents/, parquet/, tsv/ ...
//! ```
//!
//! The same plan with the same sources gives the same bytes, on any number of cores and
//! after any number of kills: everything has a fixed order, and each file of a phase is
//! written atomically together with the state that counts it.
//!
//! Memory does not grow with the sources, except for 16 bytes per response in an archive and
//! for what `barrier::copies` needs.
//!
//! Reading order: `plan`, `document`, `source`, `steps`, `run` (the phases), `barrier` (steps
//! that compare documents), `output`, `removed`, `card`; `work` is the folder of a build,
//! `store` the files between phases, `ordered` runs work on all cores.

mod annotations;
mod barrier;
mod built;
mod card;
mod count;
pub mod document;
mod error;
mod explain;
mod export;
mod ordered;
mod output;
mod over;
pub mod plan;
mod remove;
mod removed;
mod run;
mod source;
mod stats;
mod steps;
mod store;
#[cfg(test)]
mod tests;
mod work;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use self::annotations::{Annotated, DocumentFinder, annotate, annotation_schema};
pub use self::barrier::{COPIES, Cluster, Matched};
pub use self::built::{each_copy, each_document, each_removed, find};
pub use self::count::StepCount;
use self::document::Document;
use self::error::{changed, damaged, missing};
pub use self::explain::{Explained, Explanation, explain};
pub use self::export::{TextRequest, export_text};
pub use self::output::{InterleavedFigures, Sent, stated_terms};
pub use self::over::{Over, over};
use self::plan::{Plan, Step};
pub(crate) use self::remove::EXPORTS;
pub use self::remove::{Taken, of_job, remove};
pub use self::removed::{REMOVED, Removed};
use self::run::BuildRun;
use self::source::CorpusSources;
pub(crate) use self::source::each_line;
pub use self::source::print_rows;
pub use self::stats::{Stats, stats};
pub use self::steps::{Measured, Value};
use self::store::PhaseStore;
pub use self::work::is_corpus;
use self::work::{EarlierBuild, Workplace};
use crate::columns::DataColumn;
use crate::fs::{IoError, atomic, if_there};
use crate::progress::Step as Progress;
use crate::tool_error::ToolError;

/// The file that marks a corpus; readers of data sets ignore files whose names begin with a
/// dot.
pub const MARK: &str = ".spoor-corpus";

/// How a corpus is built.
#[derive(Debug, Clone, Default)]
pub struct How {
    /// Starts over, and discards an unfinished build.
    pub fresh: bool,
    /// Writes nothing.
    pub dry_run: bool,
    /// Takes at most this many documents, evenly from all sources, into a separate folder.
    pub sample: Option<u64>,
    /// Today, as `2026-01-31`, for the data card.
    pub date: String,
    /// It is an export: an existing corpus is built again, an unfinished build continues only
    /// if the job has not grown since, and an empty corpus is an error.
    pub is_export: bool,
}

/// The contents of a corpus, as recorded in its mark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Built {
    /// The version of spoor.
    pub spoor: String,
    /// The folder; `None` for a dry run.
    #[serde(default)]
    pub folder: Option<PathBuf>,
    /// Documents.
    pub documents: u64,
    /// Their words, excluding numbers.
    pub words: u64,
    /// Files of data.
    pub files: u32,
    /// What the interleaved formats have, if there is one.
    #[serde(default)]
    pub interleaved: Option<InterleavedFigures>,
    /// The steps: first reading, then those of the plan.
    pub steps: Vec<StepCount>,
    /// The plan and its sources.
    print: String,
    /// The folders of the jobs, for their images.
    #[serde(default)]
    jobs: Vec<PathBuf>,
    /// The measures of the quality rules.
    measures: Vec<String>,
    /// The columns that steps add.
    #[serde(default)]
    layers: Vec<String>,
    /// Whether it existed before.
    #[serde(skip)]
    pub was_there: bool,
    /// What was sent to the store of the plan.
    #[serde(skip)]
    pub sent: Option<Sent>,
}

/// Builds the corpus of a plan.
///
/// # Errors
///
/// [`ToolError`]; finished work is kept, and the next call continues from there.
pub fn build(plan: &Plan, how: &How) -> Result<Built, ToolError> {
    let mut sources = CorpusSources::of(&plan.source)?;
    let sample = how
        .sample
        .map(|sample| sample.div_ceil(sources.units().max(1)));
    let print = print(plan, &sources, how);
    let to = folder(plan, how);
    let earlier = match how {
        How { fresh: true, .. } => EarlierBuild::Goes,
        How {
            is_export: true, ..
        } => EarlierBuild::IsExport,
        _ => EarlierBuild::GoesOn,
    };
    let goes_on = earlier == EarlierBuild::GoesOn && !how.dry_run;
    if goes_on && !work::unfinished(&to) && is_corpus(&to) {
        let built = read_mark(&to)?;
        if built.print == print {
            // The plan may name another store now.
            let path = to.join(PLAN);
            let written = atomic::write(&path, |file| file.write_all(plan.text.as_bytes()));
            written.map_err(IoError::at(&path, "writing"))?;
            return Ok(Built {
                was_there: true,
                sent: sent(plan, how, &to)?,
                ..built
            });
        }
        return Err(changed(&to));
    }
    let (reading, phases) = run::phases(plan)?;
    sources.index()?;
    let place = if how.dry_run {
        Workplace::scratch(&print)?
    } else {
        Workplace::open(&to, &print, &how.date, earlier)?
    };
    if !how.dry_run {
        register(plan, &to);
    }
    let mut run = BuildRun {
        plan,
        sources: &sources,
        place,
        reading,
        phases,
        sample,
    };
    if how.dry_run {
        let ended = run.go().map(|_| built(plan, &run.place, &print));
        run.place.remove()?;
        return ended;
    }
    let store = run.go()?;
    let BuildRun { place, .. } = run;
    let counted = built(plan, &place, &print);
    if how.is_export && counted.documents == 0 {
        place.remove()?;
        return Err(ToolError::new(format_args!(
            "no document is left to export ({}); ask for less",
            counted.reasons()
        )));
    }
    let built = finish(plan, place, &store, &print)?;
    Ok(Built {
        sent: sent(plan, how, &to)?,
        ..built
    })
}

/// Uploads the corpus to the store of its plan; a sample stays on this machine.
fn sent(plan: &Plan, how: &How, folder: &Path) -> Result<Option<Sent>, ToolError> {
    let to = plan.output.store.as_ref().filter(|_| how.sample.is_none());
    to.map(|to| output::send(folder, to)).transpose()
}

/// The folder of the corpus.
fn folder(plan: &Plan, how: &How) -> PathBuf {
    let folder = &plan.output.folder;
    match how.sample {
        None => folder.clone(),
        Some(_) => {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            folder.with_file_name(format!("{name}-sample"))
        }
    }
}

impl Built {
    /// Why documents were removed, in words.
    fn reasons(&self) -> String {
        let why = self.steps.iter().flat_map(|step| &step.why);
        let why: Vec<String> = why.map(|(rule, n)| format!("{n} by {rule}")).collect();
        why.join(", ")
    }
}

/// The data that identify a build.
fn print(plan: &Plan, sources: &CorpusSources, how: &How) -> String {
    // The upload target does not change the corpus.
    let output = plan::Output {
        store: None,
        ..plan.output.clone()
    };
    let mut all = format!(
        "{:?}\n{:?}\n{output:?}\n{:?}\n{}",
        plan.source, plan.steps, how.sample, sources.print
    );
    if plan
        .output
        .formats
        .iter()
        .any(|format| format.is_interleaved())
    {
        for job in &plan.source.jobs {
            let size = job
                .join("images.tsv")
                .metadata()
                .map_or(0, |about| about.len());
            all.push_str(&format!("images {size}\n"));
        }
    }
    if how.is_export {
        all.push_str(&format!("{} bytes\n", sources.bytes()));
    }
    for step in &plan.steps {
        let files: Vec<PathBuf> = match step.clone() {
            Step::Copies(step) => step.against.into_iter().chain(step.synonyms).collect(),
            Step::Grammar(mut step) => step.files().map(|path| path.clone()).collect(),
            Step::Entities(mut step) => step.files().map(|path| path.clone()).collect(),
            _ => Vec::new(),
        };
        for path in files {
            let size = path.metadata().map_or(0, |about| about.len());
            all.push_str(&format!("{} {size}\n", path.display()));
        }
    }
    if let Ok(Some(rules)) = steps::rules_of(plan) {
        all.push_str(&format!("\n{}", rules.print()));
    }
    format!("{:032x}", xxhash_rust::xxh3::xxh3_128(all.as_bytes()))
}

/// The figures of a build whose phases are done.
fn built(plan: &Plan, place: &Workplace, print: &str) -> Built {
    let counts = &place.state.counts;
    let is_shown = |number: usize| match number.checked_sub(1) {
        None => true,
        Some(at) => !matches!(plan.steps.get(at), Some(Step::Extract(_))),
    };
    let steps = counts
        .iter()
        .enumerate()
        .filter(|(number, _)| is_shown(*number));
    Built {
        spoor: env!("CARGO_PKG_VERSION").to_owned(),
        folder: None,
        documents: counts.last().map_or(0, |count| count.left),
        words: 0,
        files: 0,
        interleaved: None,
        steps: steps.map(|(_, count)| count.clone()).collect(),
        print: print.to_owned(),
        jobs: plan.source.jobs.iter().map(|job| whole(job)).collect(),
        measures: measures(plan),
        layers: layers(plan),
        was_there: false,
        sent: None,
    }
}

/// An absolute path.
fn whole(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The names of what the rules of a plan measure.
fn measures(plan: &Plan) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for step in &plan.steps {
        if let Step::Quality(step) = step {
            for name in steps::measures_of(step) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
    }
    names
}

/// The names of the columns that the jobs and the steps of a plan add.
fn layers(plan: &Plan) -> Vec<String> {
    let mut names = Vec::new();
    let crawled = output::of_crawl();
    if !plan.source.jobs.is_empty() {
        names.extend(crawled.iter().map(|column| &*column.name));
    }
    for step in &plan.steps {
        match step {
            Step::Grammar(step) => {
                names.extend(["tokens", "token_offsets"]);
                names.extend(step.columns.iter().map(|layer| layer.name()));
            }
            Step::Entities(_) => names.extend(["entities", "entity_names"]),
            _ => {}
        }
    }
    names.into_iter().map(str::to_owned).collect()
}

/// Writes the corpus, and moves it to its place.
fn finish(
    plan: &Plan,
    place: Workplace,
    store: &PhaseStore,
    print: &str,
) -> Result<Built, ToolError> {
    let out = place.out()?;
    let mut built = built(plan, &place, print);
    let columns = output::columns(&built.measures, &built.layers);
    let mut tally = card::CorpusFigures::default();
    let mut progress = Progress::begin("writing documents", Some(built.documents));
    let written = output::write(
        (
            &plan.output,
            output::FromJobs {
                folders: &built.jobs,
                all: true,
            },
        ),
        &out,
        &columns,
        |push| store.each(0, push),
        |(file, frames): (u32, Vec<Vec<u8>>)| {
            let read = frames.iter().map(|frame| store.document(file, frame));
            read.collect()
        },
        |document| {
            tally.add(document, &columns);
            progress.advance(1);
        },
    )?;
    drop(progress);
    (built.files, built.interleaved) = (written.files, written.interleaved);
    (built.documents, built.words) = (tally.documents, tally.words);
    join(&out.join(REMOVED), &place.all_removed(plan)?)?;
    let copies = place.all_copies(plan);
    if !copies.is_empty() {
        join(&out.join(COPIES), &copies)?;
    }
    seal(plan, &out, &built, &columns, &tally, &place.state.date)?;
    let folder = place.finish()?;
    Ok(Built {
        folder: Some(folder),
        ..built
    })
}

/// Writes the card and the mark.
fn seal(
    plan: &Plan,
    out: &Path,
    built: &Built,
    columns: &[DataColumn<Document>],
    tally: &card::CorpusFigures,
    date: &str,
) -> Result<(), ToolError> {
    let path = out.join("README.md");
    let written = atomic::write(&path, |file| {
        card::write(file, plan, built, columns, tally, date)
    });
    written.map_err(IoError::at(&path, "writing"))?;
    let path = out.join(PLAN);
    let written = atomic::write(&path, |file| file.write_all(plan.text.as_bytes()));
    written.map_err(IoError::at(&path, "writing"))?;
    let path = out.join(MARK);
    let text = serde_json::to_vec(built).map_err(std::io::Error::from);
    let written = text.and_then(|text| atomic::write(&path, |file| file.write_all(&text)));
    written.map_err(IoError::at(&path, "writing"))?;
    Ok(())
}

/// The plan, in the folder of its corpus.
const PLAN: &str = "plan.toml";

/// The mark of a corpus.
fn read_mark(folder: &Path) -> Result<Built, ToolError> {
    let path = folder.join(MARK);
    let text = if_there(crate::fs::read(&path)).map_err(IoError::at(&path, "reading"))?;
    let text = text.ok_or_else(|| missing(folder))?;
    let built: Result<Built, _> = serde_json::from_slice(&text);
    let built = built.map_err(|error| damaged(&path, error))?;
    Ok(Built {
        folder: Some(folder.to_owned()),
        ..built
    })
}

/// Concatenates files; consecutive zstd frames are a valid file.
fn join(to: &Path, files: &[PathBuf]) -> Result<(), ToolError> {
    let out = File::create(to).map_err(IoError::at(to, "creating"))?;
    let mut out = BufWriter::new(out);
    for path in files {
        let mut from = crate::fs::open(path).map_err(IoError::at(path, "opening"))?;
        std::io::copy(&mut from, &mut out).map_err(IoError::at(to, "writing"))?;
    }
    out.flush().map_err(IoError::at(to, "writing"))?;
    Ok(())
}

/// The list of the corpora that were built from a job, in its folder, one path per line. A
/// takedown finds them by it.
pub const CORPORA: &str = "corpora.txt";

/// Records a corpus in the folders of its jobs. If that fails, the folder must be passed to a
/// takedown by hand.
fn register(plan: &Plan, folder: &Path) {
    let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let whole = whole.display().to_string();
    // An archive may be in the folder of the job that wrote it.
    let above = plan.source.archives.iter().chain(&plan.source.selections);
    let above = above.flat_map(|path| path.ancestors().skip(1).take(2));
    let jobs = plan.source.jobs.iter().map(PathBuf::as_path).chain(above);
    for job in jobs.filter(|job| job.join("logs/crawl.jsonl").is_file()) {
        let known = crate::fs::beneath::read_to_string(job, CORPORA).unwrap_or_default();
        if known.lines().any(|line| line == whole) {
            continue;
        }
        let text = format!("{known}{whole}\n");
        if let Err(error) = atomic::write_bytes(job, CORPORA, text.as_bytes()) {
            tracing::warn!(
                "{}: not noted: {error}; after a takedown from this job, run `spoor corpus \
                 remove {whole}` as well",
                job.join(CORPORA).display()
            );
        }
    }
}
