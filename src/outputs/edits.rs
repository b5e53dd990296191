//! Changes of images that another machine may have kept: a line of JSON each in
//! `logs/edits.jsonl`, only if several machines crawl one job
//! ([`Outputs::shares_files`](super::Outputs::shares_files)).
//!
//! If a host moves to another machine, its images remain on the old one. The new machine finds
//! further pages that embed them, but has no sidecar to add these to. So it writes the change
//! here, and merging the outputs of all machines applies it (`merge`).
//!
//! A host may return to a machine that had it before. Then a change here is older than later
//! changes in that machine's own sidecar. For this case a machine also records changes of its
//! own images that replace something. All lines together, in order of time, give the last
//! state.

use serde::{Deserialize, Serialize};

use super::output::{Form, Output};
use super::{Effect, VisitKind};
use crate::address::PageUrl;
use crate::page::{ImageContext, TaskKind, Terms};
use crate::sanitize;

/// One change of one image per line.
pub(super) struct Edits;

/// The table, below the job's folder.
pub(super) const TABLE: &str = "logs/edits.jsonl";

impl Output for Edits {
    fn name(&self) -> &'static str {
        "edits"
    }

    fn form(&self) -> Form {
        Form::Lines(TABLE)
    }

    fn is_optional(&self) -> bool {
        true
    }

    /// Left out of the stamp until written to, so stamps of single machines do not change.
    fn is_stamped_empty(&self) -> bool {
        false
    }
}

/// A change to the sidecar of an image that was kept before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageEdit {
    /// The words of a page around it.
    Context {
        /// The words.
        context: Box<ImageContext>,
        /// Whether the text of that page has changed since the last visit; `None` at a first
        /// visit.
        changed: Option<bool>,
    },
    /// The alt text that a page gives it turned out to be boilerplate.
    Boilerplate {
        /// The page.
        page: PageUrl,
        /// The perplexity of a run of unknown words.
        unknown: f64,
    },
    /// The current terms of a page that embeds it.
    Terms {
        /// The page.
        page: PageUrl,
        /// Its terms.
        terms: Box<Terms>,
    },
}

impl ImageEdit {
    /// The page.
    pub(super) fn page(&self) -> &PageUrl {
        match self {
            Self::Context { context, .. } => &context.page,
            Self::Boilerplate { page, .. } | Self::Terms { page, .. } => page,
        }
    }

    /// The visit of the page, if the change is one of its words.
    pub(super) fn visit(changed: Option<bool>) -> VisitKind {
        match changed {
            None => VisitKind::First,
            Some(false) => VisitKind::Same,
            Some(true) => VisitKind::Changed,
        }
    }

    /// Whether the change must be recorded for the merge.
    pub(super) fn is_for_merge(&self, effect: Effect) -> bool {
        let is_first = matches!(self, Self::Context { changed: None, .. });
        match effect {
            Effect::Nothing => false,
            Effect::Missing => true,
            // The first words of a page cannot be older than anything elsewhere.
            Effect::Changed => !is_first,
        }
    }
}

/// A line of the table. A takedown finds the page by `kind` and `url`, as in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct EditLine {
    pub time: String,
    kind: TaskKind,
    url: String,
    /// The image, by its path below the folder of the job that kept it.
    pub file: String,
    pub edit: ImageEdit,
}

impl EditLine {
    pub fn new(time: &str, file: &str, edit: ImageEdit) -> Self {
        Self {
            time: time.to_owned(),
            kind: TaskKind::Page,
            url: edit.page().as_str().to_owned(),
            file: file.to_owned(),
            edit,
        }
    }

    /// The line with its end.
    pub fn to_line(&self) -> String {
        // Strings and numbers always serialise.
        let line = serde_json::to_string(self).unwrap_or_default();
        format!("{}\n", sanitize::json(&line))
    }
}
