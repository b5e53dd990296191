//! Finds words that occur with entities: in a sentence, in a paragraph, or anywhere in a document.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use serde::Serialize;
use serde_json::json;
use tantivy::aggregation::AggregationCollector;
use tantivy::aggregation::agg_req::Aggregations;
use tantivy::collector::{Count, DocSetCollector, TopDocs};
use tantivy::query::{BooleanQuery, Occur, Query, TermQuery, TermSetQuery};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocAddress, Searcher, TantivyDocument, Term};

use super::find::{Facets, Hit, MOST, Search, SearchResult, facets, guarded, odd, text_of};
use super::named::{self, OF, PassageSpan};
use super::query::{self, Request, SearchQuery};
use super::schema::DOCUMENT;
use super::snippet::Snippet;
use crate::tool_error::ToolError;

/// The most entities of a class that are counted.
const ENTITIES: usize = 10_000;

/// An entity that occurs with the words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Occurring {
    /// Its name.
    pub entity: String,
    /// The number of sentences, paragraphs or documents.
    pub count: u64,
}

impl Search {
    /// The documents in which words occur with entities.
    pub(super) fn find_within(&self, request: &Request) -> Result<SearchResult, ToolError> {
        let begun = Instant::now();
        self.check_names(request)?;
        let parsed = query::parse(request, &self.fields)?;
        let (limit, offset) = (request.limit.min(MOST), request.offset.min(MOST));
        let found = guarded(|| {
            let searcher = self.reader.searcher();
            let documents = searcher.search(&self.of_kind(DOCUMENT), &Count)? as u64;
            let all = searcher.search(parsed.query.as_ref(), &DocSetCollector)?;
            let parents = Parents::of(&searcher)?;
            let keys: HashSet<u64> = all.iter().filter_map(|at| parents.get(*at)).collect();
            let top = TopDocs::with_limit(MOST).order_by_score();
            let mut seen = HashSet::new();
            let mut hits = Vec::new();
            for (score, at) in searcher.search(parsed.query.as_ref(), &top)? {
                let Some(key) = parents.get(at).filter(|key| seen.insert(*key)) else {
                    continue;
                };
                if seen.len() > offset && hits.len() < limit {
                    let score = parsed.is_ranked.then_some(score);
                    hits.extend(self.hit_within(&searcher, at, key, score, &parsed)?);
                }
            }
            let facets = if request.facets {
                Some(self.facets_of(&searcher, &keys)?)
            } else {
                None
            };
            Ok(SearchResult {
                documents,
                total: keys.len() as u64,
                ms: begun.elapsed().as_secs_f64() * 1e3,
                hits,
                facets,
            })
        });
        found.map_err(self.home.failed())
    }

    /// The hit of a passage: its document, with the passage as the context.
    fn hit_within(
        &self,
        searcher: &Searcher,
        at: DocAddress,
        key: u64,
        score: Option<f32>,
        parsed: &SearchQuery,
    ) -> tantivy::Result<Option<Hit>> {
        let passage: TantivyDocument = searcher.doc(at)?;
        let span = serde_json::from_str(text_of(&passage, self.fields.about)).map_err(odd)?;
        let query = self.of_kind_with(DOCUMENT, self.fields.key, key);
        let first = searcher.search(&query, &TopDocs::with_limit(1).order_by_score())?;
        let Some((_, document)) = first.first() else {
            return Ok(None);
        };
        let mut hit = self.hit(searcher, *document, score, &parsed.wanted)?;
        let PassageSpan { title, from, to } = span;
        let whole = self.read(searcher, *document)?;
        let field = if title { &whole.title } else { &whole.text };
        if let Some(said) = field.get(from..to) {
            hit.snippet = Snippet::of(said, &parsed.wanted);
        }
        Ok(Some(hit))
    }

