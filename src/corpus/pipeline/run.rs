//! The phases of a build: each reads documents in order, on all cores, and writes them.
//!
//! A step that compares documents begins a phase: it reads all documents that the previous
//! phase left, and then decides on each. All other steps judge a document by itself.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::barrier::{Barrier, Decide, DocumentFate};
use super::count::StepCount;
use super::document::Document;
use super::ordered::ordered;
use super::plan::{Plan, Step};
use super::removed::{self, Removed};
use super::source::{self, CorpusSources, ItemBatch, PageReading, READ, RawItem, SourceCursor};
use super::steps::{self, DocumentStep, Measured, Trace, Value};
use super::store::{self, PhaseStore};
use super::work::Workplace;
use crate::fs::{IoError, atomic};
use crate::progress::Step as Progress;
use crate::tool_error::ToolError;

/// The size in bytes of the frames, or of the lines on removals, at which a file is closed.
const FILE_BYTES: usize = if cfg!(test) { 2_000 } else { 4 << 20 };
/// The number of batches at which it is closed, so that a kill costs little work.
const FILE_BATCHES: usize = 32;

/// The steps up to the next one that compares documents.
pub(super) struct BuildPhase {
    /// The number of the step that begins it; `None` for the first phase.
    barrier: Option<(usize, Barrier)>,
    locals: Vec<(usize, Box<dyn DocumentStep>)>,
}

/// The phases of a plan, and how its pages are read.
pub(super) fn phases(plan: &Plan) -> Result<(PageReading, Vec<BuildPhase>), ToolError> {
    let reading = PageReading::of(plan)?;
    let mut phases = vec![BuildPhase {
        barrier: None,
        locals: Vec::new(),
    }];
    for (number, step) in (1..).zip(&plan.steps) {
        if let (Some(local), Some(phase)) = (steps::local(step)?, phases.last_mut()) {
            phase.locals.push((number, local));
        }
        if let Some(barrier) = Barrier::of(step) {
            phases.push(BuildPhase {
                barrier: Some((number, barrier)),
                locals: Vec::new(),
            });
        }
    }
    Ok((reading, phases))
}

/// The empty figures of a plan's steps: first reading, then each step by its number.
pub(super) fn counts(plan: &Plan) -> Vec<StepCount> {
    let steps = plan.steps.iter().map(Step::kind);
    std::iter::once(READ)
        .chain(steps)
        .map(StepCount::of)
        .collect()
}

/// The results for some items.
struct FinishedItems {
    frames: Vec<Vec<u8>>,
    /// Lines on removals.
    removed: String,
    counts: Vec<StepCount>,
}

/// A build in progress.
pub(super) struct BuildRun<'r> {
    pub(super) plan: &'r Plan,
    pub(super) sources: &'r CorpusSources,
    pub(super) place: Workplace,
    pub(super) reading: PageReading,
    pub(super) phases: Vec<BuildPhase>,
    pub(super) sample: Option<u64>,
}

