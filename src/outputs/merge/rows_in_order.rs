//! Rows of several parts in order of time.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::BufRead;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::super::output::{Output, files};
use super::super::rows;
use super::MachinePart;
use crate::tool_error::ToolError;

/// A row of a part.
#[derive(Debug)]
pub(super) struct PartRow<'l> {
    pub text: &'l str,
    /// The number of the part.
    pub number: usize,
    pub part: &'l MachinePart,
    file: &'l str,
    line: u64,
}

impl PartRow<'_> {
    /// The row was not written by spoor.
    pub fn damaged(&self, why: impl std::fmt::Display) -> ToolError {
        self.part
            .damaged(self.file, format!("line {}: {why}", self.line))
    }

    /// The needed part of the row.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        serde_json::from_str(self.text).map_err(|error| self.damaged(error))
    }

    /// Its time in milliseconds since 1970.
    fn time(&self) -> Result<u64, ToolError> {
        #[derive(Deserialize)]
        struct Timed<'a> {
            #[serde(borrow)]
            time: Cow<'a, str>,
        }
        let timed: Timed<'_> = serde_json::from_str(self.text).map_err(|e| self.damaged(e))?;
        millis(&timed.time).map_err(|why| self.damaged(why))
    }
}

/// Receives a row.
pub(super) type EachRow<'e> = &'e mut dyn FnMut(&PartRow<'_>) -> Result<(), ToolError>;

/// The rows of one part, file by file.
struct PartRows<'p> {
    part: &'p MachinePart,
    number: usize,
    files: VecDeque<String>,
    open: Option<Box<dyn BufRead + Send>>,
    file: String,
    text: String,
    line: u64,
}

impl<'p> PartRows<'p> {
    fn of(
        (number, part): (usize, &'p MachinePart),
        output: &dyn Output,
    ) -> Result<Self, ToolError> {
        let files = files(output, &part.folder).map_err(|error| part.wrong(error))?;
        Ok(Self {
            part,
            number,
            files: files.into(),
            open: None,
            file: String::new(),
            text: String::new(),
            line: 0,
        })
    }

    /// Reads the next row; false at the end.
    fn advance(&mut self) -> Result<bool, ToolError> {
        loop {
            self.text.clear();
            if let Some(open) = &mut self.open {
                let read = open.read_line(&mut self.text);
                read.map_err(self.part.unread(&self.file, "reading"))?;
                self.line += 1;
                match self.text.pop() {
                    None => {}
                    Some('\n') => return Ok(true),
                    Some(_) => return Err(self.row().damaged("it is cut off")),
                }
            }
            let Some(file) = self.files.pop_front() else {
                return Ok(false);
            };
            let opened = rows::open_named(&self.part.folder, &file);
            self.open = Some(opened.map_err(|error| self.part.wrong(error))?);
            self.file = file;
            self.line = 0;
        }
    }

    fn row(&self) -> PartRow<'_> {
        PartRow {
            text: &self.text,
            number: self.number,
            part: self.part,
            file: &self.file,
            line: self.line,
        }
    }
}

/// Calls `each` with the rows of a table of all parts in order of time.
pub(super) fn in_order(
    parts: &[MachinePart],
    output: &dyn Output,
    each: EachRow<'_>,
) -> Result<(), ToolError> {
    // The time of the next row of each part, the earliest on top.
    let mut next = BinaryHeap::new();
    let mut all = Vec::new();
    for part in parts.iter().enumerate() {
        let mut rows = PartRows::of(part, output)?;
        if rows.advance()? {
            next.push(Reverse((rows.row().time()?, part.0)));
        }
        all.push(rows);
    }
    while let Some(Reverse((_, number))) = next.pop() {
        let Some(rows) = all.get_mut(number) else {
            continue;
        };
        each(&rows.row())?;
        if rows.advance()? {
            next.push(Reverse((rows.row().time()?, number)));
        }
    }
    Ok(())
}

/// The same, but part by part.
pub(super) fn one_after_another(
    parts: &[MachinePart],
    output: &dyn Output,
    each: EachRow<'_>,
) -> Result<(), ToolError> {
    for part in parts.iter().enumerate() {
        let mut rows = PartRows::of(part, output)?;
        while rows.advance()? {
            each(&rows.row())?;
        }
    }
    Ok(())
}

/// A time of the outputs in milliseconds since 1970.
pub(super) fn millis(time: &str) -> Result<u64, String> {
    let parsed: Result<jiff::Timestamp, _> = time.parse();
    let parsed = parsed.map_err(|_| format!("`{}` is not a time", time.escape_debug()))?;
    Ok(u64::try_from(parsed.as_millisecond()).unwrap_or_default())
}
