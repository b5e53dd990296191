//! The figures of a job's log while it is written: each request for them reads the rows that
//! were added since the last one. A log that has become shorter is read again from its
//! beginning, so the figures also lose what a takedown removes.

use std::io::BufRead;
use std::path::Path;

use super::CrawlFigures;
use super::row::LoggedTask;
use crate::fs::IoError;
use crate::outputs::{self, MAX_ROW, OutputError, Part, Table};

/// How many bytes are read at once, so that no caller waits for a log of many gigabytes. The rest
/// is read when the figures are requested again.
const AT_ONCE: u64 = 256 << 20;

/// The figures of a log that grows.
#[derive(Debug, Default)]
pub struct FollowedLog {
    /// The generation of the outputs when the log was read.
    generation: u64,
    /// The number of the last file read, and the position in it: complete lines only.
    part: u32,
    read: u64,
    /// The maximum number of hosts that are counted.
    hosts: usize,
    /// Whether there is more to read.
    pub behind: bool,
    /// What was read so far.
    pub figures: CrawlFigures,
}

impl FollowedLog {
    /// Counts at most this many hosts; beyond that, the worse half is forgotten.
    pub fn with_hosts(hosts: usize) -> Self {
        Self {
            hosts,
            figures: CrawlFigures::with_hosts(hosts),
            ..Self::default()
        }
    }

    /// Reads what has been added to the log of the job in `folder` since the last time.
    ///
    /// # Errors
    ///
    /// [`OutputError`] names the file.
    pub fn read_on(&mut self, folder: &Path) -> Result<(), OutputError> {
        let parts = outputs::parts(folder, Table::Log)?;
        let generation = outputs::generation(folder)?;
        // Rows were removed by a takedown or by hand.
        let shorter = |part: &Part| part.length().is_some_and(|length| length < self.read);
        let cut = |part: &Part| part.number == self.part && shorter(part);
        let last = parts.last().map_or(0, |part| part.number);
        if generation != self.generation || last < self.part || parts.iter().any(cut) {
            *self = Self {
                generation,
                ..Self::with_hosts(self.hosts)
            };
        }
        let mut left = AT_ONCE;
        self.behind = false;
        for part in parts {
            if part.number < self.part {
                continue;
            }
            if part.number > self.part {
                (self.part, self.read) = (part.number, 0);
            }
            let (path, text) = part.text_from(self.read)?;
            let read = self.read_part(text, left);
            left = read.map_err(IoError::at(&path, "reading"))?;
            if left == 0 {
                self.behind = true;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads at most slightly more than `most` bytes; returns how many of them were left.
    fn read_part(&mut self, mut from: impl BufRead, most: u64) -> std::io::Result<u64> {
        let mut left = most;
        let mut line = Vec::new();
        while left > 0 {
            line.clear();
            let n = from.read_until(b'\n', &mut line)?;
            if !line.ends_with(b"\n") {
                // The end, or a line that is being written.
                break;
            }
            self.read += n as u64;
            left = left.saturating_sub(n as u64);
            if line.len() <= MAX_ROW
                && let Ok(task) = LoggedTask::read(&line)
            {
                self.figures.take(&task);
            }
        }
        Ok(left)
    }
}
