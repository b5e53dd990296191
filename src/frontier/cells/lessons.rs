//! What machines teach each other: every page's lesson goes to all machines, and all receive the
//! lessons in the same order.
//!
//! A page's lesson is stored with its other effects. The caller reads it ([`Cells::lessons`]),
//! sends it, and deletes it once it has arrived ([`Cells::forget_lessons`]). Lessons come back
//! numbered, including those of this machine. [`Cells::learn`] learns them, and writes their number
//! in the same batch. So machines that have read up to the same number have learned the same.
//!
//! A page that is done again, because its machine was lost before its checkpoint, may teach twice.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::shared::{CellStore, SharedStore};
use super::{Cells, CellsError};
use crate::cell::{CellId, Home, LEARNED_PLACE, SHARED, place_of};
use crate::codec;
use crate::keys;
use crate::page::Heard;
use crate::ratings::Verdicts;
use crate::ratings::learning::{self, take_in};
use crate::ratings::shared::SharedLesson;
use crate::record::Meta;
use crate::store::{Batch, Readable, Store, StoreError};
use crate::transaction::Transaction;

/// The key classes of what was learned, in the shared space.
const LEARNED: [&[u8]; 3] = [keys::LEARNED, keys::EXAMPLES, keys::JUDGED];

/// Identifies the stored lesson of a page.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LessonId(Vec<u8>);

/// The lessons that may be in the store.
#[derive(Debug, Default)]
pub(super) struct Lessons {
    waiting: BTreeSet<LessonId>,
}

impl Lessons {
    /// Notes commits of a cell that may have written a lesson.
    pub fn note_commits(&mut self, cell: CellId, commits: Vec<u64>) {
        let ids = commits.into_iter().map(|commit| keys::lesson(cell, commit));
        self.waiting.extend(ids.map(LessonId));
    }
}

/// Whether the key of a store is part of what was learned.
pub fn is_learned(key: &[u8]) -> bool {
    let own = key.strip_prefix(&SHARED);
    key == LEARNED_PLACE || own.is_some_and(|own| LEARNED.iter().any(|c| own.starts_with(c)))
}

impl Cells {
    /// Makes machines learn together from now on.
    ///
    /// # Errors
    /// [`CellsError::Store`] if the store fails.
    pub fn share_lessons(&mut self) -> Result<(), CellsError> {
        let mut lessons = Lessons::default();
        let prefix = [SHARED.as_slice(), keys::LESSONS].concat();
        self.shared.scan(&prefix, &[], &mut |key, _| {
            let own = key.get(SHARED.len()..).unwrap_or_default();
            lessons.waiting.insert(LessonId(own.to_vec()));
            ControlFlow::Continue(())
        })?;
        self.lessons = Some(lessons);
        for cell in self.open.values_mut() {
            cell.frontier.ratings.is_shared = true;
        }
        self.share_verdicts(Arc::default());
        Ok(())
    }

    /// From now on, pages are also judged by the verdicts on pages of other machines. Verdicts on
    /// pages of this machine are added to `verdicts`.
    pub fn share_verdicts(&mut self, verdicts: Arc<Verdicts>) {
        for cell in self.open.values_mut() {
            cell.frontier.ratings.verdicts = Some(Arc::clone(&verdicts));
        }
        self.verdicts = Some(verdicts);
    }

    /// The lessons of pages that were not sent yet, at most this many.
    ///
    /// # Errors
    /// [`CellsError::Store`] if the store fails or one is damaged.
    pub fn lessons(&mut self, most: usize) -> Result<Vec<(LessonId, SharedLesson)>, CellsError> {
        let store = self.common();
        let mut found = Vec::new();
        let Some(Lessons { waiting }) = &mut self.lessons else {
            return Ok(found);
        };
        for id in Vec::from_iter(waiting.iter().cloned()) {
            if found.len() >= most {
                break;
            }
            match codec::get(&store, &id.0)? {
                Some(lesson) => found.push((id, lesson)),
                // Most commits teach nothing.
                None => drop(waiting.remove(&id)),
            }
        }
        Ok(found)
    }

