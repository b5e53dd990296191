//! One life of a node: its term, and the cells it has.
//!
//! A [`Session`] is pure: it is told the time and what the broker answers, and says what to
//! ask the broker next and what may be sent to the web. So whole clusters of sessions can
//! be tested with clocks, networks and brokers that misbehave;
//! its tests draw them by seeds. [`super::drive`] connects it to an engine
//! and a clock.
//!
//! # The life of a session
//!
//! 1. It looks at all keys. While another session of the same node shows signs of life, it
//!    refuses to begin; one that shows none is ended.
//! 2. It makes its own key, with a number that none has had before it.
//! 3. Every sixth of a term it renews the key by compare-and-set, and asks for the key of
//!    each of its cells. Its term runs from before the older of the two was asked.
//! 4. It takes cells that nobody has and that should be its own ([`super::shares`]), and
//!    gives back those that others should have.
//! 5. When its term lapses, or the broker turns out to have forgotten something, it sends
//!    nothing. It reads its key. If the key is still there and lives, it renews it, is quiet
//!    for 1.6 terms, and goes on. Otherwise it is over, and the node begins a new session.
//!
//! # What it relies on
//!
//! - The broker replaces a key only if it is what the caller says
//!   ([`Engine::swap`](super::Engine::swap)). It may forget the last moments as a whole.
//! - Clocks run at 0.8 to 1.25 times the true speed, also while the machine sleeps
//!   ([`terms`]).
//!
//! An answer may be late, lost, repeated, or come in any order. A refusal is never the last
//! word: it may be due to an own write whose answer was lost, or that was sent later than
//! asked. The key is then read, and that decides.

mod others;
mod terms;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use self::others::Others;
pub use self::terms::{LONGEST_TERM, SHORTEST_TERM, Terms};
use super::record::{Base, CellRecord, Key, Node, SessionId, SessionRecord, State, Value};
use super::shares::heir;
use super::{EngineError, Revision};
use crate::crawl::frontier::{CellCount, CellId};

/// The most cells that it takes at once.
const TAKEN_AT_ONCE: usize = 8;

/// The most checkpoints that may have the state of a cell. Only if so many sessions in a row
/// took a cell and ended before their first checkpoint, an older state is used.
const MOST_BASES: usize = 16;

/// What a session asks of the broker.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// The value of a key.
    Get(Key),
    /// To replace the value of a key; for `None`, where there is none.
    Swap(Key, Value, Option<Revision>),
    /// All keys.
    Look,
}

/// What the broker answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// To [`Call::Get`].
    Got(Option<(Value, Revision)>),
    /// To [`Call::Swap`].
    Swapped(Revision),
    /// To [`Call::Look`].
    Seen(Vec<(Key, Value, Revision)>),
}

/// The number of a call.
pub type CallId = u64;

/// What changes for the node.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// It has a cell, and may ask its hosts when [`Session::may_ask`] says so.
    Taken {
        /// The cell.
        cell: CellId,
        /// How its state comes about.
        state: Inherited,
    },
    /// It should give a cell back: stop to ask, let requests end, make a checkpoint, call
    /// [`Session::give`].
    Give(CellId),
    /// A cell was given back.
    Given(CellId),
    /// It does not have a cell any more. What it did there since its last checkpoint counts
    /// as not done.
    Lost(CellId),
    /// The session is over, and has no cells.
    Over(Over),
}

/// Where the state of a cell is that was taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Inherited {
    /// Whether the last owner gave it back. Otherwise that one may have asked hosts after
    /// its last checkpoint, and their delays may have grown meanwhile.
    pub clean: bool,
    /// The state is in the first of these checkpoints that has the cell. Where there is none,
    /// it is a new cell.
    pub bases: Vec<Base>,
}

/// Why a session is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// It has left in good order.
    Left,
    /// Others have ended it, because they heard nothing of it for too long.
    Fenced,
    /// The broker has forgotten it.
    Forgotten,
    /// Another process has the same name and lives.
    NameTaken,
}

