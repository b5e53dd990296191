//! Finds the next good record behind damage.

use std::io::{self, Read};

use super::super::decode::More;
use super::super::gap::{Fault, Gap, Place, Why};
use super::super::head::{self, Parsed};
use super::super::window::LOOK_BACK;
use super::{Reader, Spot};

/// What is lost from somewhere to a place that is still to be found.
#[derive(Debug)]
pub(super) struct Lost {
    begin: Spot,
    why: Why,
    /// Where to search.
    search: Search,
}

#[derive(Debug, Clone, Copy)]
enum Search {
    /// In the stretch, from this position on.
    Stretch(u64),
    /// In the file, from this place on; if it is a fine place to go on, at the present one.
    File { from: u64, here: bool },
}

impl<R: Read> Reader<R> {
    /// What is lost from `begin` on; `block` is where the block of the lost record begins.
    pub(super) fn lose(&self, begin: Spot, why: Why, block: Option<u64>) -> Lost {
        let search = if self.in_stretch && !self.decoder.is_known() {
            // Before the first record, anything may follow.
            let from = begin.stretch + 1;
            Search::File { from, here: false }
        } else if self.in_stretch && !self.decoder.is_broken() {
            Search::Stretch(block.unwrap_or(begin.inside + 1))
        } else if self.in_stretch {
            Search::File {
                from: self.behind(begin),
                here: why == Why::Checksum,
            }
        } else {
            Search::File {
                from: begin.stretch + 1,
                here: false,
            }
        };
        Lost { begin, why, search }
    }

    /// Where to search for what follows something that begins at `begin`, in a member that is
    /// damaged. Nothing is searched again that was read before the damage. A record that was
    /// found behind it, in the same member, proves nothing: if the member's content is not
    /// compressed, whole later members may have become a part of it, and what looks like a
    /// record there may be one that is still compressed in part.
    fn behind(&self, begin: Spot) -> u64 {
        let member = self.decoder.behind_member();
        if begin.inside == 0 {
            member
        } else {
            member.max(self.whole_until)
        }
    }

    /// Goes to the next place where a record begins, or to the end; returns what is lost.
    pub(super) fn search(&mut self, lost: Lost) -> io::Result<Gap> {
        let Lost {
            begin,
            mut why,
            mut search,
        } = lost;
        loop {
            match search {
                Search::Stretch(from) => match self.search_stretch(from) {
                    Ok(true) => {
                        self.is_found = true;
                        // The file did not end; the length led beyond what followed.
                        if why == Why::Truncated {
                            why = Why::Length;
                        }
                        break;
                    }
                    Ok(false) if !self.decoder.is_compressed() => break,
                    Ok(false) => {
                        self.in_stretch = false;
                        let from = self.decoder.file_position();
                        search = Search::File { from, here: true };
                    }
                    Err(Fault::Io(error)) => return Err(error),
                    Err(Fault::Damage(_)) => {
                        let from = self.behind(begin);
                        search = Search::File { from, here: false };
                    }
                },
                Search::File { from, here } => {
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
    fn since(&self, begin: Spot) -> Place {
        let decoder = &self.decoder;
        if self.in_stretch {
            let compressed = decoder.is_compressed();
            return Place {
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
            // The search may have gone on before the place where the lost record seemed to be.
            begin.before.min(end)
        };
        Place {
            offset,
            length: end.saturating_sub(offset),
            inside: None,
        }
    }

    /// Whether a search may go back by so many bytes: altogether only by a few times what was
    /// read. Else a file of small records that all claim to be large would be read again
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
    fn search_stretch(&mut self, from: u64) -> Result<bool, Fault> {
        /// What a head is recognised by, or less.
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

    /// Whether a whole head stands here.
    fn is_head(&mut self) -> Result<bool, Fault> {
        loop {
            match head::parse(self.decoder.unread(), self.formats) {
                Parsed::Head(..) => return Ok(true),
                Parsed::Not(_) => return Ok(false),
                Parsed::Part => {
                    let is_over = self.decoder.more()? == More::End;
                    if is_over && !self.decoder.lengthen(self.formats)? {
                        return Ok(false);
                    }
                }
            }
        }
    }
}
