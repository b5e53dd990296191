//! A cache of sidecars, so that a page that embeds a known image need not read its sidecar
//! again.

use std::collections::HashMap;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::sidecar::{MAX_CONTEXT_BYTES, MAX_CONTEXTS};
use super::{OutputError, Sidecar, log, sidecar};
use crate::address::PageUrl;
use crate::page::ImageContext;

/// Contexts kept in each half of the cache, and the additional weight of an image.
const MAX_REMEMBERED: usize = 200_000;
const OF_AN_IMAGE: usize = 10;

/// A sidecar without its texts.
pub(super) struct Known {
    /// The beginning of the image's rows.
    pub head: String,
    /// Bytes of the sidecar and of the pending changes to it.
    pub sidecar: u64,
    pub journal: u64,
    contexts: HashMap<u64, KnownContext>,
    bytes: usize,
}

/// A context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KnownContext {
    digest: u64,
    bytes: usize,
}

impl KnownContext {
    pub fn of(context: &ImageContext) -> Self {
        let json = sidecar::json_of(context);
        Self {
            digest: xxh3_64(&json),
            bytes: json.len(),
        }
    }
}

impl Known {
    /// Reads the sidecar of the image at `file`.
    pub fn load(folder: &Path, file: &str) -> Result<Self, OutputError> {
        let sidecar = Sidecar::load(folder, file)?;
        let path = sidecar::path_of(folder, file);
        let length = path.metadata().map_or(0, |found| found.len());
        let mut known = Self {
            head: log::image_head(&sidecar),
            sidecar: length,
            journal: 0,
            contexts: HashMap::new(),
            bytes: 0,
        };
        for context in sidecar.contexts() {
            known.note(&context.page, KnownContext::of(context));
        }
        Ok(known)
    }

    /// Whether the sidecar already has this context of the page.
    pub fn has(&self, page: &PageUrl, entry: KnownContext) -> bool {
        self.contexts.get(&key(page)) == Some(&entry)
    }

    /// Whether a context of this page may be added or replaced.
    pub fn has_room(&self, page: &PageUrl, entry: KnownContext) -> bool {
        let before = self.contexts.get(&key(page));
        let others = self.bytes - before.map_or(0, |before| before.bytes);
        let fits = others.saturating_add(entry.bytes) <= MAX_CONTEXT_BYTES;
        fits && (before.is_some() || self.contexts.len() < MAX_CONTEXTS)
    }

    pub fn note(&mut self, page: &PageUrl, entry: KnownContext) {
        let before = self.contexts.insert(key(page), entry);
        self.bytes += entry.bytes;
        self.bytes -= before.map_or(0, |before| before.bytes);
    }

    fn weight(&self) -> usize {
        self.contexts.len() + OF_AN_IMAGE
    }
}

fn key(page: &PageUrl) -> u64 {
    xxh3_64(page.as_str().as_bytes())
}

/// The sidecars used most recently, by image.
#[derive(Default)]
pub(super) struct KnownImages {
    recent: HashMap<String, Known>,
    older: HashMap<String, Known>,
    /// The total weight of those in `recent`.
    weight: usize,
}

impl KnownImages {
    /// Takes an image out of the cache.
    pub fn take(&mut self, file: &str) -> Option<Known> {
        let Some(recent) = self.recent.remove(file) else {
            return self.older.remove(file);
        };
        self.weight = self.weight.saturating_sub(recent.weight());
        Some(recent)
    }

    /// Puts an image into the cache; if it is full, those not used for long are dropped.
    pub fn put(&mut self, file: &str, known: Known) {
        if self.weight > MAX_REMEMBERED {
            self.older = std::mem::take(&mut self.recent);
            self.weight = 0;
        }
        self.weight += known.weight();
        self.recent.insert(file.to_owned(), known);
    }
}
