//! The content of an address of the lab: the tables, then the tree.
//!
//! This file knows neither sockets nor HTTP; its interface is [`Lab::answer`], which
//! [`mod@super::serve`] serves over HTTP.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::serve::{Behaviour, Observer, Request};
use crate::address::PageUrl;

/// Why a lab cannot be opened or judged.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A folder or file cannot be read or written.
    #[error("{path}: {source}; check that it exists and may be accessed", path = path.display())]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A row of a table is invalid.
    #[error("{path}, line {line}: {what}", path = path.display())]
    Table {
        /// The table.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// The problem, and what is expected.
        what: String,
    },
}

/// A picture that is drawn on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureSize {
    /// Width in pixels as the table states it.
    pub width: u32,
    /// Height in pixels as the table states it.
    pub height: u32,
}

/// The content of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabResponse {
    /// A file of the tree.
    File {
        /// The `Content-Type` to send.
        content_type: String,
        /// All of its bytes.
        bytes: Bytes,
    },
    /// It has moved permanently (301).
    Moved {
        /// The `Location` to send.
        location: String,
    },
    /// A picture without bytes, drawn by [`super::picture::draw`].
    Picture {
        /// The address it is drawn for; its seed.
        url: String,
        /// Its size.
        size: PictureSize,
    },
    /// The server is busy (503).
    Busy {
        /// The `Retry-After` to send.
        seconds: u32,
    },
    /// Nothing (404).
    Missing,
}

/// A web held in memory: files by host and path, and the two tables.
#[derive(Debug, Clone, Default)]
pub struct MemoryTree {
    files: HashMap<(String, String), (String, Bytes)>,
    hosts: HashSet<String>,
    redirects: HashMap<String, String>,
    images: HashMap<String, PictureSize>,
}

impl MemoryTree {
    /// Adds a file; `path` begins with `/` and is percent-decoded, and one that
    /// ends in `/` is stored as that folder's `index.html`. The content type
    /// follows from the path and the bytes, as for a file on disk.
    pub fn insert(&mut self, host: &str, path: &str, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        let path = with_index(path);
        let content_type = content_type(&path, &bytes);
        self.insert_as(host, &path, &content_type, bytes);
    }

    /// Adds a file with a given content type.
    pub fn insert_as(
        &mut self,
        host: &str,
        path: &str,
        content_type: &str,
        bytes: impl Into<Bytes>,
    ) {
        let host = host.to_ascii_lowercase();
        self.hosts.insert(host.clone());
        self.files.insert(
            (host, with_index(path)),
            (content_type.to_owned(), bytes.into()),
        );
    }

    /// Adds a redirect; false if `url` is not an address.
    pub fn redirect(&mut self, url: &str, location: &str) -> bool {
        key_of(url).is_some_and(|key| {
            self.redirects.insert(key, location.to_owned());
            true
        })
    }

    /// Adds a picture to be drawn; false if `url` is not an address.
    pub fn image(&mut self, url: &str, width: u32, height: u32) -> bool {
        key_of(url).is_some_and(|key| {
            self.images.insert(key, PictureSize { width, height });
            true
        })
    }
}

/// A web that can be served: a tree with its tables, and the behaviours that a test
/// requests.
pub struct Lab {
    source: TreeSource,
    redirects: HashMap<String, String>,
    images: HashMap<String, PictureSize>,
    pub(super) behaviours: Vec<Behaviour>,
    pub(super) observer: Option<Observer>,
    /// Whether text is compressed for clients that accept gzip.
    pub(super) compresses: bool,
}

enum TreeSource {
    Folder(PathBuf),
    Memory(MemoryTree),
    Made(Box<Maker>),
}

/// Computes the response of a host and a target (path and query as in a request line).
type Maker = dyn Fn(&str, &str) -> LabResponse + Send + Sync;

