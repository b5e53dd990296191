//! Sending: which links of the outbox go to which cell, in which message, and when.
//!
//! A [`Publisher`] is pure: its caller passes in the contents of the outbox and the
//! acknowledgements, and it returns what to note in the store and what to send. Each cell of
//! another machine has a lane:
//!
//! 1. Slips of the outbox are read and their offers merged, until there are enough for a batch or
//!    the oldest has waited long enough ([`Setting`]). A link that is as good as the best that this
//!    machine could request waits a tenth of that time, because the owner of its host would request
//!    it next.
//! 2. The filter ([`sent`](super::sent)) removes offers that say nothing new. The rest is the
//!    batch, in one or more messages. The numbers of the messages and the slips are noted in the
//!    store, and flushed to disk, *before* the first message is sent.
//! 3. The messages are sent one after the other. Each is repeated with the same number and the same
//!    bytes until it is acknowledged.
//! 4. After the last acknowledgement the slips are deleted and the numbers noted as used.
//!
//! # Why a link arrives exactly once
//!
//! A cell adds a message only if its number is above that of the last message from the same session
//! ([`apply`](super::apply)). So a repeated message is harmless, however late it is. When a process
//! is killed, the next one finds in the store which slips the messages were made of, and makes them
//! again from the same slips with the same numbers. The filter is then empty, so it passes
//! everything that it passed before, and possibly more; and offers are in the order of their
//! hashes. Therefore no link moves to an earlier message than before, and the receiver cannot skip
//! a link as already known.
//!
//! If slips of a batch are gone, because a cell left or was opened here, the numbers are given up.
//! The receiver counts those as lost that were never sent.
//!
//! Messages are made for each pair of machine and cell, not for each pair of cells: with 16 cells
//! on a machine, that is a sixteenth of the messages. So the sender of a message is a session.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::envelope::{Envelope, EnvelopeError};
use super::merge::Offers;
use super::sent::Sent;
use crate::frontier::{
    Best, CellCount, CellId, CellOffer, Cells, CellsError, OutboxChange, Rated, Slip,
};

/// Bytes of an offer in addition to its address, for measuring a message. The same for all offers
/// but the largest ones, so that a message that is made again ends at the same offer even if
/// another way to an address is the better one by then.
const OFFER: usize = 200;

/// Offers from this many bytes up count with their actual size. A message full of smaller ones, and
/// the usual size of larger ones, stay below the limit of a receiver.
const LARGE: usize = 1_800;

/// A link that would be requested next waits for this part of [`Setting::linger`].
pub(super) const SOON: u64 = 10;

/// How long to wait before sending a message again that was not acknowledged, in milliseconds: the
/// first pause, and the longest.
const FIRST_PAUSE: u64 = 250;
const LONGEST_PAUSE: u64 = 30_000;

/// How links are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Identifies this session; the same in all its processes ([`Kept::sender`](crate::Kept)).
    pub session: u64,
    /// Identifies this process.
    pub process: u64,
    /// The cells of the cluster.
    pub cells: CellCount,
    /// How long a link waits for others to join its message, in milliseconds.
    pub linger: u64,
    /// How many links make a message.
    pub links: usize,
    /// How many bytes make a message.
    pub bytes: usize,
    /// How much memory the filter may take, in bytes.
    pub filter: usize,
}

impl Setting {
    /// The defaults, for the first process of a session.
    pub fn usual(session: u64, cells: CellCount) -> Self {
        Self {
            session,
            process: session,
            cells,
            linger: 5_000,
            links: 500,
            bytes: 128 << 10,
            filter: 32 << 20,
        }
    }
}

/// A message to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Post {
    /// The cell.
    pub to: CellId,
    /// The number of the message.
    pub number: u64,
    /// The identity by which the broker recognises repeated messages.
    pub id: String,
    /// Its bytes.
    pub message: Bytes,
    /// When the oldest link of its batch was found. For a batch that is sent again after a process
    /// died, when the new process began.
    pub since: u64,
}

