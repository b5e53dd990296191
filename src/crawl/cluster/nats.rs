//! The engine on NATS JetStream.
//!
//! The keys of a job are a bucket of its own: a stream that keeps one message for each
//! subject, and is read by way of its leader only, because followers may be behind. A log is
//! a stream. Everything is stored in files, by as many servers as [`Place::replicas`] says.
//!
//! # What is known of it
//!
//! - The client keeps what it could not send while it had no connection, and sends it when it
//!   has one again. So what failed may still be done.
//! - A compare-and-set can be refused although nobody else wrote.
//! - Consumers do not outlive the server that has them, and those who read are not always
//!   told. So they end at the first error or silence, and whoever reads begins anew.
//! - Servers before 2.10 answer what this client cannot read, and cannot store each message
//!   at once, so they are refused.
//!
//! This is the only user of the crate async-nats.

use std::future::IntoFuture;
use std::time::Duration;

use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, LastRawMessageErrorKind, StorageType, Stream,
};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{Change, Engine, EngineError, Entry, Revision};

/// The oldest version of a server that is used.
const OLDEST: (u32, u32) = (2, 10);
/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a consumer may be silent before it is asked whether it is still there.
const SILENCE: Duration = Duration::from_secs(10);
/// How long the number of a message is remembered, so that it is stored once.
const REMEMBERED: Duration = Duration::from_secs(120);
/// The most bytes of a log.
const LARGEST_LOG: i64 = 4 << 30;
/// How many messages are read ahead.
const AHEAD: usize = 256;