impl Lab {
    /// Opens the folder tree `dir`, with `redirects.tsv` (url, location) and `images.tsv` (url,
    /// width, height, kind, on_disk, ...) if present.
    ///
    /// The tables have a header row, tabs between columns and no quoting. No page is read before it
    /// is requested, so the tree may have any size.
    ///
    /// # Errors
    /// [`LabError::Io`] if `dir` or a table cannot be read,
    /// [`LabError::Table`] for a row that makes no sense.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, LabError> {
        let dir = dir.as_ref();
        let root = fs::canonicalize(dir)
            .and_then(|root| fs::read_dir(&root).map(|_| root))
            .map_err(|source| LabError::Io {
                path: dir.to_owned(),
                source,
            })?;
        let mut redirects = HashMap::new();
        read_table(&root.join("redirects.tsv"), |columns| {
            let (url, location) = match columns {
                [url, location, ..] => (*url, *location),
                _ => return Err("two columns are expected: url, location".to_owned()),
            };
            redirects.insert(address(url)?, location.to_owned());
            Ok(())
        })?;
        let mut images = HashMap::new();
        read_table(&root.join("images.tsv"), |columns| {
            let (url, width, height) = match columns {
                [url, width, height, ..] => (*url, *width, *height),
                _ => return Err("columns url, width, height are expected".to_owned()),
            };
            // A picture with its own bytes is a file like any other.
            if columns.get(4) == Some(&"1") {
                return Ok(());
            }
            let size = PictureSize {
                width: pixels(width)?,
                height: pixels(height)?,
            };
            images.insert(address(url)?, size);
            Ok(())
        })?;
        Ok(Self {
            source: TreeSource::Folder(root),
            redirects,
            images,
            behaviours: Vec::new(),
            observer: None,
            compresses: false,
        })
    }

    /// Makes a lab of a web in memory.
    pub fn from_memory(mut tree: MemoryTree) -> Self {
        Self {
            redirects: std::mem::take(&mut tree.redirects),
            images: std::mem::take(&mut tree.images),
            source: TreeSource::Memory(tree),
            behaviours: Vec::new(),
            observer: None,
            compresses: false,
        }
    }

    /// Makes a lab that computes every answer on request, from host (lower case, without port) and
    /// target (path and query): an endless web.
    pub fn made(maker: impl Fn(&str, &str) -> LabResponse + Send + Sync + 'static) -> Self {
        Self {
            source: TreeSource::Made(Box::new(maker)),
            redirects: HashMap::new(),
            images: HashMap::new(),
            behaviours: Vec::new(),
            observer: None,
            compresses: false,
        }
    }

    /// Calls `observer` once for every request, after it was answered.
    pub fn with_observer(mut self, observer: Arc<dyn Fn(Request) + Send + Sync>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Compresses text for clients that accept gzip, as most servers do.
    pub fn compressed(mut self) -> Self {
        self.compresses = true;
        self
    }

    /// Adds a behaviour; the first one that matches a request and is not used up applies.
    pub fn with_behaviour(mut self, behaviour: Behaviour) -> Self {
        self.behaviours.push(behaviour);
        self
    }

    /// The content of `target` (path and query as in a request line) at `host` (lower case, without
    /// port). Reads the disk if the tree is a folder.
    ///
    /// Redirects and pictures are looked up with the query first and then
    /// without; files always without.
    ///
    /// # Errors
    /// The system's error about an existing file that cannot be read.
    pub fn answer(&self, host: &str, target: &str) -> io::Result<LabResponse> {
        match self.table(host, target) {
            Some(answer) => Ok(answer),
            None => self.file(host, target),
        }
    }

    /// True if answering reads the disk.
    pub(super) fn reads_disk(&self) -> bool {
        matches!(self.source, TreeSource::Folder(_))
    }

    /// Redirects and pictures: answered without touching the disk.
    pub(super) fn table(&self, host: &str, target: &str) -> Option<LabResponse> {
        let url = PageUrl::parse(&format!("http://{host}{target}")).ok()?;
        let full = key(&url);
        let bare = full.split_once('?').map(|(bare, _)| bare);
        for key in std::iter::once(full.as_str()).chain(bare) {
            if let Some(location) = self.redirects.get(key) {
                return Some(LabResponse::Moved {
                    location: location.clone(),
                });
            }
            if let Some(size) = self.images.get(key) {
                return Some(LabResponse::Picture {
                    url: format!("http://{key}"),
                    size: *size,
                });
            }
        }
        None
    }

    /// The file at `target`, ignoring the query; or the computed content.
    pub(super) fn file(&self, host: &str, target: &str) -> io::Result<LabResponse> {
        if let TreeSource::Made(maker) = &self.source {
            return Ok(maker(host, target));
        }
        let raw = target.split_once('?').map_or(target, |(path, _)| path);
        let Some(path) = decoded(raw).map(|path| with_index(&path)) else {
            return Ok(LabResponse::Missing);
        };
        match &self.source {
            TreeSource::Made(_) => Ok(LabResponse::Missing),
            TreeSource::Memory(tree) => {
                let found = tree.files.get(&(host.to_owned(), path));
                Ok(found.map_or(LabResponse::Missing, |(content_type, bytes)| {
                    LabResponse::File {
                        content_type: content_type.clone(),
                        bytes: bytes.clone(),
                    }
                }))
            }
            TreeSource::Folder(root) => Ok(match read_inside(root, host, &path)? {
                Some(bytes) => LabResponse::File {
                    content_type: content_type(&path, &bytes),
                    bytes: bytes.into(),
                },
                None => LabResponse::Missing,
            }),
        }
    }
}

