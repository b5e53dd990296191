//! The text of an address, and where its parts are in it.

use std::ops::Range;

use url::{Position, Url};

/// A canonical address by its parts. [`Url`] has more parts than such an address can have, and
/// takes twice the memory: a crawl holds an address for each link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AddressParts {
    /// At most [`super::MAX_URL_BYTES`] long, so that positions take two bytes.
    text: Box<str>,
    host: Range<u16>,
    /// The port, if it is not the default of the scheme.
    port: Option<u16>,
    path: u16,
    /// Where the `?` is, or the end of the text.
    query: u16,
    /// Whether no label of the host is empty.
    pub(super) has_labels: bool,
}

impl AddressParts {
    /// The parts of a canonical URL that is short enough.
    pub(super) fn of(url: Url) -> Self {
        let place = |position| small(url[..position].len());
        let host = place(Position::BeforeHost)..place(Position::AfterHost);
        let (path, query) = (place(Position::BeforePath), place(Position::AfterPath));
        let has_labels = !url
            .host_str()
            .unwrap_or_default()
            .split('.')
            .any(str::is_empty);
        Self {
            host,
            port: url.port(),
            path,
            query,
            has_labels,
            text: String::from(url).into(),
        }
    }

    /// The address with another path and query. The text begins with a path; its query, with the
    /// `?`, begins at `query`.
    pub(super) fn with_path(&self, path: &[&str], query: usize) -> Self {
        let origin = self.origin();
        let mut text =
            String::with_capacity(origin.len() + path.iter().map(|p| p.len()).sum::<usize>());
        text.push_str(origin);
        path.iter().for_each(|part| text.push_str(part));
        Self {
            text: text.into(),
            host: self.host.clone(),
            port: self.port,
            path: self.path,
            query: small(origin.len() + query),
            has_labels: self.has_labels,
        }
    }

    /// An address that was written canonically, with its host (without port) and its path and query
    /// at these positions.
    pub(super) fn written(text: &str, host: Range<usize>, query: usize) -> Self {
        Self {
            text: text.into(),
            path: small(host.end),
            host: small(host.start)..small(host.end),
            port: None,
            query: small(query),
            has_labels: true,
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Scheme, host and port.
    pub(super) fn origin(&self) -> &str {
        &self.text[..usize::from(self.path)]
    }

    pub(super) fn scheme(&self) -> &str {
        if self.text.starts_with("https:") {
            "https"
        } else {
            "http"
        }
    }

    pub(super) fn host(&self) -> &str {
        &self.text[usize::from(self.host.start)..usize::from(self.host.end)]
    }

    /// The host, and the port that is not the default.
    pub(super) fn authority(&self) -> &str {
        &self.text[usize::from(self.host.start)..usize::from(self.path)]
    }

    pub(super) fn port(&self) -> Option<u16> {
        self.port
    }

    pub(super) fn path(&self) -> &str {
        &self.text[usize::from(self.path)..usize::from(self.query)]
    }

    pub(super) fn path_and_query(&self) -> &str {
        &self.text[usize::from(self.path)..]
    }

    pub(super) fn query(&self) -> Option<&str> {
        self.text.get(usize::from(self.query) + 1..)
    }
}

fn small(at: usize) -> u16 {
    u16::try_from(at).unwrap_or(u16::MAX)
}
