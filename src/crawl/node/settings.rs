//! Whether a machine has the configuration and the model of the others, before it begins.

use crate::config::Config;
use crate::crawl::cluster::orders::LOG;
use crate::crawl::cluster::settings::{Difference, Settings};
use crate::crawl::cluster::{Engine, EngineError, Node as Name, Survey};
use crate::topic::model::Model;

use super::error::NodeError;

/// The settings of this machine.
///
/// # Errors
/// [`NodeError::Model`] where the model cannot be read.
pub fn of(config: &Config) -> Result<Settings, NodeError> {
    let folder = config.model_folder();
    let model = Model::exists(&folder).then(|| Model::sha256(&folder));
    Ok(Settings {
        config: config.shared(),
        model: model.transpose().map_err(NodeError::Model)?,
        order: 0,
    })
}

/// Writes the settings of this machine where no other one crawls, and otherwise checks that they
/// are the same.
pub(super) async fn agree(
    engine: &impl Engine,
    config: &Config,
    own: &Settings,
    node: &Name,
) -> Result<(), NodeError> {
    let there = Settings::read(engine).await?;
    let Some((known, revision)) = there else {
        return write(engine, own, None).await;
    };
    let Some(difference) = own.difference(&known) else {
        return Ok(());
    };
    let survey = Survey::of(engine).await?;
    if survey.live().any(|(id, _)| id.node != *node) {
        return Err(refused(config, difference));
    }
    // What was changed before, by whatever order, is not in force any more.
    let order = engine.last(LOG).await?;
    let own = Settings {
        order,
        ..own.clone()
    };
    write(engine, &own, Some(revision)).await
}

/// Another machine may have written its settings at the same moment: [`confirm`] sees which.
async fn write(
    engine: &impl Engine,
    own: &Settings,
    was: Option<crate::crawl::cluster::Revision>,
) -> Result<(), NodeError> {
    match own.write(engine, was).await {
        Ok(()) | Err(EngineError::Stale) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Checks that the settings in force are those of this machine, when its session has begun.
/// Returns up to which order they have what orders changed.
pub(super) async fn confirm(
    engine: &impl Engine,
    config: &Config,
    own: &Settings,
) -> Result<u64, NodeError> {
    let Some((known, _)) = Settings::read(engine).await? else {
        return Ok(0);
    };
    match own.difference(&known) {
        None => Ok(known.order),
        Some(difference) => Err(refused(config, difference)),
    }
}

fn refused(config: &Config, difference: Difference) -> NodeError {
    match difference {
        Difference::Config(keys) => NodeError::OtherConfig(keys),
        Difference::Model => NodeError::OtherModel(config.model_folder()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crawl::cluster::told::Told;
    use crate::crawl::cluster::{Key, SessionId, SessionRecord, State, Value};

    fn config(limit: u64) -> Config {
        let text = format!(
            "[job]\nname = \"x\"\n[model]\nfolder = \"/nowhere\"\n[limits]\ndocuments = {limit}\n"
        );
        Config::parse(&text, "x").unwrap()
    }

    async fn join(engine: &Told, name: &str, limit: u64) -> Result<u64, NodeError> {
        let config = config(limit);
        let own = of(&config)?;
        agree(engine, &config, &own, &Name::new(name).unwrap()).await?;
        confirm(engine, &config, &own).await
    }

    /// The session of a machine lives, or does not.
    async fn set_state(engine: &Told, name: &str, state: State) {
        let node = Name::new(name).unwrap();
        let key = Key::Session(SessionId { node, number: 1 }).to_string();
        let record = SessionRecord::new(state, 1);
        let was = engine.get(&key).await.unwrap().map(|(_, was)| was);
        let bytes = Value::Session(record).to_bytes().unwrap();
        engine.swap(&key, bytes, was).await.unwrap();
    }

    #[tokio::test]
    async fn who_begins_has_the_settings_of_those_that_crawl() {
        let engine = Told::default();
        assert_eq!(join(&engine, "n1", 5).await.unwrap(), 0);
        set_state(&engine, "n1", State::Live).await;
        assert_eq!(join(&engine, "n2", 5).await.unwrap(), 0);
        let refused = join(&engine, "n2", 6).await.unwrap_err().to_string();
        assert!(
            refused.contains("limits.documents is 5 there and 6 here"),
            "{refused}"
        );
        assert!(refused.contains("spoor reload"), "{refused}");
        // The order of a reload changes them for all.
        let renewed = Settings {
            order: 4,
            ..of(&config(6)).unwrap()
        };
        renewed.renew(&engine).await.unwrap();
        assert_eq!(join(&engine, "n2", 6).await.unwrap(), 4);
        assert!(join(&engine, "n2", 5).await.is_err());
    }

    /// Orders that changed the configuration before are of no effect then.
    #[tokio::test]
    async fn while_nobody_crawls_the_first_machine_decides() {
        let engine = Told::default();
        assert_eq!(join(&engine, "n1", 5).await.unwrap(), 0);
        for id in ["a", "b"] {
            engine.send(LOG, id, "{}".into()).await.unwrap();
        }
        set_state(&engine, "n2", State::Fenced).await;
        set_state(&engine, "n1", State::Live).await;
        assert_eq!(join(&engine, "n1", 7).await.unwrap(), 2);
        assert_eq!(join(&engine, "n2", 7).await.unwrap(), 2);
        // Who begins with the same has what orders changed.
        engine.send(LOG, "c", "{}".into()).await.unwrap();
        assert_eq!(join(&engine, "n1", 7).await.unwrap(), 2);
    }
}
