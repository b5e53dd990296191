//! The configuration: a job's TOML file becomes a checked [`Config`], once.
//!
//! Past this border no code asks whether a value is sane: a `Config` that was
//! loaded has every value within its declared range, every address canonical and
//! every rule parsed. A file that is not so is refused with *every* error at
//! once, each with file, line, column and full key, what is wrong and what is
//! allowed; an unknown key is an error, with the known one that was probably
//! meant.
//!
//! Reading order: `sections` declares every key with its type, default,
//! range and meaning, through the macro of `section`, which makes of each
//! declaration a struct and one walk over its keys. `values` says what a kind of
//! value is and holds the plain kinds, `units` durations and sizes, `kinds`, `listen`, `rules`,
//! `neutral`, `texts` and `formula` those that a crawler brings. `reading` is the walk that reads a file,
//! `checks` what must hold between keys, `errors` how it is told,
//! `origin` where a configuration was written, and `reference` the walks that write. `seeds` reads seed files, and says what a seed with a schedule is.
//!
//! This module must not know who uses a value, whether a file or folder it names
//! exists, or anything of the network (`ready` looks at that). It reads no environment
//! variable and no second file: what is in the file and here is all there is.

mod checks;
mod errors;
mod formula;
mod kinds;
mod listen;
mod neutral;
pub mod new_job;
mod origin;
mod reading;
mod reference;
mod rules;
mod section;
mod sections;
mod seeds;
mod texts;
mod units;
mod values;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use toml::de::DeTable;

pub use errors::{ConfigError, ConfigErrors, Place};
pub use formula::{Around, Formula, Measure, Variable};
pub use kinds::{
    Boundaries, ClassName, Clue, Contact, Documents, Extension, ImageFormat, LogLevel, MediaType,
    Name, ProductToken, Proxy, Scheme, Signal, Source, StoreKind, StrategyKind,
};
pub use listen::Listen;
pub use neutral::Neutral;
pub use origin::Origin;
pub use reference::{keys, nearest_key, reference};
pub use rules::{ConnectTo, HostPattern, ScopeRule};
pub use sections::{
    Annotate, Buckets, Checkpoint, Consent, Control, ControlSample, FrontierSection, Images, Job,
    Limits, Logs, ModelSection, Network, Politeness, Rank, Recrawl, Scope, Seeds, StrategySection,
    Text, Train,
};
pub use seeds::WatchedSeed;
pub use units::Size;
pub use values::Auto;

use section::Walker;

