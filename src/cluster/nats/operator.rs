//! Acting on all data that the broker has of a job at once: an operator reads and removes it.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer, pull};
use futures_util::StreamExt;

use super::super::{EngineError, Keyed, Revision};
use super::{Nats, PATIENCE, SILENCE};

/// How often to ask again for keys that did not come, and how long to wait in between.
const ATTEMPTS: usize = 5;
const PAUSE: Duration = Duration::from_millis(100);

impl Nats {
    /// Removes all keys and logs of the job. Returns the number of streams removed.
    ///
    /// # Errors
    /// [`EngineError::Failed`]; the next call removes what is left.
    pub async fn remove_all(&self) -> Result<usize, EngineError> {
        const WHAT: &str = "removing the streams of the job";
        // By subject, because the names of the logs of a job `a-b` begin like those of `a`.
        let logs = self.log_subject("");
        let keys = format!("KV_spoor-{}", self.place.job);
        let mut streams = self.streams.streams();
        let mut own = Vec::new();
        while let Some(stream) = self
            .within(WHAT, async { streams.next().await.transpose() })
            .await?
        {
            let config = stream.config;
            let is_log = |subject: &String| subject.starts_with(&logs);
            if config.name == keys || config.subjects.iter().any(is_log) {
                own.push(config.name);
            }
        }
        // The keys go last: without them the rest could not be found.
        own.sort_by_key(|name| *name == keys);
        for name in &own {
            self.within(WHAT, self.streams.delete_stream(name)).await?;
        }
        Ok(own.len())
    }

    /// All keys, read by a consumer that is removed at once. A consumer that is left behind stays
    /// for half a minute, and a server allows only a few.
    pub(super) async fn all_keys(&self) -> Result<Vec<Keyed>, EngineError> {
        const WHAT: &str = "reading the keys";
        let config = pull::Config {
            filter_subject: self.subject(">"),
            deliver_policy: DeliverPolicy::LastPerSubject,
            ack_policy: AckPolicy::None,
            memory_storage: true,
            num_replicas: 1,
            inactive_threshold: SILENCE,
            ..pull::Config::default()
        };
        let consumer = self.within(WHAT, self.keys.create_consumer(config)).await?;
        let info = consumer.cached_info();
        let (name, waiting) = (info.name.clone(), info.num_pending);
        let mut read = self.within(WHAT, self.read_keys(&consumer, waiting)).await;
        // In a cluster, the server that is asked may not know of the consumer yet.
        for _ in 0..ATTEMPTS {
            if read.is_ok() {
                break;
            }
            tokio::time::sleep(PAUSE).await;
            read = self.within(WHAT, self.read_keys(&consumer, waiting)).await;
        }
        // A consumer that is left behind expires.
        drop(self.within(WHAT, self.keys.delete_consumer(&name)).await);
        read
    }

    /// The keys that a consumer of this many messages delivers.
    async fn read_keys(
        &self,
        consumer: &PullConsumer,
        waiting: u64,
    ) -> Result<Vec<Keyed>, async_nats::Error> {
        let mut all = Vec::new();
        if waiting == 0 {
            return Ok(all);
        }
        let most = usize::try_from(waiting)?;
        let mut messages = consumer
            .fetch()
            .max_messages(most)
            .expires(PATIENCE)
            .messages()
            .await?;
        let before = self.subject("");
        while let Some(message) = messages.next().await.transpose()? {
            let info = message.info()?;
            let (revision, pending) = (Revision(info.stream_sequence), info.pending);
            let is_gone = message.headers.is_some() && message.payload.is_empty();
            if let Some(key) = message.subject.strip_prefix(before.as_str())
                && !is_gone
            {
                all.push((key.to_owned(), message.payload.to_vec(), revision));
            }
            if pending == 0 {
                return Ok(all);
            }
        }
        // A key that has changed since comes once more, so by then all earlier ones have come.
        if all.len() < most {
            return Err("they did not come in time".into());
        }
        Ok(all)
    }
}
