//! Several machines that crawl one job: which machine owns which hosts, for how long, and how
//! links reach the owner of their host.
//!
//! Hosts are divided into [cells](crate::frontier::CellCount). Each cell belongs to one
//! [`Session`] at a time; a session is one life of one machine. Ownership is recorded in a few
//! keys at a broker, which change only by compare-and-set (`record`). A session may write to the
//! web only during its term, which it renews with the broker by its own clock; the connection
//! itself checks the term ([`crate::fetch::Term`]). So two machines never send requests to one
//! host at the same time, even when processes stop, messages are late, the network is cut or the
//! broker forgets its last writes; `session` says why.
//!
//! | part | one line |
//! |---|---|
//! | `record` | the keys of sessions, cells and the job, and their values |
//! | `shares` | which node should own which cell |
//! | `session` | one life of a node: its term, taking cells and giving them back; pure |
//! | `drive` | connects a session to an engine and a clock |
//! | `limits` | limits that hold for all machines together |
//! | `wanted` | what all machines should do: one state that an operator changes |
//! | `shared_settings` | the configuration and the model that all machines share |
//! | `links` | links to the cells of other machines: sent, read, and cut from the logs |
//! | `lessons` | what pages taught, learned by all machines in one order |
//! | `packed` | the encoding of messages, with bounds on their size |
//! | `clocks` | when the next request to an IP address may start, over all machines; pure |
//! | `node` | one machine of a cluster: session, cells, links and checkpoints put together |
//! | `survey` | all keys at one moment, for an operator |
//! | `trouble` | warnings that the broker does not answer, at most one a minute |
//! | `nats` | the engine on NATS JetStream |
//!
//! `tests` has two more engines, for tests only: `alone` keeps its keys in memory, in the table
//! `versioned`, and has no other machine; `scripted` loses, delays and refuses calls as a test
//! asks. A machine that crawls alone has no engine at all.
//!
//! How the states of cells travel, and what to fetch next, is decided elsewhere: `node` connects
//! this crate to the frontier, the checkpoints and the crawl.
//!
//! # Five ways to communicate, and which one a new message should take
//!
//! | way | what it is for |
//! |---|---|
//! | keys of sessions and cells (`record`) | who has what |
//! | the key `wanted` and its lists (`wanted`) | what the operator says to all machines |
//! | a log for each cell (`links`) | something for the one machine that owns a host |
//! | the log `lessons` (`lessons`) | what all machines learn, in one order |
//! | questions and answers (`clocks`) | asking the owner now; the broker stores nothing |
//!
//! What a new kind of message needs:
//!
//! - Keys: a field with `#[serde(default)]` in [`SessionRecord`], [`CellRecord`] or
//!   [`JobRecord`]; for a new key, a variant of [`Key`] and of [`Value`].
//! - `wanted`: a field with `#[serde(default)]` in [`WantedState`](wanted::WantedState), or in
//!   [`WantedList`](wanted::WantedList) for what grows without bound; a field of
//!   [`WantedErrand`](node::WantedErrand) and a step in `node/wanted.rs` if the frontier has to
//!   apply it; and `src/daemon/control/wanted.rs`, which writes the state and applies it.
//! - `links`: a variant of `Referred` in `src/frontier/referral.rs`; its check on arrival in
//!   `src/frontier/cells/outbox.rs` (`check`); what it does in `src/frontier/cells/delivery.rs`
//!   and, for images, in `src/frontier/images/mod.rs`; and a higher `VERSION` in
//!   `links/envelope.rs`.
//! - `lessons`: the new content in `SharedLesson` of the frontier, and a higher `VERSION` in
//!   `lessons.rs`.
//! - `clocks`: a variant of [`Wish`](clocks::Wish) or of [`Reply`](clocks::Reply), a higher
//!   `VERSION` in `clocks.rs`, and both ends of the exchange in `node/addresses.rs`.
//!
//! The first two are JSON: a machine of an older version ignores fields that it does not know,
//! and drops them when it replaces the value. The other three are postcard behind a version
//! number, and a machine refuses messages of any version but its own.

// Tests name their own files.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

#[cfg(test)]
#[path = "tests/alone.rs"]
mod alone;
pub mod clocks;
mod drive;
pub mod lessons;
mod limits;
pub mod links;
mod nats;
pub mod node;
mod packed;
mod record;
#[cfg(test)]
#[path = "tests/scripted.rs"]
pub(crate) mod scripted;
mod session;
pub mod shared_settings;
mod shares;
mod survey;
mod trouble;
#[cfg(test)]
#[path = "tests/versioned.rs"]
mod versioned;
pub mod wanted;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

