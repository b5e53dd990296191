//! Takedowns remove samples from a job permanently, so that they are never fetched again.
//!
//! The targets (addresses, hosts, bytes) are first forbidden: they join the list in the
//! job's folder that every opening of the job reads and that the scope uses. Only then are
//! data removed, everywhere the job keeps them: images with their sidecars, the words of
//! pages in other sidecars, sentences and documents, rows of the tables and of the log,
//! votes, records of the frontier, exports.
//!
//! # The cost of a crash
//!
//! None. A read-only search determines what to remove and records it as an unfinished
//! receipt before the first file is removed; every step may be repeated; and the next
//! takedown completes an unfinished one first. The job can be opened in between, and the
//! targets stay forbidden.
//!
//! # Limits
//!
//! Sentences without a row in the log cannot be assigned to a page. The receipt says so,
//! and never claims more than what was removed.
//!
//! This module does not know the network and makes no decisions about addresses, which is
//! the scope's task. Reading order: this file, `selection` (what is removed), `tables`,
//! `exports`, `receipt`.

mod exports;
mod receipt;
mod selection;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use crate::address::PageUrl;
use crate::clock::timestamp;
use crate::crawl::checkpoint::{self, OpenJob};
use crate::crawl::saved::{self, SaveError};
use crate::frontier::{Cells, Frontier};
use crate::fs::{IoError, if_there};
use crate::fs::{atomic, beneath};
use crate::outputs::{self, Leaving, Rewriting, Sidecar};
use crate::page::TaskKind;
use crate::pipeline;
use crate::settings::JobSettings;
use crate::tool_error::{ToolError, with_causes};
use crate::web::scope::{HostRange, Order, Scope, Takedowns, Target};

pub use exports::INDEX;
pub use receipt::{Copy, GoneContexts, GoneFile, GoneImage, Receipt};
use selection::TakedownSelection;

/// The folder of the receipts, in the job's folder.
pub const FOLDER: &str = checkpoint::RECEIPTS;

/// The options of a takedown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// What to take down.
    pub targets: Vec<Target>,
    /// Why, in the operator's words.
    pub reason: Option<String>,
    /// Only report what would be removed. The job is opened as for a crawl, and nothing is
    /// forbidden or removed.
    pub dry_run: bool,
}

/// Takes samples down; `now` is milliseconds since 1970. Returns the receipt and its path.
///
/// # Errors
///
/// [`ToolError`], which is of a busy job if a crawl is using it.
pub fn take_down(
    config: &JobSettings,
    request: &Request,
    now: u64,
) -> Result<(Receipt, Option<PathBuf>), ToolError> {
    take_down_with(config, request, now, &mut |_| Ok(()))
}

/// Called before every step; a test can make it fail.
type TakedownWatch<'a> = &'a mut dyn FnMut(&str) -> Result<(), ToolError>;

fn take_down_with(
    config: &JobSettings,
    request: &Request,
    now: u64,
    watch: TakedownWatch<'_>,
) -> Result<(Receipt, Option<PathBuf>), ToolError> {
    if request.targets.is_empty() {
        return Err(nothing());
    }
    let folder = config.job_folder();
    if !folder.join("images").is_dir() {
        let why = "there is no job; is job.folder the one that was crawled?";
        return Err(ToolError::at(&folder, why));
    }
    let of_gathered = checkpoint::of_gathered(config);
    let config = of_gathered.as_ref().unwrap_or(config);
    let _samples = outputs::remove_samples(&folder)?;
    let OpenJob {
        frontier,
        outputs,
        lock: _lock,
        ..
    } = checkpoint::open_to_remove(config, now)?;
    if let Err(error) = frontier.only() {
        frontier.close()?;
        return Err(error.into());
    }
    let mut work = Removal {
        config,
        list: checkpoint::takedowns(&folder)?,
        folder,
        frontier,
        stamp: outputs.stamp(),
        now,
        watch,
    };
    drop(outputs);
    let mut targets = Vec::new();
    for target in &request.targets {
        if !targets.contains(target) {
            targets.push(target.clone());
        }
    }
    let begun = Receipt {
        version: receipt::VERSION,
        job: config.job.name.as_str().to_owned(),
        time: timestamp(now),
        reason: request.reason.clone(),
        asked: targets,
        ..Receipt::default()
    };
    if request.dry_run {
        let receipt = work.plan(begun)?.0;
        work.frontier.close()?;
        return Ok((receipt, None));
    }
    let earlier = work.unfinished()?;
    let same = earlier.as_ref().is_some_and(|e| e.asked == begun.asked);
    let mut done = match earlier {
        Some(earlier) => Some(work.complete(earlier)?),
        None => None,
    };
    if !same {
        done = Some(work.complete(begun)?);
    }
    work.frontier.close()?;
    done.ok_or_else(nothing)
        .map(|(receipt, path)| (receipt, Some(path)))
}

