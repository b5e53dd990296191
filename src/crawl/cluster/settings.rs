//! The configuration and the model that all machines of a cluster have, as a part of the
//! [state](super::wanted) that all are told.
//!
//! The first machine writes them, and so does the first one that begins while no machine crawls.
//! All others must have the same.

use serde::{Deserialize, Serialize};

use crate::config::{Changed, Config};

/// The most keys that a message names.
const NAMED: usize = 6;
/// What a text is called that cannot be read.
const PLACE: &str = "the job file of the cluster";

/// What all machines have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// [`Config::shared`].
    pub config: String,
    /// The SHA-256 of the model; `None` where a machine has none.
    pub model: Option<String>,
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
    /// What these differ in from those of another machine; `None` where they are the same.
    pub fn difference(&self, other: &Self) -> Option<Difference> {
        if self.config != other.config {
            let [own, others] =
                [&self.config, &other.config].map(|text| Config::parse(text, PLACE));
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
    use super::*;

    fn settings(limit: u64) -> Settings {
        let text = format!(
            "[job]\nname = \"x\"\n[limits]\ndocuments = {limit}\n[cluster]\nnode = \"n{limit}\"\n"
        );
        Settings {
            config: Config::parse(&text, "x").unwrap().shared(),
            model: Some("ab".to_owned()),
        }
    }

    #[test]
    fn a_difference_names_the_keys_and_nothing_that_belongs_to_a_machine() {
        let one = settings(1);
        assert_eq!(one.difference(&one), None);
        let said = settings(2).difference(&one).unwrap();
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
}
