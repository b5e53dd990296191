//! The whole frontier as lines of JSON: export, import, and what they make
//! possible: conversion, compaction by rewriting, and repair.
//!
//! A line is one fact: the counters, a host, a robots.txt, a URL, a context, a
//! numbered page, an errand, a prefix, a domain. Queues, waiting lists and the index
//! of simhashes are not among them, because they follow from the records of the URLs;
//! importing builds them anew, and counts anew as well. So an import is consistent whatever the export was, and a
//! damaged store is repaired by exporting what can still be read.

use std::io::{BufRead, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::change::{class_of, rank_of};
use super::codec;
use super::contexts::{pack, unpack};
use super::keys::{self, Rank, class};
use super::record::{
    Counts, FORMAT, HostRecord, Meta, PrefixRecord, RobotsErrand, State, UrlRecord,
};
use super::store::{Batch, Store, StoreError};
use crate::address::{HostKey, PageUrl};
use crate::page::{Bucket, ImageContext, TaskKind};

/// Lines written in one batch while importing.
const BATCH_LINES: usize = 2_000;

/// Why an archive cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The archive's file failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line is no fact of a frontier.
    #[error("{}:{line}: {why}; this is no frontier archive, or a damaged one", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// The archive was written by another version.
    #[error("{}: format {found}, this spoor reads format {FORMAT}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The format found.
        found: u32,
    },
}

/// One line of an archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
enum Fact {
    Meta {
        #[serde(flatten)]
        meta: Meta,
    },
    Host {
        host: HostKey,
        #[serde(flatten)]
        record: HostRecord,
    },
    Robots {
        host: HostKey,
        scheme: String,
        body: String,
    },
    Url {
        url: PageUrl,
        kind: TaskKind,
        #[serde(flatten)]
        record: UrlRecord,
    },
    Context {
        image: PageUrl,
        context: Box<ImageContext>,
    },
    Document {
        id: u64,
        url: String,
    },
    Errand {
        host: HostKey,
        bucket: Bucket,
        seq: u64,
        #[serde(flatten)]
        errand: RobotsErrand,
    },
    Prefix {
        host: HostKey,
        prefix: String,
        #[serde(flatten)]
        record: PrefixRecord,
    },
    Domain {
        domain: String,
        documents: u64,
    },
}

/// What an export or a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// URLs that were read.
    pub urls: u64,
    /// Hosts that were read.
    pub hosts: u64,
    /// Keys, printable, whose records could not be read; at most 100 of them.
    pub damaged: Vec<String>,
    /// How many records could not be read.
    pub damaged_count: u64,
    /// Why reading ended before the end of the store, if it did.
    pub cut_short: Option<String>,
}

impl Found {
    fn damage(&mut self, key: &[u8]) {
        self.damaged_count += 1;
        if self.damaged.len() < 100 {
            self.damaged.push(key.escape_ascii().to_string());
        }
    }
}

/// Writes every fact of `store` as a line to `out`; what cannot be read is left
/// out and reported.
///
/// # Errors
/// [`ArchiveError::Io`] where `out` fails, named by `path`.
pub fn export(
    store: &dyn Store,
    out: &mut dyn Write,
    path: &std::path::Path,
) -> Result<Found, ArchiveError> {
    let mut found = Found::default();
    let mut failed = None;
    let mut line_out = |fact: &Fact| -> std::io::Result<()> {
        let mut line = serde_json::to_vec(fact).map_err(std::io::Error::other)?;
        line.push(b'\n');
        out.write_all(&line)
    };
    let counters = store.get(keys::META);
    if !matches!(&counters, Ok(Some(bytes)) if read(keys::META, bytes).is_some()) {
        // Everything else can do without; an importer counts anew.
        found.damage(keys::META);
        let meta = Meta::default();
        line_out(&Fact::Meta { meta }).map_err(|source| ArchiveError::Io {
            path: path.to_owned(),
            source,
        })?;
    }
    // Counters come first, so that an importer knows the format.
    for prefix in [b"M", b"H", b"B", b"D", b"U", b"C", b"Q", b"P", b"G"] {
        let scanned = store.scan(prefix, &[], &mut |key, value| {
            if prefix == b"Q" && !is_errand(key) {
                return ControlFlow::Continue(());
            }
            let Some(fact) = read(key, value) else {
                if prefix != b"M" {
                    found.damage(key);
                }
                return ControlFlow::Continue(());
            };
            match &fact {
                Fact::Url { .. } => found.urls += 1,
                Fact::Host { .. } => found.hosts += 1,
                _ => {}
            }
            match line_out(&fact) {
                Ok(()) => ControlFlow::Continue(()),
                Err(source) => {
                    failed = Some(source);
                    ControlFlow::Break(())
                }
            }
        });
        if let Some(source) = failed {
            let path = path.to_owned();
            return Err(ArchiveError::Io { path, source });
        }
        if let Err(error) = scanned {
            found.cut_short = Some(error.to_string());
        }
    }
    Ok(found)
}