/// What has been done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sending {
    /// Offers that were read from the outbox.
    pub read: u64,
    /// Offers that were sent, each counted once.
    pub offers: u64,
    /// Messages, each counted once.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Publisher {
    setting: Setting,
    lanes: BTreeMap<CellId, Lane>,
    sent: Sent,
    sending: Sending,
    /// Whether batches are sent at once instead of waiting for more links.
    hurries: bool,
    /// Links that are at least as good are sent soon.
    best: Option<Best>,
}

/// What is on its way to one cell.
#[derive(Debug, Default)]
struct Lane {
    /// The number of the last message that was acknowledged or given up.
    number: u64,
    /// The slips of a batch that was under way when the last process ended, and how many messages
    /// it had. The batch must be made again.
    again: Option<(BTreeSet<Slip>, u32)>,
    open: Open,
    flight: Option<Flight>,
}

/// What has been gathered for the next batch.
#[derive(Debug, Default)]
struct Open {
    since: Option<u64>,
    /// Since when it has held a link that should be sent soon.
    soon: Option<u64>,
    slips: BTreeSet<Slip>,
    offers: Offers,
    bytes: usize,
}

/// A batch that is noted in the store.
#[derive(Debug)]
struct Flight {
    slips: BTreeSet<Slip>,
    parts: u32,
    posts: VecDeque<Post>,
    /// Whether the first of them is under way.
    is_out: bool,
    /// Do not send before this time.
    not_before: u64,
    failures: u32,
}

/// What the store notes of a lane.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    session: u64,
    number: u64,
    parts: u32,
    slips: Vec<(u16, u64)>,
}

impl Note {
    fn to_bytes(&self) -> Result<Vec<u8>, EnvelopeError> {
        postcard::to_stdvec(self).map_err(|why| EnvelopeError::Unwritten(why.to_string()))
    }
}

impl Lane {
    fn note(&self, session: u64) -> Note {
        let flight = self.flight.as_ref();
        let slips = flight.map(|flight| &flight.slips).into_iter().flatten();
        Note {
            session,
            number: self.number,
            parts: flight.map_or(0, |flight| flight.parts),
            slips: slips.map(|s| (s.from.number(), s.commit)).collect(),
        }
    }

    fn knows(&self, slip: &Slip) -> bool {
        let flight = self.flight.as_ref();
        self.open.slips.contains(slip) || flight.is_some_and(|f| f.slips.contains(slip))
    }
}

impl Publisher {
    /// Starts from the notes in the store ([`Cells::outbox_notes`]). Notes of another session are
    /// ignored, because its numbers do not apply to this one.
    ///
    /// # Errors
    /// [`EnvelopeError::Damaged`] if a note cannot be read. Without it, the numbers that this
    /// session has used would be unknown, and a receiver would take new messages under them for
    /// known ones.
    pub fn new(setting: Setting, notes: &[(CellId, Vec<u8>)]) -> Result<Self, EnvelopeError> {
        let mut lanes = BTreeMap::new();
        for (to, note) in notes {
            let note: Note = postcard::from_bytes(note).map_err(|why| {
                EnvelopeError::Damaged(format!("the note on what was sent to {to}: {why}"))
            })?;
            if note.session != setting.session {
                continue;
            }
            let slip = |(from, commit): &(u16, u64)| {
                let (from, commit) = (setting.cells.cell(*from)?, *commit);
                Some(Slip { from, commit })
            };
            let slips: BTreeSet<Slip> = note.slips.iter().filter_map(slip).collect();
            let lane = Lane {
                number: note.number,
                again: (note.parts > 0).then_some((slips, note.parts)),
                ..Lane::default()
            };
            lanes.insert(*to, lane);
        }
        Ok(Self {
            sent: Sent::within(setting.filter),
            setting,
            lanes,
            sending: Sending::default(),
            hurries: false,
            best: None,
        })
    }

