//! The engine on NATS JetStream.
//!
//! The keys of a job are a bucket of its own: a stream that keeps one message for each subject. It
//! is read only through its leader, because followers may lag behind. A log is a stream. Everything
//! is stored in files, by as many servers as [`Place::replicas`] says.
//!
//! # What to know about NATS
//!
//! - The client keeps what it could not send without a connection, and sends it after it has
//!   reconnected. So a call that failed may still take effect.
//! - A compare-and-set can be refused although no other client wrote.
//! - Consumers do not survive the server that holds them, and readers are not always notified. So
//!   reading ends at the first error or silence, and the reader starts again.
//! - Servers before 2.10 give answers that this client cannot decode, and cannot store each message
//!   at once, so they are refused.
//!
//! This module and `operator`, which acts on all data of a job at once, are the only users of the
//! crate async-nats.

mod operator;
mod servers;

use std::future::IntoFuture;
use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::context::{CreateStreamErrorKind, PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, LastRawMessageErrorKind, StorageType, Stream,
};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectErrorKind, ConnectOptions};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::timeout;

pub use self::servers::silent_servers;
use super::{Change, Engine, EngineError, Entry, Keyed, Question, Revision};

/// The oldest version of a server that is accepted.
const OLDEST: (u32, u32) = (2, 10);
/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a consumer may be silent before the server is asked whether it still exists.
const SILENCE: Duration = Duration::from_secs(10);
/// How long the identity of a message is remembered, so that it is stored once.
const REMEMBERED: Duration = Duration::from_secs(120);
/// The most messages in a log. There is no bound in bytes, because the servers would reserve that
/// much for each log.
const LONGEST_LOG: i64 = 100_000;
/// How many messages are read ahead.
const AHEAD: usize = 256;

/// Where the broker is, and which job's data it holds.
#[derive(Debug, Clone)]
pub struct Place {
    /// The addresses of its servers, `nats://HOST:PORT`.
    pub servers: Vec<String>,
    /// The name of the job: letters, digits, `-` and `_`.
    pub job: String,
    /// How many servers store everything.
    pub replicas: usize,
    /// A credentials file, if the servers require one.
    pub credentials: Option<std::path::PathBuf>,
}

/// The engine.
#[derive(Debug, Clone)]
pub struct Nats {
    client: Client,
    streams: Context,
    keys: Stream,
    place: Place,
    address: String,
}