/// Where the broker is, and what it holds of a job.
#[derive(Debug, Clone)]
pub struct Place {
    /// The addresses of its servers, `nats://HOST:PORT`.
    pub servers: Vec<String>,
    /// The name of the job: letters, digits, `-` and `_`.
    pub job: String,
    /// How many servers store everything.
    pub replicas: usize,
    /// A file of credentials, where the servers ask for them.
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
    /// Connects to the broker, and makes the job's bucket where there is none.
    ///
    /// # Errors
    /// [`EngineError::Failed`] where no server can be reached, where one is too old, and
    /// where the bucket cannot be made.
    pub async fn connect(place: Place) -> Result<Self, EngineError> {
        let address = place.servers.join(",");
        let failed = |why: String| failed(&address, "connecting", why);
        let is_word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        if place.job.is_empty() || !place.job.bytes().all(is_word) {
            let why = format!("{:?} is no name of a job that a broker can have", place.job);
            return Err(failed(why));
        }
        let mut options = ConnectOptions::new()
            .connection_timeout(PATIENCE)
            .request_timeout(Some(PATIENCE));
        if let Some(file) = &place.credentials {
            let read = options.credentials_file(file).await;
            options = read.map_err(|e| failed(format!("{}: {e}", file.display())))?;
        }
        let client = options.connect(place.servers.as_slice()).await;
        let client = client.map_err(|error| failed(error.to_string()))?;
        let server = client.server_info();
        if !is_new_enough(&server.version) {
            return Err(failed(format!(
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
        let keys = keys.map_err(|error| failed(format!("making the bucket: {error}")))?;
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

    /// The stream of a log, made where there is none.
    async fn log(&self, log: &str, what: &'static str) -> Result<Stream, EngineError> {
        let config = Config {
            name: self.log_name(log),
            subjects: vec![self.log_subject(log)],
            discard: DiscardPolicy::New,
            max_bytes: LARGEST_LOG,
            duplicate_window: REMEMBERED,
            ..stored(&self.place)
        };
        let made = self.streams.get_or_create_stream(config);
        self.within(what, made).await
    }

    fn log_subject(&self, log: &str) -> String {
        format!("spoor.{}.log.{log}", self.place.job)
    }

    /// Awaits an answer.
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

    /// The messages of a stream as they come. The receiver ends at the first error, and when
    /// nothing is heard of the consumer.
    async fn consume(
        &self,
        stream: &Stream,
        what: &'static str,
        config: pull::OrderedConfig,
    ) -> Result<(u64, mpsc::Receiver<jetstream::Message>), EngineError> {
        let mut consumer = self.within(what, stream.create_consumer(config)).await?;
        let waiting = consumer.cached_info().num_pending;
        let messages = consumer.clone().messages();
        let mut messages = self.within(what, messages).await?;
        let (sender, receiver) = mpsc::channel(AHEAD);
        tokio::spawn(async move {
            loop {
                let next = tokio::select! {
                    next = timeout(SILENCE, messages.next()) => next,
                    () = sender.closed() => return,
                };
                match next {
                    Ok(Some(Ok(message))) => {
                        if sender.send(message).await.is_err() {
                            return;
                        }
                    }
                    Ok(Some(Err(_)) | None) => return,
                    // Silence is right where nothing is to be told.
                    Err(_) => match timeout(PATIENCE, consumer.info()).await {
                        Ok(Ok(info)) if info.num_pending == 0 => {}
                        _ => return,
                    },
                }
            }
        });
        Ok((waiting, receiver))
    }
}

/// What all streams of a job have in common.
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

/// Whether a server has this version or a newer one.
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
            Ok(Err(error)) if error.kind() == PublishErrorKind::WrongLastSequence => {
                Err(EngineError::Stale)
            }
            Ok(Err(error)) => Err(failed(&self.address, "writing a key", error.to_string())),
            Err(_) => Err(failed(
                &self.address,
                "writing a key",
                "there is no answer".to_owned(),
            )),
        }
    }

    async fn watch(&self, prefix: &str) -> Result<mpsc::Receiver<Change>, EngineError> {
        let config = pull::OrderedConfig {
            // Whole tokens can be chosen here; the rest is chosen below.
            filter_subject: self.subject(">"),
            deliver_policy: DeliverPolicy::LastPerSubject,
            ..pull::OrderedConfig::default()
        };
        let (waiting, mut messages) = self
            .consume(&self.keys, "watching the keys", config)
            .await?;
        let (sender, changes) = mpsc::channel(AHEAD);
        let (before, prefix) = (self.subject(""), prefix.to_owned());
        tokio::spawn(async move {
            let mut is_whole = waiting == 0;
            if is_whole && sender.send(Change::Whole).await.is_err() {
                return;
            }
            while let Some(message) = messages.recv().await {
                let Ok(info) = message.info() else { return };
                let (sequence, pending) = (info.stream_sequence, info.pending);
                let key = message.subject.strip_prefix(before.as_str());
                if let Some(key) = key.filter(|key| key.starts_with(prefix.as_str())) {
                    let change = if message.headers.is_some() && message.payload.is_empty() {
                        Change::Gone(key.to_owned())
                    } else {
                        let value = message.payload.to_vec();
                        Change::Set(key.to_owned(), value, Revision(sequence))
                    };
                    if sender.send(change).await.is_err() {
                        return;
                    }
                }
                if !is_whole && pending == 0 {
                    is_whole = true;
                    if sender.send(Change::Whole).await.is_err() {
                        return;
                    }
                }
            }
        });
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
        let (_, mut messages) = self.consume(&stream, WHAT, config).await?;
        let (sender, receiver) = mpsc::channel(AHEAD);
        tokio::spawn(async move {
            while let Some(message) = messages.recv().await {
                let Ok(number) = message.info().map(|info| info.stream_sequence) else {
                    return;
                };
                if sender
                    .send((number, message.message.payload))
                    .await
                    .is_err()
                {
                    return;
                }
            }
        });
        Ok(receiver)
    }

    async fn cut(&self, log: &str, up_to: u64) -> Result<(), EngineError> {
        const WHAT: &str = "removing messages";
        let stream = self.log(log, WHAT).await?;
        // The server keeps the one that is named here.
        let purge = stream.purge().sequence(up_to.saturating_add(1));
        self.within(WHAT, purge.into_future()).await.map(drop)
    }

    async fn ask(&self, subject: &str, body: Bytes) -> Result<Bytes, EngineError> {
        let subject = format!("spoor.{}.{subject}", self.place.job);
        let answer = self.client.request(subject, body);
        let answer = self.within("asking", answer).await?;
        Ok(answer.payload)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// The server, where there is one: in the path, or where `.ci/run` puts it.
    fn server() -> Option<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let own = root.join("target/nats/bin/nats-server");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let others = std::env::split_paths(&path).map(|folder| folder.join("nats-server"));
        let mut found = std::iter::once(own).chain(others);
        let runs = |path: &PathBuf| {
            let asked = Command::new(path).arg("--version").output();
            let said = asked.map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
            said.is_ok_and(|said| {
                let version = said.rsplit('v').next().unwrap_or_default();
                is_new_enough(version.trim())
            })
        };
        let server = found.find(runs);
        if server.is_none() {
            eprintln!("SKIPPED: no nats-server of 2.10 or newer; `.ci/run` installs one");
        }
        server
    }

    fn free_port() -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.local_addr().unwrap().port()
    }

    /// Servers on loopback, of which each can be killed and begun again.
    struct Brokers {
        folder: tempfile::TempDir,
        server: PathBuf,
        ports: Vec<(u16, u16)>,
        running: Vec<Option<Child>>,
    }

    impl Brokers {
        fn start(count: usize) -> Option<Self> {
            let server = server()?;
            let mut brokers = Self {
                folder: tempfile::tempdir().unwrap(),
                server,
                ports: (0..count).map(|_| (free_port(), free_port())).collect(),
                running: (0..count).map(|_| None).collect(),
            };
            (0..count).for_each(|number| brokers.begin(number));
            Some(brokers)
        }

        fn begin(&mut self, number: usize) {
            let (port, route) = self.ports[number];
            let store = self.folder.path().join(format!("n{number}"));
            let mut config = format!(
                "server_name: n{number}\nlisten: 127.0.0.1:{port}\n\
                 jetstream {{ store_dir: {store:?}, sync_interval: always }}\n"
            );
            if self.ports.len() > 1 {
                let routes = self
                    .ports
                    .iter()
                    .map(|(_, port)| format!("nats://127.0.0.1:{port}"));
                let routes = Vec::from_iter(routes).join(",");
                config.push_str(&format!(
                    "cluster {{ name: test, listen: \"127.0.0.1:{route}\", routes: [{routes}] }}\n"
                ));
            }
            let file = self.folder.path().join(format!("n{number}.conf"));
            std::fs::write(&file, config).unwrap();
            let child = Command::new(&self.server)
                .arg("-c")
                .arg(&file)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            self.running[number] = Some(child.unwrap());
        }

        fn kill(&mut self, number: usize) {
            if let Some(mut child) = self.running[number].take() {
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }

        /// An engine, as soon as there can be one.
        async fn engine(&self) -> Nats {
            let address = |(port, _): &(u16, u16)| format!("nats://127.0.0.1:{port}");
            let place = Place {
                servers: self.ports.iter().map(address).collect(),
                job: "cats".to_owned(),
                replicas: self.ports.len(),
                credentials: None,
            };
            until(async || Nats::connect(place.clone()).await).await
        }
    }

    impl Drop for Brokers {
        fn drop(&mut self) {
            (0..self.running.len()).for_each(|number| self.kill(number));
        }
    }

    /// Does it again until it succeeds, for a minute.
    async fn until<T, E: std::fmt::Debug>(act: impl AsyncFn() -> Result<T, E>) -> T {
        let limit = tokio::time::Instant::now() + Duration::from_secs(60);
        let mut pace = tokio::time::interval(Duration::from_millis(100));
        loop {
            match act().await {
                Ok(done) => return done,
                Err(error) if tokio::time::Instant::now() > limit => panic!("{error:?}"),
                Err(_) => drop(pace.tick().await),
            }
        }
    }

    async fn next<T>(from: &mut mpsc::Receiver<T>) -> Option<T> {
        let next = timeout(Duration::from_secs(30), from.recv());
        next.await.expect("nothing comes")
    }

    #[test]
    fn old_servers_are_told() {
        for version in ["2.10.0", "2.15.1", "3.0.0-beta", "2.10"] {
            assert!(is_new_enough(version), "{version}");
        }
        for version in ["2.9.10", "1.99.0", "", "x.y", "2"] {
            assert!(!is_new_enough(version), "{version}");
        }
    }

    /// Whatever it is, it says that it is a server of an old version.
    #[tokio::test]
    async fn an_old_server_is_refused_by_name() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
            .await
            .unwrap();
        let port = listener.local_addr().unwrap().port();
        let old = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let info = format!(
                "INFO {{\"server_id\":\"X\",\"server_name\":\"old\",\"version\":\"2.9.10\",\
                 \"go\":\"go1\",\"host\":\"127.0.0.1\",\"port\":{port},\"headers\":true,\
                 \"max_payload\":1048576,\"proto\":1,\"client_id\":1}}\r\n"
            );
            stream.write_all(info.as_bytes()).await.unwrap();
            let mut sent = [0; 4_096];
            while let Ok(1..) = stream.read(&mut sent).await {
                stream.write_all(b"PONG\r\n").await.unwrap_or_default();
            }
        });
        let place = Place {
            servers: vec![format!("nats://127.0.0.1:{port}")],
            job: "cats".to_owned(),
            replicas: 1,
            credentials: None,
        };
        let refused = Nats::connect(place).await.unwrap_err().to_string();
        assert!(refused.contains("old is nats-server 2.9.10"), "{refused}");
        old.abort();
    }

    #[tokio::test]
    async fn keys_are_replaced_only_if_they_are_what_they_were() {
        let Some(brokers) = Brokers::start(1) else {
            return;
        };
        let engine = brokers.engine().await;
        assert_eq!(engine.get("s.n1.1").await.unwrap(), None);
        let first = engine.swap("s.n1.1", b"a".to_vec(), None).await.unwrap();
        let stale = engine.swap("s.n1.1", b"b".to_vec(), None).await;
        assert_eq!(stale, Err(EngineError::Stale));
        let second = engine
            .swap("s.n1.1", b"b".to_vec(), Some(first))
            .await
            .unwrap();
        assert!(second > first);
        let stale = engine.swap("s.n1.1", b"c".to_vec(), Some(first)).await;
        assert_eq!(stale, Err(EngineError::Stale));
        assert_eq!(
            engine.get("s.n1.1").await.unwrap(),
            Some((b"b".to_vec(), second))
        );

        let mut changes = engine.watch("").await.unwrap();
        let told = Change::Set("s.n1.1".to_owned(), b"b".to_vec(), second);
        assert_eq!(next(&mut changes).await, Some(told));
        assert_eq!(next(&mut changes).await, Some(Change::Whole));
        let other = engine.swap("c.7", b"x".to_vec(), None).await.unwrap();
        let told = Change::Set("c.7".to_owned(), b"x".to_vec(), other);
        assert_eq!(next(&mut changes).await, Some(told));
    }

    #[tokio::test]
    async fn messages_are_stored_once_read_in_order_and_cut() {
        let Some(brokers) = Brokers::start(1) else {
            return;
        };
        let engine = brokers.engine().await;
        for (id, text) in [("1", "one"), ("2", "two"), ("1", "one"), ("3", "three")] {
            engine.send("links-7", id, text.into()).await.unwrap();
        }
        let mut messages = engine.read("links-7", 0).await.unwrap();
        for (number, text) in [(1, "one"), (2, "two"), (3, "three")] {
            assert_eq!(next(&mut messages).await, Some((number, Bytes::from(text))));
        }
        engine.cut("links-7", 2).await.unwrap();
        let mut messages = engine.read("links-7", 0).await.unwrap();
        assert_eq!(next(&mut messages).await, Some((3, Bytes::from("three"))));

        let mut asked = engine.client.subscribe("spoor.cats.ctl").await.unwrap();
        let client = engine.client.clone();
        tokio::spawn(async move {
            let message = asked.next().await.unwrap();
            let answer = message.reply.unwrap();
            client.publish(answer, "yes".into()).await.unwrap();
        });
        let answer = engine.ask("ctl", "there?".into()).await.unwrap();
        assert_eq!(answer, "yes");
        assert!(engine.ask("nobody", Bytes::new()).await.is_err());
    }

    /// With three servers, of which each is killed once, and then all at once.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_was_stored_outlives_the_servers() {
        let Some(mut brokers) = Brokers::start(3) else {
            return;
        };
        let engine = brokers.engine().await;
        let mut last = until(async || swapped(&engine, 0, None).await).await;
        engine
            .send("links-1", "first", "first".into())
            .await
            .unwrap();
        let mut messages = engine.read("links-1", 0).await.unwrap();
        assert_eq!(next(&mut messages).await, Some((1, Bytes::from("first"))));
        for number in 0..3u8 {
            brokers.kill(usize::from(number));
            // An answer may be lost, so what was stored is read.
            last = until(async || swapped(&engine, number + 1, Some(last)).await).await;
            brokers.begin(usize::from(number));
        }
        (0..3).for_each(|number| brokers.kill(number));
        // This one may be sent when the connection is back, or never.
        assert!(swapped(&engine, 9, Some(last)).await.is_err());
        (0..3).for_each(|number| brokers.begin(number));
        let (value, revision) = until(async || {
            let found = engine.get("s.n1.1").await?;
            found.ok_or(EngineError::Stale)
        })
        .await;
        assert!(value == [3] && revision == last || value == [9] && revision > last);

        // Whoever reads begins anew, where the reader was not told that it is over.
        let id = "second";
        until(async || engine.send("links-1", id, id.into()).await).await;
        let second = until(async || {
            let mut messages = engine.read("links-1", 1).await?;
            let next = timeout(Duration::from_secs(5), messages.recv()).await;
            next.ok().flatten().ok_or(EngineError::Stale)
        })
        .await;
        assert_eq!(second, (2, Bytes::from("second")));
        drop(messages);
    }

    /// Writes a value, or finds that it was written.
    async fn swapped(
        engine: &Nats,
        value: u8,
        was: Option<Revision>,
    ) -> Result<Revision, EngineError> {
        let swapped = engine.swap("s.n1.1", vec![value], was).await;
        if swapped != Err(EngineError::Stale) {
            return swapped;
        }
        match engine.get("s.n1.1").await? {
            Some((found, revision)) if found == [value] => Ok(revision),
            _ => Err(EngineError::Stale),
        }
    }
}
