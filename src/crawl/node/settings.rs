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
