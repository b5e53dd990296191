//! WACZ 1.1.1: archives with their index and a list of their pages in one ZIP, which players
//! read in parts without unpacking (<https://specs.webrecorder.net/wacz/1.1.1/>).
//!
//! Everything is stored without compression, because the archives are already compressed.
//! Prepared parts are kept in a folder beside the output until that is complete.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::cdxj::CdxjLine;
use super::find::{self, Capture, Source};
use super::http::Response;
use super::index::{self, Runs, hex, merge};
use super::lookup::shelf::{Files, Folder};
use super::select::Selection;
use crate::clock::{now, timestamp};
use crate::fs::IoError;
use crate::progress::Step;
use crate::tool_error::{ToolError, ToolFault};

/// The version of the format.
const VERSION: &str = "1.1.1";
/// The most bytes of a page from which its title and text are taken.
const CAP: usize = 10 << 20;
/// The number of captures that a thread takes at a time.
const TAKEN: usize = 64;

/// The description of a page in the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Its title.
    pub title: Option<String>,
    /// Its text, which players search.
    pub text: Option<String>,
}

/// The metadata of a WACZ.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// A title.
    pub title: Option<String>,
    /// A description.
    pub description: Option<String>,
    /// The page that a player opens first.
    pub main: Option<String>,
    /// Whether pages come with their text.
    pub with_text: bool,
    /// The program, as `spoor 0.1.0`.
    pub software: String,
}

/// The contents of a WACZ.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Packed {
    /// The archives.
    pub files: u64,
    /// The lines of the index.
    pub captures: u64,
    /// The pages of the list.
    pub pages: u64,
    /// The length in bytes.
    pub bytes: u64,
    /// Gaps in the archives; `spoor archive check` lists them.
    pub gaps: u64,
}

/// A line of the list of pages.
#[derive(Serialize)]
struct PageListLine<'l> {
    id: String,
    url: &'l str,
    ts: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// A part of the package, for its description.
#[derive(Debug, Serialize)]
struct Resource {
    name: String,
    path: String,
    hash: String,
    bytes: u64,
}

/// Packs WARC files. `page` returns the title of an HTML page, and is called on all cores. A
/// killed run continues with the parts that it had prepared.
///
/// # Errors
///
/// [`ToolError`].
pub fn pack(
    files: &[PathBuf],
    output: &Path,
    about: &About,
    page: &(dyn Fn(&str, Response) -> Page + Sync),
) -> Result<Packed, ToolError> {
    let names = names_of(files)?;
    let mut folder = output.as_os_str().to_owned();
    folder.push(".parts");
    let folder = PathBuf::from(folder);
    std::fs::create_dir_all(&folder).map_err(IoError::at(&folder, "making the folder"))?;
    let index = folder.join("index.cdxj");
    let indexed = index::index(files, &index)?;
    let list = folder.join("pages.jsonl");
    let pages = PageList {
        files,
        folder: &folder,
        about,
        page,
    };
    let (listed, main) = pages.write(&index, &list)?;
    let mut zip = Package::create(output)?;
    let file = crate::fs::open(&index).map_err(IoError::at(&index, "opening"))?;
    zip.index(file)?;
    zip.add("pages/pages.jsonl", &list, &mut |_| ())?;
    let sizes = files
        .iter()
        .map(|file| file.metadata().map(|about| about.len()));
    let mut step = Step::begin("bytes packed", Some(sizes.flatten().sum()));
    for (file, name) in files.iter().zip(&names) {
        zip.add(&format!("archive/{name}"), file, &mut |n| step.advance(n))?;
    }
    drop(step);
    let bytes = zip.finish(about, main)?;
    std::fs::remove_dir_all(&folder).map_err(IoError::at(&folder, "removing"))?;
    Ok(Packed {
        files: files.len() as u64,
        captures: indexed.lines,
        pages: listed,
        bytes,
        gaps: indexed.gaps,
    })
}

fn names_of(files: &[PathBuf]) -> Result<Vec<String>, ToolError> {
    let mut names: Vec<String> = Vec::new();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if !name.ends_with(".warc") && !name.ends_with(".warc.gz") {
            let why = "a WACZ takes files named *.warc or *.warc.gz; leave this one out, or \
                       convert it, an ARC by `warcio recompress`";
            return Err(ToolError::at(file, why));
        }
        if names.iter().any(|known| *known == name) {
            return Err(ToolError::new(format_args!(
                "two files are named {name}; rename one of them"
            )));
        }
        names.push(name.into_owned());
    }
    Ok(names)
}

/// The main page: its address and time.
type Main = Option<(String, String)>;

/// Makes the list of pages.
struct PageList<'p> {
    files: &'p [PathBuf],
    folder: &'p Path,
    about: &'p About,
    page: &'p (dyn Fn(&str, Response) -> Page + Sync),
}

