//! Exports a job's best images and the words around them as a data set for other programs:
//! Hugging Face `datasets`, `webdataset`, pandas and all readers of Parquet load it directly.
//! Its documents become a corpus by a plan of [`pipeline`](super::pipeline).
//!
//! The images are those of the ranking, in its order. For each the sidecar is read, the
//! bytes are compared with the sidecar's hash, and both are passed to the writer of the
//! format; then they are dropped, so that memory does not grow with the data set. The data
//! of a sample are declared once (`columns`), and every format and the data card are
//! derived from that. The folder is created atomically.
//!
//! An export does not change what a crawl has written, and a crawl may be running: an
//! image that changes meanwhile is left out and counted. Nothing here rates, fetches or
//! decodes.
//!
//! Reading order: this file, `columns` (the data of an image), `place` (the folder),
//! `lines` (imagefolder, JSON lines), `webdataset` (tar files), `parquet_table` (Parquet),
//! `files` (text files), `card` (README.md).

mod card;
mod columns;
pub(crate) mod files;
mod lines;
pub(crate) mod parquet_table;
pub(crate) mod parts;
pub(crate) mod place;
pub(crate) mod webdataset;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use self::card::SampleFigures;
use self::columns::ImageSample;
use self::place::ExportFolder;
use crate::fs::IoError;
use crate::fs::beneath;
use crate::outputs::{self, Sidecar};
use crate::rank::{self, Ranked, Ranking};
use crate::settings::JobSettings;
use crate::tool_error::ToolError;

/// The size in bytes at which a file of a data set is closed and the next one started.
const SHARD_BYTES: u64 = if cfg!(test) { 20_000 } else { 512 << 20 };

/// The format of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Image files and `metadata.jsonl`, the ImageFolder of Hugging Face `datasets`.
    ImageFolder,
    /// Tar files of `KEY.jpg`, `KEY.json` and `KEY.txt`, as `webdataset` reads them.
    WebDataset,
    /// Parquet files with the bytes in a column that `datasets` decodes.
    Parquet,
    /// `data.jsonl`, one line of JSON per image, with the image files.
    JsonLines,
}

impl Format {
    /// The name on the command line and of the folder.
    pub fn name(self) -> &'static str {
        match self {
            Format::ImageFolder => "imagefolder",
            Format::WebDataset => "webdataset",
            Format::Parquet => "parquet",
            Format::JsonLines => "jsonl",
        }
    }
}

/// What to export.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// What to write.
    pub format: Format,
    /// Only the best ones; all without it.
    pub top: Option<NonZeroUsize>,
    /// The folder to write; by default `exports/FORMAT` in the job's folder, with `-urls`
    /// if only addresses are written.
    pub to: Option<PathBuf>,
    /// Writes the addresses of the images instead of their bytes.
    pub urls_only: bool,
    /// The text of the job file, for the data card.
    pub job: &'a str,
    /// Today, as `2026-01-31`, for the data card.
    pub date: &'a str,
}

/// The result of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// The folder.
    pub folder: PathBuf,
    /// Number of images.
    pub samples: u64,
    /// Bytes of these images, 0 if only addresses were written.
    pub bytes: u64,
    /// Images of the ranking that were missing or had changed since; each was named in the
    /// program's log.
    pub vanished: u64,
}

/// Writes one format. Samples come in the order of the ranking.
trait SampleWriter {
    /// Writes a sample with its bytes, or without them if only addresses are exported.
    fn add(&mut self, sample: &ImageSample, bytes: Option<&[u8]>) -> Result<(), ToolError>;

    /// Writes buffered data.
    fn finish(self: Box<Self>) -> Result<(), ToolError>;
}

/// Exports a job's images in the order of `[rank]`. `progress` is called after each with
/// the numbers of written and of all images.
///
/// # Errors
///
/// [`ToolError`]; then the folder is unchanged.
pub fn export(
    config: &JobSettings,
    request: &Request<'_>,
    progress: impl FnMut(usize, usize),
) -> Result<Exported, ToolError> {
    // Before the ranking, which can take minutes.
    if request.urls_only && request.format == Format::ImageFolder {
        return Err(ToolError::new(
            "an imagefolder is made of image files; for addresses only, use --format jsonl, \
             parquet or webdataset",
        ));
    }
    let folder = config.job_folder();
    let _samples = outputs::read_samples(&folder)?;
    let place = ExportFolder::prepare(&request.target(&folder))?;
    let ranking = rank::rank(config)?;
    write(
        &folder,
        config.job.name.as_str(),
        &ranking,
        request,
        place,
        progress,
    )
}

