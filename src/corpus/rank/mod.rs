//! Ranks the images of a job by how well their words fit the topic, each picture once.
//!
//! The steps are those of the thesis's table 5.2 (Werner 2015): all images with their
//! sidecars; those of a wanted format and size; those whose score is between two bounds;
//! of these each address, each file and each picture once, keeping the best. The result is
//! written to `ranking.tsv` in the job's folder, and the images left out as duplicates to
//! `duplicates.tsv` beside it.
//!
//! It reads a job's folder and writes these two files, so a crawl may be running: images
//! added meanwhile will be in the next ranking. Nothing here fetches, rates text or
//! changes what a crawl has written. The order depends only on the folder.
//!
//! Reading order: this file, `samples` (sidecars to scores), `unique`.

mod samples;
mod unique;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use crate::fs::{IoError, atomic};
use crate::outputs::cell;
use crate::progress::Step;
use crate::settings::JobSettings;
use crate::settings::Rank;
use crate::tool_error::{ToolError, with_causes};
use crate::topic::lm::perplexity;
use crate::topic::model::Model;
use unique::DuplicateGroups;

/// The file that a ranking is written to, in the job's folder.
pub const FILE: &str = "ranking.tsv";

/// The file that the groups of duplicates are written to, in the job's folder.
pub const DUPLICATES: &str = "duplicates.tsv";

const DUPLICATES_HEADER: &str = "kept\tfile\turl\twhy\tdistance\n";

const HEADER: &str =
    "rank\tscore\tfile\turl\tpage\talt\tsha256\tphash\twidth\theight\tformat\tduplicates\n";

/// An image in the ranking, with its best context.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked {
    /// Lower is better; finite.
    pub score: f64,
    /// Path below the job's folder.
    pub file: String,
    /// Where the image came from.
    pub url: String,
    /// The page whose words give it this score.
    pub page: String,
    /// The alternative text on that page.
    pub alt: Option<String>,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// Perceptual hash; `None` if the picture cannot be decoded or is of one colour.
    pub phash: Option<u64>,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Format as the bytes show it.
    pub format: String,
    /// Images that were left out as duplicates of this one.
    pub duplicates: u64,
}

/// An image that was left out as a duplicate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Duplicate {
    /// The file that was kept instead.
    pub kept: String,
    /// Its own file.
    pub file: String,
    /// Where it came from.
    pub url: String,
    /// What it shares with the kept one, or with another duplicate of that.
    pub why: Why,
    /// The number of differing bits, out of 64, between its perceptual hash and that of
    /// the kept one; `None` if one of them is unknown.
    pub distance: Option<u32>,
}

/// What two images have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// They have the same address.
    Address,
    /// Their files are equal.
    Bytes,
    /// They look alike.
    Picture,
}

impl Why {
    /// The name used in the table.
    pub fn name(self) -> &'static str {
        match self {
            Why::Address => "address",
            Why::Bytes => "bytes",
            Why::Picture => "picture",
        }
    }
}

/// How many images were left after each step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Steps {
    /// Images with a readable sidecar.
    pub initial: usize,
    /// Of a wanted format and size.
    pub format: usize,
    /// With a score, and within the bounds.
    pub cut: usize,
    /// After keeping one image per address.
    pub address: usize,
    /// After keeping one per file content.
    pub bytes: usize,
    /// After keeping one per picture.
    pub unique: usize,
    /// Unreadable sidecars, and those without an image; each was named in the program's
    /// log.
    pub unread: usize,
}

/// A job's images in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    /// The counts.
    pub steps: Steps,
    /// The best first; of equal scores the one whose file name sorts first.
    pub images: Vec<Ranked>,
    /// The duplicates, in the order of the kept images, and for each the best first.
    pub duplicates: Vec<Duplicate>,
}

