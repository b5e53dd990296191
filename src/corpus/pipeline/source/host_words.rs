//! What the publishers of archived pages state for whole hosts: the robots.txt, tdmrep.json and RSL
//! files in the same archives, read as a crawl reads them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use bytes::Bytes;

use crate::address::{HostKey, PageUrl};
use crate::archive::captures::Captures;
use crate::archive::http::Response;
use crate::crawl::pipeline::{Caps, Shelf, Stored};
use crate::frontier::TermsFiles;
use crate::page::{HostTerms, MAX_RSL_FILES, Outcome, TaskKind, Terms};
use crate::tool_error::ToolError;
use crate::web::extract::{self, Options};
use crate::web::robots::{Robots, in_utf8};

/// The product token whose groups of a robots.txt count.
const AGENT: &str = "spoor";

/// All files are read once, so there is no other time.
const NOW: u64 = 1;

/// The most hosts that are remembered, and the most bytes of their files. Pages of one host are
/// mostly near each other.
const MOST_HOSTS: usize = 10_000;
const MOST_BYTES: usize = 64 << 20;

/// The longest file that is read, in bytes.
const CAP: usize = 1 << 20;

/// The most different captures of a file that count.
const MOST_VERSIONS: usize = 20;

/// The files of a host at each of several times, for each of its different robots.txt.
type Versions = Vec<(Robots, Vec<TermsFiles>)>;

/// The answers for a host's files, by address, each different one once.
type Captured = HashMap<String, Vec<(Outcome, Bytes)>>;

/// The words of the hosts of an archive. If their files were captured several times, the strictest
/// words count, because a page is used later than it was captured.
pub(super) struct HostWords<'c> {
    shelf: Shelf<&'c Captures>,
    /// By host and scheme.
    known: HashMap<(HostKey, &'static str), Versions>,
    /// Of the files that were read for these.
    bytes: usize,
}

impl<'c> HostWords<'c> {
    /// Those of the hosts in `captures`.
    pub(super) fn of(captures: &'c Captures) -> Self {
        let caps = Caps {
            page: CAP,
            image: CAP,
            sitemap: CAP,
        };
        Self {
            shelf: Shelf::new(captures, caps),
            known: HashMap::new(),
            bytes: 0,
        }
    }

    /// What the files of its host state about an address, also those of the RSL files that its page
    /// names.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the archive that cannot be read.
    pub(super) fn terms(&mut self, url: &PageUrl, page: &Response) -> Result<Terms, ToolError> {
        let scheme = if url.scheme() == "https" {
            "https"
        } else {
            "http"
        };
        let key = (url.host_key(), scheme);
        let mut versions = match self.known.remove(&key) {
            Some(known) => known,
            None => self.robots(url)?,
        };
        let named = named_rsl(url, page);
        let mut captured = Captured::new();
        let mut all: Option<Terms> = None;
        for (robots, times) in &mut versions {
            let mut number = 0;
            let mut most = 1;
            while number < most {
                let mut files = times
                    .get_mut(number)
                    .map(std::mem::take)
                    .unwrap_or_default();
                if files.rsl_len() >= MAX_RSL_FILES {
                    // Those that other pages named; to read them again costs no request.
                    files.forget((&key.0, scheme), robots, 0, NOW);
                }
                let of_host = HostTerms {
                    rsl: files.known_rsl(url),
                    ..HostTerms::default()
                };
                files.want(&of_host.unknown(&named, url), u64::MAX, NOW);
                let captures = self.read(
                    &mut files,
                    (&key.0, scheme),
                    robots,
                    (number, &mut captured),
                )?;
                let host = HostTerms {
                    stated: files.terms(robots, url),
                    rsl: files.known_rsl(url),
                    on_way: Terms::default(),
                };
                let stated = host.then(named.clone());
                all = Some(match all {
                    Some(all) => all.at_all_times(stated),
                    None => stated,
                });
                match times.get_mut(number) {
                    Some(known) => *known = files,
                    None => times.push(files),
                }
                most = most.max(captures).max(times.len());
                number += 1;
            }
        }
        if self.known.len() >= MOST_HOSTS || self.bytes > MOST_BYTES {
            self.known.clear();
            self.bytes = 0;
        }
        self.known.insert(key, versions);
        Ok(all.unwrap_or_default())
    }

    /// The different rules of a host, with none of its other files.
    fn robots(&mut self, url: &PageUrl) -> Result<Versions, ToolError> {
        let mut all = Vec::new();
        if let Ok(file) = url.join("/robots.txt") {
            for stored in self.shelf.all(&file, TaskKind::Robots, MOST_VERSIONS)? {
                let (_, fetched) = self.shelf.followed(stored)?.into_outcome(TaskKind::Robots);
                if let Some(fetched) = fetched {
                    let robots = Robots::parse(AGENT, &in_utf8(&fetched));
                    self.bytes += robots.size();
                    all.push((robots, Vec::new()));
                }
            }
        }
        if all.is_empty() {
            all.push((Robots::allow_all(), Vec::new()));
        }
        Ok(all)
    }

    /// Reads the captures with this number of the files that were not read before; if a file has
    /// fewer, its last one. Returns how many the file with most of them has.
    fn read(
        &mut self,
        files: &mut TermsFiles,
        (host, scheme): (&HostKey, &'static str),
        robots: &Robots,
        (number, captured): (usize, &mut Captured),
    ) -> Result<usize, ToolError> {
        let mut most = 0;
        while let Some((file, asked)) =
            files.next_request((host, scheme), robots, (true, true), u64::MAX, NOW)
        {
            let answers = match captured.entry(file.to_string()) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(answers(&self.shelf, &file, asked.kind())?),
            };
            most = most.max(answers.len());
            let missing = (Stored::Missing.into_outcome(asked.kind()).0, Bytes::new());
            let (outcome, body) = answers.get(number).or(answers.last()).unwrap_or(&missing);
            self.bytes += body.len();
            (_, *files) = std::mem::take(files).after(host, &asked, outcome, body, NOW);
        }
        Ok(most)
    }
}

/// The different answers of a file.
fn answers(
    shelf: &Shelf<&Captures>,
    file: &PageUrl,
    kind: TaskKind,
) -> Result<Vec<(Outcome, Bytes)>, ToolError> {
    let all = shelf.all(file, kind, MOST_VERSIONS)?.into_iter();
    let all = all.map(|stored| {
        let (outcome, fetched) = stored.into_outcome(kind);
        let body = fetched.map(|fetched| in_utf8(&fetched));
        (outcome, body.unwrap_or_default())
    });
    Ok(all.collect())
}

/// The RSL files that a page names. Most pages name none, and are not read for that.
fn named_rsl(url: &PageUrl, page: &Response) -> Terms {
    const MARK: &[u8] = b"rsl+xml";
    let options = Options::default();
    let mut terms = extract::header_terms(url, &page.terms(), &options);
    if memchr::memmem::find(&page.body, MARK).is_some()
        && let Ok(read) = extract::extract(url, &page.clone().into_fetched(), &options)
    {
        terms = terms.then(read.terms);
    }
    Terms {
        rsl: terms.rsl,
        ..Terms::default()
    }
}