/// Who a session is to be.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The machine's name.
    pub node: Node,
    /// A number drawn by chance.
    pub secret: u64,
    /// The node's share of the cells.
    pub weight: f64,
    /// How many cells the cluster has.
    pub cells: CellCount,
    /// How long it waits for what.
    pub terms: Terms,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It has no key yet.
    Beginning,
    Live,
    Over(Over),
}

/// What a call is for.
#[derive(Debug, Clone, PartialEq)]
enum Purpose {
    Look,
    /// To make its key.
    Begin,
    /// To renew its term, with this checkpoint.
    Renew {
        checkpoint: u64,
    },
    /// To end its key.
    End,
    /// To read its key, which had this revision when asked.
    ReadOwn {
        known: Option<Revision>,
    },
    Take {
        cell: CellId,
        state: Inherited,
    },
    Give(CellId),
    /// To read a cell's key; it has it, unless it is being given back.
    Confirm(CellId),
    /// To read the key of a cell that it does not have.
    ReadCell(CellId),
    Fence(SessionId),
}

#[derive(Debug, Clone)]
struct Pending {
    purpose: Purpose,
    sent: u64,
    /// How often its term had lapsed before.
    tenure: u64,
}

/// A cell that it has.
#[derive(Debug)]
struct Hand {
    /// Of the cell's key.
    revision: Revision,
    /// When the broker was asked, that said last that the cell is still this session's.
    confirmed: u64,
    /// When its hosts may be asked.
    from: u64,
    giving: Giving,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Giving {
    No,
    /// The node was told to stop.
    Told,
    /// It has stopped; this checkpoint has the end of it.
    Stopped(u64),
}

/// One life of a node. Times are milliseconds of [`crate::clock::now`].
#[derive(Debug)]
pub struct Session {
    setting: Setting,
    id: SessionId,
    phase: Phase,
    /// Of its own key, as far as it knows.
    revision: Option<Revision>,
    beat: u64,
    /// When the last renewal that was stored was asked for.
    renewed: u64,
    /// When the next one is due.
    due: u64,
    /// Nothing is sent to the web before.
    from: u64,
    lapsed: bool,
    /// Whether it has read its key since its term lapsed.
    has_read: bool,
    /// How often its term has lapsed.
    tenure: u64,
    /// The last checkpoint that was made.
    made: u64,
    /// The last one that is in its key.
    committed: u64,
    is_leaving: bool,
    hands: BTreeMap<CellId, Hand>,
    others: Others,
    /// The cells' keys, as far as the last look showed them.
    table: BTreeMap<CellId, (CellRecord, Revision)>,
    /// Cells whose keys are not what the last look showed.
    doubtful: BTreeSet<CellId>,
    /// When the look was asked for that the table comes from.
    looked: Option<u64>,
    calls: BTreeMap<CallId, Pending>,
    next_call: CallId,
    news: Vec<News>,
}

impl Session {
    /// A session that begins.
    pub fn new(setting: Setting, now: u64) -> Self {
        let node = setting.node.clone();
        Self {
            setting,
            id: SessionId { node, number: 0 },
            phase: Phase::Beginning,
            revision: None,
            beat: 0,
            renewed: 0,
            due: now,
            from: 0,
            lapsed: false,
            has_read: false,
            tenure: 0,
            made: 0,
            committed: 0,
            is_leaving: false,
            hands: BTreeMap::new(),
            others: Others::default(),
            table: BTreeMap::new(),
            doubtful: BTreeSet::new(),
            looked: None,
            calls: BTreeMap::new(),
            next_call: 0,
            news: Vec::new(),
        }
    }

