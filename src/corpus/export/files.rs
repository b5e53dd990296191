//! Compressed text files of similar size. A document is never split.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::fs::IoError;
use crate::fs::packed::{Packed, Packing};

/// The numbered files of a format in a folder.
pub(crate) struct Files {
    folder: PathBuf,
    ending: &'static str,
    packing: Packing,
    /// The size in bytes, before compression, at which a file is closed.
    limit: u64,
    open: Option<(PathBuf, Packed<BufWriter<File>>)>,
    begun: u32,
    /// Bytes of the open file, before compression.
    bytes: u64,
}

fn create(path: &Path, packing: Packing) -> Result<Packed<BufWriter<File>>, IoError> {
    let file = File::create(path).map_err(IoError::at(path, "creating"))?;
    Packed::over(BufWriter::new(file), packing).map_err(IoError::at(path, "compressing"))
}

impl Files {
    /// Creates the folder.
    pub(crate) fn create(
        folder: PathBuf,
        ending: &'static str,
        packing: Packing,
        limit: u64,
    ) -> Result<Self, IoError> {
        std::fs::create_dir(&folder).map_err(IoError::at(&folder, "making the folder"))?;
        Ok(Self {
            folder,
            ending,
            packing,
            limit,
            open: None,
            begun: 0,
            bytes: 0,
        })
    }

    /// Begins a document, in a new file if the last one is full. Returns the name of the file,
    /// and how many bytes it has.
    pub(crate) fn begin(&mut self) -> Result<(String, u64), IoError> {
        if self.bytes >= self.limit {
            self.close()?;
        }
        let is_open = self.open.is_some();
        let number = self.begun.saturating_sub(u32::from(is_open));
        let name = format!("{number:05}.{}{}", self.ending, self.packing.ending());
        if !is_open {
            let path = self.folder.join(&name);
            let out = create(&path, self.packing)?;
            self.open = Some((path, out));
            self.begun = self.begun.saturating_add(1);
            self.bytes = 0;
        }
        Ok((name, self.bytes))
    }

    /// Adds to the current document.
    pub(crate) fn write(&mut self, parts: &[&[u8]]) -> Result<(), IoError> {
        let Some((path, out)) = &mut self.open else {
            return Ok(());
        };
        for part in parts {
            out.write_all(part).map_err(IoError::at(path, "writing"))?;
            self.bytes += part.len() as u64;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), IoError> {
        let Some((path, out)) = self.open.take() else {
            return Ok(());
        };
        self.bytes = 0;
        out.finish().map_err(IoError::at(&path, "writing"))?;
        Ok(())
    }

    /// Closes the last file, and returns the number of files.
    pub(crate) fn finish(mut self) -> Result<u32, IoError> {
        self.close()?;
        Ok(self.begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_closed_at_their_size_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        for packing in [Packing::Plain, Packing::Gzip, Packing::Zstd] {
            let to = folder.path().join(format!("a{}", packing.ending()));
            let mut files = Files::create(to.clone(), "txt", packing, 6).unwrap();
            let mut places = Vec::new();
            for text in ["one\n", "two\n", "three\n"] {
                places.push(files.begin().unwrap());
                files.write(&[text.as_bytes()]).unwrap();
            }
            assert_eq!(files.finish().unwrap(), 2);
            let name = |n: u32| format!("{n:05}.txt{}", packing.ending());
            assert_eq!(places, [(name(0), 0), (name(0), 4), (name(1), 0)]);
            let read = |n: u32| {
                let bytes = std::fs::read(to.join(name(n))).unwrap();
                let mut text = String::new();
                let mut from: Box<dyn std::io::Read> = match packing {
                    Packing::Plain => Box::new(bytes.as_slice()),
                    Packing::Gzip => Box::new(flate2::read::GzDecoder::new(bytes.as_slice())),
                    Packing::Zstd => Box::new(zstd::Decoder::new(bytes.as_slice()).unwrap()),
                };
                from.read_to_string(&mut text).unwrap();
                text
            };
            assert_eq!(
                (read(0), read(1)),
                ("one\ntwo\n".to_owned(), "three\n".to_owned())
            );
        }
    }
}
