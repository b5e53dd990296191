//! The exchanges of some files one after another, each with the crawler's notes.

use std::collections::BTreeMap;
use std::io::Read;

use super::captures::{Capture, Captures, fields, has_answer};
use super::gap::Gap;
use super::http::Cap;
use super::reader::{Item, Reader, RecordEntry};
use super::record::{Kind, Spot};
use crate::tool_error::ToolError;

/// The next item.
#[derive(Debug)]
pub enum Walked {
    /// An exchange.
    Exchange(Box<Exchange>),
    /// A part of the file of this number that cannot be read.
    Gap(u32, Gap),
}

/// A response, and the crawler's notes on it.
#[derive(Debug)]
pub struct Exchange {
    /// Where its first record begins.
    pub spot: Spot,
    /// The response.
    pub capture: Capture,
    /// The fields of the `metadata` record after it; empty if there is no such record.
    pub about: BTreeMap<String, String>,
    /// How many bytes of the files were read up to here.
    pub read: u64,
    /// The length of its first record, as in [`Record::length`](super::record::Record::length).
    pub length: u64,
    /// The digest of its payload, or else of its block, as the record states it.
    pub digest: Option<String>,
}

/// Reads all files in order, and calls `each` until it returns false. Everything up to and
/// including the exchange at `after` is skipped. At most `cap` bytes of each body are kept.
///
/// # Errors
///
/// [`ToolError`] names the file.
pub fn walk(
    captures: &Captures,
    after: Option<Spot>,
    cap: impl Into<Cap>,
    each: &mut dyn FnMut(Walked) -> bool,
) -> Result<(), ToolError> {
    let cap = cap.into();
    let mut before = 0_u64;
    for (number, file) in captures.files().iter().enumerate() {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let after = after.filter(|after| after.file >= number);
        if after.is_none_or(|after| after.file == number) {
            let mut reader = Reader::new(file.open(0)?, file.name());
            let mut walk = Walk {
                captures,
                number,
                after,
                cap,
                before,
                open: None,
                each,
            };
            if !walk.through(&mut reader)? {
                return Ok(());
            }
        }
        before = before.saturating_add(file.length().unwrap_or(0));
    }
    Ok(())
}

/// The walk through one file.
struct Walk<'w> {
    captures: &'w Captures,
    number: u32,
    after: Option<Spot>,
    cap: Cap,
    /// The bytes of the previous files.
    before: u64,
    /// The last exchange, whose metadata may follow, and the id of its first record.
    open: Option<(Option<String>, Box<Exchange>)>,
    each: &'w mut dyn FnMut(Walked) -> bool,
}

impl Walk<'_> {
    /// Returns whether to continue.
    fn through<R: Read>(&mut self, reader: &mut Reader<R>) -> Result<bool, ToolError> {
        loop {
            let read = self.before.saturating_add(reader.position());
            match reader.next_item()? {
                None => return Ok(self.close()),
                Some(Item::Gap(gap)) => {
                    if !self.close() || !(self.each)(Walked::Gap(self.number, gap)) {
                        return Ok(false);
                    }
                }
                Some(Item::Record(mut entry)) => {
                    let spot = entry.record.spot(self.number);
                    if self.after.is_some_and(|after| spot <= after) {
                        continue;
                    }
                    if has_answer(&entry.record) {
                        if !self.close() {
                            return Ok(false);
                        }
                        self.begin(&mut entry, spot, read)?;
                    } else if entry.record.kind == Kind::Metadata {
                        self.note(&mut entry);
                    }
                }
            }
        }
    }

    fn begin<R: Read>(
        &mut self,
        entry: &mut RecordEntry<'_, R>,
        spot: Spot,
        read: u64,
    ) -> Result<(), ToolError> {
        if !self.captures.has(spot) {
            return Ok(());
        }
        let capture = self.captures.capture(entry, self.cap)?;
        let id = entry.record.header("warc-record-id").map(str::to_owned);
        let digests = ["warc-payload-digest", "warc-block-digest"];
        let digest = digests.iter().find_map(|name| entry.record.header(name));
        let (length, digest) = (entry.record.length, digest.map(str::to_owned));
        self.open = capture.map(|capture| {
            let about = BTreeMap::new();
            let exchange = Exchange {
                spot,
                capture,
                about,
                read,
                length,
                digest,
            };
            (id, Box::new(exchange))
        });
        Ok(())
    }

    /// Takes the fields of a metadata record that belongs to the open exchange.
    fn note<R: Read>(&mut self, entry: &mut RecordEntry<'_, R>) {
        let Some((id, exchange)) = &mut self.open else {
            return;
        };
        let names = ["warc-concurrent-to", "warc-refers-to"];
        let named = names.map(|name| entry.record.header(name));
        let is_own = named.iter().flatten().any(|of| Some(*of) == id.as_deref());
        if is_own {
            exchange.about.extend(fields(entry));
        }
    }

    fn close(&mut self) -> bool {
        match self.open.take() {
            Some((_, exchange)) => (self.each)(Walked::Exchange(exchange)),
            None => true,
        }
    }
}
