//! The documents between two phases: files of a few megabytes, each written whole. A
//! document is a frame of zstd with its length before it, so that it can be read alone.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use super::document::Document;
use super::error::damaged;
use super::ordered::ordered;
use crate::fs::{IoError, atomic, packed};
use crate::tool_error::ToolError;

/// The longest document in bytes, as JSON.
const MAX_LINE: u64 = 256 << 20;
/// A fast level, because the files are soon read again.
const LEVEL: i32 = 1;

/// The frame of a document, with its length.
pub(super) fn frame(document: &Document) -> std::io::Result<Vec<u8>> {
    let packed = packed::frame(&serde_json::to_vec(document)?, LEVEL)?;
    let length = u32::try_from(packed.len()).map_err(std::io::Error::other)?;
    Ok([&length.to_le_bytes(), packed.as_slice()].concat())
}

/// A document from the bytes of its frame.
fn document(frame: &[u8]) -> std::io::Result<Document> {
    Ok(serde_json::from_slice(&packed::of_frame(frame, MAX_LINE)?)?)
}

/// The files of a phase in a folder.
#[derive(Debug, Clone)]
pub(super) struct PhaseStore {
    folder: PathBuf,
    files: u32,
}

impl PhaseStore {
    /// Creates `folder` if necessary; the first `files` files in it are complete.
    pub(super) fn open(folder: PathBuf, files: u32) -> Result<Self, ToolError> {
        std::fs::create_dir_all(&folder).map_err(IoError::at(&folder, "making the folder"))?;
        Ok(Self { folder, files })
    }

    pub(super) fn files(&self) -> u32 {
        self.files
    }

    fn path(&self, number: u32) -> PathBuf {
        self.folder.join(format!("{number:06}.documents"))
    }

    /// Writes the next file atomically.
    pub(super) fn add(&mut self, frames: &[Vec<u8>]) -> Result<(), ToolError> {
        let path = self.path(self.files);
        let written = atomic::write(&path, |out| {
            frames.iter().try_for_each(|frame| out.write_all(frame))
        });
        written.map_err(IoError::at(&path, "writing"))?;
        self.files += 1;
        Ok(())
    }

    /// The documents of a file, not yet decoded.
    pub(super) fn frames(&self, number: u32) -> Result<StoredFrames, ToolError> {
        StoredFrames::open(self.path(number))
    }

    /// Passes the files in their order, each with its number.
    pub(super) fn each(
        &self,
        from: u32,
        push: &mut dyn FnMut((u32, Vec<Vec<u8>>)) -> bool,
    ) -> Result<(), ToolError> {
        for number in from..self.files {
            let frames = self.frames(number)?.collect::<Result<Vec<_>, _>>()?;
            if !push((number, frames)) {
                break;
            }
        }
        Ok(())
    }

    /// Does `work` on each document on all cores, and passes the results to `take` in order.
    pub(super) fn over<U: Send>(
        &self,
        work: impl Fn(Document) -> U + Sync,
        mut take: impl FnMut(U) -> Result<(), ToolError>,
    ) -> Result<(), ToolError> {
        let work = |(file, frames): (u32, Vec<Vec<u8>>)| {
            let read = frames.iter();
            let read = read.map(|frame| Ok(work(self.document(file, frame)?)));
            read.collect::<Result<Vec<U>, ToolError>>()
        };
        let take = |read: Result<Vec<U>, ToolError>| read?.into_iter().try_for_each(&mut take);
        ordered(|push| self.each(0, push), work, take)
    }

    /// A document from its frame.
    pub(super) fn document(&self, number: u32, frame: &[u8]) -> Result<Document, ToolError> {
        document(frame).map_err(|error| damaged(&self.path(number), error.to_string()))
    }

    /// The places of all documents, eight bytes each, to read them in any order.
    pub(super) fn places(&self) -> Result<DocumentPlaces, ToolError> {
        let mut places = DocumentPlaces {
            store: self.clone(),
            at: Vec::new(),
        };
        for number in 0..self.files {
            let mut frames = self.frames(number)?;
            loop {
                let at = frames.at;
                if frames.pass()?.is_none() {
                    break;
                }
                places.at.push(u64::from(number) << OFFSET | at);
            }
        }
        Ok(places)
    }
}

