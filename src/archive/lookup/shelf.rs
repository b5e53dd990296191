//! Files that are read in parts, on this machine or on a server.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::address::PageUrl;
use crate::fs::IoError;
use crate::tool_error::ToolError;

/// A name in an index leads out of the folder.
pub(super) fn outside(name: &str) -> ToolError {
    ToolError::new(format_args!(
        "`{name}` is not the name of a file beneath the folder of the archives; the index that \
         names it is wrong"
    ))
}

/// A file with random access.
pub trait Parts {
    /// Its name for messages.
    fn name(&self) -> &Path;

    /// Its length in bytes.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if it is unknown.
    fn length(&mut self) -> Result<u64, ToolError>;

    /// The bytes from `offset` on: `length` of them, or fewer at the end of the file.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if they cannot be read.
    fn read(&mut self, offset: u64, length: u64) -> Result<Vec<u8>, ToolError>;

    /// The best number of bytes to read at a time.
    fn piece(&self) -> u64;

    /// Whether each reading is a request to a server.
    fn is_far(&self) -> bool {
        false
    }
}

/// A place with files: a folder, or a web server.
pub trait Shelf {
    /// The file with this name in an index.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if there is none.
    fn open(&self, name: &str) -> Result<Box<dyn Parts>, ToolError>;

    /// The full name of a file, for messages.
    fn name_of(&self, name: &str) -> String;
}

/// Any such place.
pub type AnyShelf = Arc<dyn Shelf + Send + Sync>;

/// A folder on this machine.
#[derive(Debug, Clone)]
pub struct Folder(pub PathBuf);

impl Folder {
    /// The path of a file beneath it. The names in an index are untrusted, so one that leads
    /// elsewhere is refused.
    ///
    /// # Errors
    ///
    /// [`ToolError`].
    pub fn path(&self, name: &str) -> Result<PathBuf, ToolError> {
        let is_plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if name.is_empty() || !Path::new(name).components().all(is_plain) {
            return Err(outside(name));
        }
        Ok(self.0.join(name))
    }
}

/// The characters of a name that have a special meaning in an address.
const NOT_IN_PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// How often a name may be escaped: servers behind proxies may decode escapes repeatedly.
const ESCAPED: usize = 3;

/// The address of a file beneath the folder of the file at `base`. The name is treated as a
/// path, not as an address, so it cannot name a server; a name that leads out of the folder,
/// even after unescaping, is refused.
///
/// # Errors
///
/// [`ToolError`].
pub fn beneath(base: &PageUrl, name: &str) -> Result<PageUrl, ToolError> {
    let outside = || outside(name);
    let mut plain = name.to_owned();
    for _ in 0..ESCAPED {
        let unescaped = percent_decode_str(&plain).decode_utf8();
        plain = unescaped.map_err(|_| outside())?.into_owned();
    }
    let is_odd = |c: char| c == '\\' || c.is_control();
    // Some servers drop a part that begins with a semicolon.
    let is_up = |part: &str| part.split(';').any(|bare| bare.trim() == "..");
    let is_named = |part: &str| !part.is_empty() && !is_up(part);
    let is_plain = percent_decode_str(&plain).eq(plain.bytes());
    if !is_plain || plain.contains(is_odd) || !plain.split('/').all(is_named) {
        return Err(outside());
    }
    let (folder, _) = base.path().rsplit_once('/').unwrap_or_default();
    let escaped = utf8_percent_encode(name, NOT_IN_PATH);
    let server = (base.scheme(), base.authority());
    let url = PageUrl::parse(&format!("{}://{}{folder}/{escaped}", server.0, server.1));
    let url = url.map_err(|_| outside())?;
    // Check the parsed address, not the text from which it was built.
    let inside = url.path().strip_prefix(folder);
    let is_there = (url.scheme(), url.authority()) == server
        && inside.is_some_and(|path| path.starts_with('/') && path.len() > 1);
    is_there.then_some(url).ok_or_else(outside)
}

impl Shelf for Folder {
    fn open(&self, name: &str) -> Result<Box<dyn Parts>, ToolError> {
        Ok(Box::new(OnDisk::open(&self.path(name)?)?))
    }

    fn name_of(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

/// Files in any folders of this machine, by their names.
#[derive(Debug, Clone)]
pub struct Files(BTreeMap<String, PathBuf>);

impl Files {
    /// The files at these paths.
    pub fn of(paths: &[PathBuf]) -> Self {
        let named = paths.iter().map(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            (name.into_owned(), path.clone())
        });
        Self(named.collect())
    }
}

impl Shelf for Files {
    fn open(&self, name: &str) -> Result<Box<dyn Parts>, ToolError> {
        let path = self.0.get(name);
        let path = path.ok_or_else(|| outside(name))?;
        Ok(Box::new(OnDisk::open(path)?))
    }

    fn name_of(&self, name: &str) -> String {
        name.to_owned()
    }
}

/// A file on this machine.
#[derive(Debug)]
pub struct OnDisk {
    path: PathBuf,
    file: File,
}

impl OnDisk {
    /// Opens it.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the file.
    pub fn open(path: &Path) -> Result<Self, ToolError> {
        let file = crate::fs::open(path).map_err(IoError::at(path, "opening"));
        let advice = "check the path, or name the folder of the files with --archives";
        let file = file.map_err(ToolError::advising(advice))?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }
}

impl Parts for OnDisk {
    fn name(&self) -> &Path {
        &self.path
    }

    fn length(&mut self) -> Result<u64, ToolError> {
        let about = self.file.metadata();
        Ok(about.map_err(IoError::at(&self.path, "reading"))?.len())
    }

