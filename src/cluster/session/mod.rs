//! One life of a node: its term, and the cells it owns.
//!
//! A [`Session`] is pure: its caller passes in the time and the answers of the broker, and it
//! returns what to ask the broker next and what may be sent to the web. So whole clusters of
//! sessions can be tested with clocks, networks and brokers that misbehave; the tests draw them
//! from seeds. [`super::drive`] connects it to an engine and a clock.
//!
//! # The life of a session
//!
//! 1. It looks at all keys. While another session of the same node shows signs of life, it does not
//!    begin; one that shows none is ended.
//! 2. It creates its own key, with a number that no session of the node has had before.
//! 3. Every sixth of a term it renews the key by compare-and-set, and reads the key of each of its
//!    cells. Its term is counted from the moment before the earlier of the two calls was made.
//! 4. It takes cells that no session owns and that should be its own ([`super::shares`]), and gives
//!    back those that others should own.
//! 5. When its term lapses, or it notices that the broker has forgotten something, it sends nothing
//!    and reads its key. If the key is still there and live, it renews the key, stays quiet for 1.6
//!    terms, and continues. Otherwise it is over, and the node begins a new session.
//!
//! # What it relies on
//!
//! - The broker replaces a key only if its revision is the one that the caller names
//!   ([`Engine::swap`](super::Engine::swap)). It may forget all writes of the last moments
//!   together.
//! - Clocks run at 0.8 to 1.25 times the true speed, even while the machine sleeps ([`terms`]).
//!
//! An answer may be late, lost or repeated, and answers may come in any order. A refusal is never
//! final: it may be due to a write of this session whose answer was lost, or which took effect
//! late. The session then reads the key, and the key decides.
//!
//! # A process that dies
//!
//! A process that is started again on the same machine continues the session of the one that died
//! ([`Session::resume`]), as if its term had lapsed: it reads its key, and is over if others have
//! ended the session. The states of its cells are in its own store. A cell is still its own if the
//! key of the cell has not changed since it was taken.
//!
//! | part | one line |
//! |---|---|
//! | `own` | its own key: creating, renewing, reading when in doubt, ending |
//! | `hands` | its cells: taking, confirming, giving back |
//! | `needed` | which of its checkpoints another session may need, or needed recently |
//! | `judging` | how it judges the others, and ends those that are silent |
//! | `others` | what it knows of the others |
//! | `rest` | whether anything is left to do, here and elsewhere |
//! | `kept` | what survives a process |
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
    /// Replace the value of a key; for `None`, create it.
    Swap(Key, Value, Option<Revision>),
    /// All keys.
    Look,
}

/// The broker's answers.
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

/// Changes that the node has to act on.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// It owns a cell, and may send requests to its hosts from [`Session::from`] on.
    Taken {
        /// The cell.
        cell: CellId,
        /// Where the state of the cell comes from.
        state: Inherited,
        /// The revision of the cell's key that says so; for [`Kept::cells`] once the node's store
        /// has the state.
        revision: Revision,
    },
    /// It still owns a cell that it kept. The state is that of the node's store; hosts may have
    /// received requests after its last batch.
    Kept(CellId),
    /// It should give a cell back: start no more requests, let open ones end, make a checkpoint,
    /// and call [`Session::give`].
    Give(CellId),
    /// No session has anything left to do, so this one leaves.
    Done,
    /// A cell was given back.
    Given(CellId),
    /// It no longer owns a cell. What it did there since its last checkpoint counts as not done.
    Lost(CellId),
    /// The session is over, and owns no cells.
    Over(Over),
}

/// Where the state of a cell comes from that was taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Inherited {
    /// Whether the last owner gave it back. Otherwise that owner may have sent requests to hosts
    /// after its last checkpoint, and their delays may have grown since.
    pub clean: bool,
    /// The state is in the first of these checkpoints that has the cell. If none has it, the cell
    /// is new.
    pub bases: Vec<Base>,
}

/// Why a session is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// It gave its cells back and ended.
    Left,
    /// Others have ended it, because it was silent for too long.
    Fenced,
    /// The broker has forgotten it.
    Forgotten,
    /// A live process has the same name.
    NameTaken,
}

