//! Documents: the main text of each page as its author wrote it, with the page's data.
//!
//! A page is one line of JSON in a file `documents/NNNNN.jsonl.zst`. Each line is a separate
//! zstd frame, so a crash cuts off whole lines, a page can be read alone by its position in
//! the log, and a takedown removes a page without decompressing the others.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::output::{Form, Output};
use super::pieces::{Rewritten, Taken};
use super::segments::Naming;
use super::{OutputError, TextPlace};
use crate::fs::tracked::Tracked;
use crate::fs::{IoError, beneath, packed};
use crate::page::Terms;
use crate::rules::FieldResult;
use crate::sanitize;

/// The documents as an output of a crawl.
pub(super) struct DocumentLines;

impl Output for DocumentLines {
    fn name(&self) -> &'static str {
        "documents"
    }

    fn form(&self) -> Form {
        Form::Pieces {
            folder: DOCUMENTS,
            naming: NAMING,
        }
    }

    /// A line contains the address of its page, so it is found even if the log has lost
    /// its row. Remaining lines no longer name removed pages.
    fn rewrite(
        &self,
        path: &Path,
        taken: &Taken<'_>,
        out: &mut dyn Write,
    ) -> Result<Rewritten, OutputError> {
        let mut segment = Segment::open(path.to_owned())?;
        let mut raw = beneath::open_at(path).map_err(IoError::at(path, "opening"))?;
        let mut done = Rewritten::default();
        // Data that was read but not decided on yet is copied unchanged.
        let mut settled = 0;
        loop {
            let (from, read) = match segment.frame(false) {
                Ok(None) => break,
                Ok(Some((from, text))) => (from, serde_json::from_slice::<Document>(&text).ok()),
                Err(OutputError::Document { at, .. }) => (at, None),
                Err(error) => return Err(error),
            };
            let bytes = segment.from.at() - from;
            done.copy(&mut raw, path, settled, from, out)?;
            settled = from + bytes;
            let read = match read {
                _ if taken.goes(from) => {
                    done.remove(from, bytes, None);
                    continue;
                }
                Some(document) if (taken.page)(&document.url) => {
                    done.remove(from, bytes, Some(&document.url));
                    continue;
                }
                Some(document) => document,
                None => {
                    done.unreadable += bytes;
                    done.copy(&mut raw, path, from, settled, out)?;
                    continue;
                }
            };
            match read.without(taken) {
                None => done.copy(&mut raw, path, from, settled, out)?,
                Some(changed) => {
                    let frame = changed
                        .to_frame()
                        .map_err(IoError::at(path, "compressing"))?;
                    out.write_all(&frame)
                        .map_err(IoError::at(path, "rewriting"))?;
                    done.replace(from, bytes, frame.len() as u64);
                }
            }
        }
        Ok(done)
    }
}

/// The folder of the documents, in a job's folder.
pub const DOCUMENTS: &str = "documents";

/// The suffix of its files.
const NAMING: Naming = Naming::Numbered(".jsonl.zst");

/// The longest line that is read, in bytes. A page's text has at most 2 MiB, and JSON
/// needs at most six bytes for one.
const MAX_LINE: u64 = if cfg!(test) { 1 << 20 } else { 64 << 20 };