    fn facets_of(&self, searcher: &Searcher, keys: &HashSet<u64>) -> tantivy::Result<Facets> {
        let terms = keys
            .iter()
            .map(|key| Term::from_field_u64(self.fields.key, *key));
        let documents: [Box<dyn Query>; 2] = [
            Box::new(self.of_kind(DOCUMENT)),
            Box::new(TermSetQuery::new(terms)),
        ];
        let documents = documents.into_iter().map(|query| (Occur::Must, query));
        let counted = searcher.search(&BooleanQuery::new(documents.collect()), &facets()?)?;
        Ok(Facets::of(&serde_json::to_value(counted).map_err(odd)?))
    }

    /// An error for an entity that is in no document, which is probably misspelt.
    pub(super) fn check_names(&self, request: &Request) -> Result<(), ToolError> {
        for name in &request.with {
            let term = Term::from_field_text(self.fields.entity_key, &named::key(name));
            let query = TermQuery::new(term, IndexRecordOption::Basic);
            let count = guarded(|| self.reader.searcher().search(&query, &Count));
            if count.map_err(self.home.failed())? == 0 {
                return Err(ToolError::usage(format_args!(
                    "no document has the entity `{name}`; give its name or identifier as the \
                     list has it, and index with `spoor index --entities LIST` first"
                )));
            }
        }
        Ok(())
    }

    /// The entities of a class that occur with the words and entities of a request, the most
    /// frequent first.
    ///
    /// # Errors
    ///
    /// [`ToolError`].
    pub fn occurring(&self, request: &Request, class: &str) -> Result<Vec<Occurring>, ToolError> {
        self.check_names(request)?;
        let parsed = query::parse_within(request, &self.fields, true)?;
        let class = class.trim();
        let begin = format!("{class}{OF}");
        let asked = json!({"all": {"terms": {
            "field": "pair",
            "size": ENTITIES,
            "include": format!("{}.*", regex::escape(&begin)),
        }}});
        let all = guarded(|| {
            let asked: Aggregations = serde_json::from_value(asked).map_err(odd)?;
            let collector = AggregationCollector::from_aggs(asked, Default::default());
            let counted = self
                .reader
                .searcher()
                .search(parsed.query.as_ref(), &collector)?;
            let counted = serde_json::to_value(counted).map_err(odd)?;
            let buckets = counted.pointer("/all/buckets").and_then(|b| b.as_array());
            let of = buckets.into_iter().flatten().filter_map(|bucket| {
                let entity = bucket.get("key")?.as_str()?.strip_prefix(&begin)?;
                Some(Occurring {
                    entity: entity.to_owned(),
                    count: bucket.get("doc_count")?.as_u64()?,
                })
            });
            Ok(of.collect::<Vec<_>>())
        });
        let mut all = all.map_err(self.home.failed())?;
        if all.is_empty() && !self.has_class(class)? {
            return Err(ToolError::usage(format_args!(
                "no document has an entity of the class `{class}`; give it as the list has it"
            )));
        }
        all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.entity.cmp(&b.entity)));
        Ok(all)
    }

    fn has_class(&self, class: &str) -> Result<bool, ToolError> {
        let term = Term::from_field_text(self.fields.class, class);
        let query = TermQuery::new(term, IndexRecordOption::Basic);
        let count = guarded(|| self.reader.searcher().search(&query, &Count));
        Ok(count.map_err(self.home.failed())? > 0)
    }
}

/// The number of the document by the place of a passage.
struct Parents(HashMap<u32, tantivy::columnar::Column<u64>>);

impl Parents {
    fn of(searcher: &Searcher) -> tantivy::Result<Self> {
        let mut all = HashMap::new();
        for (number, segment) in (0..).zip(searcher.segment_readers()) {
            all.insert(number, segment.fast_fields().u64("parent")?);
        }
        Ok(Self(all))
    }

