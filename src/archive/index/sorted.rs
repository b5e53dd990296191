//! Lines sorted with bounded memory: sorted runs on the disk, which are merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::fs::IoError;

/// The bytes of lines that are sorted in memory at a time.
const RUN: usize = if cfg!(test) { 4 << 10 } else { 32 << 20 };
/// The memory overhead of a line.
const OVERHEAD: usize = 32;
/// How many files are merged at a time.
const MERGED: usize = if cfg!(test) { 3 } else { 128 };

/// Writes lines as sorted runs: files with this prefix and a number.
pub(crate) struct Runs {
    beginning: PathBuf,
    lines: Vec<String>,
    bytes: usize,
    written: Vec<PathBuf>,
}

impl Runs {
    pub fn new(beginning: PathBuf) -> Self {
        Self {
            beginning,
            lines: Vec::new(),
            bytes: 0,
            written: Vec::new(),
        }
    }

    pub fn add(&mut self, line: String) -> Result<(), IoError> {
        self.bytes += line.len() + OVERHEAD;
        self.lines.push(line);
        if self.bytes < RUN {
            return Ok(());
        }
        self.write()
    }

    fn write(&mut self) -> Result<(), IoError> {
        self.lines.sort_unstable();
        let mut path = self.beginning.clone().into_os_string();
        path.push(format!(".{}", self.written.len()));
        let path = PathBuf::from(path);
        let written = File::create(&path).and_then(|file| {
            let mut out = BufWriter::new(file);
            for line in &self.lines {
                writeln!(out, "{line}")?;
            }
            out.flush()
        });
        written.map_err(IoError::at(&path, "writing"))?;
        self.written.push(path);
        self.lines.clear();
        self.bytes = 0;
        Ok(())
    }

    /// The runs.
    pub fn finish(mut self) -> Result<Vec<PathBuf>, IoError> {
        if !self.lines.is_empty() {
            self.write()?;
        }
        Ok(self.written)
    }
}

/// Merges sorted files into `out`, which receives every line with its end. Files are removed
/// only if they were first merged into larger ones in `folder`. Returns the number of lines.
pub(crate) fn merge(
    mut runs: Vec<PathBuf>,
    folder: &Path,
    out: &mut dyn Write,
) -> Result<u64, IoError> {
    let mut number = 0;
    let mut made: Vec<PathBuf> = Vec::new();
    while runs.len() > MERGED {
        let some: Vec<PathBuf> = runs.drain(..MERGED).collect();
        let path = folder.join(format!("merged.{number}"));
        number += 1;
        let mut file = BufWriter::new(File::create(&path).map_err(IoError::at(&path, "creating"))?);
        merge_all(&some, &mut file)?;
        file.flush().map_err(IoError::at(&path, "writing"))?;
        for done in some.iter().filter(|done| made.contains(done)) {
            std::fs::remove_file(done).map_err(IoError::at(done, "removing"))?;
        }
        made.push(path.clone());
        runs.push(path);
    }
    merge_all(&runs, out)
}

fn merge_all(runs: &[PathBuf], out: &mut dyn Write) -> Result<u64, IoError> {
    let mut files = Vec::new();
    let mut heads = BinaryHeap::new();
    for (at, path) in runs.iter().enumerate() {
        let file = crate::fs::open(path).map_err(IoError::at(path, "opening"))?;
        let mut lines = BufReader::new(file).lines();
        if let Some(line) = next(&mut lines, path)? {
            heads.push(Reverse((line, at)));
        }
        files.push((lines, path));
    }
    let mut merged = 0;
    while let Some(Reverse((line, at))) = heads.pop() {
        let written = writeln!(out, "{line}");
        written.map_err(IoError::at(Path::new("the index"), "writing"))?;
        merged += 1;
        if let Some((lines, path)) = files.get_mut(at)
            && let Some(line) = next(lines, path)?
        {
            heads.push(Reverse((line, at)));
        }
    }
    Ok(merged)
}

fn next(lines: &mut io::Lines<BufReader<File>>, path: &Path) -> Result<Option<String>, IoError> {
    lines
        .next()
        .transpose()
        .map_err(IoError::at(path, "reading"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn any_lines_are_sorted_whatever_their_runs(
            lines in prop::collection::vec("[a-c]{0,400}", 0..400),
            files in 1_usize..5,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut runs = Vec::new();
            for (at, part) in lines.chunks(lines.len() / files + 1).enumerate() {
                let mut own = Runs::new(folder.path().join(format!("{at}")));
                for line in part {
                    own.add(line.clone()).unwrap();
                }
                runs.extend(own.finish().unwrap());
            }
            let mut merged = Vec::new();
            let count = merge(runs, folder.path(), &mut merged).unwrap();
            let mut expected = lines;
            expected.sort();
            prop_assert_eq!(count, expected.len() as u64);
            let merged = String::from_utf8(merged).unwrap();
            let merged: Vec<&str> = merged.lines().collect();
            prop_assert_eq!(merged, expected);
        }
    }
}
