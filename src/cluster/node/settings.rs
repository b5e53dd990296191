//! Checks that a machine has the configuration and the model of the others, before it begins.

use serde_json::Value;

use crate::settings::JobSettings;
use crate::shared_settings::{Difference, SharedSettings};
use crate::topic::model::Model;
use crate::wanted::{WantedError, WantedState};
use crate::{Engine, EngineError, Node as Name, Survey};

use super::error::NodeError;

/// The settings of this machine. `job` is the part of its job file that all machines share.
///
/// # Errors
/// [`NodeError::Stopped`] if the model cannot be read.
pub fn of(config: &JobSettings, job: Value) -> Result<SharedSettings, NodeError> {
    let folder = config.model_folder();
    let model = Model::exists(&folder).then(|| Model::sha256(&folder));
    Ok(SharedSettings {
        job,
        model: model.transpose().map_err(|error| {
            let what = "the model cannot be compared with that of other machines";
            NodeError::Stopped(format!("{what}: {error}"))
        })?,
    })
}

/// Writes the settings of this machine if no other one crawls, and otherwise checks that they are
/// the same.
pub(super) async fn agree(
    engine: &impl Engine,
    config: &JobSettings,
    own: &SharedSettings,
    node: &Name,
) -> Result<(), NodeError> {
    let there = WantedState::read(engine).await?;
    let (mut wanted, was) = there.map_or_else(Default::default, |(w, was)| (w, Some(was)));
    if let Some(known) = &wanted.settings {
        let Some(difference) = own.difference(known) else {
            return Ok(());
        };
        let survey = Survey::of(engine).await?;
        if survey.live().any(|(id, _)| id.node != *node) {
            return Err(refused(config, difference));
        }
    }
    wanted.version += 1;
    wanted.settings = Some(own.clone());
    // Keys that were set before no longer apply.
    wanted.keys.clear();
    match wanted.write(engine, was).await {
        // Another machine may have written its settings at the same moment; `confirm` sees whose
        // count.
        Ok(()) | Err(WantedError::Engine(EngineError::Stale)) => Ok(()),
        // The caller tries again while brokers do not answer.
        Err(WantedError::Engine(error)) => Err(error.into()),
        Err(error) => Err(error.into()),
    }
}

/// Checks that the settings in force are those of this machine, once its session has begun.
pub(super) async fn confirm(
    engine: &impl Engine,
    config: &JobSettings,
    own: &SharedSettings,
) -> Result<(), NodeError> {
    let there = WantedState::read(engine).await?;
    let known = there.and_then(|(wanted, _)| wanted.settings);
    match known.and_then(|known| own.difference(&known)) {
        None => Ok(()),
        Some(difference) => Err(refused(config, difference)),
    }
}

fn refused(config: &JobSettings, difference: Difference) -> NodeError {
    NodeError::JobFile(match difference {
        Difference::Job(keys) => format!(
            "the machines of the cluster have another configuration: {keys}. Copy the job file of \
             one of them to this machine; or run `spoor reload JOB.toml` with this file on a \
             machine that crawls, which changes it for all, but for keys of [cluster]"
        ),
        Difference::Model => format!(
            "{}: the machines of the cluster have another model; copy its folder from one of them \
             to this machine, or run `spoor reload JOB.toml` on a machine with this model, which \
             changes it for all at their next start",
            config.model_folder().display()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::Scripted;
    use crate::wanted::{SetKey, WantedBy, WantedEdit};
    use crate::{Key, SessionId, SessionRecord, State, Value};

    fn own(limit: u64) -> SharedSettings {
        of(
            &settings(),
            serde_json::json!({"limits": {"documents": limit}}),
        )
        .unwrap()
    }

    fn settings() -> JobSettings {
        let mut settings = JobSettings::default();
        settings.model.folder = "/nowhere".into();
        settings
    }

    async fn join(engine: &Scripted, name: &str, limit: u64) -> Result<(), NodeError> {
        let own = own(limit);
        agree(engine, &settings(), &own, &Name::new(name).unwrap()).await?;
        confirm(engine, &settings(), &own).await
    }

    /// Sets the state of a machine's session.
    async fn set_state(engine: &Scripted, name: &str, state: State) {
        let node = Name::new(name).unwrap();
        let key = Key::Session(SessionId { node, number: 1 }).to_string();
        let record = SessionRecord::new(state, 1);
        let was = engine.get(&key).await.unwrap().map(|(_, was)| was);
        let bytes = Value::Session(record).to_bytes().unwrap();
        engine.swap(&key, bytes, was).await.unwrap();
    }

    #[tokio::test]
    async fn a_machine_that_begins_has_the_settings_of_those_that_crawl() {
        let engine = Scripted::default();
        join(&engine, "n1", 5).await.unwrap();
        set_state(&engine, "n1", State::Live).await;
        join(&engine, "n2", 5).await.unwrap();
        let refused = join(&engine, "n2", 6).await.unwrap_err().to_string();
        assert!(
            refused.contains("limits.documents is 5 there and 6 here"),
            "{refused}"
        );
        assert!(refused.contains("spoor reload"), "{refused}");
        // A reload changes them for all machines.
        let renewed = own(6);
        let reload: &WantedEdit<'_> = &|wanted| wanted.settings = Some(renewed.clone());
        WantedState::change(&engine, None, reload).await.unwrap();
        join(&engine, "n2", 6).await.unwrap();
        assert!(join(&engine, "n2", 5).await.is_err());
    }

    /// Keys that were set before have no effect then.
    #[tokio::test]
    async fn while_no_machine_crawls_the_first_one_decides() {
        let engine = Scripted::default();
        join(&engine, "n1", 5).await.unwrap();
        let set: &WantedEdit<'_> = &|wanted| {
            let key = SetKey {
                value: serde_json::json!(9),
                said: WantedBy::default(),
            };
            wanted.keys.insert("limits.documents".to_owned(), key);
        };
        WantedState::change(&engine, None, set).await.unwrap();
        set_state(&engine, "n2", State::Fenced).await;
        set_state(&engine, "n1", State::Live).await;
        // A machine that begins with the same settings gets the keys that were set.
        join(&engine, "n1", 5).await.unwrap();
        let keys = async || {
            WantedState::read(&engine)
                .await
                .unwrap()
                .unwrap()
                .0
                .keys
                .len()
        };
        assert_eq!(keys().await, 1);
        join(&engine, "n1", 7).await.unwrap();
        assert_eq!(keys().await, 0);
        join(&engine, "n2", 7).await.unwrap();
    }
}
