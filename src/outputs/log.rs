//! Rows: a finished task in `logs/crawl.jsonl`, an image and its context in
//! `images.tsv`.

use std::path::Path;

use serde::Serialize;

use super::output::{Form, Output, Position};
use super::{OutputError, Sidecar, Table, TextPlace, undo};
use crate::address::UrlId;
use crate::page::{
    Bucket, DocumentScore, ImageContext, Likelihood, LinkParts, TaskKind, Terms, TextScore,
    TextShare,
};
use crate::rules::Applied;
use crate::sanitize;

/// One finished task per line.
pub(super) struct Log;

impl Output for Log {
    fn name(&self) -> &'static str {
        "log"
    }

    fn form(&self) -> Form {
        Form::Lines(Table::Log.name())
    }

    fn of_task(&self, task: &Row<'_>) -> Option<String> {
        Some(format!("{}\n", task.to_json()))
    }
}

/// One image in one context per row.
pub(super) struct Images;

impl Output for Images {
    fn name(&self) -> &'static str {
        "images"
    }

    fn form(&self) -> Form {
        Form::Lines(Table::Images.name())
    }

    fn header(&self) -> &'static str {
        IMAGES_HEADER
    }

    fn undo_after(&self, folder: &Path, position: Position) -> Result<(), OutputError> {
        undo::images_after(folder, position)
    }
}

/// A finished task, as a line of JSON. Absent values are left out.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Row<'a> {
    /// When it was finished, RFC 3339 in UTC.
    pub time: &'a str,
    /// Its number among the finished tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// The kind of the task.
    pub kind: TaskKind,
    /// Its address.
    pub url: &'a str,
    /// The id of the address in the other log, `spoor.DATE.jsonl`.
    pub url_id: UrlId,
    /// The page on which the address was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<&'a str>,
    /// Links from the nearest seed.
    pub hops: u32,
    /// HTTP status, if one was received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Bytes of the decoded body.
    pub bytes: u64,
    /// From sending the request to the last byte, in milliseconds.
    pub ms: u64,
    /// When the request's journey began, in milliseconds since 1970 by the frontier's
    /// clock; never later than it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<u64>,
    /// The required pause between two requests to its host, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<u64>,
    /// The media type as sent, without parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime: Option<&'a str>,
    /// The encoding that a page was decoded with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charset: Option<&'a str>,
    /// Why a page was not read in one pass but from a tree; absent if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<&'static str>,
    /// Priority class at the time of the lease.
    pub bucket: &'static str,
    /// Score at the time of the lease, lower is better.
    pub score: f64,
    /// True if it was drawn for the control sample rather than chosen by its score.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub control: bool,
    /// The parts of the score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<LinkParts>,
    /// Rating of the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<DocumentScore>,
    /// Whether the page is more likely on topic than off topic; absent if no page was
    /// received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_topic: Option<bool>,
    /// The probability that it is on topic, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_topic_probability: Option<Likelihood>,
    /// True if both are a guess because the model was trained on too little text: no
    /// neutral text, or too few sentences about the topic.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub on_topic_guessed: bool,
    /// Title of the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<&'a str>,
    /// How much of the document's text was rated and kept, and the extractor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<TextShare>,
    /// Language that the document declares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<&'a str>,
    /// Recognised language of its text, an ISO 639 code, if certain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recognised: Option<&'static str>,
    /// True if that is not the model's language.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub foreign: bool,
    /// True if that is not in `text.languages`, so that nothing of the page was kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub off_language: bool,
    /// The terms of use of the page or image, if any are stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terms: Option<&'a Terms>,
    /// The terms that forbade keeping the page's sentences, its images or both.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub forbidden: &'a [&'static str],
    /// Further terms that may forbid what was permitted at an earlier visit; not a part of the row.
    #[serde(skip)]
    pub withdrawn: &'a [&'static str],
    /// True if the body was longer than the cap.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Path of the image below the job's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<&'a str>,
    /// The position of the page's sentences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sentences: Option<&'a TextPlace>,
    /// The position of the page's document in `documents/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<&'a TextPlace>,
    /// The position of the records of the exchange in `archive/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive: Option<&'a TextPlace>,
    /// The target of a redirect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect: Option<&'a str>,
    /// Images of a page that were skipped because their names are those of SVGs.
    #[serde(skip_serializing_if = "is_zero")]
    pub svgs: u32,
    /// What the job's rules found on the page, if any is for its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<&'a Applied>,
    /// The earlier page that this one names as its canonical address; nothing of this one
    /// was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate_of: Option<&'a str>,
    /// The earlier page that this one is a near copy of by its text; its links were not
    /// followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub near_copy_of: Option<&'a str>,
    /// `done`, `unchanged`, `redirected`, `retrying`, `postponed` or `dropped`.
    pub outcome: &'static str,
    /// After a revisit: whether its text differs from that of the previous visit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
    /// Why it is not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// The error message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(super) fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl<'a> Row<'a> {
    /// The row of a finished task without further data.
    pub fn done(time: &'a str, kind: TaskKind, url: &'a str, url_id: UrlId) -> Self {
        Self {
            time,
            kind,
            url,
            url_id,
            bucket: Bucket::Seed.name(),
            outcome: "done",
            ..Self::default()
        }
    }
}