    /// Which one it is; its number is 0 until it has a key.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// What has changed for the node since the last call.
    pub fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// Until when the node may write to the web; 0 where it may not.
    pub fn until(&self, now: u64) -> u64 {
        if self.phase != Phase::Live || self.lapsed || now < self.from {
            return 0;
        }
        let confirmed = self.hands.values().map(|hand| hand.confirmed);
        let oldest = confirmed.fold(self.renewed, u64::min);
        oldest + self.setting.terms.term
    }

    /// How often its term has lapsed. What was begun before may not be sent any more.
    pub fn tenure(&self) -> u64 {
        self.tenure
    }

    /// Whether hosts of this cell may be asked. The first request to each of them waits
    /// longer, because another session may have asked just before: for the host's delay
    /// after [`Session::from`] and [`Session::resumed`]; and, where the cell was not given
    /// back cleanly, for the longest delay that there can be after the former.
    pub fn may_ask(&self, cell: CellId, now: u64) -> bool {
        let hand = self.hands.get(&cell);
        hand.is_some_and(|hand| hand.giving == Giving::No && now >= hand.from)
            && now < self.until(now)
    }

    /// When the quiet time of a cell that was taken ends.
    pub fn from(&self, cell: CellId) -> Option<u64> {
        self.hands.get(&cell).map(|hand| hand.from)
    }

    /// When the quiet time after the last lapse ends; 0 where there was none.
    pub fn resumed(&self) -> u64 {
        self.from
    }

    /// The cells that it has.
    pub fn cells(&self) -> impl Iterator<Item = CellId> {
        self.hands.keys().copied()
    }

    /// The last checkpoint that is committed.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Commits a checkpoint, which has a higher number than the last and all cells of the
    /// session, with the next renewal.
    pub fn commit(&mut self, checkpoint: u64, now: u64) {
        self.made = self.made.max(checkpoint);
        self.due = self.due.min(now);
    }

    /// Gives a cell back: nothing happens in it any more, and its end is in this checkpoint.
    pub fn give(&mut self, cell: CellId, checkpoint: u64) {
        if let Some(hand) = self.hands.get_mut(&cell)
            && hand.giving == Giving::Told
        {
            hand.giving = Giving::Stopped(checkpoint);
        }
    }

    /// Gives all cells back, and then ends.
    pub fn leave(&mut self, now: u64) {
        self.is_leaving = true;
        self.due = self.due.min(now);
    }

    /// Why it is over, if it is.
    pub fn over(&self) -> Option<Over> {
        match self.phase {
            Phase::Over(why) => Some(why),
            _ => None,
        }
    }

    /// What to ask the broker now. To be called when something was answered, and otherwise
    /// every [`Terms::tick`].
    pub fn step(&mut self, now: u64) -> Vec<(CallId, Call)> {
        let mut calls = Vec::new();
        self.check(now);
        let limit = self.setting.terms.call;
        self.calls
            .retain(|_, pending| now.saturating_sub(pending.sent) < limit);
        if matches!(self.phase, Phase::Over(_)) {
            return calls;
        }
        if !self.is_sure(now) {
            self.others.excuse(now);
        }
        if now >= self.due {
            self.due = now + self.setting.terms.renew;
            if !self.is_pending(|purpose| *purpose == Purpose::Look) {
                self.call(now, Purpose::Look, Call::Look, &mut calls);
            }
            self.renew(now, &mut calls);
            self.confirm(now, &mut calls);
        }
        match self.phase {
            Phase::Beginning => self.begin(now, &mut calls),
            Phase::Live if !self.lapsed => {
                self.give_back(now, &mut calls);
                if self.is_sure(now) {
                    self.fence(now, &mut calls);
                    if !self.is_leaving && now >= self.from {
                        self.take(now, &mut calls);
                    }
                }
                if self.is_leaving && self.hands.is_empty() {
                    self.end(now, &mut calls);
                }
            }
            _ => {}
        }
        calls
    }

