//! The judge: counts how many of a crawl's fetches were on topic.
//!
//! It reads labels and a list of addresses in the order of fetching, nothing else. It must
//! never be accessible to a running crawl.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::tree::{LabError, read_table};
use crate::address::PageUrl;

/// How close a page is to a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relevance {
    /// Not about it, or without a label.
    None,
    /// Touches it; does not count as found.
    Related,
    /// About it.
    OnTopic,
}

/// The labels of a web: for every page the topics it belongs to.
#[derive(Debug, Clone, Default)]
pub struct Labels {
    pages: HashMap<String, Vec<(String, Relevance)>>,
}

/// The result of a crawl for one topic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TopicVerdict {
    /// Judged fetches, at most the requested number.
    pub fetches: usize,
    /// Pages on topic among them, each counted once.
    pub on_topic: usize,
    /// `on_topic / fetches`, 0 to 1; 0 if nothing was fetched.
    pub share: f64,
    /// On-topic pages in the whole web.
    pub known: usize,
}

impl Labels {
    /// Reads a table with a header row and the columns url and topics, the latter as in
    /// `bees:2,tax:1` (2 on topic, 1 related; commas or spaces between several) or `-` for
    /// none.
    ///
    /// # Errors
    ///
    /// [`LabError::Io`] if the file cannot be read, [`LabError::Table`] for an invalid
    /// row.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, LabError> {
        let path = path.as_ref();
        // `read_table` treats a missing table as empty, which would here give every crawl
        // a share of 0.
        std::fs::metadata(path).map_err(|source| LabError::Io {
            path: path.to_owned(),
            source,
        })?;
        let mut labels = Self::default();
        read_table(path, |columns| labels.row(columns))?;
        Ok(labels)
    }

    /// Parses the same table from text.
    ///
    /// # Errors
    ///
    /// The line number, from 1, and the problem.
    pub fn parse(table: &str) -> Result<Self, String> {
        let mut labels = Self::default();
        for (i, line) in table.lines().enumerate().skip(1) {
            if !line.is_empty() {
                let columns: Vec<&str> = line.split('\t').collect();
                labels
                    .row(&columns)
                    .map_err(|what| format!("line {}: {what}", i + 1))?;
            }
        }
        Ok(labels)
    }

    fn row(&mut self, columns: &[&str]) -> Result<(), String> {
        let [url, topics, ..] = columns else {
            return Err("two columns are expected: url, topics".to_owned());
        };
        let url = PageUrl::parse(url).map_err(|e| e.to_string())?;
        let mut of_page = Vec::new();
        for topic in topics
            .split([',', ' '])
            .filter(|t| !t.is_empty() && *t != "-")
        {
            let (name, relevance) = match topic.rsplit_once(':') {
                Some((name, "2")) => (name, Relevance::OnTopic),
                Some((name, "1")) => (name, Relevance::Related),
                _ => return Err(format!("`{topic}` is not a topic with :1 or :2")),
            };
            of_page.push((name.to_owned(), relevance));
        }
        self.pages.insert(url.as_str().to_owned(), of_page);
        Ok(())
    }

    /// How close the page at `url` is to `topic`.
    pub fn relevance(&self, url: &str, topic: &str) -> Relevance {
        let Ok(url) = PageUrl::parse(url) else {
            return Relevance::None;
        };
        self.pages
            .get(url.as_str())
            .and_then(|topics| topics.iter().find(|(name, _)| name == topic))
            .map_or(Relevance::None, |(_, relevance)| *relevance)
    }

    /// Whether the page at `url` is about `topic`; related pages are not.
    pub fn on_topic(&self, url: &str, topic: &str) -> bool {
        self.relevance(url, topic) == Relevance::OnTopic
    }

    /// How many pages of the web are about `topic`.
    pub fn known(&self, topic: &str) -> usize {
        self.pages
            .values()
            .filter(|topics| topics.contains(&(topic.to_owned(), Relevance::OnTopic)))
            .count()
    }

    /// How many pages have a label, including `-`.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Whether no page has a label.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The number of on-topic pages found after each fetch, in order: element `i` belongs
    /// to the first `i + 1` fetches. A page fetched again counts as a fetch but not as
    /// found again.
    pub fn curve<S: AsRef<str>>(
        &self,
        topic: &str,
        fetched: impl IntoIterator<Item = S>,
    ) -> Vec<usize> {
        let mut found = HashSet::new();
        fetched
            .into_iter()
            .map(|url| {
                if let Ok(url) = PageUrl::parse(url.as_ref())
                    && self.on_topic(url.as_str(), topic)
                {
                    found.insert(url);
                }
                found.len()
            })
            .collect()
    }

    /// Judges the first `n` of `fetched`, the addresses in order of fetching; redirects
    /// and failures must be in the list, because each costs a fetch.
    pub fn judge<S: AsRef<str>>(
        &self,
        topic: &str,
        fetched: impl IntoIterator<Item = S>,
        n: usize,
    ) -> TopicVerdict {
        let curve = self.curve(topic, fetched.into_iter().take(n));
        let (fetches, on_topic) = (curve.len(), curve.last().copied().unwrap_or(0));
        TopicVerdict {
            fetches,
            on_topic,
            share: if fetches == 0 {
                0.0
            } else {
                on_topic as f64 / fetches as f64
            },
            known: self.known(topic),
        }
    }
}
