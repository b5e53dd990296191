//! What the publishers of archived pages state for whole hosts: the robots.txt, tdmrep.json and RSL
//! files in the same archives, read as a crawl reads them.

use std::collections::HashMap;

use crate::address::{HostKey, PageUrl};
use crate::archive::captures::Captures;
use crate::archive::http::Response;
use crate::crawl::pipeline::{Caps, Shelf};
use crate::frontier::TermsFiles;
use crate::page::{Fetched, HostTerms, Outcome, TaskKind, Terms};
use crate::tool_error::ToolError;
use crate::web::extract::{self, Options};
use crate::web::robots::{Robots, in_utf8};

/// The product token whose groups of a robots.txt count.
const AGENT: &str = "spoor";

/// The most hosts that are remembered. Pages of one host are mostly near each other.
const MOST_HOSTS: usize = 10_000;

/// The longest file that is read, in bytes.
const CAP: usize = 1 << 20;

/// The words of the hosts of an archive.
pub(super) struct HostWords<'c> {
    shelf: Shelf<&'c Captures>,
    /// By host and scheme.
    known: HashMap<(HostKey, String), (Robots, TermsFiles)>,
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
        }
    }

    /// What the files of its host state about an address, also those of the RSL files that its page
    /// names.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the archive that cannot be read.
    pub(super) fn terms(&mut self, url: &PageUrl, page: &Response) -> Result<Terms, ToolError> {
        let key = (url.host_key(), url.scheme().to_owned());
        let (robots, mut files) = match self.known.remove(&key) {
            Some(known) => known,
            None => (self.robots(url)?, TermsFiles::default()),
        };
        let named = named_rsl(url, page);
        let of_host = HostTerms {
            rsl: files.known_rsl(url),
            ..HostTerms::default()
        };
        files.want(&of_host.unknown(&named, url));
        let files = self.read(files, &key.0, url, &robots)?;
        let host = HostTerms {
            stated: files.terms(&robots, url),
            rsl: files.known_rsl(url),
            on_way: Terms::default(),
        };
        if self.known.len() >= MOST_HOSTS {
            self.known.clear();
        }
        self.known.insert(key, (robots, files));
        Ok(host.then(named))
    }

    fn robots(&self, url: &PageUrl) -> Result<Robots, ToolError> {
        let Ok(file) = url.join("/robots.txt") else {
            return Ok(Robots::allow_all());
        };
        let (_, fetched) = self.answer(&file, TaskKind::Robots)?;
        Ok(fetched.map_or_else(Robots::allow_all, |fetched| {
            Robots::parse(AGENT, &in_utf8(&fetched))
        }))
    }

    /// Reads the files that were not read before.
    fn read(
        &self,
        mut files: TermsFiles,
        host: &HostKey,
        url: &PageUrl,
        robots: &Robots,
    ) -> Result<TermsFiles, ToolError> {
        let scheme = if url.scheme() == "https" {
            "https"
        } else {
            "http"
        };
        // Everything is read once, so there is no time.
        let now = 1;
        while let Some((file, asked)) =
            files.next_request((host, scheme), robots, (true, true), u64::MAX, now)
        {
            let (outcome, fetched) = self.answer(&file, asked.kind())?;
            let body = fetched.map(|fetched| in_utf8(&fetched)).unwrap_or_default();
            (_, files) = files.after(host, &asked, &outcome, &body, now);
        }
        Ok(files)
    }

    fn answer(
        &self,
        url: &PageUrl,
        kind: TaskKind,
    ) -> Result<(Outcome, Option<Box<Fetched>>), ToolError> {
        Ok(self.shelf.host_file(url, kind)?.stored.into_outcome(kind))
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