impl Row<'_> {
    /// The row as one line of JSON, as written to the log.
    pub fn to_json(&self) -> String {
        // Strings and finite or null numbers always serialise.
        let line = serde_json::to_string(self).unwrap_or_default();
        sanitize::json(&line).into_owned()
    }
}

pub(super) const IMAGES_HEADER: &str = "url\tfile\tformat\twidth\theight\tbytes\tpage\tpage_title\t\
     document_perplexity\trank\talt\talt_perplexity\talt_keyword\talt_weighted\ttitle\t\
     title_perplexity\tfile_name\tfile_name_perplexity\tparent_0\tparent_0_perplexity\tparent_1\t\
     parent_1_perplexity\tsibling_0\tsibling_0_perplexity\n";

/// The beginning of all rows of an image in `images.tsv`.
pub(super) fn image_head(sidecar: &Sidecar) -> String {
    let info = sidecar.info();
    let cells = [
        sidecar.url().to_owned(),
        sidecar.file().to_owned(),
        info.format.clone(),
        info.width.to_string(),
        info.height.to_string(),
        sidecar.bytes().to_string(),
    ];
    cells.join("\t")
}

/// An image in one context, as a row of `images.tsv`.
pub(super) fn image_row(head: &str, context: &ImageContext) -> String {
    let perplexity = |s: Option<&TextScore>| s.map(|s| number(s.perplexity)).unwrap_or_default();
    let scores = &context.scores;
    let texts = &context.texts;
    let alt = scores.alt.as_ref();
    let nth = |list: &[String], i: usize| cell(list.get(i).map(String::as_str));
    let cells = [
        head.to_owned(),
        context.page.as_str().to_owned(),
        cell(context.page_title.as_deref()),
        number(context.document_perplexity),
        number(context.rank),
        cell(texts.alt.as_deref()),
        perplexity(alt),
        alt.map(|s| format!("{:.6}", s.keyword)).unwrap_or_default(),
        alt.map(|s| number(s.weighted)).unwrap_or_default(),
        cell(texts.title.as_deref()),
        perplexity(scores.title.as_ref()),
        cell(texts.file_name.as_deref()),
        perplexity(scores.file_name.as_ref()),
        nth(&texts.parents, 0),
        perplexity(scores.parents.first()),
        nth(&texts.parents, 1),
        perplexity(scores.parents.get(1)),
        nth(&texts.siblings, 0),
        perplexity(scores.siblings.first()),
    ];
    let mut row = cells.join("\t");
    row.push('\n');
    row
}

fn number(value: f64) -> String {
    format!("{value:.2}")
}

/// The image file and the page in a row of `images.tsv`; `None` for the header and for a
/// row that a crash cut off before both.
pub(super) fn file_and_page(row: &str) -> Option<(&str, &str)> {
    let mut cells = row.split('\t');
    let file = cells.nth(1).filter(|f| f.starts_with("images/"))?;
    let page = cells.nth(4)?;
    // The next cell exists, so this one is complete.
    cells.next().map(|_| (file, page))
}

/// One cell of running text: no tabs or line ends, no characters that control a terminal,
/// at most 500 characters, and nothing that a spreadsheet would take as a formula (also
/// after blanks, and in the wide forms that some accept) or as the beginning of a quoted
/// cell. Addresses and paths are not running text: they contain nothing of this, and must
/// not be cut.
pub fn cell(text: Option<&str>) -> String {
    let straight = text.unwrap_or_default().chars();
    let straight = straight.filter(|c| !sanitize::turns(*c));
    let short: String = straight
        .take(500)
        .map(|c| if sanitize::acts(c) { ' ' } else { c })
        .collect();
    let formula = [
        '=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}',
    ];
    if short.trim_start().starts_with(formula) {
        format!("'{short}")
    } else if short.starts_with('"') {
        // RFC 4180 section 2: a cell that begins with a quote is quoted whole.
        format!("\"{}\"", short.replace('"', "\"\""))
    } else {
        short
    }
}