/// Fills an empty store from the lines of `input`.
///
/// # Errors
/// [`ArchiveError`] names the line; the store is then incomplete and must be
/// thrown away.
pub fn import(
    store: &mut dyn Store,
    input: &mut dyn BufRead,
    path: &std::path::Path,
) -> Result<Found, ArchiveError> {
    let mut building = Building::default();
    let mut line = String::new();
    let mut number = 0;
    loop {
        line.clear();
        let read = input
            .read_line(&mut line)
            .map_err(|source| ArchiveError::Io {
                path: path.to_owned(),
                source,
            })?;
        if read == 0 {
            break;
        }
        number += 1;
        let wrong = |why: String| ArchiveError::Line {
            path: path.to_owned(),
            line: number,
            why,
        };
        let fact: Fact = serde_json::from_str(&line).map_err(|e| wrong(e.to_string()))?;
        if number == 1 {
            match &fact {
                Fact::Meta { meta } if meta.format == FORMAT => {}
                Fact::Meta { meta } => {
                    return Err(ArchiveError::Version {
                        path: path.to_owned(),
                        found: meta.format,
                    });
                }
                _ => return Err(wrong("the first line is not the counters".to_owned())),
            }
        }
        building.add(store, fact)?;
        if number % BATCH_LINES == 0 {
            store.apply(std::mem::take(&mut building.batch))?;
        }
    }
    building.finish(store)
}