    /// Takes note of an answer. One to a call that is unknown, because it was answered
    /// already or is too old, changes nothing.
    pub fn answer(&mut self, now: u64, call: CallId, answer: Result<Answer, EngineError>) {
        self.check(now);
        let Some(pending) = self.calls.remove(&call) else {
            return;
        };
        if matches!(self.phase, Phase::Over(_)) {
            return;
        }
        let Pending { purpose, sent, .. } = pending.clone();
        match (purpose, answer) {
            (Purpose::Look, Ok(Answer::Seen(keys))) => self.see(now, sent, keys),
            (Purpose::Begin, Ok(Answer::Swapped(revision))) => {
                self.phase = Phase::Live;
                self.revision = Some(revision);
                self.renewed = sent;
            }
            // What is there instead shows in a look.
            (Purpose::Begin, _) => self.due = self.due.min(now),
            (Purpose::Renew { checkpoint }, Ok(Answer::Swapped(revision))) => {
                self.has_renewed(now, &pending, checkpoint, revision);
            }
            (Purpose::End, Ok(Answer::Swapped(_))) => self.end_as(Over::Left),
            (Purpose::Renew { .. } | Purpose::End, Err(EngineError::Stale)) => {
                self.has_read = false;
                self.due = self.due.min(now);
            }
            (Purpose::ReadOwn { known }, Ok(Answer::Got(found))) => {
                self.has_read_own(now, known, found);
            }
            (Purpose::Take { cell, state }, Ok(Answer::Swapped(revision))) => {
                self.has_taken(now, sent, cell, state, revision);
            }
            (Purpose::Take { cell, .. }, Err(EngineError::Stale)) => {
                self.doubtful.insert(cell);
            }
            (Purpose::Give(cell), Ok(Answer::Swapped(_))) => self.has_given(cell),
            (Purpose::Confirm(cell), Ok(Answer::Got(found))) => {
                self.has_confirmed(now, sent, cell, found);
            }
            (Purpose::ReadCell(cell), Ok(Answer::Got(found))) => {
                self.doubtful.remove(&cell);
                match found {
                    Some((Value::Cell(record), revision)) => {
                        self.table.insert(cell, (record, revision));
                    }
                    _ => drop(self.table.remove(&cell)),
                };
            }
            (Purpose::Fence(id), Ok(Answer::Swapped(revision))) => {
                self.others.fenced(&id, revision);
            }
            (Purpose::Fence(id), Err(EngineError::Stale)) => self.others.stirs(&id, now),
            // It is asked again when it is due.
            (_, Err(_)) | (_, Ok(_)) => {}
        }
    }

    /// Notices that its term has lapsed.
    fn check(&mut self, now: u64) {
        let end = self.renewed + self.setting.terms.term;
        if self.phase == Phase::Live && !self.lapsed && now >= end {
            self.lapse(now);
        }
    }

    /// Sends nothing until its key was read and renewed, and the quiet time is over.
    fn lapse(&mut self, now: u64) {
        self.tenure += 1;
        self.lapsed = true;
        self.has_read = false;
        self.due = now;
    }

    /// Whether it may judge others: it has heard from the broker lately.
    fn is_sure(&self, now: u64) -> bool {
        let heard = match self.phase {
            Phase::Beginning => self.looked,
            Phase::Live if !self.lapsed => Some(self.renewed),
            Phase::Live | Phase::Over(_) => None,
        };
        heard.is_some_and(|heard| now < heard + self.setting.terms.sure)
    }

    fn call(&mut self, now: u64, purpose: Purpose, call: Call, calls: &mut Vec<(CallId, Call)>) {
        let pending = Pending {
            purpose,
            sent: now,
            tenure: self.tenure,
        };
        self.calls.insert(self.next_call, pending);
        calls.push((self.next_call, call));
        self.next_call += 1;
    }

    fn is_pending(&self, of: impl Fn(&Purpose) -> bool) -> bool {
        self.calls.values().any(|pending| of(&pending.purpose))
    }