    fn get(&self, at: DocAddress) -> Option<u64> {
        self.0.get(&at.segment_ord)?.first(at.doc_id)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    use super::super::{Filters, Home, Indexer, Updated, Within};
    use super::*;

    const LIST: &str = "\
United States\tcountry;state\t300\tUSA;America
Canada\tcountry\t200
Ada Lovelace\thuman\t150\tLady Lovelace\tfemale\tQ7259
";

    /// Three documents; the last one names its entities itself.
    fn home() -> (tempfile::TempDir, Home) {
        let folder = tempfile::tempdir().unwrap();
        let documents = folder.path().join("documents");
        std::fs::create_dir(&documents).unwrap();
        let own = r#"[{"in":"text","from":0,"to":3,"surface":"It:","entity":"Italy","id":"Italy","classes":["country"],"sentence":0,"paragraph":0}]"#;
        let lines = [
            serde_json::json!({"url": "http://a.test/0", "title": "News of Canada", "language": "en",
                "host": "a.test", "text": "The tax raise was decided in the USA. Nobody liked it.\n\n\
                    In Canada the rain fell. A tax raise?"}),
            serde_json::json!({"url": "http://b.test/1", "language": "en", "host": "b.test",
                "text": "Lady Lovelace wrote of America. She liked a tax.\n\nNo raise in Canada."}),
            serde_json::json!({"url": "http://b.test/2", "language": "en", "entities": own,
                "text": "It: a tax raise."}),
        ];
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(documents.join("0.jsonl"), text).unwrap();
        std::fs::write(folder.path().join("list.tsv"), LIST).unwrap();
        let home = Home::open(folder.path(), None, &spoor_values::page::Signal::ALL).unwrap();
        (folder, home)
    }

    fn index(home: &Home, list: Option<&Path>) -> Updated {
        let mut indexer = Indexer::open(home, 1).unwrap();
        if let Some(list) = list {
            assert_eq!(indexer.name(list).unwrap(), [] as [&str; 0]);
        }
        let updated = indexer.run(&AtomicBool::new(false)).unwrap();
        indexer.close().unwrap();
        updated
    }

    fn near(query: &str, with: &[&str], within: Within) -> Request {
        Request {
            query: query.to_owned(),
            limit: 10,
            with: with.iter().map(|name| (*name).to_owned()).collect(),
            within,
            ..Request::default()
        }
    }

    fn found(home: &Home, request: &Request) -> Vec<String> {
        let found = Search::open(home).unwrap().find(request).unwrap();
        assert_eq!(found.total, found.hits.len() as u64);
        let mut all: Vec<String> = found
            .hits
            .iter()
            .map(|hit| format!("{} {}", &hit.about.url[13..], hit.snippet.text().trim()))
            .collect();
        all.sort();
        all
    }

    #[test]
    fn words_occur_with_an_entity_in_a_sentence_or_paragraph() {
        let (folder, home) = home();
        index(&home, Some(&folder.path().join("list.tsv")));
        let of = |query: &str, with: &[&str], within| found(&home, &near(query, with, within));
        use Within::{Document, Paragraph, Sentence};
        let usa = ["united states"];
        assert_eq!(
            of("tax raise", &usa, Sentence),
            ["/0 The tax raise was decided in the USA."]
        );
        assert_eq!(of("\"tax raise\" -nobody", &usa, Sentence).len(), 1);
        assert!(of("\"tax raise\" -nobody", &usa, Paragraph).is_empty());
        assert!(of("tax raise", &["Canada"], Sentence).is_empty());
        assert_eq!(
            of("tax raise", &["Canada"], Paragraph),
            ["/0 In Canada the rain fell. A tax raise?"]
        );
        assert_eq!(of("tax", &["Canada"], Document).len(), 2);
        // By identifier, by pronoun, in the title, and two entities at once.
        assert_eq!(of("liked", &["q7259"], Sentence), ["/1 She liked a tax."]);
        assert_eq!(of("news", &["Canada"], Sentence), ["/0 News of Canada"]);
        let both = ["Ada Lovelace", "United States"];
        assert_eq!(
            of("", &both, Sentence),
            ["/1 Lady Lovelace wrote of America."]
        );
        assert!(of("tax", &both, Sentence).is_empty());
        // Filters are those of the document.
        let mut request = near("", &["Canada"], Paragraph);
        request.filters.hosts = vec!["a.test".to_owned()];
        assert!(
            found(&home, &request)
                .iter()
                .all(|hit| hit.starts_with("/0 "))
        );
    }

    #[test]
    fn entities_of_a_class_are_counted() {
        let (folder, home) = home();
        index(&home, Some(&folder.path().join("list.tsv")));
        let search = Search::open(&home).unwrap();
        let of = |query: &str, with: &[&str], within, class: &str| {
            let all = search.occurring(&near(query, with, within), class).unwrap();
            all.into_iter()
                .map(|o| format!("{} {}", o.entity, o.count))
                .collect::<Vec<_>>()
        };
        use Within::{Document, Paragraph, Sentence};
        assert_eq!(of("tax", &[], Sentence, "country"), ["United States 1"]);
        assert_eq!(
            of("raise", &[], Paragraph, "country"),
            ["Canada 2", "United States 1"]
        );
        assert_eq!(
            of("tax", &[], Document, "country"),
            ["Canada 2", "United States 2"]
        );
        assert_eq!(
            of("", &["Ada Lovelace"], Sentence, "state"),
            ["United States 1"]
        );
        assert!(of("rain", &[], Sentence, "human").is_empty());
        let wrong =
            |request: &Request, class| search.occurring(request, class).unwrap_err().to_string();
        let said = wrong(&near("tax", &[], Sentence), "planet");
        assert!(said.contains("class `planet`"), "{said}");
        let said = wrong(&near("tax", &["Atlantis"], Sentence), "country");
        assert!(said.contains("entity `Atlantis`"), "{said}");
        let said = wrong(&near("title:tax", &["Canada"], Sentence), "country");
        assert!(said.contains("leave out title:"), "{said}");
        // Facets count documents, even if passages are searched.
        let mut request = near("", &["Canada"], Sentence);
        request.facets = true;
        let facets = search.find(&request).unwrap().facets.unwrap();
        let country = ("country".to_owned(), 2);
        assert_eq!(facets.class.values.first(), Some(&country));
        assert_eq!(facets.host.values.len(), 2);
        let filters = Filters {
            entities: vec!["Canada".to_owned(), "Q7259".to_owned()],
            classes: vec!["human".to_owned()],
            ..Filters::default()
        };
        let chosen = Request {
            filters,
            ..near("", &[], Sentence)
        };
        assert_eq!(found(&home, &chosen).len(), 1);
    }

    #[test]
    fn the_list_is_kept_until_another_one_is_given() {
        let (folder, home) = home();
        let list = folder.path().join("list.tsv");
        // Without a list, documents name their own entities.
        index(&home, None);
        let italy = near("tax", &["Italy"], Within::Sentence);
        assert_eq!(found(&home, &italy), ["/2 It: a tax raise."]);
        assert_eq!(index(&home, Some(&list)).added, 3);
        let canada = near("rain", &["Canada"], Within::Sentence);
        assert_eq!(found(&home, &canada).len(), 1);
        assert!(Search::open(&home).unwrap().find(&italy).is_err());
        assert_eq!(index(&home, Some(&list)).added, 0);
        // New documents are read with the same list; with another list all are read again.
        let more =
            "{\"url\":\"http://c.test/3\",\"language\":\"en\",\"text\":\"Rain in Canada.\"}\n";
        std::fs::write(folder.path().join("documents/1.jsonl"), more).unwrap();
        assert_eq!(index(&home, None).added, 1);
        assert_eq!(found(&home, &canada).len(), 2);
        std::fs::write(&list, "Rain\tweather\t1\n").unwrap();
        assert_eq!(index(&home, None).added, 4);
        assert!(Search::open(&home).unwrap().find(&canada).is_err());
        assert_eq!(
            found(&home, &near("canada", &["Rain"], Within::Sentence)).len(),
            1
        );
        std::fs::remove_file(&list).unwrap();
        let mut indexer = Indexer::open(&home, 1).unwrap();
        let said = indexer
            .run(&AtomicBool::new(false))
            .unwrap_err()
            .to_string();
        assert!(said.contains("list.tsv"), "{said}");
        indexer.name_none().unwrap();
        indexer.run(&AtomicBool::new(false)).unwrap();
        indexer.close().unwrap();
        assert_eq!(found(&home, &italy).len(), 1);
    }
}