    /// Reads from the outbox what the lanes want. Its records are rated by the rating in force.
    ///
    /// # Errors
    /// [`CellsError::Store`] if the store fails.
    pub fn gather(&mut self, cells: &Cells, now: u64) -> Result<(), CellsError> {
        for to in cells.outbox_targets() {
            for slip in cells.outbox(to) {
                if self.wants(to, &slip) {
                    let offers = cells.offers(to, slip)?;
                    self.take(to, slip, offers, now);
                } else if !self.has_room(to) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Whether a cell's lane wants more. The rest waits in the store.
    fn has_room(&self, to: CellId) -> bool {
        let lane = self.lanes.get(&to);
        lane.is_none_or(|lane| lane.again.is_some() || !self.is_full(&lane.open))
    }

    /// Whether a slip should be read now ([`Publisher::take`]).
    pub(crate) fn wants(&self, to: CellId, slip: &Slip) -> bool {
        let Some(lane) = self.lanes.get(&to) else {
            return true;
        };
        match &lane.again {
            Some((slips, _)) => slips.contains(slip) && !lane.knows(slip),
            None => !self.is_full(&lane.open) && !lane.knows(slip),
        }
    }

    /// Takes the offers of a slip in the outbox.
    pub(crate) fn take(&mut self, to: CellId, slip: Slip, offers: Vec<Rated>, now: u64) {
        let best = self.best;
        let open = &mut self.lanes.entry(to).or_default().open;
        open.since.get_or_insert(now);
        open.slips.insert(slip);
        for rated in offers {
            self.sending.read += 1;
            let before = open.offers.len();
            let size = size(&rated.offer);
            let is_good =
                |bucket| best.is_none_or(|best| Best::from((bucket, rated.score)) <= best);
            if rated.bucket.is_some_and(is_good) {
                open.soon.get_or_insert(now);
            }
            open.offers.add(rated);
            if open.offers.len() > before {
                open.bytes += size;
            }
        }
    }

    /// Makes batches of what has waited long enough; call it after [`Publisher::gather`]. The
    /// result must be safe on disk before [`Publisher::due`] is called.
    ///
    /// # Errors
    /// [`EnvelopeError`] if a message cannot be written.
    pub fn close(&mut self, now: u64) -> Result<Vec<OutboxChange>, EnvelopeError> {
        let mut changes = Vec::new();
        let cells: Vec<CellId> = self.lanes.keys().copied().collect();
        for to in cells {
            changes.extend(self.close_lane(to, now)?);
        }
        Ok(changes)
    }

    fn close_lane(&mut self, to: CellId, now: u64) -> Result<Option<OutboxChange>, EnvelopeError> {
        let is_due = |lane: &Lane| {
            let waited = lane.open.since.map(|since| now.saturating_sub(since));
            let is_old = waited.is_some_and(|waited| waited >= self.setting.linger);
            let soon = lane.open.soon.map(|since| now.saturating_sub(since));
            let is_old = is_old || soon.is_some_and(|waited| waited >= self.setting.linger / SOON);
            let is_any = !lane.open.slips.is_empty();
            lane.again.is_some() || (is_any && (is_old || self.hurries || self.is_full(&lane.open)))
        };
        let due = self.lanes.get(&to).filter(|lane| lane.flight.is_none());
        if !due.is_some_and(is_due) {
            return Ok(None);
        }
        let Some(lane) = self.lanes.get_mut(&to) else {
            return Ok(None);
        };
        if let Some((slips, parts)) = lane.again.take()
            && slips != lane.open.slips
        {
            // Messages with other contents than those that may have been sent need other numbers.
            lane.number = lane.number.saturating_add(parts.into());
        }
        let mut open = std::mem::take(&mut lane.open);
        let (ways, others) = open.offers.take();
        let mut left = Vec::new();
        for (hash, mut way) in ways {
            if self.sent.passes(hash, &mut way) {
                left.push(way.rated.offer);
            }
        }
        left.extend(others.into_iter().map(|rated| rated.offer));
        let first = lane.number.saturating_add(1);
        let since = open.since.unwrap_or(now);
        let posts = posts(&self.setting, (to, since), first, left)?;
        for (post, offers) in &posts {
            self.sending.offers += *offers as u64;
            self.sending.messages += 1;
            self.sending.bytes += post.message.len() as u64;
        }
        let posts: VecDeque<Post> = posts.into_iter().map(|(post, _)| post).collect();
        if posts.is_empty() {
            let note = lane.note(self.setting.session).to_bytes()?;
            let gone = open.slips.into_iter().collect();
            return Ok(Some(OutboxChange { to, note, gone }));
        }
        lane.flight = Some(Flight {
            slips: open.slips,
            parts: u32::try_from(posts.len()).unwrap_or(u32::MAX),
            posts,
            is_out: false,
            not_before: now,
            failures: 0,
        });
        let note = lane.note(self.setting.session).to_bytes()?;
        let gone = Vec::new();
        Ok(Some(OutboxChange { to, note, gone }))
    }

    /// The messages to send now. Each is under way until [`Publisher::answer`] is called for it.
    pub fn due(&mut self, now: u64) -> Vec<Post> {
        let mut due = Vec::new();
        for flight in self.lanes.values_mut().filter_map(|l| l.flight.as_mut()) {
            if !flight.is_out && flight.not_before <= now {
                flight.is_out = true;
                due.extend(flight.posts.front().cloned());
            }
        }
        due
    }

    /// Notes whether a message was acknowledged, and returns a change for the store. If the process
    /// dies before that change is made, the messages are sent again.
    ///
    /// # Errors
    /// [`EnvelopeError`] if the note cannot be written.
    pub fn answer(
        &mut self,
        to: CellId,
        number: u64,
        is_stored: bool,
        now: u64,
    ) -> Result<Option<OutboxChange>, EnvelopeError> {
        let Some(lane) = self.lanes.get_mut(&to) else {
            return Ok(None);
        };
        let Some(flight) = lane.flight.as_mut() else {
            return Ok(None);
        };
        if flight.posts.front().map(|post| post.number) != Some(number) {
            return Ok(None);
        }
        flight.is_out = false;
        if !is_stored {
            let pause = FIRST_PAUSE.saturating_mul(1 << flight.failures.min(16));
            flight.not_before = now.saturating_add(pause.min(LONGEST_PAUSE));
            flight.failures = flight.failures.saturating_add(1);
            return Ok(None);
        }
        flight.failures = 0;
        flight.not_before = now;
        flight.posts.pop_front();
        if !flight.posts.is_empty() {
            return Ok(None);
        }
        lane.number = number;
        let flight = lane.flight.take();
        let note = lane.note(self.setting.session).to_bytes()?;
        let gone = flight.map(|flight| flight.slips.into_iter().collect());
        let gone = gone.unwrap_or_default();
        Ok(Some(OutboxChange { to, note, gone }))
    }

    /// Sets whether batches are sent at once instead of waiting for more: before a cell is given
    /// back, and at the end.
    pub fn hurry(&mut self, hurries: bool) {
        self.hurries = hurries;
    }

    /// Sets the best page that this machine could request next, if any. Links as good as it are
    /// sent soon.
    pub fn set_best(&mut self, best: Option<Best>) {
        self.best = best;
    }

    /// Forgets the slips of a cell that is no longer open; what they offered is sent all the same.
    /// Must be called before the cell is opened again.
    pub fn forget_sender(&mut self, from: CellId) {
        for lane in self.lanes.values_mut() {
            lane.open.slips.retain(|slip| slip.from != from);
            if let Some(flight) = &mut lane.flight {
                flight.slips.retain(|slip| slip.from != from);
            }
        }
    }

    /// Forgets what is on its way to a cell that is now open here: the cell has taken those links
    /// over directly.
    ///
    /// # Errors
    /// [`EnvelopeError`] if the note cannot be written.
    pub fn forget_target(&mut self, to: CellId) -> Result<Option<OutboxChange>, EnvelopeError> {
        let Some(lane) = self.lanes.get_mut(&to) else {
            return Ok(None);
        };
        let parts = lane.flight.take().map(|flight| flight.parts);
        let parts = parts.or(lane.again.take().map(|(_, parts)| parts));
        lane.open = Open::default();
        let Some(parts) = parts else {
            return Ok(None);
        };
        lane.number = lane.number.saturating_add(parts.into());
        let note = lane.note(self.setting.session).to_bytes()?;
        let gone = Vec::new();
        Ok(Some(OutboxChange { to, note, gone }))
    }

    /// Whether nothing is gathered or under way.
    pub fn is_idle(&self) -> bool {
        let is_idle = |lane: &Lane| {
            lane.open.slips.is_empty() && lane.flight.is_none() && lane.again.is_none()
        };
        self.lanes.values().all(is_idle)
    }

    /// When [`Publisher::close`] or [`Publisher::due`] may next have something to do, unless
    /// something is taken or answered first.
    pub fn next_event(&self) -> Option<u64> {
        let event = |lane: &Lane| match &lane.flight {
            Some(flight) => (!flight.is_out).then_some(flight.not_before),
            None if lane.again.is_some() || self.hurries || self.is_full(&lane.open) => {
                lane.open.since
            }
            None => {
                let old = lane.open.since?.saturating_add(self.setting.linger);
                let soon = lane
                    .open
                    .soon
                    .map(|since| since + self.setting.linger / SOON);
                Some(soon.map_or(old, |soon| soon.min(old)))
            }
        };
        self.lanes.values().filter_map(event).min()
    }

    /// What has been done so far.
    pub fn sending(&self) -> Sending {
        self.sending
    }

    fn is_full(&self, open: &Open) -> bool {
        open.offers.len() >= self.setting.links || open.bytes >= self.setting.bytes
    }
}

/// The bytes that an offer adds to a message.
fn size(offer: &CellOffer) -> usize {
    let bytes = postcard::to_stdvec(offer).map_or(OFFER, |bytes| bytes.len());
    match offer.way() {
        Some(way) if bytes < LARGE => way.url.as_str().len() + OFFER,
        _ => bytes,
    }
}

/// Splits offers into messages, each with its number of offers. An offer too large for any receiver
/// is left out.
fn posts(
    setting: &Setting,
    (to, since): (CellId, u64),
    first: u64,
    offers: Vec<CellOffer>,
) -> Result<Vec<(Post, usize)>, EnvelopeError> {
    let mut posts: Vec<(Post, usize)> = Vec::new();
    let mut offers = offers.into_iter().peekable();
    while offers.peek().is_some() {
        let mut bytes = 0;
        let mut own = Vec::new();
        while let Some(offer) = offers.next_if(|offer| {
            own.is_empty() || (own.len() < setting.links && bytes + size(offer) <= setting.bytes)
        }) {
            bytes += size(&offer);
            own.push(offer);
        }
        let number = first.saturating_add(posts.len() as u64);
        let count = own.len();
        let envelope = Envelope {
            session: setting.session,
            number,
            offers: own,
        };
        let id = format!("{:016x}.{number}", setting.session);
        let message = match envelope.to_message() {
            Err(why @ EnvelopeError::TooLarge(_)) if count == 1 => {
                tracing::warn!(%to, %why, "an offer to another machine is not sent");
                continue;
            }
            message => message?,
        };
        let post = Post {
            to,
            number,
            id,
            message,
            since,
        };
        posts.push((post, count));
    }
    Ok(posts)
}
