//! Finds captures in any sources: through an index if there is one, else by reading the files.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::cdxj::CdxjLine;
use super::gap;
use super::index::{each_line, name_beside};
use super::lookup::each_capture;
use super::lookup::shelf::{AnyShelf, Folder};
use super::lookup::stored::{self, Source as Stored};
use super::lookup::wacz;
use super::reader::RecordEntry;
use super::revisit::{Original, is_of_nothing, original};
use super::select::Selection;
use crate::fs::IoError;
use crate::progress::Step;
use crate::tool_error::{ToolError, ToolFault};

/// The most lines of one file that wait while those of the previous files are passed on.
const WAITING: usize = 10_000;

/// A place to search for captures.
#[derive(Clone)]
pub enum Source {
    /// An index, and the place of the files that it names.
    Index {
        /// Where the index is.
        shelf: AnyShelf,
        /// Its name there.
        name: String,
        /// Where the files are.
        archives: AnyShelf,
    },
    /// A file without an index.
    File(PathBuf),
}

/// A capture, and the place of the file that contains it.
#[derive(Clone)]
pub struct Capture {
    /// The line of the index.
    pub line: CdxjLine,
    /// Where its file is.
    pub archives: AnyShelf,
}

impl Source {
    fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Index { .. } => None,
        }
    }

    /// A file, through the index beside it if that is not older.
    pub fn of_file(path: &Path) -> Self {
        let folder = folder_of(path);
        let index = name_beside(&path.file_name().unwrap_or_default().to_string_lossy());
        let changed = |path: &Path| path.metadata().and_then(|about| about.modified());
        let is_current = match (changed(&folder.join(&index)), changed(path)) {
            (Ok(index), Ok(file)) => index >= file,
            _ => false,
        };
        if !is_current {
            return Self::File(path.to_owned());
        }
        through_index(&folder.join(index), &folder)
    }
}

/// The captures of an index on this machine, with the files in a folder.
pub fn through_index(index: &Path, archives: &Path) -> Source {
    let name = index.file_name().unwrap_or_default();
    Source::Index {
        shelf: Arc::new(Folder(folder_of(index))),
        name: name.to_string_lossy().into_owned(),
        archives: Arc::new(Folder(archives.to_owned())),
    }
}

/// The captures of a WACZ.
///
/// # Errors
///
/// [`ToolError`] names the file.
pub fn in_wacz(outer: AnyShelf, name: &str) -> Result<Source, ToolError> {
    let (indexes, name, archives) = wacz::open(outer, name)?;
    Ok(Source::Index {
        shelf: Arc::new(indexes),
        name,
        archives: Arc::new(archives),
    })
}

/// The folder of a file.
pub(super) fn folder_of(file: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).to_owned()
}

impl Capture {
    /// Calls `each` with its record.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if no record can be read there, or the error of `each`.
    pub fn read<T>(
        &self,
        each: impl FnOnce(&mut RecordEntry<'_, Stored<'_>>) -> Result<T, ToolError>,
    ) -> Result<T, ToolError> {
        let (file, place) = self.place()?;
        let mut parts = self.archives.open(file)?;
        let none = || {
            let (url, offset) = (&self.line.url, place.offset);
            let none = ToolError::new(format_args!(
                "{file}: no record of {url} can be read at byte {offset}; make the index again, \
                 or look for damage with `spoor archive check`"
            ));
            none.as_fault(ToolFault::Missing)
        };
        let read = stored::at(parts.as_mut(), place, each)?;
        read.ok_or_else(none)
    }

    /// The name of its file, and the place of the record in it.
    ///
    /// # Errors
    ///
    /// [`ToolError`].
    pub fn place(&self) -> Result<(&str, gap::RecordSpan), ToolError> {
        let CdxjLine {
            filename, place, ..
        } = &self.line;
        match (filename, place) {
            (Some(file), Some(place)) => Ok((file, *place)),
            _ => Err(ToolError::new(format_args!(
                "the index does not say where the capture of {} at {} lies",
                self.line.url, self.line.time
            ))),
        }
    }
}

