//! The sidecar of an image: its data, and the words around it on every page that embeds
//! it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NewImageFile, OutputError, names, sightings, write_whole};
use crate::address::PageUrl;
use crate::fs::IoError;
use crate::fs::atomic::Durability;
use crate::fs::beneath::{self, JobPath, Kind};
use crate::page::{ImageContext, Terms};
use crate::picture::ImageInfo;
use crate::sanitize;

/// Version of the sidecar's layout; keys are only ever added within one.
pub const VERSION: u32 = 1;

/// The most contexts in a sidecar, and the most bytes of their words. A picture in the
/// layout of a site occurs on every one of its pages. Further contexts have a row in
/// `images.tsv`.
pub const MAX_CONTEXTS: usize = 1_000;
pub(super) const MAX_CONTEXT_BYTES: usize = 4 << 20;

/// The JSON file beside an image. Keys are stable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Sidecar of an image")]
pub struct Sidecar {
    /// Version of this layout; keys are only ever added within one.
    #[schemars(extend("const" = VERSION))]
    version: u32,
    /// Address of the image.
    #[schemars(url)]
    url: String,
    /// Path of the image below the job's folder, with `/` between its parts.
    #[schemars(with = "String", regex(pattern = "^images/"))]
    file: JobPath,
    /// Size of the file in bytes.
    bytes: u64,
    /// The file that was kept first with the same bytes, to which this one is a link.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    same_as: Option<JobPath>,
    #[serde(flatten)]
    info: ImageInfo,
    /// The `Content-Type` header that came with the image, as sent.
    content_type: Option<String>,
    /// When the image was fetched, RFC 3339 in UTC.
    #[schemars(extend("format" = "date-time"))]
    fetched: String,
    /// The terms of use of the response that contained the image.
    #[serde(default)]
    terms: Terms,
    /// The words around the image, one entry for each page that embeds it.
    #[schemars(length(max = MAX_CONTEXTS))]
    contexts: Vec<ImageContext>,
}

impl Sidecar {
    /// Reads the sidecar of the image at `file`, a path below the job's folder, including
    /// pending changes.
    ///
    /// # Errors
    ///
    /// [`OutputError`] if it is missing, invalid, or names another image: a file is never
    /// touched because a sidecar elsewhere names it.
    pub fn load(folder: &Path, file: &str) -> Result<Self, OutputError> {
        // The pending changes first, or one could be missed.
        let changes = sightings::read(folder, file)?;
        let mut sidecar = Self::load_alone(folder, file)?;
        sightings::apply(changes, &mut sidecar);
        Ok(sidecar)
    }

    /// The same without pending changes.
    pub(super) fn load_alone(folder: &Path, file: &str) -> Result<Self, OutputError> {
        let path = path_of(folder, file);
        let bytes = beneath::read(folder, name_of(file)).map_err(IoError::at(&path, "reading"))?;
        let wrong = |why: String| OutputError::Sidecar {
            path: path.clone(),
            why,
        };
        let read: Self = serde_json::from_slice(&bytes).map_err(|e| wrong(e.to_string()))?;
        // On file systems that ignore case, a name finds the other's sidecar.
        if !read.file.as_str().eq_ignore_ascii_case(file) {
            return Err(wrong(format!("it belongs to {}", read.file)));
        }
        Ok(read)
    }

    /// Adds the words of pages, replacing those of the same page, until the sidecar is
    /// full.
    pub(super) fn add(&mut self, contexts: impl IntoIterator<Item = ImageContext>) {
        let bytes = |context: &ImageContext| json_of(context).len();
        let mut full: usize = self.contexts.iter().map(bytes).sum();
        for context in contexts {
            let known = self.contexts.iter().find(|c| c.page == context.page);
            let before = known.map_or(0, bytes);
            let after = (full - before).saturating_add(bytes(&context));
            let is_new = known.is_none();
            let fits = after <= MAX_CONTEXT_BYTES || self.contexts.is_empty();
            if fits && (!is_new || self.contexts.len() < MAX_CONTEXTS) {
                self.put(context);
                full = after;
            }
        }
    }

    /// Adds the words of one page, replacing those of the same page, so that adding them
    /// twice is harmless.
    pub(super) fn put(&mut self, context: ImageContext) {
        match self.contexts.iter_mut().find(|c| c.page == context.page) {
            Some(known) => *known = context,
            None => self.contexts.push(context),
        }
    }

    /// Updates the terms of a page, keeping the licences that it gave for this image
    /// before; false if they are unchanged.
    pub(super) fn restate(&mut self, page: &PageUrl, terms: &Terms) -> bool {
        let Some(known) = self.contexts.iter_mut().find(|c| c.page == *page) else {
            return false;
        };
        let mut now = terms.clone();
        now.licences = known.terms.licences.clone();
        now.license(terms.licences.iter().cloned());
        let before = std::mem::replace(&mut known.terms, now);
        before != known.terms
    }

    /// This sidecar under another path.
    pub(super) fn moved_to(mut self, file: JobPath) -> Self {
        self.file = file;
        self
    }

    /// Merges two sidecars of the same address: this one, of the later fetch, also gets the words
    /// of the pages that only the `earlier` one knew. If there is no room for all, those of the
    /// later one come first.
    pub(super) fn united_with(mut self, earlier: Self) -> Self {
        let own: HashSet<PageUrl> = self.contexts.iter().map(|c| c.page.clone()).collect();
        let count = self.contexts.len();
        let others = earlier.contexts.into_iter();
        self.add(others.filter(|context| !own.contains(&context.page)));
        // In the order in which they were found.
        self.contexts.rotate_left(count);
        self
    }

