//! The fields of the index, and what it keeps of each document.

use serde::{Deserialize, Serialize};
use tantivy::schema::{
    FAST, Field, INDEXED, IndexRecordOption, STORED, STRING, Schema, TextFieldIndexing, TextOptions,
};
use xxhash_rust::xxh3::xxh3_64;

use super::words;

/// Raised with every change of the fields or of the kept data; an index of another version is
/// made again.
pub(super) const VERSION: u32 = 4;

/// The kind of an entry of the index.
pub(super) const DOCUMENT: &str = "document";
/// An image on a page.
pub(super) const IMAGE: &str = "image";
/// The place in the archive of a document's page.
pub(super) const CAPTURE: &str = "capture";

/// A sentence with entities.
pub(super) const SENTENCE: &str = "sentence";
/// A paragraph with entities.
pub(super) const PARAGRAPH: &str = "paragraph";

/// The fields.
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexFields {
    /// One of the kinds above.
    pub kind: Field,
    pub text: Field,
    pub title: Field,
    pub url: Field,
    pub host: Field,
    /// The host and all domains above it.
    pub domain: Field,
    pub language: Field,
    pub bucket: Field,
    /// Year, month and day as a number: 20260102.
    pub date: Field,
    pub year: Field,
    pub perplexity: Field,
    /// When it was fetched, in milliseconds since 1970; 0 if that is not known.
    pub fetched: Field,
    /// The day, as a number, from which on its publisher does not want it to be found.
    pub until: Field,
    /// The file of a document.
    pub file: Field,
    /// Joins a document and its capture.
    pub key: Field,
    /// The hash of a page's address, which joins it and its images.
    pub page: Field,
    /// The words of a passage.
    pub said: Field,
    /// Names of entities.
    pub entity: Field,
    /// The names and identifiers in the form used for lookups.
    pub entity_key: Field,
    /// Classes of entities.
    pub class: Field,
    /// A class and an entity of it.
    pub pair: Field,
    /// The `key` of a passage's document.
    pub parent: Field,
    /// Everything else that is shown, as JSON.
    pub about: Field,
}

/// The schema with its fields.
pub(super) fn schema() -> (Schema, IndexFields) {
    let mut schema = Schema::builder();
    let indexing = TextFieldIndexing::default()
        .set_tokenizer(words::NAME)
        .set_index_option(IndexRecordOption::WithFreqsAndPositions);
    let words = TextOptions::default()
        .set_indexing_options(indexing.clone())
        .set_stored();
    let said = TextOptions::default().set_indexing_options(indexing);
    let counted = STRING | FAST;
    let fields = IndexFields {
        kind: schema.add_text_field("kind", STRING),
        text: schema.add_text_field("text", words.clone()),
        title: schema.add_text_field("title", words),
        url: schema.add_text_field("url", STRING),
        host: schema.add_text_field("host", counted.clone()),
        domain: schema.add_text_field("domain", STRING),
        language: schema.add_text_field("language", counted.clone()),
        bucket: schema.add_text_field("bucket", counted.clone()),
        date: schema.add_u64_field("date", FAST),
        year: schema.add_u64_field("year", FAST),
        perplexity: schema.add_f64_field("perplexity", FAST),
        fetched: schema.add_u64_field("fetched", FAST),
        until: schema.add_u64_field("until", INDEXED),
        file: schema.add_text_field("file", STRING),
        key: schema.add_u64_field("key", INDEXED),
        page: schema.add_u64_field("page", INDEXED),
        said: schema.add_text_field("said", said),
        entity: schema.add_text_field("entity", counted.clone()),
        entity_key: schema.add_text_field("entity_key", STRING),
        class: schema.add_text_field("class", counted.clone()),
        pair: schema.add_text_field("pair", counted),
        parent: schema.add_u64_field("parent", INDEXED | FAST),
        about: schema.add_text_field("about", STORED),
    };
    (schema.build(), fields)
}

/// The data kept of a document besides its text and title.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// Its address.
    pub url: String,
    /// Its host.
    pub host: String,
    /// Its day or time: when it was published, else when it was fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// Whether that is when it was fetched, because the page states no date.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub date_is_fetched: bool,
    /// When it was fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetched: Option<String>,
    /// Its authors, as the page states.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authors: Vec<String>,
    /// Its language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Its perplexity under the model of the topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub perplexity: Option<f64>,
    /// The class of its perplexity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bucket: Option<String>,
    /// The probability that it is on topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_topic: Option<f64>,
    /// The document that it is a copy of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<String>,
    /// Words of its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<u64>,
    /// Its place.
    pub place: DocumentPlace,
    /// Its place in the archive, if the document states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture: Option<Stored>,
}

/// The place of a document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentPlace {
    /// The file, below the folder.
    pub file: String,
    /// Its line there, from 1, after decompression.
    pub line: u64,
    /// The byte of the file at which the line begins, or the compressed part with the line.
    pub byte: u64,
    /// Lines before it in that compressed part.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inside: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl DocumentPlace {
    /// The number of a document.
    pub(super) fn key(&self) -> u64 {
        key(&self.file, self.byte, self.inside)
    }
}

/// The number of the document at a place.
pub(super) fn key(file: &str, byte: u64, inside: u64) -> u64 {
    xxh3_64(format!("{file}\n{byte}\n{inside}").as_bytes())
}

/// The number of a page's address.
pub(super) fn page(url: &str) -> u64 {
    xxh3_64(url.as_bytes())
}

/// The place of a page in an archive.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// The file.
    pub file: String,
    /// The byte at which the record begins.
    pub byte: u64,
    /// Its length in bytes; 0 if that is not known.
    #[serde(default)]
    pub bytes: u64,
}

/// An image of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Its file, below the job's folder.
    pub file: String,
    /// Its alternative text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub alt: String,
}
