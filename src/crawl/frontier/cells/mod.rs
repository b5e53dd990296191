//! Several frontiers over one store: a cell each.
//!
//! One machine that crawls a job alone has one cell, which is the frontier as it is: same
//! code, same bytes. With more cells, each has the hosts that fall into it
//! ([`cell`](super::cell)), with their queues, clocks and counters. A cell is what one machine can hand to
//! another, and what of a store can be opened, closed, dropped, exported and imported without
//! the rest.
//!
//! # How cells work together
//!
//! - [`Cells::lease`] takes the task that stands best in all of the cells that it is told. What
//!   each could lease is remembered until it changes, so many cells cost little.
//! - A link to another cell is a [`Referral`](super::referral): it lies in the cell of its page,
//!   is added to the other cell as soon as that is open, and is deleted by the same batch. What
//!   is for cells that other machines have can be sent to them ([`Cells::outbox`]).
//! - What was learned, the files that were kept and the bodies in the archive are shared by all.
//! - A batch of a cell is one batch of the store. There is one marker of the last flush.
//!
//! # What they cost
//!
//! The caches of records are shared. A cell has a filter that begins with 1.6 kB, and its part
//! of the room for robots rules; beyond that, memory follows hosts and addresses as it does in
//! one frontier. What waits for cells that are not open is in the store; of that, memory holds
//! one number for each page and cell.
//!
//! # What they cannot do yet
//!
//! - Images of other cells are refused by name ([`StoreError::Abroad`]).
//! - The clock of an IP address is kept by one frontier, so [`Cells::open`] refuses
//!   `politeness.address_delay`.
//! - A robots.txt that redirects into another cell counts as unreachable.
//! - What a page is judged by, such as the targets of its links, is what its own cell knows.
//!
//! Reading order: this file, `shared` (the store below, and the part of it that a cell sees),
//! `outbox` (links to and from the cells of other machines), `sweep` (deleting a cell),
//! `transfer` (a cell in a file).

mod outbox;
mod shared;
mod sweep;
#[cfg(test)]
mod tests;
mod transfer;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::outbox::{LogPlace, Offer, OutboxChange, Rated, Slip, Unsound, Way};
use self::shared::{CellStore, SharedStore};
use self::sweep::Sweep;
use super::added::NewTask;
use super::cell::{COUNT, CellCount, CellId, Home};
use super::keys::{self, Rank};
use super::parts::{Elsewhere, Frontier, Share};
use super::policy::Policy;
use super::ratings::Rating;
use super::record::Counts;
use super::referral::Referral;
use super::schedule::AddressClocks;
use super::seen::Memory;
use super::store::{self, Batch, Store, StoreError};
use super::turns::Standing;
use crate::address::PageUrl;
use crate::config::StoreKind;
use crate::page::Task;
use crate::web::scope::Scope;

/// Why a cell cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CellsError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store is of a kind that never gives back the space of a cell that has left.
    #[error(
        "frontier.store = \"sled\" cannot hold several cells, because its file never shrinks when \
         one leaves; set frontier.store = \"fjall\""
    )]
    Sled,
    /// The clocks of IP addresses are not shared.
    #[error(
        "several cells cannot keep politeness.address_delay, because hosts of one address may lie \
         in different cells; set it to \"0s\", or use one cell"
    )]
    AddressDelay,
    /// The store has another number of cells.
    #[error(
        "the frontier in {} was made with {found} cells and not with {asked}; their number never \
         changes: ask for {found}, or name another folder",
        path.display()
    )]
    Number {
        /// The store's folder.
        path: PathBuf,
        /// Its cells.
        found: u16,
        /// Those that were asked for.
        asked: u16,
    },
    /// The cell is one of another store.
    #[error("{cell} is none of the {cells} cells of this frontier; they count from 0")]
    Unknown {
        /// The cell.
        cell: CellId,
        /// How many there are.
        cells: u16,
    },
    /// The cell must be open.
    #[error("{0} is not open; open it first")]
    Closed(CellId),
    /// The cell must not be open.
    #[error("{0} is open; close it first")]
    Open(CellId),
    /// What is left of the cell is still being deleted.
    #[error("{0} has left, and is still being deleted; try again when that is done")]
    Leaving(CellId),
    /// The cell is not empty.
    #[error("{0} is not empty; drop it before another one takes its place")]
    Present(CellId),
    /// The store is not divided.
    #[error("the frontier is not divided into cells, so none can be dropped or moved")]
    Undivided,
    /// A file cannot be written or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file does not hold a cell of this store.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
}