impl PageList<'_> {
    /// Writes the list in the order of time; returns how many there are, and the main one.
    fn write(&self, index: &Path, list: &Path) -> Result<(u64, Main), ToolError> {
        let mut wanted = Selection::default();
        wanted.mime("text/html");
        wanted.mime("application/xhtml+xml");
        // The status is known to be one.
        wanted.status("200").ok();
        let (lines, captures) = sync_channel::<Vec<Capture>>(4);
        let captures = Mutex::new(captures);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (number, main) = self.look(index, &wanted)?;
        let step = Mutex::new(Step::begin("pages listed", Some(number)));
        let work = |number: usize| {
            let mut runs = Runs::new(self.folder.join(format!("pages-{number}")));
            loop {
                let next = captures
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .recv();
                let Ok(some) = next else {
                    return Ok::<_, ToolError>(runs.finish()?);
                };
                for capture in some {
                    if let Some(line) = self.line(&capture)? {
                        runs.add(format!("{} {line}", capture.line.time))?;
                    }
                    step.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .advance(1);
                }
            }
        };
        let runs = std::thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> = (0..cores).map(|n| scope.spawn(move || work(n))).collect();
            let handed = self.hand_out(index, &wanted, &lines);
            drop(lines);
            let mut runs = Vec::new();
            for thread in threads {
                let own = thread.join();
                runs.extend(own.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
            }
            handed.map(|()| runs)
        })?;
        drop(step);
        let sorted = self.folder.join("pages.sorted");
        let created = File::create(&sorted).map_err(IoError::at(&sorted, "creating"))?;
        let mut out = BufWriter::new(created);
        let listed = merge(runs, self.folder, &mut out)?;
        out.flush().map_err(IoError::at(&sorted, "writing"))?;
        self.without_times(&sorted, list)
            .map_err(IoError::at(list, "writing"))?;
        Ok((listed, main))
    }

    fn source(&self, index: &Path) -> Source {
        let name = index.file_name().unwrap_or_default();
        Source::Index {
            shelf: Arc::new(Folder(self.folder.to_owned())),
            name: name.to_string_lossy().into_owned(),
            archives: Arc::new(Files::of(self.files)),
        }
    }

    /// Counts the pages and looks for the main one, before any page is read: reading takes
    /// long, and a wrong main page is reported at once.
    fn look(&self, index: &Path, wanted: &Selection) -> Result<(u64, Main), ToolError> {
        let (mut number, mut main) = (0, None);
        find::each(&[self.source(index)], wanted, &mut |capture: Capture| {
            let CdxjLine { url, time, .. } = capture.line;
            number += 1;
            if self.about.main.as_ref() == Some(&url) {
                main = Some((url, time));
            }
            Ok(true)
        })?;
        match &self.about.main {
            Some(url) if main.is_none() => Err(ToolError::new(format_args!(
                "the archives have no page {url}, so it cannot be the main page; `spoor archive \
                 list --url` shows what they have of it"
            ))),
            _ => Ok((number, main)),
        }
    }

    /// Passes all pages to the threads.
    fn hand_out(
        &self,
        index: &Path,
        wanted: &Selection,
        to: &SyncSender<Vec<Capture>>,
    ) -> Result<(), ToolError> {
        let mut some = Vec::new();
        find::each(&[self.source(index)], wanted, &mut |capture: Capture| {
            some.push(capture);
            if some.len() < TAKEN {
                return Ok(true);
            }
            // They end early only with an error, which they return.
            Ok(to.send(std::mem::take(&mut some)).is_ok())
        })?;
        to.send(some).ok();
        Ok(())
    }

    /// The line of a page, without its end. A page that is damaged is in the list without a
    /// title.
    fn line(&self, capture: &Capture) -> Result<Option<String>, ToolError> {
        let CdxjLine { url, time, .. } = &capture.line;
        let response = capture.read(|entry| Ok(Response::read(&mut *entry, CAP).ok()));
        let response = match response {
            Ok(response) => response,
            Err(error) if error.fault() == ToolFault::Missing => None,
            Err(error) => return Err(error),
        };
        let Page { title, text } = response.map_or_else(Page::default, |r| (self.page)(url, r));
        let id = Sha256::digest(format!("{time} {url}").as_bytes());
        let listed = PageListLine {
            id: hex(id.get(..12).unwrap_or_default()),
            url,
            ts: with_dashes(time),
            title,
            text: text.filter(|_| self.about.with_text),
        };
        // Texts always serialise.
        Ok(serde_json::to_string(&listed).ok())
    }

    /// Writes the list without the times that it was sorted by.
    fn without_times(&self, sorted: &Path, list: &Path) -> io::Result<()> {
        let mut out = BufWriter::new(File::create(list)?);
        let head = json!({
            "format": "json-pages-1.0",
            "id": "pages",
            "title": "All pages",
            "hasText": self.about.with_text,
        });
        writeln!(out, "{head}")?;
        for line in BufReader::new(crate::fs::open(sorted)?).lines() {
            let line = line?;
            writeln!(out, "{}", line.split_once(' ').unwrap_or(("", &line)).1)?;
        }
        out.flush()
    }
}

/// `20260102030405` as `2026-01-02T03:04:05Z`.
fn with_dashes(time: &str) -> String {
    let part = |from: usize, to: usize| time.get(from..to).unwrap_or("00");
    format!(
        "{}-{}-{}T{}:{}:{}Z",
        part(0, 4),
        part(4, 6),
        part(6, 8),
        part(8, 10),
        part(10, 12),
        part(12, 14)
    )
}

