//! The configuration and the model that all machines of a cluster have: the value of one key.
//!
//! The first machine writes it, and so does the first one that begins while no machine crawls.
//! All others must have the same. It is a key of its own and no part of the job's, because
//! versions of spoor that do not know it leave it alone there.

use serde::{Deserialize, Serialize};

use super::{Engine, EngineError, Revision};
use crate::config::{Changed, Config};

/// The key.
const KEY: &str = "config";
/// How often the key is tried that others change at the same time.
const ATTEMPTS: usize = 20;
/// The most keys that a message names.
const NAMED: usize = 6;

/// What all machines have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// [`Config::shared`].
    pub config: String,
    /// The SHA-256 of the model; `None` where a machine has none.
    pub model: Option<String>,
    /// What orders up to this one changed of the configuration is in it already.
    #[serde(default)]
    pub order: u64,
}

/// What two settings differ in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// Keys of the configuration, in words.
    Config(String),
    /// The model.
    Model,
}

impl Settings {
    /// Those that are in force; `None` where no machine has written any.
    ///
    /// # Errors
    /// [`EngineError`] where the broker does not answer, or they cannot be read.
    pub async fn read(engine: &impl Engine) -> Result<Option<(Self, Revision)>, EngineError> {
        let found = engine.get(KEY).await?;
        let read = |(bytes, revision): (Vec<u8>, Revision)| match serde_json::from_slice(&bytes) {
            Ok(settings) => Ok((settings, revision)),
            Err(error) => Err(EngineError::Failed {
                to: KEY.to_owned(),
                what: "reading the value",
                why: format!("{error}; do all machines run the same version of spoor?"),
            }),
        };
        found.map(read).transpose()
    }

    /// Writes them in place of those that were read.
    ///
    /// # Errors
    /// [`EngineError`]; [`EngineError::Stale`] where others have changed them meanwhile.
    pub async fn write(
        &self,
        engine: &impl Engine,
        was: Option<Revision>,
    ) -> Result<(), EngineError> {
        // Strings and numbers always serialise.
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        engine.swap(KEY, bytes, was).await.map(drop)
    }

    /// Writes them, unless those that are in force come from a later order.
    ///
    /// # Errors
    /// [`EngineError`].
    pub async fn renew(&self, engine: &impl Engine) -> Result<(), EngineError> {
        for _ in 0..ATTEMPTS {
            let found = Self::read(engine).await?;
            if found
                .as_ref()
                .is_some_and(|(known, _)| known.order >= self.order)
            {
                return Ok(());
            }
            match self
                .write(engine, found.map(|(_, revision)| revision))
                .await
            {
                Err(EngineError::Stale) => {}
                done => return done,
            }
        }
        Err(EngineError::Stale)
    }

    /// What these differ in from those of another machine; `None` where they are the same.
    pub fn difference(&self, other: &Self) -> Option<Difference> {
        if self.config != other.config {
            let [own, others] = [&self.config, &other.config].map(|text| Config::parse(text, KEY));
            match (own, others) {
                (Ok(own), Ok(others)) => {
                    let changes = others.changes(&own);
                    if !changes.is_empty() {
                        return Some(Difference::Config(in_words(&changes)));
                    }
                }
                _ => {
                    let why = "this version of spoor cannot read it, so it is of another one";
                    return Some(Difference::Config(why.to_owned()));
                }
            }
        }
        (self.model != other.model).then_some(Difference::Model)
    }
}

/// The keys, with their values elsewhere and here.
fn in_words(changes: &[Changed]) -> String {
    let said = changes.iter().take(NAMED).map(|Changed { key, from, to }| {
        let [from, to] = [from, to].map(|value| {
            let value = value.as_deref().unwrap_or("none");
            let short: String = value.chars().take(60).collect();
            let dots = if short.len() < value.len() { "…" } else { "" };
            format!("{short}{dots}")
        });
        format!("{key} is {from} there and {to} here")
    });
    let mut said = said.collect::<Vec<_>>().join("; ");
    if changes.len() > NAMED {
        said.push_str(&format!("; and {} more keys", changes.len() - NAMED));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::super::told::{Fate, Told};
    use super::*;

    fn settings(limit: u64, order: u64) -> Settings {
        let text = format!(
            "[job]\nname = \"x\"\n[limits]\ndocuments = {limit}\n[cluster]\nnode = \"n{limit}\"\n"
        );
        Settings {
            config: Config::parse(&text, "x").unwrap().shared(),
            model: Some("ab".to_owned()),
            order,
        }
    }

    #[test]
    fn a_difference_names_the_keys_and_nothing_that_belongs_to_a_machine() {
        let one = settings(1, 0);
        assert_eq!(one.difference(&one), None);
        let said = settings(2, 0).difference(&one).unwrap();
        let words = "limits.documents is 1 there and 2 here".to_owned();
        assert_eq!(said, Difference::Config(words));
        let model = Settings {
            model: None,
            ..one.clone()
        };
        assert_eq!(one.difference(&model), Some(Difference::Model));
        let later = Settings {
            config: format!("{}\n[later]\nkey = 1\n", one.config),
            ..one.clone()
        };
        assert!(matches!(
            one.difference(&later),
            Some(Difference::Config(_))
        ));
    }

    #[tokio::test]
    async fn a_later_order_is_never_replaced_by_an_earlier_one() {
        let told = Told::default();
        assert_eq!(Settings::read(&told).await.unwrap(), None);
        settings(1, 0).write(&told, None).await.unwrap();
        assert_eq!(
            settings(9, 0).write(&told, None).await,
            Err(EngineError::Stale)
        );
        told.next_swaps(KEY, [Fate::Refused]);
        settings(3, 3).renew(&told).await.unwrap();
        settings(2, 2).renew(&told).await.unwrap();
        let (known, _) = Settings::read(&told).await.unwrap().unwrap();
        assert_eq!(known, settings(3, 3));
    }
}
