//! Works on the documents of jobs, corpora and files as stored: nothing is cleaned, so
//! offsets are those of the files.

use std::path::{Path, PathBuf};

use super::document::Document;
use super::ordered::ordered;
use super::plan::Source;
use super::source::{CorpusSources, RawItem, SourceCursor};
use super::{is_corpus, output};
use crate::fs::IoError;
use crate::language;
use crate::outputs::DOCUMENTS;
use crate::progress::Step as Progress;
use crate::tool_error::ToolError;

/// How many problems are described; the others are only counted.
const MOST_PROBLEMS: usize = 20;

/// What was worked on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Over {
    /// Documents.
    pub documents: u64,
    /// Lines that are not documents.
    pub bad: u64,
    /// Descriptions of the first of these, with file and line.
    pub problems: Vec<String>,
}

/// Does `work` on each document on all cores, and passes the results to `take` in the order of
/// the documents. Each has a language if one is recognised. A path is the folder of a job or
/// of a corpus, the plan of a corpus, a file of JSON lines, also compressed, or a Parquet file.
///
/// # Errors
///
/// [`ToolError`]; that of `take`, or a path leads to no documents.
pub fn over<U: Send>(
    paths: &[PathBuf],
    work: impl Fn(&Document) -> U + Sync,
    mut take: impl FnMut(U) -> Result<(), ToolError>,
) -> Result<Over, ToolError> {
    let sources = CorpusSources::of(&named(paths)?)?;
    let mut progress = Progress::begin("bytes of documents read", Some(sources.bytes()));
    let mut over = Over::default();
    let done = |raw: RawItem| match raw {
        RawItem::Other(place, _, why, _) => {
            let file = place.archive.or(place.job).unwrap_or_default();
            let line = place
                .offset
                .map_or_else(String::new, |n| format!(", line {}", n + 1));
            Err(format!("{file}{line}: {why}"))
        }
        // There are no rules, because no source has pages.
        RawItem::Page(page) => Err(format!("{}: is a page", page.url)),
        RawItem::Text(mut document) => {
            if document.language.is_none() {
                let found = language::recognise(document.text.split("\n\n"));
                document.language = found.map(|language| language.code().to_owned());
            }
            Ok(work(&document))
        }
    };
    let feed = |push: &mut dyn FnMut(_) -> bool| {
        sources.each(SourceCursor::default(), None, &mut |batch| {
            push((batch.items, batch.read))
        })
    };
    let all = |(items, read): (Vec<RawItem>, u64)| {
        let done: Vec<_> = items.into_iter().map(done).collect();
        (done, read)
    };
    ordered(feed, all, |(done, read)| {
        progress.reach(read);
        for done in done {
            match done {
                Ok(done) => {
                    over.documents += 1;
                    take(done)?;
                }
                Err(why) => {
                    over.bad += 1;
                    if over.problems.len() < MOST_PROBLEMS {
                        over.problems.push(why);
                    }
                }
            }
        }
        Ok(())
    })?;
    Ok(over)
}

/// The sources that paths mean.
fn named(paths: &[PathBuf]) -> Result<Source, ToolError> {
    let mut source = Source::default();
    for path in paths {
        if path.is_dir() {
            folder(path, &mut source)?;
        } else if path.extension().is_some_and(|ending| ending == "toml") {
            folder(&super::find(path)?, &mut source)?;
        } else {
            source.jsonl.push(path.clone());
        }
    }
    Ok(source)
}

fn folder(path: &Path, source: &mut Source) -> Result<(), ToolError> {
    let documents = path.join(DOCUMENTS);
    if is_corpus(path) {
        source.jsonl.extend(output::documents(path)?);
    } else if path.join("logs").is_dir() && documents.is_dir() {
        source.jobs.push(path.to_owned());
    } else {
        let from = if documents.is_dir() { &documents } else { path };
        let entries = from.read_dir().map_err(IoError::at(from, "listing"))?;
        let mut files = Vec::new();
        for entry in entries {
            let file = entry.map_err(IoError::at(from, "listing"))?.path();
            let name = file.to_string_lossy();
            let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
            if name.ends_with(".jsonl") || name.ends_with(".parquet") {
                files.push(file);
            }
        }
        if files.is_empty() {
            let why = "no documents in it; give a job, a corpus, or files of JSON lines";
            return Err(ToolError::at(path, why));
        }
        files.sort();
        source.jsonl.extend(files);
    }
    Ok(())
}