    fn read(&mut self, offset: u64, length: u64) -> Result<Vec<u8>, ToolError> {
        let mut bytes = Vec::new();
        let mut file = &self.file;
        let read = file
            .seek(SeekFrom::Start(offset))
            .and_then(|_| file.take(length).read_to_end(&mut bytes));
        read.map_err(IoError::at(&self.path, "reading"))?;
        Ok(bytes)
    }

    fn piece(&self) -> u64 {
        64 << 10
    }
}

/// The most bytes that are requested from a server at a time.
const FAR: u64 = 8 << 20;

/// A part of a file as a stream. An error of the shelf is the source of the stream's error.
pub struct Stretch<'p> {
    parts: &'p mut dyn Parts,
    offset: u64,
    end: u64,
    /// How many bytes may still be requested from a server.
    lead: Arc<AtomicU64>,
    piece: Vec<u8>,
    taken: usize,
}

impl<'p> Stretch<'p> {
    /// The bytes from `offset` up to `end`.
    pub fn new(parts: &'p mut dyn Parts, offset: u64, end: u64) -> Self {
        Self {
            parts,
            offset,
            end,
            lead: Arc::new(AtomicU64::new(u64::MAX)),
            piece: Vec::new(),
            taken: 0,
        }
    }

    /// The same, but requests only `lead` bytes from a server until the returned counter permits
    /// more.
    pub fn leading(mut self, lead: u64) -> (Self, Arc<AtomicU64>) {
        if self.parts.is_far() {
            self.lead = Arc::new(AtomicU64::new(lead));
        }
        let lead = self.lead.clone();
        (self, lead)
    }
}

impl Read for Stretch<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.piece.len() {
            // From a server, as much as possible with one request.
            let most = if self.parts.is_far() {
                FAR
            } else {
                self.parts.piece()
            };
            let wanted = most.min(self.end.saturating_sub(self.offset));
            if wanted == 0 {
                return Ok(0);
            }
            let lead = self.lead.load(Ordering::Relaxed);
            let wanted = wanted.min(lead);
            if wanted == 0 {
                return Err(io::Error::other(
                    "the record does not begin where it should",
                ));
            }
            self.lead.store(lead - wanted, Ordering::Relaxed);
            let read = self.parts.read(self.offset, wanted);
            self.piece = read.map_err(io::Error::other)?;
            self.offset += self.piece.len() as u64;
            self.taken = 0;
        }
        let rest = self.piece.get(self.taken..).unwrap_or_default();
        let length = rest.len().min(to.len());
        if let (Some(to), Some(rest)) = (to.get_mut(..length), rest.get(..length)) {
            to.copy_from_slice(rest);
        }
        self.taken += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_do_not_lead_out_of_the_folder() {
        let folder = Folder(PathBuf::from("archives"));
        let path = folder.path("crawl/a.warc.gz").unwrap();
        assert_eq!(path, Path::new("archives/crawl/a.warc.gz"));
        for bad in ["", "/etc/passwd", "../a.warc", "a/../../b"] {
            assert_eq!(folder.path(bad), Err(outside(bad)), "{bad}");
        }
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        /// Every permitted name is in the folder, even if a server unescapes it repeatedly.
        #[test]
        fn no_name_leads_out_of_the_folder_of_a_server(
            parts in prop::collection::vec(prop::sample::select(vec![
                "..", ".", "/", "\\", "%2e", "%2E", "%2f", "%5C", "%25", "%", "2e", ";", ":", "@", "?",
                "#", "&", " ", "\t", "\0", "a", "b.test", "http:", "//", "[::1]", "\u{e9}", "\u{ff0e}",
            ]), 0..9),
            base in prop::sample::select(vec![
                "https://a.test/x/y/all.idx", "https://a.test/all.idx", "http://[::1]:81/x%20/?a/b",
            ]),
        ) {
            let base = PageUrl::parse(base).unwrap();
            let name = parts.concat();
            if let Ok(url) = beneath(&base, &name) {
                let folder = base.path().rsplit_once('/').unwrap().0;
                let (ours, theirs) = (base.to_url().unwrap(), url.to_url().unwrap());
                prop_assert_eq!(ours.origin(), theirs.origin());
                prop_assert_eq!((theirs.query(), theirs.username()), (None, ""));
                let rest = url.path().strip_prefix(&format!("{folder}/")).unwrap();
                let mut plain = rest.to_owned();
                for _ in 0..6 {
                    let is_up = |part: &str| part.trim() == "..";
                    prop_assert!(!plain.split(['/', '\\', ';']).any(is_up), "{name:?}: {url}");
                    let unescaped = percent_decode_str(&plain).decode_utf8_lossy();
                    plain = unescaped.into_owned();
                }
            }
        }
    }

    #[test]
    fn any_stretch_of_a_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
        std::fs::write(folder.path().join("a"), &bytes).unwrap();
        let shelf = Folder(folder.path().to_owned());
        let mut parts = shelf.open("a").unwrap();
        assert_eq!(parts.length().unwrap(), 200_000);
        for (offset, end) in [(0, 200_000), (3, 70_001), (199_999, 300_000), (5, 5)] {
            let mut read = Vec::new();
            let mut stretch = Stretch::new(parts.as_mut(), offset, end);
            stretch.read_to_end(&mut read).unwrap();
            assert_eq!(read, bytes[offset as usize..(end as usize).min(200_000)]);
        }
        assert!(shelf.open("b").is_err());
    }
}
