//! Lines of several parts in the order of their times.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{BufRead, Read};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::super::rows;
use super::{MergeError, Part};

/// The longest line, in bytes; those of spoor are far shorter.
const MAX_LINE: u64 = if cfg!(test) { 1 << 20 } else { 64 << 20 };

/// How the lines tell their times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// Every line is a JSON object with a `time`, and ends.
    Rows,
    /// Many have a time, and the last one may be cut.
    Events,
}

/// A line of a part.
#[derive(Debug)]
pub(super) struct Line<'l> {
    pub text: &'l str,
    /// The number of the part.
    pub part: usize,
    pub of: &'l Part,
    file: &'l str,
    number: u64,
}

impl Line<'_> {
    /// The line is not what spoor wrote.
    pub fn damaged(&self, why: impl Into<String>) -> MergeError {
        let why: String = why.into();
        self.of
            .damaged(self.file, format!("line {}: {why}", self.number))
    }

    /// What is needed of the line.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, MergeError> {
        serde_json::from_str(self.text).map_err(|error| self.damaged(error.to_string()))
    }
}

/// The lines of the files of one part, one after the other.
pub(super) struct Lines<'p> {
    part: &'p Part,
    files: VecDeque<String>,
    open: Option<Box<dyn BufRead + Send>>,
    file: String,
    number: u64,
    line: Vec<u8>,
    /// Whether a last line that does not end is left out.
    may_be_cut: bool,
}

impl<'p> Lines<'p> {
    pub fn of(part: &'p Part, files: Vec<String>) -> Self {
        Self {
            part,
            files: files.into(),
            open: None,
            file: String::new(),
            number: 0,
            line: Vec::new(),
            may_be_cut: false,
        }
    }

    /// The next line.
    pub fn next(&mut self) -> Result<Option<Line<'_>>, MergeError> {
        Ok(if self.advance()? {
            Some(self.current(0)?)
        } else {
            None
        })
    }

    /// Reads the next line; false at the end.
    fn advance(&mut self) -> Result<bool, MergeError> {
        loop {
            let Some(open) = &mut self.open else {
                let Some(file) = self.files.pop_front() else {
                    return Ok(false);
                };
                let opened = rows::open_named(&self.part.folder, &file);
                self.open = Some(opened.map_err(|error| self.part.wrong(error))?);
                self.file = file;
                self.number = 0;
                continue;
            };
            self.line.clear();
            open.take(MAX_LINE + 1)
                .read_until(b'\n', &mut self.line)
                .map_err(self.part.unread(&self.file, "reading"))?;
            match self.line.pop() {
                None => self.open = None,
                Some(b'\n') => {
                    self.number += 1;
                    return Ok(true);
                }
                Some(_) if self.line.len() as u64 >= MAX_LINE => {
                    return Err(self.broken("it is longer than any that spoor writes"));
                }
                Some(_) if self.may_be_cut => self.open = None,
                Some(_) => return Err(self.broken("it is cut off")),
            }
        }
    }

    fn broken(&self, why: &str) -> MergeError {
        let number = self.number + 1;
        self.part
            .damaged(&self.file, format!("line {number}: {why}"))
    }

    fn current(&self, part: usize) -> Result<Line<'_>, MergeError> {
        let text = std::str::from_utf8(&self.line).map_err(|_| self.broken("it is not UTF-8"))?;
        Ok(Line {
            text,
            part,
            of: self.part,
            file: &self.file,
            number: self.number,
        })
    }
}

/// The lines of all parts.
pub(super) struct Sorted<'p> {
    clock: Clock,
    sources: Vec<Source<'p>>,
    /// The time of the line that comes next from a source, the earliest on top.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    /// The source of the line that was given out.
    given: Option<usize>,
}

struct Source<'p> {
    part: &'p Part,
    /// The number of the part.
    number: usize,
    files: Vec<String>,
    lines: Lines<'p>,
    /// The time of the last line.
    time: u64,
    /// The files were closed after the first line, as most parts begin when others have
    /// ended.
    is_closed: bool,
}

impl<'p> Sorted<'p> {
    /// The lines of `files` of each part.
    pub fn of(
        parts: &'p [Part],
        clock: Clock,
        files: &mut dyn FnMut(&Part) -> Result<Vec<String>, MergeError>,
    ) -> Result<Self, MergeError> {
        let mut sorted = Self {
            clock,
            sources: Vec::new(),
            next: BinaryHeap::new(),
            given: None,
        };
        for (number, part) in parts.iter().enumerate() {
            let files = files(part)?;
            let mut source = Source {
                part,
                number,
                lines: lines(part, &files, clock),
                files,
                time: 0,
                is_closed: false,
            };
            if source.advance(clock)? {
                source.lines.open = None;
                source.is_closed = true;
                let place = sorted.sources.len();
                sorted.next.push(Reverse((source.time, place)));
                sorted.sources.push(source);
            }
        }
        Ok(sorted)
    }

    /// The next line of all.
    pub fn next(&mut self) -> Result<Option<Line<'_>>, MergeError> {
        if let Some(place) = self.given.take()
            && let Some(source) = self.sources.get_mut(place)
            && source.advance(self.clock)?
        {
            self.next.push(Reverse((source.time, place)));
        }
        let Some(Reverse((_, place))) = self.next.pop() else {
            return Ok(None);
        };
        self.given = Some(place);
        match self.sources.get(place) {
            Some(source) => source.lines.current(source.number).map(Some),
            None => Ok(None),
        }
    }
}

fn lines<'p>(part: &'p Part, files: &[String], clock: Clock) -> Lines<'p> {
    let mut lines = Lines::of(part, files.to_vec());
    lines.may_be_cut = clock == Clock::Events;
    lines
}

/// The time of a line, under the names that it has in logs and in journals.
#[derive(Deserialize)]
struct Timed<'a> {
    #[serde(borrow, alias = "timestamp")]
    time: Cow<'a, str>,
}

impl Source<'_> {
    /// Reads the next line and its time; false at the end.
    fn advance(&mut self, clock: Clock) -> Result<bool, MergeError> {
        if std::mem::take(&mut self.is_closed) {
            self.lines = lines(self.part, &self.files, clock);
            self.lines.advance()?;
        }
        if !self.lines.advance()? {
            // Nothing is held open to the end.
            self.lines.open = None;
            return Ok(false);
        }
        let line = self.lines.current(self.number)?;
        let time = serde_json::from_str::<Timed<'_>>(line.text)
            .map_err(|error| error.to_string())
            .and_then(|timed| millis(&timed.time));
        match time {
            Ok(time) => self.time = time,
            Err(_) if clock == Clock::Events => {}
            Err(why) => return Err(line.damaged(why)),
        }
        Ok(true)
    }
}

/// A time of the outputs in milliseconds since 1970.
pub(super) fn millis(time: &str) -> Result<u64, String> {
    let parsed: Result<jiff::Timestamp, _> = time.parse();
    let parsed = parsed.map_err(|_| format!("`{}` is no time", time.escape_debug()))?;
    Ok(u64::try_from(parsed.as_millisecond()).unwrap_or_default())
}
