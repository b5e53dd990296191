//! The data card of a corpus: `README.md`, as `spoor export` writes one.

use std::io::{self, Write};

use super::document::Document;
use super::output::{OF_PARTS, interleaved_columns, pattern};
use super::plan::{Format, Plan};
use super::{Built, COPIES, REMOVED};
use crate::columns::DataColumn;
use crate::export::parts::{self, NameCounts, Said, count};

/// Figures of the documents.
#[derive(Default)]
pub(super) struct CorpusFigures {
    pub(super) documents: u64,
    pub(super) words: u64,
    hosts: NameCounts,
    languages: NameCounts,
    years: NameCounts,
    /// By tenths of the probability to be on topic.
    on_topic: [u64; 10],
    said: Said,
}

/// The most hosts that are counted.
const HOSTS: usize = 100_000;

impl CorpusFigures {
    pub(super) fn add(&mut self, document: &Document, columns: &[DataColumn<Document>]) {
        self.documents += 1;
        self.words += u64::from(document.words);
        let is_known = self.hosts.len() < HOSTS || self.hosts.contains_key(&document.host);
        let host = if is_known { &document.host } else { "others" };
        count(&mut self.hosts, host);
        let language = document.language.as_deref();
        count(&mut self.languages, language.unwrap_or("not recognised"));
        let year = document.date.as_deref().and_then(|date| date.get(..4));
        count(&mut self.years, year.unwrap_or("not given"));
        let tenth = document.on_topic.map(|p| ((p * 10.0) as usize).min(9));
        if let Some(count) = tenth.and_then(|tenth| self.on_topic.get_mut(tenth)) {
            *count += 1;
        }
        self.said.add(columns, document);
    }
}

/// Writes the card.
pub(super) fn write(
    out: &mut dyn Write,
    plan: &Plan,
    built: &Built,
    columns: &[DataColumn<Document>],
    tally: &CorpusFigures,
    date: &str,
) -> io::Result<()> {
    let folder = plan.output.folder.file_name().unwrap_or_default();
    let folder = folder.to_string_lossy().into_owned();
    let name = plan.output.name.clone().unwrap_or(folder);
    let has = |format| plan.output.formats.contains(&format);
    let is_parquet = has(Format::Parquet);
    let format = if has(Format::Interleaved) {
        Format::Interleaved
    } else if is_parquet {
        Format::Parquet
    } else {
        Format::Jsonl
    };
    let files = pattern(format, plan.output.compression);
    let (documents, words) = (tally.documents, tally.words);
    parts::begin(
        out,
        &name,
        "text-generation",
        &tally.languages,
        documents,
        &[&files],
    )?;
    let has_times = is_parquet || format == Format::Interleaved;
    writeln!(out, "dataset_info:\n  features:")?;
    if format == Format::Interleaved {
        for (name, kind, _) in interleaved_columns(plan, columns) {
            parts::feature(out, "  ", &name, kind, has_times)?;
        }
    } else {
        for column in columns {
            parts::feature(out, "  ", &column.name, column.kind, has_times)?;
        }
    }
    writeln!(out, "---\n")?;
    parts::title(out, &name, "Texts from the web.", date)?;
    writeln!(
        out,
        "{documents} documents of {words} words, from {} hosts.\n",
        tally.hosts.len()
    )?;
    let snippet = format!(
        "from datasets import load_dataset\n\
         documents = load_dataset(\"FOLDER\", split=\"train\")\n\n\
         import duckdb\n\
         documents = duckdb.sql(\"SELECT * FROM 'FOLDER/{files}'\")"
    );
    parts::reading(out, &snippet)?;
    formats(out, plan)?;
    parts::origins(
        out,
        (&tally.hosts, &tally.languages, &tally.years),
        "published, else fetched",
    )?;
    on_topic(out, tally)?;
    tally
        .said
        .write(out, ("texts", "wrote", "document"), columns)?;
    steps(out, built)?;
    interleaved(out, plan, built, columns)?;
    parts::end(out, columns, ("The plan", &plan.text))
}

