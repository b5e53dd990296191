//! The columns of documents.

use serde::Deserialize;
use serde_json::Map;

use super::super::document::Document;
use crate::columns::{ColumnKind, ColumnValue, DataColumn, TERMS, columns};
use crate::page::{Directives, RslTerms, SignalValue, Terms};

/// The document in a line of JSON.
///
/// # Errors
///
/// The line is not a document.
pub(in crate::pipeline) fn of_line(line: &[u8]) -> serde_json::Result<Document> {
    let mut map: Map<String, serde_json::Value> = serde_json::from_slice(line)?;
    let terms = terms(&map);
    map.retain(|name, _| TERMS.iter().all(|term| term.name != *name));
    let mut document: Document = serde_json::from_value(serde_json::Value::Object(map))?;
    document.terms = terms;
    Ok(document)
}

/// The terms of use in a line of JSON: documents of jobs have them as an object, those of corpora as
/// columns. `None` if there are none.
///
/// # Errors
///
/// They cannot be read, so they may forbid anything.
pub fn stated_terms(map: &Map<String, serde_json::Value>) -> serde_json::Result<Option<Terms>> {
    match map.get("terms") {
        Some(stated) if stated.is_object() => Terms::deserialize(stated).map(Some),
        _ => Ok(terms(map)),
    }
}

/// The terms of use in the columns of a line; `None` if they are empty.
fn terms(map: &Map<String, serde_json::Value>) -> Option<Terms> {
    let is_true = |name: &str| map.get(name).and_then(|value| value.as_bool());
    let text = |name: &str| Some(map.get(name)?.as_str()?.to_owned());
    let texts = |name: &str| {
        let list = map.get(name).and_then(|value| value.as_array());
        let texts = list
            .into_iter()
            .flatten()
            .filter_map(|value| value.as_str());
        texts.map(str::to_owned).collect::<Vec<_>>()
    };
    let flag = |name| is_true(name) == Some(true);
    let mut terms = Terms {
        directives: Directives {
            nofollow: false,
            noindex: flag("noindex"),
            noimageindex: flag("noimageindex"),
            noai: flag("noai"),
            noimageai: flag("noimageai"),
            noml: flag("noml"),
            noarchive: flag("noarchive"),
            unavailable_after: text("unavailable_after"),
        },
        tdm_reservation: is_true("tdm_reservation"),
        tdm_policy: text("tdm_policy"),
        ..Terms::default()
    };
    for signal in texts("content_signals") {
        if let Some((name, value)) = signal.split_once('=') {
            terms.signal(name.to_owned(), SignalValue::of(value));
        }
    }
    let (unread, prohibits): (Vec<_>, Vec<_>) = texts("rsl_prohibits")
        .into_iter()
        .partition(|name| name == "?");
    if !unread.is_empty() || !prohibits.is_empty() {
        terms.rsl.push(RslTerms {
            read: unread.is_empty(),
            prohibits,
            ..RslTerms::default()
        });
    }
    Some(terms).filter(|terms| *terms != Terms::default())
}

/// The columns, in order. `measures` are the names of the quality measures, `layers` those of
/// the columns that jobs and steps add.
pub(in crate::pipeline) fn columns(
    measures: &[String],
    layers: &[String],
) -> Vec<DataColumn<Document>> {
    let added = |all: Vec<DataColumn<Document>>| {
        let is_there = |column: &DataColumn<_>| layers.iter().any(|name| *name == column.name);
        all.into_iter().filter(is_there).collect::<Vec<_>>()
    };
    let mut all = of_text();
    all.extend(of_steps());
    all.extend(added(of_layers()));
    for name in measures {
        let key = format!("quality_{name}");
        let about = format!("What the rule `{name}` measured.");
        all.push(DataColumn::new(
            key.clone(),
            ColumnKind::Number,
            about,
            move |d: &Document| d.quality.get(&key).copied().flatten().into(),
        ));
    }
    all.extend(of_place());
    all.extend(added(of_crawl()));
    let mut said = columns! { d: Document;
        licences: Texts = &d.licences,
            "Addresses or names of licences that the page or its headers give.";
    };
    // Statements about images do not concern text.
    for term in TERMS.iter() {
        let about = format!("The page: {}.", term.about);
        said.push(DataColumn::new(
            term.name.clone(),
            term.kind,
            about,
            move |d: &Document| match &d.terms {
                Some(terms) => term.value(terms),
                None => term.value(&Terms::default()),
            },
        ));
    }
    all.extend(said.into_iter().map(DataColumn::of_publisher));
    all
}

