//! The files in a WACZ, read in parts without unpacking: archives are stored uncompressed in it.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use flate2::Crc;
use flate2::read::DeflateDecoder;

use super::shelf::{AnyShelf, OnDisk, Parts, Shelf, Stretch, outside};
use super::zip::{ZipMember, ZipMethod, damaged, members};
use crate::files;
use crate::tool_error::ToolError;

/// The most bytes of all files of a WACZ that are decompressed into memory. In most, only
/// indexes are compressed, and large indexes consist of blocks.
const MOST: u64 = 32 << 20;
/// Indexes in order of preference.
const INDEXES: [&str; 3] = ["index.idx", "index.cdxj", "index.cdx"];

/// A file in a WACZ is compressed, and too large to be decompressed into memory.
const TOO_LARGE: &str = "what the ZIP compresses of this WACZ has more than 32 MiB; unpack it \
                         with any ZIP program and name its archives";
/// A file in a WACZ cannot be decompressed.
const PACKED: &str = "the ZIP has compressed or encrypted this file in a way that cannot be \
                      undone, or it is damaged; unpack it with any ZIP program";

fn no_zip(wacz: &str, error: &ToolError) -> ToolError {
    ToolError::new(format_args!(
        "{wacz}: not a WACZ, because it is not a complete ZIP: {error}"
    ))
}

/// The place of a file's bytes.
#[derive(Debug, Clone)]
enum ZipRange {
    /// In the ZIP: the first byte and the length.
    Stored(u64, u64),
    /// Decompressed in memory.
    Held(Arc<Vec<u8>>),
}

/// The files of a WACZ.
struct WaczFiles {
    members: BTreeMap<String, ZipMember>,
    /// The places of the opened files.
    places: Mutex<BTreeMap<String, ZipRange>>,
}

/// A folder of a WACZ.
#[derive(Clone)]
pub struct Wacz {
    /// The place of the WACZ, and its name.
    outer: AnyShelf,
    name: String,
    folder: &'static str,
    files: Arc<WaczFiles>,
}

/// The folder of the indexes in a WACZ, the name of the index there, and the folder of the
/// archives. Files are only decompressed when opened there.
///
/// # Errors
///
/// [`ToolError`] names the file.
pub fn open(outer: AnyShelf, name: &str) -> Result<(Wacz, String, Wacz), ToolError> {
    let listed = outer.open(name);
    let listed = listed.and_then(|mut parts| members(parts.as_mut()));
    let mut members = listed.map_err(|error| no_zip(&outer.name_of(name), &error))?;
    members.retain(|path, _| path.starts_with("archive/") || path.starts_with("indexes/"));
    let index = INDEXES
        .iter()
        .find(|index| members.contains_key(&format!("indexes/{index}")));
    let index = index.ok_or_else(|| {
        ToolError::new(format_args!(
            "{}: this WACZ has no index named indexes/index.idx, index.cdxj or index.cdx; unpack \
             it with any ZIP program and name its archives",
            outer.name_of(name)
        ))
    })?;
    let places = Mutex::default();
    let indexes = Wacz {
        outer,
        name: name.to_owned(),
        folder: "indexes/",
        files: Arc::new(WaczFiles { members, places }),
    };
    let archives = Wacz {
        folder: "archive/",
        ..indexes.clone()
    };
    Ok((indexes, (*index).to_owned(), archives))
}

/// The archives in a WACZ on this machine: the name of each there, its first byte and its
/// length. Archives that the ZIP compresses are skipped with a warning.
///
/// # Errors
///
/// [`ToolError`] names the file.
pub fn archives(path: &Path) -> Result<Vec<(String, u64, u64)>, ToolError> {
    let failed = |error| no_zip(&path.display().to_string(), &error);
    let mut parts = OnDisk::open(path).map_err(failed)?;
    let mut found = Vec::new();
    for (name, member) in members(&mut parts).map_err(failed)? {
        if !name.starts_with("archive/") || !files::is_named(Path::new(&name)) {
            continue;
        }
        if member.packing == ZipMethod::Stored {
            let begin = member.begin(&mut parts).map_err(failed)?;
            let begin = begin.ok_or_else(|| failed(damaged()))?;
            found.push((name, begin, member.length));
        } else {
            tracing::warn!(
                "{}: {name} is left out, because the ZIP compresses it; unpack it",
                path.display()
            );
        }
    }
    if found.is_empty() {
        let why = "this WACZ has no WARC file in archive/ that is stored without compression of \
                   the ZIP; unpack it with any ZIP program and name its archives";
        return Err(ToolError::at(path, why));
    }
    Ok(found)
}

