//! The demo web: some six hundred small pages on some sixty hosts, for a first
//! crawl without the internet and for tests that need a web with known labels.
//!
//! Every sentence was written for this project. Two topics have their own communities:
//! `lighthouses`, which the demo follows, and `beekeeping`, which must be distinguished from it;
//! the others are cooking, football, gardening, software, councils and taxes. The structure is that
//! of a small web: directories with mixed links, islands that can only be reached through a
//! descriptive anchor on a dull page, anchors that say "click here", two link farms, an endless
//! calendar, dead links, redirects, robots.txt of several kinds, old charsets.
//!
//! Reading order: `bank` (sentences, slots, random numbers), `sites` (the table of hosts), `plan`
//! (pages), `foreign` (four pages in other languages), `links` (the structure), `render` (HTML and
//! images), `training` (what a model is trained on). The texts are next to the code, one sentence
//! per line.
//!
//! Everything is generated with fixed seeds, so the web is the same to the byte on every
//! machine. It does not know the crawler, and the training texts share no sentence with
//! the pages.

mod bank;
mod foreign;
mod links;
mod plan;
mod render;
mod sites;
mod training;
mod warc;

#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::tree::{Lab, LabError, MemoryTree};

/// The topic that the demo follows, as the labels name it.
pub const TOPIC: &str = "lighthouses";

/// The topic that must be distinguished from it.
pub const OTHER_TOPIC: &str = "beekeeping";

/// A page of the demo web.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemoPage {
    /// Its address.
    pub url: String,
    /// Its host.
    pub host: String,
    /// Its path, beginning with `/`; a folder's page ends in `/`.
    pub path: String,
    /// The HTML as served, in the charset it declares.
    pub body: Vec<u8>,
    /// Its topics as the judge reads them, such as `lighthouses:2`, `-` for none.
    pub label: String,
}

/// An image that pages of the demo web embed; the lab draws it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemoImage {
    /// Its address.
    pub url: String,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// How many pages embed it.
    pub pages: u32,
    /// Topics of the first page that embeds it.
    pub topics: String,
    /// The `alt` there, empty if absent.
    pub alt: String,
}

/// The whole demo web.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemoWeb {
    /// Every page, those of a host together.
    pub pages: Vec<DemoPage>,
    /// Every robots.txt that exists: host and text. The other hosts answer 404.
    pub robots: Vec<(String, String)>,
    /// Address and location of every redirect.
    pub redirects: Vec<(String, String)>,
    /// Every image.
    pub images: Vec<DemoImage>,
    /// The labels of all pages as a table for [`super::Labels::parse`].
    pub labels: String,
    /// The seeds of a crawl: a directory, a page on topic, two off topic.
    pub seeds: Vec<String>,
    /// Linked addresses that answer 404 on purpose.
    pub missing: Vec<String>,
    /// On-topic pages that a robots.txt forbids: no polite crawl finds them.
    pub hidden: Vec<String>,
}

/// Texts for training a model of the topic: file names and texts, with one sentence per
/// line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Training {
    /// About lighthouses.
    pub positive: Vec<(String, String)>,
    /// About the other subjects.
    pub neutral: Vec<(String, String)>,
}

/// Generates the demo web, in some milliseconds and always the same.
pub fn web() -> DemoWeb {
    let mut pages = plan::pages();
    let roads = links::connect(&mut pages);
    let mut images = render::Images::new();
    let mut labels = "url\ttopics\n".to_owned();
    let mut out = Vec::with_capacity(pages.len());
    for page in &pages {
        let url = page.url();
        row(&mut labels, &[&url, &page.label]);
        out.push(DemoPage {
            body: render::html(page, &mut images),
            url,
            host: page.site.host.to_owned(),
            path: page.path.clone(),
            label: page.label.clone(),
        });
    }
    let first = |host: &str, on_topic: bool| {
        let mut of_host = pages.iter().filter(|page| page.site.host == host);
        let wanted = |page: &&plan::Page| !on_topic || page.kind == plan::Kind::Article;
        of_host.find(wanted).map(plan::Page::url)
    };
    let seeds = [
        first("gateway.test", false),
        first("lanternroom.test", true),
        first("ottermouth-council.test", false),
        first("bytewise.test", false),
    ];
    let hidden = pages.iter().filter(|page| page.hidden && page.on_topic());
    DemoWeb {
        robots: sites::SITES
            .iter()
            .filter_map(|site| Some((site.host.to_owned(), site.robots?.to_owned())))
            .collect(),
        redirects: roads.redirects,
        images: images.into_values().collect(),
        labels,
        seeds: seeds.into_iter().flatten().collect(),
        missing: roads.missing.into_iter().collect(),
        hidden: hidden.map(plan::Page::url).collect(),
        pages: out,
    }
}

