//! The files in a WACZ, read in parts where they lie: archives are stored in it as they are.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use zip::{CompressionMethod, ZipArchive};

use super::shelf::{AnyShelf, Parts, Shelf, ShelfError};
use crate::archive::files;
use crate::fs::IoError;

/// The most bytes that are decompressed into memory of one WACZ, of all its files; only indexes
/// are compressed, as a rule.
const MOST_HELD: u64 = 48 << 20;
/// The most bytes that are read for the list of files, with what is looked through to find it.
const MOST_LIST: u64 = 4 << 20;
/// The most files of a WACZ that count, in `archive/` and `indexes/`.
const MOST_MEMBERS: usize = 4_096;
/// Indexes in the order in which they are preferred.
const INDEXES: [&str; 3] = ["index.idx", "index.cdxj", "index.cdx"];

/// Why a file is not read as a WACZ.
#[derive(Debug, thiserror::Error)]
pub enum WaczError {
    /// It cannot be read.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    /// It is no ZIP.
    #[error("{wacz}: not a WACZ, because it is no whole ZIP: {error}")]
    Zip {
        /// The file.
        wacz: String,
        /// What is wrong.
        error: zip::result::ZipError,
    },
    /// More would have to be held in memory than is permitted.
    #[error(
        "{wacz}: {what}, which is more than is read of a WACZ; unpack it with any ZIP program and \
         name its archives"
    )]
    TooLarge {
        /// The file.
        wacz: String,
        /// What is too large.
        what: String,
    },
    /// It has no index that can be searched.
    #[error(
        "{0}: this WACZ has no index named indexes/index.idx, index.cdxj or index.cdx; unpack it \
         with any ZIP program and name its archives"
    )]
    NoIndex(String),
    /// It has no archive that can be read where it lies.
    #[error(
        "{0}: this WACZ has no WARC file in archive/ that is stored without compression of the \
         ZIP; unpack it with any ZIP program and name its archives"
    )]
    NoArchive(String),
}

/// A file in the ZIP.
#[derive(Debug, Clone)]
enum Member {
    /// Stored as it is: its first byte and its length.
    Stored(u64, u64),
    /// Compressed: its number in the ZIP, and its length without compression.
    Packed(usize, u64),
}

/// One folder of a WACZ.
#[derive(Clone)]
pub struct Wacz {
    /// Where the WACZ is, and its name.
    outer: AnyShelf,
    name: String,
    folder: &'static str,
    members: Arc<BTreeMap<String, Member>>,
    /// The files that were decompressed, by their numbers.
    held: Arc<Mutex<BTreeMap<usize, Arc<[u8]>>>>,
}

/// The folder of the indexes in a WACZ, the name of the index there, and the folder of the
/// archives.
///
/// # Errors
///
/// [`WaczError`] names the file.
pub fn open(outer: AnyShelf, name: &str) -> Result<(Wacz, String, Wacz), WaczError> {
    let failed = |error| WaczError::Zip {
        wacz: outer.name_of(name),
        error,
    };
    let mut zip = zip_of(&outer, name)?;
    let mut members = BTreeMap::new();
    for number in 0..zip.len() {
        let path = zip.name_for_index(number).transpose().map_err(failed)?;
        let path = path.unwrap_or_default().into_owned();
        if !path.starts_with("archive/") && !path.starts_with("indexes/") {
            continue;
        }
        if members.len() >= MOST_MEMBERS {
            let what = format!("it has more than {MOST_MEMBERS} archives and indexes");
            let wacz = outer.name_of(name);
            return Err(WaczError::TooLarge { wacz, what });
        }
        let file = zip.by_index_raw(number).map_err(failed)?;
        let member = match (file.data_start(), file.compression()) {
            (Some(begin), CompressionMethod::Stored) => Member::Stored(begin, file.size()),
            _ => Member::Packed(number, file.size()),
        };
        drop(file);
        members.insert(path, member);
    }
    let index = INDEXES
        .iter()
        .find(|index| members.contains_key(&format!("indexes/{index}")));
    let index = index.ok_or_else(|| WaczError::NoIndex(outer.name_of(name)))?;
    let indexes = Wacz {
        outer,
        name: name.to_owned(),
        folder: "indexes/",
        members: Arc::new(members),
        held: Arc::default(),
    };
    let archives = Wacz {
        folder: "archive/",
        ..indexes.clone()
    };
    Ok((indexes, (*index).to_owned(), archives))
}

