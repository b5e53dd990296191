//! The receipt of a takedown, as data and as text.

use std::collections::{BTreeMap, HashSet};
use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};

use crate::address::PageUrl;
use crate::frontier::TakenDown;
use crate::fs::beneath::JobPath;
use crate::web::scope::Target;

/// Version of the receipt's layout; keys are only ever added within one.
pub const VERSION: u32 = 1;

/// A receipt. Written to `takedowns/TIME.json` in the job's folder; keys are stable.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// `VERSION`.
    pub version: u32,
    /// The job's name.
    pub job: String,
    /// When it was requested, RFC 3339 in UTC.
    pub time: String,
    /// When it was completed; `None` for a dry run (`--dry-run`).
    pub done: Option<String>,
    /// Why, in the operator's words.
    pub reason: Option<String>,
    /// The targets, which are forbidden from then on.
    pub asked: Vec<Target>,
    /// Addresses to which images among these redirect; they are forbidden too.
    pub followed: Vec<PageUrl>,
    /// Addresses to which pages among these redirect, or which they declare as canonical.
    /// They are not targets and are kept.
    pub leads_to: Vec<PageUrl>,
    /// Targets without any image, context, row or record. They are forbidden nevertheless.
    pub not_found: Vec<Target>,
    /// Images that were removed with their sidecars.
    pub images: Vec<GoneImage>,
    /// Images that are kept without the words of some pages.
    pub contexts: Vec<GoneContexts>,
    /// Images with the bytes of removed ones that were kept, because only an address or a
    /// host was a target.
    pub copies: Vec<Copy>,
    /// Rows that were removed, by the path of the table below the job's folder.
    pub rows: BTreeMap<String, u64>,
    /// Pages whose text was removed (sentences, documents), by the path of the file below
    /// the job's folder.
    #[serde(default)]
    pub pages: BTreeMap<String, u64>,
    /// Remaining rows and documents from which references to these pages were removed.
    #[serde(default)]
    pub unnamed: u64,
    /// The changes in the frontier.
    pub frontier: TakenDown,
    /// Exports that were removed whole, as paths below the job's folder; `spoor export`
    /// writes them again.
    pub exports: Vec<JobPath>,
    /// Documents that were removed from corpora which were built from the job, by the
    /// folder of the corpus.
    #[serde(default)]
    pub corpora: BTreeMap<String, u64>,
    /// Every file that was removed.
    pub files: Vec<GoneFile>,
    /// What could not be removed.
    pub remains: Vec<String>,
}

/// An image that was removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoneImage {
    /// Its path below the job's folder.
    pub file: JobPath,
    /// Its address.
    pub url: String,
    /// SHA-256 of its bytes, from its sidecar.
    pub sha256: String,
    /// The target that covers it; `None` if all pages that embed it were taken down.
    pub by: Option<Target>,
}

/// Words that were removed from a remaining sidecar.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoneContexts {
    /// Path of the image below the job's folder.
    pub file: JobPath,
    /// Its address.
    pub url: String,
    /// The pages whose words were removed.
    pub pages: Vec<PageUrl>,
}

/// An image with the same bytes as a removed one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Copy {
    /// Its path below the job's folder.
    pub file: JobPath,
    /// Its address.
    pub url: String,
    /// SHA-256 of its bytes.
    pub sha256: String,
}

/// A file that was removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoneFile {
    /// Its path below the job's folder.
    pub file: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// SHA-256 of its content.
    pub sha256: String,
}

impl Receipt {
    /// Adds the findings of an earlier, interrupted attempt, because what it removed
    /// cannot be found any more.
    pub(super) fn merge(&mut self, earlier: Receipt) {
        self.time = earlier.time;
        self.reason = earlier.reason;
        add_new(&mut self.followed, earlier.followed, PageUrl::as_str);
        add_new(&mut self.leads_to, earlier.leads_to, PageUrl::as_str);
        self.not_found.retain(|t| earlier.not_found.contains(t));
        add_new(&mut self.images, earlier.images, |image| {
            image.file.as_str()
        });
        add_new(&mut self.contexts, earlier.contexts, |image| {
            image.file.as_str()
        });
        let gone: HashSet<&str> = self.images.iter().map(|i| i.file.as_str()).collect();
        self.contexts.retain(|c| !gone.contains(c.file.as_str()));
        add_new(&mut self.copies, earlier.copies, |copy| copy.file.as_str());
        add_new(&mut self.exports, earlier.exports, JobPath::as_str);
        add_new(&mut self.files, earlier.files, |file| &file.file);
        for (own, before) in [
            (&mut self.rows, earlier.rows),
            (&mut self.pages, earlier.pages),
            (&mut self.corpora, earlier.corpora),
        ] {
            for (table, rows) in before {
                let known = own.entry(table).or_default();
                *known = rows.max(*known);
            }
        }
        self.unnamed = self.unnamed.max(earlier.unnamed);
        let (own, before) = (&mut self.frontier, earlier.frontier);
        own.addresses = own.addresses.max(before.addresses);
        own.contexts = own.contexts.max(before.contexts);
        own.forgotten = own.forgotten.max(before.forgotten);
    }