/// The number of bits of a place that hold the position in the file.
const OFFSET: u32 = 36;

/// The place of each document.
#[derive(Debug)]
pub(super) struct DocumentPlaces {
    store: PhaseStore,
    at: Vec<u64>,
}

impl DocumentPlaces {
    pub(super) fn len(&self) -> usize {
        self.at.len()
    }

    /// The document with a number.
    pub(super) fn read(&self, number: usize) -> Result<Document, ToolError> {
        let place = self.at.get(number).copied().unwrap_or(u64::MAX);
        let file = u32::try_from(place >> OFFSET).unwrap_or(u32::MAX);
        let path = self.store.path(file);
        let mut frames = StoredFrames::open(path)?;
        frames.at = place & ((1 << OFFSET) - 1);
        let moved = frames.from.seek(SeekFrom::Start(frames.at));
        moved.map_err(IoError::at(&frames.path, "reading"))?;
        match frames.next() {
            Some(frame) => self.store.document(file, &frame?),
            None => Err(damaged(&frames.path, "it ends too early")),
        }
    }
}

/// The frames of a file, one after another.
pub(super) struct StoredFrames {
    path: PathBuf,
    from: BufReader<File>,
    at: u64,
}

impl StoredFrames {
    fn open(path: PathBuf) -> Result<Self, ToolError> {
        let file = crate::fs::open(&path).map_err(IoError::at(&path, "opening"))?;
        Ok(Self {
            path,
            from: BufReader::new(file),
            at: 0,
        })
    }

    fn length(&mut self) -> Result<Option<u64>, ToolError> {
        let mut length = Vec::new();
        let read = self.from.by_ref().take(4).read_to_end(&mut length);
        read.map_err(IoError::at(&self.path, "reading"))?;
        match <[u8; 4]>::try_from(length.as_slice()) {
            Ok(length) => Ok(Some(u64::from(u32::from_le_bytes(length)))),
            Err(_) if length.is_empty() => Ok(None),
            Err(_) => Err(damaged(&self.path, "it ends too early")),
        }
    }

    fn pass(&mut self) -> Result<Option<()>, ToolError> {
        let Some(length) = self.length()? else {
            return Ok(None);
        };
        let far = i64::try_from(length).unwrap_or(i64::MAX);
        let moved = self.from.seek_relative(far);
        moved.map_err(IoError::at(&self.path, "reading"))?;
        self.at += 4 + length;
        Ok(Some(()))
    }

    fn read(&mut self) -> Result<Option<Vec<u8>>, ToolError> {
        let Some(length) = self.length()? else {
            return Ok(None);
        };
        let mut frame = Vec::new();
        let read = self.from.by_ref().take(length).read_to_end(&mut frame);
        read.map_err(IoError::at(&self.path, "reading"))?;
        self.at += 4 + length;
        if frame.len() as u64 == length {
            Ok(Some(frame))
        } else {
            Err(damaged(&self.path, "it ends too early"))
        }
    }
}

impl Iterator for StoredFrames {
    type Item = Result<Vec<u8>, ToolError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_read_in_order_and_alone() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = PhaseStore::open(folder.path().join("a"), 0).unwrap();
        let document = |n: usize| Document {
            id: n.to_string(),
            text: "x".repeat(n),
            ..Document::default()
        };
        for file in 0..3 {
            let frames = (0..4).map(|n| frame(&document(file * 4 + n)).unwrap());
            store.add(&frames.collect::<Vec<_>>()).unwrap();
        }
        let places = store.places().unwrap();
        assert_eq!((places.len(), store.files()), (12, 3));
        for n in [11, 0, 5, 4] {
            assert_eq!(places.read(n).unwrap(), document(n));
        }
        assert!(places.read(12).is_err());
        let path = folder.path().join("a/000001.documents");
        let bytes = std::fs::read(&path).unwrap();
        for cut in [bytes.len() - 1, bytes.len() - 9, 2] {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let read = store.frames(1).unwrap().collect::<Result<Vec<_>, _>>();
            assert!(
                read.unwrap_err().to_string().contains("again with --fresh"),
                "{cut}"
            );
        }
    }
}