fn write(
    folder: &Path,
    name: &str,
    ranking: &Ranking,
    request: &Request<'_>,
    place: ExportFolder,
    mut progress: impl FnMut(usize, usize),
) -> Result<Exported, ToolError> {
    let columns = columns::columns(request.format, request.urls_only);
    let top = request.top.map_or(usize::MAX, NonZeroUsize::get);
    let total = ranking.images.len().min(top);
    let mut tally = SampleFigures::default();
    let mut writer = writer(request, place.path())?;
    for (at, image) in ranking.images.iter().take(top).enumerate() {
        match read(folder, image, request.urls_only) {
            Ok((sidecar, bytes)) => {
                let sample = ImageSample::new(at + 1, image, sidecar);
                if let Some(sample) = sample {
                    writer.add(&sample, bytes.as_deref())?;
                    tally.add(&sample, bytes.as_deref(), &columns);
                } else {
                    tracing::warn!("{}: left out, because its words have changed", image.file);
                    tally.vanished += 1;
                }
            }
            Err(why) => {
                tracing::warn!("{}: left out: {why}", image.file);
                tally.vanished += 1;
            }
        }
        progress(at + 1, total);
    }
    writer.finish()?;
    if tally.samples == 0 {
        let why = "no image to export; `spoor rank` shows at which step images are left out, and \
                   `--text` exports the documents";
        return Err(ToolError::at(folder, why));
    }
    let path = place.path().join("README.md");
    let written = File::create(&path).and_then(|file| {
        let mut out = BufWriter::new(file);
        card::write(&mut out, name, &ranking.steps, request, &columns, &tally)?;
        out.flush()
    });
    written.map_err(IoError::at(&path, "writing"))?;
    Ok(Exported {
        folder: place.finish(request.format.name())?,
        samples: tally.samples,
        bytes: tally.bytes,
        vanished: tally.vanished,
    })
}

fn writer(request: &Request<'_>, folder: &Path) -> Result<Box<dyn SampleWriter>, ToolError> {
    let columns = columns::columns(request.format, request.urls_only);
    Ok(match request.format {
        Format::ImageFolder => Box::new(lines::LinesWriter::create(
            folder,
            "metadata.jsonl",
            columns,
        )?),
        Format::JsonLines => Box::new(lines::LinesWriter::create(folder, "data.jsonl", columns)?),
        Format::WebDataset => Box::new(webdataset::Shards::new(folder, columns)),
        Format::Parquet => Box::new(parquet_table::Pictures::create(folder, columns)?),
    })
}

/// The sidecar of a ranked image and its bytes, or why it is no longer that image.
fn read(
    folder: &Path,
    image: &Ranked,
    urls_only: bool,
) -> Result<(Sidecar, Option<Vec<u8>>), String> {
    let sidecar = Sidecar::load(folder, &image.file).map_err(|e| e.to_string())?;
    if sidecar.sha256() != image.sha256 {
        return Err("it was fetched again since the ranking".to_owned());
    }
    if urls_only {
        return Ok((sidecar, None));
    }
    let bytes = verified(folder, sidecar.file(), sidecar.sha256())?;
    Ok((sidecar, Some(bytes)))
}

/// The bytes of an image file, or why they are not those with this hash.
pub(crate) fn verified(folder: &Path, file: &str, sha256: &str) -> Result<Vec<u8>, String> {
    let bytes = beneath::read(folder, file).map_err(|e| e.to_string())?;
    let digest = Sha256::digest(&bytes);
    if base16ct::lower::encode_string(&digest) == sha256 {
        Ok(bytes)
    } else {
        Err("the file is not the one that its sidecar describes".to_owned())
    }
}

impl Request<'_> {
    fn target(&self, job_folder: &Path) -> PathBuf {
        let mut name = self.format.name().to_owned();
        if self.urls_only {
            name.push_str("-urls");
        }
        let usual = || job_folder.join("exports").join(name);
        self.to.clone().unwrap_or_else(usual)
    }
}
