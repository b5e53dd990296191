//! An undivided store becomes cells: the frontier of one machine that is to be crawled by
//! several.
//!
//! Every pair goes where a store that was divided from the beginning would have it:
//!
//! | pairs | where they go |
//! |---|---|
//! | of a host, or of one of its addresses | the host's cell |
//! | of a registered domain | its cell, which all of its hosts share |
//! | of an IP address that backs off | each cell that has a host there |
//! | numbers of finished pages | cell 0, whose numbers are those of an undivided store |
//! | links that the control sample may draw | the host's cell, numbered again |
//! | the rating of all links | every cell |
//! | kept files, archived bodies, what was learned | what all cells share |
//!
//! The counters of a cell are counted again from its addresses. What addresses do not tell has
//! no cell of its own and goes to cell 0: requests, bytes, the time spent crawling, the curve and
//! the debt of the control sample, the image ledger. So the sums over all cells are those of the
//! old store.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::shared::{CellStore, SharedStore};
use crate::address::HostKey;
use crate::frontier::amount::Amount;
use crate::frontier::cell::{COUNT, CellCount, CellId, Home, LEARNED_PLACE, SHARED, STAMP, USED};
use crate::frontier::consistency::{self, Consistency};
use crate::frontier::control_sample::{DrawnLink, Sample};
use crate::frontier::dump::tally;
use crate::frontier::image_ledger::ImageLedger;
use crate::frontier::ledger::check_format;
use crate::frontier::record::{Counts, GroupKey, HostRecord, Meta, UrlRecord};
use crate::frontier::store::{Batch, Readable, Store, StoreError, Visitor};
use crate::frontier::{clock_skew, codec, flush_marker, keys};
use crate::progress::Step;

/// The most pairs and bytes of a batch.
const PAIRS: usize = if cfg!(test) { 50 } else { 4_000 };
const BYTES: usize = 4 << 20;

/// Why a store cannot be divided.
#[derive(Debug, thiserror::Error)]
pub enum DivisionError {
    /// A store failed, is damaged, of another format or divided already.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is nothing in the store.
    #[error("the frontier in {} is empty: there is nothing to divide", .0.display())]
    Empty(PathBuf),
    /// A key is of no class that this version knows.
    #[error(
        "the frontier in {} has the key {key}, which belongs to no host and to nothing else that \
         is known; `spoor frontier check JOB.toml --repair` keeps what can be read",
        path.display()
    )]
    Key {
        /// The store's folder.
        path: PathBuf,
        /// The key, printable.
        key: String,
    },
    /// What came out does not agree with itself, because the old store does not.
    #[error(
        "the frontier in {} does not agree with itself: {problem} ({count} problems); \
         `spoor frontier check JOB.toml --repair` keeps what can be read",
        path.display()
    )]
    Unsound {
        /// The folder of the store that was divided.
        path: PathBuf,
        /// The first problem.
        problem: String,
        /// How many there are.
        count: u64,
    },
}

/// A store that was divided.
pub struct Divided {
    /// The folder of the undivided store.
    from: PathBuf,
    shared: Arc<SharedStore>,
    cells: CellCount,
    /// Addresses.
    pub urls: u64,
    /// Hosts.
    pub hosts: u64,
    /// Cells that have any host.
    pub filled: usize,
    /// The counters of all cells together, which are those of the undivided store.
    pub counts: Counts,
    /// The time that was spent crawling, in milliseconds.
    pub active: u64,
    /// Whether the undivided store was closed in good order: then no request was in flight.
    pub clean: bool,
}

impl Divided {
    /// What of the job's limits was done.
    pub fn used(&self) -> Amount {
        Amount::between(&Counts::default(), &self.counts)
    }

    /// All pairs, for a checkpoint.
    pub fn view(&self) -> Box<dyn Readable> {
        self.shared.snapshot()
    }

    /// Checks every cell by itself, and what all share once.
    ///
    /// # Errors
    /// [`DivisionError::Unsound`] names the first problem.
    pub fn check(&self) -> Result<(), DivisionError> {
        let mut step = Step::begin("checking cells", Some(u64::from(self.cells.number())));
        for cell in self.cells.all() {
            let audit = consistency::check(&self.part(cell))?;
            self.must_be_sound(&audit, &cell.to_string())?;
            step.advance(1);
        }
        Ok(())
    }

