//! What an operator told one machine, for all machines of the cluster: a log at the broker.
//!
//! An order is appended once, and every machine reads all orders in the order of the log, from
//! its beginning whenever its process begins. So the log is the only place where an order has
//! to survive, and a machine that was off, frozen or lost misses none. To apply an order twice
//! is harmless. The log is never cut; it goes with everything else of the job.
//!
//! A message is JSON, so that an operator can read it with the tools of the broker. One that
//! cannot be read, because it is damaged or of a later version, is passed over. The log has no
//! limit: messages that are no orders, however many, keep nobody from giving one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::timeout;

use super::{Engine, EngineError};
use crate::web::scope::{self, Target};

/// The name of the log.
pub const LOG: &str = "orders";
/// The version of the messages that this version writes.
const VERSION: u32 = 1;
/// The most bytes of a message. Brokers take 1 MiB with its headers.
const MOST_BYTES: usize = (1 << 20) - 4096;
/// The kinds of [`Act`].
const KINDS: [&str; 6] = ["set", "reload", "pause", "resume", "seeds", "takedown"];
/// How long the next message of a log is waited for that has one.
const PATIENCE: Duration = Duration::from_secs(10);
/// How soon it is told again that messages are passed over.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// An order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    version: u32,
    /// Tells it from all others, also if it is sent twice.
    pub id: String,
    /// Who gave it.
    pub by: String,
    /// The machine that was told.
    pub node: String,
    /// When, RFC 3339 in UTC by the clock of that machine.
    pub time: String,
    /// What to do.
    #[serde(flatten)]
    pub act: Act,
}

/// What all machines are to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Act {
    /// Change single keys.
    Set {
        /// Full keys with their values; null removes one.
        values: BTreeMap<String, Value>,
    },
    /// Apply a job file.
    Reload {
        /// The file, without what belongs to one machine.
        file: String,
        /// The SHA-256 of the model that goes with it.
        #[serde(default)]
        model: Option<String>,
    },
    /// Ask nothing more until they are resumed.
    Pause,
    /// Go on after a pause.
    Resume,
    /// Fetch these addresses before all others.
    Seeds {
        /// The addresses.
        urls: Vec<String>,
    },
    /// Never fetch these again.
    Takedown {
        /// What.
        targets: Vec<Target>,
        /// Why, in the operator's words.
        #[serde(default)]
        reason: Option<String>,
    },
}

/// Why a message is no order that this machine can apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// It is too long to be sent.
    #[error(
        "the order has {bytes} bytes, and the brokers take {MOST_BYTES}; give it in several parts"
    )]
    Long {
        /// Its length.
        bytes: usize,
    },
    /// It is of a later version.
    #[error("this version of spoor does not know orders of the kind `{0}`; update this machine")]
    Kind(String),
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Damaged(String),
}

impl Order {
    /// An order.
    pub fn new(id: String, by: String, node: String, time: String, act: Act) -> Self {
        Self {
            version: VERSION,
            id,
            by,
            node,
            time,
            act,
        }
    }

