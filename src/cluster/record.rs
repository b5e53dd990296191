//! The keys by which the machines of a cluster coordinate, and their values.
//!
//! | key | value |
//! |---|---|
//! | `s.<node>.<number>` | a session: whether it is alive, and its last checkpoint |
//! | `c.<cell>` | who owns a cell, and where its state is |
//! | `job` | what all machines have in common, and whether the job is done |
//!
//! These three are [`Key`] and [`Value`]. Other modules keep further keys in the same bucket, which
//! [`Key::parse`] does not read: `status.<node>.<number>`, what a session reports for operators
//! ([`super::survey`]), and `wanted` with `list.<name>`, what all machines should do
//! ([`super::wanted`]).
//!
//! Values are JSON, so that an operator can read them with the tools of the broker. A value of a
//! later version may have more fields. A value that cannot be read is an error, and nothing is done
//! about its session or cell.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::limits::LimitClaim;
use crate::frontier::{Amount, CellCount, CellId};

/// The key of the job.
const JOB: &str = "job";
/// The most characters of a node's name.
const LONGEST_NAME: usize = 64;

/// The name of a machine, the same in all its sessions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Node(Arc<str>);

impl Node {
    /// A name of letters, digits, `-`, `_` and, except at its ends, `.`.
    ///
    /// # Errors
    /// [`WrongNode`] for any other name.
    pub fn new(name: &str) -> Result<Self, WrongNode> {
        let parts = name.split('.');
        let of_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        let is_right = parts.fold(true, |right, part| {
            right && !part.is_empty() && part.bytes().all(of_name)
        });
        if is_right && name.len() <= LONGEST_NAME {
            return Ok(Self(name.into()));
        }
        Err(WrongNode(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Node {
    type Error = WrongNode;

    fn try_from(name: String) -> Result<Self, WrongNode> {
        Self::new(&name)
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name that a node cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the node's name `{0}` cannot be used; write at most 64 letters, digits, `-` and `_`, with dots only between them"
)]
pub struct WrongNode(String);

/// One life of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId {
    /// The node.
    pub node: Node,
    /// Counts the lives of the node, from 1.
    pub number: u64,
}

impl SessionId {
    /// Parses its text form; `None` if the text is not one.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (node, number) = text.rsplit_once('.')?;
        let node = Node::new(node).ok()?;
        let number = number.parse().ok()?;
        Some(Self { node, number })
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.node, self.number)
    }
}

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It renews its term.
    Live,
    /// The same, and it gives its cells back.
    Leaving,
    /// Another session has ended it, because it was silent.
    Fenced,
    /// It has ended itself.
    Ended,
}

impl State {
    /// Whether it may own cells.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Live | Self::Leaving)
    }
}

/// The value of a session's key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Whether it is alive.
    pub state: State,
    /// A random number that distinguishes two processes with the same name.
    pub secret: u64,
    /// How often it has renewed its term.
    pub beat: u64,
    /// The number of its last checkpoint, 0 for none. What was done after it counts as not done.
    pub checkpoint: u64,
    /// The weight of its node when cells are shared out.
    pub weight: f64,
    /// Whether it has nothing to do, and nothing on its way to others.
    #[serde(default)]
    pub idle: bool,
    /// How many cells it owns. If it is idle, it has nothing to do in these.
    #[serde(default)]
    pub hands: u16,
    /// When it began, in milliseconds since 1970 by its own clock.
    #[serde(default)]
    pub begun: u64,
    /// What it had used as of its last checkpoint, of what the job may limit. Once the session has
    /// ended, this is final.
    #[serde(default)]
    pub used: Amount,
    /// What it has used by now, of what the job may limit, and what it may use.
    #[serde(default)]
    pub claim: LimitClaim,
    /// The cells whose state its last checkpoint has in full: their older checkpoints are no longer
    /// needed. Empty if that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<CellId>,
}

impl SessionRecord {
    /// A session of a node of weight 1 that has done nothing yet and owns no cells.
    pub fn new(state: State, secret: u64) -> Self {
        Self {
            state,
            secret,
            beat: 0,
            checkpoint: 0,
            weight: 1.0,
            idle: false,
            hands: 0,
            begun: 0,
            used: Amount::default(),
            claim: LimitClaim::default(),
            holds: Vec::new(),
        }
    }
}

/// Whether a job continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobPhase {
    /// It continues.
    Run,
    /// Nothing was left to do; all sessions end.
    Done,
}

/// What all machines of a job have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// How many cells there are: fixed by the first machine.
    pub cells: u16,
    /// Whether it continues.
    pub phase: JobPhase,
    /// The layout of all keys.
    #[serde(default)]
    pub layout: u32,
}

/// The layout of keys that this version writes.
pub const LAYOUT: u32 = 1;

/// Where the state of a cell is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// The session that made the checkpoint.
    pub session: SessionId,
    /// The checkpoint's number.
    pub checkpoint: u64,
}

