//! The data card of a corpus: `README.md` with the front matter that the Hugging Face hub
//! and its `datasets` read, and the rest for people.
//!
//! Text from the web is put into code spans, which show it literally, and does not occur
//! in the front matter.

use std::io::{self, Write};

use super::super::parts::{self, NameCounts, Said, count};
use super::columns::{self, Column, Sample, TEXT};
use super::{TextExported, TextFormat, TextRequest, copies, paragraphs, removed, write as formats};

/// Statistics of the documents of an export.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) documents: u64,
    pub(super) words: u64,
    /// Documents that lost repeated paragraphs, whether exported or not.
    pub(super) shortened: u64,
    hosts: NameCounts,
    languages: NameCounts,
    years: NameCounts,
    /// By tenths of the probability to be on topic; the last entry counts unknown ones.
    on_topic: [u64; 11],
    said: Said,
}

impl Tally {
    pub(super) fn add(&mut self, sample: &Sample<'_>, columns: &[Column]) {
        let document = sample.document;
        self.documents += 1;
        self.words += u64::from(sample.words);
        count(&mut self.hosts, sample.host);
        let language = document.language.as_deref();
        count(&mut self.languages, language.unwrap_or("not recognised"));
        let year = document.published.as_deref().and_then(|p| p.get(..4));
        count(&mut self.years, year.unwrap_or("not given"));
        let tenth = document
            .on_topic
            .map_or(10, |p| ((p * 10.0) as usize).min(9));
        if let Some(count) = self.on_topic.get_mut(tenth) {
            *count += 1;
        }
        for column in columns.iter().filter(|column| column.consent) {
            self.said.add(column.name, &column.value(sample));
        }
    }
}

/// Writes the card.
pub(super) fn write(
    out: &mut dyn Write,
    name: &str,
    request: &TextRequest<'_>,
    exported: &TextExported,
    tally: &Tally,
) -> io::Result<()> {
    let columns = columns::columns();
    front_matter(out, name, request, &columns, tally)?;
    let about = "The main text of pages from the web, of a crawl that follows one topic.";
    parts::title(out, name, about, request.date)?;
    let (documents, words) = (tally.documents, tally.words);
    let hosts = tally.hosts.len();
    writeln!(
        out,
        "{documents} documents of {words} words, from {hosts} hosts.\n"
    )?;
    parts::reading(out, &snippet(request))?;
    if request.format == TextFormat::Text {
        writeln!(
            out,
            "A paragraph is a line, and an empty line separates two documents. Characters that steer a \
             terminal or turn the direction of writing are left out. `{}` says in the same order \
             where each document lies (`file`, `from`, `bytes`), and has all columns but the text.\n",
            formats::INDEX
        )?;
    }
    let counts = (&tally.hosts, &tally.languages, &tally.years);
    parts::origins(out, counts, "published")?;
    on_topic(out, tally)?;
    let asking = columns.iter().filter(|c| c.consent).map(|c| c.name);
    tally
        .said
        .write(out, ("texts", "wrote", "document"), asking)?;
    steps(out, request, exported)?;
    let columns = columns.iter().filter(|c| is_written(request, c));
    let columns = columns.map(|c| (c.name, c.kind, c.about.as_ref()));
    parts::end(out, columns, ("The job", request.job))
}

fn is_written(request: &TextRequest<'_>, column: &Column) -> bool {
    request.format != TextFormat::Text || column.name != TEXT
}

fn front_matter(
    out: &mut dyn Write,
    name: &str,
    request: &TextRequest<'_>,
    columns: &[Column],
    tally: &Tally,
) -> io::Result<()> {
    parts::begin(
        out,
        name,
        "text-generation",
        &tally.languages,
        tally.documents,
        &[pattern(request)],
    )?;
    if request.format == TextFormat::Text {
        writeln!(out, "  sample_by: paragraph")?;
    }
    // Without the types, a reader derives them from the first documents and fails at the
    // first different one.
    writeln!(out, "dataset_info:\n  features:")?;
    let has_times = request.format == TextFormat::Parquet;
    let only_text = request.format == TextFormat::Text;
    for column in columns.iter().filter(|c| !only_text || c.name == TEXT) {
        parts::feature(out, "  ", column.name, column.kind, has_times)?;
    }
    writeln!(out, "---\n")
}

