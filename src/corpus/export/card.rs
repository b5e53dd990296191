//! The data card: `README.md` with the front matter that the Hugging Face hub and its
//! `datasets` read, and the rest for people.
//!
//! Hosts, licences and languages come from the web: in the text they are put into code
//! spans, which show them literally, and they do not occur in the front matter.

use std::collections::{BTreeMap, HashSet};
use std::hash::BuildHasher;
use std::io::{self, Write};

use rustc_hash::FxBuildHasher;

use super::columns::{Column, Kind, Sample, Value};
use super::{Format, Request};
use crate::corpus::rank::Steps;

/// The most rows of a table without a fixed number of rows.
const ROWS: usize = 20;

/// The most characters of a string from the web.
const SHOWN: usize = 200;

/// Statistics of the samples of an export.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) samples: u64,
    pub(super) bytes: u64,
    pub(super) vanished: u64,
    /// Hashes, because there are many addresses.
    pages: HashSet<u64>,
    hosts: Counts,
    formats: Counts,
    /// Extensions of the files.
    extensions: Counts,
    languages: Counts,
    licences: Counts,
    texts: Counts,
    /// By column, samples whose publishers made a statement.
    consent: Counts,
}

pub(super) type Counts = BTreeMap<String, u64>;

impl Tally {
    pub(super) fn add(&mut self, sample: &Sample<'_>, bytes: Option<&[u8]>, columns: &[Column]) {
        let count = |counts: &mut Counts, what: &str| {
            *counts.entry(what.to_owned()).or_default() += 1;
        };
        self.samples += 1;
        self.bytes += bytes.map_or(0, |b| b.len() as u64);
        let page = &sample.context.page;
        self.pages.insert(FxBuildHasher.hash_one(page.as_str()));
        count(&mut self.hosts, page.host_key().as_str());
        count(&mut self.formats, &sample.image.format);
        count(&mut self.extensions, sample.extension());
        let language = sample.context.page_language.as_deref();
        count(&mut self.languages, language.unwrap_or("not declared"));
        let from = sample.text().map_or("none", |(from, _)| from);
        count(&mut self.texts, from);
        for column in columns.iter().filter(|column| column.consent) {
            match column.value(sample) {
                Value::Texts(licences) if column.name == "licences" => {
                    for licence in &licences {
                        count(&mut self.licences, licence);
                    }
                    if licences.is_empty() {
                        count(&mut self.licences, "none given");
                    }
                }
                Value::Flag(Some(true)) | Value::Text(Some(_)) => {
                    count(&mut self.consent, &column.name);
                }
                Value::Texts(all) if !all.is_empty() => count(&mut self.consent, &column.name),
                _ => {}
            }
        }
    }
}

/// Writes the card.
pub(super) fn write(
    out: &mut dyn Write,
    name: &str,
    steps: &Steps,
    request: &Request<'_>,
    columns: &[Column],
    tally: &Tally,
) -> io::Result<()> {
    front_matter(out, name, request, columns, tally)?;
    body(out, name, steps, request, columns, tally)
}

fn front_matter(
    out: &mut dyn Write,
    name: &str,
    request: &Request<'_>,
    columns: &[Column],
    tally: &Tally,
) -> io::Result<()> {
    // A JSON string is a valid YAML string, except for characters that YAML forbids.
    let name: String = name.chars().filter(|c| !c.is_control()).collect();
    writeln!(out, "---\npretty_name: {}", serde_json::Value::from(name))?;
    // The statements of the publishers about each image are in the columns.
    writeln!(out, "license: unknown\ntask_categories:\n- image-to-text")?;
    let mut languages: Vec<&str> = tally.languages.keys().filter_map(|l| primary(l)).collect();
    languages.dedup();
    if !languages.is_empty() {
        writeln!(out, "language:")?;
        for language in languages {
            writeln!(out, "- \"{language}\"")?;
        }
    }
    writeln!(out, "size_categories:\n- {}", size_category(tally.samples))?;
    writeln!(
        out,
        "configs:\n- config_name: default\n  data_files:\n  - split: train\n    path:"
    )?;
    let files: &[&str] = match request.format {
        Format::ImageFolder => &["metadata.jsonl", "images/**"],
        Format::JsonLines => &["data.jsonl"],
        Format::WebDataset => &["*.tar"],
        Format::Parquet => &["data/*.parquet"],
    };
    for path in files {
        writeln!(out, "    - \"{path}\"")?;
    }
    // Without the types, a reader derives them from the first samples and fails at the
    // first different one.
    writeln!(out, "dataset_info:\n  features:")?;
    match request.format {
        Format::WebDataset => {
            for extension in tally.extensions.keys().filter(|_| !request.urls_only) {
                writeln!(out, "  - name: {extension}\n    dtype: image")?;
            }
            writeln!(out, "  - name: json\n    struct:")?;
            features(out, "    ", request.format, columns)?;
            for name in ["txt", "__key__", "__url__"] {
                writeln!(out, "  - name: {name}\n    dtype: string")?;
            }
        }
        _ => features(out, "  ", request.format, columns)?,
    }
    writeln!(out, "---\n")
}

