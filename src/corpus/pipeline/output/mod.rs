//! The formats of a corpus. A document is written in all of them together, so that each format
//! has the same documents in the same order.

mod bucket;
mod columns;
mod interleaved;
mod kept;
mod markdown;
mod vertical;

use std::path::{Path, PathBuf};

use self::interleaved::{InterleavedFiles, InterleavedSample, SampleJoin};
use super::document::{Document, folded, paragraphs};
use super::ordered::ordered;
use super::plan::{Compression, Format, Layer, Output};
pub(super) use bucket::send;
pub use columns::stated_terms;
pub(super) use columns::{columns, of_crawl, of_line};
pub use interleaved::InterleavedFigures;
pub(super) use interleaved::{OF_PARTS, interleaved_columns};
use serde::Serialize;
use unicode_segmentation::UnicodeSegmentation;

use crate::columns::{DataColumn, json};
use crate::export::files::Files;
use crate::export::parquet_table::Table;
use crate::fs::IoError;
use crate::fs::packed::Packing;
use crate::sanitize;
use crate::tool_error::ToolError;

/// The result of an upload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sent {
    /// The store.
    pub to: String,
    /// Files that were uploaded.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that the store already had.
    pub kept: u64,
    /// Objects that were deleted, because the corpus no longer has these files.
    pub deleted: u64,
}

/// What was written of a corpus.
pub(super) struct WrittenFiles {
    pub(super) files: u32,
    pub(super) interleaved: Option<InterleavedFigures>,
}

/// The jobs that kept the images of a corpus.
pub(super) struct FromJobs<'j> {
    /// Their folders.
    pub(super) folders: &'j [PathBuf],
    /// Whether it is an error if one is not there. A takedown must not fail for that: images of such
    /// a job leave the corpus with what is taken down.
    pub(super) all: bool,
}

/// A document in the text formats.
struct Rendered {
    document: Document,
    texts: Vec<String>,
    interleaved: Option<InterleavedSample>,
}

/// Writes documents in all formats into the folder `out`; images are those that the `jobs` kept. `feed` passes pieces of work, `read` makes the documents of a piece, and `take` sees
/// each in order.
pub(super) fn write<T: Send>(
    (output, jobs): (&Output, FromJobs<'_>),
    out: &Path,
    columns: &[DataColumn<Document>],
    feed: impl FnOnce(&mut dyn FnMut(T) -> bool) -> Result<(), ToolError> + Send,
    read: impl Fn(T) -> Result<Vec<Document>, ToolError> + Sync,
    mut take: impl FnMut(&Document),
) -> Result<WrittenFiles, ToolError> {
    let mut formats = vec![Format::Jsonl];
    formats.extend(output.formats.iter().filter(|f| f.is_text()));
    let mut files: Vec<Files> = formats
        .iter()
        .map(|format| {
            let (folder, packing) = (out.join(format.name()), packing(output.compression));
            Files::create(folder, ending(*format), packing, output.shard_bytes)
        })
        .collect::<Result<_, _>>()?;
    let mut table = if output.formats.contains(&Format::Parquet) {
        let folder = out.join(Format::Parquet.name());
        Some(Table::create(folder, output.shard_bytes, columns)?)
    } else {
        None
    };
    let join = SampleJoin::of(output, &jobs)?;
    let mut interleaved = match &join {
        Some(_) => Some(InterleavedFiles::create(output, out, columns)?),
        None => None,
    };
    let work = |piece: T| {
        let rendered = read(piece)?.into_iter().map(|document| {
            let texts = formats
                .iter()
                .map(|format| text(*format, columns, &document));
            let texts = texts.collect();
            let interleaved = join.as_ref().and_then(|join| join.sample(&document));
            Rendered {
                document,
                texts,
                interleaved,
            }
        });
        Ok(rendered.collect::<Vec<_>>())
    };
    ordered(feed, work, |rendered: Result<Vec<Rendered>, ToolError>| {
        for Rendered {
            document,
            texts,
            interleaved: sample,
        } in rendered?
        {
            for (files, text) in files.iter_mut().zip(&texts) {
                files.begin()?;
                files.write(&[text.as_bytes()])?;
            }
            if let Some(table) = &mut table {
                let values = columns.iter().map(|column| column.value(&document));
                table.add(values, None)?;
            }
            if let (Some(interleaved), Some(sample)) = (&mut interleaved, sample) {
                interleaved.add(sample)?;
            }
            take(&document);
        }
        Ok(())
    })?;
    let mut count = 0;
    for files in files {
        count += files.finish()?;
    }
    if let Some(table) = table {
        count += table.finish()?;
    }
    let mut figures = None;
    if let Some(interleaved) = interleaved {
        let (files, of_images) = interleaved.finish()?;
        count += files;
        figures = Some(of_images);
    }
    Ok(WrittenFiles {
        files: count,
        interleaved: figures,
    })
}

/// The ending of the files of a format.
fn ending(format: Format) -> &'static str {
    match format {
        Format::Jsonl => "jsonl",
        Format::Parquet | Format::Interleaved => "parquet",
        Format::InterleavedTar => "tar",
        Format::Tsv => "tsv",
        Format::Vertical => "vert",
        Format::Text | Format::Sentences | Format::Paragraphs => "txt",
        Format::Markdown => "md",
    }
}

