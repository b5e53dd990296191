//! A dump: the whole frontier as lines of JSON. Conversion, compaction by rewriting, and
//! repair each write a dump and restore a store from it.
//!
//! A line is one fact: the counters, a host, a robots.txt, a tdmrep.json, the RSL files of a host, a URL, a context, a
//! numbered page, an errand, a prefix, a domain, an alt text, a kept file, the addresses that stand
//! in for others, the image ledger, the control sample and its drawn links, the rating of all
//! links. Queues, waiting lists, coming visits, the index of simhashes and the list of links to
//! draw from are omitted, because they follow from the records of the URLs. A restore rebuilds them
//! and counts everything again. So the restored store is always consistent, and a damaged store is
//! repaired by dumping its readable part.

mod building;
mod salvage;

use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use building::Building;
pub(super) use building::tally;
use salvage::scan_around_damage;

use super::cell::{BATCHES, STAMP, place_of};
use super::contexts::unpack;
use super::control_sample::Sample;
use super::host_files::{RslRecord, TdmRecord};
use super::image_ledger::ImageLedger;
use super::images::alts::AltRecord;
use super::keys::{self, Rank, class};
use super::ratings::Scores;
use super::ratings::clues::Example;
use super::record::GroupRecord;
use super::record::{FORMAT, HostRecord, Meta, PrefixRecord, RobotsErrand, UrlRecord};
use super::store::{Batch, Readable, Store, StoreError};
use crate::address::{HostKey, PageUrl};
use crate::fs::atomic::{Durability, Unfinished};
use crate::fs::beneath::JobPath;
use crate::page::{Bucket, Clues, ImageContext, TaskKind};
use crate::progress::Step;
use crate::sanitize;
use crate::tool_error::ToolCause;

/// Most lines written in one batch during a restore.
const BATCH_LINES: usize = 2_000;

/// Most bytes of lines in one batch during a restore, the last line excluded.
const BATCH_BYTES: usize = 16 << 20;

/// The longest line that is read, in bytes. The longest lines that are written hold the
/// state of a learning crawl, or a robots.txt of half a megabyte with every byte escaped.
const MAX_LINE: u64 = 8 << 20;

/// Why a dump cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The dump's file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A line is not a fact of a frontier.
    #[error("{}:{line}: {why}; this is not a dump of a frontier, or it is damaged", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem.
        why: String,
    },
    /// The dump was written by another version.
    #[error("{}: format {found}, this spoor reads format {FORMAT}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The format found.
        found: u32,
    },
}

impl ToolCause for DumpError {}

/// One line of a dump.
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
    Tdmrep {
        host: HostKey,
        scheme: String,
        #[serde(flatten)]
        record: TdmRecord,
    },
    OnWay {
        url: PageUrl,
        kind: TaskKind,
        terms: String,
    },
    Rsl {
        host: HostKey,
        scheme: String,
        files: Vec<(String, RslRecord)>,
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
    /// Found in exports of earlier versions; ignored.
    Instead {},
    /// The image ledger.
    Images {
        #[serde(flatten)]
        record: ImageLedger,
    },
    Document {
        id: u64,
        url: String,
    },
    Group {
        group: String,
        #[serde(flatten)]
        record: GroupRecord,
    },
    /// The host's addresses are to be checked against new robots rules, from the first one:
    /// progress of a check is not exported.
    Recheck {
        host: HostKey,
        scheme: String,
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
    /// An alt text, by its hash.
    Alt {
        host: HostKey,
        alt: u64,
        #[serde(flatten)]
        record: AltRecord,
    },
    Kept {
        sha256: String,
        file: JobPath,
    },
    /// Where a body with this SHA-1 was archived first.
    Body {
        sha1: String,
        place: String,
    },
    /// The control sample; its list follows from the URLs.
    Sample {
        #[serde(flatten)]
        record: Sample,
    },
    /// A link drawn for the control sample.
    Drawn {
        url: PageUrl,
    },
    /// The features of a page in a learning crawl.
    Clues {
        /// Its address.
        url: PageUrl,
        /// The features.
        clues: Clues,
    },
    /// The learned state up to some example, in hexadecimal.
    Learned {
        /// The state as the model serialises it.
        state: String,
    },
    /// An example since that state.
    Example {
        /// Its number.
        number: u64,
        /// The example.
        example: Example,
    },
    /// A part of the state of a learning crawl's judge.
    Judged {
        /// Its place.
        place: u16,
        /// The state as the judge serialises it, in hexadecimal.
        state: String,
    },
    /// The rating of all links, and the progress of a re-rating.
    Scores {
        #[serde(flatten)]
        scores: Scores,
    },
}

/// The findings of a dump or a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// URLs read.
    pub urls: u64,
    /// Hosts read.
    pub hosts: u64,
    /// Printable keys of unreadable records; at most 100 of them.
    pub damaged: Vec<String>,
    /// The number of unreadable records.
    pub damaged_count: u64,
    /// Why a part of the store could not be read at all, if that happened.
    pub cut_short: Option<String>,
}