    /// Deletes lessons that have arrived.
    ///
    /// # Errors
    /// [`CellsError::Store`] if the store fails.
    pub fn forget_lessons(&mut self, arrived: &[LessonId]) -> Result<(), CellsError> {
        let mut batch = Batch::default();
        for LessonId(key) in arrived {
            batch.delete([SHARED.as_slice(), key].concat());
        }
        self.shared.apply(batch)?;
        if let Some(Lessons { waiting }) = &mut self.lessons {
            waiting.retain(|id| !arrived.contains(id));
        }
        Ok(())
    }

    /// The number of the last message with lessons that was learned; 0 if none.
    ///
    /// # Errors
    /// [`CellsError::Store`] if the store fails.
    pub fn learned_place(&self) -> Result<u64, CellsError> {
        let bytes = self.shared.get(LEARNED_PLACE)?;
        Ok(place_of(bytes.as_deref()).unwrap_or(0))
    }

    /// Learns the lessons of a message and notes its number, in one batch. Returns false and does
    /// nothing if the number is not above [`Cells::learned_place`].
    ///
    /// # Errors
    /// [`CellsError::Store`] if the store fails.
    pub fn learn(&mut self, place: u64, lessons: Vec<SharedLesson>) -> Result<bool, CellsError> {
        if place <= self.learned_place()? {
            return Ok(false);
        }
        let mut store = self.common();
        let mut tx = Transaction::new(&store, Meta::default());
        let mut rerates = false;
        let rating = self.rating.clone();
        if let Some(learning) = rating.as_ref().and_then(|rating| rating.learning()) {
            for lesson in lessons {
                let SharedLesson {
                    heard,
                    example,
                    verdict,
                } = lesson;
                if let (Some(verdicts), Some(verdict)) = (&self.verdicts, verdict) {
                    verdicts.add(verdict);
                }
                if let Some(Heard { place, state }) = heard.and_then(|h| learning.hear(&h)) {
                    tx.put(keys::judged(place), state);
                }
                if let Some(example) = example {
                    rerates |= take_in(&mut tx, learning, example)?;
                }
            }
        }
        tx.put(keys::shared(LEARNED_PLACE), place.to_be_bytes().to_vec());
        let batch = tx.prepare().batch;
        store.apply(batch)?;
        if rerates {
            self.rerate()?;
        }
        Ok(true)
    }

    /// Starts with what another machine had learned: its pairs of [`is_learned`], with the last
    /// value of each key. Allowed only before a rating is set.
    ///
    /// # Errors
    /// [`CellsError::Store`] if the store fails, [`CellsError::Foreign`] if a key is of
    /// something else.
    pub fn begin_learned(
        &mut self,
        pairs: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>,
    ) -> Result<(), CellsError> {
        let mut batch = Batch::default();
        for class in LEARNED {
            let prefix = [SHARED.as_slice(), class].concat();
            self.shared.scan(&prefix, &[], &mut |key, _| {
                batch.delete(key.to_vec());
                ControlFlow::Continue(())
            })?;
        }
        for (key, value) in pairs {
            if !is_learned(&key) {
                let key = key.escape_ascii().to_string();
                return Err(CellsError::Foreign { key });
            }
            batch.put(key, value);
        }
        Ok(self.shared.apply(batch)?)
    }

    /// Restores what was learned; otherwise the first cell that is opened does so.
    pub(super) fn restore_learned(&self) -> Result<(), StoreError> {
        let learning = self.rating.as_ref().and_then(|rating| rating.learning());
        match (learning, &self.lessons) {
            (Some(learning), Some(_)) => learning::restore(learning, &self.common()),
            _ => Ok(()),
        }
    }

    /// The shared data, as one cell sees it.
    fn common(&self) -> CellStore<Arc<SharedStore>> {
        let home = Home {
            cells: self.cells,
            ..Home::ONLY
        };
        CellStore::of(home, Arc::clone(&self.shared))
    }
}