/// A page and its main text. Keys are stable, and only added; absent values are left
/// out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Document")]
pub struct Document {
    /// The address that was fetched.
    #[schemars(url)]
    pub url: String,
    /// The canonical address that the page declares (`rel=canonical`), if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canonical: Option<String>,
    /// When the page was fetched, RFC 3339 in UTC.
    #[schemars(extend("format" = "date-time"))]
    pub fetched: String,
    /// When the page was published, as it states: ISO 8601, as precise as the page
    /// (`2024`, `2024-05`, `2024-05-17` or `2024-05-17T08:30:00+02:00`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,
    /// When the page was last changed, as it states, in the same form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<String>,
    /// Title of the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Names of the authors that the page gives, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authors: Vec<String>,
    /// The recognised language of the text, an ISO 639 code such as `en`. It is the best
    /// guess: see `language_certainty`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// How certain `language` is, from 0 to 1. The crawl itself acts on 0.9 and above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub language_certainty: Option<f64>,
    /// The language that the page declares, such as `en` or `de-at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared_language: Option<String>,
    /// The character encoding that the `Content-Type` header or the page declares, as
    /// written there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charset: Option<String>,
    /// The character encoding with which the page was decoded.
    pub charset_used: String,
    /// The media type that the server states, such as `text/html`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
    /// The extractor that separated the main text from the rest of the page: `main`,
    /// `density` or `all`. It is `all` if the configured one left too little.
    pub extractor: String,
    /// Control characters of the page other than white space. `text` has none of them.
    #[serde(default, skip_serializing_if = "super::log::is_zero")]
    pub controls_removed: u32,
    /// Words of `text`, excluding numbers.
    pub words: u32,
    /// The main text as written: case, digits and punctuation are kept. White space is
    /// folded, and an empty line separates two paragraphs. Formulas are TeX between dollars
    /// where the page has it; cells of a table row are separated by tabs.
    pub text: String,
    /// What each part of `text` is: `paragraph`, `heading1` to `heading6`, `item1` and
    /// `numbered1` (items of lists at that depth), `term`, `definition`, `table`, `code`,
    /// `quote`, `caption` or `formula`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub block_kinds: Vec<String>,
    /// Where these are in `text`: two numbers each, from and to, in characters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub block_offsets: Vec<u64>,
    /// The images in the main text, in its order: their addresses, whether they were kept or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_urls: Vec<String>,
    /// How many of the parts of `text` come before each of these images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_blocks: Vec<u64>,
    /// The probability that the page is about the topic, from 0 to 1. Absent if the crawl
    /// could not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub on_topic: Option<f64>,
    /// Perplexity of the page's text under the model of the topic; lower is closer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perplexity: Option<f64>,
    /// Mean contrast of the page's words between texts about the topic and others; above 0
    /// they indicate the topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contrast: Option<f64>,
    /// Licences that the page or its headers name: addresses, or names where no address
    /// is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub licences: Vec<String>,
    /// The terms of use that the page, its headers and its host state. Absent if there are
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<Terms>,
    /// `sha256:` and the SHA-256 of `text` in UTF-8, in hexadecimal digits.
    #[schemars(regex(pattern = "^sha256:[0-9a-f]{64}$"))]
    pub hash: String,
    /// Links from the nearest seed.
    pub hops: u32,
    /// The page on which the address was found. Absent for seeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// True if the page was drawn at random for the control sample.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub control: bool,
    /// The earlier line of the same address that this one replaces, if the page had
    /// changed at a later visit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<Replaced>,
    /// The earlier page that this one is a near copy of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near_copy_of: Option<String>,
    /// The rule of the job (`[rules]`) that was chosen for the page. Absent if there is
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What that rule found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldResult>,
}

/// An earlier line of a document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Replaced {
    /// When the page of that line was fetched, RFC 3339 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched: Option<String>,
    /// The `hash` of that line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

impl Document {
    /// The value of `hash` for a text.
    pub fn hash_of(text: &str) -> String {
        let digest = Sha256::digest(text.as_bytes());
        format!("sha256:{}", base16ct::lower::encode_string(&digest))
    }

    /// The document as one line of JSON, including its line end.
    pub fn to_line(&self) -> String {
        // Strings, lists and numbers always serialise.
        let line = serde_json::to_string(self).unwrap_or_default();
        let mut line = sanitize::json(&line).into_owned();
        line.push('\n');
        line
    }

    /// The line as a separate zstd frame.
    ///
    /// # Errors
    ///
    /// zstd is out of memory.
    pub fn to_frame(&self) -> std::io::Result<Vec<u8>> {
        packed::frame(self.to_line().as_bytes(), zstd::DEFAULT_COMPRESSION_LEVEL)
    }

    /// The document without the addresses that are `gone`; `None` if it names none.
    fn without(mut self, taken: &Taken<'_>) -> Option<Self> {
        let addresses = [&mut self.canonical, &mut self.via, &mut self.near_copy_of];
        let names_page = forget(addresses, taken.page);
        let names_image = forget_images(&mut self.image_urls, &mut self.image_blocks, taken.image);
        (names_page || names_image).then_some(self)
    }
}