    /// Whether it was read back from an unfinished attempt, which alone has entries in
    /// `remains`.
    pub(super) fn is_unfinished(&self) -> bool {
        !self.remains.is_empty()
    }

    /// Whether anything was removed or is to be removed.
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
            && self.contexts.is_empty()
            && self.rows.is_empty()
            && self.pages.is_empty()
            && self.unnamed == 0
            && self.exports.is_empty()
            && self.corpora.is_empty()
            && self.frontier == TakenDown::default()
    }
}

/// Adds the items with new names.
fn add_new<T>(own: &mut Vec<T>, earlier: Vec<T>, name: impl Fn(&T) -> &str) {
    let mut known: HashSet<String> = own.iter().map(|item| name(item).to_owned()).collect();
    for item in earlier {
        if known.insert(name(&item).to_owned()) {
            own.push(item);
        }
    }
}

/// The most items of one kind that are shown as text: an export has a file for each image.
const MAX_SHOWN: usize = 20;

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (did, forbidden) = match self.done {
            Some(_) => ("removed", "forbidden permanently"),
            None => ("would be removed", "would be forbidden permanently"),
        };
        writeln!(f, "takedown of {} from the job {}", self.time, self.job)?;
        if let Some(reason) = &self.reason {
            writeln!(f, "reason: {reason}")?;
        }
        section(f, forbidden, &self.asked, ToString::to_string)?;
        section(
            f,
            "forbidden too, as images lead there",
            &self.followed,
            |u| u.to_string(),
        )?;
        section(
            f,
            "nothing was found of",
            &self.not_found,
            ToString::to_string,
        )?;
        section(f, &format!("images {did}"), &self.images, |image| {
            let by = image
                .by
                .as_ref()
                .map_or_else(|| "no page with it is left".to_owned(), ToString::to_string);
            format!("{} ({}, {by})", image.file, image.url)
        })?;
        let title = format!("images that stay, without the words that {did}");
        section(f, &title, &self.contexts, |image| {
            let pages: Vec<&str> = image.pages.iter().map(PageUrl::as_str).collect();
            format!("{} (of {})", image.file, pages.join(", "))
        })?;
        let rows: Vec<_> = self.rows.iter().collect();
        section(f, &format!("rows {did}"), &rows, |(table, rows)| {
            format!("{rows} of {table}")
        })?;
        let pages: Vec<_> = self.pages.iter().collect();
        let title = format!("texts of pages {did}");
        section(f, &title, &pages, |(file, pages)| {
            format!("{pages} of {file}")
        })?;
        let corpora: Vec<_> = self.corpora.iter().collect();
        let title = format!("documents of corpora {did}");
        section(f, &title, &corpora, |(folder, documents)| {
            format!("{documents} of {folder}")
        })?;
        if self.unnamed > 0 {
            writeln!(
                f,
                "rows and documents that stay and no longer name these pages: {}",
                self.unnamed
            )?;
        }
        let TakenDown {
            addresses,
            contexts,
            forgotten,
        } = self.frontier;
        writeln!(
            f,
            "frontier: {addresses} addresses, {contexts} waiting contexts {did}, {forgotten} images forgotten"
        )?;
        section(
            f,
            &format!("exports {did} whole; make them again"),
            &self.exports,
            ToString::to_string,
        )?;
        section(
            f,
            &format!("files {did}, with SHA-256"),
            &self.files,
            |file| format!("{} {}", file.sha256, file.file),
        )?;
        section(
            f,
            "kept: the same bytes at other addresses",
            &self.copies,
            |copy| format!("{} ({}); --sha256 {}", copy.file, copy.url, copy.sha256),
        )?;
        section(
            f,
            "kept: where pages that were asked for lead",
            &self.leads_to,
            |u| u.to_string(),
        )?;
        section(f, "NOT removed", &self.remains, Clone::clone)
    }
}

fn section<T>(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    items: &[T],
    line: impl Fn(&T) -> String,
) -> fmt::Result {
    if items.is_empty() {
        return Ok(());
    }
    writeln!(f, "{title}: {}", items.len())?;
    items.iter().take(MAX_SHOWN).try_for_each(|item| {
        f.write_str("  ")?;
        f.write_str(&line(item))?;
        f.write_char('\n')
    })?;
    match items.len().saturating_sub(MAX_SHOWN) {
        0 => Ok(()),
        more => writeln!(f, "  and {more} more, all in the receipt as JSON"),
    }
}