    fn own_key(&self) -> Key {
        Key::Session(self.id.clone())
    }

    fn own_record(&self, state: State) -> Value {
        Value::Session(SessionRecord {
            state,
            secret: self.setting.secret,
            beat: self.beat,
            checkpoint: self.made,
            weight: self.setting.weight,
        })
    }

    /// Makes its key, when no other session of its node lives.
    fn begin(&mut self, now: u64, calls: &mut Vec<(CallId, Call)>) {
        let is_beginning =
            |purpose: &Purpose| matches!(purpose, Purpose::Begin | Purpose::Fence(_));
        if self.looked.is_none() || self.is_pending(is_beginning) {
            return;
        }
        let of_node = self.others.iter().filter(|(id, _)| id.node == self.id.node);
        let mut last = 0;
        let mut waits = false;
        let mut dead = None;
        for (id, other) in of_node {
            last = last.max(id.number);
            if other.record.secret == self.setting.secret {
                // Its own, made by a call whose answer was lost. It is read first, as after
                // a lapse.
                self.id = id.clone();
                self.phase = Phase::Live;
                self.revision = None;
                self.lapsed = true;
                self.due = now;
                return;
            }
            if other.record.state.is_live() {
                waits = true;
                if now.saturating_sub(other.since) >= self.setting.terms.patience {
                    dead = Some((id.clone(), other.record.clone(), other.revision));
                }
            }
        }
        if let Some((id, record, revision)) = dead {
            self.fence_one(now, id, record, revision, calls);
        } else if !waits {
            self.id.number = last + 1;
            self.beat += 1;
            let record = self.own_record(State::Live);
            let call = Call::Swap(self.own_key(), record, None);
            self.call(now, Purpose::Begin, call, calls);
        }
    }

    /// Renews its term; reads its key first where it is not sure of it.
    fn renew(&mut self, now: u64, calls: &mut Vec<(CallId, Call)>) {
        let is_pending = |purpose: &Purpose| {
            let reads = matches!(purpose, Purpose::ReadOwn { .. });
            reads
                || matches!(
                    purpose,
                    Purpose::Renew { .. } | Purpose::Begin | Purpose::End
                )
        };
        if self.phase != Phase::Live || self.is_pending(is_pending) {
            return;
        }
        if !self.has_read {
            let known = self.revision;
            let call = Call::Get(self.own_key());
            self.call(now, Purpose::ReadOwn { known }, call, calls);
            return;
        }
        self.beat += 1;
        let checkpoint = self.made;
        let state = if self.is_leaving {
            State::Leaving
        } else {
            State::Live
        };
        let call = Call::Swap(self.own_key(), self.own_record(state), self.revision);
        self.call(now, Purpose::Renew { checkpoint }, call, calls);
    }

    fn has_renewed(&mut self, now: u64, pending: &Pending, checkpoint: u64, revision: Revision) {
        self.committed = self.committed.max(checkpoint);
        if pending.tenure != self.tenure {
            return;
        }
        self.revision = Some(revision);
        self.renewed = self.renewed.max(pending.sent);
        if self.lapsed {
            self.lapsed = false;
            self.from = now + self.setting.terms.quiet;
            self.others.excuse(now);
            // What it has is confirmed before anything is sent.
            for hand in self.hands.values_mut() {
                hand.confirmed = 0;
            }
            self.due = now;
        }
    }

