//! Rows: a finished task in `logs/crawl.jsonl`, an image and its context in
//! `images.tsv`.

use std::path::Path;

use serde::Serialize;

use super::output::{Form, Output, Position};
use super::{OutputError, Sidecar, Table, TextPlace, undo};
use crate::address::UrlId;
use crate::page::{
    DocumentScore, ImageContext, Likelihood, LinkParts, TaskKind, Terms, TextScore, TextShare,
};
use crate::sanitize;

/// A finished task a line.
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

/// An image in one context a row.
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
#[derive(Debug, Clone, Serialize)]
pub struct Row<'a> {
    /// When it was finished, RFC 3339 in UTC.
    pub time: &'a str,
    /// Its number among the finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// What was asked for.
    pub kind: TaskKind,
    /// Its address.
    pub url: &'a str,
    /// By what the other log, `spoor.DATE.jsonl`, knows the address.
    pub url_id: UrlId,
    /// The page on which the address was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<&'a str>,
    /// Links from the nearest seed.
    pub hops: u32,
    /// HTTP status, where one was received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Bytes of the decoded body.
    pub bytes: u64,
    /// From sending the request to the last byte, in milliseconds.
    pub ms: u64,
    /// When the journey of the request began, in milliseconds since 1970 by the
    /// frontier's clock; never later than it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<u64>,
    /// The pause between two requests that its host was due, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<u64>,
    /// The media type as sent, without parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime: Option<&'a str>,
    /// The encoding that a page was decoded with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charset: Option<&'a str>,
    /// Priority class at the time of the lease.
    pub bucket: &'static str,
    /// Score at the time of the lease, lower is better.
    pub score: f64,
    /// True where it was drawn for the control sample, and not chosen by its score.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub control: bool,
    /// What the score was made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<LinkParts>,
    /// Rating of the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<DocumentScore>,
    /// Whether the page is on topic rather than not; absent where no page came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_topic: Option<bool>,
    /// How likely it is on topic, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_topic_probability: Option<Likelihood>,
    /// True where both are a guess, as the model knows too little text to judge by: no
    /// neutral text, or too few sentences about the topic.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub on_topic_guessed: bool,
    /// Title of the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<&'a str>,
    /// Which part of the document's text was rated and kept, by which extractor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<TextShare>,
    /// Language that the document declares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<&'a str>,
    /// Language that its text was recognised to be in, an ISO 639 code, where that is
    /// certain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recognised: Option<&'static str>,
    /// True where that is another one than the model's.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub foreign: bool,
    /// True where that is none of `text.languages`, so that nothing of it was kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub off_language: bool,
    /// What is said of the use of the page or image, where anything is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terms: Option<&'a Terms>,
    /// What of it forbade to keep the page's sentences, its images or both.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub forbidden: &'a [&'static str],
    /// True where the body was longer than the cap.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Path of the image below the job's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<&'a str>,
    /// Where the sentences of the page lie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sentences: Option<&'a TextPlace>,
    /// Where the document of the page lies, in `documents/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<&'a TextPlace>,
    /// Where it pointed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect: Option<&'a str>,
    /// Of an image: the address of the same picture where there was none, so that this one
    /// was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<&'a str>,
    /// Images of a page that were left out because they are SVGs by name.
    #[serde(skip_serializing_if = "is_zero")]
    pub svgs: u32,
    /// The page fetched before that this one names as its canonical address; nothing
    /// of this one was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate_of: Option<&'a str>,
    /// The page fetched before that this one is a near copy of by its text; its
    /// links were not followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub near_copy_of: Option<&'a str>,
    /// `done`, `unchanged`, `redirected`, `retrying`, `postponed` or `dropped`.
    pub outcome: &'static str,
    /// Where a page was visited again: whether its text is another one than at the
    /// visit before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
    /// Why it is not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// The error in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out references"
)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Row<'_> {
    /// The row as JSON in one line, as it stands in the log.
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

/// What all rows of an image in `images.tsv` begin with.
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

/// The image file and the page that a row of `images.tsv` names; `None` for the
/// header and for a row that a crash cut short before it named both.
pub(super) fn file_and_page(row: &str) -> Option<(&str, &str)> {
    let mut cells = row.split('\t');
    let file = cells.nth(1).filter(|f| f.starts_with("images/"))?;
    let page = cells.nth(4)?;
    // The cell after it is there, so this one is whole.
    cells.next().map(|_| (file, page))
}

/// One cell of running text: no tabs or line ends, nothing that acts on a terminal, at
/// most 500 characters, and nothing that a spreadsheet would take for a formula (also
/// behind blanks, and in the wide forms that some take as well) or for the beginning
/// of a quoted cell. Addresses and paths are no running text: they contain nothing of
/// this, and are of no use in a part.
pub(crate) fn cell(text: Option<&str>) -> String {
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
