//! The frontiers of a store, one per cell.
//!
//! A machine that crawls a job alone has one cell; a cluster has many. Each cell has the hosts that
//! fall into it ([`cell`](super::cell)), with their queues, clocks and counters. A cell is the unit
//! that one machine can hand to another, and the part of a store that can be opened, closed,
//! dropped and loaded without the rest. A crawl works with [`Cells`], which forwards each call to
//! the cell of a host or a task, or to all of them.
//!
//! # How cells work together
//!
//! - [`Cells::lease`] takes the best task in all of the cells that it is given. What each could
//!   lease is remembered until it changes, so many cells cost little.
//! - What a page has for another cell, a link or words around an image, is a
//!   [`Referral`](super::referral). It is stored in the cell of the page, added to the other cell
//!   as soon as that is open, and deleted by the same batch. Referrals to cells of other machines
//!   can be sent there ([`Cells::outbox`]). If a referral changes files that were written before,
//!   the files are changed before this batch, which records the new position of the outputs.
//! - The share of images, the limit of requests to newcomers, the page budget and the clocks of IP
//!   addresses apply to all cells together.
//! - What was learned, the kept files and the bodies in the archive are shared by all cells.
//! - A batch of a cell is one batch of the store. There is one marker of the last flush.
//!
//! # What they cost
//!
//! The caches of records are shared. Each cell has a filter that starts with 1.6 kB, and its share
//! of the memory for robots rules; beyond that, memory depends on hosts and addresses as in one
//! frontier. Referrals to cells that are not open are in the store; memory holds one number for
//! each page and target cell.
//!
//! # What they cannot do yet
//!
//! - A page that another one declares as canonical is known only to its own cell. A redirect into
//!   another cell is not followed again when the page is visited again.
//! - Exports, takedowns and the maintenance of a store need a single cell ([`Cells::only`]).
//!
//! Reading order: this file, `sums` (what is counted over all cells), `choice` (the next task),
//! `delivery` (what cells find for each other), `crawl` and `look` (what a crawl does with and
//! looks up in all cells), `outbox` (the exchange with the cells of other machines), `shared` (the
//! underlying store, and the part of it that a cell sees), `sweep` (deleting a cell), `load` (a
//! cell from elsewhere), `hands` (handover of cells between machines), `lessons` (what machines
//! teach each other).

mod choice;
mod crawl;
mod delivery;
mod error;
mod hands;
mod lessons;
mod load;
mod look;
mod outbox;
mod shared;
mod sums;
mod sweep;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::delivery::{Amend, Outside};
pub use self::error::CellsError;
use self::lessons::Lessons;
pub use self::lessons::{LessonId, is_learned};
pub use self::load::Load;
pub use self::outbox::{LogPlace, Offer, OutboxChange, Rated, Slip, Unsound, Way};
use self::shared::{CellStore, SharedStore};
pub use self::shared::{only, whole};
use self::sums::{InSums, Sums};
use self::sweep::Sweep;
use super::cell::{CellCount, CellId, Home};
use super::parts::{Asked, CellShare, Frontier};
use super::policy::Policy;
use super::ratings::{Rating, Verdicts};
use super::record::Promise;
use super::schedule::AddressClocks;
use super::seen::Memory;
use super::store::{self, Store, StoreError};
use super::turns::Standing;
use crate::settings::StoreKind;
use crate::web::scope::Scope;

/// The frontiers of one store. See the module's documentation.
pub struct Cells {
    path: PathBuf,
    cells: CellCount,
    shared: Arc<SharedStore>,
    memory: Memory,
    addresses: AddressClocks,
    policy: Policy,
    scope: Scope,
    rating: Option<Arc<dyn Rating>>,
    open: BTreeMap<CellId, OpenCell>,
    sums: Sums,
    /// Cells that may have found something for other open cells.
    finders: BTreeSet<CellId>,
    sweep: Sweep,
    /// Open cells that lease nothing.
    held: BTreeSet<CellId>,
    /// The lessons of pages, if machines learn together.
    lessons: Option<Lessons>,
    /// The verdicts on pages of other machines, if there are any.
    verdicts: Option<Arc<Verdicts>>,
    /// Promises to hosts that are to be sent, if there are other machines.
    promised: Option<Vec<(CellId, Promise)>>,
}

/// An open cell.
struct OpenCell {
    frontier: Frontier,
    /// What it could lease, until something changes.
    standing: Option<Standing>,
    /// Its part of the sums.
    counted: InSums,
}