    fn has_read_own(
        &mut self,
        now: u64,
        known: Option<Revision>,
        found: Option<(Value, Revision)>,
    ) {
        let Some((Value::Session(record), revision)) = found else {
            // Without a revision its key may never have been made.
            match self.revision {
                Some(_) => self.end_as(Over::Forgotten),
                None => self.phase = Phase::Beginning,
            }
            return;
        };
        if record.secret != self.setting.secret {
            self.end_as(Over::NameTaken);
            return;
        }
        match record.state {
            State::Fenced => self.end_as(Over::Fenced),
            State::Ended => self.end_as(Over::Left),
            State::Live | State::Leaving => {
                // The broker has forgotten what it had stored, unless this is an old answer.
                if known.is_some_and(|known| revision < known) {
                    self.lapse(now);
                }
                self.revision = Some(revision);
                self.committed = record.checkpoint;
                self.has_read = true;
                self.due = now;
            }
        }
    }

    fn end_as(&mut self, why: Over) {
        self.phase = Phase::Over(why);
        self.tenure += 1;
        let lost = std::mem::take(&mut self.hands);
        self.news.extend(lost.into_keys().map(News::Lost));
        self.news.push(News::Over(why));
        self.calls.clear();
    }

    /// Ends its key, when it has no cells any more.
    fn end(&mut self, now: u64, calls: &mut Vec<(CallId, Call)>) {
        let is_pending = |purpose: &Purpose| {
            let takes = matches!(purpose, Purpose::Take { .. });
            takes || matches!(purpose, Purpose::End | Purpose::Renew { .. })
        };
        if !self.has_read || self.is_pending(is_pending) {
            return;
        }
        self.beat += 1;
        let call = Call::Swap(self.own_key(), self.own_record(State::Ended), self.revision);
        self.call(now, Purpose::End, call, calls);
    }

    /// Asks for the keys of its cells.
    fn confirm(&mut self, now: u64, calls: &mut Vec<(CallId, Call)>) {
        for cell in Vec::from_iter(self.hands.keys().copied()) {
            let purpose = Purpose::Confirm(cell);
            if !self.is_pending(|other| *other == purpose) {
                self.call(now, purpose, Call::Get(Key::Cell(cell)), calls);
            }
        }
    }

    fn has_confirmed(
        &mut self,
        now: u64,
        sent: u64,
        cell: CellId,
        found: Option<(Value, Revision)>,
    ) {
        let Some(hand) = self.hands.get_mut(&cell) else {
            return;
        };
        let record = match found {
            Some((Value::Cell(record), revision)) if revision == hand.revision => {
                if record.owner.as_ref() == Some(&self.id) {
                    hand.confirmed = hand.confirmed.max(sent);
                    return;
                }
                Some(record)
            }
            Some((Value::Cell(record), _)) => Some(record),
            _ => None,
        };
        if let (Giving::Stopped(checkpoint), Some(record)) = (hand.giving, record)
            && record.owner.is_none()
            && record
                .bases
                .first()
                .is_some_and(|base| base.session == self.id && base.checkpoint == checkpoint)
        {
            // The answer was lost.
            self.has_given(cell);
            return;
        }
        // It cannot be another one's while this session lives, so the broker has forgotten
        // something.
        self.hands.remove(&cell);
        self.table.remove(&cell);
        self.news.push(News::Lost(cell));
        if !self.lapsed {
            self.lapse(now);
        }
    }

    /// Takes note of all keys.
    fn see(&mut self, now: u64, sent: u64, keys: Vec<(Key, Value, Revision)>) {
        if self.looked.is_some_and(|looked| sent < looked) {
            return;
        }
        self.looked = Some(sent);
        self.table.clear();
        let mut sessions = BTreeMap::new();
        for (key, value, revision) in keys {
            match (key, value) {
                (Key::Session(id), Value::Session(record)) => {
                    sessions.insert(id, (record, revision));
                }
                (Key::Cell(cell), Value::Cell(record)) => {
                    self.table.insert(cell, (record, revision));
                }
                _ => {}
            }
        }
        if self.phase == Phase::Live {
            sessions.remove(&self.id);
        }
        self.refuse_a_second(&sessions);
        self.others.see(now, sessions);
        for (record, _) in self.table.values() {
            if let Some(owner) = record.owner.as_ref().filter(|owner| **owner != self.id) {
                self.others.miss(owner, now);
            }
        }
    }

