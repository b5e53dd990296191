//! The responses of any number of files, by address. An index of their places is in memory,
//! with 16 bytes per response (up to 48 while it is built); records are read when requested.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Take};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use super::chosen::Chosen;
use super::files::ArchiveFile;
use super::http::{Cap, Response};
use super::pieces::Pieces;
use super::reader::{Item, Reader, RecordEntry};
use super::record::{Kind, Record, Spot, Spots};
use super::revisit::{Seen, is_unmodified};
use crate::address::PageUrl;
use crate::progress::Step;
use crate::tool_error::ToolError;

/// The interval of progress reports, in bytes.
const EVERY: u64 = 1 << 20;
/// The most captures of one address that are examined.
const MOST: usize = 64;

/// One response of the server for an address.
#[derive(Debug)]
pub struct Capture {
    /// The address.
    pub url: PageUrl,
    /// When it was requested, in milliseconds since 1970; `None` if the record has no date.
    pub date: Option<u64>,
    /// The response, or why the record has none.
    pub response: Result<Response, ToolError>,
}

/// The responses of some files, by address.
#[derive(Debug)]
pub struct Captures {
    files: Vec<ArchiveFile>,
    /// By the hash of the address, and for each address in the order of the files.
    places: Vec<(u64, u64)>,
    spots: Spots,
    seen: Seen,
    /// The size of the files in bytes.
    bytes: u64,
    first: Option<u64>,
    chosen: Chosen,
}

/// The captures in one file.
#[derive(Default)]
struct FileCaptures {
    places: Pieces<(u64, u64)>,
    spots: Spots,
    seen: Seen,
    first: Option<u64>,
}

impl Captures {
    /// Reads files to their ends, several at once. Damage is skipped.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the file.
    pub fn of(files: Vec<PathBuf>) -> Result<Self, ToolError> {
        Self::of_files(files.into_iter().map(ArchiveFile::whole).collect())
    }

