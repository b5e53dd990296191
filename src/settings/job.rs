//! All settings of one job.

use std::path::{Path, PathBuf};

use crate::{
    Annotate, Archive, Buckets, Canonical, Checkpoint, Cluster, Consent, Contact, Control,
    ControlSample, FrontierSection, Identity, Images, Job, Key, Limits, Logs, ModelSection, Name,
    Network, PdfSection, Politeness, Rank, Recrawl, Rules, Scope, Section, Seeds, StrategySection,
    Text, Train, Value, Walker,
};

/// Declares [`JobSettings`]: its sections in the order of the reference.
macro_rules! job_settings {
    ($($(#[doc = $meaning:literal])* $field:ident: $section:ty,)*) => {
        /// All settings of one job, from any source.
        ///
        /// `JobSettings::default()` has all defaults and the name `example`; tests start from
        /// it.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct JobSettings {
            $($(#[doc = $meaning])* pub $field: $section,)*
        }

        impl JobSettings {
            /// Passes every section to `walker` and builds settings from the results.
            pub fn walk<W: Walker>(&self, walker: &mut W) -> Self {
                Self {
                    $($field: walker.section(&self.$field),)*
                }
            }
        }
    };
}

job_settings! {
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
    /// `[identity]`
    identity: Identity,
    /// `[scope]`
    scope: Scope,
    /// `[pdf]`
    pdf: PdfSection,
    /// `[images]`
    images: Images,
    /// `[text]`
    text: Text,
    /// `[rules]`
    rules: Rules,
    /// `[archive]`
    archive: Archive,
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
    /// `[cluster]`
    cluster: Cluster,
    /// `[logs]`
    logs: Logs,
    /// `[control]`
    control: Control,
}

/// The job has no contact, so it must not crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("job.contact {NO_CONTACT}")]
pub struct ContactMissing;

/// The message for a job without `job.contact`.
pub const NO_CONTACT: &str = "is not set, and without it no page is fetched: the operators of \
    web sites must be able to reach you; write `contact = \"mailto:you@your.domain\"` under [job]";

impl JobSettings {
    /// The same settings with their relative paths resolved against `folder`.
    #[must_use]
    pub fn within(&self, folder: &Path) -> Self {
        self.walk(&mut PathRebase(folder))
    }

    /// The same settings with absolute paths, independent of the working directory.
    ///
    /// # Errors
    ///
    /// The working directory cannot be determined.
    pub fn absolute(&self) -> std::io::Result<Self> {
        Ok(self.within(&std::env::current_dir()?))
    }

    /// The settings as a job file with every key that has a value, recorded with a crawl's
    /// results. Reading it gives equal settings.
    pub fn to_toml(&self) -> String {
        let mut walker = Canonical::default();
        self.walk(&mut walker);
        walker.0
    }

    /// The operator's contact address, which every request must carry.
    ///
    /// # Errors
    ///
    /// [`ContactMissing`] if `job.contact` is not set.
    pub fn contact(&self) -> Result<&Contact, ContactMissing> {
        self.job.contact.as_ref().ok_or(ContactMissing)
    }

    /// The folder of the job's results, `job.folder` and `job.name`.
    pub fn job_folder(&self) -> PathBuf {
        self.job.folder.join(self.job.name.as_str())
    }

    /// The name of the model; the job's name if `model.name` is not set.
    pub fn model_name(&self) -> &Name {
        self.model.name.as_ref().unwrap_or(&self.job.name)
    }

    /// The folder of the model, `model.folder` and its name.
    pub fn model_folder(&self) -> PathBuf {
        self.model.folder.join(self.model_name().as_str())
    }
}

/// The walk that makes relative paths relative to a folder.
struct PathRebase<'a>(&'a Path);

impl Walker for PathRebase<'_> {
    fn section<S: Section>(&mut self, section: &S) -> S {
        section.walk(self)
    }

    fn key<T: Value>(&mut self, _: Key<T>, value: &T) -> T {
        value.within_folder(self.0)
    }
}
