//! What the publishers of archived pages state for whole hosts: the robots.txt, tdmrep.json and RSL
//! files in the same archives, read as a crawl reads them.

use std::collections::HashMap;

use crate::address::{HostKey, PageUrl};
use crate::archive::captures::Captures;
use crate::archive::http::Response;
use crate::crawl::pipeline::{Caps, Shelf, Stored};
use crate::frontier::TermsFiles;
use crate::page::{HostTerms, TaskKind, Terms};
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

/// The words of the hosts of an archive. If their files were captured several times, the strictest
/// words count, because a page is used later than it was captured.
pub(super) struct HostWords<'c> {
    shelf: Shelf<&'c Captures>,
    /// By host and scheme, the files at each of several times.
    known: HashMap<(HostKey, &'static str), Vec<(Robots, TermsFiles)>>,
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
        let mut known = match self.known.remove(&key) {
            Some(known) => known,
            None => self.robots(url)?,
        };
        let named = named_rsl(url, page);
        let mut all = Terms::default();
        let (mut version, mut versions) = (0, 1);
        while version < versions {
            if version == known.len() {
                let last = known.last().map(|(robots, _)| robots.clone());
                known.push((last.unwrap_or_default(), TermsFiles::default()));
            }
            let Some((robots, files)) = known.get_mut(version) else {
                break;
            };
            let of_host = HostTerms {
                rsl: files.known_rsl(url),
                ..HostTerms::default()
            };
            files.want(&of_host.unknown(&named, url), u64::MAX, NOW);
            let captures = self.read(files, (&key.0, scheme), robots, version)?;
            versions = versions.max(captures).max(known.len());
            let Some((robots, files)) = known.get(version) else {
                break;
            };
            let host = HostTerms {
                stated: files.terms(robots, url),
                rsl: files.known_rsl(url),
                on_way: Terms::default(),
            };
            let then = host.then(named.clone());
            all = if version == 0 {
                then
            } else {
                all.at_all_times(then)
            };
            version += 1;
        }
        if self.known.len() >= MOST_HOSTS || self.bytes > MOST_BYTES {
            self.known.clear();
            self.bytes = 0;
        }
        self.known.insert(key, known);
        Ok(all)
    }

    /// The different rules of a host, with none of its other files.
    fn robots(&mut self, url: &PageUrl) -> Result<Vec<(Robots, TermsFiles)>, ToolError> {
        let mut all = Vec::new();
        if let Ok(file) = url.join("/robots.txt") {
            for stored in self.shelf.all(&file, TaskKind::Robots, MOST_VERSIONS)? {
                let (_, fetched) = self.shelf.followed(stored)?.into_outcome(TaskKind::Robots);
                if let Some(fetched) = fetched {
                    self.bytes += fetched.body.len();
                    let robots = Robots::parse(AGENT, &in_utf8(&fetched));
                    all.push((robots, TermsFiles::default()));
                }
            }
        }
        if all.is_empty() {
            all.push((Robots::allow_all(), TermsFiles::default()));
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
        version: usize,
    ) -> Result<usize, ToolError> {
        let mut captures = 0;
        while let Some((file, asked)) =
            files.next_request((host, scheme), robots, (true, true), u64::MAX, NOW)
        {
            let kind = asked.kind();
            let mut all = self.shelf.all(&file, kind, MOST_VERSIONS)?;
            captures = captures.max(all.len());
            all.truncate(version + 1);
            let stored = all.pop().unwrap_or(Stored::Missing);
            let (outcome, fetched) = stored.into_outcome(kind);
            let body = fetched.map(|fetched| in_utf8(&fetched)).unwrap_or_default();
            self.bytes += body.len();
            let read = std::mem::take(files);
            (_, *files) = read.after(host, &asked, &outcome, &body, NOW);
        }
        Ok(captures)
    }
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
