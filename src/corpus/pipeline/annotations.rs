//! Writes the entities of documents to a file: a line of JSON or a row for each mention.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;

use super::document::Document;
use super::error::defect;
use super::over::{Over, over};
use super::steps::grammar::Taggers;
use crate::columns::{ColumnKind, ColumnValue, DataColumn, columns};
use crate::entities::{Field, Finder, Index, Mention, Text};
use crate::export::parquet_table::Table;
use crate::fs::packed::{Packed, Packing};
use crate::fs::{IoError, atomic};
use crate::sanitize;
use crate::tool_error::ToolError;

/// A mention of an entity in a document.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Annotation<'a> {
    /// The `id` of the document, if it has one.
    document: Option<&'a str>,
    /// The address of the document.
    url: &'a str,
    #[serde(flatten)]
    mention: &'a Mention,
}

/// The JSON Schema (draft 2020-12) of a line that `spoor entities find` writes.
pub fn annotation_schema() -> serde_json::Value {
    let generator = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = generator
        .into_generator()
        .into_root_schema_for::<Annotation<'_>>();
    schema.insert("$id".to_owned(), "urn:spoor:schema:annotation:1".into());
    schema.into()
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Annotated {
    /// The documents, and the lines that are not documents.
    pub over: Over,
    /// Mentions.
    pub mentions: u64,
    /// Documents with a mention.
    pub with: u64,
}

/// Finds entities in documents.
pub struct DocumentFinder {
    pub(super) finder: Finder,
    /// The taggers, if a match has to be a noun.
    pub(super) taggers: Option<Taggers>,
}

impl DocumentFinder {
    /// Uses an index. With `nouns` a match has to be a noun in languages with a tagger: the given
    /// ones by language, and the built-in ones.
    ///
    /// # Errors
    ///
    /// A tagger cannot be read.
    pub fn new(
        finder: Finder,
        nouns: bool,
        taggers: &BTreeMap<String, PathBuf>,
    ) -> Result<Self, ToolError> {
        let taggers = nouns.then(|| Taggers::load(taggers)).transpose()?;
        Ok(Self { finder, taggers })
    }

    /// Uses an index and the built-in taggers.
    pub fn usual(finder: Finder) -> Self {
        let taggers = Some(Taggers::default());
        Self { finder, taggers }
    }

    /// The index.
    pub fn index(&self) -> &Index {
        self.finder.index()
    }

    /// The entities of a document as it is stored.
    pub(super) fn mentions(&self, document: &Document) -> Vec<Mention> {
        self.find(
            document.title.as_deref(),
            &document.text,
            document.language.as_deref(),
        )
    }

    /// The entities of a title and a text.
    pub fn find(&self, title: Option<&str>, text: &str, language: Option<&str>) -> Vec<Mention> {
        let known = self.taggers.as_ref().zip(language);
        let known = known.filter(|(taggers, language)| taggers.know(language));
        let nouns = |sentence: &str| {
            let (taggers, language) = known?;
            taggers.nouns(language, sentence)
        };
        self.finder.find(Text {
            title,
            text,
            language,
            nouns: known.is_some().then_some(&nouns),
        })
    }
}

/// Finds the entities of documents, and writes them atomically to a file whose extension
/// selects the format: `.jsonl`, also with `.gz` or `.zst`, or `.parquet`. Without a file it
/// writes to standard output.
///
/// # Errors
///
/// [`ToolError`] names the file.
pub fn annotate(
    finder: &DocumentFinder,
    documents: &[PathBuf],
    to: Option<&Path>,
) -> Result<Annotated, ToolError> {
    let Some(path) = to else {
        let mut out = Packed::Plain(std::io::stdout().lock());
        return write(finder, documents, Path::new("standard output"), &mut out);
    };
    let name = path.to_string_lossy().to_lowercase();
    if name.ends_with(".parquet") {
        return parquet(finder, documents, path);
    }
    if !name
        .trim_end_matches(".gz")
        .trim_end_matches(".zst")
        .ends_with(".jsonl")
    {
        let why = "has no known ending; give .jsonl, .jsonl.gz, .jsonl.zst or .parquet";
        return Err(ToolError::at(path, why));
    }
    let mut done = Err(defect());
    let written = atomic::write(path, |file| {
        let mut out = Packed::over(file, Packing::of(&name))?;
        done = write(finder, documents, path, &mut out);
        match done {
            Ok(_) => out.finish().map(drop),
            // The unfinished output is discarded.
            Err(_) => Err(std::io::ErrorKind::Interrupted.into()),
        }
    });
    let done = done?;
    written.map_err(IoError::at(path, "writing"))?;
    Ok(done)
}

/// The lines of a document, and how many there are.
fn lines(finder: &DocumentFinder, document: &Document) -> (u64, String) {
    let mut lines = String::new();
    let all = finder.mentions(document);
    for mention in &all {
        let line = Annotation {
            document: Some(document.id.as_str()).filter(|id| !id.is_empty()),
            url: &document.url,
            mention,
        };
        // Texts and numbers always serialise.
        let line = serde_json::to_string(&line).unwrap_or_default();
        lines.push_str(&sanitize::json(&line));
        lines.push('\n');
    }
    (all.len() as u64, lines)
}

fn write(
    finder: &DocumentFinder,
    documents: &[PathBuf],
    path: &Path,
    out: &mut Packed<impl Write>,
) -> Result<Annotated, ToolError> {
    let mut annotated = Annotated::default();
    let work = |document: &Document| lines(finder, document);
    annotated.over = over(documents, work, |(count, lines)| {
        annotated.mentions += count;
        annotated.with += u64::from(count > 0);
        let written = out.write_all(lines.as_bytes());
        Ok(written.map_err(IoError::at(path, "writing"))?)
    })?;
    Ok(annotated)
}

/// A mention with the number and the address of its document.
type MentionRow = (Option<String>, String, Mention);

/// The columns of a table of mentions.
fn columns_of_mentions() -> Vec<DataColumn<MentionRow>> {
    columns! { row: MentionRow;
        document: Text = &row.0, "The `id` of the document, where it has one.";
        url: Text = &row.1, "The address of the document.";
        in: Text = match row.2.field {
            Field::Title => "title",
            Field::Text => "text",
        }, "Where the mention stands.";
        from: Whole = row.2.from, "The character at which it begins.";
        to: Whole = row.2.to, "The character behind it.";
        surface: Text = &row.2.surface, "The words.";
        entity: Text = &row.2.entity, "The name of the entity.";
        id: Text = &row.2.id, "Its number in the list.";
        classes: Texts = &row.2.classes, "Its classes.";
        sentence: Whole = row.2.sentence, "The number of the sentence.";
        paragraph: Whole = row.2.paragraph, "The number of the paragraph.";
        pronoun: Flag = row.2.pronoun, "Whether a pronoun stands for it.";
    }
}

/// A single Parquet file. It is created in a temporary folder beside its place.
fn parquet(
    finder: &DocumentFinder,
    documents: &[PathBuf],
    path: &Path,
) -> Result<Annotated, ToolError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let columns = columns_of_mentions();
    let mut table = Table::create(beside.clone(), u64::MAX, &columns)?;
    let mut annotated = Annotated::default();
    let work = |document: &Document| {
        let id = Some(document.id.clone()).filter(|id| !id.is_empty());
        let all = finder.mentions(document).into_iter();
        let rows = all.map(|mention| (id.clone(), document.url.clone(), mention));
        rows.collect::<Vec<MentionRow>>()
    };
    let done = over(documents, work, |rows| {
        annotated.mentions += rows.len() as u64;
        annotated.with += u64::from(!rows.is_empty());
        for row in &rows {
            let values = columns.iter().map(|column| column.value(row));
            table.add(values, None)?;
        }
        Ok(())
    });
    let placed = done.and_then(|over| {
        annotated.over = over;
        if table.finish()? > 0 {
            let made = beside.join("00000.parquet");
            std::fs::rename(&made, path).map_err(IoError::at(path, "writing"))?;
        }
        Ok(annotated)
    });
    std::fs::remove_dir_all(&beside).map_err(IoError::at(&beside, "removing"))?;
    placed
}