/// Declares [`Config`]: its sections in the order of the reference.
macro_rules! config {
    ($($(#[doc = $meaning:literal])* $field:ident: $section:ty,)*) => {
        /// A checked configuration.
        ///
        /// `Config::default()` has every default and is called `example`; it is
        /// where tests begin.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct Config {
            $($(#[doc = $meaning])* pub $field: $section,)*
            /// Where it was written.
            pub origin: Origin,
        }

        impl Config {
            /// Shows every section to `walker` and makes a configuration of what
            /// it answers.
            fn walk<W: Walker>(&self, walker: &mut W) -> Self {
                Self {
                    $($field: walker.section(&self.$field),)*
                    origin: self.origin.clone(),
                }
            }
        }
    };
}

config! {
    /// `[job]`
    job: Job,
    /// `[seeds]`
    seeds: Seeds,
    /// `[recrawl]`
    recrawl: Recrawl,
    /// `[control_sample]`
    control_sample: ControlSample,
    /// `[train]`
    train: Train,
    /// `[model]`
    model: ModelSection,
    /// `[strategy]`
    strategy: StrategySection,
    /// `[buckets]`
    buckets: Buckets,
    /// `[limits]`
    limits: Limits,
    /// `[politeness]`
    politeness: Politeness,
    /// `[network]`
    network: Network,
    /// `[scope]`
    scope: Scope,
    /// `[images]`
    images: Images,
    /// `[text]`
    text: Text,
    /// `[consent]`
    consent: Consent,
    /// `[rank]`
    rank: Rank,
    /// `[annotate]`
    annotate: Annotate,
    /// `[frontier]`
    frontier: FrontierSection,
    /// `[checkpoint]`
    checkpoint: Checkpoint,
    /// `[logs]`
    logs: Logs,
    /// `[control]`
    control: Control,
}

/// The job names nobody who answers for it, so it must not crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("job.contact {NO_CONTACT}")]
pub struct ContactMissing;

/// What is wrong with a job without `job.contact`.
pub const NO_CONTACT: &str = "is not set, and without it no page is fetched: the operators of \
    web sites must be able to reach you; write `contact = \"mailto:you@your.domain\"` under [job]";

/// A key that has another value in another configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The full key, as `politeness.min_delay`.
    pub key: String,
    /// The one value as TOML; `None` where it has none.
    pub from: Option<String>,
    /// The other one.
    pub to: Option<String>,
}

impl Config {
    /// Reads and checks the file at `path`. Relative paths in it are relative to its folder.
    ///
    /// # Errors
    /// Everything that is wrong with it, or why it cannot be read.
    pub fn load(path: &Path) -> Result<Self, ConfigErrors> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|error| {
            ConfigErrors::of_file(&name, None, format!("cannot be read: {error}"))
        })?;
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let place = errors::place_in_bytes(&bytes, error.valid_up_to());
            let message = "not UTF-8, as TOML must be; save the file as UTF-8".to_owned();
            ConfigErrors::of_file(&name, Some(place), message)
        })?;
        let config = Self::parse(text, &name)?;
        Ok(config.within(path.parent().unwrap_or(Path::new(""))))
    }

    /// The same configuration with its relative paths taken as relative to `folder`.
    #[must_use]
    pub fn within(&self, folder: &Path) -> Self {
        let mut config = self.walk(&mut origin::Within(folder));
        config.origin = config.origin.in_folder(folder);
        config
    }

    /// The same configuration with absolute paths, which holds wherever it is read.
    ///
    /// # Errors
    /// Where the working directory cannot be had.
    pub fn absolute(&self) -> std::io::Result<Self> {
        Ok(self.walk(&mut origin::Within(&std::env::current_dir()?)))
    }

    /// Checks `text`; `name` is what messages call it, a file's name. Relative paths stay
    /// as they are.
    ///
    /// ```
    /// use spoor::config::Config;
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
    /// # Ok::<(), spoor::config::ConfigErrors>(())
    /// ```
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(text: &str, name: &str) -> Result<Self, ConfigErrors> {
        let mut findings = errors::Findings::default();
        // Recovery lets the values of a file with a syntax error be checked too.
        let (tree, syntax) = DeTable::parse_recoverable(text);
        let tree = tree.get_ref();
        let partial = !syntax.is_empty();

        let mut reading = reading::Reading::new(tree, partial, &mut findings);
        let mut config = Self::default().walk(&mut reading);
        reading.finish();
        if partial {
            reading::syntax_errors(text, &syntax, &mut findings);
        } else {
            checks::cross_checks(&config, &mut findings);
        }
        config.origin = Origin::new(name, findings.places(text));
        match findings.into_errors(text, name) {
            Some(errors) => Err(errors),
            None => Ok(config),
        }
    }

    /// The effective configuration as a TOML file with every key that has a value,
    /// to be recorded beside what came of it. Parsing it gives an equal one.
    pub fn to_toml(&self) -> String {
        reference::effective(self)
    }

    /// The keys whose values are not the same in `other`, in the order of the alphabet.
    pub fn changes(&self, other: &Self) -> Vec<Changed> {
        reference::changes(self, other)
    }

    /// How the operator is reached, which every request must say.
    ///
    /// # Errors
    /// [`ContactMissing`] where `job.contact` is not set.
    pub fn contact(&self) -> Result<&Contact, ContactMissing> {
        self.job.contact.as_ref().ok_or(ContactMissing)
    }

    /// The folder of the job's results, `job.folder` and `job.name`.
    pub fn job_folder(&self) -> PathBuf {
        self.job.folder.join(self.job.name.as_str())
    }

    /// The name of the model, the job's where `model.name` is not set.
    pub fn model_name(&self) -> &Name {
        self.model.name.as_ref().unwrap_or(&self.job.name)
    }

    /// The folder of the model, `model.folder` and its name.
    pub fn model_folder(&self) -> PathBuf {
        self.model.folder.join(self.model_name().as_str())
    }
}