/// The document itself.
fn of_text() -> Vec<DataColumn<Document>> {
    columns! { d: Document;
        id: Text = &d.id, "The same for the same address with the same text in every corpus.";
        url: Text = &d.url, "Address of the page; of a file `file:` and its path.";
        title: Text = &d.title, "Title of the page.";
        text: Text = &d.text, "The text; an empty line separates two paragraphs.";
        block_kinds: Texts = &d.block_kinds,
            "What each part of `text` is: `paragraph`, `heading1` to `heading6`, `item1` and \
             `numbered1` (items of lists at that depth), `term`, `definition`, `table`, `code`, \
             `quote`, `caption` or `formula`.";
        block_offsets: Wholes = &d.block_offsets,
            "Where these are in `text`, two numbers each: from and to, in characters.";
        image_urls: Texts = &d.image_urls,
            "Addresses of the images in the text, in its order, whether they were kept or not.";
        image_blocks: Wholes = &d.image_blocks,
            "How many of the parts of `text` come before each of these images.";
        words: Whole = d.words, "Words of `text`, excluding numbers.";
        sentences: Whole = d.sentences, "Sentences of `text`.";
        date: Text = &d.date,
            "When it was published, else when it was fetched: ISO 8601, as precise as that.";
        published: Text = &d.published, "When it was published, as the page states.";
        modified: Text = &d.modified, "When it was last changed, as the page states.";
        fetched: Time = &d.fetched, "When it was fetched, in UTC.";
        authors: Texts = &d.authors, "Names of the authors that the page gives.";
        host: Text = &d.host, "Host of the address, with the port if given.";
        language: Text = &d.language, "Recognised language of the text, as an ISO 639 code.";
        language_certainty: Number = d.language_certainty, "How certain that is, from 0 to 1.";
        declared_language: Text = &d.declared_language, "Language that the page declares.";
        charset_declared: Text = &d.charset_declared, "Character encoding that is declared.";
        charset_used: Text = &d.charset_used, "Character encoding by which it was read.";
        mime: Text = &d.mime, "Media type, where an archive states it.";
        extractor: Text = &d.extractor,
            "What separated the text from the rest of the page: `main`, `density`, or `all` \
             where these left too little.";
    }
}

/// The findings of steps.
fn of_steps() -> Vec<DataColumn<Document>> {
    columns! { d: Document;
        perplexity: Number = d.perplexity,
            "Perplexity under a topic's model; lower is closer to the topic.";
        perplexity_neutral: Number = d.perplexity_neutral,
            "Perplexity by the frequencies of the words of its language.";
        contrast: Number = d.contrast,
            "How much its words speak for the topic, above 0, or against it.";
        bucket: Text = &d.bucket,
            "`head`, `middle` or `tail` of the documents of its language by perplexity.";
        copy_of: Text = &d.copy_of, "The `id` of the document that it is a copy of.";
        similarity: Number = d.similarity, "How similar it is to that, from 0 to 1.";
        copy_spans: Wholes = &d.copy_spans,
            "The passages that are the same, four numbers each: from and to in this text, from \
             and to in the other, in bytes of UTF-8.";
        parts_removed: Whole = d.parts_removed,
            "Lines, paragraphs or sentences that steps removed.";
        masked: Whole = d.masked,
            "Mail addresses, telephone numbers and addresses of machines that were found.";
        controls_removed: Whole = d.controls_removed, "Control characters that were removed.";
        rule: Text = &d.rule, "The rule that was chosen for the page.";
        fields: Text = &d.fields,
            "What that rule found: JSON, a list of objects with `name`, `value`, `css_path` and \
             `url`.";
        fields_missing: Texts = &d.fields_missing, "Its required fields that have no value.";
    }
}

