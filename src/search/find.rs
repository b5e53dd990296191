//! Searching the index.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tantivy::aggregation::AggregationCollector;
use tantivy::aggregation::agg_req::Aggregations;
use tantivy::collector::{Count, TopDocs};
use tantivy::directory::MmapDirectory;
use tantivy::query::{BooleanQuery, Occur, Query, TermQuery};
use tantivy::schema::{Field, IndexRecordOption, Value as _};
use tantivy::{
    DocAddress, Index, IndexReader, Order, ReloadPolicy, Searcher, TantivyDocument, TantivyError,
    Term,
};

use super::query::{self, Request, WantedWord};
use super::schema::{self, About, CAPTURE, DOCUMENT, IMAGE, IndexFields, Picture, Stored, schema};
use super::snippet::Snippet;
use super::state::IndexState;
use super::update::tokenizers;
use super::{FOLDER, Home};
use crate::fs::IoError;
use crate::fs::beneath;
use crate::tool_error::ToolError;

/// The most values of a facet.
const VALUES: usize = 12;
/// The most hits of a search, and the most that are skipped.
pub(super) const MOST: usize = 10_000;

/// An open index.
pub struct Search {
    pub(super) home: Home,
    pub(super) reader: IndexReader,
    pub(super) fields: IndexFields,
}

/// The result of a search.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SearchResult {
    /// Documents in the index.
    pub documents: u64,
    /// Documents that match.
    pub total: u64,
    /// Its duration in milliseconds.
    pub ms: f64,
    /// The requested hits, the best first.
    pub hits: Vec<Hit>,
    /// Counts of all that match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facets: Option<Facets>,
}

/// A document that matches.
#[derive(Debug, Clone, Serialize)]
pub struct Hit {
    /// Its number on the page.
    #[serde(skip)]
    pub key: u64,
    /// How well it matches; absent if no words are searched for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f32>,
    /// Its title.
    pub title: String,
    /// The title with the searched words marked.
    #[serde(skip)]
    pub marked: Snippet,
    /// The best passage of its text.
    pub snippet: Snippet,
    /// Everything else about it.
    #[serde(flatten)]
    pub about: About,
}

/// A whole document.
#[derive(Debug, Clone)]
pub struct Whole {
    /// Its title.
    pub title: String,
    /// Its text.
    pub text: String,
    /// Everything else about it.
    pub about: About,
}

/// The number of matching documents by value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Facets {
    /// By host.
    pub host: Facet,
    /// By year.
    pub year: Facet,
    /// By language.
    pub language: Facet,
    /// By class of perplexity.
    pub bucket: Facet,
    /// By entity.
    pub entity: Facet,
    /// By class of entities.
    pub class: Facet,
}

/// The most frequent values, with their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Facet {
    /// The values.
    pub values: Vec<(String, u64)>,
    /// The documents with other values.
    pub others: u64,
}

impl Search {
    /// Opens the index of a folder.
    ///
    /// # Errors
    ///
    /// [`ToolError`].
    pub fn open(home: &Home) -> Result<Self, ToolError> {
        let folder = home.folder.display();
        let none = || {
            let why = format_args!("no index yet; make it with `spoor index {folder}`");
            ToolError::at(&home.folder, why)
        };
        let path = home.index();
        if !beneath::is_dir(&home.folder, FOLDER) {
            return Err(none());
        }
        beneath::refuse_links_out(&home.folder, FOLDER, 0)
            .map_err(IoError::at(&path, "opening"))?;
        let opened = guarded(|| {
            let directory = MmapDirectory::open(&path)?;
            if !Index::exists(&directory)? {
                return Ok(None);
            }
            let mut index = Index::open(directory)?;
            index.set_tokenizers(tokenizers());
            let payload = index.load_metas()?.payload;
            let reader = index
                .reader_builder()
                .reload_policy(ReloadPolicy::Manual)
                .doc_store_cache_num_blocks(16)
                .try_into()?;
            Ok(Some((index, payload, reader)))
        });
        let (index, payload, reader) = opened.map_err(home.failed())?.ok_or_else(none)?;
        let (schema, fields) = schema();
        let payload = payload.ok_or_else(none)?;
        if index.schema() != schema || IndexState::parse(&payload).is_none() {
            let why = format_args!(
                "the index has the form of another version of spoor; `spoor index {folder}` makes \
                 it again"
            );
            return Err(ToolError::at(&home.folder, why));
        }
        Ok(Self {
            home: home.clone(),
            reader,
            fields,
        })
    }

    /// Makes documents visible that were indexed since it was opened.
    ///
    /// # Errors
    ///
    /// [`ToolError`].
    pub fn reload(&self) -> Result<(), ToolError> {
        guarded(|| self.reader.reload()).map_err(self.home.failed())
    }