/// The parameters of a session.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The machine's name.
    pub node: Node,
    /// A random number.
    pub secret: u64,
    /// The node's share of the cells.
    pub weight: f64,
    /// The cells of the cluster.
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
    /// Create its key.
    Begin,
    /// Renew its term, with this checkpoint.
    Renew {
        checkpoint: u64,
    },
    /// End its key.
    End,
    /// Read its key, which had this revision when asked.
    ReadOwn {
        known: Option<Revision>,
    },
    Take {
        cell: CellId,
        state: Inherited,
    },
    Give(CellId),
    /// Read the key of a cell that it owns, unless the cell is being given back.
    Confirm(CellId),
    /// Read the key of a cell that it does not own.
    ReadCell(CellId),
    /// Read the key of a cell that it kept.
    Reclaim(CellId),
    Fence(SessionId),
    /// Mark the job as done.
    Done,
}

#[derive(Debug, Clone)]
struct Pending {
    purpose: Purpose,
    sent: u64,
    /// How often its term had lapsed before the call.
    tenure: u64,
}

/// A cell that it owns.
#[derive(Debug)]
struct Hand {
    /// Of the cell's key.
    revision: Revision,
    /// When the call was made that last confirmed the cell as this session's.
    confirmed: u64,
    /// When its hosts may next be contacted.
    from: u64,
    giving: Giving,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Giving {
    No,
    /// The node was asked to stop.
    Asked,
    /// It has stopped; this checkpoint has the cell's final state.
    Stopped(u64),
}

/// One life of a node. Times are milliseconds of [`crate::clock::now`].
#[derive(Debug)]
pub struct Session {
    setting: Setting,
    id: SessionId,
    phase: Phase,
    /// The revision of its own key, as far as it knows.
    revision: Option<Revision>,
    beat: u64,
    /// When it began.
    begun: u64,
    /// When the call was made that last renewed its term.
    renewed: u64,
    /// When the next renewal is due.
    due: u64,
    /// Nothing is sent to the web before this time.
    from: u64,
    lapsed: bool,
    /// Whether it has read its key since its term lapsed.
    has_read: bool,
    /// How often its term has lapsed.
    tenure: u64,
    /// The last checkpoint that was made, and what was used as of it.
    made: u64,
    used: Amount,
    /// The cells whose state that checkpoint has in full.
    holds: Vec<CellId>,
    /// The last checkpoint that is in its key.
    committed: u64,
    is_leaving: bool,
    /// Whether the node has nothing to do.
    is_idle: bool,
    /// Since when it has had nothing to do.
    idle_since: Option<u64>,
    /// What the last look showed, and since when it has not changed.
    scene: Scene,
    scene_since: u64,
    /// The job's key, as the last look showed it.
    job: Option<(JobRecord, Revision)>,
    /// What it publishes about limits with the next renewal, and what it has published.
    claim: LimitClaim,
    published: Published,
    /// The claims of all sessions, from the last look that showed its own claim; `None` if there
    /// was none since its term lapsed.
    claims: Option<LimitClaims>,
    hands: BTreeMap<CellId, Hand>,
    /// Checkpoints with the final states of cells that it has given back since the last look was
    /// asked for, and when.
    released: Vec<(u64, u64)>,
    /// Whether it continues after a process that died.
    is_resumed: bool,
    /// The secrets that its key may hold until it has renewed it.
    before: BTreeSet<u64>,
    /// Cells that it kept, until their keys say who owns them.
    kept: BTreeMap<CellId, Revision>,
    others: Others,
    /// The cells' keys, as far as the last look showed them.
    table: BTreeMap<CellId, (CellRecord, Revision)>,
    /// Cells whose keys have changed since the last look.
    doubtful: BTreeSet<CellId>,
    /// When the look was asked for that filled the table.
    looked: Option<u64>,
    calls: BTreeMap<CallId, Pending>,
    /// Calls that the next step still has to return.
    asked: Vec<(CallId, Call)>,
    next_call: CallId,
    /// Whether there may be something to decide: a call was answered or given up, or the node
    /// changed something.
    is_stirred: bool,
    news: Vec<News>,
}

impl Session {
    /// A new session.
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

    /// A session that continues after its process died. It gets a new secret, so that of two
    /// machines with copies of one disk only the one that began last continues.
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