/// The ZIP at a place, of which no more is read than a list of files may have.
fn zip_of(outer: &AnyShelf, name: &str) -> Result<ZipArchive<Seekable>, WaczError> {
    let seekable = Seekable::of(outer.open(name)?)?;
    let left = Arc::clone(&seekable.left);
    let wacz = || outer.name_of(name);
    let zip = ZipArchive::new(seekable).map_err(|error| {
        if left.load(Ordering::Relaxed) == 0 {
            let what = format!("its list of files is not in {} MiB", MOST_LIST >> 20);
            return WaczError::TooLarge { wacz: wacz(), what };
        }
        WaczError::Zip {
            wacz: wacz(),
            error,
        }
    })?;
    // What is read from now on is bounded by what it is read for.
    left.store(u64::MAX, Ordering::Relaxed);
    Ok(zip)
}

/// The archives in a WACZ on this machine: the name of each there, its first byte and its
/// length. Those that the ZIP compresses are told and left out.
///
/// # Errors
///
/// [`WaczError`] names the file.
pub fn archives(path: &Path) -> Result<Vec<(String, u64, u64)>, WaczError> {
    let failed = |error| WaczError::Zip {
        wacz: path.display().to_string(),
        error,
    };
    let file = crate::fs::open(path).map_err(IoError::at(path, "opening"));
    let file = BufReader::new(file.map_err(ShelfError::from)?);
    let mut zip = ZipArchive::new(file).map_err(failed)?;
    let mut found = Vec::new();
    for number in 0..zip.len() {
        let file = zip.by_index_raw(number).map_err(failed)?;
        let name = file.name().map_err(failed)?.into_owned();
        if !name.starts_with("archive/") || !files::is_named(Path::new(&name)) {
            continue;
        }
        match (file.data_start(), file.compression()) {
            (Some(begin), CompressionMethod::Stored) => found.push((name, begin, file.size())),
            _ => tracing::warn!(
                "{}: {name} is left out, because the ZIP compresses it; unpack it",
                path.display()
            ),
        }
    }
    if found.is_empty() {
        return Err(WaczError::NoArchive(path.display().to_string()));
    }
    found.sort();
    Ok(found)
}

impl Wacz {
    /// A file that the ZIP compresses.
    fn unpacked(&self, number: usize, length: u64) -> Result<Arc<[u8]>, WaczError> {
        let wacz = || self.outer.name_of(&self.name);
        let failed = |error| WaczError::Zip {
            wacz: wacz(),
            error,
        };
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = held.get(&number) {
            return Ok(Arc::clone(bytes));
        }
        let sum: u64 = held.values().map(|bytes| bytes.len() as u64).sum();
        let left = MOST_HELD - sum.min(MOST_HELD);
        let too_large = || WaczError::TooLarge {
            wacz: wacz(),
            what: format!(
                "the files that it compresses have more than {} MiB",
                MOST_HELD >> 20
            ),
        };
        if length > left {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        let mut zip = zip_of(&self.outer, &self.name)?;
        let file = zip.by_index(number).map_err(failed)?;
        let read = file.take(left + 1).read_to_end(&mut bytes);
        read.map_err(|error| failed(error.into()))?;
        if bytes.len() as u64 > left {
            return Err(too_large());
        }
        let bytes: Arc<[u8]> = bytes.into();
        held.insert(number, Arc::clone(&bytes));
        Ok(bytes)
    }
}

impl Shelf for Wacz {
    fn open(&self, name: &str) -> Result<Box<dyn Parts>, ShelfError> {
        // Some indexes name archives with their folder.
        let bare = name.strip_prefix(self.folder).unwrap_or(name);
        let member = self.members.get(&format!("{}{bare}", self.folder));
        let member = member.ok_or_else(|| ShelfError::Outside(self.name_of(name)))?;
        let content = match *member {
            Member::Stored(begin, length) => Content::Stored(begin, length),
            Member::Packed(number, length) => {
                let bytes = self.unpacked(number, length);
                Content::Held(bytes.map_err(|error| ShelfError::Remote(Box::new(error)))?)
            }
        };
        Ok(Box::new(Inner {
            name: PathBuf::from(self.name_of(bare)),
            outer: self.outer.open(&self.name)?,
            content,
        }))
    }