#[cfg(test)]
pub use self::alone::Alone;
pub use self::drive::{Driver, Handle, SessionCommand, Standing};
pub use self::limits::{Ceiling, LimitClaim, LimitClaims};
pub use self::nats::{Nats, Place, silent_servers};
pub use self::record::{
    Base, CellRecord, JobPhase, JobRecord, Key, LAYOUT, Node, SessionId, SessionRecord, State,
    Value, WrongNode,
};
pub use self::session::{
    Answer, Call, CallId, Inherited, Kept, LONGEST_TERM, Needed, News, Over, SHORTEST_TERM,
    Session, Setting, Terms,
};
pub use self::shares::heir;
pub use self::survey::{Survey, status_key};

/// Identifies one value of a key. It grows with every change of any key, unless the broker forgets
/// its last writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Revision(pub u64);

/// Why an engine did not do what it was asked to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The value is not the one that the caller expected. This call changed nothing.
    #[error("the value has changed since it was read")]
    Stale,
    /// There was no answer, so it is unknown whether the call took effect.
    #[error("{to}: {what} failed: {why}")]
    Failed {
        /// The broker.
        to: String,
        /// What was attempted.
        what: &'static str,
        /// The problem.
        why: String,
    },
    /// The broker cannot be used until something is changed; trying again does not help.
    #[error("{to}: {why}")]
    Unusable {
        /// The broker.
        to: String,
        /// The problem.
        why: String,
    },
}

impl EngineError {
    /// Whether trying again may help.
    pub fn may_pass(&self) -> bool {
        !matches!(self, Self::Unusable { .. })
    }
}

/// The value of a key with its revision; `None` if there is no value.
pub type Entry = Option<(Vec<u8>, Revision)>;

/// A key with its value and revision.
pub type Keyed = (String, Vec<u8>, Revision);

/// A change of a key that is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The key now has this value.
    Set(String, Vec<u8>, Revision),
    /// The key is gone.
    Gone(String),
    /// All values that existed when the watch began have now been sent.
    Whole,
}

/// A question from another machine. If it is dropped, it gets no answer.
#[derive(Debug)]
pub struct Question {
    /// The bytes of the question.
    pub body: Bytes,
    reply: oneshot::Sender<Bytes>,
}

impl Question {
    /// A question, and the channel on which its answer arrives.
    fn new(body: Bytes) -> (Self, oneshot::Receiver<Bytes>) {
        let (reply, answer) = oneshot::channel();
        (Self { body, reply }, answer)
    }

    /// Answers it.
    pub fn answer(self, body: Bytes) {
        // The other side may have given up.
        drop(self.reply.send(body));
    }
}

/// What connects the machines of a job. The call of a future that is dropped may have taken
/// effect, may take effect later, or never.
pub trait Engine: Send + Sync + 'static {
    /// The value of a key: the current one, or one that replaces it during the call.
    fn get(&self, key: &str) -> impl Future<Output = Result<Entry, EngineError>> + Send;

    /// Replaces the value of a key if its revision is still `was`; for `None`, if there is none.
    fn swap(
        &self,
        key: &str,
        value: Vec<u8>,
        was: Option<Revision>,
    ) -> impl Future<Output = Result<Revision, EngineError>> + Send;

    /// All keys with their values: current ones, or ones that replace them during the call.
    fn all(&self) -> impl Future<Output = Result<Vec<Keyed>, EngineError>> + Send {
        drive::all_by_watch(self)
    }

    /// The value of this key, or of all keys, and then their changes, until the connection to the
    /// broker is lost.
    fn watch(
        &self,
        key: Option<&str>,
    ) -> impl Future<Output = Result<mpsc::Receiver<Change>, EngineError>> + Send;

    /// Appends a message to a log, and returns when it is stored. A second message with the same
    /// `id` within two minutes is not stored.
    fn send(
        &self,
        log: &str,
        id: &str,
        message: Bytes,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// The messages of a log with numbers above `after` in order, and then new ones as they come,
    /// until the connection to the broker is lost.
    fn read(
        &self,
        log: &str,
        after: u64,
    ) -> impl Future<Output = Result<mpsc::Receiver<(u64, Bytes)>, EngineError>> + Send;

    /// The number of the last message that was stored in a log; 0 if there was none.
    fn last(&self, log: &str) -> impl Future<Output = Result<u64, EngineError>> + Send;

    /// Removes the messages of a log up to this number.
    fn cut(&self, log: &str, up_to: u64) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Asks the machine that answers for a subject. Neither question nor answer is stored.
    fn ask(
        &self,
        subject: &str,
        body: Bytes,
    ) -> impl Future<Output = Result<Bytes, EngineError>> + Send;

    /// The questions for a subject, until the receiver is dropped. A question that waits too long
    /// is lost, and the asking side gets an error.
    fn answer(
        &self,
        subject: &str,
    ) -> impl Future<Output = Result<mpsc::Receiver<Question>, EngineError>> + Send;
}

#[cfg(test)]
use spoor_config as config;
use spoor_values::{address, clock, fs, page, progress};
use {
    spoor_crawl as crawl, spoor_fetch as fetch, spoor_frontier as frontier,
    spoor_settings as settings, spoor_topic as topic, spoor_web as web,
};