    fn of_files(files: Vec<ArchiveFile>) -> Result<Self, ToolError> {
        let mut bytes = 0_u64;
        for file in &files {
            bytes = bytes.saturating_add(file.length()?);
        }
        let step = Mutex::new(Step::begin("bytes indexed", Some(bytes)));
        let numbered = (0..).zip(&files).collect::<Vec<(u32, &ArchiveFile)>>();
        let scanned = numbered
            .into_par_iter()
            .map(|(number, file)| scan(file, number, |more| lock(&step).advance(more)));
        let found = scanned.collect::<Result<Vec<FileCaptures>, ToolError>>()?;
        drop(step);
        let mut all = Self {
            files: Vec::new(),
            places: Vec::new(),
            spots: Spots::default(),
            seen: Seen::default(),
            bytes,
            first: None,
            chosen: Chosen::default(),
        };
        let responses: usize = found.iter().map(|one| one.places.len()).sum();
        all.places.reserve_exact(responses);
        for one in found {
            all.seen.append(one.seen);
            all.add(one.places, &one.spots);
            all.first = match (all.first, one.first) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        all.seen.sort();
        // Packed spots are in order within a file, except those in members with many records.
        let Self { places, spots, .. } = &mut all;
        places.sort_unstable_by_key(|(key, packed)| (*key, spots.unpack(*packed)));
        all.files = files;
        Ok(all)
    }

    /// The chosen captures. They may refer to others.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the file.
    pub fn of_chosen(chosen: Chosen) -> Result<Self, ToolError> {
        let mut all = Self::of_files(chosen.files.clone())?;
        let Self { places, spots, .. } = &mut all;
        places.retain(|(_, packed)| spots.unpack(*packed).is_some_and(|spot| chosen.has(spot)));
        places.shrink_to_fit();
        let found = places
            .iter()
            .filter_map(|(_, packed)| spots.unpack(*packed));
        for (file, missing, named) in chosen.missing(found) {
            tracing::warn!(
                "{}: at {missing} of {named} places that the index names there is no response, so \
                 these are left out; make the index again with `spoor archive index`",
                file.name().display()
            );
        }
        all.chosen = chosen;
        Ok(all)
    }

    /// Whether the capture at a place is included.
    pub fn has(&self, spot: Spot) -> bool {
        self.chosen.has(spot)
    }

    fn add(&mut self, places: Pieces<(u64, u64)>, spots: &Spots) {
        for (key, packed) in places {
            if let Some(spot) = spots.unpack(packed) {
                let packed = self.spots.pack(spot);
                self.places.push((key, packed));
            }
        }
    }

    /// The files, in their order.
    pub fn files(&self) -> &[ArchiveFile] {
        &self.files
    }

    /// The size of the files in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many responses and revisits there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are no responses.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The earliest date of a response, in milliseconds since 1970.
    pub fn first(&self) -> Option<u64> {
        self.first
    }

    /// The captures of an address in the order of the files, with at most `cap` bytes of each
    /// body. The iterator reads one at a time.
    pub fn at<'c>(
        &'c self,
        url: &'c PageUrl,
        cap: impl Into<Cap>,
    ) -> impl Iterator<Item = Result<Capture, ToolError>> + 'c {
        let cap = cap.into();
        let all = self.places_of(of_url(url));
        let read = move |(_, packed): &(u64, u64)| {
            let spot = self.spots.unpack(*packed)?;
            self.read(spot, cap).transpose()
        };
        // Another address may have the same hash.
        all.filter_map(read)
            .filter(|capture| capture.as_ref().map_or(true, |c| c.url == *url))
    }

    /// The capture at a place; `None` if none can be read there.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the file.
    pub fn read(&self, spot: Spot, cap: impl Into<Cap>) -> Result<Option<Capture>, ToolError> {
        let cap = cap.into();
        self.with(spot, |entry| self.capture(entry, cap))
            .map(Option::flatten)
    }

    /// The capture in a record: that of a response, or the head of a revisit with the body of the
    /// record that it names. `None` for any other record, and for one that is damaged or has no
    /// valid address.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the file.
    pub fn capture<R: Read>(
        &self,
        entry: &mut RecordEntry<'_, R>,
        cap: impl Into<Cap>,
    ) -> Result<Option<Capture>, ToolError> {
        let cap = cap.into();
        if !has_answer(&entry.record) {
            return Ok(None);
        }
        let uri = entry.record.uri.as_deref().unwrap_or_default();
        let Ok(url) = PageUrl::parse(uri) else {
            return Ok(None);
        };
        let mut response = Response::read(&mut *entry, cap);
        if entry.finish()?.is_none() {
            return Ok(None);
        }
        let record = &entry.record;
        if let Ok(response) = &mut response {
            response.cut |= record.header("warc-truncated").is_some();
        }
        if record.kind == Kind::Revisit
            && let Some(spot) = self.contents_of(record, &url)?
        {
            let original = self.with(spot, |entry| {
                let read = Response::read(&mut *entry, cap);
                let cut = entry.record.header("warc-truncated").is_some();
                Ok(entry.finish()?.map(|_| (read, cut)))
            })?;
            response = match (response, original.flatten()) {
                (Ok(own), Some((Ok(original), cut))) => Ok(Response {
                    body: original.body,
                    truncated: original.truncated,
                    cut: original.cut || cut,
                    ..own
                }),
                // Some writers store no head with a revisit.
                (Err(_), Some((original, _))) => original,
                (own, None | Some(_)) => own,
            };
        }
        Ok(Some(Capture {
            url,
            date: millis_of(record),
            response,
        }))
    }

    /// The record with the contents of a revisit. If the server said that nothing has changed and
    /// the revisit names no record, it is the previous response of the address.
    fn contents_of(&self, revisit: &Record, url: &PageUrl) -> Result<Option<Spot>, ToolError> {
        let named = self.seen.resolve(revisit);
        if named.is_some() || !is_unmodified(revisit) {
            return Ok(named);
        }
        let mut last: Option<(Option<u64>, Spot)> = None;
        for (_, packed) in self.places_of(of_url(url)) {
            let Some(spot) = self.spots.unpack(*packed) else {
                continue;
            };
            let date = self.with(spot, |entry| {
                let record = &entry.record;
                let is_it = record.kind == Kind::Response
                    && record.uri == revisit.uri
                    && millis_of(record) <= millis_of(revisit);
                let date = millis_of(record);
                let has_it =
                    is_it && Response::head(&mut *entry).is_ok_and(|head| head.status != 304);
                Ok(has_it.then_some(date))
            })?;
            if let Some(date) = date.flatten()
                && last.is_none_or(|(before, _)| before <= date)
            {
                last = Some((date, spot));
            }
        }
        Ok(last.map(|(_, spot)| spot))
    }

    /// The places of the captures whose addresses have this hash.
    fn places_of(&self, key: u64) -> impl Iterator<Item = &(u64, u64)> {
        let from = self.places.partition_point(|(known, _)| *known < key);
        let all = self.places.get(from..).unwrap_or_default().iter();
        all.take_while(move |(known, _)| *known == key).take(MOST)
    }

    /// Calls `each` with the record at a place; `None` if there is none.
    fn with<T>(
        &self,
        spot: Spot,
        each: impl Fn(&mut RecordEntry<'_, Take<File>>) -> Result<T, ToolError>,
    ) -> Result<Option<T>, ToolError> {
        let at = usize::try_from(spot.file).unwrap_or(usize::MAX);
        let Some(file) = self.files.get(at) else {
            return Ok(None);
        };
        // A zstd dictionary and the version of an ARC are at the beginning of a file. If a record
        // needs them, the file is read from there.
        for from in [spot.offset, 0] {
            let mut reader = Reader::new(file.open(from)?, file.name());
            while let Some(item) = reader.next_item()? {
                let mut entry = match item {
                    Item::Record(entry) => entry,
                    Item::Gap(_) if from > 0 => break,
                    Item::Gap(_) => continue,
                };
                let here = (
                    entry.record.offset.saturating_add(from),
                    entry.record.inside.unwrap_or_default(),
                );
                if here == (spot.offset, spot.inside) {
                    return each(&mut entry).map(Some);
                }
                if here > (spot.offset, spot.inside) {
                    break;
                }
            }
            if from == 0 {
                break;
            }
        }
        Ok(None)
    }
}