/// The ZIP, and its contents so far.
struct Package {
    path: PathBuf,
    part: PathBuf,
    zip: ZipWriter<File>,
    resources: Vec<Resource>,
}

impl Package {
    fn create(path: &Path) -> Result<Self, ToolError> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = File::create(&part).map_err(IoError::at(&part, "creating"))?;
        Ok(Self {
            path: path.to_owned(),
            part,
            zip: ZipWriter::new(file),
            resources: Vec::new(),
        })
    }

    fn begin(&mut self, path: &str) -> Result<(), ToolError> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(true);
        let begun = self.zip.start_file(path, options);
        begun.map_err(not_zipped(&self.part))
    }

    /// Adds a file.
    fn add(
        &mut self,
        path: &str,
        file: &Path,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), ToolError> {
        let mut from = crate::fs::open(file).map_err(IoError::at(file, "opening"))?;
        self.begin(path)?;
        let mut digest = Sha256::new();
        let mut bytes = 0;
        let mut buffer = vec![0; 256 << 10];
        loop {
            let n = from.read(&mut buffer);
            let n = n.map_err(IoError::at(file, "reading"))?;
            if n == 0 {
                break;
            }
            let piece = buffer.get(..n).unwrap_or_default();
            digest.update(piece);
            self.zip
                .write_all(piece)
                .map_err(IoError::at(&self.part, "writing"))?;
            bytes += n as u64;
            progress(n as u64);
        }
        self.describe(path, &digest.finalize(), bytes);
        Ok(())
    }

    fn describe(&mut self, path: &str, digest: &[u8], bytes: u64) {
        let name = Path::new(path).file_name().unwrap_or_default();
        self.resources.push(Resource {
            name: name.to_string_lossy().to_lowercase(),
            path: path.to_owned(),
            hash: format!("sha256:{}", hex(digest)),
            bytes,
        });
    }

    /// Adds a text.
    fn text(&mut self, path: &str, text: &[u8]) -> Result<(), ToolError> {
        self.begin(path)?;
        self.zip
            .write_all(text)
            .map_err(IoError::at(&self.part, "writing"))?;
        self.describe(path, &Sha256::digest(text), text.len() as u64);
        Ok(())
    }

    /// Adds the index as blocks, and the small index of these.
    fn index(&mut self, mut lines: File) -> Result<(), ToolError> {
        self.begin("indexes/index.cdx.gz")?;
        let counted = CountedWriter {
            to: &mut self.zip,
            digest: Sha256::new(),
            bytes: 0,
        };
        let written = index::in_blocks(&mut lines, counted, Vec::new(), "index.cdx.gz");
        let (counted, small) = written.map_err(IoError::at(&self.part, "writing"))?;
        let (digest, bytes) = (counted.digest.finalize(), counted.bytes);
        self.describe("indexes/index.cdx.gz", &digest, bytes);
        self.text("indexes/index.idx", &small)
    }

    /// Adds the description, and returns the length of the whole.
    fn finish(mut self, about: &About, main: Main) -> Result<u64, ToolError> {
        let mut package = json!({
            "profile": "data-package",
            "wacz_version": VERSION,
            "software": about.software,
            "created": timestamp(now()),
            "resources": self.resources,
        });
        let (main, date) = main.map_or((None, None), |(url, time)| {
            (Some(url), Some(with_dashes(&time)))
        });
        let texts = [
            ("title", about.title.clone()),
            ("description", about.description.clone()),
            ("mainPageUrl", main),
            ("mainPageDate", date),
        ];
        for (name, value) in texts {
            if let (Some(value), Some(package)) = (value, package.as_object_mut()) {
                package.insert(name.to_owned(), value.into());
            }
        }
        let package = format!("{package:#}");
        self.text("datapackage.json", package.as_bytes())?;
        let digest = json!({
            "path": "datapackage.json",
            "hash": format!("sha256:{}", hex(&Sha256::digest(package.as_bytes()))),
        });
        self.text("datapackage-digest.json", format!("{digest:#}").as_bytes())?;
        let file = self.zip.finish().map_err(not_zipped(&self.part))?;
        let length = file.sync_all().and_then(|()| file.metadata());
        let length = length.map_err(IoError::at(&self.part, "writing"))?.len();
        let put = std::fs::rename(&self.part, &self.path);
        put.map_err(IoError::at(&self.path, "renaming to"))?;
        Ok(length)
    }
}

/// For `map_err`: the ZIP cannot be written.
fn not_zipped(file: &Path) -> impl FnOnce(ZipError) -> ToolError {
    move |error| ToolError::at(file, format_args!("writing the ZIP failed: {error}"))
}

/// Hashes and counts the written bytes.
struct CountedWriter<'c> {
    to: &'c mut ZipWriter<File>,
    digest: Sha256,
    bytes: u64,
}

impl Write for CountedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.to.write(bytes)?;
        self.digest.update(bytes.get(..n).unwrap_or_default());
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
