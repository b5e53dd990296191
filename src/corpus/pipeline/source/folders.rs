//! Folders of HTML, text and PDF files.

use std::io::Read;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::super::document::Document;
use super::{MAX_BODY, MAX_PDF_FILE, Push, RawItem, SourcePage};
use crate::address::PageUrl;
use crate::archive::http::Response;
use crate::fs::{IoError, files_beneath};
use crate::pdf;
use crate::tool_error::ToolError;

/// Extensions of files that are read, and their media types.
const TYPES: [(&str, &str); 7] = [
    ("html", "text/html"),
    ("htm", "text/html"),
    ("xhtml", "application/xhtml+xml"),
    ("txt", "text/plain"),
    ("text", "text/plain"),
    ("md", "text/plain"),
    ("pdf", pdf::MEDIA_TYPE),
];

fn type_of(path: &Path) -> Option<&'static str> {
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    let mut types = TYPES.iter();
    types
        .find(|(known, _)| *known == ending)
        .map(|(_, media)| *media)
}

/// The files in a folder and in those beneath it, in the order of their paths. Links to
/// folders are not followed.
pub(super) fn beneath(folder: &Path) -> Result<Vec<PathBuf>, ToolError> {
    let found = files_beneath(folder, |path| type_of(path).is_some())?;
    if found.is_empty() {
        let all: Vec<&str> = TYPES.iter().map(|(ending, _)| *ending).collect();
        let why = format!("no file in it ends in one of: {}", all.join(", "));
        return Err(ToolError::at(folder, why));
    }
    Ok(found)
}

pub(super) fn each(
    folder: &Path,
    files: &[PathBuf],
    after: Option<[u64; 3]>,
    push: Push<'_>,
) -> Result<(), ToolError> {
    // Links on a page need a base, although they are not followed.
    let base = PageUrl::parse("http://file.invalid/");
    let base = base.map_err(|error| ToolError::at(folder, error))?;
    let mut read = 0;
    for (number, path) in (0..).zip(files) {
        if after.is_some_and(|[last, ..]| number <= last) {
            continue;
        }
        let file = crate::fs::open(path).map_err(IoError::at(path, "opening"))?;
        let mut body = Vec::new();
        let media = type_of(path).unwrap_or("text/plain");
        let most = if media == pdf::MEDIA_TYPE {
            MAX_PDF_FILE
        } else {
            MAX_BODY
        };
        let taken = file.take(most as u64 + 1).read_to_end(&mut body);
        taken.map_err(IoError::at(path, "reading"))?;
        read += body.len() as u64;
        let truncated = body.len() > most;
        body.truncate(most);
        let name = path.strip_prefix(folder).unwrap_or(path).to_string_lossy();
        let known = Document {
            url: format!("file:{name}"),
            archive: Some(name.into_owned()),
            ..Document::default()
        };
        let page = SourcePage {
            url: base.clone(),
            response: Response {
                status: 200,
                headers: vec![("content-type".to_owned(), media.as_bytes().to_vec())],
                body: Bytes::from(body),
                truncated,
                cut: false,
            },
            known,
            of_page: false,
        };
        if !push(RawItem::Page(Box::new(page)), [number, 0, 0], read) {
            break;
        }
    }
    Ok(())
}
