//! The parts of the data cards of images and of corpora: `README.md` with the front matter
//! that the Hugging Face hub and its `datasets` read, and the rest for people.
//!
//! Hosts, licences and languages come from the web: in the text they are put into code
//! spans, which show them literally, and they do not occur in the front matter.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::columns::{ColumnKind, ColumnValue, DataColumn};

/// The most rows of a table with any number of names.
const ROWS: usize = 20;

/// The most characters of a string from the web.
const SHOWN: usize = 200;

/// How often each name occurs.
pub(crate) type NameCounts = BTreeMap<String, u64>;

/// Counts one more.
pub(crate) fn count(counts: &mut NameCounts, what: &str) {
    *counts.entry(what.to_owned()).or_default() += 1;
}

/// What publishers say about the use of the samples.
#[derive(Default)]
pub(crate) struct Said {
    licences: NameCounts,
    /// By column, the number of samples whose publishers said something.
    consent: NameCounts,
}

/// The column of the licences, which are counted by name.
const LICENCES: &str = "licences";

impl Said {
    /// Counts what the publishers of a sample say in their columns.
    pub(crate) fn add<S>(&mut self, columns: &[DataColumn<S>], sample: &S) {
        for column in columns.iter().filter(|column| column.consent) {
            match column.value(sample) {
                ColumnValue::Texts(licences) if column.name == LICENCES => {
                    for licence in &licences {
                        count(&mut self.licences, licence);
                    }
                    if licences.is_empty() {
                        count(&mut self.licences, "none given");
                    }
                }
                ColumnValue::Texts(all) if all.is_empty() => {}
                ColumnValue::Flag(Some(true))
                | ColumnValue::Text(Some(_))
                | ColumnValue::Texts(_) => count(&mut self.consent, &column.name),
                _ => {}
            }
        }
    }

    /// Writes the part on licences and consent. The words say what the samples are, what their
    /// makers did, and what one sample is called.
    pub(crate) fn write<S>(
        &self,
        out: &mut dyn Write,
        (things, made, one): (&str, &str, &str),
        columns: &[DataColumn<S>],
    ) -> io::Result<()> {
        writeln!(
            out,
            "## Licences and consent\n\nThe {things} belong to those who {made} them. What their \
             publishers say of their use was recorded with each {one}, and stands in its columns. \
             Who uses the {things} answers for that use.\n"
        )?;
        let of = format!("{one}s");
        table(out, "Licences", "as given", &of, &self.licences)?;
        let columns = columns.iter().filter(|c| c.consent && c.name != LICENCES);
        let consent: NameCounts = columns
            .map(|column| {
                let name = column.name.to_string();
                let count = self.consent.get(&name).copied().unwrap_or(0);
                (name, count)
            })
            .collect();
        table(out, "Consent", "column that says so", &of, &consent)
    }
}

/// Begins the front matter, up to the files of data, which are `files`.
pub(crate) fn begin(
    out: &mut dyn Write,
    name: &str,
    task: &str,
    languages: &NameCounts,
    samples: u64,
    files: &[&str],
) -> io::Result<()> {
    // A JSON string is a YAML string, except for characters that YAML does not allow.
    let name: String = name.chars().filter(|c| !c.is_control()).collect();
    writeln!(out, "---\npretty_name: {}", serde_json::Value::from(name))?;
    // What the publishers say about each sample is in the columns.
    writeln!(out, "license: unknown\ntask_categories:\n- {task}")?;
    let mut languages: Vec<&str> = languages.keys().filter_map(|l| primary(l)).collect();
    languages.dedup();
    if !languages.is_empty() {
        writeln!(out, "language:")?;
        for language in languages {
            writeln!(out, "- \"{language}\"")?;
        }
    }
    writeln!(out, "size_categories:\n- {}", size_category(samples))?;
    writeln!(
        out,
        "configs:\n- config_name: default\n  data_files:\n  - split: train\n    path:"
    )?;
    for path in files {
        writeln!(out, "    - \"{path}\"")?;
    }
    Ok(())
}

