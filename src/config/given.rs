//! Keys of a job given on the command line, as `section.key=value`.

use super::{Config, FileErrors};

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub(super) section: String,
    pub(super) key: String,
    /// The value in TOML.
    pub(super) value: String,
}

impl std::fmt::Display for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{} = {}", self.section, self.key, self.value)
    }
}

impl Given {
    /// Reads `section.key=value`. A value that is not TOML is taken as text, so that it needs no
    /// quotes.
    ///
    /// # Errors
    ///
    /// How it must be written.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let form = "write it as section.key=value, as in politeness.min_delay=2s";
        let (full, value) = text.split_once('=').ok_or(form)?;
        let (section, key) = full.trim().split_once('.').ok_or(form)?;
        let value = value.trim();
        let is_toml = !value.contains('\n') && toml_of(value).is_some();
        Ok(Self {
            section: section.to_owned(),
            key: key.to_owned(),
            value: if is_toml {
                value.to_owned()
            } else {
                toml::Value::from(value).to_string()
            },
        })
    }
}

fn toml_of(value: &str) -> Option<toml::Value> {
    let mut table = format!("x = {value}").parse::<toml::Table>().ok()?;
    table.remove("x")
}

impl Config {
    /// The same configuration with other values for some keys.
    ///
    /// # Errors
    ///
    /// The problems with the values, without a position in a file.
    pub fn with(&self, given: &[Given]) -> Result<Self, FileErrors> {
        const NAME: &str = "the command line";
        let wrong = |message: String| FileErrors::of_file(NAME, None, message);
        let mut tree: toml::Table = (self.to_toml().parse())
            .map_err(|error: toml::de::Error| wrong(error.message().to_owned()))?;
        for Given {
            section,
            key,
            value,
        } in given
        {
            let section = tree
                .entry(section.as_str())
                .or_insert_with(|| toml::Table::new().into());
            if let (Some(keys), Some(value)) = (section.as_table_mut(), toml_of(value)) {
                keys.insert(key.clone(), value);
            }
        }
        let mut config = Self::parse(&tree.to_string(), NAME).map_err(|errors| {
            let errors = errors.into_errors().into_iter();
            // The user has never seen the text that was parsed.
            let errors = errors.map(|error| super::FileError {
                place: None,
                ..error
            });
            FileErrors::new(NAME, errors.collect())
        })?;
        config.origin.clone_from(&self.origin);
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(texts: &[&str]) -> Vec<Given> {
        texts
            .iter()
            .map(|text| Given::parse(text).unwrap())
            .collect()
    }

    #[test]
    fn a_given_key_replaces_that_of_the_file_and_leaves_the_others() {
        let job = "[job]\nname = \"cats\"\n[seeds]\nurls = [\"http://cats.test/\"]\n\
                   [limits]\ndocuments = 10\n[[rule]]\nname = \"a\"\nhosts = [\"a.test\"]\n";
        let config = Config::parse(job, "cats.toml").unwrap();
        let other = config.with(&given(&[
            "limits.documents=70",
            "limits.time=2h",
            "politeness.min_delay = 2s",
        ]));
        let other = other.unwrap();
        let changes = config.changes(&other);
        let keys: Vec<&str> = changes.iter().map(|change| change.key.as_str()).collect();
        assert_eq!(
            keys,
            ["limits.documents", "limits.time", "politeness.min_delay"]
        );
        assert_eq!(other.limits.documents, Some(70));
        assert_eq!(other.rules.files, config.rules.files);
        assert_eq!(other.origin.file(), "cats.toml");
        assert_eq!(config.with(&[]).unwrap(), config);
    }

    #[test]
    fn a_wrong_one_is_refused_by_its_key() {
        let config = Config::default();
        let said = |text| config.with(&given(&[text])).unwrap_err().to_string();
        let unknown = said("limits.document=70");
        assert!(
            unknown.starts_with("the command line: limits.document: unknown key"),
            "{unknown}"
        );
        let value = said("limits.documents=many");
        assert!(
            value.starts_with("the command line: limits.documents: "),
            "{value}"
        );
        assert!(said("limit.documents=7").contains("limit: "));
        assert!(Given::parse("documents=70").is_err());
        assert!(Given::parse("limits.documents").is_err());
    }
}