fn features(
    out: &mut dyn Write,
    indent: &str,
    format: Format,
    columns: &[Column],
) -> io::Result<()> {
    for column in columns {
        let (name, kind) = match (format, column.name.as_ref()) {
            // The reader replaces the path by the image.
            (Format::ImageFolder, "file_name") => ("image", Kind::Image),
            (_, name) => (name, column.kind),
        };
        feature(out, indent, name, kind, format == Format::Parquet)?;
    }
    Ok(())
}

/// A column's type as named by `datasets`; JSON has no times.
pub(super) fn feature(
    out: &mut dyn Write,
    indent: &str,
    name: &str,
    kind: Kind,
    has_times: bool,
) -> io::Result<()> {
    let (key, kind) = match kind {
        Kind::Image => ("dtype", "image"),
        Kind::Time if has_times => ("dtype", "timestamp[ms, tz=UTC]"),
        Kind::Text | Kind::Time => ("dtype", "string"),
        Kind::Whole => ("dtype", "int64"),
        Kind::Number => ("dtype", "float64"),
        Kind::Flag => ("dtype", "bool"),
        Kind::Texts => ("list", "string"),
        Kind::Numbers => ("list", "float64"),
    };
    writeln!(out, "{indent}- name: {name}\n{indent}  {key}: {kind}")
}

fn body(
    out: &mut dyn Write,
    name: &str,
    steps: &Steps,
    request: &Request<'_>,
    columns: &[Column],
    tally: &Tally,
) -> io::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let Tally { samples, bytes, .. } = tally;
    writeln!(
        out,
        "# {}\n\nImages from the web with the words around them, the best of a crawl that follows one \
         topic. Written by spoor {version} on {}.\n",
        code(name),
        request.date
    )?;
    let what = if request.urls_only {
        "addresses of images, without their bytes".to_owned()
    } else {
        format!("images of {bytes} bytes")
    };
    writeln!(
        out,
        "{samples} {what}, from {} pages of {} hosts.\n",
        tally.pages.len(),
        tally.hosts.len()
    )?;
    if tally.vanished > 0 {
        let more = "more were ranked and left out, because they were gone or had changed since";
        writeln!(out, "{} {more}.\n", tally.vanished)?;
    }
    writeln!(
        out,
        "## Reading it\n\n```python\n{}\n```\n",
        snippet(request)
    )?;
    table(out, "Formats", "format", "images", &tally.formats)?;
    table(out, "Sources", "host of the page", "images", &tally.hosts)?;
    table(
        out,
        "Languages",
        "declared by the page",
        "images",
        &tally.languages,
    )?;
    table(out, "Texts", "`text` is", "images", &tally.texts)?;
    writeln!(
        out,
        "## Licences and consent\n\nThe images belong to those who made them. What their publishers \
         say of their use was recorded with each image, and stands in its columns. Who uses the \
         images answers for that use.\n"
    )?;
    table(out, "Licences", "as given", "images", &tally.licences)?;
    let consent = columns.iter().filter(|c| c.consent && c.name != "licences");
    let consent: Counts = consent
        .map(|c| {
            (
                c.name.to_string(),
                tally.consent.get(c.name.as_ref()).copied().unwrap_or(0),
            )
        })
        .collect();
    table(out, "Consent", "column that says so", "images", &consent)?;
    writeln!(out, "## Ranking\n\n| step | images |\n|---|---:|")?;
    for (step, left) in [
        ("initial", steps.initial),
        ("format filter", steps.format),
        ("cut", steps.cut),
        ("unique by URL", steps.address),
        ("unique by bytes", steps.bytes),
        ("unique by picture", steps.unique),
    ] {
        writeln!(out, "| {step} | {left} |")?;
    }
    if let Some(top) = request.top {
        writeln!(out, "| the best {top} | {} |", steps.unique.min(top.get()))?;
    }
    writeln!(
        out,
        "\n## Columns\n\n| column | type | meaning |\n|---|---|---|"
    )?;
    for column in columns {
        writeln!(
            out,
            "| `{}` | {} | {} |",
            column.name,
            column.kind.name(),
            column.about
        )?;
    }
    let fence = fence(request.job);
    let job = request.job.trim_end();
    writeln!(out, "\n## The job\n\n{fence}toml\n{job}\n{fence}")
}

