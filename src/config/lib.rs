//! The configuration: a job's TOML file becomes a checked [`Config`], once.
//!
//! Other crates need not check values again: in a loaded `Config` every value is within
//! its declared range, every address canonical and every rule parsed. An invalid file is
//! refused with *all* errors at once, each with file, line, column, full key, the problem
//! and the allowed values. An unknown key is an error, with a suggestion if a known key is
//! similar.
//!
//! The keys are declared in the crate `spoor-settings`, as plain structs. Here `reading` is
//! the walk that reads a file, `checks` has the constraints between keys, `errors` reports
//! problems, `origin` records where a configuration was written, and `reference` has the
//! walks that write.
//!
//! Begin with `reading`. This crate does not know how a value is used, whether a named file or folder exists,
//! or anything about the network (`ready` checks that). It reads no environment variable
//! and no second file: a configuration depends only on its file and the defaults here.

// Tests choose their own file names.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod checks;
mod errors;
mod floor;
mod given;
pub mod new_job;
mod origin;
mod reading;
mod reference;
mod shared;

#[cfg(test)]
mod tests;

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};

use spoor_values::{address, file_errors, fold, fs};
use toml::de::DeTable;

pub use given::Given;
pub use origin::Origin;
pub use reference::{keys, nearest_key, reference};
pub use spoor_settings::*;
pub use spoor_values::file_errors::{FileError, FileErrors, FilePosition};

/// A checked configuration: the settings of a job, and where they were written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    /// The settings.
    pub settings: JobSettings,
    /// Where they were written.
    pub origin: Origin,
}

impl Deref for Config {
    type Target = JobSettings;

    fn deref(&self) -> &JobSettings {
        &self.settings
    }
}

impl DerefMut for Config {
    fn deref_mut(&mut self) -> &mut JobSettings {
        &mut self.settings
    }
}

/// A key that has different values in two configurations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The full key, such as `politeness.min_delay`.
    pub key: String,
    /// The first value as TOML; `None` if it has none.
    pub from: Option<String>,
    /// The second value.
    pub to: Option<String>,
}

impl Config {
    /// Reads and checks the file at `path`. Relative paths in it are relative to its folder.
    ///
    /// # Errors
    /// All problems in the file, or why it cannot be read.
    pub fn load(path: &Path) -> Result<Self, FileErrors> {
        let name = path.display().to_string();
        let bytes = crate::fs::read(path).map_err(|error| {
            FileErrors::of_file(&name, None, format!("cannot be read: {error}"))
        })?;
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let place = messages::place_in_bytes(&bytes, error.valid_up_to());
            let message = "not UTF-8, as TOML must be; save the file as UTF-8".to_owned();
            FileErrors::of_file(&name, Some(place), message)
        })?;
        let (config, has_rules) = Self::read(text, &name)?;
        let mut config = config.within(path.parent().unwrap_or(Path::new("")));
        if has_rules {
            config.rules.files.push(path.to_owned());
        }
        Ok(config)
    }

    /// The same configuration with its relative paths resolved against `folder`.
    #[must_use]
    pub fn within(&self, folder: &Path) -> Self {
        Self {
            settings: self.settings.within(folder),
            origin: self.origin.clone().in_folder(folder),
        }
    }

    /// Checks `text`; `name` is its file name in messages. Relative paths are kept.
    ///
    /// ```
    /// use spoor_config::Config;
    ///
    /// let job = "[job]\nname = \"cats\"\n\n[limits]\ndocuments = 10_000\n";
    /// let config = Config::parse(job, "cats.toml")?;
    /// assert_eq!(config.job_folder().to_str(), Some("jobs/cats"));
    ///
    /// let errors = Config::parse(&job.replace("documents", "document"), "cats.toml").unwrap_err();
    /// assert_eq!(
    ///     errors.to_string(),
    ///     "cats.toml:5:1: limits.document: unknown key; did you mean `documents`?\n\
    ///      1 error in cats.toml"
    /// );
    /// # Ok::<(), spoor_config::FileErrors>(())
    /// ```
    ///
    /// # Errors
    /// All problems in the text.
    pub fn parse(text: &str, name: &str) -> Result<Self, FileErrors> {
        let (mut config, has_rules) = Self::read(text, name)?;
        if has_rules {
            config.rules.files.push(PathBuf::from(name));
        }
        Ok(config)
    }

    /// Also says whether the text has `[[rule]]` blocks, so that it is a rule file too.
    fn read(text: &str, name: &str) -> Result<(Self, bool), FileErrors> {
        let mut findings = errors::Findings::default();
        // Error recovery allows checking the values of a file with a syntax error too.
        let (tree, syntax) = DeTable::parse_recoverable(text);
        let tree = tree.get_ref();
        let partial = !syntax.is_empty();

        let mut reading = reading::Reading::new(tree, partial, &mut findings);
        let settings = JobSettings::default().walk(&mut reading);
        reading.finish();
        if partial {
            reading::syntax_errors(text, &syntax, &mut findings);
        } else {
            checks::cross_checks(&settings, &mut findings);
        }
        let origin = Origin::new(name, findings.places(text));
        match findings.into_errors(text, name) {
            Some(errors) => Err(errors),
            None => Ok((Self { settings, origin }, tree.contains_key(reading::RULES))),
        }
    }

    /// The keys whose values differ in `other`, in alphabetical order.
    pub fn changes(&self, other: &Self) -> Vec<Changed> {
        reference::changes(self, other)
    }
}