    /// The documents of the index.
    ///
    /// # Errors
    ///
    /// [`ToolError`].
    pub fn documents(&self) -> Result<u64, ToolError> {
        let all = self.of_kind(DOCUMENT);
        let count = guarded(|| self.reader.searcher().search(&all, &Count));
        Ok(count.map_err(self.home.failed())? as u64)
    }

    /// Bytes of files of documents that are not indexed yet.
    ///
    /// # Errors
    ///
    /// [`ToolError`].
    pub fn behind(&self) -> Result<u64, ToolError> {
        let searcher = self.reader.searcher();
        let metas = guarded(|| searcher.index().load_metas()).map_err(self.home.failed())?;
        let state = metas.payload.as_deref().and_then(IndexState::parse);
        let state = state.unwrap_or_default();
        Ok(state.behind(&self.home.folder))
    }

    /// Searches.
    ///
    /// # Errors
    ///
    /// [`ToolError`].
    pub fn find(&self, request: &Request) -> Result<SearchResult, ToolError> {
        if request.is_near() {
            return self.find_within(request);
        }
        self.check_names(request)?;
        let begun = Instant::now();
        let parsed = query::parse(request, &self.fields)?;
        let searcher = self.reader.searcher();
        let documents = self.of_kind(DOCUMENT);
        let (limit, offset) = (request.limit.min(MOST), request.offset.min(MOST));
        let found = guarded(|| {
            let documents = searcher.search(&documents, &Count)? as u64;
            let query = parsed.query.as_ref();
            let top = TopDocs::with_limit(limit.max(1)).and_offset(offset);
            let facets = request.facets.then(facets).transpose()?;
            let (total, hits, facets) = if parsed.is_ranked {
                let (total, hits, facets) =
                    searcher.search(query, &(Count, top.order_by_score(), facets))?;
                let hits: Vec<_> = hits.into_iter().map(|(s, at)| (Some(s), at)).collect();
                (total, hits, facets)
            } else {
                let top = top.order_by_fast_field::<u64>("date", Order::Desc);
                let (total, hits, facets) = searcher.search(query, &(Count, top, facets))?;
                let hits: Vec<_> = hits.into_iter().map(|(_, at)| (None, at)).collect();
                (total, hits, facets)
            };
            let hits = hits
                .into_iter()
                .take(limit)
                .map(|(score, at)| self.hit(&searcher, at, score, &parsed.wanted))
                .collect::<Result<Vec<_>, _>>()?;
            let facets = match facets {
                Some(counted) => Some(Facets::of(&serde_json::to_value(counted).map_err(odd)?)),
                None => None,
            };
            Ok(SearchResult {
                documents,
                total: total as u64,
                ms: begun.elapsed().as_secs_f64() * 1e3,
                hits,
                facets,
            })
        });
        found.map_err(self.home.failed())
    }

    pub(super) fn hit(
        &self,
        searcher: &Searcher,
        at: DocAddress,
        score: Option<f32>,
        wanted: &[WantedWord],
    ) -> tantivy::Result<Hit> {
        let Whole {
            title,
            text,
            mut about,
        } = self.read(searcher, at)?;
        let key = about.place.key();
        if about.capture.is_none() && self.home.is_job {
            let mut all: Vec<Stored> =
                self.read_abouts(searcher, CAPTURE, self.fields.key, key, 8)?;
            about.capture = all.pop();
        }
        Ok(Hit {
            key,
            score,
            marked: Snippet::whole(&title, wanted),
            title,
            snippet: Snippet::of(&text, wanted),
            about,
        })
    }

    pub(super) fn read(&self, searcher: &Searcher, at: DocAddress) -> tantivy::Result<Whole> {
        let entry: TantivyDocument = searcher.doc(at)?;
        let text = |field| text_of(&entry, field).to_owned();
        Ok(Whole {
            title: text(self.fields.title),
            text: text(self.fields.text),
            about: serde_json::from_str(text_of(&entry, self.fields.about)).map_err(odd)?,
        })
    }

    /// The document with a number.
    ///
    /// # Errors
    ///
    /// [`ToolError`].
    pub fn document(&self, key: u64) -> Result<Option<Whole>, ToolError> {
        let query = self.of_kind_with(DOCUMENT, self.fields.key, key);
        let found = guarded(|| {
            let searcher = self.reader.searcher();
            let first = searcher.search(&query, &TopDocs::with_limit(1).order_by_score())?;
            let first = first.first().map(|(_, at)| self.read(&searcher, *at));
            first.transpose()
        });
        found.map_err(self.home.failed())
    }