    /// Whether it has the words of this page.
    pub(super) fn has_page(&self, page: &PageUrl) -> bool {
        self.contexts.iter().any(|context| context.page == *page)
    }

    /// Keeps only the words of pages for which `keep` is true.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.contexts.retain(|c| keep(c.page.as_str()));
    }

    /// Removes contexts.
    pub(super) fn forget(&mut self, gone: impl Fn(&ImageContext) -> bool) {
        self.contexts.retain(|context| !gone(context));
    }

    /// The words around the image, one entry per page.
    pub fn contexts(&self) -> &[ImageContext] {
        &self.contexts
    }

    /// The words of the page that ranks the image best.
    pub fn best_context(&self) -> Option<&ImageContext> {
        let contexts = self.contexts.iter();
        contexts.min_by(|a, b| a.rank.total_cmp(&b.rank))
    }

    /// Address of the image.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Path of the image below the job's folder.
    pub fn file(&self) -> &str {
        self.file.as_str()
    }

    /// The same as a checked path.
    pub fn path(&self) -> &JobPath {
        &self.file
    }

    /// SHA-256 of the file, in hexadecimal.
    pub fn sha256(&self) -> &str {
        &self.info.sha256
    }

    /// Path of the earlier file with the same bytes, which this one links to or copies;
    /// `None` if this one was the first.
    pub fn same_as(&self) -> Option<&str> {
        self.same_as.as_ref().map(JobPath::as_str)
    }

    pub(super) fn set_same_as(&mut self, earlier: Option<JobPath>) {
        self.same_as = earlier;
    }

    /// Size of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Format, size in pixels, and other properties of the bytes.
    pub fn info(&self) -> &ImageInfo {
        &self.info
    }

    /// The terms of use of the response that contained the image.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// When the image was fetched, RFC 3339 in UTC.
    pub fn fetched(&self) -> &str {
        &self.fetched
    }

    /// Writes it, including all changes read from journals.
    pub(super) fn save(&self, folder: &Path) -> Result<(), OutputError> {
        self.save_alone(folder, Durability::Later)?;
        sightings::forget(folder, self.file())
    }

    /// Writes it, and leaves the journals.
    pub(super) fn save_alone(
        &self,
        folder: &Path,
        durability: Durability,
    ) -> Result<(), OutputError> {
        let text = self.to_text(folder)?;
        write_whole(folder, &name_of(self.file()), text.as_bytes(), durability)
    }

    /// The text of its file.
    pub(super) fn to_text(&self, folder: &Path) -> Result<String, OutputError> {
        let json = serde_json::to_string_pretty(self).map_err(|e| OutputError::Sidecar {
            path: path_of(folder, self.file()),
            why: e.to_string(),
        })?;
        Ok(format!("{}\n", sanitize::json(&json)))
    }
}

/// A context in its most compact form, for measuring its size.
pub(super) fn json_of(context: &ImageContext) -> Vec<u8> {
    // Words and numbers always serialise.
    serde_json::to_vec(context).unwrap_or_default()
}

/// The path of the sidecar of the image at `file`, below the job's folder.
pub(super) fn name_of(file: &str) -> String {
    format!("{file}.json")
}

/// The same, for messages.
pub(super) fn path_of(folder: &Path, file: &str) -> PathBuf {
    folder.join(name_of(file))
}

/// The images of the job in `folder` that have a sidecar, as paths below it, in no order.
/// Files that disappear meanwhile are not included.
///
/// # Errors
///
/// The system's error if the folder `images` cannot be listed; unreadable folders below it
/// are logged and skipped.
pub fn image_files(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec!["images".to_owned()];
    while let Some(below) = folders.pop() {
        let entries = match beneath::entries(folder, &below) {
            Ok(entries) => entries,
            Err(error) if below == "images" => return Err(error),
            Err(error) => {
                let path = folder.join(&below);
                tracing::warn!(path = %path.display(), "skipped: {error}");
                continue;
            }
        };
        // spoor itself creates no symbolic links.
        for (name, kind) in entries {
            match kind {
                Kind::Folder => folders.push(format!("{below}/{name}")),
                Kind::File => {
                    let image = name.strip_suffix(".json");
                    found.extend(image.map(|image| format!("{below}/{image}")));
                }
                Kind::Link | Kind::Other => {}
            }
        }
    }
    Ok(found)
}

/// Finds the path of a new image and its sidecar: a fresh one, or that of an earlier fetch
/// of the same URL. A path taken by another URL is left alone. An empty sidecar was being
/// written when the power failed; those known to the frontier are never empty.
pub(super) fn place(
    folder: &Path,
    date: &str,
    new: &NewImageFile<'_>,
) -> Result<(JobPath, Sidecar), OutputError> {
    let mut own = None;
    let (format, extension) = (&new.info.format, new.info.extension);
    let file = names::choose(date, new.url, format, extension, |file| {
        if beneath::length(folder, name_of(file)).unwrap_or(0) == 0 {
            return Ok(false);
        }
        let known = Sidecar::load(folder, file)?;
        let others = known.url != new.url.as_str();
        own = (!others).then_some(known);
        Ok::<_, OutputError>(others)
    })?;
    let contexts = own.map(|known| known.contexts).unwrap_or_default();
    let file = JobPath::parse(&file).map_err(|error| OutputError::Sidecar {
        path: path_of(folder, &file),
        why: error.to_string(),
    })?;
    let sidecar = Sidecar {
        version: VERSION,
        url: new.url.as_str().to_owned(),
        file: file.clone(),
        bytes: new.bytes.len() as u64,
        same_as: None,
        info: new.info.clone(),
        content_type: new.content_type.map(str::to_owned),
        fetched: new.fetched.to_owned(),
        terms: new.terms.clone(),
        contexts,
    };
    Ok((file, sidecar))
}