/// The frontiers of one store. See the module's documentation.
pub struct Cells {
    cells: CellCount,
    below: Below,
    memory: Memory,
    addresses: AddressClocks,
    policy: Policy,
    scope: Scope,
    rating: Option<Arc<dyn Rating>>,
    open: BTreeMap<CellId, Cell>,
    sweep: Sweep,
}

/// What the cells lie in.
enum Below {
    /// The store of the only cell, until that is opened.
    Undivided(Option<Box<dyn Store>>),
    Shared(Arc<SharedStore>),
}

/// A cell that is open.
struct Cell {
    frontier: Frontier,
    /// What it could lease, until something changes.
    standing: Option<Standing>,
}

impl Cells {
    /// Opens the store in `folder`, or makes an empty one with so many cells. None of them is
    /// open yet.
    ///
    /// # Errors
    /// [`CellsError::Sled`] and [`CellsError::AddressDelay`] where a job cannot have several
    /// cells, [`CellsError::Number`] where the store has another number of them.
    pub fn open(
        kind: StoreKind,
        folder: &Path,
        cells: CellCount,
        policy: Policy,
        scope: Scope,
    ) -> Result<Self, CellsError> {
        if cells != CellCount::ONE && kind == StoreKind::Sled {
            return Err(CellsError::Sled);
        }
        if cells != CellCount::ONE && policy.address_delay > 0 {
            return Err(CellsError::AddressDelay);
        }
        Self::over(store::open(kind, folder)?, cells, policy, scope)
    }

    fn over(
        store: Box<dyn Store>,
        cells: CellCount,
        policy: Policy,
        scope: Scope,
    ) -> Result<Self, CellsError> {
        let (below, sweep) = below(store, cells)?;
        Ok(Self {
            cells,
            below,
            memory: Memory::default(),
            addresses: AddressClocks::default(),
            policy,
            scope,
            rating: None,
            open: BTreeMap::new(),
            sweep,
        })
    }

    /// How many cells the store has.
    pub fn cells(&self) -> CellCount {
        self.cells
    }

    /// The cells that are open.
    pub fn opened(&self) -> impl Iterator<Item = CellId> {
        self.open.keys().copied()
    }

    /// Opens a cell, or begins an empty one. What others have found for it is added.
    /// `now` is milliseconds since 1970, here and in every other call.
    ///
    /// # Errors
    /// [`CellsError::Open`] where it is open, [`CellsError::Leaving`] while it is being
    /// deleted.
    pub fn open_cell(&mut self, cell: CellId, now: u64) -> Result<(), CellsError> {
        self.must_be_closed(cell)?;
        let (store, share): (Box<dyn Store>, _) = match &mut self.below {
            Below::Undivided(store) => (store.take().ok_or(CellsError::Closed(cell))?, None),
            Below::Shared(shared) => {
                let home = Home {
                    cell,
                    cells: self.cells,
                };
                let memory = self.memory.of_cell(cell, self.cells);
                let share = Share {
                    home: Some(home),
                    memory,
                    addresses: Some(self.addresses.clone()),
                };
                (
                    Box::new(CellStore::of(home, Arc::clone(shared))),
                    Some(share),
                )
            }
        };
        let (policy, scope) = (self.policy.clone(), self.scope.clone());
        let mut frontier = Frontier::open_as(store, policy, scope, now, share)?;
        if let Some(rating) = &self.rating {
            frontier.set_rating(Arc::clone(rating))?;
        }
        let standing = None;
        self.open.insert(cell, Cell { frontier, standing });
        self.deliver(now)
    }

    /// Opens all cells, with one flush.
    ///
    /// # Errors
    /// As [`Cells::open_cell`].
    pub fn open_all(&mut self, now: u64) -> Result<(), CellsError> {
        self.with_one_flush(|cells| {
            cells
                .cells
                .all()
                .try_for_each(|cell| cells.open_cell(cell, now))
        })
    }

