//! The data card of a corpus: `README.md`, as `spoor export` writes one.

use std::io::{self, Write};

use super::document::Document;
use super::output::{Column, pattern};
use super::plan::{Format, Plan};
use super::{Built, COPIES, REMOVED};
use crate::corpus::export::parts::{self, NameCounts, Said, count};

/// Figures of the documents.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) documents: u64,
    pub(super) words: u64,
    hosts: NameCounts,
    languages: NameCounts,
    years: NameCounts,
    said: Said,
}

/// The most hosts that are counted.
const HOSTS: usize = 100_000;

impl Tally {
    pub(super) fn add(&mut self, document: &Document, columns: &[Column]) {
        self.documents += 1;
        self.words += u64::from(document.words);
        let is_known = self.hosts.len() < HOSTS || self.hosts.contains_key(&document.host);
        let host = if is_known { &document.host } else { "others" };
        count(&mut self.hosts, host);
        let language = document.language.as_deref();
        count(&mut self.languages, language.unwrap_or("not recognised"));
        let year = document.date.as_deref().and_then(|date| date.get(..4));
        count(&mut self.years, year.unwrap_or("not given"));
        for column in columns.iter().filter(|column| column.consent) {
            self.said.add(&column.name, &column.value(document));
        }
    }
}

/// Writes the card.
pub(super) fn write(
    out: &mut dyn Write,
    plan: &Plan,
    built: &Built,
    columns: &[Column],
    tally: &Tally,
    date: &str,
) -> io::Result<()> {
    let name = plan.output.folder.file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    let is_parquet = plan.output.formats.contains(&Format::Parquet);
    let format = if is_parquet {
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
    writeln!(out, "dataset_info:\n  features:")?;
    for column in columns {
        parts::feature(out, "  ", &column.name, column.kind, is_parquet)?;
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
    let asking = columns.iter().filter(|column| column.consent);
    let asking = asking.map(|column| &*column.name);
    tally
        .said
        .write(out, ("texts", "wrote", "document"), asking)?;
    steps(out, built)?;
    let columns = columns.iter().map(|c| (&*c.name, c.kind, &*c.about));
    parts::end(out, columns, ("The plan", &plan.text))
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
        let why: Vec<String> = why.iter().map(|(rule, n)| format!("{rule} {n}")).collect();
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