/// Removes those of the addresses that are `gone`; returns whether there was one.
pub fn forget<const N: usize>(
    addresses: [&mut Option<String>; N],
    gone: &dyn Fn(&str) -> bool,
) -> bool {
    let mut named = false;
    for address in addresses {
        named |= address.take_if(|address| gone(address)).is_some();
    }
    named
}

/// Removes from the images of a text those whose address is `gone`. Returns whether there was one.
pub fn forget_images(
    urls: &mut Vec<String>,
    blocks: &mut Vec<u64>,
    gone: &dyn Fn(&str) -> bool,
) -> bool {
    if !urls.iter().any(|url| gone(url)) {
        return false;
    }
    let all = std::mem::take(urls).into_iter().zip(std::mem::take(blocks));
    (*urls, *blocks) = all.filter(|(url, _)| !gone(url)).unzip();
    true
}

/// Reads all documents of a job in the order they were crawled, one at a time. The crawl
/// may be running: a line that is being written is skipped. A job without documents yields
/// none.
///
/// A page that had changed at a later visit has several lines; the later ones name the lines
/// that they replace.
///
/// # Errors
///
/// [`OutputError::Io`] if the folder cannot be listed.
pub fn documents(folder: &Path) -> Result<Documents, OutputError> {
    let folder = folder.join(DOCUMENTS);
    let segments = if folder.is_dir() {
        NAMING.list(&folder)?
    } else {
        Vec::new()
    };
    let paths = segments.iter().map(|segment| folder.join(&segment.name));
    let files: VecDeque<PathBuf> = paths.collect();
    Ok(Documents {
        files,
        open: None,
        lines: VecDeque::new(),
        before: 0,
    })
}

/// The document at a position.
///
/// # Errors
///
/// [`OutputError`] names the file, even if there is no document at that position.
pub fn document_at(folder: &Path, place: &TextPlace) -> Result<Document, OutputError> {
    let path = folder.join(DOCUMENTS).join(&place.file);
    // The log may have been tampered with, and must not lead out of the folder.
    if NAMING.parse(&place.file).is_none() {
        let why = "not the name of a file of documents".to_owned();
        return Err(damaged(&path, place.from, why));
    }
    let mut file = beneath::open_at(&path).map_err(IoError::at(&path, "opening"))?;
    file.seek(SeekFrom::Start(place.from))
        .map_err(IoError::at(&path, "reading"))?;
    let wrong = |why: String| damaged(&path, place.from, why);
    let frame = BufReader::new(file.take(place.bytes));
    let text = packed::of_frame(frame, MAX_LINE).map_err(|e| wrong(e.to_string()))?;
    serde_json::from_slice(&text).map_err(|e| wrong(format!("not a document: {e}")))
}

/// The documents of a job. An item is an error if a line or a file is damaged; reading
/// continues after it.
#[derive(Debug)]
pub struct Documents {
    files: VecDeque<PathBuf>,
    open: Option<Segment>,
    /// Lines of the last frame that was read.
    lines: VecDeque<Result<Document, OutputError>>,
    /// Bytes of the files that were read to their ends.
    before: u64,
}

impl Documents {
    /// How many bytes of the files were read.
    pub fn read_bytes(&self) -> u64 {
        let open = self.open.as_ref().map_or(0, |open| open.from.at());
        self.before.saturating_add(open)
    }
}

impl Iterator for Documents {
    type Item = Result<Document, OutputError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(line);
            }
            let Some(open) = &mut self.open else {
                let path = self.files.pop_front()?;
                match Segment::open(path) {
                    Ok(segment) => self.open = Some(segment),
                    Err(error) => return Some(Err(error)),
                }
                continue;
            };
            match open.frame(self.files.is_empty()) {
                Ok(Some((from, text))) => {
                    let lines = text.split(|b| *b == b'\n').filter(|line| !line.is_empty());
                    let path = &open.path;
                    self.lines.extend(lines.map(|line| {
                        serde_json::from_slice(line)
                            .map_err(|e| damaged(path, from, format!("not a document: {e}")))
                    }));
                }
                Ok(None) => {
                    self.before = self.before.saturating_add(open.from.at());
                    self.open = None;
                }
                Err(error) => {
                    if matches!(error, OutputError::Io(_)) {
                        self.open = None;
                    }
                    return Some(Err(error));
                }
            }
        }
    }
}