/// The training texts, some fifty sentences per file.
///
/// They are short reference texts, written separately from the pages, together with the
/// share of the banks that no page uses.
pub fn training() -> Training {
    training::texts()
}

impl DemoWeb {
    /// The web as a tree that [`Lab::from_memory`] serves.
    pub fn tree(&self) -> MemoryTree {
        let mut tree = MemoryTree::default();
        for page in &self.pages {
            tree.insert(&page.host, &page.path, page.body.clone());
        }
        for (host, text) in &self.robots {
            tree.insert(host, "/robots.txt", text.clone());
        }
        for (url, location) in &self.redirects {
            tree.redirect(url, location);
        }
        for image in &self.images {
            tree.image(&image.url, image.width, image.height);
        }
        tree
    }

    /// The web, ready to be served.
    pub fn lab(&self) -> Lab {
        Lab::from_memory(self.tree())
    }

    /// Writes the web as a folder that [`Lab::open`] serves: the pages under
    /// their hosts, `redirects.tsv`, `images.tsv`, `labels_public.tsv`,
    /// `seeds/lighthouses.txt`, and the training texts under `train/positive/`
    /// and `train/neutral/`. Files of the same names are overwritten.
    ///
    /// # Errors
    /// [`LabError::Io`] names the file that cannot be written.
    pub fn write_to(&self, dir: impl AsRef<Path>) -> Result<(), LabError> {
        let dir = dir.as_ref();
        for page in &self.pages {
            let mut path = page.path.trim_start_matches('/').to_owned();
            if path.is_empty() || path.ends_with('/') {
                path.push_str("index.html");
            }
            put(&dir.join(&page.host).join(path), &page.body)?;
        }
        for (host, text) in &self.robots {
            put(&dir.join(host).join("robots.txt"), text.as_bytes())?;
        }
        let mut table = "url\tlocation\n".to_owned();
        for (url, location) in &self.redirects {
            row(&mut table, &[url, location]);
        }
        put(&dir.join("redirects.tsv"), table.as_bytes())?;
        let mut table = "url\twidth\theight\tkind\ton_disk\tpages\ttopics\talt\n".to_owned();
        for image in &self.images {
            let [width, height, pages] =
                [image.width, image.height, image.pages].map(|n| n.to_string());
            row(
                &mut table,
                &[
                    &image.url,
                    &width,
                    &height,
                    "generated",
                    "0",
                    &pages,
                    &image.topics,
                    &image.alt,
                ],
            );
        }
        put(&dir.join("images.tsv"), table.as_bytes())?;
        put(&dir.join("labels_public.tsv"), self.labels.as_bytes())?;
        let seeds = self.seeds.join("\n") + "\n";
        put(
            &dir.join("seeds").join(format!("{TOPIC}.txt")),
            seeds.as_bytes(),
        )?;
        let training = training();
        for (folder, texts) in [
            ("positive", training.positive),
            ("neutral", training.neutral),
        ] {
            for (name, text) in texts {
                put(&dir.join("train").join(folder).join(name), text.as_bytes())?;
            }
        }
        Ok(())
    }
}

fn row(table: &mut String, columns: &[&str]) {
    // Writing to a String cannot fail.
    writeln!(table, "{}", columns.join("\t")).unwrap_or_default();
}

fn put(file: &Path, bytes: &[u8]) -> Result<(), LabError> {
    let write = || {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(file, bytes)
    };
    write().map_err(|source| LabError::Io {
        path: file.to_owned(),
        source,
    })
}
