//! The latest pages and images, for people who watch a crawl.

use std::collections::VecDeque;

use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

use super::row::LoggedTask;
use crate::address::PageUrl;
use crate::page::{Bucket, Likelihood, TaskKind};
use crate::sanitize;

/// The number of images that can be served: over a slow connection, a page requests images late.
const IMAGES: usize = 96;

/// The number of pages.
const PAGES: usize = 30;

/// The most characters of a title or an address that are shown.
const MAX_SHOWN: usize = 200;

/// A requested page with its result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecentPage {
    /// When it was finished, RFC 3339 in UTC.
    pub time: String,
    /// Its address; here as elsewhere, characters that would control a terminal are
    /// escaped.
    pub url: String,
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether it is on topic; absent if no page was received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_topic: Option<bool>,
    /// The probability that it is on topic, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// Why it was requested, or why that failed, in words.
    pub reason: String,
}

/// An image that was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentImage {
    /// Derived from the file, so that it stays the same.
    pub id: String,
    /// Its path below the job's folder.
    pub file: String,
    /// The host that served it.
    pub host: String,
}

/// The latest pages and images, the newest first.
#[derive(Debug, Clone, Default)]
pub struct Latest {
    /// Pages, including those that failed.
    pub pages: VecDeque<RecentPage>,
    /// Images that were kept.
    pub images: VecDeque<RecentImage>,
}

impl Latest {
    pub(super) fn take(&mut self, task: &LoggedTask<'_>) {
        let row = &task.row;
        match row.kind {
            TaskKind::Page if !matches!(row.outcome.as_ref(), "postponed" | "unchanged") => {
                let title = row.title.as_deref().map(cut);
                self.pages.truncate(PAGES - 1);
                self.pages.push_front(RecentPage {
                    time: row.time.clone().into_owned(),
                    url: cut(task.url.as_str()),
                    title: title.filter(|title| !title.trim().is_empty()),
                    on_topic: row.on_topic,
                    probability: row.on_topic_probability.map(Likelihood::get),
                    reason: reason(task),
                });
            }
            TaskKind::Image if task.is_kept() => {
                let file = row.file.as_deref().unwrap_or_default();
                self.images.truncate(IMAGES - 1);
                self.images.push_front(RecentImage {
                    id: format!("{:016x}", xxh3_64(file.as_bytes())),
                    file: file.to_owned(),
                    host: task.url.host().to_owned(),
                });
            }
            _ => {}
        }
    }

    /// The file of an image by its id.
    pub fn file(&self, id: &str) -> Option<&str> {
        let image = self.images.iter().find(|image| image.id == id)?;
        Some(&image.file)
    }
}

/// Why the page was requested, or why that failed.
fn reason(task: &LoggedTask<'_>) -> String {
    let row = &task.row;
    if row.outcome != "done" {
        let why = row.reason.as_deref().unwrap_or(&row.outcome);
        let why = why.replace('_', " ");
        let why = match row.outcome.as_ref() {
            "retrying" => format!("{why}; retried later"),
            "redirected" => "redirects to another address".to_owned(),
            _ => why,
        };
        return match row.status.filter(|status| *status >= 400) {
            Some(status) => format!("{why} (status {status})"),
            None => why,
        };
    }
    let from = |via: &str| PageUrl::parse(via).ok().map(|url| url.host().to_owned());
    match (row.bucket, row.control, row.via.as_deref().and_then(from)) {
        (Bucket::Seed, ..) => "a seed".to_owned(),
        (_, true, _) => "drawn at random for comparison".to_owned(),
        (_, _, Some(host)) if host == task.url.host() => "linked from its own site".to_owned(),
        (_, _, Some(host)) => format!("linked from {host}"),
        _ => "listed by its site".to_owned(),
    }
}

/// Untrusted text, shortened for display.
fn cut(text: &str) -> String {
    let short: String = text.chars().take(MAX_SHOWN).collect();
    let end = if short.len() < text.len() {
        "\u{2026}"
    } else {
        ""
    };
    format!("{}{end}", sanitize::shown(&short))
}