/// Whether a record is a web server's response.
pub fn has_answer(record: &Record) -> bool {
    matches!(record.kind, Kind::Response | Kind::Revisit) && record.is_http()
}

/// The lines of a `metadata` record of the type `application/warc-fields`, by name.
pub fn fields(block: &mut impl Read) -> BTreeMap<String, String> {
    /// The maximum length in bytes; no crawler writes more.
    const MOST: u64 = 64 << 10;
    let mut text = Vec::new();
    // The reader reports damage.
    let _read = block.take(MOST).read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let pairs = pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
    pairs.collect()
}

/// The date of a record in milliseconds since 1970.
fn millis_of(record: &Record) -> Option<u64> {
    let date = record.timestamp()?;
    u64::try_from(date.as_millisecond()).ok()
}

fn of_url(url: &PageUrl) -> u64 {
    xxh3_64(url.as_str().as_bytes())
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads one file.
fn scan(
    file: &ArchiveFile,
    number: u32,
    mut progress: impl FnMut(u64),
) -> Result<FileCaptures, ToolError> {
    let mut found = FileCaptures::default();
    let mut reader = Reader::new(file.open(0)?, file.name());
    let mut before = 0;
    loop {
        let position = reader.position();
        if position.saturating_sub(before) >= EVERY {
            progress(position - before);
            before = position;
        }
        let mut entry = match reader.next_item()? {
            None => break,
            Some(Item::Gap(_)) => continue,
            Some(Item::Record(entry)) => entry,
        };
        if entry.finish()?.is_none() {
            continue;
        }
        let spot = entry.record.spot(number);
        found.seen.add(&entry.record, spot);
        if !has_answer(&entry.record) {
            continue;
        }
        let uri = entry.record.uri.as_deref().unwrap_or_default();
        let Ok(url) = PageUrl::parse(uri) else {
            continue;
        };
        let packed = found.spots.pack(spot);
        found.places.push((of_url(&url), packed));
        if let Some(date) = millis_of(&entry.record) {
            found.first = Some(found.first.map_or(date, |first| first.min(date)));
        }
    }
    progress(reader.position().saturating_sub(before));
    Ok(found)
}