/// A column's type as `datasets` names it; JSON has no times.
pub(crate) fn feature(
    out: &mut dyn Write,
    indent: &str,
    name: &str,
    kind: ColumnKind,
    has_times: bool,
) -> io::Result<()> {
    let (key, kind) = match kind {
        ColumnKind::Image => ("dtype", "image"),
        ColumnKind::Time if has_times => ("dtype", "timestamp[ms, tz=UTC]"),
        ColumnKind::Text | ColumnKind::Time => ("dtype", "string"),
        ColumnKind::Whole => ("dtype", "int64"),
        ColumnKind::Number => ("dtype", "float64"),
        ColumnKind::Flag => ("dtype", "bool"),
        ColumnKind::Texts => ("list", "string"),
        ColumnKind::Numbers => ("list", "float64"),
        ColumnKind::Wholes => ("list", "int64"),
        ColumnKind::Parts => ("list", "string"),
        ColumnKind::Pictures => ("list", "image"),
    };
    writeln!(out, "{indent}- name: {name}\n{indent}  {key}: {kind}")
}

/// The title, and what the export is.
pub(crate) fn title(out: &mut dyn Write, name: &str, about: &str, date: &str) -> io::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let name = code(name);
    writeln!(
        out,
        "# {name}\n\n{about} Written by spoor {version} on {date}.\n"
    )
}

/// How to read the export in Python.
pub(crate) fn reading(out: &mut dyn Write, snippet: &str) -> io::Result<()> {
    writeln!(out, "## Reading it\n\n```python\n{snippet}\n```\n")
}

/// Ends the card with the columns, and with the file that made it, under this title.
pub(crate) fn end<S>(
    out: &mut dyn Write,
    columns: &[DataColumn<S>],
    (title, job): (&str, &str),
) -> io::Result<()> {
    writeln!(
        out,
        "\n## Columns\n\n| column | type | meaning |\n|---|---|---|"
    )?;
    for column in columns {
        let (name, kind, about) = (&column.name, column.kind.name(), &column.about);
        writeln!(out, "| `{name}` | {kind} | {about} |")?;
    }
    let fence = fence(job);
    let job = job.trim_end();
    writeln!(out, "\n## {title}\n\n{fence}toml\n{job}\n{fence}")
}

/// A table of counts, the highest first.
pub(crate) fn table(
    out: &mut dyn Write,
    title: &str,
    column: &str,
    of: &str,
    counts: &NameCounts,
) -> io::Result<()> {
    writeln!(out, "### {title}\n\n| {column} | {of} |\n|---|---:|")?;
    let mut rows: Vec<(&String, &u64)> = counts.iter().collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (what, count) in rows.iter().take(ROWS) {
        writeln!(out, "| {} | {count} |", code(what))?;
    }
    if let Some(more) = rows.get(ROWS..).filter(|more| !more.is_empty()) {
        let all: u64 = more.iter().map(|(_, count)| **count).sum();
        writeln!(out, "| {} others | {all} |", more.len())?;
    }
    writeln!(out)
}

/// The tables of hosts, languages and years of documents; `dated` says what the years mean.
pub(crate) fn origins(
    out: &mut dyn Write,
    (hosts, languages, years): (&NameCounts, &NameCounts, &NameCounts),
    dated: &str,
) -> io::Result<()> {
    table(out, "Sources", "host of the page", "documents", hosts)?;
    table(out, "Languages", "as recognised", "documents", languages)?;
    table(out, "Years", dated, "documents", years)
}

/// A string from the web as a code span in a cell of a table: in one line, and with
/// nothing that ends the span or the cell.
fn code(text: &str) -> String {
    let tame = |c: char| match c {
        '`' => '\'',
        '|' => '¦',
        c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => ' ',
        // Marks that change the direction of the text after them (Unicode TR 36).
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => ' ',
        c => c,
    };
    let short: String = text.chars().take(SHOWN).map(tame).collect();
    match short.trim() {
        "" => "(blank)".to_owned(),
        short => format!("`{short}`"),
    }
}

/// A fence that nothing in the text closes (CommonMark 0.31 section 4.5).
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

/// The language of a tag as `de-at`, if it is a code that the hub may know.
fn primary(tag: &str) -> Option<&str> {
    let language = tag.split(['-', '_']).next()?;
    let letters = language.bytes().all(|b| b.is_ascii_lowercase());
    (letters && (2..=3).contains(&language.len())).then_some(language)
}

/// The hub's classes of size.
fn size_category(samples: u64) -> &'static str {
    match samples {
        0..1_000 => "n<1K",
        1_000..10_000 => "1K<n<10K",
        10_000..100_000 => "10K<n<100K",
        100_000..1_000_000 => "100K<n<1M",
        1_000_000..10_000_000 => "1M<n<10M",
        10_000_000..100_000_000 => "10M<n<100M",
        100_000_000..1_000_000_000 => "100M<n<1B",
        _ => "n>1B",
    }
}