impl Found {
    /// True if everything was read.
    pub fn is_whole(&self) -> bool {
        self.damaged_count == 0 && self.cut_short.is_none()
    }

    fn damage(&mut self, key: &[u8]) {
        self.damaged_count += 1;
        if self.damaged.len() < 100 {
            self.damaged.push(key.escape_ascii().to_string());
        }
    }
}

/// Writes every fact of `store` as a line to `out`. Unreadable records are left out and
/// reported.
///
/// # Errors
/// [`DumpError::Io`] if `out` fails, named by `path`.
pub fn write(store: &dyn Readable, out: &mut dyn Write, path: &Path) -> Result<Found, DumpError> {
    let mut found = Found::default();
    let mut failed = None;
    let mut line_out = |fact: &Fact| -> std::io::Result<()> {
        let line = serde_json::to_string(fact).map_err(std::io::Error::other)?;
        out.write_all(sanitize::json(&line).as_bytes())?;
        out.write_all(b"\n")
    };
    let counters = store.get(keys::META).ok().flatten();
    let counters = counters.and_then(|bytes| read(keys::META, &bytes));
    // The counters come first, so that a restore knows the format. Their values are not needed: a
    // restore counts again.
    let mut counters = counters.unwrap_or_else(|| {
        found.damage(keys::META);
        let meta = Meta::default();
        Fact::Meta { meta }
    });
    if let Fact::Meta { meta } = &mut counters {
        let mut of_all = |key: &[u8]| {
            let value = store.get(&keys::shared(key));
            value.unwrap_or_else(|_| {
                found.damage(key);
                None
            })
        };
        meta.stamp = of_all(STAMP).unwrap_or_default();
        let batches = place_of(of_all(BATCHES).as_deref());
        meta.commits = meta.commits.max(batches.unwrap_or(0));
    }
    line_out(&counters).map_err(io(path))?;
    let mut step = Step::begin("writing records", None);
    for prefix in keys::FACTS {
        let mut visit = |key: &[u8], value: &[u8]| {
            step.advance(1);
            if prefix == keys::QUEUES && !is_errand(key) {
                return ControlFlow::Continue(());
            }
            let Some(fact) = read(key, value).filter(can_be_written) else {
                found.damage(key);
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
        };
        let unreadable = scan_around_damage(store, prefix, &mut visit);
        if let Some(source) = failed {
            return Err(io(path)(source));
        }
        found.cut_short = found.cut_short.or(unreadable);
    }
    Ok(found)
}

/// Writes every fact of `store` to a compressed file: under a temporary name, synced,
/// then renamed, so that a crash leaves no incomplete file under that name.
///
/// # Errors
/// [`DumpError::Io`]; no file is left then.
pub fn write_file(store: &dyn Readable, file: &Path) -> Result<Found, DumpError> {
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let mut unfinished = Unfinished::begin_at(&part, file).map_err(io(&part))?;
    let mut out = GzEncoder::new(BufWriter::new(unfinished.file()), Compression::fast());
    let found = write(store, &mut out, &part)?;
    let mut inner = out.finish().map_err(io(&part))?;
    inner.flush().map_err(io(&part))?;
    drop(inner);
    unfinished.put(Durability::Synced).map_err(io(file))?;
    Ok(found)
}

/// Fills an empty store from a file of [`write_file`].
///
/// # Errors
/// As [`restore`].
pub fn read_file(store: &mut dyn Store, file: &Path) -> Result<Found, DumpError> {
    let opened = crate::fs::open(file).map_err(io(file))?;
    let mut input = BufReader::new(MultiGzDecoder::new(BufReader::new(opened)));
    restore(store, &mut input, file)
}

/// Fills an empty store from the lines of `input`.
///
/// # Errors
/// [`DumpError`] names the line; the store is then incomplete and must be discarded.
pub fn restore(
    store: &mut dyn Store,
    input: &mut dyn BufRead,
    path: &Path,
) -> Result<Found, DumpError> {
    let mut building = Building::default();
    let mut line = Vec::new();
    let (mut number, mut in_batch) = (0_usize, 0_usize);
    let mut step = Step::begin("reading records", None);
    loop {
        step.advance(1);
        line.clear();
        // A compressed file of about a megabyte can hold a line of a gigabyte.
        let read = (&mut *input)
            .take(MAX_LINE + 1)
            .read_until(b'\n', &mut line);
        let read = read.map_err(io(path))?;
        if read == 0 && number > 0 {
            break;
        }
        number += 1;
        let wrong = |why: String| DumpError::Line {
            path: path.to_owned(),
            line: number,
            why,
        };
        if read as u64 > MAX_LINE {
            return Err(wrong(format!("it is longer than {MAX_LINE} bytes")));
        }
        let fact: Fact = serde_json::from_slice(&line).map_err(|e| wrong(e.to_string()))?;
        if number == 1 {
            match &fact {
                Fact::Meta { meta } if meta.format == FORMAT => {}
                Fact::Meta { meta } => {
                    return Err(DumpError::Version {
                        path: path.to_owned(),
                        found: meta.format,
                    });
                }
                _ => return Err(wrong("the first line is not the counters".to_owned())),
            }
        }
        if let Some(why) = leads_elsewhere(&fact) {
            return Err(wrong(why));
        }
        building.add(store, fact)?;
        if let Some(why) = building.too_large() {
            return Err(wrong(why));
        }
        in_batch += read;
        if number % BATCH_LINES == 0 || in_batch > BATCH_BYTES {
            in_batch = 0;
            store.apply(std::mem::take(&mut building.batch))?;
        }
    }
    building.finish(store)
}

/// Copies every pair of one store into another, empty one.
///
/// # Errors
/// [`StoreError`] if one of them fails.
pub fn copy(from: &dyn Store, to: &mut dyn Store) -> Result<u64, StoreError> {
    let mut pairs = 0;
    let mut batch = Batch::default();
    let mut in_batch = 0;
    let mut failed = None;
    let mut step = Step::begin("copying records", None);
    from.scan(&[], &[], &mut |key, value| {
        step.advance(1);
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

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> DumpError + '_ {
    |source| DumpError::Io {
        path: path.to_owned(),
        source,
    }
}

fn is_errand(key: &[u8]) -> bool {
    keys::host_of_queue_key(key)
        .is_some_and(|host| key.starts_with(&keys::queue_class(&host, class::ROBOTS)))
}

/// Whether a pair can be decoded as a fact.
pub(super) fn is_readable(key: &[u8], value: &[u8]) -> bool {
    read(key, value).is_some()
}

/// Whether a pair holds a score that no rating gives: infinite or NaN.
pub(super) fn holds_no_number(key: &[u8], value: &[u8]) -> bool {
    read(key, value).is_some_and(|fact| !can_be_written(&fact))
}

/// Whether JSON can represent the fact. Damage produces infinite and NaN values, which
/// have no form in JSON; such a line could not be read back.
fn can_be_written(fact: &Fact) -> bool {
    match fact {
        Fact::Url { record, .. } => has_finite_scores(record) && leads_elsewhere(fact).is_none(),
        Fact::Context { context, .. } => is_number(&**context),
        Fact::Images { record } => is_number(record),
        Fact::Clues { clues, .. } => is_number(clues),
        Fact::Example { example, .. } => is_number(example),
        _ => true,
    }
}

/// Why the file named by a record cannot belong to a job. The note of an image is the
/// path of its file; the note of a page has another meaning.
fn leads_elsewhere(fact: &Fact) -> Option<String> {
    match fact {
        Fact::Url {
            kind: TaskKind::Image,
            record,
            ..
        } => {
            let error = JobPath::parse(record.note()?).err()?;
            Some(error.to_string())
        }
        _ => None,
    }
}

/// Whether a value can be read back from its JSON.
fn is_number<T: Serialize + DeserializeOwned>(value: &T) -> bool {
    serde_json::to_vec(value).is_ok_and(|line| serde_json::from_slice::<T>(&line).is_ok())
}

/// Whether the score and its parts are finite, as every rating gives them.
pub(super) fn has_finite_scores(record: &UrlRecord) -> bool {
    let parts = record.parts.as_ref();
    let parts = parts.map_or([0.0; 3], |p| [p.document, p.anchor, p.keyword]);
    record.score.is_finite() && parts.iter().all(|part| part.is_finite())
}

/// The fact of a pair; `None` if it cannot be read.
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
            let (host, scheme) = keys::host_and_scheme(key)?;
            Fact::Robots {
                host,
                scheme: scheme.to_owned(),
                body: String::from_utf8_lossy(value).into_owned(),
            }
        }
        b'T' => {
            let (host, scheme) = keys::host_and_scheme(key)?;
            Fact::Tdmrep {
                host,
                scheme: scheme.to_owned(),
                record: postcard::from_bytes(value).ok()?,
            }
        }
        b'O' => {
            let (url, kind) = keys::url_of_key(key.get(1..)?)?;
            Fact::OnWay {
                url,
                kind,
                terms: text(value)?,
            }
        }
        b'r' => {
            let (host, scheme) = keys::host_and_scheme(key)?;
            Fact::Rsl {
                host,
                scheme: scheme.to_owned(),
                files: postcard::from_bytes(value).ok()?,
            }
        }
        b'A' => Fact::Group {
            group: text(key.get(1..)?)?,
            record: postcard::from_bytes(value).ok()?,
        },
        b'J' => {
            let (host, scheme) = keys::host_and_scheme(key)?;
            Fact::Recheck {
                host,
                scheme: scheme.to_owned(),
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
        b'Z' => Fact::Images {
            record: postcard::from_bytes(value).ok()?,
        },
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
        b'R' => {
            let (host, alt) = keys::parts_of_alt_key(key)?;
            Fact::Alt {
                host,
                alt,
                record: postcard::from_bytes(value).ok()?,
            }
        }
        b'I' => Fact::Kept {
            sha256: keys::sha256_of_key(key)?.to_owned(),
            file: JobPath::parse(&text(value)?).ok()?,
        },
        b'w' => Fact::Body {
            sha1: base16ct::lower::encode_string(&keys::sha1_of_key(key)?),
            place: text(value)?,
        },
        b'S' => Fact::Sample {
            record: postcard::from_bytes(value).ok()?,
        },
        b'K' => Fact::Drawn {
            url: keys::url_of_key(key.get(1..)?)?.0,
        },
        b'E' => Fact::Clues {
            url: keys::url_of_key(key.get(1..)?)?.0,
            clues: postcard::from_bytes(value).ok()?,
        },
        b'X' => Fact::Learned {
            state: base16ct::lower::encode_string(value),
        },
        b'Y' => Fact::Example {
            number: u64::from_be_bytes(key.get(1..9)?.try_into().ok()?),
            example: postcard::from_bytes(value).ok()?,
        },
        b'j' => Fact::Judged {
            place: u16::from_be_bytes(key.get(1..)?.try_into().ok()?),
            state: base16ct::lower::encode_string(value),
        },
        b'L' => Fact::Scores {
            scores: postcard::from_bytes(value).ok()?,
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
