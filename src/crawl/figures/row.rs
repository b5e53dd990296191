//! A row of the log, read back or just written.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::address::PageUrl;
use crate::outputs::Row;
use crate::page::{Bucket, DocumentScore, Likelihood, TaskKind};
use crate::rules::{Applied, LoggedPage};

/// The keys of a row that the figures use; older rows lack some.
#[derive(Debug, Clone, Deserialize)]
pub struct LogRow<'a> {
    /// When it was finished, RFC 3339 in UTC.
    #[serde(borrow)]
    pub time: Cow<'a, str>,
    /// The kind of the task.
    pub kind: TaskKind,
    /// Its address.
    #[serde(borrow)]
    pub url: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) via: Option<Cow<'a, str>>,
    pub(super) status: Option<u16>,
    pub(super) bytes: u64,
    pub(super) ms: u64,
    pub(super) asked: Option<u64>,
    pub(super) delay: Option<u64>,
    #[serde(borrow)]
    pub(super) mime: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) charset: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) language: Option<Cow<'a, str>>,
    pub(super) bucket: Bucket,
    #[serde(default)]
    pub(super) control: bool,
    pub(super) document: Option<DocumentScore>,
    pub(super) on_topic: Option<bool>,
    pub(super) on_topic_probability: Option<Likelihood>,
    #[serde(default)]
    pub(super) on_topic_guessed: bool,
    #[serde(borrow)]
    pub(super) title: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) file: Option<Cow<'a, str>>,
    sentences: Option<IgnoredAny>,
    documents: Option<IgnoredAny>,
    /// What the job's rules found.
    #[serde(borrow)]
    rules: Option<Cow<'a, Applied>>,
    /// Set for a revisited page.
    pub(super) changed: Option<bool>,
    #[serde(borrow)]
    pub(super) outcome: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) reason: Option<Cow<'a, str>>,
}

/// A row with its address and its time.
#[derive(Debug, Clone)]
pub struct LoggedTask<'a> {
    /// The row.
    pub row: LogRow<'a>,
    /// Its address.
    pub url: PageUrl,
    /// When it was finished, in milliseconds since 1970.
    pub at: u64,
}

impl<'a> LoggedTask<'a> {
    /// Reads a line of the log.
    ///
    /// # Errors
    ///
    /// Why the line is not a row, in words.
    pub fn read(line: &'a [u8]) -> Result<Self, String> {
        Self::from_row(serde_json::from_slice(line).map_err(|error| error.to_string())?)
    }

    /// A row that was just written; `None` if its address is not valid.
    pub fn of(row: &Row<'a>) -> Option<Self> {
        let text = |text: Option<&'a str>| text.map(Cow::Borrowed);
        let bucket = Bucket::ALL.into_iter().find(|b| b.name() == row.bucket);
        let row = LogRow {
            time: row.time.into(),
            kind: row.kind,
            url: row.url.into(),
            via: text(row.via),
            status: row.status,
            bytes: row.bytes,
            ms: row.ms,
            asked: row.asked,
            delay: row.delay,
            mime: text(row.mime),
            charset: text(row.charset),
            language: text(row.language),
            bucket: bucket?,
            control: row.control,
            document: row.document,
            on_topic: row.on_topic,
            on_topic_probability: row.on_topic_probability,
            on_topic_guessed: row.on_topic_guessed,
            title: text(row.title),
            file: text(row.file),
            sentences: row.sentences.map(|_| IgnoredAny),
            documents: row.documents.map(|_| IgnoredAny),
            rules: row.rules.map(Cow::Borrowed),
            changed: row.changed,
            outcome: row.outcome.into(),
            reason: text(row.reason),
        };
        Self::from_row(row).ok()
    }

    fn from_row(row: LogRow<'a>) -> Result<Self, String> {
        let time: jiff::Timestamp = row.time.parse().map_err(|_| "no time")?;
        let url = PageUrl::parse(&row.url).map_err(|error| error.to_string())?;
        let at = u64::try_from(time.as_millisecond()).unwrap_or_default();
        Ok(Self { row, url, at })
    }

    /// Whether a page or an image was kept by this visit.
    pub fn is_kept(&self) -> bool {
        self.row.outcome == "done" && (self.row.kind != TaskKind::Image || self.row.file.is_some())
    }

    /// Whether the text of a page was kept, as sentences or as a document.
    pub fn keeps_text(&self) -> bool {
        let row = &self.row;
        self.is_kept() && (row.sentences.is_some() || row.documents.is_some())
    }

    /// What the job's rules found on a page, if one covers its address.
    pub fn applied(&self) -> Option<&Applied> {
        self.row.rules.as_deref()
    }

    /// The request as the rules see it.
    pub(super) fn for_rules<'r>(&'r self, host: &'r str) -> LoggedPage<'r> {
        LoggedPage {
            time: &self.row.time,
            url: &self.row.url,
            host,
            status: self.row.status,
            reason: self.row.reason.as_deref(),
            applied: self.applied(),
        }
    }
}