    /// Images of a page, each once.
    ///
    /// # Errors
    ///
    /// [`ToolError`].
    pub fn pictures(&self, page: &str, limit: usize) -> Result<Vec<Picture>, ToolError> {
        let mut seen = HashSet::new();
        // An image has a row for each change of its words.
        let all: Vec<Picture> =
            self.abouts(IMAGE, self.fields.page, schema::page(page), limit * 4)?;
        let mut all: Vec<_> = all
            .into_iter()
            .filter(|picture| seen.insert(picture.file.clone()))
            .filter(|picture| beneath::is_file(&self.home.folder, &picture.file))
            .collect();
        all.sort_by(|a, b| a.file.cmp(&b.file));
        all.truncate(limit);
        Ok(all)
    }

    /// The place in the archive of a document's page.
    ///
    /// # Errors
    ///
    /// [`ToolError`].
    pub fn capture(&self, key: u64, about: &About) -> Result<Option<Stored>, ToolError> {
        if about.capture.is_some() {
            return Ok(about.capture.clone());
        }
        let mut all: Vec<Stored> = self.abouts(CAPTURE, self.fields.key, key, 8)?;
        Ok(all.pop())
    }

    fn abouts<T: for<'de> Deserialize<'de>>(
        &self,
        kind: &str,
        field: Field,
        number: u64,
        limit: usize,
    ) -> Result<Vec<T>, ToolError> {
        let searcher = self.reader.searcher();
        let found = guarded(|| self.read_abouts(&searcher, kind, field, number, limit));
        found.map_err(self.home.failed())
    }

    fn read_abouts<T: for<'de> Deserialize<'de>>(
        &self,
        searcher: &Searcher,
        kind: &str,
        field: Field,
        number: u64,
        limit: usize,
    ) -> tantivy::Result<Vec<T>> {
        let query = self.of_kind_with(kind, field, number);
        let top = TopDocs::with_limit(limit.max(1)).order_by_score();
        let found = searcher.search(&query, &top)?;
        let read = found.into_iter().map(|(_, at)| {
            let entry: TantivyDocument = searcher.doc(at)?;
            serde_json::from_str(text_of(&entry, self.fields.about)).map_err(odd)
        });
        read.collect()
    }

    pub(super) fn of_kind(&self, kind: &str) -> TermQuery {
        let term = Term::from_field_text(self.fields.kind, kind);
        TermQuery::new(term, IndexRecordOption::Basic)
    }

    pub(super) fn of_kind_with(&self, kind: &str, field: Field, number: u64) -> BooleanQuery {
        let number = Term::from_field_u64(field, number);
        let number = TermQuery::new(number, IndexRecordOption::Basic);
        let both: [Box<dyn Query>; 2] = [Box::new(self.of_kind(kind)), Box::new(number)];
        BooleanQuery::new(both.into_iter().map(|q| (Occur::Must, q)).collect())
    }
}

pub(super) fn text_of(entry: &TantivyDocument, field: Field) -> &str {
    let value = entry.get_first(field);
    value.and_then(|value| value.as_str()).unwrap_or_default()
}

/// The requested counts.
pub(super) fn facets() -> tantivy::Result<AggregationCollector> {
    let terms = |field: &str| json!({"terms": {"field": field, "size": VALUES}});
    let years = json!({"terms": {"field": "year", "size": VALUES, "order": {"_key": "desc"}}});
    let asked = json!({
        "host": terms("host"),
        "year": years,
        "language": terms("language"),
        "bucket": terms("bucket"),
        "entity": terms("entity"),
        "class": terms("class"),
    });
    let asked: Aggregations = serde_json::from_value(asked).map_err(odd)?;
    Ok(AggregationCollector::from_aggs(asked, Default::default()))
}

impl Facets {
    pub(super) fn of(counted: &Value) -> Self {
        let facet = |name: &str| {
            let facet = counted.get(name);
            let values = facet.and_then(|f| f.get("buckets")?.as_array());
            let values = values.into_iter().flatten().filter_map(|value| {
                let key = match value.get("key")? {
                    Value::String(text) => text.clone(),
                    number => format!("{}", number.as_f64()?),
                };
                Some((key, value.get("doc_count")?.as_u64()?))
            });
            Facet {
                values: values.filter(|(key, _)| !key.is_empty()).collect(),
                others: facet
                    .and_then(|f| f.get("sum_other_doc_count")?.as_u64())
                    .unwrap_or(0),
            }
        };
        Self {
            host: facet("host"),
            year: facet("year"),
            language: facet("language"),
            bucket: facet("bucket"),
            entity: facet("entity"),
            class: facet("class"),
        }
    }
}

pub(super) fn odd(error: serde_json::Error) -> TantivyError {
    TantivyError::InternalError(error.to_string())
}

/// Catches panics, because the library panics in some places if an index is damaged.
pub(super) fn guarded<T>(work: impl FnOnce() -> tantivy::Result<T>) -> tantivy::Result<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(TantivyError::InternalError("it is damaged".to_owned())))
}