impl Wacz {
    /// The place of a file's bytes. The result is cached, because a search costs a request.
    fn place(&self, path: &str, outer: &mut dyn Parts) -> Result<ZipRange, ToolError> {
        let member = self.files.members.get(path);
        let member = member.ok_or_else(|| outside(path))?;
        let places = self.files.places.lock();
        let mut places = places.unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.get(path) {
            return Ok(place.clone());
        }
        let wrong = |why: &str| {
            let wacz = self.outer.name_of(&self.name);
            ToolError::new(format_args!("{wacz}: {path}: {why}"))
        };
        let begin = member.begin(outer)?.ok_or_else(|| wrong(PACKED))?;
        let place = match member.packing {
            ZipMethod::Stored => ZipRange::Stored(begin, member.length),
            ZipMethod::Deflated => {
                let held = places.values().map(|place| match place {
                    ZipRange::Stored(..) => 0,
                    ZipRange::Held(bytes) => bytes.len() as u64,
                });
                let room = MOST.saturating_sub(held.sum());
                if member.length > room || member.packed > MOST {
                    return Err(wrong(TOO_LARGE));
                }
                let end = begin.saturating_add(member.packed);
                let bytes = inflated(Stretch::new(outer, begin, end), member);
                let bytes = bytes.ok_or_else(|| wrong(PACKED))?;
                ZipRange::Held(Arc::new(bytes))
            }
            ZipMethod::Other => return Err(wrong(PACKED)),
        };
        places.insert(path.to_owned(), place.clone());
        Ok(place)
    }
}

/// The bytes of a file; `None` if they do not match the list of files.
fn inflated(packed: Stretch<'_>, member: &ZipMember) -> Option<Vec<u8>> {
    // Unwritten parts take no memory.
    let mut bytes = Vec::with_capacity(usize::try_from(member.length).ok()?);
    let mut plain = DeflateDecoder::new(packed).take(member.length + 1);
    plain.read_to_end(&mut bytes).ok()?;
    let mut crc = Crc::new();
    crc.update(&bytes);
    (bytes.len() as u64 == member.length && crc.sum() == member.crc).then_some(bytes)
}

impl Shelf for Wacz {
    fn open(&self, name: &str) -> Result<Box<dyn Parts>, ToolError> {
        // Some indexes name archives with their folder.
        let bare = name.strip_prefix(self.folder).unwrap_or(name);
        let mut outer = self.outer.open(&self.name)?;
        let place = self.place(&format!("{}{bare}", self.folder), outer.as_mut())?;
        Ok(Box::new(WaczFile {
            name: PathBuf::from(self.name_of(bare)),
            outer,
            place,
        }))
    }

    fn name_of(&self, name: &str) -> String {
        format!("{}: {}{name}", self.outer.name_of(&self.name), self.folder)
    }
}

/// A file of a WACZ.
struct WaczFile {
    name: PathBuf,
    outer: Box<dyn Parts>,
    place: ZipRange,
}

impl Parts for WaczFile {
    fn name(&self) -> &Path {
        &self.name
    }

    fn length(&mut self) -> Result<u64, ToolError> {
        Ok(match &self.place {
            ZipRange::Stored(_, length) => *length,
            ZipRange::Held(bytes) => bytes.len() as u64,
        })
    }

    fn read(&mut self, offset: u64, length: u64) -> Result<Vec<u8>, ToolError> {
        match &self.place {
            ZipRange::Stored(begin, all) => {
                let length = length.min(all.saturating_sub(offset));
                self.outer.read(begin.saturating_add(offset), length)
            }
            ZipRange::Held(bytes) => {
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