impl Nats {
    /// Connects to the broker, and creates the job's bucket if there is none.
    ///
    /// # Errors
    /// [`EngineError::Failed`] if no server can be reached or the bucket cannot be created;
    /// [`EngineError::Unusable`] if the settings or the servers have to be changed first.
    pub async fn connect(place: Place) -> Result<Self, EngineError> {
        let address = place.servers.join(",");
        let failed = |why: String| failed(&address, "connecting", why);
        let unusable = |why: String| EngineError::Unusable {
            to: address.clone(),
            why,
        };
        let is_word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        if place.job.is_empty() || !place.job.bytes().all(is_word) {
            let why = format!(
                "{:?} cannot be the name of a job in a cluster; use letters, digits, `-` and `_`",
                place.job
            );
            return Err(unusable(why));
        }
        let mut options = ConnectOptions::new()
            .connection_timeout(PATIENCE)
            .request_timeout(Some(PATIENCE));
        if let Some(file) = &place.credentials {
            let read = options.credentials_file(file).await;
            options = read.map_err(|error| {
                let file = file.display();
                unusable(format!("cluster.credentials: {file}: {error}"))
            })?;
        }
        let client = options.connect(place.servers.as_slice()).await;
        let client = client.map_err(|error| match error.kind() {
            ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                unusable(format!("{error}; see cluster.credentials"))
            }
            _ => failed(format!(
                "{error}; is a nats-server there? See cluster.brokers"
            )),
        })?;
        let server = client.server_info();
        if !is_new_enough(&server.version) {
            return Err(unusable(format!(
                "{} is nats-server {}; use {}.{} or newer",
                server.server_name, server.version, OLDEST.0, OLDEST.1
            )));
        }
        let streams = jetstream::new(client.clone());
        let bucket = Config {
            name: format!("KV_spoor-{}", place.job),
            subjects: vec![format!("{}>", prefix(&place.job))],
            max_messages_per_subject: 1,
            discard: DiscardPolicy::New,
            allow_rollup: true,
            deny_delete: true,
            allow_direct: false,
            ..stored(&place)
        };
        let keys = streams.get_or_create_stream(bucket).await;
        let keys = keys.map_err(|error| match error.kind() {
            _ if place.replicas > 1 && error.to_string().contains("replicas") => unusable(format!(
                "making the bucket: {error}; one server alone needs cluster.replicas = 1"
            )),
            // A server that has just been started says the same.
            CreateStreamErrorKind::JetStreamUnavailable => failed(format!(
                "making the bucket: {error}; the server needs `jetstream {{}}` in its configuration"
            )),
            _ => failed(format!("making the bucket: {error}")),
        })?;
        Ok(Self {
            client,
            streams,
            keys,
            place,
            address,
        })
    }

    fn subject(&self, key: &str) -> String {
        format!("{}{key}", prefix(&self.place.job))
    }

    fn log_name(&self, log: &str) -> String {
        format!("spoor-{}-{log}", self.place.job)
    }

    /// The stream of a log, created if there is none.
    async fn log(&self, log: &str, what: &'static str) -> Result<Stream, EngineError> {
        let made = self.streams.get_or_create_stream(self.log_config(log));
        self.within(what, made).await
    }

    fn log_config(&self, log: &str) -> Config {
        Config {
            name: self.log_name(log),
            subjects: vec![self.log_subject(log)],
            discard: DiscardPolicy::New,
            max_messages: LONGEST_LOG,
            duplicate_window: REMEMBERED,
            ..stored(&self.place)
        }
    }

    fn log_subject(&self, log: &str) -> String {
        format!("spoor.{}.log.{log}", self.place.job)
    }

    /// Waits for an answer, but not for too long.
    async fn within<T, E: std::fmt::Display>(
        &self,
        what: &'static str,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, EngineError> {
        match timeout(PATIENCE, call).await {
            Ok(answer) => answer.map_err(|error| failed(&self.address, what, error.to_string())),
            Err(_) => Err(failed(&self.address, what, "there is no answer".to_owned())),
        }
    }

    /// Passes the messages of a stream to `read` as they come, sends on what it returns, and
    /// returns how many messages existed at the start. It ends at the first error, when `read`
    /// returns nothing, and when the consumer stops answering.
    async fn consume<T: Send + 'static>(
        &self,
        stream: &Stream,
        what: &'static str,
        config: pull::OrderedConfig,
        sender: mpsc::Sender<T>,
        mut read: impl FnMut(jetstream::Message) -> Option<Vec<T>> + Send + 'static,
    ) -> Result<u64, EngineError> {
        let mut consumer = self.within(what, stream.create_consumer(config)).await?;
        let waiting = consumer.cached_info().num_pending;
        let messages = consumer.clone().messages();
        let mut messages = self.within(what, messages).await?;
        let (stream, name) = (stream.clone(), consumer.cached_info().name.clone());
        tokio::spawn(async move {
            loop {
                let next = tokio::select! {
                    next = timeout(SILENCE, messages.next()) => next,
                    () = sender.closed() => {
                        // A server allows only a limited number of consumers, and keeps this one
                        // for a while.
                        drop(messages);
                        stream.delete_consumer(&name).await.ok();
                        return;
                    }
                };
                match next {
                    Ok(Some(Ok(message))) => {
                        let Some(items) = read(message) else { return };
                        for item in items {
                            if sender.send(item).await.is_err() {
                                return;
                            }
                        }
                    }
                    Ok(Some(Err(_)) | None) => return,
                    // Silence is normal if there is nothing to send.
                    Err(_) => match timeout(PATIENCE, consumer.info()).await {
                        Ok(Ok(info)) if info.num_pending == 0 => {}
                        _ => return,
                    },
                }
            }
        });
        Ok(waiting)
    }
}