impl BuildRun<'_> {
    /// Runs the remaining phases; returns the documents that the last one leaves.
    pub(super) fn go(&mut self) -> Result<PhaseStore, ToolError> {
        if self.place.state.counts.is_empty() {
            self.place.state.counts = counts(self.plan);
        }
        while self.place.state.phase < self.phases.len() {
            let number = self.place.state.phase;
            if self.place.state.files.len() <= number {
                self.place.state.files.push(0);
            }
            match number.checked_sub(1) {
                None => self.read()?,
                Some(before) => self.pass(number, before)?,
            }
            self.place.state.phase += 1;
            self.place.commit()?;
            if let Some(before) = number.checked_sub(1) {
                let folder = self.place.path(&format!("phase-{before}"));
                if folder.exists() {
                    std::fs::remove_dir_all(&folder).map_err(IoError::at(&folder, "removing"))?;
                }
            }
        }
        self.store(self.phases.len().saturating_sub(1))
    }

    fn store(&self, phase: usize) -> Result<PhaseStore, ToolError> {
        let files = self
            .place
            .state
            .files
            .get(phase)
            .copied()
            .unwrap_or_default();
        PhaseStore::open(self.place.path(&format!("phase-{phase}")), files)
    }

    /// The first phase: from the sources.
    fn read(&mut self) -> Result<(), ToolError> {
        let mut store = self.store(0)?;
        let Self {
            sources,
            place,
            reading,
            phases,
            sample,
            plan,
        } = self;
        let (sources, reading, sample) = (*sources, &*reading, *sample);
        let Some(phase) = phases.first() else {
            return Ok(());
        };
        let from = place.state.cursor;
        let names = counts(plan);
        let mut progress = Progress::begin("bytes read", Some(sources.bytes()));
        let work = |batch: ItemBatch| {
            let ItemBatch {
                items,
                cursor,
                read,
            } = batch;
            let mut made = FinishedItems::of(&names);
            for raw in items {
                if let Some(document) = made.begin(raw, reading)
                    && let Some(document) = made.through(&phase.locals, document)
                {
                    made.add(&document)?;
                }
            }
            Ok::<_, ToolError>((made, cursor, read))
        };
        let mut open = CorpusFile::default();
        ordered(
            |push| sources.each(from, sample, push),
            work,
            |made| {
                let (made, cursor, read) = made?;
                progress.reach(read);
                open.add(made);
                if open.is_full() {
                    open.commit(0, &mut store, place, Some(cursor))?;
                } else {
                    open.cursor = Some(cursor);
                }
                Ok(())
            },
        )?;
        let cursor = open.cursor;
        open.commit(0, &mut store, place, cursor)
    }

    /// A later phase: the step that compares, and the steps after it.
    fn pass(&mut self, number: usize, before: usize) -> Result<(), ToolError> {
        let from = self.store(before)?;
        let mut store = self.store(number)?;
        let names = counts(self.plan);
        let Self { place, phases, .. } = self;
        let Some(phase) = phases.get(number) else {
            return Ok(());
        };
        let Some((step, barrier)) = &phase.barrier else {
            return Ok(());
        };
        let decider = barrier.decider(*step, &from, place)?;
        let mut progress = Progress::begin("files of documents", Some(from.files().into()));
        let begin = store.files();
        let mut first = 0;
        for file in 0..begin {
            first += from.frames(file)?.count();
        }
        let feed = |push: &mut dyn FnMut((u32, usize, Vec<Vec<u8>>)) -> bool| {
            from.each(begin, &mut |(file, frames)| {
                let at = first;
                first += frames.len();
                push((file, at, frames))
            })
        };
        let work = |(file, first, frames): (u32, usize, Vec<Vec<u8>>)| {
            let mut made = FinishedItems::of(&names);
            for (index, frame) in (first..).zip(frames) {
                let document = from.document(file, &frame)?;
                if let Some(document) = made.decide(*step, &*decider, index, document)
                    && let Some(document) = made.through(&phase.locals, document)
                {
                    made.add(&document)?;
                }
            }
            Ok::<_, ToolError>(made)
        };
        ordered(feed, work, |made| {
            let mut open = CorpusFile::default();
            open.add(made?);
            open.commit(number, &mut store, place, None)?;
            progress.reach(store.files().into());
            Ok(())
        })
    }
}

impl FinishedItems {
    fn of(names: &[StepCount]) -> Self {
        Self {
            frames: Vec::new(),
            removed: String::new(),
            counts: names.to_vec(),
        }
    }

    fn count(&mut self, step: usize, note: impl FnOnce(&mut StepCount)) {
        if let Some(count) = self.counts.get_mut(step) {
            note(count);
        }
    }

    /// Reads an item; a panic loses only this item.
    fn begin(&mut self, raw: RawItem, reading: &PageReading) -> Option<Document> {
        let url = raw.url().to_owned();
        let mut trace = Trace::default();
        let read = AssertUnwindSafe(|| source::document(raw, reading, &mut trace));
        let document = catch_unwind(read).unwrap_or_else(|_| {
            trace.note(
                "defect",
                Value::None,
                || "please report the URL".to_owned(),
                false,
            );
            Document {
                url,
                ..Document::default()
            }
        });
        match trace.broken() {
            Some(broken) => {
                self.goes(0, READ, &document, broken, None);
                None
            }
            None => {
                self.count(0, StepCount::stays);
                Some(document)
            }
        }
    }