    /// Closes a cell in good order; it stays in the store.
    ///
    /// # Errors
    /// [`CellsError::Closed`] where it is not open.
    pub fn close_cell(&mut self, cell: CellId) -> Result<(), CellsError> {
        let closed = self.open.remove(&cell).ok_or(CellsError::Closed(cell))?;
        closed.frontier.close()?;
        self.memory.forget(cell);
        Ok(())
    }

    /// Closes all cells in good order.
    ///
    /// # Errors
    /// [`CellsError::Store`] where the store fails.
    pub fn close(mut self) -> Result<(), CellsError> {
        let open: Vec<CellId> = self.opened().collect();
        self.with_one_flush(|cells| open.into_iter().try_for_each(|cell| cells.close_cell(cell)))
    }

    /// Rates all links by this, those of cells that are opened later as well.
    ///
    /// # Errors
    /// As [`Frontier::set_rating`].
    pub fn set_rating(&mut self, rating: &Arc<dyn Rating>) -> Result<(), CellsError> {
        for cell in self.open.values_mut() {
            cell.frontier.set_rating(Arc::clone(rating))?;
            cell.standing = None;
        }
        self.rating = Some(Arc::clone(rating));
        Ok(())
    }

    /// Adds the operator's own addresses, each to its cell.
    ///
    /// # Errors
    /// [`CellsError::Closed`] where the cell of one is not open; nothing is added then.
    pub fn add_seeds(&mut self, seeds: &[PageUrl], now: u64) -> Result<(), CellsError> {
        let mut by_cell: BTreeMap<CellId, Vec<PageUrl>> = BTreeMap::new();
        for url in seeds {
            let canonical = self.scope.canonical(url);
            let cell = self.cells.cell_of(&canonical.host_key());
            by_cell.entry(cell).or_default().push(url.clone());
        }
        if let Some(closed) = by_cell.keys().find(|cell| !self.open.contains_key(cell)) {
            return Err(CellsError::Closed(*closed));
        }
        for (cell, seeds) in by_cell {
            self.with(cell, now, |frontier| frontier.add_seeds(&seeds, now))?;
        }
        Ok(())
    }

    /// Leases the task that stands best in these cells, as [`Frontier::lease`] does in one.
    /// Cells that are not open have none.
    ///
    /// # Errors
    /// [`CellsError::Store`] where the store fails.
    pub fn lease(
        &mut self,
        among: &[CellId],
        now: u64,
    ) -> Result<Option<(CellId, Task)>, CellsError> {
        self.sweep()?;
        let asked: u64 = self.open.values().map(|cell| cell.frontier.asked()).sum();
        let mut tried = BTreeSet::new();
        loop {
            let mut ready = Vec::new();
            for cell in among.iter().filter(|cell| !tried.contains(*cell)) {
                let standing = self.standing(*cell, now)?;
                ready.extend(standing.and_then(|s| s.best).map(|rank| (rank, *cell)));
            }
            let Some(cell) = self.choose(&ready, asked) else {
                return Ok(None);
            };
            let others = among.iter().filter(|other| **other != cell);
            let resting = others.filter_map(|other| self.open.get(other)?.standing?.resting);
            let resting = resting.min();
            let leased = self.with(cell, now, |frontier| {
                let asked = asked.saturating_sub(frontier.asked());
                frontier.gate.elsewhere = Elsewhere { resting, asked };
                frontier.lease(now)
            })?;
            if let Some(task) = leased {
                return Ok(Some((cell, task)));
            }
            tried.insert(cell);
        }
    }

    /// The cell of the next task: the one with the best, or any where this is a task to explore
    /// with. The frontier draws the same, and then any of its hosts.
    fn choose(&self, ready: &[(Rank, CellId)], asked: u64) -> Option<CellId> {
        let learning = self.rating.as_ref().and_then(|rating| rating.learning());
        let drawn = learning.and_then(|learning| learning.explores(asked));
        let chosen = match (drawn, u64::try_from(ready.len())) {
            (Some(number), Ok(count @ 1..)) => usize::try_from(number % count)
                .ok()
                .and_then(|n| ready.get(n)),
            _ => ready.iter().min(),
        };
        chosen.map(|(_, cell)| *cell)
    }

