//! The data card: `README.md` with the front matter that the Hugging Face hub and its
//! `datasets` read, and the rest for people.
//!
//! Hosts, licences and languages come from the web: in the text they are put into code
//! spans, which show them literally, and they do not occur in the front matter.

use std::collections::HashSet;
use std::hash::BuildHasher;
use std::io::{self, Write};

use rustc_hash::FxBuildHasher;

use super::columns::ImageSample;
use super::parts::{self, NameCounts, Said, count, table};
use super::{Format, Request};
use crate::columns::{ColumnKind, DataColumn};
use crate::rank::Steps;

/// What the samples of an export have in common.
#[derive(Default)]
pub(super) struct SampleFigures {
    pub(super) samples: u64,
    pub(super) bytes: u64,
    pub(super) vanished: u64,
    /// Hashes, because there are many addresses.
    pages: HashSet<u64>,
    hosts: NameCounts,
    formats: NameCounts,
    /// Extensions of the files.
    extensions: NameCounts,
    languages: NameCounts,
    texts: NameCounts,
    said: Said,
}

impl SampleFigures {
    pub(super) fn add(
        &mut self,
        sample: &ImageSample,
        bytes: Option<&[u8]>,
        columns: &[DataColumn<ImageSample>],
    ) {
        self.samples += 1;
        self.bytes += bytes.map_or(0, |b| b.len() as u64);
        let page = &sample.context.page;
        self.pages.insert(FxBuildHasher.hash_one(page.as_str()));
        count(&mut self.hosts, page.authority());
        count(&mut self.formats, &sample.image.format);
        count(&mut self.extensions, sample.extension());
        let language = sample.context.page_language.as_deref();
        count(&mut self.languages, language.unwrap_or("not declared"));
        let from = sample
            .context
            .words()
            .map_or("none", |words| words.from.name());
        count(&mut self.texts, from);
        self.said.add(columns, sample);
    }
}

/// Writes the card.
pub(super) fn write(
    out: &mut dyn Write,
    name: &str,
    steps: &Steps,
    request: &Request<'_>,
    columns: &[DataColumn<ImageSample>],
    tally: &SampleFigures,
) -> io::Result<()> {
    front_matter(out, name, request, columns, tally)?;
    body(out, name, steps, request, columns, tally)
}

fn front_matter(
    out: &mut dyn Write,
    name: &str,
    request: &Request<'_>,
    columns: &[DataColumn<ImageSample>],
    tally: &SampleFigures,
) -> io::Result<()> {
    let files: &[&str] = match request.format {
        Format::ImageFolder => &["metadata.jsonl", "images/**"],
        Format::JsonLines => &["data.jsonl"],
        Format::WebDataset => &["*.tar"],
        Format::Parquet => &["data/*.parquet"],
    };
    parts::begin(
        out,
        name,
        "image-to-text",
        &tally.languages,
        tally.samples,
        files,
    )?;
    // Without the types, a reader takes them from the first samples and fails at the
    // first that is different.
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
    columns: &[DataColumn<ImageSample>],
) -> io::Result<()> {
    for column in columns {
        let (name, kind) = match (format, column.name.as_ref()) {
            // The reader replaces the path by the image.
            (Format::ImageFolder, "file_name") => ("image", ColumnKind::Image),
            (_, name) => (name, column.kind),
        };
        parts::feature(out, indent, name, kind, format == Format::Parquet)?;
    }
    Ok(())
}

fn body(
    out: &mut dyn Write,
    name: &str,
    steps: &Steps,
    request: &Request<'_>,
    columns: &[DataColumn<ImageSample>],
    tally: &SampleFigures,
) -> io::Result<()> {
    let SampleFigures { samples, bytes, .. } = tally;
    let about = "Images from the web with the words around them, the best of a crawl that follows one \
                 topic.";
    parts::title(out, name, about, request.date)?;
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
    parts::reading(out, &snippet(request))?;
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
    tally
        .said
        .write(out, ("images", "made", "image"), columns)?;
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
    parts::end(out, columns, ("The job", request.job))
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
