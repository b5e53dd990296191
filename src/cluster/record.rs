//! What the machines of a cluster know of each other: a few keys and their values.
//!
//! | key | value |
//! |---|---|
//! | `s.<node>.<number>` | a session: whether it lives, and its last checkpoint |
//! | `c.<cell>` | who has a cell, and where its state is |
//! | `job` | what all machines have in common, and whether the job is done |
//! | `status.<node>.<number>` | what a session says of itself, for operators ([`super::survey`]) |
//! | `wanted`, `list.<name>` | what all machines are to do ([`super::wanted`]) |
//!
//! Values are JSON, so that an operator can read them with the tools of the broker. A value
//! of a later version may have more fields; one that cannot be read is an error, and what
//! it is about is left alone.

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
    /// A name of letters, digits, `-`, `_` and, not at its ends, `.`.
    ///
    /// # Errors
    /// [`WrongNode`].
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
    /// Whose it is.
    pub node: Node,
    /// Which of its lives, from 1.
    pub number: u64,
}

impl SessionId {
    /// Reads it as it is written; `None` where it is none.
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

/// What can be said of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It renews its term.
    Live,
    /// The same, and it gives its cells back.
    Leaving,
    /// Another one has ended it, because nothing was heard of it.
    Fenced,
    /// It has ended itself.
    Ended,
}

impl State {
    /// Whether it may have cells.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Live | Self::Leaving)
    }
}

/// The value of a session's key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// What can be said of it.
    pub state: State,
    /// Drawn when it began: tells two processes with one name from each other.
    pub secret: u64,
    /// How often it has renewed its term.
    pub beat: u64,
    /// The number of its last checkpoint, 0 for none. What it did later counts as not done.
    pub checkpoint: u64,
    /// Its node's share of the cells, compared with the shares of others.
    pub weight: f64,
    /// Whether it has nothing to do, and nothing on its way to others.
    #[serde(default)]
    pub idle: bool,
    /// How many cells it has: one that is idle has nothing to do in these.
    #[serde(default)]
    pub hands: u16,
    /// When it began, in milliseconds since 1970 by its own clock.
    #[serde(default)]
    pub begun: u64,
    /// What it had done as of its last checkpoint of what the job may limit. As of its end this
    /// is final.
    #[serde(default)]
    pub used: Amount,
    /// What it has done by now of what the job may limit, and may do.
    #[serde(default)]
    pub claim: LimitClaim,
    /// The cells that its last checkpoint has whole: older checkpoints of these are needed no
    /// longer. Empty where that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<CellId>,
}

impl SessionRecord {
    /// A session that has done nothing yet and has no cells, of an ordinary node.
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

/// Whether a job goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobPhase {
    /// It does.
    Run,
    /// Nothing was left to do: all sessions end.
    Done,
}

/// What all machines of a job have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// How many cells there are: fixed by the first machine.
    pub cells: u16,
    /// Whether it goes on.
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
    /// Whose checkpoint it is.
    pub session: SessionId,
    /// The checkpoint's number.
    pub checkpoint: u64,
}

/// The value of a cell's key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CellRecord {
    /// Who has it.
    pub owner: Option<SessionId>,
    /// The owner's checkpoints up to this one were begun before it took the cell: if they
    /// have it, then as it was an earlier time.
    pub after: u64,
    /// Its state when it was taken or given back is in the first of these that has it. Where
    /// there is none, it is a new cell.
    pub bases: Vec<Base>,
}

impl CellRecord {
    /// Whether the last checkpoint of its owner, which has these cells whole, has it as it was
    /// since it was taken: then nobody needs its bases.
    pub fn is_saved_since(&self, cell: CellId, checkpoint: u64, holds: &[CellId]) -> bool {
        checkpoint > self.after && holds.contains(&cell)
    }
}

/// The name of a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// Of a session.
    Session(SessionId),
    /// Of a cell.
    Cell(CellId),
    /// Of the job.
    Job,
}

impl Key {
    /// Reads a key; `None` where it is none of ours, or names a cell that does not exist.
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

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Of a session.
    Session(SessionRecord),
    /// Of a cell.
    Cell(CellRecord),
    /// Of the job.
    Job(JobRecord),
}

impl Value {
    /// The value as it is stored.
    ///
    /// # Errors
    /// Where JSON cannot hold it: a weight that is no number.
    pub fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        match self {
            Self::Session(record) => serde_json::to_vec(record),
            Self::Cell(record) => serde_json::to_vec(record),
            Self::Job(record) => serde_json::to_vec(record),
        }
    }

    /// Reads the value of a key.
    ///
    /// # Errors
    /// Where it is not one of ours.
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
