//! The sample of images to judge: the best of the ranking at the time they were first
//! served, and gold questions.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use super::assignment::Gold;
use super::votes::{FOLDER, TEXT_CLASSES};
use crate::fs::beneath::JobPath;
use crate::fs::{IoError, atomic};
use crate::outputs::{self, Sidecar};
use crate::rank::{self, RankError, Ranked};
use crate::settings::Annotate;
use crate::settings::JobSettings;

/// The file of the sample, in [`FOLDER`].
const FILE: &str = "images.tsv";

const HEADER: &str = "rank\tsha256\tfile\turl\tpage";

/// Why there is no sample.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// There is no ranking to take it from.
    #[error(transparent)]
    Rank(#[from] RankError),
    /// The ranking is empty.
    #[error("{}: no ranked images, so nothing to judge; `spoor crawl` collects images, `spoor rank` shows why they are left out", .0.display())]
    Empty(PathBuf),
    /// A file cannot be read or written.
    #[error(transparent)]
    Io(#[from] IoError),
    /// A line of a table is wrong.
    #[error("{}:{line}: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, the first is 1.
        line: usize,
        /// The problem, and what to do.
        why: String,
    },
}

/// An image to judge, with the words of one page.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SampleImage {
    pub sha256: String,
    /// Path below the job's folder.
    pub file: String,
    pub url: String,
    pub page: String,
    pub gold: Option<Gold>,
}

/// The sample of a job: the first `top` lines of `annotations/images.tsv`, which is
/// written first, or extended from the ranking if it has fewer. Without `top`, the whole
/// file, or the whole ranking if there is no file yet.
pub(super) fn fix(
    config: &JobSettings,
    top: Option<NonZeroUsize>,
) -> Result<Vec<SampleImage>, SampleError> {
    let folder = config.job_folder();
    let path = folder.join(FOLDER).join(FILE);
    let mut lines = read_lines(&path, HEADER)?;
    let most = match top {
        Some(top) => top.get(),
        None if lines.is_empty() => usize::MAX,
        None => lines.len(),
    };
    if lines.len() < most {
        let ranking = rank::rank(config)?;
        let known = lines.len();
        extend(&mut lines, &ranking.images, most);
        if lines.len() > known {
            write_lines(&path, &lines)?;
        }
    }
    if lines.is_empty() {
        return Err(SampleError::Empty(folder));
    }
    let entries = lines.iter().take(most).enumerate();
    let entries = entries.map(|(at, line)| {
        let cells: Vec<&str> = line.split('\t').collect();
        match cells.as_slice() {
            [_, sha256, file, url, page] => match JobPath::parse(file) {
                Ok(file) => Ok(SampleImage {
                    sha256: (*sha256).to_owned(),
                    file: file.into(),
                    url: (*url).to_owned(),
                    page: (*page).to_owned(),
                    gold: None,
                }),
                Err(error) => Err(SampleError::Line {
                    path: path.clone(),
                    line: at + 2,
                    why: error.to_string(),
                }),
            },
            cells => Err(SampleError::Line {
                path: path.clone(),
                line: at + 2,
                why: format!(
                    "has {} cells instead of 5; spoor did not write it",
                    cells.len()
                ),
            }),
        }
    });
    entries.collect()
}