/// The additions of steps.
fn of_layers() -> Vec<DataColumn<Document>> {
    columns! { d: Document;
        tokens: Texts = &d.tokens, "Tokens of `text` that the step `grammar` left.";
        token_offsets: Wholes = &d.token_offsets,
            "Where these stand in `text`, two numbers each: from and to, in characters.";
        stems: Texts = &d.stems, "Their stems, by Snowball.";
        lemmas: Texts = &d.lemmas, "Their lemmas; where none is known, the words in lower case.";
        synonyms: Texts = &d.synonyms, "The words that stand for those of the same meaning.";
        tags: Texts = &d.tags, "Their parts of speech.";
        entities: Text = &d.entities,
            "Entities in title and text: JSON, a list of objects as `spoor entities find` writes \
             them.";
        entity_names: Texts = &d.entity_names, "Names of these entities, each once.";
    }
}

/// Its place.
fn of_place() -> Vec<DataColumn<Document>> {
    columns! { d: Document;
        job: Text = &d.job, "The job that has it.";
        on_topic: Number = d.on_topic,
            "How probable it is that the page is on topic, as the crawl judged it.";
        archive: Text = &d.archive, "The file that it lies in.";
        offset: Whole = d.offset, "Where in that file: the byte of the record, or the line.";
        length: Whole = d.length, "Length of the record there, decompressed.";
        digest: Text = &d.digest, "Digest that the record states.";
    }
}

/// Further data of a job.
pub(in crate::pipeline) fn of_crawl() -> Vec<DataColumn<Document>> {
    columns! { d: Document;
        crawl_perplexity: Number = d.crawl_perplexity,
            "Perplexity of the page's text under the model of the topic, as the crawl measured it.";
        crawl_contrast: Number = d.crawl_contrast,
            "Mean contrast of the page's words between texts about the topic and others, as the \
             crawl measured it; above 0 they speak for the topic.";
        hops: Whole = d.hops, "Links from the nearest seed.";
        via: Text = &d.via, "Page on which the address was found; absent for seeds.";
        control: Flag = d.control,
            "Whether the page was drawn at random for the control sample.";
        canonical: Text = &d.canonical, "Canonical address that the page declares, if any.";
        hash: Text = &d.hash,
            "SHA-256 of the text as it was crawled, by which the document is found in the job's \
             folder.";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::json;

    #[test]
    fn a_line_has_every_column_and_is_read_back() {
        let mut terms = Terms::default();
        terms.directives.noai = true;
        terms.tdm_reservation = Some(false);
        terms.directives.noimageai = true;
        terms.directives.unavailable_from("2030-01-01".to_owned());
        terms.signal("ai-train".to_owned(), SignalValue::Flag(false));
        terms.signal("use".to_owned(), SignalValue::of("reference"));
        terms.rsl.push(RslTerms {
            prohibits: vec!["search".to_owned()],
            ..RslTerms::default()
        });
        let document = Document {
            id: "7".to_owned(),
            url: "http://a.test/".to_owned(),
            text: "One.\u{202e}".to_owned(),
            copy_spans: vec![0, 3, 5, 8],
            quality: [("quality_words".to_owned(), Some(1.0))].into(),
            terms: Some(terms),
            ..Document::default()
        };
        let columns = columns(&["words".to_owned()], &["stems".to_owned()]);
        let line = json(&columns, &document);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value.as_object().unwrap().len(), columns.len());
        assert_eq!(
            (&value["noai"], &value["quality_words"]),
            (&true.into(), &1.0.into())
        );
        assert_eq!(of_line(line.as_bytes()).unwrap(), document);
    }

    /// A column for every field that is not already a column; each occurs once.
    #[test]
    fn every_field_is_a_column() {
        let fields = serde_json::to_value(Document::default()).unwrap();
        let layers = of_layers().into_iter().chain(of_crawl());
        let layers: Vec<String> = layers.map(|c| c.name.to_string()).collect();
        let columns = columns(&[], &layers);
        let names: std::collections::BTreeSet<&str> = columns.iter().map(|c| &*c.name).collect();
        assert_eq!(names.len(), columns.len());
        for field in fields.as_object().unwrap().keys() {
            assert!(
                field == "terms" || names.contains(field.as_str()),
                "{field}"
            );
        }
    }
}