    /// Does something with the frontier of a cell, such as finishing a task, and adds what that
    /// has found for other cells to those that are open.
    ///
    /// # Errors
    /// [`CellsError::Closed`] where it is not open, and the error of `act`.
    pub fn with<T>(
        &mut self,
        cell: CellId,
        now: u64,
        act: impl FnOnce(&mut Frontier) -> Result<T, StoreError>,
    ) -> Result<T, CellsError> {
        let own = self.open.get_mut(&cell).ok_or(CellsError::Closed(cell))?;
        let before = own.frontier.ratings.begun();
        own.standing = None;
        let done = act(&mut own.frontier)?;
        if own.frontier.ratings.begun() != before {
            self.rerate_others(cell)?;
        }
        self.deliver_from(cell, now)?;
        Ok(done)
    }

    /// What a cell could lease; `None` where it is not open.
    fn standing(&mut self, cell: CellId, now: u64) -> Result<Option<Standing>, StoreError> {
        let Some(cell) = self.open.get_mut(&cell) else {
            return Ok(None);
        };
        let standing = match cell.standing.filter(|known| now < known.until) {
            Some(known) => known,
            None => cell.frontier.standing(now)?,
        };
        cell.standing = Some(standing);
        Ok(cell.standing)
    }

    /// Does the next part of what is to be judged again, in the first cell that has any.
    /// False where nothing is left.
    ///
    /// # Errors
    /// [`CellsError::Store`] where the store fails.
    pub fn rejudge(&mut self, now: u64) -> Result<bool, CellsError> {
        let is_judging = |cell: &&mut Cell| {
            let frontier = &cell.frontier;
            frontier.is_rescoping() || frontier.is_rescoring()
        };
        let Some(cell) = self.open.values_mut().find(is_judging) else {
            return Ok(false);
        };
        cell.standing = None;
        cell.frontier.rescope_slice(now)?;
        cell.frontier.rescore_slice(now)?;
        Ok(true)
    }

    /// When [`Cells::lease`] may return a task again if nothing is finished before, as
    /// [`Frontier::next_event`].
    pub fn next_event(&self) -> Option<u64> {
        let frontiers = || self.open.values().map(|cell| &cell.frontier);
        let event = |frontier: &Frontier| {
            if frontier.waits_elsewhere() {
                frontier.next_due()
            } else {
                frontier.next_event()
            }
        };
        // The page that one waits for may be gone meanwhile.
        let otherwise = || frontiers().filter_map(Frontier::next_event).min();
        frontiers().filter_map(event).min().or_else(otherwise)
    }

    /// Whether every open cell is exhausted ([`Frontier::is_exhausted`]).
    pub fn is_exhausted(&self) -> bool {
        let mut frontiers = self.open.values().map(|cell| &cell.frontier);
        frontiers.all(Frontier::is_exhausted)
    }

    /// The counters of all open cells together.
    pub fn counts(&self) -> Counts {
        let mut all = Counts::default();
        for cell in self.open.values() {
            all.add(cell.frontier.counts());
        }
        all
    }

    /// Makes everything committed so far survive the death of the process.
    ///
    /// # Errors
    /// [`CellsError::Store`] where the store fails.
    pub fn flush(&mut self) -> Result<(), CellsError> {
        self.with_one_flush(|cells| {
            for cell in cells.open.values_mut() {
                cell.frontier.flush()?;
            }
            Ok(())
        })
    }

    /// Adds what open cells have found to the cells that are open.
    fn deliver(&mut self, now: u64) -> Result<(), CellsError> {
        for cell in Vec::from_iter(self.opened()) {
            self.deliver_from(cell, now)?;
        }
        Ok(())
    }