    /// The message.
    ///
    /// # Errors
    /// [`OrderError::Long`] where no broker would take it.
    pub fn to_bytes(&self) -> Result<Bytes, OrderError> {
        let bytes = serde_json::to_vec(self).map_err(|e| OrderError::Damaged(e.to_string()))?;
        match bytes.len() {
            bytes if bytes > MOST_BYTES => Err(OrderError::Long { bytes }),
            _ => Ok(bytes.into()),
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`OrderError`] where it is none of ours.
    pub fn of(bytes: &[u8]) -> Result<Self, OrderError> {
        if bytes.len() > MOST_BYTES {
            let bytes = bytes.len();
            return Err(OrderError::Long { bytes });
        }
        let damaged = |error: serde_json::Error| OrderError::Damaged(error.to_string());
        let value: Value = serde_json::from_slice(bytes).map_err(damaged)?;
        let kind = value.get("kind").and_then(Value::as_str).unwrap_or("");
        let version = value.get("version").and_then(Value::as_u64);
        let is_later = version.is_some_and(|version| version > u64::from(VERSION));
        if is_later || !KINDS.contains(&kind) {
            return Err(OrderError::Kind(kind.chars().take(40).collect()));
        }
        serde_json::from_value(value).map_err(damaged)
    }

    /// What it takes down, as lines of a job's list.
    pub fn takedowns(&self) -> impl Iterator<Item = scope::Order> {
        let (targets, reason) = match &self.act {
            Act::Takedown { targets, reason } => (targets.as_slice(), reason.as_ref()),
            _ => (&[] as &[Target], None),
        };
        targets.iter().map(move |target| scope::Order {
            time: self.time.clone(),
            target: target.clone(),
            reason: reason.cloned(),
        })
    }
}

/// Messages of the log that are no orders for this machine, told once a minute at most: whoever
/// reaches the brokers can append as many as they like.
#[derive(Debug, Default)]
pub struct PassedOver {
    told: Option<Instant>,
    untold: u64,
}

impl PassedOver {
    /// Takes note of one.
    pub fn note(&mut self, number: u64, error: &OrderError) {
        if self.told.is_some_and(|told| told.elapsed() < TELL_AGAIN) {
            self.untold += 1;
            return;
        }
        let before = match self.untold {
            0 => String::new(),
            untold => format!("; so were {untold} before it"),
        };
        tracing::warn!("order {number} of the cluster is passed over: {error}{before}");
        *self = Self {
            told: Some(Instant::now()),
            untold: 0,
        };
    }
}

/// All orders that are in the log now, with their numbers. What cannot be read is passed over.
///
/// # Errors
/// [`EngineError`] where the broker does not answer.
pub async fn all(engine: &impl Engine) -> Result<Vec<(u64, Order)>, EngineError> {
    let last = engine.last(LOG).await?;
    let mut orders = Vec::new();
    if last == 0 {
        return Ok(orders);
    }
    let mut messages = engine.read(LOG, 0).await?;
    let mut passed_over = PassedOver::default();
    loop {
        let next = timeout(PATIENCE, messages.recv()).await;
        let Ok(Some((number, message))) = next else {
            return Err(EngineError::Failed {
                to: "the broker".to_owned(),
                what: "reading the orders",
                why: "it ended before all were told".to_owned(),
            });
        };
        match Order::of(&message) {
            Ok(order) => orders.push((number, order)),
            Err(error) => passed_over.note(number, &error),
        }
        if number >= last {
            return Ok(orders);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::told::Told;
    use super::*;
    use serde_json::json;

    fn order(act: Act) -> Order {
        let [id, by, node, time] = ["7f", "socket, user 0", "n1", "2026-01-02T03:04:05.000Z"];
        Order::new(id.into(), by.into(), node.into(), time.into(), act)
    }

    #[test]
    fn orders_are_read_as_they_are_written_and_may_have_more_fields() {
        let url = Target::Url(crate::address::PageUrl::parse("http://a.test/x").unwrap());
        let host = Target::Host("*.b.test".parse().unwrap());
        let acts = [
            Act::Set {
                values: BTreeMap::from([("limits.documents".to_owned(), json!(7))]),
            },
            Act::Reload {
                file: "[job]\nname = \"x\"\n".to_owned(),
                model: Some("ab".to_owned()),
            },
            Act::Pause,
            Act::Resume,
            Act::Seeds {
                urls: vec!["http://a.test/".to_owned()],
            },
            Act::Takedown {
                targets: vec![url, host],
                reason: Some("asked".to_owned()),
            },
        ];
        for (act, kind) in acts.into_iter().zip(KINDS) {
            let order = order(act);
            let bytes = order.to_bytes().unwrap();
            assert_eq!(Order::of(&bytes).unwrap(), order);
            let mut value: Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(value["kind"], kind);
            value["more"] = json!({"a": 1});
            assert_eq!(Order::of(value.to_string().as_bytes()).unwrap(), order);
            for end in 0..bytes.len() {
                assert!(Order::of(&bytes[..end]).is_err());
            }
        }
    }

    #[test]
    fn what_is_of_a_later_version_or_too_long_is_no_order() {
        let mut value = serde_json::to_value(order(Act::Pause)).unwrap();
        value["kind"] = json!("dance");
        let unknown = Order::of(value.to_string().as_bytes()).unwrap_err();
        assert_eq!(unknown, OrderError::Kind("dance".to_owned()));
        value["kind"] = json!("pause");
        value["version"] = json!(VERSION + 1);
        let later = Order::of(value.to_string().as_bytes()).unwrap_err();
        assert_eq!(later, OrderError::Kind("pause".to_owned()));
        let long = order(Act::Seeds {
            urls: vec!["x".repeat(MOST_BYTES)],
        });
        assert!(matches!(long.to_bytes(), Err(OrderError::Long { .. })));
        let bytes = serde_json::to_vec(&long).unwrap();
        assert!(matches!(Order::of(&bytes), Err(OrderError::Long { .. })));
    }

    #[tokio::test]
    async fn all_orders_are_read_but_for_those_that_nobody_knows() {
        let told = Told::default();
        assert_eq!(all(&told).await.unwrap(), []);
        let (pause, resume) = (order(Act::Pause), order(Act::Resume));
        told.send(LOG, "a", pause.to_bytes().unwrap())
            .await
            .unwrap();
        told.send(LOG, "b", "{}".into()).await.unwrap();
        told.send(LOG, "c", resume.to_bytes().unwrap())
            .await
            .unwrap();
        assert_eq!(all(&told).await.unwrap(), [(1, pause), (3, resume)]);
    }
}
