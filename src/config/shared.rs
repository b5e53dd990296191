//! The part of a configuration that all machines of a cluster share.

use serde_json::Value;

use super::{Config, FileErrors};

/// Sections that do not affect a crawl, or concern only the machine.
const OWN_SECTIONS: [&str; 5] = ["annotate", "control", "logs", "rank", "train"];

/// Keys that belong to a machine: its name, its share, and the paths of files on it.
const OWN_KEYS: [(&str, &[&str]); 8] = [
    ("archive", &["dictionary"]),
    ("cluster", &["brokers", "credentials", "node", "weight"]),
    ("identity", &["key"]),
    ("job", &["folder"]),
    ("model", &["folder"]),
    ("network", &["extra_ca"]),
    ("rules", &["files"]),
    ("seeds", &["files"]),
];

impl Config {
    /// The settings that all machines of a cluster share, as sections with every key that has a
    /// value: without the keys that belong to one machine, and without paths of files.
    pub fn shared(&self) -> Value {
        // It was written just now, so it can be parsed.
        let mut table: toml::Table = toml::from_str(&self.to_toml()).unwrap_or_default();
        for section in OWN_SECTIONS {
            table.remove(section);
        }
        for (section, keys) in OWN_KEYS {
            if let Some(section) = table.get_mut(section).and_then(toml::Value::as_table_mut) {
                for key in keys {
                    section.remove(*key);
                }
            }
        }
        serde_json::to_value(&table).unwrap_or_default()
    }

    /// Another machine's [shared](Self::shared) settings together with this machine's own.
    ///
    /// # Errors
    ///
    /// The problems with them: another version of spoor may have other keys.
    pub fn with_shared(&self, shared: &Value) -> Result<Self, FileErrors> {
        const NAME: &str = "the job file of the cluster";
        let text = toml::to_string(shared)
            .map_err(|error| FileErrors::of_file(NAME, None, error.to_string()))?;
        let mut shared = Self::parse(&text, NAME)?;
        shared.rules.files = self.rules.files.clone();
        let cluster = shared.settings.cluster.clone();
        shared.cluster = super::Cluster {
            brokers: self.cluster.brokers.clone(),
            credentials: self.cluster.credentials.clone(),
            node: self.cluster.node.clone(),
            weight: self.cluster.weight,
            ..cluster
        };
        shared.job.folder = self.job.folder.clone();
        shared.model.folder = self.model.folder.clone();
        shared.archive.dictionary = self.archive.dictionary.clone();
        shared.identity.key = self.identity.key.clone();
        shared.network.extra_ca = self.network.extra_ca.clone();
        shared.seeds.files = self.seeds.files.clone();
        shared.annotate = self.annotate.clone();
        shared.control = self.control.clone();
        shared.logs = self.logs.clone();
        shared.rank = self.rank.clone();
        shared.train = self.train.clone();
        shared.origin = self.origin.clone();
        Ok(shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_a_machine_is_left_out_and_put_back() {
        let own = "[job]\nname = \"x\"\nfolder = \"a\"\n[frontier]\nstore = \"fjall\"\n\
                   [cluster]\nbrokers = [\"nats://n1:4222\"]\nnode = \"m1\"\nweight = 2\n\
                   store = \"file:///s\"\n[control]\nlisten = false\n[limits]\nfetches = 3\n\
                   [model]\nfolder = \"models\"\n[seeds]\nfiles = [\"s.txt\"]\n";
        let own = Config::parse(own, "own.toml").unwrap();
        let shared = own.shared();
        assert_eq!(shared["limits"]["fetches"], 3);
        assert_eq!(shared["cluster"]["store"], "file:///s");
        let text = shared.to_string();
        for left_out in ["node", "nats://", "weight", "listen", "s.txt", "\"a\""] {
            assert!(!text.contains(left_out), "{left_out} in {text}");
        }
        assert_eq!(own.with_shared(&shared).unwrap(), own);
        let later = serde_json::json!({"job": {"name": "x"}, "later": {"key": 1}});
        let refused = own.with_shared(&later).unwrap_err().to_string();
        assert!(refused.contains("later: unknown"), "{refused}");
    }
}
