//! What a crawl looks up over all cells: the position of its outputs, counters, hosts and
//! addresses.

use super::Cells;
use crate::address::{HostKey, PageUrl};
use crate::amount::Amount;
use crate::cell::{CellCount, CellId, Home, STAMP};
use crate::control_sample::{Curve, Focus};
use crate::image_ledger::{ImageLedger, ImagesLeft};
use crate::page::TaskKind;
use crate::parts::Frontier;
use crate::record::{Counts, UrlRecord};
use crate::schedule::{HostStates, HostTurn};
use crate::store::{Batch, Readable, StoreError};

/// The outputs.
impl Cells {
    /// The position of the outputs at the last commit; empty before the first.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn stamp(&self) -> Result<Vec<u8>, StoreError> {
        Ok(self.shared.get(STAMP)?.unwrap_or_default())
    }

    /// Notes the position of the outputs.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn set_stamp(&mut self, stamp: Vec<u8>) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        batch.put(STAMP.to_vec(), stamp);
        self.shared.apply(batch)?;
        self.flush()
    }

    /// Makes everything committed so far durable.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.with_one_flush(|cells| {
            for cell in cells.open.values_mut() {
                cell.frontier.flush()?;
            }
            Ok(())
        })
    }

    /// The state of the last commit of all cells, readable on any thread while the crawl goes
    /// on. Drop it before the store is opened again.
    pub fn snapshot(&self) -> Box<dyn Readable> {
        self.shared.snapshot()
    }

    /// The number of the last batch, the same as in [`Mark::commits`](crate::Mark::commits).
    pub fn commits(&self) -> u64 {
        self.shared.batches()
    }

    /// What this store itself has done of the quantities that a job can limit, regardless of its
    /// cells.
    pub fn used(&self) -> Amount {
        self.shared.used()
    }

    /// As [`Frontier::kept_file`], over all cells.
    ///
    /// # Errors
    /// As there.
    pub fn kept_file(&self, sha256: &str) -> Result<Option<String>, StoreError> {
        let any = self.frontiers().next();
        any.map_or(Ok(None), |frontier| frontier.kept_file(sha256))
    }

    /// As [`Frontier::stored_body`], over all cells.
    ///
    /// # Errors
    /// As there.
    pub fn stored_body(&self, sha1: &[u8; 20]) -> Result<Option<String>, StoreError> {
        let any = self.frontiers().next();
        any.map_or(Ok(None), |frontier| frontier.stored_body(sha1))
    }
}

/// Lookups.
impl Cells {
    /// The counters of all open cells together.
    pub fn counts(&self) -> &Counts {
        &self.sums.counts
    }

    /// As [`Frontier::leased`].
    pub fn leased(&self) -> usize {
        let (pages, images) = self.sums.open;
        pages + images
    }

    /// When the next failed host or address is tried again, in milliseconds since 1970, if there is
    /// nothing to do before; otherwise `None`.
    pub fn idle_until(&self) -> Option<u64> {
        if self.leased() > 0 {
            return None;
        }
        let next = self.next_event()?;
        let is_retry = self.frontiers().any(|frontier| frontier.is_retry(next));
        is_retry.then_some(next)
    }

    /// As [`Frontier::leased_pages`].
    pub fn leased_pages(&self) -> usize {
        self.sums.open.0
    }

    /// As [`Frontier::hosts_by_state`].
    pub fn hosts_by_state(&self) -> HostStates {
        let mut sum = HostStates::default();
        for frontier in self.frontiers() {
            let HostStates {
                active,
                ready,
                due,
                held,
                parked,
                open,
            } = frontier.hosts_by_state();
            sum.active += active;
            sum.ready += ready;
            sum.due += due;
            sum.held += held;
            sum.parked += parked;
            sum.open += open;
        }
        sum
    }

