//! What is done with all that the broker has of a job at once: an operator sees it and removes it.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer, pull};
use futures_util::StreamExt;

use super::super::{EngineError, Keyed, Revision};
use super::{Nats, PATIENCE, SILENCE};

/// How often keys are asked for again that did not come, and after which time.
const ATTEMPTS: usize = 5;
const PAUSE: Duration = Duration::from_millis(100);

impl Nats {
    /// Removes all keys and logs of the job. Returns how many streams there were.
    ///
    /// # Errors
    /// [`EngineError::Failed`]; what is left is removed by the next call.
    pub async fn remove_all(&self) -> Result<usize, EngineError> {
        const WHAT: &str = "removing the streams of the job";
        // By their subjects: the logs of a job `a-b` have names that begin like those of `a`.
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
        // The keys last: without them nobody finds the rest.
        own.sort_by_key(|name| *name == keys);
        for name in &own {
            self.within(WHAT, self.streams.delete_stream(name)).await?;
        }
        Ok(own.len())
    }

    /// All keys, by a consumer that is removed at once: one that is left there goes after half a minute, and
    /// a server allows few of them.
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
        // Of several servers the one that is asked may not have heard of the consumer yet.
        for _ in 0..ATTEMPTS {
            if read.is_ok() {
                break;
            }
            tokio::time::sleep(PAUSE).await;
            read = self.within(WHAT, self.read_keys(&consumer, waiting)).await;
        }
        // What is left goes by itself.
        drop(self.within(WHAT, self.keys.delete_consumer(&name)).await);
        read
    }

    /// The keys that a consumer of so many messages has.
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
        // A key that was changed meanwhile comes once more, so those that were there have come.
        if all.len() < most {
            return Err("they did not come in time".into());
        }
        Ok(all)
    }
}
