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
//!
//! # A process that dies
//!
//! A process that is started again on the same machine goes on with the session of the one
//! that died ([`Session::resume`]), as if its term had lapsed: it reads its key, and is over
//! if others have ended it. The states of its cells are in its own store; a cell is still
//! its own if the key of the cell has not changed since it was taken.
//!
//! | part | one line |
//! |---|---|
//! | `own` | its own key: made, renewed, read when in doubt, ended |
//! | `hands` | its cells: taken, confirmed, given back |
//! | `needed` | which of its checkpoints somebody may need, and since when nobody does |
//! | `judging` | what it makes of the others, and how it ends those that are silent |
//! | `others` | what it knows of the others |
//! | `rest` | whether anything is left to do, here and elsewhere |
//! | `kept` | what outlives a process |
//! | `terms` | how long it waits for what, and why that is safe |

mod hands;
mod judging;
mod kept;
mod needed;
mod others;
mod own;
mod rest;
mod terms;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use self::kept::Kept;
pub use self::needed::Needed;
use self::others::Others;
use self::rest::Scene;
pub use self::terms::{LONGEST_TERM, SHORTEST_TERM, Terms};
use super::limits::{LimitClaim, LimitClaims, Published};
use super::record::{Base, CellRecord, JobRecord, Key, Node, SessionId, Value};
use super::{EngineError, Revision};
use crate::frontier::{Amount, CellCount, CellId};

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
    /// It has a cell, and may ask its hosts when [`Session::from`] says so.
    Taken {
        /// The cell.
        cell: CellId,
        /// How its state comes about.
        state: Inherited,
        /// Which value of its key says so; for [`Kept::cells`] as soon as the node's store
        /// has the state.
        revision: Revision,
    },
    /// It still has a cell that it kept. The state is that of the node's store; hosts may
    /// have been asked after its last batch.
    Kept(CellId),
    /// It should give a cell back: stop to ask, let requests end, make a checkpoint, call
    /// [`Session::give`].
    Give(CellId),
    /// Nothing is left to do for anybody, so the session leaves.
    Done,
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
    /// To read the key of a cell that it kept.
    Reclaim(CellId),
    Fence(SessionId),
    /// To say that the job is done.
    Done,
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
    /// When it began.
    begun: u64,
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
    /// The last checkpoint that was made, and what was used as of it.
    made: u64,
    used: Amount,
    /// The cells that it has whole.
    holds: Vec<CellId>,
    /// The last one that is in its key.
    committed: u64,
    is_leaving: bool,
    /// Whether the node has nothing to do.
    is_idle: bool,
    /// Since when.
    idle_since: Option<u64>,
    /// What the last look showed, and since when it is the same.
    scene: Scene,
    scene_since: u64,
    /// The job's key, as the last look showed it.
    job: Option<(JobRecord, Revision)>,
    /// What is published of limits with the next renewal, and what has been.
    claim: LimitClaim,
    published: Published,
    /// The claims of all as of the last look that has shown its own; `None` where there was none
    /// since its term lapsed.
    claims: Option<LimitClaims>,
    hands: BTreeMap<CellId, Hand>,
    /// Checkpoints with the ends of cells that it has given back since the last look was asked
    /// for, and when.
    released: Vec<(u64, u64)>,
    /// Whether it goes on after a process that died.
    is_resumed: bool,
    /// The secrets that its key may have until it has renewed it.
    before: BTreeSet<u64>,
    /// Cells that it kept, until their keys say whose they are.
    kept: BTreeMap<CellId, Revision>,
    others: Others,
    /// The cells' keys, as far as the last look showed them.
    table: BTreeMap<CellId, (CellRecord, Revision)>,
    /// Cells whose keys are not what the last look showed.
    doubtful: BTreeSet<CellId>,
    /// When the look was asked for that the table comes from.
    looked: Option<u64>,
    calls: BTreeMap<CallId, Pending>,
    /// Those of them that the step has still to return.
    asked: Vec<(CallId, Call)>,
    next_call: CallId,
    /// Whether there may be something to decide: something was answered, told or given up.
    is_stirred: bool,
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
            begun: now,
            renewed: 0,
            due: now,
            from: 0,
            lapsed: false,
            has_read: false,
            tenure: 0,
            made: 0,
            used: Amount::default(),
            holds: Vec::new(),
            committed: 0,
            is_leaving: false,
            is_idle: false,
            idle_since: None,
            scene: Scene::default(),
            scene_since: 0,
            job: None,
            claim: LimitClaim::default(),
            published: Published::default(),
            claims: None,
            hands: BTreeMap::new(),
            released: Vec::new(),
            is_resumed: false,
            before: BTreeSet::new(),
            kept: BTreeMap::new(),
            others: Others::default(),
            table: BTreeMap::new(),
            doubtful: BTreeSet::new(),
            looked: None,
            calls: BTreeMap::new(),
            asked: Vec::new(),
            next_call: 0,
            is_stirred: true,
            news: Vec::new(),
        }
    }

    /// A session that goes on after its process died. Its secret is a new one, so that of
    /// two machines with copies of one disk only the last to begin goes on.
    pub fn resume(setting: Setting, kept: Kept, now: u64) -> Self {
        let mut session = Self::new(setting, now);
        session.id = kept.session;
        session.before = kept.secrets;
        session.phase = Phase::Live;
        session.made = kept.made;
        session.used = kept.used;
        session.kept = kept.cells;
        session.is_resumed = true;
        session.lapsed = true;
        session
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

    /// When the quiet time of a cell that was taken ends: from then until [`Session::until`]
    /// its hosts may be asked, if it is not being given back. The first request to each of them
    /// waits longer, because another session may have asked just before: for the host's delay
    /// after this moment and [`Session::resumed`]; and, where the cell was not given back
    /// cleanly, for the longest delay that there can be after the former.
    pub fn from(&self, cell: CellId) -> Option<u64> {
        self.hands.get(&cell).map(|hand| hand.from)
    }

    /// When the quiet time after the last lapse ends; 0 where there was none.
    pub fn resumed(&self) -> u64 {
        self.from
    }

    /// The cells that it has.
    pub fn cells(&self) -> impl Iterator<Item = CellId> + Clone {
        self.hands.keys().copied()
    }

    /// The last checkpoint that is committed.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Whether the broker has said in this process that its key is its own.
    pub fn has_begun(&self) -> bool {
        self.phase == Phase::Live && self.revision.is_some() && !self.lapsed
    }

    /// Commits a checkpoint, which has a higher number than the last and all cells of the
    /// session, with the next renewal. `used` is what the session has done as of it of what the
    /// job may limit, `holds` the cells that it has whole: those that are still being loaded it
    /// has not.
    pub fn commit(&mut self, checkpoint: u64, used: Amount, holds: Vec<CellId>, now: u64) {
        if checkpoint > self.made {
            (self.made, self.used, self.holds) = (checkpoint, used, holds);
        }
        self.due = self.due.min(now);
    }

    /// Gives a cell back: nothing happens in it any more, and its end is in this checkpoint.
    pub fn give(&mut self, cell: CellId, checkpoint: u64) {
        if let Some(hand) = self.hands.get_mut(&cell)
            && hand.giving == Giving::Told
        {
            hand.giving = Giving::Stopped(checkpoint);
            self.is_stirred = true;
        }
    }

    /// Gives all cells back, and then ends.
    pub fn leave(&mut self, now: u64) {
        self.is_leaving = true;
        self.is_stirred = true;
        self.due = self.due.min(now);
    }

    /// Publishes what it has done and may do with the next renewal.
    pub fn set_claim(&mut self, claim: LimitClaim) {
        self.claim = claim;
    }

    /// The claims of all sessions, as far as they are known.
    pub fn claims(&self) -> Option<LimitClaims> {
        self.claims
    }

    /// When the first session of the job began, as far as is known.
    pub fn first_begun(&self) -> u64 {
        let others = self.others.records().map(|(_, record)| record.begun);
        others.filter(|begun| *begun > 0).fold(self.begun, u64::min)
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
    ///
    /// Whether to take a cell, give one back or end another session is decided when something
    /// was answered or told. Looks are answered every sixth of a term, so what comes by the
    /// passage of time alone is noticed no later than that.
    pub fn step(&mut self, now: u64) -> Vec<(CallId, Call)> {
        self.check(now);
        self.give_up(now);
        if matches!(self.phase, Phase::Over(_)) {
            return Vec::new();
        }
        if !self.is_sure(now) {
            self.others.excuse(now);
        }
        if now >= self.due {
            self.due = now + self.setting.terms.renew;
            if !self.is_pending(|purpose| *purpose == Purpose::Look) {
                self.call(now, Purpose::Look, Call::Look);
            }
            self.renew(now);
            self.confirm(now);
        }
        if std::mem::take(&mut self.is_stirred) {
            self.decide(now);
        }
        std::mem::take(&mut self.asked)
    }

    /// Gives up calls that were not answered for too long.
    fn give_up(&mut self, now: u64) {
        let limit = self.setting.terms.call;
        // The first is the oldest.
        while let Some(oldest) = self.calls.first_entry() {
            if now.saturating_sub(oldest.get().sent) < limit {
                return;
            }
            // A term has room for few attempts.
            if matches!(
                oldest.remove().purpose,
                Purpose::Renew { .. } | Purpose::ReadOwn { .. }
            ) {
                self.due = self.due.min(now);
            }
            self.is_stirred = true;
        }
    }

    /// Begins, takes cells and gives them back, and judges others, as far as it can now.
    fn decide(&mut self, now: u64) {
        match self.phase {
            Phase::Beginning => self.begin(now),
            Phase::Live if !self.lapsed => {
                self.reclaim(now);
                self.give_back(now);
                if self.is_sure(now) {
                    self.end_job(now);
                    self.fence(now);
                    if !self.is_leaving && now >= self.from {
                        self.take(now);
                    }
                }
                if self.is_leaving && self.hands.is_empty() && self.kept.is_empty() {
                    self.end(now);
                }
            }
            _ => {}
        }
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
        let Pending {
            purpose,
            sent,
            tenure,
        } = pending;
        // That its term goes on, or a cell is still its own, changes nothing else.
        let is_usual = matches!(purpose, Purpose::Confirm(_) | Purpose::Renew { .. });
        self.is_stirred |= !is_usual;
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
                self.has_renewed(now, (sent, tenure), checkpoint, revision);
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
            (Purpose::Give(cell), Ok(Answer::Swapped(_))) => self.has_given(now, cell),
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
                }
            }
            (Purpose::Reclaim(cell), Ok(Answer::Got(found))) => {
                self.has_reclaimed(now, sent, cell, found);
            }
            (Purpose::Fence(id), Ok(Answer::Swapped(revision))) => {
                self.others.fenced(&id, revision);
                self.see_scene(now);
            }
            (Purpose::Fence(id), Err(EngineError::Stale)) => self.others.stirs(&id, now),
            // It is asked again when it is due.
            (_, Err(_)) | (_, Ok(_)) => {}
        }
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

    fn call(&mut self, now: u64, purpose: Purpose, call: Call) {
        let pending = Pending {
            purpose,
            sent: now,
            tenure: self.tenure,
        };
        self.calls.insert(self.next_call, pending);
        self.asked.push((self.next_call, call));
        self.next_call += 1;
    }

    fn is_pending(&self, of: impl Fn(&Purpose) -> bool) -> bool {
        self.calls.values().any(|pending| of(&pending.purpose))
    }
}
