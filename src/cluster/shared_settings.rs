//! The configuration and the model that all machines of a cluster share: a part of the
//! [state](super::wanted) that they all apply.
//!
//! The first machine writes them, and so does the first one that begins while no machine crawls.
//! All others must have the same.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The most keys that a message lists, and the most characters it shows of a value.
const NAMED: usize = 6;
const SHOWN: usize = 60;

/// What all machines have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SharedSettings {
    /// The settings of the job that do not belong to a single machine: sections with keys.
    pub job: Value,
    /// The SHA-256 of the model; `None` if there is no model.
    pub model: Option<String>,
}

/// How the settings of two machines differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// Keys of the job file, in words.
    Job(String),
    /// The model.
    Model,
}

impl SharedSettings {
    /// How these differ from those of another machine; `None` if they are the same.
    pub fn difference(&self, other: &Self) -> Option<Difference> {
        let [own, others] = [self, other].map(|settings| {
            let mut keys = BTreeMap::new();
            add_keys(&mut keys, String::new(), &settings.job);
            keys
        });
        let keys = own
            .keys()
            .chain(others.keys().filter(|key| !own.contains_key(*key)));
        let differ = keys.filter(|key| own.get(*key) != others.get(*key));
        let mut said: Vec<String> = differ
            .map(|key| {
                let [there, here] = [&others, &own].map(|keys| shown(keys.get(key).copied()));
                format!("{key} is {there} there and {here} here")
            })
            .collect();
        if said.is_empty() {
            return (self.model != other.model).then_some(Difference::Model);
        }
        let more = said.len().saturating_sub(NAMED);
        said.truncate(NAMED);
        if more > 0 {
            said.push(format!("and {more} more keys"));
        }
        Some(Difference::Job(said.join("; ")))
    }
}

/// Adds every key below a value, by its full name.
fn add_keys<'v>(keys: &mut BTreeMap<String, &'v Value>, name: String, value: &'v Value) {
    let Value::Object(table) = value else {
        keys.insert(name, value);
        return;
    };
    for (key, value) in table {
        let dot = if name.is_empty() { "" } else { "." };
        add_keys(keys, format!("{name}{dot}{key}"), value);
    }
}

fn shown(value: Option<&Value>) -> String {
    let value = value.map_or_else(|| "none".to_owned(), Value::to_string);
    let short: String = value.chars().take(SHOWN).collect();
    let dots = if short.len() < value.len() { "…" } else { "" };
    format!("{short}{dots}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn settings(limit: u64) -> SharedSettings {
        SharedSettings {
            job: json!({"job": {"name": "x"}, "limits": {"documents": limit}}),
            model: Some("ab".to_owned()),
        }
    }

    #[test]
    fn a_difference_names_the_keys_and_both_values() {
        let one = settings(1);
        assert_eq!(one.difference(&one), None);
        let said = settings(2).difference(&one).unwrap();
        let words = "limits.documents is 1 there and 2 here".to_owned();
        assert_eq!(said, Difference::Job(words));
        let model = SharedSettings {
            model: None,
            ..one.clone()
        };
        assert_eq!(one.difference(&model), Some(Difference::Model));
        // From a later version of spoor, which has more keys.
        let mut later = one.clone();
        for n in 0..8 {
            later.job["later"][format!("k{n}")] = json!("x".repeat(70));
        }
        let Some(Difference::Job(said)) = one.difference(&later) else {
            panic!()
        };
        assert!(said.starts_with("later.k0 is \"xxx") && said.contains("… there and none here"));
        assert!(said.ends_with("; and 2 more keys"), "{said}");
    }
}