    /// Applies steps to a document; `None` if one removes it.
    fn through(
        &mut self,
        locals: &[(usize, Box<dyn DocumentStep>)],
        mut document: Document,
    ) -> Option<Document> {
        for (number, local) in locals {
            let mut trace = Trace::default();
            local.apply(&mut document, &mut trace);
            for rule in &trace.marked {
                self.count(*number, |count| count.mark(rule));
            }
            let Some(broken) = trace.broken() else {
                if !local.is_half() {
                    self.count(*number, StepCount::stays);
                }
                continue;
            };
            if local.marks() {
                self.count(*number, StepCount::stays);
                self.count(*number, |count| count.mark(&broken.rule));
                continue;
            }
            let step = self.name(*number);
            self.goes(*number, &step, &document, broken, None);
            return None;
        }
        Some(document)
    }

    /// Applies the decision of a step that compares documents.
    fn decide(
        &mut self,
        number: usize,
        decider: &dyn Decide,
        index: usize,
        mut document: Document,
    ) -> Option<Document> {
        match decider.decide(index, &mut document) {
            DocumentFate::Stays => self.count(number, StepCount::stays),
            DocumentFate::Marked(rule) => {
                self.count(number, StepCount::stays);
                self.count(number, |count| count.mark(rule));
            }
            DocumentFate::Goes(broken, url) => {
                let step = self.name(number);
                self.goes(number, &step, &document, &broken, url.as_deref());
                return None;
            }
        }
        Some(document)
    }

    fn name(&self, number: usize) -> String {
        let count = self.counts.get(number);
        count.map_or_else(String::new, |count| count.step.clone())
    }

    fn goes(
        &mut self,
        number: usize,
        step: &str,
        document: &Document,
        broken: &Measured,
        url: Option<&str>,
    ) {
        self.count(number, |count| {
            // The media type of something that is not a page may be anything.
            count.goes(&broken.rule);
        });
        let line = Removed::of(document, (number, step), broken, url);
        self.removed.push_str(&removed::line(&line));
    }

    fn add(&mut self, document: &Document) -> Result<(), ToolError> {
        let path = std::path::Path::new(&document.url);
        let frame = store::frame(document).map_err(IoError::at(path, "compressing"))?;
        self.frames.push(frame);
        Ok(())
    }
}

/// The file that is being written.
#[derive(Default)]
struct CorpusFile {
    frames: Vec<Vec<u8>>,
    removed: String,
    counts: Vec<StepCount>,
    bytes: usize,
    batches: usize,
    cursor: Option<SourceCursor>,
}

impl CorpusFile {
    fn add(&mut self, made: FinishedItems) {
        self.bytes += made.removed.len() + made.frames.iter().map(Vec::len).sum::<usize>();
        self.batches += 1;
        self.frames.extend(made.frames);
        self.removed.push_str(&made.removed);
        if self.counts.is_empty() {
            self.counts = made.counts;
            return;
        }
        for (sum, more) in self.counts.iter_mut().zip(&made.counts) {
            sum.merge(more);
        }
    }

    fn is_full(&self) -> bool {
        self.bytes >= FILE_BYTES || self.batches >= FILE_BATCHES
    }

    /// Writes the file and the state, and begins the next. The files of a phase are one to
    /// one those of the phase before, so an empty one is written too.
    fn commit(
        &mut self,
        phase: usize,
        store: &mut PhaseStore,
        place: &mut Workplace,
        cursor: Option<SourceCursor>,
    ) -> Result<(), ToolError> {
        let made = std::mem::take(self);
        if made.batches == 0 {
            return Ok(());
        }
        let path = place.removed(phase, store.files())?;
        let packed = removed::packed(&made.removed);
        let written = packed
            .and_then(|packed| atomic::write(&path, |out| std::io::Write::write_all(out, &packed)));
        written.map_err(IoError::at(&path, "writing"))?;
        store.add(&made.frames)?;
        if let Some(files) = place.state.files.get_mut(phase) {
            *files = store.files();
        }
        for (sum, more) in place.state.counts.iter_mut().zip(&made.counts) {
            sum.merge(more);
        }
        if let Some(cursor) = cursor {
            place.state.cursor = cursor;
        }
        place.commit()
    }
}