    fn must_be_sound(&self, audit: &Consistency, place: &str) -> Result<(), DivisionError> {
        if audit.is_sound() {
            return Ok(());
        }
        let problem = audit.problems.first().cloned().unwrap_or_default();
        Err(DivisionError::Unsound {
            path: self.from.clone(),
            problem: format!("{place}: {problem}"),
            count: audit.count,
        })
    }

    /// A cell, with what all share for the first one only.
    fn part(&self, cell: CellId) -> Part {
        let home = Home {
            cell,
            cells: self.cells,
        };
        let store = CellStore::of(home, Arc::clone(&self.shared));
        Part {
            has_shared: is_first(cell),
            path: self.shared.path().join(cell.number().to_string()),
            store,
        }
    }
}

fn is_first(cell: CellId) -> bool {
    cell.number() == 0
}

/// See [`Divided::part`].
struct Part {
    store: CellStore<Arc<SharedStore>>,
    has_shared: bool,
    /// There is nothing: a marker of flushes would be that of all cells.
    path: PathBuf,
}

impl Readable for Part {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(key)
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError> {
        if !self.has_shared && is_shared(prefix) {
            return Ok(());
        }
        self.store.scan(prefix, from, visit)
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// Divides a store among cells, into an empty store. `learned` is up to where what it has learned
/// counts as having read the lessons of other machines.
///
/// # Errors
/// [`DivisionError`]; what was written is then of no use. The undivided store is never changed.
pub fn divide(
    from: &dyn Readable,
    into: Box<dyn Store>,
    cells: CellCount,
    learned: u64,
) -> Result<Divided, DivisionError> {
    check_format(from)?;
    let empty = || DivisionError::Empty(from.path().to_owned());
    let old: Meta = codec::get(from, keys::META)?.ok_or_else(empty)?;
    flush_marker::check(from.path(), old.commits)?;
    let mut division = Division {
        from,
        cells,
        into: Arc::new(SharedStore::over(into)?),
        batch: Batch::default(),
        pairs: 0,
        bytes: 0,
        parts: cells.all().map(|cell| (cell, One::default())).collect(),
        located: located(from, cells)?,
        last: None,
    };
    let mut step = Step::begin("dividing records", None);
    let mut failed = None;
    from.scan(&[], &[], &mut |key, value| {
        step.advance(1);
        match division.add(key, value) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    match failed {
        Some(error) => Err(error),
        None => division.finish(old, learned),
    }
}

/// What is counted of one cell.
#[derive(Default)]
struct One {
    counts: Counts,
    /// Links that the control sample may draw.
    listed: u64,
    hosts: u64,
    urls: u64,
}

struct Division<'f> {
    from: &'f dyn Readable,
    cells: CellCount,
    into: Arc<SharedStore>,
    batch: Batch,
    pairs: usize,
    bytes: usize,
    parts: BTreeMap<CellId, One>,
    /// The cells with hosts at an address that backs off, by the name of its group.
    located: BTreeMap<String, BTreeSet<CellId>>,
    /// The last host, and its cell: the pairs of a host follow each other.
    last: Option<(Vec<u8>, CellId)>,
}

/// Whether all cells share the pairs under a key.
fn is_shared(key: &[u8]) -> bool {
    let shared = [
        b"I".as_slice(),
        keys::BODIES,
        keys::LEARNED,
        keys::EXAMPLES,
        keys::JUDGED,
    ];
    shared.iter().any(|class| key.starts_with(class))
}

/// The cells with hosts at the addresses that back off.
fn located(
    from: &dyn Readable,
    cells: CellCount,
) -> Result<BTreeMap<String, BTreeSet<CellId>>, StoreError> {
    let mut located: BTreeMap<String, BTreeSet<CellId>> = BTreeMap::new();
    from.scan(keys::GROUPS, &[], &mut |key, _| {
        let name = key.get(1..).unwrap_or_default();
        located.insert(String::from_utf8_lossy(name).into_owned(), BTreeSet::new());
        ControlFlow::Continue(())
    })?;
    if located.is_empty() {
        return Ok(located);
    }
    let mut failed = None;
    from.scan(keys::HOSTS, &[], &mut |key, value| {
        let record: HostRecord = match codec::decode(from, key, value) {
            Ok(record) => record,
            Err(error) => {
                failed = Some(error);
                return ControlFlow::Break(());
            }
        };
        let address = record.located.and_then(|located| located.address);
        let group = address.map(|address| GroupKey::Address(address).to_string());
        if let Some(there) = group.and_then(|group| located.get_mut(&group))
            && let Ok(host) = std::str::from_utf8(key.get(1..).unwrap_or_default())
        {
            there.insert(cells.cell_of(&HostKey::from_stored(host)));
        }
        ControlFlow::Continue(())
    })?;
    failed.map_or(Ok(located), Err)
}

impl Division<'_> {
    /// Puts a pair where it belongs.
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), DivisionError> {
        if is_shared(key) {
            return Ok(self.put(&SHARED, key, value)?);
        }
        let rest = key.get(1..).unwrap_or_default();
        let cell = match key.first() {
            // Written at the end, for each cell.
            Some(b'M' | b'S' | b'Z') if rest.is_empty() => return Ok(()),
            Some(b'L') if rest.is_empty() => {
                for cell in self.cells.all() {
                    self.put(&cell.space(), key, value)?;
                }
                return Ok(());
            }
            Some(b'A') => return self.group(key, value),
            Some(b'H' | b'G') => self.cell_of(rest),
            Some(b'B' | b'T' | b'J' | b'U' | b'Q' | b'P' | b'F' | b'R') => self.cell_of_begin(rest),
            Some(b'C' | b'E' | b'K' | b'O') => self.cell_of_url(rest),
            Some(b'W' | b'V' | b'N') => self.cell_of_url(value),
            Some(b'D') => self.cells.cell(0),
            _ => None,
        };
        let Some(cell) = cell else {
            return Err(DivisionError::Key {
                path: self.from.path().to_owned(),
                key: key.escape_ascii().to_string(),
            });
        };
        let part = self.parts.entry(cell).or_default();
        match key.first() {
            Some(b'N') => {
                let key = keys::listed(part.listed);
                part.listed += 1;
                return Ok(self.put(&cell.space(), &key, value)?);
            }
            Some(b'H') => part.hosts += 1,
            Some(b'U') => {
                part.urls += 1;
                if let Some(kind) = keys::kind_of_key(key) {
                    let record: UrlRecord = codec::decode(self.from, key, value)?;
                    tally(&mut part.counts, &record, kind);
                }
            }
            _ => {}
        }
        Ok(self.put(&cell.space(), key, value)?)
    }

    /// A group of hosts that backs off: a domain, or an address.
    fn group(&mut self, key: &[u8], value: &[u8]) -> Result<(), DivisionError> {
        let name = String::from_utf8_lossy(key.get(1..).unwrap_or_default()).into_owned();
        let mut there = self.located.get(&name).cloned().unwrap_or_default();
        if let Some(domain) = name.strip_prefix("domain ") {
            there.extend(self.cell_of(domain.as_bytes()));
        }
        // Nobody asks an address again at which no host is.
        for cell in there {
            self.put(&cell.space(), key, value)?;
        }
        Ok(())
    }

    /// The cell of a `U` key.
    fn cell_of_url(&mut self, key: &[u8]) -> Option<CellId> {
        self.cell_of_begin(key.strip_prefix(keys::URLS)?)
    }

    /// The cell of the host at the beginning.
    fn cell_of_begin(&mut self, key: &[u8]) -> Option<CellId> {
        let nul = key.iter().position(|byte| *byte == 0)?;
        self.cell_of(key.get(..nul)?)
    }

    fn cell_of(&mut self, host: &[u8]) -> Option<CellId> {
        if let Some((last, cell)) = &self.last
            && last == host
        {
            return Some(*cell);
        }
        let name = std::str::from_utf8(host).ok()?;
        let cell = self.cells.cell_of(&HostKey::from_stored(name));
        self.last = Some((host.to_vec(), cell));
        Some(cell)
    }

    fn put(&mut self, space: &[u8], key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.batch.put([space, key].concat(), value.to_vec());
        self.pairs += 1;
        self.bytes += key.len() + value.len();
        if self.pairs >= PAIRS || self.bytes >= BYTES {
            (self.pairs, self.bytes) = (0, 0);
            self.into.apply(std::mem::take(&mut self.batch))?;
        }
        Ok(())
    }

    /// Writes what each cell has one of, and what all share.
    fn finish(mut self, old: Meta, learned: u64) -> Result<Divided, DivisionError> {
        let from = self.from;
        let sample: Option<Sample> = codec::get(from, keys::SAMPLE)?;
        let images: Option<ImageLedger> = codec::get(from, keys::IMAGES)?;
        let flushed = clock_skew::last(from.path());
        let parts = std::mem::take(&mut self.parts);
        let mut all = Counts::default();
        let mut pending = self.pending(sample.as_ref());
        for (cell, part) in &parts {
            let mut counts = part.counts.clone();
            if is_first(*cell) {
                (counts.fetches, counts.bytes) = (old.counts.fetches, old.counts.bytes);
            }
            all.add(&counts);
            let space = cell.space();
            let meta = Meta {
                next_id: if is_first(*cell) {
                    old.next_id
                } else {
                    cell.pages_from() + 1
                },
                counts,
                active: if is_first(*cell) { old.active } else { 0 },
                stamp: Vec::new(),
                commits: 0,
                ..old.clone()
            };
            self.put(&space, keys::META, &codec::encode(from, &meta)?)?;
            if let Some(sample) = &sample {
                let mut own = Sample {
                    share: sample.share,
                    seed: sample.seed,
                    taken: sample.taken,
                    ..Sample::default()
                };
                if is_first(*cell) {
                    own.owed = sample.owed;
                    own.curve = sample.curve.clone();
                }
                own.listed = part.listed;
                own.pending = pending.remove(cell).unwrap_or_default();
                self.put(&space, keys::SAMPLE, &codec::encode(from, &own)?)?;
            }
            if let Some(images) = images.as_ref().filter(|_| is_first(*cell)) {
                self.put(&space, keys::IMAGES, &codec::encode(from, images)?)?;
            }
            if let Some(flushed) = flushed {
                self.put(&space, keys::FLUSHED_AT, &codec::encode(from, &flushed)?)?;
            }
        }
        let mut known = old.counts.clone();
        known.dropped.retain(|_, n| *n > 0);
        if known != all {
            return Err(DivisionError::Unsound {
                path: from.path().to_owned(),
                problem: format!("the counters say {known:?}, the records {all:?}"),
                count: 1,
            });
        }
        let used = Amount::between(&Counts::default(), &all);
        let mut batch = std::mem::take(&mut self.batch);
        batch.put(COUNT.to_vec(), self.cells.number().to_be_bytes().to_vec());
        batch.put(STAMP.to_vec(), old.stamp.clone());
        batch.put(USED.to_vec(), used.to_bytes());
        if learned > 0 {
            batch.put(LEARNED_PLACE.to_vec(), learned.to_be_bytes().to_vec());
        }
        self.into.apply(batch)?;
        self.into.flush()?;
        Ok(Divided {
            from: from.path().to_owned(),
            shared: self.into,
            cells: self.cells,
            urls: parts.values().map(|part| part.urls).sum(),
            hosts: parts.values().map(|part| part.hosts).sum(),
            filled: parts.values().filter(|part| part.hosts > 0).count(),
            counts: all,
            active: old.active,
            clean: old.clean,
        })
    }

    /// The links that were drawn and are not finished, by cell.
    fn pending(&self, sample: Option<&Sample>) -> BTreeMap<CellId, Vec<DrawnLink>> {
        let mut pending: BTreeMap<CellId, Vec<_>> = BTreeMap::new();
        for drawn in sample.iter().flat_map(|sample| &sample.pending) {
            let cell = self.cells.cell_of(&drawn.url.host_key());
            pending.entry(cell).or_default().push(drawn.clone());
        }
        pending
    }
}

/// Whether a store has learned anything.
///
/// # Errors
/// [`StoreError`] where the store fails.
pub fn has_learned(store: &dyn Readable) -> Result<bool, StoreError> {
    let mut found = false;
    for class in [keys::LEARNED, keys::EXAMPLES, keys::JUDGED] {
        store.scan(class, &[], &mut |_, _| {
            found = true;
            ControlFlow::Break(())
        })?;
    }
    Ok(found)
}