/// Copies every pair of one store into another, empty one.
///
/// # Errors
/// [`StoreError`] where one of them fails.
pub fn copy(from: &dyn Store, to: &mut dyn Store) -> Result<u64, StoreError> {
    let mut pairs = 0;
    let mut batch = Batch::default();
    let mut in_batch = 0;
    let mut failed = None;
    from.scan(&[], &[], &mut |key, value| {
        batch.put(key.to_vec(), value.to_vec());
        pairs += 1;
        in_batch += 1;
        if in_batch == BATCH_LINES {
            in_batch = 0;
            if let Err(error) = to.apply(std::mem::take(&mut batch)) {
                failed = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    to.apply(batch)?;
    to.flush()?;
    Ok(pairs)
}

#[derive(Default)]
struct Building {
    batch: Batch,
    meta: Meta,
    counts: Counts,
    found: Found,
    highest_seq: u64,
    highest_id: u64,
}

impl Building {
    fn add(&mut self, store: &dyn Store, fact: Fact) -> Result<(), StoreError> {
        match fact {
            Fact::Meta { meta } => self.meta = meta,
            Fact::Host { host, record } => {
                self.found.hosts += 1;
                let bytes = codec::encode(store, &record)?;
                self.batch.put(keys::host(&host), bytes);
            }
            Fact::Robots { host, scheme, body } => {
                let key = keys::robots_body(&host, &scheme);
                self.batch.put(key, body.into_bytes());
            }
            Fact::Url { url, kind, record } => self.url(store, &url, kind, record)?,
            Fact::Context { image, context } => {
                let image = keys::url(&image, TaskKind::Image);
                let packed = pack(store, &image, &context)?;
                self.batch.put(keys::context(&image, &context.page), packed);
            }
            Fact::Document { id, url } => {
                self.highest_id = self.highest_id.max(id);
                self.batch.put(keys::document(id), url.into_bytes());
            }
            Fact::Errand {
                host,
                bucket,
                seq,
                errand,
            } => {
                self.highest_seq = self.highest_seq.max(seq);
                let key = keys::queue(&host, class::ROBOTS, &Rank::new(bucket, 0.0, seq));
                self.batch.put(key, codec::encode(store, &errand)?);
            }
            Fact::Prefix {
                host,
                prefix,
                record,
            } => {
                let key = keys::prefix(&host, &prefix);
                self.batch.put(key, codec::encode(store, &record)?);
            }
            Fact::Domain { domain, documents } => {
                let bytes = codec::encode(store, &documents)?;
                self.batch.put(keys::domain(&domain), bytes);
            }
        }
        Ok(())
    }

    fn url(
        &mut self,
        store: &dyn Store,
        url: &PageUrl,
        kind: TaskKind,
        record: UrlRecord,
    ) -> Result<(), StoreError> {
        let key = keys::url(url, kind);
        let rank = rank_of(&record);
        let is_image = kind == TaskKind::Image;
        self.found.urls += 1;
        self.highest_seq = self.highest_seq.max(record.seq);
        match &record.state {
            State::Queued => {
                let host = url.host_key();
                self.batch
                    .put(keys::queue(&host, class_of(kind), &rank), key.clone());
            }
            State::Waiting { due } => self.batch.put(keys::waiting(*due, &rank), key.clone()),
            State::Done { id } => {
                self.highest_id = self.highest_id.max(*id);
                if let Some(simhash) = record.simhash {
                    let host = url.host_key();
                    for band in 0..4 {
                        let key = keys::simhash(&host, band, simhash);
                        self.batch.put(key, codec::encode(store, id)?);
                    }
                }
            }
            State::Redirected { id, .. } => self.highest_id = self.highest_id.max(*id),
            State::Dropped { .. } => {}
        }
        tally(&mut self.counts, &record, is_image);
        self.batch.put(key, codec::encode(store, &record)?);
        Ok(())
    }

    fn finish(mut self, store: &mut dyn Store) -> Result<Found, ArchiveError> {
        let counts = Counts {
            // What no URL tells.
            fetches: self.meta.counts.fetches,
            bytes: self.meta.counts.bytes,
            ..self.counts
        };
        let meta = Meta {
            next_seq: self.meta.next_seq.max(self.highest_seq + 1),
            next_id: self.meta.next_id.max(self.highest_id + 1),
            clean: false,
            counts,
            ..self.meta
        };
        let bytes = codec::encode(store, &meta)?;
        self.batch.put(keys::META.to_vec(), bytes);
        store.apply(self.batch)?;
        store.flush()?;
        Ok(self.found)
    }
}

/// Counts a URL by its state.
pub(super) fn tally(counts: &mut Counts, record: &UrlRecord, is_image: bool) {
    match &record.state {
        State::Queued if is_image => counts.queued_images += 1,
        State::Queued => counts.queued[record.bucket as usize] += 1,
        State::Waiting { .. } => counts.waiting += 1,
        State::Done { .. } if is_image => counts.images += 1,
        State::Done { .. } => counts.documents += 1,
        State::Redirected { .. } => {}
        State::Dropped { reason } => *counts.dropped.entry(*reason).or_default() += 1,
    }
}

fn is_errand(key: &[u8]) -> bool {
    keys::host_of_queue_key(key)
        .is_some_and(|host| key.starts_with(&keys::queue_class(&host, class::ROBOTS)))
}

/// The fact that a pair stands for; `None` where it cannot be read.
fn read(key: &[u8], value: &[u8]) -> Option<Fact> {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    Some(match key.first()? {
        b'M' => Fact::Meta {
            meta: postcard::from_bytes(value).ok()?,
        },
        b'H' => Fact::Host {
            host: HostKey::from_stored(&text(key.get(1..)?)?),
            record: postcard::from_bytes(value).ok()?,
        },
        b'B' => {
            let (host, scheme) = keys::parts_of_robots_key(key)?;
            Fact::Robots {
                host,
                scheme: scheme.to_owned(),
                body: String::from_utf8_lossy(value).into_owned(),
            }
        }
        b'D' => Fact::Document {
            id: u64::from_be_bytes(key.get(1..9)?.try_into().ok()?),
            url: text(value)?,
        },
        b'U' => {
            let (url, kind) = keys::url_of_key(key)?;
            Fact::Url {
                url,
                kind,
                record: postcard::from_bytes(value).ok()?,
            }
        }
        b'C' => {
            let context = unpack(value).ok()?;
            let page = context.page.as_str().len();
            let image = key.get(1..key.len().checked_sub(page + 1)?)?;
            Fact::Context {
                image: keys::url_of_key(image)?.0,
                context: Box::new(context),
            }
        }
        b'P' => {
            let (host, prefix) = keys::parts_of_prefix_key(key)?;
            Fact::Prefix {
                host,
                prefix,
                record: postcard::from_bytes(value).ok()?,
            }
        }
        b'G' => Fact::Domain {
            domain: text(key.get(1..)?)?,
            documents: postcard::from_bytes(value).ok()?,
        },
        b'Q' => {
            let rank = Rank::of_key(key)?;
            Fact::Errand {
                host: keys::host_of_queue_key(key)?,
                bucket: rank.bucket,
                seq: rank.seq,
                errand: postcard::from_bytes(value).ok()?,
            }
        }
        _ => return None,
    })
}
