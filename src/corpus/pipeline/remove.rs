//! Removes documents from a built corpus, in all its formats.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::error::damaged;
use super::plan::Plan;
use super::removed::LineFile;
use super::source::each_line;
use super::{
    Built, COPIES, CORPORA, Cluster, Document, PLAN, REMOVED, Removed, Sent, card, each_copy,
    each_removed, is_corpus, output, read_mark, seal, work,
};
use crate::fs::{IoError, beneath, if_there};
use crate::outputs;
use crate::progress::Step as Progress;
use crate::tool_error::ToolError;

/// What was removed from a corpus.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Taken {
    /// The corpus.
    pub folder: PathBuf,
    /// Documents that were removed.
    pub documents: u64,
    /// Their addresses, each once.
    pub urls: BTreeSet<String>,
    /// Lines about documents that had been removed before.
    pub lines: u64,
    /// The upload to the store of the plan.
    pub sent: Option<Sent>,
}

/// The folder of the exports in a job's folder.
pub(crate) const EXPORTS: &str = "exports";

/// The existing corpora that were built from a job, including its exports.
///
/// # Errors
///
/// The list cannot be read.
pub fn of_job(job: &Path) -> Result<Vec<PathBuf>, ToolError> {
    let text = if_there(beneath::read_to_string(job, CORPORA));
    let text = text.map_err(IoError::at(&job.join(CORPORA), "reading"))?;
    let text = text.unwrap_or_default();
    let mut all: BTreeSet<PathBuf> = text.lines().map(PathBuf::from).collect();
    // Its exports, even if its folder was moved.
    if beneath::is_dir(job, EXPORTS) {
        let whole = std::path::absolute(job).unwrap_or_else(|_| job.to_owned());
        let entries = beneath::entries(job, EXPORTS);
        for (name, _) in entries.map_err(IoError::at(&job.join(EXPORTS), "listing"))? {
            all.insert(whole.join(EXPORTS).join(work::named(&name)));
        }
    }
    all.retain(|folder| is_corpus(folder) || work::unfinished(folder));
    Ok(all.into_iter().collect())
}

/// Removes from a corpus all documents whose address is `gone`, and everything that names
/// one, also from the store of its plan. If there is nothing to remove, nothing is written.
/// An unfinished build is removed as a whole, because it may contain them.
///
/// # Errors
///
/// [`ToolError`]; then the corpus is unchanged.
pub fn remove(
    folder: &Path,
    gone: &(dyn Fn(&str) -> bool + Sync),
    dry_run: bool,
) -> Result<Taken, ToolError> {
    let mut taken = Taken {
        folder: folder.to_owned(),
        ..Taken::default()
    };
    if !dry_run {
        work::discard(folder)?;
    }
    if !is_corpus(folder) {
        return Ok(taken);
    }
    let mut naming = 0_u64;
    super::each_document(folder, &mut |mut document| {
        if gone(&document.url) {
            taken.documents += 1;
            taken.urls.insert(document.url);
        } else {
            naming += u64::from(forget(&mut document, gone));
        }
        Ok(true)
    })?;
    each_removed(folder, &mut |removed| {
        taken.lines += u64::from(names(&removed, gone));
        Ok(true)
    })?;
    let mut copies = 0;
    each_copy(folder, &mut |copy| {
        copies += u64::from(gone(&copy.url) || gone(&copy.copy_of_url));
        Ok(true)
    })?;
    if dry_run {
        return Ok(taken);
    }
    if taken.documents + taken.lines + copies + naming > 0 {
        rewrite(folder, gone)?;
    }
    // Even if nothing is left to remove here, because the store may have failed before.
    let plan = Plan::load(&folder.join(PLAN))?;
    if let Some(to) = &plan.output.store {
        taken.sent = Some(output::send(folder, to)?);
    }
    Ok(taken)
}

/// Removes a document's references to pages and images that are gone. Returns whether there was one.
fn forget(document: &mut Document, gone: &dyn Fn(&str) -> bool) -> bool {
    let names_page = outputs::forget([&mut document.canonical, &mut document.via], gone);
    let (urls, blocks) = (&mut document.image_urls, &mut document.image_blocks);
    outputs::forget_images(urls, blocks, gone) || names_page
}

fn names(removed: &Removed, gone: &dyn Fn(&str) -> bool) -> bool {
    gone(&removed.url) || removed.copy_of_url.as_deref().is_some_and(gone)
}

/// Writes the corpus again without them, and replaces the old one.
fn rewrite(folder: &Path, gone: &(dyn Fn(&str) -> bool + Sync)) -> Result<(), ToolError> {
    let built = read_mark(folder)?;
    let file = folder.join(PLAN);
    let mut plan = Plan::load(&file)?;
    plan.output.folder = folder.to_owned();
    let earlier = work::EarlierBuild::Goes;
    let place = work::Workplace::open(folder, "a takedown", "", earlier)?;
    let out = place.out()?;
    let columns = output::columns(&built.measures, &built.layers);
    let mut tally = card::CorpusFigures::default();
    let mut progress = Progress::begin("writing documents", Some(built.documents));
    let paths = output::documents(folder)?;
    let feed = |push: &mut dyn FnMut(Vec<u8>) -> bool| {
        for path in &paths {
            each_line(path, &mut |_, _, line| {
                Ok(push(line.unwrap_or_default().to_vec()))
            })?;
        }
        Ok(())
    };
    let damaged = |error: serde_json::Error| damaged(folder, error);
    // An export moves with its job.
    let around = folder.parent().filter(|around| around.ends_with(EXPORTS));
    let jobs = match around.and_then(Path::parent) {
        Some(job) => vec![job.to_owned()],
        None => built.jobs.clone(),
    };
    let written = output::write(
        (
            &plan.output,
            output::FromJobs {
                folders: &jobs,
                all: false,
            },
        ),
        &out,
        &columns,
        feed,
        |line| {
            let mut document = output::of_line(&line).map_err(damaged)?;
            forget(&mut document, gone);
            Ok(Some(document)
                .filter(|d| !gone(&d.url))
                .into_iter()
                .collect())
        },
        |document| {
            tally.add(document, &columns);
            progress.advance(1);
        },
    )?;
    drop(progress);
    let mut lines = LineFile::create(out.join(REMOVED))?;
    each_removed(folder, &mut |mut removed| {
        if gone(&removed.url) {
            return Ok(true);
        }
        if names(&removed, gone) {
            (removed.copy_of, removed.copy_of_url) = (None, None);
        }
        lines.add(&removed)?;
        Ok(true)
    })?;
    lines.finish()?;
    if folder.join(COPIES).is_file() {
        let mut lines = LineFile::create(out.join(COPIES))?;
        each_copy(folder, &mut |copy: Cluster| {
            if !gone(&copy.url) && !gone(&copy.copy_of_url) {
                lines.add(&copy)?;
            }
            Ok(true)
        })?;
        lines.finish()?;
    }
    let built = Built {
        documents: tally.documents,
        words: tally.words,
        files: written.files,
        interleaved: written.interleaved,
        ..built
    };
    let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
    seal(&plan, &out, &built, &columns, &tally, &date)?;
    place.finish()?;
    Ok(())
}