/// Writes nothing about documents that no crawl has judged.
fn on_topic(out: &mut dyn Write, tally: &CorpusFigures) -> io::Result<()> {
    let known: u64 = tally.on_topic.iter().sum();
    if known == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "### On topic\n\nHow probable it is that a document is about the topic.\n\n\
         | probability | documents |\n|---|---:|"
    )?;
    for (tenth, count) in tally.on_topic.iter().enumerate() {
        let end = (tenth + 1) as f64 / 10.0;
        writeln!(out, "| 0.{tenth} to {end:.1} | {count} |")?;
    }
    writeln!(out, "| not known | {} |\n", tally.documents - known)
}

/// What the interleaved formats have, if there is one.
fn interleaved(
    out: &mut dyn Write,
    plan: &Plan,
    built: &Built,
    columns: &[DataColumn<Document>],
) -> io::Result<()> {
    let Some(figures) = &built.interleaved else {
        return Ok(());
    };
    writeln!(
        out,
        "\n## Texts with images\n\n{} documents with {} images, {} of them with words of their own: \
         a caption, an alt text, a title or a label. In each, `texts` and `images` are equally long, \
         and one of them is null at each place. Images that are not there:\n\n\
         | why | images |\n|---|---:|",
        figures.documents, figures.images, figures.with_words
    )?;
    for (why, count) in &figures.missing {
        writeln!(out, "| {why} | {count} |")?;
    }
    writeln!(out, "\n| column | type | meaning |\n|---|---|---|")?;
    for (name, kind, about) in interleaved_columns(plan, columns).iter().take(OF_PARTS) {
        writeln!(out, "| `{name}` | {} | {about} |", kind.name())?;
    }
    writeln!(
        out,
        "\nThe other columns are those of the document, below. In the tar files the JSON file has \
         the same keys; `images` has the names of the image files, and `image_metadata` an entry for \
         each."
    )
}

fn formats(out: &mut dyn Write, plan: &Plan) -> io::Result<()> {
    writeln!(out, "| files | content |\n|---|---|")?;
    for format in std::iter::once(&Format::Jsonl).chain(&plan.output.formats) {
        let about = match format {
            Format::Jsonl => "a line of JSON for each document",
            Format::Parquet => "a row for each document",
            Format::Tsv => "address, title and text, in one line",
            Format::Vertical => "a token a line, with `<doc>`, `<p>`, `<s>` and `<g/>`",
            Format::Text => "a document a line",
            Format::Sentences => "a sentence a line, and an empty line behind each document",
            Format::Paragraphs => "a paragraph a line, and an empty line behind each document",
            Format::Markdown => "Markdown; a comment with its address begins each document",
            Format::Interleaved => {
                "texts and images in the order of the page: parallel lists `texts` and `images`"
            }
            Format::InterleavedTar => {
                "the same as WebDataset: a JSON file and the image files of each document"
            }
        };
        writeln!(
            out,
            "| `{}` | {about} |",
            pattern(*format, plan.output.compression)
        )?;
    }
    writeln!(
        out,
        "| `{REMOVED}` | what was removed, with step, value and bound |\n"
    )
}

fn steps(out: &mut dyn Write, built: &Built) -> io::Result<()> {
    writeln!(
        out,
        "## How it was made\n\nThe documents went through these steps, in this order. \
         `{REMOVED}` names each that was removed, and `{COPIES}`, where copies were looked for, \
         what is a copy of what, with the passages.\n\n\
         | step | read | left | why |\n|---|---:|---:|---|"
    )?;
    for step in &built.steps {
        let mut why: Vec<(&String, &u64)> = step.why.iter().collect();
        why.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
        let mut why: Vec<String> = why.iter().map(|(rule, n)| format!("{rule} {n}")).collect();
        let marked = step.marked.iter();
        why.extend(marked.map(|(rule, n)| format!("{rule} {n} (stay)")));
        writeln!(
            out,
            "| {} | {} | {} | {} |",
            step.step,
            step.read,
            step.left,
            why.join(", ")
        )?;
    }
    Ok(())
}