/// A file that is read frame by frame.
#[derive(Debug)]
struct Segment {
    path: PathBuf,
    from: Tracked,
}

impl Segment {
    fn open(path: PathBuf) -> Result<Self, OutputError> {
        let file = beneath::open_at(&path).map_err(IoError::at(&path, "opening"))?;
        let from = Tracked::new(file, 0);
        Ok(Self { path, from })
    }

    /// The next frame with its position; `None` at the end of the file. The end of the
    /// last file may be incomplete.
    fn frame(&mut self, is_last: bool) -> Result<Option<(u64, Vec<u8>)>, OutputError> {
        let began = self.from.at();
        let is_end = self.from.fill_buf().map(<[u8]>::is_empty);
        if is_end.map_err(IoError::at(&self.path, "reading"))? {
            return Ok(None);
        }
        let why = match packed::of_frame(&mut self.from, MAX_LINE) {
            Ok(text) => return Ok(Some((began, text))),
            Err(error) => error,
        };
        // A frame followed by another one is not still being written.
        let more = self.from.find_frame_after(began);
        let more = more.map_err(IoError::at(&self.path, "reading"))?;
        if !more && is_last && why.kind() == ErrorKind::UnexpectedEof {
            tracing::warn!(
                "{} ends within a document, at byte {began}: a crawl is writing it, or it was cut \
                 off and the documents after that are missing",
                self.path.display()
            );
            return Ok(None);
        }
        Err(damaged(&self.path, began, why.to_string()))
    }
}