/// There are no targets.
fn nothing() -> ToolError {
    ToolError::new("nothing to take down; give --url, --host or --sha256")
}

/// A job from which samples are removed.
struct Removal<'a> {
    config: &'a JobSettings,
    folder: PathBuf,
    frontier: Cells,
    /// The present lengths of the outputs.
    stamp: Vec<u8>,
    list: Takedowns,
    now: u64,
    watch: TakedownWatch<'a>,
}

impl Removal<'_> {
    /// An earlier, unfinished takedown.
    fn unfinished(&self) -> Result<Option<Receipt>, ToolError> {
        let path = self.folder.join(checkpoint::UNFINISHED);
        let bytes = if_there(beneath::read(&self.folder, checkpoint::UNFINISHED));
        let Some(bytes) = bytes.map_err(IoError::at(&path, "reading"))? else {
            return Ok(None);
        };
        let read = serde_json::from_slice(&bytes);
        read.map(Some)
            .map_err(|why| ToolError::at(&path, why).and("move it away and run the takedown again"))
    }

    /// Forbids and removes the targets of a receipt.
    fn complete(&mut self, begun: Receipt) -> Result<(Receipt, PathBuf), ToolError> {
        let (mut receipt, scope) = self.plan(Receipt {
            version: receipt::VERSION,
            job: begun.job.clone(),
            time: begun.time.clone(),
            reason: begun.reason.clone(),
            asked: begun.asked.clone(),
            ..Receipt::default()
        })?;
        if begun.is_unfinished() {
            receipt.merge(begun);
        }
        self.list = scope.takedowns().clone();
        self.write(checkpoint::TAKEDOWNS, self.list.to_lines().as_bytes())?;
        (self.watch)("forbidden")?;
        self.frontier.set_scope(scope.clone())?;
        self.write(checkpoint::UNFINISHED, &to_json(&receipt))?;
        (self.watch)("planned")?;

        let gone = TakedownSelection::new(&scope, &self.folder, &receipt);
        if let Some(rewriting) = Rewriting::prepare(&self.folder, &self.stamp, &gone)? {
            (self.watch)("journal")?;
            self.stamp = rewriting.stamp().to_vec();
            self.frontier.set_stamp(self.stamp.clone())?;
            (self.watch)("stamped")?;
            rewriting.finish()?;
        }
        (self.watch)("rows")?;
        for table in tables::of(&self.folder)? {
            tables::without(&self.folder, &table, &gone, true)?;
            (self.watch)("table")?;
        }
        for image in &receipt.contexts {
            if beneath::is_file(&self.folder, format!("{}.json", image.file)) {
                let of_page = |c: &crate::page::ImageContext| gone.page(c.page.as_str());
                outputs::remove_contexts(&self.folder, image.file.as_str(), of_page)?;
                (self.watch)("contexts")?;
            }
        }
        let mut firsts = Vec::new();
        for image in &receipt.images {
            if self.frontier.kept_file(&image.sha256)?.as_deref() == Some(image.file.as_str()) {
                firsts.push(image.sha256.as_str());
            }
        }
        self.frontier
            .with_only(|cell| cell.forget_files(firsts.into_iter()))?;
        (self.watch)("bytes")?;
        for image in receipt.images.iter().filter(|i| gone.file(i.file.as_str())) {
            outputs::remove_image(&self.folder, image.file.as_str())?;
            (self.watch)("image")?;
        }
        for copy in &receipt.copies {
            outputs::forget_first(&self.folder, copy.file.as_str())?;
            (self.watch)("copy")?;
        }
        let (bytes, bare) = by_cause(&receipt, &gone);
        let now = self.now;
        self.frontier
            .with_only(|cell| cell.take_down(&scope, &bytes, &bare, now, false))?;
        (self.watch)("frontier")?;
        for export in &receipt.exports {
            exports::remove(&self.folder, export.as_str())?;
            (self.watch)("export")?;
        }
        self.corpora(&scope, &receipt.images, false)?;
        (self.watch)("corpora")?;
        if !receipt.is_empty() {
            checkpoint::renew_backups(&self.folder, self.frontier.only()?, self.now)?;
            (self.watch)("checkpoints")?;
        }
        let session = saved::renew(self.config, &self.frontier).map_err(not_saved)?;
        (self.watch)("saved")?;
        receipt.done = Some(timestamp(self.now));
        let name = self.receipt_name();
        self.write(&name, &to_json(&receipt))?;
        (self.watch)("receipt")?;
        let unfinished = self.folder.join(checkpoint::UNFINISHED);
        beneath::remove_file(&self.folder, checkpoint::UNFINISHED)
            .map_err(IoError::at(&unfinished, "removing"))?;
        if let Some(session) = session {
            session.end().map_err(not_saved)?;
        }
        Ok((receipt, self.folder.join(name)))
    }

    /// Determines everything to remove, without changing anything; also returns the scope
    /// that forbids it.
    fn plan(&mut self, mut receipt: Receipt) -> Result<(Receipt, Scope), ToolError> {
        let scope = self.forbidding(&mut receipt)?;
        let mut gone = TakedownSelection::new(&scope, &self.folder, &receipt);
        let images = self.folder.join("images");
        let files = outputs::image_files(&self.folder).map_err(IoError::at(&images, "listing"))?;
        let mut kept: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, file) in files.iter().enumerate() {
            match Sidecar::load(&self.folder, file) {
                Ok(sidecar) => {
                    if !gone.sample(&sidecar, &mut receipt) {
                        let places = kept.entry(beginning(sidecar.sha256()));
                        places.or_default().push(at);
                    }
                }
                Err(error) => receipt.remains.push(format!("not examined: {error}")),
            }
        }
        receipt.copies = self.copies(&receipt.images, &files, &kept)?;
        for image in &receipt.images {
            for name in [image.file.to_string(), format!("{}.json", image.file)] {
                if beneath::is_file(&self.folder, &name) {
                    receipt.files.push(exports::described(&self.folder, &name)?);
                }
            }
        }
        let gone = TakedownSelection::new(&scope, &self.folder, &receipt).with_found(gone);
        let shares = outputs::count_rows(&self.folder, &gone)?;
        (receipt.rows, receipt.pages) = (shares.rows, shares.pages);
        receipt.unnamed = shares.unnamed;
        for table in tables::of(&self.folder)? {
            let rows = tables::without(&self.folder, &table, &gone, false)?;
            receipt.rows.insert(table, rows);
        }
        receipt.rows.retain(|_, rows| *rows > 0);
        let (bytes, bare) = by_cause(&receipt, &gone);
        let now = self.now;
        let would = |cell: &mut Frontier| cell.take_down(&scope, &bytes, &bare, now, true);
        receipt.frontier = self.frontier.with_only(would)?;
        receipt.exports = exports::holding(&self.folder, &needles(&receipt, shares.urls))?;
        receipt.corpora = self.corpora(&scope, &receipt.images, true)?;
        let mut also: Vec<String> = receipt.exports.iter().map(ToString::to_string).collect();
        if !receipt.is_empty() {
            also.extend(checkpoint::backups_of(&self.folder));
        }
        for name in also {
            for file in exports::files_of(&self.folder, &name)? {
                receipt.files.push(exports::described(&self.folder, &file)?);
            }
        }
        for target in &receipt.asked {
            if !gone.was_found(target) && !self.is_known(target, &scope)? {
                receipt.not_found.push(target.clone());
            }
        }
        self.remains(&mut receipt, &shares.untold);
        Ok((receipt, scope))
    }

    /// Removes the pages and images from the corpora that were built from the job; returns how many
    /// documents of each, by its folder.
    fn corpora(
        &self,
        scope: &Scope,
        images: &[GoneImage],
        dry_run: bool,
    ) -> Result<BTreeMap<String, u64>, ToolError> {
        // Images may be taken down by their bytes.
        let images: HashSet<&str> = images.iter().map(|image| image.url.as_str()).collect();
        let is_gone = |url: &str| {
            if images.contains(url) {
                return true;
            }
            let url = PageUrl::parse(url).ok();
            url.is_some_and(|url| scope.taken_down(&url, TaskKind::Page).is_some())
        };
        let mut all = BTreeMap::new();
        for folder in pipeline::of_job(&self.folder)? {
            let taken = pipeline::remove(&folder, &is_gone, dry_run)?;
            all.insert(folder.display().to_string(), taken.documents);
        }
        all.retain(|_, documents| *documents > 0);
        Ok(all)
    }

    /// The kept images that have the bytes of removed ones, each once. `kept` maps the
    /// beginnings of hashes to indices in `files`.
    fn copies(
        &self,
        images: &[GoneImage],
        files: &[String],
        kept: &HashMap<String, Vec<usize>>,
    ) -> Result<Vec<Copy>, ToolError> {
        let mut copies = Vec::new();
        let removed: HashSet<&str> = images.iter().map(|i| i.sha256.as_str()).collect();
        for sha256 in removed {
            let same = kept.get(&beginning(sha256)).into_iter().flatten();
            for file in same.filter_map(|at| files.get(*at)) {
                let sidecar = Sidecar::load(&self.folder, file)?;
                if sidecar.sha256() == sha256 {
                    copies.push(Copy {
                        file: sidecar.path().clone(),
                        url: sidecar.url().to_owned(),
                        sha256: sha256.to_owned(),
                    });
                }
            }
        }
        copies.sort_by(|a, b| a.file.cmp(&b.file));
        Ok(copies)
    }

    /// The job's scope with the orders of a receipt, and those that follow from them.
    fn forbidding(&self, receipt: &mut Receipt) -> Result<Scope, ToolError> {
        let only = self.frontier.only()?;
        for target in &receipt.asked {
            if let Target::Url(url) = target {
                receipt.followed.extend(only.image_target(url)?);
                receipt.leads_to.extend(only.page_target(url)?);
            }
        }
        let followed = receipt.followed.iter().cloned().map(Target::Url);
        let mut list = self.list.clone();
        for target in receipt.asked.iter().cloned().chain(followed) {
            list.add(Order {
                time: receipt.time.clone(),
                target,
                reason: receipt.reason.clone(),
            });
        }
        let scope = Scope::new(self.config.scope.clone()).with_takedowns(list);
        let forbidden = |url: &PageUrl| scope.taken_down(url, TaskKind::Page).is_some();
        receipt.leads_to.retain(|url| !forbidden(url));
        Ok(scope)
    }

    /// Whether the frontier knows anything about a target.
    fn is_known(&self, target: &Target, scope: &Scope) -> Result<bool, ToolError> {
        match target {
            Target::Url(url) => {
                for kind in [TaskKind::Page, TaskKind::Image, TaskKind::Sitemap] {
                    for url in [url, &scope.canonical(url)] {
                        if self.frontier.look_up(url, kind)?.is_some() {
                            return Ok(true);
                        }
                    }
                }
                Ok(false)
            }
            Target::Host(HostRange::Exact(host)) => {
                Ok(self.frontier.only()?.look_up_host(host)?.is_some())
            }
            Target::Host(HostRange::Below(_)) | Target::Sha256(_) => Ok(false),
        }
    }

    /// Records what is not removed, because it cannot be assigned to a page or is
    /// elsewhere. `untold` has the bytes of unassigned texts by file.
    fn remains(&self, receipt: &mut Receipt, untold: &BTreeMap<String, u64>) {
        let remains = &mut receipt.remains;
        let of_bytes = |target: &Target| matches!(target, Target::Sha256(_));
        if !receipt.asked.iter().all(of_bytes) {
            remains.extend(untold.iter().map(|(file, bytes)| {
                format!(
                    "{file}: nothing says which pages {bytes} bytes of it are of, as the log has \
                     no row for them; if that may be one of these, remove the file"
                )
            }));
        }
        remains.push(format!(
            "the model in {}, if it was trained on such pages, and every copy or export outside \
             of the job's folder",
            self.config.model_folder().display()
        ));
        remains.push(
            "addresses themselves: in the list of what is forbidden, as that is how they are \
             known again, in this receipt, and where other pages link to them"
                .to_owned(),
        );
        if receipt.frontier.addresses + receipt.frontier.contexts > 0 {
            remains.push(
                "what the store's files still hold of deleted records; `spoor frontier compact` \
                 rewrites them"
                    .to_owned(),
            );
        }
        for name in [
            "frontier.copy",
            "frontier.damaged",
            "frontier.old",
            "frontier.repair.jsonl.gz",
        ] {
            if self.folder.join(name).exists() {
                remains.push(format!("{name}: an earlier frontier; remove it by hand"));
            }
        }
    }

    /// A unique name for the receipt.
    fn receipt_name(&self) -> String {
        let time = timestamp(self.now).replace([':', '-', '.'], "");
        let mut name = format!("{FOLDER}/{time}.json");
        let mut number = 2;
        while beneath::is_file(&self.folder, &name) {
            name = format!("{FOLDER}/{time}-{number}.json");
            number += 1;
        }
        name
    }

    /// Writes a file atomically and syncs it.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), ToolError> {
        let path = self.folder.join(FOLDER);
        beneath::create_dir_all(&self.folder, FOLDER)
            .map_err(IoError::at(&path, "making the folder"))?;
        atomic::write_bytes(&self.folder, name, bytes)
            .map_err(IoError::at(&self.folder.join(name), "writing"))?;
        Ok(outputs::sync_folder(&self.folder)?)
    }
}

