//! The names of the numbered files that contain the pieces of an output.

use std::path::Path;

use super::OutputError;
use crate::fs::IoError;

/// The suffix of a file that still grows.
pub(super) const OPEN: &str = ".open";

/// How the files of an output are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Naming {
    /// By their number and this suffix: `00007.txt.gz`.
    Numbered(&'static str),
    /// As is usual for archives (WARC 1.1, annex C): a prefix, the time at which the file was
    /// begun, its number, and one of these suffixes. While it grows, [`OPEN`] is appended.
    Dated(&'static [&'static str]),
}

/// The prefix of all dated files, so that files of other programs in the same folder are left
/// alone.
const PREFIX: &str = "spoor-";

/// The parts of the name of a dated file.
#[derive(Debug, Clone, Default)]
pub(super) struct Label {
    /// The job whose pieces it has.
    pub of: String,
    /// When it was begun, as a number of 14 digits: `20260102030405`.
    pub date: u64,
    pub suffix: &'static str,
}

/// A numbered file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Segment {
    pub number: u32,
    /// Its name when it is complete.
    pub name: String,
    /// Whether it still ends in [`OPEN`].
    pub is_open: bool,
}

impl Segment {
    /// Its present name.
    pub fn present(&self) -> String {
        if self.is_open {
            format!("{}{OPEN}", self.name)
        } else {
            self.name.clone()
        }
    }

    /// Gives it its final name.
    pub fn complete(&self, folder: &Path) -> Result<Self, OutputError> {
        let complete = Self {
            is_open: false,
            ..self.clone()
        };
        if self.is_open {
            let path = folder.join(self.present());
            std::fs::rename(&path, folder.join(&self.name))
                .map_err(IoError::at(&path, "renaming"))?;
        }
        Ok(complete)
    }
}

impl Naming {
    /// The file with this number that is about to grow.
    pub fn begin(self, number: u32, label: &Label) -> Segment {
        let name = match self {
            Self::Numbered(suffix) => format!("{number:05}{suffix}"),
            Self::Dated(_) => {
                let Label { of, date, suffix } = label;
                format!("{PREFIX}{of}-{date:014}-{number:05}{suffix}")
            }
        };
        Segment {
            number,
            name,
            is_open: matches!(self, Self::Dated(_)),
        }
    }

    /// The file with this name; `None` for foreign files, such as `7.txt.gz`.
    pub fn parse(self, file: &str) -> Option<Segment> {
        match self {
            Self::Numbered(suffix) => {
                let number = file.strip_suffix(suffix)?.parse().ok()?;
                let segment = self.begin(number, &Label::default());
                (segment.name == file).then_some(segment)
            }
            Self::Dated(suffixes) => {
                let name = file.strip_suffix(OPEN).unwrap_or(file);
                let stem = suffixes.iter().find_map(|s| name.strip_suffix(s))?;
                let mut parts = stem.strip_prefix(PREFIX)?.rsplit('-');
                let (serial, time) = (parts.next()?, parts.next()?);
                let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
                if time.len() != 14 || !is_digits(time) || !is_digits(serial) {
                    return None;
                }
                let number = serial.parse().ok()?;
                (serial == format!("{number:05}")).then(|| Segment {
                    number,
                    name: name.to_owned(),
                    is_open: name.len() < file.len(),
                })
            }
        }
    }

    /// The files in a folder by number.
    pub fn list(self, folder: &Path) -> Result<Vec<Segment>, OutputError> {
        let mut segments = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(IoError::at(folder, "listing"))? {
            let entry = entry.map_err(IoError::at(folder, "listing"))?;
            let name = entry.file_name();
            segments.extend(name.to_str().and_then(|name| self.parse(name)));
        }
        segments.sort_unstable();
        Ok(segments)
    }

    /// The file with this number, if it exists.
    pub fn find(self, folder: &Path, number: u32) -> Result<Option<Segment>, OutputError> {
        let mut all = self.list(folder)?.into_iter();
        Ok(all.find(|segment| segment.number == number))
    }

    /// The number after those of all existing files.
    pub fn next(self, folder: &Path) -> Result<u32, OutputError> {
        let last = self.list(folder)?.pop();
        Ok(last.map_or(0, |segment| segment.number.saturating_add(1)))
    }

    /// Removes the files with this number or a higher one, which the frontier does not know.
    pub fn remove_from(self, folder: &Path, first: u32) -> Result<(), OutputError> {
        for segment in self.list(folder)? {
            if segment.number >= first {
                let path = folder.join(segment.present());
                std::fs::remove_file(&path).map_err(IoError::at(&path, "removing"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Naming = Naming::Numbered(".txt.gz");
    const DATED: Naming = Naming::Dated(&[".warc.gz", ".warc.zst"]);

    #[test]
    fn only_own_names_are_read() {
        for (naming, suffix) in [(PLAIN, ""), (DATED, ".warc.gz"), (DATED, ".warc.zst")] {
            let label = Label {
                of: "a-job".to_owned(),
                date: 20_260_102_030_405,
                suffix,
            };
            for number in [0, 7, 99_999, 100_000] {
                let segment = naming.begin(number, &label);
                assert_eq!(naming.parse(&segment.present()), Some(segment));
            }
        }
        for foreign in ["7.txt.gz", "+0007.txt.gz", "00007.txt.gz.open", "00007.gz"] {
            assert_eq!(PLAIN.parse(foreign), None, "{foreign}");
        }
        for foreign in [
            "IAH-20260102030405-00007.warc.gz",
            "spoor-a-2026010203040-00007.warc.gz",
            "spoor-a-20260102030405-7.warc.gz",
            "spoor-a-20260102030405-00007.warc",
            "spoor-a-20260102030405-00007.warc.gz.rewritten",
            "00007.warc.gz",
        ] {
            assert_eq!(DATED.parse(foreign), None, "{foreign}");
        }
    }
}