    /// As [`Frontier::turns`].
    pub fn turns(&self, most: usize) -> Vec<HostTurn> {
        let mut turns: Vec<HostTurn> = self.frontiers().flat_map(|f| f.turns(most)).collect();
        let place = |turn: &HostTurn| ["ready", "due"].iter().position(|s| *s == turn.state);
        turns.sort_by_key(|turn| (place(turn).unwrap_or(2), turn.due));
        let mut of_state = [0_usize; 3];
        turns.retain(|turn| {
            let [ready, due, parked] = &mut of_state;
            let count = match place(turn) {
                Some(0) => ready,
                Some(_) => due,
                None => parked,
            };
            *count += 1;
            *count <= most
        });
        turns
    }

    /// As [`Frontier::hosts`].
    pub fn hosts(&self) -> (usize, usize) {
        let hosts = self.frontiers().map(Frontier::hosts);
        hosts.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
    }

    /// As [`Frontier::focus`].
    pub fn focus(&self) -> Focus {
        let mut sum = Focus::default();
        for frontier in self.frontiers() {
            sum.add(&frontier.focus());
        }
        sum
    }

    /// As [`Frontier::focus_curve`]. With several cells it is one point, because the order of their
    /// fetches is unknown.
    pub fn focus_curve(&self) -> Curve {
        match self.only() {
            Ok(only) => only.focus_curve().clone(),
            Err(_) => Curve::of_one(self.focus()),
        }
    }

    /// As [`Frontier::images`].
    pub fn images(&self) -> ImageLedger {
        let owed = self.sums.owed;
        let mut sum = ImageLedger {
            owed,
            ..ImageLedger::default()
        };
        for frontier in self.frontiers() {
            let of_cell = frontier.images();
            sum.svgs += of_cell.svgs;
        }
        sum
    }

    /// As [`Frontier::images_left`].
    ///
    /// # Errors
    /// As there.
    pub fn images_left(&self) -> Result<ImagesLeft, StoreError> {
        let mut sum = ImagesLeft::default();
        for frontier in self.frontiers() {
            let of_cell = frontier.images_left()?;
            sum.images += of_cell.images;
            sum.hosts += of_cell.hosts;
            sum.parked += of_cell.parked;
            sum.millis = sum.millis.max(of_cell.millis);
        }
        Ok(sum)
    }

    /// The record of an address, if it is known.
    ///
    /// # Errors
    /// As [`Cells::of_host`].
    pub fn look_up(&self, url: &PageUrl, kind: TaskKind) -> Result<Option<UrlRecord>, StoreError> {
        self.of_host(&url.host_key())?.look_up(url, kind)
    }

    /// The cell of a host.
    ///
    /// # Errors
    /// [`StoreError::Closed`] if it is not open.
    pub fn of_host(&self, host: &HostKey) -> Result<&Frontier, StoreError> {
        self.opened_cell(self.cells.cell_of(host))
    }

    /// The only cell, for operations that cannot handle several.
    ///
    /// # Errors
    /// [`StoreError::SeveralCells`] if there are several.
    pub fn only(&self) -> Result<&Frontier, StoreError> {
        self.must_be_one()?;
        self.opened_cell(Home::ONLY.cell)
    }

    /// Runs `act` on the only cell.
    ///
    /// # Errors
    /// As [`Cells::only`], and the error of `act`.
    pub fn with_only<T>(
        &mut self,
        act: impl FnOnce(&mut Frontier) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.must_be_one()?;
        self.act(Home::ONLY.cell, act)
    }

    fn must_be_one(&self) -> Result<(), StoreError> {
        if self.cells == CellCount::ONE {
            return Ok(());
        }
        let path = self.path.clone();
        Err(StoreError::SeveralCells { path })
    }

    fn opened_cell(&self, id: CellId) -> Result<&Frontier, StoreError> {
        let cell = self.open.get(&id);
        cell.map(|cell| &cell.frontier)
            .ok_or_else(|| self.closed(id))
    }
}