fn damaged(path: &Path, at: u64, why: String) -> OutputError {
    OutputError::Document {
        path: path.to_owned(),
        at,
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segments::Label;

    fn name(number: u32) -> String {
        NAMING.begin(number, &Label::default()).name
    }

    fn document(n: usize) -> Document {
        let text = format!("Lamp no. {n}, lit at 6:15 p.m.\n\n\"Fog,\" she said.");
        Document {
            url: format!("http://a.test/{n}"),
            fetched: "2026-01-02T03:04:05.678Z".to_owned(),
            charset_used: "UTF-8".to_owned(),
            extractor: "main".to_owned(),
            words: 8,
            hash: Document::hash_of(&text),
            text,
            ..Document::default()
        }
    }

    fn written(folder: &Path, number: u32, documents: &[Document]) -> Vec<Vec<u8>> {
        let frames: Vec<_> = documents.iter().map(|d| d.to_frame().unwrap()).collect();
        put(folder, number, &frames.concat());
        frames
    }

    fn put(folder: &Path, number: u32, bytes: &[u8]) {
        std::fs::create_dir_all(folder.join(DOCUMENTS)).unwrap();
        std::fs::write(folder.join(DOCUMENTS).join(name(number)), bytes).unwrap();
    }

    /// The numbers of the readable documents, and the messages for the others.
    fn read(folder: &Path) -> (Vec<usize>, Vec<String>) {
        let (mut numbers, mut errors) = (Vec::new(), Vec::new());
        for item in documents(folder).unwrap() {
            match item {
                Ok(found) => {
                    let number = found.url.rsplit('/').next().unwrap().parse().unwrap();
                    assert_eq!(found, document(number));
                    numbers.push(number);
                }
                Err(error) => errors.push(error.to_string()),
            }
        }
        (numbers, errors)
    }

    #[test]
    fn a_document_has_a_line_of_its_own_and_absent_values_are_left_out() {
        let line = document(7).to_line();
        assert!(line.ends_with("}\n") && line.matches('\n').count() == 1);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        let keys: Vec<_> = value.as_object().unwrap().keys().collect();
        let expected = [
            "charset_used",
            "extractor",
            "fetched",
            "hash",
            "hops",
            "text",
            "url",
            "words",
        ];
        let mut keys: Vec<&str> = keys.into_iter().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(keys, expected);
        assert_eq!(
            Document::hash_of("abc"),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn documents_come_in_the_order_crawled_over_all_files() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()), (vec![], vec![]));
        let all: Vec<_> = (0..6).map(document).collect();
        written(folder.path(), 0, &all[..2]);
        written(folder.path(), 1, &[]);
        written(folder.path(), 2, &all[2..5]);
        written(folder.path(), 11, &all[5..]);
        // Foreign files.
        let beside = folder.path().join(DOCUMENTS);
        std::fs::write(beside.join("7.jsonl.zst"), "mine").unwrap();
        std::fs::write(beside.join("00002.jsonl.zst.rewritten"), "mine").unwrap();
        assert_eq!(read(folder.path()), ((0..6).collect(), vec![]));
        // The usual tools, which do not know frames, can decompress it.
        let packed = std::fs::read(beside.join(name(2))).unwrap();
        let text = zstd::decode_all(packed.as_slice()).unwrap();
        let lines: String = all[2..5].iter().map(Document::to_line).collect();
        assert_eq!(String::from_utf8(text).unwrap(), lines);
        // And their files can be read.
        put(
            folder.path(),
            2,
            &zstd::encode_all(lines.as_bytes(), 3).unwrap(),
        );
        assert_eq!(read(folder.path()), ((0..6).collect(), vec![]));
    }

    #[test]
    fn a_line_that_is_being_written_is_passed_over_at_every_length() {
        let folder = tempfile::tempdir().unwrap();
        let all: Vec<_> = (0..3).map(document).collect();
        let frames = written(folder.path(), 0, &all);
        let before = frames[0].len() + frames[1].len();
        for cut in 0..=frames[2].len() {
            put(folder.path(), 0, &frames.concat()[..before + cut]);
            let whole = 2 + usize::from(cut == frames[2].len());
            assert_eq!(read(folder.path()), ((0..whole).collect(), vec![]), "{cut}");
        }
    }

    #[test]
    fn what_is_damaged_is_named_and_what_follows_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let all: Vec<_> = (0..3).map(document).collect();
        let frames = written(folder.path(), 0, &all);
        let from = frames[0].len();
        // Every byte of the second frame wrong, one after the other.
        for at in 0..frames[1].len() {
            let mut bytes = frames.concat();
            bytes[from + at] ^= 0xFF;
            put(folder.path(), 0, &bytes);
            let (numbers, errors) = read(folder.path());
            assert_eq!(numbers, [0, 2], "{at}");
            assert!(!errors.is_empty(), "{at}");
            let path = folder.path().join(DOCUMENTS).join(name(0));
            let names = format!("{}: damaged at byte {from} ", path.display());
            assert!(errors[0].starts_with(&names), "{at}: {}", errors[0]);
        }
        // The truncated file is followed by others, so it is not being written.
        put(folder.path(), 0, &frames.concat()[..from + 9]);
        written(folder.path(), 1, &all[2..]);
        let (numbers, errors) = read(folder.path());
        assert_eq!((numbers, errors.len()), (vec![0, 2], 1));
        // A line that is not a document.
        let other = zstd::encode_all(&b"{\"url\":7}\n"[..], 3).unwrap();
        put(folder.path(), 0, &[other, frames[1].clone()].concat());
        let (numbers, errors) = read(folder.path());
        assert_eq!((numbers, errors.len()), (vec![1, 2], 1));
        assert!(errors[0].contains("not a document"), "{}", errors[0]);
    }

    #[test]
    fn a_bomb_is_refused_and_takes_no_memory() {
        let folder = tempfile::tempdir().unwrap();
        let bomb = zstd::encode_all(std::io::repeat(b' ').take(MAX_LINE + 9), 1).unwrap();
        let good = document(1).to_frame().unwrap();
        put(folder.path(), 0, &[bomb, good].concat());
        let (numbers, errors) = read(folder.path());
        assert_eq!(numbers, [1]);
        assert!(errors[0].contains("more than"), "{errors:?}");
    }
}