    fn deliver_from(&mut self, from: CellId, now: u64) -> Result<(), CellsError> {
        let mut due = Vec::new();
        if let Some(own) = self.open.get(&from) {
            let referring = own.frontier.ledger.referring().iter();
            for (to, commits) in referring.filter(|(to, _)| self.open.contains_key(to)) {
                due.extend(commits.iter().map(|commit| (*to, *commit)));
            }
        }
        for (to, commit) in due {
            let (Some(own), true) = (self.open.get(&from), to != from) else {
                continue;
            };
            let referrals = own.frontier.ledger.referrals(to, commit)?;
            let sent = keys::elsewhere(from, &keys::referrals(to, commit));
            if let Some(other) = self.open.get_mut(&to) {
                other.standing = None;
                other.frontier.receive(&referrals, sent, now)?;
            }
            if let Some(own) = self.open.get_mut(&from) {
                own.frontier.ledger.referred(to, commit);
            }
        }
        Ok(())
    }

    /// Has all other cells rate their links again, because what was learned tells so.
    fn rerate_others(&mut self, than: CellId) -> Result<(), StoreError> {
        for (_, cell) in self.open.iter_mut().filter(|(id, _)| **id != than) {
            let Cell { frontier, standing } = cell;
            frontier.ratings.begin_again(&mut frontier.ledger)?;
            *standing = None;
        }
        Ok(())
    }

    fn must_exist(&self, cell: CellId) -> Result<(), CellsError> {
        let cells = self.cells.number();
        match self.cells.cell(cell.number()) {
            Some(_) => Ok(()),
            None => Err(CellsError::Unknown { cell, cells }),
        }
    }

    fn must_be_closed(&self, cell: CellId) -> Result<(), CellsError> {
        self.must_exist(cell)?;
        if self.open.contains_key(&cell) {
            return Err(CellsError::Open(cell));
        }
        if self.sweep.is_leaving(cell) {
            return Err(CellsError::Leaving(cell));
        }
        Ok(())
    }

    fn shared(&self) -> Result<&Arc<SharedStore>, CellsError> {
        match &self.below {
            Below::Shared(shared) => Ok(shared),
            Below::Undivided(_) => Err(CellsError::Undivided),
        }
    }

    /// Does something to many cells with one flush at its end.
    fn with_one_flush(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<(), CellsError>,
    ) -> Result<(), CellsError> {
        let shared = match &self.below {
            Below::Shared(shared) => Some(Arc::clone(shared)),
            Below::Undivided(_) => None,
        };
        if let Some(shared) = &shared {
            shared.hold();
        }
        let done = act(self);
        if let Some(shared) = shared {
            let flushed = shared.release();
            done?;
            return Ok(flushed?);
        }
        done
    }
}

impl Frontier {
    /// Adds what another cell has found, and deletes it there.
    fn receive(
        &mut self,
        referrals: &[Referral],
        sent: Vec<u8>,
        now: u64,
    ) -> Result<(), StoreError> {
        let mut tx = self.ledger.begin();
        for Referral {
            kind,
            new,
            origin,
            keywords,
        } in referrals
        {
            let intake = self.intake(self.ratings.in_force(*keywords));
            let NewTask { url, .. } = new;
            intake.add(&mut tx, &keys::url(url, *kind), *kind, new, *origin)?;
        }
        tx.delete(sent);
        let prepared = tx.prepare();
        self.commit(prepared, now)
    }
}

/// What the cells of a store lie in, and which of them have left.
fn below(store: Box<dyn Store>, cells: CellCount) -> Result<(Below, Sweep), CellsError> {
    let path = store.path().to_owned();
    let number = |found| CellsError::Number {
        path: path.clone(),
        found,
        asked: cells.number(),
    };
    let known = store.get(COUNT)?.and_then(|bytes| bytes.try_into().ok());
    let known = known.map(u16::from_be_bytes);
    if cells == CellCount::ONE {
        return match known {
            None => Ok((Below::Undivided(Some(store)), Sweep::default())),
            Some(found) => Err(number(found)),
        };
    }
    if known.is_none() && store.get(keys::META)?.is_some() {
        return Err(number(1));
    }
    if let Some(found) = known.filter(|found| *found != cells.number()) {
        return Err(number(found));
    }
    let shared = Arc::new(SharedStore::over(store)?);
    if known.is_none() {
        let mut batch = Batch::default();
        batch.put(COUNT.to_vec(), cells.number().to_be_bytes().to_vec());
        shared.apply(batch)?;
        shared.flush()?;
    }
    let sweep = Sweep::of(&shared, cells)?;
    Ok((Below::Shared(shared), sweep))
}
