//! The images of a job in the order of how well their words fit the topic, each
//! picture once.
//!
//! The steps are those of the thesis's table 5.2 (Werner 2015): all images with
//! their sidecars; those of a wanted format and size; those whose score lies
//! between two bounds; of these each address, each file and each picture once, the
//! best kept. What is left is written to `ranking.tsv` in the job's folder, and what
//! was left out for another image's sake to `duplicates.tsv` beside it.
//!
//! It reads a job's folder and writes those two files, so a crawl may be running: what
//! it adds meanwhile is in the next ranking. Nothing here fetches, rates text or
//! changes what a crawl has written. The order depends on the folder alone.
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

use crate::config::{Config, Rank};
use crate::fs::beneath;
use crate::outputs::cell;
use crate::progress::Step;
use crate::topic::lm::perplexity;
use crate::topic::model::FolderError;
use crate::topic::model::Model;
use unique::Groups;

/// The file that a ranking is written to, in the job's folder.
pub const FILE: &str = "ranking.tsv";

/// The file that the groups of duplicates are written to, in the job's folder.
pub const DUPLICATES: &str = "duplicates.tsv";

const DUPLICATES_HEADER: &str = "kept\tfile\turl\twhy\tdistance\n";

const HEADER: &str =
    "rank\tscore\tfile\turl\tpage\talt\tsha256\tphash\twidth\theight\tformat\tduplicates\n";

/// Why there is no ranking.
#[derive(Debug, thiserror::Error)]
pub enum RankError {
    /// The job's images cannot be listed.
    #[error("{}: no images to rank ({source}); `spoor crawl` brings them home", path.display())]
    Images {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The formula asks for the perplexity of unknown words, and the model of the
    /// job cannot be read.
    #[error("rank.formula needs the job's model for texts that are absent: {0}")]
    Model(#[from] FolderError),
    /// The ranking cannot be written.
    #[error("{}: writing failed: {source}; free space or correct the permissions", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// An image in the ranking, with its best context.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked {
    /// Lower is better; finite.
    pub score: f64,
    /// Path below the job's folder.
    pub file: String,
    /// Where the image came from.
    pub url: String,
    /// The page in whose words it has this score.
    pub page: String,
    /// The alternative text on that page.
    pub alt: Option<String>,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// Perceptual hash; `None` where the picture cannot be decoded or shows nothing.
    pub phash: Option<u64>,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Format by the bytes themselves.
    pub format: String,
    /// Images that were left out because this one is as good as they are.
    pub duplicates: u64,
}

/// An image that was left out for the sake of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Duplicate {
    /// The file in the ranking that stands for it.
    pub kept: String,
    /// Its own file.
    pub file: String,
    /// Where it came from.
    pub url: String,
    /// What it shares with the kept one, or with another that the kept one stands
    /// for as well.
    pub why: Why,
    /// In how many of 64 bits its perceptual hash differs from that of the kept one;
    /// `None` where one of them is not known.
    pub distance: Option<u32>,
}

/// What two images have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// They came from one address.
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
    /// Images with a sidecar that can be read.
    pub initial: usize,
    /// Of a wanted format and size.
    pub format: usize,
    /// With a score, and that within the bounds.
    pub cut: usize,
    /// After one image was kept of each address.
    pub address: usize,
    /// After one was kept of the same bytes.
    pub bytes: usize,
    /// After one was kept of the same picture.
    pub unique: usize,
    /// Sidecars that could not be read, and those without an image; each was named in
    /// the program's log.
    pub unread: usize,
}

/// A job's images in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    /// The counts.
    pub steps: Steps,
    /// The best first; of equal scores the file that is first by name.
    pub images: Vec<Ranked>,
    /// Those that were left out for the sake of one of them, in the order of these,
    /// and for each the best first.
    pub duplicates: Vec<Duplicate>,
}

/// Ranks the images of a job as its `[rank]` says, and nothing is written.
///
/// # Errors
/// [`RankError::Images`], [`RankError::Model`]. A sidecar that cannot be read is
/// none: it is named in the program's log and passed over.
pub fn rank(config: &Config) -> Result<Ranking, RankError> {
    let unknown = match &config.rank.formula {
        Some(formula) if formula.rates_texts() => {
            perplexity::unknown(&*Model::load(&config.model_folder())?.lm)
        }
        _ => f64::NAN,
    };
    rank_folder(&config.job_folder(), &config.rank, unknown)
}

/// The same for a folder; `unknown` is the perplexity of unknown words, which only
/// a formula asks for.
fn rank_folder(folder: &Path, wanted: &Rank, unknown: f64) -> Result<Ranking, RankError> {
    let (mut images, mut steps) = samples::read(folder, wanted, unknown)?;
    images.sort_by(|a, b| {
        let by_score = a.score.total_cmp(&b.score);
        by_score.then_with(|| a.file.cmp(&b.file))
    });
    let mut groups = Groups::default();
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
    /// Writes the best `top` images, or all, to [`FILE`] in `folder`, and the
    /// duplicates of these to [`DUPLICATES`]; each file whole or not at all. Returns
    /// the path of the first and how many images there are in it.
    ///
    /// # Errors
    /// [`RankError::Write`].
    pub fn write(
        &self,
        folder: &Path,
        top: Option<NonZeroUsize>,
    ) -> Result<(PathBuf, usize), RankError> {
        let path = folder.join(FILE);
        let most = top.map_or(usize::MAX, NonZeroUsize::get);
        let rows = || self.images.iter().take(most);
        let written = beneath::write(folder, FILE, |out| {
            out.write_all(HEADER.as_bytes())?;
            rows()
                .enumerate()
                .try_for_each(|(at, image)| out.write_all(row(at + 1, image).as_bytes()))
        });
        if let Err(source) = written {
            return Err(RankError::Write { path, source });
        }
        let kept: HashSet<&str> = rows().map(|image| image.file.as_str()).collect();
        let of_kept = |d: &&Duplicate| kept.contains(d.kept.as_str());
        let beside = folder.join(DUPLICATES);
        let written = beneath::write(folder, DUPLICATES, |out| {
            out.write_all(DUPLICATES_HEADER.as_bytes())?;
            let mut duplicates = self.duplicates.iter().filter(of_kept);
            duplicates.try_for_each(|d| out.write_all(duplicate_row(d).as_bytes()))
        });
        match written {
            Ok(()) => Ok((path, rows().count())),
            Err(source) => Err(RankError::Write {
                path: beside,
                source,
            }),
        }
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