/// Adds the gold images to the sample; those already in it become gold.
pub(super) fn add_gold(
    entries: &mut Vec<SampleImage>,
    folder: &Path,
    section: &Annotate,
) -> Result<(), SampleError> {
    let Some(path) = &section.gold else {
        return Ok(());
    };
    let text =
        crate::fs::read_to_string(path).map_err(IoError::at(path, "reading the gold questions"))?;
    let images =
        outputs::image_files(folder).map_err(IoError::at(&folder.join("images"), "listing"))?;
    let mut wanted = gold_lines(&text, path, section)?;
    let mut found: HashSet<String> = HashSet::new();
    for file in images {
        if wanted.is_empty() {
            break;
        }
        let Ok(sidecar) = Sidecar::load(folder, &file) else {
            // The ranking reports unreadable ones.
            continue;
        };
        let names = [sidecar.sha256(), sidecar.url()];
        let Some((_, gold)) = names.iter().find_map(|name| wanted.remove(*name)) else {
            continue;
        };
        if !found.insert(sidecar.sha256().to_owned()) {
            continue;
        }
        let best = sidecar.contexts().iter();
        let best = best.min_by(|a, b| a.rank.total_cmp(&b.rank));
        entries.retain(|entry| entry.sha256 != sidecar.sha256());
        entries.push(SampleImage {
            sha256: sidecar.sha256().to_owned(),
            file,
            url: sidecar.url().to_owned(),
            page: best.map_or_else(String::new, |c| c.page.as_str().to_owned()),
            gold: Some(gold),
        });
    }
    match wanted.into_iter().min_by_key(|(_, (line, _))| *line) {
        None => Ok(()),
        Some((name, (line, _))) => Err(SampleError::Line {
            path: path.clone(),
            line,
            why: format!(
                "{name:?} is not an image of this job; give the SHA-256 or the address of one, each image once"
            ),
        }),
    }
}

/// The lines of a gold table by the name of the image, with their numbers.
fn gold_lines(
    text: &str,
    path: &Path,
    section: &Annotate,
) -> Result<HashMap<String, (usize, Gold)>, SampleError> {
    let mut wanted = HashMap::new();
    for (at, line) in text.lines().enumerate() {
        let wrong = |why: String| {
            Err(SampleError::Line {
                path: path.to_owned(),
                line: at + 1,
                why,
            })
        };
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let mut cells = line.split('\t').map(str::trim);
        let (Some(name), Some(image)) = (cells.next(), cells.next()) else {
            return wrong("needs an image and its class, with a tab between".to_owned());
        };
        let text = cells.next().filter(|text| !text.is_empty());
        let classes: Vec<&str> = section.classes.iter().map(|c| c.as_str()).collect();
        if !classes.contains(&image) {
            return wrong(format!(
                "{image:?} is not one of annotate.classes: {classes:?}"
            ));
        }
        if let Some(text) = text.filter(|text| !TEXT_CLASSES.contains(text)) {
            return wrong(format!("{text:?} is not one of {TEXT_CLASSES:?}"));
        }
        let gold = Gold {
            image: image.to_owned(),
            text: text.map(str::to_owned),
        };
        if wanted.insert(name.to_owned(), (at + 1, gold)).is_some() {
            return wrong(format!("{name:?} is listed twice"));
        }
    }
    Ok(wanted)
}

fn extend(lines: &mut Vec<String>, ranked: &[Ranked], most: usize) {
    let cell = |line: &String| line.split('\t').nth(1).map(str::to_owned);
    let known: HashSet<String> = lines.iter().filter_map(cell).collect();
    for (at, image) in ranked.iter().enumerate() {
        if lines.len() >= most {
            break;
        }
        if !known.contains(&image.sha256) {
            let Ranked {
                sha256,
                file,
                url,
                page,
                ..
            } = image;
            lines.push(format!("{}\t{sha256}\t{file}\t{url}\t{page}", at + 1));
        }
    }
}

/// The lines of a table below its header; empty if the file does not exist.
fn read_lines(path: &Path, header: &str) -> Result<Vec<String>, SampleError> {
    let text = match crate::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => {
            return Err(IoError::at(path, "reading")(source).into());
        }
    };
    let mut lines = text.lines();
    if lines.next() != Some(header) {
        return Err(SampleError::Line {
            path: path.to_owned(),
            line: 1,
            why: "is not the header that spoor writes; move the file away for a new sample"
                .to_owned(),
        });
    }
    Ok(lines.map(str::to_owned).collect())
}

fn write_lines(path: &Path, lines: &[String]) -> Result<(), SampleError> {
    let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    let written = folder.and_then(|()| {
        atomic::write(path, |out| {
            writeln!(out, "{HEADER}")?;
            lines.iter().try_for_each(|line| writeln!(out, "{line}"))
        })
    });
    Ok(written.map_err(IoError::at(path, "writing"))?)
}