impl Cells {
    /// Opens the store in `folder`, or creates an empty one with this many cells. No cell is open
    /// yet.
    ///
    /// # Errors
    /// [`CellsError::Sled`] if a store cannot have several
    /// cells, [`CellsError::Number`] if the store has another number of them.
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
        Self::over(store::open(kind, folder)?, cells, policy, scope)
    }

    /// The same over an open store.
    ///
    /// # Errors
    /// [`CellsError::Number`] if it has another number of cells.
    pub fn over(
        store: Box<dyn Store>,
        cells: CellCount,
        policy: Policy,
        scope: Scope,
    ) -> Result<Self, CellsError> {
        let path = store.path().to_owned();
        let shared = Arc::new(SharedStore::of(store, cells)?);
        let sweep = Sweep::of(&shared, cells)?;
        Ok(Self {
            path,
            cells,
            shared,
            memory: Memory::default(),
            addresses: AddressClocks::default(),
            policy,
            scope,
            rating: None,
            open: BTreeMap::new(),
            sums: Sums::default(),
            finders: BTreeSet::new(),
            sweep,
            held: BTreeSet::new(),
            lessons: None,
            verdicts: None,
            promised: None,
        })
    }

    /// Opens the frontier of a single machine, over the store of its only cell.
    ///
    /// # Errors
    /// [`StoreError::SeveralCells`] if it has several, and if it fails or is damaged.
    pub fn alone(
        store: Box<dyn Store>,
        policy: Policy,
        scope: Scope,
        now: u64,
    ) -> Result<Self, StoreError> {
        let path = store.path().to_owned();
        let opened = Self::over(store, CellCount::ONE, policy, scope).and_then(|mut cells| {
            cells.open_all(now)?;
            Ok(cells)
        });
        opened.map_err(|error| error.of_only(&path))
    }

    /// The number of cells in the store.
    pub fn cells(&self) -> CellCount {
        self.cells
    }

    /// When each IP address may be requested again by any of the cells.
    pub fn address_clocks(&self) -> AddressClocks {
        self.addresses.clone()
    }

    /// The open cells.
    pub fn opened(&self) -> impl Iterator<Item = CellId> + Clone {
        self.open.keys().copied()
    }

    /// Opens a cell, or creates an empty one. Adds what others have found for it, except what
    /// changes outputs: that waits for [`Cells::deliver`]. `now` is milliseconds since 1970, here
    /// and in every other call.
    ///
    /// # Errors
    /// [`CellsError::Open`] if it is open, [`CellsError::Leaving`] while it is being
    /// deleted.
    pub fn open_cell(&mut self, cell: CellId, now: u64) -> Result<(), CellsError> {
        self.open_asked(cell, None, now)
    }

    fn open_asked(
        &mut self,
        cell: CellId,
        asked: Option<Asked>,
        now: u64,
    ) -> Result<(), CellsError> {
        self.must_be_closed(cell)?;
        let home = Home {
            cell,
            cells: self.cells,
        };
        let share = CellShare {
            home,
            memory: self.memory.of_cell(cell, self.cells),
            addresses: self.addresses.clone(),
            asked,
        };
        let store = Box::new(CellStore::of(home, Arc::clone(&self.shared)));
        let (policy, scope) = (self.policy.clone(), self.scope.clone());
        let mut frontier = Frontier::open_as(store, policy, scope, now, share)?;
        if let Some(rating) = &self.rating {
            frontier.set_rating(Arc::clone(rating))?;
        }
        frontier.ratings.is_shared = self.lessons.is_some();
        frontier.ratings.verdicts = self.verdicts.clone();
        if self.open.is_empty() {
            self.sums.owed = frontier.images().owed;
        }
        let opened = OpenCell {
            counted: self.sums.opened(&mut frontier, now)?,
            frontier,
            standing: None,
        };
        self.open.insert(cell, opened);
        let finders = self.open.keys().filter(|id| self.finds(**id)).copied();
        self.finders = finders.collect();
        Ok(self.deliver_but_edits(now)?)
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

    /// Closes a cell cleanly; it stays in the store.
    ///
    /// # Errors
    /// [`CellsError::Closed`] if it is not open.
    pub fn close_cell(&mut self, cell: CellId) -> Result<(), CellsError> {
        let closed = self.open.remove(&cell).ok_or(CellsError::Closed(cell))?;
        Ok(self.closing(cell, closed)?)
    }

    fn closing(&mut self, id: CellId, cell: OpenCell) -> Result<(), StoreError> {
        self.finders.remove(&id);
        self.held.remove(&id);
        self.sums.closed(&cell.counted);
        cell.frontier.close()?;
        self.memory.forget(id);
        Ok(())
    }

    /// Closes all cells cleanly.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.book_active();
        self.with_one_flush(|cells| {
            while let Some((id, cell)) = cells.open.pop_first() {
                cells.closing(id, cell)?;
            }
            Ok(())
        })
    }

    /// Runs `act` on the frontier of a cell, for example to finish a task, and adds what that has
    /// found for other open cells, except what changes outputs.
    ///
    /// # Errors
    /// [`CellsError::Closed`] if it is not open, and the error of `act`.
    pub fn with<T>(
        &mut self,
        cell: CellId,
        now: u64,
        act: impl FnOnce(&mut Frontier) -> Result<T, StoreError>,
    ) -> Result<T, CellsError> {
        if !self.open.contains_key(&cell) {
            return Err(CellsError::Closed(cell));
        }
        let done = self.act(cell, act)?;
        self.deliver_but_edits(now)?;
        Ok(done)
    }

    /// Runs `act` on the frontier of a cell, and updates what all cells share.
    fn act<T, E: From<StoreError>>(
        &mut self,
        id: CellId,
        act: impl FnOnce(&mut Frontier) -> Result<T, E>,
    ) -> Result<T, E> {
        let Some(cell) = self.open.get_mut(&id) else {
            return Err(self.closed(id).into());
        };
        let OpenCell {
            frontier,
            standing,
            counted,
        } = cell;
        *standing = None;
        let begun = frontier.ratings.begun();
        self.sums.lend(frontier, counted);
        let done = act(frontier);
        self.sums.take_back(frontier, counted);
        let begins = frontier.ratings.begun() != begun;
        let promised = std::mem::take(&mut frontier.process.promised);
        if let Some(all) = &mut self.promised {
            all.extend(promised.into_iter().map(|promise| (id, promise)));
        }
        if let Some(lessons) = &mut self.lessons {
            lessons.note_commits(id, frontier.ratings.take_commits());
        }
        if self.finds(id) {
            self.finders.insert(id);
        }
        let done = done?;
        if begins {
            self.rerate_others(id)?;
        }
        Ok(done)
    }

    /// Whether a cell has found something for another open cell. What it has found for those of
    /// other machines waits to be sent.
    fn finds(&self, id: CellId) -> bool {
        self.open.get(&id).is_some_and(|cell| {
            let mut others = cell.frontier.ledger.referring().keys();
            others.any(|other| self.open.contains_key(other))
        })
    }

    /// The error about a cell that should be open.
    fn closed(&self, cell: CellId) -> StoreError {
        StoreError::Closed {
            path: self.path.clone(),
            cell: cell.number(),
        }
    }

    /// Does the next part of the pending re-judging, in the first cell that has any. False if
    /// nothing is left.
    ///
    /// # Errors
    /// [`CellsError::Store`] if the store fails.
    pub fn rejudge(&mut self, now: u64) -> Result<bool, CellsError> {
        let is_judging = |(_, cell): &(&CellId, &OpenCell)| {
            let frontier = &cell.frontier;
            frontier.is_rescoping() || frontier.is_rescoring()
        };
        let Some((&id, _)) = self.open.iter().find(is_judging) else {
            return Ok(false);
        };
        self.act::<_, StoreError>(id, |frontier| {
            frontier.rescope_slice(now)?;
            frontier.rescore_slice(now)
        })?;
        Ok(true)
    }

    /// Makes all other cells rate their links again, because what was learned requires it.
    fn rerate_others(&mut self, than: CellId) -> Result<(), StoreError> {
        for (_, cell) in self.open.iter_mut().filter(|(id, _)| **id != than) {
            let frontier = &mut cell.frontier;
            frontier.ratings.begin_again(&mut frontier.ledger)?;
            cell.standing = None;
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

    /// Runs `act` on many cells with one flush at the end.
    fn with_one_flush<E: From<StoreError>>(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let shared = Arc::clone(&self.shared);
        shared.hold();
        let done = act(self);
        let flushed = shared.release();
        done?;
        Ok(flushed?)
    }
}
