//! Several machines that crawl one job: who asks which hosts, until when, and how links reach
//! their hosts.
//!
//! Hosts fall into [cells](crate::frontier::CellCount). A cell is one [`Session`]'s at
//! a time; a session is one life of one machine. Who has what is written in a few keys of a
//! broker, which are changed by compare-and-set only (`record`). A session may write to the
//! web only during its term, which it renews with the broker by its own clock; the check is
//! in the connection ([`crate::fetch::Term`]). So two machines never ask one host at a
//! time, whatever is stopped, slow, cut off or forgotten; `session` says why.
//!
//! | part | one line |
//! |---|---|
//! | `record` | keys and values |
//! | `versioned` | values that are replaced by compare-and-set, in memory |
//! | `shares` | which node should have which cell |
//! | `session` | one life of a node: term, taking and giving cells; pure |
//! | `drive` | a session, an engine and a clock put together |
//! | `limits` | limits of all machines together |
//! | `wanted` | what all machines are to do: one state that an operator changes |
//! | `shared_settings` | the configuration and the model that all machines have |
//! | `links` | links to the cells of other machines: sent, read and cut |
//! | `lessons` | what pages taught, learned by all machines in one order |
//! | `packed` | the bytes of messages, within bounds |
//! | `clocks` | when an IP address may be asked next, over all machines; pure |
//! | `survey` | all keys at a moment, for an operator |
//! | `trouble` | what the broker does not do, told from time to time |
//! | `alone` | the engine of a machine that crawls alone |
//! | `nats` | the engine on NATS JetStream, in builds with the feature `nats` |
//! | `told` | an engine for tests, which does what it is told |
//!
//! How the states of cells travel, and what is asked next are no matter of this module:
//! [`crate::node`] puts it together with a crawl.

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
mod session;
pub mod shared_settings;
mod shares;
mod survey;
#[cfg(test)]
#[path = "tests/told.rs"]
pub(crate) mod told;
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
pub use self::drive::{Driver, Handle, Order, Standing};
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

/// Tells two values of a key from each other; grows with every change of any key, unless the
/// broker forgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Revision(pub u64);

/// Why an engine did not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The value is not what the caller took it for; nothing was changed by this call.
    #[error("the value has changed meanwhile")]
    Stale,
    /// There is no answer; whether it was done is unknown.
    #[error("{to}: {what} failed: {why}")]
    Failed {
        /// The broker.
        to: String,
        /// What was attempted.
        what: &'static str,
        /// The problem.
        why: String,
    },
    /// The broker cannot be used as it is, however often it is tried.
    #[error("{to}: {why}")]
    Unusable {
        /// The broker.
        to: String,
        /// The problem.
        why: String,
    },
}

impl EngineError {
    /// Whether it may pass by itself.
    pub fn may_pass(&self) -> bool {
        !matches!(self, Self::Unusable { .. })
    }
}

/// A key's value and which it is; `None` where there is none.
pub type Entry = Option<(Vec<u8>, Revision)>;

/// A key with its value and which it is.
pub type Keyed = (String, Vec<u8>, Revision);

/// A change of a key that is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It has this value now.
    Set(String, Vec<u8>, Revision),
    /// It is gone.
    Gone(String),
    /// All values that were there when the watch began have been told.
    Whole,
}

/// A question of another machine. One that is dropped has no answer.
#[derive(Debug)]
pub struct Question {
    /// What is asked.
    pub body: Bytes,
    reply: oneshot::Sender<Bytes>,
}

impl Question {
    /// A question, and where its answer comes.
    fn new(body: Bytes) -> (Self, oneshot::Receiver<Bytes>) {
        let (reply, answer) = oneshot::channel();
        (Self { body, reply }, answer)
    }

    /// Answers it.
    pub fn answer(self, body: Bytes) {
        // Whoever asked may have given up.
        drop(self.reply.send(body));
    }
}

/// What connects the machines of a job. A future that is dropped may have done its work, or
/// not, or does it later.
pub trait Engine: Send + Sync + 'static {
    /// The value of a key, as it is now or later.
    fn get(&self, key: &str) -> impl Future<Output = Result<Entry, EngineError>> + Send;

    /// Replaces the value of a key if it is still `was`: for `None`, if there is none.
    fn swap(
        &self,
        key: &str,
        value: Vec<u8>,
        was: Option<Revision>,
    ) -> impl Future<Output = Result<Revision, EngineError>> + Send;

    /// All keys with their values, as they are now or later.
    fn all(&self) -> impl Future<Output = Result<Vec<Keyed>, EngineError>> + Send {
        drive::all_by_watch(self)
    }

    /// This key, or all keys, and then their changes, until the broker is lost.
    fn watch(
        &self,
        key: Option<&str>,
    ) -> impl Future<Output = Result<mpsc::Receiver<Change>, EngineError>> + Send;

    /// Appends a message to a log; returns when it is stored. A message with the same `id`
    /// within two minutes is not stored again.
    fn send(
        &self,
        log: &str,
        id: &str,
        message: Bytes,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// The messages of a log with numbers above `after`, in their order, and those that
    /// come, until the broker is lost.
    fn read(
        &self,
        log: &str,
        after: u64,
    ) -> impl Future<Output = Result<mpsc::Receiver<(u64, Bytes)>, EngineError>> + Send;

    /// The number of the last message that is stored in a log; 0 where there was none.
    fn last(&self, log: &str) -> impl Future<Output = Result<u64, EngineError>> + Send;

    /// Removes the messages of a log up to this number.
    fn cut(&self, log: &str, up_to: u64) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Asks whoever answers for a subject. Neither the question nor the answer is stored.
    fn ask(
        &self,
        subject: &str,
        body: Bytes,
    ) -> impl Future<Output = Result<Bytes, EngineError>> + Send;

    /// The questions for a subject, until the receiver is dropped. A question that waits too
    /// long is lost, and whoever asked is told so.
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
