//! The selection of a takedown: samples, rows and pages, by their names.

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::Path;

use serde::Deserialize;

use super::receipt::{GoneContexts, GoneImage, Receipt};
use crate::address::PageUrl;
use crate::fs::beneath::JobPath;
use crate::outputs::{Leaving, Sidecar, image_row_names};
use crate::page::TaskKind;
use crate::web::scope::{Scope, Target};

/// What is removed, by the scope or because the search found it.
pub(super) struct TakedownSelection<'a> {
    scope: &'a Scope,
    files: HashSet<JobPath>,
    urls: HashSet<String>,
    /// Hashes without any remaining image.
    digests: HashSet<String>,
    /// The targets for which something was found.
    found: RefCell<HashSet<Target>>,
}

/// The part of a log line that is needed.
#[derive(Deserialize)]
struct LogRow {
    kind: TaskKind,
    url: String,
    file: Option<String>,
}

impl<'a> TakedownSelection<'a> {
    /// What the scope forbids, with the images of a receipt. An image that was only
    /// removed because no words were left may have been found and kept again since an
    /// interrupted attempt; then it is kept.
    pub fn new(scope: &'a Scope, folder: &Path, receipt: &Receipt) -> Self {
        let kept_again = |image: &GoneImage| {
            let words = |sidecar: Sidecar| {
                let mut pages = sidecar.contexts().iter().map(|c| &c.page);
                pages.any(|page| scope.taken_down(page, TaskKind::Page).is_none())
            };
            image.by.is_none() && Sidecar::load(folder, image.file.as_str()).is_ok_and(words)
        };
        let images = || receipt.images.iter().filter(|i| !kept_again(i));
        let left: HashSet<&str> = receipt.copies.iter().map(|c| c.sha256.as_str()).collect();
        let digests = images().filter(|i| !left.contains(i.sha256.as_str()));
        Self {
            scope,
            digests: digests.map(|i| i.sha256.clone()).collect(),
            files: images().map(|i| i.file.clone()).collect(),
            urls: images().map(|i| i.url.clone()).collect(),
            found: RefCell::default(),
        }
    }

    /// Adds what another selection has found.
    pub fn with_found(self, other: TakedownSelection<'_>) -> Self {
        let found = other.found;
        Self { found, ..self }
    }

    /// Whether anything was found for this target.
    pub fn was_found(&self, target: &Target) -> bool {
        self.found.borrow().contains(target)
    }

    /// Whether a sample is removed; the receipt records which parts of it.
    pub fn sample(&mut self, sidecar: &Sidecar, receipt: &mut Receipt) -> bool {
        let (file, url) = (sidecar.path().clone(), sidecar.url().to_owned());
        let digest = self.scope.takedowns().covering_digest(sidecar.sha256());
        let by = digest.map(|order| order.target.clone());
        let by = by.or_else(|| self.covering(&url, TaskKind::Image));
        self.found.borrow_mut().extend(by.clone());
        let pages = sidecar.contexts().iter().map(|context| &context.page);
        let pages: Vec<PageUrl> = pages
            .filter(|page| self.page(page.as_str()))
            .cloned()
            .collect();
        let bare = !pages.is_empty() && pages.len() == sidecar.contexts().len();
        if by.is_some() || bare {
            let sha256 = sidecar.sha256().to_owned();
            receipt.images.push(GoneImage {
                file,
                url,
                sha256,
                by,
            });
            return true;
        }
        if !pages.is_empty() {
            receipt.contexts.push(GoneContexts { file, url, pages });
        }
        false
    }

    /// Whether the image file at this path is removed.
    pub fn file(&self, file: &str) -> bool {
        self.files.contains(file)
    }

    /// Whether no image with this hash is left.
    pub fn digest(&self, sha256: &str) -> bool {
        self.digests.contains(sha256)
    }

    fn address(&self, url: &str, kind: TaskKind) -> bool {
        let target = self.covering(url, kind);
        let covered = target.is_some();
        self.found.borrow_mut().extend(target);
        covered
    }

    fn covering(&self, url: &str, kind: TaskKind) -> Option<Target> {
        let url = PageUrl::parse(url).ok()?;
        let order = self.scope.taken_down(&url, kind)?;
        Some(order.target.clone())
    }
}

impl Leaving for TakedownSelection<'_> {
    fn row(&self, table: &str, row: &str) -> bool {
        if table == "images.tsv" {
            return image_row_names(row).is_some_and(|(file, url, page)| {
                self.file(file) || self.image(url) || self.page(page)
            });
        }
        serde_json::from_str::<LogRow>(row).is_ok_and(|row| match row.kind {
            TaskKind::Image => {
                self.image(&row.url) || row.file.is_some_and(|file| self.file(&file))
            }
            // Changes of an image name it besides the page.
            kind => self.address(&row.url, kind) || row.file.is_some_and(|file| self.file(&file)),
        })
    }

    fn page(&self, url: &str) -> bool {
        self.address(url, TaskKind::Page)
    }

    fn image(&self, url: &str) -> bool {
        self.urls.contains(url) || self.address(url, TaskKind::Image)
    }
}