/// The settings that all streams of a job share.
fn stored(place: &Place) -> Config {
    Config {
        storage: StorageType::File,
        num_replicas: place.replicas,
        max_messages: -1,
        max_bytes: -1,
        ..Config::default()
    }
}

fn prefix(job: &str) -> String {
    format!("$KV.spoor-{job}.")
}

fn failed(to: &str, what: &'static str, why: String) -> EngineError {
    EngineError::Failed {
        to: to.to_owned(),
        what,
        why,
    }
}

/// Whether a value was not written because another one is there. A cluster of servers says so with
/// an error code that the client does not know.
fn is_stale(error: &PublishError) -> bool {
    error.kind() == PublishErrorKind::WrongLastSequence
        || code_of(error) == Some(ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT)
}

fn code_of(error: &PublishError) -> Option<ErrorCode> {
    let source = std::error::Error::source(error);
    let error = source.and_then(|source| source.downcast_ref::<jetstream::Error>());
    error.map(jetstream::Error::error_code)
}

/// Whether a server has the oldest accepted version or a newer one.
fn is_new_enough(version: &str) -> bool {
    let mut numbers = version
        .split(['.', '-'])
        .map(|part| part.parse::<u32>().ok());
    let (Some(Some(major)), Some(Some(minor))) = (numbers.next(), numbers.next()) else {
        return false;
    };
    (major, minor) >= OLDEST
}

impl Engine for Nats {
    async fn get(&self, key: &str) -> Result<Entry, EngineError> {
        let subject = self.subject(key);
        let read = self.keys.get_last_raw_message_by_subject(&subject);
        let read = async {
            match read.await {
                Ok(message) => Ok(Some((message.payload.to_vec(), Revision(message.sequence)))),
                Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
                Err(error) => Err(error),
            }
        };
        self.within("reading a key", read).await
    }

    async fn swap(
        &self,
        key: &str,
        value: Vec<u8>,
        was: Option<Revision>,
    ) -> Result<Revision, EngineError> {
        let last = was.map_or(0, |revision| revision.0);
        let message = PublishMessage::build()
            .payload(value.into())
            .expected_last_subject_sequence(last);
        let write = async {
            let stored = self.streams.send_publish(self.subject(key), message).await;
            match stored {
                Ok(stored) => stored.into_future().await,
                Err(error) => Err(error),
            }
        };
        let written = timeout(PATIENCE, write).await;
        match written {
            Ok(Ok(stored)) => Ok(Revision(stored.sequence)),
            Ok(Err(error)) if is_stale(&error) => Err(EngineError::Stale),
            Ok(Err(error)) => Err(failed(&self.address, "writing a key", error.to_string())),
            Err(_) => Err(failed(
                &self.address,
                "writing a key",
                "there is no answer".to_owned(),
            )),
        }
    }

    async fn all(&self) -> Result<Vec<Keyed>, EngineError> {
        self.all_keys().await
    }

    async fn watch(&self, key: Option<&str>) -> Result<mpsc::Receiver<Change>, EngineError> {
        let config = pull::OrderedConfig {
            filter_subject: self.subject(key.unwrap_or(">")),
            deliver_policy: DeliverPolicy::LastPerSubject,
            ..pull::OrderedConfig::default()
        };
        let (sender, changes) = mpsc::channel(AHEAD);
        let before = self.subject("");
        let mut is_whole = false;
        let read = move |message: jetstream::Message| {
            let info = message.info().ok()?;
            let (revision, pending) = (Revision(info.stream_sequence), info.pending);
            let change = message.subject.strip_prefix(before.as_str()).map(|key| {
                if message.headers.is_some() && message.payload.is_empty() {
                    Change::Gone(key.to_owned())
                } else {
                    Change::Set(key.to_owned(), message.payload.to_vec(), revision)
                }
            });
            let whole = (pending == 0 && !is_whole).then_some(Change::Whole);
            is_whole |= pending == 0;
            Some(change.into_iter().chain(whole).collect())
        };
        let (keys, output) = (&self.keys, sender.clone());
        let waiting = self
            .consume(keys, "watching the keys", config, output, read)
            .await?;
        if waiting == 0 {
            sender.send(Change::Whole).await.ok();
        }
        Ok(changes)
    }

