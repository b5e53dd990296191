//! Which cell the next task comes from, and when to look again.

use std::collections::BTreeSet;

use super::{Cells, CellsError, OpenCell};
use crate::beside::Best;
use crate::cell::CellId;
use crate::image_ledger::ImageLedger;
use crate::keys::Rank;
use crate::page::Task;
use crate::parts::Frontier;
use crate::store::StoreError;
use crate::turns::Standing;

/// What the cells could lease.
#[derive(Default)]
struct CellOffers {
    /// The best page of each, and the best image of each.
    pages: Vec<(Rank, CellId)>,
    images: Vec<(Rank, CellId)>,
    /// The best page of each whose host is in a short delay.
    resting: Vec<(Rank, CellId)>,
}

impl Cells {
    /// Leases the best task in these cells, as [`Frontier::lease`] does in one. Cells that are not
    /// open have none.
    ///
    /// # Errors
    /// [`CellsError::Store`] if the store fails.
    pub fn lease(
        &mut self,
        among: &[CellId],
        now: u64,
    ) -> Result<Option<(CellId, Task)>, CellsError> {
        self.sweep()?;
        let leased = self.lease_among(among, true, now)?;
        self.deliver_but_edits(now)?;
        Ok(leased)
    }

    /// The best page that these cells could lease now or shortly.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn best_of(&mut self, among: &[CellId], now: u64) -> Result<Option<Best>, StoreError> {
        let offers = self.standings(among, now)?;
        let first = |all: &[(Rank, CellId)]| all.first().map(|(rank, _)| *rank);
        let both = [first(&offers.pages), first(&offers.resting)];
        Ok(both.into_iter().flatten().min().map(Best))
    }

    /// The same in all cells.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn lease_best(&mut self, now: u64) -> Result<Option<Task>, StoreError> {
        self.lease_in_all(true, now)
    }

    /// The same without waiting for a better page, as [`Frontier::lease_any`].
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn lease_any(&mut self, now: u64) -> Result<Option<Task>, StoreError> {
        self.lease_in_all(false, now)
    }

    fn lease_in_all(&mut self, patient: bool, now: u64) -> Result<Option<Task>, StoreError> {
        self.sweep_slice()?;
        let all = Vec::from_iter(self.leasing_cells());
        let leased = self.lease_among(&all, patient, now)?;
        Ok(leased.map(|(_, task)| task))
    }

    fn lease_among(
        &mut self,
        among: &[CellId],
        patient: bool,
        now: u64,
    ) -> Result<Option<(CellId, Task)>, StoreError> {
        for cell in self.open.values_mut() {
            cell.frontier.flags.is_patient = false;
        }
        let mut tried = BTreeSet::new();
        let only = match among {
            [only] => Some(*only).filter(|id| self.open.contains_key(id)),
            _ => None,
        };
        'standings: loop {
            // A single cell need not be compared with others.
            let (offers, order) = match only {
                Some(only) => (CellOffers::default(), vec![only]),
                None => {
                    let offers = self.standings(among, now)?;
                    let order = self.in_order(&offers);
                    (offers, order)
                }
            };
            for id in order {
                if tried.contains(&id) {
                    continue;
                }
                let other = |all: &[(Rank, CellId)]| {
                    let first = all
                        .iter()
                        .find(|(_, cell)| *cell != id && !tried.contains(cell));
                    first.map(|(rank, _)| *rank)
                };
                let ready = other(&offers.pages);
                let resting = offers.resting.iter().find(|(_, other)| *other != id);
                let resting = resting.map(|(rank, _)| *rank);
                let (leased, gave_way) = self.act(id, |frontier| {
                    frontier.flags.elsewhere.ready = ready;
                    frontier.flags.elsewhere.resting = resting;
                    let leased = lease_from(frontier, patient, now)?;
                    Ok::<_, StoreError>((leased, frontier.flags.gave_way))
                })?;
                if let Some(task) = leased {
                    return Ok(Some((id, task)));
                }
                // A cell that gave way has lowered or dropped a link, so this loop ends. Otherwise
                // the order is unchanged.
                if gave_way {
                    continue 'standings;
                }
                tried.insert(id);
            }
            return Ok(None);
        }
    }

    /// What these cells could lease now, best first.
    fn standings(&mut self, among: &[CellId], now: u64) -> Result<CellOffers, StoreError> {
        let mut offers = CellOffers::default();
        for id in among {
            let Some(standing) = self.standing(*id, now)? else {
                continue;
            };
            let of = |rank: Option<Rank>| rank.map(|rank| (rank, *id));
            offers.pages.extend(of(standing.page));
            offers.images.extend(of(standing.image));
            offers.resting.extend(of(standing.resting));
        }
        offers.pages.sort_unstable();
        offers.images.sort_unstable();
        offers.resting.sort_unstable();
        Ok(offers)
    }

    /// What a cell could lease; `None` if it is not open.
    fn standing(&mut self, id: CellId, now: u64) -> Result<Option<Standing>, StoreError> {
        let Some(cell) = self.open.get(&id) else {
            return Ok(None);
        };
        if let Some(known) = cell.standing.filter(|known| now < known.until) {
            return Ok(Some(known));
        }
        let standing = self.act(id, |frontier| frontier.standing(now))?;
        if let Some(cell) = self.open.get_mut(&id) {
            cell.standing = Some(standing);
        }
        Ok(Some(standing))
    }

    /// The order in which the cells are asked for a task. As in one frontier, an image comes first
    /// when it is the turn of images. A page chosen by chance (exploration) may be of any cell: the
    /// frontier draws the same number, and then any of its hosts.
    fn in_order(&self, offers: &CellOffers) -> Vec<CellId> {
        let CellOffers { pages, images, .. } = offers;
        let share = self.policy.image_share;
        let owed = self.sums.owed;
        let ledger = ImageLedger {
            owed,
            ..ImageLedger::default()
        };
        let (open_pages, open_images) = self.sums.open;
        let is_image_turn = ledger.is_image_turn(open_pages, open_images, share);
        let cells = |offers: &[(Rank, CellId)]| Vec::from_iter(offers.iter().map(|(_, id)| *id));
        let (pages, images) = (cells(pages), cells(images));
        if is_image_turn || self.sums.pages_held {
            return [images, pages].concat();
        }
        let learning = self.rating.as_ref().and_then(|rating| rating.learning());
        let asked = self.sums.counts.fetches + (open_pages + open_images) as u64;
        let drawn = learning.and_then(|learning| learning.explores(asked));
        let first = drawn.and_then(|number| {
            let mut sorted = pages.clone();
            sorted.sort_unstable();
            let at = number.checked_rem(sorted.len() as u64)?;
            sorted.get(usize::try_from(at).ok()?).copied()
        });
        let first = Vec::from_iter(first);
        [first, pages, images].concat()
    }

    /// When [`Cells::lease`] may return a task again if no task is finished before, as
    /// [`Frontier::next_event`].
    pub fn next_event(&self) -> Option<u64> {
        if !self.finders.is_empty() {
            return Some(0);
        }
        let room = self.sums.newcomers.room();
        let frontiers = || self.leasing().map(|(_, cell)| &cell.frontier);
        let event = |frontier: &Frontier| {
            if frontier.waits_elsewhere() {
                frontier.next_due()
            } else {
                frontier.next_event_with(room)
            }
        };
        // The page that it waits for may be gone by now.
        let otherwise = || {
            let events = frontiers().filter_map(|f| f.next_event_with(room));
            events.min()
        };
        frontiers().filter_map(event).min().or_else(otherwise)
    }

    /// Whether every open cell is exhausted ([`Frontier::is_exhausted`]).
    pub fn is_exhausted(&self) -> bool {
        self.leased() == 0 && self.next_event().is_none()
    }

    /// Whether the last task was held back for a better one, as [`Frontier::is_patient`].
    pub fn is_patient(&self) -> bool {
        let mut frontiers = self.leasing().map(|(_, cell)| &cell.frontier);
        frontiers.any(Frontier::is_patient)
    }

    /// Whether hosts wait for fewer open requests, as [`Frontier::keeps_back`].
    pub fn keeps_back(&self) -> bool {
        let mut frontiers = self.leasing().map(|(_, cell)| &cell.frontier);
        frontiers.any(Frontier::keeps_back)
    }

    /// The cells that lease.
    pub fn leasing_cells(&self) -> impl Iterator<Item = CellId> {
        self.leasing().map(|(id, _)| *id)
    }

    fn leasing(&self) -> impl Iterator<Item = (&CellId, &OpenCell)> {
        let held = &self.held;
        self.open.iter().filter(|(id, _)| !held.contains(id))
    }
}

fn lease_from(
    frontier: &mut Frontier,
    patient: bool,
    now: u64,
) -> Result<Option<Task>, StoreError> {
    if patient {
        frontier.lease(now)
    } else {
        frontier.lease_any(now)
    }
}
