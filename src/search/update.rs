//! Indexes new documents, and removes those that are gone.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tantivy::collector::Count;
use tantivy::indexer::IndexWriterOptions;
use tantivy::query::{BooleanQuery, Query, RangeQuery, TermQuery};
use tantivy::schema::IndexRecordOption;
use tantivy::store::{Compressor, ZstdCompressor};
use tantivy::tokenizer::TokenizerManager;
use tantivy::{Index, IndexSettings, IndexWriter, TantivyDocument, TantivyError, Term};

use super::entry::{self, EntryLine};
use super::read::{FilePacking, Lines, ReadItem, ReadPosition};
use super::schema::{IndexFields, schema};
use super::state::{EntityListState, FileChange, IndexState, IndexedFile};
use super::{FOLDER, Home, rows, words};
use crate::clock;
use crate::corpus::entities::{self, Finder, Lists};
use crate::corpus::pipeline::DocumentFinder;
use crate::fs::beneath::{self, Kind};
use crate::fs::{IoError, if_there};
use crate::outputs::{self, DOCUMENTS, Withdrawn};
use crate::progress::Step;
use crate::tool_error::ToolError;
use spoor_values::page::{Signal, Use};

/// Memory of a thread for entries that are not written yet, in bytes.
const BUDGET: usize = 64 << 20;

/// The interval of commits.
const COMMIT: Duration = Duration::from_secs(15);

/// How many problems are described; the others are only counted.
const MOST_PROBLEMS: usize = 10;

/// The changes of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Updated {
    /// Documents that were added.
    pub added: u64,
    /// Files that were read again because their indexed part was changed, or that are gone.
    pub reread: u64,
    /// Lines and parts of files that could not be read.
    pub damaged: u64,
    /// Descriptions of the first of these.
    pub damage: Vec<String>,
    /// Documents that were left out because their publishers forbid it.
    pub forbidden: u64,
    /// All documents that the index has now.
    pub documents: u64,
}

/// Indexes the documents of a folder. While it exists, no other process can.
pub struct Indexer {
    home: Home,
    index: Index,
    writer: IndexWriter,
    fields: IndexFields,
    state: IndexState,
    /// Finds the entities of a list.
    finder: Option<DocumentFinder>,
    /// Whether entries were added or removed since the last commit.
    is_changed: bool,
    committed: Instant,
    /// Pages whose earlier text may no longer be used.
    withdrawn: Withdrawn,
    /// Up to where and on which day they were removed.
    withdrawn_to: Option<(Option<u64>, u64)>,
    /// The present, in milliseconds since 1970.
    pub(super) clock: fn() -> u64,
}

impl Indexer {
    /// Opens or creates the index, with this many threads.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if another process has it.
    pub fn open(home: &Home, threads: usize) -> Result<Self, ToolError> {
        let path = home.index();
        beneath::create_dir_all(&home.folder, FOLDER)
            .map_err(IoError::at(&path, "making the folder"))?;
        // Its files are opened by name.
        beneath::refuse_links_out(&home.folder, FOLDER, 0)
            .map_err(IoError::at(&path, "opening"))?;
        let (schema, fields) = schema();
        let settings = IndexSettings {
            docstore_compression: Compressor::Zstd(ZstdCompressor::default()),
            ..IndexSettings::default()
        };
        let open = || {
            let directory = tantivy::directory::MmapDirectory::open(&path)?;
            Index::builder()
                .schema(schema.clone())
                .settings(settings.clone())
                .tokenizers(tokenizers())
                .open_or_create(directory)
        };
        let index = match open() {
            // The fields of another version.
            Err(TantivyError::SchemaError(_) | TantivyError::IncompatibleIndex(_)) => {
                beneath::remove_all(&home.folder, FOLDER)
                    .and_then(|()| beneath::create_dir_all(&home.folder, FOLDER))
                    .map_err(IoError::at(&path, "removing"))?;
                open().map_err(home.failed())?
            }
            opened => opened.map_err(home.failed())?,
        };
        let options = IndexWriterOptions::builder()
            .num_worker_threads(threads.clamp(1, 4))
            .memory_budget_per_thread(BUDGET)
            .num_merge_threads(1)
            .build();
        let writer = match index.writer_with_options(options) {
            Err(TantivyError::LockFailure(..)) => {
                let why = "another spoor is indexing (`spoor index` or `spoor search --serve`); \
                           wait for it or stop it";
                return Err(ToolError::busy(&home.folder, why));
            }
            opened => opened.map_err(home.failed())?,
        };
        let payload = index.load_metas().map_err(home.failed())?.payload;
        let known = payload.as_deref().and_then(IndexState::parse);
        let generation = outputs::generation(&home.folder)?;
        let mut indexer = Self {
            home: home.clone(),
            index,
            writer,
            fields,
            state: IndexState::default(),
            finder: None,
            is_changed: false,
            committed: Instant::now(),
            withdrawn: Withdrawn::default(),
            withdrawn_to: None,
            clock: clock::now,
        };
        match known {
            Some(state) => indexer.state = state,
            None => {
                indexer.clear(generation)?;
                // From now on it can be searched, although it is empty.
                indexer.commit()?;
            }
        }
        Ok(indexer)
    }