    async fn send(&self, log: &str, id: &str, message: Bytes) -> Result<(), EngineError> {
        const WHAT: &str = "sending a message";
        let publish = || async {
            let message = PublishMessage::build()
                .payload(message.clone())
                .message_id(id);
            let sent = self.streams.send_publish(self.log_subject(log), message);
            sent.await?.into_future().await
        };
        let sent = timeout(PATIENCE, publish()).await;
        match sent {
            Ok(Err(error)) if error.kind() == PublishErrorKind::StreamNotFound => {
                self.log(log, WHAT).await?;
                self.within(WHAT, publish()).await.map(drop)
            }
            Ok(sent) => sent
                .map(drop)
                .map_err(|error| failed(&self.address, WHAT, error.to_string())),
            Err(_) => Err(failed(&self.address, WHAT, "there is no answer".to_owned())),
        }
    }

    async fn read(
        &self,
        log: &str,
        after: u64,
    ) -> Result<mpsc::Receiver<(u64, Bytes)>, EngineError> {
        const WHAT: &str = "reading messages";
        let stream = self.log(log, WHAT).await?;
        let config = pull::OrderedConfig {
            deliver_policy: DeliverPolicy::ByStartSequence {
                start_sequence: after.saturating_add(1),
            },
            ..pull::OrderedConfig::default()
        };
        let (sender, receiver) = mpsc::channel(AHEAD);
        let read = |message: jetstream::Message| {
            let number = message.info().ok()?.stream_sequence;
            Some(vec![(number, message.message.payload)])
        };
        self.consume(&stream, WHAT, config, sender, read).await?;
        Ok(receiver)
    }

    async fn last(&self, log: &str) -> Result<u64, EngineError> {
        const WHAT: &str = "asking for the last message";
        let mut stream = self.log(log, WHAT).await?;
        // The number from when the stream was opened may be out of date.
        let info = self.within(WHAT, stream.info()).await?;
        Ok(info.state.last_sequence)
    }

    async fn cut(&self, log: &str, up_to: u64) -> Result<(), EngineError> {
        const WHAT: &str = "removing messages";
        let stream = self.log(log, WHAT).await?;
        // The server keeps the message whose number is given here.
        let purge = stream.purge().sequence(up_to.saturating_add(1));
        self.within(WHAT, purge.into_future()).await.map(drop)
    }

    async fn ask(&self, subject: &str, body: Bytes) -> Result<Bytes, EngineError> {
        let subject = format!("spoor.{}.{subject}", self.place.job);
        let answer = self.client.request(subject, body);
        let answer = self.within("asking", answer).await?;
        Ok(answer.payload)
    }

    async fn answer(&self, subject: &str) -> Result<mpsc::Receiver<Question>, EngineError> {
        let subject = format!("spoor.{}.{subject}", self.place.job);
        let subscribed = self.client.subscribe(subject);
        let mut messages = self.within("subscribing", subscribed).await?;
        // The server has received the subscription only once it has answered a later call.
        self.within("subscribing", self.client.flush()).await?;
        let (asked, questions) = mpsc::channel(AHEAD);
        let client = self.client.clone();
        tokio::spawn(async move {
            loop {
                let next = tokio::select! {
                    next = messages.next() => next,
                    () = asked.closed() => return,
                };
                let Some(message) = next else { return };
                let Some(to) = message.reply else { continue };
                let (question, answer) = Question::new(message.payload);
                if asked.send(question).await.is_err() {
                    return;
                }
                let client = client.clone();
                tokio::spawn(async move {
                    if let Ok(Ok(answer)) = timeout(PATIENCE, answer).await {
                        // Without an answer, the other side runs into its timeout.
                        drop(client.publish(to, answer).await);
                    }
                });
            }
        });
        Ok(questions)
    }
}

#[cfg(test)]
mod tests;
