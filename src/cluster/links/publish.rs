//! Sending: which links of the outbox go to which cell in which message, and when.
//!
//! A [`Publisher`] is pure: it is told what lies in the outbox and what was acknowledged, and
//! says what to note in the store and what to send. Each cell of other machines has a lane:
//!
//! 1. Slips of the outbox are read and their offers merged, until there are enough for a batch
//!    or the oldest has waited for long enough ([`Setting`]). A link that is as good as the best
//!    that this machine could ask for waits for a tenth of that: whoever has its host would ask
//!    for it next.
//! 2. The batch is what the filter ([`sent`](super::sent)) leaves of them, in one or more
//!    messages. The numbers of the messages and the slips are noted in the store, and made safe
//!    on disk, *before* the first is sent.
//! 3. The messages are sent one after the other, each again and again with the same number and
//!    bytes until it is acknowledged.
//! 4. With the last acknowledgement the slips are deleted and the numbers noted as used.
//!
//! # Why a link arrives exactly once
//!
//! A cell adds a message only if its number is above that of the last from the same session
//! ([`apply`](super::apply)). So a repeated message is harmless, however late. A process that
//! was killed finds in its store which slips the messages were made of, and makes them again
//! from the same slips with the same numbers. The filter is empty then and lets pass whatever
//! it let pass before, and possibly more, and offers are in the order of their hashes. Hence no
//! link of a message is in an earlier one than before, and none can be taken for known.
//!
//! Where slips of a batch are gone, because a cell left or was opened here, the numbers are
//! given up: the receiver counts them as lost if they were never sent.
//!
//! Messages are made for each pair of machine and cell, not of cell and cell: with 16 cells a
//! machine that is a sixteenth of the messages. So a message's sender is a session.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::envelope::{Envelope, EnvelopeError};
use super::merge::Offers;
use super::sent::Sent;
use crate::frontier::{
    Best, CellCount, CellId, CellOffer, Cells, CellsError, OutboxChange, Rated, Slip,
};

/// Bytes of an offer beside its address, as a message is measured. Counted alike for all but
/// the largest, so that messages that are made again end at the same offers, whichever way to
/// an address is the better one by then.
const OFFER: usize = 200;

/// From how many bytes on an offer counts with what it has. As many smaller ones as make a
/// message, and the usual bytes of larger ones, are less than anybody refuses.
const LARGE: usize = 1_800;

/// A link that would be asked for next waits for this part of [`Setting::linger`].
pub(super) const SOON: u64 = 10;

/// How long to wait after a message was not acknowledged, in milliseconds: at first, and at
/// most.
const FIRST_PAUSE: u64 = 250;
const LONGEST_PAUSE: u64 = 30_000;

/// How links are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// What tells this session from others, the same in all its processes
    /// ([`Kept::sender`](crate::Kept)).
    pub session: u64,
    /// What tells this process from others.
    pub process: u64,
    /// The cells of the cluster.
    pub cells: CellCount,
    /// How long a link waits for others, in milliseconds.
    pub linger: u64,
    /// How many links make a message.
    pub links: usize,
    /// How many bytes make a message.
    pub bytes: usize,
    /// How much memory the filter may take, in bytes.
    pub filter: usize,
}

impl Setting {
    /// The usual one, of a session's first process.
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
    /// What the broker tells repeated messages by.
    pub id: String,
    /// Its bytes.
    pub message: Bytes,
    /// When the oldest link of its batch was found. One that is sent again after the death of
    /// a process counts from its beginning.
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
    /// Whether nothing waits for more.
    hurries: bool,
    /// Links that are at least as good are sent soon.
    best: Option<Best>,
}

/// What is on its way to one cell.
#[derive(Debug, Default)]
struct Lane {
    /// The number of the last message that was acknowledged or given up.
    number: u64,
    /// The slips of a batch that was under way when the last process ended, and how many
    /// messages it had. It is to be made again.
    again: Option<(BTreeSet<Slip>, u32)>,
    open: Open,
    flight: Option<Flight>,
}

/// What is gathered for the next batch.
#[derive(Debug, Default)]
struct Open {
    since: Option<u64>,
    /// Since when it has a link that is to be sent soon.
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
    /// Not before this time.
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
    /// Begins with what is noted in the store ([`Cells::outbox_notes`]). What another session
    /// has noted does not count: its numbers are not those of this one.
    ///
    /// # Errors
    /// [`EnvelopeError::Damaged`] where a note cannot be read. Without it the numbers that this
    /// session has used would be unknown, and what is sent with them again taken for known.
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

    /// Takes what is wanted of an outbox. Its records are rated by the rating in force.
    ///
    /// # Errors
    /// [`CellsError::Store`] where the store fails.
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

    /// Whether anything more is wanted for a cell. The rest waits in the store.
    fn has_room(&self, to: CellId) -> bool {
        let lane = self.lanes.get(&to);
        lane.is_none_or(|lane| lane.again.is_some() || !self.is_full(&lane.open))
    }

    /// Whether a slip is to be read now ([`Publisher::take`]).
    pub(crate) fn wants(&self, to: CellId, slip: &Slip) -> bool {
        let Some(lane) = self.lanes.get(&to) else {
            return true;
        };
        match &lane.again {
            Some((slips, _)) => slips.contains(slip) && !lane.knows(slip),
            None => !self.is_full(&lane.open) && !lane.knows(slip),
        }
    }

    /// Takes what lies in the outbox under a slip.
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

    /// Makes batches of what has waited for long enough, behind [`Publisher::gather`].
    /// What is returned must be safe on disk before [`Publisher::due`] is asked.
    ///
    /// # Errors
    /// [`EnvelopeError`], where a message cannot be written.
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
            // Other messages than those that may have been sent need other numbers.
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

    /// The messages to send now. Each is under way until [`Publisher::answer`] is told.
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

    /// Notes whether a message was acknowledged. What is returned is to be changed in the
    /// store; if the process dies before that, the messages are sent again.
    ///
    /// # Errors
    /// [`EnvelopeError`], where the note cannot be written.
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

    /// Sends everything without waiting for more from now on, or no longer: before a cell is
    /// given back, and at the end.
    pub fn hurry(&mut self, hurries: bool) {
        self.hurries = hurries;
    }

    /// What this machine could ask for next, if anything. Links that are as good are sent soon.
    pub fn set_best(&mut self, best: Option<Best>) {
        self.best = best;
    }

    /// Forgets slips of a cell that is not open any more; what they have offered is sent
    /// nevertheless. Must be called before the cell is opened again.
    pub fn forget_sender(&mut self, from: CellId) {
        for lane in self.lanes.values_mut() {
            lane.open.slips.retain(|slip| slip.from != from);
            if let Some(flight) = &mut lane.flight {
                flight.slips.retain(|slip| slip.from != from);
            }
        }
    }

    /// Forgets what is on its way to a cell that is open here now, whose links it has taken
    /// over by itself.
    ///
    /// # Errors
    /// [`EnvelopeError`], where the note cannot be written.
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

    /// When [`Publisher::close`] or [`Publisher::due`] may have something to do, if nothing is
    /// taken or answered before.
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

/// An offer's part of a message.
fn size(offer: &CellOffer) -> usize {
    let bytes = postcard::to_stdvec(offer).map_or(OFFER, |bytes| bytes.len());
    match offer.way() {
        Some(way) if bytes < LARGE => way.url.as_str().len() + OFFER,
        _ => bytes,
    }
}

/// Messages of offers, each with how many it has. An offer that nobody would read is left out.
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
                tracing::warn!(%to, %why, "an offer to another machine is left out");
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
