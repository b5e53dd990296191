//! Finds the next good record after damage.

use std::io::{self, Read};

use super::super::decode::More;
use super::super::gap::{Gap, ReadFault, RecordSpan, Why};
use super::super::head::{self, ParsedHead};
use super::super::window::LOOK_BACK;
use super::{Reader, StreamSpot};

/// The lost bytes from some place to the next good record, which is not found yet.
#[derive(Debug)]
pub(super) struct LostBytes {
    begin: StreamSpot,
    why: Why,
    /// Where to search.
    search: RecordSearch,
}

#[derive(Debug, Clone, Copy)]
enum RecordSearch {
    /// In the stretch, from this position on.
    Stretch(u64),
    /// In the file, from this place on; or at the present place if reading can continue there.
    File { from: u64, here: bool },
}

impl<R: Read> Reader<R> {
    /// The lost bytes from `begin` on; `block` is where the block of the lost record begins.
    pub(super) fn lose(&self, begin: StreamSpot, why: Why, block: Option<u64>) -> LostBytes {
        let search = if self.in_stretch && !self.decoder.is_known() {
            // Before the first record, anything may follow.
            let from = begin.stretch + 1;
            RecordSearch::File { from, here: false }
        } else if self.in_stretch && !self.decoder.is_broken() {
            RecordSearch::Stretch(block.unwrap_or(begin.inside + 1))
        } else if self.in_stretch {
            RecordSearch::File {
                from: self.behind(begin),
                here: why == Why::Checksum,
            }
        } else {
            RecordSearch::File {
                from: begin.stretch + 1,
                here: false,
            }
        };
        LostBytes { begin, why, search }
    }

    /// Where to search for the record after something that begins at `begin` in a damaged member.
    /// Bytes that were read before the damage are not searched again. A record that was found after
    /// the damage, in the same member, proves nothing: if the member is stored uncompressed, whole
    /// later members may have become a part of it, and an apparent record there may still be partly
    /// compressed.
    fn behind(&self, begin: StreamSpot) -> u64 {
        let member = self.decoder.behind_member();
        if begin.inside == 0 {
            member
        } else {
            member.max(self.whole_until)
        }
    }

    /// Goes to the next place where a record begins, or to the end; returns the gap.
    pub(super) fn search(&mut self, lost: LostBytes) -> io::Result<Gap> {
        let LostBytes {
            begin,
            mut why,
            mut search,
        } = lost;
        loop {
            match search {
                RecordSearch::Stretch(from) => match self.search_stretch(from) {
                    Ok(true) => {
                        self.is_found = true;
                        // The file did not end early; the length was too large.
                        if why == Why::Truncated {
                            why = Why::Length;
                        }
                        break;
                    }
                    Ok(false) if !self.decoder.is_compressed() => break,
                    Ok(false) => {
                        self.in_stretch = false;
                        let from = self.decoder.file_position();
                        search = RecordSearch::File { from, here: true };
                    }
                    Err(ReadFault::Io(error)) => return Err(error),
                    Err(ReadFault::Damage(_)) => {
                        let from = self.behind(begin);
                        search = RecordSearch::File { from, here: false };
                    }
                },
                RecordSearch::File { from, here } => {
                    if !here || !self.decoder.is_at_start(self.formats)? {
                        let present = self.decoder.file_position();
                        let back = present.saturating_sub(from).min(LOOK_BACK as u64);
                        let from = if self.may_go_back(back) {
                            from
                        } else {
                            present
                        };
                        self.decoder.seek(from, self.formats)?;
                    }
                    self.in_stretch = false;
                    break;
                }
            }
        }
        Ok(Gap {
            place: self.since(begin),
            why,
        })
    }

    /// The place from `begin` to the present one.
    fn since(&self, begin: StreamSpot) -> RecordSpan {
        let decoder = &self.decoder;
        if self.in_stretch {
            let compressed = decoder.is_compressed();
            return RecordSpan {
                offset: if compressed {
                    begin.stretch
                } else {
                    begin.inside
                },
                length: decoder.position().saturating_sub(begin.inside),
                inside: compressed.then_some(begin.inside),
            };
        }
        let end = decoder.file_position();
        let offset = if begin.inside == 0 {
            begin.stretch
        } else {
            // The search may have continued before the apparent place of the lost record.
            begin.before.min(end)
        };
        RecordSpan {
            offset,
            length: end.saturating_sub(offset),
            inside: None,
        }
    }

    /// Whether a search may go back by this many bytes. The total is limited to a few times the
    /// bytes read; otherwise a file of small records that all claim to be large would be read again
    /// for each of them.
    fn may_go_back(&mut self, back: u64) -> bool {
        const ALWAYS: u64 = 64 << 20;
        let allowed = ALWAYS.saturating_add(4 * self.decoder.produced());
        let sum = self.gone_back.saturating_add(back);
        if sum <= allowed {
            self.gone_back = sum;
        }
        sum <= allowed
    }

    /// Goes to the next head in the stretch; `false` if there is none.
    fn search_stretch(&mut self, from: u64) -> Result<bool, ReadFault> {
        /// Up to as many bytes as are needed to recognise a head.
        const OVERLAP: usize = 40;
        let back = self.decoder.position().saturating_sub(from);
        if self.may_go_back(back.min(LOOK_BACK as u64)) {
            self.decoder.rewind(from);
        }
        loop {
            self.decoder.mark();
            let unread = self.decoder.unread();
            let there = unread.len();
            if let Some(at) = head::find(unread, 0, self.formats) {
                self.decoder.consume(at);
                if self.is_head()? {
                    return Ok(true);
                }
                self.decoder.consume(1);
                continue;
            }
            if self.decoder.more()? == More::End && !self.decoder.lengthen(self.formats)? {
                self.decoder.consume(there);
                return Ok(false);
            }
            self.decoder.consume(there.saturating_sub(OVERLAP));
        }
    }

    /// Whether a complete head is here.
    fn is_head(&mut self) -> Result<bool, ReadFault> {
        loop {
            match head::parse(self.decoder.unread(), self.formats) {
                ParsedHead::Head(..) => return Ok(true),
                ParsedHead::Not(_) => return Ok(false),
                ParsedHead::Part => {
                    let is_over = self.decoder.more()? == More::End;
                    if is_over && !self.decoder.lengthen(self.formats)? {
                        return Ok(false);
                    }
                }
            }
        }
    }
}
