//! Figures of the stored pages of archives: the same tables of encodings, types, languages
//! and hosts as in the report of a crawl.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::report::{Table, count, on_terminal, shares};
use crate::address::PageUrl;
use crate::archive::check;
use crate::archive::http::Response;
use crate::archive::pack::Page;
use crate::archive::reader::{Item, Reader, RecordEntry};
use crate::archive::record::{Kind, Record};
use crate::crawl::figures::{Counted, NameTally};
use crate::page::Extractor;
use crate::web::extract::{self, Options, extract};

/// The longest body that is read, in bytes: as in a crawl. Longer ones are cut.
const MAX_BODY: usize = 8 << 20;
/// The most rows of a table.
const TOP: usize = 20;
/// The name under which missing values are counted.
const UNKNOWN: &str = "unknown";
/// Upper bounds of the classes of body sizes, in bytes.
const SIZES: [(usize, &str); 6] = [
    (1 << 10, "under 1 KiB"),
    (10 << 10, "1 to 10 KiB"),
    (100 << 10, "10 to 100 KiB"),
    (1 << 20, "100 KiB to 1 MiB"),
    (MAX_BODY, "1 to 8 MiB"),
    (usize::MAX, "8 MiB and more"),
];

/// What is stored in archives.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Stored {
    /// The files.
    pub files: u64,
    /// Records that were read to their ends.
    pub records: u64,
    /// Records that contain an HTTP response which could be read.
    pub responses: u64,
    /// The decoded bytes of their bodies, at most 8 MiB of each.
    pub body_bytes: u64,
    /// Responses that could not be read, and why.
    pub unreadable: Counted,
    /// Gaps in the files; `spoor archive check` lists them.
    pub gaps: u64,
    /// Files that could not be read to their end, and why.
    pub failed: Vec<String>,
    /// Responses by status.
    pub statuses: Counted,
    /// Responses by media type, as declared.
    pub media: Counted,
    /// Text by declared character encoding: by the server, the page, or the crawler.
    pub encodings: Counted,
    /// Pages with status 200 by the language of their text.
    pub languages: Counted,
    /// Responses by host.
    pub hosts: Counted,
    /// Responses by the year in which they were captured.
    pub years: Counted,
    /// Responses by the size of their decoded body, the smallest first.
    pub sizes: Vec<(&'static str, u64)>,
}

/// The same during counting.
#[derive(Debug, Default)]
struct AmountCounter {
    stored: Stored,
    unreadable: NameTally,
    statuses: NameTally,
    media: NameTally,
    encodings: NameTally,
    languages: NameTally,
    hosts: NameTally,
    years: NameTally,
    sizes: [u64; SIZES.len()],
}

/// What the list of pages of a WACZ says of a page.
pub fn page_of(url: &str, response: Response) -> Page {
    let page = PageUrl::parse(url).ok().and_then(|url| {
        let options = Options {
            documents: Some(Extractor::Main),
            ..options()
        };
        extract(&url, &response.into_fetched(), &options).ok()
    });
    page.map_or_else(Page::default, |page| Page {
        title: page.title,
        text: page.main.map(|main| main.text),
    })
}

/// Counts what is stored in files, on all cores.
///
/// # Errors
///
/// The first file whose size cannot be read. Other read errors are reported in
/// [`Stored::failed`].
pub fn stored(files: &[PathBuf]) -> std::io::Result<Stored> {
    let all = check::on_all_cores(files, "reading archives", |path, read| {
        let mut counting = AmountCounter::default();
        if let Err(error) = counting.read(path, read) {
            counting.stored.failed.push(error);
        }
        counting
    })?;
    let mut sum = AmountCounter::default();
    all.into_iter().for_each(|counting| sum.merge(counting));
    Ok(sum.finish())
}

impl AmountCounter {
    fn read(&mut self, path: &Path, read: &dyn Fn(u64)) -> Result<(), String> {
        let file = crate::fs::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        self.stored.files += 1;
        let mut reader = Reader::new(file, path);
        let mut before = 0;
        loop {
            let item = reader.next_item().map_err(|error| error.to_string())?;
            match item {
                None => break,
                Some(Item::Gap(_)) => self.stored.gaps += 1,
                Some(Item::Record(entry)) => self.record(entry)?,
            }
            let position = reader.position();
            read(position - before);
            before = position;
        }
        read(reader.position() - before);
        Ok(())
    }

    fn record(&mut self, mut entry: RecordEntry<'_, File>) -> Result<(), String> {
        let is_response = entry.record.kind == Kind::Response && entry.record.is_http();
        let response = is_response.then(|| Response::read(&mut entry, MAX_BODY));
        let finished = entry.finish().map_err(|error| error.to_string())?;
        // A truncated record is reported as a gap.
        if finished.is_none() {
            return Ok(());
        }
        self.stored.records += 1;
        match response {
            None => {}
            Some(Ok(response)) => self.response(&entry.record, response),
            Some(Err(error)) => self.unreadable.add(&error.to_string()),
        }
        Ok(())
    }