/// Ranks the images of a job by its `[rank]` section, without writing anything.
///
/// # Errors
///
/// [`ToolError`] names the folder or the model. An unreadable sidecar is not an error: it
/// is named in the program's log and skipped.
pub fn rank(config: &JobSettings) -> Result<Ranking, ToolError> {
    let unknown = match &config.rank.formula {
        Some(formula) if formula.rates_texts() => {
            let model = Model::load(&config.model_folder()).map_err(|error| {
                let why = "rank.formula needs the job's model for texts that are absent";
                ToolError::new(format_args!("{why}: {}", with_causes(&error)))
            })?;
            perplexity::unknown(&*model.lm)
        }
        _ => f64::NAN,
    };
    rank_folder(&config.job_folder(), &config.rank, unknown)
}

/// The same for a folder; `unknown` is the perplexity of unknown words, which only a
/// formula needs.
fn rank_folder(folder: &Path, wanted: &Rank, unknown: f64) -> Result<Ranking, ToolError> {
    let (mut images, mut steps) = samples::read(folder, wanted, unknown)?;
    images.sort_by(|a, b| {
        let by_score = a.score.total_cmp(&b.score);
        by_score.then_with(|| a.file.cmp(&b.file))
    });
    let mut groups = DuplicateGroups::default();
    let images = groups.first_of_each(Why::Address, images, |image| image.url.clone());
    steps.address = images.len();
    let mut images = groups.first_of_each(Why::Bytes, images, |image| image.sha256.clone());
    steps.bytes = images.len();
    let comparing = Step::begin("comparing pictures", None);
    unique::hash_pictures(folder, &mut images);
    let images = groups.first_of_near(images, wanted.near);
    steps.unique = images.len();
    drop(comparing);
    let duplicates = groups.duplicates(&images);
    Ok(Ranking {
        steps,
        images,
        duplicates,
    })
}

impl Ranking {
    /// Writes the best `top` images, or all, to [`FILE`] in `folder`, and their duplicates
    /// to [`DUPLICATES`], each file atomically. Returns the path of the first and the
    /// number of its images.
    ///
    /// # Errors
    ///
    /// [`ToolError`].
    pub fn write(
        &self,
        folder: &Path,
        top: Option<NonZeroUsize>,
    ) -> Result<(PathBuf, usize), ToolError> {
        let path = folder.join(FILE);
        let most = top.map_or(usize::MAX, NonZeroUsize::get);
        let rows = || self.images.iter().take(most);
        let written = atomic::write_in(folder, FILE, |out| {
            out.write_all(HEADER.as_bytes())?;
            rows()
                .enumerate()
                .try_for_each(|(at, image)| out.write_all(row(at + 1, image).as_bytes()))
        });
        written.map_err(IoError::at(&path, "writing"))?;
        let kept: HashSet<&str> = rows().map(|image| image.file.as_str()).collect();
        let of_kept = |d: &&Duplicate| kept.contains(d.kept.as_str());
        let beside = folder.join(DUPLICATES);
        let written = atomic::write_in(folder, DUPLICATES, |out| {
            out.write_all(DUPLICATES_HEADER.as_bytes())?;
            let mut duplicates = self.duplicates.iter().filter(of_kept);
            duplicates.try_for_each(|d| out.write_all(duplicate_row(d).as_bytes()))
        });
        written.map_err(IoError::at(&beside, "writing"))?;
        Ok((path, rows().count()))
    }
}

fn duplicate_row(duplicate: &Duplicate) -> String {
    let Duplicate {
        kept,
        file,
        url,
        why,
        distance,
    } = duplicate;
    let distance = distance.map(|d| d.to_string()).unwrap_or_default();
    format!("{kept}\t{file}\t{url}\t{}\t{distance}\n", why.name())
}

fn row(rank: usize, image: &Ranked) -> String {
    let cells = [
        rank.to_string(),
        // The shortest form that reads back as the same number.
        format!("{:?}", image.score),
        image.file.clone(),
        image.url.clone(),
        image.page.clone(),
        cell(image.alt.as_deref()),
        image.sha256.clone(),
        image.phash.map(|h| format!("{h:016x}")).unwrap_or_default(),
        image.width.to_string(),
        image.height.to_string(),
        image.format.clone(),
        image.duplicates.to_string(),
    ];
    let mut row = cells.join("\t");
    row.push('\n');
    row
}