/// The value of a cell's key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CellRecord {
    /// The session that owns it.
    pub owner: Option<SessionId>,
    /// The owner's checkpoints up to this number were begun before it took the cell. If they have
    /// the cell, they have an earlier state of it.
    pub after: u64,
    /// Its state when it was taken or given back is in the first of these checkpoints that has the
    /// cell. If none has it, the cell is new.
    pub bases: Vec<Base>,
}

impl CellRecord {
    /// Whether the owner's last checkpoint, which has these cells in full, was made after it took
    /// the cell and has it. Then the bases are no longer needed.
    pub fn is_saved_since(&self, cell: CellId, checkpoint: u64, holds: &[CellId]) -> bool {
        checkpoint > self.after && holds.contains(&cell)
    }
}

/// A key that sessions use to coordinate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A session's key.
    Session(SessionId),
    /// A cell's key.
    Cell(CellId),
    /// The job's key.
    Job,
}

impl Key {
    /// Parses a key; `None` if it is of another kind, or names a cell that does not exist.
    pub fn parse(text: &str, cells: CellCount) -> Option<Self> {
        if text == JOB {
            return Some(Self::Job);
        }
        let (kind, rest) = text.split_once('.')?;
        match kind {
            "s" => SessionId::parse(rest).map(Self::Session),
            "c" => cells.cell(rest.parse().ok()?).map(Self::Cell),
            _ => None,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(id) => write!(f, "s.{id}"),
            Self::Cell(cell) => write!(f, "c.{}", cell.number()),
            Self::Job => f.write_str(JOB),
        }
    }
}

/// The value of a [`Key`].
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A session's value.
    Session(SessionRecord),
    /// A cell's value.
    Cell(CellRecord),
    /// The job's value.
    Job(JobRecord),
}

impl Value {
    /// Encodes the value for the broker.
    ///
    /// # Errors
    /// If JSON cannot represent it: a weight that is not a number.
    pub fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        match self {
            Self::Session(record) => serde_json::to_vec(record),
            Self::Cell(record) => serde_json::to_vec(record),
            Self::Job(record) => serde_json::to_vec(record),
        }
    }

    /// Decodes the value of a key.
    ///
    /// # Errors
    /// If it is not a value of that kind.
    pub fn of(key: &Key, bytes: &[u8]) -> Result<Self, serde_json::Error> {
        match key {
            Key::Session(_) => serde_json::from_slice(bytes).map(Self::Session),
            Key::Cell(_) => serde_json::from_slice(bytes).map(Self::Cell),
            Key::Job => serde_json::from_slice(bytes).map(Self::Job),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        let cells = CellCount::new(8).unwrap();
        for text in ["s.crawler-3.1", "s.a.example.org.12", "c.0", "c.7", "job"] {
            let key = Key::parse(text, cells).unwrap();
            assert_eq!(key.to_string(), text);
        }
        for text in [
            "", "jobs", "s.1", "s..1", "s.a.", "s.a.-1", "c.8", "c.x", "x.1", "s.a b.1",
        ] {
            assert_eq!(Key::parse(text, cells), None, "{text}");
        }
    }

    #[test]
    fn names_that_no_key_can_have_are_refused() {
        for name in ["a", "crawler-3", "n1.example.org", "A_b"] {
            assert_eq!(Node::new(name).unwrap().as_str(), name);
        }
        let long = "a".repeat(65);
        for name in ["", ".", ".a", "a.", "a..b", "a b", "a*", "a>", "ä", &long] {
            let wrong = Node::new(name).unwrap_err().to_string();
            assert!(wrong.contains(name), "{wrong}");
        }
    }

    #[test]
    fn values_are_read_as_they_are_written_and_may_have_more_fields() {
        let node = Node::new("n1").unwrap();
        let session = SessionId { node, number: 3 };
        let key = Key::Session(session.clone());
        let value = Value::Session(SessionRecord {
            state: State::Leaving,
            secret: u64::MAX,
            beat: 7,
            checkpoint: 2,
            weight: 1.5,
            idle: true,
            hands: 3,
            begun: 5,
            used: Amount {
                documents: 1,
                fetches: 2,
                bytes: u64::MAX,
            },
            claim: LimitClaim {
                wants: true,
                ..LimitClaim::default()
            },
            holds: CellCount::ONE.all().collect(),
        });
        let bytes = value.to_bytes().unwrap();
        assert_eq!(Value::of(&key, &bytes).unwrap(), value);
        let text = String::from_utf8(bytes).unwrap();
        let later = text.replacen('{', "{\"more\":1,", 1);
        assert_eq!(Value::of(&key, later.as_bytes()).unwrap(), value);

        let cell = Key::Cell(CellCount::ONE.cell(0).unwrap());
        let value = Value::Cell(CellRecord {
            owner: Some(session.clone()),
            after: 1,
            bases: vec![Base {
                session,
                checkpoint: 4,
            }],
        });
        let bytes = value.to_bytes().unwrap();
        assert_eq!(Value::of(&cell, &bytes).unwrap(), value);
        for wrong in [
            "",
            "{}",
            "null",
            "{\"owner\":{\"node\":\"*\",\"number\":1},\"after\":0,\"bases\":[]}",
        ] {
            assert!(Value::of(&cell, wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
