//! Seed files with one address per line.

use std::collections::HashSet;

use super::messages::{place_in_bytes, shown_whole};
use super::sections::Seeds;
use crate::address::PageUrl;
use crate::file_errors::{FileError, FileErrors, FilePosition};

impl Seeds {
    /// Every seed in the order of `urls` and then of `files`, each once.
    ///
    /// # Errors
    ///
    /// All invalid lines of all files and all unreadable files at once.
    pub fn read(&self) -> Result<Vec<PageUrl>, FileErrors> {
        let mut seeds = self.urls.clone();
        let mut errors = Vec::new();
        for path in &self.files {
            let file = path.display().to_string();
            match crate::fs::read(path) {
                Ok(bytes) => read_file(&bytes, &file, &mut seeds, &mut errors),
                Err(error) => errors.push(FileError {
                    file,
                    place: None,
                    key: "seeds.files".to_owned(),
                    message: format!("cannot be read: {error}"),
                }),
            }
        }
        if !errors.is_empty() {
            return Err(FileErrors::new("the seed files", errors));
        }
        let mut seen = HashSet::new();
        seeds.retain(|url| seen.insert(url.clone()));
        Ok(seeds)
    }
}

fn read_file(bytes: &[u8], file: &str, seeds: &mut Vec<PageUrl>, errors: &mut Vec<FileError>) {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let mut wrong = |at: usize, message: String| {
            errors.push(FileError {
                file: file.to_owned(),
                place: Some(FilePosition {
                    line: index + 1,
                    column: place_in_bytes(line, at).column,
                }),
                key: String::new(),
                message,
            });
        };
        let line = match std::str::from_utf8(line) {
            Ok(line) => line,
            Err(error) => {
                wrong(
                    error.valid_up_to(),
                    "not UTF-8; save the file as UTF-8".to_owned(),
                );
                continue;
            }
        };
        let address = without_comment(line).trim();
        if address.is_empty() {
            continue;
        }
        match PageUrl::parse(address) {
            Ok(url) => seeds.push(url),
            Err(error) => {
                let indent = line.len() - line.trim_start().len();
                wrong(indent, shown_whole(&error.to_string()));
            }
        }
    }
}

/// A `#` within an address starts its fragment; at the beginning of the line or after
/// white space it starts a comment.
fn without_comment(line: &str) -> &str {
    let mut previous = ' ';
    for (at, c) in line.char_indices() {
        if c == '#' && previous.is_whitespace() {
            return line.get(..at).unwrap_or(line);
        }
        previous = c;
    }
    line
}