    /// From now on finds the entities of a list, or of an index of a list, in the documents. If it
    /// differs from the previous one, all documents are read again. Returns the lines of the list
    /// that are not entities.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the file.
    pub fn name(&mut self, list: &Path) -> Result<Vec<String>, ToolError> {
        let path = std::path::absolute(list).unwrap_or_else(|_| list.to_owned());
        let mut lists = Lists::default();
        let index = entities::Index::of_file(&path, &mut lists)?;
        let print = index.print();
        let before = self.state.entities.as_ref().map(|listed| listed.print);
        if before != Some(print) {
            self.clear(self.state.generation)?;
        }
        let listed = Some(EntityListState { path, print });
        self.is_changed |= self.state.entities != listed;
        self.state.entities = listed;
        self.finder = Some(DocumentFinder::usual(Finder::new(Arc::new(index), true)));
        Ok(lists.problems)
    }

    /// No longer finds the entities of a list. The documents are read again.
    ///
    /// # Errors
    ///
    /// [`ToolError`].
    pub fn name_none(&mut self) -> Result<(), ToolError> {
        self.finder = None;
        if self.state.entities.take().is_some() {
            self.clear(self.state.generation)?;
        }
        Ok(())
    }

    /// Indexes everything that is not indexed yet, until `stop` is set; the rest is then left for
    /// another run.
    ///
    /// # Errors
    ///
    /// [`ToolError`]; committed work remains.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<Updated, ToolError> {
        let mut updated = Updated::default();
        let generation = outputs::generation(&self.home.folder)?;
        let was_removed = generation != self.state.generation;
        if was_removed {
            self.clear(generation)?;
            updated.reread += 1;
        }
        if self.finder.is_none()
            && let Some(listed) = self.state.entities.clone()
        {
            self.name(&listed.path)?;
        }
        let is_withdrawn = self.withdraw()?;
        let files = self.files()?;
        self.forget(&files, &mut updated)?;
        let total = files.iter().map(|(name, length)| {
            let known = self.state.files.get(name).map(IndexedFile::position);
            length.saturating_sub(known.unwrap_or_default().byte)
        });
        let total: u64 = total.sum();
        let mut step = (total > 0).then(|| Step::begin("bytes of documents indexed", Some(total)));
        for (name, length) in &files {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            self.file(name, *length, stop, step.as_mut(), &mut updated)?;
        }
        if self.home.is_job && !stop.load(Ordering::Relaxed) {
            self.rows()?;
        }
        self.commit()?;
        if updated.reread > 0 || is_withdrawn {
            self.purge()?;
        }
        updated.documents = self.documents()?;
        Ok(updated)
    }

    /// Removes documents whose publishers have withdrawn them at a later visit, or wanted them to be
    /// found until a day that has come. Returns whether there were any.
    fn withdraw(&mut self) -> Result<bool, ToolError> {
        let today = entry::day(&clock::timestamp((self.clock)())).unwrap_or_default();
        let now = (Withdrawn::length(&self.home.folder)?, today);
        if self.withdrawn_to == Some(now) {
            return Ok(false);
        }
        self.withdrawn = Withdrawn::of(&self.home.folder)?;
        let fields = &self.fields;
        let up_to = |field, most| {
            let most = Term::from_field_u64(field, most);
            let range = RangeQuery::new(Bound::Unbounded, Bound::Included(most));
            Box::new(range) as Box<dyn Query>
        };
        let failed = self.home.failed();
        let searcher = self.index.reader().map_err(&failed)?.searcher();
        let of_page = |(url, time)| {
            let url = Term::from_field_text(fields.url, url);
            // Most are gone already.
            let is_there = searcher
                .doc_freq(&url)
                .map_or(true, |documents| documents > 0);
            let url = Box::new(TermQuery::new(url, IndexRecordOption::Basic));
            let time = clock::of_timestamp(time).unwrap_or(u64::MAX);
            let earlier = up_to(fields.fetched, time);
            let both = Box::new(BooleanQuery::intersection(vec![url, earlier])) as Box<dyn Query>;
            is_there.then_some(both)
        };
        let pages = self.withdrawn.pages(&[Use::Text, Use::Index]);
        let obeys = self.home.obeyed.contains(&Signal::Robots);
        let outdated = obeys.then(|| up_to(fields.until, today));
        let mut is_any = false;
        for query in pages.filter_map(of_page).chain(outdated) {
            if searcher.search(&query, &Count).map_err(&failed)? > 0 {
                self.writer.delete_query(query).map_err(&failed)?;
                is_any = true;
            }
        }
        self.is_changed |= is_any;
        self.withdrawn_to = Some(now);
        Ok(is_any)
    }

    /// The files of documents in order, with their lengths.
    fn files(&self) -> Result<Vec<(String, u64)>, ToolError> {
        let path = self.home.folder.join(DOCUMENTS);
        let entries = if_there(beneath::entries(&self.home.folder, DOCUMENTS));
        let entries = entries.map_err(IoError::at(&path, "listing"))?;
        let mut files = Vec::new();
        for (entry, kind) in entries.into_iter().flatten() {
            let name = format!("{DOCUMENTS}/{entry}");
            if kind == Kind::File && FilePacking::of(&entry).is_some() {
                let length = beneath::look(&self.home.folder, &name)
                    .map_err(IoError::at(&path, "listing"))?;
                files.extend(length.map(|length| (name, length)));
            }
        }
        files.sort();
        Ok(files)
    }

    /// Removes the documents of files that are gone or whose indexed part was changed.
    fn forget(&mut self, files: &[(String, u64)], updated: &mut Updated) -> Result<(), ToolError> {
        let mut gone = Vec::new();
        for (name, known) in &self.state.files {
            let is_there = files.iter().any(|(file, _)| file == name);
            let compared = if is_there {
                known
                    .compare(&self.home.folder, name)
                    .map_err(IoError::at(&self.home.folder.join(name), "reading"))?
            } else {
                FileChange::Changed
            };
            if compared == FileChange::Changed {
                gone.push(name.clone());
            }
        }
        let last = files.last().map(|(name, _)| name);
        let is_last = gone.iter().all(|name| Some(name) == last);
        if self.home.is_job && !is_last {
            // An earlier line of an address is removed if a later file has a newer one, so all
            // files are read in order.
            self.clear(self.state.generation)?;
            updated.reread += 1;
            return Ok(());
        }
        for name in gone {
            self.writer
                .delete_term(Term::from_field_text(self.fields.file, &name));
            self.state.files.remove(&name);
            self.is_changed = true;
            updated.reread += 1;
        }
        Ok(())
    }

    /// Indexes the rest of a file.
    fn file(
        &mut self,
        name: &str,
        length: u64,
        stop: &AtomicBool,
        mut step: Option<&mut Step>,
        updated: &mut Updated,
    ) -> Result<(), ToolError> {
        let begin = self.state.files.get(name).map(IndexedFile::position);
        let begin = begin.unwrap_or_default();
        if begin.byte >= length {
            return Ok(());
        }
        let path = self.home.folder.join(name);
        let failed = |error| ToolError::from(IoError::at(&path, "reading")(error));
        let mut lines = Lines::open(&self.home.folder, name, begin).map_err(failed)?;
        let mut reported = begin.byte;
        while !stop.load(Ordering::Relaxed) {
            let Some(item) = lines.next().map_err(failed)? else {
                break;
            };
            let position = lines.position();
            match item {
                ReadItem::Line(place, line) => match EntryLine::parse(&line) {
                    Ok(read) => {
                        let is_forbidden = self.is_forbidden(&read);
                        updated.added += u64::from(!is_forbidden);
                        updated.forbidden += u64::from(is_forbidden);
                        self.add(read, place, is_forbidden)?;
                    }
                    Err(why) => updated.report(format!("{name}, line {}: {why}", place.line)),
                },
                ReadItem::Damage { byte, why } => {
                    updated.report(format!("{name}, byte {byte}: {why}"))
                }
            }
            if let Some(step) = &mut step {
                step.advance(position.byte.saturating_sub(reported));
                reported = position.byte;
            }
            if self.committed.elapsed() >= COMMIT {
                self.reached(name, position)?;
                self.commit()?;
            }
        }
        let position = lines.position();
        if let Some(step) = step {
            step.advance(position.byte.saturating_sub(reported));
        }
        if position != begin {
            self.reached(name, position)?;
        }
        Ok(())
    }

    /// Records the position up to which a file was read.
    fn reached(&mut self, name: &str, position: ReadPosition) -> Result<(), ToolError> {
        let known = IndexedFile::at(&self.home.folder, name, position)
            .map_err(IoError::at(&self.home.folder.join(name), "reading"))?;
        self.state.files.insert(name.to_owned(), known);
        self.is_changed = true;
        Ok(())
    }

    /// Whether the publisher of a document forbids searches in it, or has withdrawn it.
    fn is_forbidden(&self, read: &EntryLine) -> bool {
        let fetched = read.fetched.as_deref().unwrap_or_default();
        let by = read
            .terms
            .forbids(Use::Index, &self.home.obeyed, (self.clock)());
        let withdrawn = |what| self.withdrawn.by(&read.url, fetched, what).is_some();
        !by.is_empty() || withdrawn(Use::Index) || withdrawn(Use::Text)
    }

    fn add(
        &mut self,
        read: EntryLine,
        place: super::DocumentPlace,
        is_forbidden: bool,
    ) -> Result<(), ToolError> {
        if self.home.is_job && read.is_newer() {
            self.is_changed = true;
            self.writer
                .delete_term(Term::from_field_text(self.fields.url, &read.url));
        }
        if is_forbidden {
            return Ok(());
        }
        let mentions = match &self.finder {
            Some(finder) => read.entities_of(finder),
            None => read.own_entities(),
        };
        let boundaries = self.home.boundaries.as_ref();
        let entries = read.entries(place, &self.fields, boundaries, &mentions);
        entries.into_iter().try_for_each(|entry| self.put(entry))
    }

    fn put(&mut self, entry: TantivyDocument) -> Result<(), ToolError> {
        self.is_changed = true;
        self.writer
            .add_document(entry)
            .map(|_| ())
            .map_err(self.home.failed())
    }

    /// Indexes new rows about documents.
    fn rows(&mut self) -> Result<(), ToolError> {
        let (home, fields) = (self.home.clone(), self.fields);
        let images = rows::images(&home, self.state.images, |page, picture| {
            self.put(entry::of_picture(page, picture, &fields))
        })?;
        self.state.images = images;
        if beneath::is_dir(&home.folder, "archive") {
            let captures = rows::captures(&home, self.state.captures, |key, stored| {
                self.put(entry::of_capture(key, stored, &fields))
            })?;
            self.state.captures = captures;
        }
        Ok(())
    }

    /// Removes everything.
    fn clear(&mut self, generation: u64) -> Result<(), ToolError> {
        self.writer
            .delete_all_documents()
            .map_err(self.home.failed())?;
        let entities = self.state.entities.take();
        self.state = IndexState::new(generation);
        self.state.entities = entities;
        self.is_changed = true;
        Ok(())
    }

    /// Makes all additions visible, together with the positions in files.
    fn commit(&mut self) -> Result<(), ToolError> {
        self.committed = Instant::now();
        if !std::mem::take(&mut self.is_changed) {
            return Ok(());
        }
        let mut commit = self.writer.prepare_commit().map_err(self.home.failed())?;
        commit.set_payload(&self.state.to_text());
        commit.commit().map(|_| ()).map_err(self.home.failed())
    }

    /// Rewrites files that still contain data removed from the index.
    fn purge(&mut self) -> Result<(), ToolError> {
        let failed = self.home.failed();
        let segments = self.index.searchable_segment_metas().map_err(&failed)?;
        let holding = segments.iter().filter(|s| s.num_deleted_docs() > 0);
        let holding: Vec<_> = holding.map(|segment| segment.id()).collect();
        if !holding.is_empty() {
            self.writer.merge(&holding).wait().map_err(&failed)?;
        }
        // Files that are still in use here are not removed.
        drop(segments);
        let removed = self.writer.garbage_collect_files().wait();
        removed.map(|_| ()).map_err(&failed)
    }

    /// The documents that the index has.
    fn documents(&self) -> Result<u64, ToolError> {
        super::Search::open(&self.home)?.documents()
    }

    /// Waits until files are merged, and closes the index.
    ///
    /// # Errors
    ///
    /// [`ToolError`].
    pub fn close(self) -> Result<(), ToolError> {
        let Self { home, writer, .. } = self;
        writer.wait_merging_threads().map_err(home.failed())
    }
}

impl Updated {
    fn report(&mut self, problem: String) {
        self.damaged += 1;
        if self.damage.len() < MOST_PROBLEMS {
            self.damage.push(problem);
        }
    }
}

/// The analyzers by the names in the schema.
pub(super) fn tokenizers() -> TokenizerManager {
    let tokenizers = TokenizerManager::default();
    tokenizers.register(words::NAME, words::analyzer());
    tokenizers
}