    /// Refuses to begin where another session of its node shows signs of life.
    fn refuse_a_second(&mut self, seen: &BTreeMap<SessionId, (SessionRecord, Revision)>) {
        let is_alive = |(id, (record, _)): (&SessionId, &(SessionRecord, Revision))| {
            let before = self.others.get(id);
            id.node == self.id.node
                && record.state.is_live()
                && record.secret != self.setting.secret
                && before.is_some_and(|other| other.record.beat < record.beat)
        };
        if self.phase == Phase::Beginning && seen.iter().any(is_alive) {
            self.end_as(Over::NameTaken);
        }
    }

    /// Takes cells that nobody has, and that should be its own.
    fn take(&mut self, now: u64, calls: &mut Vec<(CallId, Call)>) {
        if self.looked.is_none() {
            return;
        }
        for cell in Vec::from_iter(self.doubtful.iter().copied()) {
            let purpose = Purpose::ReadCell(cell);
            if !self.is_pending(|other| *other == purpose) {
                self.call(now, purpose, Call::Get(Key::Cell(cell)), calls);
            }
        }
        let is_taking = |purpose: &Purpose| matches!(purpose, Purpose::Take { .. });
        let taking = self
            .calls
            .values()
            .filter(|p| is_taking(&p.purpose))
            .count();
        let mut room = TAKEN_AT_ONCE.saturating_sub(taking);
        let own = (&self.setting.node, self.setting.weight);
        let nodes: Vec<_> = self.others.takers(now, 0).chain([own]).collect();
        let mut chosen = Vec::new();
        for cell in self.setting.cells.all() {
            if room == 0 {
                break;
            }
            let is_busy = |purpose: &Purpose| matches!(purpose, Purpose::Take { cell: other, .. } if *other == cell);
            let is_known = !self.hands.contains_key(&cell) && !self.doubtful.contains(&cell);
            if !is_known || self.is_pending(is_busy) {
                continue;
            }
            let Some(state) = self.inherited(cell, now) else {
                continue;
            };
            // What is its own by the key, and not in its hands, nobody else can take.
            let entry = self.table.get(&cell);
            let is_own = entry.is_some_and(|(record, _)| record.owner.as_ref() == Some(&self.id));
            if is_own || heir(cell, nodes.iter().copied()) == Some(&self.setting.node) {
                chosen.push((cell, state));
                room -= 1;
            }
        }
        for (cell, state) in chosen {
            let record = self.taken_record(&state);
            let was = self.table.get(&cell).map(|(_, revision)| *revision);
            let call = Call::Swap(Key::Cell(cell), Value::Cell(record), was);
            self.call(now, Purpose::Take { cell, state }, call, calls);
        }
    }

    fn taken_record(&self, state: &Inherited) -> CellRecord {
        CellRecord {
            owner: Some(self.id.clone()),
            after: self.made,
            bases: state.bases.clone(),
        }
    }

    /// Where the state of a cell would come from; `None` where it is another one's.
    fn inherited(&self, cell: CellId, now: u64) -> Option<Inherited> {
        let Some((record, _)) = self.table.get(&cell) else {
            return Some(Inherited {
                clean: true,
                bases: Vec::new(),
            });
        };
        let mut bases = record.bases.clone();
        let Some(owner) = &record.owner else {
            return Some(Inherited { clean: true, bases });
        };
        // What it owns and does not have is what it was to take when the answer was lost, or
        // what the broker has forgotten that it gave back.
        let last = if *owner == self.id {
            self.committed
        } else if self.others.is_over(owner, now, self.setting.terms.patience) {
            let other = self.others.get(owner);
            other.map_or(0, |other| other.record.checkpoint)
        } else {
            return None;
        };
        if last > record.after {
            let last = Base {
                session: owner.clone(),
                checkpoint: last,
            };
            bases.insert(0, last);
            bases.truncate(MOST_BASES);
        }
        Some(Inherited {
            clean: false,
            bases,
        })
    }