fn snippet(request: &Request<'_>) -> String {
    let lines: &[&str] = match (request.format, request.urls_only) {
        (Format::ImageFolder, _) => &[
            "from datasets import load_dataset",
            "images = load_dataset(\"imagefolder\", data_dir=\"FOLDER\", split=\"train\")",
        ],
        (Format::WebDataset, false) => &[
            "import glob, webdataset",
            "shards = sorted(glob.glob(\"FOLDER/*.tar\"))",
            "images = webdataset.WebDataset(shards, shardshuffle=False).decode(\"pil\")",
        ],
        (Format::WebDataset, true) => &[
            "import glob, webdataset",
            "shards = sorted(glob.glob(\"FOLDER/*.tar\"))",
            "addresses = webdataset.WebDataset(shards, shardshuffle=False).decode()",
        ],
        (Format::Parquet, _) => &[
            "import pandas",
            "table = pandas.read_parquet(\"FOLDER/data\")",
        ],
        (Format::JsonLines, _) => &[
            "import pandas",
            "# Without dtype=False pandas makes numbers of texts that look like some.",
            "table = pandas.read_json(\"FOLDER/data.jsonl\", lines=True, dtype=False)",
        ],
    };
    let mut snippet = lines.join("\n");
    snippet.push_str("\n# or, with the types of the front matter:\n");
    if request.format == Format::WebDataset {
        snippet.push_str(
            "# (not load_dataset(\"webdataset\", data_dir=\"FOLDER\"), which takes types and extensions\n\
             # from the first samples and drops all others)\n",
        );
    }
    snippet.push_str("from datasets import load_dataset\n");
    snippet.push_str("samples = load_dataset(\"FOLDER\", split=\"train\")");
    if request.urls_only && request.format != Format::WebDataset {
        let file = match request.format {
            Format::Parquet => "FOLDER/data --input_format parquet",
            _ => "FOLDER/data.jsonl --input_format jsonl",
        };
        let columns = "--url_col url --caption_col text";
        snippet.push_str(&format!(
            "\n# The images, from a shell:\n# img2dataset --url_list {file} {columns}"
        ));
    }
    snippet
}

/// A table of counts of something, the highest first.
pub(super) fn table(
    out: &mut dyn Write,
    title: &str,
    column: &str,
    of: &str,
    counts: &Counts,
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

/// A string from the web as a code span in a table cell: on one line, without characters
/// that end the span or the cell.
pub(super) fn code(text: &str) -> String {
    let tame = |c: char| match c {
        '`' => '\'',
        '|' => '¦',
        c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => ' ',
        // Direction marks (Unicode TR 36).
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
pub(super) fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

/// The language of a tag as `de-at`, if it is a code that the hub may know.
pub(super) fn primary(tag: &str) -> Option<&str> {
    let language = tag.split(['-', '_']).next()?;
    let letters = language.bytes().all(|b| b.is_ascii_lowercase());
    (letters && (2..=3).contains(&language.len())).then_some(language)
}

/// The hub's classes of size.
pub(super) fn size_category(samples: u64) -> &'static str {
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