/// For `map_err`: the job's remote checkpoint still contains the removed samples.
fn not_saved(error: SaveError) -> ToolError {
    ToolError::new(format_args!(
        "taken down here, but not in the job's checkpoint: {}; run this again when that is possible",
        with_causes(&error)
    ))
}

/// Enough of a hash to match few others; there may be millions.
fn beginning(sha256: &str) -> String {
    sha256.chars().take(12).collect()
}

/// The removed images whose bytes were taken down, and those that merely have no words
/// left.
fn by_cause(receipt: &Receipt, gone: &TakedownSelection<'_>) -> (Vec<PageUrl>, Vec<PageUrl>) {
    let images = receipt.images.iter().filter(|i| gone.file(i.file.as_str()));
    let with = |wanted: bool| {
        let of = images.clone().filter(move |i| i.by.is_some() == wanted);
        of.filter_map(|i| PageUrl::parse(&i.url).ok()).collect()
    };
    (with(true), with(false))
}

/// The search terms for exports with a removed sample; `pages` are those whose text was
/// kept. A hash is only used if no other image has the same bytes.
fn needles(receipt: &Receipt, pages: BTreeSet<String>) -> Vec<String> {
    let mut needles: Vec<String> = pages.into_iter().collect();
    let left: HashSet<&str> = receipt.copies.iter().map(|c| c.sha256.as_str()).collect();
    for image in &receipt.images {
        needles.extend([image.file.to_string(), image.url.clone()]);
        if !left.contains(image.sha256.as_str()) {
            needles.push(image.sha256.clone());
        }
    }
    let contexts = receipt.contexts.iter().flat_map(|c| &c.pages);
    needles.extend(contexts.map(|page| page.as_str().to_owned()));
    needles.retain(|needle| !needle.is_empty());
    needles.sort();
    needles.dedup();
    needles
}

fn to_json(receipt: &Receipt) -> Vec<u8> {
    // Strings and numbers always serialise.
    let mut json = serde_json::to_vec_pretty(receipt).unwrap_or_default();
    json.push(b'\n');
    json
}
