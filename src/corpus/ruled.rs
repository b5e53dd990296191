//! Applies rules to stored pages: files, and the responses of archives.

use std::io::Write;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use scraper::Html;

use crate::address::PageUrl;
use crate::archive::files;
use crate::archive::http::Response;
use crate::archive::reader::{Item, Reader};
use crate::archive::record::{Kind, Record};
use crate::fs::{IoError, atomic};
use crate::page::Fetched;
use crate::rules::{Event, LoggedPage, Page, RuleSet, Seen, Watch};
use crate::tool_error::ToolError;
use crate::web::extract::{self, Options};

/// The longest body that is read, in bytes: as in a crawl. Longer ones are cut.
const MAX_BODY: usize = 10 << 20;

/// A stored page.
#[derive(Debug)]
pub struct StoredPage {
    /// Its address.
    pub url: PageUrl,
    /// The day on which it was fetched.
    pub day: Option<Date>,
    /// Its decoded markup.
    pub markup: String,
    /// The same, parsed.
    pub html: Html,
}

impl StoredPage {
    /// The page as rules see it.
    pub fn as_page(&self) -> Page<'_> {
        Page {
            url: &self.url,
            markup: &self.markup,
            html: &self.html,
            day: self.day,
        }
    }

    /// The page in a file.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the file.
    pub fn of_file(path: &Path, url: &PageUrl) -> Result<Self, ToolError> {
        let body = crate::fs::read(path).map_err(IoError::at(path, "reading"))?;
        let fetched = Fetched {
            status: 200,
            content_type: None,
            terms: Default::default(),
            validators: Default::default(),
            body: body.into(),
            truncated: false,
            elapsed: Default::default(),
            date: None,
        };
        let page = Self::of(url, &fetched, &Options::default(), None);
        let none = "is no HTML page, or one with too many elements";
        page.ok_or_else(|| ToolError::at(path, none))
    }

    /// The page in a response; `None` if it is not text, or too large or too deep for a tree.
    pub fn of(
        url: &PageUrl,
        fetched: &Fetched,
        options: &Options,
        day: Option<Date>,
    ) -> Option<Self> {
        let markup = extract::markup(url, fetched, options)?;
        let html = extract::tree(&markup, options)?;
        Some(Self {
            url: url.clone(),
            day,
            markup,
            html,
        })
    }
}

/// Writes a rule file or a page of an example atomically.
///
/// # Errors
///
/// [`ToolError`] names the file.
pub fn save(path: &Path, text: &str) -> Result<(), ToolError> {
    let written = atomic::write(path, |file| file.write_all(text.as_bytes()));
    Ok(written.map_err(IoError::at(path, "writing"))?)
}

/// Calls `each` with the pages of archives whose address is `wanted`, in the order of the
/// files, until it returns false. Damage is skipped.
///
/// # Errors
///
/// [`ToolError`] names the file.
pub fn each_page(
    paths: &[PathBuf],
    wanted: impl Fn(&PageUrl) -> bool,
    mut each: impl FnMut(StoredPage) -> bool,
) -> Result<(), ToolError> {
    each_answer(paths, wanted, |answer| answer.page.is_none_or(&mut each))
}

/// Monitors the rules over archives, as if a job had fetched their pages: the state of the hosts
/// in each week, and the changes from week to week.
///
/// # Errors
///
/// [`ToolError`] names the file.
pub fn watched(paths: &[PathBuf], rules: &RuleSet) -> Result<(Watch, Vec<Event>), ToolError> {
    let mut watch = Watch::unordered();
    // Requests of a crawl for anything but pages are not monitored.
    let wanted = |url: &PageUrl| rules.covers(url) && url.path() != "/robots.txt";
    each_answer(paths, wanted, |answer| {
        let is_read = (200..=299).contains(&answer.status);
        if is_read && answer.page.is_none() {
            return true;
        }
        let page = answer.page.as_ref();
        let applied = page.and_then(|page| rules.apply(&page.as_page()));
        let host = answer.url.host_key();
        let time = answer.time.map(|time| time.to_string()).unwrap_or_default();
        let page = LoggedPage {
            time: &time,
            url: answer.url.as_str(),
            host: host.as_str(),
            status: Some(answer.status),
            reason: None,
            applied: applied.as_ref(),
        };
        watch.see(&Seen::of(&page, true));
        true
    })?;
    let events = watch.judged();
    Ok((watch, events))
}

/// The response.
struct RuledAnswer {
    url: PageUrl,
    time: Option<Timestamp>,
    status: u16,
    /// The page, if the request succeeded and it is one.
    page: Option<StoredPage>,
}

fn each_answer(
    paths: &[PathBuf],
    wanted: impl Fn(&PageUrl) -> bool,
    mut each: impl FnMut(RuledAnswer) -> bool,
) -> Result<(), ToolError> {
    for path in files::listed(paths)? {
        let file = crate::fs::open(&path).map_err(IoError::at(&path, "opening"))?;
        let mut reader = Reader::new(file, &path);
        while let Some(item) = reader.next_item()? {
            let Item::Record(mut entry) = item else {
                continue;
            };
            let url = page_of(&entry.record).filter(&wanted);
            let response = url.map(|url| (url, Response::read(&mut entry, MAX_BODY)));
            if entry.finish()?.is_none() {
                continue;
            }
            let Some((url, Ok(response))) = response else {
                continue;
            };
            let status = response.status;
            let time = entry.record.timestamp();
            let day = time.map(|time| time.to_zoned(TimeZone::UTC).date());
            let page = (200..=299)
                .contains(&status)
                .then(|| StoredPage::of(&url, &response.into_fetched(), &Options::default(), day));
            let answer = RuledAnswer {
                url,
                time,
                status,
                page: page.flatten(),
            };
            if !each(answer) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The address of a record, if it is a response.
fn page_of(record: &Record) -> Option<PageUrl> {
    let is_response = record.kind == Kind::Response && record.is_http();
    let uri = record.uri.as_deref().filter(|_| is_response)?;
    PageUrl::parse(uri).ok()
}