fn packing(compression: Compression) -> Packing {
    match compression {
        Compression::None => Packing::Plain,
        Compression::Gzip => Packing::Gzip,
        Compression::Zstd => Packing::Zstd,
    }
}

/// The pattern of the files of a format, from the folder of the corpus.
pub(super) fn pattern(format: Format, compression: Compression) -> String {
    let packed = match format {
        format if !format.is_text() => "",
        _ => packing(compression).ending(),
    };
    format!("{}/*.{}{packed}", format.name(), ending(format))
}

/// The files of documents as JSON lines in a corpus, in their order.
pub(super) fn documents(folder: &Path) -> Result<Vec<PathBuf>, ToolError> {
    let folder = folder.join(Format::Jsonl.name());
    let mut files = Vec::new();
    for entry in folder.read_dir().map_err(IoError::at(&folder, "listing"))? {
        files.push(entry.map_err(IoError::at(&folder, "listing"))?.path());
    }
    files.sort();
    Ok(files)
}

/// The attributes of a token in the vertical format, in this order.
const VERTICAL: [Layer; 4] = [Layer::Lemmas, Layer::Stems, Layer::Synonyms, Layer::Tags];

/// A document in a format.
fn text(format: Format, columns: &[DataColumn<Document>], document: &Document) -> String {
    match format {
        Format::Parquet | Format::Interleaved | Format::InterleavedTar => String::new(),
        Format::Jsonl => format!("{}\n", json(columns, document)),
        Format::Tsv => {
            let title = document.title.as_deref().unwrap_or_default();
            let cells = [&document.url, title, &document.text].map(cell);
            format!("{}\n", cells.join("\t"))
        }
        Format::Vertical => {
            let named = |layer: &Layer| columns.iter().any(|column| column.name == layer.name());
            let layers: Vec<Layer> = VERTICAL.into_iter().filter(named).collect();
            vertical::document(document, &layers)
        }
        Format::Text => format!("{}\n", cell(&document.text)),
        Format::Sentences => {
            let mut lines = String::new();
            for paragraph in paragraphs(&document.text) {
                for sentence in paragraph.unicode_sentences() {
                    lines.push_str(&cell(sentence));
                    lines.push('\n');
                }
            }
            lines.push('\n');
            lines
        }
        Format::Paragraphs => {
            let lines = document.text.lines().map(cell);
            let lines = lines.filter(|line| !line.is_empty());
            let lines: String = lines.map(|line| format!("{line}\n")).collect();
            format!("{lines}\n")
        }
        Format::Markdown => markdown::document(document),
    }
}

/// A text in one line, without characters that control a terminal or the direction of writing.
fn cell(text: &str) -> String {
    let text = folded(text);
    if !text.contains(sanitize::acts) {
        return text;
    }
    text.chars().filter(|c| !sanitize::acts(*c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_one_document() {
        let document = Document {
            url: "http://a.test/".to_owned(),
            title: Some("A\tlamp\n".to_owned()),
            text: "It burns. It\nshines!\n\nAll\u{202e} night.".to_owned(),
            ..Document::default()
        };
        let of = |format| text(format, &[], &document);
        assert_eq!(
            of(Format::Tsv),
            "http://a.test/\tA lamp\tIt burns. It shines! All night.\n"
        );
        assert_eq!(of(Format::Text), "It burns. It shines! All night.\n");
        assert_eq!(
            of(Format::Sentences),
            "It burns.\nIt\nshines!\nAll night.\n\n"
        );
        assert_eq!(
            of(Format::Paragraphs),
            "It burns. It\nshines!\nAll night.\n\n"
        );
        assert_eq!(pattern(Format::Tsv, Compression::Zstd), "tsv/*.tsv.zst");
        assert_eq!(
            pattern(Format::Parquet, Compression::Zstd),
            "parquet/*.parquet"
        );
    }
}
