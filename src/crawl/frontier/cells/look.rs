//! What a crawl looks up: where its outputs stand, counters, hosts and addresses, over all
//! cells.

use super::{Below, Cells};
use crate::address::{HostKey, PageUrl};
use crate::frontier::amount::Amount;
use crate::frontier::cell::STAMP;
use crate::frontier::control_sample::{Curve, Focus};
use crate::frontier::image_ledger::{ImageLedger, ImagesLeft};
use crate::frontier::images::Instead;
use crate::frontier::parts::Frontier;
use crate::frontier::record::{Counts, UrlRecord};
use crate::frontier::schedule::{HostStates, HostTurn};
use crate::frontier::store::{Batch, Readable, StoreError};
use crate::frontier::view::View;
use crate::page::{ImageContext, TaskKind};

/// The outputs.
impl Cells {
    /// As [`Frontier::stamp`]; all cells have one together.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn stamp(&self) -> Result<Vec<u8>, StoreError> {
        match &self.below {
            Below::Undivided(_) => Ok(self.only().map_or_else(Vec::new, |f| f.stamp().to_vec())),
            Below::Shared(shared) => Ok(shared.get(STAMP)?.unwrap_or_default()),
        }
    }

    /// As [`Frontier::set_stamp`].
    ///
    /// # Errors
    /// As there.
    pub fn set_stamp(&mut self, stamp: Vec<u8>) -> Result<(), StoreError> {
        if let Below::Shared(shared) = &self.below {
            let mut batch = Batch::default();
            batch.put(STAMP.to_vec(), stamp);
            shared.apply(batch)?;
            return self.flush();
        }
        match self.only_cell() {
            Some(only) => only.frontier.set_stamp(stamp),
            None => Ok(()),
        }
    }

    /// Makes everything committed so far survive the death of the process.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
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
    ///
    /// # Errors
    /// [`StoreError::Closed`] where the only cell of an undivided store was closed.
    pub fn snapshot(&self) -> Result<Box<dyn Readable>, StoreError> {
        match (&self.below, self.only()) {
            (Below::Shared(shared), _) => Ok(shared.snapshot()),
            (Below::Undivided(Some(store)), _) => Ok(store.snapshot()),
            (Below::Undivided(None), Some(only)) => Ok(only.snapshot()),
            (Below::Undivided(None), None) => Err(StoreError::Closed {
                path: self.path.clone(),
                cell: 0,
            }),
        }
    }

    /// The number of the last commit: of the last batch, where there are several cells. It is
    /// that of [`Mark::commits`](crate::frontier::Mark::commits).
    pub fn commits(&self) -> u64 {
        match &self.below {
            Below::Shared(shared) => shared.batches(),
            Below::Undivided(_) => self.only().map_or(0, Frontier::commits),
        }
    }

    /// What this store has done itself of what a job may limit, whichever cells it had. Nothing
    /// is counted where there is only one cell.
    pub fn used(&self) -> Amount {
        match &self.below {
            Below::Shared(shared) => shared.used(),
            Below::Undivided(_) => Amount::default(),
        }
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

/// Looking.
impl Cells {
    /// The counters of all open cells together.
    pub fn counts(&self) -> &Counts {
        self.only().map_or(&self.sums.counts, Frontier::counts)
    }

    /// As [`Frontier::leased`].
    pub fn leased(&self) -> usize {
        let (pages, images) = self.sums.open;
        self.only().map_or(pages + images, Frontier::leased)
    }

    /// When the next host or address that failed is tried again, in milliseconds since 1970,
    /// where there is nothing to do before; `None` otherwise.
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
        self.only().map_or(self.sums.open.0, Frontier::leased_pages)
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
        if let Some(only) = self.only() {
            return only.turns(most);
        }
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

    /// As [`Frontier::delay`].
    pub fn delay(&self, host: &HostKey) -> Option<u64> {
        let cell = self.open.get(&self.cells.cell_of(host))?;
        cell.frontier.delay(host)
    }

    /// As [`Frontier::focus`].
    pub fn focus(&self) -> Focus {
        let mut sum = Focus::default();
        for frontier in self.frontiers() {
            sum.add(&frontier.focus());
        }
        sum
    }

    /// As [`Frontier::focus_curve`]. Of several cells it is one point: nothing tells which of
    /// their fetches came first.
    pub fn focus_curve(&self) -> Curve {
        match self.only() {
            Some(only) => only.focus_curve().clone(),
            None => Curve::of_one(self.focus()),
        }
    }

    /// As [`Frontier::images`].
    pub fn images(&self) -> ImageLedger {
        if let Some(only) = self.only() {
            return only.images().clone();
        }
        let owed = self.sums.owed;
        let mut sum = ImageLedger {
            owed,
            ..ImageLedger::default()
        };
        for frontier in self.frontiers() {
            let of_cell = frontier.images();
            sum.tried += of_cell.tried;
            sum.stood_in += of_cell.stood_in;
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

    /// What is known of a host and its addresses, at this moment.
    ///
    /// # Errors
    /// [`StoreError::Closed`] where its cell is not open.
    pub fn view_of(&self, host: &HostKey) -> Result<View<'_>, StoreError> {
        Ok(self.of_host(host)?.view())
    }

    /// As [`Frontier::look_up`].
    ///
    /// # Errors
    /// As there.
    pub fn look_up(&self, url: &PageUrl, kind: TaskKind) -> Result<Option<UrlRecord>, StoreError> {
        self.of_host(&url.host_key())?.look_up(url, kind)
    }

    /// As [`Frontier::instead`].
    ///
    /// # Errors
    /// As there.
    pub fn instead(&self, image: &PageUrl) -> Result<Instead, StoreError> {
        self.of_host(&image.host_key())?.instead(image)
    }

    /// As [`Frontier::contexts`].
    ///
    /// # Errors
    /// As there.
    pub fn contexts(&self, image: &PageUrl) -> Result<Vec<ImageContext>, StoreError> {
        self.of_host(&image.host_key())?.contexts(image)
    }

    fn of_host(&self, host: &HostKey) -> Result<&Frontier, StoreError> {
        let id = self.cells.cell_of(host);
        let cell = self.open.get(&id);
        cell.map(|cell| &cell.frontier)
            .ok_or_else(|| self.closed(id))
    }

    /// The frontier itself, for what cannot be done with several cells.
    ///
    /// # Errors
    /// [`StoreError::Divided`] where there are several.
    pub fn undivided(&self) -> Result<&Frontier, StoreError> {
        self.only().ok_or_else(|| self.divided())
    }

    /// The same for whoever keeps it.
    ///
    /// # Errors
    /// As [`Cells::undivided`]; they are closed in good order then.
    pub fn into_undivided(mut self) -> Result<Frontier, StoreError> {
        let error = self.divided();
        if self.is_undivided()
            && let Some((_, only)) = self.open.pop_first()
        {
            return Ok(only.frontier);
        }
        self.close()?;
        Err(error)
    }

    /// The same, to be changed.
    ///
    /// # Errors
    /// As [`Cells::undivided`].
    pub fn undivided_mut(&mut self) -> Result<&mut Frontier, StoreError> {
        let error = self.divided();
        self.only_cell().map(|only| &mut only.frontier).ok_or(error)
    }

    fn divided(&self) -> StoreError {
        StoreError::Divided {
            path: self.path.clone(),
        }
    }
}