    fn has_taken(
        &mut self,
        now: u64,
        sent: u64,
        cell: CellId,
        state: Inherited,
        revision: Revision,
    ) {
        let hand = Hand {
            revision,
            confirmed: sent,
            from: now + self.setting.terms.quiet,
            giving: Giving::No,
        };
        self.hands.insert(cell, hand);
        self.table.remove(&cell);
        self.news.push(News::Taken { cell, state });
    }

    /// Gives back what another node should have, one cell after the other; all of them when
    /// it leaves.
    fn give_back(&mut self, now: u64, calls: &mut Vec<(CallId, Call)>) {
        let own = (!self.is_leaving).then_some((&self.setting.node, self.setting.weight));
        let settled = self.others.takers(now, self.setting.terms.settle);
        let nodes: Vec<_> = settled.chain(own).collect();
        let mut is_giving = self.hands.values().any(|hand| hand.giving != Giving::No);
        let mut told = Vec::new();
        for (cell, hand) in &self.hands {
            let stays = hand.giving != Giving::No || (is_giving && !self.is_leaving);
            let heir = || heir(*cell, nodes.iter().copied());
            if stays || (!self.is_leaving && heir() == Some(&self.setting.node)) {
                continue;
            }
            is_giving = true;
            told.push(*cell);
        }
        for cell in told {
            if let Some(hand) = self.hands.get_mut(&cell) {
                hand.giving = Giving::Told;
                self.news.push(News::Give(cell));
            }
        }
        let mut given = Vec::new();
        for (cell, hand) in &self.hands {
            let Giving::Stopped(checkpoint) = hand.giving else {
                continue;
            };
            // The checkpoint has to be committed first: what is not counts as not done.
            if self.committed >= checkpoint {
                given.push((*cell, hand.revision, checkpoint));
            }
        }
        for (cell, revision, checkpoint) in given {
            let purpose = Purpose::Give(cell);
            if self.is_pending(|other| *other == purpose) {
                continue;
            }
            let session = self.id.clone();
            let record = CellRecord {
                owner: None,
                after: 0,
                bases: vec![Base {
                    session,
                    checkpoint,
                }],
            };
            let call = Call::Swap(Key::Cell(cell), Value::Cell(record), Some(revision));
            self.call(now, purpose, call, calls);
        }
    }

    fn has_given(&mut self, cell: CellId) {
        if self.hands.remove(&cell).is_some() {
            self.table.remove(&cell);
            self.news.push(News::Given(cell));
        }
    }

    /// Ends sessions of which nothing was heard for too long.
    fn fence(&mut self, now: u64, calls: &mut Vec<(CallId, Call)>) {
        let patience = self.setting.terms.patience;
        let is_dead = |since: u64| now.saturating_sub(since) >= patience;
        let dead = self
            .others
            .iter()
            .filter(|(_, other)| other.record.state.is_live() && is_dead(other.since));
        let dead = dead.map(|(id, other)| (id.clone(), other.record.clone(), other.revision));
        for (id, record, revision) in dead.collect::<Vec<_>>() {
            self.fence_one(now, id, record, revision, calls);
        }
    }

    fn fence_one(
        &mut self,
        now: u64,
        id: SessionId,
        mut record: SessionRecord,
        revision: Revision,
        calls: &mut Vec<(CallId, Call)>,
    ) {
        let purpose = Purpose::Fence(id);
        if self.is_pending(|other| *other == purpose) {
            return;
        }
        record.state = State::Fenced;
        let Purpose::Fence(id) = &purpose else {
            return;
        };
        let key = Key::Session(id.clone());
        let call = Call::Swap(key, Value::Session(record), Some(revision));
        self.call(now, purpose, call, calls);
    }
}