    fn name_of(&self, name: &str) -> String {
        format!("{}: {}{name}", self.outer.name_of(&self.name), self.folder)
    }
}

/// Where the bytes of a file are.
enum Content {
    /// In the ZIP as they are.
    Stored(u64, u64),
    /// In memory.
    Held(Arc<[u8]>),
}

/// A file of a WACZ.
struct Inner {
    name: PathBuf,
    outer: Box<dyn Parts>,
    content: Content,
}

impl Parts for Inner {
    fn name(&self) -> &Path {
        &self.name
    }

    fn length(&mut self) -> Result<u64, ShelfError> {
        Ok(match &self.content {
            Content::Stored(_, length) => *length,
            Content::Held(bytes) => bytes.len() as u64,
        })
    }

    fn read(&mut self, offset: u64, length: u64) -> Result<Vec<u8>, ShelfError> {
        match &self.content {
            Content::Stored(begin, all) => {
                let length = length.min(all.saturating_sub(offset));
                self.outer.read(begin.saturating_add(offset), length)
            }
            Content::Held(bytes) => {
                let place = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(bytes.len());
                let range = place(offset)..place(offset.saturating_add(length));
                Ok(bytes.get(range).unwrap_or_default().to_vec())
            }
        }
    }

    fn piece(&self) -> u64 {
        self.outer.piece()
    }

    fn is_far(&self) -> bool {
        self.outer.is_far()
    }
}

/// A file read in parts as a stream with a position, for the reader of ZIP.
struct Seekable {
    parts: Box<dyn Parts>,
    length: u64,
    position: u64,
    /// The piece that was read last, and where it begins.
    held: (u64, Vec<u8>),
    /// How many bytes may be read from now on.
    left: Arc<AtomicU64>,
}

impl Seekable {
    fn of(mut parts: Box<dyn Parts>) -> Result<Self, ShelfError> {
        Ok(Self {
            length: parts.length()?,
            parts,
            position: 0,
            held: (0, Vec::new()),
            left: Arc::new(AtomicU64::new(MOST_LIST)),
        })
    }

    /// What is held from the position on.
    fn rest(&self) -> &[u8] {
        let from = self.position.checked_sub(self.held.0);
        let from = from.and_then(|from| usize::try_from(from).ok());
        from.and_then(|from| self.held.1.get(from..))
            .unwrap_or_default()
    }
}

impl Read for Seekable {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.rest().is_empty() && self.position < self.length {
            // The directory is at the end and read backwards, so the piece begins before it.
            let piece = self.parts.piece();
            let from = self.position - self.position % piece;
            let left = self.left.load(Ordering::Relaxed);
            if left == 0 {
                return Err(io::Error::other("the list of files is too long"));
            }
            self.left
                .store(left.saturating_sub(piece), Ordering::Relaxed);
            let read = self.parts.read(from, piece).map_err(io::Error::other)?;
            self.held = (from, read);
        }
        let mut rest = self.rest();
        let n = rest.read(to)?;
        self.position += n as u64;
        Ok(n)
    }
}

impl Seek for Seekable {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        let before = || io::Error::new(io::ErrorKind::InvalidInput, "before the beginning");
        self.position = position.ok_or_else(before)?;
        Ok(self.position)
    }
}