    fn response(&mut self, record: &Record, response: Response) {
        let length = response.body.len();
        self.stored.responses += 1;
        self.stored.body_bytes += length as u64;
        let place = SIZES.iter().position(|(limit, _)| length < *limit);
        if let Some(size) = self.sizes.get_mut(place.unwrap_or(SIZES.len() - 1)) {
            *size += 1;
        }
        self.statuses.add(&response.status.to_string());
        let year = record
            .timestamp()
            .map(|time| time.strftime("%Y").to_string());
        self.years.add(year.as_deref().unwrap_or(UNKNOWN));
        let media = response.all("content-type").into_iter().next();
        let media = media.as_deref().and_then(|media| media.split(';').next());
        let media = media.unwrap_or_default().trim().to_ascii_lowercase();
        self.media
            .add(if media.is_empty() { UNKNOWN } else { &media });
        let url = record
            .uri
            .as_deref()
            .and_then(|uri| PageUrl::parse(uri).ok());
        let host = url.as_ref().map(|url| url.host_key());
        self.hosts
            .add(host.as_ref().map_or(UNKNOWN, |host| host.as_str()));
        let stated = response.charset();
        let is_text = media.starts_with("text/") || media.contains("xml") || media.is_empty();
        if !is_text {
            return;
        }
        let mut charset = stated;
        if let (200, Some(url)) = (response.status, url)
            && let Ok(page) = extract(&url, &response.into_fetched(), &options())
        {
            charset = charset.or(page.declared_charset);
            let language = page.recognised.map(|language| language.code());
            self.languages.add(language.unwrap_or(UNKNOWN));
        }
        let charset = charset.map(|charset| charset.to_ascii_lowercase());
        self.encodings.add(charset.as_deref().unwrap_or(UNKNOWN));
    }

    fn merge(&mut self, other: Self) {
        let Self { stored, .. } = other;
        self.stored.files += stored.files;
        self.stored.records += stored.records;
        self.stored.responses += stored.responses;
        self.stored.body_bytes += stored.body_bytes;
        self.stored.gaps += stored.gaps;
        self.stored.failed.extend(stored.failed);
        self.unreadable.merge(other.unreadable);
        self.statuses.merge(other.statuses);
        self.media.merge(other.media);
        self.encodings.merge(other.encodings);
        self.languages.merge(other.languages);
        self.hosts.merge(other.hosts);
        self.years.merge(other.years);
        for (sum, more) in self.sizes.iter_mut().zip(other.sizes) {
            *sum += more;
        }
    }

    fn finish(self) -> Stored {
        let names = SIZES.iter().map(|(_, name)| *name);
        Stored {
            unreadable: self.unreadable.finish(TOP),
            statuses: self.statuses.finish(TOP),
            media: self.media.finish(TOP),
            encodings: self.encodings.finish(TOP),
            languages: self.languages.finish(TOP),
            hosts: self.hosts.finish(TOP),
            years: self.years.finish(TOP),
            sizes: names.zip(self.sizes).collect(),
            ..self.stored
        }
    }
}

/// Only the text and the encoding are wanted.
fn options() -> Options {
    Options {
        max_links: 0,
        max_images: 0,
        ..extract::Options::default()
    }
}

fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let head = head.iter().map(|name| (*name).to_owned()).collect();
    on_terminal(&Table { head, rows })
}

impl Stored {
    /// The tables, for a terminal.
    pub fn text(&self) -> String {
        let row = |name: &str, n: u64| vec![name.to_owned(), count(n)];
        let rows = vec![
            row("files", self.files),
            row("records", self.records),
            row("responses", self.responses),
            row("bytes of bodies", self.body_bytes),
            row("gaps", self.gaps),
        ];
        let mut out = table(&["archives", ""], rows);
        for (name, counted) in [
            ("status", &self.statuses),
            ("encoding", &self.encodings),
            ("type", &self.media),
            ("language", &self.languages),
            ("host", &self.hosts),
            ("year", &self.years),
            ("not readable", &self.unreadable),
        ] {
            let table = shares(counted, name);
            if !table.is_empty() {
                out.push('\n');
                out.push_str(&table);
            }
        }
        let sizes = self.sizes.iter().filter(|(_, n)| *n > 0);
        let rows: Vec<_> = sizes.map(|(name, n)| row(name, *n)).collect();
        if !rows.is_empty() {
            out.push('\n');
            out.push_str(&table(&["size of a body", "number"], rows));
        }
        for failed in &self.failed {
            out.push_str(&format!(
                "\nnot read to its end: {}\n",
                crate::sanitize::shown(failed)
            ));
        }
        out
    }
}