/// The files of data.
fn pattern(request: &TextRequest<'_>) -> &'static str {
    match (request.format, request.gzip) {
        (TextFormat::Parquet, _) => "data/*.parquet",
        (TextFormat::JsonLines, false) => "data/*.jsonl",
        (TextFormat::JsonLines, true) => "data/*.jsonl.gz",
        (TextFormat::Text, _) => "data/*.txt",
    }
}

fn snippet(request: &TextRequest<'_>) -> String {
    let mut lines = String::from(
        "from datasets import load_dataset\n\
         documents = load_dataset(\"FOLDER\", split=\"train\")",
    );
    let gz = if request.gzip { ".gz" } else { "" };
    match request.format {
        TextFormat::Parquet => lines.push_str(
            "\n\nimport pandas\n\
             documents = pandas.read_parquet(\"FOLDER/data\")\n\n\
             import duckdb\n\
             documents = duckdb.sql(\"SELECT * FROM 'FOLDER/data/*.parquet'\")",
        ),
        TextFormat::JsonLines => lines.push_str(&format!(
            "\n\nimport pandas\n\
             # Without dtype=False pandas makes numbers and dates of texts that look like some.\n\
             documents = pandas.read_json(\"FOLDER/data/00000.jsonl{gz}\", lines=True, dtype=False)\n\n\
             import duckdb\n\
             documents = duckdb.sql(\"SELECT * FROM 'FOLDER/data/*.jsonl{gz}'\")"
        )),
        TextFormat::Text => lines.push_str(
            "\n\n# In a job file of spoor, as text about a topic:\n# [train]\n\
             # positive = [\"FOLDER/data\"]",
        ),
    }
    lines
}

fn on_topic(out: &mut dyn Write, tally: &Tally) -> io::Result<()> {
    writeln!(
        out,
        "### On topic\n\nHow probable it is that a document is about the topic.\n\n\
         | probability | documents |\n|---|---:|"
    )?;
    for (tenth, count) in tally.on_topic.iter().enumerate() {
        match tenth {
            10 => writeln!(out, "| not known | {count} |\n")?,
            _ => writeln!(
                out,
                "| 0.{tenth} to {:.1} | {count} |",
                (tenth + 1) as f64 / 10.0
            )?,
        }
    }
    Ok(())
}

fn steps(
    out: &mut dyn Write,
    request: &TextRequest<'_>,
    exported: &TextExported,
) -> io::Result<()> {
    writeln!(
        out,
        "## How it was made\n\nThe crawl kept {} documents. Of these the following were left out; \
         `{}` names each with the value and the bound.\n\n\
         | step | stays | left out | left |\n|---|---|---:|---:|",
        exported.read - exported.damaged,
        removed::FILE,
    )?;
    for step in &exported.steps {
        let super::TextStep {
            name,
            bound,
            removed,
            left,
        } = step;
        writeln!(out, "| {name} | {bound} | {removed} | {left} |")?;
    }
    if exported.damaged > 0 {
        writeln!(
            out,
            "\n{} more were damaged and could not be read.",
            exported.damaged
        )?;
    }
    if request.keep_repeated {
        writeln!(
            out,
            "\nParagraphs that a host repeats on many of its pages were left in, as asked for."
        )?
    } else {
        writeln!(
            out,
            "\nBetween exact copies and short ones, {} paragraphs ({} different ones) were left out of \
         {} documents, as their host repeats them: those that stand on at least {} of its pages \
         here and on one in {}, with fewer than {} words on one in two. Case and numbers do not count, and where {} words or more stand \
         apart from numbers, neither do the words beside these. All other paragraphs are unchanged \
         and in their order.",
            exported.paragraphs,
            exported.different,
            exported.shortened,
            paragraphs::PAGES,
            paragraphs::ONE_IN,
            paragraphs::SHORT,
            paragraphs::PLAIN,
        )?
    }
    writeln!(
        out,
        "\nCopies are told by the words: near copies are texts of which at least {} of the shingles of \
         {} words are the same (Jaccard similarity, computed from all shingles). Of copies the one \
         that was crawled first stays.",
        request.near,
        copies::SHINGLE,
    )
}