/// Reads `path` of `host`; `None` if there is no such file, or if it is outside the host's folder,
/// even through a link.
fn read_inside(root: &Path, host: &str, path: &str) -> io::Result<Option<Vec<u8>>> {
    let mut file = root.to_owned();
    for segment in std::iter::once(host).chain(path.trim_start_matches('/').split('/')) {
        // Each segment must be one plain name: not `..`, `.` or empty, and without a separator or a
        // drive after decoding.
        let mut parts = Path::new(segment).components();
        match (parts.next(), parts.next()) {
            (Some(Component::Normal(name)), None) if name == segment => file.push(name),
            _ => return Ok(None),
        }
    }
    let read = || -> io::Result<Option<Vec<u8>>> {
        let folder = fs::canonicalize(root.join(host))?;
        let file = fs::canonicalize(&file)?;
        if !folder.starts_with(root) || folder == *root || !file.starts_with(&folder) {
            return Ok(None);
        }
        if !fs::metadata(&file)?.is_file() {
            return Ok(None);
        }
        crate::fs::read(&file).map(Some)
    };
    read().or_else(|error| match error.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::InvalidFilename
        | io::ErrorKind::InvalidInput => Ok(None),
        _ => Err(error),
    })
}

/// The content type by extension. A page that declares a charset other than UTF-8 is sent without
/// one, because the header would override it.
fn content_type(path: &str, bytes: &[u8]) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    let extension = name.rsplit_once('.').map_or("", |(_, e)| e);
    match extension.to_ascii_lowercase().as_str() {
        "html" | "htm" if declares_legacy_charset(bytes) => "text/html",
        "html" | "htm" => "text/html; charset=utf-8",
        "txt" => "text/plain; charset=utf-8",
        "xml" => "application/xml",
        "css" => "text/css; charset=utf-8",
        other => super::picture::content_type(other).unwrap_or("application/octet-stream"),
    }
    .to_owned()
}

/// Whether the first 1,024 bytes, where HTML wants the declaration (WHATWG HTML
/// section 4.2.5.4), name a charset other than UTF-8.
fn declares_legacy_charset(bytes: &[u8]) -> bool {
    let head = bytes.get(..1024).unwrap_or(bytes).to_ascii_lowercase();
    let needle = b"charset=";
    head.windows(needle.len())
        .position(|window| window == needle)
        .is_some_and(|at| {
            let value = head.get(at + needle.len()..).unwrap_or_default();
            let value = value.trim_ascii_start();
            let value = value.strip_prefix(b"\"").unwrap_or(value);
            !(value.starts_with(b"utf-8") || value.starts_with(b"utf8"))
        })
}

fn with_index(path: &str) -> String {
    if path.ends_with('/') {
        format!("{path}index.html")
    } else {
        path.to_owned()
    }
}

/// Percent-decodes a path; `None` if the result is not UTF-8.
fn decoded(path: &str) -> Option<String> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let pair = (byte == b'%').then(|| tail.split_at_checked(2)).flatten();
        let value = pair.and_then(|(digits, after)| {
            let digits = std::str::from_utf8(digits).ok()?;
            // `from_str_radix` would accept a sign as well.
            if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                return None;
            }
            Some((u8::from_str_radix(digits, 16).ok()?, after))
        });
        match value {
            Some((value, after)) => {
                out.push(value);
                rest = after;
            }
            None => {
                out.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8(out).ok()
}

/// The address without its scheme and port, which is the key of the tables.
fn key(url: &PageUrl) -> String {
    format!("{}{}", url.host(), url.path_and_query())
}

fn key_of(url: &str) -> Option<String> {
    PageUrl::parse(url).ok().map(|url| key(&url))
}

fn address(url: &str) -> Result<String, String> {
    PageUrl::parse(url)
        .map(|url| key(&url))
        .map_err(|e| e.to_string())
}

fn pixels(text: &str) -> Result<u32, String> {
    text.trim()
        .parse()
        .map_err(|_| format!("`{text}` is not a number of pixels"))
}

/// Calls `row` with the columns of every line after the header; an absent table
/// has no rows.
pub(super) fn read_table(
    path: &Path,
    mut row: impl FnMut(&[&str]) -> Result<(), String>,
) -> Result<(), LabError> {
    let text = match crate::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => {
            return Err(LabError::Io {
                path: path.to_owned(),
                source,
            });
        }
    };
    for (i, line) in text.lines().enumerate().skip(1) {
        if line.is_empty() {
            continue;
        }
        let columns: Vec<&str> = line.split('\t').collect();
        row(&columns).map_err(|what| LabError::Table {
            path: path.to_owned(),
            line: i + 1,
            what,
        })?;
    }
    Ok(())
}
