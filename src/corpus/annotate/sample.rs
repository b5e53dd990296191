//! The sample of images to judge: the best of the ranking at the time they were first
//! served, and gold questions.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::Path;

use super::assignment::Gold;
use super::votes::{FOLDER, TEXT_CLASSES};
use crate::fs::beneath::JobPath;
use crate::fs::{IoError, atomic, if_there};
use crate::outputs::{self, Sidecar};
use crate::rank::{self, Ranked};
use crate::settings::Annotate;
use crate::settings::JobSettings;
use crate::tool_error::ToolError;

/// The file of the sample, in [`FOLDER`].
const FILE: &str = "images.tsv";

const HEADER: &str = "rank\tsha256\tfile\turl\tpage";

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
) -> Result<Vec<SampleImage>, ToolError> {
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
        return Err(no_images(&folder));
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
                Err(error) => Err(ToolError::in_line(&path, at + 2, error)),
            },
            cells => {
                let count = cells.len();
                let why = format!("has {count} cells instead of 5; spoor did not write it");
                Err(ToolError::in_line(&path, at + 2, why))
            }
        }
    });
    entries.collect()
}

/// A job has nothing to judge.
pub(super) fn no_images(folder: &Path) -> ToolError {
    let why = "no ranked images, so nothing to judge; `spoor crawl` collects images, `spoor rank` \
               shows why they are left out";
    ToolError::at(folder, why)
}

/// Adds the gold images to the sample; those already in it become gold.
pub(super) fn add_gold(
    entries: &mut Vec<SampleImage>,
    folder: &Path,
    section: &Annotate,
) -> Result<(), ToolError> {
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
        let best = sidecar.best_context();
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
        Some((name, (line, _))) => {
            let why = "is not an image of this job; give the SHA-256 or the address of one, each \
                       image once";
            Err(ToolError::in_line(
                path,
                line,
                format_args!("{name:?} {why}"),
            ))
        }
    }
}

/// The lines of a gold table by the name of the image, with their numbers.
fn gold_lines(
    text: &str,
    path: &Path,
    section: &Annotate,
) -> Result<HashMap<String, (usize, Gold)>, ToolError> {
    let mut wanted = HashMap::new();
    for (at, line) in text.lines().enumerate() {
        let wrong = |why: String| Err(ToolError::in_line(path, at + 1, why));
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
fn read_lines(path: &Path, header: &str) -> Result<Vec<String>, ToolError> {
    let text = if_there(crate::fs::read_to_string(path));
    let Some(text) = text.map_err(IoError::at(path, "reading"))? else {
        return Ok(Vec::new());
    };
    let mut lines = text.lines();
    if lines.next() != Some(header) {
        let why = "is not the header that spoor writes; move the file away for a new sample";
        return Err(ToolError::in_line(path, 1, why));
    }
    Ok(lines.map(str::to_owned).collect())
}

fn write_lines(path: &Path, lines: &[String]) -> Result<(), ToolError> {
    let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    let written = folder.and_then(|()| {
        atomic::write(path, |out| {
            writeln!(out, "{HEADER}")?;
            lines.iter().try_for_each(|line| writeln!(out, "{line}"))
        })
    });
    Ok(written.map_err(IoError::at(path, "writing"))?)
}