/// The capture with the contents of a revisit; `None` if there is none.
///
/// # Errors
///
/// [`ToolError`] if the sources cannot be searched.
pub fn contents_of(sources: &[Source], revisit: &Capture) -> Result<Option<Capture>, ToolError> {
    let named = revisit.read(|entry| Ok(original(&entry.record)));
    let named = match named {
        Ok(named) => named,
        // The record itself is damaged, which is reported when it is copied.
        Err(error) if error.fault() == ToolFault::Missing => Original::default(),
        Err(error) => return Err(error),
    };
    let uri = named.uri.as_deref().unwrap_or(&revisit.line.url);
    let mut wanted = Selection::default();
    wanted.url(uri);
    // Indexes contain only the digits of a date.
    let digits = |date: &String| date.chars().filter(char::is_ascii_digit).take(14).collect();
    let time: Option<String> = named.date.as_ref().map(digits);
    let digest = revisit.line.bare_digest();
    let digest = digest.filter(|digest| !is_of_nothing(digest));
    // A revisit that names nothing confirms the previous capture.
    let is_unmodified = named.is_unmodified || (digest.is_none() && time.is_none());
    let mut best: Option<(u8, Capture)> = None;
    each(sources, &wanted, &mut |capture: Capture| {
        let line = &capture.line;
        let is_dated = time.as_ref() == Some(&line.time) && line.url == uri;
        let is_alike = digest.is_some() && line.bare_digest() == digest;
        let is_before = is_unmodified && line.url == uri && line.time <= revisit.line.time;
        let fit = u8::from(is_before) + 2 * u8::from(is_alike) + 4 * u8::from(is_dated);
        let is_better = best.as_ref().map_or(fit > 0, |(best_fit, best)| {
            fit > *best_fit || (fit == 1 && *best_fit == 1 && line.time > best.line.time)
        });
        if !line.is_revisit() && line.status.as_deref() != Some("304") && is_better {
            best = Some((fit, capture));
        }
        Ok(true)
    })?;
    Ok(best.map(|(_, capture)| capture))
}

/// Calls `each` with the captures that are wanted until it returns false: source by source,
/// those of an index in its order, those of a file in the order of the file. Files are read
/// on all cores.
///
/// # Errors
///
/// [`ToolError`] names the file, or the error of `each`.
pub fn each(
    sources: &[Source],
    wanted: &Selection,
    each: &mut dyn FnMut(Capture) -> Result<bool, ToolError>,
) -> Result<(), ToolError> {
    let mut number = 0;
    while let Some(first) = sources.get(number) {
        let rest = sources.get(number..).unwrap_or_default();
        let files: Vec<&Path> = rest.iter().map_while(Source::file).collect();
        let mut handed = |line, archives: &AnyShelf| {
            each(Capture {
                line,
                archives: archives.clone(),
            })
        };
        let goes_on = match first {
            Source::Index {
                shelf,
                name,
                archives,
            } => each_capture(shelf.as_ref(), name, wanted, &mut |line| {
                handed(line, archives)
            })?,
            Source::File(_) => in_files(&files, wanted, &mut handed)?,
        };
        if !goes_on {
            break;
        }
        number += files.len().max(1);
    }
    Ok(())
}

/// Receives a line, and the place of its file.
type Handed<'h> = dyn FnMut(CdxjLine, &AnyShelf) -> Result<bool, ToolError> + 'h;

/// A message from the thread that reads a file.
type FileMessage = Result<CdxjLine, ToolError>;

fn in_files(files: &[&Path], wanted: &Selection, each: &mut Handed<'_>) -> Result<bool, ToolError> {
    let mut bytes = 0;
    for file in files {
        let about = file.metadata().map_err(IoError::at(file, "opening"));
        bytes += about?.len();
    }
    let step = Mutex::new(Step::begin("bytes searched", Some(bytes)));
    let (senders, receivers): (Vec<_>, Vec<_>) = files
        .iter()
        .map(|_| sync_channel::<FileMessage>(WAITING))
        .map(|(sender, receiver)| (Mutex::new(Some(sender)), receiver))
        .unzip();
    let next = AtomicUsize::new(0);
    let is_enough = AtomicBool::new(false);
    let work = || {
        loop {
            // In the order of the files, so that all previous ones are done or being read.
            let at = next.fetch_add(1, Ordering::Relaxed);
            let (Some(file), Some(sender)) = (files.get(at), senders.get(at)) else {
                return;
            };
            let Some(sender) = lock(sender).take() else {
                return;
            };
            let progress = |more| lock(&step).advance(more);
            if let Err(error) = search(file, wanted, &sender, &is_enough, progress) {
                // The error is not received if the caller has enough.
                sender.send(Err(error)).ok();
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(files.len()) {
            scope.spawn(work);
        }
        let ended = hand_out(files, receivers, each);
        is_enough.store(true, Ordering::Relaxed);
        next.store(files.len(), Ordering::Relaxed);
        ended
    })
}

fn hand_out(
    files: &[&Path],
    receivers: Vec<Receiver<FileMessage>>,
    each: &mut Handed<'_>,
) -> Result<bool, ToolError> {
    for (file, receiver) in files.iter().zip(receivers) {
        let archives: AnyShelf = Arc::new(Folder(folder_of(file)));
        for line in receiver {
            if !each(line?, &archives)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn search(
    file: &Path,
    wanted: &Selection,
    to: &SyncSender<FileMessage>,
    is_enough: &AtomicBool,
    progress: impl FnMut(u64),
) -> Result<(), ToolError> {
    let opened = crate::fs::open(file).map_err(IoError::at(file, "opening"))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    each_line(opened, file, &name, progress, |line| {
        let goes_on = !is_enough.load(Ordering::Relaxed);
        // If the caller has enough, the line is not received.
        Ok(goes_on && (!wanted.takes(&line) || to.send(Ok(line)).is_ok()))
    })?;
    Ok(())
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