    /// Its identity; the number is 0 until it has a key.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// What has changed for the node since the last call.
    pub fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// Until when the node may write to the web; 0 if it may not.
    pub fn until(&self, now: u64) -> u64 {
        if self.phase != Phase::Live || self.lapsed || now < self.from {
            return 0;
        }
        let confirmed = self.hands.values().map(|hand| hand.confirmed);
        let oldest = confirmed.fold(self.renewed, u64::min);
        oldest + self.setting.terms.term
    }

    /// How often its term has lapsed. Requests that were begun before a lapse may no longer be
    /// sent.
    pub fn tenure(&self) -> u64 {
        self.tenure
    }

    /// When the quiet time of a cell that was taken ends. From then until [`Session::until`] its
    /// hosts may be contacted, unless the cell is being given back. The first request to each host
    /// waits longer, because another session may have sent one just before: it waits for the host's
    /// delay after this moment and after [`Session::resumed`]. If the cell was not given back
    /// cleanly, it waits for the longest possible delay after this moment.
    pub fn from(&self, cell: CellId) -> Option<u64> {
        self.hands.get(&cell).map(|hand| hand.from)
    }

    /// When the quiet time after the last lapse ends; 0 if there was no lapse.
    pub fn resumed(&self) -> u64 {
        self.from
    }

    /// The cells that it owns.
    pub fn cells(&self) -> impl Iterator<Item = CellId> + Clone {
        self.hands.keys().copied()
    }

    /// The last checkpoint that is committed.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Whether the broker has confirmed its key in this process.
    pub fn has_begun(&self) -> bool {
        self.phase == Phase::Live && self.revision.is_some() && !self.lapsed
    }

    /// Commits a checkpoint with the next renewal. Its number must be higher than the last, and it
    /// must have all cells of the session. `used` is what the session had used as of the
    /// checkpoint, of what the job may limit. `holds` are the cells whose state it has in full:
    /// cells that are still being loaded are not among them.
    pub fn commit(&mut self, checkpoint: u64, used: Amount, holds: Vec<CellId>, now: u64) {
        if checkpoint > self.made {
            (self.made, self.used, self.holds) = (checkpoint, used, holds);
        }
        self.due = self.due.min(now);
    }

    /// Gives a cell back: nothing more happens in it, and its final state is in this checkpoint.
    pub fn give(&mut self, cell: CellId, checkpoint: u64) {
        if let Some(hand) = self.hands.get_mut(&cell)
            && hand.giving == Giving::Asked
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

    /// Sets what the next renewal publishes: what the session has done, and what it may do.
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

    /// What to ask the broker now. Call it when something was answered, and otherwise every
    /// [`Terms::tick`].
    ///
    /// Whether to take a cell, give one back or end another session is decided when an answer or a
    /// change has come. Looks are answered every sixth of a term, so changes that are due to time
    /// alone are noticed at least that often.
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

    /// Gives up calls that have gone unanswered for too long.
    fn give_up(&mut self, now: u64) {
        let limit = self.setting.terms.call;
        // The first call is the oldest.
        while let Some(oldest) = self.calls.first_entry() {
            if now.saturating_sub(oldest.get().sent) < limit {
                return;
            }
            // There is time for only a few attempts in a term.
            if matches!(
                oldest.remove().purpose,
                Purpose::Renew { .. } | Purpose::ReadOwn { .. }
            ) {
                self.due = self.due.min(now);
            }
            self.is_stirred = true;
        }
    }

    /// Begins, takes cells and gives them back, and judges others, as far as is possible now.
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

    /// Processes an answer. An answer to an unknown call, because it was answered already or is too
    /// old, changes nothing.
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
        // A renewed term or a confirmed cell affects nothing else.
        let is_usual = matches!(purpose, Purpose::Confirm(_) | Purpose::Renew { .. });
        self.is_stirred |= !is_usual;
        match (purpose, answer) {
            (Purpose::Look, Ok(Answer::Seen(keys))) => self.see(now, sent, keys),
            (Purpose::Begin, Ok(Answer::Swapped(revision))) => {
                self.phase = Phase::Live;
                self.revision = Some(revision);
                self.renewed = sent;
            }
            // A look will show what is there instead.
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
            // The call is made again when it is due.
            (_, Err(_)) | (_, Ok(_)) => {}
        }
    }

    /// Whether it may judge others: it has heard from the broker recently.
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
